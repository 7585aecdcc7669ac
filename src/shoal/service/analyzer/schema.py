"""The tables of an analyzer.

A collection is one batch on its way from the shuffler to a published result. Its ``cells`` are what
the estimator needs, once its records were opened and counted; the records themselves are deleted.
No time is kept but leases: when a batch was published is in its document, to the hour.
"""

from __future__ import annotations

from sqlalchemy import (
    BigInteger,
    CheckConstraint,
    Column,
    Float,
    ForeignKey,
    Integer,
    LargeBinary,
    MetaData,
    String,
    Table,
    Text,
)

from shoal.service.store.copies import copy_tables
from shoal.service.store.place import place_table

# In the order in which a collection goes through them; REFUSED is an end of its own.
REQUESTED, RECEIVED, OPENED, BUDGETED, PUBLISHED, REFUSED = STATES = (
    "REQUESTED",
    "RECEIVED",
    "OPENED",
    "BUDGETED",
    "PUBLISHED",
    "REFUSED",
)

metadata = MetaData()

# One that was removed keeps its number, with an empty configuration and another id.
surveys = Table(
    "surveys",
    metadata,
    Column("number", Integer, primary_key=True),
    Column("id", LargeBinary(32), nullable=False, unique=True),
    Column("configuration", LargeBinary, nullable=False),
)

_listed = ", ".join(f"'{state}'" for state in STATES)

collections = Table(
    "collections",
    metadata,
    Column("survey", Integer, ForeignKey("surveys.number"), primary_key=True),
    Column("batch", String(32), primary_key=True),
    Column("request", String(32), nullable=False),
    Column("state", String(9), nullable=False),
    Column("digest", String(64), nullable=False),
    Column("size", BigInteger, nullable=False),
    Column("key", Integer),
    Column("reports", BigInteger),
    Column("records", BigInteger),
    Column("valid", BigInteger),
    Column("rejected", Text),
    Column("cells", LargeBinary),
    Column("reason", Text),
    Column("acknowledged", Integer, nullable=False, server_default="0"),
    Column("owner", String(32)),
    Column("lease_until", BigInteger),
    CheckConstraint(f"state IN ({_listed})", name="known_state"),
)

# What was counted once, so that it is never counted again. A key that is deleted takes its own
# along: what was sealed with it does not open any more.
tags = Table(
    "tags",
    metadata,
    Column("survey", Integer, primary_key=True, autoincrement=False),
    Column("key", Integer, primary_key=True, autoincrement=False),
    Column("tag", LargeBinary(16), primary_key=True),
    sqlite_with_rowid=False,
)

# What each batch tells about a person in it; ``released`` is 0 if its estimates were withheld.
ledger = Table(
    "ledger",
    metadata,
    Column("survey", Integer, ForeignKey("surveys.number"), primary_key=True),
    Column("batch", String(32), primary_key=True),
    Column("epsilon", Float(53)),
    Column("delta", Float(53), nullable=False),
    Column("valid", BigInteger, nullable=False),
    Column("honest", BigInteger, nullable=False),
    Column("released", Integer, nullable=False),
)

results = Table(
    "results",
    metadata,
    Column("survey", Integer, ForeignKey("surveys.number"), primary_key=True),
    Column("batch", String(32), primary_key=True),
    Column("document", LargeBinary, nullable=False),
)

# Of who may read results; the token itself is nowhere.
tokens = Table(
    "tokens",
    metadata,
    Column("hash", LargeBinary(32), primary_key=True),
    Column("survey", Integer, ForeignKey("surveys.number")),
    Column("label", Text, nullable=False),
    Column("expires", BigInteger, nullable=False),
)

# What is left of any batch of a survey.
TRACES = (collections, ledger, results, tags)

# What the directory of this store has to be called.
store = place_table(metadata)

# The newest list of keys that each shuffler showed, so that people can compare it with theirs.
COPIES = copy_tables(metadata)
