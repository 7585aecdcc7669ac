"""The privacy profile: the whole curve delta(epsilon), and what every such curve can do.

A curve is an upper bound ``delta(epsilon)`` of the divergence between the outputs on any two
neighbouring data sets, in both orders. In ``x = e^epsilon`` the true divergence is convex, so the
chords between sampled points, and the largest convex function below the samples, are upper bounds
everywhere (docs/theory/composition.md).
"""

from __future__ import annotations

import itertools
import math
from abc import abstractmethod
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache, partial
from typing import TYPE_CHECKING, overload

import numpy as np
import scipy

from shoal import checks
from shoal.accounting import integral
from shoal.accounting.atoms import Array, PairLaw
from shoal.accounting.law import BlanketLaw
from shoal.accounting.search import Side, crossing, log
from shoal.errors import OutOfRegimeError, UnreachableTargetError
from shoal.explain.text import up
from shoal.explain.views import CurveViews

if TYPE_CHECKING:
    from dp_accounting.pld.privacy_loss_distribution import PrivacyLossDistribution

    from shoal.accounting.compose import ComposedProfile

Numbers = Sequence[float] | Array

# Samples between epsilon = 0, the epsilons of these deltas, and the end of the curve.
_LEVELS = (1e-9, 1e-60)
_COUNTS = (320, 160, 100)
_RARE = 1e-4  # of delta: outputs that may as well be lost
_RUNGS = 8.0  # delta is rounded down to a power of it, to say which outputs are rare
_NEAR = (0.8, 1.0, 1.25)  # enclosures of delta differ by less
_LEAST = 1e-290
_QUICK_TOLERANCE = 1e-3
_QUICK_UNBOUNDED = 3e-2  # losses without an end take far longer, and so cost 0.1 % of epsilon
LARGEST_BINARY_SUM = 2_000
_BINARY_FRACTIONS = (0.0, 0.1, 0.25, 0.5, 0.75, 0.9, 1.0)
_ROUNDING = 1e-10
_CELL_ERROR = 1e-11  # relative error of a binomial probability
_SMALL_CROWD = 300  # reports that may have come from anybody


class Curve(CurveViews):
    """An upper bound delta(epsilon), proved by a theorem for the randomizers in its scope.

    ``local_epsilon`` (with ``local_delta``) is what one report reveals by itself, without trusting
    the shuffler; ``spread`` the standard deviation of the privacy loss to leading order, a scale
    and not a bound; ``smallest_delta`` the delta that no epsilon goes below.
    """

    local_epsilon: float
    local_delta: float = 0.0
    theorem: str
    scope: str = ""  # a walk's is its guarantee's

    @property
    @abstractmethod
    def spread(self) -> float: ...

    @property
    def smallest_delta(self) -> float:
        return 0.0

    @property
    def ceiling(self) -> float:
        """delta is 0 from here on (infinite if it never is)."""
        return self.local_epsilon if self.local_delta == 0 else math.inf

    @overload
    def delta(self, epsilon: float) -> float: ...
    @overload
    def delta(self, epsilon: Numbers) -> Array: ...
    def delta(self, epsilon: float | Numbers) -> float | Array:
        """The smallest delta proved at this epsilon (a negative one is allowed), or at each."""
        if isinstance(epsilon, Sequence | np.ndarray):
            return each(self.delta, epsilon)
        if epsilon < 0:
            # D_x(P, Q) = 1 - x + x D_{1/x}(Q, P), and both orders are covered.
            return min(1.0, -math.expm1(epsilon) + math.exp(epsilon) * self.delta(-epsilon))
        checks.non_negative(epsilon=epsilon)
        return self._delta(epsilon)

    @overload
    def epsilon(self, delta: float) -> float: ...
    @overload
    def epsilon(self, delta: Numbers) -> Array: ...
    def epsilon(self, delta: float | Numbers) -> float | Array:
        """The smallest epsilon proved at this delta, or at each."""
        if isinstance(delta, Sequence | np.ndarray):
            return each(self.epsilon, delta)
        checks.open_probability(delta=delta)
        return self._epsilon(delta)

    @abstractmethod
    def _delta(self, epsilon: float) -> float:
        """The smallest delta proved at this epsilon >= 0."""

    @abstractmethod
    def _epsilon(self, delta: float) -> float:
        """The smallest epsilon proved at this delta."""

    @abstractmethod
    def lower_epsilon(self, delta: float, rounds: int = 1) -> float:
        """An epsilon that no analysis of so many adaptive rounds can go below."""

    def _facts(self) -> tuple[tuple[str, str], ...]:
        local = "" if math.isinf(self.local_epsilon) else f"ε0 = {up(self.local_epsilon)}"
        alone = (("no trust needed", local),) if local else ()
        scope = (("for", self.scope),) if self.scope else ()
        return (("theorem", self.theorem), *scope, *alone)

    def quick_delta(self, epsilon: float) -> float:
        """An upper bound like ``delta``, for sampling: perhaps less tight, never unsound."""
        return self.delta(epsilon)

    def quick_deltas(self, epsilons: Array) -> Array:
        """Those of many epsilons."""
        return each(self.quick_delta, epsilons)

    @overload
    def renyi(self, order: float) -> float: ...
    @overload
    def renyi(self, order: Numbers) -> Array: ...
    def renyi(self, order: float | Numbers) -> float | Array:
        """Upper bound on the Rényi divergence of this real order > 1, or of each."""
        if isinstance(order, Sequence | np.ndarray):
            return each(self.renyi, order)
        return self._renyi(order)

    def _renyi(self, order: float) -> float:
        """Upper bound on the Rényi divergence of this real order > 1."""
        from shoal.accounting import renyi

        return min(renyi.from_samples(pure_samples(self), order), self.ceiling)

    def pld(self, discretization: float | None = None) -> PrivacyLossDistribution:
        """A pessimistic ``dp_accounting`` privacy loss distribution of this curve.

        Two of them compose on one grid only. By default it is ``dp_accounting``'s own, 1e-4, or a
        finer one for losses of less than 0.001, where that would be coarse.
        """
        from shoal.accounting import loss

        return loss.distribution(self, discretization=discretization or loss.common_grid(self))

    def __mul__(self, rounds: int) -> ComposedProfile:
        """This many adaptive rounds."""
        from shoal.accounting.compose import ComposedProfile

        return ComposedProfile.of([(self, checks.count(rounds=rounds))])

    __rmul__ = __mul__

    def __add__(self, other: Curve) -> ComposedProfile:
        """One round of each, adaptively."""
        return (self * 1) + (other * 1)


