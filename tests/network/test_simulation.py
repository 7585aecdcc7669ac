from __future__ import annotations

import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from network_graphs import connected_graphs, windmill
from shoal.errors import InvalidArgumentError, MissingExtraError
from shoal.network.generators import barabasi_albert, complete, random_regular, ring
from shoal.network.graph import Graph
from shoal.network.simulation import key, present, simulate, words
from shoal.network.walk import Absences, Varying, Walk
from shoal.randomness import simulated

UNLIKELY = 1e-7
SIGMAS = 5.5  # further off with a chance below 1e-7
HUBS = barabasi_albert(300, 2, seed=1)
EVEN = random_regular(2000, 16, seed=1)
TRIANGLE_WITH_TAIL = Graph.from_edges([[0, 1], [1, 2], [2, 0], [2, 3]])


WALKS = [
    *(Walk(graph, kind) for graph in (HUBS, EVEN) for kind in ("simple", "lazy", "metropolis")),
    Walk(HUBS, "lazy", stay=0.15),
    Walk(complete(5)),
]


def fits(counts, law):
    """Counts of independent reports against their law, where it says never exactly so."""
    possible = law > 0
    assert not counts[~possible].any()
    if possible.sum() > 1:
        expected = law[possible] * (counts.sum() / law[possible].sum())
        assert stats.chisquare(counts[possible], expected).pvalue > UNLIKELY


def same(first, second):
    assert np.array_equal(first.positions, second.positions)
    assert np.array_equal(first.delivered, second.delivered)
    assert first.moves == second.moves


def test_the_generator_is_splitmix64():
    # Its first outputs for the seeds 0 and 1234567.
    known = {
        0: [0xE220A8397B1DCDAF, 0x6E789E6AA1B965F4, 0x06C45D188009454F],
        1234567: [6457827717110365317, 3203168211198807973, 9817491932198370423],
    }
    for start, outputs in known.items():
        assert words(np.uint64(start), first=0, size=3).tolist() == outputs
        assert words(np.uint64(start), first=2, size=1).tolist() == outputs[2:]


def test_streams_have_keys_of_their_own():
    paths = [(a, b, c) for a in range(20) for b in range(4) for c in range(50)]
    assert len({int(key(*path)) for path in paths}) == len(paths)
    assert key(1, 2) != key(2, 1)


@pytest.mark.parametrize("walk", WALKS, ids=repr)
@pytest.mark.parametrize("options", [{}, {"offline": 0.2, "dropout": 0.1, "killed": [1, 3]}])
def test_engines_and_threads_agree(walk, options):
    asked = {"seed": 7, "walkers": 5000, "submit": "single", **options}
    reference = simulate(walk, 9, engine="numpy", threads=1, **asked)
    assert reference.engine == "numpy"
    for engine in ("numpy", "numba"):
        for threads in (1, 2, 5):
            found = simulate(walk, 9, engine=engine, threads=threads, **asked)
            assert found.engine == engine
            same(found, reference)


@settings(deadline=None, derandomize=True, max_examples=60)
@given(connected_graphs(), st.sampled_from(["lazy", "metropolis"]), st.integers(0, 9), st.data())
def test_engines_agree_on_any_graph(graph, kind, rounds, data):
    online = 0.5 if graph.bipartite else data.draw(st.sampled_from([1.0, 0.5]))
    walk = Walk(graph, kind, online=online)
    origins = data.draw(st.lists(st.integers(0, graph.n - 1), min_size=1, max_size=9))
    asked = {"seed": data.draw(st.integers(0, 10**15)), "walkers": origins, "submit": "single"}
    same(
        simulate(walk, rounds, engine="numpy", **asked),
        simulate(walk, rounds, engine="numba", **asked),
    )


def test_how_the_rounds_are_split_does_not_matter(monkeypatch):
    walk = Walk(HUBS)
    whole = simulate(walk, 12, seed=1, offline=0.3)
    monkeypatch.setattr("shoal.network.simulation._TOGETHER", 900)
    heard = []
    same(simulate(walk, 12, seed=1, offline=0.3, progress=lambda *told: heard.append(told)), whole)
    assert heard == [(3, 12), (6, 12), (9, 12), (12, 12)]


