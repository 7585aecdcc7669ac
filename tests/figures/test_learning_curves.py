"""A shuffler is worth almost a trusted curator: the numbers behind the learning curves say so."""

from __future__ import annotations

import numpy as np
import pytest

from shoal.figures import learning_curves
from shoal.randomness import simulated


@pytest.fixture(scope="module")
def table(numbers):
    return numbers[learning_curves.learning_curves.name]


def test_it_covers_three_decades(table):
    assert table.column("n") == tuple(learning_curves.RUNS)
    assert set(table.column("epsilon")) == {1.0}


@pytest.mark.parametrize("name", learning_curves.LOOKS)
@pytest.mark.parametrize("norm", learning_curves.NORMS)
def test_simulations_find_what_is_predicted(table, name, norm):
    predicted = np.array(table.column(f"{norm}-{name}"))
    measured = np.array(table.column(f"{norm}-{name}-measured"))
    assert measured == pytest.approx(predicted, rel=0.3)


def test_a_shuffler_closes_most_of_the_gap(table):
    shuffled, central = table.column("l1-shuffle"), table.column("l1-central")
    assert shuffled[-1] < 1.01 * central[-1]
    assert table.column("l1-local")[-1] > 9 * central[-1]
    people = table.column("linf-shuffle")
    assert people[-1] < 1.3 * people[0]
    assert people[-1] < 4 * table.column("linf-central")[-1]


def test_the_simulated_curator_adds_discrete_laplace_noise():
    curator = learning_curves._curator(1)
    randomness, nobody = simulated(1), np.zeros(1, dtype=np.int64)
    noise = np.array([curator.estimate(nobody, randomness)[1:] for _ in range(4000)]).ravel()
    ratio = np.exp(-learning_curves.EPSILON / 2)
    assert np.mean(noise == 0) == pytest.approx((1 - ratio) / (1 + ratio), rel=0.03)
    assert np.mean(noise == 1) / np.mean(noise == 0) == pytest.approx(ratio, rel=0.05)
    assert noise.var() == pytest.approx(curator.variances[0], rel=0.05)
