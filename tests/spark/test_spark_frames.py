"""A frame of Spark is a table like any other: the same labels, sizes, guarantee and law."""

from __future__ import annotations

import datetime as dt
import os
from dataclasses import replace
from decimal import Decimal
from functools import partial
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from scipy import stats

import shoal
from shoal import testing
from shoal.engines.counting import Counting, Report
from shoal.engines.tables import table as opened
from shoal.errors import EngineError, InvalidArgumentError
from shoal.mechanisms.grid import Laplace
from shoal.mechanisms.response import RandomizedResponse
from shoal.questions.settled import Clip, Lookup, settle
from shoal.randomness import secure, simulated
from spark_kit import spark_session

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
    "digits": ["1", " 2 ", "x", None, "1e1"],
}
TABLE = pl.DataFrame(KINDS)
PEOPLE = 3000
AIDS, HALVES = ("glasses", "cane", "hearing aid"), (0.5, 1.0, -2.25)
VISITS = tuple(dt.date(2020, 1, day) for day in (1, 2, 3))
MOMENTS = tuple(dt.datetime(2020, 1, day, tzinfo=dt.UTC) for day in (1, 2, 3))
EPSILON, LARGE = {"epsilon": 1.0}, {"epsilon": 3.0}
TRUE = EPSILON | {"compare_truth": True}
SEVERAL = EPSILON | {"limits": shoal.Limits(messages=100)}


@pytest.fixture(scope="module")
def session(tmp_path_factory):
    """Two workers, in a time zone that is not that of the labels."""
    place = tmp_path_factory.mktemp("spark")
    with spark_session(place, **{"spark.sql.session.timeZone": "Asia/Tokyo"}) as made:
        yield made


@pytest.fixture(scope="module")
def table(session, tmp_path_factory):
    path = tmp_path_factory.mktemp("table") / "table.parquet"
    TABLE.write_parquet(path)
    return session.read.parquet(str(path))


