"""Taking reports in: each one once, and durable before anybody is told.

One transaction for a whole group of arrivals. A report is known by 16 bytes of the SHA-256 of all
its bytes: the same bytes again are a duplicate, whenever they come. New reports go to a segment,
synced before the transaction that refers to them commits; a crash in between leaves bytes that
nobody refers to, and no tags. A server that goes on committing when this process is dead holds a
lock until it has: whoever collects segments asks for it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from hashlib import sha256
from typing import Any

import sqlalchemy as sa

from shoal.errors import InvalidArgumentError
from shoal.service import failpoints
from shoal.service.store import schema
from shoal.service.store.database import POSTGRESQL, SQLITE, Database
from shoal.service.store.room import Room
from shoal.service.store.segments import Append, Segments, lock_number
from shoal.service.store.surveys import Known, SurveyTable
from shoal.service.store.values import Arrival, Receipt

_KNOWN_AT_ONCE = 500  # tags in one question, below SQLite's limit of parameters


@dataclass(frozen=True)
class Intake:
    """The way in."""

    database: Database
    segments: Segments
    surveys: SurveyTable
    room: Room

    def receive(self, arrivals: Sequence[Arrival]) -> list[Receipt]:
        """Take in a group of arrivals; when this returns, all of it is durable."""
        self.room.check()
        groups = self._grouped(arrivals)
        receipts: dict[int, Receipt] = {}
        if groups:
            with self.segments.appending() as append, self.database.write() as connection:
                self._take(groups, receipts, append, connection)
            failpoints.reached("intake.after-commit")
        return [receipts[index] for index in range(len(arrivals))]

    def _grouped(self, arrivals: Sequence[Arrival]) -> list[_Group]:
        """By survey and key, in one order for all, so that no two groups wait for each other."""
        members: dict[tuple[int, int], list[_Tagged]] = defaultdict(list)
        sizes: dict[int, tuple[Known, int]] = {}
        for index, arrival in enumerate(arrivals):
            known = self.surveys.find(arrival.survey)
            if known.number not in sizes:
                sizes[known.number] = known, known.wire.report_bytes
            size = sizes[known.number][1]
            tagged = _Tagged(index, arrival.reports, tags_of(arrival.reports, size))
            members[known.number, arrival.key].append(tagged)
        return [
            _Group(*sizes[number], key, members[number, key]) for number, key in sorted(members)
        ]

    def _take(
        self,
        groups: list[_Group],
        receipts: dict[int, Receipt],
        append: Append,
        connection: sa.Connection,
    ) -> None:
        taken = []
        for group in groups:
            self.surveys.confirm(connection, group.survey)
            unique = sorted(set().union(*(member.tags for member in group.members)))
            new = self._insert(connection, group, unique)
            if body := group.keep(new, receipts):
                taken.append((group, body))
        failpoints.reached("intake.before-segment")
        if taken:
            extent = append([body for _, body in taken])
            if self.database.dialect == POSTGRESQL:
                number = lock_number(extent.segment)
                connection.execute(sa.select(sa.func.pg_advisory_xact_lock_shared(number)))
            failpoints.reached("intake.after-segment")
            self._refer(connection, list(_rows(taken, extent.segment, extent.start)))

    def _refer(self, connection: sa.Connection, rows: list[tuple[int, int, str, int, int]]) -> None:
        """Past the expression language, whose part in the cost of a small group is the largest."""
        mark = "?" if self.database.dialect == SQLITE else "%s"
        columns = "survey, key, segment, start, count"
        values = ", ".join([mark] * len(rows[0]))
        driver: Any = connection.connection.driver_connection
        insert = f"INSERT INTO extents ({columns}) VALUES ({values})"  # noqa: S608 - marks only
        driver.cursor().executemany(insert, rows)

    def _insert(self, connection: sa.Connection, group: _Group, tags: list[bytes]) -> set[bytes]:
        driver: Any = connection.connection.driver_connection
        if self.database.dialect == SQLITE:
            return _insert_sqlite(driver, group, tags)
        return _insert_postgresql(driver, group, tags)


@dataclass(frozen=True)
class _Tagged:
    """An arrival, and the tags of its reports."""

    index: int
    body: bytes
    tags: list[bytes]

    def strike(self, new: set[bytes]) -> Sequence[int]:
        """Where the reports with new tags are; a tag that was found is not new any more."""
        own = set(self.tags)
        if len(own) == len(self.tags) and own <= new:  # nearly always
            new -= own
            return range(len(self.tags))
        kept = []
        for position, tag in enumerate(self.tags):
            if tag in new:
                new.remove(tag)
                kept.append(position)
        return kept

    def only(self, kept: Sequence[int], size: int) -> bytes:
        """The reports at these positions."""
        if len(kept) == len(self.tags):
            return self.body
        return b"".join(self.body[at * size : (at + 1) * size] for at in kept)


@dataclass(frozen=True)
class _Group:
    """What a group holds of one survey and key."""

    survey: Known
    size: int
    key: int
    members: list[_Tagged]

    @property
    def number(self) -> int:
        """Of the survey's row."""
        return self.survey.number

    def keep(self, new: set[bytes], receipts: dict[int, Receipt]) -> bytes:
        """The reports with new tags, each once; what becomes of every arrival is noted."""
        if len(new) == sum(len(member.tags) for member in self.members):  # nearly always
            for member in self.members:
                receipts[member.index] = Receipt(len(member.tags), 0)
            return b"".join(member.body for member in self.members)
        pieces = []
        for member in self.members:
            kept = member.strike(new)
            receipts[member.index] = Receipt(len(kept), len(member.tags) - len(kept))
            pieces.append(member.only(kept, self.size))
        return b"".join(pieces)


