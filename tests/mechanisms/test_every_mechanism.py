"""What every mechanism must do, whatever it takes and sends; its own tests are about its law."""

from __future__ import annotations

import dataclasses
import json
import math
import pickle
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shoal import randomness
from shoal.engines.shuffling import shuffle
from shoal.errors import InvalidArgumentError
from shoal.mechanisms import registry, shares
from shoal.mechanisms.bits import SubsetSelection, UnaryEncoding
from shoal.mechanisms.carriers import CarrierHistogram
from shoal.mechanisms.codec import Numbered, integers_of
from shoal.mechanisms.counts import FairCoins, NearCentralCount, NearCentralSum
from shoal.mechanisms.dummies import HashedDummies, PartitionedDummies, UniformDummies
from shoal.mechanisms.gaussian import Gaussian, GaussianVectors
from shoal.mechanisms.grid import Duchi, Laplace, Piecewise, RoundedResponse
from shoal.mechanisms.hashing import PRIME, LocalHashing
from shoal.mechanisms.histograms import LeanHistogram, RobustHistogram
from shoal.mechanisms.partitioned import PartitionedResponse
from shoal.mechanisms.prefixes import Alphabet, PrefixDummies, PrefixResponse, PrefixTree
from shoal.mechanisms.registry import restored
from shoal.mechanisms.response import (
    HadamardResponse,
    ProjectiveGeometryResponse,
    RandomizedResponse,
)
from shoal.mechanisms.split_and_mix import SplitAndMixSum, SplitAndMixVectors
from shoal.mechanisms.vectors import Lifted, PrivUnit, PrivUnitG
from shoal.mechanisms.zero_sum import SparseHistogram, ZeroSumCount, ZeroSumHistogram, copies_table
from shoal.sealing import canonical
from shoal.values import Batch, Envelopes

# Randomizers with a local epsilon, of k answers, levels or coordinates.
MAKERS = {
    "grr": lambda k, e: RandomizedResponse(k=k, epsilon=e),
    "hadamard": lambda k, e: HadamardResponse(k=k, epsilon=e),
    "projective": lambda k, e: ProjectiveGeometryResponse(k=k, epsilon=e),
    "subset": lambda k, e: SubsetSelection(k=k, epsilon=e),
    "unary": lambda k, e: UnaryEncoding(k=k, epsilon=e),
    "hashing": lambda k, e: LocalHashing(k=k, epsilon=e),
    "laplace": lambda k, e: Laplace(low=0, high=1, epsilon=e, levels=k),
    "duchi": lambda k, e: Duchi(low=0, high=k, epsilon=e),
    "piecewise": lambda k, e: Piecewise(low=-k, high=k, epsilon=e, levels=k),
    "rounded": lambda k, e: RoundedResponse(low=0, high=1, epsilon=e, levels=k),
    "privunit": lambda k, e: PrivUnit(dimension=k, epsilon=e),
    "privunitg": lambda k, e: PrivUnitG(dimension=k, epsilon=e),
}
SIZES = ((2, 0.1), (13, 1.25), (300, 4.0))
NOISE = {"central_epsilon": 1.0, "shape": 2.0, "pairs": 3.0, "people": 50}
SPLIT = {"levels": 20, "shares": 4, "people": 50, "epsilon": 1.0}
TREE = PrefixTree(alphabet=Alphabet.of("abc", length=3), cuts=(1, 3), tables=(2, 3), buckets=(8, 8))
OTHERS = [
    Gaussian(low=0, high=1, sigma=1.0),
    Gaussian(low=-5, high=1, sigma=0.02),
    GaussianVectors(dimension=3, norm=2.0, sigma=4.0),
    UniformDummies(k=7, dummies=1.25),
    UniformDummies(k=300, dummies=2.0),
    SparseHistogram(k=7, gamma=0.1),
    ZeroSumHistogram(k=7, gamma=0.1),
    HashedDummies(k=1000, buckets=300, dummies=1.25),
    LeanHistogram(k=7, people=50, rate=1.0, pairs=3.0, shape=2.0),
    RobustHistogram(k=7, people=50, rate=1.0, pairs=3.0),
    CarrierHistogram(
        k=7, central_epsilon=1.0, pairs=3.0, people=50, carriers=1.0, fewest=50, most=30
    ),
    NearCentralCount(**NOISE),
    ZeroSumCount(gamma=0.2),
    FairCoins(coins=0.3),
    NearCentralSum(high=3, **NOISE),
    NearCentralSum(low=-3.0, high=5.0, levels=4, **NOISE),
    *(SplitAndMixSum(low=0, high=1, modulus_bits=b, **SPLIT) for b in (14, 24, 41, 62)),
    SplitAndMixVectors(dimension=3, bound=1.0, modulus_bits=18, **SPLIT),
    # And those that have no name in the registry.
    UnaryEncoding(k=13, epsilon=1.25, symmetric=True),
    PartitionedResponse(k=20, epsilon=1.0, symbols=4, partitions=3, coins=1),
    PartitionedDummies(k=12, symbols=3, partitions=2, coins=1, dummies=0.5),
    PrefixDummies(tree=TREE, dummies=1.5),
    PrefixResponse(tree=TREE, epsilon=1.0),
    Lifted(inner=PrivUnit(dimension=4, epsilon=2.0), norm=3.0),
]
MADE = [make(k, e) for make in MAKERS.values() for k, e in SIZES] + OTHERS
EVERY = pytest.mark.parametrize("device", MADE, ids=lambda device: f"{device.name}")
SEVERAL = pytest.mark.parametrize(
    "device", [each for each in MADE if each.several], ids=lambda device: device.name
)
PEOPLE = 60
FULL = {"coins", "split-and-mix", "split-and-mix-vectors"}


