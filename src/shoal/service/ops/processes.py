"""The processes of a party: intakes and workers of a shuffler, and an analyzer.

Each opens its port first, so that one that is taken is said before anything else; then its keys and
its store, waiting for a database that is not up yet; then it serves or works until SIGTERM or
SIGINT, and finishes what it has begun. A second SIGINT does not wait.

A process that starts others (children) watches them, starts them again and ends them in good order.
A child hears of its parent's end, however that comes about, because its standard input ends then;
it then stops as it does at SIGTERM. Interrupts of the terminal reach the parent only.
"""

from __future__ import annotations

import logging
import os
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from types import FrameType
from typing import IO, Any, Generic, TypeVar

from starlette.types import ASGIApp

from shoal.errors import InvalidArgumentError, RefusedError
from shoal.service.analyzer.app import AnalyzerPages, Pages, analyzer_app, no_pages
from shoal.service.analyzer.collect import AnalyzerWorker
from shoal.service.analyzer.source import TokenFile, sources
from shoal.service.analyzer.store import AnalyzerStore
from shoal.service.clock import system_clock
from shoal.service.db.database import Database
from shoal.service.db.dialect import SQLite
from shoal.service.errors import StoreUnavailableError
from shoal.service.http.limits import Limits
from shoal.service.http.server import LOOPBACK, address, background, listen, server
from shoal.service.keyring import Keyring, Protection
from shoal.service.opening import Pool
from shoal.service.ops import logs
from shoal.service.ops.facts import (
    batch_figures,
    directory_facts,
    key_facts,
    ledger_figures,
    store_facts,
)
from shoal.service.ops.health import Fact, Figures, Readiness, Steadiness
from shoal.service.ops.home import Home, check_party
from shoal.service.ops.metrics import Observations, WithHealth, metrics_app
from shoal.service.shuffler.app import shuffler_app
from shoal.service.shuffler.store import ShufflerStore
from shoal.service.shuffler.worker import KeyListFetcher, Pace, ShufflerWorker

MOST_INTAKES = 64
STORE_TIMEOUT = 300.0  # seconds until a database that does not come up is refused
_STORE_PAUSE = 2.0
STOP_TIMEOUT = 45.0  # seconds until a child that was asked to stop is killed
_SHORTEST_LIFE = 5.0  # seconds; a child that dies younger is not started a third time
_WATCH_PAUSE = 0.1
_TAIL = 4096
REFUSED = 2  # the exit status of a child that will not do better the next time

Store = TypeVar("Store", ShufflerStore, AnalyzerStore)


@dataclass(frozen=True, kw_only=True)
class Settings:
    """A party's directory, how its keys are opened, where it listens, and how much it does.

    ``identity`` is where the keys' identity is, if it is not with them. It is reached at a port, or
    at a socket that its parent opened (``descriptor``); metrics and health at one of their own, or
    not at all. ``processes`` do the opening. ``pace`` is a worker's; an analyzer waits as long
    between two looks. A service behind a proxy has it in its ``limits``, or these have no
    ``address_rate``.
    """

    home: Home
    protection: Protection | None = None
    identity: Path | None = None
    host: str = LOOPBACK
    port: int = 0
    descriptor: int | None = None
    metrics_host: str = LOOPBACK
    metrics_port: int | None = None
    metrics_descriptor: int | None = None
    migrate: bool = False
    processes: int = 0
    pace: Pace = field(default_factory=Pace)
    limits: Limits = field(default_factory=Limits)

    def listen(self) -> socket.socket:
        """Where it is reached."""
        return listen(self.host, self.port, descriptor=self.descriptor)


@dataclass(frozen=True)
class Parts(Generic[Store]):
    """What a process works with, and the facts that its work hangs on."""

    keyring: Keyring
    store: Store
    clock: Steadiness
    readiness: Readiness


