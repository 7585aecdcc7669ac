"""One moment of a database, in a file.

SQLite is copied by its own online backup within one read transaction: writers go on, and what they
write afterwards is not seen. PostgreSQL is dumped by ``pg_dump`` as of a snapshot that this process
holds, so that what the dump says and what is asked here are of the same moment.
"""

from __future__ import annotations

import os
import shutil
import sqlite3
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path

import sqlalchemy as sa
from sqlalchemy.engine import URL, make_url

from shoal.service.db.database import POSTGRESQL, SQLITE
from shoal.service.errors import StoreUnavailableError
from shoal.service.running.backup import manifest as manifests
from shoal.service.running.backup.archive import Progress
from shoal.service.running.backup.errors import BackupError

_PAGES = 4096
_PATIENCE = 30.0
_OLDER = "restore an older backup"


@dataclass(frozen=True)
class Snapshot:
    """A copied database; ``connection`` asks the moment that was copied."""

    dialect: str
    name: str
    file: Path
    connection: sa.Connection


@contextmanager
def snapshot(url: str, scratch: Path, tell: Progress) -> Iterator[Snapshot]:
    """Copy a database into a directory for scratch; gone afterwards."""
    parsed = make_url(url)
    taken = _postgresql if parsed.get_backend_name() == POSTGRESQL else _sqlite
    with taken(parsed, scratch, tell) as found:
        yield found


@contextmanager
def _sqlite(url: URL, scratch: Path, tell: Progress) -> Iterator[Snapshot]:
    source, copy = Path(str(url.database)), scratch / manifests.SQLITE_FILE
    if not source.is_file():
        advice = "it is made when the service starts, or with its first survey"
        raise BackupError("there is nothing to back up", f"no database {source}", advice)
    try:
        copy_sqlite(source, copy, tell)
    except sqlite3.Error as error:
        # Only the copy is written to.
        if getattr(error, "sqlite_errorcode", None) == sqlite3.SQLITE_FULL:
            advice = "make room there, or choose another place"
            why = f"there is no room for a copy of the database in {scratch.parent}"
            raise BackupError("cannot make the backup", why, advice) from error
        raise StoreUnavailableError("copying", str(error)) from error
    engine = sa.create_engine(f"sqlite:///{copy}", poolclass=sa.pool.NullPool)
    try:
        with engine.connect() as connection:
            if connection.exec_driver_sql("PRAGMA quick_check(1)").scalar() != "ok":
                raise BackupError("cannot make the backup", "the database is damaged", _OLDER)
            yield Snapshot(SQLITE, manifests.SQLITE_FILE, copy, connection)
    except sa.exc.DatabaseError as error:
        raise BackupError("cannot make the backup", str(error.orig), _OLDER) from error
    finally:
        engine.dispose()
        copy.unlink(missing_ok=True)


def copy_sqlite(source: Path, copy: Path, tell: Progress) -> None:
    """The online backup, and a file that needs no journal beside it."""
    os.close(os.open(copy, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
    with (
        closing(_opened(source)) as live,
        closing(sqlite3.connect(copy, isolation_level=None)) as target,
    ):
        live.execute("BEGIN")
        live.execute("SELECT count(*) FROM sqlite_master").fetchone()  # the moment is now
        live.backup(
            target,
            pages=_PAGES,
            sleep=0,
            progress=lambda _status, left, total: tell(total - left, total),
        )
        live.execute("ROLLBACK")
        target.execute("PRAGMA journal_mode=DELETE").fetchone()


def _opened(path: Path) -> sqlite3.Connection:
    """An existing database; reading a log that is written needs permission to write."""
    return sqlite3.connect(
        f"{path.resolve().as_uri()}?mode=rw", uri=True, timeout=_PATIENCE, isolation_level=None
    )


@contextmanager
def _postgresql(url: URL, scratch: Path, tell: Progress) -> Iterator[Snapshot]:
    dump = scratch / manifests.DUMP_FILE
    with _connected(url, "copying") as connection:
        try:
            name = connection.execute(sa.text("SELECT pg_export_snapshot()")).scalar_one()
            words = ["--format=custom", "--no-owner", "--no-privileges", f"--snapshot={name}"]
            tell(0, 1)
            run("pg_dump", [*words, f"--file={dump}"], url)
            dump.chmod(0o600)
            yield Snapshot(POSTGRESQL, manifests.DUMP_FILE, dump, connection)
        finally:
            dump.unlink(missing_ok=True)


@contextmanager
def _connected(url: URL, doing: str) -> Iterator[sa.Connection]:
    """A transaction that sees one moment."""
    engine = sa.create_engine(
        url.set(drivername="postgresql+psycopg"),
        isolation_level="REPEATABLE READ",
        poolclass=sa.pool.NullPool,
        hide_parameters=True,
    )
    try:
        with engine.connect() as connection:
            yield connection
    except sa.exc.OperationalError as error:
        raise StoreUnavailableError(doing, _first_line(str(error.orig))) from error
    finally:
        engine.dispose()


def refuse_full(url: URL) -> None:
    """Nothing is overwritten."""
    with _connected(url, "restoring") as connection:
        tables = sa.inspect(connection).get_table_names()
    if tables:
        advice = "give the address of an empty one, or empty it (dropdb, createdb)"
        raise BackupError("cannot restore", "the database is not empty", advice)


def fill_postgresql(url: URL, dump: Path) -> None:
    """A dump into an empty database: all of it, or nothing."""
    words = ["--no-owner", "--no-privileges", "--single-transaction", "--exit-on-error"]
    run("pg_restore", [*words, str(dump)], url)


def run(program: str, words: Sequence[str], url: URL) -> None:
    """A program of PostgreSQL's; the password of the database is in a variable."""
    found = shutil.which(program)
    if found is None:
        advice = "install PostgreSQL's client programs, of the server's version or newer"
        raise BackupError(f"cannot run {program}", "it is not on the PATH", advice)
    variables = os.environ | {"PGCONNECT_TIMEOUT": "30"}
    if url.password:
        variables["PGPASSWORD"] = str(url.password)
    finished = subprocess.run(  # noqa: S603 - a fixed program, with our own words
        [found, "--no-password", f"--dbname={_address(url)}", *words],
        env=variables,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    if finished.returncode:
        why = _first_line(finished.stderr) or f"status {finished.returncode}"
        raise BackupError(f"{program} failed", why, "see that the database runs and may be read")


def _address(url: URL) -> str:
    """The address without its password: lists of processes show it."""
    from psycopg.conninfo import make_conninfo

    given = url.translate_connect_args(username="user", database="dbname") | dict(url.query)
    if "sslpassword" in given:
        raise BackupError(
            "cannot call the programs of PostgreSQL",
            "they would show the sslpassword of the address to everybody on this machine",
            "use a key without one, in a file that only this user reads",
        )
    return make_conninfo("", **{name: given[name] for name in given if name != "password"})


def _first_line(text: str) -> str:
    return next((line.strip() for line in text.splitlines() if line.strip()), "")
