"""What one person is promised over a survey's life, against everything that can be counted out."""

from __future__ import annotations

import itertools
import math
from collections import defaultdict
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

import shoal
from factories import example
from shoal.mechanisms.response import RandomizedResponse
from shoal.service.admission import OpenFraction
from shoal.service.survey.promise import Terms, promised

RESPONSE = RandomizedResponse(k=2, epsilon=2.0)
LIE = float(RESPONSE.table()[0, 1])


def hockey_stick(p, q, epsilon):
    """The larger of the two directions."""
    x = math.exp(epsilon)
    return max(np.maximum(p - x * q, 0).sum(), np.maximum(q - x * p, 0).sum())


def ones(data):
    """The law of the number of ones among reports of these data: all that a batch shows."""
    law = np.ones(1)
    for datum in data:
        law = np.convolve(law, [1 - LIE, LIE] if datum == 0 else [LIE, 1 - LIE])
    return law


@pytest.mark.parametrize("delta", [0.3, 0.1, 0.02, 0.003])
@pytest.mark.parametrize("honest", [4, 5, 7, 10])
def test_two_reports_of_one_person_keep_the_promise_wherever_they_fall(honest, delta):
    epsilon = promised((RESPONSE,), Terms(delta=delta, reports_per_person=2), honest).epsilon
    assert epsilon <= 2 * RESPONSE.local_epsilon * (1 + 1e-9)
    lives = list(itertools.product((0, 1), repeat=2))
    for some in range(honest - 1):
        others = [1] * some + [0] * (honest - 2 - some)
        for ours, theirs in itertools.combinations(lives, 2):
            together = hockey_stick(ones([*others, *ours]), ones([*others, *theirs]), epsilon)
            assert together <= delta * (1 + 1e-9)
            # In two batches, each as small as one may be.
            more = [*others, 0]
            apart = [
                np.outer(ones([*more, first]), ones([*more, second]))
                for first, second in (ours, theirs)
            ]
            assert hockey_stick(*apart, epsilon) <= delta * (1 + 1e-9)


def test_one_report_hides_better_than_each_of_two():
    one = promised((RESPONSE,), Terms(delta=0.02), 10).epsilon
    two = promised((RESPONSE,), Terms(delta=0.02, reports_per_person=2), 10).epsilon
    others = [0] * 8
    least = ones([*others, 0, 0]), ones([*others, 1, 1])
    assert hockey_stick(*least, one) > 0.02  # what holds for one does not hold for two
    assert hockey_stick(*least, two) <= 0.02


def closing(data, minimum, coin):
    """The law of who reported last and of the ones in a batch closed at so many reports.

    People toss their coins in a known order: the strongest outsider.
    """
    found = defaultdict(float)
    for coins in itertools.product((False, True), repeat=len(data)):
        chance = math.prod(coin if tossed else 1 - coin for tossed in coins)
        senders = [place for place, tossed in enumerate(coins) if tossed][:minimum]
        if len(senders) < minimum:
            found["none", 0] += chance
            continue
        for number, weight in enumerate(ones([data[place] for place in senders])):
            found[senders[-1], number] += chance * weight
    return found


@pytest.mark.parametrize("coin", [0.2, 0.5, 0.8])
@pytest.mark.parametrize("delta", [0.2, 0.05, 0.01])
def test_a_coin_keeps_the_promise_even_if_the_order_is_known(coin, delta):
    minimum, asked = 4, 8
    epsilon = promised((RESPONSE,), Terms(delta=delta, participation=coin), minimum).epsilon
    for place, rest in itertools.product(range(asked), (0, 1)):
        laws = []
        for datum in (0, 1):
            data = [rest] * asked
            data[place] = datum
            laws.append(closing(data, minimum, coin))
        views = sorted(set(laws[0]) | set(laws[1]), key=str)
        p, q = (np.array([law[view] for view in views]) for law in laws)
        assert hockey_stick(p, q, epsilon) <= delta * (1 + 1e-9)


def test_the_coins_of_others_may_not_be_counted_on():
    """Who closes a batch took part for sure: the blanket of silent people is not there."""
    minimum, coin, epsilon = 50, 0.1, 0.5
    asked = max(range(minimum, 1000), key=lambda n: stats.binom(n - 1, coin).pmf(minimum - 1))
    last = stats.binom(asked - 1, coin).pmf(minimum - 1) * coin
    others = [0] * (minimum - 1)
    lost = last * hockey_stick(ones([*others, 0]), ones([*others, 1]), epsilon)
    silent = shoal.profile(RESPONSE, n=minimum, crowd=shoal.Crowd(participation=coin)).delta(
        epsilon
    )
    assert lost > 10 * silent
    ours = promised((RESPONSE,), Terms(delta=lost, participation=coin), minimum).epsilon
    assert ours > epsilon


