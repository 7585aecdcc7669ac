"""The dashboard: how a survey goes, what it found, what that costs, and whether the keys are well.

Everything on it is made from what was published, or closed and collected. Of the batch that is
open it knows what the shuffler tells everybody: how many quarters of the smallest crowd are there.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import replace
from enum import StrEnum
from functools import partial
from hashlib import sha256
from operator import attrgetter
from threading import Lock
from typing import Any

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from shoal.errors import ShoalError
from shoal.results.charts import Chart, axis_of
from shoal.results.result import ColumnResult
from shoal.sealing import SealingError, SurveyId
from shoal.service.analyzer import tables
from shoal.service.analyzer.app import AnalyzerPages
from shoal.service.analyzer.collection import Collection
from shoal.service.analyzer.results import ResultCache, SurveyResults
from shoal.service.db.tokens import TokenScope
from shoal.service.errors import NotAuthorizedError, UnknownError
from shoal.service.http import requests
from shoal.service.http.limits import Addresses
from shoal.service.http.problems import Problem, ProblemError, problem_of
from shoal.service.keyring import KeyList, KeyringError
from shoal.service.keyring.words import advice
from shoal.service.survey import Survey
from shoal.web import assets, rendering
from shoal.web.access import Access, Sessions, to_login
from shoal.web.background import PAGE_TIMEOUT, Background, Crowd, Progress, ask_shuffler
from shoal.web.charts import ORDERS, Curve, Timeline
from shoal.web.downloads import FILES

Endpoint = Callable[[Request], Awaitable[Response]]
Page = Callable[[Request, TokenScope | None], Response]
SURVEYS = 20  # of one page of the list
BATCHES = 50
NAME = 12  # digits of a survey's name that tell it from others
_SURVEY = "/dashboard/surveys/{survey}"
_SANDBOX = "sandbox; default-src 'none'; style-src 'unsafe-inline'; img-src data:"
_DIGITS = 32
_TITLES = {
    403: "Not for this token",
    404: "Not here",
    429: "Too many requests",
    503: "Not now",
}

_STEPS = {
    tables.REQUESTED: "asked for",
    tables.RECEIVED: "received, not decrypted yet",
    tables.OPENED: "decrypted and counted",
    tables.BUDGETED: "in the ledger, published next",
}


class State(StrEnum):
    """Where a survey is in its life."""

    EARLY = "not started"
    OPEN = "collecting"
    OVER = "over"

    @classmethod
    def of(cls, survey: Survey, now: int) -> State:
        """At a moment."""
        if now < survey.not_before:
            return cls.EARLY
        return cls.OPEN if now <= survey.not_after else cls.OVER


def may_be_open(survey: Survey, now: int) -> bool:
    """Whether a batch of it can be open: some are, for a while after the last report."""
    return survey.not_before <= now <= survey.not_after + survey.batches.max_age


class Dashboard:
    """The endpoints, and what they share.

    ``timeout`` is for how many seconds a page waits for what is asked or computed beside it.
    """

    def __init__(
        self,
        analyzer: AnalyzerPages,
        *,
        ask: Callable[[Survey], Progress] | None = None,
        timeout: float = PAGE_TIMEOUT,
    ) -> None:
        store = self._store = analyzer.store
        asking = ask or partial(ask_shuffler, clock=store.clock)
        self._keyring = analyzer.keyring
        sessions = Sessions(store.tokens, store.clock)
        self.access = Access(analyzer, Addresses(analyzer.limits), sessions)
        self._newest: dict[SurveyId, SurveyResults] = {}
        self._reading: dict[SurveyId, Lock] = {}
        self._files = ResultCache()
        self._progress = Background[SurveyId, Progress](
            lambda name: asking(store.surveys.get(name)),
            lifetime=attrgetter("lifetime"),
            timeout=timeout,
        )
        self._crowds = Background[tuple[SurveyId, int], Crowd](
            lambda key: Crowd.of(store.surveys.get(key[0]), key[1]), timeout=timeout
        )

    def routes(self) -> list[Route]:
        """Where the pages are."""
        page, access = self._page, self.access
        shown: dict[str, Page] = {
            "/dashboard": self.surveys,
            _SURVEY: self.survey,
            f"{_SURVEY}/version": self.version,
            f"{_SURVEY}/batches/{{batch}}": self.batch,
            f"{_SURVEY}/download/{{file}}": self.download,
        }
        return [
            *(Route(path, page(partial(self._shown, made))) for path, made in shown.items()),
            Route("/dashboard/login", page(access.login_page), methods=["GET"]),
            Route("/dashboard/login", page(access.login), methods=["POST"]),
            Route("/dashboard/logout", page(access.logout), methods=["POST"]),
            Route("/dashboard/{rest:path}", page(self.missing)),
        ]

    def _page(self, endpoint: Endpoint) -> Endpoint:
        """The endpoint, whose refusals are pages that say why."""

        async def answer(request: Request) -> Response:
            try:
                return await endpoint(request)
            except ProblemError as error:
                return await self._failure(request, error.problem)
            except ShoalError as error:
                if isinstance(error, NotAuthorizedError) and error.label is None:
                    return to_login(request)
                return await self._failure(request, problem_of(error))

        return answer

    async def _shown(self, page: Page, request: Request) -> Response:
        """A page for whoever may see it, made in a thread."""
        name = requests.survey_named(request) if "survey" in request.path_params else None
        scope = await self.access.check(request, name)
        return await run_in_threadpool(page, request, scope)

    async def _failure(self, request: Request, problem: Problem) -> Response:
        try:
            scope = await self.access.scope(request)
        except ShoalError:  # the store is what fails
            scope = None
        headers = {} if problem.retry_after is None else {"Retry-After": str(problem.retry_after)}
        return rendering.page(
            "failure.html",
            status=problem.status,
            headers=headers,
            scope=scope,
            title=_TITLES.get(problem.status, "That did not work"),
            detail=sentence(problem.detail),
        )

    def _results(self, name: SurveyId) -> SurveyResults:
        """The newest of a survey, without their documents, which repeat every answer."""
        results = self._store.results
        with self._reading.setdefault(name, Lock()):
            newest, version = self._newest.get(name), results.version(name)
            if newest is None or newest.version != version:  # read before what is read now
                newest = replace(results.survey(name, documents=False), version=version)
                self._newest[name] = newest
        return newest

    def surveys(self, request: Request, scope: TokenScope | None) -> Response:
        """All surveys that a visitor may see."""
        now = self._store.clock()
        visible = [
            each for each in self._store.surveys.all() if self.access.may_list(scope, each.id)
        ]
        page, pages = _page_of(request, visible, SURVEYS)
        some = visible[SURVEYS * (page - 1) : SURVEYS * page]
        progress = self._progress.all([each.id for each in some if may_be_open(each, now)])
        cards = [
            {
                "results": self._results(each.id),
                "state": State.of(each, now),
                "open": may_be_open(each, now),
                "progress": progress.get(each.id),
            }
            for each in some
        ]
        return rendering.page("surveys.html", scope=scope, cards=cards, page=page, pages=pages)

    def survey(self, request: Request, scope: TokenScope | None) -> Response:
        """One survey; withheld batches, and how work and keys are, are the operator's business."""
        name = requests.survey_named(request)
        results, now = self._results(name), self._store.clock()
        survey, result = results.survey, results.result
        progress = self._progress_of(survey, now)
        crowd = self._crowds.get((name, results.smallest))
        batches = results.newest if scope else results.published
        page, pages = _page_of(request, batches, BATCHES)
        drawn = batches and Timeline.of(
            [batch.published for batch in results.published],
            [batch.published for batch in batches if batch.withheld is not None],
        )
        return rendering.page(
            "survey.html",
            scope=scope,
            version=_digest(results, now, progress, crowd),
            survey=survey,
            results=results,
            state=State.of(survey, now),
            open=may_be_open(survey, now),
            progress=progress,
            crowd=crowd,
            curve=_curve(results, crowd),
            batches=batches,
            some=batches[BATCHES * (page - 1) : BATCHES * page],
            timeline=drawn,
            page=page,
            pages=pages,
            under_way=under_way(self._store.collections.of(name)) if scope else (),
            keys=self._keys(survey, now) if scope else None,
            **_charts(result.columns if result else (), request),
        )

    def _keys(self, survey: Survey, now: int) -> dict[str, object]:
        """The analyzer's own, with advice where somebody has to act, and the shuffler's list."""
        fingerprint = survey.shuffler.fingerprint
        copies = self._store.key_lists.all()
        theirs, refusal = None, ""
        if fingerprint in copies:
            try:
                theirs = KeyList.verified(
                    copies[fingerprint], fingerprint=fingerprint, now=now, role="shuffler"
                )
            except (KeyringError, SealingError) as error:
                refusal = sentence(str(error))
        return {
            "now": now,
            "ours": self._keyring.list().keys,
            "advice": [sentence(text) for text in advice(self._keyring)],
            "theirs": theirs,
            "refusal": refusal,
        }

    def version(self, request: Request, _scope: TokenScope | None) -> Response:
        """What is another one whenever the survey's page has something new to say."""
        name = requests.survey_named(request)
        results, now = self._results(name), self._store.clock()
        progress = self._progress_of(results.survey, now)
        version = _digest(results, now, progress, self._crowds.get((name, results.smallest)))
        headers = {**requests.NOT_KEPT, "ETag": f'"{version}"'}
        if f'"{version}"' in request.headers.get("if-none-match", ""):
            return Response(status_code=304, headers=headers)
        return JSONResponse({"version": version}, headers=headers)

    def _progress_of(self, survey: Survey, now: int) -> Progress | None:
        return self._progress.get(survey.id) if may_be_open(survey, now) else None

    def batch(self, request: Request, scope: TokenScope | None) -> Response:
        """One batch."""
        name, batch = requests.survey_named(request), requests.batch_named(request)
        results = self._results(name)
        row = next((row for row in results.batches if row.batch == batch), None)
        if row is None:
            raise UnknownError("batch", batch)
        if row.withheld is not None and scope is None:
            raise NotAuthorizedError
        columns = results.of_batch(row, self._store.collections.find(name, batch))
        return rendering.page(
            "batch.html", scope=scope, survey=results.survey, row=row, **_charts(columns, request)
        )

    def download(self, request: Request, _scope: TokenScope | None) -> Response:
        """A file."""
        name, file = requests.survey_named(request), request.path_params["file"]
        kind, results = FILES.get(file), self._results(name)
        if kind is None:
            raise assets.missing("there is no file of this name")
        if kind.needs_result and results.result is None:
            raise assets.missing("nothing is published yet for this file to show")
        make = partial(kind.make, self._store, results)
        body = self._files.get(name, file, results.version, make)
        headers = {
            **requests.NOT_KEPT,
            "Content-Disposition": f'attachment; filename="{str(name)[:NAME]}-{file}"',
            "Content-Security-Policy": _SANDBOX,
            "X-Content-Type-Options": "nosniff",
        }
        return Response(body, media_type=kind.media_type, headers=headers)

    async def missing(self, request: Request) -> Response:
        """Nothing is at this address; there may be without the slash at its end."""
        requests.charge(self.access.addresses, request)
        if request.url.path.endswith("/"):
            return await rendering.without_slash(request)
        raise assets.missing("there is nothing at this address")


