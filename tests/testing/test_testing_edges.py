"""Certain answers, nearly truthful devices, many people, small levels."""

from __future__ import annotations

import math
import warnings

import numpy as np
import pytest

import shoal
from shoal import randomness, testing
from shoal.mechanisms.dummies import UniformDummies
from shoal.mechanisms.partitioned import PartitionedResponse
from shoal.mechanisms.response import (
    HadamardResponse,
    ProjectiveGeometryResponse,
    RandomizedResponse,
)
from shoal.testing import Hypothesis, Simulations, Way, power, ranks, scores
from shoal.values import Counts

CERTAIN = [1.0, 0.0, 0.0, 0.0]


@pytest.mark.parametrize("reference", [[1, 0], [0, 0, 1]])
def test_one_certain_answer_is_best_tested_with_private_coins(reference):
    found = testing.design(Hypothesis(reference=reference, distance=0.2), n=200, epsilon=1.0)
    assert found.recommended.coin == "private"
    assert found.option("partitioned").power > 0.3


def test_people_needed_for_one_certain_answer():
    certain = Hypothesis(reference=[1, 0], distance=0.2)
    assert 5 < testing.required_n(certain, epsilon=8.0, delta=0.01, power=0.8) < 100


def test_public_coins_can_test_one_certain_answer():
    device = PartitionedResponse(k=16, epsilon=2.0, symbols=4)
    reference = np.eye(16)[3]
    tester = testing.Tester(device, Hypothesis(reference=reference, distance=0.1), n=300)
    simulated = tester.simulated_power(trials=4000, simulations=Simulations(seed=1))
    assert tester.power() == pytest.approx(simulated, abs=0.08)
    furthest = tester.power(1.0 - 1e-9)
    assert furthest > tester.power()


@pytest.mark.parametrize("name", ["grr", "hadamard", "projective"])
@pytest.mark.parametrize(
    ("reference", "n", "delta"), [([0, 1], 10, 0.01), (CERTAIN, 50, 0.3), ([0, 0, 1], 8, 1e-6)]
)
def test_nearly_truthful_devices_have_a_power(name, reference, n, delta):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        asked, way = Hypothesis(reference=reference, distance=0.2), Way(randomizer=name)
        found = testing.design(asked, n=n, epsilon=20.0, delta=delta, way=way).recommended
    # Whoever answers as ever shows nothing: not even the truth has more power.
    assert 0.3 < found.power <= 0.05 + 1 - 0.8**n + 1e-12


@pytest.mark.parametrize("epsilon", [1.0, 8.0, 20.0, 25.0])
@pytest.mark.parametrize("make", [RandomizedResponse, ProjectiveGeometryResponse, HadamardResponse])
@pytest.mark.parametrize("reference", [CERTAIN, [0.25] * 4, [0.7, 0.2, 0.1, 0.0]])
def test_moments_are_those_of_exact_arithmetic(make, epsilon, reference):
    """Σ r_m r_m' κ(m, m')² of centred scores, messages with nearly no chance included."""
    device = make(k=4, epsilon=epsilon)
    found = testing.Tester(device, Hypothesis(reference=reference, distance=0.2), n=100).scores
    law = found.mean.astype(np.longdouble)
    law /= law.sum()
    single = np.eye(found.outputs, dtype=np.int64)
    rows = [device.estimate(Counts(each, 1)).frequencies for each in single]
    phi = np.array(rows, dtype=np.longdouble)
    phi -= law @ phi
    kappa = (phi * found.weights) @ phi.T
    square, trace = float(law @ kappa**2 @ law), float(law @ np.diagonal(kappa))
    spread = found.spread
    assert spread.trace == pytest.approx(trace, rel=1e-3)
    # The transform of the Hadamard scores loses digits where an answer is all but certain.
    rel = 0.2 if make is HadamardResponse and epsilon > 20 else 1e-3
    assert spread.square == pytest.approx(square, rel=rel)
    assert 1 - 1e-9 <= spread.freedom < 4 * device.outputs


def test_dummies_have_the_same_moments_by_a_matrix():
    reference = np.array([0.999, 0.001, 0.0])
    device = UniformDummies(k=3, dummies=1.25)
    found = testing.Tester(device, Hypothesis(reference=reference, distance=0.2), n=100).scores
    alike = (1 + 0.25**2) / 9
    cover = np.diag(reference + 1.25 / 3) - np.outer(reference, reference) - alike
    product = found.weights[:, None] * cover
    assert found.spread.trace == pytest.approx(np.trace(product), rel=1e-12)
    assert found.spread.square == pytest.approx((product * product.T).sum(), rel=1e-12)


