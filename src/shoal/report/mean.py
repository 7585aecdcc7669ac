"""The chart of a mean: where it lies between the bounds, and a closer look at its interval."""

from __future__ import annotations

from shoal.report.axis import Axis
from shoal.report.drawing import pc
from shoal.report.markup import Markup, element
from shoal.report.subject import ReportedColumn
from shoal.values import MeanEstimate

LEVEL = 0.95
_NARROW = 0.1
_AROUND = 2.0


def bounds(column: ReportedColumn) -> tuple[float, float] | None:
    """The public bounds that the randomizer worked with, if it has any."""
    low, high = (getattr(column.randomizer, name, None) for name in ("low", "high"))
    return None if low is None or high is None else (float(low), float(high))


def chart(column: ReportedColumn, estimate: MeanEstimate) -> Markup:
    """The mean on the axis of the bounds; below it the interval, drawn larger, if it is narrow."""
    low, high = estimate.interval(LEVEL)
    around = _AROUND * (high - low)
    close = Axis.between(estimate.mean - around, estimate.mean + around)
    given = bounds(column)
    axis = close if given is None else Axis(*given)
    truth = None if column.truth is None else float(column.truth.ravel()[0])
    drawn = [_drawn(axis, estimate, truth)]
    if high - low < _NARROW * (axis.high - axis.low):
        drawn += [element("p", "closer:", class_="more"), _drawn(close, estimate, truth)]
    return element(
        "figure",
        element("p", number(estimate.mean), element("small", f" ± {margin(estimate)}")),
        *drawn,
        class_="chart mean",
        role="img",
        aria_label=f"{column.column}: mean {number(estimate.mean)}, 95 % interval "
        f"{number(low)} to {number(high)}",
    )


def table(column: ReportedColumn, estimate: MeanEstimate) -> Markup:
    """The mean and the sum with their limits."""
    low, high = estimate.interval(LEVEL)
    n = estimate.n
    heads = element("tr", *(element("th", text, scope="col") for text in _HEADS))
    lines = [
        _line("mean", estimate.mean, low, high),
        _line("sum", estimate.sum, low * n, high * n),
    ]
    if column.truth is not None:
        cell = element("td", number(float(column.truth.ravel()[0])), class_="true")
        name = element("th", "true mean: not private", scope="row")
        lines.append(element("tr", name, cell, element("td", "")))
    return element("table", element("thead", heads), element("tbody", *lines))


_HEADS = ("", "estimate", "95 % interval")


def number(value: float) -> str:
    """A number with five digits, or as many as a whole number has."""
    return (f"{value:,.0f}" if abs(value) >= 1e5 else f"{value:,.5g}").replace("-", "−")


def margin(estimate: MeanEstimate) -> str:
    """Half the width of the interval."""
    low, high = estimate.interval(LEVEL)
    return f"{(high - low) / 2:,.3g}"


def _line(name: str, value: float, low: float, high: float) -> Markup:
    limits = element("td", f"{number(low)} to {number(high)}")
    return element("tr", element("th", name, scope="row"), element("td", number(value)), limits)


def _drawn(axis: Axis, estimate: MeanEstimate, truth: float | None) -> Markup:
    low, high = (pc(axis.at(end)) for end in estimate.interval(LEVEL))
    middle = pc(axis.at(estimate.mean))
    parts = [
        element("line", x1="0%", x2="100%", y1=18, y2=18, class_="zero"),
        element("line", x1=low, x2=high, y1=18, y2=18, class_="reach thick"),
        element("circle", cx=middle, cy=18, r=6, class_="fill"),
    ]
    if truth is not None:
        at = pc(axis.at(truth))
        parts.append(element("line", x1=at, x2=at, y1=4, y2=32, class_="truth"))
    for end, place, anchor in ((axis.low, "0%", "start"), (axis.high, "100%", "end")):
        text = number(end)
        parts.append(element("line", x1=place, x2=place, y1=12, y2=24, class_="zero"))
        parts.append(element("text", text, x=place, y=42, text_anchor=anchor))
    return element("svg", *parts, height=48, width="100%", class_="scale", aria_hidden="true")
