"""Weighted sums of answers and mean scores: no bias, the stated errors, limits that hold.

Of few people all outcomes are listed, so that coverage is a sum. Simulations of a mechanism that
covers as often as it says, or has the error that is predicted, fail less than once in a million.
"""

from __future__ import annotations

import functools
import itertools
import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

import shoal
from outcomes import EVERY, LOCAL, NAMES, estimated, made, messages, power
from shoal.estimate.groups import split
from shoal.estimate.means import means, predicted
from shoal.intervals.estimates import Estimate, LinearTotals
from shoal.mechanisms import hashing
from shoal.mechanisms.counts import NearCentralCount
from shoal.mechanisms.dummies import UniformDummies
from shoal.mechanisms.estimators import AnswerEstimator
from shoal.mechanisms.histograms import RobustHistogram
from shoal.mechanisms.zero_sum import SparseHistogram, ZeroSumCount, ZeroSumHistogram
from shoal.randomness import simulated
from shoal.values import Counts

LEVELS = (0.5, 0.8, 0.95, 0.99, 0.999, 0.999999)
_RARE = 1e-4  # misses
RARE = 1e-8  # of tests of which there are some dozens
ROUNDING = 1e-12
# ------------------------------------------------------------------------- all outcomes, by listing


def multisets(size, kinds):
    """How often each kind is in a multiset, for all of them."""
    places = itertools.combinations(range(size + kinds - 1), kinds - 1)
    ends = np.array([(-1, *each, size + kinds - 1) for each in places])
    return np.diff(ends, axis=1) - 1


class Listed:
    """All that a few people's messages can be, with the weighted sums and limits of each."""

    def __init__(self, device, n, weights):
        self.n, self.weights, (cells, self.table) = n, weights, messages(device)
        self.data, self.sent = multisets(n, device.k), multisets(n, len(cells))
        totals = [
            device.estimator.weighted(device.estimate(Counts(counts @ cells, n)), weights)
            for counts in self.sent
        ]
        self.values = np.array([total.frequencies for total in totals])
        # (outcomes, levels, low or high, rows)
        self.limits = np.array([[total.interval(level) for level in LEVELS] for total in totals])

    @functools.cache  # noqa: B019 - a test is over soon
    def law(self, data):
        """The probabilities of all numbers of messages."""
        law = np.zeros((self.n + 1,) * self.table.shape[1])
        if not sum(data):
            law[(0,) * law.ndim] = 1.0
            return law
        last = next(x for x, people in enumerate(data) if people)
        others = self.law(tuple(people - (x == last) for x, people in enumerate(data)))
        for message, chance in enumerate(self.table[last]):
            law += chance * np.roll(others, 1, axis=message)
        return law

    def of(self, data):
        """The truth of the sums, and the probability of each outcome."""
        law = self.law(tuple(data.tolist()))
        return self.weights @ data / self.n, law[tuple(self.sent.T)]


def rows(k, seed=0):
    """A scale, a scale of which one answer is none, one answer, and any weights."""
    draw = np.random.default_rng(seed)
    scale = np.arange(k) / max(1, k - 1)
    return np.array([scale, np.where(np.arange(k) == 1, 0.3, scale), np.eye(k)[0], draw.random(k)])


FEW = [
    (shoal.RandomizedResponse, 6, 4),
    (shoal.HadamardResponse, 5, 3),
    (shoal.ProjectiveGeometryResponse, 6, 3),
    (shoal.SubsetSelection, 5, 3),
    (shoal.UnaryEncoding, 5, 2),
]


SETTINGS_OF_FEW = [
    *itertools.product(FEW, [1.0, 4.0], [1]),
    *(
        pytest.param(few, epsilon, 3, marks=pytest.mark.slow)
        for few in (
            *FEW,
            (shoal.RandomizedResponse, 2, 3),
            (shoal.RandomizedResponse, 25, 3),
            (shoal.RandomizedResponse, 40, 2),
            (shoal.HadamardResponse, 8, 3),
            (shoal.ProjectiveGeometryResponse, 20, 3),
            (shoal.SubsetSelection, 5, 4),
            (shoal.SubsetSelection, 20, 3),
            (shoal.UnaryEncoding, 10, 2),
        )
        for epsilon in (0.2, 0.5, 2.0, 3.0, 6.0, 8.0)
    ),
]


