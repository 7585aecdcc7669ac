"""The truth among uniform dummies: as it is, hashed, or once for each of several partitions."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, lru_cache, partial
from typing import Any, ClassVar, Self

import numpy as np
import numpy.typing as npt

from shoal import checks
from shoal.accounting.compose import ComposedProfile
from shoal.accounting.noise.dummies import (
    dummies_delta,
    dummies_rho,
    hashed_dummies_delta,
    hashed_dummies_rho,
)
from shoal.accounting.noise.profile import Divergence, NoiseProfile
from shoal.errors import InvalidArgumentError
from shoal.intervals.estimates import Estimate, KnownErrors
from shoal.intervals.laws import Binomials, Draws
from shoal.mechanisms import hashing, shares
from shoal.mechanisms import words as texts
from shoal.mechanisms.base import ByProfile, Candidate, Integers, Mechanism, Parts, Wanted
from shoal.mechanisms.codec import Numbered, Whole, ragged
from shoal.mechanisms.estimators import MOST_PAIRED, AnswerEstimator, DataFree, Gap, over_pairs
from shoal.mechanisms.partitioned import OfAllAnswers, PartitionedAnswers, Partitions
from shoal.questions.domains import Cells
from shoal.randomness import Randomness, Words
from shoal.values import Array, Batch, Counts, Envelopes, category_codes

MOST_DUMMIES = 100_000.0
MOST_EVALUATIONS = 1 << 34
_BUCKETS = (256, 1024, 4096, 16384, 65536)  # of hash functions that a planner tries
_MANY = 1 << 20  # buckets, where two answers hardly ever share one
_MOST_TRIES = 24
_WASTED = 0.05  # of delta: so close below the target is close enough
_AIM = 0.02
_SLOPE = 0.65  # of log(1/delta), per relative change of the dummies: measured


@dataclass(frozen=True)
class Dummies:
    """So many messages on average beside a true one: of ⌊ρ⌋ everybody sends each.

    And one more with probability ρ − ⌊ρ⌋, a multiple of 2^-52.
    """

    rho: float

    @classmethod
    def checked(cls, dummies: float) -> float:
        """The number of dummies that is drawn: not fewer."""
        checks.positive(dummies=dummies)
        expected = f"at most {MOST_DUMMIES:g} dummies per person (more people need fewer each)"
        checks.refuse(dummies > MOST_DUMMIES, expected, dummies=dummies)
        return float(math.floor(dummies) + shares.rounded_up(dummies % 1.0))

    @property
    def always(self) -> int:
        """So many dummies everybody sends, and perhaps one more."""
        return math.floor(self.rho)

    @property
    def sometimes(self) -> float:
        """The probability of one more."""
        return self.rho - self.always

    @property
    def most(self) -> int:
        """As many as anybody sends."""
        return math.ceil(self.rho)

    @property
    def integers(self) -> Integers:
        """The dummies that everybody sends, and the probability of one more, of 2^52."""
        more = shares.numerator(self.sometimes)
        return {"always": self.always, "sometimes": more, "bits": shares.BITS}

    def added(self, truths: int, randomness: Randomness) -> Whole:
        """How many dummies each of so many truths has."""
        added = np.full(truths, self.always, dtype=np.int64)
        if self.sometimes:
            added += shares.coins(self.sometimes, truths, randomness)
        return added

    def noise(self, outputs: int) -> float:
        """Variance of the dummies that one person adds to one of so many outputs."""
        return float(self.spread(1 / outputs, 1 / outputs))

    def spread(self, mean: Array | float, square: Array | float) -> Array | float:
        """Variance of what one person's dummies count, if each does so much on average."""
        return self.always * (square - mean**2) + self.sometimes * (
            square - self.sometimes * mean**2
        )


class AmongDummies(Mechanism[Estimate]):
    """The truth and ``dummies`` further messages on average, whatever a message is."""

    several = True
    dummies: float

    @cached_property
    def added(self) -> Dummies:
        """What is sent beside the truth."""
        return Dummies(self.dummies)

    def sending(self, times: int = 1) -> dict[str, Any]:
        """What one person sends, as parts of a mechanism: so many truths, each with its dummies."""
        return {
            "sizes": self.added.integers,
            "messages": times * (1 + self.dummies),
            "slots": times * (1 + self.added.most),
        }


