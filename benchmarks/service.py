"""The collection service: reports in, batches mixed, results out; beside a server that only reads.

The shuffler's server is a process of its own, whose processor time the system counts. Beside it
runs an endpoint of the same framework that reads a body and answers: what HTTP in Python costs
before anything is checked, deduplicated or stored. Reports are really sealed, once for all of it.
"""

from __future__ import annotations

import itertools
import multiprocessing
import os
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path

import httpx
import numpy as np
import opening
from result import Result
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from shoal.randomizers.response import RandomizedResponse
from shoal.randomness import simulated
from shoal.service.analyzer.http_source import HttpSource
from shoal.service.analyzer.store import AnalyzerStore
from shoal.service.analyzer.worker import AnalyzerWorker
from shoal.service.client import Keys, seal_many
from shoal.service.clock import system_clock
from shoal.service.keyring import Keyring, Protection
from shoal.service.opening import Pool
from shoal.service.running.server import address, listen, serve
from shoal.service.shuffler.app import shuffler_app
from shoal.service.shuffler.worker import Pace, ShufflerWorker
from shoal.service.store import Database, ShufflerStore, Transition
from shoal.service.survey import Batches, Party, Survey
from shoal.service.wire import Wire

PEOPLE = 100_000
ANSWERS = 16
IN_ONE_POST = 1000
SINGLES = 3000
CONNECTIONS = 32  # that single reports come on
COMPARED = 400  # duplicates, and as many fresh reports
PROCESSES = 2
LEAST_INGEST = 60.0  # thousand reports a processor second, durable and deduplicated
LONGEST = 60.0  # seconds from a closed batch to its published result
LARGEST_GROWTH = 64.0  # MB under a flood
_HEADERS = {"Content-Type": "application/octet-stream"}
_DAY = 86_400
_READY = 60.0  # seconds for a server to start


def everything() -> Iterator[Result]:
    """Opening and mixing by themselves, then the whole way."""
    yield from opening.everything()
    with tempfile.TemporaryDirectory() as name, ExitStack() as stack:
        parties = _Parties(Path(name))
        stack.callback(parties.close)
        shuffler = stack.enter_context(_server(_shuffler, parties.directory / "shuffler"))
        bare = stack.enter_context(_server(_bare))
        survey = parties.register(shuffler.url)
        reports = _sealed(survey, parties)
        yield from _ingest(survey, shuffler, bare, reports)
        with Pool(PROCESSES) as pool:
            yield from _published(parties, survey, pool)
        yield from _singly(survey, shuffler, bare)
        yield from _duplicates(survey, shuffler)
        yield from _flood(parties, survey, shuffler)


# Servers


@dataclass(frozen=True)
class _Server:
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
def _server(run: Callable[..., None], *arguments: object) -> Iterator[_Server]:
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    process = context.Process(target=run, args=(theirs, *arguments))
    process.start()
    try:
        if not ours.poll(_READY):
            message = "a server does not start"
            raise RuntimeError(message)
        assert process.pid is not None  # noqa: S101 - it runs
        yield _Server(process.pid, ours.recv())
    finally:
        process.terminate()
        process.join()


def _shuffler(ready: Connection, directory: Path) -> None:
    keyring = Keyring.open(directory / "keys", protection=Protection.none())
    database = Database(f"sqlite:///{directory / 'store.sqlite'}")
    store = ShufflerStore(database, directory, system_clock, node="server")
    listening = listen("127.0.0.1", 0)
    ready.send(address(listening))
    serve(shuffler_app(store, keyring), listening)


def _bare(ready: Connection) -> None:
    async def read(request: Request) -> Response:
        body = await request.body()
        return JSONResponse({"bytes": len(body)}, 202)

    listening = listen("127.0.0.1", 0)
    ready.send(address(listening))
    route = Route("/v1/surveys/{survey}/reports", read, methods=["POST"])
    serve(Starlette(routes=[route]), listening)


class _Store(ShufflerStore):
    """A store that remembers when its last batch closed."""

    closed = 0.0

    def advance(self, *, expire: bool = True) -> list[Transition]:
        """Close what is due."""
        found = super().advance(expire=expire)
        if found:
            self.closed = time.perf_counter()
        return found


