"""Stronger adversaries and another way to submit, against everything listed."""

from __future__ import annotations

import itertools
import math
from collections import defaultdict

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import shoal
from brute import response
from network_graphs import guarantee_after
from shoal.accounting.integral import enclose
from shoal.accounting.law import BlanketLaw
from shoal.errors import InvalidArgumentError
from shoal.network import account
from shoal.network.account import WalkAccountant
from shoal.network.generators import complete, random_regular
from shoal.network.graph import Graph
from shoal.network.profile import Reports, Weights, positive_part
from shoal.network.walk import Walk
from shoal.randomness import simulated
from walk_brute import divergence, tiny_walk, worst_delta

RESPONSE = BlanketLaw.randomized_response(k=2, epsilon=1.0)
TABLE = response(2, 1.0)


def lollipop():
    return Walk(Graph.from_edges([(0, 1), (1, 2), (2, 0), (2, 3)]))


def caught_by_chance(walk, rounds, probability):
    """Laws of (round before the first colluder, where), flattened, for everybody."""
    people = range(walk.n)
    parts = [
        probability * (1 - probability) ** before * walk.positions(people, before)
        for before in range(rounds)
    ]
    return np.hstack([*parts, (1 - probability) ** rounds * walk.positions(people, rounds)])


def caught_by_name(walk, rounds, colluders):
    honest = [node for node in range(walk.n) if node not in colluders]
    steps = walk.transitions.toarray()[honest]
    within, leaving = steps[:, honest], steps[:, colluders].sum(axis=1)
    laws, parts = np.eye(len(honest)), []
    for _ in range(rounds):
        parts.append(laws * leaving)
        laws = laws @ within
    return np.hstack([*parts, laws])


@pytest.mark.parametrize("seed", range(8))
def test_colluders_met_by_chance(seed):
    source = np.random.default_rng(seed)
    walk, rounds = tiny_walk(source, 3), int(source.integers(1, 6))
    labels = caught_by_chance(walk, rounds, 0.2)
    truth = worst_delta(labels, TABLE, target=1, epsilons=[0.2])[0]
    # One of three people may collude, so two are counted on: that only adds to the bound.
    accountant = WalkAccountant(walk, randomizer=RESPONSE, collusion=0.2)
    found = accountant.profile(rounds, user=1)
    assert truth <= found.routes[0].delta(0.2) * (1 + 1e-9)


@pytest.mark.parametrize("seed", range(8))
def test_colluders_by_name(seed):
    source = np.random.default_rng(100 + seed)
    walk, rounds = tiny_walk(source, 4), int(source.integers(1, 6))
    labels = caught_by_name(walk, rounds, [2])
    own = WalkAccountant(walk, randomizer=RESPONSE, collusion=[2])
    everybody = own.profile(rounds).routes[0].delta(0.2)
    for place, user in enumerate((0, 1, 3)):
        truth = worst_delta(labels, TABLE, target=place, epsilons=[0.2])[0]
        found = own.profile(rounds, user=user)
        assert found.n == 3
        assert truth <= found.routes[0].delta(0.2) * (1 + 1e-9)
        assert found.routes[0].delta(0.2) <= everybody * (1 + 1e-6)


def test_averaging_the_deltas_of_caught_walks_is_no_bound():
    """Σ p_s δ_s + (1 - c)^t δ_t counts everybody as caught in the same round; they are not."""
    walk, rounds, probability = Walk(complete(3, loops=False)), 2, 0.1
    epsilon = 0.3

    def worst(laws):
        return worst_delta(laws, TABLE, target=0, epsilons=[epsilon])[0]

    truth = worst(caught_by_chance(walk, rounds, probability))
    each = [worst(walk.positions(range(3), t)) for t in range(rounds + 1)]
    averaged = probability * each[0] + probability * (1 - probability) * each[1]
    averaged += (1 - probability) ** 2 * each[2]
    assert truth > averaged * 1.001
    accountant = WalkAccountant(walk, randomizer=RESPONSE, collusion=probability)
    found = accountant.profile(rounds, user=0)
    assert truth <= found.routes[0].delta(epsilon)


