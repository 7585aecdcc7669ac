"""Options, declared once: the fields of a subclass of :class:`Options` are a command's options.

::

    class SgdOptions(Options):
        n: int | None = option("How many examples.", RUN)
        noise: float | None = option("Deviation of the noise.", WANTED, keyword="noise_multiplier")

        rules = (Required("n", "how many examples there are"), OneOf(("noise", "epsilon"), "…"))


    @command(app, ACCOUNT)
    def sgd(options: SgdOptions) -> None: ...

The type of a field says how it is read: ``1e5`` is a whole number, a ``bool`` is a flag, a
``Literal`` is one of its words. :func:`command` turns the fields into what Typer reads, checks the
table of rules, and lets errors of the library name the option that stands for the argument they
speak of. A typing error is answered in one line.
"""

from __future__ import annotations

import inspect
import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from decimal import Decimal, InvalidOperation
from functools import partial
from types import GenericAlias, NoneType
from typing import Any, ClassVar, Literal, NamedTuple, dataclass_transform, get_args, get_type_hints

import typer

from shoal.cli.app import Command
from shoal.errors import InvalidArgumentError, RefusedError, ShoalError

Function = Callable[[Any], None]  # of the options of one command
Engine = Literal["local", "spark"]  # where rows or records are worked on
MASTER = "With --engine spark: its master, or sc://HOST for Spark Connect; default: local[*]."
OUT = "What to make of it"
_UNSAID: Any = object()
_LARGEST = 1e21


# --------------------------------------------------------------------------- what people type


def read_number(text: str, kind: type = float) -> Any:  # noqa: ANN401 - of that kind
    """A finite number; a whole one may be in scientific notation, too.

    >>> read_number("0.5"), read_number("1e5", int), read_number("200_000", int)
    (0.5, 100000, 200000)
    """
    try:
        value = float(text)
        if kind is int:
            exact = Decimal(text)
            value = int(exact) if abs(value) < _LARGEST and exact == round(exact) else math.nan
    except (ValueError, InvalidOperation):
        value = math.nan
    if not math.isfinite(value):
        such = "whole number such as 100000 or 1e5"
        if kind is float:
            such = "finite number such as 0.5 or 1e-6"
        raise typer.BadParameter(f"expected a {such}, got {text!r}")
    return value


read_int = partial(read_number, kind=int)


def read_choice(choices: tuple[str, ...], text: str) -> str:
    """One of a few words."""
    if text not in choices:
        raise typer.BadParameter(f"expected one of {', '.join(choices)}, got {text!r}")
    return text


class Bounds(NamedTuple):
    """Public limits of a number."""

    low: float
    high: float

    @classmethod
    def read(cls, text: str) -> Bounds:
        """Two numbers, the lower one first.

        >>> Bounds.read("0,100")
        Bounds(low=0.0, high=100.0)
        """
        parts = text.split(",")
        if len(parts) != 2:
            raise typer.BadParameter(f"expected two numbers such as 0,100, got {text!r}")
        low, high = (read_number(part.strip()) for part in parts)
        if not low < high:
            raise typer.BadParameter(f"expected the lower bound first, got {text!r}")
        return cls(low, high)


_READ: dict[type, tuple[str, Callable[[str], Any]]] = {
    int: ("WHOLE", read_int),
    float: ("NUMBER", read_number),
    Bounds: ("LOW,HIGH", Bounds.read),
}


# ------------------------------------------------------------------------------ declared options


class Declared(NamedTuple):
    """An option or an argument, before it is known which field has it."""

    default: Any
    name: str
    keyword: str | None
    words: dict[str, Any]


