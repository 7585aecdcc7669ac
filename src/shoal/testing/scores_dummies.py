"""Scores of counts among uniform dummies."""

from __future__ import annotations

import math
from abc import abstractmethod
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from shoal.testing import sampling
from shoal.testing.gram import Gram, Spread, apart, dot
from shoal.testing.scores import CountTable, Scores
from shoal.values import Array


@dataclass(frozen=True, eq=False, kw_only=True)
class AmongDummies(Scores):
    """Counts of true messages, t of one person on average, and dummies uniform on L cells.

    Several messages of one person are not seen to belong together, so that the statistic cannot
    leave out what a person adds by itself. Its mean is known, and is subtracted instead:

        Σ_j W_j [ (c_j − n μ_j)² − c_j + 2 t_j (c_j − n μ_j) + n t_j² + n β ],  μ_j = t_j + ρ/L,

    with β = (⌊ρ⌋ + (ρ − ⌊ρ⌋)²)/L² has mean n(n−1) Σ_j W_j (t'_j − t_j)² for any true cells t'.
    """

    @property
    def dummies(self) -> float:
        """Dummies of one person for one histogram, on average."""
        return float(self.device.dummies)  # type: ignore[union-attr]

    @property
    @abstractmethod
    def symbols(self) -> int:
        """Cells that a dummy may fall into."""

    @abstractmethod
    def truths(self, shares: Array) -> Array:
        """Expected true messages of one person."""

    @property
    @abstractmethod
    def gram(self) -> Gram:
        """κ of all messages."""

    def expected(self, shares: Array) -> Array:
        """The truth and its dummies."""
        return self.truths(shares) + self.dummies / self.symbols

    def times(self, offsets: Array) -> Array:
        """By the matrix of κ."""
        return self.gram.times(offsets)

    @cached_property
    def cell_variances(self) -> Array:
        """Variance of each count of one person's messages."""
        return self._cell_variances(self.truths(self.reference))

    def _cell_variances(self, truths: Array) -> Array:
        return truths + self.dummies / self.symbols - truths**2 - self._alike

    @property
    def _alike(self) -> float:
        """β: how much less two counts vary together because dummies are drawn together."""
        always, sometimes = divmod(self.dummies, 1.0)
        return float(always + sometimes**2) / self.symbols**2

    def spread_of(self, shares: Array) -> Spread:
        """Σ = diag(t + ρ/L) − tt' − β 11'."""
        truths, alike = self.truths(shares), self._alike
        weights, variances = self.gram.diagonal, self._cell_variances(truths)
        square = dot(weights**2, variances**2) + apart(weights * truths**2)
        square += 2 * alike * apart(weights * truths) + alike**2 * apart(weights)
        return Spread(dot(weights, variances), square)

    @abstractmethod
    def each(self, values: Array) -> Array:
        """What the true messages of every answer sum to."""

    def variance(self, values: Array, shares: Array) -> Array:
        """That of the truth, and in every histogram that of ρ dummies."""
        truth = self.each(values)
        variance = dot(shares, (truth - dot(shares, truth)[..., None]) ** 2)
        variance += self.dummies / self.symbols * dot(values, values)
        histograms = values.reshape(*values.shape[:-1], -1, self.symbols).sum(axis=-1)
        return variance - self._alike * dot(histograms, histograms)

    @cached_property
    def own(self) -> tuple[Array, Array]:
        """As in the formula above."""
        truths, weights = self.truths(self.reference), self.gram.diagonal
        per_person = dot(weights, 2 * truths * self.mean - truths**2 - self._alike)
        return weights * (1 - 2 * truths), per_person

    def draw(
        self, shares: Array, *, n: int, size: int, generator: np.random.Generator
    ) -> CountTable:
        """The truth is multinomial."""
        true = sampling.multinomial(self.truths(shares), n=n, size=size, generator=generator)
        rows = math.prod(true.shape[:-1])
        return true + self.drawn_dummies(rows, n=n, generator=generator).reshape(true.shape)

    def drawn_dummies(self, size: int, *, n: int, generator: np.random.Generator) -> CountTable:
        """Rows of counts of n people's dummies for one histogram."""
        sent = self.sent(n=n, size=size, generator=generator) - n
        return sampling.uniform(self.symbols, sent=sent, generator=generator)

    def sent(self, *, n: int, size: int, generator: np.random.Generator) -> CountTable:
        """The truth and the dummies of one histogram."""
        always, sometimes = divmod(self.dummies, 1.0)
        return n * (1 + int(always)) + generator.binomial(n, sometimes, size=size)


@dataclass(frozen=True, eq=False, kw_only=True)
class DummiesScores(AmongDummies):
    """Every answer by itself."""

    @property
    def symbols(self) -> int:
        """As many as answers."""
        return self.reference.size

    def truths(self, shares: Array) -> Array:
        """The answer itself."""
        return shares

    def each(self, values: Array) -> Array:
        """One message."""
        return values

    @property
    def variances(self) -> Array:
        """Those of the counts."""
        return self.cell_variances

    @cached_property
    def gram(self) -> Gram:
        """Different messages have nothing in common."""
        return Gram(self.weights)
