"""Reports arrive once, whatever is lost on the way, and are drawn once."""

from __future__ import annotations

import asyncio
import inspect
from collections import Counter
from dataclasses import replace

import httpx
import numpy as np
import pytest

from client_kit import (
    ANSWERS,
    DAY,
    NOW,
    QUICK,
    Services,
    client_of,
    make_survey,
    many_answers,
)
from shoal.mechanisms.dummies import UniformDummies
from shoal.service.client import (
    Abstained,
    AsyncClient,
    Client,
    DeliveryError,
    Policy,
    Queued,
    Sent,
    Settings,
    SurveyRefusedError,
)
from shoal.service.client.client import BaseClient
from shoal.service.client.protocol import NEEDS_PROXY


def test_three_lines_are_enough(tmp_path, clock):
    services = Services(make_survey())
    with client_of(services, tmp_path, clock) as client:
        assert client.report(services.survey, "red") == Sent(
            survey=str(services.survey.id), occasion=1
        )
    assert len(services.messages) == 1
    assert [len(body) for body in services.bodies] == [services.wire.report_bytes]


def test_a_third_of_everything_is_lost_and_all_arrive_once(tmp_path, clock, drawn):
    services = Services(many_answers(reports_per_person=1), seed=7)
    services.lost_requests = services.lost_responses = 0.3
    for person in range(25):
        with client_of(services, tmp_path / str(person), clock) as client:
            assert isinstance(client.report(services.survey, "answer 3"), Sent)
            assert isinstance(client.report(services.survey, "answer 4"), Sent)
    assert drawn == [1] * 25  # not once more for any retry, nor for asking again
    assert len(services.messages) == 25  # no duplicates
    assert len(services.bodies) > 35
    assert len(set(services.bodies)) == 25  # every retry has the same bytes


def test_a_queued_report_is_flushed_with_the_same_bytes(tmp_path, clock, drawn):
    services = Services(many_answers())
    services.lost_responses = 1.0
    once = Settings(tries=2)
    with client_of(services, tmp_path, clock, settings=once) as client:
        queued = client.report(services.survey, "answer 1")
        assert isinstance(queued, Queued)
        assert queued.due > clock()
        assert "ReadError" in queued.reason
        again = client.report(services.survey, "answer 2")
        assert isinstance(again, Queued)
        assert again.again
    with client_of(services, tmp_path, clock) as client:
        assert client.flush() == client.flush(everything=False)  # not due yet
        services.lost_responses = 0.0
        clock.advance(2 * DAY)
        flushed = client.flush()
        assert (flushed.sent, flushed.waiting, flushed.given_up) == (1, 0, 0)
        assert client.flush().sent == 0
        assert client.report(services.survey, "answer 5").again
    assert drawn == [1]
    assert len(services.messages) == 1
    assert len(set(services.bodies)) == 1
    assert len(services.bodies) == 3


def test_flush_can_hurry(tmp_path, clock):
    services = Services(make_survey())
    with client_of(services, tmp_path, clock, settings=Settings(delay=3600)) as client:
        assert isinstance(client.report(services.survey, "red"), Queued)
        assert services.requests == []
        assert client.flush().sent == 0
        assert client.flush(everything=True).sent == 1


PROXIED = Settings(tries=1, proxy="http://127.0.0.1:1")  # nobody is there


def arrived(client):
    """The same, as if its proxy passed on what it gets."""
    client._http._mounts.clear()
    return client


@pytest.mark.parametrize("delay", [0.0, 3600.0])
def test_what_was_made_with_a_proxy_never_leaves_without(tmp_path, clock, delay):
    services = Services(make_survey())
    with client_of(services, tmp_path, clock, settings=replace(PROXIED, delay=delay)) as client:
        assert isinstance(client.report(services.survey, "red"), Queued)
        several = client.report_many(services.survey, ["red", "blue"], job="both")
        assert several.waiting == 2
    clock.advance(DAY)
    with client_of(services, tmp_path, clock) as client:
        flushed = client.flush(everything=True)
        assert (flushed.sent, flushed.waiting, flushed.given_up) == (0, 3, 0)
        assert flushed.reasons == (NEEDS_PROXY,)
        assert client.report(services.survey, "red").reason == NEEDS_PROXY
        assert client.report_many(services.survey, ["red", "blue"], job="both").reason
        assert services.requests == []  # not even for keys
    with arrived(client_of(services, tmp_path, clock, settings=PROXIED)) as client:
        assert client.flush(everything=True).sent == 3
    assert len(services.messages) == 3


