"""What each column's devices run, given a budget, a randomizer or a plan, and what that costs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Literal, TypeVar, cast

from shoal import checks
from shoal.accounting import amplification
from shoal.accounting.devices import Profile
from shoal.accounting.guarantee import Guarantee
from shoal.engines.coding import PUBLIC, Coded
from shoal.engines.columns import chosen
from shoal.engines.limits import Limits, Target, Wish
from shoal.errors import InvalidArgumentError, OutOfRegimeError, UnreachableTargetError
from shoal.planning.plan import Plan
from shoal.planning.planner import plan as planned
from shoal.protocols.base import Device

Split = Literal["divide", "compose"]
T = TypeVar("T")


@dataclass(frozen=True, eq=False)
class Step:
    """One column with its randomizer: all that is needed before the first report."""

    coded: Coded
    randomizer: Device
    plan: Plan | None
    guarantee: Guarantee
    profile: Profile
    notes: tuple[str, ...]


@dataclass(frozen=True)
class Given:
    """How private: a budget, what devices run, or a plan; exactly one of the three."""

    epsilon: float | None = None
    randomizer: Device | Mapping[str, Device] | None = None
    plan: Plan | Mapping[str, Plan] | None = None

    def __post_init__(self) -> None:
        stated = {"epsilon": self.epsilon, "randomizer": self.randomizer, "plan": self.plan}
        given = [name for name, value in stated.items() if value is not None]
        if len(given) != 1:
            expected = "exactly one of epsilon, randomizer and plan"
            raise InvalidArgumentError("given", ", ".join(given) or "none", expected)
        if self.epsilon is not None:
            checks.positive(epsilon=self.epsilon)


@dataclass(frozen=True)
class Asked:
    """What the caller wants of all columns."""

    given: Given
    delta: float
    split: Split
    columns: tuple[str, ...]

    @classmethod
    def of(
        cls, given: Given, delta: float | None, split: Split | None, *, columns: tuple[str, ...]
    ) -> Asked:
        """The budget is divided unless there is none to divide; delta is the plans', or 1e-6."""
        if split not in {None, "divide", "compose"}:
            raise InvalidArgumentError("split", split, "divide or compose")
        if split == "divide" and given.epsilon is None:
            expected = (
                "no split beside a randomizer or a plan: only epsilon can be divided among columns"
            )
            raise InvalidArgumentError("split", split, expected)
        if delta is None:
            plans = (
                [required(given.plan, name, "plan") for name in columns]
                if given.plan is not None
                else []
            )
            deltas = [each.question.delta for each in plans]
            delta = max(deltas, default=amplification.DEFAULT_DELTA)
        checks.open_probability(delta=delta)
        shared: Split = split or ("compose" if given.epsilon is None else "divide")
        return cls(given, delta, shared, columns)

    @property
    def parts(self) -> int:
        """Into how many parts epsilon and delta are divided."""
        return len(self.columns) if self.split == "divide" else 1

    def step(self, coded: Coded, limits: Limits, wish: Wish) -> Step:
        """Plan a column, or check the randomizer given for it, and account for it."""
        delta = self.delta / self.parts
        found, honest, notes = self._planned(coded, delta, limits, wish)
        if found is not None:
            randomizer = found.randomizer
        else:
            given = required(self.given.randomizer, coded.name, "randomizer")
            randomizer = cast("Device", given)
        coded.require(randomizer, planned=self.given.plan is not None)
        asked = None if found is None else found.question
        limits.require_local(randomizer, planned=None if asked is None else asked.local_epsilon_cap)
        try:
            guarantee = amplification.amplify(
                randomizer, n=coded.n, delta=delta, honest_fraction=honest
            )
        except OutOfRegimeError as error:
            raise UnreachableTargetError(
                f"a guarantee of {randomizer.name} for {coded.n:,} people",
                str(error),
                f"make a plan for {coded.n:,} people",
            ) from error
        profile = amplification.profile(randomizer, n=coded.n, honest_fraction=honest)
        if asked is not None:
            target = Target(asked.epsilon, asked.delta, asked.n)
            notes += limits.require_target(target, randomizer, guarantee, n=coded.n, honest=honest)
        public = (note for note in coded.notes if note in PUBLIC)
        guarantee = replace(guarantee, assumptions=(*guarantee.assumptions, *public))
        return Step(coded, randomizer, found, guarantee, profile, (*coded.notes, *notes))

    def _planned(
        self, coded: Coded, delta: float, limits: Limits, wish: Wish
    ) -> tuple[Plan | None, float, tuple[str, ...]]:
        if self.given.epsilon is not None:
            made = planned(
                epsilon=self.given.epsilon / self.parts,
                delta=delta,
                n=coded.n,
                **coded.question,
                local_epsilon_cap=limits.local_epsilon_cap,
                honest_fraction=limits.honest_fraction,
                messages_cap=wish.most,
            )
            if wish.choose is not None:
                made = made.choose(wish.choose)
            return made, limits.honest_fraction, ()
        if self.given.plan is None:
            return None, limits.honest_fraction, ()
        found = required(self.given.plan, coded.name, "plan")
        _require_norm(found, coded)
        notes: tuple[str, ...] = ()
        if found.question.participation < 1:
            notes = ("the plan's participation is not used: every row reports",)
        return found, min(limits.honest_fraction, found.question.honest_fraction), notes


def _require_norm(found: Plan, coded: Coded) -> None:
    """What is predicted for vectors of one length does not hold for others."""
    norm = coded.question.get("norm")
    if found.question.norm != norm and norm is not None:
        advice = f"--dimension {coded.question['dimension']} --norm {norm:g}"
        expected = f"a plan with norm={norm:g} ({advice})"
        raise InvalidArgumentError("norm", found.question.norm, expected)


def required(given: T | Mapping[str, T] | None, name: str, what: str) -> T:
    """The column's own value, or an error that says what is missing."""
    found = chosen(given, name)
    if found is None:
        raise InvalidArgumentError(what, "none", f"a {what} for column {name}")
    return found
