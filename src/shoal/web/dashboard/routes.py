"""Where the pages of the dashboard are."""

from __future__ import annotations

from starlette.routing import Route

from shoal.service.analyzer.app import AnalyzerPages
from shoal.web.dashboard.handlers import Dashboard

_SURVEY = "/dashboard/surveys/{survey}"


def routes(analyzer: AnalyzerPages) -> list[Route]:
    """The dashboard of an analyzer."""
    return routes_of(Dashboard(analyzer))


def routes_of(dashboard: Dashboard) -> list[Route]:
    """The routes of a dashboard that is made already."""
    shown, access = dashboard.shown, dashboard.access
    return [
        Route("/dashboard", shown(dashboard.surveys)),
        Route("/dashboard/login", shown(access.login_page), methods=["GET"]),
        Route("/dashboard/login", shown(access.login), methods=["POST"]),
        Route("/dashboard/logout", shown(access.logout), methods=["POST"]),
        Route(_SURVEY, shown(dashboard.survey)),
        Route(f"{_SURVEY}/version", shown(dashboard.version)),
        Route(f"{_SURVEY}/batches/{{batch}}", shown(dashboard.batch)),
        Route(f"{_SURVEY}/download/{{file}}", shown(dashboard.download)),
        Route("/dashboard/{rest:path}", shown(dashboard.missing)),
    ]
