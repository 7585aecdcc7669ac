"""One application on one port: the socket, the connections, and a graceful end.

The socket is opened first, so that a port that is taken is said in one line before anything else
starts. A server that is asked to stop accepts nobody any more, answers what it has begun, and
closes the application, which commits what it acknowledged.

The parser behind the server keeps a request's head in memory until it is whole, however long it
grows and however long it takes. Here a head has a length and a time, and the process has a number
of connections: a connection that stays silent, or whose head never ends, is closed before the
application learns of it, and when there are too many, the longest silent one makes room for the
next. Bodies have their own limits (see ``http.limits``).

It speaks plain HTTP: encryption on the way (TLS), certificates and HTTP/2 are the business of a
reverse proxy in front, which may also be what keeps addresses from the shuffler.
"""

from __future__ import annotations

import asyncio
import errno
import resource
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from http import HTTPStatus
from typing import ClassVar

import uvicorn
from starlette.types import ASGIApp
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from shoal.errors import RefusedError
from shoal.service.http.limits import Addresses, Limits, Networks, PerNetwork
from shoal.service.http.problems import Problem, ProblemError

LOOPBACK = "127.0.0.1"
GRACE = 30  # seconds for requests that have begun
BACKLOG = 2048
_IDLE = 65  # seconds a connection may be silent between two requests
_MOST_FILES = 65_536
_FILES_FOR_WORK = 256  # kept back for the store: databases, segments, batches
_PER_LINE = 4  # bytes of a header line beside its name and its value
_NOT_HTTP = Problem("malformed", 400, "this is not an HTTP/1.1 request", close=True)


def listen(
    host: str, port: int, *, option: str = "port", descriptor: int | None = None
) -> socket.socket:
    """A socket on this address, port 0 for any that is free; ``option`` is how it was chosen.

    ``descriptor`` is a listening socket that the parent process opened.
    """
    if descriptor is not None:
        try:
            opened = socket.socket(fileno=descriptor)
            opened.listen(BACKLOG)
        except OSError as error:
            advice = "start without --socket, so that the service opens its own port"
            what = f"cannot listen on descriptor port {descriptor}"
            raise RefusedError(what, str(error.strerror), advice) from None
        return opened
    try:
        family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
        opened = socket.socket(family, socket.SOCK_STREAM)
    except OSError as error:
        raise _refusal(host, port, error, option) from None
    try:
        opened.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        opened.bind((host, port))
        opened.listen(BACKLOG)
    except (OSError, OverflowError) as error:
        opened.close()
        raise _refusal(host, port, error, option) from None
    return opened


def _refusal(host: str, port: int, error: OSError | OverflowError, option: str) -> RefusedError:
    match getattr(error, "errno", None):
        case errno.EADDRINUSE:
            why = "the port is in use"
            advice = f"stop the program that uses it, or choose another with --{option}"
        case errno.EACCES:
            why = "not allowed"
            advice = f"choose one above 1023 with --{option}, and put a reverse proxy on this one"
        case _:
            why = str(getattr(error, "strerror", "no such port"))
            host_option = option.replace("port", "host")
            advice = (
                f"choose an address of this machine with --{host_option}, and a port up to 65535"
            )
    return RefusedError(f"cannot listen on {host} port {port}", why, advice)


def address(listening: socket.socket) -> str:
    """Where a socket is reached."""
    host, port = listening.getsockname()[:2]
    shown = f"[{host}]" if ":" in host else host
    return f"http://{shown}:{port}"


class Server(uvicorn.Server):
    """uvicorn, with signals left to the process that has it."""

    capture_signals = nullcontext  # type: ignore[assignment] # nothing is: the process decides

    def stop(self) -> None:
        """Finish, then end; asked twice, end."""
        if self.should_exit:
            self.force_exit = True
        self.should_exit = True


