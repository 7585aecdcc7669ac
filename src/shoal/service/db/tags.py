"""What was taken once, by 16 bytes of its SHA-256, so that it is never taken again.

Of a shuffler: sealed reports. Of an analyzer: sealed records. Tags go with the key that opens what
they were made of: without it nothing is left to be sent again.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import sqlalchemy as sa

from shoal import checks
from shoal.service.db.database import SQLITE, Database
from shoal.service.db.tables import tags

AT_ONCE = 20_000  # deleted; others write between two pieces
_ASKED_AT_ONCE = 500  # below SQLite's limit of parameters


def add_tags(connection: sa.Connection, survey: int, key: int, added: list[bytes]) -> set[bytes]:
    """Add these, which differ; those that were not there before.

    Past the expression language, whose part in the cost of a small group is the largest.
    """
    driver: Any = connection.connection.driver_connection
    if connection.dialect.name == SQLITE:
        return _add_sqlite(driver, survey, key, added)
    insert = (
        "INSERT INTO tags (survey, key, tag) SELECT %s, %s, tag FROM unnest(%b::bytea[]) AS tag "
        "ON CONFLICT DO NOTHING RETURNING tag"
    )
    return {bytes(tag) for (tag,) in driver.execute(insert, (survey, key, added))}


def _add_sqlite(driver: Any, survey: int, key: int, added: list[bytes]) -> set[bytes]:  # noqa: ANN401
    """Insert all and count: which of them were new is only asked if some were and some not."""
    insert = "INSERT OR IGNORE INTO tags (survey, key, tag) VALUES (?, ?, ?)"
    driver.execute("SAVEPOINT tags")
    inserted = driver.executemany(insert, [(survey, key, tag) for tag in added]).rowcount
    new = set(added)
    if 0 < inserted < len(added):
        driver.execute("ROLLBACK TO tags")
        for start in range(0, len(added), _ASKED_AT_ONCE):
            part = added[start : start + _ASKED_AT_ONCE]
            marks = ", ".join("?" * len(part))
            known = f"SELECT tag FROM tags WHERE survey = ? AND key = ? AND tag IN ({marks})"  # noqa: S608 - question marks only
            new.difference_update(tag for (tag,) in driver.execute(known, (survey, key, *part)))
        driver.executemany(insert, [(survey, key, tag) for tag in sorted(new)])
    driver.execute("RELEASE tags")
    return new if inserted else set()


def known_tags(database: Database, survey: int, key: int, asked: list[bytes]) -> set[bytes]:
    """Those of these tags that are there."""
    known: set[bytes] = set()
    with database.read() as connection:
        for start in range(0, len(asked), _ASKED_AT_ONCE):
            part = asked[start : start + _ASKED_AT_ONCE]
            query = sa.select(tags.c.tag).where(
                tags.c.survey == survey, tags.c.key == key, tags.c.tag.in_(part)
            )
            known.update(bytes(tag) for tag in connection.scalars(query))
    return known


def delete_tags(
    connection: sa.Connection, survey: int, key: int, deleted: Collection[bytes]
) -> None:
    """Delete these: what does not open needs no protection against being sent again."""
    if deleted:
        connection.execute(
            tags.delete().where(
                tags.c.survey == survey, tags.c.key == key, tags.c.tag == sa.bindparam("deleted")
            ),
            [{"deleted": tag} for tag in sorted(deleted)],
        )


def forget_key(database: Database, key: int) -> int:
    """Delete the tags of a key that is gone, in pieces; how many there were."""
    return forget(database, tags.c.key == checks.count(0, key=key))


def forget(database: Database, condition: sa.ColumnElement[bool]) -> int:
    """Delete tags in pieces; how many there were."""
    columns = tags.primary_key.columns
    some = sa.select(*columns).where(condition).limit(AT_ONCE)
    forgotten = 0
    while True:
        with database.write() as connection:
            query = tags.delete().where(sa.tuple_(*columns).in_(some))
            deleted = connection.execute(query).rowcount
        forgotten += deleted
        if deleted < AT_ONCE:
            return forgotten
