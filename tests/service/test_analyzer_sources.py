"""Batches from a real shuffler over HTTP, and from one that answers nonsense."""

from __future__ import annotations

import json
from threading import Event, Thread
from types import SimpleNamespace

import httpx
import pytest

from http_kit import client_of, serving
from running_kit import wait_for
from service_site import Analyzer, DirectSource, Shuffler
from shoal.sealing import SurveyId
from shoal.service.analyzer.collection import Offer
from shoal.service.analyzer.source import LARGEST_ANSWER, HttpSource
from shoal.service.analyzer.tables import RECEIVED
from shoal.service.errors import (
    ConflictError,
    NotReadyError,
    StoreUnavailableError,
    UnknownError,
)
from shoal.service.http import outgoing
from shoal.service.http.outgoing import NoAnswerError

SURVEY = SurveyId(bytes(32))
BATCH, REQUEST, DIGEST = "11" * 16, "ab" * 16, "cd" * 32


@pytest.fixture
def parties(tmp_path):
    """An analyzer, and a whole shuffler with a closed batch of fifty people for it."""
    analyzer = Analyzer(tmp_path / "analyzer")
    name = analyzer.keyring.fingerprint
    shuffler = Shuffler.alone(tmp_path / "shuffler", analyzer=name)
    survey = shuffler.survey
    analyzer.store.surveys.add(survey)
    shuffler.analyzer = SimpleNamespace(public=analyzer.key(survey))
    yield analyzer, shuffler
    shuffler.close()
    analyzer.close()


def token_of(shuffler):
    token = shuffler.store.tokens.add("analyzer", shuffler.survey.id, 86_400)
    return lambda: token


def test_the_environment_says_nothing_about_whom_to_ask(parties, monkeypatch):
    """A proxy that somebody left in it would see the token, or keys of its own could be shown."""
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    _, shuffler = parties
    with serving(shuffler.app()) as url:
        assert HttpSource(url, shuffler.survey.id, token_of(shuffler)).offers() == []
        document = outgoing.whole(f"{url}/v1/keys", seconds=60, largest=1 << 16).content
        assert document == shuffler.keyring.document()


def test_nobody_there(parties):
    analyzer, shuffler = parties
    source = HttpSource("http://127.0.0.1:9", shuffler.survey.id, lambda: "token")
    done = analyzer.collect(shuffler.survey, source)
    assert done.problems[""].startswith("no answer from http://127.0.0.1:9")
    source.close()


def answering(reply):
    seen = []

    def handle(request):
        seen.append(request)
        return reply(request)

    source = HttpSource(
        "http://shuffler.example", SURVEY, lambda: "secret", transport=httpx.MockTransport(handle)
    )
    return source, seen


def listed(**changes):
    entry = {"batch": BATCH, "state": "SHUFFLED", "digest": DIGEST, "bytes": 100}
    return {k: v for k, v in (entry | changes).items() if v is not None}


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"nonsense",
        b"[]",
        b"{}",
        b'{"batches": 5}',
        b'{"batches": [5]}',
        b'{"batches": ["x"]}',
        b"[" * 100_000,
        json.dumps({"batches": [listed(batch="../../x")]}).encode(),
        json.dumps({"batches": [listed(digest=None)]}).encode(),
        json.dumps({"batches": [listed(bytes="many")]}).encode(),
        json.dumps({"batches": [listed(bytes=[1])]}).encode(),
        b" " * (LARGEST_ANSWER + 1),
    ],
)
def test_lists_that_are_none(body):
    source, _ = answering(lambda _request: httpx.Response(200, content=body))
    with pytest.raises(NoAnswerError, match="it sent"):
        source.offers()


def test_a_list_without_end_is_not_read_for_ever():
    page = json.dumps({"batches": [listed()]})
    source, seen = answering(lambda _request: httpx.Response(200, content=page))
    with pytest.raises(NoAnswerError, match="endless list"):
        source.offers()
    assert len(seen) == 2


def test_pages_are_put_together():
    def reply(request):
        after = request.url.params.get("after", "")
        names = [f"{place:032x}" for place in range(5)]
        page = [listed(batch=name) for name in names if name > after][:2]
        return httpx.Response(200, json={"batches": page})

    source, seen = answering(reply)
    assert [offer.batch for offer in source.offers()] == [f"{place:032x}" for place in range(5)]
    assert len(seen) == 4


def test_what_cannot_be_collected_is_not_offered():
    def reply(request):
        states = ["SHUFFLED", "RELEASED", "ACKED", "PURGED"]
        page = [listed(batch=f"{i:032x}", state=state) for i, state in enumerate(states)]
        return httpx.Response(200, json={"batches": [] if "after" in request.url.params else page})

    source, _ = answering(reply)
    offer = Offer(batch=f"{0:032x}", digest=DIGEST, size=100)
    assert source.offers()[0] == offer
    assert len(source.offers()) == 2


