"""How often an extent was claimed, so that one that kills its worker can be set aside."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Count from zero; a process that still runs the old version need not know."""
    op.add_column("extents", sa.Column("attempts", sa.Integer, nullable=False, server_default="0"))