@contextmanager
def opened_party(settings: Settings, kind: type[Store], name: str = "") -> Iterator[Parts[Store]]:
    """The keys and the store of a party, closed at the end; keys of another one are refused.

    ``name`` is what the process is called, if not after the party.
    """
    home, name = settings.home, name or settings.home.role
    keyring = home.keyring(settings.protection, identity=settings.identity)
    logs.say("starting", role=name)
    database, store = wait_for_store(home, kind, keyring, migrate=settings.migrate)
    with closing(database):
        # A key that cannot be read is no reason to refuse: others open what was sealed for them.
        lacking = keyring.lacking()
        if lacking:
            values = {"role": home.role, "key": min(lacking), "count": len(lacking)}
            logs.say("secret_missing", level=logging.ERROR, **values)
        clock = Steadiness()
        facts = store_facts(home, database, keyring) + key_facts(keyring) + directory_facts(home)
        facts.append(Fact("clock", lambda: [clock.check()]))
        yield Parts(keyring, store, clock, Readiness(facts))
    logs.say("stopped", role=name)


def wait_for_store(
    home: Home,
    kind: type[Store],
    keyring: Keyring,
    *,
    migrate: bool = False,
    sleep: Callable[[float], None] = time.sleep,
) -> tuple[Database, Store]:
    """A party's database and its store; one on a server is waited for, and the log says so.

    Also if it goes away again before the store is open.
    """
    waited = 0.0
    while True:
        try:
            with ExitStack() as stack:
                database = stack.enter_context(closing(home.database(migrate=migrate)))
                store = kind(database, home.directory, system_clock)
                check_party(store.surveys.all(), keyring, system_clock())
                stack.pop_all()
                return database, store
        except StoreUnavailableError as error:
            if home.url.startswith(SQLite.name) or waited >= STORE_TIMEOUT:
                raise
            name = type(error.__cause__ or error).__name__
            logs.say("waiting_for_store", level=logging.WARNING, role=home.role, error=name)
        sleep(_STORE_PAUSE)
        waited += _STORE_PAUSE


@contextmanager
def measured(settings: Settings, parts: Parts[Store], *others: Figures) -> Iterator[None]:
    """Serve health, the metrics of the facts and others while this lasts, if there is a port."""
    port, descriptor = settings.metrics_port, settings.metrics_descriptor
    if port is None and descriptor is None:
        yield
        return
    app = metrics_app(others, parts.readiness)
    host, option = settings.metrics_host, "metrics-port"
    listening = listen(host, port or 0, option=option, descriptor=descriptor)
    with listening, background(app, listening):
        logs.say("metrics_listening", address=address(listening))
        yield


# The shuffler


def run_shuffler(settings: Settings) -> None:
    """Take reports in and hand batches out, until SIGTERM or SIGINT."""
    with (
        settings.listen() as listening,
        opened_party(settings, ShufflerStore) as parts,
        closing(parts.store) as store,
    ):
        observations = Observations()
        observe, limits = observations.observe, settings.limits
        app = shuffler_app(store, parts.keyring, limits=limits, observe=observe)
        with measured(settings, parts, observations.figures, partial(batch_figures, store)):
            logs.say("listening", role="shuffler", address=address(listening))
            if limits.address_rate is None:
                logs.say("addresses_not_limited", level=logging.WARNING, role="shuffler")
            serve(WithHealth(app, parts.readiness), listening, limits=limits)


def run_intakes(settings: Settings, count: int, words: Sequence[str], *, heard: bool) -> None:
    """So many processes that take reports in at one port, until SIGTERM or SIGINT.

    This one opens the port and starts the others, which share it, with the words that started it;
    who dies is started again. Each has metrics of its own: on the port of the metrics, the next
    one, and so on. ``heard`` as of a :class:`Child`.
    """
    if not 2 <= count <= MOST_INTAKES:
        raise InvalidArgumentError("workers", count, f"2 to {MOST_INTAKES}")
    logs.say("starting", role="shuffler", count=count)
    home = settings.home
    wait_for_store(home, ShufflerStore, home.keyring(None), migrate=settings.migrate)[0].close()
    stop = threading.Event()
    with settings.listen() as listening, stopping(stop.set):
        children = []
        for number in range(count):
            own = ["--workers", "1"]
            if settings.metrics_port:  # 0, any that is free, is among the words already
                own += ["--metrics-port", str(settings.metrics_port + number)]
            port = {"--socket": listening}
            children.append(Child("shuffler", [*words, *own], port, heard=heard))
        with closing(Children(children)) as running:
            logs.say("listening", role="shuffler", address=address(listening), count=count)
            running.watch(stop)
    logs.say("stopped", role="shuffler")