def option(
    text: str,
    panel: str = OUT,
    metavar: str | None = None,
    *,
    default: Any = _UNSAID,  # noqa: ANN401 - of the field's type
    name: str = "",
    keyword: str | None = None,
    **words: Any,  # noqa: ANN401 - Typer's own
) -> Any:  # noqa: ANN401 - stands for a value of the field's type
    """An option; ``name`` and the library's ``keyword`` if they are not the field's.

    A name without dashes is an argument's. It is required unless it has a default; an option is
    only if its default is ``...``.
    """
    if name and not name.startswith("-"):
        return Declared(... if default is _UNSAID else default, name, keyword, {"help": text})
    words |= {"help": text, "rich_help_panel": panel, "metavar": metavar}
    return Declared(None if default is _UNSAID else default, name, keyword, words)


class Required(NamedTuple):
    """An option that must be given (unless one of ``unless`` is; beside ``when``, or always)."""

    option: str
    what: str
    unless: tuple[str, ...] = ()
    when: tuple[str, ...] = ()


class Excludes(NamedTuple):
    """An option beside which others make no sense (unless one of ``unless`` is given)."""

    option: str
    others: tuple[str, ...]
    why: str
    unless: tuple[str, ...] = ()


class Needs(NamedTuple):
    """An option that makes sense only beside one of others."""

    option: str
    others: tuple[str, ...]
    what: str


class OneOf(NamedTuple):
    """Options of which exactly one is given (unless one of ``unless`` is)."""

    options: tuple[str, ...]
    what: str
    unless: tuple[str, ...] = ()


Rule = Required | Excludes | Needs | OneOf


@dataclass_transform(frozen_default=True, kw_only_default=True)
class BareOptions:
    """What was typed. None, False and an empty list are options that were not given.

    A rule may speak of one word of a choice: ``mode=onion``.
    """

    rules: ClassVar[tuple[Rule, ...]] = ()
    declared: ClassVar[Mapping[str, Declared]] = {}

    def __init_subclass__(cls) -> None:
        declared: dict[str, Declared] = {}
        for base in reversed(cls.__bases__):
            declared |= getattr(base, "declared", {})
        for name, each in list(vars(cls).items()):
            if isinstance(each, Declared):
                shown = each.name or f"--{name.strip('_').replace('_', '-')}"
                declared[name] = each._replace(name=shown)
                setattr(cls, name, field(default=each.default))
        cls.declared = declared
        dataclass(frozen=True, kw_only=True)(cls)

    def only(self, *names: str) -> dict[str, Any]:
        """Those of these options that were given, as the library's keywords: it has defaults."""
        values = {self.declared[name].keyword or name: getattr(self, name) for name in names}
        return {
            name: value
            for name, value in values.items()
            if value is not None and value is not False and value != []
        }

    def arguments(self, callee: Callable[..., object]) -> dict[str, Any]:
        """Those of these options that were given and that a function or class of the library takes.

        A field is an argument by its name, or its keyword: nothing lists it again. One that is
        called like a parameter and means something else is no case for this.
        """
        taken = inspect.signature(callee).parameters
        named = {name: each.keyword or name for name, each in self.declared.items()}
        return self.only(*(name for name, keyword in named.items() if keyword in taken))

    def obey(self, *rules: Rule) -> None:
        """Refuse what breaks a rule, with the one option to leave out or to add."""
        names = {name for name in self.declared if self.only(name)}
        names |= {f"{name}={getattr(self, name)}" for name in names}

        def shown(name: str) -> str:
            option, _, word = name.partition("=")
            return f"{self.declared[option].name} {word}".strip()

        for rule in rules:
            match rule:
                case Required(name, what, unless, when) if not names & {name, *unless}:
                    if not when or names & {*when}:
                        raise RefusedError(f"{shown(name)} is missing: {what}")
                case Excludes(name, others, why, unless) if name in names and not names & {*unless}:
                    wrong = [shown(other) for other in others if other in names]
                    if wrong:
                        raise RefusedError(f"{why}: leave out {' and '.join(wrong)}")
                case Needs(name, others, what) if name in names and not names & {*others}:
                    either = " or ".join(map(shown, others))
                    raise RefusedError(f"{shown(name)} needs {either}: {what}")
                case OneOf(options, what, unless) if len(names & {*options}) != 1 and not names & {
                    *unless
                }:
                    *most, last = map(shown, options)
                    chosen = " and ".join(shown(name) for name in options if name in names)
                    listed = f"{', '.join(most)} and {last}"
                    raise RefusedError(
                        f"give one of {listed}, not {chosen or 'none of them'}: {what}"
                    )

    def check(self) -> None:
        """Refuse what no rule can say."""

    def unknown(self, error: InvalidArgumentError) -> InvalidArgumentError:
        """What is refused of an argument that no option stands for."""
        return error

    def standing(self) -> dict[str, str]:
        """The options that stand for arguments of the library: those of the name, or keyword."""
        named = {each.keyword: name for name, each in self.declared.items() if each.keyword}
        return {name: name for name in self.declared} | named


