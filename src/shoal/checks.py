"""The only argument checks: each takes its arguments by name, so that the error can say which.

>>> positive(epsilon=-1.0)
Traceback (most recent call last):
    ...
shoal.errors.InvalidArgumentError: expected epsilon > 0 and finite, got epsilon=-1.0
"""

from __future__ import annotations

import math
from collections.abc import Callable
from numbers import Integral, Real

from shoal.errors import InvalidArgumentError

LARGEST_COUNT = 10**15


def positive(**arguments: float) -> None:
    """Each argument is a finite number above zero."""
    _require(lambda v: v > 0 and math.isfinite(v), "{} > 0 and finite", arguments)


def non_negative(**arguments: float) -> None:
    """Each argument is a finite number, zero or more."""
    _require(lambda v: v >= 0 and math.isfinite(v), "{} >= 0 and finite", arguments)


def open_probability(**arguments: float) -> None:
    """Each argument lies strictly between 0 and 1."""
    _require(lambda v: 0 < v < 1, "0 < {} < 1", arguments)


def closed_probability(**arguments: float) -> None:
    """Each argument lies in [0, 1)."""
    _require(lambda v: 0 <= v < 1, "0 <= {} < 1", arguments)


def share(**arguments: float) -> None:
    """Each argument is a share of a whole: above 0, at most 1."""
    _require(lambda v: 0 < v <= 1, "0 < {} <= 1", arguments)


def above_one(**arguments: float) -> None:
    """Each argument is a finite number above one (a Rényi order)."""
    _require(lambda v: v > 1 and math.isfinite(v), "{} > 1 and finite", arguments)


def count(minimum: int = 1, /, **arguments: float) -> int:
    """One argument is a whole number, at least ``minimum``; returned as an int (1e5 is 100000)."""
    ((name, value),) = arguments.items()
    expected = f"a whole number {name} with {minimum} <= {name} <= 1e15"
    if isinstance(value, bool) or not isinstance(value, Real):
        raise InvalidArgumentError(name, value, expected)
    if not isinstance(value, Integral) and not float(value).is_integer():
        raise InvalidArgumentError(name, value, expected)
    whole = int(value)
    if not minimum <= whole <= LARGEST_COUNT:
        raise InvalidArgumentError(name, value, expected)
    return whole


def _require(holds: Callable[[float], bool], expected: str, arguments: dict[str, float]) -> None:
    for name, value in arguments.items():
        if isinstance(value, bool) or not isinstance(value, Real) or not holds(float(value)):
            raise InvalidArgumentError(name, value, expected.format(name))
