"""Segments: what was appended is read, and only what nobody needs is deleted."""

from __future__ import annotations

import os

import pytest

from shoal.service.clock import ManualClock
from shoal.service.db import files
from shoal.service.errors import StoreUnavailableError, UnreadableError
from shoal.service.shuffler.reports import Extent, Segments


@pytest.fixture
def clock():
    return ManualClock(1000)


@pytest.fixture
def segments(tmp_path, clock):
    segments = Segments(tmp_path / "segments", clock, largest=100, oldest=60, grace=0)
    yield segments
    segments.close()


def append(segments, *pieces):
    with segments.appending() as function:
        return function(pieces)


def nobody(_names):
    return set()


def paths(tmp_path):
    return sorted((tmp_path / "segments").iterdir())


def test_what_was_appended_is_read(segments, tmp_path, clock):
    first = append(segments, b"one", b"two")
    second = append(segments, b"three")
    assert (first.start, first.bytes, second.start) == (0, 6, 6)
    assert first.segment == second.segment
    other = Segments(tmp_path / "segments", clock, grace=0)
    assert other.read(first) == b"onetwo"
    assert other.read(second) == b"three"
    (path,) = paths(tmp_path)
    assert path.stat().st_mode & 0o777 == 0o600
    assert path.parent.stat().st_mode & 0o777 == 0o700


def test_a_segment_ends_by_size_and_by_age(segments, clock):
    names = [append(segments, bytes(60)).segment for _ in range(3)]
    assert names[0] == names[1] != names[2]
    clock.advance(59)
    assert append(segments, b"x").segment == names[2]
    clock.advance(1)
    later = append(segments, b"x").segment
    assert later != names[2]
    clock.advance(-3600)
    assert append(segments, b"x").segment != later


def test_processes_have_files_of_their_own(segments, tmp_path, clock):
    other = Segments(tmp_path / "segments", clock, grace=0)
    assert append(segments, b"a").segment != append(other, b"b").segment
    other.close()


def test_only_what_nobody_refers_to_is_deleted(segments, tmp_path, clock):
    kept = append(segments, b"kept")
    clock.advance(60)
    append(segments, b"gone")
    other = Segments(tmp_path / "segments", clock, grace=0)
    assert other.collect(lambda _: {kept.segment}) == 1
    assert segments.read(kept) == b"kept"
    assert len(paths(tmp_path)) == 1


def test_nothing_is_deleted_while_its_transaction_lasts(segments, tmp_path, clock):
    other = Segments(tmp_path / "segments", clock, grace=0)
    with segments.appending() as function:
        extent = function([b"about to be referred to"])
        assert other.collect(nobody) == 0
    assert other.read(extent) == b"about to be referred to"
    assert other.collect(nobody) == 1


def test_references_are_asked_for_after_the_lock(segments, tmp_path, clock):
    """A transaction that ends between the first look and the lock is seen by the second look."""
    extent = append(segments, b"referred to just now")
    answers = iter([set(), {extent.segment}])
    other = Segments(tmp_path / "segments", clock, grace=0)
    assert other.collect(lambda _: next(answers)) == 0
    assert segments.read(extent) == b"referred to just now"


def test_a_file_deleted_between_two_appends_is_noticed(segments, tmp_path):
    gone = append(segments, b"opened long ago")
    assert segments.collect(nobody) == 1
    extent = append(segments, b"new")
    assert extent.segment != gone.segment
    assert segments.read(extent) == b"new"
    with pytest.raises(UnreadableError):
        segments.read(gone)
    assert len(paths(tmp_path)) == 1


def test_a_file_that_a_collection_holds_is_left_to_it(segments):
    first = append(segments, b"first")

    def live():
        live.extents.append(append(segments, b"meanwhile"))
        return {extent.segment for extent in live.extents}

    live.extents = []
    # The file is locked only at the second look: what is appended then goes elsewhere.
    assert segments.collect(lambda _: live() - {first.segment}) == 1
    assert [segments.read(extent) for extent in live.extents[1:]] == [b"meanwhile"]
    assert live.extents[1].segment != first.segment


def test_many_are_collected(segments, tmp_path, clock):
    for _ in range(70):
        clock.advance(60)
        append(segments, b"x")
    assert segments.collect(nobody) == 70
    assert paths(tmp_path) == []


def test_a_write_that_fails_half_way_leaves_nothing_behind(segments, tmp_path, monkeypatch):
    before = append(segments, b"before")
    real = os.write

    def half(file, data):
        if len(data) > 4:
            return real(file, data[:4])
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(files.os, "write", half)
        with pytest.raises(StoreUnavailableError, match="No space left"):
            append(segments, b"too much")
    assert segments.read(before) == b"before"
    assert [path.stat().st_size for path in paths(tmp_path)] == [6]
    after = append(segments, b"after")
    assert after.segment != before.segment  # a file that failed once is not trusted again
    assert segments.read(after) == b"after"


def test_a_first_write_that_fails_leaves_no_file(segments, tmp_path, monkeypatch):
    def full(*_):
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(files, "sync_data", full)
        for _ in range(3):
            with pytest.raises(StoreUnavailableError):
                append(segments, b"never")
    assert paths(tmp_path) == []


def test_an_extent_beyond_its_file_is_unreadable(segments):
    extent = append(segments, b"short")
    with pytest.raises(UnreadableError, match="6 bytes from 0"):
        segments.read(Extent(extent.segment, 0, 6))


def test_closing_is_not_the_end(segments):
    extent = append(segments, b"x")
    segments.close()
    segments.close()
    assert append(segments, b"y").segment != extent.segment
