"""The first tables of an analyzer. Its number is that of the last step that led to them."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from shoal.service.db.migrations import create_common_tables

revision = "0003"
down_revision = None
branch_labels = None
depends_on = None

_STATES = "'REQUESTED', 'RECEIVED', 'OPENED', 'BUDGETED', 'PUBLISHED', 'REFUSED'"


def upgrade() -> None:
    """Make them: collections, what was counted, what it cost, what was published."""
    create_common_tables()
    op.create_table(
        "collections",
        *_of_a_batch(),
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
        sa.CheckConstraint(f"state IN ({_STATES})", name="known_state"),
    )
    op.create_table(
        "ledger",
        *_of_a_batch(),
        sa.Column("epsilon", sa.Float(53)),
        sa.Column("delta", sa.Float(53), nullable=False),
        sa.Column("valid", sa.BigInteger, nullable=False),
        sa.Column("honest", sa.BigInteger, nullable=False),
        sa.Column("released", sa.Integer, nullable=False),
    )
    op.create_table(
        "results",
        *_of_a_batch(),
        sa.Column("document", sa.LargeBinary, nullable=False),
    )


def _of_a_batch() -> tuple[sa.Column[int], sa.Column[str]]:
    return (
        sa.Column("survey", sa.Integer, sa.ForeignKey("surveys.number"), primary_key=True),
        sa.Column("batch", sa.String(32), primary_key=True),
    )
