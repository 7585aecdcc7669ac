"""What every column has to keep, whoever chose its randomizer."""

from __future__ import annotations

from dataclasses import dataclass

from shoal import checks
from shoal.accounting import amplification
from shoal.accounting.guarantee import Guarantee
from shoal.errors import InvalidArgumentError, UnreachableTargetError
from shoal.explain.text import plain, up
from shoal.protocols.base import Device

WEAKER = "weaker than the plan"
_ROUNDING = 1 + 1e-6  # what was solved for comes out above its target by rounding


@dataclass(frozen=True)
class Target:
    """The (epsilon, delta) that a plan promises for n people."""

    epsilon: float
    delta: float
    n: int


@dataclass(frozen=True)
class Wish:
    """What a plan that is made on the way should be like."""

    messages_cap: float | None = None
    choose: str | None = None

    @property
    def most(self) -> float | None:
        """Messages per person: one, unless more are allowed or something is asked for by name."""
        return 1.0 if self.messages_cap is None and self.choose is None else self.messages_cap

    def require_none(self) -> None:
        """Without a plan to be made there is nothing to wish for."""
        for name, value in (("messages_cap", self.messages_cap), ("choose", self.choose)):
            if value is not None:
                expected = f"no {name} beside a randomizer or a plan: it is for epsilon"
                raise InvalidArgumentError(name, value, expected)


@dataclass(frozen=True)
class Limits:
    """The share of honest people, the largest local epsilon, and whether a plan may be missed."""

    honest_fraction: float = 1.0
    local_epsilon_cap: float | None = None
    allow_weaker: bool = False

    def __post_init__(self) -> None:
        checks.share(honest_fraction=self.honest_fraction)
        if self.local_epsilon_cap is not None:
            checks.positive(local_epsilon_cap=self.local_epsilon_cap)

    def require_local(self, randomizer: Device, *, planned: float | None) -> None:
        """The randomizer's local epsilon is within the cap, and within the plan's own."""
        caps = {
            "local_epsilon_cap": self.local_epsilon_cap,
            "the plan's local_epsilon_cap": planned,
        }
        for name, cap in caps.items():
            if cap is not None and randomizer.local_epsilon > cap * _ROUNDING:
                expected = f"a randomizer within {name} = {cap:g}"
                raise InvalidArgumentError("local_epsilon", randomizer.local_epsilon, expected)

    def require_target(
        self, target: Target, randomizer: Device, found: Guarantee, *, n: int, honest: float
    ) -> tuple[str, ...]:
        """The target is kept by n people, of whom ``found`` was proved; or a note that it is not.

        ``found`` may be at another delta than the target's.
        """
        holds = found.epsilon
        if found.delta != target.delta:
            kept = amplification.amplify(
                randomizer, n=n, delta=target.delta, honest_fraction=honest
            )
            holds = kept.epsilon
        if holds <= target.epsilon * _ROUNDING:
            return ()
        said = f"for {n:,} people epsilon {up(holds)} holds at delta {plain(target.delta)}"
        if self.allow_weaker:
            missed = f"{WEAKER}: its epsilon {plain(target.epsilon)} is not kept"
            return (f"{missed}, {said}, and it was made for {target.n:,}",)
        needs = amplification.required_n(
            randomizer, epsilon=target.epsilon, delta=target.delta, honest_fraction=honest
        )
        raise UnreachableTargetError(
            f"the plan's epsilon {plain(target.epsilon)}",
            said,
            f"the plan needs {needs:,} people: make a plan for {n:,}, or go on with less privacy "
            "by allow_weaker=True (--allow-weaker)",
        )
