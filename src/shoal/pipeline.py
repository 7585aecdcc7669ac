"""The whole way: a table in, estimates with their errors and the guarantee out."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal, TypeVar, cast

import numpy as np

from shoal import checks
from shoal.accounting import amplification
from shoal.accounting.compose import ComposedProfile
from shoal.accounting.devices import Profile
from shoal.accounting.guarantee import Guarantee
from shoal.engines import LocalEngine, reading
from shoal.engines.coding import PUBLIC_LIST, Amounts, Choices, Coded, changed
from shoal.engines.limits import Limits, Target, Wish
from shoal.engines.shuffling import shuffle
from shoal.engines.timing import Clock, Progress, Tell
from shoal.errors import (
    InvalidArgumentError,
    OutOfRegimeError,
    PrecisionError,
    UnreachableTargetError,
)
from shoal.planning import Plan
from shoal.planning import plan as planned
from shoal.protocols.base import Device
from shoal.randomizers.base import AnswerMechanism, NumberMechanism, source
from shoal.randomness import Randomness
from shoal.results import RUN_HERE, ColumnResult, Result
from shoal.values import Array, Counts

__all__ = ["ColumnResult", "Result", "run", "shuffle"]

Split = Literal["divide", "compose"]
T = TypeVar("T")

ORDERLESS = (
    "the reports were counted, and counts do not depend on an order: "
    "what is released is the same for every permutation of the reports"
)
NOT_PRIVATE = "true values are included for comparison: this result is not private"
_MOST_BITS = 1 << 25  # of messages made at once: long messages come in smaller pieces


def run(
    data: object,
    *,
    column: str | Sequence[str],
    epsilon: float | None = None,
    delta: float | None = None,
    categories: Sequence[object] | Mapping[str, Sequence[object]] | None = None,
    bounds: tuple[float, float] | Mapping[str, tuple[float, float]] | None = None,
    randomizer: Device | Mapping[str, Device] | None = None,
    plan: Plan | Mapping[str, Plan] | None = None,
    split: Split | None = None,
    drop_nulls: bool = False,
    honest_fraction: float = 1.0,
    local_epsilon_cap: float | None = None,
    messages_cap: float | None = None,
    choose: str | None = None,
    allow_weaker: bool = False,
    compare_truth: bool = False,
    randomness: Randomness | None = None,
    progress: Tell | None = None,
) -> Result:
    """Collect columns of a table as the shuffle model would, and estimate what is in them.

    ``data`` is a Polars, pandas or Arrow table, or the path of a CSV, Parquet or Arrow file, which
    is read in chunks. Exactly one of ``epsilon`` (a plan is made), ``randomizer`` and ``plan``;
    ``delta`` is the plan's, or 1e-6. Every row is one person. No report has a local epsilon above
    ``local_epsilon_cap``, if there is one. A plan whose epsilon is not kept by the people there are
    is refused, unless ``allow_weaker``: then it is noted.

    With ``epsilon``, people send at most ``messages_cap`` messages on average (one, unless said),
    and ``choose`` names the option of the plan to be run instead of the best: then any number of
    messages is allowed unless said.

    Numbers outside ``bounds`` count as the nearest bound.

    Several columns are several reports of each person. With ``epsilon`` the budget is for all of
    them: ``split="divide"`` gives each column an equal part of epsilon and delta. With
    ``split="compose"`` each column gets all of it, and the guarantee of the result is what they
    cost together. ``categories``, ``bounds``, ``randomizer`` and ``plan`` may then be mappings from
    column to value.

    ``compare_truth`` adds the true values, which makes the result not private. ``progress`` is
    called with the number of reports made and the number of all.
    """
    names = _names(column)
    _require_columns(names, categories=categories, bounds=bounds, randomizer=randomizer, plan=plan)
    asked = _Asked.of(epsilon, delta, randomizer, plan, split, columns=names)
    limits = Limits(honest_fraction, local_epsilon_cap, allow_weaker)
    wish = Wish(messages_cap, choose)
    if epsilon is None:
        wish.require_none()
    clock = Clock()
    with clock("read"):
        coded = [
            _coded(
                reading.column(data, name),
                categories=_chosen(categories, name),
                bounds=_chosen(bounds, name),
                drop_nulls=drop_nulls,
            )
            for name in names
        ]
    # Everything is checked, planned and accounted for before anybody reports.
    with clock("plan"):
        steps = [asked.step(each, limits, wish) for each in coded]
    with clock("account"):
        guarantee = _together(steps, asked.delta)
    total = sum(step.coded.n for step in steps)
    collection = _Collection(source(randomness), clock, Progress(progress, total), compare_truth)
    columns = tuple(collection.column(step) for step in steps)
    return Result(
        columns=columns,
        guarantee=guarantee,
        notes=_notes(columns, asked, guarantee),
        stages={stage: round(taken, 3) for stage, taken in clock.seconds.items()},
    )


@dataclass(frozen=True, eq=False)
class _Step:
    """One column with its randomizer: all that is needed before the first report."""

    coded: Coded
    randomizer: Device
    plan: Plan | None
    guarantee: Guarantee
    profile: Profile
    notes: tuple[str, ...]


@dataclass(frozen=True)
class _Asked:
    """What the caller wants of all columns."""

    epsilon: float | None
    delta: float
    randomizer: Device | Mapping[str, Device] | None
    plan: Plan | Mapping[str, Plan] | None
    split: Split
    columns: tuple[str, ...]

    @classmethod
    def of(
        cls,
        epsilon: float | None,
        delta: float | None,
        randomizer: Device | Mapping[str, Device] | None,
        plan: Plan | Mapping[str, Plan] | None,
        split: Split | None,
        *,
        columns: tuple[str, ...],
    ) -> _Asked:
        stated = {"epsilon": epsilon, "randomizer": randomizer, "plan": plan}
        given = [name for name, value in stated.items() if value is not None]
        if len(given) != 1:
            expected = "exactly one of epsilon, randomizer and plan"
            raise InvalidArgumentError("given", ", ".join(given) or "none", expected)
        if epsilon is not None:
            checks.positive(epsilon=epsilon)
        if split not in {None, "divide", "compose"}:
            raise InvalidArgumentError("split", split, "divide or compose")
        if split == "divide" and epsilon is None:
            raise InvalidArgumentError("split", split, "compose unless epsilon is to be divided")
        if delta is None:
            plans = [_required(plan, name, "plan") for name in columns] if plan is not None else []
            deltas = [each.question.delta for each in plans]
            delta = max(deltas, default=amplification.DEFAULT_DELTA)
        checks.open_probability(delta=delta)
        shared: Split = split or ("compose" if epsilon is None else "divide")
        return cls(epsilon, delta, randomizer, plan, shared, columns)

    @property
    def parts(self) -> int:
        """Into how many parts epsilon and delta are divided."""
        return len(self.columns) if self.split == "divide" else 1

    def step(self, coded: Coded, limits: Limits, wish: Wish) -> _Step:
        """Plan a column, or check the randomizer given for it, and account for it."""
        delta = self.delta / self.parts
        found, honest, notes = self._planned(coded, delta, limits, wish)
        if found is not None:
            randomizer = found.randomizer
        else:
            given = _required(self.randomizer, coded.name, "randomizer")
            randomizer = cast("Device", given)
        coded.require(randomizer, planned=self.plan is not None)
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
        if PUBLIC_LIST in coded.notes:
            guarantee = replace(guarantee, assumptions=(*guarantee.assumptions, PUBLIC_LIST))
        return _Step(coded, randomizer, found, guarantee, profile, (*coded.notes, *notes))

    def _planned(
        self, coded: Coded, delta: float, limits: Limits, wish: Wish
    ) -> tuple[Plan | None, float, tuple[str, ...]]:
        if self.epsilon is not None:
            made = planned(
                epsilon=self.epsilon / self.parts,
                delta=delta,
                n=coded.n,
                categories=len(coded.labels) or None,
                bounds=coded.bounds if isinstance(coded, Amounts) else None,
                local_epsilon_cap=limits.local_epsilon_cap,
                honest_fraction=limits.honest_fraction,
                messages_cap=wish.most,
            )
            if wish.choose is not None:
                made = made.choose(wish.choose)
            return made, limits.honest_fraction, ()
        if self.plan is None:
            return None, limits.honest_fraction, ()
        found = _required(self.plan, coded.name, "plan")
        notes: tuple[str, ...] = ()
        if found.question.participation < 1:
            notes = ("the plan's participation is not used: every row reports",)
        return found, min(limits.honest_fraction, found.question.honest_fraction), notes


@dataclass(frozen=True)
class _Collection:
    """Makes the reports of a column, counts them and estimates."""

    randomness: Randomness
    clock: Clock
    progress: Progress
    compare_truth: bool

    def column(self, step: _Step) -> ColumnResult:
        """The result of one column."""
        counts, truth = self._counted(step)
        if counts is None or counts.n != step.coded.n:
            raise changed(step.coded.name)
        with self.clock("estimate"):
            randomizer = cast("AnswerMechanism | NumberMechanism", step.randomizer)
            estimate = randomizer.estimate(counts)
        return ColumnResult(
            column=step.coded.name,
            labels=step.coded.labels,
            estimate=estimate,
            randomizer=step.randomizer,
            guarantee=step.guarantee,
            n=counts.n,
            plan=step.plan,
            truth=truth / counts.n if self.compare_truth else None,
            notes=step.notes,
        )

    def _counted(self, step: _Step) -> tuple[Counts | None, Array]:
        engine = LocalEngine()
        counts: Counts | None = None
        truth: Array = np.zeros(max(1, len(step.coded.labels)))
        device = step.randomizer
        most = max(1, _MOST_BITS // (8 * device.message_bytes * math.ceil(device.messages)))
        for values in self.clock.each("read", step.coded.chunks()):
            for start in range(0, len(values), most):
                piece = values[start : start + most]
                with self.clock("randomize"):
                    reports = step.randomizer.randomize(piece, randomness=self.randomness)
                with self.clock("count"):
                    part = engine.count(step.randomizer, [reports])
                    counts = part if counts is None else counts + part
            if self.compare_truth:
                truth += step.coded.totals(values)
            self.progress.add(len(values))
        return counts, truth


def _coded(
    column: reading.Column,
    *,
    categories: Sequence[object] | None,
    bounds: tuple[float, float] | None,
    drop_nulls: bool,
) -> Coded:
    if bounds is not None:
        if categories is not None:
            expected = f"categories or bounds for {column.name}, not both"
            raise InvalidArgumentError("bounds", bounds, expected)
        return Amounts.bounded(column, bounds, drop_nulls=drop_nulls)
    if categories is not None:
        return Choices.listed(column, categories, drop_nulls=drop_nulls)
    return Choices.found(column, drop_nulls=drop_nulls)


def _together(steps: Sequence[_Step], delta: float) -> Guarantee:
    """The guarantee of all columns: one person's row is one report in each of them."""
    if len(steps) == 1:
        return steps[0].guarantee
    composed = ComposedProfile.of((step.profile, 1) for step in steps)
    try:
        epsilon, how = composed.answer(delta)
    except PrecisionError:
        epsilon, how = composed.answer(delta, method="best")
    added = _added(steps, delta)
    if added < epsilon:
        epsilon, how = added, "epsilons and deltas added up"
    singles = [step.guarantee for step in steps]
    theorems = dict.fromkeys(each.theorem for each in singles)
    return Guarantee(
        epsilon=epsilon,
        delta=delta,
        n=min(each.n for each in singles),
        local_epsilon=composed.local_epsilon,
        local_delta=composed.local_delta,
        theorem=f"{'; '.join(theorems)}; {len(steps)} columns, {how}",
        assumptions=_assumptions(steps),
        lower_bound=lambda: composed.lower_epsilon(delta),
    )


