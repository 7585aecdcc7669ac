"""One batch on its way to a result: what it is called, how far it is, who works on it.

::

    REQUESTED ─▶ RECEIVED ─▶ OPENED ─▶ BUDGETED ─▶ PUBLISHED ─▶ (acknowledged)
        │            │                    └─▶ HELD ─▶ (acknowledged)
        │            │                          └─▶ (PUBLISHED, if an operator releases it)
        └────────────┴─▶ REFUSED ─▶ (REQUESTED, if an operator asks for it again)

A batch with a warning, as its estimates are such that no honest crowd gives, is HELD. It is opened,
its tags are spent and its debit is entered like those of any other; only publication waits.

Every step is one transaction that names the state it starts from and the owner who takes it, so
that it happens once, whoever else tries. A crash leaves the state before or the state after.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, ClassVar

import numpy as np
import sqlalchemy as sa

from shoal.errors import InvalidArgumentError
from shoal.sealing import SurveyId
from shoal.service.analyzer.decode import Admitted, Mask, packed, unpacked
from shoal.service.analyzer.tables import (
    BUDGETED,
    HELD,
    OPENED,
    PUBLISHED,
    RECEIVED,
    REFUSED,
    REQUESTED,
    collections,
)
from shoal.service.db.database import Database
from shoal.service.db.files import fresh_name
from shoal.service.db.leases import FREE, LEASE, Leases
from shoal.service.db.surveys import Surveys
from shoal.service.db.tables import add_tags, known_tags
from shoal.service.errors import LeaseLostError, UnknownError
from shoal.service.opening import TAG_BYTES, Rows
from shoal.values import Counts

LARGEST_BATCH = 1 << 40  # bytes; no shuffler has one
MOST_KEY = 255
LATEST = 90 * 86_400  # after a survey's last batch, for those that were asked for and never came
BATCH_NAME = re.compile(r"[0-9a-f]{32}")
DIGEST = re.compile(r"[0-9a-f]{64}")
_TAGS_AT_ONCE = 1_000_000
_without_cells = [column for column in collections.c if column.name != "cells"]


@dataclass(frozen=True, kw_only=True)
class Offer:
    """A batch that a shuffler has ready, as it announces it.

    ``key`` is the number of the analyzer's key that its records are sealed for, if it is told.
    """

    batch: str
    digest: str
    size: int
    key: int | None = None

    def __post_init__(self) -> None:
        if not BATCH_NAME.fullmatch(self.batch):
            raise InvalidArgumentError("batch", self.batch, "32 lower-case hexadecimal digits")
        if not DIGEST.fullmatch(self.digest):
            raise InvalidArgumentError("digest", self.digest, "64 lower-case hexadecimal digits")
        if type(self.size) is not int or not 0 <= self.size <= LARGEST_BATCH:
            raise InvalidArgumentError("size", self.size, f"0 to {LARGEST_BATCH} bytes")
        if self.key is not None and not (type(self.key) is int and 0 <= self.key <= MOST_KEY):
            raise InvalidArgumentError("key", self.key, f"a number from 0 to {MOST_KEY}")


@dataclass(frozen=True, kw_only=True, eq=False)
class Collection:
    """A batch that was asked for; a class for each state has what is known from then on.

    ``survey`` is the survey's number in this store.
    """

    state: ClassVar[str]
    survey: int
    batch: str
    request: str
    digest: str
    size: int
    acknowledged: bool
    owner: str | None

    @staticmethod
    def of(row: Mapping[str, Any]) -> Collection:
        """From a row of the table of collections."""
        kind = _KINDS[row["state"]]
        values = {each.name: row[each.name] for each in fields(kind) if each.name in row}
        if "rejected" in values:
            values["rejected"] = json.loads(values["rejected"])
        return kind(**{**values, "acknowledged": bool(row["acknowledged"])})

    @property
    def finished(self) -> bool:
        """Whether there is nothing left to do but what an operator decides."""
        return _is_finished(self.state, acknowledged=self.acknowledged)


@dataclass(frozen=True, kw_only=True, eq=False)
class Requested(Collection):
    """``key`` is the one that its records are sealed for, if the shuffler tells it."""

    state = REQUESTED
    key: int | None


@dataclass(frozen=True, kw_only=True, eq=False)
class Refused(Collection):
    """It is not what it claims to be, and why."""

    state = REFUSED
    reason: str | None


@dataclass(frozen=True, kw_only=True, eq=False)
class Received(Collection):
    """It is on the disk, with what its header says."""

    state = RECEIVED
    key: int
    reports: int
    records: int


@dataclass(frozen=True, kw_only=True, eq=False)
class Opened(Received):
    """Its records were counted; ``reason`` says why nothing of it is published, if so.

    ``warning`` says why no honest crowd can have sent it, if so. ``cells`` are read with one
    collection only, not with a list of them.
    """

    state = OPENED
    valid: int
    rejected: dict[str, int]
    reason: str | None
    warning: str | None
    cells: bytes | None = None

    @property
    def counts(self) -> tuple[Counts, ...]:
        """What its records added up to, question by question; none if they may not be used."""
        return () if self.cells is None else unpacked(self.cells, self.valid)


@dataclass(frozen=True, kw_only=True, eq=False)
class Budgeted(Opened):
    """What it costs is in the ledger."""

    state = BUDGETED


@dataclass(frozen=True, kw_only=True, eq=False)
class Held(Opened):
    """It has a warning, and an operator who has not released it."""

    state = HELD


@dataclass(frozen=True, kw_only=True, eq=False)
class Published(Opened):
    """It has a document, with its estimates unless it is withheld."""

    state = PUBLISHED


_KINDS: Mapping[str, type[Collection]] = {
    kind.state: kind for kind in (Requested, Refused, Received, Opened, Budgeted, Held, Published)
}


@dataclass(frozen=True)
class Collections:
    """The collections of all surveys; work on one is leased for ``lease`` seconds at a time."""

    database: Database
    surveys: Surveys
    leases: Leases
    lease: int = LEASE

    def request(self, name: SurveyId, offer: Offer) -> Collection:
        """The collection of a batch; the name of its request is drawn once and for all."""
        row = self.surveys.row(name)
        values = {
            "survey": row.number,
            "batch": offer.batch,
            "request": fresh_name(),
            "state": REQUESTED,
            "digest": offer.digest,
            "size": offer.size,
            "key": offer.key,
        }
        add = self.database.insert(collections).values(values).on_conflict_do_nothing()
        with self.database.write() as connection:
            self.surveys.confirm(connection, row)
            connection.execute(add)  # if somebody asked before, their request is ours
        return self.find(name, offer.batch)

    def offered_again(self, name: SurveyId, offers: Sequence[Offer]) -> None:
        """A shuffler has these batches still or anew: in these bytes, and not acknowledged.

        What was counted of them stays as it is, and what was refused stays refused.
        """
        query = collections.update().where(
            collections.c.survey == self.surveys.row(name).number,
            collections.c.batch == sa.bindparam("of"),
            collections.c.state != REFUSED,
        )
        new: dict[str, Any] = {
            "digest": sa.bindparam("new_digest"),
            "size": sa.bindparam("new_size"),
            "acknowledged": 0,
        }
        rows = [
            {"of": each.batch, "new_digest": each.digest, "new_size": each.size} for each in offers
        ]
        with self.database.write() as connection:
            connection.execute(query.values(new), rows)

    def find(self, name: SurveyId, batch: str) -> Collection:
        """One batch."""
        number = self.surveys.row(name).number
        with self.database.read() as connection:
            return _read(connection, number, batch)

    def of(self, name: SurveyId) -> list[Collection]:
        """All batches of a survey that were ever asked for."""
        mine = collections.c.survey == self.surveys.row(name).number
        query = sa.select(*_without_cells).where(mine).order_by(collections.c.batch)
        with self.database.read() as connection:
            return [Collection.of(dict(row)) for row in connection.execute(query).mappings()]

    def again(self, name: SurveyId, batch: str) -> Collection:
        """Ask once more for a batch that was refused, under the request that has it."""
        mine = _is(self.surveys.row(name).number, batch)
        query = collections.update().where(mine, collections.c.state == REFUSED)
        with self.database.write() as connection:
            connection.execute(query.values(state=REQUESTED, reason=None, **FREE))
        return self.find(name, batch)

    def claim(self, waiting: Collection) -> Collection | None:
        """The batch as it is now, for one owner alone; None while somebody else has it."""
        mine = _is(waiting.survey, waiting.batch)
        query = collections.update().where(mine, self.leases.free())
        with self.database.write() as connection:
            if connection.execute(query.values(self.leases.begun(self.lease))).rowcount != 1:
                return None
            return _read(connection, waiting.survey, waiting.batch)

    def move(self, collection: Collection, state: str, **values: object) -> Collection:
        """A step from the state that a collection has to another, by the owner who holds it."""
        with self.database.write() as connection:
            return self.move_in(connection, collection, state, **values)

    def move_in(
        self, connection: sa.Connection, collection: Collection, state: str, **values: object
    ) -> Collection:
        """The same, in a transaction that does more; the last step ends the owner's lease, too."""
        mine = (collections.c.state == collection.state, collections.c.owner == collection.owner)
        query = collections.update().where(_is(collection.survey, collection.batch), *mine)
        acknowledged = bool(values.get("acknowledged", collection.acknowledged))
        if _is_finished(state, acknowledged=acknowledged):
            lease: Mapping[str, object] = FREE  # or nobody would clear the owner who dies here
        else:
            lease = {"lease_until": self.leases.until(self.lease)}
        changed = {**lease, **values, "state": state}
        if connection.execute(query.values(changed)).rowcount != 1:
            raise LeaseLostError(f"batch {collection.batch}")
        return _read(connection, collection.survey, collection.batch)

    def replayed(self, collection: Received, tags: Rows) -> Mask:
        """Which of these tags an earlier batch had."""
        parts = [np.zeros(0, dtype=bool)]
        with self.database.read() as connection:
            for some in _listed(tags):
                known = known_tags(connection, collection.survey, collection.key, some)
                parts.append(np.fromiter((tag in known for tag in some), dtype=bool))
        return np.concatenate(parts)

    def opened(
        self,
        collection: Received,
        admitted: Admitted,
        counts: tuple[Counts, ...],
        *,
        valid: int,
        withheld: str | None,
        warning: str | None = None,
    ) -> Collection | None:
        """The records were counted, and never will be again; None if one of them was meanwhile.

        Counts of a batch that is withheld are not kept.
        """
        values: dict[str, Any] = {
            "valid": valid,
            "rejected": json.dumps(admitted.rejected),
            "reason": withheld,
            "warning": warning,
            "cells": packed(counts) if counts and not withheld else None,
        }
        survey, key = collection.survey, collection.key
        with self.database.write() as connection:
            added = (add_tags(connection, survey, key, some) for some in _listed(admitted.tags))
            if sum(added) != len(admitted.tags):
                connection.rollback()
                return None
            # Last: tags take their time, in which the lease is renewed.
            return self.move_in(connection, collection, OPENED, **values)

    def keys_in_use(self) -> frozenset[int]:
        """The keys of batches that are not opened yet: those here, and those asked for.

        One that never comes keeps its key for a time only, or a shuffler could keep keys alive by
        announcing what it does not have.
        """
        columns, now = collections.c, self.leases.clock()
        query = sa.select(columns.survey, columns.key, columns.state).where(
            columns.state.in_([REQUESTED, RECEIVED]), columns.key.is_not(None)
        )
        with self.database.read() as connection:
            rows = connection.execute(query.distinct()).all()
        asked = {row.survey for row in rows if row.state == REQUESTED}
        surveys = {number: self.surveys.numbered(number).survey for number in asked}
        ends = {number: each.not_after + each.batches.max_age for number, each in surveys.items()}
        return frozenset(
            row.key for row in rows if row.state == RECEIVED or now <= ends[row.survey] + LATEST
        )


def _is_finished(state: str, *, acknowledged: bool) -> bool:
    return state == REFUSED or (state in (PUBLISHED, HELD) and acknowledged)


def _is(survey: int, batch: str) -> sa.ColumnElement[bool]:
    return sa.and_(collections.c.survey == survey, collections.c.batch == batch)


def _read(connection: sa.Connection, survey: int, batch: str) -> Collection:
    row = connection.execute(sa.select(collections).where(_is(survey, batch))).mappings().first()
    if row is None:
        raise UnknownError("batch", batch)
    return Collection.of(dict(row))


def _listed(tags: Rows) -> Iterator[list[bytes]]:
    """The tags one by one, so many at a time: a large batch has more than memory would hold."""
    for start in range(0, len(tags), _TAGS_AT_ONCE):
        whole = np.ascontiguousarray(tags[start : start + _TAGS_AT_ONCE]).tobytes()
        yield [whole[at : at + TAG_BYTES] for at in range(0, len(whole), TAG_BYTES)]
