"""What there is to be shown of estimates: the fractions of answers, a mean, a mean vector.

A chart has a row for each answer or coordinate, at places on an axis in percent of its length;
``charts.html`` draws them.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Literal

import numpy as np

from shoal.estimate import top
from shoal.explain.text import Item
from shoal.intervals.estimates import AnyEstimate, Estimate, MeanEstimate, VectorEstimate
from shoal.values import Array

if TYPE_CHECKING:
    from shoal.accounting.guarantee import Guarantee
    from shoal.questions.edges import Edges
    from shoal.results.result import ColumnResult

SHOWN = 40
RANKED = 500  # answers, the largest ones
LEVEL = 0.95
Kind = Literal["fractions", "coordinates", "mean", "means", "bins", "groups"]
_NARROW = 0.1
_AROUND = 2.0
_STEPS = (1.0, 2.0, 2.5, 5.0, 10.0)
_TICKS = 5
_SLACK = 1e-9
_BARS = 200
_EQUAL = 1.25  # months are, and bins of whole numbers of which one holds one more
_DATES = 5


# ------------------------------------------------------------------- what there is to be shown


def items(
    labels: Sequence[str],
    estimate: AnyEstimate,
    truth: Array | None = None,
    *,
    order: Sequence[int] | None = None,
) -> list[Item]:
    """The answers, in their ``order`` or the largest first, or the mean.

    Its coordinates are in the order of the columns.
    """
    if isinstance(estimate, MeanEstimate):
        true = None if truth is None else float(truth.ravel()[0])
        ends = estimate.interval(LEVEL)
        return [Item("mean", estimate.mean, *ends, estimate.sum, truth=true)]
    if not labels:
        return []
    low, high = estimate.interval(LEVEL)
    unit, scale = "", 1.0
    if isinstance(estimate, VectorEstimate):
        values, totals = estimate.mean, estimate.sum
        places, significant = np.arange(values.size), np.full(values.size, fill_value=True)
    else:
        unit, scale = " %", 100.0
        values, totals = estimate.frequencies, estimate.counts
        places = np.argsort(-values, kind="stable") if order is None else np.array(order)
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
        for i in places.tolist()
    ]


@dataclass(frozen=True, kw_only=True)
class Answer(Item):
    """An answer beside all others, the place of which is ``index``.

    ``significant``: more than mere noise reaches anywhere, with probability 95 %. ``separated``:
    more than every answer whose estimate is smaller, beyond the noise; None where there is no such
    answer. The intervals behind it hold together.
    """

    index: int
    separated: bool | None


def ranked(labels: Sequence[str], estimate: Estimate) -> list[Answer]:
    """The largest answers, ``RANKED`` of them at most, marked for what can be said about them."""
    ranking, last = top(estimate, RANKED, LEVEL), len(labels) - 1
    rows = zip(items(labels, estimate)[:RANKED], ranking, strict=True)
    return [
        Answer(
            **vars(item),
            index=each.index,
            separated=None if place == last else each.separated,
        )
        for place, (item, each) in enumerate(rows)
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


@dataclass(frozen=True)
class Panel:
    """The answers of one group, and how many people it has: as a number, and in words.

    There are no items if there may be nobody.
    """

    label: str
    size: Item
    items: list[Item]
    people: str


@dataclass(frozen=True)
class Chart:
    """A column on an axis; a mean on that of its bounds, and a closer one if that is too long."""

    column: ColumnResult
    kind: Kind
    items: list[Item]
    axes: tuple[Axis, ...]
    panels: tuple[Panel, ...] = ()

    @classmethod
    def of(cls, column: ColumnResult) -> Chart:
        """The chart of a column; of many answers, the axis is that of the largest."""
        rows, panels, kind = column.items(), tuple[Panel, ...](), column.kind
        if kind == "bins":
            return Histogram.drawn(column)
        if kind == "groups":
            panels = tuple(column.panels())
            rows = [item for panel in panels for item in panel.items[:SHOWN]]
        if kind != "mean":
            axes = (axis_of(rows if panels else rows[:SHOWN]),) if rows else ()
            return cls(column, kind, rows, axes, panels)
        (mean,) = rows
        width = mean.high - mean.low
        close = Axis.between(mean.value - _AROUND * width, mean.value + _AROUND * width)
        limits = column.bounds
        axis = close if limits is None else Axis(*limits)
        narrow = width < _NARROW * (axis.high - axis.low)
        return cls(column, "mean", rows, (axis, close) if narrow else (axis,))

    @property
    def total(self) -> Item:
        """The sum over all people, of a mean; how many it is of, if some may have no number."""
        (mean,), n = self.items, self.column.n
        if self.column.means:
            (of,) = self.column.means
            return Item("have a number", of.count, of.count_low, of.count_high)
        return Item("sum", n * mean.value, n * mean.low, n * mean.high)

    @property
    def messages(self) -> float:
        """What one person sends for the column, on average, in all reports."""
        devices = (self.column.randomizer, *self.column.levels)
        reports = self.column.guarantee.columns / len(devices)
        return reports * math.fsum(device.messages for device in devices)


class Histogram(Chart):
    """Bins in their order, as wide as they are, and the cumulative curve above them.

    Behind the bins are people without a value. Places are percent of the width; the curve and its
    band go down from the upper left, in fractions. Bars of bins that are not equally wide have
    their fractions as areas: their heights are per ``unit``.
    """

    @classmethod
    def drawn(cls, column: ColumnResult) -> Histogram:
        """The chart of a column in bins, its axis that of the bars."""
        chart = cls(column, "bins", column.items(), ())
        return replace(chart, axes=(axis_of([high for _, _, high, _ in chart.bars()]),))

    @property
    def bins(self) -> Edges:
        """The public bins."""
        assert self.column.bins is not None  # noqa: S101 - else it is another chart
        return self.column.bins

    @property
    def beside(self) -> list[Item]:
        """People without a value."""
        return self.items[len(self.bins) :]

    @property
    def share(self) -> float:
        """Percent of the width that the bins have; a bar for people without a value has the rest.

        They are no area of the bins, so that there is none beside areas.
        """
        k = len(self.bins)
        return 100.0 if self.unit else 100 * k / (k + max(1.5, k / 8) * len(self.beside))

    @cached_property
    def _places(self) -> Array:
        """Where the edges are."""
        edges = np.array(self.bins.edges)
        return np.asarray(self.share * (edges - edges[0]) / (edges[-1] - edges[0]))

    def at(self, place: float) -> float:
        """Where something is that lies so many bins from the first edge on."""
        return float(np.interp(place, np.arange(self._places.size), self._places))

    @property
    def unit(self) -> float | None:
        """A power of ten near the width of most bins, if they are not equally wide."""
        widths = np.diff(self.bins.edges)
        if widths.max() <= _EQUAL * widths.min():
            return None
        return 10.0 ** math.floor(math.log10(np.median(widths)))

    @property
    def per(self) -> str:
        """What the heights of bars that are not equally wide are of."""
        if self.unit is None:
            return ""
        days = f" day{'s' * (self.unit != 1)}" if self.bins.dates else ""
        return f"{self.unit:g}{days}"

    def bars(self) -> list[tuple[float, float, Item, Item]]:
        """Where every bar begins, how wide it is, how high, and what it shows.

        Many bins are shown several at a time; people without a value are behind the last one.
        """
        items, last = self.column.items(_BARS), len(self.bins)
        size = -(-last // (len(items) - len(self.beside)))
        bars = []
        for first, item in zip(range(0, last, size), items, strict=False):
            stop = min(first + size, last)
            left, width = self.at(first), self.bins.edges[stop] - self.bins.edges[first]
            high = item.scaled(self.unit / width) if self.unit else item
            bars.append((left, self.at(stop) - left, high, item))
        if self.share < 100:
            wide = self.share * size / last
            start = (100 + self.share) / 2 - wide / 4
            bars += [(start, wide, item, item) for item in self.beside]
        return bars

    def ticks(self) -> list[tuple[float, str]]:
        """Round numbers, or some dates that bins begin with."""
        edges, last = self.bins.edges, len(self.bins)
        if not self.bins.dates:
            axis = Axis(edges[0], edges[-1])
            return [(self.share * axis.at(tick) / 100, text) for tick, text in axis.ticks().items()]
        step = -(-last // _DATES)
        return [(self.at(i), str(self.bins.shown(edges[i]))) for i in range(0, last, step)]

    @property
    def percent(self) -> Axis:
        """From nobody to everybody."""
        return Axis(0.0, 100.0)

    def curve(self) -> str:
        """The cumulative fractions, as points of a line."""
        return self._points(self.column.distribution.cumulative().fractions)

    def band(self, *, simultaneous: bool) -> str:
        """Between its limits, as points of an area."""
        curve = self.column.distribution.cumulative(LEVEL, simultaneous=simultaneous)
        back = self._points(curve.high).split(" ")[::-1]
        return f"{self._points(curve.low)} {' '.join(back)}"

    def _points(self, fractions: Array) -> str:
        heights = zip(self._places.tolist(), [0.0, *fractions.tolist()], strict=True)
        return " ".join(f"{place:.4f},{1 - height:.5f}" for place, height in heights)


def counted(guarantee: Guarantee) -> str:
    """What a collection counts: people, or reports if one person may have sent several."""
    return "people" if guarantee.rounds * guarantee.reports == 1 else "reports"
