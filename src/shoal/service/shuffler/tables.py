"""The shuffler's tables: what is kept about reports, and how little.

No row is about one report but its tag, 16 bytes of a hash, which only tells whether the same bytes
came before, and the code of an invitation, a hash as well; nothing leads from one to the other.
Extents, waiting tags and waiting codes are the intake's journal, emptied by every gathering. What
the last gatherings took out of it is in the recent tags and codes, which every gathering writes
anew (see :mod:`shoal.service.shuffler.mixing`). Times are those of leases and of a batch's first
report (wiped when it closes), and the hour in which a batch closed. Nothing tells who sent what, or
from where.
"""

from __future__ import annotations

import sqlalchemy as sa

from shoal.service.admission import CODE_BYTES
from shoal.service.db.tables import OF_KEY, TAG, surveys, table_of_hashes, tags

METADATA = sa.MetaData()

OPEN, CARRIED, SEALED, SHUFFLED = "OPEN", "CARRIED", "SEALED", "SHUFFLED"
RELEASED, ACKED, PURGED, EXPIRED = "RELEASED", "ACKED", "PURGED", "EXPIRED"
ACCEPTING = (OPEN, CARRIED)
LIVE, REVOKED, REPLACED = 0, 1, 2  # of a code
LISTED = (SHUFFLED, RELEASED, ACKED, PURGED)
CLOSED = (SEALED, *LISTED)

extents = sa.Table(
    "extents",
    METADATA,
    sa.Column("id", sa.BigInteger().with_variant(sa.Integer, "sqlite"), primary_key=True),
    sa.Column("survey", sa.Integer, sa.ForeignKey(surveys.c.number), nullable=False),
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

_CODE = ("hash", CODE_BYTES)
# Of the reports in an extent; the others' are in one of the next two, which only gatherings add to.
waiting_tags = table_of_hashes(
    "waiting_tags", METADATA, OF_KEY, TAG, sa.Column("extent", sa.BigInteger, nullable=False)
)
sa.Index("waiting_tags_of_an_extent", waiting_tags.c.extent)
recent_tags = table_of_hashes("recent_tags", METADATA, OF_KEY, TAG)

# Of people invited, by hash: whether a code counts, and whether it was spent, if not recently.
codes = table_of_hashes(
    "codes",
    METADATA,
    ("survey",),
    _CODE,
    sa.Column("state", sa.Integer, nullable=False),
    sa.Column("spent", sa.Boolean, nullable=False),
)
# Of the reports in an extent, and spent with reports that the last gatherings took.
waiting_codes = table_of_hashes(
    "waiting_codes",
    METADATA,
    ("survey",),
    _CODE,
    sa.Column("extent", sa.BigInteger, nullable=False),
)
sa.Index("waiting_codes_of_an_extent", waiting_codes.c.extent)
recent_codes = table_of_hashes("recent_codes", METADATA, ("survey",), _CODE)

batches = sa.Table(
    "batches",
    METADATA,
    sa.Column("id", sa.Text, primary_key=True),
    sa.Column("survey", sa.Integer, sa.ForeignKey(surveys.c.number), nullable=False),
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

# Of an open batch one grows: it is written anew by every gathering.
parts = sa.Table(
    "parts",
    METADATA,
    sa.Column("name", sa.Text, primary_key=True),
    sa.Column("batch", sa.Text, sa.ForeignKey("batches.id"), nullable=False, index=True),
    sa.Column("count", sa.BigInteger, nullable=False),
    sa.Column("grows", sa.Boolean, nullable=False),
    sqlite_with_rowid=False,
)

counters = sa.Table(
    "counters",
    METADATA,
    sa.Column("survey", sa.Integer, sa.ForeignKey(surveys.c.number), primary_key=True),
    sa.Column("name", sa.Text, primary_key=True),
    sa.Column("value", sa.BigInteger, nullable=False),
)

# What is left of any report of a survey, opened or not. Codes may be there before any report is.
OF_REPORTS = (tags, recent_tags, waiting_tags)
GATHERED, ANYWHERE = (tags, recent_tags), (tags, recent_tags, waiting_tags)
OF_PEOPLE = (codes, recent_codes, waiting_codes)
TRACES = (batches, counters, extents, *OF_REPORTS, recent_codes, waiting_codes)

# The journal, and what gatherings write anew: the files of the database are to forget it soon.
SWEPT = (extents, waiting_tags, waiting_codes, recent_tags, recent_codes)
