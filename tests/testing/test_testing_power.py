"""Powers of uniformity tests, measured against the hardest distributions: Paninski's.

Measured at n = sample_size(...), 4000 trials: one message with private coins (grr) has power
0.971, 0.988, 0.994 (k = 64, 256, 1024) at ε = 0.25 and 0.990, 0.994, 0.996 at ε = 1.

At half of that, k = 1024 and ε = 0.25 (n = 30,113), averages over three public coins:

    private coins   grr 0.36, dummies 0.44 (17.3 messages each)
    one message     1 partition of 64 bins 0.71, 4 of 128 bins 0.40
    dummies         1 partition of 64 bins 0.84 (2.0 messages), 4 of 16 bins 0.79 (8.1 messages)

The partitions of a one-message device share the people: four of them cost about √4 in signal to
noise, which is why one partition is the default.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import replace
from functools import partial

import numpy as np
import pytest

from shoal import testing
from shoal.accounting.amplification import local_epsilon
from shoal.mechanisms.dummies import PartitionedDummies, UniformDummies
from shoal.mechanisms.partitioned import PartitionedResponse
from shoal.mechanisms.response import RandomizedResponse
from shoal.questions.terms import Limits
from shoal.testing import Hypothesis, Simulations, Way, rates
from shoal.testing.designing import Shape, Target

ALPHA, DELTA = 0.1, 1e-6
GRID = list(itertools.product((64, 256, 1024), (0.25, 1.0)))
FEW = [(64, 0.25), (64, 1.0), (256, 1.0)]
HALF = 30_113
ANY = Limits(messages=math.inf)


def size(k, epsilon):
    return rates.sample_size(k=k, distance=ALPHA, epsilon=epsilon, delta=DELTA)


def measured(found, trials, *, simulations=9999):
    return found.simulated_power(trials=trials, simulations=Simulations(simulations, seed=3))


def gauged(device):
    """The power with half of the people stated: 1000 trials, an error of about 3 points."""
    return measured(half_tester(device), 1000, simulations=1999)


def both_choices(k, epsilon):
    """The recommended test with private coins and one message, and the planner's own choice."""
    hypothesis, asked = Hypothesis(k=k, distance=ALPHA), {"n": size(k, epsilon), "epsilon": epsilon}
    yield testing.design(hypothesis, **asked, way=Way("private", coins=5)).tester()
    yield testing.design(hypothesis, **asked, way=Way(coins=5)).tester()
    yield testing.design(hypothesis, **asked, way=Way(coins=5), limits=ANY).tester()


@pytest.mark.parametrize(("k", "epsilon"), FEW)
def test_the_stated_number_of_people_is_enough(k, epsilon):
    for found in both_choices(k, epsilon):
        assert found.guarantee.epsilon <= epsilon * (1 + 1e-6)
        assert measured(found, 2000, simulations=4999) >= 0.95


@pytest.mark.slow
@pytest.mark.parametrize(("k", "epsilon"), GRID)
def test_the_stated_number_of_people_is_enough_everywhere(k, epsilon):
    for found in both_choices(k, epsilon):
        assert measured(found, 4000) >= 0.95
        assert found.power() == pytest.approx(measured(found, 4000), abs=0.03)


def half_tester(device):
    return testing.Tester(device, Hypothesis(k=1024, distance=ALPHA), n=HALF, delta=DELTA)


def calibrated(make):
    return make(epsilon=local_epsilon(make, epsilon=0.25, delta=DELTA, n=HALF))


@pytest.fixture(scope="module")
def private():
    target = {"k": 1024, "n": HALF, "epsilon": 0.25, "delta": DELTA}
    devices = {
        "grr": calibrated(partial(RandomizedResponse, k=1024)),
        "dummies": UniformDummies.calibrated(**target),
    }
    return {name: gauged(device) for name, device in devices.items()}


@pytest.mark.slow
def test_several_messages_with_four_public_partitions_beat_private_coins(private):
    """Measured: 0.79 against 0.36 and 0.44; the standard deviation of a gain is below 0.04."""
    device = PartitionedDummies.calibrated(
        k=1024, n=HALF, epsilon=0.25, delta=DELTA, symbols=16, partitions=4
    )
    assert device.profile(HALF).delta(0.25) <= DELTA
    found = gauged(device)
    assert found >= private["grr"] + 0.1
    assert found >= private["dummies"] + 0.1


