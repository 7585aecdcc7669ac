"""Plans: for every question its reports, each with what devices run, and how wrong charts will be.

All reports of one person share the budget. Questions that can be asked in several ways are asked in
the one with the least predicted error at about their part of it.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from shoal import checks
from shoal.accounting import amplification
from shoal.accounting.compose import ComposedProfile
from shoal.accounting.devices import Profile
from shoal.accounting.guarantee import Guarantee, default_delta
from shoal.errors import (
    InvalidArgumentError,
    OutOfRegimeError,
    ShoalError,
    UnreachableTargetError,
)
from shoal.explain.document import Document, Row, Table
from shoal.explain.text import down, plain, up
from shoal.explain.views import Tabular
from shoal.mechanisms.base import Device
from shoal.mechanisms.estimators import Errors
from shoal.planning import planner
from shoal.planning.planner import (
    Option,
    Ranking,
    Setting,
    amount,
)
from shoal.planning.schemes import Scheme, Whole, answers_of, restored, schemes
from shoal.questions.domains import Domain
from shoal.questions.kinds import KINDS, Choice, Question
from shoal.questions.settled import Settled, settle_all
from shoal.questions.terms import EVERYBODY, NO_LIMITS, Crowd, Limits, require
from shoal.values import Record

if TYPE_CHECKING:
    from matplotlib.axes import Axes

FORMAT = 2
_UNNAMED = "answer"  # what is asked by a plan of format 1
_SLACK = 1e-6
_TREE = "a tree for one question in bins, and one report per person"


# ------------------------------------------------------------------------------------ the budget


@dataclass(frozen=True, kw_only=True)
class Budget:
    """What all reports of one person keep together, and on which terms.

    Args:
        epsilon: ε > 0.
        delta: δ in (0, 1).
        crowd: Who takes part.
        limits: What reports may be.
        reports: How often everybody answers all questions.
    """

    epsilon: float
    delta: float
    crowd: Crowd = EVERYBODY
    limits: Limits = NO_LIMITS
    reports: int = 1

    def setting(self, settled: Settled, scheme: Scheme, domain: Domain) -> Setting:
        """What one report is planned for, if it had all of the budget."""
        return Setting(
            domain=domain,
            n=settled.n // self.reports,
            epsilon=self.epsilon,
            delta=self.delta,
            crowd=self.crowd,
            limits=self.limits,
            chosen=settled.question.choose,
            scheme=scheme,
        )

    def part(self, weight: float, of: Sequence[float]) -> Budget:
        """About what a question of this weight has of it, or just that if each has its own."""
        delta = self.delta / len(of)
        if self.limits.each:
            return replace(self, epsilon=self.epsilon * weight / math.fsum(of), delta=delta)
        root = math.sqrt(math.fsum(each**2 for each in of))
        return replace(self, epsilon=self.epsilon * weight / root, delta=delta)


# ------------------------------------------------------------------- what is run, and what it costs


@dataclass(frozen=True, eq=False)
class Cost:
    """Of so many reports of one kind: the curve of one, and its guarantee by itself."""

    profile: Profile
    guarantee: Guarantee
    times: int


@dataclass(frozen=True, eq=False)
class Task:
    """A question with what devices run for it, and what its reports cost."""

    settled: Settled
    scheme: Scheme
    devices: tuple[Device, ...]
    costs: tuple[Cost, ...]
    guarantee: Guarantee
    crowd: Crowd
    reports: int = 1  # rows of one person
    plan: QuestionPlan | None = None
    warnings: tuple[str, ...] = ()

    @classmethod
    def of(
        cls,
        settled: Settled,
        scheme: Scheme,
        devices: Sequence[Device],
        *,
        delta: float,
        crowd: Crowd,
        reports: int = 1,
        plan: QuestionPlan | None = None,
    ) -> Task:
        """Accounted for at this delta."""
        n = settled.n // reports
        costs = []
        for device in devices:
            try:
                one = amplification.amplify(device, n=n, delta=delta, crowd=crowd)
            except OutOfRegimeError as error:
                raise UnreachableTargetError(
                    f"a guarantee of {device.name} for {n:,} people",
                    str(error),
                    f"make a plan for {n:,} people",
                ) from error
            one = replace(one, assumptions=(*one.assumptions, *settled.assumptions))
            curve = amplification.profile(device, n=n, crowd=crowd)
            costs.append(Cost(curve, one, scheme.rounds * reports))
        own = costs[0].guarantee
        task = cls(settled, scheme, tuple(devices), tuple(costs), own, crowd, reports, plan)
        alone = len(costs) == 1 and costs[0].times == 1
        return task if alone else replace(task, guarantee=together([task], delta))


def together(tasks: Sequence[Task], delta: float) -> Guarantee:
    """What all reports cost, at this delta.

    With report j of everybody in part j, parts are rounds among all people, and to shuffle them
    together shows less (docs/theory/survey-life.md).
    """
    reports, costs = tasks[0].reports, [cost for task in tasks for cost in task.costs]
    composed = ComposedProfile.of((cost.profile, cost.times) for cost in costs)
    epsilon, how = composed.tightest(delta)
    theorems = dict.fromkeys(cost.profile.theorem for cost in costs)
    mixed = reports > 1 or any(task.scheme.mixed for task in tasks)
    parts = [f"{len(tasks)} columns"] * (len(tasks) > 1)
    parts += [task.scheme.words for task in tasks if task.scheme.total > 1]
    parts += [f"{reports} reports of each person"] * (reports > 1)
    return Guarantee(
        epsilon=epsilon,
        delta=delta,
        n=min(cost.guarantee.n for cost in costs),
        local_epsilon=composed.local_epsilon,
        local_delta=composed.local_delta,
        columns=sum(task.scheme.total for task in tasks),
        reports=reports,
        theorem=f"{'; '.join(theorems)}; {', '.join((*parts, how))}",
        assumptions=tuple(dict.fromkeys(_assumptions(tasks))),
        # Several reports of one person that are shuffled together: that is another claim.
        lower_bound=lambda: 0.0 if mixed else composed.lower_epsilon(delta),
    )


def _assumptions(tasks: Sequence[Task]) -> Iterator[str]:
    """What all questions assume, and what some do, with their names."""
    singles = [cost.guarantee.assumptions for task in tasks for cost in task.costs]
    for task in tasks:
        for text in task.guarantee.assumptions:
            yield text if all(text in each for each in singles) else f"{task.settled.name}: {text}"


# ------------------------------------------------------------------------------------ the plans


@dataclass(frozen=True, eq=False)
class QuestionPlan:
    """One question of a :func:`shoal.plan`: its reports, and the options for each kind of them.

    Attributes:
        settled: The question.
        scheme: How it becomes reports.
        rankings: A :class:`shoal.planning.planner.Ranking` for each kind of report.
        note: What to know of the scheme.
    """

    settled: Settled
    scheme: Scheme
    rankings: tuple[Ranking, ...]
    note: str = ""

    @property
    def name(self) -> str:
        """The question's."""
        return self.settled.name

    @property
    def ranking(self) -> Ranking:
        """The options for its only kind of report, or the first one."""
        return self.rankings[0]

    @property
    def devices(self) -> tuple[Device, ...]:
        """What devices run for each kind of report."""
        return tuple(each.randomizer for each in self.rankings)

    @property
    def messages(self) -> float:
        """What one person sends, on average."""
        sent = math.fsum(device.messages for device in self.devices)
        return sent * self.scheme.total / len(self.devices)

    @cached_property
    def errors(self) -> Errors:
        """Predicted errors: of all counts, of the sum, or n times that of a group's mean."""
        return self.scheme.joint_errors(self.devices, self.ranking.setting)

    @cached_property
    def mean_error(self) -> float | None:
        """Predicted standard error of the mean, or of a group's: all have as many people.

        As if everybody's numbers, or steps of a scale, were spread evenly; None for no mean.
        """
        n, of = self.settled.n, self.ranking.setting.scheme.of
        if of != "counts":
            return self.errors.l2 / n
        if not self.settled.scores:
            return None
        from shoal.estimate.means import predicted

        setting, scores = self.ranking.setting, np.array(self.settled.scores)
        cells = [np.array(group) for group in self.settled.cells_of_means]
        fractions = np.zeros(self.ranking.cells or 0)
        fractions[np.concatenate(cells)] = 1 / (len(cells) * scores.size)
        noise = predicted(
            answers_of(self.devices[0]),
            cells,
            [scores] * len(cells),
            frequencies=fractions,
            n=setting.reporting,
        )
        chance = (1 / setting.reporting - 1 / setting.n) * len(cells) * float(scores.var())
        return float(np.sqrt(np.mean(noise**2) + chance))

    def quantile_error(self, quantile: float = 0.5) -> float:
        """Predicted error, in people, of the count up to a quantile of numbers in bins."""
        return self.scheme.total_error(self.devices, self.ranking.setting, quantile)

    def choose(self, name: str) -> QuestionPlan:
        """The same with another option first."""
        expected = "a question that is asked by one kind of report"
        checks.refuse(len(self.rankings) > 1, expected, choose=name)
        return replace(self, rankings=(planner.choose(self.ranking, name),))

    def document(self) -> Document:
        """The options, best first, and what the recommended one keeps by itself."""
        made = self.ranking.document(planner.nearer(self.ranking))
        notes = [note for note in (self.scheme.note, self.note) if note]
        return replace(made, notes=(*notes, *made.notes))

    def to_dict(self) -> Record:
        """Plain values: the question as it was settled, and the options of each report."""
        return {
            "question": self.settled.fixed.to_dict(),
            "scheme": self.scheme.to_dict(),
            "reports": [ranking.to_dict() for ranking in self.rankings],
            "errors": asdict(self.errors),
            "mean_error": self.mean_error,
        }


