"""What was kept against replays goes with the key that would open them."""

from __future__ import annotations

import sqlalchemy as sa

from shoal import checks
from shoal.service.store.database import Database

AT_ONCE = 20_000  # others write between two pieces


def forget_tags(database: Database, tags: sa.Table, key: int) -> int:
    """Delete the tags of a key, in pieces; how many there were."""
    checks.count(0, key=key)
    columns = tags.primary_key.columns
    some = sa.select(*columns).where(tags.c.key == key).limit(AT_ONCE)
    forgotten = 0
    while True:
        with database.write() as connection:
            query = tags.delete().where(sa.tuple_(*columns).in_(some))
            deleted = connection.execute(query).rowcount
        forgotten += deleted
        if deleted < AT_ONCE:
            return forgotten
