"""Pulls the batches of every survey, and takes each of them to a published result, once.

For every batch: the name of the request is stored, then the batch is fetched under that name (a
shuffler gives the same bytes to the same request, and nothing to another), opened, counted, entered
into the ledger, published, deleted here, and acknowledged. Each of these is durable before the next
begins, so that whoever comes after a crash goes on where it stopped, once the lease of the dead is
over. One batch that cannot go on
does not keep the others waiting, whatever a shuffler sends, and however slowly it does.

A batch that no honest crowd can have sent is held instead of published, until :func:`release`.

A shuffler that was brought back from a backup may have mixed a batch anew, and may not know that it
was released or acknowledged. It offers such a batch again, and is taken at its word: what is not
here yet is fetched by its new digest, what is published is acknowledged once more.
"""

from __future__ import annotations

import logging
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, suppress
from dataclasses import KW_ONLY, dataclass, field
from functools import partial
from pathlib import Path
from threading import Event, Thread
from typing import TYPE_CHECKING, Any

from shoal.errors import InvalidArgumentError, RefusedError, ShoalError
from shoal.sealing import MalformedError, SurveyId
from shoal.service import failpoints
from shoal.service.analyzer.collection import (
    Budgeted,
    Collection,
    Held,
    Opened,
    Published,
    Received,
    Requested,
)
from shoal.service.analyzer.decode import LocalRecords, Records, decode, joined
from shoal.service.analyzer.ledger import ReleaseDecision, guaranteed, release_decision
from shoal.service.analyzer.results import result_document
from shoal.service.analyzer.source import HttpSource, discard, download, path_of
from shoal.service.analyzer.store import AnalyzerStore
from shoal.service.analyzer.tables import HELD, PUBLISHED, RECEIVED, REFUSED, REQUESTED
from shoal.service.batch_file import BatchFile
from shoal.service.clock import HOUR, Clock, system_clock
from shoal.service.db.files import disk
from shoal.service.db.leases import LEASE
from shoal.service.errors import (
    LeaseLostError,
    NotReadyError,
    StoreUnavailableError,
    UnknownError,
)
from shoal.service.keyring import KeyGoneError, KeyList, Keyring, KeyringError
from shoal.service.opening import Pool
from shoal.service.survey import Survey
from shoal.service.wire import Section, Wire

if TYPE_CHECKING:
    from shoal.service.analyzer.cluster import Cluster

INTERVAL = 30.0
MOST_WAITING = 10_000  # batches of a survey that were asked for and are not published
TALK_SECONDS = 900.0  # of one pass in which a shuffler is talked to about one survey
_TALKING = (REQUESTED, PUBLISHED, HELD)  # what is left then needs the shuffler
_WHILE_LEASED = 1.0  # seconds between two looks at work that somebody else has
_AFTER_FAILURE = 10.0  # seconds

_log = logging.getLogger(__name__)

Sources = Callable[[Survey], HttpSource]


@dataclass(frozen=True)
class Pass:
    """What one pass over all batches of a survey did.

    ``problems`` has the sentence of what kept a batch from going on, by its name; under no name,
    what kept the shuffler's list from coming. Somebody else works on ``leased`` batches, or died.
    """

    published: tuple[str, ...] = ()
    refused: tuple[str, ...] = ()
    held: tuple[str, ...] = ()
    problems: dict[str, str] = field(default_factory=dict)
    leased: int = 0

    def __bool__(self) -> bool:
        """Whether anything went on."""
        return bool(self.published or self.refused or self.held)

    def to_dict(self) -> dict[str, object]:
        """Plain values."""
        return {
            "published": list(self.published),
            "refused": list(self.refused),
            "held": list(self.held),
            "problems": [
                {"batch": batch or None, "reason": reason}
                for batch, reason in self.problems.items()
            ],
        }


