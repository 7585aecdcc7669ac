"""Reports that are passed on: what everybody's device does to a datum, and the privacy profile.

**Holders that submit one report each**: a random one of those they hold, or a dummy.

A holder with nothing submits a report of a fixed datum, randomized like any other. Then every
holder always submits exactly one ε0-DP message, and the person in question's is holder v's with
probability at most P(v), their own law after t rounds. Given all other walks and choices, each
other message is from the blanket with its mass, so that

    δ(ε) <= F(P) = E[(Σ_v P(v) Z_v)_+],    Z_v = ρ0_i - e^ε ρ1_i with probability m_i, else 0,

with no condition on anybody else's walk (proof in docs/theory/network.md). F is symmetric and
convex, so it grows when P is replaced by a vector that majorizes it: weights are moved to the ends
of bins, and several people are covered by the least concave function above their sums of the j
largest probabilities. Submitting one report is also post-processing of submitting all, so the
better of the two bounds holds. The price is in what is delivered: after many rounds a
holder has a report to submit with probability 1 - (1 - π_v)^n, and as large a fraction of reports
arrives, 63 % on a regular graph, else less.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from shoal import checks
from shoal.accounting import integral
from shoal.accounting.approximate import clones_distance, optimal_distance
from shoal.accounting.atoms import PairLaw
from shoal.accounting.devices import Devices, law_of
from shoal.accounting.law import BlanketLaw
from shoal.accounting.profile import Curve, PrivacyProfile, hull
from shoal.accounting.search import Side, crossing, gaussian_guess
from shoal.errors import InvalidArgumentError, UnreachableTargetError
from shoal.network.graph import Nodes
from shoal.network.locations import Spread
from shoal.network.walk import UNIT, growth
from shoal.values import Array

Complex = npt.NDArray[np.complex128]

AGREEMENT = 1e-7
_QUICK = 3e-3
_FAR = 32.0
_NEARLY = 0.99  # of ε0: a route that keeps δ only beyond is not worth evaluating
ALONE = "each report by itself"
SINGLE = "blanket of one report a holder"
DUMMIES = "a holder with no report submits one of a fixed datum, randomized like any other"
_HALVINGS = 24
_NEAR_LOCAL = (1.0, 0.99, 0.9, 0.75)  # fractions of ε0 that are tried first

_BINS = 48
_SMALLEST = 1e-6  # weights below this fraction of the largest are in one bin
_SMOOTHING = 0.015
_STEP = 0.25
_REACH = 8.3  # e^(-8.3²/2) is 1e-15
_CHUNK = 1 << 18
_MOST_WORK = 2e7  # terms of the sum: about a second
_ROUNDINGS = 64
_THETAS = 40


@dataclass(frozen=True, kw_only=True)
class Reports(Devices):
    """What everybody passes on: a known randomizer, or any with a local guarantee.

    Args:
        randomizer: What every device runs. Either this or local_epsilon.
        local_epsilon: ε₀ from 0 to 300 of any randomizer that everybody uses.
        deletion_epsilon: None: walks of such reports are not covered.
        local_delta: δ₀ in [0, 1) beside local_epsilon.

    References:
        :doc:`/theory/network`; :doc:`/theory/approximate` for a local_delta.

    Example:
        >>> Reports(local_epsilon=1.0).local
        (1.0, 0.0)
    """

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
    patient: ClassVar[bool] = True  # whether an ε close to ε0 can be evaluated

    def delta(self, epsilon: float, *, tolerance: float | None = None) -> float:
        """The δ proved at this ε >= 0."""
        divergence = max(self.divergence(pair, epsilon, tolerance) for pair in self.pairs)
        return min(1.0, divergence + self.added(epsilon))

    def divergence(self, pair: PairLaw, epsilon: float, tolerance: float | None) -> float:
        """What comes from one of the laws."""
        return integral.enclose(pair, n=self.n, epsilon=epsilon, tolerance=tolerance).upper

    def added(self, epsilon: float) -> float:
        """What does not come from the laws."""
        return (1 + math.exp(epsilon)) * self.slack + self.failure

    @property
    def spread(self) -> float:
        """A scale of the privacy loss, not a bound."""
        return max(pair.spread(self.n) for pair in self.pairs)


class Weights:
    """A vector whose j largest entries have at least these sums, j = 0, 1, ..., n.

    Its ``values`` are in [0, 1] and their sum is 1; ``counts`` says how often each occurs. They are
    few: in each bin weights are moved apart to its ends, one of them in between.
    """

    values: Array
    counts: Array

    def __init__(self, sums: Array) -> None:
        corners, heights = hull(np.arange(sums.size, dtype=np.float64), -sums)
        counts = np.diff(corners)
        values = np.diff(-heights) / counts
        top = float(values.max())
        edges = np.append(0.0, np.geomspace(_SMALLEST * top, top, _BINS)).tolist()
        edges[-1] = top
        apart: list[tuple[float, int]] = []
        for low, high in itertools.pairwise(edges):
            inside = (values > low) & (values <= high)
            number = round(float(counts[inside].sum()))
            if number:
                total = float(counts[inside] @ values[inside])
                upper = min(math.floor((total - number * low) / (high - low)), number - 1)
                between = total - upper * high - (number - upper - 1) * low
                apart += [(high, upper), (between, 1), (low, number - upper - 1)]
        used = [(weight, times) for weight, times in apart if weight > 0 and times > 0]
        self.values, self.counts = np.array(used, dtype=np.float64).T.copy()

    @property
    def squares(self) -> float:
        """Σ_v P(v)²."""
        return float(self.counts @ np.square(self.values))


@dataclass(frozen=True, eq=False, kw_only=True)
class SingleRoute(Route):
    """F(P), by the integral of accounting.integral with a transform that is a product.

    For any θ > 0, h > 0 and η > 0, with φ the transform of Z and M(s) = Π_v φ(P(v) s),

        F <= (h/2π) Σ_k M(s_k) e^(η² s_k²/2)/s_k²,     s_k = θ + i k h:

    a normal N, added to the sum as η N, can only add, and so do the aliases of the trapezoid rule
    (docs/theory/integral.md). Beyond the last node |M(s)| <= M(θ), and rounding is added.
    """

    weights: Weights
    patient: ClassVar[bool] = False  # nearer to ε0 the sum takes ever longer, and says ever less

    def divergence(self, pair: PairLaw, epsilon: float, tolerance: float | None) -> float:  # noqa: ARG002
        return positive_part(pair, self.weights, epsilon)

    @property
    def spread(self) -> float:
        """A scale of the privacy loss, not a bound."""
        squares = max(float(pair.mass @ np.square(pair.values(0.0))) for pair in self.pairs)
        return math.sqrt(squares * self.weights.squares)


def single_route(
    spread: Spread, users: Nodes, law: BlanketLaw, *, slack: float = 0.0
) -> SingleRoute:
    """The route for all these people at once; ``slack`` comes on top of the spread's rounding."""
    weights = Weights(spread.largest_sums(users))
    slack += spread.rounding_of(users)
    return SingleRoute(SINGLE, law.pairs, spread.n, slack, spread.failure, weights=weights)


