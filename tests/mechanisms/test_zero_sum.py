"""Zero-sum count and histogram: privacy, accuracy, and zero where nobody answered."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from scipy import stats

import shoal
from protocol_contract import AnswerProtocolContract, crowd_law, divergence
from shoal import randomness
from shoal.accounting.noise.zero_sum import one_bin_delta, two_bin_delta
from shoal.estimate import top
from shoal.mechanisms.zero_sum import (
    MOST_MESSAGES,
    SparseHistogram,
    Withheld,
    ZeroSumCount,
    ZeroSumHistogram,
)
from shoal.values import Counts, Envelopes

RARE = 1e-7


def yes(ones, n):
    return np.arange(n) < ones


class TestZeroSumCount(AnswerProtocolContract):
    """A count has two answers: tests that take ten are written again for two."""

    small = (2,)
    sizes = (2,)

    def make(self, k, n, epsilon, delta):  # noqa: ARG002 - there are always two answers
        return ZeroSumCount.calibrated(n=n, epsilon=epsilon, delta=delta)

    def noisy(self, k):  # noqa: ARG002 - the same
        return [ZeroSumCount(gamma=gamma) for gamma in (0.1, 0.25, 0.5)]

    def person_law(self, protocol, value):
        return {(value,): protocol.gamma, (value + 1,): 1 - protocol.gamma}

    def test_messages_are_as_many_as_predicted(self):
        # What is predicted is what a person sends whose answer is 1: the most.
        protocol = self.make(2, 50_000, 1.0, 1e-6)
        source = randomness.simulated(1)
        sizes = protocol.randomize(np.ones(50_000, dtype=int), randomness=source).sizes
        assert sizes.max() == protocol.slots == 2
        assert abs(sizes.mean() - protocol.messages) <= 5.5 * sizes.std() / math.sqrt(50_000)

    def test_one_dishonest_person_adds_no_more_than_said(self):
        protocol = self.make(2, 5000, 1.0, 1e-6)
        honest = protocol.randomize(np.ones(5000, dtype=int), randomness=randomness.simulated(3))
        before = protocol.tally(honest)
        after = before + protocol.tally(Envelopes(np.zeros(2, dtype=np.int64), np.array([2])))
        moved = protocol.estimate(after).counts[1] - protocol.estimate(before).counts[1]
        assert 0.9 <= moved <= protocol.influence * (1 + 1e-9)

    @pytest.mark.parametrize("ones", [0, 3, 25, 34, 45, 60, 5000])
    def test_the_error_is_as_predicted(self, ones):
        # The zero rule makes the estimate of a small count biased on purpose: its mean squared
        # error is what is predicted, and its limits still cover.
        n, runs = 10_000, 600
        protocol = self.make(2, n, 1.0, 1e-6)
        values, source = yes(ones, n).astype(int), randomness.simulated(ones)
        truth = np.array([n - ones, ones]) / n
        errors, covered = [], {0.5: 0, 0.8: 0, 0.95: 0, 0.999: 0}
        drawn = [protocol.simulate_counts(values, randomness=source).cells[0] for _ in range(runs)]
        for copies, times in zip(*np.unique(drawn, return_counts=True), strict=True):
            estimate = protocol.estimate(Counts(np.array([copies]), n))
            assert estimate.frequencies.sum() == pytest.approx(1.0, abs=1e-12)
            errors += [estimate.frequencies[1] - truth[1]] * times
            for level in covered:
                low, high = estimate.interval(level)
                covered[level] += times * bool((low <= truth).all() and (truth <= high).all())
        predicted = protocol.variance(truth, n=n)
        assert predicted[0] == predicted[1]
        squares = np.square(errors)
        spread = float(squares.std()) / math.sqrt(runs)
        assert abs(squares.mean() - predicted[1]) <= 5.5 * spread + 1e-15
        for level, hits in covered.items():
            assert hits >= stats.binom.ppf(RARE, runs, level)

    def test_shares_other_than_two_have_no_variance(self):
        with pytest.raises(shoal.InvalidArgumentError, match="fractions of 0 and of 1"):
            ZeroSumCount(gamma=0.1).variance([0.2, 0.3, 0.5], n=10)


class TestZeroSumHistogram(AnswerProtocolContract):
    def make(self, k, n, epsilon, delta):
        return ZeroSumHistogram.calibrated(k=k, n=n, epsilon=epsilon, delta=delta)

    def noisy(self, k):
        return [ZeroSumHistogram(k=k, gamma=gamma) for gamma in (0.25, 0.5)]

    def person_law(self, protocol, value):
        law = {}
        for kept in itertools.product((0, 1), repeat=protocol.k):
            sent = list(kept)
            sent[value] += 1
            gamma = protocol.gamma
            law[tuple(sent)] = (1 - gamma) ** sum(kept) * gamma ** (protocol.k - sum(kept))
        return law

    def check_error(self, k, n=20_000):
        # As in the contract, without its demand that estimates be unbiased: the zero rule hides
        # small counts on purpose, and what is predicted is the mean squared error.
        protocol = self.make(k, n, 1.0, 1e-6)
        weights = 1.0 / np.arange(1, k + 1) ** 2
        true = np.floor(n * weights / weights.sum()).astype(int)
        true[0] += n - true.sum()
        true[0], true[-1] = true[0] + true[-1], 0
        values, truth = np.arange(k).repeat(true), true / n
        source, runs = randomness.simulated(k), 500
        squares, covered, together = np.zeros((runs, k)), 0, 0
        for run in range(runs):
            estimate = protocol.estimate(protocol.simulate_counts(values, randomness=source))
            squares[run] = (estimate.frequencies - truth) ** 2
            low, high = estimate.interval(0.9)
            covered += (low <= truth) & (truth <= high)
            low, high = estimate.interval(0.9, simultaneous=True)
            together += bool(((low <= truth) & (truth <= high)).all())
        predicted = protocol.variance(truth, n=n)
        spread = squares.std(axis=0) / math.sqrt(runs)
        # An error made in one run of thousands shows in the prediction and not in the sample.
        assert (np.abs(squares.mean(axis=0) - predicted) <= 6 * spread + 0.02 * predicted).all()
        assert (covered >= stats.binom.ppf(RARE / k, runs, 0.9)).all()
        assert together >= stats.binom.ppf(RARE, runs, 0.9)
        assert predicted[-1] == 0
        assert covered[-1] == runs

    def test_one_dishonest_person_adds_no_more_than_said(self):
        # Measured on an answer that is above the zero rule before and after.
        protocol = self.make(10, 5000, 1.0, 1e-6)
        values = np.full(5000, 7)
        before = protocol.tally(protocol.randomize(values, randomness=randomness.simulated(3)))
        flood = np.full(protocol.slots, 7, dtype=np.int64)
        after = before + protocol.tally(Envelopes(flood, np.array([flood.size])))
        moved = protocol.estimate(after).counts[7] - protocol.estimate(before).counts[7]
        assert 0.9 <= moved <= protocol.influence * (1 + 1e-9)

    def test_what_does_not_fit_in_memory_is_refused_before_it_is_made(self):
        protocol = self.make(10_000, 10**5, 1.0, 1e-6)
        people = MOST_MESSAGES // 10_000
        with pytest.raises(shoal.InvalidArgumentError, match="SparseHistogram"):
            protocol.randomize(np.zeros(people + 1, dtype=int))

    def test_the_largest_error_does_not_depend_on_the_number_of_answers(self):
        n, runs = 10**5, 200
        values = np.minimum(np.arange(n) // 12_000, 9)
        largest = {}
        for k in (10, 10_000):
            protocol = self.make(k, n, 1.0, 1e-6)
            true = np.bincount(values, minlength=k)
            source = randomness.simulated(11)
            largest[k] = np.mean(
                [
                    np.abs(
                        protocol.estimate(
                            protocol.simulate_counts(values, randomness=source)
                        ).counts
                        - true
                    ).max()
                    for _ in range(runs)
                ]
            )
        assert largest[10_000] == pytest.approx(largest[10], rel=0.1)
        assert largest[10] > 5
        assert len({self.make(k, n, 1.0, 1e-6).accuracy(n, 0.05) for k in (2, 10, 10_000)}) == 1

    def test_nothing_that_nobody_answered_stands_out(self):
        n = 10_000
        protocol = self.make(50, n, 1.0, 1e-6)
        values = np.repeat([3, 8], n // 2)
        estimate = protocol.estimate(
            protocol.simulate_counts(values, randomness=randomness.simulated(9))
        )
        ranked = top(estimate, 50)
        assert {one.index for one in ranked if one.significant} == {3, 8}


# ------------------------------------------------------------------------------------- privacy


@pytest.mark.parametrize(
    ("epsilon", "one", "two"), [(1.0, 34.2, 42.8), (0.5, 90.3, 136.4), (2.0, 17.4, 18.2)]
)
def test_the_noise_is_as_small_as_the_exact_divergence_allows(epsilon, one, two):
    n, target = 10**5, {"epsilon": epsilon, "delta": 1e-6}
    count = ZeroSumCount.calibrated(n=n, **target)
    histogram = ZeroSumHistogram.calibrated(k=100, n=n, **target)
    assert 0.99 * one <= n * count.gamma <= one
    assert 0.99 * two <= n * histogram.gamma <= two
    assert one_bin_delta(n=n, gamma=0.99 * count.gamma, epsilon=epsilon) > 1e-6
    assert two_bin_delta(n=n, gamma=0.99 * histogram.gamma, epsilon=epsilon) > 1e-6


def test_one_answer_at_half_the_target_twice_would_take_several_times_the_noise():
    n, target = 10**5, {"epsilon": 1.0, "delta": 1e-6}
    histogram = ZeroSumHistogram.calibrated(k=10, n=n, **target)
    halves = ZeroSumCount.calibrated(n=n, epsilon=0.5, delta=5e-7)
    assert 2 * histogram.gamma < halves.gamma


def test_one_answers_noise_is_too_little_for_a_histogram():
    n, target = 10**5, {"epsilon": 1.0, "delta": 1e-6}
    count = ZeroSumCount.calibrated(n=n, **target)
    assert ZeroSumHistogram(k=10, gamma=count.gamma).profile(n).delta(1.0) > 3e-6


@pytest.mark.parametrize("gamma", [0.125, 0.5])
def test_withheld_copies_and_added_ones_are_mirror_images(gamma):
    k, n = 3, 3
    zero_sum, sparse = TestZeroSumHistogram(), SparseHistogram(k=k, gamma=gamma)
    protocol = ZeroSumHistogram(k=k, gamma=gamma)

    def added(value):
        law = zero_sum.person_law(protocol, value)
        own = tuple(int(j == value) for j in range(k))
        # A copy for one withheld, none for one sent.
        return {
            tuple(1 - (s - o) + o for s, o in zip(sent, own, strict=True)): chance
            for sent, chance in law.items()
        }

    for others in itertools.combinations_with_replacement(range(k), n - 1):
        plain = [
            crowd_law([zero_sum.person_law(protocol, v) for v in (first, *others)])
            for first in (0, 1)
        ]
        turned = [crowd_law([added(v) for v in (first, *others)]) for first in (0, 1)]
        for epsilon in (0.0, 0.7, 2.0):
            there = divergence(*plain, epsilon)
            assert divergence(*turned[::-1], epsilon) == pytest.approx(there, rel=1e-12)
            assert there <= sparse.profile(n).delta(epsilon) * (1 + 1e-9)
            assert sparse.profile(n).delta(epsilon) == pytest.approx(
                protocol.profile(n).delta(epsilon), rel=1e-9
            )


@pytest.mark.parametrize(("epsilon", "delta"), [(0.3, 1e-6), (1.0, 1e-6), (1.0, 0.1)])
def test_the_published_noise_is_private_by_far(epsilon, delta):
    count_n = math.ceil(100 / epsilon**2 * math.log(2 / delta))
    histogram_n = math.ceil(400 / epsilon**2 * math.log(4 / delta))
    count = ZeroSumCount.published(n=count_n, epsilon=epsilon, delta=delta)
    histogram = ZeroSumHistogram.published(k=5, n=histogram_n, epsilon=epsilon, delta=delta)
    assert count.gamma <= 0.5
    assert count_n * count.gamma == pytest.approx(50 / epsilon**2 * math.log(2 / delta))
    assert histogram_n * histogram.gamma == pytest.approx(200 / epsilon**2 * math.log(4 / delta))
    assert count.profile(count_n).delta(epsilon) < delta / 10
    assert histogram.profile(histogram_n).delta(epsilon) < delta / 100
    for made, n in ((ZeroSumCount, count_n), (ZeroSumHistogram, histogram_n)):
        more = {"k": 5} if made is ZeroSumHistogram else {}
        with pytest.raises(shoal.OutOfRegimeError, match=f"n >= {n}"):
            made.published(n=n - 1, epsilon=epsilon, delta=delta, **more)


def test_the_published_noise_is_for_epsilon_up_to_one():
    with pytest.raises(shoal.OutOfRegimeError, match="epsilon <= 1"):
        ZeroSumCount.published(n=10**6, epsilon=1.1, delta=1e-6)
    with pytest.raises(shoal.OutOfRegimeError, match="epsilon <= 1"):
        ZeroSumHistogram.published(k=3, n=10**6, epsilon=1.1, delta=1e-6)
    with pytest.raises(shoal.InvalidArgumentError, match="delta"):
        ZeroSumCount.published(n=10**6, epsilon=1.0, delta=1.5)


def test_too_few_people_are_told_how_many_it_takes():
    with pytest.raises(shoal.UnreachableTargetError, match=r"n >= \d+") as caught:
        ZeroSumCount.calibrated(n=50, epsilon=1.0, delta=1e-6)
    needed = int(caught.value.advice.split("n >= ")[1].split()[0])
    assert ZeroSumCount.calibrated(n=needed, epsilon=1.0, delta=1e-6).gamma <= 0.5
    with pytest.raises(shoal.UnreachableTargetError):
        ZeroSumCount.calibrated(n=needed - 1, epsilon=1.0, delta=1e-6)
    with pytest.raises(shoal.UnreachableTargetError, match=r"n >= \d+"):
        ZeroSumHistogram.calibrated(k=4, n=50, epsilon=1.0, delta=1e-6)


@pytest.mark.parametrize("gamma", [0.0, -0.1, 0.51, 1.0, math.nan])
def test_what_is_no_chance_to_withhold_is_refused(gamma):
    with pytest.raises(shoal.InvalidArgumentError, match="gamma"):
        ZeroSumCount(gamma=gamma)
    with pytest.raises(shoal.InvalidArgumentError, match="gamma"):
        ZeroSumHistogram(k=3, gamma=gamma)


# ------------------------------------------------------------------------------ exactly nothing


def test_nobody_is_counted_as_nobody():
    source = randomness.simulated(1)
    for gamma in (0.01, 0.2, 0.5):
        protocol = ZeroSumCount(gamma=gamma)
        for _ in range(500):
            sent = protocol.randomize(np.zeros(200, dtype=int), randomness=source)
            found = protocol.estimate(shoal.shuffle(sent, randomness=source)).frequencies
            assert found.tolist() == [1.0, 0.0]


def test_answers_that_nobody_gave_are_zero():
    source = randomness.simulated(2)
    protocol = ZeroSumHistogram(k=20, gamma=0.1)
    for _ in range(300):
        sent = protocol.randomize(np.full(200, 4), randomness=source)
        found = protocol.estimate(protocol.tally(sent)).frequencies
        assert np.flatnonzero(found).tolist() == [4]


@pytest.mark.parametrize("count", [1, 5])
def test_the_zero_rule_is_that_of_the_paper(count):
    protocol = ZeroSumCount(gamma=0.25)
    assert protocol.estimate(Counts(np.array([8]), 8)).frequencies[1] == 0.0
    shown = protocol.estimate(Counts(np.array([8 + count]), 8)).frequencies[1]
    assert shown == pytest.approx((8 + count) / 8 - 0.75)


# ------------------------------------------------------------------------------------- accuracy


@pytest.mark.parametrize(("n", "gamma"), [(1, 0.3), (6, 0.4), (12, 0.1), (30, 0.5)])
@pytest.mark.parametrize("beta", [0.4, 0.1, 0.01, 1e-9])
def test_the_claim_is_the_largest_error_over_all_counts(n, gamma, beta):
    protocol = ZeroSumCount(gamma=gamma)
    mean, reach = n * gamma, protocol.accuracy(n, beta) * n
    withheld = np.arange(n + 1)
    chances = stats.binom.pmf(withheld, n, gamma)
    # What is estimated from so many copies.
    shown = [protocol.estimate(Counts(np.array([c]), n)).counts[1] for c in range(2 * n + 1)]

    def failing(reach):
        worst = 0.0
        for ones in range(n + 1):
            error = np.abs(np.array(shown)[n + ones - withheld] - ones)
            worst = max(worst, float(chances[error > reach + 1e-9].sum()))
        return worst

    assert failing(reach) <= beta * (1 + 1e-9)
    if reach > mean + 1e-9:
        assert failing(reach - 1) > beta * (1 - 1e-9)


@pytest.mark.parametrize(("n", "gamma"), [(4, 0.5), (7, 0.2), (9, 0.4)])
@pytest.mark.parametrize("beta", [0.3, 0.05])
def test_the_claim_about_all_answers_covers_every_histogram(n, gamma, beta):
    protocol = ZeroSumHistogram(k=n, gamma=gamma)
    mean, reach = n * gamma, protocol.accuracy(n, beta) * n
    withheld = np.arange(n + 1)
    chances = stats.binom.pmf(withheld, n, gamma)

    def kept(ones):
        error = np.where(ones > withheld, np.abs(mean - withheld), ones)  # as of a count
        return float(chances[error <= reach + 1e-9].sum())

    def histograms(people, most):
        if not people:
            yield ()
        for first in range(min(people, most), 0, -1):
            yield from ((first, *rest) for rest in histograms(people - first, first))

    keeping = [kept(ones) for ones in range(n + 1)]
    worst = min(math.prod(keeping[ones] for ones in true) for true in histograms(n, n))
    assert worst >= 1 - beta - 1e-12


@pytest.mark.parametrize(("epsilon", "delta"), [(0.2, 1e-3), (1.0, 1e-6), (1.0, 0.5), (0.5, 1e-9)])
@pytest.mark.parametrize("beta", [0.5, 1e-2, 1e-6])
def test_the_published_error_covers_the_exact_one(epsilon, delta, beta):
    target = {"epsilon": epsilon, "delta": delta}
    for scale in (1, 30):
        n = scale * math.ceil(400 / epsilon**2 * math.log(4 / delta))
        if beta >= delta**25:
            exact = ZeroSumCount.published(n=n, **target).accuracy(n, beta)
            bound = ZeroSumCount.published_accuracy(n=n, beta=beta, **target)
            assert exact <= bound <= 2.4 * exact
            mean = 50 / epsilon**2 * math.log(2 / delta)
            assert bound * n <= 7 / 3 * mean * (1 + 1e-12)
        if beta / n >= (delta / 2) ** 25:
            exact = ZeroSumHistogram.published(k=9, n=n, **target).accuracy(n, beta)
            bound = ZeroSumHistogram.published_accuracy(n=n, beta=beta, **target)
            assert exact <= bound <= 2.4 * exact


def test_the_published_error_is_in_the_papers_form():
    n, epsilon, delta, beta = 10**5, 0.5, 1e-6, 0.01
    form = 50 / epsilon**2 * math.log(2 / delta) + 40 / (3 * epsilon) * math.sqrt(
        math.log(2 / delta) * math.log(1 / beta)
    )
    found = ZeroSumCount.published_accuracy(n=n, epsilon=epsilon, delta=delta, beta=beta)
    assert found == pytest.approx(form / n, rel=1e-12)
    with pytest.raises(shoal.OutOfRegimeError, match="beta >= "):
        ZeroSumCount.published_accuracy(n=n, epsilon=epsilon, delta=0.5, beta=0.5**26)
    with pytest.raises(shoal.OutOfRegimeError, match="n >= "):
        ZeroSumCount.published_accuracy(n=100, epsilon=epsilon, delta=delta, beta=beta)


@pytest.mark.parametrize(("n", "gamma"), [(1, 0.5), (40, 0.03), (2000, 0.02), (10**6, 4e-5)])
@pytest.mark.parametrize("chance", [0.4, 1e-3, 1e-9])
def test_limits_of_what_is_withheld_are_quantiles(n, gamma, chance):
    noise, law = Withheld.of(n, gamma), stats.binom(n, gamma)
    low, high = noise.limits(2 * chance)
    assert high == noise.largest(chance)
    assert law.sf(high) <= chance
    assert high == 0 or law.sf(high - 1) > chance * (1 - 1e-6)
    assert law.cdf(low - 1) <= chance
    assert law.cdf(low) > chance * (1 - 1e-6)


def test_a_chance_below_every_rounding_is_answered_by_everybody():
    assert Withheld.of(10**4, 0.01).largest(1e-300) == 10**4
    assert Withheld.of(10**4, 0.01).limits(1e-300)[0] == 0


@pytest.mark.parametrize("k", [None, 12])
def test_simulated_counts_have_the_law_of_real_ones(k):
    n, runs = 60, 3000
    protocol = ZeroSumCount(gamma=0.2) if k is None else ZeroSumHistogram(k=k, gamma=0.2)
    values = np.arange(n) % 2
    source = randomness.simulated(8)
    real = [
        protocol.tally(protocol.randomize(values, randomness=source)).cells for _ in range(runs)
    ]
    simulated = [protocol.simulate_counts(values, randomness=source).cells for _ in range(runs)]
    last = np.array(real)[:, -1], np.array(simulated)[:, -1]
    true = 30 if k is None else 0
    expected = n + true - stats.binom(n, 0.2).mean()
    for found in last:
        assert abs(found.mean() - expected) <= 5.5 * math.sqrt(n * 0.16 / runs)
        assert found.var() == pytest.approx(n * 0.16, rel=0.2)
    assert stats.chi2_contingency(_table(*last)).pvalue > RARE
    with pytest.raises(shoal.InvalidArgumentError, match="at least one"):
        protocol.simulate_counts(np.zeros(0, dtype=int))


def _table(first, second):
    low, high = (int(np.percentile(np.append(first, second), at, method="lower")) for at in (2, 98))
    bins = np.arange(low, high + 1)
    return [
        np.bincount(np.clip(found, low, high) - low, minlength=bins.size)
        for found in (first, second)
    ]
