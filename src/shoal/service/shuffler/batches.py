"""Batches, from the first opened report for a key of the analyzer to their deletion.

::

    OPEN ──▶ SEALED ──▶ SHUFFLED ──▶ RELEASED ──▶ ACKED ──▶ PURGED
      ├──▶ CARRIED ──▶ SEALED
      └──▶ EXPIRED             (CARRIED ──▶ EXPIRED when the survey is over)

    OPEN     ─▶ SEALED    valid >= target, or old enough and valid >= minimum
    OPEN     ─▶ CARRIED   old enough, too few, small="carry"
    CARRIED  ─▶ SEALED    valid >= minimum
    OPEN     ─▶ EXPIRED   old enough, too few, small="expire", or the survey is over
    SEALED   ─▶ SHUFFLED  a worker has mixed it into one file
    SHUFFLED ─▶ RELEASED  the first request for it, which may repeat it
    RELEASED ─▶ ACKED     the collector has all of it
    ACKED    ─▶ PURGED    its files are deleted

Every move is one conditional update that names the state it expects. The minimum is in the
condition of the one statement that seals, and counts reports that opened, not uploads: no clock,
crash or race makes a smaller batch. A batch with too few does not die while reports of its survey
wait to be opened, nor at one look alone: a clock that was ahead for a moment closes batches early,
and deletes none. Reports that wait when a batch can close are gathered first; those that come
meanwhile are the next one's, so that nobody can hold a batch open by sending on and on.

The shuffled file is named after the batch and its own digest: two who shuffle the same batch,
because one was taken for dead, write two files, and the one whose digest was committed is the batch
for ever.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from operator import itemgetter
from pathlib import Path
from threading import Lock
from typing import Any

import sqlalchemy as sa

from shoal.errors import InvalidArgumentError
from shoal.sealing import SurveyId
from shoal.service import failpoints
from shoal.service.batch_file import BatchFile, BatchHeader
from shoal.service.clock import HOUR, Clock, GracePeriod
from shoal.service.db import files
from shoal.service.db.database import Database
from shoal.service.db.dialect import dialect_of
from shoal.service.db.leases import FREE, Leases
from shoal.service.db.surveys import SurveyRow, Surveys
from shoal.service.errors import (
    NotReadyError,
    OvertakenError,
    StoreUnavailableError,
    UnknownError,
    UnreadableError,
    already_collected,
    wrong_digest,
)
from shoal.service.shuffler.tables import (
    ACCEPTS,
    ACKED,
    CARRIED,
    CLOSED,
    EXPIRED,
    LISTED,
    OPEN,
    PURGED,
    RELEASED,
    SEALED,
    SHUFFLED,
    batches,
    counters,
    extents,
    parts,
)
from shoal.service.survey import Batches as BatchRules

PAGE = 1000
DEAD_LETTERS = "unreadable"  # the name of their counter, in stores and in metrics
DAMAGED = "damaged"  # the same of reports that are not what was received any more
UNOPENED = ("rejected", DEAD_LETTERS, DAMAGED)
_AT_CLOSE = " at close"
_STEPS = 24  # of a batch's greatest age, if that is shorter than a day
_MOST_GROWING = 20  # parts that are written anew together
_WAIT = 10  # seconds until a sealed batch may be shuffled
_WAIT_OPEN = 600
_DIGEST_SHOWN = 16  # digits of it in the file's name
INTERVAL = 600  # seconds between two looks
_MINUTE = 60
LEAST_CROWD = 50  # a quarter of less would be a handful of people
_QUARTERS = 4
_LOOKING = 2.0  # seconds to wait for a look that is under way


@dataclass(frozen=True)
class SealedBatch:
    """A closed batch that nobody else shuffles while the lease lasts.

    Its records are in ``parts``; the shuffled file, which begins with ``header``, is written to
    ``draft``. Records that are added to those of the parts are in ``filling`` meanwhile.
    """

    header: BatchHeader
    owner: str
    parts: tuple[Path, ...]
    draft: Path
    filling: Path
    rows: int = 1  # that are leased


@dataclass(frozen=True)
class Transition:
    """What became of a batch."""

    batch: str
    survey: SurveyId
    state: str


@dataclass(frozen=True)
class BatchInfo:
    """A batch that can be, or was, collected. ``closed`` is rounded down to the hour."""

    id: str
    state: str
    key: int
    reports: int
    records: int
    bytes: int
    digest: str
    closed: int


def begun(now: int, rules: BatchRules) -> int:
    """When a batch that is made now began: rounded down to the hour, or to 1/24 of its age.

    >>> rules = BatchRules(minimum=100, target=200, max_age=7 * 86_400)
    >>> begun(1_800_001_234, rules) == 1_800_000_000
    True
    """
    step = max(1, min(HOUR, rules.max_age // _STEPS))
    return now - now % step


class Batches:
    """The batches of all surveys: parts of open ones, files of shuffled ones."""

    def __init__(
        self, database: Database, surveys: Surveys, directory: Path, clock: Clock, *, grace: float
    ) -> None:
        self._database = database
        self._surveys = surveys
        self._clock = clock
        self.leases = Leases(database, batches, clock)
        self._hopeless: GracePeriod[str] = GracePeriod(grace)
        self.parts_directory = files.create_directory(directory / "parts")
        self.files_directory = files.create_directory(directory / "batches")

    def growing(self, row: SurveyRow, inner_key: int) -> dict[str, int]:
        """The part of the open batch for a key of the analyzer that grows, with its reports.

        There may be many in a store of an older version: they are not all taken at once.
        """
        mine = (batches.c.survey == row.number, batches.c.inner_key == inner_key, ACCEPTS)
        query = (
            sa.select(parts.c.name, parts.c.count.label("reports"))
            .join(batches, parts.c.batch == batches.c.id)
            .where(*mine, parts.c.grows)
            .order_by(parts.c.count, parts.c.name)
            .limit(_MOST_GROWING)
        )
        return {each.name: each.reports for each in self._database.rows(query)}

    def join(
        self,
        connection: sa.Connection,
        row: SurveyRow,
        inner_key: int,
        reports: int,
        added: Mapping[str, int],
        replaced: Collection[str] = (),
    ) -> None:
        """Add so many reports to the batch that is open for a key of the analyzer.

        ``added`` are parts with their reports, of which the first one grows, in place of the
        ``replaced`` ones of this batch, each of which has to be there still.
        """
        mine = (batches.c.survey == row.number, batches.c.inner_key == inner_key, ACCEPTS)
        fresh = {
            "id": files.fresh_name(),
            "survey": row.number,
            "inner_key": inner_key,
            "state": OPEN,
            "valid": 0,
            "since": begun(self._clock(), row.survey.batches),
        }
        # Somebody else may insert one at this moment: then theirs is found.
        grown = batches.update().where(*mine).values(valid=batches.c.valid + reports)
        made = self._database.insert(batches).values(fresh).on_conflict_do_nothing()
        while (batch := connection.scalar(grown.returning(batches.c.id))) is None:
            connection.execute(made)
        before = parts.delete().where(parts.c.batch == batch, parts.c.name.in_(sorted(replaced)))
        if replaced and connection.execute(before).rowcount != len(replaced):
            raise OvertakenError(batch)
        rows = [
            {"name": name, "batch": batch, "count": added[name], "grows": not place}
            for place, name in enumerate(added)
        ]
        connection.execute(parts.insert(), sorted(rows, key=itemgetter("name")))

    def inner_keys(self, survey: SurveyId) -> set[int]:
        """The numbers of the analyzer's keys that batches of a survey are open for."""
        number = self._surveys.row(survey).number
        query = sa.select(batches.c.inner_key).where(batches.c.survey == number, ACCEPTS)
        return set(self._database.values(query))

    # Open batches close, wait or die

    def closing(self, connection: sa.Connection, waiting: Mapping[int, int]) -> set[int]:
        """Surveys, by their numbers, with a batch that could close if so many more reports came."""
        now, closing = self._clock(), set()
        for number, more in waiting.items():
            row = self._surveys.numbered(number)
            rules = row.survey.batches
            aged, over = _due(row, now)
            late = sa.or_(batches.c.state == CARRIED, aged)
            least = sa.case((late, rules.minimum), else_=rules.target)
            full = sa.select(batches.c.id).where(
                batches.c.survey == number, ACCEPTS, batches.c.valid + more >= least
            )
            if over or more >= rules.target or connection.execute(full).first():
                closing.add(number)
        return closing

    def advance(self, *, expire: bool = True) -> list[Transition]:
        """Seal, carry and, if the clock can be trusted, expire what is due now."""
        now = self._clock()
        numbers = set(self._database.values(sa.select(batches.c.survey).where(ACCEPTS)))
        rows = [self._surveys.numbered(number) for number in sorted(numbers)]
        transitions: list[Transition] = []
        if rows:
            with self._database.write() as connection:
                hopeless: set[str] = set()
                for row in rows:
                    ours = (batches.c.survey == row.number, ACCEPTS)
                    # Rows are locked in the order in which finished claims lock them.
                    order = sa.select(batches.c.id).where(*ours).order_by(batches.c.inner_key)
                    connection.execute(order.with_for_update()).all()
                    # A clock that was set back makes nothing older than it is.
                    ahead = batches.update().where(*ours, batches.c.since > now)
                    connection.execute(ahead.values(since=begun(now, row.survey.batches)))
                    due = sa.select(batches.c.id).where(*ours, _is_hopeless(row, now))
                    hopeless.update(connection.scalars(due))
                dying = self._hopeless.over(hopeless if expire else ())
                for row in rows:
                    moved = _advanced(connection, row, now, dying)
                    transitions += moved
                    if all(transition.state == CARRIED for transition in moved):
                        continue
                    # What did not open comes among others: its number is as of the last close.
                    unopened = _unopened(connection, row.number)
                    at_close = {name + _AT_CLOSE: value for name, value in unopened.items()}
                    count(connection, row.number, at_close, anew=True)
        if any(transition.state == SEALED for transition in transitions):
            failpoints.reached("batch.sealed")
        return transitions

    # Sealed batches are shuffled

    def claim(self, lease_seconds: int) -> SealedBatch | None:
        """A sealed batch that nobody else shuffles; None if there is none."""
        lease = self.leases.begun(lease_seconds)
        sealed = (
            sa.select(batches)
            .where(batches.c.state == SEALED, self.leases.free())
            .order_by(batches.c.id)
            .limit(1)
        )
        if self._database.first(sealed) is None:
            return None
        with self._database.write() as connection:
            row = connection.execute(sealed.with_for_update(skip_locked=True)).first()
            if row is None:
                return None
            connection.execute(batches.update().where(batches.c.id == row.id).values(lease))
            names = connection.scalars(
                sa.select(parts.c.name).where(parts.c.batch == row.id).order_by(parts.c.name)
            ).all()
        survey = self._surveys.numbered(row.survey)
        paths = tuple(self.parts_directory / name for name in names)
        sizes = [section.record_bytes for section in survey.wire.sections]
        full = survey.survey.records(row.valid)
        if survey.wire.absent is not None:
            # Reports leave slots out, and the batch is filled up to a number that does not show how
            # many records there are; if that many are not enough, to the next multiple of it. A
            # part that is gone is noticed when it is read.
            there = sum(path.stat().st_size for path in paths if path.exists()) // sizes[0]
            full = (max(1, -(-there // full[0])) * full[0],)
        draft = self.files_directory / f"{row.id}-{lease['owner']}.draft"
        return SealedBatch(
            header=BatchHeader(
                survey=survey.survey.id,
                batch=row.id,
                key=row.inner_key,
                reports=row.valid,
                sections=tuple(zip(full, sizes, strict=True)),
            ),
            owner=lease["owner"],
            parts=paths,
            draft=draft,
            filling=draft.with_suffix(".filling"),
        )

    def finish(self, batch: SealedBatch, digest: str) -> None:
        """The draft is written: it is the batch, if the lease was not lost."""
        if not batch.draft.exists():
            raise UnreadableError(batch.draft.name, "the shuffled batch")
        header = BatchFile.read(batch.draft).header  # and all records that it announces
        if header != batch.header:
            raise InvalidArgumentError("draft", header, f"the draft of {batch.header}")
        path, size = self.path(header.batch, digest), batch.draft.stat().st_size
        with files.disk("keeping a batch"):
            batch.draft.chmod(0o600)  # the writer's umask may allow more
            with batch.draft.open("rb") as draft:
                os.fsync(draft.fileno())
            failpoints.reached("shuffle.written")
            batch.draft.replace(path)
            files.sync_directory(self.files_directory)
        failpoints.reached("shuffle.renamed")
        values = {"state": SHUFFLED, "digest": digest, "records": header.records, "bytes": size}
        # Without the lease the file stays: it may be the winner's, byte for byte.
        self.leases.change(batch.owner, values | FREE)
        failpoints.reached("shuffle.after-commit")

    def path(self, batch: str, digest: str) -> Path:
        """Where a shuffled batch is."""
        return self.files_directory / f"{batch}-{digest[:_DIGEST_SHOWN]}.batch"

    # Shuffled batches are listed, released, acknowledged, deleted

    def listed(self, survey: SurveyId, after: str | None = None) -> list[BatchInfo]:
        """Batches that can be or were collected, by name; ``after`` is the next page."""
        number, rows = self._surveys.row(survey).number, batches.c
        columns = (rows.id, rows.state, rows.inner_key, rows.valid, rows.records, rows.bytes)
        query = (
            sa.select(*columns, rows.digest, rows.closed)
            .where(rows.survey == number, rows.state.in_(LISTED), rows.id > (after or ""))
            .order_by(rows.id)
            .limit(PAGE)
        )
        return [BatchInfo(*row) for row in self._database.rows(query)]

    def release(self, survey: SurveyId, batch: str, request: str) -> Path:
        """The file of a batch, for the request that came first, as often as it asks."""
        mine = self._is(survey, batch)
        with self._database.write() as connection:
            moved = connection.execute(
                batches.update()
                .where(mine, batches.c.state == SHUFFLED)
                .values(state=RELEASED, request=request)
            )
            row = _shuffled(connection, mine, batch)
            if row.state != RELEASED or row.request != request:
                raise already_collected(batch)
        path = self.path(batch, row.digest)
        if moved.rowcount == 1:
            failpoints.reached("release.recorded")
        if not path.exists():
            raise UnreadableError(path.name, "the shuffled batch")
        return path

    def acknowledge(self, survey: SurveyId, batch: str, request: str, digest: str) -> None:
        """The collector has all of it: it may be deleted. Said twice, it is true once."""
        mine = self._is(survey, batch)
        with self._database.write() as connection:
            row = _shuffled(connection, mine, batch)
            if row.state == SHUFFLED:
                raise NotReadyError(f"batch {batch}", "it was never collected", retry_after=_WAIT)
            if row.request != request:
                raise already_collected(batch)
            if row.digest != digest:
                raise wrong_digest(batch, digest)
            moved = connection.execute(
                batches.update().where(mine, batches.c.state == RELEASED).values(state=ACKED)
            )
        if moved.rowcount == 1:
            failpoints.reached("release.acknowledged")

    def _is(self, survey: SurveyId, batch: str) -> sa.ColumnElement[bool]:
        number = self._surveys.row(survey).number
        return sa.and_(batches.c.id == batch, batches.c.survey == number)

    def purge(self) -> int:
        """Delete what nobody needs any more; how many batches something was deleted of.

        The parts of a batch go once it is shuffled, its file once it is acknowledged, and both of
        one that died.
        """
        has_parts = sa.exists().where(parts.c.batch == batches.c.id)
        done = sa.or_(
            batches.c.state == ACKED,
            sa.and_(batches.c.state.in_((SHUFFLED, RELEASED, EXPIRED)), has_parts),
        )
        due = self._database.rows(sa.select(batches.c.id, batches.c.state).where(done))
        for row in due:
            self._purge(row.id, row.state)
        return len(due)

    def _purge(self, batch: str, state: str) -> None:
        """Files first: a crash in between leaves rows that say what is still to be deleted."""
        names = self._database.values(sa.select(parts.c.name).where(parts.c.batch == batch))
        self.remove_files(names, [batch] if state in {ACKED, EXPIRED} else [])
        failpoints.reached("purge.files-deleted")
        with self._database.write() as connection:
            connection.execute(parts.delete().where(parts.c.batch == batch))
            connection.execute(
                batches.update()
                .where(batches.c.id == batch, batches.c.state == ACKED)
                .values(state=PURGED)
            )

    def remove_files(self, names: Iterable[str], ids: Iterable[str]) -> int:
        """Delete parts by their names, and the shuffled files of batches; how many there were."""
        with files.disk("deleting a batch"):
            removed = files.remove(self.parts_directory / name for name in names)
            files.sync_directory(self.parts_directory)
            for batch in ids:
                removed += files.remove(self.files_directory.glob(f"{batch}-*"))
            files.sync_directory(self.files_directory)
        return removed

    # Figures of closed batches, which may be published

    def counters(self, survey: SurveyId) -> dict[str, int]:
        """Closed batches, the reports in them, and batches that died."""
        closed, number = batches.c.state.in_(CLOSED), sa.func.count()
        query = sa.select(
            number.filter(closed),
            sa.func.coalesce(sa.func.sum(batches.c.valid).filter(closed), 0),
            number.filter(batches.c.state == EXPIRED),
        ).where(batches.c.survey == self._surveys.row(survey).number)
        (totals,) = self._database.rows(query)
        return dict(zip(("batches", "reports", "expired_batches"), map(int, totals), strict=True))

    def unopened(self, survey: SurveyId) -> dict[str, int]:
        """Reports that did not open, by the reason, when a batch closed last."""
        number = self._surveys.row(survey).number
        with self._database.read() as connection:
            return _unopened(connection, number, _AT_CLOSE)

    def states(self, survey: SurveyId) -> dict[str, int]:
        """How many batches that can be or were collected are in which state."""
        mine = batches.c.survey == self._surveys.row(survey).number
        query = sa.select(batches.c.state, sa.func.count()).where(mine, batches.c.state.in_(LISTED))
        rows = self._database.rows(query.group_by(batches.c.state))
        return {state: int(number) for state, number in rows}

    def last_size(self, survey: SurveyId) -> int | None:
        """How many reports the batch has that closed last; one of them, if several in that hour."""
        mine = batches.c.survey == self._surveys.row(survey).number
        query = (
            sa.select(batches.c.valid)
            .where(mine, batches.c.state.in_(LISTED))
            .order_by(batches.c.closed.desc(), batches.c.id)
            .limit(1)
        )
        return next(iter(self._database.values(query)), None)


def count(
    connection: sa.Connection, survey: int, values: Mapping[str, int], *, anew: bool = False
) -> None:
    """Add to the counters of a survey, in one order for all; ``anew``: set them."""
    insert = dialect_of(connection).insert
    for name, value in sorted(values.items()):
        if value:
            row = insert(counters).values(survey=survey, name=name, value=value)
            total = value if anew else counters.c.value + value
            keys = ["survey", "name"]
            connection.execute(
                row.on_conflict_do_update(index_elements=keys, set_={"value": total})
            )


def _unopened(connection: sa.Connection, survey: int, when: str = "") -> dict[str, int]:
    query = sa.select(counters.c.name, counters.c.value).where(counters.c.survey == survey)
    values = {row.name: row.value for row in connection.execute(query)}
    return {name: values.get(name + when, 0) for name in UNOPENED}


def _is_hopeless(row: SurveyRow, now: int) -> sa.ColumnElement[bool]:
    rules, (aged, over) = row.survey.batches, _due(row, now)
    pending = sa.exists().where(extents.c.survey == row.number)
    due = sa.literal(over) if rules.small == "carry" else sa.or_(aged, sa.literal(over))
    return sa.and_(batches.c.valid < rules.minimum, due, sa.not_(pending))


def _due(row: SurveyRow, now: int) -> tuple[sa.ColumnElement[bool], bool]:
    """Which batches of a survey are old enough to close, and whether no other can come."""
    rules = row.survey.batches
    return batches.c.since <= now - rules.max_age, now > row.survey.not_after + rules.max_age


def _advanced(
    connection: sa.Connection,
    row: SurveyRow,
    now: int,
    dying: Collection[str],
) -> list[Transition]:
    rules, (aged, over) = row.survey.batches, _due(row, now)
    full, waited = batches.c.valid >= rules.target, batches.c.state == CARRIED
    late = sa.or_(waited, aged, sa.literal(over))
    closes = sa.or_(full, late)
    waits = sa.and_(batches.c.state == OPEN, batches.c.valid < rules.minimum, aged)
    moves = [
        (SEALED, sa.and_(batches.c.valid >= rules.minimum, closes)),
        (EXPIRED, sa.and_(batches.c.id.in_(sorted(dying)), _is_hopeless(row, now))),
        (CARRIED, waits if rules.small == "carry" else sa.false()),
    ]
    transitions = []
    for state, condition in moves:
        values: dict[str, Any] = {"state": state}
        if state != CARRIED:
            values |= {"since": None, "closed": now - now % HOUR}
        moved = connection.scalars(
            batches.update()
            .where(batches.c.survey == row.number, ACCEPTS, condition)
            .values(values)
            .returning(batches.c.id)
        )
        transitions += [Transition(batch, row.survey.id, state) for batch in sorted(moved)]
    return transitions


def _shuffled(connection: sa.Connection, mine: sa.ColumnElement[bool], batch: str) -> sa.Row[Any]:
    """The row of a batch that was shuffled at least."""
    row = connection.execute(sa.select(batches).where(mine)).first()
    if row is None or row.state == EXPIRED:
        raise UnknownError("batch", batch)
    if row.state == SEALED:
        raise NotReadyError(f"batch {batch}", "it is being shuffled", retry_after=_WAIT)
    if row.state not in LISTED:
        raise NotReadyError(f"batch {batch}", "it is still open", retry_after=_WAIT_OPEN)
    return row


# What everybody may know of the open batch


@dataclass(frozen=True)
class Progress:
    """How far an open batch was when it was looked at last.

    ``share`` of the minimum is rounded down to quarters; None if the minimum is so small that they
    would count people. ``closes_in`` is rounded up to hours, in seconds; None if less than a
    quarter is there, or if the batch waits for the minimum only. ``as_of`` is when it was looked
    at, in seconds since 1970, rounded down to minutes.
    """

    share: float | None
    minimum: int
    closes_in: int | None
    as_of: int


@dataclass(frozen=True, eq=False)
class ProgressCache:
    """What was seen of the open batches, at least ``INTERVAL`` seconds apart."""

    database: Database
    surveys: Surveys
    clock: Clock
    # survey's number -> when, what
    _seen: dict[int, tuple[int, Progress]] = field(default_factory=dict, init=False)
    _lock: Lock = field(default_factory=Lock, init=False)

    def of(self, survey: SurveyId) -> Progress:
        """How far the fullest open batch of a survey was when it was looked at last."""
        row = self.surveys.row(survey)
        progress = self._fresh(row.number)
        if progress is not None:
            return progress
        seen = self._seen.get(row.number)
        # During a look others get what was seen before.
        if self._lock.acquire(timeout=0 if seen is not None else _LOOKING):
            try:
                progress = self._fresh(row.number)
                if progress is None:
                    progress = self._now(row)
                    self._seen[row.number] = self.clock(), progress
                return progress
            finally:
                self._lock.release()
        if seen is None:
            raise StoreUnavailableError("reading", "the database is slow")
        return seen[1]

    def _fresh(self, number: int) -> Progress | None:
        """What was seen, unless it is time to look again."""
        if number not in self._seen:
            return None
        (at, progress), now = self._seen[number], self.clock()
        if now < at:
            # The clock was set back: neither a look too early, nor none until it has caught up.
            at = now
            self._seen[number] = at, progress
        return progress if now < at + INTERVAL else None

    def _now(self, row: SurveyRow) -> Progress:
        rules, now = row.survey.batches, self.clock()
        as_of = now - now % _MINUTE
        if rules.minimum < LEAST_CROWD:
            return Progress(None, rules.minimum, None, as_of)
        query = (
            sa.select(batches.c.valid, batches.c.since, batches.c.state)
            .where(batches.c.survey == row.number, ACCEPTS)
            .order_by(batches.c.valid.desc(), batches.c.id)
            .limit(1)
        )
        batch = self.database.first(query)
        quarters = 0
        if batch is not None:
            quarters = min(_QUARTERS, _QUARTERS * batch.valid // rules.minimum)
        if batch is None or not quarters or batch.state == CARRIED:
            return Progress(quarters / _QUARTERS, rules.minimum, None, as_of)
        left = min(max(batch.since + rules.max_age - now, 0), rules.max_age)
        return Progress(quarters / _QUARTERS, rules.minimum, -(-left // HOUR) * HOUR, as_of)
