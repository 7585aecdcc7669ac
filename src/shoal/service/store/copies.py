"""Copies of another party's signed lists of keys: one for everybody, and never one that goes back.

A shuffler keeps the analyzers' lists and shows them to devices, an analyzer keeps the shufflers'.
Of every number the first key that was seen under it is remembered for good. A list that contradicts
what was seen is refused, and kept beside the one it contradicts: both are signed.

One exception: a list that was taken while the clocks here and there were ahead, and that would now
stand in the way until its date comes, gives way to one that is not ahead. That gives nobody a key
of their own. There is still one copy at a time, for everybody; no number becomes another key; and
after this one step lists only go forward again. The other party cannot bring it about: a list that
is ahead of the clock here is refused, so only a clock here that was wrong lets one in. And what an
old list that somebody plays back can do is what it could if the newer one had never been fetched,
for as long as it is valid and until the next fetch that reaches the party itself; it does not bring
back what was before the newest key that the list which gives way had, unless that is ahead too.
"""

from __future__ import annotations

from dataclasses import dataclass

import sqlalchemy as sa

from shoal.service.clock import Clock, system_clock
from shoal.service.keyring import ContradictionError, KeyList
from shoal.service.keyring.key_list import (
    Before,
    Contradiction,
    digest,
    is_ahead,
    numbered,
    unverified,
)
from shoal.service.store.database import Database

MOST_CONTRADICTIONS = 16  # of one party: more prove nothing more
_HEX = 64


@dataclass(frozen=True)
class CopyTables:
    """The tables of one tree."""

    copies: sa.Table
    keys: sa.Table
    contradictions: sa.Table


def copy_tables(metadata: sa.MetaData) -> CopyTables:
    """The newest list of every party, all keys there ever were, and lists that say otherwise."""
    copies = sa.Table(
        "copies",
        metadata,
        sa.Column("fingerprint", sa.String(_HEX), primary_key=True),
        sa.Column("document", sa.LargeBinary, nullable=False),
        sa.Column("issued", sa.BigInteger, nullable=False, server_default="0"),
        sa.Column("valid_until", sa.BigInteger, nullable=False, server_default="0"),
    )
    keys = sa.Table(
        "copied_keys",
        metadata,
        sa.Column("fingerprint", sa.String(_HEX), primary_key=True),
        sa.Column("number", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("key", sa.String(_HEX), nullable=False),
    )
    contradictions = sa.Table(
        "contradictions",
        metadata,
        sa.Column("fingerprint", sa.String(_HEX), primary_key=True),
        sa.Column("digest", sa.LargeBinary(32), primary_key=True),
        sa.Column("reason", sa.Text, nullable=False),
        sa.Column("known", sa.LargeBinary, nullable=False),
        sa.Column("document", sa.LargeBinary, nullable=False),
    )
    return CopyTables(copies, keys, contradictions)


@dataclass(frozen=True)
class Copy:
    """A list as it was signed."""

    document: bytes
    issued: int
    valid_until: int

    def is_usable(self, now: int) -> bool:
        """Whether devices with a clock that says so would take it."""
        return now <= self.valid_until and not is_ahead(self.issued, now)


class Copies:
    """The copies in one database, whoever of its processes made them."""

    def __init__(self, database: Database, tables: CopyTables, clock: Clock = system_clock) -> None:
        self._database = database
        self._tables = tables
        self._clock = clock

    def keep(self, found: KeyList) -> bool:
        """Keep a list that was verified, if it can follow the last one; whether it is another.

        One that is ahead of the clock gives way to one that is not.

        Raises ``KeyListError`` for an older one, and ``ContradictionError`` for one that says
        otherwise than what was seen.
        """
        try:
            with self._database.write() as connection:
                return self._keep(connection, found)
        except ContradictionError as error:
            self._remember(found, error.reason)
            raise

    def find(self, fingerprint: str) -> Copy | None:
        """The newest list of a party."""
        table = self._tables.copies
        query = sa.select(table).where(table.c.fingerprint == fingerprint)
        with self._database.read() as connection:
            row = connection.execute(query).first()
        return None if row is None else Copy(bytes(row.document), row.issued, row.valid_until)

    def all(self) -> dict[str, bytes]:
        """The newest list of every party, by its fingerprint."""
        with self._database.read() as connection:
            rows = connection.execute(sa.select(self._tables.copies)).all()
        return {row.fingerprint: bytes(row.document) for row in rows}

    def keys(self, fingerprint: str) -> frozenset[int]:
        """The numbers of all keys that a party's lists ever had."""
        with self._database.read() as connection:
            return frozenset(self._seen(connection, fingerprint))

    def contradictions(self) -> list[Contradiction]:
        """What was refused, and may be shown to others."""
        table = self._tables.contradictions
        with self._database.read() as connection:
            rows = connection.execute(sa.select(table).order_by(*table.primary_key.columns)).all()
        return [
            Contradiction(row.fingerprint, row.reason, bytes(row.known), bytes(row.document))
            for row in rows
        ]

    def _keep(self, connection: sa.Connection, found: KeyList) -> bool:
        table, name = self._tables.copies, found.fingerprint
        here = table.c.fingerprint == name
        empty = {"fingerprint": name, "document": b"", "issued": -1}
        # The row is made first, so that there is one to lock: others may bring a list just now.
        added = self._database.insert(table).values(empty).on_conflict_do_nothing()
        connection.execute(added)
        row = connection.execute(sa.select(table).where(here).with_for_update()).one()
        known = bytes(row.document)
        seen = self._seen(connection, name)
        before = Before(issued=row.issued, digest=digest(known), keys=seen)
        now = self._clock()
        if is_ahead(row.issued, now) and not is_ahead(found.issued, now):
            before = before.set_right(unverified(known), now)
        before.check(found)
        if known == found.document:
            return False
        values = {
            "document": found.document,
            "issued": found.issued,
            "valid_until": found.valid_until,
        }
        connection.execute(table.update().where(here).values(values))
        keys = [
            {"fingerprint": name, "number": number, "key": key}
            for number, key in numbered(found).items()
            if number not in seen
        ]
        if keys:
            connection.execute(self._tables.keys.insert(), keys)
        return True

    def _seen(self, connection: sa.Connection, name: str) -> dict[int, str]:
        keys = self._tables.keys
        rows = connection.execute(
            sa.select(keys.c.number, keys.c.key).where(keys.c.fingerprint == name)
        )
        return {row.number: row.key for row in rows}

    def _remember(self, found: KeyList, reason: str) -> None:
        table, name = self._tables.contradictions, found.fingerprint
        known = self.find(name)
        values = {
            "fingerprint": name,
            "digest": digest(found.document),
            "reason": reason,
            "known": b"" if known is None else known.document,
            "document": found.document,
        }
        count = sa.select(sa.func.count()).where(table.c.fingerprint == name)
        with self._database.write() as connection:
            if connection.execute(count).scalar_one() < MOST_CONTRADICTIONS:
                add = self._database.insert(table).values(values).on_conflict_do_nothing()
                connection.execute(add)
