"""Counts and sums of small numbers with almost the error of a trusted curator."""

from __future__ import annotations

import itertools
import math
from functools import cache

import numpy as np
import pytest
import scipy
from hypothesis import given, settings
from hypothesis import strategies as st

import shoal
from bit_contract import BitProtocolContract
from shoal import randomness
from shoal.accounting.noise.near_central import (
    NearCentralNoise,
    NegativeBinomial,
    incomplete_delta,
    near_central_calibration,
    near_central_delta,
)
from shoal.mechanisms.counts import NearCentralCount, NearCentralSum
from shoal.mechanisms.shares import RareCount
from shoal.values import Counts, Envelopes

CROWDED = {"central_epsilon": 2.0, "shape": 2.0, "pairs": 1.5}


def negative_binomial(shape, mean, size):
    return scipy.stats.nbinom.pmf(np.arange(size), shape, shape / (shape + mean))


def person_view(protocol, value, size):
    """Pr[(messages −1, messages +1)] of one person, by the definition of the protocol."""
    high = getattr(protocol, "high", 1)
    mean = 1 / math.expm1(protocol.central_epsilon / high)
    single = negative_binomial(1 / protocol.people, mean / protocol.people, size)
    paired = negative_binomial(
        protocol.shape / protocol.people, protocol.pairs / protocol.people, size
    )
    view = np.zeros((size, size))
    for pairs in range(size):
        plus = np.concatenate([np.zeros(value), single])[: size - pairs]
        view[pairs:, pairs:] += paired[pairs] * np.outer(single[: size - pairs], plus)
    return view


def crowd_view(views):
    size = len(views[0])
    total = np.zeros((size, size))
    total[0, 0] = 1.0
    for view in views:
        total = scipy.signal.fftconvolve(total, view)[:size, :size]
    return total


def hockey_stick(first, second, epsilon):
    return float(np.maximum(first - math.exp(epsilon) * second, 0).sum())


@cache
def shown(noise, size=260):
    """The law of what is shown of a sum of 0: so many messages −1 and +1."""
    geometric = -math.expm1(-noise.rate) * np.exp(-noise.rate * np.arange(size))
    paired = negative_binomial(noise.shape, noise.pairs, size)
    view = np.zeros((size, size))
    for pairs in range(size):
        rest = geometric[: size - pairs]
        view[pairs:, pairs:] += paired[pairs] * np.outer(rest, rest)
    return view


def brute(noise, shift, epsilon):
    """Both orders of sums that differ by ``shift``, as a double sum over what is shown."""
    view = shown(noise)
    more = np.vstack([np.zeros((shift, len(view))), view[:-shift]])
    return hockey_stick(view, more, epsilon), hockey_stick(more, view, epsilon)


