"""The analyzer's HTTP application: keys and surveys for everybody, results for who may read them.

It only reads: batches are collected by a worker, which may be another process. Pages for people are
made elsewhere, from what :class:`AnalyzerPages` has, and handed in as routes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute

from shoal.sealing import SurveyId
from shoal.service.analyzer.results import ResultCache, promise_json, written
from shoal.service.analyzer.store import AnalyzerStore
from shoal.service.http import openapi, requests
from shoal.service.http.limits import Addresses, Limits
from shoal.service.http.openapi import JSON, Application
from shoal.service.http.problems import Observe, Problem, ProblemError, unobserved
from shoal.service.keyring import Keyring

CSV = "text/csv"
SHARED_PAGES = ("/embed.js",)  # that other sites put into theirs


@dataclass(frozen=True, kw_only=True)
class AnalyzerPages:
    """What pages are made from.

    ``proxied``: requests come through a reverse proxy, whose word on how they came is believed.
    """

    store: AnalyzerStore
    keyring: Keyring
    limits: Limits
    public_results: bool = False
    proxied: bool = False


Pages: TypeAlias = Callable[[AnalyzerPages], Sequence[BaseRoute]]


def no_pages(_analyzer: AnalyzerPages) -> Sequence[BaseRoute]:
    """An analyzer for programs only."""
    return ()


@dataclass(kw_only=True)
class Handlers(requests.PartyHandlers):
    """The endpoints, and what they share."""

    store: AnalyzerStore
    public_results: bool
    cache: ResultCache = field(default_factory=ResultCache)

    async def shuffler_keys(self, request: Request) -> Response:
        """The newest list of keys that a shuffler showed to this analyzer."""
        lists = await run_in_threadpool(self.store.key_lists.all)
        fingerprint = request.query_params.get("fingerprint")
        document = lists.get(fingerprint) if fingerprint is not None else None
        if fingerprint is None and len(lists) == 1:
            (document,) = lists.values()
        if document is None:
            detail = "there is no copy of this list; name the shuffler by its fingerprint"
            raise ProblemError(Problem("no_copy", 404, detail))
        return Response(document, media_type=JSON, headers={"Cache-Control": "no-cache"})

    async def surveys(self, _request: Request) -> Response:
        """The surveys that are collected here."""
        surveys = await run_in_threadpool(self.store.surveys.all)
        listed = [
            {"survey": str(survey.id), "name": survey.name, "question": survey.title}
            for survey in surveys
        ]
        return _json({"surveys": listed})

    async def survey(self, request: Request) -> Response:
        """The survey's canonical configuration, whose hash is its name."""
        survey = await run_in_threadpool(self.store.surveys.get, requests.survey_named(request))
        return requests.configuration(survey.to_bytes())

    async def promise(self, request: Request) -> Response:
        """What one person is promised."""
        survey = await run_in_threadpool(self.store.surveys.get, requests.survey_named(request))
        body = written(await run_in_threadpool(promise_json, survey))
        return Response(body, media_type=JSON, headers=requests.KEPT)

    async def results(self, request: Request) -> Response:
        """The result of every batch, and of all together."""
        name = await self._authorized(request)
        return await run_in_threadpool(self._results, name, _wanted(request))

    def _results(self, name: SurveyId, wanted: str) -> Response:
        """As they were made for somebody before, unless there are others by now."""
        results = self.store.results
        version = results.version(name)  # before: what comes meanwhile is asked for again
        make = {
            JSON: lambda: written(results.survey(name).to_dict()),
            CSV: lambda: results.survey(name).to_csv().encode(),
        }
        body, headers = self.cache.get(name, wanted, version, make[wanted]), requests.NOT_KEPT
        if wanted == CSV:
            file = f'attachment; filename="{str(name)[:16]}.csv"'
            headers = {**headers, "Content-Disposition": file}
        return Response(body, media_type=wanted, headers=headers)

    async def result(self, request: Request) -> Response:
        """The result of one batch, as it was published."""
        name = await self._authorized(request)
        body = await run_in_threadpool(self.store.results.get, name, requests.batch_named(request))
        return Response(body, media_type=JSON, headers=requests.NOT_KEPT)

    async def ledger(self, request: Request) -> Response:
        """What every batch tells about a person in it."""
        name = await self._authorized(request)
        survey = await run_in_threadpool(self.store.surveys.get, name)
        entries = await run_in_threadpool(self.store.ledger.entries, name)
        spent = await run_in_threadpool(self.store.ledger.spent, name)
        promised = {"epsilon": survey.epsilon, "delta": survey.delta}
        body = {"survey": str(name), "promised": promised, "batches": entries, "life": spent}
        return _json(body)

    async def _authorized(self, request: Request) -> SurveyId:
        """The survey's name, if its results are for everybody or the request shows a token."""
        name = requests.survey_named(request)
        if not self.public_results:
            await run_in_threadpool(self.store.tokens.check, requests.bearer(request), name)
        return name


def _wanted(request: Request) -> str:
    """JSON, unless a table is asked for by ``format`` or, without it, by the header Accept."""
    table = request.query_params.get("format")
    if table is None:
        accepted = request.headers.get("accept", "")
        types = [part.partition(";")[0].strip().lower() for part in accepted.split(",")]
        return CSV if CSV in types and JSON not in types else JSON
    if table not in {"json", "csv"}:
        detail = "format must be json or csv"
        raise ProblemError(Problem("malformed", 400, detail))
    return CSV if table == "csv" else JSON


def _json(value: Mapping[str, Any]) -> Response:
    return Response(written(value), media_type=JSON, headers=requests.NOT_KEPT)


def analyzer_app(
    store: AnalyzerStore,
    keyring: Keyring,
    *,
    public_results: bool = False,
    limits: Limits | None = None,
    observe: Observe = unobserved,
    pages: Sequence[BaseRoute] = (),
) -> Starlette:
    """The application; results need a bearer token unless they are public.

    ``pages`` are routes for people, beside the ones for programs.
    """
    return Application(
        openapi.read(__file__, public=public_results),
        Handlers(store=store, keyring=keyring, public_results=public_results),
        addresses=Addresses(limits or Limits()),
        observe=observe,
        pages=pages,
        shared=SHARED_PAGES,
    )
