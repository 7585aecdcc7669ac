"""Sealed reports: taken in once each, claimed by a worker, and gone once they are in a batch.

*In.* One transaction for a whole group of arrivals. A report is known by its tag, 16 bytes of the
SHA-256 of all its bytes: the same bytes again are a duplicate, whenever they come. New reports go
to a segment, synced before the transaction that refers to them commits; a crash in between leaves
bytes that nobody refers to, and no tags. A server that goes on committing when this process is dead
holds a lock until it has: whoever collects segments asks for it.

*Out.* Part files are on the disk before the transaction that makes them part of a batch, and named
after the claim: one whose claim is neither held nor finished is nobody's. In the transaction the
claimed reports go if all of them are still ours, and the batch grows by as many as opened.

*Dead letters.* What was claimed before and came back is claimed in smaller and smaller pieces, so
that the one report that kills whoever opens it ends up alone. It is then given up, and counted.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from typing import Any

import sqlalchemy as sa

from shoal import checks
from shoal.errors import InvalidArgumentError
from shoal.sealing import SurveyId
from shoal.service import failpoints
from shoal.service.clock import Clock
from shoal.service.db import files
from shoal.service.db.database import POSTGRESQL, Database
from shoal.service.db.files import DiskSpace
from shoal.service.db.leases import Leases
from shoal.service.db.surveys import SurveyRow, Surveys
from shoal.service.db.tags import add_tags, delete_tags
from shoal.service.errors import LeaseLostError
from shoal.service.opening import TAG_BYTES
from shoal.service.shuffler.batches import Batches
from shoal.service.shuffler.segments import Extent, Segments, lock_number
from shoal.service.shuffler.tables import counters, extents

Parts = Mapping[int, tuple[bytes, int]]  # analyzer's key number -> sealed records, reports
COUNTED = ("opened", "rejected", "unreadable")
NARROWER = 4  # each earlier attempt divides the size of a claim by 2^4
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


@dataclass(frozen=True)
class Arrival:
    """Reports of one survey, sealed with one key of the shuffler, one after the other."""

    survey: SurveyId
    key: int
    reports: bytes


@dataclass(frozen=True)
class Receipt:
    """How many reports of an arrival were new, and how many had been there before."""

    new: int
    duplicate: int


@dataclass(frozen=True)
class Claim:
    """Reports of one survey and key that nobody else opens while the lease lasts.

    ``owner`` is fresh for every claim: what somebody else has taken over since is not touched.
    ``attempts`` is how often these reports were claimed before.
    """

    survey: SurveyId
    key: int
    count: int
    attempts: int
    owner: str
    extents: tuple[Extent, ...]

    @property
    def rows(self) -> int:
        """How many rows are leased."""
        return len(self.extents)


@dataclass(frozen=True)
class _Tagged:
    """An arrival's place in its group, its reports, and their tags."""

    index: int
    reports: bytes
    tags: list[bytes]


