"""What a shuffler does between requests: open, close, mix, delete, and fetch lists of keys.

Any number of workers may run on one store, in one process or many. All they know of each other is
in the store: who has claimed what, and until when. A worker that dies leaves claims that others
take over when their lease has run out, seconds later; one that is merely slow renews them.
"""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import KW_ONLY, dataclass, field
from hashlib import sha256
from pathlib import Path
from threading import Event, Thread

import httpx
import numpy as np

from shoal import checks
from shoal.errors import ShoalError
from shoal.sealing import KeyPair
from shoal.sealing.identity import LARGEST_CONFIGURATION
from shoal.service.clock import HOUR, Clock, GracePeriod, system_clock
from shoal.service.db import files
from shoal.service.db.leases import LEASE, Leases
from shoal.service.db.surveys import SurveyRow
from shoal.service.errors import (
    LeaseLostError,
    MissingFileError,
    StoreUnavailableError,
    StoreVersionError,
)
from shoal.service.http import outgoing
from shoal.service.keyring import ContradictionError, KeyList, Keyring, KeyringError
from shoal.service.opening import OpenedReports, Pool, ProcessesLostError
from shoal.service.shuffler.batches import SealedBatch
from shoal.service.shuffler.mixing import MEMORY, Span, mix_records
from shoal.service.shuffler.reports import GATHER, GATHER_REPORTS, NARROWER, Claim, Extent
from shoal.service.shuffler.store import ShufflerStore
from shoal.service.survey import Party, Survey

_SWEEP = 10.0  # seconds between two times that the database's files forget the journal
_LAST_WORD = 1.0  # seconds that a thread has left at the end

_log = logging.getLogger(__name__)

# What can go wrong with any reports, because disk, memory or keys are as they are: it does not
# count. A file that is gone is among them: its disk may come back, the reports would not.
_PASSING = (KeyringError, MissingFileError, StoreVersionError, OSError, MemoryError)
_ENDS_THE_STEP = (StoreUnavailableError, KeyboardInterrupt, SystemExit)
_NOT_THEIR_FAULT = (StoreUnavailableError, LeaseLostError, ProcessesLostError, *_PASSING)
_MOST_UNKNOWN = 8  # keys of an analyzer that nobody has a list of
_DEATHS = 3  # of workers, each after it had opened another report
_MANY = 100  # reports; if none of them opens, somebody should look


# The analyzers' lists of keys
#
# An analyzer that handed out its own keys could give a person a key that nobody else has, and tell
# their report from the others in the batch by the key that opens it. So devices have the analyzer's
# list from the shuffler, who has one, the same for everybody. The analyzer signs it, so that the
# shuffler cannot change it; the shuffler keeps it, so that the analyzer cannot tell people apart by
# it, nor learn who asks. It counts if the identity that the survey names has signed it, and if it
# does not contradict what was seen before (:mod:`shoal.service.db.key_lists`).

LOOK = 2.0  # seconds between two looks at what is due
DEADLINE = 15.0  # seconds that one list may take
_SOON, _LATEST = 1, 600  # seconds until it is tried again
_DOUBLINGS = 10
_NEVER = (-HOUR, 0)  # asked, and failed
_PATH = "/v1/keys"


