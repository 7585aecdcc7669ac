"""The calculator of the documentation, in Node, against the library: one process for each test."""

from __future__ import annotations

import json
import math
import shlex
import subprocess
from decimal import Decimal

import numpy as np
import pytest

import command_kit
import shoal
from browser_kit import node
from repository import ROOT
from shoal.accounting import catalog, integral
from shoal.accounting.guarantee import default_delta, delta_warnings
from shoal.accounting.search import Side
from shoal.errors import OutOfRegimeError
from shoal.mechanisms.registry import by_name, family, names

CLIENT = ROOT / "clients" / "browser"
WITHIN = 1.01


def answers(jobs):
    """What the calculator makes of a list of jobs."""
    finished = subprocess.run(
        [node().node, "test/calculator.mjs"],
        cwd=CLIENT,
        input=json.dumps(jobs),
        capture_output=True,
        encoding="utf-8",
        check=False,
    )
    assert finished.returncode == 0, finished.stderr[-4000:]
    return json.loads(finished.stdout)


def questions(count):
    """Random ones, every other one about a known randomizer."""
    drawn = np.random.default_rng(20)
    for place in range(count):
        question = {
            "localEpsilon": drawn.uniform(0.05, 12),
            "n": round(10 ** drawn.uniform(1, 9)),
            "delta": 10 ** drawn.uniform(-12, -2),
            "randomizer": "any",
            "k": 2,
        }
        if place % 2:
            question["randomizer"] = str(drawn.choice(names("answers", local=True)))
            question["k"] = round(10 ** drawn.uniform(math.log10(2), 3))
        yield question


def law_of(question):
    local = question["localEpsilon"]
    if question["randomizer"] == "any":
        return shoal.BlanketLaw.generic(local)
    return family(question["randomizer"], k=question["k"])(epsilon=local).law()


def enclosed(law, n, delta):
    """Where the certified lower end of the library's integral passes δ, of the worst pair.

    No ε below this keeps δ in the blanket's theorem, however finely it is computed.
    """
    found = []
    for pair in law.pairs:
        if integral.enclose(pair, n=n, epsilon=0.0).upper <= delta:
            found.append(0.0)
            continue
        cap = float(law.local_epsilon)
        found.append(integral.epsilon(pair, n, delta, cap=cap, side=Side.LOWER))
    return max(found)


def check_epsilon(count):
    """ε is below neither the library's nor what its integral encloses, and within 1 % of it."""
    asked = list(questions(count))
    worst = 0.0
    for question, epsilon in zip(
        asked, answers([{"job": "epsilon", **question} for question in asked]), strict=True
    ):
        law, n, delta = law_of(question), question["n"], question["delta"]
        library = shoal.amplify(law, n=n, delta=delta).epsilon
        assert epsilon >= library, question
        assert epsilon >= enclosed(law, n, delta), question
        assert epsilon <= WITHIN * library, question
        worst = max(worst, epsilon / library - 1 if library else 0.0)
    return worst


def test_epsilon_is_an_upper_bound_and_within_a_per_cent_of_the_librarys():
    assert check_epsilon(50) < WITHIN - 1


@pytest.mark.slow
def test_epsilon_of_a_thousand_questions():
    assert check_epsilon(1000) < WITHIN - 1


def test_published_bounds_are_the_librarys_and_refuse_what_it_refuses():
    drawn = np.random.default_rng(3)
    queries = []
    for place in range(200):
        query = {
            "localEpsilon": 10 ** drawn.uniform(-2, 1.1),
            "n": round(10 ** drawn.uniform(0.5, 9)),
            "delta": 10 ** drawn.uniform(-12, -1),
        }
        queries.append(query | ({"k": int(drawn.choice([2, 3, 10, 1000]))} if place % 2 else {}))
    refused, answered = set(), set()
    jobs = [{"job": "published", **query} for query in queries]
    for query, bounds in zip(queries, answers(jobs), strict=True):
        theirs = catalog.Query(
            local_epsilon=query["localEpsilon"],
            n=query["n"],
            delta=query["delta"],
            k=query.get("k"),
        )
        numerical = bounds.pop("clones")
        library = catalog.get("clones").epsilon(theirs)
        assert library * (1 - 1e-4) <= numerical <= max(WITHIN * library, library + 1e-6), query
        for name, epsilon in bounds.items():
            entry = catalog.get(name)
            assert entry.certified
            try:
                expected = entry.epsilon(theirs)
            except OutOfRegimeError:
                assert epsilon is None, (name, query)
                refused.add(name)
            else:
                assert epsilon == pytest.approx(expected, rel=1e-9), (name, query)
                answered.add(name)
    assert refused == answered == set(bounds)


