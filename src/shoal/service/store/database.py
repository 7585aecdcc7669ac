"""A transactional database: SQLite in a file of its own, or PostgreSQL.

A transaction that returns is durable: SQLite runs with a write-ahead log that is synced at every
commit, PostgreSQL with ``synchronous_commit``. One that cannot be (locked for too long, disk full,
server gone) raises ``StoreUnavailableError`` and leaves nothing behind; so does one that went to
SQLite's files after somebody removed or replaced them. Deleted content is overwritten with zeros on
SQLite; PostgreSQL frees it at its next vacuum.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.engine import URL, make_url
from sqlalchemy.exc import ArgumentError, DBAPIError
from sqlalchemy.exc import TimeoutError as PoolTimeoutError

from shoal import checks
from shoal.errors import InvalidArgumentError, MissingExtraError
from shoal.service.errors import StoreBusyError, StoreUnavailableError
from shoal.service.store import files, migrating
from shoal.service.store.open_files import OpenFiles

SQLITE, POSTGRESQL = "sqlite", "postgresql"
_BEGIN = "shoal_begin"  # the execution option that says how SQLite's transaction begins
_PATIENCE = 30.0
_CONNECT_PATIENCE = 10
_LOCK_NOT_AVAILABLE = "55P03"
# A peer that is gone is noticed within half a minute, by us and by the server: neither waits for
# a machine that lost its network, nor keeps what that one had locked. No ``statement_timeout``:
# a commit that it cuts off while a standby is waited for is reported as done.
_ALIVE = {
    "keepalives": 1,
    "keepalives_idle": 20,
    "keepalives_interval": 5,
    "keepalives_count": 3,
    "tcp_user_timeout": 20_000,  # milliseconds
}
_SERVER_SETTINGS = {
    "idle_in_transaction_session_timeout": "60s",
    "tcp_keepalives_idle": "20",
    "tcp_keepalives_interval": "5",
    "tcp_keepalives_count": "3",
    "tcp_user_timeout": "20s",
    "client_connection_check_interval": "5s",
}


class Database:
    """Connections to one database, for any number of threads.

    ``patience`` is how many seconds a transaction waits for others before it gives up.
    """

    def __init__(self, url: str, *, patience: float = _PATIENCE) -> None:
        checks.positive(patience=patience)
        parsed = _parsed(url)
        self.dialect = parsed.get_backend_name()
        self._files: OpenFiles | None = None
        if self.dialect == SQLITE:
            self._files = OpenFiles(_create_private(Path(str(parsed.database))))
            self._engine = _sqlite(parsed, patience, self._files)
        else:
            self._engine = _postgresql(parsed, patience)
        self._writer = self._engine.execution_options(**{_BEGIN: "BEGIN IMMEDIATE"})

    @contextmanager
    def write(self) -> Iterator[sa.Connection]:
        """A transaction that may change things: all of it is durable afterwards, or none."""
        with self._translated("writing"), self._writer.begin() as connection:
            yield connection
        self.check_files("writing")  # after the commit: nobody was told of it yet

    @contextmanager
    def read(self) -> Iterator[sa.Connection]:
        """A transaction that only looks; on SQLite all of it sees one moment."""
        with self._translated("reading"), self._engine.begin() as connection:
            yield connection

    def insert(self, table: sa.Table) -> sqlite.Insert | postgresql.Insert:
        """An insertion that can say what to do about rows that are there."""
        return sqlite.insert(table) if self.dialect == SQLITE else postgresql.insert(table)

    def migrate(self, tree: str, to: str = "head") -> str:
        """Bring the tables of ``tree`` (shuffler, analyzer) up to date; the revision reached."""
        with self.write() as connection:
            if self.dialect == POSTGRESQL:
                # Two that migrate at once would both find the same old revision.
                connection.execute(sa.select(sa.func.pg_advisory_xact_lock(migrating.LOCK)))
            return migrating.upgrade(connection, tree, to)

    def revision(self, tree: str) -> str | None:
        """The revision the tables of ``tree`` are at; None if there are none."""
        with self.read() as connection:
            return migrating.current(connection, tree)

    def require(self, tree: str) -> None:
        """Refuse to work with tables of another version, or files that are gone."""
        with self.read() as connection:
            migrating.require(connection, tree)
        self.check_files("reading")

    def check_files(self, doing: str) -> None:
        """Refuse to go on if what is open is not what has the database's name any more."""
        if self._files is not None:
            self._files.check(doing)

    def close(self) -> None:
        """Close the connections that nobody uses."""
        self._engine.dispose()

    @contextmanager
    def _translated(self, doing: str) -> Iterator[None]:
        driver: Any = self._engine.dialect.dbapi
        try:
            yield
        except PoolTimeoutError as error:
            raise StoreUnavailableError(doing, "too many connections in use") from error
        except DBAPIError as error:
            _raise_unavailable(driver, error.orig, doing)
            raise
        except driver.Error as error:  # of the intake, which speaks to the driver itself
            _raise_unavailable(driver, error, doing)
            raise