@dataclass(frozen=True, kw_only=True)
class UniformDummies(AmongDummies):
    """Send the answer, and ``dummies`` answers on average drawn at random.

    Of ⌊ρ⌋ dummies and one more with probability ρ − ⌊ρ⌋ each is uniform on the k answers.

    Runtime: one draw per person and one per dummy; O(messages + k) to estimate.

    Utility: every count has the same variance, about nρ/k, however many people gave the
    answer.

    Args:
        dummies: Dummies that one person sends on average, > 0.
        k: Number of answers, at least 2; an answer is a number 0, ..., k − 1.

    Raises:
        InvalidArgumentError: A parameter is out of its range.
        UnreachableTargetError: From ``calibrated``, if no amount of noise keeps the target.

    References:
        Luo, Wang, Yi, "Frequency Estimation in the Shuffle Model with Almost a Single Message",
        CCS 2022, arXiv:2111.06833 (small domains); calibrated here on the exact divergence;
        :doc:`/theory/dummies`.

    Example:
        >>> protocol = UniformDummies.calibrated(k=100, n=10**6, epsilon=1.0, delta=1e-6)
        >>> round(protocol.messages, 4), protocol.slots
        (1.0043, 2)
    """

    name: ClassVar[str] = "dummies"
    words = texts.AMONG_DUMMIES
    truthful = True

    dummies: float
    k: int

    def __post_init__(self) -> None:
        checks.counts(self, k=2)
        object.__setattr__(self, "dummies", Dummies.checked(self.dummies))

    @cached_property
    def parts(self) -> Parts[Estimate]:
        """Messages are numbers of answers."""
        full = not self.added.sometimes
        return Parts(
            domain=Cells(self.k),
            privacy=ByProfile(self._profile),
            codec=Numbered(self.k, spare=True, always_full=full),
            estimator=LessDummies(self.k, self.added),
            # All slots filled with one answer, where the estimate expects dummies.
            influence=1 + self.added.most - self.dummies / self.k,
            **self.sending(),
        )

    @classmethod
    def calibrated(cls, *, k: int, n: int, epsilon: float, delta: float) -> Self:
        """The fewest dummies that keep (epsilon, delta) among n honest people."""
        dummies = dummies_rho(n=n, k=k, epsilon=epsilon, delta=delta)
        return cls(k=k, dummies=dummies).kept(n=n, epsilon=epsilon, delta=delta)

    def draw(self, data: Whole, bits: Randomness) -> Envelopes:
        """The answer, and dummies drawn at random."""
        added = self.added.added(data.size, bits)
        drawn = bits.below(self.k, int(added.sum())).astype(np.int64)
        return ragged(data, drawn, added)

    def _profile(self, n: int) -> NoiseProfile:
        return NoiseProfile(
            divergence=Divergence.of(dummies_delta, n=n, k=self.k, rho=self.dummies),
            n=checks.count(n=n),
            theorem="uniform dummies, exact divergence",
            scope="everybody sends the truth among uniform dummies, each message by itself",
        )


@dataclass(frozen=True)
class LessDummies(DataFree):
    """Counts of k answers less the dummies expected."""

    k: int
    dummies: Dummies

    def estimate(self, counts: Counts) -> Estimate:
        """Counts less the dummies expected."""
        n, noise = counts.n, self.dummies
        dummies = Binomials(((n * noise.always, 1 / self.k), (n, noise.sometimes / self.k)))
        return KnownErrors.counted(counts.cells, dummies, n=n)

    def total_spread(self, own: Array, total: Array, squares: Array) -> Array:
        """Of the dummies alone."""
        return self.dummies.spread(total / self.k, squares / self.k) + 0 * own

    def spread(self, weights: Array) -> Array:
        """Of the dummies alone, each of which is any answer."""
        mean, square = (part.mean(axis=1, keepdims=True) for part in (weights, weights**2))
        return np.asarray(self.dummies.spread(mean, square) + 0 * weights)

    def sum_error(self, weights: Array, n: int) -> Draws:
        """Of the dummies, each of which is any answer."""
        sizes, numbers = np.unique(weights, return_counts=True)
        each = list(zip(sizes.tolist(), (numbers / self.k).tolist(), strict=True))
        rare = tuple((size, self.dummies.sometimes * part) for size, part in each)
        return Draws(((n * self.dummies.always, tuple(each)), (n, rare)))


