"""Opening many envelopes at once: whole reports for the shuffler, single records for the analyzer.

What does not open is counted and left out, and never stops the rest. A shuffler's reports come back
in a fresh random order, so that what is kept of them says nothing about the order they came in.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
from collections import Counter, defaultdict, deque
from collections.abc import Callable, Collection, Iterable, Iterator
from concurrent.futures import BrokenExecutor, Executor, Future, ProcessPoolExecutor
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, replace
from functools import partial
from hashlib import sha256
from itertools import pairwise
from multiprocessing import connection
from threading import Lock, Thread
from typing import Generic, TypeVar

import numpy as np
import numpy.typing as npt

from shoal import checks, randomness
from shoal.errors import InvalidArgumentError, ShoalError
from shoal.sealing import Envelope, KeyPair, MalformedError, PublicKey
from shoal.service.wire import HEADER_BYTES, VERSION, Section, Wire

TAG_BYTES = 16
CHUNK = 2000  # envelopes handed to a process at a time

Rows = npt.NDArray[np.uint8]
Given = TypeVar("Given")
Made = TypeVar("Made")

_ATTEMPTS = 2  # a process that was killed from outside is replaced once


class ProcessesLostError(ShoalError):
    """The processes that should do the work keep dying."""

    def __init__(self) -> None:
        super().__init__(
            "the worker processes were killed twice; check for a lack of memory, or use "
            "fewer of them"
        )


@dataclass(frozen=True, eq=False)
class _Task(Generic[Given, Made]):
    piece: Given
    executor: ProcessPoolExecutor
    future: Future[Made]


@dataclass(frozen=True, eq=False)
class OpenedReports:
    """Sealed messages of whole reports, by the number of the analyzer's key that opens them.

    ``by_key`` has the records of ``counts[key]`` reports, section after section, each in an order
    that means nothing; ``rejected`` reports did not open; ``unopened`` are they, one after the
    other.
    """

    by_key: dict[int, bytes]
    counts: dict[int, int]
    rejected: int
    unopened: bytes = b""


@dataclass(frozen=True, eq=False)
class OpenedRecords:
    """Messages of a batch, a row of bytes each, in the order of the records that open.

    ``opens`` says of each record whether it does.
    """

    messages: Rows
    opens: npt.NDArray[np.bool_]


class Pool(AbstractContextManager["Pool"]):
    """Opens envelopes in so many processes; with 0 or 1 in this one.

    ``width`` is how many pieces are worked on at once.
    """

    def __init__(self, processes: int = 0) -> None:
        self.width = max(1, checks.count(0, processes=processes))
        self._executor: ProcessPoolExecutor | None = None
        self._lock = Lock()

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
                self._executor = _spawned(self.width)
            return self._executor

    def __exit__(self, *_: object) -> None:
        if self._executor is not None:
            self._end(self._executor)

    def _end(self, executor: ProcessPoolExecutor) -> None:
        """End these processes, and forget them unless others took their place already."""
        with self._lock:
            if self._executor is executor:
                self._executor = None
        executor.shutdown(wait=True, cancel_futures=True)

    def open_reports(
        self,
        wire: Wire,
        pair: KeyPair,
        body: bytes,
        *,
        known: Collection[int] | None = None,
    ) -> OpenedReports:
        """The reports of a body, which has one or more of them, opened with the shuffler's key.

        If the analyzer's keys are ``known``, what is for another is rejected, too.
        """
        opened = list(self._opened(wire.outer, pair, body))
        lengths = np.array([-1 if sealed is None else len(sealed) for sealed in opened])
        fits = np.zeros(len(opened), dtype=bool)
        parts: dict[int, list[bytes]] = defaultdict(list)
        counts: Counter[int] = Counter()
        for length in np.unique(lengths).tolist():  # one, unless slots may be left out
            sections, places = wire.sections_of(length), np.flatnonzero(lengths == length)
            if not sections:
                continue
            rows = _rows([opened[place] or b"" for place in places], length)
            # Of every section the records of each report.
            cut = [
                rows[:, each.start : each.end].reshape(len(rows), each.slots, each.record_bytes)
                for each in sections
            ]
            heads = np.concatenate([records[:, :, :HEADER_BYTES] for records in cut], axis=1)
            # A report whose messages are for several keys would tell them from others.
            alike = (heads == heads[:, :1]).all(axis=(1, 2)) & (heads[:, 0, 0] == VERSION)
            keys = heads[:, 0, 1]
            if known is not None:
                alike &= np.isin(keys, np.array(sorted(known), dtype=np.int64))
            fits[places] = alike
            for key in np.unique(keys[alike]).tolist():
                mine = alike & (keys == key)
                # Every section in an order of its own.
                parts[key].append(b"".join(_mixed(records[mine]).tobytes() for records in cut))
                counts[key] += int(mine.sum())
        by_key = {key: b"".join(parts[key]) for key in sorted(parts)}
        if wire.absent is not None:  # they come by their sizes, which no order shows
            size = wire.sections[0].record_bytes
            by_key = {key: _mixed(_rows([each], size)).tobytes() for key, each in by_key.items()}
        return OpenedReports(
            by_key=by_key,
            counts=dict(counts),
            rejected=len(fits) - int(fits.sum()),
            unopened=_rows([body], wire.report_bytes)[~fits].tobytes(),
        )

    def seal_copies(
        self, section: Section, message: bytes, key: PublicKey, copies: int
    ) -> Iterator[bytes]:
        """So many records of one message, sealed each by itself."""
        numbers = [CHUNK] * (copies // CHUNK) + [copies % CHUNK]
        yield from self.map(partial(_copies, section, message, key), filter(None, numbers))

    def open_records(self, section: Section, pair: KeyPair, body: bytes) -> OpenedRecords:
        """The records of a body, which has one or more of them, opened with the analyzer's key."""
        size = section.message_bytes
        opened = [
            message if message is not None and len(message) == size else None
            for message in self._opened(section.inner, pair, body, details=section.context)
        ]
        return OpenedRecords(
            messages=_rows([each for each in opened if each is not None], size),
            opens=np.array([each is not None for each in opened]),
        )

    def _opened(
        self, envelope: Envelope, pair: KeyPair, body: bytes, *, details: bytes = b""
    ) -> Iterator[bytes | None]:
        if not body or len(body) % envelope.size:
            raise MalformedError(
                f"a body of {len(body)} bytes", f"one or more records of {envelope.size}"
            )
        work = partial(envelope.open_all, pair=pair, details=details)
        for part in self.map(work, _pieces(body, envelope.size, self.width)):
            yield from part


