"""Everything the shuffler remembers.

A directory holds segments (sealed reports as they came), parts (sealed records of opened reports)
and batches (shuffled files); the database says which of them count. Several processes may work on
one store: whatever one of them does is one transaction, and long work is claimed by lease.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import sqlalchemy as sa

from shoal.sealing import SurveyId
from shoal.service.clock import HOUR, Clock, GracePeriod
from shoal.service.db import files
from shoal.service.db.database import Database, StoreId
from shoal.service.db.files import LEAST_FREE, DiskSpace
from shoal.service.db.key_lists import KeyLists
from shoal.service.db.leases import Leases
from shoal.service.db.surveys import LEFT, Deleted, Surveys, lock_survey
from shoal.service.db.tables import forget_tags, tokens
from shoal.service.db.tokens import Tokens
from shoal.service.shuffler.batches import Batches, ProgressCache
from shoal.service.shuffler.codes import Codes
from shoal.service.shuffler.reports import Reports, Segments
from shoal.service.shuffler.tables import (
    OF_PEOPLE,
    OF_REPORTS,
    RELEASED,
    SEALED,
    SHUFFLED,
    TRACES,
    batches,
    codes,
    counters,
    extents,
    parts,
    recent_codes,
    waiting_codes,
)

TREE = "shuffler"


class ShufflerStore:
    """The store of one shuffler; ``key_lists`` are the analyzers'.

    The tables must be there and of this version (see ``Database.migrate``), and the directory must
    be theirs. What looks useless is deleted after ``grace`` seconds; below ``least_free`` bytes of
    free disk nothing is taken in.
    """

    def __init__(
        self,
        database: Database,
        directory: Path,
        clock: Clock,
        *,
        grace: float = HOUR,
        least_free: int = LEAST_FREE,
    ) -> None:
        database.require(TREE)
        self.id = StoreId(database, files.create_directory(directory))
        # Whether the directory holds reports, in whatever form, and the database refers to any.
        kept = (directory / name for name in ("segments", "parts", "batches"))
        with files.disk("looking at the directory"):
            holds = any(any(each.iterdir()) for each in kept if each.is_dir())
        shuffled = sa.select(batches.c.id).where(batches.c.state.in_((SHUFFLED, RELEASED)))
        queries = (sa.select(extents.c.id), sa.select(parts.c.name), shuffled)
        with database.read() as connection:
            refers = any(connection.scalar(sa.select(query.exists())) for query in queries)
        self.id.settle(holds=holds, refers=refers)
        self._database = database
        self._clock = clock
        self._segments = Segments(directory / "segments", clock, grace=grace)
        self.surveys = Surveys(database, TRACES, (tokens, codes))
        self.codes = Codes(database, self.surveys)
        self.tokens = Tokens(database, clock, self.surveys)
        self.key_lists = KeyLists(database, clock)
        self.batches = Batches(database, self.surveys, directory, clock, grace=grace)
        self.progress = ProgressCache(database, self.surveys, clock)
        self.reports = Reports(
            database,
            self.surveys,
            self._segments,
            self.batches,
            DiskSpace(directory, least_free),
            Leases(database, extents, clock),
        )
        self.garbage = Garbage(
            database, self.reports, self.batches, GracePeriod(grace), GracePeriod(grace)
        )

    def forget_key(self, key: int) -> int:
        """Forget the tags of a key that was deleted: what it sealed cannot be opened any more."""
        return forget_tags(self._database, OF_REPORTS, "key", key)

    def delete_survey(self, survey: SurveyId) -> Deleted:
        """Delete all data of a survey that is over, and the survey.

        A batch that nobody has collected goes, too: see that the analyzer has what it needs.
        """
        row = self.surveys.ended(survey, self._clock())
        forgotten = forget_tags(self._database, OF_REPORTS, "survey", row.number)
        counts = {"tags": forgotten}
        if row.survey.admission.code_bytes:
            counts["codes"] = forget_tags(self._database, OF_PEOPLE, "survey", row.number)
        mine = sa.select(batches.c.id).where(batches.c.survey == row.number)
        with self._database.write() as connection:
            lock_survey(connection, row.number)  # before anything that a gathering locks
            waiting = self.reports.delete_all(connection, row)
            names = connection.scalars(sa.select(parts.c.name).where(parts.c.batch.in_(mine))).all()
            ids = connection.scalars(mine).all()
            connection.execute(parts.delete().where(parts.c.batch.in_(mine)))
            for table in (batches, counters, *OF_REPORTS, recent_codes, waiting_codes):
                connection.execute(table.delete().where(table.c.survey == row.number))
            counts["tokens"] = self.surveys.forget(connection, row.number, survey)
        # Whatever a crash leaves of the files is nobody's: the worker deletes it within the hour.
        self._segments.erase(waiting, self.reports.needed, wait=True)
        counts |= {"waiting": len(waiting), "batches": len(ids)}
        counts["files"] = self.batches.remove_files(names, ids)
        return Deleted(counts, (*LEFT, *self._database.dialect.left))

    def close(self) -> None:
        """Let go of the files; the database is its owner's to close."""
        self._segments.close()


@dataclass(frozen=True, eq=False)
class Garbage:
    """Segments, parts and batch files that a crash, a lost lease or a lost race left behind.

    What is on the disk is listed before the database is asked, and claims before what claims
    become: a file that is about to be referred to is therefore always seen as somebody's. And
    nothing goes that was not nobody's for a grace period.
    """

    database: Database
    reports: Reports
    batches: Batches
    parts_grace: GracePeriod[Path]
    files_grace: GracePeriod[Path]

    def collect(self) -> int:
        """Delete them; how many."""
        self.database.files.check("deleting files")  # one that is gone refers to nothing new
        collected = self.reports.segments.collect(self.reports.needed)
        with files.disk("deleting parts"):
            if listed := list(self.batches.parts_directory.iterdir()):
                claimed = sa.select(extents.c.owner).where(extents.c.owner.is_not(None))
                owners = set(self.database.values(claimed.distinct()))
                named = set(self.database.values(sa.select(parts.c.name)))
                nobodys = (
                    path
                    for path in listed
                    if path.name not in named and path.name.partition("-")[0] not in owners
                )
                collected += files.remove(self.parts_grace.over(nobodys))
        with files.disk("deleting drafts"):
            if listed := list(self.batches.files_directory.iterdir()):
                columns = (batches.c.id, batches.c.state, batches.c.owner, batches.c.digest)
                closed = batches.c.state.in_((SEALED, SHUFFLED, RELEASED))
                rows = self.database.rows(sa.select(*columns).where(closed))
                shuffled = {self.batches.path(row.id, row.digest) for row in rows if row.digest}
                owners = {f"{row.id}-{row.owner}" for row in rows if row.owner}
                sealed = {row.id for row in rows if row.state == SEALED}
                nobodys = (
                    path
                    for path in listed
                    if path not in shuffled and not _awaited(path, owners, sealed)
                )
                collected += files.remove(self.files_grace.over(nobodys))
        return collected


def _awaited(path: Path, owners: set[str], sealed: set[str]) -> bool:
    """A draft with a lease, or a file that is about to be committed."""
    if path.suffix == ".draft":
        return path.stem in owners
    return path.stem.partition("-")[0] in sealed
