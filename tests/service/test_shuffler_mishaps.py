"""A worker among wrong keys, missing disks, wrong clocks and hostile reports loses nobody's."""

from __future__ import annotations

import logging
import resource
from contextlib import suppress
from pathlib import Path

import pytest

from shoal.sealing import KeyPair
from shoal.service.db.leases import LEASE
from shoal.service.errors import StoreUnavailableError
from shoal.service.keyring import KeyList, Keyring, Protection
from shoal.service.opening import Pool, ProcessesLostError
from shoal.service.ops.facts import store_facts
from shoal.service.ops.health import State
from shoal.service.ops.home import Home
from shoal.service.shuffler.reports import Reports
from shoal.service.survey import Party
from shuffler_kit import DAY, made


def lives(shuffler, worker, times=12):
    """As many leases."""
    for _ in range(times):
        with suppress(StoreUnavailableError):
            while worker.step():
                pass
        shuffler.clock.advance(601)


def events(caplog):
    return {record.message for record in caplog.records}


# Disks


def test_segments_that_are_away_are_waited_for(shuffler, tmp_path, caplog):
    """For a hundred minutes; then the disk is mounted again."""
    shuffler.receive(shuffler.reports(40))
    (tmp_path / "segments").rename(tmp_path / "away")
    (tmp_path / "segments").mkdir()
    lives(shuffler, shuffler.worker())
    assert shuffler.tallies() == {}
    assert "work_failed" in events(caplog)
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


def test_short_segments_are_given_up_only_in_the_right_place(shuffler, tmp_path):
    shuffler.receive(shuffler.reports(40))
    (segment,) = (tmp_path / "segments").iterdir()
    segment.write_bytes(b"")
    name = (tmp_path / "store-id").read_bytes()
    (tmp_path / "store-id").write_bytes(b"of another disk")
    worker = shuffler.worker(attempts=3)
    lives(shuffler, worker)
    assert shuffler.tallies() == {}
    (tmp_path / "store-id").write_bytes(name)
    lives(shuffler, worker, 4)
    assert shuffler.tallies() == {"unreadable": 40}


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
    assert "reports_damaged" in events(caplog)
    home = Home(directory=tmp_path, role="shuffler")
    (opening,) = [
        fact for fact in store_facts(home, shuffler.database, None) if fact.name == "opening"
    ]
    (found,) = [each for each in opening.findings() if each.check == "damaged reports"]
    assert found.state is State.WARN
    assert found.detail.startswith("34 reports changed on the disk")


def test_noise_alone_is_no_damage(shuffler, caplog):
    shuffler.receive(shuffler.forged(120))
    shuffler.work()
    assert shuffler.tallies() == {"rejected": 120}
    assert "reports_damaged" not in events(caplog)


def test_a_batch_of_more_parts_than_files_may_be_open_is_mixed(tmp_path):
    shuffler = made(tmp_path, minimum=20, target=70)
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
    assert "work_failed" in events(caplog)
    shuffler.work()
    assert shuffler.released() == [40]


def test_a_key_deleted_by_hand_is_forgotten_at_the_next_step(shuffler):
    reports = shuffler.reports(3)
    shuffler.receive(reports)
    worker = shuffler.worker()
    while worker.step():
        pass
    shuffler.keyring.retire(reports[0][1], delete=True)
    assert shuffler.receive(reports) == 0
    worker.step()
    assert shuffler.receive(reports) == 3


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
    monkeypatch.setattr(Reports, "waiting_keys", waiting)
    monkeypatch.setattr(Reports, "claim", lambda *_: None)
    worker = shuffler.worker()
    for _ in range(80):
        shuffler.clock.advance(DAY)
        asked.clear()
        worker.step()
    assert number not in shuffler.keyring.gone()


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


def test_what_does_not_open_leaves_no_tag(shuffler):
    forged, honest = shuffler.forged(50), shuffler.reports(30)
    shuffler.receive([forged, *honest])
    shuffler.work()
    assert shuffler.tallies() == {"opened": 30, "rejected": 50}
    assert shuffler.receive(forged) == 50
    assert shuffler.receive(honest) == 0
    shuffler.work()
    assert shuffler.tallies() == {"opened": 30, "rejected": 100}


def test_a_sender_opens_batches_for_keys_of_the_analyzer_only(tmp_path):
    analyzer = Keyring.create(tmp_path / "analyzer", role="analyzer", protection=Protection.none())
    party = Party(url="https://analyzer.example", fingerprint=analyzer.fingerprint)
    shuffler = made(tmp_path, analyzer=party)
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


def test_nothing_is_a_dead_letter_while_nothing_opens(shuffler, monkeypatch):
    """A machine without memory kills whoever opens anything."""
    shuffler.receive(shuffler.reports(40))

    def dying(*_, **__):
        raise ProcessesLostError

    with monkeypatch.context() as patch:
        patch.setattr(Pool, "open_reports", dying)
        lives(shuffler, shuffler.worker(attempts=3))
    assert shuffler.tallies() == {}
    shuffler.work()
    assert shuffler.released() == [40]


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


def test_a_flood_of_which_nothing_opens_is_told(shuffler, caplog):
    shuffler.receive(shuffler.forged(100))
    shuffler.work()
    assert "nothing_opened" in events(caplog)


# What files and logs tell


def test_logs_have_no_counts(shuffler, caplog, tmp_path):
    caplog.set_level(logging.INFO)
    shuffler.receive(shuffler.reports(3))
    (tmp_path / "segments").rename(tmp_path / "away")
    shuffler.worker().step()
    assert "work_failed" in events(caplog)
    assert not any(hasattr(record, "count") for record in caplog.records)
