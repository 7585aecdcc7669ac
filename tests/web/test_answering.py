"""The page that people answer on: what it says is what the survey keeps, and nothing gets out."""

from __future__ import annotations

import math
import re

import httpx
import pytest

import dashboard_kit
from factories import DAY
from http_kit import serving
from service_site import START, Analyzer
from shoal.explain.text import factor, up
from shoal.mechanisms.dummies import UniformDummies
from shoal.mechanisms.grid import Duchi
from shoal.mechanisms.response import RandomizedResponse
from shoal.service.admission import Invited
from shoal.service.analyzer.app import AnalyzerPages, analyzer_app
from shoal.service.http.limits import Limits
from shoal.service.survey import Batches, Party
from shoal.service.survey.promise import promised
from shoal.web import assets, pages

HOSTILE = "<script>alert(1)</script> “'\"><img src=x onerror=alert(2)> &amp; {{7*7}}"
SHUFFLER = Party(url="https://shuffler.example:8443/base", fingerprint="ab" * 32)
BUILT = {name: f"/* {name} */".encode() for name in ("survey.js", "offline.js")}


class Page(dashboard_kit.Page):
    """The text of each element is found by its class, or else by its tag."""

    def name(self, tag, attributes):
        return attributes.get("class") or tag


@pytest.fixture(scope="module")
def analyzer(tmp_path_factory):
    made = Analyzer(tmp_path_factory.mktemp("analyzer") / "a")
    answers = ("by bus", HOSTILE, "on foot")
    made.plain = made.asking(
        question=HOSTILE, purpose=HOSTILE, answers=answers, shuffler=SHUFFLER, dishonest=0.1
    )
    made.number = made.asking(
        name="number", answers=(), device=Duchi(low=-1.5, high=120, epsilon=1.0), minimum=500
    )
    made.many = made.asking(
        name="many",
        answers=tuple(f"town {number}" for number in range(70)),
        device=RandomizedResponse(k=70, epsilon=0.5),
        reports_per_person=2,
    )
    made.crowd = made.asking(
        name="crowd",
        device=UniformDummies.calibrated(k=3, n=500, epsilon=1.0, delta=1e-6),
        batches=Batches(minimum=500, target=500, max_age=DAY, small="expire"),
        participation=0.25,
    )
    made.invited = made.asking(name="invited", admission=Invited(entitled=60, dishonest=3))
    yield made
    made.close()


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    place = tmp_path_factory.mktemp("assets")
    for name, body in BUILT.items():
        (place / name).write_bytes(body)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(assets, "BUILT", place)
        yield place


@pytest.fixture(scope="module")
def client(analyzer, built):
    assert built.is_dir()
    parts = AnalyzerPages(store=analyzer.store, keyring=analyzer.keyring, limits=Limits())
    routes = pages.pages(parts)
    app = analyzer_app(analyzer.store, analyzer.keyring, pages=routes)
    with serving(app) as url, httpx.Client(base_url=url, timeout=60) as made:
        yield made


def page(client, survey):
    found = client.get(f"/answer/{survey.id}")
    assert found.status_code == 200
    return Page(found.text)


def promise(client, survey):
    return client.get(f"/v1/surveys/{survey.id}/promise").json()


@pytest.mark.parametrize("name", ["plain", "number", "many", "crowd"])
def test_the_numbers_are_those_of_the_accountant(client, analyzer, name):
    survey = getattr(analyzer, name)
    kept = survey.guarantee(survey.batches.minimum)
    said, read = promise(client, survey), page(client, survey)
    assert said["epsilon"] == kept.epsilon
    assert said["delta"] == survey.delta
    assert said["honest"] == kept.n == survey.honest(survey.batches.minimum)
    assert said["minimum"] == survey.batches.minimum
    alone = kept.local_epsilon
    assert said["local_epsilon"] == (None if math.isinf(alone) else alone)
    shown = read.of["promise"]
    assert f"(ε = {up(kept.epsilon)})" in shown
    assert f"factor of {factor(kept.epsilon)} " in shown
    assert "(δ = 10⁻⁶)" in shown
    assert f"at least {survey.batches.minimum:,} are together" in shown
    if math.isinf(alone):
        assert "nothing is left" in shown
    else:
        assert f"(ε0 = {up(alone)})" in shown
        assert alone == pytest.approx(survey.reports_per_person * survey.device.local_epsilon)


