"""The analyzer of the zero-sum protocols: exactly 0, unless more copies arrived than people sent.

Of an answer that s of n people gave, s + n − B copies arrive, B ~ Bin(n, γ). More than n of them
prove that somebody gave it, and the estimate is s − B + nγ; else it is 0. Everything that can be
said about the error is a statement about B (docs/theory/zero-sum.md).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from shoal import checks
from shoal.accounting.binomial import BinomialWindow
from shoal.protocols import shares
from shoal.values import Array, Estimate

Whole = npt.NDArray[np.int64]

_CERTAIN = 1 - 2.0**-53
_ROUNDING = 1e-12


@dataclass(frozen=True, eq=False)
class Withheld:
    """B ~ Bin(n, γ), how many of n people withhold their copy of one answer."""

    window: BinomialWindow

    @classmethod
    def of(cls, n: int, gamma: float) -> Withheld:
        """The law for 0 < gamma < 1."""
        return _withheld(n, gamma)

    @property
    def mean(self) -> float:
        """nγ."""
        return self.window.n * self.window.probability

    @property
    def deviation(self) -> float:
        """Standard deviation."""
        return math.sqrt(self.mean * (1 - self.window.probability))

    @property
    def above(self) -> Array:
        """Pr[B > b] at every count b of the window, rounded up."""
        tail = np.cumsum(self.window.pmf[::-1])[::-1]
        return self._rounded_up(np.append(tail[1:], 0.0))

    @property
    def below(self) -> Array:
        """Pr[B < b] at every count b of the window, rounded up."""
        return self._rounded_up(np.append(0.0, np.cumsum(self.window.pmf)[:-1]))

    def _rounded_up(self, chances: Array) -> Array:
        larger = chances * (1 + 2 * self.window.error) + self.window.omitted
        return np.minimum(larger, _CERTAIN)

    def largest(self, chance: float) -> int:
        """The least b with Pr[B > b] <= chance."""
        return self._first(self.above <= chance)

    def smallest(self, chance: float) -> int:
        """The largest b with Pr[B < b] <= chance, or 0 if the window holds none."""
        held = np.flatnonzero(self.below <= chance)
        return int(self.window.counts[held[-1]]) if held.size else 0

    def largest_of_all(self, beta: float) -> int:
        """The least b that, with probability 1 − beta, no frequent answer's B exceeds.

        Frequent: given by more than b people. Only these can be wrong by more than b, and there are
        at most n/(b+1) of them.
        """
        frequent = self.window.n // (self.window.counts + 1)
        failing = -np.expm1(frequent * np.log1p(-self.above)) * (1 + _ROUNDING)
        return self._first(failing <= beta)

    def _first(self, holds: npt.NDArray[np.bool_]) -> int:
        found = np.flatnonzero(holds)
        return int(self.window.counts[found[0]]) if found.size else self.window.n

    def squared_error(self, counts: Array) -> Array:
        """E[(estimate − s)²] of answers that s people gave: bias included.

        s² where B >= s hides the answer, (nγ − B)² where it does not.
        """
        pmf, withheld = self.window.pmf, self.window.counts
        shown = np.append(0.0, np.cumsum(pmf * (withheld - self.mean) ** 2))
        hidden = np.append(np.cumsum(pmf[::-1])[::-1], 0.0)
        place = np.searchsorted(withheld, counts)
        return np.asarray(shown[place] + hidden[place] * counts**2)


@lru_cache(maxsize=16)
def _withheld(n: int, gamma: float) -> Withheld:
    return Withheld(BinomialWindow.of(n=n, probability=gamma))


@lru_cache(maxsize=16)
def simulation_table(n: int, gamma: float) -> tuple[int, shares.CountTable]:
    """The first likely count, and a table of how many more than that are withheld.

    Good to 1e-10: for simulations, where no privacy hangs on it.
    """
    window = _withheld(n, gamma).window
    return int(window.counts[0]), shares.CountTable.of(window.pmf, omitted=window.omitted)


@dataclass(frozen=True, eq=False, kw_only=True)
class ZeroRuleEstimate(Estimate):
    """Shares that are exactly 0 unless more copies of the answer arrived than people sent.

    The rule biases the shares of rare answers, often to 0: what reaches few more than nγ people
    cannot be told from nothing. The limits are made from the copies themselves (``excess`` is how
    many more than people arrived), so that they cover the truth at least as often as they say; for
    an answer reported as 0 they begin at 0. Its standard error is √(nγ(1−γ) + u²), where u is the
    estimate without the rule: how far that is from the truth, and from what is reported.
    """

    excess: Whole
    gamma: float

    def interval(self, level: float = 0.95, *, simultaneous: bool = False) -> tuple[Array, Array]:
        """Exact confidence limits of each share, at any level; Bonferroni for all together."""
        checks.open_probability(level=level)
        each = (1 - level) / (self.excess.size if simultaneous else 1)
        noise = Withheld.of(self.n, self.gamma)
        fewest = self.excess + noise.smallest(each / 2)
        most = np.clip(self.excess + noise.largest(each / 2), 0, self.n)
        return self._limits(np.where(self.excess > 0, fewest, 0), most)

    def _limits(self, fewest: Whole, most: Whole) -> tuple[Array, Array]:
        return fewest / self.n, most / self.n


class YesNoEstimate(ZeroRuleEstimate):
    """The share of the answer 1 by the zero rule, and that of the answer 0 as the rest."""

    def _limits(self, fewest: Whole, most: Whole) -> tuple[Array, Array]:
        low, high = np.append(self.n - most, fewest), np.append(self.n - fewest, most)
        return low / self.n, high / self.n
