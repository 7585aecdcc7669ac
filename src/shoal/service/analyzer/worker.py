"""The analyzer's work, again and again: keys in time, then every survey's batches."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager
from functools import partial
from threading import Event

from shoal.errors import ShoalError
from shoal.service.analyzer.collect import Collector, Pass, unexpected
from shoal.service.analyzer.key_retention import needed_keys
from shoal.service.analyzer.source import BatchSource
from shoal.service.analyzer.store import AnalyzerStore
from shoal.service.clock import HOUR, Clock, system_clock
from shoal.service.errors import StoreUnavailableError
from shoal.service.keyring import KeyList, Keyring, KeyringError
from shoal.service.opening import Pool
from shoal.service.survey import Survey

INTERVAL = 30.0

_log = logging.getLogger(__name__)

Sources = Callable[[Survey], BatchSource]


class AnalyzerWorker(AbstractContextManager["AnalyzerWorker"]):
    """Collects for all surveys of a store; ``sources`` gives the shuffler of each.

    ``interval`` is how many seconds it waits after a pass in which nothing went on. No token is
    forgotten while the clock is not ``steady``.
    """

    def __init__(
        self,
        store: AnalyzerStore,
        keyring: Keyring,
        sources: Sources,
        pool: Pool,
        *,
        clock: Clock = system_clock,
        interval: float = INTERVAL,
        steady: Callable[[], bool] = lambda: True,
    ) -> None:
        self._store = store
        self._keyring = keyring
        self._sources = sources
        self._pool = pool
        self._clock = clock
        self._interval = interval
        self._steady = steady
        self._collectors: dict[bytes, Collector] = {}
        self._fetched: dict[str, int] = {}
        self._forgotten: frozenset[int] = frozenset()
        self._tidied = -HOUR

    def step(self) -> bool:
        """One pass over everything; whether anything went on."""
        return any(self.collect().values())

    def collect(self, surveys: Iterable[Survey] | None = None) -> dict[str, Pass]:
        """One pass over the batches of these surveys, or of all; by the survey's name.

        What goes wrong with one of them is in its own pass, and keeps no other waiting.
        """
        known = self._store.surveys.all()
        self._tend_keys(known)
        self._forget_tokens()
        return {
            str(survey.id): self._pass(survey) for survey in (known if surveys is None else surveys)
        }

    def _pass(self, survey: Survey) -> Pass:
        try:
            done = self._collector(survey).step()
            self._fetch_key_list(survey)
        except Exception as error:  # noqa: BLE001 - of one survey, and others wait
            about = {"survey": str(survey.id), "reason": type(error).__name__}
            _log.warning("survey_waits", extra=about, exc_info=error)
            why = str(error) if isinstance(error, ShoalError) else unexpected(error)
            done = Pass(problems={"": why})
        if "" in done.problems:  # asked anew next time: there may be another token by then
            self._drop(survey)
        return done

    def run(self, stop: Event) -> None:
        """Work until told to stop; what is unavailable for a while is tried again."""
        while not stop.is_set():
            wait = self._interval
            try:
                passes = self.collect().values()
                if any(passes):
                    continue
                if any(each.leased for each in passes):  # whoever has them may have died
                    wait = min(wait, self._store.collections.lease)
            except ShoalError as error:
                reason = {"reason": type(error).__name__}
                _log.warning("analyzer_waits", extra=reason, exc_info=error)
            stop.wait(wait)

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Leave everything to others, and close the connections."""
        for collector in self._collectors.values():
            collector.source.close()
        self._collectors.clear()

    def _collector(self, survey: Survey) -> Collector:
        name = survey.id.digest
        if name not in self._collectors:
            self._collectors[name] = Collector(
                self._store, self._keyring, survey, self._sources(survey), self._pool
            )
        return self._collectors[name]

    def _drop(self, survey: Survey) -> None:
        dropped = self._collectors.pop(survey.id.digest, None)
        if dropped is not None:
            dropped.source.close()

    def _tend_keys(self, surveys: Iterable[Survey]) -> None:
        """Keys change in time; those that batches may still need are kept until these are open."""
        try:
            self._keyring.tick(keep=partial(needed_keys, self._store, self._keyring))
        except KeyringError as error:  # an identity that is elsewhere signs later: batches go on
            reason = {"reason": type(error).__name__}
            _log.warning("keys_wait", extra=reason, exc_info=error)
        if any(each.analyzer.fingerprint != self._keyring.fingerprint for each in surveys):
            return  # what is gone of other keys says nothing about what these surveys counted
        gone = self._keyring.gone()
        for number in sorted(gone - self._forgotten):
            self._store.forget_key(number)
        self._forgotten = gone

    def _forget_tokens(self) -> None:
        """Those that ended long ago, now and then."""
        now = self._clock()
        if not 0 <= now - self._tidied < HOUR:
            self._store.tokens.forget_ended(believed=self._steady())
            self._tidied = now

    def _fetch_key_list(self, survey: Survey) -> None:
        """Keep the shuffler's list of keys, so that people can see whether theirs is the same."""
        name, now = survey.shuffler.fingerprint, self._clock()
        if 0 <= now - self._fetched.get(name, -HOUR) < HOUR:
            return
        try:
            document = self._collector(survey).source.keys()
            if document is not None:
                key_list = KeyList.verified(document, fingerprint=name, now=now, role="shuffler")
                self._store.key_lists.keep(key_list)
        except StoreUnavailableError:
            raise
        except ShoalError as error:
            reason = {"reason": type(error).__name__}
            _log.warning("no_copy_of_keys", extra=reason, exc_info=error)
        self._fetched[name] = now
