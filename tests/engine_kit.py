"""Columns, people and questions that are the same to every engine."""

from __future__ import annotations

import datetime as dt
from dataclasses import replace
from decimal import Decimal

import numpy as np
import polars as pl
import pytest

import shoal
from shoal.engines.tables import table as opened
from shoal.mechanisms.response import RandomizedResponse
from shoal.questions.settled import Clip, Lookup
from shoal.randomness import simulated

DROP = 'a"; drop'
NAN = float("nan")
INSTANT = dt.datetime(2024, 5, 6, 7, 8, 9, 123456)  # noqa: DTZ001 - one without a zone, too
KINDS = {
    "whole": [3, -20, None, 3, 0],
    "small": pl.Series([1, 2, None, 2, 1], dtype=pl.Int8),
    "float": [1.0, 2.5, NAN, None, -0.0],
    "single": pl.Series([0.1, 1e20, 7.0, NAN, 0.1], dtype=pl.Float32),
    "flag": [True, None, False, True, True],
    "day": [dt.date(2020, 1, 2), dt.date(1969, 12, 31), None, None, dt.date(2020, 1, 2)],
    "moment": [INSTANT, None, dt.datetime(1999, 1, 1), INSTANT, INSTANT],  # noqa: DTZ001
    "instant": pl.Series([INSTANT, None, INSTANT, INSTANT, None]).dt.replace_time_zone("UTC"),
    "price": [Decimal("1.50"), Decimal("-2.00"), None, Decimal("1.50"), Decimal("0.25")],
    "text": ["a", "B", None, " b", ""],
    "odd `name.": ["x", "y", "x", None, "x"],
    DROP: ["z", "y", "x", None, "x"],
    "digits": ["1", " 2 ", "x", None, "1e1"],
}
TABLE = pl.DataFrame(KINDS)
PEOPLE = 3000
AIDS, HALVES = ("glasses", "cane", "hearing aid"), (0.5, 1.0, -2.25)
VISITS = tuple(dt.date(2020, 1, day) for day in (1, 2, 3))
MOMENTS = tuple(dt.datetime(2020, 1, day, tzinfo=dt.UTC) for day in (1, 2, 3))
EPSILON, LARGE = {"epsilon": 1.0}, {"epsilon": 3.0}
SEVERAL = EPSILON | {"limits": shoal.Limits(messages=100)}