@dataclass(frozen=True, eq=False)
class Plan(Tabular):
    """What devices run for every question, and what all of it costs.

    :func:`shoal.plan` makes it. It prints itself as a table, and saves itself as JSON.

    Attributes:
        parts: A :class:`shoal.planning.QuestionPlan` for each question.
        n: How many people report.
        budget: What all reports of one person keep together.

    References:
        ``guarantee`` is by the theorems of :func:`shoal.amplify`, those of several reports by
        :doc:`/theory/composition`; :doc:`/theory/solving`.

    Example:
        >>> import shoal
        >>> made = shoal.plan(shoal.Choice("color", 4), epsilon=1, n=10_000)
        >>> made.recommended.name, made.guarantee.epsilon <= 1
        ('grr', True)
    """

    parts: tuple[QuestionPlan, ...]
    n: int
    budget: Budget

    @property
    def questions(self) -> tuple[Question, ...]:
        """What is asked."""
        return tuple(part.settled.question for part in self.parts)

    @property
    def only(self) -> QuestionPlan:
        """The only question."""
        if len(self.parts) > 1:
            names = ", ".join(part.name for part in self.parts)
            raise InvalidArgumentError("plan", names, "one question (use .parts for several)")
        return self.parts[0]

    def __getitem__(self, name: str) -> QuestionPlan:
        for part in self.parts:
            if part.name == name:
                return part
        names = ", ".join(part.name for part in self.parts)
        raise InvalidArgumentError("question", name, f"one of {names}")

    def of(self, name: str) -> QuestionPlan:
        """What is planned for a question: the only plan is for a question of any name."""
        return self.only if len(self.parts) == 1 else self[name]

    @property
    def options(self) -> tuple[Option, ...]:
        """The options for the only question, best first."""
        return self.only.ranking.options

    @property
    def recommended(self) -> Option:
        """The best of them, or the one that was chosen."""
        return self.only.ranking.recommended

    @property
    def randomizer(self) -> Device:
        """What each device runs for the only question."""
        return self.only.ranking.randomizer

    @property
    def reason(self) -> str:
        """Why it is recommended."""
        return self.only.ranking.reason

    @property
    def central(self) -> Errors | None:
        """What a trusted curator would give for the only question, if it has answers."""
        return self.only.ranking.central

    @property
    def local(self) -> Errors | None:
        """What is known without a shuffler."""
        return self.only.ranking.local

    def quantile_error(self, quantile: float = 0.5) -> float:
        """Predicted error, in people, of the count up to a quantile of the only question's bins."""
        return self.only.quantile_error(quantile)

    def choose(self, name: str) -> Plan:
        """The same plan with another option first; of several questions each has its ``choose``."""
        return replace(self, parts=(self.only.choose(name),))

    @cached_property
    def guarantee(self) -> Guarantee:
        """The (ε, δ) of all reports of one person together."""
        delta, budget = self.budget.delta, self.budget
        terms: dict[str, Any] = {"crowd": budget.crowd, "reports": budget.reports}
        tasks = [
            Task.of(part.settled, part.scheme, part.devices, delta=delta, **terms)
            for part in self.parts
        ]
        return tasks[0].guarantee if len(tasks) == 1 else together(tasks, delta)

    @property
    def warnings(self) -> tuple[str, ...]:
        """What to know before relying on it."""
        return self.guarantee.warnings

    # What it shows

    def records(self) -> list[Record]:
        """One row per option of a question, best first; or per question, with what it runs."""
        if len(self.parts) == 1 and len(self.only.rankings) == 1:
            return self.only.ranking.records()
        return [
            {"question": part.name, "scheme": part.scheme.name}
            | {"mean_error": part.mean_error}
            | ranking.records()[0]
            | {"messages": part.messages}
            for part in self.parts
            for ranking in part.rankings[:1]
        ]

    def document(self) -> Document:
        """The options for the only question; or what each question runs; and what all keep."""
        if len(self.parts) == 1:
            return self._alone()
        guarantee = self.guarantee
        reports = sum(part.scheme.total for part in self.parts) * self.budget.reports
        sent = math.fsum(part.messages for part in self.parts) * self.budget.reports
        kept = (
            f"Together they keep ε = {up(guarantee.epsilon)} at δ = {plain(guarantee.delta)} among "
            f"{guarantee.n:,} honest people (replacement; {guarantee.theorem}), if "
            f"{guarantee.trust}. One person sends {reports:,} reports, {sent:,.4g} messages in all."
        )
        means = "L2 error: of all counts of a question, in people; of a mean, in its own unit."
        notes = [
            f"{part.name}: {note}"
            for part in self.parts
            for note in (part.scheme.note, part.note)
            if note
        ]
        return Document(
            f"A plan for {len(self.parts)} questions",
            table=self._table(),
            sentences=(means, kept),
            notes=tuple(notes),
            warnings=self.warnings,
        )

    def _alone(self) -> Document:
        part = self.only
        made = part.document()
        if part.scheme.total == 1 and self.budget.reports == 1:
            return made
        guarantee = self.guarantee
        kept = (
            f"All reports of one person keep ε = {up(guarantee.epsilon)} at δ = "
            f"{plain(guarantee.delta)} ({guarantee.theorem})."
        )
        target = f"ε = {plain(self.budget.epsilon)}, δ = {plain(self.budget.delta)} in all"
        title = f"{self.n:,} people, {part.scheme}, {target}"
        table = made.table and replace(made.table, title=title)
        return replace(made, table=table, sentences=(*made.sentences, kept))

    def _table(self) -> Table:
        heads = ("question", "what", "randomizer", "ε0", "reports", "L2 error", "of mean")
        rows = []
        for part in self.parts:
            option, counts = part.ranking.recommended, part.ranking.setting.scheme.of == "counts"
            local = option.local_epsilon or 0.0
            mean = "" if part.mean_error is None else f"{part.mean_error:.3g}"
            shown = down(local) if math.isfinite(local) else "none"
            error = amount(part.errors.l2) if counts else ""
            listed = getattr(part.settled.question, "labels", ()) is None
            what = str(part.scheme if listed else part.settled.question)
            cells = part.name, what, option.name, shown, f"{part.scheme.total:,}", error, mean
            rows.append(Row(cells))
        target = f"ε = {plain(self.budget.epsilon)}, δ = {plain(self.budget.delta)}"
        return Table(heads, tuple(rows), frozenset({3, 4, 5, 6}), f"{self.n:,} people, {target}")

    def plot(self, ax: Axes | None = None) -> Axes:
        """The error of each option, between a trusted curator's and no shuffler's."""
        return self.only.ranking.plot(ax)

    # In a file

    def to_dict(self) -> Record:
        """Plain values, enough to load the plan again."""
        budget = self.budget
        return {
            "format": FORMAT,
            "n": self.n,
            "epsilon": budget.epsilon,
            "delta": budget.delta,
            "crowd": budget.crowd.to_dict(),
            "limits": budget.limits.to_dict(),
            "reports": budget.reports,
            "questions": [part.to_dict() for part in self.parts],
            "guarantee": self.guarantee.to_dict(),
            "warnings": list(self.warnings),
        }

    def save(self, path: str | Path) -> None:
        """Write the plan as JSON."""
        Path(path).write_text(json.dumps(self.to_dict(), indent=2) + "\n", encoding="utf-8")

    @classmethod
    def load(cls, path: str | Path) -> Plan:
        """Read a saved plan; its guarantee is computed anew, never believed."""
        try:
            stored = json.loads(Path(path).read_text(encoding="utf-8"))
        except OSError as error:
            raise InvalidArgumentError("plan", str(path), "a file that can be read") from error
        except (ValueError, RecursionError):
            stored = None
        if not isinstance(stored, dict):
            raise InvalidArgumentError("plan", str(path), "a file written by Plan.save")
        return cls.from_dict(stored)

    @classmethod
    def from_dict(cls, stored: Mapping[str, Any]) -> Plan:
        """A plan from plain values, those of format 1 among them."""
        if stored.get("format") not in {1, FORMAT}:
            expected = f"a plan of a format up to {FORMAT} (a later version wrote it)"
            raise InvalidArgumentError("plan", stored.get("format"), expected)
        try:
            if stored["format"] == 1:
                stored = _of_one_report(stored)
            n = checks.count(n=stored["n"])
            budget = Budget(
                epsilon=stored["epsilon"],
                delta=stored["delta"],
                crowd=Crowd.from_dict(stored["crowd"]),
                limits=Limits.from_dict(stored["limits"]),
                reports=checks.count(reports=stored["reports"]),
            )
            parts = tuple(_restored(each, n, budget) for each in stored["questions"])
            checks.refuse(not parts, "at least one question", questions=[])
            plan = cls(parts, n, budget)
        except InvalidArgumentError:
            raise
        except (AttributeError, IndexError, KeyError, TypeError, ValueError) as error:
            raise InvalidArgumentError("plan", str(error), "a complete saved plan") from error
        plan.check()
        return plan

    def check(self) -> None:
        """It keeps what it says: nothing in a file is believed that can be computed."""
        target = self.budget.epsilon
        missed = self.guarantee.epsilon > target * (1 + _SLACK)
        expected = f"a plan that keeps its epsilon {target:g}"
        checks.refuse(missed, expected, epsilon=self.guarantee.epsilon)


