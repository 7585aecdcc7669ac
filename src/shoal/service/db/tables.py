"""The tables that both parties have, and what is done with tags.

A tag is 16 bytes of the SHA-256 of what was taken once, so that it is never taken again: of a
shuffler sealed reports, of an analyzer sealed records. Tags go with the key that opens what they
were made of: without it nothing is left to be sent again.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

import sqlalchemy as sa

from shoal.service.db.dialect import Scope, dialect_of
from shoal.service.opening import TAG_BYTES

if TYPE_CHECKING:
    from shoal.service.db.database import Database

METADATA = sa.MetaData()
_HEX = 64
AT_ONCE = 20_000  # tags deleted; others write between two pieces

# One that was removed keeps its number, with an empty configuration and another id.
surveys = sa.Table(
    "surveys",
    METADATA,
    sa.Column("number", sa.Integer, primary_key=True),
    sa.Column("id", sa.LargeBinary(32), nullable=False, unique=True),
    sa.Column("configuration", sa.LargeBinary, nullable=False),
)


def table_of_hashes(
    name: str,
    metadata: sa.MetaData,
    of: tuple[str, ...],
    hashed: tuple[str, int],
    *rest: sa.Column[int] | sa.Column[bool],
) -> sa.Table:
    """Rows of a survey (or of a survey and key) that are known by a hash, in no other order.

    ``hashed`` is the name of its column, and its bytes. No reference to the survey: a lookup per
    report would double the cost of taking it in.
    """
    columns = (sa.Column(each, sa.Integer, primary_key=True, autoincrement=False) for each in of)
    column = sa.Column(hashed[0], sa.LargeBinary(hashed[1]), primary_key=True)
    return sa.Table(name, metadata, *columns, column, *rest, sqlite_with_rowid=False)


OF_KEY = ("survey", "key")
TAG = ("tag", TAG_BYTES)  # what a report or record is known by
tags = table_of_hashes("tags", METADATA, OF_KEY, TAG)

# The token itself is nowhere.
tokens = sa.Table(
    "tokens",
    METADATA,
    sa.Column("hash", sa.LargeBinary(32), primary_key=True),
    sa.Column("survey", sa.Integer, sa.ForeignKey("surveys.number")),
    sa.Column("label", sa.Text, nullable=False),
    sa.Column("expires", sa.BigInteger, nullable=False),
)

# The newest signed list of keys of every other party, ...
key_lists = sa.Table(
    "copies",
    METADATA,
    sa.Column("fingerprint", sa.String(_HEX), primary_key=True),
    sa.Column("document", sa.LargeBinary, nullable=False),
    sa.Column("issued", sa.BigInteger, nullable=False, server_default="0"),
    sa.Column("valid_until", sa.BigInteger, nullable=False, server_default="0"),
)

# ... all keys that its lists ever had, ...
listed_keys = sa.Table(
    "copied_keys",
    METADATA,
    sa.Column("fingerprint", sa.String(_HEX), primary_key=True),
    sa.Column("number", sa.Integer, primary_key=True, autoincrement=False),
    sa.Column("key", sa.String(_HEX), nullable=False),
)

# ... and lists that say otherwise.
contradictions = sa.Table(
    "contradictions",
    METADATA,
    sa.Column("fingerprint", sa.String(_HEX), primary_key=True),
    sa.Column("digest", sa.LargeBinary(32), primary_key=True),
    sa.Column("reason", sa.Text, nullable=False),
    sa.Column("known", sa.LargeBinary, nullable=False),
    sa.Column("document", sa.LargeBinary, nullable=False),
)

# One row: what the directory of this store has to be called, and whether it is.
store = sa.Table(
    "store",
    METADATA,
    sa.Column("id", sa.Text, primary_key=True),
    sa.Column("bound", sa.Boolean, nullable=False),
)


# Tags


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