def positive_part(pair: PairLaw, weights: Weights, epsilon: float) -> float:
    """An upper bound on E[(Σ_v P(v) Z_v)_+], and what the randomizer itself loses."""
    values, sizes = pair.values(epsilon), pair.sizes(epsilon)
    lost = pair.lost_divergence(epsilon).upper
    if values.max(initial=-math.inf) <= 0:
        # 0, unless rounding hides a positive value.
        return lost + _ROUNDINGS * UNIT * float(pair.mass @ sizes)
    theta = _tilt(values, pair.mass, weights)
    start = np.array([theta], dtype=np.complex128)
    peak = float(_log_transform(values, pair.mass, weights, start)[0].real)
    deviation = math.sqrt(float(pair.mass @ np.square(values)) * weights.squares)
    eta = _SMOOTHING * min(deviation, 2 / theta)
    step = _STEP / math.hypot(deviation, math.sqrt(2) / theta)
    nodes = math.ceil(_REACH / eta / step)
    if nodes * weights.values.size * values.size > _MOST_WORK:
        # So long a sum is for laws of few telling values: (S)_+ <= e^(θ S - 1)/θ says as much.
        roundings = _ROUNDINGS * (1 + abs(peak)) * weights.values.size
        return math.exp(peak - 1) / theta * (1 + growth(roundings)) + lost
    total = 0.0
    width = max(1, _CHUNK // (weights.values.size * values.size))
    for first in range(0, nodes + 1, width):
        places = np.arange(first, min(first + width, nodes + 1))
        s: Complex = np.asarray(theta + 1j * step * places, dtype=np.complex128)
        exponent = _log_transform(values, pair.mass, weights, s) - peak
        terms = np.exp(exponent + eta**2 * (np.square(s) - theta**2) / 2) / np.square(s)
        terms[0] /= 2 if first == 0 else 1
        total += float(terms.real.sum())
    last = nodes * step
    tail = math.exp(-((eta * last) ** 2) / 2) / (math.pi * last)
    # Each factor of M is 1 + p and errs by a few ulps of p, |p| <= |s| P m |z| e^(θ P z); the
    # product errs by their sum, relative to M(θ). The terms' sizes 1/|s|² sum to this at most.
    largest = math.exp(theta * float(values.max()) * float(weights.values.max()))
    drift = abs(theta + 1j * last) * float(pair.mass @ sizes) * largest
    noise = _ROUNDINGS * UNIT * (drift + abs(peak) + weights.values.size + nodes)
    around = 1 / (2 * theta) + step / (math.pi * theta**2)
    bound = step / math.pi * total + tail + around * noise
    return math.exp(peak + (eta * theta) ** 2 / 2) * bound * (1 + noise) + lost


def _log_transform(values: Array, mass: Array, weights: Weights, s: Complex) -> Complex:
    """log M(s) for each s: logarithms of 1 + p, of which the small parts are kept."""
    exponents = np.expm1(s[:, None, None] * (weights.values[:, None] * values))
    p = exponents @ mass
    # Never log 0: where 1 + p is as good as 0, so is the product.
    sizes = np.log1p(np.maximum(2 * p.real + np.square(np.abs(p)), -1 + UNIT)) / 2
    return np.asarray((sizes + 1j * np.arctan2(p.imag, 1 + p.real)) @ weights.counts)


def _tilt(values: Array, mass: Array, weights: Weights) -> float:
    """About the θ with the smallest E e^(θ S)/θ²; any would do."""
    scale = 1 / math.sqrt(float(mass @ np.square(values)) * weights.squares)
    steepest = 300 / (float(values.max()) * float(weights.values.max()))
    tried = np.geomspace(min(1e-2 * scale, steepest / 10), min(1e4 * scale, steepest), _THETAS)
    powers = _log_transform(values, mass, weights, tried.astype(np.complex128)).real
    return float(tried[int(np.argmin(powers - 2 * np.log(tried)))])


@dataclass(frozen=True, eq=False)
class WalkProfile(Curve):
    """The curve δ(ε) of reports that were passed on: the best of several routes, an upper bound.

    :class:`shoal.network.WalkAccountant` makes it.

    Attributes:
        routes: The bounds, of which the least counts at every ε.
        central: An ε at each δ that nothing which passes n reports on goes below: that of the
            same reports, shuffled uniformly.
        local_epsilon: ε₀ of each report by itself, whoever sees it.
        local_delta: δ₀ beside it.
        theorem: What proves the first route.
        n: The honest people counted on.

    References:
        :doc:`/theory/network`.
    """

    routes: tuple[Route, ...]
    central: Callable[[float], float]
    local_epsilon: float
    local_delta: float = 0.0
    theorem: str = field(init=False)
    n: int = field(init=False)

    def __post_init__(self) -> None:
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
            # The integral is longest there, and roughly is enough to know.
            nearly = [r.delta(_NEARLY * self.local_epsilon, tolerance=_QUICK) for r in routes]
            routes = tuple(r for r, at in zip(routes, nearly, strict=True) if at <= delta)
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
        """The ε at which a route keeps δ; infinite if there is none."""
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
