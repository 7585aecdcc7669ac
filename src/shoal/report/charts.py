"""Charts and tables of estimates: the shares of answers, a mean, a mean vector."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from shoal.estimate.ranking import noise_floor
from shoal.explain.text import measured
from shoal.report import drawing, words
from shoal.report.drawing import Axis
from shoal.report.markup import Markup, element
from shoal.values import Estimate, MeanEstimate, VectorEstimate

if TYPE_CHECKING:
    from shoal.report.page import ReportedColumn

SHOWN = 40
LEVEL = 0.95
_NARROW = 0.1
_AROUND = 2.0


# ---------------------------------------------------------------------------- shares of answers


@dataclass(frozen=True)
class Share:
    """One answer: shares in percent, and whether it is more than noise."""

    label: str
    value: float
    low: float
    high: float
    people: float
    significant: bool
    truth: float | None

    @property
    def margin(self) -> float:
        """Half the width of the interval."""
        return (self.high - self.low) / 2


def shares(column: ReportedColumn, estimate: Estimate) -> list[Share]:
    """The answers, largest first."""
    low, high = estimate.interval(LEVEL)
    significant = estimate.frequencies >= noise_floor(estimate, LEVEL)
    truth, counts = column.truth, estimate.counts
    order = np.argsort(-estimate.frequencies, kind="stable").tolist()
    return [
        Share(
            label=column.labels[i],
            value=100 * float(estimate.frequencies[i]),
            low=100 * float(low[i]),
            high=100 * float(high[i]),
            people=float(counts[i]),
            significant=bool(significant[i]),
            truth=None if truth is None else 100 * float(truth[i]),
        )
        for i in order
    ]


def shares_chart(rows: Sequence[Share], name: str) -> Markup:
    """Bars with error bars, the largest on top; beyond ``SHOWN`` answers only how many."""
    shown = rows[:SHOWN]
    extremes = [end for row in shown for end in (row.low, row.high, row.truth or 0.0)]
    axis = Axis.spanning(*extremes)
    keys = share_keys(faint=not all(row.significant for row in shown))
    if shown[0].truth is not None:
        keys.append(drawing.key("truth", "true share: not private"))
    bars = []
    for row in shown:
        value = percent(row.value, row.margin)
        marks = [*bar(axis, row.value, row.low, row.high), *drawing.truth(axis, row.truth)]
        bars.append(
            drawing.row(
                row.label,
                share_in_words(row.value, row.low, row.high),
                drawing.canvas(axis, *marks, title=f"{row.label}: {value}"),
                drawing.value(value, measured(row.margin, row.margin)),
                faint=not row.significant,
            )
        )
    return _chart(
        keys,
        [*bars, drawing.scale(axis, " %")],
        f"{len(rows) - len(shown):,} more answers" if len(rows) > len(shown) else "",
        f"Estimated shares of the answers to {name}",
    )


def shares_table(rows: Sequence[Share], *, counted: str = "people") -> Markup:
    """Every answer with its limits; what is ``counted`` is people, or reports of them."""
    true = rows[0].truth is not None
    lines = []
    for row in rows:
        cells = [
            element("td", percent(row.value, row.margin)),
            element("td", f"{percent(row.low, row.margin)} to {percent(row.high, row.margin)}"),
            element("td", whole(row.people)),
        ]
        if row.truth is not None:
            cells.append(element("td", percent(row.truth, row.margin), class_="true"))
        faint = {} if row.significant else {"class_": "faint"}
        lines.append(element("tr", element("th", row.label, scope="row"), *cells, **faint))
    heads = ["answer", "share", "95 % interval", f"{counted}, about", *["true share"] * true]
    return _table(heads, lines)


def bar(axis: Axis, share: float, low: float, high: float) -> list[Markup]:
    """A bar from zero to a share, and its interval."""
    start, end = axis.at(0.0), axis.at(share)
    filled = element(
        "rect",
        x=drawing.pc(min(start, end)),
        y=5,
        width=drawing.pc(abs(end - start)),
        height=drawing.HEIGHT - 10,
        rx=2,
        class_="fill",
    )
    return [filled, drawing.zero(axis), *drawing.interval(axis, low, high)]


def share_in_words(share: float, low: float, high: float) -> str:
    """A share and its interval in words."""
    margin = (high - low) / 2
    limits = f"between {percent(low, margin)} and {percent(high, margin)}"
    return f"{percent(share, margin)}, {limits}"


def share_keys(*, faint: bool) -> list[Markup]:
    """What bars mean; ``faint`` if some are."""
    keys = [drawing.key("fill", "estimated share"), drawing.key("reach", words.INTERVAL)]
    return [*keys, drawing.key("fill pale", "cannot be told from nobody")] if faint else keys


def percent(value: float, margin: float) -> str:
    """A share in percent, to the two digits of its margin.

    >>> percent(49.613, 0.0872)
    '49.613 %'
    """
    return f"{measured(value, margin)} %"


def whole(value: float) -> str:
    """People, in whole numbers."""
    return f"{round(value):,}".replace("-", "−")


# ------------------------------------------------------------------------------------- a mean


def bounds(column: ReportedColumn) -> tuple[float, float] | None:
    """The public bounds that the randomizer worked with, if it has any."""
    low, high = (getattr(column.randomizer, name, None) for name in ("low", "high"))
    return None if low is None or high is None else (float(low), float(high))


def mean_chart(column: ReportedColumn, estimate: MeanEstimate) -> Markup:
    """The mean on the axis of the bounds; below it the interval, drawn larger, if it is narrow."""
    low, high = estimate.interval(LEVEL)
    margin = (high - low) / 2
    around = _AROUND * (high - low)
    close = Axis.between(estimate.mean - around, estimate.mean + around)
    limits = bounds(column)
    axis = close if limits is None else Axis(*limits)
    truth = None if column.truth is None else float(column.truth.ravel()[0])
    axes = [_mean_on(axis, estimate, truth)]
    if high - low < _NARROW * (axis.high - axis.low):
        axes += [element("p", "closer:", class_="more"), _mean_on(close, estimate, truth)]
    mean = measured(estimate.mean, margin)
    return element(
        "figure",
        element("p", mean, element("small", f" ± {measured(margin, margin)}")),
        *axes,
        class_="chart mean",
        role="img",
        aria_label=f"{column.column}: mean {mean}, 95 % interval "
        f"{measured(low, margin)} to {measured(high, margin)}",
    )


def mean_table(column: ReportedColumn, estimate: MeanEstimate) -> Markup:
    """The mean and the sum with their limits."""
    low, high = estimate.interval(LEVEL)
    margin = (high - low) / 2
    lines = []
    for name, factor in (("mean", 1), ("sum", estimate.n)):
        mean, first, last = (
            measured(factor * value, factor * margin) for value in (estimate.mean, low, high)
        )
        limits = element("td", f"{first} to {last}")
        lines.append(element("tr", element("th", name, scope="row"), element("td", mean), limits))
    if column.truth is not None:
        cell = element("td", measured(float(column.truth.ravel()[0]), margin), class_="true")
        head = element("th", "true mean: not private", scope="row")
        lines.append(element("tr", head, cell, element("td", "")))
    return _table(["", "estimate", "95 % interval"], lines)


def number(value: float) -> str:
    """A number without a margin: five digits, or as many as a whole number has."""
    return (f"{value:,.0f}" if abs(value) >= 1e5 else f"{value:,.5g}").replace("-", "−")


def _mean_on(axis: Axis, estimate: MeanEstimate, truth: float | None) -> Markup:
    low, high = (drawing.pc(axis.at(end)) for end in estimate.interval(LEVEL))
    parts = [
        element("line", x1="0%", x2="100%", y1=18, y2=18, class_="zero"),
        element("line", x1=low, x2=high, y1=18, y2=18, class_="reach thick"),
        element("circle", cx=drawing.pc(axis.at(estimate.mean)), cy=18, r=6, class_="fill"),
    ]
    if truth is not None:
        parts.append(drawing.upright(axis.at(truth), 4, 32, "truth"))
    for end, place, anchor in ((axis.low, "0%", "start"), (axis.high, "100%", "end")):
        parts.append(element("line", x1=place, x2=place, y1=12, y2=24, class_="zero"))
        parts.append(element("text", number(end), x=place, y=42, text_anchor=anchor))
    return element("svg", *parts, height=48, width="100%", class_="scale", aria_hidden="true")


# ------------------------------------------------------------------------------ a mean vector


@dataclass(frozen=True)
class Coordinate:
    """One coordinate of the mean."""

    label: str
    value: float
    low: float
    high: float
    error: float
    truth: float | None

    @property
    def margin(self) -> float:
        """Half the width of the interval."""
        return (self.high - self.low) / 2

    def shown(self, value: float) -> str:
        """A value to the digits of the margin."""
        return measured(value, self.margin)


def coordinates(column: ReportedColumn, estimate: VectorEstimate) -> list[Coordinate]:
    """The coordinates, in the order of the columns."""
    low, high = estimate.interval(LEVEL)
    truth = column.truth
    return [
        Coordinate(
            label=label,
            value=float(estimate.mean[i]),
            low=float(low[i]),
            high=float(high[i]),
            error=float(estimate.standard_errors[i]),
            truth=None if truth is None else float(truth[i]),
        )
        for i, label in enumerate(column.labels)
    ]


def vector_axis(rows: Sequence[Coordinate]) -> Axis:
    """An axis that holds zero, all intervals and what is true."""
    truths = [row.truth for row in rows if row.truth is not None]
    ends = [0.0, *(end for row in rows for end in (row.low, row.high)), *truths]
    return Axis.between(min(ends), max(ends))


def vector_chart(rows: Sequence[Coordinate], name: str) -> Markup:
    """A dot with its interval for each coordinate."""
    shown = rows[:SHOWN]
    axis = vector_axis(shown)
    keys = [drawing.key("reach", f"mean of the coordinate, {words.INTERVAL}")]
    if shown[0].truth is not None:
        keys.append(drawing.key("truth", "true mean: not private"))
    lines = []
    for row in shown:
        value, low, high = map(row.shown, (row.value, row.low, row.high))
        marks = [
            drawing.zero(axis),
            *drawing.interval(axis, row.low, row.high),
            element(
                "circle",
                cx=drawing.pc(axis.at(row.value)),
                cy=drawing.HEIGHT / 2,
                r=5,
                class_="fill",
            ),
            *drawing.truth(axis, row.truth),
        ]
        lines.append(
            drawing.row(
                row.label,
                f"{value}, between {low} and {high}",
                drawing.canvas(axis, *marks, title=f"{row.label}: {value}"),
                drawing.value(value, row.shown(row.margin)),
            )
        )
    more = f"{len(rows) - len(shown):,} more coordinates" if len(rows) > len(shown) else ""
    return _chart(keys, [*lines, drawing.scale(axis)], more, f"Estimated mean of {name}")


def vector_table(rows: Sequence[Coordinate], n: int) -> Markup:
    """Every coordinate with its limits, and its sum over n people."""
    true = rows[0].truth is not None
    lines = []
    for row in rows:
        cells = [
            element("td", row.shown(row.value)),
            element("td", f"{row.shown(row.low)} to {row.shown(row.high)}"),
            element("td", measured(row.error, row.error)),
            element("td", measured(row.value * n, row.margin * n)),
        ]
        if row.truth is not None:
            cells.append(element("td", row.shown(row.truth), class_="true"))
        lines.append(element("tr", element("th", row.label, scope="row"), *cells))
    heads = ["coordinate", "mean", "95 % interval", "standard error", "sum", *["true mean"] * true]
    return _table(heads, lines)


# ------------------------------------------------------------------------------- what all share


def _chart(keys: list[Markup], rows: list[Markup], more: str, label: str) -> Markup:
    return element(
        "figure",
        element("figcaption", *keys, class_="legend"),
        element("div", *rows, class_="bars"),
        element("p", f"and {more}, in the table below", class_="more") if more else "",
        class_="chart",
        aria_label=label,
    )


def _table(heads: Sequence[str], lines: Sequence[Markup]) -> Markup:
    head = element("tr", *(element("th", text, scope="col") for text in heads))
    return element("table", element("thead", head), element("tbody", *lines))
