"""The analyzers' lists of keys, fetched by the shuffler: one of each, the same for everybody.

An analyzer that handed out its own keys could give a person a key that nobody else has, and tell
their report from the others in the batch by the key that opens it. So devices have the analyzer's
list from the shuffler, who has one. The analyzer signs it, so that the shuffler cannot change it;
the shuffler keeps it, so that the analyzer cannot tell people apart by it, nor learn who asks.

A list is fetched every hour, and soon again if that fails. It counts if the identity that the
survey names has signed it, and if it does not contradict what was seen before
(:mod:`shoal.service.db.key_lists`).
"""

from __future__ import annotations

import logging
from dataclasses import dataclass, field
from threading import Event

import httpx

from shoal.errors import ShoalError
from shoal.sealing.identity import LARGEST_CONFIGURATION
from shoal.service.clock import HOUR, Clock, system_clock
from shoal.service.http import outgoing
from shoal.service.keyring import ContradictionError, KeyList
from shoal.service.shuffler.store import ShufflerStore
from shoal.service.survey import Party

LOOK = 2.0  # seconds between two looks at what is due
DEADLINE = 15.0  # seconds that one list may take
_SOON, _LATEST = 1, 600  # seconds until it is tried again
_DOUBLINGS = 10
_NEVER = (-HOUR, 0)  # asked, and failed
_PATH = "/v1/keys"

_log = logging.getLogger(__name__)


@dataclass(frozen=True, eq=False)
class KeyListFetcher:
    """Fetches the lists of the analyzers of all surveys that are not over.

    ``transport`` is one of httpx, for services in the same process.
    """

    store: ShufflerStore
    clock: Clock = system_clock
    transport: httpx.AsyncBaseTransport | None = None
    # When a party was asked, and how often in a row that failed.
    _visits: dict[Party, tuple[int, int]] = field(default_factory=dict, init=False)

    def run(self, stop: Event) -> None:
        """Fetch what is due, until asked to stop; nothing that goes wrong ends it."""
        while not stop.is_set():
            try:
                self.step(stop)
            except Exception:  # noqa: BLE001 - the store is away, or something nobody thought of
                _log.warning("no_copies_of_keys", exc_info=True)
            stop.wait(LOOK)

    def step(self, stop: Event | None = None) -> int:
        """Fetch every list that is due, one after the other; how many of them are new."""
        stop = stop or Event()
        now, new = self.clock(), 0
        open_ones = [survey for survey in self.store.surveys.all() if now <= survey.not_after]
        for party, survey in {survey.analyzer: survey for survey in open_ones}.items():
            about, (asked, failures) = {"survey": str(survey.id)}, self._visits.get(party, _NEVER)
            wait = min(_LATEST, _SOON << min(failures - 1, _DOUBLINGS)) if failures else HOUR
            if stop.is_set() or 0 <= now - asked < wait:  # a clock that was set back waits for none
                continue
            failures += 1
            try:
                document = outgoing.whole(
                    party.url + _PATH,
                    seconds=DEADLINE,
                    largest=LARGEST_CONFIGURATION,
                    transport=self.transport,
                    only_ok=True,
                ).content
                if stop.is_set():  # the store may be closed by now
                    continue
                key_list = KeyList.verified(
                    document, fingerprint=party.fingerprint, now=self.clock(), role="analyzer"
                )
                new += self.store.key_lists.keep(key_list)
                failures = 0
            except ContradictionError as error:
                _log.error("contradicting_keys", extra=about, exc_info=error)
            except ShoalError as error:
                reason = {**about, "reason": type(error).__name__}
                _log.warning("no_copy_of_keys", extra=reason, exc_info=error)
            self._visits[party] = self.clock(), failures
        return new