def test_more_colluders_are_worse_and_none_is_the_plain_walk():
    walk = Walk(random_regular(200, 8, seed=2))
    plain = guarantee_after(walk, 10, local_epsilon=1.0, delta=1e-3)
    found = [
        WalkAccountant(walk, local_epsilon=1.0, collusion=c).profile(10).delta(plain.epsilon)
        for c in (1e-12, 1e-4, 1e-2)
    ]
    # One percent of epsilon is worth about ten of this delta.
    assert found[0] == pytest.approx(1e-3, rel=0.1)
    assert plain.delta <= found[0] * (1 + 1e-6)
    assert found == sorted(found)
    named = WalkAccountant(walk, local_epsilon=1.0, collusion=[5])
    # The neighbours of a colluder are caught at the first step with probability 1/8.
    assert named.profile(10).routes[0].delta(0.9) >= 0.01 / 8


def test_long_walks_are_bad_among_colluders():
    accountant = WalkAccountant(
        walk=Walk(random_regular(100, 8, seed=3)), local_epsilon=1.0, collusion=0.01
    )
    found = [accountant.profile(rounds).delta(0.8) for rounds in (1, 6, 60)]
    assert found[1] < found[0]
    # The first step is from home: that much is lost however long the walk.
    assert found[2] >= 0.01 * (math.e - math.exp(0.8)) / (math.e + 1)


# ------------------------------------------------------------------------ one report a holder


def single_truth(walk, rounds, target, epsilons, data):
    """All walks, all choices, dummies of datum 0: what each holder submits, as a vector."""
    positions = walk.positions(range(walk.n), rounds)
    worst = np.zeros(len(epsilons))
    views = []
    for x in (0, 1):
        inputs = list(data)
        inputs.insert(target, x)
        view = defaultdict(float)
        for holders in itertools.product(range(walk.n), repeat=walk.n):
            chance = math.prod(positions[u][v] for u, v in enumerate(holders))
            if chance > 0:
                _add_submissions(view, holders, inputs, chance)
        views.append(view)
    for one, other in (views, views[::-1]):
        worst = np.maximum(worst, [divergence(one, other, epsilon) for epsilon in epsilons])
    return worst


def _add_submissions(view, holders, inputs, chance):
    held = [
        [inputs[u] for u, place in enumerate(holders) if place == v] or [0]
        for v in range(len(holders))
    ]
    laws = [np.mean([TABLE[x] for x in lot], axis=0) for lot in held]
    for outputs in itertools.product(range(2), repeat=len(laws)):
        view[outputs] += chance * math.prod(law[y] for law, y in zip(laws, outputs, strict=True))


@pytest.mark.parametrize("seed", range(6))
def test_one_report_a_holder(seed):
    source = np.random.default_rng(seed)
    nodes, rounds = int(source.integers(2, 4)), int(source.integers(1, 5))
    walk = tiny_walk(source, nodes)
    accountant = WalkAccountant(walk, randomizer=RESPONSE, submit="single")
    found = accountant.profile(rounds, user=0)
    bound = [found.routes[0].delta(epsilon) for epsilon in (0.0, 0.3)]
    for data in itertools.product((0, 1), repeat=nodes - 1):
        truth = single_truth(walk, rounds, 0, (0.0, 0.3), data)
        assert (truth <= np.array(bound) * (1 + 1e-9)).all()


@settings(deadline=None, derandomize=True, max_examples=40)
@given(seed=st.integers(0, 2**32), holders=st.integers(1, 5), epsilon=st.floats(0.0, 0.95))
def test_the_sum_of_unequal_weights_is_enclosed(seed, holders, epsilon):
    law = np.random.default_rng(seed).dirichlet(np.ones(holders))
    (pair,) = RESPONSE.pairs
    values = [*pair.values(epsilon), 0.0]
    chances = [*pair.mass, 1 - pair.mass.sum()]
    exact = 0.0
    for draws in itertools.product(range(3), repeat=holders):
        total = sum(p * values[i] for p, i in zip(law, draws, strict=True))
        exact += max(total, 0.0) * math.prod(chances[i] for i in draws)
    sums = np.append(0.0, np.cumsum(np.sort(law)[::-1]))
    sums[-1] = 1.0
    found = positive_part(pair, Weights(sums), epsilon)
    assert exact <= found <= 1.25 * exact + 0.02


