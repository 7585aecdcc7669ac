"""How people come to the dashboard: its address in the log, and a link that logs in."""

from __future__ import annotations

import stat
from functools import partial
from types import SimpleNamespace

import pytest
from starlette.routing import Route

from dashboard_kit import login, shown
from service_site import HOUR, Analyzer
from shoal.service.analyzer.app import AnalyzerPages, analyzer_app, no_pages
from shoal.service.analyzer.store import AnalyzerStore
from shoal.service.clock import ManualClock
from shoal.service.http.limits import Limits
from shoal.service.ops import logs
from shoal.service.ops.up import Embedded, trial_survey
from shoal.web.pages import pages


@pytest.fixture
def analyzer(tmp_path):
    made = Analyzer(tmp_path / "a")
    yield made
    made.close()


def shared(analyzer):
    return AnalyzerPages(store=analyzer.store, keyring=analyzer.keyring, limits=Limits())


def test_a_new_directory_has_a_link_that_logs_in(tmp_path):
    clock = ManualClock(1_800_000_000)
    embedded = Embedded(directory=tmp_path / "up")
    design = partial(trial_survey, question="Which?", answers=("a", "b"), people=100)
    survey = embedded.make(design, {"shuffler": 1, "analyzer": 2}, clock=clock)
    embedded.make_login(survey, clock=clock)
    assert stat.S_IMODE((embedded.directory / "dashboard").stat().st_mode) == 0o600
    place, _, token = (embedded.directory / "dashboard").read_text().strip().partition("#")
    assert place == "http://127.0.0.1:2/dashboard/login"
    home = embedded.home("analyzer")
    database = home.database()
    try:
        store = AnalyzerStore(database, home.directory, clock)
        scope = store.tokens.check(token, survey.id)
        assert (scope.label, scope.survey) == ("dashboard", None)
        assert scope.expires > survey.not_after
        before = (embedded.directory / "dashboard").read_bytes()
        embedded.make_login(survey, clock=clock)
        assert (embedded.directory / "dashboard").read_bytes() == before
        keyring = home.keyring(None, clock=clock)
        party = SimpleNamespace(store=store, keyring=keyring)
        with shown(party) as client:
            assert login(client, token).status_code == 303
            assert survey.question in client.get("/dashboard").text
            clock.advance(13 * HOUR)
            assert client.get("/dashboard").status_code == 303
    finally:
        database.close()


def test_the_log_may_say_where_it_is():
    shown = {"address": "http://127.0.0.1:8461/dashboard"}
    assert logs.allowed(shown) == shown
    assert not logs.allowed({"address": "http://127.0.0.1:8461/dashboard/login#shoal_00"})


def test_pages_are_beside_the_paths_for_programs(analyzer):
    found = pages(shared(analyzer))
    assert all(isinstance(route, Route) for route in found)
    app = analyzer_app(analyzer.store, analyzer.keyring, pages=found)
    paths = [route.path for route in app.routes]
    assert {"/", "/dashboard", "/assets/{name}", "/v1/keys"} <= set(paths)
    assert not no_pages(shared(analyzer))
