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


def proxy_to(target, *, local_address, sender=b"shoal-sender", as_it_is=()):
    """An application that does what the proxies of deploy/ do: hand a request on for its sender.

    It names the sender in a header of its own, in place of what is there, unless in those that it
    hands on ``as_it_is``.
    """
    passed = {b"content-type", b"authorization", b"shoal-request", b"accept", *as_it_is}

    async def app(scope, receive, send):
        if scope["type"] != "http":
            return
        body, more = b"", True
        while more:
            message = await receive()
            body, more = body + message.get("body", b""), message.get("more_body", False)
        headers = [(name, value) for name, value in scope["headers"] if name in passed]
        if sender is not None:
            headers.append((sender, scope["client"][0].encode()))
        transport = httpx.AsyncHTTPTransport(local_address=local_address)
        async with httpx.AsyncClient(transport=transport, timeout=TIMEOUT) as client:
            answer = await client.request(
                scope["method"],
                f"{target}{scope['path']}?{scope['query_string'].decode()}".rstrip("?"),
                content=body,
                headers=headers,
            )
        kept = [(n, v) for n, v in answer.headers.raw if n.lower() != b"connection"]
        await send({"type": "http.response.start", "status": answer.status_code, "headers": kept})
        await send({"type": "http.response.body", "body": answer.content})

    return app
