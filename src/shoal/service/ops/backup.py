"""A party's directory as one file, taken while the service runs.

The keys are read, then one moment of the database is copied, then the files that it mentions, which
do not change while they are mentioned. If the keys changed meanwhile, or a file was deleted because
the work went on, everything is begun again: what is kept is of one moment, or nothing is. A worker
writes zeros over reports that it has gathered: so the segments are locked before that moment, and
one that was begun later counts if its reports still wait once it is locked.

SQLite is copied by its own online backup within one read transaction: writers go on, and what they
write afterwards is not seen. PostgreSQL is dumped by ``pg_dump`` as of a snapshot that this process
holds, so that what the dump says and what is asked here are of the same moment.

What waits in a shuffler, in the intake's journal or in open batches, is left out unless asked for:
of two backups with it, an hour apart, the second has one spent code more and one record more.

The file is an ordinary tar archive that ``tar tf`` lists, without times, owners or links, for its
owner's eyes, and is there whole or not at all. Its last member is the manifest: every file with its
length and SHA-256, and whose it is. Nothing is trusted when it is read: a member counts if the
manifest names it, and what is read has to have the length and the digest that the manifest says.
The manifest's own digest names the backup: whoever has written that down elsewhere can tell whether
a backup was changed, which the digests inside cannot.

What a party brought back has to do is in :mod:`shoal.service.ops.restore`.
"""

from __future__ import annotations

import fcntl
import io
import json
import os
import re
import shutil
import sqlite3
import subprocess
import tarfile
import tempfile
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, closing, contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from hashlib import sha256
from importlib.metadata import version
from pathlib import Path
from typing import Any, BinaryIO

import sqlalchemy as sa
from sqlalchemy.engine import URL, make_url

from shoal.errors import RefusedError
from shoal.explain.document import Document
from shoal.explain.text import moment, plural
from shoal.service.analyzer import tables as analyzer
from shoal.service.clock import Clock, system_clock
from shoal.service.db.database import Database
from shoal.service.db.dialect import PostgreSQL
from shoal.service.db.files import create, sync_directory
from shoal.service.db.tables import surveys
from shoal.service.errors import StoreUnavailableError
from shoal.service.keyring import secrets
from shoal.service.keyring.key_list import ROLES, Role
from shoal.service.keyring.keys import INDEX, Index
from shoal.service.keyring.secrets import IDENTITY, key_files, protection_kind
from shoal.service.ops.home import Home
from shoal.service.shuffler import tables as shuffler
from shoal.service.survey import Survey
from shoal.service.wire import Wire
from shoal.values import attributes

TRIES = 5
MANIFEST = "manifest.json"
SQLITE_FILE, DUMP_FILE = "store.sqlite", "store.dump"
STORE_ID, TOKEN = "store-id", "token"
_VERSION = 1
_FORMAT = "shoal backup"
_LARGEST_MANIFEST = 1 << 28  # bytes: two million files
_NAMED = "[0-9a-f]{32}"
_PATH = re.compile(
    rf"{SQLITE_FILE}|{DUMP_FILE}|{STORE_ID}|{TOKEN}|keys/(?:index\.json|identity|key-\d{{3}})"
    rf"|segments/{_NAMED}\.segment|parts/{_NAMED}-{_NAMED}"
    rf"|batches/{_NAMED}-[0-9a-f]{{16}}\.batch|incoming/\d{{1,10}}-{_NAMED}\.batch"
)
_DIGEST = re.compile(r"[0-9a-f]{64}")
_DIGEST_SHOWN = 16  # digits of a batch's digest in the name of its file
_MODE = 0o600
_PIECE = 1 << 20
_PAGES = 4096
_TIMEOUT = 30.0

Range = tuple[int, int]  # where a stretch begins in the file, and its length
Progress = Callable[[int, int], None]  # so many of so many pages or files


class GoneError(RefusedError):
    """What belongs to the copied database was deleted, or changed, before it was copied."""

    def __init__(self, path: Path, how: str = "deleted") -> None:
        why = f"{path.name} was {how} while it was copied"
        super().__init__(
            "cannot make the backup",
            why,
            "stop the worker, make the backup, and start the worker again",
        )


def damaged(path: Path, why: str) -> RefusedError:
    """A file that is no backup, or not all of one."""
    return RefusedError(f"cannot use {path}", why, "use another backup")


