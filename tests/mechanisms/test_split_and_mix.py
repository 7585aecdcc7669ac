"""Sums of noisy numbers in random shares."""

from __future__ import annotations

import itertools
import math
from functools import cache

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

import shoal
from protocol_contract import crowd_law, divergence
from shoal import randomness
from shoal.accounting.noise.split import split_security
from shoal.errors import InvalidArgumentError, OutOfRegimeError, UnreachableTargetError
from shoal.intervals.estimates import LaplaceNoise, MeanEstimate
from shoal.mechanisms.grid import rounded
from shoal.mechanisms.shares import RareCount
from shoal.mechanisms.split_and_mix import SplitAndMixSum
from shoal.values import Batch, Counts

TARGETS = ((0.5, 1e-6), (1.0, 1e-6), (1.2, 1e-9), (2.0, 1e-4), (4.0, 1e-6))


def make(n=2000, epsilon=1.0, delta=1e-6, low=-2.0, high=3.0, levels=None):
    return SplitAndMixSum.calibrated(
        low=low, high=high, n=n, epsilon=epsilon, delta=delta, levels=levels
    )


def plain(*, low=0.0, high=100.0, levels=100, bits=30, people=10, epsilon=None, shares=3):
    return SplitAndMixSum(
        low=low,
        high=high,
        levels=levels,
        shares=shares,
        modulus_bits=bits,
        people=people,
        epsilon=epsilon,
    )


def implemented(noise):
    """Pr[X = 0], Pr[X = 1], ... of one half of a person's noise, as drawn."""
    high, low = noise.probability
    chance = high / 2**62 + low / 2**124
    weights = np.diff(noise.amount.steps, prepend=np.uint64(0)).astype(np.float64) / 2**62
    return np.concatenate([[1 - chance], chance * weights])


def difference(noise, size, bits):
    """One person's noise: a count less another."""
    return noise.draw(size, bits) - noise.draw(size, bits)


class TestNoise:
    @pytest.mark.parametrize(("rate", "people"), [(0.5, 5), (2.0, 1), (0.05, 12)])
    def test_everybody_s_shares_add_up_to_geometric_numbers(self, rate, people):
        noise = RareCount.polya(rate=rate, people=people)
        one = implemented(noise)
        total = np.ones(1)
        for _ in range(people):
            total = np.convolve(total, one)
        geometric = np.exp(-rate * np.arange(total.size)) * -math.expm1(-rate)
        distance = np.abs(total - geometric).sum() / 2
        assert distance <= people * noise.error + 1e-13

    def test_the_error_is_small_against_delta(self):
        for n, levels in ((10**6, 1000), (10**4, 100), (10**8, 10_000)):
            noise = RareCount.polya(rate=1 / levels, people=n)
            assert (1 + math.e) * n * 2 * noise.error < 1e-9

    def test_the_sampler_follows_its_table(self):
        noise = RareCount.polya(rate=0.8, people=2)
        one = implemented(noise)
        law = np.convolve(one, one[::-1])
        middle = one.size - 1
        drawn = difference(noise, 200_000, randomness.simulated(2))
        places = np.arange(-6, 7)
        seen = np.array([(drawn == place).sum() for place in places])
        expected = law[middle + places] * drawn.size
        seen, expected = np.append(seen, drawn.size - seen.sum()), np.append(expected, 0)
        expected[-1] = drawn.size - expected.sum()
        assert stats.chisquare(seen, expected).pvalue > 1e-7

    def test_the_variance_of_the_total_is_that_of_discrete_laplace_noise(self):
        people, runs, rate = 50, 20_000, 0.1
        noise = RareCount.polya(rate=rate, people=people)
        drawn = difference(noise, people * runs, randomness.simulated(3))
        totals = drawn.reshape(runs, people).sum(axis=1)
        a = math.exp(-rate)
        assert plain(levels=1, epsilon=rate, people=people).noise_variance(people) == pytest.approx(
            2 * a / (1 - a) ** 2
        )
        # The fourth moment of Laplace noise is 24 b^4: the variance of a square is 5 sigma^4.
        assert np.mean(totals.astype(float) ** 2) == pytest.approx(
            2 * a / (1 - a) ** 2, rel=5.5 * math.sqrt(5 / runs)
        )
        sizes = np.abs(totals)
        tail = 2 * a**20 / (1 + a)
        assert np.mean(sizes >= 20) == pytest.approx(
            tail, abs=5.5 * math.sqrt(tail * (1 - tail) / runs)
        )

    def test_noise_too_wide_to_draw_is_refused(self):
        with pytest.raises(InvalidArgumentError, match="fewer levels"):
            make(levels=10**6, epsilon=0.01).randomize([0.0])


