"""What there is to be shown of estimates: the fractions of answers, a mean, a mean vector.

A chart has a row for each answer or coordinate, at places on an axis in percent of its length;
``charts.html`` draws them.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np

from shoal.explain.text import measured
from shoal.values import AnyEstimate, Array, Estimate, MeanEstimate, VectorEstimate

if TYPE_CHECKING:
    from shoal.accounting.guarantee import Guarantee
    from shoal.report.result import ColumnResult

SHOWN = 40
LEVEL = 0.95
_NARROW = 0.1
_AROUND = 2.0
_STEPS = (1.0, 2.0, 2.5, 5.0, 10.0)
_TICKS = 5
_SLACK = 1e-9


# ------------------------------------------------------------------- what there is to be shown


@dataclass(frozen=True)
class Item:
    """An answer's fraction in percent, a mean or a coordinate of it, and its interval.

    ``total`` is people, about, or the sum over them. What is not ``significant`` may be mere noise.
    """

    label: str
    value: float
    low: float
    high: float
    total: float = 0.0
    significant: bool = True
    truth: float | None = None
    error: float = 0.0
    unit: str = ""

    @property
    def margin(self) -> float:
        """Half the width of the interval."""
        return (self.high - self.low) / 2

    def shown(self, value: float) -> str:
        """A value to the digits of the margin."""
        return measured(value, self.margin) + self.unit

    @property
    def cells(self) -> tuple[str, str]:
        """The value and its interval."""
        return self.shown(self.value), f"{self.shown(self.low)} to {self.shown(self.high)}"


def items(labels: Sequence[str], estimate: AnyEstimate, truth: Array | None = None) -> list[Item]:
    """The answers, largest first, the coordinates, in the order of the columns, or the mean."""
    if isinstance(estimate, MeanEstimate):
        true = None if truth is None else float(truth.ravel()[0])
        ends = estimate.interval(LEVEL)
        return [Item("mean", estimate.mean, *ends, estimate.sum, truth=true)]
    if not labels:
        return []
    low, high = estimate.interval(LEVEL)
    if isinstance(estimate, VectorEstimate):
        values, totals, scale, unit = estimate.mean, estimate.sum, 1, ""
        order, significant = np.arange(values.size), np.full(values.size, fill_value=True)
    else:
        values, totals, scale, unit = estimate.frequencies, estimate.counts, 100, " %"
        order = np.argsort(-values, kind="stable")
        significant = values >= estimate.noise_floor(LEVEL)
    return [
        Item(
            label=labels[i],
            value=scale * float(values[i]),
            low=scale * float(low[i]),
            high=scale * float(high[i]),
            total=float(totals[i]),
            significant=bool(significant[i]),
            truth=None if truth is None else scale * float(truth[i]),
            error=float(estimate.standard_errors[i]),
            unit=unit,
        )
        for i in order.tolist()
    ]


# ------------------------------------------------------------------------ what they are drawn with


@dataclass(frozen=True)
class Axis:
    """From ``low`` to ``high``, left to right."""

    low: float
    high: float

    @classmethod
    def spanning(cls, *values: float) -> Axis:
        """An axis that holds zero and all values and ends at a round number."""
        low, high = min(0.0, *values), max(0.0, *values)
        high = high if high > low else low + 1.0
        step = cls(low, high).step
        return cls(low, step * math.ceil(high / step - _SLACK))

    @classmethod
    def between(cls, low: float, high: float) -> Axis:
        """The smallest axis between round numbers that holds both."""
        step = cls(low, high).step
        first, last = math.floor(low / step + _SLACK), math.ceil(high / step - _SLACK)
        return cls(step * first, step * last)

    @property
    def step(self) -> float:
        """A round number, of which about half a dozen make the axis."""
        rough = (self.high - self.low) / _TICKS
        scale = 10.0 ** math.floor(math.log10(rough))
        return scale * next(step for step in _STEPS if step * scale >= rough * (1 - _SLACK))

    def at(self, value: float) -> float:
        """Percent of the length, kept inside."""
        return 100 * min(1.0, max(0.0, (value - self.low) / (self.high - self.low)))

    def ticks(self) -> dict[float, str]:
        """Round numbers, about half a dozen, with as many decimals as tell them apart."""
        step = self.step
        first = math.ceil(self.low / step - _SLACK)
        last = math.floor(self.high / step + _SLACK)
        exact = (d for d in range(12) if math.isclose(step, round(step, d), rel_tol=1e-6))
        decimals = next(exact, 12)
        places = (step * place for place in range(first, last + 1))
        return {tick: f"{tick:,.{decimals}f}".replace("-", "−") for tick in places}


# --------------------------------------------------------------------------------------- charts


def axis_of(rows: Sequence[Item]) -> Axis:
    """An axis that holds zero, all intervals and what is true."""
    truths = [item.truth for item in rows if item.truth is not None]
    ends = [0.0, *(end for item in rows for end in (item.low, item.high)), *truths]
    return Axis.spanning(*ends) if rows[0].unit else Axis.between(min(ends), max(ends))


def bounds(column: ColumnResult) -> tuple[float, float] | None:
    """The public bounds that the randomizer worked with, if it has any."""
    low, high = (getattr(column.randomizer, name, None) for name in ("low", "high"))
    return None if low is None or high is None else (float(low), float(high))


@dataclass(frozen=True)
class Chart:
    """A column on an axis; a mean on that of its bounds, and a closer one if that is too long."""

    column: ColumnResult
    kind: Literal["fractions", "coordinates", "mean"]
    items: list[Item]
    axes: tuple[Axis, ...]

    @classmethod
    def of(cls, column: ColumnResult) -> Chart:
        """The chart of a column; of many answers, the axis is that of the largest."""
        rows = items(column.labels, column.estimate, column.truth)
        if not isinstance(column.estimate, MeanEstimate):
            fractions = isinstance(column.estimate, Estimate)
            axes = (axis_of(rows[:SHOWN]),) if rows else ()
            return cls(column, "fractions" if fractions else "coordinates", rows, axes)
        (mean,) = rows
        width = mean.high - mean.low
        close = Axis.between(mean.value - _AROUND * width, mean.value + _AROUND * width)
        limits = bounds(column)
        axis = close if limits is None else Axis(*limits)
        narrow = width < _NARROW * (axis.high - axis.low)
        return cls(column, "mean", rows, (axis, close) if narrow else (axis,))

    @property
    def total(self) -> Item:
        """The sum over all people, of a mean."""
        (mean,), n = self.items, self.column.n
        return Item("sum", n * mean.value, n * mean.low, n * mean.high)


def counted(guarantee: Guarantee) -> str:
    """What a collection counts: people, or reports if one person may have sent several."""
    return "people" if guarantee.rounds == 1 else "reports"
