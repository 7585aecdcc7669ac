import math
from decimal import Context, Decimal

import numpy as np
import pytest

import shoal
from contract import CategoryContract
from shoal import randomness
from shoal.accounting.law import BlanketLaw
from shoal.accounting.profile import PrivacyProfile
from shoal.mechanisms import bits as bit_rows
from shoal.mechanisms.bits import UnaryEncoding

SCALE = 1 << 32


class UnaryContract(CategoryContract):
    small = (2, 3, 5)

    def column_of(self, randomizer, messages):
        bits = np.unpackbits(messages, axis=1, count=randomizer.k).astype(np.int64)
        return bits @ (1 << np.arange(randomizer.k)[::-1])

    def test_the_lower_bound_is_that_of_the_table(self):
        for k in self.small:
            randomizer = self.make(k, 2.0)
            mine = PrivacyProfile(randomizer.law(), 300).lower_epsilon(1e-4)
            table = BlanketLaw.from_table(randomizer.table())
            assert mine == pytest.approx(PrivacyProfile(table, 300).lower_epsilon(1e-4), rel=1e-6)
            assert 0 < mine <= PrivacyProfile(randomizer.law(), 300).epsilon(1e-4)


class TestOptimizedUnaryEncoding(UnaryContract):
    def make(self, k, epsilon):
        return UnaryEncoding(k=k, epsilon=epsilon)

    def test_the_true_bit_is_a_fair_coin(self):
        randomizer = self.make(3, 1.5)
        true, false = randomizer._weights
        assert true == SCALE // 2
        assert false == math.ceil(SCALE / (math.exp(1.5) + 1))

    def test_the_error_of_rare_answers_is_the_published_one(self):
        e = math.exp(2)
        variance = self.make(10, 2.0).variance(np.zeros(10), n=1000)
        assert variance == pytest.approx(np.full(10, 4 * e / (e - 1) ** 2 / 1000), rel=1e-6)


class TestSymmetricUnaryEncoding(UnaryContract):
    def make(self, k, epsilon):
        return UnaryEncoding(k=k, epsilon=epsilon, symmetric=True)

    def test_a_bit_is_kept_as_often_whatever_it_is(self):
        randomizer = self.make(3, 1.5)
        assert sum(randomizer._weights) == SCALE

    def test_the_error_of_rare_answers_is_the_published_one(self):
        s = math.exp(1)
        variance = self.make(10, 2.0).variance(np.zeros(10), n=1000)
        assert variance == pytest.approx(np.full(10, s / (s - 1) ** 2 / 1000), rel=1e-6)


@pytest.mark.parametrize("symmetric", [False, True])
def test_epsilon_is_kept_in_exact_arithmetic_and_hardly_wasted(symmetric):
    exact = Context(prec=80)
    for epsilon in [1e-6, *np.linspace(0.01, 30, 150).tolist()]:
        randomizer = UnaryEncoding(k=4, epsilon=epsilon, symmetric=symmetric)
        p, q = randomizer._weights
        bound = exact.exp(Decimal(epsilon))
        assert p * (SCALE - q) <= bound * ((SCALE - p) * q)
        kept = exact.ln(exact.divide(Decimal(p * (SCALE - q)), Decimal((SCALE - p) * q)))
        assert kept <= Decimal(randomizer.local_epsilon)
        assert math.nextafter(randomizer.local_epsilon, 0) < kept
        assert randomizer.local_epsilon <= epsilon
        # One step less of Q would break epsilon: the probabilities are as fine as they can be.
        fewer = q - 1
        true = SCALE - fewer if symmetric else p
        assert fewer == 0 or true * (SCALE - fewer) > bound * ((SCALE - true) * fewer)


@pytest.mark.parametrize("symmetric", [False, True])
def test_many_answers_have_the_law_of_the_published_formula(symmetric):
    law = UnaryEncoding(k=1000, epsilon=2.0, symmetric=symmetric).law()
    (pair,) = law.pairs
    q = 1 / (math.exp(1) + 1) if symmetric else 1 / (math.exp(2) + 1)
    p = 1 - q if symmetric else 0.5
    # Without the message of all ones the blanket is a likelihood of (1 - P)/(1 - Q).
    assert pair.mass.sum() == pytest.approx((1 - p) / (1 - q), rel=1e-6)
    assert law.local_epsilon <= 2.0


