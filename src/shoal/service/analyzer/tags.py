"""What was counted once, by 16 bytes of a record's hash, so that it is never counted again."""

from __future__ import annotations

import numpy as np
import sqlalchemy as sa

from shoal.service.analyzer import schema
from shoal.service.analyzer.collection import Collection
from shoal.service.analyzer.opened import Mask
from shoal.service.opening import TAG_BYTES, Rows
from shoal.service.store import Database
from shoal.service.store.database import SQLITE

_ASKED_AT_ONCE = 2000


def known_tags(database: Database, held: Collection, tags: Rows) -> Mask:
    """Which of these tags are there already, of the survey and key of a batch."""
    table = schema.tags.c
    listed = _listed(tags)
    found: set[bytes] = set()
    with database.read() as connection:
        for start in range(0, len(listed), _ASKED_AT_ONCE):
            part = listed[start : start + _ASKED_AT_ONCE]
            query = sa.select(table.tag).where(
                table.survey == held.survey, table.key == held.key, table.tag.in_(part)
            )
            found.update(bytes(tag) for tag in connection.execute(query).scalars())
    return np.fromiter((tag in found for tag in listed), dtype=bool, count=len(listed))


def insert_tags(connection: sa.Connection, held: Collection, tags: Rows) -> None:
    """All of these, or an IntegrityError if one of them is there."""
    if not len(tags):
        return
    if connection.dialect.name == SQLITE:
        rows = [(held.survey, held.key, tag) for tag in _listed(tags)]
        connection.exec_driver_sql("INSERT INTO tags VALUES (?, ?, ?)", rows)
        return
    query = "INSERT INTO tags SELECT %s, %s, unnest(%s::bytea[])"
    connection.exec_driver_sql(query, (held.survey, held.key, _listed(tags)))


def _listed(tags: Rows) -> list[bytes]:
    whole = np.ascontiguousarray(tags).tobytes()
    return [whole[start : start + TAG_BYTES] for start in range(0, len(whole), TAG_BYTES)]
