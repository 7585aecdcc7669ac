"""What the analyzer does with each kind of request."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response

from shoal.sealing import SurveyId
from shoal.service.analyzer.documents import written
from shoal.service.analyzer.promise import promise_document
from shoal.service.analyzer.remembered import Remembered
from shoal.service.analyzer.results import survey_results
from shoal.service.analyzer.store import AnalyzerStore
from shoal.service.http import requests
from shoal.service.http.limits import Addresses, Limits
from shoal.service.http.openapi import JSON
from shoal.service.http.problems import Problem, ProblemError
from shoal.service.keyring import Keyring

CSV = "text/csv"


@dataclass(kw_only=True)
class Handlers:
    """The endpoints, and what they share."""

    store: AnalyzerStore
    keyring: Keyring
    limits: Limits
    public_results: bool

    def __post_init__(self) -> None:
        self._addresses = Addresses(self.limits)
        self._made = Remembered()

    async def keys(self, request: Request) -> Response:
        """The signed list of public keys, the same bytes for everybody."""
        self._charge(request)
        return await requests.key_list(self.keyring)

    async def shuffler_keys(self, request: Request) -> Response:
        """The newest list of keys that a shuffler showed to this analyzer."""
        self._charge(request)
        copies = await run_in_threadpool(self.store.copies)
        asked = request.query_params.get("fingerprint")
        found = copies.get(asked) if asked is not None else None
        if asked is None and len(copies) == 1:
            (found,) = copies.values()
        if found is None:
            detail = "there is no copy of one such list; name the shuffler by its fingerprint"
            raise ProblemError(Problem(kind="no_copy", status=404, detail=detail))
        return Response(found, media_type=JSON, headers={"Cache-Control": "no-cache"})

    async def surveys(self, request: Request) -> Response:
        """The surveys that are collected here."""
        self._charge(request)
        found = await run_in_threadpool(self.store.surveys)
        listed = [
            {"survey": str(survey.id), "name": survey.name, "question": survey.question}
            for survey in found
        ]
        return _json({"surveys": listed})

    async def survey(self, request: Request) -> Response:
        """The survey's canonical configuration, whose hash is its name."""
        self._charge(request)
        found = await run_in_threadpool(self.store.survey, requests.survey_named(request))
        return requests.configuration(found.to_bytes())

    async def promise(self, request: Request) -> Response:
        """What one person is promised."""
        self._charge(request)
        found = await run_in_threadpool(self.store.survey, requests.survey_named(request))
        body = written(await run_in_threadpool(promise_document, found))
        return Response(body, media_type=JSON, headers=requests.KEPT)

    async def results(self, request: Request) -> Response:
        """The result of every batch, and of all together."""
        name = await self._authorized(request)
        return await run_in_threadpool(self._results, name, _wanted(request))

    def _results(self, name: SurveyId, wanted: str) -> Response:
        """As they were made for somebody before, unless there are others by now."""
        version = self.store.version(name)  # before: what comes meanwhile is asked for again

        def make() -> bytes:
            found = survey_results(self.store, name)
            return found.to_csv().encode() if wanted == CSV else written(found.to_dict())

        body = self._made.get(name, wanted, version, make)
        if wanted != CSV:
            return Response(body, media_type=JSON, headers=requests.NOT_KEPT)
        file = f'attachment; filename="{str(name)[:16]}.csv"'
        headers = {**requests.NOT_KEPT, "Content-Disposition": file}
        return Response(body, media_type=f"{CSV}; charset=utf-8", headers=headers)

    async def result(self, request: Request) -> Response:
        """The result of one batch, as it was published."""
        name = await self._authorized(request)
        body = await run_in_threadpool(self.store.result, name, requests.batch_named(request))
        return Response(body, media_type=JSON, headers=requests.NOT_KEPT)

    async def ledger(self, request: Request) -> Response:
        """What every batch tells about a person in it."""
        name = await self._authorized(request)
        survey = await run_in_threadpool(self.store.survey, name)
        entries = await run_in_threadpool(self.store.ledger, name)
        life = await run_in_threadpool(self.store.life, name)
        promised = {"epsilon": survey.epsilon, "delta": survey.delta}
        body = {"survey": str(name), "promised": promised, "batches": entries, "life": life}
        return _json(body)

    async def _authorized(self, request: Request) -> SurveyId:
        """The survey's name, if its results are for everybody or the request shows a token."""
        self._charge(request)
        name = requests.survey_named(request)
        if not self.public_results:
            await run_in_threadpool(self.store.tokens.check, requests.bearer(request), name)
        return name

    def _charge(self, request: Request) -> None:
        self._addresses.charge(requests.sender(request), 1)


def _wanted(request: Request) -> str:
    """JSON, unless a table is asked for by ``format`` or, without it, by the header Accept."""
    asked = request.query_params.get("format")
    if asked is None:
        accepted = request.headers.get("accept", "")
        types = [part.partition(";")[0].strip().lower() for part in accepted.split(",")]
        return CSV if CSV in types and JSON not in types else JSON
    if asked not in {"json", "csv"}:
        detail = "format must be json or csv"
        raise ProblemError(Problem(kind="malformed", status=400, detail=detail))
    return CSV if asked == "csv" else JSON


def _json(value: Mapping[str, Any]) -> Response:
    return Response(written(value), media_type=JSON, headers=requests.NOT_KEPT)
