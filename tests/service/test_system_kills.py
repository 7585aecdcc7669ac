"""``kill -9`` at every place that has a name: what was promised before holds afterwards."""

from __future__ import annotations

import signal
import time

import pytest

from service.simulation.kills import (
    CLIENTS,
    EVERYBODY,
    LATER,
    MINIMUM,
    SENDERS,
    begun,
    two_questions,
)
from service.simulation.parties import DAY, START, World
from service_site import documents_of
from shoal.service.analyzer.collection import Opened
from shoal.service.failpoints import NAMES

HELD = "analysis.held"  # no honest batch gets there: see test_analyzer_held.py
POINTS = [name for name in NAMES if name != HELD]


@pytest.fixture(scope="module")
def beginning(tmp_path_factory):
    return begun(tmp_path_factory.mktemp("beginning"))


@pytest.fixture(scope="module")
def with_two_questions(tmp_path_factory):
    return begun(tmp_path_factory.mktemp("with_two_questions"), surveys=two_questions)


@pytest.fixture(scope="module")
def on_postgresql(tmp_path_factory, postgres_admin):
    return begun(tmp_path_factory.mktemp("on_postgresql"), postgres_admin)


def left_behind(place, beginning):
    """Digests, documents and debits that there are, by batch."""
    world = World(place, beginning.tokens, now=START + 3 * DAY)
    (survey,) = beginning.surveys
    try:
        digests = {info.id: info.digest for info in world.shuffler.store.batches.listed(survey.id)}
        store = world.analyzer.store
        batches = [each["batch"] for each in documents_of(store, survey)]
        documents = {batch: store.results.get(survey.id, batch) for batch in batches}
        debits = {each["batch"]: each for each in store.ledger.entries(survey.id)}
        assert len(debits) == len(store.ledger.entries(survey.id))
        requests = {each.batch: each.request for each in store.collections.of(survey.id)}
        found = {
            each.batch: store.collections.find(survey.id, each.batch)
            for each in store.collections.of(survey.id)
        }
        counts = {batch: each.counts for batch, each in found.items() if isinstance(each, Opened)}
        states = {info.id: info.state for info in world.shuffler.store.batches.listed(survey.id)}
        return (digests, requests, debits, documents), counts, states
    finally:
        world.close()


def killed_and_succeeded(beginning, forks, point):
    tokens = {str(name): token for name, token in beginning.tokens.items()}
    with beginning.copied(beginning.place.directory.parent / "world") as place:

        def run(**day):
            """How a process with this directory ended."""
            given = {"directory": str(place.directory), "urls": place.urls, "tokens": tokens}
            ((status, _),) = forks.run("service.simulation.kills.collect", given | day)
            return status

        ended = run(point=point, day=0, senders=list(SENDERS))
        assert ended == -signal.SIGKILL, f"{point} was never reached"
        before, _, _ = left_behind(place, beginning)
        told = {int(path.name) for path in (place.directory / "acknowledged").iterdir()}
        # Who was told that it arrived does not send it again; who was not, does.
        again = [name for name in SENDERS if name not in told]
        assert run(day=1, senders=[*again, *LATER]) == 0
        after, counts, states = left_behind(place, beginning)
    for earlier, later in zip(before, after, strict=True):
        assert earlier.items() <= later.items(), "something that was said is different now"
    assert set(states.values()) == {"PURGED"}
    digests, requests, debits, documents = after
    assert digests.keys() == requests.keys() == debits.keys() == documents.keys()
    (survey,) = beginning.surveys
    for each in zip(*counts.values(), strict=True):  # of each question, batch by batch
        assert all(one.n >= MINIMUM for one in each)
        total = sum(one.cells for one in each)
        assert total.sum() == EVERYBODY
        if not survey.several:
            assert total.tolist() == [1] * EVERYBODY, (total[list(CLIENTS)], total[list(SENDERS)])


@pytest.mark.parametrize("point", POINTS)
def test_killed_here_nothing_is_lost_or_counted_twice(beginning, forks, point):
    killed_and_succeeded(beginning, forks, point)


SECTIONS = ("shuffle.half-written", "analysis.opened")


@pytest.mark.parametrize(
    "point",
    [pytest.param(each, marks=[pytest.mark.slow] * (each not in SECTIONS)) for each in POINTS],
)
def test_killed_here_no_question_loses_an_answer(with_two_questions, forks, point):
    killed_and_succeeded(with_two_questions, forks, point)


@pytest.mark.slow
@pytest.mark.parametrize("point", POINTS)
def test_again_and_again(beginning, forks, point):
    for _ in range(20):
        killed_and_succeeded(beginning, forks, point)


@pytest.mark.slow
@pytest.mark.parametrize("point", POINTS)
def test_with_postgresql(on_postgresql, forks, point):
    killed_and_succeeded(on_postgresql, forks, point)


@pytest.mark.slow
def test_a_million_reports_wait_and_the_next_process_is_there_at_once(beginning, forks):
    """Until it has taken a report, and begun to open those that wait."""
    (survey,) = beginning.surveys
    with beginning.copied(beginning.place.directory.parent / "full") as place:
        given = {"directory": str(place.directory), "urls": place.urls, "reports": 1_000_000}
        ended = forks.run("service.simulation.kills.filled", given)
        assert ended == [(-signal.SIGKILL, None)]
        report = (place.directory / "reports" / str(LATER[0])).read_bytes()
        began = time.process_time()
        world = World(place, beginning.tokens)
        answer = world.upload(survey, report)
        claim = world.shuffler.store.reports.claim(20_000, 600)
        found = world.shuffler.store.reports.read(claim)
        took = time.process_time() - began
        world.close()
    assert answer.status_code == 202
    assert len(found) == 20_000 * beginning.wires[0].report_bytes
    assert took < 5
