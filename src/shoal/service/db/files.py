"""Files that are durable before anybody relies on them, and names that tell nothing."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from shoal import randomness
from shoal.service.errors import StoreUnavailableError
from shoal.service.keyring import secrets

LEAST_FREE = 64 << 20  # bytes; below, nothing more is taken in
_FRESH = 1.0  # seconds
_NAME_WORDS = 2  # 128 bits
sync_data = getattr(os, "fdatasync", os.fsync)  # waits until a file's bytes are on the disk
sync_directory = secrets.sync_directory  # and until the names in a directory are


def fresh_name() -> str:
    """32 hexadecimal digits that nobody had before and nobody can guess."""
    return randomness.secure().words(_NAME_WORDS).tobytes().hex()


@contextmanager
def disk(doing: str) -> Iterator[None]:
    """What the disk refuses is a store that is not available."""
    try:
        yield
    except OSError as error:
        raise StoreUnavailableError(doing, error.strerror or str(error)) from error


def create_directory(path: Path) -> Path:
    """A directory for nobody else, there after a crash too."""
    with disk("making a directory"):
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
        sync_directory(path.parent)
    return path


def create(path: Path) -> int:
    """A new file for nobody else, open for writing."""
    flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
    return os.open(path, flags, 0o600)


def write_all(file: int, pieces: Iterable[bytes]) -> None:
    """All bytes, however few the system takes at a time."""
    rest = memoryview(b"".join(pieces))
    while rest:
        rest = rest[os.write(file, rest) :]


def forget_time(file: int) -> None:
    """Say nothing about when a file was written; when it last changed the system tells still."""
    os.utime(file, (0, 0))


def write_durably(path: Path, data: bytes) -> None:
    """A new file whose bytes are on the disk; its name is, once its directory is synced."""
    file = create(path)
    try:
        write_all(file, [data])
        forget_time(file)
        os.fsync(file)
    finally:
        os.close(file)


def remove(paths: Iterable[Path]) -> int:
    """Delete files that may be gone already; how many were there."""
    removed = 0
    for path in paths:
        try:
            path.unlink()
        except FileNotFoundError:
            continue
        removed += 1
    return removed


@dataclass
class DiskSpace:
    """Whether a directory's disk has enough free bytes, looked at once a second.

    What is taken in needs as much again to become a batch.
    """

    directory: Path
    least: int = LEAST_FREE
    _enough: bool = field(default=True, init=False)
    _until: float = field(default=0.0, init=False)

    def check(self) -> None:
        """Refuse to take more in while there is too little."""
        if time.monotonic() >= self._until:
            with disk("looking for space"):
                self._enough = shutil.disk_usage(self.directory).free >= self.least
            self._until = time.monotonic() + _FRESH
        if not self._enough:
            raise StoreUnavailableError(
                "taking reports in", "there is too little space on the disk"
            )
