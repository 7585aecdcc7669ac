"""A negative binomial count of everybody, drawn in independent shares.

The sum of n independent negative binomial counts of shape r/n and ratio q is one of shape r and
ratio q. So n people can make noise together that none of them knows. Most shares are 0.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import scipy

from shoal.accounting.noise.near_central import STEP_ERROR, NegativeBinomial
from shoal.protocols.shares import CountTable, RareCount
from shoal.randomness import Randomness

_LOST = 1e-12  # probability that any of all people's shares had to be cut off


@dataclass(frozen=True, eq=False)
class SharedCount:
    """One person's share.

    ``error`` is the total variation between the share drawn and the share described.
    """

    count: RareCount
    error: float

    @classmethod
    def of(cls, everybody: NegativeBinomial, *, people: int) -> SharedCount:
        """A share of 1/people of what everybody draws together."""
        law = everybody.times(1 / people)
        pmf, omitted = law.likely(left_out=_LOST / people)
        any_at_all = -math.expm1(law.none)
        amount = CountTable.of(pmf[1:] / any_at_all, omitted=omitted / any_at_all)
        rounding = 4 * STEP_ERROR * (law.mean + any_at_all) + RareCount.CUT_OFF
        return cls(RareCount.of(any_at_all, amount), any_at_all * amount.error + rounding)

    @property
    def largest(self) -> int:
        """The largest share that is ever drawn."""
        return self.count.largest

    def draw(self, size: int, randomness: Randomness) -> npt.NDArray[np.int64]:
        """Independent shares."""
        return self.count.draw(size, randomness)


@dataclass(frozen=True)
class Difference:
    """The difference of two independent counts of one law; discrete Laplace if it is geometric.

    >>> Difference(NegativeBinomial.geometric(1.0)).limit(0.95)
    3
    """

    law: NegativeBinomial

    @property
    def variance(self) -> float:
        """Twice the variance of a count."""
        return 2 * self.law.mean / (1 - self.law.ratio)

    def limit(self, level: float) -> int:
        """The least t whose probability of a difference from −t to t reaches the level."""
        if self.law.shape == 1:
            # Pr[difference beyond ±t] = 2 q^(t+1)/(1 + q).
            q = self.law.ratio
            return max(0, math.ceil(math.log((1 - level) * (1 + q) / 2) / math.log(q)) - 1)
        pmf, _ = self.law.probabilities()
        both = np.asarray(scipy.signal.fftconvolve(pmf, pmf[::-1]))
        middle = pmf.size - 1
        within = both[middle] + np.concatenate([[0.0], 2 * np.cumsum(both[middle + 1 :])])
        return min(int(np.searchsorted(within, level)), middle)
