from __future__ import annotations

from fractions import Fraction
from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from network_graphs import connected_graphs, windmill
from shoal.errors import InvalidArgumentError
from shoal.network.generators import complete, grid, random_regular, ring
from shoal.network.graph import Graph
from shoal.network.walk import Absences, Varying, Walk
from shoal.randomness import simulated

KINDS = ("simple", "lazy", "metropolis")
TRIANGLE_WITH_TAIL = Graph.from_edges([[0, 1], [1, 2], [2, 0], [2, 3]])


def walk_on(graph, kind="simple", **options):
    """The walk, made lazy if it could not be otherwise."""
    if graph.bipartite and kind == "simple":
        kind = "lazy"
    if kind == "metropolis" and graph.bipartite:
        options.setdefault("online", 0.5)
    return Walk(graph, kind, **options)


def dense_kernel(graph, kind, stay):
    adjacency = graph.adjacency.toarray()
    degrees = adjacency.sum(axis=1)
    if kind == "metropolis":
        kernel = adjacency * np.minimum(1 / degrees[:, None], 1 / degrees[None, :])
        return kernel + np.diag(1 - kernel.sum(axis=1))
    simple = adjacency / degrees[:, None]
    return simple if kind == "simple" else stay * np.eye(graph.n) + (1 - stay) * simple


@given(connected_graphs(), st.sampled_from(KINDS), st.floats(0.05, 1.0), st.integers(0, 9))
def test_kernels_and_positions_agree_with_dense_matrices(graph, kind, online, rounds):
    walk = walk_on(graph, kind, online=online)
    kernel = dense_kernel(graph, walk.kind, walk.stay)
    kernel = walk.online**2 * kernel + (1 - walk.online**2) * np.eye(graph.n)
    assert walk.transitions.toarray() == pytest.approx(kernel, abs=1e-14)
    assert walk.stationary @ kernel == pytest.approx(walk.stationary, abs=1e-14)
    root = np.sqrt(walk.stationary)
    assert walk.symmetric.toarray() == pytest.approx(kernel * root[:, None] / root, abs=1e-13)
    bits = walk.symmetric.toarray()
    assert np.array_equal(bits, bits.T)
    power = np.linalg.matrix_power(kernel, rounds)
    assert walk.position(1, rounds) == pytest.approx(power[1], abs=1e-13)
    assert walk.positions([2, 0, 2], rounds) == pytest.approx(power[[2, 0, 2]], abs=1e-13)


@pytest.mark.parametrize("kind", KINDS)
def test_the_stated_rounding_error_covers_the_true_one(kind):
    graph = windmill(3)
    walk = Walk(graph, kind, stay=0.25 if kind == "lazy" else None)
    size, rounds = range(graph.n), 12
    degrees = [int(degree) for degree in graph.degrees]
    exact = [[Fraction(0)] * graph.n for _ in size]
    for u, v in zip(graph.rows.tolist(), graph.neighbours.tolist(), strict=True):
        exact[u][v] = Fraction(
            1, max(degrees[u], degrees[v]) if kind == "metropolis" else degrees[u]
        )
    stay = Fraction(1, 4) if kind == "lazy" else Fraction(0)
    exact = [[(1 - stay) * entry for entry in row] for row in exact]
    for u in size:
        exact[u][u] += 1 - sum(exact[u])
    law = [Fraction(int(node == 1)) for node in size]
    for _ in range(rounds):
        law = [sum(law[u] * exact[u][v] for u in size) for v in size]
    computed = walk.position(1, rounds)
    bound = walk.rounding(rounds)
    for found, true in zip(computed.tolist(), law, strict=True):
        assert abs(Fraction(found) - true) <= Fraction(bound) * true
    assert 0 < bound < 1e-12
    assert walk.rounding(2 * rounds) >= 2 * bound * (1 - 1e-9)


@pytest.mark.parametrize("kind", KINDS)
def test_every_pattern_of_absences_keeps_the_stationary_law(kind):
    walk = walk_on(TRIANGLE_WITH_TAIL, kind)
    kernel = walk.transitions.toarray()
    for pattern in product([False, True], repeat=4):
        here = np.asarray(pattern)
        absences = Absences(walk, here[None, :])
        round_kernel = absences.positions(range(4), 1)
        both = here[:, None] & here[None, :] & ~np.eye(4, dtype=bool)
        expected = np.where(both, kernel, 0.0)
        expected += np.diag(1 - expected.sum(axis=1))
        assert round_kernel == pytest.approx(expected, abs=1e-15)
        assert walk.stationary @ round_kernel == pytest.approx(walk.stationary, abs=1e-15)
        # Nobody absent: exactly nothing stays, no rounding residue.
        if here.all():
            assert np.array_equal(round_kernel > 0, kernel > 0)


def test_choosing_among_those_online_would_not_keep_it():
    here = np.asarray([True, True, True, False])
    adjacency = TRIANGLE_WITH_TAIL.adjacency.toarray() * here[:, None] * here[None, :]
    kernel = adjacency / np.maximum(adjacency.sum(axis=1), 1)[:, None] + np.diag(1.0 * ~here)
    law = TRIANGLE_WITH_TAIL.stationary
    assert np.abs(law @ kernel - law).max() > 0.01


