"""The processes of a party: intakes and workers of a shuffler, and an analyzer.

Each opens its port first, so that one that is taken is said before anything else; then its keys and
its store, waiting for a database that is not up yet; then it serves or works until SIGTERM or
SIGINT, and finishes what it has begun. A second SIGINT does not wait.
"""

from __future__ import annotations

import logging
import signal
import socket
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from types import FrameType
from typing import Generic, TypeVar

from starlette.types import ASGIApp

from shoal import checks
from shoal.errors import InvalidArgumentError
from shoal.service.analyzer.app import AnalyzerPages, Pages, analyzer_app, no_pages
from shoal.service.analyzer.collect import AnalyzerWorker
from shoal.service.analyzer.store import AnalyzerStore
from shoal.service.clock import system_clock
from shoal.service.db import Database
from shoal.service.db.database import SQLITE
from shoal.service.errors import StoreUnavailableError
from shoal.service.http.limits import Limits
from shoal.service.http.server import (
    GRACE,
    LOOPBACK,
    Background,
    address,
    adopted,
    listen,
    server,
)
from shoal.service.keyring import Keyring, Protection
from shoal.service.opening import Pool
from shoal.service.ops import logs
from shoal.service.ops.children import Child, Children
from shoal.service.ops.environment import Steadiness
from shoal.service.ops.facts import (
    batch_metrics,
    directory_facts,
    key_facts,
    ledger_metrics,
    store_facts,
)
from shoal.service.ops.health import Fact, Metrics, Readiness
from shoal.service.ops.home import (
    STORE_VARIABLE,
    Home,
    analyzer_store,
    check_party,
    shuffler_store,
)
from shoal.service.ops.metrics import (
    Observations,
    WithHealth,
    check_metrics,
    metrics_app,
    registry,
)
from shoal.service.ops.token_file import TokenFile, sources
from shoal.service.shuffler.app import shuffler_app
from shoal.service.shuffler.key_list_fetcher import KeyListFetcher
from shoal.service.shuffler.reports import GATHER, GATHER_REPORTS
from shoal.service.shuffler.store import ShufflerStore
from shoal.service.shuffler.worker import Pace, ShufflerWorker

MOST_INTAKES = 64
STORE_TIMEOUT = 300.0  # seconds until a database that does not come up is refused
_STORE_PAUSE = 2.0
_AFTER_FAILURE = 10.0
_log = logging.getLogger(__name__)

Store = TypeVar("Store", ShufflerStore, AnalyzerStore)


@dataclass(frozen=True, kw_only=True)
class Listening:
    """Where a process is reached: a port, or a socket that its parent opened (``descriptor``).

    Metrics and health have a port or a descriptor of their own, or none.
    """

    host: str = LOOPBACK
    port: int = 0
    descriptor: int | None = None
    metrics_host: str = LOOPBACK
    metrics_port: int | None = None
    metrics_descriptor: int | None = None

    def open(self) -> socket.socket:
        """The socket; a port that is taken is refused."""
        if self.descriptor is not None:
            return adopted(self.descriptor)
        return listen(self.host, self.port)

    def open_metrics(self) -> socket.socket | None:
        """The socket of the metrics, if there is one."""
        if self.metrics_descriptor is not None:
            return adopted(self.metrics_descriptor)
        if self.metrics_port is None:
            return None
        return listen(self.metrics_host, self.metrics_port, option="metrics-port")


@dataclass(frozen=True, kw_only=True)
class Settings:
    """A party's directory, how its keys are opened, where it listens, and how much it does.

    ``identity`` is where the keys' identity is, if it is not with them. ``processes`` do the
    opening. ``pause`` is how many seconds an idle worker waits; ``gather`` and ``gather_reports``
    say when a shuffler's opens what waits. ``proxied`` is for a service that sees one address only,
    the proxy's; its ``limits`` have no ``address_rate``.
    """

    home: Home
    protection: Protection | None = None
    identity: Path | None = None
    listening: Listening = Listening()
    migrate: bool = False
    processes: int = 0
    pause: float = 1.0
    gather: float = GATHER
    gather_reports: int = GATHER_REPORTS
    proxied: bool = False
    limits: Limits = field(default_factory=Limits)

    def __post_init__(self) -> None:
        checks.count(0, processes=self.processes)
        checks.positive(pause=self.pause)


