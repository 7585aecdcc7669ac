"""``shoal walk``: the accountant of walks, printed, drawn and refused in one line."""

from __future__ import annotations

import itertools
import re

import numpy as np
import pytest

import shoal
from cli import desks
from cli.desks import PEERS as PEOPLE
from shoal.network import walk_table
from shoal.network.account import WalkAccountant, user_epsilons
from shoal.network.generators import random_regular
from shoal.network.graph import Graph
from shoal.network.walk import Walk


@pytest.fixture
def desk(tmp_path, monkeypatch):
    desks.graphs(tmp_path)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture(scope="module")
def accountant():
    return WalkAccountant(Walk(random_regular(PEOPLE, 16)), local_epsilon=1.0)


@pytest.mark.usefixtures("desk")
def test_json_is_what_the_library_says(run, accountant):
    found = run("walk regular.txt --rounds 3 --json").json()
    library = user_epsilons(accountant, 3)
    assert found["rounds"] == 3
    assert found["worst"]["epsilon"] == pytest.approx(library.worst, rel=1e-9)
    assert found["median"]["epsilon"] == pytest.approx(library.median, rel=1e-9)
    central = shoal.amplify(local_epsilon=1, n=PEOPLE, delta=1e-6).epsilon
    assert found["central"]["epsilon"] == pytest.approx(central, rel=1e-6)
    assert central <= found["median"]["epsilon"] <= found["worst"]["epsilon"] < 1
    assert found["local"]["epsilon"] == pytest.approx(1.0)
    assert found["graph"]["n"] == PEOPLE
    assert found["graph"]["edges"] == PEOPLE * 8
    assert found["graph"]["irregularity"] == pytest.approx(1)
    assert found["cost"]["messages"] == 3
    assert found["cost"]["most_load"] == pytest.approx(1)
    assert found["cost"]["bytes"] == 3 * 1024
    assert found["adversary"]["view"] == "final"
    assert "not who passed it to whom" in found["adversary"]["trust"]
    assert found["worst"]["neighbouring"] == "replacement"
    assert found["worst"]["n"] == PEOPLE
    assert found["worst"]["theorem"]
    rounds = [row["rounds"] for row in found["table"]]
    assert rounds == sorted(set(rounds))
    assert rounds[-1] == 3
    for name in ("worst", "99 %", "90 %", "median"):
        column = [row[name] for row in found["table"]]
        assert all(b <= a * (1 + 1e-6) for a, b in itertools.pairwise(column))


@pytest.mark.usefixtures("desk")
def test_people_read_a_table_the_guarantee_and_the_cost(run):
    finished = run("walk hubs.csv --rounds 3 --simulate")
    assert finished.status == 0
    said = finished.stdout
    for words in ("worst", "99 %", "90 %", "median", "central shuffler", "no amplification"):
        assert words in said
    flat = " ".join(said.replace("│", " ").split())
    for words in (
        "80 people",
        "δ = 1e-6",
        "replacement: one person's datum",
        "not who passed it to whom",
        "ε0 = 1 for each report",
        "nobody who passes reports on works for the server",
        "cost 3 messages",
        "by the best connected peer",
        "simulated once",
        "100.0% of the reports arrive",
    ):
        assert words in flat


@pytest.mark.usefixtures("desk")
def test_epsilon_asks_for_rounds(run, accountant):
    target = 0.7
    found = run(f"walk regular.txt --epsilon {target} --json").json()
    rounds = found["rounds"]
    assert found["worst"]["epsilon"] <= target
    assert accountant.profile(rounds - 1).epsilon(1e-6) > target


@pytest.mark.usefixtures("desk")
def test_without_a_question_it_comes_near_a_shuffler(run, accountant):
    said = run("walk regular.txt").stdout
    found = re.search(r"(\d+) rounds: within 10 % of a central shuffler's ε", said)
    central = accountant.reports.central(PEOPLE).epsilon(1e-6)
    reached = [accountant.profile(int(found[1]) - less).epsilon(1e-6) for less in (0, 1)]
    assert reached[0] <= walk_table.NEAR * central < reached[1]


@pytest.mark.usefixtures("desk")
def test_the_randomizers_own_law_is_used(run):
    generic, own = (
        run(f"walk regular.txt --rounds 3 {words} --json").json()
        for words in ("", "--randomizer grr --k 8")
    )
    assert own["worst"]["epsilon"] < generic["worst"]["epsilon"]
    assert own["worst"]["local_epsilon"] == pytest.approx(1)


