"""People who may be in both of two batches: what their two reports cost together.

A person whose datum changes may then change a message in each batch. Both batches are one release
each, so their privacy profiles compose. How much of epsilon is left for one batch is estimated as
for Gaussian noise, whose privacy curve (Dong, Roth, Su, "Gaussian Differential Privacy", J. R.
Stat. Soc. B 84, 2022, arXiv:1905.02383) with two looks is that of a √2 times as large μ. The
guarantee does not rest on that: it is composed from the profiles themselves.
"""

from __future__ import annotations

import math
from functools import lru_cache

from scipy import optimize

from shoal.accounting import gaussian
from shoal.accounting.amplification import profile
from shoal.accounting.devices import Crowd
from shoal.accounting.guarantee import Guarantee
from shoal.errors import PrecisionError
from shoal.protocols.base import Device

TWICE = "nobody makes more than one report in each of the two groups"
_LEAST_FRACTION = 0.05


def guarantee(
    device: Device, sizes: tuple[int, ...], *, delta: float, honest_fraction: float
) -> Guarantee:
    """The (epsilon, delta) of somebody who reports once in each batch."""
    crowds = [Crowd(n, honest_fraction) for n in sizes]
    profiles = [profile(device, n=n, honest_fraction=honest_fraction) for n in sizes]
    both = profiles[0] + profiles[1]
    try:
        epsilon, how = both.answer(delta)
    except PrecisionError:
        epsilon, how = both.answer(delta, method="best")
    assumptions = dict.fromkeys(text for crowd in crowds for text in crowd.assumptions)
    return Guarantee(
        epsilon=epsilon,
        delta=delta,
        n=min(crowd.honest for crowd in crowds),
        local_epsilon=both.local_epsilon,
        local_delta=both.local_delta,
        theorem=f"{profiles[0].theorem}, {how}",
        rounds=len(sizes),
        assumptions=(profiles[0].scope, *assumptions, TWICE),
        lower_bound=lambda: both.lower_epsilon(delta),
    )


@lru_cache(maxsize=64)
def fraction(epsilon: float, delta: float) -> float:
    """The fraction of epsilon that one of two batches may cost, about: 0.69 at (1, 1e-6)."""
    high = 1.0
    while gaussian.delta(high, epsilon) < delta:
        high *= 2
    low = high / 2
    while gaussian.delta(low, epsilon) > delta:
        low /= 2
    both = float(optimize.brentq(lambda mu: gaussian.delta(mu, epsilon) - delta, low, high))
    one = both / math.sqrt(2)
    if gaussian.delta(one, _LEAST_FRACTION * epsilon) <= delta:
        return _LEAST_FRACTION
    solved = optimize.brentq(
        lambda part: gaussian.delta(one, part * epsilon) - delta, _LEAST_FRACTION, 1.0
    )
    return float(solved)