@pytest.mark.parametrize(("few", "epsilon", "seeds"), SETTINGS_OF_FEW)
def test_of_few_people_sums_have_no_bias_their_variance_and_limits_that_hold(few, epsilon, seeds):
    (kind, n, k), allowed = few, 1 - np.array(LEVELS)
    device, weights = kind(k=k, epsilon=epsilon), np.concatenate([rows(k, i) for i in range(seeds)])
    # One in a million misses is where limits by normal laws end: 1.06e-6 is the most among these.
    allowed[allowed < _RARE] *= 1.1 if seeds > 1 else 1.0
    listed = Listed(device, n, weights)
    for data in listed.data:
        truth, law = listed.of(data)
        assert law @ listed.values == pytest.approx(truth, abs=1e-9)
        variance = device.estimator.weighted_variance(weights, data / n, n=n)
        assert law @ (listed.values - truth) ** 2 == pytest.approx(variance, rel=1e-7, abs=1e-9)
        low, high = listed.limits[:, :, 0], listed.limits[:, :, 1]
        missed = (truth < low - ROUNDING) | (truth > high + ROUNDING)
        often = np.einsum("o,olr->lr", law, missed)
        assert (often <= allowed[:, None] + 1e-9).all(), (device, data)


# --------------------------------------------------------------------------------- what spread says


@pytest.mark.parametrize("k", [2, 3, 5, 8, 13])
@pytest.mark.parametrize("epsilon", [0.5, 3.0])
def test_the_spread_of_a_person_is_that_of_all_messages(k, epsilon):
    weights = np.random.default_rng(k).normal(size=(4, k))
    for kind, *_ in FEW:
        device = kind(k=k, epsilon=epsilon)
        cells, table = messages(device)
        scores = np.array([device.estimate(Counts(each, 1)).frequencies for each in cells])
        sums = scores @ weights.T
        variances = table @ sums**2 - (table @ sums) ** 2
        spread = device.estimator.spread(weights)
        assert pytest.approx(variances, rel=1e-7, abs=1e-7) == spread.T


@pytest.mark.parametrize("g", [2, 3, 4, 8, 21])
def test_three_answers_share_a_bucket_as_often_as_is_said(g):
    k, drawn = 9, 40_000
    functions = hashing.drawn_functions(drawn, simulated(g))
    buckets = np.array([hashing.hashed(functions, np.uint64(key), g) for key in range(k)])
    same = buckets[:, None] == buckets
    for own in (0, 3, 8):
        sharing = hashing.sharing(own, k, g)
        others = [key for key in range(k) if key != own]
        for j, other in itertools.combinations(others, 2):
            seen = np.count_nonzero(same[own, j] & same[own, other])
            low, high = stats.binom.interval(1 - RARE / 100, drawn, sharing[j, other])
            assert low <= seen <= high, (own, j, other)


@pytest.mark.parametrize("name", ["hashing", "hashed-dummies"])
def test_the_spread_of_hashed_answers_is_that_of_many_people(name):
    k, n = 9, 20_000
    device = made(name, k=k, n=n)
    weights = np.random.default_rng(1).uniform(-1, 1, size=(3, k))
    spread = device.estimator.spread(weights)
    for own in (0, 4):
        reports = device.randomize(np.full(n, own), randomness=simulated(own))
        rows, sizes = getattr(reports, "messages", reports), getattr(reports, "sizes", 1)
        scores = device.codec.supports(rows, range(k)) @ weights.T
        owners = np.repeat(np.arange(n), sizes)
        parts = np.array([np.bincount(owners, weights=each) for each in scores.T])
        scale = 1 - device.collision if name == "hashed-dummies" else None
        support = getattr(device.estimator, "support", None)
        scale = support.true - support.other if support else scale
        assert parts.var(axis=1) / scale**2 == pytest.approx(spread[:, own], rel=0.1)


