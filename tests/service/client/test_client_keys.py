"""Whose keys a device seals with: both lists from the shuffler, and never one that contradicts."""

from __future__ import annotations

from dataclasses import replace

import httpx
import pytest

from client_kit import DAY, QUICK, Owner, client_of, make_survey
from shoal.sealing import KeyPair
from shoal.service.client import Keys, KeysRefusedError, Queued, Sent, Settings
from shoal.service.client.outbox import MOST_CONTRADICTIONS
from shoal.service.keyring.key_list import KeyList, unverified

ONCE = Settings(tries=1)


def signed_anew(owner, issued=None):
    """The same keys in another document of the same moment."""
    found = unverified(owner.document())
    return KeyList.signed(
        owner.identity,
        found.keys,
        issued=found.issued if issued is None else issued,
        valid_until=found.valid_until + 1,
    ).to_bytes()


def other_key(owner, *, issued):
    """Another key under number 0."""
    mine = Owner(owner.role)
    mine.issued = issued
    pair = KeyPair.generate(number=0)
    mine.pair = lambda _number: pair
    return mine.document()


def again(services, client, name):
    """Another survey of the same operators, when kept lists are too old."""
    client._protocol.clock.advance(2 * DAY)
    survey = make_survey(name=name)
    answer = services.answers.get(("shuffler", f"/v1/surveys/{services.survey.id}/keys/analyzer"))
    if answer is not None:
        services.answers["shuffler", f"/v1/surveys/{survey.id}/keys/analyzer"] = answer
    taken = httpx.Response(202, json={"reports": 1, "refused": []})
    services.answers["shuffler", f"/v1/surveys/{survey.id}/reports"] = taken
    return client.report(survey, "red")


def honest(services):
    """Both lists are shown as they are again."""
    for place in [place for place in services.answers if not place[1].endswith("/reports")]:
        del services.answers[place]


def test_a_device_talks_to_the_shuffler_alone(services, client):
    assert isinstance(client.report(services.survey, "red"), Sent)
    assert services.hosts() == {"shuffler.example"}
    paths = [request.url.path for request in services.requests if request.method == "GET"]
    assert paths == ["/v1/keys", f"/v1/surveys/{services.survey.id}/keys/analyzer"]


def test_it_waits_while_the_shuffler_has_no_copy(services, tmp_path, clock):
    answer = {"status": 503, "detail": "there is none yet"}
    services.show("analyzer", httpx.Response(503, json=answer, headers={"retry-after": "10"}))
    with client_of(services, tmp_path, clock, settings=ONCE) as client:
        queued = client.report(services.survey, "red")
        assert isinstance(queued, Queued)
        assert "the analyzer cannot be fetched: there is none yet" in queued.reason
        services.answers.clear()
        clock.advance(10)
        assert client.flush().sent == 1
    assert services.hosts() == {"shuffler.example"}


@pytest.mark.parametrize("role", ["shuffler", "analyzer"])
def test_two_lists_of_one_moment_are_refused_and_kept(services, client, role):
    assert isinstance(client.report(services.survey, "red"), Sent)
    owner = getattr(services, role)
    first, second = owner.document(), signed_anew(owner)
    services.show(role, httpx.Response(200, content=second))
    with pytest.raises(KeysRefusedError, match=r"two different lists .* outbox keeps both"):
        again(services, client, "two")
    (found,) = client._protocol.outbox.contradictions()
    assert (found.fingerprint, found.known, found.document) == (owner.fingerprint, first, second)
    assert len(services.posts()) == 1
    honest(services)
    assert client.flush(everything=True).sent == 1  # what was drawn waited


@pytest.mark.parametrize("role", ["shuffler", "analyzer"])
def test_a_number_is_never_another_key(services, client, role):
    client.report(services.survey, "red")
    owner = getattr(services, role)
    owner.rotate(forget=role == "analyzer")  # key 0 of the analyzer is in no list any more
    assert isinstance(again(services, client, "two"), Sent)
    content = other_key(owner, issued=owner.issued + 10)
    services.show(role, httpx.Response(200, content=content))
    for name in ("three", "four"):
        with pytest.raises(KeysRefusedError, match="key 0 was a different key before"):
            again(services, client, name)
    assert len(services.posts()) == 2


