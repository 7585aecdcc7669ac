"""What the dashboard does with each kind of request."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from functools import partial
from hashlib import sha256
from urllib.parse import quote

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from shoal.errors import ShoalError
from shoal.sealing import SurveyId
from shoal.service.analyzer.app import AnalyzerPages
from shoal.service.analyzer.remembered import Remembered, Version
from shoal.service.errors import NotAuthorizedError, UnknownBatchError
from shoal.service.http import requests
from shoal.service.http.problems import Problem, ProblemError, problem_of
from shoal.service.survey import Survey
from shoal.web import assets, shell
from shoal.web.dashboard import batch_page, batches, keys, layout, list_page
from shoal.web.dashboard.access import Access, Visitor
from shoal.web.dashboard.chart import ORDERS, Order
from shoal.web.dashboard.crowd import Crowd, crowd
from shoal.web.dashboard.files import FILES
from shoal.web.dashboard.later import PATIENCE, Later
from shoal.web.dashboard.parts import SHORT, sentence
from shoal.web.dashboard.progress import Progress, asked
from shoal.web.dashboard.snapshot import Snapshots
from shoal.web.dashboard.survey_page import Shown, State, may_wait

Endpoint = Callable[[Request], Awaitable[Response]]
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
        ask: Callable[[Survey], Progress] = asked,
        patience: float = PATIENCE,
    ) -> None:
        self._store = analyzer.store
        self._keyring = analyzer.keyring
        self.access = Access(analyzer)
        self._snapshots = Snapshots(analyzer.store)
        self._files = Remembered()

        def ask_about(name: SurveyId) -> Progress:
            return ask(self._store.survey(name))

        def compute(name: SurveyId) -> Crowd:
            return crowd(self._store.survey(name))

        self._progress = Later(ask_about, lasts=lambda told: told.lasts, patience=patience)
        self._crowds = Later(compute, patience=patience)

    def shown(self, endpoint: Endpoint) -> Endpoint:
        """The endpoint, whose refusals are pages that say why."""

        async def answer(request: Request) -> Response:
            try:
                return await endpoint(request)
            except NotAuthorizedError:
                return _to_login(request)
            except ProblemError as error:
                return await self._failed(request, error.problem)
            except ShoalError as error:
                return await self._failed(request, problem_of(error))

        answer.__name__ = endpoint.__name__
        return answer

    async def _failed(self, request: Request, problem: Problem) -> Response:
        try:
            who = await self.access.anybody(request)
        except ShoalError:  # the store is what fails
            who = None
        headers = {} if problem.retry_after is None else {"Retry-After": str(problem.retry_after)}
        title = _TITLES.get(problem.status, "That did not work")
        return layout.failure(
            title, sentence(problem.detail), status=problem.status, who=who, headers=headers
        )

    async def surveys(self, request: Request) -> Response:
        """All surveys that the visitor may see."""
        visitor = await self.access.visitor(request)
        return await run_in_threadpool(self._surveys, visitor, _number(request, "page"))

    def _surveys(self, visitor: Visitor, page: int) -> Response:
        known = self._store.surveys()
        visible = [each for each in known if self.access.may_list(visitor, each.id)]
        pages = max(1, -(-len(visible) // list_page.PAGE))
        page = min(page, pages)
        some = visible[list_page.PAGE * (page - 1) : list_page.PAGE * page]
        now = self._store.clock()
        waiting = [each.id for each in some if may_wait(each, now)]
        told = dict(zip(waiting, self._progress.all(waiting), strict=True))
        listed = [(self._snapshots.get(each.id), told.get(each.id)) for each in some]
        body = list_page.body(listed, page=page, pages=pages, now=now)
        return layout.page("Surveys", *body, who=visitor.scope)

    async def survey(self, request: Request) -> Response:
        """One survey."""
        name = requests.survey_named(request)
        visitor = await self.access.visitor(request, name)
        page = _number(request, "page")
        return await run_in_threadpool(self._survey, name, visitor, _order(request), page)

    def _survey(self, name: SurveyId, visitor: Visitor, order: Order, page: int) -> Response:
        snapshot = self._snapshots.get(name)
        survey, now = snapshot.survey, self._store.clock()
        shown = Shown(
            snapshot=snapshot,
            visitor=visitor,
            now=now,
            progress=self._progressed(survey, now),
            crowd=self._crowds.get(name),
            order=order,
            page=min(page, batches.pages(snapshot, visitor)),
        )
        if visitor.operator:
            shown = shown.for_operators(
                under_way=self._store.collections(name),
                keys=keys.keys(survey, self._keyring, self._store.copies(), now),
            )
        version = _digest(snapshot.version, State.of(survey, now), shown.progress, shown.crowd)
        return layout.page(survey.question, *shown.body(), who=visitor.scope, version=version)

    async def version(self, request: Request) -> Response:
        """What is another one whenever the survey's page has something new to say."""
        name = requests.survey_named(request)
        await self.access.visitor(request, name)
        found = await run_in_threadpool(self._current, name)
        headers = {**requests.NOT_KEPT, "ETag": f'"{found}"'}
        if f'"{found}"' in request.headers.get("if-none-match", ""):
            return Response(status_code=304, headers=headers)
        body = json.dumps({"version": found})
        return Response(body, media_type="application/json", headers=headers)

    def _current(self, name: SurveyId) -> str:
        survey, now = self._store.survey(name), self._store.clock()
        progress = self._progressed(survey, now)
        state = State.of(survey, now)
        return _digest(self._store.version(name), state, progress, self._crowds.get(name))

    def _progressed(self, survey: Survey, now: int) -> Progress | None:
        return self._progress.get(survey.id) if may_wait(survey, now) else None

    async def batch(self, request: Request) -> Response:
        """One batch."""
        name = requests.survey_named(request)
        visitor = await self.access.visitor(request, name)
        batch = requests.batch_named(request)
        return await run_in_threadpool(self._batch, name, batch, visitor, _order(request))

    def _batch(self, name: SurveyId, batch: str, visitor: Visitor, order: Order) -> Response:
        snapshot = self._snapshots.get(name)
        line = next((line for line in snapshot.lines if line.batch == batch), None)
        if line is None:
            raise UnknownBatchError(batch)
        if line.withheld is not None and not visitor.operator:
            raise NotAuthorizedError
        held = self._store.collection(name, batch)
        body = batch_page.body(snapshot.survey, line, held, visitor=visitor, order=order)
        title = f"Batch {batch[: batches.SHORT]}"
        return layout.page(title, *body, who=visitor.scope)

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
            "Content-Disposition": f'attachment; filename="{str(name)[:SHORT]}-{file}"',
            "Content-Security-Policy": _SANDBOX,
            "X-Content-Type-Options": "nosniff",
        }
        return Response(body, media_type=kind.media_type, headers=headers)

    async def missing(self, request: Request) -> Response:
        """Nothing is at this address; there may be without the slash at its end."""
        self.access.charge(request)
        if request.url.path.endswith("/"):
            return await shell.without_slash(request)
        raise assets.missing("there is nothing at this address")


def _digest(
    version: Version, state: State, progress: Progress | None, computed: Crowd | None
) -> str:
    """Nothing goes into it that the page does not say."""
    told = (version, state, progress, computed is not None)
    return sha256(repr(told).encode()).hexdigest()[:_DIGITS]


def _to_login(request: Request) -> Response:
    """Back to the same page afterwards."""
    going = quote(shell.address(request), safe="")
    return RedirectResponse(f"{layout.LOGIN}?going={going}", 303, headers=requests.NOT_KEPT)


def _number(request: Request, name: str) -> int:
    """A page's number; what is none is the first."""
    given = request.query_params.get(name, "1")
    plain = given.isascii() and given.isdecimal() and len(given) < 7
    return max(1, int(given)) if plain else 1


def _order(request: Request) -> Order:
    given = request.query_params.get("order")
    return next((order for order in ORDERS if order == given), "share")
