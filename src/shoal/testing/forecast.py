"""Power with public coins before the coins are drawn, for choosing how many bins to make.

A random partition of k answers into L equal bins keeps of a departure its projection on L − 1 of
k − 1 dimensions. With Π_g these projections, S = Σ_g Π_g and ρ dummies, uniform answers give

    one message:       MΣ ~ (k/(L² G)) S,         mean of T ~ (λ k/(L G))² d'S²d,
    several messages:  MΣ ~ (k/L²) (S² + ρ S),    mean of T ~ (k/L)² d'S²d.

The projections of independent random partitions are nearly free, which gives the moments of S from
the free cumulants of a projection (Voiculescu; Nica and Speicher, "Lectures on the Combinatorics of
Free Probability", 2006). How much of d survives is chance: d'S²d is taken for a gamma variable with
relative variance 2 tr(S⁴)/tr(S²)².

Answers that are not uniform make some bins vary more, and the statistic counts these less: in place
of ‖d‖² stands Σ_x w_x d_x², the weight being that of the bin of x with the mean of all other bins.
Its least value over all departures is taken (:mod:`shoal.testing.alternatives`). If one answer can
lose all that another gains, nothing is seen where they share all their bins.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import numpy as np
from scipy import stats

from shoal.testing import alternatives, power
from shoal.testing.gram import Departure, Spread
from shoal.values import Array

_NODES = (np.arange(24) + 0.5) / 24
_ALONE = 2048  # of the most frequent answers, and as many groups of the others


@dataclass(frozen=True, eq=False)
class Target:
    """What so many people shall notice: all departures at this distance from a reference.

    ``chances`` are those of its answers; of very many, rare ones are taken together in groups of
    similar ones, with their mean chance and their number in ``sizes``.
    """

    chances: Array
    sizes: Array
    distance: float
    people: float
    level: float

    @classmethod
    def of(cls, reference: Array, distance: float, *, people: float, level: float) -> Self:
        """In order, which makes what follows quick."""
        ordered = np.sort(reference)
        alone = max(0, ordered.size - _ALONE)
        groups = np.linspace(0, alone, _ALONE, endpoint=False).astype(np.int64)
        starts = np.unique(np.append(groups, np.arange(alone, ordered.size)))
        sizes = np.diff(np.append(starts, ordered.size)).astype(np.float64)
        chances = np.add.reduceat(ordered, starts) / sizes
        return cls(chances, sizes, distance, people, level)

    def square(self, variances: Array) -> float:
        """The least Σ_x w_x d_x², with the weights of these variances beside their mean."""
        relative = variances / np.average(variances, weights=self.sizes)
        weights, mass = relative ** (-2 / 3) / self.sizes, self.chances * self.sizes
        hardest = alternatives.split(mass, self.distance, weights=weights)
        return float(weights @ (hardest - mass) ** 2)

    @property
    def exchange(self) -> bool:
        """Whether one answer can lose all that another gains."""
        return bool(self.chances[-1] >= self.distance)


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

    def one_message(self, truth: float, target: Target) -> float:
        """Predicted power of randomized response whose true symbol is likelier by λ = truth."""
        first, second, _, _ = self.moments
        noise = self.k / (self.symbols**2 * self.partitions)
        noises = (noise * first, noise**2 * second)
        seen = (truth * self.k / (self.symbols * self.partitions)) ** 2
        chances = (1 - truth) / self.symbols + truth * self._bins(target)
        return self._averaged(noises, seen, chances * (1 - chances), target)

    def several_messages(self, dummies: float, target: Target) -> float:
        """Predicted power of histograms with so many dummies per person and partition."""
        first, second, third, fourth = self.moments
        noise = self.k / self.symbols**2
        square = fourth + 2 * dummies * third + dummies**2 * second
        noises = (noise * (second + dummies * first), noise**2 * square)
        bins = self._bins(target)
        variances = bins * (1 - bins) + dummies / self.symbols
        return self._averaged(noises, (self.k / self.symbols) ** 2, variances, target)

    def _averaged(
        self, noises: tuple[float, float], seen: float, variances: Array, target: Target
    ) -> float:
        """From tr(MΣ) and tr((MΣ)²) per dimension, and the variance of the bin of each answer."""
        _, second, _, fourth = self.moments
        spread = Spread(*((self.k - 1) * np.array(noises)))
        variance = 2 * fourth / ((self.k - 1) * second**2)
        factors = stats.gamma.ppf(_NODES, 1 / variance, scale=variance)
        signals = seen * second * target.square(variances) * factors
        powers = power.predicted(
            spread,
            Departure(signals, signals * spread.scale, spread),
            people=target.people,
            level=target.level,
        )
        return min(float(powers.mean()), 1 - self._together * (1 - target.level) * target.exchange)

    def _bins(self, target: Target) -> Array:
        """How likely the bin of each answer is, on average over the others in it."""
        others = (self.k / self.symbols - 1) / (self.k - 1)
        return target.chances + others * (1 - target.chances)

    @property
    def _together(self) -> float:
        """The chance that two answers share all their bins."""
        return ((self.k / self.symbols - 1) / (self.k - 1)) ** self.partitions
