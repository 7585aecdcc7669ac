"""Reports that are passed on: what everybody's device does to a datum, and the privacy profile."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import ClassVar

from shoal import checks
from shoal.accounting import integral
from shoal.accounting.approximate import clones_distance, optimal_distance
from shoal.accounting.atoms import PairLaw
from shoal.accounting.devices import Devices, law_of
from shoal.accounting.law import BlanketLaw
from shoal.accounting.profile import Curve, PrivacyProfile
from shoal.accounting.search import Side, crossing, gaussian_guess
from shoal.errors import InvalidArgumentError, UnreachableTargetError

AGREEMENT = 1e-7
_QUICK = 3e-3
_FAR = 32.0
_NEARLY = 0.99  # of ε0: a route that keeps δ only beyond is not worth asking
ALONE = "each report by itself"
_HALVINGS = 24
_NEAR_LOCAL = (1.0, 0.99, 0.9, 0.75)  # fractions of ε0 that are tried first


@dataclass(frozen=True, kw_only=True)
class Reports(Devices):
    """A known randomizer, or any with a local guarantee that everybody uses."""

    @cached_property
    def own(self) -> BlanketLaw:
        """The law that a pure randomizer is accounted by."""
        if self.randomizer is not None:
            return law_of(self.randomizer)
        if self.local_epsilon is None:
            raise InvalidArgumentError("local_epsilon", None, "a local_epsilon or a randomizer")
        return BlanketLaw.generic(self.local_epsilon)

    def bases(self, n: int) -> tuple[tuple[BlanketLaw, float], ...]:
        """Laws to try, and the total variation of n honest reports to ones that have it."""
        if self.local_delta == 0 or self.local_epsilon is None:
            return ((self.own, 0.0),)
        stated = {"local_epsilon": self.local_epsilon, "local_delta": self.local_delta}
        clones = BlanketLaw.clones(self.local_epsilon)
        return (self.own, optimal_distance(n=n, **stated)), (clones, clones_distance(n=n, **stated))

    @property
    def local(self) -> tuple[float, float]:
        """The (ε0, δ0) of each report by itself."""
        return self.own.local_epsilon, self.local_delta

    @property
    def scope(self) -> str:
        """Which randomizers are covered."""
        if self.randomizer is not None:
            return self.own.claim.scope
        return "one randomizer with this local guarantee, the same for everybody"

    def central(self, n: int) -> PrivacyProfile:
        """The uniform shuffle of n of these reports, exchanged for pure ones."""
        return PrivacyProfile(self.own, n)

    def require_reachable(self, n: int, epsilon: float, delta: float, *, best: str) -> float:
        """The ε of the uniform shuffle, which nothing that passes n reports on goes below."""
        limit = self.central(n).epsilon(delta)
        if epsilon < limit * (1 - AGREEMENT):
            raise UnreachableTargetError(
                f"({epsilon:g}, {delta:g})-DP",
                f"no {best} beats a uniform shuffle of the same reports, whose epsilon is "
                f"{limit:.6g}",
                "use a smaller local epsilon, more people, or a weaker target",
            )
        return limit


@dataclass(frozen=True, eq=False)
class Route:
    """One way to bound δ(ε): laws of (holder, report), and what replacing the truth by them cost.

    ``slack`` is a total variation, which adds (1 + e^ε) slack; ``failure`` is the probability that
    a bound does not hold, and adds itself.
    """

    theorem: str
    pairs: tuple[PairLaw, ...]
    n: int
    slack: float = 0.0
    failure: float = 0.0
    patient: ClassVar[bool] = True  # whether an ε close to ε0 can be asked about

    def delta(self, epsilon: float, *, tolerance: float | None = None) -> float:
        """The δ proved at this ε >= 0."""
        divergence = max(
            integral.enclose(pair, n=self.n, epsilon=epsilon, tolerance=tolerance).upper
            for pair in self.pairs
        )
        return min(1.0, divergence + self.added(epsilon))

    def added(self, epsilon: float) -> float:
        """What does not come from the laws."""
        return (1 + math.exp(epsilon)) * self.slack + self.failure

    @property
    def spread(self) -> float:
        """A scale of the privacy loss, not a bound."""
        return max(pair.spread(self.n) for pair in self.pairs)


@dataclass(frozen=True, eq=False)
class WalkProfile(Curve):
    """δ(ε) of reports that were passed on: the best of several routes, an upper bound everywhere.

    Each report by itself is (ε0, δ0)-DP, ``local``, which holds whoever sees it.
    ``central`` is a lower bound on ε: what is known of the same reports, shuffled uniformly.
    """

    routes: tuple[Route, ...]
    local: tuple[float, float]
    central: Callable[[float], float]
    local_epsilon: float = field(init=False)
    local_delta: float = field(init=False)
    theorem: str = field(init=False)
    n: int = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "local_epsilon", self.local[0])
        object.__setattr__(self, "local_delta", self.local[1])
        object.__setattr__(self, "theorem", self.routes[0].theorem)
        object.__setattr__(self, "n", self.routes[0].n)

    @property
    def smallest_delta(self) -> float:
        """The δ that no ε goes below, if nothing else is less."""
        return self.local_delta

    @property
    def spread(self) -> float:
        """A scale of the privacy loss, not a bound."""
        return min(route.spread for route in self.routes)

    def _delta(self, epsilon: float) -> float:
        if epsilon >= self.local_epsilon:
            return self.local_delta
        return min(self._alone(epsilon), *(route.delta(epsilon) for route in self.routes))

    def _alone(self, epsilon: float) -> float:
        """What a report by itself has: δ0 + (1 - δ0)(e^ε0 - e^ε)/(e^ε0 + 1) (KOV15)."""
        gap = -math.expm1(epsilon - self.local_epsilon) / (1 + math.exp(-self.local_epsilon))
        return min(1.0, (self.local_delta + (1 - self.local_delta) * gap) * (1 + 1e-12))

    def quick_delta(self, epsilon: float) -> float:
        """The same bound by the first route, for sampling, somewhat above the curve."""
        if epsilon >= self.local_epsilon:
            return self.local_delta
        return self.routes[0].delta(epsilon, tolerance=_QUICK)

    def _epsilon(self, delta: float) -> float:
        return self.answer(delta)[0]

    def answer(self, delta: float, *, near_local: bool = True) -> tuple[float, str]:
        """The smallest ε proved at this δ, and by which theorem.

        Near ε0 the bounds take ever longer to evaluate and say ever less: that ε is a little below
        what each report guarantees by itself. Without ``near_local``, where δ is not kept at 99 %
        of ε0, the answer is ε0, which always holds, and nothing more is computed.
        """
        checks.open_probability(delta=delta)
        routes = self.routes
        if not near_local and not self.local_delta and math.isfinite(self.local_epsilon):
            nearly = _NEARLY * self.local_epsilon
            routes = tuple(route for route in routes if route.delta(nearly) <= delta)
        epsilons = [(self._solved(route, delta), route.theorem) for route in routes]
        if delta >= self.local_delta:
            epsilons.append((self.local_epsilon, ALONE))
        best = min(epsilons, key=lambda each: each[0])
        if math.isinf(best[0]):
            raise UnreachableTargetError(
                f"delta={delta:g}",
                f"rounding, local_delta or failure probabilities cost more, and no report by "
                f"itself has less than {self.local_delta:g}",
                "ask for a larger delta, or use a randomizer with a smaller local_delta",
            )
        return best

    def _solved(self, route: Route, delta: float) -> float:
        """The ε at which a route keeps δ; infinite if none was found."""
        if route.added(0.0) >= delta:
            return math.inf
        target = math.log(delta)

        def log_delta(epsilon: float) -> float:
            reached = route.delta(epsilon)
            return math.log(reached) if reached > 0 else -math.inf

        if self.local_delta == 0 and self.local_epsilon <= _FAR:
            cap = self.local_epsilon if route.patient else _NEARLY * self.local_epsilon
            if not route.patient and log_delta(cap) > target:
                return math.inf
        else:
            # What is added grows with ε: neither the largest ε nor any other is sure to do. At ε0
            # itself nothing but rounding is left of the walk, and it counts as if it were more.
            largest = min(self.local_epsilon, _FAR)
            halves = (0.5**halvings for halvings in range(1, _HALVINGS))
            tried = (fraction * largest for fraction in itertools.chain(_NEAR_LOCAL, halves))
            cap = next((epsilon for epsilon in tried if log_delta(epsilon) <= target), math.inf)
            if math.isinf(cap):
                return math.inf
        guess = min(gaussian_guess(max(route.spread, 1e-12), target), cap / 2)
        return crossing(log_delta, target, cap=cap, guess=guess, side=Side.UPPER)

    def lower_epsilon(self, delta: float, rounds: int = 1) -> float:  # noqa: ARG002
        """No analysis goes below what the uniform shuffle of the same reports has."""
        checks.open_probability(delta=delta)
        return self.central(delta)
