"""What the dashboard knows of a batch that is open: what everybody knows, and asked for rarely."""

from __future__ import annotations

import threading

import httpx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dashboard_kit import Page, client_of, dashboard_of, login, shown
from http_kit import serving
from service_site import Analyzer, live
from shoal.service.analyzer.app import AnalyzerPages, analyzer_app
from shoal.service.client import seal_many
from shoal.service.http.limits import Limits
from shoal.service.survey import Batches
from shoal.service.survey.promise import promised
from shoal.web.background import (
    EVERY,
    FAKE_FRACTIONS,
    POINTS,
    UNREACHABLE,
    Background,
    Crowd,
    Progress,
    _Entry,
    ask_shuffler,
    sizes,
)
from shoal.web.dashboard import Dashboard

NOW = 1_772_006_820  # 08:07 UTC
numbers = st.one_of(st.none(), st.integers(), st.floats(), st.booleans(), st.text(max_size=3))


@pytest.fixture(scope="module")
def analyzer(tmp_path_factory):
    made = Analyzer(tmp_path_factory.mktemp("analyzer") / "a")
    made.survey = made.asking()
    yield made
    made.close()


def sent(body):
    """An answer whose body is still on its way."""
    return httpx.Response(200, stream=httpx.ByteStream(body))


@given(share=st.floats(0, 1), closes_in=st.integers(0, 10**7))
@settings(deadline=None, derandomize=True)
def test_a_shuffler_that_says_more_is_heard_in_quarters_and_hours(share, closes_in):
    found = Progress.of({"share": share, "minimum": 100, "closes_in": closes_in}, NOW)
    assert found.reachable
    assert found.quarters in range(5)
    assert 0 <= share - found.quarters / 4 < 0.25
    if found.quarters:
        assert 0 <= 3600 * found.closes_in - closes_in < 3600
    else:
        assert found.closes_in is None


@given(share=numbers, closes_in=numbers, as_of=numbers)
@settings(deadline=None, derandomize=True)
def test_nonsense_is_nothing(share, closes_in, as_of):
    found = Progress.of({"share": share, "closes_in": closes_in, "as_of": as_of}, NOW)
    assert NOW - 3600 <= found.as_of <= NOW
    assert found.quarters in {None, 0, 1, 2, 3, 4}
    assert found.closes_in is None or found.closes_in >= 0
    assert Progress.of([share], NOW) == UNREACHABLE


@pytest.mark.parametrize(
    "answer",
    [
        httpx.Response(500),
        httpx.Response(404),
        httpx.Response(302, headers={"Location": "http://elsewhere"}),
        sent(b"nonsense"),
        sent(b"[" * 3000),
        sent(b'{"share": 1, "more": "' + b"x" * 10_000 + b'"}'),
    ],
)
def test_a_shuffler_that_does_not_answer_is_not_reachable(analyzer, answer):
    transport = httpx.MockTransport(lambda _request: answer)
    assert ask_shuffler(analyzer.survey, transport) == UNREACHABLE


def test_the_shuffler_is_asked_without_a_token(analyzer):
    seen = []

    def answer(request):
        seen.append(request)
        return sent(b'{"share": 0.5, "minimum": 50, "closes_in": 4000}')

    found = ask_shuffler(analyzer.survey, httpx.MockTransport(answer), clock=lambda: NOW)
    assert found == Progress(reachable=True, quarters=2, closes_in=2, as_of=NOW, again=NOW + 600)
    (request,) = seen
    assert str(request.url) == f"http://localhost:1/v1/surveys/{analyzer.survey.id}/progress"
    assert "authorization" not in request.headers


def test_the_page_says_how_old_its_progress_is(analyzer):
    said = {"share": 0.25, "minimum": 50, "closes_in": None, "as_of": NOW - 240}
    old = Progress.of(said, NOW)
    assert (old.as_of, old.again) == (NOW - 240, NOW + 600)
    assert Progress.of(said | {"as_of": NOW + 1}, NOW).as_of == NOW  # another clock
    with shown(analyzer, ask=lambda _survey: old, public_results=True) as client:
        text = Page(client.get(f"/dashboard/surveys/{analyzer.survey.id}").text).of["crowd"]
    assert "is there, as of 08:03 UTC" in text
    assert "looked at every ten minutes: the next time after 08:17 UTC" in text


def test_nobody_is_asked_twice_within_the_interval_however_many_look(analyzer):
    seen = []

    def ask(survey):
        seen.append(survey.id)
        return Progress(reachable=True, quarters=3)

    with shown(analyzer, ask=ask, public_results=True) as client:
        for _ in range(3):
            page = Page(client.get(f"/dashboard/surveys/{analyzer.survey.id}").text)
            assert "At least three quarters of the smallest crowd of 50" in page.of["crowd"]
            client.get("/dashboard")
            client.get(f"/dashboard/surveys/{analyzer.survey.id}/version")
    assert seen == [analyzer.survey.id]
    assert Progress(reachable=True).lifetime == EVERY == 600
    assert UNREACHABLE.lifetime < EVERY


@pytest.mark.parametrize(
    ("progress", "said"),
    [
        (UNREACHABLE, "not reachable"),
        (Progress(reachable=True), "would be a handful of people"),
        (Progress(reachable=True, quarters=0), "Less than a quarter"),
        (Progress(reachable=True, quarters=4, closes_in=1), "closes in at most 1 hour"),
    ],
)
def test_whatever_is_told_is_said_in_words(analyzer, progress, said):
    with shown(analyzer, ask=lambda _survey: progress, public_results=True) as client:
        assert said in Page(client.get("/dashboard").text).text


