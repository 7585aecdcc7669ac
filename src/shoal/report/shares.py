"""The chart and the table of the shares of answers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from shoal.estimate.ranking import noise_floor
from shoal.report.axis import Axis
from shoal.report.drawing import key, pc, scale, upright
from shoal.report.markup import Markup, element
from shoal.report.subject import ReportedColumn
from shoal.values import Estimate

SHOWN = 40
LEVEL = 0.95
_HEIGHT = 26


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
        element("div", *bars, scale(axis, " %"), class_="bars"),
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
    said = f"{percent(row.value)}, between {percent(row.low)} and {percent(row.high)}"
    margin = (row.high - row.low) / 2
    return element(
        "div",
        element("span", row.label, class_="label", title=row.label),
        _drawn(row, axis),
        element(
            "span",
            percent(row.value),
            element("small", f" ± {margin:.{_decimals(margin)}f}"),
            class_="value",
        ),
        class_="bar" if row.significant else "bar faint",
        role="img",
        aria_label=f"{row.label}: {said}",
    )


def _drawn(row: Row, axis: Axis) -> Markup:
    zero, end = axis.at(0.0), axis.at(row.value)
    parts = [upright(axis.at(tick), 0, _HEIGHT, "grid") for tick in axis.ticks() if tick]
    parts.append(
        element(
            "rect",
            x=pc(min(zero, end)),
            y=5,
            width=pc(abs(end - zero)),
            height=_HEIGHT - 10,
            rx=2,
            class_="fill",
        )
    )
    low, high = axis.at(row.low), axis.at(row.high)
    middle = _HEIGHT / 2
    parts += [
        upright(zero, 0, _HEIGHT, "zero"),
        element("line", x1=pc(low), x2=pc(high), y1=middle, y2=middle, class_="reach"),
        upright(low, middle - 4, middle + 4, "reach"),
        upright(high, middle - 4, middle + 4, "reach"),
    ]
    if row.truth is not None:
        parts.append(upright(axis.at(row.truth), 1, _HEIGHT - 1, "truth"))
    title = element("title", f"{row.label}: {percent(row.value)}")
    return element("svg", title, *parts, height=_HEIGHT, width="100%", aria_hidden="true")


def _legend(shown: Sequence[Row]) -> Markup:
    keys = [key("fill", "estimated share"), key("reach", "95 % interval")]
    if not all(row.significant for row in shown):
        keys.append(key("fill pale", "cannot be told from nobody"))
    if shown[0].truth is not None:
        keys.append(key("truth", "true share: not private"))
    return element("figcaption", *keys, class_="legend")


def percent(value: float) -> str:
    """A share, with as many decimals as a reader wants."""
    return f"{value:.{_decimals(value)}f} %".replace("-", "−")


def whole(value: float) -> str:
    """People, in whole numbers."""
    return f"{round(value):,}".replace("-", "−")


def _decimals(value: float) -> int:
    return 1 if abs(value) >= 10 else 2 if abs(value) >= 0.1 else 3
