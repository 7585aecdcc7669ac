"""Estimates with the exact law of their error: limits that hold at any level, for any crowd."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from statistics import NormalDist

import numpy as np
import scipy

from shoal import checks
from shoal.accounting import search
from shoal.protocols.base import Whole
from shoal.values import Array, Estimate, MeanEstimate

Binomials = tuple[tuple[int, float], ...]  # (trials, probability) of independent binomial numbers
_REACH = 40.0  # standard deviations, and as many counts: what is beyond has no mass to speak of


@dataclass(frozen=True, eq=False, kw_only=True)
class NoisyCounts(Estimate):
    """Fractions from ``cells`` = true counts + noise, a sum of binomial numbers for each answer."""

    cells: Whole
    noise: Binomials

    @classmethod
    def of(cls, cells: Whole, noise: Binomials, *, n: int) -> NoisyCounts:
        """The fractions of n people's answers, less the noise expected."""
        mean = math.fsum(trials * p for trials, p in noise)
        variance = math.fsum(trials * p * (1 - p) for trials, p in noise)
        deviation = math.sqrt(variance) / n
        return cls(
            (cells - mean) / n,
            np.full(cells.shape, deviation),
            n,
            step=1 / n,
            granularity=1 / n / (1 + variance / 3),
            empty_error=deviation,
            cells=cells,
            noise=noise,
        )

    def interval(self, level: float = 0.95, *, simultaneous: bool = False) -> tuple[Array, Array]:
        """Confidence limits from quantiles of the noise, at any level; together by Bonferroni."""
        checks.open_probability(level=level)
        each = (1 - level) / (self.cells.size if simultaneous else 1)
        fewest, most = quantiles(self.noise, each / 2)
        return (self.cells - most) / self.n, (self.cells - fewest) / self.n


@lru_cache(maxsize=256)
def quantiles(noise: Binomials, tail: float) -> tuple[int, int]:
    """The narrowest limits that the noise passes with at most this probability on either side.

    >>> quantiles(((10, 0.5),), 0.05)
    (2, 8)
    """
    first, pmf = 0, np.ones(1)
    for trials, p in noise:
        mean, reach = trials * p, _REACH * (math.sqrt(trials * p * (1 - p)) + 1)
        low, high = max(0, math.floor(mean - reach)), min(trials, math.ceil(mean + reach))
        part = scipy.stats.binom.pmf(np.arange(low, high + 1), trials, p)
        first, pmf = first + low, np.convolve(pmf, part)
    below = np.cumsum(pmf)  # Pr[noise <= z]
    above = np.cumsum(pmf[::-1])[::-1]  # Pr[noise >= z]
    fewest = int(np.count_nonzero(below <= tail))
    most = int(np.count_nonzero(above > tail)) - 1
    return first + fewest, first + most


@dataclass(frozen=True)
class LaplaceMean(MeanEstimate):
    """A mean whose error is Laplace noise of this ``scale``, and a little that is nearly normal.

    ``granularity`` is half a step of the noise, which comes in whole steps.
    """

    scale: float = 0.0
    spread: float = 0.0
    granularity: float = 0.0

    @classmethod
    def noisy(
        cls, mean: float, *, n: int, unit: float, rate: float | None, people: int
    ) -> LaplaceMean:
        """Of n people, rounded to levels worth ``unit`` each; rounding counts at its worst.

        ``people`` of them together add noise of Pr[Z = z] ∝ e^(−rate |z|), in levels.
        """
        rounding = unit * math.sqrt(n / 4)
        if rate is None:
            return cls(mean, rounding, n, spread=rounding)
        parts = n / people
        noise = unit * math.sqrt(parts / 2) / math.sinh(rate / 2)
        return cls(
            mean,
            math.hypot(rounding, noise),
            n,
            scale=unit * math.sqrt(max(1.0, parts)) / rate,
            spread=rounding,
            granularity=unit / 2,
        )

    def interval(self, level: float = 0.95) -> tuple[float, float]:
        """Confidence limits of the mean: Laplace noise has more in its tails than normal noise."""
        checks.open_probability(level=level)
        normal = NormalDist().inv_cdf((1 + level) / 2) * self.standard_error
        reach = max(normal, self._quantile(1 - level) + self.granularity)
        return self.mean - reach, self.mean + reach

    def _quantile(self, outside: float) -> float:
        """Where |Laplace + normal| is beyond with this probability, from above."""
        most = 40 * (self.scale + self.spread) * (1 - math.log(outside))
        return search.least(lambda t: self._beyond(t) <= outside, 0.0, most, tolerance=1e-9)

    def _beyond(self, reach: float) -> float:
        """Pr[|L + N| > t] = Pr[|N| > t] + e^(κ²/2) (e^(−t/b) Φ(t/s−κ) − e^(t/b) Φ(−t/s−κ)), κ=s/b.

        Where the spread s is too small to matter, the Laplace tail alone; the normal one alone
        where it is too large.
        """
        if not self.scale and not self.spread:
            return 0.0
        ratio = self.spread / self.scale if self.scale else math.inf
        if ratio <= 1e-6:
            return math.exp(-reach / self.scale)
        at = reach / self.spread
        normal = math.erfc(at / math.sqrt(2))
        if ratio >= 30:
            return normal
        decay = reach / self.scale
        near = math.exp(ratio**2 / 2 - decay) * _normal(at - ratio)
        # The second product is a huge number times a tiny one; far out it is nothing.
        far = math.exp(ratio**2 / 2 + decay) * _normal(-at - ratio) if at + ratio < 36 else 0.0
        return normal + near - far


def _normal(x: float) -> float:
    return math.erfc(-x / math.sqrt(2)) / 2
