"""The questions about a walk: everybody, shares of people, rounds; bounds from below and above."""

from __future__ import annotations

import math
import sys

import numpy as np
import pytest

import shoal
from network_graphs import guarantee_after, pendant_clique, windmill
from shoal.errors import (
    InvalidArgumentError,
    MissingExtraError,
    OutOfRegimeError,
    UnreachableTargetError,
)
from shoal.network import account
from shoal.network.account import WalkAccountant, cost, rounds_for, user_epsilons
from shoal.network.generators import barabasi_albert, complete, random_regular, ring
from shoal.network.graph import Graph
from shoal.network.locations import Locations
from shoal.network.profile import ALONE, Route, WalkProfile
from shoal.network.published import WalkQuery, all_epsilon, published
from shoal.network.spectrum import leading
from shoal.network.walk import Absences, Varying, Walk
from shoal.network.walk_table import table
from shoal.randomness import simulated


@pytest.fixture(scope="module")
def hubs():
    """Hubs and hangers-on: 300 people, some of whom mix late."""
    return Walk(barabasi_albert(300, 2, seed=1))


@pytest.fixture(scope="module")
def exact(hubs):
    return WalkAccountant(hubs, local_epsilon=1.0)


def test_bounds_by_eigenpairs_are_near_and_above_the_exact_ones(hubs, exact):
    found = WalkAccountant(hubs, local_epsilon=1.0, method="leading", randomness=simulated(1))
    spectral = WalkAccountant(hubs, local_epsilon=1.0, method="spectral")
    for rounds, quantile in ((16, 1.0), (24, 0.5)):
        truth, above = exact.locations.after(rounds), found.locations.after(rounds)
        assert (above.minimum <= truth.minimum * (1 + 1e-9)).all()
        assert above.floor.overlap > truth.floor.overlap - 0.06
        one, other, third = (
            each.profile(rounds, quantile=quantile).epsilon(1e-6)
            for each in (exact, found, spectral)
        )
        if quantile == 1:
            assert one <= other * (1 + 1e-6)
        assert other <= third * (1 + 1e-4)
        assert other == pytest.approx(one, rel=0.05)


def test_moments_of_everybody_are_bounded(hubs):
    locations = Locations(hubs, method="leading", randomness=simulated(2))
    for rounds in (4, 9):
        spread = locations.after(rounds)
        laws = hubs.positions(range(hubs.n), rounds)
        ratios = laws / hubs.stationary
        chi_squared = np.square(ratios - 1) @ hubs.stationary
        assert (chi_squared <= spread.chi_squared * (1 + 1e-9)).all()
        assert (ratios.max(axis=1) <= spread.highest * (1 + 1e-9)).all()
        assert (laws.min(axis=0) >= spread.minimum).all()


def test_coming_back_says_more_than_the_eigenpairs_alone(hubs):
    pairs = leading(hubs, pairs=10, randomness=simulated(3))
    for rounds in (3, 8, 24):
        left, right = pairs.factors(rounds)
        truth = hubs.positions(range(hubs.n), rounds) / hubs.stationary
        assert (left @ right.T <= truth + 1e-9).all()
        old_left, old_right = pairs.factors(rounds, refined=False)
        assert (left @ right.T).min() >= (old_left @ old_right.T).min() - 1e-9
    assert (left @ right.T).mean() > (old_left @ old_right.T).mean() + 0.3


def test_a_hidden_clique_is_not_missed():
    """A bound that trusted the expander would claim the shuffle's ε for the clique's people."""
    graph = pendant_clique(800, 12, seed=6)
    found = guarantee_after(
        Walk(graph), 30, local_epsilon=1.0, method="leading", randomness=simulated(4)
    )
    central = shoal.amplify(local_epsilon=1.0, n=graph.n)
    assert found.epsilon > 5 * central.epsilon
    one = guarantee_after(Walk(graph), 30, local_epsilon=1.0, user=graph.n - 1, method="exact")
    assert one.epsilon <= found.epsilon * (1 + 1e-6)


