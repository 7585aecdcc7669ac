"""Sums of noisy vectors in random shares."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

import shoal
from shoal import randomness
from shoal.accounting.noise.split import split_security
from shoal.errors import InvalidArgumentError, OutOfRegimeError
from shoal.mechanisms.split_and_mix import SplitAndMixVectors
from shoal.values import Batch, Counts


def make(dimension=5, bound=2.0, n=2000, epsilon=1.0, delta=1e-6, levels=None):
    return SplitAndMixVectors.calibrated(
        dimension=dimension, bound=bound, n=n, epsilon=epsilon, delta=delta, levels=levels
    )


def plain(dimension=4, bound=100.0, levels=100, bits=30, people=10, epsilon=None):
    return SplitAndMixVectors(
        dimension=dimension,
        bound=bound,
        levels=levels,
        shares=3,
        modulus_bits=bits,
        people=people,
        epsilon=epsilon,
    )


def crowd(n, dimension, bound, seed=1):
    words = randomness.simulated(seed).below(2001, n * dimension).reshape(n, dimension)
    vectors = words.astype(float) - 1000
    return vectors / np.abs(vectors).sum(axis=1, keepdims=True) * bound


@settings(max_examples=60)
@given(
    arrays(np.float64, (20, 6), elements=st.floats(-1, 1, allow_subnormal=False)),
    st.integers(1, 1000),
)
def test_rounding_never_lengthens_and_stays_beside_the_truth(vectors, levels):
    lengths = np.maximum(np.abs(vectors).sum(axis=1, keepdims=True), 1e-9)
    vectors = vectors / np.maximum(lengths, 1.0)
    protocol = plain(dimension=6, bound=1.0, levels=levels)
    whole = protocol._rounded(vectors, randomness.simulated(levels))
    assert (np.abs(whole).sum(axis=1) <= levels).all()
    assert (np.abs(whole - vectors * levels) < 1 + 1e-6).all()
    assert (whole * np.sign(vectors) >= 0).all()


def test_vectors_a_hair_too_long_by_float_sums_do_not_become_longer():
    protocol = plain(dimension=10, bound=0.3, levels=3)
    vectors = np.full((5000, 10), 0.03 * (1 + 5e-10))
    whole = protocol._rounded(protocol.domain.read(vectors), randomness.simulated(1))
    assert int(np.abs(whole).sum(axis=1).max()) == 3


def test_rounding_is_right_on_average_in_every_coordinate():
    protocol = plain(dimension=5, bound=1.0, levels=3)
    vector = np.array([0.11, -0.31, 0.0, 0.25, -0.33])
    runs = 100_000
    whole = protocol._rounded(np.tile(vector, (runs, 1)), randomness.simulated(2))
    spread = 5.5 * 0.5 / math.sqrt(runs)
    assert np.abs(whole.mean(axis=0) - 3 * vector).max() <= spread
    assert (whole[:, 2] == 0).all()
    assert (whole.var(axis=0) <= 0.25 + 2 * spread).all()


@settings(max_examples=30)
@given(arrays(np.int64, (7, 4), elements=st.integers(-25, 25)), st.integers(12, 60))
def test_without_noise_whole_vectors_are_summed_exactly(vectors, bits):
    protocol = plain(bits=bits)
    source = randomness.simulated(bits)
    batch = shoal.shuffle(protocol.randomize(vectors, randomness=source), randomness=source)
    assert protocol.sums(protocol.tally(batch)) == vectors.sum(axis=0).tolist()
    assert protocol.estimate(batch).sum == pytest.approx(vectors.sum(axis=0))


def test_unbiased_with_the_predicted_error():
    n, runs = 2000, 300
    protocol = make(n=n)
    vectors = crowd(n, 5, 2.0)
    truth = vectors.mean(axis=0)
    source = randomness.simulated(3)
    found = [
        protocol.estimate(protocol.tally(protocol.randomize(vectors, randomness=source)))
        for _ in range(runs)
    ]
    errors = np.array([each.mean - truth for each in found])
    stated = found[0].standard_errors
    assert (np.abs(errors.mean(axis=0)) <= 5.5 * stated / math.sqrt(runs)).all()
    ratio = (errors**2).sum(axis=1).mean() / protocol.variance(n=n)
    assert ratio == pytest.approx(1.0, abs=0.03 + 5.5 * math.sqrt(5 / (5 * runs)))
    assert float((stated**2).sum()) == pytest.approx(protocol.variance(n=n))
    assert found[0].n == n


def test_the_error_does_not_grow_with_the_crowd():
    for n in (1000, 10**6):
        protocol = make(bound=1.0, n=n)
        assert n**2 * protocol.variance(n=n) / 5 == pytest.approx(0.25 + 8, rel=0.05)


@pytest.mark.parametrize(("dimension", "epsilon"), [(1, 1.0), (5, 0.5), (100, 2.0), (1000, 1.0)])
def test_the_calibration_counts_every_coordinate(dimension, epsilon):
    n, delta = 10_000, 1e-6
    protocol = make(dimension=dimension, n=n, epsilon=epsilon, delta=delta)
    sigma = split_security(n=n, shares=protocol.shares, modulus_bits=protocol.modulus_bits)
    reached = protocol.profile(n).delta(epsilon)
    assert dimension * (1 + math.exp(epsilon)) * 2**-sigma <= reached <= delta
    assert protocol.slots == protocol.messages == dimension * protocol.shares
    assert protocol.sensitivity == 2 * protocol.levels
    assert protocol.rate * protocol.sensitivity <= epsilon
    assert shoal.amplify(protocol, n=n, delta=delta).epsilon <= epsilon * (1 + 1e-7)


def test_opposite_vectors_are_as_private_as_stated():
    """The worst neighbours differ by 2 levels in one coordinate; noise is Laplace in each."""
    protocol = make(dimension=2, n=100, levels=3)
    rate, shift = protocol.rate, 2 * 3
    z = np.arange(-2000, 2001)
    pmf = np.exp(-rate * np.abs(z)) * math.tanh(rate / 2)
    moved = np.exp(-rate * np.abs(z - shift)) * math.tanh(rate / 2)
    profile = protocol.profile(100)
    for epsilon in (0.0, 0.3, 0.7, 1.0, 1.5):
        truth = np.maximum(moved - math.exp(epsilon) * pmf, 0).sum()
        assert truth <= profile.delta(epsilon) + 1e-12
    half = np.exp(-rate * np.abs(z - 3)) * math.tanh(rate / 2)
    near = slice(1900, 2101)
    joint, shifted = np.outer(pmf[near], half[near]), np.outer(half[near], pmf[near])
    assert np.maximum(joint - math.exp(0.5) * shifted, 0).sum() <= profile.delta(0.5)


def test_fewer_honest_people_than_share_the_noise_are_refused():
    with pytest.raises(OutOfRegimeError, match="n >= people"):
        make(n=500).profile(499)


def test_lost_and_altered_messages_are_noticed():
    n = 200
    protocol = make(n=n)
    sent = protocol.randomize(crowd(n, 5, 2.0), randomness=randomness.simulated(1))
    messages = sent.messages
    with pytest.raises(InvalidArgumentError, match="of each of 200 people"):
        protocol.estimate(Batch(messages[1:], n))
    other = messages.copy()
    other[0] ^= np.int64(1 << protocol.modulus_bits)  # another coordinate's share
    with pytest.raises(InvalidArgumentError, match="of each of 200 people"):
        protocol.estimate(Batch(other, n))
    assert protocol.undetected(n) <= 2.0**-16
    for i, forged in enumerate(randomness.simulated(5).below(1 << protocol.modulus_bits, 50)):
        other = messages.copy()
        other[i] = (other[i] >> protocol.modulus_bits << protocol.modulus_bits) + int(forged)
        with pytest.raises(InvalidArgumentError, match="altered, lost or forged"):
            protocol.estimate(Batch(other, n))


def test_a_dishonest_person_moves_a_sum_anywhere_plausible():
    n = 200
    protocol = make(n=n)
    counts = protocol.tally(
        protocol.randomize(crowd(n, 5, 2.0), randomness=randomness.simulated(1))
    )
    low, high = protocol.plausible(n)
    total = protocol.sums(counts)[2]

    def moved(to):
        cells = counts.cells.copy()
        cells[2] += to - total
        return protocol.estimate(Counts(cells, n)).sum[2]

    assert moved(high) - moved(low) == pytest.approx(protocol.influence)
    with pytest.raises(InvalidArgumentError, match="forged"):
        moved(high + 1)


def test_the_first_vector_that_is_too_long_is_named():
    vectors = np.zeros((10, 5))
    vectors[[6, 8], 0] = 2.5
    with pytest.raises(InvalidArgumentError, match=r"at most 2, got length=.\(row 6, not shown"):
        make().randomize(vectors)


@pytest.mark.parametrize(
    "wrong",
    [
        {"dimension": 0},
        {"dimension": 1 << 21},
        {"bound": 0.0},
        {"bound": math.inf},
        {"bits": 61},
        {"levels": 0},
        {"people": 0},
    ],
)
def test_what_is_no_protocol_is_refused(wrong):
    with pytest.raises(InvalidArgumentError):
        plain(**wrong)


def test_too_many_coordinates_for_a_word_are_refused():
    with pytest.raises(InvalidArgumentError, match="coordinates"):
        make(dimension=10**6, n=10**8)
