"""What is published: the result of every batch, once and for all, and of all batches together.

A document is plain values. That of a result says what was found in a batch, how sure that is, and
what it costs. It holds no more about anybody than the estimates, which are computed
from what came out of the shuffler, and says itself what has to be believed for its guarantee.

Counts of batches add up, so that the estimate from all of them is the mechanism's own estimate from
the sum. Together they cost a person no more than the costliest of them: reports of one person are
accounted for in the guarantee of the smallest crowd, and batches of different people do not add up.
"""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import reduce
from operator import add
from threading import Lock
from typing import Any, TypeAlias, cast

import sqlalchemy as sa

from shoal.accounting.guarantee import Guarantee
from shoal.errors import ShoalError
from shoal.explain.text import finite, plain, up
from shoal.mechanisms.estimators import AnswerEstimator
from shoal.results.result import ColumnResult, Result, harmless, in_table
from shoal.sealing import SurveyId
from shoal.service.admission import ASSUMED
from shoal.service.analyzer import tables
from shoal.service.analyzer.collection import Collection, Collections
from shoal.service.analyzer.decode import unpacked
from shoal.service.analyzer.ledger import (
    LOST,
    Ledger,
    ReleaseDecision,
    estimated,
    guaranteed,
    spent,
    spoiled,
)
from shoal.service.clock import HOUR
from shoal.service.db.database import Database
from shoal.service.db.surveys import Surveys
from shoal.service.db.tables import surveys
from shoal.service.errors import UnknownBatchError
from shoal.service.survey import Question, Survey
from shoal.service.survey.words import sentences
from shoal.service.wire import Wire
from shoal.values import Counts, Estimate

Document = dict[str, Any]
# What is another one whenever the results of a survey are.
Version: TypeAlias = tuple[object, ...]

VERSION = 1
LEVEL = 0.95
ALL = "all"
PUBLISHED, WITHHELD = "published", "withheld"
_END = 500  # bytes of a document that hold when it was published, and the survey's life
_PUBLISHED_AT = re.compile(rb'"published": ?([0-9]+)')
_MEAN = ("mean", "low", "high", "standard_error", "sum")
_SHARE = ("answer", "share", "low", "high", "standard_error", "count")
FRACTION = ("fraction", "fraction_low", "fraction_high")  # of the group
SIZE = ("group_count", "group_low", "group_high")
_RELEASED = "released by the operator despite"
_NAMED = 5  # batches in a sentence
_NO_ESTIMATES: Document = dict.fromkeys(("estimates", "mean", "bias_bound"))


# -------------------------------------------------------------------------------------- documents


def result_document(
    survey: Survey, decision: ReleaseDecision, collection: Collection, *, now: int
) -> Document:
    """The result of a batch, but for what the survey cost so far."""
    reports = collection.reports or 0
    return {
        "version": VERSION,
        "status": PUBLISHED if decision.withheld is None else WITHHELD,
        **about(survey),
        "batch": collection.batch,
        "reports": reports,
        "rejected": collection.rejected or {},
        **outcome(survey, decision, collection.counts, reports),
        "warning": decision.warning and f"{_RELEASED}: {decision.warning}",
        "published": now - now % HOUR,
    }


def about(survey: Survey) -> Document:
    """Which survey it is."""
    return {"survey": str(survey.id), "name": survey.name, "question": survey.title}


def outcome(
    survey: Survey, decision: ReleaseDecision, counts: tuple[Counts, ...], reports: int
) -> Document:
    """What so many valid reports guarantee and what is assumed for that; what they add up to.

    Fractions of the answers, or the mean, with limits of 95 % intervals. Both kinds of estimates
    are there by name, so that every document has the same members. Those of several questions are
    in a list ``questions``, with their names.
    """
    guarantee = decision.guarantee
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
    if decision.withheld is not None or not counts:
        return document
    parts = [
        _estimates(question, decision, each, reports)
        for question, each in zip(survey.questions, counts, strict=True)
    ]
    if not survey.several:
        return {**document, **parts[0]}
    named = [
        {"name": question.name, "question": question.text, "valid": each.n, **part}
        for question, each, part in zip(survey.questions, counts, parts, strict=True)
    ]
    return {**document, "questions": named}


def parts_of(document: Document) -> list[Document]:
    """What a document says of each question: of the only one, the document itself."""
    named: list[Document] = document.get("questions") or [document]
    return named


