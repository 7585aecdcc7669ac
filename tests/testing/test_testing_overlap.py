"""People in both batches: what is assumed of them, and what two reports cost."""

from __future__ import annotations

import numpy as np
import pytest

import shoal
from shoal import randomness, testing
from shoal.accounting.amplification import profile
from shoal.testing import Hypothesis, Simulations, Way, designing, setting
from shoal.testing.tester import APART, TWICE

# Few people and two answers: quick to compose.
K, DELTA = 2, 0.01
TERMS = {"epsilon": 1.0, "delta": DELTA, "way": Way(randomizer="grr")}
ONE, TWO = np.arange(20) % K, np.arange(30) % K
SEED = Simulations(seed=1)


def of_two_answers(**batches):
    return Hypothesis(k=K, distance=0.4, **batches)


def compared(**batches):
    seeds = {"simulations": SEED, "randomness": randomness.simulated(1)}
    return testing.decide(of_two_answers(**batches), ONE, TWO, **TERMS, **seeds)


def designed(**batches):
    return testing.design(of_two_answers(**batches), n=20, **TERMS)


def test_closeness_assumes_that_nobody_is_in_both_groups():
    assert APART in compared().guarantee.assumptions
    assert APART in designed(closeness=True).tester().guarantee.assumptions
    one = testing.decide(of_two_answers(), ONE, **TERMS, simulations=SEED)
    assert APART not in one.guarantee.assumptions


def test_two_reports_of_one_person_cost_no_more_than_asked():
    apart, both = compared(), compared(closeness=True, overlapping=True)
    found = both.guarantee
    assert found.epsilon <= 1.0
    assert found.rounds == 2
    assert APART not in found.assumptions
    assert TWICE in found.assumptions
    profiles = [profile(both.device, n=n) for n in (ONE.size, TWO.size)]
    assert found.epsilon == pytest.approx((profiles[0] + profiles[1]).epsilon(DELTA), rel=1e-9)
    assert found.epsilon > max(each.epsilon(DELTA) for each in profiles)
    assert found.local_epsilon == pytest.approx(2 * both.device.local_epsilon)
    assert both.device.local_epsilon < apart.device.local_epsilon
    # What is left for one batch is used: with both as small as the smaller one, most of epsilon.
    assert 0.8 < (profiles[0] * 2).epsilon(DELTA) <= 1


def test_noise_is_raised_where_the_estimate_was_too_large(monkeypatch):
    monkeypatch.setattr(setting, "batch_fraction", lambda *_: 0.95)
    asked = designed(closeness=True, overlapping=True)
    first = designing.tester(asked.recommended.device, asked.setting)
    assert first.guarantee.epsilon > 1.1
    made = asked.tester()
    assert 0.9 < made.guarantee.epsilon <= 1.0
    assert made.device.local_epsilon < asked.recommended.device.local_epsilon


@pytest.mark.parametrize(
    ("epsilon", "delta"), [(1.0, 1e-6), (0.01, 1e-9), (20.0, 1e-3), (0.1, 0.4), (800.0, 1e-6)]
)
def test_one_batch_gets_between_a_little_and_all(epsilon, delta):
    assert 0.05 <= setting.batch_fraction(epsilon, delta) < 0.9
    assert setting.batch_fraction(1.0, 1e-6) == pytest.approx(0.6889, abs=1e-3)


def test_one_batch_cannot_overlap():
    with pytest.raises(shoal.InvalidArgumentError, match="two batches"):
        Hypothesis(reference=np.full(K, 1 / K), distance=0.3, overlapping=True)
    with pytest.raises(shoal.InvalidArgumentError, match="two batches"):
        designed(overlapping=True)