def data(device, n=PEOPLE):
    """So many data that the device takes."""
    domain = device.domain
    if domain.takes == "answers":
        return np.arange(n) % device.k
    if domain.takes == "texts":
        return (["", "a", "ab", "cab"] * n)[:n]
    if domain.takes == "numbers":
        ends = (np.arange(n) % 2) * (domain.high - domain.low) + domain.low
        return ends if domain.whole else np.linspace(domain.low, domain.high, n)
    vectors = np.ones((n, domain.coordinates))
    vectors[:, 0] += np.arange(n)
    length = min(domain.longest, domain.widest / math.sqrt(domain.coordinates))
    return vectors / np.linalg.norm(vectors, axis=1)[:, None] * length


def reports(device, n=PEOPLE, seed=0):
    return device.randomize(data(device, n), randomness=randomness.simulated(seed))


def messages_of(sent):
    return sent.messages if isinstance(sent, Envelopes) else sent


def slots_of(device, n=PEOPLE, seed=0):
    """Every slot of everybody, as the shuffler mixed them."""
    rows = device.encode(reports(device, n, seed)).reshape(-1, device.message_bytes)
    assert len(rows) == n * device.slots
    return rows[randomness.simulated(seed).permutation(len(rows))]


def readable(device, rows):
    """The definition: a row is admissible if it can be read by itself."""
    found = []
    for row in rows:
        try:
            device.codec.used(row[None, :])
        except InvalidArgumentError:
            found.append(False)
        else:
            found.append(True)
    return found


def test_every_mechanism_is_here():
    assert set(MAKERS) == set(registry.names(local=True))
    assert {device.name for device in MADE} >= set(registry.LINES)


# ---------------------------------------------------------------------------- a frozen value


@EVERY
def test_it_is_a_frozen_value_that_holds_no_data(device):
    sent = reports(device)
    again = dataclasses.replace(device)
    assert (again, hash(again)) == (device, hash(device))
    if device.name in registry.LINES:
        assert restored(device.described(), device.domain) == device
    kept = pickle.dumps(device)  # what follows from the parameters is not sent along
    assert len(kept) < 2_000
    back = pickle.loads(kept)  # noqa: S301 - of this test
    assert back == device
    assert np.array_equal(messages_of(reports(back)), messages_of(sent))
    with pytest.raises(AttributeError):
        setattr(device, dataclasses.fields(device)[0].name, None)


@EVERY
def test_the_numbers_of_a_sampler_are_plain_and_follow_from_its_parameters(device):
    found = device.integers
    assert bool(found) is ("gaussian" not in device.name)
    assert len(canonical(found)) < 1 << 15  # nothing that a configuration cannot hold
    assert json.loads(json.dumps(found)) == found
    assert dataclasses.replace(device).integers == found


@pytest.mark.parametrize("name", sorted(MAKERS))
def test_another_epsilon_has_other_numbers(name):
    assert MAKERS[name](13, 1.25).integers != MAKERS[name](13, 1.26).integers


@EVERY
def test_secure_randomness_is_the_default_and_does_not_repeat(device):
    values = data(device, 4000)
    first, second = (device.encode(device.randomize(values)) for _ in range(2))
    assert not np.array_equal(first, second)


