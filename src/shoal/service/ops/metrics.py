"""Metrics for whoever runs the service, on a port of their own, in Prometheus's text format.

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
* the largest part of the reports that came from one network is that of a full hour with a hundred
  reports or more, in quarters, and three of them at most;
* the queue has tenths of its length, the disk two digits, and processor time is left out.

No figure has a label for an address, a device or anything else about whoever sent something.

``/healthz`` answers as long as the process does. ``/readyz`` answers 503 with a problem document if
a fact is not in order (see :mod:`shoal.service.ops.health`). Which one, it tells on the port of the
metrics; on the public port it says no more than ready or not.
"""

from __future__ import annotations

import asyncio
import json
import math
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from logging import WARNING
from threading import Lock

from prometheus_client import generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4
from prometheus_client.registry import Collector
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from shoal.errors import ShoalError
from shoal.sealing import Plain
from shoal.service.http.problems import Problem
from shoal.service.ops import logs
from shoal.service.ops.health import SEVERITY, Figure, Figures, Readiness, State, figure

_MINUTE = 60.0
# Every figure, and what it tells.
FIGURES = {
    "check_state": ("State of each check: 0 ok, 1 warning, 2 failed."),
    "unreadable_figures": "Sources of metrics that could not be read.",
    "refused_reports": "Reports refused on arrival, by reason.",
    "refused_requests": "Requests answered with a problem, by its kind.",
    "commit_seconds": ("Upper bound of the longest commit in the last minute, if there were many."),
    "queue_ratio": "How full the intake's queue was, in tenths.",
    "network_ratio": (
        "Fraction of the last full hour's reports from one network, in quarters; at most 0.75."
    ),
    "disk_free_bytes": "Free disk space, to two digits.",
    "key_age_seconds": "Age of a key in seconds.",
    "key_active_seconds_left": "Seconds until a key is no longer handed out to devices.",
    "missing_secrets": "Keys, not deleted, whose secret file is missing: they decrypt nothing.",
    "lacking_key_lists": "Analyzers without a valid copy of their keys for devices.",
    "contradicting_key_lists": "Signed key lists of analyzers that contradict each other.",
    "batches": "Closed batches, by state.",
    "last_batch_reports": "Valid reports in the last closed batch, to two digits.",
    "closed_batches": "Batches that were closed.",
    "reports": "Valid reports of closed batches, to two digits.",
    "expired_batches": "Batches deleted because they stayed too small.",
    "unopened_reports": (
        "Reports that could not be opened, up to the last closed batch, to two digits."
    ),
    "minimum_reached_ratio": "Fraction of the smallest crowd that the open batch has, in quarters.",
    "ledger_epsilon": (
        "Epsilon lost by one person towards readers of the published results, at the "
        "survey's delta."
    ),
    "ledger_analyzer_epsilon": (
        "The same towards the analyzer, who also opens withheld batches; infinite: no guarantee."
    ),
    "published_batches": "Batches with published estimates.",
    "last_pass_age_seconds": (
        "Seconds since all batches of a shuffler were last gone through; infinite: never."
    ),
    "collections": "Batches requested from the shuffler, by state.",
    "rejected_records": "Records left out of all batches, by reason, to two digits.",
}
_REFUSALS = ("refused_reports", "refused_requests")
_GROWING = {*_REFUSALS, "closed_batches", "reports", "expired_batches", "unopened_reports"}
_COMMIT = "commit_seconds"
_SHARE = "network_share"
_MOST_REASONS = 64
_MANY_COMMITS = 50
_TIMEOUT = 5.0
_RETRY = 10
_STEPS = (0.25, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0)  # seconds


def two_digits(value: float) -> float:
    """Rounded down to two digits.

    >>> two_digits(48_765), two_digits(999), two_digits(7), two_digits(0)
    (48000.0, 990.0, 7.0, 0.0)
    """
    if value <= 0:
        return 0.0
    step = 10.0 ** max(0, math.floor(math.log10(value)) - 1)
    return math.floor(value / step) * step


def tenths(fraction: float) -> float:
    """Rounded down to tenths, within 0 and 1.

    >>> tenths(0.39), tenths(1.7)
    (0.3, 1.0)
    """
    return math.floor(min(max(fraction, 0.0), 1.0) * 10 + 1e-9) / 10


def in_steps(seconds: float) -> float:
    """Rounded up to a step, the first for anything below and the last for anything above.

    >>> in_steps(0.003), in_steps(0.3), in_steps(99)
    (0.25, 0.5, 30.0)
    """
    return next((step for step in _STEPS if seconds <= step), _STEPS[-1])


