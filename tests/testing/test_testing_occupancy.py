"""Sums of squared counts are drawn with their exact law, without the counts."""

from __future__ import annotations

import itertools
import math
from collections import defaultdict

import numpy as np
import pytest
from scipy import stats

from shoal import randomness
from shoal.mechanisms.dummies import PartitionedDummies, UniformDummies
from shoal.mechanisms.partitioned import PartitionedResponse
from shoal.mechanisms.response import HadamardResponse, RandomizedResponse
from shoal.testing import sampling
from shoal.testing.scores import scores_of

RARE = 1e-7


def exact_law(cells, n):
    """{Σ N²: chance} of n messages, from all ways to put them."""
    law = defaultdict(float)
    for counts in itertools.product(range(n + 1), repeat=cells):
        if sum(counts) == n:
            ways = math.factorial(n) / math.prod(map(math.factorial, counts))
            law[sum(count**2 for count in counts)] += ways / cells**n
    return law


@pytest.mark.parametrize(("cells", "n"), [(2, 7), (3, 9), (4, 10), (5, 6)])
def test_few_messages_have_the_law_of_all_ways_to_put_them(cells, n):
    law, size = exact_law(cells, n), 20_000
    drawn = sampling.thrown(cells, sent=np.full(size, n), generator=randomness.simulator(cells))
    seen, counts = np.unique(drawn, return_counts=True)
    found = dict(zip(seen.tolist(), counts.tolist(), strict=True))
    assert set(found) <= set(law)
    common = [key for key, chance in law.items() if chance * size > 10]
    expected = np.array([law[key] for key in common])
    observed = np.array([found.get(key, 0) for key in common])
    expected *= observed.sum() / expected.sum()
    assert stats.chisquare(observed, expected).pvalue > RARE


@pytest.mark.parametrize(("cells", "n"), [(3000, 500), (3000, 30_000), (4096, 200_000)])
def test_many_messages_have_the_law_of_drawn_counts(cells, n):
    sent = np.full(1500, n)
    drawn = sampling.squares(cells, sent=sent, generator=randomness.simulator(1))
    tables = randomness.simulator(2).multinomial(n, np.full(cells, 1 / cells), size=400)
    assert stats.ks_2samp(drawn, (tables**2).sum(axis=1)).pvalue > RARE
    mean, error = n + n * (n - 1) / cells, drawn.std() / math.sqrt(1500)
    assert abs(drawn.mean() - mean) < 5.5 * error
    # Var Σ N² of multinomial counts: 2 n(n−1)/K (1 − 1/K).
    assert drawn.var() == pytest.approx(2 * n * (n - 1) / cells * (1 - 1 / cells), rel=0.25)


def test_every_row_has_its_own_number_of_messages():
    sent = np.array([40_000, 50_000, 60_000] * 300)
    drawn = sampling.squares(4000, sent=sent, generator=randomness.simulator(3)).reshape(-1, 3)
    for column, n in zip(drawn.T, (40_000, 50_000, 60_000), strict=True):
        error = column.std() / math.sqrt(300)
        assert abs(column.mean() - n - n * (n - 1) / 4000) < 5.5 * error


@pytest.mark.parametrize(
    ("device", "even"),
    [
        (RandomizedResponse(k=40, epsilon=2.0), True),
        (UniformDummies(k=40, dummies=1.6), True),
        (PartitionedResponse(k=40, epsilon=2.0, symbols=8), True),
        (PartitionedDummies(k=40, dummies=0.4, symbols=8), True),
        (PartitionedResponse(k=40, epsilon=2.0, symbols=7), False),
        (PartitionedResponse(k=40, epsilon=2.0, symbols=8, partitions=2), False),
        (HadamardResponse(k=40, epsilon=2.0), False),
    ],
)
def test_the_quick_null_is_the_null(device, even):
    scores = scores_of(device, np.full(40, 1 / 40))
    assert scores.is_even == even
    quick = scores.null(n=500, size=4000, generator=randomness.simulator(1))
    tables = scores.draw(scores.reference, n=500, size=4000, generator=randomness.simulator(2))
    assert stats.ks_2samp(quick, scores.statistics(tables, 500)).pvalue > RARE
    assert not scores_of(device, np.r_[0.5, np.full(39, 0.5 / 39)]).is_even
