"""The limits are limits: checked against exact binomial sums, not against simulation."""

from __future__ import annotations

import math
from functools import cache

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from shoal.auditing import coin_bound, lower_bound
from shoal.auditing.limits import coin_bounds, lower_limit, upper_limit
from shoal.errors import InvalidArgumentError

shares = st.floats(0.001, 0.999)


@given(share=shares, runs=st.integers(1, 200), tail=st.sampled_from([0.2, 0.05, 1e-3, 1e-7]))
def test_limits_are_wrong_no_more_often_than_they_say(share, runs, tail):
    counts = np.arange(runs + 1)
    chances = stats.binom.pmf(counts, runs, share)
    assert chances[lower_limit(counts, runs, tail) > share].sum() <= tail * (1 + 1e-9)
    assert chances[upper_limit(counts, runs, tail) < share].sum() <= tail * (1 + 1e-9)


def test_limits_are_not_wasteful():
    counts = np.arange(1001)
    chances = stats.binom.pmf(counts, 1000, 0.3)
    assert chances[lower_limit(counts, 1000, 0.05) > 0.3].sum() > 0.03
    assert chances[upper_limit(counts, 1000, 0.05) < 0.3].sum() > 0.03


def test_limits_at_the_ends():
    assert lower_limit(0, 10, 0.05) == 0
    assert upper_limit(10, 10, 0.05) == 1
    assert upper_limit(0, 10, 0.05) == pytest.approx(1 - 0.05 ** (1 / 10), rel=1e-6)
    assert lower_limit(10, 10, 0.05) == pytest.approx(0.05 ** (1 / 10), rel=1e-6)


@cache
def lower_bounds(runs, delta, confidence):
    """Of all pairs of counts."""
    counts = range(runs + 1)
    return np.array(
        [[lower_bound(i, runs, j, runs, delta, confidence) for j in counts] for i in counts]
    )


@given(p=shares, q=shares, delta=st.sampled_from([0.0, 0.01, 0.1]))
def test_two_samples_keep_their_confidence(p, q, delta):
    runs, confidence = 25, 0.9
    truth = math.log(max(p - delta, 1e-300) / q)
    found = lower_bounds(runs, delta, confidence)
    chances = np.multiply.outer(
        stats.binom.pmf(np.arange(runs + 1), runs, p), stats.binom.pmf(np.arange(runs + 1), runs, q)
    )
    assert chances[found > max(truth, 0.0)].sum() <= 1 - confidence + 1e-12


@given(p=shares, q=shares, delta=st.sampled_from([0.0, 0.01, 0.1]))
def test_a_coin_for_every_run_keeps_its_confidence(p, q, delta):
    runs, tail = 40, 0.1
    truth = math.log(max(p - delta, 1e-300) / q)
    first, second = np.meshgrid(np.arange(runs + 1), np.arange(runs + 1), indexing="ij")
    first, second = first[first + second <= runs], second[first + second <= runs]
    cells = np.stack([first, second, runs - first - second], axis=1)
    chances = stats.multinomial.pmf(cells, runs, [p / 2, q / 2, 1 - (p + q) / 2])
    found = coin_bounds(first, second, runs, delta=delta, tail=tail)
    assert chances[found > max(truth, 0.0)].sum() <= tail + 1e-9


def test_the_coin_needs_fewer_runs():
    both = {"delta": 1e-3, "confidence": 0.999}
    separate = lower_bound(41_000, 900_000, 35_500, 900_000, **both)
    together = coin_bound(41_000, 35_500, 1_800_000, **both)
    assert 0 < separate < 0.92 * together
    assert together < math.log((41_000 / 900_000 - 1e-3) / (35_500 / 900_000))


def test_values_by_hand():
    # 10 of 10 against 0 of 10 with 5 % for each limit.
    low, high = 0.05 ** (1 / 10), 1 - 0.05 ** (1 / 10)
    expected = math.log((low - 0.1) / high)
    assert lower_bound(10, 10, 0, 10, 0.1, 0.9) == pytest.approx(expected, rel=1e-6)
    share = 0.05 ** (1 / 20)
    expected = math.log(share / (1 - share))
    assert coin_bound(20, 0, 50, delta=0.0, confidence=0.95) == pytest.approx(expected, rel=1e-6)


def test_nothing_is_known_of_nothing():
    assert lower_bound(0, 0, 0, 0, 0.0, 0.9) == 0
    assert lower_bound(0, 100, 50, 100, 0.0, 0.9) == 0
    assert coin_bound(0, 0, 100, delta=1e-6, confidence=0.9) == 0
    assert coin_bound(5, 4, 10**6, delta=0.5, confidence=0.9) == 0


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ((11, 10, 0, 10, 0.0, 0.9), "successes_p"),
        ((1, 10, -1, 10, 0.0, 0.9), "successes_q"),
        ((1, 10, 1, 10.5, 0.0, 0.9), "runs_q"),
        ((1, 10, 1, 10, 1.0, 0.9), "delta"),
        ((1, 10, 1, 10, math.nan, 0.9), "delta"),
        ((1, 10, 1, 10, 0.0, 1.0), "confidence"),
        ((1, 10, 1, 10, 0.0, 0.0), "confidence"),
    ],
)
def test_refusals(arguments, words):
    with pytest.raises(InvalidArgumentError, match=words):
        lower_bound(*arguments)


def test_more_events_than_runs_are_refused():
    with pytest.raises(InvalidArgumentError, match=r"first \+ second"):
        coin_bound(6, 5, 10, delta=0.0, confidence=0.9)
