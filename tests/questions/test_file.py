"""The file of questions: whatever is wrong in it, the error says where."""

from __future__ import annotations

import json
import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shoal.errors import InvalidArgumentError
from shoal.planning import Plan
from shoal.questions.file import read_questions
from shoal.questions.kinds import KINDS, Choice, Find

GOOD = {
    "choice": {"labels": ["a", "b"], "other": False, "public": True, "groups": {"column": "g"}},
    "choices": {"labels": ["a", "b"], "at_most": 1, "separator": ","},
    "scale": {"low": 1, "high": 5, "ends": ["no", "yes"]},
    "number": {"low": 0, "high": 10.5, "groups": {"column": "g", "labels": ["n", "s"]}},
    "bins": {"low": 0, "high": 9, "bins": 3, "quantiles": [0.5], "ranges": [[1, 2]], "tree": True},
    "vector": {"coordinates": ["x", "y"], "norm": 2.0},
    "text": {"length": 3, "alphabet": "ab"},
}
COMMON = {"text": "What?", "weight": 2, "missing": "drop", "choose": "grr"}
JUNK = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-3, 3),
    st.sampled_from([0.5, -1e300, 1e300, 10**400, float("nan"), float("inf"), 10**17]),
    st.text(max_size=3),
    st.lists(st.one_of(st.none(), st.integers(-2, 2), st.text(max_size=2)), max_size=3),
    st.just({}),
    st.just({"column": 3}),
    st.just({"column": "g", "labels": [[1]]}),
    st.just({"column": "g", "find": 0.5}),
    st.just([["a", "b"]]),
    st.just([{"a": 1}]),
)


@pytest.fixture
def read(tmp_path):
    """Read what is in a file, as it is or as JSON."""
    path = tmp_path / "asked.json"

    def reading(content):
        path.write_text(content if isinstance(content, str) else json.dumps(content))
        return read_questions(path)

    reading.path = path
    return reading


def question(kind, **more):
    """A good one, but for what is changed."""
    return {"kind": kind, "name": kind, **GOOD[kind], **more}


def test_every_kind_is_read(read):
    made = read([question(kind) for kind in GOOD])
    assert [each.kind for each in made] == list(KINDS)
    assert made[3].groups.labels == ("n", "s")


def test_groups_may_be_found(read):
    (made,) = read([question("choice", groups={"column": "g", "find": 9})])
    assert made.groups.labels == Find(9)


def test_null_is_as_usual(read):
    (made,) = read([{"kind": "choice", "name": "c", "labels": None, "choose": None}])
    assert made == Choice("c")


@pytest.mark.parametrize(
    ("content", "says"),
    [
        ("", "a file of JSON"),
        ("[1,", "a file of JSON"),
        ('[{"kind": "choice", "name": "a", "name": "b"}]', "'name' is there twice"),
        ("{}", "a file with a list of at least one question"),
        ("[]", "a file with a list of at least one question"),
        ("3", "a file with a list of at least one question"),
        (b"\xff".decode("latin-1"), "a file of JSON"),
    ],
)
def test_what_is_no_list_is_refused(read, content, says):
    with pytest.raises(InvalidArgumentError, match=says) as refused:
        read(content)
    assert str(read.path) in str(refused.value)


def test_a_file_that_is_not_there_is_named(tmp_path):
    with pytest.raises(InvalidArgumentError, match="a file that can be read") as refused:
        read_questions(tmp_path / "none.json")
    assert str(tmp_path / "none.json") in str(refused.value)


def test_a_name_is_there_once(read):
    with pytest.raises(InvalidArgumentError, match="another name than that of") as refused:
        read([question("choice"), question("scale", name="choice")])
    assert f"question 1 in question 2 of {read.path}" in str(refused.value)
    assert (refused.value.name, refused.value.value) == ("name", "choice")


def test_lists_in_lists_without_end_are_refused(tmp_path):
    path = tmp_path / "deep.json"
    path.write_text("[" * 100_000)
    with pytest.raises(InvalidArgumentError, match="a file of JSON"):
        read_questions(path)
    with pytest.raises(InvalidArgumentError, match=re.escape("a file written by Plan.save")):
        Plan.load(path)


