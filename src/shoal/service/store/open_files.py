"""Whether the files of an SQLite database are still those that are open.

Whoever has a file open goes on with it after its name is gone, or has become another file's. What
is committed then is on the disk until the process ends, and nowhere afterwards. So the names are
compared with what was there when the first connection opened them: two looks at a directory for
each transaction that writes.

The write-ahead log can be compared like the database. It is the same file for as long as any
connection is open: checkpoints shorten it at most, and whoever closes last removes it only if they
can lock the database, on which every connection holds a lock. What somebody does inside a file
(cuts it short, writes over it) is not noticed.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path
from threading import Lock
from typing import TypeAlias

from shoal.service.errors import StoreUnavailableError

LOG = "-wal"
_Identity: TypeAlias = "tuple[int, int] | None"


@dataclass
class OpenFiles:
    """A database, its log, and which connections of this process have them open."""

    path: Path
    _log_path: str = field(default="", init=False)
    _lock: Lock = field(default_factory=Lock, init=False)
    _connections: set[int] = field(default_factory=set, init=False)
    _database: _Identity = field(default=None, init=False)
    _log: _Identity = field(default=None, init=False)

    def __post_init__(self) -> None:
        self.path = self.path.absolute()
        self._log_path = f"{self.path.resolve()}{LOG}"  # beside the file itself, not a link to it

    def opened(self, connection: object) -> None:
        """A connection was opened, and has read from the database."""
        with self._lock:
            if not self._connections:  # nothing was open before: whatever is there counts
                self._database, self._log = self._found()
            self._connections.add(id(connection))

    def closed(self, connection: object) -> None:
        """A connection was closed."""
        with self._lock:
            self._connections.discard(id(connection))

    def check(self, doing: str) -> None:
        """Refuse to go on with files that are gone, or have others in their place."""
        with self._lock:
            if not self._connections:
                return
            database, log = self._found()
            known = self._database, self._log
        if database != known[0]:
            _refuse(doing, self.path.name)
        if known[1] is not None and log != known[1]:  # None: a disk that has no such logs
            _refuse(doing, self.path.name + LOG)

    def _found(self) -> tuple[_Identity, _Identity]:
        return _identity(str(self.path)), _identity(self._log_path)


def _identity(path: str) -> _Identity:
    try:
        status = os.stat(path)  # noqa: PTH116 - at every commit, and quicker than a Path
    except OSError:
        return None
    return status.st_dev, status.st_ino


def _refuse(doing: str, name: str) -> None:
    reason = f"{name} was removed or replaced under this process: see that the right one is there"
    raise StoreUnavailableError(doing, f"{reason}, then start it again")
