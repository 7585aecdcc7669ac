"""The analyzers' lists of keys, kept here and shown to devices."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Make the tables; a process that still runs the old version need not know."""
    op.create_table(
        "copies",
        sa.Column("fingerprint", sa.String(64), primary_key=True),
        sa.Column("document", sa.LargeBinary, nullable=False),
        sa.Column("issued", sa.BigInteger, nullable=False, server_default="0"),
        sa.Column("valid_until", sa.BigInteger, nullable=False, server_default="0"),
    )
    op.create_table(
        "copied_keys",
        sa.Column("fingerprint", sa.String(64), primary_key=True),
        sa.Column("number", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("key", sa.String(64), nullable=False),
    )
    op.create_table(
        "contradictions",
        sa.Column("fingerprint", sa.String(64), primary_key=True),
        sa.Column("digest", sa.LargeBinary(32), primary_key=True),
        sa.Column("reason", sa.Text, nullable=False),
        sa.Column("known", sa.LargeBinary, nullable=False),
        sa.Column("document", sa.LargeBinary, nullable=False),
    )