@contextmanager
def disk(what: str, advice: str = "free some space, or choose another place") -> Iterator[None]:
    """What the disk refuses is said in one line."""
    try:
        yield
    except OSError as error:
        where = f" ({error.filename})" if error.filename else ""
        raise RefusedError(what, f"{error.strerror or error}{where}", advice) from error


@dataclass(frozen=True)
class Made:
    """A backup, where it is, and how much of it there is."""

    path: Path
    manifest: Manifest
    warnings: tuple[str, ...] = ()

    def document(self, title: str) -> Document:
        """In words; ``title`` says what is known of the file."""
        manifest = self.manifest
        return Document(
            f"{self.path} {title}",
            facts=(
                ("  of", f"the {manifest.role} {manifest.ring.fingerprint[:16]}…"),
                ("  as of", f"{moment(manifest.made)} UTC"),
                ("  holds", f"{plural(len(manifest.files), 'file')}, {manifest.size:,} bytes"),
                ("  keys", "in it" if manifest.keys else "not in it"),
                *self._waiting,
                ("  digest", manifest.digest),
            ),
            warnings=self.warnings,
        )

    @property
    def _waiting(self) -> Iterator[tuple[str, str]]:
        """What becomes of an open batch, as nobody should learn that after a loss."""
        if self.manifest.role == "shuffler":
            without = "not in it, so a restored shuffler gives them up (--with-waiting)"
            yield "  open batches", "in it" if self.manifest.waiting else without

    def to_dict(self) -> dict[str, object]:
        """Plain values."""
        manifest = self.manifest
        return {
            "file": str(self.path),
            "fingerprint": manifest.ring.fingerprint,
            **attributes(manifest, "role", "made", "database", "revision", "keys", "waiting"),
            "files": len(manifest.files),
            "bytes": manifest.size,
            "digest": manifest.digest,
            "warnings": list(self.warnings),
        }


def back_up(
    home: Home,
    target: Path,
    *,
    keys: bool = True,
    waiting: bool = False,
    clock: Clock = system_clock,
    progress: Progress = lambda _done, _total: None,
) -> Made:
    """Copy a party's directory and database into one file; into a directory, under a new name.

    ``waiting`` is for a shuffler: with the reports that wait, opened or not.
    """
    if target.is_dir():
        made = datetime.fromtimestamp(clock(), UTC).strftime("%Y%m%dT%H%M%SZ")
        target = target / f"shoal-{home.role}-{made}.tar"
    waiting = waiting or home.role != "shuffler"
    for _ in range(TRIES - 1):
        with suppress(GoneError):  # the work went on; the next moment is as good
            return _tried(home, target, clock, progress, keys=keys, waiting=waiting)
    return _tried(home, target, clock, progress, keys=keys, waiting=waiting)


def check(path: Path, progress: Progress = lambda _done, _total: None) -> Made:
    """Read a backup, and refuse it if one byte is not what it was."""
    with reading(path) as archive:
        archive.verify(progress)
        return Made(path, archive.manifest)


def _tried(
    home: Home, target: Path, clock: Clock, progress: Progress, *, keys: bool, waiting: bool
) -> Made:
    ring, made = _ring(home), clock()
    with writing(target) as writer, ExitStack() as locks:
        locked = lock_segments(home, locks) if waiting else set()
        without = () if waiting else _WAITING
        moment = snapshot(home.url, writer.scratch, progress, without)
        file, copied = locks.enter_context(moment)
        if _ring(home) != ring:
            raise GoneError(home.keys, "changed")
        revision = _revision(copied, home.role)
        small = (ring if keys else {}) | _small_files(home, copied, token=keys)
        wanted = needed(copied, home.role, waiting=waiting)
        later = [name for name in wanted if name.startswith("segments/") and name not in locked]
        lock_later(home, locks, later, copied)
        writer.add(file.name, file)
        for name, content in small.items():
            writer.add_bytes(name, content)
        for done, (name, ranges) in enumerate(wanted.items(), start=1):
            writer.add(name, home.directory / name, ranges)
            progress(done, len(wanted))
        index = Index.read(home.keys)
        manifest = Manifest(
            role=home.role,
            made=made,
            shoal=version("shoal"),
            database=copied.dialect.name,
            revision=revision,
            keys=keys,
            waiting=waiting,
            ring=RingNote(
                fingerprint=index.listed.fingerprint,
                unused=index.ring.unused,
                suites=len({key.suite for key in index.ring.keys}),
                active=index.ring.schedule.active,
            ),
            files=dict(writer.entries),  # without the manifest itself
        )
        writer.add_bytes(MANIFEST, manifest.to_bytes())  # after everything that it names
    plain = keys and protection_kind(home.keys) == "none"
    warning = "the keys in it are unencrypted, as they are in the directory"
    return Made(target, manifest, (warning,) if plain else ())


