"""The analyzer's HTTP application: keys and surveys for everybody, results for who may read them.

It only reads: batches are collected by a worker, which may be another process. Pages for people are
made elsewhere, from what :class:`AnalyzerPages` has, and handed in as routes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute

from shoal.sealing import SurveyId
from shoal.service.analyzer.decode import REASONS
from shoal.service.analyzer.publish import (
    NOT_ENFORCED,
    PUBLISHED,
    WITHHELD,
    promise_json,
    written,
)
from shoal.service.analyzer.results import ResultCache, survey_results
from shoal.service.analyzer.store import AnalyzerStore
from shoal.service.http import openapi, requests
from shoal.service.http.application import Application
from shoal.service.http.limits import Addresses, Limits
from shoal.service.http.openapi import (
    BATCH,
    EVERYWHERE,
    JSON,
    NUMBER,
    OBJECT,
    SURVEY,
    SURVEY_PATH,
    TEXT,
    TOKENS,
    UNKNOWN,
    Content,
    Operation,
    Parameter,
    Schema,
    as_json,
    keys_operation,
    survey_operation,
)
from shoal.service.http.problems import Observe, Problem, ProblemError, unobserved
from shoal.service.keyring import Keyring

VERSION = "1"
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
class Handlers:
    """The endpoints, and what they share."""

    store: AnalyzerStore
    keyring: Keyring
    limits: Limits
    public_results: bool

    def __post_init__(self) -> None:
        self._addresses = Addresses(self.limits)
        self._made = ResultCache()

    async def keys(self, request: Request) -> Response:
        """The signed list of public keys, the same bytes for everybody."""
        self._charge(request)
        return await requests.key_list(self.keyring)

    async def shuffler_keys(self, request: Request) -> Response:
        """The newest list of keys that a shuffler showed to this analyzer."""
        self._charge(request)
        lists = await run_in_threadpool(self.store.key_lists.all)
        asked = request.query_params.get("fingerprint")
        document = lists.get(asked) if asked is not None else None
        if asked is None and len(lists) == 1:
            (document,) = lists.values()
        if document is None:
            detail = "there is no copy of one such list; name the shuffler by its fingerprint"
            raise ProblemError(Problem(kind="no_copy", status=404, detail=detail))
        return Response(document, media_type=JSON, headers={"Cache-Control": "no-cache"})

    async def surveys(self, request: Request) -> Response:
        """The surveys that are collected here."""
        self._charge(request)
        surveys = await run_in_threadpool(self.store.surveys.all)
        listed = [
            {"survey": str(survey.id), "name": survey.name, "question": survey.question}
            for survey in surveys
        ]
        return _json({"surveys": listed})

    async def survey(self, request: Request) -> Response:
        """The survey's canonical configuration, whose hash is its name."""
        self._charge(request)
        survey = await run_in_threadpool(self.store.surveys.get, requests.survey_named(request))
        return requests.configuration(survey.to_bytes())

    async def promise(self, request: Request) -> Response:
        """What one person is promised."""
        self._charge(request)
        survey = await run_in_threadpool(self.store.surveys.get, requests.survey_named(request))
        body = written(await run_in_threadpool(promise_json, survey))
        return Response(body, media_type=JSON, headers=requests.KEPT)

    async def results(self, request: Request) -> Response:
        """The result of every batch, and of all together."""
        name = await self._authorized(request)
        return await run_in_threadpool(self._results, name, _wanted(request))

    def _results(self, name: SurveyId, wanted: str) -> Response:
        """As they were made for somebody before, unless there are others by now."""
        version = self.store.results.version(
            name
        )  # before: what comes meanwhile is asked for again

        def make() -> bytes:
            results = survey_results(self.store, name)
            return results.to_csv().encode() if wanted == CSV else written(results.to_dict())

        body = self._made.get(name, wanted, version, make)
        if wanted != CSV:
            return Response(body, media_type=JSON, headers=requests.NOT_KEPT)
        file = f'attachment; filename="{str(name)[:16]}.csv"'
        headers = {**requests.NOT_KEPT, "Content-Disposition": file}
        return Response(body, media_type=f"{CSV}; charset=utf-8", headers=headers)

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


# The operations, as the OpenAPI document tells them

