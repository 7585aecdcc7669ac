"""A worker among wrong keys, missing disks, wrong clocks and hostile reports loses nobody's."""

from __future__ import annotations

import logging
import resource
import threading
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest

from factories import DAY
from running_kit import wait_for
from service_site import Shuffler, until_idle
from shoal.errors import InvalidArgumentError
from shoal.sealing import KeyPair
from shoal.service.db.leases import LEASE, Leases
from shoal.service.errors import StoreUnavailableError
from shoal.service.keyring import KeyList, Keyring, KeyringError, Protection
from shoal.service.opening import Pool, ProcessesLostError
from shoal.service.ops.facts import store_facts
from shoal.service.ops.health import State
from shoal.service.ops.home import Home
from shoal.service.shuffler import worker as worker_module
from shoal.service.shuffler.batches import Batches as StoredBatches
from shoal.service.shuffler.reports import Reports
from shoal.service.shuffler.worker import Pace
from shoal.service.survey import Party

REQUEST = "a" * 32


def test_from_reports_to_a_batch_that_holds_exactly_them(shuffler):
    """Every person's message is marked, and arrives once."""
    rows = np.arange(40, dtype=np.uint8).reshape(40, 1, 1)
    key = shuffler.keyring.list().current(shuffler.survey.suite, shuffler.clock())
    sealed = [
        shuffler.wire.seal(row, analyzer=shuffler.analyzer.public, shuffler=key) for row in rows
    ]
    shuffler.receive(sealed)
    shuffler.work()
    _, batch = shuffler.batch()
    (section,) = shuffler.wire.sections
    records = section.split(bytes(batch.body))
    messages = [section.open_record(record, shuffler.analyzer) for record in records]
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
    assert shuffler.tallies() == {"opened": 19, "rejected": 500}
    shuffler.receive(shuffler.reports(1))
    shuffler.clock.advance(2 * 3600)
    shuffler.work()
    assert shuffler.released() == [20]


def test_mixing_on_little_memory(shuffler):
    shuffler.receive(shuffler.reports(40))
    shuffler.work(memory=4096)
    _, batch = shuffler.batch()
    assert len(set(shuffler.wire.sections[0].split(bytes(batch.body)))) == 40


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


def lives(shuffler, worker, times=12):
    """As many leases."""
    for _ in range(times):
        with suppress(StoreUnavailableError):
            until_idle(worker)
        shuffler.clock.advance(601)


@pytest.mark.parametrize(
    ("target", "name", "error"),
    [
        (Reports, "finish", StoreUnavailableError("writing", "disk full")),
        (Reports, "finish", OSError("too many open files")),
        (Reports, "finish", MemoryError()),
        (Pool, "open_reports", ProcessesLostError()),  # a machine without memory kills all of them
    ],
    ids=["disk", "files", "memory", "processes"],
)
def test_nothing_is_a_dead_letter_for_what_is_not_its_fault(
    shuffler, monkeypatch, target, name, error
):
    """A disk that is full for a day costs nobody's report."""
    shuffler.receive(shuffler.reports(40))
    with monkeypatch.context() as broken:
        failing(broken, target, name, error)
        lives(shuffler, shuffler.worker(attempts=2))
    assert shuffler.tallies() == {}
    shuffler.work()
    assert shuffler.released() == [40]


def test_a_failure_is_tried_again_after_its_lease(shuffler, monkeypatch, caplog):
    shuffler.receive(shuffler.reports(40))
    failing(monkeypatch, Pool, "open_reports", RuntimeError("once"), times=1)
    worker = shuffler.worker(attempts=2)
    worker.step()
    assert caplog.messages == ["work_failed"]
    worker.step()
    assert shuffler.released() == []
    shuffler.clock.advance(601)
    until_idle(worker)
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
    until_idle(worker)
    assert shuffler.released() == []
    assert list((tmp_path / "batches").iterdir()) == []
    shuffler.clock.advance(601)
    until_idle(worker)
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
        until_idle(second)
        return original(pool, wire, pair, body, **named)

    monkeypatch.setattr(Pool, "open_reports", slow)
    first = shuffler.worker()
    until_idle(first)
    assert "lease_lost" in caplog.messages
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
    until_idle(worker)
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


