"""A transactional database: SQLite in a file of its own, or PostgreSQL.

A transaction that returns is durable: SQLite runs with a write-ahead log that is synced at every
commit, PostgreSQL with ``synchronous_commit``. One that cannot be (locked for too long, disk full,
server gone) raises ``StoreUnavailableError`` and leaves nothing behind; so does one that went to
SQLite's files after somebody removed or replaced them. Deleted content is overwritten with zeros on
SQLite, whose file shrinks when asked to; PostgreSQL frees it at its next vacuum.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from threading import Lock
from typing import Any, TypeAlias

import sqlalchemy as sa
from sqlalchemy.exc import DBAPIError
from sqlalchemy.exc import TimeoutError as PoolTimeoutError

from shoal import checks
from shoal.service.db import files, migrations
from shoal.service.db.dialect import BEGIN, parse
from shoal.service.db.tables import store
from shoal.service.errors import StoreBusyError, StoreUnavailableError, StoreVersionError

FILE = "store-id"
_LONGEST = 100
_LOG = "-wal"
_Identity: TypeAlias = "tuple[int, int] | None"
_TIMEOUT = 30.0
_LOCK_NOT_AVAILABLE = "55P03"


class Database:
    """Connections to one database, for any number of threads.

    ``timeout`` is how many seconds a transaction waits for others before it gives up.
    """

    def __init__(self, url: str, *, timeout: float = _TIMEOUT) -> None:
        checks.positive(timeout=timeout)
        address, self.dialect = parse(url)
        self.insert = self.dialect.insert
        self._engine = self.dialect.engine(address, timeout)
        self.files = _OpenFiles(self.dialect.file(address) or Path())
        if self.dialect.file(address) is not None:  # of a server's nothing is ever open here
            sa.event.listen(self._engine, "connect", self.files.opened)
            sa.event.listen(self._engine, "close", self.files.closed)
        self._writer = self._engine.execution_options(**{BEGIN: "BEGIN IMMEDIATE"})

    @contextmanager
    def write(self) -> Iterator[sa.Connection]:
        """A transaction that may change things: all of it is durable afterwards, or none."""
        with self._translated("writing"), self._writer.begin() as connection:
            yield connection
        self.files.check("writing")  # after the commit: nobody was told of it yet

    @contextmanager
    def read(self) -> Iterator[sa.Connection]:
        """A transaction that only looks; on SQLite all of it sees one moment."""
        with self._translated("reading"), self._engine.begin() as connection:
            yield connection

    def rows(self, query: sa.Select[Any]) -> Sequence[Any]:
        """What a query gives."""
        with self.read() as connection:
            return connection.execute(query).all()

    def first(self, query: sa.Select[Any]) -> sa.Row[Any] | None:
        """The first row that a query gives."""
        with self.read() as connection:
            return connection.execute(query).first()

    def values(self, query: sa.Select[Any]) -> Sequence[Any]:
        """What a query of one column gives."""
        with self.read() as connection:
            return connection.scalars(query).all()

    def sweep(self, tables: Sequence[sa.Table]) -> bool:
        """Let the files forget what was deleted from some tables; whether nobody was in the way."""
        with self._translated("forgetting"), closing(self._engine.raw_connection()) as connection:
            return self.dialect.sweep(connection.driver_connection, tables)

    def migrate(self, tree: str, to: str = "head") -> str | None:
        """Make the tables of ``tree`` (shuffler, analyzer), or bring them up to date.

        Returns the revision reached.
        """
        with self._translated("writing"), closing(self._engine.raw_connection()) as connection:
            self.dialect.prepare_file(connection.driver_connection)
        with self.write() as connection:
            self.dialect.migrate_alone(connection)
            return migrations.upgrade(connection, tree, to)

    def revision(self, tree: str) -> str | None:
        """The revision the tables of ``tree`` are at; None if there are none.

        Refuses tables of a newer version.
        """
        with self.read() as connection:
            return migrations.current(connection, tree)

    def require(self, tree: str) -> None:
        """Refuse to work with tables of another version, or files that are gone."""
        revision, newest = self.revision(tree), migrations.head(tree)
        if revision != newest:
            advice = "start it with --migrate, or see 'shoal doctor'"
            raise StoreVersionError(migrations.shown(revision), migrations.shown(newest), advice)
        self.files.check("reading")

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
        except (DBAPIError, driver.Error) as error:  # the intake speaks to the driver itself
            _raise_unavailable(driver, getattr(error, "orig", error), doing)
            raise


def _raise_unavailable(driver: Any, error: BaseException | None, doing: str) -> None:  # noqa: ANN401
    """Tell what the database cannot do now from what it was asked wrongly."""
    passing = (driver.OperationalError, driver.InterfaceError, driver.InternalError)
    if isinstance(error, passing) or type(error) is driver.DatabaseError:
        busy = getattr(error, "sqlstate", None) == _LOCK_NOT_AVAILABLE
        kind = StoreBusyError if busy else StoreUnavailableError
        reason = (str(error).strip().splitlines() or [type(error).__name__])[0]
        raise kind(doing, reason) from error


class _OpenFiles:
    """Whether the files of an SQLite database are still those that are open.

    Whoever has a file open goes on with it after its name is gone, or has become another file's.
    What is committed then is on the disk until the process ends, and nowhere afterwards. So the
    names are compared with what was there when the first connection opened them: two looks at a
    directory for each transaction that writes.

    The write-ahead log can be compared like the database. It is the same file for as long as any
    connection is open: checkpoints shorten it at most, and whoever closes last removes it only if
    they can lock the database, on which every connection holds a lock. What somebody does inside a
    file (cuts it short, writes over it) is not noticed.
    """

    def __init__(self, path: Path) -> None:
        self._path = path.absolute()
        self._log_path = f"{path.resolve()}{_LOG}"  # beside the file itself, not a link to it
        self._lock = Lock()
        self._connections: set[int] = set()
        self._identities: tuple[_Identity, _Identity] = (None, None)

    def opened(self, connection: object, _record: object) -> None:
        """A connection was opened, and has read from the database."""
        with self._lock:
            if not self._connections:  # nothing was open before: whatever is there counts
                self._identities = _identity(str(self._path)), _identity(self._log_path)
            self._connections.add(id(connection))

    def closed(self, connection: object, _record: object) -> None:
        """A connection was closed."""
        with self._lock:
            self._connections.discard(id(connection))

    def check(self, doing: str) -> None:
        """Refuse to go on with files that are gone, or have others in their place."""
        with self._lock:
            if not self._connections:
                return
            database, log = self._identities
            replaced = None
            if _identity(str(self._path)) != database:
                replaced = self._path.name
            elif log not in {None, _identity(self._log_path)}:  # None: a disk without such logs
                replaced = self._path.name + _LOG
        if replaced is not None:
            reason = f"{replaced} was removed or replaced under this process"
            advice = "check that the right one is there, then restart this process"
            raise StoreUnavailableError(doing, f"{reason}: {advice}")


def _identity(path: str) -> _Identity:
    try:
        status = os.stat(path)  # noqa: PTH116 - at every commit, and quicker than a Path
    except OSError:
        return None
    return status.st_dev, status.st_ino


@dataclass(frozen=True)
class StoreId:
    """A directory and a database that belong together, and know it.

    Files are deleted because the database does not mention them, and reports are given up because
    the disk does not have them. Either is right only if the two are each other's: a wrong address,
    a forgotten variable or a disk that is not mounted must not look like either. So the database
    has a name, drawn when its tables were made, and the directory has a file with the same name.

    The file is written once. Until that is known to have happened (``bound``), it may be missing;
    from then on a directory without it is the wrong one.
    """

    database: Database
    directory: Path

    def settle(self, *, holds: bool, refers: bool) -> None:
        """Refuse a directory that is not this database's; make a new one its own.

        ``holds`` says whether the directory has files of a store, ``refers`` whether the database
        refers to any. Where neither has a name yet, both do or none does.
        """
        name, label, bound = self._names()
        if label is None and not bound and holds == refers:
            # Whole or not at all; two who do it at once write the same.
            draft = self.directory / f"{FILE}.{files.fresh_name()}"
            with files.disk("naming the store"):
                files.write_durably(draft, f"{name}\n".encode())
                draft.replace(self.directory / FILE)
                files.sync_directory(self.directory)
        elif label != name:
            raise self._refusal(label, useless=label is None and not bound and holds)
        if not bound:
            with self.database.write() as connection:
                connection.execute(store.update().values(bound=True))

    def check(self) -> None:
        """Refuse a directory that is not this database's any more: a disk may be gone.

        A database whose own files are gone is as little to be relied on, though it still answers.
        """
        name, label, _ = self._names()
        self.database.files.check("looking at the store")
        if label != name:
            raise self._refusal(label)

    def _names(self) -> tuple[str, str | None, bool]:
        """The database's name, the one in the directory, and whether that was given one."""
        (row,) = self.database.rows(sa.select(store))
        with files.disk("reading the name of the store"):
            try:
                with (self.directory / FILE).open(encoding="utf-8", errors="replace") as file:
                    return row.id, file.read(_LONGEST).strip(), row.bound
            except FileNotFoundError:
                return row.id, None, row.bound

    def _refusal(self, label: str | None, *, useless: bool = False) -> StoreVersionError:
        """``useless``: the directory has files, and the database would not need any of them."""
        what = f"a database that does not belong to {self.directory}"
        expected = "the one whose files are there"
        why = (
            f"it lacks the file {FILE} of this database"
            if label is None
            else f"its file {FILE} belongs to another database"
        )
        advice = (
            f"{why}: check --store and SHOAL_STORE, and that the right disk is mounted; "
            "nothing was changed"
        )
        if useless:
            advice += (
                "; if it is the right one, it needs no file in segments, parts and batches: "
                "move them elsewhere"
            )
        return StoreVersionError(what, expected, advice)
