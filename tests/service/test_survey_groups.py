"""Surveys that count answers by groups: group and answer are one answer of the mechanism."""

from __future__ import annotations

import io
import json
from dataclasses import replace
from importlib.resources import files

import jsonschema_rs
import numpy as np
import polars as pl
import pytest

from dashboard_kit import Page, shown
from factories import by_groups, example, several
from service_site import START, live, sealed
from shoal.errors import InvalidArgumentError
from shoal.estimate.groups import split
from shoal.questions.kinds import Choice, Groups, Number
from shoal.sealing import MalformedError, canonical
from shoal.service.admission import Open
from shoal.service.client.errors import ClientError
from shoal.service.client.randomize import table_values, values_of
from shoal.service.survey import NONE, Batches, Party, Survey
from shoal.service.survey.items import MOST_CELLS, Field
from shoal.service.survey.words import sentences
from shoal.web.downloads import FILES

ONE = example(questions=(by_groups(),), admission=Open(dishonest=0))
AMONG = replace(several(), questions=(*several().questions, by_groups("vote")))
# 6 codes: north yes, north no, south yes, south no, and nobody in the east.
CODES = [0] * 600 + [1] * 200 + [2] * 100 + [3] * 300


# ------------------------------------------------------------------------------------ the document


@pytest.mark.parametrize("survey", [ONE, AMONG], ids=["one", "among several"])
def test_a_survey_by_groups_reads_back(survey):
    stored = json.loads(survey.to_bytes())
    part, asked = stored["questions"][-1], survey.questions[-1]
    groups = part["question"]["groups"]
    assert (groups["text"], groups["labels"]) == ("Your region", ["north", "south", "east"])
    assert part["mechanism"]["k"] == len(asked.groups) * len(asked.answers)
    assert Survey.from_bytes(survey.to_bytes()) == survey
    third = "south · yes" if survey is ONE else "north · (none)"
    assert survey.questions[-1].labels[:3] == ("north · yes", "north · no", third)
    words = sentences(survey)
    assert "Your group and your answer count as one" in (words.each or (words.leaves,))[-1]


def test_other_surveys_have_no_field_of_groups():
    for survey in (example(), example(admission=Open(dishonest=0)), several()):
        text = survey.to_bytes().decode()
        assert '"groups"' not in text


def grouped(labels=("yes", "no"), groups=("north", "south"), **about):
    """A question that nobody skips, by groups."""
    inside = Groups("group", groups, text=about.pop("by", "Where?"), missing="refuse")
    return Field(Choice("vote", labels, text="?", groups=inside, missing="refuse"))


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"groups": ("north",)}, "at least two groups"),
        ({"labels": ("yes",)}, "at least two labels"),
        ({"groups": ("a", "a", "b")}, "every group once"),
        ({"groups": ("a", "b", " ")}, "1 to 200 characters"),
        ({"by": ""}, "groups with labels and a text"),
        ({"by": " "}, "text of 1 to 2000"),
        ({"groups": None}, "groups with labels and a text"),
        (
            {"labels": list(map(str, range(100))), "groups": range(MOST_CELLS // 100 + 1)},
            "at most 10,000 answers in all",
        ),
    ],
)
def test_groups_that_make_no_question_are_refused(change, said):
    with pytest.raises(InvalidArgumentError, match=said):
        grouped(**change)


def test_groups_that_make_no_survey_are_refused():
    with pytest.raises(InvalidArgumentError, match="a mechanism for one of 4 answers"):
        replace(by_groups(), question=grouped().question)
    number = Number("age", 0, 1, text="?").by("group", ["a", "b"], text="?")
    with pytest.raises(InvalidArgumentError, match="of a choice"):
        Field(number)
    for change in ({"groups": {}}, {"groups": "abc"}, {"by": "Where?"}):
        stored = json.loads(ONE.to_bytes())
        stored["questions"][0]["question"] |= change
        with pytest.raises(MalformedError):
            Survey.from_bytes(canonical(stored))


# -------------------------------------------------------------------------------------- the client


def test_a_group_and_an_answer_are_one_code(tmp_path):
    question = ONE.only
    pairs = [(group, answer) for group in question.groups for answer in question.answers]
    assert values_of(ONE, pairs).tolist() == list(range(6))
    assert values_of(ONE, []).tolist() == []
    answers = [{"vote": ("south", "no")}, {"vote": ["south", None]}, {"vote": None}, {"q0": "a0"}]
    assert values_of(AMONG, answers)["vote"].tolist() == [4, 5, 11, 11]
    for survey, wrong, said in (
        (ONE, "yes", "a group and an answer, in this order"),
        (ONE, ("yes", "north"), "one of the groups 'north', 'south', 'east'"),
        (ONE, ("north", "maybe"), "one of the answers 'yes', 'no'"),
        (ONE, ("north", None), "one of the answers"),
        (ONE, ("north", "yes", "no"), "a group and an answer"),
        (AMONG, {"vote": "yes"}, "a group and an answer to vote"),
    ):
        with pytest.raises(InvalidArgumentError, match=said) as refused:
            values_of(survey, [wrong])
        assert "maybe" not in str(refused.value)
    table = tmp_path / "people.csv"
    table.write_text("vote,region,q0,q1\nyes,north,a0,a1\nno,east,,\n")
    assert table_values(ONE, table, "vote", by="region").tolist() == [0, 5]
    assert table_values(AMONG, table, by="region")["vote"].tolist() == [0, 7]
    table.write_text("vote,region,q0,q1\nyes,north,a0,a1\nno,,,\n,south,,\n")
    assert table_values(AMONG, table, by="region")["vote"].tolist() == [0, 10, 5]
    with pytest.raises(ClientError, match="2 of 3 rows of vote have no answer"):
        table_values(ONE, table, "vote", by="region")
    assert table_values(ONE, table, "vote", by="region", drop_nulls=True).tolist() == [0]
    with pytest.raises(InvalidArgumentError, match="the column of the groups"):
        table_values(ONE, table, "vote")
    with pytest.raises(InvalidArgumentError, match="and no other"):
        table_values(several(), table, by="region")
    table.write_text("vote,region\nyes,west\nno,east\n")
    with pytest.raises(ClientError, match="1 of 2 rows of vote have an answer or a group"):
        table_values(ONE, table, "vote", by="region")


