"""Connections that never come to a request: long heads, slow heads, silence, and too many."""

from __future__ import annotations

import asyncio
import json
import resource
import socket
import threading
import time
from contextlib import ExitStack, closing, contextmanager, suppress
from http.client import HTTPConnection, RemoteDisconnected

import pytest
from starlette.requests import Request
from starlette.responses import PlainTextResponse
from starlette.routing import Route

from running_kit import wait_for
from shoal.errors import InvalidArgumentError
from shoal.service.http import requests
from shoal.service.http.limits import Limits
from shoal.service.http.openapi import Application
from shoal.service.http.server import allow_many_files, background, listen
from shoal.service.http.server import server as made

GET = b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"
NONSENSE = b"nonsense\r\n\r\n"
POST = b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"


async def _answer(request: Request) -> PlainTextResponse:
    return PlainTextResponse(str(len(await request.body())))


async def _small(request: Request) -> PlainTextResponse:
    """Refuses what has more than 1000 bytes, by its head or when they have come."""
    requests.expect(request.headers.raw, "text/plain", limit=1000)
    body = await requests.read(request.receive, limit=1000, seconds=60)
    return PlainTextResponse(str(len(body)))


held, go_on = [], threading.Event()


async def _held(request: Request) -> PlainTextResponse:
    """Answers when the test lets it."""
    held.append(request)
    await asyncio.to_thread(go_on.wait, 60)
    return PlainTextResponse("")


@contextmanager
def server(**limits):
    routes = [
        Route("/", _answer, methods=["GET", "POST"]),
        Route("/held", _held),
        Route("/small", _small, methods=["POST"]),
    ]
    app = Application({"paths": {}}, None, pages=routes)
    with (
        listen("127.0.0.1", 0) as listening,
        background(app, listening, limits=Limits(**limits)),
    ):
        yield listening.getsockname()


@pytest.fixture(scope="module")
def place():
    with server(head_bytes=4096) as found:
        yield found


@pytest.fixture(scope="module")
def impatient():
    with server(head_seconds=2.0) as found:
        yield found


def said(connection):
    """All that is answered until the connection ends."""
    connection.settimeout(60)
    pieces = []
    with suppress(ConnectionResetError):  # what it sent was not read to its end
        while piece := connection.recv(65536):
            pieces.append(piece)
    return b"".join(pieces)


def sent_until_cut(connection, pieces, pause=0.0):
    """How many pieces could be sent before the other side ended the connection."""
    sent = 0
    with suppress(OSError):
        for piece in pieces:
            connection.sendall(piece)
            time.sleep(pause)
            sent += 1
    return sent


def problem(answer):
    head, _, body = answer.partition(b"\r\n\r\n")
    status = int(head.split()[1])
    assert b"content-type: application/problem+json" in head.lower()
    assert b"connection: close" in head.lower()
    assert json.loads(body)["status"] == status
    return status, json.loads(body)["type"]


@pytest.mark.parametrize(
    "head",
    [
        pytest.param(b"".join(b"x%d: %s\r\n" % (i, b"a" * 90) for i in range(60)), id="lines"),
        pytest.param(b"x: " + b"a" * 5000 + b"\r\n", id="line"),
        pytest.param(b"x: " + b"a" * 5000, id="unfinished"),
    ],
)
def test_a_long_head_is_refused(place, head):
    with socket.create_connection(place) as connection:
        connection.sendall(b"GET / HTTP/1.1\r\nHost: x\r\n" + head + b"\r\n")
        assert problem(said(connection)) == (431, "urn:shoal:problem:headers_too_large")


def test_a_long_path_is_refused(place):
    with socket.create_connection(place) as connection:
        connection.sendall(b"GET /" + b"a" * 5000 + b" HTTP/1.1\r\nHost: x\r\n\r\n")
        assert problem(said(connection))[0] == 431


def test_a_head_without_end_is_not_kept(place):
    with socket.create_connection(place) as connection:
        connection.sendall(b"GET / HTTP/1.1\r\nHost: x\r\nx: ")
        assert sent_until_cut(connection, [b"a" * 65536] * 1000) < 500


@pytest.mark.parametrize("first", [POST, POST.replace(b"POST", b"GET")])
def test_lines_behind_a_body_are_part_of_the_head(place, first):
    with socket.create_connection(place) as connection:
        connection.sendall(first + b"1\r\na\r\n0\r\n")
        with suppress(BrokenPipeError, ConnectionResetError):  # it has heard enough
            for _ in range(40):
                connection.sendall(b"x: " + b"a" * 200 + b"\r\n")
        answer = said(connection)
    assert b" 200 " not in answer
    assert answer == b"" or problem(answer)[0] == 431