def _ring(home: Home) -> dict[str, bytes]:
    """All files of the keys, as they are at one moment: encrypted, if they are."""
    with secrets.locked(home.keys / secrets.LOCK):
        paths = [home.keys / IDENTITY, home.keys / INDEX, *key_files(home.keys)]
        return {f"keys/{path.name}": secrets.read_private(path) for path in paths if path.is_file()}


def _small_files(home: Home, copied: sa.Connection, *, token: bool) -> dict[str, bytes]:
    """The token, and the name that directory and database share; two names are refused."""
    names = (STORE_ID, TOKEN) if token else (STORE_ID,)
    with disk("cannot make the backup", "check its permissions"):
        content = {
            name: (home.directory / name).read_bytes()
            for name in names
            if (home.directory / name).is_file()
        }
    if STORE_ID in content and sa.inspect(copied).has_table("store"):
        name = copied.execute(sa.text("SELECT id FROM store")).scalar_one()
        if content[STORE_ID].decode(errors="replace").strip() != name:
            why = f"{home.directory} belongs to another database"
            raise RefusedError("cannot make the backup", why, "check --store and SHOAL_STORE")
    return content


def _revision(copied: sa.Connection, role: Role) -> str:
    if not sa.inspect(copied).has_table(f"{role}_revision"):
        advice = "check --store and SHOAL_STORE"
        raise RefusedError("cannot make the backup", f"this is not the {role}'s database", advice)
    query = sa.text(f"SELECT version_num FROM {role}_revision")  # noqa: S608 - one of two words
    return str(copied.execute(query).scalar_one())


# What is in it


@dataclass(frozen=True, kw_only=True)
class Entry:
    """A file of the directory.

    ``ranges`` are the stretches of a segment that still wait to be opened: they are all that is
    kept of it, one after the other.
    """

    path: str
    bytes: int
    sha256: str
    ranges: tuple[Range, ...] | None = None

    @classmethod
    def of(cls, plain: dict[str, Any]) -> Entry:
        """From plain values; a name or number that cannot be one is a ValueError."""
        if not _PATH.fullmatch(plain["path"]) or not _DIGEST.fullmatch(plain["sha256"]):
            raise ValueError("a file that no party has")
        if "ranges" in plain:
            ranges = tuple((_count(start), _count(length)) for start, length in plain["ranges"])
            if sum(length for _, length in ranges) != plain["bytes"]:
                raise ValueError("stretches that do not add up")
            plain = plain | {"ranges": ranges}
        return cls(**plain | {"bytes": _count(plain["bytes"])})


@dataclass(frozen=True, kw_only=True)
class RingNote:
    """Of the keys, what a ring that takes over needs to know even if the keys are not here."""

    fingerprint: str
    unused: int
    suites: int
    active: int


