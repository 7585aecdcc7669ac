"""Single slots of envelopes: which a device can have sent, and what they say after mixing."""

from __future__ import annotations

import json
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shoal import randomness
from shoal.engines.shuffling import shuffle
from shoal.errors import InvalidArgumentError
from shoal.mechanisms import registry, shares
from shoal.mechanisms.carriers import CarrierHistogram
from shoal.mechanisms.counts import FairCoins, NearCentralCount, NearCentralSum
from shoal.mechanisms.dummies import HashedDummies, PartitionedDummies, UniformDummies
from shoal.mechanisms.histograms import LeanHistogram, RobustHistogram
from shoal.mechanisms.prefixes import PrefixDummies, PrefixResponse
from shoal.mechanisms.split_and_mix import SplitAndMixSum, SplitAndMixVectors
from shoal.mechanisms.zero_sum import SparseHistogram, ZeroSumCount, ZeroSumHistogram, copies_table
from shoal.sealing import canonical
from shoal.values import Batch

NOISE = {"central_epsilon": 1.0, "shape": 2.0, "pairs": 3.0, "people": 50}
SPLIT = {"levels": 20, "shares": 4, "modulus_bits": 18, "people": 50, "epsilon": 1.0}
MADE = {
    "dummies": UniformDummies(k=7, dummies=1.25),
    "sparse": SparseHistogram(k=7, gamma=0.1),
    "zero-sum": ZeroSumHistogram(k=7, gamma=0.1),
    "hashed-dummies": HashedDummies(k=10**6, buckets=300, dummies=1.25),
    "near-central-lean": LeanHistogram(k=7, people=50, rate=1.0, pairs=3.0, shape=2.0),
    "near-central-robust": RobustHistogram(k=7, people=50, rate=1.0, pairs=3.0),
    "near-central-carriers": CarrierHistogram(
        k=7, central_epsilon=1.0, pairs=3.0, people=50, carriers=1.0, fewest=50, most=30
    ),
    "near-central": NearCentralCount(**NOISE),
    "zero-sum-count": ZeroSumCount(gamma=0.2),
    "coins": FairCoins(coins=0.3),
    "split-and-mix": SplitAndMixSum(low=0, high=1, **SPLIT),
    "near-central-sum": NearCentralSum(high=3, **NOISE),
    "split-and-mix-vectors": SplitAndMixVectors(dimension=3, bound=1.0, **SPLIT),
}
FULL = {"coins": True, "split-and-mix": True, "split-and-mix-vectors": True}
EVERY = pytest.mark.parametrize("device", MADE.values(), ids=MADE.keys())
PEOPLE = 60


def values(device):
    if device.domain.takes == "answers":
        return np.arange(PEOPLE) % device.k
    if device.domain.takes == "numbers":
        return (np.arange(PEOPLE) % 2) * float(device.high)
    return np.full((PEOPLE, device.dimension), 0.25)


def collected(device, seed=0):
    """Envelopes, and their slots as the shuffler mixed them."""
    source = randomness.simulated(seed)
    envelopes = device.randomize(values(device), randomness=source)
    slots = device.encode(envelopes).reshape(-1, device.message_bytes)
    assert len(slots) == PEOPLE * device.slots
    return envelopes, slots[source.permutation(len(slots))]


def one_by_one(device, rows):
    found = []
    for row in rows:
        try:
            device.codec.used(row[None, :])
        except InvalidArgumentError:
            found.append(False)
        else:
            found.append(True)
    return found


def test_every_protocol_is_here():
    assert set(MADE) == set(registry.names(several=True))


@EVERY
@settings(max_examples=10)
@given(seed=st.integers(0, 2**32))
def test_what_a_device_sends_is_admissible_and_is_what_the_envelopes_hold(device, seed):
    envelopes, slots = collected(device, seed)
    assert device.codec.admissible(slots).all()
    messages = device.codec.used(slots)
    assert len(messages) == len(envelopes.messages)
    assert sorted(messages.tolist()) == sorted(envelopes.messages.tolist())
    assert messages.dtype == envelopes.messages.dtype


