"""The tables that both parties have."""

from __future__ import annotations

import sqlalchemy as sa

from shoal.service.opening import TAG_BYTES

METADATA = sa.MetaData()
_HEX = 64

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
