"""What a shuffler's store must do, whatever database it has.

The reports are made up: the store never opens any.
"""

from __future__ import annotations

import errno
import shutil
import sqlite3
import subprocess
import sys
from collections import Counter
from dataclasses import replace
from functools import partial
from hashlib import sha256
from types import SimpleNamespace

import pytest
import sqlalchemy as sa

from factories import DAY
from service.stores import (
    HOUR,
    LEASE,
    START,
    draft,
    dying_at,
    fill,
    full_disk,
    ids,
    make_reports,
    make_survey,
    names,
    open_all,
    records,
    rows_of,
    send,
    shuffle,
    states,
)
from service_site import at_once
from shoal.errors import InvalidArgumentError, RefusedError
from shoal.sealing import MalformedError, SurveyId
from shoal.service import failpoints
from shoal.service.analyzer.store import AnalyzerStore
from shoal.service.batch_file import BatchFile
from shoal.service.clock import GracePeriod, ManualClock
from shoal.service.db import Database, files
from shoal.service.db import tables as common
from shoal.service.db.database import FILE, StoreId
from shoal.service.db.dialect import lock_number
from shoal.service.errors import (
    ConflictError,
    LeaseLostError,
    MissingFileError,
    NotAuthorizedError,
    NotReadyError,
    StoreBusyError,
    StoreUnavailableError,
    StoreVersionError,
    UnknownError,
    UnreadableError,
)
from shoal.service.shuffler import tables as schema
from shoal.service.shuffler.reports import Arrival, Segments
from shoal.service.shuffler.store import ShufflerStore
from shoal.service.wire import Wire

REQUEST, OTHER_REQUEST = "ab" * 16, "cd" * 16
SQLITE = pytest.mark.parametrize("url", ["sqlite"], indirect=True)
POSTGRESQL = pytest.mark.parametrize("url", ["postgresql"], indirect=True)


@pytest.fixture
def database(url):
    database = Database(url, timeout=60)
    database.migrate("shuffler")
    yield database
    database.close()


@pytest.fixture
def clock():
    return ManualClock(START)


@pytest.fixture
def directory(tmp_path):
    return tmp_path / "shuffler"


@pytest.fixture
def store(database, directory, clock, survey):
    store = ShufflerStore(database, directory, clock, grace=0)
    store.surveys.add(survey)
    yield store
    store.close()


@pytest.fixture
def again(url, directory, clock):
    """Another process of the same shuffler, or the same one after a restart."""
    database = Database(url, timeout=60)
    store = ShufflerStore(database, directory, clock, grace=0)
    yield store
    store.close()
    database.close()


@pytest.fixture
def survey():
    return make_survey()


@pytest.fixture
def opened(database, directory, clock):
    """The store that is there, as a process that begins finds it; with another database, maybe."""

    def one(other=None, **options):
        return ShufflerStore(other or database, directory, clock, **{"grace": 0} | options)

    return one


@pytest.fixture
def other(tmp_path):
    """A database that got its tables by itself, because somebody mistyped an address."""
    database = Database(f"sqlite:///{tmp_path / 'other.sqlite'}")
    database.migrate("shuffler")
    yield database
    database.close()