def test_a_file_of_weights_is_read_as_edges_both_ways_and_says_so(run, desk):
    lines = (desk / "regular.txt").read_text().splitlines()
    (desk / "weights.txt").write_text("".join(f"{line} 0.5\n" for line in lines))
    plain, weighted = (
        run(f"walk {name}.txt --rounds 3 --json").json() for name in ("regular", "weights")
    )
    assert weighted["worst"]["epsilon"] == plain["worst"]["epsilon"]
    assert plain["graph"]["notes"] == []
    assert any("all but the first two columns" in note for note in weighted["graph"]["notes"])
    for answer in (plain, weighted):
        assert any("in both directions" in text for text in answer["worst"]["assumptions"])
    printed = " ".join(run("walk weights.txt --rounds 3").stdout.split())
    assert "ignored all but the first two columns: every neighbour is drawn" in printed


@pytest.mark.usefixtures("desk")
def test_absences_slow_the_walk_and_are_said_to_be_drawn(run, accountant):
    found = run("walk regular.txt --rounds 4 --offline 0.01 --json").json()
    assert found["worst"]["epsilon"] > accountant.profile(4).epsilon(1e-6)
    assert any("one pattern" in said for said in found["worst"]["assumptions"])
    again = run("walk regular.txt --rounds 4 --offline 0.01 --seed 1 --json").json()
    assert again["worst"]["epsilon"] != found["worst"]["epsilon"]


@pytest.mark.usefixtures("desk")
def test_adversaries_are_named_and_cost(run, accountant):
    plain = accountant.profile(3).epsilon(0.01)
    words = "walk regular.txt --rounds 3 --delta 0.01 --collusion 0.02 --json"
    corrupt = run(words).json()
    assert corrupt["worst"]["epsilon"] > plain
    assert corrupt["adversary"]["collusion"] == 0.02
    assert any("works for the server" in said for said in corrupt["warnings"])
    seen = run(
        "walk regular.txt --rounds 3 --delta 0.05 --view traffic --runs 400 --user 3 --json"
    ).json()
    assert seen["worst"] is None
    assert seen["user"]["node"] == 3
    assert seen["user"]["epsilon"] > plain
    assert "who passes to whom in every round" in seen["adversary"]["trust"]
    one = run("walk regular.txt --rounds 2 --submit single --simulate --json").json()
    assert one["adversary"]["submit"] == "single"
    assert 0.4 < one["simulation"]["delivered"] < 0.9


@pytest.mark.usefixtures("desk")
def test_too_few_runs_are_said_to_be_too_few(run):
    found = run("walk regular.txt --rounds 3 --view traffic --runs 50 --json").json()
    assert any("50 runs certify no δ" in said for said in found["warnings"])


@pytest.mark.usefixtures("desk")
def test_the_largest_part_and_lazy_walks_are_cures(run):
    found = run("walk parts.txt --rounds 2 --largest-component --json").json()
    assert found["graph"]["n"] == 30
    assert any("largest of 2 components" in note for note in found["graph"]["notes"])
    assert run("walk alone.txt --rounds 2 --largest-component --json").json()["graph"]["n"] == 30
    lazy = run("walk ring.txt --rounds 3 --lazy --json").json()
    assert lazy["walk"] == {"kind": "lazy", "stay": 0.5, "offline": 0.0}


@pytest.mark.parametrize(("suffix", "magic"), [("svg", b"<?xml"), ("png", b"\x89PNG")])
def test_it_draws(run, desk, suffix, magic):
    finished = run(f"walk regular.txt --rounds 2 --plot walk.{suffix}")
    assert f"wrote walk.{suffix}" in finished.stdout
    assert (desk / f"walk.{suffix}").read_bytes().startswith(magic)


def test_npz_is_read(run, desk):
    graph = random_regular(30, 8)
    edges = np.column_stack([graph.rows, graph.neighbours])
    np.savez(desk / "graph.npz", edges=edges, n=30)
    assert run("walk graph.npz --rounds 6 --json").json()["graph"]["edges"] == 120
    np.savez(desk / "more.npz", edges=edges, n=31)
    assert "node 30 of more.npz has no neighbour" in run("walk more.npz").refusal()


@pytest.mark.usefixtures("desk")
def test_absences_of_too_many_people_are_refused(run, monkeypatch):
    monkeypatch.setattr(walk_table, "_MOST_ABSENCES", 100)
    assert "at most 100 people" in run("walk regular.txt --rounds 3 --offline 0.1").refusal()


def test_the_fixture_is_what_it_says(desk):
    assert Graph.read(desk / "ring.txt").bipartite
    assert Graph.read(desk / "parts.txt").components == 2
