"""Cumulative curves, quantiles and counts of ranges: what their limits rest on, and that they hold.

That variances are at least the real ones is checked against every message of small randomizers;
coverage by simulation, where a false alarm is one in a million.
"""

from __future__ import annotations

import math
from dataclasses import replace
from functools import reduce

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binom

from outcomes import NAMES, estimated, holding, made, messages
from shoal import (
    HadamardResponse,
    LocalHashing,
    ProjectiveGeometryResponse,
    RandomizedResponse,
    SubsetSelection,
    UnaryEncoding,
)
from shoal.accounting.noise.near_central_histogram import CountLaw
from shoal.errors import InvalidArgumentError
from shoal.estimate.distribution import Distribution, isotonic
from shoal.intervals.estimates import IndependentErrors
from shoal.intervals.laws import Difference, WeightedSum
from shoal.mechanisms.dummies import UniformDummies
from shoal.mechanisms.histograms import LeanHistogram, OfBuckets
from shoal.planning import Setting
from shoal.planning.errors import of_total
from shoal.questions.domains import Cells
from shoal.questions.edges import Edges
from shoal.questions.terms import Crowd
from shoal.randomness import simulated
from shoal.values import Counts

NUMBERED = (RandomizedResponse, HadamardResponse, ProjectiveGeometryResponse)
EXACT = (RandomizedResponse, UnaryEncoding, SubsetSelection)


@pytest.mark.parametrize("family", [*NUMBERED, UnaryEncoding, SubsetSelection])
@pytest.mark.parametrize("k", [2, 3, 8, 13])
@pytest.mark.parametrize("epsilon", [0.5, 3.0])
def test_the_spread_of_a_total_is_at_least_that_of_all_messages(family, k, epsilon):
    device, generator = family(k=k, epsilon=epsilon), np.random.default_rng(k)
    cells, table = messages(device)
    scores = np.array([device.estimate(Counts(cell, 1)).frequencies for cell in cells])
    for _ in range(8):
        weights = generator.integers(0, 2, k) * generator.choice([1.0, 0.3], k, p=[0.8, 0.2])
        total, squares = np.full(k, weights.sum()), np.full(k, (weights**2).sum())
        sums = scores @ weights
        variances = table @ sums**2 - (table @ sums) ** 2
        bound = device.estimator.total_spread(weights, total, squares)
        assert (bound >= variances - 1e-9 * (1 + variances)).all()
        if family in EXACT:
            assert bound == pytest.approx(variances, rel=1e-9, abs=1e-9)


def test_the_spread_of_a_hashed_total_is_at_least_that_of_many_messages():
    device, weights = LocalHashing(k=16, epsilon=2.0), np.repeat([1.0, 0.0], [6, 10])
    total, squares = np.full(2, 6.0), np.full(2, 6.0)
    bound = device.estimator.total_spread(np.array([1.0, 0.0]), total, squares)
    for answer, most in zip((3, 12), bound, strict=True):
        messages = device.randomize(np.full(60_000, answer), randomness=simulated(answer))
        supported = device.codec.supports(messages, range(16)) @ weights
        true, other = device.estimator.support.true, device.estimator.support.other
        spread = np.var(supported / (true - other))
        assert spread <= most
        assert spread >= most / 20


MECHANISMS = {
    **{
        name: lambda k, name=name: made(name, k=k, n=PEOPLE)
        for name in (*NAMES, "hashed-dummies", "zero-sum")
    },
    "grr, rare lies": lambda k: RandomizedResponse(k=k, epsilon=6.0),
    "few dummies": lambda k: UniformDummies(k=k, dummies=0.05),
}
BINS, PEOPLE = 10, 300


