"""The mixed shares show the sum and nothing else: exact second moments, brute force, bounds."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction
from functools import cache

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from shoal.accounting.noise.split import (
    MOST_SUMMED,
    _bounded,
    _summed,
    discrete_laplace_delta,
    published_shares,
    pure_delta,
    split_distance,
    split_excess,
    split_security,
    split_shares,
)
from shoal.errors import InvalidArgumentError, OutOfRegimeError, UnreachableTargetError

TINY = [(q, n, m) for q in (2, 3, 4) for n in (2, 3, 4) for m in (3, 4)]


def arrangements(counts):
    return math.factorial(sum(counts)) // math.prod(map(math.factorial, counts))


def count_vectors(total, bins):
    if bins == 1:
        yield (total,)
        return
    for first in range(total + 1):
        for rest in count_vectors(total - first, bins - 1):
            yield (first, *rest)


@cache
def uniform_law(length, q, total):
    """How often each element is among ``length`` elements of Z_q, uniform but for their sum."""
    law = {}
    for counts in count_vectors(length, q):
        if sum(value * count for value, count in enumerate(counts)) % q == total:
            law[counts] = Fraction(arrangements(counts), q ** (length - 1))
    return law


def shuffled_law(data, q, m):
    """The law of the multiset of everybody's shares, by the definition of the protocol."""
    total = {(0,) * q: Fraction(1)}
    for value in data:
        merged = {}
        for (before, p), (own, r) in itertools.product(
            total.items(), uniform_law(m, q, value).items()
        ):
            key = tuple(map(sum, zip(before, own, strict=True)))
            merged[key] = merged.get(key, 0) + p * r
        total = merged
    return total


def total_variation(first, second):
    keys = first.keys() | second.keys()
    return float(sum(abs(first.get(key, 0) - second.get(key, 0)) for key in keys) / 2)


@pytest.mark.parametrize(("q", "n", "m"), TINY)
def test_no_data_are_further_from_what_their_sum_explains_than_stated(q, n, m):
    bound = math.sqrt(split_excess(n=n, shares=m, modulus=q)) / 2
    laws = {
        data: shuffled_law(data, q, m)
        for data in itertools.combinations_with_replacement(range(q), n)
    }
    for data, law in laws.items():
        assert total_variation(law, uniform_law(n * m, q, sum(data) % q)) <= bound
    for (one, first), (two, second) in itertools.combinations(laws.items(), 2):
        if sum(one) % q == sum(two) % q:
            assert total_variation(first, second) <= min(1.0, 2 * bound)


@pytest.mark.parametrize(("q", "n", "m"), TINY)
def test_the_excess_is_the_exact_second_moment(q, n, m):
    law = shuffled_law((0,) * n, q, m)
    moment = sum(p**2 / arrangements(counts) for counts, p in law.items()) * q ** (n * m - 1)
    assert split_excess(n=n, shares=m, modulus=q) == pytest.approx(float(moment - 1), rel=1e-7)


def test_the_sum_over_compositions_agrees_with_the_recurrence_in_fractions():
    for n, m, q in [(2, 4, 2**40), (5, 3, 7), (12, 5, 2**20), (20, 15, 2**40), (30, 4, 3)]:
        a = [Fraction(math.factorial(k * m), math.factorial(k) ** 2) for k in range(n + 1)]
        powers = [Fraction(1)]
        for i in range(1, n + 1):
            terms = ((q * k - (i - k)) * a[k] * powers[i - k] for k in range(1, i + 1))
            powers.append(sum(terms) / i)
        excess = powers[n] / a[n] / q - 1
        assert split_excess(n=n, shares=m, modulus=q) == pytest.approx(float(excess), rel=1e-7)


@pytest.mark.parametrize("n", [16, 33, 64, 100])
def test_the_bound_for_many_people_is_above_the_exact_sum_and_close_to_it(n):
    close = 0
    for m, bits in itertools.product((3, 4, 6, 9, 14, 20, 40), (1, 8, 30, 62)):
        exact, bound = _summed(n, m, 1 << bits), _bounded(n, m, 1 << bits)
        assert bound >= exact - 1e-8
        close += bound - exact < 0.05
    assert close >= 7


