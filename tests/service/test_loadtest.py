"""The load test: what it sends, and that no server looks better in it than it is."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from contextlib import contextmanager, suppress
from functools import partial

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import command_kit
from repository import ROOT, benchmark, environment
from service_site import live
from shoal.errors import InvalidArgumentError
from shoal.mechanisms.grid import Duchi
from shoal.service.clock import system_clock
from shoal.service.http.server import listen

loadtest = benchmark("loadtest")
KEPT = b'{"reports":1,"refused":[]}'


# What is sent


@settings(deadline=None, derandomize=True, max_examples=60)
@given(st.integers(1, 400), st.floats(0, 1), st.floats(0, 0.999))
def test_every_stretch_has_its_share_of_each_kind(requests, forged, of_the_rest):
    replayed = (1 - forged) * of_the_rest
    if replayed and forged + replayed >= 1:
        return
    mix = loadtest.Mix(requests=requests, forged=forged, replayed=replayed)
    kinds = list(mix.kinds())
    assert len(kinds) == requests
    assert kinds.count("fresh") == mix.fresh
    for start in range(0, requests, 50):
        part = Counter(kinds[start : start + 50])
        length = len(kinds[start : start + 50])
        assert abs(part["forged"] - forged * length) <= 2
        assert abs(part["replayed"] - replayed * length) <= 3


def test_what_is_replayed_was_sent_before():
    mix = loadtest.Mix(requests=500, forged=0.2, replayed=0.5)
    fresh = [b"%d" % number for number in range(mix.fresh)]
    forged = iter(range(1000))
    seen = []
    for request in mix.drawn(fresh, lambda: b"f%d" % next(forged)):
        if request.kind == "replayed":
            assert request.body in seen
        else:
            assert request.body not in seen
        seen.append(request.body)
    assert [body for body in seen if seen.count(body) == 1]
    assert set(fresh) <= set(seen)


@pytest.mark.parametrize("wrong", [{"forged": 1.1}, {"replayed": -1}, {"replayed": 1.0}])
def test_shares_are_checked(wrong):
    with pytest.raises(InvalidArgumentError):
        loadtest.Mix(requests=1, **wrong)


# How it is measured


class Server:
    """Answers as it is told: ``behave`` gets a request's number, and the writer."""

    def __init__(self, behave):
        self._behave = behave
        self._tasks = []
        self._writers = []
        self.seen = 0

    def _accept(self, reader, writer):
        self._writers.append(writer)
        self._tasks.append(asyncio.create_task(self._serve(reader, writer)))

    async def _serve(self, reader, writer):
        try:
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                length = int(head.lower().partition(b"content-length: ")[2].split()[0])
                await reader.readexactly(length)
                self.seen += 1
                await self._behave(self.seen, writer)
        except (asyncio.IncompleteReadError, ConnectionError):
            writer.close()

    async def __aenter__(self):
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", 0)
        port = self._server.sockets[0].getsockname()[1]
        return f"http://127.0.0.1:{port}/v1/x/reports"

    async def __aexit__(self, *_):
        self._server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        for writer in self._writers:  # also of tasks that were never begun
            writer.close()
            with suppress(ConnectionError):
                await writer.wait_closed()


def answered(writer, status=202, body=KEPT, headers=()):
    lines = [f"HTTP/1.1 {status} X", f"Content-Length: {len(body)}", *headers, "", ""]
    writer.write("\r\n".join(lines).encode() + body)


def measured(behave, *, requests=40, rate=400.0, **load) -> loadtest.Measured:
    async def one():
        async with Server(behave) as url:
            mix = loadtest.Mix(requests=requests)
            sent = mix.drawn([b"x" * 10] * requests, bytes)
            asked = loadtest.Load(rate=rate, **({"connections": 4, "patience": 60.0} | load))
            return await loadtest.run(loadtest.Target.of(url, 10), sent, asked)

    return asyncio.run(one())


