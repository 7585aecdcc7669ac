"""What every privacy curve can do: sample itself, give Rényi bounds, compose.

A curve is an upper bound ``delta(epsilon)`` of the divergence between the outputs on any two
neighbouring data sets, in both orders. In ``x = e^epsilon`` the true divergence is convex, so the
chords between sampled points, and the largest convex function below the samples, are upper bounds
everywhere (docs/theory/composition.md).
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

from shoal import checks
from shoal.accounting.atoms import Array
from shoal.errors import OutOfRegimeError

if TYPE_CHECKING:
    from dp_accounting.pld.privacy_loss_distribution import PrivacyLossDistribution

    from shoal.accounting.compose import ComposedProfile

# Samples between epsilon = 0, the epsilons of these deltas, and the end of the curve.
_LEVELS = (1e-9, 1e-60)
_COUNTS = (320, 160, 100)


class Curve(ABC):
    """An upper bound delta(epsilon) with everything that follows from it."""

    @property
    @abstractmethod
    def local_epsilon(self) -> float:
        """What one report reveals by itself, without trusting the shuffler."""

    @property
    def local_delta(self) -> float:
        """The delta that goes with ``local_epsilon``."""
        return 0.0

    @property
    def ceiling(self) -> float:
        """delta is 0 from here on (infinite if it never is)."""
        return self.local_epsilon if self.local_delta == 0 else math.inf

    @property
    def smallest_delta(self) -> float:
        """The delta that no epsilon goes below (0 for pure randomizers)."""
        return 0.0

    @property
    @abstractmethod
    def spread(self) -> float:
        """Standard deviation of the privacy loss to leading order: a scale, not a bound."""

    @abstractmethod
    def delta(self, epsilon: float) -> float:
        """The smallest delta proved at this epsilon."""

    @abstractmethod
    def epsilon(self, delta: float) -> float:
        """The smallest epsilon proved at this delta."""

    @abstractmethod
    def lower_epsilon(self, delta: float) -> float:
        """An epsilon that no analysis of the same claim can go below."""

    def lower_rounds_epsilon(self, rounds: int, delta: float) -> float:  # noqa: ARG002
        """The same for so many adaptive rounds: they cannot reveal less than one of them."""
        return self.lower_epsilon(delta)

    def quick_delta(self, epsilon: float) -> float:
        """An upper bound like ``delta``, for sampling: perhaps less tight, never unsound."""
        return self.delta(epsilon)

    def renyi(self, order: float) -> float:
        """Upper bound on the Rényi divergence of this real order > 1."""
        from shoal.accounting import renyi

        return min(renyi.from_samples(pure_samples(self), order), self.ceiling)

    def pld(self, discretization: float | None = None) -> PrivacyLossDistribution:
        """A pessimistic ``dp_accounting`` privacy loss distribution of this curve."""
        from shoal.accounting import loss

        return loss.distribution(self, discretization=discretization)

    def __mul__(self, rounds: int) -> ComposedProfile:
        """This many adaptive rounds."""
        from shoal.accounting.compose import ComposedProfile

        return ComposedProfile.of([(self, checks.count(rounds=rounds))])

    __rmul__ = __mul__

    def __add__(self, other: Curve | ComposedProfile) -> ComposedProfile:
        """One round of each, adaptively."""
        return (self * 1) + (other * 1)


@dataclass(frozen=True)
class Samples:
    """Points (epsilon >= 0, upper bound of delta), the first at 0."""

    epsilons: Array
    deltas: Array


def pure_samples(curve: Curve) -> Samples:
    """Samples up to where delta is 0; a curve that never gets there has no Rényi divergence."""
    if math.isinf(curve.ceiling):
        given = {"local_epsilon": curve.local_epsilon, "local_delta": curve.local_delta}
        condition = "a pure local guarantee (local delta 0)"
        raise OutOfRegimeError("Rényi divergence", condition, given, "method 'pld'")
    return _samples_to(curve, curve.ceiling)


@lru_cache(maxsize=32)
def _samples_to(curve: Curve, end: float) -> Samples:
    """Points densest where delta is largest, and some all the way to the end."""
    marks = [0.0, *(min(end, curve.epsilon(level)) for level in _LEVELS), end]
    pieces = [
        np.linspace(low, high, count + 1)[:-1]
        for low, high, count in zip(marks, marks[1:], _COUNTS, strict=False)
        if high > low
    ]
    epsilons = np.unique(np.append(np.concatenate([*pieces, np.empty(0)]), end))
    return Samples(epsilons, np.array([curve.quick_delta(float(eps)) for eps in epsilons]))


def interpolated(found: Samples, epsilons: Array) -> Array:
    """Chords in x = e^epsilon between samples: an upper bound of a convex curve."""
    base = found.epsilons
    index = np.clip(np.searchsorted(base, epsilons, side="right") - 1, 0, base.size - 2)
    width = np.expm1(base[index + 1] - base[index])
    share = np.expm1(epsilons - base[index]) / np.where(width > 0, width, 1.0)
    share = np.clip(share, 0.0, 1.0)
    return found.deltas[index] * (1 - share) + found.deltas[index + 1] * share


def convex_minorant(x: Array, y: Array) -> Array:
    """The largest convex function below the points, at the points (x ascending)."""
    hull: list[int] = []
    for i in range(x.size):
        while len(hull) > 1:
            a, b = hull[-2], hull[-1]
            if (y[b] - y[a]) * (x[i] - x[a]) < (y[i] - y[a]) * (x[b] - x[a]):
                break
            hull.pop()
        hull.append(i)
    return np.interp(x, x[hull], y[hull])
