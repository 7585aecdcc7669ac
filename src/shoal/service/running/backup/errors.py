"""What goes wrong with backups, and what to do about it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from shoal.errors import ShoalError


class BackupError(ShoalError):
    """A backup that cannot be made, read or restored."""

    def __init__(self, what: str, why: str, advice: str) -> None:
        self.what = what
        self.why = why
        self.advice = advice
        super().__init__(f"{what}: {why}; {advice}")


class DamagedBackupError(BackupError):
    """A file that is no backup, or not all of one."""

    def __init__(self, path: Path, why: str) -> None:
        super().__init__(f"cannot use {path}", why, "use another backup")


class GoneError(BackupError):
    """What belongs to the copied database was deleted, or changed, before it was copied."""

    def __init__(self, path: Path, how: str = "deleted") -> None:
        why = f"{path.name} was {how} while it was copied"
        super().__init__("cannot make the backup", why, "stop the worker meanwhile, and try again")


@contextmanager
def disk(what: str, advice: str = "make room, or choose another place") -> Iterator[None]:
    """What the disk refuses is said in one line."""
    try:
        yield
    except OSError as error:
        where = f" ({error.filename})" if error.filename else ""
        raise BackupError(what, f"{error.strerror or error}{where}", advice) from error
