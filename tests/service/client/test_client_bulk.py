"""Many people at once: one drawing each, chunks that fit a request, a job that goes on."""

from __future__ import annotations

import math
import pickle
import sqlite3
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from dataclasses import replace
from multiprocessing import get_context

import httpx
import numpy as np
import pytest

from client_kit import Services, client_of, make_survey, many_answers
from shoal.errors import InvalidArgumentError
from shoal.mechanisms.dummies import UniformDummies
from shoal.mechanisms.grid import Duchi
from shoal.randomness import simulated
from shoal.service.client import (
    DeliveryError,
    Keys,
    Policy,
    Settings,
    SurveyRefusedError,
    protocol,
    seal_many,
)
from shoal.service.client.outbox import FILE
from shoal.service.client.protocol import MOST_BYTES, MOST_REPORTS, people_a_chunk
from shoal.service.wire import Wire
from shoal.values import Batch


@pytest.fixture
def small(monkeypatch):
    """Chunks of a hundred people."""
    monkeypatch.setattr(protocol, "people_a_chunk", lambda *_: 100)


@pytest.mark.usefixtures("small")
def test_everybody_arrives_once_through_losses(tmp_path, clock, drawn):
    services = Services(make_survey(), seed=4)
    services.lost_requests = services.lost_responses = 0.3
    answers = ["red"] * 600 + ["blue"] * 350
    told = []
    with client_of(services, tmp_path, clock) as client:
        found = client.report_many(
            services.survey, answers, job="a", progress=lambda done, of: told.append((done, of))
        )
        assert found.finished
        assert (found.asked, found.taking_part, found.delivered) == (950, 950, 950)
        again = client.report_many(services.survey, answers, job="a")
        assert again == replace(found, again=True)
        (row,) = client.spent()
        assert (row.occasions, row.waiting) == (1, 0)
    assert drawn == [100] * 9 + [50]
    assert told == [(min(950, done), 950) for done in range(100, 1001, 100)]
    assert len(services.messages) == 950
    assert len(set(services.bodies)) == 10
    device = services.survey.device
    rows = np.frombuffer(b"".join(services.messages), dtype=np.uint8).reshape(-1, 1)
    estimate = device.estimate(Batch(device.decode(rows)))
    assert np.all(np.abs(estimate.counts - [600, 0, 350, 0]) < 6 * 950 * estimate.standard_errors)


@pytest.mark.usefixtures("small")
def test_an_interrupted_job_goes_on(tmp_path, clock, drawn):
    services = Services(many_answers())
    codes = np.arange(300) % 1000
    path = f"/v1/surveys/{services.survey.id}/reports"
    once = Settings(tries=1)
    with client_of(services, tmp_path, clock, settings=once) as client:
        services.answers["shuffler", path] = httpx.Response(503)
        found = client.report_many(services.survey, codes, job="a")
        assert (found.finished, found.asked, found.waiting) == (False, 100, 100)
        assert "503" in found.reason
    services.answers.clear()
    clock.advance(7200)
    with client_of(services, tmp_path, clock, settings=once) as client:
        found = client.report_many(services.survey, codes, job="a")
        assert found.finished
    assert drawn == [100] * 3
    assert len(services.messages) == 300


def test_a_job_has_its_people(tmp_path, clock):
    services = Services(make_survey())
    with client_of(services, tmp_path, clock) as client:
        client.report_many(services.survey, ["red"] * 10, job="a")
        with pytest.raises(SurveyRefusedError, match=r"began with 10 people and now has 11"):
            client.report_many(services.survey, ["red"] * 11, job="a")
        assert client.report_many(services.survey, ["red"] * 11, job="b").delivered == 11
    assert len(services.messages) == 21


def stored_jobs(directory):
    database = sqlite3.connect(directory / FILE)
    found = database.execute("SELECT people, chunk, secret, digest FROM jobs").fetchall()
    database.close()
    return found