def sentence(text: str) -> str:
    """What errors and advice say, as a sentence.

    >>> sentence("there is no such survey")
    'There is no such survey.'
    """
    return f"{text[:1].upper()}{text[1:]}."


def under_way(collections: Iterable[Collection]) -> list[str]:
    """How many closed batches are at each step before they are published."""
    states = [each.state for each in collections]
    return [
        f"{states.count(state):,} {text} ({state})"
        for state, text in _STEPS.items()
        if state in states
    ]


def _charts(columns: Sequence[ColumnResult], request: Request) -> dict[str, Any]:
    """One of each question, answers in the order that is asked for."""
    order = request.query_params.get("order")
    order = order if order in ORDERS else "share"
    charts = []
    for column in columns:
        answers = column.ranked
        if not answers or column.panels():
            charts.append(Chart.of(column))
            continue
        answers = answers if order == "share" else sorted(answers, key=attrgetter("index"))
        charts.append(Chart(column, "fractions", [*answers], (axis_of(answers),)))
    return {"charts": charts, "order": order}


def _curve(results: SurveyResults, crowd: Crowd | None) -> Curve | None:
    if crowd is None or len(crowd.curve) < 2:
        return None
    batches = results.survey.batches
    return Curve(
        points=crowd.curve,
        published=[(batch.valid, batch.epsilon) for batch in results.published if batch.epsilon],
        marks=(
            (batches.minimum, f"minimum {batches.minimum:,}"),
            (batches.target, f"target {batches.target:,}"),
        ),
        promised=results.survey.epsilon,
    )


def _digest(
    results: SurveyResults, now: int, progress: Progress | None, crowd: Crowd | None
) -> str:
    """Nothing goes into it that the page does not say."""
    shown = (results.version, State.of(results.survey, now), progress, crowd is not None)
    return sha256(repr(shown).encode()).hexdigest()[:_DIGITS]


def _page_of(request: Request, listed: Sequence[object], size: int) -> tuple[int, int]:
    """The page that is asked for, if there is one, else the nearest; and how many there are."""
    text = request.query_params.get("page", "1")
    plain = text.isascii() and text.isdecimal() and len(text) < 7
    pages = max(1, -(-len(listed) // size))
    return min(max(1, int(text)) if plain else 1, pages), pages
