"""What the devices of each column run, and what all columns cost together.

Everything is planned, checked and accounted for here before anybody reports.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal, TypeVar, cast

from shoal import checks
from shoal.accounting import amplification
from shoal.accounting.compose import ComposedProfile
from shoal.accounting.devices import Profile
from shoal.accounting.guarantee import Guarantee
from shoal.engines.coding import PUBLIC, Coded, chosen
from shoal.errors import (
    InvalidArgumentError,
    OutOfRegimeError,
    PrecisionError,
    UnreachableTargetError,
)
from shoal.explain.text import plain, up
from shoal.planning.plan import Plan
from shoal.planning.planner import messages_limit
from shoal.planning.planner import plan as make_plan
from shoal.protocols.base import Device

Split = Literal["divide", "compose"]
T = TypeVar("T")
_ROUNDING = 1 + 1e-6  # what was solved for comes out above its target by rounding


@dataclass(frozen=True, eq=False)
class Step:
    """One column with its randomizer: all that is needed before the first report."""

    coded: Coded
    randomizer: Device
    plan: Plan | None
    guarantee: Guarantee
    profile: Profile
    notes: tuple[str, ...]
    warnings: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class Requirements:
    """How private ``columns`` have to be: exactly one of epsilon, a randomizer and a plan.

    A randomizer may be a name, with its ``local_epsilon``. Delta is the plans', or 1e-6. The budget
    is divided among the columns unless there is none to divide.
    """

    columns: tuple[str, ...]
    epsilon: float | None = None
    delta: float | None = None
    randomizer: Device | str | Mapping[str, Device | str] | None = None
    local_epsilon: float | None = None
    plan: Plan | Mapping[str, Plan] | None = None
    split: Split | None = None
    honest_fraction: float = 1.0
    local_epsilon_cap: float | None = None
    messages_cap: float | None = None
    choose: str | None = None
    allow_weaker: bool = False

    def __post_init__(self) -> None:
        ways = {"epsilon": self.epsilon, "randomizer": self.randomizer, "plan": self.plan}
        given = [name for name, value in ways.items() if value is not None]
        if len(given) != 1:
            expected = "exactly one of epsilon, randomizer and plan"
            raise InvalidArgumentError("given", ", ".join(given) or "none", expected)
        checks.share(honest_fraction=self.honest_fraction)
        for name in ("epsilon", "local_epsilon_cap", "local_epsilon"):
            if getattr(self, name) is not None:
                checks.positive(**{name: getattr(self, name)})
        if self.epsilon is None:
            self._refuse_wishes()
        if self.split not in {None, "divide", "compose"}:
            raise InvalidArgumentError("split", self.split, "divide or compose")
        self._check_local_epsilon()
        delta = self.delta
        if delta is None:
            plans = [] if self.plan is None else [self._plan(name) for name in self.columns]
            deltas = [plan.question.delta for plan in plans]
            delta = max(deltas, default=1e-6)
        checks.open_probability(delta=delta)
        object.__setattr__(self, "delta", delta)
        split = self.split or ("compose" if self.epsilon is None else "divide")
        object.__setattr__(self, "split", split)

    def _check_local_epsilon(self) -> None:
        given = self.randomizer
        devices = given.values() if isinstance(given, Mapping) else [given]
        if any(isinstance(each, str) for each in devices) != (self.local_epsilon is not None):
            expected = "local_epsilon beside the name of a randomizer, and nowhere else"
            raise InvalidArgumentError("local_epsilon", self.local_epsilon, expected)

    def _refuse_wishes(self) -> None:
        """Without a plan to be made there is nothing to say about it."""
        for name in ("messages_cap", "choose"):
            if getattr(self, name) is not None:
                expected = f"no {name} beside a randomizer or a plan: it is for epsilon"
                raise InvalidArgumentError(name, getattr(self, name), expected)
        if self.split == "divide":
            expected = (
                "no split beside a randomizer or a plan: only epsilon can be divided among columns"
            )
            raise InvalidArgumentError("split", self.split, expected)

    def _plan(self, column: str) -> Plan:
        return _required(self.plan, column, "plan")

    def step(self, coded: Coded) -> Step:
        """Plan a column, or check the randomizer given for it, and account for it."""
        parts = len(self.columns) if self.split == "divide" else 1
        delta = (self.delta or 0.0) / parts
        plan: Plan | None = None
        honest, notes = self.honest_fraction, coded.notes
        if self.epsilon is not None:
            plan = make_plan(
                epsilon=self.epsilon / parts,
                delta=delta,
                n=coded.n,
                **coded.question,
                local_epsilon_cap=self.local_epsilon_cap,
                honest_fraction=honest,
                messages_cap=messages_limit(self.messages_cap, self.choose),
            )
            plan = plan if self.choose is None else plan.choose(self.choose)
        elif self.plan is not None:
            plan = self._plan(coded.name)
            _require_norm(plan, coded)
            honest = min(honest, plan.question.honest_fraction)
            if plan.question.participation < 1:
                notes += ("the plan's participation is not used: every row reports",)
        randomizer = self._device(coded) if plan is None else plan.randomizer
        coded.require(randomizer, planned=self.plan is not None)
        self._require_local(randomizer, plan)
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
        warnings = () if plan is None else self._missed_target(plan, guarantee, coded.n, honest)
        public = (note for note in coded.notes if note in PUBLIC)
        guarantee = replace(guarantee, assumptions=(*guarantee.assumptions, *public))
        return Step(coded, randomizer, plan, guarantee, profile, notes, warnings)

    def _device(self, coded: Coded) -> Device:
        given = _required(self.randomizer, coded.name, "randomizer")
        if isinstance(given, str):
            return coded.family(given)(epsilon=self.local_epsilon)
        return cast("Device", given)

    def _require_local(self, randomizer: Device, plan: Plan | None) -> None:
        """The randomizer's local epsilon is within the cap, and within the plan's own."""
        caps = {
            "local_epsilon_cap": self.local_epsilon_cap,
            "the plan's local_epsilon_cap": None
            if plan is None
            else plan.question.local_epsilon_cap,
        }
        for name, cap in caps.items():
            if cap is not None and randomizer.local_epsilon > cap * _ROUNDING:
                expected = f"a randomizer within {name} = {cap:g}"
                raise InvalidArgumentError("local_epsilon", randomizer.local_epsilon, expected)

    def _missed_target(
        self, plan: Plan, guarantee: Guarantee, n: int, honest: float
    ) -> tuple[str, ...]:
        """Nothing if n people keep the plan's epsilon at its delta; else a warning, or an error."""
        target, randomizer = plan.question, plan.randomizer
        if guarantee.delta != target.delta:
            guarantee = amplification.amplify(
                randomizer, n=n, delta=target.delta, honest_fraction=honest
            )
        if guarantee.epsilon <= target.epsilon * _ROUNDING:
            return ()
        holds = (
            f"for {n:,} people epsilon {up(guarantee.epsilon)} holds at delta {plain(target.delta)}"
        )
        if self.allow_weaker:
            missed = f"weaker than the plan: its epsilon {plain(target.epsilon)} is not kept"
            return (f"{missed}, {holds}, and it was made for {target.n:,}",)
        needs = amplification.required_n(
            randomizer, epsilon=target.epsilon, delta=target.delta, honest_fraction=honest
        )
        raise UnreachableTargetError(
            f"the plan's epsilon {plain(target.epsilon)}",
            holds,
            f"the plan needs {needs:,} people: make a plan for {n:,}, or go on with less privacy "
            "by allow_weaker=True (--allow-weaker)",
        )


