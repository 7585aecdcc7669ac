"""Pages as answers: made from a template, with headers that let them do no more than they must."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response

from shoal.explain.text import duration, environment, render
from shoal.results.charts import counted
from shoal.results.result import TEMPLATES, sentences
from shoal.service.analyzer.decode import REASONS
from shoal.service.http import requests
from shoal.service.keyring.words import coming
from shoal.web import assets
from shoal.web.charts import ORDERS, short
from shoal.web.downloads import FILES

if TYPE_CHECKING:
    from jinja2 import Environment


@cache
def templates() -> Environment:
    """All templates of pages, with what they call."""
    made = environment(Path(__file__).parent / "templates", TEMPLATES)
    made.globals |= {
        "FILES": FILES,
        "NOT_BUILT": assets.NOT_BUILT,
        "ORDERS": ORDERS,
        "REASONS": REASONS,
        "asset": assets.asset,
        "coming": coming,
        "survey_page": "/dashboard/surveys/{}".format,
        "counted": counted,
        "infinity": math.inf,
        "sentences": sentences,
        "short": short,
    }
    made.filters["duration"] = duration
    return made


def page(
    template: str,
    *,
    connect: Iterable[str] = (),
    status: int = 200,
    headers: Mapping[str, str] | None = None,
    **values: object,
) -> HTMLResponse:
    """The page that a template makes of values; ``connect`` are other origins that it asks."""
    origins = " ".join(["'self'", *connect])
    always = {
        "Content-Security-Policy": (
            "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
            f"connect-src {origins}; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
        ),
        "X-Content-Type-Options": "nosniff",
        "Referrer-Policy": "no-referrer",
        "Cache-Control": "no-store",
    }
    text = render(templates(), template, **values)
    return HTMLResponse(text, status, {**always, **(headers or {})})


def address(request: Request) -> str:
    """Path and query of a request."""
    query = request.url.query
    return f"{request.url.path}?{query}" if query else request.url.path


async def without_slash(request: Request) -> Response:
    """To the same address without the slash at its end."""
    path, mark, query = address(request).partition("?")
    return RedirectResponse(f"{path.rstrip('/')}{mark}{query}", 303, headers=requests.NOT_KEPT)
