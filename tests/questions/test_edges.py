"""Public bins: their edges and labels, what falls into them, and what is refused."""

from __future__ import annotations

import datetime as dt
import math
from decimal import Decimal

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from shoal.engines.tables import table
from shoal.errors import InvalidArgumentError
from shoal.questions.edges import Edges, worthwhile
from shoal.questions.kinds import NONE, Bins
from shoal.questions.settled import PUBLIC_NULLS, PUBLIC_TYPE, UNEQUAL, settle

JANUARY = (dt.date(2024, 1, 15), "2024-04-02")


def binned(values, bins, bounds, **more):
    """A column in bins, as it is asked of a table."""
    asked = Bins("v", *(bounds or ()), bins=bins, **more)
    return settle(asked, table(pl.DataFrame({"v": values}), ["v"]))


def codes(values, *arguments, **more):
    """The bin of every value."""
    settled = binned(values, *arguments, **more)
    rows = table(pl.DataFrame({"v": values}), ["v"])
    return np.concatenate(list(rows.chunks(settled.coding))).tolist()


@pytest.mark.parametrize(
    ("bins", "bounds", "labels"),
    [
        (4, (0, 100), ("0–24", "25–49", "50–74", "75–100")),
        (5, (1, 5), ("1", "2", "3", "4", "5")),
        (3, (0, 9), ("0–2", "3–5", "6–9")),
        (2, ("0", "3"), ("0–1", "2–3")),
        (2, (-0.5, 0.5), ("[-0.5, 0)", "[0, 0.5]")),
        (3, (0.0, 1.0), ("[0, 0.333333)", "[0.333333, 0.666667)", "[0.666667, 1]")),
        ([0, 18, 65, 120], None, ("0–17", "18–64", "65–120")),
        ([0, 0.5, 2], (0.1, 1.5), ("[0, 0.5)", "[0.5, 2]")),
        ("month", JANUARY, ("2024-01", "2024-02", "2024-03", "2024-04")),
        ("week", ("2024-01-17", "2024-01-29"), ("2024-01-15", "2024-01-22", "2024-01-29")),
        ("day", ("2024-02-28", "2024-03-01"), ("2024-02-28", "2024-02-29", "2024-03-01")),
        (2, ("2024-01-01", "2024-01-03"), ("2024-01-01", "2024-01-02 – 2024-01-03")),
    ],
)
def test_bins_are_named_after_what_is_in_them(bins, bounds, labels):
    assert Edges.of(bins, bounds, n=10).labels == labels


def test_only_columns_of_integers_have_bins_of_whole_numbers():
    assert binned([1, 2], 2, (0, 4)).labels == ("0–1", "2–4", NONE)
    real = ("[0, 2)", "[2, 4]", NONE)
    for values in ([1.5, 2.0], ["1", "2"], ["1.5", "2"], [Decimal("1.5"), Decimal(2)]):
        assert binned(values, 2, (0, 4)).labels == real
    assert binned(["1", "2"], 2, (0, 4.0)).labels == real
    assert binned(["1.7", "2"], 4, (1, 3)).labels[:2] == ("[1, 1.5)", "[1.5, 2)")
    with pytest.raises(InvalidArgumentError, match="at most 3 bins"):
        binned([1, 2], 4, (1, 3))


def test_values_outside_are_in_the_end_bins_and_no_values_in_none():
    values = [None, float("nan"), -5.0, 0.0, 9.999, 10.0, 19.0, 20.0, 1e9, math.inf]
    assert codes(values, 2, (0.0, 20.0)) == [2, 2, 0, 0, 0, 1, 1, 1, 1, 1]
    dropped = binned(values, 2, (0.0, 20.0), missing="drop")
    assert (dropped.n, dropped.labels) == (8, ("[0, 10)", "[10, 20]"))
    assert codes(values, 2, (0.0, 20.0), missing="drop") == [0, 0, 0, 1, 1, 1, 1, 1]
    assert PUBLIC_NULLS in dropped.assumptions
    assert "outside the bounds" in dropped.notes[0]
    text = [" 3 ", "x", "", None, "1e1", "nan", "19.5"]
    assert codes(text, 2, (0, 20)) == [0, 2, 2, 2, 1, 2, 1]


