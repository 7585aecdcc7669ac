"""Mean vectors, from a table to a result: the best device, its errors, its guarantee."""

from __future__ import annotations

import csv
import json
import math

import numpy as np
import pandas as pd
import polars as pl
import pytest

import shoal
from shoal import randomness
from shoal.errors import InvalidArgumentError, UnreachableTargetError
from shoal.questions.kinds import Number, Vector
from shoal.questions.settled import PUBLIC_NULLS, SHORTENED
from shoal.questions.terms import Limits

N = 4000
NAMES = ["x", "y", "z"]
SIGMAS = 7.0
SPLIT = "split-and-mix-vectors"
MOVED = Vector("moved", NAMES, 4.0)


def people(n=N, seed=1):
    rows = np.random.default_rng(seed).normal([1.0, -2.0, 0.5], [1.0, 0.5, 2.0], (n, 3))
    return pl.DataFrame(rows, schema=NAMES).with_columns(word=pl.lit("a"))


@pytest.fixture(scope="module")
def table():
    return people()


def cut(rows, norm):
    lengths = np.linalg.norm(rows, axis=1, keepdims=True)
    return rows * np.minimum(1.0, norm / lengths)


@pytest.mark.parametrize(("cap", "name"), [(None, "privunit"), (40, SPLIT)])
def test_the_mean_is_right_and_the_guarantee_that_of_the_device(table, cap, name):
    found = shoal.run(
        table,
        MOVED,
        epsilon=1.0,
        limits=Limits(messages=cap),
        compare_truth=True,
        randomness=randomness.simulated(1),
    )
    assert found.randomizer.name == found.plan.recommended.name == name
    rows = table.select(NAMES).to_numpy()
    truth = cut(rows, 4.0).mean(axis=0)
    assert np.allclose(found.truth, rows.mean(axis=0))  # what shortening costs is not hidden
    assert (np.linalg.norm(rows, axis=1) > 4).any()
    off = np.abs(found.estimate.mean - truth) / found.estimate.standard_errors
    assert off.max() < SIGMAS
    length = N * float(np.linalg.norm(found.estimate.standard_errors))
    assert 0.5 < length / found.plan.recommended.errors.l2 < 1.5
    kept = shoal.amplify(found.randomizer, n=N, delta=1e-6)
    assert found.guarantee.epsilon == kept.epsilon <= 1 + 1e-9
    assert found.guarantee.theorem == kept.theorem
    assert found.guarantee.local_epsilon == kept.local_epsilon
    assert found.labels == tuple(NAMES)
    assert found.only.column == "moved"
    assert SHORTENED in found.notes


def test_the_better_device_is_better(table):
    """A ratio of about ten predicted, so that one run of each tells them apart."""
    errors = {}
    for name in ("privunit", SPLIT):
        found = shoal.run(
            table,
            Vector("moved", NAMES, 4.0, choose=name),
            epsilon=1.0,
            compare_truth=True,
            randomness=randomness.simulated(3),
        )
        errors[name] = float(np.linalg.norm(found.estimate.mean - found.truth))
        best = found.plan.choose(SPLIT).recommended.errors.l2
        assert best * 4 < found.plan.choose("privunit").recommended.errors.l2
    assert errors[SPLIT] < errors["privunit"]


def test_many_coordinates_of_few_people_are_directions():
    names = [f"v{i}" for i in range(100)]
    rows = np.random.default_rng(5).normal(0.05, 0.05, (1000, 100))
    found = shoal.run(
        pl.DataFrame(rows, schema=names),
        Vector("moved", names, 1.0),
        epsilon=1.0,
        limits=Limits(messages=2000),
        randomness=randomness.simulated(2),
    )
    assert found.randomizer.inner == shoal.PrivUnit(
        dimension=101, epsilon=found.randomizer.local_epsilon
    )
    assert found.plan.choose(SPLIT).recommended.messages <= 2000
    off = (found.estimate.mean - cut(rows, 1.0).mean(axis=0)) / found.estimate.standard_errors
    assert np.abs(off).max() < SIGMAS
    assert found.labels == tuple(names)


