"""The page: headline, charts, what it means, tables, how it was done."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from importlib import resources

from shoal.explain.text import DIGITS, plain, up
from shoal.report import mean, shares, vectors, words
from shoal.report.markup import Markup, document, element, join
from shoal.report.statement import embedded
from shoal.report.subject import Reported, ReportedColumn
from shoal.values import MeanEstimate, VectorEstimate

BANNER = "Contains true values: not private"
_FOLDED = 12


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
        yield _found(column, headed=len(result.columns) > 1)
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
    found = result.guarantee
    reports = words.reports(found, columns=len(result.columns))
    local = "each report alone" if reports == 1 else f"one person's {reports} reports together"
    return element(
        "header",
        element("p", "Estimated from shuffled reports", class_="kicker"),
        element("h1", asked),
        element(
            "dl",
            *_tile(words.counted(found), f"{first.n:,}"),
            *_tile("ε of what is published", up(found.epsilon, 3)),
            *_tile("δ", plain(found.delta)),
            *_tile(f"ε0 of {local}", _local(found.local_epsilon, 3)),
            class_="tiles",
        ),
    )


def _local(epsilon: float, digits: int = DIGITS) -> str:
    return up(epsilon, digits) if math.isfinite(epsilon) else "none"


def _tile(name: str, value: str) -> tuple[Markup]:
    return (element("div", element("dt", name), element("dd", value)),)


def _found(column: ReportedColumn, *, headed: bool) -> Markup:
    heading = element("h2", column.column) if headed else Markup("")
    if isinstance(column.estimate, MeanEstimate):
        return element("section", heading, mean.chart(column, column.estimate), _of("the mean"))
    if isinstance(column.estimate, VectorEstimate):
        coordinates = vectors.rows(column, column.estimate)
        drawn = vectors.chart(coordinates, column.column)
        return element("section", heading, drawn, _of("the mean"))
    rows = shares.rows(column, column.estimate)
    below = any(row.value < 0 for row in rows[: shares.SHOWN])
    note = "A share below zero is noise around zero: read it as few or none."
    remark = element("p", note, class_="more") if below else ""
    return element("section", heading, shares.chart(rows, column.column), remark, _of("a share"))


def _of(what: str) -> Markup:
    return element("p", words.intervals(what), class_="more")


def _privacy(result: Reported) -> Markup:
    found = result.guarantee
    source = "Every estimate here is computed from what comes out of the shuffler and nothing else."
    return element(
        "section",
        element("h2", "What this gives away about one person"),
        element("p", words.meaning(found)),
        element("p", source),
        element("h3", "Who is trusted"),
        element("p", words.trusted(found)),
        element("h3", "What holds without any trust"),
        element("p", words.untrusted(found, columns=len(result.columns))),
        element("h3", "How sure is that"),
        element("p", words.tightness(found, columns=len(result.columns))),
    )


def _assumptions(result: Reported) -> Markup:
    found = result.guarantee
    neighbours = f"neighbours: {found.neighbouring} of one person's datum"
    parts = [element("h2", "What it assumes"), _list([neighbours, *found.assumptions])]
    if result.notes:
        parts += [element("h2", "To know"), _list(list(result.notes))]
    return element("section", *parts)


def _list(items: list[str]) -> Markup:
    return element("ul", *(element("li", item) for item in items))


def _table(column: ReportedColumn) -> Markup:
    name = f"The estimates: {column.column}"
    if isinstance(column.estimate, MeanEstimate):
        numbers = element("div", mean.table(column, column.estimate), class_="wide")
        return element("section", element("h2", name), numbers)
    if isinstance(column.estimate, VectorEstimate):
        table = vectors.table(vectors.rows(column, column.estimate), column.n)
        said = "coordinates"
    else:
        counted = words.counted(column.guarantee)
        table = shares.table(shares.rows(column, column.estimate), counted=counted)
        said = "answers"
    many = len(column.labels)
    summary = element("summary", f"All {many:,} {said}")
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
            *(element("td", said(column)) for column in result.columns),
        )
        for name, said in steps
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
