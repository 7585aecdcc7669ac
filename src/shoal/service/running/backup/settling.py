"""What has to change in a database that was brought back from an earlier moment.

Leases of processes that are gone end. What a shuffler still waited with at that moment may have
been released since: then it is given up, because the difference between two releases is a crowd of
its own, of any size. What was closed by then cannot grow any more, so that it is the same set
whenever it is released.
"""

from __future__ import annotations

from collections.abc import Sequence

import sqlalchemy as sa

from shoal.service.analyzer import tables as analyzer
from shoal.service.db import Database
from shoal.service.keyring import Role
from shoal.service.shuffler.reports import count
from shoal.service.shuffler.tables import ACCEPTS, EXPIRED, batches, extents, parts

_HOUR = 3600
_FREE = {"owner": None, "lease_until": None}


def end_leases(database: Database, role: Role) -> None:
    """Whoever held them is gone."""
    tables = (extents, batches) if role == "shuffler" else (analyzer.collections,)
    with database.write() as connection:
        for table in tables:
            connection.execute(table.update().values(_FREE))


def waiting_batches(database: Database) -> list[str]:
    """The batches of a shuffler that took reports at that moment."""
    with database.read() as connection:
        query = sa.select(batches.c.id).where(ACCEPTS).order_by(batches.c.id)
        return list(connection.scalars(query))


def give_up(database: Database, now: int) -> Sequence[str]:
    """Forget the reports that waited, opened or not; the batches that died of it."""
    per_survey = sa.select(extents.c.survey, sa.func.sum(extents.c.count)).group_by(
        extents.c.survey
    )
    with database.write() as connection:
        for survey, reports in connection.execute(per_survey).all():
            count(database, connection, survey, {"unreadable": int(reports)})
        connection.execute(extents.delete())
        dying = sorted(connection.scalars(sa.select(batches.c.id).where(ACCEPTS)))
        connection.execute(parts.delete().where(parts.c.batch.in_(dying)))
        closed = {"state": EXPIRED, "since": None, "closed": now - now % _HOUR}
        connection.execute(batches.update().where(ACCEPTS).values(closed))
    return dying
