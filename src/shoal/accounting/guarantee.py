"""A guarantee: (epsilon, delta), the theorem behind it, and what it assumes."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property

from shoal.accounting.rounding import down, plain, up

NEIGHBOURING = "replacement"
TRUST = "the shuffler hides who sent which report and does not collude with the analyzer"


@dataclass(frozen=True, kw_only=True)
class Guarantee:
    """What is proved, on which side, and under which assumptions.

    ``epsilon`` is an upper bound on the privacy loss at ``delta``; ``lower`` is a number that no
    better analysis of the same claim can go below (an explicit randomizer and data set reach it),
    computed when first asked for. ``local_epsilon`` (with ``local_delta``) holds even if everybody
    else colludes.
    """

    epsilon: float
    delta: float
    n: int
    local_epsilon: float
    theorem: str
    assumptions: tuple[str, ...]
    local_delta: float = 0.0
    rounds: int = 1
    neighbouring: str = NEIGHBOURING
    trust: str = TRUST
    lower_bound: Callable[[], float] = field(default=lambda: 0.0, repr=False, compare=False)

    @cached_property
    def lower(self) -> float:
        """How far any better analysis of the same claim could still go."""
        return self.lower_bound()

    def to_dict(self) -> dict[str, object]:
        """Plain values, as the command line's ``--json`` prints them; no local epsilon is None."""
        return {
            "epsilon": self.epsilon,
            "lower": self.lower,
            "delta": self.delta,
            "n": self.n,
            "local_epsilon": None if math.isinf(self.local_epsilon) else self.local_epsilon,
            "local_delta": self.local_delta,
            "rounds": self.rounds,
            "theorem": self.theorem,
            "neighbouring": self.neighbouring,
            "trust": self.trust,
            "assumptions": list(self.assumptions),
        }

    def __str__(self) -> str:
        """One readable block."""
        local = f"local epsilon {plain(self.local_epsilon)}"
        if self.local_delta:
            local += f" (with delta {plain(self.local_delta)})"
        alone = f"{local} still holds"
        if math.isinf(self.local_epsilon):
            alone = "nothing holds: one person's messages by themselves give the datum away"
        lines = [
            ("epsilon", f"{up(self.epsilon)} at delta {up(self.delta)}  (proved upper bound)"),
            *([("no analysis below", down(self.lower))] if self.lower > 0 else []),
            ("honest people", f"{self.n:,}" + (f", {self.rounds} rounds" * (self.rounds > 1))),
            ("theorem", self.theorem),
            ("neighbouring", f"{self.neighbouring} of one person's datum"),
            ("trusted", self.trust),
            ("without any trust", alone),
            *(("assumes", assumption) for assumption in self.assumptions),
        ]
        width = max(len(label) for label, _ in lines)
        return "\n".join(f"{label:<{width}}  {text}" for label, text in lines)
