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

Everything a test needs of the scores is how alike two messages are,

    κ(m, m') = Σ_j w_j φ_j(m) φ_j(m'),

the matrix M of κ over all messages: a diagonal one where different messages have nothing in common.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Self, cast

import numpy as np
import numpy.typing as npt
from scipy import sparse

from shoal import checks
from shoal.errors import InvalidArgumentError
from shoal.mechanisms.base import CategoryRandomizer, Device
from shoal.mechanisms.dummies import PartitionedDummies, UniformDummies
from shoal.mechanisms.partitioned import PartitionedResponse, Partitions
from shoal.mechanisms.response import HadamardResponse, walsh
from shoal.testing import sampling
from shoal.testing.sampling import CountTable, Generator
from shoal.values import Array, Counts

LARGEST_LIST = 2048  # messages whose likeness is listed pair by pair
MOST_CELLS = 4096  # bins of several partitions: a table of all pairs has to fit into memory
MOST_PEOPLE = 10**9 - 1  # in two batches: beyond, no exact way to split them is at hand
_LARGEST_SQUARED = 1 << 31  # messages: beyond, squares overflow
_EVEN = 1e-12  # by how much equal numbers may differ in their last digits
_LEAST_VARIANCE = 1e-14  # of a squared score: below, it is rounding


@dataclass(frozen=True, eq=False)
class Spread:
    """tr(MΣ) and tr((MΣ)²), Σ being the covariance of one person's counts.

    Of n people, the form of their centred counts has mean n tr(MΣ), and variance
    2n² tr((MΣ)²) to leading order. Either number, or one for each of several distributions.
    """

    trace: Array
    square: Array

    @property
    def freedom(self) -> Array:
        """Degrees of freedom of the χ² with the same mean and variance (Satterthwaite)."""
        return self.trace**2 / self.square

    @property
    def scale(self) -> Array:
        """What that χ² is to be multiplied by."""
        return self.square / self.trace


@dataclass(frozen=True, eq=False)
class Departure:
    """What people of another distribution do to the form; with δ the change of the mean counts.

    ``signal`` is δ'Mδ, and ``noise`` δ'MΣMδ with their covariance Σ: by how much the signal itself
    is uncertain. ``spread`` is theirs as well.
    """

    signal: Array
    noise: Array
    spread: Spread


@dataclass(frozen=True, eq=False)
class Gram:
    """The matrix M of κ, or, unless it is ``dense``, its diagonal alone.

    Diagonals of several matrices may be rows; vectors then are rows for each of them.
    """

    entries: Array
    dense: bool = False

    @property
    def diagonal(self) -> Array:
        """κ(m, m)."""
        return np.diagonal(self.entries) if self.dense else self.entries

    def times(self, vectors: Array) -> Array:
        """Each row times M."""
        return vectors @ self.entries if self.dense else vectors * self.entries

    def own(self, law: Array) -> Array:
        """Σ_j w_j (φ_j(m) − E φ_j)² of each message m, its own part of the form.

        ``law`` is the law of a message; centring costs −2(Mr)_m + r'Mr.
        """
        mean = self.times(law)
        return self.diagonal - 2 * mean + dot(mean, law)[..., None]

    def spread(self, law: Array) -> Spread:
        """The moments for one message of this law, or of each: Σ = diag(r) − rr'."""
        if self.dense:
            pairs = [self._dense_spread(row) for row in law.reshape(-1, law.shape[-1])]
            trace, square = np.array(pairs).T.reshape(2, *law.shape[:-1])
            return Spread(trace, square)
        variances = self.entries * law * others(law)
        square = dot(variances, variances) + apart(self.entries * law**2)
        return Spread(variances.sum(axis=-1), square)

    def _dense_spread(self, law: Array) -> tuple[float, float]:
        # Centred first: the squares of what is left are not taken from larger numbers.
        mean = self.times(law)
        centred = self.entries - mean[:, None]
        centred -= mean
        centred += float(mean @ law)
        trace = float(np.diagonal(centred) @ law)
        centred *= centred
        return trace, float(law @ (centred @ law))


