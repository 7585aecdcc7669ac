"""The intake: reports sorted by their keys, and a store that can be slow, broken or stopped."""

from __future__ import annotations

import asyncio
from threading import Event

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from running_kit import wait_for
from shoal.errors import InvalidArgumentError
from shoal.sealing import SUITES, SurveyId
from shoal.service.errors import StoreBusyError, StoreUnavailableError
from shoal.service.http.problems import ProblemError
from shoal.service.shuffler.intake import GroupCommit, sorted_upload
from shoal.service.shuffler.reports import Arrival, Received
from shoal.service.wire import Wire

SURVEY = SurveyId(bytes(32))
FIRST = b"first"


class Store:
    """Remembers what was committed together; waits, or fails, where it is told to."""

    def __init__(self):
        self.groups = []
        self.go_on = Event()
        self.go_on.set()
        self.entered = Event()
        self.down = False

    def receive(self, arrivals):
        self.entered.set()
        assert self.go_on.wait(60)
        if self.down:
            raise StoreUnavailableError("writing", "no disk")
        if any(arrival.reports == b"poison" for arrival in arrivals):
            raise InvalidArgumentError("reports", "poison", "food")
        if any(arrival.reports == b"held" for arrival in arrivals):
            raise StoreBusyError("writing", "somebody has its row")
        self.groups.append([arrival.reports for arrival in arrivals])
        return Received(len(arrivals), [{} for _ in arrivals])


def arrival(content):
    return Arrival(SURVEY, 0, content)


@pytest.fixture
def store():
    return Store()


async def _sent(intake, store, contents):
    """Commit all of it while the store is busy with another; the outcome of each."""
    store.go_on.clear()
    store.entered.clear()
    first = asyncio.ensure_future(intake.commit([arrival(FIRST)]))
    await asyncio.get_running_loop().run_in_executor(None, store.entered.wait, 60)
    waiting = [asyncio.ensure_future(intake.commit([arrival(content)])) for content in contents]
    await asyncio.sleep(0.02)
    assert not any(task.done() for task in waiting)
    store.go_on.set()
    await asyncio.wait([first])
    first.exception()
    return await asyncio.gather(*waiting, return_exceptions=True)


def test_who_comes_while_others_are_committed_shares_the_next_commit(store):
    intake = GroupCommit(store, linger=0.0)
    contents = [b"%d" % number for number in range(100)]
    assert asyncio.run(_sent(intake, store, contents)) == [[{}]] * 100
    intake.close()
    assert store.groups == [[FIRST], contents]


def test_lingering_gathers_the_first_group_too(store, monkeypatch):
    everybody, lingered = Event(), []

    def sleep(seconds):
        lingered.append(seconds)
        assert everybody.wait(60)

    async def several():
        waiting = [asyncio.ensure_future(intake.commit([arrival(b"x")])) for _ in range(50)]
        await asyncio.sleep(0)  # all of them are in the line
        everybody.set()
        await asyncio.gather(*waiting)

    monkeypatch.setattr("shoal.service.shuffler.intake.time.sleep", sleep)
    intake = GroupCommit(store, linger=0.05)
    asyncio.run(several())
    intake.close()
    assert [len(group) for group in store.groups] == [50]
    assert lingered == [0.05]


def test_groups_are_bounded_and_nobody_waits_for_ever(store):
    intake = GroupCommit(store, group_bytes=10, linger=0.0)
    contents = [b"12345", b"12345", b"1", b"1234567890123", b"1"]
    asyncio.run(_sent(intake, store, contents))
    intake.close()
    assert store.groups == [[FIRST], contents[:2], contents[2:3], contents[3:4], contents[4:]]


def test_nobody_is_answered_before_it_is_durable_and_all_are_told_if_it_is_not(store):
    intake = GroupCommit(store, linger=0.0)
    store.down = True
    outcomes = asyncio.run(_sent(intake, store, [b"a", b"b", b"c"]))
    assert [type(outcome) for outcome in outcomes] == [StoreUnavailableError] * 3
    store.down = False
    assert asyncio.run(_sent(intake, store, [b"a", b"b", b"c"])) == [[{}]] * 3
    intake.close()


def test_one_bad_request_does_not_spoil_its_group(store):
    intake = GroupCommit(store, linger=0.02)
    outcomes = asyncio.run(_sent(intake, store, [b"a", b"poison", b"c"]))
    intake.close()
    assert outcomes[0] == [{}]
    assert outcomes[2] == [{}]
    assert isinstance(outcomes[1], InvalidArgumentError)
    assert store.groups == [[FIRST], [b"a"], [b"c"]]


def test_a_row_that_somebody_holds_does_not_spoil_the_group(store):
    intake = GroupCommit(store, linger=0.02)
    outcomes = asyncio.run(_sent(intake, store, [b"a", b"held", b"c"]))
    intake.close()
    assert [type(outcome) for outcome in outcomes] == [list, StoreBusyError, list]
    assert store.groups == [[FIRST], [b"a"], [b"c"]]


