"""``shoal walk --overlay``: what each overlay takes, and which one to build."""

from __future__ import annotations

import pytest

import shoal
from shoal.network import overlays
from shoal.network.account import WalkAccountant
from shoal.network.generators import random_regular
from shoal.network.walk import Walk
from shoal.randomness import simulated

COMMAND = "walk --overlay --n 2000 --degree 8"


@pytest.fixture(scope="module")
def compared():
    return overlays.compare(2000, degree=8)


@pytest.fixture
def at_hand(monkeypatch, compared):
    """The comparison, not made again: what was asked for is noted."""
    asked = []

    def compare(n, **how):
        asked.append((n, how["degree"]))
        return compared

    monkeypatch.setattr(overlays, "compare", compare)
    return asked


def test_json_is_the_comparison(run, compared, at_hand):
    found = run(COMMAND, "--json").json()
    names = [each["name"] for each in found["overlays"]]
    assert names == [each.name for each in compared.overlays]
    for each, ours in zip(found["overlays"], compared.overlays, strict=True):
        assert each["rounds"] == ours.rounds
        assert each["neighbours"] == ours.neighbours
    assert found["recommended"] == compared.recommended.name
    assert found["n"] == 2000
    assert at_hand == [(2000, 8)]
    assert found["central"] == pytest.approx(shoal.amplify(local_epsilon=1, n=2000).epsilon)
    assert found["epsilon"] == pytest.approx(1.1 * found["central"])
    for words in ("adversary", "theorem", "neighbouring", "delta", "local_epsilon"):
        assert found[words]


def test_the_rounds_are_enough_and_one_fewer_is_not(compared):
    regular = next(each for each in compared.overlays if each.name == "random 8-regular")
    walk = Walk(random_regular(2000, 8, seed=0))
    starts = simulated(overlays._STARTS)
    accountant = WalkAccountant(walk, local_epsilon=1.0, method="spectral", randomness=starts)
    assert accountant.profile(regular.rounds).epsilon(compared.delta) <= compared.epsilon
    assert accountant.profile(regular.rounds - 1).epsilon(compared.delta) > compared.epsilon


def test_the_recommended_one_has_few_enough_neighbours_and_fewest_messages(compared):
    best = compared.recommended
    assert best.neighbours <= compared.degree
    within = [
        each for each in compared.overlays if each.rounds and each.neighbours <= compared.degree
    ]
    assert best.most_messages == min(each.most_messages for each in within)
    complete = compared.overlays[0]
    assert (complete.rounds, complete.neighbours) == (1, 2000)
    assert complete.epsilon == compared.central


def test_more_neighbours_need_fewer_rounds(compared):
    regular = [each for each in compared.overlays if each.name.endswith("-regular")]
    assert len(regular) == 3
    rounds = [each.rounds for each in regular]
    assert rounds == sorted(rounds)


def test_slow_overlays_are_known_to_be_slow():
    """The relaxation times that make an overlay hopeless are at most those of its walk."""
    found = {each.name: each for each in overlays._candidates(100, 8, seed=0)}
    for name in ("ring, lazy", "grid, lazy"):
        walk = Walk(found[name].make(), kind="lazy")
        bound = WalkAccountant(walk, local_epsilon=1.0, method="spectral").locations.bound
        true = 1 / (1 - bound.value)
        assert 0.9 * true <= found[name].relaxation <= true * (1 + 1e-9)


@pytest.mark.usefixtures("at_hand")
def test_people_read_a_table_and_advice(run, compared):
    said = run(COMMAND).stdout
    assert max(map(len, said.splitlines())) <= 80
    flat = " ".join(said.split())
    assert f"Build {compared.recommended.name}: {compared.recommended.rounds} rounds" in flat
    for words in ("complete, with loops", "small world", "ring, lazy", "> 10,000", "replacement"):
        assert words in flat
    assert "not who passed it to whom" in flat


def test_a_target_is_kept(run):
    found = run(COMMAND, "--epsilon 0.3 --local-epsilon 1.5 --delta 1e-5 --json").json()
    assert found["epsilon"] == 0.3
    reached = [each["epsilon"] for each in found["overlays"] if each["rounds"]]
    assert max(reached) <= 0.3
