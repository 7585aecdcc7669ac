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

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from shoal.errors import ShoalError
from shoal.sealing import PublicKey
from shoal.service.client.errors import KeysRefusedError
from shoal.service.client.exchange import Exchange, NoResponse, Request, Response, Retry
from shoal.service.client.outbox import Outbox, Route
from shoal.service.client.randomize import Keys
from shoal.service.clock import Clock
from shoal.service.keyring import CACHE_SECONDS, ContradictionError, KeyList, Role
from shoal.service.keyring.key_list import ROLES


def key_list_url(route: Route, role: Role) -> str:
    """Where both parties' lists are: at the shuffler, who shows everybody the same."""
    if role == "shuffler":
        return f"{route.shuffler.url}/v1/keys"
    return f"{route.shuffler.url}/v1/surveys/{route.survey}/keys/analyzer"


def _compared_url(route: Route, role: Role) -> str:
    """Where the analyzer shows them, to those who do not mind that it sees them ask."""
    if role == "analyzer":
        return f"{route.analyzer.url}/v1/keys"
    return f"{route.analyzer.url}/v1/keys/shuffler?fingerprint={route.shuffler.fingerprint}"


@dataclass(frozen=True)
class KeyLists:
    """Where a client has its keys from."""

    outbox: Outbox
    clock: Clock
    compare: bool = False

    def keys(self, route: Route, *, fresh: bool = False) -> Exchange[Keys]:
        """Keys of both parties; ``fresh`` asks even if some are kept."""
        keys: dict[Role, PublicKey] = {}
        for role in ROLES:
            key_list = yield from self._fetch(route, role, fresh=fresh)
            with _refusing(route, role):
                keys[role] = key_list.current(route.wire.suite, self.clock())
        if self.compare:
            for role, key in keys.items():
                yield from self._compare(route, role, key)
        return Keys(keys["analyzer"], keys["shuffler"])

    def _compare(self, route: Route, role: Role, key: PublicKey) -> Exchange[None]:
        for fresh in (False, True):  # what was kept here may be older than the key
            key_list = yield from self._fetch(route, role, fresh=fresh, compared=True)
            if any(key == known.public for known in key_list.keys):
                return
        reason = f"key {key.number} is not in the list that the analyzer shows"
        raise KeysRefusedError(role, route.party(role).url, reason)

    def _fetch(
        self, route: Route, role: Role, *, fresh: bool, compared: bool = False
    ) -> Exchange[KeyList]:
        fingerprint = route.party(role).fingerprint
        # One place for all surveys of two parties.
        url, place = key_list_url(route, role), f"{role} at {route.shuffler.url}"
        if compared:
            url, place = _compared_url(route, role), f"{role} at {route.analyzer.url} (compared)"
        document = self.outbox.key_list(place, fingerprint, self.clock())
        response: Response | None = None
        if document is None or fresh:
            response = yield from _answered(url, f"the keys of the {role} cannot be fetched")
            document = response.body
        now = self.clock()
        with _refusing(route, role):
            key_list = KeyList.verified(document, fingerprint=fingerprint, now=now, role=role)
            if response is not None:
                until = min(now + min(response.max_age, CACHE_SECONDS), key_list.valid_until)
                self.outbox.take_key_list(place, key_list, until)
        return key_list


def _answered(url: str, failure: str) -> Exchange[Response]:
    """The response with a list; nothing was sent if there is none."""
    try:
        response: Response = yield Request(url)
    except NoResponse as silence:
        raise Retry(f"{failure}: {silence.reason}", unsent=True) from silence
    if response.status != 200:
        reason = f"{failure}: {response.refusal()}"
        raise Retry(reason, unsent=True, seconds=response.retry_after)
    return response


@contextmanager
def _refusing(route: Route, role: Role) -> Iterator[None]:
    try:
        yield
    except ShoalError as error:
        kept = "; what was shown is kept in the outbox"
        reason = f"{error}{kept if isinstance(error, ContradictionError) else ''}"
        raise KeysRefusedError(role, route.party(role).url, reason) from error
