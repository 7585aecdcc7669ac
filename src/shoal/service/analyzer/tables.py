"""The tables of an analyzer.

A collection is one batch on its way from the shuffler to a published result. Its ``cells`` are what
the estimator needs, once its records were opened and counted; the records themselves are deleted.
Its ``warning`` says why no honest crowd can have sent it, if so: it is held until it is released.
Tags are of records that were counted once, so that they are never counted again. No time is kept
but leases, and when a result was published, to the hour.
"""

from __future__ import annotations

import sqlalchemy as sa

from shoal.service.db.tables import surveys, tags

# In the order in which a collection goes through them; REFUSED is an end of its own.
STATES = ("REQUESTED", "RECEIVED", "OPENED", "BUDGETED", "HELD", "PUBLISHED", "REFUSED")
REQUESTED, RECEIVED, OPENED, BUDGETED, HELD, PUBLISHED, REFUSED = STATES

METADATA = sa.MetaData()

_listed = ", ".join(f"'{state}'" for state in STATES)

collections = sa.Table(
    "collections",
    METADATA,
    sa.Column("survey", sa.Integer, sa.ForeignKey(surveys.c.number), primary_key=True),
    sa.Column("batch", sa.String(32), primary_key=True),
    sa.Column("request", sa.String(32), nullable=False),
    sa.Column("state", sa.String(9), nullable=False),
    sa.Column("digest", sa.String(64), nullable=False),
    sa.Column("size", sa.BigInteger, nullable=False),
    sa.Column("key", sa.Integer),
    sa.Column("reports", sa.BigInteger),
    sa.Column("records", sa.BigInteger),
    sa.Column("valid", sa.BigInteger),
    sa.Column("rejected", sa.Text),
    sa.Column("cells", sa.LargeBinary),
    sa.Column("reason", sa.Text),
    sa.Column("acknowledged", sa.Integer, nullable=False, server_default="0"),
    sa.Column("owner", sa.String(32)),
    sa.Column("lease_until", sa.BigInteger),
    sa.Column("warning", sa.Text),
    sa.CheckConstraint(f"state IN ({_listed})", name="known_state"),
)

# What each batch tells about a person in it; ``released`` is 0 if its estimates are not published
# (withheld, or held).
ledger = sa.Table(
    "ledger",
    METADATA,
    sa.Column("survey", sa.Integer, sa.ForeignKey(surveys.c.number), primary_key=True),
    sa.Column("batch", sa.String(32), primary_key=True),
    sa.Column("epsilon", sa.Float(53)),
    sa.Column("delta", sa.Float(53), nullable=False),
    sa.Column("valid", sa.BigInteger, nullable=False),
    sa.Column("honest", sa.BigInteger, nullable=False),
    sa.Column("released", sa.Integer, nullable=False),
)

results = sa.Table(
    "results",
    METADATA,
    sa.Column("survey", sa.Integer, sa.ForeignKey(surveys.c.number), primary_key=True),
    sa.Column("batch", sa.String(32), primary_key=True),
    sa.Column("document", sa.LargeBinary, nullable=False),
    sa.Column("published", sa.BigInteger, nullable=False),
)

# What is left of any batch of a survey. One in the ledger is a collection, too; an entry that is
# not says what a restored store may have forgotten, and would keep every survey there for good.
TRACES = (collections, results, tags)
