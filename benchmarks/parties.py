"""Both parties of a collection, servers as processes whose processor time the system counts."""

from __future__ import annotations

import asyncio
import itertools
import multiprocessing
import os
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path

import numpy as np
from loadtest import Kind, Load, Measured, Target, quick_loop, run
from loadtest import Request as Upload
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from shoal.mechanisms.response import RandomizedResponse
from shoal.questions.kinds import Choice
from shoal.randomness import simulated
from shoal.sealing import SurveyId
from shoal.service.analyzer.store import AnalyzerStore
from shoal.service.client import Keys, seal_many
from shoal.service.clock import system_clock
from shoal.service.db import Database
from shoal.service.http.server import address, listen
from shoal.service.keyring import Keyring, Protection
from shoal.service.opening import Pool, executor
from shoal.service.ops.processes import serve
from shoal.service.shuffler.app import shuffler_app
from shoal.service.shuffler.batches import Transition
from shoal.service.shuffler.store import ShufflerStore
from shoal.service.shuffler.worker import Pace, ShufflerWorker
from shoal.service.survey import Admission, Batches, Item, Open, Party, Survey
from shoal.service.wire import HEADER_BYTES, VERSION, Wire

ANSWERS = 16
PROCESSES = 2
_DAY = 86_400
_READY = 60.0  # seconds for a server to start
_ANYBODY = Open(dishonest=0)
_AS_FAST_AS_IT_CAN = 1e6  # requests a second: each connection sends again at once


# Servers