def _of_one_report(stored: Mapping[str, Any]) -> dict[str, Any]:
    """Format 1, of version 0.2, as it is written now: a plan for one report, of data by no name."""
    old, target = stored["question"], {key: stored["question"][key] for key in ("epsilon", "delta")}
    if old.get("categories") is not None:
        question = {"kind": "choice", "labels": old["categories"]}
    elif old.get("bounds") is not None:
        low, high = old["bounds"]
        question = {"kind": "number", "low": float(low), "high": float(high)}
    else:
        norm = {} if old.get("norm") is None else {"norm": old["norm"]}
        question = {"kind": "vector", "coordinates": old["dimension"], **norm}
    most = old.get("messages_cap", 1.0)
    return {
        "n": old["n"],
        **target,
        "crowd": {key: old.get(key, 1.0) for key in ("honest_fraction", "participation")},
        "limits": {
            "local_epsilon": old.get("local_epsilon_cap"),
            "messages": "any" if most is None else most,
        },
        "reports": 1,
        "questions": [
            {
                "question": {"name": _UNNAMED, **question},
                "scheme": {"name": Whole.name},
                "reports": [{key: stored[key] for key in ("reason", "options")} | target],
            }
        ],
    }


def _restored(stored: Mapping[str, Any], n: int, budget: Budget) -> QuestionPlan:
    """A question of a saved plan, with its options."""
    question = KINDS[stored["question"]["kind"]].from_dict(stored["question"])
    (settled,) = settle_all([question], n=n * budget.reports, epsilon=budget.epsilon)
    scheme = restored(stored["scheme"], settled)
    expected = f"{len(scheme.domains)} kinds of reports of {question.name}"
    kinds = stored["reports"]
    checks.refuse(len(kinds) != len(scheme.domains), expected, reports=len(kinds))
    rankings = []
    for ranking, domain in zip(kinds, scheme.domains, strict=True):
        # A report has a part of the budget: what a curator's error would be is computed for that.
        own: dict[str, Any] = {name: float(ranking[name]) for name in ("epsilon", "delta")}
        setting = replace(budget.setting(settled, scheme, domain), **own)
        rankings.append(Ranking.from_dict(ranking, setting))
    return QuestionPlan(settled, scheme, tuple(rankings))