def test_keys_that_cannot_be_changed_here_do_not_stop_the_work(shuffler, monkeypatch, caplog):
    failing(monkeypatch, Keyring, "tick", KeyringError("no identity"))
    shuffler.receive(shuffler.reports(40))
    shuffler.work()
    assert shuffler.released() == [40]
    assert "keys_not_kept" in caplog.messages


WRONG = [
    ("reports", 0),
    ("lease", 0),
    ("pause", 0),
    ("upkeep", -1),
    ("gather", -1),
    ("gather_reports", 0),
]


@pytest.mark.parametrize("wrong", [{name: value} for name, value in WRONG])
def test_the_pace_is_checked(wrong):
    with pytest.raises(InvalidArgumentError):
        Pace(**wrong)


# Disks


def test_segments_that_are_away_are_waited_for(shuffler, tmp_path, caplog):
    """For a hundred minutes; then the disk is mounted again. The log tells no counts."""
    caplog.set_level(logging.INFO)
    shuffler.receive(shuffler.reports(40))
    (tmp_path / "segments").rename(tmp_path / "away")
    (tmp_path / "segments").mkdir()
    lives(shuffler, shuffler.worker())
    assert shuffler.tallies() == {}
    assert "work_failed" in caplog.messages
    assert not any(hasattr(record, "count") for record in caplog.records)
    (tmp_path / "segments").rmdir()
    (tmp_path / "away").rename(tmp_path / "segments")
    shuffler.work()
    assert shuffler.released() == [40]


