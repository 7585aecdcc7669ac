"""Where a condition begins or ceases to hold: an evaluated point on the side that is named.

Every search of the library is one of these, so that rounding to the safe side is done here only:

* :func:`least` and :func:`largest` halve a bracket of a monotone condition;
* :func:`root_below` solves ``excess = 0`` in few evaluations, where ``excess <= 0``, and
  :func:`secant_below` in fewer, from a guess;
* :func:`crossing` follows a falling privacy curve. log delta(epsilon) is smooth, falling and nearly
  quadratic, so secant steps on ``sqrt(-2 log delta)`` (nearly linear) converge in a handful of
  evaluations.
"""

from __future__ import annotations

import enum
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypedDict, TypeVar, Unpack

from shoal.errors import UncertifiedError

RELATIVE_TOLERANCE = 2e-8
_MOST_STEPS = 200
_MOST_SECANTS = 8

Number = TypeVar("Number", int, float)


class Halving(TypedDict, total=False):
    """When to stop: after so many ``steps`` or at a relative ``tolerance``.

    ``geometric`` halves the logarithm of a bracket of positive numbers.
    """

    steps: int
    tolerance: float
    geometric: bool


def least(
    holds: Callable[[Number], bool], low: Number, high: Number, **halving: Unpack[Halving]
) -> Number:
    """Where a condition that fails at ``low`` and holds at ``high`` begins to hold: it holds there.

    Whole numbers are found exactly, others to ``tolerance`` relative or in so many ``steps``.

    >>> least(lambda n: n * n >= 50, 0, 100), round(least(lambda x: x * x >= 50, 0.0, 100.0), 6)
    (8, 7.071068)
    """
    return _halved(holds, low, high, **halving)[1]


def largest(
    holds: Callable[[Number], bool], low: Number, high: Number, **halving: Unpack[Halving]
) -> Number:
    """Where a condition that holds at ``low`` and fails at ``high`` ceases to: it holds there.

    >>> largest(lambda n: n * n <= 50, 0, 100)
    7
    """
    return _halved(lambda x: not holds(x), low, high, **halving)[0]


def doubled(holds: Callable[[int], bool], start: int, most: int) -> tuple[int, int] | None:
    """A bracket for :func:`least`: ``start`` doubled until the condition holds; None at the most.

    It fails at the lower end, unless that is ``start // 2``, which is not looked at.

    >>> doubled(lambda n: n >= 50, 1, 1000), doubled(lambda n: n >= 50, 1, 40)
    ((32, 64), None)
    """
    high = start
    while not holds(high):
        if high >= most:
            return None
        high = min(2 * high, most)
    return high // 2, high


def root_below(
    excess: Callable[[float], float], low: float, high: float, *, tolerance: float
) -> float:
    """Where ``excess`` becomes 0, from the side where it is at most 0: it is so there.

    ``excess`` is at most 0 at exactly one of the two ends. The point is within ``tolerance``, or
    the spacing of floats, of one where it is above 0. T. R. Chandrupatla, "A new hybrid
    quadratic/bisection algorithm", Adv. Eng. Softw. 28 (1997): inverse quadratic interpolation
    where three points allow it; the bracket is halved elsewhere.

    >>> round(root_below(lambda x: x * x - 50, 0.0, 100.0, tolerance=1e-9), 6)
    7.071068
    """
    a, at_a = low, excess(low)
    b, at_b = high, excess(high)
    part = 0.5
    while True:
        x = a + part * (b - a)
        at_x = excess(x)
        if (at_x <= 0) == (at_a <= 0):
            c, at_c = a, at_a
        else:
            c, at_c, b, at_b = b, at_b, a, at_a
        a, at_a = x, at_x  # the root is between a and b; a is between b and c
        shortest = max(tolerance / 2, math.ulp(x)) / abs(b - a)
        if shortest >= 0.5:
            return a if at_a <= 0 else b
        run, rise = (a - b) / (c - b), (at_a - at_b) / (at_c - at_b)
        part = 0.5
        if rise**2 < run and (1 - rise) ** 2 < 1 - run:
            part = at_a / (at_b - at_a) * at_c / (at_b - at_c)
            part += (c - a) / (b - a) * at_a / (at_c - at_a) * at_b / (at_c - at_b)
        part = min(1 - shortest, max(shortest, part))


