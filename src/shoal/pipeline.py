"""The whole way: a table in, estimates with their errors and the guarantee out."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from numbers import Integral, Real
from typing import TYPE_CHECKING, Any, Literal, TypeVar, cast

from shoal import checks
from shoal.accounting import amplification
from shoal.accounting.compose import ComposedProfile
from shoal.accounting.devices import Profile
from shoal.accounting.guarantee import Guarantee, default_delta
from shoal.engines import columns as tables
from shoal.engines.columns import NONE, PUBLIC, Bounds, Coded, Counting, Lists
from shoal.engines.shuffling import ORDERLESS, RUN_HERE, shuffle
from shoal.errors import (
    InvalidArgumentError,
    OutOfRegimeError,
    UnreachableTargetError,
)
from shoal.explain.text import plain, up
from shoal.mechanisms.base import Device, source
from shoal.planning import Plan
from shoal.planning.planner import messages_limit
from shoal.planning.planner import plan as make_plan
from shoal.randomness import Randomness
from shoal.report.result import ColumnResult, Result, Stages, remarks
from shoal.values import attributes

if TYPE_CHECKING:
    from shoal.engines.bins import Binned, Binning, Quantiles, Ranges
    from shoal.engines.groups import Grouped
    from shoal.open_answers import OpenResult
    from shoal.planning.levels import Levels

__all__ = ["ColumnResult", "Result", "run", "shuffle"]

ROW_PER_PERSON = "every row was counted as one person (person / --person says whose rows are whose)"
NOT_PRIVATE = "true values are included for comparison: this result is not private"
RATIO = (
    "a fraction is of the people in its group, whose number is estimated as well: its "
    "interval (Fieller's, with standard deviations added) holds however the two errors "
    "depend on each other"
)
_FINDING = 0.5  # of the budget, where groups are to be found
_LENGTH = 24  # bytes of their names
_MOST_REPORTS = 1_000
_ROUNDING = 1 + 1e-6  # what was solved for comes out above its target by rounding

Split = Literal["joint", "divide"]
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
    bins: Binning | Mapping[str, Binning] | None = None,
    quantiles: Quantiles | Mapping[str, Quantiles] | None = None,
    ranges: Ranges | Mapping[str, Ranges] | None = None,
    tree: bool | None = None,
    by: str | None = None,
    groups: Sequence[object] | None = None,
    open_groups: bool = False,
    length: int | None = None,
    norm: float | None = None,
    randomizer: Device | str | Mapping[str, Device | str] | None = None,
    local_epsilon: float | None = None,
    plan: Plan | Mapping[str, Plan] | None = None,
    weights: Mapping[str, float] | None = None,
    split: Split | None = None,
    person: str | None = None,
    reports_per_person: int | None = None,
    drop_nulls: bool = False,
    public_list: bool = False,
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

    Every row is one person. Exactly one of epsilon (a plan is made), randomizer and
    plan says what devices run. Several columns are several reports of each person.

    Args:
        data: A Polars, pandas or Arrow table, anything else with an Arrow C stream, a
            mapping from names to columns, a series; or the path of files (a list, a
            directory, a pattern) of CSV, TSV, JSON lines, Parquet or Arrow, which are
            read in chunks.
        column: The column, or a list of them; needless for a series or a mapping of one
            column. Answers, or numbers if there are bounds or bins.
        columns: The coordinates of one vector instead: one report, whose mean is
            estimated.
        epsilon: ε > 0 of all columns together: their curves compose to it.
        delta: δ; the plan's, or min(1e-6, 1/(10 n)) unless given.
        categories: The public list of answers, or one for each column; others count as
            "(other)". Without it the answers in the data are the list, and public.
        bounds: Public (low, high) of numbers; others count as the nearest bound.
        bins: Count numbers or dates in bins: how many (with bounds), edges, "auto",
            "day", "week" or "month".
        quantiles: Of numbers in bins, to be reported.
        ranges: (first, last) of values in bins, to be counted.
        tree: Whether to count bins on several levels; default: by the predicted error.
        by: The column of groups; a report tells group and answer at once.
        groups: The public list of groups; that of the data unless given.
        open_groups: Find the frequent groups by half of the budget instead.
        length: Bytes of the longest group that is found.
        norm: Vectors longer than this count as scaled down to it.
        randomizer: What devices run, or its name, or one for each column.
        local_epsilon: ε₀ beside the name of a randomizer.
        plan: A plan made before, or one for each column.
        weights: A column's part of the budget, 1 unless given.
        split: "joint" (the default) composes the columns' curves; "divide" divides
            epsilon and delta by weights: each column then keeps its part by itself.
        person: The column that says whose row it is: everybody counts as exactly
            reports_per_person reports, and the guarantee is for all of them.
        reports_per_person: Rows of one person, 1 unless given. Of more so many are
            drawn at random; missing ones count as "(none)".
        drop_nulls: Leave out rows without a value.
        public_list: Allow a list from the data of more than 200 answers, or of numbers
            that are not whole.
        honest_fraction: Fraction in (0, 1] of the people who follow the protocol, by
            default 1. The guarantee is that of the honest people alone: count only
            those you are sure of.
        local_epsilon_cap: The largest ε₀ that a report may have.
        messages_cap: Messages that one person may send on average; default 1, or any
            number if choose is given. Above 1 it offers protocols whose error is near
            a curator's and which have no local ε₀.
        choose: The option of the plan to be run instead of the best.
        allow_weaker: Run a plan that these people do not keep, with a warning.
        compare_truth: Add the true values, which makes the result not private.
        randomness: That of a simulation; None is secure.
        progress: Called with the number of reports made and the number of all.

    Returns:
        A :class:`shoal.Result` with estimates, the guarantee of all columns together,
        notes.

    Raises:
        InvalidArgumentError: Arguments that exclude each other, a column that is not
            there, text where there have to be numbers.
        UnreachableTargetError: The plan is not kept by so few people, or no option
            keeps ε.
        EngineError: What reads the table failed; nothing was released.
        MissingExtraError: The table needs a package that is not installed.

    References:
        The theorems of :func:`shoal.amplify`; several reports by
        :doc:`/theory/composition`.

    Example:
        >>> import shoal
        >>> table = {"color": ["red", "blue", "blue", "green"] * 5_000}
        >>> result = shoal.run(table, epsilon=1)
        >>> result.labels, result.guarantee.epsilon <= 1
        (('blue', 'green', 'red'), True)
    """
    if columns is None:
        column = tables.only_column(data) if column is None else column
        by_column: dict[str, Any] = {"categories": categories, "bounds": bounds, "bins": bins}
        by_column |= {"quantiles": quantiles, "ranges": ranges}
        names = tables.separate_names(
            column, norm=norm, **by_column, randomizer=randomizer, plan=plan, weights=weights
        )
    else:
        unwanted: dict[str, Any] = {"column": column, "categories": categories, "bounds": bounds}
        unwanted |= {"split": split, "weights": weights, "bins": bins}
        unwanted |= {"quantiles": quantiles, "ranges": ranges}
        names = tables.vector_names(
            columns, norm=norm, unwanted=unwanted, randomizer=randomizer, plan=plan
        )
    ways = {"epsilon": epsilon, "randomizer": randomizer, "plan": plan}
    chosen = [name for name, value in ways.items() if value is not None]
    expected = "exactly one of epsilon, randomizer and plan"
    checks.refuse(len(chosen) != 1, expected, given=", ".join(chosen) or "none")
    checks.fraction(honest_fraction=honest_fraction)
    limits: dict[str, Any] = {"epsilon": epsilon, "local_epsilon_cap": local_epsilon_cap}
    limits |= {"local_epsilon": local_epsilon}
    checks.positive(**{name: value for name, value in limits.items() if value is not None})
    wishes = {"messages_cap": messages_cap, "choose": choose, "split": split, "weights": weights}
    wishes |= {"tree": tree}
    for name, wish in wishes.items():
        expected = f"no {name} with a randomizer or a plan: it is for epsilon"
        checks.refuse(epsilon is None and wish is not None, expected, **{name: wish})
    checks.refuse(split not in {None, "joint", "divide"}, "joint or divide", split=split)
    expected = "a mapping from columns to weights"
    checks.refuse(not isinstance(weights, Mapping | None), expected, weights=weights)
    for name, weight in (weights or {}).items():
        positive = isinstance(weight, Real) and 0 < weight < math.inf
        checks.refuse(not positive, f"a weight > 0 of {name}", weights=weight)
    devices = randomizer.values() if isinstance(randomizer, Mapping) else [randomizer]
    named = any(isinstance(each, str) for each in devices)
    expected = "local_epsilon together with the name of a randomizer, and only then"
    checks.refuse(named != (local_epsilon is not None), expected, local_epsilon=local_epsilon)
    if delta is None and plan is not None:
        questions = names if columns is None else (tables.spelled(names),)
        delta = max(_required(plan, name, "plan").question.delta for name in questions)
    if delta is not None:
        checks.open_probability(delta=delta)
    reports = 1 if reports_per_person is None else reports_per_person
    expected = f"a whole number from 1 to {_MOST_REPORTS:,}"
    whole = isinstance(reports, Integral) and 1 <= reports <= _MOST_REPORTS
    checks.refuse(not whole, expected, reports_per_person=reports)
    expected = "a person (the column of ids) with reports_per_person"
    checks.refuse(person is None and reports_per_person is not None, expected, person=None)
    expected = "a column other than those that are collected"
    checks.refuse(person in {*names, by} - {None}, expected, person=person)
    expected = "no drop_nulls with several reports per person: everybody makes the same number"
    checks.refuse(reports > 1 and drop_nulls, expected, drop_nulls=drop_nulls)
    expected = "the column with the groups"
    checks.refuse(by is None and (groups is not None or open_groups), expected, by=by)
    expected = "no length without open_groups: it is for names that are found"
    checks.refuse(length is not None and not open_groups, expected, length=length)
    stages, bits, frequent = Stages(), source(randomness), None
    longest = _LENGTH if length is None else length
    if by is not None:
        statistics: dict[str, object] = {"quantiles": quantiles, "ranges": ranges, "tree": tree}
        _check_groups(by, names, statistics, norm=norm, bounds=bounds, bins=bins)
        expected = (
            "epsilon (a part of it pays for finding the groups), no list of groups, and one "
            "report per person"
        )
        wrong = epsilon is None or groups is not None or reports > 1
        checks.refuse(open_groups and wrong, expected, open_groups=open_groups)
    with stages("read"):
        if by is not None or person is not None:
            table = _opened(data, names, by=by, person=person)
            data = table if person is None else table.per_person(person, reports, bits)
        if by is not None and open_groups:
            frequent, epsilon, delta = _find_groups(
                data, by, cast("float", epsilon), delta, longest, honest_fraction, bits
            )
            groups = [item.label for item in frequent.items]
        coded = tables.coded(
            data,
            names,
            norm=norm,
            categories=categories,
            bounds=bounds,
            bins=bins,
            quantiles=quantiles,
            ranges=ranges,
            drop_nulls=drop_nulls,
            epsilon=epsilon,
            public_list=public_list,
            by=by,
            groups=groups,
            padded=reports > 1,
        )
    if delta is None:
        delta = default_delta(max(each.n for each in coded) // reports)
    # Everything is checked, planned and accounted for before anybody reports.
    with stages("plan"):
        plans: list[Plan | None] = []
        levels: Levels | None = None
        if epsilon is not None:
            limits = {
                "local_epsilon_cap": local_epsilon_cap,
                "honest_fraction": honest_fraction,
                "messages_cap": messages_limit(messages_cap, choose),
            }
            queries = [{"n": each.n // reports, **each.question, **limits} for each in coded]
            shares = [(weights or {}).get(each.name, 1.0) for each in coded]
            joint = split != "divide"
            plans += _plans(queries, shares, reports, epsilon, delta, choose, joint=joint)
            levels = _levels(coded, plans, queries[0], reports, epsilon, delta, tree=tree)
            if levels is not None:
                coded, plans = list(levels.columns), list(levels.plans)
        elif plan is not None:
            plans += [_required(plan, each.name, "plan") for each in coded]
        steps = [
            _step(
                each,
                own,
                reports,
                delta=delta if epsilon is None else delta / len(coded),
                planned=epsilon is not None,
                randomizer=randomizer,
                local_epsilon=local_epsilon,
                honest_fraction=honest_fraction,
                local_epsilon_cap=local_epsilon_cap,
                allow_weaker=allow_weaker,
            )
            for each, own in zip(coded, plans or [None] * len(coded), strict=True)
        ]
    with stages("account"):
        one = len(steps) == 1
        what = "columns" if levels is None else "levels of a tree"
        guarantee = steps[0].guarantee if one else compose_columns(steps, delta, reports, what)
        if frequent is not None:
            left = max(cast("float", epsilon), guarantee.epsilon)  # what it costs, but for rounding
            guarantee = _after(frequent.guarantee, replace(guarantee, epsilon=left), steps)
    total = sum(each.n for each in coded)
    results: list[ColumnResult] = []
    for step in steps:
        done = sum(each.n for each in results)
        results.append(_collected(step, bits, stages, progress, done, total, truth=compare_truth))
    if levels is not None:
        joined = replace(
            results[0],
            estimate=levels.estimate([cast("Any", each.estimate) for each in results]),
            guarantee=guarantee,
            levels=tuple(step.randomizer for step in steps[1:]),
            notes=(*results[0].notes, levels.note),
        )
        results = [joined]
    notes = remarks(results, "notes")
    if reports > 1:
        notes.append(
            f"every person counts as {reports} reports: of more rows {reports} were chosen "
            f"at random, missing ones count as {NONE}; the chart counts these rows"
        )
    elif person is not None:
        notes.append("every person counts as one report: of several rows one was chosen at random")
    else:
        notes.append(ROW_PER_PERSON)
    if len(results) > 1:
        notes.append(_budget(results, guarantee, epsilon, split))
    if by is not None:
        notes.append(RATIO)
    if frequent is not None:
        cost = f"epsilon {up(frequent.guarantee.epsilon)} of {up(guarantee.epsilon)}"
        cut = f"names of more than {longest} bytes count as {tables.OTHER}"
        notes.append(f"the groups of {by} were found at {cost}; {cut}; {frequent.statement}")
    notes += [RUN_HERE, ORDERLESS, *[NOT_PRIVATE] * compare_truth]
    seconds = {stage: round(taken, 3) for stage, taken in stages.items()}
    return Result(columns=tuple(results), guarantee=guarantee, notes=tuple(notes), stages=seconds)


def _check_groups(
    by: str,
    names: Sequence[str],
    statistics: Mapping[str, object],
    *,
    norm: float | None,
    bounds: object,
    bins: object,
) -> None:
    """Groups are those of another column, and of answers or bins, of which nothing is asked."""
    for what, value in statistics.items():
        checks.refuse(value is not None, f"no {what} with groups", **{what: value})
    checks.refuse(by in names, "another column than those that are collected", by=by)
    means = norm is not None or any(
        tables.chosen(cast("Bounds", bounds), name) is not None
        and tables.chosen(cast("Any", bins), name) is None
        for name in names
    )
    checks.refuse(means, "a column of answers, or bins of numbers: groups have no means", by=by)


def _opened(data: object, names: Sequence[str], **beside: str | None) -> tables.Table:
    """The table with these columns and those ``beside``; a stream can be read only once."""
    arguments = {column: name for name, column in beside.items() if column is not None}
    try:
        return tables.table(data, [*names, *arguments])
    except InvalidArgumentError as error:
        name = arguments.get(str(error.value), "column") if error.name == "column" else error.name
        raise InvalidArgumentError(name, error.value, error.expected) from error


def _find_groups(
    data: object,
    by: str,
    epsilon: float,
    delta: float | None,
    length: int,
    honest_fraction: float,
    bits: Randomness,
) -> tuple[OpenResult, float, float]:
    """The frequent names of groups, by an open question, and what is left of the budget."""
    from shoal.open_answers import EMPTY, heavy_hitters

    delta = default_delta(tables.column(data, by).size()[0]) if delta is None else delta
    try:
        hitters = heavy_hitters(
            data,
            column=by,
            epsilon=_FINDING * epsilon,
            delta=_FINDING * delta,
            top=tables.MOST_PUBLIC,
            length=length,
            honest_fraction=honest_fraction,
            randomness=bits,
        )
    except UnreachableTargetError as error:
        raise UnreachableTargetError(
            f"frequent names in {by} at epsilon {plain(_FINDING * epsilon)}",
            error.reason,
            "give a public list (groups, --groups), or shorter names (length, --length)",
        ) from error
    added = {EMPTY, tables.NONE, tables.OTHER}  # for whoever has no name, or another
    named = tuple(item for item in hitters.items if item.label not in added)
    expected = "names that stand out from the noise (give a public list: groups, --groups)"
    checks.refuse(not named, expected, by=by)
    cost = hitters.guarantee
    return replace(hitters, items=named), epsilon - cost.epsilon, delta - cost.delta


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
    warnings: tuple[str, ...] = ()


def _plans(
    questions: Sequence[Mapping[str, Any]],
    weights: Sequence[float],
    reports: int,
    epsilon: float,
    delta: float,
    choose: str | None,
    *,
    joint: bool,
) -> Sequence[Plan]:
    """A plan for every column: all of the budget together, or each report a part of it."""
    if joint and len(questions) * reports > 1:
        from shoal.planning.joint import Part, plan_together

        parts = [
            Part(question, weight, reports, choose)
            for question, weight in zip(questions, weights, strict=True)
        ]
        return plan_together(parts, epsilon=epsilon, delta=delta).plans
    whole, k = reports * math.fsum(weights), reports * len(questions)
    plans = [
        make_plan(epsilon=epsilon * weight / whole, delta=delta / k, **question)
        for question, weight in zip(questions, weights, strict=True)
    ]
    return plans if choose is None else [made.choose(choose) for made in plans]


def _levels(
    coded: Sequence[Coded],
    plans: Sequence[Plan | None],
    question: Mapping[str, Any],
    reports: int,
    epsilon: float,
    delta: float,
    *,
    tree: bool | None,
) -> Levels | None:
    """The levels of a tree of bins, where that is better for what is asked of them, or wanted."""
    one = len(coded) == 1 and coded[0].bins is not None and reports == 1
    expected = "a tree for one column in bins, and one report per person"
    checks.refuse(tree and not one, expected, tree=tree)
    if not one or tree is False or not (tree or coded[0].quantiles or coded[0].ranges):
        return None
    from shoal.planning.levels import best_levels

    flat, made = cast("Binned", coded[0]), cast("Plan", plans[0])
    return best_levels(flat, made, question, epsilon=epsilon, delta=delta, tree=tree)


def _step(
    coded: Coded,
    made: Plan | None,
    reports: int,
    *,
    delta: float,
    planned: bool,
    randomizer: Device | str | Mapping[str, Device | str] | None,
    local_epsilon: float | None,
    honest_fraction: float,
    local_epsilon_cap: float | None,
    allow_weaker: bool,
) -> Step:
    """A column with the device of its plan, or the randomizer given for it, accounted for."""
    honest, notes = honest_fraction, coded.notes
    if made is not None:
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
    device = device.fitted(coded.domain)
    coded.require(device, planned=made is not None)
    caps = {
        "local_epsilon_cap": local_epsilon_cap,
        "the plan's local_epsilon_cap": None if made is None else made.question.local_epsilon_cap,
    }
    for name, cap in caps.items():
        if cap is not None:
            expected, local = f"a randomizer within {name} = {cap:g}", device.local_epsilon
            checks.refuse(local > cap * _ROUNDING, expected, local_epsilon=local)
    n = coded.n // reports
    try:
        guarantee = amplification.amplify(device, n=n, delta=delta, honest_fraction=honest)
    except OutOfRegimeError as error:
        raise UnreachableTargetError(
            f"a guarantee of {device.name} for {n:,} people",
            str(error),
            f"make a plan for {n:,} people",
        ) from error
    profile = amplification.profile(device, n=n, honest_fraction=honest)
    public = (note for note in coded.notes if note in PUBLIC)
    guarantee = replace(guarantee, assumptions=(*guarantee.assumptions, *public))
    step = Step(coded, device, made, guarantee, profile, notes)
    if reports > 1:
        step = replace(step, guarantee=compose_columns([step], delta, reports))
    if made is None or planned:  # plans made here keep their part of the target
        return step
    target, epsilon = made.question.delta, step.guarantee.epsilon
    if target != delta:
        epsilon = (profile * reports).tightest(target)[0]
    warnings = _missed_target(made, epsilon, n, reports, honest, allow_weaker=allow_weaker)
    return replace(step, warnings=warnings)


def _missed_target(
    plan: Plan, epsilon: float, n: int, reports: int, honest: float, *, allow_weaker: bool
) -> tuple[str, ...]:
    """Nothing if n people, at its delta, keep the plan's epsilon; else a warning, or an error."""
    target = plan.question
    if epsilon <= target.epsilon * _ROUNDING:
        return ()
    people = f"{n:,} people" + f" with {reports} reports each" * (reports > 1)
    holds = f"for {people} epsilon {up(epsilon)} holds at delta {plain(target.delta)}"
    if allow_weaker:
        missed = f"weaker than the plan: its epsilon {plain(target.epsilon)} is not kept"
        return (f"{missed}, {holds}, and it was made for {target.n:,}",)
    needs = amplification.required_n(
        plan.randomizer,
        epsilon=target.epsilon,
        delta=target.delta,
        rounds=reports,
        honest_fraction=honest,
    )
    raise UnreachableTargetError(
        f"the plan's epsilon {plain(target.epsilon)}",
        holds,
        f"the plan needs {needs:,} people: make a plan for {n:,}, or go on with less privacy "
        "by allow_weaker=True (--allow-weaker)",
    )


def compose_columns(
    steps: Sequence[Step], delta: float, reports: int, what: str = "columns"
) -> Guarantee:
    """What all columns cost, at this delta: so many reports of each person in each of them.

    With report j of everybody in part j, parts are rounds among all people, and to shuffle them
    together shows less (docs/theory/survey-life.md).
    """
    composed = ComposedProfile.of((step.profile, reports) for step in steps)
    epsilon, how = composed.tightest(delta)
    singles = [step.guarantee for step in steps]
    theorems = dict.fromkeys(step.profile.theorem for step in steps)
    parts = [f"{len(steps)} {what}"] * (len(steps) > 1)
    parts += [f"{reports} reports of each person"] * (reports > 1)
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
        reports=reports,
        theorem=f"{'; '.join(theorems)}; {', '.join((*parts, how))}",
        assumptions=tuple(dict.fromkeys(assumptions)),
        # Several reports of one person are shuffled together: that is another claim.
        lower_bound=lambda: composed.lower_epsilon(delta) if reports == 1 else 0.0,
    )


def _after(first: Guarantee, then: Guarantee, steps: Sequence[Step]) -> Guarantee:
    """What it costs to find the groups and to collect the columns by what was found.

    What is collected depends on what was found, and so does what it costs: that is no guarantee of
    both. But whatever was found, it keeps the epsilon and the delta that were left for it, which
    ``then`` has: these add up (basic composition, which holds for mechanisms that are chosen by
    what others gave; Dwork, Rothblum, Vadhan, 2010).
    """
    delta = first.delta + then.delta
    return replace(
        then,
        epsilon=first.epsilon + then.epsilon,
        delta=delta,
        n=min(first.n, then.n),
        local_epsilon=first.local_epsilon + then.local_epsilon,
        local_delta=first.local_delta + then.local_delta,
        columns=then.columns + 1,
        theorem=f"{first.theorem} for the groups; {then.theorem}; epsilons and deltas added up",
        assumptions=tuple(dict.fromkeys((*first.assumptions, *then.assumptions))),
        lower_bound=lambda: max(step.profile.lower_epsilon(delta) for step in steps),
        profile=None,
    )


def _budget(
    columns: Sequence[ColumnResult], guarantee: Guarantee, epsilon: float | None, split: str | None
) -> str:
    """How several columns share epsilon."""
    together = f"together they cost epsilon {up(guarantee.epsilon)}"
    if epsilon is None:
        return f"each of the {len(columns)} columns has a budget of its own; {together}"
    if split == "divide":
        return f"each of the {len(columns)} columns has a part of epsilon and delta; {together}"
    own = ", ".join(f"{each.column} {up(each.guarantee.epsilon)}" for each in columns)
    return f"the budget is for all columns: {together} (each by itself: {own})"


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
        estimate = device.estimate(counts)
    fields: dict[str, Any] = {
        "column": coded.name,
        "labels": coded.labels,
        "estimate": estimate,
        "randomizer": device,
        "guarantee": step.guarantee,
        "n": counts.n,
        "plan": step.plan,
        "truth": None if part.totals is None else part.totals / counts.n,
        "notes": step.notes,
        "warnings": step.warnings,
    }
    if coded.by:
        from shoal.report.groups import GroupedResult

        return GroupedResult.of(cast("Grouped", coded), **fields)
    result = ColumnResult(**fields, **attributes(coded, "bins", "quantiles", "ranges"))
    if result.bins is None:
        return result
    return replace(result, warnings=(*result.warnings, *result.doubts()))
