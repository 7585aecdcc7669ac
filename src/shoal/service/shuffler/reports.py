"""Sealed reports: taken in once each, claimed by a worker, and gone once they are in a batch.

*In.* One transaction for a whole group of arrivals. A report's tag is 16 bytes of the SHA-256 of
all its bytes: the same bytes again are a duplicate, at any time. New reports go to a segment, which
is synced before the transaction that refers to it commits; a crash in between leaves bytes without
a reference, and no tags. PostgreSQL may commit after this process has died: the transaction holds
a lock, which the collection of segments checks.

*Codes.* Of a survey for which people are invited, every report comes with a code, which the same
transaction spends (see :mod:`shoal.service.shuffler.codes`): without one it is not taken in.

*Gathering.* Segments, extents and waiting tags are the intake's journal, and show the order of
arrival. A worker takes the reports of a survey and key out of it together: after a while, or when
there are many, or when a batch could close (see :meth:`Reports.due`). Their tags and codes move to
the recent ones, which are written anew (see :mod:`shoal.service.shuffler.mixing`), and their
stretches of the segments are erased.

*Out.* What opened goes into a new part together with the one of the open batch that grows. Part
files are on disk before the transaction that adds them to a batch, and are named after the claim; a
file whose claim has neither a lease nor a result is garbage. The transaction deletes the claimed
reports, if the lease still covers all of them, and puts the new part in the place of the old one,
if that is still there: otherwise somebody was quicker, and all is read and written once more. The
old file is deleted afterwards; a crash in between leaves it as garbage. Of a file that is not whole
any more, all reports are lost, and counted; the batch has so many less.

*Dead letters.* Reports whose claim failed are claimed again in smaller and smaller pieces, until
the one that kills its worker is alone. It is then deleted, and counted.
"""

from __future__ import annotations

import fcntl
import os
import threading
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import Any

import sqlalchemy as sa

from shoal import checks, randomness
from shoal.errors import InvalidArgumentError
from shoal.sealing import SurveyId
from shoal.service import failpoints
from shoal.service.admission import CODE_BYTES, hashes_of
from shoal.service.clock import HOUR, Clock, GracePeriod
from shoal.service.db import files
from shoal.service.db.database import Database
from shoal.service.db.dialect import Scope, dialect_of
from shoal.service.db.files import DiskSpace
from shoal.service.db.leases import Leases
from shoal.service.db.surveys import SurveyRow, Surveys, lock_survey
from shoal.service.db.tables import add_tags, known_tags
from shoal.service.errors import (
    LeaseLostError,
    MissingFileError,
    OvertakenError,
    StoreBusyError,
    StoreUnavailableError,
    UnreadableError,
)
from shoal.service.opening import tags_of
from shoal.service.shuffler.batches import DAMAGED, DEAD_LETTERS, Batches, count
from shoal.service.shuffler.codes import settle, spend, unspend
from shoal.service.shuffler.mixing import Part, mixed, turned_over
from shoal.service.shuffler.tables import (
    GATHERED,
    SWEPT,
    counters,
    extents,
    recent_tags,
    waiting_codes,
    waiting_tags,
)

COUNTED = ("opened", "rejected", DEAD_LETTERS, DAMAGED)
_REFER = "INSERT INTO extents (id, survey, key, segment, start, count) VALUES (?, ?, ?, ?, ?, ?)"
GATHER = 600.0  # seconds
GATHER_REPORTS = 1000
_AT_ONCE = 500  # extents, below SQLite's limit of parameters
_TRIES = (False, False, True)  # of a gathering, while others are quicker: whether it is alone
NARROWER = 2  # each earlier attempt divides the size of a claim by 2^2
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
Append = Callable[[Sequence[bytes]], "Extent"]
Needed = Callable[[Collection[str]], set[str]]  # segments that are referred to, or may be soon
LARGEST = 64 << 20
OLDEST = 600
_SUFFIX = ".segment"


@dataclass(frozen=True)
class Arrival:
    """Reports of one survey, sealed with one key of the shuffler, one after the other.

    ``codes`` are what people invited show beside them, in the same order.
    """

    survey: SurveyId
    key: int
    reports: bytes
    codes: bytes = field(default=b"", repr=False)


@dataclass(frozen=True, eq=False)
class Received:
    """How many reports were new; of every arrival, the positions of those refused, by reason.

    ``refused`` is empty where none of them was.
    """

    new: int
    refused: list[dict[str, list[int]]]


