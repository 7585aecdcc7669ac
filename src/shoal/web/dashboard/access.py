"""Who may see what: by a session, or everybody where results are public.

A page of a survey is for whoever is logged in with a token for it, or for all surveys. Where
results are public everybody may read it, but for what is the operator's business.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import parse_qs, urlsplit

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from shoal.sealing import SurveyId
from shoal.service.analyzer.app import AnalyzerPages
from shoal.service.errors import ForbiddenError, NotAuthorizedError
from shoal.service.http import requests
from shoal.service.http.limits import Addresses
from shoal.service.http.problems import Problem, ProblemError
from shoal.service.store.values import TokenScope
from shoal.web.dashboard import layout
from shoal.web.dashboard.sessions import Sessions

LOGIN_COST = 1000  # requests that one try to log in counts as
_FORM = "application/x-www-form-urlencoded"
_LARGEST_FORM = 4096
_SECONDS = 10.0
_LONGEST_TOKEN = 1000
WRONG = (
    "This token does not count: it is not one of this analyzer's, it has ended, or it was revoked. "
    "You are not logged in."
)
MISSING = "Type or paste the token first. You are not logged in."
_ELSEWHERE = "the form was not sent by a page of this dashboard: open the page again, and send it"


@dataclass(frozen=True)
class Visitor:
    """Who looks at a page; ``operator`` if they may see more than what is published."""

    scope: TokenScope | None

    @property
    def operator(self) -> bool:
        """Whether somebody is logged in."""
        return self.scope is not None


class Access:
    """Sessions and limits of one analyzer's dashboard."""

    def __init__(self, analyzer: AnalyzerPages) -> None:
        self._analyzer = analyzer
        self._addresses = Addresses(analyzer.limits)
        self._sessions = Sessions(analyzer.store.tokens, analyzer.store.clock)
        # Browsers keep cookies by host, not by port: two analyzers may be on one machine.
        self._cookie = f"shoal-{analyzer.keyring.fingerprint[:8]}"

    def charge(self, request: Request, cost: int = 1) -> None:
        """Count a request of its address."""
        self._addresses.charge(requests.sender(request), cost)

    async def anybody(self, request: Request) -> TokenScope | None:
        """Who is logged in, if anybody is."""
        name = request.cookies.get(self._cookie)
        return await run_in_threadpool(self._sessions.scope, name)

    async def visitor(self, request: Request, survey: SurveyId | None = None) -> Visitor:
        """Who may see this survey's pages, or (None) the list of those they may see."""
        self.charge(request)
        scope = await self.anybody(request)
        if scope is not None and (survey is None or scope.survey in {None, survey}):
            return Visitor(scope)
        if self._analyzer.public_results:
            return Visitor(None)
        if scope is None:
            raise NotAuthorizedError
        raise ForbiddenError(scope.label)

    def may_list(self, visitor: Visitor, survey: SurveyId) -> bool:
        """Whether a survey is on the list of those that they may see."""
        scope = visitor.scope
        everything = self._analyzer.public_results or (scope is not None and scope.survey is None)
        return everything or (scope is not None and scope.survey == survey)

    async def login_page(self, request: Request) -> Response:
        """The form."""
        self.charge(request)
        return layout.login_form("", going=_going(request.query_params.get("going", "")))

    async def login(self, request: Request) -> Response:
        """Begin a session, or say why not."""
        self.charge(request, LOGIN_COST)
        form = await self._sent(request)
        going = _going(form.get("going", ""))
        token = form.get("token", "").strip()
        if not token:
            return layout.login_form(MISSING, going=going, status=400)
        if len(token) > _LONGEST_TOKEN:
            return layout.login_form(WRONG, going=going, status=401)
        try:
            name = await run_in_threadpool(self._sessions.begin, token)
        except NotAuthorizedError:
            return layout.login_form(WRONG, going=going, status=401)
        self._sessions.end(request.cookies.get(self._cookie))
        answer = RedirectResponse(going or layout.HOME, 303, headers=requests.NOT_KEPT)
        answer.set_cookie(
            self._cookie,
            name,
            max_age=self._sessions.lifetime,
            path=layout.HOME,
            secure=self._is_secure(request),
            httponly=True,
            samesite="strict",
        )
        return answer

    async def logout(self, request: Request) -> Response:
        """End the session."""
        self.charge(request)
        self._check_ours(request)
        self._sessions.end(request.cookies.get(self._cookie))
        answer = RedirectResponse(layout.LOGIN, 303, headers=requests.NOT_KEPT)
        answer.delete_cookie(
            self._cookie,
            path=layout.HOME,
            secure=self._is_secure(request),
            httponly=True,
            samesite="strict",
        )
        return answer

    async def _sent(self, request: Request) -> Mapping[str, str]:
        """What a form of this dashboard has sent."""
        self._check_ours(request)
        requests.expect(request.headers.raw, _FORM, limit=_LARGEST_FORM)
        body = await requests.read(request.receive, limit=_LARGEST_FORM, seconds=_SECONDS)
        try:
            found = parse_qs(body.decode(), max_num_fields=10)
        except ValueError:
            detail = "the form is not one of this dashboard's"
            raise ProblemError(Problem(kind="malformed", status=400, detail=detail)) from None
        return {name: values[0] for name, values in found.items()}

    def _check_ours(self, request: Request) -> None:
        """Refuse a form of another site."""
        if not self._is_ours(request):
            raise ProblemError(Problem(kind="forbidden", status=403, detail=_ELSEWHERE))

    def _is_ours(self, request: Request) -> bool:
        """By what the browser says of where it comes from; programs say nothing, and may."""
        site = request.headers.get("sec-fetch-site")
        if site is not None:
            return site == "same-origin"
        origin = request.headers.get("origin")
        if origin is None:
            return True
        own = {request.headers.get("host", "")}
        if self._analyzer.proxied:
            own.add(request.headers.get("x-forwarded-host", ""))
        return bool(urlsplit(origin).netloc) and urlsplit(origin).netloc in own

    def _is_secure(self, request: Request) -> bool:
        """Whether the browser speaks TLS: a proxy in front says so."""
        if request.url.scheme == "https":
            return True
        told = request.headers.get("x-forwarded-proto", "") if self._analyzer.proxied else ""
        return told.partition(",")[0].strip().lower() == "https"


def _going(asked: str) -> str:
    """Where to go once logged in: a page of the dashboard, or nowhere in particular.

    >>> _going("/dashboard/surveys/ab?order=asked"), _going("//evil.example"), _going("/dashboardx")
    ('/dashboard/surveys/ab?order=asked', '', '')
    """
    inside = asked == layout.HOME or asked.startswith(f"{layout.HOME}/")
    printable = asked.isascii() and asked.isprintable() and "\\" not in asked
    return asked if inside and printable and len(asked) <= _LONGEST_TOKEN else ""