def dot(first: Array | npt.NDArray[np.int64], second: Array) -> Array:
    """Σ_m of the products, row by row."""
    return first @ second if second.ndim == 1 else np.einsum("...m,...m->...", first, second)


def others(law: Array) -> Array:
    """1 − r_m of each message, as the sum of the other probabilities where r_m is near 1."""
    rest: Array = 1 - law
    top = law.argmax(axis=-1, keepdims=True)
    np.put_along_axis(rest, top, _without(law, top).sum(axis=-1, keepdims=True), axis=-1)
    return rest


def apart(values: Array) -> Array:
    """Σ_{i≠j} v_i v_j of numbers that are not negative, also where one is nearly all of the sum.

    >>> float(apart(np.array([1.0, 1e-12])))
    2e-12
    """
    top = values.argmax(axis=-1, keepdims=True)
    rest = _without(values, top)
    total = rest.sum(axis=-1)
    largest = np.take_along_axis(values, top, axis=-1)[..., 0]
    among = np.maximum(0.0, total**2 - dot(rest, rest))
    sums: Array = 2 * largest * total + among
    return sums


def _without(values: Array, places: npt.NDArray[np.intp]) -> Array:
    """The same with 0 at these places."""
    rest = values.copy()
    np.put_along_axis(rest, places, 0.0, axis=-1)
    return rest


# ------------------------------------------------------------------------------------- the scores


class Scores(ABC):
    """What a device's messages say about everybody's distribution, under one hypothesis.

    Each person sends one message, unless a class says otherwise: the counts are multinomial.

    ``reference`` is the hypothesis; ``observed`` replaces the messages that it predicts by those
    pooled from two batches, when the question is only whether the two agree. With one partition by
    public coins, references may be rows: everything else then has rows for each of them.
    """

    exchangeable = True  # whether messages of two batches can be split anew

    def __init__(self, device: Device, reference: Array, observed: Array | None = None) -> None:
        self.device, self.reference, self.observed = device, reference, observed
        self.outputs = int(device.outputs or 0)

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
        return np.asarray(raw / raw.mean(axis=-1, keepdims=True))

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

    def variance(self, values: Array, probabilities: Array) -> Array:
        """Variance of what one person's messages sum to, each counting as in ``values``."""
        law = self.expected(probabilities)
        return dot(law, (values - dot(law, values)[..., None]) ** 2)

    def departure(self, probabilities: Array) -> Departure:
        """What T shows where people's answers have these probabilities, row by row.

        E T is n(n−1) times the signal.
        """
        offsets = self.expected(probabilities) - self.mean
        pull = self.times(offsets)
        noise = self.variance(pull, probabilities)
        return Departure(dot(pull, offsets), noise, self.spread_of(probabilities))

    @property
    @abstractmethod
    def own(self) -> tuple[Array, Array]:
        """What each message by its number, and each person, adds to the form by itself."""

    def statistics(self, tables: CountTable, n: int) -> Array:
        """T of each row of counts of n people's messages."""
        per_message, per_person = self.own
        alone = dot(tables, per_message) + n * per_person
        return self.quadratic(tables - n * self.mean) - alone

    def draw(self, probabilities: Array, *, n: int, size: int, generator: Generator) -> CountTable:
        """Rows of counts of n people with these probabilities (or, row by row, with those)."""
        law = self.expected(probabilities)
        return sampling.multinomial(law, n=n, size=size, generator=generator)

    @property
    def is_even(self) -> bool:
        """Whether all messages are equally likely under the hypothesis and count alike."""
        return False

    def sent(self, *, n: int, size: int, generator: Generator) -> CountTable:  # noqa: ARG002
        """How many messages n people send, time and again."""
        return np.full(size, n, dtype=np.int64)

    def null(self, *, n: int, size: int, generator: Generator) -> Array:
        """T of so many made-up batches of n people under the hypothesis.

        If all messages are alike T depends on the sum of the squared counts alone, which can be
        drawn without the counts.
        """
        if not self.is_even or n * self.device.slots > _LARGEST_SQUARED:
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
        weight = float(self.times(np.ones(self.outputs))[0])
        statistics: Array = weight * offsets - float(per_message[0]) * sent
        return statistics - n * per_person

    def pooled(self, counts: Counts) -> Self:
        """The same scores with the mean and the weights of messages pooled from two batches."""
        return type(self)(self.device, self.reference, counts.cells / counts.n)

    def differences(self, first: CountTable, second: CountTable, sizes: tuple[int, int]) -> Array:
        """Whether two batches of so many people each come from one distribution: T, row by row.

        With n and n' messages, and N, N' their counts, it is the U-statistic

            T = Σ_j w_j [ Σ_{i≠l} φ_j(m_i)φ_j(m_l)/(n(n−1)) + the same of the other batch
                          − 2 Σ_{i,l} φ_j(m_i)φ_j(m'_l)/(n n') ],    E T = Σ_j w_j (p_j − p'_j)².

        Centred at the pooled mean, the two batches' sums are each other's negative, so that one
        quadratic form of N − n (N + N')/(n + n') gives all three.
        """
        one, two = sizes
        pooled = first + second
        factor = 1 / (one * (one - 1)) + 1 / (two * (two - 1)) + 2 / (one * two)
        own = self.own[0]
        alone = dot(first, own) / (one * (one - 1)) + dot(second, own) / (two * (two - 1))
        return factor * self.quadratic(first - pooled * (one / (one + two))) - alone


