"""Every exception Shoal raises on purpose.

::

    ShoalError
    ├── InvalidArgumentError (ValueError)      one argument is not acceptable
    │   └── InvalidTypeError (TypeError)       an argument is another kind of thing altogether
    ├── OutOfRegimeError (ValueError)          a published bound does not cover these parameters
    ├── UnreachableTargetError (ValueError)    no setting reaches the target asked for
    ├── PrecisionError (ArithmeticError)       the answer is below what the method can certify
    ├── UncertifiedError (ArithmeticError)     a computation overflowed, and proves nothing
    ├── EngineError (RuntimeError)             a cluster cannot do, or did not finish, its work
    ├── MissingExtraError (ImportError)        an optional dependency is not installed
    └── RefusedError                           a file, a directory or options that cannot be used

Each carries the values it speaks about, and its one-line message says what to do. All of them
survive pickling, so that what is raised in another process is raised here with its values.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any


class ShoalError(Exception):
    """Base of everything Shoal raises on purpose.

    Every error keeps the values it is about as attributes, and says what to do about it.

    Example:
        >>> import shoal
        >>> try:
        ...     shoal.amplify(local_epsilon=4, n=0)
        ... except shoal.ShoalError as error:
        ...     print(error)
        expected a whole number n with 1 <= n <= 1e15, got n=0
    """

    def __reduce__(self) -> tuple[Callable[..., ShoalError], tuple[Any, ...]]:
        # By default an exception is made again from its message alone.
        return _again, (type(self), self.args, vars(self))


class InvalidArgumentError(ShoalError, ValueError):
    """An argument is outside the values it may take.

    Attributes:
        name: The argument.
        value: What it was.
        expected: What it may be.

    Example:
        >>> import shoal
        >>> shoal.amplify(local_epsilon=-1, n=1000)
        Traceback (most recent call last):
            ...
        shoal.errors.InvalidArgumentError: expected ... got local_epsilon=-1
    """

    def __init__(self, name: str, value: object, expected: str) -> None:
        self.name = name
        self.value = value
        self.expected = expected
        super().__init__(f"expected {expected}, got {name}={value!r}")


class InvalidTypeError(InvalidArgumentError, TypeError):
    """An argument that is another kind of thing: a table or a function for a randomizer.

    Attributes:
        name: The argument.
        value: What it was, in words.
        expected: What it has to be.

    Example:
        >>> import shoal
        >>> shoal.amplify([[0.5, 0.5], [0.5, 0.5]], n=1000)
        Traceback (most recent call last):
            ...
        shoal.errors.InvalidTypeError: expected a BlanketLaw or a randomizer ...
    """


class OutOfRegimeError(ShoalError, ValueError):
    """A theorem was asked about parameters it does not cover.

    Attributes:
        bound: The theorem.
        condition: What it needs.
        given: The parameters.
        instead: Which bound covers them.

    Example:
        >>> import shoal
        >>> shoal.amplify(local_epsilon=4, n=1000, bound="efmrtt19")
        Traceback (most recent call last):
            ...
        shoal.errors.OutOfRegimeError: efmrtt19 needs ...
    """

    def __init__(
        self, bound: str, condition: str, given: Mapping[str, object], instead: str
    ) -> None:
        self.bound = bound
        self.condition = condition
        self.given = dict(given)
        self.instead = instead
        shown = ", ".join(f"{name}={_shown(value)}" for name, value in self.given.items())
        super().__init__(f"{bound} needs {condition}, given {shown}; use {instead} instead")


class UnreachableTargetError(ShoalError, ValueError):
    """No value of the unknown reaches the target.

    Attributes:
        target: What was to be reached.
        reason: Why it is out of reach.
        advice: What to change.

    Example:
        >>> import shoal
        >>> shoal.required_n(epsilon=0.1, local_epsilon=40)
        Traceback (most recent call last):
            ...
        shoal.errors.UnreachableTargetError: cannot reach (0.1, 1e-06)-DP: not even ...
    """

    def __init__(self, target: str, reason: str, advice: str) -> None:
        self.target = target
        self.reason = reason
        self.advice = advice
        super().__init__(f"cannot reach {target}: {reason}; {advice}")


class PrecisionError(ShoalError, ArithmeticError):
    """A number smaller than what the method can certify was asked for.

    Attributes:
        quantity: What was asked for.
        value: The number.
        limit: The smallest that can be certified.
        instead: What to do.

    Example:
        >>> import shoal
        >>> shoal.amplify(local_epsilon=1, n=1000, rounds=10, delta=1e-40)
        Traceback (most recent call last):
            ...
        shoal.errors.PrecisionError: ...delta=1e-40 is below the 2.3e-11 it can certify; ...
    """

    def __init__(self, quantity: str, value: float, limit: float, instead: str) -> None:
        self.quantity = quantity
        self.value = value
        self.limit = limit
        self.instead = instead
        super().__init__(f"{quantity}={value:g} is below the {limit:.2g} it can certify; {instead}")


class UncertifiedError(ShoalError, ArithmeticError):
    """What should enclose a number is no interval: nothing is proved.

    Attributes:
        log_lower: The lower end of log δ, as it came out.
        log_upper: The upper end.

    Example:
        >>> raise UncertifiedError(float("nan"), 0.0)
        Traceback (most recent call last):
            ...
        shoal.errors.UncertifiedError: no certified answer: log delta came out ...
    """

    def __init__(self, log_lower: float, log_upper: float) -> None:
        self.log_lower = log_lower
        self.log_upper = log_upper
        super().__init__(
            f"no certified answer: log delta came out between {log_lower:g} and {log_upper:g}; "
            "the parameters are too extreme for double precision"
        )


class EngineError(ShoalError, RuntimeError):
    """Where the rows are, something is missing or went wrong; nothing was released.

    Attributes:
        engine: What ran the collection, such as Spark.
        reason: What happened.
        advice: What to do.

    Example:
        >>> raise EngineError("Spark", "there is no Java", "install Java 17 or later")
        Traceback (most recent call last):
            ...
        shoal.errors.EngineError: Spark cannot do it: there is no Java; install Java 17 or later
    """

    def __init__(self, engine: str, reason: str, advice: str) -> None:
        self.engine = engine
        self.reason = reason
        self.advice = advice
        super().__init__(f"{engine} cannot do it: {reason}; {advice}")


class MissingExtraError(ShoalError, ImportError):
    """An optional dependency is needed and not installed.

    Attributes:
        feature: What needs it.
        extra: The extra of the package that brings it.

    Example:
        >>> print(MissingExtraError("running on Spark", "spark"))
        running on Spark needs ...: pip install ...
    """

    def __init__(self, feature: str, extra: str) -> None:
        self.feature = feature
        self.extra = extra
        names = ", ".join(map(_name, missing_requirements(extra))) or f"the extra {extra}"
        super().__init__(f"{feature} needs {names}: {install_command(extra)}")


class RefusedError(ShoalError):
    """What a command was asked to do cannot be done as things are; nothing was changed.

    Attributes:
        what: What cannot be done, or all that there is to say.
        why: Why not.
        advice: What to do.

    Example:
        >>> print(RefusedError("cannot use DIR", "it is a file", "name another directory"))
        cannot use DIR: it is a file; name another directory
    """

    def __init__(self, what: str, why: str = "", advice: str = "") -> None:
        self.what = what
        self.why = why
        self.advice = advice
        reason = f": {why}" if why else ""
        super().__init__(f"{what}{reason}{'; ' if advice else ''}{advice}")


def missing_requirements(extra: str) -> list[str]:
    """What cannot be imported here of an extra; all of it, if that is not what is wrong.

    Wheel or clone, requirements are installed in the same way, whereas extras are not.
    """
    from importlib import metadata, util

    try:
        listed = metadata.requires("shoal") or []
    except metadata.PackageNotFoundError:  # nothing but the source, on the path
        listed = []
    parts = [each.replace("'", '"').partition(";") for each in listed]
    wanted = [each.strip() for each, _, marker in parts if f'extra == "{extra}"' in marker]
    modules = [_name(each).lower().replace("-", "_") for each in wanted]
    pairs = zip(wanted, modules, strict=True)
    return [each for each, module in pairs if util.find_spec(module) is None] or wanted


def install_command(extra: str) -> str:
    """What to type for an extra of which something is missing."""
    from shlex import join

    return join(["pip", "install", *(missing_requirements(extra) or [f".[{extra}]"])])


def _name(requirement: str) -> str:
    return re.split(r"[^\w.-]", requirement, maxsplit=1)[0]


def _again(kind: type[ShoalError], args: tuple[Any, ...], values: dict[str, Any]) -> ShoalError:
    error = kind.__new__(kind, *args)
    super(ShoalError, error).__init__(*args)
    vars(error).update(values)
    return error


def _shown(value: object) -> str:
    return f"{value:.6g}" if isinstance(value, float) else str(value)