@dataclass(frozen=True)
class Collector:
    """Works on one survey; any number of them may, in any number of processes.

    Records are opened in the processes of the ``pool``, or by a ``cluster``. No further batch is
    begun once it is ``stopped``.
    """

    store: AnalyzerStore
    keyring: Keyring
    survey: Survey
    source: HttpSource
    pool: Pool
    talk_seconds: float = TALK_SECONDS
    cluster: Cluster | None = None
    stopped: Callable[[], bool] = lambda: False

    def step(self) -> Pass:
        """Take every batch as far as it goes."""
        if self.survey.analyzer.fingerprint != self.keyring.fingerprint:
            named = self.survey.analyzer.fingerprint
            raise RefusedError(
                f"survey {self.survey.id} names the analyzer with fingerprint {named}, these keys "
                f"have {self.keyring.fingerprint}",
                advice="use the directory with the right keys, or restore them: nothing was "
                "fetched",
            )
        talking_ends = time.monotonic() + self.talk_seconds
        problems = self._request()
        done: dict[str, list[str]] = {PUBLISHED: [], REFUSED: [], HELD: []}
        leased = 0
        for waiting in self.store.collections.of(self.survey.id):
            late = waiting.state in _TALKING and time.monotonic() > talking_ends
            if waiting.finished or late or self.stopped():
                continue
            try:
                collection = self.store.collections.claim(waiting)
                if collection is None:
                    leased += 1
                    continue
                for state in self._advance(collection):
                    done.get(state, []).append(waiting.batch)
            except StoreUnavailableError:
                raise
            except Exception as error:  # noqa: BLE001 - of one batch, and others wait
                problems[waiting.batch] = problem(error)
                event = "batch_waits" if isinstance(error, ShoalError) else "batch_fails"
                _warn(event, error, survey=self.survey, batch=waiting.batch)
        published, refused, held = (tuple(batches) for batches in done.values())
        return Pass(published, refused, held, problems, leased)

    def _request(self) -> dict[str, str]:
        """Ask for every batch that is new, and see to those that are offered again."""
        try:
            offers = self.source.offers()
        except StoreUnavailableError:
            raise
        except Exception as error:  # noqa: BLE001 - batches that are here go on
            if self.stopped():  # nobody waited for it
                return {"": str(error)}
            word = getattr(error, "word", type(error).__name__)
            _warn("no_list", error, survey=self.survey, reason=word)
            return {"": problem(error)}
        known = {each.batch: each for each in self.store.collections.of(self.survey.id)}
        done = sum(each.acknowledged for each in known.values())
        left = MOST_WAITING - (len(known) - done)
        new = [offer for offer in offers if offer.batch not in known]
        pairs = [(offer, known[offer.batch]) for offer in offers if offer.batch in known]
        again = [  # a shuffler that offers these has forgotten what became of them
            offer
            for offer, each in pairs
            if each.state != REFUSED and (each.acknowledged or each.digest != offer.digest)
        ]
        if again:
            self.store.collections.offered_again(self.survey.id, again)
        for offer in new[: max(left, 0)]:
            self.store.collections.request(self.survey.id, offer)
            failpoints.reached("collect.requested")
        if len(new) <= left:
            return {}
        why = f"{len(new) - max(left, 0):,} more batches wait until fewer are in progress"
        return {"": f"{why}; one survey may have {MOST_WAITING:,} in progress"}

    def _advance(self, collection: Collection) -> Iterator[str]:
        """The states that the batch comes to here, one after the other."""
        steps: dict[type[Collection], Callable[[Any], Collection]] = {
            Requested: self._receive,
            Received: self._open,
            Opened: self._debit,
            Budgeted: self._publish,
            Held: self._acknowledge,
            Published: self._acknowledge,
        }
        leases, owner = self.store.collections.leases, str(collection.owner)
        try:
            with leases.renewed(owner, self.store.collections.lease):
                while not collection.finished:
                    before, collection = collection.state, steps[type(collection)](collection)
                    if collection.state != before:
                        yield collection.state
        except LeaseLostError:
            return
        finally:
            if not collection.finished:  # or it ended with the last step
                with suppress(LeaseLostError):
                    leases.release(owner)

    def _receive(self, collection: Requested) -> Collection:
        path = download(self.store.incoming, collection, self.source)
        try:
            header = self._checked(path, collection).header
        except (MalformedError, KeyGoneError) as error:
            return self._refuse(collection, path, error)
        values = {"key": header.key, "reports": header.reports, "records": header.records}
        received = self.store.collections.move(collection, RECEIVED, **values)
        failpoints.reached("collect.received")
        return received

    def _open(self, collection: Received) -> Collection:
        path = path_of(self.store.incoming, collection)
        if not path.exists():  # somebody cleaned up: the same request gets the same bytes
            download(self.store.incoming, collection, self.source)
        try:
            batch = self._checked(path, collection)
        except MalformedError:
            discard(path)  # it was right when it came, so the disk is not: fetch it again
            raise
        except KeyGoneError as error:
            return self._refuse(collection, path, error)
        survey, pair = self.survey, self.keyring.pair(batch.header.key)
        parts = zip(survey.devices, Wire.of(survey).sections, batch.sections, strict=True)
        sections: list[Records] = [LocalRecords(*part, pair, self.pool) for part in parts]
        if self.cluster is not None:
            numbers = range(len(sections))
            sections = [self.cluster.records(survey, i, batch.header, path) for i in numbers]
        reports, opened = batch.header.reports, None
        replayed = partial(self.store.collections.replayed, collection)
        while opened is None:  # again only if another batch had one of the records meanwhile
            admitted = [decode(records, replayed) for records in sections]
            tallied = [
                section.tallied(reports=reports, slots=device.slots)
                for section, device in zip(admitted, survey.devices, strict=True)
            ]
            # Each question has its own crowd; the guarantee is for the smallest.
            valid = min(count for count, _ in tallied)
            counts = tuple(each for _, each in tallied if each is not None)
            if len(counts) < len(tallied):
                counts = ()
            decision = release_decision(survey, valid, counts, reports=reports)
            opened = self.store.collections.opened(
                collection,
                joined(admitted),
                counts,
                valid=valid,
                withheld=decision.withheld,
                warning=decision.warning,
            )
        failpoints.reached("analysis.opened")
        return opened

    def _debit(self, collection: Opened) -> Collection:
        debited = self.store.ledger.debit(collection, _decision(self.survey, collection))
        failpoints.reached("analysis.debited")
        return debited

    def _publish(self, collection: Budgeted) -> Collection:
        if collection.warning is None:
            return _published(self.store, self.survey, collection)
        held = self.store.collections.move(collection, HELD)
        _warn("batch_held", survey=self.survey, batch=held.batch)
        failpoints.reached("analysis.held")
        return held

    def _acknowledge(self, collection: Collection) -> Collection:
        discard(path_of(self.store.incoming, collection))
        named = (collection.batch, collection.request, collection.digest)
        try:
            self.source.acknowledge(*named)
        except NotReadyError:  # it was brought back from before the release
            with self.source.fetch(collection.batch, collection.request):
                pass  # its bytes are not needed: that it is ours is known there now
            self.source.acknowledge(*named)
        except UnknownError as error:  # from before the batch was closed: nothing is kept
            _warn("nothing_to_acknowledge", error, survey=self.survey, batch=collection.batch)
        failpoints.reached("analysis.acknowledged")
        return self.store.collections.move(collection, collection.state, acknowledged=1)

    def _checked(self, path: Path, collection: Collection) -> BatchFile:
        """The batch in a file, if it is one of this survey and says no more than it holds.

        What will never open is refused. A key that is not there yet may come, or come back. One
        that is fetched again may be mixed anew, but has the same key: its tags are kept under it.
        """
        with disk("reading a batch"):
            batch = BatchFile.read(path)
        survey, wire, header = self.survey, Wire.of(self.survey), batch.header
        questions = len(wire.sections)
        key = collection.key if isinstance(collection, Received) else None
        for fits, expected, actual in (
            (header.survey == survey.id, f"survey {survey.id}", header.survey),
            (header.batch == collection.batch, f"batch {collection.batch}", header.batch),
            (
                key is None or header.key == key,
                f"records for key {key}, as when it was received",
                header.key,
            ),
            (len(header.sections) == questions, f"{questions} sections", len(header.sections)),
            *(
                check
                for section, full, shape in zip(
                    wire.sections, survey.records(header.reports), header.sections, strict=False
                )
                for check in _section_checks(section, header.reports, full, *shape)
            ),
        ):
            if not fits:
                raise MalformedError("the batch", f"{expected}, got {actual}")
        if header.key in self.keyring.gone():
            self.keyring.pair(header.key)
        return batch

    def _refuse(self, collection: Collection, path: Path, error: ShoalError) -> Collection:
        discard(path)
        _warn("batch_refused", error, survey=self.survey, batch=collection.batch)
        return self.store.collections.move(collection, REFUSED, reason=str(error))