class _Parties:
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
        self.shuffler = _Store(
            self._databases[0], directory / "shuffler", system_clock, node="worker"
        )
        self.analyzer = AnalyzerStore(self._databases[1], directory / "analyzer", system_clock)

    def _database(self, role: str) -> Database:
        database = Database(f"sqlite:///{self.directory / role / 'store.sqlite'}", patience=60)
        database.migrate(role)
        return database

    def register(self, url: str) -> Survey:
        """A survey that closes when everybody has answered."""
        now = system_clock()
        keys = {"shuffler": self.shuffler_keys, "analyzer": self.analyzer_keys}
        parties = {
            role: Party(url=url, fingerprint=ring.fingerprint) for role, ring in keys.items()
        }
        survey = Survey(
            name="benchmark",
            question="Which?",
            purpose="To measure.",
            device=RandomizedResponse(k=ANSWERS, epsilon=3.0),
            answers=tuple(f"answer {number}" for number in range(ANSWERS)),
            batches=Batches(minimum=PEOPLE // 2, target=PEOPLE, max_age=_DAY),
            epsilon=1.0,
            delta=1e-6,
            not_before=now - _DAY,
            not_after=now + _DAY,
            shuffler=parties["shuffler"],
            analyzer=parties["analyzer"],
        )
        self.shuffler.add_survey(survey)
        self.analyzer.add_survey(survey)
        self.token = self.shuffler.add_token("benchmark", survey.id, _DAY)
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


def _sealed(survey: Survey, parties: _Parties) -> list[bytes]:
    now = system_clock()
    keys = Keys(
        parties.analyzer_keys.list().current(survey.suite, now),
        parties.shuffler_keys.list().current(survey.suite, now),
    )
    values = simulated(1).below(ANSWERS, PEOPLE).astype(np.int64)
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(PROCESSES, mp_context=context) as pool:
        return seal_many(survey, values, keys, pool=pool)


_serial = itertools.count(1)


def _forged(survey: Survey, count: int) -> list[bytes]:
    """Reports that look right and open nowhere; never the same twice."""
    size = Wire.of(survey).report_bytes
    words = simulated(next(_serial)).words(-(-count * size // 8))
    table = words.view(np.uint8)[: count * size].reshape(count, size).copy()
    table[:, :2] = 1, 0
    return [row.tobytes() for row in table]


def _posted(url: str, bodies: Sequence[bytes], *, threads: int = 1) -> float:
    """Post them all; the seconds that took."""

    def post(some: Sequence[bytes]) -> None:
        with httpx.Client(timeout=120, trust_env=False) as client:
            for body in some:
                answer = client.post(url, content=body, headers=_HEADERS)
                if answer.status_code != 202:
                    raise RuntimeError(answer.text)

    began = time.perf_counter()
    with ThreadPoolExecutor(threads) as pool:
        list(pool.map(post, [bodies[start::threads] for start in range(threads)]))
    return time.perf_counter() - began


def _joined(reports: list[bytes]) -> list[bytes]:
    return [
        b"".join(reports[start : start + IN_ONE_POST])
        for start in range(0, len(reports), IN_ONE_POST)
    ]


# Measurements


def _speed(
    server: _Server, survey: Survey, bodies: Sequence[bytes], reports: int, *, threads: int = 4
) -> float:
    """Thousand reports per second of the server's processor time."""
    before = server.processor_seconds
    _posted(server.path(survey), bodies, threads=threads)
    return reports / (server.processor_seconds - before) / 1e3


def _ingest(
    survey: Survey, shuffler: _Server, bare: _Server, reports: list[bytes]
) -> Iterator[Result]:
    heading = f"{PEOPLE:.0e} reports over HTTP, {IN_ONE_POST} a request, per cpu second"
    bodies = _joined(reports)
    ours = _speed(shuffler, survey, bodies, len(reports))
    theirs = _speed(bare, survey, bodies, len(reports))
    what = "durable and deduplicated"
    yield Result(heading=heading, what=what, value=ours, unit="k/s", at_least=LEAST_INGEST)
    yield from _beside(heading, ours, theirs)


def _beside(heading: str, ours: float, theirs: float) -> Iterator[Result]:
    what = "an endpoint that only reads the body"
    yield Result(heading=heading, what=what, value=theirs, unit="k/s")
    what = "durable: share of its rate"
    yield Result(heading=heading, what=what, value=100 * ours / theirs, unit="%")


def _published(parties: _Parties, survey: Survey, pool: Pool) -> Iterator[Result]:
    heading = f"a batch of {PEOPLE:.0e} reports, {PROCESSES} processes"
    worker = parties.worker(pool)
    began = time.perf_counter()
    while worker.step():
        pass
    closed, mixed = parties.shuffler.closed, time.perf_counter()

    def source(survey: Survey) -> HttpSource:
        return HttpSource(survey.shuffler.url, survey.id, parties.token)

    with AnalyzerWorker(parties.analyzer, parties.analyzer_keys, source, pool) as analyzer:
        analyzer.step()
    published = time.perf_counter()
    (document,) = parties.analyzer.results(survey.id)
    note = f"{document['valid']:,} valid, epsilon {document['epsilon']:.3g}"
    whole = published - closed
    yield Result(heading=heading, what="opened, outer layer", value=closed - began, unit="s")
    yield Result(heading=heading, what="closed to mixed", value=mixed - closed, unit="s")
    what = "closed to published"
    yield Result(heading=heading, what=what, value=whole, unit="s", at_most=LONGEST, note=note)


def _singly(survey: Survey, shuffler: _Server, bare: _Server) -> Iterator[Result]:
    heading = f"{SINGLES} requests with one report each, {CONNECTIONS} connections, per cpu second"
    bodies = _forged(survey, SINGLES)
    ours = _speed(shuffler, survey, bodies, SINGLES, threads=CONNECTIONS)
    theirs = _speed(bare, survey, bodies, SINGLES, threads=CONNECTIONS)
    yield Result(heading=heading, what="durable and deduplicated", value=ours, unit="k/s")
    yield from _beside(heading, ours, theirs)


def _duplicates(survey: Survey, shuffler: _Server) -> Iterator[Result]:
    """In turns, so that a busy machine disturbs both alike."""
    heading = f"time of an answer, {COMPARED} of each in turns (median)"
    fresh = _forged(survey, COMPARED)
    known = _forged(survey, 1)
    url = shuffler.path(survey)
    _posted(url, known)
    times: dict[str, list[float]] = {"fresh": [], "duplicate": []}
    with httpx.Client(timeout=120, trust_env=False) as client:
        for report in fresh:
            for what, body in (("fresh", report), ("duplicate", known[0])):
                began = time.perf_counter()
                client.post(url, content=body, headers=_HEADERS)
                times[what].append(1e3 * (time.perf_counter() - began))
    medians = {what: statistics.median(found) for what, found in times.items()}
    for what, median in medians.items():
        yield Result(heading=heading, what=what, value=median)
    ratio = medians["fresh"] / medians["duplicate"]
    yield Result(heading=heading, what="fresh / duplicate", value=ratio, unit="x")


def _flood(parties: _Parties, survey: Survey, shuffler: _Server) -> Iterator[Result]:
    heading = f"{PEOPLE:.0e} forged reports"
    worker, own = parties.worker(Pool(0)), _Server(os.getpid(), "")
    parts = PEOPLE // (10 * IN_ONE_POST)
    before: tuple[float, float] | None = None
    spent = 0.0
    for _ in range(parts):
        _posted(shuffler.path(survey), _joined(_forged(survey, PEOPLE // parts)))
        began = time.process_time()
        while worker.step():
            pass
        spent += time.process_time() - began
        # After the first part: by then everything is loaded that will be.
        before = before or (shuffler.megabytes, own.megabytes)
    assert before is not None  # noqa: S101 - there are several parts
    for what, grown in (
        ("memory that the server grew by", shuffler.megabytes - before[0]),
        ("memory that the worker grew by", own.megabytes - before[1]),
    ):
        yield Result(
            heading=heading, what=what, value=max(0.0, grown), unit="MB", at_most=LARGEST_GROWTH
        )
    rejected = PEOPLE / spent / 1e3
    yield Result(heading=heading, what="rejected per cpu second", value=rejected, unit="k/s")
