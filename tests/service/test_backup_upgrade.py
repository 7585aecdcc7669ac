"""A live store is brought up to date under a process of the old version that goes on working.

The tables of the last revision but one differ by what ties database and directory together, which
the old version does not know. All the rest of it is as it was: its intake is run here.
"""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from service.backup_kit import CROWD, Service
from shoal.service.errors import StoreVersionError
from shoal.service.ops.facts import store_facts
from shoal.service.ops.home import Home
from shoal.service.store import Arrival, Database, ShufflerStore, files, schema
from shoal.service.store.intake import Intake
from shoal.service.store.patience import AT_ONCE
from shoal.service.store.place import FILE
from shoal.service.store.room import Room
from shoal.service.store.segments import Segments
from shoal.service.store.surveys import SurveyTable

OLD = "0003"


class OldIntake:
    """A process of the version before, with its connection and its segment open."""

    def __init__(self, url, directory, clock):
        self.database = Database(url, patience=20)
        self.database.migrate("shuffler", OLD)
        self.segments = Segments(files.create_directory(directory / "segments"), clock)
        self.surveys = SurveyTable(self.database, schema.surveys)
        self._intake = Intake(self.database, self.segments, self.surveys, Room(directory, 0))

    def take(self, survey, report):
        (receipt,) = self._intake.receive([Arrival(survey.id, 0, report)])
        return receipt.new

    def close(self):
        self.segments.close()
        self.database.close()


@pytest.mark.parametrize("dialect", ["sqlite", "postgresql"])
def test_nothing_is_lost_while_the_tables_change_under_the_old_version(tmp_path, request, dialect):
    service = Service(tmp_path / "service")
    directory = tmp_path / "live"
    directory.mkdir(mode=0o700)
    url = f"sqlite:///{directory / 'store.sqlite'}"
    if dialect == "postgresql":
        url = request.getfixturevalue("postgres_url")
    old = OldIntake(url, directory, service.clock)
    old.surveys.add(service.survey)
    reports = iter(service.reports(3 * CROWD))
    stop, acknowledged = threading.Event(), []

    def people():
        while not stop.is_set() and (report := next(reports, None)) is not None:
            assert old.take(service.survey, report) == 1
            acknowledged.append(report)

    for _ in range(CROWD):
        acknowledged.append(next(reports))
        old.take(service.survey, acknowledged[-1])
    with pytest.raises(StoreVersionError, match="--migrate"):
        Home(directory=directory, role="shuffler", store=url).database()
    with ThreadPoolExecutor(1) as pool:
        working = pool.submit(people)
        new = Home(directory=directory, role="shuffler", store=url).database(migrate=True)
        store = ShufflerStore(new, directory, service.clock, node="new", patience=AT_ONCE)
        (directory / FILE).read_text(encoding="utf-8")
        stop.set()
        working.result(60)
    for report in list(reports)[:3]:  # the old one has not been restarted yet
        assert old.take(service.survey, report) == 1
        acknowledged.append(report)
    assert old.take(service.survey, acknowledged[0]) == 0
    old.close()
    service.shuffler.close()
    service.shuffler.store, service.shuffler.database = store, new
    service.open()
    assert store.tallies(service.survey.id)["opened"] == len(acknowledged)
    assert service.send(acknowledged) == (0, 0)
    service.close()


def test_a_process_of_the_old_version_says_that_it_is_not_ready(tmp_path, monkeypatch):
    """A load balancer then sends people to the new ones; what it has begun it finishes."""
    home = Home(directory=tmp_path, role="shuffler")
    database = home.database()
    (store,) = (fact for fact in store_facts(home, database, None) if fact.name == "store")
    assert not store.summary().stops
    monkeypatch.setattr("shoal.service.store.migrating.head", lambda _tree: OLD)
    assert store.summary().stops
    database.close()
