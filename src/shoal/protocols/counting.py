"""Counts with added messages, whose number has a known law: estimates with exact limits."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import lru_cache

import numpy as np
import numpy.typing as npt
import scipy

from shoal import checks
from shoal.values import Array, Estimate

Binomials = tuple[tuple[int, float], ...]  # (trials, share) of independent binomial numbers
_REACH = 40.0  # standard deviations, and as many counts: what is beyond has no chance to speak of


@dataclass(frozen=True, eq=False)
class NoisyCounts(Estimate):
    """Shares from ``cells`` = true counts + noise, a sum of binomial numbers for each answer."""

    cells: npt.NDArray[np.int64] = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    noise: Binomials = ()

    def interval(self, level: float = 0.95, *, simultaneous: bool = False) -> tuple[Array, Array]:
        """Confidence limits from quantiles of the noise, at any level; together by Bonferroni."""
        checks.open_probability(level=level)
        each = (1 - level) / (self.cells.size if simultaneous else 1)
        fewest, most = quantiles(self.noise, each / 2)
        return (self.cells - most) / self.n, (self.cells - fewest) / self.n


def noisy_counts(cells: npt.NDArray[np.int64], noise: Binomials, *, n: int) -> NoisyCounts:
    """The shares of n people's answers, less the noise expected."""
    mean = math.fsum(trials * share for trials, share in noise)
    variance = math.fsum(trials * share * (1 - share) for trials, share in noise)
    deviation = math.sqrt(variance) / n
    return NoisyCounts(
        (cells - mean) / n,
        np.full(cells.shape, deviation),
        n,
        step=1 / n,
        granularity=1 / n / (1 + variance / 3),
        empty_error=deviation,
        cells=cells,
        noise=noise,
    )


@lru_cache(maxsize=256)
def quantiles(noise: Binomials, tail: float) -> tuple[int, int]:
    """The narrowest limits that the noise passes with at most this chance on either side.

    >>> quantiles(((10, 0.5),), 0.05)
    (2, 8)
    """
    first, pmf = 0, np.ones(1)
    for trials, share in noise:
        deviation = math.sqrt(trials * share * (1 - share))
        low = max(0, math.floor(trials * share - _REACH * (deviation + 1)))
        high = min(trials, math.ceil(trials * share + _REACH * (deviation + 1)))
        part = scipy.stats.binom.pmf(np.arange(low, high + 1), trials, share)
        first, pmf = first + low, np.convolve(pmf, part)
    below = np.cumsum(pmf)  # Pr[noise <= z]
    above = np.cumsum(pmf[::-1])[::-1]  # Pr[noise >= z]
    fewest = int(np.count_nonzero(below <= tail))
    most = int(np.count_nonzero(above > tail)) - 1
    return first + fewest, first + most
