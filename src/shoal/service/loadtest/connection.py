"""One connection that carries one request after the other: HTTP/1.1, kept alive.

A generator has to be quicker than what it measures. A client library takes several times as long
for a request as the shuffler does, and most of what would be measured is the library. So this one
writes a request's bytes, which are made beforehand, and has the answer read by the parser that
servers use.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable
from dataclasses import dataclass
from typing import cast
from urllib.parse import urlsplit

import httptools

from shoal.errors import InvalidArgumentError

_PORTS = {"http": 80, "https": 443}
_LONGEST = 1 << 20  # bytes of an answer that are kept


@dataclass(frozen=True)
class Target:
    """Where requests go, and the head that all of them have."""

    host: str
    port: int
    tls: ssl.SSLContext | None
    head: bytes

    @classmethod
    def of(cls, url: str, body_bytes: int) -> Target:
        """The target behind an address; every body has so many bytes."""
        parts = urlsplit(url)
        if parts.scheme not in _PORTS or not parts.hostname:
            raise InvalidArgumentError(
                "url", url, "an address that begins with http:// or https://"
            )
        lines = [
            f"POST {parts.path} HTTP/1.1",
            f"Host: {parts.netloc}",
            "User-Agent: shoal-loadtest",
            "Content-Type: application/octet-stream",
            f"Content-Length: {body_bytes}",
        ]
        tls = ssl.create_default_context() if parts.scheme == "https" else None
        head = "\r\n".join([*lines, "", ""]).encode("ascii")
        return cls(parts.hostname, parts.port or _PORTS[parts.scheme], tls, head)


@dataclass(frozen=True)
class Answer:
    """What came back; names of headers in lower case."""

    status: int
    headers: dict[bytes, bytes]
    body: bytes


class Connection(asyncio.Protocol):
    """``done`` is called with the answer to what was sent, or with None if there will be none."""

    def __init__(self, done: Callable[[Connection, Answer | None], None]) -> None:
        self._done = done
        self._transport: asyncio.Transport | None = None
        self._busy = False
        self._ended = asyncio.Event()
        self._parser = httptools.HttpResponseParser(self)
        self._begin()

    def _begin(self) -> None:
        self._headers: dict[bytes, bytes] = {}
        self._pieces: list[bytes] = []
        self._length = 0
        self._lasting = False
        self._whole = False

    @classmethod
    async def open(
        cls, target: Target, done: Callable[[Connection, Answer | None], None]
    ) -> Connection:
        """Connected."""
        loop = asyncio.get_running_loop()
        _, made = await loop.create_connection(
            lambda: cls(done), target.host, target.port, ssl=target.tls
        )
        return made

    @property
    def usable(self) -> bool:
        """Whether another request can be sent on it."""
        return self._transport is not None and not self._transport.is_closing() and not self._busy

    def send(self, request: bytes) -> None:
        """Write a request; its answer comes later."""
        assert self._transport is not None  # noqa: S101 - it is open
        self._busy = True
        self._begin()
        self._transport.write(request)

    def close(self) -> None:
        """Hang up."""
        if self._transport is not None:
            self._transport.close()

    async def ended(self) -> None:
        """Wait until it is closed."""
        await self._ended.wait()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """It is open."""
        self._transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        """A piece of an answer."""
        try:
            self._parser.feed_data(data)
        except (httptools.HttpParserError, httptools.HttpParserUpgrade):
            self.close()
            return
        if self._whole and self._busy:
            self._busy = False
            if not self._lasting:
                self.close()
            found = Answer(self._parser.get_status_code(), self._headers, b"".join(self._pieces))
            self._done(self, found)

    def connection_lost(self, exc: Exception | None) -> None:
        """Whatever was asked is not answered any more."""
        del exc
        self._ended.set()
        if self._busy:
            self._busy = False
            self._done(self, None)

    # What the parser calls

    def on_header(self, name: bytes, value: bytes) -> None:
        """A line of the head."""
        self._headers[name.lower()] = value

    def on_headers_complete(self) -> None:
        """The head is whole: it says whether more can be sent on this connection."""
        self._lasting = self._parser.should_keep_alive()

    def on_body(self, body: bytes) -> None:
        """A piece of the body."""
        self._length += len(body)
        if self._length <= _LONGEST:
            self._pieces.append(body)

    def on_message_complete(self) -> None:
        """The answer is whole."""
        self._whole = True