def test_the_token_goes_nowhere_else():
    elsewhere = httpx.Response(302, headers={"Location": "http://elsewhere.example/"})
    source, seen = answering(lambda _request: elsewhere)
    with pytest.raises(NoAnswerError, match="status 302"):
        source.offers()
    assert [request.url.host for request in seen] == ["shuffler.example"]


@pytest.mark.parametrize(
    ("kind", "status", "error"),
    [
        ("already_collected", 409, ConflictError),
        ("unknown_batch", 404, UnknownError),
        ("not_ready", 425, NotReadyError),
        ("unavailable", 503, NoAnswerError),
    ],
)
def test_problems_become_errors_again(kind, status, error):
    problem = {"type": f"urn:shoal:problem:{kind}", "detail": "wait\n a little", "status": status}
    headers = {"Retry-After": "7"}
    source, _ = answering(lambda _request: httpx.Response(status, json=problem, headers=headers))
    with pytest.raises(error) as caught, source.fetch(BATCH, REQUEST):
        pass
    assert getattr(caught.value, "retry_after", 7) == 7
    with pytest.raises(error):
        source.acknowledge(BATCH, REQUEST, DIGEST)


@pytest.mark.parametrize(
    ("kind", "status", "word"),
    [("not_authorized", 401, "token_not_valid"), ("forbidden", 403, "token_for_another_survey")],
)
def test_a_token_that_is_refused_says_whom_to_ask(kind, status, word):
    problem = {"type": f"urn:shoal:problem:{kind}", "detail": "not this one", "status": status}
    source, seen = answering(lambda _request: httpx.Response(status, json=problem))
    with pytest.raises(NoAnswerError, match=r"not this one.*ask the shuffler's") as caught:
        source.check()
    assert caught.value.word == word
    assert "later" not in str(caught.value)
    assert len(seen) == 1


def test_a_worker_collects_until_it_is_stopped(parties):
    analyzer, shuffler = parties
    with serving(shuffler.app()) as url, client_of(url) as client:
        sources = []

        def source(survey):
            sources.append(HttpSource(url, survey.id, token_of(shuffler)))
            return sources[-1]

        worker = analyzer.worker(source, interval=0.02)
        stop = Event()
        thread = Thread(target=worker.run, args=(stop,))
        thread.start()
        shuffler.post(client, shuffler.reports(50))
        shuffler.work()
        wait_for(lambda: analyzer.store.results.survey(shuffler.survey.id).batches)
        stop.set()
        thread.join(60)
        assert not thread.is_alive()
        worker.close()
        assert analyzer.store.results.survey(shuffler.survey.id).combined()["valid"] == 50
        copied = analyzer.store.key_lists.all()[shuffler.survey.shuffler.fingerprint]
        assert copied == client.get("/v1/keys").content
        assert len(sources) == 1
        sources[0].close()


def test_a_worker_goes_on_after_trouble(parties):
    analyzer, shuffler = parties
    calls = []

    def source(survey):
        calls.append(survey)
        if len(calls) < 3:
            raise StoreUnavailableError("writing", "disk full")
        stop.set()
        return DirectSource(shuffler.store, survey.id)

    stop = Event()
    worker = analyzer.worker(source, interval=0.001)
    worker.run(stop)
    worker.close()
    assert len(calls) == 3


def test_a_worker_keeps_keys_that_waiting_batches_need(parties):
    analyzer, shuffler = parties
    with serving(shuffler.app()) as url, client_of(url) as client:
        shuffler.post(client, shuffler.reports(50))
    shuffler.work()
    direct = DirectSource(shuffler.store, shuffler.survey.id)
    worker = analyzer.worker(lambda _survey: direct)
    # Received, and left for a time in which its key would long be deleted.
    collections = analyzer.store.collections
    held = collections.claim(collections.request(shuffler.survey.id, direct.offers()[0]))
    collections.move(held, RECEIVED, key=0, reports=50, records=50)
    assert analyzer.store.collections.keys_in_use() == {0}
    for _ in range(60):
        analyzer.clock.advance(86_400)
        analyzer.keyring.tick(keep=analyzer.store.collections.keys_in_use())
    assert worker.step()
    assert analyzer.document(shuffler.survey, held.batch)["valid"] == 50
    assert analyzer.store.collections.keys_in_use() == set()
    worker.step()
    assert 0 in analyzer.keyring.gone()
    assert analyzer.store.forget_key(0) == 0, "its tags went with it"
    worker.close()
