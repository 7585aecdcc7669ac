"""Lower bounds are divergences of explicit data sets."""

import math

import pytest

import brute
from shoal.accounting import exact
from shoal.accounting.law import BlanketLaw
from shoal.accounting.profile import PrivacyProfile, binary_response_delta


@pytest.mark.parametrize("k", [2, 3, 4])
@pytest.mark.parametrize("n", [1, 2, 5])
@pytest.mark.parametrize("epsilon", [0.0, 0.2, 0.7])
def test_witnesses_of_randomized_response_are_reached_by_its_worst_data(k, n, epsilon):
    law = BlanketLaw.randomized_response(k=k, epsilon=1.0)
    truth = exact.worst_shuffle(brute.response(k, 1.0), n=n, epsilon=epsilon)
    found = PrivacyProfile(law, n).lower_delta(epsilon)
    assert found <= truth * (1 + 1e-9)
    assert found >= truth * (0.99 if n <= 2 else 0.6)


@pytest.mark.parametrize("n", [2, 3, 6, 9])
def test_binary_response_is_maximised_over_the_others(n):
    for epsilon in (0.0, 0.1, 0.4, 0.8):
        truth = exact.worst_shuffle(brute.response(2, 1.0), n=n, epsilon=epsilon)
        found = binary_response_delta(1.0, n=n, epsilon=epsilon, ones=range(n))
        assert found == pytest.approx(truth, rel=1e-8, abs=1e-14)


@pytest.mark.parametrize(("local", "n"), [(1.0, 1000), (0.5, 1000), (4.0, 1500)])
def test_the_generic_lower_bound_is_at_least_algorithm_seven(local, n):
    published_bound = brute.binary_response_epsilon(n=n, delta=1e-6, local_epsilon=local)
    found = PrivacyProfile(BlanketLaw.generic(local), n).lower_epsilon(1e-6)
    assert found >= published_bound * (1 - 1e-5)


def test_a_law_without_an_explicit_randomizer_claims_no_lower_bound():
    e = math.e
    law = BlanketLaw([(1 / (e + 1), e, 1.0), (1 / (e + 1), 1.0, e)])
    assert PrivacyProfile(law, 100).lower_epsilon(1e-3) == 0.0
    assert PrivacyProfile(law, 100).lower_delta(0.1) == 0.0