def _estimates(
    question: Question, decision: ReleaseDecision, counts: Counts, reports: int
) -> Document:
    document: Document = dict(_NO_ESTIMATES)
    estimate = estimated(question, counts)
    if isinstance(estimate, Estimate):
        columns = (
            question.answers * max(1, len(question.groups)),
            estimate.frequencies.tolist(),
            *(ends.tolist() for ends in estimate.interval(LEVEL)),
            estimate.standard_errors.tolist(),
            estimate.counts.tolist(),
        )
        rows = zip(*columns, strict=True)
        shares = [dict(zip(_SHARE, row, strict=True)) for row in rows]
        if question.groups:
            more = _by_groups(question, estimate)
            shares = [{**one, **share} for one, share in zip(more, shares, strict=True)]
        document["estimates"] = shares
    else:
        ends = estimate.interval(LEVEL)
        numbers = (estimate.mean, *ends, estimate.standard_error, estimate.sum)
        document["mean"] = dict(zip(_MEAN, numbers, strict=True))
    document["bias_bound"] = bias(question, counts, decision, reports)
    return document


def _by_groups(question: Question, estimate: Estimate) -> Iterator[Document]:
    """Of each answer in each group: its fraction of the group, and about how many that has.

    There is no fraction where the group may be empty.
    """
    from shoal.estimate.groups import split

    estimator = cast("AnswerEstimator", question.device.estimator)
    for group in split(estimator, estimate, question.groups, LEVEL):
        size = dict(zip(SIZE, (group.count, group.low, group.high), strict=True))
        inside: Iterable[tuple[float | None, ...]] = [(None, None, None)] * len(question.answers)
        if group.fractions is not None:
            columns = (group.fractions, group.lows, group.highs)
            inside = zip(*(each.tolist() for each in columns), strict=True)
        for fraction in inside:
            yield {"group": group.label, **size, **dict(zip(FRACTION, fraction, strict=True))}