def server(
    app: ASGIApp, *, grace: int = GRACE, loop: str = "uvloop", limits: Limits | None = None
) -> Server:
    """A server without access log, without names of software in headers, trusting no headers.

    It has as many connections as files may be opened at most.
    """
    limits = limits or Limits()
    most, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if most != resource.RLIM_INFINITY:
        # Half of a small number is left to the store; it needs the files that are left here.
        room = max(most - _FILES_FOR_WORK, most // 2, 1)
        limits = replace(limits, connections=min(limits.connections, room))
    by_network = PerNetwork(limits.address_connections, limits.connections)
    own = {
        "limits": limits,
        "addresses": Addresses(limits),
        "by_network": by_network,
        "by_silence": dict[Bounded, None](),
    }
    return Server(
        uvicorn.Config(
            app,
            loop=loop,
            http=type("Bounded", (Bounded,), own),
            ws="none",
            lifespan="auto",
            access_log=False,
            log_config=None,
            proxy_headers=False,
            server_header=False,
            timeout_keep_alive=_IDLE,
            timeout_graceful_shutdown=grace,
        )
    )


@contextmanager
def background(
    app: ASGIApp, listening: socket.socket, *, limits: Limits | None = None
) -> Iterator[Server]:
    """An application in a thread of its own, for what has to be asked while work goes on."""
    running = server(app, grace=1, loop="asyncio", limits=limits)
    thread = threading.Thread(
        target=running.run, kwargs={"sockets": [listening]}, name="background", daemon=True
    )
    thread.start()
    try:
        yield running
    finally:
        running.should_exit = True
        thread.join(timeout=5)


# Connections


class Bounded(HttpToolsProtocol):
    """One connection of a server, with limits."""

    limits: ClassVar[Limits]
    addresses: ClassVar[Addresses]
    by_network: ClassVar[PerNetwork]  # connections
    by_silence: ClassVar[dict[Bounded, None]]  # all connections, the longest silent first

    _networks: Networks = None
    _left: int | None = None  # bytes to discard, once nothing is read any more
    _head = 0  # bytes of the request's head, as the parser tells them
    _silent = 0  # bytes since the parser told of anything
    _progressed = False
    _timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Begin to wait for the first request."""
        super().connection_made(transport)
        peer = self.client[0] if self.client else ""
        is_proxy = self.limits.proxy is not None and self.addresses.is_proxy(peer)
        networks = None if is_proxy else self.addresses.key(peer)
        if not self.by_network.take(networks):
            transport.abort()
            return
        self._networks = networks
        if len(self.by_silence) >= self.limits.connections:
            # Who sends comes before who does not: this one may, the longest silent one did not.
            oldest = next((each for each in self.by_silence if each.is_awaited()), self)
            self.by_silence.pop(oldest, None)
            oldest.transport.abort()
        if not transport.is_closing():
            self.by_silence[self] = None
            self._watch()

    def connection_lost(self, exc: Exception | None) -> None:
        """Nothing is waited for any more."""
        self._unwatch()
        self.by_silence.pop(self, None)
        self.by_network.give(self._networks)
        self._networks = None
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Pass it to the parser, unless it goes on and on without telling it anything."""
        if self._left is not None:
            self._left -= len(data)
            if self._left < 0:
                self.transport.abort()
            return
        self._progressed = False
        super().data_received(data)
        if self.transport.is_closing():
            return
        self.by_silence.pop(self, None)
        self.by_silence[self] = None
        if self._left is not None:
            return
        self._silent = 0 if self._progressed else self._silent + len(data)
        if self._silent > self.limits.head_bytes:
            self._refuse(_too_long(self.limits.head_bytes))
        elif self._is_idle():
            self._watch()

    def on_message_begin(self) -> None:
        """A new request."""
        self._head = 0
        super().on_message_begin()

    def on_url(self, url: bytes) -> None:
        """A piece of its first line."""
        self._head += len(url)
        if self._head > self.limits.head_bytes:
            raise ProblemError(_too_long(self.limits.head_bytes))
        super().on_url(url)

    def on_header(self, name: bytes, value: bytes) -> None:
        """A line of its head, or one behind its body."""
        self._head += len(name) + len(value) + _PER_LINE
        if self._head > self.limits.head_bytes:
            raise ProblemError(_too_long(self.limits.head_bytes))
        super().on_header(name, value)

    def on_headers_complete(self) -> None:
        """The head is whole."""
        self._progressed = True
        self._unwatch()
        super().on_headers_complete()
        self.cycle.transport = _Answering(self)  # type: ignore[assignment] # what it uses of one

    def on_body(self, body: bytes) -> None:
        """A piece of the body."""
        self._progressed = True
        super().on_body(body)

    def send_400_response(self, msg: str) -> None:
        """Say what is wrong as every other answer does."""
        del msg
        if self._head > self.limits.head_bytes:
            self._refuse(_too_long(self.limits.head_bytes))
        else:
            self._refuse(_NOT_HTTP)

    def _refuse(self, problem: Problem) -> None:
        """Say so, unless an answer to an earlier request is on its way; then no more is read."""
        if self._is_idle():
            self.transport.write(_bytes_of(problem))
            self.discard()
        else:
            self.transport.close()

    def discard(self) -> None:
        """End our side, and read for a while what nobody wants.

        A socket that is closed with bytes unread is reset, and a sender who does not read before
        all is sent would never see the answer.
        """
        if self._left is None and not self.transport.is_closing():
            self._left = self.limits.discard_bytes
            self.transport.write_eof()
            self.flow.resume_reading()
            self.loop.call_later(self.limits.discard_seconds, self.transport.close)

    def is_awaited(self) -> bool:
        """Whether it is the other side's turn: with a request, or the rest of one."""
        return self._is_idle() or self.cycle.more_body

    def _is_idle(self) -> bool:
        # Before the first request there is none, whatever its declaration says.
        return bool(getattr(self.cycle, "response_complete", True))

    def _watch(self) -> None:
        if self._timer is None:
            self._timer = self.loop.call_later(self.limits.head_seconds, self._late)

    def _unwatch(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _late(self) -> None:
        self._timer = None
        if self._is_idle():
            self.transport.close()


class _Answering:
    """The transport of one answer, as far as that uses it: closing lets the sender finish."""

    def __init__(self, connection: Bounded) -> None:
        self._connection = connection
        self._cycle = connection.cycle
        self.write = connection.transport.write
        self.is_closing = connection.transport.is_closing

    def close(self) -> None:
        """After the answer; of a request that has not ended, the rest is discarded."""
        if self._cycle.more_body:
            self._connection.discard()
        else:
            self._connection.transport.close()


def allow_many_files() -> None:
    """Let this process open as many files as it may: a connection is one, and a part is one."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = _MOST_FILES if hard == resource.RLIM_INFINITY else min(hard, _MOST_FILES)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


def _bytes_of(problem: Problem) -> bytes:
    """The answer as it is sent where there is no request that an application could answer."""
    answer = problem.response()
    lines = [f"HTTP/1.1 {problem.status} {HTTPStatus(problem.status).phrase}".encode()]
    lines += [name + b": " + value for name, value in answer.raw_headers]
    return b"\r\n".join([*lines, b"", bytes(answer.body)])


def _too_long(limit: int) -> Problem:
    detail = f"the request's headers have more than {limit} bytes"
    return Problem("headers_too_large", 431, detail, close=True)
