"""Batches that no honest crowd can have sent are held, with the reason."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None

_STATES = ("REQUESTED", "RECEIVED", "OPENED", "BUDGETED", "HELD", "PUBLISHED", "REFUSED")
_KNOWN = f"state IN ({', '.join(map(repr, _STATES))})"


def upgrade() -> None:
    """Let collections have the state and the reason. SQLite makes the table anew for that."""
    if op.get_bind().dialect.name == "sqlite":
        known = sa.CheckConstraint(_KNOWN, name="known_state")
        with op.batch_alter_table("collections", recreate="always", table_args=(known,)) as table:
            table.add_column(sa.Column("warning", sa.Text))
    else:
        op.add_column("collections", sa.Column("warning", sa.Text))
        op.drop_constraint("known_state", "collections", type_="check")
        op.create_check_constraint("known_state", "collections", _KNOWN)
