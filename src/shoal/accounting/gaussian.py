"""The Gaussian mechanism, exactly, and Gaussians cut into cells without losing a bound.

N(0, 1) against N(mu, 1) has the hockey-stick divergence

    delta(epsilon) = Phi(mu/2 - epsilon/mu) - e^epsilon Phi(-mu/2 - epsilon/mu)

(Balle, Wang, "Improving the Gaussian Mechanism for Differential Privacy: Analytical Calibration
and Optimal Denoising", ICML 2018, arXiv 1805.06530, Theorem 8). ``mu`` is how far one example can
move the mean, over the standard deviation of the noise.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import scipy

from shoal.accounting.atoms import Array
from shoal.accounting.search import Side, crossing, log

_LOG_ERROR = 1e-14  # of a logarithm of Phi, relative to 1 + its size
_SMALLEST = 1e-300
_ROOT = math.sqrt(2 * math.pi)


def delta(mu: float, epsilon: float, *, side: Side = Side.UPPER) -> float:
    """Divergence of N(0, 1) and N(mu, 1) at this epsilon, on the side named.

    >>> f"{delta(1.0, 1.0):.4f}"
    '0.1269'
    """
    if mu == 0:
        return max(0.0, -math.expm1(epsilon))
    above = float(scipy.special.log_ndtr(mu / 2 - epsilon / mu))
    below = epsilon + float(scipy.special.log_ndtr(-mu / 2 - epsilon / mu))
    difference = math.exp(above) * -math.expm1(min(below - above, 0.0))
    error = math.exp(above) * _LOG_ERROR * (1 - above - min(below, 0.0) + abs(epsilon))
    bound = difference + side.value * error
    return min(1.0, max(bound, _SMALLEST if side is Side.UPPER else 0.0))


def epsilon(mu: float, delta_: float, *, side: Side = Side.UPPER) -> float:
    """Where :func:`delta` passes ``delta_``: an epsilon at or past it, or at or before it.

    >>> round(epsilon(1.0, 1e-6), 3)
    4.887
    """
    if mu == 0:
        return 0.0

    def log_delta(at: float) -> float:
        return log(delta(mu, at, side=side))

    tail = math.sqrt(-2 * math.log(delta_))
    cap = mu * (mu / 2 + tail)  # Phi(-t) <= e^(-t^2/2), and the other term only helps
    return crossing(log_delta, log(delta_), cap=cap, guess=0.9 * cap, side=side)


@dataclass(frozen=True)
class Normal:
    """N(0, sigma^2) as :meth:`BlanketLaw.from_density` takes it: quicker than SciPy's own."""

    sigma: float

    def logpdf(self, x: npt.ArrayLike) -> Array:
        return -((np.asarray(x) / self.sigma) ** 2) / 2 - math.log(self.sigma * _ROOT)

    def cdf(self, x: npt.ArrayLike) -> Array:
        return np.asarray(scipy.special.ndtr(np.asarray(x) / self.sigma))

    def sf(self, x: npt.ArrayLike) -> Array:
        return np.asarray(scipy.special.ndtr(-np.asarray(x) / self.sigma))


@dataclass(frozen=True, eq=False)
class Cells:
    """The line cut at ``edges``: what N(0, 1) and shifted Gaussians weigh between the cuts."""

    edges: Array

    @classmethod
    def between(cls, low: float, high: float, width: float) -> Cells:
        """Equal cells of at most this width."""
        return cls(np.linspace(low, high, max(2, math.ceil((high - low) / width) + 1)))

    def masses(self, mean: float) -> Array:
        """What N(mean, 1) weighs in each cell, to full relative accuracy in both tails."""
        low, high = self.edges[:-1] - mean, self.edges[1:] - mean
        right = low + high > 0
        upper, lower = np.where(right, -low, high), np.where(right, -high, low)
        return np.asarray(scipy.special.ndtr(upper) - scipy.special.ndtr(lower), dtype=float)

    def tails(self, mean: float) -> tuple[float, float]:
        """What it weighs below the first and above the last cut."""
        below, above = self.edges[0] - mean, mean - self.edges[-1]
        return float(scipy.special.ndtr(below)), float(scipy.special.ndtr(above))

    def ratios(self, mean: float) -> Array:
        """The likelihood ratio of N(mean, 1) over N(0, 1) at each cut."""
        return np.exp(mean * self.edges - mean**2 / 2)

    def raised(self, mean: float) -> Array:
        """How much of each cell's mass goes to the end where the ratio of N(mean, 1) is larger.

        The ratio is replaced by its values at both ends of the cell with its mean kept: a spread.
        Where floats cannot tell the ends apart, all of it goes there.
        """
        ends = self.ratios(mean)
        low, high = np.minimum(ends[:-1], ends[1:]), np.maximum(ends[:-1], ends[1:])
        weight = self.masses(0.0)
        excess = self.masses(mean) - low * weight
        raised = np.divide(excess, high - low, out=weight.copy(), where=high > low)
        return np.asarray(np.minimum(np.maximum(raised, 0.0), weight))
