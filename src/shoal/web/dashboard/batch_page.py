"""The page of one batch."""

from __future__ import annotations

from shoal.errors import ShoalError
from shoal.report.markup import Markup, element
from shoal.report.result import ColumnResult
from shoal.service.analyzer.collection import Collection
from shoal.service.analyzer.release_decision import guaranteed
from shoal.service.analyzer.results import column
from shoal.service.survey import Survey
from shoal.web.dashboard import chart
from shoal.web.dashboard.access import Visitor
from shoal.web.dashboard.answers import answers
from shoal.web.dashboard.chart import Order
from shoal.web.dashboard.parts import address, epsilon, link, moment, note, panel, tiles
from shoal.web.dashboard.snapshot import Line
from shoal.web.dashboard.survey_page import heading, left_out


def _column(survey: Survey, held: Collection) -> ColumnResult | None:
    """What a published batch found, as a result like any other."""
    guarantee = None if held.counts is None else guaranteed(survey, held.counts.n)
    if held.counts is None or guarantee is None:
        return None
    try:
        return column(survey, held.counts, guarantee)
    except ShoalError:
        return None


def body(
    survey: Survey, line: Line, held: Collection, *, visitor: Visitor, order: Order
) -> list[Markup]:
    """Its result, or why there is none."""
    here = f"{address(survey)}/batches/{line.batch}"
    found = _column(survey, held) if line.withheld is None else None
    if line.withheld is not None:
        parts = [note(f"Withheld: {line.withheld}.", kind="warning"), note(_WITHHELD)]
    elif found is None:
        parts = [note("Its counts are not kept any longer.")]
    else:
        parts = list(chart.found(found, answers(found), order, here))
    return [
        element("p", link("← all of the survey", address(survey)), class_="kicker"),
        heading(survey),
        element("p", "Batch ", element("code", line.batch), ", published ", moment(line.published)),
        tiles(
            ("received", f"{line.reports:,}", ""),
            ("valid", f"{line.valid:,}", ""),
            ("honest", f"{line.honest:,}", ""),
            ("ε of a person in it", epsilon(line.epsilon), ""),
        ),
        element(
            "div",
            panel("found", "What was found", *parts, wide=True),
            *([left_out(line.rejected)] if visitor.operator else []),
            class_="panels",
        ),
    ]


_WITHHELD = (
    "Nothing of what it says is published or kept. What it may have told the analyzer, who opened "
    "it, is in the budget."
)
