"""No schedule of arrivals, bad reports, lost leases and wrong clocks releases a small batch."""

from __future__ import annotations

import pytest
import sqlalchemy as sa

from service.stores import DAY, LEASE, START, make_survey, records
from shoal.randomness import simulator
from shoal.service.clock import ManualClock
from shoal.service.db import Database, files
from shoal.service.errors import LeaseLostError
from shoal.service.shuffler import tables as schema
from shoal.service.shuffler.store import ShufflerStore

MINIMUM = 500


@pytest.fixture
def database(tmp_path, monkeypatch):
    """One that need not survive anything, so that there is time for many schedules."""
    database = Database(f"sqlite:///{tmp_path / 'store.sqlite'}")

    @sa.event.listens_for(database._engine, "connect")
    def _careless(connection, _record):
        connection.execute("PRAGMA synchronous=OFF")

    monkeypatch.setattr(files, "write_durably", lambda path, data: path.write_bytes(data))
    monkeypatch.setattr(files, "sync_directory", lambda *_: None)
    database.migrate("shuffler")
    yield database
    database.close()


class Schedule:
    """One survey's life, event by event; ``moved`` is how many reports opened."""

    def __init__(self, database, store, clock, number):
        self.random = simulator(number)
        self.database, self.store, self.clock = database, store, clock
        small = ("carry", "expire")[number % 2]
        target = MINIMUM + int(self.random.integers(0, 300))
        self.survey = make_survey(
            f"survey {number}", minimum=MINIMUM, target=target, max_age=DAY, small=small
        )
        store.surveys.add(self.survey)
        self.number = store.surveys.row(self.survey.id).number
        self.moved = self.uploaded = 0

    def live(self, length):
        events = (self.arrive, self.arrive, self.open, self.lose, self.advance, self.jump)
        for choice in self.random.integers(0, len(events), size=length):
            events[choice]()
        self.end()

    def arrive(self):
        reports = int(self.random.integers(1, 701))
        row = {"survey": self.number, "key": 0, "segment": "none", "start": 0, "count": reports}
        with self.database.write() as connection:
            connection.execute(schema.extents.insert(), row)
        self.uploaded += reports

    def open(self):
        if claim := self.store.reports.claim(800, LEASE):
            self.finish(claim)

    def lose(self):
        """Work that takes too long: somebody else does it, and the first one comes too late."""
        if late := self.store.reports.claim(800, LEASE):
            self.clock.advance(LEASE)
            while claim := self.store.reports.claim(800, LEASE):
                self.finish(claim)
            before = self.moved
            with pytest.raises(LeaseLostError):
                self.finish(late)
            self.moved = before

    def finish(self, claim):
        invalid = int(self.random.integers(0, claim.count + 1)) // 2
        valid = claim.count - invalid
        keys = self.random.integers(0, 2) if self.random.random() < 0.2 else 0
        self.moved += valid
        parts = {int(keys): records(self.survey, valid)} if valid else {}
        self.store.reports.finish(claim, parts)

    def advance(self):
        self.store.batches.advance()
        self.check()
        self.clock.advance(int(self.random.integers(0, DAY // 2)))

    def jump(self):
        self.clock.advance(int(self.random.integers(-2 * DAY, 2 * DAY)))

    def batches(self):
        query = sa.select(schema.batches).where(schema.batches.c.survey == self.number)
        with self.database.read() as connection:
            return connection.execute(query).all()

    def check(self):
        found = self.batches()
        released = [row for row in found if row.state in schema.CLOSED]
        assert all(row.valid >= MINIMUM for row in released)
        assert sum(row.valid for row in found) == self.moved

    def end(self):
        """After the survey every report was released in a large batch, or died."""
        while claim := self.store.reports.claim(10**6, LEASE):
            self.finish(claim)
            self.clock.advance(LEASE)
        self.clock.now = self.survey.not_after + 2 * DAY
        self.store.batches.advance()
        self.check()
        assert {row.state for row in self.batches()} <= {"SEALED", "EXPIRED"}
        assert all(row.valid < MINIMUM for row in self.batches() if row.state == "EXPIRED")
        while batch := self.store.batches.claim(LEASE):
            assert batch.header.reports >= MINIMUM
            self.clock.advance(-LEASE)


def run(database, directory, numbers, length):
    clock = ManualClock(START)
    store = ShufflerStore(database, directory, clock, grace=0)
    sealed = expired = tempting = 0
    for number in numbers:
        clock.now = START
        schedule = Schedule(database, store, clock, number)
        schedule.live(length)
        states = [row.state for row in schedule.batches()]
        sealed += states.count("SEALED")
        expired += states.count("EXPIRED")
        tempting += schedule.uploaded >= MINIMUM > schedule.moved
        with database.write() as connection:
            for table in (schema.parts, schema.batches, schema.extents):
                connection.execute(table.delete())
    return sealed, expired, tempting


def test_no_schedule_releases_a_small_batch(database, tmp_path):
    sealed, expired, _ = run(database, tmp_path / "shuffler", range(60), 8)
    assert sealed > 18
    assert expired > 18


@pytest.mark.slow
def test_no_schedule_of_many_releases_a_small_batch(database, tmp_path):
    sealed, expired, tempting = run(database, tmp_path / "shuffler", range(10_000), 12)
    assert sealed > 7_000
    assert expired > 3_000
    assert tempting > 10  # uploads enough, valid reports too few
