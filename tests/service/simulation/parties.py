"""A shuffler and an analyzer that can die, and a line between them that loses things.

Everything is real but the clocks and the network: stores on disk, keys, sealed reports, the HTTP
application. Nothing of a party survives its death but its directory and its database.
"""

from __future__ import annotations

import asyncio
import os
import shutil
from collections import deque
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace

import httpx
import sqlalchemy as sa

from factories import DAY, example
from http_kit import BYTES
from service_site import HOUR, ROLES, START, Analyzer, Shuffler
from shoal.mechanisms.response import RandomizedResponse
from shoal.service import failpoints
from shoal.service.analyzer.source import HttpSource
from shoal.service.clock import ManualClock
from shoal.service.keyring import KeyList, Schedule
from shoal.service.shuffler.worker import KeyListFetcher
from shoal.service.survey import Batches
from shoal.service.wire import Wire

ADDRESS = "https://shuffler.example"
MAX_AGE = 6 * HOUR
# Short lives, so that keys are replaced and deleted within a simulated week or two.
SCHEDULE = Schedule(pending=HOUR, active=4 * DAY, expired=2 * DAY)
OK, BEFORE, AFTER, HALF = "ok", "before", "after", "half"


class Killed(BaseException):
    """A party died here; nothing in it may stop that."""


class KilledInRequest(Exception):  # noqa: N818 - no error of anybody
    """A party died while it answered, in a thread that others wait for."""


@contextmanager
def dying(point):
    """Whoever gets to this point does not get any further."""

    def kill(*_):
        raise KilledInRequest if point.startswith(("intake.", "release.")) else Killed

    system = failpoints.os
    failpoints._target, failpoints._left = failpoints._parsed(point)
    failpoints.os = SimpleNamespace(kill=kill, getpid=os.getpid)
    try:
        yield
    finally:
        failpoints._target, failpoints._left, failpoints.os = "", 0, system


class ShufflerParty(Shuffler):
    """A running shuffler: store, keys, application, worker."""

    def __init__(self, directory, url, clock, runner, analyzer_keys):
        super().__init__(directory, clock, url=url, migrate=False)
        self._runner = runner
        app = self.app(address_rate=None)
        self.working = self.worker(upkeep=60)
        shown = httpx.MockTransport(lambda _: httpx.Response(200, content=analyzer_keys()))
        self._fetcher = KeyListFetcher(self.store, clock, transport=shown)
        self._life = app.router.lifespan_context(app)
        runner.run(self._life.__aenter__())
        self._transport = httpx.ASGITransport(app=app)

    def step(self):
        """One unit of work of every kind."""
        copied = self._fetcher.step()
        return self.working.step() or bool(copied)

    def analyzer_keys(self, survey):
        """The analyzer's list that everybody has from here."""
        document = self.store.key_lists.find(survey.analyzer.fingerprint).document
        return KeyList.verified(
            document, fingerprint=survey.analyzer.fingerprint, now=self.clock(), role="analyzer"
        )

    def answer(self, request):
        """What the application answers, whole."""

        async def ask():
            response = await self._transport.handle_async_request(request)
            body = b"".join([part async for part in response.stream])
            return response.status_code, response.headers, body

        return self._runner.run(ask())

    def gone(self):
        """Nothing of it is left in this process. Nothing is finished either: nobody waits."""
        self._runner.run(self._life.__aexit__(None, None, None))
        self.database.close()


class AnalyzerParty(Analyzer):
    """A running analyzer: store, keys, worker, reaching the shuffler over a line."""

    def __init__(self, directory, url, clock, reach):
        super().__init__(directory, clock, url=url, migrate=False)
        self.working = self.worker(reach)

    def step(self):
        """One pass over everything."""
        return self.working.step()

    def gone(self):
        """Nothing of it is left in this process; what it had leased is leased still."""
        self.working.close()
        self.database.close()


class Line(httpx.BaseTransport, httpx.AsyncBaseTransport):
    """The network between everybody and the shuffler.

    ``faults`` are used up one a request: the request is lost (before), the answer is lost (after),
    or half of the answer (half). What was released of a batch is kept, to be compared.
    """

    def __init__(self):
        self.shuffler = None
        self.faults = deque()
        self.killed = False

    async def handle_async_request(self, request):
        # In a thread: the shuffler answers in a loop of its own.
        return await asyncio.to_thread(self.handle_request, request)

    def handle_request(self, request):
        fault = self.faults.popleft() if self.faults else OK
        if fault == BEFORE or self.killed:
            raise httpx.ConnectError("lost")
        try:
            status, headers, body = self.shuffler.answer(request)
        except KilledInRequest:
            self.killed = True
            raise httpx.ReadError("died") from None
        if fault == AFTER:
            raise httpx.ReadError("lost")
        if fault == HALF:
            return httpx.Response(status, headers=headers, stream=_Torn(body))
        return httpx.Response(status, headers=headers, stream=httpx.ByteStream(body))