class TestExactness:
    @settings(max_examples=60)
    @given(st.lists(st.integers(0, 100), min_size=1, max_size=40), st.integers(13, 62))
    def test_without_noise_whole_numbers_are_summed_exactly(self, values, bits):
        protocol = plain(bits=bits)
        source = randomness.simulated(len(values))
        batch = shoal.shuffle(protocol.randomize(values, randomness=source), randomness=source)
        assert protocol.sums(protocol.tally(batch)) == [sum(values)]
        assert protocol.estimate(batch).sum == pytest.approx(sum(values))

    def test_sums_wrap_around_many_times_without_harm(self):
        protocol = plain(bits=62, shares=20)
        values = np.arange(500) % 101
        parts = [
            protocol.tally(protocol.randomize(part, randomness=randomness.simulated(i)))
            for i, part in enumerate(np.array_split(values, 7))
        ]
        together = parts[0]
        for part in parts[1:]:
            together = together + part
        assert protocol.sums(together) == [int(values.sum())]

    def test_a_modulus_that_just_fits_is_enough_and_a_smaller_one_is_refused(self):
        values = np.full(10, 100)
        protocol = plain(bits=10)
        sent = protocol.randomize(values, randomness=randomness.simulated(1))
        assert protocol.sums(protocol.tally(sent)) == [1000]
        small = plain(bits=9)
        with pytest.raises(InvalidArgumentError, match="bits for the sum"):
            small.estimate(small.tally(small.randomize(values)))

    def test_every_share_by_itself_is_uniform(self):
        protocol = plain(bits=3, levels=1, high=1.0)
        sent = protocol.randomize(np.ones(40_000), randomness=randomness.simulated(5))
        for slot in range(3):
            seen = np.bincount(sent.messages[slot::3], minlength=8)
            assert stats.chisquare(seen).pvalue > 1e-7


