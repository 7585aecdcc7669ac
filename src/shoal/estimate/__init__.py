"""From estimates to statements: post-processing, significance, top answers.

Estimates are unbiased as they come out of a randomizer. What happens to them afterwards is a
separate, explicit step, because it trades bias for looks.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import cast

import numpy as np

from shoal import checks
from shoal.errors import InvalidArgumentError
from shoal.intervals.estimates import Estimate
from shoal.mechanisms.base import LARGEST_TABLE, CategoryRandomizer
from shoal.mechanisms.estimators import AnswerEstimator
from shoal.values import Array, Counts

__all__ = ["Ranked", "above_noise", "covariance", "noise_floor", "on_simplex", "top"]

noise_floor = Estimate.noise_floor


# --------------------------------------------------------- which answers stand out, or only seem to


@dataclass(frozen=True)
class Ranked:
    """One of the top answers, as :func:`shoal.estimate.top` ranks them.

    Attributes:
        index: The number of the answer.
        frequency: Its estimated fraction.
        standard_error: Of the fraction.
        significant: Whether it stands out from answers that nobody gave.
        separated: Whether its simultaneous interval lies above those of all answers after it.
    """

    index: int
    frequency: float
    standard_error: float
    significant: bool  # stands out from answers that nobody gave
    separated: bool  # its simultaneous interval lies above that of the next answer


def top(estimate: Estimate, size: int, level: float = 0.95) -> list[Ranked]:
    """The answers with the largest estimates, marked for what can be said about them.

    Args:
        estimate: Estimated fractions.
        size: How many answers, at least 1.
        level: Confidence of the marks, for all answers together.

    Returns:
        A list of :class:`shoal.estimate.Ranked`, the largest first.

    Raises:
        InvalidArgumentError: ``size`` is no whole number >= 1, or ``level`` not in (0,
            1).

    Example:
        >>> estimate = Estimate(np.array([0.1, 0.6, 0.3]), np.full(3, 0.01), n=10_000)
        >>> [(each.index, each.separated) for each in top(estimate, 2)]
        [(1, True), (2, True)]
    """
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

    The Euclidean projection onto the simplex, called Norm-Sub in the literature on
    frequency estimation. No longer unbiased.

    Args:
        estimate: Estimated fractions.

    Returns:
        The projected fractions, in the same order.

    References:
        Duchi, Shalev-Shwartz, Singer, Chandra, "Efficient Projections onto the ℓ1-Ball
        for Learning in High Dimensions", ICML 2008.

    Example:
        >>> estimate = Estimate(np.array([0.9, 0.3, -0.1]), np.full(3, 0.1), n=100)
        >>> on_simplex(estimate).round(3).tolist()
        [0.8, 0.2, 0.0]
    """
    ordered = np.sort(estimate.frequencies)[::-1]
    excess = (np.cumsum(ordered) - 1) / np.arange(1, ordered.size + 1)
    last = int(np.flatnonzero(ordered > excess)[-1])
    projected: Array = np.maximum(estimate.frequencies - excess[last], 0.0)
    return projected


def above_noise(estimate: Estimate, level: float = 0.95) -> Array:
    """The estimates, with those that could be noise set to zero.

    Args:
        estimate: Estimated fractions.
        level: Probability with which no answer that nobody gave is left over.

    Returns:
        The fractions in the same order, 0 where an answer does not reach
        ``estimate.noise_floor(level)``.

    Raises:
        InvalidArgumentError: ``level`` is not in (0, 1).

    Example:
        >>> estimate = Estimate(np.array([0.9, 0.01]), np.full(2, 0.05), n=100)
        >>> above_noise(estimate).tolist()
        [0.9, 0.0]
    """
    return np.where(estimate.frequencies >= estimate.noise_floor(level), estimate.frequencies, 0.0)


# ---------------------------------------------- how the errors of different answers hang together


def covariance(randomizer: CategoryRandomizer, estimate: Estimate) -> Array:
    """The covariance matrix of the estimated fractions, one row and column per answer.

    Given the data, an estimate is the mean of one score vector per message, f = (1/n) Σ
    g(y_i), with E[g(y) | x] the unit vector of x. So its covariance is

        (1/n) Σ_x f_x ( E[g gᵀ | x] − e_x e_xᵀ ),

    evaluated with the estimated fractions, in which it is linear and hence without
    bias.

    Args:
        randomizer: One with numbered messages, or unary encoding (whose bits are
            independent).
        estimate: What it estimated.

    Returns:
        A matrix of k rows and columns.

    Raises:
        InvalidArgumentError: The estimate is of another number of answers, the
            randomizer has no such formula (local hashing, subset selection), or the
            matrix is too large.

    Example:
        >>> from shoal import RandomizedResponse
        >>> device = RandomizedResponse(k=2, epsilon=1.0)
        >>> estimate = device.estimate(Counts(np.array([60, 40]), 100))
        >>> matrix = covariance(device, estimate)
        >>> bool(np.isclose(matrix[0, 0], estimate.standard_errors[0] ** 2))
        True
    """
    shape = estimate.frequencies.shape
    expected = f"an estimate of {randomizer.k} answers"
    checks.refuse(shape != (randomizer.k,), expected, estimate=shape)
    estimator, outputs = cast("AnswerEstimator", randomizer.estimator), randomizer.outputs
    known = estimator.covariance(estimate)
    if known is not None:
        return known
    if outputs is None:
        expected = "a randomizer with numbered messages, or unary encoding"
        raise InvalidArgumentError("randomizer", randomizer.name, expected)
    expected = f"answers times messages <= {LARGEST_TABLE} for a covariance matrix"
    checks.refuse(outputs * randomizer.k > LARGEST_TABLE, expected, k=randomizer.k)
    one = np.eye(outputs, dtype=np.int64)
    scores = np.array([randomizer.estimate(Counts(cells, 1)).frequencies for cells in one])
    sent = estimate.frequencies @ randomizer.table()  # probabilities of each message
    second: Array = scores.T @ (sent[:, None] * scores) - np.diag(estimate.frequencies)
    return second / estimate.n
