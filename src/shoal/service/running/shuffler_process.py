"""The shuffler as processes: one that takes reports in, and workers that open, close and mix."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass

from shoal.service.clock import system_clock
from shoal.service.keyring import Keyring
from shoal.service.opening import Pool
from shoal.service.running import logs
from shoal.service.running.batch_figures import BatchFigures
from shoal.service.running.copies import copies_check, copy_figures
from shoal.service.running.figures import disk_figures, key_figures
from shoal.service.running.findings import Finding
from shoal.service.running.health import Readiness, WithHealth
from shoal.service.running.home import node
from shoal.service.running.metrics import Figures, Observations
from shoal.service.running.ready import keys_check, store_check
from shoal.service.running.registering import check_party
from shoal.service.running.server import address, serve, stopping
from shoal.service.running.settings import Settings, measured
from shoal.service.running.surroundings import Steadiness, disk
from shoal.service.shuffler.app import shuffler_app
from shoal.service.shuffler.notary import Notary
from shoal.service.shuffler.worker import Pace, ShufflerWorker
from shoal.service.store import Database, ShufflerStore


@dataclass(frozen=True)
class _Opened:
    database: Database
    keyring: Keyring
    store: ShufflerStore


@contextmanager
def _opened(settings: Settings) -> Iterator[_Opened]:
    """The store and the keys of a shuffler, closed again at the end."""
    home = settings.home
    with ExitStack() as stack:
        keyring = home.keyring(settings.protection, identity=settings.identity)
        database = home.database(migrate=settings.migrate)
        stack.callback(database.close)
        store = ShufflerStore(database, home.directory, system_clock, node=node())
        stack.callback(store.close)
        check_party(store.surveys(), keyring, system_clock())
        yield _Opened(database, keyring, store)


def _store_check(parts: _Opened) -> Finding:
    """Whether the database answers, and the directory is the one that belongs to it."""
    parts.store.check_place()
    return store_check(parts.database, "shuffler")


def _readiness(settings: Settings, parts: _Opened, clock: Steadiness) -> Readiness:
    return Readiness(
        [
            ("store", lambda: _store_check(parts)),
            ("keys", lambda: keys_check(parts.keyring)),
            ("analyzer keys", lambda: copies_check(parts.store)),
            ("disk", lambda: disk(settings.home.directory)),
            ("clock", clock.check),
        ]
    )


def _figures(settings: Settings, parts: _Opened) -> list[Figures]:
    return [
        BatchFigures(parts.store).figures,
        lambda: key_figures(parts.keyring),
        lambda: copy_figures(parts.store),
        lambda: disk_figures(settings.home.directory),
    ]


def run_shuffler(settings: Settings) -> None:
    """Take reports in and hand batches out, until SIGTERM or SIGINT."""
    observations = Observations()
    with settings.listening.open() as listening, _opened(settings) as parts:
        readiness = _readiness(settings, parts, Steadiness())
        app = shuffler_app(
            parts.store, parts.keyring, limits=settings.limits, observe=observations.observe
        )
        figures = [observations.figures, *_figures(settings, parts)]
        with measured(settings.listening, figures, readiness):
            logs.say("listening", role="shuffler", address=address(listening))
            serve(WithHealth(app, readiness), listening)
    logs.say("stopped", role="shuffler")


def run_worker(settings: Settings) -> None:
    """Open, close, mix and delete, until SIGTERM or SIGINT; what is begun is finished."""
    stop = threading.Event()
    pace = Pace(pause=settings.pause)
    with _opened(settings) as parts, Pool(settings.processes) as pool:
        clock = Steadiness()
        readiness = _readiness(settings, parts, clock)
        worker = ShufflerWorker(
            parts.store,
            parts.keyring,
            pool,
            pace=pace,
            notary=Notary(parts.store),
            steady=clock.is_steady,
        )
        with measured(settings.listening, _figures(settings, parts), readiness), stopping(stop.set):
            logs.say("working", role="worker")
            worker.run(stop)
    logs.say("stopped", role="worker")
