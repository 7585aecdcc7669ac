"""Work that one party does at a time: leased for seconds, renewed while it lasts, then anybody's.

Every claim has an owner of its own, and work is finished by whoever owns it: a lease that runs out
repeats work, never a result. A lease that ends further in the future than any lease may is left
from before the clock was set back, and counts as over.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from threading import Event, Thread
from typing import Any

import sqlalchemy as sa

from shoal import checks
from shoal.errors import InvalidArgumentError
from shoal.service.clock import Clock
from shoal.service.db.database import Database
from shoal.service.db.files import fresh_name
from shoal.service.errors import LeaseLostError, StoreUnavailableError

LEASE = 3  # seconds: a dead process is missed for so long
LONGEST_LEASE = 3600
FREE: dict[str, None] = {"owner": None, "lease_until": None}

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Leases:
    """The leases of a table's rows: ``owner`` works on them until ``lease_until``."""

    database: Database
    table: sa.Table
    clock: Clock

    def begun(self, seconds: int) -> dict[str, Any]:
        """What a row says that is claimed now."""
        return {"owner": fresh_name(), "lease_until": self.until(seconds)}

    def free(self) -> sa.ColumnElement[bool]:
        """Rows that may be claimed."""
        until, now = self.table.c.lease_until, self.clock()
        return sa.or_(until.is_(None), until <= now, until > now + LONGEST_LEASE)

    def worked_on(self) -> sa.ColumnElement[bool]:
        """Rows that somebody is at, as far as is known."""
        return sa.and_(self.table.c.owner.is_not(None), sa.not_(self.free()))

    def renew(self, owner: str, seconds: int, *, rows: int = 1) -> None:
        """Begin a lease anew."""
        self.change(owner, {"lease_until": self.until(seconds)}, rows=rows)

    def change(self, owner: str, values: dict[str, Any], *, rows: int = 1) -> None:
        """Change so many rows of an owner, if all of them are still theirs."""
        with self.database.write() as connection:
            theirs = self.table.update().where(self.table.c.owner == owner)
            if connection.execute(theirs.values(values)).rowcount != rows:
                raise LeaseLostError(f"work on {self.table.name}")

    def release(self, owner: str, *, rows: int = 1) -> None:
        """End a lease: somebody else may begin at once."""
        self.change(owner, dict(FREE), rows=rows)

    def put_off(self, owner: str, seconds: int, *, rows: int = 1) -> None:
        """End a lease of work that failed: nobody begins again for so long."""
        self.change(owner, {"owner": None, "lease_until": self.until(seconds)}, rows=rows)

    def until(self, seconds: int) -> int:
        """When a lease ends that begins now."""
        if checks.count(lease_seconds=seconds) > LONGEST_LEASE:
            expected = f"at most {LONGEST_LEASE} s; renew it"
            raise InvalidArgumentError("lease_seconds", seconds, expected)
        return self.clock() + seconds

    @contextmanager
    def renewed(self, owner: str, seconds: int, *, rows: int = 1) -> Iterator[None]:
        """Renew a lease of so many seconds, in a thread, while this lasts."""
        done = Event()

        def keep() -> None:
            while not done.wait(seconds / 3):
                try:
                    self.renew(owner, seconds, rows=rows)
                except LeaseLostError:  # finishing will find out
                    return
                except StoreUnavailableError:
                    _log.warning("lease_not_renewed", exc_info=True)

        thread = Thread(target=keep, name="renewing", daemon=True)
        thread.start()
        try:
            yield
        finally:
            done.set()
            thread.join()
