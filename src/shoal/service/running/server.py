"""One application on one port, and a graceful end.

The socket is opened first, so that a port that is taken is said in one line before anything else
starts. At SIGTERM or SIGINT the server stops accepting, answers what it has begun, and closes the
application, which commits what it acknowledged. A second SIGINT does not wait.

It speaks plain HTTP: encryption on the way (TLS), certificates and HTTP/2 are the business of a
reverse proxy in front, which may also be what keeps addresses from the shuffler.
"""

from __future__ import annotations

import errno
import signal
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Self

import uvicorn
from starlette.types import ASGIApp

from shoal.errors import ShoalError
from shoal.service.running import logs
from shoal.service.running.connections import Bounds, bounded

GRACE = 30  # seconds for requests that have begun
BACKLOG = 2048
_IDLE = 65  # seconds a connection may be silent between two requests


class CannotListenError(ShoalError):
    """A port that another program has, or that this user may not use."""

    def __init__(self, host: str, port: int, why: str, advice: str) -> None:
        self.host = host
        self.port = port
        super().__init__(f"cannot listen on {host} port {port}: {why}; {advice}")


def listen(host: str, port: int, *, option: str = "port") -> socket.socket:
    """A socket on this address, port 0 for any that is free; ``option`` is how it was chosen."""
    try:
        family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
        found = socket.socket(family, socket.SOCK_STREAM)
    except OSError as error:
        raise _refusal(host, port, error, option) from None
    try:
        found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        found.bind((host, port))
        found.listen(BACKLOG)
    except (OSError, OverflowError) as error:
        found.close()
        raise _refusal(host, port, error, option) from None
    return found


def _refusal(
    host: str, port: int, error: OSError | OverflowError, option: str
) -> CannotListenError:
    number = error.errno if isinstance(error, OSError) else None
    host_option = option.replace("port", "host")
    advice = {
        errno.EADDRINUSE: f"stop the program that has it, or choose another by --{option}",
        errno.EACCES: f"choose one above 1023 by --{option}, and let a reverse proxy have this one",
    }.get(
        number or 0, f"choose an address of this machine by --{host_option} and a port up to 65535"
    )
    why = {errno.EADDRINUSE: "the port is taken", errno.EACCES: "not allowed"}
    told = error.strerror if isinstance(error, OSError) else "no such port"
    return CannotListenError(host, port, why.get(number or 0, str(told)), advice)


def adopted(descriptor: int) -> socket.socket:
    """A listening socket that whoever started this process opened for it."""
    try:
        found = socket.socket(fileno=descriptor)
        found.listen(BACKLOG)
    except OSError as error:
        advice = "start without --socket to open a port of its own"
        raise CannotListenError("descriptor", descriptor, str(error.strerror), advice) from None
    return found


def address(listening: socket.socket) -> str:
    """Where a socket is reached."""
    host, port = listening.getsockname()[:2]
    shown = f"[{host}]" if ":" in host else host
    return f"http://{shown}:{port}"


class Server(uvicorn.Server):
    """uvicorn, with signals left to the process that has it."""

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Nothing is captured: the process decides when to stop."""
        yield

    def stop(self) -> None:
        """Finish, then end; asked twice, end."""
        if self.should_exit:
            self.force_exit = True
        self.should_exit = True


def server(
    app: ASGIApp, *, grace: int = GRACE, loop: str = "uvloop", bounds: Bounds | None = None
) -> Server:
    """A server without access log, without names of software in headers, trusting no headers."""
    return Server(
        uvicorn.Config(
            app,
            loop=loop,
            http=bounded(bounds or Bounds()),
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


class Background:
    """An application in a thread of its own, for what has to be asked while work goes on."""

    def __init__(
        self, app: ASGIApp, listening: socket.socket, *, bounds: Bounds | None = None
    ) -> None:
        self._server = server(app, grace=1, loop="asyncio", bounds=bounds)
        self._socket = listening
        self._thread = threading.Thread(target=self._run, name="background", daemon=True)

    def _run(self) -> None:
        self._server.run(sockets=[self._socket])

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def stop(self) -> None:
        """Let it finish and end."""
        self._server.should_exit = True

    def __exit__(self, *_: object) -> None:
        self.stop()
        self._thread.join(timeout=5)


@contextmanager
def stopping(stop: Callable[[], None]) -> Iterator[None]:
    """Call ``stop`` at SIGTERM and SIGINT while this lasts; the log says which it was.

    Asking again changes nothing, but for a second SIGINT: somebody sits there and waits.
    """
    before_this: list[int] = []

    def asked(number: int, frame: FrameType | None) -> None:
        del frame
        if before_this and number != signal.SIGINT:
            return
        before_this.append(number)
        logs.say("stopping", signal=signal.Signals(number).name)
        stop()

    with handling(asked):
        yield


@contextmanager
def handling(handler: Callable[[int, FrameType | None], None]) -> Iterator[None]:
    """Have SIGTERM and SIGINT handled so while this lasts."""
    before = {number: signal.signal(number, handler) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield
    finally:
        for number, old in before.items():
            signal.signal(number, old)


def serve(app: ASGIApp, listening: socket.socket, *, grace: int = GRACE) -> None:
    """Run the application on this socket until SIGTERM or SIGINT; then finish what has begun."""
    running = server(app, grace=grace)
    with stopping(running.stop):
        running.run(sockets=[listening])