def each(function: Callable[[float], float], values: Numbers) -> Array:
    """The function of each number in an array."""
    array = np.asarray(values, dtype=float)
    return np.array([function(value) for value in array.ravel().tolist()]).reshape(array.shape)


@dataclass(frozen=True, eq=False)
class Samples:
    """Points (epsilon >= 0, upper bound of delta), the first at 0."""

    epsilons: Array
    deltas: Array


@lru_cache(maxsize=32)
def pure_samples(curve: Curve) -> Samples:
    """Samples up to where delta is 0; a curve that never gets there has no Rényi divergence.

    They are densest where delta is largest, and some go all the way to the end.
    """
    end = curve.ceiling
    if math.isinf(end):
        stated = {"local_epsilon": curve.local_epsilon, "local_delta": curve.local_delta}
        condition = "a pure local guarantee (local delta 0)"
        raise OutOfRegimeError("Rényi divergence", condition, stated, "method 'pld'")
    marks = [0.0, *(min(end, curve.epsilon(level)) for level in _LEVELS), end]
    pieces = [
        np.linspace(low, high, count + 1)[:-1]
        for low, high, count in zip(marks, marks[1:], _COUNTS, strict=False)
        if high > low
    ]
    epsilons = np.unique(np.append(np.concatenate([*pieces, np.empty(0)]), end))
    return Samples(epsilons, curve.quick_deltas(epsilons))


def interpolated(samples: Samples, epsilons: Array) -> Array:
    """Chords in x = e^epsilon between samples: an upper bound of a convex curve."""
    base = samples.epsilons
    index = np.clip(np.searchsorted(base, epsilons, side="right") - 1, 0, base.size - 2)
    width = np.expm1(base[index + 1] - base[index])
    part = np.clip(np.expm1(epsilons - base[index]) / np.where(width > 0, width, 1.0), 0.0, 1.0)
    return samples.deltas[index] * (1 - part) + samples.deltas[index + 1] * part


def hull(x: Array, y: Array) -> tuple[Array, Array]:
    """The corners of the largest convex function below the points (x ascending)."""
    corners: list[int] = []
    for i in range(x.size):
        while len(corners) > 1:
            a, b = corners[-2], corners[-1]
            if (y[b] - y[a]) * (x[i] - x[a]) < (y[i] - y[a]) * (x[b] - x[a]):
                break
            corners.pop()
        corners.append(i)
    return x[corners], y[corners]


def convex_minorant(x: Array, y: Array) -> Array:
    """The largest convex function below the points, at the points (x ascending)."""
    return np.interp(x, *hull(x, y))


def _rung(delta: float) -> float:
    """The largest power at or below delta."""
    return _RUNGS ** math.floor(math.log(max(delta, _LEAST), _RUNGS))


