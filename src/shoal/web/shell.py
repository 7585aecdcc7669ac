"""What every page here has around it: its head, and headers that let it do no more than it must."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from starlette.responses import HTMLResponse

from shoal.report.markup import Markup, element
from shoal.web import assets


def policy(connect: Iterable[str] = ()) -> str:
    """The Content-Security-Policy: everything from here; ``connect`` are other origins to ask."""
    asked = " ".join(["'self'", *connect])
    return (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
        f"connect-src {asked}; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
    )


def page(  # noqa: PLR0913 - the parts of a page, by name
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
    top = element(
        "head",
        element("meta", charset="utf-8"),
        element("meta", name="viewport", content="width=device-width, initial-scale=1"),
        element("meta", name="color-scheme", content="light dark"),
        element("title", title),
        element("link", rel="icon", href="data:,"),
        *head,
        *map(assets.style, styles),
        *map(assets.script, scripts),
    )
    text = f"<!doctype html>\n{element('html', top, element('body', *body), lang='en')}\n"
    told = {
        "Content-Security-Policy": policy(connect),
        "X-Content-Type-Options": "nosniff",
        "Referrer-Policy": "no-referrer",
        "Cache-Control": "no-store",
        **(headers or {}),
    }
    return HTMLResponse(text, status, told)
