"""Drills: a party is backed up while it works, lost, and brought back, and nothing counts twice."""

from __future__ import annotations

import itertools
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from hashlib import sha256

import pytest
import sqlalchemy as sa

from factories import DAY
from service_site import CROWD, START, Shuffler, Site
from shoal.errors import RefusedError
from shoal.service.analyzer import tables as analyzer_schema
from shoal.service.batch_file import BatchFile
from shoal.service.errors import ConflictError, already_collected
from shoal.service.keyring import Keyring, KeyState, Protection, Schedule
from shoal.service.keyring.key_list import Before
from shoal.service.keyring.key_list import digest as list_digest
from shoal.service.keyring.keys import next_number
from shoal.service.ops import backup
from shoal.service.ops.backup import Writer, back_up
from shoal.service.ops.home import Home
from shoal.service.ops.restore import restore
from shoal.service.shuffler import tables as schema
from shoal.service.survey import Batches

REQUEST = "ab" * 16


def records(batch):
    """The sealed records of a batch file, as a set."""
    found = BatchFile.read(batch)
    ((_, size),), body = found.header.sections, bytes(found.body)
    return frozenset(body[start : start + size] for start in range(0, len(body), size))


# A shuffler


def test_nothing_acknowledged_before_the_backup_is_lost_or_counted_twice(site):
    """Reports come in while it is made; afterwards everybody sends the same bytes again."""
    reports = site.reports(3 * CROWD - 5)
    site.send(reports[:CROWD])
    site.work()  # one batch is closed and mixed
    acknowledged, enough = reports[:CROWD], threading.Event()

    def people():
        for report in reports[CROWD:]:
            site.send([report])
            acknowledged.append(report)
            if len(acknowledged) == CROWD + 8:
                enough.set()

    with ThreadPoolExecutor(1) as pool:
        sending = pool.submit(people)
        assert enough.wait(60)
        before = list(acknowledged)
        site.back_up("shuffler")
        sending.result(60)
    (batch,) = site.batches().values()
    done = site.come_back("shuffler", waiting="keep")
    assert site.batches() == {batch.id: batch}  # the same bytes, under the same digest
    assert done.kept == sorted(done.kept)
    assert site.send(before) == (0, 0)
    site.send(reports)
    site.work()
    tallies = site.shuffler.tallies()
    assert (tallies["opened"], tallies.get("rejected", 0)) == (len(reports), 0)
    assert site.collect().problems == {}
    every = site.results()
    assert all(sum(found["rejected"].values()) == 0 for found in every)
    sets = [records(data) for data in site.released]
    assert sum(map(len, sets)) == len(frozenset().union(*sets))
    assert digest_of(site.released, batch.id) == batch.digest


def digest_of(released, batch):
    (found,) = {sha256(data).hexdigest() for data in released if batch.encode() in data[:500]}
    return found


MOMENTS = ("empty", "waiting", "open", "sealed", "shuffled", "released", "acknowledged", "purged")


QUICK = {("open", True), ("sealed", False)}


def _cases():
    for case in itertools.product(MOMENTS, [False, True]):
        yield pytest.param(*case, marks=[] if case in QUICK else pytest.mark.slow)


@pytest.mark.parametrize(("moment", "later"), list(_cases()))
def test_what_is_released_is_the_same_set_or_another_one(tmp_path, moment, later):
    """Backed up at any moment of a batch's life, lost with or without its end having come."""
    site = Site(tmp_path)
    steps = {
        "empty": lambda: None,
        "waiting": lambda: site.send(site.reports(CROWD - 4)),
        "open": site.work,
        "sealed": lambda: _seal(site),
        "shuffled": site.work,
        "released": lambda: _release(site),
        "acknowledged": site.collect,
        "purged": lambda: site.work(upkeep=0),
    }
    for name in MOMENTS[: MOMENTS.index(moment) + 1]:
        steps[name]()
    site.back_up("shuffler")
    if later:
        for name in MOMENTS[max(2, MOMENTS.index(moment) + 1) :]:
            if name == "sealed":  # with more people than the backup knows
                site.send(site.reports(CROWD))
            steps[name]()
    site.come_back("shuffler", waiting="drop" if later else "keep")
    site.work(upkeep=0)
    site.collect()
    site.send(site.reports(CROWD))
    site.work(upkeep=0)
    site.collect()
    sets = {records(data) for data in [*site.released, *_curious(site)]}
    assert all(not one & other for one, other in itertools.combinations(sets, 2))
    assert all(len(found) >= CROWD for found in sets)
    every = site.results()
    assert sum(found["valid"] for found in every) == len(frozenset().union(*sets))
    assert all(sum(found["rejected"].values()) == 0 for found in every)
    assert len(every) == (1 if moment in MOMENTS[:3] and not later else 2)
    site.close()


