"""Monte-Carlo tests: the rank of what was seen among what the hypothesis would have shown.

If the hypothesis holds, the observed statistic and M simulated ones are exchangeable, so its rank
p = (1 + #{T_b ≥ T})/(M + 1) has Pr[p ≤ level] ≤ level, with equality up to ties where
level (M + 1) is whole (Barnard, J. R. Stat. Soc. B 25, 1963). No approximation is involved.
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import NamedTuple

import numpy as np

from shoal import checks
from shoal.values import Array

MOST_SIMULATIONS = 10**7
_FEWEST_RANKS = 2000  # M + 1 by default,
_REJECTING = 100  # and at least so many of them reject: the threshold is then within some percent
_ROUNDING = 1e-9  # relative: statistics this close are ties, apart by rounding alone


class Rank(NamedTuple):
    """The p-value, the simulated threshold, and whether the statistic is above it."""

    p_value: float
    threshold: float
    rejected: bool


def number(level: float, simulations: int | None = None) -> int:
    """How many simulations to make: those chosen, checked, or enough for the level.

    Enough is 1,999, or some 100/level − 1 where that is more, so that level (M + 1) is whole if the
    level is written with few digits. With fewer the threshold is uncertain, which costs power.

    >>> number(0.05), number(0.01), number(0.03)
    (1999, 9999, 3399)
    """
    checks.open_probability(level=level)
    if simulations is not None:
        allowed(level, simulations)
        return checks.count(simulations=simulations)
    expected = f"level >= {1 / MOST_SIMULATIONS:g} (more is not simulated)"
    checks.refuse(level * MOST_SIMULATIONS < 1, expected, level=level)
    wanted = min(max(_FEWEST_RANKS, _REJECTING / level), MOST_SIMULATIONS)
    step = Fraction(repr(float(level))).denominator
    if step > wanted:
        return min(math.ceil(math.ceil(level * wanted) / level), MOST_SIMULATIONS) - 1
    return min(step * math.ceil(wanted / step), MOST_SIMULATIONS // step * step) - 1


def allowed(level: float, simulations: int) -> int:
    """How many of M + 1 ranks reject: level (M + 1), rounded down."""
    checks.open_probability(level=level)
    simulations = checks.count(simulations=simulations)
    expected = f"at most {MOST_SIMULATIONS:,} simulations"
    checks.refuse(simulations > MOST_SIMULATIONS, expected, simulations=simulations)
    rejecting = math.floor(level * (simulations + 1) * (1 + 1e-12))
    expected = f"at least {math.ceil(1 / level * (1 - 1e-12)) - 1} simulations for level {level:g}"
    checks.refuse(rejecting < 1, expected, simulations=simulations)
    return rejecting


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
