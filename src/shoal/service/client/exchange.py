"""What a client wants done by the network, and what came back: the state machine does neither.

The machine is written as generators. Each yields what it wants, an :class:`Ask` or a
:class:`Wait`, and is sent what came of it; :mod:`shoal.service.client.front` has the loops.
"""

from __future__ import annotations

import json
from collections.abc import Generator, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias, TypeVar

T = TypeVar("T")

LARGEST_REPLY = 4 << 20
_RESEAL = frozenset({"unknown_key", "expired_key", "outdated_key", "pending_key"})
# Statuses by which a service says that it took nothing.
_TAKEN_NOTHING = frozenset({400, 403, 404, 405, 408, 411, 413, 415, 422, 429})
_LATER = frozenset({403, 404, 408, 429})
_LONGEST_REASON = 300
_UNKNOWN_SURVEY = "urn:shoal:problem:unknown_survey"


@dataclass(frozen=True)
class Ask:
    """A request: GET, or POST if there is a body."""

    url: str
    body: bytes | None = field(default=None, repr=False)


@dataclass(frozen=True)
class Wait:
    """A pause."""

    seconds: float


@dataclass(frozen=True)
class Reply:
    """What a service answered; names of headers in lower case."""

    status: int
    headers: Mapping[str, str]
    body: bytes = field(repr=False)


@dataclass(frozen=True)
class Silence:
    """No answer. ``unsent``: it is certain that the request did not get there."""

    reason: str
    unsent: bool


Came: TypeAlias = Reply | Silence | None
Talk: TypeAlias = Generator[Ask | Wait, Came, T]


def asked(ask: Ask) -> Talk[Reply | Silence]:
    """Ask, and have the answer."""
    came = yield ask
    assert came is not None  # noqa: S101 - of the loops in front
    return came


@dataclass(frozen=True)
class Later:
    """It did not work, and may work later. ``unsent``: it certainly did not arrive."""

    reason: str
    unsent: bool
    retry_after: float = 0.0


@dataclass(frozen=True)
class Never:
    """It was refused for good."""

    reason: str


@dataclass(frozen=True)
class Taken:
    """The shuffler has them, but for those to be sealed anew and those refused for good."""

    reseal: tuple[int, ...]
    refused: tuple[int, ...]
    reason: str = ""


def read_reply(came: Reply | Silence, reports: int) -> Taken | Later | Never:
    """What a shuffler's answer says about so many reports."""
    if isinstance(came, Silence):
        return Later(came.reason, came.unsent)
    if came.status == 202:
        found = _taken(came.body, reports)
        if found is not None:
            return found
    if came.status in _TAKEN_NOTHING:
        if came.status in _LATER:
            return Later(refused(came), unsent=True, retry_after=retry_after(came))
        return Never(refused(came))
    return Later(problem(came), unsent=False, retry_after=retry_after(came))


def _taken(body: bytes, reports: int) -> Taken | None:
    """None for what a shuffler does not say; a wireless network's login page, for one."""
    document = _json(body)
    refused = document.get("refused", [])
    told = document.get("reports")
    if type(told) is not int or told != reports or not isinstance(refused, list):
        return None
    reseal: set[int] = set()
    final: set[int] = set()
    reason = ""
    for item in refused:
        place = item.get("index") if isinstance(item, dict) else None
        if type(place) is not int or not 0 <= place < reports:  # true is no place
            return None
        reason = plain_text(item.get("reason"))
        (reseal if reason in _RESEAL else final).add(place)
    return Taken(tuple(sorted(reseal - final)), tuple(sorted(final)), reason)


def refused(came: Reply) -> str:
    """What a shuffler says to somebody with a report: they may have been handed a wrong survey."""
    if _json(came.body).get("type") != _UNKNOWN_SURVEY:
        return problem(came)
    return (
        "the shuffler does not collect for this survey: its file may have been changed, ask for "
        f"the original (status {came.status})"
    )


def problem(came: Reply) -> str:
    """The sentence of a problem document, or the status."""
    document = _json(came.body)
    told = plain_text(document.get("detail")) or plain_text(document.get("title"))
    return f"{told} (status {came.status})" if told else f"status {came.status}"


def plain_text(value: object) -> str:
    """Text of a stranger, short and without what would command a terminal."""
    if not isinstance(value, str):
        return ""
    return "".join(letter for letter in value[:_LONGEST_REASON] if letter.isprintable())


def max_age(came: Reply) -> int:
    """Seconds for which an answer may be kept (Cache-Control)."""
    for part in came.headers.get("cache-control", "").split(","):
        name, _, value = part.strip().lower().partition("=")
        if name in ("no-store", "no-cache"):
            return 0
        if name == "max-age" and value.isdecimal():
            return int(value[:9])
    return 0


def retry_after(came: Reply) -> float:
    """Seconds that a service asks to wait, or 0."""
    value = came.headers.get("retry-after", "")
    return float(value[:9]) if value.isdecimal() else 0.0


def _json(body: bytes) -> dict[str, Any]:
    try:
        found = json.loads(body)
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}
