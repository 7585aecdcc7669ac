"""The figures of network shuffling: more rounds are more private, a shuffler is the limit."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from shoal.accounting.law import BlanketLaw
from shoal.accounting.profile import PrivacyProfile
from shoal.figures import network
from shoal.network.account import WalkAccountant
from shoal.network.walk import Walk

SLACK = 1 + 1e-5


@pytest.fixture(scope="module")
def by_rounds(numbers):
    return numbers[network.network_epsilon_vs_rounds.name]


@pytest.fixture(scope="module")
def by_local_epsilon(numbers):
    return numbers[network.network_epsilon_vs_local_epsilon.name]


@pytest.fixture(scope="module")
def mechanisms(numbers):
    return numbers[network.network_mechanisms.name]


def falls(values):
    return all(b <= a * SLACK for a, b in itertools.pairwise(values))


@pytest.mark.parametrize("name", network.GRAPHS)
def test_more_rounds_are_more_private_down_to_a_shuffler(by_rounds, name):
    worst, half = by_rounds.column(f"{name}-worst"), by_rounds.column(f"{name}-median")
    central = by_rounds.column("central")
    assert falls(worst)
    assert falls(half)
    for low, middle, high in zip(central, half, worst, strict=True):
        assert low <= middle * SLACK
        assert middle <= high * SLACK
        assert high <= network.LOCAL_EPSILON * SLACK
    assert worst[0] == pytest.approx(1.0, rel=1e-4)
    if name != "small-world":
        assert worst[-1] == pytest.approx(central[-1], rel=0.01)


def test_the_points_are_the_accountants(by_rounds):
    rounds = int(by_rounds.column("rounds")[-2])
    known = WalkAccountant(Walk(network.GRAPHS["regular"]()), local_epsilon=1.0)
    library = known.profile(rounds).epsilon(network.DELTA)
    drawn = by_rounds.column("regular-worst")[-2]
    # Drawn with fewer points of the stop-loss function: above, and hardly.
    assert library <= drawn * SLACK
    assert drawn == pytest.approx(library, rel=0.01)


def test_more_rounds_help_at_every_local_epsilon(by_local_epsilon):
    few, many = network.ROUNDS
    local = by_local_epsilon.column("local_epsilon")
    central = by_local_epsilon.column("central")
    for name in network.GRAPHS:
        early = by_local_epsilon.column(f"{name}-{few}")
        late = by_local_epsilon.column(f"{name}-{many}")
        for low, b, a, most in zip(central, late, early, local, strict=True):
            assert low <= b * SLACK
            assert b <= a * SLACK
            assert a <= most * SLACK
        assert list(late) == sorted(late)


def test_a_network_is_between_a_shuffler_and_nothing(mechanisms):
    few, many = (f"network-{rounds}" for rounds in network.WALKS)
    for n, optimal, late, early in zip(
        *(mechanisms.column(name) for name in ("n", "optimal-clones", many, few)), strict=True
    ):
        known = PrivacyProfile(BlanketLaw.generic(0.5), int(n)).epsilon(1e-6)
        assert optimal == pytest.approx(known, rel=1e-6)
        assert optimal <= late * SLACK
        assert late <= early * SLACK
        assert early <= 0.5 * SLACK
    published = [each for each in mechanisms.column("network-published") if each is not None]
    assert published
    assert min(published) > max(mechanisms.column("optimal-clones"))
    sampled = np.array(mechanisms.column("subsampling"))
    assert falls(sampled.tolist())
