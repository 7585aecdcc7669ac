"""A wrong database, a missing disk, a clock that is ahead: nothing that counts is deleted."""

from __future__ import annotations

import errno
from types import SimpleNamespace

import pytest
import sqlalchemy as sa

from factories import DAY
from service.stores import (
    HOUR,
    LEASE,
    START,
    fill,
    make_reports,
    make_survey,
    names,
    open_all,
    records,
    rows_of,
    send,
    states,
)
from shoal.errors import InvalidArgumentError
from shoal.service.analyzer.store import AnalyzerStore
from shoal.service.clock import GracePeriod, ManualClock
from shoal.service.db import Database, files
from shoal.service.db import tables as common
from shoal.service.db.database import FILE, StoreId
from shoal.service.db.dialect import lock_number
from shoal.service.errors import (
    StoreBusyError,
    StoreUnavailableError,
    StoreVersionError,
)
from shoal.service.shuffler import tables as schema
from shoal.service.shuffler.reports import Segments
from shoal.service.shuffler.store import ShufflerStore


class Parts:
    """A store on either database, and another process's view of the same place."""

    def __init__(self, url, directory):
        self.url, self.directory, self.clock = url, directory, ManualClock(START)
        self.database = Database(url, timeout=60)
        self.database.migrate("shuffler")
        self.survey = make_survey()
        self.store = self.opened()
        self.store.surveys.add(self.survey)

    def opened(self, database=None, **options):
        given = {"grace": 0} | options
        return ShufflerStore(database or self.database, self.directory, self.clock, **given)

    def close(self):
        self.store.close()
        self.database.close()


@pytest.fixture
def parts(url, tmp_path):
    found = Parts(url, tmp_path / "shuffler")
    yield found
    found.close()


@pytest.fixture
def lite(tmp_path):
    found = Parts(f"sqlite:///{tmp_path / 'store.sqlite'}", tmp_path / "shuffler")
    yield found
    found.close()


@pytest.fixture
def other(tmp_path):
    """A database that got its tables by itself, because somebody mistyped an address."""
    database = Database(f"sqlite:///{tmp_path / 'other.sqlite'}")
    database.migrate("shuffler")
    yield database
    database.close()


# A database and a directory that belong together


def test_another_database_is_refused_before_it_deletes_anything(parts, other):
    fill(parts.store, parts.survey, range(15))
    send(parts.store, parts.survey, range(100, 103))
    before = [names(parts.directory / name) for name in ("segments", "parts")]
    for _ in range(2):
        with pytest.raises(StoreVersionError, match=r"store-id belongs to another.*SHOAL_STORE"):
            parts.opened(other)
    assert [names(parts.directory / name) for name in ("segments", "parts")] == before
    assert open_all(parts.opened()) == 3


def test_another_database_is_refused_when_nothing_is_there_to_delete(lite, other):
    """What comes later would be."""
    with pytest.raises(StoreVersionError):
        lite.opened(other)


def test_a_directory_without_its_disk_is_refused(parts, tmp_path):
    send(parts.store, parts.survey, range(3))
    parts.directory.rename(tmp_path / "unmounted")
    parts.directory.mkdir()
    with pytest.raises(
        StoreVersionError, match=r"lacks the file store-id of this database.*mounted"
    ):
        parts.opened()
    with pytest.raises(StoreVersionError):
        parts.store.id.check()
    assert names(parts.directory) == []
    parts.directory.rmdir()
    (tmp_path / "unmounted").rename(parts.directory)
    parts.store.id.check()
    assert open_all(parts.opened()) == 3


def test_a_store_from_before_names_is_told_what_to_do_with_files_that_nobody_needs(lite):
    """All was opened and collected, and the last segment is still there: no way to tell whose."""
    send(lite.store, lite.survey, range(3))
    (lite.directory / FILE).unlink()
    with lite.database.write() as connection:
        connection.execute(common.store.update().values(bound=False))
        connection.execute(schema.extents.delete())
    with pytest.raises(StoreVersionError, match=r"if it is the right one.* move them elsewhere"):
        lite.opened()
    (lite.directory / "segments").rename(lite.directory.with_name("elsewhere"))
    assert lite.opened().surveys.all() == [lite.survey]


def test_a_store_from_before_names_gets_one(lite, other):
    """Files and references on both sides, or on neither: they may be each other's."""
    send(lite.store, lite.survey, range(3))
    (lite.directory / FILE).unlink()
    with lite.database.write() as connection:
        connection.execute(common.store.update().values(bound=False))
    with pytest.raises(StoreVersionError):
        lite.opened(other)
    moved = lite.directory.with_name("empty")
    with pytest.raises(StoreVersionError):
        ShufflerStore(lite.database, moved, lite.clock)
    assert names(moved) == []
    lite.opened()
    with lite.database.read() as connection:
        (row,) = connection.execute(sa.select(common.store)).all()
    assert (lite.directory / FILE).read_text(encoding="utf-8").strip() == row.id
    assert row.bound


