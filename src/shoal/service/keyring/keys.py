"""A party's keys in a directory: made, handed out, replaced in time, and destroyed at last.

One file says what a ring is: the signed list, and beside it what only its owner needs. It is
replaced in one step, so that the list that is handed out and the states that go with it never
disagree. Whoever reads it checks the signature of the list, so that damage is noticed.

Order of writing, so that a process may die anywhere: a secret is durable before the list that has
its public half is; a key is out of the list before its secret is shredded. What is found half done
is finished by the next change: secrets that no list has are listed, those of deleted keys shredded.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, TypeAlias

from shoal import checks
from shoal.errors import InvalidArgumentError
from shoal.sealing import SUITES, KeyPair, Plain, SealingError, canonical
from shoal.service.clock import Clock, system_clock
from shoal.service.keyring import rotation
from shoal.service.keyring.errors import DamagedKeyringError, KeyGoneError, KeyringError
from shoal.service.keyring.key_list import (
    FUTURE_TOLERANCE,
    HOUR,
    SECRET_BYTES,
    Identity,
    KeyInfo,
    KeyList,
    KeyState,
    Role,
    unverified,
)
from shoal.service.keyring.rotation import Ring, Schedule
from shoal.service.keyring.secrets import (
    IDENTITY,
    LOCK,
    Protection,
    Secrets,
    check_private,
    disk,
    fresh_bytes,
    locked,
    new_directory,
    no_keys,
    protection_kind,
    read_private,
    shred,
    write_private,
)
from shoal.values import attributes

INDEX = "index.json"
VERSION = 1
BY_HAND = 8  # rotations that nobody planned, between a backup and a loss

Deleted: TypeAlias = list[KeyInfo]  # inside the class, list is its method


@dataclass(frozen=True, kw_only=True)
class Rotation:
    """What a rotation does: the new key, and the keys that stop being handed out for it."""

    new: KeyInfo
    replaced: tuple[KeyInfo, ...]


@dataclass(frozen=True)
class Revived:
    """What became of the keys: numbers that are deleted, new ones, the next one to be given."""

    deleted: tuple[int, ...]
    made: tuple[int, ...]
    next_number: int


@dataclass(frozen=True, kw_only=True)
class Index:
    """A ring and the list that its keys are published in."""

    ring: Ring
    listed: KeyList

    @classmethod
    def signed(cls, identity: Identity, ring: Ring, issued: int) -> Index:
        """A ring with a new list."""
        until = issued + ring.schedule.listed
        listed = KeyList.signed(identity, ring.keys, issued=issued, valid_until=until)
        return cls(ring=ring, listed=listed)

    @classmethod
    def read(cls, directory: Path) -> Index:
        """From its file."""
        path = directory / INDEX
        content = read_private(path)
        try:
            stored = json.loads(content)
            local = stored.pop("local")
            listed = unverified(canonical(stored))
            if not listed.is_signed:
                raise DamagedKeyringError(path, "the signature of its list is wrong")
            recorded = {item["number"]: item for item in local["keys"]}
            if local["version"] != VERSION or list(recorded) != [key.number for key in listed.keys]:
                why = f"version {local['version']} with keys {list(recorded)}"
                raise DamagedKeyringError(path, f"it is not an index of keys ({why})")
            keys = (
                replace(
                    key,
                    state=KeyState(recorded[key.number]["state"]),
                    seen_expired=int(recorded[key.number]["counted"]),
                )
                for key in listed.keys
            )
            ring = Ring(
                schedule=Schedule(**local["schedule"]),
                unused=int(local["unused"]),
                looked=int(local["looked"]),
                keys=tuple(keys),
            )
        except (InvalidArgumentError, SealingError) as error:
            raise DamagedKeyringError(path, str(error)) from None
        except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
            raise DamagedKeyringError(path, f"it is not an index of keys ({error})") from None
        return cls(ring=ring, listed=listed)

    def write(self, directory: Path) -> None:
        """To its file."""
        local: dict[str, Plain] = {
            "version": VERSION,
            "schedule": asdict(self.ring.schedule),
            "unused": self.ring.unused,
            "looked": self.ring.looked,
            "keys": [
                {"number": key.number, "state": key.state.value, "counted": key.seen_expired}
                for key in self.ring.keys
            ],
        }
        signed: dict[str, Any] = json.loads(self.listed.document)
        write_private(directory / INDEX, canonical(signed | {"local": local}))

    def is_stale(self, now: int) -> bool:
        """Whether its list should be signed anew: half its time is over, or lies ahead."""
        listed = self.listed
        half = listed.issued + (listed.valid_until - listed.issued) // 2
        return now >= half or listed.issued > now + FUTURE_TOLERANCE

    def lists(self, ring: Ring) -> bool:
        """Whether its list says of a ring what there is to say."""
        listed = [key.published() for key in self.listed.keys]
        return listed == [key.published() for key in ring.keys]


class Change:
    """A ring on its way from one index to the next, made while nobody else can change it.

    What is begun is finished, then what is asked is done. Secrets are written as they are made, so
    that they are durable before the index that needs them; ``clean`` shreds afterwards what the
    index no longer has.
    """

    def __init__(self, index: Index, secrets: Secrets, now: int) -> None:
        self.ring: Ring = index.ring
        self._index = index
        self._secrets = secrets
        self._now = now

    def adopt(self) -> list[KeyInfo]:
        """List secrets that were written by a process that died before it could list them."""
        if not self._secrets.can_sign:
            return []
        adopted = []
        for number in self._secrets.numbers():
            if number >= self.ring.unused and rotation.has_room(self.ring):
                public = self._secrets.pair(number).public
                self.ring = rotation.added(self.ring, public, self._now)
                adopted.append(self.ring.keys[-1])
        return adopted

    def add(self, suite: str, begins: int | None = None) -> int:
        """A new key, pending until it begins; its number."""
        self._secrets.identity()  # without it the key could not be listed: make none
        rotation.check_room(self.ring)
        pair = KeyPair.generate(number=self.ring.unused, suite=suite)
        self._secrets.write(pair)
        self.ring = rotation.added(self.ring, pair.public, self._now, begins=begins)
        return pair.public.number

    def tick(self, keep: Collection[int]) -> list[KeyInfo]:
        """What is due; the keys that are deleted by it."""
        self.adopt()
        before = self.ring.alive
        self.ring = rotation.passed(self.ring, self._now, keep)
        if self._secrets.can_sign:
            for suite, begins in rotation.due_successors(self.ring, self._now).items():
                if rotation.has_room(self.ring):
                    self.add(suite, begins)
        deleted = (key for key in self.ring.keys if key.state is KeyState.DELETED)
        return [key for key in deleted if key.number in before]

    def result(self, *, anew: bool = False) -> Index:
        """The next index, signed if its list has to change, or ``anew`` in any case."""
        before, now = self._index, self._now
        if not self._secrets.can_sign and before.lists(self.ring):
            return replace(before, ring=self.ring)
        identity, ring = self._secrets.identity(), rotation.settled(self.ring, now)
        if before.lists(ring) and not before.is_stale(now) and not anew:
            return replace(before, ring=ring)
        issued = now
        if now <= before.listed.issued <= now + FUTURE_TOLERANCE:
            issued = before.listed.issued + 1  # a later list has a later time
        return Index.signed(identity, ring, issued)

    def retire(self, number: int, *, delete: bool) -> None:
        """Take a key out of use; another one is made first, if nothing else could take over."""
        suite = rotation.needs_replacement(self.ring, number)
        if suite is not None:
            self.add(suite)
        self.ring = rotation.retired(self.ring, number, self._now, delete=delete)

    def clean(self) -> None:
        """Shred the secrets of keys that are deleted, and what was never finished."""
        for number in self._secrets.numbers():
            if number < self.ring.unused and number not in self.ring.alive:
                shred(self._secrets.path(number))
        self._secrets.shred_unfinished()


class Keyring:
    """The keys of a shuffler or of an analyzer; any number of processes may use one directory.

    ``Keyring.create`` and ``Keyring.open`` make one. Without a protection the ring is locked: it
    hands out its list and knows which keys it accepts, which is all that a front end needs, and
    opens nothing.

    Args:
        directory: Where the ring is.
        clock: Seconds since 1970.
        secrets: What reads and writes the secret keys.
        index: What is known of all keys.

    Example:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as place:
        ...     made = Keyring.create(
        ...         f"{place}/keys", role="shuffler", protection=Protection.none()
        ...     )
        ...     len(made.list().keys)
        1
    """

    def __init__(self, directory: Path, clock: Clock, secrets: Secrets, index: Index) -> None:
        self.directory = directory
        self.role = index.listed.role
        self.fingerprint = index.listed.fingerprint
        self.schedule = index.ring.schedule
        self._clock = clock
        self._secrets = secrets
        self._index = index
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
        identity: Path | None = None,
        first_number: int = 0,
    ) -> Keyring:
        """A new ring with one key for each suite, in use at once.

        After a loss it may have the ``identity`` of the lost ring, and none of its numbers:
        ``first_number`` is above all of them.
        """
        directory = Path(directory)
        sound = suites and len(set(suites)) == len(suites) and set(suites) <= set(SUITES)
        checks.refuse(not sound, f"some of {', '.join(SUITES)}", suites=tuple(suites))
        first = checks.count(0 if identity is None else 1, first_number=first_number)
        expected = f"a number below {rotation.NUMBERS}"
        checks.refuse(first >= rotation.NUMBERS, expected, first_number=first)
        if identity is None:
            signer = Identity(role, fresh_bytes(SECRET_BYTES))
        else:
            signer = Secrets(identity.parent, role, protection, identity).identity()
        now = clock()
        ring = Ring(schedule=schedule or Schedule(), looked=now, unused=first)
        with new_directory(directory) as place:
            secrets = Secrets(place, role, protection, place / IDENTITY)
            secrets.write(signer)
            for suite in suites:
                pair = KeyPair.generate(number=ring.unused, suite=suite)
                secrets.write(pair)
                ring = rotation.added(ring, pair.public, now, begins=now)
            Index.signed(signer, rotation.settled(ring, now), now).write(place)
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
        if not (directory / INDEX).is_file():
            raise no_keys(directory)
        check_private(directory)
        index = Index.read(directory)
        away = identity or directory / IDENTITY
        secrets = Secrets(directory, index.listed.role, protection, away)
        opened = cls(directory, clock, secrets, index)
        # Refuse a foreign identity and a wrong passphrase before anything else.
        if secrets.can_sign and secrets.identity().public != index.listed.identity:
            raise DamagedKeyringError(
                secrets.identity_path, "it is the identity of another key ring"
            )
        if protection is not None and not secrets.can_sign:
            keys = [key.public for key in index.ring.keys if key.number in index.ring.alive]
            # One whose file is lost says nothing about the passphrase, and others still open.
            whole = [key for key in keys if secrets.trouble(key.number) is None]
            last = (whole or keys)[-1]
            secrets.pair(last.number, last)
        return opened

    @property
    def _newest(self) -> Index:
        """What is on the disk now, as one value: another thread may read the next one meanwhile.

        Whatever another process wrote is read again.
        """
        stamp = _stamp(self.directory)
        if stamp != self._seen:
            self._take(Index.read(self.directory), stamp)
        return self._index

    @property
    def suites(self) -> tuple[str, ...]:
        """The suites there are keys for."""
        return tuple(sorted({key.suite for key in self._index.ring.keys}))

    @property
    def numbers_left(self) -> int:
        """How many keys it can still make."""
        return rotation.NUMBERS - self._index.ring.unused

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
        return {
            "directory": str(self.directory),
            "suites": [*self.suites],
            **attributes(self, "role", "fingerprint", "numbers_left"),
            **attributes(self.list(), "issued", "valid_until"),
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
        index, now = self._newest, self._clock()
        keys = (
            replace(key, state=rotation.state_at(key, now), seen_expired=0)
            for key in index.ring.keys
        )
        return replace(index.listed, keys=tuple(keys))

    def document(self) -> bytes:
        """The signed list as it is shown to everybody."""
        return self._newest.listed.document

    def accepts(self, number: int) -> bool:
        """Whether new reports may be sealed with this key.

        No longer in the last hour of an expired key, so that whatever it took can be opened.
        """
        ring = self._newest.ring
        key = ring.find(number)
        return key is not None and rotation.accepts(key, ring, self._clock())

    def pair(self, number: int) -> KeyPair:
        """A key that is active or expired, to open with."""
        ring = self._newest.ring
        key = ring.find(number)
        if key is None or key.state is KeyState.DELETED:
            was = 0 <= number < ring.unused
            raise KeyGoneError(number, "it is deleted" if was else "there never was such a key")
        if rotation.state_at(key, self._clock() + rotation.CLOCK_TOLERANCE) is KeyState.PENDING:
            raise KeyGoneError(number, f"it is not in use before {key.active_from}")
        if number not in self._pairs:
            self._pairs[number] = self._secrets.pair(number, key.public)
        return self._pairs[number]

    def secret_path(self, number: int) -> Path:
        """Where the secret of a key is kept, or was."""
        return self._secrets.path(number)

    def check_secret(self, number: int) -> None:
        """Refuse a key whose secret is no longer in its file: nothing sealed for it would open.

        A glance at the size of the file.
        """
        try:
            there = self._secrets.path(number).stat().st_size > 0
        except OSError:
            there = False
        if not there:
            raise KeyringError(f"the secret of key {number} is not in {self.directory}")

    def lacking(self) -> dict[int, str]:
        """The keys that are not deleted and cannot be read from their files, each with why."""
        while True:
            index = self._newest
            alive = sorted(index.ring.alive)
            troubles = {number: why for number in alive if (why := self._secrets.trouble(number))}
            # A file may be gone because its key was deleted at this moment.
            if not troubles or self._newest is index:
                return troubles

    def gone(self) -> frozenset[int]:
        """The numbers whose keys are deleted: nothing sealed with them opens any more."""
        ring = self._newest.ring
        return frozenset(range(ring.unused)) - ring.alive

    def planned_rotations(self, suites: Sequence[str] | None = None) -> tuple[Rotation, ...]:
        """What ``rotate`` would do now for each suite. Its keys are made up and thrown away."""
        ring, now = self._newest.ring, self._clock()
        numbers = []
        for suite in suites or self.suites:
            rotation.check_room(ring)
            pair = KeyPair.generate(number=ring.unused, suite=suite)
            ring = rotation.added(ring, pair.public, now)
            numbers.append(pair.public.number)
        planned = rotation.settled(ring, now).keys
        return tuple(_rotation(planned, number) for number in numbers)

    def rotation(self, number: int) -> Rotation:
        """What making this key, which has not taken over yet, is about to do."""
        return _rotation(self._index.ring.keys, number)

    def rotate(self, now: int | None = None, *, suite: str | None = None) -> KeyInfo:
        """A new key, pending; the keys in use before it expire when it is active."""
        if suite is None and len(self.suites) == 1:
            (suite,) = self.suites
        if suite is None or suite not in SUITES:
            choices = SUITES if suite is not None else self.suites
            raise InvalidArgumentError("suite", suite, f"one of {', '.join(choices)}")
        with self._changing(self._clock() if now is None else now) as change:
            # One that died before it was listed is the one that is asked for again.
            adopted = [key.number for key in change.adopt() if key.suite == suite]
            number = adopted[-1] if adopted else change.add(suite)
        (key,) = (key for key in self._index.ring.keys if key.number == number)
        return key

    def retire(self, number: int, *, delete: bool = False) -> KeyInfo:
        """Take a key out of use now, because others may have it; the one devices use instead.

        It still opens what devices seal before they fetch the new list, unless ``delete``.
        """
        now = self._clock()
        with self._changing(now) as change:
            change.adopt()
            # The time of a key that expires now begins now, whenever somebody last looked.
            change.ring = rotation.seen(change.ring, now)
            change.retire(number, delete=delete)
            (suite,) = (key.suite for key in change.ring.keys if key.number == number)
        in_use = [key for key in self._index.ring.keys if key.state is KeyState.ACTIVE]
        return [key for key in in_use if key.suite == suite][-1]

    def tick(self, *, keep: Collection[int] | Callable[[], Collection[int]] = ()) -> Deleted:
        """Do what is due, and return the keys that were deleted.

        Keys change state, successors are made in time, the list is signed anew before it is no
        longer valid. Keys whose numbers are in ``keep`` are still needed and not deleted yet; a
        function that tells them is asked once nobody else can change the ring.
        Cheap if nothing is due; any number of processes may call it at once.
        """
        ring = self._newest.ring
        now, needed = self._clock(), keep if callable(keep) else lambda: keep
        strays = set(self._secrets.numbers()) - ring.alive
        states = [key.state for key in ring.keys]
        looked = [key.state for key in rotation.passed(ring, now).keys]
        if KeyState.DELETED in looked:  # only then does it matter who needs a key
            looked = [key.state for key in rotation.passed(ring, now, needed()).keys]
        remembered = 0 <= now - ring.looked < min(HOUR, ring.schedule.believed)
        due = (  # a look would change a state, or is worth remembering, or a secret is left over
            looked != states
            or (KeyState.EXPIRED in states and not remembered)
            or any(each < ring.unused for each in strays)
        )
        to_sign = self._secrets.can_sign and (
            strays
            or self._index.is_stale(now)
            or (rotation.has_room(ring) and rotation.due_successors(ring, now))
            or rotation.settled(ring, now) != ring
        )
        if not due and not to_sign:
            return []
        with self._changing(now) as change:
            return change.tick(needed())

    def check_revival(self, first_number: int) -> None:
        """Refuse a ``revive`` that could not be finished."""
        now, issued = self._clock(), self._index.listed.issued
        self._secrets.identity()  # refuses by itself
        if issued > now + FUTURE_TOLERANCE:
            text = f"this machine's clock says {now}, but the list of keys was signed later"
            raise KeyringError(f"{text}, at {issued}; correct the clock")
        if first_number >= rotation.NUMBERS:
            text = (
                f"key numbers end at {rotation.NUMBERS - 1}, and the next would be {first_number}"
            )
            advice = "give --first-number, the lowest that no key of this key ring can have had"
            raise KeyringError(f"{text}; {advice}")

    def revive(self, first_number: int, doomed: Callable[[KeyInfo], bool]) -> Revived:
        """Go on after it came back from a backup: older than what others have seen of it.

        Three things would go wrong if it simply went on. Keys that were deleted since are back.
        Numbers that were given to keys since would be given again, to other keys, which convicts
        whoever signs it. And its list is older than the one that devices have, so that they refuse
        it. So the keys that are doomed are deleted again, numbers go on from ``first_number``,
        above all that can have been used, and a new list is signed.
        """
        now = self._clock()
        with self._changing(now, anew=True) as change:
            change.adopt()
            before = {key.number for key in change.ring.keys}
            first = max(first_number, change.ring.unused)
            change.ring = replace(rotation.seen(change.ring, now), unused=first)
            for number in [key.number for key in change.ring.keys if doomed(key)]:
                change.retire(number, delete=True)
                # The list has room for few: what is deleted takes none.
                alive = change.ring.alive
                keys = tuple(key for key in change.ring.keys if key.number in alive)
                change.ring = replace(change.ring, keys=keys)
            change.tick([key.number for key in change.ring.keys])
        numbers = {key.number for key in self._index.ring.keys}
        return Revived(
            deleted=tuple(sorted(before - numbers)),
            made=tuple(sorted(numbers - before)),
            next_number=self._index.ring.unused,
        )

    @contextmanager
    def _changing(self, now: int, *, anew: bool = False) -> Iterator[Change]:
        """One change at a time: read what is there, change it, write it, then shred."""
        with locked(self.directory / LOCK):
            index = Index.read(self.directory)
            change = Change(index, self._secrets, now)
            yield change
            result = change.result(anew=anew)
            if result != index:
                result.write(self.directory)
            self._take(result, _stamp(self.directory))
            change.clean()

    def _take(self, index: Index, stamp: tuple[int, int, int]) -> None:
        self._index, self._seen = index, stamp
        alive = index.ring.alive
        self._pairs = {number: pair for number, pair in self._pairs.items() if number in alive}


def _rotation(keys: Sequence[KeyInfo], number: int) -> Rotation:
    (new,) = (key for key in keys if key.number == number)
    in_use = {KeyState.PENDING, KeyState.ACTIVE}
    before = (key for key in keys if key.suite == new.suite and key.number < number)
    return Rotation(new=new, replaced=tuple(key for key in before if key.state in in_use))


def _stamp(directory: Path) -> tuple[int, int, int]:
    """What is different after the index was replaced."""
    with disk(f"read {directory}"):
        stamp = (directory / INDEX).stat()
    return stamp.st_mtime_ns, stamp.st_ino, stamp.st_size


def next_number(unused: int, *, suites: int, active: int, since: int, now: int) -> int:
    """A number above all that a ring can have given to keys between two moments.

    >>> next_number(3, suites=1, active=100, since=0, now=250)
    15
    """
    return unused + suites * (max(now - since, 0) // active + 2) + BY_HAND