def bias(
    question: Question, counts: Counts, decision: ReleaseDecision, reports: int
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
    estimate = estimated(question, counts)
    step = estimate.step if isinstance(estimate, Estimate) else 0.0
    return people * (step + own / counts.n) if step else None


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
    # What was published by an earlier version does not say who may report: it was anybody.
    checked = batch.get("admission", {}).get("kind", "open") != "open"
    crowd = "" if checked else f" ({ASSUMED})"
    warning = f"; {batch['warning']}" if batch.get("warning") else ""
    return f"{name} published: {reports}; {guarantee}{crowd}{warning}"


def held_sentence(batch: str, reason: str) -> str:
    """Why a batch is not published, and what to do, in one line."""
    release = f"to publish it after a look: shoal collect DIR --release {batch[:8]}"
    return f"batch {batch[:8]} held: {reason}; {release}"


# -------------------------------------------------------------------------- all batches together


@dataclass(frozen=True, kw_only=True, eq=False)
class SurveyResults:
    """The results of one survey.

    ``counts`` are the sums over all batches that were published with estimates, question by
    question, none if there is no batch; ``reports`` is how many reports those had. ``refused`` has
    the batches that were not what they claimed to be, and why; ``held`` those that no honest crowd
    can have sent, and why, until the operator releases them. ``restored``: from a backup, so that
    batches that were published later may be missing, and are paid for in ``life``.
    """

    survey: Survey
    batches: tuple[Document, ...]
    refused: tuple[Document, ...]
    held: tuple[Document, ...]
    life: Document
    counts: tuple[Counts, ...]
    reports: int
    restored: bool = False

    def to_dict(self) -> Document:
        """Plain values."""
        return {
            "version": VERSION,
            **about(self.survey),
            "batches": list(self.batches),
            "combined": self.combined(),
            "refused": list(self.refused),
            "held": list(self.held),
            "life": self.life,
        }

    def combined(self) -> Document | None:
        """The estimate from all batches together; None before there is one."""
        if not self.counts:
            return None
        return {
            "batches": self.life["batches"],
            **outcome(self.survey, self._decision(), self.counts, self.reports),
            "warning": self.warning,
            "epsilon": self.life["epsilon"],
        }

    @property
    def warning(self) -> str | None:
        """What has to be known of the batches before relying on them; None if nothing has."""
        warned = [each for each in self.batches if each.get("warning")]
        if not warned:
            return None
        if len(warned) == 1:
            return f"batch {warned[0]['batch'][:8]} was {warned[0]['warning']}"
        names = ", ".join(each["batch"][:8] for each in warned[:_NAMED])
        more = ", …" if len(warned) > _NAMED else ""
        return f"{len(warned):,} batches were {_RELEASED} signs of forgery: {names}{more}"

    def _decision(self) -> ReleaseDecision:
        """All valid reports, under the guarantee of the smallest batch."""
        smallest, withheld = guaranteed(self.survey, int(self.life["smallest"])), None
        try:
            for question, counts in zip(self.survey.questions, self.counts, strict=True):
                estimated(question, counts)
        except ShoalError:
            withheld = "counts of several batches that do not add up"
        valid = min(counts.n for counts in self.counts)
        return ReleaseDecision(valid, self.survey.honest(valid), smallest, withheld)

    def result(self) -> Result | None:
        """All batches together as a result like any other, for charts and pages."""
        if not self.counts:
            return None
        decision = self._decision()
        if decision.guarantee is None or decision.withheld is not None:
            return None
        pairs = list(zip(self.survey.questions, self.counts, strict=True))
        columns = (column(*pair, decision.guarantee, self.warning) for pair in pairs)
        bounds = [
            (question, bias(question, counts, decision, self.reports)) for question, counts in pairs
        ]
        return Result(
            columns=tuple(columns),
            guarantee=decision.guarantee,
            notes=tuple(self._notes(bounds)),
        )

    def _notes(self, bounds: Sequence[tuple[Question, float | None]]) -> Iterator[str]:
        smallest = int(self.life["smallest"])
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
        left_out = sum(sum(document["rejected"].values()) for document in self.batches)
        if left_out:
            yield f"{left_out:,} records were left out; they hide nobody"
        withheld = sum(document["withheld"] is not None for document in self.batches)
        if withheld:
            were = "batch was" if withheld == 1 else "batches were"
            worst = self.life["analyzer_epsilon"]
            lost = "no guarantee" if worst is None else f"at most epsilon {up(worst)}"
            yield (
                f"{withheld} {were} withheld and not counted; towards the analyzer, who "
                f"decrypted all batches, there is {lost} (at delta "
                f"{plain(self.survey.delta)})"
            )
        for question, bound in bounds:
            if bound:
                what = "a share" if question.answers else "the mean"
                what = f"{what} of everybody" if question.groups else what
                what = f"{what} of {question.name}" if question.name else what
                yield (
                    f"the people assumed dishonest can have shifted {what} by at most {bound:.3g}"
                )

    def to_csv(self) -> str:
        """One line per batch and answer, and those of all batches together."""
        head = ["batch", "status"]
        if self.survey.several:
            head += ["question"]
        for of_kind, wanted in ((_SHARE, True), (_MEAN, False)):
            if any(bool(question.answers) == wanted for question in self.survey.questions):
                head += [name for name in of_kind if name not in head]
        if any(question.groups for question in self.survey.questions):
            head = [*head[: head.index("answer")], "group", *head[head.index("answer") :]]
            head += [*FRACTION, *SIZE]
        names = (*head, "reports", "valid", "epsilon", "delta", "warning")
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        writer.writerow(in_table(dict.fromkeys(names)))
        for row in self.rows():
            writer.writerow(harmless({name: row.get(name) for name in names}).values())
        return text.getvalue()

    def rows(self) -> Iterator[dict[str, Any]]:
        """What each batch says of each answer, then the same of all batches together."""
        documents, combined = list(self.batches), self.combined()
        if combined is not None:
            status = PUBLISHED if combined["withheld"] is None else WITHHELD
            reports = sum(each["reports"] for each in self.batches if each["withheld"] is None)
            documents.append({**combined, "batch": ALL, "status": status, "reports": reports})
        for document in documents:
            for part in parts_of(document):
                about = {name: value for name, value in document.items() if name != "mean"}
                about |= {"question": part.get("name"), "valid": part["valid"]}
                if part["estimates"] is not None:
                    yield from ({**about, **estimate} for estimate in part["estimates"])
                else:
                    yield {**about, **(part["mean"] or {})}


def column(
    question: Question, counts: Counts, guarantee: Guarantee, warning: str | None = None
) -> ColumnResult:
    """What counts say under a guarantee, as a result like any other."""
    fields: dict[str, Any] = {
        "column": question.text,
        "labels": question.labels,
        "estimate": estimated(question, counts),
        "randomizer": question.device,
        "guarantee": guarantee,
        "n": counts.n,
        "warnings": () if warning is None else (warning,),
    }
    if not question.groups:
        return ColumnResult(**fields)
    from shoal.results.groups import GroupedResult

    by, groups, answers = question.by, question.groups, question.answers
    return GroupedResult(by=by, group_labels=groups, answers=answers, **fields)


# ---------------------------------------------------------------------------------- where they are


@dataclass(frozen=True)
class Results:
    """The documents of all batches that were opened."""

    database: Database
    surveys: Surveys
    collections: Collections
    ledger: Ledger

    def publish(self, collection: Collection, document: Document) -> Collection:
        """The result is there for good, with what the survey cost so far."""
        row = self.surveys.numbered(collection.survey)
        # Two that publish at once must not miss each other in what the survey cost.
        one_by_one = sa.select(surveys.c.number).where(surveys.c.number == collection.survey)
        entry = tables.ledger.c
        debit = sa.and_(entry.survey == collection.survey, entry.batch == collection.batch)
        with self.database.write() as connection:
            connection.execute(one_by_one.with_for_update(key_share=True))
            moved = self.collections.move_in(connection, collection, tables.PUBLISHED)
            if collection.state == tables.HELD:  # from now on it costs towards readers, too
                connection.execute(tables.ledger.update().where(debit).values(released=1))
            whole = written({**document, "life": spent(connection, row, collection.batch)})
            values = {"survey": collection.survey, "batch": collection.batch, "document": whole}
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
            raise UnknownBatchError(batch)
        return bytes(document)

    def survey(self, name: SurveyId, *, estimates: bool = True) -> SurveyResults:
        """What a survey has found so far: all of it follows from the documents that are read.

        Without the ``estimates`` of each batch, which may be many, a document has what tables have
        too; when the batch was published is at its end.
        """
        done, entry, each = tables.results.c, tables.ledger.c, tables.collections.c
        before = sa.func.length(done.document) - _END
        end = sa.func.substr(done.document, sa.case((before > 0, before), else_=1))
        query: sa.Select[Any] = sa.select(
            (done.document if estimates else end).label("document"),
            *(each.batch, each.reports, each.rejected, each.reason, each.warning, each.cells),
            *(entry.valid, entry.honest, entry.epsilon, entry.released),
        ).where(
            done.survey == self.surveys.row(name).number,
            *(each.survey == done.survey, each.batch == done.batch),
            *(entry.survey == done.survey, entry.batch == done.batch),
        )
        with self.database.read() as connection:
            rows = connection.execute(query.order_by(done.batch)).all()
            lost = connection.execute(
                sa.select(entry.epsilon, entry.valid).where(
                    entry.survey == self.surveys.row(name).number, entry.batch == LOST
                )
            ).all()
        published = [row for row in rows if row.released]
        debits = [*published, *lost]
        counts = [unpacked(bytes(row.cells), row.valid) for row in published]
        survey, every = self.surveys.get(name), self.collections.of(name)
        return SurveyResults(
            survey=survey,
            batches=tuple(
                json.loads(bytes(row.document)) if estimates else _summary(row) for row in rows
            ),
            refused=tuple(
                {"batch": each.batch, "reason": each.reason}
                for each in every
                if each.state == tables.REFUSED
            ),
            held=tuple(
                {"batch": each.batch, "reason": each.warning}
                for each in every
                if each.state == tables.HELD
            ),
            life={
                **self.ledger.spent(name),  # the analyzer has opened more than it has told
                "epsilon": max((row.epsilon for row in debits), default=None),
                "batches": len(published),
                "smallest": min((row.valid for row in debits), default=None),
            },
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


def _summary(row: sa.Row[Any]) -> Document:
    return {
        "batch": row.batch,
        "published": int(_PUBLISHED_AT.findall(bytes(row.document))[-1]),
        "reports": row.reports or 0,
        "valid": row.valid,
        "honest": row.honest,
        "epsilon": row.epsilon,
        "withheld": None if row.released else row.reason,
        "warning": row.warning and f"{_RELEASED}: {row.warning}",
        "rejected": json.loads(row.rejected or "{}"),
    }


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