def test_how_it_is_computed_follows_from_the_number_of_people():
    chosen = [Locations(Walk(ring(n))).chosen for n in (2499, 2501, 60_001)]
    assert chosen == ["exact", "leading", "spectral"]


def test_nothing_is_below_the_uniform_shuffle(exact):
    central = shoal.amplify(local_epsilon=1.0, n=300).epsilon
    for rounds in (10, 60):
        found = exact.guarantee(rounds, quantile=0.5)
        assert found.epsilon >= central * (1 - 1e-6)
        assert found.lower <= found.epsilon
    assert found.epsilon == pytest.approx(central, rel=1e-3)


def test_shares_of_people(exact):
    found = user_epsilons(exact, 10, fractions=(0.5, 0.9))
    assert found.fractions == (0.5, 0.9, 1.0)
    assert list(found.epsilons) == sorted(found.epsilons)
    assert found.median < found.worst == exact.guarantee(10).epsilon
    assert found.at(0.6) == found.at(0.9)
    assert found.worst >= exact.guarantee(10, user=3).epsilon


@pytest.mark.parametrize("rounds", [12, 15])
def test_quick_answers_are_the_same_where_something_amplifies(exact, rounds):
    profile = exact.profile(rounds)
    (epsilon, theorem), (expected, by) = (
        profile.answer(1e-4, near_local=False),
        profile.answer(1e-4),
    )
    assert epsilon == pytest.approx(expected, rel=1e-6)
    assert theorem == by
    kept = exact.guarantee(rounds, delta=1e-4, near_local=False)
    known = exact.guarantee(rounds, delta=1e-4)
    assert kept.epsilon == pytest.approx(known.epsilon, rel=1e-6)
    assert kept.to_dict() | {"epsilon": 0} == known.to_dict() | {"epsilon": 0}
    found = user_epsilons(exact, rounds, delta=1e-4, fractions=(0.5, 0.9), near_local=False)
    assert found.at(0.5) <= found.at(0.9) <= found.worst == pytest.approx(known.epsilon, rel=1e-6)
    with pytest.raises(InvalidArgumentError, match="delta"):
        profile.answer(0.0, near_local=False)


def test_a_quick_answer_where_nothing_does_is_each_report_by_itself():
    accountant = WalkAccountant(Walk(ring(51)), local_epsilon=1.0)
    assert accountant.profile(3).answer(1e-6, near_local=False) == (1.0, ALONE)
    kept = accountant.guarantee(3, delta=1e-6, near_local=False)
    assert (kept.epsilon, kept.delta, kept.theorem) == (1.0, 1e-6, ALONE)


def test_epsilon_and_delta_agree(exact):
    found = exact.guarantee(15, delta=1e-5)
    back = exact.guarantee(15, epsilon=found.epsilon)
    assert back.delta == pytest.approx(1e-5, rel=1e-4)
    assert back.delta <= 1e-5 * (1 + 1e-9)
    curve = exact.profile(15)
    assert curve.delta(1.0) == 0.0
    assert curve.delta(-0.2) == pytest.approx(
        1 - math.exp(-0.2) + math.exp(-0.2) * curve.delta(0.2)
    )


def test_delta_is_well_below_one_over_n_unless_chosen():
    few = WalkAccountant(Walk(complete(100)), local_epsilon=1.0)
    assert few.guarantee(15).delta == user_epsilons(few, 15).delta == 1e-6
    assert rounds_for(few, epsilon=0.9).guarantee.delta == 1e-6
    many = WalkAccountant(Walk(ring(200_001)), local_epsilon=1.0)
    assert many.checked_delta(None) == pytest.approx(1 / (10 * 200_001))
    assert many.checked_delta(1e-3) == 1e-3


