"""When a result was published has a column of its own; it is in the document, too."""

from __future__ import annotations

import json

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"
branch_labels = None
depends_on = None

_RESULTS = sa.table("results", *map(sa.column, ("survey", "batch", "document", "published")))


def upgrade() -> None:
    """Read it out of every document, one at a time: they may be large."""
    connection, row = op.get_bind(), _RESULTS.c
    op.add_column("results", sa.Column("published", sa.BigInteger))
    for survey, batch in connection.execute(sa.select(row.survey, row.batch)).all():
        mine = sa.and_(row.survey == survey, row.batch == batch)
        document = connection.execute(sa.select(row.document).where(mine)).scalar_one()
        published = json.loads(bytes(document))["published"]
        connection.execute(_RESULTS.update().where(mine).values(published=published))
    with op.batch_alter_table("results") as table:
        table.alter_column("published", existing_type=sa.BigInteger, nullable=False)
