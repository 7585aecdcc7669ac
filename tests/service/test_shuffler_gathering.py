"""After a gathering nothing on the disk tells the order or the time of what came."""

from __future__ import annotations

import fcntl
import signal
import threading
import time
from dataclasses import replace

import numpy as np
import pytest
import sqlalchemy as sa

from service_site import Shuffler, until_idle
from shoal.service.clock import ManualClock
from shoal.service.db.database import Database
from shoal.service.db.tables import add_tags
from shoal.service.opening import tags_of
from shoal.service.shuffler import tables as schema
from shoal.service.shuffler.reports import GATHER, GATHER_REPORTS, Arrival
from shoal.service.shuffler.worker import Pace

KIB = 1024


@pytest.fixture
def steady():
    """A clock that nobody sets, in our hands."""
    return ManualClock(0)


def worker_of(shuffler, steady, **pace):
    return shuffler.worker(monotonic=steady, **{"gather": GATHER, "upkeep": 3600} | pace)


def gathered(*workers, steps=3):
    for worker in workers:
        for _ in range(steps):
            until_idle(worker)


def tag(report):
    (found,) = tags_of(report, len(report))
    return found


def contents(directory):
    """Every file of a store, but for what its processes share in memory."""
    files = [path for path in sorted(directory.rglob("*")) if path.is_file()]
    return {
        str(path.relative_to(directory)): path.read_bytes()
        for path in files
        if not path.name.endswith("-shm") and "keys" not in path.parts
    }


def layout(directory):
    """How many files of which size there are, whatever their names."""
    found = contents(directory)
    return sorted((name.partition("/")[0], len(data)) for name, data in found.items())


@pytest.fixture
def twins(tmp_path):
    """Two shufflers that know nothing of each other; the same reports are for both."""
    pair = []
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        pair.append((Shuffler.alone(tmp_path / name, minimum=2000, target=4000), tmp_path / name))
    yield pair
    for shuffler, _ in pair:
        shuffler.close()


def noise(shuffler, count, seed=7):
    """Different bytes of the right length, version and key."""
    body, size = shuffler.forged(count, seed=seed), shuffler.wire.report_bytes
    return [body[start : start + size] for start in range(0, len(body), size)]


def moved(shuffler, reports, schedule, then=lambda: None):
    """Receive reports in groups of an order, and gather them as if all of them had opened."""
    for group in schedule:
        shuffler.receive([reports[each] for each in group])
    then()
    claim = shuffler.store.reports.claim(10**6, 60)
    assert claim.count == len(reports)
    records = bytes(claim.count * shuffler.wire.opened_bytes)
    shuffler.store.reports.finish(claim, {3: records})
    journal = shuffler.store.reports
    assert journal.segments.erase(claim.extents, journal.needed) == []
    assert shuffler.store.reports.sweep()


def test_what_is_on_the_disk_does_not_depend_on_how_reports_came(twins):
    """One after the other, or all at once and backwards: the same files, and tags in one place."""
    (first, one), (second, two) = twins
    reports = noise(first, 1200)
    rng = np.random.default_rng(3)
    order = rng.permutation(len(reports))
    moved(first, reports, [[each] for each in order[:400]] + [order[400:]])
    moved(second, reports, [order[::-1]])
    assert layout(one) == layout(two)
    assert not list((one / "segments").iterdir())
    places = [
        [contents(place)["store.sqlite"].find(tag(report)) for report in reports]
        for place in (one, two)
    ]
    assert min(places[0]) > 0
    assert places[0] == places[1]


def test_no_byte_of_a_gathered_report_is_left_and_no_order(twins):
    (shuffler, directory), _ = twins
    reports = noise(shuffler, 1200, seed=11)
    moved(shuffler, reports, [range(start, start + 3) for start in range(0, 1200, 3)])
    every = b"".join(contents(directory).values())
    for report in reports[::25]:
        for piece in (report[2:34], report[-32:]):
            assert piece not in every
    assert all(every.count(tag(report)) == 1 for report in reports)
    places = np.array([every.find(tag(report)) for report in reports])
    ranks = np.argsort(np.argsort(places))
    correlation = np.corrcoef(ranks, np.arange(len(reports)))[0, 1]
    # Of independent ranks: standard deviation 1/√1199, and 5.5 of them happen once in 2·10⁷ times.
    assert abs(correlation) < 5.5 / np.sqrt(len(reports) - 1)


def test_no_file_changed_last_when_a_report_came(twins):
    """Files and directories are of before the first report, or of the gathering."""
    (shuffler, directory), _ = twins
    times = []

    def now():
        time.sleep(0.05)  # several ticks of the file system's clock
        times.append(time.time_ns())
        time.sleep(0.05)

    now()
    moved(
        shuffler, noise(shuffler, 30), [range(start, start + 3) for start in range(0, 30, 3)], now
    )
    before, after = times
    paths = [path for path in directory.rglob("*") if not path.name.endswith("-shm")]
    assert any(path.stat().st_ctime_ns > after for path in paths)
    assert not [path for path in paths if before < path.stat().st_ctime_ns < after]
    assert not [path for path in paths if before < path.stat().st_mtime_ns < after]