class TestErrors:
    def test_unbiased_with_the_predicted_error_and_intervals_that_cover(self):
        n, runs = 2000, 1000
        protocol = make(n=n)
        values = np.linspace(-2.0, 3.0, n) ** 3 / 9 - 0.1
        truth = float(values.mean())
        source = randomness.simulated(1)
        found = [
            protocol.estimate(protocol.tally(protocol.randomize(values, randomness=source)))
            for _ in range(runs)
        ]
        errors = np.array([each.mean - truth for each in found])
        predicted = protocol.variance(n=n)
        assert abs(errors.mean()) <= 5.5 * math.sqrt(predicted / runs)
        # Rounding is counted at its worst, 1/9 of all; a uniform fraction has 2/3 of it.
        ratio = np.mean(errors**2) / predicted
        assert 0.963 - 5.5 * math.sqrt(5 / runs) <= ratio <= 1 + 5.5 * math.sqrt(5 / runs)
        assert all(each.standard_error == pytest.approx(math.sqrt(predicted)) for each in found)
        for level in (0.5, 0.9, 0.95, 0.99):
            reach = found[0].interval(level)[1] - found[0].mean  # for all the same
            covered = np.mean(np.abs(errors) <= reach)
            assert covered >= level - 5 * math.sqrt(level * (1 - level) / runs)

    def test_the_sum_of_a_million_is_as_good_as_that_of_a_thousand(self):
        for n in (1000, 10**6):
            protocol = make(n=n, low=0.0, high=1.0)
            assert n**2 * protocol.variance(n=n) == pytest.approx(0.25 + 2, rel=0.05)

    def test_more_people_than_share_the_noise_add_more_noise(self):
        protocol = make(n=500)
        values = np.full(2000, 0.5)
        source = randomness.simulated(8)
        errors = []
        for _ in range(400):
            sent = protocol.randomize(values, randomness=source)
            errors.append(protocol.estimate(protocol.tally(sent)).mean - 0.5)
        ratio = np.mean(np.square(errors)) / protocol.variance(n=2000)
        assert 1 - 5.5 * math.sqrt(4 / 400) <= ratio <= 1 + 5.5 * math.sqrt(4 / 400)

    @pytest.mark.parametrize("levels", [1, 2, 5])
    def test_intervals_cover_where_the_noise_is_coarse(self, levels):
        protocol = plain(low=0, high=levels, levels=levels, people=4, epsilon=1.0)
        everybody = np.tile([levels, 0, levels, 0], 2000)
        sent = protocol.randomize(everybody, randomness=randomness.simulated(levels))
        shares = sent.messages.reshape(2000, 4 * protocol.shares)
        sums = shares.sum(axis=1) % (1 << protocol.modulus_bits)
        covered = 0
        for total, times in zip(*np.unique(sums, return_counts=True), strict=True):
            counts = Counts(np.array([total, 4 * protocol.shares]), 4)
            low, high = protocol.estimate(counts).interval(0.95)
            covered += times * (low <= levels / 2 <= high)
        assert covered / 2000 >= 0.95 - 5 * math.sqrt(0.0475 / 2000)

    @pytest.mark.parametrize("ratio", [0.0, 1e-7, 0.01, 0.5, 3.0, 25.0, 40.0])
    def test_quantiles_of_laplace_plus_normal_noise(self, ratio):
        noise = LaplaceNoise(1.0, spread=ratio, scale=1.0)
        mean = MeanEstimate(0.0, 1.0, 10, noise)
        width = 0.02
        at = np.arange(-4000, 4001) * width * max(1.0, ratio)
        laplace = np.exp(-np.abs(at))
        normal = np.exp(-((at / max(ratio, 1e-9)) ** 2) / 2)
        both = np.convolve(laplace, normal, mode="same")
        both /= both.sum()
        for level in (0.5, 0.95, 0.999):
            reach = noise._quantile(1 - level)
            assert both[np.abs(at) <= reach].sum() == pytest.approx(level, abs=0.02)
        assert mean.interval(0.99)[1] > mean.interval(0.9)[1]

    def test_numbers_are_rounded_to_neighbouring_levels_right_on_average(self):
        drawn = rounded(np.full(100_000, 0.1), -1.0, 1.0, 4, randomness.simulated(6))
        assert set(drawn.tolist()) == {2, 3}
        assert drawn.mean() == pytest.approx(2.2, abs=5.5 * 0.4 / math.sqrt(100_000))
        assert rounded(np.array([-1.0, 1.0]), -1.0, 1.0, 4, randomness.simulated(6)).tolist() == [
            0,
            4,
        ]


