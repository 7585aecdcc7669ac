"""Bringing a party back from a backup: in a new directory, whole or not at all.

The archive is read to its end before anything is written. Then the database, what has to change in
it, the files that it mentions after that, and the keys. The directory gets its name last.

What comes back is older than what was lost. An analyzer does not know what it has published since,
so its ledger gets an entry for the most that this can have cost. A shuffler that comes back must
not release a report a second time among others: what it still waited with may have been released
since, and then it is given up, because the difference between two releases is a crowd of its own,
of any size. What was closed by then cannot grow any more, so that it is the same set whenever it is
released. A key that was deleted must not come back at all. What that costs is in
``docs/operate/restore.md``.
"""

from __future__ import annotations

import io
import os
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from functools import partial
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import Literal

import sqlalchemy as sa
from sqlalchemy.engine import make_url

from shoal.errors import RefusedError
from shoal.explain.document import Document
from shoal.explain.text import moment
from shoal.service.analyzer import tables as analyzer
from shoal.service.analyzer.store import AnalyzerStore
from shoal.service.clock import Clock, system_clock
from shoal.service.db.database import Database
from shoal.service.db.dialect import DIALECTS, SQLite
from shoal.service.db.files import create, forget_time, sync_directory
from shoal.service.db.leases import FREE
from shoal.service.db.surveys import Surveys
from shoal.service.db.tables import tags, tokens
from shoal.service.errors import StoreVersionError
from shoal.service.keyring import KeyInfo, Keyring, Protection
from shoal.service.keyring.keys import Revived, next_number
from shoal.service.ops import backup as backups
from shoal.service.ops.backup import Archive, Entry, Manifest, Progress, damaged, disk
from shoal.service.ops.home import Home
from shoal.service.shuffler.batches import DEAD_LETTERS, count
from shoal.service.shuffler.codes import mark_spent
from shoal.service.shuffler.tables import (
    ACCEPTS,
    EXPIRED,
    batches,
    extents,
    parts,
    waiting_codes,
    waiting_tags,
)

_HOUR = 3600
_NEXT = {
    "shuffler": "next: shoal doctor, then start the worker, and the intake after it",
    "analyzer": "next: shoal doctor, then start it; compare with what was published since",
}

Waiting = Literal["keep", "drop"]


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
        lines = [f"batch {batch[:8]} continues" for batch in self.kept]
        lines += [
            f"batch {batch[:8]} is given up, with all reports in it" for batch in self.dropped
        ]
        if self.revived is None:
            options = f"--role {role} --identity FILE --first-number {self.next_number}"
            lines.append("the backup has no keys: bring the identity, and make new ones with")
            lines.append(f"shoal keys new {self.directory}/keys {options}")
        else:
            gone, new = _numbered(self.revived.deleted), _numbered(self.revived.made)
            lines.append(f"{gone} deleted; {new} new; the next one will be key {self.next_number}")
        if self.tokens:
            labels = ", ".join(self.tokens)
            lines.append(
                f"tokens are as they were then ({labels}): revoke again what was revoked since"
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
    backup: Path,
    directory: Path,
    *,
    unlock: Callable[[Path], Protection],
    store: str | None = None,
    waiting: Waiting | None = None,
    identity: Path | None = None,
    first_number: int | None = None,
    migrate: bool = False,
    digest: str | None = None,
    clock: Clock = system_clock,
    progress: Progress = lambda _done, _total: None,
) -> Restored:
    """Bring a party back; nothing that is there is overwritten.

    ``waiting`` is for a shuffler only, and has to be said: ``keep`` states that no batch was
    closed since. ``unlock`` gives what opens the keys in a directory; ``identity`` is where the
    identity is, if it is not with them; ``first_number`` is one that no key had. ``digest`` is that
    of the backup, as it was written down elsewhere.
    """
    _refuse_full(directory)
    with backups.reading(backup) as archive:
        archive.require(digest)
        _check(archive, store, waiting)
        manifest, now = archive.manifest, clock()
        archive.verify(progress)
        with _staged(directory) as place:
            home = Home(directory=place, role=manifest.role, store=store)
            for path, entry in manifest.files.items():
                if path.startswith("keys/") or path in (backups.STORE_ID, backups.TOKEN):
                    _write(archive, entry, place)
            ring, number = manifest.ring, first_number
            if number is None:
                times = {"since": manifest.made, "now": now}
                number = next_number(ring.unused, suites=ring.suites, active=ring.active, **times)
            keyring = None
            if manifest.keys:  # what would keep them from going on is found at once
                protection = unlock(home.keys)
                keyring = home.keyring(protection, identity=identity, clock=lambda: now)
                if keyring.fingerprint != ring.fingerprint:
                    raise damaged(backup, f"its keys are those of {keyring.fingerprint}")
                keyring.check_revival(number)
            with _database(archive, home, migrate=migrate) as database:
                open_batches = _begun_anew(database, home)
                if waiting == "drop":
                    _give_up(database, open_batches, now)
                if manifest.role == "analyzer":
                    AnalyzerStore(database, home.directory, clock).ledger.enter_lost()
                _write_files(archive, database, home, progress)
                keep = frozenset() if keyring is None else _kept_keys(database, home, keyring, now)
                with database.read() as connection:
                    query = sa.select(tokens.c.label).where(tokens.c.expires > now)
                    labels = sorted(connection.scalars(query.distinct()))

            def doomed(key: KeyInfo) -> bool:
                """All if a batch may have been released since; else those past their deletion."""
                return waiting == "drop" or (key.deletes_at <= now and key.number not in keep)

            revived = None if keyring is None else keyring.revive(number, doomed)
            return Restored(
                directory=directory,
                manifest=manifest,
                kept=open_batches if waiting == "keep" else [],
                dropped=open_batches if waiting == "drop" else [],
                tokens=labels,
                revived=revived,
                next_number=number if revived is None else revived.next_number,
            )


