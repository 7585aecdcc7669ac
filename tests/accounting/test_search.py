"""Every search returns a point that it evaluated, on the side that it names."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shoal.accounting.search import Side, crossing, doubled, kept, largest, least, reached
from shoal.errors import UncertifiedError

thresholds = st.floats(1e-3, 1e3)


@given(st.integers(1, 10**6))
def test_whole_numbers_are_found_exactly(threshold):
    assert least(lambda n: n >= threshold, 0, 10**7) == threshold
    assert largest(lambda n: n < threshold, 0, 10**7) == threshold - 1
    low, high = doubled(lambda n: n >= threshold, 1, 10**7)
    assert low < threshold <= high


@given(thresholds, st.booleans())
def test_halving_ends_on_the_named_side(threshold, geometric):
    evaluated = {}

    def above(x):
        evaluated[x] = x >= threshold
        return evaluated[x]

    first = least(above, 1e-4, 1e4, tolerance=1e-9, geometric=geometric)
    assert evaluated[first]
    assert first <= threshold * (1 + 2e-9)
    evaluated.clear()
    last = largest(lambda x: not above(x), 1e-4, 1e4, tolerance=1e-9, geometric=geometric)
    assert not evaluated[last]
    assert last >= threshold * (1 - 2e-9)


@given(thresholds, st.sampled_from([1, -1]), st.sampled_from([None, 1e-5]))
def test_what_is_kept_is_kept_there(threshold, sign, step):
    """A kink at the root, and evaluations that differ a little: Brent's root is on either side."""
    evaluated = {}

    def excess(x):
        away = sign * (x - threshold)
        evaluated[x] = away**3 + 1e-9 * threshold**3 * math.sin(1e9 * x)
        return evaluated[x]

    low, high = threshold / 3, threshold * 2
    place = kept(excess, low, high, tolerance=1e-7, step=step)
    assert evaluated[place] <= 0
    assert abs(place - threshold) < 0.02 * max(1.0, threshold)


@given(thresholds)
def test_what_is_reached_is_reached_there(threshold):
    evaluated = {}

    def excess(x):
        evaluated[x] = math.log(x / threshold)
        return evaluated[x]

    place = reached(excess, threshold / 3, threshold * 2, tolerance=1e-3 * threshold)
    assert evaluated[place] >= 0
    assert place <= threshold * 1.01


@given(st.floats(0.05, 3.0), st.floats(-60.0, -2.0), st.sampled_from(list(Side)))
def test_a_crossing_is_an_evaluated_point_on_its_side(spread, target, side):
    evaluated = {}

    def curve(epsilon):
        evaluated[epsilon] = -0.5 - (epsilon / spread) ** 2 / 2
        return evaluated[epsilon]

    place = crossing(curve, target, cap=50.0, guess=spread, side=side)
    assert side.value * (target - evaluated[place]) >= 0
    assert place == pytest.approx(spread * math.sqrt(-2 * target - 1), rel=1e-6)


@pytest.mark.parametrize("good", range(6))
def test_a_curve_that_ceases_to_be_a_number_proves_nothing(good):
    calls = iter(range(100))

    def curve(epsilon):
        return -1.0 - epsilon**2 if next(calls) < good else math.nan

    with pytest.raises(UncertifiedError):
        crossing(curve, -20.0 - 1e-12 * good, cap=100.0, guess=60.0, side=Side.UPPER)
