"""The truth among uniform dummies: as it is, hashed, or once for each of several partitions."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache, partial
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
from shoal.mechanisms import hashing, shares
from shoal.mechanisms.base import AnswerMechanism, Integers, Rows, checked_rows
from shoal.mechanisms.envelopes import (
    AnswerEnvelopes,
    MultiMessageMechanism,
    NumberedEnvelopes,
    Whole,
    ragged,
)
from shoal.mechanisms.partitioned import PartitionedAnswers, Partitions
from shoal.mechanisms.shares import NoisyCounts
from shoal.randomness import Randomness
from shoal.values import (
    Array,
    Batch,
    Counts,
    Envelopes,
    Estimate,
    Flags,
    Messages,
    Span,
    category_codes,
)

MOST_DUMMIES = 100_000.0
MOST_EVALUATIONS = 1 << 34
_MANY = 1 << 20  # buckets, where two answers hardly ever share one
_MOST_TRIES = 24
_WASTED = 0.05  # of delta: so close below the target is close enough
_AIM = 0.02
_SLOPE = 0.65  # of log(1/delta), per relative change of the dummies: measured


@dataclass(frozen=True, kw_only=True)
class AmongDummies(MultiMessageMechanism):
    """The truth and ``dummies`` further messages on average, whatever a message is.

    Of ⌊ρ⌋ dummies everybody sends each, and one more with probability ρ − ⌊ρ⌋.
    """

    dummies: float

    def __post_init__(self) -> None:
        checks.positive(dummies=self.dummies)
        expected = f"at most {MOST_DUMMIES:g} dummies per person (more people need fewer each)"
        checks.refuse(self.dummies > MOST_DUMMIES, expected, dummies=self.dummies)
        exact = math.floor(self.dummies) + shares.rounded_up(self.dummies % 1.0)
        object.__setattr__(self, "dummies", float(exact))

    @property
    def always(self) -> int:
        """So many dummies everybody sends, and perhaps one more."""
        return math.floor(self.dummies)

    @property
    def sometimes(self) -> float:
        """The probability of one more."""
        return self.dummies - self.always

    @property
    def integers(self) -> Integers:
        """The dummies that everybody sends, and the probability of one more, of 2^52."""
        more = shares.numerator(self.sometimes)
        return {"always": self.always, "sometimes": more, "bits": shares.BITS}

    @property
    def always_full(self) -> bool:
        """Whether everybody sends the same number of dummies."""
        return not self.sometimes

    @property
    def messages(self) -> float:
        """The truth and the dummies."""
        return 1 + self.dummies

    @property
    def slots(self) -> int:
        """The truth and as many dummies as anybody sends."""
        return 1 + math.ceil(self.dummies)

    def _added(self, truths: int, randomness: Randomness) -> Whole:
        """How many dummies each of so many truths has."""
        added = np.full(truths, self.always, dtype=np.int64)
        if self.sometimes:
            added += shares.coins(self.sometimes, truths, randomness)
        return added

    def _noise(self, outputs: int) -> float:
        """Variance of the dummies that one person adds to one of so many outputs."""
        return float(self._spread(1 / outputs, 1 / outputs))

    def _spread(self, mean: Array | float, square: Array | float) -> Array | float:
        """Variance of what one person's dummies count, if each does so much on average."""
        return self.always * (square - mean**2) + self.sometimes * (
            square - self.sometimes * mean**2
        )


@dataclass(frozen=True, kw_only=True)
class UniformDummies(AmongDummies, AnswerEnvelopes):
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
    theorem = "uniform dummies, exact divergence"
    scope = "everybody sends the truth among uniform dummies, each message by itself"

    k: int

    def __post_init__(self) -> None:
        checks.counts(self, k=2)
        super().__post_init__()

    @classmethod
    def calibrated(cls, *, k: int, n: int, epsilon: float, delta: float) -> Self:
        """The fewest dummies that keep (epsilon, delta) among n honest people."""
        dummies = dummies_rho(n=n, k=k, epsilon=epsilon, delta=delta)
        return cls(k=k, dummies=dummies).kept(n=n, epsilon=epsilon, delta=delta)

    @property
    def influence(self) -> float:
        """All slots filled with one answer, where the estimate expects dummies."""
        return self.slots - self.dummies / self.k

    def _envelopes(self, values: npt.ArrayLike, bits: Randomness) -> Envelopes:
        truths = category_codes(values, self.k)
        added = self._added(truths.size, bits)
        drawn = bits.below(self.k, int(added.sum())).astype(np.int64)
        return ragged(truths, drawn, added)

    def _divergence(self, n: int) -> Divergence:
        return Divergence.of(dummies_delta, n=n, k=self.k, rho=self.dummies)

    def estimate(self, batch: Batch | Counts) -> Estimate:
        """Counts less the dummies expected."""
        counts = self.counted(batch)
        always = (counts.n * self.always, 1 / self.k)
        return NoisyCounts.of(
            counts.cells, (always, (counts.n, self.sometimes / self.k)), n=counts.n
        )

    def total_spread(self, own: Array, total: Array, squares: Array) -> Array:
        """Of the dummies alone."""
        return self._spread(total / self.k, squares / self.k) + 0 * own

    def variance(self, frequencies: npt.ArrayLike, *, n: int) -> Array:
        """The same for every answer, whatever its fraction."""
        return np.full(np.shape(frequencies), self._noise(self.k) / n)


