from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from number_contract import NumberContract
from shoal import randomness
from shoal.accounting.law import BlanketLaw
from shoal.accounting.profile import PrivacyProfile
from shoal.errors import InvalidArgumentError
from shoal.mechanisms.grid import (
    Duchi,
    Laplace,
    Piecewise,
    RoundedResponse,
    envelope_law,
    rounded,
    two_level_law,
)


class TestLaplace(NumberContract):
    def make(self, epsilon, low=-2.0, high=3.0):
        return Laplace(low=low, high=high, epsilon=epsilon)

    def coarse(self, epsilon):
        return Laplace(low=0.0, high=1.0, epsilon=epsilon, levels=6)

    def test_clamping_costs_no_accuracy(self):
        for epsilon in (0.5, 2.0, 8.0):
            a = math.exp(-epsilon / 255)
            unclamped = 2 * a / (1 - a) ** 2 / 255**2 + 0.25 / 255**2
            assert Laplace(low=0, high=1, epsilon=epsilon).variance(n=1) <= unclamped

    def test_a_message_is_one_byte(self):
        assert Laplace(low=0, high=1, epsilon=1.0).message_bytes == 1

    def test_more_levels_than_52_bits_can_tell_apart_are_refused(self):
        with pytest.raises(InvalidArgumentError, match="levels"):
            Laplace(low=0, high=1, epsilon=30.0, levels=1024)

    def test_the_largest_epsilon_is_served(self):
        assert Laplace(low=0, high=1, epsilon=30.0).local_epsilon <= 30.0


class TestDuchi(NumberContract):
    def make(self, epsilon, low=-2.0, high=3.0):
        return Duchi(low=low, high=high, epsilon=epsilon)

    def coarse(self, epsilon):
        return Duchi(low=0.0, high=1.0, epsilon=epsilon)

    @pytest.mark.parametrize("epsilon", [0.5, 1.0, 4.0])
    def test_the_published_variance(self, epsilon):
        c = (math.exp(epsilon) + 1) / (math.exp(epsilon) - 1)
        assert Duchi(low=-1, high=1, epsilon=epsilon).variance(n=1) == pytest.approx(c**2)

    def test_one_bit(self):
        assert Duchi(low=0, high=1, epsilon=1.0).message_bits == 1.0


class TestPiecewise(NumberContract):
    def make(self, epsilon, low=-2.0, high=3.0):
        return Piecewise(low=low, high=high, epsilon=epsilon)

    def coarse(self, epsilon):
        return Piecewise(low=0.0, high=1.0, epsilon=epsilon, levels=12)

    @pytest.mark.parametrize("epsilon", [0.5, 1.0, 4.0, 8.0])
    def test_the_published_variance(self, epsilon):
        s = math.exp(epsilon / 2)
        published = 1 / (s - 1) + (s + 3) / (3 * (s - 1) ** 2)
        found = Piecewise(low=-1, high=1, epsilon=epsilon).variance(n=1)
        assert found == pytest.approx(published, rel=0.02)

    def test_it_shuffles_like_randomized_response_among_few_answers(self):
        # 10 levels and windows of 3 are 12 outputs: four windows' worth.
        randomizer = Piecewise(low=0, high=1, epsilon=2 * math.log(3), levels=10)
        assert (randomizer.width, randomizer.outputs) == (3, 12)
        four = BlanketLaw.randomized_response(k=4, epsilon=2 * math.log(3))
        mine = PrivacyProfile(randomizer.law(), 1000).epsilon(1e-6)
        assert mine == pytest.approx(PrivacyProfile(four, 1000).epsilon(1e-6), rel=1e-9)


class TestRoundedResponse(NumberContract):
    def make(self, epsilon, low=-2.0, high=3.0):
        return RoundedResponse(low=low, high=high, epsilon=epsilon, levels=40)

    def coarse(self, epsilon):
        return RoundedResponse(low=0.0, high=1.0, epsilon=epsilon, levels=5)

    @pytest.mark.parametrize(("n", "m"), [(10**4, 7), (10**6, 32)])
    def test_the_published_error(self, n, m):
        epsilon = math.log(n / 28)
        k = m + 1
        g = k / (math.exp(epsilon) + k - 1)
        published = g / (3 * (1 - g) ** 2) + 1 / (4 * m**2)
        found = RoundedResponse(low=0, high=1, epsilon=epsilon, levels=k).variance(n=1)
        assert found == pytest.approx(published, rel=0.2)

    @pytest.mark.parametrize("levels", [1, 0, 2.5, 2**21])
    def test_what_is_no_number_of_levels_is_refused(self, levels):
        with pytest.raises(InvalidArgumentError):
            RoundedResponse(low=0, high=1, epsilon=1.0, levels=levels)


def test_rounding_is_exact_at_the_levels_and_right_between_them():
    source = randomness.simulated(8)
    grid = np.linspace(-1, 1, 9)
    assert np.array_equal(rounded(grid, -1.0, 1.0, 8, source), np.arange(9))
    n = 100_000
    levels = rounded(np.full(n, 0.3), -1.0, 1.0, 8, source)
    assert set(levels.tolist()) == {5, 6}
    assert abs(levels.mean() - 5.2) < 6 * 0.4 / math.sqrt(n)


@settings(deadline=None, derandomize=True, max_examples=25)
@given(
    st.lists(
        st.lists(st.integers(1, 9), min_size=4, max_size=4).filter(lambda row: sum(row) < 40),
        min_size=2,
        max_size=4,
    ),
    st.sampled_from([(1, 0.1), (2, 0.2), (10, 0.1), (500, 0.05)]),
)
def test_the_envelope_covers_every_pair_of_any_table(rows, asked):
    n, epsilon = asked
    weights = np.array([[*row, 40 - sum(row)] for row in rows], dtype=np.int64)
    table = weights / 40
    local = math.log((weights.max(axis=0) / weights.min(axis=0)).max()) + 1e-12
    covering = PrivacyProfile(envelope_law(weights, local_epsilon=local), n).delta(epsilon)
    exact = PrivacyProfile(BlanketLaw.from_table(table), n).delta(epsilon)
    assert covering >= exact * (1 - 1e-9) - 1e-15


@pytest.mark.parametrize("epsilon", [0.5, 3.0])
def test_the_envelope_of_randomized_response_is_its_law(epsilon):
    high = round(math.exp(epsilon) * 10**6)
    weights = np.full((5, 5), 10**6, dtype=np.int64)
    np.fill_diagonal(weights, high)
    local = math.log(high / 10**6)
    found = envelope_law(weights, local_epsilon=local + 1e-12)
    known = BlanketLaw.randomized_response(k=5, epsilon=local)
    for n in (2, 100, 10**5):
        mine, theirs = (PrivacyProfile(law, n).delta(0.1) for law in (found, known))
        assert mine == pytest.approx(theirs, rel=1e-8, abs=1e-14)


def test_a_two_level_law_of_half_the_outputs_is_the_generic_one():
    for n in (10, 10**4):
        mine = PrivacyProfile(two_level_law(fraction=0.5, epsilon=2.0), n).epsilon(1e-3)
        generic = PrivacyProfile(BlanketLaw.generic(2.0), n).epsilon(1e-3)
        assert mine == pytest.approx(generic, rel=1e-9)
