"""What a load test found: how long answers took, and what they said."""

from __future__ import annotations

import json
from array import array
from collections import Counter
from dataclasses import dataclass, field
from typing import get_args

import numpy as np

from shoal.service.loadtest.connection import Answer
from shoal.service.loadtest.mix import Kind

KINDS: tuple[Kind, ...] = get_args(Kind)
KEPT = 202
LOST, UNANSWERED = "lost", "unanswered"  # beside the statuses
_PERCENTILES = {"p50": 50.0, "p95": 95.0, "p99": 99.0, "max": 100.0}


@dataclass
class Measured:
    """Seconds from when a request was due until it was answered, and the answers.

    A request that is not answered counts with the time that was waited for it: leaving it out
    would make a server that hangs look quick.
    """

    seconds: dict[Kind, array[float]] = field(
        default_factory=lambda: {kind: array("d") for kind in KINDS}
    )
    late: array[float] = field(default_factory=lambda: array("d"))  # of the generator itself
    statuses: Counter[str] = field(default_factory=Counter)
    refused_requests: Counter[str] = field(default_factory=Counter)
    refused_reports: Counter[str] = field(default_factory=Counter)
    longest_retry: int | None = None
    elapsed: float = 0.0
    interrupted: bool = False

    def answered(self, kind: Kind, seconds: float, answer: Answer | None) -> None:
        """Take note of an answer, or of a connection that ended without one."""
        self.seconds[kind].append(seconds)
        if answer is None:
            self.statuses[LOST] += 1
            return
        self.statuses[str(answer.status)] += 1
        waiting = answer.headers.get(b"retry-after", b"")
        if waiting.isdigit():
            self.longest_retry = max(self.longest_retry or 0, int(waiting))
        if answer.status != KEPT:
            self.refused_requests[_kind_of(answer.body)] += 1
        elif not answer.body.endswith(b'"refused":[]}'):  # nearly all do
            self.refused_reports.update(_reasons(answer.body))

    def unanswered(self, kind: Kind, seconds: float) -> None:
        """Take note of a request that nobody waits for any longer."""
        self.seconds[kind].append(seconds)
        self.statuses[UNANSWERED] += 1

    @property
    def requests(self) -> int:
        """How many were due."""
        return sum(self.statuses.values())

    @property
    def errors(self) -> float:
        """The share of requests that were not answered as if kept."""
        return 1 - self.statuses[str(KEPT)] / self.requests if self.requests else 0.0

    @property
    def rate(self) -> float:
        """Answers a second."""
        answers = self.requests - self.statuses[LOST] - self.statuses[UNANSWERED]
        return answers / self.elapsed if self.elapsed else 0.0

    def milliseconds(self, *kinds: Kind) -> dict[str, float] | None:
        """The latencies of some kinds, or of all; None if there are none."""
        found = [self.seconds[kind] for kind in kinds or KINDS]
        return _percentiles(np.concatenate([np.asarray(each) for each in found]))

    def to_dict(self) -> dict[str, object]:
        """Plain values."""
        by_kind = {kind: self.milliseconds(kind) for kind in KINDS if self.seconds[kind]}
        return {
            "requests": self.requests,
            "elapsed": self.elapsed,
            "rate": self.rate,
            "errors": self.errors,
            "milliseconds": self.milliseconds(),
            "milliseconds_by_kind": by_kind,
            "sent_late_milliseconds": _percentiles(np.asarray(self.late)),
            "statuses": dict(sorted(self.statuses.items())),
            "refused_requests": dict(self.refused_requests),
            "refused_reports": dict(self.refused_reports),
            "longest_retry_after": self.longest_retry,
            "interrupted": self.interrupted,
        }


def _percentiles(seconds: np.ndarray[tuple[int], np.dtype[np.float64]]) -> dict[str, float] | None:
    if not seconds.size:
        return None
    found = 1e3 * np.percentile(seconds, list(_PERCENTILES.values()), method="higher")
    return dict(zip(_PERCENTILES, found.tolist(), strict=True))


def _document(body: bytes) -> dict[str, object]:
    try:
        found = json.loads(body)
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def _kind_of(body: bytes) -> str:
    """The last word of a problem's type."""
    told = str(_document(body).get("type", "")).rpartition(":")[2]
    return told if told.isidentifier() else "unknown"


def _reasons(body: bytes) -> list[str]:
    refused = _document(body).get("refused", [])
    items = refused if isinstance(refused, list) else []
    return [str(item.get("reason")) for item in items if isinstance(item, dict)]
