"""Stronger adversaries: a server that sees who passes to whom, and people who work for it.

**Traffic.** The server sees who passes to whom, though not what.

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

**Collusion.** The first colluder to hold a report ends its walk.

A report is passed on unchanged, so whoever held it recognises it at the end. The first colluder
to get it, in round s, knows who passed it on: the server learns where it was after s - 1 rounds,
and everything later depends on that alone. So "where, and when, or never" is the holder of the
theorem: with p_s the probability that the first colluder comes in round s, the stop-loss function
is

    S(k) = Σ_s p_s S_(s-1)(k) + (1 - Σ_s p_s) S_t(k),        S_0 = 1: the first step is from home.

It is NOT Σ p_s δ_s + ...: those δ_s would count on everybody having been caught in the same round.

Two settings: named people (exactly, up to a few thousand), or every new holder colluding with
the same probability, independently, p_s = c (1 - c)^(s-1).
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from scipy import special

from shoal import checks
from shoal.accounting.search import least, root
from shoal.network import law
from shoal.network.generators import uniform
from shoal.network.graph import Nodes, node_numbers
from shoal.network.law import StopLoss
from shoal.network.locations import Locations, lowered
from shoal.network.profile import Reports
from shoal.network.walk import UNIT, Walk, growth
from shoal.randomness import Randomness, secure
from shoal.values import Array

_TOGETHER = 1 << 20  # reports moved on at a time
_FAILED = 0.1  # of δ, for the simulation's confidence
_HALVINGS = 40
_EVERY = 6  # so many first rounds are looked at one by one
_STRIDE = 1.25  # then this much apart
_LARGEST_WEIGHT = 1e6
_MOST_PEOPLE = 2500

Caught = tuple[StopLoss, int, float, float]
"""Stop-loss, honest people, and what may be wrong with the laws behind it.

That is a total variation, and the probability that some bound does not hold.
"""


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
        checks.refuse(not math.isfinite(local), "a finite local epsilon", local_epsilon=local)

        def certified(epsilon: float) -> bool:
            return self.delta(epsilon, failure=delta * _FAILED) <= delta * (1 - _FAILED)

        return least(certified, 0.0, local, steps=_HALVINGS)

    def _alone(self, epsilon: float) -> float:
        """D_x of a report by itself, at most, between any two data."""
        x = math.exp(epsilon)
        return max(
            float(pair.mass @ (pair.rho0 - x * pair.rho1).clip(min=0.0))
            + pair.lost_divergence(epsilon).upper
            for pair in self.reports.own.pairs
        )

    def _given(self, epsilon: float) -> Array:
        """The bound given the traffic, for each run; the worst pair of inputs."""
        bounds = []
        for pair in self.reports.own.pairs:
            # η and ℓ of X = γ z, z a value with probability mass/γ.
            values, mass = pair.values(epsilon), pair.mass
            length = float(mass.sum()) * float(np.ptp(values))
            bound = positive_part(self.crowds, -float(values @ mass), length)
            bounds.append(bound + pair.lost_divergence(epsilon).upper)
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
    checks.refuse(reports.local_delta, "a pure randomizer here", local_delta=reports.local_delta)
    (origin,) = node_numbers([user], walk.n, name="user")
    source = randomness or secure()
    mass = min(float(pair.mass.sum()) for pair in reports.own.pairs)
    n, width, step = walk.n, max(1, _TOGETHER // walk.n), mover(walk)
    crowds = []
    for first in range(0, runs, width):
        size = min(width, runs - first)
        alike = uniform(source, size * n).reshape(size, n) < mass
        alike[:, origin] = True
        run, holder = np.nonzero(alike)
        weights = (holder == origin).astype(np.float64)
        for _ in range(rounds):
            holder = step(holder, uniform(source, holder.size))
            weights = averaged(weights, run * n + holder)
        crowds.append(1 / np.bincount(run, weights=np.square(weights), minlength=size))
    return Traffic(np.concatenate(crowds), reports)


def averaged(weights: Array, places: Nodes) -> Array:
    """Every weight replaced by the average of those in the same place."""
    sums = np.bincount(places, weights=weights)
    counts = np.bincount(places)
    return np.asarray(sums[places] / counts[places])


def mover(walk: Walk) -> Callable[[Nodes, Array], Nodes]:
    """One step of each of many walks, from uniform numbers."""
    kernel = walk.transitions
    before = np.concatenate([[0.0], np.cumsum(kernel.data)])
    rows = np.repeat(np.arange(walk.n), np.diff(kernel.indptr))
    # Entries of row u end at numbers from u to u + 1.
    ends = rows + np.minimum(before[1:] - before[kernel.indptr[:-1]][rows], 1.0)

    def step(holders: Nodes, uniforms: Array) -> Nodes:
        entries = np.searchsorted(ends, holders + uniforms, side="right")
        entries = np.minimum(entries, kernel.indptr[holders + 1] - 1)
        return kernel.indices[entries].astype(np.int64)

    return step


def positive_part(crowds: Array, drift: float, length: float) -> Array:
    """∫_0^∞ exp(-2 N (s + η)²/ℓ²) ds for each N; η and ℓ of the module's text."""
    mean = max(-drift, 0.0)  # positive only where a randomizer loses more of one law than another
    if length <= 0:
        return np.full_like(crowds, mean)
    rate = np.sqrt(2 * crowds) / length
    beyond = math.sqrt(math.pi) / (2 * rate) * special.erfc(rate * max(drift, 0.0))
    return np.asarray(mean + beyond)