def scores_of(device: Device, reference: Array) -> Scores:
    """The scores of a device's messages under the hypothesis."""
    k, answers = getattr(device, "k", None), reference.shape[-1]
    checks.refuse(k != answers, f"a device for {answers} answers", k=k)
    if device.name in _SCORES:
        return _SCORES[device.name](device, reference)
    outputs = None if device.several else device.outputs
    if outputs is None or not hasattr(device, "table"):
        expected = "a device whose messages are numbers (grr, hadamard, projective, dummies, ...)"
        raise InvalidArgumentError("device", getattr(device, "name", device), expected)
    expected = f"at most {LARGEST_LIST} different messages for {device.name}"
    checks.refuse(outputs > LARGEST_LIST, expected, outputs=outputs)
    return ListedScores(device, reference)


class Split:
    """Two batches, and all the ways to split their messages anew.

    Weights and mean depend on the pooled counts alone, which splitting at random does not change:
    the test is exact given them.
    """

    def __init__(self, scores: Scores, first: Counts, second: Counts) -> None:
        self.first, self.second = first.cells, second.cells
        self.sizes = first.n, second.n
        people = sum(self.sizes)
        expected = "fewer than 10^9 people in both batches together: compare a part of each"
        checks.refuse(people > MOST_PEOPLE, expected, people=people)
        self.scores = scores.pooled(first + second)

    @property
    def statistic(self) -> float:
        """T of the two batches as they are."""
        one, two = self.first[None, :], self.second[None, :]
        return float(self.scores.differences(one, two, self.sizes)[0])

    def null(self, simulations: int, generator: Generator) -> Array:
        """T of as many random splits of the pooled messages."""
        pooled, people = self.first + self.second, self.sizes[0]
        parts = []
        for size in sampling.chunks(simulations, pooled.size):
            first = generator.multivariate_hypergeometric(
                pooled, people, size=size, method="marginals"
            )
            parts.append(self.scores.differences(first, pooled - first, self.sizes))
        return np.concatenate(parts)