@given(
    st.integers(2, 10**12),
    st.integers(3, 60),
    st.integers(1, 62),
)
def test_more_people_more_shares_and_smaller_numbers_hide_better(n, m, bits):
    here = split_security(n=n, shares=m, modulus_bits=bits)
    assert here >= 0
    assert split_security(n=n, shares=m + 1, modulus_bits=bits) >= here - 1e-6
    assert split_security(n=n, shares=m, modulus_bits=bits + 1) <= here + 1e-6
    if n > MOST_SUMMED:
        assert split_security(n=2 * n, shares=m, modulus_bits=bits) >= here - 1e-6


@pytest.mark.parametrize(
    ("n", "bits", "sigma", "published", "mine"),
    [(10**4, 32, 40, 12, 10), (10**6, 40, 40, 9, 8), (1000, 50, 22, 14, 11)],
)
def test_fewer_shares_than_published(n, bits, sigma, published, mine):
    assert published_shares(n=n, modulus_bits=bits, security=sigma) == published
    assert split_shares(n=n, modulus_bits=bits, security=sigma) == mine


@given(st.integers(19, 10**9), st.integers(1, 62), st.floats(10, 80))
def test_the_published_number_of_shares_is_always_enough(n, bits, sigma):
    """Between equal sums it promises 2^-sigma: half of that to what the sum explains."""
    try:
        shares = published_shares(n=n, modulus_bits=bits, security=sigma)
        assert split_security(n=n, shares=shares, modulus_bits=bits) >= sigma + 1
    except InvalidArgumentError:
        assert shares > 500


def test_the_leading_term_is_one_person_apart():
    n, m, bits = 10**6, 7, 54
    leading = (2**bits - 1) * n**2 / math.comb(n * m, m)
    distance = split_distance(n=n, shares=m, modulus_bits=bits)
    assert distance == pytest.approx(math.sqrt(leading) / 2, rel=1e-5)


def test_one_person_shows_the_sum_and_too_few_shares_say_nothing():
    assert split_distance(n=1, shares=3, modulus_bits=40) == 0
    assert split_security(n=1, shares=3, modulus_bits=40) == math.inf
    for n in (10, 100):
        assert split_distance(n=n, shares=3, modulus_bits=62) == 1


@pytest.mark.parametrize("wrong", [{"n": 0}, {"shares": 2}, {"shares": 513}, {"modulus_bits": 0}])
def test_what_makes_no_sense_is_refused(wrong):
    given = {"n": 100, "shares": 5, "modulus_bits": 20} | wrong
    with pytest.raises(InvalidArgumentError):
        split_distance(**given)


def test_what_cannot_be_reached_is_said():
    with pytest.raises(UnreachableTargetError, match="more people"):
        split_shares(n=2, modulus_bits=62, security=2000)
    with pytest.raises(OutOfRegimeError, match="n >= 19"):
        published_shares(n=18, modulus_bits=32, security=40)


@pytest.mark.parametrize(("epsilon", "shift"), [(0.3, 1), (1.0, 1), (1.0, 7), (0.5, 30), (3.0, 4)])
def test_discrete_laplace_noise_is_exactly_as_private_as_computed(epsilon, shift):
    rate = epsilon / shift
    places = np.arange(-3000, 3001)
    pmf = np.exp(-rate * np.abs(places)) * math.tanh(rate / 2)
    for at in (0.0, 0.1, 0.4 * epsilon, 0.9 * epsilon, epsilon, 2 * epsilon):
        truths = []
        for t in range(1, shift + 1):
            moved = np.exp(-rate * np.abs(places - t)) * math.tanh(rate / 2)
            truths.append(np.maximum(moved - math.exp(at) * pmf, 0).sum())
            truths.append(np.maximum(pmf - math.exp(at) * moved, 0).sum())
        found = discrete_laplace_delta(rate=rate, sensitivity=shift, epsilon=at)
        assert found == pytest.approx(max(truths), rel=1e-9, abs=1e-12)
        assert found <= pure_delta(central_epsilon=epsilon, epsilon=at) + 1e-12


def test_randomized_response_attains_the_pure_bound():
    for top, at in [(1.0, 0.0), (1.0, 0.5), (3.0, 2.0), (1.0, 1.0), (1.0, 2.0)]:
        truth = 1 / (1 + math.exp(-top))
        attained = max(0.0, truth - math.exp(at) * (1 - truth))
        assert pure_delta(central_epsilon=top, epsilon=at) == pytest.approx(attained, abs=1e-12)
