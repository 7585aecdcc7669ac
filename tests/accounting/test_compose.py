"""Several rounds."""

import math
from functools import reduce
from operator import add

import numpy as np
import pytest
from dp_accounting.pld import privacy_loss_distribution
from dp_accounting.pld.privacy_loss_distribution import (
    from_gaussian_mechanism,
    from_laplace_mechanism,
)
from hypothesis import given, settings
from hypothesis import strategies as st

import shoal
from shoal.accounting import loss
from shoal.accounting.law import BlanketLaw
from shoal.accounting.profile import PrivacyProfile, convex_minorant

often = settings(deadline=None, derandomize=True, max_examples=8)
HUNDRED = PrivacyProfile(BlanketLaw.generic(4.0), 10**4) * 100
CROWDED = PrivacyProfile(BlanketLaw.generic(1.0), 10**6) * 100


def test_a_hundred_rounds_by_loss_distributions():
    assert 4.985 <= HUNDRED.epsilon(1e-6) <= 5.00


def test_the_methods_are_ordered_and_best_takes_the_smallest():
    pld, by_renyi, advanced = (
        CROWDED.epsilon(1e-6, method=method) for method in ("pld", "renyi", "advanced")
    )
    assert pld < by_renyi < advanced
    assert CROWDED.epsilon(1e-6, method="best") == pld


@pytest.mark.parametrize("rounds", [2, 3, 7])
def test_repeating_is_adding(rounds):
    once = PrivacyProfile(BlanketLaw.generic(1.0), 50)
    again = [PrivacyProfile(BlanketLaw.generic(1.0), 50) for _ in range(rounds)]
    assert once * rounds == reduce(add, again)
    assert (rounds * once).epsilon(1e-6) == pytest.approx(
        reduce(add, again).epsilon(1e-6), rel=1e-6
    )


def test_the_order_of_rounds_does_not_matter():
    a = PrivacyProfile(BlanketLaw.generic(2.0), 50)
    b = PrivacyProfile(BlanketLaw.randomized_response(k=5, epsilon=1.0), 10)
    first, second = (a * 2 + b * 3).epsilon(1e-5), (b * 3 + a + a).epsilon(1e-5)
    assert first == pytest.approx(second, rel=1e-6)


def test_adding_really_convolves_and_does_not_just_count():
    """The k-fold power and k separate convolutions are different computations: they must agree."""
    once = PrivacyProfile(BlanketLaw.generic(1.0), 50)
    width = loss.natural_discretization(once)
    single = loss.distribution(once, discretization=width)
    power = single.self_compose(4)
    chain = single.compose(single).compose(single).compose(single)
    expected = (once * 4).epsilon(1e-6)
    assert power.get_epsilon_for_delta(1e-6) == pytest.approx(expected, rel=1e-6)
    assert chain.get_epsilon_for_delta(1e-6) == pytest.approx(expected, rel=1e-6)


def test_one_person_alone_composes_like_randomized_response():
    """n = 1 is the local randomizer itself: dp_accounting knows its composition."""
    local, rounds, delta = 1.0, 20, 1e-6
    noise = 2 / (math.exp(local) + 1)
    reference = privacy_loss_distribution.from_randomized_response(
        noise, 2, value_discretization_interval=1e-4
    ).self_compose(rounds)
    ours = (PrivacyProfile(BlanketLaw.generic(local), 1) * rounds).epsilon(delta)
    exact = reference.get_epsilon_for_delta(delta)
    assert exact * (1 - 1e-3) <= ours <= exact * 1.02


@settings(often, max_examples=2)
@given(
    local=st.floats(0.1, 3.0),
    n=st.integers(1, 10**5),
    rounds=st.integers(1, 12),
    log_delta=st.floats(-16.0, -2.0),
)
def test_every_method_is_monotone_in_rounds_and_capped(local, n, rounds, log_delta):
    once = PrivacyProfile(BlanketLaw.generic(local), n)
    delta = math.exp(log_delta)
    for method in ("pld", "renyi", "advanced"):
        fewer = (once * rounds).epsilon(delta, method=method)
        more = (once * (rounds + 1)).epsilon(delta, method=method)
        assert 0 <= fewer <= more * (1 + 1e-6)
        assert more <= (rounds + 1) * local
    single = (once * 1).epsilon(delta)
    assert once.epsilon(delta) * (1 - 1e-6) <= single <= once.epsilon(delta) * 1.01 + 1e-12
    assert (once * rounds).lower_epsilon(delta) <= (once * rounds).epsilon(delta) * (1 + 1e-9)


def test_delta_and_epsilon_of_a_composition_are_inverse():
    epsilon = HUNDRED.epsilon(1e-6)
    assert HUNDRED.delta(epsilon) == pytest.approx(1e-6, rel=2e-2)
    assert HUNDRED.delta(HUNDRED.local_epsilon) == 0.0
    deltas = [HUNDRED.delta(eps) for eps in (0.0, 1.0, 3.0, 5.0)]
    assert deltas == sorted(deltas, reverse=True)


