"""What comes back from the network, whatever it is, leaves the client in order."""

from __future__ import annotations

import asyncio
import gzip
import json
import sqlite3

import httpx
import pytest

from client_kit import NOW, Services, make_survey, manual_clock
from shoal.service.client import AsyncClient, Client, Queued, Sent, Settings
from shoal.service.client import client as client_module
from shoal.service.client.outbox import FILE, Ledger, Spent
from shoal.service.client.protocol import Receipt, Request, Response, Retry, read_receipt

ONCE = Settings(tries=1)


def reported(kind, services, directory, settings=ONCE):
    """One report, by either client."""
    options = {"settings": settings, "clock": manual_clock()}
    if kind is Client:
        with Client(directory, transport=services.transport, **options) as client:
            return client.report(services.survey, "red")

    async def run():
        async with AsyncClient(directory, transport=services.transport, **options) as client:
            return await client.report(services.survey, "red")

    return asyncio.run(run())


def reports_path(services):
    return "shuffler", f"/v1/surveys/{services.survey.id}/reports"


@pytest.mark.parametrize("kind", [Client, AsyncClient])
def test_a_compressed_answer_is_not_inflated(tmp_path, kind):
    services = Services(make_survey())
    answer = gzip.compress(b"0" * (64 << 20))
    services.answers[reports_path(services)] = lambda _request: httpx.Response(
        202,
        headers={"content-encoding": "gzip"},
        stream=httpx.ByteStream(answer),
    )
    found = reported(kind, services, tmp_path)
    assert isinstance(found, Queued)
    assert "compressed" in found.reason


class Dripping(httpx.SyncByteStream, httpx.AsyncByteStream):
    """An answer without an end, a byte at a time."""

    def __init__(self, tick):
        self.tick, self.sent = tick, 0

    def __iter__(self):
        while self.sent < 1000:
            self.tick()
            self.sent += 1
            yield b" "

    async def __aiter__(self):
        while self.sent < 1000:
            self.tick()
            await asyncio.sleep(0)
            self.sent += 1
            yield b" "


@pytest.mark.parametrize("kind", [Client, AsyncClient])
def test_an_answer_that_drips_is_given_up(tmp_path, monkeypatch, kind):
    services = Services(make_survey())
    passed, monotonic = [0.0], client_module.time.monotonic
    monkeypatch.setattr(client_module.time, "monotonic", lambda: monotonic() + passed[0])

    def tick():
        passed[0] += 30.0

    stream = Dripping(tick)
    services.answers[reports_path(services)] = lambda _request: httpx.Response(202, stream=stream)
    found = reported(kind, services, tmp_path, Settings(tries=1, timeout=60.0))
    assert "takes too long" in found.reason
    assert stream.sent < 100


@pytest.mark.parametrize("kind", [Client, AsyncClient])
@pytest.mark.parametrize("url", ["https://1.2.3.400/x", "https://xn--a/x"])
def test_an_address_that_cannot_be_asked_is_no_answer(tmp_path, kind, url):
    """Nothing was sent, and it is known that nothing was."""

    def silence():
        if kind is Client:
            with Client(tmp_path) as client:
                return client._perform(Request(url, b"body"))

        async def run():
            async with AsyncClient(tmp_path) as client:
                return await client._perform(Request(url, b"body"))

        return asyncio.run(run())

    found = silence()
    assert found.unsent
    assert "cannot be asked" in found.reason


def test_what_breaks_on_the_way_may_have_arrived(tmp_path):
    services = Services(make_survey())

    def broken(_request):
        raise ValueError("from below")

    services.answers[reports_path(services)] = broken
    with Client(
        tmp_path, transport=services.transport, clock=manual_clock(), settings=ONCE
    ) as client:
        assert "ValueError" in client.report(services.survey, "red").reason
        row = client._protocol.outbox.row(client._protocol.outbox.waiting(due=None)[0][0])
    assert row.doubt == 1


def test_a_report_that_cannot_go_does_not_stop_the_others(tmp_path):
    services = Services(make_survey())
    clock = manual_clock()
    with Client(tmp_path, transport=services.transport, clock=clock, settings=ONCE) as client:
        for name in ("first", "second"):
            services.__init__(make_survey(name=name))
            services.lost_requests = 1.0
            client._http = httpx.Client(transport=services.transport)
            assert isinstance(client.report(services.survey, "red"), Queued)
        database = sqlite3.connect(tmp_path / FILE)
        route = b"not a route"
        database.execute("UPDATE surveys SET route = ? WHERE name = 'first'", (route,))
        database.commit()
        database.close()
        services.lost_requests = 0.0
        found = client.flush(everything=True)
        assert (found.sent, found.waiting) == (1, 1)
        assert any("malformed" in reason for reason in found.reasons)
        assert isinstance(client.report(services.survey, "red"), Sent)
    assert clock() == NOW


@pytest.mark.parametrize(
    "document",
    [
        {"reports": True, "refused": []},
        {"reports": 1.0, "refused": []},
        {"reports": 1, "refused": [{"index": False, "reason": "odd"}]},
    ],
)
def test_a_count_is_a_whole_number(document):
    body = json.dumps(document).encode()
    with pytest.raises(Retry):
        read_receipt(Response(202, {}, body), 1)
    plain = json.dumps({"reports": 1, "refused": []}).encode()
    assert read_receipt(Response(202, {}, plain), 1) == Receipt((), ())


def test_the_ledger_is_rounded_up():
    rows = [
        Spent(
            survey="0" * 64,
            name=name,
            epsilon=0.148672,
            delta=1e-6,
            local_epsilon=1.00001,
            occasions=1,
            allowed=1,
            waiting=0,
        )
        for name in ("one", "two")
    ]
    lines = str(Ledger(tuple(rows))).splitlines()
    assert lines[1].split() == ["one", "0.14868", "1e-6", "1.0001", "1", "of", "1", "0"]
    assert lines[3].split()[3:] == ["0.29735", "2e-6", "2.0001"]  # 0.297344, 2.00002