WRONG = {
    "answers": lambda domain: [[-1], [domain.k], [0.5], [[0]], ["a"]],
    "numbers": lambda domain: [
        *([domain.low - 0.01], [domain.high + 0.01]),
        *([math.nan], [[domain.low]], domain.low),
    ],
    "vectors": lambda domain: [
        *([[0.0] * (domain.coordinates + 1)], [0.0] * domain.coordinates),
        *([[math.nan] * domain.coordinates], [[math.inf] * domain.coordinates]),
        [[1.01 * min(domain.longest, domain.widest)] + [0.0] * (domain.coordinates - 1)],
    ],
    "texts": lambda _: ["abc", [1, 2], ["a", None], [b"a"], 3],
}


@EVERY
def test_what_it_does_not_take_is_refused(device):
    for values in WRONG[device.domain.takes](device.domain):
        with pytest.raises(InvalidArgumentError):
            device.randomize(values)


@EVERY
def test_an_empty_batch_is_refused(device):
    nothing = messages_of(reports(device, 0))
    with pytest.raises(InvalidArgumentError, match="at least one report"):
        device.estimate(Batch(nothing, 0))


@SEVERAL
def test_a_batch_of_several_messages_must_say_how_many_people_sent_it(device):
    with pytest.raises(InvalidArgumentError, match="how many people"):
        device.estimate(Batch(messages_of(reports(device))))


# ----------------------------------------------------------------------------- what is sent


@EVERY
def test_reports_survive_the_wire_and_are_of_one_length(device):
    sent = reports(device)
    rows = device.encode(sent)
    assert (rows.dtype, rows.shape) == (np.uint8, (PEOPLE, device.envelope_bytes))
    assert device.envelope_bytes == device.slots * device.message_bytes
    assert device.message_bits <= 8 * device.message_bytes + 1e-9
    back = device.decode(rows)
    assert np.array_equal(messages_of(back), messages_of(sent))
    if device.several:
        assert np.array_equal(back.sizes, sent.sizes)
    if device.outputs is not None:
        with pytest.raises(InvalidArgumentError, match="messages"):
            device.cells(np.array([device.outputs]))


@EVERY
def test_counts_add_up(device):
    sent = [reports(device, n, seed=n) for n in (40, 20)]
    together = device.tally(sent[0]) + device.tally(sent[1])
    both = np.concatenate([messages_of(each) for each in sent])
    assert np.array_equal(together.cells, device.cells(both))
    assert together.n == 60


@EVERY
@settings(max_examples=8)
@given(seed=st.integers(0, 2**32))
def test_what_a_device_sends_is_admissible_and_is_what_the_envelopes_hold(device, seed):
    sent, slots = messages_of(reports(device, seed=seed)), slots_of(device, seed=seed)
    assert device.codec.admissible(slots).all()
    messages = device.codec.used(slots)
    assert sorted(messages.tolist()) == sorted(sent.tolist())
    assert messages.dtype == sent.dtype


@EVERY
@settings(max_examples=15)
@given(drawn=st.data())
def test_what_is_admissible_decodes_and_nothing_else(device, drawn):
    width = device.message_bytes
    noise = drawn.draw(st.binary(min_size=4 * width, max_size=4 * width))
    rows = np.concatenate([np.frombuffer(noise, np.uint8).reshape(4, width), slots_of(device)[:4]])
    # Honest rows with one byte changed are near the edge of what is possible.
    for row in range(4, 7):
        rows[row, drawn.draw(st.integers(0, width - 1))] = drawn.draw(st.integers(0, 255))
    found, read = device.codec.admissible(rows), readable(device, rows)
    assert found.dtype == bool
    assert found[7]
    device.codec.used(rows[found])
    # Where nobody leaves a slot empty, the empty one is readable and yet nobody's.
    empty = [
        ok and not len(device.codec.used(row[None, :])) for ok, row in zip(read, rows, strict=True)
    ]
    full = device.name in FULL or getattr(device, "dummies", 0.5) % 1 == 0
    expected = [ok and not (full and none) for ok, none in zip(read, empty, strict=True)]
    assert found.tolist() == expected


