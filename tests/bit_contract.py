"""What a protocol for the answers 0 and 1 must do: the contract of answers, with two of them."""

from __future__ import annotations

import numpy as np

import shoal
from protocol_contract import AnswerProtocolContract
from shoal import randomness
from shoal.values import Envelopes


class BitProtocolContract(AnswerProtocolContract):
    """Inherit, and define ``calibrated(n, epsilon, delta)``, ``noise`` and ``person_law``."""

    small = (2,)
    sizes = (2,)

    def calibrated(self, n, epsilon, delta):
        """The protocol calibrated for n honest people."""
        raise NotImplementedError

    def noise(self):
        """Protocols with noise so strong that four people's messages can be listed."""
        raise NotImplementedError

    def make(self, k, n, epsilon, delta):
        del k
        return self.calibrated(n, epsilon, delta)

    def noisy(self, k):
        del k
        return self.noise()

    def test_messages_are_as_many_as_predicted(self):
        n = 50_000
        protocol = self.calibrated(n, 1.0, 1e-6)
        sent = protocol.randomize(np.ones(n, dtype=int), randomness=randomness.simulated(2))
        assert int(sent.sizes.max()) <= protocol.slots
        spread = float(sent.sizes.std()) / n**0.5
        assert abs(sent.sizes.mean() - protocol.messages) <= 5.5 * spread + 1e-9

    def test_one_dishonest_person_adds_no_more_than_said(self):
        protocol = self.calibrated(5000, 1.0, 1e-6)
        honest = protocol.randomize(np.zeros(5000, dtype=int), randomness=randomness.simulated(3))
        before = protocol.tally(honest)
        most = 0.0
        for message in (0, 1):
            flood = np.full(protocol.slots, message, dtype=np.int64)
            after = before + protocol.tally(Envelopes(flood, np.array([flood.size])))
            moved = protocol.estimate(after).counts - protocol.estimate(before).counts
            most = max(most, float(np.abs(moved).max()))
        assert 0.9 <= most <= protocol.influence * (1 + 1e-9) + 1e-6
        assert most >= 0.9 * protocol.influence

    def test_two_answers_are_all_there_are(self):
        protocol = self.calibrated(2000, 1.0, 1e-6)
        assert protocol.k == 2
        sent = protocol.randomize(np.arange(2000) % 2, randomness=randomness.simulated(4))
        estimate = protocol.estimate(shoal.shuffle(sent, randomness=randomness.simulated(5)))
        assert estimate.frequencies.shape == (2,)
        assert abs(estimate.frequencies.sum() - 1) < 1e-9
