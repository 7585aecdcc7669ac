"""The page: headline, charts, what it means, tables, how it was done."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator, Mapping
from importlib import resources
from typing import Protocol

import numpy as np
import numpy.typing as npt

from shoal.accounting.guarantee import Guarantee
from shoal.explain.text import DIGITS, plain, up
from shoal.randomizers.base import Mechanism
from shoal.report import charts, words
from shoal.report.markup import Markup, document, element, join
from shoal.values import Estimate, MeanEstimate, VectorEstimate

BANNER = "Contains true values: not private"
FORMAT = "shoal privacy statement 1"
_FOLDED = 12


class ReportedColumn(Protocol):
    """One question: its answers, what was estimated, and how."""

    @property
    def column(self) -> str:
        """The question."""

    @property
    def labels(self) -> tuple[str, ...]:
        """The answers, or the coordinates, in the order of the estimate; empty for numbers."""

    @property
    def estimate(self) -> Estimate | MeanEstimate | VectorEstimate:
        """The shares of the answers, or the mean."""

    @property
    def randomizer(self) -> Mechanism:
        """What made each report."""

    @property
    def guarantee(self) -> Guarantee:
        """What holds for this question by itself."""

    @property
    def truth(self) -> npt.NDArray[np.float64] | None:
        """The true shares (the true mean, for numbers), if somebody asked for them."""

    @property
    def n(self) -> int:
        """How many people reported."""

    @property
    def notes(self) -> tuple[str, ...]:
        """What to know about this question."""


class Reported(Protocol):
    """A finished collection."""

    @property
    def columns(self) -> tuple[ReportedColumn, ...]:
        """One entry per question."""

    @property
    def guarantee(self) -> Guarantee:
        """What holds for all questions together."""

    @property
    def notes(self) -> tuple[str, ...]:
        """What to know about the collection."""

    @property
    def warnings(self) -> tuple[str, ...]:
        """What to know before relying on it."""

    @property
    def contains_truth(self) -> bool:
        """Whether true values are in it: then it is not private."""


def html(result: Reported) -> str:
    """The result as one self-contained HTML page."""
    title = f"{', '.join(column.column for column in result.columns)} · Shoal"
    style = resources.files(__package__ or "shoal.report").joinpath("style.css")
    styled = element("style", Markup(style.read_text(encoding="utf-8")))
    return document(title, element("main", *_sections(result)), _script(result), head=[styled])


def _script(result: Reported) -> Markup:
    return element("script", embedded(result), type="application/json", id="privacy-statement")


def _sections(result: Reported) -> Iterator[Markup]:
    if result.contains_truth:
        yield _banner()
    yield _header(result)
    for column in result.columns:
        yield _chart(column, headed=len(result.columns) > 1)
    yield _privacy(result)
    yield _assumptions(result)
    yield from (_table(column) for column in result.columns)
    yield _method(result)
    yield element("footer", "Made with Shoal, the shuffle model of differential privacy.")


def _banner() -> Markup:
    return element(
        "aside",
        element("strong", BANNER),
        element(
            "p",
            "The true answers were drawn beside the estimates to compare them. The guarantee below "
            "does not cover this page: do not pass it on.",
        ),
        class_="banner",
        role="alert",
    )


def _header(result: Reported) -> Markup:
    first, *others = result.columns
    asked = first.column if not others else f"{len(result.columns)} questions"
    guarantee = result.guarantee
    reports = guarantee.rounds * guarantee.columns
    local = "each report alone" if reports == 1 else f"one person's {reports} reports together"
    return element(
        "header",
        element("p", "Estimated from shuffled reports", class_="kicker"),
        element("h1", asked),
        element(
            "dl",
            *_tile(words.counted(guarantee), f"{first.n:,}"),
            *_tile("ε of what is published", up(guarantee.epsilon, 3)),
            *_tile("δ", plain(guarantee.delta)),
            *_tile(f"ε0 of {local}", _local(guarantee.local_epsilon, 3)),
            class_="tiles",
        ),
    )


def _local(epsilon: float, digits: int = DIGITS) -> str:
    return up(epsilon, digits) if math.isfinite(epsilon) else "none"


def _tile(name: str, value: str) -> tuple[Markup]:
    return (element("div", element("dt", name), element("dd", value)),)


def _chart(column: ReportedColumn, *, headed: bool) -> Markup:
    heading = element("h2", column.column) if headed else Markup("")
    what, remark = "the mean", ""
    if isinstance(column.estimate, MeanEstimate):
        chart = charts.mean_chart(column, column.estimate)
    elif isinstance(column.estimate, VectorEstimate):
        chart = charts.vector_chart(charts.coordinates(column, column.estimate), column.column)
    else:
        rows = charts.shares(column, column.estimate)
        chart, what = charts.shares_chart(rows, column.column), "a share"
        if any(row.value < 0 for row in rows[: charts.SHOWN]):
            note = "A share below zero is noise around zero: read it as few or none."
            remark = element("p", note, class_="more")
    of = element("p", words.intervals(what), class_="more")
    return element("section", heading, chart, remark, of)


def _privacy(result: Reported) -> Markup:
    guarantee = result.guarantee
    source = "Every estimate here is computed from what comes out of the shuffler and nothing else."
    return element(
        "section",
        element("h2", "What this gives away about one person"),
        element("p", words.meaning(guarantee)),
        element("p", source),
        element("h3", "Who is trusted"),
        element("p", words.trusted(guarantee)),
        element("h3", "What holds without any trust"),
        element("p", words.untrusted(guarantee)),
        element("h3", "How sure is that"),
        element("p", words.tightness(guarantee)),
    )


def _assumptions(result: Reported) -> Markup:
    guarantee = result.guarantee
    neighbours = f"neighbours: {guarantee.neighbouring} of one person's datum"
    parts = [element("h2", "What it assumes"), _list([neighbours, *guarantee.assumptions])]
    remarks = [*result.warnings, *result.notes]
    if remarks:
        parts += [element("h2", "To know"), _list(remarks)]
    return element("section", *parts)


def _list(items: list[str]) -> Markup:
    return element("ul", *(element("li", item) for item in items))


def _table(column: ReportedColumn) -> Markup:
    name = f"The estimates: {column.column}"
    if isinstance(column.estimate, MeanEstimate):
        numbers = element("div", charts.mean_table(column, column.estimate), class_="wide")
        return element("section", element("h2", name), numbers)
    if isinstance(column.estimate, VectorEstimate):
        rows = charts.coordinates(column, column.estimate)
        table, rows_are = charts.vector_table(rows, column.n), "coordinates"
    else:
        counted = words.counted(column.guarantee)
        table = charts.shares_table(charts.shares(column, column.estimate), counted=counted)
        rows_are = "answers"
    many = len(column.labels)
    summary = element("summary", f"All {many:,} {rows_are}")
    # Few answers are open to see, many are folded away; a printer gets them all.
    unfolded = {"open": ""} if many <= _FOLDED else {}
    inside = element("div", table, class_="wide")
    return element("section", element("h2", name), element("details", summary, inside, **unfolded))


def _method(result: Reported) -> Markup:
    one = "person" if result.guarantee.rounds == 1 else "report"
    steps: list[tuple[str, Callable[[ReportedColumn], str]]] = [
        ("randomizer", lambda column: column.randomizer.name),
        ("ε0 of a report", lambda column: _local(column.randomizer.local_epsilon)),
        (f"messages of a {one}", lambda column: f"{column.randomizer.messages:.4g}"),
        ("size of a message", lambda column: f"{column.randomizer.message_bits:.3g} bits"),
        ("ε of this question", lambda column: up(column.guarantee.epsilon)),
        (words.counted(result.guarantee), lambda column: f"{column.n:,}"),
    ]
    body = (
        element(
            "tr",
            element("th", name, scope="row"),
            *(element("td", cell(column)) for column in result.columns),
        )
        for name, cell in steps
    )
    table = element("table", *_heads(result), element("tbody", *body))
    return element(
        "section",
        element("h2", "How it was done"),
        element("div", table, class_="wide"),
        element(
            "details",
            element("summary", "Privacy statement for programs (JSON)"),
            element("pre", join(str(embedded(result)))),
        ),
    )


def _heads(result: Reported) -> list[Markup]:
    """The questions, where there are several: the only one is the page's title."""
    if len(result.columns) == 1:
        return []
    names = ["", *(column.column for column in result.columns)]
    heads = (element("th", name, scope="col", class_="asked") for name in names)
    return [element("thead", element("tr", *heads))]