def test_equal_weights_are_the_shuffle():
    n = 1000
    shares = Weights(np.arange(n + 1) / n)
    (pair,) = BlanketLaw.generic(1.0).pairs
    for epsilon in (0.05, 0.15, 0.3):
        central = enclose(pair, n=n, epsilon=epsilon)
        found = positive_part(pair, shares, epsilon)
        assert central.lower <= found <= central.upper * 1.01


def test_several_people_are_covered_by_one_vector():
    source = np.random.default_rng(8)
    rows = source.dirichlet(np.full(40, 0.6), size=6)
    sums = np.zeros(41)
    for row in rows:
        sums[1:] = np.maximum(sums[1:], np.cumsum(np.sort(row)[::-1]))
    sums[-1] = 1.0
    (pair,) = RESPONSE.pairs
    together = positive_part(pair, Weights(sums), 0.1)
    for row in rows:
        alone = np.append(0.0, np.cumsum(np.sort(row)[::-1]))
        assert positive_part(pair, Weights(alone), 0.1) <= together * 1.005


def test_one_report_a_holder_on_a_mixed_regular_graph_is_the_shuffle():
    walk = Walk(random_regular(300, 16, seed=4))
    found = guarantee_after(walk, 20, local_epsilon=1.0, submit="single")
    central = shoal.amplify(local_epsilon=1.0, n=300).epsilon
    assert found.epsilon == pytest.approx(central, rel=1e-3)
    assert any("fixed datum" in text for text in found.assumptions)


# ---------------------------------------------------------------------------- who passes to whom


def trajectories(walk, origin, rounds):
    """Paths and their probabilities."""
    paths = [((origin,), 1.0)]
    steps = walk.transitions.toarray()
    for _ in range(rounds):
        paths = [
            ((*path, v), p * steps[path[-1], v])
            for path, p in paths
            for v in np.flatnonzero(steps[path[-1]])
        ]
    return paths


def traffic_truth(walk, rounds, epsilon):
    """Person 0's δ when every edge used is seen, reports only in the end; worst data."""
    people = walk.n
    paths = [trajectories(walk, origin, rounds) for origin in range(people)]
    worst = 0.0
    for data in itertools.product((0, 1), repeat=people - 1):
        views = [defaultdict(float), defaultdict(float)]
        for routes in itertools.product(*paths):
            chance = math.prod(p for _, p in routes)
            edges = tuple(
                tuple(sorted((path[s], path[s + 1]) for path, _ in routes)) for s in range(rounds)
            )
            for outputs in itertools.product((0, 1), repeat=people):
                rest = math.prod(TABLE[x][y] for x, y in zip(data, outputs[1:], strict=True))
                ends = tuple(
                    sorted((path[-1], y) for (path, _), y in zip(routes, outputs, strict=True))
                )
                for x in (0, 1):
                    views[x][edges, ends] += chance * rest * TABLE[x][outputs[0]]
        worst = max(worst, divergence(*views, epsilon), divergence(*views[::-1], epsilon))
    return worst


def traffic_bound(walk, rounds, epsilon):
    """E_traffic E[(Σ w X)_+], its Hoeffding form, and E Σ w², all listed."""
    (pair,) = RESPONSE.pairs
    kept, people = float(pair.mass.sum()), walk.n
    values = kept * pair.values(epsilon)
    exact, eased, squares = 0.0, 0.0, 0.0
    drift, length = math.exp(epsilon) - 1, float(np.ptp(values))
    for alike in itertools.product((False, True), repeat=people - 1):
        crowd = [0, *(u + 1 for u, same in enumerate(alike) if same)]
        share = math.prod(kept if same else 1 - kept for same in alike)
        for routes in itertools.product(*(trajectories(walk, u, rounds) for u in crowd)):
            chance = share * math.prod(p for _, p in routes)
            weights = np.array([1.0] + [0.0] * (len(crowd) - 1))
            for s in range(1, rounds + 1):
                weights = account.averaged(weights, np.array([path[s] for path, _ in routes]))
            squares += chance * float(weights @ weights)
            outcomes = itertools.product(values, repeat=len(crowd))
            mean = np.mean([max(float(weights @ np.array(x)), 0.0) for x in outcomes])
            exact += chance * float(mean)
            crowd_size = np.array([1 / float(weights @ weights)])
            eased += chance * float(account.positive_part(crowd_size, drift, length)[0])
    return exact, eased, squares


