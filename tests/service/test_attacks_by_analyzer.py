"""An analyzer that cheats, over HTTP: no key, survey or batch of its making singles people out.

It signs what it likes, asks for what it likes, and holds a good token. Between it and people is an
honest shuffler.
"""

from __future__ import annotations

import secrets
from dataclasses import replace

import httpx
import numpy as np
import pytest

from factories import DAY
from http_kit import Lying
from service_site import HOUR, live
from shoal.sealing import KeyPair
from shoal.service.client import Keys, Policy, Sent, Settings, seal_many
from shoal.service.client.client import Client
from shoal.service.client.errors import PolicyError, SurveyRefusedError
from shoal.service.keyring.key_list import KeyList, unverified

MINIMUM = 20
ONCE = Settings(tries=1)
FIRST = "answer 1"
PROBLEM = "urn:shoal:problem:"


@pytest.fixture
def cheat():
    return Lying()


@pytest.fixture
def service(tmp_path, cheat):
    with live(tmp_path, behind=cheat, minimum=MINIMUM, target=MINIMUM) as made:
        yield made


@pytest.fixture
def ask(service):
    """Ask for batches as the analyzer may: with its token, and any request id."""

    def asking(path="", *, request=None, acknowledge=None):
        headers = {"Authorization": f"Bearer {service.token}"}
        if request is not None:
            headers["Shoal-Request"] = request
        url = f"{service.path}/batches{path}"
        if acknowledge is not None:
            return service.http.post(url, json=acknowledge, headers=headers)
        return service.http.get(url, headers=headers)

    return asking


def work(service):
    worker = service.shuffler_worker()
    while worker.step():
        pass


def send(service, people, analyzer=None):
    keys = service.keys()
    keys = Keys(analyzer or keys.analyzer, keys.shuffler)
    answer = service.post(seal_many(service.survey, np.arange(people) % 4, keys))
    assert answer.json() == {"reports": people, "refused": []}


def a_request():
    return secrets.token_hex(16)


# -------------------------------------------------------------------------- what it asks for


def test_a_batch_goes_to_one_request_and_is_always_the_same(service, ask):
    """Two copies, mixed apart, would tell nothing; two batches that differ by a person would."""
    send(service, MINIMUM)
    work(service)
    (listed,) = ask().json()["batches"]
    path, mine, other = f"/{listed['batch']}", a_request(), a_request()
    first = ask(path, request=mine)
    assert first.status_code == 200
    send(service, MINIMUM - 1)  # they come too late for it
    work(service)
    assert ask(path, request=mine).content == first.content
    for request in (other, a_request()):
        refused = ask(path, request=request)
        assert (refused.status_code, refused.json()["type"]) == (409, f"{PROBLEM}already_collected")
    told = {"request": other, "digest": listed["digest"]}
    assert ask(f"{path}/ack", acknowledge=told).status_code == 409
    told = {"request": mine, "digest": "0" * 64}
    assert ask(f"{path}/ack", acknowledge=told).json()["type"] == f"{PROBLEM}wrong_digest"
    told = {"request": mine, "digest": listed["digest"]}
    assert ask(f"{path}/ack", acknowledge=told).status_code == 200
    work(service)
    for request in (mine, other):
        assert ask(path, request=request).status_code == 409
    assert [each["batch"] for each in ask().json()["batches"]] == [listed["batch"]]


def test_a_batch_below_the_minimum_is_not_listed_nor_given(service, ask):
    """Not even by its name, which an operator's slip may have told, nor when it is old."""
    send(service, MINIMUM - 1)
    work(service)
    with service.shuffler.database.read() as connection:
        ((batch, state),) = connection.exec_driver_sql("SELECT id, state FROM batches").all()
    assert state == "OPEN"
    for _ in range(2):
        assert ask().json() == {"batches": []}
        answer = ask(f"/{batch}", request=a_request())
        assert (answer.status_code, answer.json()["type"]) == (425, f"{PROBLEM}not_ready")
        assert str(MINIMUM - 1) not in answer.text.replace(batch, "")
        service.clock.advance(2 * DAY)
        work(service)
    assert ask(f"/{'0' * 32}", request=a_request()).status_code == 404


# ------------------------------------------------------------------------------- keys it makes


