"""Plans for vectors and sums in which several messages are allowed: the best one is taken."""

from __future__ import annotations

import json
import math

import numpy as np
import polars as pl
import pytest

import shoal
from shoal import randomness
from shoal.mechanisms.base import Wanted
from shoal.mechanisms.counts import NearCentralSum
from shoal.mechanisms.vectors import shortened
from shoal.planning import Plan
from shoal.questions.domains import Ball, Interval

TARGET = {"epsilon": 1.0, "delta": 1e-6}


def planned(dimension, n, norm=None, *, messages=None, **crowd):
    """A plan for vectors of so many people, who may send so many messages."""
    terms = {"crowd": shoal.Crowd(**crowd), "limits": shoal.Limits(messages=messages)}
    return shoal.plan(shoal.Vector("v", dimension, norm), **TARGET, n=n, **terms)


def smallest(plan):
    """The option with the smallest predicted error, 2 % aside."""
    possible = [option.errors.l2 for option in plan.options if option.errors is not None]
    return plan.recommended.errors.l2 <= 1.02 * min(possible)


def test_many_people_and_few_coordinates_split():
    plan = planned(16, 10**5, 5.0, messages=200)
    assert plan.recommended.name == "split-and-mix-vectors"
    assert plan.recommended.messages <= 200
    assert smallest(plan)
    split, direction = plan.recommended.errors.l2, plan.choose("privunit").recommended.errors.l2
    assert direction > 5 * split
    # Laplace noise of 2 sqrt(16) 5 over epsilon in each of 16 coordinates, and a little rounding.
    assert split == pytest.approx(math.sqrt(2 * 16) * 2 * 4 * 5.0, rel=0.05)


def test_few_people_and_many_coordinates_do_not():
    plan = planned(100, 1000, 1.0, messages=math.inf)
    assert plan.recommended.name == "privunit"
    assert smallest(plan)
    other = plan.choose("split-and-mix-vectors").recommended
    assert other.errors.l2 > 1.1 * plan.recommended.errors.l2


def test_the_cap_is_kept_and_said():
    plan = planned(16, 10**5, 5.0, messages=100)
    assert plan.recommended.name == "privunit"
    (split,) = [option for option in plan.options if option.name == "split-and-mix-vectors"]
    assert split.randomizer is None
    assert "over the cap of 100" in split.remark
    assert "split-and-mix-vectors" not in {
        option.name for option in planned(16, 10**5, 5.0).options
    }


def test_a_norm_scales_every_error():
    one, five = (planned(3, 5000, norm, messages=50) for norm in (1.0, 5.0))
    for name in ("privunit", "privunitg", "split-and-mix-vectors"):
        small, large = (plan.choose(name).recommended.errors.l2 for plan in (one, five))
        assert large == pytest.approx(5 * small, rel=1e-6)


def test_vectors_of_length_one_need_no_further_coordinate():
    plan = planned(3, 5000, messages=50)
    assert plan.choose("privunit").randomizer.dimension == 3
    assert plan.choose("split-and-mix-vectors").randomizer.bound == pytest.approx(math.sqrt(3))
    lifted = planned(3, 5000, 1.0, messages=50)
    assert lifted.choose("privunit").randomizer.inner.dimension == 4
    assert lifted.choose("split-and-mix-vectors").randomizer.dimension == 3


@pytest.mark.parametrize("name", ["privunit", "split-and-mix-vectors"])
def test_a_plan_is_what_devices_and_analyzer_need(name, tmp_path):
    n, norm = 3000, 2.0
    plan = planned(3, n, norm, messages=50).choose(name)
    plan.save(tmp_path / "plan.json")
    plan = Plan.load(tmp_path / "plan.json")
    domain = plan.only.settled.domain
    assert domain == Ball(dimension=3, norm=norm)
    rows = np.random.default_rng(2).normal([0.5, -0.5, 0.0], 0.5, (n, 3))
    short = shortened(rows, domain)
    source = randomness.simulated(4)
    batch = shoal.shuffle(plan.randomizer.randomize(short, randomness=source), randomness=source)
    found = plan.randomizer.estimate(batch)
    truth = short.mean(axis=0)
    assert found.mean.shape == (3,)
    assert (np.abs(found.mean - truth) < 7 * found.standard_errors).all()
    assert n * np.linalg.norm(found.mean - truth) < 4 * plan.recommended.errors.l2
    assert plan.guarantee.epsilon == shoal.amplify(plan.randomizer, n=n, delta=1e-6).epsilon


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"norm": 3.0}, "for what the plan asks"),
        ({"coordinates": 4}, "for what the plan asks"),
        ({"norm": None}, "for what the plan asks"),
        ({"norm": -1.0}, "norm > 0"),
    ],
)
def test_nothing_about_vectors_in_a_file_is_believed(change, says):
    plan = planned(3, 3000, 2.0, messages=50)
    stored = json.loads(json.dumps(plan.to_dict()))
    stored["questions"][0]["question"].update(change)
    with pytest.raises(shoal.InvalidArgumentError, match=says):
        Plan.from_dict(stored)


