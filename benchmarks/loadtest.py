"""How much one's own shuffler takes, and how quickly it answers: reports at a fixed rate.

    python benchmarks/loadtest.py SURVEY --this-survey-is-for-testing [--rate 500] [--json] …

Never against a survey that people answer: see docs/operate/loadtest.md.
"""

from __future__ import annotations

import asyncio
import json
import math
import os
import signal
import ssl
from array import array
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, TypeAlias, cast, get_args
from urllib.parse import urlsplit

import httptools
import httpx
import numpy as np
import typer

from shoal import checks, randomness
from shoal.cli.app import printable
from shoal.cli.options import BareOptions, command, option
from shoal.cli.render import console, print_json, table, working
from shoal.errors import InvalidArgumentError, RefusedError, ShoalError
from shoal.explain.document import Row, Table
from shoal.service.client import Keys, seal_many
from shoal.service.client.protocol import people_a_chunk
from shoal.service.client.randomize import Values
from shoal.service.clock import Clock, system_clock
from shoal.service.keyring.key_list import ROLES, KeyList
from shoal.service.opening import executor
from shoal.service.survey import Survey
from shoal.service.survey.document import read_survey
from shoal.service.wire import HEADER_BYTES, VERSION, Wire

# ------------------------------------------------------------------------------------- what is sent
#
# What is sent, in which order: fresh reports, such that were sent before, and forged ones.
#
# Kinds are spread evenly, so that any second of a test has its share of each.

Kind: TypeAlias = Literal["fresh", "replayed", "forged"]
_STRIDE = 7919  # a prime, so that repetitions go round all bodies out of order


@dataclass(frozen=True)
class Request:
    """A body, and what kind it is."""

    kind: Kind
    body: bytes


@dataclass(frozen=True, kw_only=True)
class Mix:
    """How many requests, and which fractions of them are forged and replayed.

    >>> Mix(requests=10, forged=0.2, replayed=0.5).fresh
    3
    """

    requests: int
    forged: float = 0.0
    replayed: float = 0.0

    def __post_init__(self) -> None:
        checks.count(requests=self.requests)
        for name in ("forged", "replayed"):
            if not 0 <= getattr(self, name) <= 1:
                raise InvalidArgumentError(name, getattr(self, name), "a fraction from 0 to 1")
        if self.replayed and self.forged + self.replayed >= 1:
            expected = "less than what is not forged: something has to be sent a first time"
            raise InvalidArgumentError("replayed", self.replayed, expected)

    def kinds(self) -> Iterator[Kind]:
        """The kind of every request, in order."""
        for number in range(self.requests):
            if _falls(number, self.forged):
                yield "forged"
            elif _falls(number - math.floor(number * self.forged), self._replayed_of_honest):
                yield "replayed"
            else:
                yield "fresh"

    @property
    def _replayed_of_honest(self) -> float:
        return self.replayed / (1 - self.forged) if self.replayed else 0.0

    @property
    def fresh(self) -> int:
        """How many bodies are sent for the first time."""
        return sum(kind == "fresh" for kind in self.kinds())

    def drawn(self, fresh: Sequence[bytes], forged: Callable[[], bytes]) -> Iterator[Request]:
        """The requests: as many ``fresh`` bodies are needed as there are fresh requests."""
        sent = replayed = 0
        for kind in self.kinds():
            if kind == "forged":
                yield Request(kind, forged())
            elif kind == "replayed":
                replayed += 1
                yield Request(kind, fresh[replayed * _STRIDE % sent])
            else:
                yield Request(kind, fresh[sent])
                sent += 1


def _falls(number: int, share: float) -> bool:
    """Whether the count of a share grows with this number."""
    return math.floor((number + 1) * share) > math.floor(number * share)


# ------------------------------------------------------------------------------------------ reports
#
# Reports to send: really sealed, for the keys that the shuffler shows, or only looking so.

_SECONDS = 10.0  # for the keys to come
_AT_ONCE = 5000  # reports that are sealed between two signs of progress
_WORD = 8  # bytes
_STEPS = 1 << 20  # between the bounds of numbers


