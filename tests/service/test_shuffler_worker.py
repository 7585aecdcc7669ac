from __future__ import annotations

import logging
import resource
import threading
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest

from running_kit import wait_for
from shoal.errors import InvalidArgumentError
from shoal.sealing import KeyPair
from shoal.service.batch_file import BatchFile
from shoal.service.db.leases import Leases
from shoal.service.errors import StoreUnavailableError
from shoal.service.keyring import Keyring, KeyringError
from shoal.service.opening import Pool
from shoal.service.shuffler import worker as worker_module
from shoal.service.shuffler.batches import Batches as StoredBatches
from shoal.service.shuffler.reports import Reports
from shoal.service.shuffler.worker import Pace
from shoal.service.survey import Batches
from shuffler_kit import DAY, made

REQUEST = "a" * 32


def records_of(shuffler, batch, request=REQUEST):
    path = shuffler.store.batches.release(shuffler.survey.id, batch, request)
    return shuffler.wire.sections[0].split(bytes(BatchFile.read(path).body))


def test_from_reports_to_a_batch_that_holds_exactly_them(shuffler):
    """Every person's message is marked, and arrives once."""
    rows = np.arange(40, dtype=np.uint8).reshape(40, 1, 1)
    key = shuffler.keyring.list().current(shuffler.survey.suite, shuffler.clock())
    sealed = [
        shuffler.wire.seal(row, analyzer=shuffler.analyzer.public, shuffler=key) for row in rows
    ]
    shuffler.receive(sealed)
    worker = shuffler.worker()
    assert worker.step()
    while worker.step():
        pass
    (info,) = shuffler.store.batches.listed(shuffler.survey.id)
    records = records_of(shuffler, info.id)
    messages = [
        shuffler.wire.sections[0].open_record(record, shuffler.analyzer) for record in records
    ]
    assert sorted(messages) == [bytes([number]) for number in range(40)]
    assert messages != sorted(messages)


def test_nothing_to_do_is_said(shuffler):
    worker = shuffler.worker()
    worker.step()
    assert not worker.step()


def test_forged_reports_count_as_rejected_and_never_towards_the_minimum(shuffler):
    """Nineteen honest reports among many forged ones are not released; twenty are."""
    shuffler.receive(shuffler.forged(500))
    shuffler.receive(shuffler.reports(19))
    shuffler.work()
    shuffler.clock.advance(2 * 3600)
    shuffler.work()
    assert shuffler.released() == []
    assert (shuffler.tallies().get("opened", 0), shuffler.tallies().get("rejected", 0)) == (19, 500)
    shuffler.receive(shuffler.reports(1))
    shuffler.clock.advance(2 * 3600)
    shuffler.work()
    assert shuffler.released() == [20]


def test_replays_count_once_however_often_they_come(shuffler):
    reports = shuffler.reports(30)
    for _ in range(4):
        shuffler.receive(reports)
        shuffler.work()
    assert shuffler.tallies().get("opened", 0) == 30
    shuffler.clock.advance(2 * 3600)
    shuffler.work()
    assert shuffler.released() == [30]
    shuffler.receive(reports)
    shuffler.clock.advance(2 * 3600)
    shuffler.work()
    assert shuffler.released() == [30]


def test_batches_never_mix_keys_of_the_analyzer(shuffler):
    newer = KeyPair.generate(number=4)
    shuffler.receive(shuffler.reports(25) + shuffler.reports(22, analyzer=newer))
    shuffler.clock.advance(2 * 3600)
    shuffler.work()
    shuffler.clock.advance(2 * 3600)
    shuffler.work()
    assert shuffler.released() == [22, 25]
    for info in shuffler.store.batches.listed(shuffler.survey.id):
        heads = {record[1] for record in records_of(shuffler, info.id)}
        assert heads == {info.key}


def test_a_pool_of_processes_gives_the_same(shuffler):
    shuffler.receive([*shuffler.reports(40), shuffler.forged(1)])
    with Pool(2) as pool:
        worker = shuffler.worker(pool)
        while worker.step():
            pass
    assert shuffler.released() == [40]
    assert shuffler.tallies().get("rejected", 0) == 1


