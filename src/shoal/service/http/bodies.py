"""Reading what a request carries: of the right type, in time, and never more than allowed."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable

from starlette.requests import ClientDisconnect, Request

from shoal.service.http.problems import Problem, ProblemError

_DIGITS_AT_MOST = 19


def expect(request: Request, media_type: str, *, limit: int) -> None:
    """Refuse by its headers what need not be read."""
    given = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if given != media_type or request.headers.get("content-encoding", "identity") != "identity":
        detail = f"send the body as Content-Type: {media_type}, not encoded"
        raise ProblemError(Problem(kind="wrong_media_type", status=415, detail=detail))
    announced = request.headers.get("content-length", "0")
    if not (announced.isascii() and announced.isdecimal()):
        detail = "the header Content-Length is not a number"
        raise ProblemError(Problem(kind="malformed", status=400, detail=detail, close=True))
    if len(announced) > _DIGITS_AT_MOST or int(announced) > limit:
        raise ProblemError(_too_large(limit))


async def read(
    request: Request, *, limit: int, seconds: float, hold: Callable[[int], None] | None = None
) -> bytes:
    """The whole body; ``hold`` is told the length of every piece before it is kept."""
    pieces: list[bytes] = []
    length = 0
    try:
        async with asyncio.timeout(seconds):
            async for piece in request.stream():
                length += len(piece)
                if length > limit:
                    raise ProblemError(_too_large(limit))
                if hold is not None:
                    hold(len(piece))
                pieces.append(piece)
    except TimeoutError:
        raise ProblemError(_too_slow(seconds)) from None
    except ClientDisconnect:
        raise ProblemError(_broken_off()) from None
    return b"".join(pieces)


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