class NoKeysError(ShoalError):
    """A shuffler whose keys cannot be had."""

    def __init__(self, url: str, why: str) -> None:
        self.url = url
        super().__init__(f"cannot fetch the keys from {url}: {why}; is the shuffler running there?")


def fetched_keys(survey: Survey, url: str, clock: Clock = system_clock) -> Keys:
    """The keys that the shuffler at this address shows, as a device would take them."""
    shown = {"shuffler": "keys", "analyzer": f"surveys/{survey.id}/keys/analyzer"}
    parties = {"shuffler": survey.shuffler, "analyzer": survey.analyzer}
    found = {}
    with httpx.Client(timeout=_SECONDS, trust_env=False) as client:  # as what is sent later
        for role in ROLES:
            place = f"{url}/v1/{shown[role]}"
            try:
                answer = client.get(place)
            except httpx.HTTPError as error:
                raise NoKeysError(place, str(error) or type(error).__name__) from error
            if answer.status_code != httpx.codes.OK:
                raise NoKeysError(place, f"status {answer.status_code}")
            listed = KeyList.verified(
                answer.content, fingerprint=parties[role].fingerprint, now=clock(), role=role
            )
            found[role] = listed.current(survey.suite, clock())
    return Keys(found["analyzer"], found["shuffler"])


