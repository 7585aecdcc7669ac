"""Bodies as the network brings them: against a real server, mostly with bytes written by hand."""

from __future__ import annotations

import json
import socket
from contextlib import contextmanager
from time import monotonic

import pytest
from starlette.responses import Response
from starlette.routing import Route

import http_kit
from http_kit import BYTES, serving, talk
from shoal.service.http import requests
from shoal.service.http.limits import Limits, Room
from shoal.service.http.openapi import Application

LIMIT = 1000
SECONDS = 0.4  # of an impatient one
HEAD = b"POST / HTTP/1.1\r\nHost: x\r\nContent-Type: application/octet-stream\r\n"


@contextmanager
def echo(seen, room=None, seconds=60):
    """Answers with the length of what it read; ``seen`` gets everything that is refused."""

    async def upload(request):
        requests.expect(request.headers.raw, "application/octet-stream", limit=LIMIT)
        with (room or Room(Limits())).entered() as hold:
            body = await requests.read(request.receive, limit=LIMIT, seconds=seconds, hold=hold)
        return Response(str(len(body)))

    async def record(request):
        found = await requests.read_record(request, limit=LIMIT, seconds=seconds)
        return Response(json.dumps(found))

    app = Application(
        {"paths": {}},
        None,
        pages=[
            Route("/", upload, methods=["POST"]),
            Route("/record", record, methods=["POST"]),
        ],
        observe=lambda *given: seen.append(given[2]),
    )
    with serving(app) as url:
        yield url


@pytest.fixture(scope="module")
def seen():
    return []


@pytest.fixture(scope="module")
def url(seen):
    with echo(seen) as address:
        yield address


def problem(answer):
    head, _, body = answer.partition(b"\r\n\r\n")
    status = int(head.split(b" ", 2)[1])
    assert b"application/problem+json" in head
    return status, json.loads(body)["type"].rpartition(":")[2]


def chunked(*pieces):
    return [
        HEAD + b"Transfer-Encoding: chunked\r\nConnection: close\r\n\r\n",
        *(b"%x\r\n%s\r\n" % (len(piece), piece) for piece in pieces),
        b"0\r\n\r\n",
    ]


def test_a_body_in_pieces_arrives_whole(url):
    assert talk(url, chunked(b"a" * 300, b"b" * 300)).endswith(b"600")
    at_once = HEAD + b"Connection: close\r\nContent-Length: 5\r\n\r\nhello"
    assert talk(url, at_once).endswith(b"\r\n\r\n5")


def test_an_announced_length_is_refused_before_the_body_is_sent():
    with echo([], seconds=600) as url:  # who waited for the body would wait for longer than we do
        answer = talk(url, HEAD + b"Content-Length: 1001\r\n\r\n")
    assert problem(answer) == (413, "too_large")
    assert b"connection: close" in answer.lower()


def test_a_body_that_does_not_come_is_not_waited_for():
    began = monotonic()
    with echo([], seconds=SECONDS) as url:
        assert problem(talk(url, HEAD + b"Content-Length: 10\r\n\r\nabc")) == (408, "too_slow")
    assert monotonic() - began >= SECONDS


def test_drops_of_a_body_do_not_keep_the_line_open():
    drops = [HEAD + b"Content-Length: 500\r\n\r\n", *[b"x"] * 500]
    with echo([], seconds=SECONDS) as url:
        assert problem(talk(url, drops, pause=0.02)) == (408, "too_slow")


@pytest.mark.parametrize("length", [b"-5", b"abc", b"5, 5", b"1e3", b"99999999999999999999", b""])
def test_lengths_that_are_none(url, length):
    answer = talk(url, HEAD + b"Content-Length: " + length + b"\r\n\r\nhello")
    assert answer.startswith((b"HTTP/1.1 400", b"HTTP/1.1 413"))


def test_two_lengths_at_once_are_refused(url):
    both = HEAD + b"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n"
    assert talk(url, both).startswith(b"HTTP/1.1 400")


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"Content-Type": "text/plain"},
        {"Content-Type": "application/octet-stream-x"},
        BYTES | {"Content-Encoding": "gzip"},
    ],
)
def test_other_types_are_refused(url, headers):
    answer = http_kit.post(url, content=b"hello", headers=headers)
    assert answer.status_code == 415
    assert "application/octet-stream" in answer.json()["detail"]


def test_parameters_and_case_of_a_type_do_not_matter(url):
    headers = {"Content-Type": "Application/Octet-Stream; charset=x"}
    assert http_kit.post(url, content=b"hello", headers=headers).text == "5"


def test_who_hangs_up_is_noticed_and_nothing_breaks(url, seen):
    host, port = url.removeprefix("http://").split(":")
    with socket.create_connection((host, int(port))) as connection:
        connection.sendall(HEAD + b"Content-Length: 10\r\n\r\nabc")
    until = monotonic() + 60
    while "broken_off" not in seen:
        assert monotonic() < until
        http_kit.post(url, content=b"hello", headers=BYTES)


def test_all_together_hold_no_more_than_there_is_room_for():
    room = Room(Limits(waiting_bytes=700))
    refused = []
    with echo(refused, room, seconds=60) as url:
        host, port = url.removeprefix("http://").split(":")
        with socket.create_connection((host, int(port))) as slow:
            slow.sendall(HEAD + b"Content-Length: 600\r\n\r\n" + b"x" * 500)
            until = monotonic() + 60
            while room.share == 0:
                assert monotonic() < until
            answer = http_kit.post(url, content=b"y" * 300, headers=BYTES)
            assert answer.status_code == 503
            assert answer.headers["retry-after"]
            assert http_kit.post(url, content=b"y" * 100, headers=BYTES).status_code == 200
            slow.sendall(b"x" * 100)
            assert slow.recv(4096).startswith(b"HTTP/1.1 200")
        assert http_kit.post(url, content=b"y" * 600, headers=BYTES).status_code == 200
    assert room.share == 0
    assert refused == ["busy"]


@pytest.mark.parametrize("body", [b"", b"[]", b'{"a": 1}', b"\xff", b"[" * 900, b'"a"', b"null"])
def test_records_are_objects_of_texts(url, body):
    answer = http_kit.post(
        f"{url}/record", content=body, headers={"Content-Type": "application/json"}
    )
    assert answer.status_code == 400
    assert answer.json()["type"].endswith("malformed")


def test_a_record_is_read(url):
    answer = http_kit.post(f"{url}/record", json={"a": "b"})
    assert answer.json() == {"a": "b"}
