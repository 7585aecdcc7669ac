"""The batches of a survey: along time, line by line, and those on their way."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from shoal.report.charts import key
from shoal.report.markup import Markup, element, join
from shoal.service.analyzer import tables as schema
from shoal.service.analyzer.collection import Collection
from shoal.web.dashboard.access import Visitor
from shoal.web.dashboard.graphs import Timeline
from shoal.web.dashboard.parts import (
    NOTHING,
    address,
    epsilon,
    link,
    moment,
    note,
    panel,
    several,
    table,
    turning,
)
from shoal.web.dashboard.snapshot import Line, Snapshot

PAGE = 50  # lines of one page
SHORT = 8
_WAITING = {
    schema.REQUESTED: "asked for",
    schema.RECEIVED: "here, not opened yet",
    schema.OPENED: "opened and counted",
    schema.BUDGETED: "in the ledger, published next",
}


def pages(snapshot: Snapshot, visitor: Visitor) -> int:
    """How many pages the list has."""
    return max(1, -(-len(listed(snapshot, visitor)) // PAGE))


def listed(snapshot: Snapshot, visitor: Visitor) -> Sequence[Line]:
    """The batches that a visitor may see: withheld ones are the operator's business."""
    return snapshot.lines if visitor.operator else snapshot.published


def batches(
    snapshot: Snapshot, visitor: Visitor, page: int, under_way: Iterable[Collection]
) -> Markup:
    """A drawing of all of them, and a page of the list."""
    lines = listed(snapshot, visitor)
    parts: list[str] = []
    if lines:
        held = [line.published for line in lines if line.withheld is not None]
        told = [line.published for line in lines if line.withheld is None]
        parts += [_drawn(Timeline.of(told, held), lines), _lines(snapshot, lines, page)]
        place = f"{address(snapshot.survey)}?page={{}}#batches"
        words, many = ("newer", "older"), pages(snapshot, visitor)
        parts.append(turning(page, many, place=place, what="batches", words=words))
    else:
        parts.append(note("No batch has come this far."))
    if visitor.operator:
        parts += [_under_way(list(under_way)), _refused(snapshot)]
    elif snapshot.withheld:
        parts.append(note(f"{several(len(snapshot.withheld), 'batch', 'batches')} withheld."))
    return panel("batches", "Batches", *parts, wide=True)


def _drawn(timeline: Timeline, lines: Sequence[Line]) -> Markup:
    keys = [key("fill", "published")]
    if any(timeline.withheld):
        keys.append(key("fill held", "withheld"))
    first, last = lines[-1].published, lines[0].published
    return element(
        "figure",
        element("figcaption", *keys, class_="legend"),
        timeline.drawn(),
        element(
            "p",
            moment(first),
            element("span", f"a bar for each {timeline.name}"),
            moment(last),
            class_="ends",
        ),
        class_="plot",
    )


def _lines(snapshot: Snapshot, lines: Sequence[Line], page: int) -> Markup:
    here = address(snapshot.survey)
    rows = [
        (
            link(line.batch[:SHORT], f"{here}/batches/{line.batch}", class_="name"),
            moment(line.published),
            f"{line.reports:,}",
            f"{line.valid:,}",
            f"{line.honest:,}",
            epsilon(line.epsilon),
            "published" if line.withheld is None else f"withheld: {line.withheld}",
        )
        for line in lines[PAGE * (page - 1) : PAGE * page]
    ]
    heads = ("batch", "published", "received", "valid", "honest", "ε", "state")
    kinds = ("text", "", "n", "n", "n", "n", "text said")
    return table(heads, rows, caption="Batches, the newest first", sortable=True, classes=kinds)


def _under_way(found: list[Collection]) -> Markup:
    waiting = [each for each in found if each.state in _WAITING]
    if not waiting:
        return NOTHING
    counted = {state: sum(each.state == state for each in waiting) for state in _WAITING}
    said = [
        f"{number:,} {_WAITING[state]} ({state})" for state, number in counted.items() if number
    ]
    return element(
        "div",
        element("h3", "On their way"),
        element("p", "Closed batches that the shuffler has handed over or will: ", "; ".join(said)),
    )


def _refused(snapshot: Snapshot) -> Markup:
    if not snapshot.refused:
        return NOTHING
    rows = [
        (element("span", each.batch[:SHORT], class_="name"), each.reason or "–")
        for each in snapshot.refused[:PAGE]
    ]
    more = len(snapshot.refused) - len(rows)
    return element(
        "div",
        element("h3", "Refused"),
        table(("batch", "why"), rows, caption="Refused batches", classes=("text", "text said")),
        note(f"and {more:,} more") if more else NOTHING,
        note(
            join(
                "A batch that is not what it claims to be is never counted. To ask for one again: ",
                element("code", "shoal collect DIR --again BATCH"),
            )
        ),
    )