def test_a_page_does_not_wait_for_a_shuffler_that_is_silent(analyzer):
    silent = threading.Event()

    def ask(_survey):
        silent.wait(60)
        return UNREACHABLE

    dashboard = dashboard_of(analyzer, ask=ask, public_results=True)
    dashboard._progress.timeout = 0.01
    app = analyzer_app(
        analyzer.store, analyzer.keyring, public_results=True, pages=dashboard.routes()
    )
    with serving(app) as url, client_of(url) as client:
        try:
            assert "Asking the shuffler." in Page(client.get("/dashboard").text).text
        finally:
            silent.set()


def test_what_comes_later_is_made_once_kept_and_made_again_in_time():
    made, now, broken = [], [0.0], [False]

    def make(key):
        made.append(key)
        if broken[0]:
            raise ValueError(key)
        return len(made)

    later = Background(make, lifetime=lambda _: 10.0, again=5.0, timeout=60.0, timer=lambda: now[0])
    assert [later.get("a"), later.get("a"), later.get("b")] == [1, 1, 2]
    now[0] = 10.0
    later.get("a")  # the one before, or already the next
    later._entries["a"].done.wait(60)
    _settled(later, "a")
    assert later.get("a") == 3
    broken[0] = True
    assert later.get("c") is None
    assert later.get("c") is None
    assert made.count("c") == 1
    broken[0], now[0] = False, 15.0
    later.get("c")
    _settled(later, "c")
    assert later.get("c") == 5


def test_a_page_waits_once_for_all_that_it_asks_for():
    waits, silent = [], threading.Event()

    class Counted(threading.Event):
        def wait(self, timeout=None):
            waits.append(timeout)
            return super().wait(timeout)

    later = Background(lambda _key: silent.wait(60), timeout=0.2)
    later._entries = {key: _Entry(done=Counted()) for key in range(20)}
    assert later.all(range(20)) == dict.fromkeys(range(20))
    assert len(waits) == 20
    assert sum(waits) < 0.4  # 4 if it waited for each anew
    silent.set()
    for key in range(20):
        later._entries[key].done.wait(60)
    assert later.all(range(20)) == dict.fromkeys(range(20), True)


def _settled(later, key):
    for thread in threading.enumerate():
        if thread.name.startswith("background"):
            thread.join(60)
    assert not later._entries[key].working


def test_one_more_report_changes_nothing_on_any_page(tmp_path):
    """Neither at once, nor when everything is looked at anew: a quarter is more than one."""
    with live(tmp_path, minimum=60, target=80) as service:
        keys, worker = service.keys(), service.shuffler_worker()
        token = service.analyzer.store.tokens.add("all", None, 10**6)

        def send(people):
            reports = seal_many(service.survey, np.ones(people, dtype=np.int64), keys)
            assert service.post(reports).status_code == 202
            while worker.step():
                pass

        def looked():
            """What the shuffler tells when it looks at its batch again."""
            service.shuffler.store.progress._seen.clear()
            return service.http.get(f"{service.path}/progress").json()["share"]

        send(31)
        assert looked() == 0.5
        before = rendered(service, token)
        send(1)
        assert rendered(service, token) == before  # as the shuffler has seen it before
        assert looked() == 0.5
        assert rendered(service, token) == before  # and anew
        send(20)
        assert looked() == 0.75
        assert rendered(service, token) != before


def rendered(service, token):
    """All pages, by a process that remembers nothing."""
    half = service.analyzer
    pages = AnalyzerPages(store=half.store, keyring=half.keyring, limits=Limits())
    routes = Dashboard(pages, timeout=60.0).routes()
    here = f"/dashboard/surveys/{service.survey.id}"
    addresses = ("/dashboard", here, f"{here}?order=asked", f"{here}/version")
    with (
        serving(analyzer_app(half.store, half.keyring, pages=routes)) as url,
        client_of(url) as client,
    ):
        login(client, token)
        return {address: client.get(address).text for address in addresses}


def test_the_crowd_is_the_survey_s_own_accountant(analyzer):
    survey = analyzer.survey
    found = Crowd.of(survey, 1500)
    assert POINTS <= len(found.curve) <= POINTS + 3
    assert [valid for valid, _ in found.curve] == sizes(survey)
    assert sizes(survey)[0] == survey.batches.minimum
    assert survey.batches.target in sizes(survey)
    assert sizes(survey)[-1] == 10 * survey.batches.target
    for valid, epsilon in found.curve[::4]:
        assert epsilon == survey.guarantee(valid).epsilon
    assert len(found.fakes) == len(FAKE_FRACTIONS)
    for fakes in found.fakes:
        assert fakes.reports + fakes.left == survey.honest(survey.batches.minimum)
        assert fakes.epsilon == survey.guarantee(fakes.left).epsilon
    assert [made_up.left for made_up in found.made_up] == [1485, 1350, 750]
    trusting = survey.terms.trusting
    for made_up in found.made_up:
        assert made_up.epsilon == promised(survey.devices, trusting, made_up.left).epsilon


def test_a_crowd_of_one_size_has_its_curve_too(analyzer):
    survey = analyzer.asking(name="equal", batches=Batches(minimum=50, target=50, max_age=3600))
    assert sizes(survey)[0] == 50
    assert sizes(survey)[-1] == 500
    assert len(Crowd.of(survey, 1500).curve) == len(sizes(survey))
