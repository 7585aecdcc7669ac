"""Monte-Carlo tests: the rank of what was seen among what the hypothesis would have shown.

If the hypothesis holds, the observed statistic and M simulated ones are exchangeable, so its rank
p = (1 + #{T_b ≥ T})/(M + 1) has Pr[p ≤ level] ≤ level, with equality up to ties where
level (M + 1) is whole (Barnard, J. R. Stat. Soc. B 25, 1963). No approximation is involved.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from shoal import checks
from shoal.errors import InvalidArgumentError
from shoal.values import Array

_ROUNDING = 1e-9  # relative: statistics this close are ties, told apart by rounding alone


@dataclass(frozen=True)
class Rank:
    """The p-value, the simulated threshold, and whether the statistic is above it."""

    p_value: float
    threshold: float
    rejected: bool


def allowed(level: float, simulations: int) -> int:
    """How many of M + 1 ranks reject: level (M + 1), rounded down."""
    checks.open_probability(level=level)
    simulations = checks.count(simulations=simulations)
    found = math.floor(level * (simulations + 1) * (1 + 1e-12))
    if found < 1:
        least = math.ceil(1 / level) - 1
        expected = f"at least {least} simulations for level {level:g}"
        raise InvalidArgumentError("simulations", simulations, expected)
    return found


def ranked(statistic: float, null: Array, *, level: float) -> Rank:
    """The rank of a statistic among simulated ones; ties count against rejection."""
    ranks = allowed(level, null.size)
    tie = _ROUNDING * max(abs(statistic), float(np.abs(null).max()))
    above = int(np.count_nonzero(null >= statistic - tie))
    limit = threshold(null, level=level)
    return Rank((1 + above) / (null.size + 1), limit, above + 1 <= ranks)


def threshold(null: Array, *, level: float) -> float:
    """The simulated statistic that one has to be above to be rejected."""
    place = null.size - allowed(level, null.size)
    return float(np.partition(null, place)[place])
