"""What differs between the databases that a store may be in, and nothing else does.

Another database is another class here: how it is opened, how it locks, what it does with many rows
at once, and what is left of rows that were deleted. SQLite has one writer at a time, and everything
is in files beside the store's; PostgreSQL has many, and a server of its own.

Statements that every small group of reports needs go past SQLAlchemy's expression language, whose
part in their cost is the largest. They are written with question marks.
"""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from hashlib import sha256
from importlib.util import find_spec
from pathlib import Path
from typing import Any, ClassVar, TypeAlias

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.engine import URL, make_url
from sqlalchemy.exc import ArgumentError

from shoal.errors import InvalidArgumentError, MissingExtraError
from shoal.service.db import files

BEGIN = "shoal_begin"  # the execution option that says how SQLite's transaction begins
_ADDRESS = "sqlite:///path or postgresql+psycopg://user@host/database"
_HASHES_AT_ONCE = 500  # below SQLite's limit of parameters
_SWEEP_MILLISECONDS = 200  # that writers may have to wait for somebody who reads
_CONNECT_TIMEOUT = 10
_MIGRATING = 0x73686F616C  # "shoal": the advisory lock of whoever migrates
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


Values: TypeAlias = Sequence[Any]
Hashes: TypeAlias = Sequence[bytes]
Extents: TypeAlias = Mapping[bytes, int]  # of hashes
Known: TypeAlias = Callable[[Hashes], Collection[bytes]]  # those of some hashes that are elsewhere


@dataclass(frozen=True)
class Scope:
    """Rows of a table whose first columns have these values; in the next one they have a hash."""

    table: sa.Table
    values: tuple[int, ...]

    @property
    def insertion(self) -> str:
        """How a statement begins that inserts whole rows."""
        return f"INSERT INTO {self.table.name} ({', '.join(self.table.columns.keys())})"

    @property
    def hashed(self) -> str:
        """The column of the hashes."""
        return str(self.table.columns.keys()[len(self.values)])

    @property
    def of_hashes(self) -> str:
        """How a statement ends that is about some hashes (see :meth:`Dialect.run_among`)."""
        names = self.table.columns.keys()[: len(self.values)]
        conditions = "".join(f"{name} = ? AND " for name in names)
        return f"FROM {self.table.name} WHERE {conditions}{self.hashed}"


class Dialect(ABC):
    """One kind of database."""

    name: ClassVar[str]
    mark: ClassVar[str]  # of a parameter
    shared_lock: ClassVar[str]  # what lets a row that was read stay until the transaction ends
    left: ClassVar[tuple[str, ...]]  # of rows that were deleted, in words
    address: ClassVar[str]  # what a restored backup needs, in words
    # An insertion that can say what to do about rows that are there.
    insert: Callable[[sa.Table], sqlite.Insert | postgresql.Insert]

    @abstractmethod
    def engine(self, url: URL, timeout: float) -> sa.Engine:
        """Connections; each waits so many seconds for others before it gives up."""

    def file(self, url: URL) -> Path | None:
        """The database's own file, if it is one on this machine."""
        del url
        return None

    # Statements, and many rows at once

    def run(self, connection: sa.Connection, query: str, values: Values) -> Any:  # noqa: ANN401 - of the driver
        """Run a statement; the driver's cursor."""
        driver: Any = connection.connection.driver_connection
        return driver.execute(query.replace("?", self.mark), values)

    def run_each(self, connection: sa.Connection, query: str, rows: Collection[Values]) -> int:
        """Run a statement for each of these rows; how many it changed together."""
        driver: Any = connection.connection.driver_connection
        cursor = driver.cursor()
        cursor.executemany(query.replace("?", self.mark), rows)
        return int(cursor.rowcount)

    @abstractmethod
    def run_among(
        self, connection: sa.Connection, queries: Sequence[str], values: Values, hashes: Hashes
    ) -> list[Any]:
        """Run statements whose last column is to be one of the hashes; all rows that they give.

        What is moved from one of them to another meanwhile is seen in one of them.
        """

    @abstractmethod
    def add_hashes(self, connection: sa.Connection, scope: Scope, hashes: Hashes) -> int:
        """Insert hashes, in this order; how many were not there before."""

    @abstractmethod
    def add_waiting(
        self, connection: sa.Connection, scope: Scope, extents: Extents, known: Known
    ) -> set[bytes]:
        """Insert hashes, each with its extent, that are neither there nor elsewhere; which ones.

        Others may move hashes from there to elsewhere, each within one transaction.
        """

    # Locks

    def hold(self, connection: sa.Connection, name: str) -> None:
        """Let others see that this transaction is about to refer to a name."""
        del connection, name

    def held(self, connection: sa.Connection, names: Collection[str]) -> set[str]:
        """Names that a transaction may refer to that has not ended, whoever began it."""
        del connection, names
        return set()

    def migrate_alone(self, connection: sa.Connection) -> None:
        """Wait for others who migrate: two at once would find the same old revision."""
        del connection

    # What is deleted

    def prepare_file(self, connection: Any) -> None:  # noqa: ANN401 - of the driver
        """Let a file of an older version give back pages that hold nothing."""
        del connection

    def shrink(self, connection: sa.Connection, tables: Iterable[sa.Table]) -> None:
        """Leave nothing of rows that were deleted from some tables, as far as others let it."""
        del connection, tables

    @abstractmethod
    def sweep(self, connection: Any, tables: Sequence[sa.Table]) -> bool:  # noqa: ANN401 - of the driver
        """Let the files forget what was deleted from some tables; whether nobody was in the way."""

    def is_intact(self, connection: sa.Connection) -> bool:
        """Whether the file is as it was written, where nobody else sees to that."""
        del connection
        return True


