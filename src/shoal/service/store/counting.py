"""Sums for the operator. They are not about closed batches only, and so not for the public."""

from __future__ import annotations

from collections.abc import Mapping

import sqlalchemy as sa

from shoal.service.store.database import Database
from shoal.service.store.schema import counters


def count(
    database: Database, connection: sa.Connection, survey: int, more: Mapping[str, int]
) -> None:
    """Add to the counters of a survey, in one order for all."""
    for name, value in sorted(more.items()):
        if value:
            added = database.insert(counters).values(survey=survey, name=name, value=value)
            total = counters.c.value + added.excluded.value
            connection.execute(
                added.on_conflict_do_update(
                    index_elements=["survey", "name"], set_={"value": total}
                )
            )


def tallies(database: Database, survey: int) -> dict[str, int]:
    """The counters of a survey."""
    with database.read() as connection:
        rows = connection.execute(
            sa.select(counters.c.name, counters.c.value)
            .where(counters.c.survey == survey)
            .order_by(counters.c.name)
        ).all()
    return {row.name: row.value for row in rows}