def _added(steps: Sequence[_Step], delta: float) -> float:
    """Basic composition: epsilons add up, and so do the equal parts of delta."""
    try:
        return sum(step.profile.epsilon(delta / len(steps)) for step in steps)
    except UnreachableTargetError:  # a part of delta may be too little for one of them
        return math.inf


def _assumptions(steps: Sequence[_Step]) -> tuple[str, ...]:
    """What all columns assume, and what some do, with their names."""
    every = [(step.coded.name, step.guarantee.assumptions) for step in steps]
    said = (
        text if all(text in others for _, others in every) else f"{name}: {text}"
        for name, own in every
        for text in own
    )
    return tuple(dict.fromkeys(said))


def _notes(columns: Sequence[ColumnResult], asked: _Asked, guarantee: Guarantee) -> tuple[str, ...]:
    several = len(columns) > 1
    notes = [
        f"{column.column}: {note}" if several else note
        for column in columns
        for note in column.notes
    ]
    if several and asked.split == "divide":
        notes.append(f"each of the {len(columns)} columns has an equal part of epsilon and delta")
    elif several:
        notes.append(
            f"each of the {len(columns)} columns has a budget of its own; "
            f"together they cost epsilon {guarantee.epsilon:.3g}"
        )
    notes += [RUN_HERE, ORDERLESS]
    if any(column.truth is not None for column in columns):
        notes.append(NOT_PRIVATE)
    return tuple(notes)


def _names(column: str | Sequence[str]) -> tuple[str, ...]:
    names = (column,) if isinstance(column, str) else tuple(column)
    if not names or len(set(names)) < len(names) or not all(isinstance(n, str) for n in names):
        raise InvalidArgumentError("column", column, "the names of one or several columns")
    return names


def _require_columns(names: tuple[str, ...], **given: object) -> None:
    """A mapping speaks of columns that are collected: a misspelt one must not be ignored."""
    for what, value in given.items():
        unknown = set(value) - set(names) if isinstance(value, Mapping) else set()
        if unknown:
            shown = ", ".join(sorted(map(str, unknown)))
            raise InvalidArgumentError(what, shown, f"{what} of the columns {', '.join(names)}")


def _chosen(given: T | Mapping[str, T] | None, name: str) -> T | None:
    """The column's own value of a mapping, or the value that is for all columns."""
    return given.get(name) if isinstance(given, Mapping) else given


def _required(given: T | Mapping[str, T] | None, name: str, what: str) -> T:
    found = _chosen(given, name)
    if found is None:
        raise InvalidArgumentError(what, "none", f"a {what} for column {name}")
    return found