@EVERY
def test_rows_of_another_length_are_an_error(device):
    short, long = (np.zeros((3, device.message_bytes + more), dtype=np.uint8) for more in (-1, 1))
    for read in (device.codec.admissible, device.codec.used):
        for wrong in (short, long, long[0]):
            with pytest.raises(InvalidArgumentError, match="rows of"):
                read(wrong)
    with pytest.raises(InvalidArgumentError, match="rows of"):
        device.decode(np.zeros((3, device.envelope_bytes + 1), dtype=np.uint8))
    none = np.zeros((0, device.message_bytes), dtype=np.uint8)
    assert device.codec.admissible(none).shape == (0,)
    assert len(device.codec.used(none)) == 0


@pytest.mark.parametrize(
    "device", [each for each in MADE if each.name in {"unary", "subset", "hashing"}]
)
def test_messages_that_are_no_rows_of_bytes_are_refused(device):
    good = reports(device)
    for wrong in (good.astype(np.int64), good[0], good[:, :0]):
        for use in (device.decode, device.encode, device.tally):
            with pytest.raises(InvalidArgumentError, match="rows"):
                use(wrong)


@SEVERAL
def test_more_messages_than_slots_are_refused(device):
    messages = np.repeat(messages_of(reports(device))[:1], device.slots + 1, axis=0)
    with pytest.raises(InvalidArgumentError, match=f"{device.slots} messages of one person"):
        device.encode(Envelopes(messages, np.array([len(messages)])))


@SEVERAL
def test_mixed_slots_count_what_the_envelopes_count(device):
    found = device.counted(Batch(device.codec.used(slots_of(device)), PEOPLE))
    expected = device.counted(shuffle(reports(device)))
    assert found.n == expected.n == PEOPLE
    assert found.cells.tolist() == expected.cells.tolist()


# ------------------------------------------------------------------- rows at the edge, by hand


def numbers_as_rows(width, *numbers):
    return np.array([list(number.to_bytes(width)) for number in numbers], dtype=np.uint8)


@pytest.mark.parametrize("k", [2, 255, 256, 257, 300])
def test_numbers_are_admissible_up_to_the_last(k):
    device = RandomizedResponse(k=k, epsilon=1.0)
    width = device.message_bytes
    numbers = [0, k - 1, min(k, 256**width - 1), 256**width - 1]
    rows = numbers_as_rows(width, *numbers)
    assert device.codec.admissible(rows).tolist() == [number < k for number in numbers]


def test_numbers_beyond_the_empty_slot_are_not_admissible():
    rows = np.arange(10, dtype=np.uint8)[:, None]
    device = UniformDummies(k=7, dummies=1.25)
    assert device.codec.admissible(rows).tolist() == [True] * 8 + [False] * 2
    with pytest.raises(InvalidArgumentError, match="messages below 8"):
        device.codec.used(rows)
    assert device.codec.used(rows[:8]).tolist() == [*range(7)]


def test_an_eight_byte_number_beyond_63_bits_is_none():
    rows = np.array([[255] * 8, [127] + [255] * 7], dtype=np.uint8)
    assert integers_of(rows, 8).tolist() == [2**64 - 1, 2**63 - 1]
    for row in rows:
        with pytest.raises(InvalidArgumentError, match="messages below"):
            Numbered(2**62).decode(row[None, :])


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
    assert set(reports(device).sizes.tolist()) == {device.slots}


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
    assert reports(device, 500).sizes.min() < device.slots
    assert device.codec.admissible(slots_of(device, 500)).all()


def test_no_share_is_too_large():
    device = SplitAndMixVectors(dimension=3, bound=1.0, modulus_bits=18, **SPLIT)
    last = 3 << 18
    rows = numbers_as_rows(device.message_bytes, 0, last - 1, last)
    assert device.codec.admissible(rows).tolist() == [True, True, False]


def test_bits_after_the_last_answer_are_not_admissible():
    for device in (UnaryEncoding(k=5, epsilon=1.0), SubsetSelection(k=5, epsilon=1.0, size=2)):
        rows = np.array([[0b11000000], [0b11000100], [0b10000100]], dtype=np.uint8)
        assert device.codec.admissible(rows).tolist() == [True, False, False]


def test_sets_have_their_size():
    device = SubsetSelection(k=20, epsilon=1.0, size=3)
    rows = np.zeros((4, 3), dtype=np.uint8)
    rows[1, 0], rows[2, 0], rows[3] = 0b11100000, 0b11110000, [1, 1, 16]
    assert device.codec.admissible(rows).tolist() == [False, True, False, True]


