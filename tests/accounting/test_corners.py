"""Corners where a careless accountant is wrong by a little or fails for no reason."""

import math

import numpy as np
import pytest
from scipy.special import gammaln

import shoal
from shoal.accounting import integral, renyi
from shoal.accounting.law import BlanketLaw
from shoal.accounting.profile import PrivacyProfile


def test_renyi_keeps_its_digits_in_a_huge_crowd_of_rare_clones():
    """C is Poisson to 1e-9 here, so the sum can be checked without n."""
    local, n, order = 20.1, 10**12, 2.0
    clones = 2 / (math.exp(local) + 1)
    truth = 1 / (1 + math.exp(-local))
    mean = n * clones
    c = np.arange(int(mean - 12 * math.sqrt(mean)), int(mean + 12 * math.sqrt(mean)))
    log_chance = c * math.log(mean) - mean - gammaln(c + 1.0)
    # Given c, E_Q[(P/Q)^2] - 1 = E[(P - Q)^2 / Q] over a ~ Bin(c + 1, 1/2).
    excess = 0.0
    for total, chance in zip(c, np.exp(log_chance), strict=True):
        if chance < 1e-25:
            continue
        a = np.arange(total + 2.0)
        weight = np.exp(
            gammaln(total + 2.0) - gammaln(a + 1) - gammaln(total + 2 - a) - (total + 1) * np.log(2)
        )
        first = 2 * (truth * a + (1 - truth) * (total + 1 - a)) / (total + 1)
        second = 2 - first
        excess += chance * float((weight * (first - second) ** 2 / second).sum())
    found = renyi.clone_divergence(local, clones, n, order)
    assert found == pytest.approx(math.log1p(excess), rel=1e-6)


@pytest.mark.parametrize("short", [1e-6, 1e-9, 1e-12, 1e-15])
def test_just_below_the_local_epsilon_the_enclosure_still_encloses(short):
    local, n = 4.0, 1000
    pair = BlanketLaw.generic(local).pairs[0]
    epsilon = local - short
    found = integral.enclose(pair, n=n, epsilon=epsilon)
    # Only the first atom is positive: S > 0 iff no second atom was drawn.
    e, gap = math.exp(local), -math.exp(local) * math.expm1(epsilon - local)
    log_truth = math.log(gap / (e + 1)) + (n - 1) * math.log1p(-1 / (e + 1))
    assert found.log_lower <= log_truth + 1e-9
    assert found.log_upper >= log_truth - 1e-9


def test_lost_mass_with_an_infinite_local_epsilon_still_has_a_finite_answer():
    table = [[0.6, 0.3, 0.1], [0.3, 0.6, 0.1], [0.5, 0.5, 0.0]]
    profile = PrivacyProfile(BlanketLaw.from_table(table), 10)
    found = profile.epsilon(0.105)
    assert math.isfinite(found)
    assert profile.delta(found) <= 0.105
    assert profile.delta(found * 0.999) > 0.105 or found < 1e-9


def test_a_data_set_that_shows_lost_mass_is_kept_as_a_witness_in_large_crowds():
    table = [[0.5, 0.5, 0.0], [0.4, 0.6, 0.0], [0.3, 0.3, 0.4]]
    profile = PrivacyProfile(BlanketLaw.from_table(table), 1000)
    assert profile.lower_delta(0.2) >= 0.4 * (1 - 1e-9)


@pytest.mark.parametrize("n", [1, 2])
def test_nobody_to_hide_among_leaves_the_target_itself_as_local_epsilon(n):
    found = shoal.local_epsilon(epsilon=1.0, delta=1e-12, n=n)
    assert found == pytest.approx(1.0, rel=1e-3)
    assert shoal.required_n(epsilon=1, local_epsilon=1, delta=1e-15) == 1  # by itself


@pytest.mark.slow
def test_rounds_of_very_different_spread_share_a_grid():
    fine = PrivacyProfile(BlanketLaw.generic(0.1), 10**9)
    coarse = PrivacyProfile(BlanketLaw.generic(4.0), 100)
    both = (fine + coarse).epsilon(1e-4)
    assert coarse.epsilon(1e-4) * (1 - 1e-6) <= both <= coarse.epsilon(1e-4) * 1.01


def test_randomizers_that_ignore_their_input_compose_to_nothing():
    assert (shoal.profile(local_epsilon=0, n=10) * 3).epsilon(1e-6) == 0.0


def test_a_lower_bound_on_renyi_is_below_the_upper_one_for_tiny_local_epsilons():
    for n in (1, 2, 20_000, 10**9):
        profile = PrivacyProfile(BlanketLaw.generic(1e-3), n)
        lower = renyi.binary_response_divergence(local_epsilon=1e-3, n=n, order=2.0)
        assert 0 < lower <= profile.renyi(2.0) * (1 + 1e-9)