def _curious(site):
    """Whatever an analyzer could get that asks for everything once more."""
    for batch, found in site.batches().items():
        if found.state == schema.SHUFFLED:
            yield site.shuffler.store.batches.release(site.survey.id, batch, REQUEST).read_bytes()


def _seal(site):
    site.send(site.reports(CROWD))
    store = site.shuffler.store
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(store.batches, "claim", lambda _lease: None)
        site.work()


def _release(site):
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("shoal.service.analyzer.collect.Collector._acknowledge", _interrupted)
        site.collect()


def _interrupted(_collector, _held):
    message = "the network is gone"
    raise already_collected(message)


def test_a_released_batch_stays_with_its_request(site):
    site.crowd(CROWD)
    (batch,) = site.batches()
    path = site.shuffler.store.batches.release(site.survey.id, batch, REQUEST)
    before = path.read_bytes()
    site.back_up("shuffler")
    site.come_back("shuffler", waiting="drop")
    store = site.shuffler.store
    with pytest.raises(ConflictError, match="by another request"):
        store.batches.release(site.survey.id, batch, "cd" * 16)
    assert store.batches.release(site.survey.id, batch, REQUEST).read_bytes() == before
    assert path.stat().st_mtime_ns == 0
    assert path.stat().st_mode & 0o777 == 0o600


def test_only_what_waits_is_in_the_backup(site):
    """Reports that were opened are erased, and in no backup, as what was in between is not."""
    opened, waiting = site.reports(10), site.reports(5)
    site.send(opened)
    site.work()
    site.send(waiting)
    site.send(site.reports(2))
    with site.shuffler.database.write() as connection:  # a stretch in between is opened
        ordered = sa.select(schema.extents.c.id).order_by(schema.extents.c.start)
        rows = connection.execute(ordered).scalars().all()
        connection.execute(schema.extents.delete().where(schema.extents.c.id == rows[0]))
    site.send(site.reports(3))
    path = site.back_up("shuffler")
    content = path.read_bytes()
    assert not any(report in content for report in opened + waiting)
    site.come_back("shuffler", waiting="keep")
    site.work()
    assert site.shuffler.tallies()["opened"] == 10 + 2 + 3


def test_leases_of_the_dead_end(site):
    site.send(site.reports(5))
    assert site.shuffler.store.reports.claim(100, 3600) is not None
    site.back_up("shuffler")
    site.come_back("shuffler", waiting="keep")
    assert site.shuffler.store.reports.claim(100, 600) is not None


def test_work_that_goes_on_meanwhile_makes_it_begin_again(site, monkeypatch):
    """A batch is mixed and its parts are deleted between the database and the files."""
    site.send(site.reports(CROWD))
    _seal(site)
    real, tries = Writer.add, []

    def add(writer, name, path, ranges=None):
        tries.append(name)
        if len(tries) == 1:
            site.work(upkeep=0)
        return real(writer, name, path, ranges)

    monkeypatch.setattr(Writer, "add", add)
    site.back_up("shuffler")
    assert tries.count("store.sqlite") == 2
    (batch,) = site.batches().values()
    site.come_back("shuffler", waiting="drop")
    assert site.batches() == {batch.id: batch}
    assert list((site.directory / "shuffler" / "parts").iterdir()) == []


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


def _segments(site):
    return sorted((site.directory / "shuffler" / "segments").iterdir())


def _reject_some(site):
    """Gather one of two extents of a segment, which is then overwritten and not deleted."""
    reports = site.shuffler.store.reports
    claim = reports.claim(1, 60)
    reports.finish(claim, {})
    assert reports.segments.erase(claim.extents, reports.needed) == []