# ------------------------------------------------------------------------------------ the analyzer


@pytest.fixture
def counted(analyzer):
    """An analyzer that has published a batch of a survey by groups."""
    survey = example(
        questions=(by_groups(epsilon=3.0),),
        admission=Open(dishonest=3),
        batches=Batches(minimum=500, target=2000, max_age=3600),
        opens=START,
        shuffler=Party(url="http://localhost:1", fingerprint="ab" * 32),
        analyzer=Party(url="http://localhost:2", fingerprint=analyzer.keyring.fingerprint),
    )
    analyzer.store.surveys.add(survey)
    analyzer.shuffler.put(survey, sealed(survey, analyzer.keyring, CODES))
    analyzer.collect(survey)
    return analyzer, survey


def test_sizes_and_fractions_of_groups_are_published(counted):
    analyzer, survey = counted
    found = analyzer.document(survey)
    described = json.loads(files("shoal.service.analyzer").joinpath("openapi.json").read_text())
    result = jsonschema_rs.validator_for({**described, "$ref": "#/components/schemas/Result"})
    assert result.is_valid(found)
    rows = found["estimates"]
    assert [(row["group"], row["answer"]) for row in rows] == [
        (group, answer) for group in survey.only.groups for answer in survey.only.answers
    ]
    truth = np.bincount(CODES, minlength=6).reshape(3, 2)
    for row, count in zip(rows, truth.ravel(), strict=True):
        assert row["low"] * 1200 - 60 < count < row["high"] * 1200 + 60
    assert rows[0]["group_low"] < 800 < rows[0]["group_high"]
    assert rows[2]["fraction_low"] < 0.25 < rows[2]["fraction_high"]
    assert rows[4]["fraction"] is rows[5]["fraction"] is None  # there may be nobody
    results = analyzer.store.results.survey(survey.id)
    (column,) = results.result.columns
    # What the library says of the same counts.
    groups = split(survey.device.estimator, column.estimate, survey.only.groups)
    for group, row in zip(groups, rows[::2], strict=True):
        assert (row["group_count"], row["group_low"]) == (group.count, group.low)
        assert row["fraction"] == (None if group.fractions is None else group.fractions[0])
    assert results.combined()["estimates"] == rows


def test_files_have_a_column_of_groups(counted):
    analyzer, survey = counted
    results = analyzer.store.results.survey(survey.id)
    lines = results.to_csv().splitlines()
    assert lines[0].startswith("batch,status,group,answer,fraction,")
    within = "fraction_of_group,fraction_of_group_low,fraction_of_group_high"
    assert f"count,{within},group_count,group_low,group_high" in lines[0]
    assert len(lines) == 1 + 2 * 6
    made = {name: file.make(analyzer.store, results) for name, file in FILES.items()}
    table = pl.read_parquet(io.BytesIO(made["results.parquet"]))
    assert table["group"].to_list() == 2 * [group for group in survey.only.groups for _ in "yn"]
    assert table["group_count"].null_count() == 0
    assert table["fraction"].null_count() == 0
    assert set(within.split(",")) < set(table.columns)
    assert b"by Your region" in made["report.html"]


def test_the_dashboard_draws_small_multiples(counted):
    analyzer, survey = counted
    with shown(analyzer, public_results=True) as client:
        page = Page(client.get(f"/dashboard/surveys/{survey.id}").text)
    panels = page.all("figure", **{"class": "chart panel"})
    assert [each["aria-label"].split(":")[0] for each in panels] == list(survey.only.groups)
    assert "nobody, up to noise" in panels[2]["aria-label"]
    bars = [each.get("aria-label", "") for each in page.all("div")]
    assert len([text for text in bars if text.startswith(("yes:", "no:"))]) == 4
    assert "a fraction of a group by more" in page.of["found"]


def test_people_answer_by_groups_over_http(tmp_path):
    crowd = {"questions": (by_groups(),), "admission": Open(dishonest=0), "epsilon": 9.0}
    with live(tmp_path, **crowd) as service:
        survey = service.survey
        answers = [("north", "yes")] * 40 + [("south", "no")] * 19
        service.client("people").report_many(survey, answers, job="people")
        outcome = service.client("person").report(survey, ("east", "yes"))
        assert type(outcome).__name__ == "Sent"
        shuffling, collecting = service.shuffler_worker(), service.analyzer_worker()
        while shuffling.step() or collecting.step():
            pass
        (found,) = service.results()
    assert found["valid"] == 60
    assert {row["group"] for row in found["estimates"]} == {"north", "south", "east"}
    assert NONE not in json.dumps(found)