class TestStore:
    # Surveys

    def test_a_survey_is_added_once_and_found(self, store, again, survey):
        again.surveys.add(survey)
        store.surveys.add(make_survey("another"))
        assert again.surveys.all() == [survey, make_survey("another")]
        assert again.surveys.get(survey.id) == survey
        with pytest.raises(UnknownError, match="unknown survey 0000"):
            store.surveys.get(SurveyId(bytes(32)))

    def test_a_survey_is_removed_with_its_tokens_and_only_while_nothing_was_taken(
        self, store, survey
    ):
        other = make_survey("another")
        store.surveys.add(other)
        token, rest = (store.tokens.add("one", each, DAY) for each in (other.id, None))
        assert not store.surveys.taken(other.id)
        assert store.surveys.remove(other.id) == 1
        assert store.surveys.all() == [survey]
        for gone in (store.surveys.get, store.surveys.remove):
            with pytest.raises(UnknownError):
                gone(other.id)
        with pytest.raises(NotAuthorizedError, match="no valid token"):
            store.tokens.check(token, other.id)
        store.tokens.check(rest, survey.id)
        send(store, survey, [1])
        for _ in range(2):  # waiting, and rejected: neither leaves the other's trace
            assert store.surveys.taken(survey.id)
            with pytest.raises(RefusedError):
                store.surveys.remove(survey.id)
            open_all(store, rejected=1)
            store.forget_key(0)
        assert store.surveys.all() == [survey]

    def test_others_that_know_a_removed_survey_still_take_nothing_for_it(
        self, store, again, database, survey
    ):
        assert again.surveys.all() == [survey]  # and so it knows the number
        store.surveys.remove(survey.id)
        new = make_survey("another")
        store.surveys.add(new)
        for late in (
            lambda: send(again, survey, [1]),
            lambda: again.tokens.add("late", survey.id, DAY),
        ):
            again.surveys.all()
            store.surveys.add(survey)
            again.surveys.get(survey.id)
            store.surveys.remove(survey.id)
            with pytest.raises(UnknownError):
                late()
        assert again.batches.states(new.id) == {}
        assert [rows_of(database, table) for table in (schema.tags, common.tokens)] == [0, 0]
        send(again, new, range(20))
        assert open_all(again) == 20
        assert store.surveys.taken(new.id)

    def test_a_survey_that_was_removed_can_be_added_again(self, store, again, survey):
        again.surveys.get(survey.id)
        store.surveys.remove(survey.id)
        store.surveys.add(survey)
        send(store, survey, range(20))
        assert open_all(again) == 20
        again.batches.advance()
        assert again.batches.claim(LEASE).header.survey == survey.id

    def test_a_removal_and_an_upload_do_not_miss_each_other(self, store, again, survey):
        for number in range(10):
            survey = make_survey(f"number {number}")
            store.surveys.add(survey)
            again.surveys.get(survey.id)
            race = (
                partial(send, again, survey, [number]),
                partial(store.surveys.remove, survey.id),
            )
            sent, gone = at_once(lambda i: race[i](), 2)  # noqa: B023 - called at once
            if sent == 1:
                assert isinstance(gone, RefusedError)
                assert store.surveys.taken(survey.id)
            else:
                assert isinstance(sent, UnknownError)
                assert gone == 0

    # Taking in

    def test_each_report_counts_once_within_a_group(self, store, database, survey):
        twice = make_reports(survey, [1, 2, 1])
        new = store.reports.receive(
            [Arrival(survey.id, 0, twice), Arrival(survey.id, 0, make_reports(survey, [2, 3]))]
        )
        assert new.new == 3
        claim = store.reports.claim(100, LEASE)
        assert store.reports.read(claim) == make_reports(survey, [1, 2, 3])
        assert rows_of(database, schema.waiting_tags) == 3

    def test_each_report_counts_once_over_groups_and_restarts(self, store, again, survey):
        assert send(store, survey, range(100)) == 100
        assert send(store, survey, range(100)) == 0
        assert send(again, survey, range(50, 150)) == 50
        fill(again, survey, range(140, 1200))
        assert send(store, survey, range(1200)) == 0
        assert open_all(store) == 0

    def test_keys_and_surveys_have_reports_of_their_own(self, store, survey):
        other = make_survey("another")
        store.surveys.add(other)
        body = make_reports(survey, range(5))
        arrivals = [Arrival(survey.id, 1, body), Arrival(other.id, 1, body)]
        arrivals.append(Arrival(survey.id, 0, body))
        assert store.reports.receive(arrivals).new == 15
        claimed = Counter()
        while claim := store.reports.claim(100, LEASE):
            assert store.reports.read(claim) == body
            claimed[claim.survey, claim.key] += claim.count
        assert claimed == {(survey.id, 0): 5, (survey.id, 1): 5, (other.id, 1): 5}

    def test_what_is_not_reports_of_a_survey_is_refused_whole(self, store, database, survey):
        good = Arrival(survey.id, 0, make_reports(survey, [1]))
        for bad, error in (
            (Arrival(survey.id, 0, good.reports[:-1]), InvalidArgumentError),
            (Arrival(survey.id, 0, b""), InvalidArgumentError),
            (Arrival(SurveyId(bytes(32)), 0, good.reports), UnknownError),
        ):
            with pytest.raises(error):
                store.reports.receive([good, bad])
        assert rows_of(database, schema.waiting_tags) == 0
        assert store.reports.receive([]).new == 0

    @pytest.mark.parametrize("place", ["intake.before-segment", "intake.after-segment"])
    def test_nothing_counts_before_the_commit(
        self, store, database, directory, survey, place, monkeypatch
    ):
        with monkeypatch.context() as patch:
            patch.setattr(failpoints, "reached", dying_at(place))
            with pytest.raises(ZeroDivisionError):
                send(store, survey, range(10))
        assert rows_of(database, schema.waiting_tags) == rows_of(database, schema.extents) == 0
        written = names(directory / "segments")
        assert len(written) == (place == "intake.after-segment")
        assert store.garbage.collect() == len(written)
        assert names(directory / "segments") == []
        assert send(store, survey, range(10)) == 10
        assert store.reports.read(store.reports.claim(100, LEASE)) == make_reports(
            survey, range(10)
        )

    @pytest.mark.parametrize("call", ["write", "fsync"])
    def test_a_full_disk_acknowledges_nothing(self, store, database, survey, call, monkeypatch):
        send(store, survey, range(5))
        with monkeypatch.context() as patch:
            full_disk(patch, call)
            with pytest.raises(StoreUnavailableError, match="No space left"):
                send(store, survey, range(10))
        assert rows_of(database, schema.waiting_tags) == 5
        assert send(store, survey, range(10)) == 5
        body = store.reports.read(store.reports.claim(100, LEASE))
        halves = make_reports(survey, range(5)), make_reports(survey, range(5, 10))
        assert body in {b"".join(halves), b"".join(reversed(halves))}

    def test_a_full_disk_moves_nothing(self, store, database, survey, monkeypatch):
        send(store, survey, range(10))
        claim = store.reports.claim(100, LEASE)
        with monkeypatch.context() as patch:
            full_disk(patch, "write")
            with pytest.raises(StoreUnavailableError):
                store.reports.finish(claim, {0: records(survey, 10)})
        assert states(database) == []
        store.reports.leases.release(claim.owner, rows=claim.rows)
        assert open_all(store) == 10
        assert states(database) == [("OPEN", 10)]

    # The end of a survey

    def test_the_data_of_a_survey_that_is_over_is_deleted(
        self, store, database, directory, clock, survey
    ):
        """Reports that wait, an open batch, a shuffled one; another survey keeps its own."""
        other = make_survey("other", days=90)
        store.surveys.add(other)
        every = store.tokens.add("all", None, 400 * DAY)
        store.tokens.add("one", survey.id, 400 * DAY)
        fill(store, survey, range(20))
        store.batches.advance()
        shuffle(store)
        fill(store, survey, range(20, 25))
        send(store, survey, range(25, 30))
        send(store, other, range(100, 103))
        waiting = make_reports(survey, range(25, 30))
        segments = directory / "segments"
        assert any(waiting in path.read_bytes() for path in segments.iterdir())
        with pytest.raises(NotReadyError, match="not over"):
            store.delete_survey(survey.id)
        clock.advance(31 * DAY + HOUR)
        deleted = store.delete_survey(survey.id)
        assert deleted.counts == {"tags": 30, "tokens": 1, "waiting": 1, "batches": 2, "files": 3}
        assert "the number of the survey's row" in deleted.left[0]
        assert deleted.to_dict()["left"] == list(deleted.left)
        assert names(directory / "parts") == names(directory / "batches") == []
        assert not any(waiting in path.read_bytes() for path in segments.iterdir())
        assert [rows_of(database, table) for table in (schema.batches, schema.parts)] == [0, 0]
        assert rows_of(database, schema.counters) == 0
        assert (rows_of(database, schema.tags), rows_of(database, schema.waiting_tags)) == (0, 3)
        with pytest.raises(UnknownError):
            store.surveys.get(survey.id)
        assert store.tokens.check(every, other.id).survey is None
        claim = store.reports.claim(100, LEASE)
        assert store.reports.read(claim) == make_reports(other, range(100, 103))

    # Claims

    def test_claims_are_as_large_as_asked(self, store, survey):
        for first in range(0, 50, 10):
            send(store, survey, range(first, first + 10))
        assert store.reports.claim(25, LEASE).count == 20
        assert store.reports.claim(5, LEASE).count == 10  # at least one extent
        assert store.reports.claim(1000, LEASE).count == 20
        assert store.reports.claim(1000, LEASE) is None

    def test_leases_have_a_longest(self, store, survey):
        send(store, survey, [1])
        with pytest.raises(InvalidArgumentError, match="at most 3600"):
            store.reports.claim(10, 3601)

    def test_everything_is_claimed_by_one_thread(self, store, again, database, survey):
        for first in range(0, 120, 3):
            send(store, survey, range(first, first + 3))

        def work(number):
            mine = 0
            worker = (store, again)[number % 2]
            while claim := worker.reports.claim(4, LEASE):
                worker.reports.finish(claim, {0: records(survey, claim.count)})
                mine += claim.count
            return mine

        assert sum(at_once(work, 8)) == 120
        assert states(database) == [("OPEN", 120)]
        assert store.reports.tallies(survey.id) == {"opened": 120}

    @pytest.mark.parametrize("restarted", [False, True])
    def test_a_lease_that_ended_is_taken_over(
        self, store, again, database, directory, clock, survey, restarted
    ):
        again = again if restarted else store
        send(store, survey, range(10))
        late = store.reports.claim(100, LEASE)
        clock.advance(LEASE - 1)
        assert again.reports.claim(100, LEASE) is None
        clock.advance(1)
        taken = again.reports.claim(100, LEASE)
        assert (taken.count, taken.attempts, late.attempts) == (10, 1, 0)
        parts = {0: records(survey, 10)}
        with pytest.raises(LeaseLostError):
            store.reports.finish(late, parts)
        assert names(directory / "parts") == []
        for refused in (
            lambda work: store.reports.leases.release(work.owner, rows=work.rows),
            store.reports.dead_letter,
            lambda work: store.reports.recount(work, -1),
            lambda work: store.reports.leases.renew(work.owner, LEASE, rows=work.rows),
        ):
            with pytest.raises(LeaseLostError):
                refused(late)
        again.reports.finish(taken, parts)
        with pytest.raises(LeaseLostError):
            again.reports.finish(taken, parts)
        assert states(database) == [("OPEN", 10)]
        assert len(names(directory / "parts")) == 1

    def test_a_lease_is_renewed(self, store, again, clock, survey):
        send(store, survey, range(10))
        claim = store.reports.claim(100, LEASE)
        clock.advance(LEASE - 1)
        store.reports.leases.renew(claim.owner, LEASE, rows=claim.rows)
        clock.advance(LEASE - 1)
        assert again.reports.claim(100, LEASE) is None
        store.reports.finish(claim, {})

    def test_a_clock_set_back_keeps_no_lease_for_a_day(self, store, again, clock, survey):
        send(store, survey, range(10))
        store.reports.claim(100, LEASE)
        clock.advance(-DAY)
        assert again.reports.claim(100, LEASE).count == 10

    def test_what_kills_its_worker_ends_up_alone_as_a_dead_letter(
        self, store, clock, database, survey
    ):
        for number in range(20):
            send(store, survey, [number])
        sizes = []
        for _ in range(4):
            claim = store.reports.claim(64, LEASE)
            sizes.append((claim.count, claim.attempts))
            clock.advance(LEASE)
        assert sizes == [(20, 0), (16, 1), (4, 2), (1, 3)]
        claim = store.reports.claim(64, LEASE)
        assert (claim.count, claim.attempts) == (1, 4)
        store.reports.dead_letter(claim)
        assert store.reports.tallies(survey.id) == {"unreadable": 1}
        assert rows_of(database, schema.extents) == 19

    def test_a_segment_that_is_short_or_gone_is_unreadable(self, store, directory, survey):
        send(store, survey, range(3))
        claim = store.reports.claim(10, LEASE)
        (segment,) = (directory / "segments").iterdir()
        segment.write_bytes(b"short")
        with pytest.raises(UnreadableError):
            store.reports.read(claim)
        segment.unlink()
        with pytest.raises(MissingFileError):
            store.reports.read(claim)

    def test_every_report_of_a_claim_is_accounted_for(self, store, database, survey):
        send(store, survey, range(10))
        claim = store.reports.claim(100, LEASE)
        for wrong in (records(survey, 11), records(survey, 10)[1:], b""):
            with pytest.raises(InvalidArgumentError):
                store.reports.finish(claim, {0: wrong})
        assert states(database) == []
        store.reports.finish(claim, {0: records(survey, 9)})
        assert store.reports.tallies(survey.id) == {"opened": 9, "rejected": 1}

    # When a batch closes

    def test_a_batch_closes_at_its_target(self, store, database, survey):
        fill(store, survey, range(19))
        assert store.batches.advance() == []
        fill(store, survey, [19])
        (sealed,) = store.batches.advance()
        assert (sealed.survey, sealed.state) == (survey.id, "SEALED")
        fill(store, survey, [20])  # too late for that one
        assert states(database) == [("OPEN", 1), ("SEALED", 20)]
        assert store.batches.advance() == []

    def test_a_batch_of_the_minimum_closes_when_it_is_old(self, store, database, clock, survey):
        clock.advance(HOUR - clock() % HOUR)
        fill(store, survey, range(10))
        clock.advance(HOUR - 1)
        assert store.batches.advance() == []
        clock.advance(1)
        assert [step.state for step in store.batches.advance()] == ["SEALED"]
        with database.read() as connection:
            row = connection.execute(sa.select(schema.batches)).one()
        assert row.since is None
        assert row.closed % HOUR == 0
        assert 0 <= clock() - row.closed < HOUR

    def test_too_few_are_carried_until_they_are_enough(self, store, database, clock, survey):
        fill(store, survey, range(9))
        clock.advance(HOUR)
        assert [step.state for step in store.batches.advance()] == ["CARRIED"]
        clock.advance(10 * DAY)
        assert store.batches.advance() == []
        fill(store, survey, [9])
        assert states(database) == [("CARRIED", 10)]
        assert [step.state for step in store.batches.advance()] == ["SEALED"]

    def test_too_few_expire_if_the_survey_says_so(self, store, database, directory, clock):
        survey = make_survey("strict", small="expire")
        store.surveys.add(survey)
        fill(store, survey, range(9))
        send(store, survey, range(100, 109))
        clock.advance(HOUR)
        assert store.batches.advance() == []  # more of them wait, and might be enough
        claim = store.reports.claim(100, LEASE)
        store.reports.finish(claim, {})
        assert [step.state for step in store.batches.advance()] == ["EXPIRED"]
        assert store.batches.purge() == 1
        assert store.batches.purge() == 0
        assert names(directory / "parts") == []
        assert states(database) == [("EXPIRED", 9)]
        assert store.batches.claim(LEASE) is None
        assert store.batches.listed(survey.id) == []

    def test_small_rests_die_with_their_survey(self, store, database, clock, survey):
        fill(store, survey, range(9))
        fill(store, survey, range(100, 110), inner_key=1)
        clock.now = survey.not_after + HOUR
        store.batches.advance()
        assert states(database) == [("CARRIED", 9), ("SEALED", 10)]
        clock.advance(1)
        assert [step.state for step in store.batches.advance()] == ["EXPIRED"]
        assert states(database) == [("EXPIRED", 9), ("SEALED", 10)]

    def test_reports_that_do_not_open_do_not_count(self, store, database, clock, survey):
        fill(store, survey, range(25), rejected=16)
        clock.advance(HOUR)
        assert [step.state for step in store.batches.advance()] == ["CARRIED"]
        assert states(database) == [("CARRIED", 9)]
        assert store.reports.tallies(survey.id) == {"opened": 9, "rejected": 16}

    def test_a_clock_set_back_or_forward_seals_nothing_small(self, store, database, clock, survey):
        clock.advance(HOUR - clock() % HOUR)
        fill(store, survey, range(9))
        clock.advance(-DAY)
        assert store.batches.advance() == []
        fill(store, survey, [9])
        clock.advance(HOUR - 1)
        assert store.batches.advance() == []
        clock.advance(1)  # an hour after the batch was seen again, not a day and an hour
        assert [step.state for step in store.batches.advance()] == ["SEALED"]
        fill(store, survey, range(100, 109))
        clock.advance(3 * DAY)
        assert [step.state for step in store.batches.advance()] == ["CARRIED"]
        assert states(database) == [("CARRIED", 9), ("SEALED", 10)]

    def test_a_batch_has_one_key_of_the_analyzer(self, store, database, clock, survey):
        send(store, survey, range(30))
        claim = store.reports.claim(100, LEASE)
        store.reports.finish(claim, {1: records(survey, 12), 2: records(survey, 9)})
        fill(store, survey, [30], inner_key=1)
        clock.advance(HOUR)
        store.batches.advance()
        assert states(database) == [("CARRIED", 9), ("SEALED", 13)]
        batch = store.batches.claim(LEASE)
        assert (batch.header.key, batch.header.reports, len(batch.parts)) == (1, 13, 1)

    def test_a_batch_is_sealed_by_one(self, store, again, survey):
        fill(store, survey, range(20))

        def work(number):
            worker = (store, again)[number % 2]
            sealed = worker.batches.advance()
            return len(sealed), worker.batches.claim(LEASE)

        results = at_once(work, 8)
        assert sum(sealed for sealed, _ in results) == 1
        assert len([batch for _, batch in results if batch]) == 1

    # Shuffling and releasing

    @pytest.fixture
    def sealed(self, store, survey):
        fill(store, survey, range(20))
        store.batches.advance()

    @pytest.mark.usefixtures("sealed")
    def test_a_batch_is_listed_once_it_is_shuffled(self, store, survey, clock):
        assert store.batches.listed(survey.id) == []
        batch, digest = shuffle(store)
        (info,) = store.batches.listed(survey.id)
        assert (info.id, info.state, info.key) == (batch, "SHUFFLED", 0)
        assert (info.reports, info.records, info.digest) == (20, 20, digest)
        assert info.closed == clock() - clock() % HOUR
        assert store.batches.listed(survey.id, after=batch) == []
        assert store.batches.counters(survey.id) == {
            "batches": 1,
            "reports": 20,
            "expired_batches": 0,
        }

    @pytest.mark.usefixtures("sealed")
    def test_a_batch_is_released_to_one_request(self, store, again, survey):
        batch, digest = shuffle(store)
        path = store.batches.release(survey.id, batch, REQUEST)
        assert sha256(path.read_bytes()).hexdigest() == digest
        assert (
            len(BatchFile.read(path).body)
            == store.batches.listed(survey.id)[0].records * Wire.of(survey).sections[0].record_bytes
        )
        assert again.batches.release(survey.id, batch, REQUEST) == path
        for _ in range(2):
            with pytest.raises(ConflictError, match="by another request"):
                again.batches.release(survey.id, batch, OTHER_REQUEST)
        assert store.batches.listed(survey.id)[0].state == "RELEASED"

    @pytest.mark.usefixtures("sealed")
    def test_one_of_many_requests_wins(self, store, again, survey):
        batch, _ = shuffle(store)

        def ask(number):
            return (store, again)[number % 2].batches.release(survey.id, batch, f"{number:032x}")

        assert [type(each) for each in at_once(ask, 8)].count(ConflictError) == 7

    @pytest.mark.usefixtures("sealed")
    def test_what_is_not_shuffled_is_not_released(self, store, database, clock, survey):
        (batch,) = ids(database)
        with pytest.raises(NotReadyError, match="being shuffled") as refused:
            store.batches.release(survey.id, batch, REQUEST)
        assert refused.value.retry_after > 0
        shuffle(store)
        fill(store, survey, range(100, 105))
        (opened,) = ids(database, "OPEN")
        with pytest.raises(NotReadyError, match="still open") as refused:
            store.batches.release(survey.id, opened, REQUEST)
        assert "5" not in str(refused.value).replace(opened, "")
        clock.now = survey.not_after + HOUR + 1
        store.batches.advance()
        for unknown in (opened, "00" * 16):
            with pytest.raises(UnknownError):
                store.batches.release(survey.id, unknown, REQUEST)

    @pytest.mark.usefixtures("sealed")
    def test_a_batch_is_of_one_survey(self, store, survey):
        other = make_survey("another")
        store.surveys.add(other)
        batch, digest = shuffle(store)
        with pytest.raises(UnknownError):
            store.batches.release(other.id, batch, REQUEST)
        store.batches.release(survey.id, batch, REQUEST)
        with pytest.raises(UnknownError):
            store.batches.acknowledge(other.id, batch, REQUEST, digest)

    @pytest.mark.usefixtures("sealed")
    def test_a_batch_is_acknowledged_with_its_digest(self, store, survey):
        batch, digest = shuffle(store)
        with pytest.raises(NotReadyError):
            store.batches.acknowledge(survey.id, batch, REQUEST, digest)
        store.batches.release(survey.id, batch, REQUEST)
        with pytest.raises(ConflictError, match="is not the digest"):
            store.batches.acknowledge(survey.id, batch, REQUEST, "00" * 32)
        with pytest.raises(ConflictError, match="by another request"):
            store.batches.acknowledge(survey.id, batch, OTHER_REQUEST, digest)
        assert store.batches.listed(survey.id)[0].state == "RELEASED"
        for _ in range(2):
            store.batches.acknowledge(survey.id, batch, REQUEST, digest)
        assert store.batches.listed(survey.id)[0].state == "ACKED"
        with pytest.raises(ConflictError, match="by another request"):
            store.batches.release(survey.id, batch, REQUEST)

    @pytest.mark.usefixtures("sealed")
    def test_files_go_when_nobody_needs_them(self, store, directory, survey):
        assert store.batches.purge() == 0
        batch, digest = shuffle(store)
        assert store.batches.purge() == 1
        assert names(directory / "parts") == []  # they tell more about the order than the batch
        path = store.batches.release(survey.id, batch, REQUEST)
        assert store.batches.purge() == 0
        assert path.exists()
        store.batches.acknowledge(survey.id, batch, REQUEST, digest)
        assert store.batches.purge() == 1
        assert names(directory / "batches") == []
        assert store.batches.purge() == 0
        assert store.batches.listed(survey.id)[0].state == "PURGED"
        store.batches.acknowledge(survey.id, batch, REQUEST, digest)
        assert store.garbage.collect() == 1  # the segment
        assert send(store, survey, range(20)) == 0

    @pytest.mark.usefixtures("sealed")
    def test_a_crash_while_deleting_is_made_good(self, store, directory, survey, monkeypatch):
        batch, digest = shuffle(store)
        store.batches.release(survey.id, batch, REQUEST)
        store.batches.acknowledge(survey.id, batch, REQUEST, digest)
        with monkeypatch.context() as patch:
            patch.setattr(failpoints, "reached", dying_at("purge.files-deleted"))
            with pytest.raises(ZeroDivisionError):
                store.batches.purge()
        assert store.batches.listed(survey.id)[0].state == "ACKED"
        assert store.batches.purge() == 1
        assert store.batches.listed(survey.id)[0].state == "PURGED"
        assert names(directory / "parts") == names(directory / "batches") == []

    @pytest.mark.usefixtures("sealed")
    @pytest.mark.parametrize("loser", ["first", "the same", "another order"])
    def test_two_who_shuffle_the_same_batch_make_one(
        self, store, again, directory, clock, survey, loser
    ):
        late = store.batches.claim(LEASE)
        assert again.batches.claim(LEASE) is None
        clock.advance(LEASE)
        taken = again.batches.claim(LEASE)
        assert (late.header, late.parts) == (taken.header, taken.parts)
        assert late.draft != taken.draft
        digest = draft(late)
        if loser == "another order":  # as it would be
            data = late.draft.read_bytes()
            late.draft.write_bytes(data[:-1] + bytes([data[-1] ^ 1]))
            digest = sha256(late.draft.read_bytes()).hexdigest()
        if loser == "first":
            with pytest.raises(LeaseLostError):
                store.batches.finish(late, digest)
            assert store.batches.listed(survey.id) == []
        again.batches.finish(taken, draft(taken))
        path = again.batches.release(survey.id, taken.header.batch, REQUEST)
        before = path.read_bytes()
        if loser != "first":
            with pytest.raises(LeaseLostError):
                store.batches.finish(late, digest)
        assert again.batches.release(survey.id, taken.header.batch, REQUEST).read_bytes() == before
        # The segment, and the file that lost, unless it is the winner's byte for byte.
        assert store.garbage.collect() == 1 + (loser == "another order")
        assert names(directory / "batches") == [path.name]

    @pytest.mark.usefixtures("sealed")
    def test_a_draft_is_the_whole_batch(self, store):
        batch = store.batches.claim(LEASE)
        draft(batch)
        whole = batch.draft.read_bytes()
        other = replace(batch.header, key=batch.header.key + 1).to_bytes()
        for wrong, error in (
            (whole[:-1], MalformedError),
            (whole + b"\0", MalformedError),
            (other + whole[len(batch.header.to_bytes()) :], InvalidArgumentError),
        ):
            batch.draft.write_bytes(wrong)
            with pytest.raises(error):
                store.batches.finish(batch, sha256(wrong).hexdigest())
        batch.draft.unlink()
        with pytest.raises(UnreadableError):
            store.batches.finish(batch, sha256(whole).hexdigest())

    @pytest.mark.usefixtures("sealed")
    def test_what_a_crash_left_is_swept_and_nothing_else(self, store, directory, survey):
        send(store, survey, range(100, 110))
        claim = store.reports.claim(100, LEASE)
        batch = store.batches.claim(LEASE)
        draft(batch)
        mine = claim.owner.rpartition("/")[2]
        (directory / "parts" / f"{mine}-0").write_bytes(b"about to be committed")
        (directory / "parts" / f"{'0' * 32}-0").write_bytes(b"of a crash")
        (directory / "batches" / f"{batch.header.batch}-{'1' * 16}.batch").write_bytes(
            b"renamed, perhaps"
        )
        (directory / "batches" / f"{'2' * 32}-{'1' * 16}.batch").write_bytes(b"of nobody")
        (directory / "batches" / f"{batch.header.batch}-{'3' * 32}.draft").write_bytes(
            b"of a lost lease"
        )
        kept_parts, kept_batches = len(names(directory / "parts")) - 1, 2
        assert store.garbage.collect() == 3
        assert len(names(directory / "parts")) == kept_parts
        assert len(names(directory / "batches")) == kept_batches
        (directory / "parts" / f"{mine}-0").unlink()
        store.reports.finish(claim, {0: records(survey, 10)})
        store.batches.finish(batch, draft(batch))
        assert store.garbage.collect() == 2  # the segment, and the file that lost
        assert store.batches.release(survey.id, batch.header.batch, REQUEST).exists()
        assert store.garbage.collect() == 0

    def test_a_crash_after_the_part_is_written_counts_nothing(
        self, store, again, database, clock, monkeypatch
    ):
        (survey,) = store.surveys.all()
        send(store, survey, range(10))
        claim = store.reports.claim(100, LEASE)
        with monkeypatch.context() as patch:
            patch.setattr(failpoints, "reached", dying_at("opening.part-written"))
            with pytest.raises(ZeroDivisionError):
                store.reports.finish(claim, {0: records(survey, 10)})
        assert states(database) == []
        assert again.garbage.collect() == 0  # the lease has not ended
        clock.advance(LEASE)
        assert open_all(again) == 10
        assert again.garbage.collect() == 2  # the segment and the part of the crash
        assert states(database) == [("OPEN", 10)]

    # What is told

    def test_progress_has_quarters_and_is_looked_at_every_ten_minutes(self, store, clock):
        survey = make_survey("large", minimum=100, target=200)
        store.surveys.add(survey)
        shown, sent = [], 0
        for count in (1, 23, 1, 24, 1, 49, 1, 1):
            fill(store, survey, range(sent, sent + count))
            sent += count
            shown.append(store.progress.of(survey.id).share)
            clock.advance(600)
        assert shown == [0, 0, 0.25, 0.25, 0.5, 0.75, 1, 1]
        assert store.progress.of(survey.id).minimum == 100
        assert store.batches.counters(survey.id) == {
            "batches": 0,
            "reports": 0,
            "expired_batches": 0,
        }

    def test_progress_does_not_show_when_somebody_came(self, store, clock):
        survey = make_survey("large", minimum=100, target=200)
        store.surveys.add(survey)
        fill(store, survey, range(24))
        before = store.progress.of(survey.id)
        for _ in range(599):
            clock.advance(1)
            assert store.progress.of(survey.id) == before
        fill(store, survey, range(24, 99))  # whoever watches is at 99 of 100
        assert store.progress.of(survey.id) == before
        clock.advance(1)
        assert store.progress.of(survey.id).share == 0.75

    def test_two_looks_are_never_close_to_each_other(self, store, clock):
        survey = make_survey("large", minimum=100, target=200)
        store.surveys.add(survey)
        clock.advance(599 - clock() % 600)  # a second before ten minutes by the clock are full
        fill(store, survey, range(24))
        assert store.progress.of(survey.id).share == 0
        fill(store, survey, range(24, 25))
        clock.advance(1)
        assert store.progress.of(survey.id).share == 0
        clock.advance(599)
        assert store.progress.of(survey.id).share == 0.25
        fill(store, survey, range(25, 50))
        clock.advance(-DAY)  # set back: no look at once, and none missed for a day
        assert store.progress.of(survey.id).share == 0.25
        clock.advance(599)
        assert store.progress.of(survey.id).share == 0.25
        clock.advance(1)
        assert store.progress.of(survey.id).share == 0.5

    def test_the_second_in_which_a_batch_began_is_nowhere(self, store, database, clock):
        survey = make_survey("large", minimum=100, target=200, max_age=7 * 86_400)
        store.surveys.add(survey)
        derived = []
        for second in (1234, 3599):
            hour = clock() + HOUR - clock() % HOUR
            clock.advance(hour + second - clock())
            fill(store, survey, range(second, second + 1))
            with database.read() as connection:
                stored = connection.scalars(sa.text("SELECT since FROM batches")).all()
            assert {since % HOUR for since in stored if since is not None} == {0}
            clock.advance(1200 - clock() % 600)  # whoever asks does so by a clock of their own
            assert store.progress.of(survey.id).closes_in is None  # nobody sees that one has come
            fill(store, survey, range(second + 1, second + 60))
            clock.advance(600)
            before = store.progress.of(survey.id).closes_in
            assert before is not None
            while store.progress.of(survey.id).closes_in == before:
                clock.advance(1)
            derived.append(clock() % HOUR)
            fill(store, survey, range(second + 60, second + 200))
            assert store.batches.advance()
        assert derived[0] == derived[1]

    def test_all_batches_are_counted_and_the_last_one_has_a_size(self, store, clock, survey):
        assert (store.batches.states(survey.id), store.batches.last_size(survey.id)) == ({}, None)
        for number, size in enumerate((30, 12, 17)):
            fill(store, survey, range(100 * number, 100 * number + size))
            clock.advance(2 * HOUR)
            store.batches.advance()
            shuffle(store)
        assert store.batches.states(survey.id) == {"SHUFFLED": 3}
        assert store.batches.last_size(survey.id) == 17

    # Keys and tokens

    def test_the_tags_of_a_deleted_key_go(self, store, database, survey, monkeypatch):
        monkeypatch.setattr("shoal.service.db.tables.AT_ONCE", 7)
        send(store, survey, range(20), key=1)
        send(store, survey, range(5), key=2)
        assert store.reports.waiting_keys() == {1, 2}
        open_all(store)
        assert store.reports.waiting_keys() == set()
        assert store.forget_key(1) == 20
        assert store.forget_key(1) == 0
        assert send(store, survey, range(5), key=2) == 0
        assert sum(rows_of(database, table) for table in schema.OF_REPORTS) == 5

    def test_tokens_are_kept_as_hashes(self, store, database, survey, clock):
        other = make_survey("another")
        store.surveys.add(other)
        one = store.tokens.add("one", survey.id, 60)
        every = store.tokens.add("every", None, 3600)
        scope = store.tokens.check(one, survey.id)
        assert (scope.label, scope.survey, scope.expires) == ("one", survey.id, START + 60)
        assert store.tokens.check(every, other.id).survey is None
        with pytest.raises(NotAuthorizedError, match="another survey"):
            store.tokens.check(one, other.id)
        for wrong in ("", one[:-1], one + "0", one.upper(), "é\ud800"):
            with pytest.raises(NotAuthorizedError, match="no valid token"):
                store.tokens.check(wrong, survey.id)
        with database.read() as connection:
            kept = connection.execute(sa.select(common.tokens)).all()
        assert {bytes(row.hash) for row in kept} == {
            sha256(token.encode()).digest() for token in (one, every)
        }
        assert one not in repr(kept)
        clock.advance(60)
        with pytest.raises(NotAuthorizedError, match="no valid token"):
            store.tokens.check(one, survey.id)
        assert store.tokens.revoke("every") == 1
        with pytest.raises(NotAuthorizedError, match="no valid token"):
            store.tokens.check(every, survey.id)

    @pytest.mark.usefixtures("sealed")
    def test_files_are_for_nobody_else(self, store, directory, survey):
        shuffle(store)
        send(store, survey, [500])
        found = list(directory.rglob("*"))
        assert len([path for path in found if path.is_file()]) == 4  # with the store's name
        assert all(path.stat().st_mode & 0o077 == 0 for path in (directory, *found))

    # What one of them does

    @SQLITE
    @pytest.mark.usefixtures("store")
    def test_a_locked_database_acknowledges_nothing(self, url, tmp_path, survey, clock):
        impatient = Database(url, timeout=0.1)
        other = ShufflerStore(impatient, tmp_path / "shuffler", clock)
        holder = sqlite3.connect(tmp_path / "store.sqlite", isolation_level=None)
        holder.execute("BEGIN IMMEDIATE")
        with pytest.raises(StoreUnavailableError, match="locked"):
            send(other, survey, range(10))
        holder.execute("ROLLBACK")
        holder.close()
        assert send(other, survey, range(10)) == 10
        other.close()
        impatient.close()

    @SQLITE
    def test_a_full_database_acknowledges_nothing(self, database, store, survey):
        with database.read() as connection:
            pages = connection.exec_driver_sql("PRAGMA page_count").scalar()
            connection.exec_driver_sql(f"PRAGMA max_page_count={pages + 2}")
        with pytest.raises(StoreUnavailableError, match="full"):
            send(store, survey, range(5000))
        assert rows_of(database, schema.waiting_tags) == 0
        with database.read() as connection:
            connection.exec_driver_sql("PRAGMA max_page_count=1000000")
        assert send(store, survey, range(5000)) == 5000
        claim = store.reports.claim(5000, LEASE)
        assert store.reports.read(claim) == make_reports(survey, range(5000))

    @SQLITE
    @pytest.mark.parametrize("name", ["store.sqlite", "store.sqlite-wal"])
    @pytest.mark.parametrize("replaced", [False, True])
    def test_files_that_are_gone_acknowledge_nothing(
        self, database, store, survey, tmp_path, name, replaced
    ):
        """What is open still takes everything, and all of it would be gone after a restart."""
        assert send(store, survey, range(10)) == 10
        store.id.check()
        path, away = tmp_path / name, tmp_path / "away"
        path.rename(away)
        if replaced:
            shutil.copy(away, path)
        for _ in range(2):
            with pytest.raises(StoreUnavailableError, match=f"{name} was removed or replaced"):
                send(store, survey, range(10, 20))
        for look in (store.id.check, lambda: database.require("shuffler")):
            with pytest.raises(StoreUnavailableError, match="restart this process"):
                look()
        with pytest.raises(StoreUnavailableError):
            store.reports.claim(100, LEASE)
        away.replace(path)
        store.id.check()
        assert send(store, survey, range(20, 25)) == 5

    @SQLITE
    def test_a_connection_that_finds_other_files_is_not_taken_for_the_first(
        self, database, store, survey, tmp_path
    ):
        send(store, survey, range(10))
        with database.read():
            (tmp_path / "store.sqlite").rename(tmp_path / "away")
            with pytest.raises(StoreUnavailableError), database.write():
                pass  # another connection than the one that reads
        with pytest.raises(StoreUnavailableError):
            store.id.check()

    @SQLITE
    def test_what_others_do_to_the_files_in_order_is_no_mishap(
        self, database, store, survey, tmp_path
    ):
        path = tmp_path / "store.sqlite"
        send(store, survey, range(10))
        script = (
            "import sqlite3, sys; c = sqlite3.connect(sys.argv[1]); "
            "c.execute('PRAGMA wal_checkpoint(TRUNCATE)').fetchall(); c.execute('VACUUM'); "
            "c.close()"
        )
        subprocess.run([sys.executable, "-c", script, str(path)], check=True)
        assert send(store, survey, range(10, 20)) == 10
        database.close()
        assert not (tmp_path / "store.sqlite-wal").exists()  # the last one removes the log
        (tmp_path / "filler").touch()  # and its number on the disk goes to another file
        store.id.check()
        assert send(store, survey, range(20, 30)) == 10

    @SQLITE
    def test_it_is_durable_and_forgets_what_is_deleted(self, database, tmp_path):
        with database.read() as connection:
            settings = {
                name: connection.exec_driver_sql(f"PRAGMA {name}").scalar()
                for name in ("journal_mode", "synchronous", "secure_delete", "foreign_keys")
            }
        assert settings == {
            "journal_mode": "wal",
            "synchronous": 2,
            "secure_delete": 1,
            "foreign_keys": 1,
        }
        for path in tmp_path.glob("store.sqlite*"):
            assert path.stat().st_mode & 0o077 == 0

    @POSTGRESQL
    def test_a_server_is_durable(self, database):
        with database.read() as connection:
            assert connection.exec_driver_sql("SHOW synchronous_commit").scalar() == "on"

    @POSTGRESQL
    def test_without_its_server_it_acknowledges_nothing(
        self, postgres_server, database, store, survey
    ):
        send(store, survey, range(5))
        postgres_server.stop()
        try:
            for attempt in (
                lambda: send(store, survey, range(10)),
                lambda: store.reports.claim(10, 60),
                store.batches.advance,
            ):
                with pytest.raises(StoreUnavailableError):
                    attempt()
        finally:
            postgres_server.ensure_postgres_running()
        assert rows_of(database, schema.waiting_tags) == 5
        assert send(store, survey, range(10)) == 5


