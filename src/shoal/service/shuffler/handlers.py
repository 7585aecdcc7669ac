"""What the shuffler does with each kind of request."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from shoal.sealing import Plain
from shoal.service.clock import Clock
from shoal.service.http import requests
from shoal.service.http.limits import Addresses, Limits, Networks
from shoal.service.http.openapi import BYTES, JSON
from shoal.service.http.problems import RETRY_SECONDS, Problem, ProblemError
from shoal.service.keyring import Keyring
from shoal.service.shuffler.uploads import Asked, Uploads, small
from shoal.service.store import BatchInfo, ShufflerStore

REQUEST_HEADER = "Shoal-Request"
_HEX64 = re.compile(r"[0-9a-f]{64}")
_ACK_BYTES = 4096
_PIECE = 1 << 20


@dataclass(kw_only=True)
class Handlers:
    """The endpoints, and what they share."""

    store: ShufflerStore
    keyring: Keyring
    uploads: Uploads
    addresses: Addresses
    limits: Limits
    clock: Clock

    def __post_init__(self) -> None:
        self._asked: dict[str, Asked] = {}

    async def keys(self, request: Request) -> Response:
        """The signed list of public keys, the same bytes for everybody."""
        self._charge(request)
        return await requests.key_list(self.keyring)

    async def analyzer_keys(self, request: Request) -> Response:
        """The survey's analyzer's signed list of keys, the same bytes for everybody."""
        self._charge(request)
        asked = await self._about(request)
        name = asked.survey.analyzer.fingerprint
        found = await run_in_threadpool(self.store.copies.find, name)
        if found is None or found.valid_until < self.clock():
            detail = "there is no valid list of the analyzer's keys here yet; try again later"
            waiting = Problem(
                kind="no_keys_yet", status=503, detail=detail, retry_after=RETRY_SECONDS
            )
            raise ProblemError(waiting)
        return Response(found.document, media_type=JSON, headers=requests.KEPT)

    async def survey(self, request: Request) -> Response:
        """The survey's canonical configuration, whose hash is its name."""
        self._charge(request)
        asked = await self._about(request)
        return requests.configuration(asked.body)

    async def send_reports(self, request: Request) -> Response:
        """Keep reports; the answer comes when they are durable."""
        key = self._charge(request)
        asked = await self._about(request)
        return await self.uploads.take(asked, request.scope, request.receive, key)

    async def progress(self, request: Request) -> Response:
        """How far the open batch was lately, in quarters of the least crowd."""
        self._charge(request)
        asked = await self._about(request)
        found = await run_in_threadpool(self.store.progress, asked.survey.id)
        return small(
            {
                "share": found.share,
                "minimum": found.minimum,
                "closes_in": found.closes_in,
            }
        )

    async def batches(self, request: Request) -> Response:
        """The batches that can be collected, or were."""
        asked = await self._authorized(request)
        after = request.query_params.get("after")
        if after is not None and not requests.HEX32.fullmatch(after):
            raise ProblemError(_malformed("after", "the id of a batch: 32 hexadecimal digits"))
        found = await run_in_threadpool(self.store.batches, asked.survey.id, after)
        return small({"batches": [_shown(info) for info in found]})

    async def batch(self, request: Request) -> Response:
        """The whole batch, the same bytes whenever the same request asks."""
        asked = await self._authorized(request)
        batch = requests.batch_named(request)
        name = request.headers.get(REQUEST_HEADER)
        if name is None or not requests.HEX32.fullmatch(name):
            expected = "32 hexadecimal digits that this collection chose for itself"
            raise ProblemError(_malformed(f"the header {REQUEST_HEADER}", expected))
        path = await run_in_threadpool(self.store.release, asked.survey.id, batch, name)
        stream, length = await run_in_threadpool(_opened, path)
        headers = {"Content-Length": str(length), **requests.NOT_KEPT}
        return StreamingResponse(_pieces(stream), media_type=BYTES, headers=headers)

    async def acknowledge(self, request: Request) -> Response:
        """The batch has arrived whole, and may be deleted here."""
        asked = await self._authorized(request)
        batch = requests.batch_named(request)
        given = await requests.read_record(
            request, limit=_ACK_BYTES, seconds=self.limits.body_seconds
        )
        name, digest = _acknowledgement(given)
        await run_in_threadpool(self.store.acknowledge, asked.survey.id, batch, name, digest)
        return small({"batch": batch, "digest": digest})

    def _charge(self, request: Request) -> Networks:
        return self.addresses.charge(requests.sender(request), 1)

    async def _about(self, request: Request) -> Asked:
        text = request.path_params["survey"]
        found = self._asked.get(text)
        if found is not None:
            return found
        survey = await run_in_threadpool(self.store.survey, requests.survey_named(request))
        found = self._asked[text] = Asked.of(survey)
        self.uploads.meet(found)
        return found

    async def _authorized(self, request: Request) -> Asked:
        """The survey, if the request shows a token for it; without one nothing is told of it."""
        self._charge(request)
        token = requests.bearer(request)
        await run_in_threadpool(self.store.check_token, token, requests.survey_named(request))
        return await self._about(request)


def _acknowledgement(given: Mapping[str, str]) -> tuple[str, str]:
    name, digest = given.get("request", ""), given.get("digest", "")
    if set(given) != {"request", "digest"} or not requests.HEX32.fullmatch(name):
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