@pytest.mark.parametrize(
    "walk",
    [
        Walk(TRIANGLE_WITH_TAIL),
        Walk(TRIANGLE_WITH_TAIL, "metropolis"),
        Walk(ring(6), "lazy", stay=0.3),
        Walk(windmill(6)),
        Walk(windmill(6), "metropolis"),
        Walk(complete(4)),
        Absences.drawn(Walk(windmill(4)), 5, online=0.6, randomness=simulated(5)),
        Varying([Walk(windmill(3)), Walk(windmill(3)), Walk(ring(7)), Walk(windmill(3))]),
    ],
    ids=lambda walk: type(walk).__name__,
)
@pytest.mark.parametrize("rounds", [1, 4])
def test_reports_are_where_the_exact_law_says(walk, rounds):
    """Given who is absent, and on a graph that changes, too."""
    for origin in (0, walk.n - 1):
        found = simulate(walk, rounds, seed=3, walkers=np.full(10**5, origin))
        fits(found.loads, walk.position(origin, rounds))


def test_absences_by_chance_are_a_pattern():
    walk = Walk(HUBS)
    by_chance = simulate(walk, 8, seed=4, offline=0.25)
    pattern = present(range(8), walk.n, seed=4, offline=0.25)
    share = pattern.mean()
    assert abs(share - 0.75) < SIGMAS * (0.75 * 0.25 / pattern.size) ** 0.5
    same(simulate(Absences(walk, pattern), 8, seed=4), by_chance)
    same(simulate(Walk(HUBS, online=0.75), 8, seed=4), by_chance)


def test_a_step_needs_both_ends():
    walk = Walk(complete(6, loops=False))
    there = np.ones((1, 6), dtype=np.bool_)
    there[0, :3] = False
    found = simulate(Absences(walk, there), 1, seed=1, walkers=6000)
    assert np.array_equal(found.positions[found.origins < 3], found.origins[found.origins < 3])
    assert found.positions[found.origins >= 3].min() >= 3
    # Two of five neighbours are there.
    assert abs(found.moves - 3000 * 0.4) < SIGMAS * (3000 * 0.24) ** 0.5


@pytest.mark.parametrize("kind", ["simple", "metropolis"])
def test_absences_keep_the_stationary_law(kind):
    walk = Walk(HUBS, kind)
    ends = np.repeat(np.arange(walk.n), HUBS.degrees if kind == "simple" else 4)
    online = simulated(8).below(10, 6 * walk.n).reshape(6, walk.n) >= np.arange(walk.n) % 9
    found = simulate(Absences(walk, online), 6, seed=1, walkers=np.tile(ends, 60))
    fits(found.loads, walk.stationary)


@pytest.mark.parametrize("walk", [Walk(HUBS), Walk(HUBS, "lazy"), Walk(EVEN)], ids=repr)
def test_loads_after_many_rounds_are_stationary(walk):
    found = simulate(walk, 150, seed=5, walkers=40 * walk.n)
    fits(found.loads, walk.stationary)
    assert found.squares == pytest.approx(np.square(found.loads / found.loads.sum()).sum())
    assert found.holders == np.count_nonzero(found.loads)


def test_pairs_that_meet_estimate_the_sum_of_squares():
    walk = Walk(windmill(6))
    law = walk.position(1, 3)
    squares, cubes = (law**2).sum(), (law**3).sum()
    w = 10**5
    found = simulate(walk, 3, seed=6, walkers=np.ones(w, dtype=int))
    error = (4 * (cubes - squares**2) / w + 2 * squares / w**2) ** 0.5
    assert abs(found.collision - squares) < SIGMAS * error


@pytest.mark.parametrize("walk", [Walk(HUBS), Walk(EVEN)], ids=repr)
def test_the_share_delivered_one_by_one(walk):
    chances = 1 - (1 - walk.stationary) ** walk.n
    shares = []
    for seed in range(20):
        found = simulate(walk, 120, seed=seed, submit="single")
        assert found.delivered.sum() == found.holders
        assert np.unique(found.positions[found.delivered]).size == found.holders
        shares.append(found.delivered_share)
    # Loads of different nodes are negatively associated: independence overstates the spread.
    error = (chances * (1 - chances)).sum() ** 0.5 / walk.n / 20**0.5
    assert abs(np.mean(shares) - chances.mean()) < SIGMAS * error


def test_a_holder_picks_any_of_its_reports_alike():
    found = simulate(Walk(complete(600)), 1, seed=9, walkers=60_000, submit="single")
    ranks = np.zeros(found.walkers)
    order = np.argsort(found.positions, kind="stable")
    starts = np.cumsum(found.loads) - found.loads
    ranks[order] = np.arange(found.walkers) - np.repeat(starts, found.loads)
    shares = (ranks[found.delivered] + 0.5) / found.loads[found.positions[found.delivered]]
    assert abs(shares.mean() - 0.5) < SIGMAS * (1 / 12 / 600) ** 0.5
    assert stats.kstest(shares, "uniform").pvalue > UNLIKELY


