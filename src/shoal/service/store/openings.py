"""From sealed reports to the open batch: claims, part files, and the one transaction that moves.

Part files are on the disk before the transaction that makes them part of a batch, and named after
the claim: one whose claim is neither held nor finished is nobody's. In the transaction the claimed
reports go if all of them are still ours, and the batch grows by as many as opened.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import sqlalchemy as sa

from shoal import checks
from shoal.errors import InvalidArgumentError
from shoal.sealing import SurveyId
from shoal.service import failpoints
from shoal.service.clock import Clock
from shoal.service.errors import LeaseLostError
from shoal.service.store import files, leases
from shoal.service.store.counting import count
from shoal.service.store.database import Database
from shoal.service.store.intake import tags_of
from shoal.service.store.public import begun
from shoal.service.store.schema import ACCEPTS, OPEN, batches, extents, parts, tags
from shoal.service.store.segments import Segments
from shoal.service.store.surveys import Known, SurveyTable
from shoal.service.store.values import Claim, Extent

Parts = Mapping[int, tuple[bytes, int]]  # analyzer's key number -> sealed records, reports
# A row is a tuple, and a tuple has a method called count.
_WAITING: sa.Select[Any] = sa.select(
    extents.c.id,
    extents.c.survey,
    extents.c.key,
    extents.c.segment,
    extents.c.start,
    extents.c.count.label("reports"),
    extents.c.attempts,
).order_by(extents.c.id)
NARROWER = 4  # each earlier attempt divides the size of a claim by 2^4


@dataclass(frozen=True)
class Openings:
    """Reports that wait to be opened."""

    database: Database
    segments: Segments
    surveys: SurveyTable
    directory: Path
    clock: Clock
    node: str

    def claim(self, limit: int, lease_seconds: int) -> Claim | None:
        """Reports of one survey and key, at most about ``limit``, that nobody else has.

        What was claimed before and came back is claimed in smaller and smaller pieces, so that the
        one report that kills whoever opens it ends up alone.
        """
        limit = checks.count(limit=limit)
        now = self.clock()
        until = leases.lease_end(now, lease_seconds)
        first = _WAITING.where(leases.free(extents, now)).limit(1)
        with self.database.read() as connection:
            if connection.execute(first).first() is None:
                return None
        with self.database.write() as connection:
            found = connection.execute(first.with_for_update(skip_locked=True)).first()
            if found is None:
                return None
            rows = _companions(connection, found, limit, now)
            owner = leases.new_owner(self.node)
            _lease(connection, rows, owner, until)
        failpoints.reached("opening.claimed")
        return self._claim(rows, owner)

    def _claim(self, rows: Sequence[sa.Row[Any]], owner: str) -> Claim:
        known = self.surveys.numbered(rows[0].survey)
        size = known.wire.report_bytes
        return Claim(
            survey=known.survey.id,
            key=rows[0].key,
            count=sum(row.reports for row in rows),
            attempts=rows[0].attempts,
            owner=owner,
            extents=tuple(Extent(row.segment, row.start, row.reports * size) for row in rows),
        )

    def read(self, claim: Claim) -> bytes:
        """The claimed reports, one after the other."""
        return b"".join(self.segments.read(extent) for extent in claim.extents)

    def finish(self, claim: Claim, opened: Parts, rejected: int, forgotten: bytes = b"") -> None:
        """Move what was opened into the open batches, and forget the claimed reports.

        Of the rejected ones that are ``forgotten`` the tags go, too: what does not open needs no
        protection against being sent again, and whoever sends noise fills no table.
        """
        known = self.surveys.find(claim.survey)
        _check(known, claim, opened, checks.count(0, rejected=rejected))
        unopened = tags_of(forgotten, known.wire.report_bytes) if forgotten else []
        # Names of this call alone: one that is repeated after a lost answer may find the work
        # done, and must not touch the files of the call that did it.
        mark = leases.mark(claim.owner)
        names = {key: f"{mark}-{files.fresh_name()}" for key in sorted(opened)}
        paths = [self.directory / name for name in names.values()]
        try:
            with files.disk("writing a part"):
                for key, name in names.items():
                    files.write_durably(self.directory / name, opened[key][0])
                files.sync_directory(self.directory)
            failpoints.reached("opening.part-written")
            with self.database.write() as connection:
                _take_back(connection, claim)
                for key, name in names.items():
                    self._join(connection, known.number, key, name, opened[key][1])
                _forget(connection, known.number, claim.key, unopened)
                counted = {"opened": claim.count - rejected, "rejected": rejected}
                count(self.database, connection, known.number, counted)
        except LeaseLostError:
            files.remove(paths)
            raise
        failpoints.reached("opening.after-commit")

    def inner_keys(self, survey: SurveyId) -> set[int]:
        """The analyzer's keys that batches of a survey are open for."""
        number = self.surveys.find(survey).number
        query = sa.select(batches.c.inner_key).where(batches.c.survey == number, ACCEPTS)
        with self.database.read() as connection:
            return set(connection.scalars(query))

    def waiting_keys(self) -> set[int]:
        """The keys that waiting reports were sealed for."""
        with self.database.read() as connection:
            return set(connection.scalars(sa.select(extents.c.key).distinct()))

    def set_aside(self, claim: Claim) -> None:
        """Give up on reports that cannot be opened: they are gone, and counted."""
        known = self.surveys.find(claim.survey)
        with self.database.write() as connection:
            _take_back(connection, claim)
            count(self.database, connection, known.number, {"unreadable": claim.count})

    def _join(
        self, connection: sa.Connection, number: int, inner_key: int, part: str, reports: int
    ) -> None:
        batch = self._accepting(connection, number, inner_key)
        connection.execute(parts.insert(), {"name": part, "batch": batch, "count": reports})
        grown = connection.execute(
            batches.update()
            .where(batches.c.id == batch, ACCEPTS)
            .values(valid=batches.c.valid + reports)
        )
        if grown.rowcount != 1:  # impossible while the row is locked
            raise LeaseLostError(f"batch {batch}")

    def _accepting(self, connection: sa.Connection, number: int, inner_key: int) -> str:
        """The batch that takes reports for a key, locked; a new one if there is none."""
        mine = (batches.c.survey == number, batches.c.inner_key == inner_key, ACCEPTS)
        fresh = {
            "id": files.fresh_name(),
            "survey": number,
            "inner_key": inner_key,
            "state": OPEN,
            "valid": 0,
            "since": begun(self.clock(), self.surveys.numbered(number).survey.batches),
        }
        while True:
            found = connection.execute(sa.select(batches.c.id).where(*mine).with_for_update())
            batch: str | None = found.scalar()
            if batch is not None:
                return batch
            # Somebody else may insert one at this moment: then theirs is found next time.
            connection.execute(self.database.insert(batches).values(fresh).on_conflict_do_nothing())