def test_deltas_below_the_precision_of_the_transform_are_refused_with_the_cure():
    with pytest.raises(shoal.PrecisionError, match="renyi") as caught:
        CROWDED.epsilon(1e-30)
    assert caught.value.value == 1e-30
    assert 1e-12 < caught.value.limit < 1e-7
    assert CROWDED.epsilon(1e-30, method="best") == CROWDED.epsilon(1e-30, method="renyi")


@pytest.mark.parametrize("rounds", [0, -1, 1.5])
def test_what_is_no_number_of_rounds_and_no_method_is_refused(rounds):
    for once in (PrivacyProfile(BlanketLaw.generic(1.0), 10), HUNDRED):
        with pytest.raises(shoal.InvalidArgumentError, match="rounds"):
            _ = once * rounds
    with pytest.raises(shoal.InvalidArgumentError, match="one of pld, renyi, advanced, best"):
        HUNDRED.epsilon(1e-6, method="moments")


def test_the_exported_distribution_dominates_the_curve():
    profile = PrivacyProfile(BlanketLaw.randomized_response(k=4, epsilon=2.0), 20)
    exported = profile.pld()
    for share in (0.0, 0.05, 0.1, 0.3):
        epsilon = share * profile.local_epsilon
        computed = exported.get_delta_for_epsilon(epsilon)
        assert computed >= profile.lower_delta(epsilon) * (1 - 1e-9)
        assert computed <= profile.delta(epsilon) * 1.02 + 1e-15


GAUSSIAN = from_gaussian_mechanism(3.0)  # on dp_accounting's own grid
SUBSAMPLED = from_laplace_mechanism(2.0, sampling_prob=0.1)  # other losses if somebody is added


@pytest.mark.parametrize("other", [GAUSSIAN, SUBSAMPLED], ids=["gaussian", "subsampled laplace"])
@pytest.mark.parametrize(("local_epsilon", "n"), [(1.0, 100), (4.0, 10**5), (1.0, 10**6)])
def test_an_exported_distribution_composes_with_those_of_dp_accounting(other, local_epsilon, n):
    profile = shoal.profile(local_epsilon=local_epsilon, n=n)
    both = profile.pld().compose(other)
    alone = other.get_epsilon_for_delta(1e-6)
    assert both.get_epsilon_for_delta(1e-6) >= max(alone, profile.lower_epsilon(1e-6))
    assert both.get_epsilon_for_delta(2e-6) <= alone + profile.epsilon(1e-6) * (1 + 1e-3) + 1e-4
    rounds = (profile * 3).pld(discretization=1e-4).compose(other)
    assert rounds.get_epsilon_for_delta(1e-6) >= both.get_epsilon_for_delta(1e-6) * (1 - 1e-6)


def test_small_losses_have_a_finer_grid_that_can_be_chosen_for_both():
    profile = shoal.profile(local_epsilon=1.0, n=10**8)
    with pytest.raises(ValueError, match="intervals are different"):
        profile.pld().compose(GAUSSIAN)
    fine = from_gaussian_mechanism(30.0, value_discretization_interval=1e-5)
    both = profile.pld(discretization=1e-5).compose(fine)
    assert both.get_epsilon_for_delta(1e-6) >= fine.get_epsilon_for_delta(1e-6)


def test_the_common_grid_costs_next_to_nothing():
    for local_epsilon, n in ((1.0, 100), (4.0, 10**5), (1.0, 10**6)):
        profile = shoal.profile(local_epsilon=local_epsilon, n=n)
        exported = profile.pld().get_epsilon_for_delta(1e-6)
        assert profile.lower_epsilon(1e-6) <= exported <= profile.epsilon(1e-6) * 1.01 + 1e-9


@pytest.mark.parametrize("kind", ["exact", "sampled", "composed"])
def test_renyi_divergences_of_many_orders(kind):
    profile = shoal.profile(local_epsilon=1.0, n=100 if kind == "exact" else 10**7)
    curve = profile * 2 if kind == "composed" else profile
    orders = np.array([[1.5, 2.0], [8.0, 64.0]])
    values = curve.renyi(orders)
    assert values.shape == orders.shape
    assert values.tolist() == [[curve.renyi(order) for order in row] for row in orders.tolist()]
    assert curve.renyi([2.0]).tolist() == [curve.renyi(2.0)]


def test_the_convex_minorant_is_the_largest_convex_function_below():
    rng = np.random.default_rng(3)
    x = np.sort(rng.uniform(0, 3, 200))
    y = (x - 1.5) ** 2 + rng.uniform(0, 0.1, 200)
    hull = convex_minorant(x, y)
    assert (hull <= y + 1e-12).all()
    slopes = np.diff(hull) / np.diff(x)
    assert (np.diff(slopes) >= -1e-6).all()
    assert (hull >= (x - 1.5) ** 2 - 1e-12).all()


def test_rounds_of_approximate_randomizers_compose():
    once = shoal.profile(local_epsilon=1.0, local_delta=1e-13, n=10**4)
    pure = shoal.profile(local_epsilon=1.0, n=10**4)
    approximate, expected = ((each * 5).epsilon(1e-5) for each in (once, pure))
    assert expected * (1 - 1e-6) <= approximate <= expected * 1.05
    with pytest.raises(shoal.UnreachableTargetError):
        (shoal.profile(local_epsilon=1.0, local_delta=1e-5, n=10**4) * 5).epsilon(1e-5)