def tags_of(body: bytes, size: int) -> list[bytes]:
    """What reports are known by, in their order."""
    if not body or len(body) % size:
        raise InvalidArgumentError("reports", len(body), f"one or more reports of {size} bytes")
    length = schema.TAG_BYTES
    if len(body) == size:  # one person's report, as most are
        return [sha256(body).digest()[:length]]
    view = memoryview(body)
    return [sha256(view[at : at + size]).digest()[:length] for at in range(0, len(body), size)]


def _rows(
    taken: list[tuple[_Group, bytes]], segment: str, start: int
) -> Iterator[tuple[int, int, str, int, int]]:
    for group, body in taken:
        yield group.number, group.key, segment, start, len(body) // group.size
        start += len(body)


def _insert_sqlite(driver: Any, group: _Group, tags: list[bytes]) -> set[bytes]:  # noqa: ANN401
    """Insert all and count: which of them were new is only asked if some were and some not."""
    insert = "INSERT OR IGNORE INTO tags (survey, key, tag) VALUES (?, ?, ?)"
    number, key = group.number, group.key
    driver.execute("SAVEPOINT tags")
    inserted = driver.executemany(insert, [(number, key, tag) for tag in tags]).rowcount
    new = set(tags)
    if 0 < inserted < len(tags):
        driver.execute("ROLLBACK TO tags")
        for start in range(0, len(tags), _KNOWN_AT_ONCE):
            asked = tags[start : start + _KNOWN_AT_ONCE]
            marks = ", ".join("?" * len(asked))
            known = f"SELECT tag FROM tags WHERE survey = ? AND key = ? AND tag IN ({marks})"  # noqa: S608 - question marks only
            new.difference_update(tag for (tag,) in driver.execute(known, (number, key, *asked)))
        driver.executemany(insert, [(number, key, tag) for tag in sorted(new)])
    driver.execute("RELEASE tags")
    return new if inserted else set()


def _insert_postgresql(driver: Any, group: _Group, tags: list[bytes]) -> set[bytes]:  # noqa: ANN401
    insert = (
        "INSERT INTO tags (survey, key, tag) SELECT %s, %s, tag FROM unnest(%b::bytea[]) AS tag "
        "ON CONFLICT DO NOTHING RETURNING tag"
    )
    rows = driver.execute(insert, (group.number, group.key, tags))
    return {bytes(tag) for (tag,) in rows}
