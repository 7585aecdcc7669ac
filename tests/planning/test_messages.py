"""Plans and runs in which people may send several messages."""

from __future__ import annotations

import math

import numpy as np
import polars as pl
import pytest

import shoal
from shoal import randomness
from shoal.planning import Plan, planner


def planned(k, n, *, messages=None, local_epsilon=None, delta=None, **crowd):
    """A plan for one of k answers of so many people, who may send so many messages."""
    limits = shoal.Limits(messages=messages, local_epsilon=local_epsilon)
    terms = {"crowd": shoal.Crowd(**crowd), "limits": limits}
    return shoal.plan(shoal.Choice("color", k), n=n, epsilon=1, delta=delta, **terms)


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
    found = planned(k, n, delta=1e-6, messages=cap)
    assert found.recommended.name == name
    assert found.recommended.errors.l2 <= largest
    assert found.recommended.messages <= cap
    assert found.guarantee.epsilon <= 1 + 1e-9
    assert math.isinf(found.guarantee.local_epsilon)


def test_one_message_is_told_of_a_curators_chart():
    found = planned(100, 10**6, delta=1e-6)
    assert math.isfinite(found.recommended.local_epsilon)
    note = found.document().notes[-1]
    assert note.startswith("with 1.1 messages and no local ε₀: 29.4 ")
    assert "--messages-cap = 2 allows" in note
    yes_or_no = planned(2, 10**5, delta=1e-6)
    assert "and no local ε₀: 2.15 (the L2 error of near-central" in str(yes_or_no.document())
    for other in (
        {"local_epsilon": 3},  # which nothing without a local epsilon keeps
        {"messages": 2},  # where it is an option
        {"honest_fraction": 0.99},  # of whom a few could add anything
        {"n": 100},  # who would send a thousand messages each
    ):
        found = planned(**{"k": 100, "n": 10**6, "delta": 1e-6} | other)
        assert planner.nearer(found.only.ranking) is None


def test_dishonest_people_count():
    asked = {"k": 50, "n": 10**5, "delta": 1e-6, "messages": 3}
    honest = planned(**asked)
    assert honest.recommended.name == "near-central-lean"
    names = [option.name for option in honest.options if option.errors]
    few = planned(**asked, honest_fraction=1 - 1e-5)  # one person
    dishonest = few.only.ranking.setting.dishonest
    assert dishonest == 1
    assert few.recommended.name == "dummies"
    losses = [
        option.errors.l2 + option.influence * dishonest for option in few.options if option.errors
    ]
    assert losses[1:] == sorted(losses[1:])
    assert losses[0] <= 1.02 * losses[1]
    assert sorted(names) == sorted(option.name for option in few.options if option.errors)
    assert "what 1 dishonest person can add" in few.reason
    many = planned(**asked, honest_fraction=0.9)
    assert "10,000 dishonest people can add" in many.reason
    assert f"10,000 of them {1e4 * many.recommended.influence:,.0f}" in str(many.document())


def test_options_say_what_is_sent_and_opened_and_added():
    found = planned(100, 10**6, delta=1e-6, messages=2)
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
    found = planned(10, 10**5)
    assert {option.messages for option in found.options if option.randomizer} == {1.0}


def test_options_over_the_cap_say_how_many_messages_they_need():
    found = planned(1000, 10**4, messages=1.5)
    (dummies,) = [option for option in found.options if option.name == "dummies"]
    assert dummies.randomizer is None
    assert "messages per person" in dummies.remark
    with pytest.raises(shoal.UnreachableTargetError, match=r"over the cap of 1\.5"):
        found.choose("dummies")


@pytest.mark.parametrize("cap", [0, 0.5, -1, -math.inf, math.nan])
def test_a_cap_below_one_message_is_refused(cap):
    with pytest.raises(shoal.InvalidArgumentError, match="messages >= 1"):
        shoal.Limits(messages=cap)


def test_a_cap_on_local_epsilon_leaves_no_room_for_the_truth():
    found = planned(5, 10**4, messages=3, local_epsilon=4)
    for option in found.options:
        assert option.randomizer is None or option.randomizer.local_epsilon <= 4 + 1e-9


def test_a_yes_or_no_question_gets_nearly_the_error_of_a_curator():
    found = planned(2, 10**5, messages=3)
    assert found.recommended.name == "near-central"
    assert found.central.l2 < found.recommended.errors.l2 < 1.2 * found.central.l2


@pytest.mark.slow
def test_a_sum_of_numbers_has_an_error_that_does_not_grow():
    asked, several = shoal.Number("share", 0, 1), shoal.Limits(messages=20)
    one = shoal.plan(asked, n=10**4, epsilon=1, limits=several)
    assert one.recommended.name == "split-and-mix"
    many = shoal.plan(asked, n=10**6, epsilon=1, limits=several)
    assert many.recommended.errors.l2 <= 1.1 * one.recommended.errors.l2 <= 2.0


