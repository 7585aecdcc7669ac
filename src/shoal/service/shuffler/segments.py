"""Sealed reports as they came: files that only grow, and are deleted whole.

Every process appends to a file of its own, and holds a lock on it from before the bytes are written
until the transaction that refers to them has ended. Whoever collects takes the lock first and looks
at the references afterwards. The lock ends with its process, and a server may go on committing what
a dead process asked for: so a transaction that a server still has is asked for too (``busy``), and
a file goes only after nobody referred to it for a while. A file deleted between two appends is
noticed, and another one begun.
"""

from __future__ import annotations

import fcntl
import os
import threading
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from hashlib import sha256
from itertools import groupby
from pathlib import Path

from shoal import checks
from shoal.service.clock import HOUR, Clock, GracePeriod
from shoal.service.db import files
from shoal.service.errors import MissingFileError, UnreadableError

Append = Callable[[Sequence[bytes]], "Extent"]
Busy = Callable[[Collection[str]], set[str]]
LARGEST = 64 << 20
OLDEST = 600
_SUFFIX = ".segment"
_AT_ONCE = 64  # files that a collection holds open


@dataclass(frozen=True)
class Extent:
    """A stretch of a segment."""

    segment: str
    start: int
    bytes: int


class Segments:
    """The segments of a directory; this process appends to one of them.

    A new one is begun after ``largest`` bytes or ``oldest`` seconds, so that what was opened long
    ago is not kept for the sake of what came later. One that nobody refers to is kept for ``grace``
    seconds more.
    """

    def __init__(
        self,
        directory: Path,
        clock: Clock,
        *,
        largest: int = LARGEST,
        oldest: int = OLDEST,
        grace: float = HOUR,
    ) -> None:
        self._directory = files.create_directory(directory)
        self._clock = clock
        self._largest = checks.count(largest=largest)
        self._oldest = checks.count(oldest=oldest)
        self._grace: GracePeriod[str] = GracePeriod(grace)
        self._mutex = threading.Lock()
        self._file = -1
        self._name = ""
        self._begun = 0

    @contextmanager
    def appending(self) -> Iterator[Append]:
        """Within: a function that appends pieces and returns when they are on the disk.

        The transaction that refers to them has to end within, too.
        """
        with self._mutex:
            try:
                yield self._append
            finally:
                if self._file >= 0:
                    fcntl.flock(self._file, fcntl.LOCK_UN)

    def read(self, extent: Extent) -> bytes:
        """The bytes of an extent."""
        expected = f"{extent.bytes} bytes from {extent.start}"
        path = self._path(extent.segment)
        if not path.exists():
            raise MissingFileError(extent.segment, expected)
        with files.disk("reading reports"), path.open("rb") as file:
            file.seek(extent.start)
            data = file.read(extent.bytes)
        if len(data) != extent.bytes:
            raise UnreadableError(extent.segment, expected)
        return data

    def erase(self, extents: Iterable[Extent]) -> None:
        """Write zeros over extents that nobody refers to any more."""
        with files.disk("erasing reports"):
            for name, stretches in groupby(sorted(extents, key=_segment), key=_segment):
                try:
                    file = os.open(self._path(name), os.O_WRONLY | os.O_CLOEXEC)
                except FileNotFoundError:
                    continue
                try:
                    size = os.fstat(file).st_size
                    for each in stretches:
                        length = min(each.bytes, size - each.start)  # it may have been cut short
                        os.pwrite(file, bytes(max(0, length)), each.start)
                    files.forget_time(file)
                    files.sync_data(file)
                finally:
                    os.close(file)

    def collect(self, live: Callable[[], set[str]], busy: Busy = lambda _: set()) -> int:
        """Delete the segments that nobody refers to; how many.

        ``live`` tells which are referred to, and is asked again once their files are locked;
        before that, ``busy`` tells which of some a transaction may be about to refer to.
        """
        with files.disk("deleting segments"):
            idle = sorted(self._grace.over(self._names() - live()))
            starts = range(0, len(idle), _AT_ONCE)
            parts = (idle[start : start + _AT_ONCE] for start in starts)
            return sum(self._collect(part, live, busy) for part in parts)

    def close(self) -> None:
        """Let go of the file; the next append begins another."""
        with self._mutex:
            self._abandon()

    def _collect(self, names: list[str], live: Callable[[], set[str]], busy: Busy) -> int:
        with ExitStack() as held:
            locked = [name for name in names if self._lock_for_deletion(name, held)]
            if not locked:
                return 0
            needed = busy(locked)
            needed |= live()  # after the other: what ended in between is referred to now
            return files.remove(self._path(name) for name in locked if name not in needed)

    def _lock_for_deletion(self, name: str, held: ExitStack) -> bool:
        try:
            # Writable: some network file systems lock nothing else.
            file = os.open(self._path(name), os.O_RDWR | os.O_CLOEXEC)
        except FileNotFoundError:
            return False
        held.callback(os.close, file)
        return _locked(file)

    def _append(self, pieces: Sequence[bytes]) -> Extent:
        with files.disk("appending reports"):
            self._hold()
            start = os.lseek(self._file, 0, os.SEEK_END)
            try:
                files.write_all(self._file, pieces)
                files.forget_time(self._file)
                files.sync_data(self._file)
            except OSError:
                # What a file holds after a failed sync is anybody's guess: never append to it.
                self._give_up(start)
                raise
            end = os.lseek(self._file, 0, os.SEEK_CUR)
            return Extent(self._name, start, end - start)

    def _hold(self) -> None:
        """Lock the file of this process; a new one if it is full, old, taken or deleted."""
        if self._file >= 0 and not (_locked(self._file) and self._usable()):
            self._abandon()
        while self._file < 0:
            name = files.fresh_name()
            self._file, self._name, self._begun = (
                files.create(self._path(name)),
                name,
                self._clock(),
            )
            if _locked(self._file) and self._usable():
                self._sync_name()
            else:  # a collection was quicker
                self._abandon()

    def _sync_name(self) -> None:
        try:
            files.sync_directory(self._directory)
        except OSError:
            # Nobody would sync it again before the next append is acknowledged.
            self._give_up(0)
            raise

    def _usable(self) -> bool:
        status = os.fstat(self._file)
        young = abs(self._clock() - self._begun) < self._oldest
        return status.st_nlink > 0 and status.st_size < self._largest and young

    def _give_up(self, start: int) -> None:
        with suppress(OSError):
            if start:
                os.ftruncate(self._file, start)
            else:
                self._path(self._name).unlink()
        self._abandon()

    def _abandon(self) -> None:
        if self._file >= 0:
            os.close(self._file)
            self._file = -1

    def _names(self) -> set[str]:
        return {path.stem for path in self._directory.glob(f"*{_SUFFIX}")}

    def _path(self, name: str) -> Path:
        return self._directory / f"{name}{_SUFFIX}"


def lock_number(segment: str) -> int:
    """The number of a segment's lock in a server: 64 bits of a hash, with a sign."""
    return int.from_bytes(sha256(segment.encode()).digest()[:8], signed=True)


def _segment(extent: Extent) -> str:
    return extent.segment


def _locked(file: int) -> bool:
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
