"""Everything arrives once: over a network that loses answers, and with several at work on it."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from itertools import chain
from pathlib import Path

import numpy as np
import pytest

from http_kit import Lossy
from service_site import Analyzer, Shuffler, live, telling, until_idle
from shoal.mechanisms.response import RandomizedResponse
from shoal.service.analyzer.source import HttpSource
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
def test_answers_are_lost_and_all_reports_arrive_once(tmp_path, drawn, people):
    """Every person has a device; a tenth of them is started again and asks for the same again."""
    network = Lossy(LOST)
    survey = telling(people, minimum=people, target=people)
    with live(tmp_path, front=network, **survey) as service:

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
        assert (service.counted() == 1).all()
        share = network.lost / (network.lost + network.passed)
        assert abs(share - LOST / 100) < 5.5 * np.sqrt(0.21 / (network.lost + network.passed))


def test_many_at_once_over_the_same_network(tmp_path, drawn):
    people = 200
    network = Lossy(LOST, seed=2)
    survey = telling(people, minimum=people, target=people)
    with live(tmp_path, front=network, **survey) as service:
        sent = service.client("one for all").report_many(
            service.survey, np.arange(people), job="all"
        )
        assert (sent.delivered, sent.finished) == (people, True)
        assert len(drawn) == people
        assert collected(service) == 1
        assert (service.counted() == 1).all()


class Workers:
    """Two workers of either party as processes, which work when they are told to.

    They are forked from one that has imported everything and done nothing. Signals are files.
    """

    ROLES = ("shuffler", "shuffler", "analyzer", "analyzer")

    def __init__(self, service, forks):
        self._signals = service.directory / "signals"
        self._signals.mkdir()
        place = {"directory": str(service.directory), "token": service.token}
        asked = [place | {"number": each, "role": role} for each, role in enumerate(self.ROLES)]
        self._pool = ThreadPoolExecutor(1)
        self._ended = self._pool.submit(forks.run, "service.test_system_delivery.work", *asked)
        for number in range(len(self.ROLES)):
            self._wait(f"ready {number}")

    def _wait(self, name):
        while not (self._signals / name).exists():
            assert not self._ended.done(), "a worker died"
            time.sleep(0.01)

    def go(self):
        (self._signals / "go").touch()

    def finish(self):
        """Let the shuffler's finish, then the analyzer's; the batches that each of them did."""
        (self._signals / "stop shuffler").touch()
        for number in (0, 1):
            self._wait(f"done {number}")
        (self._signals / "stop analyzer").touch()
        ended = self._ended.result(60)
        assert [status for status, _ in ended] == [0] * len(self.ROLES)
        return [[batches for _, batches in ended[start : start + 2]] for start in (0, 2)]

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for name in ("go", "stop shuffler", "stop analyzer"):
            (self._signals / name).touch()
        self._pool.shutdown()


def mix(half, stop, done):
    """Open and mix until told to stop, and then whatever is left."""
    worker = half.worker(reports=7, upkeep=60)
    original = half.store.batches.finish

    def finish(batch, digest):
        original(batch, digest)
        done.append(batch.header.batch)

    half.store.batches.finish = finish
    stopped = False
    while not stopped:
        stopped = stop.exists()
        until_idle(worker)
        time.sleep(0.01)


def collect(half, stop, done, token):
    def source(survey):
        return HttpSource(survey.shuffler.url, survey.id, lambda: token)

    with half.worker(source) as worker:
        stopped = False
        while not stopped:
            stopped = stop.exists()
            while any(passes := worker.collect().values()):
                done += [batch for passed in passes for batch in passed.published]
            time.sleep(0.01)


def work(directory, token, number, role):
    """What a worker does; the batches that it did."""
    signals, done = Path(directory) / "signals", []
    half = {"shuffler": Shuffler, "analyzer": Analyzer}[role](Path(directory) / role, system_clock)
    (signals / f"ready {number}").touch()
    while not (signals / "go").exists():
        time.sleep(0.005)
    stop = signals / f"stop {role}"
    if role == "shuffler":
        mix(half, stop, done)
    else:
        collect(half, stop, done, token)
    half.close()
    (signals / f"done {number}").touch()
    return done


def test_two_workers_and_two_analyzers_as_processes(tmp_path, forks):
    """All four want everything; every batch is mixed by one and published by one."""
    people, each = 120, 4
    survey = telling(people, minimum=5, target=10)
    with live(tmp_path, clock=system_clock, **survey) as service:
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
    total = service.counted()
    assert set(total.tolist()) <= {0.0, 1.0}
    assert total.sum() == sum(info.reports for info in listed) > people - 10