def test_one_message_with_one_public_partition_beats_private_coins(private):
    """Measured: 0.70 against 0.36."""
    device = calibrated(partial(PartitionedResponse, k=1024, symbols=64))
    assert gauged(device) >= private["grr"] + 0.1


def test_four_partitions_of_one_message_cost_what_the_forecast_says(private):
    """Measured: 0.40, little more than without any coin."""
    device = calibrated(partial(PartitionedResponse, k=1024, symbols=128, partitions=4))
    found = gauged(device)
    forecast = Shape(1024, 128, 4).one_message(device.truth, target(1024, ALPHA, HALF - 1))
    assert found == pytest.approx(forecast, abs=0.15)
    assert found <= private["grr"] + 0.25


def target(k, distance, people):
    return Target(np.full(k, 1 / k), distance, people=people, level=0.05)


@pytest.mark.parametrize("k", [2, 6, 30])
@pytest.mark.parametrize("name", ["grr", "hadamard", "dummies"])
def test_predictions_are_right_for_few_answers_too(k, name):
    """Within 6 points at a power of about a half; 4000 trials have deviation 0.8 points."""
    hypothesis, asked = Hypothesis(k=k, distance=0.1), {"epsilon": 0.5, "way": Way(randomizer=name)}
    n = testing.required_n(hypothesis, **asked, power=0.5)
    found = testing.design(hypothesis, n=n, **asked).tester()
    assert found.power() == pytest.approx(0.5, abs=0.02)
    assert measured(found, 4000) == pytest.approx(found.power(), abs=0.06)


@pytest.mark.parametrize(("symbols", "partitions"), [(8, 1), (16, 4), (2, 8)])
def test_forecasts_agree_with_the_coins_drawn(symbols, partitions):
    """The forecast knows no coins; on average over them it is the prediction."""
    k, n = 256, 4000
    shape = Shape(k, symbols, partitions)
    asked = target(k, 0.15, n - 1)
    for several in (False, True):
        powers = []
        for coins in range(6):
            layout = {"k": k, "symbols": symbols, "partitions": partitions, "coins": coins}
            device = (
                PartitionedDummies(**layout, dummies=3.0)
                if several
                else PartitionedResponse(**layout, epsilon=3.0)
            )
            found = testing.Tester(device, Hypothesis(k=k, distance=0.15), n=n)
            powers.append(found.power())
        forecast = (
            shape.several_messages(3.0, asked)
            if several
            else shape.one_message(device.truth, asked)
        )
        assert np.mean(powers) == pytest.approx(forecast, abs=0.04)


def test_identity_with_a_skewed_reference_is_as_powerful_as_predicted():
    reference = 1 / np.arange(1, 201)
    reference /= reference.sum()
    hypothesis = Hypothesis(reference=reference, distance=0.1)
    asked = {"epsilon": 0.5, "way": Way("private")}
    n = testing.required_n(hypothesis, **asked, power=0.7)
    found = testing.design(hypothesis, n=n, **asked).tester()
    assert measured(found, 3000) == pytest.approx(0.7, abs=0.06)


def test_weights_help_where_the_reference_is_skewed():
    """Hardly any noise: the weights decide how rare answers count."""
    reference = np.concatenate([np.full(4, 0.2), np.full(200, 0.001)])
    device = RandomizedResponse(k=204, epsilon=9.0)
    hypothesis = Hypothesis(reference=reference, distance=0.05)
    found = testing.Tester(device, hypothesis, n=4000)
    flat = testing.Tester(device, hypothesis, n=4000)
    flat.scores.__dict__["weights"] = np.ones(204)
    assert measured(found, 800) > measured(flat, 800) + 0.1


def test_closeness_is_as_powerful_as_predicted():
    one, asked = Hypothesis(k=40, distance=0.15), {"epsilon": 1.0, "way": Way("private")}
    two = replace(one, closeness=True)
    n = testing.required_n(two, **asked, power=0.6)
    alone = testing.required_n(one, **asked, power=0.6)
    assert 1.1 * alone < n < 2.5 * alone
    found = testing.design(two, n=n, **asked).tester()
    assert measured(found, 4000) == pytest.approx(0.6, abs=0.06)
