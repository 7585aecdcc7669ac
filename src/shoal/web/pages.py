"""All routes of the pages that an analyzer serves to people."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route

from shoal.service.analyzer.app import AnalyzerPages
from shoal.web import answering, assets, dashboard


def pages(analyzer: AnalyzerPages) -> list[Route]:
    """The routes; each asks the analyzer's store for what it shows."""
    return [
        Route("/", _begin, name="begin"),
        *assets.routes(),
        *answering.routes(analyzer),
        *dashboard.routes(analyzer),
    ]


async def _begin(_request: Request) -> Response:
    return RedirectResponse("/dashboard", 303, headers={"Cache-Control": "no-store"})