def test_long_bodies_and_many_requests_have_no_such_bound(place):
    with closing(HTTPConnection(*place)) as connection:
        connection.connect()
        opened = connection.sock
        for length in (300_000, 300_000, *[0] * 10):
            method, body = ("POST", b"a" * length) if length else ("GET", None)
            connection.request(method, "/", body, {"Shoal-Long": "a" * 1000})
            assert connection.getresponse().read() == str(length).encode()
            assert connection.sock is opened


def test_what_is_not_http_is_a_problem_too(place):
    with socket.create_connection(place) as connection:
        connection.sendall(b"what is this\r\n\r\n")
        assert problem(said(connection)) == (400, "urn:shoal:problem:malformed")


def test_whoever_does_not_come_to_an_end_is_let_go(impatient):
    unfinished = {"an empty line": b"\r\n", "half a head": GET[:-2]}
    with ExitStack() as stack:
        opened = {"silence": stack.enter_context(socket.create_connection(impatient))}
        for what, sent in unfinished.items():
            opened[what] = stack.enter_context(socket.create_connection(impatient))
            opened[what].sendall(sent)
            later = opened[f"{what}, later"] = stack.enter_context(
                socket.create_connection(impatient)
            )
            later.sendall(GET)
            assert later.recv(65536).startswith(b"HTTP/1.1 200")
            later.sendall(sent)
        for what, connection in opened.items():
            assert said(connection) in {b"", b"0"}, what  # to the end, which is not ours


def test_bytes_that_trickle_buy_no_time(impatient):
    with socket.create_connection(impatient) as connection:
        letters = b"GET / HTTP/1.1\r\nHost: " + b"x" * 400
        pieces = [bytes([letter]) for letter in letters]
        assert sent_until_cut(connection, pieces, pause=0.02) < len(pieces)


@pytest.mark.parametrize(
    "first",
    [b"", GET[:20], POST, POST + b"5\r\nabc", GET, NONSENSE],
    ids=["silent", "half a head", "no body", "half a body", "between requests", "discarded"],
)
def test_of_too_many_connections_one_that_is_waited_for_makes_room(first):
    with server(connections=3, head_seconds=3600, discard_seconds=3600) as place:
        with ExitStack() as stack:
            for _ in range(3):
                connection = stack.enter_context(socket.create_connection(place))
                connection.settimeout(60)
                connection.sendall(first)
                if first in {GET, NONSENSE}:
                    assert connection.recv(65536)
            assert [get(place, "127.0.0.1") for _ in range(5)] == [200] * 5
        wait_for(lambda: answers(place, "127.0.0.1"))  # room is given back


def test_it_is_the_longest_silent_one():
    with server(connections=3, head_seconds=3600) as place, ExitStack() as stack:
        others = [stack.enter_context(closing(HTTPConnection(*place))) for _ in range(3)]
        for connection in others:
            connection.connect()
        for number in (1, 0, 2, 0):
            others[number].request("GET", "/")
            assert others[number].getresponse().read() == b"0"
        with closing(HTTPConnection(*place)) as another:
            another.request("GET", "/")
            assert another.getresponse().read() == b"0"
            assert said(others[1].sock) == b""
            for connection in (others[2], others[0], another):
                connection.request("GET", "/")
                assert connection.getresponse().read() == b"0"


def test_who_is_being_answered_makes_no_room():
    with server(connections=2) as place, ExitStack() as stack:
        busy = [stack.enter_context(socket.create_connection(place)) for _ in range(2)]
        for connection in busy:
            connection.sendall(GET.replace(b"GET /", b"GET /held"))
        wait_for(lambda: len(held) == 2)
        with socket.create_connection(place) as another:
            assert said(another) == b""
        go_on.set()
        for connection in busy:
            connection.settimeout(60)
            assert connection.recv(65536).startswith(b"HTTP/1.1 200")


def test_idle_connections_of_many_addresses_keep_nobody_out():
    """The attack: forty addresses with as many idle connections as each may have."""
    limits = {"connections": 200, "address_connections": 10, "head_seconds": 3600}
    with server(limit_loopback=True, **limits) as place, ExitStack() as stack:
        for last in range(2, 42):
            for _ in range(10):
                stack.enter_context(connected(place, f"127.0.0.{last}"))
            assert get(place, "127.0.0.99") == 200
        assert [get(place, "127.0.0.99") for _ in range(20)] == [200] * 20


