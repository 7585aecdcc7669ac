"""Questions: they survive the disk whatever their fields, and refuse what makes no sense."""

from __future__ import annotations

import datetime as dt
import json
from dataclasses import fields

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shoal.errors import InvalidArgumentError
from shoal.questions.edges import Edges
from shoal.questions.file import read_questions, write_questions
from shoal.questions.kinds import (
    KINDS,
    MOST_CELLS,
    MOST_CHOICES,
    MOST_STEPS,
    Bins,
    Choice,
    Choices,
    Find,
    Groups,
    Number,
    Question,
    Scale,
    Text,
    Vector,
    label_of,
    spelled,
)

NAMES = st.text(min_size=1, max_size=6)
LABELS = st.lists(
    st.one_of(NAMES, st.integers(-5, 5), st.floats(-9, 9), st.booleans()),
    min_size=1,
    max_size=5,
    unique_by=label_of,
)
POSITIVE = st.floats(1e-3, 1e3)
MISSING = st.sampled_from(["cell", "refuse", "drop"])
FINITE = st.floats(-1e9, 1e9)
PAIRS = st.tuples(FINITE, FINITE).filter(lambda pair: pair[0] < pair[1])
DATES = st.dates(dt.date(1900, 1, 1), dt.date(2100, 1, 1))
WRITTEN = st.one_of(DATES, DATES.map(str))


@st.composite
def grouped(draw):
    """The groups of a question, in a column that no question is of."""
    listed = st.one_of(
        st.none(), LABELS.filter(lambda each: "" not in each), st.builds(Find, st.integers(1, 99))
    )
    return Groups(
        "the groups",
        draw(listed),
        draw(NAMES),
        draw(st.booleans()),
        other=draw(st.one_of(st.none(), st.booleans())),
        missing=draw(st.sampled_from(["cell", "refuse"])),
    )


def terms(*, choose=True, missing=MISSING, groups=True):
    """What every question has; names are no longer than those of the groups."""
    return {
        "name": NAMES,
        "text": st.text(max_size=6),
        "weight": POSITIVE,
        "choose": st.one_of(st.none(), NAMES) if choose else st.none(),
        "missing": st.one_of(st.none(), missing),
        "groups": st.one_of(st.none(), grouped()) if groups else st.none(),
    }


def scales():
    """From a whole number to a larger one."""
    return st.tuples(st.integers(-400, 400), st.integers(1, MOST_STEPS - 1)).flatmap(
        lambda pair: st.builds(
            Scale,
            low=st.just(pair[0]),
            high=st.just(pair[0] + pair[1]),
            ends=st.tuples(NAMES, NAMES),
            **terms(),
        )
    )


@st.composite
def bins(draw):
    """Bins of numbers or dates, by their number or their edges, with what may be asked of them."""
    given = {name: draw(each) for name, each in terms().items()}
    if draw(st.booleans()):
        places = draw(st.lists(st.integers(-50, 50), min_size=3, max_size=6, unique=True))
        given["bins"] = sorted(places)
    else:
        pair = draw(st.one_of(PAIRS, st.just((0, 100)), st.tuples(WRITTEN, WRITTEN)))
        dates = not isinstance(pair[0], float | int)
        if dates:
            pair = sorted(pair, key=str)
        given |= {"low": pair[0], "high": pair[1]}
        words = ["auto", "day", "week", "month"] if dates else ["auto"]
        given["bins"] = draw(st.one_of(st.sampled_from(words), st.just(2)))
        if dates and str(pair[0]) == str(pair[1]):
            given["high"] = "2101-01-01"
    if given["groups"] is None:
        quantiles = st.lists(st.floats(0.01, 0.99), max_size=3)
        given["quantiles"] = draw(quantiles)
        given["ranges"] = draw(
            st.lists(st.tuples(st.integers(0, 9), st.integers(9, 20)), max_size=2)
        )
        given["tree"] = draw(st.one_of(st.none(), st.booleans()))
    return Bins(**given)