@pytest.mark.parametrize("norm", [0, -2.0, math.inf, math.nan])
def test_a_norm_is_a_length(norm):
    with pytest.raises(shoal.InvalidArgumentError, match="norm > 0"):
        shoal.Vector("v", 3, norm)
    with pytest.raises(shoal.InvalidArgumentError, match="norm > 0"):
        shoal.Vector("v", ["x", "y"], norm)


def test_people_who_stay_away_cost_accuracy_of_vectors_too():
    all_of_them, half = (planned(3, 20_000, 2.0, participation=part) for part in (1.0, 0.5))
    sampling = 2.0 * math.sqrt(20_000)  # of vectors 2 long, every other one missing
    assert half.recommended.errors.l2 > max(sampling, all_of_them.recommended.errors.l2)


def test_the_text_of_a_plan_is_a_table():
    plan = planned(3, 5000, 1.0, messages=50)
    title, head, *lines = str(plan).splitlines()
    assert title.startswith("Run split-and-mix-vectors with ")
    assert head.startswith("randomizer")
    assert lines[0].startswith("split-and-mix-vectors  ")
    assert plan.document().to_html().count("split-and-mix-vectors") >= 2
    assert plan.to_dict()["warnings"] == list(plan.warnings)


# ------------------------------------------------------------------ sums of numbers, for comparison


@pytest.fixture(scope="module")
def sums():
    """Plans for the same thousand people, who may send more and more."""
    asked, caps = shoal.Number("v", 0.0, 1.0), (1, 6, 20)
    return {
        cap: shoal.plan(asked, **TARGET, n=1000, limits=shoal.Limits(messages=cap)) for cap in caps
    }


def test_sums_take_the_best_that_the_cap_allows(sums):
    names = {cap: plan.recommended.name for cap, plan in sums.items()}
    assert names == {1: "rounded", 6: "near-central-sum", 20: "split-and-mix"}
    for cap, plan in sums.items():
        assert smallest(plan)
        assert plan.recommended.messages <= cap
    assert (
        sums[1].recommended.errors.l2
        > 1.3 * sums[6].recommended.errors.l2
        > 1.3 * sums[20].recommended.errors.l2
    )


def test_a_near_central_sum_in_a_plan_keeps_its_promises(sums, tmp_path):
    plan, n = sums[6], 1000
    plan.save(tmp_path / "plan.json")
    assert Plan.load(tmp_path / "plan.json").randomizer == plan.randomizer
    values = np.random.default_rng(3).uniform(0, 1, n)
    source = randomness.simulated(1)
    sums_off = []
    for _ in range(60):
        sent = plan.randomizer.randomize(values, randomness=source)
        sums_off.append(plan.randomizer.estimate(plan.randomizer.tally(sent)).sum - values.sum())
    predicted = plan.recommended.errors.l2
    assert abs(np.mean(sums_off)) < 5.5 * predicted / math.sqrt(60)
    assert np.std(sums_off) < predicted * (1 + 5.5 / math.sqrt(120))


@pytest.mark.parametrize("cap", [1, 6, 20])
def test_a_run_takes_what_the_plan_recommends(sums, cap):
    values = np.random.default_rng(4).uniform(0, 1, 1000)
    found = shoal.run(
        pl.DataFrame({"v": values}),
        shoal.Number("v", 0.0, 1.0),
        epsilon=1.0,
        limits=shoal.Limits(messages=cap),
        randomness=randomness.simulated(cap),
    )
    assert found.randomizer == sums[cap].randomizer
    assert found.guarantee.epsilon == shoal.amplify(found.randomizer, n=1000).epsilon <= 1 + 1e-9
    assert abs(found.estimate.mean - values.mean()) < 7 * found.estimate.standard_error
    assert 1000 * found.estimate.standard_error < 1.05 * sums[cap].recommended.errors.l2


def test_far_too_many_slots_are_out_of_the_question():
    wanted = Wanted(domain=Interval(0.0, 1.0), n=1000, epsilon=0.01, messages=math.inf)
    (central,) = NearCentralSum.candidates(wanted)
    assert central.calibrated is None
    assert "slots" in central.remark