class GramScores(Scores):
    """Scores of messages whose likeness κ is listed: as a matrix, or as its diagonal."""

    @property
    @abstractmethod
    def gram(self) -> Gram:
        """κ of all messages."""

    def spread_of(self, probabilities: Array) -> Spread:
        return self.gram.spread(self.expected(probabilities))

    def times(self, offsets: Array) -> Array:
        return self.gram.times(offsets)

    @cached_property
    def own(self) -> tuple[Array, Array]:
        return self.gram.own(self.mean), np.zeros(())

    @property
    def is_even(self) -> bool:
        alike = (self.gram.entries, self.mean)
        return not self.gram.dense and all(np.ptp(each) <= _EVEN * each.max() for each in alike)


class ResponseScores(GramScores):
    """k-ary randomized response: φ_j(m) = (1{m = j} − b)/λ, b the probability of one untruth.

    On random partitions counts are in units of answers, scaled by G/λ.
    """

    def __init__(self, device: Device, reference: Array, observed: Array | None = None) -> None:
        super().__init__(device, reference, observed)
        self._layout = None
        self._lie = 1 / (math.exp(device.local_epsilon) + self.outputs - 1)
        self._truth = math.expm1(device.local_epsilon) * self._lie
        self._least = self._lie * (1 - self._lie)  # variance: no message is rarer than its untruths
        if device.public_coins:
            binned = cast("PartitionedResponse", device)
            self._layout = binned.layout
            self._truth = binned.truth / binned.partitions  # λ/G
            self._lie = self._least = (1 - binned.truth) / self.outputs

    def expected(self, probabilities: Array) -> Array:
        """b + λ p_j, or (b + λ p(bin))/G."""
        return self._lie + self._truth * _bin_sums(self._layout, probabilities)

    @cached_property
    def variances(self) -> Array:
        """r_j(1 − r_j)/λ²: a message supports an answer or not."""
        support = _over_bins(self._layout, np.maximum(self.mean, self._lie))
        return np.asarray(np.maximum(support * (1 - support), self._least) / self._truth**2)

    @cached_property
    def gram(self) -> Gram:
        return _bin_gram(self._layout, self.weights / self._truth**2)


class ListedScores(GramScores):
    """Any randomizer with a table: φ(m) is its estimate from the message m alone."""

    device: CategoryRandomizer

    def expected(self, probabilities: Array) -> Array:
        return probabilities @ self._table

    @cached_property
    def variances(self) -> Array:
        """From the scores of all messages."""
        law = np.maximum(self.mean, self._table.min(axis=0))
        law = law / law.sum()
        centred = law @ (self._scores - law @ self._scores) ** 2
        return np.asarray(np.maximum(centred, _EVEN**2 * centred.max()))

    @cached_property
    def gram(self) -> Gram:
        """All pairs of messages."""
        return Gram((self._scores * self.weights) @ self._scores.T, dense=True)

    @cached_property
    def _table(self) -> Array:
        return self.device.table()

    @cached_property
    def _scores(self) -> Array:
        """One row per message."""
        single = np.eye(self.outputs, dtype=np.int64)
        return np.array([self.device.estimate(Counts(cells, 1)).frequencies for cells in single])


