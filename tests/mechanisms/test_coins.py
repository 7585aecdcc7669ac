"""One bit per person, replaced by a fair coin now and then."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

import shoal
from bit_contract import BitProtocolContract
from protocol_contract import TARGETS
from shoal import randomness
from shoal.accounting.noise.binary import coins_mean
from shoal.mechanisms.counts import FairCoins


class TestFairCoins(BitProtocolContract):
    def calibrated(self, n, epsilon, delta):
        return FairCoins.calibrated(n=n, epsilon=epsilon, delta=delta)

    def noise(self):
        return [FairCoins(coins=share) for share in (0.1, 0.5, 0.9)]

    def person_law(self, protocol, value):
        lie = protocol.coins / 2
        truth = (1, 0) if value == 0 else (0, 1)
        return {truth: 1 - lie, truth[::-1]: lie}

    @pytest.mark.parametrize(("epsilon", "delta"), TARGETS)
    def test_the_calibration_keeps_its_target_and_wastes_little(self, epsilon, delta):
        for n in (1000, 10**5):
            protocol = self.calibrated(n, epsilon, delta)
            assert 0.9 * delta <= protocol.profile(n).delta(epsilon) <= delta
            found = shoal.amplify(protocol, n=n, delta=delta)
            assert 0.98 * epsilon <= found.epsilon <= epsilon * (1 + 1e-7)
            lie = protocol.coins / 2
            assert found.local_epsilon == pytest.approx(math.log((1 - lie) / lie))
            assert protocol.messages == protocol.slots == 1

    def test_one_person_has_the_local_epsilon_and_no_delta(self):
        protocol = FairCoins(coins=0.5)
        local = math.log(3)
        assert local <= protocol.local_epsilon <= local * (1 + 1e-13)
        assert protocol.profile(1).delta(protocol.local_epsilon) == 0
        assert protocol.profile(1).delta(local - 0.1) > 0.01

    def test_it_takes_a_tenth_of_the_published_coins(self):
        n = 100_000
        protocol = self.calibrated(n, 1.0, 1e-6)
        assert 68 <= n * protocol.coins <= 86
        assert n * protocol.coins < coins_mean(epsilon=1.0, delta=1e-6) / 11
        assert n * math.sqrt(protocol.variance(0.5, n=n)) <= 6.6

    def test_few_people_fall_back_on_their_own_coins(self):
        protocol = self.calibrated(3, 1.0, 1e-6)
        assert protocol.local_epsilon <= 1.2

    @pytest.mark.parametrize("all_of", [0, 1])
    def test_everybody_on_one_answer(self, all_of):
        n, runs = 2000, 300
        protocol, source = self.calibrated(n, 1.0, 1e-6), randomness.simulated(9)
        values = np.full(n, all_of)
        found = [
            protocol.estimate(protocol.tally(protocol.randomize(values, randomness=source)))
            for _ in range(runs)
        ]
        errors = np.array([e.frequencies[all_of] - 1 for e in found])
        expected = float(protocol.variance(1.0, n=n))
        assert abs(errors.mean()) <= 5.5 * math.sqrt(expected / runs)
        assert np.mean(errors**2) == pytest.approx(expected, rel=5.5 * math.sqrt(2.2 / runs))

    def test_coins_are_a_share_that_leaves_something_of_the_truth(self):
        for wrong in (0.0, -0.1, 1.0, math.nan):
            with pytest.raises(shoal.InvalidArgumentError):
                FairCoins(coins=wrong)
        with pytest.raises(shoal.UnreachableTargetError, match="nothing but coins"):
            FairCoins.calibrated(n=2, epsilon=1e-8, delta=1e-9)

    def test_the_share_is_exact(self):
        for share, n in itertools.product((0.1, 1e-7), (3, 10**6)):
            protocol = FairCoins(coins=share)
            assert protocol.coins >= share
            assert protocol.coins * 2**52 == round(protocol.coins * 2**52)
            assert FairCoins(coins=protocol.coins) == protocol
            assert protocol.profile(n).delta(0.5) > 0
