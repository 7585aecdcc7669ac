"""The shuffler over real HTTP, with its real store, real keys and reports really sealed."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from hashlib import sha256

import pytest

from factories import DAY
from http_kit import BYTES, client_of, refusal_of, serving
from running_kit import wait_for
from service_site import START
from shoal.sealing import KeyPair
from shoal.service.batch_file import BatchFile
from shoal.service.keyring import KeyList
from shoal.service.shuffler.reports import Reports
from shoal.service.survey import Survey

REQUEST = "0123456789abcdef" * 2
OTHER = "f" * 32


@pytest.fixture
def client(shuffler):
    with serving(shuffler.app()) as url, client_of(url) as found:
        yield found


def kept(shuffler):
    """All reports that the store has, whatever became of them."""
    shuffler.work()
    counted = shuffler.store.reports.tallies(shuffler.survey.id)
    return counted.get("opened", 0), counted.get("rejected", 0)


# Keys and surveys


def test_keys_and_surveys_prove_themselves(shuffler, client):
    keys = client.get("/v1/keys")
    listed = KeyList.verified(
        keys.content, fingerprint=shuffler.survey.shuffler.fingerprint, now=START
    )
    assert listed.keys
    assert keys.headers["cache-control"] == "public, max-age=86400"
    assert client.get("/v1/keys", headers={"User-Agent": "other"}).content == keys.content
    found = client.get(shuffler.path)
    assert found.headers["content-type"] == "application/json"
    assert Survey.from_bytes(found.content) == shuffler.survey
    assert sha256(found.content).hexdigest() == str(shuffler.survey.id)


@pytest.mark.parametrize("name", ["ab" * 32, "AB" * 32, "x", "%00", "a" * 63])
def test_unknown_surveys(client, name):
    assert refusal_of(client.get(f"/v1/surveys/{name}")) == (404, "unknown_survey")
    sent = client.post(f"/v1/surveys/{name}/reports", content=b"x", headers=BYTES)
    assert refusal_of(sent) == (404, "unknown_survey")


# Reports


def test_new_and_repeated_reports_are_answered_alike(shuffler, client):
    reports = shuffler.reports(6)
    fresh = shuffler.post(client, reports)
    again = shuffler.post(client, reports)
    mixed = shuffler.post(client, reports[:3] + shuffler.reports(3))
    twice = shuffler.post(client, reports[:1] * 6)

    def all_but_the_time(answer):
        headers = [item for item in answer.headers.raw if item[0].lower() != b"date"]
        return answer.status_code, headers, answer.content

    assert all_but_the_time(fresh) == all_but_the_time(again)
    assert all_but_the_time(fresh) == all_but_the_time(mixed) == all_but_the_time(twice)
    assert kept(shuffler) == (9, 0)


def test_unknown_keys_are_refused_one_by_one(shuffler, client):
    good = shuffler.reports(3)
    stranger = shuffler.reports(1, shuffler=KeyPair.generate(number=77).public)
    other = bytes([9]) + good[0][1:]
    answer = shuffler.post(client, [good[0], *stranger, good[1], other, good[2]])
    assert answer.status_code == 202
    document = answer.json()
    assert document["reports"] == 5
    assert sorted((item["index"], item["reason"]) for item in document["refused"]) == [
        (1, "unknown_key"),
        (3, "unknown_version"),
    ]
    assert kept(shuffler) == (3, 0)
    assert ("refused_reports", 1, "unknown_key") in shuffler.observed


@pytest.mark.parametrize(("moment", "words"), [(-2 * DAY, "not begun"), (31 * DAY, "over")])
def test_a_survey_that_is_not_open_takes_nothing(shuffler, client, moment, words):
    report = shuffler.reports(1)
    shuffler.clock.advance(moment)
    answer = shuffler.post(client, report)
    assert refusal_of(answer) == (403, "survey_closed")
    assert words in answer.json()["detail"]


def test_wrong_methods_types_and_paths(shuffler, client):
    path = f"{shuffler.path}/reports"
    wrong = client.get(path)
    assert refusal_of(wrong) == (405, "wrong_method")
    assert wrong.headers["allow"] == "POST"
    assert refusal_of(client.delete("/v1/keys")) == (405, "wrong_method")
    assert refusal_of(client.post(path, content=b"x")) == (415, "wrong_media_type")
    assert refusal_of(client.post(path, json={})) == (415, "wrong_media_type")
    assert refusal_of(client.get("/v2/keys")) == (404, "no_such_path")
    assert refusal_of(client.get("/v1/keys/")) == (404, "no_such_path")
    head = client.head("/v1/keys")
    assert head.status_code == 200
    assert head.content == b""
    assert int(head.headers["content-length"]) == len(client.get("/v1/keys").content)


# Durability and the end


def test_many_single_reports_share_commits(shuffler, monkeypatch):
    groups = []
    original = Reports.receive

    def counted(store, arrivals):
        if not groups:  # the first is slow, and everybody else comes meanwhile
            wait_for(lambda: ("queue", 1.0, "") in shuffler.observed)
        groups.append(len(arrivals))
        return original(store, arrivals)

    looks = []
    monkeypatch.setattr(shuffler.keyring, "check_secret", looks.append)
    monkeypatch.setattr(Reports, "receive", counted)
    reports = shuffler.reports(40)
    with (
        serving(shuffler.app(waiting_requests=16)) as url,
        client_of(url) as client,
        ThreadPoolExecutor(16) as people,
    ):
        answers = list(people.map(partial(shuffler.post, client), reports))
    assert {answer.status_code for answer in answers} == {202}
    assert sum(groups) == 40
    assert max(groups) >= 8
    assert len(looks) <= len(groups) + 1  # one for all that are committed together
    assert kept(shuffler) == (40, 0)


def test_a_full_line_sends_people_away_until_there_is_room(shuffler, monkeypatch):
    go_on, entered = threading.Event(), threading.Event()
    original = Reports.receive

    def held_up(store, arrivals):
        entered.set()
        assert go_on.wait(60)
        return original(store, arrivals)

    monkeypatch.setattr(Reports, "receive", held_up)
    with (
        serving(shuffler.app(waiting_requests=2)) as url,
        client_of(url) as client,
        ThreadPoolExecutor(2) as people,
    ):
        first = people.submit(shuffler.post, client, shuffler.reports(1))
        assert entered.wait(60)
        second = people.submit(shuffler.post, client, shuffler.reports(1))
        wait_for(lambda: ("queue", 1.0, "") in shuffler.observed)
        report = shuffler.reports(1)
        turned_away = shuffler.post(client, report)
        assert refusal_of(turned_away) == (503, "busy")
        assert turned_away.headers["retry-after"]
        go_on.set()
        assert {first.result().status_code, second.result().status_code} == {202}
        assert shuffler.post(client, report).status_code == 202


# Batches


@pytest.fixture
def batch(shuffler, client):
    """A batch of 40 people, ready to be collected."""
    assert shuffler.post(client, shuffler.reports(40)).status_code == 202
    shuffler.work()
    (found,) = client.get(f"{shuffler.path}/batches", headers=shuffler.token()).json()["batches"]
    return found


def test_what_cannot_be_asked_of_batches(shuffler, client, batch):
    token = shuffler.token()
    path = f"{shuffler.path}/batches"
    assert refusal_of(client.get(f"{path}?after=x", headers=token)) == (400, "malformed")
    assert client.get(f"{path}?after={'f' * 32}", headers=token).json() == {"batches": []}
    assert refusal_of(client.get(f"{path}/{OTHER}", headers=token)) == (400, "malformed")
    asked = token | {"Shoal-Request": REQUEST}
    assert refusal_of(client.get(f"{path}/{OTHER}", headers=asked)) == (404, "unknown_batch")
    assert refusal_of(client.get(f"{path}/x", headers=asked)) == (404, "unknown_batch")
    early = client.post(
        f"{path}/{batch['batch']}/ack",
        headers=token,
        json={"request": REQUEST, "digest": batch["digest"]},
    )
    assert refusal_of(early) == (425, "not_ready")
    assert early.headers["retry-after"]
    for body in ({}, {"request": REQUEST}, {"request": "x", "digest": batch["digest"]}, []):
        answer = client.post(f"{path}/{batch['batch']}/ack", headers=token, json=body)
        assert refusal_of(answer) == (400, "malformed")


def test_what_a_batch_is_sent_with(shuffler, client, batch):
    """Nothing by which a cache, or who asks again, could tell one answer from another."""
    assert (batch["reports"], batch["records"], batch["state"]) == (40, 40, "SHUFFLED")
    assert batch["closed"] % 3600 == 0
    asked = shuffler.token() | {"Shoal-Request": REQUEST}
    found = client.get(f"{shuffler.path}/batches/{batch['batch']}", headers=asked)
    assert len(found.content) == batch["bytes"] == int(found.headers["content-length"])
    assert sha256(found.content).hexdigest() == batch["digest"]
    assert not {"last-modified", "etag"} & set(found.headers)
    read = BatchFile.read(found.content)
    assert (read.header.reports, read.header.key) == (40, shuffler.analyzer.public.number)


def test_looking_at_the_head_releases_nothing(shuffler, client, batch):
    path = f"{shuffler.path}/batches/{batch['batch']}"
    token = shuffler.token()
    assert client.head(path, headers=token | {"Shoal-Request": OTHER}).status_code == 405
    assert client.get(path, headers=token | {"Shoal-Request": REQUEST}).status_code == 200


def test_tokens_open_what_they_are_for_and_nothing_else(shuffler, client, batch):
    other = replace(shuffler.survey, name="other")
    shuffler.store.surveys.add(other)
    good, stranger = shuffler.token(), shuffler.token(other.id)
    short = shuffler.token(lifetime=60)
    shuffler.clock.advance(61)
    request = {"Shoal-Request": REQUEST}
    batch_path = f"{shuffler.path}/batches/{batch['batch']}"
    calls = [
        lambda headers: client.get(f"{shuffler.path}/batches", headers=headers),
        lambda headers: client.get(batch_path, headers=headers | request),
        lambda headers: client.post(f"{batch_path}/ack", headers=headers, json={}),
    ]
    for call in calls:
        for headers in (
            {},
            {"Authorization": "Bearer"},
            {"Authorization": "Basic YTpi"},
            {"Authorization": "Bearer wrong"},
            {"Authorization": "Bearer " + "x" * 5000},
            {"Authorization": good["Authorization"] + "0"},
            short,
        ):
            answer = call(headers)
            assert refusal_of(answer) == (401, "not_authorized")
            assert answer.headers["www-authenticate"].startswith('Bearer realm="shoal"')
        refused = call(stranger)
        assert refusal_of(refused) == (403, "forbidden")
        assert "insufficient_scope" in refused.headers["www-authenticate"]
    # A token for another survey does not reach this one's batch through its own path either.
    through = f"/v1/surveys/{other.id}/batches/{batch['batch']}"
    assert refusal_of(client.get(through, headers=stranger | request)) == (404, "unknown_batch")
    assert client.get(f"{shuffler.path}/batches", headers=good).status_code == 200


def test_progress_of_a_small_crowd_is_not_told(shuffler, client):
    shuffler.post(client, shuffler.reports(11))
    shuffler.work()
    found = client.get(f"{shuffler.path}/progress").json()
    as_of = found.pop("as_of")
    assert found == {"share": None, "minimum": 20, "closes_in": None}
    assert as_of % 60 == 0


# The document, and what is left behind
