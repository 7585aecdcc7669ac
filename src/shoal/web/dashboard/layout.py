"""A page of the dashboard: what is above, and around, all that it shows."""

from __future__ import annotations

from collections.abc import Mapping

from starlette.responses import HTMLResponse

from shoal.report.markup import Markup, element
from shoal.service.db.tokens import TokenScope
from shoal.web import assets, shell
from shoal.web.dashboard.parts import NOTHING, link

STYLE, SCRIPT = "dashboard.css", "dashboard.js"
LOGIN, LOGOUT, HOME = "/dashboard/login", "/dashboard/logout", "/dashboard"
_LOGIN_TITLE = "Log in"
# Browsers tell where a form comes from only where the address of a page may be told at all; it is
# told to nobody else.
_FORMS = element("meta", name="referrer", content="same-origin")


def page(
    title: str,
    *body: str,
    who: TokenScope | None,
    status: int = 200,
    version: str = "",
    headers: Mapping[str, str] | None = None,
) -> HTMLResponse:
    """The whole page; ``who`` is logged in, ``version`` what the page is of, if it may change."""
    marked = {"data_version": version} if version else {}
    return shell.page(
        f"{title} · Shoal",
        [
            element("a", "Skip to the content", href="#content", class_="skip"),
            _header(_entering(who, title)),
            element("main", *body, id="content", tabindex=-1, **marked),
            element(
                "footer",
                assets.not_built(SCRIPT),
                element(
                    "p",
                    "Made with Shoal, the shuffle model of differential privacy. Nothing here "
                    "tells how many people are in a batch that is still open.",
                ),
            ),
        ],
        styles=(STYLE,),
        scripts=(SCRIPT,),
        head=(_FORMS,),
        status=status,
        headers=headers,
    )


def _entering(who: TokenScope | None, title: str) -> Markup:
    """How to log in or out; the page to log in on needs no other way to it."""
    if who is not None:
        return _logged_in(who)
    return NOTHING if title == _LOGIN_TITLE else link(_LOGIN_TITLE, LOGIN, class_="button")


def _header(entering: Markup) -> Markup:
    return element(
        "header",
        element(
            "nav",
            link("Shoal", HOME, class_="brand"),
            link("Surveys", HOME),
            aria_label="Dashboard",
        ),
        entering,
        class_="top",
    )


def _logged_in(who: TokenScope) -> Markup:
    scope = "" if who.survey is None else " (one survey)"
    return element(
        "form",
        element("span", f"{who.label}{scope}", class_="who", title="The token in use"),
        element("button", "Log out", type="submit"),
        method="post",
        action=LOGOUT,
    )


def failure(
    title: str, said: str, *, status: int, who: TokenScope | None, headers: Mapping[str, str]
) -> HTMLResponse:
    """A page that says in words why it is not another."""
    return page(
        title,
        element("h1", title),
        element("p", said, role="alert", class_="alert"),
        element("p", link("All surveys", HOME)),
        who=who,
        status=status,
        headers=headers,
    )


def login_form(said: str, *, going: str, status: int = 200) -> HTMLResponse:
    """The form that asks for a token; ``said`` is what was wrong with the last one."""
    alert = element("p", said, role="alert", class_="alert", id="refusal") if said else NOTHING
    described = {"aria_describedby": "refusal", "aria_invalid": "true"} if said else {}
    return page(
        _LOGIN_TITLE,
        element("h1", _LOGIN_TITLE),
        alert,
        element(
            "form",
            element("label", "Token", for_="token"),
            element(
                "input",
                id="token",
                name="token",
                type="password",
                autocomplete="off",
                spellcheck="false",
                required="",
                **described,
            ),
            element("input", type="hidden", name="going", value=going),
            element("button", _LOGIN_TITLE, type="submit", class_="primary"),
            method="post",
            action=LOGIN,
            class_="login panel",
        ),
        element(
            "p",
            "The analyzer's operator makes tokens, for one survey or for all: ",
            element("code", "shoal keys token DIR"),
            class_="quiet",
        ),
        who=None,
        status=status,
    )
