"""The hashed truth among hashed dummies, for more answers than can be listed."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np
import numpy.typing as npt

from shoal import checks
from shoal.accounting.noise import (
    Divergence,
    NoiseProfile,
    hashed_dummies_delta,
    hashed_dummies_rho,
)
from shoal.errors import InvalidArgumentError
from shoal.protocols.dummies import AmongDummies
from shoal.randomizers import hashing
from shoal.randomizers.base import Integers, Rows, checked_rows, source
from shoal.randomness import Randomness
from shoal.values import Array, Batch, Counts, Envelopes, Estimate, Messages, category_codes

MOST_EVALUATIONS = 1 << 34
_MANY = 1 << 20  # buckets, where two answers hardly ever share one


@dataclass(frozen=True, kw_only=True)
class HashedDummies(AmongDummies):
    """Send a hash function with the answer's bucket, and ``dummies`` of them with random buckets.

    Every message has a function of its own, ``h(x) = ((u x + v) mod p) mod buckets`` as in
    :class:`shoal.LocalHashing`: it travels in the message and belongs to nobody. A message supports
    the answers that its function sends to its bucket. Of ⌊ρ⌋ dummies, and one more with probability
    ρ − ⌊ρ⌋, each is uniform. The analyzer names the candidates it wants to know about.

    Citations: Luo, Wang, Yi, "Frequency Estimation in the Shuffle Model with Almost a Single
    Message", CCS 2022, arXiv:2111.06833 (large domains); calibrated here on the exact divergence of
    the messages that tell two answers apart.
    Runtime: two draws per message; one evaluation per message and candidate to estimate.
    Utility: a count has variance about n dummies/buckets + n/buckets: with as many buckets as
    answers or more, :class:`shoal.UniformDummies` does the same with less.

    >>> protocol = HashedDummies.calibrated(k=10**9, n=10**6, epsilon=1.0, delta=1e-6)
    >>> protocol.buckets, protocol.slots, protocol.message_bytes
    (23443, 2, 18)
    """

    name: ClassVar[str] = "hashed-dummies"

    k: int
    buckets: int

    def __post_init__(self) -> None:
        object.__setattr__(self, "k", checks.count(2, k=self.k))
        object.__setattr__(self, "buckets", checks.count(2, buckets=self.buckets))
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
        chosen = _one_dummy(n, epsilon, delta) if buckets is None else buckets
        dummies = _fewest(n, chosen, epsilon, delta)
        made = cls(k=k, buckets=chosen, dummies=dummies)
        return made.kept(n=n, epsilon=epsilon, delta=delta)

    @property
    def collision(self) -> float:
        """The chance that two different answers share their bucket, the same for all of them."""
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
        expected = self.dummies / self.buckets + self.collision
        return (self.slots - expected) / (1 - self.collision)

    def randomize(
        self, values: npt.ArrayLike, *, randomness: Randomness | None = None
    ) -> Envelopes:
        """Rows of bytes, the truth first, then the dummies: the shuffler has to mix them."""
        keys = category_codes(values, self.k).astype(np.uint64)
        bits = source(randomness)
        sizes = 1 + self._added(keys.size, bits)
        truths = np.cumsum(sizes) - sizes
        total = int(sizes.sum())
        u, v = hashing.drawn_functions(total, bits)
        sent = bits.below(self.buckets, total)
        sent[truths] = hashing.hashed((u[truths], v[truths]), keys, self.buckets)
        rows = np.empty((total, self.message_bytes), dtype=np.uint8)
        hashing.fill_rows(rows, (u, v), sent.view(np.int64), self.buckets)
        return Envelopes(rows, sizes)

    def profile(self, n: int) -> NoiseProfile:
        """The divergence of the messages that tell two answers apart, exact but for collisions."""
        return NoiseProfile(
            divergence=Divergence.of(
                hashed_dummies_delta,
                n=n,
                buckets=self.buckets,
                collision=self.collision,
                rho=self.dummies,
            ),
            n=n,
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
        return Counts(self._cells(reports.messages, category_codes(candidates, self.k)), people)

    def cells(self, messages: Messages) -> npt.NDArray[np.int64]:
        """How many messages support each of the k answers, if that is not too much work."""
        if self.k * len(messages) > MOST_EVALUATIONS:
            expected = f"messages x answers <= {MOST_EVALUATIONS} (estimate_of takes candidates)"
            raise InvalidArgumentError("k", self.k, expected)
        return self._cells(messages, np.arange(self.k, dtype=np.int64))

    def _cells(
        self, messages: Messages, candidates: npt.NDArray[np.int64]
    ) -> npt.NDArray[np.int64]:
        parts = hashing.row_parts(messages, self.buckets)
        return hashing.supports(parts, candidates.astype(np.uint64), self.buckets)

    def supports(
        self, messages: npt.NDArray[Any], inputs: Sequence[Any]
    ) -> npt.NDArray[np.bool_] | None:
        """The answers that a message's function sends to its bucket."""
        return hashing.supported(messages, np.array(inputs, dtype=np.uint64), self.buckets)

    def gap_estimator(self, first: int, second: int) -> None:
        """None: there are too many answers to estimate all of them in every run."""

    def estimate(self, batch: Batch | Counts) -> Estimate:
        """Supports of all k answers, less those expected of dummies and of other answers."""
        return self._estimate(self.counted(batch))

    def estimate_of(self, batch: Batch | Counts, candidates: npt.ArrayLike) -> Estimate:
        """The same of the candidates only, in their order; counts are those of :meth:`support`."""
        asked = category_codes(candidates, self.k)
        counts = batch if isinstance(batch, Counts) else self.support(batch, asked)
        if counts.cells.size != asked.size:
            expected = f"counts of {asked.size} candidates"
            raise InvalidArgumentError("counts", counts.cells.size, expected)
        return self._estimate(self.counted(counts))

    def _estimate(self, counts: Counts) -> Estimate:
        n, c = counts.n, self.collision
        found = (counts.cells / n - self.dummies / self.buckets - c) / (1 - c)
        nobody, everybody = self.variance([0.0, 1.0], n=n).tolist()
        errors = np.sqrt(np.clip(self.variance(found, n=n), everybody, nobody))
        step = 1 / (n * (1 - c))
        return Estimate(
            found,
            errors,
            n,
            variance_slope=everybody - nobody,
            step=step,
            # Few dummies: counts move in whole steps and are not quite normal.
            granularity=step / (1 + everybody / step**2 / 3),
            empty_error=math.sqrt(nobody),
        )

    def variance(self, frequencies: npt.ArrayLike, *, n: int) -> Array:
        """Of the dummies, and of the other answers in the same bucket."""
        f = np.asarray(frequencies, dtype=np.float64)
        c, rare = self.collision, self._sometimes / self.buckets
        dummies = self._always / self.buckets * (1 - 1 / self.buckets) + rare * (1 - rare)
        return (dummies + (1 - f) * c * (1 - c)) / (n * (1 - c) ** 2)

    def encode(self, envelopes: Envelopes) -> npt.NDArray[np.uint8]:
        """The messages' rows, then rows of zeros, which no message is, for unused slots."""
        if envelopes.sizes.size and int(envelopes.sizes.max()) > self.slots:
            expected = f"at most {self.slots} messages of one person"
            raise InvalidArgumentError("envelopes", int(envelopes.sizes.max()), expected)
        hashing.row_parts(envelopes.messages, self.buckets)
        filled = np.zeros((len(envelopes), self.slots, self.message_bytes), dtype=np.uint8)
        filled[np.arange(self.slots) < envelopes.sizes[:, None]] = envelopes.messages
        return filled.reshape(len(envelopes), self.envelope_bytes)

    def decode(self, rows: npt.NDArray[np.uint8]) -> Envelopes:
        """The rows of all slots that are not empty."""
        rows = np.asarray(rows, dtype=np.uint8)
        if rows.ndim != 2 or rows.shape[1] != self.envelope_bytes:
            expected = f"rows of {self.envelope_bytes} bytes, an envelope each"
            raise InvalidArgumentError("rows", rows.shape, expected)
        messages = rows.reshape(len(rows), self.slots, self.message_bytes)
        sent = messages.any(axis=2)
        hashing.row_parts(messages[sent], self.buckets)
        return Envelopes(messages[sent], sent.sum(axis=1).astype(np.int64))

    def decode_slots(self, rows: Rows) -> Messages:
        """The rows that are not empty."""
        found = checked_rows(rows, self.message_bytes)
        sent = found[found.any(axis=1)]
        hashing.row_parts(sent, self.buckets)
        return sent

    def admissible(self, rows: Rows) -> npt.NDArray[np.bool_]:
        """A function of the family and a bucket, or the zeros of an empty slot if there are any."""
        found = checked_rows(rows, self.message_bytes)
        sent = hashing.admissible_rows(found, self.buckets)
        return sent if self.always_full else sent | ~found.any(axis=1)


def _collision(buckets: int) -> float:
    shared, pairs = hashing.collisions(buckets)
    return shared / pairs


def _fewest(n: int, buckets: int, epsilon: float, delta: float) -> float:
    b = checks.count(2, buckets=buckets)
    return hashed_dummies_rho(n=n, buckets=b, collision=_collision(b), epsilon=epsilon, delta=delta)


def _one_dummy(n: int, epsilon: float, delta: float) -> int:
    """The most buckets for which one dummy per person is enough, or 2."""
    per_bucket = _fewest(n, _MANY, epsilon, delta) / _MANY
    buckets = max(2, math.floor(1 / per_bucket))
    # Fewer buckets collide more often, which takes a little more of each.
    return max(2, math.floor(buckets / max(1.0, _fewest(n, buckets, epsilon, delta))))
