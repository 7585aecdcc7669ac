"""Answers by groups, the whole way: from tables and from the command line."""

from __future__ import annotations

import csv
import json

import numpy as np
import polars as pl
import pytest

import command_kit
import shoal
from shoal.engines.counting import Counting, Report
from shoal.engines.tables import table as opened
from shoal.errors import InvalidArgumentError, UnreachableTargetError
from shoal.mechanisms.response import RandomizedResponse
from shoal.questions.kinds import Bins, Choice, Find, Groups, Number
from shoal.questions.settled import PUBLIC_GROUPS, PUBLIC_LIST, settle
from shoal.questions.terms import Person
from shoal.randomness import secure
from shoal.results.groups import GroupedResult

PEOPLE = {  # region, vote: how many
    ("north", "yes"): 700,
    ("north", "no"): 300,
    ("south", "yes"): 100,
    ("south", "no"): 500,
    ("south", None): 40,
    (None, "yes"): 60,
    (None, "no"): 200,
}
ROWS = [pair for pair, times in PEOPLE.items() for _ in range(times)]
FRAME = pl.DataFrame(ROWS, schema=["region", "vote"], orient="row").sample(
    fraction=1, shuffle=True, seed=1
)
AGED = FRAME.with_columns(age=pl.Series(np.arange(len(ROWS)) % 50))
TRUE = 28.0  # a local epsilon with which all reports are true, but with probability 1e-8


def truthful(data, k, asked=None):
    device = RandomizedResponse(k=k, epsilon=TRUE)
    return shoal.run(data, asked or Choice("vote").by("region"), mechanism=device).only


def sizes(result):
    return {group.label: round(group.count) for group in result.groups}


def test_every_group_has_its_people_and_their_answers():
    result = truthful(FRAME, 9)
    assert isinstance(result, GroupedResult)
    assert result.answers == ("no", "yes", "(none)")
    assert sizes(result) == {"north": 1000, "south": 640, "(none)": 260}
    north, south, _ = result.groups
    np.testing.assert_allclose(north.fractions, [0.3, 0.7, 0.0], atol=1e-6)
    np.testing.assert_allclose(south.fractions, [500 / 640, 100 / 640, 40 / 640], atol=1e-6)
    assert {PUBLIC_LIST, PUBLIC_GROUPS} <= set(result.notes)
    assert PUBLIC_GROUPS in result.guarantee.assumptions


def test_a_public_list_has_everybody_else_beside_it():
    asked = Choice("vote", ["yes"], missing="drop").by("region", ["south", "west"])
    result = truthful(FRAME, 8, asked)
    assert result.answers == ("yes", "(other)")
    assert sizes(result) == {"south": 600, "west": 0, "(none)": 260, "(other)": 1000}
    assert PUBLIC_GROUPS not in result.notes
    empty = result.groups[1]
    assert empty.fractions is None
    assert result.panels()[1].people.startswith("nobody, up to noise")


@pytest.mark.parametrize("answers", [None, ["yes", "no"]])
@pytest.mark.parametrize("listed", [None, ["north", "west"]])
def test_codes_are_group_by_group(answers, listed):
    """Against one group after the other, by filtering rows."""
    people = opened(FRAME, ["vote", "region"])
    settled = settle(Choice("vote", answers).by("region", listed), people)
    codes = np.concatenate(list(people.chunks(settled.coding)))
    counts = np.bincount(codes, minlength=len(settled.labels))
    known = {"north", "south", None} if listed is None else {"north", None}
    expected = dict.fromkeys(settled.labels, 0)
    for (region, vote), times in PEOPLE.items():
        group = region if region in known else "(other)"
        expected[f"{group or '(none)'} · {vote or '(none)'}"] += times
    assert dict(zip(settled.labels, counts.tolist(), strict=True)) == expected


def test_an_answer_that_appears_later_is_noticed():
    """Whatever its group: a code of another group must not come out."""
    before = FRAME.with_columns(vote=pl.col("vote").replace({"no": "yess"}))
    settled = settle(Choice("vote").by("region"), opened(before, ["vote", "region"]))
    later = opened(FRAME, ["vote", "region"])
    device = shoal.RandomizedResponse(k=len(settled.labels), epsilon=1.0)
    with pytest.raises(InvalidArgumentError, match="does not change"):
        Counting(settled.coding, (Report(device),)).total(later, settled.n, secure())


