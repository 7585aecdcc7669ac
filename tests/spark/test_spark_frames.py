"""A frame of Spark is a table like any other: the same labels, sizes, guarantee and law."""

from __future__ import annotations

import os
from functools import partial
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from scipy import stats

import shoal
from engine_kit import AGE, COLOR, NAN, OLD, PEOPLE, QUESTIONS, TABLE, people, same_column, same_run
from shoal import testing
from shoal.engines.counting import Counting, Report
from shoal.engines.tables import table as opened
from shoal.errors import EngineError, InvalidArgumentError
from shoal.mechanisms.grid import Laplace
from shoal.mechanisms.response import RandomizedResponse
from shoal.questions.settled import Clip, settle
from shoal.randomness import secure, simulated
from spark_kit import spark_session


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


@pytest.fixture(scope="module", name="people")
def _people():
    return people()


@pytest.fixture(scope="module")
def frame(session, people, tmp_path_factory):
    """The people in three files: more partitions than workers."""
    place = tmp_path_factory.mktemp("people")
    for part in range(3):
        people[part::3].write_parquet(place / f"{part}.parquet")
    return session.read.parquet(str(place))


@pytest.mark.parametrize("name", TABLE.columns)
def test_every_kind_of_value_has_the_same_labels_and_sizes(table, name):
    same_column(table, TABLE, name)


def test_what_is_no_number_is_refused_as_everywhere(table):
    for name in ("flag", "day"):
        with pytest.raises(InvalidArgumentError, match="a column of numbers"):
            opened(table, [name]).size(Clip(name, 0, 1))
    nested = table.selectExpr("array(1, 2) as v")
    with pytest.raises(InvalidArgumentError, match="a column of text, numbers or dates"):
        shoal.run(nested, "v", epsilon=1.0)


@pytest.mark.parametrize(
    ("asked", "ways"), [(asked, ways) for asked, *ways in QUESTIONS.values()], ids=QUESTIONS
)
def test_a_run_is_the_same_run(frame, people, asked, ways):
    for terms in ways:
        same_run((frame, people), asked, terms)


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
    for module in ("engines.spark", "questions.settled"):
        monkeypatch.setattr(f"shoal.{module}.MOST_LABELS", 100)
    with pytest.raises(InvalidArgumentError, match="is it an identifier"):
        shoal.run(session.range(1000), "id", epsilon=1.0)
