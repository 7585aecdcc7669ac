"""What a client refuses: it says which number broke which limit, and sends nothing."""

from __future__ import annotations

import math
from dataclasses import replace

import httpx
import numpy as np
import pytest

from client_kit import (
    ANALYZER,
    DAY,
    NOW,
    QUICK,
    SHUFFLER,
    Services,
    client_of,
    make_survey,
    survey_name,
)
from shoal.errors import InvalidArgumentError, MissingExtraError
from shoal.explain.text import moment
from shoal.mechanisms.dummies import UniformDummies
from shoal.mechanisms.grid import Duchi
from shoal.mechanisms.response import RandomizedResponse
from shoal.service.client import (
    AsyncClient,
    Client,
    KeysRefusedError,
    Policy,
    PolicyError,
    Queued,
    Sent,
    Settings,
    SurveyRefusedError,
)
from shoal.service.client.outbox import ReportId
from shoal.service.keyring.key_list import Identity
from shoal.service.survey import Batches, Survey


def drew_nothing(client):
    return len(client.spent()) == 0 and client.flush(everything=True).sent == 0


def place(survey):
    return ReportId(survey.id, 1)


PROMISED = make_survey().guarantee(500).epsilon


@pytest.mark.parametrize(
    ("policy", "words"),
    [
        (
            Policy(local_epsilon=0.9),
            r"a local_epsilon of (1|0\.99\d*).* at most 0\.9",
        ),
        (Policy(epsilon=0.9), r"a promised epsilon of 1, .*at most 0\.9;"),
        (Policy(minimum=501), r"minimum of 500, .*at least 501"),
        (Policy(delta=1e-7), r"a delta, for people who take part, of 1e-6, .*at most 1e-7"),
        (Policy(hosts={"analyzer.example"}), r"shuffler on shuffler\.example.*only analyzer\.exa"),
        (Policy(hosts={"shuffler.example"}), r"analyzer on analyzer\.example.*only shuffler\.exa"),
        (Policy(total_epsilon=0.1), r"with the 0 of other surveys .*in total at most 0\.1"),
        (Policy(total_delta=1e-7), r"delta 1e-6, which with the 0 .*in total at most 1e-7"),
        (Policy(total_local_epsilon=0.9), r"local_epsilon 1, which .*in total at most 0\.9"),
    ],
)
def test_a_limit_is_kept(services, tmp_path, clock, policy, words):
    client = client_of(services, tmp_path, clock, policy=policy)
    with pytest.raises(PolicyError, match=words) as refused:
        client.report(services.survey, "red")
    assert str(refused.value).endswith("nothing was sent")
    assert refused.value.allowed is not None
    assert refused.value.asked is not None
    assert services.requests == []
    assert drew_nothing(client)


def test_limits_are_inclusive(services, tmp_path, clock):
    promised = services.survey.guarantee(500)
    services.__init__(make_survey(epsilon=promised.epsilon))
    policy = Policy(
        local_epsilon=promised.local_epsilon,
        epsilon=promised.epsilon,
        total_epsilon=promised.epsilon,
        total_delta=1e-6,
        total_local_epsilon=promised.local_epsilon,
        delta=1e-6,
        minimum=500,
        hosts={"shuffler.example", "analyzer.example"},
    )
    assert isinstance(
        client_of(services, tmp_path, clock, policy=policy).report(services.survey, "red"), Sent
    )


def test_a_report_that_only_the_crowd_hides_needs_to_be_allowed(tmp_path, clock):
    device = UniformDummies.calibrated(k=4, n=400, epsilon=1.0, delta=1e-6)
    services = Services(make_survey(device=device))
    words = r"only the crowd hides.*--any-local-epsilon.*local_epsilon=math.inf.* at most 8;"
    with pytest.raises(PolicyError, match=words):
        client_of(services, tmp_path, clock).report(services.survey, "red")
    client = client_of(services, tmp_path, clock, policy=Policy(local_epsilon=math.inf))
    assert isinstance(client.report(services.survey, "red"), Sent)


