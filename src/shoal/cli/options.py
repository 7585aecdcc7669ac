"""Options, declared once: the annotated fields of a frozen dataclass are a command's options.

::

    @dataclass(frozen=True, kw_only=True)
    class SgdOptions(Options):
        n: Annotated[int | None, whole("How many examples.", RUN)] = None
        noise: Annotated[float | None, number("Deviation of the noise.", WANTED)] = None

        rules = (Required("n", "how many examples there are"), OneOf(("noise", "epsilon"), "…"))


    @command(app, ACCOUNT)
    def sgd(options: SgdOptions) -> None: ...

:func:`command` turns the fields into what Typer reads, checks the table of rules, and lets errors
of the library name the option that stands for the argument they speak of. What people type is read
by the parsers here: ``1e5`` is a whole number, and a typing error is answered in one line.
"""

from __future__ import annotations

import inspect
import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import MISSING, dataclass, fields
from decimal import Decimal, InvalidOperation
from enum import StrEnum
from functools import wraps
from typing import Any, ClassVar, NamedTuple, TypeVar, get_type_hints

import typer
from typer.models import ArgumentInfo, OptionInfo

from shoal.cli.app import Command
from shoal.errors import InvalidArgumentError, ShoalError

Choice = TypeVar("Choice", bound=StrEnum)
Chosen = TypeVar("Chosen", bound="Options")
_LONGEST_EXPONENT = 20


class RefusedError(ShoalError):
    """Options that make no sense together, or a file that cannot be used."""


# ------------------------------------------------------------------------------ kinds of options


def number(text: str, panel: str) -> OptionInfo:
    """An option that takes a finite number."""
    return option(text, panel, "NUMBER", read_number)


def whole(text: str, panel: str) -> OptionInfo:
    """An option that takes a whole number, 1e5 too."""
    return option(text, panel, "WHOLE", read_whole)


def choice(text: str, panel: str, choices: type[Choice], name: str | None = None) -> OptionInfo:
    """An option that takes one of a few words."""
    return option(text, panel, "|".join(choices), reads(choices), name)


def option(
    text: str,
    panel: str,
    metavar: str,
    parser: Callable[[str], Any] | None = None,
    name: str | None = None,
) -> OptionInfo:
    """An option with its own parser, or with Typer's; ``name`` if it is not the field's."""
    made: OptionInfo = typer.Option(
        *(() if name is None else (name,)),
        help=text,
        rich_help_panel=panel,
        metavar=metavar,
        parser=parser,
    )
    return made


def flag(name: str, text: str, panel: str) -> OptionInfo:
    """A switch, off unless it is given."""
    made: OptionInfo = typer.Option(name, help=text, rich_help_panel=panel, metavar="")
    return made


# ----------------------------------------------------------------- which options go together


class Required(NamedTuple):
    """An option that must be given (unless one of ``unless`` is)."""

    option: str
    what: str
    unless: tuple[str, ...] = ()

    def check(self, given: Mapping[str, Any]) -> None:
        """Refuse if it is missing."""
        if self.option not in given and not any(other in given for other in self.unless):
            raise RefusedError(f"{dashed(self.option)} is missing: {self.what}")


class Excludes(NamedTuple):
    """An option beside which others make no sense."""

    option: str
    others: tuple[str, ...]
    why: str

    def check(self, given: Mapping[str, Any]) -> None:
        """Refuse the others."""
        if self.option in given:
            leave_out(given, self.others, self.why)


class Needs(NamedTuple):
    """An option that makes sense only beside one of others."""

    option: str
    others: tuple[str, ...]
    what: str

    def check(self, given: Mapping[str, Any]) -> None:
        """Refuse it alone."""
        if self.option in given and not any(other in given for other in self.others):
            names = " or ".join(map(dashed, self.others))
            raise RefusedError(f"{dashed(self.option)} needs {names}: {self.what}")


class OneOf(NamedTuple):
    """Options of which exactly one is given."""

    options: tuple[str, ...]
    what: str

    def check(self, given: Mapping[str, Any]) -> None:
        """Refuse none and several."""
        chosen = [name for name in self.options if name in given]
        if len(chosen) != 1:
            names = list(map(dashed, self.options))
            instead = " and ".join(map(dashed, chosen)) or "none of them"
            listed = f"{', '.join(names[:-1])} and {names[-1]}"
            raise RefusedError(f"give one of {listed}, not {instead}: {self.what}")


Rule = Required | Excludes | Needs | OneOf


@dataclass(frozen=True, kw_only=True)
class Options:
    """What was typed. None, False and an empty list are options that were not given.

    ``arguments`` names the option of a library argument that is called otherwise.
    """

    rules: ClassVar[tuple[Rule, ...]] = ()
    arguments: ClassVar[Mapping[str, str]] = {}

    @property
    def given(self) -> dict[str, Any]:
        """The options that were given, by the names of their fields."""
        values = {field.name: getattr(self, field.name) for field in fields(self)}
        return {
            name: value
            for name, value in values.items()
            if value is not None and value is not False and value != []
        }

    def only(self, *names: str) -> dict[str, Any]:
        """Those of these options that were given, as keywords: the library has the defaults."""
        given = self.given
        return {name: given[name] for name in names if name in given}

    def check(self) -> None:
        """Refuse what makes no sense together, with the one option to leave out or to add."""
        for rule in self.rules:
            rule.check(self.given)


