"""Whether there is room on the disk: what is taken in needs as much again to become a batch."""

from __future__ import annotations

import shutil
import time
from dataclasses import dataclass, field
from pathlib import Path

from shoal import checks
from shoal.service.errors import StoreUnavailableError
from shoal.service.store import files

LEAST_FREE = 64 << 20  # bytes; below, nothing more is taken in
_FRESH = 1.0  # seconds


@dataclass
class Room:
    """The free bytes of a directory's disk, looked at once a second."""

    directory: Path
    least: int = LEAST_FREE
    _enough: bool = field(default=True, init=False)
    _until: float = field(default=0.0, init=False)

    def __post_init__(self) -> None:
        checks.count(0, least=self.least)

    def check(self) -> None:
        """Refuse to take more in while there is too little."""
        if time.monotonic() >= self._until:
            with files.disk("looking for room"):
                self._enough = shutil.disk_usage(self.directory).free >= self.least
            self._until = time.monotonic() + _FRESH
        if not self._enough:
            raise StoreUnavailableError("taking reports in", "there is too little room on the disk")