@dataclass(frozen=True, kw_only=True)
class HashedDummies(AmongDummies):
    """Send a hash function with the answer's bucket, and ``dummies`` of them with random buckets.

    Every message has a function of its own, ``h(x) = ((u x + v) mod p) mod buckets`` as in
    :class:`shoal.LocalHashing`: it travels in the message and belongs to nobody. A message supports
    the answers that its function sends to its bucket. Of ⌊ρ⌋ dummies, and one more with probability
    ρ − ⌊ρ⌋, each is uniform. The analyzer names the candidates it wants to know about.

    Runtime: two draws per message; one evaluation per message and candidate to estimate.

    Utility: a count has variance about n dummies/buckets + n/buckets: with as many buckets
    as answers or more, :class:`shoal.UniformDummies` does the same with less.

    Args:
        dummies: Dummies that one person sends on average, > 0.
        k: Number of answers, at least 2; an answer is a number 0, ..., k − 1.
        buckets: Values of the hash functions, at least 2.

    Raises:
        InvalidArgumentError: A parameter is out of its range.
        UnreachableTargetError: From ``calibrated``, if no amount of noise keeps the target.

    References:
        Luo, Wang, Yi, "Frequency Estimation in the Shuffle Model with Almost a Single Message",
        CCS 2022, arXiv:2111.06833 (large domains); calibrated here on the exact divergence of
        the messages that tell two answers apart; :doc:`/theory/dummies`.

    Example:
        >>> protocol = HashedDummies.calibrated(k=10**9, n=10**6, epsilon=1.0, delta=1e-6)
        >>> protocol.buckets, protocol.slots, protocol.message_bytes
        (23443, 2, 18)
    """

    name: ClassVar[str] = "hashed-dummies"
    words = texts.AMONG_HASHED

    dummies: float
    k: int
    buckets: int

    def __post_init__(self) -> None:
        checks.counts(self, k=2, buckets=2)
        object.__setattr__(self, "dummies", Dummies.checked(self.dummies))

    @classmethod
    def candidates(cls, wanted: Wanted) -> list[Candidate]:
        """With several numbers of buckets, if there are more answers than people."""
        k, n = wanted.domain.arguments["k"], wanted.n
        if k <= n:
            return []
        if n * k > hashing.LARGEST_DECODING:
            remark = f"decoding tries {k:,} answers on each of {n:,} messages"
            return [Candidate(cls.name, remark=remark)]
        made = partial(partial, cls.calibrated, k=k)
        return [Candidate(cls.name, calibrated=made(buckets=b)) for b in _BUCKETS if b < k]

    @cached_property
    def parts(self) -> Parts[Estimate]:
        """Messages are those of local hashing, unused slots are zeros."""
        full = not self.added.sometimes
        return Parts(
            domain=Cells(self.k),
            privacy=ByProfile(self._profile),
            codec=hashing.Hashed(
                self.buckets,
                self._keys,
                lambda: range(self.k),
                spare=True,
                always_full=full,
                most=MOST_EVALUATIONS,
            ),
            estimator=LessHashed(self),
            **self.sending() | {"sizes": {**self.added.integers, "buckets": self.buckets}},
        )

    def _keys(self, answers: npt.ArrayLike) -> Words:
        return category_codes(answers, self.k).astype(np.uint64)

    @classmethod
    def calibrated(
        cls, *, k: int, n: int, epsilon: float, delta: float, buckets: int | None = None
    ) -> Self:
        """The fewest dummies that keep (epsilon, delta) among n honest people.

        By default so many buckets that one dummy per person is enough: about half of the variance
        then comes from other answers in the same bucket. More buckets lessen that, at the price of
        more dummies.
        """

        def fewest(buckets: int) -> float:
            b = checks.count(2, buckets=buckets)
            return hashed_dummies_rho(
                n=n, buckets=b, collision=_collision(b), epsilon=epsilon, delta=delta
            )

        if buckets is None:
            most = max(2, math.floor(1 / (fewest(_MANY) / _MANY)))
            # Fewer buckets collide more often, which takes a little more of each.
            buckets = max(2, math.floor(most / max(1.0, fewest(most))))
        made = cls(k=k, buckets=buckets, dummies=fewest(buckets))
        return made.kept(n=n, epsilon=epsilon, delta=delta)

    @property
    def collision(self) -> float:
        """The probability that two different answers share their bucket: the same for all."""
        return _collision(self.buckets)

    def draw(self, data: Whole, bits: Randomness) -> Envelopes:
        """The answer's bucket of a function of its own, and dummies with functions of theirs."""
        keys = self._keys(data)
        sizes = 1 + self.added.added(keys.size, bits)
        truths = np.cumsum(sizes) - sizes
        total = int(sizes.sum())
        u, v = hashing.drawn_functions(total, bits)
        sent = bits.below(self.buckets, total)
        sent[truths] = hashing.hashed((u[truths], v[truths]), keys, self.buckets)
        rows = np.empty((total, self.message_bytes), dtype=np.uint8)
        hashing.fill_rows(rows, (u, v), sent.view(np.int64), self.buckets)
        return Envelopes(rows, sizes)

    def _profile(self, n: int) -> NoiseProfile:
        """Of the messages that tell two answers apart, exact but for collisions."""
        hashes = {"buckets": self.buckets, "collision": self.collision}
        return NoiseProfile(
            divergence=Divergence.of(hashed_dummies_delta, n=n, **hashes, rho=self.dummies),
            n=checks.count(n=n),
            theorem="hashed dummies, exact divergence given the collision",
            scope="everybody sends a hashed truth among hashed dummies, each message by itself",
        )

    def support(self, reports: Envelopes | Batch, candidates: npt.ArrayLike) -> Counts:
        """How many messages support each candidate.

        The counts of several batches add up if the candidates are the same.
        """
        people = len(reports) if isinstance(reports, Envelopes) else reports.people
        if people is None:
            expected = "a batch that says how many people sent it (shoal.shuffle makes one)"
            raise InvalidArgumentError("reports", repr(reports), expected)
        parts = hashing.row_parts(reports.messages, self.buckets)
        return Counts(hashing.supports(parts, self._keys(candidates), self.buckets), people)

    def estimate_of(self, batch: Batch | Counts, candidates: npt.ArrayLike) -> Estimate:
        """The same of the candidates only, in their order; counts are those of :meth:`support`."""
        chosen = category_codes(candidates, self.k)
        counts = batch if isinstance(batch, Counts) else self.support(batch, chosen)
        expected = f"counts of {chosen.size} candidates"
        checks.refuse(counts.cells.size != chosen.size, expected, counts=counts.cells.size)
        return self.estimate(counts)