def test_every_kind_of_table_and_randomizers_by_hand(table, tmp_path):
    table.write_csv(tmp_path / "rows.csv")
    device = shoal.PrivUnit(dimension=4, epsilon=3.0)
    asked = {"questions": MOVED, "mechanism": device, "compare_truth": True}
    frames = (table, tmp_path / "rows.csv", pd.DataFrame(table.to_dict(as_series=False)))
    found = [shoal.run(each, **asked, randomness=randomness.simulated(6)) for each in frames]
    for each in found:
        assert each.plan is None
        assert np.allclose(each.truth, found[0].truth)
        assert np.allclose(each.estimate.mean, found[0].estimate.mean)
        assert each.guarantee.epsilon == shoal.amplify(device, n=N).epsilon


def test_a_plan_is_run(table):
    several = Limits(messages=40)
    plan = shoal.plan(Vector("moved", 3, 4.0), epsilon=1, n=N, limits=several)
    found = shoal.run(table, MOVED, plan=plan)
    assert found.randomizer == plan.randomizer
    itself = shoal.run(table, plan=shoal.plan(MOVED, epsilon=1, n=N, limits=several))
    assert itself.randomizer == plan.randomizer
    for wrong in (
        shoal.plan(Vector("moved", 3), epsilon=1, n=N),
        shoal.plan(Vector("moved", 4, 4.0), epsilon=1, n=N),
        shoal.plan(Vector("moved", 3, 5.0), epsilon=1, n=N),
        shoal.plan(Vector("moved", 3, 1.0), epsilon=1, n=N, limits=several),
    ):
        with pytest.raises(InvalidArgumentError, match="a vector of 3 coordinates, at most 4 long"):
            shoal.run(table, MOVED, plan=wrong)
    with pytest.raises(UnreachableTargetError, match=r"plan|people"):
        shoal.run(table.head(3000), MOVED, plan=plan)


def test_rows_without_a_number_are_refused_or_left_out():
    data = pl.DataFrame({"x": ["1", "2", "3", "4"], "y": ["0.5", "secret", None, "NaN"]})
    asked, dropped = (Vector("place", ["x", "y"], 1.0, missing=how) for how in ("refuse", "drop"))
    given = {"mechanism": shoal.PrivUnit(dimension=3, epsilon=1.0), "compare_truth": True}
    with pytest.raises(InvalidArgumentError, match=r"every row .*--drop-nulls.*'y'") as refused:
        shoal.run(data, asked, **given)
    assert "secret" not in str(refused.value)
    found = shoal.run(data, dropped, **given)
    assert found.n == 1
    assert np.allclose(found.truth, [1.0, 0.5])
    assert PUBLIC_NULLS in found.notes
    assert PUBLIC_NULLS in found.guarantee.assumptions
    with pytest.raises(InvalidArgumentError, match="with an answer in column x, y"):
        shoal.run(data.slice(1), dropped, **given)


def test_whether_any_vector_was_shortened_is_not_told(table):
    device = shoal.PrivUnit(dimension=4, epsilon=3.0)
    notes = {
        shoal.run(table, Vector("moved", NAMES, norm), mechanism=device).notes
        for norm in (0.01, 1e6)
    }
    assert len(notes) == 1


def test_what_is_written_is_plain(table, tmp_path):
    device = shoal.PrivUnit(dimension=4, epsilon=3.0)
    found = shoal.run(table, MOVED, mechanism=device, compare_truth=True)
    found.to_json(tmp_path / "out.json")
    read = json.loads((tmp_path / "out.json").read_text())
    assert read == found.to_dict()
    low, high = found.estimate.interval()
    assert [row["coordinate"] for row in read["estimates"]] == NAMES
    for i, row in enumerate(read["estimates"]):
        assert row["mean"] == found.estimate.mean[i]
        assert row["sum"] == pytest.approx(N * row["mean"])
        assert row["standard_error"] == found.estimate.standard_errors[i]
        assert (row["low"], row["high"]) == (low[i], high[i])
        assert row["truth"] == found.truth[i]
    found.to_csv(tmp_path / "out.csv")
    rows = list(csv.DictReader((tmp_path / "out.csv").read_text().splitlines()))
    assert [float(row["mean"]) for row in rows] == found.estimate.mean.tolist()
    assert list(rows[0])[:2] == ["coordinate", "mean"]
    text = str(found)
    assert text.startswith("moved\ncoordinate  mean ")
    assert text.index("\nx ") < text.index("\ny ") < text.index("\nz ")


