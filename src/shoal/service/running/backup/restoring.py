"""Bringing a party back from a backup: in a new directory, whole or not at all.

The archive is read to its end before anything is written. Then the database, what has to change in
it (:mod:`settling`), the files that it mentions after that, and the keys (:mod:`reviving`). The
directory gets its name last.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path

import sqlalchemy as sa
from sqlalchemy.engine import make_url

from shoal.explain.document import Document
from shoal.explain.text import moment
from shoal.service.analyzer.key_retention import needed_keys
from shoal.service.clock import Clock, system_clock
from shoal.service.db import Database
from shoal.service.db.database import POSTGRESQL, SQLITE
from shoal.service.db.files import create, forget_time, sync_directory
from shoal.service.errors import StoreVersionError
from shoal.service.keyring import KeyInfo, Keyring, Protection
from shoal.service.keyring.keys import Doomed, Revival, Revived, next_number
from shoal.service.running.backup import archive, copying, manifest, settling
from shoal.service.running.backup.archive import Archive
from shoal.service.running.backup.errors import BackupError, DamagedBackupError, disk
from shoal.service.running.backup.manifest import Entry, Manifest
from shoal.service.running.backup.referring import needed
from shoal.service.running.home import Home
from shoal.service.running.registering import analyzer_store, store_of
from shoal.service.running.waiting import Waiting
from shoal.service.shuffler.tables import extents

_DIRECTORIES = ("segments", "parts", "batches", "incoming")

_NEXT = {
    "shuffler": "next: shoal doctor, then start the worker, and the intake after it",
    "analyzer": "next: shoal doctor, then start it; compare with what was published since",
}

Unlock = Callable[[Path], Protection]


@dataclass(frozen=True, kw_only=True)
class Restoring:
    """What is restored where.

    ``waiting`` is for a shuffler only, and has to be said: ``KEEP`` states that no batch was
    closed since. ``unlock`` gives what opens the keys in a directory; ``identity`` is where the
    identity is, if it is not with them; ``first_number`` is one that no key had.
    """

    backup: Path
    directory: Path
    unlock: Unlock
    store: str | None = None
    waiting: Waiting | None = None
    identity: Path | None = None
    first_number: int | None = None
    migrate: bool = False


@dataclass(frozen=True, kw_only=True)
class Restored:
    """What was done: ``kept`` batches go on, ``dropped`` ones died.

    ``revived`` is None if the backup has no keys; then ``next_number`` is where new ones begin.
    """

    directory: Path
    manifest: Manifest
    kept: Sequence[str]
    dropped: Sequence[str]
    tokens: Sequence[str]
    revived: Revived | None
    next_number: int

    def document(self) -> Document:
        """In words, with what to do next."""
        role = self.manifest.role
        lines = [f"batch {batch[:8]} goes on" for batch in self.kept]
        lines += [
            f"batch {batch[:8]} is given up, with all that waited for it" for batch in self.dropped
        ]
        if self.revived is None:
            options = f"--role {role} --identity FILE --first-number {self.next_number}"
            lines.append("it has no keys: bring its identity, and make new ones with")
            lines.append(f"shoal keys new {self.directory}/keys {options}")
        else:
            gone, new = _numbered(self.revived.deleted), _numbered(self.revived.made)
            lines.append(f"{gone} deleted; {new} new; the next one will be key {self.next_number}")
        if self.tokens:
            labels = ", ".join(self.tokens)
            lines.append(
                f"tokens count as they did then ({labels}): revoke again what was revoked since"
            )
        return Document(
            f"the {role} of {moment(self.manifest.made)} UTC is in {self.directory}",
            sentences=(*(f"  {line}" for line in lines), _NEXT[role]),
        )

    def to_dict(self) -> dict[str, object]:
        """Plain values."""
        keys = self.revived
        return {
            "directory": str(self.directory),
            "role": self.manifest.role,
            "made": self.manifest.made,
            "digest": self.manifest.digest,
            "kept": list(self.kept),
            "dropped": list(self.dropped),
            "tokens": list(self.tokens),
            "keys": None
            if keys is None
            else {"deleted": list(keys.deleted), "made": list(keys.made)},
            "next_number": self.next_number,
        }


def _numbered(keys: Sequence[int]) -> str:
    """The keys of these numbers."""
    if not keys:
        return "no key"
    return f"key{'s' * (len(keys) > 1)} {', '.join(map(str, keys))}"


def restore(
    asked: Restoring,
    *,
    clock: Clock = system_clock,
    progress: archive.Progress = lambda _done, _total: None,
) -> Restored:
    """Bring a party back; nothing that is there is overwritten."""
    _refuse_full(asked.directory)
    with archive.reading(asked.backup) as found:
        _check(found.manifest, asked)
        tell = archive.counted(2 * found.manifest.size, progress)  # all of it is read twice
        found.verify(tell)
        with _staged(asked.directory) as place:
            work = _Work(found, asked, place, clock(), tell)
            return work.done()


def _refuse_full(directory: Path) -> None:
    if directory.exists() and (not directory.is_dir() or any(directory.iterdir())):
        advice = "restore into a directory that is not there yet"
        raise BackupError(f"cannot restore to {directory}", "it is not empty", advice)
    if not directory.absolute().parent.is_dir():
        why = f"there is no directory {directory.absolute().parent}"
        raise BackupError(f"cannot restore to {directory}", why, "make it first")


def _check(found: Manifest, asked: Restoring) -> None:
    """Refuse what does not go together before anything is read."""
    backup = f"cannot restore {asked.backup}"
    if found.role == "shuffler" and asked.waiting is None:
        why = "a shuffler's reports may have been released since it was made"
        advice = (
            "say --waiting drop, which gives up those that waited; or --waiting keep, if you "
            "know that no batch was closed since (docs/operations/backup.md)"
        )
        raise BackupError(backup, why, advice)
    if found.role == "analyzer" and asked.waiting is not None:
        raise BackupError(backup, "it is an analyzer's", "leave --waiting out")
    dialect = SQLITE if asked.store is None else make_url(asked.store).get_backend_name()
    if dialect == SQLITE and asked.store is not None:
        advice = "unset SHOAL_STORE: the database becomes store.sqlite in the directory"
        raise BackupError(backup, "--store names a database of SQLite", advice)
    if dialect != found.dialect:
        advice = {
            POSTGRESQL: "give the address of an empty database: --store postgresql+psycopg://…",
            SQLITE: "leave --store and SHOAL_STORE out",
        }.get(found.dialect, "use the version that made it")
        raise BackupError(backup, f"it has a database of {found.dialect}", advice)


@contextmanager
def _staged(directory: Path) -> Iterator[Path]:
    """A directory for its owner's eyes that gets its name at the end."""
    what = f"cannot restore to {directory}"
    target = directory.absolute()
    with disk(what):
        place = Path(tempfile.mkdtemp(prefix=f".{target.name}-", dir=target.parent))
    try:
        yield place
        with disk(what):
            for below in (place, *(each for each in place.iterdir() if each.is_dir())):
                sync_directory(below)
            place.replace(target)
            sync_directory(target.parent)
    finally:
        shutil.rmtree(place, ignore_errors=True)


