"""The page that lists the surveys."""

from __future__ import annotations

from collections.abc import Sequence

from shoal.accounting.rounding import plain
from shoal.report.markup import Markup, element
from shoal.web.dashboard import panels
from shoal.web.dashboard.parts import NOTHING, address, epsilon, link, moment, note, several, texted
from shoal.web.dashboard.progress import Progress
from shoal.web.dashboard.snapshot import Snapshot
from shoal.web.dashboard.survey_page import State, may_wait

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
        _turning(page, pages),
    ]


def _card(found: Snapshot, progress: Progress | None, now: int) -> Markup:
    survey = found.survey
    state = State.of(survey, now)
    last = found.last_published
    return element(
        "article",
        element(
            "p",
            element("span", state.value, class_=f"state {state.name.lower()}"),
            " ",
            texted("span", survey.name),
            class_="kicker",
        ),
        element("h2", link(survey.question, address(survey), dir="auto")),
        element(
            "p",
            several(len(found.published), "batch", "batches"),
            " published",
            *((", the last ", moment(last)) if last else ()),
            " · ε ",
            epsilon(found.life["epsilon"]),
            f" lost of {plain(survey.epsilon)} promised",
        ),
        panels.progress(survey, progress, waiting=may_wait(survey, now)),
        class_="panel",
    )


def _turning(page: int, pages: int) -> Markup:
    if pages == 1:
        return NOTHING
    back = link("← before", f"/dashboard?page={page - 1}", rel="prev") if page > 1 else NOTHING
    on = link("after →", f"/dashboard?page={page + 1}", rel="next") if page < pages else NOTHING
    told = element("span", f"page {page} of {pages}")
    return element("nav", back, told, on, class_="pages", aria_label="Pages of surveys")