def _refuse_full(directory: Path) -> None:
    if directory.exists() and (not directory.is_dir() or any(directory.iterdir())):
        advice = "restore into a directory that does not exist yet"
        raise RefusedError(f"cannot restore to {directory}", "it is not empty", advice)
    if not directory.absolute().parent.is_dir():
        why = f"there is no directory {directory.absolute().parent}"
        raise RefusedError(f"cannot restore to {directory}", why, "make it first")


def _check(archive: Archive, store: str | None, waiting: Waiting | None) -> None:
    """Refuse what does not go together before anything is read."""
    what, manifest = f"cannot restore {archive.path}", archive.manifest
    if manifest.role == "shuffler" and waiting is None:
        why = "reports in a shuffler's backup may have been released since"
        advice = (
            "give --waiting drop to give up the reports that were waiting; or --waiting "
            "keep, if you know that no batch has closed since (docs/operate/restore.md)"
        )
        raise RefusedError(what, why, advice)
    if waiting == "keep" and not manifest.waiting:
        why = "the reports that were waiting are not in it"
        advice = "give --waiting drop, or use a backup that was made with --with-waiting"
        raise RefusedError(what, why, advice)
    if manifest.role == "analyzer" and waiting is not None:
        raise RefusedError(what, "it is an analyzer's", "leave --waiting out")
    dialect = SQLite.name if store is None else make_url(store).get_backend_name()
    if dialect == SQLite.name and store is not None:
        advice = (
            "leave out --store and SHOAL_STORE: the database becomes store.sqlite in the directory"
        )
        raise RefusedError(what, "--store names a database of SQLite", advice)
    if dialect != manifest.database:
        known = DIALECTS.get(manifest.database)
        advice = "use the version that made it" if known is None else known.address
        raise RefusedError(what, f"it has a database of {manifest.database}", advice)


@contextmanager
def _staged(directory: Path) -> Iterator[Path]:
    """A directory for its owner's eyes that gets its name at the end."""
    target = directory.absolute()
    temporary = partial(tempfile.TemporaryDirectory, ignore_cleanup_errors=True)
    with (
        disk(f"cannot restore to {directory}"),
        temporary(prefix=f".{target.name}-", dir=target.parent) as name,
    ):
        place = Path(name)
        yield place
        for below in (place, *(each for each in place.iterdir() if each.is_dir())):
            sync_directory(below)
        place.replace(target)
        sync_directory(target.parent)


