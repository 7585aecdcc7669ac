"""How numbers in bins are distributed: cumulative curve, quantiles, counts of ranges.

All are totals of neighbouring bins, whose errors the estimator knows
(:meth:`~shoal.mechanisms.estimators.AnswerEstimator.totals`). Limits are of the people that
reported, at the resolution of the bins, and count the noise alone: the data are given.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from shoal import checks
from shoal.estimate.tree import TreeEstimate
from shoal.explain.text import Item
from shoal.intervals.estimates import Estimate
from shoal.mechanisms.base import Codes
from shoal.mechanisms.estimators import AnswerEstimator
from shoal.questions.edges import Edges, Place, written
from shoal.values import Array, Record, attributes

LEVEL = 0.95
_ROUNDING = 1e-12

Shown = int | float | str  # a number, or a date


@dataclass(frozen=True)
class Quantile:
    """The least value that so large a part of the people with a value have at most.

    The limits hold whole bins; the value is interpolated inside its bin. There is none if those
    people cannot be told from nobody.
    """

    quantile: float
    value: Shown | None
    low: Shown
    high: Shown
    bins: tuple[int, int]  # the first and the last that it may be in
    place: float  # of the value, in bins
    fraction: float  # of all people, up to there
    truth: str | None = None  # the bin that it is really in, if that is compared

    def to_dict(self) -> Record:
        """Plain values."""
        values = attributes(self, "quantile", "value", "low", "high")
        return values if self.truth is None else values | {"truth": self.truth}

    @property
    def name(self) -> str:
        """The median, or a number of percent."""
        return "median" if self.quantile == 0.5 else f"{100 * self.quantile:g} % quantile"

    @property
    def written(self) -> str:
        """The value as text."""
        return "too few values" if self.value is None else written(self.value)

    @property
    def interval(self) -> str:
        """From the least to the largest value that it may be."""
        return f"{written(self.low)} to {written(self.high)}"

    def __str__(self) -> str:
        true = "" if self.truth is None else f", truly in {self.truth}"
        name = self.name if self.value is not None else f"{self.name}:"
        return f"{name} {self.written} (95 % interval {self.interval}){true}"


@dataclass(frozen=True)
class RangeCount:
    """How many have a value from ``first`` to ``last``: the fraction of all people, and limits.

    Whether the last one is in the range is in its ``label``.
    """

    label: str
    first: Shown
    last: Shown
    frequency: float
    count: float
    low: float
    high: float
    truth: float | None = None  # the fraction, if that is compared

    def to_dict(self) -> Record:
        """Plain values."""
        values = attributes(self, "frequency", "count", "low", "high")
        values |= {} if self.truth is None else {"truth": self.truth}
        return {"range": self.label, "from": self.first, "to": self.last} | values

    @property
    def item(self) -> Item:
        """The fraction in percent; it may be mere noise unless there is somebody for sure."""
        fraction = Item(self.label, self.frequency, self.low, self.high, self.count, self.low > 0)
        return replace(fraction, truth=self.truth).percent

    def __str__(self) -> str:
        item = self.item
        value, interval = item.cells
        true = "" if item.truth is None else f", truly {item.shown(item.truth)}"
        estimate = f"{value} (95 % interval {interval})"
        return f"{self.label}: {estimate}, about {self.count:,.0f} people{true}"


@dataclass(frozen=True, eq=False)
class Curve:
    """The fraction of all people with a value up to the end of each bin, never falling."""

    fractions: Array
    low: Array
    high: Array


@dataclass(frozen=True, eq=False)
class Distribution:
    """The estimates of bins, after which may come one answer more for people without a value."""

    bins: Edges
    estimate: Estimate
    estimator: AnswerEstimator

    @cached_property
    def _prefixes(self) -> Estimate:
        """Of the totals up to the end of each bin."""
        return self._totals(np.zeros(len(self.bins)), np.arange(1, len(self.bins) + 1))

    def _totals(self, starts: Array | Codes, stops: Codes, last: float = 0.0) -> Estimate:
        starts = np.asarray(starts, dtype=np.int64)
        if isinstance(self.estimate, TreeEstimate):
            return self.estimate.totals(starts, stops, last=last)
        return self.estimator.totals(self.estimate, starts, stops, last=last)

    @cached_property
    def _rising(self) -> Array:
        """The totals as near to the estimates as ones that rise from 0 to 1 can be."""
        weights = 1 / np.maximum(self._prefixes.standard_errors, _ROUNDING) ** 2
        return np.clip(isotonic(self._prefixes.frequencies, weights), 0.0, 1.0)

    def cumulative(self, level: float = LEVEL, *, simultaneous: bool = False) -> Curve:
        """The curve, with limits of each of its points, or of all of them together.

        Limits of a curve that cannot fall are made so, where they hold together.
        """
        low, high = (
            np.clip(ends, 0.0, 1.0)
            for ends in self._prefixes.interval(level, simultaneous=simultaneous)
        )
        if simultaneous:
            low, high = np.maximum.accumulate(low), np.minimum.accumulate(high[::-1])[::-1]
        return Curve(self._rising, low, high)

    def quantile(self, quantile: float, level: float = LEVEL) -> Quantile:
        """The value below which this part of the people with a value are, and its limits.

        Of q it is the first bin up to which at least q of them are. With F the fraction of all
        people up to a bin and f that without a value, F + q f >= q holds there and not one bin
        before. Limits leave out bins for which a test of one of both fails, each of half of the
        allowance: no more tests are counted, as only that one bin must stay in.
        """
        checks.open_probability(quantile=quantile)
        stops = np.arange(1, len(self.bins) + 1)
        without = quantile if self.estimator.k > len(self.bins) else 0.0
        tested = self._totals(np.zeros(stops.size), stops, without)
        reached, before = tested.sides(quantile, level)
        reached[-1] = True
        possible = np.flatnonzero(reached & np.append(True, before[:-1]))
        first, last = int(possible[0]), int(possible[-1])
        curve, edges = np.append(0.0, self._rising), self.bins.edges
        target = quantile * curve[-1]
        i = int(np.clip(np.searchsorted(curve[1:], target), first, last))
        inside = np.clip((target - curve[i]) / max(curve[i + 1] - curve[i], _ROUNDING), 0.0, 1.0)
        value = edges[i] + float(inside) * (edges[i + 1] - edges[i])
        ends = self.bins.span(first, last)
        if self.bins.whole:
            value = min(value, edges[i + 1] - 1)
        few = self.estimator.k > len(self.bins) and self.between(0, len(self.bins) - 1).low <= 0
        shown = None if few else self.bins.shown(value)
        return Quantile(quantile, shown, *ends, (first, last), i + float(inside), float(target))

    def median(self, level: float = LEVEL) -> Quantile:
        """The quantile of one half."""
        return self.quantile(0.5, level)

    def range(self, first: Place, last: Place, level: float = LEVEL) -> RangeCount:
        """How many have a value from the first to the last, which have to be ends of bins."""
        return self.between(*self.bins.range(first, last), level)

    def between(self, first: int, last: int, level: float = LEVEL) -> RangeCount:
        """How many have a value in the bins of these numbers, the last one included."""
        total = self._totals(np.array([first]), np.array([last + 1]))
        (low,), (high,) = total.interval(level)
        (frequency,) = total.frequencies.tolist()
        named = self.bins.words(first, last), *self.bins.span(first, last)
        return RangeCount(*named, frequency, frequency * total.n, float(low), float(high))


def isotonic(values: Array, weights: Array) -> Array:
    """The numbers that never fall with the least weighted squared distance from the values.

    Neighbours that fall are pooled (Ayer, Brunk, Ewing, Reid, Silverman, "An Empirical Distribution
    Function for Sampling with Incomplete Information", 1955).

    >>> isotonic(np.array([1.0, 3.0, 2.0, 4.0]), np.ones(4)).tolist()
    [1.0, 2.5, 2.5, 4.0]
    """
    pools: list[tuple[float, float, int]] = []
    for value, weight in zip(values.tolist(), weights.tolist(), strict=True):
        pool = (value, weight, 1)
        while pools and pools[-1][0] >= pool[0]:
            mean, total, size = pools.pop()
            joint = total + pool[1]
            pool = ((mean * total + pool[0] * pool[1]) / joint, joint, size + pool[2])
        pools.append(pool)
    return np.repeat([pool[0] for pool in pools], [pool[2] for pool in pools])