def personal(service, number=0, *, later=0):
    """A list that nobody else has: signed by the analyzer, with a key of one person."""
    listed = service.analyzer.keyring.list()
    pair = KeyPair.generate(number=number)
    key = replace(listed.keys[0], number=number, public=pair.public)
    identity = service.analyzer.keyring._secrets.identity()
    issued = listed.issued + later
    return pair, KeyList.signed(
        identity, (key,), issued=issued, valid_until=issued + DAY
    ).to_bytes()


def test_a_key_for_one_person_reaches_nobody(service, cheat, ask):
    """Devices do not ask the analyzer; the shuffler has one copy, and what contradicts it."""
    everybody = service.http.get(f"{service.path}/keys/analyzer").content
    lists = [personal(service), personal(service, later=1)]
    for _, document in lists:
        cheat.show("/v1/keys", document)
        service.clock.advance(HOUR)
        service.fetcher().step()
        assert service.http.get(f"{service.path}/keys/analyzer").content == everybody
    proofs = service.shuffler.store.key_lists.contradictions()
    assert {each.document for each in proofs} == {document for _, document in lists}
    assert {each.known for each in proofs} == {everybody}
    device = service.client("device", ONCE)
    cheat.asked.clear()
    assert isinstance(device.report(service.survey, FIRST), Sent)
    assert cheat.asked == []
    # A device that was talked into the key is not in anybody's batch under a number of its own.
    pair, _ = personal(service, number=9)
    send(service, 1, analyzer=pair.public)
    send(service, MINIMUM - 1)
    work(service)
    (batch,) = ask().json()["batches"]
    assert (batch["key"], batch["reports"]) == (unverified(everybody).keys[0].number, MINIMUM)
    assert service.shuffler.store.reports.tallies(service.survey.id)["rejected"] == 1


def test_new_keys_for_everybody_split_no_crowd_below_the_minimum(service, ask):
    """A key an hour: parts that miss the minimum are never released, however long it waits."""
    for _ in range(3):
        send(service, MINIMUM - 1)
        service.analyzer.keyring.rotate()
        service.clock.advance(2 * HOUR)
        service.analyzer.keyring.tick()
        service.fetcher().step()
    work(service)
    assert ask().json() == {"batches": []}
    send(service, MINIMUM)
    work(service)
    service.clock.advance(3 * DAY)
    work(service)
    (batch,) = ask().json()["batches"]
    newest = service.analyzer.keyring.list().keys[-1].number
    assert (batch["key"], batch["reports"]) == (newest, MINIMUM)


# ------------------------------------------------------------------------------ surveys it makes


def test_a_survey_that_changes_is_refused_under_its_name(service, cheat, tmp_path):
    """A smaller crowd for one person, under the address that everybody has."""
    changed = replace(service.survey, batches=replace(service.survey.batches, minimum=2))
    address = f"{service.survey.analyzer.url}/v1/surveys/{service.survey.id}"
    cheat.show(f"/v1/surveys/{service.survey.id}", changed.to_bytes())
    device = service.client("device", ONCE)
    for place in (address, address.replace("/v1/surveys/", "/answer/")):
        with pytest.raises(SurveyRefusedError, match=f"this is survey {changed.id}, not"):
            device.survey(place)
    assert len(device.spent()) == 0
    # Under a name of its own nobody collects for it, and a person's policy refuses it.
    answer = service.http.post(
        service.path.replace(str(service.survey.id), str(changed.id)) + "/reports",
        content=b"\1" * 200,
        headers={"content-type": "application/octet-stream"},
    )
    assert answer.status_code == 404
    with (
        Client(tmp_path / "careful", policy=Policy(), clock=service.clock) as careful,
        pytest.raises(PolicyError, match="a minimum of 2"),
    ):
        careful.report(changed, FIRST)


def test_what_is_promised_is_what_its_own_numbers_give(service, cheat, tmp_path):
    """A survey that says less of its cost than its mechanism gives is no survey."""
    document = service.survey.to_bytes()
    understated = document.replace(b'"epsilon":3.03', b'"epsilon":0.01')
    assert understated != document
    cheat.lies["/promise"] = httpx.Response(200, json={"epsilon": 0.01})
    path = tmp_path / "survey.json"
    path.write_bytes(understated)
    with pytest.raises(SurveyRefusedError):
        service.client("device", ONCE).survey(path)
