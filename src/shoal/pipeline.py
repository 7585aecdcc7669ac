"""The whole way: a table in, estimates with their errors and the guarantee out."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, TypeVar, cast

from shoal import checks
from shoal.accounting import amplification
from shoal.accounting.compose import ComposedProfile
from shoal.accounting.devices import Profile
from shoal.accounting.guarantee import Guarantee, default_delta
from shoal.engines import columns as tables
from shoal.engines.columns import PUBLIC, Bounds, Coded, Counting, Lists
from shoal.engines.shuffling import ORDERLESS, RUN_HERE, shuffle
from shoal.errors import (
    InvalidArgumentError,
    OutOfRegimeError,
    PrecisionError,
    UnreachableTargetError,
)
from shoal.explain.text import plain, up
from shoal.planning import Plan
from shoal.planning.planner import messages_limit
from shoal.planning.planner import plan as make_plan
from shoal.protocols.base import Device
from shoal.randomizers.base import source
from shoal.randomness import Randomness
from shoal.report.result import ColumnResult, Result, Stages, remarks

__all__ = ["ColumnResult", "Result", "run", "shuffle"]

NOT_PRIVATE = "true values are included for comparison: this result is not private"
_ROUNDING = 1 + 1e-6  # what was solved for comes out above its target by rounding

Split = Literal["divide", "compose"]
T = TypeVar("T")


def run(
    data: object,
    *,
    column: str | Sequence[str] | None = None,
    columns: Sequence[str] | None = None,
    epsilon: float | None = None,
    delta: float | None = None,
    categories: Lists | None = None,
    bounds: Bounds | None = None,
    norm: float | None = None,
    randomizer: Device | str | Mapping[str, Device | str] | None = None,
    local_epsilon: float | None = None,
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
    progress: Callable[[int, int], None] | None = None,
) -> Result:
    """Collect columns of a table as the shuffle model would, and estimate what is in them.

    ``data`` is a Polars, pandas or Arrow table, anything else with an Arrow C stream (a DuckDB
    relation), or the path of a CSV, Parquet or Arrow file, which is read in chunks. Every row is
    one person. Exactly one of ``epsilon`` (a plan is made), ``randomizer`` (or its name, with its
    ``local_epsilon``) and ``plan``; ``delta`` is the plan's, or min(1e-6, 1/(10 n)). No
    report has a local epsilon above ``local_epsilon_cap``, if there is one. A plan whose epsilon is
    not kept by the people there are is refused, unless ``allow_weaker``: then it is warned about.

    With ``epsilon``, people send at most ``messages_cap`` messages on average (one, unless said),
    and ``choose`` names the option of the plan to be run instead of the best: then any number of
    messages is allowed unless said.

    ``column`` names a column of answers, or of numbers if it has ``bounds``: numbers outside count
    as the nearest bound. Several columns are several reports of each person. With ``epsilon`` the
    budget is for all of them: ``split="divide"`` gives each column an equal part of epsilon and
    delta. With ``split="compose"`` each column gets all of it, and the guarantee of the result is
    what they cost together. ``categories``, ``bounds``, ``randomizer`` and ``plan`` may then be
    mappings from column to value.

    ``columns`` are the coordinates of one vector instead, and one report: the estimate is the mean
    vector. Vectors longer than ``norm`` count as scaled down to it.

    ``compare_truth`` adds the true values, which makes the result not private. ``progress`` is
    called with the number of reports made and the number of all.
    """
    if columns is None:
        by_column = {"categories": categories, "bounds": bounds}
        names = tables.separate_names(
            column, norm=norm, **by_column, randomizer=randomizer, plan=plan
        )
    else:
        unwanted = {"column": column, "categories": categories, "bounds": bounds, "split": split}
        names = tables.vector_names(
            columns, norm=norm, unwanted=unwanted, randomizer=randomizer, plan=plan
        )
    ways = {"epsilon": epsilon, "randomizer": randomizer, "plan": plan}
    chosen = [name for name, value in ways.items() if value is not None]
    expected = "exactly one of epsilon, randomizer and plan"
    checks.refuse(len(chosen) != 1, expected, given=", ".join(chosen) or "none")
    checks.fraction(honest_fraction=honest_fraction)
    limits = {"epsilon": epsilon, "local_epsilon_cap": local_epsilon_cap}
    limits |= {"local_epsilon": local_epsilon}
    checks.positive(**{name: value for name, value in limits.items() if value is not None})
    for name, wish in {"messages_cap": messages_cap, "choose": choose}.items():
        expected = f"no {name} beside a randomizer or a plan: it is for epsilon"
        checks.refuse(epsilon is None and wish is not None, expected, **{name: wish})
    which = "only epsilon can be divided among columns"
    expected = f"no split beside a randomizer or a plan: {which}"
    checks.refuse(epsilon is None and split == "divide", expected, split=split)
    checks.refuse(split not in {None, "divide", "compose"}, "divide or compose", split=split)
    devices = randomizer.values() if isinstance(randomizer, Mapping) else [randomizer]
    named = any(isinstance(each, str) for each in devices)
    expected = "local_epsilon beside the name of a randomizer, and nowhere else"
    checks.refuse(named != (local_epsilon is not None), expected, local_epsilon=local_epsilon)
    if delta is None and plan is not None:
        questions = names if columns is None else (tables.spelled(names),)
        delta = max(_required(plan, name, "plan").question.delta for name in questions)
    if delta is not None:
        checks.open_probability(delta=delta)
    stages = Stages()
    with stages("read"):
        coded = tables.coded(
            data,
            names,
            norm=norm,
            categories=categories,
            bounds=bounds,
            drop_nulls=drop_nulls,
        )
    if delta is None:
        delta = default_delta(max(each.n for each in coded))
    parts = len(coded) if (split or "divide") == "divide" and epsilon is not None else 1
    # Everything is checked, planned and accounted for before anybody reports.
    with stages("plan"):
        steps = [
            _step(
                each,
                epsilon=None if epsilon is None else epsilon / parts,
                delta=delta / parts,
                randomizer=randomizer,
                local_epsilon=local_epsilon,
                plan=plan,
                honest_fraction=honest_fraction,
                local_epsilon_cap=local_epsilon_cap,
                messages_cap=messages_limit(messages_cap, choose),
                choose=choose,
                allow_weaker=allow_weaker,
            )
            for each in coded
        ]
    with stages("account"):
        guarantee = steps[0].guarantee if len(steps) == 1 else compose_columns(steps, delta)
    bits, total = source(randomness), sum(each.n for each in coded)
    results: list[ColumnResult] = []
    for step in steps:
        done = sum(each.n for each in results)
        results.append(_collected(step, bits, stages, progress, done, total, truth=compare_truth))
    notes = remarks(results, "notes")
    if parts > 1:
        notes.append(f"each of the {parts} columns has an equal part of epsilon and delta")
    elif len(results) > 1:
        notes.append(
            f"each of the {len(results)} columns has a budget of its own; "
            f"together they cost epsilon {up(guarantee.epsilon)}"
        )
    notes += [RUN_HERE, ORDERLESS, *[NOT_PRIVATE] * compare_truth]
    seconds = {stage: round(taken, 3) for stage, taken in stages.items()}
    return Result(columns=tuple(results), guarantee=guarantee, notes=tuple(notes), stages=seconds)


def _required(values: T | Mapping[str, T] | None, name: str, what: str) -> T:
    """The column's own value, or an error that says what is missing."""
    value = tables.chosen(values, name)
    if value is None:
        raise InvalidArgumentError(what, "none", f"a {what} for column {name}")
    return value