@pytest.mark.parametrize("name", sorted(set(MADE) - {"hashed-dummies"}))
def test_mixed_slots_estimate_what_the_envelopes_estimate(name):
    device = MADE[name]
    envelopes, slots = collected(device)
    found = device.counted(Batch(device.codec.used(slots), PEOPLE))
    expected = device.counted(shuffle(envelopes))
    assert found.n == expected.n == PEOPLE
    assert found.cells.tolist() == expected.cells.tolist()


@EVERY
@settings(max_examples=20)
@given(data=st.data())
def test_what_is_admissible_decodes_and_nothing_else(device, data):
    width = device.message_bytes
    noise = data.draw(st.binary(min_size=5 * width, max_size=5 * width))
    honest = collected(device)[1][:5]
    rows = np.concatenate([np.frombuffer(noise, np.uint8).reshape(5, width), honest])
    for row in range(5, 8):
        rows[row, data.draw(st.integers(0, width - 1))] = data.draw(st.integers(0, 255))
    found = device.codec.admissible(rows)
    readable = one_by_one(device, rows)
    device.codec.used(rows[found])
    # Where nobody leaves a slot empty, the empty one is readable and yet nobody's.
    empty = [
        ok and not len(device.codec.used(row[None, :]))
        for ok, row in zip(readable, rows, strict=True)
    ]
    full = FULL.get(device.name, False)
    expected = [ok and not (full and none) for ok, none in zip(readable, empty, strict=True)]
    assert found.tolist() == expected


@EVERY
def test_rows_of_another_length_are_an_error(device):
    wrong = np.zeros((3, device.message_bytes + 1), dtype=np.uint8)
    for read in (device.codec.admissible, device.codec.used):
        with pytest.raises(InvalidArgumentError, match="rows of"):
            read(wrong)
    none = np.zeros((0, device.message_bytes), dtype=np.uint8)
    assert device.codec.admissible(none).shape == (0,)
    assert len(device.codec.used(none)) == 0


def test_numbers_beyond_the_empty_slot_are_not_admissible():
    rows = np.arange(10, dtype=np.uint8)[:, None]
    device = UniformDummies(k=7, dummies=1.25)
    assert device.codec.admissible(rows).tolist() == [True] * 8 + [False] * 2
    with pytest.raises(InvalidArgumentError, match="messages below 8"):
        device.codec.used(rows)
    assert device.codec.used(rows[:8]).tolist() == [*range(7)]


@pytest.mark.parametrize(
    ("device", "empty"),
    [
        (UniformDummies(k=7, dummies=2.0), [7]),
        (FairCoins(coins=0.5), [2]),
        (HashedDummies(k=100, buckets=10, dummies=2.0), [0] * 17),
    ],
)
def test_a_slot_that_everybody_fills_is_never_empty(device, empty):
    assert device.codec.admissible(np.array([empty], dtype=np.uint8)).tolist() == [False]
    envelopes = device.randomize(np.arange(50) % 2, randomness=randomness.simulated(1))
    assert set(envelopes.sizes.tolist()) == {device.slots}


@pytest.mark.parametrize(
    "device",
    [
        UniformDummies(k=7, dummies=2.5),
        HashedDummies(k=100, buckets=10, dummies=0.5),
        SparseHistogram(k=7, gamma=0.2),
        ZeroSumCount(gamma=0.2),
    ],
    ids=lambda device: device.name,
)
def test_a_slot_that_somebody_leaves_empty_may_be_empty(device):
    envelopes = device.randomize(np.arange(500) % 2, randomness=randomness.simulated(1))
    assert envelopes.sizes.min() < device.slots
    rows = device.encode(envelopes).reshape(-1, device.message_bytes)
    assert device.codec.admissible(rows).all()


