"""The tables of an analyzer.

A collection is one batch on its way from the shuffler to a published result. Its ``cells`` are what
the estimator needs, once its records were opened and counted; the records themselves are deleted.
Tags are of records that were counted once, so that they are never counted again. No time is kept
but leases: when a batch was published is in its document, to the hour.
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

from shoal.service.db.tables import surveys, tags

# In the order in which a collection goes through them; REFUSED is an end of its own.
REQUESTED, RECEIVED, OPENED, BUDGETED, PUBLISHED, REFUSED = STATES = (
    "REQUESTED",
    "RECEIVED",
    "OPENED",
    "BUDGETED",
    "PUBLISHED",
    "REFUSED",
)

METADATA = MetaData()

_listed = ", ".join(f"'{state}'" for state in STATES)

collections = Table(
    "collections",
    METADATA,
    Column("survey", Integer, ForeignKey(surveys.c.number), primary_key=True),
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

# What each batch tells about a person in it; ``released`` is 0 if its estimates were withheld.
ledger = Table(
    "ledger",
    METADATA,
    Column("survey", Integer, ForeignKey(surveys.c.number), primary_key=True),
    Column("batch", String(32), primary_key=True),
    Column("epsilon", Float(53)),
    Column("delta", Float(53), nullable=False),
    Column("valid", BigInteger, nullable=False),
    Column("honest", BigInteger, nullable=False),
    Column("released", Integer, nullable=False),
)

results = Table(
    "results",
    METADATA,
    Column("survey", Integer, ForeignKey(surveys.c.number), primary_key=True),
    Column("batch", String(32), primary_key=True),
    Column("document", LargeBinary, nullable=False),
)

# What is left of any batch of a survey.
TRACES = (collections, ledger, results, tags)
