"""The first tables that both parties have: surveys, tags, tokens, key lists, the store's name."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from shoal.service.db.files import fresh_name


def create_common_tables() -> None:
    """Make them, and draw the name; the directory gets it when the store is opened."""
    op.create_table(
        "surveys",
        sa.Column("number", sa.Integer, primary_key=True),
        sa.Column("id", sa.LargeBinary(32), nullable=False, unique=True),
        sa.Column("configuration", sa.LargeBinary, nullable=False),
    )
    op.create_table(
        "tags",
        sa.Column("survey", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("key", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("tag", sa.LargeBinary(16), primary_key=True),
        sqlite_with_rowid=False,
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
    store = op.create_table(
        "store",
        sa.Column("id", sa.Text, primary_key=True),
        sa.Column("bound", sa.Boolean, nullable=False),
    )
    op.bulk_insert(store, [{"id": fresh_name(), "bound": False}])