def leave_out(given: Iterable[str], others: Iterable[str], why: str) -> None:
    """Refuse if any of the others was given."""
    named = [dashed(name) for name in others if name in given]
    if named:
        raise RefusedError(f"{why}: leave out {' and '.join(named)}")


def dashed(name: str) -> str:
    """The option of a field (``with_`` is ``--with``)."""
    return f"--{name.strip('_').replace('_', '-')}"


# ------------------------------------------------------------------------- from fields to Typer


def command(
    app: typer.Typer, panel: str | None = None, name: str | None = None
) -> Callable[[Callable[[Chosen], None]], Callable[[Chosen], None]]:
    """Register a function of :class:`Options` as a command, in this panel of ``shoal --help``."""

    def register(function: Callable[[Chosen], None]) -> Callable[[Chosen], None]:
        (parameter,) = inspect.signature(function).parameters
        kind: type[Chosen] = get_type_hints(function)[parameter]

        @wraps(function)
        def run(**values: Any) -> None:  # noqa: ANN401 - one for each field
            with in_options(kind):
                options = kind(**values)
                options.check()
                function(options)

        hints = get_type_hints(kind, include_extras=True)
        parameters = [
            inspect.Parameter(
                field.name,
                inspect.Parameter.KEYWORD_ONLY,
                default=inspect.Parameter.empty if field.default is MISSING else field.default,
                annotation=hints[field.name],
            )
            for field in fields(kind)
        ]
        run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
        run.__annotations__ = {each.name: each.annotation for each in parameters}
        del run.__wrapped__
        app.command(name, rich_help_panel=panel, cls=Command)(run)
        return function

    return register


@contextmanager
def in_options(kind: type[Options]) -> Iterator[None]:
    """What the library refuses is said in terms of the options of this command."""
    try:
        yield
    except InvalidArgumentError as error:
        text = spoken(error, kind)
        if text is None:
            raise
        raise RefusedError(text) from error


def spoken(error: InvalidArgumentError, kind: type[Options]) -> str | None:
    """The error's message with the option that stands for the argument; None if there is none."""
    names = shown_names(kind)
    names |= {argument: names[field] for argument, field in kind.arguments.items()}
    if error.name not in names:
        return None
    option = names[error.name]
    expected = re.sub(rf"(?<![-\w]){re.escape(error.name)}\b", option, error.expected)
    expected = re.sub(r"\b(\w+)=True\b", lambda flag: names.get(flag[1], flag[0]), expected)
    value = "nothing" if error.value is None else f"{option} {error.value}"
    return f"expected {expected}, got {value}"


def shown_names(kind: type[Options]) -> dict[str, str]:
    """What stands for each field on the command line: an option, or an argument's word."""
    names: dict[str, str] = {}
    for field, hint in get_type_hints(kind, include_extras=True).items():
        for info in getattr(hint, "__metadata__", ()):
            names[field] = dashed(field)
            if isinstance(info, ArgumentInfo):
                names[field] = info.metavar or field
            if isinstance(info, OptionInfo) and info.param_decls:
                names[field] = info.param_decls[0]
    return names


# ------------------------------------------------------------------------------ what people type


def read_whole(text: str) -> int:
    """A whole number, also in scientific notation.

    >>> read_whole("1e5"), read_whole("200_000")
    (100000, 200000)
    """
    try:
        value = Decimal(text)
    except InvalidOperation:
        value = Decimal("NaN")
    if not value.is_finite() or value.adjusted() > _LONGEST_EXPONENT or value != round(value):
        raise typer.BadParameter(f"expected a whole number such as 100000 or 1e5, got {text!r}")
    return int(value)


def read_number(text: str) -> float:
    """A finite number."""
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        raise typer.BadParameter(f"expected a finite number such as 0.5 or 1e-6, got {text!r}")
    return value


class Bounds(NamedTuple):
    """Public limits of a number."""

    low: float
    high: float


def read_bounds(text: str) -> Bounds:
    """Two numbers, the lower one first.

    >>> read_bounds("0,100")
    Bounds(low=0.0, high=100.0)
    """
    parts = text.split(",")
    if len(parts) != 2:
        raise typer.BadParameter(f"expected two numbers such as 0,100, got {text!r}")
    low, high = (read_number(part.strip()) for part in parts)
    if not low < high:
        raise typer.BadParameter(f"expected the lower bound first, got {text!r}")
    return Bounds(low, high)


def reads(choices: type[Choice]) -> Callable[[str], Choice]:
    """A parser for one of a few words."""

    def parse(text: str) -> Choice:
        try:
            return choices(text)
        except ValueError:
            known = ", ".join(choices)
            raise typer.BadParameter(f"expected one of {known}, got {text!r}") from None

    return parse


def argument(text: str, metavar: str) -> ArgumentInfo:
    """What stands without an option's name."""
    made: ArgumentInfo = typer.Argument(metavar=metavar, help=text)
    return made