def test_what_was_tried_with_a_proxy_never_leaves_without(tmp_path, clock):
    services = Services(make_survey())
    with client_of(services, tmp_path, clock, settings=Settings(delay=3600)) as client:
        client.report(services.survey, "red")
    with client_of(services, tmp_path, clock, settings=PROXIED) as client:
        assert client.flush(everything=True).waiting == 1
    with client_of(services, tmp_path, clock) as client:
        assert client.flush(everything=True).reasons == (NEEDS_PROXY,)
    assert services.requests == []


def test_the_delay_is_drawn_within_its_bounds(tmp_path, clock):
    services = Services(make_survey())
    dues = set()
    for person in range(20):
        with client_of(
            services, tmp_path / str(person), clock, settings=Settings(delay=1e6)
        ) as client:
            dues.add(client.report(services.survey, "red").due - NOW)
    assert len(dues) > 15
    assert all(0 <= due <= 1e6 for due in dues)
    assert services.requests == []


def test_every_occasion_is_drawn_once_and_the_next_is_refused(tmp_path, clock, drawn):
    services = Services(make_survey(reports_per_person=2, epsilon=2.0))
    with client_of(services, tmp_path, clock) as client:
        for occasion in (1, 2, 2, 1):
            assert isinstance(client.report(services.survey, "red", occasion=occasion), Sent)
        asked = len(services.requests)
        with pytest.raises(SurveyRefusedError, match=r"accepts 2 reports .* number 3.*nothing was"):
            client.report(services.survey, "red", occasion=3)
        assert len(services.requests) == asked
        (row,) = client.spent()
        assert (row.occasions, row.allowed) == (2, 2)
    assert drawn == [1, 1]
    assert len(services.messages) == 2


def test_a_new_key_seals_the_same_message(tmp_path, clock, drawn):
    services = Services(many_answers())
    path = f"/v1/surveys/{services.survey.id}/reports"
    services.answers["shuffler", path] = _unreachable
    with client_of(services, tmp_path, clock, settings=Settings(tries=1)) as client:
        assert isinstance(client.report(services.survey, "answer 7"), Queued)
    # The lists are kept for an hour; the keys are gone a minute later.
    services.answers.clear()
    services.shuffler.rotate()
    services.analyzer.rotate()
    clock.advance(60)
    with client_of(services, tmp_path, clock) as client:
        assert isinstance(client.report(services.survey, "answer 8"), Sent)
    assert drawn == [1]
    first, second = services.bodies
    assert (first[1], second[1]) == (0, 1)  # the numbers of the keys
    assert services.opened(first) == services.opened(second) == services.messages[0]


def test_an_outdated_key_is_noticed_before_the_first_try(tmp_path, clock):
    services = Services(many_answers())
    services.answers["shuffler", f"/v1/surveys/{services.survey.id}/reports"] = _unreachable
    with client_of(services, tmp_path, clock, settings=Settings(tries=1)) as client:
        assert isinstance(client.report(services.survey, "answer 7"), Queued)
        services.answers.clear()
        services.analyzer.rotate(forget=False)
        clock.advance(2 * DAY)
        assert client.flush().sent == 1
        (body,) = services.bodies
        inner, _ = services.wire.open_report(body, services.shuffler.pair(0))
        assert inner == 1


def _unreachable(request):
    raise httpx.ConnectError("no route", request=request)


def test_a_report_that_may_have_arrived_is_never_sealed_anew(tmp_path, clock):
    services = Services(many_answers())
    services.lost_responses = 1.0
    with client_of(services, tmp_path, clock, settings=Settings(tries=2)) as client:
        assert isinstance(client.report(services.survey, "answer 7"), Queued)
        assert len(services.messages) == 1  # it has arrived, and nobody knows
        services.lost_responses = 0.0
        services.shuffler.rotate()
        clock.advance(2 * DAY)
        flushed = client.flush()
        assert (flushed.sent, flushed.given_up) == (0, 1)
        assert "twice" in flushed.reasons[0]
        with pytest.raises(DeliveryError, match="may have arrived"):
            client.report(services.survey, "answer 7")
    assert len(set(services.bodies)) == 1


def test_a_shuffler_that_knows_no_key_gets_no_second_sealing(tmp_path, clock):
    services = Services(make_survey())
    path = f"/v1/surveys/{services.survey.id}/reports"
    refusal = {"reports": 1, "refused": [{"index": 0, "reason": "unknown_key"}]}
    services.answers["shuffler", path] = httpx.Response(202, json=refusal)
    with client_of(services, tmp_path, clock, settings=Settings(tries=4)) as client:
        assert "unknown_key" in client.report(services.survey, "red").reason
    assert len({request.content for request in services.posts()}) == 1


