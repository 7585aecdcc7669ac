"""The result of an audit: lower bounds beside claims, and the evidence for each."""

from __future__ import annotations

import math
from collections.abc import Hashable
from dataclasses import dataclass, field
from typing import Literal

import numpy as np
import numpy.typing as npt

from shoal import checks
from shoal.explain import plots
from shoal.explain.document import Document, Row, Table
from shoal.explain.text import down, plain, up
from shoal.explain.views import Explained
from shoal.values import Array, attributes

Verdict = Literal["consistent", "violated"]
Histogram = npt.NDArray[np.int64]

_MOSTLY = 0.5
_HEADROOM = 1.3  # above the tallest bar, for the legend
_VERDICTS: dict[Verdict, str] = {
    "consistent": "consistent: nothing refutes what is claimed",
    "violated": "violated: more is lost than is claimed",
}


@dataclass(frozen=True, kw_only=True)
class Evidence:
    """One event that :func:`shoal.audit` counted on both data sets.

    Attributes:
        claim: "crowd" or "local".
        claimed: The ε that is claimed.
        lower: The ε that is proved from below.
        delta: The δ of ``claimed`` and ``lower``; 0 for the local claim.
        statistic: What was computed of each run, in words.
        event: When a run is in the event, in words.
        threshold: The value that the statistic is compared with.
        at_least: Whether the event is to be at or above it.
        swapped: Whether it is likelier on the second data set.
        data: The two data sets, in words.
        runs: On the first and on the second data set.
        inside: How many of them were in the event.
        edges: Of the histograms.
        histograms: The statistic on both data sets.

    References:
        :doc:`/theory/auditing`.
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

    def about(self, n: int) -> str:
        """What the claim is about."""
        crowd = f"{n:,} people, δ = {plain(self.delta)}"
        return crowd if self.claim == "crowd" else "one message by itself"

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
        return (
            attributes(self, "claimed", "lower", "delta", "statistic", "event", "threshold")
            | {"at_least": self.at_least, "likelier_on": "second" if self.swapped else "first"}
            | {"data": self.data, "runs": list(self.runs), "inside": list(self.inside)}
        )


@dataclass(frozen=True, kw_only=True)
class Audit(Explained):
    """Lower bounds on ε that :func:`shoal.audit` found, beside what is claimed.

    All lower bounds hold together with probability ``confidence`` or more, whatever the
    pipeline does, if its runs are independent. "consistent" is not a proof: a flaw that this
    audit does not look for, or that so many runs do not show, stays unseen.

    Attributes:
        name: What was audited.
        n: People in the data sets.
        runs: Runs on each of them.
        confidence: Of all lower bounds together.
        evidence: Of the crowd's ε.
        local_evidence: Of one report's ε₀, if one is claimed.
        inputs: Data that were tried.
        screened: How many there were to choose from.
        unread: Fraction of messages that never repeat and have no part by which inputs were
            told apart.

    References:
        :doc:`/theory/auditing`.
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
        """The δ of the crowd's epsilon, claimed and proved; the local ones are at δ = 0."""
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
        bounds = []
        for each in self.evidences:
            crowd = f"ε of {self.n:,} people at δ = {plain(each.delta)}"
            what = crowd if each.claim == "crowd" else "ε0"
            sign = f"{'' if each.violated else 'not '}above the claimed {up(each.claimed)}"
            bounds.append(f"{what} is at least {down(each.lower)}, {sign}")
        unread = "".join(f"; {warning}" for warning in self._unread_warnings)
        return f"{self.verdict}: {'; '.join(bounds)} (confidence {plain(self.confidence)}){unread}"

    @property
    def warnings(self) -> tuple[str, ...]:
        """What to know before relying on it: messages that say nothing, runs that are too few."""
        if self._unread_warnings or self.verdict == "violated" or self.lower > 0:
            return self._unread_warnings
        return (
            "too few runs to say anything about the ε of all reports: use more runs, or a larger δ",
        )

    @property
    def _unread_warnings(self) -> tuple[str, ...]:
        if self.unread <= _MOSTLY:
            return ()
        warning = (
            f"about {math.floor(100 * self.unread)} % of the messages never repeat, and no "
            "part of them tells the inputs apart: the audit cannot see what they reveal, "
            "however many runs it makes (remove encryption and random tags before an audit)"
        )
        return (warning,)

    @property
    def tried(self) -> str:
        """Which inputs were tried."""
        more = f" (of {self.screened:,} screened)" if self.screened > len(self.inputs) else ""
        return ", ".join(str(_plain(value)) for value in self.inputs) + more

    def to_dict(self) -> dict[str, object]:
        """Plain values."""
        local = self.local_evidence
        bounds = ("n", "delta", "claimed", "lower", "claimed_local", "local_lower", "confidence")
        names = ("name", "verdict", "words", *bounds, "runs", "inputs", "screened", "unread")
        return attributes(self, *names) | {
            "inputs": [_plain(value) for value in self.inputs],
            "evidence": self.evidence.to_dict(),
            "local_evidence": None if local is None else local.to_dict(),
            "warnings": list(self.warnings),
        }

    def document(self) -> Document:
        """The verdict, a row for each claim, and the evidence."""
        rows = []
        for each in self.evidences:
            verdict, style = ("violated", "strong") if each.violated else ("not refuted", "")
            cells = (each.about(self.n), up(each.claimed), down(each.lower), verdict)
            rows.append(Row(cells, style))
        how = f"{self.runs:,} runs on each data set; all lower bounds hold together with confidence"
        names = {"crowd": "crowd", "local": "one message"}
        heads = ("claim", "claimed ε", "ε is at least", "verdict")
        return Document(
            _VERDICTS[self.verdict],
            table=Table(heads, tuple(rows), numeric=frozenset({1, 2})),
            sentences=(
                *(f"{names[each.claim]}: {each.words}" for each in self.evidences),
                f"{self.name}, {how} {plain(self.confidence)}, if runs are independent.",
                f"inputs tried: {self.tried}",
            ),
            warnings=self.warnings,
        )

    def plot(
        self, ax: plots.Axes | None = None, *, claim: Literal["crowd", "local"] | None = None
    ) -> plots.Axes:
        """The statistic on both data sets, and the event that was counted.

        Of the ``claim`` that is named; else of one that is refuted, or of the crowd's.
        """
        audited = {each.claim: each for each in self.evidences}
        if claim is None:
            shown = next((each for each in self.evidences if each.violated), self.evidence)
        else:
            checks.one_of(tuple(audited), claim=claim)
            shown = audited[claim]
        with plots.on(ax) as axes:
            _draw(axes, shown, self.n)
        return axes