class Options(BareOptions):
    """Of a command whose answer a program may read."""

    json: bool = option("Print JSON.")


# ------------------------------------------------------------------------- from fields to Typer


def command(
    app: typer.Typer, panel: str | None = None, name: str | None = None, *, server: str = ""
) -> Callable[[Function], Function]:
    """Register a function of :class:`Options` as a command, in this panel of ``shoal --help``.

    ``server`` is what it is called, if it is refused where the server's packages are missing.
    """

    def register(function: Function) -> Function:
        kind: type[BareOptions] = get_type_hints(function)["options"]

        def run(**values: Any) -> None:  # noqa: ANN401 - one for each field
            options = kind(**values)
            try:
                options.obey(*options.rules)
                options.check()
                if server:
                    from shoal.service.ops.health import need_server

                    need_server(server, getattr(options, "store", None))
                function(options)
            except InvalidArgumentError as error:
                raise in_options(error, options) from error

        hints, declared = get_type_hints(kind), kind.declared
        last = {each: declared[each].words.get("rich_help_panel") == OUT for each in declared}
        order = sorted(declared, key=lambda each: (last[each], each == "json"))
        parameters = []
        for each in order:  # the type says how the text is read, unless the option has a parser
            said, hint, default = declared[each], hints[each], declared[each].default
            read = hint
            while NoneType in get_args(read) or isinstance(read, GenericAlias):  # list[str] | None
                read = get_args(read)[0]
            choices = get_args(read)
            metavar, parser = _READ.get(read, ("FILE", None))
            if read is bool:
                metavar, default = "", bool(default)
            elif choices:
                metavar, parser = "|".join(choices), partial(read_choice, choices)
            words = {"parser": parser} | said.words
            if said.name.startswith("-"):
                words["metavar"] = metavar if words["metavar"] is None else words["metavar"]
                info = typer.Option(default, said.name, **words)
            else:
                info = typer.Argument(default, metavar=said.name, **words)
            only = inspect.Parameter.KEYWORD_ONLY
            parameters.append(inspect.Parameter(each, only, default=info, annotation=hint))
        run.__name__, run.__doc__ = function.__name__, function.__doc__
        run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
        run.__annotations__ = {each.name: each.annotation for each in parameters}
        app.command(name, rich_help_panel=panel, cls=Command)(run)
        return function

    return register


def in_options(error: ShoalError, options: BareOptions) -> ShoalError:
    """What the library refuses, with the option that stands for the argument, if there is one."""
    standing = options.standing()
    names = {name: options.declared[each].name for name, each in standing.items()}
    if not isinstance(error, InvalidArgumentError):
        return error
    if error.name not in names:
        return options.unknown(error)
    option = names[error.name]
    expected = re.sub(rf"(?<![-\w]){re.escape(error.name)}\b", option, error.expected)
    expected = re.sub(r"\b(\w+)=True\b", lambda flag: names.get(flag[1], flag[0]), expected)
    value = error.value
    if isinstance(value, list | tuple):  # as it is typed
        value = ",".join(map(str, value))
    shown = "nothing" if value is None else f"{option} {value}"
    if isinstance(getattr(options, standing[error.name]), bool):
        shown = option
    return RefusedError(f"expected {expected}, got {shown}")
