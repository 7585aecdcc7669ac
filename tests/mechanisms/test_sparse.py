"""The truth and sparse copies: the zero-sum noise in few messages."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from scipy import stats

import shoal
from protocol_contract import AnswerProtocolContract
from shoal import randomness
from shoal.accounting.noise.zero_sum import two_bin_delta
from shoal.mechanisms.zero_sum import SparseHistogram, copies_table, distinct_answers
from shoal.values import Counts

RARE = 1e-7


class TestSparseHistogram(AnswerProtocolContract):
    sizes = (2, 10, 100)

    def make(self, k, n, epsilon, delta):
        return SparseHistogram.calibrated(k=k, n=n, epsilon=epsilon, delta=delta)

    def noisy(self, k):
        return [SparseHistogram(k=k, gamma=gamma) for gamma in (0.1, 0.25, 0.5)]

    def person_law(self, protocol, value):
        law, gamma = {}, protocol.gamma
        for copied in itertools.product((0, 1), repeat=protocol.k):
            sent = list(copied)
            sent[value] += 1
            law[tuple(sent)] = gamma ** sum(copied) * (1 - gamma) ** (protocol.k - sum(copied))
        return law


@pytest.mark.parametrize(("epsilon", "mean"), [(1.0, 42.8), (0.5, 136.4), (2.0, 18.2)])
@pytest.mark.parametrize("k", [2, 1000, 10**6])
def test_the_noise_is_that_of_the_zero_sum_histogram(k, epsilon, mean):
    n = 10**5
    protocol = SparseHistogram.calibrated(k=k, n=n, epsilon=epsilon, delta=1e-6)
    assert 0.99 * mean <= n * protocol.gamma <= mean
    exact = two_bin_delta(n=n, gamma=protocol.gamma, epsilon=epsilon)
    assert exact <= protocol.profile(n).delta(epsilon) <= 1e-6
    assert protocol.profile(n).slack < 1e-9
    assert protocol.messages == pytest.approx(1 + k * mean / n, rel=0.01)


@pytest.mark.parametrize(("k", "gamma"), [(2, 0.5), (5, 0.25), (40, 0.1), (300, 0.002)])
@pytest.mark.parametrize("cut", [None, 2])
def test_the_table_is_as_far_from_the_binomial_law_as_it_says(k, gamma, cut):
    share = Fraction(SparseHistogram(k=k, gamma=gamma).gamma)
    most = None if cut is None else min(k, math.floor((k + 1) * gamma) + cut)
    table = copies_table(k, float(share), most)
    weights = np.diff(np.append([0], table.steps.astype(object)))
    assert weights.sum() == 1 << 62
    assert (weights >= 0).all()
    assert most is None or table.largest <= most
    away = Fraction(0)
    for count in range(k + 1):
        chance = math.comb(k, count) * share**count * (1 - share) ** (k - count)
        drawn = Fraction(int(weights[count]), 1 << 62) if count < weights.size else 0
        away += abs(chance - drawn) / 2
    assert float(away) <= table.error <= float(away) * 1.5 + 1e-18


def test_a_large_table_is_still_a_binomial_law():
    table = copies_table(10**6, 2.0**-8, None)
    weights = np.diff(table.steps, prepend=np.uint64(0)).astype(np.float64)
    mean = float(weights @ np.arange(weights.size)) / 2**62
    assert mean == pytest.approx(10**6 / 256, rel=1e-12)
    assert table.error < 1e-15


def test_envelopes_have_no_more_room_than_delta_asks_for():
    n, delta = 10**5, 1e-6
    made = SparseHistogram.calibrated(k=1000, n=n, epsilon=1.0, delta=delta)
    roomy = SparseHistogram(k=1000, gamma=made.gamma)
    assert made.most is not None
    assert made.slots == made.most + 1 < roomy.slots
    tighter = SparseHistogram(k=1000, gamma=made.gamma, most=made.most - 3)
    assert tighter.profile(n).delta(1.0) > delta
    sent = tighter.randomize(np.zeros(200_000, dtype=int), randomness=randomness.simulated(1))
    assert sent.sizes.max() <= tighter.slots


@pytest.mark.parametrize("most", [0, 42, 1.5, -1])
def test_too_little_room_is_refused(most):
    with pytest.raises(shoal.InvalidArgumentError, match="most"):
        SparseHistogram(k=1000, gamma=0.05, most=most)


@pytest.mark.parametrize(
    ("k", "counts"), [(4, (2, 3, 4, 1, 0)), (6, (6, 2, 5)), (50, (40, 0, 1, 25))]
)
def test_copies_of_one_person_are_distinct_and_every_set_is_as_likely(k, counts):
    people = 20_000
    added = np.tile(counts, people)
    drawn = distinct_answers(k, added, randomness.simulated(k))
    owners = np.repeat(np.arange(added.size), added)
    seen = np.zeros((added.size, k), dtype=np.int64)
    np.add.at(seen, (owners, drawn), 1)
    assert seen.max() <= 1
    assert np.array_equal(seen.sum(axis=1), added)
    for place, size in enumerate(counts):
        sets = seen[place :: len(counts)]
        expected = people * size / k
        spread = math.sqrt(people * size / k * (1 - size / k))
        assert (np.abs(sets.sum(axis=0) - expected) <= 6 * spread).all()
        if k < 10 and 0 < size < k:
            numbers = np.unique(sets @ (1 << np.arange(k)), return_counts=True)[1]
            assert numbers.size == math.comb(k, size)
            if numbers.size > 1:
                assert stats.chisquare(numbers).pvalue > RARE


def test_pairs_of_answers_are_copied_independently():
    k, people = 12, 60_000
    protocol = SparseHistogram(k=k, gamma=0.3)
    sent = protocol.randomize(np.zeros(people, dtype=int), randomness=randomness.simulated(7))
    owners = np.repeat(np.arange(people), sent.sizes)
    seen = np.zeros((people, k))
    np.add.at(seen, (owners, sent.messages), 1)
    correlation = np.corrcoef(seen.T) - np.eye(k)
    assert np.abs(correlation).max() <= 6 / math.sqrt(people)


def test_dense_and_huge_settings_work():
    few = SparseHistogram.calibrated(k=100, n=150, epsilon=1.0, delta=1e-6)
    assert few.gamma > 0.3
    sent = few.randomize(np.arange(150) % 100, randomness=randomness.simulated(1))
    assert few.estimate(few.tally(sent)).n == 150
    many = SparseHistogram.calibrated(k=10**9, n=10**7, epsilon=1.0, delta=1e-6)
    assert many.messages > 1000
    drawn = many.randomize([5, 10**9 - 1], randomness=randomness.simulated(2))
    assert len(np.unique(drawn.messages)) >= len(drawn.messages) - 2


def test_more_copies_than_anybody_sends_are_refused():
    with pytest.raises(shoal.InvalidArgumentError, match="copies"):
        SparseHistogram.calibrated(k=10**9, n=1000, epsilon=1.0, delta=1e-6)


def test_too_few_people_are_told_how_many_it_takes():
    with pytest.raises(shoal.UnreachableTargetError, match=r"delta=1e-06.*n >= \d+"):
        SparseHistogram.calibrated(k=10, n=50, epsilon=1.0, delta=1e-6)


@pytest.mark.parametrize("gamma", [0.0, -0.1, 0.51, math.nan])
def test_what_is_no_chance_to_copy_is_refused(gamma):
    with pytest.raises(shoal.InvalidArgumentError, match="gamma"):
        SparseHistogram(k=3, gamma=gamma)


# -------------------------------------------------------------------------------- the threshold


@pytest.mark.parametrize("beta", [0.2, 0.01])
def test_noise_passes_the_threshold_as_rarely_as_it_says(beta):
    n, k, runs = 5000, 200, 3000
    protocol = SparseHistogram.calibrated(k=k, n=n, epsilon=1.0, delta=1e-6)
    edge = protocol.threshold(n, beta)
    each = stats.binom.sf(edge, n, protocol.gamma)
    assert k * each <= beta < k * stats.binom.sf(edge - 1, n, protocol.gamma)
    law, source = stats.binom(n, protocol.gamma), randomness.simulated(3)
    steps = law.cdf(np.arange(n + 1))
    failed = 0
    for _ in range(runs):
        uniform = source.below(1 << 53, k) / 2.0**53
        noise = np.searchsorted(steps, uniform, side="right")
        noise[0] += n
        shown = protocol.significant(protocol.estimate(Counts(noise, n)), beta)
        assert shown[0] > 0.9
        failed += bool(shown[1:].any())
    assert failed <= stats.binom.isf(RARE, runs, beta)


def test_what_is_left_is_the_unbiased_estimate():
    n, k = 20_000, 50
    protocol = SparseHistogram.calibrated(k=k, n=n, epsilon=1.0, delta=1e-6)
    edge = protocol.threshold(n, 0.05)
    cells = np.full(k, edge)
    cells[3], cells[4] = edge + 1, n
    estimate = protocol.estimate(Counts(cells, n))
    shown = protocol.significant(estimate, 0.05)
    assert np.flatnonzero(shown).tolist() == [3, 4]
    assert shown[3] == estimate.frequencies[3]
    with pytest.raises(shoal.InvalidArgumentError, match="50 answers"):
        protocol.significant(
            SparseHistogram(k=3, gamma=0.1).estimate(Counts(np.zeros(3, dtype=int), 5)), 0.05
        )


@pytest.mark.parametrize("beta", [0.0, 1.0, 1e-17])
def test_what_is_no_chance_of_a_false_answer_is_refused(beta):
    with pytest.raises(shoal.InvalidArgumentError, match="beta"):
        SparseHistogram(k=10, gamma=0.1).threshold(1000, beta)
