"""Where curves end, noise drowns everything, and examples are left out."""

from __future__ import annotations

import math

import pytest
from scipy import stats

from shoal.accounting.blanket import Blanket
from shoal.learning import account


@pytest.mark.parametrize(
    "asked",
    [
        {"noise_multiplier": 20, "n": 10**8, "epochs": 10, "delta": 1e-3},
        {"noise_multiplier": 3e5, "n": 10**6, "epochs": 10, "delta": 1e-6},
        {"noise_multiplier": 1e15, "n": 1000},
        {"noise_multiplier": 1e18, "n": 1000, "sampling": "poisson"},
        {"noise_multiplier": 1e18, "n": 1000, "sampling": "replacement"},
    ],
)
def test_what_delta_has_room_for_altogether_costs_no_epsilon(asked):
    assert account(**asked).epsilon == 0.0


@pytest.mark.slow
def test_more_noise_than_can_be_told_apart_never_claims_more_than_its_share():
    quiet = account(noise_multiplier=1e9, n=1000, delta=1e-40)
    for noise in (1e12, 1e13, 1e14):
        loud = account(noise_multiplier=noise, n=1000, delta=1e-40).epsilon
        assert loud <= quiet.epsilon
        assert loud * noise >= 0.9 * quiet.lower * 1e9


def test_outputs_beyond_the_last_cell_count_in_full():
    """N(0.1) has more than e^0.8 times what N(-0.1) has above 4 only: beyond the last cell."""
    blanket = Blanket(own=0.1, others=0.1, n=2, level=0.8, lost=3.7e-3)
    assert 0.1 - stats.norm.ppf(3.7e-3) < 4
    told = stats.norm.sf(4 - 0.1) - math.exp(0.8) * stats.norm.sf(4 + 0.1)
    assert blanket.quick_delta(0.8) >= told / 2 > 1e-6


def test_an_example_that_is_left_out_at_times_is_not_claimed_to_give_itself_away():
    dropped = account(noise_multiplier=1, n=199, batch=100, drop_last=True)
    whole = account(noise_multiplier=1, n=200, batch=100)
    assert dropped.lower == 0.0
    assert whole.lower > 0.99 * whole.epsilon


def test_sizes_of_sampled_batches_are_not_public():
    assumed = account(noise_multiplier=1, n=1000, sampling="poisson").assumptions
    assert any("not how many examples a step took" in each for each in assumed)
    permuted = account(noise_multiplier=1, n=1000).assumptions
    assert any("sizes of batches" in each for each in permuted)
