"""The first tables of an analyzer."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None

_STATES = "'REQUESTED', 'RECEIVED', 'OPENED', 'BUDGETED', 'PUBLISHED', 'REFUSED'"


def upgrade() -> None:
    """Surveys, collections, what was counted, what it cost, what was published."""
    op.create_table(
        "surveys",
        sa.Column("number", sa.Integer, primary_key=True),
        sa.Column("id", sa.LargeBinary(32), nullable=False, unique=True),
        sa.Column("configuration", sa.LargeBinary, nullable=False),
    )
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
        "tags",
        sa.Column("survey", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("key", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("tag", sa.LargeBinary(16), primary_key=True),
        sqlite_with_rowid=False,
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
    op.create_table(
        "tokens",
        sa.Column("hash", sa.LargeBinary(32), primary_key=True),
        sa.Column("survey", sa.Integer, sa.ForeignKey("surveys.number")),
        sa.Column("label", sa.Text, nullable=False),
        sa.Column("expires", sa.BigInteger, nullable=False),
    )
    op.create_table(
        "copies",
        sa.Column("fingerprint", sa.String(64), primary_key=True),
        sa.Column("document", sa.LargeBinary, nullable=False),
    )


def _of_a_batch() -> tuple[sa.Column[int], sa.Column[str]]:
    return (
        sa.Column("survey", sa.Integer, sa.ForeignKey("surveys.number"), primary_key=True),
        sa.Column("batch", sa.String(32), primary_key=True),
    )