# ---------------------------------------------------- what the devices run, and what that costs


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


def _step(
    coded: Coded,
    *,
    epsilon: float | None,
    delta: float,
    randomizer: Device | str | Mapping[str, Device | str] | None,
    local_epsilon: float | None,
    plan: Plan | Mapping[str, Plan] | None,
    honest_fraction: float,
    local_epsilon_cap: float | None,
    messages_cap: float | None,
    choose: str | None,
    allow_weaker: bool,
) -> Step:
    """Plan a column, or check the randomizer given for it, and account for it."""
    made: Plan | None = None
    honest, notes = honest_fraction, coded.notes
    if epsilon is not None:
        made = make_plan(
            epsilon=epsilon,
            delta=delta,
            n=coded.n,
            **coded.question,
            local_epsilon_cap=local_epsilon_cap,
            honest_fraction=honest,
            messages_cap=messages_cap,
        )
        made = made if choose is None else made.choose(choose)
    elif plan is not None:
        made = _required(plan, coded.name, "plan")
        norm = coded.question.get("norm")
        if norm is not None and made.question.norm != norm:
            # What is predicted for vectors of one length does not hold for others.
            advice = f"--dimension {coded.question['dimension']} --norm {norm:g}"
            expected = f"a plan with norm={norm:g} ({advice})"
            raise InvalidArgumentError("norm", made.question.norm, expected)
        honest = min(honest, made.question.honest_fraction)
        if made.question.participation < 1:
            notes += ("the plan's participation is not used: every row reports",)
    if made is not None:
        device = made.randomizer
    else:
        own = cast("Device | str", _required(randomizer, coded.name, "randomizer"))
        device = coded.family(own)(epsilon=local_epsilon) if isinstance(own, str) else own
    coded.require(device, planned=plan is not None)
    caps = {
        "local_epsilon_cap": local_epsilon_cap,
        "the plan's local_epsilon_cap": None if made is None else made.question.local_epsilon_cap,
    }
    for name, cap in caps.items():
        if cap is not None:
            expected, local = f"a randomizer within {name} = {cap:g}", device.local_epsilon
            checks.refuse(local > cap * _ROUNDING, expected, local_epsilon=local)
    try:
        guarantee = amplification.amplify(device, n=coded.n, delta=delta, honest_fraction=honest)
    except OutOfRegimeError as error:
        raise UnreachableTargetError(
            f"a guarantee of {device.name} for {coded.n:,} people",
            str(error),
            f"make a plan for {coded.n:,} people",
        ) from error
    profile = amplification.profile(device, n=coded.n, honest_fraction=honest)
    warnings: tuple[str, ...] = ()
    if made is not None:
        same = guarantee.delta == made.question.delta
        epsilon = guarantee.epsilon if same else profile.epsilon(made.question.delta)
        warnings = _missed_target(made, epsilon, coded.n, honest, allow_weaker=allow_weaker)
    public = (note for note in coded.notes if note in PUBLIC)
    guarantee = replace(guarantee, assumptions=(*guarantee.assumptions, *public))
    return Step(coded, device, made, guarantee, profile, notes, warnings)


