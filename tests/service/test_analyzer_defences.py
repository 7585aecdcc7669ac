"""A shuffler that sends nonsense, too much or too slowly harms nobody but its own survey."""

from __future__ import annotations

import json
import time
from dataclasses import replace
from types import SimpleNamespace

import httpx
import pytest

from factories import DAY
from service_site import HOUR, START, Analyzer, Instead, sealed
from shoal.cli.collect import problems
from shoal.errors import RefusedError
from shoal.sealing import SurveyId
from shoal.service.analyzer import collect
from shoal.service.analyzer import source as source_module
from shoal.service.analyzer import source as sources
from shoal.service.analyzer import tables as schema
from shoal.service.analyzer.collect import Pass
from shoal.service.analyzer.collection import Offer
from shoal.service.analyzer.source import HttpSource, Timeouts
from shoal.service.errors import NotReadyError, StoreUnavailableError
from shoal.service.http.outgoing import NoAnswerError
from shoal.service.keyring import Keyring, Protection, Schedule
from shoal.service.survey import Batches

FIRST, SECOND = "11" * 16, "22" * 16
DIGEST = "cd" * 32
VALUES = [0] * 60


def answering(reply, timeouts=None, token=lambda: "secret"):
    return HttpSource(
        "http://shuffler.example",
        SurveyId(bytes(32)),
        token,
        transport=httpx.MockTransport(reply),
        timeouts=timeouts,
    )


def page(*entries):
    listed = [
        {"batch": FIRST, "digest": DIGEST, "state": "SHUFFLED", "bytes": 9} | e for e in entries
    ]
    return httpx.Response(200, json={"batches": listed})


def problem(kind, status, detail="x", **headers):
    body = {"type": f"urn:shoal:problem:{kind}", "detail": detail}
    return httpx.Response(status, json=body, headers=headers)


# One survey, or one batch, that cannot go on


def never_ready(request):
    if request.url.path.endswith("/batches"):
        return page() if "after" in request.url.params else page({})
    return problem("not_ready", 425, **{"Retry-After": "9" * 5000})


def no_number(_request):
    entry = {"batch": FIRST, "digest": DIGEST, "state": "SHUFFLED", "bytes": 0}
    text = json.dumps({"batches": [entry]}).replace(": 0}", ": 1e999}")
    return httpx.Response(200, content=text)


def fails(_request):
    raise ZeroDivisionError


@pytest.mark.parametrize(
    "hostile",
    [
        never_ready,
        no_number,
        fails,
        lambda _request: page({"bytes": 10**30}),
        lambda _r: page({"key": 999}),
    ],
)
def test_a_hostile_shuffler_stops_no_other_survey(analyzer, hostile):
    bad, good = analyzer.asking(), analyzer.asking(name="another")
    analyzer.send(good, VALUES)

    def sources(survey):
        return analyzer.shuffler if survey == good else answering(hostile)

    with analyzer.worker(sources) as worker:
        passes = worker.collect()
    assert passes[str(good.id)].published == (FIRST,)
    assert passes[str(bad.id)].problems
    assert not passes[str(bad.id)]


def test_a_store_without_room_for_one_survey_has_it_for_another(analyzer):
    bad, good = analyzer.asking(), analyzer.asking(name="another")
    analyzer.send(good, VALUES)

    def full():
        raise StoreUnavailableError("receiving", "disk full")

    sources = {good.id: analyzer.shuffler, bad.id: Instead(analyzer.shuffler, offers=full)}
    with analyzer.worker(lambda survey: sources[survey.id]) as worker:
        passes = worker.collect()
    assert passes[str(good.id)].published == (FIRST,)
    assert "disk full" in passes[str(bad.id)].problems[""]


def test_what_nobody_foresaw_stops_one_batch_only(analyzer):
    survey = analyzer.asking()
    for batch, seed in ((FIRST, 1), (SECOND, 2)):
        analyzer.send(survey, VALUES, batch=batch, seed=seed)

    def odd(batch, request):
        if batch == FIRST:
            raise ZeroDivisionError("secret")
        return analyzer.shuffler.fetch(batch, request)

    done = analyzer.collect(survey, Instead(analyzer.shuffler, fetch=odd))
    assert done.published == (SECOND,)
    assert "ZeroDivisionError" in done.problems[FIRST]
    assert "secret" not in done.problems[FIRST]


