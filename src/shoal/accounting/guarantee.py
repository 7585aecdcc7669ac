"""A guarantee: (epsilon, delta), the theorem behind it, and what it assumes."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property

from shoal.explain import plots
from shoal.explain.document import Document
from shoal.explain.text import down, plain, up
from shoal.explain.views import CurveViews, Explained, draw_curve

NEIGHBOURING = "replacement"
TRUST = "the shuffler hides who sent which report and does not collude with the analyzer"
_REPLACED = ("one person's datum", "all rows of one person")  # of one report each, of several
_TIGHT = 1e-3


@dataclass(frozen=True, kw_only=True)
class Guarantee(Explained):
    """What is proved, on which side, and under which assumptions.

    Returned by :func:`shoal.amplify`, and a field of every result that is private.

    Attributes:
        epsilon: Upper bound on the privacy loss at ``delta``, rounded up.
        delta: The probability up to which ε may fail.
        n: The honest people counted on.
        local_epsilon: ε₀ of what one person sends, even if everybody else colludes.
        theorem: What proves it.
        assumptions: What it takes for granted, in words.
        local_delta: δ₀ beside ε₀.
        rounds: Rounds of reports that are composed.
        columns: Questions that each person answers in a round.
        reports: Reports that each person makes on each of them.
        neighbouring: Which data sets count as neighbours.
        trust: Who has to keep which promise.
        lower_bound: Computes ``lower``.
        profile: The whole curve δ(ε) of which this is one point, where there is one.

    References:
        :doc:`/theory/index` has a page for each theorem that ``theorem`` may name.

    Example:
        >>> import shoal
        >>> g = shoal.amplify(local_epsilon=4, n=100_000, delta=1e-6)
        >>> round(g.lower, 4) < round(g.epsilon, 4) < g.local_epsilon
        True
        >>> g.neighbours
        "replacement: one person's datum becomes any other"
    """

    epsilon: float
    delta: float
    n: int
    local_epsilon: float
    theorem: str
    assumptions: tuple[str, ...]
    local_delta: float = 0.0
    rounds: int = 1
    columns: int = 1
    reports: int = 1
    neighbouring: str = NEIGHBOURING
    trust: str = TRUST
    lower_bound: Callable[[], float] = field(default=lambda: 0.0, repr=False, compare=False)
    profile: CurveViews | None = field(default=None, repr=False, compare=False)

    @cached_property
    def lower(self) -> float:
        """How far any better analysis of the same claim could still go."""
        return self.lower_bound()

    @property
    def neighbours(self) -> str:
        """Which data sets cannot be told apart, in words."""
        if self.neighbouring != NEIGHBOURING:
            return self.neighbouring
        become = "becomes any other" if self.reports == 1 else "become any others"
        return f"{NEIGHBOURING}: {_REPLACED[self.reports > 1]} {become}"

    @property
    def warnings(self) -> tuple[str, ...]:
        """What to know before relying on it."""
        warnings = delta_warnings(self.delta, self.n)
        if 0 < self.local_epsilon * (1 - _TIGHT) <= self.epsilon:
            warnings += ("ε is hardly below ε0, if at all: that much holds without any shuffling",)
        return warnings

    def to_dict(self) -> dict[str, object]:
        """Plain values, as the command line's ``--json`` prints them; no local epsilon is None."""
        numbers = ("epsilon", "lower", "delta", "n", "local_epsilon", "local_delta", "rounds")
        names = (*numbers, "reports", "theorem", "neighbouring", "trust")
        values: dict[str, object] = {name: getattr(self, name) for name in names}
        values["local_epsilon"] = None if math.isinf(self.local_epsilon) else self.local_epsilon
        values["replaced"] = _REPLACED[self.reports > 1]
        return values | {"assumptions": list(self.assumptions), "warnings": list(self.warnings)}

    def document(self, title: str = "") -> Document:
        """The guarantee put into words."""
        people = f"{self.n:,} honest"
        if self.rounds > 1:
            people += f", {self.rounds:,} rounds"
        if self.reports > 1:
            people += f", {self.reports:,} reports each"
        # How far a better analysis could go, and by how much that is less.
        if self.delta == 0:
            lower = "δ cannot be below 0"
        elif self.lower <= 0:
            lower = "" if self.epsilon else "0"
        elif self.columns > 1:
            lower = f"{down(self.lower)}, by one column alone"
        elif self.rounds > 1:
            lower = f"{down(self.lower)}: no analysis of the {self.rounds:,} rounds can prove less"
        else:
            gap = 1 - self.lower / self.epsilon
            shown = f"gap {gap:.1%}" if gap >= _TIGHT else "no gap"
            lower = f"{down(self.lower)} ({shown}): no analysis can prove less"
        many = self.rounds * self.columns * self.reports
        each = "each report" if many == 1 else f"one person's {many:,} reports together"
        local = f"local ε0 = {up(self.local_epsilon)}"
        if self.local_delta:
            local += f", δ0 = {up(self.local_delta)}"
        local += f" for {each}"
        if math.isinf(self.local_epsilon):
            local = f"nothing: {each} may give the datum away"
        return Document(
            title or f"ε = {up(self.epsilon)} at δ = {plain(self.delta)}",
            facts=(
                ("epsilon", f"{up(self.epsilon)}, a proved upper bound"),
                ("delta", up(self.delta)),
                *([("lower bound", lower)] if lower else []),
                ("people", people),
                ("theorem", self.theorem),
                ("neighbours", self.neighbours),
                ("trusted", self.trust),
                ("no trust needed", local),
                *zip(("assumes", *[""] * len(self.assumptions)), self.assumptions, strict=False),
            ),
            warnings=self.warnings,
        )

    def plot(self, ax: plots.Axes | None = None) -> plots.Axes:
        """The guarantee on its curve δ(ε), if that is known, with the lower bound."""
        with plots.on(ax) as axes:
            if self.profile is None:
                draw_curve(axes, [(self.delta, self.epsilon, self.lower)] if self.delta else [])
            else:
                self.profile.plot(axes)
            if self.delta > 0:
                label = f"ε = {up(self.epsilon)} at δ = {plots.tick(self.delta)}"
                look = plots.Look(label, plots.VERMILION, plots.NO_LINE, marker="o")
                plots.plot(axes, ([self.epsilon], [self.delta]), look)
                axes.legend()
        return axes


def default_delta(n: float | None = None) -> float:
    """The delta of a guarantee that nobody chose one for: well below 1/n, and at most 1e-6.

    >>> default_delta(1_000), default_delta(10**8)
    (1e-06, 1e-09)
    """
    return 1e-6 if n is None else min(1e-6, 1 / (10 * n))


def delta_warnings(delta: float, n: int) -> tuple[str, ...]:
    """One record, drawn at random and published, is (0, 1/n)-private: delta must be less."""
    if delta < 1 / n:
        return ()
    instead = f"publishing the datum of one of the {n:,} people, drawn at random, would pass too"
    return (f"δ is not smaller than 1/n: {instead}",)
