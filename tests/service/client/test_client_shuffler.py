"""The client and the real shuffler: its application, its store, its worker."""

from __future__ import annotations

import asyncio

import httpx

from client_kit import QUICK, Owner
from service_site import Shuffler
from shoal.randomness import simulated
from shoal.service.client import AsyncClient, Policy, Sent
from shoal.service.shuffler.worker import KeyListFetcher
from shoal.service.survey import Party

PEOPLE = 12


class Lossy(httpx.AsyncBaseTransport):
    """The shuffler's application, nobody else, and a network that loses a third."""

    def __init__(self, app):
        self.app = httpx.ASGITransport(app=app)
        self.randomness = simulated(2)
        self.bodies = []

    async def handle_async_request(self, request):
        assert request.url.host == "shuffler.example"
        reply = await self.app.handle_async_request(request)
        await reply.aread()
        if request.method == "POST":
            self.bodies.append(bytes(await request.aread()))
            if int(self.randomness.below(3, 1)[0]) == 0:
                raise httpx.ReadError("lost", request=request)
        return httpx.Response(reply.status_code, headers=reply.headers, content=reply.content)


async def answered(shuffler, transport, directory):
    policy = Policy(minimum=2)
    async with transport.app.app.router.lifespan_context(transport.app.app):
        for person in range(PEOPLE):
            client = AsyncClient(
                directory / str(person),
                transport=transport,
                clock=shuffler.clock,
                policy=policy,
                settings=QUICK,
            )
            client._sleep = _at_once
            async with client:
                url = f"https://shuffler.example{shuffler.path}"
                assert isinstance(await client.report(url, "car"), Sent)


async def _at_once(_seconds):
    pass


def test_everybody_is_in_the_batch_once(tmp_path):
    analyzer = Owner("analyzer")
    party = Party(url="https://analyzer.example", fingerprint=analyzer.fingerprint)
    shuffler = Shuffler.alone(tmp_path / "shuffler", minimum=PEOPLE, target=PEOPLE, analyzer=party)
    shown = httpx.MockTransport(lambda _request: httpx.Response(200, content=analyzer.document()))
    assert KeyListFetcher(shuffler.store, shuffler.clock, transport=shown).step() == 1
    transport = Lossy(shuffler.app())
    asyncio.run(answered(shuffler, transport, tmp_path / "devices"))
    assert len(transport.bodies) > PEOPLE
    assert len(set(transport.bodies)) == PEOPLE
    shuffler.work()
    (batch,) = shuffler.store.batches.listed(shuffler.survey.id, None)
    assert batch.reports == batch.records == PEOPLE
