"""The shuffler's operations, as its OpenAPI document tells them."""

from __future__ import annotations

from typing import Any

from shoal.service.http import openapi
from shoal.service.http.openapi import (
    BATCH,
    OBJECT,
    SURVEY,
    SURVEY_PATH,
    TOKENS,
    UNKNOWN,
    Operation,
    Parameter,
    as_bytes,
    as_json,
    keys_operation,
    survey_operation,
)
from shoal.service.shuffler.handlers import REQUEST_HEADER, Handlers
from shoal.service.shuffler.sorting import UNKNOWN_KEY, UNKNOWN_VERSION

VERSION = "1"
_BATCH = f"{SURVEY_PATH}/batches/{{batch}}"

_after = Parameter(
    name="after",
    place="query",
    schema=openapi.digits(32),
    description="Only batches whose ids come after this one.",
    required=False,
)
_request = Parameter(
    name=REQUEST_HEADER,
    place="header",
    schema=openapi.digits(32),
    description="Chosen at random by the collector before it first asks, and kept: a batch is "
    "released to one request, which may repeat it.",
)

_SECURED = {**TOKENS, **UNKNOWN}

_RECEIPT = openapi.record(
    {
        "reports": openapi.count(1),
        "refused": openapi.array(
            openapi.record(
                {
                    "index": openapi.count(0),
                    "reason": {"enum": [UNKNOWN_VERSION, UNKNOWN_KEY]},
                }
            )
        ),
    }
)
_PROGRESS = openapi.record(
    {
        "share": {"type": ["number", "null"], "minimum": 0, "maximum": 1},
        "minimum": openapi.count(2),
        "closes_in": {"type": ["integer", "null"], "minimum": 0},
    }
)
_INFO = openapi.record(
    {
        "batch": openapi.digits(32),
        "state": {"enum": ["SHUFFLED", "RELEASED", "ACKED", "PURGED"]},
        "key": openapi.count(0, 255),
        "reports": openapi.count(1),
        "records": openapi.count(1),
        "bytes": openapi.count(1),
        "digest": openapi.digits(64),
        "closed": openapi.count(0),
    }
)
_ACKNOWLEDGEMENT = openapi.record({"request": openapi.digits(32), "digest": openapi.digits(64)})


def described(handlers: Handlers) -> tuple[list[Operation], dict[str, Any]]:
    """The operations, and their document."""
    operations = [*_public(handlers), *_secured(handlers)]
    document = openapi.document(
        operations,
        title="Shoal shuffler",
        version=VERSION,
        description="""
        Takes sealed reports, mixes them, and hands out whole batches. Scripts of any site may use
        what needs no token.
        """,
        schemas={
            "Receipt": _RECEIPT,
            "Progress": _PROGRESS,
            "Batch": _INFO,
            "Acknowledgement": _ACKNOWLEDGEMENT,
        },
    )
    return operations, document


def _public(handlers: Handlers) -> list[Operation]:
    return [
        keys_operation(handlers.keys, "shuffler"),
        survey_operation(handlers.survey),
        Operation(
            path=f"{SURVEY_PATH}/keys/analyzer",
            endpoint=handlers.analyzer_keys,
            summary="The analyzer's public keys, signed by it; the same bytes for everybody.",
            description="""
            The shuffler's one copy of the list that the survey's analyzer signs. Devices have it
            from here, so that nobody is given a key that others are not, and the analyzer does not
            learn who asks. 503 while there is no valid copy yet.
            """,
            parameters=[SURVEY],
            answer=as_json("The list.", OBJECT),
            problems=UNKNOWN,
            cross_origin=True,
        ),
        Operation(
            path=f"{SURVEY_PATH}/reports",
            method="POST",
            endpoint=handlers.send_reports,
            summary="Send reports.",
            description="""
            The body is one or more sealed reports of the survey's one length, one after the other.
            The answer comes when they are durable, and does not tell new ones from such that
            were sent before: to send the same bytes again is always safe. Refused ones are
            listed; with "unknown_key" fetch the keys again and seal the same message anew.
            """,
            parameters=[SURVEY],
            body=as_bytes("Reports.", least=1),
            answer=as_json("Kept.", openapi.reference("Receipt")),
            status=202,
            problems={
                400: "Not a whole number of reports.",
                403: "The survey has not begun, or is over.",
                408: "The body did not arrive in time.",
                413: "Too many bytes, or too many reports.",
                415: "Another content type, or an encoding.",
                **UNKNOWN,
            },
            cross_origin=True,
        ),
        Operation(
            path=f"{SURVEY_PATH}/progress",
            endpoint=handlers.progress,
            summary="How far the open batch was when it was looked at last.",
            description="""
            Looked at once in ten minutes, in quarters of the least crowd, rounded down; null where
            that would count people. The hours until it closes are told from a quarter on.
            """,
            parameters=[SURVEY],
            answer=as_json("Progress.", openapi.reference("Progress")),
            problems=UNKNOWN,
            cross_origin=True,
        ),
    ]


def _secured(handlers: Handlers) -> list[Operation]:
    listing = openapi.record({"batches": openapi.array(openapi.reference("Batch"))})
    return [
        Operation(
            path=f"{SURVEY_PATH}/batches",
            endpoint=handlers.batches,
            summary="Batches that can be collected, or were, in the order of their ids.",
            parameters=[SURVEY, _after],
            answer=as_json("Batches.", listing),
            problems={400: "Not the id of a batch.", **_SECURED},
            secured=True,
        ),
        Operation(
            path=_BATCH,
            endpoint=handlers.batch,
            summary="Collect a batch: byte-identical for the request that first asked.",
            parameters=[SURVEY, BATCH, _request],
            answer=as_bytes("The batch object."),
            problems={
                400: "No request id.",
                409: "Collected by another request.",
                425: "Not mixed yet.",
                **_SECURED,
                404: "No such survey, or no such batch.",
            },
            secured=True,
            head=False,
        ),
        Operation(
            path=f"{_BATCH}/ack",
            method="POST",
            endpoint=handlers.acknowledge,
            summary="Say that a batch has arrived whole; its records are then deleted here.",
            parameters=[SURVEY, BATCH],
            body=as_json(
                "The request's id, and SHA-256 of the batch object.",
                openapi.reference("Acknowledgement"),
            ),
            answer=as_json(
                "Acknowledged.",
                openapi.record({"batch": openapi.digits(32), "digest": openapi.digits(64)}),
            ),
            problems={
                400: "Not an acknowledgement.",
                408: "The body did not arrive in time.",
                409: "Collected by another request, or another digest.",
                413: "Too many bytes.",
                415: "Another content type.",
                **_SECURED,
                404: "No such survey, or no such batch.",
            },
            secured=True,
        ),
    ]
