"""Where a condition begins or ceases to hold: an evaluated point on the side that is named.

Every search of the library is one of these, so that rounding to the safe side is done here only:

* :func:`least` and :func:`largest` halve a bracket of a monotone condition;
* :func:`kept` solves ``excess = 0`` quickly and steps back to where ``excess <= 0``;
* :func:`crossing` follows a falling privacy curve. log delta(epsilon) is smooth, falling and nearly
  quadratic, so secant steps on ``sqrt(-2 log delta)`` (nearly linear) converge in a handful of
  evaluations.
"""

from __future__ import annotations

import enum
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from shoal.errors import UncertifiedError

RELATIVE_TOLERANCE = 2e-8
_MOST_STEPS = 200

Number = TypeVar("Number", int, float)


def least(
    holds: Callable[[Number], bool],
    low: Number,
    high: Number,
    *,
    steps: int = _MOST_STEPS,
    tolerance: float = 0.0,
) -> Number:
    """Where a condition that fails at ``low`` and holds at ``high`` begins to hold: it holds there.

    Whole numbers are found exactly, others to ``tolerance`` relative or in so many halvings.

    >>> least(lambda n: n * n >= 50, 0, 100), round(least(lambda x: x * x >= 50, 0.0, 100.0), 6)
    (8, 7.071068)
    """
    _, end = _halved(holds, low, high, steps=steps, tolerance=tolerance)
    return end


def largest(
    holds: Callable[[Number], bool],
    low: Number,
    high: Number,
    *,
    steps: int = _MOST_STEPS,
    tolerance: float = 0.0,
    geometric: bool = False,
) -> Number:
    """Where a condition that holds at ``low`` and fails at ``high`` ceases to: it holds there.

    ``geometric`` halves the logarithm of a bracket of positive numbers.

    >>> largest(lambda n: n * n <= 50, 0, 100)
    7
    """
    end, _ = _halved(
        lambda x: not holds(x), low, high, steps=steps, tolerance=tolerance, geometric=geometric
    )
    return end


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
    step: float,
) -> float:
    """Where a monotone ``excess`` becomes 0, from the side where it is at most 0: it is so there.

    ``excess`` is at most 0 at exactly one of the two ends, which is where the steps back lead,
    each twice as long as the one before.
    """
    from scipy import optimize

    end, towards = (low, -1) if excess(low) <= 0 else (high, 1)
    root = float(optimize.brentq(excess, low, high, xtol=tolerance, rtol=max(tolerance, 1e-15)))
    while towards * (end - root) > 0 and excess(root) > 0:
        root, step = root + towards * step, 2 * step
    return root if towards * (end - root) > 0 else end


def _halved(
    above: Callable[[Number], bool],
    low: Number,
    high: Number,
    *,
    steps: int,
    tolerance: float,
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


@dataclass(frozen=True)
class Point:
    """One evaluation of the curve."""

    epsilon: float
    log_delta: float

    def __post_init__(self) -> None:
        if math.isnan(self.log_delta):
            raise UncertifiedError(self.log_delta, self.log_delta)


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
    bracket on the side asked for: never short of the crossing for ``Side.UPPER``, never past it
    for ``Side.LOWER``.
    """
    start = Point(0.0, curve(0.0)) if at_zero is None else Point(0.0, at_zero)
    if start.log_delta <= log_target:
        return 0.0
    above, below = start, Point(cap, -math.inf)
    previous, epsilon = start, guess
    for _ in range(_MOST_STEPS):
        width = below.epsilon - above.epsilon
        if math.isfinite(width) and width <= RELATIVE_TOLERANCE * below.epsilon:
            break
        if not above.epsilon < epsilon < below.epsilon:
            epsilon = _between(above.epsilon, below.epsilon)
        point = Point(epsilon, curve(epsilon))
        if point.log_delta > log_target:
            above = point
        else:
            below = point
        slope = _slope(previous, point)
        if _close_enough(point, log_target, slope, side):
            return point.epsilon
        # Aim a little past the target, so that the next point lands on the side asked for.
        aim = log_target + side.value * 0.5 * RELATIVE_TOLERANCE * slope * point.epsilon
        previous, epsilon = point, _secant(previous, point, aim)
    return below.epsilon if side is Side.UPPER else above.epsilon


def gaussian_guess(spread: float, log_target: float) -> float:
    """First guess: delta is about spread phi(s)/s^2 at epsilon = s spread."""
    s = 1.0
    for _ in range(4):
        tail = math.log(spread) - log_target - 2 * math.log(s) - 0.919
        s = math.sqrt(max(2 * tail, 0.04))
    return s * spread


def _slope(previous: Point, point: Point) -> float:
    """d log delta / d epsilon from two points (a finite negative number, or 0 if unknown)."""
    run = point.epsilon - previous.epsilon
    rise = point.log_delta - previous.log_delta
    return min(rise / run, 0.0) if run and math.isfinite(rise) else 0.0


def _close_enough(point: Point, log_target: float, slope: float, side: Side) -> bool:
    excess = side.value * (log_target - point.log_delta)
    return 0 <= excess <= RELATIVE_TOLERANCE * -slope * point.epsilon


def _secant(previous: Point, point: Point, aim: float) -> float:
    depths = [math.sqrt(max(0.0, -2 * value)) for value in (previous.log_delta, point.log_delta)]
    rise = depths[1] - depths[0]
    if not math.isfinite(rise) or rise == 0:
        return math.nan
    wanted = math.sqrt(max(0.0, -2 * aim))
    return point.epsilon + (wanted - depths[1]) * (point.epsilon - previous.epsilon) / rise


def _between(low: float, high: float) -> float:
    if math.isinf(high):
        return max(1.0, 2 * low)
    return math.sqrt(low * high) if 0 < 4 * low < high else (low + high) / 2
