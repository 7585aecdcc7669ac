"""The tables of a store: made as this version has them, changed by numbered steps afterwards.

A new store gets the tables that ``tables.py`` of ``db`` and of its party describe. One of an older
version takes the steps that it lacks. The scripts are Alembic's and live in ``migrations/<tree>``;
there is no file of settings. All of it is one transaction, on SQLite too. The revision is kept in a
table named after the tree, and a database that holds another tree is refused: shuffler and analyzer
share nothing.
"""

from __future__ import annotations

import threading
from functools import cache
from importlib import import_module
from pathlib import Path

import sqlalchemy as sa
from alembic.config import Config
from alembic.runtime.environment import EnvironmentContext
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from alembic.script.revision import RevisionError
from alembic.util.exc import CommandError

from shoal.errors import InvalidArgumentError
from shoal.service.db.files import fresh_name
from shoal.service.db.tables import METADATA, store
from shoal.service.errors import StoreVersionError

# Where a party describes the tables that are its own.
TREES = {"shuffler": "shoal.service.shuffler.tables", "analyzer": "shoal.service.analyzer.tables"}
_ONE_AT_A_TIME = threading.Lock()  # the scripts find their connection in a global of Alembic's
_SCRIPTS = Path(__file__).parent


def head(tree: str) -> str | None:
    """The newest revision of a tree; None while it has no scripts."""
    return _scripts(tree).get_current_head()


def current(connection: sa.Connection, tree: str) -> str | None:
    """The revision a database is at; None if it is empty. A newer one is refused."""
    if tree not in TREES:
        raise InvalidArgumentError("tree", tree, f"one of {', '.join(TREES)}")
    for other in TREES:
        if other != tree and sa.inspect(connection).has_table(f"{other}_revision"):
            advice = f"this database belongs to the {other}: give the {tree} a database of its own"
            raise StoreVersionError(f"the {other}'s", f"the {tree}'s", advice)
    revision = _context(connection, tree).get_current_revision()
    try:
        known = revision is None or _scripts(tree).get_revision(revision) is not None
    except (RevisionError, CommandError):
        known = False
    if not known:
        advice = "it was made by a newer version of Shoal: install that one"
        raise StoreVersionError(shown(revision), shown(head(tree)), advice)
    return revision


def upgrade(connection: sa.Connection, tree: str, to: str = "head") -> str | None:
    """Make the tables, or take all steps up to ``to``, within the transaction of the connection."""
    revision, scripts = current(connection, tree), _scripts(tree)
    if revision is None:
        for tables in (METADATA, import_module(TREES[tree]).METADATA):
            tables.create_all(connection, checkfirst=False)
        # The store's name, which its directory gets later.
        connection.execute(store.insert(), {"id": fresh_name(), "bound": False})
        _context(connection, tree).stamp(scripts, to)
    else:
        environment = EnvironmentContext(
            Config(),
            scripts,
            fn=lambda revision, _context: scripts._upgrade_revs(to, revision),  # noqa: SLF001 - as Alembic's own commands do
        )
        with _ONE_AT_A_TIME, environment:
            environment.configure(
                connection=connection, version_table=f"{tree}_revision", transactional_ddl=True
            )
            environment.run_migrations()
    return current(connection, tree)


def shown(revision: str | None) -> str:
    """A revision, in words."""
    return f"at revision {revision}" if revision else "empty"


@cache
def _scripts(tree: str) -> ScriptDirectory:
    directory = str(_SCRIPTS / tree)
    return ScriptDirectory(directory, version_locations=[directory])


def _context(connection: sa.Connection, tree: str) -> MigrationContext:
    return MigrationContext.configure(connection, opts={"version_table": f"{tree}_revision"})
