"""What everybody's device does to a datum before the report is passed on."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import cached_property

from shoal.accounting.approximate import clones_distance, optimal_distance
from shoal.accounting.devices import Devices, Randomizer, law_of
from shoal.accounting.law import BlanketLaw
from shoal.accounting.profile import PrivacyProfile
from shoal.errors import InvalidArgumentError

SAME = "one randomizer with this local guarantee, the same for everybody"


@dataclass(frozen=True)
class Base:
    """A blanket law, and the total variation of all reports to ones that have it."""

    law: BlanketLaw
    distance: float = 0.0


@dataclass(frozen=True, kw_only=True)
class Reports:
    """A known randomizer, or any with a local guarantee that everybody uses."""

    randomizer: Randomizer | None = None
    local_epsilon: float | None = None
    local_delta: float = 0.0
    _devices: Devices = field(init=False, repr=False)

    def __post_init__(self) -> None:
        devices = Devices(
            randomizer=self.randomizer,
            local_epsilon=self.local_epsilon,
            local_delta=self.local_delta,
        )
        object.__setattr__(self, "_devices", devices)

    @cached_property
    def own(self) -> BlanketLaw:
        """The law that a pure randomizer is accounted by."""
        if self.randomizer is not None:
            return law_of(self.randomizer)
        if self.local_epsilon is None:
            raise InvalidArgumentError("local_epsilon", None, "a local_epsilon or a randomizer")
        return BlanketLaw.generic(self.local_epsilon)

    def bases(self, n: int) -> tuple[Base, ...]:
        """The laws to try, for n honest people."""
        if self.local_delta == 0 or self.local_epsilon is None:
            return (Base(self.own),)
        given = {"local_epsilon": self.local_epsilon, "local_delta": self.local_delta}
        clones = BlanketLaw.clones(self.local_epsilon)
        return (
            Base(self.own, optimal_distance(n=n, **given)),
            Base(clones, clones_distance(n=n, **given)),
        )

    @property
    def local(self) -> tuple[float, float]:
        """The (ε0, δ0) of each report by itself."""
        return self.own.local_epsilon, self.local_delta

    @property
    def scope(self) -> str:
        """Which randomizers are covered."""
        return self.own.claim.scope if self.randomizer is not None else SAME

    def central(self, n: int) -> PrivacyProfile:
        """The uniform shuffle of n of these reports, exchanged for pure ones."""
        return PrivacyProfile(self.own, n)

    def divergence(self, epsilon: float) -> float:
        """D_x of a report by itself, at most, between any two data."""
        growth = math.exp(epsilon)
        return max(
            float(pair.mass @ (pair.rho0 - growth * pair.rho1).clip(min=0.0))
            + pair.lost_divergence(epsilon).upper
            for pair in self.own.pairs
        )
