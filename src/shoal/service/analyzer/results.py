"""All that a survey has found so far: the result of every batch, and of all batches together.

Counts of batches add up, so that the estimate from all of them is the mechanism's own estimate from
the sum. Together they cost a person no more than the costliest of them: reports of one person are
accounted for in the guarantee of the smallest crowd, and batches of different people do not add up.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import reduce
from operator import add
from threading import Lock
from typing import Any, TypeAlias

from shoal.accounting.guarantee import Guarantee
from shoal.errors import ShoalError
from shoal.explain.text import plain, up
from shoal.report.result import ColumnResult, Result, harmless
from shoal.sealing import SurveyId
from shoal.service.analyzer.publish import (
    LEVEL,
    VERSION,
    Document,
    about,
    bias,
    estimates,
    worth,
)
from shoal.service.analyzer.release_decision import ReleaseDecision, estimated, guaranteed
from shoal.service.analyzer.store import AnalyzerStore
from shoal.service.analyzer.tables import REFUSED
from shoal.service.survey import Survey
from shoal.values import Counts

# What is another one whenever the results of a survey are.
Version: TypeAlias = tuple[object, ...]

ALL = "all"
_MEAN = ("mean", "low", "high", "standard_error", "sum")
_SHARE = ("answer", "share", "low", "high", "standard_error", "count")


@dataclass(frozen=True, kw_only=True, eq=False)
class SurveyResults:
    """The results of one survey.

    ``counts`` is the sum over all batches that were published with estimates, None if there is
    none; ``spoiled`` is how many of their reports lack a message. ``refused`` has the batches that
    were not what they claimed to be, and why.
    """

    survey: Survey
    batches: tuple[Document, ...]
    refused: tuple[Document, ...]
    life: Document
    counts: Counts | None
    spoiled: int

    def to_dict(self) -> Document:
        """Plain values."""
        return {
            "version": VERSION,
            **about(self.survey),
            "batches": list(self.batches),
            "combined": self.combined(),
            "refused": list(self.refused),
            "life": self.life,
        }

    def combined(self) -> Document | None:
        """The estimate from all batches together; None before there is one."""
        if self.counts is None:
            return None
        decision = self._decision(self.counts)
        numbers = {} if decision.withheld is not None else estimates(self.survey, self.counts)
        bound = (
            None if decision.withheld else bias(self.survey, self.counts, decision, self.spoiled)
        )
        return {
            "batches": self.life["batches"],
            **worth(self.survey, decision),
            "epsilon": self.life["epsilon"],
            "level": LEVEL,
            "estimates": None,
            "mean": None,
            **numbers,
            "bias_bound": bound,
            "withheld": decision.withheld,
        }

    def _decision(self, counts: Counts) -> ReleaseDecision:
        """All valid reports, under the guarantee of the smallest batch."""
        smallest = guaranteed(self.survey, int(self.life["smallest"]))
        try:
            estimated(self.survey, counts)
        except ShoalError:
            reason = "counts of several batches that do not add up"
            return ReleaseDecision(counts.n, self.survey.honest(counts.n), smallest, reason)
        return ReleaseDecision(counts.n, self.survey.honest(counts.n), smallest, None)

    def result(self) -> Result | None:
        """All batches together as a result like any other, for charts and pages."""
        if self.counts is None:
            return None
        decision = self._decision(self.counts)
        if decision.guarantee is None or decision.withheld is not None:
            return None
        combined = column(self.survey, self.counts, decision.guarantee)
        return Result(
            columns=(combined,), guarantee=decision.guarantee, notes=tuple(self._notes(decision))
        )

    def _notes(self, decision: ReleaseDecision) -> Iterator[str]:
        smallest = int(self.life["smallest"])
        if self.life["batches"] == 1:
            yield f"one batch of {smallest:,} valid reports"
        else:
            yield (
                f"{self.life['batches']} batches, the smallest of {smallest:,} valid reports: the "
                "guarantee is that of a person in it, and counts on "
                f"{self.survey.honest(smallest):,} honest ones in each"
            )
        left_out = sum(sum(document["rejected"].values()) for document in self.batches)
        if left_out:
            yield f"{left_out:,} records were left out, and hide nobody"
        withheld = sum(document["withheld"] is not None for document in self.batches)
        if withheld:
            were = "batch was" if withheld == 1 else "batches were"
            worst = self.life["analyzer_epsilon"]
            lost = "no guarantee" if worst is None else f"at most epsilon {up(worst)}"
            yield (
                f"{withheld} {were} withheld, and not counted; towards the analyzer, who opened "
                f"them all, there is {lost} (at delta {plain(self.survey.delta)})"
            )
        bound = (
            None if self.counts is None else bias(self.survey, self.counts, decision, self.spoiled)
        )
        if bound:
            what = "the mean" if not self.survey.answers else "a share"
            yield f"those assumed dishonest can have shifted {what} by at most {bound:.3g}"

    def to_csv(self) -> str:
        """One line per batch and answer, and those of all batches together."""
        head = ("batch", "status", *(_SHARE if self.survey.answers else _MEAN))
        names = (*head, "reports", "valid", "epsilon", "delta")
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        writer.writerow(names)
        for row in self.rows():
            writer.writerow(harmless({name: row.get(name) for name in names}).values())
        return text.getvalue()

    def rows(self) -> Iterator[dict[str, Any]]:
        """What each batch says of each answer, then the same of all batches together."""
        for document in self.batches:
            yield from _lines(document)
        combined = self.combined()
        if combined is not None:
            status = "published" if combined["withheld"] is None else "withheld"
            reports = sum(document["reports"] for document in self.batches if _counts(document))
            yield from _lines({**combined, "batch": ALL, "status": status, "reports": reports})


def survey_results(store: AnalyzerStore, name: SurveyId) -> SurveyResults:
    """What a survey has found so far: all of it follows from the documents read first."""
    batches = store.results.of(name)
    published = [document for document in batches if _counts(document)]
    counts = store.results.counts(name)
    survey = store.surveys.get(name)
    return SurveyResults(
        survey=survey,
        batches=tuple(batches),
        refused=tuple(
            {"batch": each.batch, "reason": each.reason}
            for each in store.collections.of(name)
            if each.state == REFUSED
        ),
        life={
            **store.ledger.spent(
                name
            ),  # towards the analyzer, who has opened more than it has told
            "epsilon": max((each["epsilon"] for each in published), default=None),
            "batches": len(published),
            "smallest": min((each["valid"] for each in published), default=None),
        },
        counts=reduce(add, (counts[each["batch"]] for each in published)) if published else None,
        spoiled=sum(each["reports"] - each["valid"] for each in published if survey.slots > 1),
    )


def batch_sentence(batch: Document) -> str:
    """What became of a batch that was opened, in one line."""
    name = f"batch {batch['batch'][:8]}"
    left_out = ", ".join(
        f"{count:,} {reason}" for reason, count in batch["rejected"].items() if count
    )
    reports = f"{batch['valid']:,} of {batch['reports']:,} reports valid"
    if left_out:
        reports = f"{reports} ({left_out})"
    if batch["withheld"] is not None:
        return f"{name} withheld: {reports}; {batch['withheld']}"
    guarantee = f"ε = {up(batch['epsilon'])} at δ = {plain(batch['delta'])}"
    return f"{name} published: {reports}; {guarantee}"


def column(survey: Survey, counts: Counts, guarantee: Guarantee) -> ColumnResult:
    """What counts say under a guarantee, as a result like any other."""
    return ColumnResult(
        column=survey.question,
        labels=survey.answers,
        estimate=estimated(survey, counts),
        randomizer=survey.device,
        guarantee=guarantee,
        n=counts.n,
    )


def _counts(document: Mapping[str, Any]) -> bool:
    """Whether a batch was published with its estimates."""
    return document["withheld"] is None


def _lines(document: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    if document["estimates"] is not None:
        yield from ({**document, **estimate} for estimate in document["estimates"])
    elif document["mean"] is not None:
        yield {**document, **document["mean"]}
    else:
        yield {name: value for name, value in document.items() if name != "mean"}


class ResultCache:
    """Documents and files that take long to make from the results of a survey.

    Each is kept until there are other results: so many bytes of it at ``most``, and the newest
    whatever its size.
    """

    def __init__(self, most: int = 64 << 20) -> None:
        self._most = most
        self._kept: dict[tuple[SurveyId, str], tuple[Version, bytes]] = {}
        self._lock = Lock()
        self._making: dict[SurveyId, Lock] = {}

    def get(self, name: SurveyId, what: str, version: Version, make: Callable[[], bytes]) -> bytes:
        """As it was made before, or made now; of one survey one at a time."""
        with self._making.setdefault(name, Lock()):
            with self._lock:
                kept = self._kept.get((name, what))
            if kept is None or kept[0] != version:
                kept = version, make()
            with self._lock:
                self._keep((name, what), kept)
            return kept[1]

    def _keep(self, key: tuple[SurveyId, str], made: tuple[Version, bytes]) -> None:
        self._kept.pop(key, None)
        self._kept[key] = made  # the newest is the last
        held = sum(len(body) for _, body in self._kept.values())
        while held > self._most and len(self._kept) > 1:
            held -= len(self._kept.pop(next(iter(self._kept)))[1])
