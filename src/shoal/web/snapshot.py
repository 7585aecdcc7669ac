"""All that was published of a survey, as pages need it: read once, and again when there is more.

A document of a batch repeats its estimates for every answer, and a survey may have a thousand of
them. Pages need of each batch one row, which the tables have without its document, and the
estimate from all of them, which follows from the sum of their counts.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property, reduce
from operator import add, attrgetter
from threading import Lock

from shoal.accounting.guarantee import Guarantee
from shoal.errors import ShoalError
from shoal.estimate import top
from shoal.report.charts import Item
from shoal.report.result import ColumnResult, Result
from shoal.sealing import SurveyId
from shoal.service.analyzer import tables
from shoal.service.analyzer.collection import Collection
from shoal.service.analyzer.publish import Document
from shoal.service.analyzer.release_decision import guaranteed, local_epsilon
from shoal.service.analyzer.results import SurveyResults, Version, column
from shoal.service.analyzer.store import AnalyzerStore
from shoal.service.survey import Survey
from shoal.values import Counts, Estimate

LEVEL = 0.95
MOST = 500  # answers, the largest ones; all of them are in what can be downloaded
_STEPS = {
    tables.REQUESTED: "asked for",
    tables.RECEIVED: "here, not opened yet",
    tables.OPENED: "opened and counted",
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
    low, high = estimate.interval(LEVEL)
    return tuple(
        Answer(
            label=result.labels[ranked.index],
            value=100 * ranked.frequency,
            low=100 * float(low[ranked.index]),
            high=100 * float(high[ranked.index]),
            total=ranked.frequency * estimate.n,
            significant=ranked.significant,
            unit=" %",
            index=ranked.index,
            separated=ranked.separated if place + 1 < estimate.frequencies.size else None,
        )
        for place, ranked in enumerate(top(estimate, MOST, LEVEL))
    )


@dataclass(frozen=True, kw_only=True)
class BatchRow:
    """One batch that was published or withheld; ``published`` is in seconds, to the hour."""

    batch: str
    published: int
    reports: int
    valid: int
    honest: int
    epsilon: float | None
    withheld: str | None
    rejected: dict[str, int]


@dataclass(frozen=True, kw_only=True)
class Funnel:
    """Sums over batches: reports that came, those that count, those taken to be honest."""

    received: int
    valid: int
    honest: int

    @classmethod
    def of(cls, batches: Iterable[BatchRow]) -> Funnel:
        """The sums."""
        rows = list(batches)
        return cls(
            received=sum(row.reports for row in rows),
            valid=sum(row.valid for row in rows),
            honest=sum(row.honest for row in rows),
        )


@dataclass(frozen=True, kw_only=True, eq=False)
class Snapshot:
    """A survey, its batches with the newest first, and what they found together."""

    survey: Survey
    version: Version
    batches: tuple[BatchRow, ...]
    refused: tuple[Collection, ...]
    results: SurveyResults

    @property
    def address(self) -> str:
        """Where the survey's page is."""
        return f"/dashboard/surveys/{self.survey.id}"

    @cached_property
    def published(self) -> tuple[BatchRow, ...]:
        """The batches whose estimates are published."""
        return tuple(row for row in self.batches if row.withheld is None)

    @cached_property
    def withheld(self) -> tuple[BatchRow, ...]:
        """The others."""
        return tuple(row for row in self.batches if row.withheld is not None)

    @cached_property
    def funnel(self) -> Funnel:
        """Of the published batches."""
        return Funnel.of(self.published)

    @cached_property
    def rejected(self) -> dict[str, int]:
        """Records that were left out of all batches, by reason."""
        total: dict[str, int] = {}
        for row in self.batches:
            for reason, count in row.rejected.items():
                total[reason] = total.get(reason, 0) + count
        return total

    @property
    def life(self) -> Document:
        """What the survey cost so far."""
        return self.results.life

    @cached_property
    def result(self) -> Result | None:
        """All batches together."""
        return self.results.result()

    @cached_property
    def bias_bound(self) -> float | None:
        """By how much dishonest people can have shifted the result; None if that is not known."""
        bound: float | None = (self.results.combined() or {}).get("bias_bound")
        return bound

    @cached_property
    def answers(self) -> tuple[Answer, ...]:
        """The largest answers, for a survey that has answers and a result."""
        return () if self.result is None else answers(self.result.only)

    @property
    def promised(self) -> Guarantee:
        """What the survey's noise keeps in a batch of the smallest crowd."""
        return self.survey.guarantee(self.survey.batches.minimum)

    @property
    def local_epsilon(self) -> float:
        """What holds whoever colludes."""
        return local_epsilon(self.survey)

    def of_batch(self, collection: Collection) -> ColumnResult | None:
        """What a published batch found, as a result like any other, if its counts are there."""
        counts = collection.counts
        guarantee = None if counts is None else guaranteed(self.survey, counts.n)
        if counts is None or guarantee is None:
            return None
        try:
            return column(self.survey, counts, guarantee)
        except ShoalError:
            return None


