"""From estimates to statements: post-processing, significance, top answers.

Estimates are unbiased as they come out of a randomizer. What happens to them afterwards is a
separate, explicit step, because it trades bias for looks.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from shoal import checks
from shoal.errors import InvalidArgumentError
from shoal.randomizers.base import LARGEST_TABLE, CategoryRandomizer, NumberedMessages
from shoal.randomizers.bits import UnaryEncoding
from shoal.values import Array, Counts, Estimate

__all__ = ["Ranked", "above_noise", "covariance", "noise_floor", "on_simplex", "top"]

noise_floor = Estimate.noise_floor


# --------------------------------------------------------- which answers stand out, or only seem to


@dataclass(frozen=True)
class Ranked:
    """One of the top answers."""

    index: int
    frequency: float
    standard_error: float
    significant: bool  # stands out from answers that nobody gave
    separated: bool  # its simultaneous interval lies above that of the next answer


def top(estimate: Estimate, size: int, level: float = 0.95) -> list[Ranked]:
    """The answers with the largest estimates, marked for what can be said about them."""
    size = min(checks.count(size=size), estimate.frequencies.size)
    order = np.argsort(-estimate.frequencies, kind="stable")
    floor = estimate.noise_floor(level)
    low, high = estimate.interval(level, simultaneous=True)
    ranked = []
    for place, index in enumerate(order[:size].tolist()):
        following = high[order[place + 1 :]]
        ranked.append(
            Ranked(
                index=index,
                frequency=float(estimate.frequencies[index]),
                standard_error=float(estimate.standard_errors[index]),
                significant=bool(estimate.frequencies[index] >= floor[index]),
                separated=bool(low[index] > following.max(initial=-np.inf)),
            )
        )
    return ranked


# ---------------------------------------------------------- making estimates look like fractions


def on_simplex(estimate: Estimate) -> Array:
    """The fractions nearest to the estimates: none negative, all summing to one.

    The Euclidean projection onto the simplex (Duchi, Shalev-Shwartz, Singer, Chandra, ICML 2008),
    called Norm-Sub in the frequency-estimation literature. No longer unbiased.
    """
    ordered = np.sort(estimate.frequencies)[::-1]
    excess = (np.cumsum(ordered) - 1) / np.arange(1, ordered.size + 1)
    last = int(np.flatnonzero(ordered > excess)[-1])
    projected: Array = np.maximum(estimate.frequencies - excess[last], 0.0)
    return projected


def above_noise(estimate: Estimate, level: float = 0.95) -> Array:
    """The estimates, with those that could be noise set to zero.

    With probability ``level`` no answer that nobody gave is left over.
    """
    return np.where(estimate.frequencies >= estimate.noise_floor(level), estimate.frequencies, 0.0)


# ---------------------------------------------- how the errors of different answers hang together


def covariance(randomizer: CategoryRandomizer, estimate: Estimate) -> Array:
    """The covariance matrix of the estimated fractions, one row and column per answer.

    Given the data, an estimate is the mean of one score vector per message, f = (1/n) sum g(y_i),
    with E[g(y) | x] the unit vector of x. So its covariance is

        (1/n) sum_x f_x ( E[g g^T | x] - e_x e_x^T ),

    evaluated with the estimated fractions, in which it is linear and hence without bias.

    For randomizers with numbered messages and for unary encoding (whose bits are independent);
    local hashing and subset selection have no such formula here.
    """
    shape = estimate.frequencies.shape
    expected = f"an estimate of {randomizer.k} answers"
    checks.refuse(shape != (randomizer.k,), expected, estimate=shape)
    if isinstance(randomizer, UnaryEncoding):
        return np.diag(randomizer.variance(estimate.frequencies, n=estimate.n))
    if not isinstance(randomizer, NumberedMessages):
        expected = "a randomizer with numbered messages, or unary encoding"
        raise InvalidArgumentError("randomizer", randomizer.name, expected)
    expected = f"answers times messages <= {LARGEST_TABLE} for a covariance matrix"
    checks.refuse(randomizer.outputs * randomizer.k > LARGEST_TABLE, expected, k=randomizer.k)
    one = np.eye(randomizer.outputs, dtype=np.int64)
    scores = np.array([randomizer.estimate(Counts(cells, 1)).frequencies for cells in one])
    sent = estimate.frequencies @ randomizer.table()  # probabilities of each message
    second: Array = scores.T @ (sent[:, None] * scores) - np.diag(estimate.frequencies)
    return second / estimate.n