@dataclass(frozen=True)
class Parts(Generic[Store]):
    """What a process works with, and the facts that its work hangs on."""

    keyring: Keyring
    store: Store
    clock: Steadiness
    facts: Sequence[Fact]
    readiness: Readiness

    def metrics(self, *others: Metrics) -> list[Metrics]:
        """Those of the facts, and others."""
        sources = list(others)
        sources += (fact.metrics for fact in self.facts if fact.metrics is not None)
        sources.append(partial(check_metrics, self.readiness))
        return sources


@contextmanager
def opened(
    settings: Settings, make: Callable[[Home, Database], Store], name: str = ""
) -> Iterator[Parts[Store]]:
    """The keys and the store of a party, closed at the end; keys of another one are refused.

    ``name`` is what the process is called, if not after the party.
    """
    home = settings.home
    keyring = home.keyring(settings.protection, identity=settings.identity)
    logs.say("starting", role=name or home.role)
    with closing(wait_for_database(home, migrate=settings.migrate)) as database:
        store = make(home, database)
        check_party(store.surveys.all(), keyring, system_clock())
        # A key that cannot be read is no reason to refuse: others open what was sealed for them.
        lacking = keyring.lacking()
        if lacking:
            values = {"role": home.role, "key": min(lacking), "count": len(lacking)}
            logs.say("secret_missing", level=logging.ERROR, **values)
        clock = Steadiness()
        facts = store_facts(home, database, keyring) + key_facts(keyring) + directory_facts(home)
        facts.append(Fact("clock", lambda: [clock.check()], ready=True))
        readiness = Readiness([fact for fact in facts if fact.ready])
        yield Parts(keyring, store, clock, facts, readiness)


def wait_for_database(
    home: Home,
    *,
    migrate: bool = False,
    timeout: float = STORE_TIMEOUT,
    sleep: Callable[[float], None] = time.sleep,
) -> Database:
    """A party's database; one on a server is waited for, and the log says so."""
    waited = 0.0
    while True:
        try:
            return home.database(migrate=migrate)
        except StoreUnavailableError as error:
            if home.url.startswith(SQLITE) or waited >= timeout:
                raise
            name = type(error.__cause__ or error).__name__
            logs.say("waiting_for_store", level=logging.WARNING, role=home.role, error=name)
        sleep(_STORE_PAUSE)
        waited += _STORE_PAUSE


@contextmanager
def measured(
    listening: Listening, metrics: Sequence[Metrics], readiness: Readiness
) -> Iterator[None]:
    """Serve metrics and health on their own port while this lasts, if there is one."""
    opened = listening.open_metrics()
    if opened is None:
        yield
        return
    with opened, Background(metrics_app(registry(metrics), readiness), opened):
        logs.say("metrics_listening", address=address(opened))
        yield


# The shuffler


def run_shuffler(settings: Settings) -> None:
    """Take reports in and hand batches out, until SIGTERM or SIGINT."""
    with settings.listening.open() as listening, opened(settings, shuffler_store) as parts:
        observations = Observations()
        app = shuffler_app(
            parts.store, parts.keyring, limits=settings.limits, observe=observations.observe
        )
        metrics = parts.metrics(observations.metrics, partial(batch_metrics, parts.store))
        with closing(parts.store), measured(settings.listening, metrics, parts.readiness):
            logs.say("listening", role="shuffler", address=address(listening))
            serve(WithHealth(app, parts.readiness), listening, limits=settings.limits)
    logs.say("stopped", role="shuffler")


def run_intakes(settings: Settings, count: int, *, log: Path | None, level: str) -> None:
    """So many processes that take reports in at one port, until SIGTERM or SIGINT.

    This one opens the port and starts the others, which share it; who dies is started again. Each
    has metrics of its own: on the port of the metrics, the next one, and so on.
    """
    if not 2 <= count <= MOST_INTAKES:
        raise InvalidArgumentError("workers", count, f"2 to {MOST_INTAKES}")
    logs.say("starting", role="shuffler", count=count)
    home, where = settings.home, settings.listening
    wait_for_database(home, migrate=settings.migrate).close()
    stop = threading.Event()
    with where.open() as listening, stopping(stop.set):
        descriptor = listening.fileno()
        words = ["serve", "shuffler", str(home.directory), "--socket", str(descriptor)]
        words += ["--with-parent", "--log-level", level]
        words += ["--behind-proxy"] if settings.proxied else settings.limits.words()
        words += [] if log is None else ["--log", str(log)]
        # An address of a database may have a password in it: not for the list of processes.
        variables = {STORE_VARIABLE: home.store} if home.store else {}
        children = []
        for number in range(count):
            own = []
            if where.metrics_port is not None:
                port = where.metrics_port and where.metrics_port + number
                own = ["--metrics-host", where.metrics_host, "--metrics-port", str(port)]
            children.append(
                Child("shuffler", [*words, *own], (descriptor,), variables, heard=log is not None)
            )
        with Children(children) as running:
            logs.say("listening", role="shuffler", address=address(listening), count=count)
            running.watch(stop)
    logs.say("stopped", role="shuffler")


