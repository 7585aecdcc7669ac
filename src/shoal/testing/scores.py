"""The statistic: scores of messages, weights of scores, and what is expected of both.

The statistics assume that people's answers are independent draws of one distribution p; privacy
does not: it holds for each person whatever the others say. Every device comes with an unbiased
*score* of its messages, φ(m) with E φ(m) = p (up to a public linear map where coins are public).
For n messages and the distribution q of the hypothesis the statistic is

    T = Σ_j w_j [ (Σ_i φ_j(m_i) − n q_j)² − Σ_i (φ_j(m_i) − q_j)² ],
    E T = n(n−1) Σ_j w_j (p_j−q_j)²,

a U-statistic: pairs of messages only, no message with itself. A distribution at total variation α
has Σ_j |p_j − q_j| = 2α, so E T is at least n(n−1) 4α²/Σ_j (1/w_j) (Cauchy-Schwarz), reached by
|p_j − q_j| ∝ 1/w_j. Under the hypothesis T has variance 2n(n−1) Σ_j w_j² s_j⁴, s_j² being the
variance of one score, if different scores are nearly uncorrelated. The ratio of mean to standard
deviation in the worst case,

    4α² (n−1) / (√2 Σ_j (1/w_j) √(Σ_j w_j² s_j⁴)),

is largest for w_j = (s_j²)^{−2/3}: the exponent of Valiant, Valiant, "An Automatic Inequality
Prover and Instance Optimal Identity Testing", SIAM J. Comput. 46 (2017), with the noise of privacy
inside the variance. For uniform q the weights are equal.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Self

import numpy as np
import numpy.typing as npt

from shoal.protocols.base import Device
from shoal.testing import sampling
from shoal.testing.gram import Departure, Gram, Spread, apart, dot
from shoal.values import Array, Counts

CountTable = npt.NDArray[np.int64]

_LARGEST_SQUARED = 1 << 31  # messages: beyond, squares overflow
_EVEN = 1e-12  # by how much equal numbers may differ in their last digits


@dataclass(frozen=True, eq=False, kw_only=True)
class Scores(ABC):
    """What a device's messages say about everybody's distribution, under one hypothesis.

    ``reference`` is the hypothesis; ``observed`` replaces the messages that it predicts by those
    pooled from two batches, when the question is only whether the two agree. With one partition by
    public coins, references may be rows: everything else then has rows for each of them.
    """

    device: Device
    reference: Array
    observed: Array | None = None

    @property
    def outputs(self) -> int:
        """How many messages there are."""
        return int(self.device.outputs or 0)

    @cached_property
    def mean(self) -> Array:
        """Expected messages of one person under the hypothesis, by number."""
        return self.expected(self.reference) if self.observed is None else self.observed

    @abstractmethod
    def expected(self, probabilities: Array) -> Array:
        """Expected messages of one person whose answer has these probabilities, or of rows."""

    @property
    @abstractmethod
    def variances(self) -> Array:
        """Variance of each score of one person."""

    @cached_property
    def weights(self) -> Array:
        """(s²)^{−2/3}, scaled to mean 1."""
        raw: Array = self.variances ** (-2 / 3)
        scaled: Array = raw / raw.mean(axis=-1, keepdims=True)
        return scaled

    @cached_property
    def spread(self) -> Spread:
        """Moments of one person's messages under the hypothesis."""
        return self.spread_of(self.reference)

    @abstractmethod
    def spread_of(self, probabilities: Array) -> Spread:
        """The same of somebody whose answer has these probabilities; rows are served too."""

    @abstractmethod
    def times(self, offsets: Array) -> Array:
        """M times each row of centred counts: half the gradient of the form."""

    def quadratic(self, offsets: Array) -> Array:
        """Σ_j w_j (score j)² of each row of centred counts."""
        return dot(self.times(offsets), offsets)

    @abstractmethod
    def variance(self, values: Array, probabilities: Array) -> Array:
        """Variance of what one person's messages sum to, each counting as in ``values``."""

    def departure(self, probabilities: Array) -> Departure:
        """What T shows where people's answers have these probabilities, row by row.

        E T is n(n−1) times the signal.
        """
        offsets = self.expected(probabilities) - self.mean
        pull = self.times(offsets)
        return Departure(
            dot(pull, offsets), self.variance(pull, probabilities), self.spread_of(probabilities)
        )

    @property
    @abstractmethod
    def own(self) -> tuple[Array, Array]:
        """What each message by its number, and each person, adds to that by itself."""

    def statistics(self, tables: CountTable, n: int) -> Array:
        """T of each row of counts of n people's messages."""
        per_message, per_person = self.own
        alone = dot(tables, per_message) + n * per_person
        return self.quadratic(tables - n * self.mean) - alone

    @abstractmethod
    def draw(
        self, probabilities: Array, *, n: int, size: int, generator: np.random.Generator
    ) -> CountTable:
        """Rows of counts of n people with these probabilities (or, row by row, with those)."""

    @property
    def gram(self) -> Gram | None:
        """κ of all messages, if it is ever listed."""
        return None

    @property
    def is_even(self) -> bool:
        """Whether all messages are equally likely under the hypothesis and count alike."""
        gram = self.gram
        if gram is None or gram.dense:
            return False
        return all(np.ptp(each) <= _EVEN * each.max() for each in (gram.entries, self.mean))

    @abstractmethod
    def sent(self, *, n: int, size: int, generator: np.random.Generator) -> CountTable:
        """How many messages n people send, time and again."""

    def null(self, *, n: int, size: int, generator: np.random.Generator) -> Array:
        """T of so many made-up batches of n people under the hypothesis.

        If all messages are alike T depends on the sum of the squared counts alone, which can be
        drawn without the counts.
        """
        gram = self.gram
        if gram is None or not self.is_even or n * self.device.slots > _LARGEST_SQUARED:
            parts = [
                self.statistics(self.draw(self.reference, n=n, size=part, generator=generator), n)
                for part in sampling.chunks(size, max(self.outputs, self.reference.size))
            ]
            return np.concatenate(parts)
        sent = self.sent(n=n, size=size, generator=generator)
        squares = sampling.squares(self.outputs, sent=sent, generator=generator)
        mean = n * float(self.mean[0])
        per_message, per_person = self.own
        offsets = squares - 2 * mean * sent + self.outputs * mean**2
        statistics: Array = float(gram.entries[0]) * offsets - float(per_message[0]) * sent
        return statistics - n * per_person


