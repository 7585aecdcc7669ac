"""Processes that race for the same store, that are killed, and that come back."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path

import pytest

from repository import ROOT, environment
from service.store_contract import (
    LEASE,
    START,
    make_reports,
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

WORK = """\
import json, sys, time
from pathlib import Path
from service.store_contract import LEASE, START, make_survey, open_all, records, send
from shoal.service.db import Database
from shoal.service.shuffler.store import ShufflerStore

def store(url, directory):
    return ShufflerStore(Database(url), Path(directory), lambda: START)
"""
RACE = """
survey, done = make_survey(), []
stores = [store(url, directory) for url, directory in json.loads(sys.argv[2])]
Path(sys.argv[3]).touch()
while not Path(sys.argv[4]).exists():
    time.sleep(0.005)
for each in stores:
    received = send(each, survey, range(300))
    opened, closed = open_all(each), len(each.batches.advance())
    done.append([received, opened, closed, bool(each.batches.claim(LEASE))])
print(json.dumps(done))
"""
DIE = """
((url, directory),) = json.loads(sys.argv[2])
send(store(url, directory), make_survey(), range(10))
print("alive")
"""


def begin(code, *arguments, failpoint=""):
    variables = environment() | {"PYTHONPATH": f"{ROOT / 'src'}:{ROOT / 'tests'}"}
    if failpoint:
        variables["SHOAL_FAILPOINT"] = failpoint
    return subprocess.Popen(
        [sys.executable, "-c", WORK + code, *map(str, arguments)],
        env=variables,
        stdout=subprocess.PIPE,
        text=True,
    )


def made(url, directory):
    database = Database(url, timeout=60)
    database.migrate("shuffler")
    store = ShufflerStore(database, Path(directory), ManualClock(START), grace=0)
    store.surveys.add(make_survey())
    return database, store


@pytest.mark.slow
def test_two_processes_do_everything_once(store_urls, tmp_path):
    """Both send the same reports, open what they get and shuffle: each of it happens once."""
    places = [(url, str(tmp_path / kind)) for kind, url in store_urls.items()]
    kept = [made(*place) for place in places]
    for _, store in kept:
        for first in range(300, 420, 2):
            send(store, make_survey(), range(first, first + 2))
    signals = [tmp_path / "one", tmp_path / "two", tmp_path / "go"]
    workers = [
        begin(RACE, node, json.dumps(places), signal, signals[2])
        for node, signal in zip(("first", "second"), signals[:2], strict=True)
    ]
    while not (signals[0].exists() and signals[1].exists()):
        assert all(worker.poll() is None for worker in workers)
        time.sleep(0.01)
    signals[2].touch()
    done = [json.loads(worker.communicate(timeout=60)[0]) for worker in workers]
    for which, (database, store) in enumerate(kept):
        received, opened, sealed, claimed = (
            sum(each[which][column] for each in done) for column in range(4)
        )
        assert received == 300
        assert opened == 420
        assert sealed == claimed == len(states(database))
        assert sum(valid for _, valid in states(database)) == 420
        assert rows_of(database, schema.tags) == 420
        store.close()
        database.close()


def test_a_killed_intake_counts_all_or_nothing(tmp_path):
    """Killed before the commit nothing is there, and after it everything; nothing comes twice."""
    expected = {"before-segment": 0, "after-segment": 0, "after-commit": 10}
    kept = {}
    for place in expected:
        (tmp_path / place).mkdir()
        url = f"sqlite:///{tmp_path / place / 'store.sqlite'}"
        kept[place] = made(url, tmp_path / place), url
    workers = {
        place: begin(
            DIE, "a", json.dumps([(url, str(tmp_path / place))]), failpoint=f"intake.{place}"
        )
        for place, (_, url) in kept.items()
    }
    for place, worker in workers.items():
        assert worker.communicate(timeout=60)[0] == ""
        assert worker.returncode == -9
        (database, store), _ = kept[place]
        assert rows_of(database, schema.waiting_tags) == expected[place]
        segments = list((tmp_path / place / "segments").iterdir())
        assert len(segments) == (place != "before-segment")
        assert store.garbage.collect() == (place == "after-segment")
        new = 10 - expected[place]
        assert send(store, make_survey(), range(10)) == new
        assert store.reports.read(store.reports.claim(10, LEASE)) == make_reports(
            make_survey(), range(10)
        )
        store.close()
        database.close()


@pytest.mark.slow
def test_a_million_reports_that_wait_are_found_in_seconds(tmp_path):
    url = f"sqlite:///{tmp_path / 'store.sqlite'}"
    database, store = made(url, tmp_path)
    survey = make_survey()
    size, random = Wire.of(survey).report_bytes, simulator(1)
    for _ in range(1000):
        store.reports.receive([Arrival(survey.id, 0, random.bytes(1000 * size))])
    store.close()
    database.close()
    begun = time.process_time()
    database = Database(url)
    store = ShufflerStore(database, tmp_path, ManualClock(START))
    assert store.garbage.collect() == 0
    assert store.batches.advance() == []
    assert len(store.reports.read(store.reports.claim(10_000, LEASE))) == 10_000 * size
    assert time.process_time() - begun < 5
    store.close()
    database.close()


@pytest.mark.slow
def test_a_hundred_thousand_reports_sent_ten_times_count_once(tmp_path):
    url = f"sqlite:///{tmp_path / 'store.sqlite'}"
    survey = make_survey(target=10**6)
    size, random = Wire.of(survey).report_bytes, simulator(2)
    bodies = [random.bytes(1000 * size) for _ in range(100)]
    made(url, tmp_path)[0].close()
    new = 0
    for _ in range(10):
        database = Database(url)
        store = ShufflerStore(database, tmp_path, ManualClock(START))
        store.surveys.add(survey)
        new += sum(store.reports.receive([Arrival(survey.id, 0, body)]) for body in bodies)
        open_all(store)
        store.close()
        database.close()
    assert new == 100_000
    database = Database(url)
    assert states(database) == [("OPEN", 100_000)]
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
