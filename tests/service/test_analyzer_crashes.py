"""Processes that die anywhere, and processes that want the same: one debit, one publication."""

from __future__ import annotations

import threading

import pytest

from service_site import START, Analyzer, Instead, at_once, sealed
from shoal.service.analyzer import tables as schema
from shoal.service.analyzer.collect import Collector
from shoal.service.analyzer.results import Results
from shoal.service.db.leases import LEASE, Leases
from shoal.service.errors import LeaseLostError, StoreUnavailableError
from shoal.service.opening import Pool

BATCH = "11" * 16
VALUES = [0] * 60 + [1] * 30 + [2] * 10


@pytest.fixture
def others(forks):
    """Other processes that make one pass each, and may die on it."""

    def collect(directory, *points, url=None):
        """How each ended, and what it published; one for every failpoint (None: none)."""
        place = {"directory": str(directory), "url": url}
        return forks.run("service_site.collect", *({"point": each, **place} for each in points))

    return collect


def assert_published_once(analyzer, survey, batch=BATCH):
    assert len(analyzer.rows(schema.ledger)) == 1
    assert len(analyzer.rows(schema.results)) == 1
    found = analyzer.document(survey, batch)
    assert found["status"] == "published"
    assert found["valid"] == len(VALUES)
    assert sum(found["rejected"].values()) == 0, "its own records are no replays"
    assert analyzer.shuffler.acknowledged(batch)
    assert len({request for _, _, request in analyzer.shuffler.told("fetch")}) == 1
    assert not list(analyzer.store.incoming.iterdir())
    return found


def test_a_process_killed_after_the_last_step_leaves_no_claim(analyzer, monkeypatch):
    """Nobody takes up a batch that is done, so nobody else would clear its owner."""
    survey = analyzer.asking()
    analyzer.send(survey, VALUES)
    monkeypatch.setattr(Leases, "release", lambda *_args, **_rows: None)
    analyzer.collect(survey)
    assert_published_once(analyzer, survey)
    (row,) = analyzer.rows(schema.collections)
    assert (row.owner, row.lease_until) == (None, None)


def race(analyzer, survey, contestants, passes=1):
    collectors = [analyzer.collector(survey) for _ in range(contestants)]
    done = at_once(lambda i: [collectors[i].step() for _ in range(passes)], contestants)
    return [batch for each in done for one in each for batch in one.published]


def test_racing_threads_publish_every_batch_once(analyzer):
    survey = analyzer.asking()
    names = [f"{place:032x}" for place in range(4)]
    for seed, name in enumerate(names):
        analyzer.send(survey, VALUES[:60], batch=name, seed=seed)
    published = race(analyzer, survey, contestants=4, passes=2)
    assert sorted(published) == names
    assert len(analyzer.rows(schema.ledger)) == len(analyzer.rows(schema.results)) == 4


def test_work_that_was_taken_over_is_dropped(analyzer):
    survey = analyzer.asking()
    analyzer.send(survey, VALUES)
    slow = analyzer.collector(survey)
    offer = analyzer.shuffler.offers()[0]
    collections = analyzer.store.collections
    held = collections.claim(collections.request(survey.id, offer))
    assert collections.claim(held) is None
    analyzer.clock.advance(LEASE)
    taken = collections.claim(held)
    assert taken.owner != held.owner
    with pytest.raises(LeaseLostError):
        collections.move(held, schema.RECEIVED, key=0, reports=100, records=100)
    with pytest.raises(LeaseLostError):
        collections.leases.renew(held.owner, LEASE)
    with pytest.raises(LeaseLostError):
        collections.leases.release(held.owner)
    assert collections.find(survey.id, BATCH).owner == taken.owner, "not ours to release"
    collections.leases.release(taken.owner)
    assert slow.step().published == (BATCH,)
    assert_published_once(analyzer, survey)


