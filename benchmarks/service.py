"""The collection service: reports in, batches mixed, results out; beside a server that only reads.

The shuffler's server is a process of its own, whose processor time the system counts. Beside it
run an endpoint of the same framework that reads a body and answers, and one without a framework:
what HTTP in Python costs before anything is checked, deduplicated or stored. Reports are really
sealed, once for all of it.

Rates are limited by what the others reach in the same run, so that a busy machine keeps the limits,
too. What is large, and rates as such, want minutes and an idle machine: they have to be asked for.
"""

from __future__ import annotations

import os
import random
import statistics
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path

import httpx
import large as large_ones
import opening
import parties as made
from parties import PROCESSES, Parties, Server, forged, posted, posted_together, sealed, server
from result import Result

from shoal.service.admission import Invitation, Invited, hashes_of
from shoal.service.analyzer.collect import AnalyzerWorker
from shoal.service.analyzer.source import HttpSource
from shoal.service.opening import Pool
from shoal.service.survey import Survey

PEOPLE = 100_000
MANY_PEOPLE = 1_000_000
IN_ONE_POST = 1000
SINGLES = 6000
ROUNDS = 5
CONNECTIONS = 32  # that single reports come on
COMPARED = 400  # duplicates, and as many fresh reports
LEAST_INGEST = 60.0  # thousand reports a processor second, durable and deduplicated
LEAST_INGEST_IDLE = 100.0
LEAST_ADMITTED = 25.0  # the same, with a code each
LEAST_SINGLES_IDLE = 5.0  # the same, of reports that come one by one
LEAST_PART = 35.0  # percent of the rate of an endpoint that only reads
LEAST_PART_ATTACKED = 40.0  # the same, when most of what comes is forged or was sent before
FORGED, REPLAYED = 0.5, 0.3  # of what comes then
LONGEST = {PEOPLE: 60.0, MANY_PEOPLE: 180.0}  # seconds from closed to published
LARGEST_GROWTH = 64.0  # MB under a flood
LEAST_REJECTED_IDLE = 10.0  # thousand forged reports a processor second
LONGEST_WAIT_IDLE = 250.0  # milliseconds of 99 in 100 honest people, during a flood
HONEST = 1000
HONEST_RATE = 100.0  # a second
_HEADERS = {"Content-Type": "application/octet-stream"}


def everything(*, large: bool = False) -> Iterator[Result]:
    """Opening and mixing by themselves, then the whole way."""
    yield from opening.everything(idle=large)
    with tempfile.TemporaryDirectory() as name, ExitStack() as stack:
        parties = Parties(Path(name))
        stack.callback(parties.close)
        shuffler = stack.enter_context(server(made.shuffler, parties.directory / "shuffler"))
        framework = stack.enter_context(server(made.framework))
        protocol = stack.enter_context(server(made.protocol))
        others = {"an endpoint that only reads": framework, "the same, no framework": protocol}
        survey = parties.register(shuffler.url, PEOPLE)
        reports = sealed(survey, parties, PEOPLE)
        yield from _ingest(survey, shuffler, others, reports, idle=large)
        yield from _admitted(parties, shuffler)
        with Pool(PROCESSES) as pool:
            yield from _published(parties, survey, pool, PEOPLE)
        yield from _singly(survey, shuffler, others, idle=large)
        yield from _attacked(parties, survey, shuffler, framework)
        yield from _duplicates(survey, shuffler)
        yield from _flood(parties, survey, shuffler, idle=large)
    if large:
        yield from large_ones.everything()
        yield from _many_people()


def _many_people() -> Iterator[Result]:
    """A batch of a million, on its own."""
    with tempfile.TemporaryDirectory() as name, ExitStack() as stack:
        parties = Parties(Path(name))
        stack.callback(parties.close)
        shuffler = stack.enter_context(server(made.shuffler, parties.directory / "shuffler"))
        survey = parties.register(shuffler.url, MANY_PEOPLE)
        bodies = _joined(sealed(survey, parties, MANY_PEOPLE))
        posted(shuffler.path(survey), bodies, connections=4)
        with Pool(PROCESSES) as pool:
            yield from _published(parties, survey, pool, MANY_PEOPLE)


def _joined(reports: list[bytes]) -> list[bytes]:
    return [
        b"".join(reports[start : start + IN_ONE_POST])
        for start in range(0, len(reports), IN_ONE_POST)
    ]


