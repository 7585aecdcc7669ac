"""Local hashing: randomized response about the bucket of a hash function of one's own."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache, partial
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from shoal import checks
from shoal.accounting.table import witness_pairs
from shoal.errors import InvalidArgumentError
from shoal.intervals.estimates import Estimate
from shoal.mechanisms import words as texts
from shoal.mechanisms.base import (
    LARGEST_EPSILON,
    ByLaw,
    Candidate,
    CategoryRandomizer,
    Odds,
    Parts,
    Wanted,
)
from shoal.mechanisms.codec import (
    Codec,
    Rows,
    Whole,
    byte_rows,
    checked_rows,
    encode_integers,
    integer_width,
    integers_of,
)
from shoal.mechanisms.estimators import MOST_PAIRED, Support, Supported, over_pairs
from shoal.mechanisms.response import RandomizedResponse
from shoal.questions.domains import Cells, Domain, Texts
from shoal.randomness import Randomness, Words
from shoal.values import Array, Batch, Counts, Flags, Messages, category_codes

PRIME = (1 << 61) - 1

_FACTOR_BYTES = 8
_FUNCTION_BYTES = 2 * _FACTOR_BYTES
LARGEST_DECODING = 1e10  # reports times answers: beyond, trying every answer takes hours
_BUCKETS = (2, 4, 8, 16, 64, 256, 1024, 4096)  # that a planner tries
_MESSAGES_AT_ONCE = 1 << 14
_CHUNK = 1 << 14

Functions = tuple[Words, Words]


@dataclass(frozen=True, kw_only=True)
class LocalHashing(CategoryRandomizer):
    """Draw a hash function into g buckets; report it, and the answer's bucket by g-ary response.

    The function is ``h(x) = ((u x + v) mod p) mod g`` with p = 2^61 - 1, u uniform on
    1, ..., p - 1 and v on 0, ..., p - 1; both travel in the message. With ``k`` the answers are
    0, ..., k - 1; without it they are any strings, identified by a public 61-bit fingerprint, and
    the analyzer names the candidates it wants to know about. ``buckets`` is g; by default one more
    than e^epsilon, rounded, which is best for rare answers when nothing is shuffled.

    Runtime: three draws per report; one evaluation per report and candidate to estimate.

    Utility: n Var = (e + g - 1)^2/((g - 1)(e - 1)^2) for an answer nobody gave, e =
    e^epsilon.

    Args:
        epsilon: Local ε of one report, in (0, 30]; the sampler keeps at most this.
        buckets: Values of the hash functions, at least 2; None takes e^ε + 1, rounded.
        k: Number of answers; None for an open domain of strings.

    Raises:
        InvalidArgumentError: A parameter is out of its range.

    References:
        Wang, Blocki, Li, Jha, "Locally Differentially Private Protocols for Frequency
        Estimation", USENIX Security 2017; Carter, Wegman, "Universal Classes of Hash
        Functions", 1979; :doc:`/theory/blanket`.

    Example:
        >>> LocalHashing(epsilon=1.0).g, LocalHashing(epsilon=1.0).message_bytes
        (4, 17)
    """

    name: ClassVar[str] = "hashing"
    words = texts.BY_GROUP

    epsilon: float
    buckets: int | None = None
    k: int | None = None  # type: ignore[assignment]  # an open domain has no number of answers

    def __post_init__(self) -> None:
        checks.positive(epsilon=self.epsilon)
        checks.counts(self, buckets=2, k=2)
        _ = self.parts

    @classmethod
    def candidates(cls, wanted: Wanted) -> list[Candidate]:
        """With several numbers of buckets, unless decoding took too long."""
        k = wanted.domain.arguments["k"]
        if wanted.n * k > LARGEST_DECODING:
            remark = f"decoding tries {k:,} answers on each of {wanted.n:,} reports"
            return [Candidate(cls.name, remark=remark)]
        return [Candidate(cls.name, partial(cls, k=k, buckets=buckets)) for buckets in _BUCKETS]

    @property
    def g(self) -> int:
        """The number of buckets."""
        if self.buckets is not None:
            return self.buckets
        return round(math.exp(min(self.epsilon, LARGEST_EPSILON))) + 1

    @cached_property
    def parts(self) -> Parts[Estimate]:
        """Another answer is supported if it shares the true bucket sent, or has the false one.

        With c the probability of sharing, that is (c high + (1 - c) low)/total. Two answers share a
        bucket with probability c, and it is sent with at most P.

        The blanket is the least weight of every message. With z = e + g - 1 the atoms are (e, 1)
        and (1, e) of mass (1 - c)/z, (e, e) of mass c/z, and (1, 1) of mass (g - 2 + c)/z. Answers
        with equal keys are randomized alike, which costs nothing.
        """
        odds = Odds.of(self.epsilon, highs=1, lows=self.g - 1)
        shared, pairs = collisions(self.g)
        other = shared * odds.high + (pairs - shared) * odds.low
        support = Support(odds.high / odds.total, other / (pairs * odds.total))
        both = shared / pairs * support.true
        c, z = shared / pairs, odds.high / odds.low + self.g - 1
        domain: Domain = Texts() if self.k is None else Cells(self.k)
        return Parts(
            domain=domain,
            privacy=ByLaw(
                odds.epsilon,
                lambda: odds.law(
                    (1 - c) / z,
                    c / z,
                    (self.g - 2 + c) / z,
                    witnesses=lambda: witness_pairs(self._two()),
                ),
            ),
            codec=Hashed(self.g, self._keys, self._everything),
            estimator=ByBuckets(self.k or 0, support, (both, both), g=self.g),
            odds=odds,
            sizes={"buckets": self.g},
        )

    def draw(self, data: Any, bits: Randomness) -> Messages:  # noqa: ANN401 - numbers, or texts
        """Rows of bytes: u, v and the reported bucket, each big-endian."""
        keys = self._keys(data)
        response = RandomizedResponse(k=self.g, epsilon=self.epsilon)
        rows = np.empty((keys.size, self.message_bytes), dtype=np.uint8)
        for start in range(0, keys.size, _CHUNK):  # so that a chunk stays in the cache
            part = keys[start : start + _CHUNK]
            functions = drawn_functions(part.size, bits)
            truths = hashed(functions, part, self.g).view(np.int64)
            reported = response.draw(truths, bits)
            fill_rows(rows[start : start + _CHUNK], functions, reported, self.g)
        return rows

    def _two(self) -> Array:
        """Pr[bucket sent, as seen from two answers | either answer]; they may share their bucket.

        Apart: the first one's bucket, the second one's, another. Shared: this bucket, another.
        """
        g, high, low = self.g, self.odds.high, self.odds.low
        shared, pairs = collisions(g)
        together = [shared * high, shared * (g - 1) * low]
        first, second = (pairs - shared) * high, (pairs - shared) * low
        rows = [[first, second, (g - 2) * second, *together]]
        rows.append([second, first, (g - 2) * second, *together])
        total = pairs * self.odds.total
        return np.array([[weight / total for weight in row] for row in rows])

    def table(self) -> Array:
        """An error: there are too many functions to list the messages."""
        expected = (
            "a randomizer whose messages can be listed; a message names one of 2^122 functions"
        )
        raise InvalidArgumentError("randomizer", self.name, expected)

    def support(self, messages: Messages, candidates: npt.ArrayLike | Sequence[object]) -> Counts:
        """How many messages support each candidate: those whose function sends it to their bucket.

        The counts of several batches add up if the candidates are the same.
        """
        parts = row_parts(messages, self.g)
        return Counts(supports(parts, self._keys(candidates), self.g), parts[1].size)

    def estimate(self, batch: Batch | Counts, candidates: npt.ArrayLike | None = None) -> Estimate:
        """Unbiased estimates of the candidates' fractions, in order; by default of all k answers.

        Counts are those that :meth:`support` gave for the same candidates, or :meth:`tally`.
        """
        names = self._everything() if candidates is None else _listed(candidates)
        counts = batch if isinstance(batch, Counts) else self.support(batch.messages, names)
        expected = f"counts of {len(names)} candidates"
        checks.refuse(counts.cells.size != len(names), expected, counts=counts.cells.size)
        return super().estimate(counts)

    def _everything(self) -> Sequence[object]:
        """All k answers."""
        if self.k is None:
            raise InvalidArgumentError("candidates", None, "candidates, as there is no k")
        return range(self.k)

    def _keys(self, values: npt.ArrayLike | Sequence[object]) -> Words:
        """Answers as residues modulo p."""
        if self.k is None:
            return fingerprints(_listed(values))
        return category_codes(np.asarray(values), self.k).astype(np.uint64)


@dataclass(frozen=True)
class ByBuckets(Supported):
    """From how many messages have a function that sends each of the answers to their bucket."""

    g: int = 2

    @property
    def signed(self) -> bool:  # type: ignore[override]  # computed
        """If triples of so few answers are looked at one by one."""
        return self.k <= MOST_PAIRED

    def pairs(self, weights: Array) -> Array:
        """Two others: all three in one bucket, which is sent, or these two in another one."""
        true, (assumed, _) = self.support.true, self.joint
        shared, pairs = collisions(self.g)
        lie = (1 - true) / (self.g - 1)

        def together(own: int) -> Array:
            three = sharing(own, self.k, self.g)
            return of_others(true * three + lie * (shared / pairs - three) - assumed, own)

        return over_pairs(weights, together)


class Hashed(Codec):
    """A message is a hash function and one of so many buckets: it supports what is hashed there.

    ``keys`` are those of answers, and ``everything`` is all of these, if there are so many. In
    ``spare`` slots an unused one holds zeros, which no message is.
    """

    def __init__(
        self,
        buckets: int,
        keys: Callable[[Any], Words],
        everything: Callable[[], Any],
        *,
        spare: bool = False,
        always_full: bool = False,
        most: float = math.inf,
    ) -> None:
        self.buckets, self._keys, self._everything = buckets, keys, everything
        self._most = most  # messages times answers
        # log2 of p(p - 1) functions and of the buckets; and bytes of u, v and the bucket.
        self.message_bits = math.log2(PRIME) + math.log2(PRIME - 1) + math.log2(buckets)
        self.message_bytes = row_bytes(buckets)
        self._always_full = always_full
        if spare:
            self.empty = np.zeros((1, self.message_bytes), dtype=np.uint8)

    def cells(self, messages: Messages) -> Whole:
        """How many messages support each of the answers, if that is not too much work."""
        answers = self._everything()
        expected = f"messages x answers <= {self._most} (estimate_of takes candidates)"
        checks.refuse(len(answers) * len(messages) > self._most, expected, k=len(answers))
        return supports(row_parts(messages, self.buckets), self._keys(answers), self.buckets)

    def encode(self, messages: Messages) -> Rows:
        """The rows as they are."""
        row_parts(messages, self.buckets)
        return np.asarray(messages, dtype=np.uint8)

    def decode(self, rows: Rows) -> Messages:
        """The rows as they are; each holds a function of the family and a bucket."""
        return self.encode(rows)

    def admissible(self, rows: Rows) -> Flags:
        """A function of the family and a bucket, or the zeros of an empty slot if there are any."""
        sent = admissible_rows(rows, self.buckets)
        if self.empty is None or self._always_full:
            return sent
        return sent | ~self.filled(checked_rows(rows, self.message_bytes))

    def supports(self, messages: npt.NDArray[Any], inputs: Sequence[Any]) -> Flags | None:
        """The answers that a message's function sends to its bucket."""
        return supported(messages, self._keys([*inputs]), self.buckets)


