"""What was taken once, by 16 bytes of its SHA-256, so that it is never taken again.

Of a shuffler: sealed reports. Of an analyzer: sealed records. Tags go with the key that opens what
they were made of: without it nothing is left to be sent again.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import sqlalchemy as sa

from shoal.service.db.database import SQLITE, Database

AT_ONCE = 20_000  # deleted; others write between two pieces
_ASKED_AT_ONCE = 500  # below SQLite's limit of parameters


def add_tags(
    connection: sa.Connection, survey: int, key: int, added: Iterable[bytes], table: str = "tags"
) -> int:
    """Add these, which differ, in the order of their bytes; how many were not there before.

    So the pages of the table tell which were added together at most.
    """
    driver: Any = connection.connection.driver_connection
    rows = sorted(added)
    if connection.dialect.name == SQLITE:
        insert = f"INSERT OR IGNORE INTO {table} (survey, key, tag) VALUES (?, ?, ?)"  # noqa: S608 - one of two names
        return int(driver.executemany(insert, [(survey, key, tag) for tag in rows]).rowcount)
    insert = (
        f"INSERT INTO {table} (survey, key, tag) "  # noqa: S608 - one of two names
        "SELECT %s, %s, tag FROM unnest(%b::bytea[]) AS tag ON CONFLICT DO NOTHING"
    )
    return int(driver.execute(insert, (survey, key, rows)).rowcount)


def known_tags(
    connection: sa.Connection,
    survey: int,
    key: int,
    asked: Sequence[bytes],
    tables: Sequence[str] = ("tags",),
) -> set[bytes]:
    """Those of these tags that are in one of the tables.

    One statement on PostgreSQL: a tag that is moved between tables meanwhile is seen in one of
    them. Past the expression language, whose part in the cost of a small group is the largest.
    """
    driver: Any = connection.connection.driver_connection
    known: set[bytes] = set()
    if connection.dialect.name != SQLITE:
        where = "WHERE survey = %s AND key = %s AND tag = ANY(%b::bytea[])"
        query = " UNION ALL ".join(f"SELECT tag FROM {table} {where}" for table in tables)  # noqa: S608 - names of tables
        values = (survey, key, list(asked)) * len(tables)
        return {bytes(tag) for (tag,) in driver.execute(query, values)}
    for start in range(0, len(asked), _ASKED_AT_ONCE):
        part = asked[start : start + _ASKED_AT_ONCE]
        marks = ", ".join("?" * len(part))
        for table in tables:
            query = f"SELECT tag FROM {table} WHERE survey = ? AND key = ? AND tag IN ({marks})"  # noqa: S608 - and question marks
            known.update(tag for (tag,) in driver.execute(query, (survey, key, *part)))
    return known


def forget_tags(database: Database, tables: Iterable[sa.Table], column: str, value: int) -> int:
    """Delete the tags of a ``survey`` or a ``key``, in pieces; how many there were."""
    forgotten = 0
    for table in tables:
        columns = table.primary_key.columns
        some = sa.select(*columns).where(table.c[column] == value).limit(AT_ONCE)
        deleted = AT_ONCE
        while deleted == AT_ONCE:
            with database.write() as connection:
                query = table.delete().where(sa.tuple_(*columns).in_(some))
                deleted = connection.execute(query).rowcount
            forgotten += deleted
    return forgotten