def _copies(section: Section, message: bytes, key: PublicKey, number: int) -> bytes:
    rows = np.tile(np.frombuffer(message, dtype=np.uint8), (number, 1))
    return replace(section, slots=number).seal(rows, key)


def tags_of(body: bytes | memoryview, size: int) -> list[bytes]:
    """What reports or records of this size are known by, in their order: equal ones are the same.

    16 bytes of the SHA-256 of each.
    """
    if not body or len(body) % size:
        raise InvalidArgumentError("reports", len(body), f"one or more reports of {size} bytes")
    view = memoryview(body)
    return [sha256(view[at : at + size]).digest()[:TAG_BYTES] for at in range(0, len(body), size)]


def _pieces(body: bytes, size: int, width: int) -> Iterator[bytes]:
    """Parts of nearly equal numbers of envelopes, enough for all processes, none too large."""
    total = len(body) // size
    parts = min(total, max(width, -(-total // CHUNK)))
    ends = [size * (total * part // parts) for part in range(parts + 1)]
    for start, end in pairwise(ends):
        yield body[start:end]


def _rows(parts: list[bytes], length: int) -> Rows:
    return np.frombuffer(b"".join(parts), dtype=np.uint8).reshape(-1, length)


def _mixed(rows: Rows) -> Rows:
    return rows[randomness.secure().permutation(len(rows))]


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