class LessHashed(AnswerEstimator):
    """Supports of answers, less those expected of dummies and of other answers."""

    def __init__(self, made: HashedDummies) -> None:
        self.k, self.dummies, self.buckets = made.k, made.added, made.buckets
        self.collision = made.collision
        # Of messages that do not support the answer, and of all slots that do.
        expected = self.dummies.rho / self.buckets + self.collision
        none, all_ = ((n - expected) / (1 - self.collision) for n in (0, 1 + self.dummies.most))
        self.reach = none, all_

    def gap(self, first: int, second: int) -> Gap | None:  # noqa: ARG002
        """None: there are too many answers to estimate all of them in every run."""
        return None

    def estimate(self, counts: Counts) -> Estimate:
        """Of the answers that were looked for, in their order."""
        n, c = counts.n, self.collision
        fractions = (counts.cells / n - self.dummies.rho / self.buckets - c) / (1 - c)
        nobody, everybody = self.variance([0.0, 1.0], n=n).tolist()
        errors = np.sqrt(np.clip(self.variance(fractions, n=n), everybody, nobody))
        step = 1 / (n * (1 - c))
        return Estimate(
            fractions,
            errors,
            n,
            variance_slope=everybody - nobody,
            step=step,
            # Few dummies: counts move in whole steps and are not quite normal.
            granularity=step / (1 + everybody / step**2 / 3),
            empty_error=math.sqrt(nobody),
        )

    def total_spread(self, own: Array, total: Array, squares: Array) -> Array:
        """Of the dummies, and of all other answers at once in the same bucket, at the worst."""
        c, buckets = self.collision, self.buckets
        square = (squares + (total**2 - squares) * c) / buckets
        shared = c * (1 - c) * (total - own) ** 2
        return np.asarray((self.dummies.spread(total / buckets, square) + shared) / (1 - c) ** 2)

    @property
    def signed(self) -> bool:  # type: ignore[override]  # computed
        """If triples of so few answers are looked at one by one."""
        return self.k <= MOST_PAIRED

    def spread(self, weights: Array) -> Array:
        """Of the dummies, and of two other answers at a time in the same bucket."""
        if not self.signed:
            return super().spread(weights)
        c, buckets = self.collision, self.buckets
        total, squares = (part.sum(axis=1, keepdims=True) for part in (weights, weights**2))
        noise = self.dummies.spread(total / buckets, (squares + (total**2 - squares) * c) / buckets)
        pairs = over_pairs(
            weights, lambda own: hashing.of_others(hashing.sharing(own, self.k, buckets), own)
        )
        shared = c * (squares - weights**2) + pairs - (c * (total - weights)) ** 2
        return np.asarray((noise + np.maximum(shared, 0.0)) / (1 - c) ** 2)

    def variance(self, frequencies: npt.ArrayLike | None = None, *, n: int) -> Array:
        """Of the dummies, and of the other answers in the same bucket."""
        f = np.asarray([] if frequencies is None else frequencies, dtype=np.float64)
        c, noise = self.collision, self.dummies.noise(self.buckets)
        return (noise + (1 - f) * c * (1 - c)) / (n * (1 - c) ** 2)