def test_random_absences_average_to_the_stated_kernel():
    walk, online = Walk(TRIANGLE_WITH_TAIL), 0.7
    average = np.zeros((4, 4))
    for pattern in product([False, True], repeat=4):
        here = np.asarray(pattern)
        chance = np.prod(np.where(here, online, 1 - online))
        average += chance * Absences(walk, here[None, :]).positions(range(4), 1)
    stated = Walk(TRIANGLE_WITH_TAIL, online=online)
    assert stated.transitions.toarray() == pytest.approx(average, abs=1e-14)
    assert "given who was online" in stated.notes[0]


def test_drawn_absences_have_the_frequency_asked_for():
    absences = Absences.drawn(Walk(complete(50)), 200, online=0.8, randomness=simulated(1))
    assert absences.online.shape == (200, 50)
    assert abs(absences.online.mean() - 0.8) < 6 * np.sqrt(0.16 / 10_000)
    assert absences.longest == 200
    assert Absences.drawn(Walk(complete(3)), 5, online=1.0).online.all()


def test_changing_graphs_multiply_their_kernels():
    first, second = Walk(random_regular(8, 3, seed=1)), Walk(random_regular(8, 4, seed=2))
    varying = Varying([first, second, first])
    product_of = (first.transitions @ second.transitions @ first.transitions).toarray()
    assert varying.positions(range(8), 3) == pytest.approx(product_of, abs=1e-15)
    assert varying.stationary.tolist() == [0.125] * 8
    assert varying.rounding(2) == pytest.approx(first.rounding(1) + second.rounding(1), rel=1e-9)
    with pytest.raises(InvalidArgumentError, match="at most 3 rounds"):
        varying.position(0, 4)
    other = Varying([Walk(TRIANGLE_WITH_TAIL), Walk(complete(4))])
    assert other.position(0, 2).sum() == pytest.approx(1.0)
    with pytest.raises(InvalidArgumentError, match="keep one law"):
        _ = other.stationary


@pytest.mark.parametrize(
    ("graph", "cure"),
    [
        (Graph.from_edges([[0, 1], [1, 2], [2, 0]], n=4), "node 3 is: take .*largest_component"),
        (Graph.from_edges([[0, 1], [2, 3]]), "not 2: take .*largest_component"),
        (ring(6), "lazy"),
        (grid(2, 3), "lazy"),
    ],
)
def test_graphs_that_do_not_mix_are_refused_with_the_cure(graph, cure):
    with pytest.raises(InvalidArgumentError, match=cure):
        Walk(graph)


def test_bipartite_graphs_mix_when_somebody_may_stay():
    Walk(ring(6), "lazy")
    Walk(ring(6), online=0.9)
    Walk(grid(2, 3), "metropolis")  # corners refuse some steps
    Walk(Graph.from_edges([[0, 1], [1, 2], [2, 2]], keep_loops=True))
    with pytest.raises(InvalidArgumentError, match="lazy"):
        Walk(ring(6), "metropolis")  # of equal degrees: nothing is refused


@pytest.mark.parametrize(
    ("options", "name"),
    [
        ({"kind": "quick"}, "kind"),
        ({"stay": 0.5}, "stay"),
        ({"kind": "lazy", "stay": 1.0}, "stay"),
        ({"online": 0.0}, "online"),
        ({"online": 1.5}, "online"),
    ],
)
def test_impossible_walks_are_refused(options, name):
    with pytest.raises(InvalidArgumentError, match=name):
        Walk(complete(3), **options)


@pytest.mark.parametrize(("origin", "rounds"), [(4, 1), (-1, 1), (0, -1), (0, 1.5), (0.5, 1)])
def test_impossible_positions_are_refused(origin, rounds):
    with pytest.raises(InvalidArgumentError):
        Walk(complete(4)).position(origin, rounds)


def test_patterns_that_do_not_fit_are_refused():
    walk = Walk(complete(3))
    for online in (np.ones((2, 4), dtype=bool), np.ones((2, 3)), np.ones(3, dtype=bool)):
        with pytest.raises(InvalidArgumentError, match="online"):
            Absences(walk, online)
    with pytest.raises(InvalidArgumentError, match="pattern"):
        Absences(Walk(complete(3), online=0.5), np.ones((1, 3), dtype=bool))
    with pytest.raises(InvalidArgumentError, match="same nodes"):
        Varying([walk, Walk(complete(4))])


def test_metropolis_warns_where_degrees_differ():
    assert "slowly" in Walk(windmill(3), "metropolis").notes[0]
    assert Walk(complete(4), "metropolis").notes == ()
    assert Walk(windmill(3)).notes == ()


def test_progress_is_told():
    told = []
    Walk(complete(3)).positions([0, 1], 3, progress=lambda done, todo: told.append((done, todo)))
    assert told == [(1, 3), (2, 3), (3, 3)]
