from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

import shoal
from brute import shuffled_divergence
from shoal import randomness
from shoal.accounting.law import BlanketLaw
from shoal.accounting.profile import PrivacyProfile
from shoal.mechanisms.partitioned import PartitionedResponse, Partitions
from tables import check_same_curve

RARE = 1e-7


def made(k=6, epsilon=1.0, symbols=3, partitions=2, coins=1):
    return PartitionedResponse(
        k=k, epsilon=epsilon, symbols=symbols, partitions=partitions, coins=coins
    )


@st.composite
def devices(draw):
    k = draw(st.integers(2, 9))
    return made(
        k=k,
        epsilon=draw(st.sampled_from([0.1, 0.7, 2.0, 5.0])),
        symbols=draw(st.integers(2, k)),
        partitions=draw(st.integers(1, 5)),
        coins=draw(st.integers(0, 10**6)),
    )


@given(devices())
@settings(deadline=None, derandomize=True, max_examples=25)
def test_the_law_is_that_of_the_table(device):
    table = device.table()
    assert np.allclose(table.sum(axis=1), 1.0, atol=1e-12)
    assert math.log((table.max(axis=0) / table.min(axis=0)).max()) <= device.epsilon * (1 + 1e-12)
    listed = BlanketLaw.from_table(table)
    for n in (5, 2000):
        check_same_curve(device.law(), listed, n)


@given(devices(), st.sampled_from([0.0, 0.3, 1.0]))
@settings(deadline=None, derandomize=True, max_examples=15)
def test_no_shuffled_batch_reveals_more_than_the_law(device, epsilon):
    table = device.table()
    for n in (2, 3):
        if table.shape[1] ** n > 3000:
            continue
        bound = PrivacyProfile(device.law(), n).delta(epsilon)
        for pair in itertools.islice(itertools.permutations(range(device.k), 2), 6):
            for other in range(min(device.k, 3)):
                truth = shuffled_divergence(table, [other] * (n - 1), pair, epsilon)
                assert truth <= bound * (1 + 1e-9) + 1e-12


def test_everybody_hides_everybody_not_only_those_with_the_same_partition():
    n, delta = 10_000, 1e-6
    one = PrivacyProfile(made(k=4096, partitions=1, symbols=8, epsilon=3.0).law(), n)
    four = PrivacyProfile(made(k=4096, partitions=4, symbols=8, epsilon=3.0).law(), n)
    quarter = PrivacyProfile(one.law, n // 4)
    assert four.epsilon(delta) == pytest.approx(one.epsilon(delta), rel=1e-9)
    assert quarter.epsilon(delta) > 1.8 * four.epsilon(delta)


def test_answers_that_share_bins_everywhere_reveal_less():
    """With few answers and many partitions any two share a bin somewhere: the law knows."""
    device = made(k=3, symbols=2, partitions=30, epsilon=2.0)
    assert device.layout.fewest_shared > 0
    exact = PrivacyProfile(device.law(), 1000).epsilon(1e-6)
    apart = PrivacyProfile(made(k=2, symbols=2, partitions=30, epsilon=2.0).law(), 1000)
    assert exact < 0.95 * apart.epsilon(1e-6)


def test_the_lower_bound_is_below_the_upper_one_and_not_far():
    device = made(k=200, symbols=8, partitions=4, epsilon=3.0)
    profile = PrivacyProfile(device.law(), 20_000)
    assert 0.7 * profile.epsilon(1e-6) < profile.lower_epsilon(1e-6) <= profile.epsilon(1e-6)


@pytest.mark.parametrize("epsilon", [0.5, 3.0])
def test_the_sampler_follows_the_table(epsilon):
    device = made(epsilon=epsilon)
    table = device.table()
    n = 40_000
    for answer in range(device.k):
        messages = device.randomize(np.full(n, answer), randomness=randomness.simulated(answer))
        seen = np.bincount(messages, minlength=device.outputs)
        assert stats.chisquare(seen, n * table[answer]).pvalue > RARE


@given(st.integers(2, 400), st.integers(1, 4), st.integers(0, 10**9), st.floats(0, 1))
@settings(deadline=None, derandomize=True, max_examples=60)
def test_bins_are_of_equal_size_and_the_same_everywhere(k, partitions, coins, share):
    symbols = 2 + round(share * (k - 2))
    layout = Partitions(k=k, partitions=partitions, symbols=symbols, coins=coins)
    for bins in layout.bins:
        sizes = np.bincount(bins, minlength=symbols)
        assert sizes.size == symbols
        assert sizes.max() - sizes.min() <= 1
    again = Partitions(k=k, partitions=partitions, symbols=symbols, coins=coins)
    assert np.array_equal(layout.bins, again.bins)


def test_the_bins_of_these_coins_never_change():
    """Devices of all versions have to agree on the partitions."""
    layout = Partitions(k=12, partitions=2, symbols=3, coins=2026)
    assert layout.bins.tolist() == [
        [1, 2, 2, 2, 0, 1, 2, 0, 0, 1, 0, 1],
        [1, 0, 2, 0, 2, 1, 2, 1, 2, 1, 0, 0],
    ]


def test_partitions_and_coins_are_independent_of_each_other():
    """Two answers share a bin as often as chance says, over partitions and over coins alike."""
    k, symbols = 64, 8
    many = Partitions(k=k, partitions=4000, symbols=symbols, coins=5).bins
    coins = [Partitions(k=k, partitions=1, symbols=symbols, coins=c).bins[0] for c in range(4000)]
    expected = (k / symbols - 1) / (k - 1)
    for bins in (many, np.array(coins)):
        shared = (bins[:, 3] == bins[:, 50]).mean()
        assert abs(shared - expected) < 6 * math.sqrt(expected / 4000)
        follows = (bins[1:, 3] == bins[:-1, 3]).mean()
        assert abs(follows - 1 / symbols) < 6 * math.sqrt(1 / symbols / 4000)


@pytest.mark.parametrize(
    "wrong",
    [
        {"k": 1},
        {"symbols": 1},
        {"symbols": 7},
        {"partitions": 0},
        {"coins": -1},
        {"epsilon": 0.0},
        {"partitions": 1 << 26},
    ],
)
def test_what_is_no_device_is_refused(wrong):
    with pytest.raises(shoal.InvalidArgumentError):
        made(**wrong)
