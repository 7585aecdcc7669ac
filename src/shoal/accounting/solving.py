"""Where a falling privacy curve crosses a target, found from the safe side.

log delta(epsilon) is smooth, falling and nearly quadratic, so secant steps on
``sqrt(-2 log delta)`` (nearly linear) converge in a handful of evaluations.
"""

from __future__ import annotations

import enum
import math
from collections.abc import Callable
from dataclasses import dataclass

from shoal.errors import UncertifiedError

RELATIVE_TOLERANCE = 2e-8
_MOST_STEPS = 200


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
