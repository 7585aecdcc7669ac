"""The chart of the answers: bars with error bars, marks of those beyond the noise, and a table.

Every bar carries its numbers, so that a script can zoom; without one it shows all of them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Literal

from shoal.explain.text import measured
from shoal.report import charts
from shoal.report.charts import Axis, Item, counted, key, percent, row, scale, whole
from shoal.report.markup import Markup, element, join
from shoal.report.result import ColumnResult
from shoal.values import MeanEstimate
from shoal.web.dashboard.answers import MOST, Answer, as_asked
from shoal.web.dashboard.parts import NOTHING, link, note, table, texted

Order = Literal["share", "asked"]
ORDERS: dict[Order, str] = {"share": "largest first", "asked": "as in the survey"}
SHOWN = 20  # bars; the others are folded away
_OPEN = 12  # rows of a table that is not folded away
_MARKS = {True: "≠", False: "≈", None: ""}  # of what is more than all smaller ones
_WORDS = {True: "yes", False: "no", None: "–"}


def found(
    column: ColumnResult, listed: Sequence[Answer], order: Order, here: str
) -> Iterator[Markup]:
    """The chart and the table of a result; ``here`` is the address of the page."""
    if isinstance(column.estimate, MeanEstimate):
        yield charts.mean_chart(column, column.estimate)
        yield _mean(column.estimate)
        return
    shown = list(listed) if order == "share" else as_asked(listed)
    if len(listed) > 1:
        yield _orders(order, here)
    yield chart(shown, column.column)
    if any(answer.share < 0 for answer in shown):
        yield note("A share below zero is noise around zero: read it as few or none.")
    more = len(column.labels) - len(listed)
    if more:
        yield note(
            f"These are the {MOST} largest of {len(column.labels):,} answers; the others are in "
            "the files below."
        )
    yield _table(shown, what=counted(column.guarantee))


def _mean(estimate: MeanEstimate) -> Markup:
    low, high = estimate.interval(charts.LEVEL)
    rows = []
    for name, factor in (("mean", 1), ("sum", estimate.n)):
        margin = factor * (high - low) / 2
        mean, *ends = (measured(factor * each, margin) for each in (estimate.mean, low, high))
        rows.append((name, mean, " to ".join(ends)))
    heads = ("what", "estimate", "95 % interval")
    return table(heads, rows, caption="The mean and the sum", classes=("text", "n", "n"))


def _orders(order: Order, here: str) -> Markup:
    links = [
        _choice(text, f"{here}?order={name}#found", chosen=name == order)
        for name, text in ORDERS.items()
    ]
    return element("p", "Sorted: ", join(*links), class_="choices")


def _choice(text: str, address: str, *, chosen: bool) -> Markup:
    current = {"aria_current": "true"} if chosen else {}
    return link(text, address, class_="choice", **current)


def chart(shown: Sequence[Answer], name: str) -> Markup:
    """Bars on one axis: the first ones, and the others to unfold."""
    axis = Axis.spanning(*(end for answer in shown for end in (answer.low, answer.high)))
    first, others = shown[:SHOWN], shown[SHOWN:]
    rest = NOTHING
    if others:
        bars = element(
            "div",
            *(_bar(answer, axis) for answer in others),
            class_="bars rest",
            tabindex=0,
            role="region",
            aria_label="The other answers",
        )
        rest = element("details", element("summary", f"{len(others):,} more answers"), bars)
    return element(
        "figure",
        _legend(shown),
        _zoom(),
        element("div", *(_bar(answer, axis) for answer in first), scale(axis, " %"), class_="bars"),
        rest,
        class_="chart shares",
        id="chart",
        aria_label=f"Estimated shares of the answers to {name}",
        data_low=axis.low,
        data_high=axis.high,
        data_unit=" %",
    )


def _zoom() -> Markup:
    """What a script makes work; hidden without it."""
    buttons = [
        element("button", text, type="button", data_zoom=what, aria_label=said, title=said)
        for what, text, said in (
            ("in", "+", "Zoom in"),
            ("out", "−", "Zoom out"),
            ("left", "◀", "Move left"),
            ("right", "▶", "Move right"),
            ("all", "whole", "Show the whole axis"),
        )
    ]
    return element("p", *buttons, class_="zoom", role="group", aria_label="Zoom", hidden="")


def _bar(answer: Answer, axis: Axis) -> Markup:
    mark = _MARKS[answer.separated] if answer.significant else ""
    return row(
        axis,
        Item(
            answer.label,
            answer.share,
            answer.low,
            answer.high,
            unit=" %",
            significant=answer.significant,
        ),
        element("span", mark, class_="mark") if mark else "",
        remark=_remark(answer),
        data_value=f"{answer.share:.6g}",
        data_low=f"{answer.low:.6g}",
        data_high=f"{answer.high:.6g}",
    )


def _margin(answer: Answer) -> float:
    return (answer.high - answer.low) / 2


def _remark(answer: Answer) -> str:
    """What can be said about a bar beyond its interval."""
    if not answer.significant:
        return "; cannot be told from nobody"
    if answer.separated is None:
        return ""
    sure = "" if answer.separated else "not "
    return f"; {sure}more than the answers with smaller shares, beyond the noise"


def _legend(shown: Sequence[Answer]) -> Markup:
    faint = any(not answer.significant for answer in shown)
    keys = [key(*each) for each in charts.SHARE_KEYS[: 2 + faint]]
    marked = {answer.separated for answer in shown if answer.significant}
    if True in marked:
        keys.append(_mark(_MARKS[True], "more than all smaller ones, beyond the noise"))
    if False in marked:
        keys.append(_mark(_MARKS[False], "the difference to a smaller one may be noise"))
    return element("figcaption", *keys, class_="legend")


def _mark(mark: str, text: str) -> Markup:
    return element("span", element("span", mark, class_="mark"), f" {text}", class_="key")


def _table(shown: Sequence[Answer], *, what: str) -> Markup:
    rows = (
        (
            texted("span", answer.label, class_="long"),
            percent(answer.share, _margin(answer)),
            f"{percent(answer.low, _margin(answer))} to {percent(answer.high, _margin(answer))}",
            whole(answer.people),
            "yes" if answer.significant else "no",
            _WORDS[answer.separated],
        )
        for answer in shown
    )
    heads = (
        "answer",
        "share",
        "95 % interval",
        f"{what}, about",
        "more than noise",
        "more than all smaller ones",
    )
    numbers = table(
        heads, rows, caption="Shares of the answers", sortable=True, classes=("text", *["n"] * 3)
    )
    unfolded = {"open": ""} if len(shown) <= _OPEN else {}
    remark = note(
        "Each of the last two columns is right for all answers together with probability 95 %: "
        "both are corrected for how many answers there are. They look beyond the noise alone, as "
        "the intervals do."
    )
    return element(
        "details",
        element("summary", "The same as a table"),
        numbers,
        remark,
        id="table",
        **unfolded,
    )