class Snapshots:
    """The newest of every survey."""

    def __init__(self, store: AnalyzerStore) -> None:
        self._store = store
        self._newest: dict[SurveyId, Snapshot] = {}
        self._locks: dict[SurveyId, Lock] = {}

    def get(self, name: SurveyId) -> Snapshot:
        """As it is now."""
        # Before: what comes meanwhile is asked for again.
        version = self._store.results.version(name)
        with self._locks.setdefault(name, Lock()):
            newest = self._newest.get(name)
            if newest is None or newest.version != version:
                newest = self._newest[name] = read(self._store, name, version)
        return newest


def read(store: AnalyzerStore, name: SurveyId, version: Version) -> Snapshot:
    """What a survey has found: all of it follows from the documents that are there first."""
    survey = store.surveys.get(name)
    hours = store.results.hours(name)
    entries = {entry["batch"]: entry for entry in store.ledger.entries(name)}
    collections = store.collections.of(name)
    rows = [_row(each, hours, entries[each.batch]) for each in collections if each.batch in hours]
    rows.sort(key=attrgetter("batch"))
    rows.sort(key=attrgetter("published"), reverse=True)
    published = [row for row in rows if row.withheld is None]
    counts = store.results.counts(name)
    results = SurveyResults(
        survey=survey,
        batches=tuple(
            {"rejected": row.rejected, "withheld": row.withheld, "reports": row.reports}
            for row in rows
        ),
        refused=(),
        life={
            **store.ledger.spent(name),
            "epsilon": max(
                (row.epsilon for row in published if row.epsilon is not None), default=None
            ),
            "batches": len(published),
            "smallest": min((row.valid for row in published), default=None),
        },
        counts=_sum([counts[row.batch] for row in published]),
        spoiled=sum(row.reports - row.valid for row in published if survey.slots > 1),
    )
    return Snapshot(
        survey=survey,
        version=version,
        batches=tuple(rows),
        refused=tuple(each for each in collections if each.state == tables.REFUSED),
        results=results,
    )


def _row(each: Collection, hours: dict[str, int], entry: Document) -> BatchRow:
    return BatchRow(
        batch=each.batch,
        published=hours[each.batch],
        reports=each.reports or 0,
        valid=int(entry["valid"]),
        honest=int(entry["honest"]),
        epsilon=entry["epsilon"],
        withheld=None if entry["released"] else each.reason or "withheld",
        rejected=each.rejected or {},
    )


def _sum(counts: list[Counts]) -> Counts | None:
    return reduce(add, counts) if counts else None


def under_way(collections: Iterable[Collection]) -> list[str]:
    """How many closed batches are at each step before they are published."""
    states = [each.state for each in collections]
    return [
        f"{states.count(state):,} {text} ({state})"
        for state, text in _STEPS.items()
        if state in states
    ]