# ---------------------------------------------------------------------------------- making a plan


def allot(questions: Sequence[Settled], budget: Budget) -> tuple[QuestionPlan, ...]:
    """The reports of every question, and what they run, within the budget."""
    if len(questions) == 1:
        (only,) = questions
        flat = _best(only, budget)
        binned = only.edges is not None or getattr(only.question, "tree", None)
        return (_grown(flat, budget) if binned else flat,)
    for each in questions:
        checks.refuse(getattr(each.question, "tree", None), _TREE, tree=True)
    weights = [each.question.weight for each in questions]
    shares = [budget.part(weight, weights) for weight in weights]
    if budget.limits.each:
        return tuple(map(_best, questions, shares))
    from shoal.planning.joint import Part, plan_together

    found = [_scheme(each, share) for each, share in zip(questions, shares, strict=True)]
    parts: list[Part] = []
    for each, scheme, weight in zip(questions, found, weights, strict=True):
        rounds, own = scheme.rounds * budget.reports, weight
        if scheme.rounds > 1:
            own = weight / math.sqrt(scheme.rounds)
        (domain,) = scheme.domains
        parts.append(Part(budget.setting(each, scheme, domain), own, rounds))
    made = plan_together(parts, epsilon=budget.epsilon, delta=budget.delta).rankings
    both = zip(questions, found, made, strict=True)
    return tuple(QuestionPlan(each, scheme, (ranking,)) for each, scheme, ranking in both)