def test_surveys_add_up_until_the_total_is_spent(services, tmp_path, clock):
    policy = Policy(total_epsilon=2.5 * PROMISED)
    client = client_of(services, tmp_path, clock, policy=policy)
    path = "/v1/surveys/{}/reports"
    taken = httpx.Response(202, json={"reports": 1, "refused": []})
    for name in ("first", "second"):
        survey = make_survey(name=name)
        services.answers["shuffler", path.format(survey.id)] = taken
        client.report(survey, "red")
        client.report(survey, "red")  # the same occasion costs nothing more
    asked = len(services.requests)
    with pytest.raises(PolicyError, match=r"which with the .* of other surveys makes"):
        client.report(make_survey(name="third"), "red")
    assert len(services.requests) == asked
    ledger = client.spent()
    assert [row.name for row in ledger] == ["first", "second"]
    assert ledger.epsilon == pytest.approx(2 * PROMISED, rel=1e-12)
    assert ledger.delta == pytest.approx(2e-6)
    assert ledger.local_epsilon == pytest.approx(2.0)
    assert ledger.to_dict()["surveys"][0]["occasions"] == 1
    assert "all of them" in str(ledger)


def test_the_promise_is_worked_out_here(tmp_path, clock):
    """The price is that of the mechanism at the minimum, not the number the survey names."""
    survey = make_survey(epsilon=1.9)
    client = client_of(Services(survey), tmp_path, clock, policy=Policy(total_epsilon=PROMISED))
    client.report(survey, "red")
    assert client.spent().epsilon == PROMISED < 1.9


def rarely(number):
    """A survey that costs no epsilon, because hardly anybody takes part."""
    return make_survey(name=f"rare {number}", participation=2e-5, delta=1e-5)


def test_delta_is_that_of_whoever_is_seen_to_take_part(tmp_path, clock):
    survey = rarely(0)
    assert survey.guarantee(500).epsilon == 0
    with pytest.raises(
        PolicyError, match=r"delta, for people who take part, of 0\.5, .*at most 1e-5"
    ):
        client_of(Services(survey), tmp_path, clock).report(survey, "red")


@pytest.mark.parametrize(
    ("limit", "most"), [({"total_delta": 5.5e-5}, 5), ({"total_local_epsilon": 4.5}, 4)]
)
def test_what_costs_no_epsilon_is_limited_too(tmp_path, clock, limit, most):
    client = client_of(Services(rarely(0)), tmp_path, clock, policy=Policy(delta=1.0, **limit))
    surveys = [rarely(number) for number in range(most + 1)]
    for survey in surveys[:-1]:
        client._protocol._draw(survey, place(survey), np.zeros(1, dtype=int))
    for asks in (client.promised, lambda survey: client.report(survey, "red")):
        with pytest.raises(PolicyError, match=r"in total at most (5\.5e-5|4\.5);"):
            asks(surveys[-1])


def test_surveys_without_a_local_epsilon_are_not_in_its_sum(services, tmp_path, clock):
    device = UniformDummies.calibrated(k=4, n=400, epsilon=1.0, delta=1e-6)
    survey = make_survey(device=device)
    with client_of(
        Services(survey), tmp_path, clock, policy=Policy(local_epsilon=math.inf)
    ) as client:
        client.report(survey, "red")
    client = client_of(services, tmp_path, clock)
    assert client.spent().local_epsilon == math.inf
    assert isinstance(client.report(services.survey, "red"), Sent)


def test_a_survey_is_refused_by_its_numbers_before_its_promise_is_computed(
    services, tmp_path, clock, monkeypatch
):
    file = tmp_path / "survey.json"
    file.write_bytes(services.survey.to_bytes())
    monkeypatch.setattr(Survey, "guarantee", None)
    for policy in (
        Policy(minimum=501),
        Policy(delta=1e-7),
        Policy(epsilon=0.9),
        Policy(local_epsilon=0.9),
        Policy(hosts={"analyzer.example"}),
    ):
        with pytest.raises(PolicyError, match="nothing was sent"):
            client_of(services, tmp_path / "outbox", clock, policy=policy).survey(file)


@pytest.mark.parametrize(
    ("now", "words"), [(NOW - 2 * DAY, "begins on"), (NOW + 31 * DAY, "ended on")]
)
def test_a_survey_that_is_not_open_is_refused(services, client, clock, now, words):
    clock.now = now
    with pytest.raises(SurveyRefusedError, match=f"{words} .*{moment(now)}.*nothing was sent"):
        client.report(services.survey, "red")
    assert services.requests == []
    assert drew_nothing(client)


def test_a_survey_that_needs_tokens_is_refused(services, client):
    with pytest.raises(SurveyRefusedError, match="tokens of 16 bytes"):
        client.report(make_survey(token_bytes=16), "red")
    assert services.requests == []


