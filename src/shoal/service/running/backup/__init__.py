"""A party's directory as one file, taken while the service runs, and brought back so that it holds.

What comes back is older than what was lost. A shuffler that comes back must not release a report a
second time among others; a key that was deleted must not come back at all. What that asks for is
done in :mod:`restoring`, and what it costs is in ``docs/operations/backup.md``.
"""

from __future__ import annotations

from shoal.service.running.backup.errors import BackupError
from shoal.service.running.backup.making import Made, back_up, check
from shoal.service.running.backup.manifest import Manifest
from shoal.service.running.backup.restoring import Restored, Restoring, restore
from shoal.service.running.waiting import Waiting

__all__ = [
    "BackupError",
    "Made",
    "Manifest",
    "Restored",
    "Restoring",
    "Waiting",
    "back_up",
    "check",
    "restore",
]