def _raise_unavailable(driver: Any, error: BaseException | None, doing: str) -> None:  # noqa: ANN401
    """Tell what the database cannot do now from what it was asked wrongly."""
    passing = (driver.OperationalError, driver.InterfaceError, driver.InternalError)
    if isinstance(error, passing) or type(error) is driver.DatabaseError:
        busy = getattr(error, "sqlstate", None) == _LOCK_NOT_AVAILABLE
        kind = StoreBusyError if busy else StoreUnavailableError
        reason = (str(error).strip().splitlines() or [type(error).__name__])[0]
        raise kind(doing, reason) from error


def _parsed(url: str) -> URL:
    expected = "sqlite:///path or postgresql+psycopg://user@host/database"
    try:
        parsed = make_url(url)
    except ArgumentError:
        raise InvalidArgumentError("url", "no address of a database", expected) from None
    shown = parsed.render_as_string(hide_password=True)
    if parsed.get_backend_name() == SQLITE and parsed.database not in {None, "", ":memory:"}:
        return parsed.set(drivername=SQLITE)
    if parsed.get_backend_name() != POSTGRESQL:
        raise InvalidArgumentError("url", shown, expected)
    if find_spec("psycopg") is None:
        raise MissingExtraError("a PostgreSQL store", "postgres")
    return parsed.set(drivername="postgresql+psycopg")


def _create_private(path: Path) -> Path:
    """The file, if it is not there: SQLite gives its journals the same permissions."""
    with files.disk("opening the database"):
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600))
        files.sync_directory(path.parent)
    return path


def _sqlite(url: URL, patience: float, held: OpenFiles) -> sa.Engine:
    engine = sa.create_engine(
        url, hide_parameters=True, pool_timeout=patience, connect_args={"timeout": patience}
    )

    @sa.event.listens_for(engine, "connect")
    def _prepare(connection: Any, _record: object) -> None:  # noqa: ANN401 - of the driver
        connection.isolation_level = None  # transactions begin where we say, and how
        for setting in (
            "journal_mode=WAL",
            "synchronous=FULL",
            "secure_delete=ON",
            "foreign_keys=ON",
            "temp_store=MEMORY",
            "cache_size=-65536",  # KiB: dedup looks up tags all over the table
            "wal_autocheckpoint=8192",  # pages: tags touch many, and the same ones again
            "journal_size_limit=67108864",
        ):
            connection.execute(f"PRAGMA {setting}").close()
        connection.execute("SELECT count(*) FROM sqlite_master").close()  # opens the log
        held.opened(connection)

    @sa.event.listens_for(engine, "close")
    def _closed(connection: object, _record: object) -> None:
        held.closed(connection)

    @sa.event.listens_for(engine, "begin")
    def _begin(connection: sa.Connection) -> None:
        connection.exec_driver_sql(connection.get_execution_options().get(_BEGIN, "BEGIN"))

    return engine


def _postgresql(url: URL, patience: float) -> sa.Engine:
    engine = sa.create_engine(
        url,
        hide_parameters=True,
        pool_timeout=patience,
        pool_pre_ping=True,  # the server may have been restarted since
        connect_args={"connect_timeout": _CONNECT_PATIENCE, **_ALIVE},
    )
    driver: Any = engine.dialect.dbapi

    @sa.event.listens_for(engine, "connect")
    def _prepare(connection: Any, _record: object) -> None:  # noqa: ANN401 - of the driver
        connection.execute("SET synchronous_commit TO on")
        connection.execute(f"SET lock_timeout TO {int(patience * 1000)}")
        connection.commit()
        for setting, value in _SERVER_SETTINGS.items():
            # Older servers, and some systems, do not have all of them.
            with suppress(driver.Error), connection.transaction():
                connection.execute("SELECT set_config(%s, %s, false)", (setting, value))

    return engine
