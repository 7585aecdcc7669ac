"""All that was published of a survey, as pages need it: read once, and again when there is more.

A document of a batch repeats its estimates for every answer, and a survey may have a thousand of
them. Pages need of each batch one line, which the tables have without its document, and the
estimate from all of them, which follows from the sum of their counts.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property, reduce
from operator import add, attrgetter
from threading import Lock

from shoal.report.result import Result
from shoal.sealing import SurveyId
from shoal.service.analyzer import tables as schema
from shoal.service.analyzer.collection import Collection
from shoal.service.analyzer.publish import Document
from shoal.service.analyzer.results import SurveyResults, Version
from shoal.service.analyzer.store import AnalyzerStore
from shoal.service.survey import Survey
from shoal.values import Counts
from shoal.web.dashboard.answers import Answer, answers


@dataclass(frozen=True, kw_only=True)
class Line:
    """One batch that was published or withheld; ``published`` is in seconds, to the hour."""

    batch: str
    published: int
    reports: int
    valid: int
    honest: int
    epsilon: float | None
    withheld: str | None
    rejected: dict[str, int]

    def document(self) -> Document:
        """As much of the batch's document as sums need."""
        return {"rejected": self.rejected, "withheld": self.withheld, "reports": self.reports}


@dataclass(frozen=True, kw_only=True)
class Funnel:
    """Sums over batches: reports that came, those that count, those taken to be honest."""

    received: int
    valid: int
    honest: int

    @classmethod
    def of(cls, lines: Iterable[Line]) -> Funnel:
        """The sums."""
        every = list(lines)
        return cls(
            received=sum(line.reports for line in every),
            valid=sum(line.valid for line in every),
            honest=sum(line.honest for line in every),
        )


@dataclass(frozen=True, kw_only=True, eq=False)
class Snapshot:
    """A survey, its batches with the newest first, and what they found together."""

    survey: Survey
    version: Version
    lines: tuple[Line, ...]
    refused: tuple[Collection, ...]
    found: SurveyResults

    @cached_property
    def published(self) -> tuple[Line, ...]:
        """The batches whose estimates are published."""
        return tuple(line for line in self.lines if line.withheld is None)

    @cached_property
    def withheld(self) -> tuple[Line, ...]:
        """The others."""
        return tuple(line for line in self.lines if line.withheld is not None)

    @cached_property
    def funnel(self) -> Funnel:
        """Of the published batches."""
        return Funnel.of(self.published)

    @cached_property
    def rejected(self) -> dict[str, int]:
        """Records that were left out of all batches, by reason."""
        total: dict[str, int] = {}
        for line in self.lines:
            for reason, count in line.rejected.items():
                total[reason] = total.get(reason, 0) + count
        return total

    @property
    def life(self) -> Document:
        """What the survey cost so far."""
        return self.found.life

    @cached_property
    def result(self) -> Result | None:
        """All batches together."""
        return self.found.result()

    @cached_property
    def combined(self) -> Document | None:
        """The same, as it is published for programs."""
        return self.found.combined()

    @cached_property
    def answers(self) -> tuple[Answer, ...]:
        """The largest answers, for a survey that has answers and a result."""
        return () if self.result is None else answers(self.result.only)

    @property
    def last_published(self) -> int | None:
        """When, to the hour."""
        return self.published[0].published if self.published else None


class Snapshots:
    """The newest of every survey."""

    def __init__(self, store: AnalyzerStore) -> None:
        self._store = store
        self._kept: dict[SurveyId, Snapshot] = {}
        self._locks: dict[SurveyId, Lock] = {}

    def get(self, name: SurveyId) -> Snapshot:
        """As it is now."""
        version = self._store.results.version(
            name
        )  # before: what comes meanwhile is asked for again
        kept = self._kept.get(name)
        if kept is not None and kept.version == version:
            return kept
        with self._locks.setdefault(name, Lock()):
            kept = self._kept.get(name)
            if kept is None or kept.version != version:
                kept = self._kept[name] = read(self._store, name, version)
        return kept


def read(store: AnalyzerStore, name: SurveyId, version: Version) -> Snapshot:
    """What a survey has found: all of it follows from the documents that are there first."""
    survey = store.surveys.get(name)
    hours = store.results.hours(name)
    entries = {entry["batch"]: entry for entry in store.ledger.entries(name)}
    collections = store.collections.of(name)
    lines = [_line(each, hours, entries[each.batch]) for each in collections if each.batch in hours]
    lines.sort(key=attrgetter("batch"))
    lines.sort(key=attrgetter("published"), reverse=True)
    told = [line for line in lines if line.withheld is None]
    counts = store.results.counts(name)
    found = SurveyResults(
        survey=survey,
        batches=tuple(line.document() for line in lines),
        refused=(),
        life={
            **store.ledger.spent(name),
            "epsilon": max(
                (line.epsilon for line in told if line.epsilon is not None), default=None
            ),
            "batches": len(told),
            "smallest": min((line.valid for line in told), default=None),
        },
        counts=_summed([counts[line.batch] for line in told]),
        spoiled=sum(line.reports - line.valid for line in told if survey.slots > 1),
    )
    return Snapshot(
        survey=survey,
        version=version,
        lines=tuple(lines),
        refused=tuple(each for each in collections if each.state == schema.REFUSED),
        found=found,
    )


def _line(each: Collection, hours: dict[str, int], entry: Document) -> Line:
    return Line(
        batch=each.batch,
        published=hours[each.batch],
        reports=each.reports or 0,
        valid=int(entry["valid"]),
        honest=int(entry["honest"]),
        epsilon=entry["epsilon"],
        withheld=None if entry["released"] else each.reason or "withheld",
        rejected=each.rejected or {},
    )


def _summed(counts: list[Counts]) -> Counts | None:
    return reduce(add, counts) if counts else None
