"""Recent tags and codes, and rows that lead neither from a code to a report nor to an order."""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa
from alembic import op

revision = "0007"
down_revision = "0006"
branch_labels = None
depends_on = None

_MOVED = "moved_by_0007"
_CROWD = 1000


def upgrade() -> None:
    """Write the rows of codes and parts anew, in the order of their names, without the bounds."""
    op.create_table(
        "recent_tags",
        sa.Column("survey", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("key", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("tag", sa.LargeBinary(16), primary_key=True),
        sqlite_with_rowid=False,
    )
    op.create_table("recent_codes", *_person(), sqlite_with_rowid=False)
    _rewritten(
        "codes",
        "survey, hash, state, bound IS NOT NULL AS spent",
        *_person(),
        sa.Column("state", sa.Integer, nullable=False),
        sa.Column("spent", sa.Boolean, nullable=False),
    )
    op.drop_index("waiting_codes_of_an_extent", "waiting_codes")
    _rewritten(
        "waiting_codes",
        "survey, hash, extent",
        *_person(),
        sa.Column("extent", sa.BigInteger, nullable=False),
    )
    op.create_index("waiting_codes_of_an_extent", "waiting_codes", ["extent"])
    op.drop_index("ix_parts_batch", "parts")
    _rewritten(
        "parts",
        f"name, batch, count, count < {_CROWD} AS grows",
        sa.Column("name", sa.Text, primary_key=True),
        sa.Column("batch", sa.Text, sa.ForeignKey("batches.id"), nullable=False),
        sa.Column("count", sa.BigInteger, nullable=False),
        sa.Column("grows", sa.Boolean, nullable=False),
    )
    op.create_index("ix_parts_batch", "parts", ["batch"])


def _person() -> tuple[sa.Column[Any], ...]:
    return (
        sa.Column("survey", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("hash", sa.LargeBinary(16), primary_key=True),
    )


def _rewritten(table: str, selected: str, *columns: sa.Column[Any]) -> None:
    """A table without anything that it had besides these columns: PostgreSQL has another file."""
    names = ", ".join(each.name for each in columns)
    keys = ", ".join(each.name for each in columns if each.primary_key)
    op.execute(f"CREATE TABLE {_MOVED} AS SELECT {selected} FROM {table}")  # noqa: S608 - our names
    op.drop_table(table)
    op.create_table(table, *columns, sqlite_with_rowid=False)
    copied = f"SELECT {names} FROM {_MOVED} ORDER BY {keys}"  # noqa: S608 - our names
    op.execute(f"INSERT INTO {table} ({names}) {copied}")
    op.drop_table(_MOVED)
