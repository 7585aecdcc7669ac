"""Randomized response on public random partitions of the answers: one symbol instead of one of k.

Whoever knows the public coins knows the partitions; they protect nobody. What they buy is a
smaller alphabet: a difference between two distributions of k answers survives, in part, in the
sums over the bins of a random partition, and a symbol of few costs less noise than one of many.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from shoal import checks
from shoal.accounting.law import BlanketLaw
from shoal.accounting.table import witness_pairs
from shoal.errors import InvalidArgumentError
from shoal.intervals.estimates import Estimate
from shoal.mechanisms.base import ByLaw, Codes, Mechanism, Odds, Parts, check_table
from shoal.mechanisms.codec import Numbered
from shoal.mechanisms.estimators import AnswerEstimator, Gap
from shoal.mechanisms.response import GOLDEN, WORD, mixed
from shoal.questions.domains import Cells
from shoal.randomness import Randomness, Words
from shoal.values import Array, Counts, Messages

LARGEST_BINS = 1 << 26  # partitions times answers
_ANSWERS_COMPARED = 1024  # up to here every pair of answers is compared
_ROWS_COMPARED = 16  # of more answers, so many are compared with all others


@dataclass(frozen=True, kw_only=True)
class Partitions:
    """``partitions`` public random ways to sort k answers into ``symbols`` bins of equal size.

    Sizes differ by one at most. The bins follow from the whole number ``coins`` by a public hash
    and are the same on every machine. For a power that holds against any distribution, draw the
    coins after nature has chosen it: they only must not depend on the data.
    """

    k: int
    partitions: int
    symbols: int
    coins: int

    def __post_init__(self) -> None:
        checks.counts(self, k=2, partitions=1, symbols=2, coins=0)
        checks.refuse(self.symbols > self.k, f"symbols <= k = {self.k}", symbols=self.symbols)
        expected = f"partitions times answers <= {LARGEST_BINS}"
        checks.refuse(self.partitions * self.k > LARGEST_BINS, expected, partitions=self.partitions)

    @property
    def cells(self) -> int:
        """Bins of all partitions together."""
        return self.partitions * self.symbols

    @classmethod
    @lru_cache(maxsize=8)
    def of(cls, *, k: int, partitions: int, symbols: int, coins: int) -> Partitions:
        """The partitions, with all that is computed of them once: who asks again gets the same."""
        return cls(k=k, partitions=partitions, symbols=symbols, coins=coins)

    @cached_property
    def bins(self) -> Codes:
        """The bin of answer x in partition g, at [g, x]."""
        k, symbols = self.k, self.symbols
        bins = np.empty((self.partitions, k), dtype=np.int64)
        for number in range(self.partitions):
            words = _hashed(np.arange(k, dtype=np.uint64), k, symbols, self.coins, number)
            bins[number, np.argsort(words)] = np.arange(k) * symbols // k
        bins.flags.writeable = False
        return bins

    @cached_property
    def places(self) -> Codes:
        """The same with the bins of all partitions numbered through: g symbols + bin."""
        places: Codes = self.bins + self.symbols * np.arange(self.partitions)[:, None]
        places.flags.writeable = False
        return places

    @property
    def fewest_shared(self) -> int:
        """In how many partitions any two answers share their bin at least, or 0.

        Exact up to 1,024 answers; of more, only some are compared with all others.
        """
        return self._apart[0]

    @property
    def most_apart(self) -> tuple[int, int]:
        """Two answers that share few bins: of those compared, as few as any two."""
        return self._apart[1]

    @cached_property
    def _apart(self) -> tuple[int, tuple[int, int]]:
        """The fewest bins that two answers share, and two answers that do."""
        every = self.k <= _ANSWERS_COMPARED
        fewest, pair = self.partitions, (0, 1)
        for answer in range(self.k - 1 if every else _ROWS_COMPARED):
            later = self.bins[:, answer + 1 :]
            shared = np.count_nonzero(later == self.bins[:, answer : answer + 1], axis=0)
            least = int(shared.argmin())
            if shared[least] < fewest or answer == 0:
                fewest, pair = int(shared[least]), (answer, answer + 1 + least)
            if fewest == 0:
                break
        # Answers that were not compared may share none.
        return (fewest if every else 0), pair


class OfAllAnswers(AnswerEstimator):
    """Messages say something of the whole distribution, and not of single answers.

    With fewer bins than answers there is no unbiased estimate of the fraction of one.
    """

    def __init__(self, name: str, k: int) -> None:
        self.name, self.k = name, k

    def estimate(self, counts: Counts) -> Estimate:  # noqa: ARG002
        """An error: there is none."""
        raise self._none

    def variance(self, frequencies: npt.ArrayLike | None = None, *, n: int) -> Array:  # noqa: ARG002
        """An error: there is none."""
        raise self._none

    def gap(self, first: int, second: int) -> Gap | None:  # noqa: ARG002
        """None."""
        return None

    @property
    def _none(self) -> InvalidArgumentError:
        expected = "a mechanism that estimates the fractions of answers (this one is for tests)"
        return InvalidArgumentError("randomizer", self.name, expected)


class PartitionedAnswers(Mechanism[Estimate]):
    """Takes one of k answers, of which messages tell bins of public partitions."""

    public_coins = True
    k: int
    symbols: int
    partitions: int
    coins: int

    @cached_property
    def layout(self) -> Partitions:
        """The public partitions."""
        return Partitions.of(
            k=self.k, partitions=self.partitions, symbols=self.symbols, coins=self.coins
        )

    def far_apart(self) -> tuple[int, ...]:
        """Two answers that share few bins."""
        return self.layout.most_apart

    def __post_init__(self) -> None:
        for name in ("k", "symbols", "partitions", "coins"):
            object.__setattr__(self, name, getattr(self.layout, name))


@dataclass(frozen=True, kw_only=True)
class PartitionedResponse(PartitionedAnswers):
    """Say which bin of a random one of G partitions holds the answer, by randomized response.

    The device draws the partition g by its own coin and sends (g, y), the symbol y being the bin
    of its answer with odds e^epsilon : 1 against each other symbol. One message is one of G L
    outputs, so all n people hide each other, not only those who drew the same partition.

    The law. With e = e^epsilon and z = e + L - 1 every output has blanket mass 1/(G z). Two
    answers that share their bin in c partitions have the atoms

        (1 - c/G)/z at (e, 1),  (1 - c/G)/z at (1, e),  (c/G)/z at (e, e),  rest at (1, 1).

    Replacing the values {e - x, 1 - e x} of a partition that parts the two answers by
    {e (1 - x), 1 - x}, those of one that does not, keeps their sum and lessens their spread
    (x = e^eps >= 1). So the divergence, the mean of a convex function of independent such values,
    is largest for the two answers that share the fewest bins: one list of atoms covers all.

    Citations: Acharya, Canonne, Freitag, Sun, Tyagi, "Inference Under Information Constraints III:
    Local Privacy Constraints", IEEE J. Sel. Areas Inf. Theory 2021, arXiv:2101.07981; its RAPTOR
    is ``symbols=2``. Canonne, Lyu, "Uniformity Testing in the Shuffle Model: Simpler, Better,
    Faster", SOSA 2022, arXiv:2108.08987.
    Runtime: two draws per report.
    Utility: for tests of the whole distribution (:mod:`shoal.testing`). The fractions of single
    answers cannot be estimated: with fewer bins than answers there is no unbiased estimate.

    >>> PartitionedResponse(k=6, epsilon=1.0, symbols=2, partitions=3, coins=7).outputs
    6
    """

    name: ClassVar[str] = "partitioned"

    k: int
    epsilon: float
    symbols: int
    partitions: int = 1
    coins: int = 0

    def __post_init__(self) -> None:
        super().__post_init__()
        checks.positive(epsilon=self.epsilon)
        _ = self.parts

    @cached_property
    def parts(self) -> Parts[Estimate]:
        """One message says a partition and one of its symbols."""
        odds = Odds.of(self.epsilon, highs=1, lows=self.symbols - 1)
        return Parts(
            domain=Cells(self.k),
            privacy=ByLaw(odds.epsilon, self._law),
            codec=Numbered(self.layout.cells),
            estimator=OfAllAnswers(self.name, self.k),
            odds=odds,
        )

    @property
    def truth(self) -> float:
        """By how much likelier the true symbol is than another: (e - 1)/z."""
        return (self.odds.high - self.odds.low) / self.odds.total

    def draw(self, data: Codes, bits: Randomness) -> Messages:
        """One message g symbols + y per value.

        A draw below high - low keeps the true symbol; the rest is ``symbols`` equal slices.
        """
        drawn = bits.below(self.odds.total, data.size).view(np.int64)
        chosen = bits.below(self.partitions, data.size).view(np.int64)
        excess = self.odds.high - self.odds.low
        truths = self.layout.bins[chosen, data]
        slices = (drawn - excess) // self.odds.low
        return chosen * self.symbols + np.where(drawn < excess, truths, slices)

    def _law(self) -> BlanketLaw:
        """The atoms of the two answers that share the fewest bins, which cover all pairs."""
        z = self.odds.high / self.odds.low + self.symbols - 1
        shared = self.layout.fewest_shared / self.partitions
        return self.odds.law(
            (1 - shared) / z,
            shared / z,
            (self.symbols - 2 + shared) / z,
            witnesses=lambda: witness_pairs(self._telling_rows()),
        )

    def table(self) -> Array:
        """Pr[message | answer x], one row per answer."""
        check_table(self.layout.cells, k=self.k)
        return self._rows(np.arange(self.k))

    def probabilities(self, inputs: Sequence[Any]) -> Array:
        """The rows of these answers."""
        return self._rows(np.array(inputs, dtype=np.int64))

    def _rows(self, answers: Codes) -> Array:
        each = self.odds.total * self.partitions
        rows = np.full((answers.size, self.layout.cells), self.odds.low / each)
        np.put_along_axis(rows, self.layout.places[:, answers].T, self.odds.high / each, axis=1)
        return rows

    def _telling_rows(self) -> Array:
        """Two answers that share few bins and some others, outputs joined that look alike."""
        others = np.linspace(0, self.k - 1, min(self.k, 4)).astype(np.int64)
        answers = np.unique(np.append(others, self.layout.most_apart))
        alike, group = np.unique(self._rows(answers), axis=1, return_inverse=True)
        return alike * np.bincount(group.reshape(-1))


def _hashed(numbers: Words, *key: int) -> Words:
    """A hash of each number under this key; no two numbers tie.

    The key is hashed by the same function, part by part, so that nearby keys have nothing in
    common.
    """
    start = 0
    for part in key:
        start = int(mixed(np.array([(start + part + 1) * GOLDEN & WORD], dtype=np.uint64))[0])
    return mixed(numbers * np.uint64(GOLDEN) + np.uint64(start))