@dataclass(frozen=True, eq=False)
class KeyListFetcher:
    """Fetches the lists of the analyzers of all surveys that are not over.

    Each every hour, and soon again if that fails.

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


# Work


@dataclass(frozen=True, kw_only=True)
class Pace:
    """How much at a time, and how long between.

    ``reports`` are opened at once; work is claimed for ``lease`` seconds, and renewed while it
    lasts. What fails is tried again after ``retry`` seconds; reports that are to blame when the
    last of ``attempts`` fails become dead letters. An idle worker looks again after ``pause``
    seconds, and deletes files every ``upkeep`` seconds. ``memory`` is how many bytes mixing may
    use. Reports of a survey and key are gathered: opened together when ``gather_reports`` wait, one
    has waited ``gather`` seconds, or a batch could close. Nothing tells their order afterwards.
    """

    reports: int = 20_000
    lease: int = LEASE
    retry: int = 600
    attempts: int = 10
    pause: float = 1.0
    upkeep: int = 60
    memory: int = MEMORY
    gather: float = GATHER
    gather_reports: int = GATHER_REPORTS

    def __post_init__(self) -> None:
        for name in ("reports", "lease", "retry", "attempts", "memory", "gather_reports"):
            checks.count(**{name: getattr(self, name)})
        checks.positive(pause=self.pause)
        checks.count(0, upkeep=self.upkeep)
        checks.non_negative(gather=self.gather)


@dataclass(eq=False)
class ShufflerWorker:
    """One worker; :meth:`step` does one unit of each kind of work that there is.

    While it runs, ``fetcher`` fetches the analyzers' lists of keys. No batch dies, and no
    token is forgotten, while the clock is not ``steady``.
    """

    store: ShufflerStore
    keyring: Keyring
    pool: Pool
    clock: Clock = system_clock
    _: KW_ONLY
    pace: Pace = field(default_factory=Pace)
    fetcher: KeyListFetcher | None = None
    steady: Callable[[], bool] = lambda: True
    monotonic: Callable[[], float] = time.monotonic
    _waiting: GracePeriod[int] = field(init=False)  # extents, by their ids
    _cleaned: int | None = field(default=None, init=False)
    _forgotten: frozenset[int] = field(default=frozenset(), init=False)
    _unerased: list[Extent] = field(default_factory=list, init=False)
    _unswept: bool = field(default=False, init=False)
    _next_sweep: float = field(default=0.0, init=False)

    def __post_init__(self) -> None:
        self._waiting = GracePeriod(self.pace.gather, self.monotonic)

    def run(self, stop: Event) -> None:
        """Work until asked to stop; what fails is tried again later.

        Analyzers that do not answer, or slowly, hold nothing up: they are asked in a thread.
        """
        thread = None
        if self.fetcher is not None:
            thread = Thread(target=self.fetcher.run, args=(stop,), name="key lists", daemon=True)
            thread.start()
        try:
            while not stop.is_set():
                busy = False
                try:
                    busy = self.step()
                except StoreUnavailableError:
                    _log.warning("store_unavailable", exc_info=True)
                except Exception:  # noqa: BLE001 - one failure must not end the worker
                    _log.error("step_failed", exc_info=True)
                if not busy:
                    stop.wait(self.pace.pause)
        finally:
            if thread is not None:
                thread.join(_LAST_WORD)

    def step(self) -> bool:
        """One unit of work of every kind; whether there was any."""
        done = [
            self._keep_keys(),
            self._open(),
            self._erase(),
            self._advance(),
            self._mix(),
            self._clean(),
        ]
        return any(done)

    def _keep_keys(self) -> bool:
        """Let keys pass into their next state; what was kept against replays goes with its key."""
        try:
            deleted = self.keyring.tick(keep=self.store.reports.waiting_keys)
            # Another process may have deleted a key, and ended before it forgot the tags.
            gone = self.keyring.gone() - self._forgotten
        except KeyringError:  # the keys that there are still open what came in
            _log.warning("keys_not_kept", exc_info=True)
            return False
        for number in sorted(gone):
            if self.store.forget_key(number):
                _log.info("key_forgotten", extra={"key": number})
        self._forgotten |= gone
        return bool(deleted)

    def _open(self) -> bool:
        """Open reports that came in, and put what was in them into the open batches."""
        reports = self.store.reports
        due = reports.due(self.pace.gather_reports, self._waiting)
        claim = reports.claim(self.pace.reports, self.pace.lease, due)
        if claim is None:
            return False
        with self._attempt(reports.leases, claim):
            if self._is_deadly(claim):
                self._dead_letter(claim)
            else:
                self._finish(claim)
                self._erase_later(claim)
        return True

    def _dead_letter(self, claim: Claim) -> None:
        _log.error("dead_letter", extra=_about(claim), exc_info=True)
        self.store.reports.dead_letter(claim)
        self._erase_later(claim)

    def _erase_later(self, claim: Claim) -> None:
        self._unerased += claim.extents
        self._unswept = True

    def _is_deadly(self, claim: Claim) -> bool:
        """Whether workers died of reports, time and again, that had just opened another.

        Once an extent has been alone and has failed for long, an attempt counts only after the
        worker has shown that it can open at all: a machine that cannot is not the reports' fault.
        """
        alone_after = -(-self.pace.reports.bit_length() // NARROWER)
        enough = max(self.pace.attempts, alone_after)
        if claim.attempts < enough or claim.key in self.keyring.gone():
            return False
        self.store.reports.recount(claim, -1)
        try:
            self._open_another(claim)
        except (StoreUnavailableError, LeaseLostError, ProcessesLostError):
            raise
        except Exception as error:
            self.store.reports.recount(claim, +1)  # what passes is not counted anyway
            if isinstance(error, _PASSING):
                raise
            raise KeyringError("this machine opens no report that it made itself") from error
        self.store.reports.recount(claim, +1)
        return claim.attempts >= enough + _DEATHS

    def _open_another(self, claim: Claim) -> None:
        row = self.store.surveys.row(claim.survey)
        wire, pair = row.wire, self.keyring.pair(claim.key)
        analyzer = KeyPair.generate(number=0, suite=row.survey.suite).public
        messages = [np.zeros(shape, dtype=np.uint8) for shape in wire.shapes]
        another = wire.seal(*messages, analyzer=analyzer, shuffler=pair.public)
        if self.pool.open_reports(wire, pair, another).rejected:
            text = f"key {claim.key} decrypts nothing; check the keys and this machine"
            raise KeyringError(text)

    def _finish(self, claim: Claim) -> None:
        row, reports = self.store.surveys.row(claim.survey), self.store.reports
        survey = row.survey
        if survey.shuffler.fingerprint != self.keyring.fingerprint:
            message = f"survey {survey.id} names other keys; restore the right ones"
            raise KeyringError(message)
        if claim.key in self.keyring.gone():
            _log.warning("key_gone", extra=_about(claim))
            reports.finish(claim, {})
            return
        known = self.store.key_lists.keys(survey.analyzer.fingerprint)
        opened = self.pool.open_reports(
            row.wire,
            self.keyring.pair(claim.key),
            reports.read(claim),
            known=known or None,
        )
        if not opened.counts and claim.count >= _MANY:
            _log.warning("nothing_opened", extra=_about(claim))
        taken = opened.counts.keys() if known else self._some_keys(survey, opened)
        try:
            records = {key: opened.by_key[key] for key in taken}
            damaged = reports.finish(claim, records, opened.unopened, opened.counts)
        except LeaseLostError:  # the worker was slow: not the fault of the reports
            reports.acquit(claim)
            raise
        if damaged:
            _log.error("reports_damaged", extra=_about(claim))

    def _some_keys(self, survey: Survey, opened: OpenedReports) -> list[int]:
        """The keys to open batches for, while nobody knows which ones the analyzer has."""
        begun = self.store.batches.inner_keys(survey.id)
        new = sorted(opened.counts.keys() - begun, key=lambda key: -opened.counts[key])
        allowed = max(0, _MOST_UNKNOWN - len(begun))
        return [*(opened.counts.keys() & begun), *new[:allowed]]

    def _erase(self) -> bool:
        """Leave nothing of what was gathered; what others hold up now is tried at the next step."""
        reports, now = self.store.reports, self.monotonic()
        try:
            if self._unerased:
                self._unerased = reports.segments.erase(self._unerased, reports.needed)
            if self._unswept and now >= self._next_sweep:
                self._next_sweep = now + _SWEEP
                self._unswept = not reports.sweep()
                if self._unswept:
                    self._next_sweep = now
        except StoreUnavailableError:
            _log.warning("not_erased", exc_info=True)
        return False

    def _advance(self) -> bool:
        """Close the batches that are due."""
        changes = self.store.batches.advance(expire=self.steady())
        for change in changes:
            _log.info("batch_closed", extra={"batch": change.batch, "state": str(change.state)})
        return bool(changes)

    def _mix(self) -> bool:
        """Mix one closed batch into the file that will be released."""
        batch = self.store.batches.claim(self.pace.lease)
        if batch is None:
            return False
        with self._attempt(self.store.batches.leases, batch):
            try:
                self._write(batch)
            except BaseException:
                files.remove([batch.draft])  # half a batch, on a disk that may be full
                raise
            finally:
                files.remove([batch.filling])
        return True

    def _write(self, batch: SealedBatch) -> None:
        """The header, then every section in an order of its own."""
        digest, row = sha256(), self.store.surveys.row(batch.header.survey)
        wire, parts = row.wire, [Span.whole(path) for path in batch.parts]
        if row.survey.uneven is not None:
            parts.append(Span.whole(self._fill(batch, row, parts, row.survey.uneven.padding)))
        with os.fdopen(files.create(batch.draft), "wb") as draft:
            header = batch.header.to_bytes()
            draft.write(header)
            digest.update(header)
            for section in wire.sections:
                spans = parts
                if wire.absent is None:
                    end = wire.opened_bytes
                    spans = [part.part(section.start, section.end, end) for part in parts]
                mix_records(
                    spans,
                    draft,
                    record_bytes=section.record_bytes,
                    scratch=batch.draft.parent,
                    memory=self.pace.memory,
                    digest=digest,
                )
        self.store.batches.finish(batch, digest.hexdigest())

    def _fill(
        self, batch: SealedBatch, row: SurveyRow, parts: Sequence[Span], padding: bytes
    ) -> Path:
        """A file of records that say nothing, with this message: as many as the batch lacks.

        Its number of records would show how much noise is in it otherwise.
        """
        ((records, size),) = batch.header.sections
        missing = records - sum(part.end - part.start for part in parts) // size
        key = self.store.key_lists.public_key(row.survey.analyzer.fingerprint, batch.header.key)
        if key is None:
            text = f"the analyzer's list of keys has no key {batch.header.key}: the batch waits"
            raise KeyringError(text)
        (section,) = row.wire.sections
        copies = self.pool.seal_copies(section, padding, key, missing)
        with os.fdopen(files.create(batch.filling), "wb") as file:
            file.writelines(copies)
        return batch.filling

    def _clean(self) -> bool:
        """Delete files that nobody needs."""
        now = self.clock()
        if self._cleaned is not None and 0 <= now - self._cleaned < self.pace.upkeep:
            return False
        self._cleaned = now
        self.store.tokens.forget_ended(believed=self.steady())
        return bool(self.store.batches.purge() + self.store.garbage.collect())

    @contextmanager
    def _attempt(self, leases: Leases, work: Claim | SealedBatch) -> Iterator[None]:
        """An attempt on work, whose lease is kept meanwhile; whatever goes wrong stays with it.

        What may happen to any work does not count. What failed together is claimed in smaller
        pieces, until the guilty are alone, and given up in the last of their attempts. Processes
        that somebody killed are there again, so what kills them comes again after a moment.
        """
        owner, rows = work.owner, work.rows
        claim = work if isinstance(work, Claim) else None
        try:
            with leases.renewed(owner, self.pace.lease, rows=rows):
                try:
                    yield
                except Exception as error:
                    if claim is None or not self._is_guilty(claim, error):
                        raise
                    self.store.id.check()
                    self._dead_letter(claim)
        except LeaseLostError:
            _log.warning("lease_lost", extra=_about(work))
        except (Exception, KeyboardInterrupt, SystemExit) as error:
            ends = isinstance(error, _ENDS_THE_STEP)
            wait = self.pace.lease if isinstance(error, ProcessesLostError) else self.pace.retry
            with suppress(ShoalError):
                if claim is not None and isinstance(error, _ENDS_THE_STEP + _PASSING):
                    self.store.reports.recount(claim, -1)
                if ends:
                    leases.release(owner, rows=rows)
                else:
                    leases.put_off(owner, wait, rows=rows)
            if ends:
                raise
            _log.error("work_failed", extra=_about(work), exc_info=True)

    def _is_guilty(self, claim: Claim, error: Exception) -> bool:
        """Whether reports are to blame for what went wrong, alone, and were tried often enough."""
        alone = len(claim.extents) == 1 and claim.attempts + 1 >= self.pace.attempts
        return alone and not isinstance(error, _NOT_THEIR_FAULT)


def _about(work: Claim | SealedBatch) -> dict[str, object]:
    if isinstance(work, Claim):
        return {"survey": str(work.survey), "key": work.key}
    return {"survey": str(work.header.survey), "batch": work.header.batch}
