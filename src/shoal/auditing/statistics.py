"""Statistics of one run's messages: one number each, large if the first data set is likelier.

*The crowd.* If everybody else's messages follow R*, the likelihood of n shuffled messages under R_x
among them is proportional to the sum of ``R_x(y)/R*(y)`` over the messages y. So with R* the
mixture of what the others hold,

    T = log( sum_y R_0(y)/R*(y) / sum_y R_1(y)/R*(y) )

is the privacy loss, and no event tells more than T beyond a threshold (Neyman and Pearson); exact
if all others hold the same.

*The position.* If the shuffler leaves the person's message at place j with probability w_j, the
same with the terms of place j weighted by w_j: one place, if it does not shuffle at all.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from shoal.auditing.messages import Coder, Codes
from shoal.auditing.subjects import Transcripts
from shoal.values import Array, Batch

TINY = 1e-300


class Statistic(ABC):
    """One number per run."""

    name: str
    in_order = False  # whether the order of the messages matters

    @abstractmethod
    def __call__(self, seen: Transcripts) -> Array:
        """The statistic of every run."""


@dataclass(frozen=True, eq=False)
class PrivacyLoss(Statistic):
    """log of the likelihood ratio of the messages, in whatever order."""

    name: str
    coder: Coder
    ratios: tuple[Array, Array]  # R_0/R* and R_1/R* of each code

    def __call__(self, seen: Transcripts) -> Array:
        """The privacy loss of every run."""
        codes = self.coder(seen.messages)
        over, under = (summed(ratio[codes], seen) for ratio in self.ratios)
        return _log_ratio(over, under)


@dataclass(frozen=True, eq=False)
class Position(Statistic):
    """The same of the messages at some places, weighted."""

    name: str
    coder: Coder
    ratios: tuple[Array, Array]
    places: npt.NDArray[np.intp]
    weights: Array
    in_order = True

    def __call__(self, seen: Transcripts) -> Array:
        """The privacy loss at the places that tell; 0 where a run has no such place."""
        codes, there = at_places(self.coder(seen.messages), seen, self.places)
        sums = [np.where(there, ratio[codes], 1.0) @ self.weights for ratio in self.ratios]
        return _log_ratio(sums[0], sums[1])


@dataclass(frozen=True, eq=False)
class WeightedCount(Statistic):
    """A weighted number of messages."""

    name: str
    coder: Coder
    weights: Array

    def __call__(self, seen: Transcripts) -> Array:
        """The sum of every run."""
        return summed(self.weights[self.coder(seen.messages)], seen)


@dataclass(frozen=True, eq=False)
class NoiseRatio(Statistic):
    """log of the ratio of the messages for two answers, less those that the others surely sent.

    Among iid dummies the likelihood ratio is that of these two numbers.
    """

    name: str
    coder: Coder
    telling: tuple[Array, Array]  # 1 for the codes that speak for the one answer alone, else 0
    certain: tuple[int, int]

    def __call__(self, seen: Transcripts) -> Array:
        """The log-ratio of every run."""
        codes = self.coder(seen.messages)
        over, under = (
            np.maximum(summed(marks[codes], seen) - known, 0.0) + 0.5
            for marks, known in zip(self.telling, self.certain, strict=True)
        )
        return _log_ratio(over, under)


@dataclass(frozen=True, eq=False)
class MessageCount(Statistic):
    """How many messages there are."""

    name: str = "number of messages"

    def __call__(self, seen: Transcripts) -> Array:
        """The size of every run."""
        return seen.sizes.astype(np.float64)


@dataclass(frozen=True, eq=False)
class EstimateGap(Statistic):
    """What the analyzer estimates: one answer less another, or a mean along a direction."""

    name: str
    gap: Callable[[Batch], float]
    people: int

    def __call__(self, seen: Transcripts) -> Array:
        """The estimate of every run, one by one."""
        parts = np.split(seen.messages, seen.starts[1:])
        return np.array([self.gap(Batch(part, self.people)) for part in parts])


def summed(values: Array, seen: Transcripts) -> Array:
    """The sum over the messages of every run."""
    sizes = seen.sizes
    if not sizes.size or not values.size:
        return np.zeros(sizes.size)
    if (sizes == sizes[0]).all():
        return np.asarray(values.reshape(sizes.size, -1).sum(axis=1))
    sums = np.zeros(sizes.size)
    inhabited = np.flatnonzero(sizes)
    sums[inhabited] = np.add.reduceat(values, seen.starts[inhabited])
    return sums


def at_places(
    codes: Codes, seen: Transcripts, places: npt.NDArray[np.intp]
) -> tuple[Codes, npt.NDArray[np.bool_]]:
    """The codes at these places of every run, and whether the run has so many messages."""
    there = places < seen.sizes[:, None]
    where = np.where(there, seen.starts[:, None] + places, 0)
    return codes[where], there


def _log_ratio(over: Array, under: Array) -> Array:
    return np.asarray(np.log(np.maximum(over, TINY)) - np.log(np.maximum(under, TINY)))