def run_worker(settings: Settings) -> None:
    """Open, close, mix and delete, until SIGTERM or SIGINT; what is begun is finished."""
    stop = threading.Event()
    with (
        opened_party(settings, ShufflerStore, "worker") as parts,
        Pool(settings.processes) as pool,
        closing(parts.store) as store,
        measured(settings, parts, partial(batch_figures, store)),
        stopping(stop.set),
    ):
        worker = ShufflerWorker(
            store,
            parts.keyring,
            pool,
            pace=settings.pace,
            fetcher=KeyListFetcher(store),
            steady=parts.clock.is_steady,
        )
        logs.say("working", role="worker")
        worker.run(stop)


# The analyzer


def run_analyzer(
    settings: Settings,
    *,
    tokens: TokenFile | None,
    public_results: bool = False,
    pages: Pages = no_pages,
) -> None:
    """Show results until SIGTERM or SIGINT; with ``tokens``, collect meanwhile."""
    if tokens is not None:
        tokens.check()
    with settings.listen() as listening, opened_party(settings, AnalyzerStore) as parts:
        observations, limits = Observations(), settings.limits
        shown = AnalyzerPages(
            store=parts.store,
            keyring=parts.keyring,
            limits=limits,
            public_results=public_results,
            proxied=limits.address_rate is None or limits.proxy is not None,
        )
        app = analyzer_app(
            parts.store,
            parts.keyring,
            public_results=public_results,
            limits=limits,
            observe=observations.observe,
            pages=pages(shown),
        )
        metrics = (observations.figures, partial(ledger_figures, parts.store))
        with measured(settings, parts, *metrics), ExitStack() as collecting:
            if tokens is not None:  # in a thread of its own, which finishes what it has begun
                timing = {"interval": settings.pace.pause, "steady": parts.clock.is_steady}
                made = collector(parts.store, parts.keyring, tokens, settings.processes, **timing)
                worker, stop = collecting.enter_context(made), threading.Event()
                thread = threading.Thread(target=worker.run, args=(stop,), name="collecting")
                collecting.callback(thread.join)
                collecting.callback(stop.set)
                thread.start()
            where = address(listening)
            logs.say("listening", role="analyzer", address=where)
            if pages is not no_pages:
                logs.say("dashboard", role="analyzer", address=f"{where}/dashboard")
            serve(WithHealth(app, parts.readiness), listening, limits=limits)


@contextmanager
def collector(
    store: AnalyzerStore,
    keyring: Keyring,
    tokens: TokenFile,
    processes: int = 0,
    **options: Any,  # noqa: ANN401 - of AnalyzerWorker
) -> Iterator[AnalyzerWorker]:
    """A worker that collects with these tokens."""
    shufflers = partial(sources, tokens, store.surveys.all)
    with (
        Pool(processes) as pool,
        AnalyzerWorker(store, keyring, shufflers, pool, **options) as worker,
    ):
        yield worker


# Signals


def serve(app: ASGIApp, listening: socket.socket, *, limits: Limits | None = None) -> None:
    """Run the application on this socket until SIGTERM or SIGINT; then finish what has begun."""
    running = server(app, limits=limits)
    with stopping(running.stop):
        running.run(sockets=[listening])


@contextmanager
def stopping(stop: Callable[[], None]) -> Iterator[None]:
    """Call ``stop`` at SIGTERM and SIGINT while this lasts; the log says which it was.

    Asking again changes nothing, but for a second SIGINT: somebody sits there and waits.
    """
    signals: list[int] = []

    def handle(number: int, frame: FrameType | None) -> None:
        del frame
        if signals and number != signal.SIGINT:
            return
        signals.append(number)
        logs.say("stopping", signal=signal.Signals(number).name)
        stop()

    with handling(handle):
        yield


