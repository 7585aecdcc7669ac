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
from repository import ROOT
from shoal import testing
from shoal.engines.tables import table
from shoal.errors import InvalidArgumentError
from shoal.questions.settled import Clip, Lookup
from shoal.randomness import simulated

duckdb = pytest.importorskip("duckdb")
DROP = 'a"; drop'
PEOPLE = 1000
NUMBERS = np.arange(PEOPLE)
FRAME = pl.DataFrame(
    {
        "color": [("red", "green", "red", None, "blue")[i % 5] for i in NUMBERS],
        DROP: [("x", "y", 'z"; drop')[i % 3] for i in NUMBERS],
        "age": 18 + NUMBERS % 60,
        "x": np.where(NUMBERS % 7, NUMBERS / PEOPLE, math.nan),
        "y": 1 - NUMBERS / PEOPLE,
        "typed": [("1", " 2.5 ", "none", None)[i % 4] for i in NUMBERS],
        "born": pl.Series(NUMBERS % 365 + 18_262).cast(pl.Date),
        "letters": [["a", "b", "c"][: i % 4] for i in NUMBERS],
        "who": NUMBERS // 3,
        "half": [0.5 if i % 2 else None for i in NUMBERS],
        "old": NUMBERS % 2 == 0,
    }
)


@pytest.fixture(scope="module")
def example():
    place = ROOT / "examples" / "duckdb" / "engine.py"
    assert len(place.read_text(encoding="utf-8").splitlines()) <= 150
    with pytest.MonkeyPatch.context() as patched:
        patched.syspath_prepend(place.parent)
        yield importlib.import_module("engine")


@pytest.fixture(scope="module")
def rows(example):
    return example.DuckTable(duckdb.from_arrow(FRAME.to_arrow()))


@pytest.mark.parametrize("name", [name for name in FRAME.columns if name != "letters"])
def test_columns_have_the_same_kinds_answers_and_sizes(rows, name):
    here, every = table(FRAME, [name]), table(FRAME, [name, "color"])
    assert rows.kind(name) == here.kind(name)
    assert rows.size(Lookup(name, ())) == here.size(Lookup(name, ()))
    for there, same in ((rows, here), (rows.where("color", "red"), every.where("color", "red"))):
        one, two = there.answers(name), same.answers(name)
        assert (one.rows, one.nulls) == (two.rows, two.nulls)
        assert one.tally.sort("value").rows() == two.tally.sort("value").rows()
    if name in {"age", "x", "typed"}:
        assert rows.size(Clip(name, 0, 1)) == here.size(Clip(name, 0, 1))


BY = shoal.Bins("born", "2020-01-01", "2020-12-30", bins="month").by(DROP)
QUESTIONS = {
    "answers": "color",
    "a strange name": DROP,
    "a list": shoal.Choice("color", ["green", "violet"], missing="drop"),
    "bins": shoal.Bins("age", 18, 77, bins=6, quantiles=0.5),
    "dates in groups": BY,
    "numbers": shoal.Number("x", 0, 0.5, missing="drop"),
    "typed numbers": shoal.Number("typed", 0, 3, missing="cell").by("color"),
    "vectors": shoal.Vector("place", ["x", "y"], 1.0, missing="drop"),
    "choices": shoal.Choices("letters", ["a", "b", "c"], at_most=2),
    "two": ["color", shoal.Scale("age", 18, 22, weight=2)],
}


@pytest.mark.parametrize("asked", QUESTIONS.values(), ids=QUESTIONS)
def test_a_run_has_the_same_counts(rows, asked):
    there, here = (
        shoal.run(data, asked, epsilon=3.0, compare_truth=True, randomness=simulated(7))
        for data in (rows, FRAME)
    )
    known = here.to_dict() | {"stages": None}
    assert there.to_dict() | {"stages": None} == known


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


def test_rows_of_a_person_are_a_uniform_choice_and_padded(rows):
    for reports in (1, 2, 5):
        drawn = pl.DataFrame(rows.sample("who", reports, simulated(1)).relation.to_arrow_table())
        assert drawn.columns == [name for name in FRAME.columns if name != "who"]
        assert drawn.height == reports * 334
        own = drawn.drop_nulls("age")
        assert own.height == (min(reports, 3) * 333) + 1
        # Rows stay together, and each comes once.
        assert set(own.select("y", "age").rows()) <= set(FRAME.select("y", "age").rows())
        assert own["y"].is_unique().all()
    small = rows.relation.filter("who = 7")
    kept = Counter(
        type(rows)(small).sample("who", 2, simulated(seed)).answers("y").distinct
        for seed in range(300)
    )
    assert len(kept) == 3
    assert max(abs(each - 100) for each in kept.values()) < 7 * math.sqrt(300 * 2 / 9)
    with pytest.raises(InvalidArgumentError, match="500 rows have none"):
        rows.sample("half", 1, simulated(1))


def test_persons_are_those_of_a_run(rows):
    terms = {"epsilon": 2.0, "person": shoal.Person("who", reports=2)}
    there, here = (shoal.run(data, "color", **terms) for data in (rows, FRAME))
    assert there.guarantee == here.guarantee
    assert (there.n, there.labels) == (here.n, here.labels)


def test_a_missing_column_is_said(rows):
    with pytest.raises(InvalidArgumentError, match="did you mean color"):
        shoal.run(rows, "colour", epsilon=1.0)


def test_the_example_tells_its_story(example, capsys):
    example.main()
    assert "people           30,000 honest" in capsys.readouterr().out
