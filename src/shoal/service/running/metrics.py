"""Figures for whoever runs the service, on a port of their own, in Prometheus's text format.

Who reads metrics is often not who runs the shuffler: a monitoring company, a shared screen, the
analyzer. A counter of accepted reports that ticks with every report would tell them when somebody
took part, and how many are in the batch that is still open: an attacker who sends all other reports
of a batch would see the last one come. So nothing here moves with a single report of an open batch:

* reports taken in, opened and refused by the worker, and the sizes of batches, are those of closed
  batches, whose size the analyzer is told anyway, and have two digits;
* how full the open batch is was looked at within ten minutes, in quarters of the least crowd, as
  everybody may ask the shuffler;
* refusals (reports that are in no batch) are exact, but published once in a minute;
* seconds spent in commits are the longest of the last minute, in steps, and only of a minute with
  many of them: else one commit would be seen, and a histogram would count them;
* the queue has tenths of its length, the disk two digits, and processor time is left out.

No figure has a label for an address, a device or anything else about whoever sent something.
"""

from __future__ import annotations

import math
import time
from collections import Counter
from collections.abc import Callable, Iterable
from logging import WARNING
from threading import Lock
from typing import TypeAlias

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4
from prometheus_client.registry import Collector
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import ASGIApp

from shoal.errors import ShoalError
from shoal.service.running import logs
from shoal.service.running.health import Readiness, WithHealth

MINUTE = 60.0
_REFUSALS = {
    "refused_reports": "Reports refused when they came, by reason.",
    "refused_requests": "Requests answered with a problem, by its kind.",
}
_COMMIT = "commit_seconds"
_MOST_REASONS = 64
_MANY_COMMITS = 50
_STEPS = (0.25, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0)  # seconds

Figures: TypeAlias = Callable[[], Iterable[Metric]]
Rows: TypeAlias = Iterable[tuple[list[str], float]]  # labels, and the figure that they have


def two_digits(value: float) -> float:
    """Rounded down to two digits.

    >>> two_digits(48_765), two_digits(999), two_digits(7), two_digits(0)
    (48000.0, 990.0, 7.0, 0.0)
    """
    if value <= 0:
        return 0.0
    step = 10.0 ** max(0, math.floor(math.log10(value)) - 1)
    return math.floor(value / step) * step


def tenths(share: float) -> float:
    """Rounded down to tenths, within 0 and 1.

    >>> tenths(0.39), tenths(1.7)
    (0.3, 1.0)
    """
    return math.floor(min(max(share, 0.0), 1.0) * 10 + 1e-9) / 10


def in_steps(seconds: float) -> float:
    """Rounded up to a step, the first for anything below and the last for anything above.

    >>> in_steps(0.003), in_steps(0.3), in_steps(99)
    (0.25, 0.5, 30.0)
    """
    return next((step for step in _STEPS if seconds <= step), _STEPS[-1])


class Observations:
    """What this process saw of requests; readers get what it was when the last minute ended."""

    def __init__(
        self, *, interval: float = MINUTE, steady: Callable[[], float] = time.monotonic
    ) -> None:
        self._interval = interval
        self._steady = steady
        self._lock = Lock()
        self._until = steady() + interval
        self._refused: Counter[tuple[str, str]] = Counter()
        self._longest: dict[str, float] = {}
        self._commits = 0
        self._shown: tuple[Counter[tuple[str, str]], dict[str, float]] = (Counter(), {})

    def observe(self, name: str, amount: float, reason: str = "") -> None:
        """Take note of refusals by reason, or of the largest value in this minute."""
        with self._lock:
            self._turn()
            if name in _REFUSALS:
                known = (name, reason) in self._refused or len(self._refused) < _MOST_REASONS
                self._refused[name, reason if known else "other"] += int(amount)
            else:
                self._longest[name] = max(self._longest.get(name, 0.0), amount)
                self._commits += name == _COMMIT

    def _turn(self) -> None:
        """Publish what has come together, if the minute is over."""
        if self._steady() < self._until:
            return
        if self._commits < _MANY_COMMITS:
            self._longest.pop(_COMMIT, None)
        self._shown = (self._refused.copy(), self._longest)
        self._longest = {}
        self._commits = 0
        self._until = self._steady() + self._interval

    def figures(self) -> Iterable[Metric]:
        """Refusals by reason, the longest commit, how full the queue was."""
        with self._lock:
            self._turn()
            refused, longest = self._shown
        for name, text in _REFUSALS.items():
            told = [([reason], count) for (kind, reason), count in refused.items() if kind == name]
            yield counters(name, text, ["reason"], told)
        seconds = in_steps(longest.get(_COMMIT, 0.0))
        text = "What the longest commit of the last minute stayed below, if there were many."
        yield gauge(_COMMIT, text, seconds)
        share = tenths(longest.get("queue", 0.0))
        yield gauge("queue_ratio", "How full the intake's queue was, in tenths.", share)


def gauge(name: str, text: str, value: float) -> Metric:
    """One figure without labels."""
    return GaugeMetricFamily(f"shoal_{name}", text, value=value)


def gauges(name: str, text: str, labels: list[str], rows: Rows) -> Metric:
    """One figure for each row of labels."""
    return _filled(GaugeMetricFamily(f"shoal_{name}", text, labels=labels), rows)


def counters(name: str, text: str, labels: list[str], rows: Rows) -> Metric:
    """One figure that only grows for each row of labels."""
    return _filled(CounterMetricFamily(f"shoal_{name}", text, labels=labels), rows)


def _filled(family: GaugeMetricFamily | CounterMetricFamily, rows: Rows) -> Metric:
    for row, value in rows:
        family.add_metric(row, value)
    return family


class _Reading(Collector):
    """Figures that are read when they are asked for; a source that fails is left out."""

    def __init__(self, sources: Iterable[Figures]) -> None:
        self._sources = tuple(sources)

    def collect(self) -> Iterable[Metric]:
        failed = 0
        for source in self._sources:
            try:
                yield from list(source())
            except (ShoalError, OSError) as error:
                failed += 1
                logs.say("figures_unavailable", level=WARNING, error=type(error).__name__)
        yield gauge("unreadable_figures", "Sources of figures that could not be read.", failed)


def registry(sources: Iterable[Figures]) -> CollectorRegistry:
    """All figures of a process."""
    made = CollectorRegistry(auto_describe=False)
    made.register(_Reading(sources))
    return made


def metrics_app(found: CollectorRegistry, readiness: Readiness) -> ASGIApp:
    """``/metrics``, and ``/healthz`` and ``/readyz`` with what they found."""

    def metrics(_request: Request) -> Response:
        # In a thread of the pool: reading the database must not hold the server up.
        return Response(generate_latest(found), media_type=CONTENT_TYPE_PLAIN_0_0_4)

    app = Starlette(routes=[Route("/metrics", metrics, methods=["GET"])])
    return WithHealth(app, readiness, detailed=True)
