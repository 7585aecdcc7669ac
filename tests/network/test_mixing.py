from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from network_graphs import connected_graphs, dense_truth, pendant, pendant_clique, windmill
from shoal.errors import InvalidArgumentError
from shoal.network.generators import complete, random_regular
from shoal.network.graph import Graph
from shoal.network.locations import Locations, Mixing, exact_mixing, spectral_mixing
from shoal.network.spectrum import leading, spectral_bound
from shoal.network.walk import Absences, Varying, Walk
from shoal.randomness import simulated


def dense(walk, rounds):
    laws = np.linalg.matrix_power(walk.transitions.toarray(), rounds)
    ratios = laws / walk.stationary
    return {
        "chi_squared": (np.square(ratios - 1) * walk.stationary).sum(axis=1),
        "separation": (1 - ratios).max(axis=1),
        "collision": np.square(laws).sum(axis=1),
        "minimum": laws.min(axis=0),
    }


def assert_safe(mixing, truth, *, slack=1e-13):
    assert (mixing.chi_squared >= truth["chi_squared"] - slack).all()
    assert (mixing.separation >= truth["separation"] - slack).all()
    assert (mixing.collision >= truth["collision"] - slack).all()
    assert (mixing.minimum <= truth["minimum"] + slack).all()
    assert (mixing.minimum >= 0).all()


def leading_mixing(pairs, rounds):
    """What leading eigenpairs and a bound on the rest say about everybody."""
    left, right = pairs.factors(rounds)
    ratios, law = left @ right.T, pairs.walk.stationary
    return Mixing(
        rounds=rounds,
        origins=np.arange(len(law)),
        stationary=law,
        chi_squared=pairs.chi_squared(rounds),
        separation=np.clip(1 - np.maximum(ratios.min(axis=1), 0.0), 0.0, 1.0),
        minimum=law * np.clip(ratios.min(axis=0), 0.0, 1.0),
        method="leading",
        failure=pairs.failure,
    )


def safe_walk(graph):
    return Walk(graph, "lazy") if graph.bipartite else Walk(graph)


@given(connected_graphs(), st.integers(0, 12))
def test_exact_mixing_is_that_of_dense_powers(graph, rounds):
    walk = safe_walk(graph)
    mixing, truth = exact_mixing(walk, rounds), dense(walk, rounds)
    assert_safe(mixing, truth)
    assert mixing.chi_squared == pytest.approx(truth["chi_squared"], rel=1e-9, abs=1e-12)
    assert mixing.separation == pytest.approx(truth["separation"], abs=1e-12)
    assert mixing.minimum == pytest.approx(truth["minimum"], abs=1e-12)
    assert mixing.overlap == pytest.approx(truth["minimum"].sum(), abs=1e-12)
    assert mixing.failure == 0.0


@given(connected_graphs(smallest=4), st.integers(0, 40))
@settings(max_examples=150)
def test_spectral_mixing_is_on_the_safe_side(graph, rounds):
    walk = safe_walk(graph)
    found = spectral_bound(walk, method="dense")
    assert_safe(spectral_mixing(walk, found, rounds), dense(walk, rounds), slack=1e-11)


@pytest.mark.parametrize("rounds", [0, 1, 3, 10, 40])
@pytest.mark.parametrize("seed", [1, 2])
def test_leading_mixing_is_on_the_safe_side_and_better_than_the_second_eigenvalue(rounds, seed):
    walk = Walk(pendant_clique(200, 10, degree=8, seed=seed))
    pairs = leading(walk, pairs=20, randomness=simulated(seed))
    mixing = leading_mixing(pairs, rounds)
    assert_safe(mixing, dense(walk, rounds), slack=1e-10)
    assert mixing.failure == 1e-12
    spectral = spectral_mixing(walk, spectral_bound(walk, method="dense"), rounds)
    if rounds >= 10:
        assert np.median(mixing.chi_squared) < 0.1 * np.median(spectral.chi_squared)


def test_leading_mixing_is_nearly_exact_when_the_rest_is_gone():
    walk = Walk(pendant_clique(300, 12))
    pairs = leading(walk, pairs=20, randomness=simulated(1))
    exact, found = exact_mixing(walk, 400), leading_mixing(pairs, 400)
    assert found.chi_squared == pytest.approx(exact.chi_squared, rel=1e-4, abs=1e-8)
    least = [(mixing.minimum / walk.stationary).min() for mixing in (found, exact)]
    assert least[0] == pytest.approx(least[1], abs=1e-6)


def published_collision(walk, rounds, second):
    """Σ π² + λ^(2t), as published for graphs of any degrees."""
    return np.square(walk.stationary).sum() + second ** (2 * rounds)


WINDMILL, PENDANT = Walk(windmill(500)), Walk(pendant(30))