def _section_checks(
    section: Section, reports: int, full: int, records: int, size: int
) -> Iterator[tuple[bool, str, object]]:
    """Whether a section holds what it should, what that is, and what it holds.

    ``full`` records, or a multiple where reports leave slots out and there were too many.
    """
    ratio = f"{records} of {reports} reports"
    yield size == section.record_bytes, f"records of {section.record_bytes} bytes", size
    if section.absent is None:
        yield records == full, f"{section.slots} records per report", ratio
    else:
        yield not records % full, f"a multiple of {full} records", ratio


def release(store: AnalyzerStore, survey: Survey, batch: str) -> Collection:
    """Publish a batch that is held, as its operator has looked into it; nobody does it twice."""
    collection = store.collections.claim(store.collections.find(survey.id, batch))
    if collection is None:
        raise NotReadyError(f"batch {batch}", "another process is working on it", retry_after=LEASE)
    try:
        if not isinstance(collection, Held):
            expected = f"a held batch; this one is {collection.state}"
            raise InvalidArgumentError("release", batch, expected)
        published = _published(store, survey, collection)
    finally:
        with suppress(LeaseLostError):
            store.collections.leases.release(str(collection.owner))
    _warn("batch_released", survey=survey, batch=batch)
    return published


def _published(store: AnalyzerStore, survey: Survey, collection: Opened) -> Collection:
    document = result_document(survey, _decision(survey, collection), collection)
    published = store.results.publish(collection, document, now=store.clock())
    failpoints.reached("analysis.published")
    return published


