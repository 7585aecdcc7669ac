"""All that was published of a survey, as pages need it: read once, and again when there is more.

A document of a batch repeats its estimates for every answer, and a survey may have a thousand of
them. Pages need of each batch the rest, which the tables have too, and the estimate from all of
them, which follows from the sum of their counts.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property
from operator import attrgetter

from shoal.errors import ShoalError
from shoal.estimate import top
from shoal.intervals.estimates import Estimate
from shoal.results.charts import LEVEL, Item, items
from shoal.results.result import ColumnResult, Result
from shoal.service.analyzer import tables
from shoal.service.analyzer.collection import Collection, Opened
from shoal.service.analyzer.ledger import ReleaseDecision, guaranteed
from shoal.service.analyzer.results import BatchResult, Outcome, SurveyResults, Version
from shoal.service.survey import Survey

MOST = 500  # answers, the largest ones; all of them are in what can be downloaded
_STEPS = {
    tables.REQUESTED: "asked for",
    tables.RECEIVED: "received, not decrypted yet",
    tables.OPENED: "decrypted and counted",
    tables.BUDGETED: "in the ledger, published next",
}


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


def may_be_open(survey: Survey, now: int) -> bool:
    """Whether a batch of it can be open: some are, for a while after the last report."""
    return survey.not_before <= now <= survey.not_after + survey.batches.max_age


@dataclass(frozen=True, kw_only=True)
class Answer(Item):
    """An answer of a survey, the place of which is ``index``.

    ``significant``: more than mere noise reaches anywhere, with probability 95 %. ``separated``:
    more than every answer whose estimate is smaller, beyond the noise; None where there is no such
    answer. The intervals behind it hold together.
    """

    index: int
    separated: bool | None


def answers(result: ColumnResult) -> tuple[Answer, ...]:
    """The largest first; none for a mean."""
    estimate = result.estimate
    if not isinstance(estimate, Estimate):
        return ()
    ranking, last = top(estimate, MOST, LEVEL), len(result.labels) - 1
    rows = zip(items(result.labels, estimate)[:MOST], ranking, strict=True)
    return tuple(
        Answer(
            **vars(item),
            index=ranked.index,
            separated=None if place == last else ranked.separated,
        )
        for place, (item, ranked) in enumerate(rows)
    )


@dataclass(frozen=True, eq=False)
class Snapshot:
    """What was published of a survey, its batches without their estimates."""

    results: SurveyResults
    version: Version

    @property
    def survey(self) -> Survey:
        """Whose results they are."""
        return self.results.survey

    @property
    def address(self) -> str:
        """Where the survey's page is."""
        return f"/dashboard/surveys/{self.survey.id}"

    @cached_property
    def batches(self) -> list[BatchResult]:
        """The newest first."""
        return sorted(self.results.batches, key=attrgetter("published"), reverse=True)

    @cached_property
    def published(self) -> list[BatchResult]:
        """The batches whose estimates are published."""
        return [batch for batch in self.batches if batch.withheld is None]

    @cached_property
    def withheld(self) -> list[BatchResult]:
        """The others."""
        return [batch for batch in self.batches if batch.withheld is not None]

    @cached_property
    def smallest(self) -> int:
        """Valid reports of the smallest published batch; before there is one, of any."""
        return self.results.life["smallest"] or self.survey.batches.minimum

    @cached_property
    def rejected(self) -> Counter[str]:
        """Records that were left out of all batches, by reason."""
        total = Counter[str]()
        for batch in self.batches:
            total.update(batch.rejected)
        return total

    @cached_property
    def result(self) -> Result | None:
        """All batches together, for people to read."""
        return self.results.result()

    @cached_property
    def answers(self) -> list[tuple[Answer, ...]]:
        """The largest answers to each question, for a survey that has a result."""
        return [] if self.result is None else [answers(each) for each in self.result.columns]

    def of_batch(self, batch: BatchResult, collection: Collection) -> tuple[ColumnResult, ...]:
        """What a published batch found, question by question, if its counts are there."""
        if batch.withheld is not None or not isinstance(collection, Opened):
            return ()
        decision = ReleaseDecision(
            batch.valid, batch.honest, guaranteed(self.survey, batch.valid), None
        )
        try:
            return Outcome(self.survey, decision, collection.counts, batch.reports).spoken
        except ShoalError:
            return ()


def under_way(collections: Iterable[Collection]) -> list[str]:
    """How many closed batches are at each step before they are published."""
    states = [each.state for each in collections]
    return [
        f"{states.count(state):,} {text} ({state})"
        for state, text in _STEPS.items()
        if state in states
    ]
