"""Randomizers that are only (eps0, delta0)-DP, by exchanging them for pure ones nearby.

If the outputs of the real randomizers and of pure ones differ by total variation T over all n
reports, then delta(epsilon) <= delta_pure(epsilon) + (e^epsilon + 1) T (FMT21, Lemma C.1). How
far the pure ones have to be is counted by FMT21, Theorem 3.8, or more sharply by
``clones_distance`` and ``optimal_distance``; proofs in docs/theory/approximate.md.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cached_property, partial

from shoal.accounting.profile import Curve, PrivacyProfile
from shoal.accounting.search import Side, crossing
from shoal.errors import UnreachableTargetError

_TOO_MUCH = 0.75  # of delta, for the exchange: then fewer people may hide somebody better
_FEWER = 0.97  # of the people: if they hide nobody better, no fewer do
_FINE, _ROUGH = 2e-3, 0.3  # of the number of people
_STEPS = 12


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
    """A pure profile and the total variation between the real randomizers and the pure ones.

    ``alone`` is the distance of one person's. It grows by as much with every further one, so that a
    large crowd may cost more than it hides. But n reports are those of any m of these people, with
    others that are drawn independently of whose datum is in question, given what came before: what
    holds for m people holds for n (docs/theory/approximate.md).
    """

    profile: PrivacyProfile
    distance: float
    alone: float

    def delta(self, epsilon: float) -> float:
        """The pure delta plus what the exchange costs, all people counted."""
        return self.profile.quick_delta(epsilon) + self._cost(epsilon)

    def _cost(self, epsilon: float) -> float:
        return (math.exp(epsilon) + 1) * self.distance

    def among(self, people: int) -> Exchange:
        """The same for so many of the people."""
        each = (self.distance - self.alone) / max(1, self.profile.n - 1)
        distance = self.alone + (people - 1) * each
        return Exchange(replace(self.profile, n=people), distance, self.alone)

    @cached_property
    def best_epsilon(self) -> float:
        """About where ``delta`` is smallest: it is convex in e^eps, so beyond it only grows."""
        return _lowest(self.delta, self.profile.ceiling, maxiter=40)[0]

    def least_delta(self, epsilon: float) -> float:
        """The smallest delta proved at this epsilon, among as many of the people as is best."""
        at = min(epsilon, self.best_epsilon)
        here = self.delta(at)
        if self._is_best(at, here):
            return here
        end, least = self._valley
        return min(here, least if epsilon >= end else self._hidden(epsilon))

    def _is_best(self, epsilon: float, delta: float) -> bool:
        """Whether no fewer people than all have less than this delta, of all of them."""
        if self._cost(epsilon) <= _TOO_MUCH * delta:
            return True
        return self.among(math.ceil(_FEWER * self.profile.n)).delta(epsilon) >= delta

    def epsilon(self, delta: float) -> float:
        """The smallest epsilon proved at this delta; infinite if there is none."""
        here = math.inf
        if self.delta(self.best_epsilon) <= delta:
            here = crossing(
                lambda epsilon: math.log(self.delta(epsilon)),
                math.log(delta),
                cap=self.best_epsilon,
                guess=self.profile.epsilon(delta) * (1 + 1e-4),
                side=Side.UPPER,
            )
            if self._is_best(here, self.delta(here)):
                return here
        end = here
        if math.isinf(here):
            end, least = self._valley
            if least > delta:
                return here
        return crossing(
            lambda epsilon: math.log(self._hidden(epsilon)),
            math.log(delta),
            cap=end,
            guess=end * 0.9,
            side=Side.UPPER,
        )

    @cached_property
    def _valley(self) -> tuple[float, float]:
        """About where delta is smallest, among as many people as is best there, and that delta."""
        rough = partial(self._hidden, precision=_ROUGH)
        end, _ = _lowest(rough, self.profile.ceiling, maxiter=_STEPS)
        return end, self._hidden(end)

    def _hidden(self, epsilon: float, precision: float = _FINE) -> float:
        """About the smallest delta at this epsilon, over all numbers of people up to n."""

        def among(log_people: float) -> float:
            return self.among(max(1, round(math.exp(log_people)))).delta(epsilon)

        _, least = _lowest(among, math.log(self.profile.n), xatol=precision)
        return min(least, self.delta(epsilon))


def _lowest(
    function: Callable[[float], float], end: float, *, maxiter: int = 500, xatol: float = 1e-5
) -> tuple[float, float]:
    """About where a function is smallest between 0 and the end, and how small it is there."""
    from scipy import optimize

    found = optimize.minimize_scalar(
        function, bounds=(0.0, end), options={"maxiter": maxiter, "xatol": xatol}
    )
    return float(found.x), float(found.fun)


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
        return min(self.local_delta, *(each.least_delta(math.inf) for each in self.exchanges))

    def _delta(self, epsilon: float) -> float:
        deltas = [each.least_delta(epsilon) for each in self.exchanges]
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