def test_who_is_gone_submits_nothing():
    walk = Walk(EVEN)
    whole = simulate(walk, 20, seed=1)
    assert whole.delivered.all()
    found = simulate(walk, 20, seed=1, dropout=0.3)
    assert np.array_equal(found.positions, whole.positions)
    gone = np.unique(found.positions[~found.delivered])
    assert not np.isin(found.positions[found.delivered], gone).any()
    # Reports are lost by the lot, about one and its neighbours' worth each.
    assert abs(found.delivered_share - 0.7) < SIGMAS * (0.21 * found.squares) ** 0.5
    killed = simulate(walk, 20, seed=1, killed=[0, 5])
    assert set(killed.positions[~killed.delivered]) == {0, 5}
    assert killed.loads[0] == killed.loads[5] == 1, "nothing leaves, nothing arrives"


@pytest.mark.parametrize(
    ("walk", "share"),
    [(Walk(EVEN), 1.0), (Walk(EVEN, "lazy", stay=0.25), 0.75), (Walk(complete(50)), 0.98)],
)
def test_moves_count_what_is_sent(walk, share):
    steps, moves = 40 * walk.n, simulate(walk, 40, seed=1).moves
    assert abs(moves - share * steps) <= SIGMAS * (share * (1 - share) * steps) ** 0.5


def test_a_seed_repeats_and_another_differs():
    walk = Walk(EVEN)
    first, again, other = (simulate(walk, 15, seed=seed) for seed in (1, 1, 2))
    same(first, again)
    met = np.count_nonzero(first.positions == other.positions)
    assert met < 20, "one of 2000 is expected"


def test_no_round_leaves_everything_where_it_was():
    found = simulate(Walk(HUBS), 0, seed=1, submit="single")
    assert np.array_equal(found.positions, np.arange(HUBS.n))
    assert found.moves == 0
    assert found.delivered_share == 1
    assert repr(found) == "Simulation(300 reports, 300 nodes, 0 rounds)"


def test_numba_is_asked_for_only_where_it_pays(monkeypatch):
    walk = Walk(HUBS)
    assert simulate(walk, 5, seed=1).engine == "numpy"
    monkeypatch.setattr("shoal.network.simulation._WORTH_COMPILING", 0)
    assert simulate(walk, 5, seed=1).engine == "numba"
    monkeypatch.setitem(sys.modules, "shoal.network.compiled", None)
    monkeypatch.delattr("shoal.network.compiled", raising=False)
    assert simulate(walk, 5, seed=1).engine == "numpy"
    with pytest.raises(MissingExtraError, match="needs numba: pip install"):
        simulate(walk, 5, seed=1, engine="numba")


@pytest.mark.parametrize(
    ("options", "name"),
    [
        ({"rounds": -1}, "rounds"),
        ({"rounds": 2.5}, "rounds"),
        ({"seed": -1}, "seed"),
        ({"seed": 0.5}, "seed"),
        ({"walkers": 0}, "walkers"),
        ({"walkers": []}, "walkers"),
        ({"walkers": [300]}, "walkers"),
        ({"walkers": [[0, 1]]}, "walkers"),
        ({"walkers": "many"}, "walkers"),
        ({"submit": "some"}, "submit"),
        ({"offline": 1.0}, "offline"),
        ({"offline": -0.1}, "offline"),
        ({"dropout": 1.5}, "dropout"),
        ({"killed": [-1]}, "killed"),
        ({"killed": [0.5]}, "killed"),
        ({"threads": 0}, "threads"),
        ({"engine": "fortran"}, "engine"),
        ({"walk": HUBS}, "walk"),
        ({"walk": Walk(HUBS, online=0.5), "offline": 0.5}, "offline"),
        ({"walk": Varying([Walk(HUBS, online=0.5)])}, "walk"),
        ({"walk": Varying([Walk(HUBS)])}, "rounds"),
    ],
)
def test_bad_input_is_named(options, name):
    asked = {"walk": Walk(HUBS), "rounds": 3, "seed": 1, **options}
    with pytest.raises(InvalidArgumentError) as raised:
        simulate(asked.pop("walk"), asked.pop("rounds"), **asked)
    assert raised.value.name == name


def test_one_report_meets_nobody():
    with pytest.raises(InvalidArgumentError, match="walkers=1"):
        _ = simulate(Walk(HUBS), 3, seed=1, walkers=1).collision
