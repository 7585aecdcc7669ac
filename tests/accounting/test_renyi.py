"""Rényi divergences: exact sums, certified curves, and the conversion."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import gammaln

import shoal
from shoal.accounting import renyi
from shoal.accounting.law import BlanketLaw
from shoal.accounting.profile import Curve, PrivacyProfile
from tables import random_table

# An example is a whole curve of integrals: quick ones, of few people or of very many.
often = settings(deadline=None, derandomize=True, max_examples=10)


@pytest.mark.parametrize(
    ("kind", "order", "reference"),
    [
        ("generic", 2, 1.5887e-3),
        ("generic", 8, 6.3550e-3),
        ("generic", 32, 2.5426e-2),
        ("clones", 2, 2.3233e-3),
        ("clones", 8, 9.2938e-3),
        ("clones", 32, 3.7205e-2),
    ],
)
def test_reference_values_at_a_thousand_people(kind, order, reference):
    profile = PrivacyProfile(getattr(BlanketLaw, kind)(1.0), 1000)
    found = profile.renyi(order)
    assert found == pytest.approx(reference, rel=4e-5)
    truth = brute_renyi(1.0, profile.law.claim.clone_probability, 1000, order)
    assert truth * (1 - 1e-8) <= found <= truth * (1 + 1e-6)
    from_curve = Curve.renyi(profile, order)
    assert truth * (1 - 1e-8) <= from_curve <= truth * (1 + 1e-3)


def brute_renyi(local, clones, n, order):
    """log E_Q[(P/Q)^order] / (order - 1), every (C, A) summed."""
    truth = 1 / (1 + math.exp(-local))
    c = np.arange(n)[:, None].astype(float)
    a = np.arange(n + 1)[None, :].astype(float)
    inside = a <= c + 1
    b = np.where(inside, c + 1 - a, 0)
    first, second = truth * a + (1 - truth) * b, (1 - truth) * a + truth * b
    total = np.maximum(c + 1, 1)
    log_weight = (
        gammaln(n)
        - gammaln(c + 1)
        - gammaln(n - c)
        + c * math.log(clones)
        + (n - 1 - c) * math.log1p(-clones)
        + gammaln(c + 2)
        - gammaln(np.minimum(a, c + 1) + 1)
        - gammaln(b + 1)
        - (c + 1) * math.log(2)
    )
    terms = np.exp(log_weight) * 2 / total * second * (first / second) ** order
    return float(np.log(terms[inside].sum()) / (order - 1))


@pytest.mark.parametrize("order", [1.1, 1.5, 2.0, 5.5, 40.0])
def test_the_curve_of_a_table_bounds_the_divergence_of_its_data(order):
    rng = np.random.default_rng(11)
    for _ in range(6):
        table = random_table(rng)
        n = int(rng.integers(1, 5))
        profile = PrivacyProfile(BlanketLaw.from_table(table), n)
        bound = profile.renyi(order)
        first, second = shuffled_laws(table, n)
        truth = math.log((second * (first / second) ** order).sum()) / (order - 1)
        assert truth <= bound * (1 + 1e-9)
        assert bound <= profile.local_epsilon


def shuffled_laws(table, n):
    """Laws of the message counts when person 1 holds input 0 or 1 and all others hold input 2."""
    columns = table.shape[1]
    laws = []
    for own in (0, 1):
        law = np.zeros((n + 1,) * columns)
        law[(0,) * columns] = 1.0
        for row in [table[own], *([table[2]] * (n - 1))]:
            shifted = np.zeros_like(law)
            for message, chance in enumerate(row):
                shifted += chance * np.roll(law, 1, axis=message)
            law = shifted
        laws.append(law.ravel())
    kept = laws[1] > 0
    return laws[0][kept], laws[1][kept]


@often
@given(local=st.floats(0.05, 5.0), n=st.integers(1, 60), order=st.floats(1.01, 200.0))
def test_exact_sum_and_curve_agree_and_stay_below_the_local_epsilon(local, n, order):
    profile = PrivacyProfile(BlanketLaw.generic(local), n)
    exact, curve = profile.renyi(order), Curve.renyi(profile, order)
    assert 0 <= exact <= local
    assert exact <= curve * (1 + 1e-6)
    assert curve <= min(local, exact * 1.01 + 1e-12)
    lower = renyi.binary_response_divergence(local_epsilon=local, n=n, order=order)
    assert lower <= exact * (1 + 1e-6)


def test_divergence_grows_with_the_order_and_falls_with_the_crowd():
    law = BlanketLaw.randomized_response(k=20, epsilon=2.0)
    orders = [1.2, 2, 4, 16, 128]
    curves = [[PrivacyProfile(law, n).renyi(a) for a in orders] for n in (20, 10**6)]
    for curve in curves:
        assert curve == sorted(curve)
    for column in zip(*curves, strict=True):
        assert list(column) == sorted(column, reverse=True)


def test_the_binary_response_lower_bound_matches_its_exact_values():
    values = [
        renyi.binary_response_divergence(local_epsilon=1.0, n=1000, order=a) for a in (2, 8, 32)
    ]
    assert values == pytest.approx([1.0879e-3, 4.3708e-3, 1.7797e-2], rel=1e-4)


@often
@given(
    local=st.floats(0.2, 4.0),
    n=st.integers(10, 60) | st.integers(10**6, 10**8),
    log_delta=st.floats(-20, -3),
)
def test_converting_is_sound_against_the_curve_itself(local, n, log_delta):
    profile = PrivacyProfile(BlanketLaw.generic(local), n)
    delta = math.exp(log_delta)
    best = min(
        renyi.to_epsilon(Curve.renyi(profile, order), order, delta)
        for order in np.geomspace(1.1, 1e4, 30).tolist()
    )
    assert best >= profile.lower_epsilon(delta) * (1 - 1e-9)


@pytest.mark.parametrize("order", [1.0, 0.5, -1, math.nan, math.inf])
def test_orders_that_are_none_and_approximate_randomizers_are_refused(order):
    with pytest.raises(shoal.InvalidArgumentError, match="order > 1"):
        shoal.profile(local_epsilon=1, n=10).renyi(order)
    with pytest.raises(shoal.OutOfRegimeError, match="pure local guarantee"):
        shoal.profile(local_epsilon=1, local_delta=1e-9, n=1000).renyi(2)
