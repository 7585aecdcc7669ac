"""The end of a server: what has begun is answered, and only a second Ctrl-C does not wait."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import threading
from contextlib import asynccontextmanager, closing

import httpx
import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse
from starlette.routing import Route

from running_kit import wait_for
from shoal.service.errors import StoreUnavailableError
from shoal.service.http.server import address, background, listen
from shoal.service.ops.home import Home
from shoal.service.ops.processes import (
    STORE_TIMEOUT,
    Child,
    ChildFailedError,
    Children,
    TooSlowError,
    stopping,
    wait_for_database,
)


def test_a_request_that_has_begun_is_answered_and_the_application_closes_after_it():
    order = []

    async def slow(_request: Request) -> PlainTextResponse:
        order.append("begun")
        await asyncio.sleep(0.3)
        order.append("answered")
        return PlainTextResponse("done")

    app = Starlette(routes=[Route("/", slow)], lifespan=_noted(order))
    said = []
    with listen("127.0.0.1", 0) as opened:
        url = address(opened)
        with background(app, opened) as running:
            thread = threading.Thread(target=lambda: said.append(httpx.get(url)))
            thread.start()
            wait_for(lambda: "begun" in order)
            running.stop()
            thread.join()
        with pytest.raises(httpx.ConnectError):
            httpx.get(url)
    assert said[0].text == "done"
    assert "server" not in said[0].headers
    assert order == ["open", "begun", "answered", "closed"]


def _noted(order):
    @asynccontextmanager
    async def lifespan(_app):
        order.append("open")
        yield
        order.append("closed")

    return lifespan


def test_only_a_second_interrupt_asks_twice():
    asked = []
    before = signal.getsignal(signal.SIGTERM)
    with stopping(lambda: asked.append(1)):
        for number in (signal.SIGTERM, signal.SIGTERM, signal.SIGTERM):
            os.kill(os.getpid(), number)
        assert len(asked) == 1
        os.kill(os.getpid(), signal.SIGINT)
        assert len(asked) == 2
    assert signal.getsignal(signal.SIGTERM) is before


def test_a_child_that_is_refused_says_why(tmp_path):
    child = Child("worker", ["serve", "worker", str(tmp_path / "none")])
    with closing(Children([child])) as children:
        child.process.wait(60)
        with pytest.raises(ChildFailedError, match=r"the worker stopped: .*no such directory"):
            children.check()


def test_a_child_that_writes_a_lot_is_not_held_up(monkeypatch):
    """A pipe that nobody reads takes 64 KiB."""
    text = "import sys; sys.stderr.write('x' * 300_000 + chr(10) + 'error: the last line')"
    start = subprocess.Popen
    monkeypatch.setattr(
        subprocess,
        "Popen",
        lambda _words, **options: start([sys.executable, "-c", text], **options),
    )
    child = Child("worker", [])
    child.start()
    try:
        assert child.process.wait(60) == 0
        assert child.last_line() == "the last line"
    finally:
        child.process.kill()
        child.process.wait()
        child.close()


def test_waiting_ends():
    with pytest.raises(TooSlowError, match="publishing took more than 0 s"):
        Children([]).until(lambda: False, 0.0, "publishing")


def test_a_database_that_is_not_up_yet_is_waited_for(tmp_path, monkeypatch, caplog):
    home = Home(directory=tmp_path, role="shuffler", store="postgresql+psycopg://db.example/shoal")
    up = iter([False, False, True])

    def database(self, *, migrate):
        assert (self, migrate) == (home, True)
        if next(up):
            return "up"
        raise StoreUnavailableError("connecting", "connection refused")

    monkeypatch.setattr(Home, "database", database)
    naps = []
    assert wait_for_database(home, migrate=True, sleep=naps.append) == "up"
    assert len(naps) == 2
    assert [record.message for record in caplog.records] == ["waiting_for_store"] * 2


def test_a_database_that_never_comes_up_is_refused_and_a_file_at_once(tmp_path, monkeypatch):
    def database(_self, *, migrate):
        raise StoreUnavailableError("connecting", f"refused, {migrate}")

    monkeypatch.setattr(Home, "database", database)
    home = Home(directory=tmp_path, role="shuffler", store="postgresql+psycopg://db.example/shoal")
    naps = []
    with pytest.raises(StoreUnavailableError, match="refused"):
        wait_for_database(home, sleep=naps.append)
    assert sum(naps) == STORE_TIMEOUT
    with pytest.raises(StoreUnavailableError, match="refused"):
        wait_for_database(Home(directory=tmp_path, role="shuffler"), sleep=pytest.fail)
