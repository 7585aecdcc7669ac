"""The only argument checks: each takes its arguments by name, so that the error can say which.

>>> positive(epsilon=-1.0)
Traceback (most recent call last):
    ...
shoal.errors.InvalidArgumentError: expected epsilon > 0 and finite, got epsilon=-1.0
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Iterable, Sequence
from numbers import Real
from typing import Any, Protocol

from shoal.errors import InvalidArgumentError

LARGEST_COUNT = 10**15
LARGEST_DIMENSION = 1 << 20
_LARGEST = sys.float_info.max  # whole numbers may be beyond all floats
SMALLEST_EPSILON, LARGEST_EPSILON = 1e-9, 50.0  # that anything is made to keep,
SMALLEST_DELTA = 1e-300  # and delta: the reciprocal of less is no float
SMALLEST_RANGE, LARGEST_RANGE = 1e-100, 1e100  # of numbers: beyond, their squares are no floats


class Check(Protocol):
    """Refuses arguments, by their names."""

    def __call__(self, **arguments: float) -> None: ...


def _each(holds: Callable[[float], bool], expected: str) -> Check:
    """A check that this holds for each argument, which has to be a number."""

    def check(**arguments: float) -> None:
        for name, value in arguments.items():
            if isinstance(value, bool) or not isinstance(value, Real) or not holds(value):
                raise InvalidArgumentError(name, value, expected.format(name))

    return check


positive = _each(lambda v: 0 < v <= _LARGEST, "{} > 0 and finite")
non_negative = _each(lambda v: 0 <= v <= _LARGEST, "{} >= 0 and finite")
above_one = _each(lambda v: 1 < v <= _LARGEST, "{} > 1 and finite")  # a Rényi order
open_probability = _each(lambda v: 0 < v < 1, "0 < {} < 1")
closed_probability = _each(lambda v: 0 <= v < 1, "0 <= {} < 1")
fraction = _each(lambda v: 0 < v <= 1, "0 < {} <= 1")  # of a whole


def target(*, epsilon: float, delta: float) -> None:
    """An (epsilon, delta) to make something for, which has to keep it."""
    positive(epsilon=epsilon)
    open_probability(delta=delta)
    sense = "less leaves nothing but noise, more is no guarantee"
    expected = f"{SMALLEST_EPSILON:g} <= epsilon <= {LARGEST_EPSILON:g} ({sense})"
    refuse(not SMALLEST_EPSILON <= epsilon <= LARGEST_EPSILON, expected, epsilon=epsilon)
    refuse(delta < SMALLEST_DELTA, f"delta >= {SMALLEST_DELTA:g}", delta=delta)


def bounds(low: float, high: float) -> None:
    """Public limits of a number."""
    fits = SMALLEST_RANGE <= _float(high) - _float(low) <= LARGEST_RANGE
    apart = f"{SMALLEST_RANGE:g} to {LARGEST_RANGE:g} apart"
    refuse(not fits, f"bounds low < high, {apart} (take other units)", bounds=(low, high))


def one_of(allowed: Sequence[str], /, **arguments: str) -> None:
    """Each argument is one of these words.

    >>> one_of(("all", "single"), submit="some")
    Traceback (most recent call last):
        ...
    shoal.errors.InvalidArgumentError: expected 'all' or 'single', got submit='some'
    """
    expected = " or ".join(map(repr, allowed)).replace(" or ", ", ", len(allowed) - 2)
    for name, value in arguments.items():
        refuse(value not in allowed, expected, **{name: value})


def at_most(limit: float, /, **arguments: float) -> None:
    """Each argument is no larger than the limit."""
    for name, value in arguments.items():
        refuse(value > limit, f"{name} <= {limit:.15g}", **{name: value})


def refuse(wrong: object, expected: str, /, **argument: object) -> None:
    """An error about one argument, if it is wrong."""
    if wrong:
        ((name, value),) = argument.items()
        raise InvalidArgumentError(name, value, expected)


def similar(name: str, names: Iterable[str]) -> str:
    """A hint at the name that was meant, if one is close.

    >>> similar("anwsers", ["answers", "bounds"]), similar("x", ["answers"])
    (' (did you mean answers?)', '')
    """
    from difflib import get_close_matches

    listed = list(names)
    close = get_close_matches(name, listed, n=1)
    close += [each for each in listed if each.casefold() == name.casefold()]
    return f" (did you mean {close[0]}?)" if close else ""


def every(holds: Any, expected: str, /, **entries: Any) -> None:  # noqa: ANN401 - of NumPy
    """An error about the first entry of an array for which something does not hold."""
    if not holds.all():
        ((name, values),) = entries.items()
        raise InvalidArgumentError(name, values[~holds].tolist()[0], expected)


def everybody(holds: Any, expected: str, /, **data: Any) -> None:  # noqa: ANN401 - of NumPy
    """An error about the first person for whose datum something does not hold.

    It says in which row that is, and never what the datum is: errors end up in logs.

    >>> import numpy as np
    >>> everybody(np.array([True, False]), "ages up to 120", value=np.array([30, 777]))
    Traceback (most recent call last):
        ...
    shoal.errors.InvalidArgumentError: expected ages up to 120, got value='(row 1, not shown)'
    """
    if not holds.all():
        ((name, _),) = data.items()
        raise InvalidArgumentError(name, not_shown(int(holds.argmin())), expected)


def not_shown(row: int) -> str:
    """A person's datum, as errors name it."""
    return f"(row {row}, not shown)"


def count(minimum: int = 1, /, **arguments: float) -> int:
    """One argument is a whole number, at least ``minimum``; returned as an int (1e5 is 100000)."""
    ((name, value),) = arguments.items()
    real = isinstance(value, Real) and not isinstance(value, bool)
    if not real or not minimum <= value <= LARGEST_COUNT or value % 1:
        expected = f"a whole number {name} with {minimum} <= {name} <= 1e15"
        raise InvalidArgumentError(name, value, expected)
    return int(value)


def counts(of: object, /, **least: int) -> None:
    """These fields of a frozen value are whole numbers, at least so large, or None."""
    for name, minimum in least.items():
        if (value := getattr(of, name)) is not None:
            object.__setattr__(of, name, count(minimum, **{name: value}))


def _float(value: float) -> float:
    """The number, infinite if it is beyond all floats."""
    try:
        return float(value)
    except OverflowError:
        return math.inf
    except ValueError:  # a text that is no number
        return math.nan
