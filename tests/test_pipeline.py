"""The whole way from a table to a result, with real files and simulated randomness."""

from __future__ import annotations

import csv
import json
import math
import sys
from collections import Counter
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import polars as pl
import pytest
from scipy import stats

import shoal
from shoal import randomness
from shoal.accounting.amplification import amplify, profile, required_n
from shoal.engines.shuffling import ORDERLESS, RUN_HERE
from shoal.errors import InvalidArgumentError, ShoalError, UnreachableTargetError
from shoal.intervals.estimates import MeanEstimate
from shoal.mechanisms.base import Mechanism
from shoal.mechanisms.estimators import MeanEstimator
from shoal.mechanisms.response import RandomizedResponse
from shoal.pipeline import NOT_PRIVATE, run, shuffle
from shoal.planning import plan
from shoal.questions.domains import Interval
from shoal.questions.kinds import NONE, OTHER, Choice, Number
from shoal.questions.settled import CLAMPED, PUBLIC_LIST, PUBLIC_NULLS
from shoal.questions.terms import Crowd, Limits, Named
from shoal.values import Counts

SIGMAS = 6.5
N = 40_000
SHARES = {"red": 0.5, "green": 0.3, "blue": 0.15, None: 0.05}


class OfHeads(MeanEstimator):
    def __init__(self, coin):
        self.coin = coin

    def estimate(self, counts):
        found = self.coin.response.estimate(counts)
        width = self.coin.high - self.coin.low
        spread = math.hypot(float(found.standard_errors[1]), 0.5 / math.sqrt(counts.n))
        return MeanEstimate(
            self.coin.low + width * float(found.frequencies[1]), width * spread, counts.n
        )

    def variance(self, frequencies=None, *, n):
        raise NotImplementedError


@dataclass(frozen=True, kw_only=True)
class Coin(Mechanism):
    """Reports one of the bounds: the truth rounded at random, then randomized response."""

    low: float
    high: float
    epsilon: float

    name = "coin"

    @property
    def response(self):
        return RandomizedResponse(k=2, epsilon=self.epsilon)

    @cached_property
    def parts(self):
        return replace(
            self.response.parts, domain=Interval(self.low, self.high), estimator=OfHeads(self)
        )

    def draw(self, data, bits):
        share = (data - self.low) / (self.high - self.low)
        rounded = (bits.below(1 << 30, share.size) < share * (1 << 30)).astype(np.int64)
        return self.response.draw(rounded, bits)


def people(n=N, seed=1):
    draws = np.random.default_rng(seed)
    colours = list(SHARES)
    chosen = draws.choice(len(colours), n, p=list(SHARES.values()))
    return pl.DataFrame(
        {
            "colour": [colours[i] for i in chosen],
            "smokes": draws.random(n) < 0.2,
            "age": draws.integers(18, 90, n),
        }
    )


@pytest.fixture(scope="module")
def table():
    return people()


def response(k, epsilon=3.0):
    return RandomizedResponse(k=k, epsilon=epsilon)


def test_estimates_are_right(table):
    found = run(table, "colour", mechanism=response(4), randomness=randomness.simulated(1))
    true = table["colour"].fill_null(NONE).value_counts()
    shares = dict(zip(true["colour"], true["count"] / N, strict=True))
    assert found.labels == ("blue", "green", "red", NONE)
    assert found.n == N
    expected = np.array([shares[label] for label in found.labels])
    off = np.abs(found.estimate.frequencies - expected) / found.estimate.standard_errors
    assert off.max() < SIGMAS
    assert found.estimate.standard_errors.max() < 0.01
    assert found.truth is None
    assert not found.contains_truth
    assert PUBLIC_LIST in found.notes
    assert PUBLIC_LIST in found.guarantee.assumptions
    assert PUBLIC_LIST in found.only.guarantee.assumptions
    assert {ORDERLESS, RUN_HERE} <= set(found.notes)