def mean_bound(average: float, runs: int, failure: float) -> float:
    """The largest mean of numbers in [0, 1] that such an average is likely enough under.

    Pr[average <= a] <= exp(-runs KL(a, mean)) for a <= mean (Hoeffding 1963, Theorem 1).
    """
    checks.open_probability(failure=failure)
    allowed = -math.log(failure) / runs

    def excess(mean: float) -> float:
        entropy = special.rel_entr(average, mean) + special.rel_entr(1 - average, 1 - mean)
        return float(entropy) - allowed if mean > average else -allowed

    if average >= 1 or excess(1 - 1e-15) <= 0:
        return 1.0
    mean = root(excess, average, 1 - 1e-15, tolerance=1e-16)
    return min(1.0, mean * (1 + 1e-9) + 1e-15)


# ------------------------------------------------------------------------------------ colluders


def random_colluders(
    locations: Locations, rounds: int, probability: float, users: Nodes, *, count: int
) -> Caught:
    """Every new holder colludes with this probability, whoever held the report before.

    Between the rounds looked at, the report is shown as it was at the last of them: that is more
    than is seen, since what follows depends on where it was then alone.
    """
    at = law.points(_LARGEST_WEIGHT, count=count)
    losses = (1 - probability) ** rounds * locations.after(rounds).losses(users, at)
    looked = [0]
    while (last := looked[-1]) < rounds:
        following = last + 1 if last < _EVERY else max(last + 1, int(last * _STRIDE))
        looked.append(min(following, rounds))
    for first, after in itertools.pairwise(looked):
        # Caught in the rounds first + 1, ..., after.
        caught = (1 - probability) ** first - (1 - probability) ** after
        losses += caught * (locations.after(first).losses(users, at) if first else np.ones(at.size))
    losses[0] = 1.0
    honest = locations.n - math.ceil(probability * locations.n * (1 - 1e-12))
    checks.refuse(honest < 1, "at least one honest person", collusion=probability)
    loss = StopLoss(at, np.minimum(losses * (1 + 1e-13), 1.0))
    return loss, honest, locations.after(rounds).rounding, locations.failure


def named_colluders(
    walk: Walk, rounds: int, colluders: Sequence[int], *, user: int | None, count: int
) -> Caught:
    """These people collude; the laws are those of walks that end at the first of them."""
    caught = np.unique(node_numbers(list(colluders), walk.n, name="collusion"))
    honest = np.setdiff1d(np.arange(walk.n), caught)
    checks.refuse(not honest.size, "at least one honest person", collusion=list(colluders))
    expected = f"a probability for more than {_MOST_PEOPLE} honest people"
    checks.refuse(honest.size > _MOST_PEOPLE, expected, collusion=f"{caught.size} nodes")
    targets = np.arange(honest.size) if user is None else np.flatnonzero(honest == user)
    checks.refuse(not targets.size, "an honest person", user=user)
    at = law.points(_LARGEST_WEIGHT, count=count)
    steps = walk.transitions[honest]
    within = steps[:, honest].T.tocsr()
    leaving = np.asarray(steps[:, caught].sum(axis=1), dtype=np.float64).ravel()
    laws = np.eye(honest.size)  # columns: where each report is, if nobody has caught it
    error = walk.rounding(rounds) + growth(walk.n + 16)
    losses = np.zeros((targets.size, at.size))
    for _ in range(rounds):
        losses += _losses(laws, targets, at, leaving, error)
        laws = np.asarray(within @ laws)
    losses += _losses(laws, targets, at, np.ones(honest.size), error)
    worst = losses.max(axis=0) * (1 + 2 * error) + (rounds + 1) * 4 * UNIT
    worst[0] = 1.0
    return StopLoss(at, np.minimum(worst, 1.0)), int(honest.size), 2 * error, 0.0


def _losses(laws: Array, targets: Nodes, at: Array, leaving: Array, error: float) -> Array:
    """Σ_v leaving(v) (Q_u(v) - k min Q(v))_+ for each person and point."""
    minimum = lowered(laws.min(axis=1), error)
    rows = laws[:, targets].T
    totals = np.empty((len(rows), at.size))
    for index, point in enumerate(at):
        totals[:, index] = np.maximum(rows - point * minimum, 0.0) @ leaving
    return totals
