"""Plans and runs in which people may send several messages."""

from __future__ import annotations

import math

import numpy as np
import polars as pl
import pytest

import shoal
from shoal import randomness
from shoal.planning import Plan


@pytest.mark.parametrize(
    ("n", "k", "cap", "name", "largest"),
    [
        (10**6, 100, 1.15, "near-central-lean", 29.6),
        (10**6, 100, 1.005, "dummies", 66),
        (10**5, 1000, 5.6, "near-central-lean", 1.15 * 88.5),
        (10**5, 1000, 2, "dummies", 212),
    ],
)
def test_the_best_is_picked_when_messages_are_allowed(n, k, cap, name, largest):
    found = shoal.plan(epsilon=1, delta=1e-6, n=n, categories=k, messages_cap=cap)
    assert found.recommended.name == name
    assert found.recommended.errors.l2 <= largest
    assert found.recommended.messages <= cap
    assert found.guarantee.epsilon <= 1 + 1e-9
    assert math.isinf(found.guarantee.local_epsilon)


def test_one_message_is_told_of_a_curators_chart():
    found = shoal.plan(epsilon=1, delta=1e-6, n=10**6, categories=100)
    assert math.isfinite(found.recommended.local_epsilon)
    note = found.document().notes[-1]
    assert note.startswith("with 1.1 messages and no local ε₀: 29.4 ")
    assert "--messages-cap = 2 allows" in note
    yes_or_no = shoal.plan(epsilon=1, delta=1e-6, n=10**5, categories=2)
    assert "and no local ε₀: 2.15 (the L2 error of near-central" in str(yes_or_no.document())
    for other in (
        {"local_epsilon_cap": 3},  # which nothing without a local epsilon keeps
        {"messages_cap": 2},  # where it is an option
        {"honest_fraction": 0.99},  # of whom a few could add anything
        {"n": 100},  # who would send a thousand messages each
    ):
        question = {"epsilon": 1, "delta": 1e-6, "n": 10**6, "categories": 100} | other
        assert shoal.plan(**question).nearer is None


def test_dishonest_people_count():
    question = {"epsilon": 1, "delta": 1e-6, "n": 10**5, "categories": 50, "messages_cap": 3}
    honest = shoal.plan(**question)
    assert honest.recommended.name == "near-central-lean"
    names = [option.name for option in honest.options if option.errors]
    few = shoal.plan(**question, honest_fraction=1 - 1e-5)  # one person
    assert few.question.dishonest == 1
    assert few.recommended.name == "dummies"
    losses = [
        option.errors.l2 + option.influence * few.question.dishonest
        for option in few.options
        if option.errors
    ]
    assert losses[1:] == sorted(losses[1:])
    assert losses[0] <= 1.02 * losses[1]
    assert sorted(names) == sorted(option.name for option in few.options if option.errors)
    assert "what 1 dishonest person can add" in few.reason
    many = shoal.plan(**question, honest_fraction=0.9)
    assert "10,000 dishonest people can add" in many.reason
    assert f"10,000 of them {1e4 * many.recommended.influence:,.0f}" in str(many.document())


def test_options_say_what_is_sent_and_opened_and_added():
    found = shoal.plan(epsilon=1, delta=1e-6, n=10**6, categories=100, messages_cap=2)
    rows = {row["name"]: row for row in found.records()}
    robust = rows["near-central-robust"]
    assert [robust[name] for name in ("slots", "bytes", "openings", "influence")] == [67] * 4
    assert robust["local_epsilon"] is None
    grr = rows["grr"]
    assert (grr["slots"], grr["bytes"], grr["openings"]) == (1, 1, 1)
    assert 1 <= grr["influence"] < 1.02
    text = str(found.document())
    assert "ε0 is none if shuffler and analyzer collude" in text
    assert "One dishonest person can add at most 2,489" in text


def test_without_leave_everybody_sends_one_message():
    found = shoal.plan(epsilon=1, n=10**5, categories=10)
    assert {option.messages for option in found.options if option.randomizer} == {1.0}