def test_a_public_list_is_fixed_in_advance(table):
    found = run(
        table,
        Choice("colour", ["green", "red", "violet"]),
        mechanism=response(5),
        randomness=randomness.simulated(2),
        compare_truth=True,
    )
    assert found.labels == ("green", "red", "violet", NONE, OTHER)
    counts = Counter(table["colour"].to_list())
    true = [counts["green"], counts["red"], 0, counts[None], counts["blue"]]
    assert found.truth.tolist() == [each / N for each in true]
    off = np.abs(found.estimate.frequencies - found.truth) / found.estimate.standard_errors
    assert off.max() < SIGMAS
    assert PUBLIC_LIST not in {*found.notes, *found.guarantee.assumptions}
    assert RUN_HERE in found.to_html()
    assert found.contains_truth
    assert NOT_PRIVATE in found.notes


def test_dropped_nulls_leave_fewer_people(table):
    answered = table["colour"].drop_nulls().len()
    found = run(table, Choice("colour", missing="drop"), mechanism=response(3))
    assert found.n == found.guarantee.n == found.estimate.n == answered
    assert found.labels == ("blue", "green", "red")
    assert PUBLIC_NULLS in found.notes
    assert found.guarantee.assumptions[-2:] == (PUBLIC_LIST, PUBLIC_NULLS)
    assert PUBLIC_NULLS in found.to_html()