@pytest.mark.parametrize(
    ("extra", "repetitions"),
    [(0, 60), (1, 60), pytest.param(1, 4000, marks=pytest.mark.slow)],
    ids=["drop_nulls", "none", "many"],
)
@pytest.mark.parametrize("name", MECHANISMS)
def test_limits_hold_as_often_as_they_say(name, extra, repetitions):
    device, held = MECHANISMS[name](BINS + extra), np.zeros(4)
    generator, bins = np.random.default_rng(7), Edges.of(BINS, (0, BINS - 1), n=PEOPLE)
    for seed in range(repetitions):
        spread = generator.dirichlet(np.full(device.k, 0.5))
        values = generator.choice(device.k, PEOPLE, p=spread)
        values[0] = generator.integers(BINS)  # somebody has a value
        found = Distribution(bins, estimated(device, values, seed), device.estimator)
        held += holding(found, values, BINS, generator)
    assert (held >= binom.ppf(1e-8, repetitions, 0.95)).all(), held


@pytest.mark.parametrize(
    "groups",
    [((1.0, 1),), ((0.5, 2), (0.5, 2)), ((0.7, 3), (0.3, 7)), ((0.6, 4), (0.4, 5), (0.1, 1))],
)
@pytest.mark.parametrize("tail", [0.025, 1e-4])
def test_limits_of_near_central_totals_are_quantiles_of_their_law(groups, tail):
    numbers = np.arange(-90, 91)
    one = math.tanh(0.3) * np.exp(-0.6 * np.abs(numbers))
    places, pmf = np.zeros(1), np.ones(1)
    for weight, number in groups:
        law = reduce(np.convolve, [one] * number)
        own = weight * (np.arange(law.size) - law.size // 2)
        likely = law > 1e-14
        places = np.add.outer(places, own[likely]).ravel().round(9)
        pmf = np.multiply.outer(pmf, law[likely]).ravel()
        places, at = np.unique(places, return_inverse=True)
        pmf = np.bincount(at, weights=pmf)
    law = CountLaw.geometric(0.6)
    limit = WeightedSum(tuple((law, *group) for group in groups)).reach(tail)
    assert pmf[places >= limit].sum() <= tail
    assert pmf[places >= 0.995 * limit].sum() > 0.97 * tail


def test_the_median_of_500_people_in_100_bins_is_as_good_as_a_curators():
    n, k, generator, bits = 500, 100, np.random.default_rng(3), simulated(3)
    device = LeanHistogram.calibrated(k=k, n=n, epsilon=1.0, delta=1e-6)
    curator = Difference(CountLaw.geometric(0.5))  # two counts change by 1: half of epsilon each
    bins = Edges.of(k, (0, 99), n=n)
    widths, held = np.zeros(2), 0
    for _ in range(40):
        values = np.clip(generator.normal(50, 20, n), 0, 99).astype(int)
        noise = generator.geometric(-math.expm1(-0.5), (2, k))
        counts = np.bincount(values, minlength=k) + noise[0] - noise[1]
        ours = device.estimate(device.tally(device.randomize(values, randomness=bits)))
        central = OfBuckets(k, lambda _: curator, laplace=True)
        theirs = IndependentErrors.counted(counts, curator, n=n)
        both = (ours, device.estimator), (theirs, central)
        medians = [Distribution(bins, *each).median() for each in both]
        widths += [median.high - median.low + 1 for median in medians]
        held += medians[0].low <= np.sort(values)[n // 2 - 1] <= medians[0].high
    assert widths[0] <= 1.2 * widths[1]
    assert held >= binom.ppf(1e-7, 40, 0.95)


def known(counts):
    """A distribution of these counts, hardly randomized at all."""
    k = len(counts)
    device = RandomizedResponse(k=k, epsilon=20.0)
    cells = np.array(counts, dtype=np.int64)
    return Distribution(
        Edges.of(k, (0, k - 1), n=1),
        device.estimate(Counts(cells, int(cells.sum()))),
        device.estimator,
    )


def test_quantiles_of_what_is_known_are_those_of_the_data():
    found = known([10, 0, 30, 40, 20])
    for q, value in ((0.05, 0), (0.1, 0), (0.11, 2), (0.4, 2), (0.41, 3), (0.8, 3), (0.99, 4)):
        quantile = found.quantile(q)
        assert quantile.low <= value <= quantile.high, q
        assert quantile.value == value or q in {0.1, 0.4, 0.8}
    assert found.median().to_dict() == {"quantile": 0.5, "value": 3, "low": 3, "high": 3}
    assert found.range(2, 3).count == pytest.approx(70, abs=1e-3)
    assert str(found.range(2, 3)).startswith("2 to 3: 70.00")


def test_values_are_interpolated_inside_a_bin_of_numbers():
    device = RandomizedResponse(k=2, epsilon=25.0)
    cells = np.array([100, 300])
    found = Distribution(
        Edges.of([0.0, 1.0, 4.0], n=1), device.estimate(Counts(cells, 400)), device.estimator
    )
    assert found.quantile(0.5).value == pytest.approx(2.0, abs=1e-3)
    assert (found.quantile(0.5).low, found.quantile(0.5).high) == (1.0, 4.0)
    assert found.quantile(0.125).value == pytest.approx(0.5, abs=1e-3)


@given(st.lists(st.floats(-10, 10), min_size=1, max_size=12), st.data())
def test_the_rising_curve_is_the_nearest_one(values, data):
    weights = np.array(
        data.draw(st.lists(st.floats(0.1, 10), min_size=len(values), max_size=len(values)))
    )
    rising = isotonic(np.array(values), weights)
    assert (np.diff(rising) >= 0).all()
    # Optimal: moving every pool, or the curve towards any rising one, takes it no nearer.
    other = np.sort(
        data.draw(st.lists(st.floats(-10, 10), min_size=len(values), max_size=len(values)))
    )
    slope = np.sum(weights * (np.array(values) - rising) * (other - rising))
    assert slope <= 1e-6


def test_bands_of_the_whole_curve_never_fall_and_hold_those_of_each_point():
    device = RandomizedResponse(k=21, epsilon=2.0)
    values = np.random.default_rng(1).integers(0, 20, 2000)
    estimate = estimated(device, values, 1)
    found = Distribution(Edges.of(20, (0, 19), n=1), estimate, device.estimator)
    point, curve = found.cumulative(), found.cumulative(simultaneous=True)
    assert (np.diff(curve.low) >= 0).all()
    assert (np.diff(curve.high) >= 0).all()
    assert np.mean(curve.high - curve.low) > np.mean(point.high - point.low)
    assert (np.diff(point.fractions) >= 0).all()
    wider = found.quantile(0.5, 0.999)
    narrow = found.quantile(0.5, 0.5)
    assert wider.low <= narrow.low <= narrow.high <= wider.high


@pytest.mark.parametrize("q", [0.0, 1.0, -1.0, float("nan")])
def test_quantiles_are_between_zero_and_one(q):
    with pytest.raises(InvalidArgumentError, match="quantile"):
        known([5, 5]).quantile(q)


@pytest.mark.parametrize("name", MECHANISMS)
@pytest.mark.parametrize("quantile", [0.2, 0.5])
def test_a_plan_predicts_the_error_of_a_quantile(name, quantile):
    device = MECHANISMS[name](BINS)
    setting = Setting(domain=Cells(BINS), n=PEOPLE, epsilon=1, delta=1e-6)
    size = round(quantile * BINS)
    counts = np.repeat([quantile / size, (1 - quantile) / (BINS - size)], [size, BINS - size])
    values = np.repeat(np.arange(BINS), np.rint(PEOPLE * counts).astype(int))
    estimate = estimated(device, values, 1)
    total = device.estimator.totals(estimate, np.array([0]), np.array([size]))
    predicted = of_total(device, setting, quantile)
    assert PEOPLE * total.standard_errors[0] == pytest.approx(predicted, rel=0.25)
    few = replace(setting, crowd=Crowd(participation=0.5))
    sampled = PEOPLE * quantile * (1 - quantile)
    expected = 4 * of_total(device, replace(setting, n=PEOPLE // 2), quantile) ** 2 + sampled
    assert of_total(device, few, quantile) ** 2 == pytest.approx(expected)