def test_options_over_the_cap_say_how_many_messages_they_need():
    found = shoal.plan(epsilon=1, n=10**4, categories=1000, messages_cap=1.5)
    (dummies,) = [option for option in found.options if option.name == "dummies"]
    assert dummies.randomizer is None
    assert "messages per person" in dummies.remark
    with pytest.raises(shoal.UnreachableTargetError, match=r"over the cap of 1\.5"):
        found.choose("dummies")


@pytest.mark.parametrize("cap", [0, 0.5, -1, math.inf, math.nan])
def test_a_cap_below_one_message_is_refused(cap):
    with pytest.raises(shoal.InvalidArgumentError, match="messages_cap"):
        shoal.plan(epsilon=1, n=1000, categories=3, messages_cap=cap)


def test_a_cap_on_local_epsilon_leaves_no_room_for_the_truth():
    found = shoal.plan(epsilon=1, n=10**4, categories=5, messages_cap=3, local_epsilon_cap=4)
    for option in found.options:
        assert option.randomizer is None or option.randomizer.local_epsilon <= 4 + 1e-9


def test_a_yes_or_no_question_gets_nearly_the_error_of_a_curator():
    found = shoal.plan(epsilon=1, n=10**5, categories=2, messages_cap=3)
    assert found.recommended.name == "near-central"
    assert found.central.l2 < found.recommended.errors.l2 < 1.2 * found.central.l2


@pytest.mark.slow
def test_a_sum_of_numbers_has_an_error_that_does_not_grow():
    one = shoal.plan(epsilon=1, n=10**4, bounds=(0, 1), messages_cap=20)
    assert one.recommended.name == "split-and-mix"
    many = shoal.plan(epsilon=1, n=10**6, bounds=(0, 1), messages_cap=20)
    assert many.recommended.errors.l2 <= 1.1 * one.recommended.errors.l2 <= 2.0


def test_absent_and_dishonest_people_cost_dummies():
    def messages(**asked):
        found = shoal.plan(epsilon=1, n=10**4, categories=50, messages_cap=9, **asked)
        assert found.guarantee.epsilon <= 1 + 1e-6
        (dummies,) = [option for option in found.options if option.name == "dummies"]
        return dummies.messages - 1

    everybody = messages()
    assert messages(honest_fraction=0.5) == pytest.approx(2 * everybody, rel=0.02)
    assert messages(participation=0.5) == pytest.approx(2 * everybody, rel=0.2)


def test_a_plan_with_messages_is_saved_and_believed_in_nothing(tmp_path):
    found = shoal.plan(epsilon=1, n=10**4, categories=50, messages_cap=4).choose("dummies")
    path = tmp_path / "plan.json"
    found.save(path)
    loaded = Plan.load(path)
    assert loaded == found
    assert loaded.randomizer == found.randomizer
    stored = found.to_dict()
    stored["options"][0]["randomizer"]["dummies"] /= 2
    with pytest.raises(shoal.InvalidArgumentError, match="keeps its epsilon"):
        Plan.from_dict(stored)
    stored = found.to_dict()
    stored["question"]["messages_cap"] = 1.01
    with pytest.raises(shoal.InvalidArgumentError, match="messages per person"):
        Plan.from_dict(stored)


@pytest.fixture(scope="module")
def people():
    values = randomness.simulated(11).below(8, 30_000).astype(int)
    return pl.DataFrame({"color": [f"c{value}" for value in values], "age": values * 10.0})


@pytest.mark.parametrize("choose", [None, "near-central-robust", "dummies", "sparse", "zero-sum"])
def test_a_run_with_several_messages(people, choose):
    result = shoal.run(
        people,
        column="color",
        epsilon=1,
        messages_cap=None if choose else 2,
        choose=choose,
        categories=[f"c{value}" for value in range(8)],
        compare_truth=True,
        randomness=randomness.simulated(5),
    )
    assert result.randomizer.name == (choose or "near-central-lean")
    assert result.guarantee.epsilon <= 1 + 1e-6
    errors = np.abs(result.estimate.frequencies - result.truth) * result.n
    assert errors.max() <= 50
    assert "nothing: each report may give the datum away" in str(result.guarantee)


