"""Asking other services: where a survey says and nowhere else, and never without an end.

No redirect is followed, nothing is unpacked, and nothing is taken from the environment: neither a
proxy (``HTTPS_PROXY``) nor certificates (``SSL_CERT_FILE``). A variable that somebody left behind
must not decide who sees a token, or whose list of keys is fetched.

httpx limits the time between two bytes, so that what comes byte by byte would never end. So there
is a time for the whole as well.
"""

from __future__ import annotations

import asyncio
from typing import Any

import httpx

from shoal.errors import ShoalError

# Of every httpx.AsyncClient.
SETTINGS: dict[str, Any] = {
    "trust_env": False,
    "follow_redirects": False,
    "headers": {"Accept-Encoding": "identity", "User-Agent": "shoal/1"},
}


class NoAnswerError(ShoalError):
    """A service that does not answer, not in time, or with nothing that makes sense.

    ``word`` says why in logs, which have no sentences.
    """

    def __init__(
        self,
        url: str,
        reason: str,
        advice: str = "try again later",
        *,
        word: str = "unavailable",
    ) -> None:
        self.url = url
        self.reason = reason
        self.advice = advice
        self.word = word
        super().__init__(f"no answer from {url}: {reason}; {advice}")


def whole(
    url: str,
    *,
    seconds: float,
    largest: int,
    transport: httpx.AsyncBaseTransport | None = None,
    only_ok: bool = False,
) -> httpx.Response:
    """All of an answer to GET, of at most so many bytes and seconds: status, date and body.

    With ``only_ok`` an answer of another status is none.
    """

    async def ask() -> httpx.Response:
        async with (
            asyncio.timeout(seconds),
            httpx.AsyncClient(transport=transport, timeout=seconds, **SETTINGS) as client,
            client.stream("GET", url) as answer,
        ):
            if only_ok and answer.status_code != httpx.codes.OK:
                raise NoAnswerError(url, f"status {answer.status_code}")
            if answer.headers.get("Content-Encoding", "identity").lower() != "identity":
                raise NoAnswerError(url, "it is compressed, which was not requested")
            body = bytearray()
            async for piece in answer.aiter_bytes():
                body += piece
                if len(body) > largest:
                    raise NoAnswerError(url, f"it has more than {largest} bytes")
            date = {name: answer.headers[name] for name in ("Date",) if name in answer.headers}
            return httpx.Response(answer.status_code, headers=date, content=bytes(body))

    try:
        return asyncio.run(ask())
    except TimeoutError:
        raise NoAnswerError(url, f"it is incomplete after {seconds:g} seconds") from None
    except (httpx.HTTPError, httpx.InvalidURL, ValueError) as error:
        raise NoAnswerError(url, type(error).__name__) from error