def test_a_table_is_a_data_frame(monkeypatch):
    walked = table(WalkAccountant(Walk(random_regular(60, 8)), local_epsilon=1.0), rounds=2)
    frame = walked.to_polars()
    assert frame.columns == ["rounds", "worst", "99 %", "90 %", "median"]
    assert frame["rounds"].to_list() == [1, 2]
    assert frame["worst"].to_list() == [row.epsilons["worst"] for row in walked.rows]
    assert walked.to_pandas().to_dict("records") == walked.records()

    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(MissingExtraError, match="needs pandas: pip install"):
        walked.to_pandas()


def test_known_randomizers_are_better_than_any(hubs):
    device = shoal.RandomizedResponse(k=20, epsilon=1.0)
    epsilon = 0.7 * guarantee_after(hubs, 20, local_epsilon=1.0).epsilon
    own = guarantee_after(hubs, 20, randomizer=device, epsilon=epsilon)
    assert own.delta < 1e-6
    assert "one fixed randomizer" in own.assumptions[0]


def test_approximate_randomizers_cost_what_their_exchange_costs(hubs):
    pure = guarantee_after(hubs, 20, local_epsilon=1.0).epsilon
    near = WalkAccountant(hubs, local_epsilon=1.0, local_delta=1e-11).profile(20)
    central = shoal.amplify(local_epsilon=1.0, local_delta=1e-11, n=300).epsilon
    assert near.delta(pure * 1.01) < 1e-6 < near.delta(pure)
    assert near.delta(central) > 1e-6
    with pytest.raises(UnreachableTargetError, match="smaller local_delta"):
        guarantee_after(hubs, 20, local_epsilon=1.0, local_delta=1e-5)


def test_the_route_through_total_variation_serves_long_walks(hubs, exact):
    spread = exact.locations.after(200)
    assert spread.total_variation() < 1e-9
    routes = exact.profile(200).routes
    assert [route.theorem for route in routes] == [account.WALKED, account.NEARBY]
    one, other = (route.delta(0.25) for route in routes)
    assert one == pytest.approx(other, rel=1e-2)
    # Where the first route has nothing to say the second is returned.
    blind = Route("none", routes[0].pairs, routes[0].n, slack=1.0)
    found = WalkProfile((blind, routes[1]), lambda _: 0.0, 1.0).answer(1e-6)
    assert found[1] == account.NEARBY
    assert hubs.n == spread.n


def test_the_guarantee_states_its_adversary():
    walk = Walk(complete(100))
    text = str(guarantee_after(walk, 10, local_epsilon=1.0, quantile=0.9))
    assert "not who passed it to whom" in text
    assert "nobody who passes reports on works for the server" in text
    assert "0.9 of people" in text
    assert "10 rounds" in text
    caught = guarantee_after(walk, 10, local_epsilon=1.0, collusion=0.01)
    assert caught.n == 99
    assert any("with probability 0.01" in each for each in caught.assumptions)


def test_rounds_that_differ(hubs):
    online = np.ones((40, hubs.n), dtype=np.bool_)
    online[::2, :20] = False
    asked = {"local_epsilon": 1.0, "epsilon": 0.4}
    away = guarantee_after(Absences(hubs, online), 30, **asked)
    assert away.delta > guarantee_after(hubs, 30, **asked).delta
    changing = Varying([Walk(random_regular(100, 8, seed=s)) for s in range(6)])
    steady = guarantee_after(Walk(random_regular(100, 8, seed=0)), 6, **asked)
    assert guarantee_after(changing, 6, **asked).delta < steady.delta
    with pytest.raises(InvalidArgumentError, match="at most 6 rounds"):
        guarantee_after(changing, 7, local_epsilon=1.0)


# --------------------------------------------------------------------------------------- rounds


@pytest.mark.parametrize("quantile", [0.5, 1.0])
def test_rounds_for_is_what_scanning_finds(quantile):
    accountant = WalkAccountant(Walk(random_regular(120, 6, seed=1)), local_epsilon=1.0)
    target = 1.2 * shoal.amplify(local_epsilon=1.0, n=120, delta=1e-4).epsilon
    found = rounds_for(accountant, epsilon=target, delta=1e-4, quantile=quantile)
    kept = [
        accountant.profile(t, quantile=quantile).delta(target) <= 1e-4
        for t in range(1, found.rounds + 1)
    ]
    assert kept == [False] * (found.rounds - 1) + [True]
    assert found.guarantee.epsilon <= target
    assert found.cost.messages == found.rounds