@dataclass(frozen=True, kw_only=True)
class Manifest:
    """Whose backup it is, of when, and its files.

    ``made`` is when the database was copied. ``keys`` says whether the secrets are in it,
    ``waiting`` whether a shuffler's reports are that were not in a closed batch.
    """

    role: Role
    made: int
    shoal: str
    database: str
    revision: str
    keys: bool
    waiting: bool
    ring: RingNote
    files: dict[str, Entry]  # by their names

    @property
    def size(self) -> int:
        """Bytes of all files."""
        return sum(entry.bytes for entry in self.files.values())

    @property
    def digest(self) -> str:
        """The name of the backup: it stands for every byte of it."""
        return sha256(self.to_bytes()).hexdigest()

    def to_bytes(self) -> bytes:
        """As it is stored."""
        files = [
            {name: value for name, value in vars(entry).items() if value is not None}
            for entry in self.files.values()
        ]
        plain = vars(self) | {"format": _FORMAT, "version": _VERSION}
        plain |= {"ring": vars(self.ring), "files": files}
        if self.waiting:  # as older versions write it, whose digests are to stay
            del plain["waiting"]
        return json.dumps(plain, sort_keys=True, separators=(",", ":")).encode()

    @classmethod
    def from_bytes(cls, data: bytes) -> Manifest:
        """As it was; whatever is not one is a ValueError that says why."""
        try:
            plain = json.loads(data)  # what is no JSON is a ValueError, too
            if plain["format"] != _FORMAT or plain["version"] != _VERSION:
                raise ValueError(f"made by a newer version of Shoal ({plain.get('shoal')})")
            if plain["role"] not in ROLES:
                raise ValueError("not made by a shuffler or an analyzer")
            ring, files = plain["ring"], {each["path"]: Entry.of(each) for each in plain["files"]}
            if len(files) < len(plain["files"]):
                raise ValueError("its manifest lists a file twice")
            return cls(
                role=plain["role"],
                made=_count(plain["made"]),
                shoal=str(plain["shoal"]),
                database=str(plain["database"]),
                revision=str(plain["revision"]),
                keys=bool(plain["keys"]),
                waiting=bool(plain.get("waiting", True)),
                ring=RingNote(
                    fingerprint=str(ring["fingerprint"]),
                    unused=_count(ring["unused"]),
                    suites=_count(ring["suites"]),
                    active=_count(ring["active"]),
                ),
                files=files,
            )
        except (KeyError, TypeError, AttributeError, RecursionError) as error:
            raise ValueError(f"its manifest is unreadable ({type(error).__name__})") from None


def _count(value: object) -> int:
    if type(value) is not int or value < 0:
        raise ValueError("its manifest lacks a number")
    return value


# One moment of a database


# A copied database: its file, and a connection that asks the moment that was copied.
Snapshot = tuple[Path, sa.Connection]


def snapshot(
    address: str, scratch: Path, progress: Progress, without: Sequence[str] = ()
) -> AbstractContextManager[Snapshot]:
    """Copy a database into a directory for scratch, but for the rows of some tables."""
    url = make_url(address)
    copied = _postgresql if url.get_backend_name() == PostgreSQL.name else _sqlite
    return copied(url, scratch, progress, without)


@contextmanager
def _sqlite(
    url: URL, scratch: Path, progress: Progress, without: Sequence[str]
) -> Iterator[Snapshot]:
    source, copy = Path(str(url.database)), scratch / SQLITE_FILE
    if not source.is_file():
        advice = "the service makes it when it starts, or with its first survey"
        raise RefusedError("there is nothing to back up", f"no database {source}", advice)
    try:
        copy_sqlite(source, copy, progress, without)
    except sqlite3.Error as error:
        code = getattr(error, "sqlite_errorcode", None)
        if code in {sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB}:
            raise _broken(str(error)) from error
        if code == sqlite3.SQLITE_FULL:  # only the copy is written to
            advice = "free some space there, or choose another place"
            why = f"there is no space for a copy of the database in {scratch.parent}"
            raise RefusedError("cannot make the backup", why, advice) from error
        raise StoreUnavailableError("copying", str(error)) from error
    engine = sa.create_engine(f"sqlite:///{copy}", poolclass=sa.pool.NullPool)
    try:
        with engine.connect() as connection:
            if connection.exec_driver_sql("PRAGMA quick_check(1)").scalar() != "ok":
                raise _broken("the database is damaged")
            yield copy, connection
    except sa.exc.DatabaseError as error:
        raise _broken(str(error.orig)) from error


def _broken(why: str) -> RefusedError:
    return RefusedError("cannot make the backup", why, "restore an older backup")


def copy_sqlite(source: Path, copy: Path, progress: Progress, without: Sequence[str] = ()) -> None:
    """The online backup, and a file that needs no journal beside it.

    Written anew, where tables are to be empty: no page tells what was in it, or in which order.
    """
    os.close(create(copy))
    existing = f"{source.resolve().as_uri()}?mode=rw"  # reading a log may mean writing to it
    connect = partial(sqlite3.connect, isolation_level=None)
    with (
        closing(connect(existing, uri=True, timeout=_TIMEOUT)) as live,
        closing(connect(copy)) as target,
    ):
        live.execute("BEGIN")
        live.execute("SELECT count(*) FROM sqlite_master").fetchone()  # the moment is now
        live.backup(
            target,
            pages=_PAGES,
            sleep=0,
            progress=lambda _status, left, total: progress(total - left, total),
        )
        live.execute("ROLLBACK")
        target.execute("PRAGMA journal_mode=DELETE").fetchone()
        present = {name for (name,) in target.execute("SELECT name FROM sqlite_master")}
        for table in present.intersection(without):  # an older version may not have all of them
            target.execute(f"DELETE FROM {table}")  # noqa: S608 - names of ours
        if without:
            target.execute("VACUUM")