def _speed(
    asked: Server, survey: Survey, bodies: Sequence[bytes], reports: int, connections: int
) -> float:
    """Thousand reports per second of the server's processor time."""
    before = asked.processor_seconds
    posted(asked.path(survey), bodies, connections=connections)
    return reports / (asked.processor_seconds - before) / 1e3


def _ingest(
    survey: Survey,
    shuffler: Server,
    others: dict[str, Server],
    reports: list[bytes],
    *,
    idle: bool,
) -> Iterator[Result]:
    heading = f"{PEOPLE:.0e} reports over HTTP, {IN_ONE_POST} a request, per cpu second"
    bodies = _joined(reports)
    ours = _speed(shuffler, survey, bodies, len(reports), 4)
    what, least = "durable and deduplicated", LEAST_INGEST_IDLE if idle else LEAST_INGEST
    yield Result(heading=heading, what=what, value=ours, unit="k/s", at_least=least)
    for what, other in others.items():
        theirs = _speed(other, survey, bodies, len(reports), 4)
        yield Result(heading=heading, what=what, value=theirs, unit="k/s")


def _admitted(parties: Parties, shuffler: Server) -> Iterator[Result]:
    """Reports with the codes of people invited, each spent with its report."""
    survey = parties.register(shuffler.url, PEOPLE, Invited(entitled=PEOPLE, dishonest=0))
    codes = [invitation.code(survey.id, 1) for invitation in Invitation.draw(PEOPLE)]
    parties.shuffler.codes.add(survey.id, hashes_of(b"".join(codes)))
    reports = [a + b for a, b in zip(forged(survey, PEOPLE), codes, strict=True)]
    heading = f"{PEOPLE:.0e} reports of people invited, {IN_ONE_POST} a request, per cpu second"
    what = "admitted, durable and deduplicated"
    speed = _speed(shuffler, survey, _joined(reports), PEOPLE, 4)
    spent = parties.shuffler.codes.totals(survey.id).spent
    yield Result(heading=heading, what=what, value=speed, unit="k/s", at_least=LEAST_ADMITTED)
    yield Result(heading=heading, what="codes spent", value=spent, unit="", at_least=PEOPLE)


def _published(parties: Parties, survey: Survey, pool: Pool, people: int) -> Iterator[Result]:
    heading = f"a batch of {people:.0e} reports, {PROCESSES} processes"
    worker = parties.worker(pool)
    began = time.perf_counter()
    while worker.step():
        pass
    closed, mixed = parties.closed, time.perf_counter()

    def source(survey: Survey) -> HttpSource:
        return HttpSource(survey.shuffler.url, survey.id, parties.tokens[survey.id])

    with AnalyzerWorker(parties.analyzer, parties.analyzer_keys, source, pool) as analyzer:
        analyzer.step()
    published = time.perf_counter()
    (document,) = parties.analyzer.results.survey(survey.id).documents
    note = f"{document['valid']:,} valid, epsilon {document['epsilon']:.3g}"
    whole = published - closed
    yield Result(heading=heading, what="opened, outer layer", value=closed - began, unit="s")
    yield Result(heading=heading, what="closed to mixed", value=mixed - closed, unit="s")
    what, most = "closed to published", LONGEST[people]
    yield Result(heading=heading, what=what, value=whole, unit="s", at_most=most, note=note)


def _singly(
    survey: Survey, shuffler: Server, others: dict[str, Server], *, idle: bool
) -> Iterator[Result]:
    """Each in turns with the shuffler, so that a busy machine disturbs both alike."""
    what = f"requests with one report each, {CONNECTIONS} connections, per cpu second"
    heading = f"{SINGLES} {what} (median of {ROUNDS})"
    ours: list[float] = []
    theirs: dict[str, list[float]] = {name: [] for name in others}
    for _ in range(ROUNDS):
        ours.append(_single_speed(shuffler, survey))
        for name, other in others.items():
            theirs[name].append(_single_speed(other, survey))
    least: float | None = LEAST_PART
    for name, rates in theirs.items():
        yield Result(heading=heading, what=name, value=statistics.median(rates), unit="k/s")
        part = statistics.median(100 * a / b for a, b in zip(ours, rates, strict=True))
        what = "durable and deduplicated: share of its rate"
        yield Result(heading=heading, what=what, value=part, unit="%", at_least=least)
        least = None
    what, least = "durable and deduplicated", LEAST_SINGLES_IDLE if idle else None
    yield Result(
        heading=heading, what=what, value=statistics.median(ours), unit="k/s", at_least=least
    )


