"""The statistic is what its formula says, for every device, and its moments are as predicted."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

import shoal
from shoal import randomness
from shoal.engines.shuffling import shuffle
from shoal.mechanisms.bits import SubsetSelection
from shoal.mechanisms.dummies import PartitionedDummies, UniformDummies
from shoal.mechanisms.partitioned import PartitionedResponse
from shoal.mechanisms.response import (
    HadamardResponse,
    ProjectiveGeometryResponse,
    RandomizedResponse,
    walsh,
)
from shoal.testing import power
from shoal.testing.scores import Departure, ListedScores, Split, scores_of
from shoal.values import Counts

K = 12
RARE = 1e-7
ONE = {
    "grr": RandomizedResponse(k=K, epsilon=2.0),
    "hadamard": HadamardResponse(k=K, epsilon=2.0),
    "projective": ProjectiveGeometryResponse(k=K, epsilon=2.0),
    "one partition": PartitionedResponse(k=K, epsilon=2.0, symbols=5, coins=2),
    "partitions": PartitionedResponse(k=K, epsilon=2.0, symbols=4, partitions=3, coins=2),
}
SEVERAL = {
    "dummies": UniformDummies(k=K, dummies=2.3),
    "one partition among dummies": PartitionedDummies(k=K, symbols=5, dummies=1.4, coins=1),
    "partitions among dummies": PartitionedDummies(
        k=K, symbols=4, partitions=3, dummies=0.6, coins=1
    ),
}
EVERY = {**ONE, **SEVERAL}
ZIPF = (1 / np.arange(1, K + 1)) / (1 / np.arange(1, K + 1)).sum()
REFERENCES = {"uniform": np.full(K, 1 / K), "zipf": ZIPF}


def rows(device):
    """Pr[message | answer]; for partitions from their definition."""
    return device.table()


def score_table(device):
    """φ(m), one row per message, by the definition of each device's scores."""
    if isinstance(device, PartitionedResponse):
        support = np.zeros((device.outputs, K))
        for g, x in itertools.product(range(device.partitions), range(K)):
            support[g * device.symbols + device.layout.bins[g, x], x] = 1.0
        return support * device.partitions / device.truth
    single = np.eye(device.outputs, dtype=np.int64)
    return np.array([device.estimate(Counts(cells, 1)).frequencies for cells in single])


@pytest.mark.parametrize("reference", REFERENCES)
@pytest.mark.parametrize("name", ONE)
def test_the_statistic_is_the_sum_over_pairs_of_messages(name, reference):
    device, q = ONE[name], REFERENCES[reference]
    scores = scores_of(device, q)
    table = score_table(device)
    law = q @ rows(device)
    assert np.allclose(scores.mean, law, atol=1e-12)
    messages = randomness.simulator(3).choice(device.outputs, size=40, p=law / law.sum())
    centred = table[messages] - law @ table
    alike = (centred * scores.weights) @ centred.T
    expected = alike.sum() - np.trace(alike)
    counts = np.bincount(messages, minlength=device.outputs)
    assert scores.statistics(counts[None, :], 40)[0] == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize("reference", REFERENCES)
@pytest.mark.parametrize("name", ONE)
def test_moments_and_weights_are_those_of_the_scores(name, reference):
    device, q = ONE[name], REFERENCES[reference]
    scores = scores_of(device, q)
    table, law = score_table(device), q @ rows(device)
    centred = table - law @ table
    covariance = (centred * law[:, None]).T @ centred
    product = covariance * scores.weights
    assert scores.spread.trace == pytest.approx(np.trace(product), rel=1e-9)
    assert scores.spread.square == pytest.approx((product * product.T).sum(), rel=1e-9)
    raw = np.diagonal(covariance) ** (-2 / 3)
    assert np.allclose(scores.weights, raw / raw.mean(), rtol=1e-9)


@pytest.mark.parametrize("name", ["grr", "hadamard", "projective", "dummies"])
def test_scores_are_unbiased_without_public_coins(name):
    """The mean of T is n(n−1) times the weighted squared distance, for any true shares."""
    scores = scores_of(EVERY[name], ZIPF)
    shares = randomness.simulator(1).dirichlet(np.ones(K), size=5)
    expected = (scores.weights * (shares - ZIPF) ** 2).sum(axis=1)
    assert np.allclose(scores.departure(shares).signal, expected, rtol=1e-9)


