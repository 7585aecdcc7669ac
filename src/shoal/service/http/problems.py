"""What is wrong with a request, and what to do about it: problem details (RFC 9457).

Every answer with a status of 400 or more is one JSON object of type ``application/problem+json``::

    {"type": "urn:shoal:problem:unknown_survey", "title": ..., "status": 404, "detail": ...}

``type`` is for programs and never changes its meaning; ``detail`` is one sentence for people. A
problem that passes by waiting says how long, in ``retry_after`` and in the header of that name.

A handler raises :class:`ProblemError`, or lets an error of the service through: :func:`problem_of`
knows which problem each of them is, and the application answers with it.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Mapping
from dataclasses import KW_ONLY, dataclass, field
from http import HTTPStatus
from typing import TypeAlias

from starlette.exceptions import HTTPException
from starlette.responses import Response

from shoal.errors import InvalidArgumentError, ShoalError
from shoal.sealing import Plain, SealingError
from shoal.service import errors
from shoal.service.keyring import KeyringError

MEDIA_TYPE = "application/problem+json"
PREFIX = "urn:shoal:problem:"
RETRY_SECONDS = 10
_CHALLENGE = 'Bearer realm="shoal"'

# What is measured: a name, a value, and a reason or nothing. Never who, and never what they sent.
Observe: TypeAlias = Callable[[str, float, str], None]

_log = logging.getLogger(__name__)


def unobserved(_name: str, _value: float, _reason: str) -> None:
    """Measure nothing."""


@dataclass(frozen=True)
class Problem:
    """One refusal: ``kind`` completes the type's name, ``extra`` members go into the document.

    ``close`` ends the connection after the answer, where the rest of the request was not read.

    >>> Problem("unknown_survey", 404, "no such survey").document()["type"]
    'urn:shoal:problem:unknown_survey'
    """

    kind: str
    status: int
    detail: str
    _: KW_ONLY
    retry_after: int | None = None
    extra: Mapping[str, Plain] = field(default_factory=dict)
    headers: Mapping[str, str] = field(default_factory=dict)
    close: bool = False

    def document(self) -> dict[str, Plain]:
        """The members of the JSON object."""
        waiting = {} if self.retry_after is None else {"retry_after": self.retry_after}
        return {
            "type": PREFIX + self.kind,
            "title": HTTPStatus(self.status).phrase,
            "status": self.status,
            "detail": self.detail,
            **waiting,
            **self.extra,
        }

    def response(self) -> Response:
        """The answer."""
        headers = {"Cache-Control": "no-store", **self.headers}
        if self.retry_after is not None:
            headers["Retry-After"] = str(self.retry_after)
        if self.close:
            headers["Connection"] = "close"
        body = json.dumps(self.document(), ensure_ascii=False).encode()
        return Response(body, self.status, headers=headers, media_type=MEDIA_TYPE)


class ProblemError(Exception):
    """Raised by a handler to answer with a problem."""

    def __init__(self, problem: Problem) -> None:
        self.problem = problem
        super().__init__(problem.detail)


# What an error is that does not say it itself; looked up along its bases, so the nearest decides.
_KINDS: dict[type[BaseException], str] = {
    errors.StoreUnavailableError: "unavailable",
    errors.UnreadableError: "unavailable",
    KeyringError: "unavailable",
    SealingError: "malformed",
    InvalidArgumentError: "invalid",
    ShoalError: "refused",
}
_STATUS = {
    "unavailable": 503,
    "unknown_survey": 404,
    "survey_closed": 403,
    "unknown_batch": 404,
    "not_ready": 425,
    "already_collected": 409,
    "wrong_digest": 409,
    "not_authorized": 401,
    "forbidden": 403,
    "malformed": 400,
    "invalid": 400,
    "refused": 409,
}
_OF_THE_FRAMEWORK = {
    404: ("no_such_path", "there is nothing at this path; /openapi.json lists all paths"),
    405: ("wrong_method", "this path has other methods; see the header Allow"),
}
_WAITING = {425, 429, 503}
# What is wrong inside is for the log; paths and addresses of the operator's are nobody's business.
_INSIDE = "the service cannot read or write its data now; try again later"
_CHALLENGES = {
    "not_authorized": f'{_CHALLENGE}, error="invalid_token"',
    "forbidden": f'{_CHALLENGE}, error="insufficient_scope"',
}


def problem_of(error: ShoalError) -> Problem:
    """The problem that an error of the service is."""
    default = next(_KINDS[base] for base in type(error).__mro__ if base in _KINDS)
    kind: str = getattr(error, "kind", default)
    status, challenge = _STATUS[kind], _CHALLENGES.get(kind)
    retry_after: int = getattr(error, "retry_after", RETRY_SECONDS)
    return Problem(
        kind,
        status,
        _INSIDE if status >= 500 else str(error),
        retry_after=retry_after if status in _WAITING else None,
        headers={} if challenge is None else {"WWW-Authenticate": challenge},
    )


NO_TOKEN = Problem(
    "not_authorized",
    401,
    "send the token of this survey in the header Authorization: Bearer ...",
    headers={"WWW-Authenticate": _CHALLENGE},
)


def answer_to(error: Exception, observe: Observe = unobserved) -> Response:
    """The answer to a request that failed."""
    match error:
        case ProblemError():
            problem = error.problem
        case ShoalError():
            problem = problem_of(error)
        case HTTPException():
            kind, detail = _OF_THE_FRAMEWORK.get(error.status_code, ("refused", error.detail))
            problem = Problem(kind, error.status_code, detail, headers=error.headers or {})
        case _:
            detail = "this is a fault of the service; the request may be sent again"
            problem = Problem("internal", 500, detail)
    observe("refused_requests", 1, problem.kind)
    if problem.status >= 500:
        _log.warning(problem.kind, exc_info=error)
    return problem.response()
