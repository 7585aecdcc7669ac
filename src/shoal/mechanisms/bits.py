"""Messages with one bit per answer, packed into rows of bytes: unary encoding, subset selection."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from decimal import ROUND_CEILING, Decimal
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from shoal import checks
from shoal.accounting.table import witness_pairs
from shoal.intervals.estimates import Estimate
from shoal.mechanisms import words as texts
from shoal.mechanisms.base import (
    EXACT,
    LARGEST_EPSILON,
    LARGEST_TABLE,
    ByLaw,
    Candidate,
    CategoryRandomizer,
    Integers,
    Odds,
    Parts,
    Wanted,
)
from shoal.mechanisms.codec import Codec, Rows, Whole, byte_rows, checked_rows
from shoal.mechanisms.estimators import Support, Supported
from shoal.questions.domains import Cells
from shoal.randomness import Randomness, Words
from shoal.values import Array, Flags, Messages

CELLS_AT_ONCE = 1 << 20
LARGEST_VECTOR = 10_000  # answers: beyond, a message with a bit per answer is too long to plan
_BITS_OF_BYTE = np.unpackbits(np.arange(256, dtype=np.uint8)[:, None], axis=1).astype(np.int64)
_SCALE = 1 << 32
_SHARED_BITS = 12
_LAST_KEY = (1 << 32) - 1


class Bits(Codec):
    """A message is a row of k bits, the first answer's first, padded with zeros to whole bytes.

    It supports the answers whose bits are set; just so many of them, if it is said how many.
    """

    def __init__(self, k: int, *, size: int | None = None, message_bits: float) -> None:
        self.k, self.size, self.message_bits = k, size, message_bits
        self.message_bytes = -(-k // 8)

    def cells(self, messages: Messages) -> Whole:
        """How often each answer's bit was set: a histogram of every byte, then of its bits."""
        rows = self.decode(messages)
        counted = [np.bincount(column, minlength=256) @ _BITS_OF_BYTE for column in rows.T]
        return np.asarray(np.concatenate(counted)[: self.k])

    def encode(self, messages: Messages) -> Rows:
        """The rows as they are."""
        return self.decode(messages)

    def decode(self, rows: Messages) -> Rows:
        """The rows as they are."""
        bits = byte_rows(rows, self.message_bytes)
        wrong = not self._padded(bits).all()
        checks.refuse(wrong, f"rows of {self.k} bits", rows="set bits after the last answer's")
        if self.size is not None:
            sizes = self.support_sizes(bits)
            checks.every(sizes == self.size, f"sets of {self.size} answers", set=sizes)
        return bits

    def admissible(self, rows: Rows) -> Flags:
        """Rows with nothing after the k bits, of which enough are set."""
        padded = self._padded(checked_rows(rows, self.message_bytes))
        if self.size is None:
            return padded
        return np.asarray(padded & (self.support_sizes(rows) == self.size))

    def _padded(self, rows: Rows) -> Flags:
        """Which rows have no bit set after the last answer's."""
        padding = np.uint8((1 << (8 * self.message_bytes - self.k)) - 1)
        return np.asarray((rows[:, -1] & padding) == 0)

    def supports(self, messages: npt.NDArray[Any], inputs: Sequence[Any]) -> Flags | None:
        """The answers whose bits are set."""
        if messages.dtype != np.uint8 or messages.ndim != 2:
            return None
        places = np.array(inputs, dtype=np.intp)
        return ((messages[:, places // 8] >> (7 - places % 8).astype(np.uint8)) & 1).astype(bool)

    def support_sizes(self, messages: npt.NDArray[Any]) -> Whole:
        """How many bits are set."""
        return np.asarray(np.bitwise_count(messages).sum(axis=1, dtype=np.int64))


@dataclass(frozen=True, kw_only=True)
class BitRandomizer(CategoryRandomizer):
    """A message has a bit for each answer."""

    most_answers: ClassVar[int] = 1 << 24

    @classmethod
    def candidates(cls, wanted: Wanted) -> list[Candidate]:
        """Itself, unless its messages were too long."""
        k = wanted.domain.arguments["k"]
        if k > LARGEST_VECTOR:
            return [Candidate(cls.name, remark=f"a message of {k:,} bits is too long")]
        return super().candidates(wanted)


@dataclass(frozen=True, kw_only=True)
class UnaryEncoding(BitRandomizer):
    """One bit per answer: set with probability P for the true answer, Q for every other one.

    The default is optimized unary encoding, P = 1/2 and Q = 1/(e^epsilon + 1); ``symmetric`` is
    basic RAPPOR, P = 1 - Q with P/Q = e^(epsilon/2). P and Q are whole numbers over 2^32, Q the
    smallest with P(1 - Q) <= e^epsilon (1 - P) Q.

    Runtime: k random bytes per report; O(n k/8) to estimate.

    Utility: n Var = 4e/(e - 1)^2 for an answer nobody gave, e = e^epsilon, and P(1 - P)/(P
    - Q)^2, which optimized encoding never brings below 1, for an answer everybody gave.

    Args:
        k: Number of answers, at least 2; an answer is a number 0, ..., k − 1.
        epsilon: Local ε of one report, in (0, 30]; the sampler keeps at most this.
        symmetric: Basic RAPPOR instead of optimized unary encoding.

    Raises:
        InvalidArgumentError: A parameter is out of its range.

    References:
        Wang, Blocki, Li, Jha, "Locally Differentially Private Protocols for Frequency
        Estimation", USENIX Security 2017; Erlingsson, Pihur, Korolova, "RAPPOR: Randomized
        Aggregatable Privacy-Preserving Ordinal Response", CCS 2014 (arXiv 1407.6981);
        :doc:`/theory/blanket`.

    Example:
        >>> UnaryEncoding(k=2, epsilon=1.0).table().round(3)[0].tolist()
        [0.366, 0.134, 0.366, 0.134]
    """

    name: ClassVar[str] = "unary"
    words = texts.COINS_FOR_ALL

    symmetric: bool = False

    @cached_property
    def parts(self) -> Parts[Estimate]:
        """The odds are P(1 - Q) : (1 - P)Q, the largest ratio of one message's probabilities.

        There are four kinds of messages, by the two answers' bits; by symmetry one list of atoms
        serves all pairs. Over independent bits of probability Q an answer's likelihood is P/Q if
        its bit is set and (1 - P)/(1 - Q) if not. The blanket takes the latter, except of the
        message with all bits set, whose likelihood is P/Q for everybody.
        """
        true, false = self._weights
        over, under = true * (_SCALE - false), (_SCALE - true) * false
        exact = EXACT.ln(EXACT.divide(Decimal(over), Decimal(under)))
        nearest = float(exact)
        above = nearest if Decimal(nearest) >= exact else math.nextafter(nearest, math.inf)
        support = Support(true / _SCALE, false / _SCALE)
        p, q, odds = support.true, support.other, Odds(over, under, over, _SCALE, above)
        both = (q**2 - q**self.k) * (1 - p) / (1 - q)
        same = (1 - q) * (1 - p) + p * q ** (self.k - 1)
        # Of two answers among people who all hold a third, only the three answers' bits can tell.
        few = min(self.k, 3)
        return Parts(
            domain=Cells(self.k),
            privacy=ByLaw(
                above,
                lambda: odds.law(
                    q * (1 - p),
                    both,
                    same,
                    witnesses=lambda: witness_pairs(replace(self, k=few).table()),
                ),
            ),
            codec=Bits(self.k, message_bits=float(self.k)),
            estimator=Supported(self.k, support, (q**2, p * q), independent=True),
            sizes={"true": true, "false": false, "bits": 32},
        )

    @cached_property
    def _weights(self) -> tuple[int, int]:
        """2^32 P and 2^32 Q, Q rounded up: a likelier false bit only hides more."""
        checks.at_most(LARGEST_EPSILON, epsilon=self.epsilon)
        exponent = EXACT.divide(Decimal(self.epsilon), Decimal(2 if self.symmetric else 1))
        rare = EXACT.divide(Decimal(_SCALE), EXACT.add(EXACT.exp(exponent), Decimal(1)))
        false = int(rare.to_integral_value(rounding=ROUND_CEILING, context=EXACT))
        true = _SCALE - false if self.symmetric else _SCALE // 2
        expected = "an epsilon that probabilities of 32 bits can express"
        checks.refuse(false >= true, expected, epsilon=self.epsilon)
        return true, false

    def draw(self, data: Whole, bits: Randomness) -> Messages:
        """Rows of k bits, the first answer's bit first, padded with zeros to whole bytes."""
        true, false = self._weights
        rows = np.empty((data.size, self.message_bytes), dtype=np.uint8)
        words = -(-self.k // 64)
        padding = np.uint8(0xFF << (8 * self.message_bytes - self.k) & 0xFF)
        step = max(1, CELLS_AT_ONCE // (64 * words))
        for start in range(0, data.size, step):
            part = data[start : start + step]
            packed = _packed_coins(false, part.size * words, bits)
            noise = packed.view(np.uint8).reshape(part.size, 8 * words)[:, : self.message_bytes]
            noise[:, -1] &= padding
            own = np.arange(part.size), part // 8
            bit = (0x80 >> (part % 8)).astype(np.uint8)
            noise[own] &= ~bit
            noise[own] |= bit * _coins(true, part.size, bits)
            rows[start : start + step] = noise
        return rows

    def table(self) -> Array:
        """Pr[bits y | answer x]; the column of a message is its bits read as a binary number."""
        large = self.k + math.log2(self.k) > math.log2(LARGEST_TABLE)
        checks.refuse(large, f"k 2^k <= {LARGEST_TABLE} for a table", k=self.k)
        p, q = (weight / _SCALE for weight in self._weights)
        places = np.arange(self.k)[::-1]
        bits = (np.arange(1 << self.k)[:, None] >> places) & 1
        probabilities = np.where(np.eye(self.k, dtype=bool), p, q)[:, None, :]
        return np.asarray(np.where(bits == 1, probabilities, 1 - probabilities).prod(axis=2))


def _coins(weight: int, size: int, randomness: Randomness) -> Flags:
    """Independent coins, heads with probability exactly weight/2^32."""
    return (randomness.words(size) >> np.uint64(32)) < np.uint64(weight)


def _packed_coins(weight: int, words: int, randomness: Randomness) -> Words:
    """64 independent coins per word, heads with probability exactly weight/2^32.

    A uniform 32-bit number is compared with ``weight`` bit by bit from the first, 64 coins at a
    time: a coin is decided at the first bit where the two differ, and is heads if the number has
    the 0 there. After twelve bits one coin in 4096 is left, which is decided on its own.
    """
    heads = np.zeros(words, dtype=np.uint64)
    tied = np.full(words, np.iinfo(np.uint64).max, dtype=np.uint64)
    for place in range(31, 31 - _SHARED_BITS, -1):
        drawn = randomness.words(words)
        if weight >> place & 1:
            heads |= tied & ~drawn
            tied &= drawn
        else:
            tied &= ~drawn
    left = np.flatnonzero(tied)
    open_bits = np.unpackbits(tied[left].view(np.uint8)).astype(bool)
    rest = randomness.words(int(np.count_nonzero(open_bits))) >> np.uint64(32 + _SHARED_BITS)
    decided = np.zeros(open_bits.size, dtype=np.uint8)
    decided[open_bits] = rest < np.uint64(weight & ((1 << (32 - _SHARED_BITS)) - 1))
    heads[left] |= np.packbits(decided).view(np.uint64)
    return heads


@dataclass(frozen=True, kw_only=True)
class SubsetSelection(BitRandomizer):
    """Report w of the k answers: a set with the true one is e^epsilon times likelier than another.

    ``size`` is w; by default the nearest whole number to k/(e^epsilon + 1), at least 1, which
    makes the estimates as good as any locally private ones can be.

    Runtime: k random words of 32 bits and one selection per report; O(n k/8) to estimate.

    Utility: n Var = 4e/(e - 1)^2 for an answer nobody gave, e = e^epsilon and k large.

    Args:
        k: Number of answers, at least 2; an answer is a number 0, ..., k − 1.
        epsilon: Local ε of one report, in (0, 30]; the sampler keeps at most this.
        size: Answers in a report, from 1 to k − 1; None takes the nearest to k/(e^ε + 1).

    Raises:
        InvalidArgumentError: A parameter is out of its range.

    References:
        Ye, Barg, "Optimal Schemes for Discrete Distribution Estimation under Locally
        Differential Privacy", IEEE Trans. Inf. Theory 2018 (arXiv 1702.00610); Wang et al.,
        "Mutual Information Optimally Local Private Discrete Distribution Estimation" (arXiv
        1607.08025); :doc:`/theory/blanket`.

    Example:
        >>> SubsetSelection(k=4, epsilon=1.0, size=2).table().round(3)[0].tolist()
        [0.244, 0.244, 0.244, 0.09, 0.09, 0.09]
    """

    name: ClassVar[str] = "subset"
    words = texts.SUBSET

    size: int | None = None

    def __post_init__(self) -> None:
        checks.counts(self, k=2, size=1)
        too_many = self.size is not None and self.size >= self.k
        checks.refuse(too_many, f"size < k = {self.k}", size=self.size)
        super().__post_init__()

    @property
    def _w(self) -> int:
        if self.size is not None:
            return self.size
        return max(1, round(self.k / (math.exp(min(self.epsilon, LARGEST_EPSILON)) + 1)))

    @cached_property
    def parts(self) -> Parts[Estimate]:
        """The odds are of all sets that contain the true answer, against the others.

        Of the other answers a set holds w - 1 with the truth, and w without it; and (w - 1)(w - 2)
        pairs with the truth, w (w - 1) without. There is no pair of other answers if there are two
        answers only.
        """
        k, w = self.k, self._w
        odds = Odds.of(self.epsilon, highs=w, lows=k - w)
        total, others = odds.total, odds.raised * (w - 1) + (odds.total - odds.raised) * w
        support = Support(odds.raised / total, others / ((k - 1) * total))
        true = support.true
        pairs = true * (w - 1) * (w - 2) + (1 - true) * w * (w - 1)
        joint = pairs / max(1, (k - 1) * (k - 2)), true * (w - 1) / (k - 1)
        choices = math.lgamma(k + 1) - math.lgamma(w + 1) - math.lgamma(k - w + 1)
        # Of two answers: four kinds of sets, by which of the two they contain. One list of atoms
        # serves all pairs, and the blanket gives every set the weight it has for one outside it.
        unit = odds.low / ((k - 1) * odds.total)
        one = unit * w * (k - w)
        both, neither = unit * w * (w - 1), unit * (k - w) * (k - 1 - w)
        return Parts(
            domain=Cells(k),
            privacy=ByLaw(
                odds.epsilon,
                lambda: odds.law(one, both, neither, witnesses=lambda: witness_pairs(self._few())),
            ),
            codec=Bits(k, size=w, message_bits=choices / math.log(2)),
            estimator=Supported(k, support, joint),
            odds=odds,
        )

    @property
    def integers(self) -> Integers:
        """The size of the sets, the weight of those with the truth, and the total."""
        return {"size": self._w, "with": self.odds.raised, "total": self.odds.total}

    def draw(self, data: Whole, bits: Randomness) -> Messages:
        """Rows of k bits, w of them set: the first answer's bit first, padded to whole bytes.

        There are C(k-1, w-1) sets with the truth and C(k-1, w) without it, so that odds of
        high w : low (k - w) for having it make each such set high/low times likelier.
        """
        included = bits.below(self.odds.total, data.size) < self.odds.raised
        rows = np.empty((data.size, self.message_bytes), dtype=np.uint8)
        step = max(1, CELLS_AT_ONCE // self.k)
        for start in range(0, data.size, step):
            part = slice(start, start + step)
            chosen = _completed(data[part], included[part], self.k, self._w, bits)
            rows[part] = np.packbits(chosen, axis=1)
        return rows

    def _few(self) -> Array:
        """Pr[which of the first three answers are in the set | answer x], for these three x.

        Of two answers among people who all hold a third, nothing else can tell.
        """
        k, w, few = self.k, self._w, min(self.k, 3)
        inside = (np.arange(1 << few)[:, None] >> np.arange(few)) & 1
        # Of all sets, how many meet the few answers exactly so.
        perm = math.perm
        met = [perm(w, i) * perm(k - w, few - i) / perm(k, few) for i in range(few + 1)]
        fractions = np.array(met)[inside.sum(axis=1)]
        total = self.odds.total
        outside, within = (total - self.odds.raised) * k / (k - w), self.odds.raised * k / w
        return np.asarray(np.where(inside.T == 1, within, outside) * fractions / total)

    def table(self) -> Array:
        """Pr[set y | answer x]; sets in lexicographic order of their sorted answers."""
        k, w = self.k, self._w
        large = self.message_bits + math.log2(k) > math.log2(LARGEST_TABLE)
        checks.refuse(large, f"at most {LARGEST_TABLE} answers and sets", k=k)
        sets = np.array(list(itertools.combinations(range(k), w)))
        total, outside = self.odds.total, self.odds.total - self.odds.raised
        weights = np.full((k, len(sets)), outside / (total * math.comb(k - 1, w)))
        columns = np.arange(len(sets))[:, None]
        weights[sets, columns] = self.odds.raised / (total * math.comb(k - 1, w - 1))
        return weights


def _completed(
    truths: npt.NDArray[np.int64],
    included: Flags,
    k: int,
    w: int,
    randomness: Randomness,
) -> Flags:
    """Uniformly random w-subsets of k answers that contain the truth if it is ``included``.

    The w smallest of independent random keys win; the truth's own key is set to come first or
    last. Where the w-th smallest key is not unique the row is drawn again: that event treats the
    other answers alike, so it favours none of them.
    """
    chosen = np.empty((truths.size, k), dtype=np.bool_)
    open_rows = np.arange(truths.size)
    while open_rows.size:
        needed = open_rows.size * k
        words = randomness.words(-(-needed // 2)).view(np.uint32)
        keys = words[:needed].reshape(open_rows.size, k)
        own = np.where(included[open_rows], 0, _LAST_KEY)
        keys[np.arange(open_rows.size), truths[open_rows]] = own
        limits = np.partition(keys, w - 1, axis=1)[:, w - 1]
        winners = keys <= limits[:, None]
        chosen[open_rows] = winners
        open_rows = open_rows[np.count_nonzero(winners, axis=1) != w]
    return chosen
