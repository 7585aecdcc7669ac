"""The chart and the table of a mean vector: a row per coordinate, all on one axis."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from shoal.report.axis import Axis
from shoal.report.drawing import key, pc, scale, upright
from shoal.report.markup import Markup, element
from shoal.report.mean import LEVEL, number
from shoal.report.subject import ReportedColumn
from shoal.values import VectorEstimate

SHOWN = 40
_HEIGHT = 26


@dataclass(frozen=True)
class Row:
    """One coordinate of the mean."""

    label: str
    value: float
    low: float
    high: float
    error: float
    truth: float | None

    @property
    def margin(self) -> str:
        """Half the width of the interval."""
        return f"{(self.high - self.low) / 2:,.3g}"


def rows(column: ReportedColumn, estimate: VectorEstimate) -> list[Row]:
    """The coordinates, in the order of the columns."""
    low, high = estimate.interval(LEVEL)
    truth = column.truth
    return [
        Row(
            label=label,
            value=float(estimate.mean[i]),
            low=float(low[i]),
            high=float(high[i]),
            error=float(estimate.standard_errors[i]),
            truth=None if truth is None else float(truth[i]),
        )
        for i, label in enumerate(column.labels)
    ]


def spanned(found: Sequence[Row]) -> Axis:
    """An axis that holds zero, all intervals and what is true."""
    truths = [row.truth for row in found if row.truth is not None]
    ends = [0.0, *(end for row in found for end in (row.low, row.high)), *truths]
    return Axis.between(min(ends), max(ends))


def chart(found: Sequence[Row], name: str) -> Markup:
    """A dot with its interval for each coordinate."""
    shown = found[:SHOWN]
    axis = spanned(shown)
    more = len(found) - len(shown)
    rest = element("p", f"and {more:,} more coordinates, in the table below", class_="more")
    keys = [key("reach", "mean of the coordinate, 95 % interval")]
    if shown[0].truth is not None:
        keys.append(key("truth", "true mean: not private"))
    return element(
        "figure",
        element("figcaption", *keys, class_="legend"),
        element("div", *(_line(row, axis) for row in shown), scale(axis), class_="bars"),
        rest if more else "",
        class_="chart",
        aria_label=f"Estimated mean of {name}",
    )


def table(found: Sequence[Row], n: int) -> Markup:
    """Every coordinate with its limits, and its sum over n people."""
    true = found[0].truth is not None
    heads = ["coordinate", "mean", "95 % interval", "standard error", "sum", *["true mean"] * true]
    head = element("tr", *(element("th", text, scope="col") for text in heads))
    return element(
        "table", element("thead", head), element("tbody", *(_cells(row, n) for row in found))
    )


def _cells(row: Row, n: int) -> Markup:
    cells = [
        element("td", number(row.value)),
        element("td", f"{number(row.low)} to {number(row.high)}"),
        element("td", f"{row.error:,.3g}"),
        element("td", number(row.value * n)),
    ]
    if row.truth is not None:
        cells.append(element("td", number(row.truth), class_="true"))
    return element("tr", element("th", row.label, scope="row"), *cells)


def _line(row: Row, axis: Axis) -> Markup:
    said = f"{number(row.value)}, between {number(row.low)} and {number(row.high)}"
    return element(
        "div",
        element("span", row.label, class_="label", title=row.label),
        _drawn(row, axis),
        element("span", number(row.value), element("small", f" ± {row.margin}"), class_="value"),
        class_="bar",
        role="img",
        aria_label=f"{row.label}: {said}",
    )


def _drawn(row: Row, axis: Axis) -> Markup:
    middle, low, high = _HEIGHT / 2, axis.at(row.low), axis.at(row.high)
    parts = [upright(axis.at(tick), 0, _HEIGHT, "grid") for tick in axis.ticks() if tick]
    parts += [
        upright(axis.at(0.0), 0, _HEIGHT, "zero"),
        element("line", x1=pc(low), x2=pc(high), y1=middle, y2=middle, class_="reach"),
        upright(low, middle - 4, middle + 4, "reach"),
        upright(high, middle - 4, middle + 4, "reach"),
        element("circle", cx=pc(axis.at(row.value)), cy=middle, r=5, class_="fill"),
    ]
    if row.truth is not None:
        parts.append(upright(axis.at(row.truth), 1, _HEIGHT - 1, "truth"))
    title = element("title", f"{row.label}: {number(row.value)}")
    return element("svg", title, *parts, height=_HEIGHT, width="100%", aria_hidden="true")