def test_closing_commits_what_waits_and_takes_nothing_more(store):
    async def closing():
        store.go_on.clear()
        waiting = [asyncio.ensure_future(intake.commit([arrival(b"x")])) for _ in range(20)]
        await asyncio.sleep(0.05)
        closed = asyncio.get_running_loop().run_in_executor(None, intake.close)
        # Its thread may begin late, and what comes before that is taken.
        await asyncio.to_thread(wait_for, lambda: intake._closed)
        assert not closed.done()
        with pytest.raises(ProblemError) as caught:
            await intake.commit([arrival(b"late")])
        assert caught.value.problem.status == 503
        store.go_on.set()
        await asyncio.gather(*waiting)
        await closed

    intake = GroupCommit(store)
    asyncio.run(closing())
    assert sum(len(group) for group in store.groups) == 20
    assert intake._thread is not None
    assert not intake._thread.is_alive()
    intake.close()


def test_who_gives_up_waiting_disturbs_nobody(store):
    async def giving_up():
        store.go_on.clear()
        first = asyncio.ensure_future(intake.commit([arrival(b"first")]))
        second = asyncio.ensure_future(intake.commit([arrival(b"second")]))
        await asyncio.sleep(0.02)
        first.cancel()
        store.go_on.set()
        await second

    intake = GroupCommit(store)
    asyncio.run(giving_up())
    intake.close()
    assert [report for group in store.groups for report in group] == [b"first", b"second"]


def test_a_loop_that_has_ended_does_not_end_the_intake(store):
    async def abandoned():
        store.go_on.clear()
        task = asyncio.ensure_future(intake.commit([arrival(b"x")]))
        await asyncio.sleep(0.02)
        task.cancel()

    async def honest():
        await intake.commit([arrival(b"y")])

    intake = GroupCommit(store)
    asyncio.run(abandoned())
    store.go_on.set()
    asyncio.run(honest())
    intake.close()
    assert [report for group in store.groups for report in group] == [b"x", b"y"]


def test_how_long_a_commit_takes_is_observed(store):
    async def one():
        await intake.commit([arrival(b"x")])
        await intake.commit([])

    seen = []
    intake = GroupCommit(store, observe=lambda *given: seen.append(given))
    asyncio.run(one())
    intake.close()
    ((name, seconds, reason),) = seen
    assert (name, reason) == ("commit_seconds", "")
    assert 0 <= seconds < 5


def test_an_observer_that_fails_does_not_leave_people_waiting(store, caplog):
    async def two():
        await intake.commit([arrival(b"x")])
        await intake.commit([arrival(b"y")])

    def broken(*_seen):
        raise RuntimeError

    intake = GroupCommit(store, observe=broken)
    asyncio.run(two())
    intake.close()
    assert store.groups == [[b"x"], [b"y"]]
    assert [record.message for record in caplog.records] == ["not_observed"] * 2


# What comes in one body

WIRE = Wire(survey=SurveyId(bytes(range(32))), shapes=((1, 4),), token_bytes=0, suite=SUITES[0])
SIZE = WIRE.report_bytes
ACCEPTED = {0, 7, 200}


def body_of(heads):
    """A report for each (version, key number), told apart by its last bytes."""
    table = np.zeros((len(heads), SIZE), dtype=np.uint8)
    table[:, :2] = heads
    table[:, -2:] = [divmod(index, 256) for index in range(len(heads))]
    return table.tobytes()


def sort(body, most=10_000):
    return sorted_upload(body, wire=WIRE, accepts=ACCEPTED.__contains__, most=most)


heads = st.tuples(st.sampled_from([1, 1, 1, 0, 2]), st.sampled_from([0, 7, 200, 3, 255]))


@given(st.lists(heads, min_size=1, max_size=60))
def test_every_report_is_kept_once_under_its_key_or_refused_with_its_place(given_heads):
    body = body_of(given_heads)
    reports = [body[start : start + SIZE] for start in range(0, len(body), SIZE)]
    upload = sort(body)
    expected = {}
    refused = []
    for index, (version, key) in enumerate(given_heads):
        if version != 1:
            refused.append({"index": index, "reason": "unknown_version"})
        elif key not in ACCEPTED:
            refused.append({"index": index, "reason": "unknown_key"})
        else:
            expected.setdefault(key, []).append(reports[index])
    assert {item.key: item.reports for item in upload.arrivals} == {
        key: b"".join(found) for key, found in expected.items()
    }
    assert all(item.survey == WIRE.survey for item in upload.arrivals)
    document = upload.document()
    assert document["reports"] == len(given_heads)
    assert sorted(document["refused"], key=lambda item: item["index"]) == refused


def test_the_usual_body_is_not_copied():
    body = body_of([(1, 7)] * 50)
    (arrival,) = sort(body).arrivals
    assert arrival.reports is body


def test_accepts_is_asked_once_for_each_key_however_many_reports():
    asked = []
    sorted_upload(
        body_of([(1, number % 5) for number in range(3000)]),
        wire=WIRE,
        accepts=lambda number: bool(asked.append(number)) or True,
        most=10_000,
    )
    assert asked == [0, 1, 2, 3, 4]


@pytest.mark.parametrize("length", [0, 1, SIZE - 1, SIZE + 1, 10 * SIZE - 1])
def test_broken_lengths_say_what_the_length_is(length):
    with pytest.raises(ProblemError) as caught:
        sort(bytes(length))
    assert caught.value.problem.status == 400
    assert caught.value.problem.extra == {"report_bytes": SIZE}
    assert str(SIZE) in caught.value.problem.detail


def test_too_many_reports():
    sort(body_of([(1, 0)] * 20), most=20)
    with pytest.raises(ProblemError) as caught:
        sort(body_of([(1, 0)] * 21), most=20)
    assert caught.value.problem.status == 413
    assert caught.value.problem.extra == {"limit": 20}