class TestSafety:
    """A wrong database, a missing disk, a clock that is ahead: nothing that counts is deleted."""

    # A database and a directory that belong together

    def test_another_database_is_refused_before_it_deletes_anything(
        self, store, survey, directory, opened, other
    ):
        fill(store, survey, range(15))
        send(store, survey, range(100, 103))
        before = [names(directory / name) for name in ("segments", "parts")]
        for _ in range(2):
            with pytest.raises(
                StoreVersionError, match=r"store-id belongs to another.*SHOAL_STORE"
            ):
                opened(other)
        assert [names(directory / name) for name in ("segments", "parts")] == before
        assert open_all(opened()) == 3

    @SQLITE
    @pytest.mark.usefixtures("store")
    def test_another_database_is_refused_when_nothing_is_there_to_delete(self, opened, other):
        """What comes later would be."""
        with pytest.raises(StoreVersionError):
            opened(other)

    def test_a_directory_without_its_disk_is_refused(
        self, store, survey, directory, opened, tmp_path
    ):
        send(store, survey, range(3))
        directory.rename(tmp_path / "unmounted")
        directory.mkdir()
        with pytest.raises(
            StoreVersionError, match=r"lacks the file store-id of this database.*mounted"
        ):
            opened()
        with pytest.raises(StoreVersionError):
            store.id.check()
        assert names(directory) == []
        directory.rmdir()
        (tmp_path / "unmounted").rename(directory)
        store.id.check()
        assert open_all(opened()) == 3

    @SQLITE
    def test_a_store_from_before_names_is_told_what_to_do_with_files_that_nobody_needs(
        self, store, survey, directory, database, opened
    ):
        """All was opened and collected, and the last segment is there: no way to tell whose."""
        send(store, survey, range(3))
        (directory / FILE).unlink()
        with database.write() as connection:
            connection.execute(common.store.update().values(bound=False))
            connection.execute(schema.extents.delete())
        with pytest.raises(
            StoreVersionError, match=r"if it is the right one.* move them elsewhere"
        ):
            opened()
        (directory / "segments").rename(directory.with_name("elsewhere"))
        assert opened().surveys.all() == [survey]

    @SQLITE
    def test_a_store_from_before_names_gets_one(
        self, store, survey, directory, clock, database, opened, other
    ):
        """Files and references on both sides, or on neither: they may be each other's."""
        send(store, survey, range(3))
        (directory / FILE).unlink()
        with database.write() as connection:
            connection.execute(common.store.update().values(bound=False))
        with pytest.raises(StoreVersionError):
            opened(other)
        moved = directory.with_name("empty")
        with pytest.raises(StoreVersionError):
            ShufflerStore(database, moved, clock)
        assert names(moved) == []
        opened()
        with database.read() as connection:
            (row,) = connection.execute(sa.select(common.store)).all()
        assert (directory / FILE).read_text(encoding="utf-8").strip() == row.id
        assert row.bound

    @SQLITE
    def test_a_crash_between_the_two_names_is_made_good(
        self, store, survey, directory, database, opened
    ):
        with database.write() as connection:
            connection.execute(common.store.update().values(bound=False))
        send(store, survey, range(3))
        opened()
        (directory / FILE).unlink()
        with pytest.raises(StoreVersionError):
            opened()

    def test_an_analyzer_has_a_directory_of_its_own(self, tmp_path):
        databases = [Database(f"sqlite:///{tmp_path / name}.sqlite") for name in ("a", "b")]
        for database in databases:
            database.migrate("analyzer")
        AnalyzerStore(databases[0], tmp_path / "analyzer", lambda: 0)
        AnalyzerStore(databases[0], tmp_path / "analyzer", lambda: 0)
        with pytest.raises(StoreVersionError):
            AnalyzerStore(databases[1], tmp_path / "analyzer", lambda: 0)
        for database in databases:
            database.close()

    @SQLITE
    @pytest.mark.usefixtures("store")
    def test_a_name_that_cannot_be_read_is_an_unavailable_store(self, directory, database):
        (directory / FILE).unlink()
        (directory / FILE).mkdir()
        with pytest.raises(StoreUnavailableError):
            StoreId(database, directory).check()

    # What looks useless

    def test_things_are_useless_after_they_looked_so_for_a_while(self):
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

    @SQLITE
    def test_files_that_nobody_refers_to_are_kept_for_an_hour(
        self, store, survey, directory, opened
    ):
        """As after a database was restored from a backup."""
        fill(store, survey, range(5))
        (directory / "parts" / "nobodys-0").write_bytes(b"x")
        (directory / "batches" / "nobodys.batch").write_bytes(b"x")
        careful = opened(grace=HOUR)
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
        assert len(names(directory / "parts")) == 1

    def test_a_clock_that_was_ahead_for_a_moment_deletes_no_batch(
        self, store, survey, clock, opened
    ):
        fill(store, survey, range(9))
        careful = opened(grace=HOUR)
        now = SimpleNamespace(seconds=0.0)
        careful.batches._hopeless._steady = lambda: now.seconds
        clock.advance(400 * DAY)
        assert [step.state for step in careful.batches.advance()] == ["CARRIED"]
        now.seconds = HOUR / 2
        assert careful.batches.advance() == []
        clock.advance(-400 * DAY)
        assert careful.batches.advance() == []
        now.seconds = 2 * HOUR
        clock.advance(400 * DAY)
        assert careful.batches.advance() == []  # the hour begins again
        now.seconds = 3 * HOUR
        assert [step.state for step in careful.batches.advance()] == ["EXPIRED"]

    @SQLITE
    def test_no_batch_dies_while_the_clock_is_doubted(self, store, survey, clock):
        fill(store, survey, range(9))
        clock.now = survey.not_after + DAY
        assert [step.state for step in store.batches.advance(expire=False)] == ["CARRIED"]
        assert store.batches.advance(expire=False) == []
        assert [step.state for step in store.batches.advance()] == ["EXPIRED"]

    # Attempts

    def test_what_is_not_the_reports_fault_does_not_count(self, store, survey, clock):
        send(store, survey, range(3))
        for _ in range(3):
            claim = store.reports.claim(10, LEASE)
            assert claim.attempts == 0
            store.reports.recount(claim, -1)
            store.reports.leases.release(claim.owner)
        store.reports.recount(store.reports.claim(10, LEASE), -1)
        assert store.reports.claim(10, LEASE) is None  # the lease goes on
        clock.advance(LEASE)
        assert store.reports.claim(10, LEASE).attempts == 0
        clock.advance(LEASE)
        assert store.reports.claim(10, LEASE).attempts == 1

    # Tags of what does not open

    def test_the_tags_of_rejected_reports_go(self, store, survey, database):
        send(store, survey, range(10))
        send(store, survey, range(10), key=1)
        claim = store.reports.claim(10, LEASE)
        rejected = make_reports(survey, range(4))
        store.reports.finish(claim, {0: records(survey, 6)}, rejected)
        assert rows_of(database, schema.recent_tags) == 6
        assert rows_of(database, schema.waiting_tags) == 10
        assert send(store, survey, range(10), key=claim.key) == 4
        assert send(store, survey, range(10), key=1 - claim.key) == 0
        assert states(database) == [("OPEN", 6)]

    # Room

    @SQLITE
    def test_without_room_nothing_is_taken_in_and_everything_else_goes_on(
        self, store, survey, opened, monkeypatch
    ):
        send(store, survey, range(3))
        free, now = [10 << 30], [100.0]
        usage = lambda _: SimpleNamespace(free=free[0])  # noqa: E731
        monkeypatch.setattr(files, "shutil", SimpleNamespace(disk_usage=usage))
        monkeypatch.setattr(files, "time", SimpleNamespace(monotonic=lambda: now[0]))
        store = opened(least_free=1 << 20)
        assert send(store, survey, [3]) == 1
        free[0] = 1 << 19
        assert send(store, survey, [4]) == 1  # looked at once a second
        now[0] += 1
        with pytest.raises(StoreUnavailableError, match="too little space"):
            send(store, survey, [5])
        assert open_all(store) == 5
        free[0] = 1 << 20
        now[0] += 1
        assert send(store, survey, [5]) == 1

    # Segments

    def test_a_segment_whose_name_was_not_synced_is_not_used(self, tmp_path, monkeypatch):
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

    @POSTGRESQL
    def test_a_commit_in_flight_keeps_its_segment(self, url, store, survey, directory, clock):
        """The process that asked for it is dead, and its lock on the file with it."""
        dead = Segments(directory / "segments", clock)
        with dead.appending() as append:
            extent = append([make_reports(survey, range(5))])
        dead.close()
        server = Database(url)
        with server.write() as connection:
            lock = sa.func.pg_advisory_xact_lock_shared(lock_number(extent.segment))
            connection.execute(sa.select(lock))
            assert store.garbage.collect() == 0
        assert store.garbage.collect() == 1
        server.close()

    @POSTGRESQL
    def test_an_intake_holds_the_lock_of_its_segment_until_its_commit(
        self, url, store, survey, directory, monkeypatch
    ):
        other, free = Database(url), []

        def reached(place):
            if place not in {"intake.after-segment", "afterwards"}:
                return
            with other.read() as connection:
                (segment,) = names(directory / "segments")
                number = lock_number(segment.removesuffix(".segment"))
                lock = sa.func.pg_try_advisory_xact_lock(number)
                free.append(connection.execute(sa.select(lock)).scalar())

        monkeypatch.setattr("shoal.service.failpoints.reached", reached)
        send(store, survey, range(5))
        reached("afterwards")
        assert free == [False, True]
        other.close()

    # PostgreSQL that is far away

    @POSTGRESQL
    @pytest.mark.usefixtures("store")
    def test_a_lock_that_is_not_given_is_told_from_a_database_that_is_gone(
        self, url, survey, database, opened
    ):
        impatient = Database(url, timeout=0.2)
        with database.write() as connection:
            connection.execute(sa.text("LOCK TABLE tags"))
            with pytest.raises(StoreBusyError):
                send(opened(impatient), survey, range(3))
        impatient.close()

    @POSTGRESQL
    def test_connections_notice_that_the_other_side_is_gone(self, url, database):
        database = Database(url)
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
