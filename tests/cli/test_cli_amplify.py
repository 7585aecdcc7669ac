"""``shoal amplify``: its numbers are the accountant's, in every mode, for people and programs."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import numpy as np
import pytest

import shoal
from shoal.accounting import catalog
from shoal.cli import render
from shoal.mechanisms import registry

FOUR = "amplify --local-epsilon 4 --n 1e5"
GUARANTEE = {
    "epsilon",
    "lower",
    "delta",
    "n",
    "local_epsilon",
    "local_delta",
    "rounds",
    "reports",
    "theorem",
    "neighbouring",
    "replaced",
    "trust",
    "assumptions",
    "warnings",
}
COMPARISON = {
    "bound",
    "epsilon",
    "lower",
    "delta",
    "n",
    "local_epsilon",
    "theorem",
    "citation",
    "neighbouring",
    "status",
    "guarantee",
    "scope",
    "remark",
}


@pytest.fixture
def table(tmp_path):
    """A file with the table of 3-ary randomized response, ε0 = 1."""
    path = tmp_path / "table.csv"
    rows = shoal.RandomizedResponse(k=3, epsilon=1.0).table()
    path.write_text("# three answers\n" + "\n".join(",".join(map(repr, r)) for r in rows.tolist()))
    return path


def test_optimal_clones(run):
    found = run(FOUR, "--delta 1e-6 --json").json()
    assert set(found) == GUARANTEE
    assert 0.118153 <= found["epsilon"] <= 0.118153 * (1 + 1e-4) + 1e-6
    assert 0.9 * found["epsilon"] < found["lower"] <= found["epsilon"]
    assert (found["delta"], found["n"], found["local_epsilon"]) == (1e-6, 100_000, 4)
    assert found["theorem"] == "optimal clones"
    assert (found["neighbouring"], found["replaced"]) == ("replacement", "one person's datum")


def test_delta_is_1e_6_if_nothing_is_said(run):
    assert run(FOUR, "--json").json() == run(FOUR, "--delta 1e-6 --json").json()


@pytest.mark.parametrize(
    ("options", "epsilon"),
    [
        ("--randomizer grr --k 100", 0.068432),
        ("--bound clones", 0.169771),
        ("--bound fmt21-closed", 0.534634),
        ("--bound fmt22-closed", 0.407793),
        ("--bound krr-closed --k 10", 0.401453),
    ],
)
def test_known_values(run, options, epsilon):
    assert run(FOUR, options, "--json").json()["epsilon"] == pytest.approx(epsilon, rel=2e-5)


@pytest.mark.parametrize(
    ("options", "keywords"),
    [
        ("--honest-fraction 0.5", {"crowd": shoal.Crowd(honest_fraction=0.5)}),
        ("--honest-n 2e4", {"honest_n": 20_000}),
        ("--participation 0.1", {"crowd": shoal.Crowd(participation=0.1)}),
        ("--local-delta 1e-13", {"local_delta": 1e-13}),
        ("--bound fmt21-thm41", {"bound": "fmt21-thm41"}),
        ("--epsilon 0.2", {"epsilon": 0.2}),
        ("--rounds 3", {"rounds": 3}),
        ("--rounds 3 --composition advanced", {"rounds": 3, "composition": "advanced"}),
        ("--rounds 3 --epsilon 0.5", {"rounds": 3, "epsilon": 0.5}),
    ],
)
def test_every_option_reaches_the_accountant(run, options, keywords):
    found = run(FOUR, options, "--json").json()
    expected = shoal.amplify(local_epsilon=4, n=100_000, **keywords).to_dict()
    assert {key: found[key] for key in expected} == expected


def test_deletion(run):
    found = run("amplify --deletion-epsilon 1 --n 1e4 --json").json()
    expected = shoal.amplify(deletion_epsilon=1, n=10_000)
    assert (found["epsilon"], found["local_epsilon"]) == (expected.epsilon, 2)


def test_a_table_in_a_file(run, table, tmp_path):
    known = run("amplify --randomizer grr --k 3 --local-epsilon 1 --n 1e4 --json").json()
    found = run(f"amplify --table {table} --n 1e4 --json").json()
    assert found["epsilon"] == pytest.approx(known["epsilon"], rel=1e-5)
    assert found["local_epsilon"] == pytest.approx(1, rel=1e-12)
    binary = tmp_path / "table.NPY"
    with binary.open("wb") as file:
        np.save(file, np.loadtxt(table, delimiter=","))
    assert run(f"amplify --table {binary} --n 1e4 --json").json() == found


def test_a_claim_beside_a_table_is_the_one_that_is_stated(run, table):
    claimed = run(f"amplify --table {table} --local-epsilon 1.5 --n 1e4 --json").json()
    assert claimed["local_epsilon"] == 1.5


def test_a_table_that_gives_data_away_has_no_local_epsilon(run, tmp_path):
    path = tmp_path / "leaky.csv"
    path.write_text("0.99,0.01,0\n0.99,0,0.01\n")
    command = f"amplify --table {path} --n 1000 --delta 0.1"
    assert run(command, "--json").json()["local_epsilon"] is None
    assert "nothing: each report may give the datum away" in run(command).stdout


def test_all_bounds_tightest_first(run):
    rows = run(FOUR, "--all --json").json()
    assert all(set(row) == COMPARISON for row in rows)
    assert {row["bound"] for row in rows} == set(catalog.ENTRIES)
    answered = [row["epsilon"] for row in rows if row["epsilon"] is not None]
    assert answered == sorted(answered)
    assert rows[0]["bound"] == "optimal-clones"
    assert all(row["remark"] for row in rows if row["epsilon"] is None or not row["guarantee"])
    assert not any(row["guarantee"] for row in rows if row["status"] != "proved")


def test_all_bounds_of_a_known_randomizer(run):
    rows = run("amplify --randomizer grr --k 100 --local-epsilon 4 --n 1e5 --all --json").json()
    assert rows[0]["bound"] == "blanket"
    assert rows[0]["epsilon"] == pytest.approx(0.068432, rel=2e-5)


def test_all_bounds_as_a_table(run):
    lines = run(FOUR, "--all").stdout.splitlines()
    names = [line.split()[0] for line in lines if line.startswith("  ") and line[2] != " "]
    assert names[1] == "optimal-clones"
    assert set(catalog.ENTRIES) < set(names)
    last = next(line for line in lines if "lower bound" in line)
    assert "0.11702" in last


@pytest.mark.parametrize(
    ("bound", "label"),
    [
        ("bkmtt20", "constant not checked against the paper"),
        ("efmrtt19-general", "quoted, its proof not followed"),
        ("blog-large", "approximation"),
    ],
)
def test_what_is_not_proved_is_never_a_guarantee(run, bound, label):
    row = run(FOUR, "--bound", bound, "--json").json()
    assert set(row) == COMPARISON
    assert row["bound"] == bound
    assert row["guarantee"] is False
    said = " ".join(run(FOUR, "--bound", bound).stdout.split())
    assert f"{bound}: {label}, for comparison only: not a guarantee" in said
    assert f"{label}: not a guarantee" in said
    assert "proved" not in said


def test_binary_randomized_response_for_the_bound_that_needs_it(run):
    row = run(FOUR, "--bound csuzz19 --k 2 --json").json()
    assert row["epsilon"] == pytest.approx(0.372834, rel=1e-5)


def test_solving_for_the_local_epsilon(run):
    command = "amplify --solve local-epsilon --epsilon 1 --delta 1e-7 --n 1e6"
    found = run(command, "--json").json()
    assert set(found) == GUARANTEE | {"solved", "answer"}
    assert found["solved"] == "local-epsilon"
    assert found["answer"] == found["local_epsilon"]
    assert found["answer"] == shoal.local_epsilon(epsilon=1, delta=1e-7, n=10**6)
    assert 0.999 < found["epsilon"] <= 1
    assert found["delta"] == 1e-7


def test_solving_for_the_local_epsilon_of_a_family(run):
    found = run(
        "amplify --solve local-epsilon --epsilon 0.5 --n 1e5 --randomizer grr --k 10 --json"
    ).json()
    family = partial(shoal.RandomizedResponse, k=10)
    assert found["answer"] == shoal.local_epsilon(family, epsilon=0.5, n=100_000)
    assert 0.499 < found["epsilon"] <= 0.5


def test_solving_for_the_number_of_people(run):
    found = run("amplify --solve n --epsilon 1 --delta 1e-6 --local-epsilon 4 --json").json()
    assert found["solved"] == "n"
    assert found["answer"] == found["n"]
    assert found["answer"] == shoal.required_n(epsilon=1, delta=1e-6, local_epsilon=4)
    assert 0.99 < found["epsilon"] <= 1


def test_solving_counts_on_the_honest_only(run):
    found = run(
        "amplify --solve n --epsilon 1 --local-epsilon 2 --honest-fraction 0.5 --json"
    ).json()
    assert found["answer"] == pytest.approx(2 * found["n"], abs=2)
    assert found["epsilon"] <= 1


def test_a_guarantee_says_all_it_should_in_80_columns(run):
    said = run(FOUR, "--delta 1e-6").stdout
    for words in (
        "ε = 0.11816 at δ = 1e-6",
        "0.11702",
        "100,000 honest",
        "optimal clones",
        "replacement",
        "the shuffler hides who sent which report",
        "local ε0 = 4 for each report",
        "even chosen",
        "100,000 of 100,000 people follow the protocol",
    ):
        assert words in said
    assert "warning" not in said
    assert "\x1b" not in said


def test_the_lower_bound_of_several_rounds_is_about_all_of_them(run):
    said = " ".join(run(FOUR, "--rounds 10").stdout.replace("│", " ").split())
    assert "no analysis of the 10 rounds can prove less" in said
    assert "one round" not in said


def test_shown_numbers_are_rounded_outwards(run):
    found = run(FOUR, "--json").json()
    said = run(FOUR).stdout
    upper = float(said.split("ε = ")[1].split()[0])
    lower = float(said.split("lower bound")[1].split()[0])
    assert found["epsilon"] <= upper < found["epsilon"] * (1 + 1e-4)
    assert found["lower"] * (1 - 1e-4) < lower <= found["lower"]


def test_delta_as_the_answer_and_solutions_are_the_headline(run):
    assert "─ δ = 1.567" in run(FOUR, "--epsilon 0.2").stdout
    assert "people are enough ─" in run("amplify --solve n --epsilon 1 --local-epsilon 4").stdout
    solved = run("amplify --solve local-epsilon --epsilon 1 --n 1e5").stdout
    assert "on each device is private enough ─" in solved


def test_rounds_say_what_all_reports_of_a_person_reveal(run):
    said = run(FOUR, "--rounds 3").stdout
    assert "100,000 honest, 3 rounds" in said
    assert "ε0 = 12 for one person's 3 reports" in said


@pytest.mark.parametrize("delta", ["1e-5", "0.1"])
def test_a_delta_that_protects_nobody_is_warned_about(run, delta):
    said = run(FOUR, "--delta", delta).stdout
    assert "warning: δ is not smaller than 1/n: " in said
    (warning,) = run(FOUR, "--delta", delta, "--json").json()["warnings"]
    assert warning.startswith("δ is not smaller than 1/n: ")
    assert "warning: δ is not smaller than 1/n: " in run(FOUR, "--delta", delta, "--all").stdout


def test_no_amplification_is_warned_about(run):
    found = run("amplify --local-epsilon 4 --n 1 --json").json()
    assert found["epsilon"] == pytest.approx(4, rel=1e-5)
    assert any("without any shuffling" in warning for warning in found["warnings"])


def test_brackets_in_words_are_not_markup(capsys):
    found = shoal.amplify(local_epsilon=1, n=100)
    render.show(replace(found, theorem="[bold] Lemma [2] :fish:").document())
    assert "[bold] Lemma [2] :fish:" in capsys.readouterr().out


@pytest.mark.parametrize("name", registry.names(local=True))
def test_every_randomizer_has_a_name(run, name):
    numbers = name in {"laplace", "duchi", "piecewise", "rounded"}
    asked = f"amplify --randomizer {name} --local-epsilon 2 --n 1e4 --json"
    found = run(asked, "" if numbers else "--k 5").json()
    generic = run("amplify --local-epsilon 2 --n 1e4 --json").json()
    assert 0 < found["epsilon"] <= generic["epsilon"] * 1.001
    assert found["local_epsilon"] <= 2
    wrong = "--k 5" if numbers else "--k 5 --bounds 0,1"
    assert f"no {'--k' if numbers else '--bounds'} for {name}" in run(asked, wrong).refusal()


def test_bounds_do_not_change_what_numbers_give_away(run):
    asked = "amplify --randomizer laplace --local-epsilon 2 --n 1e4 --json"
    wide = run(asked, "--bounds 0,1000").json()["epsilon"]
    assert wide == pytest.approx(run(asked).json()["epsilon"], rel=1e-6)


def test_gaussian_noise_is_given_by_its_deviation(run):
    told = run("amplify --randomizer gaussian --sigma 10 --bounds 0,10 --n 1e4 --delta 1e-6 --json")
    guarantee = shoal.amplify(shoal.Gaussian(low=0, high=10, sigma=10.0), n=10_000, delta=1e-6)
    assert told.json() == guarantee.to_dict()
    little = run("amplify --randomizer gaussian --sigma 10 --bounds 0,100 --n 1e4 --json").json()
    assert little["epsilon"] <= little["local_epsilon"]
    assert little["theorem"].startswith("Gaussian mechanism")
    listed = run("amplify --randomizer gaussian --sigma 10 --bounds 0,100 --n 1e4 --all").stdout
    assert "no finite ε0" in listed
    assert "inf" not in listed.replace("finite", "")
    vectors = run("amplify --randomizer gaussian-vectors --k 5 --sigma 4 --n 1e4 --json").json()
    noise = shoal.GaussianVectors(dimension=5, norm=1.0, sigma=4.0)
    assert vectors["epsilon"] == shoal.amplify(noise, n=10_000).epsilon
