"""What every protocol for answers must do; each one's tests inherit it."""

from __future__ import annotations

import itertools
import math
from collections import defaultdict

import numpy as np
import pytest
from scipy import stats

import shoal
from shoal import randomness
from shoal.values import Envelopes

RARE = 1e-7  # a correct build fails a test at this level once in ten million
TARGETS = ((0.5, 1e-6), (1.0, 1e-6), (2.0, 1e-4))


def crowd_law(laws):
    """The law of the sum of independent count vectors, each law a dictionary {counts: chance}."""
    total = {next(iter(laws[0])): 0.0}
    total = {tuple(0 for _ in next(iter(total))): 1.0}
    for law in laws:
        merged = defaultdict(float)
        for (before, p), (own, q) in itertools.product(total.items(), law.items()):
            merged[tuple(map(sum, zip(before, own, strict=True)))] += p * q
        total = merged
    return total


def divergence(first, second, epsilon):
    """D_x(first || second) of two laws given as dictionaries."""
    x = math.exp(epsilon)
    return math.fsum(max(0.0, p - x * second.get(seen, 0.0)) for seen, p in first.items())


class AnswerProtocolContract:
    """Inherit, and define ``make(k, n, epsilon, delta)``, ``noisy(k)`` and ``person_law``."""

    small = (2, 3)
    crowds = (1, 2, 3, 4)
    sizes = (2, 10, 100)

    def make(self, k, n, epsilon, delta):
        """The protocol calibrated for n honest people."""
        raise NotImplementedError

    def noisy(self, k):
        """Protocols with noise so strong that four people's messages can be listed."""
        raise NotImplementedError

    def person_law(self, protocol, value):
        """{how often each message is sent: chance}, by the definition of the protocol."""
        raise NotImplementedError

    def seen_counts(self, protocol, envelopes):
        """One row per person: how often each message was sent."""
        owners = np.repeat(np.arange(len(envelopes)), envelopes.sizes)
        cells = owners * protocol.outputs + envelopes.messages
        counts = np.bincount(cells, minlength=len(envelopes) * protocol.outputs)
        return counts.reshape(len(envelopes), protocol.outputs)

    def test_no_shuffled_output_reveals_more_than_the_profile(self):
        for k in self.small:
            for protocol, n in itertools.product(self.noisy(k), self.crowds):
                laws = [self.person_law(protocol, value) for value in range(k)]
                profile = protocol.profile(n)
                for others in itertools.combinations_with_replacement(range(k), n - 1):
                    crowd = [laws[value] for value in others]
                    first, second = crowd_law([laws[0], *crowd]), crowd_law([laws[1], *crowd])
                    for epsilon in (0.0, 0.2, 1.0, 3.0):
                        truth = max(
                            divergence(first, second, epsilon), divergence(second, first, epsilon)
                        )
                        assert truth <= profile.delta(epsilon) * (1 + 1e-9) + 1e-12

    def test_the_sampler_follows_its_law(self):
        people = 20_000
        for k in self.small:
            for protocol in self.noisy(k):
                for value in range(k):
                    source = randomness.simulated(100 * k + value)
                    sent = protocol.randomize(np.full(people, value), randomness=source)
                    law = self.person_law(protocol, value)
                    assert math.fsum(law.values()) == pytest.approx(1.0, abs=1e-9)
                    # Every row of counts as one number.
                    places = 256 ** np.arange(protocol.outputs)
                    drawn = self.seen_counts(protocol, sent) @ places
                    seen = dict(zip(*np.unique(drawn, return_counts=True), strict=True))
                    keys = np.array(list(law)) @ places
                    assert set(seen) <= set(keys)
                    expected = np.array(list(law.values())) * people
                    found = np.array([seen.get(key, 0) for key in keys], dtype=float)
                    found, expected = found[expected >= 20], expected[expected >= 20]
                    rest = people - expected.sum()
                    if rest > 20:
                        expected, found = (
                            np.append(expected, rest),
                            np.append(found, people - found.sum()),
                        )
                    found *= expected.sum() / found.sum()
                    assert stats.chisquare(found, expected).pvalue > RARE

    @pytest.mark.parametrize(("epsilon", "delta"), TARGETS)
    def test_the_calibration_keeps_its_target_and_wastes_little(self, epsilon, delta):
        for k, n in itertools.product(self.sizes, (1000, 10**5)):
            protocol = self.make(k, n, epsilon, delta)
            assert 0.9 * delta <= protocol.profile(n).delta(epsilon) <= delta
            found = shoal.amplify(protocol, n=n, delta=delta)
            assert 0.98 * epsilon <= found.epsilon <= epsilon * (1 + 1e-7)
            assert found.n == n
            assert math.isinf(found.local_epsilon)

    def test_fewer_honest_people_are_less_private(self):
        protocol = self.make(10, 10_000, 1.0, 1e-6)
        deltas = [protocol.profile(n).delta(1.0) for n in (2500, 5000, 10_000, 20_000)]
        assert deltas == sorted(deltas, reverse=True)
        assert deltas[1] > 1e-5
        half = shoal.amplify(protocol, n=10_000, delta=1e-6, crowd=shoal.Crowd(honest_fraction=0.5))
        assert half.epsilon > 1.2

    def test_messages_are_as_many_as_predicted(self):
        n = 50_000
        for k in self.sizes:
            protocol = self.make(k, n, 1.0, 1e-6)
            sent = protocol.randomize(np.arange(n) % k, randomness=randomness.simulated(k))
            assert int(sent.sizes.max()) <= protocol.slots
            spread = float(sent.sizes.std()) / math.sqrt(n)
            assert abs(sent.sizes.mean() - protocol.messages) <= 5.5 * spread + 1e-9

    def test_the_error_is_as_predicted(self):
        for k in self.sizes:
            self.check_error(k)

    def check_error(self, k, n=4_000):
        protocol = self.make(k, n, 1.0, 1e-6)
        weights = 1 / np.arange(1, k + 1)
        truth_counts = np.floor(n * weights / weights.sum()).astype(int)
        truth_counts[0] += n - truth_counts.sum()
        values = np.arange(k).repeat(truth_counts)
        truth = truth_counts / n
        source = randomness.simulated(k)
        runs = max(20, min(400, 2000 // k))
        squares, covered, sums = np.zeros(k), np.zeros(k), np.zeros(k)
        for _ in range(runs):
            batch = shoal.shuffle(protocol.randomize(values, randomness=source), randomness=source)
            estimate = protocol.estimate(batch)
            assert estimate.n == n
            squares += (estimate.frequencies - truth) ** 2
            sums += estimate.frequencies - truth
            low, high = estimate.interval(0.95)
            covered += (low <= truth) & (truth <= high)
        predicted = protocol.variance(truth, n=n)
        samples = runs * k
        spread = 5.5 * math.sqrt(3 / samples)
        assert squares.sum() / runs == pytest.approx(float(predicted.sum()), rel=max(spread, 0.05))
        assert (np.abs(sums / runs) <= 6 * np.sqrt(predicted / runs) + 1e-12).all()
        assert covered.sum() / samples >= 0.95 - 5.5 * math.sqrt(0.0475 / samples)

    def test_one_dishonest_person_adds_no_more_than_said(self):
        protocol = self.make(10, 5000, 1.0, 1e-6)
        values = np.zeros(5000, dtype=int)
        honest = protocol.randomize(values, randomness=randomness.simulated(3))
        flood = np.full(protocol.slots, 7, dtype=np.int64)
        before = protocol.tally(honest)
        after = before + protocol.tally(Envelopes(flood, np.array([flood.size])))
        moved = protocol.estimate(after).counts[7] - protocol.estimate(before).counts[7]
        assert 0.9 <= moved <= protocol.influence * (1 + 1e-9) + 1e-6

    @pytest.mark.parametrize("wrong", [0.0, -1.0, math.nan, math.inf])
    def test_what_is_no_target_is_refused(self, wrong):
        with pytest.raises(shoal.InvalidArgumentError):
            self.make(10, 2000, wrong, 1e-6)
        with pytest.raises(shoal.InvalidArgumentError):
            self.make(10, 2000, 1.0, wrong)
