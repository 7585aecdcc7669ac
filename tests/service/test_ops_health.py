"""Ready or not: the clock, the disk, and what the public may know of it."""

from __future__ import annotations

import asyncio
import shutil
import threading

import httpx
import pytest
from anyio.to_thread import current_default_thread_limiter
from starlette.applications import Starlette

from http_kit import ask
from shoal.service.errors import StoreUnavailableError
from shoal.service.ops import health
from shoal.service.ops.health import (
    Examination,
    Fact,
    Readiness,
    State,
    Steadiness,
    disk,
    fail,
    ok,
    warn,
)
from shoal.service.ops.metrics import WithHealth

NOW = 1_800_000_000


@pytest.fixture
def fresh(monkeypatch):
    """What was found stays true as long as a test takes."""
    monkeypatch.setattr(health, "_FRESH", 3600.0)


@pytest.mark.parametrize("jump", [-86_400, 86_400, 301])
def test_a_clock_that_was_set_is_noticed(jump):
    wall, steady = [NOW], [100.0]
    clock = Steadiness(lambda: wall[0], lambda: steady[0])
    wall[0] += 3600
    steady[0] += 3600
    assert clock.check().state is State.OK
    assert clock.is_steady()
    wall[0] += jump
    found = clock.check()
    assert found.state is State.FAIL
    assert not clock.is_steady()
    assert f"{jump:+d} s" in found.detail


def test_a_clock_that_lies_in_the_past_is_noticed():
    assert Steadiness(lambda: 3600, lambda: 0.0).check().state is State.FAIL


@pytest.mark.parametrize(
    ("free", "state"), [(10 << 20, State.FAIL), (500 << 20, State.WARN), (5 << 30, State.OK)]
)
def test_the_disk_needs_room(tmp_path, monkeypatch, free, state):
    usage = shutil.disk_usage(tmp_path)._replace(free=free)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage)
    assert disk(tmp_path).state is state


def test_a_check_that_cannot_look_has_failed(tmp_path):
    def gone():
        raise StoreUnavailableError("reading", "no such server")

    (found,) = Fact("store", gone, "start it").findings()
    assert (found.state, found.advice, found.stops) == (State.FAIL, "start it", True)
    assert "no such server" in found.detail
    (missing,) = Fact("disk", lambda: [disk(tmp_path / "none")], "mount it").findings()
    assert missing.state is State.FAIL


def test_the_worst_decides():
    def worst(*findings):
        return Examination({"a": [], "b": list(findings)}).state

    assert worst() is State.OK
    assert worst(ok("a", ""), warn("b", "", "")) is State.WARN
    assert worst(warn("b", "", ""), fail("c", "", ""), ok("a", "")) is State.FAIL


@pytest.mark.usefixtures("fresh")
def test_the_public_is_told_no_reasons_and_costs_nothing():
    looked = []

    def check():
        looked.append(1)
        return fail("store", "secret detail", "secret advice", stops=True)

    app = WithHealth(Starlette(), Readiness([Fact("store", lambda: [check()])]))
    answers = [ask(app, "/readyz") for _ in range(20)]
    assert {answer.status_code for answer in answers} == {503}
    assert answers[0].json()["type"] == "urn:shoal:problem:not_in_order"
    assert "secret" not in answers[0].text
    assert len(looked) == 1
    assert ask(app, "/healthz").status_code == 200
    assert ask(app, "/elsewhere").status_code == 404


@pytest.mark.usefixtures("fresh")
def test_one_thread_looks_for_all_who_ask():
    """A database that hangs must not take the threads that serve keys."""
    slow, looking = threading.Event(), []

    def check():
        looking.append(threading.get_ident())
        slow.wait(120)
        return ok("store", "there")

    app = WithHealth(Starlette(), Readiness([Fact("store", lambda: [check()])]), timeout=0.2)

    async def ask():
        transport = httpx.ASGITransport(app=app)
        async with httpx.AsyncClient(transport=transport, base_url="http://test") as client:
            many = await asyncio.gather(*(client.get("/readyz") for _ in range(100)))
            busy = current_default_thread_limiter().borrowed_tokens
            slow.set()
            await app._looking
            app._timeout = 60
            return many, busy, await client.get("/readyz")

    many, busy, answer = asyncio.run(ask())
    assert {found.status_code for found in many} == {503}
    assert many[0].headers["retry-after"] == "10"
    assert (len(looking), busy) == (1, 1)
    assert answer.json() == {"status": "ready"}


def test_nobody_waits_for_a_check_that_takes_its_time():
    slow, looks, again = threading.Event(), [], threading.Event()

    def check():
        looks.append(1)
        if len(looks) > 1:
            again.set()
            assert slow.wait(60), "somebody waits for what nobody ends"
        return ok("store", "there")

    readiness = Readiness([Fact("store", lambda: [check()])])
    assert readiness.findings()[0].state is State.OK
    readiness._until = 0.0
    looking = threading.Thread(target=readiness.findings)
    looking.start()
    assert again.wait(60)
    assert [readiness.findings()[0].state for _ in range(50)] == [State.OK] * 50
    slow.set()
    looking.join()
