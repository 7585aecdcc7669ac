"""Gaussian noise on vectors within a ball: what it costs, what is drawn, where it is offered."""

from __future__ import annotations

import itertools
import math

import numpy as np
import polars as pl
import pytest
from scipy import stats

import shoal
from shoal import randomness
from shoal.accounting import gaussian
from shoal.accounting.blanket import BallProfile
from shoal.errors import InvalidArgumentError
from shoal.mechanisms.gaussian import GaussianVectors
from shoal.mechanisms.registry import restored
from shoal.planning import Plan
from shoal.values import Batch

NOISE = GaussianVectors(dimension=3, norm=2.0, sigma=4.0)


def shuffled_divergence(people, others, epsilon, *, points):
    """D of the shuffled densities of points of the plane under N(0, I), by a sum over a grid."""
    n = 1 + len(others)
    edges = np.linspace(-5.0, 5.0, points + 1)
    y, h = (edges[1:] + edges[:-1]) / 2, edges[1] - edges[0]

    def density(x):
        parts = [stats.norm.pdf(y - coordinate) for coordinate in x]
        joint = parts[0]
        for part in parts[1:]:
            joint = np.multiply.outer(joint, part)
        return joint.ravel()

    own = density(people[0]) - math.exp(epsilon) * density(people[1])
    total = 0.0
    for order in itertools.permutations([own, *map(density, others)]):
        part = order[0]
        for factor in order[1:]:
            part = np.multiply.outer(part, factor)
        total = total + part
    volume = h ** (n * len(people[0]))
    return float(np.maximum(total / math.factorial(n), 0.0).sum() * volume)


@pytest.mark.parametrize("reach", [0.15, 0.5])
def test_no_data_set_of_few_people_gives_away_more(reach):
    opposite = ((reach, 0.0), (-reach, 0.0))
    across = ((reach, 0.0), (0.0, reach))
    for people in (opposite, across):
        for other in ((0.0, 0.0), (reach, 0.0), (0.0, reach)):
            for epsilon in (0.0, 0.2, 0.6):
                truth = shuffled_divergence(people, [other], epsilon, points=26)
                assert truth <= BallProfile(reach, 2).delta(epsilon) * (1 + 1e-3)
    for others in ([(0.0,), (0.0,)], [(reach,), (-reach,)], [(-reach,), (-reach,)]):
        for epsilon in (0.0, 0.3):
            line = ((reach,), (-reach,))
            truth = shuffled_divergence(line, others, epsilon, points=70)
            assert truth <= BallProfile(reach, 3).delta(epsilon) * (1 + 1e-3)


@pytest.mark.parametrize(("dimension", "sigma"), [(1, 1.0), (3, 0.8), (2, 20.0)])
def test_the_lower_bound_is_of_what_is_drawn(dimension, sigma):
    """Not of the continuous noise, nor of the ball that rounding may lead out to."""
    noise = GaussianVectors(dimension=dimension, norm=1.0, sigma=sigma)
    levels = math.floor(1.0 / noise.step + 1e-9)
    most = math.ceil((1 + 9 * sigma) / noise.step)
    edges = (np.arange(-most, most) + 0.5) * noise.step  # half-way between points of the grid
    ends = [np.append(-math.inf, edges), np.append(edges, math.inf)]
    first, second = (
        np.subtract(*(stats.norm.cdf((end - at * noise.step) / sigma) for end in ends[::-1]))
        for at in (levels, -levels)
    )
    lower = noise.profile(1).lower_epsilon(1e-3)
    assert 1e-3 <= np.maximum(first - math.exp(lower) * second, 0.0).sum() < 1.1e-3


def test_the_lower_bound_is_below_and_the_crowd_helps():
    for reach in (0.1, 0.25, 0.5):
        for n in (1000, 100_000):
            profile = BallProfile(reach, n)
            lower, upper = profile.lower_epsilon(1e-6), profile.epsilon(1e-6)
            assert 0.2 * upper < lower < upper < 0.2 * gaussian.epsilon(2 * reach, 1e-6)
            assert profile.delta(upper) == pytest.approx(1e-6, rel=0.1)


def test_it_grows_neither_with_people_nor_with_noise_nor_with_delta():
    sizes = [BallProfile(0.25, n).epsilon(1e-6) for n in (1, 2, 100, 10**4, 10**6, 10**9)]
    assert sizes == sorted(sizes, reverse=True)
    assert sizes[0] == gaussian.epsilon(0.5, 1e-6)
    reaches = [BallProfile(reach, 10**4).epsilon(1e-6) for reach in (0.01, 0.1, 0.4, 0.8, 2.0)]
    assert reaches == sorted(reaches)
    deltas = [BallProfile(0.25, 10**4).epsilon(delta) for delta in (1e-10, 1e-6, 1e-3)]
    assert deltas == sorted(deltas, reverse=True)
    curve = BallProfile(0.25, 10**4).delta([0.0, 0.01, 0.03, 0.1, 1.0])
    assert (np.diff(curve) < 0).all()


def test_the_dimension_does_not_matter_but_for_rounding():
    few, many = (
        GaussianVectors(dimension=d, norm=1.0, sigma=4.0).profile(10_000).epsilon(1e-6)
        for d in (2, 400)
    )
    exact = BallProfile(0.25, 10_000).epsilon(1e-6)
    assert exact < few <= many < 1.1 * exact


