"""What is published: the result of every batch, once and for all, and of all batches together.

A document is plain values. That of a result says what was found in a batch, how sure that is, and
what it costs. It holds no more about anybody than the estimates, which are computed
from what came out of the shuffler, and says itself what has to be believed for its guarantee.

Estimates are those of :class:`shoal.results.result.ColumnResult`, as of any run, and have the names
that documents promise. Counts of batches add up, so that the estimate from all of them is the
mechanism's own estimate from the sum. Together they cost a person no more than the costliest of
them: reports of one person are accounted for in the guarantee of the smallest crowd, and batches of
different people do not add up.
"""

from __future__ import annotations

import csv
import io
import json
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property, reduce
from operator import add, attrgetter
from threading import Lock
from typing import Any, TypeAlias

import sqlalchemy as sa

from shoal.accounting.guarantee import Guarantee
from shoal.errors import ShoalError
from shoal.explain.text import finite, plain, up
from shoal.intervals.estimates import Estimate, MeanEstimate
from shoal.planning.plans import Task
from shoal.planning.schemes import Whole
from shoal.questions.settled import settle
from shoal.questions.terms import EVERYBODY
from shoal.results.groups import GroupedResult
from shoal.results.result import ColumnResult, Result, harmless, in_table, result_of
from shoal.sealing import SurveyId
from shoal.service.analyzer import tables
from shoal.service.analyzer.collection import Collection, Collections, Held, Opened, Refused
from shoal.service.analyzer.decode import unpacked
from shoal.service.analyzer.ledger import (
    LOST,
    Ledger,
    Life,
    ReleaseDecision,
    guaranteed,
    spent,
    spoiled,
)
from shoal.service.clock import HOUR
from shoal.service.db.database import Database
from shoal.service.db.surveys import Surveys, lock_survey
from shoal.service.errors import UnknownError
from shoal.service.survey import Item, Survey
from shoal.service.survey.items import labels
from shoal.service.survey.words import sentences
from shoal.service.wire import Wire
from shoal.values import Counts

Document = dict[str, Any]
# What is another one whenever the results of a survey are.
Version: TypeAlias = tuple[object, ...]

VERSION = 1
LEVEL = 0.95
ALL = "all"
PUBLISHED, WITHHELD = "published", "withheld"
# Columns of tables: of answers, of numbers, and what those of answers by groups have more.
ANSWERS = ("answer", "fraction", "low", "high", "standard_error", "count")
NUMBERS = ("mean", "low", "high", "standard_error", "sum")
GROUPED = (
    *(f"fraction_of_group{end}" for end in ("", "_low", "_high")),
    *("group_count", "group_low", "group_high"),
)
_RELEASED = "released by the operator despite"
_NAMED = 5  # batches in a sentence
_NO_ESTIMATES: Document = dict.fromkeys(("estimates", "mean", "bias_bound"))


# ------------------------------------------------------------------------------ what reports say


def column(question: Item, counts: Counts, guarantee: Guarantee) -> ColumnResult:
    """What counts say under a guarantee, as of a table, with the question as people read it."""
    settled = settle(question.question, n=counts.n)
    scheme = Whole((settled.domain,))
    task = Task(settled, scheme, (question.device,), (), guarantee, EVERYBODY)
    result = replace(result_of(task, (counts,)), column=question.text, notes=())
    return replace(result, by=question.by) if question.groups else result


def spoken(result: ColumnResult, question: Item) -> ColumnResult:
    """With the words that people who answered have read."""
    answers, groups = question.spoken
    result = replace(result, labels=labels(answers, groups))
    if isinstance(result, GroupedResult):
        return replace(result, answers=answers, group_labels=groups)
    return result


