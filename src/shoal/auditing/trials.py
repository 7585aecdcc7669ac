"""Trials: which data sets, statistic and event to count, and the runs that count them.

All of it is chosen on training runs that are not counted later; the event is chosen for the bound
that the later runs will give.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt
from scipy import special

from shoal.auditing.data import Neighbours
from shoal.auditing.limits import coin_bounds
from shoal.auditing.result import Evidence, Histogram
from shoal.auditing.statistics import Knowledge, Statistic, privacy_loss, promising
from shoal.auditing.subjects import Sampler
from shoal.randomness import Randomness
from shoal.values import Array, attributes

_COINS = 1 << 24  # at once
_FEW_VALUES = 90
_BINS = 60
_NARROWEST = 300  # bins of the narrowest width that would fill the axis
COMPARED = 3  # data sets that are tried on real runs
_FEW_RUNS = 100  # to compare by, if there are so many
_MANY_RUNS = 50_000
_CLOSE = 0.9  # to the best promise, to be tried too
_FEWEST = 20  # runs to compare by, however large the crowd
_MOST_KEPT = 1 << 22  # messages kept at once
_MOST_THRESHOLDS = 400
_FITS = 3.0  # standard errors
_ENOUGH = 40  # runs in an event, for smoothing to be believed
_FARTHEST = 30.0  # standard deviations
_STEPS = 12
_HELD_BACK = 1e-3
_DIGITS = 10  # of a statistic; sums of the same terms in another order differ beyond


# ------------------------------------------------------------------------------------ events


@dataclass(frozen=True)
class Event:
    """That a statistic is at least a threshold, or that it is below.

    ``swapped`` says that the second data set is the one on which it is likelier. ``predicted`` is
    the bound that training runs promise.
    """

    threshold: float
    at_least: bool
    swapped: bool
    predicted: float

    def holds(self, statistic: Array) -> npt.NDArray[np.bool_]:
        """In which runs it happens."""
        beyond: npt.NDArray[np.bool_] = rounded(statistic) >= self.threshold
        return beyond if self.at_least else ~beyond


@dataclass(frozen=True)
class Stakes:
    """What the evaluation will be: how many runs, at which delta, wrong with which probability."""

    runs: int
    delta: float
    tail: float
    smooth: bool = True  # whether the statistic is a sum of many terms, whose law is smooth


def rounded(statistic: Array) -> Array:
    """Without the last digits, in which equal counts may differ."""
    return np.round(statistic, _DIGITS)


def best_event(first: Array, second: Array, stakes: Stakes) -> Event:
    """The event with the largest bound to be expected, of both directions and both orders.

    Fractions of runs beyond each threshold are counted, and smoothed. Smoothed fractions vary
    less, and are believed where they agree with those counted; elsewhere the latter are taken three
    standard errors towards the worse, so that a lucky handful of training runs does not decide.
    """
    first, second = rounded(first), rounded(second)
    sizes = (first.size, second.size)
    thresholds = _thresholds(np.concatenate([first, second]))
    counts = (_beyond(first, thresholds), _beyond(second, thresholds))
    curves = _smoothed(first, second, thresholds)

    def best(*, at_least: bool, swapped: bool) -> Event:
        sides = (1, 0) if swapped else (0, 1)
        limits = []
        fits = np.full(thresholds.size, stakes.smooth)
        for side, towards in zip(sides, (-1, 1), strict=True):
            counted, smooth = (
                values[side] if at_least else 1 - values[side] for values in (counts, curves)
            )
            error = _error(counted, sizes[side])
            fits &= np.abs(smooth - counted) <= _FITS * error
            fits &= counted * sizes[side] >= _ENOUGH
            limits.append((smooth, np.clip(counted + towards * _FITS * error, 0.0, 1.0)))
        likelier, other = (np.where(fits, smooth, careful) for smooth, careful in limits)
        half = stakes.runs / 2
        bounds = coin_bounds(
            likelier * half, other * half, stakes.runs, delta=stakes.delta, tail=stakes.tail
        )
        # Where nothing can be expected, the larger difference is the better guess.
        i = int((bounds + 1e-9 * (likelier - other)).argmax())
        return Event(float(thresholds[i]), at_least, swapped, float(bounds[i]))

    events = [best(at_least=a, swapped=s) for a in (True, False) for s in (False, True)]
    return max(events, key=lambda event: event.predicted)


def _smoothed(first: Array, second: Array, thresholds: Array) -> tuple[Array, Array]:
    """Fractions from both samples together, each run split by the probability of its value.

    That probability is a logistic curve in the value, of which a privacy loss is a special case.
    """
    values = np.concatenate([first, second])
    order = np.argsort(values)
    truths = (order < first.size).astype(np.float64)
    center, scale = float(values.mean()), float(values.std()) or 1.0
    places = np.clip((values[order] - center) / scale, -_FARTHEST, _FARTHEST)
    curve = _logistic_curve(places, truths)
    cuts = np.searchsorted(values[order], thresholds, side="left")
    fractions = []
    for weights in (curve, 1 - curve):
        tails = np.append(np.cumsum(weights[::-1])[::-1], 0.0)
        fractions.append(tails[cuts] / max(float(tails[0]), 1e-12))
    return fractions[0], fractions[1]


def _logistic_curve(places: Array, truths: Array) -> Array:
    """Probabilities of a truth, by maximum likelihood (Newton's method, slightly held back)."""
    columns = np.stack([np.ones_like(places), places])
    slopes = np.zeros(2)
    curve = np.full(places.size, 0.5)
    for _ in range(_STEPS):
        gradient = columns @ (truths - curve) - _HELD_BACK * slopes
        curvature = (columns * (curve * (1 - curve))) @ columns.T + _HELD_BACK * np.eye(2)
        step = np.linalg.solve(curvature, gradient)
        slopes = slopes + step / max(1.0, float(np.abs(step).max()))
        curve = special.expit(slopes @ columns)
    return curve


def _error(rates: Array, size: int) -> Array:
    inside = (rates * size + 1) / (size + 2)
    return np.asarray(np.sqrt(inside * (1 - inside) / (size + 2)))


def _thresholds(values: Array) -> Array:
    """Between neighbouring values, at most so many of them, evenly along the runs."""
    known = np.unique(values)
    if known.size > _MOST_THRESHOLDS:
        ranks = np.linspace(0, 1, _MOST_THRESHOLDS)
        known = np.unique(np.quantile(values, ranks, method="nearest"))
    if known.size == 1:
        return known
    return np.asarray((known[1:] + known[:-1]) / 2)


def _beyond(values: Array, thresholds: Array) -> Array:
    return 1 - np.searchsorted(np.sort(values), thresholds, side="left") / values.size


# ---------------------------------------------------------------------------------- training


@dataclass(frozen=True)
class Budget:
    """Runs on each data set: to compare so many of them, and to set the threshold."""

    compared: int
    compare: int
    settle: int

    @classmethod
    def of(cls, runs: int, candidates: int) -> Budget:
        """A fifth of the runs, a tenth if there are many: half to compare, half to settle."""
        training = runs // (10 if runs > _MANY_RUNS else 5)
        compared = max(1, min(COMPARED, candidates, training // (2 * _FEW_RUNS)))
        return cls(compared, training // (2 * compared), training // 2)

    @property
    def total(self) -> int:
        """Runs on each of the two worlds."""
        return self.compared * self.compare + self.settle


def trained_local(
    sampler: Sampler, known: Knowledge, pairs: Sequence[Neighbours], stakes: Stakes, *, size: int
) -> Trial:
    """The pair of data whose single messages differ most, and the messages that tell."""
    trials: list[Trial] = []
    seen = {
        x: sampler.seen(data, size)
        for pair in pairs
        for x, data in zip((pair.first, pair.second), pair.worlds, strict=True)
    }
    for pair in pairs:
        one, two = seen[pair.first], seen[pair.second]
        tried = privacy_loss(known, pair, "one message")
        trials += [_trial(pair, each, each.of(one), each.of(two), stakes) for each in tried]
    return max(trials, key=lambda trial: trial.event.predicted)


def trained_crowd(
    sampler: Sampler,
    known: Knowledge,
    candidates: Sequence[Neighbours],
    stakes: Stakes,
    budget: Budget,
) -> Trial:
    """The data sets and the statistic that promise most; the threshold from runs of its own."""
    trials: list[Trial] = []
    promises = [known.promise(pair) for pair in candidates]
    best_first = np.argsort(promises)[::-1][: budget.compared]
    least = _CLOSE * promises[best_first[0]]
    for pair in [candidates[i] for i in best_first if promises[i] >= least]:
        runs = min(budget.compare, max(_FEWEST, _MOST_KEPT // (len(pair.others) + 1)))
        one, two = (sampler.seen(world, runs, in_order=True) for world in pair.worlds)
        tried = promising(sampler.subject, known, pair, one, two)
        trials += [_trial(pair, each, each.of(one), each.of(two), stakes) for each in tried]
    best = max(trials, key=lambda trial: trial.event.predicted)
    pair, statistic = best.neighbours, best.statistic
    fresh = []
    for world in pair.worlds:
        parts = sampler.blocks(world, budget.settle, in_order=statistic.in_order)
        fresh.append(np.concatenate([statistic.of(part) for part in parts]))
    return _trial(pair, statistic, fresh[0], fresh[1], stakes)


def _trial(
    pair: Neighbours, statistic: Statistic, first: Array, second: Array, stakes: Stakes
) -> Trial:
    event = best_event(first, second, stakes)
    return Trial(pair, statistic, event, bin_edges(first, second, event.threshold))


# -------------------------------------------------------------------------------- evaluation


@dataclass(frozen=True, eq=False)
class Trial:
    """What will be counted: an event of a statistic, on two data sets."""

    neighbours: Neighbours
    statistic: Statistic
    event: Event
    edges: Array  # of the histograms


def evaluated(
    sampler: Sampler, trial: Trial, stakes: Stakes, claim: Literal["crowd", "local"], claimed: float
) -> Evidence:
    """Fresh runs, a fair coin for each saying on which data set.

    Runs are independent, so only how many coins fell to each side matters.
    """
    event, statistic = trial.event, trial.statistic
    heads = _heads(sampler.randomness, stakes.runs)
    runs = (heads, stakes.runs - heads)
    inside, histograms = [0, 0], []
    for side, data in enumerate(trial.neighbours.worlds):
        counts = np.zeros(trial.edges.size - 1, dtype=np.int64)
        for part in sampler.blocks(data, runs[side], in_order=statistic.in_order):
            values = statistic.of(part)
            inside[side] += int(np.count_nonzero(event.holds(values)))
            counts += histogram(values, trial.edges)
        histograms.append(counts)
    likelier, other = inside[::-1] if event.swapped else inside
    lower = coin_bounds(likelier, other, stakes.runs, delta=stakes.delta, tail=stakes.tail)
    return Evidence(
        claim=claim,
        claimed=claimed,
        lower=float(lower),
        delta=stakes.delta,
        statistic=statistic.name,
        event=f"{'at least' if event.at_least else 'below'} {event.threshold:.5g}",
        data=trial.neighbours.words,
        runs=runs,
        inside=(inside[0], inside[1]),
        edges=trial.edges,
        histograms=(histograms[0], histograms[1]),
        **attributes(event, "threshold", "at_least", "swapped"),
    )


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
