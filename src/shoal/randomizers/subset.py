"""Subset selection."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from shoal import checks
from shoal.accounting.law import BlanketLaw, Claim
from shoal.accounting.table import witness_pairs
from shoal.errors import InvalidArgumentError
from shoal.randomizers.base import LARGEST_TABLE, CategoryRandomizer, Integers, Rows, source
from shoal.randomizers.bits import (
    CELLS_AT_ONCE,
    bit_counts,
    checked_answers,
    checked_rows,
    clean_rows,
    row_bytes,
    support_sizes,
    supported,
)
from shoal.randomizers.support import Support
from shoal.randomizers.weights import LARGEST_EPSILON, Odds
from shoal.randomness import Randomness
from shoal.values import Array, Batch, Counts, Estimate, Messages, category_codes

_LAST_KEY = (1 << 32) - 1


@dataclass(frozen=True, kw_only=True)
class SubsetSelection(CategoryRandomizer):
    """Report w of the k answers: a set with the true one is e^epsilon times likelier than another.

    ``size`` is w; by default the nearest whole number to k/(e^epsilon + 1), at least 1, which
    makes the estimates as good as any locally private ones can be.

    Citations: Ye, Barg, "Optimal Schemes for Discrete Distribution Estimation under Locally
    Differential Privacy", IEEE Trans. Inf. Theory 2018 (arXiv 1702.00610); Wang et al., "Mutual
    Information Optimally Local Private Discrete Distribution Estimation" (arXiv 1607.08025).
    Runtime: k random words of 32 bits and one selection per report; O(n k/8) to estimate.
    Utility: n Var = 4e/(e - 1)^2 for an answer nobody gave, e = e^epsilon and k large.

    >>> SubsetSelection(k=4, epsilon=1.0, size=2).table().round(3)[0].tolist()
    [0.244, 0.244, 0.244, 0.09, 0.09, 0.09]
    """

    name: ClassVar[str] = "subset"

    k: int
    epsilon: float
    size: int | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "k", checked_answers(self.k))
        checks.positive(epsilon=self.epsilon)
        if self.size is not None:
            object.__setattr__(self, "size", checks.count(1, size=self.size))
            if self.size >= self.k:
                raise InvalidArgumentError("size", self.size, f"size < k = {self.k}")
        _ = self._odds

    @property
    def _w(self) -> int:
        if self.size is not None:
            return self.size
        return max(1, round(self.k / (math.exp(min(self.epsilon, LARGEST_EPSILON)) + 1)))

    @cached_property
    def _odds(self) -> Odds:
        return Odds.of(self.epsilon, highs=self._w, lows=self.k - self._w)

    @property
    def _with(self) -> int:
        """Weight of all sets that contain the true answer."""
        return self._odds.high * self._w

    @property
    def _without(self) -> int:
        """Weight of all sets that do not."""
        return self._odds.low * (self.k - self._w)

    @property
    def _total(self) -> int:
        return self._with + self._without

    @property
    def integers(self) -> Integers:
        """The size of the sets, the weight of those with the truth, and the total."""
        return {"size": self._w, "with": self._with, "total": self._total}

    @property
    def local_epsilon(self) -> float:
        """The epsilon of the sampler as implemented."""
        return min(self._odds.epsilon, self.epsilon)

    @property
    def message_bits(self) -> float:
        """log2 of the number of sets."""
        k, w = self.k, self._w
        choices = math.lgamma(k + 1) - math.lgamma(w + 1) - math.lgamma(k - w + 1)
        return choices / math.log(2)

    @property
    def message_bytes(self) -> int:
        """Bytes of k bits, those of the reported answers set."""
        return row_bytes(self.k)

    def randomize(self, values: npt.ArrayLike, *, randomness: Randomness | None = None) -> Messages:
        """Rows of k bits, w of them set: the first answer's bit first, padded to whole bytes.

        There are C(k-1, w-1) sets with the truth and C(k-1, w) without it, so that odds of
        high w : low (k - w) for having it make each such set high/low times likelier.
        """
        truths = category_codes(values, self.k)
        drawn_from = source(randomness)
        included = drawn_from.below(self._total, truths.size) < self._with
        rows = np.empty((truths.size, self.message_bytes), dtype=np.uint8)
        step = max(1, CELLS_AT_ONCE // self.k)
        for start in range(0, truths.size, step):
            part = slice(start, start + step)
            chosen = _completed(truths[part], included[part], (self.k, self._w), drawn_from)
            rows[part] = np.packbits(chosen, axis=1)
        return rows

    def law(self) -> BlanketLaw:
        """Four kinds of sets, by which of the two answers they contain; one list serves all pairs.

        The blanket gives every set the weight it has for an answer outside it.
        """
        k, w, e = self.k, self._w, self._odds.high / self._odds.low
        unit = self._odds.low / ((k - 1) * self._total)
        one = unit * w * (k - w)
        both, neither = unit * w * (w - 1), unit * (k - w) * (k - 1 - w)
        atoms = [(one, e, 1.0), (one, 1.0, e), (both, e, e), (neither, 1.0, 1.0)]
        return BlanketLaw(
            atoms,
            witnesses=lambda: witness_pairs(self._few()),
            claim=Claim(local_epsilon=self.local_epsilon),
        )

    def _few(self) -> Array:
        """Pr[which of the first three answers are in the set | answer x], for these three x.

        Of two answers among people who all hold a third, nothing else can tell.
        """
        k, w, few = self.k, self._w, min(self.k, 3)
        inside = (np.arange(1 << few)[:, None] >> np.arange(few)) & 1
        # Of all sets, how many meet the few answers exactly so.
        shares = np.array(
            [
                math.perm(w, i) * math.perm(k - w, few - i) / math.perm(k, few)
                for i in range(few + 1)
            ]
        )[inside.sum(axis=1)]
        chances = (self._without * k / (k - w), self._with * k / w)
        return np.asarray(np.where(inside.T == 1, chances[1], chances[0]) * shares / self._total)

    def table(self) -> Array:
        """Pr[set y | answer x]; sets in lexicographic order of their sorted answers."""
        k, w = self.k, self._w
        if self.message_bits + math.log2(k) > math.log2(LARGEST_TABLE):
            raise InvalidArgumentError("k", k, f"at most {LARGEST_TABLE} answers and sets")
        sets = np.array(list(itertools.combinations(range(k), w)))
        weights = np.full((k, len(sets)), self._without / (self._total * math.comb(k - 1, w)))
        columns = np.arange(len(sets))[:, None]
        weights[sets, columns] = self._with / (self._total * math.comb(k - 1, w - 1))
        return weights

    def tally(self, messages: Messages) -> Counts:
        """How many sets contain each answer."""
        rows = self.decode(messages)
        return Counts(bit_counts(rows, self.k), len(rows))

    def encode(self, messages: Messages) -> npt.NDArray[np.uint8]:
        """The rows as they are."""
        return self.decode(messages)

    def decode(self, rows: Messages) -> npt.NDArray[np.uint8]:
        """The rows as they are; every one has exactly w bits set."""
        found = checked_rows(rows, self.k)
        sizes = _sizes(found)
        wrong = np.flatnonzero(sizes != self._w)
        if wrong.size:
            raise InvalidArgumentError("set", int(sizes[wrong[0]]), f"sets of {self._w} answers")
        return found

    def admissible(self, rows: Rows) -> npt.NDArray[np.bool_]:
        """Rows of k bits, w of them set."""
        found: npt.NDArray[np.bool_] = clean_rows(rows, self.k) & (_sizes(rows) == self._w)
        return found

    @property
    def _support(self) -> Support:
        """Of the other answers a set holds w - 1 with the truth, and w without it."""
        others = self._with * (self._w - 1) + self._without * self._w
        return Support(self._with / self._total, others / ((self.k - 1) * self._total))

    def supports(
        self, messages: npt.NDArray[Any], inputs: Sequence[Any]
    ) -> npt.NDArray[np.bool_] | None:
        """The answers whose bits are set."""
        return supported(messages, inputs)

    def support_sizes(self, messages: npt.NDArray[Any]) -> npt.NDArray[np.int64]:
        """How many bits are set."""
        return support_sizes(messages)

    def estimate(self, batch: Batch | Counts) -> Estimate:
        """Unbiased estimates of the share of each answer."""
        return self._support.estimate(self.counted(batch))

    def variance(self, frequencies: npt.ArrayLike, *, n: int) -> Array:
        """Variance of each estimated share, given the true ones."""
        return self._support.variance(frequencies, n=n)


def _sizes(rows: npt.NDArray[np.uint8]) -> npt.NDArray[np.int64]:
    """How many bits of each row are set."""
    sizes: npt.NDArray[np.int64] = np.bitwise_count(rows).sum(axis=1, dtype=np.int64)
    return sizes


def _completed(
    truths: npt.NDArray[np.int64],
    included: npt.NDArray[np.bool_],
    shape: tuple[int, int],
    randomness: Randomness,
) -> npt.NDArray[np.bool_]:
    """Uniformly random w-subsets of k answers that contain the truth, or do not, as told.

    The w smallest of independent random keys win; the truth's own key is set to come first or
    last. Where the w-th smallest key is not unique the row is drawn again: that event treats the
    other answers alike, so it favours none of them.
    """
    k, w = shape
    chosen = np.empty((truths.size, k), dtype=np.bool_)
    open_rows = np.arange(truths.size)
    while open_rows.size:
        needed = open_rows.size * k
        words = randomness.words(-(-needed // 2)).view(np.uint32)
        keys = words[:needed].reshape(open_rows.size, k)
        own = np.where(included[open_rows], 0, _LAST_KEY)
        keys[np.arange(open_rows.size), truths[open_rows]] = own
        limits = np.partition(keys, w - 1, axis=1)[:, w - 1]
        winners = keys <= limits[:, None]
        chosen[open_rows] = winners
        open_rows = open_rows[np.count_nonzero(winners, axis=1) != w]
    return chosen
