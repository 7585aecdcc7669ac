"""Unary encoding: one bit per answer, each flipped on its own."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from decimal import ROUND_CEILING, Context, Decimal
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from shoal import checks
from shoal.accounting.law import BlanketLaw, Claim
from shoal.accounting.table import witness_pairs
from shoal.errors import InvalidArgumentError
from shoal.randomizers.base import LARGEST_TABLE, CategoryRandomizer, Integers, Rows, source
from shoal.randomizers.bits import (
    CELLS_AT_ONCE,
    bit_counts,
    checked_answers,
    checked_rows,
    clean_rows,
    row_bytes,
    support_sizes,
    supported,
)
from shoal.randomizers.support import Support
from shoal.randomizers.weights import LARGEST_EPSILON
from shoal.randomness import Randomness, Words
from shoal.values import Array, Batch, Counts, Estimate, Messages, category_codes

_SCALE = 1 << 32
_SHARED_BITS = 12
_EXACT = Context(prec=60)


@dataclass(frozen=True, kw_only=True)
class UnaryEncoding(CategoryRandomizer):
    """One bit per answer: set with probability P for the true answer, Q for every other one.

    The default is optimized unary encoding, P = 1/2 and Q = 1/(e^epsilon + 1); ``symmetric`` is
    basic RAPPOR, P = 1 - Q with P/Q = e^(epsilon/2). P and Q are whole numbers over 2^32, Q the
    smallest with P(1 - Q) <= e^epsilon (1 - P) Q.

    Citations: Wang, Blocki, Li, Jha, "Locally Differentially Private Protocols for Frequency
    Estimation", USENIX Security 2017; Erlingsson, Pihur, Korolova, "RAPPOR: Randomized
    Aggregatable Privacy-Preserving Ordinal Response", CCS 2014 (arXiv 1407.6981).
    Runtime: k random bytes per report; O(n k/8) to estimate.
    Utility: n Var = 4e/(e - 1)^2 for an answer nobody gave, e = e^epsilon, and P(1 - P)/(P - Q)^2,
    which optimized encoding never brings below 1, for an answer everybody gave.

    >>> UnaryEncoding(k=2, epsilon=1.0).table().round(3)[0].tolist()
    [0.366, 0.134, 0.366, 0.134]
    """

    name: ClassVar[str] = "unary"

    k: int
    epsilon: float
    symmetric: bool = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "k", checked_answers(self.k))
        checks.positive(epsilon=self.epsilon)
        if self.epsilon > LARGEST_EPSILON:
            raise InvalidArgumentError("epsilon", self.epsilon, f"epsilon <= {LARGEST_EPSILON:g}")
        if self._false >= self._true:
            expected = "an epsilon that probabilities of 32 bits can express"
            raise InvalidArgumentError("epsilon", self.epsilon, expected)

    @cached_property
    def _false(self) -> int:
        """2^32 Q, rounded up: a likelier false bit only hides more."""
        exponent = _EXACT.divide(Decimal(self.epsilon), Decimal(2 if self.symmetric else 1))
        share = _EXACT.divide(Decimal(_SCALE), _EXACT.add(_EXACT.exp(exponent), Decimal(1)))
        return int(share.to_integral_value(rounding=ROUND_CEILING, context=_EXACT))

    @property
    def _true(self) -> int:
        """2^32 P."""
        return _SCALE - self._false if self.symmetric else _SCALE // 2

    @property
    def integers(self) -> Integers:
        """2^32 P and 2^32 Q."""
        return {"true": self._true, "false": self._false, "bits": 32}

    @property
    def _odds(self) -> tuple[int, int]:
        """The largest ratio of two answers' probabilities of one message, as a fraction."""
        return self._true * (_SCALE - self._false), (_SCALE - self._true) * self._false

    @property
    def local_epsilon(self) -> float:
        """log(P(1 - Q)/((1 - P)Q)), rounded up."""
        over, under = self._odds
        exact = _EXACT.ln(_EXACT.divide(Decimal(over), Decimal(under)))
        nearest = float(exact)
        return nearest if Decimal(nearest) >= exact else math.nextafter(nearest, math.inf)

    @property
    def message_bits(self) -> float:
        """One bit per answer."""
        return float(self.k)

    @property
    def message_bytes(self) -> int:
        """Bytes of k bits."""
        return row_bytes(self.k)

    def randomize(self, values: npt.ArrayLike, *, randomness: Randomness | None = None) -> Messages:
        """Rows of k bits, the first answer's bit first, padded with zeros to whole bytes."""
        truths = category_codes(values, self.k)
        drawn_from = source(randomness)
        rows = np.empty((truths.size, self.message_bytes), dtype=np.uint8)
        words = -(-self.k // 64)
        padding = np.uint8(0xFF << (8 * self.message_bytes - self.k) & 0xFF)
        step = max(1, CELLS_AT_ONCE // (64 * words))
        for start in range(0, truths.size, step):
            part = truths[start : start + step]
            packed = _packed_coins(self._false, part.size * words, drawn_from)
            noise = packed.view(np.uint8).reshape(part.size, 8 * words)[:, : self.message_bytes]
            noise[:, -1] &= padding
            own = np.arange(part.size), part // 8
            bit = (0x80 >> (part % 8)).astype(np.uint8)
            noise[own] &= ~bit
            noise[own] |= bit * _coins(self._true, part.size, drawn_from)
            rows[start : start + step] = noise
        return rows

    def law(self) -> BlanketLaw:
        """Four kinds of messages, by the two answers' bits; by symmetry one list serves all pairs.

        Over independent bits of probability Q an answer's likelihood is P/Q if its bit is set and
        (1 - P)/(1 - Q) if not. The blanket takes the latter, except of the message with all bits
        set, whose likelihood is P/Q for everybody.
        """
        over, under = self._odds
        e, p, q = over / under, self._true / _SCALE, self._false / _SCALE
        split = q * (1 - p)
        both = (q**2 - q**self.k) * (1 - p) / (1 - q)
        same = (1 - q) * (1 - p) + p * q ** (self.k - 1)
        atoms = [(split, e, 1.0), (split, 1.0, e), (both, e, e), (same, 1.0, 1.0)]
        # Of two answers among people who all hold a third, only the three answers' bits can tell.
        few = replace(self, k=min(self.k, 3))
        return BlanketLaw(
            atoms,
            witnesses=lambda: witness_pairs(few.table()),
            claim=Claim(local_epsilon=self.local_epsilon),
        )

    def table(self) -> Array:
        """Pr[bits y | answer x]; the column of a message is its bits read as a binary number."""
        if self.k + math.log2(self.k) > math.log2(LARGEST_TABLE):
            raise InvalidArgumentError("k", self.k, f"k 2^k <= {LARGEST_TABLE} for a table")
        p, q = self._true / _SCALE, self._false / _SCALE
        places = np.arange(self.k)[::-1]
        bits = (np.arange(1 << self.k)[:, None] >> places) & 1
        chances = np.where(np.eye(self.k, dtype=bool), p, q)[:, None, :]
        return np.asarray(np.where(bits == 1, chances, 1 - chances).prod(axis=2))

    def tally(self, messages: Messages) -> Counts:
        """How often each answer's bit was set."""
        rows = checked_rows(messages, self.k)
        return Counts(bit_counts(rows, self.k), len(rows))

    def encode(self, messages: Messages) -> npt.NDArray[np.uint8]:
        """The rows as they are."""
        return checked_rows(messages, self.k)

    def decode(self, rows: npt.NDArray[np.uint8]) -> Messages:
        """The rows as they are."""
        return checked_rows(rows, self.k)

    def admissible(self, rows: Rows) -> npt.NDArray[np.bool_]:
        """Any k bits, with nothing after them."""
        return clean_rows(rows, self.k)

    @property
    def _support(self) -> Support:
        return Support(self._true / _SCALE, self._false / _SCALE)

    def supports(
        self, messages: npt.NDArray[Any], inputs: Sequence[Any]
    ) -> npt.NDArray[np.bool_] | None:
        """The answers whose bits are set."""
        return supported(messages, inputs)

    def support_sizes(self, messages: npt.NDArray[Any]) -> npt.NDArray[np.int64]:
        """How many bits are set."""
        return support_sizes(messages)

    def estimate(self, batch: Batch | Counts) -> Estimate:
        """Unbiased estimates of the share of each answer."""
        return self._support.estimate(self.counted(batch))

    def variance(self, frequencies: npt.ArrayLike, *, n: int) -> Array:
        """Variance of each estimated share, given the true ones."""
        return self._support.variance(frequencies, n=n)


def _coins(weight: int, size: int, randomness: Randomness) -> npt.NDArray[np.bool_]:
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