def test_rounded_vectors_stay_within_what_is_accounted_for():
    made = GaussianVectors(dimension=5, norm=1.0, sigma=0.001)
    generator = np.random.default_rng(1)
    vectors = generator.normal(size=(500, 5))
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    reports = made.randomize(vectors, randomness=randomness.simulated(1)) * made.step
    longest = made.norm + made.step * math.sqrt(5) + 9 * made.sigma * math.sqrt(5)
    assert np.linalg.norm(reports, axis=1).max() <= longest
    assert made._reach * made.sigma == pytest.approx(made.norm * (1 + 1 / 64))


def test_the_mean_is_estimated_with_its_error():
    n, runs, truth = 500, 300, np.array([1.2, -1.6, 0.0])
    source = randomness.simulated(7)
    values = np.tile(truth, (n, 1))
    estimates = [
        NOISE.estimate(Batch(NOISE.randomize(values, randomness=source))) for _ in range(runs)
    ]
    errors = np.array([each.mean - truth for each in estimates])
    deviation = math.sqrt(NOISE.variance(n=n) / 3)
    assert np.abs(errors.mean(axis=0)).max() <= 6 * deviation / math.sqrt(runs)
    assert (errors**2).mean() == pytest.approx(deviation**2, rel=0.3)
    assert estimates[0].standard_errors == pytest.approx(deviation)
    low, high = estimates[0].interval(1 - 1e-7)
    assert ((low < truth) & (truth < high)).all()


def test_coordinates_are_normal_and_independent():
    n = 20_000
    reports = NOISE.randomize(np.zeros((n, 3)), randomness=randomness.simulated(5)) * NOISE.step
    for coordinate in reports.T:
        assert stats.kstest(coordinate / NOISE.sigma, stats.norm.cdf).pvalue > 1e-7
    correlation = np.corrcoef(reports.T)[np.triu_indices(3, 1)]
    assert np.abs(correlation).max() < 6 / math.sqrt(n)


@pytest.mark.parametrize(
    "parameters",
    [
        {"dimension": 0, "norm": 1.0, "sigma": 1.0},
        {"dimension": 2.5, "norm": 1.0, "sigma": 1.0},
        {"dimension": 2, "norm": 0.0, "sigma": 1.0},
        {"dimension": 2, "norm": 1.0, "sigma": math.nan},
        {"dimension": 2, "norm": 1.0, "sigma": 1e-6},
        {"dimension": 2, "norm": 1.0, "sigma": 1e6},
    ],
)
def test_what_is_no_noise_is_refused(parameters):
    with pytest.raises(InvalidArgumentError):
        GaussianVectors(**parameters)


def test_the_guarantee_says_what_a_report_has_by_itself():
    guarantee = shoal.amplify(NOISE, n=10_000, delta=1e-6)
    assert guarantee.lower < guarantee.epsilon < 0.3
    assert guarantee.local_epsilon == gaussian.epsilon(2 * NOISE._reach, 1e-6)
    assert guarantee.local_delta == 1e-6
    fewer = shoal.amplify(NOISE, n=10_000, delta=1e-6, crowd=shoal.Crowd(participation=0.5))
    assert guarantee.epsilon < fewer.epsilon < 2 * guarantee.epsilon
    with pytest.raises(InvalidArgumentError, match="no bound by name"):
        shoal.amplify(NOISE, n=10_000, bound="clones")


@pytest.mark.parametrize(("n", "epsilon"), [(10_000, 0.1), (300, 1.0)])
def test_the_least_noise_keeps_its_target(n, epsilon):
    made = GaussianVectors.calibrated(n=n, epsilon=epsilon, delta=1e-6, dimension=4, norm=3.0)
    assert 0.99 * epsilon < shoal.amplify(made, n=n, delta=1e-6).epsilon <= epsilon


def test_a_plan_offers_it_but_not_unasked():
    plan = shoal.plan(shoal.Vector("moved", 4, 2.0), epsilon=0.1, n=10_000)
    assert plan.recommended.name != "gaussian-vectors"
    chosen = plan.choose("gaussian-vectors")
    assert chosen.guarantee.epsilon <= 0.1
    assert chosen.randomizer.norm == 2.0
    assert Plan.from_dict(chosen.to_dict()).randomizer == chosen.randomizer
    assert restored(NOISE.described()) == NOISE


def test_columns_are_collected_with_it():
    generator = np.random.default_rng(3)
    table = pl.DataFrame({"x": generator.uniform(0, 1, 3000), "y": generator.uniform(0, 1, 3000)})
    asked = shoal.Vector("moved", ["x", "y"], 1.5, choose="gaussian-vectors")
    result = shoal.run(table, asked, epsilon=0.5, randomness=randomness.simulated(3))
    (column,) = result.columns
    assert result.guarantee.epsilon <= 0.5
    errors = column.estimate.standard_errors
    assert (np.abs(column.estimate.mean - 0.5) < 6 * errors).all()


def test_auditing_finds_no_violation():
    audit = shoal.audit(
        NOISE, n=3, epsilon=1.0, delta=1e-3, runs=2000, randomness=randomness.simulated(1)
    )
    assert audit.verdict == "consistent"