def test_absent_and_dishonest_people_cost_dummies():
    def messages(**crowd):
        found = planned(50, 10**4, messages=9, **crowd)
        assert found.guarantee.epsilon <= 1 + 1e-6
        (dummies,) = [option for option in found.options if option.name == "dummies"]
        return dummies.messages - 1

    everybody = messages()
    assert messages(honest_fraction=0.5) == pytest.approx(2 * everybody, rel=0.02)
    assert messages(participation=0.5) == pytest.approx(2 * everybody, rel=0.2)


def test_a_plan_with_messages_is_saved_and_believed_in_nothing(tmp_path):
    found = planned(50, 10**4, messages=4).choose("dummies")
    path = tmp_path / "plan.json"
    found.save(path)
    loaded = Plan.load(path)
    assert loaded.to_dict() == found.to_dict()
    assert loaded.randomizer == found.randomizer
    stored = found.to_dict()
    stored["questions"][0]["reports"][0]["options"][0]["randomizer"]["dummies"] /= 2
    with pytest.raises(shoal.InvalidArgumentError, match="keeps its epsilon"):
        Plan.from_dict(stored)
    stored = found.to_dict()
    stored["limits"]["messages"] = 1.01
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
        shoal.Choice("color", [f"c{value}" for value in range(8)], choose=choose),
        epsilon=1,
        limits=shoal.Limits(messages=math.inf if choose else 2),
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
        shoal.Number("age", 0, 100),
        epsilon=1,
        limits=shoal.Limits(messages=20),
        compare_truth=True,
        randomness=randomness.simulated(6),
    )
    assert result.randomizer.name == "split-and-mix"
    assert abs(result.estimate.mean - float(result.truth[0])) <= 7 * result.estimate.standard_error
    assert result.estimate.standard_error * result.n < 300  # of bounds 100 apart


def test_wishes_are_for_plans_made_on_the_way(people):
    device = shoal.RandomizedResponse(k=10, epsilon=2)
    with pytest.raises(shoal.InvalidArgumentError, match="no messages with a mechanism"):
        shoal.run(people, "color", mechanism=device, limits=shoal.Limits(messages=2))
    with pytest.raises(shoal.InvalidArgumentError, match="no choose of color with a mechanism"):
        shoal.run(people, shoal.Choice("color", choose="dummies"), mechanism=device)


def test_columns_compose(people):
    asked = [shoal.Choice(name, choose="dummies") for name in ("color", "again")]
    terms = {"epsilon": 0.5, "limits": shoal.Limits(messages=3)}
    one = shoal.run(people, asked[0], **terms)
    two = shoal.run(people.with_columns(again="color"), asked, **terms)
    assert 0.99 * 0.5 <= two.guarantee.epsilon <= 0.5
    assert all(each.randomizer.name == "dummies" for each in two.columns)
    assert one.randomizer.messages < two["again"].randomizer.messages


def test_a_run_too_small_says_how_many_people_it_takes(people):
    with pytest.raises(shoal.UnreachableTargetError, match=r"n >= \d+"):
        shoal.run(people.head(40), shoal.Choice("color", choose="sparse"), epsilon=0.5)


def test_a_part_of_delta_too_small_for_one_column_is_no_refusal():
    people = randomness.simulated(3).below(3, 1584).astype(int)
    frame = pl.DataFrame({"x": people / 2, "a": [f"a{value}" for value in people]})
    total = shoal.SplitAndMixSum.calibrated(low=0, high=1, n=1584, epsilon=1, delta=1e-6)
    chart = shoal.UniformDummies.calibrated(k=3, n=1584, epsilon=1, delta=1e-9)
    result = shoal.run(
        frame,
        [shoal.Number("x", 0, 1), "a"],
        mechanism={"x": total, "a": chart},
        delta=1e-6,
    )
    assert 1 < result.guarantee.epsilon < 2
    composed = shoal.profile(total, n=1584) + shoal.profile(chart, n=1584)
    assert composed.answer(1e-6, method="best")[0] <= composed.answer(1e-6)[0] * (1 + 1e-9)


def test_a_plan_for_more_people_than_there_are_names_the_plan_to_make(people):
    asked, several = shoal.Number("age", 0, 100), shoal.Limits(messages=20)
    plan = shoal.plan(asked, n=31_000, epsilon=1, limits=several)
    with pytest.raises(shoal.UnreachableTargetError, match="make a plan for 30,000 people"):
        shoal.run(people, plan=plan)


def test_an_option_that_is_not_what_it_is_called_is_refused():
    stored = planned(50, 10**4, messages=4).to_dict()
    stored["questions"][0]["reports"][0]["options"][0]["name"] = "grr"
    with pytest.raises(shoal.InvalidArgumentError, match="grr for what the plan asks"):
        Plan.from_dict(stored)
    stored = planned(50, 10**4, messages=4).to_dict()
    stored["questions"][0]["question"]["labels"] = 49
    with pytest.raises(shoal.InvalidArgumentError, match="for what the plan asks"):
        Plan.from_dict(stored)


def test_coins_that_hardly_lie_have_their_own_epsilon():
    coins = shoal.FairCoins(coins=2.0**-50)
    found = shoal.amplify(coins, n=3, delta=1e-6)
    assert found.epsilon == pytest.approx(coins.local_epsilon, rel=1e-6)
