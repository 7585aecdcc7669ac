"""A key list rolled back, frozen or downgraded on its way, over HTTP: nobody seals for it.

Whoever is between shows a list that was signed once: an old one, one whose time is over, one of
somebody else. Analyzer to shuffler, and shuffler to device.
"""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

import httpx
import pytest

from factories import DAY
from http_kit import Lying
from service_site import HOUR, live
from shoal.sealing import SUITES
from shoal.service.client import Queued, Sent, Settings
from shoal.service.client.errors import KeysRefusedError
from shoal.service.keyring import KeyList
from shoal.service.keyring.key_list import Identity, unverified

ROLES = ("shuffler", "analyzer")
ONCE = Settings(tries=1)
SHOWN = {"shuffler": "/v1/keys", "analyzer": "/keys/analyzer"}  # by the shuffler, to devices
FIRST = "answer 1"


@pytest.fixture
def attacked(tmp_path):
    """A shuffler and an analyzer, each behind somebody who may answer for it."""
    front, behind = Lying(), Lying()
    with live(tmp_path, front=front, behind=behind) as service:
        yield SimpleNamespace(service=service, front=front, behind=behind)


def shown(service, role):
    """What devices are shown as the list of a party."""
    party, survey = service.survey.shuffler, service.survey.id
    path = f"/v1/surveys/{survey}/keys/analyzer" if role == "analyzer" else "/v1/keys"
    return service.http.get(party.url + path)


def renew(service, hours=2):
    """New keys of both parties, in use, and the analyzer's list at the shuffler."""
    for half in (service.shuffler, service.analyzer):
        half.keyring.rotate(suite=SUITES[0])
    service.clock.advance(hours * HOUR)
    for half in (service.shuffler, service.analyzer):
        half.keyring.tick()
    service.fetcher().step()


def posted(attacked):
    return [each.content for each in attacked.front.asked if each.method == "POST"]


# ------------------------------------------------------------------------------ to the device


@pytest.mark.parametrize("role", ROLES)
def test_a_list_that_was_rolled_back_gets_no_report(attacked, role):
    """Its keys may have been retired because somebody has their secrets."""
    service = attacked.service
    old = shown(service, role).content
    renew(service)
    device = service.client("device", ONCE)
    assert isinstance(device.report(service.survey, FIRST), Sent)
    attacked.front.show(SHOWN[role], old)
    service.clock.advance(DAY)  # what the device keeps is to be fetched anew
    other = service.client("device", ONCE)  # the same outbox, after a restart
    survey = another(service)
    before = len(posted(attacked))
    with pytest.raises(KeysRefusedError, match=r"but one from .* was seen before"):
        other.report(survey, FIRST)
    assert len(posted(attacked)) == before
    attacked.front.lies.clear()
    assert other.flush(everything=True).sent == 1


@pytest.mark.parametrize("role", ROLES)
def test_a_frozen_list_ends_with_its_signature(attacked, role):
    """A device that never saw another one: for the list's own time, and not a second longer."""
    service = attacked.service
    frozen = shown(service, role).content
    until = unverified(frozen).valid_until
    attacked.front.show(SHOWN[role], frozen)
    service.clock.advance(until - service.clock())
    for half in (service.shuffler, service.analyzer):
        half.keyring.tick()
    service.fetcher().step()
    assert isinstance(service.client("in time", ONCE).report(service.survey, FIRST), Sent)
    service.clock.advance(1)
    before = len(posted(attacked))
    late = service.client("late", ONCE)
    with pytest.raises(KeysRefusedError, match="it was valid until"):
        late.report(service.survey, FIRST)
    # What a device keeps of a list ends with it too.
    with pytest.raises(KeysRefusedError, match="it was valid until"):
        service.client("in time", ONCE).report(another(service), FIRST)
    assert len(posted(attacked)) == before
    attacked.front.lies.clear()
    assert late.flush(everything=True).sent == 1


def another(service):
    """A survey of the same two parties: devices know their lists."""
    survey = replace(service.survey, name="another survey of the two")
    service.shuffler.store.surveys.add(survey)
    return survey


def unsigned(service, role):
    listed = unverified(shown(service, role).content)
    return replace(listed, signature=bytes(64)).document


def of_another_signer(service, role):
    listed = unverified(shown(service, role).content)
    return KeyList.signed(
        Identity(role, b"\1" * 32),
        listed.keys,
        issued=listed.issued,
        valid_until=listed.valid_until,
    ).document


