"""Requests that are sent when they are due, whether or not earlier ones were answered.

People do not wait for each other. A generator that waits for an answer before it sends the next
request asks a slow server less, and leaves out of its figures just the time in which others would
have waited (coordinated omission; Tene, How NOT to measure latency, 2013). Here request ``i`` is
due ``i / rate`` seconds after the first, and its latency counts from then: if all connections are
busy it waits for one, and the wait counts.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from shoal import checks
from shoal.errors import ShoalError
from shoal.service.loadtest.connection import Answer, Connection, Target
from shoal.service.loadtest.measured import Measured
from shoal.service.loadtest.mix import Request

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
