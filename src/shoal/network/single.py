"""Holders that submit one report each: a random one of those they hold, or a dummy.

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
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from shoal.accounting.atoms import PairLaw
from shoal.accounting.law import BlanketLaw
from shoal.accounting.profile import hull
from shoal.network.graph import Nodes
from shoal.network.locations import Spread
from shoal.network.profile import Route
from shoal.network.walk import UNIT, growth
from shoal.values import Array

Complex = npt.NDArray[np.complex128]

THEOREM = "blanket of one report a holder"
DUMMIES = "a holder with no report submits one of a fixed datum, randomized like any other"

_BINS = 48
_SMALLEST = 1e-6  # weights below this fraction of the largest are in one bin
_SMOOTHING = 0.015
_STEP = 0.25
_REACH = 8.3  # e^(-8.3²/2) is 1e-15
_CHUNK = 1 << 18
_MOST_WORK = 2e7  # terms of the sum: about a second
_ROUNDINGS = 64
_THETAS = 40


@dataclass(frozen=True, eq=False)
class Weights:
    """Weights in [0, 1], how often each occurs; their sum is 1."""

    values: Array
    counts: Array

    @classmethod
    def above(cls, sums: Array) -> Weights:
        """A vector whose j largest entries have at least these sums, j = 0, 1, ..., n."""
        corners, heights = hull(np.arange(sums.size, dtype=np.float64), -sums)
        return _apart(cls(np.diff(-heights) / np.diff(corners), np.diff(corners)))

    @property
    def squares(self) -> float:
        """Σ_v P(v)²."""
        return float(self.counts @ np.square(self.values))


def _apart(vector: Weights) -> Weights:
    """Fewer weights, moved apart: in each bin to its ends, one of them in between."""
    top = float(vector.values.max())
    edges = np.append(0.0, np.geomspace(_SMALLEST * top, top, _BINS)).tolist()
    edges[-1] = top
    weights: list[float] = []
    counts: list[float] = []
    for low, high in itertools.pairwise(edges):
        inside = (vector.values > low) & (vector.values <= high)
        number = round(float(vector.counts[inside].sum()))
        if number:
            total = float(vector.counts[inside] @ vector.values[inside])
            upper = min(math.floor((total - number * low) / (high - low)), number - 1)
            between = total - upper * high - (number - upper - 1) * low
            weights += [high, between, low]
            counts += [upper, 1, number - upper - 1]
    sizes, times = np.array(weights), np.array(counts, dtype=np.float64)
    used = (sizes > 0) & (times > 0)
    return Weights(sizes[used], times[used])


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

    def delta(self, epsilon: float, *, tolerance: float | None = None) -> float:  # noqa: ARG002
        """The δ proved at this ε >= 0."""
        divergence = max(positive_part(pair, self.weights, epsilon) for pair in self.pairs)
        return min(1.0, divergence + self.added(epsilon))

    @property
    def spread(self) -> float:
        """A scale of the privacy loss, not a bound."""
        squares = max(float(pair.mass @ np.square(pair.values(0.0))) for pair in self.pairs)
        return math.sqrt(squares * self.weights.squares)


def single_route(
    spread: Spread, users: Nodes, law: BlanketLaw, *, slack: float = 0.0
) -> SingleRoute:
    """The route for all these people at once; ``slack`` comes on top of the spread's rounding."""
    return SingleRoute(
        theorem=THEOREM,
        pairs=law.pairs,
        n=spread.n,
        slack=slack + spread.rounding_of(users),
        failure=spread.failure,
        weights=Weights.above(spread.largest_sums(users)),
    )


def positive_part(pair: PairLaw, weights: Weights, epsilon: float) -> float:
    """An upper bound on E[(Σ_v P(v) Z_v)_+], and what the randomizer itself loses."""
    values, sizes = pair.values(epsilon), pair.sizes(epsilon)
    lost = pair.lost_divergence(epsilon).upper
    if values.max(initial=-math.inf) <= 0:
        # 0, unless rounding hides a positive value.
        return lost + _ROUNDINGS * UNIT * float(pair.mass @ sizes)
    theta = _tilt(values, pair.mass, weights)
    peak = float(
        _log_transform(values, pair.mass, weights, np.array([theta], dtype=np.complex128))[0].real
    )
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
    heights = _log_transform(values, mass, weights, tried.astype(np.complex128)).real - 2 * np.log(
        tried
    )
    return float(tried[int(np.argmin(heights))])