@pytest.mark.parametrize("answer", ["violet-secret", 2, 1.5, True, "", "Red"])
def test_an_answer_that_is_none_is_refused_and_not_repeated(services, client, answer):
    with pytest.raises(InvalidArgumentError, match="one of the answers 'red', 'green'") as refused:
        client.report(services.survey, answer)
    assert "violet" not in str(refused.value)
    assert services.requests == []
    assert drew_nothing(client)


@pytest.mark.parametrize("answer", ["seven", math.nan, True, None, 10.01, "-3", math.inf])
def test_a_number_that_is_none_is_refused_and_not_repeated(tmp_path, clock, answer):
    device = Duchi(low=0.0, high=10.0, epsilon=1.0)
    survey = make_survey(device=device, answers=())
    services = Services(survey)
    client = client_of(services, tmp_path, clock)
    with pytest.raises(InvalidArgumentError, match="a number from 0 to 10") as refused:
        client.report(survey, answer)
    assert "seven" not in str(refused.value)
    assert services.requests == []
    assert drew_nothing(client)


# ---------------------------------------------------------------------- which survey it is


@pytest.mark.parametrize(
    "change", ["https://me:secret@shuffler.example", "https://shuffler.example/?who=me"]
)
def test_an_address_that_says_who_asks_is_refused(services, client, change):
    name = str(services.survey.id)
    with pytest.raises(InvalidArgumentError, match="without user and query") as refused:
        client.survey(change, name=name)
    assert "secret" not in str(refused.value)
    assert services.requests == []


def near(services, host):
    party = replace(services.survey.shuffler, url=f"https://{host}")
    return make_survey(shuffler=party)


@pytest.mark.parametrize(
    "host",
    ["169.254.169.254", "10.0.0.1", "127.0.0.1", "localhost", "[::1]", "printer", "a.internal"],
)
def test_a_strangers_survey_does_not_send_a_device_to_machines_near_it(services, client, host):
    survey = near(services, host)
    path = f"/v1/surveys/{survey.id}"
    services.answers["shuffler", path] = httpx.Response(200, content=survey.to_bytes())
    with pytest.raises(SurveyRefusedError, match=r"not a public address.*nothing was sent"):
        client.report(SHUFFLER + path, "red")
    assert len(services.requests) == 1  # for the survey
    assert drew_nothing(client)


@pytest.mark.parametrize(
    "change",
    [{"name": "Walks\u202e"}, {"purpose": "one\ntwo"}, {"answers": ("red", "rеd", "x", "y")}],
)
def test_a_survey_whose_texts_mislead_is_refused(services, client, change):
    survey = make_survey(**change)
    path = f"/v1/surveys/{survey.id}"
    services.answers["shuffler", path] = httpx.Response(200, content=survey.to_bytes())
    with pytest.raises(SurveyRefusedError, match=r"texts that mislead people.*nothing was sent"):
        client.report(SHUFFLER + path, "red")
    assert services.posts() == []
    assert drew_nothing(client)


def test_a_survey_from_near_may_name_what_is_near(services, tmp_path, clock):
    survey = near(services, "127.0.0.1:8000")
    file = tmp_path / "survey.json"
    file.write_bytes(survey.to_bytes())
    client = client_of(services, tmp_path, clock)
    assert client.survey(file) == client.survey(survey) == survey
    services.answers["127", f"/v1/surveys/{survey.id}"] = httpx.Response(
        200, content=survey.to_bytes()
    )
    assert client.survey("http://127.0.0.1:8000", name=str(survey.id)) == survey
    inside = near(services, "10.0.0.1")
    with pytest.raises(SurveyRefusedError, match=r"on 10\.0\.0\.1"):
        client.survey(inside)
    policy = Policy(hosts={"10.0.0.1", "analyzer.example"})
    assert client_of(services, tmp_path, clock, policy=policy).survey(inside) == inside


def test_a_survey_comes_from_a_file_or_an_address(services, client, tmp_path):
    place = tmp_path / "survey.json"
    place.write_bytes(services.survey.to_bytes() + b"\n")
    url = f"{SHUFFLER}/v1/surveys/{services.survey.id}"
    name = str(services.survey.id)
    page = f"{ANALYZER}/answer/{services.survey.id}"
    for source in (place, str(place), url, url + "/", page, page + "/"):
        assert client.survey(source) == services.survey
    assert client.survey(page, name=name) == services.survey
    assert {request.url.path for request in services.requests} == {f"/v1/surveys/{name}"}
    assert services.hosts() == {"shuffler.example", "analyzer.example"}
    assert client.survey(SHUFFLER, name=name) == services.survey
    assert isinstance(client.report(url, "red"), Sent)


