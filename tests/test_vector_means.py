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
from shoal.engines.columns import PUBLIC_NULLS, SHORTENED
from shoal.errors import InvalidArgumentError, UnreachableTargetError

N = 4000
NAMES = ["x", "y", "z"]
SIGMAS = 7.0
SPLIT = "split-and-mix-vectors"


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
        columns=NAMES,
        norm=4.0,
        epsilon=1.0,
        messages_cap=cap,
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
    assert found.only.column == "x, y, z"
    assert SHORTENED in found.notes


def test_the_better_device_is_better(table):
    """A ratio of about ten predicted, so that one run of each tells them apart."""
    errors = {}
    for name in ("privunit", SPLIT):
        found = shoal.run(
            table,
            columns=NAMES,
            norm=4.0,
            epsilon=1.0,
            choose=name,
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
        columns=names,
        norm=1.0,
        epsilon=1.0,
        messages_cap=2000,
        randomness=randomness.simulated(2),
    )
    assert found.randomizer.inner == shoal.PrivUnit(
        dimension=101, epsilon=found.randomizer.local_epsilon
    )
    assert found.plan.choose(SPLIT).recommended.messages <= 2000
    off = (found.estimate.mean - cut(rows, 1.0).mean(axis=0)) / found.estimate.standard_errors
    assert np.abs(off).max() < SIGMAS
    assert found.only.column == "v0, ..., v99 (100 columns)"


def test_every_kind_of_table_and_randomizers_by_hand(table, tmp_path):
    table.write_csv(tmp_path / "rows.csv")
    device = shoal.PrivUnit(dimension=4, epsilon=3.0)
    asked = {"columns": NAMES, "norm": 4.0, "randomizer": device, "compare_truth": True}
    frames = (table, tmp_path / "rows.csv", pd.DataFrame(table.to_dict(as_series=False)))
    found = [shoal.run(each, **asked, randomness=randomness.simulated(6)) for each in frames]
    for each in found:
        assert each.plan is None
        assert np.allclose(each.truth, found[0].truth)
        assert np.allclose(each.estimate.mean, found[0].estimate.mean)
        assert each.guarantee.epsilon == shoal.amplify(device, n=N).epsilon


def test_a_plan_is_run(table):
    asked = {"columns": NAMES, "norm": 4.0}
    plan = shoal.plan(epsilon=1, n=N, dimension=3, norm=4.0, messages_cap=40)
    found = shoal.run(table, **asked, plan=plan)
    assert found.randomizer == plan.randomizer
    for wrong in (
        shoal.plan(epsilon=1, n=N, dimension=3),
        shoal.plan(epsilon=1, n=N, dimension=4, norm=4.0),
        shoal.plan(epsilon=1, n=N, dimension=3, norm=5.0),
        shoal.plan(epsilon=1, n=N, dimension=3, norm=1.0, messages_cap=40),
    ):
        with pytest.raises(InvalidArgumentError, match=r"--dimension 3 --norm 4\)"):
            shoal.run(table, **asked, plan=wrong)
    with pytest.raises(UnreachableTargetError, match=r"plan|people"):
        shoal.run(table.head(3000), **asked, plan=plan)


def test_rows_without_a_number_are_refused_or_left_out():
    data = pl.DataFrame({"x": ["1", "2", "3", "4"], "y": ["0.5", "secret", None, "NaN"]})
    asked = {"columns": ["x", "y"], "norm": 1.0, "compare_truth": True}
    device = shoal.PrivUnit(dimension=3, epsilon=1.0)
    with pytest.raises(InvalidArgumentError, match=r"every row .*--drop-nulls.*'y'") as refused:
        shoal.run(data, **asked, randomizer=device)
    assert "secret" not in str(refused.value)
    found = shoal.run(data, **asked, randomizer=device, drop_nulls=True)
    assert found.n == 1
    assert np.allclose(found.truth, [1.0, 0.5])
    assert PUBLIC_NULLS in found.notes
    assert PUBLIC_NULLS in found.guarantee.assumptions
    with pytest.raises(InvalidArgumentError, match="at least one row with an answer"):
        shoal.run(data.slice(1), **asked, randomizer=device, drop_nulls=True)


