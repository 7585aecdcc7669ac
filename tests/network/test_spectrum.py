from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from scipy.sparse import csr_array

from network_graphs import complete_edges, connected_graphs, dense_truth, pendant_clique, windmill
from shoal.errors import InvalidArgumentError
from shoal.network.generators import (
    barabasi_albert,
    complete,
    grid,
    random_regular,
    ring,
    watts_strogatz,
)
from shoal.network.graph import Graph
from shoal.network.spectrum import (
    Operator,
    SpectralBound,
    chebyshev_bound,
    count_above,
    cube_points,
    leading,
    spectral_bound,
    starts_for,
)
from shoal.network.walk import Walk
from shoal.randomness import simulated

METHODS = ("dense", "inertia", "random")
ROUNDING = 1e-12  # of the dense truth, which the certificates do not know


def bound(walk, method="auto", **options):
    return spectral_bound(walk, method=method, randomness=simulated(7), **options)


def two_cliques(size, bridges):
    """Nearly disconnected: an eigenvalue near 1."""
    first = complete_edges(np.arange(size))
    across = np.column_stack([np.arange(bridges), size + np.arange(bridges)])
    return Graph.from_edges(np.concatenate([first, first + size, across]))


def nearly_bipartite(size, extra):
    """A complete bipartite graph and a few edges inside one side: an eigenvalue near -1."""
    left, right = np.meshgrid(np.arange(size), size + np.arange(size))
    across = np.column_stack([left.ravel(), right.ravel()])
    inside = np.column_stack([np.arange(extra), np.arange(extra) + 1])
    return Graph.from_edges(np.concatenate([across, inside]))


HARD = {
    "two cliques": two_cliques(12, 1),
    "two cliques, five bridges": two_cliques(20, 5),
    "nearly bipartite": nearly_bipartite(15, 1),
    "less bipartite": nearly_bipartite(15, 6),
    "pendant clique": pendant_clique(200, 12),
    "windmill": windmill(60),
    "odd ring": ring(101),
    "small world": watts_strogatz(150, 4, 0.05, seed=1),
    "hubs": barabasi_albert(200, 2, seed=1),
    "expander": random_regular(150, 8),
    "tail": Graph.from_edges(np.concatenate([complete_edges(np.arange(9)), [[8, 9], [9, 10]]])),
}


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("kind", ["simple", "lazy", "metropolis"])
@pytest.mark.parametrize("name", HARD)
def test_bounds_are_above_the_truth_and_near_it(name, kind, method):
    walk = Walk(HARD[name], kind)
    truth, found = dense_truth(walk), bound(walk, method)
    assert found.value >= truth - ROUNDING
    assert 1 - found.value >= 0.9 * (1 - truth)
    assert found.failure == (1e-12 if method == "random" else 0.0)
    assert found.method == method


@given(connected_graphs(smallest=4, largest=30), st.integers(0, 2**32))
@settings(max_examples=60)
def test_no_certificate_is_below_the_truth(graph, seed):
    walk = Walk(graph, "lazy") if graph.bipartite else Walk(graph)
    truth = dense_truth(walk)
    for method in METHODS:
        found = spectral_bound(walk, method=method, randomness=simulated(seed))
        assert truth - ROUNDING <= found.value <= 1.0


def test_the_complete_graph_forgets_at_once():
    assert bound(Walk(complete(20))).value < 1e-10


def test_a_residual_is_fooled_by_a_hidden_clique_and_the_certificates_are_not():
    n, size = 6_000, 12
    walk = Walk(pendant_clique(n, size))
    operator = Operator.of(walk)
    # The clique's own vector proves from below that an eigenvalue is near 1.
    inside = operator.deflated(np.sqrt(walk.stationary) * (np.arange(walk.n) >= n))
    hidden = inside @ (operator.matrix @ inside) / (inside @ inside)
    assert hidden > 0.98
    vector = operator.deflated(cube_points(walk.n, 1, simulated(3)))[:, 0]
    vector[n:] = 0.0  # a start that sees nothing of the clique, as few steps see little of it
    for _ in range(5):
        vector = operator.deflated(operator.matrix @ vector)
        vector /= np.linalg.norm(vector)
    image = operator.matrix @ vector
    ritz = vector @ image
    assert abs(ritz) + np.linalg.norm(image - ritz * vector) < hidden - 0.2
    found = bound(walk)
    assert hidden <= found.value < 1
    assert found.method == "random"


@pytest.mark.parametrize(
    ("walk", "gap"),
    [
        (Walk(ring(5_001)), 2 * math.sin(math.pi / 5_001 / 2) ** 2),
        (Walk(grid(60, 60), "lazy"), math.sin(math.pi / 59 / 2) ** 2 / 2),
    ],
    ids=["ring", "lazy grid"],
)
def test_small_gaps_are_certified_by_counting(walk, gap):
    """Gaps that no iteration from a random start would reach: λ = cos(π/n) for a ring of odd n."""
    found = bound(walk)
    assert (found.method, found.failure) == ("inertia", 0.0)
    assert 0.95 * gap <= found.gap <= gap * (1 + 1e-6)


def symmetrised(graph):
    """1/√(d_u d_v) on the edges, whether or not a walk on them mixes."""
    return graph.weighted(1 / np.sqrt(graph.degrees[graph.rows] * graph.degrees[graph.neighbours]))


