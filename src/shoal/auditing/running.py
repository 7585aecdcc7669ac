"""Many runs, a block at a time."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from shoal.auditing.data import DataSet, Neighbours
from shoal.auditing.events import Event, rounded
from shoal.auditing.messages import joined
from shoal.auditing.statistics import Statistic
from shoal.auditing.subjects import Subject, Transcripts
from shoal.randomness import Randomness
from shoal.values import Array

Progress = Callable[[int, int], None]
Histogram = npt.NDArray[np.int64]

_COINS = 1 << 24  # at once
_FEW_VALUES = 90
_BINS = 60
_NARROWEST = 300  # bins of the narrowest width that would fill the axis


@dataclass(eq=False)
class Meter:
    """How much of the work is done, in messages."""

    tell: Progress | None
    total: int
    done: int = 0

    def add(self, messages: int) -> None:
        """So many more."""
        self.done += messages
        if self.tell is not None:
            self.tell(min(self.done, self.total), self.total)

    def finish(self) -> None:
        """Whatever is left was not needed."""
        self.add(max(0, self.total - self.done))


@dataclass(frozen=True, eq=False)
class Sampler:
    """A subject with its randomness and the meter of its work."""

    subject: Subject
    randomness: Randomness
    meter: Meter

    def blocks(self, data: DataSet, runs: int, *, in_order: bool) -> Iterator[Transcripts]:
        """So many runs on one data set, as many at once as fit."""
        at_once = max(1, self.subject.block // len(data))
        for start in range(0, runs, at_once):
            some = min(at_once, runs - start)
            yield self.subject.run(data, some, self.randomness, in_order=in_order)
            self.meter.add(some * len(data))

    def seen(self, data: DataSet, runs: int, *, in_order: bool) -> Transcripts:
        """So many runs, kept."""
        parts = [*self.blocks(data, runs, in_order=in_order)]
        sizes = np.concatenate([part.sizes for part in parts])
        return Transcripts(joined([part.messages for part in parts]), sizes)

    def values(self, data: DataSet, runs: int, statistic: Statistic) -> Array:
        """The statistic of so many runs."""
        parts = self.blocks(data, runs, in_order=statistic.in_order)
        return np.concatenate([statistic(part) for part in parts])


@dataclass(frozen=True, eq=False)
class Trial:
    """What will be counted: an event of a statistic, on two data sets."""

    neighbours: Neighbours
    statistic: Statistic
    event: Event
    edges: Array  # of the histograms


@dataclass(frozen=True, eq=False)
class Tally:
    """How often it happened on each data set, of how many runs, and the histograms."""

    runs: tuple[int, int]
    inside: tuple[int, int]
    histograms: tuple[Histogram, Histogram]


def evaluated(sampler: Sampler, trial: Trial, runs: int) -> Tally:
    """Fresh runs, a fair coin for each saying on which data set.

    Runs are independent, so only how many coins fell to each side matters.
    """
    first = _heads(sampler.randomness, runs)
    sizes = (first, runs - first)
    inside, histograms = [], []
    for data, size in zip(trial.neighbours.worlds, sizes, strict=True):
        hits, counts = 0, np.zeros(trial.edges.size - 1, dtype=np.int64)
        for part in sampler.blocks(data, size, in_order=trial.statistic.in_order):
            values = trial.statistic(part)
            hits += int(np.count_nonzero(trial.event.holds(values)))
            counts += histogram(values, trial.edges)
        inside.append(hits)
        histograms.append(counts)
    return Tally(sizes, (inside[0], inside[1]), (histograms[0], histograms[1]))


def _heads(randomness: Randomness, coins: int) -> int:
    """How many of so many fair coins fall to one side."""
    blocks = (min(_COINS, coins - start) for start in range(0, coins, _COINS))
    return sum(int(randomness.bits(size).sum(dtype=np.int64)) for size in blocks)


def histogram(values: Array, edges: Array) -> Histogram:
    """How many values are in each bin; the outer bins are open."""
    bins = np.searchsorted(edges[1:-1], rounded(values), side="right")
    return np.bincount(bins, minlength=edges.size - 1)


def bin_edges(first: Array, second: Array, threshold: float) -> Array:
    """Edges of bins that show both samples, the threshold being one of them."""
    values = rounded(np.concatenate([first, second]))
    known = np.unique(values)
    if known.size == 1:
        return np.asarray(known[0] + np.array([-0.5, 0.5]))
    gaps = np.diff(known)
    if known.size <= _FEW_VALUES and gaps.min() * _NARROWEST >= known[-1] - known[0]:
        inner = (known[1:] + known[:-1]) / 2
        return np.asarray([known[0] - gaps[0] / 2, *inner, known[-1] + gaps[-1] / 2])
    low, high = np.quantile(values, [0.0005, 0.9995])
    low, high = min(low, threshold), max(high, threshold)
    width = (high - low) / _BINS or float(known[-1] - known[0])
    before = max(1, int(np.ceil((threshold - low) / width)))
    after = max(1, int(np.ceil((high - threshold) / width)))
    return np.asarray(threshold + width * np.arange(-before, after + 1))
