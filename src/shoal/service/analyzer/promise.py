"""The document of a promise: what one person is told before answering, in numbers and sentences."""

from __future__ import annotations

import math
from dataclasses import asdict

from shoal.service.analyzer.documents import Document, about
from shoal.service.http import openapi
from shoal.service.http.openapi import NUMBER, TEXT, Schema
from shoal.service.survey import Survey
from shoal.service.survey.words import sentences
from shoal.service.wire import Wire

VERSION = 1


def promise_document(survey: Survey) -> Document:
    """What holds for one person over the survey's life, at the fewest reports of a batch."""
    kept, terms = survey.guarantee(survey.batches.minimum), survey.terms
    return {
        "version": VERSION,
        **about(survey),
        "epsilon": kept.epsilon,
        "promised_epsilon": survey.epsilon,
        "delta": kept.delta,
        "delta_taking_part": max(terms.delta, terms.delta_taking_part),
        "local_epsilon": kept.local_epsilon if math.isfinite(kept.local_epsilon) else None,
        "minimum": survey.batches.minimum,
        "honest": kept.n,
        "dishonest": survey.dishonest,
        "reports_per_person": survey.reports_per_person,
        "participation": survey.participation,
        "report_bytes": Wire.of(survey).report_bytes,
        "not_before": survey.not_before,
        "not_after": survey.not_after,
        "shuffler": survey.shuffler.url,
        "analyzer": survey.analyzer.url,
        "theorem": kept.theorem,
        "trust": kept.trust,
        "assumptions": list(kept.assumptions),
        **asdict(sentences(survey)),
    }


_STATEMENT = openapi.record({"name": TEXT, "title": TEXT, "text": TEXT})
PROMISE: Schema = openapi.record(
    {
        "version": openapi.count(1),
        "survey": openapi.digits(64),
        "name": TEXT,
        "question": TEXT,
        "epsilon": NUMBER,
        "promised_epsilon": NUMBER,
        "delta": NUMBER,
        "delta_taking_part": NUMBER,
        "local_epsilon": {"anyOf": [NUMBER, {"type": "null"}]},
        "minimum": openapi.count(2),
        "honest": openapi.count(1),
        "dishonest": NUMBER,
        "reports_per_person": openapi.count(1),
        "participation": NUMBER,
        "report_bytes": openapi.count(1),
        "not_before": openapi.count(),
        "not_after": openapi.count(),
        "shuffler": TEXT,
        "analyzer": TEXT,
        "theorem": TEXT,
        "trust": TEXT,
        "assumptions": openapi.array(TEXT),
        "leaves": TEXT,
        "statements": openapi.array(_STATEMENT),
        "steps": openapi.array(TEXT),
        "served": TEXT,
    }
)
