"""The chart and the table of a mean vector: a row per coordinate, all on one axis."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from shoal.report import drawing, words
from shoal.report.axis import Axis
from shoal.report.markup import Markup, element
from shoal.report.mean import LEVEL, number
from shoal.report.subject import ReportedColumn
from shoal.values import VectorEstimate

SHOWN = 40


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
    keys = [drawing.key("reach", f"mean of the coordinate, {words.INTERVAL}")]
    if shown[0].truth is not None:
        keys.append(drawing.key("truth", "true mean: not private"))
    return element(
        "figure",
        element("figcaption", *keys, class_="legend"),
        element("div", *(_line(row, axis) for row in shown), drawing.scale(axis), class_="bars"),
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
    place = drawing.pc(axis.at(row.value))
    drawn = [
        drawing.zero(axis),
        *drawing.interval(axis, row.low, row.high),
        element("circle", cx=place, cy=drawing.HEIGHT / 2, r=5, class_="fill"),
        *drawing.truth(axis, row.truth),
    ]
    return drawing.row(
        row.label,
        f"{number(row.value)}, between {number(row.low)} and {number(row.high)}",
        drawing.canvas(axis, *drawn, title=f"{row.label}: {number(row.value)}"),
        drawing.value(number(row.value), row.margin),
    )