def _collision(buckets: int) -> float:
    shared, pairs = hashing.collisions(buckets)
    return shared / pairs


@dataclass(frozen=True, kw_only=True)
class PartitionedDummies(AmongDummies, PartitionedAnswers):
    """For every partition send the bin of the answer, and ``dummies`` bins on average at random.

    A message (g, y) says that y is a bin of partition g. The messages of a partition are the
    histogram of everybody's bin among uniform dummies, as :class:`shoal.UniformDummies` would send
    it, with dummies of its own; so what all partitions reveal is at most the composition of one
    such histogram for each partition in which two answers lie in different bins.

    Citations: dummies after Luo, Wang, Yi, "Frequency Estimation in the Shuffle Model with Almost
    a Single Message", CCS 2022, arXiv:2111.06833; domain compression after Acharya, Canonne,
    Freitag, Sun, Tyagi, "Inference Under Information Constraints III", 2021, arXiv:2101.07981, and
    Amin, Joseph, Mao, "Pan-Private Uniformity Testing", COLT 2020, arXiv:1911.01452.
    Runtime: one draw per dummy; O(messages) to count.
    Utility: for tests of the whole distribution (:mod:`shoal.testing`).

    >>> made = PartitionedDummies.calibrated(k=1000, n=10_000, epsilon=1.0, delta=1e-6, symbols=32)
    >>> round(made.messages, 3)
    1.136
    """

    name: ClassVar[str] = "partitioned-dummies"

    dummies: float
    k: int
    symbols: int
    partitions: int = 1
    coins: int = 0

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "dummies", Dummies.checked(self.dummies))

    @cached_property
    def parts(self) -> Parts[Estimate]:
        """Messages are bins of all partitions."""
        full = not self.added.sometimes
        return Parts(
            domain=Cells(self.k),
            privacy=ByProfile(self._profile),
            codec=Numbered(self.layout.cells, spare=True, always_full=full),
            estimator=OfAllAnswers(self.name, self.k),
            # Slots filled with bins of one answer, in multiples of what an honest person adds.
            influence=1 + self.added.most - self.dummies / self.symbols,
            **self.sending(self.partitions),
        )

    @classmethod
    def calibrated(
        cls,
        *,
        k: int,
        n: int,
        epsilon: float,
        delta: float,
        symbols: int,
        partitions: int = 1,
        coins: int = 0,
    ) -> Self:
        """The fewest dummies, to within 5 % of delta, that keep the target among n honest people.

        Among several partitions the first guess is the number for one of them with epsilon divided
        by the root of their number, right for Gaussian noise; a secant of log delta does the rest.
        """
        layout = Partitions.of(k=k, partitions=partitions, symbols=symbols, coins=coins)
        rounds = _rounds(layout)
        guess = dummies_rho(n=n, k=symbols, epsilon=epsilon / math.sqrt(rounds), delta=delta)

        made = partial(cls, k=k, symbols=symbols, partitions=partitions, coins=coins)

        def excess(dummies: float) -> float:
            reached = made(dummies=dummies)._profile(n).divergence(epsilon)  # noqa: SLF001
            return math.log(reached / delta) if reached > 0 else -math.inf

        dummies = guess if rounds == 1 else _least(excess, guess, -math.log(delta))
        return made(dummies=dummies).kept(n=n, epsilon=epsilon, delta=delta)

    def draw(self, data: Whole, bits: Randomness) -> Envelopes:
        """The true bins, and dummies of every partition."""
        truths = self.layout.places[:, data].T.ravel()
        added = self.added.added(truths.size, bits)
        drawn = bits.below(self.symbols, int(added.sum())).astype(np.int64)
        starts = np.tile(self.symbols * np.arange(self.partitions), data.size)
        sent = ragged(truths, drawn + np.repeat(starts, added), added)
        sizes = sent.sizes.reshape(data.size, self.partitions).sum(axis=1)
        return Envelopes(sent.messages, sizes)

    def _profile(self, n: int) -> NoiseProfile:
        """One partition's exact divergence, composed for as many as may part two answers."""
        rounds, theorem = _rounds(self.layout), "uniform dummies, exact divergence"
        composed = f"{theorem}, composed as privacy loss distributions"
        return NoiseProfile(
            divergence=Divergence.of(
                partitioned_delta, n=n, symbols=self.symbols, rho=self.dummies, rounds=rounds
            ),
            n=checks.count(n=n),
            theorem=composed if rounds > 1 else theorem,
            scope="everybody sends the true bins among uniform dummies, each message by itself",
        )


