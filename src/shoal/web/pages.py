"""The page that people answer on, its service worker, the script that other sites embed.

And the routes of all pages that an analyzer serves to people.
"""

from __future__ import annotations

from urllib.parse import urlsplit

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route

from shoal.sealing import MalformedError, SurveyId
from shoal.service.analyzer.app import AnalyzerPages
from shoal.service.errors import UnknownError
from shoal.service.http import requests
from shoal.service.http.limits import Addresses
from shoal.service.survey import Survey
from shoal.service.survey.words import day, host, sentences
from shoal.service.wire import Wire
from shoal.web import assets, rendering
from shoal.web.access import HOME
from shoal.web.dashboard import Dashboard

FEW = 12  # answers that are all shown; of more, some, and a field to find the others
SHOWN = 50
_SCRIPT, _WORKER = "survey.js", "offline.js"
_ASK_AGAIN = "no-cache"  # it may be kept for when there is no network, and is asked for before
_EMBEDDED = "public, max-age=300"
# What a worker asks for is what the page that it serves asks for: any survey's shuffler.
_WORKER_POLICY = "default-src 'none'; connect-src *"


def pages(analyzer: AnalyzerPages) -> list[Route]:
    """All routes; each asks the analyzer's store for what it shows."""
    addresses = Addresses(analyzer.limits)

    async def answer(request: Request) -> Response:
        requests.charge(addresses, request)
        try:
            name = SurveyId.from_text(request.path_params["survey"])
            survey = await run_in_threadpool(analyzer.store.surveys.get, name)
        except (MalformedError, UnknownError):
            return rendering.page("no_survey.html", status=404, cut_off=False)
        now, public = analyzer.store.clock(), analyzer.public_results
        return await run_in_threadpool(survey_page, survey, now, public_results=public)

    return [
        Route("/", _begin, name="begin"),
        assets.ROUTE,
        Route(f"/answer/{_WORKER}", _worker, name="worker"),
        Route("/answer", _cut_off),
        Route("/answer/", _cut_off),
        Route("/answer/{survey}", answer, name="answer"),
        Route("/answer/{survey}/", rendering.without_slash),
        Route("/embed.js", _embedded, name="embed"),
        *Dashboard(analyzer).routes(),
    ]


def survey_page(survey: Survey, now: int, *, public_results: bool = False) -> Response:
    """The question, the form, what is promised, and how it is kept.

    The script ``survey.js`` builds the same elements where a survey is embedded; it finds them by
    their classes, and here it finds them made already.
    """
    shuffler = urlsplit(survey.shuffler.url)
    return rendering.page(
        "answer.html",
        survey=survey,
        words=sentences(survey),
        guarantee=survey.guarantee(survey.batches.minimum),
        report_bytes=Wire.of(survey).report_bytes,
        analyzer=host(survey.analyzer.url),
        closed=_closed(survey, now),
        results=f"{HOME}/surveys/{survey.id}" if public_results else "",
        few=FEW,
        shown=SHOWN,
        connect=(f"{shuffler.scheme}://{shuffler.netloc}",),
        headers={"Cache-Control": _ASK_AGAIN},
    )


def _closed(survey: Survey, now: int) -> str:
    """Why it takes no answers now, if so."""
    if now > survey.not_after:
        return f"This survey ended on {day(survey.not_after)} (UTC) and takes no more answers."
    if now < survey.not_before:
        return f"This survey has not begun: it takes answers from {day(survey.not_before)} (UTC)."
    return ""


async def _begin(_request: Request) -> Response:
    return RedirectResponse(HOME, 303, headers=requests.NOT_KEPT)


async def _cut_off(_request: Request) -> Response:
    return rendering.page("no_survey.html", status=404, cut_off=True)


async def _worker(request: Request) -> Response:
    return _built(_WORKER).response(request, content_security_policy=_WORKER_POLICY)


async def _embedded(request: Request) -> Response:
    return _built(_SCRIPT).response(request, cache=_EMBEDDED)


def _built(name: str) -> assets.Asset:
    script = assets.asset(name)
    if script is None:
        raise assets.missing(assets.NOT_BUILT)
    return script