@dataclass(kw_only=True)
class Observations:
    """What this process saw of requests; readers get what it was when the last minute ended.

    The first minute begins with the first observation.
    """

    steady: Callable[[], float] = time.monotonic
    _lock: Lock = field(default_factory=Lock, init=False)
    _until: float = field(default=-math.inf, init=False)
    _refused: Counter[tuple[str, str]] = field(default_factory=Counter, init=False)
    _longest: dict[str, float] = field(default_factory=dict, init=False)
    _commits: int = field(default=0, init=False)
    _shown_refused: Counter[tuple[str, str]] = field(default_factory=Counter, init=False)
    _shown_longest: dict[str, float] = field(default_factory=dict, init=False)
    _share: float = field(default=0.0, init=False)

    def observe(self, name: str, amount: float, reason: str = "") -> None:
        """Take note of refusals by reason, or of the largest value in this minute."""
        with self._lock:
            self._turn()
            if name in _REFUSALS:
                known = (name, reason) in self._refused or len(self._refused) < _MOST_REASONS
                self._refused[name, reason if known else "other"] += int(amount)
            elif name == _SHARE:  # of an hour that is over: until the next one is
                self._share = amount
            else:
                self._longest[name] = max(self._longest.get(name, 0.0), amount)
                self._commits += name == _COMMIT

    def _turn(self) -> None:
        """Publish what has come together, if the minute is over."""
        if self.steady() < self._until:
            return
        if self._commits < _MANY_COMMITS:
            self._longest.pop(_COMMIT, None)
        self._shown_refused = self._refused.copy()
        self._shown_longest, self._longest = self._longest, {}
        self._commits = 0
        self._until = self.steady() + _MINUTE

    def figures(self) -> Iterator[Figure]:
        """Refusals by reason, the longest commit, how full the queue was."""
        with self._lock:
            self._turn()
            refused, longest = self._shown_refused, self._shown_longest
        for (name, reason), count in refused.items():
            yield figure(name, count, reason=reason)
        yield figure(_COMMIT, in_steps(longest.get(_COMMIT, 0.0)))
        yield figure("queue_ratio", tenths(longest.get("queue", 0.0)))
        yield figure("network_ratio", self._share)


@dataclass(frozen=True)
class Reading(Collector):
    """Figures that are read when they are asked for; a source that fails is left out."""

    sources: tuple[Figures, ...]

    def collect(self) -> Iterable[Metric]:
        """Those of one name together, as Prometheus wants them."""
        families: dict[str, CounterMetricFamily | GaugeMetricFamily] = {}
        for name, value, labels in self._read():
            if name not in families:
                kind = CounterMetricFamily if name in _GROWING else GaugeMetricFamily
                families[name] = kind(f"shoal_{name}", FIGURES[name], labels=[*labels])
            families[name].add_metric([*labels.values()], value)
        return families.values()

    def _read(self) -> Iterator[Figure]:
        failed = 0
        for source in self.sources:
            try:
                yield from list(source())
            except (ShoalError, OSError) as error:
                failed += 1
                logs.say("figures_unavailable", level=WARNING, error=type(error).__name__)
        yield figure("unreadable_figures", failed)


def metrics_app(sources: Iterable[Figures], readiness: Readiness) -> ASGIApp:
    """``/metrics`` of these sources and of the facts, ``/healthz`` and ``/readyz``."""

    def states() -> Iterator[Figure]:
        for each in readiness.findings():
            yield figure("check_state", SEVERITY[each.state], check=each.check)

    of_facts = (fact.figures for fact in readiness.facts if fact.figures is not None)
    collected = Reading((*sources, *of_facts, states))

    def metrics(_request: Request) -> Response:
        # In a thread of the pool: reading the database must not hold the server up.
        return Response(generate_latest(collected), media_type=CONTENT_TYPE_PLAIN_0_0_4)

    app = Starlette(routes=[Route("/metrics", metrics, methods=["GET"])])
    return WithHealth(app, readiness, detailed=True)


@dataclass
class WithHealth:
    """An application, with ``/healthz`` and ``/readyz`` answered before it is asked."""

    app: ASGIApp
    readiness: Readiness
    detailed: bool = False
    timeout: float = _TIMEOUT
    _looking: asyncio.Task[Problem | dict[str, Plain]] | None = field(default=None, init=False)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer the two paths, pass everything else on."""
        path = scope.get("path") if scope["type"] == "http" else None
        if path not in {"/healthz", "/readyz"} or scope["method"] not in {"GET", "HEAD"}:
            await self.app(scope, receive, send)
            return
        answer: Problem | dict[str, Plain] = {"status": "alive"}
        if path == "/readyz":
            # One look for all who ask at a time: it takes one thread, however many they are.
            if self._looking is None or self._looking.done():
                self._looking = asyncio.ensure_future(run_in_threadpool(self._answer))
            try:
                answer = await asyncio.wait_for(asyncio.shield(self._looking), self.timeout)
            except TimeoutError:
                late = "the checks did not finish in time; see the log, and ask again later"
                answer = _not_in_order(late)
        if isinstance(answer, Problem):
            response = answer.response()
        else:
            body, headers = json.dumps(answer) + "\n", {"Cache-Control": "no-store"}
            response = Response(body, headers=headers, media_type="application/json")
        await response(scope, receive, send)

    def _answer(self) -> Problem | dict[str, Plain]:
        """What is in order, or the problem that something is not."""
        findings = self.readiness.findings()
        checks: dict[str, Plain] = {}
        if self.detailed:
            checks = {"checks": [dict(each.to_dict()) for each in findings]}
        bad = next((each for each in findings if each.state is State.FAIL), None)
        if bad is None:
            return {"status": "ready", **checks}
        if not self.detailed:
            return _not_in_order("not ready to serve; try again later")
        return _not_in_order(f"{bad.check}: {bad.detail}; {bad.advice}", checks)


def _not_in_order(detail: str, extra: dict[str, Plain] | None = None) -> Problem:
    return Problem("not_in_order", 503, detail, retry_after=_RETRY, extra=extra or {})
