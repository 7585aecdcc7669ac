"""Who may see what: by a session, or everybody where results are public.

A page of a survey is for whoever is logged in with a token for it, or for all surveys. Where
results are public everybody may read it, but for what is the operator's business.

A session is a random name in a cookie, bound to the hash of a token, for some hours. Its token is
looked up at every request, so that one that was revoked or has ended ends its sessions too.
Sessions are in memory only: whoever was logged in when the analyzer was started again logs in
again.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass, field
from hashlib import sha256
from threading import Lock
from urllib.parse import parse_qs, quote, urlsplit

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from shoal import randomness
from shoal.sealing import SurveyId
from shoal.service.analyzer.app import AnalyzerPages
from shoal.service.clock import Clock
from shoal.service.db.tokens import Tokens, TokenScope, hashed
from shoal.service.errors import NotAuthorizedError
from shoal.service.http import requests
from shoal.service.http.limits import Addresses
from shoal.service.http.problems import Problem, ProblemError
from shoal.web import rendering

HOME, LOGIN = "/dashboard", "/dashboard/login"
LIFETIME = 12 * 3600  # seconds
MOST = 1000  # sessions at once; the oldest go
LOGIN_COST = 1000  # requests that one try to log in counts as
_WORDS = 4  # 256 bits: too many to try
_FORM = "application/x-www-form-urlencoded"
_LARGEST_FORM = 4096
_SECONDS = 10.0
_LONGEST_ADDRESS = 1000
WRONG = (
    "This token is not valid: it belongs to another analyzer, has expired, or was revoked. "
    "You are not logged in."
)
MISSING = "Type or paste the token first. You are not logged in."
_ELSEWHERE = "the form was not sent by a page of this dashboard: open the page again, and send it"


@dataclass
class Sessions:
    """All sessions of one process."""

    tokens: Tokens
    clock: Clock
    lifetime: int = LIFETIME
    most: int = MOST
    _known: OrderedDict[bytes, tuple[bytes, int]] = field(default_factory=OrderedDict, init=False)
    _lock: Lock = field(default_factory=Lock, init=False)

    def begin(self, token: str) -> str:
        """A session of whoever has this token, if it counts; the value of its cookie."""
        digest = hashed(token)
        self.tokens.scope(digest)  # refuses by itself
        name = randomness.secure().words(_WORDS).tobytes().hex()
        with self._lock:
            self._known[_key(name)] = digest, self.clock() + self.lifetime
            while len(self._known) > self.most:
                self._known.popitem(last=False)
        return name

    def scope(self, name: str) -> TokenScope | None:
        """What the token of a session is for; None if there is no such session any more."""
        with self._lock:
            digest, ends = self._known.get(_key(name), (b"", 0))
        if ends > self.clock():
            try:
                return self.tokens.scope(digest)
            except NotAuthorizedError:
                pass
        self.end(name)
        return None

    def end(self, name: str) -> None:
        """Forget a session, if there is one of this name."""
        with self._lock:
            self._known.pop(_key(name), None)


def _key(name: str) -> bytes:
    """Looked up by its hash, so that how long that takes says nothing about other names."""
    return sha256(name.encode("utf-8", "surrogatepass")).digest()


@dataclass(frozen=True)
class Access:
    """Sessions and limits of one analyzer's dashboard."""

    analyzer: AnalyzerPages
    addresses: Addresses
    sessions: Sessions

    @property
    def cookie(self) -> str:
        """Browsers keep cookies by host, not by port: two analyzers may be on one machine."""
        return f"shoal-{self.analyzer.keyring.fingerprint[:8]}"

    async def scope(self, request: Request) -> TokenScope | None:
        """What somebody is logged in for, if anybody is."""
        name = request.cookies.get(self.cookie, "")
        return await run_in_threadpool(self.sessions.scope, name)

    async def check(self, request: Request, survey: SurveyId | None) -> TokenScope | None:
        """Refuse who may not see this survey's pages, or (None) any list of surveys.

        Who is logged in may see more than what is published: what for, or None.
        """
        requests.charge(self.addresses, request)
        scope = await self.scope(request)
        if scope is not None and (survey is None or scope.survey in {None, survey}):
            return scope
        if self.analyzer.public_results:
            return None
        raise NotAuthorizedError(None if scope is None else scope.label)

    def may_list(self, scope: TokenScope | None, survey: SurveyId) -> bool:
        """Whether a survey is on the list of those that they may see."""
        own = scope is not None and scope.survey in {None, survey}
        return self.analyzer.public_results or own

    async def login_page(self, request: Request) -> Response:
        """The form."""
        requests.charge(self.addresses, request)
        return _login_form("", going=_going(request.query_params.get("going", "")))

    async def login(self, request: Request) -> Response:
        """Begin a session, or say why not."""
        requests.charge(self.addresses, request, LOGIN_COST)
        form = await self._form(request)
        going = _going(form.get("going", ""))
        token = form.get("token", "").strip()
        if not token:
            return _login_form(MISSING, going=going, status=400)
        try:
            name = await run_in_threadpool(self.sessions.begin, token)
        except NotAuthorizedError:
            return _login_form(WRONG, going=going, status=401)
        self.sessions.end(request.cookies.get(self.cookie, ""))
        response = RedirectResponse(going or HOME, 303, headers=requests.NOT_KEPT)
        return self._with_cookie(response, request, name, self.sessions.lifetime)

    async def logout(self, request: Request) -> Response:
        """End the session."""
        requests.charge(self.addresses, request)
        self._check_same_site(request)
        self.sessions.end(request.cookies.get(self.cookie, ""))
        response = RedirectResponse(LOGIN, 303, headers=requests.NOT_KEPT)
        return self._with_cookie(response, request, "", 0)

    async def _form(self, request: Request) -> Mapping[str, str]:
        """The fields of a form of this dashboard."""
        self._check_same_site(request)
        requests.expect(request.headers.raw, _FORM, limit=_LARGEST_FORM)
        body = await requests.read(request.receive, limit=_LARGEST_FORM, seconds=_SECONDS)
        try:
            fields = parse_qs(body.decode(), max_num_fields=10)
        except ValueError:
            detail = "the form is not one of this dashboard's"
            raise ProblemError(Problem("malformed", 400, detail)) from None
        return {name: values[0] for name, values in fields.items()}

    def _check_same_site(self, request: Request) -> None:
        """Refuse a form of another site, by what the browser says; programs say nothing, and may.

        A proxy in front names the host that the browser asked.
        """
        site = request.headers.get("sec-fetch-site")
        origin = request.headers.get("origin")
        hosts = {request.headers.get("host", "")}
        if self.analyzer.proxied:
            hosts.add(request.headers.get("x-forwarded-host", ""))
        if site is not None:
            same = site == "same-origin"
        else:
            host = urlsplit(origin or "").netloc
            same = origin is None or (bool(host) and host in hosts)
        if not same:
            raise ProblemError(Problem("forbidden", 403, _ELSEWHERE))

    def _with_cookie(self, answer: Response, request: Request, name: str, age: int) -> Response:
        """For TLS only where the browser speaks it: a proxy in front says so."""
        scheme = request.url.scheme
        if self.analyzer.proxied and scheme != "https":
            scheme = request.headers.get("x-forwarded-proto", "").partition(",")[0].strip().lower()
        answer.set_cookie(
            self.cookie,
            name,
            max_age=age,
            path=HOME,
            secure=scheme == "https",
            httponly=True,
            samesite="strict",
        )
        return answer


def to_login(request: Request) -> Response:
    """To the form, and back to the same page afterwards."""
    going = quote(rendering.address(request), safe="")
    return RedirectResponse(f"{LOGIN}?going={going}", 303, headers=requests.NOT_KEPT)


def _login_form(refusal: str, *, going: str, status: int = 200) -> Response:
    return rendering.page("login.html", status=status, scope=None, refusal=refusal, going=going)


def _going(address: str) -> str:
    """Where to go once logged in: a page of the dashboard, or nowhere in particular.

    >>> _going("/dashboard/surveys/ab?order=asked"), _going("//evil.example"), _going("/dashboardx")
    ('/dashboard/surveys/ab?order=asked', '', '')
    """
    inside = address == HOME or address.startswith(f"{HOME}/")
    printable = address.isascii() and address.isprintable() and "\\" not in address
    return address if inside and printable and len(address) <= _LONGEST_ADDRESS else ""