ANY = {
    "choice": st.builds(
        Choice,
        labels=st.one_of(st.none(), st.integers(2, MOST_CELLS), LABELS),
        other=st.one_of(st.none(), st.booleans()),
        public=st.booleans(),
        **terms(),
    ),
    "choices": st.builds(
        Choices,
        labels=LABELS,
        at_most=st.one_of(st.none(), st.integers(1, 9)),
        separator=st.sampled_from([";", ", ", "|"]),
        **terms(groups=False),
    ),
    "scale": scales(),
    "number": PAIRS.flatmap(
        lambda pair: st.builds(Number, low=st.just(pair[0]), high=st.just(pair[1]), **terms())
    ),
    "bins": bins(),
    "vector": st.builds(
        Vector,
        coordinates=st.one_of(
            st.integers(2, 99), st.lists(NAMES, min_size=2, max_size=4, unique=True)
        ),
        norm=st.one_of(st.none(), POSITIVE),
        **terms(missing=st.sampled_from(["refuse", "drop"]), groups=False),
    ),
    "text": st.builds(
        Text,
        length=st.integers(1, 99),
        alphabet=st.one_of(st.none(), NAMES, NAMES.map(str.encode)),
        **terms(choose=False, missing=st.just("cell"), groups=False),
    ),
}


def said(value):
    """A value as JSON has it: dates are texts there."""
    if isinstance(value, tuple | list):
        return [said(each) for each in value]
    return str(value) if isinstance(value, dt.date) else value


def same(one, other):
    """Whether all fields are the same, dates being what they are written as."""
    assert type(one) is type(other)
    return all(said(getattr(one, f.name)) == said(getattr(other, f.name)) for f in fields(one))


def test_every_kind_is_tried():
    assert set(ANY) == set(KINDS)
    assert all(KINDS[name].kind == name and issubclass(KINDS[name], Question) for name in ANY)


@pytest.mark.parametrize("kind", ANY)
@settings(max_examples=60)
@given(data=st.data())
def test_a_question_is_what_it_was_written_as(kind, data):
    question = data.draw(ANY[kind])
    stored = json.loads(json.dumps(question.to_dict()))
    again = KINDS[kind].from_dict(stored)
    assert same(again, question)
    assert again.to_dict() == question.to_dict()
    assert str(again) == str(question)
    assert stored["kind"] == kind
    # What is as usual is not written.
    assert ("weight" in stored) == (question.weight != 1)
    assert ("missing" in stored) == (question.missing != question.usually)
    assert ("groups" in stored) == (question.groups is not None)


@settings(max_examples=20)
@given(
    listed=st.lists(st.one_of(*ANY.values()), min_size=1, max_size=4, unique_by=lambda q: q.name)
)
def test_a_file_of_questions_holds_all_of_them(listed, tmp_path_factory):
    path = tmp_path_factory.mktemp("questions") / "questions.json"
    write_questions(path, listed)
    again = read_questions(path)
    assert len(again) == len(listed)
    assert all(map(same, again, listed))


def test_bins_of_dates_are_the_same_bins_from_a_file():
    asked = Bins("day", dt.date(2024, 1, 15), dt.date(2024, 4, 2), bins="month")
    again = Bins.from_dict(json.loads(json.dumps(asked.to_dict())))
    assert again.edges_of(10) == asked.edges_of(10)
    assert len(again.edges_of(10)) == 4


def test_what_numpy_made_is_written_as_a_number():
    asked = Choice("c", weight=np.float64(2.5))
    assert json.loads(json.dumps(asked.to_dict()))["weight"] == 2.5
    edges = Bins("age", bins=np.array([0, 18, 65]))
    assert json.loads(json.dumps(edges.to_dict()))["bins"] == [0, 18, 65]


def test_an_alphabet_of_bytes_that_are_no_characters_cannot_be_written():
    assert Text("t", alphabet=b"ab") == Text("t", alphabet="ab")
    with pytest.raises(InvalidArgumentError, match="an alphabet of characters"):
        Text("t", alphabet=b"\xff").to_dict()


