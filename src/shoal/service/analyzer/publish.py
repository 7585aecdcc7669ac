"""What is published: the document of a result, once and for all, and that of a promise.

A document is plain values. That of a result says what was found in a batch, how sure that is, and
what it costs. It holds no more about anybody than the estimates, which are computed
from what came out of the shuffler, and says itself what has to be believed for its guarantee.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

import sqlalchemy as sa

from shoal.accounting.guarantee import TRUST
from shoal.protocols.base import MultiMessageMechanism
from shoal.randomizers.base import NumberMechanism
from shoal.report import finite
from shoal.sealing import SurveyId
from shoal.service.analyzer import tables
from shoal.service.analyzer.collection import Collection, Collections
from shoal.service.analyzer.decode import unpacked
from shoal.service.analyzer.ledger import spent
from shoal.service.analyzer.release_decision import ReleaseDecision, estimated, local_epsilon
from shoal.service.clock import HOUR
from shoal.service.db.database import Database
from shoal.service.db.surveys import Surveys
from shoal.service.db.tables import surveys
from shoal.service.errors import UnknownBatchError
from shoal.service.survey import Survey
from shoal.service.survey.words import sentences
from shoal.service.wire import Wire
from shoal.values import Counts, Estimate, MeanEstimate

Document = dict[str, Any]

VERSION = 1
LEVEL = 0.95
PUBLISHED, WITHHELD = "published", "withheld"
NOT_ENFORCED = "assumed, not enforced"
_END = 500  # bytes of a document that hold when it was published, and the survey's life
_PUBLISHED_AT = re.compile(rb'"published": ?([0-9]+)')


def result_document(
    survey: Survey, decision: ReleaseDecision, collection: Collection, *, now: int
) -> Document:
    """The result of a batch, but for what the survey cost so far."""
    withheld, counts = decision.withheld is not None, collection.counts
    reports = collection.reports or 0
    numbers = {} if withheld or counts is None else estimates(survey, counts)
    spoiled = reports - decision.valid if survey.slots > 1 else 0
    return {
        "version": VERSION,
        "status": WITHHELD if withheld else PUBLISHED,
        **about(survey),
        "batch": collection.batch,
        "reports": reports,
        "rejected": collection.rejected or {},
        **worth(survey, decision),
        # Both kinds of estimates are there by name, so that every document has the same members.
        "level": LEVEL,
        "estimates": None,
        "mean": None,
        **numbers,
        "bias_bound": None
        if withheld or counts is None
        else bias(survey, counts, decision, spoiled),
        "withheld": decision.withheld,
        "published": now - now % HOUR,
    }


def about(survey: Survey) -> Document:
    """Which survey it is."""
    return {"survey": str(survey.id), "name": survey.name, "question": survey.question}


def worth(survey: Survey, decision: ReleaseDecision) -> Document:
    """What so many valid reports guarantee, and what is assumed for that."""
    guarantee = decision.guarantee
    return {
        "valid": decision.valid,
        "honest": decision.honest,
        "epsilon": None if guarantee is None else guarantee.epsilon,
        "delta": survey.delta,
        "local_epsilon": finite_or_none(local_epsilon(survey)),
        "theorem": None if guarantee is None else guarantee.theorem,
        "reports_per_person": survey.reports_per_person,
        "reports_per_person_is": NOT_ENFORCED,
        "participation": survey.participation,
        "dishonest": survey.dishonest,
        "assumptions": [] if guarantee is None else list(guarantee.assumptions),
        "trust": TRUST if guarantee is None else guarantee.trust,
    }


def estimates(survey: Survey, counts: Counts) -> Document:
    """Shares of the answers, or the mean, with limits of 95 % intervals."""
    estimate = estimated(survey, counts)
    if isinstance(estimate, Estimate):
        return {"estimates": _shares(survey, estimate)}
    return {"mean": _mean(estimate)}


def bias(
    survey: Survey, counts: Counts, decision: ReleaseDecision, spoiled: int = 0
) -> float | None:
    """By how much those who follow no protocol can shift a share, or the mean, at most.

    One of them moves a count, or the sum, by at most its ``influence`` and what an honest report
    in its place would have added. ``spoiled`` reports lack a message, and what is left of them
    counts. None where the mechanism states no bound.
    """
    people = decision.valid - decision.honest + spoiled
    device = survey.device
    own = device.high - device.low if isinstance(device, NumberMechanism) else 1.0
    if isinstance(device, MultiMessageMechanism):
        return people * (device.influence + own) / counts.n
    estimate = estimated(survey, counts)
    step = estimate.step if isinstance(estimate, Estimate) else 0.0
    return people * (step + own / counts.n) if step else None


def written(document: Mapping[str, Any]) -> bytes:
    """A document as bytes: strict JSON."""
    text = json.dumps(finite(document), ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return text.encode()


def _shares(survey: Survey, estimate: Estimate) -> list[Document]:
    low, high = estimate.interval(LEVEL)
    return [
        {
            "answer": answer,
            "share": float(estimate.frequencies[i]),
            "low": float(low[i]),
            "high": float(high[i]),
            "standard_error": float(estimate.standard_errors[i]),
            "count": float(estimate.counts[i]),
        }
        for i, answer in enumerate(survey.answers)
    ]


def _mean(estimate: MeanEstimate) -> Document:
    low, high = estimate.interval(LEVEL)
    return {
        "mean": estimate.mean,
        "low": low,
        "high": high,
        "standard_error": estimate.standard_error,
        "sum": estimate.sum,
    }


def finite_or_none(value: float) -> float | None:
    """None for what is infinite, which JSON does not have."""
    return None if math.isinf(value) else value


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
        "local_epsilon": finite_or_none(guarantee.local_epsilon),
        "minimum": survey.batches.minimum,
        "honest": guarantee.n,
        "dishonest": survey.dishonest,
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


class Results:
    """The documents of all batches that were opened."""

    def __init__(self, database: Database, stored: Surveys, collections: Collections) -> None:
        self._database = database
        self._surveys = stored
        self._collections = collections

    def publish(self, collection: Collection, document: Document) -> Collection:
        """The result is there for good, with what the survey cost so far."""
        row = self._surveys.numbered(collection.survey)
        # Two that publish at once must not miss each other in what the survey cost.
        one_by_one = sa.select(surveys.c.number).where(surveys.c.number == collection.survey)
        with self._database.write() as connection:
            connection.execute(one_by_one.with_for_update(key_share=True))
            moved = self._collections.move_in(connection, collection, tables.PUBLISHED)
            whole = written({**document, "life": spent(connection, row, collection.batch)})
            values = {"survey": collection.survey, "batch": collection.batch, "document": whole}
            connection.execute(sa.insert(tables.results).values(values))
            return moved

    def get(self, name: SurveyId, batch: str) -> bytes:
        """The document of a batch, as it was published."""
        query = self._select(name, tables.results.c.document)
        with self._database.read() as connection:
            document = connection.execute(query.where(tables.results.c.batch == batch)).scalar()
        if document is None:
            raise UnknownBatchError(batch)
        return bytes(document)

    def of(self, name: SurveyId) -> list[Document]:
        """The documents of all batches that have one."""
        query = self._select(name, tables.results.c.document).order_by(tables.results.c.batch)
        with self._database.read() as connection:
            return [json.loads(bytes(text)) for text in connection.execute(query).scalars()]

    def hours(self, name: SurveyId) -> dict[str, int]:
        """When each batch that has a document was published, from the end of its document."""
        document = tables.results.c.document
        before = sa.func.length(document) - _END
        end = sa.func.substr(document, sa.case((before > 0, before), else_=1))
        with self._database.read() as connection:
            rows = connection.execute(self._select(name, tables.results.c.batch, end)).all()
        ends = ((row[0], _PUBLISHED_AT.findall(bytes(row[1]))) for row in rows)
        return {batch: int(hours[-1]) for batch, hours in ends}

    def counts(self, name: SurveyId) -> dict[str, Counts]:
        """What the records of every batch add up to whose estimates are published."""
        columns = tables.collections.c
        query = sa.select(columns.batch, columns.cells, columns.valid).where(
            columns.survey == self._surveys.row(name).number,
            columns.state == tables.PUBLISHED,
            columns.cells.is_not(None),
        )
        with self._database.read() as connection:
            rows = connection.execute(query).all()
        return {row.batch: unpacked(bytes(row.cells), row.valid) for row in rows}

    def version(self, name: SurveyId) -> tuple[object, ...]:
        """What is another one whenever the results of a survey are."""
        number, columns = self._surveys.row(name).number, tables.collections.c
        counted = [
            sa.select(sa.func.count()).where(table.c.survey == number)
            for table in (tables.ledger, tables.results)
        ]
        refused = sa.select(columns.batch, columns.reason).where(
            columns.survey == number, columns.state == tables.REFUSED
        )
        with self._database.read() as connection:
            counts = [connection.execute(query).scalar() for query in counted]
            rows = connection.execute(refused.order_by(columns.batch)).all()
        return (*counts, *((row.batch, row.reason) for row in rows))

    def _select(self, name: SurveyId, *columns: sa.ColumnElement[Any]) -> sa.Select[Any]:
        number = self._surveys.row(name).number
        return sa.select(*columns).where(tables.results.c.survey == number)
