"""The dashboard: how a survey goes, what it found, what that costs, and whether the keys are well.

Everything on it is made from what was published, or closed and collected. Of the batch that is
open it knows what the shuffler tells everybody: how many quarters of the smallest crowd are there.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from hashlib import sha256

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from shoal.errors import ShoalError
from shoal.report.charts import Chart
from shoal.report.result import ColumnResult
from shoal.sealing import SealingError, SurveyId
from shoal.service.analyzer.app import AnalyzerPages
from shoal.service.analyzer.results import ResultCache, Version
from shoal.service.errors import NotAuthorizedError, UnknownBatchError
from shoal.service.http import requests
from shoal.service.http.problems import Problem, ProblemError, problem_of
from shoal.service.keyring import KeyList, KeyringError
from shoal.service.keyring.words import advice
from shoal.service.survey import Survey
from shoal.values import MeanEstimate
from shoal.web import assets, rendering
from shoal.web.access import Access, Visitor, to_login
from shoal.web.background import PATIENCE, Background, Crowd, Progress, ask_shuffler
from shoal.web.charts import ORDERS, AnswerChart, Curve, Order, Timeline
from shoal.web.downloads import FILES
from shoal.web.snapshot import (
    Answer,
    Snapshot,
    Snapshots,
    State,
    answers,
    may_be_open,
    under_way,
)

Endpoint = Callable[[Request], Awaitable[Response]]
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


class Dashboard:
    """The endpoints, and what they share.

    ``patience`` is for how many seconds a page waits for what is asked or computed beside it.
    """

    def __init__(
        self,
        analyzer: AnalyzerPages,
        *,
        ask: Callable[[Survey], Progress] = ask_shuffler,
        patience: float = PATIENCE,
    ) -> None:
        self._store = analyzer.store
        self._keyring = analyzer.keyring
        self.access = Access(analyzer)
        self._snapshots = Snapshots(analyzer.store)
        self._files = ResultCache()

        def progress(name: SurveyId) -> Progress:
            return ask(self._store.surveys.get(name))

        def crowd(name: SurveyId) -> Crowd:
            return Crowd.of(self._store.surveys.get(name))

        self._progress = Background(
            progress, lifetime=lambda progress: progress.lifetime, patience=patience
        )
        self._crowds = Background(crowd, patience=patience)

    def routes(self) -> list[Route]:
        """Where the pages are."""
        page, access = self._page, self.access
        return [
            Route("/dashboard", page(self.surveys)),
            Route("/dashboard/login", page(access.login_page), methods=["GET"]),
            Route("/dashboard/login", page(access.login), methods=["POST"]),
            Route("/dashboard/logout", page(access.logout), methods=["POST"]),
            Route(_SURVEY, page(self.survey)),
            Route(f"{_SURVEY}/version", page(self.version)),
            Route(f"{_SURVEY}/batches/{{batch}}", page(self.batch)),
            Route(f"{_SURVEY}/download/{{file}}", page(self.download)),
            Route("/dashboard/{rest:path}", page(self.missing)),
        ]

    def _page(self, endpoint: Endpoint) -> Endpoint:
        """The endpoint, whose refusals are pages that say why."""

        async def answer(request: Request) -> Response:
            try:
                return await endpoint(request)
            except NotAuthorizedError:
                return to_login(request)
            except ProblemError as error:
                return await self._failure(request, error.problem)
            except ShoalError as error:
                return await self._failure(request, problem_of(error))

        answer.__name__ = endpoint.__name__
        return answer

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

    async def surveys(self, request: Request) -> Response:
        """All surveys that the visitor may see."""
        visitor = await self.access.visitor(request)
        return await run_in_threadpool(self._surveys, visitor, _number(request, "page"))

    def _surveys(self, visitor: Visitor, page: int) -> Response:
        now = self._store.clock()
        visible = [
            each for each in self._store.surveys.all() if self.access.may_list(visitor, each.id)
        ]
        page, pages = _page_of(page, visible, SURVEYS)
        some = visible[SURVEYS * (page - 1) : SURVEYS * page]
        progress = self._progress.all([each.id for each in some if may_be_open(each, now)])
        cards = [
            {
                "snapshot": self._snapshots.get(each.id),
                "state": State.of(each, now),
                "open": may_be_open(each, now),
                "progress": progress.get(each.id),
            }
            for each in some
        ]
        return rendering.page(
            "surveys.html", scope=visitor.scope, cards=cards, page=page, pages=pages
        )

    async def survey(self, request: Request) -> Response:
        """One survey."""
        name = requests.survey_named(request)
        visitor = await self.access.visitor(request, name)
        page = _number(request, "page")
        return await run_in_threadpool(self._survey, name, visitor, _order(request), page)

    def _survey(self, name: SurveyId, visitor: Visitor, order: Order, page: int) -> Response:
        snapshot = self._snapshots.get(name)
        survey, result, now = snapshot.survey, snapshot.result, self._store.clock()
        progress, crowd = self._progress_of(survey, now), self._crowds.get(name)
        # Withheld batches are the operator's business.
        batches = snapshot.batches if visitor.operator else snapshot.published
        page, pages = _page_of(page, batches, BATCHES)
        drawn = batches and Timeline.of(
            [row.published for row in snapshot.published],
            [row.published for row in batches if row.withheld is not None],
        )
        return rendering.page(
            "survey.html",
            scope=visitor.scope,
            version=_digest(snapshot.version, State.of(survey, now), progress, crowd),
            survey=survey,
            snapshot=snapshot,
            state=State.of(survey, now),
            open=may_be_open(survey, now),
            progress=progress,
            crowd=crowd,
            curve=_curve(snapshot, crowd),
            batches=batches,
            some=batches[BATCHES * (page - 1) : BATCHES * page],
            timeline=drawn,
            page=page,
            pages=pages,
            operator=visitor.operator,
            under_way=under_way(self._store.collections.of(name)) if visitor.operator else (),
            keys=self._keys(survey, now) if visitor.operator else None,
            chart=result and _chart(result.only, snapshot.answers, order),
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

    async def version(self, request: Request) -> Response:
        """What is another one whenever the survey's page has something new to say."""
        name = requests.survey_named(request)
        await self.access.visitor(request, name)
        version = await run_in_threadpool(self._version, name)
        headers = {**requests.NOT_KEPT, "ETag": f'"{version}"'}
        if f'"{version}"' in request.headers.get("if-none-match", ""):
            return Response(status_code=304, headers=headers)
        body = json.dumps({"version": version})
        return Response(body, media_type="application/json", headers=headers)

    def _version(self, name: SurveyId) -> str:
        survey, now = self._store.surveys.get(name), self._store.clock()
        progress, crowd = self._progress_of(survey, now), self._crowds.get(name)
        return _digest(self._store.results.version(name), State.of(survey, now), progress, crowd)

    def _progress_of(self, survey: Survey, now: int) -> Progress | None:
        return self._progress.get(survey.id) if may_be_open(survey, now) else None

    async def batch(self, request: Request) -> Response:
        """One batch."""
        name = requests.survey_named(request)
        visitor = await self.access.visitor(request, name)
        batch = requests.batch_named(request)
        return await run_in_threadpool(self._batch, name, batch, visitor, _order(request))

    def _batch(self, name: SurveyId, batch: str, visitor: Visitor, order: Order) -> Response:
        snapshot = self._snapshots.get(name)
        row = next((row for row in snapshot.batches if row.batch == batch), None)
        if row is None:
            raise UnknownBatchError(batch)
        if row.withheld is not None and not visitor.operator:
            raise NotAuthorizedError
        column = None
        if row.withheld is None:
            column = snapshot.of_batch(self._store.collections.find(name, batch))
        return rendering.page(
            "batch.html",
            scope=visitor.scope,
            survey=snapshot.survey,
            snapshot=snapshot,
            row=row,
            operator=visitor.operator,
            chart=column and _chart(column, answers(column), order),
        )

    async def download(self, request: Request) -> Response:
        """A file."""
        name = requests.survey_named(request)
        await self.access.visitor(request, name)
        return await run_in_threadpool(self._download, name, request.path_params["file"])

    def _download(self, name: SurveyId, file: str) -> Response:
        kind = FILES.get(file)
        snapshot = self._snapshots.get(name)
        if kind is None:
            raise assets.missing("there is no file of this name")
        make = partial(kind.make, self._store, snapshot)
        body = self._files.get(name, file, snapshot.version, make)
        headers = {
            **requests.NOT_KEPT,
            "Content-Disposition": f'attachment; filename="{str(name)[:NAME]}-{file}"',
            "Content-Security-Policy": _SANDBOX,
            "X-Content-Type-Options": "nosniff",
        }
        return Response(body, media_type=kind.media_type, headers=headers)

    async def missing(self, request: Request) -> Response:
        """Nothing is at this address; there may be without the slash at its end."""
        self.access.charge(request)
        if request.url.path.endswith("/"):
            return await rendering.without_slash(request)
        raise assets.missing("there is nothing at this address")


