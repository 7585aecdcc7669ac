"""The shuffler's HTTP application: keys and surveys for everybody, batches for the analyzer.

Of a request nothing is kept but the reports in its body: no address, no header, no query, no time.
The bytes of what is answered to an upload are the same for reports that are new and for such that
were sent before; the time it takes is not.
"""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import BinaryIO

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from shoal.sealing import Plain
from shoal.service.clock import Clock, system_clock
from shoal.service.db.surveys import SurveyRow
from shoal.service.http import openapi, requests
from shoal.service.http.limits import Addresses, Limits, Room
from shoal.service.http.openapi import BYTES, JSON
from shoal.service.http.problems import RETRY_SECONDS, Observe, Problem, ProblemError, unobserved
from shoal.service.keyring import Keyring
from shoal.service.shuffler.intake import (
    REPORTS_PATH,
    GroupCommit,
    Intake,
    IntakeApplication,
    small,
)
from shoal.service.shuffler.store import ShufflerStore
from shoal.service.survey import Survey

REQUEST_HEADER = "Shoal-Request"
_HEX64 = re.compile(r"[0-9a-f]{64}")
_ACK_BYTES = 4096
_PIECE = 1 << 20


@dataclass(kw_only=True)
class Handlers(requests.PartyHandlers):
    """The endpoints, and what they share."""

    store: ShufflerStore
    intake: Intake

    async def analyzer_keys(self, request: Request) -> Response:
        """The survey's analyzer's signed list of keys, the same bytes for everybody."""
        row = await self._row(request)
        name = row.survey.analyzer.fingerprint
        cached = await run_in_threadpool(self.store.key_lists.find, name)
        if cached is None or cached.valid_until < self.intake.clock():
            detail = "there is no valid copy of the analyzer's keys here yet; try again later"
            raise ProblemError(Problem("no_keys_yet", 503, detail, retry_after=RETRY_SECONDS))
        return Response(cached.document, media_type=JSON, headers=requests.KEPT)

    async def survey(self, request: Request) -> Response:
        """The survey's canonical configuration, whose hash is its name."""
        row = await self._row(request)
        return requests.configuration(row.survey.to_bytes())

    async def send_reports(self, request: Request) -> Response:
        """Keep reports; the answer comes when they are durable."""
        row = await self._row(request)
        return await self.intake.take(row, request.scope, request.receive, request.state.networks)

    async def progress(self, request: Request) -> Response:
        """How far the open batch was lately, in quarters of the least crowd."""
        row = await self._row(request)
        progress = await run_in_threadpool(self.store.progress.of, row.survey.id)
        return small(vars(progress))

    async def batches(self, request: Request) -> Response:
        """The batches that can be collected, or were."""
        survey = await self._authorized(request)
        after = request.query_params.get("after")
        if after is not None and not requests.HEX32.fullmatch(after):
            raise ProblemError(_malformed("after", "the id of a batch: 32 hexadecimal digits"))
        listed = await run_in_threadpool(self.store.batches.listed, survey.id, after)
        names = {"id": "batch"}
        shown: list[Plain] = [
            {names.get(name, name): value for name, value in vars(info).items()} for info in listed
        ]
        return small({"batches": shown})

    async def batch(self, request: Request) -> Response:
        """The whole batch, the same bytes whenever the same request asks."""
        survey = await self._authorized(request)
        batch = requests.batch_named(request)
        name = request.headers.get(REQUEST_HEADER)
        if name is None or not requests.HEX32.fullmatch(name):
            expected = "32 hexadecimal digits that this collection chose itself"
            raise ProblemError(_malformed(f"the header {REQUEST_HEADER}", expected))
        path = await run_in_threadpool(self.store.batches.release, survey.id, batch, name)
        stream = await run_in_threadpool(path.open, "rb")
        length = await run_in_threadpool(stream.seek, 0, 2)
        headers = {"Content-Length": str(length), **requests.NOT_KEPT}
        return StreamingResponse(_pieces(stream), media_type=BYTES, headers=headers)

    async def acknowledge(self, request: Request) -> Response:
        """The batch has arrived whole, and may be deleted here."""
        survey = await self._authorized(request)
        batch = requests.batch_named(request)
        seconds = self.intake.limits.body_seconds
        body = await requests.read_record(request, limit=_ACK_BYTES, seconds=seconds)
        name, digest = body.get("request", ""), body.get("digest", "")
        if set(body) != {"request", "digest"} or not requests.HEX32.fullmatch(name):
            expected = '{"request": 32 digits, "digest": 64 digits}'
            raise ProblemError(_malformed("the body", expected))
        if not _HEX64.fullmatch(digest):
            raise ProblemError(_malformed("digest", "64 hexadecimal digits"))
        await run_in_threadpool(self.store.batches.acknowledge, survey.id, batch, name, digest)
        return small({"batch": batch, "digest": digest})

    async def _row(self, request: Request) -> SurveyRow:
        row = await run_in_threadpool(self.store.surveys.row, requests.survey_named(request))
        self.intake.surveys[REPORTS_PATH.replace("{survey}", str(row.survey.id))] = row
        return row

    async def _authorized(self, request: Request) -> Survey:
        """The survey, if the request shows a token for it; without one nothing is told of it."""
        name = requests.survey_named(request)
        await run_in_threadpool(self.store.tokens.check, requests.bearer(request), name)
        return (await self._row(request)).survey


async def _pieces(stream: BinaryIO) -> AsyncIterator[bytes]:
    try:
        await run_in_threadpool(stream.seek, 0)
        while piece := await run_in_threadpool(stream.read, _PIECE):
            yield piece
    finally:
        stream.close()


def _malformed(what: str, expected: str) -> Problem:
    return Problem("malformed", 400, f"{what} must be {expected}")


def shuffler_app(
    store: ShufflerStore,
    keyring: Keyring,
    *,
    limits: Limits | None = None,
    clock: Clock = system_clock,
    observe: Observe = unobserved,
) -> Starlette:
    """The application; when it ends, what it took in is committed and its segment is closed."""
    commit, limits = GroupCommit(store.reports, observe=observe), limits or Limits()
    intake = Intake(
        keyring=keyring,
        commit=commit,
        codes=store.codes,
        limits=limits,
        addresses=Addresses(limits),
        room=Room(limits),
        clock=clock,
        observe=observe,
    )

    @asynccontextmanager
    async def lifespan(_app: Starlette) -> AsyncIterator[None]:
        yield
        await run_in_threadpool(commit.close)
        await run_in_threadpool(store.close)

    document = openapi.read(__file__)
    handlers = Handlers(keyring=keyring, store=store, intake=intake)
    app = IntakeApplication(
        document, handlers, addresses=intake.addresses, observe=observe, lifespan=lifespan
    )
    app.intake = intake
    return app