class SQLite(Dialect):
    """A file of its own, with one writer at a time."""

    name = "sqlite"
    mark = "?"
    shared_lock = ""
    left = ()
    address = "leave --store and SHOAL_STORE out"
    insert = staticmethod(sqlite.insert)

    def file(self, url: URL) -> Path:
        """Its name."""
        return Path(str(url.database))

    def engine(self, url: URL, timeout: float) -> sa.Engine:
        """A file for nobody else; SQLite gives its journals the same permissions."""
        path = self.file(url)
        with files.disk("opening the database"):
            os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600))
            files.sync_directory(path.parent)
        engine = sa.create_engine(
            url.set(drivername=self.name),
            hide_parameters=True,
            pool_timeout=timeout,
            connect_args={"timeout": timeout},
        )

        @sa.event.listens_for(engine, "connect")
        def _prepare(connection: Any, _record: object) -> None:  # noqa: ANN401 - of the driver
            connection.isolation_level = None  # transactions begin where we say, and how
            if connection.execute("PRAGMA page_count").fetchone() == (0,):  # later it is a write
                connection.execute("PRAGMA auto_vacuum=INCREMENTAL").close()
            for setting in (
                "journal_mode=WAL",
                "synchronous=FULL",
                "secure_delete=ON",
                "foreign_keys=ON",
                "temp_store=MEMORY",
                "cache_size=-65536",  # KiB: dedup looks up tags all over the table
                "wal_autocheckpoint=4000",  # pages: as many as the first part of its index is for
                "journal_size_limit=67108864",
            ):
                connection.execute(f"PRAGMA {setting}").close()
            connection.execute("SELECT count(*) FROM sqlite_master").close()  # opens the log

        @sa.event.listens_for(engine, "begin")
        def _begin(connection: sa.Connection) -> None:
            connection.exec_driver_sql(connection.get_execution_options().get(BEGIN, "BEGIN"))

        return engine

    def run_among(
        self, connection: sa.Connection, queries: Sequence[str], values: Values, hashes: Hashes
    ) -> list[Any]:
        """In pieces; a transaction that reads sees one moment anyway."""
        rows: list[Any] = []
        for start in range(0, len(hashes), _HASHES_AT_ONCE):
            part = hashes[start : start + _HASHES_AT_ONCE]
            marks = ", ".join("?" * len(part))
            for query in queries:
                rows += self.run(connection, f"{query} IN ({marks})", (*values, *part))
        return rows

    def add_hashes(self, connection: sa.Connection, scope: Scope, hashes: Hashes) -> int:
        """One after the other."""
        marks = ", ".join("?" * len(scope.table.columns))
        query = f"{scope.insertion} VALUES ({marks}) ON CONFLICT DO NOTHING"
        return self.run_each(connection, query, [(*scope.values, hashed) for hashed in hashes])

    def add_waiting(
        self, connection: sa.Connection, scope: Scope, extents: Extents, known: Known
    ) -> set[bytes]:
        """Look first: nobody else writes meanwhile."""
        hashes, marks = list(extents), ", ".join("?" * len(scope.table.columns))
        query = f"SELECT {scope.hashed} {scope.of_hashes}"
        there = {row[0] for row in self.run_among(connection, [query], scope.values, hashes)}
        new = extents.keys() - there - set(known(hashes))
        rows = [(*scope.values, hashed, extents[hashed]) for hashed in sorted(new)]
        self.run_each(connection, f"{scope.insertion} VALUES ({marks})", rows)
        return new

    def prepare_file(self, connection: Any) -> None:  # noqa: ANN401 - of the driver
        """By writing all of it anew."""
        if connection.execute("PRAGMA auto_vacuum").fetchone() == (0,):
            connection.execute("PRAGMA auto_vacuum=INCREMENTAL").close()
            connection.execute("VACUUM").close()

    def shrink(self, connection: sa.Connection, tables: Iterable[sa.Table]) -> None:
        """Wipe the last page of tables that are empty, and give back pages that hold nothing."""
        for table in tables:
            if connection.execute(sa.select(table).limit(1)).first() is None:
                connection.execute(table.delete())
        (free,) = self.run(connection, "PRAGMA freelist_count", ()).fetchone()
        for _ in range(free):  # the driver takes one step of such a statement, of a page
            self.run(connection, "PRAGMA incremental_vacuum(1)", ())

    def sweep(self, connection: Any, tables: Sequence[sa.Table]) -> bool:  # noqa: ANN401 - of the driver
        """What is in the log goes to the database, and the log is emptied."""
        del tables
        (timeout,) = connection.execute("PRAGMA busy_timeout").fetchone()
        connection.execute(f"PRAGMA busy_timeout={_SWEEP_MILLISECONDS}").close()
        try:
            busy, *_ = connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
        finally:
            connection.execute(f"PRAGMA busy_timeout={timeout}").close()
        return not busy

    def is_intact(self, connection: sa.Connection) -> bool:
        """By its own look at all pages."""
        return bool(connection.exec_driver_sql("PRAGMA integrity_check").scalar() == "ok")


