"""What a request says and carries, and answers that both services give.

A body has to be of the right type, arrive in time, and be no longer than allowed.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TypeAlias

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Receive

from shoal.sealing import MalformedError, SurveyId
from shoal.service.errors import UnknownError
from shoal.service.http.limits import Addresses, Networks
from shoal.service.http.openapi import JSON
from shoal.service.http.problems import NO_TOKEN, Problem, ProblemError
from shoal.service.keyring import CACHE_SECONDS, Keyring

RawHeaders: TypeAlias = Iterable[tuple[bytes, bytes]]  # names in lower case, as a server has them

HEX32 = re.compile(r"[0-9a-f]{32}")
NOT_KEPT = {"Cache-Control": "no-store"}
KEPT = {"Cache-Control": f"public, max-age={CACHE_SECONDS}"}
_NEVER_CHANGES = {"Cache-Control": "public, max-age=31536000, immutable"}
_LONGEST_TOKEN = 1000
_DIGITS_AT_MOST = 19
_LOOKED_AT = frozenset({b"content-type", b"content-encoding", b"content-length"})


def charge(addresses: Addresses, request: Request, tokens: int = 1) -> Networks:
    """Limit it by where it comes from, which is never kept."""
    return addresses.charge(addresses.sender(request.scope), tokens)


def survey_named(request: Request) -> SurveyId:
    """The survey in its path."""
    try:
        return SurveyId.from_text(request.path_params["survey"])
    except MalformedError:
        raise UnknownError("survey", "of this name") from None


def batch_named(request: Request) -> str:
    """The batch in its path."""
    batch: str = request.path_params["batch"]
    if not HEX32.fullmatch(batch):
        raise UnknownError("batch", "of this name")
    return batch


def bearer(request: Request) -> str:
    """The token that it shows."""
    scheme, _, token = request.headers.get("authorization", "").partition(" ")
    token = token.strip()
    if scheme.lower() != "bearer" or not token or len(token) > _LONGEST_TOKEN:
        raise ProblemError(NO_TOKEN)
    return token


@dataclass(kw_only=True)
class PartyHandlers:
    """The endpoints that both services have."""

    keyring: Keyring

    async def keys(self, _request: Request) -> Response:
        """The signed list of public keys, the same bytes for everybody."""
        body = await run_in_threadpool(self.keyring.document)
        return Response(body, media_type=JSON, headers=KEPT)


def configuration(survey: bytes) -> Response:
    """A survey's canonical bytes, whose hash is its name."""
    return Response(survey, media_type=JSON, headers=_NEVER_CHANGES)


def expect(headers: RawHeaders, media_type: str, *, limit: int) -> None:
    """Refuse by its headers what need not be read."""
    first: dict[bytes, bytes] = {}
    for name, value in headers:
        if name in _LOOKED_AT:
            first.setdefault(name, value)
    sent = first.get(b"content-type", b"")
    plain = sent == media_type.encode() or (
        sent.decode("latin-1").partition(";")[0].strip().lower() == media_type
    )
    if not plain or first.get(b"content-encoding", b"identity") != b"identity":
        detail = f"send the body as Content-Type: {media_type}, without a Content-Encoding"
        raise ProblemError(Problem("wrong_media_type", 415, detail))
    announced = first.get(b"content-length", b"0")
    if not announced.isdigit():
        detail = "the header Content-Length is not a number"
        raise ProblemError(Problem("malformed", 400, detail, close=True))
    if len(announced) > _DIGITS_AT_MOST or int(announced) > limit:
        raise ProblemError(_too_large(limit))


async def read(
    receive: Receive, *, limit: int, seconds: float, hold: Callable[[int], None] | None = None
) -> bytes:
    """The whole body; ``hold`` is told the length of every piece before it is kept."""
    pieces: list[bytes] = []
    length = 0
    more = True
    try:
        async with asyncio.timeout(seconds):
            while more:
                message = await receive()
                if message["type"] == "http.disconnect":  # nobody reads it, but it is counted
                    detail = "the connection ended before the body did"
                    raise ProblemError(Problem("broken_off", 400, detail, close=True))
                piece, more = message.get("body", b""), message.get("more_body", False)
                length += len(piece)
                if length > limit:
                    raise ProblemError(_too_large(limit))
                if hold is not None:
                    hold(len(piece))
                pieces.append(piece)
    except TimeoutError:
        detail = f"the body did not arrive within {seconds:g} seconds; send it again"
        raise ProblemError(Problem("too_slow", 408, detail, close=True)) from None
    return pieces[0] if len(pieces) == 1 else b"".join(pieces)


async def read_record(request: Request, *, limit: int, seconds: float) -> dict[str, str]:
    """A small JSON object whose members are all texts."""
    expect(request.headers.raw, JSON, limit=limit)
    data = await read(request.receive, limit=limit, seconds=seconds)
    try:
        record = json.loads(data)
    except (ValueError, RecursionError):
        record = None
    if isinstance(record, dict) and all(isinstance(value, str) for value in record.values()):
        return record
    detail = "the body is not a JSON object with text values"
    raise ProblemError(Problem("malformed", 400, detail))


def _too_large(limit: int) -> Problem:
    detail = f"the body has more than {limit} bytes; send it in parts"
    extra = {"limit": limit}
    return Problem("too_large", 413, detail, extra=extra, close=True)