class HadamardScores(Scores):
    """φ_j(m) = ±S for a message in the answer's block, + in its half of it; 0 elsewhere.

    Within a block the product of two such signs is the sign of a third answer, the exclusive or of
    their patterns. So with f(t) = S² Σ_m r_m χ_t(m) the second moments are E φ_i φ_j = f(i ⊕ j)
    inside a block and 0 outside, and sums over pairs of answers are convolutions over patterns: all
    of it is done by fast transforms.
    """

    device: HadamardResponse

    def __init__(self, device: Device, reference: Array, observed: Array | None = None) -> None:
        super().__init__(device, reference, observed)
        layout, self._odds = self.device.layout, math.expm1(device.local_epsilon)
        self._shape = layout.blocks, layout.width
        # z = e + 2B − 1, the weight of all half blocks, and S.
        self._halves = math.exp(device.local_epsilon) + 2 * layout.blocks - 1
        self._step = self._halves / self._odds

    def _laid_out(self, answers: Array) -> Array:
        """Numbers of the answers at their block and pattern, 0 elsewhere."""
        blocks, patterns = self.device.homes
        placed = np.zeros((*answers.shape[:-1], *self._shape))
        placed[..., blocks, patterns] = answers
        return placed

    def _signs(self, messages: Array) -> Array:
        return walsh(messages.reshape(*messages.shape[:-1], *self._shape))

    def expected(self, probabilities: Array) -> Array:
        """(2/(z b)) [1 + (e − 1)/2 Σ over the block of p_x (1 + χ_x)]."""
        placed = self._laid_out(probabilities)
        placed[..., 0] = placed.sum(axis=-1)
        law = (1 + self._odds / 2 * walsh(placed)) * (2 / (self._halves * self._shape[1]))
        return law.reshape(*probabilities.shape[:-1], self.outputs)

    def _moments(self, law: Array) -> tuple[Array, Array, Array]:
        """f by block and pattern, and mean and variance of each answer's score.

        The variance is S² times the block's probability, less the squared mean; no block is rarer
        than 2/z.
        """
        blocks, patterns = self.device.homes
        moments = self._step**2 * self._signs(law)
        means: Array = moments[..., blocks, patterns] / self._step
        squares = np.maximum(moments[..., 0], 2 * self._step**2 / self._halves)
        variances = squares[..., blocks] - means**2
        return moments, means, np.maximum(variances, _LEAST_VARIANCE * self._step**2)

    @cached_property
    def variances(self) -> Array:
        return self._moments(self.mean)[2]

    def quadratic(self, offsets: Array) -> Array:
        """S² Σ_j w_j (signed sum of the block)²."""
        signs = self._signs(offsets)
        forms: Array = np.einsum("...it,it,...it->...", signs, self._scale, signs)
        return forms

    def times(self, offsets: Array) -> Array:
        """The same transform there and back."""
        return walsh(self._scale * self._signs(offsets)).reshape(offsets.shape)

    @cached_property
    def _scale(self) -> Array:
        """S² w_j by block and pattern."""
        return self._step**2 * self._laid_out(self.weights)

    @cached_property
    def own(self) -> tuple[Array, Array]:
        """Σ_j w_j (φ_j(m) − E φ_j)²."""
        weights, means = self.weights, self._moments(self.mean)[1]
        blocks = self._step**2 * self._laid_out(weights).sum(axis=1)
        crossed = 2 * self._step * walsh(self._laid_out(weights * means))
        own = blocks[:, None] - crossed + float(weights @ means**2)
        return own.ravel(), np.zeros(())

    def spread_of(self, probabilities: Array) -> Spread:
        """Σ_ij w_i w_j (E φ_i φ_j − E φ_i E φ_j)², by convolution."""
        weights = self.weights
        moments, means, variances = self._moments(self.expected(probabilities))
        pairs = _convolved(self._laid_out(weights))
        crossed = _convolved(self._laid_out(weights * means))
        square = (moments * (moments * pairs - 2 * crossed)).sum(axis=(-2, -1))
        square += (means**2 @ weights) ** 2
        # Where one answer is nearly certain the three cancel. The squares of the variances are a
        # part of the sum, and no covariance matrix has more than the square of its trace.
        least = ((weights * variances) ** 2).sum(axis=-1)
        trace = variances @ weights
        return Spread(trace, np.minimum(np.maximum(square, least), trace**2))


def _convolved(values: Array) -> Array:
    """Σ_i values[i] values[i ⊕ t] for every t, in each block."""
    return np.asarray(walsh(walsh(values) ** 2) / values.shape[-1])


# --------------------------------------------------------------------- counts among uniform dummies