class PostgreSQL(Dialect):
    """A database on a server, where any number of transactions write at once."""

    name = "postgresql"
    mark = "%s"
    shared_lock = " FOR KEY SHARE"
    left = ("rows that PostgreSQL deleted, until its next vacuum, and its own log",)
    address = "give the address of an empty database: --store postgresql+psycopg://…"
    insert = staticmethod(postgresql.insert)

    def engine(self, url: URL, timeout: float) -> sa.Engine:
        """Connections that notice when the other side is gone."""
        if find_spec("psycopg") is None:
            raise MissingExtraError("a PostgreSQL store", "postgres")
        engine = sa.create_engine(
            url.set(drivername="postgresql+psycopg"),
            hide_parameters=True,
            isolation_level="READ COMMITTED",  # a statement sees what whoever it waited for did
            pool_timeout=timeout,
            pool_pre_ping=True,  # the server may have been restarted since
            connect_args={"connect_timeout": _CONNECT_TIMEOUT, **_ALIVE},
        )
        errors: Any = engine.dialect.dbapi

        @sa.event.listens_for(engine, "connect")
        def _prepare(connection: Any, _record: object) -> None:  # noqa: ANN401 - of the driver
            connection.execute("SET synchronous_commit TO on")
            connection.execute(f"SET lock_timeout TO {int(timeout * 1000)}")
            connection.commit()
            for setting, value in _SERVER_SETTINGS.items():
                # Older servers, and some systems, do not have all of them.
                with suppress(errors.Error), connection.transaction():
                    connection.execute("SELECT set_config(%s, %s, false)", (setting, value))

        return engine

    def run_among(
        self, connection: sa.Connection, queries: Sequence[str], values: Values, hashes: Hashes
    ) -> list[Any]:
        """One statement, which sees one moment."""
        query = " UNION ALL ".join(f"{query} = ANY(%b::bytea[])" for query in queries)
        rows = self.run(connection, query, (*values, list(hashes)) * len(queries))
        return rows.fetchall() if rows.description else []

    def add_hashes(self, connection: sa.Connection, scope: Scope, hashes: Hashes) -> int:
        """All at once."""
        query = (
            f"{scope.insertion} SELECT {'?, ' * len(scope.values)}hash "  # noqa: S608 - names and marks
            "FROM unnest(%b::bytea[]) AS hash ON CONFLICT DO NOTHING"
        )
        return int(self.run(connection, query, (*scope.values, list(hashes))).rowcount)

    def add_waiting(
        self, connection: sa.Connection, scope: Scope, extents: Extents, known: Known
    ) -> set[bytes]:
        """Insert first, and wait for whoever moves one of them; look elsewhere for it then."""
        query = (
            f"{scope.insertion} SELECT {'?, ' * len(scope.values)}row.hash, row.extent "  # noqa: S608 - names and marks
            "FROM unnest(%b::bytea[], %b::bigint[]) AS row (hash, extent) "
            f"ON CONFLICT DO NOTHING RETURNING {scope.hashed}"
        )
        values = (*scope.values, list(extents), list(extents.values()))
        new = {bytes(hashed) for (hashed,) in self.run(connection, query, values)}
        moved = set(known(sorted(new)))
        if moved:
            undo = f"DELETE {scope.of_hashes}"
            self.run_among(connection, [undo], scope.values, sorted(moved))
        return new - moved

    def hold(self, connection: sa.Connection, name: str) -> None:
        """A shared lock, which the server keeps even if this process dies while it commits."""
        lock = sa.func.pg_advisory_xact_lock_shared(lock_number(name))
        connection.execute(sa.select(lock))

    def held(self, connection: sa.Connection, names: Collection[str]) -> set[str]:
        """Those whose lock cannot be had."""
        free = sa.func.pg_try_advisory_xact_lock
        locks = {name: sa.select(free(lock_number(name))) for name in names}
        return {name for name in names if not connection.scalar(locks[name])}

    def migrate_alone(self, connection: sa.Connection) -> None:
        """Until the transaction ends."""
        connection.execute(sa.select(sa.func.pg_advisory_xact_lock(_MIGRATING)))

    def sweep(self, connection: Any, tables: Sequence[sa.Table]) -> bool:  # noqa: ANN401 - of the driver
        """A vacuum, outside any transaction."""
        connection.autocommit = True
        try:
            names = ", ".join(table.name for table in tables)
            connection.execute(f"VACUUM (INDEX_CLEANUP ON) {names}")
        finally:
            connection.autocommit = False
        return True


DIALECTS: dict[str, Dialect] = {each.name: each for each in (SQLite(), PostgreSQL())}


def parse(url: str) -> tuple[URL, Dialect]:
    """An address, and which kind of database is there."""
    try:
        parsed = make_url(url)
    except ArgumentError:
        raise InvalidArgumentError("url", "the address of a database", _ADDRESS) from None
    dialect = DIALECTS.get(parsed.get_backend_name())
    if dialect is None or (dialect.file(parsed) and parsed.database in {None, "", ":memory:"}):
        shown = parsed.render_as_string(hide_password=True)
        raise InvalidArgumentError("url", shown, _ADDRESS)
    return parsed, dialect


def dialect_of(connection: sa.Connection) -> Dialect:
    """Which kind of database a connection is to."""
    return DIALECTS[connection.dialect.name]


def lock_number(name: str) -> int:
    """The number of a name's lock in a server: 64 bits of a hash, with a sign."""
    return int.from_bytes(sha256(name.encode()).digest()[:8], signed=True)
