"""The shuffler's HTTP application: keys and surveys for everybody, batches for the analyzer.

Of a request nothing is kept but the reports in its body: no address, no header, no query, no time.
The bytes of what is answered to an upload are the same for reports that are new and for such that
were sent before; the time it takes is not.
"""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from shoal.sealing import Plain
from shoal.service.clock import Clock, system_clock
from shoal.service.db.surveys import SurveyRow
from shoal.service.http import openapi, requests
from shoal.service.http.limits import Addresses, Limits, Networks
from shoal.service.http.openapi import (
    BATCH,
    BYTES,
    JSON,
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
from shoal.service.http.problems import RETRY_SECONDS, Observe, Problem, ProblemError, unobserved
from shoal.service.keyring import Keyring
from shoal.service.shuffler.batches import BatchInfo
from shoal.service.shuffler.intake import (
    REPORTS_PATH,
    UNKNOWN_KEY,
    UNKNOWN_VERSION,
    GroupCommit,
    Intake,
    IntakeApplication,
    small,
)
from shoal.service.shuffler.store import ShufflerStore
from shoal.service.survey import Survey

VERSION = "1"
REQUEST_HEADER = "Shoal-Request"
_HEX64 = re.compile(r"[0-9a-f]{64}")
_ACK_BYTES = 4096
_PIECE = 1 << 20


@dataclass(kw_only=True)
class Handlers:
    """The endpoints, and what they share."""

    store: ShufflerStore
    keyring: Keyring
    intake: Intake
    addresses: Addresses
    limits: Limits
    clock: Clock

    async def keys(self, request: Request) -> Response:
        """The signed list of public keys, the same bytes for everybody."""
        self._charge(request)
        return await requests.key_list(self.keyring)

    async def analyzer_keys(self, request: Request) -> Response:
        """The survey's analyzer's signed list of keys, the same bytes for everybody."""
        self._charge(request)
        row = await self._row(request)
        name = row.survey.analyzer.fingerprint
        cached = await run_in_threadpool(self.store.key_lists.find, name)
        if cached is None or cached.valid_until < self.clock():
            detail = "there is no valid list of the analyzer's keys here yet; try again later"
            raise ProblemError(
                Problem(kind="no_keys_yet", status=503, detail=detail, retry_after=RETRY_SECONDS)
            )
        return Response(cached.document, media_type=JSON, headers=requests.KEPT)

    async def survey(self, request: Request) -> Response:
        """The survey's canonical configuration, whose hash is its name."""
        self._charge(request)
        row = await self._row(request)
        return requests.configuration(row.survey.to_bytes())

    async def send_reports(self, request: Request) -> Response:
        """Keep reports; the answer comes when they are durable."""
        key = self._charge(request)
        row = await self._row(request)
        return await self.intake.take(row, request.scope, request.receive, key)

    async def progress(self, request: Request) -> Response:
        """How far the open batch was lately, in quarters of the least crowd."""
        self._charge(request)
        row = await self._row(request)
        progress = await run_in_threadpool(self.store.progress.of, row.survey.id)
        return small(
            {
                "share": progress.share,
                "minimum": progress.minimum,
                "closes_in": progress.closes_in,
            }
        )

    async def batches(self, request: Request) -> Response:
        """The batches that can be collected, or were."""
        survey = await self._authorized(request)
        after = request.query_params.get("after")
        if after is not None and not requests.HEX32.fullmatch(after):
            raise ProblemError(_malformed("after", "the id of a batch: 32 hexadecimal digits"))
        listed = await run_in_threadpool(self.store.batches.listed, survey.id, after)
        return small({"batches": [_shown(info) for info in listed]})

    async def batch(self, request: Request) -> Response:
        """The whole batch, the same bytes whenever the same request asks."""
        survey = await self._authorized(request)
        batch = requests.batch_named(request)
        name = request.headers.get(REQUEST_HEADER)
        if name is None or not requests.HEX32.fullmatch(name):
            expected = "32 hexadecimal digits that this collection chose for itself"
            raise ProblemError(_malformed(f"the header {REQUEST_HEADER}", expected))
        path = await run_in_threadpool(self.store.batches.release, survey.id, batch, name)
        stream, length = await run_in_threadpool(_opened, path)
        headers = {"Content-Length": str(length), **requests.NOT_KEPT}
        return StreamingResponse(_pieces(stream), media_type=BYTES, headers=headers)

    async def acknowledge(self, request: Request) -> Response:
        """The batch has arrived whole, and may be deleted here."""
        survey = await self._authorized(request)
        batch = requests.batch_named(request)
        body = await requests.read_record(
            request, limit=_ACK_BYTES, seconds=self.limits.body_seconds
        )
        name, digest = _acknowledgement(body)
        await run_in_threadpool(self.store.batches.acknowledge, survey.id, batch, name, digest)
        return small({"batch": batch, "digest": digest})

    def _charge(self, request: Request) -> Networks:
        return self.addresses.charge(requests.sender(request), 1)

    async def _row(self, request: Request) -> SurveyRow:
        row = await run_in_threadpool(self.store.surveys.row, requests.survey_named(request))
        self.intake.meet(row)
        return row

    async def _authorized(self, request: Request) -> Survey:
        """The survey, if the request shows a token for it; without one nothing is told of it."""
        self._charge(request)
        name = requests.survey_named(request)
        await run_in_threadpool(self.store.tokens.check, requests.bearer(request), name)
        return (await self._row(request)).survey


def _acknowledgement(body: Mapping[str, str]) -> tuple[str, str]:
    name, digest = body.get("request", ""), body.get("digest", "")
    if set(body) != {"request", "digest"} or not requests.HEX32.fullmatch(name):
        raise ProblemError(_malformed("the body", '{"request": 32 digits, "digest": 64 digits}'))
    if not _HEX64.fullmatch(digest):
        raise ProblemError(_malformed("digest", "64 hexadecimal digits"))
    return name, digest


def _shown(info: BatchInfo) -> dict[str, Plain]:
    return {
        "batch": info.id,
        "state": info.state,
        "key": info.inner_key,
        "reports": info.reports,
        "records": info.records,
        "bytes": info.bytes,
        "digest": info.digest,
        "closed": info.closed,
    }


def _opened(path: Path) -> tuple[BinaryIO, int]:
    stream = path.open("rb")
    return stream, stream.seek(0, 2)


async def _pieces(stream: BinaryIO) -> AsyncIterator[bytes]:
    try:
        await run_in_threadpool(stream.seek, 0)
        while piece := await run_in_threadpool(stream.read, _PIECE):
            yield piece
    finally:
        stream.close()


def _malformed(what: str, expected: str) -> Problem:
    return Problem(kind="malformed", status=400, detail=f"{what} must be {expected}")


# The operations, as the OpenAPI document tells them

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


def _described(handlers: Handlers) -> tuple[list[Operation], dict[str, Any]]:
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
            path=REPORTS_PATH,
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


def shuffler_app(
    store: ShufflerStore,
    keyring: Keyring,
    *,
    limits: Limits | None = None,
    clock: Clock = system_clock,
    observe: Observe = unobserved,
) -> Starlette:
    """The application; when it ends, what it took in is committed and its segment is closed."""
    commit = GroupCommit(store.reports, observe=observe)
    limits = limits or Limits()
    addresses = Addresses(limits)
    intake = Intake(
        keyring=keyring,
        commit=commit,
        addresses=addresses,
        limits=limits,
        clock=clock,
        observe=observe,
    )
    handlers = Handlers(
        store=store,
        keyring=keyring,
        intake=intake,
        addresses=addresses,
        limits=limits,
        clock=clock,
    )
    operations, document = _described(handlers)

    @asynccontextmanager
    async def lifespan(_app: Starlette) -> AsyncIterator[None]:
        yield
        await run_in_threadpool(commit.close)
        await run_in_threadpool(store.close)

    app = IntakeApplication(operations, document, observe=observe, lifespan=lifespan)
    app.intake = intake
    return app
