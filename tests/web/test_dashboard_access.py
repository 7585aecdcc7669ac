"""Who sees what on the dashboard: sessions that end with their tokens, scopes, forms of others."""

from __future__ import annotations

import asyncio

import httpx
import pytest
from starlette.requests import Request

from dashboard_kit import Page, dashboard_of, login, shown
from factories import DAY
from service_site import HOUR, Analyzer
from shoal.service.errors import NotAuthorizedError
from shoal.service.http.limits import Limits
from shoal.service.http.problems import ProblemError
from shoal.web.access import LOGIN_COST, MISSING, WRONG, Sessions

PUBLISHED, WITHHELD = "11" * 16, "22" * 16
OPERATORS = ("keys", "rejected")


@pytest.fixture(scope="module")
def analyzer(tmp_path_factory):
    made = Analyzer(tmp_path_factory.mktemp("analyzer") / "a")
    made.first = made.asking()
    made.second = made.asking(name="another", question="What else?")
    made.send(made.first, [0] * 60, batch=PUBLISHED)
    made.send(made.first, [1] * 20, batch=WITHHELD, seed=2)
    made.collect(made.first)
    yield made
    made.close()


@pytest.fixture(scope="module")
def everybodys(analyzer):
    with shown(analyzer) as made:
        yield made


@pytest.fixture
def client(everybodys):
    everybodys.cookies.clear()
    return everybodys


@pytest.fixture(scope="module")
def token(analyzer):
    return analyzer.store.tokens.add("all", None, 30 * DAY)


def path(survey, rest=""):
    return f"/dashboard/surveys/{survey.id}{rest}"


def test_without_a_session_every_page_asks_for_a_token_and_comes_back(analyzer, client, token):
    asked = path(analyzer.first, "?order=asked")
    for address in ("/dashboard", asked, path(analyzer.first, f"/batches/{PUBLISHED}")):
        answer = client.get(address)
        assert answer.status_code == 303
        assert answer.headers["location"].startswith("/dashboard/login?going=")
    form = Page(client.get(client.get(asked).headers["location"]).text)
    (going,) = form.all("input", name="going")
    answer = client.post("/dashboard/login", data={"token": token, "going": going["value"]})
    assert (answer.status_code, answer.headers["location"]) == (303, asked)
    assert client.get(asked).status_code == 200


@pytest.mark.parametrize(
    ("given", "said", "status"),
    [("", MISSING, 400), ("shoal_0123", WRONG, 401), ("x" * 2000, WRONG, 401)],
)
def test_a_token_that_does_not_count_is_told_in_words(client, given, said, status):
    answer = login(client, given)
    page = Page(answer.text)
    assert answer.status_code == status
    assert "set-cookie" not in answer.headers
    assert page.of["refusal"] == said
    assert page.all("p", role="alert")
    assert not client.cookies
    assert "x" * 2000 not in answer.text


def test_the_cookie_is_for_this_site_and_for_no_script(analyzer, client, token):
    cookie = login(client, token).headers["set-cookie"].lower()
    assert "httponly" in cookie
    assert "samesite=strict" in cookie
    assert "path=/dashboard" in cookie
    assert "secure" not in cookie
    assert token not in cookie
    told = {"X-Forwarded-Proto": "https"}
    assert "secure" not in login(client, token, **told).headers["set-cookie"].lower()
    with shown(analyzer, proxied=True) as proxied:
        assert "secure" in login(proxied, token, **told).headers["set-cookie"].lower()


def test_a_session_ends_with_its_token(analyzer, client):
    login(client, analyzer.store.tokens.add("revoked", None, DAY))
    assert client.get("/dashboard").status_code == 200
    analyzer.store.tokens.revoke("revoked")
    assert client.get("/dashboard").status_code == 303
    login(client, analyzer.store.tokens.add("short", None, HOUR))
    assert client.get("/dashboard").status_code == 200
    analyzer.clock.advance(HOUR)
    assert client.get("/dashboard").status_code == 303


def test_a_session_ends_by_itself_and_at_logout(analyzer, client, token):
    login(client, token)
    kept = dict(client.cookies)
    assert client.get("/dashboard").status_code == 200
    answer = client.post("/dashboard/logout", data={})
    assert answer.headers["location"] == "/dashboard/login"
    assert not client.cookies
    client.cookies.update(kept)
    assert client.get("/dashboard").status_code == 303
    client.cookies.clear()
    login(client, token)
    analyzer.clock.advance(13 * HOUR)
    assert client.get("/dashboard").status_code == 303


def test_a_token_for_one_survey_shows_no_other(analyzer, client):
    login(client, analyzer.store.tokens.add("one", analyzer.first.id, DAY))
    page = Page(client.get("/dashboard").text)
    assert path(analyzer.first) in page.links()
    assert path(analyzer.second) not in page.links()
    assert client.get(path(analyzer.first)).status_code == 200
    for rest in ("", "/version", "/download/results.csv", f"/batches/{PUBLISHED}"):
        answer = client.get(path(analyzer.second, rest))
        assert answer.status_code == 403
        assert Page(answer.text).all("p", role="alert")


@pytest.mark.parametrize(
    "headers",
    [
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-site"},
        {"Origin": "https://evil.example"},
        {"Origin": "null"},
    ],
)
def test_forms_of_other_sites_do_nothing(client, token, headers):
    assert login(client, token, **headers).status_code == 403
    assert not client.cookies
    login(client, token, **{"Sec-Fetch-Site": "same-origin"})
    assert client.post("/dashboard/logout", data={}, headers=headers).status_code == 403
    assert client.get("/dashboard").status_code == 200


