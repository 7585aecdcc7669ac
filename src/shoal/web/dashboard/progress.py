"""How far the open batch is, as the shuffler tells everybody: in quarters of the smallest crowd.

The analyzer's process asks for itself, whoever looks at the dashboard and however often: at most
once in the interval in which the shuffler looks itself. Should a shuffler say more than quarters,
no more than quarters is kept.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any, TypeGuard

import httpx

from shoal.service.survey import Survey

EVERY = 600.0  # seconds between two questions
AFTER_FAILURE = 60.0
QUARTERS = 4
_TIMEOUT = 5.0
_LARGEST = 4096
_HOUR = 3600
_LONGEST = 10 * 365 * 24  # hours


@dataclass(frozen=True)
class Progress:
    """What was told last: ``quarters`` of the smallest crowd, ``closes_in`` so many hours at most.

    ``quarters`` is None where the smallest crowd is too small to tell parts of it.
    """

    reachable: bool
    quarters: int | None = None
    closes_in: int | None = None

    @property
    def lasts(self) -> float:
        """For how many seconds nobody is asked again."""
        return EVERY if self.reachable else AFTER_FAILURE


UNREACHABLE = Progress(reachable=False)


def asked(survey: Survey, transport: httpx.BaseTransport | None = None) -> Progress:
    """What the survey's shuffler says now."""
    url = f"{survey.shuffler.url.rstrip('/')}/v1/surveys/{survey.id}/progress"
    headers = {"Accept-Encoding": "identity"}
    try:
        with (
            httpx.Client(transport=transport, timeout=_TIMEOUT, headers=headers) as client,
            client.stream("GET", url) as answer,
        ):
            answer.raise_for_status()
            return told(json.loads(_body(answer)))
    except (httpx.HTTPError, httpx.InvalidURL, ValueError, RecursionError):
        return UNREACHABLE


def _body(answer: httpx.Response) -> bytes:
    """No more than such an answer may have."""
    found = b""
    for piece in answer.iter_raw(_LARGEST):
        found += piece
        if len(found) > _LARGEST:
            raise ValueError(len(found))
    return found


def told(document: Any) -> Progress:  # noqa: ANN401 - whatever was sent
    """What an answer says, never finer than quarters and hours.

    >>> told({"share": 0.317, "minimum": 1000, "closes_in": 4000})
    Progress(reachable=True, quarters=1, closes_in=2)
    """
    if not isinstance(document, dict):
        return UNREACHABLE
    share, closes_in = document.get("share"), document.get("closes_in")
    quarters = hours = None
    if _is_number(share) and 0 <= share <= 1:
        quarters = int(share * QUARTERS)
    if quarters and _is_number(closes_in) and 0 <= closes_in <= _LONGEST * _HOUR:
        hours = -int(-closes_in // _HOUR)
    return Progress(reachable=True, quarters=quarters, closes_in=hours)


def _is_number(value: object) -> TypeGuard[float]:
    return isinstance(value, int | float) and not isinstance(value, bool)