@dataclass(frozen=True)
class Server:
    """A server in a process of its own."""

    pid: int
    url: str

    @property
    def processor_seconds(self) -> float:
        """What the system has counted for it so far, all of its threads together."""
        return time.clock_gettime((~self.pid << 3) | 2)  # as clock_getcpuclockid(3) has it

    @property
    def megabytes(self) -> float:
        """Its memory."""
        pages = int(Path(f"/proc/{self.pid}/statm").read_text(encoding="ascii").split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE") / 1e6

    def path(self, survey: Survey) -> str:
        """Where reports go."""
        return f"{self.url}/v1/surveys/{survey.id}/reports"


@contextmanager
def server(started: Callable[..., None], *arguments: object) -> Iterator[Server]:
    """One of those below, as a process."""
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    process = context.Process(target=started, args=(theirs, *arguments))
    process.start()
    try:
        if not ours.poll(_READY):
            message = "a server does not start"
            raise RuntimeError(message)
        assert process.pid is not None  # noqa: S101 - it runs
        yield Server(process.pid, ours.recv())
    finally:
        process.terminate()
        process.join()


def shuffler(ready: Connection, directory: Path) -> None:
    """The shuffler, without anything left out."""
    keyring = Keyring.open(directory / "keys", protection=Protection.none())
    database = Database(f"sqlite:///{directory / 'store.sqlite'}")
    store = ShufflerStore(database, directory, system_clock)
    listening = listen("127.0.0.1", 0)
    ready.send(address(listening))
    serve(shuffler_app(store, keyring), listening)


def framework(ready: Connection) -> None:
    """An endpoint of the same framework that reads a body and answers."""

    async def read(request: Request) -> Response:
        body = await request.body()
        return JSONResponse({"bytes": len(body)}, 202)

    listening = listen("127.0.0.1", 0)
    ready.send(address(listening))
    route = Route("/v1/surveys/{survey}/reports", read, methods=["POST"])
    serve(Starlette(routes=[route]), listening)


def protocol(ready: Connection) -> None:
    """No framework either: the least that the server itself can do."""
    start = {
        "type": "http.response.start",
        "status": 202,
        "headers": [(b"content-type", b"application/json"), (b"content-length", b"2")],
    }

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        more = True
        while more:
            more = (await receive())["more_body"]
        await send(start)
        await send({"type": "http.response.body", "body": b"{}"})

    listening = listen("127.0.0.1", 0)
    ready.send(address(listening))
    serve(app, listening)


# Parties


class Parties:
    """The directories, keys and stores of both."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        protection = Protection.none()
        for role in ("shuffler", "analyzer"):
            (directory / role).mkdir(mode=0o700)
        self.shuffler_keys = Keyring.create(
            directory / "shuffler" / "keys", role="shuffler", protection=protection
        )
        self.analyzer_keys = Keyring.create(
            directory / "analyzer" / "keys", role="analyzer", protection=protection
        )
        self._databases = [self._database("shuffler"), self._database("analyzer")]
        self.shuffler = ShufflerStore(self._databases[0], directory / "shuffler", system_clock)
        self.tokens: dict[SurveyId, str] = {}
        self.closed = 0.0  # when the last batch was
        self._advance = self.shuffler.batches.advance
        setattr(self.shuffler.batches, "advance", self._noted)  # noqa: B010 - not for mypy
        self.analyzer = AnalyzerStore(self._databases[1], directory / "analyzer", system_clock)

    def _database(self, role: str) -> Database:
        database = Database(f"sqlite:///{self.directory / role / 'store.sqlite'}", timeout=60)
        database.migrate(role)
        return database

    def _noted(self, *, expire: bool = True) -> list[Transition]:
        transitions = self._advance(expire=expire)
        if transitions:
            self.closed = time.perf_counter()
        return transitions

    def register(self, url: str, people: int, admission: Admission = _ANYBODY) -> Survey:
        """A survey that closes when everybody has answered."""
        now = system_clock()
        keys = {"shuffler": self.shuffler_keys, "analyzer": self.analyzer_keys}
        parties = {
            role: Party(url=url, fingerprint=ring.fingerprint) for role, ring in keys.items()
        }
        survey = Survey(
            name="benchmark",
            purpose="To measure.",
            questions=(
                Item(
                    Choice(
                        "answer",
                        [f"answer {number}" for number in range(ANSWERS)],
                        text="Which?",
                        missing="refuse",
                    ),
                    RandomizedResponse(k=ANSWERS, epsilon=3.0),
                ),
            ),
            batches=Batches(minimum=people // 2, target=people, max_age=_DAY),
            epsilon=1.0,
            delta=1e-6,
            admission=admission,
            not_before=now - _DAY,
            not_after=now + _DAY,
            shuffler=parties["shuffler"],
            analyzer=parties["analyzer"],
        )
        self.shuffler.surveys.add(survey)
        self.analyzer.surveys.add(survey)
        self.tokens[survey.id] = self.shuffler.tokens.add("benchmark", survey.id, _DAY)
        return survey

    def worker(self, pool: Pool) -> ShufflerWorker:
        """A worker on the shuffler's store."""
        return ShufflerWorker(
            self.shuffler, self.shuffler_keys, pool, pace=Pace(upkeep=3600, gather=0)
        )

    def close(self) -> None:
        """Let go of the files."""
        self.shuffler.close()
        for database in self._databases:
            database.close()


# Reports


def sealed(survey: Survey, parties: Parties, people: int) -> list[bytes]:
    """Everybody's report, really sealed."""
    now = system_clock()
    keys = Keys(
        parties.analyzer_keys.list().current(survey.suite, now),
        parties.shuffler_keys.list().current(survey.suite, now),
    )
    values = simulated(1).below(ANSWERS, people).astype(np.int64)
    with executor(PROCESSES) as pool:
        return seal_many(survey, values, keys, pool=pool)


_serial = itertools.count(1)


def forged(survey: Survey, count: int) -> list[bytes]:
    """Reports that look right and open nowhere; never the same twice."""
    size = Wire.of(survey).report_bytes
    words = simulated(next(_serial)).words(-(-count * size // 8))
    table = words.view(np.uint8)[: count * size].reshape(count, size).copy()
    table[:, :HEADER_BYTES] = VERSION, 0
    return [row.tobytes() for row in table]


def posted(
    url: str, bodies: Sequence[bytes], *, connections: int, rate: float = _AS_FAST_AS_IT_CAN
) -> Measured:
    """Post them all, as fast as it goes unless told otherwise; every one has to be kept."""
    (found,) = posted_together([(url, "forged", bodies, connections, rate)])
    return found


def posted_together(
    streams: Sequence[tuple[str, Kind, Sequence[bytes], int, float]],
) -> list[Measured]:
    """Several streams at once: where to, what kind, bodies, connections and rate of each."""

    async def one(
        url: str, kind: Kind, bodies: Sequence[bytes], connections: int, rate: float
    ) -> Measured:
        load = Load(rate=rate, connections=connections, patience=300.0)
        requests = (Upload(kind, body) for body in bodies)
        return await run(Target.of(url, len(bodies[0])), requests, load)

    async def all_of_them() -> list[Measured]:
        return await asyncio.gather(*(one(*stream) for stream in streams))

    with asyncio.Runner(loop_factory=quick_loop()) as runner:
        found = runner.run(all_of_them())
    for measured in found:
        if measured.errors:
            raise RuntimeError(dict(measured.statuses))
    return found