_format = Parameter(
    name="format",
    place="query",
    schema={"enum": ["json", "csv"]},
    description="What to answer with; without it the header Accept decides.",
    required=False,
)
_fingerprint = Parameter(
    name="fingerprint",
    place="query",
    schema=openapi.digits(64),
    description="Which shuffler: as the survey says. Not needed where there is only one.",
    required=False,
)


def _or_null(schema: Schema) -> Schema:
    return {"anyOf": [schema, {"type": "null"}]}


_SHARE = openapi.record(
    {
        "answer": TEXT,
        "share": NUMBER,
        "low": NUMBER,
        "high": NUMBER,
        "standard_error": NUMBER,
        "count": NUMBER,
    }
)
_MEAN = openapi.record(
    {"mean": NUMBER, "low": NUMBER, "high": NUMBER, "standard_error": NUMBER, "sum": NUMBER}
)
_LIFE = openapi.record(
    {
        "epsilon": _or_null(NUMBER),
        "batches": openapi.count(),
        "smallest": _or_null(openapi.count()),
        "analyzer_epsilon": _or_null(NUMBER),
        "opened": openapi.count(),
    }
)
_ABOUT: dict[str, Schema] = {"survey": openapi.digits(64), "name": TEXT, "question": TEXT}
_WORTH: dict[str, Schema] = {
    "valid": openapi.count(),
    "honest": openapi.count(),
    "epsilon": _or_null(NUMBER),
    "delta": NUMBER,
    "local_epsilon": _or_null(NUMBER),
    "theorem": _or_null(TEXT),
    "reports_per_person": openapi.count(1),
    "reports_per_person_is": {"enum": [NOT_ENFORCED]},
    "participation": NUMBER,
    "dishonest": NUMBER,
    "assumptions": openapi.array(TEXT),
    "trust": TEXT,
}
_FOUND: dict[str, Schema] = {
    "level": NUMBER,
    "estimates": _or_null(openapi.array(openapi.reference("Share"))),
    "mean": _or_null(openapi.reference("Mean")),
    "bias_bound": _or_null(NUMBER),
    "withheld": _or_null(TEXT),
}
_RESULT = openapi.record(
    {
        "version": openapi.count(1),
        "status": {"enum": [PUBLISHED, WITHHELD]},
        **_ABOUT,
        "batch": openapi.digits(32),
        "reports": openapi.count(1),
        "rejected": openapi.record(dict.fromkeys(REASONS, openapi.count())),
        **_WORTH,
        **_FOUND,
        "life": openapi.reference("Life"),
        "published": openapi.count(),
    }
)
_COMBINED = openapi.record({"batches": openapi.count(1), **_WORTH, **_FOUND})
_RESULTS = openapi.record(
    {
        "version": openapi.count(1),
        **_ABOUT,
        "batches": openapi.array(openapi.reference("Result")),
        "combined": _or_null(openapi.reference("Combined")),
        "refused": openapi.array(openapi.record({"batch": openapi.digits(32), "reason": TEXT})),
        "life": openapi.reference("Life"),
    }
)
_ENTRY = openapi.record(
    {
        "batch": openapi.digits(32),
        "epsilon": _or_null(NUMBER),
        "delta": NUMBER,
        "valid": openapi.count(),
        "honest": openapi.count(),
        "released": {"type": "boolean"},
    }
)
_LEDGER = openapi.record(
    {
        "survey": openapi.digits(64),
        "promised": openapi.record({"epsilon": NUMBER, "delta": NUMBER}),
        "batches": openapi.array(_ENTRY),
        "life": openapi.reference("Life"),
    }
)
_STATEMENT = openapi.record({"name": TEXT, "title": TEXT, "text": TEXT})
_PROMISE: Schema = openapi.record(
    {
        "version": openapi.count(1),
        "survey": openapi.digits(64),
        "name": TEXT,
        "question": TEXT,
        "epsilon": NUMBER,
        "promised_epsilon": NUMBER,
        "delta": NUMBER,
        "delta_taking_part": NUMBER,
        "local_epsilon": {"anyOf": [NUMBER, {"type": "null"}]},
        "minimum": openapi.count(2),
        "honest": openapi.count(1),
        "dishonest": NUMBER,
        "reports_per_person": openapi.count(1),
        "participation": NUMBER,
        "report_bytes": openapi.count(1),
        "not_before": openapi.count(),
        "not_after": openapi.count(),
        "shuffler": TEXT,
        "analyzer": TEXT,
        "theorem": TEXT,
        "trust": TEXT,
        "assumptions": openapi.array(TEXT),
        "leaves": TEXT,
        "statements": openapi.array(_STATEMENT),
        "steps": openapi.array(TEXT),
        "served": TEXT,
    }
)
_LISTED = openapi.record({"surveys": openapi.array(openapi.record(_ABOUT))})