@contextmanager
def handling(handler: Callable[[int, FrameType | None], None]) -> Iterator[None]:
    """Have SIGTERM and SIGINT handled so while this lasts."""
    before = {number: signal.signal(number, handler) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield
    finally:
        for number, old in before.items():
            signal.signal(number, old)


# Children


@dataclass
class Child:
    """One service: what it is called, the words of its command, and the sockets it is handed.

    ``heard``: what it writes where errors go is in a file without a name, so that it can always
    write, and its end can be read; otherwise it goes where this process's errors go.
    """

    name: str
    words: Sequence[str]
    sockets: Mapping[str, socket.socket] = field(default_factory=dict)  # by their options
    variables: dict[str, str] = field(default_factory=dict)
    heard: bool = True
    process: subprocess.Popen[bytes] = field(init=False)
    born: float = field(default=0.0, init=False)
    deaths: int = field(default=0, init=False)
    _errors: IO[bytes] | None = field(default=None, init=False)

    def start(self) -> None:
        """Start it."""
        self._errors = tempfile.TemporaryFile() if self.heard else None  # noqa: SIM115 - close does
        words = [sys.executable, "-m", "shoal", *self.words, "--with-parent"]
        for option, handed in self.sockets.items():
            words += [option, str(handed.fileno())]
        self.process = subprocess.Popen(  # noqa: S603 - this program, with words of our own
            words,
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=self._errors,
            env=os.environ | self.variables,
            pass_fds=[handed.fileno() for handed in self.sockets.values()],
            start_new_session=True,
        )
        self.born = time.monotonic()

    def last_line(self) -> str:
        """The last line it wrote where errors go."""
        if self._errors is None:
            return ""
        file = self._errors.fileno()
        end = os.pread(file, _TAIL, max(0, os.fstat(file).st_size - _TAIL))
        text = end.decode(errors="replace").strip()
        return text.splitlines()[-1].removeprefix("error: ") if text else ""

    def close(self) -> None:
        """Let go of what is left of it, once it has ended."""
        with self.process:  # its pipe
            if self._errors is not None:
                self._errors.close()


class Children:
    """Several services that live and end together."""

    def __init__(self, children: Sequence[Child], *, ordered: bool = False) -> None:
        self._children = tuple(children)
        self._ordered = ordered
        for child in children:
            child.start()

    def check(self) -> None:
        """Start again whoever died; refuse if that does not help, or it was refused itself."""
        for child in self._children:
            status = child.process.poll()
            if status is None:
                continue
            last_line = child.last_line()
            young = time.monotonic() - child.born < _SHORTEST_LIFE
            child.deaths = child.deaths + 1 if young else 1
            if status == REFUSED or (young and child.deaths > 1):
                why = last_line or f"it ended with status {status} and no message; see its log"
                raise RefusedError(f"the {child.name} stopped", why)
            values = {"role": child.name, "status": status, "attempt": child.deaths}
            logs.say("child_died", level=logging.WARNING, **values)
            child.close()
            child.start()

    def watch(self, stop: threading.Event) -> None:
        """Keep them running until ``stop``."""
        while not stop.wait(_WATCH_PAUSE):
            self.check()

    def until(
        self, ready: Callable[[], bool], timeout: float, what: str, *, pause: float = _WATCH_PAUSE
    ) -> None:
        """Wait for something that they do."""
        deadline = time.monotonic() + timeout
        while not ready():
            self.check()
            if time.monotonic() > deadline:
                slow = f"{what} took more than {timeout:.0f} s"
                raise RefusedError(slow, advice="see the logs, and run shoal doctor")
            time.sleep(pause)

    def close(self) -> None:
        """Ask all to stop, and wait: they finish what they have begun. Kill whoever does not.

        In order, the last one started goes first and alone: nobody has to wait for an answer of
        somebody who is gone.
        """
        living = [child for child in reversed(self._children) if child.process.poll() is None]
        for group in [[child] for child in living] if self._ordered else [living]:
            for child in group:
                child.process.send_signal(signal.SIGTERM)
            deadline = time.monotonic() + STOP_TIMEOUT
            for child in group:
                try:
                    child.process.wait(max(0.1, deadline - time.monotonic()))
                except subprocess.TimeoutExpired:
                    logs.say("child_killed", level=logging.WARNING, role=child.name)
                    child.process.kill()
        for child in self._children:
            child.close()


def follow_parent() -> None:
    """Stop this process, as SIGTERM does, when its standard input ends: its parent is gone."""
    with suppress(OSError):
        while os.read(0, 1024):
            pass
    os.kill(os.getpid(), signal.SIGTERM)