def test_no_number_of_rounds_beats_the_shuffle():
    accountant = WalkAccountant(Walk(random_regular(120, 6, seed=1)), local_epsilon=1.0)
    limit = shoal.amplify(local_epsilon=1.0, n=120).epsilon
    with pytest.raises(UnreachableTargetError, match=f"epsilon is {limit:.6g}"):
        rounds_for(accountant, epsilon=0.9 * limit)
    with pytest.raises(UnreachableTargetError, match="not within 2 rounds"):
        rounds_for(accountant, epsilon=1.1 * limit, most=2)
    assert rounds_for(accountant, epsilon=1.0).rounds == 1


def test_what_rounds_cost():
    accountant = WalkAccountant(Walk(windmill(20)), local_epsilon=1.0)
    found = cost(accountant, 10, report_bytes=100)
    # The hub has one third of all edge ends, so one third of all 41 reports.
    assert found.most_load == pytest.approx(41 / 3)
    assert found.most_messages == pytest.approx(410 / 3)
    assert (found.bytes_sent, found.load) == (1000.0, 1.0)
    assert found.most_bytes_sent == pytest.approx(41000 / 3)


# ------------------------------------------------------------------------------------ published


def test_the_published_bound_with_one_walk_only_is_refused():
    """On a book after one round it would be false: the pages hold the two hubs' reports only."""
    pages, local, delta = 1_000_000, 0.5, 1e-6
    halves = {"delta": delta / 2, "meeting_delta": delta / 2}
    claimed = all_epsilon(local_epsilon=local, **halves, n=pages + 2, collision=1 / (pages + 1))
    # If both hubs' reports are on pages, these two are all there is. The target sends the truth
    # with probability p; the other hub's datum is 0, so its report is 1 with probability 1 - p.
    truth_of_one = math.exp(local) / (math.exp(local) + 1)
    p, q = truth_of_one, 1 - truth_of_one
    ones = [(q * p, p * p), (p * p + q * q, q * p + p * q), (p * q, q * q)]  # datum 1, datum 0
    true = (pages / (pages + 1)) ** 2 * sum(max(a - math.exp(claimed) * b, 0.0) for a, b in ones)
    assert claimed < 0.08
    assert true > 0.1
    small = Walk(Graph.from_edges([(0, 1), *((h, 2 + i) for h in (0, 1) for i in range(50))]))
    query = WalkQuery(walk=small, local_epsilon=local, delta=delta, rounds=1)
    with pytest.raises(OutOfRegimeError, match="the others' walks matter"):
        published("network-all", query)
    found = guarantee_after(small, 1, local_epsilon=local, user=0)
    assert found.epsilon == pytest.approx(local, abs=1e-4)


def test_published_bounds_are_above_ours_where_they_hold():
    walk = Walk(random_regular(600, 16, seed=3))
    query = WalkQuery(walk=walk, local_epsilon=0.2, delta=1e-6)
    ours = guarantee_after(walk, 20, local_epsilon=0.2).epsilon
    assert ours < published("network-all", query) <= 0.2
    late = WalkQuery(walk=walk, local_epsilon=0.2, delta=1e-6, rounds=20)
    assert published("network-regular", late) == pytest.approx(
        published("network-regular", query), rel=1e-3
    )
    alone = guarantee_after(walk, 20, local_epsilon=0.2, submit="single").epsilon
    assert alone < published("network-single", late) < 0.2
    uneven = WalkQuery(walk=Walk(windmill(3)), local_epsilon=1.0, delta=0.1)
    with pytest.raises(OutOfRegimeError, match="a regular graph"):
        published("network-regular", uneven)
    with pytest.raises(InvalidArgumentError, match="network-single"):
        published("network", query)


