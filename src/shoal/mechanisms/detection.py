"""Telling a text that many hold from one that nobody holds, whatever everybody else holds.

A text has one cell in each of the T tables of a level. It adds up a score g of the counts in them,
and passes if the sum is at least a limit L. Scores and limit of a detector are fixed before there
are data, and g ascends in the count.

*A text with v messages, on average*, sees them and the noise at least: others only add. The
detector of signal v has the highest limit that the sum stays below as rarely as is allowed, by
convolution of Poisson counts. True counts are multinomial. But the sum falls short less often the
more messages there are; a Poisson number of mean c is at most c with probability 1/2 at least, and
one of mean m - 3 sqrt(m) is at most m but for e^-4.5. So c people and the noise of n miss at most
2 / (1 - 2 e^-4.5) times as often as Poisson numbers of them with means c and n - 3 sqrt(n).

*A text that nobody holds* has cells that are drawn from the tables. Given the tables, it passes
with a probability that is a convolution of what they hold. Before there are tables, let Y be the
mean count in its cell of one table, given which texts have the same cell. Whatever the number and
sizes of the groups of others are, Y is at least the noise, and its mean is the noise plus all their
messages to the table over the number of cells. With f = e^(theta g), phi(y) = E f(Poisson(y)) and
conc phi the least concave function above phi,

    Pr[sum >= L] <= e^(-theta L) (E phi(Y))^T <= e^(-theta L) (conc phi)(E Y)^T,    any theta > 0.

For tables hash independently of each other; a count is a sum of coins, of probability p each, and
so below a Poisson number with -log(1 - p) in place of p; and since a message is in one table only,
the counts of a text are negatively associated: the mean of a product of ascending functions of them
is at most the product of the means (Joag-Dev, Proschan, "Negative Association of Random Variables
with Applications", Annals of Statistics 11, 1983).

The score is log Pr[Poisson(noise + v/T) = x] / Pr[a crowded cell has x], in whole units, made
ascending, and constant from the mean on. What is taken for crowded is about the worst there is:
some cells with a text a little rarer than the one in question. There are fewer of more frequent
texts, and rarer ones do not look like it.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np
import numpy.typing as npt
from scipy import special

from shoal.accounting import search
from shoal.values import Array

Counted = npt.NDArray[np.int64]

_UNITS = 2  # of a nat
_NATS = 24.0  # a count less or more likely than this counts as any other such
_FINEST = 1 << 12  # counts that are told apart
_SHORT = 3.0  # standard deviations by which noise may fall short
_POISSON = 2 / (1 - 2 * math.exp(-(_SHORT**2) / 2))
_CROWD = 0.3  # of all people, taken to hold different texts; as many again hold frequent ones,
_LIKENESS = (0.75, 0.87, 0.95)  # of so many times the messages of the text in question,
_OFTEN = 0.5  # but not in more than this fraction of the cells
_STEP = 1.06
_RUNGS = 32
_PARTS = (0.75, 0.25 / (_RUNGS - 1))  # of the misses: on the rung next below a text, on others
_CLOSE = 1.01
_LEAST_SIGNAL = 1.0
_STRIDES = (1.05, 1.3)  # of a search that starts near its end, and of one that does not
_REACH = 12.0  # standard deviations beyond which a Poisson variable has nothing
_TILTS = (0.02, 5.0)
_TILT_STEPS = 14
_GOLDEN = (math.sqrt(5) - 1) / 2
# What others add to a cell, in groups like the one in question: finest where the worst is.
_ADDED = np.concatenate(
    [
        [0.0],
        np.geomspace(1e-4, 0.5, 29, endpoint=False),
        np.geomspace(0.5, 1.4, 51, endpoint=False),
        np.geomspace(1.4, 3.0, 9),
    ]
)


@dataclass(frozen=True)
class Channel:
    """What the tables of a level carry.

    ``noise`` messages in each cell on average, dummies or lies of n people over ``cells`` cells of
    all levels, and the messages of people who send one to this level with probability ``sent`` at
    most.
    """

    tables: int
    buckets: int
    cells: int
    n: int
    noise: float
    sent: float

    @property
    def others(self) -> float:
        """Messages of all people in a cell, on average."""
        return self.n * self.sent / (self.tables * self.buckets)

    @property
    def most_others(self) -> float:
        """Poisson messages that are above these, on average."""
        own, stray = self.sent / self.tables, 1 / self.cells
        if own + stray >= 1:
            return math.inf
        return self.n * math.log((1 - stray) / (1 - stray - own)) / self.buckets


@dataclass(frozen=True, eq=False)
class Background:
    """The counts that each table has, and the fraction of its cells with each."""

    tables: tuple[tuple[Counted, Array], ...]

    @classmethod
    def of(cls, tables: list[Counted]) -> Background:
        """The cells as they are."""
        counted = (np.unique(cells, return_counts=True) for cells in tables)
        return cls(tuple((counts, times / times.sum()) for counts, times in counted))

    @classmethod
    def thin(cls, channel: Channel) -> Background:
        """The cells as they are expected where no two people hold the same text."""
        mean = channel.noise + channel.others
        reach = _REACH * (1 + math.sqrt(mean))
        first = max(0, math.floor(mean - reach))
        counts = np.arange(first, math.ceil(mean + reach), dtype=np.int64)
        above = np.asarray(special.pdtrc(counts, mean), dtype=np.float64)
        return cls(((counts, -np.diff(above, prepend=1.0)),) * channel.tables)


@dataclass(frozen=True, eq=False)
class Detector:
    """Scores of counts; texts whose scores add up to ``least`` pass.

    ``scores[i]`` is the score of counts from ``edges[i]`` on, and of smaller ones if i = 0; both
    ascend. Made for texts that send ``signal`` messages on average into all tables together.
    """

    edges: Counted
    scores: Counted
    least: int
    signal: float

    @property
    def largest(self) -> int:
        """The highest score of one table."""
        return int(self.scores[-1])

    def scored(self, cells: Counted) -> npt.NDArray[np.int16]:
        """The score of each cell."""
        return self.scores.astype(np.int16)[np.searchsorted(self.edges[1:], cells, side="right")]

    def passing(self, background: Background) -> float:
        """The probability that a text that nobody holds passes, its cells being drawn evenly."""
        total = np.ones(1)
        for counts, fractions in background.tables:
            total = np.convolve(total, np.bincount(self.scored(counts), fractions))
        return float(total[self.least :].sum())


@dataclass(frozen=True)
class Ladder:
    """The detectors of a level, of ever lower signals.

    A text of v messages is missed with probability ``missed`` times v at most by any of the
    detectors of no larger signal: the next below it has 3/4 of that, and the others, whose signals
    it exceeds by a step at least, share 1/4. So the data may choose the detector.

    If ``sure``, the detector of signal ``top`` lets no more of the texts pass that nobody holds
    than it may, whatever people hold.
    """

    channel: Channel
    missed: float
    top: float
    likeness: float = _LIKENESS[0]
    sure: bool = False

    @classmethod
    @lru_cache(maxsize=128)
    def built(
        cls,
        channel: Channel,
        *,
        false: float,
        missed: float,
        most: float,
        near: Ladder | None = None,
    ) -> Ladder:
        """The ladder of the lowest sure top, within 1 %, or of ``most`` messages if there is none.

        At the top at most ``false`` of the texts that nobody holds pass. ``near`` is one that may
        be like it.
        """
        best = cls(channel, missed, most, near.likeness if near else _LIKENESS[0])
        guess = 2 * channel.tables + 12 * math.sqrt(channel.tables * channel.noise)
        start, stride = (near.top, _STRIDES[0]) if near else (guess, _STRIDES[1])
        for likeness in (best.likeness, *(each for each in _LIKENESS if each != best.likeness)):
            trial = replace(best, likeness=likeness, top=most)
            lowest = trial.lowest(math.log(false), start=min(start, most), stride=stride)
            if lowest is not None:
                best = replace(trial, top=lowest, sure=True)
                start = most = lowest / _CLOSE  # others are to be better
                stride = _STRIDES[0]
        return best

    @property
    def signal(self) -> float:
        """From how many messages on a text passes, whatever people hold."""
        return self.top if self.sure else math.inf

    def chosen(self, background: Background, *, false: float) -> Detector | None:
        """The detector of the lowest signal that lets at most ``false`` of nobody's texts pass.

        If there is none, the top, if it is sure.
        """

        def passes(rung: int) -> bool:  # rungs that are lower by one step each
            return self.at(self.top / _STEP**rung).passing(background) <= false

        if not self.sure and not passes(0):
            return None
        return self.at(self.top / _STEP ** search.largest(passes, 0, _RUNGS))

    def at(self, signal: float) -> Detector:
        """The detector of a signal."""
        edges, scores = _scores(self.channel, signal, self.likeness)
        allowed = self.missed * signal / _POISSON
        trial = Detector(edges, scores, 0, signal)
        least = min(
            _limit(self.channel, trial, signal * _STEP**up, part * allowed)
            for up, part in enumerate(_PARTS)
        )
        return replace(trial, least=least)

    def lowest(self, target: float, *, start: float, stride: float) -> float | None:
        """The lowest signal, within 1 %, at which ``worst_passing`` is on target.

        It is looked for by strides from ``start`` on; None if the top itself is not.
        """

        def bounded(signal: float) -> bool:
            return worst_passing(self.channel, self.at(signal)) <= target

        high = start
        while not bounded(high):
            if high >= self.top:
                return None
            high = min(stride * high, self.top)
        low = high / stride
        while high == start and low > _LEAST_SIGNAL and bounded(low):
            start, high, low = low, low, low / stride
        while high > low * _CLOSE:
            middle = math.sqrt(low * high)
            low, high = (low, middle) if bounded(middle) else (middle, high)
        return high


def worst_passing(channel: Channel, detector: Detector) -> float:
    """Log of a bound on the probability that a text that nobody holds passes, whatever people hold.

    The worst law of Y has two values. They are searched on a grid, where a value between two points
    costs as much as the lower one and does what the higher one does.
    """
    scores = detector.scores
    added = _ADDED * detector.signal / channel.tables
    few = added <= channel.most_others
    if few.all():
        return 0.0
    low, high = added[few][:, None], added[~few]
    weight = (channel.most_others - low) / (high - low)
    # Poisson noise that is above the true one.
    noise = channel.noise * channel.cells * -math.log1p(-1 / channel.cells)
    above = special.pdtrc(detector.edges[1:] - 1, noise + added[:, None])

    def bound(tilt: float) -> float:
        moments = np.exp(tilt / _UNITS * (scores - scores[-1]))
        phi = moments[0] + above @ np.diff(moments)
        ceiling = np.append(phi[1:], 1.0)
        worst = float(np.max(ceiling[few][:, None] * (1 - weight) + ceiling[~few] * weight))
        excess = channel.tables * detector.largest - detector.least
        return channel.tables * math.log(worst) + tilt / _UNITS * excess

    return min(0.0, _least_value(bound, *_TILTS))


def _scores(channel: Channel, signal: float, likeness: float) -> tuple[Counted, Counted]:
    """Log-likelihood ratios in whole units, from 0 on, and the counts from which each holds."""
    group = signal / channel.tables
    mean = channel.noise + group
    spread = channel.noise + _CROWD * channel.others
    crowded = spread + likeness * group
    often = min(_OFTEN, _CROWD * channel.others / (likeness * group))
    first = max(0, math.floor(channel.noise - _REACH * (1 + math.sqrt(channel.noise))))
    last = math.ceil(mean) + 1
    x = np.linspace(first, last, min(_FINEST, last - first + 1)).astype(np.int64)
    empty = np.logaddexp(
        math.log1p(-often) + x * math.log(spread) - spread,
        math.log(often) + x * math.log(crowded) - crowded,
    )
    rising = np.maximum.accumulate(x * math.log(mean) - mean - empty)
    whole = np.floor(_UNITS * (np.clip(rising, -_NATS, _NATS) + _NATS)).astype(np.int64)
    scores, firsts = np.unique(whole, return_index=True)
    return x[firsts], scores - scores[0]


def _limit(channel: Channel, detector: Detector, signal: float, missed: float) -> int:
    """The highest limit that a text of so many Poisson messages misses no more often."""
    # Poisson noise that falls short of the true one too rarely to matter.
    noise = channel.noise * max(0.0, 1 - _SHORT / math.sqrt(channel.n))
    mean = noise + signal / channel.tables
    above = np.append(special.pdtrc(detector.edges[1:] - 1, mean), 0.0)
    each = np.zeros(detector.largest + 1)
    each[detector.scores] = -np.diff(above, prepend=1.0)
    below = np.cumsum(_repeated(each, channel.tables))
    return int(np.searchsorted(below, missed, side="right"))


def _repeated(law: Array, times: int) -> Array:
    """The law of the sum of so many independent variables of a law."""
    total = np.ones(1)
    while times:
        if times & 1:
            total = np.convolve(total, law)
        times >>= 1
        law = np.convolve(law, law) if times else law
    return total


def _least_value(curve: Callable[[float], float], low: float, high: float) -> float:
    """The least value of a convex curve that was met in a golden-section search."""
    left, right = high - _GOLDEN * (high - low), low + _GOLDEN * (high - low)
    at_left, at_right = curve(left), curve(right)
    for _ in range(_TILT_STEPS):
        if at_left < at_right:
            high, right, at_right = right, left, at_left
            left = high - _GOLDEN * (high - low)
            at_left = curve(left)
        else:
            low, left, at_left = left, right, at_right
            right = low + _GOLDEN * (high - low)
            at_right = curve(right)
    return min(at_left, at_right)
