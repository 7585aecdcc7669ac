"""What a request says, and answers that both services give: signed keys and whole surveys."""

from __future__ import annotations

import re

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response

from shoal.sealing import MalformedError, SurveyId
from shoal.service.errors import UnknownBatchError, UnknownSurveyError
from shoal.service.http.openapi import JSON
from shoal.service.http.problems import ProblemError, no_token
from shoal.service.keyring import CACHE_SECONDS, Keyring

HEX32 = re.compile(r"[0-9a-f]{32}")
NOT_KEPT = {"Cache-Control": "no-store"}
KEPT = {"Cache-Control": f"public, max-age={CACHE_SECONDS}"}
_NEVER_CHANGES = {"Cache-Control": "public, max-age=31536000, immutable"}
_LONGEST_TOKEN = 1000


def sender(request: Request) -> str | None:
    """Where it comes from: to be limited by, never to be kept."""
    return request.client.host if request.client else None


def survey_named(request: Request) -> SurveyId:
    """The survey in its path."""
    try:
        return SurveyId.from_text(request.path_params["survey"])
    except MalformedError:
        raise UnknownSurveyError("of this name") from None


def batch_named(request: Request) -> str:
    """The batch in its path."""
    batch: str = request.path_params["batch"]
    if not HEX32.fullmatch(batch):
        raise UnknownBatchError("of this name")
    return batch


def bearer(request: Request) -> str:
    """The token that it shows."""
    scheme, _, token = request.headers.get("authorization", "").partition(" ")
    token = token.strip()
    if scheme.lower() != "bearer" or not token or len(token) > _LONGEST_TOKEN:
        raise ProblemError(no_token())
    return token


async def key_list(keyring: Keyring) -> Response:
    """The signed list of public keys, the same bytes for everybody."""
    body = await run_in_threadpool(lambda: keyring.list().to_bytes())
    return Response(body, media_type=JSON, headers=KEPT)


def configuration(survey: bytes) -> Response:
    """A survey's canonical bytes, whose hash is its name."""
    return Response(survey, media_type=JSON, headers=_NEVER_CHANGES)