def compose_columns(steps: Sequence[Step], delta: float) -> Guarantee:
    """What all columns cost, at this delta: one person's row is one report in each of them."""
    if len(steps) == 1:
        return steps[0].guarantee
    composed = ComposedProfile.of((step.profile, 1) for step in steps)
    try:
        epsilon, how = composed.answer(delta)
    except PrecisionError:
        epsilon, how = composed.answer(delta, method="best")
    try:  # basic composition: epsilons add up, and so do the equal parts of delta
        added = sum(step.profile.epsilon(delta / len(steps)) for step in steps)
    except UnreachableTargetError:  # a part of delta may be too little for one of them
        added = math.inf
    if added < epsilon:
        epsilon, how = added, "epsilons and deltas added up"
    singles = [step.guarantee for step in steps]
    theorems = dict.fromkeys(each.theorem for each in singles)
    # What all columns assume, and what some do, with their names.
    assumptions = (
        text if all(text in each.assumptions for each in singles) else f"{step.coded.name}: {text}"
        for step in steps
        for text in step.guarantee.assumptions
    )
    return Guarantee(
        epsilon=epsilon,
        delta=delta,
        n=min(each.n for each in singles),
        local_epsilon=composed.local_epsilon,
        local_delta=composed.local_delta,
        columns=len(steps),
        theorem=f"{'; '.join(theorems)}; {len(steps)} columns, {how}",
        assumptions=tuple(dict.fromkeys(assumptions)),
        lower_bound=lambda: composed.lower_epsilon(delta),
    )


def _require_norm(plan: Plan, coded: Coded) -> None:
    """What is predicted for vectors of one length does not hold for others."""
    norm = coded.question.get("norm")
    if norm is not None and plan.question.norm != norm:
        advice = f"--dimension {coded.question['dimension']} --norm {norm:g}"
        expected = f"a plan with norm={norm:g} ({advice})"
        raise InvalidArgumentError("norm", plan.question.norm, expected)


def _required(given: T | Mapping[str, T] | None, name: str, what: str) -> T:
    """The column's own value, or an error that says what is missing."""
    value = chosen(given, name)
    if value is None:
        raise InvalidArgumentError(what, "none", f"a {what} for column {name}")
    return value
