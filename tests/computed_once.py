"""What costs much and is the same every time, computed once a run: it is not what is tested.

Certificates of all authorities, which every HTTP client reads; tables of a new database, which are
made by the migrations once and then by the statements that these executed; statements of SQL, which
every database compiles. Whoever tests these very things asks for ``every_migration``.
"""

from __future__ import annotations

from collections import defaultdict
from functools import cache, wraps

import httpx
import pytest
import sqlalchemy as sa

from shoal.service.db import Database, files, migrations, tables

_ALL_SCRIPTS, _upgrade = migrations._SCRIPTS, migrations.upgrade
_tables = {}  # (dialect, tree) -> the statements that make them, and the revision


def install():
    httpx._transports.default.create_ssl_context = cache(httpx.create_ssl_context)
    migrations.upgrade = upgrade
    Database.__init__ = _sharing_statements(Database.__init__)


@pytest.fixture
def every_migration(monkeypatch):
    """Tables are made by the migrations, whoever makes them."""
    monkeypatch.setattr(migrations, "upgrade", _upgrade)


def upgrade(connection, tree, to="head"):
    """As the migrations do; an empty database gets all tables as one before it got them."""
    is_new = to == "head" and migrations._SCRIPTS == _ALL_SCRIPTS
    if not is_new or migrations.current(connection, tree) is not None:
        return _upgrade(connection, tree, to)
    key = connection.dialect.name, tree
    if key not in _tables:
        _tables[key] = _recorded(connection, tree)
        return _tables[key][1]
    statements, revision = _tables[key]
    cursor = connection.connection.cursor()
    for statement, parameters in statements:
        cursor.execute(statement, parameters)
    connection.execute(tables.store.update().values(id=files.fresh_name()))  # which is drawn
    return revision


def _recorded(connection, tree):
    statements = []

    def record(_connection, _cursor, statement, parameters, *_):
        if statement.lstrip().startswith(("CREATE", "INSERT", "UPDATE")):
            statements.append((statement, parameters))

    sa.event.listen(connection, "before_cursor_execute", record)
    try:
        return statements, _upgrade(connection, tree)
    finally:
        sa.event.remove(connection, "before_cursor_execute", record)


class _Statements(dict):
    """Compiled for any database of a kind: which one it was does not count."""

    def get(self, key, default=None):
        return super().get(key[1:], default)

    def __setitem__(self, key, compiled):
        super().__setitem__(key[1:], compiled)


_compiled = defaultdict(_Statements)


def _sharing_statements(make):
    @wraps(make)
    def made(database, *given, **options):
        make(database, *given, **options)
        shared = {"compiled_cache": _compiled[database.dialect.name]}
        database._engine = database._engine.execution_options(**shared)
        database._writer = database._writer.execution_options(**shared)

    return made