def _single_speed(asked: Server, survey: Survey) -> float:
    return _speed(asked, survey, forged(survey, SINGLES), SINGLES, CONNECTIONS)


def _attacked(
    parties: Parties, survey: Survey, shuffler: Server, framework: Server
) -> Iterator[Result]:
    """Half of what comes is forged, and much of the rest was sent before."""
    heading = (
        f"{SINGLES} requests with one report each, {FORGED:.0%} forged, {REPLAYED:.0%} replayed, "
        f"per cpu second (median of {ROUNDS})"
    )
    noise, again = int(FORGED * SINGLES), int(REPLAYED * SINGLES)
    fresh = SINGLES - noise - again
    honest = sealed(survey, parties, ROUNDS * fresh)
    rates = []
    for number in range(ROUNDS):
        new = honest[number * fresh : (number + 1) * fresh]
        known = [new[place % fresh] for place in range(again)]
        bodies = new + known + forged(survey, noise)
        random.Random(number).shuffle(bodies)  # noqa: S311 - an order, not a secret
        rates.append(
            [_speed(each, survey, bodies, SINGLES, CONNECTIONS) for each in (shuffler, framework)]
        )
    ours, theirs = (statistics.median(column) for column in zip(*rates, strict=True))
    what = "durable and deduplicated"
    yield Result(heading=heading, what=what, value=ours, unit="k/s")
    what = "an endpoint that only reads"
    yield Result(heading=heading, what=what, value=theirs, unit="k/s")
    part = statistics.median(100 * ours / theirs for ours, theirs in rates)
    what = "durable and deduplicated: part of its rate"
    yield Result(heading=heading, what=what, value=part, unit="%", at_least=LEAST_PART_ATTACKED)


def _duplicates(survey: Survey, shuffler: Server) -> Iterator[Result]:
    """In turns, so that a busy machine disturbs both alike."""
    heading = f"time of an answer, {COMPARED} of each in turns (median)"
    fresh = forged(survey, COMPARED)
    known = forged(survey, 1)
    url = shuffler.path(survey)
    posted(url, known, connections=1)
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


def _flood(parties: Parties, survey: Survey, shuffler: Server, *, idle: bool) -> Iterator[Result]:
    """Memory and speed of rejecting; then how long honest people wait meanwhile."""
    heading = f"{PEOPLE:.0e} forged reports"
    worker, own = parties.worker(Pool(0)), Server(os.getpid(), "")
    parts = PEOPLE // (10 * IN_ONE_POST)
    before: tuple[float, float] | None = None
    while worker.step():
        pass  # what others have left is not measured
    spent = 0.0
    for _ in range(parts):
        posted(shuffler.path(survey), _joined(forged(survey, PEOPLE // parts)), connections=1)
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
    what, least = "rejected per cpu second", LEAST_REJECTED_IDLE if idle else None
    rate = PEOPLE / spent / 1e3
    yield Result(heading=heading, what=what, value=rate, unit="k/s", at_least=least)
    what = f"{what}: the library alone"
    yield Result(heading=heading, what=what, value=opening.rejecting(), unit="k/s")
    yield _meanwhile(heading, parties, survey, shuffler, idle=idle)


def _meanwhile(
    heading: str, parties: Parties, survey: Survey, shuffler: Server, *, idle: bool
) -> Result:
    url = shuffler.path(survey)
    honest = sealed(survey, parties, HONEST)
    flood = _joined(forged(survey, PEOPLE))
    seconds = HONEST / HONEST_RATE
    found, _ = posted_together(
        [
            (url, "fresh", honest, CONNECTIONS, HONEST_RATE),
            (url, "forged", flood, 4, len(flood) / seconds),
        ]
    )
    waited = found.milliseconds()
    assert waited is not None  # noqa: S101 - all of them were answered
    return Result(
        heading=heading,
        what="honest people's answers meanwhile, p99",
        value=waited["p99"],
        at_most=LONGEST_WAIT_IDLE if idle else None,
    )