@pytest.mark.parametrize(
    ("status", "kept"), [(400, False), (413, False), (422, False), (429, True), (503, True)]
)
def test_what_a_status_means(tmp_path, clock, status, kept):
    services = Services(make_survey())
    path = f"/v1/surveys/{services.survey.id}/reports"
    services.answers["shuffler", path] = httpx.Response(
        status, json={"detail": "do this\x1b[2J"}, headers={"retry-after": "500"}
    )
    with client_of(services, tmp_path, clock, settings=Settings(patience=5)) as client:
        if kept:
            queued = client.report(services.survey, "red")
            assert queued.reason == f"do this[2J (status {status})"
            assert queued.due >= NOW + 500
        else:
            with pytest.raises(DeliveryError, match="do this"):
                client.report(services.survey, "red")
        assert len(services.posts()) == 1
        services.answers.clear()
        assert client.flush(everything=True).sent == int(kept)


@pytest.mark.parametrize(
    "body",
    [
        b"<html>Please log in</html>",
        b'{"reports": 2, "refused": []}',
        b'{"reports": 1, "refused": [{"index": 1, "reason": "unknown_key"}]}',
        b'{"reports": 1, "refused": 0}',
        b"[" * 100_000,
        b"x" * (5 << 20),
    ],
)
def test_an_answer_that_no_shuffler_gives_is_not_believed(tmp_path, clock, body):
    services = Services(make_survey())
    path = f"/v1/surveys/{services.survey.id}/reports"
    services.answers["shuffler", path] = httpx.Response(202, content=body)
    with client_of(services, tmp_path, clock, settings=Settings(tries=1)) as client:
        assert isinstance(client.report(services.survey, "red"), Queued)
        services.answers.clear()
        assert client.flush(everything=True).sent == 1


def test_waits_grow_with_jitter_and_stay_below_the_longest():
    settings = Settings(wait=2, longest_wait=100)
    waits = [[settings.wait_after(tries) for _ in range(50)] for tries in range(1, 12)]
    for tries, drawn in enumerate(waits):
        longest = min(100, 2 * 2**tries)
        assert all(longest / 2 <= wait <= longest for wait in drawn)
        assert len(set(drawn)) > 40
    assert settings.wait_after(1, asked=50) == 50


def test_what_waits_when_the_survey_ends_is_wiped(tmp_path, clock):
    services = Services(make_survey())
    services.lost_requests = 1.0
    with client_of(services, tmp_path, clock, settings=Settings(tries=1)) as client:
        client.report(services.survey, "red")
        services.lost_requests = 0.0
        clock.advance(40 * DAY)
        for hours in (0, 1, 22):
            clock.advance(hours * 3600)
            flushed = client.flush()
            assert (flushed.given_up, flushed.waiting) == (0, 1)
            assert "the survey is over by this machine's clock" in flushed.reasons[0]
        clock.advance(3600)
        flushed = client.flush()
        assert (flushed.given_up, flushed.waiting) == (1, 0)
        assert "over" in flushed.reasons[0]
        assert client.flush().given_up == 0
        assert not services.messages


def test_a_clock_that_is_wrong_for_a_while_wipes_nothing(tmp_path, clock):
    services = Services(make_survey())
    services.lost_requests = 1.0
    start = clock()
    with client_of(services, tmp_path, clock, settings=Settings(tries=1)) as client:
        client.report(services.survey, "red")
        # Open in between, and then back to the day on which it ends indeed.
        ends = services.survey.not_after
        for moment in (start + 4000 * DAY, start, start + 4002 * DAY, ends + 1):
            clock.now = moment
            assert client.flush(everything=True).waiting == 1
        clock.advance(DAY - 1)
        assert client.flush(everything=True).waiting == 1
        services.lost_requests = 0.0
        clock.now = ends
        assert client.flush(everything=True).sent == 1


def test_what_was_put_off_while_the_clock_was_fast_waits_as_long_as_was_meant(tmp_path, clock):
    services = Services(make_survey(reports_per_person=3, epsilon=2.0))
    services.lost_requests = 1.0
    clock.advance(20 * DAY)
    with client_of(services, tmp_path, clock, settings=Settings(tries=1)) as client:
        for occasion in (1, 2):
            client.report(services.survey, "red", occasion=occasion)
    # Whoever opens it later need not know for how long a report was to wait.
    week = Settings(tries=1, delay=7 * DAY)
    with client_of(services, tmp_path, clock, settings=week) as client:
        put_off = client.report(services.survey, "red", occasion=3).due - clock()
    assert DAY < put_off <= 7 * DAY
    clock.advance(-20 * DAY)
    services.lost_requests = 0.0
    with client_of(services, tmp_path, clock, settings=Settings(tries=1)) as client:
        assert client.report(services.survey, "red", occasion=3).due == clock() + put_off
        clock.advance(3600)
        assert isinstance(client.report(services.survey, "red"), Sent)
        assert (client.flush().sent, client.flush().sent) == (1, 0)
        clock.advance(put_off - 3601)
        assert client.flush().sent == 0
        clock.advance(1)
        assert client.flush().sent == 1