def test_a_token_that_was_refused_is_read_again(analyzer):
    survey, tokens = analyzer.asking(), ["old", "new"]

    def reply(request):
        known = request.headers.get("Authorization") == "Bearer new"
        return page() if known else problem("unauthorized", 401)

    source = answering(reply, token=lambda: tokens[0])
    with analyzer.worker(lambda _survey: source) as worker:
        assert "refused the token" in worker.collect()[str(survey.id)].problems[""]
        tokens.pop(0)
        assert not worker.collect()[str(survey.id)].problems


# Too much, too slowly


def test_a_list_without_end_is_cut(monkeypatch):
    monkeypatch.setattr(source_module, "MOST_OFFERS", 5)
    asked = []

    def reply(request):
        asked.append(request)
        return page(*({"batch": f"{3 * len(asked) + i:032x}"} for i in range(3)))

    assert len(answering(reply).offers()) == 5
    assert len(asked) == 2


def test_a_list_has_its_time():
    now = [0.0]

    def reply(_request):
        now[0] += 100
        return page({"batch": f"{int(now[0]):032x}", "state": "PURGED"})

    with pytest.raises(NoAnswerError, match="the list of batches did not arrive in time"):
        answering(reply, Timeouts(clock=lambda: now[0])).offers()
    assert now[0] < 1000


def test_no_more_is_asked_for_than_is_worked_off(analyzer, monkeypatch):
    monkeypatch.setattr(collect, "MOST_WAITING", 4)
    survey = analyzer.asking()
    analyzer.send(survey, VALUES, batch="00" * 16)
    honest = analyzer.shuffler

    def offers():
        invented = [Offer(batch=f"{i:032x}", digest=DIGEST, size=10) for i in range(1, 9)]
        return [*honest.offers(), *invented]

    def fetch(batch, request):
        if batch != "00" * 16:
            raise NoAnswerError("there", "no such thing")
        return honest.fetch(batch, request)

    many = Instead(honest, offers=offers, fetch=fetch)
    done = analyzer.collect(survey, many)
    assert done.published == ("00" * 16,), "what is real goes on"
    assert "5 more batches wait" in done.problems[""]
    assert len(analyzer.store.collections.of(survey.id)) == 4
    analyzer.collect(survey, many)
    assert len(analyzer.store.collections.of(survey.id)) == 5, "one was worked off"


def test_a_batch_that_would_fill_the_disk_is_not_fetched(analyzer, monkeypatch):
    survey = analyzer.asking()
    size = analyzer.shuffler.path(analyzer.send(survey, VALUES)).stat().st_size
    free = SimpleNamespace(free=2 * size - 2)
    monkeypatch.setattr(sources.shutil, "disk_usage", lambda _path: free)
    done = analyzer.collect(survey)
    assert f"there is space for {size - 1:,}" in done.problems[FIRST]
    assert not analyzer.shuffler.told("fetch")
    monkeypatch.setattr(sources, "LARGEST", size - 1)
    free.free = 10 * size
    assert FIRST in analyzer.collect(survey).problems
    assert not analyzer.shuffler.told("fetch")
    monkeypatch.setattr(sources, "LARGEST", size)
    assert analyzer.collect(survey).published == (FIRST,)


def dripping(now, count, seconds, piece=b"x"):
    async def pieces():
        for _ in range(count):
            now[0] += seconds
            yield piece

    return lambda _request: httpx.Response(200, content=pieces())


def test_a_byte_now_and_then_is_too_slow():
    now = [0.0]
    source = answering(dripping(now, 1000, 59), Timeouts(clock=lambda: now[0]))
    with pytest.raises(NoAnswerError, match="fewer than"), source.fetch(FIRST, "0") as got:
        list(got)
    assert now[0] < 200
    now[0] = 0.0
    with pytest.raises(NoAnswerError, match="fewer than"):
        source.keys()
    steady = answering(dripping(now, 100, 59, bytes(6_000_000)), Timeouts(clock=lambda: now[0]))
    with steady.fetch(FIRST, "0") as got:
        assert sum(map(len, got)) == 600_000_000


