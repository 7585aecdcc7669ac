"""A server that sees who passes to whom, though not what: a harder adversary.

Nodes re-encrypt, so a message that comes in cannot be matched with one that goes out, except that
they are at the same node at the same time. Show the adversary which of the other people did not
use the blanket, and all about them. The reports left are alike but for the one in question. Given
who used which edge in which round, those of them that are with one holder are exchangeable: the
probability w_j that report j is the one in question is AVERAGED over a holder's reports, every
round. In the end, with X = γ (ρ0_i - e^ε ρ1_i) with probability m_i/γ, γ = Σ m_i,

    δ(ε) <= E_traffic E[(Σ_j w_j X_j)_+],

and for X in an interval of length ℓ and mean -η, by Hoeffding's inequality, given the traffic

    E[(Σ_j w_j X_j)_+] <= ∫_0^∞ exp(-2 N (s + η)²/ℓ²) ds,       N = 1/Σ_j w_j²,

the *effective crowd*. No formula for the law of N is known: it is simulated. The mean over traffic
is then bounded from above, but for a probability that is added to δ, by the Chernoff bound for
numbers in an interval. So no δ much below 20/runs can be certified this way.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy import optimize, special

from shoal import checks
from shoal.accounting.search import least
from shoal.errors import InvalidArgumentError
from shoal.network.generators import uniform
from shoal.network.graph import node_numbers
from shoal.network.profile import Reports
from shoal.network.walk import Walk
from shoal.randomness import Randomness, secure
from shoal.values import Array

_TOGETHER = 1 << 20  # reports moved on at a time
_FAILED = 0.1  # of δ, for the simulation's confidence
_HALVINGS = 40


@dataclass(frozen=True, eq=False)
class Traffic:
    """Effective crowds of one person's report, one a simulated run."""

    crowds: Array
    reports: Reports

    def delta(self, epsilon: float, *, failure: float) -> float:
        """An upper bound on δ(ε), but for ``failure``, which is not yet added."""
        alone = self._alone(epsilon)
        if alone <= 0:
            return 0.0
        fractions = np.minimum(self._given(epsilon) / alone, 1.0)
        return alone * mean_bound(float(fractions.mean()), fractions.size, failure)

    def estimate(self, epsilon: float) -> float:
        """The average over the runs: not a bound."""
        return float(np.minimum(self._given(epsilon), self._alone(epsilon)).mean())

    def epsilon(self, delta: float) -> float:
        """The smallest ε certified at this δ, the simulation's failure included; at most ε0."""
        checks.open_probability(delta=delta)
        local = self.reports.local[0]
        if not math.isfinite(local):
            raise InvalidArgumentError("local_epsilon", local, "a finite local epsilon")
        failure, rest = delta * _FAILED, delta * (1 - _FAILED)
        return least(
            lambda epsilon: self.delta(epsilon, failure=failure) <= rest,
            0.0,
            local,
            steps=_HALVINGS,
        )

    def _alone(self, epsilon: float) -> float:
        """D_x of a report by itself, at most, between any two data."""
        growth = math.exp(epsilon)
        return max(
            float(pair.mass @ (pair.rho0 - growth * pair.rho1).clip(min=0.0))
            + pair.lost_divergence(epsilon).upper
            for pair in self.reports.own.pairs
        )

    def _given(self, epsilon: float) -> Array:
        """The bound given the traffic, for each run; the worst pair of inputs."""
        bounds = [
            positive_part(self.crowds, *_interval(pair.values(epsilon), pair.mass))
            + pair.lost_divergence(epsilon).upper
            for pair in self.reports.own.pairs
        ]
        return np.asarray(np.max(bounds, axis=0))