class Reports:
    """Reports that wait to be opened; opened ones go to ``parts`` and the open ``batches``."""

    def __init__(
        self,
        database: Database,
        surveys: Surveys,
        segments: Segments,
        batches: Batches,
        space: DiskSpace,
        clock: Clock,
    ) -> None:
        self._database = database
        self._surveys = surveys
        self._segments = segments
        self._batches = batches
        self._space = space
        self.leases = Leases(database, extents, clock)

    def receive(self, arrivals: Sequence[Arrival]) -> list[Receipt]:
        """Take in reports, each one once; when this returns, all of them are durable."""
        self._space.check()
        groups: dict[tuple[int, int], list[_Tagged]] = defaultdict(list)
        rows: dict[int, SurveyRow] = {}
        for index, arrival in enumerate(arrivals):
            row = self._surveys.row(arrival.survey)
            rows[row.number] = row
            tags = tags_of(arrival.reports, row.wire.report_bytes)
            groups[row.number, arrival.key].append(_Tagged(index, arrival.reports, tags))
        receipts: dict[int, Receipt] = {}
        if groups:
            with self._segments.appending() as append, self._database.write() as connection:
                taken: list[tuple[SurveyRow, int, bytes]] = []
                # In one order for all, so that no two groups wait for each other.
                for number, key in sorted(groups):
                    members, row = groups[number, key], rows[number]
                    self._surveys.confirm(connection, row)
                    unique = sorted(set().union(*(member.tags for member in members)))
                    new = add_tags(connection, number, key, unique)
                    if body := _new_reports(members, new, row.wire.report_bytes, receipts):
                        taken.append((row, key, body))
                failpoints.reached("intake.before-segment")
                if taken:
                    self._refer(connection, taken, append([body for _, _, body in taken]))
            failpoints.reached("intake.after-commit")
        return [receipts[index] for index in range(len(arrivals))]

    def _refer(
        self, connection: sa.Connection, taken: list[tuple[SurveyRow, int, bytes]], extent: Extent
    ) -> None:
        """Past the expression language, whose part in the cost of a small group is the largest."""
        mark = "?"
        if self._database.dialect == POSTGRESQL:
            mark = "%s"
            lock = sa.func.pg_advisory_xact_lock_shared(lock_number(extent.segment))
            connection.execute(sa.select(lock))
        failpoints.reached("intake.after-segment")
        rows, start = [], extent.start
        for row, key, body in taken:
            count = len(body) // row.wire.report_bytes
            rows.append((row.number, key, extent.segment, start, count))
            start += len(body)
        values = ", ".join([mark] * len(rows[0]))
        insert = f"INSERT INTO extents (survey, key, segment, start, count) VALUES ({values})"  # noqa: S608 - marks only
        driver: Any = connection.connection.driver_connection
        driver.cursor().executemany(insert, rows)

    def claim(self, limit: int, lease_seconds: int) -> Claim | None:
        """Reports of one survey and key, at most about ``limit``, that nobody else has."""
        limit = checks.count(limit=limit)
        lease = self.leases.begun(lease_seconds)
        free = self.leases.free()
        first = _WAITING.where(free).limit(1)
        with self._database.read() as connection:
            if connection.execute(first).first() is None:
                return None
        with self._database.write() as connection:
            row = connection.execute(first.with_for_update(skip_locked=True)).first()
            if row is None:
                return None
            rows = _companions(connection, row, limit, free)
            connection.execute(
                extents.update()
                .where(extents.c.id == sa.bindparam("claimed"))
                .values(lease | {"attempts": extents.c.attempts + 1}),
                [{"claimed": each.id} for each in rows],
            )
        failpoints.reached("opening.claimed")
        survey = self._surveys.numbered(row.survey)
        size = survey.wire.report_bytes
        return Claim(
            survey=survey.survey.id,
            key=row.key,
            count=sum(each.reports for each in rows),
            attempts=row.attempts,
            owner=lease["owner"],
            extents=tuple(Extent(each.segment, each.start, each.reports * size) for each in rows),
        )

    def read(self, claim: Claim) -> bytes:
        """The claimed reports, one after the other."""
        return b"".join(self._segments.read(extent) for extent in claim.extents)

    def recount(self, claim: Claim, attempts: int) -> None:
        """Count so many attempts more, or less: what is not the reports' fault does not count."""
        more = {"attempts": extents.c.attempts + attempts}
        self.leases.change(claim.owner, more, rows=claim.rows)

    def acquit(self, claim: Claim) -> None:
        """These reports open, though the lease ran out meanwhile: no attempt on them counts."""
        mine = [
            sa.and_(extents.c.segment == each.segment, extents.c.start == each.start)
            for each in claim.extents
        ]
        with self._database.write() as connection:
            for each in mine:
                connection.execute(extents.update().where(each).values(attempts=0))

    def finish(self, claim: Claim, opened: Parts, rejected: int, forgotten: bytes = b"") -> None:
        """Move opened reports into the open batches: ``{inner key: (records, reports)}``.

        Of the rejected ones that are ``forgotten`` the tags go, too: what does not open needs no
        protection against being sent again, and whoever sends noise fills no table.
        """
        row = self._surveys.row(claim.survey)
        _check(row, claim, opened, checks.count(0, rejected=rejected))
        unopened = set(tags_of(forgotten, row.wire.report_bytes)) if forgotten else set()
        # Names of this call alone: one that is repeated after a lost answer may find the work
        # done, and must not touch the files of the call that did it.
        paths = {
            key: self._batches.parts_directory / f"{claim.owner}-{files.fresh_name()}"
            for key in sorted(opened)
        }
        try:
            with files.disk("writing a part"):
                for key, path in paths.items():
                    files.write_durably(path, opened[key][0])
                files.sync_directory(self._batches.parts_directory)
            failpoints.reached("opening.part-written")
            with self._database.write() as connection:
                _delete(connection, claim)
                for key, path in paths.items():
                    self._batches.join(connection, row, key, path.name, opened[key][1])
                delete_tags(connection, row.number, claim.key, unopened)
                counted = {"opened": claim.count - rejected, "rejected": rejected}
                count(self._database, connection, row.number, counted)
        except LeaseLostError:
            files.remove(paths.values())
            raise
        failpoints.reached("opening.after-commit")

    def delete_all(self, connection: sa.Connection, row: SurveyRow) -> list[Extent]:
        """Delete all reports of a survey that wait to be opened; where they are."""
        size = row.wire.report_bytes
        mine = extents.c.survey == row.number
        waiting = [
            Extent(each.segment, each.start, each.reports * size)
            for each in connection.execute(_WAITING.where(mine)).all()
        ]
        connection.execute(extents.delete().where(mine))
        return waiting

    def dead_letter(self, claim: Claim) -> None:
        """Give up on reports that cannot be opened: they are gone, and counted as unreadable."""
        row = self._surveys.row(claim.survey)
        with self._database.write() as connection:
            _delete(connection, claim)
            count(self._database, connection, row.number, {"unreadable": claim.count})

    def waiting_keys(self) -> set[int]:
        """The numbers of the keys that reports which wait to be opened were sealed for."""
        with self._database.read() as connection:
            return set(connection.scalars(sa.select(extents.c.key).distinct()))

    def tallies(self, survey: SurveyId) -> dict[str, int]:
        """Reports opened, rejected and unreadable so far: for the operator only.

        They are not about closed batches only, and so not for the public.
        """
        number = self._surveys.row(survey).number
        query = sa.select(counters.c.name, counters.c.value).where(counters.c.survey == number)
        with self._database.read() as connection:
            rows = connection.execute(query.order_by(counters.c.name)).all()
        return {row.name: row.value for row in rows if row.name in COUNTED}


