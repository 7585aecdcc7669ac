"""A party's keys in a directory: made, handed out, replaced in time, and destroyed at last.

Order of writing, so that a process may die anywhere: a secret is durable before the list that has
its public half is; a key is out of the list before its secret is shredded. What is found half done
is finished by the next change: secrets that no list has are listed, those of deleted keys shredded.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeAlias

from shoal import checks
from shoal.errors import InvalidArgumentError
from shoal.sealing import SUITES, KeyPair, PublicKey
from shoal.service.clock import Clock, system_clock
from shoal.service.keyring import files, index, lifecycle
from shoal.service.keyring.change import Change
from shoal.service.keyring.errors import (
    DamagedKeyringError,
    KeyGoneError,
    KeyringError,
)
from shoal.service.keyring.identity import Identity
from shoal.service.keyring.index import Index
from shoal.service.keyring.key_list import KeyInfo, KeyList
from shoal.service.keyring.lifecycle import Ring
from shoal.service.keyring.protection import Protection
from shoal.service.keyring.schedule import KeyState, Role, Schedule
from shoal.service.keyring.secret_files import SecretFiles, no_keys, protection_kind

Deleted: TypeAlias = list[KeyInfo]  # inside the class, list is its method


@dataclass(frozen=True, kw_only=True)
class Rotation:
    """What a rotation does: the new key, and the keys that stop being handed out for it."""

    new: KeyInfo
    replaced: tuple[KeyInfo, ...]


@dataclass(frozen=True, kw_only=True)
class Inheritance:
    """What is left of a ring that was lost: its identity, and a number above all it had."""

    identity: Path
    first_number: int


class Keyring:
    """The keys of a shuffler or of an analyzer. Any number of processes may use one directory.

    Without a ``protection`` the ring is locked: it hands out its list and knows which keys it
    accepts, which is all that a front end needs, and opens nothing.
    """

    def __init__(self, directory: Path, clock: Clock, secrets: SecretFiles, found: Index) -> None:
        self.directory = directory
        self._clock = clock
        self._secrets = secrets
        self._index = found
        self._seen = _stamp(directory)
        self._pairs: dict[int, KeyPair] = {}

    @classmethod
    def create(
        cls,
        directory: Path | str,
        *,
        role: Role,
        protection: Protection,
        suites: Sequence[str] = SUITES[:1],
        clock: Clock = system_clock,
        schedule: Schedule | None = None,
        heir_of: Inheritance | None = None,
    ) -> Keyring:
        """A new ring with one key for each suite, in use at once.

        ``heir_of`` a ring that was lost, it has that one's identity and none of its numbers.
        """
        directory = Path(directory)
        _check_suites(suites)
        identity, first = _inherited(heir_of, role, protection)
        now = clock()
        ring = Ring(schedule=schedule or Schedule(), looked=now, unused=first)
        with files.new_directory(directory) as place:
            secrets = SecretFiles(place, role, protection)
            secrets.write_identity(identity)
            for suite in suites:
                pair = KeyPair.generate(number=ring.unused, suite=suite)
                secrets.write_pair(pair)
                ring = lifecycle.added(ring, pair.public, now, at_once=True)
            made = index.signed(identity, lifecycle.settled(ring, now), now)
            files.write_private(place / index.NAME, made.to_bytes())
        return cls.open(directory, protection=protection, clock=clock)

    @classmethod
    def open(
        cls,
        directory: Path | str,
        *,
        protection: Protection | None,
        clock: Clock = system_clock,
        identity: Path | None = None,
    ) -> Keyring:
        """The ring in a directory; ``identity`` is where the identity is if it is not there."""
        directory = Path(directory)
        if not (directory / index.NAME).is_file():
            raise no_keys(directory)
        files.check_private(directory)
        found = Index.read(directory)
        secrets = SecretFiles(directory, found.listed.role, protection, identity)
        opened = cls(directory, clock, secrets, found)
        opened._check()
        return opened

    def _check(self) -> None:
        """Refuse a wrong passphrase and a foreign identity before anything else."""
        if self._secrets.locked:
            return
        if not self._secrets.can_sign:
            ring = self._index.ring
            keys = [key.public for key in ring.keys if key.number in ring.alive]
            # One whose file is lost says nothing about the passphrase, and others still open.
            whole = [key for key in keys if self._secrets.trouble(key.number) is None]
            self._read_pair((whole or keys)[-1])
        elif self._secrets.identity().public != self._index.listed.identity:
            why = "it is another ring's identity"
            raise DamagedKeyringError(self._secrets.identity_path, why)

    @property
    def role(self) -> Role:
        """Whose keys these are."""
        return self._index.listed.role

    @property
    def fingerprint(self) -> str:
        """What surveys say of the key that signs the list."""
        return self._index.listed.fingerprint

    @property
    def schedule(self) -> Schedule:
        """How long keys are in which state."""
        return self._index.ring.schedule

    @property
    def suites(self) -> tuple[str, ...]:
        """The suites there are keys for."""
        return self._index.ring.suites

    @property
    def numbers_left(self) -> int:
        """How many keys it can still make."""
        return lifecycle.NUMBERS - self._index.ring.unused

    @property
    def protection(self) -> str:
        """How its secrets are protected: none, passphrase or keyfile."""
        return protection_kind(self.directory)

    @property
    def has_identity(self) -> bool:
        """Whether the key that signs is here, locked or not."""
        return self._secrets.identity_path.exists()

    def to_dict(self) -> dict[str, object]:
        """Plain values."""
        listed = self.list()
        return {
            "directory": str(self.directory),
            "role": self.role,
            "fingerprint": self.fingerprint,
            "suites": [*self.suites],
            "issued": listed.issued,
            "valid_until": listed.valid_until,
            "numbers_left": self.numbers_left,
            "identity_here": self.has_identity,
        }

    def now(self) -> int:
        """What its clock says."""
        return self._clock()

    @property
    def can_sign(self) -> bool:
        """Whether the list can be changed here."""
        return self._secrets.can_sign

    def list(self) -> KeyList:
        """The signed list, with the states of this moment."""
        self.reload_if_changed()
        now, found = self._clock(), self._index
        keys = (replace(item.key, state=lifecycle.state_at(item, now)) for item in found.ring.held)
        return replace(found.listed, keys=tuple(keys))

    def accepts(self, number: int) -> bool:
        """Whether new reports may be sealed with this key.

        No longer in the last hour of an expired key, so that whatever it took can be opened.
        """
        self.reload_if_changed()
        found = self._index.ring.find(number)
        return found is not None and lifecycle.accepts(found, self._index.ring, self._clock())

    def pair(self, number: int) -> KeyPair:
        """A key that is active or expired, to open with."""
        self.reload_if_changed()
        found = self._index.ring.find(number)
        if found is None or found.key.state is KeyState.DELETED:
            was = 0 <= number < self._index.ring.unused
            raise KeyGoneError(number, "it is deleted" if was else "there never was such a key")
        if not lifecycle.opens(found, self._clock()):
            raise KeyGoneError(number, f"it is not in use before {found.key.active_from}")
        if number not in self._pairs:
            self._pairs[number] = self._read_pair(found.key.public)
        return self._pairs[number]

    def _read_pair(self, public: PublicKey) -> KeyPair:
        pair = self._secrets.pair(public.number)
        if pair.public != public:
            why = f"key {public.number} is not the one in the list"
            raise DamagedKeyringError(self.directory, why)
        return pair

    def secret_path(self, number: int) -> Path:
        """Where the secret of a key is kept, or was."""
        return self._secrets.path(number)

    def check_secret(self, number: int) -> None:
        """Refuse a key whose secret is no longer in its file: nothing sealed for it would open."""
        if not self._secrets.is_there(number):
            raise KeyringError(f"the secret of key {number} is not in {self.directory}")

    def lacking(self) -> dict[int, str]:
        """The keys that are not deleted and cannot be read from their files, each with why."""
        self.reload_if_changed()
        found = self._troubles()
        # A file may be gone because its key was deleted at this moment.
        return self._troubles() if found and self.reload_if_changed() else found

    def _troubles(self) -> dict[int, str]:
        told = {number: self._secrets.trouble(number) for number in self._index.ring.alive}
        return {number: why for number, why in sorted(told.items()) if why is not None}

    def gone(self) -> frozenset[int]:
        """The numbers whose keys are deleted: nothing sealed with them opens any more."""
        self.reload_if_changed()
        ring = self._index.ring
        return frozenset(range(ring.unused)) - ring.alive

    def reload_if_changed(self) -> bool:
        """Read the index again if another process wrote it."""
        stamp = _stamp(self.directory)
        if stamp == self._seen:
            return False
        self._take(Index.read(self.directory), stamp)
        return True

    def planned_rotations(self, suites: Sequence[str] | None = None) -> tuple[Rotation, ...]:
        """What ``rotate`` would do now for each suite. Its keys are made up and thrown away."""
        self.reload_if_changed()
        ring, now = self._index.ring, self._clock()
        numbers = []
        for suite in suites or self.suites:
            lifecycle.check_room(ring)
            pair = KeyPair.generate(number=ring.unused, suite=suite)
            ring = lifecycle.added(ring, pair.public, now)
            numbers.append(pair.public.number)
        planned = lifecycle.settled(ring, now).keys
        return tuple(_rotation(planned, number) for number in numbers)

    def rotation(self, number: int) -> Rotation:
        """What making this key, which has not taken over yet, is about to do."""
        return _rotation(self._index.ring.keys, number)

    def rotate(self, now: int | None = None, *, suite: str | None = None) -> KeyInfo:
        """A new key, pending; the keys in use before it expire when it is active."""
        chosen = self._suite(suite)
        now = self._clock() if now is None else now
        with self._changing(now) as change:
            # One that died before it was listed is the one that is asked for again.
            adopted = [key.number for key in change.adopt() if key.suite == chosen]
            number = adopted[-1] if adopted else change.add(chosen)
        return self._info(number)

    def retire(self, number: int, *, delete: bool = False) -> KeyInfo:
        """Take a key out of use now, because others may have it; the one devices use instead.

        It still opens what devices seal before they fetch the new list, unless ``delete``.
        """
        now = self._clock()
        with self._changing(now) as change:
            change.adopt()
            # The time of a key that expires now begins now, whenever somebody last looked.
            change.ring = lifecycle.seen(change.ring, now)
            suite = lifecycle.needs_replacement(change.ring, number)
            if suite is not None:
                change.add(suite)
            change.ring = lifecycle.retired(change.ring, number, now, delete=delete)
            left = change.ring.find(number)
        assert left is not None  # noqa: S101 - a key that was not there cannot be retired
        in_use = [key for key in self._index.ring.keys if key.state is KeyState.ACTIVE]
        return [key for key in in_use if key.suite == left.key.suite][-1]

    def tick(self, *, keep: Collection[int] | Callable[[], Collection[int]] = ()) -> Deleted:
        """Do what is due, and return the keys that were deleted.

        Keys change state, successors are made in time, the list is signed anew before it is no
        longer valid. Keys whose numbers are in ``keep`` are still needed and not deleted yet; a
        function that tells them is asked once nobody else can change the ring.
        Cheap if nothing is due; any number of processes may call it at once.
        """
        self.reload_if_changed()
        now = self._clock()
        if not self._is_due(now, _kept(keep)):
            return []
        with self._changing(now) as change:
            return change.tick(_kept(keep))

    def _is_due(self, now: int, keep: Collection[int]) -> bool:
        ring = self._index.ring
        strays = set(self._secrets.numbers()) - ring.alive
        if lifecycle.is_due(ring, now, keep) or any(number < ring.unused for number in strays):
            return True
        return self.can_sign and (
            bool(strays)
            or self._index.is_stale(now)
            or (lifecycle.has_room(ring) and bool(lifecycle.due_successors(ring, now)))
            or lifecycle.settled(ring, now) != ring
        )

    @contextmanager
    def _changing(self, now: int) -> Iterator[Change]:
        """One change at a time: read what is there, change it, write it, then shred."""
        with files.locked(self.directory / files.LOCK):
            found = Index.read(self.directory)
            change = Change(found, self._secrets, now)
            yield change
            result = change.result()
            if result != found:
                files.write_private(self.directory / index.NAME, result.to_bytes())
            self._take(result, _stamp(self.directory))
            change.clean()

    def _take(self, found: Index, stamp: tuple[int, int, int]) -> None:
        self._index, self._seen = found, stamp
        alive = found.ring.alive
        self._pairs = {number: pair for number, pair in self._pairs.items() if number in alive}

    def _suite(self, suite: str | None) -> str:
        suites = self.suites
        if suite is None and len(suites) == 1:
            return suites[0]
        if suite is None or suite not in SUITES:
            choices = SUITES if suite is not None else suites
            raise InvalidArgumentError("suite", suite, f"one of {', '.join(choices)}")
        return suite

    def _info(self, number: int) -> KeyInfo:
        found = self._index.ring.find(number)
        assert found is not None  # noqa: S101 - it was just written
        return found.key


def _kept(keep: Collection[int] | Callable[[], Collection[int]]) -> Collection[int]:
    return keep() if callable(keep) else keep


def _rotation(keys: Sequence[KeyInfo], number: int) -> Rotation:
    (new,) = (key for key in keys if key.number == number)
    in_use = {KeyState.PENDING, KeyState.ACTIVE}
    before = (key for key in keys if key.suite == new.suite and key.number < number)
    return Rotation(new=new, replaced=tuple(key for key in before if key.state in in_use))


def _stamp(directory: Path) -> tuple[int, int, int]:
    """What is different after the index was replaced."""
    try:
        found = (directory / index.NAME).stat()
    except OSError as error:
        raise KeyringError(f"cannot read {directory}: {error.strerror or error}") from error
    return found.st_mtime_ns, found.st_ino, found.st_size


def _inherited(
    heir_of: Inheritance | None, role: Role, protection: Protection
) -> tuple[Identity, int]:
    if heir_of is None:
        return Identity.generate(role), 0
    first = checks.count(1, first_number=heir_of.first_number)
    if first >= lifecycle.NUMBERS:
        raise InvalidArgumentError("first_number", first, f"a number below {lifecycle.NUMBERS}")
    kept = SecretFiles(heir_of.identity.parent, role, protection, heir_of.identity)
    return kept.identity(), first


def _check_suites(suites: Sequence[str]) -> None:
    if not suites or len(set(suites)) < len(suites) or not set(suites) <= set(SUITES):
        raise InvalidArgumentError("suites", tuple(suites), f"some of {', '.join(SUITES)}")
