"""Drills: a party is backed up while it works, lost, and brought back, and nothing counts twice."""

from __future__ import annotations

import itertools
import threading
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from hashlib import sha256

import pytest
import sqlalchemy as sa

from factories import Half
from service.backup_kit import CROWD, DAY, Service, digest, records
from service.live import START
from shoal.errors import RefusedError
from shoal.service.analyzer import tables as analyzer_schema
from shoal.service.errors import ConflictError, already_collected
from shoal.service.keyring import Keyring, KeyState, Protection, Schedule
from shoal.service.keyring.key_list import Before, numbered
from shoal.service.keyring.key_list import digest as list_digest
from shoal.service.keyring.keys import next_number
from shoal.service.ops import backup
from shoal.service.ops.backup import Writer, back_up
from shoal.service.ops.home import Home
from shoal.service.ops.restore import restore
from shoal.service.shuffler import tables as schema
from shoal.service.survey import Batches

REQUEST = "ab" * 16


@pytest.fixture
def service(tmp_path):
    found = Service(tmp_path)
    yield found
    found.close()


# A shuffler


def test_nothing_acknowledged_before_the_backup_is_lost_or_counted_twice(service):
    """Reports come in while it is made; afterwards everybody sends the same bytes again."""
    reports = service.reports(3 * CROWD - 5)
    service.send(reports[:CROWD])
    service.open()  # one batch is closed and mixed
    acknowledged, enough = reports[:CROWD], threading.Event()

    def people():
        for report in reports[CROWD:]:
            service.send([report])
            acknowledged.append(report)
            if len(acknowledged) == CROWD + 8:
                enough.set()

    with ThreadPoolExecutor(1) as pool:
        sending = pool.submit(people)
        assert enough.wait(60)
        before = list(acknowledged)
        service.back_up("shuffler")
        sending.result(60)
    (batch,) = service.batches().values()
    service.lose("shuffler")
    done = service.bring_back("shuffler", waiting="keep")
    assert service.batches() == {batch.id: batch}  # the same bytes, under the same digest
    assert done.kept == sorted(done.kept)
    assert service.send(before) == (0, 0)
    service.send(reports)
    service.open()
    tallies = service.shuffler.store.reports.tallies(service.survey.id)
    assert (tallies["opened"], tallies.get("rejected", 0)) == (len(reports), 0)
    assert service.collect().problems == {}
    every = service.results().values()
    assert all(sum(found["rejected"].values()) == 0 for found in every)
    sets = [records(data) for data in service.released]
    assert sum(map(len, sets)) == len(frozenset().union(*sets))
    assert digest_of(service.released, batch.id) == batch.digest


def digest_of(released, batch):
    (found,) = {sha256(data).hexdigest() for data in released if batch.encode() in data[:500]}
    return found


def test_a_batch_that_may_have_been_released_since_is_not_released_again(service):
    """Two releases that differ by a few people would single these out."""
    early = service.reports(CROWD - 6)
    service.send(early)
    service.open()
    service.send(service.reports(2))  # not opened yet
    service.back_up("shuffler")
    late = service.reports(6)
    service.send(late)
    service.open()
    assert service.collect().published
    service.lose("shuffler")
    done = service.bring_back("shuffler", waiting="drop")
    assert (len(done.dropped), done.kept) == (1, [])
    assert service.send(early + late) == (0, CROWD)  # in doubt: sealed with keys that are gone
    service.open()
    assert service.batches() == {}
    service.send(service.reports(CROWD))
    service.open()
    assert service.collect().published
    first, second = map(records, service.released)
    assert not first & second
    assert Counter(found["valid"] for found in service.results().values()) == {
        CROWD + 2: 1,
        CROWD: 1,
    }
    tallies = service.shuffler.store.reports.tallies(service.survey.id)
    assert (tallies["opened"], tallies["unreadable"]) == (2 * CROWD - 6, 2)


MOMENTS = ("empty", "waiting", "open", "sealed", "shuffled", "released", "acknowledged", "purged")


QUICK = {("open", True), ("sealed", False)}


def _cases():
    for case in itertools.product(MOMENTS, [False, True]):
        yield pytest.param(*case, marks=[] if case in QUICK else pytest.mark.slow)