class _Work:
    """One restoration."""

    def __init__(
        self, found: Archive, asked: Restoring, place: Path, now: int, tell: archive.Tell
    ) -> None:
        self._archive = found
        self._manifest = found.manifest
        self._asked = asked
        self._place = place
        self._now = now
        self._tell = tell
        self._home = Home(directory=place, role=found.manifest.role, store=asked.store)

    def done(self) -> Restored:
        """Everything, in order."""
        revival = self._revival()
        for name in (manifest.STORE_ID, manifest.TOKEN):
            small = self._manifest.find(name)
            if small is not None:
                self._write(small)
        with closing(self._database()) as database:
            settling.end_leases(database, self._home.role)
            kept, dropped = self._waiting(database)
            self._files(database)
            keep = self._kept_keys(database)
            tokens = self._tokens(database)
        revived = None if revival is None else revival.revive(self._doomed(keep))
        return Restored(
            directory=self._asked.directory,
            manifest=self._manifest,
            kept=kept,
            dropped=dropped,
            tokens=tokens,
            revived=revived,
            next_number=self._next_number() if revived is None else revived.next_number,
        )

    def _revival(self) -> Revival | None:
        """The keys, if they are here: what would keep them from going on is found at once."""
        for entry in self._manifest.below("keys"):
            self._write(entry)
        if not self._manifest.keys:
            return None
        protection = self._asked.unlock(self._home.keys)
        self._home.keyring(protection, identity=self._asked.identity)
        found = Revival(
            directory=self._home.keys,
            protection=protection,
            identity=self._asked.identity,
            now=self._now,
            first_number=self._next_number(),
        )
        found.check()
        return found

    def _database(self) -> Database:
        name = manifest.SQLITE_FILE if self._asked.store is None else manifest.DUMP_FILE
        entry = self._manifest.find(name)
        if entry is None:
            raise DamagedBackupError(self._archive.path, f"{name} is missing")
        self._write(entry)
        if self._asked.store is not None:
            self._fill(self._place / name, self._asked.store)
        try:
            return self._opened()
        except StoreVersionError as error:
            emptied = "" if self._asked.store is None else "; empty the database before"
            advice = f"{error.advice.replace('start it with', 'restore with')}{emptied}"
            raise StoreVersionError(error.found, error.expected, advice) from None

    def _opened(self) -> Database:
        database = self._home.database(migrate=self._asked.migrate)
        if database.dialect == SQLITE:
            with database.read() as connection:
                found = connection.exec_driver_sql("PRAGMA integrity_check").scalar()
            if found != "ok":
                database.close()
                raise DamagedBackupError(self._archive.path, "its database is damaged")
        return database

    def _fill(self, dump: Path, store: str) -> None:
        url = make_url(store)
        copying.refuse_full(url)
        copying.fill_postgresql(url, dump)
        dump.unlink()

    def _waiting(self, database: Database) -> tuple[Sequence[str], Sequence[str]]:
        if self._asked.waiting is None:
            return (), ()
        if self._asked.waiting is Waiting.KEEP:
            return settling.waiting_batches(database), ()
        return (), settling.give_up(database, self._now)

    def _files(self, database: Database) -> None:
        """Those that are still needed."""
        with database.read() as connection:
            wanted = needed(connection, self._home.role)
        for name in (*wanted.whole, *wanted.stretches):
            entry = self._manifest.find(name)
            if entry is None or wanted.stretches.get(name) != entry.ranges:
                raise DamagedBackupError(self._archive.path, f"{name} is missing")
            self._write(entry)

    def _write(self, entry: Entry) -> None:
        path = self._place / entry.path
        with disk(f"cannot restore to {self._asked.directory}"):
            path.parent.mkdir(mode=0o700, exist_ok=True)
            with os.fdopen(create(path), "wb") as file:
                self._archive.copy(entry, file, self._tell)
                if entry.ranges is not None:
                    file.flush()
                    _spread(file.fileno(), entry)
                file.flush()
                if entry.path.partition("/")[0] in _DIRECTORIES:
                    forget_time(file.fileno())
                os.fsync(file.fileno())

    def _kept_keys(self, database: Database) -> frozenset[int]:
        """Keys that something in this directory still needs."""
        if self._home.role == "shuffler":
            with database.read() as connection:
                return frozenset(connection.scalars(sa.select(extents.c.key).distinct()))
        if not self._manifest.keys:
            return frozenset()
        ring = Keyring.open(self._home.keys, protection=None, clock=lambda: self._now)
        store = analyzer_store(self._home, database, lambda: self._now)
        return needed_keys(store, ring)

    def _doomed(self, keep: frozenset[int]) -> Doomed:
        """All of a shuffler that may have released since; else those past their deletion."""
        everything = self._asked.waiting is Waiting.DROP

        def doomed(key: KeyInfo) -> bool:
            return everything or (key.deletes_at <= self._now and key.number not in keep)

        return doomed

    def _tokens(self, database: Database) -> Sequence[str]:
        store = store_of(self._home, database, lambda: self._now)
        return sorted({each.label for each in store.tokens.listed() if each.expires > self._now})

    def _next_number(self) -> int:
        if self._asked.first_number is not None:
            return self._asked.first_number
        note = self._manifest.ring
        return next_number(
            note.unused,
            suites=note.suites,
            active=note.active,
            since=self._manifest.made,
            now=self._now,
        )


def _spread(file: int, entry: Entry) -> None:
    """Put the stretches of a segment where they were, from the last to the first.

    Each one moves towards the end, so that none is overwritten before it has moved.
    """
    assert entry.ranges is not None  # noqa: S101 - who calls has looked
    taken = entry.bytes
    os.ftruncate(file, max(entry.length, entry.bytes))
    for start, length in reversed(entry.ranges):
        taken -= length
        if start != taken:
            content = os.pread(file, length, taken)
            os.pwrite(file, bytes(length), taken)
            os.pwrite(file, content, start)
    os.ftruncate(file, entry.length)