# ------------------------------------------------------------ the privacy statement, for programs


def statement(result: Reported) -> dict[str, object]:
    """The guarantee and how it comes about, as plain values."""
    return {
        "format": FORMAT,
        "guarantee": result.guarantee.to_dict(),
        "columns": [_column(column) for column in result.columns],
        "notes": list(result.notes),
        "warnings": list(result.warnings),
        "contains_true_values": result.contains_truth,
    }


def embedded(result: Reported) -> Markup:
    """The statement as JSON that may stand inside a script element."""
    text = json.dumps(finite(statement(result)), ensure_ascii=False, allow_nan=False, indent=1)
    return Markup(text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026"))


def finite(value: object) -> object:
    """Values for strict JSON: what is not finite is null."""
    if isinstance(value, Mapping):
        return {key: finite(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [finite(inner) for inner in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value


def _column(column: ReportedColumn) -> dict[str, object]:
    randomizer = column.randomizer
    return {
        "column": column.column,
        "n": column.n,
        "randomizer": {
            "name": randomizer.name,
            "local_epsilon": randomizer.local_epsilon,
            "message_bits": randomizer.message_bits,
            "messages": randomizer.messages,
        },
        "epsilon": column.guarantee.epsilon,
        "delta": column.guarantee.delta,
        "notes": list(column.notes),
    }