class TestLostAndForged:
    n = 300

    def sent(self, protocol):
        return protocol.randomize(np.full(self.n, 0.5), randomness=randomness.simulated(4))

    def test_every_lost_or_added_message_is_noticed(self):
        protocol = make(n=self.n)
        messages = self.sent(protocol).messages
        for batch in (messages[1:], np.append(messages, 7), messages[: -protocol.shares]):
            with pytest.raises(InvalidArgumentError, match=f"{protocol.shares} of each"):
                protocol.estimate(Batch(batch, self.n))

    def test_an_altered_share_is_noticed_but_for_the_stated_chance(self):
        protocol = make(n=self.n)
        sent = self.sent(protocol)
        assert protocol.undetected(self.n) <= 2.0**-24
        for i, forged in enumerate(randomness.simulated(5).below(protocol.outputs, 200)):
            messages = sent.messages.copy()
            messages[i] = forged
            with pytest.raises(InvalidArgumentError, match="altered, lost or forged"):
                protocol.estimate(Batch(messages, self.n))

    def test_the_stated_chance_is_what_happens_with_few_bits_to_spare(self):
        protocol = plain(bits=12, people=10)
        sent = protocol.tally(
            protocol.randomize(np.full(10, 50), randomness=randomness.simulated(1))
        )
        kept = 0
        for shift in range(4096):
            try:
                protocol.sums(Counts(sent.cells + np.array([shift, 0]), 10))
                kept += 1
            except InvalidArgumentError:
                pass
        assert kept / 4096 == protocol.undetected(10)

    def test_a_dishonest_person_moves_the_sum_anywhere_plausible_and_no_further(self):
        protocol = make(n=self.n)
        low, high = protocol.plausible(self.n)
        before = protocol.tally(self.sent(protocol))
        (total,) = protocol.sums(before)

        def moved(shift):
            return protocol.estimate(Counts(before.cells + np.array([shift, 0]), self.n)).sum

        span = moved(high - total) - moved(low - total)
        assert span == pytest.approx(protocol.influence)
        assert protocol.influence > self.n * (protocol.high - protocol.low)
        for shift in (high - total + 1, low - total - 1):
            with pytest.raises(InvalidArgumentError, match="forged"):
                moved(shift)


@cache
def share_law(q, m, total):
    law = {}
    for drawn in itertools.combinations_with_replacement(range(q), m):
        if sum(drawn) % q == total:
            counts = tuple(np.bincount(drawn, minlength=q).tolist())
            ways = math.factorial(m) // math.prod(map(math.factorial, counts))
            law[counts] = ways / q ** (m - 1)
    return law


def person_law(protocol, level):
    q = 1 << protocol.modulus_bits
    half = implemented(protocol._noise)
    noise = np.convolve(half, half[::-1])
    residues = (level + np.arange(noise.size) - (half.size - 1)) % q
    law = {}
    for total in range(q):
        chance = float(noise[residues == total].sum())
        for counts, p in share_law(q, protocol.shares, total).items():
            law[counts] = law.get(counts, 0.0) + chance * p
    return law


