"""What people build on since 0.3 stays usable: docs/develop/stability.md, held against a list."""

from __future__ import annotations

import copy
import inspect
import json
import re
from functools import cache

import pytest

import interface
from repository import ROOT

ADVICE = (
    "Give the old spelling back, beside the new one and with a DeprecationWarning: "
    "docs/develop/stability.md. Only if a promise was never meant: change tests/api_0_3.json, and "
    "say so under upgrade notes in CHANGELOG.md."
)


@cache
def released():
    return json.loads((ROOT / "tests" / "api_0_3.json").read_text(encoding="utf-8"))


@cache
def now():
    return interface.interface()


def test_everything_that_0_3_promised_is_still_usable():
    faults = interface.broken(released(), now())
    assert not faults, "\n".join([*faults, ADVICE])


def test_the_list_is_not_empty_anywhere():
    assert {part: len(entries) > 5 for part, entries in released().items()} == dict.fromkeys(
        ("python", "commands", "json", "http", "http json"), True
    )


def test_the_page_names_every_public_module():
    page = (ROOT / "docs" / "develop" / "stability.md").read_text(encoding="utf-8")
    assert not [module for module in interface.reference.MODULES if f"`{module}`" not in page]


def test_the_page_about_0_3_says_where_everything_is_that_0_2_had():
    page = (ROOT / "docs" / "reference" / "from-0-2-to-0-3.md").read_text(encoding="utf-8")
    before = " ".join(re.findall(r"^\| (.*?) \|", page, re.MULTILINE))
    named = re.findall(r"[\w.]+", before)
    listed = {*named, *(name.rpartition(".")[2] for name in named)}
    gone = (ROOT / "tests" / "gone_since_0_2.txt").read_text(encoding="utf-8").split()
    assert len(gone) > 80
    assert not [name for name in gone if name not in listed]


BEFORE = "n, *, delta=None"
CALLS = {
    BEFORE: [],
    "n, extra=0, *, delta=None, other=1": [],
    "n, delta=None": [],
    "n, *, delta=None, **others": [],
    "m, *, delta=None": ["its parameter n is gone", "its new parameter m is required"],
    "m, n, *, delta=None": [
        "its parameter n has another position",
        "its new parameter m is required",
    ],
    "n, *, delta": ["its parameter delta is required now"],
    "n, *, delta=1e-6": ["its parameter delta is 1e-06 by default, not None"],
    "n, *, delta=None, other": ["its new parameter other is required"],
    "*, n, delta=None": ["its parameter n has another position"],
    "n, /, *, delta=None": ["its parameter n can no longer be given by name"],
}


def parameters(text):
    function = eval(f"lambda {text}: None")  # noqa: S307 - of the table above
    return interface.parameters(inspect.signature(function))


@pytest.mark.parametrize("after", CALLS)
def test_a_call_that_was_allowed_and_is_no_longer_is_noticed(after):
    assert list(interface._call(parameters(BEFORE), parameters(after))) == CALLS[after]


def _lose(told, fault):
    """Take away what the sentence says is gone."""
    match fault:
        case "shoal.amplify: is gone":
            del told["python"]["shoal.amplify"]
        case "shoal.Guarantee: epsilon is gone":
            del told["python"]["shoal.Guarantee"]["members"]["epsilon"]
        case "shoal.Guarantee: to_dict: can no longer be called":
            told["python"]["shoal.Guarantee"]["members"]["to_dict"] = None
        case "run: --column is gone":
            del told["commands"]["run"]["--column"]
        case "amplify: epsilon is gone":
            told["json"]["amplify"].remove("epsilon")
        case "shuffler: GET /v1/keys: is gone":
            del told["http"]["shuffler: GET /v1/keys"]
        case "analyzer: GET /v1/surveys: 200 is gone":
            told["http"]["analyzer: GET /v1/surveys"]["statuses"].remove("200")
        case "analyzer: Result: epsilon is gone":
            told["http json"]["analyzer: Result"].remove("epsilon")


@pytest.mark.parametrize(
    "fault",
    [
        "shoal.amplify: is gone",
        "shoal.Guarantee: epsilon is gone",
        "shoal.Guarantee: to_dict: can no longer be called",
        "run: --column is gone",
        "amplify: epsilon is gone",
        "shuffler: GET /v1/keys: is gone",
        "analyzer: GET /v1/surveys: 200 is gone",
        "analyzer: Result: epsilon is gone",
    ],
)
def test_what_is_taken_away_is_named(fault):
    told = copy.deepcopy(now())
    _lose(told, fault)
    assert interface.broken(released(), told) == [fault]


def test_an_option_that_becomes_required_or_takes_a_value_is_named():
    told = copy.deepcopy(now())
    told["commands"]["plan"]["--json"] = {"takes": "a value", "required": False}
    told["commands"]["plan"]["--delta"] = {"takes": "a value", "required": True}
    told["commands"]["plan"]["--new"] = {"takes": "a value", "required": True}
    assert interface.broken(released(), told) == [
        "plan: --delta is required now",
        "plan: --json takes a value now",
        "plan: its new --new is required",
    ]


def test_what_is_new_is_no_fault():
    told = copy.deepcopy(now())
    for part in told.values():
        part["new"] = {}
    told["json"]["amplify"].append("new")
    told["python"]["shoal.Guarantee"]["members"]["new"] = None
    assert not interface.broken(released(), told)
