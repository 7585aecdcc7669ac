"""The analyzer's operations, as its OpenAPI document tells them."""

from __future__ import annotations

from typing import Any

from shoal.service.analyzer.documents import NOT_ENFORCED, PUBLISHED, WITHHELD
from shoal.service.analyzer.handlers import CSV, Handlers
from shoal.service.analyzer.opened import REASONS
from shoal.service.analyzer.promise import PROMISE
from shoal.service.http import openapi
from shoal.service.http.openapi import (
    BATCH,
    EVERYWHERE,
    JSON,
    NUMBER,
    OBJECT,
    SURVEY,
    SURVEY_PATH,
    TEXT,
    TOKENS,
    UNKNOWN,
    Content,
    Operation,
    Parameter,
    Schema,
    as_json,
    keys_operation,
    survey_operation,
)

VERSION = "1"
_format = Parameter(
    name="format",
    place="query",
    schema={"enum": ["json", "csv"]},
    description="What to answer with; without it the header Accept decides.",
    required=False,
)
_fingerprint = Parameter(
    name="fingerprint",
    place="query",
    schema=openapi.digits(64),
    description="Which shuffler: as the survey says. Not needed where there is only one.",
    required=False,
)


def _or_null(schema: Schema) -> Schema:
    return {"anyOf": [schema, {"type": "null"}]}


_SHARE = openapi.record(
    {
        "answer": TEXT,
        "share": NUMBER,
        "low": NUMBER,
        "high": NUMBER,
        "standard_error": NUMBER,
        "count": NUMBER,
    }
)
_MEAN = openapi.record(
    {"mean": NUMBER, "low": NUMBER, "high": NUMBER, "standard_error": NUMBER, "sum": NUMBER}
)
_LIFE = openapi.record(
    {
        "epsilon": _or_null(NUMBER),
        "batches": openapi.count(),
        "smallest": _or_null(openapi.count()),
        "analyzer_epsilon": _or_null(NUMBER),
        "opened": openapi.count(),
    }
)
_ABOUT: dict[str, Schema] = {"survey": openapi.digits(64), "name": TEXT, "question": TEXT}
_WORTH: dict[str, Schema] = {
    "valid": openapi.count(),
    "honest": openapi.count(),
    "epsilon": _or_null(NUMBER),
    "delta": NUMBER,
    "local_epsilon": _or_null(NUMBER),
    "theorem": _or_null(TEXT),
    "reports_per_person": openapi.count(1),
    "reports_per_person_is": {"enum": [NOT_ENFORCED]},
    "participation": NUMBER,
    "dishonest": NUMBER,
    "assumptions": openapi.array(TEXT),
    "trust": TEXT,
}
_FOUND: dict[str, Schema] = {
    "level": NUMBER,
    "estimates": _or_null(openapi.array(openapi.reference("Share"))),
    "mean": _or_null(openapi.reference("Mean")),
    "bias_bound": _or_null(NUMBER),
    "withheld": _or_null(TEXT),
}
_RESULT = openapi.record(
    {
        "version": openapi.count(1),
        "status": {"enum": [PUBLISHED, WITHHELD]},
        **_ABOUT,
        "batch": openapi.digits(32),
        "reports": openapi.count(1),
        "rejected": openapi.record(dict.fromkeys(REASONS, openapi.count())),
        **_WORTH,
        **_FOUND,
        "life": openapi.reference("Life"),
        "published": openapi.count(),
    }
)
_COMBINED = openapi.record({"batches": openapi.count(1), **_WORTH, **_FOUND})
_RESULTS = openapi.record(
    {
        "version": openapi.count(1),
        **_ABOUT,
        "batches": openapi.array(openapi.reference("Result")),
        "combined": _or_null(openapi.reference("Combined")),
        "refused": openapi.array(openapi.record({"batch": openapi.digits(32), "reason": TEXT})),
        "life": openapi.reference("Life"),
    }
)
_ENTRY = openapi.record(
    {
        "batch": openapi.digits(32),
        "epsilon": _or_null(NUMBER),
        "delta": NUMBER,
        "valid": openapi.count(),
        "honest": openapi.count(),
        "released": {"type": "boolean"},
    }
)
_LEDGER = openapi.record(
    {
        "survey": openapi.digits(64),
        "promised": openapi.record({"epsilon": NUMBER, "delta": NUMBER}),
        "batches": openapi.array(_ENTRY),
        "life": openapi.reference("Life"),
    }
)
_LISTED = openapi.record({"surveys": openapi.array(openapi.record(_ABOUT))})


