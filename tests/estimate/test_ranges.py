"""Limits of the counts of ranges, by exact enumeration: at most sixty people, any range and data.

A range is estimated from the answers in it or from those outside. A message supports some of them,
and how many it does has a law for people inside and one for people outside: the law of the estimate
is a convolution of these, and how often the limits hold is a sum.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

import shoal
from outcomes import power
from shoal.mechanisms.carriers import CarrierHistogram
from shoal.values import Counts

LEVELS = (0.5, 0.8, 0.95, 0.99, 0.999)
ROUNDING = 1e-12


def is_direct(device, size):
    """Whether a range of so many answers is estimated by these, and not by the others."""
    inside = np.array([0.0, 1.0])
    direct, other = (np.array(float(each)) for each in (size, device.k - size))
    return (
        device.estimator.total_spread(inside, direct, direct).max()
        <= device.estimator.total_spread(inside[::-1].copy(), other, other).max()
    )


def ranges(device, values, size, n):
    """The estimates of ranges of so many answers whose unbiased estimates are these."""
    estimate = device.estimate(Counts(np.zeros(device.k, dtype=np.int64), n))
    summing_to_one = replace(estimate, frequencies=np.eye(device.k)[0])
    return device.estimator.sums(summing_to_one, values, np.full(values.size, size))


def misses(total, law, truth):
    """How often the limits of each level miss, over how often they may."""
    for level in LEVELS:
        low, high = total.interval(level)
        missed = law[(truth < low - ROUNDING) | (truth > high + ROUNDING)].sum()
        yield float(missed / (1 - level))


def response_laws(device, size):
    true, other = device.estimator.support.true, device.estimator.support.other
    hits = [other * size + (true - other) * own for own in (1, 0)]
    return [np.array([1 - hit, hit]) for hit in hits]


def independent_laws(device, size):
    """Of bits, and of hash functions as if they were random ones: each answer by itself."""
    true, other = device.estimator.support.true, device.estimator.support.other
    inside = np.convolve([1 - true, true], stats.binom.pmf(np.arange(size), size - 1, other))
    return [inside, stats.binom.pmf(np.arange(size + 1), size, other)]


def subset_laws(device, size):
    """The answer is in with probability P; the rest of the subset is any of the others."""
    chosen, true, counts = (
        device.integers["size"],
        device.estimator.support.true,
        np.arange(size + 1),
    )

    def others(inside, left):
        return stats.hypergeom.pmf(counts, device.k - 1, inside, left)

    with_own = np.append(0.0, others(size - 1, chosen - 1)[:-1])
    inside = true * with_own + (1 - true) * others(size - 1, chosen)
    return [inside, true * others(size, chosen - 1) + (1 - true) * others(size, chosen)]


KINDS = {
    shoal.RandomizedResponse: response_laws,
    shoal.UnaryEncoding: independent_laws,
    shoal.SubsetSelection: subset_laws,
    shoal.LocalHashing: independent_laws,
}


def supported_misses(kind, n, k, epsilon, size, people):
    """Of a range of so many answers that so many of n people are in."""
    device = kind(k=k, epsilon=epsilon)
    true, other, direct = (
        device.estimator.support.true,
        device.estimator.support.other,
        is_direct(device, size),
    )
    counted, own = (size, people) if direct else (k - size, n - people)
    inside, outside = KINDS[kind](device, counted)
    law = np.convolve(power(inside, own), power(outside, n - own))
    values = (np.arange(law.size) / n - counted * other) / (true - other)
    total = ranges(device, values if direct else 1 - values, size, n)
    return misses(total, law, people / n)


def settings(number, seed, most=60):
    """Random n, k, epsilon, size of the range and people in it, often nobody or everybody."""
    draw = np.random.default_rng(seed)
    for _ in range(number):
        n, k = int(draw.integers(2, 61)), int(draw.choice([2, 3, 4, 8, 20, 51, 101, 501]))
        epsilon = float(np.exp(draw.uniform(np.log(0.1), np.log(8))))
        size = int(draw.integers(1, min(k, most)))
        yield n, k, epsilon, size, int(draw.choice([0, 1, n - 1, n, draw.integers(0, n + 1)]))


@pytest.mark.parametrize(
    ("number", "seed", "most"),
    [
        (120, 3, 12),
        *(pytest.param(300, seed, 60, marks=pytest.mark.slow) for seed in range(10)),
    ],
)
@pytest.mark.parametrize("kind", list(KINDS))
def test_ranges_of_few_people_are_covered_at_every_level(kind, number, seed, most):
    for n, k, epsilon, size, people in settings(number, seed, most):
        if kind is shoal.SubsetSelection and k > 101:
            continue
        missed = max(supported_misses(kind, n, k, epsilon, size, people))
        assert missed <= 1, (n, k, epsilon, size, people)


@pytest.mark.parametrize(
    ("n", "k", "epsilon", "size", "people"),
    [
        (30, 501, 2.88, 2, 30),
        (10, 101, 1.79, 1, 9),
        (100, 501, 2.31, 3, 100),
        (30, 51, 1.09, 1, 30),
        (59, 51, 0.41, 2, 59),
    ],
)
def test_ranges_that_nearly_everybody_is_in_are_covered(n, k, epsilon, size, people):
    """Estimates above 1 are likely here, and had the error of 1."""
    assert max(supported_misses(shoal.RandomizedResponse, n, k, epsilon, size, people)) <= 1


def test_ranges_among_dummies_are_covered():
    for n, k, epsilon, size, people in settings(120, seed=5):
        device = shoal.UniformDummies(k=k, dummies=epsilon)
        direct = is_direct(device, size)
        share = (size if direct else k - size) / k
        always, trials = n * device.added.always, np.arange(n * device.added.always + 1)
        law = np.convolve(
            stats.binom.pmf(trials, always, share),
            stats.binom.pmf(np.arange(n + 1), n, device.added.sometimes * share),
        )
        noise = (np.arange(law.size) - n * device.dummies * share) / n
        total = ranges(device, people / n + (noise if direct else -noise), size, n)
        assert max(misses(total, law, people / n)) <= 1, (n, k, device.dummies, size, people)


@pytest.mark.parametrize("kind", [shoal.HadamardResponse, shoal.ProjectiveGeometryResponse])
def test_ranges_of_geometries_are_covered(kind):
    """Of all messages in the table, by their scores, whose sums are whole numbers of steps."""
    draw = np.random.default_rng(7)
    for n, k, epsilon, *_ in settings(40, seed=9):
        device = kind(k=min(k, 20), epsilon=max(0.3, epsilon))
        size = int(draw.integers(1, device.k))
        first = int(draw.integers(0, device.k - size + 1))
        answers = draw.integers(0, device.k, n) if draw.random() < 0.5 else np.full(n, first)
        one = np.eye(device.outputs, dtype=np.int64)
        scores = np.array([device.estimate(Counts(each, 1)).frequencies for each in one])
        own = scores[:, first : first + size].sum(axis=1)
        own = own if is_direct(device, size) else own + 1 - scores.sum(axis=1)
        step = np.diff(np.unique(own.round(9))).min(initial=np.ptp(own) or 1.0)
        places = np.rint((own - own.min()) / step).astype(np.int64)
        assert places * step + own.min() == pytest.approx(own, abs=1e-6)
        law = np.ones(1)
        for answer in answers.tolist():
            law = np.convolve(law, np.bincount(places, weights=device.table()[answer]))
        counts = Counts(np.eye(1, device.outputs, dtype=np.int64)[0] * n, n)
        estimate = replace(device.estimate(counts), frequencies=np.eye(device.k)[0])
        values = np.arange(law.size) * step / n + own.min()
        total = device.estimator.sums(estimate, values, np.full(values.size, size))
        truth = np.mean((answers >= first) & (answers < first + size))
        missed = dict(zip(LEVELS, misses(total, law, truth), strict=True))[0.95]
        assert missed <= 1, (n, device, first, size)


@pytest.mark.parametrize(("n", "epsilon"), [(60, 0.3), (10, 1.0), (30, 4.0)])
def test_ranges_of_two_near_central_bins_have_the_law_of_their_one_error(n, epsilon):
    device = shoal.NearCentralCount.calibrated(n=n, epsilon=epsilon, delta=1e-4)
    error = device.error(n)
    noise = np.arange(-error.quantile(1e-9), error.quantile(1e-9) + 1)
    law = np.array([error.beyond(abs(z) - 1) - error.beyond(abs(z)) for z in noise if z])
    law = np.insert(law, noise.size // 2, 1 - law.sum())
    for people in (1, n):  # with the answer 1
        missed = np.zeros((4, 3))
        for z, chance in zip(noise.tolist(), law, strict=True):
            estimate = device.estimate(Counts(np.array([0, people + z]), n))
            starts, stops = np.array([0, 1, 0, 0]), np.array([1, 2, 2, 1])
            truth = np.array([n - people, people, n, n - people + 0.3 * people]) / n
            plain = device.estimator.totals(estimate, starts[:3], stops[:3])
            weighted = device.estimator.totals(estimate, starts[3:], stops[3:], last=0.3)
            for at, level in enumerate((0.95, 0.999, 0.999999)):
                ends = zip(plain.interval(level), weighted.interval(level), strict=True)
                low, high = (np.concatenate(both) for both in ends)
                missed[:, at] += chance * ((truth < low - ROUNDING) | (truth > high + ROUNDING))
                # The bars of the two bins have the same limits.
                assert np.allclose(plain.interval(level)[0][:2], estimate.interval(level)[0])
        assert (missed <= [0.05, 0.001, 0.000001]).all()
        assert missed[2].max() == 0  # everybody is in one of both


@pytest.mark.parametrize("last", [0.1, 0.5, 0.75])
@pytest.mark.parametrize(("n", "epsilon"), [(20, 8.0), (60, 2.0)])
def test_totals_of_carried_answers_have_the_law_of_their_errors(n, epsilon, last):
    """Given how many carriers there are, errors are differences of negative binomial counts."""
    k, levels, span = 4, (0.5, 0.95, 0.999, 0.999999), np.arange(-400, 401)
    device = CarrierHistogram.calibrated(k=k, n=n, epsilon=epsilon, delta=1e-4)
    estimate, share = (
        device.estimate(Counts(np.zeros(2 * k, dtype=np.int64), n)),
        device.error(n).law,
    )
    stops = np.arange(1, k)
    total = device.estimator.totals(estimate, np.zeros_like(stops), stops, last=last)
    reaches = np.array([np.subtract(*total.interval(level)[::-1]) * n / 2 for level in levels])
    missed = np.zeros((2, *reaches.shape))

    def pmf(number):
        """Of a difference of two negative binomial counts, from its transform."""
        angles = np.pi * np.arange(2049) / 2048
        waves = 4 * share.variance / share.shape * np.sin(angles / 2) ** 2
        whole = np.fft.irfft((1 + waves) ** (-share.shape * number))
        return np.maximum(whole, 0.0)[span]

    for number, chance in enumerate(stats.binom.pmf(np.arange(n + 1), n, device.carriers)):
        for column, stop in enumerate(stops.tolist() if number else []):
            mean = (stop + last) / k
            places, law = np.zeros(1), np.ones(1)
            for weight, size in ((-mean, k - 1 - stop), (last - mean, 1)):
                own = pmf(number * size) if size else (span == 0).astype(float)
                likely = own > 1e-13
                places = np.add.outer(places, weight * span[likely]).ravel()
                law = np.multiply.outer(law, own[likely]).ravel()
            above = np.append(np.cumsum(pmf(number * stop)[::-1])[::-1], 0.0)
            for i, reach in np.ndenumerate(np.outer([1, 0.9], reaches[:, column])):
                first = np.floor((reach - places) / (1 - mean) + 1e-7).astype(int) + 1 + 400
                missed[(*i, column)] += 2 * chance * law @ above[np.clip(first, 0, 801)]
    allowed = 1 - np.array(levels)[:, None]
    assert (missed[0] <= allowed * (1 + 1e-6) + 1e-11).all()
    assert (missed[1, 2:] > allowed[2:] * 0.999).any(axis=1).all()  # hardly wider than they must be


def test_everybody_and_nobody_are_known_of_carried_answers():
    device = CarrierHistogram.calibrated(k=6, n=60, epsilon=2.0, delta=1e-4)
    estimate = device.estimate(Counts(np.zeros(12, dtype=np.int64), 60))
    low, high = device.estimator.sums(estimate, np.zeros(7), np.arange(7)).interval()
    reach = high - low
    assert reach == pytest.approx(reach[::-1])  # by the answers inside, or by those outside
    assert reach[0] == 0 < reach[1:4].min()


@pytest.mark.parametrize(
    ("kind", "n", "k", "epsilon", "people", "level"),
    [
        (shoal.RandomizedResponse, 2, 376, 5.69, 2, 0.5),
        (shoal.RandomizedResponse, 29, 4737, 5.32, 29, 0.6),
        (shoal.RandomizedResponse, 1830, 7, 5.82, 0, 0.999),
        (shoal.RandomizedResponse, 1708, 7, 4.21, 0, 0.9999),
        (shoal.RandomizedResponse, 1193, 2, 4.45, 0, 0.999999),
        (shoal.RandomizedResponse, 60, 2, 1.82, 59, 0.999999),
    ],
)
def test_single_answers_are_covered_at_other_levels(kind, n, k, epsilon, people, level):
    device, counts = kind(k=k, epsilon=epsilon), np.arange(n + 1)
    law = np.convolve(
        stats.binom.pmf(np.arange(people + 1), people, device.estimator.support.true),
        stats.binom.pmf(np.arange(n - people + 1), n - people, device.estimator.support.other),
    )
    limits = []
    for own in counts[law > 1e-12]:
        cells = np.append([own, n - own], np.zeros(k - 2, dtype=np.int64))
        low, high = device.estimate(Counts(cells, n)).interval(level)
        limits.append((low[0], high[0]))
    low, high = np.array(limits).T
    outside = (people / n < low - ROUNDING) | (people / n > high + ROUNDING)
    assert law[law > 1e-12][outside].sum() <= 1 - level