def _described(handlers: Handlers) -> tuple[list[Operation], dict[str, Any]]:
    """The operations, and their document."""
    operations = [*_public(handlers), *_of_results(handlers)]
    document = openapi.document(
        operations,
        title="Shoal analyzer",
        version=VERSION,
        description="Publishes what surveys found, with its error and its privacy guarantee.",
        schemas={
            "Share": _SHARE,
            "Mean": _MEAN,
            "Life": _LIFE,
            "Result": _RESULT,
            "Combined": _COMBINED,
            "Results": _RESULTS,
            "Ledger": _LEDGER,
            "Promise": _PROMISE,
        },
    )
    return operations, document


def _public(handlers: Handlers) -> list[Operation]:
    return [
        keys_operation(handlers.keys, "analyzer"),
        Operation(
            path="/v1/keys/shuffler",
            endpoint=handlers.shuffler_keys,
            summary="The list of keys that the shuffler shows to this analyzer.",
            description="""
            Devices that fetch the shuffler's list themselves can compare: a shuffler that gives
            somebody keys of their own would have to show two different lists.
            """,
            parameters=[_fingerprint],
            answer=as_json("The list.", OBJECT),
            problems={404: "No copy of such a list.", **EVERYWHERE},
            cross_origin=True,
        ),
        Operation(
            path="/v1/surveys",
            endpoint=handlers.surveys,
            summary="The surveys that are collected here.",
            answer=as_json("Surveys.", _LISTED),
            problems=EVERYWHERE,
            cross_origin=True,
        ),
        survey_operation(handlers.survey),
        Operation(
            path=f"{SURVEY_PATH}/promise",
            endpoint=handlers.promise,
            summary="What one person is promised, in numbers and in plain sentences.",
            description="""
            All of it follows from the survey. Epsilon is that of a person whose reports are in the
            smallest batches that may be released; ``local_epsilon`` holds whoever colludes, and is
            null if then nothing does.
            """,
            parameters=[SURVEY],
            answer=as_json("Promise.", openapi.reference("Promise")),
            problems=UNKNOWN,
            cross_origin=True,
        ),
    ]


def _of_results(handlers: Handlers) -> list[Operation]:
    secured = not handlers.public_results
    refusals = {**(TOKENS if secured else {}), **UNKNOWN}
    return [
        Operation(
            path=f"{SURVEY_PATH}/results",
            endpoint=handlers.results,
            summary="The result of every batch, and of all of them together.",
            description="""
            A batch with too few valid reports is withheld: it says how many there were and what
            they would have cost, and has no estimates. What counts together is the sum of the
            batches; its epsilon is that of a person in the smallest of them.
            """,
            parameters=[SURVEY, _format],
            answer=Content(
                description="Results.",
                media={JSON: openapi.reference("Results"), CSV: TEXT},
            ),
            problems={400: "Another format.", **refusals},
            secured=secured,
        ),
        Operation(
            path=f"{SURVEY_PATH}/results/{{batch}}",
            endpoint=handlers.result,
            summary="The result of one batch, as it was published.",
            parameters=[SURVEY, BATCH],
            answer=as_json("Result.", openapi.reference("Result")),
            problems={**refusals, 404: "No such survey, or no result of such a batch."},
            secured=secured,
        ),
        Operation(
            path=f"{SURVEY_PATH}/ledger",
            endpoint=handlers.ledger,
            summary="What every batch tells about a person in it.",
            parameters=[SURVEY],
            answer=as_json("Ledger.", openapi.reference("Ledger")),
            problems=refusals,
            secured=secured,
        ),
    ]


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
    handlers = Handlers(
        store=store,
        keyring=keyring,
        limits=limits or Limits(),
        public_results=public_results,
    )
    operations, document = _described(handlers)
    return Application(operations, document, observe=observe, pages=pages, shared=SHARED_PAGES)
