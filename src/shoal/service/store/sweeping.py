"""Files that a crash, a lost lease or a lost race left behind.

What is on the disk is listed before the database is asked, and claims before what claims become:
a file that is about to be referred to is therefore always seen as somebody's. And nothing goes that
was not nobody's for a while.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path

import sqlalchemy as sa

from shoal.service.store import files, leases
from shoal.service.store.database import POSTGRESQL, Database
from shoal.service.store.patience import Doubts
from shoal.service.store.releasing import Releasing
from shoal.service.store.schema import RELEASED, SEALED, SHUFFLED, batches, extents, parts
from shoal.service.store.segments import Segments, lock_number


@dataclass(frozen=True)
class Sweeping:
    """Segments, parts and batch files that nobody refers to."""

    database: Database
    segments: Segments
    releasing: Releasing
    parts: Doubts[Path]
    batches: Doubts[Path]

    def sweep(self) -> int:
        """Delete them; how many."""
        segments = self.segments.collect(self._segments, self._busy)
        return segments + self._sweep_parts() + self._sweep_batches()

    def _busy(self, names: Collection[str]) -> set[str]:
        """Segments that a transaction of the server may be about to refer to."""
        if self.database.dialect != POSTGRESQL:
            return set()
        with self.database.read() as connection:
            return {name for name in names if not _is_free(connection, name)}

    def _segments(self) -> set[str]:
        with self.database.read() as connection:
            return set(connection.scalars(sa.select(extents.c.segment).distinct()))

    def _sweep_parts(self) -> int:
        with files.disk("deleting parts"):
            listed = list(self.releasing.parts_directory.iterdir())
            if not listed:
                return 0
            with self.database.read() as connection:
                owners = connection.scalars(
                    sa.select(extents.c.owner).where(extents.c.owner.is_not(None)).distinct()
                ).all()
            with self.database.read() as connection:
                named = set(connection.scalars(sa.select(parts.c.name)))
            marks = {leases.mark(owner) for owner in owners}
            nobodys = (
                path
                for path in listed
                if path.name not in named and path.name.partition("-")[0] not in marks
            )
            return files.remove(self.parts.settled(nobodys))

    def _sweep_batches(self) -> int:
        with files.disk("deleting drafts"):
            listed = list(self.releasing.batches_directory.iterdir())
            if not listed:
                return 0
            with self.database.read() as connection:
                rows = connection.execute(
                    sa.select(
                        batches.c.id, batches.c.state, batches.c.owner, batches.c.digest
                    ).where(batches.c.state.in_((SEALED, SHUFFLED, RELEASED)))
                ).all()
            shuffled = {self.releasing.path(row.id, row.digest) for row in rows if row.digest}
            owners = {f"{row.id}-{leases.mark(row.owner)}" for row in rows if row.owner}
            sealed = {row.id for row in rows if row.state == SEALED}
            nobodys = (
                path
                for path in listed
                if path not in shuffled and not _awaited(path, owners, sealed)
            )
            return files.remove(self.batches.settled(nobodys))


def _is_free(connection: sa.Connection, segment: str) -> bool:
    lock = sa.func.pg_try_advisory_xact_lock(lock_number(segment))
    return bool(connection.execute(sa.select(lock)).scalar())


def _awaited(path: Path, owners: set[str], sealed: set[str]) -> bool:
    """A draft of whoever holds the lease, or a file that is about to be committed."""
    if path.suffix == ".draft":
        return path.stem in owners
    return path.stem.partition("-")[0] in sealed