def test_the_guarantee_is_of_the_rows_and_the_randomizer(table):
    randomizer = response(4)
    half = Crowd(honest_fraction=0.5)
    found = run(table, "colour", mechanism=randomizer, delta=1e-7, crowd=half)
    direct = amplify(randomizer, n=N, delta=1e-7, crowd=half)
    assert found.guarantee.epsilon == direct.epsilon
    assert (found.guarantee.delta, found.guarantee.n) == (1e-7, N // 2)
    assert found.guarantee.local_epsilon == randomizer.local_epsilon


def test_an_epsilon_is_planned_for(table):
    found = run(table, "colour", epsilon=0.8, randomness=randomness.simulated(3))
    assert 0.79 < found.guarantee.epsilon <= 0.8
    assert found.plan.n == found.plan.only.ranking.setting.n == N
    assert found.plan.only.ranking.cells == 4
    assert found.randomizer == found.plan.randomizer


def test_a_plan_keeps_its_delta_and_says_what_fewer_people_mean(table):
    made = plan(Choice("any name", 4), epsilon=0.5, delta=1e-8, n=10 * N)
    found = run(table, "colour", plan=made, limits=Limits(weaker=True))
    assert found.guarantee.delta == 1e-8
    assert found.guarantee.epsilon > 0.5
    assert found.plan is made
    assert any("not kept" in warning for warning in found.warnings)
    assert found.to_dict()["warnings"] == list(found.warnings)
    careful = replace(made, budget=replace(made.budget, crowd=Crowd(honest_fraction=0.5)))
    weaker = run(table, "colour", plan=careful, limits=Limits(weaker=True))
    assert weaker.guarantee.n == N // 2


def test_a_plan_for_more_people_is_refused(table):
    asked = Choice("any name", 4)
    made = plan(asked, epsilon=0.5, delta=1e-8, n=2 * N)
    holds = amplify(made.randomizer, n=N, delta=1e-8).epsilon
    needs = required_n(made.randomizer, epsilon=0.5, delta=1e-8)
    assert N < needs <= 2 * N
    with pytest.raises(UnreachableTargetError, match=f"needs {needs:,} people") as refused:
        run(table, "colour", plan=made)
    said = float(str(refused.value).split("people epsilon ")[1].split()[0])
    assert holds <= said < holds * 1.001
    # A larger delta than the plan's does not make its promise kept.
    with pytest.raises(UnreachableTargetError):
        run(table, "colour", plan=made, delta=0.01)
    fits = plan(asked, epsilon=0.5, delta=1e-8, n=N)
    # A smaller delta costs more epsilon, but the plan's own promise is kept.
    assert run(table, "colour", plan=fits, delta=1e-9).guarantee.epsilon > 0.5


def test_the_local_epsilon_is_capped(table):
    found = run(table, "colour", epsilon=1, limits=Limits(local_epsilon=1.5))
    assert found.plan.budget.limits.local_epsilon == 1.5
    assert found.guarantee.local_epsilon <= 1.5
    with pytest.raises(InvalidArgumentError, match="within local_epsilon = 2"):
        run(table, "colour", mechanism=response(4), limits=Limits(local_epsilon=2))
    made = plan(Choice("colour", 4), epsilon=1, n=N)
    broken = replace(made, budget=replace(made.budget, limits=Limits(local_epsilon=0.5)))
    with pytest.raises(InvalidArgumentError, match=r"the plan's local_epsilon = 0\.5"):
        run(table, "colour", plan=broken)


def test_a_stream_is_read_once_for_all_columns(table):
    given = {"colour": response(4), "smokes": response(2)}
    streamed, framed = (
        run(each, ["colour", "smokes"], mechanism=given, compare_truth=True)
        for each in (table.to_arrow().to_reader(), table)
    )
    for one, other in zip(streamed.columns, framed.columns, strict=True):
        assert one.labels == other.labels
        assert one.truth.tolist() == other.truth.tolist()


def test_assumptions_of_some_columns_name_them(table):
    given = {"colour": response(3), "smokes": response(2)}
    asked = [Choice(name, missing="drop") for name in given]
    found = run(table, asked, mechanism=given)
    followed = [text for text in found.guarantee.assumptions if "follow the protocol" in text]
    assert [text.partition(":")[0] for text in followed] == ["colour", "smokes"]
    assert PUBLIC_LIST in found.guarantee.assumptions  # of both


def test_identifiers_are_not_public_answers():
    names = [f"person {i}" for i in range(101)]
    data = pl.DataFrame({"v": names})
    with pytest.raises(InvalidArgumentError, match=r"--categories.*--bins") as refused:
        run(data, "v", epsilon=1)
    assert "person" not in str(refused.value)
    shared = pl.DataFrame({"v": names + names[:51]})
    assert run(shared, "v", mechanism=response(101)).n == 152
    few = pl.DataFrame({"v": names[:100]})
    assert run(few, "v", mechanism=response(100)).n == 100


def test_numbers_outside_the_bounds_are_moved_to_them():
    data = pl.DataFrame({"v": [-5.0, 0.25, 7.0, 9.0]})
    randomizer = Coin(low=0, high=1, epsilon=1.0)
    asked, given = Number("v", 0, 1), {"mechanism": randomizer}
    given["randomness"] = randomness.simulated(9)
    found = run(data, asked, compare_truth=True, **given)
    assert found.truth.tolist() == [11.25 / 4]  # of the numbers as they are
    assert run(pl.DataFrame({"v": [0.5, float("inf")]}), asked, **given).n == 2
    moved = run(pl.DataFrame({"v": [7.0, 9.0] * 50_000}), asked, **given)
    assert abs(moved.estimate.mean - 1) < SIGMAS * moved.estimate.standard_error
    assert CLAMPED in found.notes
    inside = run(pl.DataFrame({"v": [0.5, 0.5]}), asked, **given)
    assert CLAMPED in inside.notes  # whether there are any is nobody's business


@pytest.mark.parametrize("values", [["0.5", "secret", "1"], [0.0, None, float("nan"), 1.0]])
def test_what_is_no_number_is_missing_and_never_repeated(values):
    data = pl.DataFrame({"v": values})
    given = {"mechanism": Coin(low=0, high=1, epsilon=1.0), "randomness": randomness.simulated(9)}
    with pytest.raises(InvalidArgumentError, match=r"missing='drop' / --drop-nulls") as refused:
        run(data, Number("v", 0, 1), **given)
    assert "secret" not in str(refused.value)
    assert run(data, Number("v", 0, 1, missing="drop"), **given).n == 2


def test_answers_are_no_formulas_in_a_table(tmp_path):
    labels = ["=1+1", "+a", "-b", "@c", "d-e"]
    data = pl.DataFrame({"v": labels})
    found = run(data, Choice("v", labels), mechanism=response(7))
    found.to_csv(tmp_path / "out.csv")
    rows = list(csv.DictReader((tmp_path / "out.csv").read_text().splitlines()))
    assert [row["value"] for row in rows[:5]] == ["'=1+1", "'+a", "'-b", "'@c", "d-e"]
    assert [float(row["fraction"]) for row in rows] == found.estimate.frequencies.tolist()
    assert found.labels[:5] == tuple(labels)


def test_numbers_within_bounds(table):
    found = run(
        table,
        Number("age", 0, 120),
        mechanism=Coin(low=0, high=120, epsilon=2.0),
        randomness=randomness.simulated(4),
        compare_truth=True,
    )
    assert found.truth.tolist() == [pytest.approx(table["age"].mean())]
    assert abs(found.estimate.mean - found.truth[0]) < SIGMAS * found.estimate.standard_error
    assert found.estimate.standard_error < 1
    assert found.labels == ()
    assert found.to_dict()["estimates"][0]["truth"] == found.truth[0]


def test_planned_numbers(table):
    found = run(table, Number("age", 0, 120), epsilon=1, randomness=randomness.simulated(5))
    assert abs(found.estimate.mean - table["age"].mean()) < SIGMAS * found.estimate.standard_error
    assert found.guarantee.epsilon <= 1


def test_a_seed_gives_the_same_result_again(tmp_path):
    path = tmp_path / "many.csv"
    pl.concat([people()] * 15).write_csv(path)
    asked = {"questions": "colour", "mechanism": response(4)}
    first, second = (run(path, **asked, randomness=randomness.simulated(8)) for _ in range(2))
    assert np.array_equal(first.estimate.frequencies, second.estimate.frequencies)
    secure = run(path, **asked)
    assert not np.array_equal(first.estimate.frequencies, secure.estimate.frequencies)


def test_several_columns_with_their_own_randomizers_compose(table):
    given = {"colour": response(4), "smokes": response(2)}
    found = run(table, ["colour", "smokes"], mechanism=given)
    alone = [profile(given[each.column], n=N) for each in found.columns]
    total = (alone[0] + alone[1]).epsilon(1e-6)
    singles = [each.guarantee.epsilon for each in found.columns]
    assert max(singles) < found.guarantee.epsilon <= total
    assert found.guarantee.lower <= found.guarantee.epsilon
    assert found.guarantee.local_epsilon == pytest.approx(6.0)
    assert f"colour: {PUBLIC_LIST}" in found.notes
    assert any("budget of its own" in note for note in found.notes)
    assert found["smokes"].labels == ("false", "true")


def test_a_tiny_delta_is_composed_another_way(table):
    given = {"colour": response(4), "smokes": response(2)}
    found = run(table, ["colour", "smokes"], mechanism=given, delta=1e-20)
    assert found.guarantee.delta == 1e-20
    assert max(each.guarantee.epsilon for each in found.columns) < found.guarantee.epsilon < 1


def test_the_budget_of_several_columns_is_spent(table):
    names = ["colour", "smokes"]
    together = run(table, names, epsilon=1.0, delta=1e-6)
    assert 0.99 <= together.guarantee.epsilon <= 1.0
    assert together.guarantee.delta == 1e-6
    assert any("the budget is for all columns" in note for note in together.notes)
    swapped = run(table, names[::-1], epsilon=1.0, delta=1e-6)
    assert swapped.guarantee.epsilon == together.guarantee.epsilon
    asked = [Choice("colour", weight=3), Choice("smokes")]
    weighted = run(table, asked, epsilon=1.0, delta=1e-6)
    assert 0.99 <= weighted.guarantee.epsilon <= 1.0
    divided = run(table, names, epsilon=1.0, delta=1e-6, limits=Limits(each=True))
    assert any("has a part of epsilon and delta" in note for note in divided.notes)
    for name in names:
        assert swapped[name].randomizer == together[name].randomizer
        assert divided[name].guarantee.epsilon <= 0.5
        assert divided[name].guarantee.delta == 5e-7
        errors = [each[name].estimate.standard_errors.max() for each in (together, divided)]
        assert errors[0] < 0.9 * errors[1]
    locals_ = [each["colour"].randomizer.local_epsilon for each in (together, weighted)]
    assert locals_ == sorted(locals_)


def test_columns_answered_by_different_numbers_of_people_share_the_budget(table):
    some = table.with_columns(colour=pl.when(pl.col("age") > 40).then("colour"))
    asked = [Choice(name, missing="drop") for name in ("colour", "smokes")]
    found = run(some, asked, epsilon=1.0)
    assert found["colour"].n < found["smokes"].n
    assert 0.99 <= found.guarantee.epsilon <= 1.0


def test_columns_of_different_kinds_are_written_together(table, tmp_path):
    found = run(
        table,
        ["smokes", Number("age", 0, 120)],
        mechanism={"smokes": response(2), "age": Coin(low=0, high=120, epsilon=2.0)},
    )
    path = tmp_path / "out.csv"
    found.to_csv(path)
    rows = list(csv.DictReader(path.read_text().splitlines()))
    assert [row["column"] for row in rows] == ["smokes", "smokes", "age"]
    assert float(rows[1]["fraction"]) == found["smokes"].estimate.frequencies[1]
    assert float(rows[2]["mean"]) == found["age"].estimate.mean
    with pytest.raises(InvalidArgumentError, match="one column"):
        _ = found.estimate


def test_what_is_written_is_plain(table, tmp_path):
    found = run(table, "colour", mechanism=response(4))
    found.to_json(tmp_path / "out.json")
    read = json.loads((tmp_path / "out.json").read_text())
    assert read == found.to_dict()
    assert read["randomizer"]["name"] == "grr"
    assert read["guarantee"]["epsilon"] == found.guarantee.epsilon
    assert [row["value"] for row in read["estimates"]] == list(found.labels)
    assert read["estimates"] == read["columns"][0]["estimates"]
    for row in read["estimates"]:
        assert row["low"] < row["frequency"] < row["high"]
        assert row["count"] == pytest.approx(row["frequency"] * N)
        assert "truth" not in row
    assert set(read["stages"]) == {"read", "plan", "account", "randomize", "count", "estimate"}
    assert all(taken == round(taken, 3) for taken in read["stages"].values())
    found.to_csv(tmp_path / "out.csv")
    lines = (tmp_path / "out.csv").read_text().splitlines()
    assert lines[0] == "value,fraction,count,low,high"
    assert len(lines) == 5


def test_a_result_can_be_read_and_shown(table):
    found = run(table, "colour", mechanism=response(4))
    text = str(found)
    assert text.index("red") < text.index("green") < text.index("blue")
    assert "proved upper bound" in text
    assert found.to_html().startswith("<!doctype html>")
    assert found.document().title == found.guarantee.document().title
    # In a notebook the page stands in a frame: it does not restyle what is around it.
    frame = found._repr_html_()
    assert frame.startswith("<iframe ")
    assert frame.count("<") == 2
    assert "&lt;style&gt;" in frame


def test_progress_ends_at_all_reports(table):
    seen = []
    run(
        table,
        ["colour", "smokes"],
        mechanism={"colour": response(4), "smokes": response(2)},
        progress=lambda done, total: seen.append((done, total)),
    )
    assert seen[-1] == (2 * N, 2 * N)
    assert seen == sorted(seen)


def test_long_messages_are_made_in_pieces(table, monkeypatch):
    monkeypatch.setattr("shoal.engines.counting._MOST_BITS", 8 * 1000)
    sizes = []

    class Watched(RandomizedResponse):
        def randomize(self, values, *, randomness=None):
            sizes.append(len(values))
            return super().randomize(values, randomness=randomness)

    found = run(table, "colour", mechanism=Watched(k=4, epsilon=1.0))
    assert max(sizes) == 1000
    assert sum(sizes) == found.n == N


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        ({}, "exactly one of epsilon, mechanism and plan"),
        ({"epsilon": 1, "mechanism": response(4)}, "exactly one of epsilon"),
        ({"epsilon": -1}, "epsilon > 0"),
        ({"epsilon": 1, "delta": 0}, "0 < delta < 1"),
        ({"epsilon": 1, "crowd": Crowd(participation=0.5)}, "every row of a table reports"),
        ({"mechanism": response(4), "limits": Limits(each=True)}, "no each with a mechanism"),
        (
            {"mechanism": response(4), "questions": Choice("colour", weight=2)},
            "no weight of colour with a mechanism",
        ),
        (
            {"mechanism": response(5)},
            r"one of 4 answers, which colour has \(the list of 3 and \(none\)\), got mechanism=",
        ),
        (
            {"mechanism": Coin(low=0, high=1, epsilon=1)},
            "for one of 4 answers, .* got mechanism='a number from 0 to 1'",
        ),
        ({"mechanism": {}}, "a mechanism for question colour"),
        ({"mechanism": "grr"}, "a mechanism for question colour, or Named"),
        ({"mechanism": {"color": response(4)}}, "mechanisms of the questions colour"),
        ({"plan": {"colour": plan(Choice("colour", 4), epsilon=1, n=N)}}, "one plan"),
        ({"epsilon": 1, "questions": "colours"}, "did you mean colour"),
        ({"epsilon": 1, "questions": []}, "at least one question"),
        ({"epsilon": 1, "questions": ["age", "age"]}, "every question, or column, once"),
        (
            {"epsilon": 1, "questions": Number("colour", 0, 1)},
            "a number in every row .* got column='colour'",
        ),
        (
            {
                "plan": plan(Choice("colour", 3), epsilon=1, n=N),
                "questions": Choice("colour", ["a", "b", "c"]),
            },
            r"for one of 5 answers, which colour has \(the list of 3 and \(none\) and \(other\)\)",
        ),
        (
            {"questions": Number("age", 0, 99), "mechanism": Coin(low=0, high=1, epsilon=1)},
            "for a number from 0 to 99, which age has",
        ),
        ({"questions": Number("age", 0, 99), "mechanism": response(2)}, "a number from 0 to 99"),
    ],
)
def test_refusals(table, asked, message):
    with pytest.raises(InvalidArgumentError, match=message):
        run(table, **{"questions": "colour", **asked})


