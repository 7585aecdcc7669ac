"""The whole way: a table in, estimates with their errors and the guarantee out."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, cast

from shoal import checks
from shoal.accounting import amplification, search
from shoal.accounting.compose import ComposedProfile
from shoal.accounting.guarantee import Guarantee, default_delta
from shoal.engines import tables
from shoal.engines.counting import Counting
from shoal.engines.engine import Engine
from shoal.engines.shuffling import ORDERLESS, RUN_HERE, shuffle
from shoal.errors import InvalidArgumentError, UnreachableTargetError
from shoal.explain.text import plain, up
from shoal.mechanisms import registry
from shoal.mechanisms.base import Device
from shoal.planning.plans import Budget, Plan, QuestionPlan, Task, allot, listed, together
from shoal.planning.schemes import Scheme, fitting, mismatch, restored, schemes
from shoal.questions.kinds import NONE, OTHER, Choice, Question, Text
from shoal.questions.settled import MOST_PUBLIC, Lookup, Settled, settle_all
from shoal.questions.terms import EVERYBODY, NO_LIMITS, Crowd, Limits, Named, Person, require
from shoal.randomness import Randomness, source
from shoal.results.result import ColumnResult, Result, Stages, remarks, result_of

if TYPE_CHECKING:
    from shoal.open_answers import OpenResult
    from shoal.questions.settled import Coding

__all__ = ["ColumnResult", "Result", "run", "shuffle"]

ROW_PER_PERSON = "every row was counted as one person (person / --person says whose rows are whose)"
NOT_PRIVATE = "true values are included for comparison: this result is not private"
RATIO = (
    "a fraction is of the people in its group, whose number is estimated as well: its "
    "interval (Fieller's, with standard deviations added) holds however the two errors "
    "depend on each other"
)
MEANS = (
    "a mean is of the people in its group who have a number; how many they are is estimated as "
    "well: its interval (Fieller's) holds however the two errors depend on each other"
)
_FINDING = 0.5  # of the budget, where groups are to be found
_NEARLY = 0.005  # of the people that are enough for several reports
_ROUNDING = 1 + 1e-6  # what was solved for comes out above its target by rounding

Questions = Question | str | Iterable[Question | str]
Mechanisms = Device | Named | Mapping[str, "Device | Named"]
Progress = Callable[[int, int], None]


def run(
    data: object,
    questions: Questions | None = None,
    *,
    epsilon: float | None = None,
    delta: float | None = None,
    crowd: Crowd = EVERYBODY,
    limits: Limits = NO_LIMITS,
    person: Person | str | None = None,
    plan: Plan | None = None,
    mechanism: Mechanisms | None = None,
    compare_truth: bool = False,
    randomness: Randomness | None = None,
    progress: Progress | None = None,
) -> Result:
    """Ask questions of a table as the shuffle model would, and estimate the answers.

    Every row is one person. Exactly one of epsilon (a plan is made), plan and mechanism
    says what devices run. Several questions are several reports of each person.

    Args:
        data: A Polars, pandas or Arrow table, anything else with an Arrow C stream, a
            mapping from names to columns, a series; the path of files (a list, a
            directory, a pattern) of CSV, TSV, JSON lines, Parquet or Arrow, which are
            read in chunks; a Spark data frame, or another engine.
        questions: What is asked of the columns: a :class:`shoal.Choice`, say, the name
            of a column with answers, or a list; needless for a table of one column,
            and beside a plan.
        epsilon: ε > 0 of all questions together: their curves compose to it.
        delta: δ; the plan's, or min(1e-6, 1/(10 n)) unless given.
        crowd: Who takes part.
        limits: What reports may be.
        person: The column that says whose row it is, or a :class:`shoal.Person`:
            everybody counts as exactly so many reports.
        plan: A plan made before.
        mechanism: What devices run, or a :class:`shoal.Named` one; or one for each
            question.
        compare_truth: Add the true values, which makes the result not private.
        randomness: That of a simulation; None is secure.
        progress: Called with the number of reports made and the number of all.

    Returns:
        A :class:`shoal.Result` with estimates, the guarantee of all questions together,
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
        >>> result = shoal.run(table, shoal.Choice("color"), epsilon=1)
        >>> result.labels, result.guarantee.epsilon <= 1
        (('blue', 'green', 'red'), True)
    """
    whose = Person(person) if isinstance(person, str) else person
    terms = Terms(epsilon, delta, crowd, limits, whose, plan, mechanism)
    asked = terms.asked(data, questions)
    stages, bits = Stages(), source(randomness)
    with stages("read"):
        table = terms.opened(data, asked, bits)
        wanted = any(each.groups is not None and each.groups.longest for each in asked)
        found = find(table, asked, terms, bits) if wanted else Found(asked, terms)
        padded, epsilon = terms.reports > 1, found.left.epsilon
        settled = settle_all(found.questions, table, epsilon=epsilon, padded=padded)
        terms = found.left
        if terms.delta is None:
            people = max(each.n for each in settled) // terms.reports
            terms = replace(terms, delta=default_delta(people))
    # Everything is checked, planned and accounted for before anybody reports.
    with stages("plan"):
        made, tasks = terms.planned(settled)
    with stages("account"):
        guarantee = tasks[0].guarantee
        if len(tasks) > 1:
            guarantee = together(tasks, cast("float", terms.delta))
        if terms.plan is not None:  # which has to be kept, or warns
            missed = _missed(terms.plan, guarantee, tasks, weaker=limits.weaker)
            tasks = [replace(task, warnings=missed) for task in tasks]
        guarantee = found.included(guarantee, tasks) if found.groups else guarantee
    total = sum(task.settled.n for task in tasks)
    results: list[ColumnResult] = []
    for task in tasks:
        sent = task.scheme.reports(task.devices)
        counting = Counting(cast("Coding", task.settled.coding), sent, compare_truth)
        done = sum(each.n for each in results)
        part = counting.total(
            table, task.settled.n, bits, stages, progress, done=done, people=total
        )
        with stages("estimate"):
            truth = None if part.totals is None else part.totals / task.settled.n
            results.append(result_of(task, part.counts, truth))
    notes = [*remarks(results, "notes"), *terms.notes]
    if len(results) > 1:
        notes.append(_budget(results, guarantee, terms))
    grouped = [task.scheme.means for task in tasks if task.settled.groups is not None]
    notes += [*[RATIO] * (False in grouped), *[MEANS] * (True in grouped)]
    notes += found.notes(guarantee) if found.groups else []
    notes += [RUN_HERE, ORDERLESS, *[NOT_PRIVATE] * compare_truth]
    seconds = {stage: round(taken, 3) for stage, taken in stages.items()}
    more: dict[str, Any] = {"stages": seconds, "plan": made}
    return Result(columns=tuple(results), guarantee=guarantee, notes=tuple(notes), **more)


# ------------------------------------------------------------------------------------- the terms


@dataclass(frozen=True)
class Terms:
    """How private a run is, by which of three ways, and whose rows are whose."""

    epsilon: float | None
    delta: float | None
    crowd: Crowd
    limits: Limits
    person: Person | None
    plan: Plan | None
    mechanism: Mechanisms | None
    reports: int = field(init=False)  # rows of one person

    def __post_init__(self) -> None:
        require(self.crowd, self.limits)
        expected = "a column of ids, or Person(column, reports=…)"
        named = self.person is None or isinstance(self.person, Person)
        checks.refuse(not named, expected, person=self.person)
        object.__setattr__(self, "reports", 1 if self.person is None else self.person.reports)
        ways = {"epsilon": self.epsilon, "mechanism": self.mechanism, "plan": self.plan}
        chosen = [name for name, value in ways.items() if value is not None]
        expected = "exactly one of epsilon, mechanism and plan"
        checks.refuse(len(chosen) != 1, expected, given=", ".join(chosen) or "none")
        several = not isinstance(self.plan, Plan | None)
        expected = "one plan, which shoal.plan makes of all questions"
        checks.refuse(several, expected, plan=type(self.plan).__name__)
        if self.epsilon is not None:
            checks.positive(epsilon=self.epsilon)
        if self.delta is not None:
            checks.open_probability(delta=self.delta)
        elif self.plan is not None:
            object.__setattr__(self, "delta", self.plan.budget.delta)
        expected = "no participation: every row of a table reports"
        participation = self.crowd.participation
        checks.refuse(participation < 1, expected, participation=participation)
        for name in ("messages", "each"):
            expected = f"no {name} with a mechanism or a plan: it is for epsilon"
            wish = getattr(self.limits, name)
            checks.refuse(self.epsilon is None and wish, expected, **{name: wish})

    def asked(self, data: object, questions: Questions | None) -> tuple[Question, ...]:
        """The questions; those of the plan, or the only column, unless they are given."""
        if questions is None and self.plan is not None:
            return self.plan.questions
        if questions is None:
            column = tables.only_column(data)
            expected = "a question, such as Choice('color')"
            checks.refuse(column is None, expected, questions=None)
            return (Choice(str(column)),)
        asked = listed(questions)
        names = [each.name for each in asked]
        given = self.mechanism if isinstance(self.mechanism, Mapping) else {}
        unknown = ", ".join(sorted(set(given) - set(names)))
        expected = f"mechanisms of the questions {', '.join(names)}"
        checks.refuse(unknown, expected, mechanism=unknown)
        for each in asked if self.epsilon is None else ():
            known = _wishes(None if self.plan is None else self.plan.of(each.name).settled.question)
            for name, wish in _wishes(each).items():
                expected = f"no {name} of {each.name} with a mechanism or a plan: it is for epsilon"
                wrong = wish is not None and wish != known.get(name)
                checks.refuse(wrong, expected, **{name: wish})
        expected = "no rows left out with several reports per person: all make the same number"
        dropped = [each.name for each in asked if each.missing == "drop"]
        checks.refuse(self.reports > 1 and dropped, expected, missing="drop")
        return asked

    def opened(self, data: object, asked: Sequence[Question], bits: Randomness) -> Engine:
        """The table with the columns that are asked about; of a person so many rows.

        A stream can be read only once.
        """
        for each in asked:
            if not each.columns:
                expected = f"the names of the columns of {each.name} (a number is for plans only)"
                raise InvalidArgumentError("questions", str(each), expected)
        names = list(dict.fromkeys(name for each in asked for name in each.columns))
        ids = None if self.person is None else self.person.column
        expected = "a column other than those that are collected"
        checks.refuse(ids in names, expected, person=ids)
        try:
            table = tables.table(data, names if ids is None else [*names, ids])
        except InvalidArgumentError as error:
            groups = {each.groups.column for each in asked if each.groups is not None}
            if error.name != "column" or error.value not in {*groups, ids}:
                raise
            name = "person" if error.value == ids else "by"
            raise InvalidArgumentError(name, error.value, error.expected) from error
        return table if ids is None else table.sample(ids, self.reports, bits)

    def planned(self, settled: Sequence[Settled]) -> tuple[Plan | None, list[Task]]:
        """What devices run, and what it costs: by a plan, or by mechanisms that are given."""
        plan, delta = self.plan, cast("float", self.delta)
        if self.epsilon is not None:
            n = max(each.n for each in settled) // self.reports
            terms: dict[str, Any] = {"crowd": self.crowd, "limits": self.limits}
            budget = Budget(epsilon=self.epsilon, delta=delta, reports=self.reports, **terms)
            made = Plan(allot(settled, budget), n, budget)
            own: dict[str, Any] = {"delta": delta / len(settled), "reports": self.reports}
            return made, [
                Task.of(part.settled, part.scheme, part.devices, **own, crowd=self.crowd, plan=part)
                for part in made.parts
            ]
        crowd, tasks = self.crowd, []
        if plan is not None:
            least = min(crowd.honest_fraction, plan.budget.crowd.honest_fraction)
            crowd = Crowd(honest_fraction=least)
        for each in settled:
            part = None if plan is None else plan.of(each.name)
            scheme, devices = self._given(each) if part is None else of_plan(part, each)
            self._check(devices)
            more: dict[str, Any] = {"crowd": crowd, "reports": self.reports, "plan": part}
            tasks.append(Task.of(each, scheme, devices, delta=delta, **more))
        return plan, tasks

    def _given(self, settled: Settled) -> tuple[Scheme, tuple[Device, ...]]:
        """The mechanism that is given for a question."""
        own: Any = self.mechanism
        own = own.get(settled.name) if isinstance(own, Mapping) else own
        if own is None or isinstance(own, str):
            expected = f"a mechanism for question {settled.name}, or Named(name, epsilon=…)"
            raise InvalidArgumentError("mechanism", own or "none", expected)
        if not isinstance(own, Named):
            scheme, device = fitting(settled, own)
            return scheme, (device,)
        first = schemes(settled)[0]
        (domain,) = first.domains
        return first, (registry.named(own.name, own.epsilon, domain),)

    def _check(self, devices: Sequence[Device]) -> None:
        """The largest ε₀ is kept: that of this run, and that of the plan."""
        caps = {"local_epsilon": self.limits.local_epsilon}
        if self.plan is not None:
            caps["the plan's local_epsilon"] = self.plan.budget.limits.local_epsilon
        for name, cap in caps.items():
            for device in devices:
                expected, local = f"a mechanism within {name} = {cap or 0:g}", device.local_epsilon
                wrong = cap is not None and local > cap * _ROUNDING
                checks.refuse(wrong, expected, local_epsilon=local)

    @cached_property
    def notes(self) -> tuple[str, ...]:
        """How rows were counted."""
        if self.person is None:
            rows = ROW_PER_PERSON
        elif self.reports > 1:
            rows = (
                f"every person counts as {self.reports} reports: of more rows {self.reports} were "
                f"chosen at random, missing ones count as {NONE}; the chart counts these rows"
            )
        else:
            rows = "every person counts as one report: of several rows one was chosen at random"
        unused = "the plan's participation is not used: every row reports"
        some = self.plan is not None and self.plan.budget.crowd.participation < 1
        return (*[unused] * some, rows)


def _wishes(question: Question | None) -> dict[str, Any]:
    """What a question says of its plan, if it says something."""
    weight = getattr(question, "weight", 1.0)
    named = {name: getattr(question, name, None) for name in ("choose", "tree")}
    return {"weight": None if weight == 1 else weight, **named}


# ------------------------------------------------------------------------------ of a plan before


def of_plan(part: QuestionPlan, settled: Settled) -> tuple[Scheme, tuple[Device, ...]]:
    """What a plan runs for a question, as it is asked of these people."""
    scheme = restored(part.scheme.to_dict(), settled)
    kinds = zip(part.rankings, scheme.domains, strict=True)
    devices = []
    for ranking, domain in kinds:
        device, planned = ranking.randomizer.fitted(domain), ranking.setting.domain
        # What is predicted for vectors of one length does not hold for others.
        if not device.domain.accepts(domain) or planned.longest != domain.longest:
            wrong = mismatch(settled, planned, domain)
            raise InvalidArgumentError("plan", wrong.value, wrong.expected)
        devices.append(device)
    return scheme, tuple(devices)


def _missed(
    plan: Plan, guarantee: Guarantee, tasks: Sequence[Task], *, weaker: bool
) -> tuple[str, ...]:
    """Nothing if so many people keep the plan's epsilon at its delta; else a warning, or error."""
    target, epsilon = plan.budget, guarantee.epsilon
    if target.delta != guarantee.delta:
        costs = [(cost.profile, cost.times) for task in tasks for cost in task.costs]
        epsilon = ComposedProfile.of(costs).tightest(target.delta)[0]
    if epsilon <= target.epsilon * _ROUNDING:
        return ()
    n, reports = max(task.settled.n // task.reports for task in tasks), tasks[0].reports
    people = f"{n:,} people" + f" with {reports} reports each" * (reports > 1)
    holds = f"for {people} epsilon {up(epsilon)} holds at delta {plain(target.delta)}"
    if weaker:
        missed = f"weaker than the plan: its epsilon {plain(target.epsilon)} is not kept"
        return (f"{missed}, {holds}, and it was made for {plan.n:,}",)
    needs = _people_needed(target, tasks)
    raise UnreachableTargetError(
        f"the plan's epsilon {plain(target.epsilon)}",
        holds,
        f"the plan needs {needs} people: make a plan for {n:,}, or go on with less privacy by "
        "Limits(weaker=True) (--allow-weaker)",
    )


def _people_needed(target: Budget, tasks: Sequence[Task]) -> str:
    """How many keep the target by these reports."""
    crowd = tasks[0].crowd
    reports = [
        (device, cost.times)
        for task in tasks
        for device, cost in zip(task.devices, task.costs, strict=True)
    ]
    if len(reports) == 1:
        ((device, times),) = reports
        goal: dict[str, Any] = {"epsilon": target.epsilon, "delta": target.delta, "rounds": times}
        return f"{amplification.required_n(device, **goal, crowd=crowd):,}"

    def keeps(n: int) -> bool:
        curves = ((amplification.profile(each, n=n, crowd=crowd), times) for each, times in reports)
        return ComposedProfile.of(curves).tightest(target.delta)[0] <= target.epsilon * _ROUNDING

    bracket = search.doubled(keeps, min(task.settled.n for task in tasks), checks.LARGEST_COUNT)
    return "more" if bracket is None else f"{search.least(keeps, *bracket, tolerance=_NEARLY):,}"


# -------------------------------------------------------------------------- groups that are found


@dataclass(frozen=True, eq=False)
class Found:
    """Questions whose groups are known, what was found, and what is left of the budget."""

    questions: tuple[Question, ...]
    left: Terms
    groups: tuple[OpenResult, ...] = ()
    lengths: tuple[int, ...] = ()

    def included(self, guarantee: Guarantee, tasks: Sequence[Task]) -> Guarantee:
        """What it costs to find the groups and to ask the questions by what was found.

        What is asked depends on what was found, and so does what it costs: that is no guarantee of
        both. But whatever was found, it keeps the epsilon and the delta that were left for it,
        which ``guarantee`` has, but for rounding: these add up (basic composition, which holds for
        mechanisms that are chosen by what others gave; Dwork, Rothblum, Vadhan, 2010).
        """
        then = guarantee
        for found in self.groups:
            first, left = found.guarantee, then.epsilon
            if then is guarantee:
                left = max(self.left.epsilon or 0.0, left)
            delta = first.delta + then.delta
            then = replace(
                then,
                epsilon=first.epsilon + left,
                delta=delta,
                n=min(first.n, then.n),
                local_epsilon=first.local_epsilon + then.local_epsilon,
                local_delta=first.local_delta + then.local_delta,
                columns=then.columns + 1,
                theorem=f"{first.theorem} for the groups; {then.theorem}; epsilons and deltas "
                "added up",
                assumptions=tuple(dict.fromkeys((*first.assumptions, *then.assumptions))),
                lower_bound=partial(_least, tasks, delta),
                profile=None,
            )
        return then

    def notes(self, guarantee: Guarantee) -> list[str]:
        """What was found, and at which cost."""
        return [
            f"the groups of {found.column} were found at epsilon {up(found.guarantee.epsilon)} of "
            f"{up(guarantee.epsilon)}; names of more than {length} bytes count as {OTHER}; "
            f"{found.statement}"
            for found, length in zip(self.groups, self.lengths, strict=True)
        ]


def _least(tasks: Sequence[Task], delta: float) -> float:
    """What one of the reports is sure to lose."""
    costs = (cost for task in tasks for cost in task.costs)
    return max(cost.profile.lower_epsilon(delta) for cost in costs)


def find(table: Engine, asked: tuple[Question, ...], terms: Terms, bits: Randomness) -> Found:
    """The frequent names of groups that nobody listed, each column of them once."""
    wanted: dict[str, int] = {}
    for groups in (each.groups for each in asked):
        if groups and groups.longest:
            wanted[groups.column] = max(groups.longest, wanted.get(groups.column, 1))
    expected = (
        "epsilon (a part of it pays for what is found), and one report per person, with Find()"
    )
    wrong = terms.epsilon is None or terms.reports > 1
    checks.refuse(wrong, expected, groups="Find()")
    column, part = next(iter(wanted)), _FINDING / len(wanted)
    delta = terms.delta or default_delta(table.size(Lookup(column, ()))[0])
    epsilon = cast("float", terms.epsilon)
    target = {"epsilon": part * epsilon, "delta": part * delta, "crowd": terms.crowd}
    texts = (Text(by, length=length) for by, length in wanted.items())
    hitters = tuple(_found_groups(table, text, **target, randomness=bits) for text in texts)
    names = {each.column: tuple(item.label for item in each.items) for each in hitters}
    questions = tuple(
        replace(each, groups=replace(each.groups, labels=names[each.groups.column]))
        if each.groups and each.groups.longest
        else each
        for each in asked
    )
    for cost in (each.guarantee for each in hitters):
        epsilon, delta = epsilon - cost.epsilon, delta - cost.delta
    left = replace(terms, epsilon=epsilon, delta=delta)
    return Found(questions, left, hitters, tuple(wanted.values()))


def _found_groups(table: Engine, asked: Text, **terms: Any) -> OpenResult:  # noqa: ANN401
    """The frequent names of a column, by an open question."""
    from shoal.open_answers import EMPTY, heavy_hitters

    try:
        hitters = heavy_hitters(table, asked, top=MOST_PUBLIC, **terms)
    except UnreachableTargetError as error:
        raise UnreachableTargetError(
            f"frequent names in {asked.name} at epsilon {plain(terms['epsilon'])}",
            error.reason,
            "give a public list (groups, --groups), or shorter names (Find(length=…), --length)",
        ) from error
    added = {EMPTY, NONE, OTHER}  # for whoever has no name, or another
    named = tuple(item for item in hitters.items if item.label not in added)
    expected = "names that stand out from the noise (give a public list: groups, --groups)"
    checks.refuse(not named, expected, by=asked.name)
    return replace(hitters, items=named)


# --------------------------------------------------------------------------------- what comes out


def _budget(columns: Sequence[ColumnResult], guarantee: Guarantee, terms: Terms) -> str:
    """How several questions share epsilon."""
    cost = f"together they cost epsilon {up(guarantee.epsilon)}"
    if terms.mechanism is not None:
        return f"each of the {len(columns)} columns has a budget of its own; {cost}"
    if terms.limits.each:
        return f"each of the {len(columns)} columns has a part of epsilon and delta; {cost}"
    own = ", ".join(f"{each.column} {up(each.guarantee.epsilon)}" for each in columns)
    return f"the budget is for all columns: {cost} (each by itself: {own})"