def count(
    database: Database, connection: sa.Connection, survey: int, more: Mapping[str, int]
) -> None:
    """Add to the counters of a survey, in one order for all."""
    for name, value in sorted(more.items()):
        if value:
            added = database.insert(counters).values(survey=survey, name=name, value=value)
            total = counters.c.value + added.excluded.value
            connection.execute(
                added.on_conflict_do_update(
                    index_elements=["survey", "name"], set_={"value": total}
                )
            )


def tags_of(body: bytes, size: int) -> list[bytes]:
    """What reports are known by, in their order."""
    if not body or len(body) % size:
        raise InvalidArgumentError("reports", len(body), f"one or more reports of {size} bytes")
    view = memoryview(body)
    return [sha256(view[at : at + size]).digest()[:TAG_BYTES] for at in range(0, len(body), size)]


def _new_reports(
    members: list[_Tagged], new: set[bytes], size: int, receipts: dict[int, Receipt]
) -> bytes:
    """The reports with new tags, each once; what becomes of every arrival is noted."""
    if len(new) == sum(len(member.tags) for member in members):  # nearly always
        for member in members:
            receipts[member.index] = Receipt(len(member.tags), 0)
        return b"".join(member.reports for member in members)
    pieces: list[bytes] = []
    for member in members:
        before = len(pieces)
        for position, tag in enumerate(member.tags):
            if tag in new:
                new.remove(tag)
                pieces.append(member.reports[position * size : (position + 1) * size])
        fresh = len(pieces) - before
        receipts[member.index] = Receipt(fresh, len(member.tags) - fresh)
    return b"".join(pieces)


def _companions(
    connection: sa.Connection, first: sa.Row[Any], limit: int, free: sa.ColumnElement[bool]
) -> list[sa.Row[Any]]:
    """The first extent, and more of the same kind up to the limit."""
    left = (limit >> NARROWER * first.attempts) - first.reports
    rows = [first]
    if left <= 0:
        return rows
    more = (
        _WAITING.where(
            free,
            extents.c.survey == first.survey,
            extents.c.key == first.key,
            extents.c.attempts == first.attempts,
            extents.c.id > first.id,
        )
        .limit(left)
        .with_for_update(skip_locked=True)
    )
    for row in connection.execute(more):
        left -= row.reports
        if left < 0:
            break
        rows.append(row)
    return rows


def _delete(connection: sa.Connection, claim: Claim) -> None:
    """Delete the claimed extents; not one of them may be somebody else's."""
    deleted = connection.execute(extents.delete().where(extents.c.owner == claim.owner))
    if deleted.rowcount != len(claim.extents):
        raise LeaseLostError(f"{claim.count} reports of survey {claim.survey}")


def _check(row: SurveyRow, claim: Claim, opened: Parts, rejected: int) -> None:
    for records, reports in opened.values():
        if reports < 1 or len(records) != reports * row.wire.opened_bytes:
            expected = f"{row.wire.opened_bytes} bytes for each of {reports} reports"
            raise InvalidArgumentError("opened", len(records), expected)
    total = sum(reports for _, reports in opened.values()) + rejected
    if total != claim.count:
        raise InvalidArgumentError("opened", total, f"all {claim.count} reports of the claim")