WRONG = [
    (3, "question", "an object with kind, name and more"),
    ([], "question", "an object with kind, name and more"),
    ({"name": "c"}, "kind", "one of choice, choices"),
    ({"kind": "chioce", "name": "c"}, "kind", "did you mean choice"),
    ({"kind": 3, "name": "c"}, "kind", "a text as kind"),
    ({"kind": "choice"}, "name", "a question with a name"),
    (question("choice", name=3), "name", "a text as name"),
    (question("choice", weight="2"), "weight", "a number as weight"),
    (question("choice", weight=0), "weight", "weight > 0"),
    (question("choice", labels="ab"), "labels", "a list of answers as labels"),
    (question("choice", labels=["a", None]), "labels", "a list of answers as labels"),
    (question("choice", labels=["a", "a"]), "labels", "every answer once"),
    (question("choice", other="yes"), "other", "true or false as other"),
    (question("choice", lables=[]), "key", "did you mean labels"),
    (question("choice", missing="skip"), "missing", "one of cell, refuse, drop"),
    (question("choice", groups="g"), "groups", "an object with a column as groups"),
    (question("choice", groups={"column": 3}), "column", "a text as column"),
    (question("choice", groups={"column": "g", "find": "x"}), "find", "a number as find"),
    (question("choice", groups={"column": "g", "find": 0}), "find", "1 <= find"),
    (question("choice", groups={"column": "choice"}), "by", "another column"),
    (question("choices", labels=3), "labels", "a list of 1 to 60 answers"),
    (question("choices", labels=None), "labels", "a question with a labels"),
    (question("choices", at_most="2"), "at_most", "a number as at_most"),
    (question("choices", at_most=1.5), "at_most", "a whole number at_most"),
    (question("choices", separator=""), "separator", "what is between two answers"),
    (question("scale", ends="lo"), "ends", "a list of two texts as ends"),
    (question("scale", low="a"), "low", "a scale of whole numbers"),
    (question("scale", high=1), "high", "the least one first"),
    (question("number", low="a"), "bounds", "two finite numbers"),
    (question("number", high=[1]), "high", "a number, or a date"),
    (question("bins", bins={}), "bins", "a number, word or list as bins"),
    (question("bins", quantiles=0.5), "quantiles", "a list of numbers as quantiles"),
    (question("bins", ranges=[1, 2]), "ranges", "a list of pairs as ranges"),
    (question("bins", tree=1), "tree", "true or false as tree"),
    (question("vector", coordinates="xy"), "coordinates", "a list of columns as coordinates"),
    (question("vector", norm="1"), "norm", "a number as norm"),
    (question("text", length="3"), "length", "a number as length"),
    (question("text", alphabet=["a"]), "alphabet", "a text as alphabet"),
]


@pytest.mark.parametrize(("stored", "field", "says"), WRONG)
def test_errors_name_the_file_the_question_and_the_field(read, stored, field, says):
    with pytest.raises(InvalidArgumentError, match=re.escape(says)) as refused:
        read([{"kind": "choice", "name": "first"}, stored])
    assert refused.value.name == field
    assert f"question 2 of {read.path}" in str(refused.value)


@pytest.mark.parametrize("kind", GOOD)
@settings(max_examples=100)
@given(data=st.data())
def test_whatever_a_field_holds_it_is_read_or_the_error_says_where(kind, data, tmp_path_factory):
    stored = question(kind)
    name = data.draw(st.sampled_from([*stored, *COMMON, "colour"]))
    stored[name] = data.draw(JUNK)
    path = tmp_path_factory.mktemp("questions") / "asked.json"
    path.write_text(json.dumps([{"kind": "text", "name": "first"}, stored]))
    try:
        _, made = read_questions(path)
    except InvalidArgumentError as error:
        assert f"of {path}" in str(error)  # noqa: PT017 - either is right
    else:
        assert made.to_dict() == KINDS[kind].from_dict(made.to_dict()).to_dict()
