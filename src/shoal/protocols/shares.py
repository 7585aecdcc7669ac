"""Exact probabilities, counts drawn from a table, and everybody's share of a common noise.

A probability is a multiple of 2^-52, so that a float holds it exactly and a coin with it is one
comparison of whole numbers. Counts are drawn from whole-number weights that add up to 2^62, and how
far these are from the law they stand for is known and counted in delta.

The sum of n independent negative binomial counts of shape r/n and ratio q is one of shape r and
ratio q. So n people can make noise together that none of them knows; most shares are 0.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from hashlib import sha256

import numpy as np
import numpy.typing as npt

from shoal import checks
from shoal.accounting.noise.near_central import STEP_ERROR, NegativeBinomial
from shoal.errors import InvalidArgumentError
from shoal.protocols.base import Whole
from shoal.randomizers.base import Flags, Integers
from shoal.randomness import Randomness

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

    ``steps[i]`` is the weight of all counts up to i, of 2^62.
    """

    steps: npt.NDArray[np.uint64]
    error: float

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

    @property
    def integers(self) -> str | list[str]:
        """The steps, or of very many the SHA-256 of their 64-bit big-endian numbers."""
        if self.steps.size > _LISTED:
            return f"sha256:{sha256(self.steps.astype('>u8').tobytes()).hexdigest()}"
        return [str(step) for step in self.steps.tolist()]

    @property
    def largest(self) -> int:
        """The largest count that is ever drawn."""
        return int(np.searchsorted(self.steps, np.uint64(_TOTAL)))

    def draw(self, size: int, randomness: Randomness) -> Whole:
        """Independent counts."""
        drawn = randomness.below(_TOTAL, size)
        if self.steps.size > _FEW:
            return np.searchsorted(self.steps, drawn, side="right").astype(np.int64)
        counts = np.zeros(size, dtype=np.int64)
        for step in self.steps[:-1]:  # a pass per count beats a search while there are few
            counts += drawn >= step
        return counts


@dataclass(frozen=True, eq=False)
class RareCount:
    """One person's share, which is nearly always 0: whether there is any, and how many then.

    What the table of the amounts rounds off is multiplied by the small ``chance`` that it is used.
    The chance itself is kept to 124 bits, so that any number of people can have it each. ``error``
    bounds the total variation between the count drawn and the law it stands for.
    """

    chance: tuple[int, int]
    amount: CountTable  # of what is above one
    error: float

    @classmethod
    def of(cls, chance: float, amount: CountTable, *, error: float) -> RareCount:
        """Above 0 with this chance; ``amount`` draws by how much it is above 1 then."""
        return cls(divmod(int(Fraction(chance) * _TOTAL**2), _TOTAL), amount, error + _CUT_OFF)

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
        if TAIL / rate > MOST_COUNTS:
            expected = f"noise of at most {MOST_COUNTS / TAIL:g} steps (fewer levels need less)"
            raise InvalidArgumentError("1/rate", 1 / rate, expected)
        small = rate < math.log(2)  # log(1 − e^−rate), without cancellation
        log_first = math.log(-math.expm1(-rate)) if small else math.log1p(-math.exp(-rate))
        log_zero = shape * log_first
        chance = -math.expm1(log_zero)
        last = math.ceil(TAIL / rate)
        counts = np.arange(1, last + 2, dtype=np.float64)
        steps = np.rint(np.log1p(shape / counts[:-1]) * _FIXED).astype(np.int64)
        growth = np.concatenate([[0], np.cumsum(steps)]) / _FIXED
        pmf = math.exp(log_zero) * shape / chance * np.exp(growth - rate * counts) / counts
        # From one count to the next the probability falls at least by e^−rate.
        beyond = float(pmf[-1]) / -math.expm1(-rate)
        amount = CountTable.of(pmf[:-1], omitted=beyond + last / _FIXED)
        error = chance * (1 + _POLYA_ROUNDING) * (_POLYA_ROUNDING + amount.error)
        return cls.of(chance, amount, error=error)

    def integers(self, name: str) -> Integers:
        """The chance in base 2^62 and the steps of the amount, under this name."""
        return {
            f"{name}_chance": [str(digit) for digit in self.chance],
            f"{name}_steps": self.amount.integers,
        }

    @property
    def largest(self) -> int:
        """The largest count that is ever drawn."""
        return 1 + self.amount.largest

    def draw(self, size: int, randomness: Randomness) -> Whole:
        """Independent counts."""
        high, low = map(np.uint64, self.chance)
        drawn = randomness.below(_TOTAL, size)
        some = drawn < high
        tied = np.flatnonzero(drawn == high)
        some[tied] = randomness.below(_TOTAL, tied.size) < low
        holders = np.flatnonzero(some)
        counts = np.zeros(size, dtype=np.int64)
        counts[holders] = 1 + self.amount.draw(holders.size, randomness)
        return counts
