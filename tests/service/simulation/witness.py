"""Somebody who sees everything, and knows whose every sealed record is.

People's records are known by their bytes, so that nothing has to be opened to see where they are.
From that follows what has to be true of every file, count and document.
"""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass
from hashlib import sha256

import numpy as np
import sqlalchemy as sa

from service_site import counts_of, documents_of
from shoal.service.analyzer.tables import PUBLISHED, REFUSED
from shoal.service.batch_file import BatchFile
from shoal.service.shuffler import tables as schema

ON_DISK = ("SHUFFLED", "RELEASED")


@dataclass(eq=False)
class Person:
    """Somebody with an answer that nobody else has, and the one report of it.

    ``sound``: the analyzer can open it. ``sent``: it may have arrived. ``taken``: somebody was told
    that it had.
    """

    survey: int
    answer: int
    record: bytes
    report: bytes
    sound: bool
    sent: bool = False
    taken: bool = False


class Witness:
    """Looks at both parties of a world; every look is at what was said and done before, too."""

    def __init__(self, world, surveys):
        self.world, self.surveys = world, surveys
        self.people: list[Person] = []
        self.owners: dict[bytes, Person] = {}
        self.batches: list[dict[str, list[Person]]] = [{} for _ in surveys]
        self.digests: dict[str, str] = {}
        self.documents: dict[str, bytes] = {}
        self.requests: dict[str, str] = {}
        self.seen: Counter[str] = Counter()

    def meet(self, person):
        self.people.append(person)
        assert person.record not in self.owners
        self.owners[person.record] = person

    # The shuffler

    def look_at_shuffler(self):
        for number, survey in enumerate(self.surveys):
            for info in self.world.shuffler.store.batches.listed(survey.id):
                self._look_at_batch(number, info)

    def _look_at_batch(self, number, info):
        survey, place = self.surveys[number], self.world.place.of("shuffler") / "batches"
        assert info.reports >= survey.batches.minimum
        assert self.digests.setdefault(info.id, info.digest) == info.digest
        if info.state in ON_DISK:
            data = (place / f"{info.id}-{info.digest[:16]}.batch").read_bytes()
            assert sha256(data).hexdigest() == info.digest
            if info.id not in self.batches[number]:
                self.batches[number][info.id] = self._members(number, info, data)
        assert info.id in self.batches[number], "nobody has seen it"

    def _members(self, number, info, data):
        batch = BatchFile.read(data)
        width = batch.header.sections[0][1]
        records = [bytes(batch.body[at : at + width]) for at in range(0, len(batch.body), width)]
        assert batch.header.survey == self.surveys[number].id
        assert {record[1] for record in records} == {info.key} == {batch.header.key}
        assert batch.header.reports == info.reports == len(records)
        members = self._people_of(number, records)
        earlier = {each for people in self.batches[number].values() for each in people}
        assert not earlier & set(members), "released twice"
        self.seen["batches"] += 1
        return members

    def _people_of(self, number, records):
        members = [self.owners[record] for record in records]
        assert len(set(members)) == len(members), "twice in one place"
        assert all(each.survey == number and each.sent for each in members)
        return members

    # The analyzer

    def look_at_analyzer(self):
        for number, survey in enumerate(self.surveys):
            store = self.world.analyzer.store
            found = store.collections.of(survey.id)
            for each in found:
                assert self.requests.setdefault(each.batch, each.request) == each.request
            done = {each.batch: each for each in found if each.state == PUBLISHED}
            documents = {each["batch"]: each for each in documents_of(store, survey)}
            assert documents.keys() == done.keys()
            debits = Counter(entry["batch"] for entry in store.ledger.entries(survey.id))
            assert set(debits.values()) <= {1}
            assert debits.keys() >= done.keys()
            counts = counts_of(store, survey)
            for batch, each in done.items():
                self._look_at_result(number, each, documents[batch], counts.get(batch))
            total = sum(each.cells for each in counts.values())
            assert set(np.unique(total)) <= {0, 1}, "somebody was counted twice"

    def _look_at_result(self, number, found, document, counts):
        survey = self.surveys[number]
        written = self.world.analyzer.store.results.get(survey.id, found.batch)
        if self.documents.setdefault(found.batch, written) != written:
            raise AssertionError("another result of the same batch")
        members = self.batches[number][found.batch]
        sound = sorted(each.answer for each in members if each.sound)
        assert document["valid"] == found.valid == len(sound)
        assert document["rejected"]["unopened"] == len(members) - len(sound)
        assert sum(document["rejected"].values()) == len(members) - len(sound)
        if len(sound) < survey.batches.minimum:
            assert document["status"] == "withheld"
            assert counts is None
            assert document["estimates"] is None
            return
        assert document["status"] == "published"
        assert np.flatnonzero(counts.cells).tolist() == sound

    # Both, when nobody has anything to do any more

    def look_at_the_end(self):
        self.look_at_shuffler()
        self.look_at_analyzer()
        assert not self.world.shuffler.store.reports.waiting_keys()
        for number in range(len(self.surveys)):
            self._everybody_is_somewhere(number)
            self._everything_is_collected(number)
        self._nothing_is_left_behind()

    def _everybody_is_somewhere(self, number):
        waiting, expired = self._not_released(number)
        minimum = self.surveys[number].batches.minimum
        everywhere = [each for people in self.batches[number].values() for each in people]
        for people in waiting:
            assert len(people) < minimum
            everywhere += people
        assert len(set(everywhere)) == len(everywhere), "in two places"
        ours = [each for each in self.people if each.survey == number]
        taken = {each for each in ours if each.taken}
        sent = {each for each in ours if each.sent}
        # Whoever died unread has left only a number.
        assert len(taken - set(everywhere)) <= expired, "lost"
        assert expired <= len(sent - set(everywhere)), "died more often than sent"
        rules = self.surveys[number].batches
        over = self.world.shuffler.clock() > self.surveys[number].not_after + rules.max_age
        assert rules.small == "expire" or over or not expired, "died, and should have waited"
        self.seen["expired"] += expired
        self.seen["waiting"] += sum(len(people) for people in waiting)

    def _not_released(self, number):
        """The people in each batch that waits, and how many died with theirs."""
        table, parts = schema.batches, schema.parts
        survey = self.world.shuffler.store.surveys.row(self.surveys[number].id).number
        ours = sa.select(table).where(table.c.survey == survey)
        directory = self.world.place.of("shuffler") / "parts"
        waiting, expired = [], 0
        with self.world.shuffler.database.read() as connection:
            for row in connection.execute(ours.where(table.c.state.in_(("OPEN", "CARRIED")))).all():
                query = sa.select(parts.c.name).where(parts.c.batch == row.id)
                body = b"".join(
                    (directory / name).read_bytes() for name in connection.scalars(query)
                )
                people = self._people_of(number, self._records(number, body))
                assert len(people) == row.valid
                waiting.append(people)
            dead = sa.select(table.c.valid).where(table.c.survey == survey)
            counts = connection.scalars(dead.where(table.c.state == "EXPIRED")).all()
            expired = sum(counts)
            rest = connection.scalars(
                sa.select(table.c.id).where(table.c.survey == survey, table.c.state == "SEALED")
            ).all()
        assert not rest
        assert all(count < self.surveys[number].batches.minimum for count in counts)
        return waiting, expired

    def _records(self, number, body):
        width = (
            self.world.shuffler.store.surveys.row(self.surveys[number].id)
            .wire.sections[0]
            .record_bytes
        )
        return [body[at : at + width] for at in range(0, len(body), width)]

    def _everything_is_collected(self, number):
        survey = self.surveys[number]
        found = {each.batch: each for each in self.world.analyzer.store.collections.of(survey.id)}
        debits = {entry["batch"] for entry in self.world.analyzer.store.ledger.entries(survey.id)}
        gone = self.world.analyzer.keyring.gone()
        published = set()
        for info in self.world.shuffler.store.batches.listed(survey.id):
            each = found[info.id]
            if each.state == REFUSED:
                assert info.key in gone, each.reason
                self.seen["refused"] += 1
                continue
            assert each.state == PUBLISHED
            assert each.acknowledged
            assert info.state == "PURGED"
            published.add(info.id)
            status = json.loads(self.documents[info.id])["status"]
            self.seen[status] += 1
        assert debits == published

    def _nothing_is_left_behind(self):
        shuffler, analyzer = (self.world.place.of(role) for role in ("shuffler", "analyzer"))
        named = set()
        with self.world.shuffler.database.read() as connection:
            named = set(connection.scalars(sa.select(schema.parts.c.name)))
        assert {path.name for path in (shuffler / "parts").iterdir()} == named
        kept = {path.name.partition("-")[0] for path in (shuffler / "batches").iterdir()}
        released = {
            info.id
            for survey in self.surveys
            for info in self.world.shuffler.store.batches.listed(survey.id)
            if info.state in ON_DISK
        }
        assert kept == released
        assert not list((analyzer / "incoming").iterdir())
