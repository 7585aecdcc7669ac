"""Real HTTP servers in threads, clients that write bytes by hand, and proxies that lose or lie."""

from __future__ import annotations

import asyncio
import socket
from contextlib import contextmanager, suppress
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Event, Lock, Thread
from time import monotonic, sleep

import httpx
import uvicorn

from shoal.randomness import simulated

BYTES = {"Content-Type": "application/octet-stream"}
TIMEOUT = 60  # seconds, on a machine that has other work
get, post = partial(httpx.get, timeout=TIMEOUT), partial(httpx.post, timeout=TIMEOUT)
SETTINGS = {"log_config": None, "access_log": False, "lifespan": "on", "proxy_headers": False}


def client_of(url):
    return httpx.Client(base_url=url, timeout=TIMEOUT, trust_env=False)


def ask(app, path, method="GET", *, address="127.0.0.1", raises=False, **given):
    """What an application answers somebody at an address, over no network."""

    async def one():
        transport = httpx.ASGITransport(app, client=(address, 1), raise_app_exceptions=raises)
        async with httpx.AsyncClient(transport=transport, base_url="http://test") as client:
            return await client.request(method, path, **given)

    return asyncio.run(one())


def refusal_of(answer):
    """The status of a refusal, and the last word of its type."""
    assert answer.headers["content-type"] == "application/problem+json"
    assert answer.json()["status"] == answer.status_code
    return answer.status_code, answer.json()["type"].removeprefix("urn:shoal:problem:")


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


class Between:
    """A proxy that passes every request on; ``answer`` says what comes back, None: nothing does.

    ``upstream`` is whom it is for, who may move.
    """

    upstream: str

    def answer(self, request, pass_on):
        """``pass_on`` asks whom it was for."""
        return pass_on(request)

    @contextmanager
    def __call__(self, upstream):
        proxy, self.upstream = self, upstream

        def pass_on(request):
            kept = {
                name: value
                for name, value in request.headers.items()
                if name not in {"host", "connection", "content-length"}
            }
            return client.request(
                request.method, request.url, content=request.content, headers=kept
            )

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, *_):
                pass

            def respond(self):
                body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
                url, headers = proxy.upstream + self.path, dict(self.headers.items())
                asked = httpx.Request(self.command, url, content=body, headers=headers)
                answer = proxy.answer(asked, pass_on)
                if answer is None:
                    self.close_connection = True
                    return
                self.send_response(answer.status_code)
                for name in ("Content-Type", "Cache-Control", "Retry-After"):
                    if name in answer.headers:
                        self.send_header(name, answer.headers[name])
                self.send_header("Content-Length", str(len(answer.content)))
                self.end_headers()
                self.wfile.write(answer.content)

            do_GET = do_POST = respond  # noqa: N815 - as the library calls them

        with (
            httpx.Client(timeout=60, trust_env=False) as client,
            ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server,
        ):
            server.daemon_threads = True
            thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
            thread.start()
            try:
                yield f"http://127.0.0.1:{server.server_address[1]}"
            finally:
                server.shutdown()
                thread.join(60)


class Lossy(Between):
    """A proxy that loses so many of a hundred answers."""

    def __init__(self, percent, seed=1):
        self.percent = percent
        self.lost = self.passed = 0
        self._lock, self._randomness = Lock(), simulated(seed)

    def answer(self, request, pass_on):
        answer = pass_on(request)
        with self._lock:
            lost = int(self._randomness.below(100, 1)[0]) < self.percent
            self.lost += lost
            self.passed += not lost
        return None if lost else answer


class Lying(Between):
    """A party that answers some paths as it is told to; what it was asked for is in ``asked``.

    What a path ends with, and a response, or what gives one from the request, as ``answer`` does.
    """

    def __init__(self):
        self.lies, self.asked = {}, []

    def answer(self, request, pass_on):
        self.asked.append(request)
        for path, lie in self.lies.items():
            if request.url.path.endswith(path):
                return lie(request, pass_on) if callable(lie) else lie
        return pass_on(request)

    def show(self, path, document):
        """Answer with these bytes, to be kept for an hour."""
        self.lies[path] = httpx.Response(
            200, content=document, headers={"cache-control": "max-age=3600"}
        )