def test_mixing_on_little_memory(shuffler):
    shuffler.receive(shuffler.reports(40))
    worker = shuffler.worker(memory=4096)
    while worker.step():
        pass
    (info,) = shuffler.store.batches.listed(shuffler.survey.id)
    assert len(set(records_of(shuffler, info.id))) == 40


# What goes wrong


def failing(monkeypatch, target, name, error, times=10**9):
    """Let a method fail so many times before it does what it did."""
    original = getattr(target, name)
    left = [times]

    def broken(self, *args, **named):
        if left[0] > 0:
            left[0] -= 1
            raise error
        return original(self, *args, **named)

    monkeypatch.setattr(target, name, broken)


def test_poisoned_reports_are_dead_letters_in_the_end_and_honest_ones_go_on(
    shuffler, tmp_path, caplog
):
    shuffler.receive(shuffler.forged(7))
    shuffler.store.close()
    (segment,) = [path for path in (tmp_path / "segments").rglob("*") if path.is_file()]
    segment.write_bytes(b"")
    shuffler.receive(shuffler.reports(40))
    worker = shuffler.worker(attempts=3, lease=600)
    for _ in range(8):
        while worker.step():
            pass
        shuffler.clock.advance(601)
    assert shuffler.tallies().get("unreadable", 0) == 7
    assert caplog.messages.count("dead_letter") == 1
    assert shuffler.released() == [40]
    assert not worker.step()


@pytest.mark.parametrize(
    "error",
    [
        StoreUnavailableError("writing", "disk full"),
        OSError("too many open files"),
        MemoryError(),
    ],
)
def test_nothing_is_a_dead_letter_for_what_is_not_its_fault(shuffler, monkeypatch, error):
    """A disk that is full for a day costs nobody's report."""
    shuffler.receive(shuffler.reports(40))
    with monkeypatch.context() as broken:
        failing(broken, Reports, "finish", error)
        worker = shuffler.worker(attempts=2)
        for _ in range(8):
            with suppress(StoreUnavailableError):
                worker.step()
            shuffler.clock.advance(601)
    assert shuffler.tallies().get("unreadable", 0) == 0
    shuffler.work()
    assert shuffler.released() == [40]


def test_a_failure_is_tried_again_after_its_lease(shuffler, monkeypatch, caplog):
    shuffler.receive(shuffler.reports(40))
    failing(monkeypatch, Pool, "open_reports", RuntimeError("once"), times=1)
    worker = shuffler.worker(attempts=2)
    worker.step()
    assert [record.message for record in caplog.records] == ["work_failed"]
    worker.step()
    assert shuffler.released() == []
    shuffler.clock.advance(601)
    while worker.step():
        pass
    assert shuffler.released() == [40]


def test_a_mix_that_fails_is_done_again(shuffler, monkeypatch, tmp_path):
    shuffler.receive(shuffler.reports(40))
    calls = []
    original = worker_module.mix_records

    def half(sources, destination, **named):
        calls.append(True)
        if len(calls) == 1:
            destination.write(b"half of it")
            raise OSError(28, "No space left on device")
        return original(sources, destination, **named)

    monkeypatch.setattr(worker_module, "mix_records", half)
    worker = shuffler.worker()
    while worker.step():
        pass
    assert shuffler.released() == []
    assert list((tmp_path / "batches").iterdir()) == []
    shuffler.clock.advance(601)
    while worker.step():
        pass
    assert shuffler.released() == [40]
    (kept,) = (tmp_path / "batches").iterdir()
    assert kept.stat().st_mode & 0o777 == 0o600


