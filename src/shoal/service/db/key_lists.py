"""The key list cache: other parties' signed lists, one for everybody, and never one that goes back.

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

from shoal.sealing import PublicKey
from shoal.service.clock import Clock, system_clock
from shoal.service.db.database import Database
from shoal.service.db.tables import contradictions, key_lists, listed_keys
from shoal.service.keyring import ContradictionError, KeyList
from shoal.service.keyring.key_list import (
    FUTURE_TOLERANCE,
    Before,
    Contradiction,
    digest,
    unverified,
)

MOST_CONTRADICTIONS = 16  # of one party: more prove nothing more


@dataclass(frozen=True)
class CachedKeyList:
    """A list as it was signed."""

    document: bytes
    issued: int
    valid_until: int

    def is_usable(self, now: int) -> bool:
        """Whether devices with a clock that says so would take it."""
        return now <= self.valid_until and self.issued <= now + FUTURE_TOLERANCE


@dataclass(eq=False)
class KeyLists:
    """The lists in one database, whoever of its processes fetched them."""

    database: Database
    clock: Clock = system_clock

    def keep(self, key_list: KeyList) -> bool:
        """Keep a list that was verified, if it can follow the last one; whether it is another.

        One that is ahead of the clock gives way to one that is not.

        Raises ``KeyListError`` for an older one, and ``ContradictionError`` for one that says
        otherwise than what was seen.
        """
        name = key_list.fingerprint
        here = key_lists.c.fingerprint == name
        empty = {"fingerprint": name, "document": b"", "issued": -1}
        try:
            with self.database.write() as connection:
                # The row is made first, so that there is one to lock: others may bring a list now.
                made = self.database.insert(key_lists).values(empty)
                connection.execute(made.on_conflict_do_nothing())
                row = connection.execute(sa.select(key_lists).where(here).with_for_update()).one()
                known = bytes(row.document)
                seen = _seen(connection, name)
                before = Before(issued=row.issued, digest=digest(known), keys=seen)
                now = self.clock()
                if key_list.issued <= now + FUTURE_TOLERANCE < row.issued:
                    before = before.set_right(unverified(known), now)
                before.check(key_list)
                if known == key_list.document:
                    return False
                values = {
                    "document": key_list.document,
                    "issued": key_list.issued,
                    "valid_until": key_list.valid_until,
                }
                connection.execute(key_lists.update().where(here).values(values))
                keys = [
                    {"fingerprint": name, "number": key.number, "key": key.public.fingerprint}
                    for key in key_list.keys
                    if key.number not in seen
                ]
                if keys:
                    connection.execute(listed_keys.insert(), keys)
                return True
        except ContradictionError as error:
            self._remember(key_list, error.reason)
            raise

    def find(self, fingerprint: str) -> CachedKeyList | None:
        """The newest list of a party."""
        query = sa.select(key_lists).where(key_lists.c.fingerprint == fingerprint)
        row = self.database.first(query)
        return row and CachedKeyList(bytes(row.document), row.issued, row.valid_until)

    def all(self) -> dict[str, bytes]:
        """The newest list of every party, by its fingerprint."""
        rows = self.database.rows(sa.select(key_lists))
        return {row.fingerprint: bytes(row.document) for row in rows}

    def keys(self, fingerprint: str) -> frozenset[int]:
        """The numbers of all keys that a party's lists ever had."""
        with self.database.read() as connection:
            return frozenset(_seen(connection, fingerprint))

    def public_key(self, fingerprint: str, number: int) -> PublicKey | None:
        """The key of this number, if the newest list of a party has it."""
        cached = self.find(fingerprint)
        listed = () if cached is None or not cached.document else unverified(cached.document).keys
        return next((key.public for key in listed if key.number == number), None)

    def contradictions(self) -> list[Contradiction]:
        """What was refused, and may be shown to others."""
        query = sa.select(contradictions).order_by(*contradictions.primary_key.columns)
        return [
            Contradiction(row.fingerprint, row.reason, bytes(row.known), bytes(row.document))
            for row in self.database.rows(query)
        ]

    def _remember(self, key_list: KeyList, reason: str) -> None:
        name = key_list.fingerprint
        known = self.find(name)
        values = {
            "fingerprint": name,
            "digest": digest(key_list.document),
            "reason": reason,
            "known": b"" if known is None else known.document,
            "document": key_list.document,
        }
        count = sa.select(sa.func.count()).where(contradictions.c.fingerprint == name)
        with self.database.write() as connection:
            if connection.execute(count).scalar_one() < MOST_CONTRADICTIONS:
                add = self.database.insert(contradictions).values(values).on_conflict_do_nothing()
                connection.execute(add)


def _seen(connection: sa.Connection, fingerprint: str) -> dict[int, str]:
    """The fingerprint of every key that a party's lists ever had, by its number."""
    query = sa.select(listed_keys.c.number, listed_keys.c.key)
    rows = connection.execute(query.where(listed_keys.c.fingerprint == fingerprint))
    return {row.number: row.key for row in rows}
