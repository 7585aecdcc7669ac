from __future__ import annotations

from functools import cache

import numpy as np
import pytest

from shoal.errors import InvalidArgumentError
from shoal.mechanisms.vectors import PrivUnit, PrivUnitG
from shoal.network.generators import barabasi_albert, random_regular
from shoal.network.simulation import network_mean, simulate
from shoal.network.walk import Walk
from shoal.randomness import simulated

RUNS = 150
DIMENSION = 6
SIGMAS = 5.5
WALKS = [Walk(random_regular(300, 16, seed=1)), Walk(barabasi_albert(300, 3, seed=1))]


@cache
def walks(walk, **options):
    return [simulate(walk, 40, seed=run, **options) for run in range(RUNS)]


def vectors(n):
    """Unit vectors that differ by node, so that who is lost matters."""
    angles = np.linspace(0.0, 2.5, n)
    rows = np.zeros((n, DIMENSION))
    rows[:, 0], rows[:, 1] = np.cos(angles), np.sin(angles)
    return rows


@pytest.mark.parametrize("walk", WALKS, ids=["regular", "hubs"])
@pytest.mark.parametrize(
    "options",
    [{"submit": "all"}, {"submit": "all", "dropout": 0.2}, {"submit": "single"}],
    ids=["all", "lost", "single"],
)
@pytest.mark.parametrize("family", [PrivUnit, PrivUnitG])
def test_the_estimate_is_unbiased_and_as_good_as_it_says(walk, options, family):
    randomizer, rows = family(dimension=DIMENSION, epsilon=3.0), vectors(walk.n)
    errors, expected = [], []
    for run, walked in enumerate(walks(walk, **options)):
        found = network_mean(
            rows, walked, randomizer=randomizer, walk=walk, randomness=simulated(run)
        )
        errors.append(found.mean - rows.mean(axis=0))
        expected.append(found.expected_error**2)
    squared = (np.array(errors) ** 2).sum(axis=1)
    # A squared length in 6 dimensions varies by some 0.6 times itself; the bound is for any data.
    close = 0.7 * SIGMAS / RUNS**0.5
    assert 0.8 * (1 - close) < np.mean(squared) / np.mean(expected) < 1 + close
    bias = np.abs(np.mean(errors, axis=0))
    assert bias.max() < SIGMAS * (np.mean(expected) / DIMENSION * 2 / RUNS) ** 0.5


def test_single_messages_come_from_everybody_who_is_there():
    walk = WALKS[0]
    walked = simulate(walk, 30, seed=1, submit="single", dropout=0.1)
    randomizer = PrivUnit(dimension=DIMENSION, epsilon=2.0)
    found = network_mean(vectors(walk.n), walked, randomizer=randomizer, walk=walk)
    assert found.messages == walked.present.sum() == walked.delivered.sum() + walked.dummies
    assert 240 < found.messages < 300
    whole = simulate(walk, 30, seed=1)
    assert whole.dummies == 0


def test_bad_input_is_named():
    walk = WALKS[0]
    randomizer = PrivUnit(dimension=DIMENSION, epsilon=2.0)
    with pytest.raises(InvalidArgumentError, match="300 rows"):
        network_mean(vectors(7), simulate(walk, 1, seed=1), randomizer=randomizer, walk=walk)
    for submit in ("all", "single"):
        nobody = simulate(walk, 1, seed=1, killed=np.arange(walk.n), submit=submit)
        with pytest.raises(InvalidArgumentError, match=r"nothing delivered|nobody left"):
            network_mean(vectors(walk.n), nobody, randomizer=randomizer, walk=walk)
