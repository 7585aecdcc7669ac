"""Everything arrives once: over a network that loses answers, and with several at work on it."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from itertools import chain

import numpy as np
import pytest

from service.live import Lossy, Workers, counted, live, quick_directory, telling
from shoal.mechanisms.response import RandomizedResponse
from shoal.service.client import Sent, seal_many
from shoal.service.clock import system_clock

LOST = 30  # percent


@pytest.fixture
def drawn(monkeypatch):
    """Every value that was randomized."""
    original, values = RandomizedResponse.randomize, []

    def randomize(device, given, **named):
        values.extend(np.asarray(given).tolist())
        return original(device, given, **named)

    monkeypatch.setattr(RandomizedResponse, "randomize", randomize)
    return values


def collected(service):
    """Steps of both parties until everything is acknowledged: answers of the shuffler get lost."""
    shuffler, analyzer = service.shuffler_worker(upkeep=0), service.analyzer_worker()
    while shuffler.step():
        pass
    for _ in range(200):
        analyzer.step()
        shuffler.step()
        found = service.shuffler.store.batches.listed(service.survey.id)
        if found and {info.state for info in found} == {"PURGED"}:
            return len(found)
    pytest.fail("the batches do not come through")


@pytest.mark.parametrize("people", [40, pytest.param(1000, marks=pytest.mark.slow)])
def test_answers_are_lost_and_all_reports_arrive_once(drawn, people):
    """Every person has a device; a tenth of them is started again and asks for the same again."""
    network = Lossy(LOST)
    survey = telling(people, minimum=people, target=people)
    with quick_directory() as directory, live(directory, front=network, **survey) as service:

        def answer(person):
            client = service.client(f"{person}")
            outcome = client.report(service.survey, f"answer {person}")
            if person % 10 == 0:
                again = service.client(f"{person}")
                repeated = again.report(service.survey, f"answer {person}")
                assert repeated.again
            return outcome

        with ThreadPoolExecutor(4) as pool:
            outcomes = [*pool.map(answer, range(people))]
        assert all(isinstance(outcome, Sent) for outcome in outcomes)
        assert sorted(drawn) == [*range(people)]
        assert collected(service) == 1
        assert (counted(service) == 1).all()
        share = network.lost / (network.lost + network.passed)
        assert abs(share - LOST / 100) < 5.5 * np.sqrt(0.21 / (network.lost + network.passed))


def test_many_at_once_over_the_same_network(drawn):
    people = 200
    network = Lossy(LOST, seed=2)
    survey = telling(people, minimum=people, target=people)
    with quick_directory() as directory, live(directory, front=network, **survey) as service:
        sent = service.client("one for all").report_many(
            service.survey, np.arange(people), job="all"
        )
        assert (sent.delivered, sent.finished) == (people, True)
        assert len(drawn) == people
        assert collected(service) == 1
        assert (counted(service) == 1).all()


def test_two_workers_and_two_analyzers_as_processes(forks):
    """All four want everything; every batch is mixed by one and published by one."""
    people, each = 120, 4
    survey = telling(people, minimum=5, target=10)
    with quick_directory() as directory, live(directory, clock=system_clock, **survey) as service:
        reports = seal_many(service.survey, np.arange(people), service.keys())
        bodies = [reports[start : start + each] for start in range(0, people, each)]
        with Workers(service, forks) as workers:
            for body in bodies[: len(bodies) // 2]:
                assert service.post(body).status_code == 202
            workers.go()
            for body in bodies[len(bodies) // 2 :]:  # while they work
                assert service.post(body).status_code == 202
            mixed, published = workers.finish()
        check_once(service, people, mixed, published)


def check_once(service, people, mixed, published):
    listed = service.shuffler.store.batches.listed(service.survey.id)
    names = sorted(info.id for info in listed)
    assert sorted(chain(*mixed)) == names
    assert sorted(chain(*published)) == names
    ledger = service.analyzer.store.ledger.entries(service.survey.id)
    assert sorted(row["batch"] for row in ledger) == names
    # Nobody is lost or counted twice; less than a batch still waits for others.
    assert service.shuffler.store.reports.tallies(service.survey.id)["opened"] == people
    total = counted(service)
    assert set(total.tolist()) <= {0.0, 1.0}
    assert total.sum() == sum(info.reports for info in listed) > people - 10
