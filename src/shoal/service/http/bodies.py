"""Reading what a request carries: of the right type, in time, and never more than allowed."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterable
from typing import TypeAlias

from starlette.requests import Request
from starlette.types import Receive

from shoal.service.http.problems import Problem, ProblemError

RawHeaders: TypeAlias = Iterable[tuple[bytes, bytes]]
_DIGITS_AT_MOST = 19
_LOOKED_AT = frozenset({b"content-type", b"content-encoding", b"content-length"})


def expect(request: Request, media_type: str, *, limit: int) -> None:
    """Refuse by its headers what need not be read."""
    expect_of(request.scope["headers"], media_type, limit=limit)


def expect_of(headers: RawHeaders, media_type: str, *, limit: int) -> None:
    """The same, of headers as a server hands them over: names in lower case, all of it bytes."""
    given: dict[bytes, bytes] = {}
    for name, value in headers:
        if name in _LOOKED_AT:
            given.setdefault(name, value)
    if given.get(b"content-type") != media_type.encode():
        _check_type(given.get(b"content-type", b""), media_type)
    if given.get(b"content-encoding", b"identity") != b"identity":
        raise ProblemError(_wrong_type(media_type))
    announced = given.get(b"content-length", b"0")
    if not announced.isdigit():
        detail = "the header Content-Length is not a number"
        raise ProblemError(Problem(kind="malformed", status=400, detail=detail, close=True))
    if len(announced) > _DIGITS_AT_MOST or int(announced) > limit:
        raise ProblemError(_too_large(limit))


def _check_type(given: bytes, media_type: str) -> None:
    if given.decode("latin-1").partition(";")[0].strip().lower() != media_type:
        raise ProblemError(_wrong_type(media_type))


async def read(request: Request, *, limit: int, seconds: float) -> bytes:
    """The whole body."""
    return await read_from(request.receive, limit=limit, seconds=seconds)


async def read_from(
    receive: Receive, *, limit: int, seconds: float, hold: Callable[[int], None] | None = None
) -> bytes:
    """The same, of what a server hands over.

    ``hold`` is told the length of every piece before it is kept.
    """
    pieces: list[bytes] = []
    length = 0
    more = True
    try:
        async with asyncio.timeout(seconds):
            while more:
                message = await receive()
                if message["type"] == "http.disconnect":
                    raise ProblemError(_broken_off())
                piece, more = message.get("body", b""), message.get("more_body", False)
                length += len(piece)
                if length > limit:
                    raise ProblemError(_too_large(limit))
                if hold is not None:
                    hold(len(piece))
                pieces.append(piece)
    except TimeoutError:
        raise ProblemError(_too_slow(seconds)) from None
    return pieces[0] if len(pieces) == 1 else b"".join(pieces)


async def read_record(request: Request, *, limit: int, seconds: float) -> dict[str, str]:
    """A small JSON object whose members are all texts."""
    expect(request, "application/json", limit=limit)
    data = await read(request, limit=limit, seconds=seconds)
    try:
        found = json.loads(data)
    except (ValueError, RecursionError):
        found = None
    if isinstance(found, dict) and all(isinstance(value, str) for value in found.values()):
        return found
    detail = "the body is not a JSON object of texts"
    raise ProblemError(Problem(kind="malformed", status=400, detail=detail))


def _wrong_type(media_type: str) -> Problem:
    detail = f"send the body as Content-Type: {media_type}, not encoded"
    return Problem(kind="wrong_media_type", status=415, detail=detail)


def _too_large(limit: int) -> Problem:
    detail = f"the body has more than {limit} bytes; send it in parts"
    extra = {"limit": limit}
    return Problem(kind="too_large", status=413, detail=detail, extra=extra, close=True)


def _too_slow(seconds: float) -> Problem:
    detail = f"the body did not arrive within {seconds:g} seconds; send it again"
    return Problem(kind="too_slow", status=408, detail=detail, close=True)


def _broken_off() -> Problem:
    """Nobody is there to read it, but it is counted."""
    detail = "the connection ended before the body did"
    return Problem(kind="broken_off", status=400, detail=detail, close=True)