def test_the_page_has_a_row_for_each_coordinate(table):
    device = shoal.PrivUnit(dimension=4, epsilon=3.0)
    asked = {"questions": MOVED, "mechanism": device}
    page = shoal.run(table, **asked).to_html()
    assert page.count('class="bar"') == 3
    assert page.count("<circle") == 3
    assert "All 3 coordinates" in page
    assert "true mean" not in page
    assert SHORTENED in page
    shown = shoal.run(table, **asked, compare_truth=True).to_html()
    assert "true mean: not private" in shown
    named = table.rename({"x": "<b>x</b>"})
    escaped = shoal.run(named, Vector("<i>v</i>", ["<b>x</b>", "y", "z"], 4.0), mechanism=device)
    assert "<b>x" not in escaped.to_html()
    assert "<i>v" not in escaped.to_html()


def test_many_coordinates_are_folded_away():
    names = [f"v{i}" for i in range(50)]
    data = pl.DataFrame(np.eye(50), schema=names)
    device = shoal.PrivUnit(dimension=51, epsilon=3.0)
    page = shoal.run(data, Vector("moved", names, 1.0), mechanism=device).to_html()
    assert "and 10 more coordinates" in page
    assert "<details><summary>All 50 coordinates" in page


@pytest.mark.parametrize(
    ("coordinates", "norm", "message"),
    [
        (["x"], 4.0, r"two columns or more.*for one column of numbers: Number"),
        ([], 4.0, "two columns or more"),
        ("xy", 4.0, "two columns or more"),
        (["x", "x"], 4.0, "each once"),
        (["x", 3], 4.0, "the names of two columns"),
        (NAMES, 0.0, "norm > 0"),
        (NAMES, -3, "norm > 0"),
        (NAMES, math.nan, "norm > 0"),
    ],
)
def test_vectors_that_make_no_sense_are_refused(coordinates, norm, message):
    with pytest.raises(InvalidArgumentError, match=message):
        Vector("moved", coordinates, norm)


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        ({"questions": Vector("moved", ["x", "q"], 4.0)}, "one of the columns x, y, z, word"),
        ({"questions": Vector("moved", ["x", "word"], 4.0)}, "every row of the column .*'word'"),
        ({"questions": Vector("moved", NAMES)}, "a norm with columns"),
        ({"questions": Vector("moved", 3, 4.0)}, "the names of the columns of moved"),
        ({"questions": [MOVED, Number("moved", 0, 1)]}, "every question, or column, once"),
        ({"epsilon": None, "mechanism": {"x": None}}, "mechanisms of the questions moved"),
        (
            {"epsilon": None, "mechanism": shoal.RandomizedResponse(k=3, epsilon=1)},
            "for a vector of 3 coordinates, at most 4 long, which moved has",
        ),
        (
            {"epsilon": None, "mechanism": shoal.PrivUnit(dimension=3, epsilon=1)},
            r"at most 4 long \(or for a vector of 4 coordinates, of length 1\), which moved has",
        ),
    ],
)
def test_refusals(table, asked, message):
    with pytest.raises(InvalidArgumentError, match=message):
        shoal.run(table, **{"questions": MOVED, "epsilon": 1.0, **asked})


def test_a_column_of_dates_is_no_coordinate(table):
    dated = table.with_columns(y=pl.date(2020, 1, 1))
    with pytest.raises(InvalidArgumentError, match="a column of numbers"):
        shoal.run(dated, Vector("moved", NAMES, 1.0), epsilon=1.0)


def test_intervals_cover_and_those_of_all_coordinates_are_wider(table):
    """Of 300 means with 3 coordinates each, 90 % are within; 5.5 standard errors of that aside."""
    device = shoal.SplitAndMixVectors.calibrated(
        dimension=3, bound=4 * math.sqrt(3), n=60, epsilon=1.0, delta=1e-6
    )
    rows = cut(table.head(60).select(NAMES).to_numpy(), 4.0)
    source = randomness.simulated(9)
    covered = []
    for _ in range(300):
        found = device.estimate(device.tally(device.randomize(rows, randomness=source)))
        low, high = found.interval(0.9)
        covered += ((low <= rows.mean(axis=0)) & (rows.mean(axis=0) <= high)).tolist()
    assert 0.9 - 5.5 * 0.3 / 30 < np.mean(covered) < 0.9 + 5.5 * 0.3 / 30
    alone, together = found.interval(0.95), found.interval(0.95, simultaneous=True)
    assert (together[1] - together[0] > alone[1] - alone[0]).all()
    # Laplace noise has more in its tails than a normal law of the same variance.
    assert (found.interval(0.9999)[1] - found.mean > 4.5 * found.standard_errors).all()