def sentence(text: str) -> str:
    """What errors and advice say, as a sentence.

    >>> sentence("there is no such survey")
    'There is no such survey.'
    """
    return f"{text[:1].upper()}{text[1:]}."


def _chart(column: ColumnResult, listed: Sequence[Answer], order: Order) -> AnswerChart | Chart:
    if isinstance(column.estimate, MeanEstimate):
        return Chart.of(column)
    return AnswerChart.of(column, listed, order)


def _curve(snapshot: Snapshot, crowd: Crowd | None) -> Curve | None:
    if crowd is None or len(crowd.curve) < 2:
        return None
    batches = snapshot.survey.batches
    return Curve(
        points=crowd.curve,
        published=[(row.valid, row.epsilon) for row in snapshot.published if row.epsilon],
        marks=(
            (batches.minimum, f"minimum {batches.minimum:,}"),
            (batches.target, f"target {batches.target:,}"),
        ),
        promised=snapshot.survey.epsilon,
    )


def _digest(version: Version, state: State, progress: Progress | None, crowd: Crowd | None) -> str:
    """Nothing goes into it that the page does not say."""
    shown = (version, state, progress, crowd is not None)
    return sha256(repr(shown).encode()).hexdigest()[:_DIGITS]


def _page_of(page: int, listed: Sequence[object], size: int) -> tuple[int, int]:
    """The page that there is, and how many there are."""
    pages = max(1, -(-len(listed) // size))
    return min(page, pages), pages


def _number(request: Request, name: str) -> int:
    """A page's number; what is none is the first."""
    text = request.query_params.get(name, "1")
    plain = text.isascii() and text.isdecimal() and len(text) < 7
    return max(1, int(text)) if plain else 1


def _order(request: Request) -> Order:
    wanted = request.query_params.get("order")
    return next((order for order in ORDERS if order == wanted), "share")
