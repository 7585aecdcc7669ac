"""Codes that are redeemed by many at once, by processes that are killed: each counts once."""

from __future__ import annotations

import signal
import threading
from hashlib import sha256
from pathlib import Path

import pytest
import sqlalchemy as sa

from factories import example
from service.stores import LEASE, START, make_reports, records, rows_of
from shoal.randomness import simulated
from shoal.service.admission import CODE_SPENT, Invited, hashes_of
from shoal.service.clock import ManualClock
from shoal.service.db import Database
from shoal.service.opening import tags_of
from shoal.service.shuffler import tables as schema
from shoal.service.shuffler.reports import Arrival
from shoal.service.shuffler.store import ShufflerStore
from shoal.service.wire import Wire

HERE = "service.test_admission_races"
SENDERS = 4  # of each of two intakes
SENDS = 10  # of every code


def survey_of(people):
    fields = {"minimum": 10, "target": 10**6, "epsilon": 5.0}
    return example(admission=Invited(entitled=people, dishonest=0), opens=START, **fields)


def code_of(person):
    return sha256(b"code %d" % person).digest()[:16]


def store_of(url, directory):
    return ShufflerStore(Database(url, timeout=60), Path(directory), ManualClock(START), grace=0)


def redeem(url, directory, people, seed):
    """Four senders at one intake; every code comes five times here, with one of three reports."""
    survey, store = survey_of(people), store_of(url, directory)
    size, at_once = Wire.of(survey).report_bytes, max(50, people // 200)
    everything = make_reports(survey, range(3 * people))
    refused = [0] * SENDERS

    def send(sender):
        drawn = simulated(seed * SENDERS + sender)
        sends = people * SENDS // (2 * SENDERS)
        persons = (drawn.permutation(people).tolist() * SENDS)[:sends]
        which = drawn.below(3, sends).tolist()
        everybody = list(zip(persons, which, strict=True))
        for start in range(0, sends, at_once):
            chosen = everybody[start : start + at_once]
            places = [3 * person + report for person, report in chosen]
            body = b"".join(everything[at * size : (at + 1) * size] for at in places)
            codes = b"".join(code_of(person) for person, _ in chosen)
            received = store.reports.receive([Arrival(survey.id, 0, body, codes)])
            wrong = received.refused[0] if received.refused else {}
            assert wrong.keys() <= {CODE_SPENT}
            refused[sender] += len(wrong.get(CODE_SPENT, ()))
            if start % (10 * at_once) == 0 and sender == 0:  # a worker moves what waits meanwhile
                gather(store, survey)

    threads = [threading.Thread(target=send, args=(sender,)) for sender in range(SENDERS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    store.close()
    store.reports.database.close()
    return sum(refused)


def gather(store, survey):
    opened = []
    while claim := store.reports.claim(10_000, LEASE):
        opened += tags_of(store.reports.read(claim), Wire.of(survey).report_bytes)
        store.reports.finish(claim, {0: records(survey, claim.count)})
    return opened


def raced(forks, url, directory, people):
    """Two intakes at once, again and again: killed at first, the last ones live."""
    survey = survey_of(people)
    database = Database(url, timeout=60)
    database.migrate("shuffler")
    clock = ManualClock(START)
    store = ShufflerStore(database, Path(directory), clock, grace=0)
    store.surveys.add(survey)
    codes = [code_of(person) for person in range(people)]
    assert store.codes.add(survey.id, hashes_of(b"".join(codes))) == people
    asked = {"url": url, "directory": str(directory), "people": people}
    points = ["after-commit:3", "after-segment:5", "before-segment:2", "after-commit:7"]
    for seed in range(0, len(points), 2):
        ended = forks.run(
            f"{HERE}.redeem",
            *(asked | {"seed": seed + i, "point": f"intake.{points[seed + i]}"} for i in range(2)),
        )
        assert [status for status, _ in ended] == [-signal.SIGKILL] * 2
    ended = forks.run(f"{HERE}.redeem", *(asked | {"seed": 10 + i} for i in range(2)))
    assert [status for status, _ in ended] == [0, 0]
    assert all(refused for _, refused in ended)
    clock.advance(2 * LEASE)  # of those who were killed
    gather(store, survey)
    # Everybody counts once, and each of the reports that count is another person's.
    assert store.reports.tallies(survey.id)["opened"] == people
    with database.read() as connection:
        kept = {
            bytes(tag)
            for table in (schema.tags, schema.recent_tags)
            for tag in connection.scalars(sa.select(table.c.tag))
        }
    tags = tags_of(make_reports(survey, range(3 * people)), Wire.of(survey).report_bytes)
    assert sorted(number // 3 for number, tag in enumerate(tags) if tag in kept) == list(
        range(people)
    )
    assert store.codes.totals(survey.id).spent == people
    assert rows_of(database, schema.waiting_codes) == rows_of(database, schema.waiting_tags) == 0
    store.close()
    database.close()


@pytest.mark.parametrize("dialect", ["sqlite", "postgresql"])
def test_codes_redeemed_by_racing_senders_count_once(dialect, store_urls, tmp_path, forks):
    raced(forks, store_urls[dialect], tmp_path / "shuffler", 400)


@pytest.mark.slow
@pytest.mark.parametrize("dialect", ["sqlite", "postgresql"])
def test_a_hundred_thousand_codes_redeemed_by_racing_senders_count_once(
    dialect, store_urls, tmp_path, forks
):
    raced(forks, store_urls[dialect], tmp_path / "shuffler", 100_000)