def test_a_full_disk_before_brings_nobody_closer_to_the_end(shuffler, tmp_path, monkeypatch):
    """Twelve seconds of a full disk, and then one failure of the reports' own."""
    shuffler.receive(shuffler.reports(40))
    worker = shuffler.worker(attempts=3)

    def full(*_):
        raise StoreUnavailableError("writing a part", "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(Reports, "finish", full)
        for _ in range(12):
            with pytest.raises(StoreUnavailableError):
                worker.step()
            shuffler.clock.advance(1)
    (segment,) = (tmp_path / "segments").iterdir()
    whole = segment.read_bytes()
    segment.write_bytes(b"")
    worker.step()
    assert shuffler.tallies() == {}
    segment.write_bytes(whole)
    shuffler.clock.advance(601)
    shuffler.work()
    assert shuffler.released() == [40]


def test_short_segments_are_given_up_only_in_the_right_place_and_the_others_go_on(
    shuffler, tmp_path, caplog
):
    shuffler.receive(shuffler.reports(7))
    shuffler.store.close()
    (segment,) = (tmp_path / "segments").iterdir()
    segment.write_bytes(b"")
    name = (tmp_path / "store-id").read_bytes()
    (tmp_path / "store-id").write_bytes(b"of another disk")
    worker = shuffler.worker(attempts=3)
    lives(shuffler, worker)
    assert shuffler.tallies() == {}
    (tmp_path / "store-id").write_bytes(name)
    shuffler.receive(shuffler.reports(40))
    lives(shuffler, worker, 8)
    assert shuffler.tallies() == {"opened": 40, "unreadable": 7}
    assert caplog.messages.count("dead_letter") == 1
    assert shuffler.released() == [40]
    assert not worker.step()


def test_noise_alone_is_no_damage_and_a_flood_of_it_is_told(shuffler, caplog):
    shuffler.receive(shuffler.forged(120))
    shuffler.work()
    assert shuffler.tallies() == {"rejected": 120}
    assert "reports_damaged" not in caplog.messages
    assert "nothing_opened" in caplog.messages


def test_bits_that_flip_on_the_disk_are_told_apart_from_noise(shuffler, tmp_path, caplog):
    shuffler.receive(shuffler.forged(7))
    shuffler.receive(shuffler.reports(60))
    size = shuffler.wire.report_bytes
    (segment,) = (tmp_path / "segments").iterdir()
    data = bytearray(segment.read_bytes())
    for at in range(0, 67, 2):  # of four that are noise, and of thirty that would have opened
        data[at * size + at % size] ^= 1 << at % 8
    segment.write_bytes(data)
    shuffler.work()
    assert shuffler.tallies() == {"opened": 30, "rejected": 3, "damaged": 34}
    assert "reports_damaged" in caplog.messages
    home = Home(directory=tmp_path, role="shuffler")
    (opening,) = [
        fact for fact in store_facts(home, shuffler.database, None) if fact.name == "opening"
    ]
    (found,) = [each for each in opening.findings() if each.check == "damaged reports"]
    assert found.state is State.WARN
    assert found.detail.startswith("34 reports changed on the disk")


def test_a_batch_of_more_parts_than_files_may_be_open_is_mixed(tmp_path):
    shuffler = Shuffler.alone(tmp_path, minimum=20, target=70)
    worker = shuffler.worker()
    for report in shuffler.reports(70):
        shuffler.receive(report)
        worker._open()
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    used = len(list(Path("/proc/self/fd").iterdir()))
    resource.setrlimit(resource.RLIMIT_NOFILE, (used + 30, hard))
    try:
        worker._advance()
        worker._mix()
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    assert shuffler.released() == [70]
    shuffler.close()


# Keys


def test_another_ring_rejects_nothing(shuffler, tmp_path, caplog):
    """It has a key of the same number, and could open none of the reports."""
    shuffler.receive(shuffler.reports(40))
    ring = Keyring.create(
        tmp_path / "other", role="shuffler", clock=shuffler.clock, protection=Protection.none()
    )
    lives(shuffler, shuffler.worker(keyring=ring))
    assert shuffler.tallies() == {}
    assert "work_failed" in caplog.messages
    shuffler.work()
    assert shuffler.released() == [40]


def test_a_key_deleted_by_hand_is_forgotten_at_the_next_step(shuffler):
    """By the worker that saw it in use, and by one that has begun since, as after a crash."""
    for restarted in (False, True):
        reports = shuffler.reports(3)
        shuffler.receive(reports)
        worker = shuffler.worker()
        until_idle(worker)
        shuffler.keyring.retire(reports[0][1], delete=True)
        assert shuffler.receive(reports) == 0
        (shuffler.worker() if restarted else worker).step()
        assert shuffler.receive(reports) == 3
        shuffler.clock.advance(2 * 3600)
        shuffler.keyring.tick()


def test_the_keys_to_keep_are_asked_for_under_the_rings_lock(shuffler, monkeypatch):
    """Reports that came after the first look keep their key, however long the worker slept."""
    reports = shuffler.reports(20)
    number, asked = reports[0][1], []
    real = Reports.waiting_keys

    def waiting(store):
        asked.append(True)
        if number in shuffler.keyring.gone() or len(asked) % 2:
            return set()
        return real(store)

    shuffler.receive(reports)
    with monkeypatch.context() as stuck:
        stuck.setattr(Reports, "waiting_keys", waiting)
        stuck.setattr(Reports, "claim", lambda *_: None)
        worker = shuffler.worker()
        for _ in range(80):
            shuffler.clock.advance(DAY)
            asked.clear()
            worker.step()
    assert number not in shuffler.keyring.gone()
    shuffler.work()
    assert shuffler.tallies() == {"opened": 20}


# Clocks


def test_a_clock_that_jumped_lets_no_batch_die(shuffler, tmp_path):
    shuffler.receive(shuffler.reports(15))
    shuffler.work()
    steady = [False]
    worker = shuffler.worker(steady=lambda: steady[0])
    shuffler.clock.advance(40 * DAY)
    worker.step()
    worker.step()
    assert len(list((tmp_path / "parts").iterdir())) == 1
    steady[0] = True
    worker.step()
    assert list((tmp_path / "parts").iterdir()) == []


# Reports that are meant to harm


def test_a_sender_opens_batches_for_keys_of_the_analyzer_only(tmp_path):
    analyzer = Keyring.create(tmp_path / "analyzer", role="analyzer", protection=Protection.none())
    party = Party(url="https://analyzer.example", fingerprint=analyzer.fingerprint)
    shuffler = Shuffler.alone(tmp_path, analyzer=party)
    kept = analyzer.list()
    shuffler.store.key_lists.keep(
        KeyList.verified(kept.to_bytes(), fingerprint=analyzer.fingerprint, now=kept.issued)
    )
    pair = analyzer.pair(0)
    forged = [
        report
        for number in range(1, 60)
        for report in shuffler.reports(1, analyzer=KeyPair.generate(number=number))
    ]
    shuffler.receive([*forged, *shuffler.reports(25, analyzer=pair)])
    shuffler.work()
    assert len(list((tmp_path / "parts").iterdir())) == 1
    assert shuffler.tallies() == {"opened": 25, "rejected": 59}
    assert shuffler.store.batches.inner_keys(shuffler.survey.id) == {0}
    assert shuffler.receive(forged) == 59
    shuffler.close()


def test_a_sender_opens_few_batches_while_nobody_knows_the_analyzers_keys(shuffler, tmp_path):
    forged = [
        report
        for number in range(60)
        for report in shuffler.reports(1, analyzer=KeyPair.generate(number=number))
    ]
    shuffler.receive([*shuffler.reports(25), *forged])
    shuffler.work()
    assert len(list((tmp_path / "parts").iterdir())) == 8
    assert shuffler.tallies() == {"opened": 33, "rejected": 52}
    shuffler.receive(
        shuffler.reports(15) + shuffler.reports(5, analyzer=KeyPair.generate(number=99))
    )
    shuffler.work()
    assert shuffler.released() == [41]
    assert shuffler.tallies() == {"opened": 48, "rejected": 57}


def test_what_kills_every_worker_is_a_dead_letter_while_others_open(shuffler, monkeypatch):
    poison, honest = shuffler.reports(1), shuffler.reports(39)
    shuffler.receive(poison)
    for report in honest:
        shuffler.receive(report)
    real = Pool.open_reports

    def deadly(pool, wire, pair, body, **named):
        if poison[0] in body:
            raise ProcessesLostError
        return real(pool, wire, pair, body, **named)

    monkeypatch.setattr(Pool, "open_reports", deadly)
    lives(shuffler, shuffler.worker(attempts=1), 13)
    assert shuffler.tallies() == {"opened": 39, "unreadable": 1}


@pytest.mark.parametrize("trouble", [RuntimeError("can't start new thread"), ValueError("x")])
def test_a_machine_that_opens_nothing_blames_no_report(shuffler, monkeypatch, trouble):
    (one,) = shuffler.reports(1)
    shuffler.receive([one])

    def broken(_pool, _wire, _pair, body, **_named):
        raise ProcessesLostError if one in body else trouble

    monkeypatch.setattr(Pool, "open_reports", broken)
    with suppress(StoreUnavailableError):
        lives(shuffler, shuffler.worker(attempts=1), 14)
    assert shuffler.tallies() == {}


def test_reports_whose_processes_somebody_killed_wait_a_moment_only(shuffler, monkeypatch):
    shuffler.receive(shuffler.reports(40))
    real, killed = Pool.open_reports, []

    def once(*given, **named):
        if not killed:
            killed.append(True)
            raise ProcessesLostError
        return real(*given, **named)

    monkeypatch.setattr(Pool, "open_reports", once)
    shuffler.work()
    assert shuffler.released() == []
    shuffler.clock.advance(LEASE)
    shuffler.work()
    assert shuffler.released() == [40]


# What files and logs tell