def of_the_other_party(service, role):
    (other,) = (each for each in ROLES if each != role)
    return shown(service, other).content


def with_the_other_partys_keys(service, role):
    """The signature of one, around the keys of the other."""
    (other,) = (each for each in ROLES if each != role)
    listed, others = (unverified(shown(service, each).content) for each in (role, other))
    return replace(listed, keys=others.keys).document


def test_a_list_without_its_signer_gets_no_report(attacked):
    service = attacked.service
    lists = [
        (role, change(service, role), refusal)
        for role in ROLES
        for change, refusal in (
            (unsigned, "its signature is wrong"),
            (of_another_signer, "it belongs to"),
            (of_the_other_party, "it belongs to"),
            (with_the_other_partys_keys, "its signature is wrong"),
        )
    ]
    for number, (role, document, refusal) in enumerate(lists):
        attacked.front.show(SHOWN[role], document)
        with pytest.raises(KeysRefusedError, match=refusal):
            service.client(f"device {number}", ONCE).report(service.survey, FIRST)
        attacked.front.lies.clear()
    assert posted(attacked) == []


def test_no_list_talks_a_device_into_another_suite(attacked):
    """A survey names its cryptography: a weaker key that its party signed is not sealed for."""
    service, strong = attacked.service, SUITES[1]
    survey = replace(service.survey, suite=strong)
    for half in (service.shuffler, service.analyzer):
        half.store.surveys.add(survey)
    weak = {role: shown(service, role).content for role in ROLES}
    for half in (service.shuffler, service.analyzer):
        half.keyring.rotate(suite=strong)
    renew(service)  # the newest keys of all are of the weaker suite
    for role, document in weak.items():
        attacked.front.show(SHOWN[role], document)
        with pytest.raises(KeysRefusedError, match=f"it has no key for {strong}"):
            service.client(f"before {role}", ONCE).report(survey, FIRST)
        attacked.front.lies.clear()
    assert posted(attacked) == []
    assert isinstance(service.client("device", ONCE).report(survey, FIRST), Sent)
    (report,) = posted(attacked)
    named = {key.number: key.suite for key in service.shuffler.keyring.list().keys}
    assert named[report[1]] == strong


# ---------------------------------------------------------------------------- to the shuffler


def test_what_is_played_back_to_the_shuffler_does_not_reach_devices(attacked):
    """An older list of the analyzer is refused; the newer one stays, for everybody, in its time."""
    service, fingerprint = attacked.service, attacked.service.survey.analyzer.fingerprint
    old = shown(service, "analyzer").content
    renew(service)
    newer = shown(service, "analyzer").content
    assert newer != old
    attacked.behind.show("/v1/keys", old)
    assert service.fetcher().step() == 0
    assert shown(service, "analyzer").content == newer
    # Frozen: devices get it for as long as it is valid, and then none at all.
    attacked.behind.lies["/v1/keys"] = httpx.Response(503)
    device = service.client("device", ONCE)
    until = unverified(newer).valid_until
    service.clock.advance(until - service.clock())
    service.fetcher().step()
    assert shown(service, "analyzer").status_code == 200
    service.clock.advance(1)
    service.shuffler.keyring.tick()
    service.fetcher().step()
    assert shown(service, "analyzer").status_code == 503
    waits = device.report(service.survey, FIRST)
    assert isinstance(waits, Queued)
    assert "the keys of the analyzer cannot be fetched" in waits.reason
    assert posted(attacked) == []
    # And when the analyzer is heard again, its list follows what was seen.
    attacked.behind.lies.clear()
    service.analyzer.keyring.tick()
    assert service.fetcher().step() == 1
    assert device.flush(everything=True).sent == 1
    assert service.shuffler.store.key_lists.contradictions() == []
    assert len(service.shuffler.store.key_lists.keys(fingerprint)) == 2


def test_the_analyzer_keeps_no_list_of_the_shuffler_that_goes_back(attacked):
    """Devices that compare find the key that everybody else has, or they send nothing."""
    service = attacked.service
    worker = service.analyzer_worker()
    old = shown(service, "shuffler").content
    worker.collect()
    renew(service)
    worker.collect()
    newer = service.analyzer.store.key_lists.find(service.survey.shuffler.fingerprint)
    assert newer.document != old
    attacked.front.show("/v1/keys", old)
    service.clock.advance(DAY)
    worker.collect()
    kept = service.analyzer.store.key_lists.find(service.survey.shuffler.fingerprint)
    assert kept.document == newer.document
