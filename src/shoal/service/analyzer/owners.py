"""Who is alive: a collector that died is told from one that takes its time.

A lease in the database protects a batch for minutes, wherever its owner is. On one machine there is
a quicker sign: every collector holds a lock on a file of its own, and the system frees the locks
of the dead. An owner whose file is there and not locked is dead: the file gets its name once it is
locked.
"""

from __future__ import annotations

import fcntl
import os
from contextlib import suppress
from pathlib import Path

from shoal.service.store.files import create, disk, fresh_name

_SUFFIX = ".owner"
_UNBORN = ".unborn"


class Owner:
    """A name that is alive as long as this object, or its process, is."""

    def __init__(self, directory: Path) -> None:
        self.name = fresh_name()
        self._directory = directory
        self._path = directory / f"{self.name}{_SUFFIX}"
        with disk("locking a file"):
            unborn = self._path.with_suffix(_UNBORN)
            self._handle: int | None = create(unborn)
            fcntl.flock(self._handle, fcntl.LOCK_EX)
            unborn.rename(self._path)

    def dead(self) -> list[str]:
        """The names of others that are not alive any more, on this machine."""
        others = self._directory.glob(f"*{_SUFFIX}")
        return [path.stem for path in others if path != self._path and _is_free(path)]

    def bury(self, names: list[str]) -> None:
        """Forget the dead, once nothing is theirs."""
        for name in names:
            (self._directory / f"{name}{_SUFFIX}").unlink(missing_ok=True)

    def close(self) -> None:
        """Be dead, without leaving a file."""
        if self._handle is not None:
            self._path.unlink(missing_ok=True)
            os.close(self._handle)
            self._handle = None


def _is_free(path: Path) -> bool:
    with suppress(OSError):  # gone, or locked
        handle = os.open(path, os.O_RDWR | os.O_CLOEXEC)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            return False
        finally:
            os.close(handle)
        return True
    return False
