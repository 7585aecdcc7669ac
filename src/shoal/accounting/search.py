"""Where a condition begins or ceases to hold: an evaluated point on the side that is named.

Every search of the library is one of these, so that rounding to the safe side is done here only:

* :func:`least` and :func:`largest` halve a bracket of a monotone condition;
* :func:`kept` solves ``excess = 0`` quickly and steps back to where ``excess <= 0``;
* :func:`reached` solves it for an excess that takes long: what was evaluated is all it looks at;
* :func:`root` solves it to rounding, on neither side: for estimates that no guarantee rests on;
* :func:`crossing` follows a falling privacy curve. log delta(epsilon) is smooth, falling and nearly
  quadratic, so secant steps on ``sqrt(-2 log delta)`` (nearly linear) converge in a handful of
  evaluations.
"""

from __future__ import annotations

import enum
import math
from collections.abc import Callable
from typing import TypedDict, TypeVar, Unpack

from shoal.errors import UncertifiedError

RELATIVE_TOLERANCE = 2e-8
_MOST_STEPS = 200

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


def kept(
    excess: Callable[[float], float],
    low: float,
    high: float,
    *,
    tolerance: float,
    step: float | None = None,
) -> float:
    """Where a monotone ``excess`` becomes 0, from the side where it is at most 0: it is so there.

    ``excess`` is at most 0 at exactly one of the two ends. Steps lead back to it from a root on the
    other side, each twice as long as the one before. ``tolerance`` is relative; with a first
    ``step``, as for logarithms, it is absolute too.
    """
    from scipy import optimize

    end, towards = (low, -1) if excess(low) <= 0 else (high, 1)
    absolute = tolerance * abs(low) if step is None else tolerance
    root = float(optimize.brentq(excess, low, high, xtol=absolute, rtol=max(tolerance, 1e-15)))
    step = tolerance * abs(root) if step is None else step
    while towards * (end - root) > 0 and excess(root) > 0:
        root, step = root + towards * step, 2 * step
    return root if towards * (end - root) > 0 else end


def reached(
    excess: Callable[[float], float], low: float, high: float, *, tolerance: float
) -> float:
    """Where an ``excess`` that rises from ``low`` to ``high`` reaches 0: it has, there.

    The least point evaluated of those at most ``tolerance`` before the root, or past it.

    >>> round(reached(lambda x: x * x - 50, 0.0, 100.0, tolerance=1e-3), 2)
    7.07
    """
    values: dict[float, float] = {}

    def noted(x: float) -> float:
        values[x] = excess(x)
        return values[x]

    near = root(noted, low, high, tolerance=tolerance) - tolerance
    return min((x for x, value in values.items() if value >= 0 and x >= near), default=high)


def root(
    function: Callable[[float], float], low: float, high: float, *, tolerance: float = 2e-12
) -> float:
    """Where a function that has different signs at the two ends becomes 0, by Brent's method."""
    from scipy import optimize

    return float(optimize.brentq(function, low, high, xtol=tolerance))


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
