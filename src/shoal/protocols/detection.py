"""Telling a text that many hold from one that nobody holds.

A text has one cell in each table of a level. A text that nobody holds falls into a cell of each
table at random, whatever the data are: the counts it sees are those of cells drawn at random, a
distribution that can be read off the tables themselves. A text that sends v messages into each
table sees at least Poisson(noise + v) there: other texts in its cell only add to it. So the best
test of the one against the other is a sum over the tables of a score of the count,

    g(x) = log Pr[Poisson(noise + v) = x] / Pr[a random cell has x],    made ascending in x,

(Neyman and Pearson), in whole units. Both distributions of the sum are convolutions. A cell that
some other frequent text has filled is no surprise and scores little more than a likely one, so that
chance collisions with frequent texts do not make a text.

Counts are taken to be Poisson and independent from table to table. They really are parts of a
whole, multinomial: no wider, and negatively associated.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import scipy

from shoal.values import Array

Scores = npt.NDArray[np.int64]

_UNITS = 2  # of a nat
_DEPTH = 24.0  # a count this many nats less likely counts as any other such
_TINY = 1e-300
_MOST_COUNT = 1 << 16  # of messages in a cell, larger counts being as good as this one
_REACH = 12.0  # standard deviations beyond which an expected background has nothing


@dataclass(frozen=True, eq=False)
class Background:
    """What a random cell of each table holds.

    ``chances[t, x]`` is the share of cells of table t with x messages; a single row stands for
    ``tables`` equal ones. ``noise`` is how many messages of all are dummies or lies, on average.
    """

    chances: Array
    tables: int
    noise: float
    unit: float  # the smallest share that a table can tell, one cell

    @classmethod
    def seen(cls, tables: list[npt.NDArray[np.int64]], *, noise: float) -> Background:
        """The cells as they are."""
        top = 1 + min(max(int(cells.max()) for cells in tables), _MOST_COUNT)
        kept = [np.clip(cells, 0, top - 1) for cells in tables]
        rows = [np.bincount(cells, minlength=top) / cells.size for cells in kept]
        return cls(np.array(rows), len(tables), noise, 1 / tables[0].size)

    @classmethod
    def expected(
        cls, *, tables: int, buckets: int, noise: float, others: float, group: float
    ) -> Background:
        """Noise, and ``others`` messages per table of texts with ``group`` messages each."""
        rate = others / (group * buckets)
        mean = noise + rate * group
        spread = math.sqrt(noise + rate * group * (1 + group))
        size = 1 << math.ceil(math.log2(mean + _REACH * (spread + group + 1)))
        # The characteristic function of a Poisson number of Poisson numbers, and Poisson noise.
        turns = np.exp(-2j * np.pi * np.arange(size) / size) - 1
        law = np.exp(noise * turns + rate * np.expm1(group * turns))
        chances = np.maximum(np.fft.ifft(law).real, 0.0)
        return cls(chances[None, :], tables, noise, 1 / buckets)

    def cut(self, top: int) -> Array:
        """The shares, all counts from ``top - 1`` on in one."""
        if self.chances.shape[1] <= top:
            return np.pad(self.chances, ((0, 0), (0, top - self.chances.shape[1])))
        kept = self.chances[:, :top].copy()
        kept[:, -1] = self.chances[:, top - 1 :].sum(axis=1)
        return kept


@dataclass(frozen=True, eq=False)
class Detector:
    """Scores of counts; texts whose scores add up to ``least`` are taken for held ones.

    ``signal`` messages of a text into all tables together are detected with chance 1 - ``missed``;
    a text without any is with chance ``false`` at most.
    """

    scores: Scores
    least: int
    signal: float
    missed: float
    false: float

    @property
    def largest(self) -> int:
        """The highest score of one table."""
        return int(self.scores[-1])

    def scored(self, cells: npt.NDArray[np.int64]) -> npt.NDArray[np.int16]:
        """The score of each cell."""
        return self.scores[np.clip(cells, 0, self.scores.size - 1)].astype(np.int16)


def detector(
    background: Background, *, false: float, missed: Callable[[float], float], most: float
) -> Detector | None:
    """The detector of the fewest messages, within 2 %, or None if not even ``most`` are detected.

    At most ``false`` of the texts that nobody holds pass; of those with ``signal`` messages on
    average ``missed(signal)`` do not.
    """
    high = 2.0 * max(background.tables, math.sqrt(background.tables * background.noise))
    most = min(most, background.tables * (_MOST_COUNT / 2 - background.noise))
    while (found := _at(background, high, false=false, missed=missed)) is None:
        high *= 1.5
        if high > most:
            return None
    low = high / 1.5
    while high > low * 1.02:
        middle = math.sqrt(low * high)
        better = _at(background, middle, false=false, missed=missed)
        if better is None:
            low = middle
        else:
            high, found = middle, better
    return found


def _at(
    background: Background, signal: float, *, false: float, missed: Callable[[float], float]
) -> Detector | None:
    """The best detector of this many messages, if it misses few enough of them."""
    mean = background.noise + signal / background.tables
    top = math.ceil(mean) + 2
    empty = background.cut(top)
    x = np.arange(top)
    held = scipy.stats.poisson.pmf(x, mean)
    held[-1] = scipy.stats.poisson.sf(top - 2, mean)
    scores = _scores(held, np.maximum(empty.mean(axis=0), background.unit / 100))
    passing = _tail(_sum(scores, empty, background.tables))
    (enough,) = np.nonzero(passing <= false)
    if not enough.size:
        return None
    least = int(enough[0])
    lost = float(_sum(scores, held[None, :], background.tables)[:least].sum())
    if lost > missed(signal):
        return None
    return Detector(scores, least, signal, lost, float(passing[least]))


def _scores(held: Array, empty: Array) -> Scores:
    """Log-likelihood ratios in whole units, from 0 on, never falling."""
    ratios = np.log(np.maximum(held, _TINY)) - np.log(empty)
    rising = np.maximum.accumulate(ratios)
    return np.floor(_UNITS * (np.maximum(rising, -_DEPTH) + _DEPTH)).astype(np.int64)


def _sum(scores: Scores, chances: Array, tables: int) -> Array:
    """Chances of each total of the scores of all tables."""
    largest = int(scores[-1]) + 1
    each = [np.bincount(scores, row, minlength=largest) for row in chances]
    total = np.ones(1)
    for table in range(tables):
        total = np.convolve(total, each[table % len(each)])
    return total


def _tail(chances: Array) -> Array:
    """Chances of each total or more; beyond the largest, none."""
    return np.append(np.cumsum(chances[::-1])[::-1], 0.0)