def _write(archive: Archive, entry: Entry, place: Path) -> None:
    path = place / entry.path
    path.parent.mkdir(mode=0o700, exist_ok=True)
    with os.fdopen(create(path), "wb") as file:
        if entry.ranges is None:
            file.writelines(archive.pieces(entry))
        else:
            stretches = io.BytesIO(b"".join(archive.pieces(entry)))
            for start, length in entry.ranges:  # between them there are zeros
                file.seek(start)
                file.write(stretches.read(length))
        file.flush()
        forget_time(file.fileno())
        os.fsync(file.fileno())


@contextmanager
def _database(archive: Archive, home: Home, *, migrate: bool) -> Iterator[Database]:
    """The database as it was, in the directory or on its server."""
    name = backups.SQLITE_FILE if home.store is None else backups.DUMP_FILE
    _write(archive, archive.entry(name), home.directory)
    if home.store is not None:
        url, dump = make_url(home.store), home.directory / name
        with backups.connected(url, "restoring") as connection:
            if sa.inspect(connection).get_table_names():
                advice = "give the address of an empty one, or empty it (dropdb, createdb)"
                raise RefusedError("cannot restore", "the database is not empty", advice)
        words = ["--no-owner", "--no-privileges", "--single-transaction", "--exit-on-error"]
        backups.run("pg_restore", [*words, str(dump)], url)
        dump.unlink()
    try:
        database = home.database(migrate=migrate)
    except StoreVersionError as error:
        emptied = "" if home.store is None else "; empty the database before"
        advice = f"{error.advice.replace('start it with', 'restore with')}{emptied}"
        raise StoreVersionError(error.found, error.expected, advice) from None
    with closing(database):
        with database.read() as connection:
            if not database.dialect.is_intact(connection):
                raise damaged(archive.path, "its database is damaged")
        Surveys(database).all()  # one that was changed is refused
        yield database


def _begun_anew(database: Database, home: Home) -> list[str]:
    """End all leases: whoever held them is gone. The batches that took reports at that moment."""
    with database.write() as connection:
        if home.role == "analyzer":
            connection.execute(analyzer.collections.update().values(FREE))
            return []
        for table in (extents, batches):
            connection.execute(table.update().values(FREE))
        query = sa.select(batches.c.id).where(ACCEPTS).order_by(batches.c.id)
        return list(connection.scalars(query))


def _give_up(database: Database, dying: Sequence[str], now: int) -> None:
    """Forget the reports that waited, opened or not; these batches die of it."""
    sums = sa.select(extents.c.survey, sa.func.sum(extents.c.count)).group_by(extents.c.survey)
    with database.write() as connection:
        for survey, reports in connection.execute(sums).all():
            count(connection, survey, {DEAD_LETTERS: int(reports)})
        connection.execute(extents.delete())
        columns = (waiting_tags.c.survey, waiting_tags.c.key, waiting_tags.c.tag)
        moved = sa.select(*columns).order_by(*columns)
        connection.execute(tags.insert().from_select(["survey", "key", "tag"], moved))
        connection.execute(waiting_tags.delete())
        # What they came with stays spent.
        spent = (waiting_codes.c.survey, waiting_codes.c.hash)
        for survey, rows in groupby(
            connection.execute(sa.select(*spent).order_by(*spent)).all(), key=itemgetter(0)
        ):
            mark_spent(connection, survey, [bytes(row.hash) for row in rows])
        connection.execute(waiting_codes.delete())
        connection.execute(parts.delete().where(parts.c.batch.in_(dying)))
        closed = {"state": EXPIRED, "since": None, "closed": now - now % _HOUR}
        connection.execute(batches.update().where(ACCEPTS).values(closed))


def _write_files(archive: Archive, database: Database, home: Home, progress: Progress) -> None:
    """Those that are still needed."""
    with database.read() as connection:
        wanted = backups.needed(connection, home.role)
    for done, (name, ranges) in enumerate(wanted.items(), start=1):
        entry = archive.entry(name)
        if entry.ranges != ranges:
            raise damaged(archive.path, f"{name} is missing")
        _write(archive, entry, home.directory)
        progress(done, len(wanted))


def _kept_keys(database: Database, home: Home, keyring: Keyring, now: int) -> frozenset[int]:
    """Keys that something in this directory still needs."""
    if home.role == "analyzer":
        return AnalyzerStore(database, home.directory, lambda: now).needed_keys(keyring)
    with database.read() as connection:
        return frozenset(connection.scalars(sa.select(extents.c.key).distinct()))