def test_reports_gathered_after_the_copy_are_copied_whole(site, moments):
    """Their segment was locked before: it is erased when the backup is made."""
    site.send(site.reports(7))
    moments["copied"].append(site.work)
    site.back_up("shuffler")
    assert moments["tries"] == 1
    assert site.shuffler.tallies() == {"opened": 7}
    assert len(_segments(site)) == 1
    site.come_back("shuffler", waiting="keep")
    site.work()
    assert site.shuffler.tallies() == {"opened": 7}


def test_a_segment_begun_after_the_locks_counts_while_its_reports_wait(site, moments):
    site.send(site.reports(3))
    moments["locked"].append(lambda: site.send(site.reports(4)))
    site.back_up("shuffler")
    assert moments["tries"] == 1
    assert len(_segments(site)) == 2
    site.come_back("shuffler", waiting="keep")
    site.work()
    assert site.shuffler.tallies() == {"opened": 7}


@pytest.mark.parametrize("gather", [Site.work, _reject_some])
def test_one_whose_reports_were_gathered_makes_it_begin_again(site, moments, gather):
    """Deleted, or full of zeros where they were: neither comes into a backup."""
    sent = [site.reports(4), site.reports(4)]
    moments["locked"].append(lambda: [site.send(reports) for reports in sent])
    moments["copied"].append(lambda: gather(site))
    site.back_up("shuffler")
    assert moments["tries"] == 2
    before = site.shuffler.tallies()
    site.come_back("shuffler", waiting="keep")
    site.work()
    tallies = site.shuffler.tallies()
    assert tallies.get("opened", 0) + before.get("rejected", 0) == 8
    assert "unreadable" not in tallies


def test_a_store_that_never_stands_still_is_refused(site):
    site.send(site.reports(CROWD))
    _seal(site)
    (part,) = (site.directory / "shuffler" / "parts").iterdir()
    part.unlink()
    with pytest.raises(RefusedError, match=r"was deleted while it was copied; stop the worker"):
        site.back_up("shuffler")
    assert sorted(path.name for path in site.directory.iterdir()) == ["analyzer", "shuffler"]


# An analyzer


def test_a_restored_analyzer_publishes_the_same_result_and_debits_once(site):
    site.crowd(CROWD + 3)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("shoal.service.analyzer.collect.Collector._open", _interrupted)
        site.collect()
    assert _states(site) == ["RECEIVED"]
    site.back_up("analyzer")
    site.clock.advance(7200)
    site.collect()
    (first,), ledger = site.results(), site.ledger()
    site.come_back("analyzer")
    assert site.results() == []
    site.clock.advance(7200)
    assert site.collect().problems == {}
    (second,) = site.results()
    assert second.pop("published") == first.pop("published") + 7200
    lives = [document.pop("life") for document in (first, second)]
    assert lives[0]["epsilon"] < lives[1]["epsilon"]  # as others may have been published since
    assert second == first
    assert site.ledger() == ledger
    assert _states(site) == ["PUBLISHED"]
    assert len(set(site.released)) == 1


def test_what_was_collected_after_the_backup_cannot_be_had_again(site):
    """Purged at the shuffler it is not offered any more; before that, the request is missing."""
    site.back_up("analyzer")
    site.crowd(CROWD)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("shoal.service.analyzer.collect.Collector._open", _interrupted)
        site.collect()
    site.come_back("analyzer")
    passed = site.collect()
    ((batch, told),) = passed.problems.items()
    assert "collected by another request" in told
    assert site.ledger() == []
    # The page on backups: the shuffler's operator lets the same bytes go to the same analyzer.
    with site.shuffler.database.write() as connection:
        connection.execute(sa.text(REMEDY), {"batch": batch})
    assert site.collect().published == (batch,)
    assert len(set(site.released)) == 1
    site.come_back("analyzer")
    assert site.collect() == site.collect()
    assert site.results() == []


REMEDY = (
    "UPDATE batches SET state = 'SHUFFLED', request = NULL WHERE id = :batch AND state = 'RELEASED'"
)


def _states(site):
    return [found.state for found in site.analyzer.store.collections.of(site.survey.id)]


# Keys


