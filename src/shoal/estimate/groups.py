"""People in groups: about how many there are in each, and what fraction of them answers what.

All answers of all groups are one histogram, whose estimates are ``groups`` times as many as there
are answers, group after group.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from shoal.intervals.estimates import Estimate, parts, possible
from shoal.mechanisms.estimators import AnswerEstimator
from shoal.values import Array

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
    totals. A fraction is of those who give the answer and the rest of the group, both of them
    noisy: see :func:`shoal.intervals.estimates.parts`.
    """
    groups = len(labels)
    k = estimator.k // groups
    starts = np.arange(groups) * k
    sizes = estimator.totals(estimate, starts, starts + k)
    cells = estimate.unbiased.reshape(groups, k)
    inside = cells.sum(axis=1, keepdims=True)
    rests = estimator.sums(estimate, (inside - cells).ravel(), np.full(groups * k, k - 1))
    lows, highs = (ends.reshape(groups, k) for ends in parts(estimate, rests, level))
    with np.errstate(divide="ignore", invalid="ignore"):
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
