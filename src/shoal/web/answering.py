"""The page that people answer on, its service worker, and the script that other sites embed."""

from __future__ import annotations

from urllib.parse import urlsplit

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from shoal.report.markup import element
from shoal.sealing import MalformedError, SurveyId
from shoal.service.analyzer.app import AnalyzerPages
from shoal.service.errors import UnknownSurveyError
from shoal.service.http import requests
from shoal.service.http.limits import Addresses
from shoal.service.survey import Survey
from shoal.service.survey.words import day
from shoal.web import assets, shell
from shoal.web.form import survey_element

_SCRIPT, _WORKER = "survey.js", "offline.js"
_STYLES = ("survey.css", "answer.css")
_ASK_AGAIN = "no-cache"  # it may be kept for when there is no network, and is asked for before
_EMBEDDED = "public, max-age=300"
# What a worker asks for is what the page that it serves asks for: any survey's shuffler.
_WORKER_POLICY = "default-src 'none'; connect-src *"


def routes(analyzer: AnalyzerPages) -> list[Route]:
    """Where they are served."""
    addresses = Addresses(analyzer.limits)

    async def answer(request: Request) -> Response:
        addresses.charge(requests.sender(request), 1)
        try:
            name = SurveyId.from_text(request.path_params["survey"])
            survey = await run_in_threadpool(analyzer.store.survey, name)
        except (MalformedError, UnknownSurveyError):
            return _unknown()
        return await run_in_threadpool(_page, survey, analyzer.store.clock())

    return [
        Route(f"/answer/{_WORKER}", _worker, name="worker"),
        Route("/answer", _cut_off),
        Route("/answer/", _cut_off),
        Route("/answer/{survey}", answer, name="answer"),
        Route("/answer/{survey}/", shell.without_slash),
        Route("/embed.js", _embedded, name="embed"),
    ]


def _page(survey: Survey, now: int) -> Response:
    return shell.page(
        survey.question,
        [
            element(
                "main", assets.not_built(_SCRIPT), survey_element(survey, over=_over(survey, now))
            )
        ],
        styles=_STYLES,
        scripts=(_SCRIPT,),
        connect=(origin(survey.shuffler.url),),
        headers={"Cache-Control": _ASK_AGAIN},
    )


def origin(url: str) -> str:
    """Scheme, machine and port of an address.

    >>> origin("https://shuffler.example/base")
    'https://shuffler.example'
    """
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc}"


def _over(survey: Survey, now: int) -> str:
    """Why it takes no answers now, if so."""
    if now > survey.not_after:
        return f"This survey ended on {day(survey.not_after)} (UTC) and takes no more answers."
    if now < survey.not_before:
        return f"This survey has not begun: it takes answers from {day(survey.not_before)} (UTC)."
    return ""


def _unknown() -> Response:
    text = (
        "Nobody asks this here. The address may be mistyped or cut off, or the survey is at "
        "another analyzer. Nothing was sent."
    )
    return _not_here("There is no such survey", text)


async def _cut_off(_request: Request) -> Response:
    text = (
        "The address of a survey has its name at the end: 64 letters and digits behind /answer/. "
        "Open the whole link that you were given, or ask whoever gave it to you. Nothing was sent."
    )
    return _not_here("This address is not whole", text)


def _not_here(title: str, text: str) -> Response:
    body = element("main", element("h1", title), element("p", text))
    return shell.page(title, [body], styles=_STYLES, status=404)


async def _worker(request: Request) -> Response:
    return _built(_WORKER).response(
        request, cache=_ASK_AGAIN, content_security_policy=_WORKER_POLICY
    )


async def _embedded(request: Request) -> Response:
    return _built(_SCRIPT).response(request, cache=_EMBEDDED)


def _built(name: str) -> assets.Asset:
    found = assets.asset(name)
    if found is None:
        raise assets.missing(assets.NOT_BUILT)
    return found
