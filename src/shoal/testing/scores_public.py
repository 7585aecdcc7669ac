"""Scores where the answers were sorted into the bins of public random partitions.

A message supports every answer of its bin. With C_x the number of messages that support x, over
all partitions together, the statistic is built on Σ_x w_x (C_x − E C_x)²: two messages are alike by
the (weighted) number of answers that their bins share, also if they speak of different partitions.
For uniform q this is the locally most powerful statistic against departures that favour no
direction. Only what survives the sums over bins is seen: how much, depends on the public coins.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np
from scipy import sparse

from shoal.errors import InvalidArgumentError
from shoal.randomizers.partitioned import Partitions
from shoal.testing import sampling
from shoal.testing.gram import Gram, Spread
from shoal.testing.scores import AmongDummies, CountTable, ListedMessages
from shoal.values import Array

MOST_CELLS = 4096  # bins of several partitions: a table of all pairs has to fit into memory


@dataclass(frozen=True)
class Binning:
    """Sums over the bins of public partitions."""

    layout: Partitions

    def __post_init__(self) -> None:
        if self.layout.partitions > 1 and self.layout.cells > MOST_CELLS:
            expected = f"partitions times symbols <= {MOST_CELLS}, or a single partition"
            raise InvalidArgumentError("symbols", self.layout.symbols, expected)

    @property
    def matrix(self) -> sparse.csr_array:
        """One row per bin with a one for each of its answers."""
        return _membership(self.layout)

    def sums(self, values: Array) -> Array:
        """Each row summed over every bin of every partition."""
        rows = np.asarray((self.matrix @ values.reshape(-1, self.layout.k).T).T)
        sums: Array = rows.reshape(*values.shape[:-1], self.layout.cells)
        return sums

    def spread_out(self, cells: Array) -> Array:
        """For each answer the sum of these numbers over its bins, row by row."""
        sums: Array = cells[..., self.layout.places].sum(axis=-2)
        return sums

    def gram(self, weights: Array) -> Gram:
        """κ by the weight of the answers that two bins share: those of one partition share none."""
        if self.layout.partitions == 1:
            return Gram(self.sums(weights))
        return Gram(self.shared(weights), dense=True)

    def shared(self, weights: Array) -> Array:
        """The weight of the answers that two bins share."""
        scaled = self.matrix * weights
        weight: Array = (scaled @ self.matrix.T).toarray()
        return weight


@lru_cache(maxsize=8)
def _membership(layout: Partitions) -> sparse.csr_array:
    columns = layout.places.T.ravel()
    starts = np.arange(layout.k + 1) * layout.partitions
    ones = np.ones(columns.size)
    return sparse.csr_array((ones, columns, starts), shape=(layout.k, layout.cells)).T.tocsr()


@dataclass(frozen=True, eq=False, kw_only=True)
class PartitionedScores(ListedMessages):
    """Randomized response on a random partition: counts in units of answers, scaled by G/λ."""

    @cached_property
    def binning(self) -> Binning:
        """The public bins."""
        return Binning(self.device.layout)  # type: ignore[union-attr]

    @property
    def _truth(self) -> float:
        """λ/G."""
        truth: float = self.device.truth / self.device.partitions  # type: ignore[union-attr]
        return truth

    @property
    def _lie(self) -> float:
        return (1 - self.device.truth) / self.outputs  # type: ignore[union-attr, no-any-return]

    def expected(self, probabilities: Array) -> Array:
        """(b + λ p(bin))/G."""
        return self._lie + self._truth * self.binning.sums(probabilities)

    @cached_property
    def variances(self) -> Array:
        """A message supports an answer or not."""
        support = self.binning.spread_out(np.maximum(self.mean, self._lie))
        return np.maximum(support * (1 - support), self._lie) / self._truth**2

    @cached_property
    def gram(self) -> Gram:
        """By the answers that two bins share."""
        return self.binning.gram(self.weights / self._truth**2)


@dataclass(frozen=True, eq=False, kw_only=True)
class PartitionedDummiesScores(AmongDummies):
    """A histogram among dummies for every partition.

    With several partitions the part of the statistic that a person adds by itself is taken at its
    mean under the hypothesis, so that T has mean 0 there, and a mean off by O(nα) elsewhere.
    """

    @cached_property
    def binning(self) -> Binning:
        """The public bins."""
        return Binning(self.device.layout)  # type: ignore[union-attr]

    @property
    def symbols(self) -> int:
        """Bins of one partition."""
        return int(self.device.symbols)  # type: ignore[union-attr]

    @property
    def _single(self) -> bool:
        return bool(self.device.partitions == 1)  # type: ignore[union-attr]

    def truths(self, probabilities: Array) -> Array:
        """One bin per partition."""
        return self.binning.sums(probabilities)

    @cached_property
    def variances(self) -> Array:
        """Those of the answer's bins together, as if they were independent."""
        return self.binning.spread_out(self.cell_variances)

    @cached_property
    def gram(self) -> Gram:
        """By the answers that two bins share."""
        return self.binning.gram(self.weights)

    def each(self, values: Array) -> Array:
        """One message per partition."""
        return self.binning.spread_out(values)

    def spread_of(self, probabilities: Array) -> Spread:
        """As for any dummies, or from the whole covariance of several partitions."""
        if self._single:
            return super().spread_of(probabilities)
        pairs = []
        for row in probabilities.reshape(-1, probabilities.shape[-1]):
            product = self.gram.times(self._covariance(row))
            pairs.append((np.trace(product), (product * product.T).sum()))
        trace, square = np.array(pairs).T.reshape(2, *probabilities.shape[:-1])
        return Spread(trace, square)

    def _covariance(self, probabilities: Array) -> Array:
        truths = self.truths(probabilities)
        partition = np.arange(self.outputs) // self.symbols
        together = partition[:, None] == partition
        noise = np.where(together, -self._alike, 0.0)
        np.fill_diagonal(noise, self.dummies / self.symbols - self._alike)
        covariance: Array = self.binning.shared(probabilities) - np.outer(truths, truths) + noise
        return covariance

    @cached_property
    def own(self) -> tuple[Array, Array]:
        """As for any dummies, or the mean."""
        if self._single:
            return super().own
        return np.zeros(self.outputs), self.spread.trace

    def draw(
        self, probabilities: Array, *, n: int, size: int, generator: np.random.Generator
    ) -> CountTable:
        """Everybody's answer is the same in all partitions; the dummies are their own."""
        if self._single:
            return super().draw(probabilities, n=n, size=size, generator=generator)
        answers = sampling.multinomial(probabilities, n=n, size=size, generator=generator)
        true = np.rint(self.binning.sums(answers.astype(np.float64))).astype(np.int64)
        dummies = [
            self.drawn_dummies(len(true), n=n, generator=generator)
            for _ in range(self.outputs // self.symbols)
        ]
        return true + np.concatenate(dummies, axis=1)
