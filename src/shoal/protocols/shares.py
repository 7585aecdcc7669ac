"""Exact chances, and counts drawn from a table.

A chance is a multiple of 2^-52, so that a float holds it exactly and a coin with that chance is one
comparison of whole numbers. Counts are drawn from whole-number weights that add up to 2^62, and how
far these are from the law they stand for is known and counted in delta.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from hashlib import sha256
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from shoal import checks
from shoal.randomizers.base import Integers
from shoal.randomness import Randomness

BITS = 52  # of a chance
_UNIT = 1 << BITS
_TOTAL = 1 << 62
_ROUNDING = 1e-12  # relative error of the probabilities handed to a table, at most
_FEW = 24
_LISTED = 512  # weights that a description spells out; of more it has the hash


def rounded_up(share: float) -> float:
    """The least multiple of 2^-52 that is not below a chance.

    >>> rounded_up(0.25), rounded_up(0.1) >= 0.1
    (0.25, True)
    """
    checks.positive(share=share)
    return math.ceil(share * _UNIT) / _UNIT


def numerator(share: float) -> int:
    """2^52 times a chance that is a multiple of 2^-52."""
    return round(share * _UNIT)


def rounded_up_or_zero(share: float) -> float:
    """The same, where no chance at all stays none."""
    return rounded_up(share) if share > 0 else 0.0


def coins(share: float, size: int, randomness: Randomness) -> npt.NDArray[np.bool_]:
    """Independent coins that are true with exactly this chance."""
    return randomness.below(_UNIT, size) < np.uint64(numerator(share))


def hits(share: float, size: int, randomness: Randomness) -> npt.NDArray[np.int64]:
    """Which of ``size`` independent coins with this chance come up, in order."""
    return np.flatnonzero(coins(share, size, randomness))


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

    @property
    def mean(self) -> float:
        """Expected count."""
        weights = np.diff(self.steps, prepend=np.uint64(0)).astype(np.float64)
        return float(weights @ np.arange(weights.size)) / float(_TOTAL)

    def draw(self, size: int, randomness: Randomness) -> npt.NDArray[np.int64]:
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
    """A count that is nearly always 0: whether there is any, and how many then.

    What the table of the amounts rounds off is multiplied by the small ``chance`` that it is used.
    The chance itself is kept to 124 bits, so that any number of people can have it each;
    ``CUT_OFF`` bounds what that changes.
    """

    CUT_OFF: ClassVar[float] = 2.0**-123

    chance: tuple[int, int]
    amount: CountTable  # of what is above one

    @classmethod
    def of(cls, chance: float, amount: CountTable) -> RareCount:
        """Above 0 with this chance; ``amount`` draws by how much it is above 1 then."""
        return cls(divmod(int(Fraction(chance) * _TOTAL**2), _TOTAL), amount)

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

    def draw(self, size: int, randomness: Randomness) -> npt.NDArray[np.int64]:
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
