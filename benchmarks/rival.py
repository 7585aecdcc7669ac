"""The strongest simple rival: the same bound by one sum over the number of clones.

Given C = c clones, with B ~ Bin(c, 1/2), t = e^eps0/(e^eps0 + 1), x = e^eps, u = t - x (1 - t) and
v = x t - (1 - t), the hockey-stick divergence of the optimal clones is

    sum over c of Pr[C = c] max(0, u Pr[B >= a - 1] - v Pr[B >= a]),  a = floor((c+1) v/(u+v)) + 1,

C ~ Bin(n - 1, 2/(e^eps0 + 1)): two regularized incomplete beta functions per c. Only c within nine
standard deviations of the mean are summed, and the mass outside is added. Everything is vectorized,
and what does not depend on epsilon is computed once.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy import special, stats

Array = npt.NDArray[np.float64]

DEVIATIONS = 9.0
MOST_BISECTIONS = 40
ACCURACY = 1e-6


@dataclass(frozen=True)
class Rival:
    """The sum, ready to be evaluated at any epsilon."""

    local_epsilon: float
    clones: Array
    weights: Array
    outside: float

    @classmethod
    def of(cls, *, local_epsilon: float, n: int) -> Rival:
        """Binomial probabilities in the window, and the mass outside of it."""
        chance = 2 / (math.exp(local_epsilon) + 1)
        mean = (n - 1) * chance
        reach = DEVIATIONS * math.sqrt(mean * (1 - chance)) + 45
        low, high = max(0, math.floor(mean - reach)), min(n - 1, math.ceil(mean + reach))
        clones = np.arange(low, high + 1, dtype=np.float64)
        weights = np.asarray(stats.binom.pmf(clones, n - 1, chance))
        outside = stats.binom.cdf(low - 1, n - 1, chance) + stats.binom.sf(high, n - 1, chance)
        return cls(local_epsilon, clones, weights, float(outside))

    def delta(self, epsilon: float) -> float:
        """The divergence at ``epsilon``."""
        truth, x = special.expit(self.local_epsilon), math.exp(epsilon)
        u, v = truth - x * (1 - truth), x * truth - (1 - truth)
        first = np.floor((self.clones + 1) * (v / (u + v))) + 1
        gains = u * _at_least(first - 1, self.clones) - v * _at_least(first, self.clones)
        return float(self.weights @ np.maximum(gains, 0.0)) + self.outside

    def epsilon(self, delta: float) -> tuple[float, int]:
        """The upper end of a bisection, and how many steps it took."""
        low, high = 0.0, self.local_epsilon
        steps = 0
        while steps < MOST_BISECTIONS and high - low > ACCURACY * high:
            middle = (low + high) / 2
            low, high = (low, middle) if self.delta(middle) <= delta else (middle, high)
            steps += 1
        return high, steps


def _at_least(k: Array, trials: Array) -> Array:
    """Pr[Bin(trials, 1/2) >= k]."""
    inside = (k >= 1) & (k <= trials)
    safe = np.where(inside, k, 1.0)
    tail = special.betainc(safe, np.where(inside, trials - k + 1, 1.0), 0.5)
    return np.where(inside, tail, np.where(k < 1, 1.0, 0.0))
