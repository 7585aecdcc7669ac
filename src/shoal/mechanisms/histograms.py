"""Histograms with almost the error of a trusted curator, in little more than a message each."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from decimal import Decimal, localcontext
from functools import cached_property, lru_cache, partial
from typing import Any, ClassVar, Self

import numpy as np

from shoal import checks
from shoal.accounting import search
from shoal.accounting.noise.near_central_histogram import (
    HistogramNoise,
    histogram_calibration,
    histogram_delta,
)
from shoal.accounting.noise.profile import Divergence, NoiseProfile
from shoal.intervals.estimates import Estimate, IndependentErrors, KnownErrors
from shoal.intervals.laws import Difference, ErrorLaw, magnitudes
from shoal.mechanisms import words as texts
from shoal.mechanisms.base import (
    EXACT,
    ByProfile,
    Candidate,
    Integers,
    Mechanism,
    Parts,
    Wanted,
    margins,
)
from shoal.mechanisms.codec import Numbered, Whole, ragged
from shoal.mechanisms.estimators import DataFree
from shoal.mechanisms.shares import CountTable, RareCount
from shoal.questions.domains import Cells
from shoal.randomness import Randomness
from shoal.values import Array, Counts, Envelopes, Flags, attributes

LOST = 1e-12  # probability that anybody's noise is too much for an envelope, and is not sent
MOST_SLOTS = 1 << 16
_NEGLIGIBLE = 1e-3  # of LOST
_COARSE = 1e-9  # what all people's tables of 62 bits may round off
_MANY_PEOPLE = 1e5  # beyond, as much less: delta is to be below 1/people
_MANY_CLUMPS = 600.0  # beyond, e^-clumps underflows
_TILTS = 64
_MORE = 1.1  # times what is paid above the curator's variance, at each step to fewer messages
_STEPS = 64  # to 45 times as much
_LEAST_LEAN = 0.05  # epsilon: below, a share of pairs may be beyond any envelope


@dataclass(frozen=True, eq=False)
class Clumps:
    """What one person adds to all buckets together, drawn at once as a compound Poisson number.

    A share of a negative binomial count of shape r and ratio q is a Poisson number of clumps, of
    size s at the rate r q^s/s; one of a Poisson count, of clumps of size 1. So a person draws how
    many clumps there are, over all buckets and kinds, and for each of them its ``kind`` and a
    uniform message (bucket, sign). The first ``pair_sizes`` kinds are 1, 2, ... pairs in that
    bucket, the others 1, 2, ... copies of the message. If all of it is more than ``room`` messages,
    which hardly ever happens, nothing is added.

    ``error`` bounds the total variation between that and the law it stands for.
    """

    number: RareCount
    kind: CountTable
    pair_sizes: int
    room: int
    error: float

    @classmethod
    @lru_cache(maxsize=64)
    def of(cls, noise: HistogramNoise, *, k: int, people: int) -> Clumps:
        """One person's share of the noise of k buckets, of so many people."""
        overflow = LOST / people
        room = _room(noise, k / people, overflow)
        with localcontext(EXACT):
            a, part = (-Decimal(noise.rate)).exp(), Decimal(k) / Decimal(people)
            singles = [2 * each for each in _logarithmic(Decimal(1), a, room)]
            single, pairs = -2 * (1 - a).ln(), Decimal(noise.pairs)
            if math.isinf(noise.shape):
                paired, pair = [pairs], pairs
            else:
                shape = Decimal(noise.shape)
                q = pairs / (shape + pairs)
                paired, pair = list(_logarithmic(shape, q, room // 2)), -shape * (1 - q).ln()
            total = pair + single
            kinds = [rate / total for rate in (*paired, *singles)]
            mean = part * total
            none = (-mean).exp()
            some = 1 - none
            amounts, rest = [none * mean / some], Decimal(1)  # Pr[N = 1 | N > 0], ...
            while (rest := rest - amounts[-1]) > Decimal(_NEGLIGIBLE * overflow):
                amounts.append(amounts[-1] * mean / (len(amounts) + 1))
            coarse = people * (len(amounts) * float(some) + len(kinds) * float(mean)) * 2.0**-62
            fine = coarse > _COARSE * min(1.0, _MANY_PEOPLE / people)
            kind = CountTable.exact(kinds, omitted=float(1 - sum(kinds)), fine=fine)
            amount = CountTable.exact(amounts, omitted=float(rest), fine=fine)
            number = RareCount.of(some, amount, error=float(some) * amount.error)
        error = (number.error + float(mean) * kind.error) * (1 + _NEGLIGIBLE) + overflow
        return cls(number, kind, len(paired), room, error)

    @property
    def integers(self) -> Integers:
        """The probability of any clump, the tables, and what the kinds are."""
        tables = {"kind_steps": self.kind.integers, "pair_sizes": self.pair_sizes}
        return {**self.number.integers("clumps"), **tables, "room": self.room}

    def draw(self, size: int, k: int, bits: Randomness) -> tuple[Whole, Whole]:
        """How many messages each person adds, and everybody's, person after person."""
        added = self.number.draw(size, bits)  # clumps, so far
        holders = np.flatnonzero(added)
        owners = np.repeat(np.arange(holders.size), added[holders])
        kinds = self.kind.draw(owners.size, bits)
        codes = bits.below(2 * k, owners.size).astype(np.int64)
        paired = kinds < self.pair_sizes
        sizes = kinds + 1 - np.where(paired, 0, self.pair_sizes)
        copies = np.stack([sizes, sizes * paired], axis=1)  # of the message, and of its opposite
        amounts = np.bincount(owners, weights=copies.sum(axis=1), minlength=holders.size)
        fits = amounts <= self.room
        copies[~fits[owners]] = 0
        added[holders] = amounts * fits
        opposite = codes + np.where(codes < k, k, -k)
        return added, np.repeat(np.stack([codes, opposite], axis=1).ravel(), copies.ravel())


def _logarithmic(shape: Decimal, ratio: Decimal, most: int) -> Iterator[Decimal]:
    """Rates r q^s/s of clumps of size s = 1, ..., most."""
    power = shape
    for size in range(1, most + 1):
        power *= ratio
        yield power / size


def _room(noise: HistogramNoise, part: float, overflow: float) -> int:
    """The least number of messages that the noise of one person exceeds so rarely, at most.

    The rates of clumps, by the messages w that they are, give the law of the sum by Panjer's
    recursion t g(t) = Σ_w w rate(w) g(t−w); beyond the end of it, and where there are too many
    clumps for it, by Chernoff's bound.
    """
    a, finite = math.exp(-noise.rate), math.isfinite(noise.shape)
    log_q = -math.log1p(noise.shape / noise.pairs)

    def rates(most: int) -> Array:
        """Of clumps that are 0, ..., most messages."""
        sizes, by_messages = np.arange(1.0, most + 1), np.zeros(most + 1)
        by_messages[1:] = 2 * np.exp(-noise.rate * sizes) / sizes
        if finite:
            pairs = sizes[: most // 2]
            by_messages[2::2] += noise.shape * np.exp(log_q * pairs) / pairs
        else:
            by_messages[2] += noise.pairs
        return part * by_messages

    def chernoff(tail: float) -> int:
        """Least t over tilts s with log E e^(s(T − t)) <= log tail, from closed forms."""
        steepest = min(noise.rate, -log_q / 2)
        best = math.inf
        for tilt in steepest * np.arange(1, _TILTS) / _TILTS:
            single = 2 * (math.log1p(-a) - math.log1p(-a * math.exp(tilt)))
            if finite:
                q = math.exp(log_q)
                pair = noise.shape * (math.log1p(-q) - math.log1p(-q * math.exp(2 * tilt)))
            else:
                pair = noise.pairs * math.expm1(2 * tilt)
            best = min(best, (part * (single + pair) - math.log(tail)) / tilt)
        return math.ceil(best) + 1

    most = max(2, chernoff(overflow * _NEGLIGIBLE))
    expected = f"noise of at most {MOST_SLOTS} messages per person (more people need fewer each)"
    checks.refuse(most > MOST_SLOTS, expected, messages=1 + part * noise.messages)
    weights = rates(most)
    clumps = float(weights.sum())
    if clumps > _MANY_CLUMPS:
        return chernoff(overflow)
    weights *= np.arange(most + 1)
    law = np.zeros(most + 1)
    law[0] = math.exp(-clumps)
    backwards = weights[::-1].copy()
    for messages in range(1, most + 1):
        law[messages] = backwards[most - messages : most] @ law[:messages] / messages
    beyond = np.cumsum(law[::-1])[::-1]  # Pr[T >= t]
    return max(2, int(np.count_nonzero(beyond > overflow * (1 - 2 * _NEGLIGIBLE))) - 1)


@dataclass(frozen=True, kw_only=True)
class NearCentralHistogram(Mechanism[Estimate]):
    """Count k answers, each with the error of a trusted curator, or nearly.

    A message is a bucket and a sign: (b, +) is the number b, (b, −) is k + b. An answer b is sent
    as (b, +). To every bucket all ``people`` together add geometric numbers of messages + and −, of
    ratio e^−``rate``, so that the error of #+ − #− is discrete Laplace, and ``pairs`` pairs {+, −}
    on average, which leave the estimate alone and hide how many there are of each. How many
    messages somebody adds does not depend on the answer.

    Runtime: one draw per person and two per clump of noise, however many answers;
    O(messages + k) to estimate.

    Utility: every count has variance 2a/(1 − a)², a = e^−rate, whatever n and k. One
    dishonest person can move it by as much as an envelope holds.

    Args:
        k: Number of answers, at least 2; an answer is a number 0, ..., k − 1.
        people: Honest people who share the noise; more of them add more.
        rate: The error of a count has ``Pr[z] ∝ e^(−rate |z|)``, rate > 0.
        pairs: Pairs {+, −} that all people add to one bucket, on average.

    Raises:
        InvalidArgumentError: A parameter is out of its range.
        UnreachableTargetError: From ``calibrated``, if no amount of noise keeps the target.

    References:
        after Ghazi, Kumar, Manurangsi, Pagh, Sinha, "Differentially Private Aggregation in the
        Shuffle Model: Almost Central Accuracy in Almost a Single Message", ICML 2021,
        arXiv:2109.13158; here on the exact divergence of the whole histogram under replacement;
        :doc:`/theory/near-central-histogram`.

    Example:
        >>> made = RobustHistogram.calibrated(k=4, n=1000, epsilon=1.0, delta=1e-6)
        >>> (
        ...     isinstance(made, NearCentralHistogram),
        ...     made.estimate(made.tally(made.randomize([2] * 1000))).n,
        ... )
        (True, 1000)
    """

    several = True
    truthful = True
    parameters: ClassVar[tuple[str, ...]] = ("rate", "pairs")  # of the noise
    inflation: ClassVar[float]  # variance over the curator's, unless another is chosen

    k: int
    people: int
    rate: float
    pairs: float

    def __post_init__(self) -> None:
        checks.counts(self, k=2, people=1)
        _ = self.noise

    @cached_property
    def parts(self) -> Parts[Estimate]:
        """A message is a bucket and a sign."""
        return Parts(
            domain=Cells(self.k),
            privacy=ByProfile(self._profile),
            codec=Numbered(2 * self.k, spare=True),
            estimator=OfBuckets(self.k, self.error, laplace=True),
            messages=1 + self.k * self.noise.messages / self.people,  # a share of all buckets'
        )

    @classmethod
    def candidates(cls, wanted: Wanted) -> list[Candidate]:
        """Within the messages that are allowed."""
        most = None if math.isinf(wanted.messages) else wanted.messages
        made = partial(cls.calibrated, **wanted.domain.arguments, messages_cap=most)
        return [Candidate(cls.name, calibrated=made)]

    @classmethod
    def calibrated(
        cls,
        *,
        k: int,
        n: int,
        epsilon: float,
        delta: float,
        inflation: float | None = None,
        messages_cap: float | None = None,
    ) -> Self:
        """The fewest pairs that keep (epsilon, delta) among n honest people.

        ``inflation`` is the variance paid, as a multiple of the curator's: nearer to 1 takes more
        pairs. More is paid if that is what it takes to send at most ``messages_cap`` messages per
        person on average, where it can be.
        """
        k, people, most = checks.count(2, k=k), checks.count(n=n), messages_cap or math.inf
        checks.open_probability(delta=delta)
        paid = cls.inflation if inflation is None else inflation
        robust = "shape" not in cls.parameters
        for part in margins(delta):
            noise = _allowed(k / people, most, paid, epsilon=epsilon, delta=part, robust=robust)
            made = cls(k=k, people=people, **attributes(noise, *cls.parameters))
            if (1 + math.exp(epsilon)) * made.slack(people) <= delta - part:
                return made
        return made.kept(n=people, epsilon=epsilon, delta=delta)

    @cached_property
    def noise(self) -> HistogramNoise:
        """What all people together add to one bucket."""
        return HistogramNoise(**attributes(self, *self.parameters))

    @cached_property
    def _clumps(self) -> Clumps:
        return Clumps.of(self.noise, k=self.k, people=self.people)

    @property
    def integers(self) -> Integers:
        """What everybody's share of the noise is drawn by."""
        return self._clumps.integers

    @property
    def slots(self) -> int:
        """The answer, and room for all but the rarest shares of noise."""
        return 1 + self._clumps.room

    @property
    def influence(self) -> float:
        """An envelope full of one message."""
        return float(self.slots)

    def draw(self, data: Whole, bits: Randomness) -> Envelopes:
        """The answer, and a share of the noise."""
        added, more = self._clumps.draw(data.size, self.k, bits)
        return ragged(data, more, added)

    def _profile(self, n: int) -> NoiseProfile:
        """Exact, of the noise there is; more people than share it only add to it."""
        people = checks.count(n=n)
        noise = attributes(self.noise, "rate", "pairs", "shape")
        present = min(1.0, people / self.people)
        return NoiseProfile(
            divergence=Divergence.of(histogram_delta, **noise, present=present),
            n=people,
            theorem="near-central histogram, exact divergence of the product",
            scope="everybody sends the answer and a share of the noise, each message by itself",
            slack=self.slack(people),
        )

    def slack(self, n: int) -> float:
        """What the tables round off, and noise that does not fit into an envelope."""
        return min(n, self.people) * self._clumps.error

    def error(self, n: int) -> Difference:
        """The law of the error of one estimated count of n people; those of all are independent."""
        return Difference(self.noise.single.times(checks.count(n=n) / self.people))


class OfBuckets(DataFree):
    """From messages + less messages − of every bucket: errors are uncorrelated, of one law.

    The number of all people is public. So with the weights w of k counts Σ w t̂ + w̄ (n − Σ t̂) has
    the least variance, w̄ being the mean weight: the error of a count has the weight w − w̄.
    ``law`` is that of the error of each count of so many people; ``laplace`` says that errors are
    independent.
    """

    def __init__(self, k: int, law: Callable[[int], Difference], *, laplace: bool = False) -> None:
        self.k, self.law, self.laplace = k, law, laplace

    def error(self, n: int) -> Difference | None:
        """The law of the error of one estimated count of n people."""
        return self.law(n) if self.laplace else None

    def estimate(self, counts: Counts) -> KnownErrors:
        """Messages + less messages − of every bucket, as fractions."""
        people = counts.cells[: self.k] - counts.cells[self.k :]
        return IndependentErrors.counted(people, self.law(counts.n), n=counts.n)

    def sums(
        self,
        estimate: Estimate,
        values: Array,
        sizes: Whole,
        *,
        before: Flags | bool = False,
        last: float = 0.0,
    ) -> Estimate:
        """Fractions of people with one of so many answers: by the law of the errors."""
        n, k, law = estimate.n, self.k, self.law(estimate.n)
        befores = np.broadcast_to(before, sizes.shape).tolist()
        means, errors = [], []
        for size, is_before in zip(sizes.tolist(), befores, strict=True):
            beside = last if is_before else 0.0
            mean = (size + beside) / k
            single = int(beside > 0)
            groups = (1 - mean, size), (mean, k - size - single), (abs(beside - mean), single)
            errors.append(law.weighted(tuple(each for each in groups if math.prod(each))))
            means.append(mean)
        values = values + np.array(means) * (1 - estimate.frequencies.sum())
        return KnownErrors.of(values, errors, n=n)

    def total_spread(self, own: Array, total: Array, squares: Array) -> Array:
        """Of one person's part of the noise, the number of all people being public."""
        return self.law(1).variance * (squares - total**2 / self.k) + 0 * own

    def balanced(self, weights: Array) -> tuple[Array, Array]:
        """Less the mean of all weights."""
        means = weights.mean(axis=1)
        return means, weights - means[:, None]

    def sum_error(self, weights: Array, n: int) -> ErrorLaw:
        """From the law of each of them."""
        return self.law(n).weighted(magnitudes(weights))


def _allowed(
    part: float, most: float, inflation: float, *, epsilon: float, delta: float, robust: bool
) -> HistogramNoise:
    """Noise of the least inflation from this one on that is at most so many messages per person.

    That of this one if none is. A person's share is ``part`` of the noise of one bucket.
    """

    def noise(step: int) -> HistogramNoise:
        paid = 1 + (inflation - 1) * _MORE**step
        return histogram_calibration(epsilon=epsilon, delta=delta, inflation=paid, robust=robust)

    def allowed(step: int) -> bool:
        return 1 + part * noise(step).messages <= most

    if allowed(0) or not allowed(_STEPS):
        return noise(0)
    return noise(search.least(allowed, 0, _STEPS))


@dataclass(frozen=True, kw_only=True)
class LeanHistogram(NearCentralHistogram):
    """The near-central histogram with the fewest messages: a negative binomial number of pairs.

    Most people send their answer and nothing else, but somebody's share of the pairs may be large:
    an envelope has room for some thousand messages.

    Args:
        k: Number of answers, at least 2; an answer is a number 0, ..., k − 1.
        people: Honest people who share the noise; more of them add more.
        rate: The error of a count has ``Pr[z] ∝ e^(−rate |z|)``, rate > 0.
        pairs: Pairs {+, −} that all people add to one bucket, on average.
        shape: Shape of the negative binomial number of pairs in a bucket, > 0.

    Raises:
        InvalidArgumentError: A parameter is out of its range.
        UnreachableTargetError: From ``calibrated``, if no amount of noise keeps the target.

    References:
        :doc:`/theory/near-central-histogram`.

    Example:
        >>> lean = LeanHistogram.calibrated(k=100, n=10**6, epsilon=1.0, delta=1e-6)
        >>> round(lean.messages, 2), lean.slots, round(10 * lean.error(10**6).variance ** 0.5, 1)
        (1.11, 2489, 29.4)
    """

    name: ClassVar[str] = "near-central-lean"
    words = texts.SHARED_NOISE
    parameters: ClassVar[tuple[str, ...]] = ("rate", "pairs", "shape")
    inflation: ClassVar[float] = 1.10

    shape: float

    @classmethod
    def candidates(cls, wanted: Wanted) -> list[Candidate]:
        """Of three answers and more: of two, one count is enough, which near-central is."""
        if wanted.domain == Cells(2):
            return []
        if wanted.epsilon < _LEAST_LEAN:
            return [Candidate(cls.name, remark="an envelope would need too many slots")]
        return super().candidates(wanted)


@dataclass(frozen=True, kw_only=True)
class RobustHistogram(NearCentralHistogram):
    """The near-central histogram with small shares: a Poisson number of pairs.

    More messages than :class:`LeanHistogram` sends, in much smaller envelopes: so one dishonest
    person has much less influence.

    Args:
        k: Number of answers, at least 2; an answer is a number 0, ..., k − 1.
        people: Honest people who share the noise; more of them add more.
        rate: The error of a count has ``Pr[z] ∝ e^(−rate |z|)``, rate > 0.
        pairs: Pairs {+, −} that all people add to one bucket, on average.

    Raises:
        InvalidArgumentError: A parameter is out of its range.
        UnreachableTargetError: From ``calibrated``, if no amount of noise keeps the target.

    References:
        :doc:`/theory/near-central-histogram`.

    Example:
        >>> robust = RobustHistogram.calibrated(k=100, n=10**6, epsilon=1.0, delta=1e-6)
        >>> (
        ...     round(robust.messages, 2),
        ...     robust.slots,
        ...     round(10 * robust.error(10**6).variance ** 0.5, 1),
        ... )
        (1.23, 67, 31.3)
    """

    name: ClassVar[str] = "near-central-robust"
    words = texts.SHARED_NOISE
    inflation: ClassVar[float] = 1.25

    def surveyed(self, *, n: int, epsilon: float, delta: float) -> Mechanism[Any]:
        """The same with carriers of the noise, of whose reports a service opens much less."""
        from shoal.mechanisms.carriers import CarrierHistogram

        return CarrierHistogram.calibrated(
            k=self.k, n=n, epsilon=epsilon, delta=delta, inflation=self.inflation
        )