def test_a_survey_that_was_changed_is_refused(services, client, tmp_path):
    changed = make_survey(batches=Batches(minimum=400, target=1000, max_age=DAY))
    services.answers["shuffler", f"/v1/surveys/{services.survey.id}"] = httpx.Response(
        200, content=changed.to_bytes()
    )
    for path in ("v1/surveys", "answer"):
        url = f"{SHUFFLER}/{path}/{services.survey.id}"
        with pytest.raises(SurveyRefusedError, match=f"this is survey {changed.id}, not .*nothing"):
            client.report(url, "red")
    assert services.posts() == []
    assert drew_nothing(client)
    place = tmp_path / "survey.json"
    place.write_bytes(changed.to_bytes())
    with pytest.raises(SurveyRefusedError, match="not " + str(services.survey.id)):
        client.survey(place, name=str(services.survey.id))
    place.write_bytes(services.survey.to_bytes().replace(b'"minimum":500', b'"minimum": 500'))
    with pytest.raises(SurveyRefusedError, match="malformed"):
        client.report(place, "red")
    # Less noise than its crowd hides: the numbers do not follow from each other.
    place.write_bytes(
        services.survey.to_bytes().replace(
            b'"mechanism":{"epsilon":1,', b'"mechanism":{"epsilon":7.5,'
        )
    )
    with pytest.raises(SurveyRefusedError, match="belong together"):
        client.report(place, "red")


def test_a_survey_of_another_name_is_refused(client):
    other = survey_name("another")
    with pytest.raises(SurveyRefusedError, match=f"not {other}"):
        client.report(f"{SHUFFLER}/v1/surveys/{other}", "red")


@pytest.mark.parametrize(
    ("source", "error"),
    [
        ("http://shuffler.example/v1/surveys/" + "0" * 64, InvalidArgumentError),
        ("https://shuffler.example/v1/surveys/latest", SurveyRefusedError),
        ("nowhere.json", SurveyRefusedError),
    ],
)
def test_a_source_that_is_none_is_refused(services, client, source, error):
    with pytest.raises(error):
        client.report(source, "red")
    assert services.requests == []


def test_a_survey_that_cannot_be_fetched_is_refused(services, client):
    services.answers["shuffler", f"/v1/surveys/{services.survey.id}"] = httpx.Response(404)
    with pytest.raises(SurveyRefusedError, match="status 404"):
        client.report(f"{SHUFFLER}/v1/surveys/{services.survey.id}", "red")


def test_a_survey_is_fetched_from_allowed_machines_only(services, tmp_path, clock):
    client = client_of(services, tmp_path, clock, policy=Policy(hosts={"elsewhere.example"}))
    with pytest.raises(PolicyError, match=r"the survey on shuffler\.example"):
        client.report(f"{SHUFFLER}/v1/surveys/{services.survey.id}", "red")
    assert services.requests == []


# -------------------------------------------------------------------------------- whose keys


@pytest.mark.parametrize("role", ["shuffler", "analyzer"])
def test_keys_signed_by_somebody_else_are_refused(services, client, role):
    owner = getattr(services, role)
    forged = owner.document(Identity(role, bytes(32)))
    services.show(role, httpx.Response(200, content=forged))
    url = SHUFFLER if role == "shuffler" else ANALYZER
    with pytest.raises(KeysRefusedError, match=f"the {role} at {url} .*somebody else.*nothing was"):
        client.report(services.survey, "red")
    assert services.posts() == []
    flushed = client.flush(everything=True)
    assert flushed.waiting == 1
    assert "refused" in flushed.reasons[0]
    services.answers.clear()
    assert client.flush(everything=True).sent == 1  # the drawn message was kept


def test_keys_of_the_other_party_are_refused(services, client):
    content = services.analyzer.document()
    services.show("shuffler", httpx.Response(200, content=content))
    with pytest.raises(KeysRefusedError, match="analyzer"):
        client.report(services.survey, "red")
    assert services.posts() == []


@pytest.mark.parametrize("content", [b"", b"{}", b"\xff" * 100, b"[" * 100_000])
def test_keys_that_are_none_are_refused(services, client, content):
    services.show("analyzer", httpx.Response(200, content=content))
    with pytest.raises(KeysRefusedError):
        client.report(services.survey, "red")
    assert services.posts() == []


