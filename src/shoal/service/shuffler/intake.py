"""From many requests at once to one durable commit for all of them, and only then an answer.

Requests wait in one line. A single thread takes as many as fit into a group, lets the store write
and commit them together, and wakes them. What it takes to be durable, a flush of two files, is so
paid once for a group, and whoever is answered is never lost.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import deque
from collections.abc import Sequence
from contextlib import suppress
from threading import Condition, Thread
from typing import Protocol

from shoal import checks
from shoal.service.errors import StoreBusyError, StoreUnavailableError
from shoal.service.http.problems import Observe, Problem, ProblemError, unobserved
from shoal.service.store.values import Arrival, Receipt

_log = logging.getLogger(__name__)


class Receiver(Protocol):
    """What an intake needs of a store."""

    def receive(self, arrivals: Sequence[Arrival]) -> list[Receipt]:
        """Keep all of it, durably, or raise and keep nothing."""


class _Waiting:
    """A request that waits to be answered."""

    __slots__ = ("arrivals", "future", "length", "loop")

    def __init__(self, arrivals: Sequence[Arrival], loop: asyncio.AbstractEventLoop) -> None:
        self.arrivals = arrivals
        self.length = sum([len(arrival.reports) for arrival in arrivals])
        self.loop = loop
        self.future: asyncio.Future[None] = loop.create_future()

    def wake(self, error: Exception | None) -> None:
        """In its own loop; one that was given up in the meantime needs no answer."""
        if self.future.done():
            return
        if error is None:
            self.future.set_result(None)
        else:
            self.future.set_exception(error)


class Intake:
    """The line of requests and the thread that commits them.

    A group ends at ``group_bytes``; before it begins, others have ``linger`` seconds to join.
    """

    def __init__(
        self,
        store: Receiver,
        *,
        group_bytes: int = 8 << 20,
        linger: float = 0.002,
        observe: Observe = unobserved,
    ) -> None:
        checks.non_negative(linger=linger)
        self._store = store
        self._group_bytes = checks.count(group_bytes=group_bytes)
        self._linger = linger
        self._observe = observe
        self._line: deque[_Waiting] = deque()
        self._changed = Condition()
        self._thread: Thread | None = None
        self._closed = False

    async def commit(self, arrivals: Sequence[Arrival]) -> None:
        """Return when all of it is durable; raise if it is not."""
        if not arrivals:
            return
        waiting = _Waiting(arrivals, asyncio.get_running_loop())
        with self._changed:
            if self._closed:
                raise ProblemError(_closing())
            self._line.append(waiting)
            if self._thread is None:
                self._thread = Thread(target=self._run, name="intake", daemon=True)
                self._thread.start()
            self._changed.notify()
        await waiting.future

    def close(self) -> None:
        """Commit what waits, take nothing more, and end the thread."""
        with self._changed:
            self._closed = True
            self._changed.notify()
            thread = self._thread
        if thread is not None:
            thread.join()

    def _run(self) -> None:
        while self._is_needed():
            if self._linger and not self._closed:
                time.sleep(self._linger)
            group = self._group()
            began = time.perf_counter()
            self._commit(group)
            self._measured(time.perf_counter() - began)

    def _measured(self, seconds: float) -> None:
        try:
            self._observe("commit_seconds", seconds, "")
        except Exception:  # noqa: BLE001 - people wait for this thread, whoever else fails
            _log.warning("not_observed", exc_info=True)

    def _is_needed(self) -> bool:
        with self._changed:
            self._changed.wait_for(lambda: self._line or self._closed)
            return bool(self._line)

    def _group(self) -> list[_Waiting]:
        with self._changed:
            group = [self._line.popleft()]
            length = group[0].length
            while self._line and length + self._line[0].length <= self._group_bytes:
                group.append(self._line.popleft())
                length += group[-1].length
            return group

    def _commit(self, group: list[_Waiting]) -> None:
        try:
            self._store.receive([arrival for waiting in group for arrival in waiting.arrivals])
        except Exception as error:  # noqa: BLE001 - whoever waits must be told, whatever it was
            if len(group) == 1 or _concerns_all(error):
                _wake(group, error)
                return
            # One of them is to blame; the others are innocent.
            _log.warning("group_divided", extra={"count": len(group)}, exc_info=True)
            for waiting in group:
                self._commit([waiting])
        else:
            _wake(group, None)


def _concerns_all(error: Exception) -> bool:
    """The store is gone for everybody, unless somebody holds what one of them needs."""
    return isinstance(error, StoreUnavailableError) and not isinstance(error, StoreBusyError)


def _wake(group: Sequence[_Waiting], error: Exception | None) -> None:
    by_loop: dict[asyncio.AbstractEventLoop, list[_Waiting]] = {}
    for waiting in group:
        by_loop.setdefault(waiting.loop, []).append(waiting)
    for loop, waiting_here in by_loop.items():
        with suppress(RuntimeError):  # the loop has ended, and with it whoever waited
            loop.call_soon_threadsafe(_wake_all, waiting_here, error)


def _wake_all(group: Sequence[_Waiting], error: Exception | None) -> None:
    for waiting in group:
        waiting.wake(error)


def _closing() -> Problem:
    return Problem(
        kind="closing",
        status=503,
        detail="the service is being stopped; send the same bytes again later",
        retry_after=5,
        close=True,
    )