@pytest.mark.parametrize(
    ("edges", "rounds"), [([(0, 0), (0, 1), (1, 2)], 2), ([(0, 0), (0, 1)], 4)]
)
def test_a_server_that_sees_the_traffic(edges, rounds):
    walk = Walk(Graph.from_edges(edges, keep_loops=True))
    truth = traffic_truth(walk, rounds, 0.2)
    exact, eased, squares = traffic_bound(walk, rounds, 0.2)
    assert truth <= exact * (1 + 1e-9)
    assert exact <= eased
    # Seeing the traffic is worse than not seeing it.
    unseen = worst_delta(walk.positions(range(walk.n), rounds), TABLE, target=0, epsilons=[0.2])
    assert truth >= unseen[0] * (1 - 1e-9)
    asked = {"reports": Reports(randomizer=RESPONSE), "randomness": simulated(7)}
    found = account.simulated_traffic(walk, rounds, user=0, runs=40_000, **asked)
    deviation = float((1 / found.crowds).std()) / 200
    assert float((1 / found.crowds).mean()) == pytest.approx(squares, abs=6 * deviation + 1e-12)
    assert found.delta(0.2, failure=1e-6) >= truth


def test_traffic_guarantees_are_for_large_deltas_and_one_person():
    walk = Walk(random_regular(60, 8, seed=5))
    asked = {"local_epsilon": 1.0, "view": "traffic", "user": 3, "randomness": simulated(1)}
    found = guarantee_after(walk, 30, delta=0.02, runs=4000, **asked)
    hidden = guarantee_after(walk, 30, local_epsilon=1.0, delta=0.02, user=3)
    assert hidden.epsilon < found.epsilon < 1.0
    assert "sees who passes to whom" in found.trust
    # 4000 runs say nothing about δ = 1e-6: all that is left is each report by itself.
    small = guarantee_after(walk, 2, runs=100, **asked)
    assert small.epsilon == pytest.approx(1.0, abs=1e-4)
    with pytest.raises(InvalidArgumentError, match="a person to follow"):
        guarantee_after(walk, 2, local_epsilon=1.0, view="traffic")


def test_the_mean_bound_is_the_inverse_of_a_tail():
    for average, runs in ((0.0, 100), (0.1, 1000)):
        mean = account.mean_bound(average, runs, 1e-6)
        from scipy.stats import binom

        # Coins are the extreme case: so few heads have at most that probability.
        assert binom.cdf(average * runs, runs, mean) <= 1e-6 * (1 + 1e-6)
        assert mean <= average + math.sqrt(-math.log(1e-6) / (2 * runs))
    assert account.mean_bound(1.0, 10, 0.1) == 1.0


def test_reports_move_as_the_walk_says():
    walk = Walk(lollipop().graph, kind="lazy", stay=0.25)
    mover = account.mover(walk)
    chances = (np.arange(100_000) + 0.5) / 100_000
    for origin in range(4):
        went = np.bincount(mover(np.full(chances.size, origin), chances), minlength=4)
        assert np.allclose(went / chances.size, walk.transitions.toarray()[origin], atol=2e-5)


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"view": "all"}, "'final' or 'traffic'"),
        ({"submit": "some"}, "'all' or 'single'"),
        ({"collusion": 1.0}, "collusion < 1"),
        ({"collusion": [9]}, "nodes 0, ..., 3"),
        ({"collusion": [0, 1, 2, 3]}, "at least one honest person"),
        ({"collusion": 0.1, "submit": "single"}, "only one of"),
        ({"collusion": [1], "user": 1}, "an honest person"),
        ({"collusion": [1], "quantile": 0.5}, "with named colluders"),
    ],
)
def test_what_cannot_be_asked(changed, message):
    with pytest.raises(InvalidArgumentError, match=message):
        guarantee_after(lollipop(), 3, local_epsilon=1.0, **changed)
