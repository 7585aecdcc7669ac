"""The keys to seal with: fetched, checked against the survey, kept for as long as they may be.

Both parties' lists come from the shuffler. Each counts if the identity that the survey names has
signed it, so the shuffler cannot put in keys of its own for the analyzer's; and the analyzer cannot
give a person a key that others do not have, because it does not hand its list to people. It does
not see them either.

A list is refused if it is older than one seen there before (it could bring back a key that was
retired), and if it contradicts any list seen before: two of one moment, or two keys of one number.

With ``compare`` both lists are also asked for at the analyzer, and the keys must be in those, too.
Pending keys are published ahead of use, so a copy that is an hour old knows them; a key made for
one person alone is in no copy.
"""

from __future__ import annotations

from dataclasses import dataclass

from shoal.errors import ShoalError
from shoal.sealing import PublicKey
from shoal.service.client.bulk import Keys
from shoal.service.client.errors import KeysRefusedError
from shoal.service.client.exchange import (
    Ask,
    Later,
    Reply,
    Silence,
    Talk,
    asked,
    max_age,
    refused,
    retry_after,
)
from shoal.service.client.outbox import Outbox
from shoal.service.client.route import Route
from shoal.service.clock import Clock
from shoal.service.keyring import ContradictionError
from shoal.service.keyring.key_list import KeyList
from shoal.service.keyring.schedule import CACHE_SECONDS, ROLES, Role
from shoal.service.survey import Party

_KEPT = "what was shown is kept in the outbox"


@dataclass(frozen=True)
class _Shown:
    """A party's list, and where it is shown: ``place`` is one for all surveys of two parties."""

    role: Role
    party: Party
    url: str
    place: str


@dataclass(frozen=True)
class KeySource:
    """Where a client has its keys from."""

    outbox: Outbox
    clock: Clock
    compare: bool = False

    def keys(self, route: Route, *, fresh: bool = False) -> Talk[Keys | Later]:
        """Keys of both parties, or why there are none now; ``fresh`` asks even if some are kept."""
        found: dict[Role, PublicKey] = {}
        for role in ROLES:
            key = yield from self._key(route, role, fresh=fresh)
            if isinstance(key, Later):
                return key
            found[role] = key
        if self.compare:
            for role, key in found.items():
                unequal = yield from self._compare(route, role, key)
                if unequal is not None:
                    return unequal
        return Keys(found["analyzer"], found["shuffler"])

    def _key(self, route: Route, role: Role, *, fresh: bool) -> Talk[PublicKey | Later]:
        shown = _at_the_shuffler(route, role)
        found = yield from self._list(shown, fresh=fresh)
        if isinstance(found, Later):
            return found
        try:
            return found.current(route.suite, self.clock())
        except ShoalError as error:
            raise KeysRefusedError(role, shown.party.url, str(error)) from error

    def _list(self, shown: _Shown, *, fresh: bool) -> Talk[KeyList | Later]:
        now = self.clock()
        kept = self.outbox.keys.fresh(shown.place, shown.party.fingerprint, now)
        if kept is not None and not fresh:
            return self._verified(kept, shown)
        came = yield from asked(Ask(shown.url))
        if isinstance(came, Silence):
            return _later(shown, came.reason, 0.0)
        if came.status != 200:
            return _later(shown, refused(came), retry_after(came))
        return self._accepted(came, shown)

    def _accepted(self, came: Reply, shown: _Shown) -> KeyList:
        found = self._verified(came.body, shown)
        until = min(self.clock() + min(max_age(came), CACHE_SECONDS), found.valid_until)
        try:
            self.outbox.keys.take(shown.place, found, until)
        except ContradictionError as error:
            raise KeysRefusedError(shown.role, shown.party.url, f"{error}; {_KEPT}") from error
        except ShoalError as error:
            raise KeysRefusedError(shown.role, shown.party.url, str(error)) from error
        return found

    def _verified(self, data: bytes, shown: _Shown) -> KeyList:
        try:
            return KeyList.verified(
                data, fingerprint=shown.party.fingerprint, now=self.clock(), role=shown.role
            )
        except ShoalError as error:
            raise KeysRefusedError(shown.role, shown.party.url, str(error)) from error

    def _compare(self, route: Route, role: Role, key: PublicKey) -> Talk[Later | None]:
        shown = _at_the_analyzer(route, role)
        for fresh in (False, True):  # what was kept here may be older than the key
            found = yield from self._list(shown, fresh=fresh)
            if isinstance(found, Later):
                return found
            if any(key == known.public for known in found.keys):
                return None
        reason = f"key {key.number} is not in the list that the analyzer shows"
        raise KeysRefusedError(role, shown.party.url, reason)


def _later(shown: _Shown, why: str, seconds: float) -> Later:
    reason = f"the keys of the {shown.role} cannot be fetched: {why}"
    return Later(reason, unsent=True, retry_after=seconds)


def _party(route: Route, role: Role) -> Party:
    return route.shuffler if role == "shuffler" else route.analyzer


def _at_the_shuffler(route: Route, role: Role) -> _Shown:
    place = f"{role} at {route.shuffler.url}"
    return _Shown(role, _party(route, role), route.keys(role), place)


def _at_the_analyzer(route: Route, role: Role) -> _Shown:
    place = f"{role} at {route.analyzer.url} (compared)"
    return _Shown(role, _party(route, role), route.compared(role), place)
