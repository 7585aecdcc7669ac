"""One change of a ring, made while nobody else can: what is begun is finished, then what is asked.

Secrets are written as they are made, so that they are durable before the index that needs them;
``clean`` shreds afterwards what the index no longer has.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from shoal.sealing import KeyPair
from shoal.service.keyring import lifecycle
from shoal.service.keyring.index import Index
from shoal.service.keyring.key_list import KeyInfo
from shoal.service.keyring.lifecycle import Ring
from shoal.service.keyring.schedule import KeyState
from shoal.service.keyring.secret_files import SecretFiles


class Change:
    """A ring on its way from one index to the next."""

    def __init__(self, found: Index, secrets: SecretFiles, now: int) -> None:
        self.ring: Ring = found.ring
        self._found = found
        self._secrets = secrets
        self._now = now

    def adopt(self) -> list[KeyInfo]:
        """List secrets that were written by a process that died before it could list them."""
        if not self._secrets.can_sign:
            return []
        adopted = []
        for number in self._secrets.numbers():
            if number >= self.ring.unused and lifecycle.has_room(self.ring):
                public = self._secrets.pair(number).public
                self.ring = lifecycle.added(self.ring, public, self._now)
                adopted.append(self.ring.keys[-1])
        return adopted

    def add(self, suite: str, begins: int | None = None) -> int:
        """A new key, pending until it begins; its number."""
        self._secrets.identity()  # without it the key could not be listed: make none
        lifecycle.check_room(self.ring)
        pair = KeyPair.generate(number=self.ring.unused, suite=suite)
        self._secrets.write_pair(pair)
        self.ring = lifecycle.added(self.ring, pair.public, self._now, begins=begins)
        return pair.public.number

    def tick(self, keep: Collection[int]) -> list[KeyInfo]:
        """What is due; the keys that are deleted by it."""
        self.adopt()
        before = self.ring.alive
        self.ring = lifecycle.passed(self.ring, self._now, keep)
        if self._secrets.can_sign:
            for suite, begins in lifecycle.due_successors(self.ring, self._now).items():
                if lifecycle.has_room(self.ring):
                    self.add(suite, begins)
        deleted = (key for key in self.ring.keys if key.state is KeyState.DELETED)
        return [key for key in deleted if key.number in before]

    def result(self) -> Index:
        """The next index, signed if its list has to change."""
        unchanged = [key.published() for key in self.ring.keys] == [
            key.published() for key in self._found.listed.keys
        ]
        if not self._secrets.can_sign and unchanged:
            return replace(self._found, ring=self.ring)
        return self._found.published(self._secrets.identity(), self.ring, self._now)

    def clean(self) -> None:
        """Shred the secrets of keys that are deleted, and what was never finished."""
        for number in self._secrets.numbers():
            if number < self.ring.unused and number not in self.ring.alive:
                self._secrets.shred(number)
        self._secrets.shred_unfinished()