def _scheme(settled: Settled, share: Budget) -> Scheme:
    """The scheme with the least error for about this part of the budget."""
    ways = schemes(settled)
    return ways[0] if len(ways) == 1 else _best(settled, share).scheme


def _best(settled: Settled, budget: Budget) -> QuestionPlan:
    """The question by itself, in the way with the least predicted error."""
    made: list[QuestionPlan] = []
    refused: list[ShoalError] = []
    ways = schemes(settled)
    for scheme in ways:
        (domain,) = scheme.domains
        rounds, setting = scheme.rounds * budget.reports, budget.setting(settled, scheme, domain)
        try:
            if rounds == 1 or (budget.limits.each and scheme.rounds == 1):
                epsilon, delta = budget.epsilon / rounds, budget.delta / rounds
                rankings: tuple[Ranking, ...] = (
                    planner.rank(replace(setting, epsilon=epsilon, delta=delta)),
                )
            else:
                from shoal.planning.joint import Part, plan_together

                target = {"epsilon": budget.epsilon, "delta": budget.delta}
                rankings = plan_together([Part(setting, rounds=rounds)], **target).rankings
        except ShoalError as error:  # another way may do
            refused.append(error)
        else:
            made.append(QuestionPlan(settled, scheme, rankings))
    if not made:
        raise refused[0]
    if len(ways) == 1:
        return made[0]
    by_error = sorted(made, key=lambda plan: plan.errors.l2)
    if ways[0].means:
        return by_error[0]
    listed = ", ".join(f"{each.scheme.name} {amount(each.errors.l2)}" for each in by_error)
    return replace(by_error[0], note=f"L2 errors of the ways to ask: {listed}")