class TestPrivacy:
    @pytest.mark.parametrize(
        ("bits", "shares", "levels", "n", "epsilon"),
        [
            (1, 6, 1, 2, 0.5),
            (2, 6, 1, 2, 1.0),
            (2, 7, 2, 2, 1.0),
            (1, 5, 1, 3, 1.0),
            (2, 4, 1, 3, 0.5),
        ],
    )
    def test_no_shuffled_output_reveals_more_than_the_profile(
        self, bits, shares, levels, n, epsilon
    ):
        protocol = plain(
            high=1.0, levels=levels, bits=bits, people=n, epsilon=epsilon, shares=shares
        )
        laws = [person_law(protocol, level) for level in range(levels + 1)]
        profile = protocol.profile(n)
        for others in itertools.combinations_with_replacement(range(levels + 1), n - 1):
            crowd = [laws[level] for level in others]
            for a, b in itertools.permutations(range(levels + 1), 2):
                first, second = crowd_law([laws[a], *crowd]), crowd_law([laws[b], *crowd])
                for at in (0.0, epsilon / 2, epsilon, 2 * epsilon):
                    truth = divergence(first, second, at)
                    assert truth <= profile.delta(at) * (1 + 1e-9) + 1e-12
        assert profile.delta(epsilon) < 0.5

    @pytest.mark.parametrize(("epsilon", "delta"), TARGETS)
    @pytest.mark.parametrize("n", [2, 50, 1000, 10**6])
    def test_the_calibration_keeps_its_target_with_the_fewest_shares(self, n, epsilon, delta):
        protocol = make(n=n, epsilon=epsilon, delta=delta)
        sigma = split_security(n=n, shares=protocol.shares, modulus_bits=protocol.modulus_bits)
        reached = protocol.profile(n).delta(epsilon)
        assert (1 + math.exp(epsilon)) * 2**-sigma <= reached <= delta
        fewer = split_security(n=n, shares=protocol.shares - 1, modulus_bits=protocol.modulus_bits)
        assert 3 * (1 + math.exp(epsilon)) * 2**-fewer > delta
        assert shoal.amplify(protocol, n=n, delta=delta).epsilon <= epsilon * (1 + 1e-6)

    def test_a_smaller_epsilon_costs_what_laplace_noise_costs(self):
        profile = make(n=1000, levels=1000).profile(1000)
        assert profile.delta(0.5) == pytest.approx(1 - math.exp(-0.25), abs=1e-3)

    def test_more_honest_people_keep_the_guarantee_and_fewer_are_refused(self):
        protocol = make(n=1000)
        assert protocol.profile(2000).delta(1.0) <= protocol.profile(1000).delta(1.0)
        with pytest.raises(OutOfRegimeError, match=r"n >= people.*calibrated with n=900"):
            protocol.profile(900)

    def test_without_noise_nothing_is_promised(self):
        assert plain(shares=10).profile(1000).delta(3.0) == 1.0

    def test_a_person_s_own_messages_are_not_private(self):
        assert math.isinf(make().local_epsilon)


class TestArguments:
    def test_a_sum_that_needs_more_than_62_bits_is_refused(self):
        with pytest.raises(InvalidArgumentError, match="fewer levels"):
            make(n=10**10, levels=50_000, epsilon=2.0)
        with pytest.raises(InvalidArgumentError, match="at most 62 bits"):
            plain(bits=63)

    def test_very_large_crowds_keep_fewer_bits_to_spare(self):
        protocol = make(n=10**9, delta=1e-9)
        assert protocol.modulus_bits == 62
        assert protocol.undetected(10**9) <= 2.0**-16

    def test_a_delta_below_what_the_sampler_lacks_is_refused(self):
        with pytest.raises(UnreachableTargetError):
            make(delta=1e-14)

    @pytest.mark.parametrize("wrong", [0.0, -1.0, math.nan, math.inf])
    def test_what_is_no_target_is_refused(self, wrong):
        with pytest.raises(InvalidArgumentError):
            make(epsilon=wrong)
        with pytest.raises(InvalidArgumentError):
            make(delta=wrong)

    @pytest.mark.parametrize(
        "wrong",
        [
            {"high": -2.0},
            {"high": math.inf},
            {"levels": 0},
            {"levels": 1 << 31},
            {"shares": 2},
            {"people": 0},
            {"bits": 0},
            {"epsilon": 0.0},
        ],
    )
    def test_what_is_no_protocol_is_refused(self, wrong):
        with pytest.raises(InvalidArgumentError):
            plain(**wrong)


@pytest.mark.parametrize(("epsilon", "n"), [(100.0, 1), (90.0, 3), (60.0, 10**6)])
def test_a_chance_too_small_to_be_drawn_is_counted(epsilon, n):
    """Chances are kept to 124 bits: what is cut off is multiplied by e^epsilon."""
    rate = epsilon * 1.01
    noise = RareCount.polya(rate=rate, people=n)
    high, low = noise.probability
    drawn = (high * 2**62 + low) / 2**124
    true = -math.expm1(math.log1p(-math.exp(-rate)) / n)
    assert noise.error >= abs(true - drawn)
