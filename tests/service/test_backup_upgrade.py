"""A live store is brought up to date under a process of the old version that goes on working.

The tables of the next revision differ by a column, which the old version does not know. All the
rest of it is as it was: its intake is run here.
"""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from service_site import CROWD, Site
from shoal.service.db import Database
from shoal.service.db.database import FILE
from shoal.service.db.files import DiskSpace
from shoal.service.db.leases import Leases
from shoal.service.db.surveys import Surveys
from shoal.service.errors import StoreVersionError
from shoal.service.ops.facts import store_facts
from shoal.service.ops.home import Home
from shoal.service.shuffler.batches import Batches
from shoal.service.shuffler.reports import Arrival, Reports, Segments
from shoal.service.shuffler.store import ShufflerStore
from shoal.service.shuffler.tables import extents


class OldIntake:
    """A process of the version before, with its connection and its segment open."""

    def __init__(self, url, directory, clock, revision):
        self.database = Database(url, timeout=60)
        self.database.migrate("shuffler", revision)
        self.segments = Segments(directory / "segments", clock)
        self.surveys = Surveys(self.database, ())
        batches = Batches(self.database, self.surveys, directory, clock, grace=0)
        space, leases = DiskSpace(directory, 0), Leases(self.database, extents, clock)
        self._reports = Reports(self.database, self.surveys, self.segments, batches, space, leases)

    def take(self, survey, report):
        return self._reports.receive([Arrival(survey.id, 0, report)]).new

    def close(self):
        self.segments.close()
        self.database.close()


def test_nothing_is_lost_while_the_tables_change_under_the_old_version(tmp_path, url, next_step):
    site = Site(tmp_path / "service")
    directory = tmp_path / "live"
    directory.mkdir(mode=0o700)
    old = OldIntake(url, directory, site.clock, next_step.before)
    old.surveys.add(site.survey)
    reports = iter(site.reports(3 * CROWD))
    stop, acknowledged = threading.Event(), []

    def people():
        while not stop.is_set() and (report := next(reports, None)) is not None:
            assert old.take(site.survey, report) == 1
            acknowledged.append(report)

    for _ in range(CROWD):
        acknowledged.append(next(reports))
        old.take(site.survey, acknowledged[-1])
    with pytest.raises(StoreVersionError, match="--migrate"):
        Home(directory=directory, role="shuffler", store=url).database()
    with ThreadPoolExecutor(1) as pool:
        working = pool.submit(people)
        new = Home(directory=directory, role="shuffler", store=url).database(migrate=True)
        store = ShufflerStore(new, directory, site.clock, grace=0)
        (directory / FILE).read_text(encoding="utf-8")
        stop.set()
        working.result(60)
    for report in list(reports)[:3]:  # the old one has not been restarted yet
        assert old.take(site.survey, report) == 1
        acknowledged.append(report)
    assert old.take(site.survey, acknowledged[0]) == 0
    old.close()
    site.shuffler.close()
    site.shuffler.store, site.shuffler.database = store, new
    site.work()
    assert store.reports.tallies(site.survey.id)["opened"] == len(acknowledged)
    assert site.send(acknowledged) == (0, 0)
    site.close()


def test_a_process_of_the_old_version_says_that_it_is_not_ready(tmp_path, monkeypatch):
    """A load balancer then sends people to the new ones; what it has begun it finishes."""
    home = Home(directory=tmp_path, role="shuffler")
    database = home.database()
    (store,) = (fact for fact in store_facts(home, database, None) if fact.name == "store")
    assert not store.summary().stops
    monkeypatch.setattr("shoal.service.db.migrations.head", lambda _tree: "0003")
    assert store.summary().stops
    database.close()