def _draw(axes: plots.Axes, evidence: Evidence, n: int) -> None:
    edges = evidence.edges
    # Which bins are in the event: the threshold is one of their edges.
    inside = ((edges[1:] + edges[:-1]) / 2 >= evidence.threshold) == evidence.at_least
    tallest = 0.0
    for world, color in enumerate((plots.BLUE, plots.VERMILION)):
        runs, hits = evidence.runs[world], evidence.inside[world]
        fractions = evidence.histograms[world] / max(runs, 1)
        tallest = max(tallest, float(fractions.max()))
        label = f"{('first', 'second')[world]} data set: {hits:,} of {runs:,} in the event"
        axes.stairs(fractions, edges, color=color, linewidth=1.4, label=label)
        beyond = np.where(inside, fractions, 0.0)
        axes.stairs(beyond, edges, fill=True, color=color, alpha=0.22, linewidth=0)
    verdict = "VIOLATED" if evidence.violated else "not refuted"
    bound = f"claimed ε = {up(evidence.claimed)}, at least {down(evidence.lower)}: {verdict}"
    plots.frame(
        axes,
        plots.Axis(evidence.statistic, (float(edges[0]), float(edges[-1])), log=False),
        plots.Axis("fraction of the runs", (0, tallest * _HEADROOM), log=False),
        f"{evidence.about(n)}\n{bound}",
    )
    height, left = 1 / _HEADROOM, not evidence.at_least
    dash = plots.DASHED
    plots.upright(axes, evidence.threshold, evidence.event, plots.QUIET, dash, height, left=left)
    axes.legend(loc="upper left", handlelength=1.2)


def _plain(value: Hashable) -> object:
    """A datum as JSON has it."""
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, tuple):
        return [_plain(part) for part in value]
    return value if value is None or isinstance(value, str | int | float) else repr(value)
