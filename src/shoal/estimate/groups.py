"""People in groups: about how many there are in each, and what fraction of them answers what.

All answers of all groups are one histogram, whose estimates are ``groups`` times as many as there
are answers, group after group.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from shoal.mechanisms.estimators import AnswerEstimator
from shoal.values import Array, Estimate

NOBODY = "nobody, up to noise"


@dataclass(frozen=True, eq=False)
class Group:
    """One group: about how many people, and the fraction of them that gives each answer.

    Limits are of 95 % intervals. There are no ``fractions`` of a group that may be empty; where
    there are some, limits of a group of a few people may miss more often.
    """

    label: str
    count: float
    low: float
    high: float
    fractions: Array | None
    lows: Array
    highs: Array


def split(
    estimator: AnswerEstimator, estimate: Estimate, labels: Sequence[str], level: float = 0.95
) -> tuple[Group, ...]:
    """The groups that the answers are of, each with its size and the fractions inside it.

    A size is a total of the group's answers, with the error that the mechanism knows of such
    totals. A fraction is c/(c + r), of those who give the answer and the rest of the group, both of
    them noisy. Its limits p are Fieller's ("Some problems in interval estimation", 1954): those
    at which (1 - p) c - p r is as far from 0 as its error explains. The standard deviation of that
    is at most (1 - p) times that of c and p times that of r, whatever the two have to do with each
    other. With this the limits are c⁻/(c⁻ + r⁺) and c⁺/(c⁺ + r⁻), of the limits of c and of r,
    which are those of 0 where the estimate is below it: they hold at the level of those limits, or
    a higher one.
    """
    groups = len(labels)
    k = estimator.k // groups
    starts = np.arange(groups) * k
    sizes = estimator.totals(estimate, starts, starts + k)
    cells = estimate.unbiased.reshape(groups, k)
    inside = cells.sum(axis=1, keepdims=True)
    rests = estimator.sums(estimate, (inside - cells).ravel(), np.full(groups * k, k - 1))
    limits = (each.reshape(groups, k) for of in (estimate, rests) for each in possible(of, level))
    low, high, least, most = limits
    with np.errstate(divide="ignore", invalid="ignore"):
        lows = np.where(low > 0, low / (low + most), 0.0)
        highs = np.where(least > 0, high / (high + least), 1.0)
        fractions = np.clip(cells / sizes.frequencies[:, None], lows, highs)
    ends = np.array(possible(sizes, level)) * estimate.n
    return tuple(
        Group(
            label=label,
            count=float(sizes.counts[i]),
            low=float(ends[0, i]),
            high=float(ends[1, i]),
            fractions=fractions[i] if ends[0, i] > 0 else None,
            lows=lows[i],
            highs=highs[i],
        )
        for i, label in enumerate(labels)
    )


def possible(estimate: Estimate, level: float) -> tuple[Array, Array]:
    """Limits of fractions, not below 0: an estimate below it has the upper limit of 0."""
    low, high = estimate.interval(level)
    above = high + np.maximum(-estimate.frequencies, 0.0)
    return np.clip(low, 0.0, 1.0), np.clip(above, 0.0, 1.0)