PLANS = [
    {"epsilon": 1.0, "delta": 1e-6, "n": 100_000, "k": 16},
    {"epsilon": 0.1, "delta": 1e-6, "n": 1_000_000, "k": 1000},
    {"epsilon": 2.0, "delta": 1e-8, "n": 1_000_000, "k": 2},
    {"epsilon": 0.5, "delta": 1e-5, "n": 2_000, "k": 5},
    {"epsilon": 1.0, "delta": 1e-6, "n": 100, "k": 12},
    {"epsilon": 1.0, "delta": 1e-7, "n": 1_000_000, "k": 20_000},
]
FEW_FOR_THEIR_ANSWERS = [  # whose randomizers are far apart: several seconds each
    {"epsilon": 0.1, "delta": 1e-6, "n": 10_000, "k": 1000},
    {"epsilon": 0.2, "delta": 1e-6, "n": 10_000, "k": 100},
]


@pytest.mark.parametrize(
    "plans", [PLANS, pytest.param(FEW_FOR_THEIR_ANSWERS, marks=pytest.mark.slow)]
)
def test_plans_keep_their_targets_and_are_those_of_the_library(plans):
    jobs = [{"job": "plan", **asked} for asked in plans]
    for asked, found in zip(plans, answers(jobs), strict=True):
        target = {name: asked[name] for name in ("epsilon", "delta", "n")}
        plan = shoal.plan(shoal.Choice("answer", asked["k"]), **target)
        library = {option.name: option for option in plan.options}
        assert set(library) == {option["name"] for option in found["options"]}
        for option in found["options"]:
            theirs = library[option["name"]]
            if "found" not in option:
                assert option["remark"] == theirs.remark
                continue
            ours, local = option["found"], option["found"]["localEpsilon"]
            assert local <= theirs.local_epsilon * (1 + 1e-9), (asked, option["name"])
            sizes = {"buckets": theirs.randomizer.g} if option["name"] == "hashing" else {}
            device = by_name(option["name"])(k=asked["k"], epsilon=local, **sizes)
            epsilon = shoal.amplify(device, n=asked["n"], delta=asked["delta"]).epsilon
            assert 0.99 * asked["epsilon"] <= epsilon <= asked["epsilon"], (asked, option["name"])
            for ours_, theirs_ in (
                (ours["errors"]["l2"], theirs.errors.l2),
                (ours["errors"]["cell"], theirs.errors.cell),
                (ours["bits"], theirs.randomizer.message_bits),
            ):
                assert ours_ == pytest.approx(theirs_, rel=5e-3), (asked, option["name"])
        # Errors that are nearly the same may change places.
        best = library[found["options"][0]["name"]].errors.l2
        assert best <= 1.021 * min(each.errors.l2 for each in plan.options if each.errors)
        for ours, theirs in ((found["central"], plan.central), (found["local"], plan.local)):
            assert (ours["l2"], ours["cell"]) == pytest.approx((theirs.l2, theirs.cell), rel=1e-9)
    assert found["options"][0]["name"] == plan.recommended.name == "grr"


def test_local_epsilons_that_no_crowd_allows_are_the_target_itself():
    asked = {"epsilon": 0.3, "delta": 1e-12, "n": 2, "k": 4}
    (found,) = answers([{"job": "plan", **asked}])
    for option in found["options"]:
        assert option["found"]["localEpsilon"] == pytest.approx(0.3, rel=1e-3)
    library = shoal.plan(shoal.Choice("answer", 4), epsilon=0.3, delta=1e-12, n=2).recommended
    assert library.local_epsilon == pytest.approx(0.3, rel=1e-3)


