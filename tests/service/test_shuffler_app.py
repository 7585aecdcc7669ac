"""The shuffler over real HTTP, with its real store, real keys and reports really sealed."""

from __future__ import annotations

import asyncio
import json
import logging
import socket
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from hashlib import sha256

import httpx
import pytest
from starlette.routing import Route

from http_kit import BYTES, serving, talk
from running_kit import wait_for
from shoal.sealing import KeyPair
from shoal.service.batch_file import BatchFile
from shoal.service.errors import StoreUnavailableError
from shoal.service.keyring import KeyList
from shoal.service.shuffler.reports import Reports
from shoal.service.shuffler.store import ShufflerStore
from shoal.service.survey import Survey
from shuffler_kit import DAY, NOW, client_of, made, post, survey_of

REQUEST = "0123456789abcdef" * 2
OTHER = "f" * 32


@pytest.fixture
def client(shuffler):
    with serving(shuffler.app()) as url, client_of(url) as found:
        yield found


def kind(answer):
    assert answer.headers["content-type"] == "application/problem+json"
    return answer.status_code, answer.json()["type"].rpartition(":")[2]


def kept(shuffler):
    """All reports that the store has, whatever became of them."""
    shuffler.work()
    counted = shuffler.store.reports.tallies(shuffler.survey.id)
    return counted.get("opened", 0), counted.get("rejected", 0)


# Keys and surveys