@pytest.mark.parametrize("role", ["shuffler", "analyzer"])
def test_an_older_list_is_refused_also_after_opting_out(services, client, role):
    owner = getattr(services, role)
    old = owner.document()
    owner.rotate()
    client.report(services.survey, "red")
    client.opt_out()
    client.opt_in()
    services.show(role, httpx.Response(200, content=old))
    with pytest.raises(KeysRefusedError, match="was seen before"):
        again(services, client, "two")
    assert len(services.posts()) == 1


def test_evidence_is_bounded(services, client):
    client.report(services.survey, "red")
    memory = client._protocol.outbox
    for later in range(MOST_CONTRADICTIONS + 2):
        content = other_key(services.analyzer, issued=services.analyzer.issued + later)
        services.show("analyzer", httpx.Response(200, content=content))
        with pytest.raises(KeysRefusedError):
            again(services, client, f"survey {later}")
    assert len(memory.contradictions()) == MOST_CONTRADICTIONS


# ------------------------------------------------------------------------------ comparing


COMPARING = replace(QUICK, compare_keys=True, tries=2)
COPY = ("analyzer", "/v1/keys/shuffler")


def test_comparing_asks_the_analyzer_for_both_lists(services, tmp_path, clock):
    with client_of(services, tmp_path, clock, settings=COMPARING) as client:
        assert isinstance(client.report(services.survey, "red"), Sent)
    asked = [str(each.url) for each in services.requests if each.url.host == "analyzer.example"]
    assert asked == [
        f"https://analyzer.example/v1/keys/shuffler?fingerprint={services.shuffler.fingerprint}",
        "https://analyzer.example/v1/keys",
    ]


@pytest.mark.parametrize("role", ["shuffler", "analyzer"])
def test_a_key_for_one_person_alone_is_noticed(services, tmp_path, clock, role):
    """The shuffler shows this device a newer list than the analyzer knows of, or has made."""
    owner = getattr(services, role)
    honest = httpx.Response(200, content=owner.document())
    services.answers[COPY if role == "shuffler" else ("analyzer", "/v1/keys")] = honest
    owner.rotate(forget=False)
    with client_of(services, tmp_path, clock, settings=COMPARING) as client:
        with pytest.raises(KeysRefusedError, match="key 1 is not in the list that the analyzer"):
            client.report(services.survey, "red")
        assert services.posts() == []
        services.answers.clear()
        assert client.flush(everything=True).sent == 1


def test_both_sources_may_not_contradict_each_other(services, tmp_path, clock):
    other = signed_anew(services.analyzer)
    services.answers["analyzer", "/v1/keys"] = httpx.Response(200, content=other)
    with client_of(services, tmp_path, clock, settings=COMPARING) as client:
        with pytest.raises(KeysRefusedError, match="two different lists"):
            client.report(services.survey, "red")
        assert len(client._protocol.outbox.contradictions()) == 1
    assert services.posts() == []


def test_the_analyzer_may_be_ahead_of_the_shufflers_copy(services, tmp_path, clock):
    behind = httpx.Response(200, content=services.analyzer.document())
    services.show("analyzer", behind)
    services.analyzer.rotate(forget=False)
    with client_of(services, tmp_path, clock, settings=COMPARING) as client:
        assert isinstance(client.report(services.survey, "red"), Sent)


# ------------------------------------------------------------------------ what was sealed


def test_sealed_bytes_are_those_of_the_keys_not_of_their_numbers():
    """A ring that took up a lost one's numbers has other keys under them."""
    one, other = (KeyPair.generate(number=3).public for _ in range(2))
    shuffler = KeyPair.generate(number=3).public
    names = {Keys(one, shuffler).named, Keys(other, shuffler).named, Keys(shuffler, one).named}
    assert len(names) == 3
    assert Keys(one, shuffler).named == Keys(one, shuffler).named
