"""The analyzer as a process: it shows results, and collects batches beside that."""

from __future__ import annotations

import logging
import math
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import TypeAlias

from prometheus_client.core import Metric

from shoal.service.analyzer.app import AnalyzerPages, Pages, analyzer_app, no_pages
from shoal.service.analyzer.documents import Document
from shoal.service.analyzer.store import AnalyzerStore
from shoal.service.analyzer.worker import AnalyzerWorker
from shoal.service.http.server import address
from shoal.service.opening import Pool
from shoal.service.running import logs
from shoal.service.running.collecting import TokenFile, sources
from shoal.service.running.figures import disk_figures, key_figures, short
from shoal.service.running.health import Readiness, WithHealth
from shoal.service.running.metrics import Figures, Observations, gauges, two_digits
from shoal.service.running.parts import Parts, opened
from shoal.service.running.ready import keys_check, store_check
from shoal.service.running.registering import analyzer_store
from shoal.service.running.server import serve
from shoal.service.running.settings import Settings, measured
from shoal.service.running.surroundings import Steadiness, disk

_Opened: TypeAlias = Parts[AnalyzerStore]
_AFTER_FAILURE = 10.0
_log = logging.getLogger(__name__)


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
        clock = Steadiness()
        readiness = _readiness(settings, parts, clock)
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
        figures: list[Figures] = [
            observations.figures,
            lambda: ledger_figures(parts.store),
            lambda: key_figures(parts.keyring),
            lambda: disk_figures(settings.home.directory),
        ]
        with (
            measured(settings.listening, figures, readiness),
            _collecting(settings, parts, tokens, clock),
        ):
            where = address(listening)
            logs.say("listening", role="analyzer", address=where)
            if pages is not no_pages:
                logs.say("dashboard", role="analyzer", address=f"{where}/dashboard")
            serve(WithHealth(app, readiness), listening)
    logs.say("stopped", role="analyzer")


def _readiness(settings: Settings, parts: _Opened, clock: Steadiness) -> Readiness:
    return Readiness(
        [
            ("store", lambda: store_check(parts.database, "analyzer")),
            ("keys", lambda: keys_check(parts.keyring)),
            ("disk", lambda: disk(settings.home.directory)),
            ("clock", clock.check),
        ]
    )


@contextmanager
def _collecting(
    settings: Settings, parts: _Opened, tokens: TokenFile | None, clock: Steadiness
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
            partial(sources, tokens, parts.store.surveys),
            pool,
            interval=settings.pause,
            steady=clock.is_steady,
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


def ledger_figures(store: AnalyzerStore) -> Iterable[Metric]:
    """What was published, what it cost, and what was left out of it."""
    surveys = store.surveys()
    lives = {short(survey.id): store.life(survey.id) for survey in surveys}
    yield gauges(
        "ledger_epsilon",
        "What one person may have lost towards readers of what was published so far, at its delta.",
        ["survey"],
        (([survey], life["epsilon"] or 0.0) for survey, life in lives.items()),
    )
    yield gauges(
        "ledger_analyzer_epsilon",
        "The same towards the analyzer, who opens withheld batches too; infinite: no guarantee.",
        ["survey"],
        (([survey], _towards_analyzer(life)) for survey, life in lives.items()),
    )
    yield gauges(
        "published_batches",
        "Batches with published estimates.",
        ["survey"],
        (([survey], life["batches"]) for survey, life in lives.items()),
    )
    found = {short(survey.id): store.collections(survey.id) for survey in surveys}
    yield gauges(
        "collections",
        "Batches that were asked for, by state.",
        ["survey", "state"],
        (
            ([survey, state], sum(each.state == state for each in collections))
            for survey, collections in found.items()
            for state in sorted({each.state for each in collections})
        ),
    )
    yield gauges(
        "rejected_records",
        "Records left out of all batches, by reason, to two digits.",
        ["survey", "reason"],
        (
            ([survey, reason], two_digits(count))
            for survey, collections in found.items()
            for reason, count in _rejected(each.rejected or {} for each in collections).items()
        ),
    )


def _towards_analyzer(life: Document) -> float:
    if not life["opened"]:
        return 0.0
    found: float | None = life["analyzer_epsilon"]
    return math.inf if found is None else found


def _rejected(all_of_them: Iterable[dict[str, int]]) -> dict[str, int]:
    total: dict[str, int] = {}
    for rejected in all_of_them:
        for reason, count in rejected.items():
            total[reason] = total.get(reason, 0) + count
    return total
