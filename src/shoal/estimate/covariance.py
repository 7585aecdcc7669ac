"""How the errors of different answers' estimates hang together.

Given the data, an estimate is the mean of one score vector per message, ``f = (1/n) sum g(y_i)``,
with E[g(y) | x] the unit vector of x. So its covariance is

    (1/n) sum_x f_x ( E[g g^T | x] - e_x e_x^T ),

evaluated with the estimated shares, in which it is linear and hence without bias.
"""

from __future__ import annotations

import numpy as np

from shoal.errors import InvalidArgumentError
from shoal.randomizers.base import LARGEST_TABLE, CategoryRandomizer, NumberedMessages
from shoal.randomizers.bits import UnaryEncoding
from shoal.values import Array, Counts, Estimate


def covariance(randomizer: CategoryRandomizer, estimate: Estimate) -> Array:
    """The covariance matrix of the estimated shares, one row and column per answer.

    For randomizers with numbered messages and for unary encoding (whose bits are independent);
    local hashing and subset selection have no such formula here.
    """
    if estimate.frequencies.shape != (randomizer.k,):
        shape = estimate.frequencies.shape
        raise InvalidArgumentError("estimate", shape, f"an estimate of {randomizer.k} answers")
    if isinstance(randomizer, UnaryEncoding):
        return np.diag(randomizer.variance(estimate.frequencies, n=estimate.n))
    if isinstance(randomizer, NumberedMessages):
        return _by_scores(randomizer, randomizer.outputs, estimate)
    expected = "a randomizer with numbered messages, or unary encoding"
    raise InvalidArgumentError("randomizer", randomizer.name, expected)


def _by_scores(randomizer: CategoryRandomizer, outputs: int, estimate: Estimate) -> Array:
    if outputs * randomizer.k > LARGEST_TABLE:
        expected = f"answers times messages <= {LARGEST_TABLE} for a covariance matrix"
        raise InvalidArgumentError("k", randomizer.k, expected)
    one = np.eye(outputs, dtype=np.int64)
    scores = np.array([randomizer.estimate(Counts(cells, 1)).frequencies for cells in one])
    sent = estimate.frequencies @ randomizer.table()  # chances of each message
    second: Array = scores.T @ (sent[:, None] * scores) - np.diag(estimate.frequencies)
    return second / estimate.n
