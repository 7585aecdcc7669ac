"""A name for the store, so that it and its directory know each other."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from shoal.service.store.files import fresh_name

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Draw it; the directory gets it when the store is opened."""
    made = op.create_table(
        "store",
        sa.Column("id", sa.Text, primary_key=True),
        sa.Column("bound", sa.Boolean, nullable=False),
    )
    op.bulk_insert(made, [{"id": fresh_name(), "bound": False}])
