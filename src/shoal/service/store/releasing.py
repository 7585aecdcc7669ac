"""A closed batch's way out: shuffled into one file, released to one request, deleted.

::

    SEALED ──▶ SHUFFLED ──▶ RELEASED ──▶ ACKED ──▶ PURGED

Every step names the state it expects. The shuffled file is named after the batch and its own
digest: two who shuffle the same batch, because one was taken for dead, write two files, and the one
whose digest was committed is the batch for ever.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import sqlalchemy as sa

from shoal.errors import InvalidArgumentError
from shoal.sealing import SurveyId
from shoal.service import failpoints
from shoal.service.batch_file import BatchFile, BatchHeader
from shoal.service.clock import Clock
from shoal.service.errors import (
    AlreadyCollectedError,
    DigestMismatchError,
    LeaseLostError,
    NotReadyError,
    UnknownBatchError,
    UnreadableError,
)
from shoal.service.store import files, leases
from shoal.service.store.database import Database
from shoal.service.store.schema import (
    ACKED,
    EXPIRED,
    LISTED,
    PURGED,
    RELEASED,
    SEALED,
    SHUFFLED,
    batches,
    parts,
)
from shoal.service.store.surveys import SurveyTable
from shoal.service.store.values import BatchInfo, SealedBatch

PAGE = 1000
_WAIT = 10  # seconds until a sealed batch may be shuffled
_WAIT_OPEN = 600
_DIGEST_SHOWN = 16  # digits of it in the file's name
_DIGEST_DIGITS = 64


@dataclass(frozen=True)
class Releasing:
    """The closed batches of all surveys."""

    database: Database
    surveys: SurveyTable
    batches_directory: Path
    parts_directory: Path
    clock: Clock
    node: str

    def claim(self, lease_seconds: int) -> SealedBatch | None:
        """A sealed batch that nobody else shuffles."""
        now = self.clock()
        until = leases.lease_end(now, lease_seconds)
        sealed = (
            sa.select(batches)
            .where(batches.c.state == SEALED, leases.free(batches, now))
            .order_by(batches.c.id)
            .limit(1)
        )
        with self.database.read() as connection:
            if connection.execute(sealed).first() is None:
                return None
        owner = leases.new_owner(self.node)
        with self.database.write() as connection:
            row = connection.execute(sealed.with_for_update(skip_locked=True)).first()
            if row is None:
                return None
            connection.execute(
                batches.update()
                .where(batches.c.id == row.id, batches.c.state == SEALED)
                .values(owner=owner, lease_until=until)
            )
            names = connection.scalars(
                sa.select(parts.c.name).where(parts.c.batch == row.id).order_by(parts.c.name)
            ).all()
        return SealedBatch(
            id=row.id,
            survey=self.surveys.numbered(row.survey).survey.id,
            inner_key=row.inner_key,
            valid=row.valid,
            owner=owner,
            parts=tuple(self.parts_directory / name for name in names),
            draft=self.batches_directory / f"{row.id}-{leases.mark(owner)}.draft",
        )

    def finish_shuffle(self, batch: SealedBatch, digest: str, records: int, size: int) -> None:
        """The draft is the batch, if the lease was not lost."""
        self._check_draft(batch, digest, records, size)
        path = self.path(batch.id, digest)
        with files.disk("keeping a batch"):
            batch.draft.chmod(0o600)  # whoever wrote it may have been less careful
            files.sync_file(batch.draft)
            failpoints.reached("shuffle.written")
            batch.draft.replace(path)
            files.sync_directory(self.batches_directory)
        failpoints.reached("shuffle.renamed")
        with self.database.write() as connection:
            moved = connection.execute(
                batches.update()
                .where(
                    batches.c.id == batch.id,
                    batches.c.state == SEALED,
                    batches.c.owner == batch.owner,
                )
                .values(
                    state=SHUFFLED,
                    owner=None,
                    lease_until=None,
                    digest=digest,
                    records=records,
                    bytes=size,
                )
            )
            if moved.rowcount != 1:  # the file stays: it may be the winner's, byte for byte
                raise LeaseLostError(f"batch {batch.id}")
        failpoints.reached("shuffle.after-commit")

    def _check_draft(self, batch: SealedBatch, digest: str, records: int, size: int) -> None:
        known = self.surveys.find(batch.survey)
        expected = BatchHeader(
            survey=batch.survey,
            batch=batch.id,
            key=batch.inner_key,
            reports=batch.valid,
            records=batch.valid * known.survey.slots,
            record_bytes=known.wire.record_bytes,
        )
        if not batch.draft.exists():
            raise UnreadableError(batch.draft.name, "the shuffled batch")
        if BatchFile.read(batch.draft).header != expected or records != expected.records:
            raise InvalidArgumentError("records", records, f"a draft of {expected.records} records")
        if size != batch.draft.stat().st_size:
            raise InvalidArgumentError("bytes", size, "the size of the draft")
        if len(digest) != _DIGEST_DIGITS:
            raise InvalidArgumentError("digest", digest, f"{_DIGEST_DIGITS} hexadecimal digits")

    def path(self, batch: str, digest: str) -> Path:
        """Where a shuffled batch is."""
        return self.batches_directory / f"{batch}-{digest[:_DIGEST_SHOWN]}.batch"

    def listed(self, survey: SurveyId, after: str | None) -> list[BatchInfo]:
        """The batches that can be or were collected, by name, so many at a time."""
        number = self.surveys.find(survey).number
        query = (
            sa.select(batches)
            .where(
                batches.c.survey == number,
                batches.c.state.in_(LISTED),
                batches.c.id > (after or ""),
            )
            .order_by(batches.c.id)
            .limit(PAGE)
        )
        with self.database.read() as connection:
            rows = connection.execute(query).all()
        return [
            BatchInfo(
                id=row.id,
                state=row.state,
                inner_key=row.inner_key,
                reports=row.valid,
                records=row.records,
                bytes=row.bytes,
                digest=row.digest,
                closed=row.closed,
            )
            for row in rows
        ]

    def release(self, survey: SurveyId, batch: str, request: str) -> Path:
        """The file of a batch, for the one request that came first."""
        with self.database.write() as connection:
            moved = connection.execute(
                batches.update()
                .where(self._is(survey, batch), batches.c.state == SHUFFLED)
                .values(state=RELEASED, request=request)
            )
            row = self._found(connection, survey, batch)
            if row.state != RELEASED or row.request != request:
                raise AlreadyCollectedError(batch)
        path = self.path(batch, row.digest)
        if moved.rowcount == 1:
            failpoints.reached("release.recorded")
        if not path.exists():
            raise UnreadableError(path.name, "the shuffled batch")
        return path

    def acknowledge(self, survey: SurveyId, batch: str, request: str, digest: str) -> None:
        """The collector has all of it: it may be deleted. Said twice, it is true once."""
        with self.database.write() as connection:
            row = self._found(connection, survey, batch)
            if row.state == SHUFFLED:
                raise NotReadyError(f"batch {batch}", "nobody has collected it", retry_after=_WAIT)
            if row.request != request:
                raise AlreadyCollectedError(batch)
            if row.digest != digest:
                raise DigestMismatchError(batch, digest)
            moved = connection.execute(
                batches.update()
                .where(self._is(survey, batch), batches.c.state == RELEASED)
                .values(state=ACKED)
            )
        if moved.rowcount == 1:
            failpoints.reached("release.acknowledged")

    def _found(self, connection: sa.Connection, survey: SurveyId, batch: str) -> sa.Row[Any]:
        """The row of a batch that was shuffled at least."""
        row = connection.execute(sa.select(batches).where(self._is(survey, batch))).first()
        if row is None or row.state == EXPIRED:
            raise UnknownBatchError(batch)
        if row.state == SEALED:
            raise NotReadyError(f"batch {batch}", "it is being shuffled", retry_after=_WAIT)
        if row.state not in LISTED:
            raise NotReadyError(f"batch {batch}", "it is still open", retry_after=_WAIT_OPEN)
        return row

    def _is(self, survey: SurveyId, batch: str) -> sa.ColumnElement[bool]:
        number = self.surveys.find(survey).number
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
        with self.database.read() as connection:
            due = connection.execute(sa.select(batches.c.id, batches.c.state).where(done)).all()
        for row in due:
            self._purge(row.id, row.state)
        return len(due)

    def _purge(self, batch: str, state: str) -> None:
        """Files first: a crash in between leaves rows that say what is still to be deleted."""
        with self.database.read() as connection:
            names = connection.scalars(sa.select(parts.c.name).where(parts.c.batch == batch)).all()
        with files.disk("deleting a batch"):
            files.remove(self.parts_directory / name for name in names)
            files.sync_directory(self.parts_directory)
            if state in {ACKED, EXPIRED}:
                files.remove(self.batches_directory.glob(f"{batch}-*"))
                files.sync_directory(self.batches_directory)
        failpoints.reached("purge.files-deleted")
        with self.database.write() as connection:
            connection.execute(parts.delete().where(parts.c.batch == batch))
            connection.execute(
                batches.update()
                .where(batches.c.id == batch, batches.c.state == ACKED)
                .values(state=PURGED)
            )
