"""Two batches: whether they come from one distribution.

With scores φ, n and n' messages, and N, N' their counts, the statistic is the U-statistic

    T = Σ_j w_j [ Σ_{i≠l} φ_j(m_i)φ_j(m_l)/(n(n−1)) + the same of the other batch
                  − 2 Σ_{i,l} φ_j(m_i)φ_j(m'_l)/(n n') ],    E T = Σ_j w_j (p_j − p'_j)².

Centred at the pooled mean, the two batches' sums are each other's negative, so that one quadratic
form of N − n (N + N')/(n + n') gives all three. Weights and mean depend on the pooled counts alone,
which splitting at random does not change: the test is exact given them.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from shoal.errors import InvalidArgumentError
from shoal.testing import sampling
from shoal.testing.gram import dot
from shoal.testing.scores import CountTable, OneMessage
from shoal.values import Array, Counts


def statistics(
    scores: OneMessage, first: CountTable, second: CountTable, sizes: tuple[int, int]
) -> Array:
    """T of two batches of so many people each, row by row."""
    one, two = sizes
    pooled = first + second
    factor = 1 / (one * (one - 1)) + 1 / (two * (two - 1)) + 2 / (one * two)
    own = scores.own[0]
    alone = dot(first, own) / (one * (one - 1)) + dot(second, own) / (two * (two - 1))
    return factor * scores.quadratic(first - pooled * (one / (one + two))) - alone


MOST_PEOPLE = 10**9 - 1  # in both batches: beyond, no exact way to split them is at hand


@dataclass(frozen=True, eq=False)
class Split:
    """Two batches, and all the ways to split their messages anew."""

    unpooled: OneMessage
    first: Counts
    second: Counts

    def __post_init__(self) -> None:
        if sum(self.sizes) > MOST_PEOPLE:
            expected = "fewer than 10^9 people in both batches together: compare a part of each"
            raise InvalidArgumentError("people", sum(self.sizes), expected)

    @cached_property
    def scores(self) -> OneMessage:
        """Scores with the weights and the mean of the pooled messages."""
        return self.unpooled.pooled(self.first + self.second)

    @property
    def sizes(self) -> tuple[int, int]:
        """People in each batch."""
        return self.first.n, self.second.n

    @property
    def statistic(self) -> float:
        """T of the two batches as they are."""
        one, two = self.first.cells[None, :], self.second.cells[None, :]
        return float(statistics(self.scores, one, two, self.sizes)[0])

    def null(self, simulations: int, generator: np.random.Generator) -> Array:
        """T of as many random splits of the pooled messages."""
        pooled = self.first.cells + self.second.cells
        parts = []
        for size in sampling.chunks(simulations, pooled.size):
            first = sampling.resplit(pooled, first=self.first.n, size=size, generator=generator)
            parts.append(statistics(self.scores, first, pooled - first, self.sizes))
        return np.concatenate(parts)
