"""Power with public coins before the coins are drawn, for choosing how many bins to make.

A random partition of k answers into L equal bins keeps of a departure its projection on L − 1 of
k − 1 dimensions. With Π_g these projections, S = Σ_g Π_g and ρ dummies, uniform answers give

    one message:       MΣ ~ (k/(L² G)) S,         mean of T ~ (λ k/(L G))² d'S²d,
    several messages:  MΣ ~ (k/L²) (S² + ρ S),    mean of T ~ (k/L)² d'S²d.

The projections of independent random partitions are nearly free, which gives the moments of S from
the free cumulants of a projection (Voiculescu; Nica and Speicher, "Lectures on the Combinatorics of
Free Probability", 2006). How much of d survives is chance: d'S²d is taken for a gamma variable with
relative variance 2 tr(S⁴)/tr(S²)².
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy import stats

from shoal.testing import power
from shoal.testing.gram import Spread

_NODES = (np.arange(24) + 0.5) / 24


@dataclass(frozen=True)
class Shape:
    """k answers, in each of ``partitions`` partitions sorted into ``symbols`` bins."""

    k: int
    symbols: int
    partitions: int

    @property
    def moments(self) -> tuple[float, float, float, float]:
        """tr(S^i)/(k − 1) for i = 1, ..., 4.

        >>> [round(moment, 9) for moment in Shape(9, 9, 3).moments]
        [3.0, 9.0, 27.0, 81.0]
        """
        r, g = (self.symbols - 1) / (self.k - 1), self.partitions
        first, second = g * r, g * (r - r**2)
        third = g * (r - 3 * r**2 + 2 * r**3)
        fourth = g * (r - 6 * r**2 + 10 * r**3 - 5 * r**4)
        return (
            first,
            second + first**2,
            third + 3 * second * first + first**3,
            fourth + 4 * third * first + 2 * second**2 + 6 * second * first**2 + first**4,
        )

    def one_message(self, truth: float, *, distance: float, people: float, level: float) -> float:
        """Predicted power of randomized response whose true symbol is likelier by λ = truth."""
        first, second, _, _ = self.moments
        noise = self.k / (self.symbols**2 * self.partitions)
        spread = Spread(noise * (self.k - 1) * first, noise**2 * (self.k - 1) * second)
        seen = (truth * self.k / (self.symbols * self.partitions)) ** 2
        return self._averaged(spread, seen, distance, people, level)

    def several_messages(
        self, dummies: float, *, distance: float, people: float, level: float
    ) -> float:
        """Predicted power of histograms with so many dummies per person and partition."""
        first, second, third, fourth = self.moments
        noise = self.k / self.symbols**2
        square = fourth + 2 * dummies * third + dummies**2 * second
        spread = Spread(
            noise * (self.k - 1) * (second + dummies * first), noise**2 * (self.k - 1) * square
        )
        seen = (self.k / self.symbols) ** 2
        return self._averaged(spread, seen, distance, people, level)

    def _averaged(
        self, spread: Spread, seen: float, distance: float, people: float, level: float
    ) -> float:
        _, second, _, fourth = self.moments
        mean = seen * second * 4 * distance**2 / self.k
        variance = 2 * fourth / ((self.k - 1) * second**2)
        factors = stats.gamma.ppf(_NODES, 1 / variance, scale=variance)
        return power.predicted(spread, mean * factors, people=people, level=level)
