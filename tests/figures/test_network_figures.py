"""Network shuffling: where the curves end, and that the points are the accountant's."""

from __future__ import annotations

import pytest

from shoal.figures import network
from shoal.network.account import WalkAccountant
from shoal.network.walk import Walk


@pytest.fixture(scope="module")
def by_rounds(numbers):
    return numbers[network.network_epsilon_vs_rounds.name]


@pytest.mark.parametrize("name", network.GRAPHS)
def test_few_rounds_are_worth_nothing_and_many_a_shuffler(by_rounds, name):
    worst, central = by_rounds.column(f"{name}-worst"), by_rounds.column("central")
    assert worst[0] == pytest.approx(1.0, rel=1e-4)
    if name != "small-world":
        assert worst[-1] == pytest.approx(central[-1], rel=0.01)


def test_the_points_are_the_accountants(by_rounds):
    rounds = int(by_rounds.column("rounds")[-2])
    known = WalkAccountant(Walk(network.GRAPHS["regular"]()), local_epsilon=1.0)
    library = known.profile(rounds).epsilon(network.DELTA)
    drawn = by_rounds.column("regular-worst")[-2]
    # Drawn with fewer points of the stop-loss function: above, and hardly.
    assert library <= drawn * (1 + 1e-5)
    assert drawn == pytest.approx(library, rel=0.01)


def test_the_published_network_is_above_a_shuffler(numbers):
    mechanisms = numbers[network.network_mechanisms.name]
    published = [each for each in mechanisms.column("network-published") if each is not None]
    assert published
    assert min(published) > max(mechanisms.column("optimal-clones"))