def test_keys_and_surveys_prove_themselves(shuffler, client):
    keys = client.get("/v1/keys")
    listed = KeyList.verified(
        keys.content, fingerprint=shuffler.survey.shuffler.fingerprint, now=NOW
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
    assert kind(client.get(f"/v1/surveys/{name}")) == (404, "unknown_survey")
    sent = client.post(f"/v1/surveys/{name}/reports", content=b"x", headers=BYTES)
    assert kind(sent) == (404, "unknown_survey")


# Reports


def test_one_and_many_reports_are_kept(shuffler, client):
    reports = shuffler.reports(8)
    for sent in (reports[:1], reports[1:]):
        answer = post(client, shuffler, sent)
        assert answer.status_code == 202
        assert answer.json() == {"reports": len(sent), "refused": []}
    assert kept(shuffler) == (8, 0)


def test_new_and_repeated_reports_are_answered_alike(shuffler, client):
    reports = shuffler.reports(6)
    fresh = post(client, shuffler, reports)
    again = post(client, shuffler, reports)
    mixed = post(client, shuffler, reports[:3] + shuffler.reports(3))
    twice = post(client, shuffler, reports[:1] * 6)

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
    answer = post(client, shuffler, [good[0], *stranger, good[1], other, good[2]])
    assert answer.status_code == 202
    document = answer.json()
    assert document["reports"] == 5
    assert sorted((item["index"], item["reason"]) for item in document["refused"]) == [
        (1, "unknown_key"),
        (3, "unknown_version"),
    ]
    assert kept(shuffler) == (3, 0)
    assert ("refused_reports", 1, "unknown_key") in shuffler.observed


def test_keys_come_and_go_under_the_running_app(shuffler, client):
    before = shuffler.reports(2)
    assert post(client, shuffler, before[:1]).json()["refused"] == []
    shuffler.keyring.rotate()
    shuffler.clock.advance(2 * 3600)
    shuffler.keyring.tick()
    after = shuffler.reports(2)
    assert after[0][1] != before[0][1]
    assert post(client, shuffler, [*before[1:], *after]).json()["refused"] == []
    assert kept(shuffler) == (4, 0)


def test_a_secret_that_is_gone_is_noticed_with_the_next_report(shuffler, client):
    first, second = shuffler.reports(2)
    assert post(client, shuffler, first).status_code == 202
    path = shuffler.keyring.secret_path(first[1])
    elsewhere = path.rename(path.with_name("elsewhere"))
    assert kind(post(client, shuffler, second)) == (503, "unavailable")
    elsewhere.rename(path)
    assert post(client, shuffler, second).status_code == 202
    assert kept(shuffler) == (2, 0)


def test_a_body_that_is_no_number_of_reports(shuffler, client):
    report = shuffler.reports(1)[0]
    for body in (b"", report[:-1], report + b"x"):
        answer = post(client, shuffler, body)
        assert kind(answer) == (400, "wrong_length")
        assert answer.json()["report_bytes"] == len(report)
    assert kept(shuffler) == (0, 0)


@pytest.mark.parametrize(("moment", "words"), [(-2 * DAY, "not begun"), (31 * DAY, "over")])
def test_a_survey_that_is_not_open_takes_nothing(shuffler, client, moment, words):
    report = shuffler.reports(1)
    shuffler.clock.advance(moment)
    answer = post(client, shuffler, report)
    assert kind(answer) == (403, "survey_closed")
    assert words in answer.json()["detail"]


def test_limits_of_one_request(tmp_path):
    shuffler = made(tmp_path)
    with serving(shuffler.app(reports=3, body_bytes=2000)) as url, client_of(url) as client:
        assert kind(post(client, shuffler, shuffler.forged(4))) == (413, "too_large")
        assert kind(post(client, shuffler, bytes(2001))) == (413, "too_large")
        assert post(client, shuffler, shuffler.forged(3)).status_code == 202


def test_wrong_methods_types_and_paths(shuffler, client):
    path = f"{shuffler.path}/reports"
    wrong = client.get(path)
    assert kind(wrong) == (405, "wrong_method")
    assert wrong.headers["allow"] == "POST"
    assert kind(client.delete("/v1/keys")) == (405, "wrong_method")
    assert kind(client.post(path, content=b"x")) == (415, "wrong_media_type")
    assert kind(client.post(path, json={})) == (415, "wrong_media_type")
    assert kind(client.get("/v2/keys")) == (404, "no_such_path")
    assert kind(client.get("/v1/keys/")) == (404, "no_such_path")
    head = client.head("/v1/keys")
    assert head.status_code == 200
    assert head.content == b""
    assert int(head.headers["content-length"]) == len(client.get("/v1/keys").content)


def test_a_client_that_hangs_up_in_the_middle_leaves_nothing(shuffler):
    with serving(shuffler.app(body_seconds=2.0)) as url, client_of(url) as client:
        body = b"".join(shuffler.reports(2))
        head = (
            f"POST {shuffler.path}/reports HTTP/1.1\r\nHost: x\r\n"
            f"Content-Type: application/octet-stream\r\nContent-Length: {len(body)}\r\n\r\n"
        ).encode()
        assert talk(url, head + body[:-1]).startswith(b"HTTP/1.1 408")
        assert post(client, shuffler, shuffler.reports(1)).status_code == 202
    assert kept(shuffler) == (1, 0)


def test_too_much_from_one_address_is_refused_but_not_from_this_machine(shuffler):
    async def ask(address, count):
        transport = httpx.ASGITransport(app, client=(address, 1))
        async with httpx.AsyncClient(transport=transport, base_url="http://test") as client:
            return [await post(client, shuffler, shuffler.forged(2)) for _ in range(count)]

    app = shuffler.app(address_rate=0.5, address_burst=5)
    answers = asyncio.run(ask("203.0.113.7", 4))
    assert [answer.status_code for answer in answers] == [202, 202, 429, 429]
    assert 1 <= int(answers[-1].headers["retry-after"]) <= 6
    assert all(answer.status_code == 202 for answer in asyncio.run(ask("127.0.0.1", 5)))


# Durability and the end


def test_a_store_that_is_down_acknowledges_nothing(shuffler, client, monkeypatch):
    reports = shuffler.reports(2)

    def down(_store, _arrivals):
        raise StoreUnavailableError("writing", "/var/private/place is full")

    with monkeypatch.context() as broken:
        broken.setattr(Reports, "receive", down)
        answer = post(client, shuffler, reports)
    assert kind(answer) == (503, "unavailable")
    assert answer.headers["retry-after"]
    assert "private" not in answer.text
    assert post(client, shuffler, reports).status_code == 202
    assert kept(shuffler) == (2, 0)


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
        answers = list(people.map(lambda report: post(client, shuffler, report), reports))
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
        first = people.submit(post, client, shuffler, shuffler.reports(1))
        assert entered.wait(60)
        second = people.submit(post, client, shuffler, shuffler.reports(1))
        wait_for(lambda: ("queue", 1.0, "") in shuffler.observed)
        report = shuffler.reports(1)
        turned_away = post(client, shuffler, report)
        assert kind(turned_away) == (503, "busy")
        assert turned_away.headers["retry-after"]
        go_on.set()
        assert {first.result().status_code, second.result().status_code} == {202}
        assert post(client, shuffler, report).status_code == 202


def test_the_end_waits_for_requests_in_flight_and_closes_the_segment(shuffler, monkeypatch):
    go_on, entered, closed = threading.Event(), threading.Event(), []
    receive, close = Reports.receive, ShufflerStore.close

    def held_up(store, arrivals):
        entered.set()
        assert go_on.wait(60)
        return receive(store, arrivals)

    def noted(store):
        closed.append(True)
        return close(store)

    monkeypatch.setattr(Reports, "receive", held_up)
    monkeypatch.setattr(ShufflerStore, "close", noted)
    with ThreadPoolExecutor(1) as people:
        with serving(shuffler.app()) as url:
            client = client_of(url)
            waiting = people.submit(post, client, shuffler, shuffler.reports(3))
            assert entered.wait(60)
            threading.Timer(0.3, go_on.set).start()
        assert waiting.result().status_code == 202
        client.close()
    assert closed == [True]
    assert kept(shuffler) == (3, 0)


# Batches


@pytest.fixture
def batch(shuffler, client):
    """A batch of 40 people, ready to be collected."""
    assert post(client, shuffler, shuffler.reports(40)).status_code == 202
    shuffler.work()
    (found,) = client.get(f"{shuffler.path}/batches", headers=shuffler.token()).json()["batches"]
    return found


def test_a_batch_is_collected_once_acknowledged_and_gone(shuffler, client, batch):
    assert (batch["reports"], batch["records"], batch["state"]) == (40, 40, "SHUFFLED")
    assert batch["closed"] % 3600 == 0
    token = shuffler.token()
    path = f"{shuffler.path}/batches/{batch['batch']}"
    asked = token | {"Shoal-Request": REQUEST}
    first = client.get(path, headers=asked)
    assert first.status_code == 200
    assert client.get(path, headers=asked).content == first.content
    assert sha256(first.content).hexdigest() == batch["digest"]
    assert len(first.content) == batch["bytes"] == int(first.headers["content-length"])
    assert not {"last-modified", "etag"} & set(first.headers)
    read = BatchFile.read(first.content)
    assert (read.header.reports, read.header.key) == (40, shuffler.analyzer.public.number)
    records = shuffler.wire.sections[0].split(bytes(read.body))
    for record in records:
        assert shuffler.wire.sections[0].open_record(record, shuffler.analyzer)
    assert kind(client.get(path, headers=token | {"Shoal-Request": OTHER})) == (
        409,
        "already_collected",
    )
    ack = {"request": REQUEST, "digest": batch["digest"]}
    wrong = client.post(f"{path}/ack", headers=token, json=ack | {"digest": "0" * 64})
    assert kind(wrong) == (409, "wrong_digest")
    stranger = client.post(f"{path}/ack", headers=token, json=ack | {"request": OTHER})
    assert kind(stranger) == (409, "already_collected")
    for _ in range(2):
        done = client.post(f"{path}/ack", headers=token, json=ack)
        assert done.json() == {"batch": batch["batch"], "digest": batch["digest"]}
    shuffler.work()
    assert kind(client.get(path, headers=asked)) == (409, "already_collected")
    (gone,) = client.get(f"{shuffler.path}/batches", headers=token).json()["batches"]
    assert gone["state"] == "PURGED"


def test_one_more_person_never_shows_by_collecting_again(shuffler, client, batch):
    """What is released later has none of the records released before."""
    token = shuffler.token()
    first = client.get(
        f"{shuffler.path}/batches/{batch['batch']}", headers=token | {"Shoal-Request": REQUEST}
    )
    assert post(client, shuffler, shuffler.reports(1)).status_code == 202
    shuffler.clock.advance(2 * 3600)
    shuffler.work()
    listed = client.get(f"{shuffler.path}/batches", headers=token).json()["batches"]
    assert [item["batch"] for item in listed] == [batch["batch"]]
    assert post(client, shuffler, shuffler.reports(39)).status_code == 202
    shuffler.work()
    listed = client.get(f"{shuffler.path}/batches", headers=token).json()["batches"]
    (other,) = [item["batch"] for item in listed if item["batch"] != batch["batch"]]
    second = client.get(
        f"{shuffler.path}/batches/{other}", headers=token | {"Shoal-Request": OTHER}
    )
    old, new = (
        set(shuffler.wire.sections[0].split(bytes(BatchFile.read(answer.content).body)))
        for answer in (first, second)
    )
    assert len(old) == len(new) == 40
    assert not old & new


def test_what_cannot_be_asked_of_batches(shuffler, client, batch):
    token = shuffler.token()
    path = f"{shuffler.path}/batches"
    assert kind(client.get(f"{path}?after=x", headers=token)) == (400, "malformed")
    assert client.get(f"{path}?after={'f' * 32}", headers=token).json() == {"batches": []}
    assert kind(client.get(f"{path}/{OTHER}", headers=token)) == (400, "malformed")
    asked = token | {"Shoal-Request": REQUEST}
    assert kind(client.get(f"{path}/{OTHER}", headers=asked)) == (404, "unknown_batch")
    assert kind(client.get(f"{path}/x", headers=asked)) == (404, "unknown_batch")
    early = client.post(
        f"{path}/{batch['batch']}/ack",
        headers=token,
        json={"request": REQUEST, "digest": batch["digest"]},
    )
    assert kind(early) == (425, "not_ready")
    assert early.headers["retry-after"]
    for body in ({}, {"request": REQUEST}, {"request": "x", "digest": batch["digest"]}, []):
        answer = client.post(f"{path}/{batch['batch']}/ack", headers=token, json=body)
        assert kind(answer) == (400, "malformed")


def test_looking_at_the_head_releases_nothing(shuffler, client, batch):
    path = f"{shuffler.path}/batches/{batch['batch']}"
    token = shuffler.token()
    assert client.head(path, headers=token | {"Shoal-Request": OTHER}).status_code == 405
    assert client.get(path, headers=token | {"Shoal-Request": REQUEST}).status_code == 200


def test_tokens_open_what_they_are_for_and_nothing_else(shuffler, client, batch):
    other = survey_of(shuffler.survey.shuffler.fingerprint, name="other")
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
            assert kind(answer) == (401, "not_authorized")
            assert answer.headers["www-authenticate"].startswith('Bearer realm="shoal"')
        refused = call(stranger)
        assert kind(refused) == (403, "forbidden")
        assert "insufficient_scope" in refused.headers["www-authenticate"]
    # A token for another survey does not reach this one's batch through its own path either.
    through = f"/v1/surveys/{other.id}/batches/{batch['batch']}"
    assert kind(client.get(through, headers=stranger | request)) == (404, "unknown_batch")
    assert client.get(f"{shuffler.path}/batches", headers=good).status_code == 200


def test_progress_of_a_small_crowd_is_not_told(shuffler, client):
    post(client, shuffler, shuffler.reports(11))
    shuffler.work()
    found = client.get(f"{shuffler.path}/progress").json()
    as_of = found.pop("as_of")
    assert found == {"share": None, "minimum": 20, "closes_in": None}
    assert as_of % 60 == 0


def test_silent_uploads_hold_nobody_up(tmp_path):
    shuffler = made(tmp_path)
    head = (
        f"POST {shuffler.path}/reports HTTP/1.1\r\nHost: x\r\n"
        "Content-Type: application/octet-stream\r\nContent-Length: 1000\r\n\r\n"
    ).encode()
    with serving(shuffler.app(waiting_requests=3)) as url, client_of(url) as client:
        place = (httpx.URL(url).host, httpx.URL(url).port)
        with ExitStack() as stack:
            for _ in range(6):
                stack.enter_context(socket.create_connection(place)).sendall(head)
            time.sleep(0.2)
            assert post(client, shuffler, shuffler.reports(1)).status_code == 202


def test_the_whole_way_with_postgresql(tmp_path, postgres_url):
    shuffler = made(tmp_path, url=postgres_url)
    with serving(shuffler.app()) as url, client_of(url) as client:
        reports = shuffler.reports(40)
        for part in (reports[:15], reports[5:], reports):
            answer = post(client, shuffler, part)
            assert (answer.status_code, answer.json()["refused"]) == (202, [])
        assert kept(shuffler) == (40, 0)
        token = shuffler.token()
        (batch,) = client.get(f"{shuffler.path}/batches", headers=token).json()["batches"]
        path = f"{shuffler.path}/batches/{batch['batch']}"
        found = client.get(path, headers=token | {"Shoal-Request": REQUEST})
        assert sha256(found.content).hexdigest() == batch["digest"]
        ack = {"request": REQUEST, "digest": batch["digest"]}
        assert client.post(f"{path}/ack", headers=token, json=ack).status_code == 200
        shuffler.work()
        (gone,) = client.get(f"{shuffler.path}/batches", headers=token).json()["batches"]
        assert gone["state"] == "PURGED"
    shuffler.close()


# The document, and what is left behind


def test_the_document_has_the_routes_and_the_routes_have_the_document(shuffler, client):
    document = client.get("/openapi.json").json()
    described = {
        (path, method.upper()) for path, methods in document["paths"].items() for method in methods
    }
    routed = {
        (route.path, method)
        for route in shuffler.app().routes
        if isinstance(route, Route) and route.path != "/openapi.json"
        for method in route.methods - {"HEAD"}
    }
    assert described == routed
    assert document["openapi"] == "3.1.0"


def test_nothing_of_a_request_is_kept_but_its_reports(tmp_path, caplog):
    caplog.set_level(logging.DEBUG)
    mark = "marked-by-the-test"
    marked = BYTES | {
        "User-Agent": mark,
        "Cookie": f"id={mark}",
        "X-Forwarded-For": "203.0.113.99",
        "Referer": f"https://{mark}.example",
        "Accept-Language": mark,
    }
    shuffler = made(tmp_path)
    with serving(shuffler.app()) as url, client_of(url) as client:
        path = f"{shuffler.path}/reports?from={mark}"
        bodies = [b"".join(shuffler.reports(40)), shuffler.forged(3), b"x", mark.encode()]
        for body in bodies:
            client.post(path, content=body, headers=marked)
        client.post(f"/v1/surveys/{mark}/reports", content=b"x", headers=marked)
        client.get(f"{shuffler.path}/batches", headers=marked | {"Authorization": f"Bearer {mark}"})
        shuffler.work()
    written = [path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()]
    assert len(written) > 3
    # What the client beside us logs is its own matter.
    logged = [
        f"{record.getMessage()} {vars(record)}"
        for record in caplog.records
        if not record.name.startswith("http")
    ]
    assert any("uvicorn" in line for line in logged)
    told = json.dumps([shuffler.observed, logged]).encode()
    for content in [*written, told]:
        for trace in (mark.encode(), b"203.0.113.99", b"127.0.0.1"):
            assert trace not in content
