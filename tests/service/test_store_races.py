"""Processes that race for the same store, that are killed, and that come back."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from service.stores import (
    LEASE,
    START,
    make_survey,
    open_all,
    rows_of,
    send,
    states,
)
from shoal.randomness import simulator
from shoal.service.clock import ManualClock
from shoal.service.db import Database
from shoal.service.shuffler import tables as schema
from shoal.service.shuffler.reports import Arrival
from shoal.service.shuffler.store import ShufflerStore
from shoal.service.wire import Wire

HERE = "service.test_store_races"


def store_of(url, directory):
    """What another process has of a store."""
    return ShufflerStore(Database(url), Path(directory), lambda: START)


def race(places):
    """Do everything in every store, as far as nobody else has."""
    survey, done = make_survey(), []
    for place in places:
        store = store_of(*place)
        received = send(store, survey, range(300))
        opened, closed = open_all(store), len(store.batches.advance())
        done.append([received, opened, closed, bool(store.batches.claim(LEASE))])
    return done


def made(url, directory):
    database = Database(url, timeout=60)
    database.migrate("shuffler")
    store = ShufflerStore(database, Path(directory), ManualClock(START), grace=0)
    store.surveys.add(make_survey())
    return database, store


@pytest.mark.slow
def test_two_processes_do_everything_once(store_urls, tmp_path, forks):
    """Both send the same reports, open what they get and shuffle: each of it happens once."""
    places = [(url, str(tmp_path / kind)) for kind, url in store_urls.items()]
    kept = [made(*place) for place in places]
    for _, store in kept:
        for first in range(300, 420, 2):
            send(store, make_survey(), range(first, first + 2))
    ended = forks.run(f"{HERE}.race", *[{"places": places}] * 2)
    assert [status for status, _ in ended] == [0, 0]
    done = [each for _, each in ended]
    for which, (database, store) in enumerate(kept):
        received, opened, sealed, claimed = (
            sum(each[which][column] for each in done) for column in range(4)
        )
        assert received == 300
        assert opened == 420
        assert sealed == claimed == len(states(database))
        assert sum(valid for _, valid in states(database)) == 420
        assert rows_of(database, schema.tags) + rows_of(database, schema.recent_tags) == 420
        store.close()
        database.close()


@pytest.mark.slow
def test_taking_in_is_quick(tmp_path):
    """140 000 reports a second of this process's time, in groups of a thousand, if left alone."""
    database, store = made(f"sqlite:///{tmp_path / 'store.sqlite'}", tmp_path)
    survey = make_survey()
    size, random = Wire.of(survey).report_bytes, simulator(3)
    spent = 0.0
    for _ in range(100):
        arrival = Arrival(survey.id, 0, random.bytes(1000 * size))
        begun = time.process_time()
        store.reports.receive([arrival])
        spent += time.process_time() - begun
    assert 100_000 / spent > 60_000  # for a machine that does other things too
    store.close()
    database.close()