def fingerprints(texts: list[object]) -> Words:
    """A fixed public fingerprint of each string: BLAKE2b of its UTF-8 bytes, modulo p."""
    known: dict[object, int] = {}
    for row, text in enumerate(texts):
        if not isinstance(text, str):
            expected = "strings, as there is no k"
            raise InvalidArgumentError("value", checks.not_shown(row), expected)
        if text not in known:
            content = text.encode("utf-8", "surrogatepass")
            known[text] = int.from_bytes(hashlib.blake2b(content, digest_size=8).digest()) % PRIME
    return np.fromiter((known[text] for text in texts), dtype=np.uint64, count=len(texts))


def collisions(g: int) -> tuple[int, int]:
    """Of how many ordered pairs of distinct residues both fall into one bucket; and of how many.

    For two distinct keys the pair of their values before the last step, (u x + v, u y + v) mod p,
    runs over every pair of distinct residues once as (u, v) runs over the family. Of the g buckets
    p mod g hold one residue more than the others. The probability is below 1/g.
    """
    each, larger = divmod(PRIME, g)
    shared = larger * (each + 1) * each + (g - larger) * each * (each - 1)
    return shared, PRIME * (PRIME - 1)


def sharing(own: int, k: int, g: int) -> Array:
    """How often the keys ``own``, j and l of 0, ..., k − 1 are all in one of g buckets, by j and l.

    Let them be apart by α < β, after division by what these have in common (a factor of u changes
    nothing). The three values are A + iD − p F_i, whole numbers F of wraps, and they share a bucket
    if D = p F_α/α = p F_β/β modulo g: with probability 1/g if M = α F_β − β F_α is 0 modulo g,
    and never else. With fractional parts U_i of (A + iD)/p, M = (α − β) U_0 + β U_α − α U_β: of the
    points of a cube that make this a whole number, as many do as three independent uniform U have
    density there. Exact but for parts g/p of it.
    """
    return np.asarray(_all_shared(k, g).take(_apart(own, k)))