def test_hash_functions_are_those_of_the_family():
    device = LocalHashing(k=10, epsilon=1.0, buckets=4)
    good = (1, 0, 3)
    cases = {good: True, (0, 5, 1): False, (PRIME, 5, 1): False, (5, PRIME, 1): False}
    cases |= {(PRIME - 1, PRIME - 1, 0): True, (5, 5, 4): False, (2**64 - 1, 5, 1): False}
    rows = [u.to_bytes(8) + v.to_bytes(8) + b.to_bytes(1) for u, v, b in cases]
    found = device.codec.admissible(np.frombuffer(b"".join(rows), np.uint8).reshape(-1, 17))
    assert found.tolist() == list(cases.values())


def test_vectors_have_a_possible_length():
    device = PrivUnit(dimension=3, epsilon=2.0)
    unit = 1 << 24
    numbers = np.array([[unit, 0, 0], [unit // 2, 0, 0], [unit, unit, 0], [0, -unit, 0]])
    rows = numbers.astype(">i4").view(np.uint8).reshape(4, 12)
    assert device.codec.admissible(rows).tolist() == [True, False, False, True]
    for wrong in (np.zeros((1, 3)), np.full((1, 3), 2**31 - 1, dtype=np.int32)):
        with pytest.raises(InvalidArgumentError):
            device.tally(wrong)


# --------------------------------------------------------------- the numbers of the samplers


def test_the_numbers_are_those_of_the_table():
    k, e = 13, 1.25
    grr = RandomizedResponse(k=k, epsilon=e)
    n = grr.integers
    assert grr.table()[0, :2].tolist() == [n["high"] / n["total"], n["low"] / n["total"]]
    hadamard = HadamardResponse(k=k, epsilon=e)
    n = hadamard.integers
    assert n["blocks"] * n["width"] == hadamard.outputs
    assert hadamard.table().max() == pytest.approx(2 * n["high"] / (n["width"] * n["total"]))
    projective = ProjectiveGeometryResponse(k=k, epsilon=e)
    n = projective.integers
    assert (n["q"] ** n["t"] - 1) // (n["q"] - 1) == projective.outputs
    assert projective.table().max() == pytest.approx(n["high"] / n["total"])
    subset = SubsetSelection(k=k, epsilon=e)
    n = subset.integers
    assert subset.table().max() == pytest.approx(
        n["with"] / n["total"] / math.comb(k - 1, n["size"] - 1)
    )
    unary = UnaryEncoding(k=2, epsilon=e)
    n = unary.integers
    assert unary.table()[0].max() == pytest.approx(n["true"] * (2**32 - n["false"]) / 2**64)
    window = Piecewise(low=0, high=1, epsilon=e, levels=k)
    n = window.integers
    first = window.table()[0]
    assert first.size == n["outputs"]
    assert np.count_nonzero(first == n["high"] / n["total"]) == n["width"]
    laplace = Laplace(low=0, high=1, epsilon=e, levels=k)
    n = laplace.integers
    assert laplace.table()[:, 0].tolist() == [tail / n["total"] for tail in n["tails"]]
    hashing = LocalHashing(k=k, epsilon=e)
    assert hashing.integers == {
        "buckets": hashing.g,
        **RandomizedResponse(k=hashing.g, epsilon=e).integers,
    }
    partitioned = PartitionedResponse(k=20, epsilon=1.0, symbols=4, partitions=3, coins=1)
    n = partitioned.integers
    assert n["high"] + 3 * n["low"] == n["total"]
    dummies = PartitionedDummies(k=12, symbols=3, partitions=2, coins=1, dummies=0.5)
    assert dummies.integers == {"always": 0, "sometimes": 1 << 51, "bits": 52}
    for prefixes in (PrefixDummies(tree=TREE, dummies=1.5), PrefixResponse(tree=TREE, epsilon=1.0)):
        assert prefixes.integers == prefixes.oracle.integers
        assert prefixes.codec.admitted == prefixes.oracle.codec.admitted


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
    long, other = (
        shares.CountTable.of(np.full(n, 1 / n), omitted=0.0).integers for n in (600, 601)
    )
    assert long.startswith("sha256:")
    assert len(long) == 7 + 64
    assert other != long


def test_rare_counts_keep_both_digits_of_their_chance():
    device = NearCentralCount(**NOISE)
    found = device.integers
    assert set(found) == {"single_chance", "single_steps", "pairs_chance", "pairs_steps"}
    high, low = (int(digit) for digit in found["single_chance"])
    assert (high, low) == device._single.probability
    plain = SplitAndMixSum(low=0, high=1, modulus_bits=20, **SPLIT | {"epsilon": None})
    assert plain.integers == {}
