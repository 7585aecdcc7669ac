"""What is in a backup: every file with its length and SHA-256, and whose it is.

The manifest is the last member of the archive. Its own digest names the backup: whoever has written
that down elsewhere can tell whether a backup was changed, which the digests inside cannot.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from hashlib import sha256
from typing import Any

from shoal.service.keyring.key_list import ROLES, Role

NAME = "manifest.json"
VERSION = 1
LARGEST = 1 << 28  # bytes of a manifest: two million files
SQLITE_FILE, DUMP_FILE = "store.sqlite", "store.dump"
STORE_ID, TOKEN = "store-id", "token"
_FORMAT = "shoal backup"
_NAMED = "[0-9a-f]{32}"
_PATH = re.compile(
    rf"{SQLITE_FILE}|{DUMP_FILE}|{STORE_ID}|{TOKEN}|keys/(?:index\.json|identity|key-\d{{3}})"
    rf"|segments/{_NAMED}\.segment|parts/{_NAMED}-{_NAMED}"
    rf"|batches/{_NAMED}-[0-9a-f]{{16}}\.batch|incoming/\d{{1,10}}-{_NAMED}\.batch"
)
_DIGEST = re.compile(r"[0-9a-f]{64}")

Range = tuple[int, int]  # where a stretch begins in the file, and its length


@dataclass(frozen=True, kw_only=True)
class Entry:
    """A file of the directory.

    ``ranges`` are the stretches of a segment that still wait to be opened: they are all that is
    kept of it, one after the other.
    """

    path: str
    bytes: int
    digest: str
    ranges: tuple[Range, ...] | None = None

    @property
    def length(self) -> int:
        """Of the file, once it is back."""
        if self.ranges is None:
            return self.bytes
        return max((start + length for start, length in self.ranges), default=0)

    def to_dict(self) -> dict[str, Any]:
        """Plain values."""
        plain = {"path": self.path, "bytes": self.bytes, "sha256": self.digest}
        if self.ranges is None:
            return plain
        return plain | {"ranges": [list(each) for each in self.ranges]}

    @classmethod
    def of(cls, plain: Mapping[str, Any]) -> Entry:
        """From plain values; a name or number that cannot be one is a ValueError."""
        path, size, digest = plain["path"], plain["bytes"], plain["sha256"]
        if not _PATH.fullmatch(path) or not _DIGEST.fullmatch(digest):
            message = "a file that no party has"
            raise ValueError(message)
        ranges = None
        if "ranges" in plain:
            ranges = tuple((_count(start), _count(length)) for start, length in plain["ranges"])
            if sum(length for _, length in ranges) != size:
                message = "stretches that do not add up"
                raise ValueError(message)
        return cls(path=path, bytes=_count(size), digest=digest, ranges=ranges)


@dataclass(frozen=True, kw_only=True)
class RingNote:
    """Of the keys, what a ring that takes over needs to know even if the keys are not here."""

    fingerprint: str
    unused: int
    suites: int
    active: int

    def to_dict(self) -> dict[str, Any]:
        """Plain values."""
        return dict(vars(self))

    @classmethod
    def of(cls, plain: Mapping[str, Any]) -> RingNote:
        """From plain values."""
        numbers = {name: _count(plain[name]) for name in ("unused", "suites", "active")}
        return cls(fingerprint=str(plain["fingerprint"]), **numbers)


@dataclass(frozen=True, kw_only=True)
class Manifest:
    """Whose backup it is, of when, and its files.

    ``made`` is when the database was copied. ``keys`` says whether the secrets are in it.
    """

    role: Role
    made: int
    shoal: str
    dialect: str
    revision: str
    keys: bool
    ring: RingNote
    entries: tuple[Entry, ...]

    @property
    def size(self) -> int:
        """Bytes of all files."""
        return sum(entry.bytes for entry in self.entries)

    @property
    def digest(self) -> str:
        """The name of the backup: it stands for every byte of it."""
        return sha256(self.to_bytes()).hexdigest()

    @cached_property
    def _by_path(self) -> dict[str, Entry]:
        return {entry.path: entry for entry in self.entries}

    def find(self, path: str) -> Entry | None:
        """The file of that name."""
        return self._by_path.get(path)

    def below(self, directory: str) -> Iterator[Entry]:
        """The files of a directory."""
        return (entry for entry in self.entries if entry.path.startswith(f"{directory}/"))

    def to_bytes(self) -> bytes:
        """As it is stored."""
        plain: dict[str, Any] = {
            "format": _FORMAT,
            "version": VERSION,
            "role": self.role,
            "made": self.made,
            "shoal": self.shoal,
            "database": self.dialect,
            "revision": self.revision,
            "keys": self.keys,
            "ring": self.ring.to_dict(),
            "files": [entry.to_dict() for entry in self.entries],
        }
        return json.dumps(plain, sort_keys=True, separators=(",", ":")).encode()

    @classmethod
    def from_bytes(cls, data: bytes) -> Manifest:
        """As it was; whatever is not one is a ValueError that says why."""
        try:
            plain = json.loads(data)  # what is no JSON is a ValueError, too
            if plain["format"] != _FORMAT or plain["version"] != VERSION:
                message = f"made by a newer version of Shoal ({plain.get('shoal')})"
                raise ValueError(message)
            found = cls(
                role=_role(plain["role"]),
                made=_count(plain["made"]),
                shoal=str(plain["shoal"]),
                dialect=str(plain["database"]),
                revision=str(plain["revision"]),
                keys=bool(plain["keys"]),
                ring=RingNote.of(plain["ring"]),
                entries=tuple(Entry.of(each) for each in plain["files"]),
            )
        except (KeyError, TypeError, AttributeError, RecursionError) as error:
            message = f"its manifest is none ({type(error).__name__})"
            raise ValueError(message) from None
        if len(found._by_path) < len(found.entries):
            message = "its manifest has a file twice"
            raise ValueError(message)
        return found


def _role(value: object) -> Role:
    for role in ROLES:
        if role == value:
            return role
    message = "of no party"
    raise ValueError(message)


def _count(value: object) -> int:
    if type(value) is not int or value < 0:
        message = "its manifest has no whole number where one belongs"
        raise ValueError(message)
    return value