@lru_cache(maxsize=MOST_PAIRED)
def _apart(own: int, k: int) -> npt.NDArray[np.int32]:
    """Where α and β, with nothing in common, are: a planner asks for many numbers of buckets."""
    keys = np.arange(k, dtype=np.int32)
    three = np.sort(np.stack(np.broadcast_arrays(np.int32(own), keys[:, None], keys)), axis=0)
    alpha, beta = three[1] - three[0], three[2] - three[0]
    common = np.maximum(np.gcd(alpha, beta), 1)
    return np.asarray(alpha // common * k + beta // common)


@lru_cache(maxsize=16)
def _all_shared(k: int, g: int) -> Array:
    """The same by α and β, with nothing in common."""
    beta = np.arange(k, dtype=np.float64)
    alpha = beta[:, None]
    rest, density = beta - alpha, np.zeros((k, k))
    for multiple in range(-((k - 1) // g), (k - 1) // g + 1):
        place = beta + multiple * g  # in a sum of three uniform numbers up to α, β and β − α
        density += np.maximum(place, 0.0) ** 2
        for corner in (alpha, beta, rest):
            density -= np.maximum(place - corner, 0.0) ** 2
            density += np.maximum(place - (2 * beta - corner), 0.0) ** 2
        density -= np.maximum(place - 2 * beta, 0.0) ** 2
    volume = np.where((alpha > 0) & (rest > 0), 2 * alpha * beta * rest, np.inf)
    return np.asarray(density / volume / g)


def of_others(matrix: Array, own: int) -> Array:
    """A matrix with zeros but for two different answers, none of them one's own."""
    matrix[own, :] = matrix[:, own] = 0.0
    np.fill_diagonal(matrix, 0.0)
    return matrix


def hashed(functions: Functions, keys: Words | np.uint64, g: int) -> Words:
    """((u x + v) mod p) mod g, exactly, for one key per function or one for all of them.

    With limbs u = u1 2^32 + u0 and 2^61 = 1 modulo p the product is
    8 u1 x1 + (u1 x0 + u0 x1) 2^32 + u0 x0; each term is folded to at most 61 bits, so that the sum
    with v stays below 2^64.
    """
    u, v = functions
    half, low_half, prime = np.uint64(32), np.uint64(0xFFFFFFFF), np.uint64(PRIME)
    u1, u0, x1, x0 = u >> half, u & low_half, keys >> half, keys & low_half
    low = u0 * x0
    middle = u1 * x0 + u0 * x1
    total = u1 * (x1 << np.uint64(3)) + (low & prime) + (low >> np.uint64(61)) + v
    total += (middle >> np.uint64(29)) + ((middle & np.uint64((1 << 29) - 1)) << half)
    total = (total & prime) + (total >> np.uint64(61))
    total -= prime * (total >= prime)
    # Division by a scalar is several times quicker than the remainder.
    return np.asarray(total - total // np.uint64(g) * np.uint64(g), dtype=np.uint64)


def drawn_functions(size: int, randomness: Randomness) -> Functions:
    """Independent uniform members of the family."""
    u = randomness.below(PRIME - 1, size) + np.uint64(1)
    return u, randomness.below(PRIME, size)


def supported(rows: npt.NDArray[Any], keys: Words, g: int) -> Flags | None:
    """Which keys (columns) each row's function sends to its bucket; None if these are no rows."""
    if rows.dtype != np.uint8 or rows.ndim != 2:
        return None
    functions, buckets = row_parts(rows, g)
    return np.stack([hashed(functions, key, g) == buckets for key in keys], axis=1)


def supports(parts: tuple[Functions, Words], keys: Words, g: int) -> npt.NDArray[np.int64]:
    """How many messages (function, bucket) have a function that sends each key to their bucket."""
    functions, reported = parts
    cells = np.zeros(keys.size, dtype=np.int64)
    for start in range(0, reported.size, _MESSAGES_AT_ONCE):
        part = slice(start, start + _MESSAGES_AT_ONCE)
        some, theirs = (functions[0][part], functions[1][part]), reported[part]
        for cell, key in enumerate(keys):
            cells[cell] += np.count_nonzero(hashed(some, key, g) == theirs)
    return cells


def row_bytes(g: int) -> int:
    """Bytes of a message: u, v and the bucket."""
    return _FUNCTION_BYTES + integer_width(g)


def fill_rows(
    rows: npt.NDArray[np.uint8], functions: Functions, reported: Messages, g: int
) -> None:
    """Write u, v and the reported bucket into rows of bytes, each big-endian."""
    for place, factor in enumerate(functions):
        columns = slice(place * _FACTOR_BYTES, (place + 1) * _FACTOR_BYTES)
        rows[:, columns] = factor.astype(">u8").view(np.uint8).reshape(-1, _FACTOR_BYTES)
    rows[:, _FUNCTION_BYTES:] = encode_integers(reported, integer_width(g))


def row_parts(rows: Messages, g: int) -> tuple[Functions, Words]:
    """The functions and the buckets of messages; what no device can have sent is an error."""
    sent = byte_rows(rows, row_bytes(g))
    expected = f"hash functions with u > 0 and u, v < {PRIME}, and messages below {g}"
    checks.every(admissible_rows(sent, g), expected, message=sent)
    return _numbers(sent, g)


def admissible_rows(rows: Rows, g: int) -> Flags:
    """Which rows are a function of the family and a bucket."""
    (u, v), buckets = _numbers(checked_rows(rows, row_bytes(g)), g)
    prime = np.uint64(PRIME)
    return np.asarray((u > 0) & (u < prime) & (v < prime) & (buckets < np.uint64(g)))


def _numbers(rows: Rows, g: int) -> tuple[Functions, Words]:
    """u, v and the bucket of each row, whatever they are."""
    u = integers_of(rows[:, :_FACTOR_BYTES], _FACTOR_BYTES)
    v = integers_of(rows[:, _FACTOR_BYTES:_FUNCTION_BYTES], _FACTOR_BYTES)
    return (u, v), integers_of(rows[:, _FUNCTION_BYTES:], integer_width(g))


def _listed(answers: npt.ArrayLike | Sequence[object]) -> list[object]:
    """Answers in a list, strings as they are: an array of strings would drop what ends them."""
    if isinstance(answers, str) or not isinstance(answers, Iterable):
        raise InvalidArgumentError("answers", answers, "a list of answers")
    return [*(answers.tolist() if isinstance(answers, np.ndarray) else answers)]
