"""Binomial probabilities over a run of counts, to full relative accuracy for large n."""

from __future__ import annotations

import math
from functools import cached_property, lru_cache

import numpy as np
import scipy

from shoal import checks
from shoal.accounting.atoms import Array

_DEVIATIONS = 12.0
_SLACK = 60.0
_MOST_COUNTS = 4_000_000
_UNIT = float(np.finfo(np.float64).eps)
# Bernstein: beyond t = 12 s + 60 the two tails of a binomial of standard deviation s hold at most
# 2 exp(-t^2 / (2 s^2 + 2 t / 3)) <= 2 exp(-72), whatever s is.
_OMITTED = 2 * math.exp(-72)


def window(*, n: int, probability: float) -> Array:
    """The counts within 12 standard deviations of the mean, and 60 more on each side."""
    mean = n * probability
    reach = _DEVIATIONS * math.sqrt(mean * (1 - probability)) + _SLACK
    low = max(0, math.floor(mean - reach))
    high = min(n, math.ceil(mean + reach))
    return np.arange(low, high + 1, dtype=np.float64)


def log_pmf(counts: Array, *, n: int, probability: float) -> Array:
    """log Pr[Bin(n, probability) = c] for consecutive counts that hold all but nothing of it.

    Successive ratios are summed outwards from the mode and normalised: log-gamma would lose
    1e-16·n log n.
    """
    ratios = np.log((n - counts[:-1]) / counts[1:])
    ratios = ratios + math.log(probability) - math.log1p(-probability)
    mode = int(np.clip(math.floor((n + 1) * probability) - int(counts[0]), 0, counts.size - 1))
    above = np.cumsum(ratios[mode:])
    below = -np.cumsum(ratios[:mode][::-1])[::-1]
    relative = np.concatenate([below, [0.0], above])
    return np.asarray(relative - scipy.special.logsumexp(relative))


class BinomialWindow:
    """Z ~ Bin(n, probability) near its mean, with a bound on all that is left out or rounded off.

    ``pmf`` is divided by the window's mass, so that it is never too small for more than rounding;
    ``error`` bounds the relative error of every entry, of their partial sums and of the log-ratios;
    ``omitted`` bounds the mass outside. Z may be one number for certain.
    """

    def __init__(self, *, n: int, probability: float) -> None:
        self.n, self.probability = n, probability
        if n == 0 or probability in {0, 1}:
            self.counts, self.pmf = np.array([n * probability]), np.ones(1)
            self.error = self.omitted = 0.0
            return
        wide = 24 * math.sqrt(n * probability * (1 - probability)) > _MOST_COUNTS
        expected = f"a binomial of at most {_MOST_COUNTS} likely counts"
        checks.refuse(wide, expected, n·probability=n * probability)
        self.counts = window(n=n, probability=probability)
        logs = log_pmf(self.counts, n=n, probability=probability)
        self.pmf = np.exp(logs)
        largest = 2 * math.log(n + 1) - math.log(probability) - math.log1p(-probability) + 1
        depth = float(logs.max() - logs.min())
        self.error = _UNIT * self.counts.size * (4 * largest + depth + 8)
        self.omitted = 0.0 if self.counts.size == n + 1 else _OMITTED

    @classmethod
    @lru_cache(maxsize=4)
    def of(cls, n: int, probability: float) -> BinomialWindow:
        """The same window for all epsilons of a curve: making it costs more than using it."""
        return cls(n=n, probability=probability)

    @cached_property
    def log_up(self) -> Array:
        """log Pr[Z = z + 1] / Pr[Z = z] at every count z (minus infinity at z = n)."""
        with np.errstate(divide="ignore"):
            ratio = np.log((self.n - self.counts) / (self.counts + 1))
        return np.asarray(ratio + self._log_odds)

    @cached_property
    def log_down(self) -> Array:
        """log Pr[Z = z - 1] / Pr[Z = z] at every count z (minus infinity at z = 0)."""
        with np.errstate(divide="ignore"):
            ratio = np.log(self.counts / (self.n - self.counts + 1))
        return np.asarray(ratio - self._log_odds)

    @property
    def _log_odds(self) -> float:
        return math.log(self.probability) - math.log1p(-self.probability)