@given(connected_graphs(), st.floats(-0.99, 0.99))
def test_counts_are_those_of_dense_eigenvalues(graph, shift):
    matrix = symmetrised(graph)
    values = np.linalg.eigvalsh(matrix.toarray())
    counted = count_above(matrix, shift)
    assume(counted is not None)
    count, error = counted
    low = int((values > shift + error + ROUNDING).sum())
    high = int((values > shift - error - ROUNDING).sum())
    assert low <= count <= high


def test_counting_errors_are_small_where_no_pivot_is():
    assert count_above(symmetrised(HARD["expander"]), 0.9)[1] < 1e-11


def test_a_factorisation_that_stops_counts_nothing():
    """θ = 0 leaves zeros on the diagonal: no pivot there."""
    matrix = csr_array(np.asarray([[0.0, 1.0], [1.0, 0.0]]))
    assert count_above(matrix, 0.0) is None


def test_a_start_falls_short_no_more_often_than_stated():
    """The claim under the random certificate: |x·q| < τ with probability at most 2√2 τ."""
    for direction in (np.ones(2), np.ones(1), np.arange(1.0, 6.0)):
        q = direction / np.linalg.norm(direction)
        points = cube_points(len(q), 200_000, simulated(11))
        assert np.abs(points).max() <= 0.5
        for smallest in (0.01, 0.05):
            share = (np.abs(q @ points) < smallest).mean()
            allowed = 2 * math.sqrt(2) * smallest
            assert share <= allowed + 6 * math.sqrt(allowed / 200_000)


@pytest.mark.parametrize("failure", [0.2, 0.6])
def test_the_random_certificate_fails_no_more_often_than_stated(failure):
    """Asked for little certainty, and looking below the truth, it fails: as often as it may."""
    walk, trials = Walk(pendant_clique(60, 8, degree=8)), 300
    operator, truth = Operator.of(walk), dense_truth(walk)
    starts, smallest = starts_for(failure, walk.n)
    assert starts == 1
    points = operator.deflated(cube_points(walk.n, trials, simulated(2)))
    failed = 0
    for start in points.T:
        proved, _ = chebyshev_bound(operator, start[:, None], 0.9 * truth, smallest, 0.3)
        failed += proved < truth
    spread = 5 * math.sqrt(trials * failure)
    assert trials * failure / 2 <= failed <= trials * failure + spread


@pytest.mark.parametrize("failure", [1e-3, 1e-9, 1e-12, 1e-30])
def test_starts_are_as_many_as_the_failure_probability_needs(failure):
    starts, smallest = starts_for(failure, 10_000)
    assert (2 * math.sqrt(2) * smallest) ** starts <= failure
    assert smallest > 1e-4


def test_the_random_method_does_not_need_a_good_estimate(monkeypatch):
    walk = Walk(pendant_clique(400, 12))
    monkeypatch.setattr(Operator, "estimate", lambda *_, **__: 0.3)
    found = bound(walk, "random")
    assert dense_truth(walk) <= found.value < 1


def test_the_powers_are_rounded_up():
    assert SpectralBound(0.5, 0.0, "dense").decay(3) >= 0.125
    assert SpectralBound(1.0, 0.0, "dense").decay(10**6) == 1.0
    assert SpectralBound(0.9, 0.0, "dense").gap == pytest.approx(0.1)


@pytest.mark.parametrize(
    "options", [{"method": "guess"}, {"failure": 0.0}, {"precision": 1.0}, {"failure": 2.0}]
)
def test_impossible_requests_are_refused(options):
    with pytest.raises(InvalidArgumentError):
        spectral_bound(Walk(complete(4)), **options)


@pytest.mark.parametrize("name", ["pendant clique", "hubs", "small world", "expander", "odd ring"])
def test_leading_pairs_bound_every_power(name):
    walk = Walk(HARD[name])
    pairs = leading(walk, pairs=10, randomness=simulated(5))
    kernel = walk.transitions.toarray()
    for rounds in (1, 2, 7, 30):
        power = np.linalg.matrix_power(kernel, rounds) / walk.stationary
        for refined in (False, True):
            left, right = pairs.factors(rounds, refined=refined)
            lower = left @ right.T
            assert (lower <= power + 1e-10).all()
        chi_squared = (np.square(power) * walk.stationary).sum(axis=1) - 1
        assert (pairs.chi_squared(rounds) >= chi_squared - 1e-10).all()
    # What the vectors see is not bounded but known: with many rounds nothing is lost.
    assert np.abs(lower - power).max() < 1e-3 or pairs.remainder.value**30 > 1e-6


def test_the_remaining_eigenvalues_are_below_their_bound():
    walk = Walk(HARD["pendant clique"])
    pairs = leading(walk, pairs=5, randomness=simulated(5))
    sizes = np.sort(np.abs(np.linalg.eigvalsh(walk.symmetric.toarray())))[::-1]
    assert pairs.values == pytest.approx(sizes[:6] * np.sign(pairs.values), abs=1e-9)
    assert sizes[6] <= pairs.remainder.value < 1
    assert pairs.failure == 1e-12


def test_too_many_pairs_are_refused():
    with pytest.raises(InvalidArgumentError, match="pairs"):
        leading(Walk(complete(10)), pairs=5)
