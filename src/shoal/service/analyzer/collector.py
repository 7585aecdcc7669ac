"""Pulls the batches of one survey, and takes each of them to a published result, once.

For every batch: the name of the request is stored, then the batch is fetched under that name (a
shuffler gives the same bytes to the same request, and nothing to another), opened, counted, entered
into the ledger, published, deleted here, and acknowledged. Each of these is durable before the next
begins, so that whoever comes after a crash goes on where it stopped. One batch that cannot go on
does not keep the others waiting, whatever a shuffler sends, and however slowly it does.

A shuffler that was brought back from a backup may have mixed a batch anew, and may not know that it
was released or acknowledged. It offers such a batch again, and is taken at its word: what is not
here yet is fetched by its new digest, what is published is acknowledged once more.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from threading import Lock

from shoal.errors import ShoalError
from shoal.sealing import MalformedError
from shoal.service import failpoints
from shoal.service.analyzer import schema
from shoal.service.analyzer.arriving import arrive, arrived, checked, discard
from shoal.service.analyzer.collection import Collection, Offer
from shoal.service.analyzer.documents import result_document
from shoal.service.analyzer.opened import admitted, tallied, valid_reports
from shoal.service.analyzer.owners import Owner
from shoal.service.analyzer.source import BatchSource
from shoal.service.analyzer.store import AnalyzerStore
from shoal.service.analyzer.verdict import Verdict, guaranteed, verdict
from shoal.service.closing import Closing
from shoal.service.errors import (
    LeaseLostError,
    NotReadyError,
    ServiceError,
    StoreUnavailableError,
    UnknownBatchError,
)
from shoal.service.keyring import KeyGoneError, Keyring
from shoal.service.opening import Pool
from shoal.service.survey import Survey
from shoal.service.wire import Wire

MOST_WAITING = 10_000  # batches of a survey that were asked for and are not published
PATIENCE = 900.0  # seconds of one pass in which a shuffler is talked to about one survey
_TALKING = (schema.REQUESTED, schema.PUBLISHED)  # what is left then needs the shuffler

_log = logging.getLogger(__name__)


class WrongKeysError(ServiceError):
    """Keys that a survey does not name: everything would seem unopenable."""

    def __init__(self, survey: Survey, found: str) -> None:
        self.named = survey.analyzer.fingerprint
        self.found = found
        super().__init__(
            f"survey {survey.id} names the analyzer with fingerprint {self.named}, these keys are "
            f"{found}; use the directory with the right keys, or restore them: nothing was fetched"
        )


@dataclass(frozen=True)
class Pass:
    """What one pass over all batches of a survey did.

    ``problems`` has the sentence of what kept a batch from going on, by its name; under no name,
    what kept the shuffler's list from coming.
    """

    published: tuple[str, ...] = ()
    refused: tuple[str, ...] = ()
    problems: dict[str, str] = field(default_factory=dict)

    def __bool__(self) -> bool:
        """Whether anything went on."""
        return bool(self.published or self.refused)

    def to_dict(self) -> dict[str, object]:
        """Plain values."""
        return {
            "published": list(self.published),
            "refused": list(self.refused),
            "problems": [
                {"batch": batch or None, "reason": reason}
                for batch, reason in self.problems.items()
            ],
        }


class Collector(Closing):
    """Works on one survey; any number of them may, in any number of processes."""

    def __init__(
        self,
        store: AnalyzerStore,
        keyring: Keyring,
        survey: Survey,
        source: BatchSource,
        pool: Pool,
        *,
        patience: float = PATIENCE,
    ) -> None:
        self._store = store
        self._keyring = keyring
        self._survey = survey
        self.source = source
        self._pool = pool
        self._patience = patience
        self._owner = Owner(store.incoming)
        self._lock = Lock()  # one owner is in one place

    def step(self) -> Pass:
        """Take every batch as far as it goes."""
        if self._survey.analyzer.fingerprint != self._keyring.fingerprint:
            raise WrongKeysError(self._survey, self._keyring.fingerprint)
        with self._lock:
            self._succeed()
            talking_ends = time.monotonic() + self._patience
            problems = self._asked()
            done: dict[str, list[str]] = {schema.PUBLISHED: [], schema.REFUSED: []}
            for found in self._store.collections(self._survey.id):
                late = found.state in _TALKING and time.monotonic() > talking_ends
                if found.finished or late:
                    continue
                try:
                    for state in self._taken(found):
                        done.get(state, []).append(found.batch)
                except StoreUnavailableError:
                    raise
                except ShoalError as error:
                    problems[found.batch] = str(error)
                    self._tell("batch_waits", found, error)
                except Exception as error:  # noqa: BLE001 - of one batch, and others wait
                    problems[found.batch] = unexpected(error)
                    self._tell("batch_fails", found, error)
            return Pass(tuple(done[schema.PUBLISHED]), tuple(done[schema.REFUSED]), problems)

    def close(self) -> None:
        """Leave everything to others."""
        self._owner.close()

    def _succeed(self) -> None:
        """Take over what the dead have left."""
        dead = self._owner.dead()
        if dead:
            self._store.release_owners(dead)
            for name in dead:
                for draft in self._store.incoming.glob(f"*.{name}"):
                    discard(draft)
            self._owner.bury(dead)

    def _asked(self) -> dict[str, str]:
        """Ask for every batch that is new, and see to those that are offered again."""
        try:
            offers = self.source.offers()
        except StoreUnavailableError:
            raise
        except ShoalError as error:
            reason = getattr(error, "word", type(error).__name__)
            said = {"survey": str(self._survey.id), "reason": reason}
            _log.warning("no_list", extra=said, exc_info=error)
            return {"": str(error)}
        except Exception as error:  # noqa: BLE001 - batches that are here go on
            _log.warning("no_list", extra={"survey": str(self._survey.id)}, exc_info=error)
            return {"": unexpected(error)}
        known = {each.batch: each for each in self._store.collections(self._survey.id)}
        room = MOST_WAITING - sum(not _published(each) for each in known.values())
        new = [offer for offer in offers if offer.batch not in known]
        again = [offer for offer in offers if _is_forgotten(known.get(offer.batch), offer)]
        self._store.offered_again(self._survey.id, again)
        for offer in new[: max(room, 0)]:
            self._store.request(self._survey.id, offer)
            failpoints.reached("collect.requested")
        if len(new) <= room:
            return {}
        why = f"{len(new) - max(room, 0):,} more batches wait until fewer are on their way"
        return {"": f"{why}; of one survey there may be {MOST_WAITING:,}"}

    def _taken(self, found: Collection) -> Iterator[str]:
        """The states that the batch comes to here, one after the other."""
        held = self._store.claim(found, self._owner.name)
        if held is None:  # somebody else has it
            return
        steps: dict[str, Callable[[Collection], Collection]] = {
            schema.REQUESTED: self._receive,
            schema.RECEIVED: self._open,
            schema.OPENED: self._debit,
            schema.BUDGETED: self._publish,
            schema.PUBLISHED: self._acknowledge,
        }
        try:
            while not held.finished:
                before, held = held.state, steps[held.state](held)
                if held.state != before:
                    yield held.state
        except LeaseLostError:
            return
        finally:
            self._store.release(held)

    def _receive(self, held: Collection) -> Collection:
        path = arrive(self._store.incoming, held, self.source, self._alive(held))
        try:
            header = checked(path, held, self._survey).header
            self._refuse_gone(header.key)
        except (MalformedError, KeyGoneError) as error:
            discard(path)
            return self._refuse(held, error)
        received = self._store.received(
            held, key=header.key, reports=header.reports, records=header.records
        )
        failpoints.reached("collect.received")
        return received

    def _open(self, held: Collection) -> Collection:
        path = arrived(self._store.incoming, held)
        if not path.exists():  # somebody cleaned up: the same request gets the same bytes
            arrive(self._store.incoming, held, self.source, self._alive(held))
        try:
            batch = checked(path, held, self._survey)
            self._refuse_gone(batch.header.key)
        except MalformedError:
            discard(path)  # it was right when it came, so the disk is not: fetch it again
            raise
        except KeyGoneError as error:
            discard(path)
            return self._refuse(held, error)
        pair = self._keyring.pair(batch.header.key)
        device, wire = self._survey.device, Wire.of(self._survey)
        found = admitted(device, wire, pair, batch.body, pool=self._pool, alive=self._alive(held))
        opened = None
        while opened is None:  # again only if another batch had one of the records meanwhile
            fresh = found.without(self._store.known(held, found.tags))
            valid = valid_reports(fresh, reports=batch.header.reports, slots=wire.slots)
            counts = tallied(device, fresh, valid)
            told = verdict(self._survey, valid, counts)
            opened = self._store.opened(held, fresh, told, counts)
        failpoints.reached("analysis.opened")
        return opened

    def _debit(self, held: Collection) -> Collection:
        debited = self._store.debited(held, self._verdict(held), delta=self._survey.delta)
        failpoints.reached("analysis.debited")
        return debited

    def _publish(self, held: Collection) -> Collection:
        document = result_document(
            self._survey,
            self._verdict(held),
            held.counts,
            received=held.received,
            now=self._store.clock(),
        )
        published = self._store.published(held, document)
        failpoints.reached("analysis.published")
        return published

    def _acknowledge(self, held: Collection) -> Collection:
        discard(arrived(self._store.incoming, held))
        named = (held.batch, held.request, held.digest)
        try:
            self.source.acknowledge(*named)
        except NotReadyError:  # it was brought back from before the release
            with self.source.fetch(held.batch, held.request):
                pass  # its bytes are not needed: that it is ours is known there now
            self.source.acknowledge(*named)
        except UnknownBatchError as error:  # from before the batch was closed: nothing is kept
            self._tell("nothing_to_acknowledge", held, error)
        failpoints.reached("analysis.acknowledged")
        return self._store.acknowledged(held)

    def _verdict(self, held: Collection) -> Verdict:
        """As it was when the batch was opened."""
        survey, valid = self._survey, held.valid or 0
        return Verdict(valid, survey.honest(valid), guaranteed(survey, valid), held.reason)

    def _refuse_gone(self, number: int) -> None:
        """Refuse what will never open. A key that is not there yet may come, or come back."""
        if number in self._keyring.gone():
            self._keyring.pair(number)

    def _refuse(self, held: Collection, error: ShoalError) -> Collection:
        self._tell("batch_refused", held, error)
        return self._store.refused(held, str(error))

    def _alive(self, held: Collection) -> Callable[[], None]:
        """What to call during long work, so that the lease does not end under it."""
        renewed = self._store.clock()

        def renew() -> None:
            nonlocal renewed
            if not 0 <= self._store.clock() - renewed < self._store.lease // 3:
                self._store.renew(held)
                renewed = self._store.clock()

        return renew

    def _tell(self, event: str, about: Collection, error: Exception) -> None:
        said = {"survey": str(self._survey.id), "batch": about.batch}
        _log.warning(event, extra={**said, "reason": type(error).__name__}, exc_info=error)


def unexpected(error: Exception) -> str:
    """What is said of an error that nobody foresaw: its kind, not what it quotes."""
    return f"something unexpected went wrong ({type(error).__name__}); it is tried again"


def _published(found: Collection) -> bool:
    return found.state == schema.PUBLISHED and found.acknowledged


def _is_forgotten(found: Collection | None, offer: Offer) -> bool:
    """Whether a shuffler that offers a batch has forgotten what became of it."""
    if found is None or found.state == schema.REFUSED:
        return False
    return found.acknowledged or found.digest != offer.digest