# --------------------------------------------------------------------------------------- errors


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"rounds": -1}, "0 <= rounds"),
        ({"quantile": 0.0}, "0 < quantile <= 1"),
        ({"user": 12}, "nodes 0, ..., 11"),
        ({"method": "guess"}, "'exact', 'leading' or 'spectral'"),
        ({"local_epsilon": None}, "exactly one of"),
        ({"delta": 2.0}, "0 < delta < 1"),
        ({"delta": 0.1, "epsilon": 1.0}, "not both"),
    ],
)
def test_bad_questions(changed, message):
    asked = {"rounds": 3, "local_epsilon": 1.0, **changed}
    with pytest.raises(InvalidArgumentError, match=message):
        guarantee_after(Walk(complete(12)), **asked)


def test_walks_that_cannot_be_accounted_for_so():
    with pytest.raises(InvalidArgumentError, match="account given who was there"):
        guarantee_after(Walk(ring(9), online=0.9), 3, local_epsilon=1.0)
    changing = Varying([Walk(ring(9))])
    with pytest.raises(InvalidArgumentError, match="method 'exact' for rounds that differ"):
        guarantee_after(changing, 1, local_epsilon=1.0, method="spectral")
    with pytest.raises(InvalidArgumentError, match="view 'final' for a whole profile"):
        WalkAccountant(Walk(ring(9)), local_epsilon=1.0, view="traffic").profile(3)
    with pytest.raises(InvalidArgumentError, match="a blanket law here"):
        WalkAccountant(Walk(ring(9)), randomizer=_Several()).profile(3)


class _Several:
    def profile(self, n):
        raise NotImplementedError


@pytest.mark.parametrize("kind", ["simple", "lazy", "metropolis"])
def test_looking_at_returns_leaves_the_walk_as_it_is(kind):
    """Squares of the kernel were once written into the kernel itself."""
    walk = Walk(barabasi_albert(300, 2, seed=3), kind=kind)
    before = walk.transitions.toarray()
    found = leading(walk, pairs=24, randomness=simulated(1)).chi_squared(25)
    np.testing.assert_array_equal(walk.transitions.toarray(), before)
    after = np.linalg.matrix_power(before, 25)
    law = walk.stationary
    true = (np.square(after - law) / law).sum(axis=1)
    assert (found >= true * (1 - 1e-9)).all()


def test_an_uneven_split_of_delta_is_still_a_split():
    walk = Walk(random_regular(500, 16, seed=1))
    for slack in (0.1, 0.5, 0.999):
        query = WalkQuery(walk=walk, local_epsilon=0.05, delta=1e-6, slack=slack)
        parts = {"delta": (1 - slack) * 1e-6, "meeting_delta": slack * 1e-6}
        split = all_epsilon(local_epsilon=0.05, **parts, n=500, collision=1 / 500)
        assert published("network-regular", query) == pytest.approx(min(split, 0.05), rel=1e-12)


def test_every_certificate_that_colluders_are_judged_by_may_fail():
    walk = Walk(barabasi_albert(300, 2, seed=1))
    accountant = WalkAccountant(
        walk=walk, local_epsilon=1, method="leading", collusion=0.01, randomness=simulated(1)
    )
    route = accountant.profile(8).routes[0]
    drawn = [found.failure for found in accountant.locations._computed.values()]
    assert len(drawn) == 2
    assert route.failure == pytest.approx(sum(drawn))


def test_a_walk_never_does_worse_than_a_report_by_itself():
    walk = Walk(random_regular(60, 8, seed=1))
    for submit in ("all", "single"):
        profile = WalkAccountant(walk, local_epsilon=10, submit=submit).profile(9)
        for epsilon in (0.0, 5.0, 9.9):
            alone = (math.exp(10) - math.exp(epsilon)) / (math.exp(10) + 1)
            assert profile.delta(epsilon) <= alone * (1 + 1e-9)