@pytest.mark.usefixtures("small")
def test_a_job_goes_on_with_its_own_people_only(tmp_path, clock, drawn, monkeypatch):
    """Other rows, another order or other chunks would draw somebody twice."""
    services = Services(many_answers())
    codes = np.arange(300)
    path = f"/v1/surveys/{services.survey.id}/reports"
    services.answers["shuffler", path] = httpx.Response(503)
    with client_of(services, tmp_path, clock, settings=Settings(tries=1)) as client:
        client.report_many(services.survey, codes, job="a")
    ((people, chunk, secret, digest),) = stored_jobs(tmp_path)
    assert (people, chunk, len(secret), len(digest)) == (300, 100, 32, 32)
    services.answers.clear()
    clock.advance(7200)
    monkeypatch.setattr(protocol, "people_a_chunk", lambda *_: 70)  # of a later version
    with client_of(services, tmp_path, clock) as client:
        for others in (codes[::-1], np.append(codes[1:], 999)):
            with pytest.raises(SurveyRefusedError, match="began with other answers, or in another"):
                client.report_many(services.survey, others, job="a")
        assert drawn == [100]
        found = client.report_many(services.survey, codes, job="a")
        assert (found.finished, found.again) == (True, False)
        assert stored_jobs(tmp_path) == [(300, 100, None, None)]  # of no use any more
        assert client.report_many(services.survey, codes[::-1], job="a").again
    assert drawn == [100] * 3
    assert len(services.messages) == 300


@pytest.mark.usefixtures("small")
def test_a_job_that_was_forgotten_does_not_go_on(tmp_path, clock, drawn):
    services = Services(many_answers())
    path = f"/v1/surveys/{services.survey.id}/reports"
    services.answers["shuffler", path] = httpx.Response(503)
    with client_of(services, tmp_path, clock, settings=Settings(tries=1)) as client:
        client.report_many(services.survey, np.arange(300), job="a")
        client.forget(services.survey)
        assert stored_jobs(tmp_path) == [(300, 100, None, None)]
        with pytest.raises(
            SurveyRefusedError, match="forgotten after 100 of 300 people were randomized"
        ):
            client.report_many(services.survey, np.arange(300), job="a")
    assert drawn == [100]


def test_a_job_has_a_name(tmp_path, clock):
    services = Services(make_survey())
    with client_of(services, tmp_path, clock) as client:
        client.report(services.survey, "red")
        with pytest.raises(InvalidArgumentError, match="a name for these people"):
            client.report_many(services.survey, ["red"] * 10, job="")


def test_part_of_a_request_may_be_refused(tmp_path, clock, drawn):
    services = Services(many_answers())
    path = f"/v1/surveys/{services.survey.id}/reports"

    def some(request):
        """Every third report is taken, every third needs a new key, every third is refused."""
        size = services.wire.report_bytes
        services.bodies.append(request.content)
        services.answers.pop(("shuffler", path))
        reports = [request.content[i : i + size] for i in range(0, len(request.content), size)]
        services.take(b"".join(reports[::3]))
        services.shuffler.rotate()
        refused = [
            {"index": i, "reason": "unknown_key" if i % 3 == 1 else "odd"}
            for i in range(len(reports))
            if i % 3
        ]
        return httpx.Response(202, json={"reports": len(reports), "refused": refused})

    services.answers["shuffler", path] = some
    with client_of(services, tmp_path, clock) as client:
        found = client.report_many(services.survey, np.arange(30), job="a")
        assert (found.taking_part, found.delivered, found.waiting) == (30, 20, 0)
    assert drawn == [30]
    assert len(services.messages) == 20
    first, second = services.bodies
    size = services.wire.report_bytes
    before = [services.opened(first[i * size : (i + 1) * size]) for i in range(1, 30, 3)]
    after = [services.opened(second[i * size : (i + 1) * size]) for i in range(10)]
    assert before == after  # the same messages under the new key


def test_a_request_refused_for_good_ends_the_job(tmp_path, clock):
    services = Services(make_survey())
    path = f"/v1/surveys/{services.survey.id}/reports"
    refused = [{"index": i, "reason": "odd"} for i in range(3)]
    services.answers["shuffler", path] = httpx.Response(
        202, json={"reports": 3, "refused": refused}
    )
    with client_of(services, tmp_path, clock) as client, pytest.raises(DeliveryError, match="odd"):
        client.report_many(services.survey, ["red"] * 3, job="a")