def test_many_small_pieces_cost_no_more_than_their_sum():
    now = [0.0]
    source = answering(dripping(now, 300_000, 0, b"xxxx"))
    began = time.process_time()
    assert len(source.keys()) == 1_200_000
    assert time.process_time() - began < 6, "13 s if every piece copies all before it"


def test_what_is_packed_is_not_unpacked():
    headers = {"Content-Encoding": "gzip"}
    now = [0.0]
    packed = dripping(now, 1, 0)(None).stream
    source = answering(lambda _request: httpx.Response(200, stream=packed, headers=headers))
    with pytest.raises(NoAnswerError, match="compressed"):
        source.keys()
    with pytest.raises(NoAnswerError, match="compressed"), source.fetch(FIRST, "0") as got:
        list(got)


def test_fetching_for_one_survey_ends_and_the_rest_goes_on(analyzer):
    survey = analyzer.asking()
    for batch, seed in ((FIRST, 1), (SECOND, 2)):
        analyzer.send(survey, VALUES, batch=batch, seed=seed)
    collections = analyzer.store.collections
    held = collections.claim(collections.request(survey.id, analyzer.shuffler.offers()[0]))
    sources.download(analyzer.store.incoming, held, analyzer.shuffler)
    collections.move(held, schema.RECEIVED, key=0, reports=60, records=60)
    collections.leases.release(held.owner)
    late = analyzer.collector(survey, talk_seconds=-1)
    assert late.step().published == (FIRST,), "it was here already"
    assert analyzer.store.collections.find(survey.id, SECOND).state == schema.REQUESTED
    assert analyzer.collect(survey).published == (SECOND,)


def test_a_shuffler_that_is_slow_to_be_told_keeps_others_waiting_no_longer(analyzer):
    survey = analyzer.asking()
    analyzer.send(survey, VALUES)
    asked = []

    def deaf(*words):
        asked.append(words)
        raise NoAnswerError("there", "no answer")

    deaf = Instead(analyzer.shuffler, acknowledge=deaf)
    assert analyzer.collect(survey, deaf).published == (FIRST,)
    assert analyzer.collector(survey, deaf, talk_seconds=-1).step().problems == {}
    assert len(asked) == 1
    analyzer.collect(survey)
    assert analyzer.shuffler.acknowledged(FIRST)


# What a shuffler says goes to a terminal


def test_what_it_says_commands_no_terminal():
    said = "\x1b[2J\x07wait\nfor \ud800it"
    source = answering(
        lambda _request: httpx.Response(
            425, content=json.dumps({"type": "urn:shoal:problem:not_ready", "detail": said})
        )
    )
    with pytest.raises(NotReadyError) as caught, source.fetch(FIRST, "0"):
        pass
    assert str(caught.value).isprintable()
    assert "wait for" in str(caught.value)
    (line,) = problems(Pass(problems={FIRST: said.encode("utf-8", "replace").decode()}))
    assert line.isprintable()


# Keys that a survey does not name


def test_other_keys_open_nothing_and_lose_nothing(analyzer, tmp_path):
    survey = analyzer.asking()
    analyzer.send(survey, VALUES)
    own, analyzer.keyring = (
        analyzer.keyring,
        Keyring.create(
            tmp_path / "other", role="analyzer", protection=Protection.none(), clock=analyzer.clock
        ),
    )
    with pytest.raises(RefusedError, match=own.fingerprint):
        analyzer.collect(survey)
    with analyzer.worker() as worker:
        assert "nothing was fetched" in worker.collect()[str(survey.id)].problems[""]
    assert not analyzer.shuffler.told("fetch")
    analyzer.keyring = own
    assert analyzer.collect(survey).published == (FIRST,)


def test_other_keys_forget_nothing_that_was_counted(analyzer, tmp_path):
    survey = analyzer.asking()
    analyzer.send(survey, VALUES)
    analyzer.collect(survey)
    other = Keyring.create(
        tmp_path / "other", role="analyzer", protection=Protection.none(), clock=analyzer.clock
    )
    other.retire(0, delete=True)
    with analyzer.worker(keyring=other) as worker:
        worker.collect()
    assert analyzer.store.forget_key(0) == len(VALUES)


# Batches that wait for a key, or were refused