def simulated_traffic(
    walk: Walk,
    rounds: int,
    *,
    user: int,
    reports: Reports,
    runs: int = 10_000,
    randomness: Randomness | None = None,
) -> Traffic:
    """Runs of the walk in which the effective crowd of one person's report is followed."""
    rounds, runs = checks.count(0, rounds=rounds), checks.count(runs=runs)
    if reports.local_delta:
        raise InvalidArgumentError("local_delta", reports.local_delta, "a pure randomizer here")
    (origin,) = node_numbers([user], walk.n, name="user")
    source = randomness or secure()
    mass = min(float(pair.mass.sum()) for pair in reports.own.pairs)
    width = max(1, _TOGETHER // walk.n)
    sizes = [min(width, runs - start) for start in range(0, runs, width)]
    crowds = [_crowds(walk, rounds, int(origin), mass, size, source) for size in sizes]
    return Traffic(np.concatenate(crowds), reports)


def _crowds(
    walk: Walk, rounds: int, origin: int, mass: float, runs: int, source: Randomness
) -> Array:
    n = walk.n
    alike = uniform(source, runs * n).reshape(runs, n) < mass
    alike[:, origin] = True
    run, holder = np.nonzero(alike)
    weights = (holder == origin).astype(np.float64)
    move = _Mover(walk)
    for _ in range(rounds):
        holder = move(holder, uniform(source, holder.size))
        weights = averaged(weights, run * n + holder)
    return 1 / np.bincount(run, weights=np.square(weights), minlength=runs)


def averaged(weights: Array, places: npt.NDArray[np.int64]) -> Array:
    """Every weight replaced by the average of those in the same place."""
    sums = np.bincount(places, weights=weights)
    counts = np.bincount(places)
    return np.asarray(sums[places] / counts[places])


class _Mover:
    """One step of each of many walks, from uniform numbers."""

    def __init__(self, walk: Walk) -> None:
        kernel = walk.transitions
        before = np.concatenate([[0.0], np.cumsum(kernel.data)])
        rows = np.repeat(np.arange(walk.n), np.diff(kernel.indptr))
        # Entries of row u end at numbers from u to u + 1.
        self._ends = rows + np.minimum(before[1:] - before[kernel.indptr[:-1]][rows], 1.0)
        self._starts, self._neighbours = kernel.indptr, kernel.indices

    def __call__(self, holders: npt.NDArray[np.int64], uniforms: Array) -> npt.NDArray[np.int64]:
        entries = np.searchsorted(self._ends, holders + uniforms, side="right")
        entries = np.minimum(entries, self._starts[holders + 1] - 1)
        return self._neighbours[entries].astype(np.int64)


def positive_part(crowds: Array, drift: float, length: float) -> Array:
    """∫_0^∞ exp(-2 N (s + η)²/ℓ²) ds for each N; η and ℓ of the module's text."""
    mean = max(-drift, 0.0)  # positive only where a randomizer loses more of one law than another
    if length <= 0:
        return np.full_like(crowds, mean)
    rate = np.sqrt(2 * crowds) / length
    beyond = math.sqrt(math.pi) / (2 * rate) * special.erfc(rate * max(drift, 0.0))
    return np.asarray(mean + beyond)


def _interval(values: Array, mass: Array) -> tuple[float, float]:
    """η and ℓ of X = γ z, z a value with probability mass/γ."""
    return -float(values @ mass), float(mass.sum()) * float(np.ptp(values))


def mean_bound(average: float, runs: int, failure: float) -> float:
    """The largest mean of numbers in [0, 1] that such an average is likely enough under.

    Pr[average <= a] <= exp(-runs KL(a, mean)) for a <= mean (Hoeffding 1963, Theorem 1).
    """
    checks.open_probability(failure=failure)
    allowed = -math.log(failure) / runs
    if average >= 1 or _relative_entropy(average, 1 - 1e-15) <= allowed:
        return 1.0
    root = optimize.brentq(
        lambda mean: _relative_entropy(average, mean) - allowed, average, 1 - 1e-15, xtol=1e-16
    )
    return min(1.0, float(root) * (1 + 1e-9) + 1e-15)


def _relative_entropy(one: float, other: float) -> float:
    if other <= one:
        return 0.0
    return float(special.rel_entr(one, other) + special.rel_entr(1 - one, 1 - other))
