"""Which event to count: chosen on training runs, for the bound that the later runs will give."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy import special

from shoal.auditing.limits import coin_bounds
from shoal.values import Array

_MOST_THRESHOLDS = 400
_FITS = 3.0  # standard errors
_ENOUGH = 40  # runs in an event, for smoothing to be believed
_FARTHEST = 30.0  # standard deviations
_STEPS = 12
_HELD_BACK = 1e-3
_DIGITS = 10  # of a statistic; sums of the same terms in another order differ beyond


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

    @property
    def words(self) -> str:
        """The event in words."""
        return f"{'at least' if self.at_least else 'below'} {self.threshold:.5g}"


@dataclass(frozen=True)
class Stakes:
    """What the evaluation will be: how many runs, at which delta, wrong with which chance."""

    runs: int
    delta: float
    tail: float
    smooth: bool = True  # whether the statistic is a sum of many terms, whose law is smooth


def rounded(statistic: Array) -> Array:
    """Without the last digits, in which equal counts may differ."""
    return np.round(statistic, _DIGITS)


def best_event(first: Array, second: Array, stakes: Stakes) -> Event:
    """The event with the largest bound to be expected, of both directions and both orders."""
    sample = _Sample.of(rounded(first), rounded(second))
    found = [
        Event(float(sample.thresholds[i]), at_least, swapped, value)
        for at_least in (True, False)
        for swapped in (False, True)
        for i, value in [sample.best(stakes, at_least=at_least, swapped=swapped)]
    ]
    return max(found, key=lambda event: event.predicted)


@dataclass(frozen=True, eq=False)
class _Sample:
    """Shares of the runs at or above each threshold, on either data set: counted, and smoothed."""

    thresholds: Array
    sizes: tuple[int, int]
    counted: tuple[Array, Array]
    smooth: tuple[Array, Array]

    @classmethod
    def of(cls, first: Array, second: Array) -> _Sample:
        thresholds = _thresholds(np.concatenate([first, second]))
        counted = (_beyond(first, thresholds), _beyond(second, thresholds))
        smooth = _smoothed(first, second, thresholds)
        return cls(thresholds, (first.size, second.size), counted, smooth)

    def best(self, stakes: Stakes, *, at_least: bool, swapped: bool) -> tuple[int, float]:
        """The best threshold, and what is to be expected of it.

        Smoothed shares vary less, and are believed where they agree with those counted; elsewhere
        the latter are taken three standard errors towards the worse, so that a lucky handful of
        training runs does not decide.
        """
        over, under = (1, 0) if swapped else (0, 1)
        counted, smooth = (
            [values[side] if at_least else 1 - values[side] for side in (over, under)]
            for values in (self.counted, self.smooth)
        )
        sizes = (self.sizes[over], self.sizes[under])
        errors = [_error(shares, size) for shares, size in zip(counted, sizes, strict=True)]
        fits = np.full(self.thresholds.size, stakes.smooth)
        for i in (0, 1):
            fits &= np.abs(smooth[i] - counted[i]) <= _FITS * errors[i]
            fits &= counted[i] * sizes[i] >= _ENOUGH
        likelier = np.where(fits, smooth[0], np.maximum(counted[0] - _FITS * errors[0], 0.0))
        other = np.where(fits, smooth[1], np.minimum(counted[1] + _FITS * errors[1], 1.0))
        half = stakes.runs / 2
        bounds = coin_bounds(
            likelier * half, other * half, stakes.runs, delta=stakes.delta, tail=stakes.tail
        )
        # Where nothing can be expected, the larger difference is the better guess.
        i = int((bounds + 1e-9 * (likelier - other)).argmax())
        return i, float(bounds[i])


def _smoothed(first: Array, second: Array, thresholds: Array) -> tuple[Array, Array]:
    """Shares from both samples together, each run split by the chance that its value gives it.

    That chance is a logistic curve in the value, of which a privacy loss is a special case.
    """
    values = np.concatenate([first, second])
    order = np.argsort(values)
    truths = (order < first.size).astype(np.float64)
    center, scale = float(values.mean()), float(values.std()) or 1.0
    places = np.clip((values[order] - center) / scale, -_FARTHEST, _FARTHEST)
    chances = _logistic_curve(places, truths)
    cuts = np.searchsorted(values[order], thresholds, side="left")
    found = []
    for weights in (chances, 1 - chances):
        tails = np.append(np.cumsum(weights[::-1])[::-1], 0.0)
        found.append(tails[cuts] / max(float(tails[0]), 1e-12))
    return found[0], found[1]


def _logistic_curve(places: Array, truths: Array) -> Array:
    """Chances of a truth, by maximum likelihood (Newton's method, slightly held back)."""
    columns = np.stack([np.ones_like(places), places])
    slopes = np.zeros(2)
    chances = np.full(places.size, 0.5)
    for _ in range(_STEPS):
        gradient = columns @ (truths - chances) - _HELD_BACK * slopes
        curvature = (columns * (chances * (1 - chances))) @ columns.T + _HELD_BACK * np.eye(2)
        step = np.linalg.solve(curvature, gradient)
        slopes = slopes + step / max(1.0, float(np.abs(step).max()))
        chances = special.expit(slopes @ columns)
    return chances


def _error(shares: Array, size: int) -> Array:
    inside = (shares * size + 1) / (size + 2)
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