def secant_below(
    excess: Callable[[float], float],
    guess: float,
    slope: float,
    *,
    tolerance: float,
    cap: float = math.inf,
) -> float | None:
    """Where a rising ``excess`` becomes 0, from below and from a good guess; None if it is not one.

    The first step goes by the ``slope`` that is expected, the others by secants. What is returned
    was evaluated: at most 0, and within ``tolerance``, relative, of 0 by the last secant.

    >>> round(secant_below(lambda x: x * x - 50, 7.0, 10.0, tolerance=1e-9), 6)
    7.071068
    """
    at, value = guess, excess(guess)
    for _ in range(_MOST_SECANTS):
        if value <= 0 and (at >= cap or -value <= slope * tolerance * at):
            return at
        step = value / slope + tolerance * at / 2  # a little short of the root
        previous, before, at = at, value, min(at - step, cap)
        if not 0 < at != previous:
            return None
        value = excess(at)
        slope = (value - before) / (at - previous)
        if not 0 < slope < math.inf:
            return None
    return None


def _halved(
    above: Callable[[Number], bool],
    low: Number,
    high: Number,
    *,
    steps: int = _MOST_STEPS,
    tolerance: float = 0.0,
    geometric: bool = False,
) -> tuple[Number, Number]:
    """The bracket of where ``above`` begins to hold, halved; what is not looked at are its ends."""
    whole = {type(low), type(high)} == {int}
    for _ in range(steps):
        middle: Number = (low + high) // 2 if whole else (low + high) / 2  # type: ignore[assignment]
        if geometric:
            middle = math.sqrt(low * high)  # type: ignore[assignment]
        if not low < middle < high or high - low <= tolerance * high:
            break
        low, high = (low, middle) if above(middle) else (middle, high)
    return low, high


class Side(enum.Enum):
    """On which side of the truth a number may err, and so of a crossing it must be."""

    UPPER = 1  # the curve is at or below the target there
    LOWER = -1  # the curve is at or above the target there


def crossing(
    curve: Callable[[float], float],
    log_target: float,
    *,
    cap: float,
    guess: float,
    side: Side,
    at_zero: float | None = None,
) -> float:
    """The epsilon in [0, cap] where ``curve`` (log delta) passes ``log_target``.

    ``at_zero`` is the curve's value at 0, if it is known already.
    The curve is taken to be at or below the target at ``cap``. The answer is the end of the last
    bracket on the side that is named: never short of the crossing for ``Side.UPPER``, never past it
    for ``Side.LOWER``.
    """
    low, high = 0.0, cap
    at, value = 0.0, curve(0.0) if at_zero is None else at_zero
    if value <= log_target:
        return 0.0
    epsilon = guess
    for _ in range(_MOST_STEPS):
        if math.isfinite(high - low) and high - low <= RELATIVE_TOLERANCE * high:
            break
        if not low < epsilon < high:
            epsilon = _between(low, high)
        previous, before, at, value = at, value, epsilon, curve(epsilon)
        if math.isnan(value) or math.isnan(before):
            raise UncertifiedError(value, value)
        low, high = (at, high) if value > log_target else (low, at)
        run, rise = at - previous, value - before
        slope = min(rise / run, 0.0) if run and math.isfinite(rise) else 0.0
        if 0 <= side.value * (log_target - value) <= RELATIVE_TOLERANCE * -slope * at:
            return at
        # Aim a little past the target, so that the next point lands on the side that is named.
        aim = log_target + side.value * 0.5 * RELATIVE_TOLERANCE * slope * at
        depths = [math.sqrt(max(0.0, -2 * log)) for log in (before, value, aim)]
        rise = depths[1] - depths[0]
        known = math.isfinite(rise) and rise != 0
        epsilon = at + (depths[2] - depths[1]) * run / rise if known else math.nan
    return high if side is Side.UPPER else low