def test_postgresql_keeps_tags_in_an_order_of_their_own(tmp_path, postgres_url):
    shuffler = Shuffler.alone(tmp_path, url=postgres_url, minimum=2000, target=4000)
    reports = noise(shuffler, 2400, seed=5)
    moved(shuffler, reports, [range(start, start + 12) for start in range(0, 2400, 12)])
    with shuffler.database.read() as connection:
        tables = [
            connection.scalars(sa.text(f"SELECT tag FROM {table} ORDER BY ctid")).all()  # noqa: S608
            for table in ("recent_tags", "tags")
        ]
        sizes = connection.execute(
            sa.text("SELECT pg_relation_size('waiting_tags'), pg_relation_size('extents')")
        ).one()
    found = [[bytes(row) for row in rows] for rows in tables]
    assert [len(rows) for rows in found] == [1000, 1400]
    assert all(rows == sorted(rows) for rows in found)
    assert sorted(found[0] + found[1]) == sorted(map(tag, reports))
    assert tuple(sizes) == (0, 0)
    shuffler.close()


# When


def test_a_trickle_is_opened_together(shuffler, steady, tmp_path):
    worker = worker_of(shuffler, steady, gather=60)
    parts, size = [], shuffler.wire.opened_bytes
    for report in shuffler.reports(12):
        shuffler.receive(report)
        gathered(worker)
        parts.append([path.stat().st_size // size for path in (tmp_path / "parts").iterdir()])
        steady.now += 15
    assert parts == [[]] * 4 + [[5]] * 5 + [[10]] * 3
    assert shuffler.tallies() == {"opened": 10}


def test_many_are_opened_at_once_and_the_rest_waits_for_its_own_time(shuffler, steady):
    worker = worker_of(shuffler, steady, gather=60, gather_reports=8, reports=8)
    reports = shuffler.reports(11)
    for report in reports[:7]:
        shuffler.receive(report)
    gathered(worker)
    assert shuffler.tallies() == {}
    steady.now = 59
    for report in reports[7:]:
        shuffler.receive(report)
    gathered(worker)
    steady.now = 61
    gathered(worker)
    assert shuffler.tallies()["opened"] == 8
    steady.now = 61 + 60
    gathered(worker)
    assert shuffler.tallies()["opened"] == 11


def test_reports_of_another_worker_s_gathering_do_not_hurry_those_that_follow(shuffler, steady):
    mine, other = (worker_of(shuffler, steady, gather=60) for _ in range(2))
    reports = shuffler.reports(2)
    shuffler.receive(reports[0])
    gathered(mine, other)
    steady.now = 60
    gathered(other)
    assert shuffler.tallies() == {"opened": 1}
    shuffler.receive(reports[1])
    gathered(mine, other)
    assert shuffler.tallies() == {"opened": 1}


def test_a_batch_that_can_close_does(shuffler, steady):
    """The target is 40, the minimum 20, and the greatest age an hour."""
    worker = worker_of(shuffler, steady)
    reports = shuffler.reports(105)
    shuffler.receive(reports[:39])
    gathered(worker)
    assert shuffler.tallies() == {}
    shuffler.receive(reports[39])
    gathered(worker)
    assert shuffler.released() == [40]
    shuffler.receive(reports[40:55])
    steady.now += GATHER
    gathered(worker)
    steady.now += GATHER
    gathered(worker)
    assert shuffler.tallies()["opened"] == 55
    shuffler.receive(reports[55:60])
    shuffler.clock.advance(3700)
    gathered(worker)  # 15 are old, and with those that wait they are enough
    assert shuffler.released() == [20, 40]
    shuffler.receive(reports[60:63])
    shuffler.clock.advance(31 * 86400)  # the survey is over
    gathered(worker)
    assert shuffler.tallies()["opened"] == 63


@pytest.fixture
def aged(shuffler, steady):
    """A worker of a shuffler whose open batch is old, while more reports wait."""
    worker, reports = worker_of(shuffler, steady), shuffler.reports(30)
    shuffler.receive(reports[:25])
    gathered(worker)
    steady.now += GATHER
    gathered(worker)
    shuffler.receive(reports[25:])
    shuffler.clock.advance(3700)
    return worker


def test_a_worker_gathers_what_waits_before_it_closes_a_batch(shuffler, aged):
    gathered(aged)
    assert shuffler.released() == [30]


@pytest.mark.usefixtures("aged")
def test_nobody_holds_a_batch_open_by_sending_on_and_on(shuffler):
    assert [each.state for each in shuffler.store.batches.advance()] == ["SEALED"]


def test_what_was_tried_before_is_tried_at_once(shuffler, steady):
    shuffler.receive(shuffler.reports(3))
    assert shuffler.store.reports.claim(100, 5).count == 3  # by somebody who died
    shuffler.clock.advance(6)
    gathered(worker_of(shuffler, steady))
    assert shuffler.tallies() == {"opened": 3}


def test_the_pace_of_gathering():
    assert (Pace().gather, Pace().gather_reports) == (GATHER, GATHER_REPORTS) == (600, 1000)


# What is in the way


def test_a_segment_that_others_refer_to_is_overwritten(shuffler, steady, tmp_path):
    reports = shuffler.reports(6)
    shuffler.receive(reports[:3])
    worker = worker_of(shuffler, steady, gather=60)
    gathered(worker)
    steady.now = 60
    other = replace(shuffler.survey, name="another")
    shuffler.store.surveys.add(other)
    shuffler.store.reports.receive([Arrival(other.id, 0, b"".join(noise(shuffler, 2)))])
    gathered(worker)
    assert shuffler.tallies() == {"opened": 3}
    (segment,) = (tmp_path / "segments").iterdir()
    data, size = segment.read_bytes(), shuffler.wire.report_bytes
    assert data[: 3 * size] == bytes(3 * size)
    assert data[3 * size :] == b"".join(noise(shuffler, 2))


def test_a_locked_segment_is_erased_at_a_later_step(shuffler, steady, tmp_path):
    shuffler.receive(shuffler.reports(3))
    worker = worker_of(shuffler, steady, gather=0)
    (segment,) = (tmp_path / "segments").iterdir()
    with segment.open("rb") as file:
        fcntl.flock(file, fcntl.LOCK_SH)
        gathered(worker)
        assert shuffler.tallies() == {"opened": 3}
        assert segment.exists()
        assert shuffler.receive(shuffler.reports(1)) == 1  # into another file
    gathered(worker)
    assert not list((tmp_path / "segments").iterdir())


def test_a_reader_delays_the_checkpoint_and_no_more(shuffler, steady, tmp_path):
    shuffler.receive(shuffler.reports(3))
    worker = worker_of(shuffler, steady, gather=0)
    log = tmp_path / "store.sqlite-wal"
    other = Database(f"sqlite:///{tmp_path / 'store.sqlite'}")
    with other.read() as reading:
        reading.execute(sa.text("SELECT count(*) FROM extents")).all()
        gathered(worker)
        assert shuffler.tallies() == {"opened": 3}
        assert log.stat().st_size > 0
    gathered(worker)
    assert log.stat().st_size == 0
    other.close()


def test_a_worker_killed_before_it_erases_loses_and_doubles_nothing(shuffler, tmp_path, forks):
    reports = shuffler.reports(25)
    shuffler.receive(reports)
    asked = {"directory": str(tmp_path), "url": None, "now": shuffler.clock()}
    ended = forks.run("service_site.work", asked | {"point": "opening.after-commit"})
    assert ended == [(-signal.SIGKILL, None)]
    assert shuffler.tallies() == {"opened": 25}
    assert list((tmp_path / "segments").iterdir())
    assert shuffler.receive(reports) == 0
    shuffler.work()  # its garbage collection has no grace period
    assert not list((tmp_path / "segments").iterdir())
    shuffler.clock.advance(3700)
    shuffler.work()
    assert shuffler.released() == [25]


# Two at once


def test_a_tag_that_is_moved_meanwhile_is_still_a_duplicate(tmp_path, postgres_url):
    """The intake waits for the worker's transaction, and sees the tag where it is then."""
    shuffler = Shuffler.alone(tmp_path, url=postgres_url)
    reports = shuffler.reports(3)
    shuffler.receive(reports)
    claim = shuffler.store.reports.claim(100, 60)
    receipts = []
    intake = threading.Thread(target=lambda: receipts.append(shuffler.receive(reports)))
    with shuffler.database.write() as connection:
        tags = shuffler.store.reports._gather(connection, claim)
        assert tags == set(map(tag, reports))
        intake.start()
        time.sleep(0.5)
        assert not receipts, "it waits"
        add_tags(connection, 1, claim.key, tags)
    intake.join(30)
    assert receipts == [0]
    with shuffler.database.read() as connection:
        assert connection.scalar(sa.select(sa.func.count()).select_from(schema.waiting_tags)) == 0
    shuffler.close()


def test_a_moved_tag_that_is_rolled_back_still_waits(tmp_path, postgres_url):
    shuffler = Shuffler.alone(tmp_path, url=postgres_url)
    (report,) = shuffler.reports(1)
    shuffler.receive(report)
    claim = shuffler.store.reports.claim(100, 60)
    with shuffler.database.write() as connection:
        shuffler.store.reports._gather(connection, claim)
        connection.rollback()
    assert shuffler.receive(report) == 0
    shuffler.close()
