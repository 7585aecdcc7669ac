"""Means of scores, of everybody or of people in groups, from the estimates of single answers.

Answers, or levels that numbers were rounded to, have scores: a scale from 1 to 5, the places of
the levels. Some may have none, as "(none)".
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from shoal.estimate import on_simplex
from shoal.explain.text import Item
from shoal.intervals.estimates import Estimate, possible, ratio_limits, widened
from shoal.mechanisms.estimators import AnswerEstimator
from shoal.values import Array, Record, attributes

Codes = npt.NDArray[np.int64]

_INSIDE = 1e-9  # trial means are so far from the ends of the scale


@dataclass(frozen=True, eq=False)
class Mean:
    """The mean score of the people who have one, perhaps in one group, and how many they are.

    See :func:`shoal.run`, whose result has one for each group, or one in all.

    Attributes:
        label: The group, or the column.
        mean: None where there may be nobody with a score; then the limits are all scores.
        low: Lower limit of the 95 % interval.
        high: The upper one.
        standard_error: Predicted from the estimate.
        count: About how many people have a score.
        count_low: Lower limit of the count.
        count_high: The upper one.
    """

    label: str
    mean: float | None
    low: float
    high: float
    standard_error: float
    count: float
    count_low: float
    count_high: float

    @property
    def item(self) -> Item | None:
        """As it is shown, if there is a mean."""
        if self.mean is None:
            return None
        return Item(self.label, self.mean, self.low, self.high, self.count)

    def to_dict(self) -> Record:
        """Plain values."""
        named = {"group": self.label, "mean": self.mean, "low": self.low, "high": self.high}
        counted = attributes(self, "count", "count_low", "count_high")
        error = self.standard_error if math.isfinite(self.standard_error) else None
        return {**named, "standard_error": error, **counted}


@dataclass(frozen=True, eq=False)
class _Scale:
    """Answers with scores, these as parts of the way from ``least`` to the largest."""

    k: int
    cells: Codes
    places: Array
    least: float
    span: float

    @classmethod
    def of(cls, k: int, cells: Codes, scores: Array) -> _Scale:
        least, span = float(scores.min()), float(np.ptp(scores))
        return cls(k, cells, (scores - least) / (span or 1.0), least, span)

    @property
    def everybody(self) -> bool:
        """Whether all answers have scores."""
        return self.cells.size == self.k

    @cached_property
    def row(self) -> Array:
        """The weights of answers in the sum of the scores."""
        row = np.zeros(self.k)
        row[self.cells] = self.places
        return row

    @cached_property
    def others(self) -> Array:
        """1 for answers without a score."""
        row = np.ones(self.k)
        row[self.cells] = 0.0
        return row

    def filled(self, mean: float) -> Array:
        """Weights of everybody's mean, if people without a score had this one."""
        return self.row + min(max(mean, _INSIDE), 1 - _INSIDE) * self.others

    def shown(self, place: float) -> float:
        """In the units of the scores."""
        return self.least + self.span * min(max(place, 0.0), 1.0)


def means(
    estimator: AnswerEstimator,
    estimate: Estimate,
    cells: Sequence[Codes],
    scores: Sequence[Array],
    *,
    labels: Sequence[str],
    level: float = 0.95,
    steps: int = 0,
) -> tuple[Mean, ...]:
    """The mean score in each group, ``cells`` being its answers that have ``scores``.

    Let s be the scores on a scale from 0 to 1, and f the fractions of all people. If everybody has
    a score, the mean is Σ s f, with the limits of that (:meth:`AnswerEstimator.weighted`).

    Else it is the ratio of A = Σ s f and C = Σ f over the group, both of them noisy, and its limits
    are Fieller's ("Some problems in interval estimation", 1954): those μ at which the estimate of
    A − μ C is as far from 0 as its error explains. To give μ to all people without a score makes it
    the mean of everybody: A − μ C = 0 just if A + μ (1 − C), a sum with weights from 0 to 1, is μ;
    so μ is among the limits if it is within those of that sum. They hold as often as those do,
    whatever A and C have to do with each other. The errors of A and of C − A, put together as if
    they always fell together, would give limits up to 1.7 times as wide: scores in the middle
    count in both, and cancel.

    An estimate beyond the scale has the limits of the end of it, on the other side, or wider ones.

    Numbers that were rounded at random to one of so many ``steps`` more than one have the error of
    that, too: see :func:`_rounding`.
    """
    scales = _scales(estimator, cells, scores)
    rows = np.array([scale.filled(place) for place in (0.25, 0.75) for scale in scales])
    first, last = estimator.weighted(estimate, rows).frequencies.reshape(2, -1)
    outside = 2 * (last - first)  # people without a score
    inside, total = 1 - outside, first - outside / 4
    fractions = on_simplex(estimate)
    known = np.array([float(estimate.unbiased[scale.cells].sum()) for scale in scales])
    sizes = estimator.sums(estimate, known, np.array([scale.cells.size for scale in scales]))
    possibly = np.array(possible(sizes, level))
    ends = possibly * estimate.n
    rounded = np.where([scale.everybody for scale in scales], 1.0, possibly[1]) * bool(steps)
    low, high = _limits(estimator, estimate, scales, (total, inside), level, (steps, rounded))
    made = []
    for i, (label, scale) in enumerate(zip(labels, scales, strict=True)):
        count, fewest, most = float(sizes.counts[i]), float(ends[0, i]), float(ends[1, i])
        if scale.everybody:
            count = fewest = most = float(estimate.n)
        place, limits = None, (0.0, 1.0)
        error = math.inf
        if fewest > 0 and inside[i] > 0:
            limits = float(low[i]), float(high[i])
            place = min(max(float(total[i] / inside[i]), limits[0]), limits[1])
            weights = scale.filled(place)[None]
            variance = float(estimator.weighted_variance(weights, fractions, n=estimate.n)[0])
            if steps:
                fraction = float(min(inside[i], 1.0))
                variance += float(_rounding(np.array(place), steps)) * fraction / estimate.n
            error = scale.span * math.sqrt(variance) / float(inside[i])
        made.append(
            Mean(
                label=label,
                mean=None if place is None else scale.shown(place),
                low=scale.shown(limits[0]),
                high=scale.shown(limits[1]),
                standard_error=error,
                count=count,
                count_low=fewest,
                count_high=most,
            )
        )
    return tuple(made)