def test_a_crash_between_the_two_names_is_made_good(lite):
    with lite.database.write() as connection:
        connection.execute(common.store.update().values(bound=False))
    send(lite.store, lite.survey, range(3))
    lite.opened()
    (lite.directory / FILE).unlink()
    with pytest.raises(StoreVersionError):
        lite.opened()


def test_an_analyzer_has_a_directory_of_its_own(tmp_path):
    databases = [Database(f"sqlite:///{tmp_path / name}.sqlite") for name in ("a", "b")]
    for database in databases:
        database.migrate("analyzer")
    AnalyzerStore(databases[0], tmp_path / "analyzer", lambda: 0)
    AnalyzerStore(databases[0], tmp_path / "analyzer", lambda: 0)
    with pytest.raises(StoreVersionError):
        AnalyzerStore(databases[1], tmp_path / "analyzer", lambda: 0)
    for database in databases:
        database.close()


def test_a_name_that_cannot_be_read_is_an_unavailable_store(lite):
    (lite.directory / FILE).unlink()
    (lite.directory / FILE).mkdir()
    with pytest.raises(StoreUnavailableError):
        StoreId(lite.database, lite.directory).check()


# What looks useless


def test_things_are_useless_after_they_looked_so_for_a_while():
    now = SimpleNamespace(seconds=0.0)
    grace = GracePeriod(10, lambda: now.seconds)
    assert grace.over({"a"}) == set()
    now.seconds = 9
    assert grace.over({"a", "b"}) == set()
    now.seconds = 10
    assert grace.over({"a", "b"}) == {"a"}
    assert grace.over({"b"}) == set()
    now.seconds = 19
    assert grace.over({"a", "b"}) == {"b"}  # the other was needed in between
    with pytest.raises(InvalidArgumentError):
        GracePeriod(-1)


def test_files_that_nobody_refers_to_are_kept_for_an_hour(lite):
    """As after a database was restored from a backup."""
    fill(lite.store, lite.survey, range(5))
    (lite.directory / "parts" / "nobodys-0").write_bytes(b"x")
    (lite.directory / "batches" / "nobodys.batch").write_bytes(b"x")
    careful = lite.opened(grace=HOUR)
    now = SimpleNamespace(seconds=0.0)
    for grace in (
        careful._segments._grace,
        careful.garbage.parts_grace,
        careful.garbage.files_grace,
    ):
        grace._steady = lambda: now.seconds
    assert careful.garbage.collect() == 0
    now.seconds = HOUR - 1
    assert careful.garbage.collect() == 0
    now.seconds = HOUR
    assert careful.garbage.collect() == 3
    assert len(names(lite.directory / "parts")) == 1


def test_a_clock_that_was_ahead_for_a_moment_deletes_no_batch(parts):
    fill(parts.store, parts.survey, range(9))
    careful = parts.opened(grace=HOUR)
    now = SimpleNamespace(seconds=0.0)
    careful.batches._hopeless._steady = lambda: now.seconds
    parts.clock.advance(400 * DAY)
    assert [step.state for step in careful.batches.advance()] == ["CARRIED"]
    now.seconds = HOUR / 2
    assert careful.batches.advance() == []
    parts.clock.advance(-400 * DAY)
    assert careful.batches.advance() == []
    now.seconds = 2 * HOUR
    parts.clock.advance(400 * DAY)
    assert careful.batches.advance() == []  # the hour begins again
    now.seconds = 3 * HOUR
    assert [step.state for step in careful.batches.advance()] == ["EXPIRED"]


def test_no_batch_dies_while_the_clock_is_doubted(lite):
    fill(lite.store, lite.survey, range(9))
    lite.clock.now = lite.survey.not_after + DAY
    assert [step.state for step in lite.store.batches.advance(expire=False)] == ["CARRIED"]
    assert lite.store.batches.advance(expire=False) == []
    assert [step.state for step in lite.store.batches.advance()] == ["EXPIRED"]


# Attempts


def test_what_is_not_the_reports_fault_does_not_count(parts):
    send(parts.store, parts.survey, range(3))
    for _ in range(3):
        claim = parts.store.reports.claim(10, LEASE)
        assert claim.attempts == 0
        parts.store.reports.recount(claim, -1)
        parts.store.reports.leases.release(claim.owner)
    parts.store.reports.recount(parts.store.reports.claim(10, LEASE), -1)
    assert parts.store.reports.claim(10, LEASE) is None  # the lease goes on
    parts.clock.advance(LEASE)
    assert parts.store.reports.claim(10, LEASE).attempts == 0
    parts.clock.advance(LEASE)
    assert parts.store.reports.claim(10, LEASE).attempts == 1


# Tags of what does not open


