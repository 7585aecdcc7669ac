"""Several rows per person: as many reports of everybody, and a guarantee for all of them."""

import itertools
import math

import numpy as np
import polars as pl
import pytest

import shoal
from brute import hockey_stick
from shoal import randomness
from shoal.engines.tables import table

ROWS = pl.DataFrame(
    {
        "user": ["ann", "bob", "ann", "cy", "ann", "bob", "ann"],
        "color": ["red", "blue", "red", None, "blue", "red", "green"],
        "shape": ["r1", "b1", "r2", "n1", "b2", "r3", "g1"],
    }
)


def per_person(rows, reports, seed=0):
    bits = randomness.simulated(seed)
    return table(rows, rows.columns).sample("user", reports, bits).frame.collect()


def test_everybody_has_as_many_rows_and_missing_ones_are_empty():
    own = {"ann": {"r1", "r2", "b2", "g1"}, "bob": {"b1", "r3"}, "cy": {"n1"}}
    for reports in (1, 2, 3, 5):
        kept = per_person(ROWS, reports)
        assert kept.columns == ["color", "shape"]
        assert kept.height == 3 * reports
        shapes = kept["shape"].drop_nulls().to_list()
        assert len(set(shapes)) == len(shapes)
        for rows in own.values():
            assert len(rows & set(shapes)) == min(len(rows), reports)
        for color, shape in kept.drop_nulls().rows():  # rows stay together
            assert color[0] == shape[0]


def test_which_rows_are_kept_is_a_uniform_choice():
    """Each of ann's six pairs of rows about as often: 7 standard deviations are < 1e-11 each."""
    draws, counts = 600, {}
    for seed in range(draws):
        kept = frozenset(per_person(ROWS, 2, seed)["shape"].drop_nulls().to_list())
        pair = kept & {"r1", "r2", "b2", "g1"}
        counts[pair] = counts.get(pair, 0) + 1
    assert len(counts) == 6
    spread = math.sqrt(draws * 5 / 36)
    assert max(abs(count - draws / 6) for count in counts.values()) < 7 * spread


def multisets(k, size):
    return list(itertools.combinations_with_replacement(range(k), size))


def law_of(table, data):
    """The law of how often each message is sent by these data, as an array over two counts."""
    size = len(data) + 1
    law = np.zeros((size, size))
    law[0, 0] = 1.0
    for x in data:
        more = table[x, 2] * law
        more[1:] += table[x, 0] * law[:-1]
        more[:, 1:] += table[x, 1] * law[:, :-1]
        law = more
    return law


@pytest.mark.parametrize(("people", "local"), [(2, 1.5), (4, 1.0), (4, 2.5)])
def test_three_rows_of_one_person_never_lose_more_than_is_claimed(people, local):
    """Every pair of one person's rows, and every table of the others, counted out."""
    reports, delta = 3, 1e-3
    rows = [("u", "yes"), ("u", "no"), ("v", "no")]
    rows += [(f"w{i}", "yes") for i in range(people - 2)]
    data = pl.DataFrame(rows, schema=["user", "answer"], orient="row")
    device = shoal.RandomizedResponse(k=3, epsilon=local)
    person = shoal.Person("user", reports=reports)
    run = {"mechanism": device, "delta": delta, "person": person}
    claim = shoal.run(data, shoal.Choice("answer", public=True), **run).guarantee
    assert (claim.n, claim.reports, claim.lower) == (people, reports, 0.0)
    table, worst, once = device.table(), 0.0, 0.0
    single = shoal.amplify(device, n=people, delta=delta).epsilon  # as if R were 1
    for others in multisets(3, reports * (people - 1)):
        laws = [law_of(table, (*own, *others)) for own in multisets(3, reports)]
        for first, second in itertools.permutations(laws, 2):
            worst = max(worst, hockey_stick(first, second, claim.epsilon))
            once = max(once, hockey_stick(first, second, single))
    assert worst <= delta < once