@given(seed=st.integers(0, 10**6), k=st.integers(2, 9))
def test_no_data_have_more_variance_than_the_line(seed, k):
    """It is above the mean of V at the mean of w, and at the estimate as low as two answers are."""
    draw = np.random.default_rng(seed)
    weights, spread = np.round(draw.random(k), 1), draw.random(k)
    span = np.ptp(weights)
    if not span:
        return
    at = weights.min() + span * draw.uniform(0.001, 0.999)
    seen = Estimate(np.zeros(k), np.zeros(k), n=1)
    line = LinearTotals.of(np.array([at]), weights[None], spread[None], seen)
    height, slope = line.standard_errors[0] ** 2, line.units.variance_slope[0] * span
    for fractions in draw.dirichlet(np.full(k, 0.5), size=20):
        assert spread @ fractions <= height + slope * (weights @ fractions - at) + 1e-9
    pairs = itertools.permutations(zip(weights, spread, strict=True), 2)
    chords = ((v * (b - at) + u * (at - a)) / (b - a) for (a, v), (b, u) in pairs if a < at < b)
    assert height == pytest.approx(max(*chords, *spread[weights == at], 0.0), rel=1e-6)


# ------------------------------------------------------------------------- errors of a known law


def spaced(law, stride):
    """The same of multiples; of −1 and less, turned round."""
    out = np.zeros((law.size - 1) * abs(stride) + 1)
    out[:: abs(stride)] = law
    return out[::-1] if stride < 0 else out


def check_tails(total, law, first, unit):
    """``law`` is of errors first × unit, (first + 1) × unit, ..., in people.

    Limits hold at every level, and the next ones, by a twentieth nearer, hardly ever do.
    """
    errors = (first + np.arange(law.size)) * unit / total.n
    assert law @ errors == pytest.approx(0, abs=1e-9)
    deviation = math.sqrt(law @ errors**2)
    assert float(total.standard_errors[0]) == pytest.approx(deviation, rel=1e-6)
    for level in LEVELS:
        low, high = (float(ends[0] - total.frequencies[0]) for ends in total.interval(level))
        tail = (1 - level) / 2
        assert law[errors > -low + ROUNDING].sum() <= tail * (1 + 1e-9)
        assert law[errors < -high - ROUNDING].sum() <= tail * (1 + 1e-9)
        near = 0.95, unit / total.n
        assert law[errors >= -low * near[0] - near[1]].sum() > tail
        assert law[errors <= -high * near[0] + near[1]].sum() > tail


WEIGHTS = np.array([[0.0, 0.25, 1.0, 0.5, 0.25]])  # their mean is 0.4
STRIDES = np.array([-8, -3, 12, 2, -3])  # less that, in parts of 0.05


@pytest.mark.parametrize(("dummies", "n"), [(0.2, 40), (1.3, 40), (2.0, 200)])
def test_weighted_sums_among_dummies_have_the_law_of_the_dummies(dummies, n):
    device = UniformDummies(k=5, dummies=dummies)
    one = np.bincount(STRIDES + 8, minlength=21) / 5
    rest = device.added.sometimes
    some = rest * one
    some[8] += 1 - rest
    law = np.convolve(power(one, n * device.added.always), power(some, n))
    estimate = device.estimate(Counts(np.full(5, n), n))
    total = device.estimator.weighted(estimate, WEIGHTS)
    assert (
        total.interval()[0][0]
        < total.frequencies[0]
        == pytest.approx(WEIGHTS[0] @ estimate.frequencies + 0.4 * (1 - estimate.frequencies.sum()))
    )
    check_tails(total, law, -8 * n * (device.added.always + 1), 0.05)


@pytest.mark.parametrize("kind", [SparseHistogram, ZeroSumHistogram])
@pytest.mark.parametrize(("gamma", "n"), [(0.01, 30), (0.2, 30), (0.05, 200)])
def test_weighted_sums_among_copies_have_the_law_of_the_copies(kind, gamma, n):
    device = kind(k=5, gamma=gamma)
    sign, law, first = (1 if kind is SparseHistogram else -1), np.ones(1), 0.0
    copies = stats.binom.pmf(np.arange(n + 1), n, device.gamma)
    for stride in (sign * STRIDES).tolist():
        law = np.convolve(law, spaced(copies, stride))
        first += min(0, stride * n) - stride * n * device.gamma
    total = device.estimator.weighted(device.estimate(Counts(np.full(5, n), n)), WEIGHTS)
    check_tails(total, law, first, 0.05)