@pytest.mark.parametrize("reference", REFERENCES)
@pytest.mark.parametrize("name", EVERY)
def test_simulated_statistics_have_the_mean_and_the_variance_predicted(name, reference):
    scores, q, n, size = scores_of(EVERY[name], REFERENCES[reference]), None, 300, 40_000
    q = REFERENCES[reference]
    tables = scores.draw(q, n=n, size=size, generator=randomness.simulator(11))
    found = scores.statistics(tables, n)
    error = found.std() / math.sqrt(size)
    assert abs(found.mean()) < 5.5 * error
    assert found.var() == pytest.approx(2 * n * (n - 1) * scores.spread.square, rel=0.1)
    assert np.allclose(tables.mean(axis=0), n * scores.mean, rtol=0.02)


@pytest.mark.parametrize("name", EVERY)
def test_moments_of_people_who_depart_are_those_predicted(name):
    """δ'Mδ, and 2 tr((MΣ')²) + 4n δ'MΣ'Mδ: to leading order, hence some percent."""
    scores, n, size = scores_of(EVERY[name], ZIPF), 3000, 20_000
    shares = power.hardest(ZIPF, 0.15, weights=np.ones(K))
    tables = scores.draw(shares, n=n, size=size, generator=randomness.simulator(12))
    found = scores.statistics(tables, n) / n
    seen = scores.departure(shares)
    mean = (n - 1) * seen.signal
    if name == "partitions among dummies":
        mean += seen.spread.trace - scores.spread.trace
    assert abs(found.mean() - mean) < 5.5 * found.std() / math.sqrt(size)
    variance = 2 * seen.spread.square + 4 * n * seen.noise
    assert found.var() == pytest.approx(variance, rel=0.08)
    nothing = scores.departure(ZIPF)
    assert nothing.signal == pytest.approx(0.0, abs=1e-12)
    assert nothing.spread.square == pytest.approx(scores.spread.square, rel=1e-9)


@pytest.mark.parametrize("name", EVERY)
def test_what_is_simulated_is_what_devices_send(name):
    """End to end: randomize, shuffle and count give the statistics that are drawn directly."""
    device, n = EVERY[name], 400
    scores = scores_of(device, ZIPF)
    shares = power.hardest(ZIPF, 0.1, weights=np.ones(K))
    source = randomness.simulated(8)
    answers = randomness.simulator(9)
    sent, counted = [], np.zeros(scores.outputs)
    for _ in range(150):
        values = answers.choice(K, size=n, p=shares / shares.sum())
        counts = device.counted(shuffle(device.randomize(values, randomness=source)))
        counted += counts.cells
        sent.append(scores.statistics(counts.cells[None, :], n)[0])
    drawn = scores.statistics(
        scores.draw(shares, n=n, size=3000, generator=randomness.simulator(4)), n
    )
    assert stats.ks_2samp(sent, drawn).pvalue > RARE
    # A person's several messages are nearly independent counts: chi-square is close enough.
    assert stats.chisquare(counted, counted.sum() * _normal(scores.expected(shares))).pvalue > RARE


def _normal(law):
    return law / law.sum()


def test_dummies_of_several_partitions_share_the_truth():
    """The bins of one answer go together: cells of different partitions are correlated."""
    scores = scores_of(SEVERAL["partitions among dummies"], ZIPF)
    tables = scores.draw(ZIPF, n=500, size=60_000, generator=randomness.simulator(1))
    measured = np.cov(tables.T) / 500
    error = np.sqrt(np.outer(np.diagonal(measured), np.diagonal(measured)) / 60_000)
    assert (np.abs(measured - scores._covariance(ZIPF)) < 7 * error).all()


def test_a_list_of_all_messages_gives_the_same_as_transforms():
    device = HadamardResponse(k=K, epsilon=2.0)
    quick, listed = scores_of(device, ZIPF), ListedScores(device=device, reference=ZIPF)
    tables = quick.draw(ZIPF, n=100, size=7, generator=randomness.simulator(5))
    assert np.allclose(quick.statistics(tables, 100), listed.statistics(tables, 100), rtol=1e-9)


