"""An exchange with a service, without a network: what is requested, and what a response says.

Exchanges are written as generators. Each yields a :class:`Request` and is sent the
:class:`Response`, or has a :class:`NoResponse` raised in it; after a :class:`Wait` it just goes
on. :mod:`shoal.service.client.client` has the loops.
"""

from __future__ import annotations

import json
from collections.abc import Generator, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias, TypeVar

T = TypeVar("T")

LARGEST_RESPONSE = 4 << 20
_RESEAL = frozenset({"unknown_key", "expired_key", "outdated_key", "pending_key"})
# Statuses by which a service says that it took nothing.
_TAKEN_NOTHING = frozenset({400, 403, 404, 405, 408, 411, 413, 415, 422, 429})
_TRY_AGAIN = frozenset({403, 404, 408, 429})
_LONGEST_REASON = 300
_UNKNOWN_SURVEY = "urn:shoal:problem:unknown_survey"


@dataclass(frozen=True)
class Request:
    """GET, or POST if there is a body."""

    url: str
    body: bytes | None = field(default=None, repr=False)


@dataclass(frozen=True)
class Wait:
    seconds: float


Exchange: TypeAlias = Generator[Request | Wait, Any, T]


class Retry(Exception):  # noqa: N818 - it ends no call: the report is tried again
    """It did not work, and may work later. ``unsent``: it certainly did not arrive."""

    def __init__(self, reason: str, *, unsent: bool, seconds: float = 0.0) -> None:
        super().__init__(reason)
        self.reason = reason
        self.unsent = unsent
        self.seconds = seconds


class NoResponse(Retry):
    """The request got no response; ``unsent``: it is certain that it did not get there."""


class Rejected(Exception):  # noqa: N818 - the caller is told by a DeliveryError
    """The shuffler refused all of it, for good."""


@dataclass(frozen=True)
class Accepted:
    """The shuffler has them, but for those to be sealed anew and those refused for good."""

    reseal: tuple[int, ...]
    refused: tuple[int, ...]
    reason: str = ""


@dataclass(frozen=True)
class Response:
    """What a service answered; names of headers in lower case."""

    status: int
    headers: Mapping[str, str]
    body: bytes = field(repr=False)

    def json(self) -> dict[str, Any]:
        """The document of a stranger; an empty one for what is none."""
        try:
            document = json.loads(self.body)
        except (ValueError, RecursionError):
            return {}
        return document if isinstance(document, dict) else {}

    def problem(self) -> str:
        """The sentence of a problem document, or the status."""
        document = self.json()
        sentence = _plain(document.get("detail")) or _plain(document.get("title"))
        return f"{sentence} (status {self.status})" if sentence else f"status {self.status}"

    def refusal(self) -> str:
        """The same for somebody with a report, who may have been handed a wrong survey."""
        if self.json().get("type") != _UNKNOWN_SURVEY:
            return self.problem()
        return (
            "the shuffler does not collect for this survey: its file may have been changed, ask "
            f"for the original (status {self.status})"
        )

    @property
    def max_age(self) -> int:
        """Seconds for which it may be kept (Cache-Control)."""
        for part in self.headers.get("cache-control", "").split(","):
            name, _, value = part.strip().lower().partition("=")
            if name in ("no-store", "no-cache"):
                return 0
            if name == "max-age" and value.isdecimal():
                return int(value[:9])
        return 0

    @property
    def retry_after(self) -> float:
        """Seconds that a service asks to wait, or 0."""
        value = self.headers.get("retry-after", "")
        return float(value[:9]) if value.isdecimal() else 0.0


def read_receipt(response: Response, reports: int) -> Accepted:
    """What a shuffler has of so many reports; raises Retry or Rejected if it has none."""
    if response.status == 202:
        accepted = _accepted(response.json(), reports)
        if accepted is not None:
            return accepted
    unsent = response.status in _TAKEN_NOTHING
    if unsent and response.status not in _TRY_AGAIN:
        raise Rejected(response.refusal())
    raise Retry(response.refusal(), unsent=unsent, seconds=response.retry_after)


def _accepted(document: dict[str, Any], reports: int) -> Accepted | None:
    """None for what a shuffler does not say; a wireless network's login page, for one."""
    count, items = document.get("reports"), document.get("refused", [])
    if type(count) is not int or count != reports or not isinstance(items, list):
        return None
    reseal: set[int] = set()
    refused: set[int] = set()
    reason = ""
    for item in items:
        index = item.get("index") if isinstance(item, dict) else None
        if type(index) is not int or not 0 <= index < reports:  # true is no index
            return None
        reason = _plain(item.get("reason"))
        (reseal if reason in _RESEAL else refused).add(index)
    return Accepted(tuple(sorted(reseal - refused)), tuple(sorted(refused)), reason)


def _plain(value: object) -> str:
    """Text of a stranger, short and without what would command a terminal."""
    if not isinstance(value, str):
        return ""
    return "".join(letter for letter in value[:_LONGEST_REASON] if letter.isprintable())