def test_what_is_wrong_with_a_field_is_said_in_a_line():
    wrong = {
        "e0": ["", "four", "-1", "21", "0", "0,005"],
        "epsilon": ["1,5", "1e9"],
        "n": ["1", "2.5", "1e10", "ten", "1,00", "20.000", "20.000,000", "20.000 000"],
        "delta": ["0", "1", "1e-16", "e-6"],
        "k": ["1", "1e6", "1.000"],
    }
    right = {
        "e0": ["4", "0.05", " 1.5 ", "1e-2"],
        "epsilon": ["1", ".5"],
        "n": ["100000", "1e5", "100,000", "100 000", "1000000000", "1,000,000", "2.500e4"],
        "delta": ["1e-6", "0.000001", "1E-6", "0.001", "", " "],
        "k": ["2", "1,000"],
    }
    jobs = [
        ({"job": "complaints", name: text}, bool(texts is wrong[name]))
        for table in (wrong, right)
        for name, texts in table.items()
        for text in texts
    ]
    for (job, expected), found in zip(jobs, answers([job for job, _ in jobs]), strict=True):
        (line,) = found.values()
        assert bool(line) == expected, (job, line)
        assert not line or (line.endswith(".") and "\n" not in line)


def test_a_point_between_groups_of_digits_is_refused_with_what_to_write():
    jobs = [{"job": "complaints", "n": text} for text in (" 20.000 ", "1.000.000", "20.000,000")]
    assert [found["n"] for found in answers(jobs)] == [
        "Ambiguous: write 20000 or 20,000.",
        "Ambiguous: write 1000000 or 1,000,000.",
        "Ambiguous: write 100000 or 100,000.",
    ]


def test_warnings_and_the_default_of_delta_are_the_librarys():
    people = [2, 3, 49, 1000, 20_000, 30_000_000, 10**9]
    jobs = [
        {"job": "warning", "n": n, "delta": delta}
        for n in people
        for delta in (1 / n, math.nextafter(1 / n, 0), 0.1, 1e-6)
    ]
    warned = set()
    for job, found in zip(jobs, answers(jobs), strict=True):
        assert found["warning"] == "".join(delta_warnings(job["delta"], job["n"]))
        assert found["delta"] == pytest.approx(default_delta(job["n"]), rel=1e-11)
        assert found["delta"] <= default_delta(job["n"])
        warned.add(bool(found["warning"]))
    assert warned == {True, False}


def test_where_a_crowd_adds_nothing_epsilon_is_shown_as_local_epsilon_was_typed():
    typed = [3, 0.1, 1.23456, 2.99999, 12]
    jobs = [
        {"job": "answer", "localEpsilon": local, "n": 4, "delta": 1e-12, "randomizer": name, "k": 4}
        for local in typed
        for name in ("any", "grr")
    ]
    assert answers(jobs) == [str(job["localEpsilon"]) for job in jobs]


LINKED = [
    ("amplify", {"e0": "4", "n": "100,000", "delta": "1e-6", "randomizer": "any", "k": "x"}),
    ("amplify", {"e0": "1.5", "n": "5e3", "delta": "1e-5", "randomizer": "hashing", "k": "9"}),
    ("plan", {"epsilon": "0.5", "n": "20000", "delta": "1e-7", "k": "4"}),
    ("amplify", {"e0": "4", "n": "30000000", "delta": "", "randomizer": "any"}),
]


def test_links_hold_the_question_and_commands_ask_the_library_the_same():
    jobs = [{"job": "link", "ask": ask, "typed": typed} for ask, typed in LINKED]
    for found in answers(jobs):
        assert found["restored"] == found["question"]
        command, python = found["commands"]["shell"], found["commands"]["python"]
        record = command_kit.shoal(*shlex.split(command)[1:], "--json").json()
        computed = eval(python, {"shoal": shoal})  # noqa: S307 - what the page shows
        if found["question"]["ask"] == "plan":
            (asked,) = record["questions"]
            (report,) = asked["reports"]
            assert report["recommended"] == computed.recommended.name
        else:
            assert record["epsilon"] == pytest.approx(computed.epsilon, rel=1e-12)


def test_bounds_are_shown_to_the_safe_side():
    drawn = np.random.default_rng(5)
    values = [10 ** drawn.uniform(-9, 3) for _ in range(500)] + [0.0, 1.0, 0.1182, 99995.0, 9.99951]
    (shown,) = answers([{"job": "shown", "values": values}])
    for value, (above, below) in zip(values, shown, strict=True):
        exact = Decimal(repr(value))
        assert Decimal(below) <= exact <= Decimal(above)
        assert float(above) <= value * 1.0011
        assert float(below) >= value * 0.9989
