"""Which rows of bytes a device can have sent, and the whole numbers that its sampler draws by."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shoal import randomness
from shoal.errors import InvalidArgumentError
from shoal.mechanisms import registry
from shoal.mechanisms.bits import SubsetSelection, UnaryEncoding
from shoal.mechanisms.codec import Numbered, integers_of
from shoal.mechanisms.grid import Duchi, Laplace, Piecewise, RoundedResponse
from shoal.mechanisms.hashing import PRIME, LocalHashing
from shoal.mechanisms.partitioned import PartitionedResponse
from shoal.mechanisms.registry import restored
from shoal.mechanisms.response import (
    HadamardResponse,
    ProjectiveGeometryResponse,
    RandomizedResponse,
)
from shoal.mechanisms.vectors import PrivUnit, PrivUnitG
from shoal.sealing import canonical

# One of each for k answers, levels or coordinates.
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
KINDS = pytest.mark.parametrize("name", sorted(MAKERS))
SIZES = st.sampled_from([2, 3, 8, 13, 300])
EPSILONS = st.floats(0.1, 6.0)


def values(device, n):
    """So many values that the device takes."""
    if device.domain.takes == "numbers":
        return np.linspace(device.low, device.high, n)
    if hasattr(device, "dimension"):
        vectors = np.ones((n, device.dimension))
        vectors[:, 0] += np.arange(n)
        return vectors / np.linalg.norm(vectors, axis=1)[:, None]
    return np.arange(n) % device.k


def sent(device, n, seed=0):
    source = randomness.simulated(seed)
    return device.encode(device.randomize(values(device, n), randomness=source))


def one_by_one(device, rows):
    """The definition: a row is admissible if it decodes by itself."""
    found = []
    for row in rows:
        try:
            device.decode(row[None, :])
        except InvalidArgumentError:
            found.append(False)
        else:
            found.append(True)
    return found


def test_every_randomizer_is_here():
    assert set(MAKERS) == set(registry.names(local=True))


@KINDS
@settings(max_examples=15)
@given(k=SIZES, epsilon=EPSILONS, seed=st.integers(0, 2**32))
def test_what_a_device_sends_is_admissible(name, k, epsilon, seed):
    device = MAKERS[name](k, epsilon)
    rows = sent(device, 40, seed)
    found = device.codec.admissible(rows)
    assert found.dtype == bool
    assert found.tolist() == [True] * 40


@KINDS
@settings(max_examples=20)
@given(k=SIZES, data=st.data())
def test_what_is_admissible_decodes_and_nothing_else(name, k, data):
    device = MAKERS[name](k, 1.0)
    width = device.message_bytes
    noise = data.draw(st.binary(min_size=4 * width, max_size=4 * width))
    rows = np.concatenate([np.frombuffer(noise, np.uint8).reshape(4, width), sent(device, 4)])
    # Honest rows with one byte changed are near the edge of what is possible.
    for row in range(4, 7):
        rows[row, data.draw(st.integers(0, width - 1))] = data.draw(st.integers(0, 255))
    found = device.codec.admissible(rows)
    assert found.tolist() == one_by_one(device, rows)
    assert len(device.decode(rows[found])) == found.sum()
    assert found[7]


@KINDS
def test_rows_of_another_length_are_an_error(name):
    device = MAKERS[name](5, 1.0)
    for wrong in (np.zeros((3, device.message_bytes + 1)), np.zeros(device.message_bytes)):
        with pytest.raises(InvalidArgumentError, match="rows of"):
            device.codec.admissible(wrong.astype(np.uint8))


@KINDS
def test_no_rows_are_no_answers(name):
    device = MAKERS[name](5, 1.0)
    assert device.codec.admissible(np.zeros((0, device.message_bytes), np.uint8)).shape == (0,)


@pytest.mark.parametrize("k", [2, 255, 256, 257, 300])
def test_numbers_are_admissible_up_to_the_last(k):
    device = RandomizedResponse(k=k, epsilon=1.0)
    width = device.message_bytes
    numbers = [0, k - 1, min(k, 256**width - 1), 256**width - 1]
    rows = np.array([list(number.to_bytes(width)) for number in numbers], dtype=np.uint8)
    assert device.codec.admissible(rows).tolist() == [number < k for number in numbers]


def test_an_eight_byte_number_beyond_63_bits_is_none():
    rows = np.array([[255] * 8, [127] + [255] * 7], dtype=np.uint8)
    assert integers_of(rows, 8).tolist() == [2**64 - 1, 2**63 - 1]
    for row in rows:
        with pytest.raises(InvalidArgumentError, match="messages below"):
            Numbered(2**62).decode(row[None, :])


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


@KINDS
def test_the_numbers_of_a_sampler_are_plain_and_follow_from_its_parameters(name):
    device = MAKERS[name](13, 1.25)
    found = device.integers
    assert found
    canonical(found)  # nothing that a configuration cannot hold
    assert json.loads(json.dumps(found)) == found
    assert restored(device.described()).integers == found
    assert MAKERS[name](13, 1.26).integers != found


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


def test_partitions_have_numbers_of_their_own():
    device = PartitionedResponse(k=20, epsilon=1.0, symbols=4, partitions=3, coins=1)
    n = device.integers
    assert n["high"] + 3 * n["low"] == n["total"]
    assert isinstance(device.codec, Numbered)
    assert device.codec.admissible(np.array([[11], [12]], dtype=np.uint8)).tolist() == [True, False]