def test_the_coin_is_tossed_once(tmp_path, clock, drawn):
    services = Services(make_survey(participation=0.5))
    outcomes = []
    for person in range(30):
        with client_of(services, tmp_path / str(person), clock) as client:
            outcomes.append(type(client.report(services.survey, "red")))
            assert isinstance(client.report(services.survey, "red"), outcomes[-1])
    counted = Counter(outcomes)
    assert counted[Sent] + counted[Abstained] == 30
    assert len(counted) == 2  # but for a chance of 2e-9
    assert len(services.messages) == counted[Sent] == len(drawn)


def test_several_messages_travel_in_one_report(tmp_path, clock):
    device = UniformDummies.calibrated(k=4, n=400, epsilon=1.0, delta=1e-6)
    services = Services(make_survey(device=device))
    policy = Policy(local_epsilon=float("inf"))
    with client_of(services, tmp_path, clock, policy=policy) as client:
        client.report(services.survey, "green")
    (message,) = services.messages
    rows = np.frombuffer(message, dtype=np.uint8).reshape(1, -1)
    assert 1 in device.decode(rows).messages


def test_sync_and_async_do_the_same(tmp_path, clock, drawn):
    services = Services(many_answers(), seed=3)
    services.lost_requests = services.lost_responses = 0.3

    async def answered():
        client = AsyncClient(
            tmp_path / "async", transport=services.transport, clock=clock, settings=QUICK
        )
        slept = []

        async def sleep(seconds):
            slept.append(seconds)

        client._sleep = sleep
        async with client:
            first = await client.report(services.survey, "answer 2")
            assert await client.survey(services.survey) == services.survey
            many = await client.report_many(services.survey, ["answer 1"] * 30, job="a file")
            return first, many, await client.flush(), client.spent().to_dict()

    awaited = asyncio.run(answered())
    with client_of(services, tmp_path / "sync", clock) as client:
        called = (
            client.report(services.survey, "answer 2"),
            client.report_many(services.survey, ["answer 1"] * 30, job="a file"),
            client.flush(),
            client.spent().to_dict(),
        )
    assert awaited == called
    assert drawn == [1, 30, 1, 30]
    assert len(services.messages) == 62


def test_sync_and_async_have_the_same_methods():
    for name in dir(Client):
        if name.startswith("_") or name in dir(BaseClient):
            continue
        ours, theirs = (
            inspect.signature(getattr(kind, name)).parameters for kind in (Client, AsyncClient)
        )
        assert [str(one) for one in ours.values()] == [str(one) for one in theirs.values()]
        assert inspect.iscoroutinefunction(getattr(AsyncClient, name))
        assert "Exchange" not in str(inspect.signature(getattr(Client, name)))


def test_requests_say_nothing_about_the_device(tmp_path, clock, monkeypatch):
    monkeypatch.setenv("HTTPS_PROXY", "http://127.0.0.1:9")
    (tmp_path / ".netrc").write_text("machine shuffler.example login me password secret\n")
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("NETRC", str(tmp_path / ".netrc"))
    services = Services(make_survey(reports_per_person=2, epsilon=2.0))
    path = f"/v1/surveys/{services.survey.id}/reports"

    def with_cookie(request):
        reply = services.post(request)
        reply.headers["set-cookie"] = "who=this-device; Path=/"
        return reply

    services.answers["shuffler", path] = with_cookie
    with client_of(services, tmp_path / "outbox", clock) as client:
        for occasion in (1, 2):
            client.report(services.survey, ANSWERS[0], occasion=occasion)
    known = {"host", "accept", "accept-encoding", "connection", "user-agent"}
    for request in services.requests:
        assert set(request.headers) <= known | {"content-length", "content-type"}
        assert request.headers["user-agent"] == "shoal/1"
    assert len(services.posts()) == 2


def test_a_redirect_is_not_followed(tmp_path, clock):
    services = Services(make_survey())
    path = f"/v1/surveys/{services.survey.id}/reports"
    headers = {"location": "https://elsewhere.example/"}
    services.answers["shuffler", path] = httpx.Response(307, headers=headers)
    with client_of(services, tmp_path, clock, settings=Settings(tries=2)) as client:
        assert isinstance(client.report(services.survey, "red"), Queued)
    assert {request.url.host for request in services.posts()} == {"shuffler.example"}