def test_who_is_due_while_the_server_hangs_waits_too():
    """One request takes half a second; with one connection, so do all that are due meanwhile."""

    async def behave(number, writer):
        if number == 10:
            await asyncio.sleep(0.5)
        answered(writer)

    found = measured(behave, requests=100, rate=200.0, connections=1)
    assert found.statuses == {"202": 100}
    waited = sum(seconds > 0.1 for seconds in found.seconds["fresh"])
    assert waited >= 60  # a generator that waits for answers would have seen one
    assert found.milliseconds()["p50"] > 50
    assert found.milliseconds()["max"] >= 500
    assert found.milliseconds("forged") is None


def test_nobody_answers_more_often_than_asked():
    async def behave(_number, writer):
        answered(writer)

    found = measured(behave, requests=3, rate=15.0)
    assert found.elapsed >= 3 / 15
    assert found.rate <= 15.0 * (1 + 1e-9)


def test_connections_are_kept_and_those_that_end_are_replaced():
    def connections(*headers):
        seen = set()

        async def behave(_number, writer):
            seen.add(writer)
            answered(writer, headers=headers)
            if headers:
                writer.close()

        found = measured(behave)
        assert found.statuses == {"202": 40}
        assert found.errors == 0
        return len(seen)

    assert connections() <= 4
    assert connections("Connection: close") == 40


def test_a_request_whose_connection_ends_is_lost():
    async def behave(number, writer):
        if number % 2:
            raise ConnectionError
        answered(writer)

    found = measured(behave)
    assert found.statuses == {"202": 20, "lost": 20}
    assert found.errors == 0.5


def test_who_is_never_answered_counts_with_the_time_that_was_waited(monkeypatch):
    passed, monotonic = [0.0], time.monotonic
    monkeypatch.setattr(time, "monotonic", lambda: monotonic() + passed[0])

    async def behave(number, writer):
        while number > 20:
            await asyncio.sleep(0.01)
            if number == 24:  # all four connections hang, and whoever came before has an answer
                passed[0] += 10.0
        answered(writer)

    found = measured(behave, rate=4000.0, patience=60.0)
    assert found.statuses == {"202": 20, "unanswered": 20}
    assert found.milliseconds()["max"] >= 60_000
    assert found.to_dict()["requests"] == 40


def test_refusals_are_told_by_their_reason():
    refused = json.dumps({"reports": 1, "refused": [{"index": 0, "reason": "unknown_key"}]})
    problem = json.dumps({"type": "urn:shoal:problem:too_many", "status": 429}).encode()

    async def behave(number, writer):
        if number <= 10:
            answered(writer, 429, problem, [f"Retry-After: {number}"])
        elif number <= 15:
            answered(writer, 502, b"<html>")
        else:
            answered(writer, 202, refused.replace(" ", "").encode())

    found = measured(behave, connections=1).to_dict()
    assert found["statuses"] == {"202": 25, "429": 10, "502": 5}
    assert found["refused_requests"] == {"too_many": 10, "unknown": 5}
    assert found["refused_reports"] == {"unknown_key": 25}
    assert found["longest_retry_after"] == 10
    assert found["errors"] == 15 / 40
    assert found["sent_late_milliseconds"]["p50"] >= 0


def test_what_is_no_answer_is_lost():
    async def behave(_number, writer):
        writer.write(b"hello, who is there?\r\n\r\n")

    assert measured(behave, requests=4).statuses == {"lost": 4}


def test_nobody_there():
    with listen("127.0.0.1", 0) as opened:
        url = f"http://127.0.0.1:{opened.getsockname()[1]}/"
    target = loadtest.Target.of(url, 1)
    with pytest.raises(loadtest.UnreachableError, match=r"cannot connect to 127\.0\.0\.1 port"):
        asyncio.run(loadtest.run(target, [], loadtest.Load(rate=1.0)))
    with pytest.raises(InvalidArgumentError):
        loadtest.Target.of("ftp://x/", 1)


def test_numbers_and_people_who_stay_away(tmp_path):
    """Made-up people answer any kind of survey; those who do not take part are replaced."""
    with live(tmp_path, device=Duchi(low=0.0, high=9.0, epsilon=1.0), answers=(), epsilon=1.01,
              participation=0.5) as site:  # fmt: skip
        reports = loadtest.Reports(site.survey, site.keys(), bulk=3)
        bodies = reports.fresh(5)
        assert [len(body) for body in bodies] == [reports.body_bytes] * 5
        assert site.post(bodies).json() == {"reports": 15, "refused": []}
        forge = reports.forger()
        assert forge() != forge()
        assert site.post(forge()).json() == {"reports": 3, "refused": []}


