"""A walk is another blanket law: where a report ends up, weighed by how common that place is.

The holder and the report are one message. Let every honest person's holder have a law above μ,
``P_u(v) >= μ(v)``, let the person in question's be P, W = P/μ, and let the randomizer have the
blanket law (m_i, ρ0_i, ρ1_i). Then μ(v) b(y) is a blanket of (holder, report), and its law has the
atoms

    (μ(v) m_i,  W(v) ρ0_i,  W(v) ρ1_i).

Where P(v) > 0 = μ(v) the report is *lost*: nobody else's is ever there. The bound that a law gives
grows in convex order, so all that has to be known of W is its stop-loss function

    S(k) = Σ_v (P(v) - k μ(v))_+ ,        S(0) = 1,   S(∞) = lost,

or any convex function above it: chords between points, the largest S of several people (one law
that covers them all), and what a variance allows (docs/theory/network.md).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from shoal.accounting.atoms import PairLaw
from shoal.accounting.law import BlanketLaw
from shoal.accounting.profile import hull
from shoal.network.walk import UNIT, growth
from shoal.values import Array

_KNEE = 0.1  # points are this far from 1 before they are spaced like powers
_MOST_ATOMS = 4000  # of a law; more make every δ slow
_MOST_POINTS = 100
_FEWEST_POINTS = 16
_ROUNDED = 4 * UNIT  # of P - k μ, summed over all holders, at most
_IN_CACHE = 1 << 15  # numbers of a block of laws
_NONE = 1e-9  # weights this near to 1 need no points between
_LARGEST = 1e9  # weights above count as lost
_MASSES = (0.0, 1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 1e-1)


@dataclass(frozen=True, eq=False)
class StopLoss:
    """Points 0 = k_0 < k_1 < ..., and numbers at least S(k) at them; S(0) = 1 exactly."""

    points: Array
    values: Array

    @cached_property
    def atoms(self) -> tuple[Array, Array, float]:
        """Weights, their masses, and the mass that is lost: the law on the points that has this S.

        The true S is convex and below the values, so the largest convex function below the
        values is above it. Its slopes grow from -(mass of all weights) to 0; weight 0 says that
        the blanket was not used.
        """
        points, values = hull(self.points, np.minimum.accumulate(self.values))
        slopes = np.append(np.diff(values) / np.diff(points), 0.0)
        masses = np.diff(slopes)
        used = masses > 0
        return points[1:][used], masses[used], float(values[-1])


def points(largest: float, *, count: int = _MOST_POINTS) -> Array:
    """0, 1 and numbers up to the largest weight, dense near 1."""
    end = max(min(largest, _LARGEST) - 1, 0.0) * (1 + 1e-9)
    steps = np.arange(1, count + 1) / count
    if end <= _NONE:
        return np.unique(np.array([0.0, 1.0, 1 + end]))
    above = 1 + _KNEE * np.sinh(steps * math.asinh(end / _KNEE))
    return np.unique(np.concatenate([[0.0, 1.0], above]))


def point_count(base: BlanketLaw) -> int:
    """So many points that the law does not get too many atoms."""
    widest = max(pair.mass.size for pair in base.pairs)
    return int(np.clip(_MOST_ATOMS // max(widest, 1), _FEWEST_POINTS, _MOST_POINTS))


def stop_loss(laws: Array, minimum: Array, at: Array) -> Array:
    """The largest S(k) of several laws, one a row, at each point, rounded up."""
    up = 1 + growth(minimum.size + 8)
    largest = np.zeros(at.size)
    width = max(1, _IN_CACHE // minimum.size)
    for first in range(0, len(laws), width):
        block = laws[first : first + width]
        excess = np.empty_like(block)
        for index, point in enumerate(at):
            np.subtract(block, point * minimum, out=excess)
            np.maximum(excess, 0.0, out=excess)
            largest[index] = max(largest[index], float(excess.sum(axis=1).max()))
    return largest * up + _ROUNDED


@dataclass(frozen=True)
class Moments:
    """What is known of a weight X with mean 1: lowest <= X <= highest, variance <= variance."""

    variance: float
    lowest: float
    highest: float

    def stop_loss(self, at: Array) -> Array:
        """The largest E(X - κ)_+ that the moments allow.

        For any κ, (√(c + (κ-1)²) - (κ-1))/2 (Scarf 1958, A min-max solution of an inventory
        problem; Bowers 1969). If κ is at least the middle between the highest value B and
        1 - c/(B-1), then (B - κ)_+ c/((B-1)² + c): the square of a linear function that is 0 at
        the other value is above (x - κ)_+ up to B. Likewise from the lowest value.
        """
        variance = max(self.variance, 0.0)
        if not math.isfinite(variance):
            return np.ones_like(at)
        free = (np.hypot(math.sqrt(variance), at - 1) - (at - 1)) / 2
        top = _one_sided(at - 1, self.highest - 1, variance)
        bottom = 1 - at + _one_sided(1 - at, 1 - self.lowest, variance)
        plain = np.maximum(1 - at, 0.0) + np.where(at < self.highest, np.inf, 0.0)
        best = np.minimum(np.minimum(free, np.minimum(top, bottom)), plain)
        return np.asarray(np.minimum(np.maximum(best, 0.0) * (1 + 1e-12), 1.0))


def _one_sided(above: Array, reach: float, variance: float) -> Array:
    """The bound on E(Y - κ)_+ for mean 0 and Y <= reach where it holds, else infinity."""
    if not 0 < reach < math.inf:
        return np.full_like(above, np.inf)
    holds = above >= (reach - variance / reach) / 2
    bound = np.maximum(reach - above, 0.0) * (variance / (reach**2 + variance))
    return np.where(holds, bound, np.inf)


class Floor:
    """How far μ is below π: the lowest μ/π outside some holders, and these holders' mass of π.

    A few choices of holders to leave out, those of lowest μ/π first.
    """

    def __init__(self, minimum: Array, stationary: Array) -> None:
        ratios = minimum / stationary * (1 - growth(2))
        order = np.argsort(ratios)
        below = np.append(0.0, np.cumsum(stationary[order]))[:-1] * (1 + 1e-9)
        chosen = np.unique(np.searchsorted(below, _MASSES, side="right") - 1)
        self.overlap = float(minimum.sum()) * (1 - growth(minimum.size))  # Σ μ
        self.least = float(ratios[order[0]])  # the lowest of all μ/π
        self.ratios, self.masses = ratios[order[chosen]], below[chosen]

    def stop_loss(self, known: Moments, at: Array) -> Array:
        """S(k) of laws P = X π of which ``known`` speaks.

        (P - k μ)_+ <= (P - k r π)_+ where μ >= r π; on the holders left out, of mass a, X is at
        most the highest. And S(k) = 1 - k Σμ for k <= 1, where P >= k μ; then it only falls.
        """
        linear = np.maximum(1 - np.minimum(at, 1.0) * self.overlap, 0.0) * (1 + 1e-14)
        bound = linear
        for ratio, mass in zip(self.ratios, self.masses, strict=True):
            outside = mass * np.maximum(known.highest - at * self.least, 0.0) if mass else 0.0
            bound = np.minimum(bound, known.stop_loss(at * ratio) + outside)
        return np.where(at <= 1, linear, bound)


def walk_pairs(base: BlanketLaw, walked: StopLoss) -> tuple[PairLaw, ...]:
    """The laws of (holder, report), one for each pair of inputs of the randomizer's."""
    (weights, masses, lost), laws = walked.atoms, []
    for pair in base.pairs:
        outer = (masses, pair.mass), (weights, pair.rho0), (weights, pair.rho1)
        columns = np.column_stack([np.outer(*each).ravel() for each in outer])
        # A lost report shows what it says as if there were no others.
        seen = lost * pair.mass
        own = np.column_stack([pair.lost0, pair.lost1])
        gone = np.concatenate([np.column_stack([seen * pair.rho0, seen * pair.rho1]), own])
        atoms, without = map(tuple, columns.tolist()), map(tuple, gone.tolist())
        laws.append(PairLaw.of(atoms, lost=without).descending(pair))
    return tuple(laws)