def test_a_form_of_this_site_may_say_where_it_comes_from(client, token):
    assert login(client, token, Origin=str(client.base_url).rstrip("/")).status_code == 303


@pytest.mark.parametrize(
    "going", ["//evil.example", "https://evil.example", "/dashboard\\@evil", "/dashboard\nx", "/v1"]
)
def test_a_login_leads_nowhere_else(client, token, going):
    answer = client.post("/dashboard/login", data={"token": token, "going": going})
    assert answer.headers["location"] == "/dashboard"


def test_only_a_small_form_is_read(client, token):
    assert client.post("/dashboard/login", json={"token": token}).status_code == 415
    assert login(client, "x" * 5000).status_code == 413
    sent = {"Content-Type": "application/x-www-form-urlencoded"}
    answer = client.post("/dashboard/login", content=b"token=\xff", headers=sent)
    assert answer.status_code == 400


def test_tries_to_log_in_are_limited(analyzer):
    access = dashboard_of(analyzer, limits=Limits(address_burst=3 * LOGIN_COST)).access
    form = b"token=wrong"
    kind = (b"content-type", b"application/x-www-form-urlencoded")

    async def receive():
        return {"type": "http.request", "body": form, "more_body": False}

    def tried(address):
        scope = {
            "type": "http",
            "method": "POST",
            "path": "/dashboard/login",
            "query_string": b"",
            "headers": [kind],
            "client": (address, 1),
        }
        return asyncio.run(access.login(Request(scope, receive)))

    for _ in range(3):
        assert tried("203.0.113.5").status_code == 401
    with pytest.raises(ProblemError) as refused:
        tried("203.0.113.5")
    assert refused.value.problem.status == 429
    assert tried("203.0.113.6").status_code == 401


def test_public_results_are_for_everybody_but_operators_see_more(analyzer, token):
    with shown(analyzer, public_results=True) as client:
        everybody = Page(client.get(path(analyzer.first)).text)
        assert "found" in everybody.of
        assert not set(OPERATORS) & set(everybody.of)
        assert WITHHELD[:8] not in everybody.of["batches"]
        assert "1 batch withheld" in everybody.of["batches"]
        assert client.get(path(analyzer.first, f"/batches/{PUBLISHED}")).status_code == 200
        assert client.get(path(analyzer.first, f"/batches/{WITHHELD}")).status_code == 303
        assert client.get(path(analyzer.first, "/download/results.csv")).status_code == 200
        login(client, token)
        operator = Page(client.get(path(analyzer.first)).text)
        assert set(OPERATORS) <= set(operator.of)
        assert WITHHELD[:8] in operator.of["batches"]
        assert "fewer than the survey's minimum" in operator.of["batches"]
        withheld = Page(client.get(path(analyzer.first, f"/batches/{WITHHELD}")).text)
        assert "Withheld: 20 valid reports" in withheld.of["found"]
        assert not withheld.all("figure")


def test_where_results_are_public_a_token_for_one_survey_takes_nothing_away(analyzer):
    with shown(analyzer, public_results=True) as client:
        login(client, analyzer.store.tokens.add("one", analyzer.second.id, DAY))
        other = client.get(path(analyzer.first))
        assert other.status_code == 200
        assert not set(OPERATORS) & set(Page(other.text).of)


def test_what_is_not_there_is_said_on_a_page(analyzer, client, token):
    login(client, token)
    for address in (
        "/dashboard/nothing",
        f"/dashboard/surveys/{'0' * 64}",
        "/dashboard/surveys/nonsense",
        path(analyzer.first, "/batches/nonsense"),
        path(analyzer.first, f"/batches/{'3' * 32}"),
        path(analyzer.first, "/download/secrets.txt"),
        path(analyzer.second, "/download/chart.png"),
    ):
        answer = client.get(address)
        assert answer.status_code == 404
        assert answer.headers["content-type"] == "text/html; charset=utf-8"
        assert Page(answer.text).all("p", role="alert")
    assert client.get("/assets/../pages.py").status_code == 404
    assert client.get("/assets/nothing.js").status_code == 404


def test_a_slash_at_the_end_of_an_address_is_no_other_page(analyzer, client, token):
    login(client, token)
    for address in ("/dashboard", path(analyzer.first)):
        answer = client.get(f"{address}/?order=asked")
        assert (answer.status_code, answer.headers["location"]) == (303, f"{address}?order=asked")
    assert client.get("/dashboard//").headers["location"] == "/dashboard"


def test_the_oldest_sessions_go_first(analyzer, token):
    sessions = Sessions(analyzer.store.tokens, analyzer.clock, most=2)
    names = [sessions.begin(token) for _ in range(3)]
    assert len(set(names)) == 3
    assert sessions.scope(names[0]) is None
    assert [sessions.scope(name).label for name in names[1:]] == ["all", "all"]
    assert sessions.scope("") is None
    assert sessions.scope("\udcff") is None
    with pytest.raises(NotAuthorizedError):
        sessions.begin("nonsense")


def test_what_a_page_needs_may_be_kept_and_is_the_same_bytes(client):
    page = Page(client.get("/dashboard/login").text)
    (style,) = page.all("link", rel="stylesheet")
    found = client.get(style["href"])
    assert "immutable" in found.headers["cache-control"]
    assert found.headers["content-type"] == "text/css; charset=utf-8"
    plain = httpx.URL(style["href"]).path
    again = client.get(plain, headers={"If-None-Match": found.headers["etag"]})
    assert (again.status_code, again.content) == (304, b"")
    assert again.headers["cache-control"] == "no-cache"
