"""Links with room for ``cover`` reports: what is claimed of overflow against walks that are run."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

import shoal
from network_graphs import connected_graphs, windmill
from peers_kit import free_sealing, walked
from shoal.network.generators import barabasi_albert, complete, random_regular
from shoal.network.graph import Graph
from shoal.service.peers import Conditions, PeerSurvey, run_peers
from shoal.service.peers.accounting import KnownConditions, Whereabouts, guarantee, overflow


def hub_of_leaves():
    """A clique of 40 and a hub, which knows 20 of the clique and 20 leaves that know only it."""
    hub = [(40, other) for other in [*range(20), *range(41, 61)]]
    return Graph.from_edges([*combinations(range(40), 2), *hub])


def known(graph, survey, *, offline=0.0):
    conditions = Conditions(transport="memory", offline=offline, seed=1)
    return KnownConditions.drawn(conditions, graph.n, survey)


def crowding(graph, survey, *, offline=0.0):
    return Whereabouts.of(graph, survey, known(graph, survey, offline=offline)).crowding


def crowded_runs(graph, survey, *, offline=0.0, runs, seed=0):
    """In how many walks with room for everything a link gets more than ``cover`` reports."""
    source = np.random.default_rng(seed)
    online = known(graph, survey, offline=offline).online(graph.n)[: survey.rounds]

    def drawn(holders):
        chosen = source.random(holders.shape) * graph.degrees[holders]
        return graph.offsets[holders] + chosen.astype(np.int64)

    across = graph.rows != graph.neighbours
    edges = drawn(np.tile(np.arange(graph.n), (runs, 1)))  # the edge that each report goes along
    made = np.zeros(edges.shape, dtype=int)
    crowded = np.zeros(runs, dtype=bool)
    for here in online:
        usable = here[graph.rows] & here[graph.neighbours]
        going = usable[edges] & ((survey.mode == "hop") | (made < survey.layers))
        # Reports on no link get numbers of their own, each another.
        alone = len(graph.rows) + np.arange(graph.n)
        links = np.where(going & across[edges], edges, alone).astype(np.int16)  # quickly sorted
        links.sort(axis=1)
        if survey.cover < graph.n:
            crowded |= (links[:, survey.cover :] == links[:, : -survey.cover]).any(axis=1)
        made += going
        redrawn = going | (survey.mode == "hop")
        holders = np.where(going, graph.neighbours[edges], graph.rows[edges])
        edges = np.where(redrawn, drawn(holders), edges)
    return int(crowded.sum())


def at_least(hits, runs):
    """What a probability exceeds, but for a chance of 1e-8, when so many of all runs were hits."""
    return stats.beta.ppf(1e-8, hits, runs - hits + 1) if hits else 0.0


def at_most(hits, runs):
    return stats.beta.isf(1e-8, hits + 1, runs - hits)


def test_a_hub_is_fuller_than_in_the_long_run():
    """All leaves send their reports to the hub at once: 20 more than it holds on average."""
    graph, runs = hub_of_leaves(), 60_000
    survey = PeerSurvey(rounds=6, cover=5)
    hits = crowded_runs(graph, survey, runs=runs)
    claimed = crowding(graph, survey)
    assert 2e-5 < at_least(hits, runs) < claimed < 4 * at_most(hits, runs)
    assert claimed <= crowding(graph, PeerSurvey(rounds=60, cover=5)) < 1e-3


GRAPHS = {
    "hub": hub_of_leaves(),
    "windmill": windmill(12),
    "preferential": barabasi_albert(40, 2, seed=1),
    "regular": random_regular(40, 6, seed=1),
    "loops": Graph.from_edges(
        [(0, 0), *((0, leaf) for leaf in range(1, 12)), (1, 1), (1, 2), (3, 4)], keep_loops=True
    ),
}


@pytest.mark.parametrize("offline", [0.0, 0.3])
@pytest.mark.parametrize("mode", ["hop", "onion"])
@pytest.mark.parametrize("name", GRAPHS)
def test_walks_are_crowded_no_more_often_than_claimed(name, mode, offline):
    graph, runs = GRAPHS[name], 4000
    hops = 4 if mode == "onion" else None
    for cover in (1, 2, 3, 4, 6):
        survey = PeerSurvey(rounds=6, mode=mode, hops=hops, cover=cover)
        hits = crowded_runs(graph, survey, offline=offline, runs=runs, seed=cover)
        claimed = crowding(graph, survey, offline=offline)
        assert claimed >= at_least(hits, runs)
        if claimed < 0.1:  # where links rarely are full, a sum over them is not far from the truth
            assert claimed < 6 * at_most(hits, runs)


@given(connected_graphs(smallest=4, largest=10), st.sampled_from(["hop", "onion"]), st.data())
@settings(max_examples=40, deadline=None)
def test_no_graph_is_crowded_more_often_than_claimed(graph, mode, data):
    if graph.bipartite:
        graph = Graph.from_edges(
            [*np.column_stack([graph.rows, graph.neighbours]), (0, 0)], keep_loops=True
        )
    cover, offline = data.draw(st.integers(1, 4)), data.draw(st.sampled_from([0.0, 0.3]))
    survey = PeerSurvey(rounds=5, mode=mode, cover=cover)
    hits = crowded_runs(graph, survey, offline=offline, runs=2000)
    assert crowding(graph, survey, offline=offline) >= at_least(hits, 2000)


def test_peers_wait_as_often_as_walks_are_crowded(monkeypatch):
    """With everybody there and no loops a report misses a hop only where a link has no room."""
    free_sealing(monkeypatch)
    graph, survey, runs = windmill(4), PeerSurvey(rounds=3, cover=2, submission_rounds=1), 200
    waited = 0
    for seed in range(runs):
        who = {"randomizer": shoal.RandomizedResponse(k=2, epsilon=1.0), "graph": graph}
        ran = walked(graph.n, survey, **who, values=np.zeros(graph.n, dtype=int), seed=seed)
        waited += ran.moves < graph.n * survey.rounds
    free = crowded_runs(graph, survey, runs=40_000)
    assert at_least(waited, runs) < at_most(free, 40_000)
    assert at_least(free, 40_000) < at_most(waited, runs)
    assert 0.01 < at_least(waited, runs) < crowding(graph, survey)


def test_loads_of_equal_degrees_are_what_they_always_are():
    """One report a peer in every round, after the first: links are full as the binomial says."""
    graph, rounds, cover = random_regular(40, 8), 5, 2
    long_run = 40 * 8 * (1 / 8) ** 3 / 6  # a round, in the limit of many people
    for mode in ("hop", "onion"):
        claimed = crowding(graph, PeerSurvey(rounds=rounds, mode=mode, cover=cover))
        assert 0.7 * (rounds - 1) * long_run < claimed < (rounds - 1) * long_run


def test_nothing_is_crowded_before_reports_meet():
    for graph in GRAPHS.values():
        for mode in ("hop", "onion"):
            assert crowding(graph, PeerSurvey(rounds=1, mode=mode, cover=1)) == 0.0
    assert crowding(complete(4), PeerSurvey(rounds=9, cover=4)) == 0.0
    assert crowding(hub_of_leaves(), PeerSurvey(rounds=9, cover=0)) == 0.0


def test_no_sum_of_indicators_is_above_what_is_claimed():
    """Pr[N > c] of sums of unequal indicators, by convolution: certain ones and rare ones."""
    source = np.random.default_rng(0)
    for trials in (1, 2, 5, 20):
        for _ in range(200):
            chances = source.beta(*source.choice([0.05, 0.5, 3.0], 2), trials)
            law = np.ones(1)
            for chance in chances:
                law = np.convolve(law, [1 - chance, chance])
            for cover in range(1, 8):
                claimed = overflow(np.array(chances.sum()), np.array(trials), cover)
                assert law[cover + 1 :].sum() <= claimed * (1 + 1e-9) + 1e-15


def test_the_guarantee_of_a_hub_pays_for_its_crowd(monkeypatch):
    """δ has (1 + e^ε) times the probability of an overflow: more than 1e-4 for cover 5."""
    free_sealing(monkeypatch)
    graph, gentle = hub_of_leaves(), shoal.RandomizedResponse(k=4, epsilon=1.0)
    free = PeerSurvey(rounds=40)
    conditions = known(graph, free)
    ran = run_peers(
        np.arange(graph.n) % 4, randomizer=gentle, graph=graph, survey=free, conditions=conditions
    )

    def epsilon(cover):
        survey = PeerSurvey(rounds=40, cover=cover)
        whereabouts = Whereabouts.of(graph, survey, conditions)
        return guarantee(ran, whereabouts, survey=survey, randomizer=gentle, delta=1e-5).epsilon

    assert epsilon(5) == pytest.approx(1.0)
    assert epsilon(12) < 0.9
