"""Charts and tables of estimates: the fractions of answers, a mean, a mean vector.

A chart has a row for each answer or coordinate, drawn on an axis in percent of its length.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from shoal.explain.text import measured
from shoal.report.markup import Markup, element, join
from shoal.values import AnyEstimate, Array, Estimate, MeanEstimate, VectorEstimate

if TYPE_CHECKING:
    from shoal.accounting.guarantee import Guarantee
    from shoal.report.result import ColumnResult

SHOWN = 40
LEVEL = 0.95
HEIGHT = 26  # of a row
INTERVAL = "95 % interval, of the noise alone"
SHARE_KEYS = (  # the last where some bars are faint
    ("fill", "estimated fraction"),
    ("reach", INTERVAL),
    ("fill pale", "cannot be told from nobody"),
)
INTERVALS = (
    "A 95 % interval is of {} among those who answered, and counts the noise alone: not who "
    "happened to answer, and not false reports."
)
_FOLDED = 12  # answers: few are open to see, many are folded away; a printer gets them all
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


def percent(value: float, margin: float) -> str:
    """A percentage, to the two digits of its margin.

    >>> percent(49.613, 0.0872)
    '49.613 %'
    """
    return f"{measured(value, margin)} %"


def whole(value: float) -> str:
    """People, in whole numbers."""
    return f"{round(value):,}".replace("-", "−")


def number(value: float) -> str:
    """A number without a margin: five digits, or as many as a whole number has."""
    return (f"{value:,.0f}" if abs(value) >= 1e5 else f"{value:,.5g}").replace("-", "−")


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


pc = "{:.3f}%".format  # a place on the axis, for an attribute


def upright(x: float, top: float, bottom: float, kind: str) -> Markup:
    """A vertical line at so many percent."""
    return element("line", x1=pc(x), x2=pc(x), y1=top, y2=bottom, class_=kind)


def row(axis: Axis, item: Item, *more: str, remark: str = "", **numbers: str) -> Markup:
    """A label, its bar or dot with the interval on the axis, and the value with its margin.

    ``more`` comes after the value, ``remark`` where the row is put into words, and ``numbers`` are
    for scripts.
    """
    zero, place, first, last = (axis.at(x) for x in (0.0, item.value, item.low, item.high))
    value, low, high = map(item.shown, (item.value, item.low, item.high))
    middle = HEIGHT / 2
    marks = [upright(axis.at(tick), 0, HEIGHT, "grid") for tick in axis.ticks() if tick]
    if item.unit:
        size = {"x": pc(min(zero, place)), "width": pc(abs(place - zero))}
        marks.append(element("rect", **size, y=5, height=HEIGHT - 10, rx=2, class_="fill"))
    marks += [
        upright(zero, 0, HEIGHT, "zero"),
        element("line", x1=pc(first), x2=pc(last), y1=middle, y2=middle, class_="reach"),
        upright(first, middle - 4, middle + 4, "reach"),
        upright(last, middle - 4, middle + 4, "reach"),
    ]
    if not item.unit:
        marks.append(element("circle", cx=pc(place), cy=middle, r=5, class_="fill"))
    if item.truth is not None:
        marks.append(upright(axis.at(item.truth), 1, HEIGHT - 1, "truth"))
    title = element("title", f"{item.label}: {value}")
    margin = element("small", f" ± {measured(item.margin, item.margin)}")
    return element(
        "div",
        element("span", item.label, class_="label", dir="auto", title=item.label),
        element("svg", title, *marks, height=HEIGHT, width="100%", aria_hidden="true"),
        element("span", value, margin, *more, class_="value"),
        class_="bar" if item.significant else "bar faint",
        role="img",
        aria_label=f"{item.label}: {value}, between {low} and {high}{remark}",
        **numbers,
    )


def scale(axis: Axis, unit: str = "") -> Markup:
    """The round numbers below a chart of bars; those at the ends of the axis stay inside it."""
    marks = []
    for tick, text in axis.ticks().items():
        at = axis.at(tick)
        anchor = "start" if at < 2 else "end" if at > 98 else "middle"
        marks.append(element("text", text + unit, x=pc(at), y=15, text_anchor=anchor))
    drawn = element("svg", *marks, height=20, width="100%", class_="scale", aria_hidden="true")
    return element("div", element("span", ""), drawn, element("span", ""), class_="bar axis")


def key(kind: str, text: str) -> Markup:
    """A mark, and what it means."""
    if kind == "reach":
        ends = [upright(at, 3, 11, "reach") for at in (1.0, 95.0)]
        mark = join(element("line", x1=1, x2=19, y1=7, y2=7, class_="reach"), *ends)
    elif kind == "truth":
        mark = upright(50.0, 0, 14, "truth")
    else:
        mark = element("rect", x=0, y=2, width=20, height=10, rx=2, class_=kind)
    icon = element("svg", mark, width=20, height=14, aria_hidden="true")
    return element("span", icon, " ", text, class_="key")


# --------------------------------------------------------------------------------------- charts


def axis_of(rows: Sequence[Item]) -> Axis:
    """An axis that holds zero, all intervals and what is true."""
    truths = [item.truth for item in rows if item.truth is not None]
    ends = [0.0, *(end for item in rows for end in (item.low, item.high)), *truths]
    return Axis.spanning(*ends) if rows[0].unit else Axis.between(min(ends), max(ends))


def section(column: ColumnResult, *, headed: bool) -> Markup:
    """The chart of a column, under its name if it is ``headed``, and how to read it."""
    heading = [element("h2", column.column)] if headed else []
    fractions = isinstance(column.estimate, Estimate)
    hints = [INTERVALS.format("a fraction" if fractions else "the mean")]
    if isinstance(column.estimate, MeanEstimate):
        drawn = mean_chart(column, column.estimate)
    else:
        rows = items(column.labels, column.estimate, column.truth)
        drawn = chart(rows, column.column)
        if fractions and any(row.value < 0 for row in rows[:SHOWN]):
            hints.insert(0, "A fraction below zero is noise around zero: read it as few or none.")
    return element("section", *heading, drawn, *(element("p", x, class_="more") for x in hints))


def chart(rows: Sequence[Item], name: str) -> Markup:
    """Bars of fractions, or dots of coordinates, with intervals; beyond ``SHOWN`` how many."""
    if not rows:
        return element("p", "No answer stands out from the noise.")
    shown, fractions = rows[:SHOWN], rows[0].unit != ""
    axis = axis_of(shown)
    keys = [("reach", f"mean of the coordinate, {INTERVAL}")]
    if fractions:
        keys = [*SHARE_KEYS[: 2 + any(not item.significant for item in shown)]]
    if shown[0].truth is not None:
        keys.append(("truth", f"true {'fraction' if fractions else 'mean'}: not private"))
    what = "answers" if fractions else "coordinates"
    more = f"and {len(rows) - len(shown):,} more {what}, in the table below"
    bars = [row(axis, item) for item in shown]
    return element(
        "figure",
        element("figcaption", *(key(*each) for each in keys), class_="legend"),
        element("div", *bars, scale(axis, rows[0].unit), class_="bars"),
        element("p", more, class_="more") if len(rows) > len(shown) else "",
        class_="chart",
        aria_label=f"Estimated {'fractions of the answers to' if fractions else 'mean of'} {name}",
    )


def bounds(column: ColumnResult) -> tuple[float, float] | None:
    """The public bounds that the randomizer worked with, if it has any."""
    low, high = (getattr(column.randomizer, name, None) for name in ("low", "high"))
    return None if low is None or high is None else (float(low), float(high))


@dataclass(frozen=True)
class MeanChart:
    """A mean on the axis of its bounds, and on a closer one if its interval is narrow."""

    name: str
    n: int
    mean: float
    low: float
    high: float
    axes: tuple[Axis, ...]
    truth: float | None

    @classmethod
    def of(cls, column: ColumnResult, estimate: MeanEstimate) -> MeanChart:
        """The chart of a column."""
        low, high = estimate.interval(LEVEL)
        around = _AROUND * (high - low)
        close = Axis.between(estimate.mean - around, estimate.mean + around)
        limits = bounds(column)
        axis = close if limits is None else Axis(*limits)
        narrow = high - low < _NARROW * (axis.high - axis.low)
        truth = None if column.truth is None else float(column.truth.ravel()[0])
        axes = (axis, close) if narrow else (axis,)
        return cls(column.column, column.n, estimate.mean, low, high, axes, truth)

    @property
    def margin(self) -> float:
        """Half the width of the interval."""
        return (self.high - self.low) / 2

    def shown(self, value: float) -> str:
        """A value to the digits of the margin."""
        return measured(value, self.margin)


def mean_chart(column: ColumnResult, estimate: MeanEstimate) -> Markup:
    """The mean on the axis of the bounds; below it the interval, drawn larger, if it is narrow."""
    (mean,) = items((), estimate, column.truth)
    low, high, truth = mean.low, mean.high, mean.truth
    around = _AROUND * (high - low)
    close = Axis.between(mean.value - around, mean.value + around)
    limits = bounds(column)
    axis = close if limits is None else Axis(*limits)

    def drawn(axis: Axis) -> Markup:
        ends = {"x1": pc(axis.at(low)), "x2": pc(axis.at(high))}
        parts = [
            element("line", x1="0%", x2="100%", y1=18, y2=18, class_="zero"),
            element("line", **ends, y1=18, y2=18, class_="reach thick"),
            element("circle", cx=pc(axis.at(mean.value)), cy=18, r=6, class_="fill"),
            *([] if truth is None else [upright(axis.at(truth), 4, 32, "truth")]),
        ]
        for end, place, anchor in ((axis.low, "0%", "start"), (axis.high, "100%", "end")):
            parts.append(element("line", x1=place, x2=place, y1=12, y2=24, class_="zero"))
            parts.append(element("text", number(end), x=place, y=42, text_anchor=anchor))
        return element("svg", *parts, height=48, width="100%", class_="scale", aria_hidden="true")

    axes = [drawn(axis)]
    if high - low < _NARROW * (axis.high - axis.low):
        axes += [element("p", "closer:", class_="more"), drawn(close)]
    value, interval = mean.cells
    return element(
        "figure",
        element("p", value, element("small", f" ± {mean.shown(mean.margin)}")),
        *axes,
        class_="chart mean",
        role="img",
        aria_label=f"{column.column}: mean {value}, 95 % interval {interval}",
    )


# --------------------------------------------------------------------------------------- tables


def html_table(heads: Sequence[str], lines: Iterable[tuple[Sequence[str], str]]) -> Markup:
    """A table; each line has its cells, the first of which heads it, and a class."""
    head = [element("tr", *(element("th", text, scope="col") for text in heads))] if heads else []
    body = [
        element(
            "tr",
            element("th", first, scope="row"),
            *(cell if isinstance(cell, Markup) else element("td", cell) for cell in cells),
            **({"class_": kind} if kind else {}),
        )
        for (first, *cells), kind in lines
    ]
    return element("table", *(element("thead", line) for line in head), element("tbody", *body))


def counted(guarantee: Guarantee) -> str:
    """What a collection counts: people, or reports if one person may have sent several."""
    return "people" if guarantee.rounds == 1 else "reports"


def table(column: ColumnResult) -> Markup:
    """Every estimate with its limits."""
    estimate, true = column.estimate, column.truth is not None
    rows = items(column.labels, estimate, column.truth)
    lines: list[tuple[Sequence[str], str]] = []
    if isinstance(estimate, MeanEstimate):
        (mean,), n = rows, estimate.n
        total = Item("sum", n * mean.value, n * mean.low, n * mean.high)
        lines += [((item.label, *item.cells), "") for item in (mean, total)]
        if mean.truth is not None:
            true_mean = element("td", mean.shown(mean.truth), class_="true")
            lines.append((("true mean: not private", true_mean, ""), ""))
        heads = ["", "estimate", "95 % interval"]
        return element("div", html_table(heads, lines), class_="wide")
    what, heads = "coordinates", ["coordinate", "mean", "95 % interval", "standard error", "sum"]
    if isinstance(estimate, Estimate):
        about = f"{counted(column.guarantee)}, about"
        what, heads = "answers", ["answer", "fraction", "95 % interval", about]
    heads += [f"true {heads[1]}"] * true
    for each in rows:
        cells = [each.label, *each.cells]
        if isinstance(estimate, VectorEstimate):
            cells.append(measured(each.error, each.error))
            cells.append(measured(each.total, each.margin * column.n))
        else:
            cells.append(whole(each.total))
        if each.truth is not None:
            cells.append(element("td", each.shown(each.truth), class_="true"))
        lines.append((cells, "" if each.significant else "faint"))
    many = len(column.labels)
    return element(
        "details",
        element("summary", f"All {many:,} {what}"),
        element("div", html_table(heads, lines), class_="wide"),
        **({"open": ""} if many <= _FOLDED else {}),
    )