class DummiesScores(GramScores):
    """Counts of true messages, t of one person on average, and dummies uniform on L cells.

    Several messages of one person are not seen to belong together, so that the statistic cannot
    leave out what a person adds by itself. Its mean is known, and is subtracted instead:

        Σ_j W_j [ (c_j − n μ_j)² − c_j + 2 t_j (c_j − n μ_j) + n t_j² + n β ],  μ_j = t_j + ρ/L,

    with β = (⌊ρ⌋ + (ρ − ⌊ρ⌋)²)/L² has mean n(n−1) Σ_j W_j (t'_j − t_j)² for any true cells t'.
    β is how much less two counts vary together because dummies are drawn together.

    Each of several partitions has a histogram. The part of the statistic that a person adds by
    itself is then taken at its mean under the hypothesis, so that T has mean 0 there, and a mean
    off by O(nα) elsewhere.
    """

    device: UniformDummies | PartitionedDummies
    exchangeable = False

    def __init__(self, device: Device, reference: Array, observed: Array | None = None) -> None:
        super().__init__(device, reference, observed)
        binned = cast("PartitionedDummies", device) if device.public_coins else None
        self._layout = binned.layout if binned else None
        self.symbols: int = binned.symbols if binned else reference.shape[-1]  # L
        self._single = self.outputs == self.symbols  # one histogram
        self.dummies = float(self.device.dummies)  # ρ, for one histogram
        always, sometimes = divmod(self.dummies, 1.0)
        self._alike = float(always + sometimes**2) / self.symbols**2

    def truths(self, probabilities: Array) -> Array:
        """Expected true messages of one person: the answer itself, or one bin per partition."""
        return _bin_sums(self._layout, probabilities)

    @cached_property
    def variances(self) -> Array:
        """Those of the answer's bins together, as if they were independent."""
        return _over_bins(self._layout, self.cell_variances(self.truths(self.reference)))

    @cached_property
    def gram(self) -> Gram:
        return _bin_gram(self._layout, self.weights)

    def expected(self, probabilities: Array) -> Array:
        """The truth and its dummies."""
        return self.truths(probabilities) + self.dummies / self.symbols

    def cell_variances(self, truths: Array) -> Array:
        """Variance of each count of one person's messages."""
        return truths + self.dummies / self.symbols - truths**2 - self._alike

    def spread_of(self, probabilities: Array) -> Spread:
        """Σ = diag(t + ρ/L) − tt' − β 11', or the whole covariance of several partitions."""
        if not self._single:
            pairs = []
            for row in probabilities.reshape(-1, probabilities.shape[-1]):
                product = self.gram.times(self._covariance(row))
                pairs.append((np.trace(product), (product * product.T).sum()))
            return Spread(*np.array(pairs).T.reshape(2, *probabilities.shape[:-1]))
        truths, alike = self.truths(probabilities), self._alike
        weights, variances = self.gram.diagonal, self.cell_variances(truths)
        square = dot(weights**2, variances**2) + apart(weights * truths**2)
        square += 2 * alike * apart(weights * truths) + alike**2 * apart(weights)
        return Spread(dot(weights, variances), square)

    def variance(self, values: Array, probabilities: Array) -> Array:
        """That of the truth, and in every histogram that of ρ dummies."""
        truth = _over_bins(self._layout, values)
        variance = dot(probabilities, (truth - dot(probabilities, truth)[..., None]) ** 2)
        variance += self.dummies / self.symbols * dot(values, values)
        histograms = values.reshape(*values.shape[:-1], -1, self.symbols).sum(axis=-1)
        return variance - self._alike * dot(histograms, histograms)

    @cached_property
    def own(self) -> tuple[Array, Array]:
        """As in the formula above, or the mean."""
        if not self._single:
            return np.zeros(self.outputs), self.spread.trace
        truths, weights = self.truths(self.reference), self.gram.diagonal
        per_person = dot(weights, 2 * truths * self.mean - truths**2 - self._alike)
        return weights * (1 - 2 * truths), per_person

    def draw(self, probabilities: Array, *, n: int, size: int, generator: Generator) -> CountTable:
        """The truth is multinomial, the same in all partitions; the dummies are their own."""
        law = self.truths(probabilities) if self._single else probabilities
        true = sampling.multinomial(law, n=n, size=size, generator=generator)
        if not self._single:
            true = np.rint(self.truths(true.astype(np.float64))).astype(np.int64)
        dummies = []
        for _ in range(self.outputs // self.symbols):
            sent = self.sent(n=n, size=math.prod(true.shape[:-1]), generator=generator) - n
            dummies.append(sampling.uniform(self.symbols, sent=sent, generator=generator))
        return true + np.concatenate(dummies, axis=1).reshape(true.shape)

    def sent(self, *, n: int, size: int, generator: Generator) -> CountTable:
        """The truth and the dummies of one histogram."""
        always, sometimes = divmod(self.dummies, 1.0)
        return n * (1 + int(always)) + generator.binomial(n, sometimes, size=size)

    def _covariance(self, probabilities: Array) -> Array:
        truths = self.truths(probabilities)
        partition = np.arange(self.outputs) // self.symbols
        together = partition[:, None] == partition
        noise = np.where(together, -self._alike, 0.0)
        np.fill_diagonal(noise, self.dummies / self.symbols - self._alike)
        shared = _shared(self._layout, probabilities)
        return shared - np.outer(truths, truths) + noise


# ------------------------------------------------------------------------ bins of public partitions
#
# A message supports every answer of its bin. With C_x the number of messages that support x, over
# all partitions together, the statistic is built on Σ_x w_x (C_x − E C_x)²: two messages are alike
# by the (weighted) number of answers that their bins share, also if they speak of different
# partitions. For uniform q this is the locally most powerful statistic against departures that
# favour no direction. Only what survives the sums over bins is seen: how much, depends on the
# public coins.


# Closed forms, by the names of the mechanisms that have one; any other is listed by its table.
_SCORES: dict[str, type[Scores]] = {
    "grr": ResponseScores,
    "hadamard": HadamardScores,
    "dummies": DummiesScores,
    "partitioned": ResponseScores,
    "partitioned-dummies": DummiesScores,
}


@lru_cache(maxsize=8)
def _membership(layout: Partitions) -> sparse.csr_array:
    """One row per bin with a one for each of its answers."""
    wide = layout.partitions > 1 and layout.cells > MOST_CELLS
    expected = f"partitions times symbols <= {MOST_CELLS}, or a single partition"
    checks.refuse(wide, expected, symbols=layout.symbols)
    columns = layout.places.T.ravel()
    starts = np.arange(layout.k + 1) * layout.partitions
    ones = np.ones(columns.size)
    return sparse.csr_array((ones, columns, starts), shape=(layout.k, layout.cells)).T.tocsr()


def _bin_sums(layout: Partitions | None, values: Array) -> Array:
    """Each row summed over every bin of every partition."""
    if layout is None:
        return values
    rows = np.asarray((_membership(layout) @ values.reshape(-1, layout.k).T).T)
    return rows.reshape(*values.shape[:-1], layout.cells)


def _over_bins(layout: Partitions | None, cells: Array) -> Array:
    """For each answer the sum of these numbers over its bins, row by row."""
    return cells if layout is None else np.asarray(cells[..., layout.places].sum(axis=-2))


def _shared(layout: Partitions | None, weights: Array) -> Array:
    """The weight of the answers that two bins share."""
    matrix = _membership(layout)
    return np.asarray(((matrix * weights) @ matrix.T).toarray())


def _bin_gram(layout: Partitions | None, weights: Array) -> Gram:
    """κ by the weight of the answers that two bins share: those of one partition share none."""
    if layout is None or layout.partitions == 1:
        return Gram(_bin_sums(layout, weights))
    return Gram(_shared(layout, weights), dense=True)