@dataclass(frozen=True)
class Reports:
    """Bodies of ``bulk`` reports each."""

    survey: Survey
    keys: Keys
    bulk: int = 1

    @property
    def body_bytes(self) -> int:
        """Bytes of every body."""
        return self.bulk * Wire.of(self.survey).report_bytes

    def fresh(
        self,
        bodies: int,
        *,
        pool: Executor | None = None,
        progress: Callable[[int, int], None] = lambda _done, _total: None,
    ) -> list[bytes]:
        """So many bodies of reports that are sealed now, with made-up answers."""
        sealed: list[bytes] = []
        total = bodies * self.bulk
        for report in sealed_reports(self.survey, self.keys, total, pool=pool):
            sealed.append(report)
            if len(sealed) % _AT_ONCE == 0 or len(sealed) == total:
                progress(len(sealed), total)
        starts = range(0, total, self.bulk)
        return [b"".join(sealed[start : start + self.bulk]) for start in starts]

    def forger(self) -> Callable[[], bytes]:
        """A source of bodies that have the right length and key, and in which nothing opens."""
        size = Wire.of(self.survey).report_bytes
        words = -(-self.body_bytes // _WORD)
        head = np.array([VERSION, self.keys.shuffler.number], dtype=np.uint8)
        source = randomness.secure()

        def forged() -> bytes:
            table = source.words(words).view(np.uint8)[: self.body_bytes].reshape(-1, size)
            table[:, :HEADER_BYTES] = head
            return table.tobytes()

        return forged


def sealed_reports(
    survey: Survey, keys: Keys, count: int, *, pool: Executor | None = None
) -> Iterator[bytes]:
    """So many people's reports; more are asked where not all of them take part."""
    left = count
    while left > 0:
        people = min(_AT_ONCE, int(left / survey.participation) + 1)
        for report in seal_many(survey, _made_up(survey, people), keys, pool=pool)[:left]:
            left -= 1
            yield report


def _made_up(survey: Survey, people: int) -> Values:
    device, source = survey.device, randomness.secure()
    if device.domain.takes == "answers":
        return source.below(device.k, people).astype(np.int64)
    steps = source.below(_STEPS + 1, people).astype(np.float64) / _STEPS
    return np.clip(device.low + steps * (device.high - device.low), device.low, device.high)


# ----------------------------------------------------------------------------------- one connection
#
# One connection that carries one request after the other: HTTP/1.1, kept alive.
#
# A generator has to be quicker than what it measures. A client library takes several times as long
# for a request as the shuffler does, and most of what would be measured is the library. So this one
# writes a request's bytes, which are made beforehand, and has the answer read by the parser that
# servers use.

_PORTS = {"http": 80, "https": 443}
_LONGEST = 1 << 20  # bytes of an answer that are kept


@dataclass(frozen=True)
class Target:
    """Where requests go, and the head that all of them have."""

    host: str
    port: int
    tls: ssl.SSLContext | None
    head: bytes

    @classmethod
    def of(cls, url: str, body_bytes: int) -> Target:
        """The target behind an address; every body has so many bytes."""
        parts = urlsplit(url)
        if parts.scheme not in _PORTS or not parts.hostname:
            raise InvalidArgumentError(
                "url", url, "an address that begins with http:// or https://"
            )
        lines = [
            f"POST {parts.path} HTTP/1.1",
            f"Host: {parts.netloc}",
            "User-Agent: shoal-loadtest",
            "Content-Type: application/octet-stream",
            f"Content-Length: {body_bytes}",
        ]
        tls = ssl.create_default_context() if parts.scheme == "https" else None
        head = "\r\n".join([*lines, "", ""]).encode("ascii")
        return cls(parts.hostname, parts.port or _PORTS[parts.scheme], tls, head)


@dataclass(frozen=True)
class Answer:
    """What came back; names of headers in lower case."""

    status: int
    headers: dict[bytes, bytes]
    body: bytes


class Connection(asyncio.Protocol):
    """``done`` is called with the answer to what was sent, or with None if there will be none."""

    def __init__(self, done: Callable[[Connection, Answer | None], None]) -> None:
        self._done = done
        self._transport: asyncio.Transport | None = None
        self._busy = False
        self._ended = asyncio.Event()
        self._parser = httptools.HttpResponseParser(self)
        self._begin()

    def _begin(self) -> None:
        self._headers: dict[bytes, bytes] = {}
        self._pieces: list[bytes] = []
        self._length = 0
        self._lasting = False
        self._whole = False

    @classmethod
    async def open(
        cls, target: Target, done: Callable[[Connection, Answer | None], None]
    ) -> Connection:
        """Connected."""
        loop = asyncio.get_running_loop()
        _, made = await loop.create_connection(
            lambda: cls(done), target.host, target.port, ssl=target.tls
        )
        return made

    @property
    def usable(self) -> bool:
        """Whether another request can be sent on it."""
        return self._transport is not None and not self._transport.is_closing() and not self._busy

    def send(self, request: bytes) -> None:
        """Write a request; its answer comes later."""
        assert self._transport is not None  # noqa: S101 - it is open
        self._busy = True
        self._begin()
        self._transport.write(request)

    def close(self) -> None:
        """Hang up."""
        if self._transport is not None:
            self._transport.close()

    async def ended(self) -> None:
        """Wait until it is closed."""
        await self._ended.wait()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """It is open."""
        self._transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        """A piece of an answer."""
        try:
            self._parser.feed_data(data)
        except (httptools.HttpParserError, httptools.HttpParserUpgrade):
            self.close()
            return
        if self._whole and self._busy:
            self._busy = False
            if not self._lasting:
                self.close()
            found = Answer(self._parser.get_status_code(), self._headers, b"".join(self._pieces))
            self._done(self, found)

    def connection_lost(self, exc: Exception | None) -> None:
        """Whatever was asked is not answered any more."""
        del exc
        self._ended.set()
        if self._busy:
            self._busy = False
            self._done(self, None)

    # What the parser calls

    def on_header(self, name: bytes, value: bytes) -> None:
        """A line of the head."""
        self._headers[name.lower()] = value

    def on_headers_complete(self) -> None:
        """The head is whole: it says whether more can be sent on this connection."""
        self._lasting = self._parser.should_keep_alive()

    def on_body(self, body: bytes) -> None:
        """A piece of the body."""
        self._length += len(body)
        if self._length <= _LONGEST:
            self._pieces.append(body)

    def on_message_complete(self) -> None:
        """The answer is whole."""
        self._whole = True


# -------------------------------------------------------------------------------- what was measured
#
# What a load test found: how long answers took, and what they said.

KINDS: tuple[Kind, ...] = get_args(Kind)
KEPT = 202
LOST, UNANSWERED = "lost", "unanswered"  # beside the statuses
_PERCENTILES = {"p50": 50.0, "p95": 95.0, "p99": 99.0, "max": 100.0}


@dataclass
class Measured:
    """Seconds from when a request was due until it was answered, and the answers.

    A request that is not answered counts with the time that was waited for it: leaving it out
    would make a server that hangs look quick.
    """

    seconds: dict[Kind, array[float]] = field(
        default_factory=lambda: {kind: array("d") for kind in KINDS}
    )
    late: array[float] = field(default_factory=lambda: array("d"))  # of the generator itself
    statuses: Counter[str] = field(default_factory=Counter)
    refused_requests: Counter[str] = field(default_factory=Counter)
    refused_reports: Counter[str] = field(default_factory=Counter)
    longest_retry: int | None = None
    elapsed: float = 0.0
    interrupted: bool = False

    def answered(self, kind: Kind, seconds: float, answer: Answer | None) -> None:
        """Take note of an answer, or of a connection that ended without one."""
        self.seconds[kind].append(seconds)
        if answer is None:
            self.statuses[LOST] += 1
            return
        self.statuses[str(answer.status)] += 1
        waiting = answer.headers.get(b"retry-after", b"")
        if waiting.isdigit():
            self.longest_retry = max(self.longest_retry or 0, int(waiting))
        if answer.status != KEPT:
            self.refused_requests[_kind_of(answer.body)] += 1
        elif not answer.body.endswith(b'"refused":[]}'):  # nearly all do
            self.refused_reports.update(_reasons(answer.body))

    def unanswered(self, kind: Kind, seconds: float) -> None:
        """Take note of a request that nobody waits for any longer."""
        self.seconds[kind].append(seconds)
        self.statuses[UNANSWERED] += 1

    @property
    def requests(self) -> int:
        """How many were due."""
        return sum(self.statuses.values())

    @property
    def errors(self) -> float:
        """The share of requests that were not answered as if kept."""
        return 1 - self.statuses[str(KEPT)] / self.requests if self.requests else 0.0

    @property
    def rate(self) -> float:
        """Answers a second."""
        answers = self.requests - self.statuses[LOST] - self.statuses[UNANSWERED]
        return answers / self.elapsed if self.elapsed else 0.0

    def milliseconds(self, *kinds: Kind) -> dict[str, float] | None:
        """The latencies of some kinds, or of all; None if there are none."""
        found = [self.seconds[kind] for kind in kinds or KINDS]
        return percentiles(np.concatenate([np.asarray(each) for each in found]))

    def to_dict(self) -> dict[str, object]:
        """Plain values."""
        by_kind = {kind: self.milliseconds(kind) for kind in KINDS if self.seconds[kind]}
        return {
            "requests": self.requests,
            "elapsed": self.elapsed,
            "rate": self.rate,
            "errors": self.errors,
            "milliseconds": self.milliseconds(),
            "milliseconds_by_kind": by_kind,
            "sent_late_milliseconds": percentiles(np.asarray(self.late)),
            "statuses": dict(sorted(self.statuses.items())),
            "refused_requests": dict(self.refused_requests),
            "refused_reports": dict(self.refused_reports),
            "longest_retry_after": self.longest_retry,
            "interrupted": self.interrupted,
        }


def percentiles(seconds: np.ndarray[tuple[int], np.dtype[np.float64]]) -> dict[str, float] | None:
    if not seconds.size:
        return None
    found = 1e3 * np.percentile(seconds, list(_PERCENTILES.values()), method="higher")
    return dict(zip(_PERCENTILES, found.tolist(), strict=True))


def _document(body: bytes) -> dict[str, object]:
    try:
        found = json.loads(body)
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def _kind_of(body: bytes) -> str:
    """The last word of a problem's type."""
    told = str(_document(body).get("type", "")).rpartition(":")[2]
    return told if told.isidentifier() else "unknown"


def _reasons(body: bytes) -> list[str]:
    refused = _document(body).get("refused", [])
    items = refused if isinstance(refused, list) else []
    return [str(item.get("reason")) for item in items if isinstance(item, dict)]


# ------------------------------------------------------------------------------------------ sending
#
# Requests that are sent when they are due, whether or not earlier ones were answered.
#
# People do not wait for each other. A generator that waits for an answer before it sends the next
# request asks a slow server less, and leaves out of its figures just the time in which others would
# have waited (coordinated omission; Tene, How NOT to measure latency, 2013). Here request ``i`` is
# due ``i / rate`` seconds after the first, and its latency counts from then: if all connections are
# busy it waits for one, and the wait counts.

_BEGIN = 0.05  # seconds from the last connection to the first request
_OPENED_AT_ONCE = 64
_TICK = 0.25  # seconds between two signs of progress
_AGAIN = 0.1  # seconds after a connection was refused
_GOODBYE = 2.0  # seconds for connections to close

Progress = Callable[[int], None]


class UnreachableError(ShoalError):
    """Nobody listens there."""

    def __init__(self, target: Target, why: str) -> None:
        super().__init__(
            f"cannot connect to {target.host} port {target.port}: {why}; is the shuffler there, "
            "and are fewer --connections enough?"
        )


@dataclass(frozen=True, kw_only=True)
class Load:
    """``rate`` requests a second over so many connections; ``patience`` seconds for the last."""

    rate: float
    connections: int = 64
    patience: float = 30.0

    def __post_init__(self) -> None:
        checks.positive(rate=self.rate)
        checks.count(connections=self.connections)
        checks.positive(patience=self.patience)


@dataclass(frozen=True)
class _Due:
    request: Request
    when: float


def quick_loop() -> Callable[[], asyncio.AbstractEventLoop] | None:
    """How to make the loop that the server has, where it is installed."""
    try:
        import uvloop
    except ImportError:
        return None
    return uvloop.new_event_loop


async def run(
    target: Target,
    requests: Iterable[Request],
    load: Load,
    *,
    stop: asyncio.Event | None = None,
    progress: Progress = lambda _done: None,
) -> Measured:
    """Send all requests at their time, or those that are due before ``stop`` is set."""
    sending = _Sending(target, load)
    try:
        await sending.open()
        ticking = asyncio.create_task(sending.tick(progress))
        try:
            await sending.send(requests, stop or asyncio.Event())
        finally:
            ticking.cancel()
    finally:
        await sending.close()
    progress(sending.measured.requests)
    return sending.measured


class _Sending:
    """The connections, those of them that are free, and who waits for one."""

    def __init__(self, target: Target, load: Load) -> None:
        self._target = target
        self._load = load
        self._free: deque[Connection] = deque()
        self._waiting: deque[_Due] = deque()
        self._flying: dict[Connection, _Due] = {}
        self._opening: set[asyncio.Task[None]] = set()
        self._changed = asyncio.Event()
        self._closed = False
        self._loop = asyncio.get_running_loop()
        self.measured = Measured()

    async def open(self) -> None:
        """All connections, before anything is due."""
        left = self._load.connections
        while left:
            some = min(left, _OPENED_AT_ONCE)
            made = (Connection.open(self._target, self._done) for _ in range(some))
            opened = await asyncio.gather(*made, return_exceptions=True)
            self._free.extend(found for found in opened if isinstance(found, Connection))
            for error in opened:
                if isinstance(error, OSError):
                    raise UnreachableError(self._target, error.strerror or str(error)) from error
                if isinstance(error, BaseException):
                    raise error
            left -= some

    async def send(self, requests: Iterable[Request], stop: asyncio.Event) -> None:
        """Begin each request when it is due; then wait for those that have no answer yet."""
        began = self._loop.time() + _BEGIN
        whole = 0.0  # seconds that the requests are spread over, the one after the last included
        for number, request in enumerate(requests):
            when = began + number / self._load.rate
            await self._until(when, stop)
            if stop.is_set():
                self.measured.interrupted = True
                break
            self.measured.late.append(self._loop.time() - when)
            self._begin(_Due(request, when))
            whole = (number + 1) / self._load.rate
        await self._last(stop)
        self.measured.elapsed = max(0.0, self._loop.time() - began)
        if not self.measured.interrupted:
            self.measured.elapsed = max(whole, self.measured.elapsed)
        for due in [*self._flying.values(), *self._waiting]:
            self.measured.unanswered(due.request.kind, self._loop.time() - due.when)

    async def _until(self, when: float, stop: asyncio.Event) -> None:
        """Sleep until then, or until it is to stop; who is late lets others have a turn, too."""
        early = when - self._loop.time()
        if early < _TICK:
            await asyncio.sleep(max(0.0, early))
            return
        try:
            await asyncio.wait_for(stop.wait(), early)
        except TimeoutError:
            return

    async def _last(self, stop: asyncio.Event) -> None:
        """Wait for what is on its way; who stops waits for none of it."""
        until = self._loop.time() + self._load.patience
        while (self._flying or self._waiting) and not stop.is_set():
            left = until - self._loop.time()
            if left <= 0:
                return
            self._changed.clear()
            try:
                await asyncio.wait_for(self._changed.wait(), min(left, _TICK))
            except TimeoutError:
                continue

    def _begin(self, due: _Due) -> None:
        while self._free:
            connection = self._free.popleft()
            if connection.usable:
                self._flying[connection] = due
                connection.send(self._target.head + due.request.body)
                return
            self._replace()  # the server has closed it in the meantime
        self._waiting.append(due)

    def _done(self, connection: Connection, answer: Answer | None) -> None:
        due = self._flying.pop(connection, None)
        if due is None:  # it was given up
            return
        self.measured.answered(due.request.kind, self._loop.time() - due.when, answer)
        self._changed.set()
        if connection.usable:
            self._available(connection)
        else:
            self._replace()

    def _available(self, connection: Connection) -> None:
        self._free.append(connection)
        if self._waiting:
            self._begin(self._waiting.popleft())

    def _replace(self) -> None:
        """Open another connection for one that is gone."""
        if not self._closed:
            task = self._loop.create_task(self._reopen())
            self._opening.add(task)
            task.add_done_callback(self._opening.discard)

    async def _reopen(self) -> None:
        while not self._closed:
            try:
                self._available(await Connection.open(self._target, self._done))
            except OSError:
                await asyncio.sleep(_AGAIN)
            else:
                return

    async def tick(self, progress: Progress) -> None:
        """Tell how many are done, now and then."""
        while True:
            progress(self.measured.requests)
            await asyncio.sleep(_TICK)

    async def close(self) -> None:
        """Hang up everywhere."""
        self._closed = True
        connections = [*self._free, *self._flying]
        self._flying.clear()
        for task in self._opening:
            task.cancel()
        for connection in connections:
            connection.close()
        ending = [asyncio.ensure_future(connection.ended()) for connection in connections]
        if pending := [*ending, *self._opening]:
            await asyncio.wait(pending, timeout=_GOODBYE)
        for late in ending:
            late.cancel()


# -------------------------------------------------------------------------------------- the command

_SENT = "What is sent"
_HOW = "How"
_LIMITS = "Limits: exit with 1 if one is broken"
_BROKEN = 1
_MOST = 50_000_000  # requests of one test
_MANY = 2000  # reports, from which on sealing has processes of its own
_NAMES: dict[Kind, str] = {"fresh": "new reports", "replayed": "sent before", "forged": "forged"}
_BEHIND = 20.0  # milliseconds that a generator may be late before it is told

app = typer.Typer(pretty_exceptions_enable=False)


class LoadtestOptions(BareOptions):
    """What is sent, how fast, and which limits it has to keep."""

    survey: Path = option("The file of a survey made for this test.", name="SURVEY")
    for_testing: bool = option(
        "Say so: what is sent is counted like people's reports, and nobody can tell them apart "
        "afterwards.",
        _SENT,
        name="--this-survey-is-for-testing",
    )
    rate: float = option("Requests a second.", _HOW, default=100.0)
    seconds: float = option("For how long.", _HOW, default=30.0)
    connections: int = option("Connections, all opened before it begins.", _HOW, default=64)
    to: str | None = option("Where the shuffler is, if not where the survey says.", _HOW, "URL")
    processes: int | None = option("Processes that seal reports; as many as there are cores.", _HOW)
    patience: float = option("Seconds to wait for the last answers.", _HOW, default=30.0)
    bulk: int = option("Reports in each request.", _SENT, default=1)
    forged: float = option(
        "The fraction of requests that look right and open nowhere.", _SENT, default=0.0
    )
    replays: float = option(
        "The fraction of requests that were sent before, byte for byte.", _SENT, default=0.0
    )
    p99: float | None = option("Milliseconds within which 99 of 100 have an answer.", _LIMITS)
    errors: float | None = option("The fraction of requests that may be refused or lost.", _LIMITS)
    json: bool = option("Print JSON.")

    @property
    def requests(self) -> int:
        """How many it will be."""
        return max(1, round(self.rate * self.seconds))

    @property
    def sealing(self) -> int:
        """How many processes seal."""
        return self.processes if self.processes is not None else os.cpu_count() or 1

    def check(self) -> None:
        """Refuse what makes no sense, and what would spoil a survey."""
        checks.positive(rate=self.rate, seconds=self.seconds, patience=self.patience)
        checks.count(connections=self.connections)
        checks.count(bulk=self.bulk)
        checks.count(processes=self.sealing)
        for name in ("forged", "replays", "errors"):
            value = getattr(self, name)
            if value is not None and not 0 <= value <= 1:
                raise InvalidArgumentError(name, value, "a fraction from 0 to 1")
        if self.replays and self.forged + self.replays >= 1:
            message = "--forged and --replays leave nothing to be sent a first time: lower one"
            raise RefusedError(message)
        if self.p99 is not None:
            checks.positive(p99=self.p99)
        if self.requests > _MOST:
            raise RefusedError(f"{self.requests:,} requests are too many: at most {_MOST:,}")
        if not self.for_testing:
            raise RefusedError(
                "a load test's reports are counted like people's, and change what the survey says "
                "for good: make a survey for the test, register it, and say "
                "--this-survey-is-for-testing"
            )


@dataclass(frozen=True)
class Tested:
    """What was asked, of which survey, and what came of it."""

    options: LoadtestOptions
    survey: Survey
    url: str
    measured: Measured

    @property
    def broken(self) -> list[str]:
        """The limits that were not kept, each in a few words."""
        options, latencies, broken = self.options, self.measured.milliseconds(), []
        p99 = None if latencies is None else latencies["p99"]
        if options.p99 is not None and (p99 is None or p99 > options.p99):
            text = "nothing was answered" if p99 is None else f"p99 is {p99:,.1f} ms"
            broken.append(f"{text}, above {options.p99:,g} ms")
        if options.errors is not None and self.measured.errors > options.errors:
            broken.append(f"{self.measured.errors:.2%} refused or lost, above {options.errors:.2%}")
        return broken

    def to_dict(self) -> dict[str, object]:
        asked = {name: getattr(self.options, name) for name in self.options.declared}
        asked |= {"survey": str(self.survey.id), "to": self.url}
        del asked["for_testing"], asked["json"]
        return {"asked": asked, **self.measured.to_dict(), "broken": self.broken}

    def lines(self) -> Iterator[tuple[str, str]]:
        """What is printed below the table, each line with its style."""
        measured, bulk = self.measured, self.options.bulk
        reports = f" ({measured.rate * bulk:,.0f} reports)" if bulk > 1 else ""
        rate = f"{measured.rate:,.1f} requests a second{reports}"
        yield f"answered: {rate} over {measured.elapsed:,.1f} s", ""
        yield f"answers: {_counted(measured.statuses)}", ""
        if measured.refused_requests:
            yield f"refused requests: {_counted(measured.refused_requests)}", ""
        if measured.refused_reports:
            yield f"refused reports: {_counted(measured.refused_reports)}", ""
        if measured.longest_retry is not None:
            yield f"asked to wait: up to {measured.longest_retry:,} s (Retry-After)", ""
        if measured.interrupted:
            yield "interrupted: this is what was measured until then", "yellow"
        late = percentiles(np.asarray(measured.late))
        if late is not None and late["p99"] > _BEHIND:
            behind = f"this machine sent up to {late['p99']:,.0f} ms late (p99)"
            advice = "lower --rate, or send from another machine"
            yield f"warning: {behind}, and part of the latencies is its own: {advice}", "yellow"
        if measured.refused_requests["too_many"]:
            advice = "test from its own machine, or start it with --behind-proxy for the test"
            yield f"warning: the shuffler limits what comes from one address: {advice}", "yellow"
        for limit in self.broken:
            yield f"limit broken: {limit}", "red"


@command(app)
def loadtest(options: LoadtestOptions) -> None:
    """Send reports to one's own shuffler at a fixed rate, and measure how long answers take.

    Reports are sealed before the first is sent. Latencies count from when a request was due, so
    that a server which falls behind cannot hide it. Ctrl-C ends the test and shows what was
    measured.
    """
    tested = _tested(options)
    if options.json:
        print_json(tested.to_dict())
    else:
        _show(tested)
    if tested.measured.interrupted:
        raise KeyboardInterrupt
    if tested.broken:
        raise typer.Exit(_BROKEN)


def _tested(options: LoadtestOptions) -> Tested:
    """Seal, send and measure."""
    survey = read_survey(options.survey)
    if not survey.not_before <= system_clock() <= survey.not_after:
        raise RefusedError("the survey is not open now: everything would be refused")
    most = people_a_chunk(Wire.of(survey))
    if options.bulk > most:
        raise RefusedError(f"--bulk {options.bulk}: a shuffler takes at most {most:,} of these")
    url = (options.to or survey.shuffler.url).rstrip("/")
    reports = Reports(survey, fetched_keys(survey, url), options.bulk)
    target = Target.of(f"{url}/v1/surveys/{survey.id}/reports", reports.body_bytes)
    mix = Mix(requests=options.requests, forged=options.forged, replayed=options.replays)
    bodies = mix.fresh
    processes = options.sealing if bodies * options.bulk >= _MANY else 1
    with working("sealing reports") as advance, executor(processes) as pool:
        fresh = reports.fresh(bodies, pool=pool, progress=advance)
    load = Load(rate=options.rate, connections=options.connections, patience=options.patience)
    with working("sending") as advance:
        sending = stoppable(
            target,
            mix.drawn(fresh, reports.forger()),
            load,
            progress=lambda done: advance(done, mix.requests),
        )
        with asyncio.Runner(loop_factory=quick_loop()) as runner:
            return Tested(options, survey, url, runner.run(sending))


async def stoppable(
    target: Target, requests: Iterable[Request], load: Load, *, progress: Progress
) -> Measured:
    """Ctrl-C stops it, and what was measured is not thrown away."""
    stop, loop = asyncio.Event(), asyncio.get_running_loop()
    loop.add_signal_handler(signal.SIGINT, stop.set)
    try:
        return await run(target, requests, load, stop=stop, progress=progress)
    finally:
        loop.remove_signal_handler(signal.SIGINT)


def _show(tested: Tested) -> None:
    page, options, measured = console(), tested.options, tested.measured
    reports = f", {options.bulk:,} reports in each" if options.bulk > 1 else ""
    title = f"{tested.survey.name}: {options.rate:,g} requests a second{reports}"
    page.print(printable(title), style="bold", soft_wrap=True)
    counts = {kind: len(measured.seconds[kind]) for kind in KINDS if measured.seconds[kind]}
    rows = [(_NAMES[kind], count, measured.milliseconds(kind)) for kind, count in counts.items()]
    if len(rows) > 1:
        rows.append(("all", measured.requests, measured.milliseconds()))
    cells = (
        Row((name, f"{count:,}", *(f"{value:,.1f}" for value in (latencies or {}).values())))
        for name, count, latencies in rows
    )
    headings = ("milliseconds", "requests", *_PERCENTILES)
    page.print(table(Table(headings, tuple(cells), frozenset(range(1, len(headings))))))
    for line, style in tested.lines():
        page.print(printable(line), style=style, soft_wrap=True)


def _counted(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{count:,} × {name}" for name, count in sorted(counts.items()))


if __name__ == "__main__":
    app(prog_name="loadtest.py")
