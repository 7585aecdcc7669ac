"""The intake with a store of its own that can be slow, broken or stopped."""

from __future__ import annotations

import asyncio
from threading import Event

import pytest

from running_kit import wait_for
from shoal.errors import InvalidArgumentError
from shoal.sealing import SurveyId
from shoal.service.errors import StoreBusyError, StoreUnavailableError
from shoal.service.http.problems import ProblemError
from shoal.service.shuffler.intake import GroupCommit
from shoal.service.shuffler.reports import Arrival, Received

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
