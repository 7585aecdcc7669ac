"""What an audit found."""

from __future__ import annotations

import math
from collections.abc import Hashable
from dataclasses import dataclass, field
from typing import Literal

import numpy as np

from shoal.auditing.running import Histogram
from shoal.explain.text import down, plain, up
from shoal.values import Array

Verdict = Literal["consistent", "violated"]

_MOSTLY = 0.5


@dataclass(frozen=True, kw_only=True)
class Evidence:
    """One event, counted in both worlds.

    ``inside`` of the ``runs`` on the first and on the second data set were in the event. With
    ``swapped`` it is likelier on the second. ``edges`` and ``histograms`` show the statistic.
    """

    claim: Literal["crowd", "local"]
    claimed: float
    lower: float
    delta: float
    statistic: str
    event: str
    threshold: float
    at_least: bool
    swapped: bool
    data: str
    runs: tuple[int, int]
    inside: tuple[int, int]
    edges: Array = field(repr=False, compare=False)
    histograms: tuple[Histogram, Histogram] = field(repr=False, compare=False)

    @property
    def violated(self) -> bool:
        """Whether the claim is refuted."""
        return self.lower > self.claimed

    @property
    def shares(self) -> tuple[float, float]:
        """How often the event happened in each world."""
        first, second = np.divide(self.inside, np.maximum(self.runs, 1)).tolist()
        return first, second

    @property
    def words(self) -> str:
        """The evidence in a sentence."""
        inside, runs = self.inside, self.runs
        return (
            f"{self.statistic} {self.event} in {inside[0]:,} of {runs[0]:,} runs on the first data "
            f"set and in {inside[1]:,} of {runs[1]:,} on the second ({self.data})"
        )

    def to_dict(self) -> dict[str, object]:
        """Plain values, without the histograms."""
        return {
            "claimed": self.claimed,
            "lower": self.lower,
            "delta": self.delta,
            "statistic": self.statistic,
            "event": self.event,
            "threshold": self.threshold,
            "at_least": self.at_least,
            "likelier_on": "second" if self.swapped else "first",
            "data": self.data,
            "runs": list(self.runs),
            "inside": list(self.inside),
        }


@dataclass(frozen=True, kw_only=True)
class Audit:
    """Lower bounds on epsilon, from running the pipeline, beside what is claimed.

    All lower bounds hold together with probability ``confidence`` or more, whatever the pipeline
    does, if its runs are independent. "consistent" is not a proof: a flaw that this audit does not
    look for, or that so many runs do not show, stays unseen.

    ``inputs`` were tried, of ``screened`` that there were to choose from. ``unread`` is the share
    of messages that never repeat and have no part by which inputs were told apart.
    """

    name: str
    n: int
    runs: int
    confidence: float
    evidence: Evidence
    local_evidence: Evidence | None
    inputs: tuple[Hashable, ...]
    screened: int
    unread: float

    @property
    def lower(self) -> float:
        """The crowd's epsilon is above this."""
        return self.evidence.lower

    @property
    def claimed(self) -> float:
        """What is claimed of the crowd."""
        return self.evidence.claimed

    @property
    def delta(self) -> float:
        """The delta of both."""
        return self.evidence.delta

    @property
    def local_lower(self) -> float | None:
        """The epsilon of one message by itself is above this; None if nothing is claimed."""
        return None if self.local_evidence is None else self.local_evidence.lower

    @property
    def claimed_local(self) -> float | None:
        """What is claimed of one message by itself."""
        return None if self.local_evidence is None else self.local_evidence.claimed

    @property
    def evidences(self) -> tuple[Evidence, ...]:
        """Of every claim audited, the crowd's first."""
        more = () if self.local_evidence is None else (self.local_evidence,)
        return (self.evidence, *more)

    @property
    def verdict(self) -> Verdict:
        """Whether any claim is refuted."""
        return "violated" if any(each.violated for each in self.evidences) else "consistent"

    @property
    def words(self) -> str:
        """The verdict in a sentence or two."""
        told = [_told(each, self.n) for each in self.evidences]
        warned = f"; {self.warning}" if self.warning else ""
        return f"{self.verdict}: {'; '.join(told)} (confidence {plain(self.confidence)}){warned}"

    @property
    def warning(self) -> str | None:
        """That most messages say nothing to this audit, if so."""
        if self.unread <= _MOSTLY:
            return None
        return (
            f"about {math.floor(100 * self.unread)} % of the messages never repeat, and no part "
            "that was looked at told inputs apart: what they say stays unseen, however many the "
            "runs (encryption and random tags have to be taken off before an audit)"
        )

    @property
    def tried(self) -> str:
        """Which inputs were tried."""
        listed = ", ".join(str(_plain(value)) for value in self.inputs)
        more = f" (of {self.screened:,} screened)" if self.screened > len(self.inputs) else ""
        return f"{listed}{more}"

    def to_dict(self) -> dict[str, object]:
        """Plain values."""
        local = self.local_evidence
        return {
            "name": self.name,
            "verdict": self.verdict,
            "words": self.words,
            "n": self.n,
            "delta": self.delta,
            "claimed": self.claimed,
            "lower": self.lower,
            "claimed_local": self.claimed_local,
            "local_lower": self.local_lower,
            "confidence": self.confidence,
            "runs": self.runs,
            "inputs": [_plain(value) for value in self.inputs],
            "screened": self.screened,
            "unread": self.unread,
            "evidence": self.evidence.to_dict(),
            "local_evidence": None if local is None else local.to_dict(),
        }

    def __str__(self) -> str:
        return "\n".join([self.words, *(each.words for each in self.evidences)])


def _plain(value: Hashable) -> object:
    """A datum as JSON has it."""
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, tuple):
        return [_plain(part) for part in value]
    return value if value is None or isinstance(value, str | int | float) else repr(value)


def _told(found: Evidence, n: int) -> str:
    what = f"ε of {n:,} people at δ = {plain(found.delta)}" if found.claim == "crowd" else "ε0"
    claim = f"claimed {up(found.claimed)}"
    sign = "above the" if found.violated else "not above the"
    return f"{what} is at least {down(found.lower)}, {sign} {claim}"
