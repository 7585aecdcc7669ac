"""A ring that comes back from a backup: older than what others have seen of it.

Three things would go wrong if it simply went on. Keys that were deleted since are back. Numbers
that were given to keys since would be given again, to other keys, which convicts whoever signs it.
And its list is older than the one that devices have, so that they refuse it. So deleted keys are
deleted again, numbers go on above all that can have been used, and a new list is signed.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from shoal.service.keyring import files, index, lifecycle
from shoal.service.keyring.change import Change
from shoal.service.keyring.errors import IdentityOfflineError, KeyringError
from shoal.service.keyring.index import Index
from shoal.service.keyring.key_list import FUTURE_TOLERANCE, KeyInfo
from shoal.service.keyring.lifecycle import Ring
from shoal.service.keyring.protection import Protection
from shoal.service.keyring.schedule import KeyState
from shoal.service.keyring.secret_files import SecretFiles

BY_HAND = 8  # rotations that nobody planned, between a backup and a loss

Doomed = Callable[[KeyInfo], bool]


@dataclass(frozen=True)
class Revived:
    """What became of the keys: numbers that are deleted, new ones, the next one to be given."""

    deleted: tuple[int, ...]
    made: tuple[int, ...]
    next_number: int


def next_number(unused: int, *, suites: int, active: int, since: int, now: int) -> int:
    """A number above all that a ring can have given to keys between two moments.

    >>> next_number(3, suites=1, active=100, since=0, now=250)
    15
    """
    return unused + suites * (max(now - since, 0) // active + 2) + BY_HAND


@dataclass(frozen=True, kw_only=True)
class Revival:
    """A ring in a directory, a moment, and the lowest number that no key of it can have had."""

    directory: Path
    protection: Protection
    identity: Path | None
    now: int
    first_number: int

    @property
    def _secrets(self) -> SecretFiles:
        role = Index.read(self.directory).listed.role
        return SecretFiles(self.directory, role, self.protection, self.identity)

    def check(self) -> None:
        """Refuse what could not be finished."""
        secrets, found = self._secrets, Index.read(self.directory)
        if not secrets.can_sign:
            raise IdentityOfflineError(secrets.identity_path)
        if self.now + FUTURE_TOLERANCE < found.listed.issued:
            text = f"this machine's clock says {self.now}, and the keys' list was signed later"
            raise KeyringError(f"{text}, at {found.listed.issued}; set the clock")
        if self.first_number >= lifecycle.NUMBERS:
            text = f"numbers end at {lifecycle.NUMBERS - 1}, and {self.first_number} would be next"
            advice = "give --first-number, the lowest that no key of this ring can have had"
            raise KeyringError(f"{text}; {advice}")

    def revive(self, doomed: Doomed) -> Revived:
        """Delete the keys that are doomed, skip numbers, and sign a list that is newer than any."""
        self.check()
        with files.locked(self.directory / files.LOCK):
            found = Index.read(self.directory)
            change = Change(found, self._secrets, self.now)
            change.adopt()
            before = {key.number for key in change.ring.keys}
            first = max(self.first_number, change.ring.unused)
            change.ring = replace(lifecycle.seen(change.ring, self.now), unused=first)
            for number in [key.number for key in change.ring.keys if doomed(key)]:
                _delete(change, number, self.now)
            change.tick([key.number for key in change.ring.keys])
            ring = lifecycle.settled(change.ring, self.now)
            issued = max(self.now, found.listed.issued + 1)  # a later list has a later time
            result = index.signed(self._secrets.identity(), ring, issued)
            files.write_private(self.directory / index.NAME, result.to_bytes())
            change.clean()
        numbers = {key.number for key in ring.keys}
        return Revived(
            deleted=tuple(sorted(before - numbers)),
            made=tuple(sorted(numbers - before)),
            next_number=ring.unused,
        )


def _delete(change: Change, number: int, now: int) -> None:
    """Another one takes over first, if nothing else could."""
    suite = lifecycle.needs_replacement(change.ring, number)
    if suite is not None:
        change.add(suite)
    change.ring = _without(lifecycle.retired(change.ring, number, now, delete=True))


def _without(ring: Ring) -> Ring:
    """The list has room for few: what is deleted takes none."""
    alive = tuple(item for item in ring.held if item.key.state is not KeyState.DELETED)
    return replace(ring, held=alive)
