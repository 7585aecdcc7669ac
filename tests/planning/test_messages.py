"""Plans and runs in which people may send several messages."""

from __future__ import annotations

import math

import numpy as np
import polars as pl
import pytest

import shoal
from shoal import randomness
from shoal.planning import Plan


@pytest.mark.parametrize(("n", "k", "largest"), [(10**6, 100, 66), (10**5, 1000, 212)])
def test_dummies_are_picked_when_messages_are_allowed(n, k, largest):
    found = shoal.plan(epsilon=1, delta=1e-6, n=n, categories=k, messages_cap=2)
    assert found.recommended.name == "dummies"
    assert found.recommended.errors.l2 <= largest
    assert found.recommended.messages <= 2
    assert found.guarantee.epsilon <= 1 + 1e-9
    assert math.isinf(found.guarantee.local_epsilon)


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
    found = shoal.plan(epsilon=1, n=10**4, categories=50, messages_cap=4)
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


@pytest.mark.parametrize("choose", [None, "dummies", "sparse", "zero-sum"])
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
    assert result.randomizer.name == (choose or "dummies")
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
        split="compose",
    )
    assert one.guarantee.epsilon < two.guarantee.epsilon < 2 * one.guarantee.epsilon


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
