"""Sealed reports as they came: files that only grow, until their reports are gathered.

Every process appends to a file of its own, and holds a lock on it from before the bytes are written
until the transaction that refers to them has ended. Whoever erases or collects takes the lock first
and looks at the references afterwards. The lock ends with its process, and a server may go on
committing what a dead process asked for: so a transaction that a server still has counts, too. A
file deleted between two appends is noticed, and another one begun.

What was gathered is erased at once: a file that nobody refers to is deleted, and of others the
gathered stretches become zeros. A file that a crash left goes after nobody referred to it for a
while.
"""

from __future__ import annotations

import fcntl
import os
import threading
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

from shoal import checks
from shoal.service.clock import HOUR, Clock, GracePeriod
from shoal.service.db import files
from shoal.service.errors import MissingFileError, UnreadableError

Append = Callable[[Sequence[bytes]], "Extent"]
Needed = Callable[[Collection[str]], set[str]]  # segments that are referred to, or may be soon
LARGEST = 64 << 20
OLDEST = 600
_SUFFIX = ".segment"


@dataclass(frozen=True)
class Extent:
    """A stretch of a segment."""

    segment: str
    start: int
    bytes: int


class Segments:
    """The segments of a directory; this process appends to one of them.

    A new one is begun after ``largest`` bytes or ``oldest`` seconds, so that what was opened long
    ago is not kept for the sake of what came later. One that a crash left is kept for ``grace``
    seconds.
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

    def erase(
        self, extents: Iterable[Extent], needed: Needed, *, wait: bool = False
    ) -> list[Extent]:
        """Erase extents that nobody refers to any more; those in segments that others have locked.

        A segment that is not ``needed`` is deleted. With ``wait`` no extent is left.
        """
        stretches: dict[str, list[Extent]] = defaultdict(list)
        for each in extents:
            stretches[each.segment].append(each)
        left: list[Extent] = []
        with files.disk("erasing reports"):
            for name in sorted(stretches):
                with self._locked(name, wait=wait) as file:
                    if file is None:
                        left += stretches[name] if self._path(name).exists() else []
                    elif name in needed([name]):
                        _overwrite(file, stretches[name])
                    else:
                        files.remove([self._path(name)])
        return left

    def collect(self, needed: Needed) -> int:
        """Delete the segments that nobody has needed for a while; how many.

        ``needed`` is asked again of every one once its file is locked.
        """
        with files.disk("deleting segments"):
            names = {path.stem for path in self._directory.glob(f"*{_SUFFIX}")}
            collected = 0
            for name in sorted(self._grace.over(names - needed(names))):
                with self._locked(name) as file:
                    if file is not None and name not in needed([name]):
                        collected += files.remove([self._path(name)])
            return collected

    def close(self) -> None:
        """Let go of the file; the next append begins another."""
        with self._mutex:
            self._abandon()

    @contextmanager
    def _locked(self, name: str, *, wait: bool = False) -> Iterator[int | None]:
        """A segment's open file, locked; None if it is gone, or others have it."""
        try:
            # Writable: some network file systems lock nothing else.
            file = os.open(self._path(name), os.O_RDWR | os.O_CLOEXEC)
        except FileNotFoundError:
            yield None
            return
        try:
            yield file if _lock(file, wait=wait) else None
        finally:
            os.close(file)

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
        if self._file >= 0 and not (_lock(self._file) and self._usable()):
            self._abandon()
        while self._file < 0:
            name = files.fresh_name()
            self._file, self._name, self._begun = (
                files.create(self._path(name)),
                name,
                self._clock(),
            )
            if _lock(self._file) and self._usable():
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

    def _path(self, name: str) -> Path:
        return self._directory / f"{name}{_SUFFIX}"


def lock_number(segment: str) -> int:
    """The number of a segment's lock in a server: 64 bits of a hash, with a sign."""
    return int.from_bytes(sha256(segment.encode()).digest()[:8], signed=True)


def _overwrite(file: int, stretches: Iterable[Extent]) -> None:
    """Write zeros over stretches of a file, which may have been cut short."""
    size = os.fstat(file).st_size
    for each in stretches:
        os.pwrite(file, bytes(max(0, min(each.bytes, size - each.start))), each.start)
    files.forget_time(file)
    files.sync_data(file)


def _lock(file: int, *, wait: bool = False) -> bool:
    try:
        fcntl.flock(file, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
    except BlockingIOError:
        return False
    return True