@pytest.mark.parametrize("rate", [0.3, 1.0, 3.0])
def test_weighted_sums_of_near_central_counts_have_the_law_of_their_errors(rate):
    device = RobustHistogram(k=5, people=20, rate=rate, pairs=2.0)
    error, law = device.error(20), np.ones(1)
    most = error.quantile(1e-13)
    places = np.abs(np.arange(-most, most + 1))
    one = np.array([error.beyond(t - 1) - error.beyond(t) if t else np.nan for t in places])
    one[most] = 1 - np.nansum(one)
    for stride in STRIDES.tolist():
        law = np.convolve(law, spaced(one, stride))
    estimate = device.estimate(Counts(np.arange(10), 20))
    total = device.estimator.weighted(estimate, WEIGHTS)
    check_tails(total, law, -(law.size // 2), 0.05)


@pytest.mark.parametrize(
    "device",
    [
        NearCentralCount.calibrated(n=60, epsilon=1.0, delta=1e-4),
        ZeroSumCount(gamma=0.2),
        shoal.FairCoins(coins=0.2),
    ],
)
def test_sums_of_two_answers_with_one_error_have_a_part_of_it(device):
    codes = (np.arange(60) < 20).astype(int)
    estimate = estimated(device, codes, 1)
    weights = np.array([[0.0, 1.0], [0.25, 0.75], [0.75, 0.25], [0.5, 0.5]])
    total = device.estimator.weighted(estimate, weights)
    one = total.frequencies[0]
    assert one == pytest.approx(estimate.unbiased[1])
    assert total.frequencies == pytest.approx(weights @ [1 - one, one])
    parts = np.array([1, 0.5, 0.5, 0])
    assert total.standard_errors == pytest.approx(parts * total.standard_errors[0])
    low, high = total.interval(0.9)
    assert high - low == pytest.approx(parts * (high[0] - low[0]), rel=1e-6, abs=1e-9)
    frequencies = np.array([2 / 3, 1 / 3])
    variance = device.estimator.weighted_variance(weights, frequencies, n=60)
    assert variance == pytest.approx(parts**2 * variance[0])
    if not isinstance(device, ZeroSumCount):  # there the rule biases single answers
        expected = np.atleast_1d(device.estimator.variance(frequencies, n=60))[-1]
        assert variance[0] == pytest.approx(expected)


# --------------------------------------------------------------------------------- laws of them all


def data(*, kind, steps, none, groups, n, seed=0):
    """People of one or three uneven groups, on a scale of so many steps; a fifth may have none."""
    scale = {
        "even": np.ones(steps),
        "skewed": 0.5 ** np.arange(steps),
        "ends": np.isin(np.arange(steps), [0, steps - 1]).astype(float),
        "one": (np.arange(steps) == steps // 2).astype(float),
    }[kind]
    inside = np.append(0.8 * scale / scale.sum(), 0.2) if none else scale / scale.sum()
    parts = np.array([1.0] if groups == 1 else [0.6, 0.3, 0.1])
    fractions = np.outer(parts, inside).ravel()
    codes = np.random.default_rng(seed).choice(fractions.size, n, p=fractions)
    cells = [np.arange(steps) + group * inside.size for group in range(groups)]
    return codes, fractions.size, cells, [np.arange(1.0, steps + 1)] * groups


def case(name, *, seed, epsilon=3.0, **of):
    """A device, what it estimates of people like these, their answers, and which have scores."""
    codes, k, cells, scores = data(**of)
    device = made(name, k=k, n=of["n"], epsilon=epsilon)
    return device, estimated(device, codes, seed), codes, cells, scores


SCALE = {"kind": "skewed", "steps": 6, "none": False, "groups": 1, "n": 500}
GROUPS = {"kind": "skewed", "steps": 5, "none": True, "groups": 3, "n": 3000}


@pytest.mark.parametrize("name", EVERY)
def test_weights_of_zero_and_one_are_those_of_sums(name):
    device, estimate, *_ = case(name, seed=3, **SCALE)
    weights = np.array([[1, 0, 0, 0, 0, 0], [0, 1, 1, 0, 1, 0], [1, 1, 1, 0, 1, 1.0]])
    sums = device.estimator.sums(
        estimate, weights @ estimate.unbiased, weights.sum(axis=1).astype(np.int64)
    )
    total = device.estimator.weighted(estimate, weights)
    assert total.frequencies == pytest.approx(sums.frequencies)
    (low, high), (least, most) = total.interval(), sums.interval()
    ratio = (high - low) / (most - least)
    if name in {"grr", "subset", "unary"}:
        assert total.standard_errors == pytest.approx(sums.standard_errors)
        assert ratio == pytest.approx(1)
    # A bound on the spread is not needed where that is known.
    assert (ratio <= (1.001 if name in LOCAL else 1.05)).all()
    if name.startswith("near-central"):
        assert (ratio >= 1 - 1e-6).all()


@pytest.mark.parametrize("name", EVERY)
def test_sums_are_linear_in_the_weights_and_limits_go_with_them(name):
    device, estimate, codes, *_ = case(name, seed=3, **SCALE)
    scale = np.arange(6) / 5
    weights = np.array(
        [scale, scale**2, 0.3 * scale + 0.5 * scale**2, 0.2 + 0.5 * scale, 1 - scale]
    )
    total = device.estimator.weighted(estimate, weights)
    first, second, both, moved, rest = total.frequencies
    assert both == pytest.approx(0.3 * first + 0.5 * second)
    low, high = total.interval()
    ends = low[0], high[0]
    assert (low[3], moved, high[3]) == pytest.approx(
        [0.2 + 0.5 * x for x in (ends[0], first, ends[1])]
    )
    assert (high[4], rest, low[4]) == pytest.approx([1 - x for x in (ends[0], first, ends[1])])
    assert total.standard_errors[[3, 4]] == pytest.approx(
        total.standard_errors[0] * np.array([0.5, 1])
    )
    alone = device.estimator.weighted(estimate, weights[:1]).interval()
    assert np.ravel(alone) == pytest.approx(ends)
    together = total.interval(simultaneous=True)
    assert (together[0] < low).all()
    assert (together[1] > high).all()
    constant = device.estimator.weighted(estimate, np.full((1, 6), 0.7))
    assert np.ravel([constant.frequencies, *constant.interval()]) == pytest.approx(0.7)
    frequencies = np.bincount(codes, minlength=6) / 500
    one, half = device.estimator.weighted_variance(
        np.array([scale, 7 - 3 * scale]), frequencies, n=500
    )
    assert half == pytest.approx(9 * one)


@pytest.mark.parametrize("name", EVERY)
def test_scores_may_be_in_any_unit(name):
    device, estimate, _, cells, scores = case(name, seed=5, **GROUPS)

    def found(scores):
        return means(device.estimator, estimate, cells, scores, labels=("a", "b", "c"))

    plain = found(scores)
    moved = found([3.0 - 2.0 * own for own in scores])
    order = [np.array([4, 1, 0, 3, 2])] * 3
    mixed = means(
        device.estimator,
        estimate,
        [own[at] for own, at in zip(cells, order, strict=True)],
        [own[at] for own, at in zip(scores, order, strict=True)],
        labels=("a", "b", "c"),
    )
    assert [each.label for each in plain] == ["a", "b", "c"]
    for one, other, same in zip(plain, moved, mixed, strict=True):
        for own, again in zip(vars(one).values(), vars(same).values(), strict=True):
            assert own == again or own == pytest.approx(again, rel=1e-6)
        assert (one.count, one.count_low) == pytest.approx((other.count, other.count_low))
        assert one.low < one.high
        assert one.low >= 1
        assert one.high <= 5
        if one.mean is None:
            assert other.mean is None
            assert (one.low, one.high, one.standard_error) == (1.0, 5.0, math.inf)
            continue
        assert one.low <= one.mean <= one.high
        assert other.mean == pytest.approx(3 - 2 * one.mean)
        # A limit is searched for, up to a ten-thousandth.
        assert (other.high, other.low) == pytest.approx(
            (3 - 2 * one.low, 3 - 2 * one.high), abs=2e-3
        )
        assert other.standard_error == pytest.approx(2 * one.standard_error)
    assert plain[0].mean is not None


def test_without_noise_means_are_exact():
    of = {"kind": "even", "steps": 5, "none": True, "groups": 3, "n": 2000}
    device, estimate, codes, cells, scores = case("grr", seed=0, epsilon=28.0, **of)
    found = means(device.estimator, estimate, cells, scores, labels="abc")
    for own, each in zip(cells, found, strict=True):
        people = codes[np.isin(codes, own)]
        assert each.count == pytest.approx(people.size, abs=1e-3)
        assert each.mean == pytest.approx(1 + (people - own[0]).mean(), abs=1e-4)
        assert each.high - each.low < 10 * 4 / people.size  # some reports more or less
        assert each.standard_error < 1e-4


def test_limits_are_the_means_that_everybody_else_may_have_unnoticed():
    """By hand: at a limit μ, people without a score are given μ, and it is that mean's limit."""
    for name in ("grr", "near-central-lean", "sparse"):
        device, estimate, _, cells, scores = case(name, seed=1, **GROUPS)
        mean = means(device.estimator, estimate, cells[:1], scores[:1], labels="a")[0]
        weights = np.zeros((2, device.k))
        for row, limit in zip(weights, (mean.low, mean.high), strict=True):
            row[:] = (limit - 1) / 4
            row[cells[0]] = np.arange(5) / 4
        low, high = device.estimator.weighted(estimate, weights).interval()
        assert 1 + 4 * low[0] == pytest.approx(mean.low, abs=2e-4)
        assert 1 + 4 * high[1] == pytest.approx(mean.high, abs=2e-4)
        # As wide as the delta method says.
        assert mean.high - mean.low == pytest.approx(3.92 * mean.standard_error, rel=0.12)


@pytest.mark.parametrize("name", ["grr", "unary", "near-central-lean", "dummies"])
def test_the_mean_of_everybody_is_a_sum(name):
    of = SCALE | {"steps": 5, "n": 1000}
    device, estimate, _, cells, scores = case(name, seed=1, **of)
    (mean,) = means(device.estimator, estimate, cells, scores, labels=("all",), level=0.9)
    total = device.estimator.weighted(estimate, np.arange(5)[None] / 4)
    assert mean.mean == pytest.approx(1 + 4 * total.frequencies[0])
    ends = np.ravel(total.interval(0.9))
    assert (mean.low, mean.high) == pytest.approx(tuple(1 + 4 * ends))
    assert mean.standard_error == pytest.approx(4 * total.standard_errors[0], rel=0.05)
    assert (mean.count, mean.count_low, mean.count_high) == (1000, 1000, 1000)


def test_the_mean_of_two_answers_is_the_fraction_of_one():
    for name in EVERY:
        of = SCALE | {"steps": 2, "n": 400}
        device, estimate, _, cells, scores = case(name, seed=2, **of)
        (mean,) = means(device.estimator, estimate, cells, scores, labels=("all",))
        ones = device.estimator.sums(estimate, estimate.unbiased[1:], np.array([1]))
        assert mean.mean == pytest.approx(1 + ones.frequencies[0])


def test_people_with_a_score_are_counted_as_groups_are():
    for name in EVERY:
        of = GROUPS | {"kind": "even", "none": False, "n": 2000}
        device, estimate, _, cells, scores = case(name, seed=2, **of)
        groups = split(device.estimator, estimate, "abc")
        for group, mean in zip(
            groups, means(device.estimator, estimate, cells, scores, labels="abc"), strict=True
        ):
            sizes = mean.count, mean.count_low, mean.count_high
            assert sizes == pytest.approx((group.count, group.low, group.high))


def test_there_is_no_mean_of_nobody():
    """Messages are as many as are expected, up to rounding."""
    n, k = 3000, 18
    frequencies = np.array([*range(1, 13), 0, 0, 0, 0, 0, 0]) / 78
    cells, scores = [np.arange(5) + 6 * group for group in range(3)], [np.arange(1.0, 6)] * 3
    for name in ("grr", "dummies", "sparse", "near-central-lean"):
        device = made(name, k=k, n=n)
        expected = {
            "grr": lambda device=device: frequencies @ device.table(),
            "dummies": lambda device=device: frequencies + device.dummies / k,
            "sparse": lambda device=device: frequencies + device.gamma,
            "near-central-lean": lambda: np.append(frequencies, np.zeros(k)),
        }[name]()
        estimate = device.estimate(Counts(np.rint(n * expected).astype(np.int64), n))
        found = means(device.estimator, estimate, cells, scores, labels="abc")
        assert found[0].mean == pytest.approx(1 + 40 / 15, abs=0.01)
        assert found[2].mean is None
        assert (found[2].low, found[2].high, found[2].count_low) == (1, 5, 0)
        assert math.isinf(found[2].standard_error)
        assert 0 < found[2].count_high < 500
        errors = predicted(device.estimator, cells, scores, frequencies=frequencies, n=n)
        assert np.isfinite(errors).tolist() == [True, True, False]


def test_an_estimate_beyond_the_scale_has_limits_from_its_end():
    """Everybody at the lowest score: half of all estimates are below, and all limits hold it."""
    device, below = made("grr", k=6, n=300, epsilon=1.0), 0
    for seed in range(12):
        estimate = estimated(device, np.zeros(300, dtype=int), seed)
        total = float(device.estimator.weighted(estimate, np.arange(6)[None] / 5).frequencies[0])
        for cells in (np.arange(6), np.arange(5)):
            scores = np.arange(cells.size, dtype=float)
            (mean,) = means(device.estimator, estimate, [cells], [scores], labels=("all",))
            below += total < 0 and cells.size == 6
            if total < 0 and cells.size == 6:
                assert mean.low == mean.mean == 0
            assert mean.low <= mean.mean <= mean.high
    assert 2 <= below <= 10


def test_one_score_is_everybodys():
    device = made("grr", k=3, n=300)
    estimate = estimated(device, np.arange(300) % 3, 1)
    (mean,) = means(device.estimator, estimate, [np.array([0, 1])], [np.full(2, 4.0)], labels="a")
    assert (mean.low, mean.mean, mean.high, mean.standard_error) == (4, 4, 4, 0)


def test_more_answers_than_are_looked_at_in_pairs_have_bounds():
    """Of a few more, errors are at least those that are exact."""
    k, n = 40, 3000
    codes = np.random.default_rng(1).integers(0, k, n)
    weights = np.array([np.arange(k) / (k - 1), (np.arange(k) < 20) * np.arange(k) / 20])
    for name in ("hashing", "projective", "hashed-dummies"):
        device = made(name, k=k, n=n, epsilon=1.0)
        estimator = device.estimator
        rough = type("Rough", (type(estimator),), {"signed": False})
        other = rough.__new__(rough)
        vars(other).update(vars(estimator))
        frequencies = np.bincount(codes, minlength=k) / n
        exact = estimator.weighted_variance(weights, frequencies, n=n)
        assert (other.weighted_variance(weights, frequencies, n=n) >= exact).all()
        low, high = other.weighted(estimated(device, codes, 1), weights).interval()
        assert (low < weights @ frequencies).all()
        assert (weights @ frequencies < high).all()


class Unknown(AnswerEstimator):
    """Of which no more is known than the variance of single answers."""

    def __init__(self, of):
        self.of, self.k = of, of.k

    def estimate(self, counts):
        return self.of.estimate(counts)

    def variance(self, frequencies=None, *, n):
        return self.of.variance(frequencies, n=n)


def test_without_knowing_more_variances_are_bounded():
    device, n = made("grr", k=5, n=1000), 1000
    estimator, exact = Unknown(device.estimator), device.estimator
    weights, frequencies = rows(5), np.full(5, 0.2)
    bound = estimator.weighted_variance(weights, frequencies, n=n)
    assert (bound >= exact.weighted_variance(weights, frequencies, n=n)).all()
    estimate = estimated(device, np.arange(n) % 5, 1)
    low, high = estimator.weighted(estimate, weights).interval()
    assert (low <= weights @ frequencies).all()
    assert (weights @ frequencies <= high).all()


# -------------------------------------------------------------------------- coverage, by simulation

SETTINGS = [
    {"kind": kind, "steps": steps, "none": none, "groups": groups, "epsilon": epsilon}
    for kind, (steps, none, groups), epsilon in itertools.product(
        ("even", "skewed", "ends", "one"),
        ((2, False, 3), (2, True, 1), (5, False, 1), (5, True, 3), (11, False, 1), (11, True, 3)),
        (1.0, 3.0, 6.0),
    )
]


def simulated_means(name, n, runs, *, epsilon, seed=0, **of):
    """Means of many runs, true means (None of nobody), and what is predicted."""
    codes, k, cells, scores = data(n=n, **of)
    device, frequencies = made(name, k=k, n=n, epsilon=epsilon), np.bincount(codes, minlength=k) / n
    expected = predicted(device.estimator, cells, scores, frequencies=frequencies, n=n)
    people = [frequencies[own].sum() for own in cells]
    truth = [
        frequencies[own] @ score / size if size else None
        for own, score, size in zip(cells, scores, people, strict=True)
    ]
    labels = [str(group) for group in range(len(cells))]
    found = [
        means(device.estimator, estimated(device, codes, seed + run), cells, scores, labels=labels)
        for run in range(runs)
    ]
    return found, truth, expected, n * np.array(people)


def missed(found, truth, people):
    """How often the limits of a mean, and of how many people there are, miss."""
    means_, sizes = 0, 0
    for each in itertools.chain.from_iterable(
        zip(groups, truth, people, strict=True) for groups in found
    ):
        mean, true, size = each
        means_ += true is not None and not mean.low - 1e-9 <= true <= mean.high + 1e-9
        sizes += not mean.count_low - 1e-6 <= size <= mean.count_high + 1e-6
    return np.array([means_, sizes])


def allowed(trials):
    """Misses of 95 % limits that hold with 94 % at least; a run's groups are not independent."""
    return 2 * stats.binom.isf(RARE, -(-trials // 2), 0.06)


@pytest.mark.parametrize("name", NAMES)
def test_means_of_groups_are_covered(name):
    of = {"kind": "skewed", "steps": 5, "none": True, "groups": 3, "epsilon": 3.0}
    found, truth, _, people = simulated_means(name, 400, 20, **of)
    assert (missed(found, truth, people) <= allowed(60)).all()


@pytest.mark.slow
@pytest.mark.parametrize("n", [30, 100, 1000, 10_000])
@pytest.mark.parametrize("name", NAMES)
def test_means_are_covered_in_many_settings(name, n):
    total, trials, runs = np.zeros(2), 0, 16 if n < 10_000 else 8
    for at, of in enumerate(SETTINGS):
        found, truth, _, people = simulated_means(name, n, runs, seed=1000 * at, **of)
        now = missed(found, truth, people)
        assert (now <= allowed(runs * len(truth))).all(), of
        total, trials = total + now, trials + runs * len(truth)
    assert (total <= allowed(trials)).all()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "none", "groups"), [("even", False, 1), ("even", True, 3), ("skewed", True, 3)]
)
@pytest.mark.parametrize("name", NAMES)
def test_errors_are_those_predicted_and_there_is_no_bias(name, kind, none, groups):
    """Within a tenth, of enough people that the groups are much larger than their errors."""
    runs, n = 1600, 8000
    of = {"kind": kind, "steps": 5, "none": none, "groups": groups, "epsilon": 3.0}
    found, truth, expected, _ = simulated_means(name, n, runs, **of)
    off = np.array([[mean.mean for mean in run] for run in found]) - truth
    measured = np.sqrt((off**2).mean(axis=0))
    assert measured == pytest.approx(expected, rel=0.1)
    assert (np.abs(off.mean(axis=0)) < 6 * expected / math.sqrt(runs) + 0.03 * expected).all()
    stated = np.median([[mean.standard_error for mean in run] for run in found], axis=0)
    assert stated == pytest.approx(expected, rel=0.1)


def test_the_stated_error_is_near_the_predicted_one():
    """Of many people; exact variances are checked above."""
    for name in NAMES:
        of = {"kind": "even", "steps": 5, "none": True, "groups": 3, "epsilon": 3.0}
        (found,), _, expected, _ = simulated_means(name, 20_000, 1, **of)
        assert [mean.standard_error for mean in found] == pytest.approx(expected, rel=0.25)


def test_an_estimate_may_be_scaled_by_hand():
    """What limits use of an estimate is in its fields."""
    device = made("grr", k=3, n=100)
    estimate = estimated(device, np.arange(100) % 3, 1)
    same = replace(estimate, standard_errors=np.zeros(3))
    weights = rows(3)
    for one, other in zip(
        device.estimator.weighted(estimate, weights).interval(),
        device.estimator.weighted(same, weights).interval(),
        strict=True,
    ):
        assert one == pytest.approx(other)