@pytest.mark.parametrize("asked", ["answer", "group"])
def test_a_value_that_is_not_in_the_list_and_may_not_be_is_called_that(asked):
    question = Choice("vote", ["yes"], other=False)
    if asked == "group":
        question = Choice("vote", groups=Groups("region", ["north"], other=False))
    with pytest.raises(InvalidArgumentError, match="no value that is not in the list"):
        shoal.run(FRAME, question, epsilon=1)


def test_numbers_are_counted_in_bins_by_groups():
    device = RandomizedResponse(k=18, epsilon=TRUE)
    asked = Bins("age", 0, 49, bins=5).by("region")
    result = shoal.run(AGED, asked, mechanism=device).only
    assert result.order == tuple(range(6))
    assert sizes(result) == {"north": 1000, "south": 640, "(none)": 260}
    first = AGED.filter(pl.col("region") == "north")["age"]
    expected = [((first >= 10 * i) & (first < 10 * i + 10)).sum() / 1000 for i in range(5)]
    np.testing.assert_allclose(result.groups[0].fractions[:5], expected, atol=1e-6)
    assert [item.label for item in result.panels()[0].items] == list(result.answers)
    ends = [(row["from"], row["to"]) for row in result.records()[:6]]
    assert ends == [(10 * i, 10 * i + 9) for i in range(5)] + [(None, None)]


def test_several_columns_by_the_same_groups():
    data = AGED.with_columns(half=pl.col("age") % 2)
    devices = {name: RandomizedResponse(k=k, epsilon=3.0) for name, k in (("vote", 9), ("half", 6))}
    asked = [Choice(name).by("region") for name in ("vote", "half")]
    result = shoal.run(data, asked, mechanism=devices)
    assert [len(each.groups) for each in result.columns] == [3, 3]
    assert [each.answers[0] for each in result.columns] == ["no", "0"]
    wrong = RandomizedResponse(k=7, epsilon=3.0)
    with pytest.raises(InvalidArgumentError, match="3 groups of 2 answers"):
        shoal.run(data, asked[1], mechanism=wrong)


def test_the_same_table_in_every_format(tmp_path):
    FRAME.write_csv(tmp_path / "t.csv")
    FRAME.write_ndjson(tmp_path / "t.jsonl")
    FRAME.write_parquet(tmp_path / "t.parquet")
    expected = truthful(FRAME, 9)
    for data in (
        *(tmp_path / name for name in ("t.csv", "t.jsonl", "t.parquet")),
        FRAME.to_dict(as_series=False),
        FRAME.to_pandas(),
        FRAME.to_arrow().to_reader(),
    ):
        result = truthful(data, 9)
        assert result.guarantee == expected.guarantee
        assert result.labels == expected.labels
        np.testing.assert_allclose(result.estimate.frequencies, expected.estimate.frequencies)


def test_means_say_of_which_groups_there_is_none():
    asked = Number("age", 0, 100).by("region", ["north", "west of it"])
    result = shoal.run(AGED, asked, epsilon=8)
    (said,) = result.findings
    assert said.startswith("nobody, up to noise: west of it")
    assert "north" not in said
    assert f"<p>N{said[1:]}.</p>" in result.to_html()


def test_records_and_json_have_a_group(tmp_path):
    result = shoal.run(FRAME, Choice("vote").by("region"), epsilon=1.0, compare_truth=True)
    result.to_csv(tmp_path / "out.csv")
    rows = list(csv.DictReader((tmp_path / "out.csv").read_text().splitlines()))
    assert [(row["group"], row["value"]) for row in rows[:4]] == [
        ("north", "no"),
        ("north", "yes"),
        ("north", "(none)"),
        ("south", "no"),
    ]
    for row, group in zip(rows, np.repeat(result.only.groups, 3), strict=True):
        assert float(row["group_low"]) <= float(row["group_count"]) <= float(row["group_high"])
        assert float(row["group_count"]) == group.count
        low, value, high = (float(row[f"fraction_of_group{end}"]) for end in ("_low", "", "_high"))
        assert 0 <= low <= value <= high <= 1
    values = result.to_dict()["columns"][0]
    assert values["by"] == "region"
    assert [(each["group"], each["truth"]) for each in values["groups"]] == [
        ("north", 1000),
        ("south", 640),
        ("(none)", 260),
    ]
    json.dumps(values, allow_nan=False)
    for text in (result.to_html(), str(result)):
        for part in ("vote by region", "north", "south", "(none)"):
            assert part in text