def partitioned_delta(*, n: int, symbols: int, rho: float, rounds: int, epsilon: float) -> float:
    """Upper bound on the divergence of so many independent histograms among dummies.

    >>> once = partitioned_delta(n=1000, symbols=8, rho=0.5, rounds=1, epsilon=1.0)
    >>> once < partitioned_delta(n=1000, symbols=8, rho=0.5, rounds=2, epsilon=1.0)
    True
    """
    if rounds == 1:
        return dummies_delta(n=n, k=symbols, rho=rho, epsilon=epsilon)
    return _composition(n, symbols, rho, rounds).delta(epsilon)


@lru_cache(maxsize=16)
def _composition(n: int, symbols: int, rho: float, rounds: int) -> ComposedProfile:
    single = NoiseProfile(
        divergence=Divergence.of(dummies_delta, n=n, k=symbols, rho=rho),
        n=n,
        theorem="uniform dummies, exact divergence",
        scope="one histogram",
    )
    return single * rounds


def _rounds(layout: Partitions) -> int:
    """Partitions that may part two answers: all but those in which any two share their bin."""
    return max(1, layout.partitions - layout.fewest_shared)


def _least(excess: Callable[[float], float], guess: float, depth: float) -> float:
    """The least number with ``excess`` in [-5 %, 0], by secants of a nearly straight line.

    ``excess`` falls by about two thirds of ``depth`` between half the guess and half more.
    """
    slope = -_SLOPE * depth / guess
    here, there = guess, excess(guess)
    for _ in range(_MOST_TRIES):
        if -_WASTED <= there <= 0:
            break
        ahead = max(here / 2, min(2 * here, here - (there + _AIM) / slope))
        value = excess(ahead)
        slope = min((value - there) / (ahead - here), slope / 4)
        here, there = ahead, value
    return here
