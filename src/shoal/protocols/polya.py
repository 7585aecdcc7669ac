"""Discrete Laplace noise that many people add together, a small share each.

A difference of two geometric numbers, Pr[Z = z] ∝ e^(−rate |z|), is infinitely divisible: it is
the sum over n people of X − Y, both negative binomial of shape 1/n (Pólya), which are nearly always
zero. Goryczka and Xiong, "A Comprehensive Comparison of Multiparty Secure Additions with
Differential Privacy", IEEE TDSC 2017; Balle, Bell, Gascón, Nissim, arXiv:1906.09116.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from shoal import checks
from shoal.errors import InvalidArgumentError
from shoal.protocols.shares import CountTable, RareCount
from shoal.randomness import Randomness

MOST_COUNTS = 2_000_000
TAIL = 40.0  # counts above TAIL/rate have a chance below e^-TAIL, and are never drawn
_FIXED = 2.0**57
_ROUNDING = 1e-13  # relative error of the chance of a number other than zero, at most


@dataclass(frozen=True, eq=False)
class PolyaNoise:
    """One person's share of discrete Laplace noise.

    ``error`` bounds the total variation between what is drawn for one person and the law.
    """

    either: RareCount
    error: float

    @classmethod
    @lru_cache(maxsize=64)
    def of(cls, *, rate: float, people: int) -> PolyaNoise:
        """The share of one of ``people`` in noise of this rate."""
        checks.positive(rate=rate)
        shape = 1 / checks.count(people=people)
        if TAIL / rate > MOST_COUNTS:
            expected = f"noise of at most {MOST_COUNTS / TAIL:g} steps (fewer levels need less)"
            raise InvalidArgumentError("1/rate", 1 / rate, expected)
        log_zero = shape * _log_first(rate)
        chance = -math.expm1(log_zero)
        values = _given_nonzero(rate, shape, math.exp(log_zero) * shape / chance)
        error = 2 * chance * (1 + _ROUNDING) * (_ROUNDING + values.error) + 2 * RareCount.CUT_OFF
        return cls(RareCount.of(chance, values), error)

    def draw(self, size: int, randomness: Randomness) -> npt.NDArray[np.int64]:
        """Independent shares of so many people."""
        return self.either.draw(size, randomness) - self.either.draw(size, randomness)


def _log_first(rate: float) -> float:
    """log(1 − e^−rate), without cancellation."""
    small = rate < math.log(2)
    return math.log(-math.expm1(-rate)) if small else math.log1p(-math.exp(-rate))


def _given_nonzero(rate: float, shape: float, scale: float) -> CountTable:
    """The law of X − 1 given X > 0: Pr[X = k] ∝ e^(−rate k) / k · Π_{i<k} (1 + shape/i).

    The logs of the product are added up as whole numbers, exactly but for their last bits.
    """
    last = math.ceil(TAIL / rate)
    counts = np.arange(1, last + 2, dtype=np.float64)
    steps = np.rint(np.log1p(shape / counts[:-1]) * _FIXED).astype(np.int64)
    growth = np.concatenate([[0], np.cumsum(steps)]) / _FIXED
    pmf = scale * np.exp(growth - rate * counts) / counts
    # From one count to the next the chance falls at least by e^−rate.
    beyond = float(pmf[-1]) / -math.expm1(-rate)
    return CountTable.of(pmf[:-1], omitted=beyond + last / _FIXED)