def test_an_older_list_does_not_come_back(tmp_path, clock):
    services = Services(make_survey(name="one"))
    old = services.shuffler.document()
    services.shuffler.rotate()
    client = client_of(services, tmp_path, clock)
    assert isinstance(client.report(services.survey, "red"), Sent)
    clock.advance(2 * DAY)
    services.show("shuffler", httpx.Response(200, content=old))
    told = r"issued at 20\d\d-.* UTC, but one from 20\d\d-.* UTC was seen before"
    with pytest.raises(KeysRefusedError, match=told):
        client.report(make_survey(name="two"), "red")
    assert len(services.posts()) == 1


def test_keys_are_kept_as_long_as_they_may_be(tmp_path, clock):
    services = Services(make_survey())
    path = "/v1/surveys/{}/reports"
    taken = httpx.Response(202, json={"reports": 1, "refused": []})
    client = client_of(services, tmp_path, clock)
    fetched = []
    for name, later in (("a", 0), ("b", 3000), ("c", 1000)):
        clock.advance(later)
        survey = make_survey(name=name)
        services.answers["shuffler", path.format(survey.id)] = taken
        before = len(services.requests)
        client.report(survey, "red")
        fetched.append(len(services.requests) - before - 1)
    assert fetched == [2, 0, 2]


def test_keys_that_are_not_there_leave_the_report_waiting(services, tmp_path, clock):
    services.show("analyzer", httpx.Response(503, headers={"retry-after": "7"}))
    client = client_of(services, tmp_path, clock, settings=Settings(tries=1))
    queued = client.report(services.survey, "red")
    assert isinstance(queued, Queued)
    assert "the keys of the analyzer cannot be fetched" in queued.reason
    assert queued.due == NOW + 7  # as it was asked to wait
    assert services.posts() == []
    services.answers.clear()
    clock.advance(7)
    assert client.flush().sent == 1


def test_a_key_made_for_one_person_is_noticed(services, tmp_path, clock):
    comparing = replace(QUICK, compare_keys=True, tries=2)
    honest = services.shuffler.document()
    services.shuffler.rotate(forget=False)
    # The analyzer's copy of the shuffler's list is what everybody else has.
    services.answers["analyzer", "/v1/keys/shuffler"] = httpx.Response(200, content=honest)
    client = client_of(services, tmp_path, clock, settings=comparing)
    with pytest.raises(KeysRefusedError, match="key 1 is not in the list that the analyzer"):
        client.report(services.survey, "red")
    assert services.posts() == []
    services.answers["analyzer", "/v1/keys/shuffler"] = httpx.Response(404)
    assert client.flush(everything=True).waiting == 1  # no copy, no report
    services.answers.clear()
    assert client.flush(everything=True).sent == 1


# ---------------------------------------------------------------------------------- arguments


@pytest.mark.parametrize(
    ("kind", "given"),
    [
        (Policy, {"epsilon": 0}),
        (Policy, {"local_epsilon": -1}),
        (Policy, {"delta": 0}),
        (Policy, {"minimum": 0}),
        (Policy, {"total_epsilon": math.nan}),
        (Policy, {"hosts": "shuffler.example"}),
        (Settings, {"tries": 0}),
        (Settings, {"wait": 0}),
        (Settings, {"wait": 10, "longest_wait": 5}),
        (Settings, {"delay": -1}),
        (Settings, {"storage": 100}),
    ],
)
def test_limits_and_settings_are_checked(kind, given):
    with pytest.raises(InvalidArgumentError):
        kind(**given)


@pytest.mark.parametrize("kind", [Client, AsyncClient])
def test_without_httpx_the_extra_is_named(kind, tmp_path, monkeypatch):
    import sys

    monkeypatch.setitem(sys.modules, "httpx", None)
    with pytest.raises(MissingExtraError, match=r"the client needs httpx: pip install 'httpx>="):
        kind(tmp_path / "outbox")
    assert not (tmp_path / "outbox").exists()


def test_the_device_is_the_surveys(services, client, monkeypatch):
    seen = []
    original = RandomizedResponse.randomize

    def spied(self, values, *, randomness=None):
        seen.append((self, randomness))
        return original(self, values, randomness=randomness)

    monkeypatch.setattr(RandomizedResponse, "randomize", spied)
    client.report(services.survey, "red")
    assert seen == [(services.survey.device, None)]  # None: the operating system's randomness