# The command


command = partial(command_kit.shoal, command=loadtest.app)


@contextmanager
def deployed(directory):
    """A shuffler of one's own, and the file of a survey for the test."""
    with live(directory, clock=system_clock, minimum=500, target=10_000) as site:
        file = directory / "test.json"
        file.write_bytes(site.survey.to_bytes())
        yield site, file


def test_everything_that_was_sent_is_told_and_counted(tmp_path):
    with deployed(tmp_path) as (site, file):
        options = "--rate 150 --seconds 1 --forged 0.2 --replays 0.4 --bulk 2 --connections 8"
        asked = (file, "--this-survey-is-for-testing", *options.split())
        found = command(*asked, "--json").json()
        assert found["requests"] == 150
        assert found["statuses"] == {"202": 150}
        assert found["broken"] == []
        assert set(found["milliseconds_by_kind"]) == {"fresh", "replayed", "forged"}
        assert found["asked"]["survey"] == str(site.survey.id)
        worker = site.shuffler_worker()
        while worker.step():
            pass
        assert site.shuffler.store.reports.tallies(site.survey.id) == {
            "opened": 120,
            "rejected": 60,
        }
        # The same for people, and limits that nobody could keep.
        done = command(*asked, "--p99", "0.001", "--errors", "0", "--seconds", "0.1")
        assert done.status == 1
        assert "sent before" in done.stdout
        assert "answers: 15 × 202" in done.stdout
        assert "limit broken: p99 is" in done.stdout
        assert "refused or lost" not in done.stdout


def test_ctrl_c_shows_what_was_measured(tmp_path, monkeypatch):
    with deployed(tmp_path) as (_, file):
        number = 0

        def interrupting(_measured, *_):
            nonlocal number
            number += 1
            if number == 20:
                os.kill(os.getpid(), signal.SIGINT)
            return noted(_measured, *_)

        noted = loadtest.Measured.answered
        monkeypatch.setattr(loadtest.Measured, "answered", interrupting)
        assert threading.current_thread() is threading.main_thread()
        done = command(
            file, "--this-survey-is-for-testing", "--seconds", 3600, "--rate", 200, "--forged", 1
        )
        assert done.status == 130
        assert "interrupted" in done.stdout
        assert "× 202" in done.stdout


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ([], "counted like people's"),
        (["--rate", "0"], "--rate 0"),
        (["--forged", "1.5"], "--forged 1.5"),
        (["--forged", "0.5", "--replays", "0.5"], "nothing to be sent a first time"),
        (["--errors", "2"], "--errors 2"),
        (["--rate", "1e6", "--seconds", "1e6"], "too many"),
    ],
)
def test_what_is_refused(tmp_path, words, told):
    consent = ["--this-survey-is-for-testing"] if words else []
    assert told in command(tmp_path / "none.json", *consent, *words).refusal()


def test_a_survey_that_cannot_be_tested_is_refused(tmp_path):
    with deployed(tmp_path) as (site, file):
        consent = (file, "--this-survey-is-for-testing")
        assert "at most" in command(*consent, "--bulk", 10_001).refusal()
        with listen("127.0.0.1", 0) as opened:
            nobody = f"http://127.0.0.1:{opened.getsockname()[1]}"
        assert "is the shuffler running there?" in command(*consent, "--to", nobody).refusal()
        assert command(*consent, "--to", f"{site.survey.analyzer.url}/").refusal()
    told = command(tmp_path / "none.json", "--this-survey-is-for-testing").refusal()
    assert "cannot read" in told


def test_the_script_runs_by_itself(tmp_path):
    script = [sys.executable, str(ROOT / "benchmarks" / "loadtest.py")]
    run = partial(subprocess.run, env=environment(), capture_output=True, text=True, check=False)
    shown = run([*script, "--help"])
    assert shown.returncode == 0
    assert "--this-survey-is-for-testing" in shown.stdout
    refused = run([*script, str(tmp_path / "none.json")])
    assert refused.returncode == 2
    assert "counted like people's" in refused.stderr
    assert len(refused.stderr.splitlines()) == 1
