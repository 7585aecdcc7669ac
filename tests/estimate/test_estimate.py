import numpy as np
import pytest

import shoal
from shoal import randomness
from shoal.estimate import above_noise, covariance, noise_floor, on_simplex, top
from shoal.intervals.estimates import Estimate
from shoal.values import Batch, Counts


def run_estimates(kind, k, epsilon, n, runs, seed):
    randomizer = kind(k=k, epsilon=epsilon)
    weights = 1 / np.arange(1, k + 1)
    counts = np.floor(n * weights / weights.sum()).astype(int)
    counts[0] += n - counts.sum()
    values = np.arange(k).repeat(counts)
    source = randomness.simulated(seed)
    for _ in range(runs):
        yield (
            counts / n,
            randomizer.estimate(Batch(randomizer.randomize(values, randomness=source))),
        )


@pytest.mark.parametrize("kind", [shoal.RandomizedResponse, shoal.HadamardResponse])
@pytest.mark.parametrize("k", [10, 100])
def test_intervals_cover_as_often_as_they_say(kind, k):
    """1000 runs: a build whose coverage is 95 % leaves [91.6 %, 98.4 %] less than once in 1e6."""
    runs = 1000
    pointwise = np.zeros(k)
    together = 0
    for truth, estimate in run_estimates(kind, k, 3.0, 8000, runs, seed=k):
        low, high = estimate.interval(0.95)
        pointwise += (low <= truth) & (truth <= high)
        low, high = estimate.interval(0.95, simultaneous=True)
        together += bool(((low <= truth) & (truth <= high)).all())
    assert pointwise.min() / runs >= 0.916
    assert pointwise.max() / runs <= 0.984
    assert together / runs >= 0.95


def test_the_projection_is_the_nearest_point_of_the_simplex():
    rng = np.random.default_rng(4)
    for _ in range(50):
        raw = rng.normal(0.1, 0.3, size=8)
        projected = on_simplex(Estimate(raw, np.ones(8), 100))
        assert projected.min() >= 0
        assert projected.sum() == pytest.approx(1.0)
        for other in rng.dirichlet(np.ones(8), size=200):
            assert np.linalg.norm(raw - projected) <= np.linalg.norm(raw - other) + 1e-12


def test_what_may_be_noise_is_set_to_zero():
    estimate = Estimate(np.array([0.5, 0.02, -0.01, 0.3]), np.full(4, 0.02), 1000)
    assert above_noise(estimate).tolist() == [0.5, 0.0, 0.0, 0.3]


@pytest.mark.parametrize("kind", [shoal.RandomizedResponse, shoal.HadamardResponse])
@pytest.mark.parametrize(("k", "n", "epsilon"), [(50, 2000, 2.0), (10, 20_000, 8.0)])
def test_answers_nobody_gave_rarely_reach_the_noise_floor(kind, k, n, epsilon):
    reached, runs = 0, 1000
    randomizer = kind(k=k, epsilon=epsilon)
    given, source = (n * 6 // 10, n * 3 // 10, n // 10), randomness.simulator(8)
    laws = zip(given, randomizer.table(), strict=False)  # of the first answers
    for cells in sum(source.multinomial(people, law, size=runs) for people, law in laws):
        estimate = randomizer.estimate(Counts(cells, n))
        reached += bool((estimate.frequencies >= noise_floor(estimate))[3:].any())
    assert reached / runs <= 0.05 + 4.9 * np.sqrt(0.05 * 0.95 / runs)


@pytest.mark.parametrize(
    "kind", [shoal.RandomizedResponse, shoal.HadamardResponse, shoal.SubsetSelection]
)
def test_intervals_cover_where_only_a_few_messages_lie(kind):
    randomizer = kind(k=6, epsilon=8.0)
    values = np.repeat(np.arange(6), [80, 60, 30, 20, 10, 0])
    truth = np.bincount(values, minlength=6) / values.size
    source = randomness.simulated(21)
    held, runs = 0, 1000
    for _ in range(runs):
        estimate = randomizer.estimate(Batch(randomizer.randomize(values, randomness=source)))
        low, high = estimate.interval(0.95, simultaneous=True)
        held += bool(((low <= truth) & (truth <= high)).all())
    assert held / runs >= 0.95


def test_the_top_is_ranked_and_marked():
    estimate = Estimate(np.array([0.1, 0.6, 0.002, 0.298]), np.full(4, 0.01), 1000)
    ranked = top(estimate, 3)
    assert [entry.index for entry in ranked] == [1, 3, 0]
    assert [entry.significant for entry in ranked] == [True, True, True]
    assert [entry.separated for entry in ranked] == [True, True, True]
    close = Estimate(np.array([0.30, 0.301, 0.0]), np.full(3, 0.01), 1000)
    assert [entry.separated for entry in top(close, 2)] == [False, True]
    assert not top(close, 3)[2].significant
    assert len(top(close, 10)) == 3


@pytest.mark.parametrize("level", [0.0, 1.0, 2.0])
def test_levels_that_are_none_are_refused(level):
    estimate = Estimate(np.zeros(3), np.ones(3), 10)
    with pytest.raises(shoal.InvalidArgumentError, match="level"):
        estimate.interval(level)


@pytest.mark.parametrize(
    "kind",
    [
        shoal.RandomizedResponse,
        shoal.HadamardResponse,
        shoal.ProjectiveGeometryResponse,
        shoal.UnaryEncoding,
    ],
)
def test_the_covariance_is_that_of_repeated_collections(kind):
    k, n, runs = 5, 200, 2000
    randomizer = kind(k=k, epsilon=1.0)
    values = np.repeat(np.arange(k), [80, 60, 40, 20, 0])
    truth = np.bincount(values, minlength=k) / n
    sent = randomizer.randomize(np.tile(values, runs), randomness=randomness.simulated(2))
    batches = (Batch(sent[n * run : n * (run + 1)]) for run in range(runs))
    found = np.array([randomizer.estimate(batch).frequencies for batch in batches])
    predicted = covariance(randomizer, Estimate(truth, np.ones(k), n))
    assert np.diag(predicted) == pytest.approx(randomizer.variance(truth, n=n), rel=1e-9)
    # An entry of a sample covariance errs by about sqrt((c_ii c_jj + c_ij^2) / runs).
    scale = np.sqrt((np.outer(np.diag(predicted), np.diag(predicted)) + predicted**2) / runs)
    assert (np.abs(np.cov(found.T) - predicted) <= 5.5 * scale).all()


def test_a_covariance_that_is_not_known_is_refused():
    estimate = Estimate(np.zeros(5), np.ones(5), 10)
    with pytest.raises(shoal.InvalidArgumentError, match="numbered messages"):
        covariance(shoal.SubsetSelection(k=5, epsilon=1.0), estimate)
    with pytest.raises(shoal.InvalidArgumentError, match="4 answers"):
        covariance(shoal.RandomizedResponse(k=4, epsilon=1.0), estimate)
