"""What a survey has cost one person so far: towards readers, and towards the analyzer itself."""

from __future__ import annotations

import math

import sqlalchemy as sa

from shoal.service.analyzer import schema
from shoal.service.analyzer.documents import Document


def life_so_far(connection: sa.Connection, survey: int, local: float, batch: str = "") -> Document:
    """By the ledger; ``local`` is the survey's local epsilon.

    ``epsilon`` is towards readers: of the ``batches`` whose estimates are published, and of
    ``batch``. ``analyzer_epsilon`` is towards the analyzer, who has ``opened`` withheld ones too.
    Where those are too small for any guarantee the local one is left; None if that is infinite.
    """
    entry, done = schema.ledger.c, schema.results.c
    told = sa.select(done.batch).where(done.survey == survey)
    released = sa.select(
        sa.func.max(entry.epsilon), sa.func.count(), sa.func.min(entry.valid)
    ).where(
        entry.survey == survey,
        entry.released == 1,
        sa.or_(entry.batch == batch, entry.batch.in_(told)),
    )
    epsilon, batches, smallest = connection.execute(released).one()
    every = sa.select(sa.func.max(sa.func.coalesce(entry.epsilon, local)), sa.func.count())
    worst, opened = connection.execute(every.where(entry.survey == survey)).one()
    return {
        "epsilon": epsilon,
        "batches": batches,
        "smallest": smallest,
        "analyzer_epsilon": None if worst is None or math.isinf(worst) else worst,
        "opened": opened,
    }
