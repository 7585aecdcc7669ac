"""k-ary randomized response."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from shoal.accounting.law import BlanketLaw
from shoal.randomizers.base import (
    CategoryRandomizer,
    NumberedMessages,
    OddsRandomizer,
    check_table,
    source,
)
from shoal.randomizers.weights import Odds, Support
from shoal.randomness import Randomness
from shoal.values import Array, Messages, category_codes

_CHUNK = 1 << 16


@dataclass(frozen=True, kw_only=True)
class RandomizedResponse(OddsRandomizer, NumberedMessages, CategoryRandomizer):
    """Tell the truth with odds e^epsilon : 1 against each other answer.

    Citations: Warner 1965 for two answers; Kairouz, Bonawitz, Ramage 2016 (arXiv 1602.07387) for k.
    Runtime: one draw and one division per report; O(n + k) to estimate.
    Utility: n Var = (e + k - 2)/(e - 1)^2 for an answer nobody gave, e = e^epsilon; the best
    single-message choice after shuffling while k is below about n.

    >>> RandomizedResponse(k=3, epsilon=1.0).table().round(3)[0].tolist()
    [0.576, 0.212, 0.212]
    """

    name: ClassVar[str] = "grr"

    k: int
    epsilon: float

    @cached_property
    def _odds(self) -> Odds:
        return Odds.of(self.epsilon, highs=1, lows=self.k - 1)

    @property
    def outputs(self) -> int:
        """How many messages there are."""
        return self.k

    def randomize(self, values: npt.ArrayLike, *, randomness: Randomness | None = None) -> Messages:
        """One answer's number per value.

        A draw below high - low keeps the truth; the rest is k equal slices of size low.
        """
        truths = category_codes(values, self.k)
        excess = self._odds.high - self._odds.low
        bits = source(randomness)
        messages = np.empty(truths.size, dtype=np.int64)
        for start in range(0, truths.size, _CHUNK):  # so that a chunk stays in the cache
            truth = truths[start : start + _CHUNK]
            drawn = bits.below(self._odds.total, truth.size)
            slices = (drawn - np.uint64(excess)) // np.uint64(self._odds.low)
            sent = np.where(drawn < excess, truth, slices.view(np.int64))
            messages[start : start + _CHUNK] = sent
        return messages

    def law(self) -> BlanketLaw:
        """By symmetry one list of atoms serves all pairs of answers."""
        return BlanketLaw.randomized_response(k=self.k, epsilon=self.local_epsilon)

    def table(self) -> Array:
        """Pr[report y | answer x], one row per answer."""
        check_table(self.k, k=self.k)
        weights = np.full((self.k, self.k), self._odds.low / self._odds.total)
        np.fill_diagonal(weights, self._odds.high / self._odds.total)
        return weights

    @cached_property
    def _support(self) -> Support:
        return Support(self._odds.high / self._odds.total, self._odds.low / self._odds.total)