@pytest.mark.parametrize(
    "values",
    [
        [dt.date(2023, 5, 1), dt.date(2024, 1, 31), dt.date(2024, 2, 1), None],
        [
            dt.datetime.fromisoformat("2023-05-01T09:00"),
            dt.datetime.fromisoformat("2024-01-31T23:59"),
            dt.datetime.fromisoformat("2024-02-01T00:00"),
            None,
        ],
        ["2023-05-01", " 2024-01-31T23:59:00Z", "2024-02-01 00:00", "yesterday"],
    ],
    ids=["dates", "moments", "text"],
)
def test_dates_are_counted_by_the_calendar(values):
    bounds = ("2024-01-01", "2024-02-29")
    assert codes(values, "month", bounds) == [0, 0, 1, 2]
    assert binned(values, "month", bounds).edges.span(0, 1) == ("2024-01-01", "2024-02-29")


@given(
    st.lists(st.floats(-50, 150) | st.integers(-50, 150), min_size=1, max_size=30),
    st.integers(2, 12),
    st.sampled_from([(0, 100), (0.0, 100.0), (-7, 13), (0.1, 0.7)]),
)
def test_every_number_is_in_the_bin_whose_edges_are_around_it(values, count, bounds):
    numbers = [float(value) for value in values]
    bins = binned(numbers, count, bounds).edges
    edges = np.array(bins.edges)
    assert (len(bins), edges[0], edges[-1]) == (count, *bounds)
    for value, code in zip(values, codes(numbers, count, bounds), strict=True):
        inside = min(max(float(value), edges[0]), edges[-1])
        assert edges[code] <= inside
        assert inside < edges[code + 1] or code == count - 1


@given(st.integers(-30, 30), st.integers(1, 200), st.data())
def test_whole_numbers_are_split_as_evenly_as_can_be(low, span, data):
    count = data.draw(st.integers(2, span + 1))
    bins = Edges.of(count, (low, low + span), n=1)
    sizes = np.diff(bins.edges)
    assert (len(bins), bins.span(0, count - 1)) == (count, (low, low + span))
    assert sizes.min() >= 1
    assert sizes.max() - sizes.min() <= 1


@given(
    st.integers(1, 10**7),
    st.floats(0.01, 10),
    st.one_of(
        st.tuples(st.integers(-100, 100), st.integers(1, 1000)),
        st.tuples(st.floats(-10, 10), st.floats(1e-3, 1e4)),
    ),
)
def test_automatic_bins_depend_on_people_epsilon_and_bounds(n, epsilon, line):
    low, span = line
    most = worthwhile(n, epsilon)
    bins = Edges.of("auto", (low, low + span), n=n, epsilon=epsilon)
    assert (bins.edges[0], bins.span(0, len(bins) - 1)[1]) == (low, low + span)
    assert 2 <= len(bins) <= most + 2  # round widths, cut off at both ends
    widths = np.diff(bins.edges)[1:-1]
    assert np.allclose(widths, widths[:1].sum(), rtol=1e-6)


def test_automatic_bins_balance_noise_and_width():
    assert worthwhile(500, 1.0) == 16
    assert worthwhile(10, 0.1) == 4
    assert worthwhile(10**6, 1.0) == 100
    assert Edges.of("auto", (0, 100), n=500, epsilon=1.0).labels[:2] == ("0–9", "10–19")
    assert Edges.of("auto", (0, 3), n=500, epsilon=1.0).labels == ("0", "1", "2", "3")
    even = Edges.of("auto", (-50, 50), n=5000, epsilon=1.0)
    assert (even.labels[0], even.labels[-2:]) == ("-50–-49", ("48–49", "50"))
    assert Edges.of("auto", (-50, 49), n=5000, epsilon=1.0).labels[-1] == "48–49"
    years = Edges.of("auto", ("2020-01-01", "2023-12-31"), n=5000, epsilon=1.0)
    assert (years.labels[0], len(years)) == ("2020-01", 48)


