"""The page that lists the surveys."""

from __future__ import annotations

from collections.abc import Sequence

from shoal.explain.text import plain
from shoal.report.markup import Markup, element
from shoal.web.dashboard import panels
from shoal.web.dashboard.parts import address, link, lost, moment, note, several, turning
from shoal.web.dashboard.progress import Progress
from shoal.web.dashboard.snapshot import Snapshot
from shoal.web.dashboard.survey_page import State, kicker, may_wait

PAGE = 20


def body(
    listed: Sequence[tuple[Snapshot, Progress | None]], *, page: int, pages: int, now: int
) -> list[Markup]:
    """A card for each survey."""
    if not listed:
        told = note("There is no survey here yet. An operator adds one with shoal survey add.")
        return [element("h1", "Surveys"), told]
    cards = [_card(snapshot, progress, now) for snapshot, progress in listed]
    return [
        element("h1", "Surveys"),
        element("ul", *(element("li", card) for card in cards), class_="cards"),
        turning(page, pages, place="/dashboard?page={}", what="surveys", words=("before", "after")),
    ]


def _card(found: Snapshot, progress: Progress | None, now: int) -> Markup:
    survey = found.survey
    last = found.last_published
    return element(
        "article",
        kicker(survey, State.of(survey, now)),
        element("h2", link(survey.question, address(survey), dir="auto")),
        element(
            "p",
            several(len(found.published), "batch", "batches"),
            " published",
            *((", the last ", moment(last)) if last else ()),
            f" · ε lost so far: {lost(found.life['epsilon'])} (promised: at most "
            f"{plain(survey.epsilon)})",
        ),
        panels.progress(survey, progress, waiting=may_wait(survey, now)),
        class_="panel",
    )