@given(st.integers(0, 5), st.integers(0, 2**32))
@settings(deadline=None, derandomize=True, max_examples=30)
def test_the_transform_is_its_own_inverse(bits, seed):
    values = randomness.simulator(seed).normal(size=(3, 1 << bits))
    assert np.allclose(walsh(walsh(values)), values * (1 << bits), atol=1e-9)


def test_weights_of_a_uniform_reference_are_equal_and_rare_answers_weigh_more():
    for name in ("grr", "hadamard", "dummies"):
        assert np.allclose(scores_of(EVERY[name], REFERENCES["uniform"]).weights, 1.0, rtol=0.1)
        assert (
            scores_of(EVERY[name], ZIPF).weights[-1]
            > 1.05 * scores_of(EVERY[name], ZIPF).weights[0]
        )


def test_the_exponent_is_the_best():
    """No other power of the variance has a larger worst-case signal to noise."""
    variances = scores_of(RandomizedResponse(k=K, epsilon=6.0), ZIPF).variances

    def worst(exponent):
        weights = variances**-exponent
        return 1 / ((1 / weights).sum() * math.sqrt((weights**2 * variances**2).sum()))

    assert worst(2 / 3) >= max(map(worst, (0.0, 0.4, 0.6, 0.73, 1.0)))
    assert worst(2 / 3) > 1.05 * worst(0.0)


@given(st.integers(0, 2**32))
@settings(deadline=None, derandomize=True, max_examples=20)
def test_the_statistic_of_two_batches_is_the_sum_over_pairs(seed):
    generator = randomness.simulator(seed)
    device = ONE["partitions" if seed % 2 else "hadamard"]
    scores = scores_of(device, REFERENCES["uniform"])
    table = score_table(device)
    sizes = (7, 12)
    one, two = (generator.integers(device.outputs, size=size) for size in sizes)
    counts = [
        Counts(np.bincount(messages, minlength=device.outputs), messages.size)
        for messages in (one, two)
    ]
    split = Split(scores, *counts)
    weights = split.scores.weights

    def alike(first, second):
        return (table[first] * weights) @ table[second].T

    within = [
        (alike(each, each).sum() - np.trace(alike(each, each))) / (each.size * (each.size - 1))
        for each in (one, two)
    ]
    expected = sum(within) - 2 * alike(one, two).mean()
    assert split.statistic == pytest.approx(expected, rel=1e-9, abs=1e-9)


def test_splitting_keeps_the_pooled_messages_and_the_sizes():
    scores = scores_of(ONE["grr"], ZIPF)
    counts = [Counts(np.arange(K), 66), Counts(np.full(K, 3), 36)]
    null = Split(scores, *counts).null(500, randomness.simulator(1))
    assert null.shape == (500,)
    assert abs(null.mean()) < 6 * null.std() / math.sqrt(500) + 1e-3


def test_a_prediction_for_few_degrees_of_freedom_is_not_the_normal_one():
    spread = scores_of(RandomizedResponse(k=2, epsilon=1.0), np.full(2, 0.5)).spread
    assert spread.freedom == pytest.approx(1.0)
    nothing = Departure(np.zeros(1), np.zeros(1), spread)
    assert power.predicted(spread, nothing, people=100, level=0.05) == pytest.approx(0.05, abs=1e-6)
    # Beside the exact law, that of a non-central χ².
    for signal in (0.01, 0.03, 0.1):
        seen = Departure(np.array(signal), signal * spread.scale, spread)
        exact = stats.ncx2.sf(stats.chi2.isf(0.05, 1), 1, 100 * signal / spread.scale)
        found = power.predicted(spread, seen, people=100, level=0.05)
        assert found == pytest.approx(exact, abs=0.01)


def test_devices_without_numbered_messages_are_refused():
    with pytest.raises(shoal.InvalidArgumentError, match="messages are numbers"):
        scores_of(SubsetSelection(k=K, epsilon=1.0), ZIPF)
    with pytest.raises(shoal.InvalidArgumentError, match="12 answers"):
        scores_of(RandomizedResponse(k=5, epsilon=1.0), ZIPF)
    wide = PartitionedResponse(k=5000, epsilon=1.0, symbols=2000, partitions=3)
    with pytest.raises(shoal.InvalidArgumentError, match="single partition"):
        scores_of(wide, np.full(5000, 1 / 5000)).gram  # noqa: B018 - made when asked for
