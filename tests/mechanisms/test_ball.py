"""Vectors up to a norm: shortened, lifted to unit vectors, and brought back."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from shoal import randomness
from shoal.errors import InvalidArgumentError
from shoal.mechanisms.registry import restored
from shoal.mechanisms.split_and_mix import SplitAndMixVectors
from shoal.mechanisms.vectors import PrivUnit, PrivUnitG, shortened
from shoal.questions.domains import Ball
from shoal.values import Batch

SIGMAS = 5.5
FLOATS = st.floats(-1e6, 1e6, allow_subnormal=False)
ROWS = arrays.arrays(np.float64, st.tuples(st.integers(1, 5), st.just(3)), elements=FLOATS)


@settings(deadline=None, derandomize=True)
@given(rows=ROWS, norm=st.floats(1e-3, 1e3))
def test_long_vectors_are_scaled_down_and_short_ones_left_alone(rows, norm):
    ball = Ball(dimension=3, norm=norm)
    found = shortened(rows, ball)
    lengths, before = np.linalg.norm(found, axis=1), np.linalg.norm(rows, axis=1)
    assert (lengths <= norm * (1 + 1e-12)).all()
    short = before <= norm * (1 - 1e-12)
    assert np.array_equal(found[short], rows[short])
    long = before > norm * (1 + 1e-12)
    assert np.allclose(found[long], rows[long] * (norm / before[long])[:, None], rtol=1e-9)
    lifted = PrivUnit(dimension=4, epsilon=1.0).fitted(ball).lift(found)
    assert np.abs(np.linalg.norm(lifted, axis=1) - 1).max() < 1e-9
    assert (lifted[:, 3] >= 0).all()
    assert np.allclose(lifted[:, :3] * norm, found, rtol=1e-12, atol=1e-12 * norm)


def test_rows_too_long_for_squares_keep_their_direction():
    ball = Ball(dimension=2, norm=5.0)
    rows = [[3e300, 4e300], [-math.inf, 7.0], [math.inf, math.inf], [1e-320, 0.0], [0.0, 0.0]]
    found = shortened(rows, ball)
    root = 5 / math.sqrt(2)
    assert np.allclose(found, [[3, 4], [-5, 0], [root, root], [0, 0], [0, 0]], atol=1e-12)


@pytest.mark.parametrize("rows", [[[math.nan, 1.0]], [[1.0, 2.0, 3.0]], [1.0, 2.0]])
def test_what_are_no_vectors_is_refused(rows):
    with pytest.raises(InvalidArgumentError, match="values"):
        shortened(rows, Ball(dimension=2, norm=1.0))


@pytest.mark.parametrize(("dimension", "norm"), [(0, 1.0), (2, 0.0), (2, -1.0), (2, math.inf)])
def test_what_is_no_ball_is_refused(dimension, norm):
    with pytest.raises(InvalidArgumentError, match=r"dimension|norm"):
        Ball(dimension=dimension, norm=norm)


@pytest.mark.parametrize("kind", [PrivUnit, PrivUnitG])
@pytest.mark.parametrize(("dimension", "epsilon"), [(3, 1.0), (3, 6.0), (12, 3.0)])
def test_the_spread_is_that_of_the_reports(kind, dimension, epsilon):
    device = kind(dimension=dimension, epsilon=epsilon)
    n = 120_000
    vector = np.zeros((n, dimension))
    vector[:, 0] = 1.0
    reports = device.randomize(vector, randomness=randomness.simulated(dimension))
    measured = (reports / 2.0**24 / device.shrinkage).var(axis=0)
    along, across = device.spread
    # A variance of n reports is off by sqrt((kurtosis - 1)/n), and none is above six.
    assert measured[0] == pytest.approx(along, rel=SIGMAS * math.sqrt(5 / n))
    assert measured[1:].mean() == pytest.approx(across, rel=SIGMAS * math.sqrt(5 / n))
    assert along + (dimension - 1) * across == pytest.approx(n * device.variance(n=n))


@pytest.mark.parametrize("kind", [PrivUnit, PrivUnitG])
def test_the_predicted_error_is_the_largest_there_is(kind):
    ball, device = Ball(dimension=3, norm=2.0), kind(dimension=4, epsilon=5.0)
    lifted = device.fitted(ball)
    along, across = device.spread
    at_zero = 4.0 * 3 * across  # the lifted vector is the coordinate that is left out
    at_the_rim = 4.0 * (2 * across + along)  # or across it
    assert lifted.variance(n=1) == pytest.approx(max(at_zero, at_the_rim))
    assert lifted.variance(n=10) < 4.0 * device.variance(n=10)


@pytest.mark.parametrize("kind", [PrivUnit, PrivUnitG])
def test_the_mean_is_unbiased_and_as_good_as_predicted(kind):
    ball, inner = Ball(dimension=3, norm=2.0), kind(dimension=4, epsilon=4.0)
    device = inner.fitted(ball)
    n, runs = 40, 1500
    rows = np.random.default_rng(1).normal(0.3, 1.0, (n, 3))
    short = shortened(rows, ball)
    truth = short.mean(axis=0)
    assert (np.linalg.norm(rows, axis=1) > 2).any()
    everybody = np.tile(short, (runs, 1))
    sent = device.randomize(everybody, randomness=randomness.simulated(8))
    means, errors = [], []
    for batch in map(Batch, np.split(sent, runs)):
        found = device.estimate(batch)
        means.append(found.mean)
        errors.append(found.standard_errors)
    off = np.array(means) - truth
    deviation = np.sqrt(device.variance(n=n) / 3)
    assert np.abs(off.mean(axis=0)).max() < SIGMAS * 1.1 * deviation / math.sqrt(runs)
    squares = (off**2).sum(axis=1)
    least = 4.0 * (inner.variance(n=n) - max(inner.spread) / n)
    slack = SIGMAS * float(squares.std()) / math.sqrt(runs)
    assert least - slack < squares.mean() < device.variance(n=n) + slack
    # Standard errors count the spread of the data too: at most one norm.
    stated = (np.array(errors) ** 2).sum(axis=1).mean()
    assert squares.mean() - slack < stated < squares.mean() + 4.0 / n + slack


def test_protocols_take_the_vectors_as_they_are():
    ball = Ball(dimension=4, norm=3.0)
    made = SplitAndMixVectors.calibrated(
        dimension=4, bound=ball.widest, n=100, epsilon=1.0, delta=1e-6
    )
    assert ball.widest == 6.0
    assert made.fitted(ball) is made
    longest = shortened(np.full((100, 4), 9.0), ball)
    assert np.abs(longest).sum(axis=1) == pytest.approx(6.0)
    found = made.estimate(made.tally(made.randomize(longest, randomness=randomness.simulated(1))))
    assert found.mean == pytest.approx(np.full(4, 1.5), abs=1.0)


def test_only_what_takes_them_all_suits():
    ball = Ball(dimension=4, norm=3.0)
    assert PrivUnit(dimension=5, epsilon=1.0).fitted(ball).domain.accepts(ball)
    assert not PrivUnit(dimension=4, epsilon=1.0).fitted(ball).domain.accepts(ball)
    asked = {"dimension": 4, "n": 100, "epsilon": 1.0, "delta": 1e-6}
    assert SplitAndMixVectors.calibrated(bound=6.0, **asked).domain.accepts(ball)
    assert not SplitAndMixVectors.calibrated(bound=5.9, **asked).domain.accepts(ball)


def test_a_lifted_randomizer_goes_by_the_inner_one():
    ball, inner = Ball(dimension=2, norm=3.0), PrivUnit(dimension=3, epsilon=1.0)
    lifted = inner.fitted(ball)
    assert lifted.described() == inner.described()
    assert restored(lifted.described(), ball) == lifted
    assert restored(lifted.described()) == inner
    assert (lifted.name, lifted.integers) == (inner.name, inner.integers)
    assert lifted.message_bytes == inner.message_bytes
