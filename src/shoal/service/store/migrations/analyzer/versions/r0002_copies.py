"""Of a shuffler's list: when it was issued, its keys for good, and lists that contradict it."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Copies that are there count as older than any other."""
    for name in ("issued", "valid_until"):
        op.add_column("copies", sa.Column(name, sa.BigInteger, nullable=False, server_default="0"))
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