def _grown(flat: QuestionPlan, budget: Budget) -> QuestionPlan:
    """Bins on the levels of a tree, where that is better for what is asked of them, or wanted."""
    question: Any = flat.settled.question
    wanted = getattr(question, "tree", None)
    one = flat.settled.edges is not None and budget.reports == 1
    checks.refuse(wanted and not one, _TREE, tree=wanted)
    if not one or wanted is False or not (wanted or question.quantiles or question.ranges):
        return flat
    from shoal.planning.levels import best_levels

    grown = best_levels(flat.settled, flat.ranking)
    if grown is None:
        return flat
    return QuestionPlan(flat.settled, grown.scheme, grown.rankings, grown.note)


def plan(
    questions: Question | str | Iterable[Question | str],
    *,
    n: int,
    epsilon: float,
    delta: float | None = None,
    crowd: Crowd = EVERYBODY,
    limits: Limits = NO_LIMITS,
    reports: int = 1,
) -> Plan:
    """What each device should run for every question, and how wrong the result will be.

    Args:
        questions: What is asked: a :class:`shoal.Choice`, say, or a list of questions,
            whose reports share ε.
        n: People who report.
        epsilon: ε > 0 of everybody's shuffled reports together.
        delta: δ; min(1e-6, 1/(10 n)) unless given.
        crowd: Who takes part.
        limits: What reports may be. With more than one message it offers protocols
            whose error is near a curator's and which have no local ε₀.
        reports: How often everybody answers all of it.

    Returns:
        A :class:`shoal.Plan` with options, best first, and their predicted errors.

    Raises:
        InvalidArgumentError: A number is out of its range, or a question needs a list.
        UnreachableTargetError: No option keeps (ε, δ) under these limits.

    References:
        Each option keeps the target by the theorem of its page; :doc:`/theory/solving`.

    Example:
        >>> import shoal
        >>> asked = shoal.Choice("color", 100)
        >>> best = shoal.plan(asked, epsilon=1, n=10**6)
        >>> best.recommended.name, round(best.recommended.errors.l2)
        ('grr', 102)
        >>> two = shoal.Limits(messages=2)
        >>> best = shoal.plan(asked, epsilon=1, n=10**6, limits=two)
        >>> best.recommended.name, round(best.recommended.errors.l2)
        ('near-central-lean', 29)
    """
    require(crowd, limits)
    n = checks.count(n=n)
    budget = Budget(
        epsilon=epsilon,
        delta=default_delta(n) if delta is None else delta,
        crowd=crowd,
        limits=limits,
        reports=checks.count(reports=reports),
    )
    rows = n * budget.reports
    padded = budget.reports > 1
    settled = settle_all(listed(questions), n=rows, epsilon=epsilon, padded=padded)
    return Plan(allot(settled, budget), n, budget)


def listed(questions: Question | str | Iterable[Question | str]) -> tuple[Question, ...]:
    """Questions, each with a name of its own; a name alone is a choice among those of the data."""
    given = [questions] if isinstance(questions, Question | str) else questions
    expected = "a question such as Choice('color'), the name of a column, or a list of them"
    checks.refuse(not isinstance(given, Iterable), expected, questions=type(given).__name__)
    made = [Choice(each) if isinstance(each, str) else each for each in given]
    for each in made:
        checks.refuse(not isinstance(each, Question), expected, questions=type(each).__name__)
    checks.refuse(not made, "at least one question", questions="none")
    names = [each.name for each in made]
    twice = next((name for name in names if names.count(name) > 1), None)
    checks.refuse(twice is not None, "every question, or column, once", questions=twice)
    return tuple(made)