@dataclass(frozen=True, eq=False, kw_only=True)
class OneMessage(Scores):
    """Scores of a randomizer: the counts are multinomial."""

    def draw(
        self, probabilities: Array, *, n: int, size: int, generator: np.random.Generator
    ) -> CountTable:
        """Multinomial counts of the law that the probabilities give the message."""
        return sampling.multinomial(
            self.expected(probabilities), n=n, size=size, generator=generator
        )

    def variance(self, values: Array, probabilities: Array) -> Array:
        """Of one message."""
        law = self.expected(probabilities)
        return dot(law, (values - dot(law, values)[..., None]) ** 2)

    def sent(self, *, n: int, size: int, generator: np.random.Generator) -> CountTable:  # noqa: ARG002
        """One message each."""
        return np.full(size, n, dtype=np.int64)

    def pooled(self, counts: Counts) -> Self:
        """The same scores with the mean and the weights of messages pooled from two batches."""
        return replace(self, observed=counts.cells / counts.n)


@dataclass(frozen=True, eq=False, kw_only=True)
class ListedMessages(OneMessage):
    """One message, κ of all messages being listed."""

    @property
    @abstractmethod
    def gram(self) -> Gram:
        """κ of all messages."""

    def spread_of(self, probabilities: Array) -> Spread:
        """From the law of the message."""
        return self.gram.spread(self.expected(probabilities))

    def times(self, offsets: Array) -> Array:
        """By the matrix of κ."""
        return self.gram.times(offsets)

    @cached_property
    def own(self) -> tuple[Array, Array]:
        """Every message by itself."""
        return self.gram.own(self.mean), np.zeros(())