def _companions(
    connection: sa.Connection, first: sa.Row[Any], limit: int, now: int
) -> list[sa.Row[Any]]:
    """The first extent, and more of the same kind up to the limit."""
    room = (limit >> NARROWER * first.attempts) - first.reports
    rows = [first]
    if room <= 0:
        return rows
    more = (
        _WAITING.where(
            leases.free(extents, now),
            extents.c.survey == first.survey,
            extents.c.key == first.key,
            extents.c.attempts == first.attempts,
            extents.c.id > first.id,
        )
        .limit(room)
        .with_for_update(skip_locked=True)
    )
    for row in connection.execute(more):
        room -= row.reports
        if room < 0:
            break
        rows.append(row)
    return rows


def _lease(connection: sa.Connection, rows: Sequence[sa.Row[Any]], owner: str, until: int) -> None:
    connection.execute(
        extents.update()
        .where(extents.c.id == sa.bindparam("claimed"))
        .values(owner=owner, lease_until=until, attempts=extents.c.attempts + 1),
        [{"claimed": row.id} for row in rows],
    )


def _forget(connection: sa.Connection, survey: int, key: int, unopened: list[bytes]) -> None:
    if unopened:
        connection.execute(
            tags.delete().where(
                tags.c.survey == survey, tags.c.key == key, tags.c.tag == sa.bindparam("unopened")
            ),
            [{"unopened": tag} for tag in sorted(set(unopened))],
        )


def _take_back(connection: sa.Connection, claim: Claim) -> None:
    """Delete the claimed extents; not one of them may be somebody else's."""
    deleted = connection.execute(extents.delete().where(extents.c.owner == claim.owner))
    if deleted.rowcount != len(claim.extents):
        raise LeaseLostError(f"{claim.count} reports of survey {claim.survey}")


def _check(known: Known, claim: Claim, opened: Parts, rejected: int) -> None:
    for records, reports in opened.values():
        if reports < 1 or len(records) != reports * known.wire.opened_bytes:
            expected = f"{known.wire.opened_bytes} bytes for each of {reports} reports"
            raise InvalidArgumentError("opened", len(records), expected)
    total = sum(reports for _, reports in opened.values()) + rejected
    if total != claim.count:
        raise InvalidArgumentError("opened", total, f"all {claim.count} reports of the claim")
