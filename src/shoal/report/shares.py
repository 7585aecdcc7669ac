"""The chart and the table of the shares of answers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from shoal.estimate.ranking import noise_floor
from shoal.report import drawing, words
from shoal.report.axis import Axis
from shoal.report.markup import Markup, element
from shoal.report.subject import ReportedColumn
from shoal.values import Estimate

SHOWN = 40
LEVEL = 0.95


@dataclass(frozen=True)
class Row:
    """One answer: shares in percent, and whether it is more than noise."""

    label: str
    value: float
    low: float
    high: float
    people: float
    significant: bool
    truth: float | None


def rows(column: ReportedColumn, estimate: Estimate) -> list[Row]:
    """The answers, largest first."""
    low, high = estimate.interval(LEVEL)
    significant = estimate.frequencies >= noise_floor(estimate, LEVEL)
    truth, counts = column.truth, estimate.counts
    order = np.argsort(-estimate.frequencies, kind="stable").tolist()
    return [
        Row(
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


def chart(found: Sequence[Row], name: str) -> Markup:
    """Bars with error bars, the largest on top; beyond ``SHOWN`` answers only said how many."""
    shown = found[:SHOWN]
    extremes = [end for row in shown for end in (row.low, row.high, row.truth or 0.0)]
    axis = Axis.spanning(*extremes)
    bars = [_bar(row, axis) for row in shown]
    more = len(found) - len(shown)
    rest = element("p", f"and {more:,} more answers, in the table below", class_="more")
    return element(
        "figure",
        _legend(shown),
        element("div", *bars, drawing.scale(axis, " %"), class_="bars"),
        rest if more else "",
        class_="chart",
        aria_label=f"Estimated shares of the answers to {name}",
    )


def table(found: Sequence[Row], *, counted: str = "people") -> Markup:
    """Every answer with its limits; what is ``counted`` is people, or reports of them."""
    true = found[0].truth is not None
    heads = ["answer", "share", "95 % interval", f"{counted}, about", *["true share"] * true]
    head = element("tr", *(element("th", text, scope="col") for text in heads))
    body = (_line(row) for row in found)
    return element("table", element("thead", head), element("tbody", *body))


def _line(row: Row) -> Markup:
    cells = [
        element("td", percent(row.value)),
        element("td", f"{percent(row.low)} to {percent(row.high)}"),
        element("td", whole(row.people)),
    ]
    if row.truth is not None:
        cells.append(element("td", percent(row.truth), class_="true"))
    quiet = {} if row.significant else {"class_": "faint"}
    return element("tr", element("th", row.label, scope="row"), *cells, **quiet)


def _bar(row: Row, axis: Axis) -> Markup:
    drawn = [*bar(axis, row.value, row.low, row.high), *drawing.truth(axis, row.truth)]
    return drawing.row(
        row.label,
        said(row.value, row.low, row.high),
        drawing.canvas(axis, *drawn, title=f"{row.label}: {percent(row.value)}"),
        drawing.value(percent(row.value), margin(row.low, row.high)),
        faint=not row.significant,
    )


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


def said(share: float, low: float, high: float) -> str:
    """A share and its interval in words."""
    return f"{percent(share)}, between {percent(low)} and {percent(high)}"


def margin(low: float, high: float) -> str:
    """Half the width of an interval, in percent."""
    return percent((high - low) / 2).removesuffix(" %")


def keys(*, faint: bool) -> list[Markup]:
    """What bars mean; ``faint`` if some are."""
    found = [drawing.key("fill", "estimated share"), drawing.key("reach", words.INTERVAL)]
    return [*found, drawing.key("fill pale", "cannot be told from nobody")] if faint else found


def _legend(shown: Sequence[Row]) -> Markup:
    told = keys(faint=not all(row.significant for row in shown))
    if shown[0].truth is not None:
        told.append(drawing.key("truth", "true share: not private"))
    return element("figcaption", *told, class_="legend")


def percent(value: float) -> str:
    """A share, with as many decimals as a reader wants."""
    decimals = 1 if abs(value) >= 10 else 2 if abs(value) >= 0.1 else 3
    return f"{value:.{decimals}f} %".replace("-", "−")


def whole(value: float) -> str:
    """People, in whole numbers."""
    return f"{round(value):,}".replace("-", "−")