@pytest.mark.parametrize(("moment", "later"), list(_cases()))
def test_what_is_released_is_the_same_set_or_another_one(tmp_path, moment, later):
    """Backed up at any moment of a batch's life, lost with or without its end having come."""
    service = Service(tmp_path)
    steps = {
        "empty": lambda: None,
        "waiting": lambda: service.send(service.reports(CROWD - 4)),
        "open": service.open,
        "sealed": lambda: _seal(service),
        "shuffled": service.open,
        "released": lambda: _release(service),
        "acknowledged": service.collect,
        "purged": lambda: service.open(upkeep=0),
    }
    for name in MOMENTS[: MOMENTS.index(moment) + 1]:
        steps[name]()
    service.back_up("shuffler")
    if later:
        for name in MOMENTS[max(2, MOMENTS.index(moment) + 1) :]:
            if name == "sealed":  # with more people than the backup knows
                service.send(service.reports(CROWD))
            steps[name]()
    service.lose("shuffler")
    service.bring_back("shuffler", waiting="drop" if later else "keep")
    service.open(upkeep=0)
    service.collect()
    service.send(service.reports(CROWD))
    service.open(upkeep=0)
    service.collect()
    sets = {records(data) for data in [*service.released, *_curious(service)]}
    assert all(not one & other for one, other in itertools.combinations(sets, 2))
    assert all(len(found) >= CROWD for found in sets)
    every = service.results().values()
    assert sum(found["valid"] for found in every) == len(frozenset().union(*sets))
    assert all(sum(found["rejected"].values()) == 0 for found in every)
    assert len(every) == (1 if moment in MOMENTS[:3] and not later else 2)
    service.close()


def _curious(service):
    """Whatever an analyzer could get that asks for everything once more."""
    for batch, found in service.batches().items():
        if found.state == schema.SHUFFLED:
            yield service.shuffler.store.batches.release(
                service.survey.id, batch, REQUEST
            ).read_bytes()


def _seal(service):
    service.send(service.reports(CROWD))
    store = service.shuffler.store
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(store.batches, "claim", lambda _lease: None)
        service.open()


def _release(service):
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("shoal.service.analyzer.collect.Collector._acknowledge", _interrupted)
        service.collect()


def _interrupted(_collector, _held):
    message = "the network is gone"
    raise already_collected(message)


def test_a_released_batch_stays_with_its_request(service):
    service.send(service.reports(CROWD))
    service.open()
    (batch,) = service.batches()
    path = service.shuffler.store.batches.release(service.survey.id, batch, REQUEST)
    before = digest(path)
    service.back_up("shuffler")
    service.lose("shuffler")
    service.bring_back("shuffler", waiting="drop")
    store = service.shuffler.store
    with pytest.raises(ConflictError, match="by another request"):
        store.batches.release(service.survey.id, batch, "cd" * 16)
    assert digest(store.batches.release(service.survey.id, batch, REQUEST)) == before
    assert path.stat().st_mtime_ns == 0
    assert path.stat().st_mode & 0o777 == 0o600


def test_only_what_waits_is_in_the_backup(service):
    """Reports that were opened are erased, and in no backup, as what was in between is not."""
    opened, waiting = service.reports(10), service.reports(5)
    service.send(opened)
    service.open()
    service.send(waiting)
    service.send(service.reports(2))
    with service.shuffler.database.write() as connection:  # a stretch in between is opened
        ordered = sa.select(schema.extents.c.id).order_by(schema.extents.c.start)
        rows = connection.execute(ordered).scalars().all()
        connection.execute(schema.extents.delete().where(schema.extents.c.id == rows[0]))
    service.send(service.reports(3))
    path = service.back_up("shuffler")
    content = path.read_bytes()
    assert not any(report in content for report in opened + waiting)
    service.lose("shuffler")
    service.bring_back("shuffler", waiting="keep")
    service.open()
    assert service.shuffler.store.reports.tallies(service.survey.id)["opened"] == 10 + 2 + 3


def test_leases_of_the_dead_end(service):
    service.send(service.reports(5))
    assert service.shuffler.store.reports.claim(100, 3600) is not None
    service.back_up("shuffler")
    service.lose("shuffler")
    service.bring_back("shuffler", waiting="keep")
    assert service.shuffler.store.reports.claim(100, 600) is not None


