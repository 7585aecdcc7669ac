"""Work on many records in several processes of this machine.

The processes are started when they are first needed, import what they are handed and no more, and
end with this process however it ends: each of them watches for that.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import BrokenExecutor, Executor, Future, ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing import connection
from threading import Lock, Thread
from typing import Generic, TypeVar

from shoal import checks
from shoal.service.closing import Closing
from shoal.service.errors import ServiceError

Given = TypeVar("Given")
Made = TypeVar("Made")

_ATTEMPTS = 2  # a process that was killed from outside is replaced once


class ProcessesLostError(ServiceError):
    """The processes that should do the work keep dying."""

    def __init__(self) -> None:
        super().__init__(
            "the processes that do the work were killed twice; "
            "look for a lack of memory, or work with fewer of them"
        )


@dataclass(frozen=True, eq=False)
class _Task(Generic[Given, Made]):
    piece: Given
    executor: ProcessPoolExecutor
    future: Future[Made]


class Processes(Closing):
    """So many processes; with 0 or 1 the work is done in this one."""

    def __init__(self, processes: int = 0) -> None:
        self._processes = checks.count(0, processes=processes)
        self._executor: ProcessPoolExecutor | None = None
        self._lock = Lock()

    @property
    def width(self) -> int:
        """How many pieces are worked on at once."""
        return max(1, self._processes)

    def map(self, work: Callable[[Given], Made], pieces: Iterable[Given]) -> Iterator[Made]:
        """``work(piece)`` of all pieces, in their order.

        No more pieces are taken than are worked on or wait next, so that memory stays flat.
        """
        if self.width == 1:
            yield from map(work, pieces)
            return
        waiting: deque[_Task[Given, Made]] = deque()
        for piece in pieces:
            waiting.append(self._started(work, piece))
            if len(waiting) > 2 * self.width:
                yield self._finished(work, waiting.popleft())
        while waiting:
            yield self._finished(work, waiting.popleft())

    def _started(self, work: Callable[[Given], Made], piece: Given) -> _Task[Given, Made]:
        executor = self._running()
        try:
            return _Task(piece, executor, executor.submit(work, piece))
        except BrokenExecutor:
            self._end(executor)
            executor = self._running()
            return _Task(piece, executor, executor.submit(work, piece))

    def _finished(self, work: Callable[[Given], Made], task: _Task[Given, Made]) -> Made:
        for _ in range(_ATTEMPTS):
            try:
                return task.future.result()
            except BrokenExecutor:
                self._end(task.executor)
                task = self._started(work, task.piece)
        self._end(task.executor)
        raise ProcessesLostError

    def _running(self) -> ProcessPoolExecutor:
        with self._lock:
            if self._executor is None:
                self._executor = _spawned(self._processes)
            return self._executor

    def close(self) -> None:
        """End the processes; later work starts new ones."""
        if self._executor is not None:
            self._end(self._executor)

    def _end(self, executor: ProcessPoolExecutor) -> None:
        """End these processes, and forget them unless others took their place already."""
        with self._lock:
            if self._executor is executor:
                self._executor = None
        executor.shutdown(wait=True, cancel_futures=True)


@contextmanager
def executor(processes: int) -> Iterator[Executor | None]:
    """So many processes while this lasts; where one is asked for, this one is enough."""
    if checks.count(processes=processes) == 1:
        yield None
        return
    made = _spawned(processes)
    try:
        yield made
    finally:
        made.shutdown(wait=True, cancel_futures=True)


def _spawned(processes: int) -> ProcessPoolExecutor:
    context = multiprocessing.get_context("spawn")
    return ProcessPoolExecutor(processes, mp_context=context, initializer=_end_with_parent)


def _end_with_parent() -> None:
    """Leave interrupts to the parent, and do not outlive it."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    parent = multiprocessing.parent_process()
    if parent is not None:
        Thread(target=_watch, args=(parent.sentinel,), daemon=True).start()


def _watch(sentinel: int) -> None:
    connection.wait([sentinel])
    os._exit(1)