@lru_cache(maxsize=256)
def _trimmed(law: BlanketLaw, delta: float) -> BlanketLaw:
    pairs = [pair.without_rare(_RARE * delta) for pair in law.pairs]
    return BlanketLaw(pairs, claim=law.claim)


@dataclass(frozen=True)
class PrivacyProfile(Curve):
    """The curve δ(ε) of n shuffled reports under a blanket law, an upper bound everywhere.

    For the replacement of one person's datum, both orders covered. :func:`shoal.profile` makes
    one. Profiles compose: ``profile * 10`` is ten rounds, ``first + second`` two collections.

    Args:
        law: The blanket law of what devices run.
        n: Honest reports, at least 1.

    Raises:
        InvalidArgumentError: ``n`` is no whole number >= 1.

    References:
        :doc:`/theory/blanket`; :doc:`/theory/integral` for how it is evaluated.

    Example:
        >>> profile = PrivacyProfile(BlanketLaw.generic(4.0), n=100_000)
        >>> round(profile.epsilon(1e-6), 4)
        0.1182
    """

    law: BlanketLaw
    n: int

    def __post_init__(self) -> None:
        claim = self.law.claim
        vars(self).update(n=checks.count(n=self.n), local_epsilon=self.law.local_epsilon)
        vars(self).update(theorem=claim.theorem, scope=claim.scope)

    def _delta(self, epsilon: float, tolerance: float | None = None) -> float:
        if epsilon >= self.local_epsilon:
            return 0.0
        enclose = partial(integral.enclose, n=self.n, epsilon=epsilon, tolerance=tolerance)
        if math.isfinite(self.local_epsilon):
            return max(enclose(pair).upper for pair in self.law.pairs)
        best = 1.0
        if self.law.claim.gaussian is not None:
            from shoal.accounting import gaussian

            # What is shuffled has what each report has by itself: a function of all of them.
            best = gaussian.delta(self.law.claim.gaussian, epsilon)
        # Rare outputs are lost, as for the delta in question when epsilon is solved for: each
        # answer says which these are. One next to the edge of a rung belongs to both rungs.
        tried = set[BlanketLaw]()
        while laws := {_trimmed(self.law, _rung(best * near)) for near in _NEAR} - tried:
            best = min(best, *(max(enclose(pair).upper for pair in law.pairs) for law in laws))
            tried |= laws
        return best

    def quick_delta(self, epsilon: float) -> float:
        """The same bound, at most 1e-3 relative above the curve (3e-2 without a local epsilon)."""
        is_bounded = math.isfinite(self.local_epsilon)
        return self._delta(epsilon, _QUICK_TOLERANCE if is_bounded else _QUICK_UNBOUNDED)

    def _epsilon(self, delta: float) -> float:
        """To 1e-7 relative."""
        alone = math.inf
        if self.law.claim.gaussian is not None:
            from shoal.accounting import gaussian

            alone = gaussian.epsilon(self.law.claim.gaussian, delta)
        bounded = math.isfinite(self.local_epsilon)
        if not bounded and self.smallest_delta >= delta:
            raise UnreachableTargetError(
                f"delta={delta:g}",
                f"outputs possible under one input only have probability {self.smallest_delta:g}",
                "ask for a larger delta, or give every output some probability under every input",
            )
        pairs: Sequence[PairLaw] = (self if bounded else self.within(delta)).law.pairs
        answer, cap = 0.0, min(float(self.local_epsilon), alone)
        # The pair that is worst at one answer is usually worst at the next: solve it first.
        while pairs and answer < cap:
            deltas = [integral.enclose(pair, n=self.n, epsilon=answer).upper for pair in pairs]
            worst = max(range(len(pairs)), key=deltas.__getitem__)
            if deltas[worst] <= delta:
                break
            at_zero = math.log(deltas[worst]) if answer == 0 else None
            solved = integral.epsilon(
                pairs[worst], self.n, delta, cap=cap, side=Side.UPPER, at_zero=at_zero
            )
            answer = max(answer, solved)
            pairs = [pairs[i] for i, at in enumerate(deltas) if at > delta and i != worst]
        return answer

    def within(self, delta: float) -> PrivacyProfile:
        """The same curve but for outputs that have a ten-thousandth of delta at most: lost ones.

        An upper bound still. Where ratios are unbounded, it is far quicker to evaluate.
        """
        return replace(self, law=_trimmed(self.law, _rung(delta)))

    def lower_delta(self, epsilon: float) -> float:
        """A delta that some data set really has: no analysis of the same claim can beat it."""
        checks.non_negative(epsilon=epsilon)
        law, n = self.law, self.n
        if epsilon >= law.local_epsilon:
            return 0.0
        deltas = [integral.enclose(pair, n=n, epsilon=epsilon).lower for pair in self._telling]
        if law.claim.binary and n <= LARGEST_BINARY_SUM:
            deltas.append(binary_response_delta(law.local_epsilon, n=n, epsilon=epsilon))
        return max(deltas, default=0.0)

    def lower_epsilon(self, delta: float, rounds: int = 1) -> float:
        """An epsilon that no analysis of the same claim can go below."""
        checks.open_probability(delta=delta)
        n, local = self.n, self.law.local_epsilon
        epsilons = [
            integral.epsilon(pair, n, delta, cap=pair.local_epsilon, side=Side.LOWER)
            for pair in self._telling
        ]
        once = max(epsilons, default=0.0)
        if self.law.claim.binary and n <= LARGEST_BINARY_SUM:

            def log_delta(epsilon: float) -> float:
                return log(binary_response_delta(local, n=n, epsilon=epsilon))

            aim = log(delta)
            once = max(once, crossing(log_delta, aim, cap=local, guess=once, side=Side.LOWER))
        if rounds == 1 or self.local_epsilon == 0:
            return once
        from shoal.accounting import repeated

        return max(once, repeated.epsilon(self.law, n=self.n, rounds=rounds, delta=delta))

    @property
    def _telling(self) -> list[PairLaw]:
        """The witnesses worth evaluating: in a large crowd only the leading order counts."""
        law, n = self.law, self.n
        likely = n * 2 / (math.exp(min(law.local_epsilon, 50.0)) + 1)
        if likely <= _SMALL_CROWD or not law.witnesses:
            return list(law.witnesses)
        most = max(pair.spread(n) for pair in law.witnesses)
        return [pair for pair in law.witnesses if pair.lost0.size or pair.spread(n) >= 0.9 * most]

    def _renyi(self, order: float) -> float:
        """Upper bound on the Rényi divergence of this real order > 1.

        Exact for the (optimal) clones while the crowd is small enough to sum over.
        """
        from shoal.accounting import renyi

        clones = self.law.claim.clone_probability
        if clones is not None and self.n * clones <= renyi.LARGEST_EXACT_CROWD:
            return renyi.clone_divergence(self.local_epsilon, clones, self.n, order)
        return super()._renyi(order)

    @property
    def smallest_delta(self) -> float:
        """Probability of outputs that are possible under one input only."""
        if self.law.claim.gaussian is not None:
            return 0.0
        return max(float(pair.lost0[pair.lost1 == 0].sum()) for pair in self.law.pairs)

    @cached_property
    def spread(self) -> float:
        """Standard deviation of the privacy loss to leading order: a scale, not a bound."""
        return max(pair.spread(self.n) for pair in self.law.pairs)


