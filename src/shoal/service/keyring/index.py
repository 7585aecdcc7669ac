"""The one file that says what a ring is: the signed list, and beside it what only its owner needs.

One file, replaced in one step: the list that is handed out and the states that go with it never
disagree. Whoever reads it checks the signature of the list, so that damage is noticed.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from shoal.errors import InvalidArgumentError
from shoal.sealing import Plain, SealingError, canonical
from shoal.service.keyring import files, lifecycle
from shoal.service.keyring.errors import DamagedKeyringError
from shoal.service.keyring.identity import Identity, is_signed
from shoal.service.keyring.key_list import FUTURE_TOLERANCE, KeyList, unverified
from shoal.service.keyring.lifecycle import Held, Ring
from shoal.service.keyring.schedule import KeyState, Schedule

NAME = "index.json"
VERSION = 1


@dataclass(frozen=True, kw_only=True)
class Index:
    """A ring and the list that its keys are published in."""

    ring: Ring
    listed: KeyList

    def to_bytes(self) -> bytes:
        """As the file has it."""
        local: dict[str, Plain] = {
            "version": VERSION,
            "schedule": self.ring.schedule.to_dict(),
            "unused": self.ring.unused,
            "looked": self.ring.looked,
            "keys": [
                {"number": key.number, "state": key.state.value, "counted": item.counted}
                for item in self.ring.held
                for key in (item.key,)
            ],
        }
        signed: dict[str, Any] = json.loads(self.listed.document)
        return canonical(signed | {"local": local})

    @classmethod
    def read(cls, directory: Path) -> Index:
        """From its file."""
        path = directory / NAME
        content = files.read_private(path)
        try:
            stored = json.loads(content)
            local = stored.pop("local")
            listed = unverified(canonical(stored))
            _check_signature(stored, listed)
            ring = _ring(local, listed)
        except (InvalidArgumentError, SealingError) as error:
            raise DamagedKeyringError(path, str(error)) from None
        except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
            raise DamagedKeyringError(path, f"it is not an index of keys ({error})") from None
        return cls(ring=ring, listed=listed)

    def is_stale(self, now: int) -> bool:
        """Whether its list should be signed anew: half its time is over, or lies ahead."""
        listed = self.listed
        half = listed.issued + (listed.valid_until - listed.issued) // 2
        return now >= half or listed.issued > now + FUTURE_TOLERANCE

    def published(self, identity: Identity, ring: Ring, now: int) -> Index:
        """With another ring; its list is a new one only if it has to be."""
        ring = lifecycle.settled(ring, now)
        before = [key.published() for key in self.listed.keys]
        if before == [key.published() for key in ring.keys] and not self.is_stale(now):
            return replace(self, ring=ring)
        issued = now
        if now <= self.listed.issued <= now + FUTURE_TOLERANCE:
            issued = self.listed.issued + 1  # a later list has a later time
        return signed(identity, ring, issued)


def signed(identity: Identity, ring: Ring, issued: int) -> Index:
    """A ring with a new list."""
    until = issued + ring.schedule.listed
    listed = KeyList.signed(identity, ring.keys, issued=issued, valid_until=until)
    return Index(ring=ring, listed=listed)


def _check_signature(stored: dict[str, Any], listed: KeyList) -> None:
    signature = bytes.fromhex(stored["signature"])
    if not is_signed(listed.identity, signature, canonical(stored["list"])):
        message = "the signature of its list is wrong"
        raise ValueError(message)


def _ring(local: dict[str, Any], listed: KeyList) -> Ring:
    if local["version"] != VERSION:
        message = f"version {local['version']}"
        raise ValueError(message)
    recorded = {item["number"]: item for item in local["keys"]}
    if list(recorded) != [key.number for key in listed.keys]:
        message = "its list has other keys"
        raise ValueError(message)
    held = (
        Held(
            replace(key, state=KeyState(recorded[key.number]["state"])),
            int(recorded[key.number]["counted"]),
        )
        for key in listed.keys
    )
    return Ring(
        schedule=Schedule.restored(local["schedule"]),
        unused=int(local["unused"]),
        looked=int(local["looked"]),
        held=tuple(held),
    )
