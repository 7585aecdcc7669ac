"""What was taken once, by 16 bytes of its SHA-256, so that it is never taken again.

Of a shuffler: sealed reports. Of an analyzer: sealed records. Tags go with the key that opens what
they were made of: without it nothing is left to be sent again.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import sqlalchemy as sa

from shoal.service.db.database import Database
from shoal.service.db.dialect import Scope, dialect_of
from shoal.service.db.tables import tags

AT_ONCE = 20_000  # deleted; others write between two pieces


def add_tags(
    connection: sa.Connection, survey: int, key: int, added: Iterable[bytes], table: sa.Table = tags
) -> int:
    """Add these, which differ, in the order of their bytes; how many were not there before.

    So the pages of the table tell which were added together at most.
    """
    return dialect_of(connection).add_hashes(connection, Scope(table, (survey, key)), sorted(added))


def known_tags(
    connection: sa.Connection,
    survey: int,
    key: int,
    asked: Sequence[bytes],
    tables: Sequence[sa.Table] = (tags,),
) -> set[bytes]:
    """Those of these tags that are in one of the tables, between which they may be moved."""
    queries = [f"SELECT tag {Scope(table, (survey, key)).of_hashes}" for table in tables]
    rows = dialect_of(connection).run_among(connection, queries, (survey, key), asked)
    return {bytes(tag) for (tag,) in rows}


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