def test_a_lease_that_somebody_took_over_costs_nothing(shuffler, monkeypatch, caplog):
    """Two workers on one store; the first is taken for dead in the middle of its work."""
    shuffler.receive(shuffler.reports(40))
    second = shuffler.worker()
    original = Pool.open_reports

    def slow(pool, wire, pair, body, **named):
        monkeypatch.setattr(Pool, "open_reports", original)
        shuffler.clock.advance(601)
        while second.step():
            pass
        return original(pool, wire, pair, body, **named)

    monkeypatch.setattr(Pool, "open_reports", slow)
    first = shuffler.worker()
    while first.step():
        pass
    assert "lease_lost" in [record.message for record in caplog.records]
    assert shuffler.tallies().get("opened", 0) == 40
    assert shuffler.released() == [40]


def test_workers_that_are_too_slow_blame_no_report(shuffler, monkeypatch):
    """Every one of them is taken for dead, and opens all of it nevertheless."""
    shuffler.receive(shuffler.reports(40))
    original = Pool.open_reports

    def overtaken(pool, wire, pair, body, **named):
        shuffler.clock.advance(601)
        assert shuffler.store.reports.claim(100, 6).count == 40
        return original(pool, wire, pair, body, **named)

    with monkeypatch.context() as patched:
        patched.setattr(Pool, "open_reports", overtaken)
        worker = shuffler.worker(attempts=2)
        for _ in range(12):
            worker._open()
            shuffler.clock.advance(601)
    assert shuffler.tallies() == {}
    shuffler.work()
    assert shuffler.released() == [40]


def test_long_work_keeps_its_lease(shuffler, monkeypatch):
    shuffler.receive(shuffler.reports(40))
    renewed = threading.Event()
    original, renew = Pool.open_reports, Leases.renew

    def slow(pool, wire, pair, body, **named):
        assert renewed.wait(60)
        assert shuffler.store.reports.claim(100, 60) is None
        return original(pool, wire, pair, body, **named)

    def noted(leases, owner, seconds, **named):
        renew(leases, owner, seconds, **named)
        renewed.set()

    monkeypatch.setattr(Pool, "open_reports", slow)
    monkeypatch.setattr(Leases, "renew", noted)
    worker = shuffler.worker(lease=1)
    while worker.step():
        pass
    assert shuffler.released() == [40]


def test_a_worker_goes_on_after_trouble_and_stops_when_asked(shuffler, monkeypatch, caplog):
    failing(monkeypatch, Reports, "claim", StoreUnavailableError("x", "y"), times=2)
    failing(monkeypatch, StoredBatches, "advance", RuntimeError("a defect"), times=1)
    shuffler.receive(shuffler.reports(40))
    stop = threading.Event()
    thread = threading.Thread(target=shuffler.worker(pause=0.01).run, args=[stop])
    thread.start()
    wait_for(shuffler.released)
    stop.set()
    thread.join(60)
    assert not thread.is_alive()
    told = [record.message for record in caplog.records if record.levelno >= logging.WARNING]
    assert sorted(told) == ["step_failed", "store_unavailable", "store_unavailable"]


# Keys


def test_a_deleted_key_takes_its_tags_along_and_its_replays_open_nothing(shuffler):
    reports = shuffler.reports(20)
    shuffler.receive(reports)
    shuffler.work()
    shuffler.clock.advance(2 * 3600)
    shuffler.work()
    assert shuffler.released() == [20]
    number = reports[0][1]
    worker = shuffler.worker()
    for _ in range(80):
        shuffler.clock.advance(DAY)
        worker.step()
        if number in shuffler.keyring.gone():
            break
    assert not shuffler.keyring.accepts(number)
    # Its tags are gone: the store takes the same bytes for new ones, and nothing opens them.
    assert shuffler.receive(reports) == 20
    shuffler.work()
    assert shuffler.tallies().get("rejected", 0) == 20
    assert shuffler.released() == [20]


def test_a_key_is_kept_while_reports_wait_for_it(shuffler, monkeypatch):
    """Nothing is opened for months; what came before still opens in the end."""
    reports = shuffler.reports(20)
    shuffler.receive(reports)
    worker = shuffler.worker()
    with monkeypatch.context() as stuck:
        stuck.setattr(Reports, "claim", lambda *_: None)
        for _ in range(80):
            shuffler.clock.advance(DAY)
            worker.step()
    assert reports[0][1] not in shuffler.keyring.gone()
    shuffler.work()
    assert shuffler.tallies().get("opened", 0) == 20


