"""All routes of the pages that an analyzer serves to people."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route

from shoal.service.analyzer.app import AnalyzerPages
from shoal.service.http import requests
from shoal.web import answering, assets, dashboard
from shoal.web.dashboard.layout import HOME


def pages(analyzer: AnalyzerPages) -> list[Route]:
    """The routes; each asks the analyzer's store for what it shows."""
    return [
        Route("/", _begin, name="begin"),
        *assets.routes(),
        *answering.routes(analyzer),
        *dashboard.routes(analyzer),
    ]


async def _begin(_request: Request) -> Response:
    return RedirectResponse(HOME, 303, headers=requests.NOT_KEPT)
