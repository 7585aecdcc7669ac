"""The end of a server: what has begun is answered, and only a second Ctrl-C does not wait."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import threading
from contextlib import asynccontextmanager, closing
from functools import partial
from types import SimpleNamespace

import httpx
import pytest
import sqlalchemy as sa
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse
from starlette.routing import Route

import http_kit
from running_kit import wait_for
from shoal.errors import RefusedError
from shoal.service.db.database import Database, StoreId
from shoal.service.db.surveys import Surveys
from shoal.service.errors import StoreUnavailableError
from shoal.service.http.server import address, background, listen
from shoal.service.keyring import Keyring, Protection
from shoal.service.ops import processes
from shoal.service.ops.home import Home
from shoal.service.ops.processes import (
    STORE_TIMEOUT,
    Child,
    Children,
    Settings,
    opened_party,
    stopping,
    wait_for_store,
)
from shoal.service.shuffler.store import ShufflerStore


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
            thread = threading.Thread(target=lambda: said.append(http_kit.get(url)))
            thread.start()
            wait_for(lambda: "begun" in order)
            running.stop()
            thread.join()
        with pytest.raises(httpx.ConnectError):
            http_kit.get(url)
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
        with pytest.raises(RefusedError, match=r"the worker stopped: .*no such directory"):
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
    with pytest.raises(RefusedError, match="publishing took more than 0 s"):
        Children([]).until(lambda: False, 0.0, "publishing")


class NoStore:
    """The store of a party without surveys."""

    def __init__(self, *_parts):
        self.surveys = SimpleNamespace(all=list)


def test_a_database_that_is_not_up_yet_is_waited_for(tmp_path, monkeypatch, caplog):
    home = Home(directory=tmp_path, role="shuffler", store="postgresql+psycopg://db.example/shoal")
    up, up_now = iter([False, False, True]), Database(f"sqlite:///{tmp_path / 'store'}")

    def database(self, *, migrate):
        assert (self, migrate) == (home, True)
        if next(up):
            return up_now
        raise StoreUnavailableError("connecting", "connection refused")

    monkeypatch.setattr(Home, "database", database)
    naps = []
    found = wait_for_store(home, NoStore, None, migrate=True, sleep=naps.append)
    assert found[0] is up_now
    assert len(naps) == 2
    assert [record.message for record in caplog.records] == ["waiting_for_store"] * 2


def test_a_database_that_never_comes_up_is_refused_and_a_file_at_once(tmp_path, monkeypatch):
    def database(_self, *, migrate):
        raise StoreUnavailableError("connecting", f"refused, {migrate}")

    monkeypatch.setattr(Home, "database", database)
    home = Home(directory=tmp_path, role="shuffler", store="postgresql+psycopg://db.example/shoal")
    naps = []
    with pytest.raises(StoreUnavailableError, match="refused"):
        wait_for_store(home, NoStore, None, sleep=naps.append)
    assert sum(naps) == STORE_TIMEOUT
    home = Home(directory=tmp_path, role="shuffler")
    with pytest.raises(StoreUnavailableError, match="refused"):
        wait_for_store(home, NoStore, None, sleep=pytest.fail)


@pytest.mark.parametrize("point", ["settle", "all"])
def test_a_server_that_goes_away_while_a_worker_starts_is_waited_for(
    tmp_path, monkeypatch, caplog, postgres_admin, postgres_url, point
):
    """It was there at the first contact, and is gone at the next."""
    home = Home(directory=tmp_path / "shuffler", role="shuffler", store=postgres_url)
    protection = Protection.none()
    Keyring.create(home.keys, role="shuffler", protection=protection)
    name, naps = sa.make_url(postgres_url).database, []

    def allow(word):
        with postgres_admin.connect() as connection:
            connection.execute(sa.text(f"ALTER DATABASE {name} ALLOW_CONNECTIONS {word}"))
            end = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = :name"
            if word == "false":
                connection.execute(sa.text(end), {"name": name})

    def come_back(seconds):
        naps.append(seconds)
        allow("true")

    kind = {"settle": StoreId, "all": Surveys}[point]
    original = getattr(kind, point)

    def going_away(*given, **options):
        if not naps:
            allow("false")
        return original(*given, **options)

    monkeypatch.setattr(kind, point, going_away)
    monkeypatch.setattr(processes, "wait_for_store", partial(wait_for_store, sleep=come_back))
    settings = Settings(home=home, protection=protection)
    with opened_party(settings, ShufflerStore, "worker") as parts:
        assert parts.store.surveys.all() == []
        parts.store.close()
    assert len(naps) == 1
    assert "waiting_for_store" in [record.message for record in caplog.records]
