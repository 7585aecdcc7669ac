"""One file with everything in it: a tar archive, for its owner's eyes, there whole or not at all.

It is an ordinary archive that ``tar tf`` lists, without times, owners or links. Nothing is trusted
when it is read: a member counts if the manifest names it, and what is read has to have the length
and the digest that the manifest says.
"""

from __future__ import annotations

import io
import os
import tarfile
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import BinaryIO, Protocol

from shoal.service.db.files import sync_directory
from shoal.service.running.backup import manifest as manifests
from shoal.service.running.backup.errors import BackupError, DamagedBackupError, GoneError, disk
from shoal.service.running.backup.manifest import Entry, Manifest, Range

MODE = 0o600
_PIECE = 1 << 20

Tell = Callable[[int], None]  # so many bytes more
Progress = Callable[[int, int], None]  # so many of so many bytes


def counted(total: int, progress: Progress) -> Tell:
    """What adds up what is told, for a bar."""
    done = 0

    def tell(more: int) -> None:
        nonlocal done
        done += more
        progress(min(done, total), max(total, 1))

    return tell


class Writable(Protocol):
    """Where bytes go."""

    def write(self, data: bytes, /) -> int | None:
        """Put them there."""


@dataclass
class _Source:
    """What tar reads: stretches of a file, counted and hashed on their way."""

    file: BinaryIO
    ranges: list[Range]
    tell: Tell
    path: Path

    def __post_init__(self) -> None:
        self.digest = sha256()
        self._left = 0

    def read(self, size: int) -> bytes:
        """So many bytes; they are there, or were deleted under us."""
        pieces = []
        while size:
            if not self._left:
                start, self._left = self.ranges.pop(0)
                self.file.seek(start)
            piece = self.file.read(min(size, self._left))
            if not piece:
                raise GoneError(self.path)
            pieces.append(piece)
            self._left -= len(piece)
            size -= len(piece)
        whole = b"".join(pieces)
        self.digest.update(whole)
        self.tell(len(whole))
        return whole


class Writer:
    """An archive that is being written."""

    def __init__(self, tar: tarfile.TarFile, tell: Tell) -> None:
        self._tar = tar
        self._tell = tell
        self.entries: list[Entry] = []

    def add(self, name: str, path: Path, ranges: tuple[Range, ...] | None = None) -> None:
        """A file, or stretches of one."""
        try:
            with path.open("rb") as file:
                whole = [(0, os.fstat(file.fileno()).st_size)] if ranges is None else list(ranges)
                self._add(
                    name,
                    _Source(file, [each for each in whole if each[1]], self._tell, path),
                    ranges,
                )
        except FileNotFoundError:
            raise GoneError(path) from None

    def add_bytes(self, name: str, content: bytes) -> None:
        """A small file that is in memory."""
        whole = [(0, len(content))] if content else []
        self._add(name, _Source(io.BytesIO(content), whole, self._tell, Path(name)), None)

    def _add(self, name: str, source: _Source, ranges: tuple[Range, ...] | None) -> None:
        size = sum(length for _, length in source.ranges)
        self._tar.addfile(_member(name, size), source)  # type: ignore[arg-type] # it only reads
        self.entries.append(
            Entry(path=name, bytes=size, digest=source.digest.hexdigest(), ranges=ranges)
        )

    def finish(self, manifest: Manifest) -> None:
        """The manifest, after everything that it names."""
        content = manifest.to_bytes()
        self._tar.addfile(_member(manifests.NAME, len(content)), io.BytesIO(content))


def _member(name: str, size: int) -> tarfile.TarInfo:
    found = tarfile.TarInfo(name)
    found.size, found.mode = size, MODE
    return found


@contextmanager
def writing(target: Path, tell: Tell) -> Iterator[Writer]:
    """An archive that gets its name when all of it is on the disk; no other file loses its own."""
    refuse_existing(target)
    with disk(f"cannot write {target}"):
        handle, name = tempfile.mkstemp(prefix=f".{target.name}-", dir=target.parent)
    draft = Path(name)
    try:
        with disk(f"cannot write {target}"), os.fdopen(handle, "wb") as file:
            with tarfile.open(fileobj=file, mode="w", format=tarfile.PAX_FORMAT) as tar:
                yield Writer(tar, tell)
            file.flush()
            os.fsync(file.fileno())
        with disk(f"cannot write {target}"):
            _name(draft, target)
    finally:
        draft.unlink(missing_ok=True)


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
        advice = "choose another name, or a directory for several (with / at its end)"
        raise BackupError(f"cannot write {target}", "it is there already", advice)
    if not target.parent.is_dir():
        why = f"there is no directory {target.parent}"
        raise BackupError(f"cannot write {target}", why, "make it, or choose another place")


class Archive:
    """A backup that is read."""

    def __init__(self, path: Path, tar: tarfile.TarFile) -> None:
        self.path = path
        self._tar = tar
        self._members = {member.name: member for member in tar.getmembers()}
        self.manifest = self._manifest()

    def _manifest(self) -> Manifest:
        member = self._members.get(manifests.NAME)
        if member is None or not member.isreg() or member.size > manifests.LARGEST:
            raise DamagedBackupError(self.path, "it has no manifest: it is not all there")
        content = self._opened(member).read()
        try:
            return Manifest.from_bytes(content)
        except ValueError as error:
            raise DamagedBackupError(self.path, str(error)) from None

    def _opened(self, member: tarfile.TarInfo) -> BinaryIO:
        found = self._tar.extractfile(member)
        assert found is not None  # noqa: S101 - a regular file
        return found  # type: ignore[return-value] # it reads bytes

    def copy(self, entry: Entry, target: Writable, tell: Tell = lambda _: None) -> None:
        """The bytes of a file, if they are what the manifest says."""
        member = self._members.get(entry.path)
        if member is None or not member.isreg() or member.size != entry.bytes:
            raise DamagedBackupError(self.path, f"{entry.path} is missing, or has another length")
        digest, source = sha256(), self._opened(member)
        while piece := source.read(_PIECE):
            digest.update(piece)
            target.write(piece)
            tell(len(piece))
        if digest.hexdigest() != entry.digest:
            raise DamagedBackupError(self.path, f"{entry.path} is not what it was")

    def read(self, entry: Entry) -> bytes:
        """A small file."""
        whole = io.BytesIO()
        self.copy(entry, whole)
        return whole.getvalue()

    def verify(self, tell: Tell) -> None:
        """Read everything once."""
        for entry in self.manifest.entries:
            self.copy(entry, _Nowhere(), tell)


class _Nowhere:
    def write(self, data: bytes, /) -> int:
        return len(data)


@contextmanager
def reading(path: Path) -> Iterator[Archive]:
    """A backup, refused in one line if it is none."""
    try:
        with (
            disk(f"cannot read {path}", "look at the path and its permissions"),
            tarfile.open(path, "r:") as tar,
        ):
            yield Archive(path, tar)
    except (tarfile.TarError, EOFError):
        raise DamagedBackupError(path, "it is no backup, or its end is missing") from None