@contextmanager
def _postgresql(
    url: URL, scratch: Path, progress: Progress, without: Sequence[str]
) -> Iterator[Snapshot]:
    dump = scratch / DUMP_FILE
    with connected(url, "copying") as connection:
        name = connection.execute(sa.text("SELECT pg_export_snapshot()")).scalar_one()
        words = ["--format=custom", "--no-owner", "--no-privileges", f"--snapshot={name}"]
        words += [f"--exclude-table-data={table}" for table in without]
        progress(0, 1)
        run("pg_dump", [*words, f"--file={dump}"], url)
        yield dump, connection


@contextmanager
def connected(url: URL, doing: str) -> Iterator[sa.Connection]:
    """A transaction of PostgreSQL that sees one moment."""
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


def run(program: str, words: Sequence[str], url: URL) -> None:
    """A program of PostgreSQL's; the password of the database is in a variable."""
    path = shutil.which(program)
    if path is None:
        advice = "install PostgreSQL's client programs, of the server's version or newer"
        raise RefusedError(f"cannot run {program}", "it is not on the PATH", advice)
    variables = os.environ | {"PGCONNECT_TIMEOUT": "30"}
    if url.password:
        variables["PGPASSWORD"] = str(url.password)
    finished = subprocess.run(  # noqa: S603 - a fixed program, with our own words
        [path, "--no-password", f"--dbname={_address(url)}", *words],
        env=variables,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    if finished.returncode:
        why = _first_line(finished.stderr) or f"status {finished.returncode}"
        raise RefusedError(
            f"{program} failed", why, "check that the database runs and that this user may read it"
        )


def _address(url: URL) -> str:
    """The address without its password: lists of processes show it."""
    if "sslpassword" in url.query:
        raise RefusedError(
            "cannot run the programs of PostgreSQL",
            "they would show the sslpassword of the address to all users of this machine",
            "use a key without a password, in a file that only this user can read",
        )
    shown = url.set(drivername=PostgreSQL.name).difference_update_query(["password"])
    return shown._replace(password=None).render_as_string()


def _first_line(text: str) -> str:
    return text.strip().partition("\n")[0]


# The files that a database needs

_UNMIXED = (*shuffler.ACCEPTING, shuffler.SEALED)
_MIXED = (shuffler.SHUFFLED, shuffler.RELEASED)
# The intake's journal; and tags, which nobody needs once the keys are replaced: of two backups,
# those and the codes that only the second has would be the same people's.
_WAITING = ("extents", "waiting_tags", "waiting_codes", "recent_tags", "tags")


# Files by their names in the directory, and the stretches of those that are not needed whole; in
# the order in which they are most likely to be deleted.
Needed = dict[str, tuple[Range, ...] | None]


def needed(connection: sa.Connection, role: Role, *, waiting: bool = True) -> Needed:
    """What the directory has to have: what is mentioned, and is not about to be deleted.

    Of a shuffler: what waits to be opened, parts of batches that are not mixed yet, and mixed
    batches that are not acknowledged; without what is ``waiting``, closed batches only. Of an
    analyzer: batches that have arrived and are not opened.
    """
    if role == "analyzer":
        each = analyzer.collections.c
        arrived = sa.select(each.survey, each.batch).where(each.state == analyzer.RECEIVED)
        rows = connection.execute(arrived.order_by(each.survey, each.batch))
        return {f"incoming/{row.survey}-{row.batch}.batch": None for row in rows}
    parts, batches = shuffler.parts.c, shuffler.batches.c
    unmixed = (
        sa.select(parts.name)
        .join(shuffler.batches, parts.batch == batches.id)
        .where(batches.state.in_(_UNMIXED if waiting else (shuffler.SEALED,)))
        .order_by(batches.state.desc(), parts.name)  # SEALED ones are the first to go
    )
    mixed = sa.select(batches.id, batches.digest).where(batches.state.in_(_MIXED))
    rows = connection.execute(mixed.order_by(batches.id))
    whole = [f"parts/{name}" for name in connection.scalars(unmixed)]
    whole += [f"batches/{row.id}-{row.digest[:_DIGEST_SHOWN]}.batch" for row in rows]
    return {**dict.fromkeys(whole), **(_segments(connection) if waiting else {})}


def _segments(connection: sa.Connection) -> dict[str, tuple[Range, ...]]:
    rows = shuffler.extents.c
    waiting = surveys.c.number.in_(sa.select(rows.survey))
    named = sa.select(surveys.c.number, surveys.c.configuration).where(waiting)
    sizes = {
        number: Wire.of(Survey.from_bytes(bytes(configuration))).report_bytes
        for number, configuration in connection.execute(named)
    }
    query = sa.select(rows.segment, rows.survey, rows.start, rows.count.label("reports"))
    ranges: dict[str, list[Range]] = defaultdict(list)
    for row in connection.execute(query.order_by(rows.segment, rows.start)):
        ranges[row.segment].append((row.start, row.reports * sizes[row.survey]))
    return {f"segments/{name}.segment": joined(ranges[name]) for name in sorted(ranges)}


def joined(ranges: Iterable[Range]) -> tuple[Range, ...]:
    """Stretches in order, those that touch as one.

    >>> joined([(0, 5), (5, 5), (20, 5)])
    ((0, 10), (20, 5))
    """
    joint: list[Range] = []
    for start, length in ranges:
        if joint and joint[-1][0] + joint[-1][1] == start:
            joint[-1] = (joint[-1][0], joint[-1][1] + length)
        else:
            joint.append((start, length))
    return tuple(joint)


def lock_segments(home: Home, locks: ExitStack) -> set[str]:
    """Lock a shuffler's segments, so that nothing in them is erased meanwhile; their names.

    A shuffler goes on with another file, and a worker erases what it has gathered afterwards.
    """
    names = {f"segments/{path.name}" for path in (home.directory / "segments").glob("*.segment")}
    for name in sorted(names):
        with suppress(FileNotFoundError):  # gathered at this moment
            _lock(home.directory / name, locks)
    return names


def lock_later(home: Home, locks: ExitStack, later: list[str], copied: sa.Connection) -> None:
    """Lock segments that were begun later: they count if all of their reports still wait then."""
    with closing(Database(home.url)) as database:
        for name in later:
            path = home.directory / name
            try:
                _lock(path, locks)
            except FileNotFoundError:
                raise GoneError(path) from None
            rows = shuffler.extents.c
            query = sa.select(rows.id).where(rows.segment == path.stem)
            with database.read() as live:
                if not set(copied.scalars(query)) <= set(live.scalars(query)):
                    raise GoneError(path, "gathered")


def _lock(path: Path, locks: ExitStack) -> None:
    fcntl.flock(locks.enter_context(path.open("rb")), fcntl.LOCK_SH)


# The archive


class _Hashed:
    """What tar reads, hashed on its way."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self.digest = sha256()

    def read(self, size: int) -> bytes:
        piece = self._file.read(size)
        self.digest.update(piece)
        return piece


class Writer:
    """An archive that is being written; ``scratch`` is a directory beside it."""

    def __init__(self, tar: tarfile.TarFile, scratch: Path) -> None:
        self._tar = tar
        self.scratch = scratch
        self.entries: dict[str, Entry] = {}

    def add(self, name: str, path: Path, ranges: tuple[Range, ...] | None = None) -> None:
        """A file, or stretches of one."""
        try:
            with path.open("rb") as file:
                if ranges is None:
                    self._add(name, file, os.fstat(file.fileno()).st_size)
                    return
                stretches = [os.pread(file.fileno(), length, start) for start, length in ranges]
        except FileNotFoundError:
            raise GoneError(path) from None
        content = b"".join(stretches)
        if len(content) != sum(length for _, length in ranges):
            raise GoneError(path)
        self.add_bytes(name, content, ranges)

    def add_bytes(self, name: str, content: bytes, ranges: tuple[Range, ...] | None = None) -> None:
        """What is in memory."""
        self._add(name, io.BytesIO(content), len(content), ranges)

    def _add(
        self, name: str, file: BinaryIO, size: int, ranges: tuple[Range, ...] | None = None
    ) -> None:
        member, source = tarfile.TarInfo(name), _Hashed(file)
        member.size, member.mode = size, _MODE
        self._tar.addfile(member, source)  # type: ignore[arg-type] # it only reads
        digest = source.digest.hexdigest()
        self.entries[name] = Entry(path=name, bytes=size, sha256=digest, ranges=ranges)


@contextmanager
def writing(target: Path) -> Iterator[Writer]:
    """An archive that gets its name when all of it is on the disk; no other file loses its own."""
    refuse_existing(target)
    with (
        disk(f"cannot write {target}"),
        tempfile.TemporaryDirectory(prefix=f".{target.name}-", dir=target.parent) as scratch,
    ):
        draft = Path(scratch) / target.name
        with os.fdopen(create(draft), "wb") as file:
            with tarfile.open(fileobj=file, mode="w", format=tarfile.PAX_FORMAT) as tar:
                yield Writer(tar, Path(scratch))
            file.flush()
            os.fsync(file.fileno())
        _name(draft, target)


def _name(draft: Path, target: Path) -> None:
    """A link never replaces a file; where there are no links, look first."""
    try:
        os.link(draft, target)
    except FileExistsError:
        refuse_existing(target)
    except OSError:
        refuse_existing(target)
        draft.replace(target)
    sync_directory(target.parent)


def refuse_existing(target: Path) -> None:
    """Nothing is overwritten."""
    if target.exists() or target.is_symlink():
        advice = "choose another name, or a directory for several backups (a name that ends with /)"
        raise RefusedError(f"cannot write {target}", "it exists already", advice)
    if not target.parent.is_dir():
        why = f"there is no directory {target.parent}"
        raise RefusedError(f"cannot write {target}", why, "create it, or choose another place")


class Archive:
    """A backup that is read."""

    def __init__(self, path: Path, tar: tarfile.TarFile) -> None:
        self.path = path
        self._tar = tar
        self._members = {member.name: member for member in tar.getmembers()}
        member = self._members.get(MANIFEST)
        if member is None or not member.isreg() or member.size > _LARGEST_MANIFEST:
            raise damaged(path, "it has no manifest: it is incomplete")
        try:
            self.manifest = Manifest.from_bytes(self._opened(member).read())
        except ValueError as error:
            raise damaged(path, str(error)) from None

    def _opened(self, member: tarfile.TarInfo) -> BinaryIO:
        stream = self._tar.extractfile(member)
        assert stream is not None  # noqa: S101 - a regular file
        return stream  # type: ignore[return-value] # it reads bytes

    def require(self, digest: str | None) -> None:
        """Refuse a backup that is not the one whose digest was written down, if one was."""
        if digest is not None and digest != self.manifest.digest:
            why = (
                f"its digest is {self.manifest.digest}, not {digest}: it is another one, or changed"
            )
            raise damaged(self.path, why)

    def entry(self, path: str) -> Entry:
        """What the manifest says of a file that has to be there."""
        if path not in self.manifest.files:
            raise damaged(self.path, f"{path} is missing")
        return self.manifest.files[path]

    def pieces(self, entry: Entry) -> Iterator[bytes]:
        """The bytes of a file; refused at their end if they are not what the manifest says."""
        member = self._members.get(entry.path)
        if member is None or not member.isreg() or member.size != entry.bytes:
            raise damaged(self.path, f"{entry.path} is missing, or has a wrong length")
        digest, source = sha256(), self._opened(member)
        while piece := source.read(_PIECE):
            digest.update(piece)
            yield piece
        if digest.hexdigest() != entry.sha256:
            raise damaged(self.path, f"{entry.path} was changed")

    def verify(self, progress: Progress) -> None:
        """Read everything once."""
        for place, entry in enumerate(self.manifest.files.values(), start=1):
            for _ in self.pieces(entry):
                pass
            progress(place, len(self.manifest.files))


@contextmanager
def reading(path: Path) -> Iterator[Archive]:
    """A backup, refused in one line if it is none."""
    try:
        with (
            disk(f"cannot read {path}", "check the path and its permissions"),
            tarfile.open(path, "r:") as tar,
        ):
            yield Archive(path, tar)
    except (tarfile.TarError, EOFError):
        raise damaged(path, "it is not a backup, or its end is missing") from None