def test_a_coin_helps_by_its_delta_and_never_hurts():
    always = promised((RESPONSE,), Terms(delta=1e-6), 1000).epsilon
    sometimes = promised((RESPONSE,), Terms(delta=1e-6, participation=0.1), 1000)
    assert sometimes.epsilon < always
    assert sometimes.epsilon == shoal.amplify(RESPONSE, n=1000, delta=1e-5).epsilon
    assert sometimes.delta == 1e-6
    assert any("probability 0.1" in line for line in sometimes.assumptions)
    assert any("seen to take part, epsilon holds" in line for line in sometimes.assumptions)
    assert any(line.endswith("at delta = 1e-5") for line in sometimes.assumptions)
    assert not any("only their device sees" in line for line in sometimes.assumptions)
    rare = promised((RESPONSE,), Terms(delta=1e-6, participation=1e-7), 1000)
    assert 0 <= rare.epsilon < 0.1


@settings(deadline=None, derandomize=True, max_examples=300)
@given(
    delta=st.floats(1e-30, 0.4),
    coin=st.floats(1e-300, 1.0),
    reports=st.integers(1, 40),
)
def test_the_delta_of_a_coin_is_never_rounded_up(delta, coin, reports):
    terms = Terms(delta=delta, participation=coin, reports_per_person=reports)
    exact = 1 - (1 - Fraction(coin)) ** reports
    assert Fraction(terms.delta_taking_part) * exact <= Fraction(delta)
    assert terms.delta_taking_part >= min(0.5, delta / float(exact)) * (1 - 1e-14)


@pytest.mark.slow
def test_small_deltas_of_several_reports_are_answered_without_loss_distributions():
    terms = Terms(delta=1e-20, reports_per_person=2)
    found = promised((RESPONSE,), terms, 400)
    best = shoal.amplify(RESPONSE, n=200, delta=1e-20, rounds=2, composition="best")
    assert found.epsilon == best.epsilon


@settings(deadline=None, derandomize=True, max_examples=25)
@given(
    valid=st.integers(1000, 10**7),
    local=st.sampled_from([0.5, 1.0, 3.0]),
    delta=st.sampled_from([1e-9, 1e-6, 1e-3]),
)
def test_one_report_is_the_accountants_answer(valid, local, delta):
    device = RandomizedResponse(k=4, epsilon=local)
    found = example(device, delta=delta, epsilon=5.0).guarantee(valid)
    told = shoal.amplify(device, n=valid, delta=delta)
    assert found.epsilon == pytest.approx(told.epsilon, rel=1e-12)
    assert found.lower == told.lower
    assert (found.n, found.theorem) == (valid, told.theorem)
    half = example(device, delta=delta, epsilon=5.0, dishonest=0.5).guarantee(valid)
    less = shoal.amplify(device, n=valid // 2, delta=delta)
    assert half.epsilon == pytest.approx(less.epsilon, rel=1e-12)
    assert half.n == valid // 2


def test_more_reports_hide_better_dishonest_ones_and_repeated_ones_do_not():
    survey = example(dishonest=0.1)
    found = [survey.guarantee(valid).epsilon for valid in (1000, 1100, 2000, 10**5)]
    assert found == sorted(found, reverse=True)
    shares = (0.0, 0.01, 0.1, 0.5, 0.9)
    by_share = [example(dishonest=share).guarantee(2000).epsilon for share in shares]
    assert by_share == sorted(by_share)
    reports = (1, 2, 3, 10)
    by_reports = [
        promised(survey.devices, Terms(delta=1e-6, reports_per_person=number), 3000)
        for number in reports
    ]
    assert [kept.epsilon for kept in by_reports] == sorted(kept.epsilon for kept in by_reports)
    assert [round(kept.local_epsilon, 6) for kept in by_reports] == list(reports)
    assert all(kept.lower == 0 for kept in by_reports[1:])  # of another claim


@pytest.mark.parametrize(
    ("share", "valid", "honest"),
    [(0.1, 10, 9), (0.9, 10, 1), (0.3, 10, 7), (0.35, 1000, 650), (0.999, 10, 0), (0.0, 0, 0)],
)
def test_honest_reports_are_counted_as_the_share_is_written(share, valid, honest):
    assert OpenFraction(dishonest=share).honest(valid, 1) == honest
