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
    if op.get_bind().dialect.name != "sqlite":
        op.add_column("collections", sa.Column("warning", sa.Text))
        op.drop_constraint("known_state", "collections", type_="check")
        op.create_check_constraint("known_state", "collections", _KNOWN)
        return
    table = sa.Table("collections", sa.MetaData(), autoload_with=op.get_bind())
    # Some versions of SQLAlchemy read the old constraint, and some do not.
    table.constraints -= {each for each in table.constraints if each.name == "known_state"}
    table.append_constraint(sa.CheckConstraint(_KNOWN, name="known_state"))
    with op.batch_alter_table("collections", copy_from=table, recreate="always") as changed:
        changed.add_column(sa.Column("warning", sa.Text))