def _missed_target(
    plan: Plan, epsilon: float, n: int, honest: float, *, allow_weaker: bool
) -> tuple[str, ...]:
    """Nothing if n people, at its delta, keep the plan's epsilon; else a warning, or an error."""
    target = plan.question
    if epsilon <= target.epsilon * _ROUNDING:
        return ()
    holds = f"for {n:,} people epsilon {up(epsilon)} holds at delta {plain(target.delta)}"
    if allow_weaker:
        missed = f"weaker than the plan: its epsilon {plain(target.epsilon)} is not kept"
        return (f"{missed}, {holds}, and it was made for {target.n:,}",)
    needs = amplification.required_n(
        plan.randomizer, epsilon=target.epsilon, delta=target.delta, honest_fraction=honest
    )
    raise UnreachableTargetError(
        f"the plan's epsilon {plain(target.epsilon)}",
        holds,
        f"the plan needs {needs:,} people: make a plan for {n:,}, or go on with less privacy "
        "by allow_weaker=True (--allow-weaker)",
    )


def compose_columns(steps: Sequence[Step], delta: float) -> Guarantee:
    """What all columns cost, at this delta: one person's row is one report in each of them."""
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


# ------------------------------------------------------------------------------- the collection


def _collected(
    step: Step,
    bits: Randomness,
    stages: Stages,
    progress: Callable[[int, int], None] | None,
    done: int,
    total: int,
    *,
    truth: bool,
) -> ColumnResult:
    """Everybody's reports on a column, made and counted a chunk at a time, and the estimate."""
    coded, device = step.coded, cast("Any", step.randomizer)
    counting = Counting(coded, device, truth)
    part = counting.total(coded.n, bits, stages, progress, done=done, people=total)
    counts = part.counts
    with stages("estimate"):
        estimate = coded.estimated(device.estimate(counts), device)
    return ColumnResult(
        column=coded.name,
        labels=coded.labels,
        estimate=estimate,
        randomizer=device,
        guarantee=step.guarantee,
        n=counts.n,
        plan=step.plan,
        truth=None if part.totals is None else part.totals / counts.n,
        notes=step.notes,
        warnings=step.warnings,
    )