@dataclass(frozen=True, eq=False)
class Outcome:
    """What so many ``reports`` add up to, question by question, and what it is worth."""

    survey: Survey
    decision: ReleaseDecision
    counts: tuple[Counts, ...]
    reports: int

    @cached_property
    def columns(self) -> tuple[ColumnResult, ...]:
        """The result of each question; none if nothing is published."""
        guarantee = self.decision.guarantee
        if guarantee is None or self.decision.withheld is not None or not self.counts:
            return ()
        pairs = zip(self.survey.questions, self.counts, strict=True)
        return tuple(column(*pair, guarantee) for pair in pairs)

    @cached_property
    def bounds(self) -> tuple[float | None, ...]:
        """By how much dishonest people can have shifted each; None where that is not known."""
        pairs = zip(self.survey.questions, self.columns, self.counts, strict=False)
        return tuple(bias(*pair, self.decision, self.reports) for pair in pairs)

    @property
    def spoken(self) -> tuple[ColumnResult, ...]:
        """The results for people to read."""
        pairs = zip(self.columns, self.survey.questions, strict=False)
        return tuple(spoken(*pair) for pair in pairs)

    def to_dict(self) -> Document:
        """What so many valid reports guarantee, and what is assumed for that; the estimates.

        Fractions of the answers, or the mean, with limits of 95 % intervals. Both kinds of
        estimates are there by name, so that every document has the same members. Those of several
        questions are in a list ``questions``, with their names.
        """
        survey, decision, guarantee = self.survey, self.decision, self.decision.guarantee
        document: Document = {
            "valid": decision.valid,
            "honest": decision.honest,
            "epsilon": None if guarantee is None else guarantee.epsilon,
            "delta": survey.delta,
            "local_epsilon": survey.local_epsilon,
            "theorem": None if guarantee is None else guarantee.theorem,
            "reports_per_person": survey.reports_per_person,
            "reports_per_person_is": survey.admission.enforced,
            "participation": survey.participation,
            "dishonest": survey.admission.dishonest,
            "admission": survey.admission.to_dict(),
            "assumptions": [] if guarantee is None else list(guarantee.assumptions),
            "trust": survey.admission.trust,
            "level": LEVEL,
            **_NO_ESTIMATES,
            "withheld": decision.withheld,
        }
        parts = []
        for result, bound in zip(self.columns, self.bounds, strict=True):
            records, mean = result.published(), isinstance(result.estimate, MeanEstimate)
            estimates, number = (None, records[0]) if mean else (records, None)
            parts.append({"estimates": estimates, "mean": number, "bias_bound": bound})
        if survey.several and parts:
            document["questions"] = [
                {"name": question.name, "question": question.text, "valid": each.n, **part}
                for question, each, part in zip(survey.questions, self.counts, parts, strict=True)
            ]
        elif parts:
            document |= parts[0]
        return document


def bias(
    question: Item,
    result: ColumnResult,
    counts: Counts,
    decision: ReleaseDecision,
    reports: int,
) -> float | None:
    """By how much those who follow no protocol can shift a fraction, or the mean, at most.

    One of them moves a count, or the sum, by at most its ``influence`` and what an honest report
    in its place would have added. Some of all ``reports`` may lack a message, and what is left of
    them counts. None where the mechanism states no bound.
    """
    people = decision.valid - decision.honest + spoiled(question, counts, reports)
    device = question.device
    own = device.domain.extent
    if device.several:
        return people * ((device.influence or 0.0) + own) / counts.n
    step = result.estimate.step if isinstance(result.estimate, Estimate) else 0.0
    return people * (step + own / counts.n) if step else None


# -------------------------------------------------------------------------------------- documents


def result_document(survey: Survey, decision: ReleaseDecision, batch: Opened) -> Document:
    """The result of a batch, but for when it is published, and what the survey cost so far."""
    return {
        "version": VERSION,
        "status": PUBLISHED if decision.withheld is None else WITHHELD,
        **about(survey),
        "batch": batch.batch,
        "reports": batch.reports,
        "rejected": batch.rejected,
        **Outcome(survey, decision, batch.counts, batch.reports).to_dict(),
        "warning": decision.warning and f"{_RELEASED}: {decision.warning}",
    }


def about(survey: Survey) -> Document:
    """Which survey it is."""
    return {"survey": str(survey.id), "name": survey.name, "question": survey.title}