@dataclass(frozen=True, kw_only=True)
class HashedDummies(AmongDummies, AnswerMechanism):
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
    theorem = "hashed dummies, exact divergence given the collision"
    scope = "everybody sends a hashed truth among hashed dummies, each message by itself"

    k: int
    buckets: int

    def __post_init__(self) -> None:
        checks.counts(self, k=2, buckets=2)
        super().__post_init__()

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

    @property
    def integers(self) -> Integers:
        """Those of the dummies, and the number of buckets."""
        return {**super().integers, "buckets": self.buckets}

    @property
    def message_bits(self) -> float:
        """log2 of p(p - 1) functions and of the buckets."""
        functions = math.log2(hashing.PRIME) + math.log2(hashing.PRIME - 1)
        return functions + math.log2(self.buckets)

    @property
    def message_bytes(self) -> int:
        """Bytes of u, v and the bucket."""
        return hashing.row_bytes(self.buckets)

    @property
    def influence(self) -> float:
        """All slots filled with messages that support one answer, where fewer are expected."""
        return self.reach[1]

    @property
    def reach(self) -> Span:
        """By messages that do not support the answer, and by all slots that do."""
        expected = self.dummies / self.buckets + self.collision
        least, largest = ((n - expected) / (1 - self.collision) for n in (0, self.slots))
        return least, largest

    def _envelopes(self, values: npt.ArrayLike, bits: Randomness) -> Envelopes:
        keys = category_codes(values, self.k).astype(np.uint64)
        sizes = 1 + self._added(keys.size, bits)
        truths = np.cumsum(sizes) - sizes
        total = int(sizes.sum())
        u, v = hashing.drawn_functions(total, bits)
        sent = bits.below(self.buckets, total)
        sent[truths] = hashing.hashed((u[truths], v[truths]), keys, self.buckets)
        rows = np.empty((total, self.message_bytes), dtype=np.uint8)
        hashing.fill_rows(rows, (u, v), sent.view(np.int64), self.buckets)
        return Envelopes(rows, sizes)

    def _divergence(self, n: int) -> Divergence:
        """Of the messages that tell two answers apart, exact but for collisions."""
        hashes = {"buckets": self.buckets, "collision": self.collision}
        return Divergence.of(hashed_dummies_delta, n=n, **hashes, rho=self.dummies)

    def support(self, reports: Envelopes | Batch, candidates: npt.ArrayLike) -> Counts:
        """How many messages support each candidate.

        The counts of several batches add up if the candidates are the same.
        """
        people = len(reports) if isinstance(reports, Envelopes) else reports.people
        if people is None:
            expected = "a batch that says how many people sent it (shoal.shuffle makes one)"
            raise InvalidArgumentError("reports", repr(reports), expected)
        return Counts(self._cells(reports.messages, category_codes(candidates, self.k)), people)

    def cells(self, messages: Messages) -> Whole:
        """How many messages support each of the k answers, if that is not too much work."""
        expected = f"messages x answers <= {MOST_EVALUATIONS} (estimate_of takes candidates)"
        checks.refuse(self.k * len(messages) > MOST_EVALUATIONS, expected, k=self.k)
        return self._cells(messages, np.arange(self.k, dtype=np.int64))

    def _cells(self, messages: Messages, candidates: Whole) -> Whole:
        parts = hashing.row_parts(messages, self.buckets)
        return hashing.supports(parts, candidates.astype(np.uint64), self.buckets)

    def supports(self, messages: npt.NDArray[Any], inputs: Sequence[Any]) -> Flags | None:
        """The answers that a message's function sends to its bucket."""
        return hashing.supported(messages, np.array(inputs, dtype=np.uint64), self.buckets)

    def gap_estimator(self, first: int, second: int) -> None:
        """None: there are too many answers to estimate all of them in every run."""

    def estimate(self, batch: Batch | Counts) -> Estimate:
        """Supports of all k answers, less those expected of dummies and of other answers."""
        return self._estimate(self.counted(batch))

    def estimate_of(self, batch: Batch | Counts, candidates: npt.ArrayLike) -> Estimate:
        """The same of the candidates only, in their order; counts are those of :meth:`support`."""
        chosen = category_codes(candidates, self.k)
        counts = batch if isinstance(batch, Counts) else self.support(batch, chosen)
        expected = f"counts of {chosen.size} candidates"
        checks.refuse(counts.cells.size != chosen.size, expected, counts=counts.cells.size)
        return self._estimate(self.counted(counts))

    def _estimate(self, counts: Counts) -> Estimate:
        n, c = counts.n, self.collision
        fractions = (counts.cells / n - self.dummies / self.buckets - c) / (1 - c)
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
        return np.asarray((self._spread(total / buckets, square) + shared) / (1 - c) ** 2)

    def variance(self, frequencies: npt.ArrayLike, *, n: int) -> Array:
        """Of the dummies, and of the other answers in the same bucket."""
        f, c = np.asarray(frequencies, dtype=np.float64), self.collision
        return (self._noise(self.buckets) + (1 - f) * c * (1 - c)) / (n * (1 - c) ** 2)

    @property
    def _empty(self) -> Rows:
        """Zeros, which no message is."""
        return np.zeros((1, self.message_bytes), dtype=np.uint8)

    def _encoded(self, messages: Messages) -> Rows:
        hashing.row_parts(messages, self.buckets)
        return np.asarray(messages, dtype=np.uint8)

    def _decoded(self, rows: Rows) -> Messages:
        return self._encoded(rows)

    def admissible(self, rows: Rows) -> Flags:
        """A function of the family and a bucket, or the zeros of an empty slot if there are any."""
        slots = checked_rows(rows, self.message_bytes)
        sent = hashing.admissible_rows(slots, self.buckets)
        return sent if self.always_full else sent | ~self._used(slots)