def test_a_run_counts_reports_and_says_so():
    generator = randomness.simulated(4)
    users = np.repeat(np.arange(400), 1 + generator.below(4, 400).astype(int))
    answers = generator.below(3, users.size)
    frame = pl.DataFrame({"user": users, "answer": [f"a{code}" for code in answers]})
    run = {"epsilon": 2.0, "compare_truth": True}
    for choose in (None, "dummies"):
        asked = shoal.Choice("answer", choose=choose)
        result = shoal.run(frame, asked, **run, person=shoal.Person("user", reports=2))
        assert result.labels == ("a0", "a1", "a2", "(none)")
        assert (result.n, result.guarantee.n, result.guarantee.reports) == (800, 400, 2)
        assert 0.99 * 2 <= result.guarantee.epsilon <= 2
        short = int((np.bincount(users) == 1).sum())
        assert result.truth[-1] * result.n == short
        gap = np.abs(result.estimate.frequencies - result.truth)
        assert (gap < 7 * result.estimate.standard_errors).all()
        assert any("counts these rows" in note for note in result.notes)
        assert "2 reports each" in str(result)
        assert "all rows of one person" in str(result)
        told = result.to_dict()["guarantee"]
        assert (told["reports"], told["replaced"]) == (2, "all rows of one person")
        page = result.to_html()
        assert "neighbours: replacement: all rows of one person become any others" in page
        assert "<dt>people, 2 reports each</dt><dd>400</dd>" in page
        assert "one person's datum" not in page
        assert "answers, all 2 rows together, before" in page
    one = shoal.run(frame, "answer", **run, person="user")
    assert (one.n, one.guarantee.n, one.labels) == (400, 400, ("a0", "a1", "a2"))
    assert any("one was chosen at random" in note for note in one.notes)
    rows = shoal.run(frame, "answer", epsilon=2.0)
    assert any("every row was counted as one person" in note for note in rows.notes)
    assert rows.n == users.size


def test_several_columns_of_several_rows_are_one_budget():
    frame = pl.concat([ROWS] * 40).with_columns(user=pl.int_range(280) // 3)
    result = shoal.run(
        frame,
        [shoal.Choice("color", ["red", "blue"]), shoal.Choice("shape", ["red", "blue"], weight=2)],
        epsilon=1.0,
        person=shoal.Person("user", reports=2),
    )
    assert 0.99 <= result.guarantee.epsilon <= 1
    assert (result.guarantee.columns, result.guarantee.reports) == (2, 2)
    for column in result.columns:
        assert column.labels == ("red", "blue", "(none)", "(other)")
        assert column.guarantee.reports == 2  # a column's own guarantee is for all of them, too
    color, shape = (each.guarantee.epsilon for each in result.columns)
    assert color < shape < result.guarantee.epsilon


def test_a_list_taken_from_the_data_has_no_answer_whether_or_not_somebody_lacks_a_row():
    full = pl.DataFrame({"user": [1, 1, 2, 2], "answer": ["a", "b", "a", "b"]})
    device = shoal.RandomizedResponse(k=3, epsilon=1.0)
    twice = shoal.Person("user", reports=2)
    result = shoal.run(full, "answer", mechanism=device, person=twice)
    assert result.labels == ("a", "b", "(none)")
    by = full.with_columns(region=pl.Series(["north", "south"] * 2))
    result = shoal.run(
        by,
        shoal.Choice("answer").by("region"),
        mechanism=shoal.RandomizedResponse(k=9, epsilon=1.0),
        person=twice,
    )
    assert result.only.group_labels == ("north", "south", "(none)")


def test_a_plan_for_one_report_is_weaker_for_several():
    frame = pl.DataFrame({"user": range(100), "answer": ["a", "b"] * 50})
    plan = shoal.plan(shoal.Choice("answer", 3), epsilon=1.0, n=100)
    rows = {"plan": plan, "person": shoal.Person("user", reports=2)}
    with pytest.raises(shoal.UnreachableTargetError, match="100 people with 2 reports each"):
        shoal.run(frame, "answer", **rows)
    weaker = shoal.run(frame, "answer", **rows, limits=shoal.Limits(weaker=True))
    assert 1 < weaker.guarantee.epsilon < 2
    assert weaker.warnings


TWICE = shoal.Person("user", reports=2)
NUMBERS = ROWS.with_columns(age=pl.Series([3.0, 4, 5, 6, 7, 8, 9]))


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        ({"person": "color"}, "other than those that are collected"),
        ({"person": "users"}, "did you mean user?"),
        ({"person": "nobody"}, "7 rows have none"),
        ({"person": "half", "questions": "shape"}, "1 rows have none"),
        (
            {"person": TWICE, "questions": shoal.Choice("color", missing="drop")},
            "no rows left out with several reports per person",
        ),
        (
            {"person": TWICE, "questions": shoal.Number("age", 0, 9)},
            "no mean of age with several reports per person",
        ),
        (
            {"person": TWICE, "questions": shoal.Vector("place", ["age", "age2"], 1.0)},
            "no mean of place with several reports per person",
        ),
        (
            {"person": TWICE, "questions": shoal.Choices("color", ["red", "blue"])},
            "one report per person for any of several answers",
        ),
    ],
)
def test_refusals(asked, message):
    frame = NUMBERS.with_columns(
        age2="age",
        nobody=pl.lit(None, dtype=pl.String),
        half=pl.Series([1.0, 2, 3, 4, 5, 6, math.nan]),
    )
    with pytest.raises(shoal.InvalidArgumentError, match=message):
        shoal.run(frame, **{"questions": "color", "epsilon": 1.0} | asked)