def test_a_key_that_is_not_there_yet_is_waited_for(analyzer):
    survey = analyzer.asking()
    records = sealed(survey, analyzer.keyring, VALUES)
    analyzer.shuffler.put(survey, records, lies={"key": 7})
    for _ in range(2):
        done = analyzer.collect(survey)
        assert "key 7 cannot decrypt here" in done.problems[FIRST]
        assert not done.refused
    assert len(analyzer.shuffler.told("fetch")) == 1, "it is here"
    assert analyzer.store.collections.find(survey.id, FIRST).state == schema.RECEIVED


def test_a_refused_batch_can_be_asked_for_again(analyzer):
    survey = analyzer.asking()
    analyzer.send(survey, VALUES)
    before = analyzer.keyring.list
    analyzer.keyring.gone = lambda: frozenset({0})  # as if it had been deleted
    analyzer.keyring.pair = lambda number: (_ for _ in ()).throw(
        collect.KeyGoneError(number, "it is deleted")
    )
    assert analyzer.collect(survey).refused == (FIRST,)
    refused = analyzer.store.collections.find(survey.id, FIRST)
    del analyzer.keyring.gone, analyzer.keyring.pair
    assert before == analyzer.keyring.list
    assert not analyzer.collect(survey), "by itself it is an end"
    again = analyzer.store.collections.again(survey.id, FIRST)
    assert (again.state, again.request) == ("REQUESTED", refused.request)
    assert analyzer.collect(survey).published == (FIRST,)
    assert analyzer.store.collections.again(survey.id, FIRST).state == schema.PUBLISHED, (
        "only what was refused"
    )


# Keys that are needed for longer

STEP = 5  # days


@pytest.fixture
def patient(tmp_path):
    """An analyzer whose ring believes a clock that is looked at every few days."""
    place = tmp_path / "patient"
    place.mkdir(mode=0o700)
    Keyring.create(
        place / "keys",
        role="analyzer",
        protection=Protection.none(),
        clock=lambda: START,
        schedule=Schedule(believed=STEP * DAY),
    )
    made = Analyzer(place)
    yield made
    made.close()


def until(day, analyzer, worker):
    while analyzer.clock() < START + day * DAY:
        analyzer.clock.advance(STEP * DAY)
        worker.step()


def asking(analyzer, *, small, life=30):
    batches = Batches(minimum=50, target=500, max_age=HOUR, small=small)
    return analyzer.asking(batches=batches, not_after=START + life * DAY)


def away(shuffler):
    """A shuffler that announces, and does not deliver."""

    def fetch(*_words):
        raise NoAnswerError("there", "away")

    return Instead(
        shuffler, offers=lambda: [replace(each, key=0) for each in shuffler.offers()], fetch=fetch
    )


def test_a_batch_that_was_asked_for_keeps_its_key(patient):
    survey = asking(patient, small="expire")
    patient.send(survey, VALUES)
    source = away(patient.shuffler)
    with patient.worker(lambda _survey: source) as worker:
        until(60, patient, worker)
        assert 0 not in patient.keyring.gone()
        del source.fetch  # it is back
        worker.step()
        assert patient.document(survey)["valid"] == len(VALUES)
        until(65, patient, worker)
        assert 0 in patient.keyring.gone()


def test_a_batch_that_never_comes_keeps_its_key_for_a_time_only(patient):
    survey = asking(patient, small="expire")
    patient.send(survey, VALUES)
    with patient.worker(lambda _survey: away(patient.shuffler)) as worker:
        until(120, patient, worker)
        assert 0 not in patient.keyring.gone()
        until(125, patient, worker)
        assert 0 in patient.keyring.gone()


@pytest.mark.parametrize("small", ["carry", "expire"])
def test_a_survey_that_carries_batches_on_keeps_its_keys(patient, small):
    asking(patient, small=small, life=100)
    with patient.worker() as worker:
        until(110, patient, worker)
        kept = 0 not in patient.keyring.gone()
        assert kept == (small == "carry")
        until(120, patient, worker)
        assert 0 in patient.keyring.gone()


@pytest.mark.slow
def test_however_long_it_is_open_keys_still_change(patient):
    asking(patient, small="carry", life=800)
    with patient.worker() as worker:
        until(600, patient, worker)
    keys = patient.keyring.list().keys
    assert keys[-1].number >= 18
    assert len(keys) > 12, "as many as there is room for"