def test_no_share_is_too_large():
    device = SplitAndMixVectors(dimension=3, bound=1.0, **SPLIT)
    last = 3 << 18
    rows = [number.to_bytes(device.message_bytes) for number in (0, last - 1, last)]
    rows = np.array([list(row) for row in rows], dtype=np.uint8)
    assert device.codec.admissible(rows).tolist() == [True, True, False]


def test_eight_byte_shares_beyond_63_bits_are_refused():
    device = SplitAndMixSum(
        low=0, high=1, levels=4, shares=4, modulus_bits=60, people=5, epsilon=None
    )
    rows = np.full((2, 8), 255, dtype=np.uint8)
    rows[1, 0] = 15
    assert device.message_bytes == 8
    assert device.codec.admissible(rows).tolist() == [False, True]
    with pytest.raises(InvalidArgumentError, match="messages below"):
        device.codec.used(rows)


@EVERY
def test_the_numbers_of_a_sampler_are_plain_and_follow_from_its_parameters(device):
    found = device.integers
    assert found
    assert len(canonical(found)) < 1 << 15
    assert json.loads(json.dumps(found)) == found
    assert registry.restored(device.described()).integers == found


def test_chances_are_whole_numbers_of_52_bits():
    for device, name, share in (
        (FairCoins(coins=0.3), "coins", 0.3),
        (ZeroSumCount(gamma=0.1), "gamma", 0.1),
        (UniformDummies(k=7, dummies=3.1), "sometimes", 0.1),
        (SparseHistogram(k=7, gamma=0.1), "gamma", 0.1),
    ):
        assert device.integers["bits"] == 52
        exactly = Fraction(device.integers[name], 1 << 52)
        assert 0 <= exactly - Fraction(share) < Fraction(1, 1 << 50)
    assert UniformDummies(k=7, dummies=3.1).integers["always"] == 3
    assert HashedDummies(k=9, buckets=5, dummies=2.0).integers["buckets"] == 5


def test_tables_are_spelled_out_or_hashed():
    device = SparseHistogram(k=7, gamma=0.1)
    steps = [int(step) for step in device.integers["copies_steps"]]
    assert steps == copies_table(7, device.gamma, None).steps.tolist()
    assert steps[-1] == 1 << 62
    long = shares.CountTable.of(np.full(600, 1 / 600), omitted=0.0)
    assert long.integers.startswith("sha256:")
    assert len(long.integers) == 7 + 64
    other = shares.CountTable.of(np.full(601, 1 / 601), omitted=0.0)
    assert other.integers != long.integers


def test_rare_counts_keep_both_digits_of_their_chance():
    device = NearCentralCount(**NOISE)
    found = device.integers
    assert set(found) == {"single_chance", "single_steps", "pairs_chance", "pairs_steps"}
    high, low = (int(digit) for digit in found["single_chance"])
    assert (high, low) == device._single.probability
    without = SplitAndMixSum(
        low=0, high=1, levels=4, shares=4, modulus_bits=20, people=5, epsilon=None
    )
    assert without.integers == {}


def test_other_protocols_have_the_numbers_of_what_they_are_made_of():
    dummies = PartitionedDummies(k=12, symbols=3, partitions=2, coins=1, dummies=0.5)
    assert dummies.integers == {"always": 0, "sometimes": 1 << 51, "bits": 52}
    assert dummies.codec.admissible(np.array([[6], [7]], dtype=np.uint8)).tolist() == [True, False]
    for kind in (PrefixDummies, PrefixResponse):
        made = kind.calibrated(n=10**6, epsilon=1.0, delta=1e-6, length=4, alphabet="abcd")
        assert made.integers == made.oracle.integers
        assert made.integers
    rows = PrefixDummies.calibrated(n=10**5, epsilon=1.0, delta=1e-6, length=2, alphabet="ab")
    assert rows.codec.admitted == rows.oracle.codec.admitted
