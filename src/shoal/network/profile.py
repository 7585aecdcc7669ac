"""The privacy profile of reports that were passed on."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import ClassVar

from shoal import checks
from shoal.accounting import integral
from shoal.accounting.atoms import PairLaw
from shoal.accounting.profile import Curve
from shoal.accounting.search import Side, crossing, gaussian_guess
from shoal.errors import UnreachableTargetError

_QUICK = 3e-3
_FAR = 32.0
_NEARLY = 0.99  # of ε0: a route that keeps δ only beyond is not worth asking
ALONE = "each report by itself"
_HALVINGS = 24
_SHARES_TRIED = (1.0, 0.99, 0.9, 0.75)  # of ε0


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
    scope: str
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
        """The δ that no ε goes below: that of each report by itself, if nothing else is less."""
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
        if route.added(0.0) >= delta:
            return math.inf

        def log_delta(epsilon: float) -> float:
            reached = route.delta(epsilon)
            return math.log(reached) if reached > 0 else -math.inf

        cap = self._end(log_delta, math.log(delta), patient=route.patient)
        if math.isinf(cap):
            return math.inf
        guess = min(gaussian_guess(max(route.spread, 1e-12), math.log(delta)), cap / 2)
        return crossing(log_delta, math.log(delta), cap=cap, guess=guess, side=Side.UPPER)

    def _end(
        self, log_delta: Callable[[float], float], target: float, *, patient: bool = True
    ) -> float:
        """An ε at which the route keeps the target; infinite if none was found."""
        if self.local_delta == 0 and self.local_epsilon <= _FAR:
            if not patient:
                nearly = _NEARLY * self.local_epsilon
                return nearly if log_delta(nearly) <= target else math.inf
            return self.local_epsilon
        # What is added grows with ε: neither the largest ε nor any other is sure to do.
        largest = min(self.local_epsilon, _FAR)
        # At ε0 itself nothing but rounding is left of the walk, and it counts as if it were more.
        near = (share * largest for share in _SHARES_TRIED)
        tried = itertools.chain(near, (largest / 2**halvings for halvings in range(1, _HALVINGS)))
        return next((epsilon for epsilon in tried if log_delta(epsilon) <= target), math.inf)

    def lower_epsilon(self, delta: float, rounds: int = 1) -> float:  # noqa: ARG002
        """No analysis goes below what the uniform shuffle of the same reports has."""
        checks.open_probability(delta=delta)
        return self.central(delta)
