"""The epsilon at which one pair's delta reaches a target, on the side asked for."""

from __future__ import annotations

import math

from shoal.accounting import integral
from shoal.accounting.atoms import PairLaw
from shoal.accounting.solving import Side, crossing, gaussian_guess


def leading_spread(pair: PairLaw, n: int) -> float:
    """Standard deviation of the privacy loss to leading order."""
    return math.sqrt(float(pair.mass @ pair.values(0.0) ** 2) / n)


def solved_crossing(
    pair: PairLaw, n: int, delta: float, *, cap: float, side: Side, at_zero: float | None = None
) -> float:
    """Where the certified upper (or lower) end of delta(epsilon) passes the target.

    delta is 0 at ``cap``.
    """

    def curve(epsilon: float) -> float:
        enclosure = integral.enclose(pair, n=n, epsilon=epsilon)
        return enclosure.log_upper if side is Side.UPPER else enclosure.log_lower

    # Rounded to the safe side, as the logarithm's last digit is worth 1e-14 of a tiny delta.
    log_target = math.log(delta) - side.value * math.ulp(math.log(delta))
    guess = gaussian_guess(leading_spread(pair, n) or 1.0, log_target)
    return crossing(curve, log_target, cap=cap, guess=guess, side=side, at_zero=at_zero)
