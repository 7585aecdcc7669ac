"""What every page here has around it: its head, and headers that let it do no more than it must."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response

from shoal.report.markup import Markup, document, element
from shoal.service.http import requests
from shoal.web import assets


def policy(connect: Iterable[str] = ()) -> str:
    """The Content-Security-Policy: everything from here; ``connect`` are other origins to ask."""
    asked = " ".join(["'self'", *connect])
    return (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
        f"connect-src {asked}; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
    )


def page(
    title: str,
    body: Sequence[str],
    *,
    styles: Sequence[str] = (),
    scripts: Sequence[str] = (),
    head: Sequence[Markup] = (),
    connect: Iterable[str] = (),
    status: int = 200,
    headers: Mapping[str, str] | None = None,
) -> HTMLResponse:
    """A whole page; ``body`` is what its body element holds, text escaped unless it is markup."""
    top = [
        element("link", rel="icon", href="data:,"),
        *head,
        *map(assets.style, styles),
        *map(assets.script, scripts),
    ]
    told = {
        "Content-Security-Policy": policy(connect),
        "X-Content-Type-Options": "nosniff",
        "Referrer-Policy": "no-referrer",
        "Cache-Control": "no-store",
        **(headers or {}),
    }
    return HTMLResponse(document(title, *body, head=top), status, told)


def address(request: Request) -> str:
    """What was asked for, with its query."""
    query = request.url.query
    return f"{request.url.path}?{query}" if query else request.url.path


async def without_slash(request: Request) -> Response:
    """To the same address without the slash at its end."""
    path, mark, query = address(request).partition("?")
    going = f"{path.rstrip('/')}{mark}{query}"
    return RedirectResponse(going, 303, headers=requests.NOT_KEPT)