def test_whether_any_vector_was_shortened_is_not_told(table):
    device = shoal.PrivUnit(dimension=4, epsilon=3.0)
    notes = {
        shoal.run(table, columns=NAMES, norm=norm, randomizer=device).notes for norm in (0.01, 1e6)
    }
    assert len(notes) == 1


def test_what_is_written_is_plain(table, tmp_path):
    device = shoal.PrivUnit(dimension=4, epsilon=3.0)
    found = shoal.run(table, columns=NAMES, norm=4.0, randomizer=device, compare_truth=True)
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
    assert text.startswith("x, y, z\ncoordinate  mean ")
    assert text.index("\nx ") < text.index("\ny ") < text.index("\nz ")


def test_the_page_has_a_row_for_each_coordinate(table):
    device = shoal.PrivUnit(dimension=4, epsilon=3.0)
    asked = {"columns": NAMES, "norm": 4.0, "randomizer": device}
    page = shoal.run(table, **asked).to_html()
    assert page.count('class="bar"') == 3
    assert page.count("<circle") == 3
    assert "All 3 coordinates" in page
    assert "true mean" not in page
    assert SHORTENED in page
    shown = shoal.run(table, **asked, compare_truth=True).to_html()
    assert "true mean: not private" in shown
    named = table.rename({"x": "<b>x</b>"})
    escaped = shoal.run(named, columns=["<b>x</b>", "y", "z"], norm=4.0, randomizer=device)
    assert "<b>x" not in escaped.to_html()


def test_many_coordinates_are_folded_away():
    names = [f"v{i}" for i in range(50)]
    data = pl.DataFrame(np.eye(50), schema=names)
    device = shoal.PrivUnit(dimension=51, epsilon=3.0)
    page = shoal.run(data, columns=names, norm=1.0, randomizer=device).to_html()
    assert "and 10 more coordinates" in page
    assert "<details><summary>All 50 coordinates" in page


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        ({"columns": ["x"]}, r"two columns or more.*column and bounds"),
        ({"columns": []}, "two columns or more"),
        ({"columns": "xy"}, "two columns or more"),
        ({"columns": ["x", "x"]}, "each once"),
        ({"columns": ["x", 3]}, "the names of two columns"),
        ({"columns": ["x", "q"]}, "one of the columns x, y, z, word"),
        ({"columns": ["x", "word"]}, "every row of the column .*'word'"),
        ({"column": "x"}, "no column with columns"),
        ({"bounds": (0, 1)}, "no bounds with columns"),
        ({"categories": ["a"]}, "no categories with columns"),
        ({"split": "divide"}, "no split with columns"),
        ({"norm": None}, "a norm with columns"),
        ({"norm": 0.0}, "norm > 0"),
        ({"norm": -3}, "norm > 0"),
        ({"norm": math.nan}, "norm > 0"),
        ({"columns": None, "column": "x"}, "no norm without columns"),
        ({"epsilon": None, "randomizer": {"x": None}}, "one randomizer for the vector"),
        (
            {"epsilon": None, "randomizer": shoal.RandomizedResponse(k=3, epsilon=1)},
            "a randomizer of vectors of 3 coordinates: privunit of dimension 4",
        ),
        (
            {"epsilon": None, "randomizer": shoal.PrivUnit(dimension=3, epsilon=1)},
            "privunit of dimension 4",
        ),
    ],
)
def test_refusals(table, asked, message):
    with pytest.raises(InvalidArgumentError, match=message):
        shoal.run(table, **{"columns": NAMES, "norm": 4.0, "epsilon": 1.0, **asked})


def test_a_column_of_dates_is_no_coordinate(table):
    dated = table.with_columns(y=pl.date(2020, 1, 1))
    with pytest.raises(InvalidArgumentError, match="a column of numbers"):
        shoal.run(dated, columns=NAMES, norm=1.0, epsilon=1.0)


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