def described(handlers: Handlers) -> tuple[list[Operation], dict[str, Any]]:
    """The operations, and their document."""
    operations = [*_public(handlers), *_of_results(handlers)]
    document = openapi.document(
        operations,
        title="Shoal analyzer",
        version=VERSION,
        description="Publishes what surveys found, with its error and its privacy guarantee.",
        schemas={
            "Share": _SHARE,
            "Mean": _MEAN,
            "Life": _LIFE,
            "Result": _RESULT,
            "Combined": _COMBINED,
            "Results": _RESULTS,
            "Ledger": _LEDGER,
            "Promise": PROMISE,
        },
    )
    return operations, document


def _public(handlers: Handlers) -> list[Operation]:
    return [
        keys_operation(handlers.keys, "analyzer"),
        Operation(
            path="/v1/keys/shuffler",
            endpoint=handlers.shuffler_keys,
            summary="The list of keys that the shuffler shows to this analyzer.",
            description="""
            Devices that fetch the shuffler's list themselves can compare: a shuffler that gives
            somebody keys of their own would have to show two different lists.
            """,
            parameters=[_fingerprint],
            answer=as_json("The list.", OBJECT),
            problems={404: "No copy of such a list.", **EVERYWHERE},
            cross_origin=True,
        ),
        Operation(
            path="/v1/surveys",
            endpoint=handlers.surveys,
            summary="The surveys that are collected here.",
            answer=as_json("Surveys.", _LISTED),
            problems=EVERYWHERE,
            cross_origin=True,
        ),
        survey_operation(handlers.survey),
        Operation(
            path=f"{SURVEY_PATH}/promise",
            endpoint=handlers.promise,
            summary="What one person is promised, in numbers and in plain sentences.",
            description="""
            All of it follows from the survey. Epsilon is that of a person whose reports are in the
            smallest batches that may be released; ``local_epsilon`` holds whoever colludes, and is
            null if then nothing does.
            """,
            parameters=[SURVEY],
            answer=as_json("Promise.", openapi.reference("Promise")),
            problems=UNKNOWN,
            cross_origin=True,
        ),
    ]


def _of_results(handlers: Handlers) -> list[Operation]:
    secured = not handlers.public_results
    refusals = {**(TOKENS if secured else {}), **UNKNOWN}
    return [
        Operation(
            path=f"{SURVEY_PATH}/results",
            endpoint=handlers.results,
            summary="The result of every batch, and of all of them together.",
            description="""
            A batch with too few valid reports is withheld: it says how many there were and what
            they would have cost, and has no estimates. What counts together is the sum of the
            batches; its epsilon is that of a person in the smallest of them.
            """,
            parameters=[SURVEY, _format],
            answer=Content(
                description="Results.",
                media={JSON: openapi.reference("Results"), CSV: TEXT},
            ),
            problems={400: "Another format.", **refusals},
            secured=secured,
        ),
        Operation(
            path=f"{SURVEY_PATH}/results/{{batch}}",
            endpoint=handlers.result,
            summary="The result of one batch, as it was published.",
            parameters=[SURVEY, BATCH],
            answer=as_json("Result.", openapi.reference("Result")),
            problems={**refusals, 404: "No such survey, or no result of such a batch."},
            secured=secured,
        ),
        Operation(
            path=f"{SURVEY_PATH}/ledger",
            endpoint=handlers.ledger,
            summary="What every batch tells about a person in it.",
            parameters=[SURVEY],
            answer=as_json("Ledger.", openapi.reference("Ledger")),
            problems=refusals,
            secured=secured,
        ),
    ]
