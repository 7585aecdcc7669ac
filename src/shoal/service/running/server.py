"""A server until SIGTERM or SIGINT; a second SIGINT does not wait."""

from __future__ import annotations

import signal
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

from starlette.types import ASGIApp

from shoal.service.http.server import GRACE, server
from shoal.service.running import logs


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