def test_files_are_left_for_the_store(monkeypatch):
    monkeypatch.setattr(resource, "getrlimit", lambda _: (1024, 4096))
    assert made(_answer).config.http.limits.connections == 768
    assert made(_answer, limits=Limits(connections=5)).config.http.limits.connections == 5
    monkeypatch.setattr(resource, "getrlimit", lambda _: (100, 100))
    assert made(_answer).config.http.limits.connections == 50


@pytest.mark.parametrize(
    ("limits", "wanted"),
    [
        ((1024, 4096), (4096, 4096)),
        ((1024, resource.RLIM_INFINITY), (65_536, resource.RLIM_INFINITY)),
        ((70_000, 80_000), None),
    ],
)
def test_a_process_may_open_what_it_is_allowed_to(monkeypatch, limits, wanted):
    asked = []
    monkeypatch.setattr(resource, "getrlimit", lambda _: limits)
    monkeypatch.setattr(resource, "setrlimit", lambda _, found: asked.append(found))
    allow_many_files()
    assert asked == ([] if wanted is None else [wanted])


@pytest.mark.parametrize("wrong", [{"head_bytes": 0}, {"head_seconds": 0}, {"connections": 0}])
def test_bounds_are_checked(wrong):
    with pytest.raises(InvalidArgumentError):
        Limits(**wrong)


# Bodies that are refused


def body_of(size, *, announced):
    head = b"POST /small HTTP/1.1\r\nHost: x\r\nContent-Type: text/plain\r\n"
    if announced:
        return head + b"Content-Length: %d\r\n\r\n" % size + bytes(size)
    return (
        head + b"Transfer-Encoding: chunked\r\n\r\n%x\r\n" % size + bytes(size) + b"\r\n0\r\n\r\n"
    )


@pytest.mark.parametrize("announced", [True, False])
def test_whoever_sends_a_large_body_without_looking_is_told_that_it_is_too_large(place, announced):
    """A connection that is closed before all was read is reset, and the answer may be lost."""
    for _ in range(10):
        with socket.create_connection(place) as connection:
            connection.sendall(body_of(12 << 20, announced=announced))
            assert problem(said(connection)) == (413, "urn:shoal:problem:too_large")


def test_what_is_discarded_has_a_bound_and_a_time():
    with server(discard_bytes=1 << 20, discard_seconds=0.5) as place:
        with socket.create_connection(place) as connection:
            head = body_of(0, announced=True).replace(
                b"Content-Length: 0", b"Content-Length: %d" % (1 << 40)
            )
            connection.sendall(head)
            assert sent_until_cut(connection, [bytes(1 << 20)] * 64) < 64
        with socket.create_connection(place) as connection:
            connection.sendall(head)
            assert problem(said(connection))[0] == 413
            assert sent_until_cut(connection, [b"x"] * 40, pause=0.1) < 40


# Many from one address


def connected(place, source):
    connection = socket.socket()
    connection.bind((source, 0))
    connection.connect(place)
    return connection


def get(place, source):
    with closing(HTTPConnection(*place, timeout=60, source_address=(source, 0))) as connection:
        connection.request("GET", "/")
        return connection.getresponse().status


@pytest.mark.parametrize(
    "limits",
    [
        {"connections": 1000, "address_connections": 100},
        pytest.param({}, marks=pytest.mark.slow, id="as a server has them"),
    ],
)
def test_idle_connections_of_one_address_keep_nobody_else_out(limits):
    found = Limits(**limits)
    with server(limit_loopback=True, **limits) as place, ExitStack() as stack:
        tried = range(found.connections + 100)
        idle = [stack.enter_context(connected(place, "127.0.0.2")) for _ in tried]
        assert [get(place, "127.0.0.3") for _ in range(20)] == [200] * 20
        with pytest.raises((ConnectionError, RemoteDisconnected)):
            get(place, "127.0.0.2")
        for connection in idle:
            connection.settimeout(0)
        kept = sum(is_open(connection) for connection in idle)
        assert kept == found.address_connections
        for connection in idle:
            connection.close()
        wait_for(lambda: answers(place, "127.0.0.2"))  # room is given back


def is_open(connection):
    try:
        return connection.recv(1) != b""
    except BlockingIOError:
        return True
    except ConnectionError:
        return False


def answers(place, source):
    try:
        return get(place, source) == 200
    except (ConnectionError, RemoteDisconnected):
        return False


def test_this_machine_is_not_limited_unless_it_is_said():
    with server(address_connections=1) as place, ExitStack() as stack:
        for _ in range(10):
            stack.enter_context(connected(place, "127.0.0.2"))
        assert get(place, "127.0.0.2") == 200
