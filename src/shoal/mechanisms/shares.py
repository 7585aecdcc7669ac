"""Noise, exactly: probabilities, counts from a table, everybody's share.

A probability is a multiple of 2^-52, so that a float holds it exactly and a coin with it is one
comparison of whole numbers. Counts are drawn from whole-number weights that add up to 2^62, and how
far these are from the law they stand for is known and counted in delta.

The sum of n independent negative binomial counts of shape r/n and ratio q is one of shape r and
ratio q. So n people can make noise together that none of them knows; most shares are 0.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from functools import lru_cache
from hashlib import sha256
from itertools import accumulate

import numpy as np
import numpy.typing as npt

from shoal import checks
from shoal.accounting.noise.near_central import STEP_ERROR, NegativeBinomial
from shoal.mechanisms.base import EXACT, Integers
from shoal.mechanisms.codec import Whole
from shoal.randomness import Randomness
from shoal.values import Flags

BITS = 52  # of a probability
MOST_COUNTS = 2_000_000
TAIL = 40.0  # counts above TAIL/rate have a probability below e^-TAIL, and are never drawn
_UNIT = 1 << BITS
_TOTAL = 1 << 62
_CUT_OFF = 2.0**-123  # what a probability of 124 bits lacks
_ROUNDING = 1e-12  # relative error of the probabilities handed to a table, at most
_POLYA_ROUNDING = 1e-13  # the same, of the probability of a number other than zero
_LOST = 1e-12  # probability that any of all people's shares had to be cut off
_FIXED = 2.0**57
_FEW = 24
_LAST_DIGITS = 1e-12  # of a probability
_TABLES = ("_steps", "_chance")  # names of integers that may be derived from floats
_LISTED = 512  # weights that a description spells out; of more it has the hash


def rounded_up(probability: float) -> float:
    """The least multiple of 2^-52 that is not below a probability.

    >>> rounded_up(0.25), rounded_up(0.1) >= 0.1, rounded_up(0.0)
    (0.25, True, 0.0)
    """
    return math.ceil(probability * _UNIT) / _UNIT


def numerator(probability: float) -> int:
    """2^52 times a probability that is a multiple of 2^-52."""
    return round(probability * _UNIT)


def coins(probability: float, size: int, randomness: Randomness) -> Flags:
    """Independent coins that are true with exactly this probability."""
    return randomness.below(_UNIT, size) < np.uint64(numerator(probability))


@dataclass(frozen=True, eq=False)
class CountTable:
    """A law of counts 0, 1, ..., as whole-number weights; ``error`` is its total variation.

    ``steps[i]`` is the weight of all counts up to i, of 2^62. Where this is too coarse,
    ``finer[i]`` is what it lacks, in parts of 2^-62.
    """

    steps: npt.NDArray[np.uint64]
    error: float
    finer: npt.NDArray[np.uint64] | None = None

    @classmethod
    def of(cls, probabilities: npt.ArrayLike, *, omitted: float) -> CountTable:
        """Probabilities of 0, 1, ..., right to 1e-12; the rest of ``omitted`` is never drawn.

        The omitted mass and every rounding fall on the likeliest count.
        """
        pmf = np.asarray(probabilities, dtype=np.float64)
        weights = np.floor(pmf * float(_TOTAL)).astype(np.uint64)
        likeliest = int(np.argmax(pmf))
        weights[likeliest] = 0
        weights[likeliest] = np.uint64(_TOTAL - int(weights.sum(dtype=np.uint64)))
        error = omitted + (_ROUNDING + 2.0**-50) * float(np.delete(pmf, likeliest).sum())
        return cls(np.cumsum(weights, dtype=np.uint64), error + pmf.size / float(_TOTAL))

    @classmethod
    def exact(
        cls, probabilities: Sequence[Decimal], *, omitted: float, fine: bool = False
    ) -> CountTable:
        """Probabilities of 0, 1, ..., of far more digits than 2^62 has; the rest is ``omitted``.

        Whole multiples of 2^-62, or of 2^-124 if they have to be ``fine``, from below; the
        likeliest count has what is missing to one.
        """
        total = _TOTAL**2 if fine else _TOTAL
        weights = [int(EXACT.multiply(p, total)) for p in probabilities]
        weights[weights.index(max(weights))] += total - sum(weights)
        error = omitted + len(weights) / float(total)
        if not fine:
            return cls(np.cumsum(np.array(weights, dtype=np.uint64), dtype=np.uint64), error)
        digits = [divmod(step, _TOTAL) for step in accumulate(weights)]
        steps, finer = np.array(digits, dtype=np.uint64).T.copy()
        return cls(steps, error, finer)

    @property
    def integers(self) -> str | list[str]:
        """The steps, or of very many the SHA-256 of their 64-bit (128-bit) big-endian numbers."""
        steps, size = self.steps.tolist(), 8
        if self.finer is not None:
            both = zip(steps, self.finer.tolist(), strict=True)
            steps, size = [step * _TOTAL + rest for step, rest in both], 16
        if len(steps) > _LISTED:
            numbers = b"".join(step.to_bytes(size, "big") for step in steps)
            return f"sha256:{sha256(numbers).hexdigest()}"
        return [str(step) for step in steps]

    @property
    def largest(self) -> int:
        """The largest count that is ever drawn."""
        return int(np.searchsorted(self.steps, np.uint64(_TOTAL)))

    def draw(self, size: int, randomness: Randomness) -> Whole:
        """Independent counts."""
        drawn = randomness.below(_TOTAL, size)
        if self.steps.size > _FEW:
            counts = np.searchsorted(self.steps, drawn, side="right").astype(np.int64)
        else:
            counts = np.zeros(size, dtype=np.int64)
            for step in self.steps[:-1]:  # a pass per count beats a search while there are few
                counts += drawn >= step
        if self.finer is not None:  # where a step is drawn itself, finer digits decide
            for i in np.flatnonzero(drawn == self.steps[np.maximum(counts - 1, 0)]).tolist():
                beyond = self.finer[self.steps == drawn[i]] > randomness.below(_TOTAL, 1)
                counts[i] -= np.count_nonzero(beyond)
        return counts


def alike(own: Integers, others: object) -> bool:
    """Whether the tables of another machine differ from these in the last digits at most.

    Floats are rounded in their own ways by processors and libraries: exponentials of many numbers
    at once are. Of tables that are written as a hash, only the names can be compared.

    >>> own = {"noise_steps": [str(1 << 61), str(1 << 62)], "room": 4}
    >>> alike(own, {"noise_steps": [str((1 << 61) + 512), str(1 << 62)], "room": 4})
    True
    >>> alike(own, {"noise_steps": [str((1 << 61) + (1 << 40)), str(1 << 62)], "room": 4})
    False
    """
    if not isinstance(others, Mapping) or set(own) != set(others):
        return False
    tables = {name for name in own if name.endswith(_TABLES)}
    same = all(own[name] == others[name] for name in set(own) - tables)
    return same and all(_close(_numbers(own[name]), _numbers(others[name])) for name in tables)


def _numbers(written: object) -> list[int] | None:
    """The steps of a table, or one probability of two digits; nothing of a hash."""
    if isinstance(written, str) and re.fullmatch("sha256:[0-9a-f]{64}", written):
        return []
    if not isinstance(written, list) or not written:
        return None
    if not all(isinstance(step, str) and re.fullmatch("[0-9]{1,40}", step) for step in written):
        return None
    return [int(step) for step in written]


def _close(own: list[int] | None, other: list[int] | None) -> bool:
    """Whether two lists are as long as each other, and what they hold differs by last digits."""
    if own is None or other is None or len(own) != len(other):
        return False
    if len(own) == 2:  # a probability in base 2^62, however small, or a table of two steps
        own, other = ([digits[0] * _TOTAL + digits[1]] for digits in (own, other))
    largest = max(own, default=0)
    return all(
        abs(one - two) <= _LAST_DIGITS * largest for one, two in zip(own, other, strict=True)
    )


@dataclass(frozen=True, eq=False)
class RareCount:
    """One person's share, which is nearly always 0: whether there is any, and how many then.

    What the table of the amounts rounds off is multiplied by the small ``probability`` that it is
    used. That has 124 bits, so that any number of people can have it each. ``error``
    bounds the total variation between the count drawn and the law it stands for.
    """

    probability: tuple[int, int]  # in base 2^62
    amount: CountTable  # of what is above one
    error: float

    @classmethod
    def of(cls, probability: float | Decimal, amount: CountTable, *, error: float) -> RareCount:
        """Above 0 with this probability; ``amount`` draws by how much it is above 1 then."""
        digits = divmod(int(Fraction(probability) * _TOTAL**2), _TOTAL)
        return cls(digits, amount, error + _CUT_OFF)

    @classmethod
    def negative_binomial(cls, everybody: NegativeBinomial, *, people: int) -> RareCount:
        """A share of 1/people of what everybody draws together."""
        law = everybody.times(1 / people)
        pmf, omitted = law.likely(left_out=_LOST / people)
        any_at_all = -math.expm1(law.none)
        amount = CountTable.of(pmf[1:] / any_at_all, omitted=omitted / any_at_all)
        rounding = 4 * STEP_ERROR * (law.mean + any_at_all)
        return cls.of(any_at_all, amount, error=any_at_all * amount.error + rounding)

    @classmethod
    @lru_cache(maxsize=64)
    def polya(cls, *, rate: float, people: int) -> RareCount:
        """Of shape 1/people and ratio e^−rate, for sums of so many steps that tables are long.

        A difference of two geometric numbers, Pr[Z = z] ∝ e^(−rate |z|), is infinitely divisible:
        it is the sum over n people of X − Y, both of shape 1/n. Goryczka and Xiong, "A
        Comprehensive Comparison of Multiparty Secure Additions with Differential Privacy", IEEE
        TDSC 2017; Balle, Bell, Gascón, Nissim, arXiv:1906.09116.

        The law of X − 1 given X > 0 is Pr[X = k] ∝ e^(−rate k) / k · Π_{i<k} (1 + shape/i). The
        logs of the product are added up as whole numbers, exactly but for their last bits.
        """
        checks.positive(rate=rate)
        shape = 1 / checks.count(people=people)
        expected = f"noise of at most {MOST_COUNTS / TAIL:g} steps (fewer levels need less)"
        checks.refuse(TAIL / rate > MOST_COUNTS, expected, **{"1/rate": 1 / rate})
        small = rate < math.log(2)  # log(1 − e^−rate), without cancellation
        log_first = math.log(-math.expm1(-rate)) if small else math.log1p(-math.exp(-rate))
        log_zero = shape * log_first
        any_at_all = -math.expm1(log_zero)
        last = math.ceil(TAIL / rate)
        counts = np.arange(1, last + 2, dtype=np.float64)
        steps = np.rint(np.log1p(shape / counts[:-1]) * _FIXED).astype(np.int64)
        growth = np.concatenate([[0], np.cumsum(steps)]) / _FIXED
        pmf = math.exp(log_zero) * shape / any_at_all * np.exp(growth - rate * counts) / counts
        # From one count to the next the probability falls at least by e^−rate.
        beyond = float(pmf[-1]) / -math.expm1(-rate)
        amount = CountTable.of(pmf[:-1], omitted=beyond + last / _FIXED)
        error = any_at_all * (1 + _POLYA_ROUNDING) * (_POLYA_ROUNDING + amount.error)
        return cls.of(any_at_all, amount, error=error)

    def integers(self, name: str) -> Integers:
        """The probability in base 2^62 and the steps of the amount, under this name."""
        return {
            f"{name}_chance": [str(digit) for digit in self.probability],
            f"{name}_steps": self.amount.integers,
        }

    @property
    def largest(self) -> int:
        """The largest count that is ever drawn."""
        return 1 + self.amount.largest

    def draw(self, size: int, randomness: Randomness) -> Whole:
        """Independent counts."""
        high, low = map(np.uint64, self.probability)
        drawn = randomness.below(_TOTAL, size)
        some = drawn < high
        tied = np.flatnonzero(drawn == high)
        some[tied] = randomness.below(_TOTAL, tied.size) < low
        holders = np.flatnonzero(some)
        counts = np.zeros(size, dtype=np.int64)
        counts[holders] = 1 + self.amount.draw(holders.size, randomness)
        return counts
