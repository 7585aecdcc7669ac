"""Everything the shuffler remembers, as one object.

A directory holds segments (sealed reports as they came), parts (sealed records of opened reports)
and batches (shuffled files); the database says which of them count. Several processes may work on
one store: whatever one of them does is one transaction, and long work is claimed by lease.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import sqlalchemy as sa

from shoal.errors import InvalidArgumentError
from shoal.sealing import SurveyId
from shoal.service.clock import Clock
from shoal.service.errors import LeaseLostError
from shoal.service.store import counting, files, leases, schema
from shoal.service.store.advancing import Advancing
from shoal.service.store.copies import Copies
from shoal.service.store.database import Database
from shoal.service.store.forgetting import forget_tags
from shoal.service.store.intake import Intake
from shoal.service.store.openings import Openings, Parts
from shoal.service.store.patience import Doubts, Patience
from shoal.service.store.place import Place
from shoal.service.store.public import Public
from shoal.service.store.releasing import Releasing
from shoal.service.store.room import LEAST_FREE, Room
from shoal.service.store.segments import Segments
from shoal.service.store.surveys import SurveyTable
from shoal.service.store.sweeping import Sweeping
from shoal.service.store.tokens import Tokens
from shoal.service.store.values import (
    Arrival,
    BatchInfo,
    Claim,
    Progress,
    Receipt,
    SealedBatch,
    TokenScope,
    Transition,
)
from shoal.service.survey import Survey

TREE = "shuffler"


class ShufflerStore:
    """The store of one shuffler; ``node`` names this process in claims.

    The tables must be there and of this version (see ``Database.migrate``), and the directory must
    be theirs. ``patience`` is for what looks useless; below ``least_free`` bytes of free disk
    nothing is taken in.
    """

    def __init__(
        self,
        database: Database,
        directory: Path,
        clock: Clock,
        *,
        node: str,
        patience: Patience | None = None,
        least_free: int = LEAST_FREE,
    ) -> None:
        if not node or "/" in node:
            raise InvalidArgumentError("node", node, "a name without a slash")
        database.require(TREE)
        patience = patience or Patience()
        self._place = Place(database, files.create_directory(directory), schema.store)
        self._place.settle(holds=_holds(directory), refers=_refers(database))
        self._database = database
        self._clock = clock
        self._surveys = SurveyTable(database, schema.surveys)
        self._segments = Segments(directory / "segments", clock, grace=patience.files)
        parts = files.create_directory(directory / "parts")
        batches = files.create_directory(directory / "batches")
        self.copies = Copies(database, schema.COPIES, clock)  # of the analyzers' lists of keys
        self.tokens = Tokens(database, clock, self._surveys, schema.tokens)
        self._intake = Intake(database, self._segments, self._surveys, Room(directory, least_free))
        self._openings = Openings(database, self._segments, self._surveys, parts, clock, node)
        self._advancing = Advancing(database, self._surveys, clock, Doubts(patience.expiry))
        self._public = Public(database, clock)
        self._releasing = Releasing(database, self._surveys, batches, parts, clock, node)
        self._sweeping = Sweeping(
            database,
            self._segments,
            self._releasing,
            Doubts(patience.files),
            Doubts(patience.files),
        )

    def check_place(self) -> None:
        """Refuse to go on if the directory is not this database's any more: a disk may be gone."""
        self._place.check()

    def add_survey(self, survey: Survey) -> None:
        """Collect for a survey; added twice it is there once."""
        self._surveys.add(survey)

    def surveys(self) -> list[Survey]:
        """All surveys, in the order they were added."""
        return [known.survey for known in self._surveys.all()]

    def survey(self, survey: SurveyId) -> Survey:
        """One survey."""
        return self._surveys.find(survey).survey

    def survey_names(self) -> list[SurveyId]:
        """What they are called, whatever is in them."""
        return list(self._surveys.numbers())

    def survey_taken(self, survey: SurveyId) -> bool:
        """Whether any report of a survey was ever taken in; for the operator only."""
        return self._surveys.taken(survey, schema.TRACES)

    def remove_survey(self, survey: SurveyId) -> int:
        """Forget a survey that nothing was taken for; how many tokens went with it."""
        return self._surveys.remove(survey, schema.TRACES, schema.tokens)

    def receive(self, arrivals: Sequence[Arrival]) -> list[Receipt]:
        """Take in reports, each one once; when this returns, all of them are durable."""
        return self._intake.receive(arrivals)

    def claim_extents(self, limit_reports: int, lease_seconds: int) -> Claim | None:
        """Reports of one survey and key to open; None if nothing waits."""
        return self._openings.claim(limit_reports, lease_seconds)

    def read(self, claim: Claim) -> bytes:
        """The claimed reports, one after the other."""
        return self._openings.read(claim)

    def finish_opening(
        self, claim: Claim, parts: Parts, rejected: int, forgotten: bytes = b""
    ) -> None:
        """Move opened reports into the open batches: ``{inner key: (records, reports)}``.

        ``forgotten`` are those of the rejected reports that may as well be sent again.
        """
        self._openings.finish(claim, parts, rejected, forgotten)

    def inner_keys(self, survey: SurveyId) -> set[int]:
        """The numbers of the analyzer's keys that batches of a survey are open for."""
        return self._openings.inner_keys(survey)

    def set_aside(self, claim: Claim) -> None:
        """Give up on reports that cannot be opened: they are gone, and counted as unreadable."""
        self._openings.set_aside(claim)

    def renew(self, work: Claim | SealedBatch, lease_seconds: int) -> None:
        """Begin the lease of a claim or batch anew."""
        until = leases.lease_end(self._clock(), lease_seconds)
        self._change_lease(work, {"lease_until": until})

    def give_back(self, work: Claim | SealedBatch) -> None:
        """End a lease early, for no fault of the work's: somebody else may begin at once."""
        self._change_lease(work, {"owner": None, "lease_until": None} | _excused(work))

    def put_off(self, claim: Claim) -> None:
        """A claim failed: nobody is at it, and nobody begins before its lease has run out."""
        self._change_lease(claim, {"owner": leases.failed(claim.owner)})

    def excuse(self, claim: Claim) -> None:
        """A claim failed for no fault of its reports: this attempt does not count."""
        self._change_lease(claim, _excused(claim))

    def blame(self, claim: Claim) -> None:
        """Count an attempt that was excused after all."""
        self._change_lease(claim, {"attempts": schema.extents.c.attempts + 1})

    def _change_lease(self, work: Claim | SealedBatch, values: dict[str, Any]) -> None:
        table, rows = (
            (schema.extents, len(work.extents)) if isinstance(work, Claim) else (schema.batches, 1)
        )
        with self._database.write() as connection:
            ours = table.update().where(table.c.owner == work.owner)
            if connection.execute(ours.values(values)).rowcount != rows:
                raise LeaseLostError(f"work for survey {work.survey}")

    def advance(self, *, expire: bool = True) -> list[Transition]:
        """Seal, carry and, if the clock can be trusted, expire the open batches that are due."""
        return self._advancing.advance(expire=expire)

    def claim_batch(self, lease_seconds: int) -> SealedBatch | None:
        """A sealed batch to shuffle; None if there is none."""
        return self._releasing.claim(lease_seconds)

    def finish_shuffle(self, batch: SealedBatch, digest: str, records: int, size: int) -> None:
        """The batch's draft is written: make it the batch."""
        self._releasing.finish_shuffle(batch, digest, records, size)

    def batches(self, survey: SurveyId, after: str | None = None) -> list[BatchInfo]:
        """Batches that can be or were collected, ordered by name; ``after`` is the next page."""
        return self._releasing.listed(survey, after)

    def release(self, survey: SurveyId, batch: str, request: str) -> Path:
        """The file of a batch, for the request that came first, as often as it asks."""
        return self._releasing.release(survey, batch, request)

    def acknowledge(self, survey: SurveyId, batch: str, request: str, digest: str) -> None:
        """The collector has the batch, safe and whole."""
        self._releasing.acknowledge(survey, batch, request, digest)

    def purge(self) -> int:
        """Delete the files of batches that are acknowledged or died, and parts already shuffled."""
        return self._releasing.purge()

    def collect(self) -> int:
        """Delete files that nobody refers to; how many."""
        self._database.check_files("deleting files")  # one that is gone refers to nothing new
        return self._sweeping.sweep()

    def progress(self, survey: SurveyId) -> Progress:
        """How far the open batch is, as roughly as everybody may know."""
        return self._public.progress(self._surveys.find(survey))

    def states(self, survey: SurveyId) -> dict[str, int]:
        """How many batches that can be or were collected are in which state."""
        return self._public.states(self._surveys.find(survey))

    def last_size(self, survey: SurveyId) -> int | None:
        """How many reports the batch has that closed last."""
        return self._public.last_size(self._surveys.find(survey))

    def counters(self, survey: SurveyId) -> dict[str, int]:
        """Closed batches and their reports: may be published."""
        return self._advancing.closed_counts(self._surveys.find(survey))

    def tallies(self, survey: SurveyId) -> dict[str, int]:
        """Reports opened, rejected and unreadable so far: for the operator only."""
        return counting.tallies(self._database, self._surveys.find(survey).number)

    def waiting_keys(self) -> set[int]:
        """The numbers of the keys that reports which wait to be opened were sealed for."""
        return self._openings.waiting_keys()

    def forget_key(self, key: int) -> int:
        """Forget the tags of a key that was deleted: what it sealed cannot be opened any more."""
        return forget_tags(self._database, schema.tags, key)

    def add_token(self, label: str, survey: SurveyId | None, lifetime: int) -> str:
        """A new token that is shown this once: only its hash is kept."""
        return self.tokens.add(label, survey, lifetime)

    def check_token(self, token: str, survey: SurveyId | None) -> TokenScope:
        """What a token is for, if it covers the survey."""
        return self.tokens.check(token, survey)

    def revoke_token(self, label: str) -> int:
        """Delete the tokens of a label; how many."""
        return self.tokens.revoke(label)

    def close(self) -> None:
        """Let go of the files; the database is its owner's to close."""
        self._segments.close()


def _excused(work: Claim | SealedBatch) -> dict[str, Any]:
    return {"attempts": schema.extents.c.attempts - 1} if isinstance(work, Claim) else {}


def _holds(directory: Path) -> bool:
    """Whether there are reports in a directory, in whatever form."""
    places = (directory / name for name in ("segments", "parts", "batches"))
    with files.disk("looking at the directory"):
        return any(any(place.iterdir()) for place in places if place.is_dir())


def _refers(database: Database) -> bool:
    """Whether the database says that there are."""
    files_of = schema.batches.c.state.in_((schema.SHUFFLED, schema.RELEASED))
    with database.read() as connection:
        return any(
            connection.execute(sa.select(sa.literal(1)).where(sa.exists(query))).first()
            for query in (
                sa.select(schema.extents.c.id),
                sa.select(schema.parts.c.name),
                sa.select(schema.batches.c.id).where(files_of),
            )
        )
