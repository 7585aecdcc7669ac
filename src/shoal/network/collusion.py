"""People who work for the server: the first of them to hold a report ends its walk.

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
from collections.abc import Sequence

import numpy as np

from shoal.errors import InvalidArgumentError
from shoal.network import law
from shoal.network.graph import Nodes, node_numbers
from shoal.network.law import StopLoss
from shoal.network.locations import Locations
from shoal.network.mixing import lowered
from shoal.network.walk import UNIT, Walk, growth
from shoal.values import Array

_EVERY = 6  # so many first rounds are looked at one by one
_STRIDE = 1.25  # then this much apart
_LARGEST_WEIGHT = 1e6
_MOST_PEOPLE = 2500

Caught = tuple[StopLoss, int, float, float]
"""Stop-loss, honest people, and what may be wrong with the laws behind it.

That is a total variation, and the probability that some bound does not hold.
"""


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
    if honest < 1:
        raise InvalidArgumentError("collusion", probability, "at least one honest person")
    loss = StopLoss(at, np.minimum(losses * (1 + 1e-13), 1.0))
    return loss, honest, locations.after(rounds).rounding, locations.failure


def named_colluders(
    walk: Walk, rounds: int, colluders: Sequence[int], *, user: int | None, count: int
) -> Caught:
    """These people collude; the laws are those of walks that end at the first of them."""
    caught = np.unique(node_numbers(list(colluders), walk.n, name="collusion"))
    honest = np.setdiff1d(np.arange(walk.n), caught)
    if honest.size < 1:
        raise InvalidArgumentError("collusion", list(colluders), "at least one honest person")
    if honest.size > _MOST_PEOPLE:
        expected = f"a probability for more than {_MOST_PEOPLE} honest people"
        raise InvalidArgumentError("collusion", f"{caught.size} nodes", expected)
    targets = np.arange(honest.size) if user is None else np.flatnonzero(honest == user)
    if not targets.size:
        raise InvalidArgumentError("user", user, "an honest person")
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
