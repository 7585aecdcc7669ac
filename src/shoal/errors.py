"""Every exception Shoal raises on purpose.

::

    ShoalError
    ├── InvalidArgumentError (ValueError)      one argument is not acceptable
    │   ├── InvalidTableError                  a randomizer table or a law is not one
    │   └── InvalidTypeError (TypeError)       an argument is another kind of thing altogether
    ├── OutOfRegimeError (ValueError)          a published bound does not cover these parameters
    ├── UnreachableTargetError (ValueError)    no setting reaches the target asked for
    ├── PrecisionError (ArithmeticError)       the answer is below what the method can certify
    ├── UncertifiedError (ArithmeticError)     a computation overflowed, and proves nothing
    ├── EngineError (RuntimeError)             a cluster cannot do, or did not finish, its work
    └── MissingExtraError (ImportError)        an optional dependency is not installed

Each carries the values it speaks about, and its one-line message says what to do. All of them
survive pickling, so that what is raised in another process is raised here with its values.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any


class ShoalError(Exception):
    """Base of everything Shoal raises on purpose."""

    def __reduce__(self) -> tuple[Callable[..., ShoalError], tuple[Any, ...]]:
        # By default an exception is made again from its message alone.
        return _again, (type(self), self.args, vars(self))


class InvalidArgumentError(ShoalError, ValueError):
    """An argument is outside the values it may take."""

    def __init__(self, name: str, value: object, expected: str) -> None:
        self.name = name
        self.value = value
        self.expected = expected
        super().__init__(f"expected {expected}, got {name}={value!r}")


class InvalidTableError(InvalidArgumentError):
    """A randomizer table, or a blanket law, that is not one."""


class InvalidTypeError(InvalidArgumentError, TypeError):
    """An argument that is another kind of thing: a table or a function for a randomizer."""


class OutOfRegimeError(ShoalError, ValueError):
    """A theorem was asked about parameters it does not cover."""

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
    """No value of the unknown reaches the target."""

    def __init__(self, target: str, reason: str, advice: str) -> None:
        self.target = target
        self.reason = reason
        self.advice = advice
        super().__init__(f"cannot reach {target}: {reason}; {advice}")


class PrecisionError(ShoalError, ArithmeticError):
    """A number smaller than what the method can certify was asked for."""

    def __init__(self, quantity: str, value: float, limit: float, instead: str) -> None:
        self.quantity = quantity
        self.value = value
        self.limit = limit
        self.instead = instead
        super().__init__(f"{quantity}={value:g} is below the {limit:.2g} it can certify; {instead}")


class UncertifiedError(ShoalError, ArithmeticError):
    """What should enclose a number is no interval: nothing is proved."""

    def __init__(self, log_lower: float, log_upper: float) -> None:
        self.log_lower = log_lower
        self.log_upper = log_upper
        super().__init__(
            f"no certified answer: log delta came out between {log_lower:g} and {log_upper:g}; "
            "the parameters are too extreme for double precision"
        )


class EngineError(ShoalError, RuntimeError):
    """Where the rows are, something is missing or went wrong; nothing was released."""

    def __init__(self, engine: str, reason: str, advice: str) -> None:
        self.engine = engine
        self.reason = reason
        self.advice = advice
        super().__init__(f"{engine} cannot do it: {reason}; {advice}")


class MissingExtraError(ShoalError, ImportError):
    """An optional dependency is needed and not installed."""

    def __init__(self, feature: str, extra: str) -> None:
        self.feature = feature
        self.extra = extra
        install = f"pip install '.[{extra}]' in a clone of the repository"
        super().__init__(f"{feature} needs an optional dependency: {install}")


def _again(kind: type[ShoalError], args: tuple[Any, ...], values: dict[str, Any]) -> ShoalError:
    error = kind.__new__(kind, *args)
    super(ShoalError, error).__init__(*args)
    vars(error).update(values)
    return error


def _shown(value: object) -> str:
    return f"{value:.6g}" if isinstance(value, float) else str(value)