def predicted(
    estimator: AnswerEstimator,
    cells: Sequence[Codes],
    scores: Sequence[Array],
    *,
    frequencies: Array,
    n: int,
) -> Array:
    """The standard error to expect of each mean, if n people's true fractions are these.

    By the delta method: that of A − μ C over C (see :func:`means`), at the true mean μ. As good as
    the variance that the mechanism knows of weighted sums, and as C is larger than its own error;
    infinite for a group of nobody.
    """
    errors = []
    for scale in _scales(estimator, cells, scores):
        inside = float(frequencies[scale.cells].sum())
        if inside <= 0:
            errors.append(math.inf)
            continue
        weights = scale.filled(float(scale.row @ frequencies) / inside)[None]
        variance = float(estimator.weighted_variance(weights, frequencies, n=n)[0])
        errors.append(scale.span * math.sqrt(variance) / inside)
    return np.array(errors)


def _scales(
    estimator: AnswerEstimator, cells: Sequence[Codes], scores: Sequence[Array]
) -> list[_Scale]:
    groups = zip(cells, scores, strict=True)
    return [_Scale.of(estimator.k, own, np.asarray(score, dtype=float)) for own, score in groups]


def _rounding(means: Array, steps: int) -> Array:
    """The largest variance that random rounding adds to a number, on the scale from 0 to 1.

    Between two steps it adds f (1 − f) of a step squared. Averaged over numbers with this mean that
    is 1/4 at most, and e (1 − e) at a distance e < 1/2 from an end, as the function is concave.
    """
    ends = np.clip(np.minimum(means, 1 - means) * steps, 0.0, 0.5)
    return np.asarray(ends * (1 - ends) / steps**2)


def _limits(
    estimator: AnswerEstimator,
    estimate: Estimate,
    scales: Sequence[_Scale],
    seen: tuple[Array, Array],
    level: float,
    rounded: tuple[int, Array],
) -> tuple[Array, Array]:
    """On the scale from 0 to 1, between the ends and the estimates: all lower limits, all upper.

    A trial mean is beyond a limit where it is not within the limits of everybody's mean that it
    makes.
    """
    two, (total, inside), (steps, fractions) = len(scales), seen, rounded
    with np.errstate(divide="ignore", invalid="ignore"):
        place = np.where(inside > 0, total / inside, 0.5)
    beyond = np.maximum(np.maximum(-total, total - inside), 0.0)  # of the scale

    def outside(trials: Array) -> Array:
        """By how much the trial means (lower ends first) are beyond the limits, or less than 0."""
        rows = [scale.filled(each) for scale, each in zip([*scales, *scales], trials, strict=True)]
        sums = estimator.weighted(estimate, np.array(rows))
        low, high = sums.interval(level)
        if steps:
            added = _rounding(trials, steps) * np.tile(fractions, 2) / estimate.n
            low, high = widened(sums, added, level)
        over = np.append((low - trials)[:two], (trials - high)[two:])
        return np.asarray(over - np.tile(beyond, 2))

    # The sum of everybody's scores is the same for all trials, and so are its limits.
    known = np.array([scale.everybody and not steps for scale in scales])
    return ratio_limits(outside, np.clip(place, 0.0, 1.0), known)