def people():
    """Three rows of everybody, with a column for every kind of question."""
    rng = np.random.default_rng(5)
    days = rng.integers(0, 800, PEOPLE)
    return pl.DataFrame(
        {
            "color": rng.choice(["red", "green", "blue"], PEOPLE, p=[0.5, 0.3, 0.2]),
            "age": rng.integers(18, 90, PEOPLE),
            "x": rng.normal(0, 0.3, PEOPLE),
            "y": rng.normal(0.2, 0.3, PEOPLE),
            DROP: rng.choice(["x", "y", 'z"; drop'], PEOPLE),
            "old": np.arange(PEOPLE) % 2 == 0,
            "born": [dt.date(2020, 1, 1) + dt.timedelta(days=int(day)) for day in days],
            **_answered(rng),
        }
    ).with_columns(
        pl.when(pl.int_range(PEOPLE) % 10 == 0).then(None).otherwise(pl.col("color")).alias("gaps"),
        # Three rows each, all of one color: whichever are chosen, the answers are the same.
        (pl.col("color") + (pl.int_range(pl.len()).over("color") // 3).cast(pl.String)).alias(
            "who"
        ),
        pl.col("color").map_elements(list, return_dtype=pl.List(pl.String)).alias("letters"),
    )


def _answered(rng):
    """Columns of several answers, of each kind, and of a scale and numbers, with gaps."""
    chosen = [[i for i in range(3) if code >> i & 1] for code in rng.integers(0, 8, PEOPLE)]
    kinds = {
        "aids": [";".join(f" {AIDS[i]} " for i in each) for each in chosen],
        "listed": [[*(AIDS[i] for i in each), "other"] for each in chosen],
        "halves": [[*(HALVES[i] for i in each), NAN] for each in chosen],
        "visits": [[VISITS[i] for i in each] for each in chosen],
        "instants": [[MOMENTS[i] for i in each] for each in chosen],
        "mood": rng.integers(0, 8, PEOPLE).tolist(),
        "hours": [NAN if half > 50 else half / 2 for half in rng.integers(0, 60, PEOPLE)],
    }
    gaps = {"aids": 5, "listed": 6, "halves": 7, "visits": 8, "instants": 9, "mood": 4, "hours": 11}
    return {
        name: [None if i % gaps[name] == 0 else value for i, value in enumerate(values)]
        for name, values in kinds.items()
    }


COLOR, GAPS, OLD = shoal.Choice("color"), shoal.Choice("gaps"), shoal.Choice("old")
AGE, PLACE = shoal.Number("age", 0, 100), shoal.Vector("place", ["x", "y"], 1.0)
BORN = shoal.Bins("born", "2020-01-01", "2021-12-31", bins="month")
HOURS, MOOD = shoal.Number("hours", 0, 24, missing="cell"), shoal.Scale("mood", 1, 5)
LISTED = shoal.Choices("listed", AIDS)
# Devices that never lie tell whatever is read otherwise.
TRUTHFUL = {"mechanism": shoal.Named("grr", epsilon=30.0)}
BOTH = (LARGE, TRUTHFUL)
QUESTIONS = {
    "answers": (COLOR, EPSILON),
    "a strange name": (shoal.Choice(DROP), EPSILON),
    "nulls": (GAPS, EPSILON),
    "dropped": (replace(GAPS, missing="drop"), EPSILON),
    "list": (shoal.Choice("color", ["red", "green"]), EPSILON),
    "randomizer": (
        COLOR,
        {"mechanism": shoal.Named("grr", epsilon=3.0), "crowd": shoal.Crowd(honest_fraction=0.9)},
    ),
    "messages": (
        replace(COLOR, choose="zero-sum"),
        EPSILON | {"limits": shoal.Limits(messages=20)},
    ),
    "numbers": (AGE, EPSILON),
    "two": ([COLOR, AGE], EPSILON),
    "vector": (PLACE, EPSILON),
    "near-central": (replace(COLOR, choose="near-central-lean"), SEVERAL),
    "dates": (BORN, EPSILON),
    "gaussian": (replace(AGE, choose="gaussian"), EPSILON),
    "gaussian vector": (replace(PLACE, choose="gaussian-vectors"), EPSILON),
    "tree": (shoal.Bins("age", 0, 100, bins=16, tree=True), SEVERAL),
    "persons": (COLOR, EPSILON | {"person": "who"}),
    "four reports": (COLOR, EPSILON | {"person": shoal.Person("who", reports=4)}),
    "groups": (COLOR.by("old"), LARGE),
    "bins in groups": (shoal.Bins("age", 0, 100, bins=4).by("gaps", ["red"]), LARGE),
    "persons in groups": (OLD.by("color"), LARGE | {"person": shoal.Person("who", reports=2)}),
    "lists of persons": (shoal.Choices("letters", ["r", "g", "u"]), LARGE | {"person": "who"}),
    "separated": (shoal.Choices("aids", AIDS), *BOTH),
    "lists": (LISTED, *BOTH),
    "one at most": (replace(LISTED, at_most=1), *BOTH),
    "slots": (replace(LISTED, at_most=2), {"mechanism": RandomizedResponse(k=4, epsilon=30.0)}),
    "sets": (LISTED, {"mechanism": RandomizedResponse(k=8, epsilon=30.0)}),
    "real numbers": (shoal.Choices("halves", HALVES, missing="drop"), *BOTH),
    "days": (shoal.Choices("visits", VISITS), *BOTH),
    "instants": (shoal.Choices("instants", pl.Series(MOMENTS).cast(pl.String).to_list()), *BOTH),
    "scale": (MOOD, *BOTH),
    "scale in groups": (replace(MOOD, missing="drop").by("gaps", ["red", "green"]), *BOTH),
    "missing numbers": (HOURS, *BOTH),
    "missing numbers in groups": (HOURS.by("gaps"), *BOTH),
    "numbers in groups": (replace(HOURS, missing="drop").by("old", [True]), *BOTH),
    "choices in groups": (GAPS.by("mood", public=True), *BOTH),
    "two lists of a column": (
        [shoal.Choice("color", ["red", "green"]), OLD.by("color", ["blue"])],
        *BOTH,
    ),
}


def same_column(there, here, name):
    """Of two tables: what they say of a column, whatever it holds."""
    one, two = opened(there, [name]), opened(here, [name])
    assert one.kind(name) == two.kind(name)
    assert one.size(Lookup(name, ())) == two.size(Lookup(name, ()))
    if two.kind(name) in {"whole", "real"} or name == "digits":
        assert one.size(Clip(name, 0, 1)) == two.size(Clip(name, 0, 1))
    one, two = one.answers(name), two.answers(name)
    assert (one.rows, one.nulls, one.single) == (two.rows, two.nulls, two.single)
    assert one.distinct == two.distinct
    assert one.tally.sort("value").rows() == two.tally.sort("value").rows()


def same_run(tables, asked, terms, seed=None):
    """Two tables have the same result, but for what is drawn; by a seed, all of it."""
    own = terms | {"compare_truth": "person" not in terms}  # whose rows count is drawn
    runs = [
        shoal.run(data, asked, **own, randomness=None if seed is None else simulated(seed))
        for data in tables
    ]
    there, here = runs
    if seed is not None and own["compare_truth"]:
        known, found = (each.to_dict() | {"stages": None} for each in runs)
        assert known == found
    assert there.guarantee == here.guarantee
    assert (there.notes, there.warnings) == (here.notes, here.warnings)
    for one, two in zip(there.columns, here.columns, strict=True):
        assert (one.labels, one.n, one.guarantee) == (two.labels, two.n, two.guarantee)
        assert (one.randomizer, one.kind) == (two.randomizer, two.kind)
        assert one.truth == (None if two.truth is None else pytest.approx(two.truth))
        # Numbers are rounded at random, and of too many answers some are drawn.
        drawn = one.kind.startswith("mean") or getattr(asked, "at_most", 3) in {1, 2}
        distance, most = _apart(one.estimate, two.estimate, drawn * np.sqrt(0.5 / PEOPLE))
        assert (distance <= most).all()
        for ours, theirs in zip(one.means, two.means, strict=True):
            if None not in {ours.mean, theirs.mean}:
                assert np.less_equal(*_apart(ours, theirs)).all()


def _apart(one, two, chance=0.0):
    """The distance of two estimates, and what it may be (once in 1e9).

    ``chance`` is the standard deviation of what is drawn beside the noise.
    """
    value = "frequencies" if hasattr(one, "frequencies") else "mean"
    error = "standard_errors" if hasattr(one, "standard_errors") else "standard_error"
    distance = np.abs(np.atleast_1d(getattr(one, value)) - np.atleast_1d(getattr(two, value)))
    noise = np.hypot(getattr(one, error), getattr(two, error))
    return distance, 6.1 * np.hypot(noise, chance) + 1e-7