def test_a_mean_by_split_and_mix(people):
    result = shoal.run(
        people,
        column="age",
        epsilon=1,
        messages_cap=20,
        bounds=(0, 100),
        compare_truth=True,
        randomness=randomness.simulated(6),
    )
    assert result.randomizer.name == "split-and-mix"
    assert abs(result.estimate.mean - float(result.truth[0])) <= 7 * result.estimate.standard_error
    assert result.estimate.standard_error * result.n < 300  # of bounds 100 apart


def test_wishes_are_for_plans_made_on_the_way(people):
    device = shoal.RandomizedResponse(k=10, epsilon=2)
    with pytest.raises(shoal.InvalidArgumentError, match="messages_cap"):
        shoal.run(people, column="color", randomizer=device, messages_cap=2)
    with pytest.raises(shoal.InvalidArgumentError, match="choose"):
        shoal.run(people, column="color", randomizer=device, choose="dummies")


def test_columns_compose(people):
    one = shoal.run(people, column="color", epsilon=0.5, messages_cap=3, choose="dummies")
    two = shoal.run(
        people.with_columns(again="color"),
        column=["color", "again"],
        epsilon=0.5,
        messages_cap=3,
        choose="dummies",
    )
    assert 0.99 * 0.5 <= two.guarantee.epsilon <= 0.5
    assert all(each.randomizer.name == "dummies" for each in two.columns)
    assert one.randomizer.messages < two["again"].randomizer.messages


def test_a_run_too_small_says_how_many_people_it_takes(people):
    with pytest.raises(shoal.UnreachableTargetError, match=r"n >= \d+"):
        shoal.run(people.head(40), column="color", epsilon=0.5, choose="sparse")


def test_a_part_of_delta_too_small_for_one_column_is_no_refusal():
    people = randomness.simulated(3).below(3, 1584).astype(int)
    frame = pl.DataFrame({"x": people / 2, "a": [f"a{value}" for value in people]})
    total = shoal.SplitAndMixSum.calibrated(low=0, high=1, n=1584, epsilon=1, delta=1e-6)
    chart = shoal.UniformDummies.calibrated(k=3, n=1584, epsilon=1, delta=1e-9)
    result = shoal.run(
        frame,
        column=["x", "a"],
        bounds={"x": (0, 1)},
        randomizer={"x": total, "a": chart},
        delta=1e-6,
    )
    assert 1 < result.guarantee.epsilon < 2
    composed = shoal.profile(total, n=1584) + shoal.profile(chart, n=1584)
    assert composed.answer(1e-6, method="best")[0] <= composed.answer(1e-6)[0] * (1 + 1e-9)


def test_a_plan_for_more_people_than_there_are_names_the_plan_to_make(people):
    plan = shoal.plan(epsilon=1, n=31_000, bounds=(0, 100), messages_cap=20)
    with pytest.raises(shoal.UnreachableTargetError, match="make a plan for 30,000 people"):
        shoal.run(people, column="age", bounds=(0, 100), plan=plan)


def test_an_option_that_is_not_what_it_is_called_is_refused():
    stored = shoal.plan(epsilon=1, n=10**4, categories=50, messages_cap=4).to_dict()
    stored["options"][0]["name"] = "grr"
    with pytest.raises(shoal.InvalidArgumentError, match="grr for what the plan asks"):
        Plan.from_dict(stored)
    stored = shoal.plan(epsilon=1, n=10**4, categories=50, messages_cap=4).to_dict()
    stored["question"]["categories"] = 49
    with pytest.raises(shoal.InvalidArgumentError, match="for what the plan asks"):
        Plan.from_dict(stored)


def test_coins_that_hardly_lie_have_their_own_epsilon():
    coins = shoal.FairCoins(coins=2.0**-50)
    found = shoal.amplify(coins, n=3, delta=1e-6)
    assert found.epsilon == pytest.approx(coins.local_epsilon, rel=1e-6)
