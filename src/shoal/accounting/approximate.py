"""Randomizers that are only (eps0, delta0)-DP, by exchanging them for pure ones nearby.

If the outputs of the real randomizers and of pure ones differ by total variation T over all n
reports, then delta(epsilon) <= delta_pure(epsilon) + (e^epsilon + 1) T (FMT21, Lemma C.1). How
far the pure ones have to be is counted by FMT21, Theorem 3.8, or more sharply by
``clones_distance`` and ``optimal_distance``; proofs in docs/theory/approximate.md.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import cached_property

from shoal.accounting.profile import Curve, PrivacyProfile
from shoal.accounting.search import Side, crossing
from shoal.errors import UnreachableTargetError


def clones_distance(*, local_epsilon: float, local_delta: float, n: int) -> float:
    """Total variation to randomizers for which FMT21's clones hold: the smaller of two counts.

    Theorem 3.8 counts n (1 + e^-eps0/2) delta0. Clipping R_0 and R_1 towards their mean moves
    delta0/(e^eps0 + 1); lifting each other R_x to e^-eps0 (R_0 + R_1)/2 moves e^-eps0 delta0.
    """
    published = n * (1 + math.exp(-local_epsilon) / 2)
    sharper = (n - 1) * math.exp(-local_epsilon) + 1 / (math.exp(local_epsilon) + 1)
    return min(published, sharper) * local_delta


def optimal_distance(*, local_epsilon: float, local_delta: float, n: int) -> float:
    """Total variation to randomizers for which the optimal clones hold.

    Every other R_x is lifted to e^-eps0 max(R_0, R_1), which moves at most 2 e^-eps0 delta0.
    """
    moved = 2 * (n - 1) * math.exp(-local_epsilon) + 1 / (math.exp(local_epsilon) + 1)
    return moved * local_delta


@dataclass(frozen=True)
class Exchange:
    """A pure profile and the total variation between the real randomizers and the pure ones."""

    profile: PrivacyProfile
    distance: float

    def delta(self, epsilon: float) -> float:
        """The pure delta plus what the exchange costs."""
        return self.profile.quick_delta(epsilon) + (math.exp(epsilon) + 1) * self.distance

    @cached_property
    def best_epsilon(self) -> float:
        """About where ``delta`` is smallest: it is convex in e^eps, so beyond it only grows."""
        from scipy import optimize

        span = (0.0, self.profile.ceiling)
        least = optimize.minimize_scalar(self.delta, bounds=span, options={"maxiter": 40})
        return float(least.x)

    def epsilon(self, delta: float) -> float:
        """The smallest epsilon with ``delta(epsilon) <= delta``; infinite if there is none."""
        if self.delta(self.best_epsilon) > delta:
            return math.inf
        pure = self.profile.epsilon(delta)
        return crossing(
            lambda epsilon: math.log(self.delta(epsilon)),
            math.log(delta),
            cap=self.best_epsilon,
            guess=pure * (1 + 1e-4),
            side=Side.UPPER,
        )


@dataclass(frozen=True)
class ApproximateProfile(Curve):
    """The curve of (eps0, delta0)-DP randomizers: the best of several exchanges."""

    exchanges: tuple[Exchange, ...]
    local_epsilon: float
    local_delta: float
    n: int = field(init=False)

    def __post_init__(self) -> None:
        pure = self.exchanges[-1].profile
        theorem = f"{pure.theorem} for nearby pure randomizers (FMT21 3.8)"
        vars(self).update(n=pure.n, theorem=theorem, scope=pure.scope)

    @property
    def spread(self) -> float:
        """A scale of the privacy loss, not a bound."""
        return self.exchanges[0].profile.spread

    @cached_property
    def smallest_delta(self) -> float:
        """The delta that no epsilon goes below."""
        reached = [exchange.delta(exchange.best_epsilon) for exchange in self.exchanges]
        return min(*reached, self.local_delta)

    def _delta(self, epsilon: float) -> float:
        deltas = [each.delta(min(epsilon, each.best_epsilon)) for each in self.exchanges]
        if epsilon >= self.local_epsilon:
            deltas.append(self.local_delta)
        return min(1.0, *deltas)

    def _epsilon(self, delta: float) -> float:
        epsilon = min(exchange.epsilon(delta) for exchange in self.exchanges)
        if delta >= self.local_delta:
            epsilon = min(epsilon, self.local_epsilon)
        if math.isinf(epsilon):
            raise UnreachableTargetError(
                f"delta={delta:g}",
                f"local_delta={self.local_delta:g} over n={self.n} reports costs at least "
                f"{self.smallest_delta:.3g}",
                "use a randomizer with a smaller local_delta, or ask for a larger delta",
            )
        return epsilon

    def lower_epsilon(self, delta: float, rounds: int = 1) -> float:  # noqa: ARG002
        """An epsilon that no analysis can go below: pure randomizers are covered by the claim."""
        return max(exchange.profile.lower_epsilon(delta) for exchange in self.exchanges)