class TestNearCentralCount(BitProtocolContract):
    def calibrated(self, n, epsilon, delta):
        return NearCentralCount.calibrated(n=n, epsilon=epsilon, delta=delta)

    def noise(self):
        return [
            NearCentralCount(**CROWDED, people=2),
            NearCentralCount(central_epsilon=1.0, shape=0.7, pairs=1.0, people=3),
        ]

    def person_law(self, protocol, value):
        view = person_view(protocol, value, 140)
        return {
            (minus, plus): float(view[minus, plus])
            for minus, plus in itertools.product(range(140), repeat=2)
        }

    def test_no_shuffled_output_reveals_more_than_the_profile(self):
        for protocol, n in itertools.product(self.noise(), (1, 2, 3, 4)):
            profile = protocol.profile(n)
            views = [person_view(protocol, value, 90) for value in (0, 1)]
            for ones in range(n):
                others = [views[1]] * ones + [views[0]] * (n - 1 - ones)
                first, second = (crowd_view([view, *others]) for view in views)
                for epsilon in (0.0, 0.3, 1.0, 2.5):
                    truth = max(
                        hockey_stick(first, second, epsilon), hockey_stick(second, first, epsilon)
                    )
                    bound = profile.delta(epsilon)
                    assert truth <= bound * (1 + 1e-8) + 1e-10
                    if n <= protocol.people and not ones:
                        assert bound <= truth * (1 + 1e-6) + 1e-9

    def test_the_count_is_almost_as_good_as_a_curators(self):
        people, crowds, parts = 50, 20_000, 2
        protocol = NearCentralCount.calibrated(n=people, epsilon=1.0, delta=1e-6, inflation=1.25)
        predicted = people**2 * float(protocol.variance(0.5, n=people))
        assert predicted <= 2.31
        assert protocol.pairs <= 320
        values = (np.arange(people) % 3 == 0).astype(int)
        errors = []
        for part in range(parts):
            sent = protocol.randomize(
                np.tile(values, crowds), randomness=randomness.simulated(part)
            )
            crowd = np.repeat(np.arange(len(sent)) // people, sent.sizes)
            counts = np.bincount(crowd, weights=2.0 * sent.messages - 1, minlength=crowds)
            errors.append(counts - values.sum())
        found = np.concatenate(errors)
        spread = 5.5 * math.sqrt(5.5 / found.size)
        assert np.mean(found**2) == pytest.approx(predicted, rel=spread)
        assert abs(found.mean()) <= 5.5 * math.sqrt(predicted / found.size)
        estimate = protocol.estimate(Counts(np.array([0, people]), people))
        for level in (0.5, 0.8, 0.95, 0.99, 0.9999):
            reach = people * (estimate.interval(level)[1][1] - 1)
            covered = np.mean(np.abs(found) <= reach + 1e-9)
            assert covered >= level - 5.5 * math.sqrt(level * (1 - level) / found.size)

    @pytest.mark.parametrize("all_of", [0, 1])
    def test_everybody_on_one_answer(self, all_of):
        n, runs = 400, 500
        protocol, source = self.calibrated(n, 1.0, 1e-6), randomness.simulated(8)
        values = np.full(n, all_of)
        found = [
            protocol.estimate(protocol.tally(protocol.randomize(values, randomness=source)))
            for _ in range(runs)
        ]
        mean = np.mean([e.counts[1] for e in found])
        error = math.sqrt(n**2 * float(protocol.variance(1.0, n=n)) / runs)
        assert abs(mean - n * all_of) <= 5.5 * error

    def test_what_the_tables_round_off_is_nothing_beside_delta(self):
        protocol = self.calibrated(10**6, 1.0, 1e-6)
        assert 0 < protocol.profile(10**6).slack < 1e-3 * 1e-6
        assert protocol.messages < 1.0007

    def test_more_people_add_more_noise_and_a_larger_error(self):
        protocol = self.calibrated(500, 1.0, 1e-6)
        assert protocol.profile(2000).delta(1.0) == protocol.profile(500).delta(1.0)
        assert protocol.profile(2000).slack == protocol.profile(500).slack
        whole, more = (n**2 * float(protocol.variance(0.0, n=n)) for n in (500, 2000))
        assert more == pytest.approx(4 * whole)
        source = randomness.simulated(2)
        values = np.zeros(2000, dtype=int)
        sent = [protocol.tally(protocol.randomize(values, randomness=source)) for _ in range(400)]
        errors = np.array([float(c.cells[1] - c.cells[0]) for c in sent])
        assert np.mean(errors**2) == pytest.approx(more, rel=5.5 * math.sqrt(3 / 400))

    def test_both_limits_hold_together(self):
        protocol = self.calibrated(500, 1.0, 1e-6)
        sent = protocol.randomize(np.ones(500, dtype=int), randomness=randomness.simulated(1))
        estimate = protocol.estimate(protocol.tally(sent))
        alone, together = estimate.interval(0.95), estimate.interval(0.95, simultaneous=True)
        assert np.array_equal(alone, together)
        assert (alone[0] + alone[1][::-1]).tolist() == pytest.approx([1.0, 1.0])


class TestNearCentralSum:
    def make(self, high, n=1000, epsilon=1.0, delta=1e-6):
        return NearCentralSum.calibrated(high=high, n=n, epsilon=epsilon, delta=delta)

    @pytest.mark.parametrize("high", [2, 3])
    def test_no_shuffled_output_reveals_more_than_the_profile(self, high):
        protocol = NearCentralSum(**CROWDED, people=2, high=high)
        views = [person_view(protocol, value, 110) for value in range(high + 1)]
        for n in (1, 2, 3):
            profile = protocol.profile(n)
            for epsilon in (0.0, 0.3, 1.0, 2.5):
                truth = 0.0
                for others in itertools.combinations_with_replacement((0, high), n - 1):
                    crowd = [views[value] for value in others]
                    shown = [crowd_view([view, *crowd]) for view in views]
                    pairs = itertools.permutations(shown, 2)
                    truth = max(truth, *(hockey_stick(*pair, epsilon) for pair in pairs))
                bound = profile.delta(epsilon)
                assert truth <= bound * (1 + 1e-8) + 1e-10
                if n <= protocol.people:
                    assert bound <= truth * (1 + 1e-6) + 1e-9

    @pytest.mark.parametrize("high", [1, 4, 20])
    def test_the_sum_is_unbiased_and_as_good_as_predicted(self, high):
        n, runs = 500, 2000 // (high + 4)
        protocol = self.make(high, n)
        assert 0.9e-6 <= protocol.profile(n).delta(1.0) <= 1e-6
        predicted = n**2 * protocol.variance(n=n)
        assert predicted <= 1.31 * 2 * high**2
        values = np.arange(n) * 7 % (high + 1)
        source = randomness.simulated(high)
        found = [
            protocol.estimate(protocol.tally(protocol.randomize(values, randomness=source)))
            for _ in range(runs)
        ]
        errors = np.array([e.sum for e in found]) - values.sum()
        assert abs(errors.mean()) <= 5.5 * math.sqrt(predicted / runs)
        assert np.mean(errors**2) == pytest.approx(predicted, rel=5.5 * math.sqrt(5 / runs))
        assert found[0].standard_error == pytest.approx(math.sqrt(predicted) / n)
        low, upper = zip(*(e.interval(0.9) for e in found), strict=True)
        truth = values.mean()
        covered = np.mean((np.array(low) <= truth + 1e-12) & (truth - 1e-12 <= np.array(upper)))
        assert covered >= 0.9 - 5.5 * math.sqrt(0.09 / runs)

    def test_one_dishonest_person_adds_no_more_than_said(self):
        protocol = self.make(3)
        sent = protocol.tally(protocol.randomize([1, 2], randomness=randomness.simulated(5)))
        flood = Envelopes(np.ones(protocol.slots, dtype=np.int64), np.array([protocol.slots]))
        after = sent + protocol.tally(flood)
        moved = protocol.estimate(after).sum - protocol.estimate(sent).sum
        assert moved == pytest.approx(protocol.influence)

    @pytest.mark.parametrize("values", [[0.5], [-1], [6], [math.nan], [[1]]])
    def test_what_is_no_whole_number_in_range_is_refused(self, values):
        with pytest.raises(shoal.InvalidArgumentError):
            self.make(5).randomize(values)

    @pytest.mark.parametrize("levels", [1, 4])
    def test_numbers_in_between_are_rounded_at_random(self, levels):
        n, runs, low, high = 400, 400, -3.0, 5.0
        asked = {"n": n, "epsilon": 1.0, "delta": 1e-6}
        protocol = NearCentralSum.calibrated(low=low, high=high, levels=levels, **asked)
        # The steps are whole numbers, and as private as those.
        whole = NearCentralSum.calibrated(high=levels, **asked)
        assert protocol.profile(n).delta(0.7) == whole.profile(n).delta(0.7)
        assert (protocol.messages, protocol.slots) == (whole.messages, whole.slots)
        assert protocol.influence == pytest.approx(8 / levels * whole.influence + 3)
        rounding = (8 / levels) ** 2 * n / 4
        noise = (8 / levels * n) ** 2 * whole.variance(n=n)
        assert n**2 * protocol.variance(n=n) == pytest.approx(rounding + noise)
        step = 8 / levels
        values = np.full(n, low + step / 2)  # the worst there is
        source = randomness.simulated(levels)
        found = [
            protocol.estimate(protocol.tally(protocol.randomize(values, randomness=source)))
            for _ in range(runs)
        ]
        errors = np.array([each.sum for each in found]) - values.sum()
        predicted = n**2 * protocol.variance(n=n)
        assert abs(errors.mean()) <= 5.5 * math.sqrt(predicted / runs)
        assert np.mean(errors**2) == pytest.approx(predicted, rel=5.5 * math.sqrt(5 / runs))
        assert found[0].standard_error == pytest.approx(math.sqrt(predicted) / n)
        inside = [low <= values[0] <= high for low, high in (each.interval(0.9) for each in found)]
        assert np.mean(inside) >= 0.9 - 5.5 * math.sqrt(0.09 / runs)

    @pytest.mark.parametrize("value", [-3.0, 1.0, 5.0])
    def test_a_number_on_a_step_is_not_rounded(self, value):
        protocol = NearCentralSum.calibrated(
            low=-3.0, high=5.0, levels=4, n=50, epsilon=1.0, delta=1e-6
        )
        numbers, drawn = np.full(50, value), randomness.simulated(1)
        sent = protocol.tally(protocol.randomize(numbers, randomness=drawn))
        total = protocol.estimate(sent).sum - 50 * value
        assert total / 2.0 == pytest.approx(round(total / 2.0), abs=1e-6)

    @pytest.mark.parametrize(
        "bounds",
        [
            {"low": 1.0, "high": 3.0},
            {"low": 0.0, "high": 2.5},
            {"low": 3.0, "high": 1.0, "levels": 4},
            {"low": 0.0, "high": 1.0, "levels": 65},
            {"low": 0.0, "high": 1.0, "levels": 0},
        ],
    )
    def test_bounds_and_levels_have_to_fit(self, bounds):
        with pytest.raises(shoal.InvalidArgumentError):
            NearCentralSum.calibrated(**bounds, n=100, epsilon=1.0, delta=1e-6)

    def test_large_numbers_are_for_another_protocol(self):
        with pytest.raises(shoal.InvalidArgumentError, match="split-and-mix"):
            self.make(65)

    def test_half_of_much_noise_is_refused(self):
        protocol = NearCentralSum(central_epsilon=0.9, shape=16, pairs=15_000, people=1000, high=64)
        with pytest.raises(shoal.InvalidArgumentError, match="calibrate for fewer"):
            protocol.profile(500).delta(1.0)


# --------------------------------------------------------------------------- the divergence


@pytest.mark.parametrize("high", [2, 3, 5])
@pytest.mark.parametrize(("shape", "pairs"), [(0.5, 2.0), (3.0, 8.0), (15.0, 12.0)])
def test_every_shift_is_what_the_shuffler_shows(high, shape, pairs):
    noise = NearCentralNoise(central_epsilon=1.5, shape=shape, pairs=pairs, high=high)
    for shift, epsilon in itertools.product(range(1, high + 1), (0.0, 0.2, 0.9, 1.4, 3.0)):
        truth = max(brute(noise, shift, epsilon))
        found = noise.delta_at(epsilon, shifts=range(shift, shift + 1))
        assert truth * (1 - 1e-9) <= found <= truth * (1 + 1e-7) + 1e-12


@settings(deadline=None, derandomize=True, max_examples=40)
@given(
    high=st.integers(2, 12),
    central=st.floats(0.3, 3.0),
    shape=st.floats(1.0, 40.0),
    pairs=st.floats(0.5, 200.0),
    epsilon=st.floats(0.0, 3.0),
)
def test_the_largest_shift_is_the_worst(high, central, shape, pairs, epsilon):
    noise = NearCentralNoise(central_epsilon=central, shape=shape, pairs=pairs, high=high)
    deltas = [noise.delta_at(epsilon, shifts=range(j, j + 1)) for j in range(1, high + 1)]
    assert noise.delta(epsilon) == deltas[-1]
    assert max(deltas) <= deltas[-1] * (1 + 1e-9) + 1e-15


def test_small_shapes_try_every_shift():
    noise = NearCentralNoise(central_epsilon=1.0, shape=0.2, pairs=3.0, high=4)
    assert noise.delta(0.5) == noise.delta_at(0.5, shifts=range(1, 5))


@pytest.mark.parametrize("high", [1, 3, 8, 64])
def test_the_calibration_keeps_its_target_for_every_shift(high):
    noise = near_central_calibration(epsilon=1.0, delta=1e-6, high=high)
    last = noise.delta_at(1.0, shifts=range(high, high + 1))
    assert 0.99e-6 <= last <= 1e-6
    some = noise.delta_at(1.0, shifts=range(1, high + 1, 9))
    assert some <= 1e-6
    central = 0.5 / math.sinh(0.5 / high) ** 2
    assert noise.mean_squared_error == pytest.approx(1.25 * central)


@pytest.mark.parametrize("high", [1, 2])
def test_all_shares_present_are_the_complete_noise(high):
    noise = near_central_calibration(epsilon=1.0, delta=1e-6, high=high)
    fields = {
        "central_epsilon": noise.central_epsilon,
        "shape": noise.shape,
        "pairs": noise.pairs,
        "high": high,
    }
    for epsilon in (0.0, 0.5, 1.0, 2.0):
        whole = near_central_delta(**fields, epsilon=epsilon)
        found = incomplete_delta(**fields, present=1.0, epsilon=epsilon)
        assert found == pytest.approx(whole, rel=1e-6, abs=1e-15)
    deltas = [incomplete_delta(**fields, present=p, epsilon=1.0) for p in (1.0, 0.99, 0.9, 0.5)]
    assert deltas == sorted(deltas)


# ------------------------------------------------------------------------- shares of noise


@pytest.mark.parametrize(("shape", "mean", "people"), [(1.0, 0.8, 7), (18.0, 260.0, 50), (2, 3, 1)])
def test_shares_add_up_to_the_law(shape, mean, people):
    law = NegativeBinomial.of_mean(mean, shape=shape)
    share = RareCount.negative_binomial(law, people=people)
    weights = np.diff(share.amount.steps.astype(object), prepend=0)
    high, low = share.probability
    some = high / 2**62 + low / 2**124
    one = np.concatenate([[1 - some], some * weights.astype(float) / 2**62])
    size = 2000
    total = np.zeros(size)
    total[0] = 1.0
    for _ in range(people):
        total = np.convolve(total, one)[:size]
    truth = negative_binomial(shape, mean, size)
    assert 0.5 * np.abs(total - truth).sum() <= people * share.error + 1e-12
    assert people * share.error < 1e-9
    assert share.largest == one.size - 1


def test_probabilities_are_those_of_the_law():
    law = NegativeBinomial.of_mean(3.0, shape=0.02)
    pmf, beyond = law.probabilities()
    truth = negative_binomial(0.02, 3.0, pmf.size)
    assert np.abs(pmf / truth - 1).max() < 1e-9
    assert pmf.sum() + beyond == pytest.approx(1.0, abs=1e-11)
    assert law.mean == pytest.approx(3.0)
    with pytest.raises(shoal.InvalidArgumentError, match="likely counts"):
        NegativeBinomial.of_mean(1e9, shape=1.0).probabilities()
