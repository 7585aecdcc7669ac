"""Asking other services: where a survey says and nowhere else, and never without an end.

No redirect is followed, nothing is unpacked, and nothing is taken from the environment: neither a
proxy (``HTTPS_PROXY``) nor certificates (``SSL_CERT_FILE``). A variable that somebody left behind
must not decide who sees a token, or whose list of keys is fetched.

httpx limits the time between two bytes, so that what comes byte by byte would never end. So there
is a time for the whole as well.
"""

from __future__ import annotations

import asyncio

import httpx

from shoal.service.errors import ServiceError

HEADERS = {"Accept-Encoding": "identity", "User-Agent": "shoal/1"}


class NoAnswerError(ServiceError):
    """A service that does not answer, not in time, or with more than was wanted."""

    def __init__(self, url: str, reason: str) -> None:
        self.url = url
        self.reason = reason
        super().__init__(f"no answer from {url}: {reason}; try again later")


def client(transport: httpx.AsyncBaseTransport | None, *, silence: float) -> httpx.AsyncClient:
    """What asks; ``silence`` is the longest without a byte, in seconds."""
    return httpx.AsyncClient(
        transport=transport,
        timeout=silence,
        trust_env=False,
        follow_redirects=False,
        headers=HEADERS,
    )


def is_packed(answer: httpx.Response) -> bool:
    """Whether it is packed, which nobody wanted: what is small on its way may be large here."""
    return str(answer.headers.get("Content-Encoding", "identity")).lower() != "identity"


def whole(
    url: str,
    *,
    seconds: float,
    largest: int,
    transport: httpx.AsyncBaseTransport | None = None,
) -> httpx.Response:
    """All of an answer to GET, of at most so many bytes and seconds."""

    async def ask() -> httpx.Response:
        async with (
            asyncio.timeout(seconds),
            client(transport, silence=seconds) as asking,
            asking.stream("GET", url) as answer,
        ):
            if is_packed(answer):
                raise NoAnswerError(url, "it is compressed, which was not requested")
            body = bytearray()
            async for piece in answer.aiter_bytes():
                body += piece
                if len(body) > largest:
                    raise NoAnswerError(url, f"it has more than {largest} bytes")
            return httpx.Response(answer.status_code, headers=answer.headers, content=bytes(body))

    try:
        return asyncio.run(ask())
    except TimeoutError:
        raise NoAnswerError(url, f"it is incomplete after {seconds:g} seconds") from None
    except (httpx.HTTPError, httpx.InvalidURL, ValueError) as error:
        raise NoAnswerError(url, type(error).__name__) from error
