"""Two outputs: the divergence of shuffled reports of 0 or 1, itself and not a bound on it.

Every person's probability of 1 lies between two ends l < h. The view is the number of ones; person
1 reports 1 with probability h in P, and l in Q; the divergence is convex in each other person's
probability, so it is largest with m of the n - 1 others at h and the rest at l, for some m. With f
the probabilities of the others' number of ones Y, F(y) = Pr[Y >= y], A = h - x l and x = e^epsilon,

    D_x(m) = max_y A f(y - 1) - (x - 1) F(y),

attained just above the mode of Y tilted by e^theta = 1 + (x - 1)/A (docs/theory/two-outputs.md).
Three steps make it a certificate at a cost that does not depend on n:

* *One m.* Both terms are one contour integral along theta + it of the generating function, a
  trapezoid sum of some fifty nodes. Aliasing and truncation are below e^-50 of the saddle's value;
  rounding is bounded node by node.
* *All m.* Leaving out people whose data is known can only help the adversary, so D_x(n; m) for m
  from a to a + j is at most D_x(n - j; a): branch and bound over intervals of m.
* *Epsilon.* The worst m found so far gives a lower end; a slightly larger epsilon is proved by
  splitting every interval whose upper end is above delta.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np
import numpy.typing as npt

from shoal import checks
from shoal.accounting.atoms import Array
from shoal.accounting.law import BlanketLaw, Ends
from shoal.accounting.profile import Curve
from shoal.accounting.search import Side, crossing, gaussian_guess
from shoal.errors import InvalidArgumentError

Indices = npt.NDArray[np.intp]

THEOREM = "two outputs, exactly"
_UNIT = 2.0**-53
_ROUNDED = 1e-15  # of an exponential
_DEPTH = 50.0  # what is left out is below e^-50 of the value at the saddle
_LEAST_TILT = 2.0  # in deviations: the tail's sum needs more nodes below
_AT_ONCE = 1 << 11  # of some fifty nodes each: more would not stay in the cache
_PARTS = 4  # that an interval is split into
_FIRST = 8  # intervals to begin with
_TRIED = 4  # numbers in the worst of them whose divergence is looked at
# Relative widths of epsilon that are tried in turn, and how many evaluations each may take.
_LADDER = ((1e-5, 600), (1e-4, 2_000), (1e-3, 6_000), (1e-2, 20_000))
_FEW = 600
_ROUNDS = 40  # in which another number may turn out to be worse
_WIDTH, _QUICK_WIDTH = 1e-3, 0.025  # of delta, in logarithms
_MOST = 6_000

# ------------------------------------------------------------------------- one number of others


def enclose(ends: Ends, people: Array, at_most: Array, epsilon: Array) -> tuple[Array, Array]:
    """Logarithms of lower and upper ends of D_x, of so many people, of whom others are at ``most``.

    One for each of the arrays' numbers; P is of one more person at ``most``, Q at ``least``.
    """
    lower, upper = np.full(people.size, -math.inf), np.full(people.size, -math.inf)
    some = np.flatnonzero(epsilon < ends.local_epsilon + _doubt(ends))
    for start in range(0, some.size, _AT_ONCE):
        part = some[start : start + _AT_ONCE]
        lower[part], upper[part] = _enclosed(ends, people[part], at_most[part], epsilon[part])
    return lower, upper


def _doubt(ends: Ends) -> float:
    """The error of an epsilon, next to the local one."""
    return 8 * _UNIT * (1 + ends.local_epsilon)


@dataclass(frozen=True)
class _Kind:
    """So many people with the same probability of a 1, tilted.

    What is counted is the rarer output: ones, or by how many there are fewer ones than people. A
    ``sign`` says which, and ``rare`` and ``usual`` are the tilted probabilities.
    """

    people: Array
    sign: int
    rare: Array
    usual: Array
    exponent: Array

    @classmethod
    def of(cls, people: Array, one: float, zero: float, tilt: Array) -> _Kind:
        sign = 1 if one <= zero else -1
        rare, usual = min(one, zero), max(one, zero)
        exponent = people * np.log1p(rare * np.expm1(sign * tilt))
        if sign > 0:
            shrunk = usual * np.exp(-tilt)
            return cls(people, sign, rare / (rare + shrunk), shrunk / (rare + shrunk), exponent)
        shrunk = rare * np.exp(-tilt)
        return cls(people, sign, shrunk / (usual + shrunk), usual / (usual + shrunk), exponent)

    @property
    def mean(self) -> Array:
        return self.sign * self.people * self.rare

    @property
    def variance(self) -> Array:
        return self.people * self.rare * self.usual


def _kinds(ends: Ends, people: Array, at_most: Array, tilt: Array) -> tuple[_Kind, _Kind]:
    high = _Kind.of(at_most, ends.most, ends.rest, tilt)
    return high, _Kind.of(people - 1 - at_most, ends.least, ends.unlike, tilt)


def _enclosed(ends: Ends, people: Array, at_most: Array, epsilon: Array) -> tuple[Array, Array]:
    growth, error = np.expm1(epsilon), _doubt(ends)
    first = ends.most * -np.expm1(epsilon - ends.local_epsilon - error)  # A, rounded up
    saddle = np.log1p(growth / first)
    untilted = _kinds(ends, people, at_most, saddle)
    mean = untilted[0].mean + untilted[1].mean
    variance = untilted[0].variance + untilted[1].variance
    top = np.round(mean)  # the mode is next to the mean (Darroch 1964), and the maximum above it
    tilt = np.maximum(saddle, _LEAST_TILT / np.sqrt(variance + 1))
    kinds = _kinds(ends, people, at_most, tilt)
    mean = kinds[0].mean + kinds[1].mean
    variance = kinds[0].variance + kinds[1].variance
    # Bernstein: further from the mean there is less than e^-50. Half a turn of the sum is as far.
    far = _DEPTH / 3 + np.sqrt((_DEPTH / 3) ** 2 + 2 * variance * _DEPTH)
    turn = np.ceil(2 * np.maximum(far + np.abs(top - mean) + 3, _DEPTH / tilt))
    # |phi| <= exp(-variance (1 - cos t)): beyond this t it is below e^-50.
    cut = np.minimum(_DEPTH / np.maximum(variance, _UNIT), 2.0)
    last = np.minimum(np.floor(turn / 2), np.ceil(turn * np.arcsin(np.sqrt(cut / 2)) / np.pi))
    node = np.arange(int(last.max()) + 1)
    t = 2 * np.pi * node / turn[:, None]
    weight = np.where(node <= last[:, None], 2.0, 0.0) / turn[:, None]
    weight[:, 0] /= 2
    weight[2 * node == turn[:, None]] /= 2
    sine, versine = np.sin(t), 2 * np.sin(t / 2) ** 2
    depth, phase, moved = np.zeros_like(t), np.zeros_like(t), np.zeros_like(t)
    for kind in kinds:
        number, rare, usual = kind.people[:, None], kind.rare[:, None], kind.usual[:, None]
        square = np.maximum(1 - 2 * rare * usual * versine, math.exp(-2 * _DEPTH))
        exact = np.log1p(np.maximum(-2 * rare * usual * versine, -0.5))
        shrunk = 0.5 * np.where(square > 0.5, exact, np.log(square))
        angle = np.arctan2(rare * sine, 1 - rare * versine)
        depth += number * shrunk
        phase += kind.sign * number * angle
        moved += number * (rare * t / np.sqrt(square) + np.abs(shrunk) + np.abs(angle))
    size = np.exp(depth) * weight
    # Over e^theta: (A e^s - (x - 1) / (1 - e^-s)) with s = theta + it.
    grown = np.expm1(tilt)[:, None]
    divisor = (grown * np.cos(t) - versine) + 1j * ((grown + 1) * sine)
    turned = np.exp(1j * t)
    kernel = turned * (first[:, None] - growth[:, None] / divisor)
    bulk = first[:, None] + growth[:, None] / np.abs(divisor)
    most = first + growth / np.expm1(tilt)
    start = kinds[0].exponent + kinds[1].exponent
    size_of_start = np.abs(kinds[0].exponent) + np.abs(kinds[1].exponent)
    lower, upper = np.full(people.size, -math.inf), np.full(people.size, -math.inf)
    for step in range(3):
        count = top + step
        value = (size * (kernel * np.exp(1j * (phase - count[:, None] * t))).real).sum(axis=1)
        wrong = 16 * _UNIT * (moved + np.abs(count[:, None]) * t + 8)
        blurred = (size * bulk * wrong).sum(axis=1) + 8 * math.exp(-_DEPTH) * most
        exponent = start - tilt * (count - 1)
        rounded = 8 * _UNIT * (size_of_start + tilt * np.abs(count - 1) + 8)
        with np.errstate(divide="ignore"):
            above = np.log(np.maximum(value + blurred, 0.0)) + exponent + rounded
            below = value - blurred - 4 * ends.most * _doubt(ends) * size.sum(axis=1)
            under = np.log(np.maximum(below, 0.0)) + exponent - rounded
        lower, upper = np.maximum(lower, under), np.maximum(upper, above)
    # Where the mean is not known to one half, the maximum may be a few steps off.
    steps = 16 * _UNIT * (np.abs(kinds[0].mean) + np.abs(kinds[1].mean))
    missed = np.where(steps > 0.3, 2 + steps, 0.0) ** 2
    return lower, upper + 6 * missed * np.maximum(1 / (variance + 1), tilt**2)


# ----------------------------------------------------------------------------- the worst number


@dataclass(frozen=True)
class Cover:
    """What the worst data has: logarithms of both ends, and how many others are at ``most``."""

    lower: Array
    upper: Array
    at: Array


def cover(
    ends: Ends, n: int, epsilon: Array, *, goal: float = -math.inf, width: float, most: int
) -> Cover:
    """Branch and bound over how many of the others are at ``most``, for each epsilon.

    It ends where every interval's upper end is at most ``goal``, or ``width`` above the largest
    lower end, or after so many evaluations for each. It is valid whatever its width.
    """
    size = epsilon.size
    lower, settled, at = np.full(size, -math.inf), np.full(size, -math.inf), np.zeros(size)
    edges = np.unique(np.linspace(0, n, min(n, _FIRST) + 1).round())
    some = np.unique(np.clip(n - 1 - np.array([0, 1, 5, 10, n - 1]), 0, n - 1)).astype(float)
    starts, spans = np.tile(edges[:-1], size), np.tile(np.diff(edges) - 1, size)
    owner: Indices = np.repeat(np.arange(size), edges.size - 1)
    tried, of = np.tile(some, size), np.repeat(np.arange(size), some.size)
    spent = 0
    while True:
        # Intervals of one number, and some numbers of the whole crowd, are lower ends as well.
        whose, where = np.append(owner, of), np.append(starts, tried)
        people = np.append(n - spans, np.full(tried.size, n))
        below, above = enclose(ends, people, where, epsilon[whose])
        spent += above.size
        below[: spans.size][spans > 0] = -math.inf
        order = np.argsort(below, kind="stable")  # the last one that is assigned stays
        better = order[below[order] > lower[whose[order]]]
        lower[whose[better]], at[whose[better]] = below[better], where[better]
        above = above[: spans.size]
        is_open = (above > np.maximum(goal, lower + width)[owner]) & (spans > 0)
        np.maximum.at(settled, owner[~is_open], above[~is_open])
        if not is_open.any() or spent >= most * size:
            np.maximum.at(settled, owner[is_open], above[is_open])
            return Cover(lower, np.minimum(settled, 0.0), at)
        starts, spans, owner = starts[is_open], spans[is_open], owner[is_open]
        worst = np.lexsort((above[is_open], owner))
        last = np.flatnonzero(np.diff(owner[worst], append=size))  # of each epsilon the worst
        chosen = worst[np.unique(np.maximum(last[:, None] - np.arange(_TRIED), 0))]
        tried, of = starts[chosen] + np.floor(spans[chosen] / 2), owner[chosen]
        starts, spans, owner = _split(starts, spans, owner)


def _split(starts: Array, spans: Array, owner: Indices) -> tuple[Array, Array, Indices]:
    """Each interval in a few of nearly the same size."""
    parts = np.minimum(spans + 1, _PARTS)
    index = np.arange(_PARTS)[:, None]
    edges = starts + np.floor((spans + 1) * np.minimum(index, parts) / parts)
    after = starts + np.floor((spans + 1) * np.minimum(index + 1, parts) / parts)
    real = after > edges
    return edges[real], (after - edges - 1)[real], np.broadcast_to(owner, real.shape)[real]


@dataclass(frozen=True)
class Solution:
    """An epsilon that some data set really has, and one that all have at most."""

    lower: float
    upper: float


@lru_cache(maxsize=1024)
def solve(ends: Ends, n: int, delta: float) -> Solution:
    """Epsilon at this delta, for one order of the two data sets."""
    target = math.log(delta)
    cap = ends.local_epsilon
    if cap <= 0:  # of two numbers that are the same to the last digit
        return Solution(0.0, 0.0)
    scale = min(cap, ends.spread / math.sqrt(n))
    telling = {n - 1}

    def log_lower(epsilon: float) -> float:
        others = np.array(sorted(telling), dtype=float)
        whole, at = np.full(others.size, float(n)), np.full(others.size, epsilon)
        return float(enclose(ends, whole, others, at)[0].max())

    def covered(epsilon: float, most: int) -> Cover:
        return cover(ends, n, np.array([epsilon]), goal=target, width=0.0, most=most)

    def reached(guess: float) -> float:
        return crossing(log_lower, target, cap=cap, guess=guess, side=Side.LOWER)

    lower = reached(min(gaussian_guess(scale, target), 0.9 * cap))
    if lower == 0 and covered(0.0, _FEW).upper[0] <= target:
        return Solution(0.0, 0.0)
    for width, most in _LADDER:
        for _ in range(_ROUNDS):
            at = lower + width * max(lower, 0.1 * scale)
            if at >= cap:
                return Solution(lower, cap)
            worst = covered(at, most)
            if worst.upper[0] <= target:
                return Solution(lower, at)
            if worst.lower[0] <= target or int(worst.at[0]) in telling:
                break
            telling.add(int(worst.at[0]))
            lower = reached(at)

    def log_upper(epsilon: float) -> float:
        return float(covered(epsilon, _FEW).upper[0])

    return Solution(lower, crossing(log_upper, target, cap=cap, guess=at, side=Side.UPPER))


@dataclass(frozen=True)
class TwoOutputsProfile(Curve):
    """The curve δ(ε) of n shuffled reports of one of two outputs: exact but for a stated width.

    Args:
        law: A blanket law that knows the ends of its two probabilities.
        n: Honest reports, at least 1.

    References:
        :doc:`/theory/two-outputs`.

    Example:
        >>> profile = TwoOutputsProfile(BlanketLaw.randomized_response(k=2, epsilon=1.0), n=1000)
        >>> round(profile.epsilon(1e-6), 4), round(profile.lower_epsilon(1e-6), 4)
        (0.1266, 0.1266)
    """

    law: BlanketLaw
    n: int

    theorem = THEOREM

    def __post_init__(self) -> None:
        vars(self).update(n=checks.count(n=self.n), local_epsilon=self.law.local_epsilon)
        vars(self).update(scope=self.law.claim.scope)

    @cached_property
    def _orders(self) -> tuple[Ends, ...]:
        ends = self.law.claim.ends
        if ends is None:
            raise InvalidArgumentError("law", self.law.claim.theorem, "one of two outputs")
        return ends.orders

    def _covered(self, epsilons: Array, width: float, most: int) -> tuple[Array, Array]:
        """Lower and upper ends of delta, both orders covered."""
        covers = [cover(ends, self.n, epsilons, width=width, most=most) for ends in self._orders]
        lower = np.exp(np.max([one.lower for one in covers], axis=0)) * (1 - _ROUNDED)
        upper = np.exp(np.max([one.upper for one in covers], axis=0)) * (1 + _ROUNDED)
        beyond = epsilons >= self.local_epsilon
        return np.where(beyond, 0.0, lower), np.where(beyond, 0.0, np.minimum(upper, 1.0))

    def _delta(self, epsilon: float) -> float:
        return float(self._covered(np.array([epsilon]), _WIDTH, _MOST)[1][0])

    def quick_delta(self, epsilon: float) -> float:
        """The same bound, at most 2.5 % above it if a few evaluations do."""
        return float(self.quick_deltas(np.array([epsilon]))[0])

    def quick_deltas(self, epsilons: Array) -> Array:
        """All at once."""
        return self._covered(epsilons, _QUICK_WIDTH, _FEW)[1]

    def _epsilon(self, delta: float) -> float:
        reached = max(solve(ends, self.n, delta).upper for ends in self._orders)
        return min(reached, self.local_epsilon)

    def lower_delta(self, epsilon: float) -> float:
        """A delta that some data set really has."""
        checks.non_negative(epsilon=epsilon)
        return float(self._covered(np.array([epsilon]), _WIDTH, _FEW)[0][0])

    def lower_epsilon(self, delta: float, rounds: int = 1) -> float:
        """An epsilon that some data set really has."""
        checks.open_probability(delta=delta)
        once = max(solve(ends, self.n, delta).lower for ends in self._orders)
        if rounds == 1:
            return min(once, self.local_epsilon)
        from shoal.accounting import repeated

        return max(once, repeated.epsilon(self.law, n=self.n, rounds=rounds, delta=delta))

    @cached_property
    def spread(self) -> float:
        """Standard deviation of the privacy loss to leading order: a scale, not a bound."""
        return min(self.local_epsilon, max(e.spread for e in self._orders) / math.sqrt(self.n))