@dataclass(frozen=True, eq=False, kw_only=True)
class ResponseScores(ListedMessages):
    """k-ary randomized response: φ_j(m) = (1{m = j} − b)/λ, b the probability of one untruth."""

    def expected(self, probabilities: Array) -> Array:
        """b + λ p_j."""
        return self._lie + self._truth * probabilities

    @cached_property
    def variances(self) -> Array:
        """r_j(1 − r_j)/λ²; no message is rarer than its untruths, however few were seen."""
        law = np.maximum(self.mean, self._lie)
        variances: Array = np.maximum(law * (1 - law), self._lie * (1 - self._lie)) / self._truth**2
        return variances

    @cached_property
    def gram(self) -> Gram:
        """Different messages have nothing in common."""
        return Gram(self.weights / self._truth**2)

    @property
    def _lie(self) -> float:
        return 1 / (math.exp(self.device.local_epsilon) + self.outputs - 1)

    @property
    def _truth(self) -> float:
        return math.expm1(self.device.local_epsilon) * self._lie


@dataclass(frozen=True, eq=False, kw_only=True)
class ListedScores(ListedMessages):
    """Any randomizer with a table: φ(m) is its estimate from the message m alone."""

    def expected(self, probabilities: Array) -> Array:
        """The probabilities times the table."""
        return probabilities @ self._table

    @cached_property
    def variances(self) -> Array:
        """From the scores of all messages."""
        law = np.maximum(self.mean, self._table.min(axis=0))
        law = law / law.sum()
        centred = law @ (self._scores - law @ self._scores) ** 2
        variances: Array = np.maximum(centred, _EVEN**2 * centred.max())
        return variances

    @cached_property
    def gram(self) -> Gram:
        """All pairs of messages."""
        return Gram((self._scores * self.weights) @ self._scores.T, dense=True)

    @cached_property
    def _table(self) -> Array:
        table: Array = self.device.table()  # type: ignore[union-attr]
        return table

    @cached_property
    def _scores(self) -> Array:
        """One row per message."""
        single = np.eye(self.outputs, dtype=np.int64)
        rows = [self.device.estimate(Counts(cells, 1)).frequencies for cells in single]  # type: ignore[union-attr]
        return np.array(rows)


# --------------------------------------------------------------------- counts among uniform dummies


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
    def truths(self, probabilities: Array) -> Array:
        """Expected true messages of one person."""

    @property
    @abstractmethod
    def gram(self) -> Gram:
        """κ of all messages."""

    def expected(self, probabilities: Array) -> Array:
        """The truth and its dummies."""
        return self.truths(probabilities) + self.dummies / self.symbols

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

    def spread_of(self, probabilities: Array) -> Spread:
        """Σ = diag(t + ρ/L) − tt' − β 11'."""
        truths, alike = self.truths(probabilities), self._alike
        weights, variances = self.gram.diagonal, self._cell_variances(truths)
        square = dot(weights**2, variances**2) + apart(weights * truths**2)
        square += 2 * alike * apart(weights * truths) + alike**2 * apart(weights)
        return Spread(dot(weights, variances), square)

    @abstractmethod
    def each(self, values: Array) -> Array:
        """What the true messages of every answer sum to."""

    def variance(self, values: Array, probabilities: Array) -> Array:
        """That of the truth, and in every histogram that of ρ dummies."""
        truth = self.each(values)
        variance = dot(probabilities, (truth - dot(probabilities, truth)[..., None]) ** 2)
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
        self, probabilities: Array, *, n: int, size: int, generator: np.random.Generator
    ) -> CountTable:
        """The truth is multinomial."""
        true = sampling.multinomial(self.truths(probabilities), n=n, size=size, generator=generator)
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

    def truths(self, probabilities: Array) -> Array:
        """The answer itself."""
        return probabilities

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
