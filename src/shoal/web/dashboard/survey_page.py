"""The page of one survey."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from enum import StrEnum

from shoal.explain.text import plain
from shoal.report.markup import Markup, element, join
from shoal.service.analyzer.collection import Collection
from shoal.service.analyzer.decode import REASONS
from shoal.service.survey import Survey
from shoal.web.dashboard import batches, panels
from shoal.web.dashboard.access import Visitor
from shoal.web.dashboard.chart import Order
from shoal.web.dashboard.crowd import Crowd
from shoal.web.dashboard.parts import day, link, lost, moment, note, panel, table, texted, tiles
from shoal.web.dashboard.progress import Progress
from shoal.web.dashboard.snapshot import Snapshot

_LONG = 120  # letters of a question that is not large any more


class State(StrEnum):
    """Where a survey is in its life."""

    EARLY = "not started"
    OPEN = "collecting"
    OVER = "over"

    @classmethod
    def of(cls, survey: Survey, now: int) -> State:
        """At a moment."""
        if now < survey.not_before:
            return cls.EARLY
        return cls.OPEN if now <= survey.not_after else cls.OVER


def may_wait(survey: Survey, now: int) -> bool:
    """Whether a batch of it can be open: some are, for a while after the last report."""
    return survey.not_before <= now <= survey.not_after + survey.batches.max_age


@dataclass(frozen=True, kw_only=True)
class Shown:
    """All that a page of a survey is made from."""

    snapshot: Snapshot
    visitor: Visitor
    now: int
    progress: Progress | None
    crowd: Crowd | None
    order: Order = "share"
    page: int = 1
    under_way: tuple[Collection, ...] = ()
    keys: Markup | None = None

    @property
    def survey(self) -> Survey:
        """The survey."""
        return self.snapshot.survey

    def for_operators(self, *, under_way: Iterable[Collection], keys: Markup) -> Shown:
        """With what is their business alone."""
        return replace(self, under_way=tuple(under_way), keys=keys)

    def body(self) -> list[Markup]:
        """What the page has between its header and its footer."""
        found, survey = self.snapshot, self.survey
        progress = panels.progress(survey, self.progress, waiting=may_wait(survey, self.now))
        parts = [
            panels.result(found, self.order),
            element("div", panels.funnel(found), panels.budget(found), class_="column"),
            panels.crowd(found, self.crowd, progress),
            panels.collusion(survey, found, self.crowd),
            batches.batches(found, self.visitor, self.page, self.under_way),
        ]
        if self.visitor.operator:
            parts.append(left_out(found.rejected, "Of all batches that were opened."))
            if self.keys is not None:
                parts.append(self.keys)
        parts.append(panels.privacy(found))
        return [self._heading(), element("div", *parts, class_="panels")]

    def _heading(self) -> Markup:
        survey, found = self.survey, self.snapshot
        state = State.of(survey, self.now)
        until = {
            State.EARLY: join("from ", day(survey.not_before)),
            State.OPEN: join("until ", day(survey.not_after)),
            State.OVER: join("since ", day(survey.not_after)),
        }[state]
        spent, last = found.life["epsilon"], found.last_published
        return element(
            "div",
            kicker(survey, state, until),
            heading(survey),
            texted("p", survey.purpose, class_="purpose"),
            *([_answered(survey)] if state is State.OPEN else []),
            tiles(
                ("valid reports", f"{found.funnel.valid:,}", ""),
                ("published batches", f"{len(found.published):,}", ""),
                ("ε lost so far", lost(spent), f" (promised: at most {plain(survey.epsilon)})"),
                ("last published in the hour from", moment(last) if last else "–", ""),
            ),
            id="heading",
        )


def kicker(survey: Survey, state: State, *since: str) -> Markup:
    """What is above the question: the state, since or until when, and the survey's name."""
    told = element("span", state.value, class_=f"state {state.name.lower()}")
    # A survey that was given no name is named by its question, which is below.
    named = [] if survey.name == survey.question else [texted("span", survey.name)]
    after = [" · "] if since and named else []
    return element("p", told, " ", *since, *after, *named, class_="kicker")


def heading(survey: Survey) -> Markup:
    """The question; smaller where it is long."""
    kind = {"class_": "longer"} if len(survey.question) > _LONG else {}
    return texted("h1", survey.question, **kind)


def _answered(survey: Survey) -> Markup:
    return element("p", link("The page on which people answer", f"/answer/{survey.id}"))


def left_out(rejected: dict[str, int], of: str = "") -> Markup:
    """Why records were not counted."""
    rows = [(reason, text, f"{rejected.get(reason, 0):,}") for reason, text in REASONS.items()]
    return panel(
        "rejected",
        "Left out",
        table(
            ("reason", "what it is", "records"),
            rows,
            caption="Records that were left out, by reason",
            classes=("text", "text", "n"),
        ),
        note(f"{of} What is left out hides nobody.".strip()),
    )