def test_a_plan_runs_the_questions_that_it_was_made_of(table):
    """What they say of their plan is in it; another wish than that is refused."""
    asked = [Choice("colour", ["red", "green"], weight=2, choose="grr"), Choice("smokes", 2)]
    made = plan(asked, epsilon=1, n=N)
    asked[1] = Choice("smokes", ["true", "false"], other=False, missing="refuse")
    found = run(table, asked, plan=made)
    assert found["colour"].randomizer == made["colour"].devices[0]
    assert found["colour"].randomizer.name == "grr"
    for wish in ({"weight": 3}, {"choose": "subset"}):
        with pytest.raises(InvalidArgumentError, match=f"no {next(iter(wish))} of colour"):
            run(table, [replace(asked[0], **wish), asked[1]], plan=made)
    other = [asked[0], Choice("age")]
    with pytest.raises(InvalidArgumentError, match="one of colour, smokes"):
        run(table, other, plan=made)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ([], "at least one row in column v"),
        ([None, None], "at least one row with an answer"),
        (["x", "x"], "at least two different answers"),
    ],
)
def test_columns_with_nothing_to_estimate(values, message):
    data = pl.DataFrame({"v": pl.Series(values, dtype=pl.String)})
    with pytest.raises(InvalidArgumentError, match=message):
        run(data, Choice("v", missing="drop"), epsilon=1)