class _Torn(httpx.SyncByteStream, httpx.AsyncByteStream):
    def __init__(self, body):
        self._body = body

    def __iter__(self):
        yield self._body[: len(self._body) // 2]
        raise httpx.ReadError("torn")

    async def __aiter__(self):
        for piece in self:
            yield piece


def survey_of(name, fingerprints, *, k, minimum, target, small="carry", epsilon=1.0):
    """A survey in which everybody has an answer of their own."""
    return example(
        RandomizedResponse(k=k, epsilon=epsilon),
        name=name,
        answers=tuple(str(number) for number in range(k)),
        batches=Batches(minimum=minimum, target=target, max_age=MAX_AGE, small=small),
        epsilon=epsilon + 0.01,
        opens=START - 100 * DAY,
        days=220,
        **fingerprints,
    )


@dataclass
class Place:
    """A directory and the addresses of two databases."""

    directory: Path
    urls: dict[str, str]

    def of(self, role):
        return self.directory / role


class Beginning:
    """Two parties with keys and surveys and nothing else: made once, copied for everybody.

    ``make`` makes surveys of the parties' fingerprints. ``admin`` is an engine of a PostgreSQL
    server, or None for SQLite.
    """

    def __init__(self, directory, make, admin=None):
        self._admin = admin
        self._copies = 0
        self._name = f"shoal_{os.getpid()}_{id(self)}"
        self.place = Place(directory, self._urls(directory, "beginning"))
        halves = {kind.role: self._made(kind) for kind in (Shuffler, Analyzer)}
        self.surveys = make({role: half.keyring.fingerprint for role, half in halves.items()})
        self.wires = [Wire.of(survey) for survey in self.surveys]
        for half in halves.values():
            for survey in self.surveys:
                half.store.surveys.add(survey)
        tokens = halves["shuffler"].store.tokens
        names = [survey.id for survey in self.surveys]
        self.tokens = {name: tokens.add("analyzer", name, 1000 * DAY) for name in names}
        for half in halves.values():
            half.close()

    def _made(self, kind):
        if self._admin is not None:
            self._execute(f"CREATE DATABASE {self._database('beginning', kind.role)}")
        place, url = self.place.of(kind.role), self.place.urls[kind.role]
        return kind(place, ManualClock(START), url=url, schedule=SCHEDULE)

    def _urls(self, directory, name):
        if self._admin is None:
            return {role: f"sqlite:///{directory / role / 'store.sqlite'}" for role in ROLES}
        return {
            role: self._admin.url.set(database=self._database(name, role)).render_as_string(
                hide_password=False
            )
            for role in ROLES
        }

    def _database(self, name, role):
        return f"{self._name}_{name}_{role}"

    def _execute(self, text):
        with self._admin.connect() as connection:
            connection.execute(sa.text(text))

    @contextmanager
    def copied(self, directory):
        """The same parties again, in a directory that is not there yet."""
        self._copies += 1
        name = f"copy{self._copies}"
        shutil.copytree(self.place.directory, directory)
        place = Place(Path(directory), self._urls(Path(directory), name))
        if self._admin is not None:
            for role in ROLES:
                first, copy = (self._database(each, role) for each in ("beginning", name))
                self._execute(f"CREATE DATABASE {copy} TEMPLATE {first}")
        try:
            yield place
        finally:
            shutil.rmtree(directory)
            if self._admin is not None:
                for role in ROLES:
                    self._execute(f"DROP DATABASE {self._database(name, role)} WITH (FORCE)")


class World:
    """Both parties, alive or about to be so again, and the line between them."""

    def __init__(self, place, tokens, now=START):
        self.place, self._tokens = place, tokens
        self.clocks = {role: ManualClock(now) for role in ROLES}
        self.line = Line()
        self._runner = asyncio.Runner()
        self.shuffler = self.analyzer = None
        self.revive("analyzer")
        self.revive("shuffler")
        self.people = httpx.Client(base_url=ADDRESS, transport=self.line, trust_env=False)

    def revive(self, role):
        """A party comes back with what is on its disk, dead or not."""
        directory, url, clock = self.place.of(role), self.place.urls[role], self.clocks[role]
        if role == "shuffler":
            if self.shuffler is not None:
                self.shuffler.gone()
            self.shuffler = ShufflerParty(directory, url, clock, self._runner, self._analyzer_keys)
            self.line.shuffler, self.line.killed = self.shuffler, False
        else:
            if self.analyzer is not None:
                self.analyzer.gone()
            self.analyzer = AnalyzerParty(directory, url, clock, self.source)

    def _analyzer_keys(self):
        return self.analyzer.keyring.list().to_bytes()

    def source(self, survey):
        token = self._tokens[survey.id]
        return HttpSource(ADDRESS, survey.id, lambda: token, transport=self.line)

    def upload(self, survey, body):
        """The answer to an upload; None if there was none."""
        try:
            return self.people.post(f"/v1/surveys/{survey.id}/reports", content=body, headers=BYTES)
        except httpx.TransportError:
            return None

    def fetch(self, survey, batch, request):
        """The answer to somebody who asks for a batch under this name."""
        headers = {
            "Authorization": f"Bearer {self._tokens[survey.id]}",
            "Shoal-Request": request,
        }
        return self.people.get(f"/v1/surveys/{survey.id}/batches/{batch}", headers=headers)

    def advance(self, seconds, roles=ROLES):
        for role in roles:
            self.clocks[role].advance(seconds)

    def work(self, most=50):
        """Let both parties work until there is nothing to do."""
        for _ in range(most):
            busy = [self.shuffler.step(), self.analyzer.step()]
            if not any(busy):
                return
        message = "there is always something to do"
        raise AssertionError(message)

    def close(self):
        self.people.close()
        self.analyzer.gone()
        self.shuffler.gone()
        self._runner.close()