def test_coins_are_tossed_for_everybody(tmp_path, clock, drawn):
    services = Services(make_survey(participation=0.5))
    with client_of(services, tmp_path, clock) as client:
        found = client.report_many(services.survey, np.zeros(1000, dtype=np.int64), job="a")
    # 500 expected, a standard deviation of 16.
    assert 400 <= found.taking_part <= 600
    assert found.delivered == found.taking_part == len(services.messages) == sum(drawn)
    assert (found.asked, found.finished) == (1000, True)


@pytest.mark.parametrize(
    "pools",
    [
        lambda: ThreadPoolExecutor(2),
        pytest.param(
            lambda: ProcessPoolExecutor(2, mp_context=get_context("spawn")),
            marks=pytest.mark.slow,
        ),
    ],
    ids=["threads", "processes"],
)
def test_sealing_many_is_sealing_each(pools):
    survey = make_survey()
    services = Services(survey)
    keys = Keys(services.analyzer.pair(0).public, services.shuffler.pair(0).public)
    values = np.arange(600) % 4  # two pieces
    with pools() as pool:
        spread = seal_many(survey, values, keys, randomness=simulated(5), pool=pool)
    alone = seal_many(survey, values, keys, randomness=simulated(5))
    expected = survey.device.encode(survey.device.randomize(values, randomness=simulated(5)))
    for sealed in (spread, alone):
        assert len({len(report) for report in sealed}) == 1
        opened = [services.opened(report) for report in sealed]
        assert b"".join(opened) == expected.tobytes()
    assert set(spread).isdisjoint(alone)
    # What goes to another process arrives there.
    assert pickle.loads(pickle.dumps((services.wire, keys))) == (services.wire, keys)  # noqa: S301


def test_several_messages_each_keep_their_owner(tmp_path, clock):
    device = UniformDummies.calibrated(k=4, n=400, epsilon=1.0, delta=1e-6)
    services = Services(make_survey(device=device))
    policy = Policy(local_epsilon=math.inf)
    answers = np.arange(40) % 4
    with client_of(services, tmp_path, clock, policy=policy) as client:
        assert client.report_many(services.survey, answers, job="a").delivered == 40
    for answer, message in zip(answers, services.messages, strict=True):
        found = device.decode(np.frombuffer(message, dtype=np.uint8).reshape(1, -1))
        assert answer in found.messages


def test_numbers_outside_the_bounds_are_refused_before_anybody_is_drawn(
    tmp_path, clock, monkeypatch
):
    seen = []
    original = Duchi.randomize

    def spied(self, values, *, randomness=None):
        seen.extend(values.tolist())
        return original(self, values, randomness=randomness)

    monkeypatch.setattr(Duchi, "randomize", spied)
    services = Services(make_survey(device=Duchi(low=0.0, high=10.0, epsilon=1.0), answers=()))
    with client_of(services, tmp_path, clock) as client:
        for outside in (np.array([4.5, 99.0]), np.array([-3, 4]), ["2.5", 11]):
            with pytest.raises(InvalidArgumentError, match="a number from 0 to 10"):
                client.report_many(services.survey, outside, job="a")
        assert seen == []
        client.report_many(services.survey, np.array([0.0, 4.5, 10.0]), job="a")
        client.report_many(services.survey, ["2.5", 10], job="b")
    assert seen == [0.0, 4.5, 10.0, 2.5, 10.0]


@pytest.mark.parametrize(
    "answers", [np.array([4]), np.array([-1]), np.array([0.5]), np.array([[1]]), ["red", "pink"]]
)
def test_what_is_no_answer_stops_the_job_before_it_begins(tmp_path, clock, answers):
    services = Services(make_survey())
    with client_of(services, tmp_path, clock) as client:
        with pytest.raises(InvalidArgumentError, match="not shown"):
            client.report_many(services.survey, answers, job="a")
        assert len(client.spent()) == 0
    assert services.requests == []


def test_chunks_fit_a_request():
    assert people_a_chunk(Wire.of(make_survey())) == MOST_REPORTS
    device = UniformDummies.calibrated(k=50, n=400, epsilon=1.0, delta=1e-6)
    answers = tuple(map(str, range(50)))
    wide = Wire.of(make_survey(device=device, answers=answers))
    assert people_a_chunk(wide) * wide.report_bytes <= MOST_BYTES
