"""The chart and the table of the shares of answers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from shoal.estimate.ranking import noise_floor
from shoal.report.axis import Axis
from shoal.report.markup import Markup, element, join
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
        element("div", *bars, _scale(axis), class_="bars"),
        rest if more else "",
        class_="chart",
        aria_label=f"Estimated shares of the answers to {name}",
    )


def table(found: Sequence[Row]) -> Markup:
    """Every answer with its limits."""
    true = found[0].truth is not None
    heads = ["answer", "share", "95 % interval", "people, about", *["true share"] * true]
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
    parts = [_upright(axis.at(tick), 0, _HEIGHT, "grid") for tick in axis.ticks() if tick]
    parts.append(
        element(
            "rect",
            x=_pc(min(zero, end)),
            y=5,
            width=_pc(abs(end - zero)),
            height=_HEIGHT - 10,
            rx=2,
            class_="fill",
        )
    )
    low, high = axis.at(row.low), axis.at(row.high)
    middle = _HEIGHT / 2
    parts += [
        _upright(zero, 0, _HEIGHT, "zero"),
        element("line", x1=_pc(low), x2=_pc(high), y1=middle, y2=middle, class_="reach"),
        _upright(low, middle - 4, middle + 4, "reach"),
        _upright(high, middle - 4, middle + 4, "reach"),
    ]
    if row.truth is not None:
        parts.append(_upright(axis.at(row.truth), 1, _HEIGHT - 1, "truth"))
    title = element("title", f"{row.label}: {percent(row.value)}")
    return element("svg", title, *parts, height=_HEIGHT, width="100%", aria_hidden="true")


def _scale(axis: Axis) -> Markup:
    decimals = axis.decimals()
    marks = [
        element("text", f"{tick:.{decimals}f} %", x=_pc(axis.at(tick)), y=15, text_anchor=anchor)
        for tick, anchor in zip(axis.ticks(), _anchors(axis), strict=True)
    ]
    drawn = element("svg", *marks, height=20, width="100%", class_="scale", aria_hidden="true")
    return element("div", element("span", ""), drawn, element("span", ""), class_="bar axis")


def _anchors(axis: Axis) -> list[str]:
    """Labels at the ends of the axis stay inside it."""
    places = [axis.at(tick) for tick in axis.ticks()]
    return ["start" if at < 2 else "end" if at > 98 else "middle" for at in places]


def _legend(shown: Sequence[Row]) -> Markup:
    keys = [_key("fill", "estimated share"), _key("reach", "95 % interval")]
    if not all(row.significant for row in shown):
        keys.append(_key("fill pale", "cannot be told from nobody"))
    if shown[0].truth is not None:
        keys.append(_key("truth", "true share: not private"))
    return element("figcaption", *keys, class_="legend")


def _key(kind: str, text: str) -> Markup:
    if kind == "reach":
        ends = [_upright(at, 3, 11, "reach") for at in (1.0, 95.0)]
        mark = join(element("line", x1=1, x2=19, y1=7, y2=7, class_="reach"), *ends)
    elif kind == "truth":
        mark = _upright(50.0, 0, 14, "truth")
    else:
        mark = element("rect", x=0, y=2, width=20, height=10, rx=2, class_=kind)
    icon = element("svg", mark, width=20, height=14, aria_hidden="true")
    return element("span", icon, " ", text, class_="key")


def _upright(x: float, top: float, bottom: float, kind: str) -> Markup:
    return element("line", x1=_pc(x), x2=_pc(x), y1=top, y2=bottom, class_=kind)


def _pc(share: float) -> str:
    return f"{share:.3f}%"


def percent(value: float) -> str:
    """A share, with as many decimals as a reader wants."""
    return f"{value:.{_decimals(value)}f} %".replace("-", "−")


def whole(value: float) -> str:
    """People, in whole numbers."""
    return f"{round(value):,}".replace("-", "−")


def _decimals(value: float) -> int:
    return 1 if abs(value) >= 10 else 2 if abs(value) >= 0.1 else 3