@pytest.fixture(scope="module")
def people():
    rng = np.random.default_rng(5)
    days = rng.integers(0, 800, PEOPLE)
    return pl.DataFrame(
        {
            "color": rng.choice(["red", "green", "blue"], PEOPLE, p=[0.5, 0.3, 0.2]),
            "age": rng.integers(18, 90, PEOPLE),
            "x": rng.normal(0, 0.3, PEOPLE),
            "y": rng.normal(0.2, 0.3, PEOPLE),
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


@pytest.fixture(scope="module")
def frame(session, people, tmp_path_factory):
    """The people in three files: more partitions than workers."""
    place = tmp_path_factory.mktemp("people")
    for part in range(3):
        people[part::3].write_parquet(place / f"{part}.parquet")
    return session.read.parquet(str(place))


@pytest.mark.parametrize("name", TABLE.columns)
def test_every_kind_of_value_has_the_same_labels_and_size(table, name):
    there, here = opened(table, [name]), opened(TABLE, [name])
    assert there.kind(name) == here.kind(name)
    assert there.size(Lookup(name, ())) == here.size(Lookup(name, ()))
    one, two = there.answers(name), here.answers(name)
    assert (one.rows, one.nulls, one.single) == (two.rows, two.nulls, two.single)
    assert one.distinct == two.distinct
    counted = (answers.tally.sort("value").rows() for answers in (one, two))
    assert next(counted) == next(counted)


@pytest.mark.parametrize("name", ["whole", "float", "single", "price", "digits"])
def test_every_kind_of_number_has_the_same_size(table, name):
    there, here = (opened(data, [name]).size(Clip(name, 0, 1)) for data in (table, TABLE))
    assert there == here


def test_what_is_no_number_is_refused_as_everywhere(table):
    for name in ("flag", "day"):
        with pytest.raises(InvalidArgumentError, match="a column of numbers"):
            opened(table, [name]).size(Clip(name, 0, 1))
    nested = table.selectExpr("array(1, 2) as v")
    with pytest.raises(InvalidArgumentError, match="a column of text, numbers or dates"):
        shoal.run(nested, "v", epsilon=1.0)


COLOR, GAPS, OLD = shoal.Choice("color"), shoal.Choice("gaps"), shoal.Choice("old")
AGE, PLACE = shoal.Number("age", 0, 100), shoal.Vector("place", ["x", "y"], 1.0)
BORN = shoal.Bins("born", "2020-01-01", "2021-12-31", bins="month")
CASES = {
    "answers": ("color", EPSILON),
    "nulls": ("gaps", EPSILON),
    "dropped": (replace(GAPS, missing="drop"), TRUE),
    "list": (shoal.Choice("color", ["red", "green"]), EPSILON),
    "randomizer": (
        COLOR,
        {"mechanism": shoal.Named("grr", epsilon=3.0), "crowd": shoal.Crowd(honest_fraction=0.9)},
    ),
    "messages": (
        replace(COLOR, choose="zero-sum"),
        EPSILON | {"limits": shoal.Limits(messages=20)},
    ),
    "numbers": (AGE, TRUE),
    "two": ([COLOR, AGE], EPSILON),
    "vector": (PLACE, TRUE),
    "near-central": (replace(COLOR, choose="near-central-lean"), SEVERAL),
    "bins": (shoal.Bins("age", 0, 100, bins=10, quantiles=0.5), EPSILON),
    "dates": (BORN, EPSILON),
    "gaussian": (replace(AGE, choose="gaussian"), EPSILON),
    "gaussian vector": (replace(PLACE, choose="gaussian-vectors"), EPSILON),
    "tree": (shoal.Bins("age", 0, 100, bins=16, tree=True), SEVERAL),
    "persons": (COLOR, EPSILON | {"person": "who"}),
    "four reports": (COLOR, EPSILON | {"person": shoal.Person("who", reports=4)}),
    "groups": (COLOR.by("old"), {"epsilon": 2.0, "compare_truth": True}),
    "bins in groups": (shoal.Bins("age", 0, 100, bins=4).by("gaps", ["red"]), LARGE),
    "persons in groups": (OLD.by("color"), LARGE | {"person": shoal.Person("who", reports=2)}),
    "lists of persons": (shoal.Choices("letters", ["r", "g", "u"]), LARGE | {"person": "who"}),
}


@pytest.mark.parametrize(("asked", "terms"), CASES.values(), ids=CASES)
def test_a_run_is_the_same_run(frame, people, asked, terms):
    there, here = shoal.run(frame, asked, **terms), shoal.run(people, asked, **terms)
    assert there.guarantee == here.guarantee
    assert (there.notes, there.warnings) == (here.notes, here.warnings)
    for one, two in zip(there.columns, here.columns, strict=True):
        assert (one.labels, one.n, one.guarantee) == (two.labels, two.n, two.guarantee)
        assert one.randomizer == two.randomizer
        if one.truth is not None:
            assert one.truth == pytest.approx(two.truth)
        for low, high in [_apart(one.estimate, two.estimate)]:
            assert (low <= high).all()


def _apart(one, two, chance=0.0):
    """The distance of two estimates, and what it may be (once in 1e9).

    ``chance`` is the standard deviation of what is drawn beside the noise.
    """
    value = "frequencies" if hasattr(one, "frequencies") else "mean"
    error = "standard_errors" if hasattr(one, "standard_errors") else "standard_error"
    distance = np.abs(np.atleast_1d(getattr(one, value)) - np.atleast_1d(getattr(two, value)))
    noise = np.hypot(getattr(one, error), getattr(two, error))
    return distance, 6.1 * np.hypot(noise, chance) + 1e-7


HOURS, MOOD = shoal.Number("hours", 0, 24, missing="cell"), shoal.Scale("mood", 1, 5)
LISTED = shoal.Choices("listed", AIDS)
TRUTHFUL = {"mechanism": shoal.Named("grr", epsilon=30.0)}
KINDS_OF_QUESTIONS = {
    "separated": (shoal.Choices("aids", AIDS), TRUTHFUL),
    "lists": (LISTED, TRUTHFUL),
    "one at most": (replace(LISTED, at_most=1), TRUTHFUL),
    "slots": (replace(LISTED, at_most=2), {"mechanism": RandomizedResponse(k=4, epsilon=30.0)}),
    "sets": (LISTED, {"mechanism": RandomizedResponse(k=8, epsilon=30.0)}),
    "real numbers": (shoal.Choices("halves", HALVES, missing="drop"), TRUTHFUL),
    "days": (shoal.Choices("visits", VISITS), TRUTHFUL),
    "instants": (shoal.Choices("instants", pl.Series(MOMENTS).cast(pl.String).to_list()), TRUTHFUL),
    "scale": (MOOD, TRUTHFUL),
    "scale in groups": (replace(MOOD, missing="drop").by("gaps", ["red", "green"]), TRUTHFUL),
    "missing numbers": (HOURS, TRUTHFUL),
    "missing numbers in groups": (HOURS.by("gaps"), TRUTHFUL),
    "numbers in groups": (replace(HOURS, missing="drop").by("old", [True]), TRUTHFUL),
    "choices in groups": (GAPS.by("mood", public=True), TRUTHFUL),
    "two lists of a column": (
        [shoal.Choice("color", ["red", "green"]), OLD.by("color", ["blue"])],
        TRUTHFUL,
    ),
}


@pytest.mark.parametrize(("asked", "truthful"), KINDS_OF_QUESTIONS.values(), ids=KINDS_OF_QUESTIONS)
def test_every_kind_of_question_has_the_same_law(frame, people, asked, truthful):
    """By a plan; and by devices that never lie, which tell whatever is read otherwise."""
    for terms in (LARGE, truthful):
        there, here = (
            shoal.run(data, asked, compare_truth=True, **terms) for data in (frame, people)
        )
        assert there.guarantee == here.guarantee
        assert (there.notes, there.warnings) == (here.notes, here.warnings)
        for one, two in zip(there.columns, here.columns, strict=True):
            assert (one.labels, one.n, one.guarantee) == (two.labels, two.n, two.guarantee)
            assert (one.randomizer, one.kind) == (two.randomizer, two.kind)
            assert one.truth == pytest.approx(two.truth)
            # Numbers are rounded at random, and of too many answers some are drawn.
            drawn = one.kind.startswith("mean") or getattr(asked, "at_most", 3) in {1, 2}
            distance, most = _apart(one.estimate, two.estimate, drawn * np.sqrt(0.5 / PEOPLE))
            assert (distance <= most).all()
            for ours, theirs in zip(one.means, two.means, strict=True):
                if None not in {ours.mean, theirs.mean}:
                    assert np.less_equal(*_apart(ours, theirs)).all()


def test_rows_of_a_person_are_chosen_alike_and_the_same_again(session, tmp_path):
    """Of the rows a, a and b every one is as likely; of what Spark reads again none is another."""
    rows = pl.DataFrame(
        {"who": np.repeat(np.arange(PEOPLE), 3), "odd `name.": ["a", "a", "b"] * PEOPLE}
    )
    rows = rows.with_columns(
        number=pl.int_range(pl.len()), half=pl.Series([1.5, NAN] * (3 * PEOPLE // 2))
    )
    rows.write_parquet(tmp_path / "rows.parquet")
    frame = session.read.parquet(str(tmp_path / "rows.parquet"))
    names = ["who", "odd `name."]
    chosen = opened(frame, names).sample("who", 1, secure())
    counts = dict(_polars_of(chosen)["odd `name."].value_counts().rows())
    assert abs(counts["a"] - PEOPLE * 2 / 3) < 6 * np.sqrt(PEOPLE * 2 / 9)  # once in 5e8
    assert sum(counts.values()) == PEOPLE

    every = opened(frame, [*names, "number"])
    for reports in (2, 5):
        bits = [simulated(number) for number in (1, 1, 2)]
        shuffled = opened(frame.repartition(5), [*names, "number"])
        drawn = [
            _polars_of(each.sample("who", reports, own)).sort("number")
            for each, own in zip((every, shuffled, every), bits, strict=True)
        ]
        assert drawn[0].equals(drawn[1])  # in whatever order the rows come
        assert drawn[0].equals(drawn[2]) is (reports == 5)
        assert drawn[0].height == reports * PEOPLE
        assert drawn[0].null_count().row(0) == (max(0, reports - 3) * PEOPLE,) * 2
        assert drawn[0]["number"].drop_nulls().is_unique().all()
    with pytest.raises(InvalidArgumentError, match="4,500 rows have none"):
        opened(frame, ["who", "half"]).sample("half", 1, secure())


def _polars_of(table):
    return pl.DataFrame(table.frame.toArrow())


def test_a_plan_is_kept(frame):
    plan = shoal.plan(shoal.Choice("color", 3), epsilon=1.0, delta=1e-6, n=PEOPLE)
    assert shoal.run(frame, "color", plan=plan).guarantee.epsilon <= 1.0 + 1e-6


def _counting(data, question, device):
    """Everybody's reports of a question, by this device."""
    table = opened(data, list(question.columns))
    return table, Counting(settle(question, table).coding, (Report(device),))


def test_two_hundred_small_runs_have_the_same_law(frame, people):
    device = RandomizedResponse(k=3, epsilon=1.0)
    truth = people["color"].value_counts().sort("color")["count"].to_numpy() / PEOPLE
    scores = {}
    for name, data in {"spark": frame.coalesce(2), "polars": people}.items():
        table, counting = _counting(data, COLOR, device)
        estimates = [
            device.estimate(counting.total(table, PEOPLE, secure()).counts[0]) for _ in range(200)
        ]
        errors = np.array([each.frequencies - truth for each in estimates])
        deviations = np.array([each.standard_errors for each in estimates])
        scores[name] = errors / deviations
    for each in scores.values():
        # Two of three fractions are free: 400 of the squares are.
        free = (each**2)[:, :2].sum()
        assert stats.chi2(400).ppf(1e-8) / 2 < free < 2 * stats.chi2(400).ppf(1 - 1e-8)
        assert np.abs(each.mean(axis=0)).max() < 6 / np.sqrt(200)
    assert stats.ks_2samp(scores["spark"][:, 0], scores["polars"][:, 0]).pvalue > 1e-7


@pytest.mark.parametrize("how", ["answers", "numbers"])
def test_one_result_stage_and_no_exchange(how, session, frame):
    context = session.sparkContext
    answers = how == "answers"
    if answers:
        table, counting = _counting(frame, COLOR, RandomizedResponse(k=3, epsilon=1.0))
    else:
        table, counting = _counting(frame, AGE, Laplace(low=0, high=100, epsilon=1.0, levels=5))
    context.setJobGroup("counts", "")
    try:
        assert counting.total(table, PEOPLE, secure()).counts[0].n == PEOPLE
        tracker = context.statusTracker()
        last = max(tracker.getJobIdsForGroup("counts"))
        (stage,) = tracker.getJobInfo(last).stageIds
        tasks = 1 if answers else frame.rdd.getNumPartitions()
        assert tracker.getStageInfo(stage).numTasks == tasks
    finally:
        context.setLocalProperty("spark.jobGroup.id", None)


def test_tasks_draw_their_own_randomness(frame):
    with pytest.raises(InvalidArgumentError, match="no randomness for a Spark frame"):
        shoal.run(frame, "color", epsilon=1.0, randomness=simulated(1))


def test_frequent_texts_are_found(session, tmp_path):
    texts = ["maple"] * 10_000 + ["oak"] * 6_000 + ["birch"] * 4_000
    path = tmp_path / "texts.parquet"
    rows = pl.DataFrame({"tree": [*texts, None]})
    rows.with_columns(old=pl.int_range(pl.len()) % 3 == 0).write_parquet(path)
    asked = shoal.Text("tree", length=5, alphabet="abcehiklmopr")
    # No other text is found by chance.
    options = {"epsilon": 2.0, "compare_truth": True, "beta": 1e-9}
    there = shoal.heavy_hitters(session.read.parquet(str(path)), asked, **options)
    here = shoal.heavy_hitters(path, asked, **options)
    assert there.guarantee == here.guarantee
    assert [item.label for item in there.items] == [item.label for item in here.items]
    assert [item.truth for item in there.items] == [item.truth for item in here.items]
    assert there.notes == here.notes
    grouped = OLD.by("tree", shoal.Find())
    there = shoal.run(session.read.parquet(str(path)), grouped, epsilon=6.0)
    here = shoal.run(path, grouped, epsilon=6.0)
    for found in (there, here):
        assert (found.guarantee.epsilon, found.guarantee.delta) == (
            pytest.approx(6.0),
            here.guarantee.delta,
        )
        assert {"maple · true", "oak · false", "birch · true"} <= set(found.labels)


def test_a_vector_that_would_be_stored_is_refused(session, frame):
    long, several = shoal.Text("color", length=64), shoal.Limits(messages=20)
    with pytest.raises(InvalidArgumentError, match=r"maxDirectResultSize=\d+m"):
        shoal.heavy_hitters(frame.crossJoin(session.range(200)), long, epsilon=1.0, limits=several)


def test_tests_of_a_column(frame, people):
    asked = {"epsilon": 1.0, "distance": 0.2, "simulations": testing.Simulations(99)}
    cases = [
        (testing.run, (COLOR,)),
        (testing.compare, (COLOR.by("old"),)),
        (testing.compare, (COLOR, people)),
    ]
    for tested, given in cases:
        there, here = tested(frame, *given, **asked), tested(people, *given, **asked)
        assert there.verdict.guarantee == here.verdict.guarantee
        assert there.names == here.names
        assert there.verdict.sizes == here.verdict.sizes
        # Groups that answer alike are told apart now and then: that is the level of the test.
        assert tested is testing.compare or there.verdict.rejected


@pytest.mark.parametrize(
    ("asked", "line"),
    [
        ("colour", "did you mean color"),
        (shoal.Number("gaps", 0, 1), "a number in every row"),
        (shoal.Vector("place", ["x", "color"], 1.0), "a number in every row"),
    ],
)
def test_bad_input_is_one_line(frame, asked, line):
    with pytest.raises(InvalidArgumentError, match=line) as refused:
        shoal.run(frame, asked, epsilon=1.0)
    assert "\n" not in str(refused.value)


def _leaking(batches, place):
    """Loses some rows, more each time; Spark cannot know."""
    for batch in batches:
        (Path(place) / os.urandom(16).hex()).touch()
        yield batch.slice(sum(1 for _ in Path(place).iterdir()))


def test_frames_that_change_are_refused(frame, tmp_path):
    from pyspark.sql import functions as sql

    with pytest.raises(InvalidArgumentError, match="stay the same when they are read again"):
        shoal.run(frame.filter(sql.rand() < 0.5), "color", epsilon=1.0)
    leaking = frame.mapInArrow(partial(_leaking, place=str(tmp_path)), frame.schema)
    with pytest.raises(InvalidArgumentError, match="data that does not change while it is read"):
        shoal.run(leaking, AGE, epsilon=1.0)
    # What is not used need not be the same twice.
    assert shoal.run(frame.withColumn("r", sql.rand()), "color", epsilon=1.0).columns[0].n


def test_what_spark_cannot_do_is_one_line(session, tmp_path):
    people = pl.DataFrame({"v": ["a", "b"] * 50})
    people.write_parquet(tmp_path / "v.parquet")
    gone = session.read.parquet(str(tmp_path / "v.parquet"))
    (tmp_path / "v.parquet").unlink()
    with pytest.raises((EngineError, InvalidArgumentError)) as failed:
        shoal.run(gone, "v", epsilon=1.0)
    assert "\n" not in str(failed.value)
    assert "\tat " not in str(failed.value)
    stream = session.readStream.format("rate").load()
    with pytest.raises(InvalidArgumentError, match="a frame that has an end"):
        shoal.run(stream, "value", epsilon=1.0)


def test_a_column_of_identifiers_is_refused(session, monkeypatch):
    for module in ("engines.spark", "questions.answers"):
        monkeypatch.setattr(f"shoal.{module}.MOST_LABELS", 100)
    with pytest.raises(InvalidArgumentError, match="is it an identifier"):
        shoal.run(session.range(1000), "id", epsilon=1.0)