def test_several_rows_of_a_person_by_groups():
    data = pl.DataFrame(
        {"id": [0, 0, 0, 1, 1, 2], "region": list("aaabbb"), "vote": list("xyxyxy")}
    )
    data = pl.concat([data.with_columns(pl.col("id") + 3 * i) for i in range(500)])
    person = Person("id", reports=3)
    result = shoal.run(data, Choice("vote").by("region"), person=person, epsilon=2.0)
    assert result.only.group_labels == ("a", "b", "(none)")
    assert result.only.answers == ("x", "y", "(none)")
    assert result.guarantee.reports == 3
    for group, rows in zip(result.only.groups, (1500, 1500, 1500), strict=True):
        assert group.low - 300 <= rows <= group.high + 300
    assert "reports" in result.only.panels()[0].people


def test_groups_are_found_and_paid_for():
    data = pl.concat([FRAME] * 10)
    asked = Choice("vote").by("region", Find(length=6))
    result = shoal.run(data, asked, epsilon=4.0, delta=1e-6)
    assert result.only.group_labels == ("north", "south", "(none)", "(other)")
    guarantee, own = result.guarantee, result.only.guarantee
    # Whatever is found: less than that would be said of some outcomes, and not hold for them.
    assert guarantee.epsilon == pytest.approx(4.0, rel=1e-6)
    assert guarantee.delta == pytest.approx(1e-6)
    assert own.epsilon <= 2.0 + 1e-2
    assert own.delta == pytest.approx(5e-7)
    assert guarantee.epsilon - own.epsilon > 1.9  # what finding them costs is in it
    assert guarantee.columns == 2
    assert PUBLIC_GROUPS not in result.notes
    assert 0 < guarantee.lower <= guarantee.epsilon
    for group, size in zip(result.only.groups, (10_000, 6400, 2600, 0), strict=True):
        assert group.low - 200 <= size <= group.high + 200


def test_groups_that_cannot_be_found_are_told_before_anything():
    with pytest.raises(UnreachableTargetError, match="give a public list"):
        shoal.run(FRAME, Choice("vote").by("region", Find()), epsilon=0.1)


MANY = pl.DataFrame({"vote": ["a", "b"] * 500, "code": [f"{i % 300}" for i in range(1000)]})


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"questions": Choice("vote").by("regoin")}, r"did you mean region\?"),
        ({"questions": Choice("vote").by("region", ["a", "(other)"])}, "no group called"),
        ({"person": "region"}, "other than those"),
        (
            {"questions": Choice("vote").by("region", Find()), "person": Person("age", reports=2)},
            r"one report per person, with Find\(\)",
        ),
        (
            {
                "questions": Choice("vote").by("region", Find()),
                "epsilon": None,
                "mechanism": RandomizedResponse(k=9, epsilon=1.0),
            },
            "epsilon .a part of it pays for what is found",
        ),
    ],
)
def test_bad_groups_are_refused(options, message):
    with pytest.raises(InvalidArgumentError, match=message):
        shoal.run(AGED, **{"questions": Choice("vote").by("region"), "epsilon": 1.0} | options)


def test_many_groups_are_public_only_if_said_so():
    with pytest.raises(InvalidArgumentError, match="--open-groups finds") as refusal:
        shoal.run(MANY, Choice("vote").by("code"), epsilon=1.0)
    assert refusal.value.name == "by"
    result = shoal.run(MANY, Choice("vote").by("code", public=True), epsilon=1.0)
    assert len(result.only.groups) == 300


def test_the_terminal_has_a_chart_for_each_group(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    FRAME.write_csv("votes.csv")
    words = "run votes.csv --column vote --epsilon 1 --by region --groups north,south,west"
    said = command_kit.shoal(*words.split(), "--report", "out.html").success()
    assert "vote by region, estimated from 1,900 reports" in said
    assert "west: nobody, up to noise: at most " in said
    assert said.count("its 95 % interval") == 1
    for group in ("north", "south"):
        assert f"{group}: about " in said
