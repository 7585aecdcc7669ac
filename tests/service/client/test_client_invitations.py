"""A person with an invitation: it is shown beside the report, and forgotten once that arrived."""

from __future__ import annotations

import httpx
import numpy as np
import pytest

from client_kit import NOW, QUICK, Services, client_of, make_survey
from shoal.errors import InvalidArgumentError
from shoal.service.admission import Invitation, Invited, Open
from shoal.service.client import Policy, PolicyError, Queued, Sent, Settings, SurveyRefusedError
from shoal.service.client.outbox import FILE
from shoal.service.clock import ManualClock

ANYBODY, CLASS = Open(dishonest=0), Invited(entitled=2000, dishonest=0)


@pytest.fixture
def clock():
    return ManualClock(NOW)


@pytest.fixture
def services():
    return Services(make_survey(admission=CLASS, reports_per_person=2, epsilon=2.0))


def problem(kind, status=403):
    return httpx.Response(status, json={"type": f"urn:shoal:problem:{kind}", "detail": "no"})


def test_each_report_shows_its_own_code(tmp_path, clock, services):
    (invitation,) = Invitation.draw(1)
    survey = services.survey
    with client_of(services, tmp_path, clock) as client:
        for occasion in (1, 2):
            sent = client.report(survey, "red", occasion=occasion, invitation=str(invitation))
            assert isinstance(sent, Sent)
    size = services.wire.report_bytes
    assert [body[size:] for body in services.bodies] == [
        invitation.code(survey.id, occasion) for occasion in (1, 2)
    ]
    assert len(services.messages) == 2


def test_nothing_of_an_invitation_stays_once_the_report_arrived(tmp_path, clock, services):
    (invitation,) = Invitation.draw(1)
    code = invitation.code(services.survey.id, 1)
    services.lost_requests = 1.0
    with client_of(services, tmp_path, clock, settings=Settings(tries=1)) as client:
        queued = client.report(services.survey, "red", invitation=invitation)
        assert isinstance(queued, Queued)
        assert code in (tmp_path / FILE).read_bytes()
        services.lost_requests = 0.0
        assert client.flush(everything=True).sent == 1
    assert services.bodies[0] == services.bodies[1]
    for path in tmp_path.rglob("*"):
        content = path.read_bytes()
        assert code not in content
        assert invitation.secret not in content
        assert str(invitation).encode() not in content


@pytest.mark.parametrize("kind", ["code_spent", "code_unknown", "code_revoked"])
def test_a_refused_code_keeps_the_report_for_another_invitation(tmp_path, clock, services, kind):
    first, second = Invitation.draw(2)
    path = ("shuffler", f"/v1/surveys/{services.survey.id}/reports")
    services.answers[path] = problem(kind)
    with client_of(services, tmp_path, clock, settings=Settings()) as client:
        queued = client.report(services.survey, "red", invitation=first)
        assert isinstance(queued, Queued)
        assert kind in queued.reason
        assert "the report is kept" in queued.reason
        assert queued.due >= NOW + 3600  # no use in asking again at once
        assert len(services.posts()) == 1
        assert client.flush(everything=True).waiting == 1
        del services.answers[path]
        sent = client.report(services.survey, "blue", invitation=second)
        assert sent == Sent(survey=str(services.survey.id), occasion=1, again=True)
    size = services.wire.report_bytes
    bodies = [request.content for request in services.posts()]
    assert len({body[:size] for body in bodies}) == 1  # drawn once, whatever was answered later
    assert bodies[-1][size:] == second.code(services.survey.id, 1)


def test_a_clock_that_is_wrong_loses_nothing(tmp_path, clock, services):
    path = ("shuffler", f"/v1/surveys/{services.survey.id}/reports")
    services.answers[path] = problem("survey_closed")
    (invitation,) = Invitation.draw(1)
    with client_of(services, tmp_path, clock, settings=Settings(tries=1)) as client:
        assert isinstance(client.report(services.survey, "red", invitation=invitation), Queued)
        del services.answers[path]
        assert client.flush(everything=True).sent == 1


def test_many_people_each_with_an_invitation(tmp_path, clock):
    """By their coins some do not take part: the others' codes are their own."""
    services = Services(make_survey(admission=CLASS, participation=0.5))
    survey, people = services.survey, Invitation.draw(300)
    services.refused_codes = {people[at].code(survey.id, 1): "code_unknown" for at in range(40)}
    with client_of(services, tmp_path, clock, settings=QUICK) as client:
        with pytest.raises(InvalidArgumentError, match="one for each person"):
            client.report_many(survey, ["red"] * 300, job="x", invitations=people[1:])
        values = np.zeros(300, dtype=int)
        settings = {"job": "class", "invitations": people}
        done = client.report_many(survey, values, **settings)
        refused = done.waiting
        assert 5 < refused < 40
        assert "kept" in done.reason
        services.refused_codes.clear()
        assert client.flush(everything=True).sent == refused
        assert client.report_many(survey, values, **settings).finished
    assert len(services.messages) == len(services.spent) == done.taking_part
    assert services.spent.keys() <= {people[at].code(survey.id, 1) for at in range(300)}


def test_who_needs_an_invitation_and_who_does_not(tmp_path, clock, services):
    anybody = Services(make_survey(admission=ANYBODY))
    with client_of(services, tmp_path / "invited", clock) as client:
        with pytest.raises(SurveyRefusedError, match="for invited people"):
            client.report(services.survey, "red")
        with pytest.raises(InvalidArgumentError, match="typo"):
            client.report(services.survey, "red", invitation="0000-1111")
    with client_of(anybody, tmp_path / "open", clock) as client:
        with pytest.raises(SurveyRefusedError, match="needs no invitation"):
            client.report(anybody.survey, "red", invitation=Invitation.draw(1)[0])
        assert isinstance(client.report(anybody.survey, "red"), Sent)
    assert services.posts() == []
    assert len(anybody.bodies[0]) == anybody.wire.report_bytes


def test_a_person_may_require_admission(tmp_path, clock, services):
    policy = Policy(require_admission=True, local_epsilon=8)
    anybody = Services(make_survey(admission=ANYBODY))
    client = client_of(anybody, tmp_path, clock, policy=policy)
    with client, pytest.raises(PolicyError, match=r"crowd assumed, not checked.*people invited"):
        client.report(anybody.survey, "red")
    with client_of(services, tmp_path, clock, policy=policy) as client:
        (invitation,) = Invitation.draw(1)
        assert isinstance(client.report(services.survey, "red", invitation=invitation), Sent)