def log(value: float) -> float:
    """The logarithm; minus infinity of 0, and of what rounding left below."""
    return -math.inf if value <= 0 else math.log(value)


def gaussian_guess(spread: float, log_target: float) -> float:
    """First guess: delta is about spread phi(s)/s^2 at epsilon = s spread."""
    s = 1.0
    for _ in range(4):
        tail = math.log(spread) - log_target - 2 * math.log(s) - 0.919
        s = math.sqrt(max(2 * tail, 0.04))
    return s * spread


def _between(low: float, high: float) -> float:
    if math.isinf(high):
        return max(1.0, 2 * low)
    return math.sqrt(low * high) if 0 < 4 * low < high else (low + high) / 2


# An interval certain to contain a positive number, kept in logarithms

SMALLEST_POSITIVE = math.ulp(0.0)


@dataclass(frozen=True)
class Enclosure:
    """``log_lower <= log(value) <= log_upper``; minus infinity stands for the value 0.

    What is not an interval, a NaN or an infinite upper end among its ends, cannot be made: a
    computation that overflowed proves nothing.
    """

    log_lower: float
    log_upper: float

    def __post_init__(self) -> None:
        if not self.log_lower <= self.log_upper < math.inf:
            raise UncertifiedError(self.log_lower, self.log_upper)

    @classmethod
    def between(cls, lower: float, upper: float) -> Enclosure:
        """The interval between two numbers, rounded outwards."""
        return cls(_below(log(lower)), _above(log(upper)))

    @property
    def lower(self) -> float:
        """The lower end, rounded down."""
        return max(0.0, math.exp(self.log_lower) * (1 - 1e-15)) if self.log_lower < 0 else 1.0

    @property
    def upper(self) -> float:
        """The upper end, rounded up: 0 only if the value is exactly 0."""
        if self.log_upper == -math.inf:
            return 0.0
        return max(SMALLEST_POSITIVE, min(1.0, math.exp(min(self.log_upper, 0.0)) * (1 + 1e-15)))

    @property
    def gap(self) -> float:
        """Width in logarithms (infinite if the lower end is 0 and the upper end is not)."""
        if self.log_upper == -math.inf:
            return 0.0
        return self.log_upper - self.log_lower

    def meet(self, other: Enclosure) -> Enclosure:
        """The intersection of two valid enclosures."""
        return Enclosure(max(self.log_lower, other.log_lower), min(self.log_upper, other.log_upper))

    def plus(self, other: Enclosure) -> Enclosure:
        """An interval for the sum of the two numbers."""
        if other.log_upper == -math.inf:
            return self
        return Enclosure(
            _below(_log_sum(self.log_lower, other.log_lower)),
            _above(_log_sum(self.log_upper, other.log_upper)),
        )

    def down_by(self, error: float) -> Enclosure:
        """The same interval with its lower end moved down."""
        if error == 0.0 or self.log_lower == -math.inf:
            return self
        return Enclosure(_below(log(self.lower - error)), self.log_upper)


ZERO = Enclosure(-math.inf, -math.inf)


def _log_sum(a: float, b: float) -> float:
    high, low = max(a, b), min(a, b)
    return high if low == -math.inf else high + math.log1p(math.exp(low - high))


def _above(exponent: float) -> float:
    """The logarithm rounded up by more than the error of computing it."""
    error = 4 * max(math.ulp(exponent), 2.0**-53)
    return exponent + error if math.isfinite(exponent) else exponent


def _below(exponent: float) -> float:
    return -_above(-exponent)
