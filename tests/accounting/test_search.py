"""Every search returns a point that it evaluated, on the side that it names."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shoal.accounting.search import Side, crossing, doubled, largest, least, root_below
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


@given(thresholds, st.sampled_from([1, -1]), st.sampled_from([1, 3, 9]))
def test_a_root_is_an_evaluated_point_below(threshold, sign, power):
    """However flat the function is there, and although evaluations differ a little."""
    evaluated = {}

    def excess(x):
        away = sign * (x / threshold - 1)
        evaluated[x] = away**power + 1e-12 * math.sin(1e9 * x)
        return evaluated[x]

    low, high, tolerance = threshold / 3, threshold * 2, 1e-7 * threshold
    place = root_below(excess, low, high, tolerance=tolerance)
    assert evaluated[place] <= 0
    assert any(value > 0 and abs(x - place) <= tolerance for x, value in evaluated.items())
    assert abs(place / threshold - 1) < 1e-7 + 2e-12 ** (1 / power)
    assert len(evaluated) < 60


@given(thresholds, st.floats(0.5, 8.0))
def test_a_smooth_root_takes_few_evaluations(threshold, power):
    calls = []

    def excess(x):
        calls.append(x)
        return power * math.log(x / threshold)

    place = root_below(excess, threshold / 1.3, threshold * 1.2, tolerance=0)
    assert place == pytest.approx(threshold, rel=1e-15)
    assert len(calls) <= 12


@pytest.mark.parametrize("root", [0.25, 0.5, 1.0])
@pytest.mark.parametrize("outside", [math.inf, math.nan])
def test_a_root_beside_values_that_are_no_numbers(root, outside):
    place = root_below(lambda x: -1.0 if x <= root else outside, 0.0, 2.0, tolerance=0)
    assert place == root


@given(st.floats(0.05, 3.0), st.floats(-60.0, -2.0), st.sampled_from(list(Side)))
def test_a_crossing_is_an_evaluated_point_on_its_side(spread, target, side):
    evaluated = {}

    def curve(epsilon):
        evaluated[epsilon] = -0.5 - (epsilon / spread) ** 2 / 2
        return evaluated[epsilon]

    place = crossing(curve, target, cap=50.0, guess=spread, side=side)
    assert side.value * (target - evaluated[place]) >= 0
    assert place == pytest.approx(spread * math.sqrt(-2 * target - 1), rel=1e-6)


@pytest.mark.parametrize("side", Side)
@pytest.mark.parametrize("good", range(6))
def test_a_curve_that_ceases_to_be_a_number_proves_nothing(good, side):
    calls = iter(range(100))

    def curve(epsilon):
        return -1.0 - epsilon**2 if next(calls) < good else math.nan

    with pytest.raises(UncertifiedError):
        crossing(curve, -20.0 - 1e-12 * good, cap=100.0, guess=60.0, side=side)