def test_a_crash_between_deleting_a_key_and_forgetting_is_made_good(shuffler):
    reports = shuffler.reports(3)
    shuffler.receive(reports)
    shuffler.work()
    number = reports[0][1]
    for _ in range(80):
        shuffler.clock.advance(DAY)
        shuffler.keyring.tick()
    assert number in shuffler.keyring.gone()
    assert shuffler.receive(reports) == 0
    shuffler.worker().step()
    assert shuffler.receive(reports) == 3


def test_keys_that_cannot_be_changed_here_do_not_stop_the_work(shuffler, monkeypatch, caplog):
    failing(monkeypatch, Keyring, "tick", KeyringError("no identity"))
    shuffler.receive(shuffler.reports(40))
    shuffler.work()
    assert shuffler.released() == [40]
    assert "keys_not_kept" in [record.message for record in caplog.records]


def test_small_batches_that_expire_are_deleted_unread(tmp_path):
    batches = Batches(minimum=20, target=40, max_age=3600, small="expire")
    shuffler = made(tmp_path, batches=batches)
    shuffler.receive(shuffler.reports(19))
    shuffler.work()
    shuffler.clock.advance(2 * 3600)
    shuffler.work()
    assert shuffler.released() == []
    assert not [path for path in (tmp_path / "parts").rglob("*") if path.is_file()]
    shuffler.close()


def test_after_everything_no_file_of_a_person_is_left(shuffler, tmp_path):
    shuffler.receive(shuffler.reports(40))
    shuffler.work()
    (info,) = shuffler.store.batches.listed(shuffler.survey.id)
    records_of(shuffler, info.id)
    shuffler.store.batches.acknowledge(shuffler.survey.id, info.id, REQUEST, info.digest)
    shuffler.store.close()
    shuffler.work()
    left = [
        path
        for place in ("segments", "parts", "batches")
        for path in (tmp_path / place).rglob("*")
        if path.is_file() and path.stat().st_size
    ]
    assert left == []


@pytest.mark.parametrize("wrong", [{"reports": 0}, {"lease": 0}, {"pause": 0}, {"upkeep": -1}])
def test_the_pace_is_checked(wrong):
    with pytest.raises(InvalidArgumentError):
        Pace(**wrong)


# A flood of forged reports


@pytest.mark.parametrize("count", [5_000, pytest.param(100_000, marks=pytest.mark.slow)])
def test_a_flood_of_forged_reports_costs_time_and_nothing_else(tmp_path, count):
    shuffler = made(tmp_path)
    honest = shuffler.reports(40)
    worker = shuffler.worker()
    size, forged = shuffler.wire.report_bytes, 0
    grown = None
    for part in range(count // 1000):
        shuffler.receive(_different(shuffler, part))
        forged += 1000
        if part < len(honest):
            shuffler.receive(honest[part])
        while worker.step():
            pass
        if part == 1:
            grown = _resident()
    shuffler.receive(b"".join(honest))
    shuffler.work()
    assert shuffler.tallies().get("rejected", 0) == forged == count
    assert shuffler.tallies().get("opened", 0) == 40
    assert shuffler.released() == [40]
    assert grown is not None
    # All of it at once would be 18 MB of bytes alone for the larger flood.
    assert _resident() - grown < 16 << 20
    assert not any(len(path.read_bytes()) >= size for path in (tmp_path / "parts").iterdir())
    shuffler.close()


def _different(shuffler, part):
    body = bytearray(shuffler.forged(1000))
    size = shuffler.wire.report_bytes
    for index in range(1000):
        body[index * size + 2 : index * size + 6] = part.to_bytes(4, "big")
    return bytes(body)


def _resident():
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    return pages * resource.getpagesize()
