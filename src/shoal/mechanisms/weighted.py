"""Weighted sums of fractions: bounds on a variance that depends on the data, and their limits."""

from __future__ import annotations

from dataclasses import dataclass
from statistics import NormalDist

import numpy as np

from shoal import checks
from shoal.values import Array, Estimate, Flags

_SPARE = 0.05  # of what an interval may miss: for the limit of the variance
_STEEPEST = 1024.0  # slope of a line, in ranges of the variance over the range of the weights
_HALVINGS = 60
_EDGE = 1e-9  # of the range of the weights
_STRAIGHT = 1e-9  # of a variance


def units(weights: Array) -> tuple[Array, Array, Array]:
    """The least weight of each row, their range, and the weights as parts of it from there."""
    low = weights.min(axis=1)
    span = weights.max(axis=1) - low
    scaled = (weights - low[:, None]) / np.where(span > 0, span, 1.0)[:, None]
    return low, span, scaled


@dataclass(frozen=True, eq=False, kw_only=True)
class LinearTotals(Estimate):
    """Weighted sums Σ w_j f_j by a bound on their n-fold variance Σ f_j V_j that is linear in them.

    It is the tangent of the least concave function of the weight that is nowhere below V_j: of
    all lines above every (w_j, V_j) the lowest at the estimate. Whatever people answer, the mean of
    V_j is at most such a line at the mean of w_j. ``units`` are the sums with the weights of each
    row scaled to ``spans`` of 1 from ``lows`` of 0; ``straight`` says where V_j are on the line, so
    that it is exact.
    """

    units: Estimate
    lows: Array
    spans: Array
    straight: Flags

    @classmethod
    def of(cls, values: Array, weights: Array, spread: Array, seen: Estimate) -> LinearTotals:
        """With V_j = ``spread``, from the estimates that were ``seen`` of single fractions."""
        low, span, scaled = units(weights)
        known = np.where(span > 0, span, 1.0)
        at, spread = (values - low) / known, spread / known[:, None] ** 2
        first, slope = _lowest_line(scaled, spread, np.clip(at, _EDGE, 1 - _EDGE))
        # It goes on beyond the weights, as limits take it to; at half of its least height at least.
        least = np.maximum(np.minimum(first, first + slope) / 2, 0.0)
        errors = np.sqrt(np.maximum(first + slope * at, least) / seen.n)
        above = (first[:, None] + slope[:, None] * scaled - spread).max(axis=1)
        steps = {"step": seen.step, "granularity": seen.granularity}
        return cls(
            values,
            span * errors,
            seen.n,
            **steps,
            units=Estimate(at, errors, seen.n, variance_slope=slope / seen.n, **steps),
            lows=low,
            spans=span,
            straight=above <= _STRAIGHT * spread.max(axis=1),
        )

    def interval(self, level: float = 0.95, *, simultaneous: bool = False) -> tuple[Array, Array]:
        """Score limits."""
        low, high = self.units.interval(level, simultaneous=simultaneous)
        return self.lows + self.spans * low, self.lows + self.spans * high


@dataclass(frozen=True, eq=False, kw_only=True)
class WeightedTotals(Estimate):
    """Weighted sums Σ w_j f_j by two bounds on their n-fold variance Σ f_j V_j.

    The first, ``line``, holds whatever the data are. The other is an upper limit of Σ f_j V_j, a
    weighted sum as well, whose estimates are ``spreads``; the ``largest`` V_j are more than enough.
    The interval is what limits by both have in common, with 95 % of what it may miss for the sum
    and 5 % for its variance. Where the line is exact, it is all that is needed.
    """

    line: LinearTotals
    spreads: LinearTotals
    largest: Array

    def interval(self, level: float = 0.95, *, simultaneous: bool = False) -> tuple[Array, Array]:
        """Score limits by the line, and normal ones by the limit of the variance."""
        checks.open_probability(level=level)
        outside = (1 - level) / (2 * self.frequencies.size if simultaneous else 1)
        spare = _SPARE * outside
        low, high = self.line.interval(1 - outside + spare)
        _, most = self.spreads.interval(1 - 2 * spare)
        z = NormalDist().inv_cdf(1 - (outside - spare) / 2)
        reach = z * np.sqrt(np.clip(most, 0.0, self.largest) / self.n)
        reach += self.line.spans * self._uneven(z)
        straight = self.line.straight, *self.line.interval(1 - outside)
        return (
            np.where(straight[0], straight[1], np.maximum(low, self.frequencies - reach)),
            np.where(straight[0], straight[2], np.minimum(high, self.frequencies + reach)),
        )


def _lowest_line(weights: Array, spread: Array, at: Array) -> tuple[Array, Array]:
    """Heights at the weight 0, and slopes, of lines above all points (rows), lowest at one place.

    A line of any slope can be put above them, so that halving may end anywhere.
    """
    steepest, rows = _STEEPEST * np.ptp(spread, axis=1), np.arange(at.size)
    low, high = -steepest, steepest
    for _ in range(_HALVINGS):
        slope = (low + high) / 2
        touching = np.argmax(spread - slope[:, None] * weights, axis=1)
        lower = weights[rows, touching] < at  # then the line is lower there with a lesser slope
        low, high = np.where(lower, low, slope), np.where(lower, slope, high)
    slope = (low + high) / 2
    return (spread - slope[:, None] * weights).max(axis=1), slope
