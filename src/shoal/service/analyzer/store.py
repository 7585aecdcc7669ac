"""What an analyzer remembers: surveys, batches on their way, what they cost, what was published."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import sqlalchemy as sa

from shoal.sealing import SurveyId
from shoal.service.analyzer import schema
from shoal.service.analyzer.collection import Collection, Offer
from shoal.service.analyzer.documents import Document, written
from shoal.service.analyzer.life import life_so_far
from shoal.service.analyzer.opened import Admitted, Mask, packed, unpacked
from shoal.service.analyzer.tags import insert_tags, known_tags
from shoal.service.analyzer.verdict import Verdict, local_epsilon
from shoal.service.clock import Clock
from shoal.service.errors import LeaseLostError, UnknownBatchError
from shoal.service.keyring import KeyList
from shoal.service.opening import Rows
from shoal.service.store import Database, leases
from shoal.service.store.copies import Copies
from shoal.service.store.files import create_directory, fresh_name
from shoal.service.store.forgetting import forget_tags
from shoal.service.store.place import Place
from shoal.service.store.surveys import SurveyTable
from shoal.service.store.tokens import Tokens
from shoal.service.survey import Survey
from shoal.values import Counts

LEASE = 600  # seconds
DAY = 86_400
LATEST = 90 * DAY  # after a survey's last batch, for those that were asked for and never came
_rows = schema.collections
_END = 500  # bytes of a document that hold when it was published, and the survey's life
_PUBLISHED = re.compile(rb'"published": ?([0-9]+)')
_without_cells = [column for column in _rows.c if column.name != "cells"]


class AnalyzerStore:
    """The analyzer's database, and the directory ``incoming`` for batches that are not counted yet.

    ``lease`` is how many seconds a batch stays with whoever works on it and says nothing.
    """

    def __init__(
        self, database: Database, directory: Path, clock: Clock, *, lease: int = LEASE
    ) -> None:
        database.require("analyzer")
        place = Place(database, create_directory(directory), schema.store)
        place.settle(holds=False, refers=False)  # what is fetched can be fetched again
        self.incoming = create_directory(directory / "incoming")
        self.clock = clock
        self.lease = lease
        self._database = database
        self._surveys = SurveyTable(database, schema.surveys)
        self._copies = Copies(database, schema.COPIES, clock)
        self.tokens = Tokens(database, clock, self._surveys, schema.tokens)

    def add_survey(self, survey: Survey) -> None:
        """Collect for this survey; adding it again changes nothing."""
        self._surveys.add(survey)

    def surveys(self) -> list[Survey]:
        """All of them, in the order in which they were added."""
        return [known.survey for known in self._surveys.all()]

    def survey(self, name: SurveyId) -> Survey:
        """The survey of that name."""
        return self._surveys.find(name).survey

    def survey_names(self) -> list[SurveyId]:
        """What they are called, whatever is in them."""
        return list(self._surveys.numbers())

    def survey_taken(self, name: SurveyId) -> bool:
        """Whether any batch of a survey was asked for."""
        return self._surveys.taken(name, schema.TRACES)

    def remove_survey(self, name: SurveyId) -> int:
        """Forget a survey that nothing was collected of; how many tokens went with it."""
        return self._surveys.remove(name, schema.TRACES, schema.tokens)

    def _number(self, name: SurveyId) -> int:
        return self._surveys.find(name).number

    # Batches on their way

    def request(self, name: SurveyId, offer: Offer) -> Collection:
        """The collection of a batch; the name of its request is drawn once and for all."""
        known = self._surveys.find(name)
        values = {"survey": known.number, "batch": offer.batch, "request": fresh_name()}
        values |= {"state": schema.REQUESTED, "digest": offer.digest, "size": offer.size}
        values |= {"key": offer.key}
        add = self._database.insert(_rows).values(values).on_conflict_do_nothing()
        with self._database.write() as connection:
            self._surveys.confirm(connection, known)
            connection.execute(add)  # if somebody asked before, their request is ours
        return self.collection(name, offer.batch)

    def offered_again(self, name: SurveyId, offers: Sequence[Offer]) -> None:
        """A shuffler has these batches still or anew: in these bytes, and not acknowledged.

        What was counted of them stays as it is, and what was refused stays refused.
        """
        if not offers:
            return
        query = sa.update(_rows).where(
            _rows.c.survey == self._number(name),
            _rows.c.batch == sa.bindparam("of"),
            _rows.c.state != schema.REFUSED,
        )
        new: dict[str, Any] = {
            "digest": sa.bindparam("new_digest"),
            "size": sa.bindparam("new_size"),
            "acknowledged": 0,
        }
        rows = [
            {"of": each.batch, "new_digest": each.digest, "new_size": each.size} for each in offers
        ]
        with self._database.write() as connection:
            connection.execute(query.values(new), rows)

    def collection(self, name: SurveyId, batch: str) -> Collection:
        """One batch."""
        number = self._number(name)
        with self._database.read() as connection:
            return self._found(connection, number, batch)

    def collections(self, name: SurveyId) -> list[Collection]:
        """All batches of a survey that were ever asked for."""
        number = self._number(name)
        query = sa.select(*_without_cells).where(_rows.c.survey == number).order_by(_rows.c.batch)
        with self._database.read() as connection:
            return [Collection.of(dict(row)) for row in connection.execute(query).mappings()]

    def claim(self, found: Collection, owner: str) -> Collection | None:
        """The batch as it is now, for this owner alone; None while somebody else has it."""
        now = self.clock()
        free = sa.or_(_rows.c.owner == owner, leases.free(_rows, now))
        query = sa.update(_rows).where(*_one(found.survey, found.batch), free)
        given = query.values(owner=owner, lease_until=leases.lease_end(now, self.lease))
        with self._database.write() as connection:
            if connection.execute(given).rowcount != 1:
                return None
            return self._found(connection, found.survey, found.batch)

    def renew(self, held: Collection) -> Collection:
        """The batch for as long again."""
        return self._moved(held, held.state)

    def release(self, held: Collection) -> None:
        """Leave the batch to whoever comes next, if it is still ours."""
        query = sa.update(_rows).where(*_one(held.survey, held.batch), _rows.c.owner == held.owner)
        with self._database.write() as connection:
            connection.execute(query.values(owner=None, lease_until=None))

    def release_owners(self, owners: Iterable[str]) -> None:
        """Leave all batches of these owners, who are dead, to others."""
        query = sa.update(_rows).where(_rows.c.owner.in_(list(owners)))
        with self._database.write() as connection:
            connection.execute(query.values(owner=None, lease_until=None))

    def received(self, held: Collection, *, key: int, reports: int, records: int) -> Collection:
        """The whole batch is on disk, and is what it claims to be."""
        values = {"key": key, "reports": reports, "records": records}
        return self._moved(held, schema.RECEIVED, **values)

    def refused(self, held: Collection, reason: str) -> Collection:
        """The batch will never be counted."""
        return self._moved(held, schema.REFUSED, reason=reason)

    def again(self, name: SurveyId, batch: str) -> Collection:
        """Ask once more for a batch that was refused, under the request that has it."""
        number = self._number(name)
        query = sa.update(_rows).where(*_one(number, batch), _rows.c.state == schema.REFUSED)
        free = {"owner": None, "lease_until": None}
        with self._database.write() as connection:
            connection.execute(query.values(state=schema.REQUESTED, reason=None, **free))
        return self.collection(name, batch)

    def known(self, held: Collection, tags: Rows) -> Mask:
        """Which of these records were counted in an earlier batch."""
        return known_tags(self._database, held, tags)

    def opened(
        self, held: Collection, found: Admitted, told: Verdict, counts: Counts | None
    ) -> Collection | None:
        """The records were counted, and never will be again; None if one of them was meanwhile.

        Counts of a batch that is withheld are not kept.
        """
        kept = counts if told.withheld is None else None
        values: dict[str, Any] = {
            "valid": told.valid,
            "rejected": json.dumps(found.rejected),
            "reason": told.withheld,
            "cells": None if kept is None else packed(kept),
        }
        try:
            with self._database.write() as connection:
                moved = self._moved_in(connection, held, schema.OPENED, **values)
                insert_tags(connection, held, found.tags)
        except sa.exc.IntegrityError:
            return None
        return moved

    # What it costs, and what comes of it

    def debited(self, held: Collection, verdict: Verdict, *, delta: float) -> Collection:
        """What the batch tells about a person is in the ledger, before anybody is told."""
        entry = {
            "survey": held.survey,
            "batch": held.batch,
            "epsilon": verdict.epsilon,
            "delta": delta,
            "valid": verdict.valid,
            "honest": verdict.honest,
            "released": int(verdict.withheld is None),
        }
        with self._database.write() as connection:
            connection.execute(sa.insert(schema.ledger).values(entry))
            return self._moved_in(connection, held, schema.BUDGETED)

    def published(self, held: Collection, document: Document) -> Collection:
        """The result is there for good, with what the survey cost so far."""
        local = self._local(held.survey)
        # Two that publish at once must not miss each other in what the survey cost.
        one_by_one = sa.select(schema.surveys.c.number).where(
            schema.surveys.c.number == held.survey
        )
        with self._database.write() as connection:
            connection.execute(one_by_one.with_for_update(key_share=True))
            moved = self._moved_in(connection, held, schema.PUBLISHED)
            life = life_so_far(connection, held.survey, local, held.batch)
            whole = written({**document, "life": life})
            values = {"survey": held.survey, "batch": held.batch, "document": whole}
            connection.execute(sa.insert(schema.results).values(values))
            return moved

    def acknowledged(self, held: Collection) -> Collection:
        """The shuffler knows that it need not keep the batch any longer."""
        return self._moved(held, schema.PUBLISHED, acknowledged=1)

    def life(self, name: SurveyId) -> Document:
        """What the survey cost so far."""
        number = self._number(name)
        local = self._local(number)
        with self._database.read() as connection:
            return life_so_far(connection, number, local)

    def _local(self, number: int) -> float:
        return local_epsilon(self._surveys.numbered(number).survey)

    def ledger(self, name: SurveyId) -> list[Document]:
        """What every batch tells about a person in it."""
        number = self._number(name)
        entry = schema.ledger
        query = sa.select(entry).where(entry.c.survey == number).order_by(entry.c.batch)
        with self._database.read() as connection:
            rows = connection.execute(query).mappings().all()
        return [
            {
                **{key: value for key, value in row.items() if key != "survey"},
                "released": bool(row["released"]),
            }
            for row in rows
        ]

    def results(self, name: SurveyId) -> list[Document]:
        """The documents of all batches that have one."""
        number = self._number(name)
        table = schema.results.c
        query = sa.select(table.document).where(table.survey == number).order_by(table.batch)
        with self._database.read() as connection:
            return [json.loads(bytes(text)) for text in connection.execute(query).scalars()]

    def published_hours(self, name: SurveyId) -> dict[str, int]:
        """When each batch that has a document was published, from the end of its document."""
        number = self._number(name)
        table = schema.results.c
        before = sa.func.length(table.document) - _END
        end = sa.func.substr(table.document, sa.case((before > 0, before), else_=1))
        query = sa.select(table.batch, end).where(table.survey == number)
        with self._database.read() as connection:
            rows = connection.execute(query).all()
        found = ((row[0], _PUBLISHED.findall(bytes(row[1]))) for row in rows)
        return {batch: int(hours[-1]) for batch, hours in found}

    def version(self, name: SurveyId) -> tuple[object, ...]:
        """What is another one whenever the results of a survey are."""
        number = self._number(name)
        counted = [
            sa.select(sa.func.count()).where(table.c.survey == number)
            for table in (schema.ledger, schema.results)
        ]
        refused = sa.select(_rows.c.batch, _rows.c.reason).where(
            _rows.c.survey == number, _rows.c.state == schema.REFUSED
        )
        with self._database.read() as connection:
            counts = [connection.execute(query).scalar() for query in counted]
            rows = connection.execute(refused.order_by(_rows.c.batch)).all()
        return (*counts, *((row.batch, row.reason) for row in rows))

    def result(self, name: SurveyId, batch: str) -> bytes:
        """The document of a batch, as it was published."""
        number = self._number(name)
        table = schema.results.c
        query = sa.select(table.document).where(table.survey == number, table.batch == batch)
        with self._database.read() as connection:
            found = connection.execute(query).scalar()
        if found is None:
            raise UnknownBatchError(batch)
        return bytes(found)

    def keys_in_use(self) -> frozenset[int]:
        """The keys of batches that are not opened yet: those here, and those asked for.

        One that never comes keeps its key for a time only, or a shuffler could keep keys alive by
        announcing what it does not have.
        """
        query = sa.select(_rows.c.survey, _rows.c.key, _rows.c.state).where(
            _rows.c.state.in_([schema.REQUESTED, schema.RECEIVED]), _rows.c.key.is_not(None)
        )
        with self._database.read() as connection:
            rows = connection.execute(query.distinct()).all()
        return frozenset(
            row.key for row in rows if row.state == schema.RECEIVED or not self._is_past(row.survey)
        )

    def _is_past(self, number: int) -> bool:
        survey = self._surveys.numbered(number).survey
        return self.clock() > survey.not_after + survey.batches.max_age + LATEST

    def counts(self, name: SurveyId) -> dict[str, Counts]:
        """What the records of every batch add up to whose estimates are published."""
        number = self._number(name)
        query = sa.select(_rows.c.batch, _rows.c.cells, _rows.c.valid).where(
            _rows.c.survey == number,
            _rows.c.state == schema.PUBLISHED,
            _rows.c.cells.is_not(None),
        )
        with self._database.read() as connection:
            rows = connection.execute(query).all()
        return {row.batch: unpacked(bytes(row.cells), row.valid) for row in rows}

    def forget_key(self, key: int) -> int:
        """Forget what was sealed with a key that is deleted: it cannot be opened again."""
        return forget_tags(self._database, schema.tags, key)

    # A shuffler's list of keys, for people to compare

    def keep_copy(self, found: KeyList) -> None:
        """A shuffler's list, if it can follow the last one that it showed."""
        self._copies.keep(found)

    def copies(self) -> dict[str, bytes]:
        """The newest list of every shuffler, by its fingerprint."""
        return self._copies.all()

    def _found(self, connection: sa.Connection, survey: int, batch: str) -> Collection:
        query = sa.select(_rows).where(*_one(survey, batch))
        row = connection.execute(query).mappings().first()
        if row is None:
            raise UnknownBatchError(batch)
        return Collection.of(dict(row))

    def _moved(self, held: Collection, state: str, **values: object) -> Collection:
        with self._database.write() as connection:
            return self._moved_in(connection, held, state, **values)

    def _moved_in(
        self, connection: sa.Connection, held: Collection, state: str, **values: object
    ) -> Collection:
        """A step from the state and owner that a collection has to another state."""
        query = sa.update(_rows).where(
            *_one(held.survey, held.batch), _rows.c.state == held.state, _rows.c.owner == held.owner
        )
        changed = {"lease_until": self.clock() + self.lease, **values, "state": state}
        if connection.execute(query.values(changed)).rowcount != 1:
            raise LeaseLostError(f"batch {held.batch}")
        return self._found(connection, held.survey, held.batch)


def _one(survey: int, batch: str) -> tuple[sa.ColumnElement[bool], sa.ColumnElement[bool]]:
    return _rows.c.survey == survey, _rows.c.batch == batch
