"""``shoal peers run``: peers on sockets, an estimate, and a guarantee from what arrived."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import shoal
from peers_kit import free_sealing
from shoal.network.account import WalkAccountant
from shoal.network.generators import random_regular
from shoal.network.walk import Absences, Walk
from shoal.questions.settled import PUBLIC_LIST
from shoal.service.peers import Conditions, PeerSurvey, run_peers
from shoal.service.peers.accounting import KnownConditions, Whereabouts, estimate, guarantee
from shoal.values import Batch

SMALL = "peers run --peers 30 --degree 6 --rounds 6"
TINY = "peers run --peers 12 --degree 4 --rounds 2"
GRR = shoal.RandomizedResponse(k=4, epsilon=2.0)


def known(graph, survey, **conditions):
    drawn = KnownConditions.drawn(Conditions(transport="memory", **conditions), graph.n, survey)
    return drawn, Whereabouts.of(graph, survey, drawn)


# --------------------------------------------------------------------------------- the command


def test_json_has_the_estimate_the_guarantee_and_the_counts(run):
    found = run(SMALL, "--json").json()
    assert (found["peers"], found["arrived"]) == (30, 30)
    assert (found["duplicates"], found["rejected"], found["stranded"]) == (0, 0, 0)
    assert found["moves"] == 30 * 6
    assert [each["answer"] for each in found["estimate"]] == [f"answer {i}" for i in range(4)]
    for each in found["estimate"]:
        assert each["low"] < each["share"] < each["high"]
    assert sum(each["truth"] for each in found["estimate"]) == pytest.approx(1)
    kept = found["guarantee"]
    assert kept["n"] == 30
    assert kept["local_epsilon"] == pytest.approx(2.0)
    assert kept["epsilon"] <= 2.0
    assert "not who passed it to whom" in kept["trust"]
    assert "nobody watches the links between peers" in kept["assumptions"]
    assert found["survey"]["mode"] == "hop"


def test_people_read_what_happened_the_chart_and_the_guarantee(run):
    finished = run(SMALL, "--offline 0.2")
    assert finished.status == 0
    said = finished.stdout
    assert max(map(len, said.splitlines())) <= 80
    flat = " ".join(said.replace("│", " ").split())
    for words in (
        "30 peers with 6 neighbours each, 6 rounds in hop mode",
        "20% away in a round",
        "arrived, 0 duplicates, 0 rejected",
        "◆ true fraction",
        "given who was away in each round",
        "peers are not authenticated",
        "the answers are invented",
    ):
        assert words in flat


def test_the_same_seed_has_the_same_answers(run):
    truths = [
        [each["truth"] for each in run(TINY, words, "--json").json()["estimate"]]
        for words in ("", "", "--seed 1")
    ]
    assert truths[0] == truths[1] != truths[2]


def test_onions_get_as_many_hops_as_there_is_time_for(run):
    found = run(SMALL, "--mode onion --offline 0.3 --json").json()
    assert 1 <= found["survey"]["hops"] < 6
    assert found["arrived"] + found["stranded"] >= 25
    everybody = run(SMALL, "--mode onion --json").json()
    assert everybody["survey"]["hops"] == 6
    assert everybody["arrived"] == 30


def test_single_messages_and_cover(run):
    found = run(TINY, "--submit single --cover 5 --json").json()
    assert found["arrived"] == 12
    assert "an observer of a link sees 5 frames in every round" in found["guarantee"]["assumptions"]


def test_a_column_of_a_file(run, tmp_path):
    path = tmp_path / "answers.csv"
    path.write_text("color\n" + "red\n" * 20 + "blue\n" * 10)
    words = f"peers run --data {path} --column color --rounds 3 --local-epsilon 6 --json"
    found = run(words).json()
    assert found["peers"] == 30
    shares = {each["answer"]: each["share"] for each in found["estimate"]}
    assert shares["red"] == pytest.approx(2 / 3, abs=0.15)
    assert "truth" not in found["estimate"][0]
    assert PUBLIC_LIST in found["guarantee"]["assumptions"]
    listed = run(words, "--categories red,blue,green").json()
    assert PUBLIC_LIST not in listed["guarantee"]["assumptions"]
    assert {each["answer"] for each in listed["estimate"]} >= {"red", "blue", "green"}


def test_peers_in_processes(run):
    found = run(TINY, "--processes 2 --json").json()
    assert found["arrived"] == 12
    assert found["processes"] == 2


# ----------------------------------------------------------------- where reports are, and the ε


@pytest.mark.parametrize("offline", [0.0, 0.25])
def test_hops_are_the_walk_given_the_absences(offline):
    graph, survey = random_regular(40, 6), PeerSurvey(rounds=5)
    conditions, found = known(graph, survey, offline=offline, seed=1)
    absences = Absences(Walk(graph), conditions.online(40)[:5])
    assert np.allclose(found.laws, absences.positions(np.arange(40), 5), rtol=1e-12)
    if not offline:
        assert np.allclose(found.laws, Walk(graph).positions(np.arange(40), 5), rtol=1e-12)


def test_paths_are_the_walk_when_everybody_is_there():
    graph, survey = random_regular(40, 6), PeerSurvey(rounds=8, mode="onion", hops=5)
    _, found = known(graph, survey, seed=1)
    assert np.allclose(found.laws[:, :40], Walk(graph).positions(np.arange(40), 5), rtol=1e-12)
    assert np.array_equal(found.laws[:, 40], np.zeros(40))


def test_paths_wait_as_the_peers_do(monkeypatch):
    """Ends of paths in many runs among the same absences, against the law that was computed."""
    free_sealing(monkeypatch)
    graph, rounds, runs = random_regular(12, 4), 5, 60
    survey = PeerSurvey(rounds=rounds, mode="onion", hops=3, submission_rounds=1)
    _, found = known(graph, survey, offline=0.3, seed=4)
    truth = found.laws.sum(axis=0)
    loads, stranded = np.zeros(12), 0
    base = Conditions(transport="memory", offline=0.3, seed=4)
    pattern = KnownConditions.drawn(base, 12, survey).pattern
    for seed in range(runs):
        conditions = KnownConditions(transport="memory", seed=seed + 100, pattern=pattern)
        values = np.zeros(12, dtype=int)
        ran = run_peers(values, randomizer=GRR, graph=graph, survey=survey, conditions=conditions)
        loads += ran.loads
        stranded += ran.stranded
    seen = np.append(loads, stranded)
    assert seen.sum() == 12 * runs
    # Each count is a sum of independent indicators: no wider than Poisson's; 6.5 deviations.
    expected = runs * truth
    assert (np.abs(seen - expected) < 6.5 * np.sqrt(expected) + 6).all()
    assert stranded > 0


def test_the_guarantee_is_the_accountants_when_everything_arrives(monkeypatch):
    free_sealing(monkeypatch)
    graph, survey = random_regular(100, 8), PeerSurvey(rounds=10)
    gentle = shoal.RandomizedResponse(k=4, epsilon=1.0)
    conditions, found = known(graph, survey, offline=0.1, seed=2)
    ran = run_peers(
        np.arange(100) % 4, randomizer=gentle, graph=graph, survey=survey, conditions=conditions
    )
    assert ran.arrived == 100
    ours = guarantee(ran, found, survey=survey, randomizer=gentle)
    absences = Absences(Walk(graph), conditions.online(100)[:10])
    theirs = WalkAccountant(absences, randomizer=gentle).guarantee(10, delta=1e-6)
    assert ours.epsilon == pytest.approx(theirs.epsilon, rel=1e-3)
    assert ours.epsilon < 0.7
    fewer = replace(ran, batch=Batch(ran.batch.messages[:80]))
    assert guarantee(fewer, found, survey=survey, randomizer=gentle).epsilon > ours.epsilon


def test_links_without_room_cost(monkeypatch):
    free_sealing(monkeypatch)
    graph, free = random_regular(100, 8), PeerSurvey(rounds=10)
    gentle = shoal.RandomizedResponse(k=4, epsilon=1.0)
    conditions, _ = known(graph, free, seed=2)
    ran = run_peers(
        np.arange(100) % 4, randomizer=gentle, graph=graph, survey=free, conditions=conditions
    )

    def epsilon(cover):
        survey = PeerSurvey(rounds=10, cover=cover)
        found = Whereabouts.of(graph, survey, conditions)
        return guarantee(ran, found, survey=survey, randomizer=gentle).epsilon

    narrow, wide, unlimited = epsilon(2), epsilon(9), epsilon(0)
    assert narrow == pytest.approx(1.0)
    assert unlimited <= wide < 1.05 * unlimited < 0.7


def test_dummies_are_taken_out_of_the_estimate(monkeypatch):
    """Single messages: on average over runs the shares are the true ones, not the dummies'."""
    free_sealing(monkeypatch)
    graph, survey = random_regular(100, 6), PeerSurvey(rounds=6, submit="single")
    sharp = shoal.RandomizedResponse(k=4, epsilon=8.0)
    values = np.repeat([1, 2, 3], [50, 30, 20])
    conditions, found = known(graph, survey, seed=3)
    shares, errors = [], []
    for seed in range(8):
        again = KnownConditions(transport="memory", seed=seed, pattern=conditions.pattern)
        ran = run_peers(values, randomizer=sharp, graph=graph, survey=survey, conditions=again)
        each = estimate(ran, found, survey=survey, randomizer=sharp)
        shares.append(each.frequencies)
        errors.append(each.standard_errors)
    misses = np.mean(shares, axis=0) - [0.0, 0.5, 0.3, 0.2]
    assert (np.abs(misses) < 6 * np.mean(errors, axis=0) / np.sqrt(8)).all()
    # Drawing 100 reports into 100 places leaves a few dozen out: the errors say so.
    spread = np.std(shares, axis=0, ddof=1)
    assert (spread < 2.5 * np.mean(errors, axis=0)).all()
    assert (spread[1:] > 0.3 * np.mean(errors, axis=0)[1:]).all()


def test_killed_peers_cannot_be_accounted_for():
    with pytest.raises(shoal.errors.InvalidArgumentError, match="killed"):
        KnownConditions.drawn(Conditions(killed={1: [0]}), 10, PeerSurvey(rounds=2))
