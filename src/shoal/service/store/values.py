"""What goes into the shuffler's store and what comes out of it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from shoal.sealing import SurveyId


@dataclass(frozen=True)
class Arrival:
    """Reports of one survey, sealed with one key of the shuffler, one after the other."""

    survey: SurveyId
    key: int
    reports: bytes


@dataclass(frozen=True)
class Receipt:
    """How many reports of an arrival were new, and how many had been there before."""

    new: int
    duplicate: int


@dataclass(frozen=True)
class Extent:
    """A stretch of a segment."""

    segment: str
    start: int
    bytes: int


@dataclass(frozen=True)
class Claim:
    """Reports of one survey and key that nobody else opens while the lease lasts.

    ``owner`` is fresh for every claim: what somebody else has taken over since is not touched.
    ``attempts`` is how often these reports were claimed before.
    """

    survey: SurveyId
    key: int
    count: int
    attempts: int
    owner: str
    extents: tuple[Extent, ...]


@dataclass(frozen=True)
class SealedBatch:
    """A closed batch that nobody else shuffles while the lease lasts.

    Its records are in ``parts``; the shuffled file is written to ``draft``.
    """

    id: str
    survey: SurveyId
    inner_key: int
    valid: int
    owner: str
    parts: tuple[Path, ...]
    draft: Path


@dataclass(frozen=True)
class Transition:
    """What became of a batch."""

    batch: str
    survey: SurveyId
    state: str


@dataclass(frozen=True)
class BatchInfo:
    """A batch that can be, or was, collected. ``closed`` is rounded down to the hour."""

    id: str
    state: str
    inner_key: int
    reports: int
    records: int
    bytes: int
    digest: str
    closed: int


@dataclass(frozen=True)
class Progress:
    """What everybody may know about an open batch, as it was when it was looked at last.

    ``share`` of the minimum is rounded down to quarters; None if the minimum is so small that they
    would count people. ``closes_in`` is rounded up to hours, in seconds; None if less than a
    quarter is there, or if the batch waits for the minimum only.
    """

    share: float | None
    minimum: int
    closes_in: int | None


@dataclass(frozen=True)
class TokenScope:
    """What a token is for: one survey, or all of them."""

    label: str
    survey: SurveyId | None
    expires: int

    def to_dict(self, now: int) -> dict[str, object]:
        """Plain values, with whether it has ended."""
        return {
            "label": self.label,
            "survey": None if self.survey is None else str(self.survey),
            "expires": self.expires,
            "ended": self.expires <= now,
        }
