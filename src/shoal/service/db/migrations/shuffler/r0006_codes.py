"""Codes of people invited, and those that reports which wait to be opened came with."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0006"
down_revision = "0005"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Make their tables. No survey of before has codes."""
    op.create_table(
        "codes",
        sa.Column("survey", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("hash", sa.LargeBinary(16), primary_key=True),
        sa.Column("state", sa.Integer, nullable=False),
        sa.Column("bound", sa.LargeBinary(16)),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "waiting_codes",
        sa.Column("survey", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("hash", sa.LargeBinary(16), primary_key=True),
        sa.Column("bound", sa.LargeBinary(16), nullable=False),
        sa.Column("extent", sa.BigInteger, nullable=False),
        sqlite_with_rowid=False,
    )
    op.create_index("waiting_codes_of_an_extent", "waiting_codes", ["extent"])