def test_a_refusal_comes_before_the_first_report(table):
    class Untouched(RandomizedResponse):
        def randomize(self, *_, **__):
            raise AssertionError

    given = {"colour": Untouched(k=4, epsilon=1.0), "smokes": response(3)}
    with pytest.raises(InvalidArgumentError, match="one of 2 answers, which smokes has"):
        run(table, ["colour", "smokes"], mechanism=given)


def test_lost_reports_are_noticed(table):
    class Losing(RandomizedResponse):
        def tally(self, messages):
            found = super().tally(messages)
            return Counts(found.cells, found.n - 1)

    with pytest.raises(ShoalError, match="does not change"):
        run(table, "colour", mechanism=Losing(k=4, epsilon=1.0))


def test_shuffling_keeps_the_multiset():
    reports = np.arange(1000) % 7
    batch = shuffle(reports)
    assert len(batch) == 1000
    assert np.array_equal(np.bincount(batch.messages), np.bincount(reports))
    assert not np.array_equal(batch.messages, reports)
    rows = np.arange(60, dtype=np.uint8).reshape(20, 3)
    mixed = shuffle(rows).messages
    assert np.array_equal(mixed[np.argsort(mixed[:, 0])], rows)


def test_every_order_is_equally_likely():
    source = randomness.simulated(7)
    drawn = Counter(
        tuple(shuffle(np.arange(4), randomness=source).messages.tolist()) for _ in range(12_000)
    )
    assert len(drawn) == math.factorial(4)
    assert stats.chisquare(list(drawn.values())).pvalue > 1e-7