@pytest.mark.parametrize(
    ("walk", "second", "origin", "rounds", "collision"),
    [
        (WINDMILL, 0.5, 1, 1, 0.5),
        (WINDMILL, 0.5, 0, 2, 0.25025),
        (WINDMILL, 0.5, 1, 5, 0.1196),
        (PENDANT, dense_truth(PENDANT), 29, 1, 1.0),
        (PENDANT, dense_truth(PENDANT), 29, 3, 0.035714),
    ],
)
def test_the_published_inequality_is_violated_and_the_corrected_ones_are_not(
    walk, second, origin, rounds, collision
):
    law = walk.position(origin, rounds)
    true = np.square(law).sum()
    assert true == pytest.approx(collision, rel=1e-3)
    assert true > published_collision(walk, rounds, second) * 1.01
    found = spectral_bound(walk, method="inertia", randomness=simulated(1))
    assert found.gap == pytest.approx(1 - second, rel=0.03)
    mixing = spectral_mixing(walk, found, rounds)
    assert true <= mixing.collision[origin]
    weighted = (np.square(law) / walk.stationary).sum()
    assert weighted <= (1 + mixing.chi_squared[origin]) * (1 + 1e-12)


def test_the_published_inequality_holds_on_regular_graphs():
    walk = Walk(random_regular(60, 6))
    for rounds in range(1, 10):
        true = np.square(walk.position(0, rounds)).sum()
        assert true <= published_collision(walk, rounds, dense_truth(walk))


@pytest.mark.parametrize("rounds", [1, 2, 6])
def test_corrected_collisions_follow_degrees(rounds):
    """(‖π‖ + √(d_max/d_u) λ^t)² for each origin u, or better."""
    walk = Walk(windmill(20))
    found = spectral_bound(walk, method="dense")
    degrees = walk.graph.degrees
    stated = (
        np.linalg.norm(walk.stationary) + np.sqrt(degrees.max() / degrees) * found.value**rounds
    )
    mixing = spectral_mixing(walk, found, rounds)
    assert (mixing.collision <= np.square(stated) * (1 + 1e-9)).all()
    assert (mixing.collision >= dense(walk, rounds)["collision"]).all()


def test_only_the_people_kept_count():
    walk = Walk(pendant(8))
    kept = [0, 3, 4]
    mixing, truth = exact_mixing(walk, 3, origins=kept), dense(walk, 3)
    laws = walk.positions(kept, 3)
    assert mixing.minimum == pytest.approx(laws.min(axis=0), rel=1e-12)
    assert mixing.chi_squared == pytest.approx(truth["chi_squared"][kept], rel=1e-9)
    assert mixing.origins.tolist() == kept


def test_people_are_looked_at_some_at_a_time():
    told = []
    exact_mixing(Walk(windmill(40)), 5, progress=lambda done, todo: told.append((done, todo)))
    assert told == [(64, 81), (81, 81)]


def test_one_round_on_the_complete_graph_is_perfect():
    mixing = exact_mixing(Walk(complete(50)), 1)
    assert (mixing.minimum / mixing.stationary).min() == pytest.approx(1.0, abs=1e-13)
    assert mixing.chi_squared.max() < 1e-25
    assert mixing.separation.max() < 1e-13


def test_absences_and_changing_graphs_mix_too():
    walk = Walk(random_regular(12, 4))
    absences = Absences.drawn(walk, 30, online=0.6, randomness=simulated(4))
    kernel = absences.positions(range(12), 30)
    mixing = exact_mixing(absences, 30)
    assert mixing.minimum == pytest.approx(kernel.min(axis=0), rel=1e-12)
    assert mixing.chi_squared.max() > exact_mixing(walk, 30).chi_squared.max()
    varying = Varying([walk, Walk(random_regular(12, 3, seed=1))])
    assert exact_mixing(varying, 2).chi_squared.max() > 0
    assert np.array_equal(Locations(absences).after(30).minimum > 0, mixing.minimum > 0)
    with pytest.raises(InvalidArgumentError, match="at most 2"):
        exact_mixing(varying, 3)


def test_what_all_have_in_common_needs_no_stationary_law():
    varying = Varying([Walk(pendant(6)), Walk(complete(6)), Walk(windmill_of_six())])
    kernel = varying.positions(range(6), 3)
    common = Locations(varying).after(3).minimum
    assert common == pytest.approx(kernel.min(axis=0), rel=1e-12)
    assert (common <= kernel.min(axis=0)).all()


def windmill_of_six():
    return Graph.from_edges([[0, 1], [1, 2], [2, 0], [0, 3], [3, 4], [4, 0], [0, 5]])


def test_absences_are_slower_but_never_unsafe_in_their_rounding():
    walk = Walk(windmill(3))
    everybody = Absences(walk, np.ones((9, 7), dtype=bool))
    assert everybody.position(2, 9) == pytest.approx(walk.position(2, 9), rel=1e-14)
    assert everybody.rounding(9) > walk.rounding(9)


@pytest.mark.parametrize("rounds", [-1, 1.5])
def test_impossible_rounds_are_refused(rounds):
    walk = Walk(complete(4))
    found = spectral_bound(walk)
    with pytest.raises(InvalidArgumentError, match="rounds"):
        exact_mixing(walk, rounds)
    with pytest.raises(InvalidArgumentError, match="rounds"):
        spectral_mixing(walk, found, rounds)
    for origins in ([4], np.empty(0, dtype=int)):
        with pytest.raises(InvalidArgumentError, match="origins"):
            exact_mixing(walk, 1, origins=origins)
