"""The first tables of the shuffler. Its number is that of the last step that led to them."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from shoal.service.db.migrations import create_common_tables

revision = "0004"
down_revision = None
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Make them."""
    create_common_tables()
    op.create_table(
        "counters",
        sa.Column("survey", sa.Integer, sa.ForeignKey("surveys.number"), primary_key=True),
        sa.Column("name", sa.Text, primary_key=True),
        sa.Column("value", sa.BigInteger, nullable=False),
    )
    op.create_table(
        "extents",
        sa.Column("id", sa.BigInteger().with_variant(sa.Integer, "sqlite"), primary_key=True),
        sa.Column("survey", sa.Integer, sa.ForeignKey("surveys.number"), nullable=False),
        sa.Column("key", sa.Integer, nullable=False),
        sa.Column("segment", sa.Text, nullable=False),
        sa.Column("start", sa.BigInteger, nullable=False),
        sa.Column("count", sa.Integer, nullable=False),
        sa.Column("owner", sa.Text),
        sa.Column("lease_until", sa.BigInteger),
        sa.Column("attempts", sa.Integer, nullable=False, server_default="0"),
    )
    op.create_index("extents_of_a_key", "extents", ["survey", "key", "id"])
    op.create_index("extents_of_an_owner", "extents", ["owner"])
    op.create_table(
        "batches",
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
    )
    op.create_index("batches_by_state", "batches", ["state"])
    accepting = sa.text("state IN ('OPEN', 'CARRIED')")
    op.create_index(
        "one_accepting_batch",
        "batches",
        ["survey", "inner_key"],
        unique=True,
        sqlite_where=accepting,
        postgresql_where=accepting,
    )
    op.create_table(
        "parts",
        sa.Column("name", sa.Text, primary_key=True),
        sa.Column("batch", sa.Text, sa.ForeignKey("batches.id"), nullable=False),
        sa.Column("count", sa.BigInteger, nullable=False),
    )
    op.create_index("ix_parts_batch", "parts", ["batch"])