@pytest.mark.parametrize(
    ("bins", "bounds", "said"),
    [
        (0, (0, 1), "2 <= bins"),
        (1, (0, 1), "2 <= bins"),
        (2.5, (0, 1), "whole number"),
        (True, (0, 1), "whole number"),
        (100_000, (0.0, 1.0), "bins <= 10000"),
        (5, None, "public bounds"),
        ("auto", None, "public bounds"),
        ("auto", (0, 1), "epsilon"),
        ("year", (0, 1), "'month'"),
        ("day", (0, 1), "dates"),
        (9, ("2024-01-01", "2024-01-08"), "at most 8 bins"),
        (3, (1, 0), "the lower one first"),
        (3, (0, 0), "the lower one first"),
        (3, (0, float("nan")), "two bounds"),
        (3, (0, math.inf), "two bounds"),
        (3, (0, 1, 2), "two bounds"),
        (3, "0,1", "two bounds"),
        (3, ("2024-01-01", 5), "all dates"),
        ([0, 1], None, "rising edges"),
        ([0, 2, 1, 3], None, "rising edges"),
        ([0, 1, 1, 2], None, "rising edges"),
        ([0, float("nan"), 2], None, "rising edges"),
        ([0, "x", 2], None, "rising edges"),
        ([0, "2024-01-01", 2], None, "rising edges"),
        ([0, 10, 20], (0, 100), "cover the bounds from 0 to 100"),
        ([0, 10, 20], ("2024-01-01", "2024-02-01"), "cover"),
        ("day", ("2024-01-01", "2024-01-01"), "the lower one first"),
        ("month", ("2024-01-01", "2024-01-31"), "at least two bins"),
        ("day", ("9999-12-01", "9999-12-31"), "before the year 9999"),
        ("month", ("2024-01-01", "9999-12-31"), "before the year 9999"),
        (3, (0.0, 5e-324), "apart by more than rounding"),
    ],
)
def test_bins_that_make_no_sense_are_refused(bins, bounds, said):
    with pytest.raises(InvalidArgumentError, match=said):
        Edges.of(bins, bounds, n=100)


@pytest.mark.parametrize(
    ("values", "bins", "bounds"),
    [
        ([dt.date(2024, 1, 1)] * 2, 3, (0, 10)),
        ([1, 2], "day", ("2024-01-01", "2024-02-01")),
        ([[1], [2]], 3, (0, 10)),
        ([True, False], 3, (0, 10)),
    ],
)
def test_columns_of_something_else_are_refused(values, bins, bounds):
    with pytest.raises(InvalidArgumentError, match=r"a column of (numbers|dates)"):
        binned(values, bins, bounds)


def test_ranges_are_of_whole_bins():
    whole, real = Edges.of(20, (0, 100), n=1), Edges.of(4, (0.0, 1.0), n=1)
    assert whole.range(20, 39) == (4, 7)
    assert whole.range(95, "100") == (19, 19)
    assert real.range(0.25, 1) == (1, 3)
    assert (real.words(1, 2), real.label(1, 2)) == ("0.25 to below 0.75", "[0.25, 0.75)")
    assert (real.words(1, 3), real.label(1, 3)) == ("0.25 to 1", "[0.25, 1]")
    assert (whole.words(4, 7), whole.label(4, 7)) == ("20 to 39", "20–39")
    ages = binned(["15", "64.5"], [0, 15, 65, 120], None).edges
    assert ages.range(15, 65) == (1, 1)
    with pytest.raises(InvalidArgumentError, match="the nearest is 15 to below 65"):
        ages.range(15, 64)
    days = Edges.of("month", JANUARY, n=1)
    assert days.range("2024-02-01", dt.date(2024, 3, 31)) == (1, 2)
    for bins, wrong in (
        (whole, (20, 40)),
        (whole, (39, 20)),
        (whole, (-5, 4)),
        (real, (0.2, 0.5)),
        (real, (0.5, 0.5)),
        (days, (1, 2)),
        (whole, ("a", 4)),
    ):
        with pytest.raises(InvalidArgumentError, match="ranges of"):
            bins.range(*wrong)


def test_a_bin_of_more_whole_numbers_than_others_is_noted():
    assert UNEQUAL.format(5, 6) in binned([1, 2], 20, (0, 100)).notes
    for even in (binned([1, 2], 20, (0, 99)), binned([1.0], 20, (0, 100))):
        assert not any("equally wide" in note for note in even.notes)


@pytest.mark.parametrize(
    ("values", "bins", "bounds", "typed"),
    [
        ([1, 2], 2, (0, 3), True),
        ([1.0, None], 2, (0, 3), True),  # what one missing value makes of a column of pandas
        ([1, 2], np.array([0, 2, 3]), None, True),
        ([1, 2], np.int64(2), (0.0, 3.0), False),
        ([1.0, 2.0], [0.0, 1.5, 3.0], (0, 3), False),
        (["1", "2"], 2, (0, 3), False),
        ([dt.date(2024, 2, 1)], "month", JANUARY, False),
    ],
)
def test_the_type_of_a_column_is_public_where_bins_follow_it(values, bins, bounds, typed):
    assert (PUBLIC_TYPE in binned(values, bins, bounds).assumptions) == typed