def test_keys_that_were_deleted_since_do_not_come_back(tmp_path):
    schedule = Schedule(active=10 * DAY, expired=3 * DAY, listed=30 * DAY)
    rules = Batches(minimum=CROWD, target=CROWD, max_age=DAY, small="expire")
    site = Site(tmp_path, schedule=schedule, batches=rules)
    keyring = site.analyzer.keyring
    for _ in range(11):
        site.clock.advance(DAY)
        keyring.tick()
    assert [key.state for key in keyring.list().keys] == [KeyState.EXPIRED, KeyState.ACTIVE]
    site.back_up("analyzer")
    for _ in range(5):
        site.clock.advance(DAY)
        keyring.tick()
    assert keyring.gone() == {0}
    done = site.come_back("analyzer")
    assert done.revived.deleted == (0,)
    back = site.analyzer.keyring
    assert back.gone() == frozenset(range(done.next_number)) - {1}
    assert not list((tmp_path / "analyzer" / "keys").glob("key-000*"))
    site.close()


def test_a_key_that_waiting_reports_need_stays(tmp_path):
    schedule = Schedule(active=10 * DAY, expired=3 * DAY, listed=60 * DAY)
    site = Site(tmp_path, schedule=schedule)
    site.send(site.reports(5))
    site.back_up("shuffler")
    site.clock.advance(20 * DAY)
    done = site.come_back("shuffler", waiting="keep")
    assert done.revived.deleted == ()
    site.work()
    assert site.shuffler.tallies()["opened"] == 5
    site.close()


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
        keys={key.number: key.public.fingerprint for each in seen for key in each.keys},
    )
    done = restore(
        tmp_path / "shuffler.tar",
        tmp_path / "b",
        unlock=lambda _: Protection.none(),
        waiting=waiting,
        clock=clock_at(70 * DAY + 60),
    )
    back = Keyring.open(tmp_path / "b" / "keys", protection=None, clock=clock_at(70 * DAY + 60))
    known.check(back.list())
    in_use = [key for key in back.list().keys if key.state is KeyState.ACTIVE]
    assert {key.suite for key in in_use} == set(suites)
    assert min(done.revived.made) > max(known.keys)
    assert set(done.revived.deleted) == {0, 1}  # 70 days later, or because all are replaced


def clock_at(seconds):
    return lambda: START + seconds


def test_numbers_that_run_out_are_told(tmp_path):
    site = Site(tmp_path)
    site.back_up("shuffler")
    asked = {"waiting": "drop", "directory": tmp_path / "b"}
    site.clock.advance(DAY)
    with pytest.raises(Exception, match=r"numbers end at 255.*--first-number"):
        restore(**site.restoring("shuffler", first_number=256, **asked), clock=site.clock)
    with pytest.raises(Exception, match="correct the clock"):
        restore(**site.restoring("shuffler", **asked), clock=clock_at(-2 * DAY))
    assert not (tmp_path / "b").exists()
    done = restore(**site.restoring("shuffler", first_number=255, **asked), clock=site.clock)
    assert done.revived.made == (255,)
    site.close()


def test_a_backup_without_keys_tells_where_new_ones_begin(site):
    path = site.back_up("shuffler", keys=False)
    assert b"key-000" not in path.read_bytes()
    site.clock.advance(40 * DAY)
    identity = site.directory / "identity"
    identity.write_bytes((site.directory / "shuffler" / "keys" / "identity").read_bytes())
    site.lose("shuffler")
    done = restore(**site.restoring("shuffler", waiting="keep"), clock=site.clock)
    assert done.revived is None
    note = done.manifest.ring
    expected = next_number(note.unused, suites=1, active=note.active, since=0, now=40 * DAY)
    assert done.next_number == expected == 1 + 3 + 8
    site.shuffler = Shuffler(site.directory / "shuffler", site.clock)


# The token of the analyzer, and tokens that count again


def test_tokens_are_told(site):
    site.shuffler.store.tokens.add("analyzer", None, DAY)
    site.shuffler.store.tokens.add("ended", None, 1)
    site.back_up("shuffler")
    site.clock.advance(10)
    site.lose("shuffler")
    assert site.bring_back("shuffler", waiting="drop").tokens == ["analyzer"]


def test_collections_are_free_again(site):
    site.crowd(CROWD)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("shoal.service.analyzer.collect.Collector._receive", _interrupted)
        site.collect()
    with site.analyzer.database.write() as connection:
        held = {"owner": "ff" * 16, "lease_until": site.clock() + 600}
        connection.execute(analyzer_schema.collections.update().values(held))
    site.back_up("analyzer")
    site.come_back("analyzer")
    assert site.collect().published