# Lower bounds: what an explicit data set already gives away
#
# If everybody else's reports follow R* the divergence between the two neighbouring data sets is
# *exactly* (1/n) E[(Z_1 + ... + Z_n)_+] with Z = (R_0 - x R_1)/R* under R*
# (docs/theory/lower-bounds.md), so the same integral, read at its lower end, bounds from below what
# any analysis of the same claim can prove. Binary randomized response is also summed exactly,
# maximised over how many of the others hold each answer.


def binary_response_delta(
    local_epsilon: float, *, n: int, epsilon: float, ones: Iterable[int] | None = None
) -> float:
    """Exact divergence of shuffled binary randomized response, maximised over the others' ones.

    The number of reported ones is all that a shuffler shows. Person 1 moves from answer 0 to 1
    while ``ones`` of the other n - 1 people hold answer 1 (a few fractions of them by default).
    """
    lie, x = 1 / (math.exp(local_epsilon) + 1), math.exp(epsilon)
    tried = {round(part * (n - 1)) for part in _BINARY_FRACTIONS} if ones is None else ones
    best = 0.0
    for m in tried:
        for first, second in itertools.permutations(binary_laws(lie, n - 1 - m, m)):
            cells = first - x * second - _CELL_ERROR * (first + x * second)
            best = max(best, float(np.maximum(cells, 0.0).sum()))
    return best * (1 - _ROUNDING)


def binary_laws(lie: float, zeros: int, ones: int) -> tuple[Array, Array]:
    """The number of ones reported by so many people, and by one more on answer 0, or on 1."""
    others = np.convolve(
        scipy.stats.binom.pmf(np.arange(zeros + 1), zeros, lie),
        scipy.stats.binom.pmf(np.arange(ones + 1), ones, 1 - lie),
    )
    return np.convolve(others, [1 - lie, lie]), np.convolve(others, [lie, 1 - lie])