def _decision(survey: Survey, collection: Opened) -> ReleaseDecision:
    """As it was when the batch was opened."""
    valid = collection.valid
    honest, guarantee = survey.honest(valid), guaranteed(survey, valid)
    return ReleaseDecision(valid, honest, guarantee, collection.reason, collection.warning)


def _warn(
    event: str, error: Exception | None = None, *, survey: Survey | None = None, **about: str
) -> None:
    """Write down what happened, of which survey, and of an error its kind."""
    about |= {"survey": str(survey.id)} if survey is not None else {}
    about = {"reason": type(error).__name__, **about} if error is not None else about
    _log.warning(event, extra=about, exc_info=error)


def problem(error: Exception) -> str:
    """Why a batch waits; of an error that nobody foresaw its kind, not what it quotes."""
    if isinstance(error, ShoalError):
        return str(error)
    return f"something unexpected went wrong ({type(error).__name__}); it will be tried again"


@dataclass
class AnalyzerWorker(AbstractContextManager["AnalyzerWorker"]):
    """Collects for all surveys of a store; ``sources`` gives the shuffler of each.

    ``interval`` is how many seconds it waits after a pass in which nothing went on. No token is
    forgotten while the clock is not ``steady``.
    """

    store: AnalyzerStore
    keyring: Keyring
    sources: Sources
    pool: Pool
    _: KW_ONLY
    clock: Clock = system_clock
    interval: float = INTERVAL
    steady: Callable[[], bool] = lambda: True
    cluster: Cluster | None = None
    _collectors: dict[SurveyId, Collector] = field(default_factory=dict, init=False)
    _key_lists: dict[str, int] = field(default_factory=dict, init=False)
    _gone: frozenset[int] = field(default=frozenset(), init=False)
    _tidied: int = field(default=-HOUR, init=False)
    _closed: Event = field(default_factory=Event, init=False)

    def step(self) -> bool:
        """One pass over everything; whether anything went on."""
        return any(self.collect().values())

    def collect(self, surveys: Sequence[Survey] | None = None) -> dict[str, Pass]:
        """One pass over the batches of these surveys, or of all; by the survey's name.

        What goes wrong with one of them is in its own pass, and keeps no other waiting.
        """
        known = self._tend()
        shufflers: dict[str, list[Survey]] = defaultdict(list)
        for survey in known if surveys is None else surveys:
            shufflers[survey.shuffler.url].append(survey)
        with ThreadPoolExecutor(max(1, len(shufflers))) as threads:
            try:
                passes = list(threads.map(self._passes, shufflers.values()))
            except (KeyboardInterrupt, SystemExit):
                self.close()  # or the threads would wait for shufflers that answer slowly
                raise
        return {name: done for each in passes for name, done in each.items()}

    def _passes(self, surveys: Sequence[Survey]) -> dict[str, Pass]:
        """One pass over surveys of one shuffler, by their names; noted if all lists came."""
        passes = {str(survey.id): self._pass(survey) for survey in surveys}
        now = self.clock()
        living = [each for each in surveys if now <= each.not_after + each.batches.max_age]
        if living and not any("" in passes[str(each.id)].problems for each in living):
            with suppress(StoreUnavailableError):  # then its age grows, which is told
                self.store.last_passes.note(living[0].shuffler.url, now)
        return passes

    def _pass(self, survey: Survey) -> Pass:
        try:
            if survey.id not in self._collectors:
                source, stopped = self.sources(survey), self._closed.is_set
                self._collectors[survey.id] = Collector(
                    self.store,
                    self.keyring,
                    survey,
                    source,
                    self.pool,
                    cluster=self.cluster,
                    stopped=stopped,
                )
                if stopped():  # who closes may not have seen this one
                    source.close()
            done = self._collectors[survey.id].step()
            self._fetch_key_list(survey)
        except Exception as error:  # noqa: BLE001 - of one survey, and others wait
            _warn("survey_waits", error, survey=survey)
            done = Pass(problems={"": problem(error)})
        return done

    def run(self, stop: Event) -> None:
        """Work until told to stop, on every shuffler in a thread of its own.

        So no shuffler keeps another's surveys waiting, however slowly it answers. At the end nobody
        waits for an answer any more; what else was begun is finished.
        """
        threads: dict[str, Thread] = {}
        try:
            while not stop.is_set():
                try:
                    for url in {survey.shuffler.url for survey in self._tend()} - threads.keys():
                        thread = Thread(target=self._follow, args=(url, stop), name="collecting")
                        thread.start()
                        threads[url] = thread
                except Exception as error:  # noqa: BLE001 - it is tried again
                    _warn("analyzer_waits", error)
                stop.wait(self.interval)
        finally:
            self.close()
            for thread in threads.values():
                thread.join()

    def _follow(self, url: str, stop: Event) -> None:
        """Pass over the surveys of a shuffler until told to stop.

        What is unavailable for a while is tried again. A defect is written down and ends nothing.
        """
        while not stop.is_set():
            wait = self.interval
            try:
                mine = [survey for survey in self.store.surveys.all() if survey.shuffler.url == url]
                passes = self._passes(mine).values()
                if any(passes):
                    continue
                if any(each.leased for each in passes):  # whoever has them may have died
                    wait = min(wait, _WHILE_LEASED)
            except ShoalError as error:
                _warn("analyzer_waits", error)
            except Exception:  # noqa: BLE001 - whatever it was, batches have to be collected
                _log.exception("collecting_failed")
                wait = _AFTER_FAILURE
            stop.wait(wait)

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Leave everything to others, and wait for no answer any more; called from any thread."""
        self._closed.set()
        for collector in [*self._collectors.values()]:
            collector.source.close()

    def _tend(self) -> list[Survey]:
        """See to keys and tokens, whose time passes; all surveys.

        Keys that batches may still need are kept until these are open.
        """
        surveys, now = self.store.surveys.all(), self.clock()
        try:
            self.keyring.tick(keep=partial(self.store.needed_keys, self.keyring))
        except KeyringError as error:  # an identity that is elsewhere signs later: batches go on
            _warn("keys_wait", error)
        # What is gone of other keys says nothing about what these surveys counted.
        if all(each.analyzer.fingerprint == self.keyring.fingerprint for each in surveys):
            gone = self.keyring.gone()
            for number in sorted(gone - self._gone):
                self.store.forget_key(number)
            self._gone = gone
        if not 0 <= now - self._tidied < HOUR:
            self.store.tokens.forget_ended(believed=self.steady())
            self._tidied = now
        return surveys

    def _fetch_key_list(self, survey: Survey) -> None:
        """Keep the shuffler's list of keys, so that people can see whether theirs is the same."""
        name, now = survey.shuffler.fingerprint, self.clock()
        if 0 <= now - self._key_lists.get(name, -HOUR) < HOUR:
            return
        try:
            document = self._collectors[survey.id].source.keys()
            if document is not None:
                key_list = KeyList.verified(document, fingerprint=name, now=now, role="shuffler")
                self.store.key_lists.keep(key_list)
        except StoreUnavailableError:
            raise
        except ShoalError as error:
            _warn("no_copy_of_keys", error)
        self._key_lists[name] = now
