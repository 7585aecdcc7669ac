"""The shuffler as processes: one that takes reports in, and workers that open, close and mix."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import TypeAlias

from shoal.service.http.server import address
from shoal.service.opening import Pool
from shoal.service.running import logs
from shoal.service.running.batch_figures import BatchFigures
from shoal.service.running.copies import copies_check, copy_figures
from shoal.service.running.figures import disk_figures, key_figures
from shoal.service.running.findings import Finding
from shoal.service.running.health import Readiness, WithHealth
from shoal.service.running.metrics import Figures, Observations
from shoal.service.running.parts import Parts, opened
from shoal.service.running.ready import keys_check, store_check
from shoal.service.running.registering import shuffler_store
from shoal.service.running.server import serve, stopping
from shoal.service.running.settings import Settings, measured
from shoal.service.running.surroundings import Steadiness, disk
from shoal.service.shuffler.app import shuffler_app
from shoal.service.shuffler.notary import Notary
from shoal.service.shuffler.worker import Pace, ShufflerWorker
from shoal.service.store import ShufflerStore

_Opened: TypeAlias = Parts[ShufflerStore]


@contextmanager
def _opened(settings: Settings) -> Iterator[_Opened]:
    with opened(settings, shuffler_store) as parts, closing(parts.store):
        yield parts


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
