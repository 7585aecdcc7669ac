"""A walk as a blanket law: never below the truth, and the uniform shuffle where it should be."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import linprog

import shoal
from brute import response
from network_graphs import guarantee_after
from shoal.accounting.exact import worst_shuffle
from shoal.accounting.law import BlanketLaw
from shoal.accounting.profile import PrivacyProfile
from shoal.network import law
from shoal.network.account import WalkAccountant
from shoal.network.generators import complete, ring
from shoal.network.graph import Graph
from shoal.network.law import Floor, Moments, StopLoss
from shoal.network.walk import Absences, Walk
from shoal.randomness import simulated
from walk_brute import tiny_walk, worst_delta


def book(pages):
    """K_{1,1,k}: two hubs joined to each other and to all pages."""
    hubs = [(0, 1)]
    return Graph.from_edges(hubs + [(hub, 2 + page) for hub in (0, 1) for page in range(pages)])


def walked_delta(process, rounds, *, epsilons, user, randomizer):
    found = WalkAccountant(process, randomizer=randomizer).profile(rounds, user=user)
    return [found.routes[0].delta(epsilon) for epsilon in epsilons]


@pytest.mark.parametrize("systems", [100, pytest.param(1000, marks=pytest.mark.slow)])
def test_no_tiny_system_has_a_true_delta_above_the_bound(systems):
    source = np.random.default_rng(2204)
    close = 0
    for _ in range(systems):
        k = int(source.integers(2, 4))
        nodes = int(source.integers(2, 5 if k == 2 else 4))
        walk, rounds = tiny_walk(source, nodes), int(source.integers(1, 7))
        user, local = int(source.integers(nodes)), float(source.uniform(0.3, 2.5))
        epsilons = [0.0, float(source.uniform(0.1, 0.7)) * local]
        positions = walk.positions(np.arange(nodes), rounds)
        truth = worst_delta(positions, response(k, local), target=user, epsilons=epsilons)
        own = BlanketLaw.randomized_response(k=k, epsilon=local)
        bound = walked_delta(walk, rounds, epsilons=epsilons, user=user, randomizer=own)
        assert (truth <= np.array(bound) * (1 + 1e-9) + 1e-13).all()
        close += bool((truth >= 0.9 * np.array(bound)).all())
    # A bound that is never near the truth would pass the test above, too.
    assert close > systems / 4


@settings(deadline=None, derandomize=True, max_examples=40)
@given(st.data())
def test_walks_that_are_not_reversible_and_any_randomizer(data):
    source = np.random.default_rng(data.draw(st.integers(0, 2**32)))
    nodes = data.draw(st.integers(2, 3))
    positions = source.dirichlet(np.full(nodes, 0.7), size=nodes)
    table = source.dirichlet(np.ones(3), size=2)
    truth = worst_delta(positions, table, target=0, epsilons=[0.0, 0.3])
    minimum = positions.min(axis=0)
    at = law.points(float((positions[0] / minimum).max()))
    losses = law.stop_loss(positions[:1], minimum, at)
    losses[0] = 1.0
    pairs = law.walk_pairs(BlanketLaw.from_table(table), StopLoss(at, losses))
    bound = [
        max(shoal.accounting.integral.enclose(pair, n=nodes, epsilon=e).upper for pair in pairs)
        for e in (0.0, 0.3)
    ]
    assert (truth <= np.array(bound) * (1 + 1e-9)).all()


def test_a_walk_that_has_forgotten_its_origin_is_the_uniform_shuffle():
    walk = Walk(Graph.from_edges([(0, 1), (1, 2), (2, 0), (2, 3)]))
    for k, local in ((2, 1.0), (3, 2.0)):
        own = BlanketLaw.randomized_response(k=k, epsilon=local)
        central = PrivacyProfile(own, 4)
        late = WalkAccountant(walk, randomizer=own).profile(400)
        for epsilon in (0.0, 0.2, 0.5 * local):
            assert late.delta(epsilon) == pytest.approx(central.delta(epsilon), rel=1e-6)


def test_the_truth_on_a_triangle_with_a_pendant_tends_to_the_shuffle():
    walk = Walk(Graph.from_edges([(0, 1), (1, 2), (2, 0), (2, 3)]))
    table = response(2, 1.0)
    truth = worst_delta(walk.positions(range(4), 200), table, target=3, epsilons=[0.2])[0]
    shuffled = worst_shuffle(table, n=4, epsilon=0.2)
    assert truth == pytest.approx(shuffled, abs=1e-9)


@pytest.mark.parametrize("n", [20, 300])
def test_a_complete_graph_with_loops_needs_one_round(n):
    found = guarantee_after(Walk(complete(n)), 1, local_epsilon=1.0)
    central = shoal.amplify(local_epsilon=1.0, n=n)
    assert found.epsilon == pytest.approx(central.epsilon, abs=2e-8)
    assert found.n == n


@pytest.mark.parametrize("randomizer", [None, shoal.RandomizedResponse(k=5, epsilon=1.0)])
def test_weight_one_is_the_uniform_shuffle_to_the_last_digits(randomizer):
    base = BlanketLaw.generic(1.0) if randomizer is None else randomizer.law()
    pairs = law.walk_pairs(base, StopLoss(np.array([0.0, 1.0]), np.array([1.0, 0.0])))
    assert pairs == base.pairs
    for n in (10, 10_000):
        same = PrivacyProfile(BlanketLaw(pairs), n)
        assert same.epsilon(1e-6) == pytest.approx(PrivacyProfile(base, n).epsilon(1e-6), abs=1e-9)


def test_the_hub_of_a_book_is_not_hidden_after_one_round():
    walk = Walk(book(50))
    hub = guarantee_after(walk, 1, local_epsilon=0.5, user=0)
    assert hub.epsilon == pytest.approx(0.5, rel=1e-4)
    assert guarantee_after(walk, 1, local_epsilon=0.5).epsilon <= 0.5
    later = guarantee_after(walk, 900, local_epsilon=0.5, delta=1e-3, user=0)
    central = shoal.amplify(local_epsilon=0.5, n=52, delta=1e-3)
    assert later.epsilon == pytest.approx(central.epsilon, rel=1e-4)


def test_lost_mass_is_counted():
    """Three nodes in a path, one round: the end's report is with the middle, where all may be.

    The middle's own goes to an end, where nobody else's ever is.
    """
    walk = Walk(Graph.from_edges([(0, 0), (0, 1), (1, 2)], keep_loops=True))
    table, own = response(2, 1.0), BlanketLaw.randomized_response(k=2, epsilon=1.0)
    positions = walk.positions(range(3), 1)
    truth = worst_delta(positions, table, target=1, epsilons=[0.3])[0]
    found = walked_delta(walk, 1, epsilons=[0.3], user=1, randomizer=own)[0]
    lost = float(positions[1][positions.min(axis=0) == 0].sum())
    alone = (math.e - math.exp(0.3)) / (math.e + 1)
    assert lost == 1.0
    assert truth <= found * (1 + 1e-9)
    assert found == pytest.approx(alone, rel=1e-9)


def test_partly_lost_mass_is_not_forgotten():
    # Without the lost part the bound would be far below the truth.
    positions = np.array([[0.5, 0.5, 0.0], [0.5, 0.0, 0.5], [0.5, 0.25, 0.25]])
    table = response(2, 1.0)
    truth = worst_delta(positions, table, target=0, epsilons=[0.3])[0]
    minimum = positions.min(axis=0)
    at = law.points(1.0)
    losses = law.stop_loss(positions[:1], minimum, at)
    losses[0] = 1.0
    (pair,) = law.walk_pairs(BlanketLaw.randomized_response(k=2, epsilon=1.0), StopLoss(at, losses))
    found = shoal.accounting.integral.enclose(pair, n=3, epsilon=0.3)
    assert truth <= found.upper
    assert found.upper - pair.lost_divergence(0.3).upper < truth


def test_delta_never_grows_with_the_rounds():
    for graph in (ring(9), book(6), Graph.from_edges([(0, 1), (1, 2), (2, 0), (2, 3), (3, 4)])):
        accountant = WalkAccountant(Walk(graph), local_epsilon=1.0)
        found = [accountant.profile(rounds).delta(0.3) for rounds in range(1, 16)]
        assert all(after <= before * (1 + 1e-6) for before, after in itertools.pairwise(found))
        assert found[-1] < 0.9 * found[0]


def test_one_law_covers_everybody_of_a_group():
    accountant = WalkAccountant(Walk(book(8)), local_epsilon=1.0)
    people = accountant.locations.after(6).order
    for quantile in (0.3, 1.0):
        group = accountant.profile(6, quantile=quantile).delta(0.4)
        covered = people[: math.ceil(quantile * 10)]
        each = [accountant.profile(6, user=int(user)).delta(0.4) for user in covered]
        assert max(each) <= group * (1 + 1e-6)
        assert group <= max(each) * 1.05


def test_given_who_was_online_the_bound_holds():
    walk = Walk(Graph.from_edges([(0, 1), (1, 2), (2, 0), (0, 0)], keep_loops=True))
    process = Absences.drawn(walk, 4, online=0.6, randomness=simulated(3))
    own = BlanketLaw.randomized_response(k=2, epsilon=1.0)
    for user in range(3):
        positions = process.positions(range(3), 4)
        truth = worst_delta(positions, response(2, 1.0), target=user, epsilons=[0.2])[0]
        bound = walked_delta(process, 4, epsilons=[0.2], user=user, randomizer=own)[0]
        assert truth <= bound * (1 + 1e-9)


@settings(deadline=None, derandomize=True, max_examples=60)
@given(
    variance=st.floats(1e-6, 5.0),
    lowest=st.floats(0.0, 0.99),
    above=st.floats(0.01, 20.0),
)
def test_moments_allow_no_more_than_is_said_and_nearly_that(variance, lowest, above):
    highest = 1 + above
    if variance > (highest - 1) * (1 - lowest):
        return  # no such law
    known = Moments(variance, lowest, highest)
    at = np.linspace(0.0, highest * 1.1, 23)
    said = known.stop_loss(at)
    values = np.append(np.linspace(lowest, highest, 400), 1.0)
    moments = np.vstack([np.ones_like(values), values])
    for point, bound in zip(at[::7], said[::7], strict=True):
        found = linprog(
            -np.maximum(values - point, 0.0),
            A_eq=moments,
            b_eq=[1.0, 1.0],
            A_ub=[np.square(values - 1)],
            b_ub=[variance],
        )
        assert -found.fun <= bound + 1e-7
        spacing = (highest - lowest) / 400
        assert bound <= -found.fun + 2 * spacing + 1e-7


@settings(deadline=None, derandomize=True, max_examples=40)
@given(st.integers(0, 2**32))
def test_moments_are_above_the_laws_they_are_of(seed):
    source = np.random.default_rng(seed)
    stationary = source.dirichlet(np.ones(30))
    ratios = source.gamma(3.0, size=30)
    ratios /= stationary @ ratios
    minimum = stationary * ratios * source.uniform(0.2, 1.0, size=30)
    minimum[:2] = 0.0
    at = law.points(50.0)
    exact = law.stop_loss((stationary * ratios)[None], minimum, at)
    variance = float(stationary @ np.square(ratios - 1))
    known = Moments(variance, float((minimum / stationary).min()), float(ratios.max()))
    assert (exact[1:] <= Floor(minimum, stationary).stop_loss(known, at)[1:] + 1e-12).all()


def test_atoms_have_the_stop_loss_they_were_made_of():
    source = np.random.default_rng(5)
    weights, masses = 1 + source.gamma(1.0, size=40), source.dirichlet(np.ones(40))
    masses *= 0.98 / float(masses @ weights)
    at = law.points(float(weights.max()), count=60)
    values = np.array([float(masses @ np.maximum(weights - k, 0.0)) + 0.02 for k in at])
    found, mass, lost = StopLoss(at, values).atoms
    assert lost == pytest.approx(0.02)
    assert float(mass @ found) + lost == pytest.approx(1.0, abs=1e-13)
    again = [float(mass @ np.maximum(found - k, 0.0)) + lost for k in at]
    assert np.allclose(again, values, atol=1e-12)
    between = np.linspace(1, float(weights.max()), 333)
    truth = [float(masses @ np.maximum(weights - k, 0.0)) for k in between]
    chords = [float(mass @ np.maximum(found - k, 0.0)) for k in between]
    assert (np.array(chords) >= np.array(truth) - 1e-12).all()


def test_more_points_change_little():
    source = np.random.default_rng(6)
    row = source.dirichlet(np.full(500, 0.5))
    minimum = np.minimum(row, 0.4 / 500)
    answers = []
    for count in (40, 160, 640):
        at = law.points(float((row / minimum).max()), count=count)
        losses = law.stop_loss(row[None], minimum, at)
        losses[0] = 1.0
        pairs = law.walk_pairs(BlanketLaw.generic(1.0), StopLoss(at, losses))
        answers.append(shoal.accounting.integral.enclose(pairs[0], n=500, epsilon=0.5).upper)
    assert answers[0] >= answers[1] * (1 - 1e-3) >= answers[2] * (1 - 2e-3)
    assert answers[1] == pytest.approx(answers[2], rel=0.02)