def promise_json(survey: Survey) -> Document:
    """What holds for one person over the survey's life, at the fewest reports of a batch."""
    guarantee, terms = survey.guarantee(survey.batches.minimum), survey.terms
    return {
        "version": VERSION,
        **about(survey),
        "epsilon": guarantee.epsilon,
        "promised_epsilon": survey.epsilon,
        "delta": guarantee.delta,
        "delta_taking_part": max(terms.delta, terms.delta_taking_part),
        "local_epsilon": guarantee.local_epsilon,
        "minimum": survey.batches.minimum,
        "honest": guarantee.n,
        "dishonest": survey.admission.dishonest,
        "admission": survey.admission.to_dict(),
        "reports_per_person": survey.reports_per_person,
        "participation": survey.participation,
        "report_bytes": Wire.of(survey).report_bytes,
        "not_before": survey.not_before,
        "not_after": survey.not_after,
        "shuffler": survey.shuffler.url,
        "analyzer": survey.analyzer.url,
        "theorem": guarantee.theorem,
        "trust": guarantee.trust,
        "assumptions": list(guarantee.assumptions),
        **asdict(sentences(survey)),
    }


def written(document: Mapping[str, Any]) -> bytes:
    """A document as bytes: strict JSON, in which what is infinite is null."""
    text = json.dumps(finite(document), ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return text.encode()


# -------------------------------------------------------------------------- all batches together


@dataclass(frozen=True, kw_only=True)
class BatchResult:
    """What is published of a batch, but for its estimates.

    ``published`` is when, to the hour; ``withheld`` says why it has no estimates, if so.
    """

    batch: str
    published: int
    reports: int
    rejected: dict[str, int]
    valid: int
    honest: int
    epsilon: float | None
    withheld: str | None
    warning: str | None

    def sentence(self, survey: Survey) -> str:
        """What became of the batch, in one line."""
        name = f"batch {self.batch[:8]}"
        left_out = ", ".join(
            f"{count:,} {reason}" for reason, count in self.rejected.items() if count
        )
        reports = f"{self.valid:,} of {self.reports:,} reports valid"
        if left_out:
            reports = f"{reports} ({left_out})"
        if self.withheld is not None or self.epsilon is None:
            return f"{name} withheld: {reports}; {self.withheld}"
        guarantee = f"ε = {up(self.epsilon)} at δ = {plain(survey.delta)}"
        caveat = survey.admission.caveat
        crowd = f" ({caveat})" if caveat else ""
        warning = f"; {self.warning}" if self.warning else ""
        return f"{name} published: {reports}; {guarantee}{crowd}{warning}"


@dataclass(frozen=True)
class SetAside:
    """A batch of which nothing is published, and why."""

    batch: str
    reason: str | None


@dataclass(frozen=True, kw_only=True, eq=False)
class SurveyResults:
    """The results of one survey.

    ``documents`` are what was published of each of the ``batches``, if they were wanted.
    ``counts`` are the sums over all batches that were published with estimates, question by
    question, none if there is no batch; ``reports`` is how many reports those had. ``refused`` has
    the batches that were not what they claimed to be, and why; ``held`` those that no honest crowd
    can have sent, and why, until the operator releases them. ``restored``: from a backup, so that
    batches that were published later may be missing, and are paid for in ``life``. ``version`` is
    another one whenever the results are.
    """

    survey: Survey
    batches: tuple[BatchResult, ...]
    documents: tuple[Document, ...] = ()
    refused: tuple[SetAside, ...]
    held: tuple[SetAside, ...]
    life: Life
    counts: tuple[Counts, ...]
    reports: int
    restored: bool = False
    version: Version = ()

    @cached_property
    def published(self) -> list[BatchResult]:
        """The batches whose estimates are published, the newest first."""
        return [batch for batch in self.newest if batch.withheld is None]

    @cached_property
    def withheld(self) -> list[BatchResult]:
        """The others."""
        return [batch for batch in self.batches if batch.withheld is not None]

    @property
    def newest(self) -> list[BatchResult]:
        """All batches, the newest first."""
        return sorted(self.batches, key=attrgetter("published"), reverse=True)

    @property
    def smallest(self) -> int:
        """Valid reports of the smallest published batch; before there is one, of any."""
        return self.life["smallest"] or self.survey.batches.minimum

    @cached_property
    def rejected(self) -> Counter[str]:
        """Records that were left out of all batches, by reason."""
        return sum((Counter(each.rejected) for each in self.batches), Counter[str]())

    def to_dict(self) -> Document:
        """Plain values."""
        return {
            "version": VERSION,
            **about(self.survey),
            "batches": list(self.documents),
            "combined": self.combined(),
            "refused": list(map(asdict, self.refused)),
            "held": list(map(asdict, self.held)),
            "life": self.life,
        }

    @cached_property
    def outcome(self) -> Outcome | None:
        """All valid reports, under the guarantee of the smallest batch; None if there is none."""
        if not self.counts:
            return None
        guarantee, withheld = guaranteed(self.survey, self.smallest), None
        try:
            for question, counts in zip(self.survey.questions, self.counts, strict=True):
                question.device.estimate(counts)
        except ShoalError:
            withheld = "counts of several batches that do not add up"
        valid = min(counts.n for counts in self.counts)
        decision = ReleaseDecision(valid, self.survey.honest(valid), guarantee, withheld)
        return Outcome(self.survey, decision, self.counts, self.reports)

    def combined(self) -> Document | None:
        """The estimate from all batches together, as plain values; None before there is one."""
        if self.outcome is None:
            return None
        return {
            "batches": self.life["batches"],
            **self.outcome.to_dict(),
            "warning": self.warning,
            "epsilon": self.life["epsilon"],
        }

    @property
    def warning(self) -> str | None:
        """What has to be known of the batches before relying on them; None if nothing has."""
        warned = [each for each in self.batches if each.warning]
        if not warned:
            return None
        if len(warned) == 1:
            return f"batch {warned[0].batch[:8]} was {warned[0].warning}"
        names = ", ".join(each.batch[:8] for each in warned[:_NAMED])
        more = ", …" if len(warned) > _NAMED else ""
        return f"{len(warned):,} batches were {_RELEASED} signs of forgery: {names}{more}"

    @cached_property
    def result(self) -> Result | None:
        """All batches together as a result like any other, for people to read."""
        outcome = self.outcome
        if outcome is None or outcome.decision.guarantee is None or not outcome.columns:
            return None
        warnings = () if self.warning is None else (self.warning,)
        return Result(
            columns=tuple(replace(each, warnings=warnings) for each in outcome.spoken),
            guarantee=outcome.decision.guarantee,
            notes=tuple(self._notes(outcome)),
        )

    def of_batch(self, batch: BatchResult, collection: Collection) -> tuple[ColumnResult, ...]:
        """What a published batch says, question by question, if its counts are there."""
        if batch.withheld is not None or not isinstance(collection, Opened):
            return ()
        guarantee = guaranteed(self.survey, batch.valid)
        decision = ReleaseDecision(batch.valid, batch.honest, guarantee, None)
        try:
            return Outcome(self.survey, decision, collection.counts, batch.reports).spoken
        except ShoalError:
            return ()

    def _notes(self, outcome: Outcome) -> Iterator[str]:
        smallest = self.smallest
        if self.restored:
            yield (
                "the analyzer was restored from a backup: batches that it published since are "
                f"missing, and the guarantee is that of the smallest there can be, with "
                f"{smallest:,} valid reports"
            )
        elif self.life["batches"] == 1:
            yield f"one batch of {smallest:,} valid reports"
        else:
            yield (
                f"{self.life['batches']} batches, the smallest with {smallest:,} valid "
                "reports: the guarantee is for a person in that one, and assumes "
                f"{self.survey.honest(smallest):,} honest people in each"
            )
        yield self.survey.admission.fact
        if left_out := self.rejected.total():
            yield f"{left_out:,} records were left out; they hide nobody"
        if withheld := len(self.withheld):
            were = "batch was" if withheld == 1 else "batches were"
            worst = self.life["analyzer_epsilon"]
            lost = "no guarantee" if worst is None else f"at most epsilon {up(worst)}"
            yield (
                f"{withheld} {were} withheld and not counted; towards the analyzer, who "
                f"decrypted all batches, there is {lost} (at delta "
                f"{plain(self.survey.delta)})"
            )
        for question, bound in zip(self.survey.questions, outcome.bounds, strict=True):
            if bound:
                what = "a fraction" if question.answers else "the mean"
                what = f"{what} of everybody" if question.groups else what
                what = f"{what} of {question.name}" if self.survey.several else what
                yield (
                    f"the people assumed dishonest can have shifted {what} by at most {bound:.3g}"
                )

    def sentences(self) -> dict[str, str]:
        """What became of each batch that was opened, refused or held, in one line."""
        lines = {each.batch: each.sentence(self.survey) for each in self.batches}
        for each in self.refused:
            lines[each.batch] = f"batch {each.batch[:8]} refused: {each.reason or ''}"
        for each in self.held:
            release = f"to publish it after a look: shoal collect DIR --release {each.batch[:8]}"
            lines[each.batch] = f"batch {each.batch[:8]} held: {each.reason}; {release}"
        return lines

    def to_csv(self) -> str:
        """One line per batch and answer, and those of all batches together."""
        questions = self.survey.questions
        names = ["batch", "status", *["question"] * self.survey.several]
        names += ["group"] * any(each.groups for each in questions)
        names += ANSWERS if any(each.answers for each in questions) else ()
        names += NUMBERS if not all(each.answers for each in questions) else ()
        names += GROUPED if any(each.groups for each in questions) else ()
        names += ["reports", "valid", "epsilon", "delta", "warning"]
        text = io.StringIO()
        writer = csv.DictWriter(
            text, dict.fromkeys(names), restval="", extrasaction="ignore", lineterminator="\n"
        )
        writer.writeheader()
        writer.writerows(map(harmless, self.rows()))
        return text.getvalue()

    def rows(self) -> Iterator[Document]:
        """What each batch says of each answer, then the same of all batches together."""
        documents, combined = list(self.documents), self.combined()
        if combined is not None:
            status = PUBLISHED if combined["withheld"] is None else WITHHELD
            documents.append({**combined, "batch": ALL, "status": status, "reports": self.reports})
        for document in documents:
            for part in document.get("questions") or [document]:
                named = {name: value for name, value in document.items() if name != "mean"}
                named |= {"question": part.get("name"), "valid": part["valid"]}
                for record in part["estimates"] or [part["mean"] or {}]:
                    yield named | in_table(record)


# ---------------------------------------------------------------------------------- where they are


@dataclass(frozen=True)
class Results:
    """The documents of all batches that were opened."""

    database: Database
    surveys: Surveys
    collections: Collections
    ledger: Ledger

    def publish(self, collection: Collection, document: Document, *, now: int) -> Collection:
        """The result is there for good, with the hour, and with what the survey cost so far."""
        row = self.surveys.numbered(collection.survey)
        entry = tables.ledger.c
        debit = sa.and_(entry.survey == collection.survey, entry.batch == collection.batch)
        with self.database.write() as connection:
            # Two that publish at once must not miss each other in what the survey cost.
            lock_survey(connection, collection.survey, key_share=True)
            moved = self.collections.move_in(connection, collection, tables.PUBLISHED)
            if collection.state == tables.HELD:  # from now on it costs towards readers, too
                connection.execute(tables.ledger.update().where(debit).values(released=1))
            life, hour = spent(connection, row, collection.batch), now - now % HOUR
            values = {
                "survey": collection.survey,
                "batch": collection.batch,
                "document": written({**document, "published": hour, "life": life}),
                "published": hour,
            }
            connection.execute(sa.insert(tables.results).values(values))
            return moved

    def get(self, name: SurveyId, batch: str) -> bytes:
        """The document of a batch, as it was published."""
        columns = tables.results.c
        mine = columns.survey == self.surveys.row(name).number
        query = sa.select(columns.document).where(mine, columns.batch == batch)
        with self.database.read() as connection:
            document = connection.execute(query).scalar()
        if document is None:
            raise UnknownError("batch", batch)
        return bytes(document)

    def survey(self, name: SurveyId, *, documents: bool = True) -> SurveyResults:
        """What a survey has found so far; all of it follows from the batches that are read.

        With the ``documents`` of all of them, which may be large.
        """
        done, entry, each = tables.results.c, tables.ledger.c, tables.collections.c
        number = self.surveys.row(name).number
        query: sa.Select[Any] = sa.select(
            *(each.batch, each.reports, each.rejected, each.reason, each.warning, each.cells),
            *(done.published, entry.valid, entry.honest, entry.epsilon, entry.released),
            *([done.document] if documents else []),
        ).where(
            done.survey == number,
            *(each.survey == done.survey, each.batch == done.batch),
            *(entry.survey == done.survey, entry.batch == done.batch),
        )
        missing = sa.select(entry.epsilon, entry.valid).where(
            entry.survey == number, entry.batch == LOST
        )
        with self.database.read() as connection:
            rows = connection.execute(query.order_by(done.batch)).all()
            lost = connection.execute(missing).all()
        published = [row for row in rows if row.released]
        debits = [*published, *lost]
        counts = [unpacked(bytes(row.cells), row.valid) for row in published]
        every = self.collections.of(name)
        # The analyzer has opened more than it has told: what it told is of the batches read here.
        life: Life = {
            **self.ledger.spent(name),
            "epsilon": max((row.epsilon for row in debits), default=None),
            "batches": len(published),
            "smallest": min((row.valid for row in debits), default=None),
        }
        return SurveyResults(
            survey=self.surveys.get(name),
            batches=tuple(map(_batch, rows)),
            documents=tuple(json.loads(bytes(row.document)) for row in rows if documents),
            refused=tuple(SetAside(x.batch, x.reason) for x in every if isinstance(x, Refused)),
            held=tuple(SetAside(x.batch, x.warning) for x in every if isinstance(x, Held)),
            life=life,
            restored=bool(lost),
            counts=tuple(reduce(add, each) for each in zip(*counts, strict=True)),
            reports=sum(row.reports for row in published),
        )

    def version(self, name: SurveyId) -> Version:
        """What is another one whenever the results of a survey are."""
        number, columns = self.surveys.row(name).number, tables.collections.c
        counted = [
            sa.select(sa.func.count()).where(table.c.survey == number)
            for table in (tables.ledger, tables.results)
        ]
        aside = sa.select(columns.batch, columns.state, columns.reason).where(
            columns.survey == number, columns.state.in_([tables.REFUSED, tables.HELD])
        )
        with self.database.read() as connection:
            counts = [connection.execute(query).scalar() for query in counted]
            rows = connection.execute(aside.order_by(columns.batch)).all()
        return (*counts, *map(tuple, rows))


def _batch(row: sa.Row[Any]) -> BatchResult:
    return BatchResult(
        batch=row.batch,
        published=row.published,
        reports=row.reports,
        rejected=json.loads(row.rejected),
        valid=row.valid,
        honest=row.honest,
        epsilon=row.epsilon,
        withheld=None if row.released else row.reason,
        warning=row.warning and f"{_RELEASED}: {row.warning}",
    )


@dataclass
class ResultCache:
    """Documents and files that take long to make from the results of a survey.

    Each is kept until there are other results: so many bytes of it at ``most``, and the newest
    whatever its size.
    """

    most: int = 64 << 20
    _entries: dict[tuple[SurveyId, str], tuple[Version, bytes]] = field(
        default_factory=dict, init=False
    )
    _lock: Lock = field(default_factory=Lock, init=False)
    _making: dict[SurveyId, Lock] = field(default_factory=dict, init=False)

    def get(self, name: SurveyId, what: str, version: Version, make: Callable[[], bytes]) -> bytes:
        """As it was made before, or made now; of one survey one at a time."""
        with self._making.setdefault(name, Lock()):
            with self._lock:
                entry = self._entries.get((name, what))
            if entry is None or entry[0] != version:
                entry = version, make()
            with self._lock:
                self._entries.pop((name, what), None)
                self._entries[name, what] = entry  # the newest is the last
                size = sum(len(body) for _, body in self._entries.values())
                while size > self.most and len(self._entries) > 1:
                    size -= len(self._entries.pop(next(iter(self._entries)))[1])
            return entry[1]