def test_work_that_goes_on_meanwhile_makes_it_begin_again(service, monkeypatch):
    """A batch is mixed and its parts are deleted between the database and the files."""
    service.send(service.reports(CROWD))
    _seal(service)
    real, tries = Writer.add, []

    def add(writer, name, path, ranges=None):
        tries.append(name)
        if len(tries) == 1:
            service.open(upkeep=0)
        return real(writer, name, path, ranges)

    monkeypatch.setattr(Writer, "add", add)
    service.back_up("shuffler")
    assert tries.count("store.sqlite") == 2
    (batch,) = service.batches().values()
    service.lose("shuffler")
    service.bring_back("shuffler", waiting="drop")
    assert service.batches() == {batch.id: batch}
    assert list((service.directory / "shuffler" / "parts").iterdir()) == []


@pytest.fixture
def moments(monkeypatch):
    """What happens once the segments are locked, and once the database is copied; and how often."""
    calls = {"locked": [], "copied": []}
    lock, snapshot = backup.lock_segments, backup.snapshot

    def locking(*arguments):
        names = lock(*arguments)
        for call in calls["locked"][:1]:
            calls["locked"].remove(call)
            call()
        return names

    @contextmanager
    def copying(*arguments):
        calls["tries"] = calls.get("tries", 0) + 1
        with snapshot(*arguments) as copied:
            for call in calls["copied"][:1]:
                calls["copied"].remove(call)
                call()
            yield copied

    monkeypatch.setattr(backup, "lock_segments", locking)
    monkeypatch.setattr(backup, "snapshot", copying)
    return calls


def _segments(service):
    return sorted((service.directory / "shuffler" / "segments").iterdir())


def _reject_some(service):
    """Gather one of two extents of a segment, which is then overwritten and not deleted."""
    reports = service.shuffler.store.reports
    claim = reports.claim(1, 60)
    reports.finish(claim, {})
    assert reports.segments.erase(claim.extents, reports.needed) == []


def test_reports_gathered_after_the_copy_are_copied_whole(service, moments):
    """Their segment was locked before: it is erased when the backup is made."""
    service.send(service.reports(7))
    moments["copied"].append(service.open)
    service.back_up("shuffler")
    assert moments["tries"] == 1
    assert service.shuffler.store.reports.tallies(service.survey.id) == {"opened": 7}
    assert len(_segments(service)) == 1
    service.lose("shuffler")
    service.bring_back("shuffler", waiting="keep")
    service.open()
    assert service.shuffler.store.reports.tallies(service.survey.id) == {"opened": 7}


def test_a_segment_begun_after_the_locks_counts_while_its_reports_wait(service, moments):
    service.send(service.reports(3))
    moments["locked"].append(lambda: service.send(service.reports(4)))
    service.back_up("shuffler")
    assert moments["tries"] == 1
    assert len(_segments(service)) == 2
    service.lose("shuffler")
    service.bring_back("shuffler", waiting="keep")
    service.open()
    assert service.shuffler.store.reports.tallies(service.survey.id) == {"opened": 7}


@pytest.mark.parametrize("gather", [Service.open, _reject_some])
def test_one_whose_reports_were_gathered_makes_it_begin_again(service, moments, gather):
    """Deleted, or full of zeros where they were: neither comes into a backup."""
    sent = [service.reports(4), service.reports(4)]
    moments["locked"].append(lambda: [service.send(reports) for reports in sent])
    moments["copied"].append(lambda: gather(service))
    service.back_up("shuffler")
    assert moments["tries"] == 2
    before = service.shuffler.store.reports.tallies(service.survey.id)
    service.lose("shuffler")
    service.bring_back("shuffler", waiting="keep")
    service.open()
    tallies = service.shuffler.store.reports.tallies(service.survey.id)
    assert tallies.get("opened", 0) + before.get("rejected", 0) == 8
    assert "unreadable" not in tallies