def test_sums_over_different_pairs():
    values = np.array([0.5, 2.0, 0.25, 0.0])
    pairs = sum(a * b for i, a in enumerate(values) for j, b in enumerate(values) if i != j)
    assert scores.apart(values) == pytest.approx(pairs, rel=1e-15)
    assert scores.others(np.array([1.0, 1e-20])).tolist() == [1e-20, 1.0]


def test_no_test_has_more_power_than_the_distance_allows():
    assert power.largest(1, distance=0.2, level=0.05) == pytest.approx(0.25)
    assert power.largest(10**6, distance=0.2, level=0.05) == 1.0


# ---------------------------------------------------------------------------------- simulations


@pytest.mark.parametrize("level", [0.5, 0.2, 0.1, 0.07, 0.05, 0.03, 0.01, 0.003, 1e-4, 1e-6, 1e-7])
def test_there_are_enough_simulations_for_the_level(level):
    number = Simulations().of(level)
    rejecting = ranks.allowed(level, number)
    assert rejecting == pytest.approx(level * (number + 1), rel=1e-9), "a whole number"
    assert number + 1 >= 2000
    assert rejecting >= min(100, level * ranks.MOST_SIMULATIONS) * (1 - 1e-9)
    assert number < 2.1 * max(2000, 100 / level)


@pytest.mark.parametrize("level", [1 / 3, 0.0123456789, math.pi / 100])
def test_a_level_of_many_digits_loses_a_percent_at_most(level):
    number = Simulations().of(level)
    assert 0.99 * level <= ranks.allowed(level, number) / (number + 1) <= level


def test_a_small_level_has_more_simulations_by_itself():
    device = RandomizedResponse(k=4, epsilon=2.0)
    made = testing.Tester(device, Hypothesis(k=4, distance=0.2, level=0.01), n=100)
    even = device.tally(np.arange(100) % 4)
    assert made.decide(even, Simulations(seed=1)).simulations == 9999
    assert made.compare(even, even, Simulations(seed=1)).simulations == 9999
    assert made.null(Simulations(seed=1)).size == 9999
    asked = {"epsilon": 1.0, "way": Way("private"), "randomness": randomness.simulated(1)}
    tested = Hypothesis(k=4, distance=0.3, level=0.02)
    assert testing.decide(tested, np.arange(300) % 4, **asked).simulations == 4999


def test_simulations_have_a_most_and_a_fewest():
    with pytest.raises(shoal.InvalidArgumentError, match="at most 10,000,000 simulations"):
        Simulations(10**11)
    with pytest.raises(shoal.InvalidArgumentError, match="seed"):
        Simulations(seed=-1)
    with pytest.raises(shoal.InvalidArgumentError, match="level >= 1e-07"):
        Simulations().of(1e-9)
    for level in (0.003, 0.07, 0.3, 1 / 3, 1e-4):
        with pytest.raises(shoal.InvalidArgumentError, match="at least") as refused:
            Simulations(1).of(level)
        least = int(str(refused.value).split()[3])
        assert Simulations(least).of(level) == least
        with pytest.raises(shoal.InvalidArgumentError, match="at least"):
            Simulations(least - 1).of(level)


def test_too_many_people_to_split_are_refused():
    device = RandomizedResponse(k=2, epsilon=2.0)
    made = testing.Tester(device, Hypothesis(k=2, distance=0.2), n=100)
    half = Counts(np.array([250_000_000, 250_000_000]), 500_000_000)
    with pytest.raises(shoal.InvalidArgumentError, match=r"fewer than 10\^9 people"):
        made.compare(half, half, Simulations(19))
    less = Counts(np.array([249_000_000, 250_000_000]), 499_000_000)
    assert made.compare(half, less, Simulations(19, seed=1)).sizes == (500_000_000, 499_000_000)


# ------------------------------------------------------------------------------------- the layout


def designed_with(**wrong):
    """A design whose way or crowd has these fields."""
    kinds = {"way": Way, "crowd": shoal.Crowd}
    terms = {name: kinds[name](**fields) for name, fields in wrong.items()}
    return testing.design(Hypothesis(k=64, distance=0.1), n=4000, epsilon=1.0, **terms)


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        ({"way": {"partitions": 0}}, "1 <= partitions"),
        ({"way": {"symbols": 1}}, "2 <= symbols"),
        ({"way": {"symbols": 100}}, "symbols <= k = 64"),
        ({"crowd": {"honest_fraction": 1e-4}}, "at least one honest person"),
    ],
)
def test_what_no_way_can_mend_is_refused_as_such(wrong, says):
    with pytest.raises(shoal.InvalidArgumentError, match=says):
        designed_with(**wrong)