def test_a_lease_given_before_the_clock_was_set_back_does_not_last_for_ever(analyzer):
    survey = analyzer.asking()
    analyzer.send(survey, VALUES)
    found = analyzer.store.collections.request(survey.id, analyzer.shuffler.offers()[0])
    analyzer.store.collections.claim(found)
    analyzer.clock.now = START - 86_400
    assert analyzer.store.collections.claim(found) is not None


def test_long_work_keeps_its_lease(analyzer):
    survey = analyzer.asking()
    analyzer.send(survey, VALUES)
    store, shuffler = analyzer.store, analyzer.shuffler

    def slowly(batch, request):
        analyzer.clock.advance(LEASE // 2)
        return shuffler.fetch(batch, request)

    class SlowPool(Pool):
        def open_records(self, *words):
            assert store.collections.claim(store.collections.find(survey.id, BATCH)) is None
            analyzer.clock.advance(LEASE // 2)
            return super().open_records(*words)

    collector = Collector(
        store, analyzer.keyring, survey, Instead(shuffler, fetch=slowly), SlowPool(0)
    )
    assert collector.step().published == (BATCH,)


def test_a_full_disk_keeps_nobody_for_longer_than_a_lease(analyzer, monkeypatch):
    """What cannot be written cannot be given back either."""
    survey = analyzer.asking()
    analyzer.send(survey, VALUES)

    def full(*_words, **_named):
        raise StoreUnavailableError("writing", "database or disk is full")

    with monkeypatch.context() as patched:
        patched.setattr(Results, "publish", full)
        patched.setattr(Leases, "release", full)
        patched.setattr(Leases, "renew", full)
        with pytest.raises(StoreUnavailableError):
            analyzer.collect(survey)
    assert analyzer.collect(survey).leased == 1
    analyzer.clock.advance(LEASE)
    assert analyzer.collect(survey).published == (BATCH,)
    assert_published_once(analyzer, survey)


def test_a_worker_looks_again_when_the_lease_of_the_dead_has_ended(analyzer, others):
    survey = analyzer.asking()
    analyzer.send(survey, VALUES)
    others(analyzer.directory, "analysis.opened")
    worker = analyzer.worker(interval=900)
    waits = []

    class Stop(threading.Event):
        def wait(self, timeout=None):
            if threading.current_thread() is threading.main_thread():  # who looks for shufflers
                return super().wait()
            waits.append(timeout)
            analyzer.clock.advance(int(timeout))
            if timeout == worker.interval:
                self.set()
            return self.is_set()

    worker.run(Stop())
    assert waits == [1] * LEASE + [900]
    assert_published_once(analyzer, survey)


def test_a_file_that_somebody_deleted_is_fetched_again(analyzer, others):
    survey = analyzer.asking()
    analyzer.send(survey, VALUES)
    others(analyzer.directory, "collect.received")
    for path in analyzer.store.incoming.glob("*.batch"):
        path.unlink()
    analyzer.clock.advance(LEASE)
    assert analyzer.collect(survey).published == (BATCH,)
    assert_published_once(analyzer, survey)


def test_racing_processes_and_threads_count_a_record_once(tmp_path, url, others):
    analyzer = Analyzer(tmp_path / "analyzer", url=url)
    survey = analyzer.asking()
    records = sealed(survey, analyzer.keyring, VALUES)
    names = [f"{place:032x}" for place in range(3)]
    for name in names:
        analyzer.shuffler.put(survey, records, batch=name)
    ended = others(analyzer.directory, None, None, url=url)
    assert [status for status, _ in ended] == [0, 0]
    race(analyzer, survey, contestants=3)
    analyzer.collect(survey)
    valid = sorted(analyzer.document(survey, name)["valid"] for name in names)
    assert valid == [0, 0, len(VALUES)]
    assert len(analyzer.rows(schema.ledger)) == len(analyzer.rows(schema.results)) == 3
    assert analyzer.store.forget_key(0) == len(VALUES)
    analyzer.close()
