"""Partitions among dummies: what they reveal, send, and cost."""

from __future__ import annotations

import itertools
import math
from collections import defaultdict

import numpy as np
import pytest
from scipy import stats

import shoal
from protocol_contract import crowd_law, divergence
from shoal import randomness
from shoal.accounting.noise.dummies import dummies_delta
from shoal.mechanisms.dummies import PartitionedDummies, UniformDummies, partitioned_delta

RARE = 1e-7


def person_law(device, value):
    """{counts of all messages: chance} of one person, by the definition of the protocol."""
    each = []
    for g in range(device.partitions):
        law = defaultdict(float)
        for extra, chance in ((0, 1 - device.added.sometimes), (1, device.added.sometimes)):
            number = device.added.always + extra
            for drawn in itertools.product(range(device.symbols), repeat=number):
                counts = np.zeros(device.outputs, dtype=int)
                counts[device.layout.places[g, value]] += 1
                np.add.at(counts, np.array(drawn, dtype=int) + g * device.symbols, 1)
                law[tuple(counts.tolist())] += chance / device.symbols**number
        each.append(law)
    return crowd_law(each)


@pytest.mark.parametrize("dummies", [0.6, 1.25])
@pytest.mark.parametrize(("k", "symbols", "partitions"), [(3, 2, 2), (3, 3, 1), (2, 2, 2)])
def test_no_shuffled_output_reveals_more_than_the_profile(k, symbols, partitions, dummies):
    device = PartitionedDummies(k=k, symbols=symbols, partitions=partitions, dummies=dummies)
    laws = [person_law(device, value) for value in range(k)]
    for n in (1, 2, 3):
        profile = device.profile(n)
        for pair in itertools.permutations(range(k), 2):
            others = [laws[0]] * (n - 1)
            first, second = (crowd_law([laws[value], *others]) for value in pair)
            for epsilon in (0.0, 0.5, 2.0):
                truth = divergence(first, second, epsilon)
                assert truth <= profile.delta(epsilon) * (1 + 1e-9) + 1e-12


def test_the_sampler_follows_its_law():
    device, people = PartitionedDummies(k=4, symbols=2, partitions=2, dummies=0.7, coins=3), 30_000
    for value in range(device.k):
        sent = device.randomize(np.full(people, value), randomness=randomness.simulated(value))
        owners = np.repeat(np.arange(people), sent.sizes)
        places = owners * device.outputs + sent.messages
        rows = np.bincount(places, minlength=people * device.outputs).reshape(people, -1)
        law = person_law(device, value)
        seen = defaultdict(int)
        for row in map(tuple, rows.tolist()):
            seen[row] += 1
        assert set(seen) <= set(law)
        keys = list(law)
        expected = np.array([law[key] * people for key in keys])
        assert expected.min() > 5
        found = np.array([seen[key] for key in keys])
        assert stats.chisquare(found, expected).pvalue > RARE


def test_one_partition_is_a_histogram_of_bins():
    for epsilon in (0.1, 1.0):
        mine = partitioned_delta(n=500, symbols=8, rho=0.4, rounds=1, epsilon=epsilon)
        assert mine == dummies_delta(n=500, k=8, rho=0.4, epsilon=epsilon)
    alike = PartitionedDummies.calibrated(k=50, n=900, epsilon=1.0, delta=1e-6, symbols=8)
    plain = UniformDummies.calibrated(k=8, n=900, epsilon=1.0, delta=1e-6)
    assert alike.dummies == pytest.approx(plain.dummies)


def test_several_partitions_compose_and_cost_their_number():
    one = partitioned_delta(n=500, symbols=8, rho=2.0, rounds=1, epsilon=0.5)
    two = partitioned_delta(n=500, symbols=8, rho=2.0, rounds=2, epsilon=0.5)
    assert one < two
    # Two rounds of a δ-curve are at most the sum at half the epsilon each.
    assert two <= 2 * partitioned_delta(n=500, symbols=8, rho=2.0, rounds=1, epsilon=0.25) + 1e-12


@pytest.mark.parametrize("partitions", [1, 4])
def test_the_calibration_keeps_its_target_and_wastes_little(partitions):
    device = PartitionedDummies.calibrated(
        k=300, n=5000, epsilon=0.5, delta=1e-6, symbols=8, partitions=partitions
    )
    assert 0.9e-6 <= device.profile(5000).delta(0.5) <= 1e-6
    found = shoal.amplify(device, n=5000, delta=1e-6)
    assert 0.98 * 0.5 <= found.epsilon <= 0.5 * (1 + 1e-7)
    assert math.isinf(found.local_epsilon)
    assert (
        shoal.amplify(device, n=5000, delta=1e-6, crowd=shoal.Crowd(honest_fraction=0.5)).epsilon
        > 0.6
    )


def test_partitions_that_part_no_two_answers_cost_nothing():
    """With three answers in two bins any two share a bin in some of many partitions."""
    device = PartitionedDummies(k=3, symbols=2, partitions=30, dummies=1.0)
    shared = device.layout.fewest_shared
    assert shared > 0
    rounds = dict(device.profile(100).divergence.parameters)["rounds"]
    assert rounds == 30 - shared


def test_envelopes_hold_what_is_promised():
    device = PartitionedDummies(k=300, symbols=20, partitions=3, dummies=1.3)
    sent = device.randomize(np.arange(5000) % 300, randomness=randomness.simulated(1))
    spread = sent.sizes.std() / math.sqrt(5000)
    assert abs(sent.sizes.mean() - device.messages) < 5.5 * spread
    assert sent.sizes.max() <= device.slots == 9
    # One dishonest person can fill all slots with bins of one answer.
    assert device.influence == pytest.approx((9 - 3 * 1.3 / 20) / 3)


@pytest.mark.parametrize("wrong", [{"dummies": 0.0}, {"dummies": 1e9}, {"symbols": 1}, {"k": 1}])
def test_what_is_no_protocol_is_refused(wrong):
    with pytest.raises(shoal.InvalidArgumentError):
        PartitionedDummies(**{"k": 9, "symbols": 3, "dummies": 1.0, **wrong})
