"""Tables change by numbered steps: which steps a store has taken, and the ones it lacks.

The scripts are Alembic's and live in ``migrations/<tree>``; there is no file of settings.
All missing steps are one transaction, on SQLite too. The revision is kept in a table named after
the tree, and a database that holds another tree is refused: shuffler and analyzer share nothing.
"""

from __future__ import annotations

import threading
from functools import cache
from pathlib import Path

import sqlalchemy as sa
from alembic import op
from alembic.config import Config
from alembic.runtime.environment import EnvironmentContext
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from alembic.script.revision import RevisionError
from alembic.util.exc import CommandError

from shoal.errors import InvalidArgumentError
from shoal.service.db.files import fresh_name
from shoal.service.errors import StoreVersionError

TREES = ("shuffler", "analyzer")
LOCK = 0x73686F616C  # "shoal": the advisory lock of whoever migrates
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
            advice = f"this database belongs to the {other}: give the {tree} one of its own"
            raise StoreVersionError(f"the {other}'s", f"the {tree}'s", advice)
    options = {"version_table": f"{tree}_revision"}
    revision = MigrationContext.configure(connection, opts=options).get_current_revision()
    try:
        known = revision is None or _scripts(tree).get_revision(revision) is not None
    except (RevisionError, CommandError):
        known = False
    if not known:
        advice = "it was made by a newer version of Shoal: install that one"
        raise StoreVersionError(shown(revision), shown(head(tree)), advice)
    return revision


def upgrade(connection: sa.Connection, tree: str, to: str = "head") -> str:
    """Take all steps up to ``to`` within the transaction of the connection."""
    current(connection, tree)
    scripts = _scripts(tree)
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
    reached = current(connection, tree)
    if reached is None:
        raise StoreVersionError("empty", "tables", f"this version has none for the {tree}")
    return reached


def shown(revision: str | None) -> str:
    """A revision, in words."""
    return f"at revision {revision}" if revision else "empty"


@cache
def _scripts(tree: str) -> ScriptDirectory:
    directory = str(_SCRIPTS / tree)
    return ScriptDirectory(directory, version_locations=[directory])


def create_common_tables() -> None:
    """The first tables of both parties, and the store's name, which its directory gets later."""
    op.create_table(
        "surveys",
        sa.Column("number", sa.Integer, primary_key=True),
        sa.Column("id", sa.LargeBinary(32), nullable=False, unique=True),
        sa.Column("configuration", sa.LargeBinary, nullable=False),
    )
    op.create_table(
        "tags",
        sa.Column("survey", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("key", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("tag", sa.LargeBinary(16), primary_key=True),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "tokens",
        sa.Column("hash", sa.LargeBinary(32), primary_key=True),
        sa.Column("survey", sa.Integer, sa.ForeignKey("surveys.number")),
        sa.Column("label", sa.Text, nullable=False),
        sa.Column("expires", sa.BigInteger, nullable=False),
    )
    op.create_table(
        "copies",
        sa.Column("fingerprint", sa.String(64), primary_key=True),
        sa.Column("document", sa.LargeBinary, nullable=False),
        sa.Column("issued", sa.BigInteger, nullable=False, server_default="0"),
        sa.Column("valid_until", sa.BigInteger, nullable=False, server_default="0"),
    )
    op.create_table(
        "copied_keys",
        sa.Column("fingerprint", sa.String(64), primary_key=True),
        sa.Column("number", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("key", sa.String(64), nullable=False),
    )
    op.create_table(
        "contradictions",
        sa.Column("fingerprint", sa.String(64), primary_key=True),
        sa.Column("digest", sa.LargeBinary(32), primary_key=True),
        sa.Column("reason", sa.Text, nullable=False),
        sa.Column("known", sa.LargeBinary, nullable=False),
        sa.Column("document", sa.LargeBinary, nullable=False),
    )
    store = op.create_table(
        "store",
        sa.Column("id", sa.Text, primary_key=True),
        sa.Column("bound", sa.Boolean, nullable=False),
    )
    op.bulk_insert(store, [{"id": fresh_name(), "bound": False}])
