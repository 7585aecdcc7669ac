"""Another engine, the example in SQL, has the same labels, sizes, counts and law as the local one.

The rows come in their order, so that a seed gives the same reports in both.
"""

from __future__ import annotations

import importlib
import math
from collections import Counter

import numpy as np
import polars as pl
import pytest

import shoal
from engine_kit import DROP, PEOPLE, QUESTIONS, TABLE, people, same_column, same_run
from repository import ROOT
from shoal import testing
from shoal.errors import InvalidArgumentError
from shoal.randomness import simulated

duckdb = pytest.importorskip("duckdb")
FRAME = people()


@pytest.fixture(scope="module")
def example():
    duckdb.execute("SET TimeZone = 'Asia/Tokyo'")  # not that of the labels
    place = ROOT / "examples" / "duckdb" / "engine.py"
    assert len(place.read_text(encoding="utf-8").splitlines()) <= 150
    with pytest.MonkeyPatch.context() as patched:
        patched.syspath_prepend(place.parent)
        yield importlib.import_module("engine")


@pytest.fixture(scope="module")
def rows(example):
    return example.DuckTable(duckdb.from_arrow(FRAME.to_arrow()))


@pytest.mark.parametrize("name", TABLE.columns)
def test_columns_have_the_same_kinds_answers_and_sizes(example, name):
    same_column(example.DuckTable(duckdb.from_arrow(TABLE.to_arrow())), TABLE, name)


@pytest.mark.parametrize(
    ("asked", "ways"), [(asked, ways) for asked, *ways in QUESTIONS.values()], ids=QUESTIONS
)
def test_a_run_has_the_same_counts(rows, asked, ways):
    """The rows come in their order, so that a seed gives the same reports of them."""
    for terms in ways:
        same_run((rows, FRAME), asked, terms, seed=7)


def test_texts_and_tests_of_groups_are_the_same(rows):
    asked = shoal.Text(DROP, length=1, alphabet="xyz")
    terms = {"epsilon": 3.0, "compare_truth": True}
    found, known = (
        shoal.heavy_hitters(data, asked, randomness=simulated(2), **terms) for data in (rows, FRAME)
    )
    assert found.records() == known.records()
    groups = shoal.Choice(DROP).by("old")
    terms = {"epsilon": 1.0, "distance": 0.2, "simulations": testing.Simulations(99)}
    there, here = (testing.compare(data, groups, **terms) for data in (rows, FRAME))
    assert there.verdict.sizes == here.verdict.sizes == (PEOPLE // 2, PEOPLE // 2)
    assert there.verdict.guarantee == here.verdict.guarantee


def test_rows_of_a_person_are_a_uniform_choice_and_padded(example):
    numbers = pl.DataFrame({"who": np.arange(1000) // 3, "y": np.arange(1000)})
    numbers = numbers.with_columns(again="y", half=pl.when(pl.col("y") % 2 == 0).then(0.5))
    rows = example.DuckTable(duckdb.from_arrow(numbers.to_arrow()))
    for reports in (1, 2, 5):
        drawn = pl.DataFrame(rows.sample("who", reports, simulated(1)).relation.to_arrow_table())
        assert drawn.columns == ["y", "again", "half"]
        assert drawn.height == reports * 334
        own = drawn.drop_nulls("y")
        assert own.height == min(reports, 3) * 333 + 1
        assert own["y"].is_unique().all()
        assert own["y"].equals(own["again"], check_names=False)  # rows stay together
    small = example.DuckTable(rows.relation.filter("who = 7"))
    kept = Counter(
        small.sample("who", 2, simulated(seed)).answers("y").distinct for seed in range(300)
    )
    assert len(kept) == 3
    assert max(abs(each - 100) for each in kept.values()) < 7 * math.sqrt(300 * 2 / 9)
    with pytest.raises(InvalidArgumentError, match="500 rows have none"):
        rows.sample("half", 1, simulated(1))


def test_a_missing_column_is_said(rows):
    with pytest.raises(InvalidArgumentError, match="did you mean color"):
        shoal.run(rows, "colour", epsilon=1.0)


def test_the_example_tells_its_story(example, capsys):
    example.main()
    assert "people           30,000 honest" in capsys.readouterr().out
