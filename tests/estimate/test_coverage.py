"""Limits hold the truth as often as they say: few reports, data at the bounds, any mechanism.

Mechanisms come from the registries, so that a new one is held to this as well.
"""

from __future__ import annotations

import dataclasses
import itertools
import math
from statistics import NormalDist

import numpy as np
import pytest
from scipy import signal, stats

import shoal
from shoal import randomness
from shoal.intervals.estimates import MeanEstimate, VectorEstimate
from shoal.mechanisms import registry
from shoal.questions.domains import Ball
from shoal.values import Batch, Counts

NUMBERS = (*registry.names("numbers", local=True), *registry.names("numbers", several=True))
VECTORS = (*registry.names("vectors", local=True), *registry.names("vectors", several=True))
DIMENSION = 3
DELTA = 1e-5
RARE = 1e-9  # a mechanism that covers exactly as often as it says fails a test this rarely
ROUNDING = 1e-12
WIDER = 1.1  # than limits from the spread of 10,000 reports
Z = NormalDist().inv_cdf(0.975)


def number_data(n):
    """Data at the bounds, in the middle, and in between."""
    return {
        "low": np.zeros(n),
        "high": np.ones(n),
        "half": (np.arange(n) % 2).astype(float),
        "middle": np.full(n, 0.5),
        "uniform": (np.arange(n) + 0.5) / n,
    }


def vector_data(n, d=DIMENSION):
    """Unit vectors that agree, that cancel, and that point anywhere."""
    axes = np.eye(d)
    drawn = randomness.simulated(d).below(2001, n * d).reshape(n, d).astype(float) - 1000.5
    return {
        "axis": axes[np.zeros(n, dtype=int)],
        "opposite": axes[np.zeros(n, dtype=int)] * (1 - 2 * (np.arange(n) % 2))[:, None],
        "axes": axes[np.arange(n) % d],
        "even": np.full((n, d), d**-0.5),
        "anywhere": drawn / np.linalg.norm(drawn, axis=1)[:, None],
    }


def made(name, *, n, epsilon):
    """The mechanism of this name for numbers from 0 to 1, or for unit vectors.

    Epsilon is local for one message, and that of n people for several.
    """
    shape = {"low": 0.0, "high": 1.0} if name in NUMBERS else {"dimension": DIMENSION}
    if registry.line(name).local:
        return registry.by_name(name)(**shape, epsilon=epsilon)
    extra = {"levels": 8} if name in NUMBERS else {"bound": math.sqrt(DIMENSION)}
    return registry.calibration(name)(**shape, **extra, n=n, epsilon=epsilon, delta=DELTA)


def estimates(device, values, runs, seed):
    source = randomness.simulated(seed)
    for _ in range(runs):
        yield device.estimate(device.tally(device.randomize(values, randomness=source)))


def misses(device, values, runs, *, level=0.95, seed=1):
    """How often the limits of each coordinate leave the truth out."""
    truth = np.atleast_1d(values.mean(axis=0))
    missed = np.zeros(truth.size, dtype=int)
    for estimate in estimates(device, values, runs, seed):
        low, high = estimate.interval(level)
        missed += (truth < np.asarray(low) - ROUNDING) | (truth > np.asarray(high) + ROUNDING)
    return missed


def allowed(runs, level=0.95):
    return int(stats.binom.isf(RARE, runs, 1 - level))


@pytest.mark.parametrize(
    ("n", "epsilon", "runs"),
    [
        (10, 1.0, 60),
        (10, 8.0, 60),
        *(
            pytest.param(n, epsilon, 200, marks=pytest.mark.slow)
            for n in (10, 30, 100, 1000)
            for epsilon in (0.5, 1.0, 2.0, 4.0, 6.0, 8.0, 10.0)
        ),
    ],
)
@pytest.mark.parametrize("name", [*NUMBERS, *VECTORS])
def test_limits_cover(name, n, epsilon, runs):
    """Every data set by itself, and all of them together: each may be missed as often."""
    device, data = made(name, n=n, epsilon=epsilon), (number_data, vector_data)[name in VECTORS](n)
    missed = {kind: misses(device, values, runs) for kind, values in data.items()}
    assert {kind: m.max() for kind, m in missed.items() if m.max() > allowed(runs)} == {}
    assert (sum(missed.values()) <= allowed(runs * len(missed))).all()


@pytest.mark.parametrize(
    ("device", "people", "runs"),
    [
        # What the planner recommends to 30 people at epsilon = 4, and to 100 at 8.
        (shoal.RoundedResponse(low=0, high=1, epsilon=4.0, levels=5), np.zeros(30), 600),
        (shoal.RoundedResponse(low=0, high=1, epsilon=8.0, levels=17), np.full(100, 0.01), 600),
        (shoal.Duchi(low=0, high=1, epsilon=10.0), np.full(10, 0.02), 100),
        (shoal.PrivUnit(dimension=3, epsilon=8.0), np.tile([1.0, 0.0, 0.0], (10, 1)), 100),
    ],
)
def test_what_is_rare_is_counted_though_it_is_not_seen(device, people, runs):
    """Lies and roundings that hardly ever happen: most samples have no spread that shows them."""
    assert (misses(device, people, runs) <= allowed(runs)).all()