def test_the_page_says_what_the_promise_says(client, analyzer):
    for survey in (analyzer.plain, analyzer.many, analyzer.crowd):
        said, read = promise(client, survey), page(client, survey)
        assert said["leaves"] == read.of["leaves"]
        for statement in said["statements"]:
            assert statement["title"] + statement["text"] in read.of["promise"]
        assert all(step in read.of["steps"] for step in said["steps"])
        assert said["served"] in read.text
        assert str(survey.id) in read.text
        links = [link["href"] for link in read.all("a")]
        assert f"/v1/surveys/{survey.id}" in links


def test_what_is_counted_on_is_said(client, analyzer):
    plain_one = page(client, analyzer.plain).of["promise"]
    assert "10 of 100 reports are made up" in plain_one
    assert "at least 45 real ones" in plain_one
    assert "shuffler.example:8443 (the shuffler)" in plain_one
    assert "You can answer once. Your browser makes sure of that here, but" in plain_one
    assert "You cannot take back what you have sent" in plain_one
    many = page(client, analyzer.many).of["promise"]
    assert "up to 2 times" in many
    assert "Here both are on one machine" in many
    crowd = page(client, analyzer.crowd)
    assert "takes part in 25 of 100 cases" in crowd.of["promise"]
    assert analyzer.crowd.terms.delta_taking_part == pytest.approx(4e-6)
    assert "δ is 4·10⁻⁶ for you" in crowd.of["promise"]
    assert "A smaller batch is deleted unread." in crowd.of["steps"]


def test_who_can_answer_is_said(client, analyzer):
    survey = analyzer.plain
    anybody = page(client, survey).of["promise"]
    assert "Who can answerAnybody, as often as they like (crowd assumed, not checked)." in anybody
    least = survey.batches.minimum
    for made_up, said in ((1, "If 1 of 100 reports"), (5, "if 10 of 100"), (25, "if 50 of 100")):
        epsilon = promised(survey.devices, survey.terms.trusting, least - made_up).epsilon
        assert said in anybody
        assert f"{factor(epsilon)} (ε = {up(epsilon)})" in anybody
    people = page(client, analyzer.invited).of["promise"]
    assert "Who can answerOnly the 60 people who were invited." in people
    assert "You trust those who invite not to make people up" in people
    assert "with the shuffler they could tell that you took part" in people
    assert "You can answer once. The shuffler makes sure of that" in people
    assert "at most 3 of those invited break the rules" in people
    assert "at least 47 real ones" in people
    assert "assumed, not checked" not in people


def test_hostile_words_stay_words(client, analyzer):
    read = page(client, analyzer.plain)
    assert read.of["question"] == HOSTILE
    assert read.of["purpose"] == HOSTILE
    assert HOSTILE in read.of["choices"]
    assert not read.all("img")
    (script,) = read.all("script")
    assert script["src"].startswith("/assets/survey.js?v=")
    names = {name for _, attributes in read.elements for name in attributes}
    assert not {name for name in names if name.startswith("on")} | names & {"style", "srcdoc"}
    assert not read.all("style")


def test_the_page_may_talk_to_the_shuffler_and_nobody_else(client, analyzer):
    headers = client.get(f"/answer/{analyzer.plain.id}").headers
    allowed = dict(part.split(" ", 1) for part in headers["content-security-policy"].split("; "))
    assert allowed["default-src"] == "'none'"
    assert allowed["script-src"] == allowed["style-src"] == "'self'"
    assert allowed["connect-src"] == "'self' https://shuffler.example:8443"
    assert allowed["frame-ancestors"] == allowed["base-uri"] == "'none'"
    assert headers["referrer-policy"] == "no-referrer"
    assert headers["x-content-type-options"] == "nosniff"
    assert "set-cookie" not in headers


def test_the_form_is_labelled_and_off_until_the_script_is_there(client, analyzer):
    read = page(client, analyzer.plain)
    (html,) = read.all("html")
    assert html["lang"] == "en"
    assert read.of["legend"] == HOSTILE
    (fields,) = read.all("fieldset")
    assert "disabled" in fields
    described = fields["aria-describedby"].split()
    assert {each.get("id") for each in read.all("p")} >= set(described)
    radios = [each for each in read.all("input") if each["type"] == "radio"]
    assert [radio["value"] for radio in radios] == ["0", "1", "2"]
    assert len(read.all("label")) == 3
    (button,) = read.all("button")
    assert "disabled" in button
    marked = [each.get("class") for each in read.all("div")]
    assert marked == ["failed", "choices", "told"]  # what is wrong is said above the answers
    assert [each["role"] for each in read.all("div") if "role" in each] == ["alert", "status"]
    assert "Answering needs JavaScript" in read.of["noscript"]
    assert "Nothing was sent." in read.of["noscript"]