def test_a_store_that_never_stands_still_is_refused(service):
    service.send(service.reports(CROWD))
    _seal(service)
    (part,) = (service.directory / "shuffler" / "parts").iterdir()
    part.unlink()
    with pytest.raises(RefusedError, match=r"was deleted while it was copied; stop the worker"):
        service.back_up("shuffler")
    assert sorted(path.name for path in service.directory.iterdir()) == ["analyzer", "shuffler"]


# An analyzer


def test_a_restored_analyzer_publishes_the_same_result_and_debits_once(service):
    service.send(service.reports(CROWD + 3))
    service.open()
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("shoal.service.analyzer.collect.Collector._open", _interrupted)
        service.collect()
    assert _states(service) == ["RECEIVED"]
    service.back_up("analyzer")
    service.clock.advance(7200)
    service.collect()
    (first,), ledger = (
        service.results().values(),
        service.analyzer.store.ledger.entries(service.survey.id),
    )
    service.lose("analyzer")
    service.bring_back("analyzer")
    assert service.results() == {}
    service.clock.advance(7200)
    assert service.collect().problems == {}
    (second,) = service.results().values()
    assert second.pop("published") == first.pop("published") + 7200
    lives = [document.pop("life") for document in (first, second)]
    assert lives[0]["epsilon"] < lives[1]["epsilon"]  # as others may have been published since
    assert second == first
    assert service.analyzer.store.ledger.entries(service.survey.id) == ledger
    assert _states(service) == ["PUBLISHED"]
    assert len(set(service.released)) == 1


def test_what_was_collected_after_the_backup_cannot_be_had_again(service):
    """Purged at the shuffler it is not offered any more; before that, the request is missing."""
    service.back_up("analyzer")
    service.send(service.reports(CROWD))
    service.open()
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("shoal.service.analyzer.collect.Collector._open", _interrupted)
        service.collect()
    service.lose("analyzer")
    service.bring_back("analyzer")
    passed = service.collect()
    ((batch, told),) = passed.problems.items()
    assert "collected by another request" in told
    assert service.analyzer.store.ledger.entries(service.survey.id) == []
    # The page on backups: the shuffler's operator lets the same bytes go to the same analyzer.
    with service.shuffler.database.write() as connection:
        connection.execute(sa.text(REMEDY), {"batch": batch})
    assert service.collect().published == (batch,)
    assert len(set(service.released)) == 1
    service.lose("analyzer")
    service.bring_back("analyzer")
    assert service.collect() == service.collect()
    assert service.results() == {}


REMEDY = (
    "UPDATE batches SET state = 'SHUFFLED', request = NULL WHERE id = :batch AND state = 'RELEASED'"
)


def _states(service):
    return [found.state for found in service.analyzer.store.collections.of(service.survey.id)]


# Keys


def test_keys_that_were_deleted_since_do_not_come_back(tmp_path):
    schedule = Schedule(active=10 * DAY, expired=3 * DAY, listed=30 * DAY)
    rules = Batches(minimum=CROWD, target=CROWD, max_age=DAY, small="expire")
    service = Service(tmp_path, schedule=schedule, batches=rules)
    keyring = service.analyzer.keyring
    for _ in range(11):
        service.clock.advance(DAY)
        keyring.tick()
    assert [key.state for key in keyring.list().keys] == [KeyState.EXPIRED, KeyState.ACTIVE]
    service.back_up("analyzer")
    for _ in range(5):
        service.clock.advance(DAY)
        keyring.tick()
    assert keyring.gone() == {0}
    service.lose("analyzer")
    done = service.bring_back("analyzer")
    assert done.revived.deleted == (0,)
    back = service.analyzer.keyring
    assert back.gone() == frozenset(range(done.next_number)) - {1}
    assert not list((tmp_path / "analyzer" / "keys").glob("key-000*"))
    service.close()


def test_a_key_that_waiting_reports_need_stays(tmp_path):
    schedule = Schedule(active=10 * DAY, expired=3 * DAY, listed=60 * DAY)
    service = Service(tmp_path, schedule=schedule)
    service.send(service.reports(5))
    service.back_up("shuffler")
    service.clock.advance(20 * DAY)
    service.lose("shuffler")
    done = service.bring_back("shuffler", waiting="keep")
    assert done.revived.deleted == ()
    service.open()
    assert service.shuffler.store.reports.tallies(service.survey.id)["opened"] == 5
    service.close()


