"""What a device remembers of lists of keys, so that nobody can show it one and then another.

Of every list that was taken: the document for as long as it may be used, when it was issued and its
hash for good; of every key the number and the fingerprint, for good. Lists that contradict what was
seen are kept too, next to the list they contradict: both are signed by whoever made them.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import TypeAlias

from shoal.service.keyring import ContradictionError, KeyList
from shoal.service.keyring.history import Before, Contradiction, digest, numbered

SCHEMA = """
CREATE TABLE keys (
    place TEXT NOT NULL, fingerprint TEXT NOT NULL, document BLOB NOT NULL, digest BLOB NOT NULL,
    issued INTEGER NOT NULL, until INTEGER NOT NULL, PRIMARY KEY (place, fingerprint)
);
CREATE TABLE known_keys (
    fingerprint TEXT NOT NULL, number INTEGER NOT NULL, key TEXT NOT NULL,
    PRIMARY KEY (fingerprint, number)
);
CREATE TABLE contradictions (
    fingerprint TEXT NOT NULL, known BLOB NOT NULL, document BLOB NOT NULL, reason TEXT NOT NULL,
    PRIMARY KEY (fingerprint, document)
);
"""
# What stays are hashes and moments: without them an old list could come back.
WIPED = "UPDATE keys SET document = x'', until = 0"
MOST_CONTRADICTIONS = 4

Run: TypeAlias = Callable[..., sqlite3.Cursor]
Guard: TypeAlias = Callable[[], AbstractContextManager[None]]


@dataclass(frozen=True)
class KeyMemory:
    """The tables of keys in an outbox; ``place`` is where a list was shown, by whom."""

    run: Run
    usable: Guard
    transaction: Guard

    def fresh(self, place: str, fingerprint: str, now: int) -> bytes | None:
        """The list last shown there, while it need not be asked for again."""
        asked = "SELECT document FROM keys WHERE place = ? AND fingerprint = ? AND until > ?"
        with self.usable():
            found = self.run(asked, place, fingerprint, now).fetchone()
        return found[0] if found is not None and found[0] else None

    def take(self, place: str, found: KeyList, until: int) -> None:
        """Remember a list that was verified, if it may follow what was seen.

        An older one is refused at the same place; one place may be behind another. One that
        contradicts a list seen anywhere is refused, and both are kept.
        """
        try:
            with self.transaction():
                self._take(place, found, until)
        except ContradictionError as error:
            self._remember(found, error.reason)
            raise

    def contradictions(self) -> list[Contradiction]:
        """What was refused, and may be shown to others."""
        asked = "SELECT fingerprint, reason, known, document FROM contradictions"
        with self.usable():
            return [Contradiction(*row) for row in self.run(asked)]

    def _take(self, place: str, found: KeyList, until: int) -> None:
        name = found.fingerprint
        for issued, known in self.run(
            "SELECT issued, digest FROM keys WHERE fingerprint = ? AND issued = ?",
            *(name, found.issued),
        ).fetchall():
            Before(issued=issued, digest=known, keys=self._known(name)).check(found)
        here = "SELECT issued, digest FROM keys WHERE place = ? AND fingerprint = ?"
        last = self.run(here, place, name).fetchone() or (-1, b"")
        Before(issued=last[0], digest=last[1], keys=self._known(name)).check(found)
        self.run(
            "INSERT OR REPLACE INTO keys VALUES (?, ?, ?, ?, ?, ?)",
            *(place, name, found.document, digest(found.document), found.issued, until),
        )
        for number, key in numbered(found).items():
            self.run("INSERT OR IGNORE INTO known_keys VALUES (?, ?, ?)", name, number, key)

    def _known(self, name: str) -> dict[int, str]:
        asked = "SELECT number, key FROM known_keys WHERE fingerprint = ?"
        return dict(self.run(asked, name).fetchall())

    def _remember(self, found: KeyList, reason: str) -> None:
        name = found.fingerprint
        nearest = (
            "SELECT document FROM keys WHERE fingerprint = ? AND document != x'' "
            "ORDER BY issued != ?, issued DESC LIMIT 1"
        )
        with self.transaction():
            counted = "SELECT count(*) FROM contradictions WHERE fingerprint = ?"
            (count,) = self.run(counted, name).fetchone()
            known = self.run(nearest, name, found.issued).fetchone()
            if count < MOST_CONTRADICTIONS:
                self.run(
                    "INSERT OR IGNORE INTO contradictions VALUES (?, ?, ?, ?)",
                    *(name, known[0] if known else b"", found.document, reason),
                )