def test_numbers_have_their_bounds_and_many_answers_a_field_to_search(client, analyzer):
    (field,) = page(client, analyzer.number).all("input")
    assert (field["type"], float(field["min"]), float(field["max"])) == ("number", -1.5, 120.0)
    read = page(client, analyzer.many)
    kinds = [each["type"] for each in read.all("input")]
    assert kinds[0] == "search"
    assert kinds.count("radio") == 50
    assert "50 of 70 answers are shown." in read.of["count"]


def test_a_survey_that_is_over_or_has_not_begun_says_so(client, analyzer):
    for moved, said in ((31 * DAY, "ended on 14 February 2027, 08:00"), (-DAY, "has not begun")):
        analyzer.clock.advance(moved)
        try:
            read = page(client, analyzer.plain)
        finally:
            analyzer.clock.advance(-moved)
        assert said in read.of["failed"]
        assert "Nothing can be sent." in read.of["failed"]
        assert not read.of.get("told")
    assert "failed" not in page(client, analyzer.plain).of
    assert analyzer.clock() == START


def test_where_results_appear_is_told_if_everybody_may_read_them(analyzer):
    survey = analyzer.plain
    for public, address in ((True, f"/dashboard/surveys/{survey.id}"), (False, None)):
        response = pages.survey_page(survey, START, public_results=public)
        (element,) = Page(response.body.decode()).all("shoal-survey")
        assert element.get("results") == address


@pytest.mark.parametrize(
    ("said", "addresses"),
    [
        ("There is no such survey", [f"/{'0' * 64}", "/nonsense", "/%3Cscript%3E"]),
        ("This address is incomplete", ["", "/"]),
    ],
)
def test_an_address_without_a_survey_is_said_in_words(client, said, addresses):
    for address in addresses:
        found = client.get(f"/answer{address}")
        assert found.status_code == 404
        assert found.headers["content-type"].startswith("text/html")
        assert "default-src 'none'" in found.headers["content-security-policy"]
        assert said in found.text
        assert "Nothing was sent." in found.text


def test_the_limit_and_what_is_kept_have_a_name_each(client, analyzer):
    survey = analyzer.plain
    kept = survey.guarantee(survey.batches.minimum).epsilon
    assert kept < survey.epsilon
    numbers = page(client, survey).of["numbers"]
    assert f"ε at the smallest crowd{up(kept)}" in numbers
    assert f"ε promised at most{up(survey.epsilon)}δ" in numbers


def test_a_slash_at_the_end_of_an_address_is_no_other_survey(client, analyzer):
    found = client.get(f"/answer/{analyzer.plain.id}/")
    assert found.headers["location"] == f"/answer/{analyzer.plain.id}"


def test_the_script_is_for_other_sites_too(client, analyzer):
    embedded = client.get("/embed.js")
    assert embedded.content == BUILT["survey.js"]
    assert embedded.headers["access-control-allow-origin"] == "*"
    told = client.get(f"/v1/surveys/{analyzer.plain.id}/promise")
    assert told.headers["access-control-allow-origin"] == "*"
    worker = client.get("/answer/offline.js")
    assert worker.content == BUILT["offline.js"]
    assert worker.headers["content-type"].startswith("text/javascript")
    again = client.get("/embed.js", headers={"If-None-Match": embedded.headers["etag"]})
    assert again.status_code == 304


def test_without_its_script_the_page_says_so(client, analyzer, tmp_path, monkeypatch):
    monkeypatch.setattr(assets, "BUILT", tmp_path)
    read = page(client, analyzer.plain)
    assert assets.NOT_BUILT in read.text
    assert not read.all("script")
    assert client.get("/embed.js").status_code == 404


def test_the_promise_has_the_members_that_are_described(client, analyzer):
    document = client.get("/openapi.json").json()
    described = document["components"]["schemas"]["Promise"]["properties"]
    for survey in (analyzer.plain, analyzer.crowd):
        found = promise(client, survey)
        assert set(found) == set(described)
    assert client.get(f"/v1/surveys/{'0' * 64}/promise").status_code == 404


def test_words_and_numbers_leave_nothing_to_fill_in(client, analyzer):
    for survey in (analyzer.plain, analyzer.number, analyzer.many, analyzer.crowd):
        text = page(client, survey).text.replace(HOSTILE, "")
        assert not re.search(r"\b(None|nan|inf)\b|[{}]", text)
