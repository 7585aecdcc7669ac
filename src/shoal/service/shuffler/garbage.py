"""Files that a crash, a lost lease or a lost race left behind.

What is on the disk is listed before the database is asked, and claims before what claims become:
a file that is about to be referred to is therefore always seen as somebody's. And nothing goes that
was not nobody's for a grace period.
"""

from __future__ import annotations

from pathlib import Path

import sqlalchemy as sa

from shoal.service.clock import GracePeriod
from shoal.service.db import files
from shoal.service.db.database import Database
from shoal.service.shuffler.batches import Batches
from shoal.service.shuffler.reports import Reports
from shoal.service.shuffler.tables import RELEASED, SEALED, SHUFFLED, batches, extents, parts


class Garbage:
    """Segments, parts and batch files that nobody refers to."""

    def __init__(
        self, database: Database, reports: Reports, stored: Batches, *, grace: float
    ) -> None:
        self._database = database
        self._reports = reports
        self._batches = stored
        self._parts: GracePeriod[Path] = GracePeriod(grace)
        self._files: GracePeriod[Path] = GracePeriod(grace)

    def collect(self) -> int:
        """Delete them; how many."""
        self._database.check_files("deleting files")  # one that is gone refers to nothing new
        segments = self._reports.collect_segments()
        return segments + self._collect_parts() + self._collect_batches()

    def _collect_parts(self) -> int:
        with files.disk("deleting parts"):
            listed = list(self._batches.parts_directory.iterdir())
            if not listed:
                return 0
            with self._database.read() as connection:
                claimed = sa.select(extents.c.owner).where(extents.c.owner.is_not(None))
                owners = set(connection.scalars(claimed.distinct()))
            with self._database.read() as connection:
                named = set(connection.scalars(sa.select(parts.c.name)))
            nobodys = (
                path
                for path in listed
                if path.name not in named and path.name.partition("-")[0] not in owners
            )
            return files.remove(self._parts.over(nobodys))

    def _collect_batches(self) -> int:
        with files.disk("deleting drafts"):
            listed = list(self._batches.files_directory.iterdir())
            if not listed:
                return 0
            with self._database.read() as connection:
                rows = connection.execute(
                    sa.select(
                        batches.c.id, batches.c.state, batches.c.owner, batches.c.digest
                    ).where(batches.c.state.in_((SEALED, SHUFFLED, RELEASED)))
                ).all()
            shuffled = {self._batches.path(row.id, row.digest) for row in rows if row.digest}
            owners = {f"{row.id}-{row.owner}" for row in rows if row.owner}
            sealed = {row.id for row in rows if row.state == SEALED}
            nobodys = (
                path
                for path in listed
                if path not in shuffled and not _awaited(path, owners, sealed)
            )
            return files.remove(self._files.over(nobodys))


def _awaited(path: Path, owners: set[str], sealed: set[str]) -> bool:
    """A draft of whoever holds the lease, or a file that is about to be committed."""
    if path.suffix == ".draft":
        return path.stem in owners
    return path.stem.partition("-")[0] in sealed
