"""The truth among uniform dummies."""

from __future__ import annotations

import itertools
from collections import defaultdict

import numpy as np
import pytest

import shoal
from protocol_contract import AnswerProtocolContract
from shoal import randomness
from shoal.intervals.laws import Binomials
from shoal.mechanisms.dummies import UniformDummies


class TestUniformDummies(AnswerProtocolContract):
    def make(self, k, n, epsilon, delta):
        return UniformDummies.calibrated(k=k, n=n, epsilon=epsilon, delta=delta)

    def noisy(self, k):
        return [UniformDummies(k=k, dummies=rate) for rate in (0.3, 1.0, 1.5)]

    def person_law(self, protocol, value):
        always, rest = divmod(protocol.dummies, 1.0)
        law = defaultdict(float)
        for count, chance in ((int(always), 1 - rest), (int(always) + 1, rest)):
            if not chance:
                continue
            for drawn in itertools.product(range(protocol.k), repeat=count):
                key = np.bincount([value, *drawn], minlength=protocol.k)
                law[tuple(key.tolist())] += chance / protocol.k**count
        return dict(law)

    @pytest.mark.parametrize(("n", "k", "largest"), [(10**6, 100, 66), (10**5, 1000, 212)])
    def test_the_error_of_the_whole_chart(self, n, k, largest):
        protocol = self.make(k, n, 1.0, 1e-6)
        values = randomness.simulated(k).below(k, n).astype(int)
        truth = np.bincount(values, minlength=k)
        source = randomness.simulated(4)
        errors = [
            np.linalg.norm(
                protocol.estimate(
                    protocol.tally(protocol.randomize(values, randomness=source))
                ).counts
                - truth
            )
            for _ in range(8)
        ]
        assert n * np.sqrt(protocol.variance(np.zeros(k), n=n).sum()) <= largest
        assert np.sqrt(np.mean(np.square(errors))) <= 1.15 * largest

    def test_too_many_dummies_are_refused(self):
        with pytest.raises(shoal.InvalidArgumentError, match="dummies"):
            UniformDummies.calibrated(k=10**6, n=100, epsilon=0.1, delta=1e-9)

    @pytest.mark.parametrize(("k", "epsilon"), [(10**4, 1.0), (10**5, 3.0)])
    def test_limits_of_all_answers_hold_together(self, k, epsilon):
        n, runs = 10_000, 60
        protocol = self.make(k, n, epsilon, 1e-6)
        source = randomness.simulated(k)
        values = np.zeros(n, dtype=np.int64)
        truth = np.zeros(k)
        truth[0] = 1.0
        missed = 0
        for _ in range(runs):
            found = protocol.estimate(protocol.tally(protocol.randomize(values, randomness=source)))
            low, high = found.interval(0.95, simultaneous=True)
            missed += bool(((truth < low) | (truth > high)).any())
        # At most 5 % may miss: 15 of 60 have a chance below 1e-6.
        assert missed < 15


def test_quantiles_are_those_of_the_sum():
    rng = np.random.default_rng(5)
    drawn = rng.binomial(40, 0.1, 400_000) + rng.binomial(7, 0.5, 400_000)
    for tail in (0.2, 0.05, 0.01):
        fewest, most = Binomials(((40, 0.1), (7, 0.5))).limits(2 * tail)
        assert (drawn < fewest).mean() <= tail + 0.004
        assert (drawn <= fewest).mean() > tail - 0.004
        assert (drawn > most).mean() <= tail + 0.004
        assert (drawn >= most).mean() > tail - 0.004