def laws(rows, n):
    """The exact law of the counts of ``n`` people: pairs (probability vector, people) in ``rows``.

    An array over the numbers of all messages but the last.
    """
    free = len(rows[0][0]) - 1
    total = np.ones((1,) * free)
    for row, people in rows:
        counts = np.indices((people + 1,) * free).reshape(free, -1).T
        counts = np.column_stack([counts, people - counts.sum(axis=1)])
        possible = counts[:, -1] >= 0
        law = np.zeros(len(counts))
        law[possible] = stats.multinomial.pmf(counts[possible], people, row)
        total = signal.convolve(total, law.reshape((people + 1,) * free), method="direct")
    assert total.shape == (n + 1,) * free
    return total


def row_of(randomizer, number):
    """The law of the message of a number from 0 to 1."""
    place = number * (randomizer.levels - 1)
    below = min(int(place), randomizer.levels - 2)
    table = randomizer.table()
    return (below + 1 - place) * table[below] + (place - below) * table[below + 1]


def few_levels(name, epsilon):
    kind = registry.by_name(name)
    chosen = any(field.name == "levels" and field.init for field in dataclasses.fields(kind))
    return kind(low=0.0, high=1.0, epsilon=epsilon, **({"levels": 3} if chosen else {}))


@pytest.mark.parametrize("epsilon", [0.5, 2.0, 5.0, 10.0])
@pytest.mark.parametrize("name", registry.names("numbers", local=True))
def test_limits_of_few_levels_cover_exactly(name, epsilon):
    """All outcomes of ten reports are listed: the coverage is a sum, and no estimate."""
    randomizer, n = few_levels(name, epsilon), 10
    limits = {
        counts: randomizer.estimate(Counts(np.array([*counts, n - sum(counts)]), n)).interval()
        for counts in itertools.product(range(n + 1), repeat=randomizer.outputs - 1)
        if sum(counts) <= n
    }
    alike = [[(x, n)] for x in (0.0, 1.0, 0.5, 0.25, 0.02, 0.1, 0.29, 0.37)]
    mixed = [[(0.0, 5), (1.0, 5)], [(0.0, 9), (1.0, 1)], [(0.25, 5), (0.75, 5)]]
    for groups in (*alike, *mixed):
        law = laws([(row_of(randomizer, x), people) for x, people in groups], n)
        truth = sum(x * people for x, people in groups) / n
        covered = math.fsum(
            law[counts]
            for counts, (low, high) in limits.items()
            if low - ROUNDING <= truth <= high + ROUNDING
        )
        assert covered >= 0.95, groups


@pytest.mark.parametrize("level", [0.5, 0.8, 0.99, 0.999, 0.999999])
@pytest.mark.parametrize("epsilon", [0.3, 2.0, 5.0, 8.0])
def test_limits_of_one_bit_cover_exactly_at_every_level(epsilon, level):
    randomizer = shoal.Duchi(low=0.0, high=1.0, epsilon=epsilon)
    for n in (10, 23):
        limits = [
            randomizer.estimate(Counts(np.array([n - ups, ups]), n)).interval(level)
            for ups in range(n + 1)
        ]
        low, high = np.array(limits).T
        for truth in (0.0, 0.05, 0.2, 0.5, 0.95, 1.0):
            law = stats.binom.pmf(np.arange(n + 1), n, row_of(randomizer, truth)[1])
            missed = law[(truth < low - ROUNDING) | (truth > high + ROUNDING)].sum()
            assert missed <= 1 - level, (n, truth)


def spread_width(device, messages):
    """The width of normal limits from the spread of the reports themselves, which counts the data.

    Of numbers less where the noise alone and the worst rounding are less.
    """
    n = len(messages)
    if isinstance(device, shoal.PrivUnit | shoal.PrivUnitG):
        deviations = (messages / 2.0**24).std(axis=0) / device.shrinkage
        return 2 * Z * deviations / math.sqrt(n)
    scores, squares = device.estimator.scores[messages], device.estimator.square_scores[messages]
    variance = min(scores.var(), float((scores**2 - squares).mean()) + 0.25)
    least, most = device.estimator.variances
    return 2 * Z * device.step * math.sqrt(min(max(variance, least), most) / n)


@pytest.mark.parametrize(
    ("epsilon", "runs"),
    [
        (1.0, 4),
        (6.0, 4),
        *(pytest.param(each, 20, marks=pytest.mark.slow) for each in (0.2, 0.5, 2.0, 4.0, 5.0)),
    ],
)
@pytest.mark.parametrize("name", registry.names("numbers", "vectors", local=True))
def test_limits_are_hardly_wider_than_normal_ones_where_those_hold(name, epsilon, runs):
    n, source = 10_000, randomness.simulated(3)
    device = made(name, n=n, epsilon=epsilon)
    for kind, values in (number_data if name in NUMBERS else vector_data)(n).items():
        mine, normal = 0.0, 0.0
        for _ in range(runs):
            messages = device.randomize(values, randomness=source)
            low, high = device.estimate(Batch(messages)).interval()
            mine, normal = mine + (np.asarray(high) - low), normal + spread_width(device, messages)
        assert (mine <= WIDER * normal).all(), kind


