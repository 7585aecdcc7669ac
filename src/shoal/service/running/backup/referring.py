"""Which files a database needs: those that it mentions and that are not about to be deleted.

Of a shuffler: what waits to be opened, parts of batches that are not mixed yet, and mixed batches
that are not acknowledged. Of an analyzer: batches that have arrived and are not opened.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field

import sqlalchemy as sa

from shoal.service.analyzer import tables as analyzer
from shoal.service.db.tables import surveys
from shoal.service.keyring import Role
from shoal.service.running.backup.manifest import Range
from shoal.service.shuffler import tables as shuffler
from shoal.service.survey import Survey
from shoal.service.wire import Wire

_DIGEST_SHOWN = 16  # digits of a batch's digest in the name of its file
_UNMIXED = (*shuffler.ACCEPTING, shuffler.SEALED)
_MIXED = (shuffler.SHUFFLED, shuffler.RELEASED)


@dataclass(frozen=True)
class Needed:
    """Files that are needed whole, and stretches of segments, by their names in the directory.

    In the order in which they are most likely to be deleted.
    """

    whole: tuple[str, ...]
    stretches: dict[str, tuple[Range, ...]] = field(default_factory=dict)


def needed(connection: sa.Connection, role: Role) -> Needed:
    """What the directory has to have."""
    if role == "analyzer":
        rows = analyzer.collections.c
        arrived = sa.select(rows.survey, rows.batch).where(rows.state == analyzer.RECEIVED)
        found = connection.execute(arrived.order_by(rows.survey, rows.batch))
        return Needed(tuple(f"incoming/{row.survey}-{row.batch}.batch" for row in found))
    return Needed((*_parts(connection), *_batches(connection)), _segments(connection))


def _parts(connection: sa.Connection) -> Iterable[str]:
    parts, batches = shuffler.parts.c, shuffler.batches.c
    query = (
        sa.select(parts.name)
        .join(shuffler.batches, parts.batch == batches.id)
        .where(batches.state.in_(_UNMIXED))
        .order_by(batches.state.desc(), parts.name)  # SEALED ones are the first to go
    )
    return [f"parts/{name}" for name in connection.scalars(query)]


def _batches(connection: sa.Connection) -> Iterable[str]:
    rows = shuffler.batches.c
    query = sa.select(rows.id, rows.digest).where(rows.state.in_(_MIXED)).order_by(rows.id)
    found = connection.execute(query)
    return [f"batches/{row.id}-{row.digest[:_DIGEST_SHOWN]}.batch" for row in found]


def _segments(connection: sa.Connection) -> dict[str, tuple[Range, ...]]:
    rows = shuffler.extents.c
    query = sa.select(rows.segment, rows.survey, rows.start, rows.count.label("reports"))
    sizes: dict[int, int] = {}
    found: dict[str, list[Range]] = defaultdict(list)
    for row in connection.execute(query.order_by(rows.segment, rows.start)).all():
        if row.survey not in sizes:
            sizes[row.survey] = _report_bytes(connection, row.survey)
        found[row.segment].append((row.start, row.reports * sizes[row.survey]))
    return {f"segments/{name}.segment": joined(found[name]) for name in sorted(found)}


def _report_bytes(connection: sa.Connection, number: int) -> int:
    query = sa.select(surveys.c.configuration).where(surveys.c.number == number)
    survey = Survey.from_bytes(bytes(connection.execute(query).scalar_one()))
    return Wire.of(survey).report_bytes


def joined(ranges: Iterable[Range]) -> tuple[Range, ...]:
    """Stretches in order, those that touch as one.

    >>> joined([(0, 5), (5, 5), (20, 5)])
    ((0, 10), (20, 5))
    """
    found: list[Range] = []
    for start, length in ranges:
        if found and found[-1][0] + found[-1][1] == start:
            found[-1] = (found[-1][0], found[-1][1] + length)
        else:
            found.append((start, length))
    return tuple(found)
