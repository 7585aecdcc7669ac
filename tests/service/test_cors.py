"""Scripts of other sites: what they may use says so to everybody alike, and nothing else does."""

from __future__ import annotations

import pytest
from starlette.responses import PlainTextResponse
from starlette.routing import Route

from http_kit import BYTES, ask
from service_site import Analyzer, Shuffler
from shoal.service.analyzer.app import analyzer_app
from shoal.service.db.surveys import Surveys
from shoal.service.shuffler.batches import ProgressCache

ORIGIN = {"Origin": "https://page.example"}
ASKING = ORIGIN | {
    "Access-Control-Request-Method": "POST",
    "Access-Control-Request-Headers": "content-type",
}
BATCH = "0" * 32


class Asked:
    """An application, asked without a server."""

    def __init__(self, app, survey):
        self.app, self.path = app, f"/v1/surveys/{survey.id}"

    def ask(self, method, path, **given):
        return ask(self.app, path, method, **given)


@pytest.fixture
def shuffler(tmp_path):
    found = Shuffler.alone(tmp_path)
    found.site = Asked(found.app(address_rate=1.0, address_burst=1_000_000), found.survey)
    yield found
    found.close()


@pytest.fixture
def analyzer(tmp_path):
    found = Analyzer(tmp_path / "analyzer")
    survey = found.asking()

    async def embedded(_request):
        return PlainTextResponse("script")

    pages = [Route("/embed.js", embedded), Route("/dashboard", embedded)]
    found.site = Asked(analyzer_app(found.store, found.keyring, pages=pages), survey)
    yield found
    found.close()


def shared(answer):
    """What an answer says of other sites."""
    return {
        name.removeprefix("access-control-"): value
        for name, value in answer.headers.items()
        if name.startswith("access-control-") or name == "vary"
    }


READABLE = {"allow-origin": "*", "expose-headers": "retry-after"}


def preflight(methods):
    return {
        "allow-origin": "*",
        "allow-methods": methods,
        "allow-headers": "content-type",
        "max-age": "86400",
    }


def test_scripts_may_read_what_everybody_may_read_of_the_shuffler(shuffler):
    site = shuffler.site
    for path in ("/v1/keys", site.path, f"{site.path}/progress", f"{site.path}/keys/analyzer"):
        for headers in ({}, ORIGIN):
            assert shared(site.ask("GET", path, headers=headers)) == READABLE
        answer = site.ask("OPTIONS", path, headers=ASKING)
        assert (answer.status_code, answer.content) == (204, b"")
        assert shared(answer) == preflight("GET, HEAD, OPTIONS")


def test_scripts_may_send_reports_and_read_why_they_were_refused(shuffler):
    site = shuffler.site
    path = f"{site.path}/reports"
    assert shared(site.ask("OPTIONS", path, headers=ASKING)) == preflight("OPTIONS, POST")
    (report,) = shuffler.reports(1)
    sent = site.ask("POST", path, content=report, headers=BYTES | ORIGIN)
    assert sent.status_code == 202
    refused = [
        site.ask("POST", path, content=b"x", headers=BYTES),
        site.ask("POST", path, content=report),
        site.ask("POST", f"/v1/surveys/{'0' * 64}/reports", content=report, headers=BYTES),
        site.ask("GET", path),
    ]
    assert [answer.status_code for answer in refused] == [400, 415, 404, 405]
    assert all(shared(answer) == READABLE for answer in [sent, *refused])


def test_a_defect_is_readable_too(shuffler, monkeypatch):
    def broken(*_):
        raise ZeroDivisionError

    monkeypatch.setattr(ProgressCache, "of", broken)
    answer = shuffler.site.ask("GET", f"{shuffler.site.path}/progress")
    assert answer.status_code == 500
    assert shared(answer) == READABLE


def test_what_needs_a_token_is_for_no_script(shuffler, analyzer):
    places = [
        (shuffler.site, ("batches", f"batches/{BATCH}", f"batches/{BATCH}/ack")),
        (analyzer.site, ("results", f"results/{BATCH}", "ledger")),
    ]
    for site, names in places:
        for name in names:
            for method in ("GET", "POST", "OPTIONS"):
                answer = site.ask(method, f"{site.path}/{name}", headers=ASKING)
                assert shared(answer) == {}
                assert answer.status_code in {401, 405}


@pytest.mark.parametrize(
    "path", ["/openapi.json", "/v1", "/v1/keys/", "/v2/keys", "/v1/surveys/a/b"]
)
def test_other_paths_are_for_no_script(shuffler, path):
    assert shared(shuffler.site.ask("GET", path, headers=ORIGIN)) == {}
    assert shuffler.site.ask("OPTIONS", path, headers=ASKING).status_code in {404, 405}


def test_of_the_analyzer_keys_surveys_and_what_is_embedded(analyzer):
    site = analyzer.site
    for path in ("/v1/keys", "/v1/keys/shuffler", "/v1/surveys", site.path, "/embed.js"):
        assert shared(site.ask("GET", path, headers=ORIGIN)) == READABLE
        answer = site.ask("OPTIONS", path, headers=ASKING)
        assert shared(answer) == preflight("GET, HEAD, OPTIONS")
    assert shared(site.ask("GET", "/dashboard", headers=ORIGIN)) == {}


def test_a_preflight_is_the_same_for_everybody_and_touches_nothing(shuffler, monkeypatch):
    def touched(*_):
        raise AssertionError

    monkeypatch.setattr(Surveys, "row", touched)
    answers = [
        shuffler.site.ask("OPTIONS", f"/v1/surveys/{name}/reports", headers=headers)
        for name in (shuffler.survey.id, "0" * 64)
        for headers in ({}, ORIGIN, ASKING, ASKING | {"Origin": "null", "Cookie": "a=b"})
    ]
    assert len({(tuple(answer.headers.raw), answer.content) for answer in answers}) == 1