def test_vectors_up_to_a_norm_have_limits_of_their_own_size():
    inner = shoal.PrivUnit(dimension=3, epsilon=6.0)
    device = inner.fitted(Ball(dimension=2, norm=50.0))
    vectors, missed, runs = np.tile([30.0, 0.0], (10, 1)), np.zeros(2, dtype=int), 200
    # The same seed gives the same reports of the inner randomizer.
    lifted = estimates(inner, device.lift(vectors), runs, seed=2)
    for own, unit in zip(estimates(device, vectors, runs, seed=2), lifted, strict=True):
        low, high = own.interval()
        assert np.allclose([low / 50, high / 50], [limit[:2] for limit in unit.interval()])
        missed += (vectors[0] < low) | (vectors[0] > high)
    assert (missed <= allowed(runs)).all()


def test_without_a_noise_limits_are_normal():
    assert MeanEstimate(3.0, 0.5, 100).interval() == pytest.approx((3 - 0.5 * Z, 3 + 0.5 * Z))
    low, high = VectorEstimate(np.zeros(2), np.array([1.0, 2.0]), 100).interval()
    assert -low == pytest.approx(high)
    assert high == pytest.approx([Z, 2 * Z])


def test_score_limits_solve_their_equation():
    device = shoal.RoundedResponse(low=-2.0, high=3.0, epsilon=4.0, levels=9)
    estimate, n = next(estimates(device, np.full(200, -1.9), 1, seed=4)), 200
    noise = estimate.noise
    limits = noise.limits(np.array([estimate.mean]), n=n, outside=0.05)
    assert [float(limit[0]) for limit in limits] == list(estimate.interval(0.95))
    for limit in limits:
        deviation = float(noise.deviation(limit)[0])
        reach = Z * deviation / math.sqrt(n) + Z**2 / 6 * math.hypot(noise.jump, 2 * deviation) / n
        assert abs(float(limit[0]) - estimate.mean) == pytest.approx(reach, rel=1e-6)


def test_an_answer_that_nobody_gave_is_covered_by_hadamard_response():
    """Of the messages of its block half are for it, whatever they say; all outcomes are listed."""
    for k, epsilon, n in ((3, 0.5, 13), (10, 1.0, 15), (10, 2.0, 10), (10, 2.0, 20), (40, 3.0, 12)):
        device = shoal.HadamardResponse(k=k, epsilon=epsilon)
        blocks, patterns = device.homes
        own = np.flatnonzero(blocks == blocks[0])[1:]  # empty answers in the block of answer 0
        for answer in (*own[:1].tolist(), *np.flatnonzero(blocks != blocks[0])[:1].tolist()):
            assert empty_coverage(device, n, answer, patterns) >= 0.95, (k, epsilon, n, answer)


def empty_coverage(device, n, answer, patterns):
    """How often the limits of an answer hold zero if everybody gave the answer 0."""
    width, block = device.layout.width, int(device.homes[0][answer])
    is_for = np.bitwise_count(np.arange(width) & int(patterns[answer])) % 2 == 0
    row = device.table()[0].reshape(device.layout.blocks, width)
    inside = [float(row[block][is_for].sum()), float(row[block][~is_for].sum())]
    places = [block * width + int(np.argmax(is_for)), block * width + int(np.argmin(is_for))]
    elsewhere = (block + 1) % device.layout.blocks * width
    covered = []
    for first in range(n + 1):
        for second in range(n + 1 - first):
            others = n - first - second
            if others and device.layout.blocks == 1:
                continue
            cells = np.zeros(device.outputs, dtype=np.int64)
            cells[places] = first, second
            cells[elsewhere] += others
            low, high = device.estimate(Counts(cells, n)).interval()
            if low[answer] <= 0 <= high[answer]:
                law = [*inside, max(0.0, 1 - sum(inside))]
                covered.append(stats.multinomial.pmf([first, second, others], n, law))
    return math.fsum(covered)


@pytest.mark.parametrize(
    ("buckets", "dummies"),
    [(2, 0.5), (2, 1.0), (2, 3.0), (4, 2.0), (16, 1.5), (16, 20.0), (300, 0.3)],
)
def test_an_answer_that_nobody_gave_is_covered_by_hashed_dummies(buckets, dummies):
    """Dummies and others' answers support it with known probabilities: the law is exact."""
    device = shoal.HashedDummies(k=12, buckets=buckets, dummies=dummies)
    for n in range(10, 21):
        law = np.ones(1)
        always, sometimes = n * device.added.always, device.added.sometimes / buckets
        for trials, share in ((always, 1 / buckets), (n, sometimes), (n, device.collision)):
            law = np.convolve(law, stats.binom.pmf(np.arange(trials + 1), trials, share))
        low, high = device.estimate(Counts(np.arange(law.size), n)).interval()
        assert law[(low <= 0) & (high >= 0)].sum() >= 0.95, n
