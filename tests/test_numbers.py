"""Numbers and dates through the whole way: ``shoal.run`` with bins, its results and pages."""

from __future__ import annotations

import csv
import json
import re

import numpy as np
import polars as pl
import pytest

import shoal
from shoal.cli import render
from shoal.engines.counting import totals as true_totals
from shoal.engines.tables import table
from shoal.errors import InvalidArgumentError
from shoal.questions.kinds import Bins, Number
from shoal.questions.settled import settle
from shoal.questions.terms import Limits, Named
from shoal.randomness import simulated
from shoal.results import charts

N = 20_000
GENERATOR = np.random.default_rng(1)
AGES = np.clip(GENERATOR.normal(40, 15, N), 0, 99).astype(np.int64)
DAYS = np.datetime64("2024-01-01") + GENERATOR.integers(0, 90, N)
FRAME = pl.DataFrame({"age": AGES, "day": DAYS, "color": np.array(["red", "blue"])[AGES % 2]})


def aged(**more):
    """The question that most tests ask."""
    return Bins("age", 0, 100, **({"bins": 20} | more))


@pytest.fixture(scope="module")
def ages():
    asked = aged(quantiles=(0.75, 0.5), ranges=[(20, 39), (95, 100)])
    return shoal.run(FRAME, asked, epsilon=1, randomness=simulated(1))


