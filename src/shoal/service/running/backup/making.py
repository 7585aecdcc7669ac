"""Making a backup of a party that goes on working meanwhile.

The keys are read, then one moment of the database is copied, then the files that it mentions, which
never change once they are mentioned. If the keys changed meanwhile, or a file was deleted because
the work went on, everything is begun again: what is kept is of one moment, or nothing is.
"""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path

import sqlalchemy as sa

from shoal.explain.document import Document
from shoal.explain.text import moment, plural
from shoal.service.clock import Clock, system_clock
from shoal.service.keyring import keys, secrets
from shoal.service.keyring.keys import Index
from shoal.service.keyring.secrets import IDENTITY, key_files, protection_kind
from shoal.service.running.backup import archive, manifest
from shoal.service.running.backup.copying import Snapshot, snapshot
from shoal.service.running.backup.errors import BackupError, GoneError, disk
from shoal.service.running.backup.manifest import Manifest, RingNote
from shoal.service.running.backup.referring import Needed, needed
from shoal.service.running.home import Home

TRIES = 5
_IN_THE_CLEAR = "the keys in it are in the clear, as they are in the directory"


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
                ("  holds", f"{plural(len(manifest.entries), 'file')}, {manifest.size:,} bytes"),
                ("  keys", "in it" if manifest.keys else "not in it"),
                ("  digest", manifest.digest),
            ),
            warnings=self.warnings,
        )

    def to_dict(self) -> dict[str, object]:
        """Plain values."""
        found = self.manifest
        return {
            "file": str(self.path),
            "role": found.role,
            "fingerprint": found.ring.fingerprint,
            "made": found.made,
            "database": found.dialect,
            "revision": found.revision,
            "keys": found.keys,
            "files": len(found.entries),
            "bytes": found.size,
            "digest": found.digest,
            "warnings": list(self.warnings),
        }


def back_up(
    home: Home,
    target: Path,
    *,
    keys: bool = True,
    clock: Clock = system_clock,
    progress: archive.Progress = lambda _done, _total: None,
) -> Made:
    """Copy a party's directory and database into one file; into a directory, under a new name."""
    if target.is_dir():
        made = datetime.fromtimestamp(clock(), UTC).strftime("%Y%m%dT%H%M%SZ")
        target = target / f"shoal-{home.role}-{made}.tar"
    archive.refuse_existing(target)
    for _ in range(TRIES - 1):
        try:
            return _tried(home, target, clock, progress, keys=keys)
        except GoneError:  # the work went on; the next moment is as good
            continue
    return _tried(home, target, clock, progress, keys=keys)


def check(path: Path, progress: archive.Progress = lambda _done, _total: None) -> Made:
    """Read a backup, and refuse it if one byte is not what it was."""
    with archive.reading(path) as found:
        found.verify(archive.counted(found.manifest.size, progress))
        return Made(path, found.manifest)


def _tried(
    home: Home,
    target: Path,
    clock: Clock,
    progress: archive.Progress,
    *,
    keys: bool,
) -> Made:
    ring, made = _ring(home), clock()
    with _beside(target) as scratch, snapshot(home.url, Path(scratch), progress) as copied:
        if _ring(home) != ring:
            raise GoneError(home.keys, "changed")
        revision = _revision(copied, home.role)
        store = _store_id(home, copied)
        wanted = needed(copied.connection, home.role)
        total = _size(home, copied, wanted)
        with archive.writing(target, archive.counted(total, progress)) as writer:
            writer.add(copied.name, copied.file)
            _write_small(writer, home, store, ring if keys else {})
            for name in wanted.whole:
                writer.add(name, home.directory / name)
            for name, ranges in wanted.stretches.items():
                writer.add(name, home.directory / name, ranges)
            found = Manifest(
                role=home.role,
                made=made,
                shoal=version("shoal"),
                dialect=copied.dialect,
                revision=revision,
                keys=keys,
                ring=_note(home),
                entries=tuple(writer.entries),
            )
            writer.finish(found)
    plain = keys and protection_kind(home.keys) == "none"
    return Made(target, found, (_IN_THE_CLEAR,) if plain else ())


def _beside(target: Path) -> tempfile.TemporaryDirectory[str]:
    with disk(f"cannot write {target}"):
        return tempfile.TemporaryDirectory(prefix=f".{target.name}-", dir=target.parent)


def _ring(home: Home) -> dict[str, bytes]:
    """All files of the keys, as they are at one moment: encrypted, if they are."""
    with secrets.locked(home.keys / secrets.LOCK):
        found = [home.keys / IDENTITY, home.keys / keys.INDEX, *key_files(home.keys)]
        return {f"keys/{path.name}": secrets.read_private(path) for path in found if path.is_file()}


def _write_small(
    writer: archive.Writer, home: Home, store: bytes | None, ring: dict[str, bytes]
) -> None:
    for name, content in ring.items():
        writer.add_bytes(name, content)
    if store is not None:
        writer.add_bytes(manifest.STORE_ID, store)
    token = home.directory / manifest.TOKEN
    if ring and token.is_file():
        with disk("cannot make the backup", "look at its permissions"):
            writer.add_bytes(manifest.TOKEN, token.read_bytes())


def _store_id(home: Home, copied: Snapshot) -> bytes | None:
    """The name of directory and database, if they have one; two names are refused."""
    path = home.directory / manifest.STORE_ID
    with disk("cannot make the backup", "look at its permissions"):
        found = path.read_bytes() if path.is_file() else None
    if found is not None and sa.inspect(copied.connection).has_table("store"):
        name = copied.connection.execute(sa.text("SELECT id FROM store")).scalar_one()
        if found.decode(errors="replace").strip() != name:
            why = f"{home.directory} belongs to another database"
            raise BackupError("cannot make the backup", why, "check --store and SHOAL_STORE")
    return found


def _note(home: Home) -> RingNote:
    found = Index.read(home.keys)
    return RingNote(
        fingerprint=found.listed.fingerprint,
        unused=found.ring.unused,
        suites=len(found.ring.suites),
        active=found.ring.schedule.active,
    )


def _revision(copied: Snapshot, role: str) -> str:
    query = sa.text(f"SELECT version_num FROM {role}_revision")  # noqa: S608 - one of two words
    if not sa.inspect(copied.connection).has_table(f"{role}_revision"):
        advice = "check --store and SHOAL_STORE"
        raise BackupError("cannot make the backup", f"this database is no {role}'s", advice)
    return str(copied.connection.execute(query).scalar_one())


def _size(home: Home, copied: Snapshot, wanted: Needed) -> int:
    """About how many bytes there are: for a bar."""
    whole = 0
    for name in wanted.whole:
        try:
            whole += (home.directory / name).stat().st_size
        except OSError:
            raise GoneError(home.directory / name) from None
    ranges = (length for each in wanted.stretches.values() for _, length in each)
    return copied.file.stat().st_size + whole + sum(ranges)