def test_the_published_example_of_basic_rappor():
    law = UnaryEncoding(k=100, epsilon=1.0, symmetric=True).law()
    assert PrivacyProfile(law, 10**4).epsilon(1e-6) == pytest.approx(0.030688, rel=1e-3)


class Scripted(randomness.Randomness):
    """Words as told, in order."""

    def __init__(self, *calls):
        self.calls = [np.array(call, dtype=np.uint64) for call in calls]

    def words(self, size):
        call = self.calls.pop(0)
        assert call.size == size
        return call


def test_packed_coins_compare_all_32_bits():
    """64 numbers around the weight, told bit by bit: a coin is heads if its number is below."""
    weight = 0x8A1_23456
    numbers = [(weight + offset) % (1 << 32) for offset in range(-20, 20)]
    numbers += [0, 1, weight >> 1, (1 << 32) - 1, weight ^ (1 << 31), weight ^ (1 << 20)] * 4
    shared = bit_rows._SHARED_BITS
    # A coin's place in its word: bytes in memory order, the first bit of a byte first.
    order = np.unpackbits(np.array([1 << i for i in range(64)], dtype=np.uint64).view(np.uint8))
    place_of = order.reshape(64, 64).argmax(axis=1)  # bit i of the word is coin place_of[i]
    slices = [
        [sum((numbers[place_of[i]] >> (31 - j) & 1) << i for i in range(64))] for j in range(shared)
    ]
    tied = [number for number in numbers if number >> (32 - shared) == weight >> (32 - shared)]
    rest = [(number & ((1 << (32 - shared)) - 1)) << (32 + shared) for number in tied]
    heads = bit_rows._packed_coins(weight, 1, Scripted(*slices, rest))
    assert np.unpackbits(heads.view(np.uint8)).tolist() == [int(x < weight) for x in numbers]


def test_a_single_coin_compares_all_32_bits():
    weight = 0x80_123456
    numbers = [weight - 1, weight, 0, (1 << 32) - 1]
    heads = bit_rows._coins(weight, 4, Scripted([number << 32 for number in numbers]))
    assert heads.tolist() == [True, False, True, False]


def test_bits_are_counted_one_by_one():
    rows = randomness.simulated(3).words(3 * 100).view(np.uint8)[: 100 * 3].reshape(100, 3).copy()
    rows[:, -1] &= 0xF0
    counts = UnaryEncoding(k=20, epsilon=1.0).tally(rows)
    assert counts.cells.tolist() == np.unpackbits(rows, axis=1).sum(axis=0)[:20].tolist()
    assert counts.n == 100


def test_chunks_join_without_a_seam(monkeypatch):
    monkeypatch.setattr(bit_rows, "CELLS_AT_ONCE", 64)
    randomizer = UnaryEncoding(k=20, epsilon=12.0, symmetric=True)
    values = np.arange(20).repeat(5)
    rows = randomizer.randomize(values, randomness=randomness.simulated(1))
    bits = np.unpackbits(rows, axis=1, count=20)
    assert (bits[np.arange(100), values] == 1).mean() > 0.9
    assert bits.sum() < 130


@pytest.mark.parametrize("epsilon", [1e-12, 31.0, 1e6])
def test_an_epsilon_out_of_reach_is_refused(epsilon):
    with pytest.raises(shoal.InvalidArgumentError, match="epsilon"):
        UnaryEncoding(k=10, epsilon=epsilon)


def test_what_is_too_large_is_refused():
    with pytest.raises(shoal.InvalidArgumentError, match="for a table"):
        UnaryEncoding(k=2000, epsilon=1.0).table()
    with pytest.raises(shoal.InvalidArgumentError, match="k <= 16777216"):
        UnaryEncoding(k=10**9, epsilon=1.0)
