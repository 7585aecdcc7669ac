"""What an analyzer remembers: surveys, batches on their way, what they cost, what was published.

And which keys are not deleted yet, because a batch may still need them. One that is here, or was
asked for, names its key. Of others only the shuffler knows: one that carries small batches on may
close one long after its key has expired. So while a survey that allows it is open, and until its
last batch can have come, the keys that its devices sealed with are kept. A list has room for few
keys: if there are more, the oldest go, or none could take over any more.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path

from shoal.sealing import SurveyId
from shoal.service.analyzer.collection import Collections
from shoal.service.analyzer.ledger import Ledger
from shoal.service.analyzer.results import Results
from shoal.service.analyzer.tables import TRACES, collections, ledger, results
from shoal.service.clock import Clock
from shoal.service.db.database import Database, StoreId
from shoal.service.db.files import create_directory, disk, fresh_name, remove, write_durably
from shoal.service.db.key_lists import KeyLists
from shoal.service.db.leases import LEASE, Leases
from shoal.service.db.surveys import LEFT, Deleted, Surveys
from shoal.service.db.tables import forget_tags, tags
from shoal.service.db.tokens import Tokens
from shoal.service.keyring import Keyring
from shoal.service.keyring.key_list import MOST_KEYS
from shoal.service.survey import Survey

TREE = "analyzer"
PASSES = "passes"
_MINUTE = 60
_OWN = 3  # keys of every suite: the one in use, the one to come, and the one that expired last


@dataclass(frozen=True)
class LastPasses:
    """When all batches of a shuffler were last gone through, to the minute: a file for each.

    A shuffler that answers slowly, or not at all, shows by that; so does an analyzer that hangs.
    """

    directory: Path
    _noted: dict[Path, int] = field(default_factory=dict, init=False, repr=False, compare=False)

    def note(self, shuffler: str, now: int) -> None:
        """A pass has ended now."""
        path = self.directory / sha256(shuffler.encode()).hexdigest()
        if 0 <= now - self._noted.get(path, -_MINUTE) < _MINUTE:
            return
        with disk("noting a pass"):
            draft = create_directory(self.directory) / fresh_name()
            write_durably(draft, str(now).encode())
            draft.replace(path)
        self._noted[path] = now

    def ages(self, surveys: Iterable[Survey], now: int) -> dict[str, float]:
        """Seconds since then, of every shuffler that may still close a batch; infinite for none.

        What a wrong clock noted ahead of time is as old as it is ahead.
        """
        living = (each for each in surveys if now <= each.not_after + each.batches.max_age)
        ages: dict[str, float] = {}
        for url in sorted({survey.shuffler.url for survey in living}):
            path = self.directory / sha256(url.encode()).hexdigest()
            try:
                ages[url] = abs(now - int(path.read_bytes()))
            except (FileNotFoundError, ValueError):
                ages[url] = math.inf
        return ages


class AnalyzerStore:
    """The store of one analyzer; ``key_lists`` are the shufflers', for people to compare.

    The directory ``incoming`` has batches that are not counted yet. ``lease`` is how many seconds
    a batch stays with whoever worked on it and died.
    """

    def __init__(
        self, database: Database, directory: Path, clock: Clock, *, lease: int = LEASE
    ) -> None:
        database.require(TREE)
        self.id = StoreId(database, create_directory(directory))
        self.id.settle(holds=False, refers=False)  # what is fetched can be fetched again
        self._database = database
        self.clock = clock
        self.incoming = create_directory(directory / "incoming")
        self.last_passes = LastPasses(directory / PASSES)
        self.surveys = Surveys(database, TRACES)
        self.tokens = Tokens(database, clock, self.surveys)
        self.key_lists = KeyLists(database, clock)
        leases = Leases(database, collections, clock)
        self.collections = Collections(database, self.surveys, leases, lease)
        self.ledger = Ledger(database, self.surveys, self.collections)
        self.results = Results(database, self.surveys, self.collections, self.ledger)

    def needed_keys(self, keyring: Keyring) -> frozenset[int]:
        """The numbers of all keys that must not be deleted now."""
        keys, now = keyring.list().keys, self.clock()
        waiting = self.collections.keys_in_use() & {key.number for key in keys}
        carried = {
            key.number
            for survey in self.surveys.all()
            if survey.batches.small == "carry"
            and now <= survey.not_after + survey.batches.max_age + keyring.schedule.expired
            for key in keys
            if key.suite == survey.suite
            and key.expires_at >= survey.not_before
            and key.active_from <= survey.not_after
        }
        first = [*sorted(waiting, reverse=True), *sorted(carried - waiting, reverse=True)]
        return frozenset(first[: most_needed(keyring)])

    def delete_survey(self, survey: SurveyId) -> Deleted:
        """Delete all data of a survey that is over, its results too, and the survey."""
        row = self.surveys.ended(survey, self.clock())
        counts = {"tags": forget_tags(self._database, (tags,), "survey", row.number)}
        with self._database.write() as connection:
            for table in (results, ledger, collections, tags):
                deleted = connection.execute(table.delete().where(table.c.survey == row.number))
                counts[table.name] = counts.get(table.name, 0) + deleted.rowcount
            counts["tokens"] = self.surveys.forget(connection, row.number, survey)
        with disk("deleting a batch"):
            counts["files"] = remove(self.incoming.glob(f"{row.number}-*"))
        left = (*LEFT, *self._database.dialect.left, "what readers have downloaded")
        return Deleted(counts, left)

    def forget_key(self, key: int) -> int:
        """Forget the tags of a key that was deleted: what it sealed cannot be opened any more."""
        return forget_tags(self._database, (tags,), "key", key)


def most_needed(keyring: Keyring) -> int:
    """How many keys are kept for batches, beside those in use."""
    return max(1, MOST_KEYS - _OWN * len(keyring.suites))


def longest_carried(keyring: Keyring) -> int:
    """For how many seconds a survey may carry batches on before the oldest keys have to go."""
    return most_needed(keyring) * keyring.schedule.active
