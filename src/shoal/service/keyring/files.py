"""Files for one owner's eyes: written whole or not at all, one writer at a time, shredded at last.

Shredding writes random bytes over a file before its name goes. On a disk that writes in place that
destroys it. A solid state disk, a file system that copies on write, a snapshot or a backup keeps
what was there before; against those, only encryption with a secret kept elsewhere helps.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import stat
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from shoal.service.keyring.errors import KeyringBusyError, KeyringError, UnsafePermissionsError
from shoal.service.keyring.identity import fresh_bytes

FILE_MODE, DIRECTORY_MODE = 0o600, 0o700
LARGEST_FILE = 1 << 20
LOCK = "lock"
TEMPORARY = ".new"
_OTHERS = 0o077
_GROUP_READS = 0o040
_ROOT = 0
_PATIENCE, _PAUSE = 30.0, 0.02


def exposed(path: Path) -> int | None:
    """The mode of a file or directory, if others may read or change it."""
    found = path.stat()
    mode = stat.S_IMODE(found.st_mode)
    others = mode & _OTHERS
    if others == _GROUP_READS and found.st_uid == _ROOT and _is_credential(path):
        return None
    return mode if others else None


def _is_credential(path: Path) -> bool:
    """Whether systemd handed the file to this process (``LoadCredential``).

    It is root's then, and an access control list lets the service's user read it: the rights of
    whoever the list names are shown as the group's, which has none.
    """
    handed = os.environ.get("CREDENTIALS_DIRECTORY")
    return handed is not None and path.resolve().parent == Path(handed).resolve()


def check_private(path: Path, *, known: str | None = None) -> None:
    """Refuse a file or directory that others may read or change; ``known`` is what is in it."""
    mode = exposed(path)
    if mode is not None:
        advised = DIRECTORY_MODE if path.is_dir() else FILE_MODE
        raise UnsafePermissionsError(path, mode, advised, known)


def read_private(path: Path, *, known: str | None = None) -> bytes:
    """The content of a file that nobody else may read; ``known`` names it, if it is not keys."""
    try:
        check_private(path, known=known)
        with path.open("rb") as source:
            content = source.read(LARGEST_FILE + 1)
    except OSError as error:
        raise KeyringError(f"cannot read {path}: {error.strerror or error}") from error
    if len(content) > LARGEST_FILE:
        raise KeyringError(f"cannot read {path}: it has more than {LARGEST_FILE} bytes")
    return content


def write_private(path: Path, content: bytes) -> None:
    """Put a file there, whole and durable; whatever had its name is replaced in one step."""
    temporary = path.with_name(path.name + TEMPORARY)
    try:
        shred(temporary)  # what a process that died here left behind
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
        with os.fdopen(os.open(temporary, flags, FILE_MODE), "wb") as target:
            target.write(content)
            target.flush()
            os.fsync(target.fileno())
        temporary.replace(path)
        sync_directory(path.parent)
    except OSError as error:
        raise KeyringError(f"cannot write {path}: {error.strerror or error}") from error


def shred(path: Path) -> None:
    """Write over a file and remove it; one that is gone already is no error."""
    try:
        with path.open("r+b") as target:
            target.write(fresh_bytes(path.stat().st_size))
            target.flush()
            os.fsync(target.fileno())
        path.unlink()
        sync_directory(path.parent)
    except FileNotFoundError:
        return
    except OSError as error:
        raise KeyringError(f"cannot shred {path}: {error.strerror or error}") from error


def sync_directory(path: Path) -> None:
    """Make names in a directory durable."""
    handle = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def make_directory(path: Path) -> None:
    """A directory for its owner alone, and so whatever it is in that is not there yet."""
    missing = [each for each in (path, *path.parents) if not each.exists()]
    for each in reversed(missing):
        each.mkdir(mode=DIRECTORY_MODE, exist_ok=True)


@contextmanager
def new_directory(directory: Path) -> Iterator[Path]:
    """A directory that is there complete, or not at all."""
    if directory.exists() and (not directory.is_dir() or any(directory.iterdir())):
        raise KeyringError(f"{directory} is not empty; keys go into a directory of their own")
    try:
        make_directory(directory.parent)
        place = Path(tempfile.mkdtemp(prefix=f".{directory.name}-", dir=directory.parent))
    except OSError as error:
        raise KeyringError(f"cannot write to {directory}: {error.strerror or error}") from error
    try:
        yield place
        place.replace(directory)
        sync_directory(directory.parent)
    except OSError as error:
        raise KeyringError(f"cannot write to {directory}: {error.strerror or error}") from error
    except KeyringError as error:  # under the name that was asked for
        raise KeyringError(str(error).replace(str(place), str(directory))) from error
    finally:
        shutil.rmtree(place, ignore_errors=True)


@contextmanager
def locked(path: Path, *, patience: float = _PATIENCE) -> Iterator[None]:
    """Alone among all threads and processes that lock this file; the system frees dead ones."""
    try:
        handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, FILE_MODE)
    except OSError as error:
        raise KeyringError(f"cannot lock {path}: {error.strerror or error}") from error
    try:
        _wait_for(handle, path, patience)
        yield
    finally:
        os.close(handle)


def _wait_for(handle: int, path: Path, patience: float) -> None:
    deadline = time.monotonic() + patience
    while True:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() > deadline:
                raise KeyringBusyError(path, patience) from None
            time.sleep(_PAUSE)
        else:
            return