def run_worker(settings: Settings) -> None:
    """Open, close, mix and delete, until SIGTERM or SIGINT; what is begun is finished."""
    stop = threading.Event()
    with opened(settings, shuffler_store, "worker") as parts, Pool(settings.processes) as pool:
        pace = Pace(
            pause=settings.pause, gather=settings.gather, gather_reports=settings.gather_reports
        )
        worker = ShufflerWorker(
            parts.store,
            parts.keyring,
            pool,
            pace=pace,
            fetcher=KeyListFetcher(parts.store),
            steady=parts.clock.is_steady,
        )
        metrics = parts.metrics(partial(batch_metrics, parts.store))
        with (
            closing(parts.store),
            measured(settings.listening, metrics, parts.readiness),
            stopping(stop.set),
        ):
            logs.say("working", role="worker")
            worker.run(stop)
    logs.say("stopped", role="worker")


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
    with settings.listening.open() as listening, opened(settings, analyzer_store) as parts:
        observations = Observations()
        app = analyzer_app(
            parts.store,
            parts.keyring,
            public_results=public_results,
            limits=settings.limits,
            observe=observations.observe,
            pages=pages(
                AnalyzerPages(
                    store=parts.store,
                    keyring=parts.keyring,
                    limits=settings.limits,
                    public_results=public_results,
                    proxied=settings.proxied,
                )
            ),
        )
        metrics = parts.metrics(observations.metrics, partial(ledger_metrics, parts.store))
        with (
            measured(settings.listening, metrics, parts.readiness),
            _collecting(settings, parts, tokens),
        ):
            where = address(listening)
            logs.say("listening", role="analyzer", address=where)
            if pages is not no_pages:
                logs.say("dashboard", role="analyzer", address=f"{where}/dashboard")
            serve(WithHealth(app, parts.readiness), listening, limits=settings.limits)
    logs.say("stopped", role="analyzer")


@contextmanager
def _collecting(
    settings: Settings, parts: Parts[AnalyzerStore], tokens: TokenFile | None
) -> Iterator[None]:
    """A worker in a thread of its own while this lasts; what it has begun, it finishes."""
    if tokens is None:
        yield
        return
    stop = threading.Event()
    with (
        Pool(settings.processes) as pool,
        AnalyzerWorker(
            parts.store,
            parts.keyring,
            partial(sources, tokens, parts.store.surveys.all),
            pool,
            interval=settings.pause,
            steady=parts.clock.is_steady,
        ) as worker,
    ):
        thread = threading.Thread(target=_work, args=(worker, stop), name="collecting")
        thread.start()
        try:
            yield
        finally:
            stop.set()
            thread.join()


def _work(worker: AnalyzerWorker, stop: threading.Event) -> None:
    """A defect is written down and does not end the collecting."""
    while not stop.is_set():
        try:
            worker.run(stop)
        except Exception:  # noqa: BLE001 - whatever it was, batches have to be collected
            _log.exception("collecting_failed")
            stop.wait(_AFTER_FAILURE)


@contextmanager
def opened_analyzer(
    home: Home,
    *,
    tokens: TokenFile | None,
    unlock: Callable[[Path], Protection],
    processes: int = 0,
    migrate: bool = False,
) -> Iterator[tuple[AnalyzerStore, AnalyzerWorker | None]]:
    """An analyzer's store, and a worker that collects with the tokens; without any, none.

    ``unlock`` gives what opens the keys in a directory.
    """
    with ExitStack() as stack:
        store = analyzer_store(home, stack.enter_context(closing(home.database(migrate=migrate))))
        if tokens is None:
            yield store, None
            return
        tokens.check()
        keyring = home.keyring(unlock(home.keys))
        check_party(store.surveys.all(), keyring, system_clock())
        pool = stack.enter_context(Pool(processes))
        worker = AnalyzerWorker(store, keyring, partial(sources, tokens, store.surveys.all), pool)
        yield store, stack.enter_context(worker)


# Signals


def serve(
    app: ASGIApp, listening: socket.socket, *, grace: int = GRACE, limits: Limits | None = None
) -> None:
    """Run the application on this socket until SIGTERM or SIGINT; then finish what has begun."""
    running = server(app, grace=grace, limits=limits)
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