def _collision(buckets: int) -> float:
    shared, pairs = hashing.collisions(buckets)
    return shared / pairs


@dataclass(frozen=True, kw_only=True)
class PartitionedDummies(PartitionedAnswers, AmongDummies, NumberedEnvelopes):
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
    theorem = "uniform dummies, exact divergence"
    scope = "everybody sends the true bins among uniform dummies, each message by itself"

    k: int
    symbols: int
    partitions: int = 1
    coins: int = 0

    def __post_init__(self) -> None:
        super().__post_init__()
        AmongDummies.__post_init__(self)

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
            reached = made(dummies=dummies).profile(n).divergence(epsilon)
            return math.log(reached / delta) if reached > 0 else -math.inf

        dummies = guess if rounds == 1 else _least(excess, guess, -math.log(delta))
        return made(dummies=dummies).kept(n=n, epsilon=epsilon, delta=delta)

    @property
    def messages(self) -> float:
        """The truth and the dummies of every partition."""
        return self.partitions * super().messages

    @property
    def slots(self) -> int:
        """The truth and as many dummies as anybody sends, for every partition."""
        return self.partitions * super().slots

    @property
    def influence(self) -> float:
        """All slots filled with bins of one answer, in multiples of what an honest person adds."""
        return self.slots / self.partitions - self.dummies / self.symbols

    def _envelopes(self, values: npt.ArrayLike, bits: Randomness) -> Envelopes:
        answers = category_codes(values, self.k)
        truths = self.layout.places[:, answers].T.ravel()
        added = self._added(truths.size, bits)
        drawn = bits.below(self.symbols, int(added.sum())).astype(np.int64)
        starts = np.tile(self.symbols * np.arange(self.partitions), answers.size)
        sent = ragged(truths, drawn + np.repeat(starts, added), added)
        sizes = sent.sizes.reshape(answers.size, self.partitions).sum(axis=1)
        return Envelopes(sent.messages, sizes)

    def profile(self, n: int) -> NoiseProfile:
        """One partition's exact divergence, composed for as many as may part two answers."""
        profile = super().profile(n)
        composed = f"{self.theorem}, composed as privacy loss distributions"
        return replace(profile, theorem=composed) if _rounds(self.layout) > 1 else profile

    def _divergence(self, n: int) -> Divergence:
        rounds = _rounds(self.layout)
        return Divergence.of(
            partitioned_delta, n=n, symbols=self.symbols, rho=self.dummies, rounds=rounds
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
