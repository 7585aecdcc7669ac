"""The ledger: what each batch tells about a person in it, entered before anybody is told."""

from __future__ import annotations

import math
from typing import Any

import sqlalchemy as sa

from shoal.sealing import SurveyId
from shoal.service.analyzer.collection import Collection, Collections
from shoal.service.analyzer.release_decision import ReleaseDecision, local_epsilon
from shoal.service.analyzer.tables import BUDGETED, ledger, results
from shoal.service.db.database import Database
from shoal.service.db.surveys import SurveyRow, Surveys


class Ledger:
    """The ledger of all surveys, one entry for each batch that was opened."""

    def __init__(self, database: Database, surveys: Surveys, collections: Collections) -> None:
        self._database = database
        self._surveys = surveys
        self._collections = collections

    def debit(self, collection: Collection, decision: ReleaseDecision) -> Collection:
        """Enter what the batch tells about a person."""
        entry = {
            "survey": collection.survey,
            "batch": collection.batch,
            "epsilon": None if decision.guarantee is None else decision.guarantee.epsilon,
            "delta": self._surveys.numbered(collection.survey).survey.delta,
            "valid": decision.valid,
            "honest": decision.honest,
            "released": int(decision.withheld is None),
        }
        with self._database.write() as connection:
            connection.execute(sa.insert(ledger).values(entry))
            return self._collections.move_in(connection, collection, BUDGETED)

    def entries(self, name: SurveyId) -> list[dict[str, Any]]:
        """What every batch tells about a person in it."""
        mine = ledger.c.survey == self._surveys.row(name).number
        columns = [column for column in ledger.c if column.name != "survey"]
        query = sa.select(*columns).where(mine).order_by(ledger.c.batch)
        with self._database.read() as connection:
            rows = connection.execute(query).mappings().all()
        return [{**row, "released": bool(row["released"])} for row in rows]

    def spent(self, name: SurveyId) -> dict[str, Any]:
        """What the survey cost so far."""
        with self._database.read() as connection:
            return spent(connection, self._surveys.row(name))


def spent(connection: sa.Connection, row: SurveyRow, batch: str = "") -> dict[str, Any]:
    """What a survey has cost one person so far: towards readers, and towards the analyzer itself.

    ``epsilon`` is towards readers: of the ``batches`` whose estimates are published, and of
    ``batch``. ``analyzer_epsilon`` is towards the analyzer, who has ``opened`` withheld ones too.
    Where those are too small for any guarantee the local one is left; None if that is infinite.
    """
    entry, done = ledger.c, results.c
    published = sa.select(done.batch).where(done.survey == row.number)
    released = sa.select(
        sa.func.max(entry.epsilon), sa.func.count(), sa.func.min(entry.valid)
    ).where(
        entry.survey == row.number,
        entry.released == 1,
        sa.or_(entry.batch == batch, entry.batch.in_(published)),
    )
    epsilon, batches, smallest = connection.execute(released).one()
    local = local_epsilon(row.survey)
    every = sa.select(sa.func.max(sa.func.coalesce(entry.epsilon, local)), sa.func.count())
    worst, opened = connection.execute(every.where(entry.survey == row.number)).one()
    return {
        "epsilon": epsilon,
        "batches": batches,
        "smallest": smallest,
        "analyzer_epsilon": None if worst is None or math.isinf(worst) else worst,
        "opened": opened,
    }