@dataclass(frozen=True)
class Claim:
    """Reports of one survey and key that nobody else opens while the lease lasts.

    ``owner`` is fresh for every claim: reports that another worker took over are not touched.
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


@dataclass(frozen=True, eq=False)
class Reports:
    """Reports that wait to be opened; opened ones go to ``parts`` and the open ``batches``."""

    database: Database
    surveys: Surveys
    segments: Segments
    batches: Batches
    space: DiskSpace
    leases: Leases  # of the extents

    def receive(self, arrivals: Sequence[Arrival]) -> Received:
        """Make reports durable, each one once, if their codes admit them."""
        self.space.check()
        groups: dict[tuple[int, int], _Group] = {}  # by survey's number and key
        places: list[tuple[_Group, int, int]] = []  # of every arrival: where it is in its group
        for arrival in arrivals:
            row = self.surveys.row(arrival.survey)
            key = row.number, arrival.key
            group = groups[key] if key in groups else groups.setdefault(key, _Group(row, key[1]))
            places.append((group, *group.add(arrival)))
        if groups:
            with self.segments.appending() as append, self.database.write() as connection:
                # In one order for all, so that no two transactions wait for each other.
                for _, of_survey in groupby(sorted(groups), key=itemgetter(0)):
                    self._admit(connection, [groups[key] for key in of_survey])
                taken = [group for group in groups.values() if group.tags]
                failpoints.reached("intake.before-segment")
                if taken:
                    written = append([report for group in taken for report in group.reports])
                    # Past the expression language, whose part in the cost of a small group is the
                    # largest.
                    dialect, start, rows = self.database.dialect, written.start, []
                    dialect.hold(connection, written.segment)
                    failpoints.reached("intake.after-segment")
                    for each in taken:
                        survey, reports = each.row.number, len(each.tags)
                        where = (written.segment, start, reports)
                        rows.append((each.extent, survey, each.key, *where))
                        start += reports * each.row.wire.report_bytes
                    dialect.run_each(connection, _REFER, rows)
            failpoints.reached("intake.after-commit")
        new = sum(group.new for group in groups.values())
        if not any(group.refused for group in groups.values()):  # nearly always
            return Received(new, [])
        return Received(new, [group.refused_between(*between) for group, *between in places])

    def _admit(self, connection: sa.Connection, groups: Sequence[_Group]) -> None:
        """Spend the codes of a survey's reports, add their tags, and leave what is new."""
        row = groups[0].row
        self.surveys.confirm(connection, row)
        if row.survey.admission.code_bytes:
            for group, spending in zip(groups, spend(connection, row.number, groups), strict=True):
                group.refused = spending.refused
                group.choose(spending.new)
        for group in groups:
            scope = Scope(waiting_tags, (row.number, group.key))
            gathered = partial(known_tags, connection, row.number, group.key, tables=GATHERED)
            added = dict.fromkeys(sorted(set(group.tags)), group.extent)
            new = dialect_of(connection).add_waiting(connection, scope, added, gathered)
            group.new = len(new)
            first = {tag: at for at, tag in reversed([*enumerate(group.tags)])}
            if repeated := group.choose(sorted(first[tag] for tag in new)):
                unspend(connection, row.number, hashes_of(repeated))

    def due(self, enough: int, waiting_time: GracePeriod[int]) -> set[tuple[int, int]]:
        """Surveys, by their numbers, and keys whose waiting reports are gathered now.

        Those of a survey and key are taken together once there are ``enough`` of them, once this
        worker has seen an extent of theirs for the ``waiting_time``, or when a batch of the survey
        could close with those that wait.
        """
        fresh = sa.and_(self.leases.free(), extents.c.attempts == 0)
        pair = (extents.c.survey, extents.c.key)
        sums = sa.select(*pair, sa.func.sum(extents.c.count)).where(fresh).group_by(*pair)
        with self.database.read() as connection:
            waiting = {(survey, key): int(n) for survey, key, n in connection.execute(sums)}
            totals: dict[int, int] = defaultdict(int)
            for (survey, _), reports in waiting.items():
                totals[survey] += reports
            closing = self.batches.closing(connection, totals)
            due = {
                each for each, reports in waiting.items() if reports >= enough or each[0] in closing
            }
            others = sa.tuple_(*pair).in_(sorted(waiting.keys() - due))
            rows = connection.execute(sa.select(extents.c.id, *pair).where(fresh, others)).all()
        waited = waiting_time.over(row.id for row in rows)
        return due | {(row.survey, row.key) for row in rows if row.id in waited}

    def claim(
        self,
        limit: int,
        lease_seconds: int,
        due: Collection[tuple[int, int]] | None = None,
    ) -> Claim | None:
        """Reports of one survey and key, at most about ``limit``, that nobody else has.

        Of a survey and key that are not ``due`` (all are, unless it is given) only such that were
        claimed before: their gathering has begun.
        """
        limit = checks.count(limit=limit)
        lease = self.leases.begun(lease_seconds)
        free = self.leases.free()
        if due is not None:
            chosen = sa.tuple_(extents.c.survey, extents.c.key).in_(sorted(due))
            free = sa.and_(free, sa.or_(extents.c.attempts > 0, chosen))
        first = _WAITING.where(free).limit(1)
        if self.database.first(first) is None:
            return None
        with self.database.write() as connection:
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
        survey = self.surveys.numbered(row.survey)
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
        return b"".join(self.segments.read(extent) for extent in claim.extents)

    def recount(self, claim: Claim, attempts: int) -> None:
        """Count so many attempts more, or less: what is not the reports' fault does not count."""
        more = {"attempts": extents.c.attempts + attempts}
        self.leases.change(claim.owner, more, rows=claim.rows)

    def acquit(self, claim: Claim) -> None:
        """These reports open, though the lease ran out meanwhile: no attempt on them counts."""
        with self.database.write() as connection:
            for each in claim.extents:
                here = (extents.c.segment == each.segment, extents.c.start == each.start)
                connection.execute(extents.update().where(*here).values(attempts=0))

    def finish(
        self,
        claim: Claim,
        opened: Mapping[int, bytes],
        forgotten: bytes = b"",
        counts: Mapping[int, int] | None = None,
    ) -> int:
        """Move opened reports, the records of each inner key, into the open batches.

        ``counts`` says how many reports they are, where these may leave slots out. The others are
        rejected. Tags move to the recent ones, but, where anybody may report, for those of rejected
        reports that are ``forgotten``: what does not open needs no protection against replay, and
        noise must not fill the table.

        Returns how many the disk has changed: those that have a tag that no report had that came
        in, and those of before in a part that is not whole, which the batch goes on without.
        """
        row = self.surveys.row(claim.survey)
        size = row.wire.opened_bytes
        if counts is None or row.wire.absent is None:
            counts = {key: len(records) // size for key, records in opened.items()}
        else:
            size = row.wire.sections[0].record_bytes
        for key, records in opened.items():
            if not counts[key] or len(records) % size:
                expected = f"whole reports, of {size} bytes each time"
                raise InvalidArgumentError("opened", len(records), expected)
        parts = {key: (records, counts[key]) for key, records in opened.items()}
        checks.count(0, rejected=claim.count - sum(reports for _, reports in parts.values()))
        unopened = set(tags_of(forgotten, row.wire.report_bytes)) if forgotten else set()
        for alone in _TRIES:
            with suppress(OvertakenError):  # whoever was quicker is done
                return self._add(claim, row, parts, unopened, alone=alone)
        return self._add(claim, row, parts, unopened, alone=True)

    def _add(
        self,
        claim: Claim,
        row: SurveyRow,
        opened: Mapping[int, Part],
        unopened: set[bytes],
        *,
        alone: bool,
    ) -> int:
        """Refer to what opened, written together with the parts that grow, instead of them.

        ``alone``: it is written within the transaction, so that nobody is quicker again.
        """
        written: dict[int, dict[str, int]] = {}
        try:
            before = {} if alone else self._write(claim, row, opened, written)
            with self.database.write() as connection:
                moved = self._gather(connection, claim)
                if alone:
                    before = self._write(claim, row, opened, written)
                valid = sum(reports for _, reports in opened.values())
                lost = valid
                for key, names in written.items():
                    grown = sum(names.values()) - sum(before[key].values())
                    lost -= grown
                    self.batches.join(connection, row, key, grown, names, before[key])
                # Of people invited there are no more than codes: their noise fills no table.
                invited = bool(row.survey.admission.code_bytes)
                _settle(connection, row.number, claim.key, moved if invited else moved - unopened)
                damaged = len(unopened - moved)
                rejected = claim.count - valid - damaged
                counted = {"opened": valid, "rejected": rejected, DAMAGED: damaged + lost}
                count(connection, row.number, counted)
        except (LeaseLostError, StoreBusyError):  # surely nothing was committed
            self._discard(written)
            raise
        failpoints.reached("opening.after-commit")
        if replaced := [name for names in before.values() for name in names]:
            with suppress(StoreUnavailableError):  # they are garbage by now
                self.batches.remove_files(replaced, [])
        failpoints.reached("opening.part-replaced")
        return damaged + lost

    def _write(
        self,
        claim: Claim,
        row: SurveyRow,
        opened: Mapping[int, Part],
        written: dict[int, dict[str, int]],
    ) -> dict[int, dict[str, int]]:
        """Write what opened and the parts that grow, by key, as new parts; the parts of before."""
        before = {key: self.batches.growing(row, key) for key in sorted(opened)}
        directory = self.batches.parts_directory
        try:
            with files.disk("writing a part"):
                for key, growing in before.items():
                    every = [self._part(row, key, *each) for each in growing.items()]
                    names = written[key] = {}
                    for records, reports in mixed(row.wire, [*every, opened[key]]):
                        # Names of this call alone: one that is repeated after a lost answer may
                        # find the work done, and must not touch the files of the one that did it.
                        name = f"{claim.owner}-{files.fresh_name()}"
                        names[name] = reports
                        files.write_durably(directory / name, records)
                files.sync_directory(directory)
        except StoreUnavailableError:  # a full disk, which half a part would keep full
            self._discard(written)
            raise
        failpoints.reached("opening.part-written")
        return before

    def _discard(self, written: Mapping[int, Mapping[str, int]]) -> None:
        directory = self.batches.parts_directory
        files.remove(directory / name for names in written.values() for name in names)

    def _part(self, row: SurveyRow, key: int, name: str, reports: int) -> Part:
        """A part of an open batch, as it was written; nothing of one that is not whole any more.

        One that is gone is waited for: its disk may come back.
        """
        wire = row.wire
        try:
            records = (self.batches.parts_directory / name).read_bytes()
        except FileNotFoundError:
            if name not in self.batches.growing(row, key):
                raise OvertakenError(name) from None
            raise MissingFileError(name, f"records of {reports} reports") from None
        whole = wire.absent is not None or len(records) == reports * wire.opened_bytes
        whole = whole and not len(records) % wire.sections[0].record_bytes
        return (records, reports) if whole else (b"", 0)

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
        """Give up on reports that cannot be opened: they are gone, and counted."""
        row = self.surveys.row(claim.survey)
        with self.database.write() as connection:
            _settle(connection, row.number, claim.key, self._gather(connection, claim))
            count(connection, row.number, {DEAD_LETTERS: claim.count})

    def _gather(self, connection: sa.Connection, claim: Claim) -> set[bytes]:
        """Take the claimed extents out of the journal, and their tags, which this returns.

        Not one of the extents may be somebody else's. One at a time for each survey: what two of
        them write anew is one.
        """
        row = self.surveys.row(claim.survey)
        lock_survey(connection, row.number, key_share=True)
        mine = extents.delete().where(extents.c.owner == claim.owner).returning(extents.c.id)
        ids = connection.scalars(mine).all()
        if len(ids) != len(claim.extents):
            raise LeaseLostError(f"{claim.count} reports of survey {claim.survey}")
        moved: set[bytes] = set()
        for start in range(0, len(ids), _AT_ONCE):
            theirs = waiting_tags.c.extent.in_(ids[start : start + _AT_ONCE])
            query = waiting_tags.delete().where(theirs).returning(waiting_tags.c.tag)
            moved.update(map(bytes, connection.scalars(query)))
        if row.survey.admission.code_bytes:
            settle(connection, row.number, ids)
        self.database.dialect.shrink(connection, [waiting_tags, waiting_codes])
        return moved

    def needed(self, names: Collection[str]) -> set[str]:
        """Segments that are referred to, or that a transaction of the server may refer to soon.

        In the other order: what ended in between is referred to by then.
        """
        with self.database.read() as connection:
            needed = self.database.dialect.held(connection, names)
        return needed | set(self.database.values(sa.select(extents.c.segment).distinct()))

    def sweep(self) -> bool:
        """Let the database's files forget the journal; whether nobody was in the way."""
        return self.database.sweep(SWEPT)

    def waiting_keys(self) -> set[int]:
        """The numbers of the keys that reports which wait to be opened were sealed for."""
        return set(self.database.values(sa.select(extents.c.key).distinct()))

    def tallies(self, survey: SurveyId) -> dict[str, int]:
        """Reports opened, rejected and given up as dead letters: for the operator only.

        They are not about closed batches only, and so not for the public.
        """
        number = self.surveys.row(survey).number
        query = sa.select(counters.c.name, counters.c.value).where(counters.c.survey == number)
        rows = self.database.rows(query.order_by(counters.c.name))
        return {row.name: row.value for row in rows if row.name in COUNTED}


def _settle(connection: sa.Connection, survey: int, key: int, added: set[bytes]) -> None:
    """Write the recent tags anew, with these; some of them leave for the table of tags."""
    mine = (recent_tags.c.survey == survey, recent_tags.c.key == key)
    before = connection.scalars(recent_tags.delete().where(*mine).returning(recent_tags.c.tag))
    remaining, leaving = turned_over(added.union(map(bytes, before)))
    add_tags(connection, survey, key, remaining, recent_tags)
    add_tags(connection, survey, key, leaving)


class _Group:
    """What arrived for one survey and key of the shuffler, and what of it is taken in."""

    def __init__(self, row: SurveyRow, key: int) -> None:
        self.row = row
        self.key = key
        self.extent = int(randomness.secure().words(1)[0] >> 1)
        self.tags: list[bytes] = []
        self.reports: list[bytes] = []
        self._codes: list[bytes] = []
        self.refused: dict[str, list[int]] = {}
        self.new = 0

    def add(self, arrival: Arrival) -> tuple[int, int]:
        """Take an arrival in; from where to where its reports are."""
        start, tags = len(self.tags), tags_of(arrival.reports, self.row.wire.report_bytes)
        size, codes = self.row.survey.admission.code_bytes, arrival.codes
        if len(codes) != len(tags) * size:
            raise InvalidArgumentError("codes", len(codes), f"{len(tags)} codes of {size} bytes")
        self.tags += tags
        self.reports.append(arrival.reports)
        if size:
            self._codes.append(codes)
        return start, len(self.tags)

    @property
    def codes(self) -> bytes:
        """What came beside them, in the same order."""
        return b"".join(self._codes)

    def choose(self, positions: Sequence[int]) -> bytes:
        """Go on with the reports at these positions; the codes of the others."""
        if len(positions) == len(self.tags):
            return b""
        chosen, codes = set(positions), self.codes
        others = [at for at in range(len(self.tags)) if at not in chosen]
        size = self.row.wire.report_bytes
        self.reports = [_picked(b"".join(self.reports), size, positions)]
        self._codes = [_picked(codes, CODE_BYTES, positions)]
        self.tags = [self.tags[at] for at in positions]
        return _picked(codes, CODE_BYTES, others)

    def refused_between(self, start: int, end: int) -> dict[str, list[int]]:
        """Positions that were refused, of one arrival and from its beginning on."""
        refused = {
            reason: [at - start for at in positions if start <= at < end]
            for reason, positions in self.refused.items()
        }
        return {reason: positions for reason, positions in refused.items() if positions}


def _picked(joined: bytes, size: int, positions: Sequence[int]) -> bytes:
    return b"".join(joined[at * size : (at + 1) * size] for at in positions) if joined else b""


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


# Segments


@dataclass(frozen=True)
class Extent:
    """A stretch of a segment."""

    segment: str
    start: int
    bytes: int


class Segments:
    """The segments of a directory; this process appends to one of them.

    A new one is begun after ``largest`` bytes or ``oldest`` seconds, so that what was opened long
    ago is not kept for the sake of what came later. One that a crash left is kept for ``grace``
    seconds.
    """

    def __init__(
        self,
        directory: Path,
        clock: Clock,
        *,
        largest: int = LARGEST,
        oldest: int = OLDEST,
        grace: float = HOUR,
    ) -> None:
        self._directory = files.create_directory(directory)
        self._clock = clock
        self._largest = checks.count(largest=largest)
        self._oldest = checks.count(oldest=oldest)
        self._grace: GracePeriod[str] = GracePeriod(grace)
        self._mutex = threading.Lock()
        self._file = -1
        self._name = ""
        self._begun = 0

    @contextmanager
    def appending(self) -> Iterator[Append]:
        """Within: a function that appends pieces and returns when they are on the disk.

        The transaction that refers to them has to end within, too.
        """
        with self._mutex:
            try:
                yield self._append
            finally:
                if self._file >= 0:
                    fcntl.flock(self._file, fcntl.LOCK_UN)

    def read(self, extent: Extent) -> bytes:
        """The bytes of an extent."""
        expected = f"{extent.bytes} bytes from {extent.start}"
        path = self._path(extent.segment)
        if not path.exists():
            raise MissingFileError(extent.segment, expected)
        with files.disk("reading reports"), path.open("rb") as file:
            file.seek(extent.start)
            data = file.read(extent.bytes)
        if len(data) != extent.bytes:
            raise UnreadableError(extent.segment, expected)
        return data

    def erase(
        self, extents: Iterable[Extent], needed: Needed, *, wait: bool = False
    ) -> list[Extent]:
        """Erase extents that nobody refers to any more; those in segments that others have locked.

        A segment that is not ``needed`` is deleted. With ``wait`` no extent is left.
        """
        stretches: dict[str, list[Extent]] = defaultdict(list)
        for each in extents:
            stretches[each.segment].append(each)
        left: list[Extent] = []
        with files.disk("erasing reports"):
            for name in sorted(stretches):
                with self._locked(name, wait=wait) as file:
                    if file is None:
                        left += stretches[name] if self._path(name).exists() else []
                    elif name in needed([name]):
                        _overwrite(file, stretches[name])
                    else:
                        files.remove([self._path(name)])
        return left

    def collect(self, needed: Needed) -> int:
        """Delete the segments that nobody has needed for a while; how many.

        ``needed`` is asked again of every one once its file is locked.
        """
        with files.disk("deleting segments"):
            names = {path.stem for path in self._directory.glob(f"*{_SUFFIX}")}
            collected = 0
            for name in sorted(self._grace.over(names - needed(names))):
                with self._locked(name) as file:
                    if file is not None and name not in needed([name]):
                        collected += files.remove([self._path(name)])
            return collected

    def close(self) -> None:
        """Let go of the file; the next append begins another."""
        with self._mutex:
            self._abandon()

    @contextmanager
    def _locked(self, name: str, *, wait: bool = False) -> Iterator[int | None]:
        """A segment's open file, locked; None if it is gone, or others have it."""
        try:
            # Writable: some network file systems lock nothing else.
            file = os.open(self._path(name), os.O_RDWR | os.O_CLOEXEC)
        except FileNotFoundError:
            yield None
            return
        try:
            yield file if _lock(file, wait=wait) else None
        finally:
            os.close(file)

    def _append(self, pieces: Sequence[bytes]) -> Extent:
        with files.disk("appending reports"):
            self._hold()
            start = os.lseek(self._file, 0, os.SEEK_END)
            try:
                files.write_all(self._file, pieces)
                files.forget_time(self._file)
                files.sync_data(self._file)
            except OSError:
                # What a file holds after a failed sync is anybody's guess: never append to it.
                self._give_up(start)
                raise
            end = os.lseek(self._file, 0, os.SEEK_CUR)
            return Extent(self._name, start, end - start)

    def _hold(self) -> None:
        """Lock the file of this process; a new one if it is full, old, taken or deleted."""
        if self._file >= 0 and not (_lock(self._file) and self._usable()):
            self._abandon()
        while self._file < 0:
            self._name, self._begun = files.fresh_name(), self._clock()
            self._file = files.create(self._path(self._name))
            if not (_lock(self._file) and self._usable()):  # a collection was quicker
                self._abandon()
                continue
            try:
                files.sync_directory(self._directory)
            except OSError:
                # Nobody would sync it again before the next append is acknowledged.
                self._give_up(0)
                raise

    def _usable(self) -> bool:
        status = os.fstat(self._file)
        young = abs(self._clock() - self._begun) < self._oldest
        return status.st_nlink > 0 and status.st_size < self._largest and young

    def _give_up(self, start: int) -> None:
        with suppress(OSError):
            if start:
                os.ftruncate(self._file, start)
            else:
                self._path(self._name).unlink()
        self._abandon()

    def _abandon(self) -> None:
        if self._file >= 0:
            os.close(self._file)
            self._file = -1

    def _path(self, name: str) -> Path:
        return self._directory / f"{name}{_SUFFIX}"


def _overwrite(file: int, stretches: Iterable[Extent]) -> None:
    """Write zeros over stretches of a file, which may have been cut short."""
    size = os.fstat(file).st_size
    for each in stretches:
        os.pwrite(file, bytes(max(0, min(each.bytes, size - each.start))), each.start)
    files.forget_time(file)
    files.sync_data(file)


def _lock(file: int, *, wait: bool = False) -> bool:
    try:
        fcntl.flock(file, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
    except BlockingIOError:
        return False
    return True
