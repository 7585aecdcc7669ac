"""Monte-Carlo tests: the rank of what was seen among what the hypothesis would have shown.

If the hypothesis holds, the observed statistic and M simulated ones are exchangeable, so its rank
p = (1 + #{T_b ≥ T})/(M + 1) has Pr[p ≤ level] ≤ level, with equality up to ties where
level (M + 1) is whole (Barnard, J. R. Stat. Soc. B 25, 1963). No approximation is involved.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import NamedTuple

import numpy as np

from shoal import checks
from shoal.values import Array

MOST_SIMULATIONS = 10**7
_FEWEST_RANKS = 2000  # M + 1 by default,
_REJECTING = 100  # and at least so many of them reject: the threshold is then within some percent
_ROUNDING = 1e-9  # relative: statistics this close are ties, apart by rounding alone


@dataclass(frozen=True)
class Simulations:
    """Made-up batches that show what a statistic would be if the hypothesis were true.

    Args:
        number: How many; 1,999, or some 100/level where that is more, unless given.
        seed: That of all that is made up, and of nothing else; another one every time unless given.

    Raises:
        InvalidArgumentError: A number is out of its range.

    Example:
        >>> Simulations(99, seed=1).seed
        1
    """

    number: int | None = None
    seed: int | None = None

    def __post_init__(self) -> None:
        checks.counts(self, seed=0)
        if self.number is None:
            return
        number = checks.count(simulations=self.number)
        expected = f"at most {MOST_SIMULATIONS:,} simulations"
        checks.refuse(number > MOST_SIMULATIONS, expected, simulations=number)
        object.__setattr__(self, "number", number)

    def of(self, level: float) -> int:
        """How many are made at this level: those chosen, if they can reject at all, or enough."""
        checks.open_probability(level=level)
        if self.number is None:
            return enough(level)
        _ = allowed(level, self.number)
        return self.number


ENOUGH = Simulations()


class Rank(NamedTuple):
    """The p-value, the simulated threshold, and whether the statistic is above it."""

    p_value: float
    threshold: float
    rejected: bool


def enough(level: float) -> int:
    """1,999 simulations, or some 100/level − 1 where that is more.

    So level (M + 1) is whole if the level is written with few digits. With fewer simulations the
    threshold is uncertain, which costs power.

    >>> enough(0.05), enough(0.01), enough(0.03)
    (1999, 9999, 3399)
    """
    expected = f"level >= {1 / MOST_SIMULATIONS:g} (more is not simulated)"
    checks.refuse(level * MOST_SIMULATIONS < 1, expected, level=level)
    wanted = min(max(_FEWEST_RANKS, _REJECTING / level), MOST_SIMULATIONS)
    step = Fraction(repr(float(level))).denominator
    if step > wanted:
        return min(math.ceil(math.ceil(level * wanted) / level), MOST_SIMULATIONS) - 1
    return min(step * math.ceil(wanted / step), MOST_SIMULATIONS // step * step) - 1


def allowed(level: float, simulations: int) -> int:
    """How many of M + 1 ranks reject: level (M + 1), rounded down."""
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
