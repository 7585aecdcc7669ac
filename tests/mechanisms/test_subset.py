import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

import shoal
from contract import RARE, CategoryContract
from shoal import randomness
from shoal.accounting.law import BlanketLaw
from shoal.accounting.profile import PrivacyProfile
from shoal.mechanisms import bits as bit_rows
from shoal.mechanisms.bits import SubsetSelection


class SubsetContract(CategoryContract):
    small = (2, 3, 5, 8)

    def column_of(self, randomizer, messages):
        powers = 1 << np.arange(randomizer.k)
        sets = itertools.combinations(range(randomizer.k), randomizer._w)
        columns = np.full(1 << randomizer.k, -1)
        for column, chosen in enumerate(sets):
            columns[powers[list(chosen)].sum()] = column
        return columns[np.unpackbits(messages, axis=1, count=randomizer.k) @ powers]

    def test_the_lower_bound_is_that_of_the_table(self):
        for k in self.small:
            randomizer = self.make(k, 2.0)
            mine = PrivacyProfile(randomizer.law(), 300).lower_epsilon(1e-4)
            table = BlanketLaw.from_table(randomizer.table())
            assert mine == pytest.approx(PrivacyProfile(table, 300).lower_epsilon(1e-4), rel=1e-6)
            assert 0 < mine <= PrivacyProfile(randomizer.law(), 300).epsilon(1e-4)


class TestSubsetSelection(SubsetContract):
    def make(self, k, epsilon):
        return SubsetSelection(k=k, epsilon=epsilon)

    def test_the_size_is_the_best_one(self):
        assert self.make(100, 1.0)._w == round(100 / (math.e + 1))
        assert self.make(5, 8.0)._w == 1
        best = self.make(60, 1.0)
        totals = [
            SubsetSelection(k=60, epsilon=1.0, size=w).variance(np.full(60, 1 / 60), n=1).sum()
            for w in range(1, 60)
        ]
        assert best.variance(np.full(60, 1 / 60), n=1).sum() == min(totals)

    def test_one_answer_is_randomized_response(self):
        mine = SubsetSelection(k=6, epsilon=1.5, size=1)
        theirs = shoal.RandomizedResponse(k=6, epsilon=1.5)
        assert mine.table() == pytest.approx(theirs.table(), rel=1e-12)
        signatures = [[pair.signature for pair in each.law().pairs] for each in (mine, theirs)]
        assert signatures[0] == signatures[1]


class TestLargeSubsets(SubsetContract):
    """Sizes the default never takes, with both answers of most pairs in the set."""

    small = (3, 4)

    def make(self, k, epsilon):
        size = k - 1 if isinstance(k, int) and k > 1 else None
        return SubsetSelection(k=k, epsilon=epsilon, size=size)


@settings(deadline=None, derandomize=True, max_examples=60)
@given(k=st.integers(2, 9), epsilon=st.floats(0.01, 12), data=st.data())
def test_epsilon_and_supports_are_exact(k, epsilon, data):
    randomizer = SubsetSelection(k=k, epsilon=epsilon, size=data.draw(st.integers(1, k - 1)))
    w, total = randomizer._w, randomizer.odds.total
    inside = Fraction(randomizer.odds.raised, total * math.comb(k - 1, w - 1))
    outside = Fraction(total - randomizer.odds.raised, total * math.comb(k - 1, w))
    assert inside / outside == Fraction(randomizer.odds.high, randomizer.odds.low)
    sets = list(itertools.combinations(range(k), w))
    chances = [inside if 0 in chosen else outside for chosen in sets]
    assert sum(chances) == 1
    true = sum(c for c, chosen in zip(chances, sets, strict=True) if 0 in chosen)
    other = sum(c for c, chosen in zip(chances, sets, strict=True) if 1 in chosen)
    assert randomizer.estimator.support.true == float(true)
    assert randomizer.estimator.support.other == float(other)


def test_the_published_example():
    law = SubsetSelection(k=100, epsilon=4.0).law()
    assert PrivacyProfile(law, 10**4).epsilon(1e-6) == pytest.approx(0.288245, rel=1e-3)


def test_sets_without_the_truth_never_contain_it():
    truths = np.arange(7).repeat(3000)
    never = np.zeros(truths.size, dtype=bool)
    chosen = bit_rows._completed(truths, never, 7, 3, randomness.simulated(2))
    assert not chosen[np.arange(truths.size), truths].any()
    assert (chosen.sum(axis=1) == 3).all()
    others = [chosen[truths == 0][:, j].sum() for j in range(1, 7)]
    assert stats.chisquare(others).pvalue > RARE


class Coarse(randomness.Randomness):
    """Keys of two bits only, so that most rows tie."""

    def __init__(self):
        self.source = randomness.simulated(9)

    def words(self, size):
        return self.source.words(size) & np.uint64(0x0000000300000003)


def test_ties_are_drawn_again_and_favour_no_set():
    n = 60_000
    truths, included = np.zeros(n, dtype=np.int64), np.arange(n) % 2 == 0
    chosen = bit_rows._completed(truths, included, 5, 2, Coarse())
    assert (chosen.sum(axis=1) == 2).all()
    assert np.array_equal(chosen[:, 0], included)
    codes = chosen @ (1 << np.arange(5))
    for which, sets in ((included, math.comb(4, 1)), (~included, math.comb(4, 2))):
        _, seen = np.unique(codes[which], return_counts=True)
        assert seen.size == sets
        assert stats.chisquare(seen).pvalue > RARE


@pytest.mark.parametrize("size", [0, -1, 10, 11, 2.5])
def test_what_is_no_size_is_refused(size):
    with pytest.raises(shoal.InvalidArgumentError, match="size"):
        SubsetSelection(k=10, epsilon=1.0, size=size)


def test_what_is_too_large_is_refused():
    with pytest.raises(shoal.InvalidArgumentError, match="answers and sets"):
        SubsetSelection(k=2000, epsilon=1.0).table()
    with pytest.raises(shoal.InvalidArgumentError, match="epsilon"):
        SubsetSelection(k=10, epsilon=1e6)
