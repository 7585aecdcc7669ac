"""Surveys that use up what a person allows in total, over real HTTP: by how much, and what then."""

from __future__ import annotations

from dataclasses import replace

import httpx
import pytest

from http_kit import Lying
from service_site import live
from shoal.mechanisms.response import RandomizedResponse
from shoal.service.client import Abstained, Client, Policy, Queued, Sent, Settings
from shoal.service.client.errors import PolicyError
from shoal.service.survey import Party

ONCE = Settings(tries=1)
GREEDY = {  # all that the defaults of a client allow to one survey
    "device": RandomizedResponse(k=4, epsilon=8.0),
    "k": 4,
    "epsilon": 2.0,
    "minimum": 200_000,
    "target": 200_000,
}


@pytest.fixture
def front():
    return Lying()


@pytest.fixture
def service(tmp_path, front):
    with live(tmp_path, front=front, **GREEDY) as made:
        yield made


@pytest.fixture
def device(service, tmp_path):
    """A person's device, with the limits that everybody has."""
    transport = httpx.HTTPTransport(verify=False)
    with Client(
        tmp_path / "device", clock=service.clock, settings=ONCE, transport=transport
    ) as made:
        yield made


def posts(front):
    return sum(request.method == "POST" for request in front.asked)


def another(service, name, **changes):
    survey = replace(service.survey, name=name, **changes)
    service.shuffler.store.surveys.add(survey)
    return survey


def modestly(question, epsilon):
    return replace(question, device=RandomizedResponse(k=4, epsilon=epsilon))


def test_one_survey_takes_a_fifth_at_most_however_often_it_asks(service, device, front):
    """Its price is that of all its occasions, due once, and nobody is asked twice for one."""
    total = Policy()
    assert isinstance(device.report(service.survey, "answer 1"), Sent)
    price = device.spent()
    assert price.local_epsilon == total.local_epsilon == total.total_local_epsilon / 5
    assert price.epsilon <= total.epsilon == total.total_epsilon / 5
    assert price.delta <= total.delta <= total.total_delta / 10
    for _ in range(3):
        assert device.report(service.survey, "answer 2").again
    assert (device.spent(), posts(front)) == (price, 1)
    with pytest.raises(Exception, match="accepts 1 report from one person"):
        device.report(service.survey, "answer 2", occasion=2)
    # More occasions are paid for by smaller reports: three of half the size are refused.
    question = modestly(service.survey.questions[0], 4.0)
    small = replace(service.survey.batches, minimum=200)
    often = another(
        service,
        "three times",
        questions=(question,),
        reports_per_person=3,
        batches=small,
        epsilon=12.1,
    )
    with pytest.raises(PolicyError, match="local_epsilon of 12"):
        device.report(often, "answer 1")
    assert (device.spent(), posts(front)) == (price, 1)


def test_surveys_that_drain_a_device_are_refused_from_then_on_and_so_are_others(
    service, device, front
):
    """The total is a limit, and who reaches it decides: nothing more leaves until it is raised."""
    greedy = [service.survey, *(another(service, f"greedy {number}") for number in range(5))]
    for survey in greedy[:5]:
        assert isinstance(device.report(survey, "answer 1"), Sent)
    spent = device.spent()
    question = modestly(service.survey.questions[0], 1.0)
    modest = another(service, "modest", questions=(question,), epsilon=1.0)
    for survey in (greedy[5], modest):
        with pytest.raises(PolicyError, match="in total at most"):
            device.report(survey, "answer 1")
    assert (device.spent(), posts(front)) == (spent, 5)
    # Surveys that were answered before are not touched by it.
    assert device.report(greedy[0], "answer 1").again


def test_what_never_left_the_device_can_be_had_back(service, device, front):
    """A survey whose shuffler does not exist costs what any does, until it is forgotten."""
    nowhere = Party(url="http://127.0.0.1:1", fingerprint="0" * 64)
    for number in range(5):
        trap = another(service, f"trap {number}", shuffler=nowhere)
        assert isinstance(device.report(trap, "answer 1"), Queued)
    assert device.spent().local_epsilon == Policy().total_local_epsilon
    with pytest.raises(PolicyError, match="in total at most"):
        device.report(service.survey, "answer 1")
    for row in device.spent():
        assert device.forget(row.survey) == 1
    assert len(device.spent()) == 0
    assert isinstance(device.report(service.survey, "answer 1"), Sent)
    assert (len(device.spent()), posts(front)) == (1, 1)


@pytest.mark.parametrize("status", [429, 503])
def test_what_was_sent_in_vain_stays_paid(service, device, front, status):
    """A shuffler that says it took nothing may have: forgetting gives nothing back."""
    front.lies["/reports"] = httpx.Response(status)
    assert isinstance(device.report(service.survey, "answer 1"), Queued)
    spent = device.spent().epsilon
    assert device.forget(service.survey) == 1
    assert device.spent().epsilon == spent > 0
    front.lies.clear()
    with pytest.raises(Exception, match="deleted on request"):
        device.report(service.survey, "answer 1")


def test_a_coin_that_said_no_is_not_tossed_again(service):
    """Else who forgets and answers anew would take part more often than was promised."""
    rarely = another(service, "rarely", participation=1e-9)
    device = service.client("liberal")
    assert isinstance(device.report(rarely, "answer 1"), Abstained)
    assert device.forget(rarely) == 0
    assert len(device.spent()) == 1
    assert device.report(rarely, "answer 1").again