def test_the_tags_of_rejected_reports_go(parts):
    send(parts.store, parts.survey, range(10))
    send(parts.store, parts.survey, range(10), key=1)
    claim = parts.store.reports.claim(10, LEASE)
    rejected = make_reports(parts.survey, range(4))
    parts.store.reports.finish(claim, {0: records(parts.survey, 6)}, rejected)
    assert rows_of(parts.database, schema.recent_tags) == 6
    assert rows_of(parts.database, schema.waiting_tags) == 10
    assert send(parts.store, parts.survey, range(10), key=claim.key) == 4
    assert send(parts.store, parts.survey, range(10), key=1 - claim.key) == 0
    assert states(parts.database) == [("OPEN", 6)]


# Room


def test_without_room_nothing_is_taken_in_and_everything_else_goes_on(lite, monkeypatch):
    send(lite.store, lite.survey, range(3))
    free, now = [10 << 30], [100.0]
    usage = lambda _: SimpleNamespace(free=free[0])  # noqa: E731
    monkeypatch.setattr(files, "shutil", SimpleNamespace(disk_usage=usage))
    monkeypatch.setattr(files, "time", SimpleNamespace(monotonic=lambda: now[0]))
    store = lite.opened(least_free=1 << 20)
    assert send(store, lite.survey, [3]) == 1
    free[0] = 1 << 19
    assert send(store, lite.survey, [4]) == 1  # looked at once a second
    now[0] += 1
    with pytest.raises(StoreUnavailableError, match="too little space"):
        send(store, lite.survey, [5])
    assert open_all(store) == 5
    free[0] = 1 << 20
    now[0] += 1
    assert send(store, lite.survey, [5]) == 1


# Segments


def test_a_segment_whose_name_was_not_synced_is_not_used(tmp_path, monkeypatch):
    segments = Segments(tmp_path / "segments", ManualClock(START))
    real, calls = files.sync_directory, []

    def sync(path):
        calls.append(path)
        if len(calls) == 1:
            raise OSError(errno.EIO, "input/output error")
        real(path)

    monkeypatch.setattr(files, "sync_directory", sync)
    with pytest.raises(StoreUnavailableError), segments.appending() as append:
        append([b"never acknowledged"])
    assert names(tmp_path / "segments") == []
    with segments.appending() as append:
        assert segments.read(append([b"x"])) == b"x"
    assert len(calls) == 2
    segments.close()


def test_a_commit_in_flight_keeps_its_segment(postgres_url, tmp_path):
    """The process that asked for it is dead, and its lock on the file with it."""
    parts = Parts(postgres_url, tmp_path / "shuffler")
    dead = Segments(parts.directory / "segments", parts.clock)
    with dead.appending() as append:
        extent = append([make_reports(parts.survey, range(5))])
    dead.close()
    server = Database(postgres_url)
    with server.write() as connection:
        lock = sa.func.pg_advisory_xact_lock_shared(lock_number(extent.segment))
        connection.execute(sa.select(lock))
        assert parts.store.garbage.collect() == 0
    assert parts.store.garbage.collect() == 1
    server.close()
    parts.close()


def test_an_intake_holds_the_lock_of_its_segment_until_its_commit(
    postgres_url, tmp_path, monkeypatch
):
    parts = Parts(postgres_url, tmp_path / "shuffler")
    other, free = Database(postgres_url), []

    def reached(place):
        if place not in {"intake.after-segment", "afterwards"}:
            return
        with other.read() as connection:
            (segment,) = names(parts.directory / "segments")
            number = lock_number(segment.removesuffix(".segment"))
            lock = sa.func.pg_try_advisory_xact_lock(number)
            free.append(connection.execute(sa.select(lock)).scalar())

    monkeypatch.setattr("shoal.service.failpoints.reached", reached)
    send(parts.store, parts.survey, range(5))
    reached("afterwards")
    assert free == [False, True]
    other.close()
    parts.close()


# PostgreSQL that is far away


def test_a_lock_that_is_not_given_is_told_from_a_database_that_is_gone(postgres_url, tmp_path):
    parts = Parts(postgres_url, tmp_path / "shuffler")
    impatient = Database(postgres_url, timeout=0.2)
    with parts.database.write() as connection:
        connection.execute(sa.text("LOCK TABLE tags"))
        with pytest.raises(StoreBusyError):
            send(parts.opened(impatient), parts.survey, range(3))
    impatient.close()
    parts.close()


def test_connections_notice_that_the_other_side_is_gone(postgres_url):
    database = Database(postgres_url)
    with database.read() as connection:
        found = {
            name: connection.exec_driver_sql(f"SHOW {name}").scalar()
            for name in (
                "idle_in_transaction_session_timeout",
                "client_connection_check_interval",
                "statement_timeout",
            )
        }
        parameters = connection.connection.driver_connection.info.get_parameters()
    assert found == {
        "idle_in_transaction_session_timeout": "1min",
        "client_connection_check_interval": "5s",
        "statement_timeout": "0",
    }
    assert (parameters["tcp_user_timeout"], parameters["keepalives_idle"]) == ("20000", "20")
    database.close()
