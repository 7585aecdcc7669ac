"""Tags of reports that wait to be opened, apart from those that stay."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Make their table. Reports that wait now have their tags among those that stay."""
    op.create_table(
        "waiting_tags",
        sa.Column("survey", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("key", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("tag", sa.LargeBinary(16), primary_key=True),
        sa.Column("extent", sa.BigInteger, nullable=False),
        sqlite_with_rowid=False,
    )
    op.create_index("waiting_tags_of_an_extent", "waiting_tags", ["extent"])
