"""A real HTTP server in a thread, and a client that writes its bytes by hand."""

from __future__ import annotations

import socket
from contextlib import contextmanager, suppress
from functools import partial
from threading import Event, Thread
from time import monotonic, sleep

import httpx
import uvicorn

BYTES = {"Content-Type": "application/octet-stream"}
TIMEOUT = 60  # seconds, on a machine that has other work
get, post = partial(httpx.get, timeout=TIMEOUT), partial(httpx.post, timeout=TIMEOUT)
SETTINGS = {"log_config": None, "access_log": False, "lifespan": "on", "proxy_headers": False}


@contextmanager
def serving(app, **settings):
    """An application behind a real server on a port of its own; gives the address."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        server = uvicorn.Server(uvicorn.Config(app, **(SETTINGS | settings)))
        thread = Thread(target=server.run, kwargs={"sockets": [listening]}, daemon=True)
        thread.start()
        until = monotonic() + 60
        while not server.started:
            assert thread.is_alive()
            assert monotonic() < until
            sleep(0.005)
        try:
            yield f"http://127.0.0.1:{listening.getsockname()[1]}"
        finally:
            server.should_exit = True
            thread.join(60)
            assert not thread.is_alive()


def talk(url, request, *, pause=0.0, seconds=60.0):
    """Send raw bytes, piece by piece, and read all that is answered until the server closes."""
    host, port = url.removeprefix("http://").split(":")
    with socket.create_connection((host, int(port)), timeout=seconds) as connection:
        for piece in [request] if isinstance(request, bytes) else request:
            try:
                connection.sendall(piece)
            except OSError:  # the server has heard enough
                break
            sleep(pause)
        answer = b""
        try:
            while piece := connection.recv(65536):
                answer += piece
        except OSError:
            pass
    return answer


@contextmanager
def dripping(first=b"HTTP/1.1 200 OK\r\nX-A: ", *, pause=0.02, most=1500):
    """A server that begins an answer and goes on with a byte now and then; its address.

    It gives up after so many bytes, so that whoever waits for the end fails, and does not hang.
    """
    over = Event()

    def answer(connection):
        with connection, suppress(OSError):
            connection.recv(65536)
            connection.sendall(first)
            for _ in range(most):
                if over.wait(pause):
                    return
                connection.sendall(b"x")

    def accept():
        with suppress(OSError):
            while True:
                Thread(target=answer, args=(listening.accept()[0],), daemon=True).start()

    with socket.create_server(("127.0.0.1", 0)) as listening:
        Thread(target=accept, daemon=True).start()
        try:
            yield f"http://127.0.0.1:{listening.getsockname()[1]}"
        finally:
            over.set()
            listening.shutdown(socket.SHUT_RDWR)