REFUSED = {
    "no name": (lambda: Choice(""), "expected what a column, or a question, is called"),
    "a number for a name": (lambda: Number(3, 0, 1), "expected what a column"),
    "no weight": (lambda: Choice("c", weight=0), "expected weight > 0 and finite, got weight=0"),
    "endless weight": (lambda: Scale("c", 1, 5, weight=float("inf")), "expected weight > 0"),
    "huge weight": (lambda: Choice("c", weight=1e308), "expected a weight from 0.001 to 1,000"),
    "tiny weight": (lambda: Choice("c", weight=1e-300), "expected a weight from 0.001 to 1,000"),
    "missing": (lambda: Choice("c", missing="skip"), "one of cell, refuse, drop, got missing="),
    "groups of itself": (lambda: Choice("c").by("c"), "another column than the one"),
    "an answer twice": (lambda: Choice("c", ["a", "a"]), "every answer once, got labels='a'"),
    "the same text twice": (lambda: Choice("c", [1, 1.0]), "every answer once, got labels='1'"),
    "no answers": (lambda: Choice("c", []), "a list of 1 to 1,000,000 answers"),
    "a text of answers": (lambda: Choice("c", "abc"), "a list of 1 to 1,000,000 answers"),
    "none in the list": (lambda: Choice("c", ["a", None]), r"no None in the list"),
    "one of one answer": (lambda: Choice("c", 1), "2 <= labels"),
    "half an answer": (lambda: Choice("c", 2.5), "labels"),
    "too many answers": (lambda: Choice("c", 10**8), "labels <= 10,000,000"),
    "too many choices": (
        lambda: Choices("c", range(MOST_CHOICES + 1)),
        "a list of 1 to 60 answers",
    ),
    "none at most": (lambda: Choices("c", ["a", "b"], 0), "1 <= at_most"),
    "no separator": (lambda: Choices("c", ["a"], separator=""), "what is between two answers"),
    "choices by groups": (lambda: Choices("c", ["a"]).by("g"), "no groups for choices"),
    "a scale backwards": (lambda: Scale("c", 5, 1), "2 to 1,000 steps, the least one first"),
    "a scale of one": (lambda: Scale("c", 1, 1), "2 to 1,000 steps"),
    "a long scale": (lambda: Scale("c", 0, MOST_STEPS), "2 to 1,000 steps"),
    "a scale of parts": (lambda: Scale("c", 1, 4.5), "a scale of whole numbers, got high=4.5"),
    "a scale of flags": (
        lambda: Scale("c", low=False, high=True),
        "a scale of whole numbers, got low=False",
    ),
    "an endless scale": (lambda: Scale("c", 1, float("inf")), "a scale of whole numbers"),
    "one end": (lambda: Scale("c", 1, 5, ends=["low"]), "two names, of the lower end"),
    "text for ends": (lambda: Scale("c", 1, 5, ends="lo"), "two names, of the lower end"),
    "bounds backwards": (lambda: Number("c", 1, 0), "two finite numbers with low < high"),
    "equal bounds": (lambda: Number("c", 1, 1), "two finite numbers with low < high"),
    "no bounds at all": (
        lambda: Number("c", 0, float("nan")),
        "two finite numbers with low < high",
    ),
    "endless bounds": (lambda: Number("c", 0, float("inf")), "two finite numbers with low < high"),
    "bounds of text": (lambda: Number("c", "a", "b"), "two finite numbers with low < high"),
    "no bound": (lambda: Number("c", None, 1), "two finite numbers with low < high"),
    "one bound": (lambda: Bins("c", 1), "both bounds, or edges and none"),
    "no bins": (lambda: Bins("c", 0, 1, bins=1), "2 <= bins"),
    "no edges": (lambda: Bins("c", bins=[1]), "3 to 10,001 rising edges"),
    "edges that fall": (lambda: Bins("c", bins=[1, 3, 2]), "rising edges"),
    "no bounds": (lambda: Bins("c", bins=4), "public bounds"),
    "quantile 1": (lambda: Bins("c", 0, 1, quantiles=[1]), "strictly between 0 and 1"),
    "quantile 0": (lambda: Bins("c", 0, 1, quantiles=(0.5, 0.0)), "strictly between 0 and 1"),
    "no quantile": (lambda: Bins("c", 0, 1, quantiles=float("nan")), "strictly between 0 and 1"),
    "a quantile of text": (lambda: Bins("c", 0, 1, quantiles="a"), "strictly between 0 and 1"),
    "half a range": (lambda: Bins("c", 0, 1, ranges=[(1,)]), "ranges \\(first, last\\)"),
    "a range alone": (lambda: Bins("c", 0, 1, ranges="ab"), "ranges \\(first, last\\)"),
    "quantiles of groups": (
        lambda: Bins("c", 0, 1, quantiles=[0.5]).by("g"),
        "no quantiles with groups",
    ),
    "ranges of groups": (lambda: Bins("c", 0, 9, ranges=[(0, 4)]).by("g"), "no ranges with groups"),
    "a tree of groups": (lambda: Bins("c", 0, 1, tree=True).by("g"), "no tree with groups"),
    "one coordinate": (lambda: Vector("v", ["x"]), "the names of two columns or more"),
    "a coordinate twice": (lambda: Vector("v", ["x", "x"]), "the names of two columns or more"),
    "coordinates of text": (lambda: Vector("v", "xy"), "the names of two columns or more"),
    "no norm": (lambda: Vector("v", ["x", "y"], 0), "norm > 0"),
    "one of length 1": (lambda: Vector("v", 1), "2 <= dimension"),
    "a missing vector": (lambda: Vector("v", 2, missing="cell"), "refuse or drop"),
    "a vector of groups": (lambda: Vector("v", 2).by("g"), "no groups for a vector"),
    "no text": (lambda: Text("t", 0), "1 <= length"),
    "a chosen text": (lambda: Text("t", choose="grr"), "no choice of a mechanism"),
    "a missing text": (lambda: Text("t", missing="drop"), "expected cell, got missing='drop'"),
    "texts of groups": (lambda: Text("t").by("g"), "no groups for texts"),
    "no groups": (lambda: Groups("g", []), "a list with at least one name, got groups='none'"),
    "a text of groups": (lambda: Groups("g", "abc"), "a list with at least one name"),
    "an empty group": (lambda: Groups("g", ["a", ""]), "no empty name in the list"),
    "no group": (lambda: Groups("g", ["a", None]), "no empty name in the list"),
    "a group twice": (lambda: Groups("g", ["a", "a"]), "every group once, got groups='a'"),
    "the same group twice": (lambda: Groups("g", [1, 1.0]), "every group once, got groups='1'"),
    "groups left out": (lambda: Groups("g", missing="drop"), "'cell' or 'refuse'"),
    "nothing to find": (lambda: Find(0), "1 <= length"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_makes_no_sense_is_refused(case):
    make, says = REFUSED[case]
    with pytest.raises(InvalidArgumentError, match=says):
        make()


@pytest.mark.parametrize(
    ("stored", "says"),
    [
        ({"kind": "choice", "name": "c", "lables": []}, "did you mean labels"),
        ({"kind": "choice"}, "a question with a name"),
        ({"kind": "scale", "name": "c", "low": 1}, "a question with a high"),
        ({"kind": "choices", "name": "c"}, "a question with a labels"),
        ({"kind": "vector", "name": "v"}, "a question with a coordinates"),
        ({"kind": "choice", "name": "c", "groups": {"labels": ["a"]}}, "groups with a column"),
        (
            {"kind": "choice", "name": "c", "groups": {"column": "g", "labels": ["a"], "find": 3}},
            "labels or find, not both",
        ),
        (
            {"kind": "choice", "name": "c", "groups": {"column": "g", "txt": ""}},
            "did you mean text",
        ),
    ],
)
def test_keys_are_those_of_the_kind(stored, says):
    with pytest.raises(InvalidArgumentError, match=says):
        KINDS[stored["kind"]].from_dict(stored)


def test_cells_are_the_answers_and_those_that_are_added():
    assert Choice("c", ["a", "b"]).cells == 4
    assert Choice("c", ["a", "b"], other=False).cells == 3
    assert Choice("c", ["a", "b"], missing="drop").cells == 3
    assert Choice("c", ["a", "b"], other=False, missing="refuse").cells == 2
    assert Choice("c", 7).cells == 7
    assert Choice("c").cells is None
    assert Scale("s", 1, 5).cells == 6
    assert Scale("s", 1, 5, missing="refuse").cells == 5


def test_questions_know_their_columns():
    assert Choice("c").columns == ("c",)
    assert Number("x", 0, 1).by("g").columns == ("x", "g")
    assert Vector("v", ["x", "y"]).columns == ("x", "y")
    assert Vector("v", 5).columns == ()


def test_more_labels_than_there_are_can_not_be_selected():
    assert Choices("c", ["a", "b"], 9).at_most == 2
    assert str(Choices("c", ["a", "b"], 9)) == "any of 2 answers"
    assert str(Choices("c", ["a", "b", "c"], 1)) == "at most 1 of 3 answers"


@pytest.mark.parametrize(
    ("value", "label"),
    [
        (True, "true"),
        (np.False_, "false"),
        (1.0, "1"),
        (-0.0, "0"),
        (1.5, "1.5"),
        (2.0**60, str(2.0**60)),
        (np.int64(3), "3"),
        ("x", "x"),
        (dt.date(2024, 1, 31), "2024-01-31"),
    ],
)
def test_labels_are_as_columns_have_them(value, label):
    assert label_of(value) == label


def test_a_step_of_a_scale_is_a_bin():
    assert Scale("s", -1, 1).edges == Edges((-1.0, 0.0, 1.0, 2.0), ("-1", "0", "1"), whole=True)


def test_many_coordinates_are_named_by_their_ends():
    assert spelled(["x"] * 6) == "x, x, x, x, x, x"
    assert spelled([f"v{i}" for i in range(7)]) == "v0, ..., v6 (7 columns)"
