"""The shuffler's tables: what is kept about reports, and how little.

No row is about one report but its tag, 16 bytes of a hash, which only tells whether the same bytes
came before. Times are those of leases and of a batch's first report (wiped when it closes), and the
hour in which a batch closed. Nothing tells who sent what, from where, or when.
"""

from __future__ import annotations

import sqlalchemy as sa

from shoal.service.store.copies import copy_tables
from shoal.service.store.place import place_table

METADATA = sa.MetaData()
TAG_BYTES = 16

OPEN, CARRIED, SEALED, SHUFFLED = "OPEN", "CARRIED", "SEALED", "SHUFFLED"
RELEASED, ACKED, PURGED, EXPIRED = "RELEASED", "ACKED", "PURGED", "EXPIRED"
ACCEPTING = (OPEN, CARRIED)
LISTED = (SHUFFLED, RELEASED, ACKED, PURGED)
CLOSED = (SEALED, *LISTED)

# One that was removed keeps its number, with an empty configuration and another id.
surveys = sa.Table(
    "surveys",
    METADATA,
    sa.Column("number", sa.Integer, primary_key=True),
    sa.Column("id", sa.LargeBinary(32), nullable=False, unique=True),
    sa.Column("configuration", sa.LargeBinary, nullable=False),
)

# No reference to the survey: a lookup per report would double the cost of taking it in.
tags = sa.Table(
    "tags",
    METADATA,
    sa.Column("survey", sa.Integer, primary_key=True, autoincrement=False),
    sa.Column("key", sa.Integer, primary_key=True, autoincrement=False),
    sa.Column("tag", sa.LargeBinary(TAG_BYTES), primary_key=True),
    sqlite_with_rowid=False,
)

extents = sa.Table(
    "extents",
    METADATA,
    sa.Column("id", sa.BigInteger().with_variant(sa.Integer, "sqlite"), primary_key=True),
    sa.Column("survey", sa.Integer, sa.ForeignKey("surveys.number"), nullable=False),
    sa.Column("key", sa.Integer, nullable=False),
    sa.Column("segment", sa.Text, nullable=False),
    sa.Column("start", sa.BigInteger, nullable=False),
    sa.Column("count", sa.Integer, nullable=False),
    sa.Column("owner", sa.Text),
    sa.Column("lease_until", sa.BigInteger),
    sa.Column("attempts", sa.Integer, nullable=False, server_default="0"),
    sa.Index("extents_of_a_key", "survey", "key", "id"),
    sa.Index("extents_of_an_owner", "owner"),
)

batches = sa.Table(
    "batches",
    METADATA,
    sa.Column("id", sa.Text, primary_key=True),
    sa.Column("survey", sa.Integer, sa.ForeignKey("surveys.number"), nullable=False),
    sa.Column("inner_key", sa.Integer, nullable=False),
    sa.Column("state", sa.Text, nullable=False),
    sa.Column("valid", sa.BigInteger, nullable=False),
    sa.Column("since", sa.BigInteger),
    sa.Column("owner", sa.Text),
    sa.Column("lease_until", sa.BigInteger),
    sa.Column("records", sa.BigInteger),
    sa.Column("bytes", sa.BigInteger),
    sa.Column("digest", sa.Text),
    sa.Column("request", sa.Text),
    sa.Column("closed", sa.BigInteger),
    sa.Index("batches_by_state", "state"),
)
ACCEPTS = batches.c.state.in_(ACCEPTING)
sa.Index(
    "one_accepting_batch",
    batches.c.survey,
    batches.c.inner_key,
    unique=True,
    sqlite_where=sa.text("state IN ('OPEN', 'CARRIED')"),
    postgresql_where=sa.text("state IN ('OPEN', 'CARRIED')"),
)

parts = sa.Table(
    "parts",
    METADATA,
    sa.Column("name", sa.Text, primary_key=True),
    sa.Column("batch", sa.Text, sa.ForeignKey("batches.id"), nullable=False, index=True),
    sa.Column("count", sa.BigInteger, nullable=False),
)

tokens = sa.Table(
    "tokens",
    METADATA,
    sa.Column("hash", sa.LargeBinary(32), primary_key=True),
    sa.Column("survey", sa.Integer, sa.ForeignKey("surveys.number")),
    sa.Column("label", sa.Text, nullable=False),
    sa.Column("expires", sa.BigInteger, nullable=False),
)

counters = sa.Table(
    "counters",
    METADATA,
    sa.Column("survey", sa.Integer, sa.ForeignKey("surveys.number"), primary_key=True),
    sa.Column("name", sa.Text, primary_key=True),
    sa.Column("value", sa.BigInteger, nullable=False),
)

# What is left of any report of a survey, opened or not.
TRACES = (batches, counters, extents, tags)

# What the directory of this store has to be called.
store = place_table(METADATA)

# The analyzers' lists of keys: devices have them from here.
COPIES = copy_tables(METADATA)
