"""Binomial probabilities near the mean, with a bound on everything left out or rounded off."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from shoal import checks
from shoal.accounting import binomial
from shoal.errors import InvalidArgumentError

Array = npt.NDArray[np.float64]

LARGEST_EPSILON = 300.0
# Beyond this log-ratio there is certainly no gain, and its exponential still is a float.
HOPELESS = 700.0
_MOST_COUNTS = 4_000_000
_UNIT = float(np.finfo(np.float64).eps)
# Bernstein: beyond t = 12 s + 60 the two tails of a binomial of standard deviation s hold at most
# 2 exp(-t^2 / (2 s^2 + 2 t / 3)) <= 2 exp(-72), whatever s is.
_OMITTED = 2 * math.exp(-72)


@dataclass(frozen=True)
class BinomialWindow:
    """Z ~ Bin(n, share) on consecutive counts.

    ``pmf`` is divided by the window's mass, so that it is never too small for more than rounding;
    ``error`` bounds the relative error of every entry, of their partial sums and of the log-ratios;
    ``omitted`` bounds the mass outside.
    """

    n: int
    share: float
    counts: Array
    pmf: Array
    error: float
    omitted: float

    @classmethod
    def of(cls, *, n: int, share: float) -> BinomialWindow:
        """The window of ``shoal.accounting.binomial`` for 0 < share < 1."""
        if 24 * math.sqrt(n * share * (1 - share)) > _MOST_COUNTS:
            expected = f"a binomial of at most {_MOST_COUNTS} likely counts"
            raise InvalidArgumentError("n·share", n * share, expected)
        counts = binomial.window(n=n, share=share)
        logs = binomial.log_pmf(counts, n=n, share=share)
        largest = 2 * math.log(n + 1) + abs(math.log(share)) + abs(math.log1p(-share)) + 1
        depth = float(logs.max() - logs.min())
        error = _UNIT * counts.size * (4 * largest + depth + 8)
        omitted = 0.0 if counts.size == n + 1 else _OMITTED
        return cls(n, share, counts, np.exp(logs), error, omitted)

    @property
    def log_up(self) -> Array:
        """log Pr[Z = z + 1] / Pr[Z = z] at every count z (minus infinity at z = n)."""
        with np.errstate(divide="ignore"):
            ratio = np.log((self.n - self.counts) / (self.counts + 1))
        return np.asarray(ratio + self._log_odds)

    @property
    def log_down(self) -> Array:
        """log Pr[Z = z - 1] / Pr[Z = z] at every count z (minus infinity at z = 0)."""
        with np.errstate(divide="ignore"):
            ratio = np.log(self.counts / (self.n - self.counts + 1))
        return np.asarray(ratio - self._log_odds)

    @property
    def _log_odds(self) -> float:
        return math.log(self.share) - math.log1p(-self.share)


def checked_epsilon(epsilon: float) -> float:
    """A central epsilon whose exponential is a float."""
    checks.non_negative(epsilon=epsilon)
    if epsilon > LARGEST_EPSILON:
        raise InvalidArgumentError("epsilon", epsilon, f"epsilon <= {LARGEST_EPSILON:g}")
    return float(epsilon)


def checked_target(*, epsilon: float, delta: float) -> None:
    """A guarantee to calibrate for."""
    checks.target(epsilon=epsilon, delta=delta)