def test_a_result_has_bins_in_their_order_with_quantiles_and_ranges(ages):
    assert ages.labels == (*(f"{i}–{i + 4}" for i in range(0, 95, 5)), "95–100", "(none)")
    (column,) = ages.to_dict()["columns"]
    median, quartile = column["quantiles"]
    assert median["quantile"] == 0.5
    assert median["low"] <= np.sort(AGES)[N // 2 - 1] <= median["high"]
    assert quartile["low"] <= np.quantile(AGES, 0.75, method="inverted_cdf") <= quartile["high"]
    young, old = column["ranges"]
    assert (young["from"], young["to"], old["to"]) == (20, 39, 100)
    assert young["low"] <= np.mean((AGES >= 20) & (AGES <= 39)) <= young["high"]
    rows = ages.records()
    assert [rows[0][name] for name in ("value", "from", "to")] == ["0–4", 0, 4]
    cumulative = [row["cumulative"] for row in rows[:-1]]
    assert cumulative == sorted(cumulative)
    assert rows[-1]["cumulative"] is rows[-1]["from"] is None
    assert ages.distribution.median().to_dict() == median
    assert [row.cells[0] for row in ages.columns[0].table().rows] == list(ages.labels)
    assert str(ages).count("median") == 1


def test_files_and_pages_keep_the_order_of_bins(ages, tmp_path, capsys):
    ages.to_csv(tmp_path / "ages.csv")
    with (tmp_path / "ages.csv").open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert [row["value"] for row in rows] == list(ages.labels)
    assert (rows[1]["from"], rows[1]["to"], rows[-1]["to"]) == ("5", "9", "")
    ages.to_json(tmp_path / "ages.json")
    assert json.loads((tmp_path / "ages.json").read_text())["columns"][0]["quantiles"]
    page = ages.to_html()
    bars = re.findall(r"<title>([^<:]*): [^<]*95 % interval", page)
    assert bars[: len(ages.labels)] == list(ages.labels)
    assert page.count("<polygon") == 2
    assert "20 to 39" in page
    assert "75 % quantile" in page
    render.show_result(ages)
    shown = re.findall(r"^(\d+–\d+) ", capsys.readouterr().out, re.MULTILINE)
    assert shown == list(ages.labels[:-1])


def test_many_bins_are_drawn_several_at_a_time(capsys):
    many = shoal.run(FRAME, Bins("age", 0, 99, bins=100), epsilon=1, compare_truth=True)
    items = many.columns[0].items(30)
    assert [item.label for item in items[:2]] == ["0–3", "4–7"]
    assert len(items) == 26
    assert items[5].truth == pytest.approx(100 * np.mean((AGES >= 20) & (AGES <= 23)))
    assert sum(item.low <= item.truth <= item.high for item in items) >= 20
    render.show_result(many)
    out = capsys.readouterr().out
    assert "96–99" in out
    assert "a bar is several of 100 bins" in out
    assert len(many.plot().get_yticklabels()) == 35


@pytest.mark.parametrize(
    "asked", [shoal.Scale("color", 1, 5), Bins("color", 0, 100, bins=10, quantiles=0.5)]
)
def test_a_column_without_numbers_has_a_warning_and_neither_mean_nor_median(asked):
    found = shoal.run(FRAME, asked, epsilon=1, randomness=simulated(1))
    assert any("have no value: is color a column of numbers?" in each for each in found.warnings)
    if isinstance(asked, shoal.Scale):
        assert found.only.means[0].mean is None
    else:
        ((median,), _) = found.only.statistics
        assert median.value is median.to_dict()["value"] is None
        assert "median: too few values" in str(found)
        assert "too few values" in found.to_html()


def test_a_column_of_numbers_has_no_warning():
    asked = shoal.Scale("age", 1, 100)
    assert not shoal.run(FRAME, asked, epsilon=1, randomness=simulated(1)).warnings


def test_quantiles_and_ranges_are_compared_with_the_truth():
    asked = aged(quantiles=(0.25, 0.5), ranges=[(20, 39)])
    found = shoal.run(FRAME, asked, epsilon=1, compare_truth=True)
    quantiles, (count,) = found.only.statistics
    for each in quantiles:
        first = 5 * int(np.quantile(AGES, each.quantile, method="inverted_cdf") // 5)
        assert each.truth == f"{first}–{first + 4}"
        assert f"truly in {each.truth}" in str(found)
    assert count.truth == pytest.approx(np.mean((AGES >= 20) & (AGES <= 39)))
    assert count.to_dict()["truth"] == count.truth
    page = found.to_html()
    assert ">truly in<" in page
    assert f">{count.item.shown(count.item.truth)}<" in page


def test_infinite_numbers_do_not_make_an_infinite_true_mean():
    data = pl.DataFrame({"v": [1.0, float("inf"), 30.0, float("-inf")] * 500})
    found = shoal.run(data, Number("v", 0, 10), epsilon=1, compare_truth=True)
    assert found.truth.item() == pytest.approx((1 + 10 + 30 + 0) / 4)


def test_a_page_of_very_many_bins_draws_several_as_a_bar():
    asked = Bins("age", 0.0, 100.0, bins=400, missing="drop")
    found = shoal.run(FRAME, asked, epsilon=1)
    bars = charts.Chart.of(found.columns[0]).bars()
    assert len(bars) == 134
    starts, widths, _, _ = zip(*bars, strict=True)
    assert np.diff(starts) == pytest.approx(widths[:-1])
    assert starts[-1] + widths[-1] == pytest.approx(100)
    page = found.to_html()
    assert "A bar is several of 400 bins" in page
    assert page.count("<tr") > 400


def test_decimals_in_text_are_counted_as_they_are(tmp_path):
    heights = np.arange(N) % 100 / 10  # 0 to 9.9, evenly
    pl.DataFrame({"h": heights}).write_csv(tmp_path / "h.csv")
    pl.DataFrame({"h": heights}).write_parquet(tmp_path / "h.parquet")
    asked = Bins("h", 0, 10, bins=10, ranges=[(0, 4)], quantiles=0.48)
    for name in ("h.csv", "h.parquet"):
        found = shoal.run(tmp_path / name, asked, epsilon=1, randomness=simulated(1))
        assert found.labels[-3:] == ("[8, 9)", "[9, 10]", "(none)")
        (quantile,), (count,) = found.only.statistics
        assert quantile.low <= 4.7 < quantile.high
        assert count.low <= 0.4 <= count.high
        assert count.label == count.to_dict()["range"] == "0 to below 4"


def test_bins_that_are_not_equally_wide_are_drawn_as_areas():
    asked = Bins("age", bins=[0, 18, 65, 119], quantiles=0.5)
    found = shoal.run(FRAME, asked, epsilon=1)
    chart = charts.Chart.of(found.columns[0])
    starts, widths, heights, items = zip(*chart.bars(), strict=True)
    assert starts == pytest.approx((0, 15, 100 * 65 / 120))
    assert sum(widths) == pytest.approx(100)
    assert chart.per == "10"
    areas = np.array([each.value for each in heights]) * np.diff([0, 18, 65, 120]) / 10
    assert areas == pytest.approx([item.value for item in items])
    curve = [float(point.split(",")[0]) for point in chart.curve().split(" ")]
    assert curve == pytest.approx([0, 15, 65 / 1.2, 100], abs=1e-3)
    page = found.to_html()
    assert "its height is that per 10" in page
    assert "Without a value: " in page
    assert "A quantile is of" in page


def test_bins_that_are_equally_wide_have_round_ticks(ages):
    chart = charts.Chart.of(ages.columns[0])
    assert chart.per == ""
    assert [text for _, text in chart.ticks()] == ["0", "25", "50", "75", "100"]
    starts, widths, _, _ = zip(*chart.bars(), strict=True)
    assert chart.ticks()[1][0] == pytest.approx(starts[5])
    assert starts[-1] + widths[-1] <= 100


def test_dates_are_counted_by_the_calendar(tmp_path):
    FRAME.write_csv(tmp_path / "days.csv")
    asked = Bins("day", "2024-01-01", "2024-03-31", bins="month", quantiles=0.5, missing="drop")
    for data in (FRAME, tmp_path / "days.csv"):
        found = shoal.run(data, asked, epsilon=1)
        assert found.labels == ("2024-01", "2024-02", "2024-03")
        median = found.distribution.median()
        assert (median.low, median.high) == ("2024-02-01", "2024-02-29")
        assert found.records()[2]["to"] == "2024-03-31"
        assert "dates outside" in found.notes[0]


def test_columns_have_bins_and_questions_of_their_own():
    asked = [Bins("age", 0, 100, quantiles=0.5), "color"]
    found = shoal.run(FRAME, asked, epsilon=1, limits=Limits(each=True))
    assert len(found["age"].quantiles) == 1
    assert found["color"].labels == ("blue", "red")
    assert any(sentence.startswith("age: median") for sentence in found.document().sentences)
    with pytest.raises(InvalidArgumentError, match="collected in bins"):
        _ = found["color"].distribution


def test_curves_do_not_depend_on_where_the_rows_are_read(tmp_path):
    FRAME.write_parquet(tmp_path / "ages.parquet")
    tables = [
        table(data, ["age"]) for data in (FRAME, tmp_path / "ages.parquet", FRAME.to_pandas())
    ]
    coding = settle(aged(), tables[0]).coding
    totals = [sum(true_totals(coding, chunk) for chunk in each.chunks(coding)) for each in tables]
    assert totals[0].sum() == N
    assert totals[0][4] == np.sum((AGES >= 20) & (AGES <= 24))
    assert all((each == totals[0]).all() for each in totals)


def response(k):
    return shoal.RandomizedResponse(k=k, epsilon=1)


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({"questions": aged(ranges=[(20, 33)]), "epsilon": 1}, "the nearest is 20 to 34"),
        ({"mechanism": response(20)}, r"which age has \(20 bins and \(none\)\)"),
        ({"mechanism": Named("laplace", epsilon=1)}, "a mechanism of answers, one of grr"),
        ({"questions": Bins("age", 0, 100), "mechanism": response(21)}, "auto needs epsilon"),
    ],
)
def test_what_makes_no_sense_is_refused_before_anybody_reports(more, said):
    with pytest.raises(InvalidArgumentError, match=said):
        shoal.run(FRAME, **({"questions": aged()} | more))