@pytest.mark.parametrize("nothing", [np.array([]), np.array(3)])
def test_nothing_cannot_be_shuffled(nothing):
    with pytest.raises(InvalidArgumentError, match="at least one report"):
        shuffle(nothing)


def test_delta_is_well_below_one_over_n_unless_given():
    asked = {"questions": "v", "mechanism": Named("grr", epsilon=1.0)}
    for n, delta in ((1000, 1e-6), (200_000, 5e-7)):
        found = run(pl.DataFrame({"v": [True, False] * (n // 2)}), **asked)
        assert found.guarantee.delta == pytest.approx(delta)
        assert found.warnings == ()
    given = run(pl.DataFrame({"v": [True, False] * 100_000}), **asked, delta=1e-6)
    assert given.guarantee.delta == 1e-6


def test_the_estimates_are_a_data_frame(monkeypatch):
    frame = pl.DataFrame({"v": ["a", "b", "b", "c"] * 100, "x": [0.0, 1.0, 1.0, 0.5] * 100})
    devices = {"v": RandomizedResponse(k=3, epsilon=2.0), "x": Coin(low=0, high=1, epsilon=2.0)}
    one = run(frame, "v", mechanism=devices["v"], compare_truth=True)
    table = one.to_polars()
    assert table.columns == ["value", "fraction", "count", "low", "high", "truth"]
    assert table["value"].to_list() == list(one.labels)
    assert table["fraction"].to_list() == one.estimate.frequencies.tolist()
    assert table["low"].to_list() == one.estimate.interval()[0].tolist()
    assert one.to_pandas().equals(table.to_pandas())
    both = run(frame, ["v", Number("x", 0, 1)], mechanism=devices).to_polars()
    assert both["column"].to_list() == ["v"] * 3 + ["x"]
    assert both["mean"].null_count() == 3
    asked = shoal.Text("answer", length=3, alphabet="enosy")
    texts = shoal.heavy_hitters(["yes"] * 4000 + ["no"] * 2000, asked, epsilon=4.0)
    assert texts.to_polars()["value"].to_list() == [item.label for item in texts.items]
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(shoal.MissingExtraError, match="pandas"):
        one.to_pandas()


@pytest.mark.parametrize("table", [{"word": ["a", "b"], "n": [1, 2]}, "words.csv"])
def test_texts_of_a_table_need_a_column(table):
    with pytest.raises(shoal.InvalidArgumentError, match="the name of a column of text"):
        shoal.heavy_hitters(table, epsilon=1)