@pytest.mark.parametrize("waiting", ["keep", "drop"])
def test_its_list_follows_every_list_that_was_ever_seen(tmp_path, waiting):
    """Others saw keys that the backup does not know: none of their numbers is another key's."""
    suites = ("x25519-aes128gcm", "mlkem768x25519-aes128gcm")
    home = Home(directory=tmp_path / "shuffler", role="shuffler")
    ring = Keyring.create(
        home.keys, role="shuffler", protection=Protection.none(), suites=suites, clock=clock_at(0)
    )
    seen = [ring.list()]
    home.database().close()
    back_up(home, tmp_path / "shuffler.tar", clock=clock_at(0), waiting=True)
    later = Keyring.open(home.keys, protection=Protection.none(), clock=clock_at(70 * DAY))
    for suite in suites * 3:
        later.rotate(suite=suite)
        seen.append(later.list())
    known = Before(
        issued=seen[-1].issued,
        digest=list_digest(seen[-1].document),
        keys={number: key for each in seen for number, key in numbered(each).items()},
    )
    asked = Service.restoring(
        Place(tmp_path), "shuffler", directory=tmp_path / "b", waiting=waiting
    )
    done = restore(**asked, clock=clock_at(70 * DAY + 60))
    back = Keyring.open(tmp_path / "b" / "keys", protection=None, clock=clock_at(70 * DAY + 60))
    known.check(back.list())
    in_use = [key for key in back.list().keys if key.state is KeyState.ACTIVE]
    assert {key.suite for key in in_use} == set(suites)
    assert min(done.revived.made) > max(known.keys)
    assert set(done.revived.deleted) == {0, 1}  # 70 days later, or because all are replaced


class Place:
    def __init__(self, directory):
        self.directory = directory


def clock_at(seconds):
    return lambda: START + seconds


def test_numbers_that_run_out_are_told(tmp_path):
    service = Service(tmp_path)
    service.back_up("shuffler")
    asked = {"waiting": "drop", "directory": tmp_path / "b"}
    service.clock.advance(DAY)
    with pytest.raises(Exception, match=r"numbers end at 255.*--first-number"):
        restore(**service.restoring("shuffler", first_number=256, **asked), clock=service.clock)
    with pytest.raises(Exception, match="correct the clock"):
        restore(**service.restoring("shuffler", **asked), clock=clock_at(-2 * DAY))
    assert not (tmp_path / "b").exists()
    done = restore(**service.restoring("shuffler", first_number=255, **asked), clock=service.clock)
    assert done.revived.made == (255,)
    service.close()


def test_a_backup_without_keys_tells_where_new_ones_begin(service):
    path = service.back_up("shuffler", keys=False)
    assert b"key-000" not in path.read_bytes()
    service.clock.advance(40 * DAY)
    identity = service.directory / "identity"
    identity.write_bytes((service.directory / "shuffler" / "keys" / "identity").read_bytes())
    service.lose("shuffler")
    done = restore(**service.restoring("shuffler", waiting="keep"), clock=service.clock)
    assert done.revived is None
    note = done.manifest.ring
    expected = next_number(note.unused, suites=1, active=note.active, since=0, now=40 * DAY)
    assert done.next_number == expected == 1 + 3 + 8
    service.shuffler = Half("shuffler", service.directory / "shuffler", service.clock)


# The token of the analyzer, and tokens that count again


def test_tokens_are_told(service):
    service.shuffler.store.tokens.add("analyzer", None, DAY)
    service.shuffler.store.tokens.add("ended", None, 1)
    service.back_up("shuffler")
    service.clock.advance(10)
    service.lose("shuffler")
    assert service.bring_back("shuffler", waiting="drop").tokens == ["analyzer"]


def test_collections_are_free_again(service):
    service.send(service.reports(CROWD))
    service.open()
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("shoal.service.analyzer.collect.Collector._receive", _interrupted)
        service.collect()
    with service.analyzer.database.write() as connection:
        held = {"owner": "ff" * 16, "lease_until": service.clock() + 600}
        connection.execute(analyzer_schema.collections.update().values(held))
    service.back_up("analyzer")
    service.lose("analyzer")
    service.bring_back("analyzer")
    assert service.collect().published
