"""n times the mean square error, over theory, for every randomizer of categories."""

import math

import numpy as np
import pytest

import shoal
from shoal import randomness
from shoal.values import Batch

KINDS = [
    shoal.RandomizedResponse,
    shoal.HadamardResponse,
    shoal.ProjectiveGeometryResponse,
    shoal.SubsetSelection,
    shoal.UnaryEncoding,
    shoal.LocalHashing,
]
SIZES = [(kind, k) for kind in KINDS for k in (10, 100, 1000)]
LARGE = [(kind, 10_000) for kind in KINDS[:2]]


@pytest.mark.parametrize(("kind", "k"), [*SIZES, *LARGE])
@pytest.mark.parametrize("epsilon", [1.0, 4.0])
def test_the_mean_square_error_is_the_predicted_one(kind, k, epsilon):
    """The sum of k squares over r runs has relative deviation sqrt(2/(k r)): 5 of them are 10 %."""
    n = 5000 if k < 10_000 else 50_000
    weights = 1 / np.arange(1, k + 1)
    counts = np.floor(n * weights / weights.sum()).astype(int)
    counts[0] += n - counts.sum()
    values, truth = np.arange(k).repeat(counts), counts / n
    randomizer = kind(k=k, epsilon=epsilon)
    source = randomness.simulated(k)
    runs = math.ceil(2 * (5.2 / 0.1) ** 2 / k)
    squares = 0.0
    for _ in range(runs):
        batch = Batch(randomizer.randomize(values, randomness=source))
        squares += float(((randomizer.estimate(batch).frequencies - truth) ** 2).sum())
    predicted = float(randomizer.variance(truth, n=n).sum())
    assert 0.9 <= squares / runs / predicted <= 1.1
