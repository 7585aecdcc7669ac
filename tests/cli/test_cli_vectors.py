"""``shoal run --columns`` and ``shoal plan --dimension``: means of vectors."""

from __future__ import annotations

import csv

import pytest

from cli import desks
from cli.desks import MEAN
from cli.desks import VECTORS as ROWS
from shoal.cli import render
from shoal.explain.text import Item
from shoal.results.charts import Axis

VECTOR = "run rows.csv --columns x,y,z --norm 5"


@pytest.fixture(autouse=True)
def desk(tmp_path, monkeypatch):
    desks.vectors(tmp_path)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize(
    ("words", "name"),
    [
        ("--epsilon 1", "privunit"),
        ("--epsilon 1 --messages-cap 40", "split-and-mix-vectors"),
        ("--epsilon 1 --choose privunitg", "privunitg"),
        ("--randomizer privunit --local-epsilon 4", "privunit"),
    ],
)
def test_the_mean_vector_is_estimated(run, words, name):
    found = run(VECTOR, words, "--json").json()
    assert found["randomizer"]["name"] == name
    assert found["guarantee"]["epsilon"] <= 1 + 1e-9
    for row in found["estimates"]:
        off = abs(row["mean"] - MEAN[row["coordinate"]])
        assert off < 7 * row["standard_error"] < 1.5
    assert [row["coordinate"] for row in found["estimates"]] == list(MEAN)


def test_it_is_shown_and_written(run, desk):
    written = "--report out.html --csv out.csv"
    finished = run(VECTOR, "--epsilon 1 --compare-truth --verbose", written)
    assert max(map(len, finished.stdout.splitlines())) <= 80
    said = " ".join(finished.stdout.split())
    for part in ("x, y, z, estimated from 3,000 reports", "◆ true mean", "NOT PRIVATE", "wrote"):
        assert part in said
    assert "note: vectors longer than the norm" in said
    assert (desk / "out.html").read_text(encoding="utf-8").count("<circle") == 3
    rows = list(csv.DictReader((desk / "out.csv").read_text().splitlines()))
    assert [row["coordinate"] for row in rows] == list(MEAN)


def test_a_plan_shows_both_and_is_run(run):
    words = f"plan --dimension 3 --norm 5 --epsilon 1 --n {ROWS} --messages-cap 40"
    said = run(words, "--save plan.json").stdout
    lines = [line.split()[0] for line in said.splitlines() if line.startswith("  ")]
    assert lines[-3:] == ["split-and-mix-vectors", "privunit", "privunitg"]
    assert "at most 5 long" in said
    assert "to each coordinate of the sum" in " ".join(said.split())
    found = run(VECTOR, "--plan plan.json --json").json()
    assert found["randomizer"]["name"] == "split-and-mix-vectors"
    other = run("run rows.csv --columns x,y,z --norm 4 --plan plan.json").refusal()
    assert other == (
        "expected a --plan or mechanism for a vector of 3 coordinates, at most 4 long, which x, y, "
        "z has, got --plan a vector of 3 coordinates, at most 5 long"
    )


@pytest.mark.parametrize("norm", [1e100, 1e-100])
def test_norms_may_be_very_large_and_very_small(run, norm):
    found = run(f"plan --dimension 3 --norm {norm} --epsilon 1 --n {ROWS} --json").json()
    (report,) = found["questions"][0]["reports"]
    assert 0 < report["options"][0]["errors"]["l2"] / norm < 1e3
    found = run(f"run rows.csv --columns x,y --norm {norm} --epsilon 1 --json").json()
    assert all(0 < row["standard_error"] / norm < 1 for row in found["estimates"])


def test_options_over_the_cap_are_named(run):
    said = run(f"plan --dimension 3 --epsilon 1 --n {ROWS} --messages-cap 20").stdout
    assert "of length 1" in said
    assert "not split-and-mix-vectors:" in said


@pytest.mark.parametrize(
    ("row", "drawn"),
    [
        (Item("x", value=5.0, low=4.0, high=6.0, error=0.5, truth=None), "┊   ━●━    "),
        (Item("x", value=5.0, low=4.0, high=6.0, error=0.5, truth=6.0), "┊   ━●◆    "),
        (Item("x", value=9.9, low=9.8, high=10.0, error=0.1, truth=None), "┊         ●"),
    ],
)
def test_a_coordinate_is_a_dot_on_its_interval(row, drawn):
    assert render.interval(row, Axis(0.0, 10.0), width=11) == drawn
