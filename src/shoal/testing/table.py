"""Whole tests of a column of a table, from the rows to the verdict."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from shoal import checks
from shoal.engines import tables as reading
from shoal.engines.counting import Counting, Report
from shoal.engines.engine import Engine
from shoal.engines.files import Files
from shoal.engines.shuffling import ORDERLESS, RUN_HERE
from shoal.errors import InvalidArgumentError
from shoal.explain.document import Document
from shoal.questions.kinds import Choice, Groups, label_of
from shoal.questions.settled import GIVE_LIST, PUBLIC_LIST, PUBLIC_NULLS, Lookup
from shoal.questions.terms import EVERYBODY, NO_LIMITS, Crowd, Limits
from shoal.randomness import simulator, source
from shoal.testing.answers import AnswerList, read_reference, require_list
from shoal.testing.arrays import verdict_on
from shoal.testing.designing import Design, designed, with_coins
from shoal.testing.hypothesis import LEVEL, Hypothesis
from shoal.testing.ranks import ENOUGH, Simulations
from shoal.testing.setting import ANY_WAY, DELTA, Setting, Way
from shoal.testing.tester import APART, TWICE, Tester
from shoal.testing.verdict import Verdict
from shoal.values import Counts

Progress = Callable[[int, int], None]
Table = object  # whatever shoal.run reads: a frame, an Arrow table, the paths of files
Reference = Mapping[str, float] | str | os.PathLike[str]

GROUPS_PUBLIC = "who is in which group is treated as public, and so are the sizes of the groups"
ONLY_GIVEN = (
    "uniform here means among the answers that somebody gave: the list has no others "
    "(labels / --categories lists all of them)"
)
CORRELATED = (
    "the p-value treats the two answers of one person as independent; if they tend to "
    "agree, false alarms are rarer than the level says"
)
INDEPENDENT = (
    "p-value and power treat people's answers as independent draws; the guarantee does not"
)
# What is assumed of the people in two groups, where these are rows or tables.
_ROWS = {
    APART: "each row is one person, so that nobody is in both groups",
    TWICE: "nobody has more than one row in each group",
}
_TABLES = {
    APART: "nobody is in both tables: each person makes one report",
    TWICE: "each row of a table is one person: nobody is in one table twice",
}
_SEEDS = 1 << 48  # that a seed may be given again as an option


@dataclass(frozen=True, eq=False)
class TableTest:
    """The verdict on a column, as :func:`shoal.testing.run` returns it.

    Attributes:
        column: The name.
        answers: The answers and, if they are tested for, their probabilities.
        names: Those of the groups of people: one, or two that are compared.
        design: The ways to run the test, of which the first was taken.
        verdict: Whether the hypothesis is rejected.
        notes: What was done, in words.
        seed: That of the simulated null distribution.
    """

    column: str
    answers: AnswerList
    names: tuple[str, ...]
    design: Design
    verdict: Verdict
    notes: tuple[str, ...]
    seed: int

    @property
    def warnings(self) -> tuple[str, ...]:
        """What to know before relying on the guarantee."""
        return self.verdict.warnings

    def to_dict(self) -> dict[str, object]:
        """Plain values."""
        groups = zip(self.names, self.verdict.sizes, strict=True)
        return self.verdict.to_dict() | {
            "column": self.column,
            "answers": len(self.answers.labels),
            "groups": [{"name": name, "n": size} for name, size in groups],
            "seed": self.seed,
            "design": self.design.to_dict(),
            "notes": list(self.notes),
        }

    def document(self) -> Document:
        """The verdict, who answered, and why they ran what they ran."""
        verdict = self.verdict.document()
        groups = zip(self.verdict.sizes, self.names, strict=True)
        people = f"{self.verdict.n:,}"
        if len(self.names) > 1:
            people = " and ".join(f"{size:,} ({name})" for size, name in groups)
        people += f"; one of {len(self.answers.labels):,} answers"
        facts = dict(verdict.facts) | {"people": people, "why": self.design.reason}
        return replace(verdict, facts=tuple(facts.items()), notes=self.notes)

    def __str__(self) -> str:
        return self.verdict.words

    def _repr_html_(self) -> str:
        return self.document().to_html() + self.verdict.guarantee.document().to_html()


def run(
    data: Table,
    question: Choice | str,
    *,
    epsilon: float,
    distance: float,
    reference: Reference | None = None,
    delta: float = DELTA,
    level: float = LEVEL,
    crowd: Crowd = EVERYBODY,
    limits: Limits = NO_LIMITS,
    way: Way = ANY_WAY,
    simulations: Simulations = ENOUGH,
    progress: Progress | None = None,
) -> TableTest:
    """Test whether a column's answers are uniform, or as probable as a reference says.

    The answers are randomized here on behalf of the devices.

    Args:
        data: A table or file, as for :func:`shoal.run`; one person per row.
        question: The column of answers: a :class:`shoal.Choice`, or its name alone.
            Everybody's answer has to be in the list, if it has one, and nobody may be
            without an answer: no hypothesis has a probability for "(none)". Rows
            without one are left out by missing="drop", which is public then.
        epsilon: ε > 0 of each person.
        distance: Total variation in (0, 1) that is to be noticed.
        reference: Answers and their probabilities, or a file of them
            (:func:`shoal.testing.read_reference`); all are equally likely unless given.
        delta: δ in (0, 1).
        level: Probability to reject a hypothesis that is true.
        crowd: Who follows the protocol.
        limits: Messages that one person may send, as for :func:`shoal.testing.design`.
        way: How devices report, where that is not to be chosen.
        simulations: How the null distribution is simulated.
        progress: Called with the number of reports made and the number of all.

    Returns:
        A :class:`shoal.testing.TableTest`, which prints its verdict.

    Raises:
        InvalidArgumentError: A column that is not there, a number out of its range.
        UnreachableTargetError: No way to run the test notices the distance.

    References:
        :doc:`/theory/testing`.

    Example:
        >>> import polars as pl
        >>> from shoal import testing
        >>> people = pl.DataFrame({"color": ["red", "green", "blue", "red"] * 5_000})
        >>> print(testing.run(people, "color", epsilon=1.0, distance=0.1))
        The answers are not uniform: p ≤ 0.0005 (1,999 simulations), at level 0.05.
    """
    asked = _choice(question)
    expected = "no groups: compare tests whether two of them answer alike"
    checks.refuse(asked.groups is not None, expected, by=asked.columns[-1])
    _check(epsilon, distance, level, simulations)
    table = Files.of(data) or data
    rows = reading.table(table, [asked.name])
    answers = _answers([rows], asked, reference)
    if answers.taken:
        answers = replace(answers, notes=(ONLY_GIVEN,))
    _require_listed(rows, asked.name, answers.labels)
    return _tested(
        People(asked, answers, (rows,), (_name(table, "data"),)),
        Hypothesis(**answers.terms, distance=distance, level=level),
        simulations,
        progress,
        epsilon=epsilon,
        delta=delta,
        crowd=crowd,
        limits=limits,
        way=way,
    )


def compare(
    data: Table,
    question: Choice | str,
    second: Table | None = None,
    *,
    epsilon: float,
    distance: float,
    overlapping: bool = False,
    delta: float = DELTA,
    level: float = LEVEL,
    crowd: Crowd = EVERYBODY,
    way: Way = ANY_WAY,
    simulations: Simulations = ENOUGH,
    progress: Progress | None = None,
) -> TableTest:
    """Test whether two groups of people answer alike: those of two tables, or of a column.

    The answers are randomized here on behalf of the devices, each of which sends one
    message. Nobody may be in both groups, unless they are overlapping.

    Args:
        data: A table or file, as for :func:`shoal.run`; one person per row.
        question: The column of answers, as for :func:`shoal.testing.run`; with the
            column that tells two groups apart, ``Choice("color").by("town")``, unless
            there is a second table.
        second: A table of the other group.
        epsilon: ε > 0 of each person.
        distance: Total variation in (0, 1) that is to be noticed.
        overlapping: Whether people may be in both groups: epsilon is then what two
            reports of one person, one in each group, cost together.
        delta: δ in (0, 1).
        level: Probability to reject a hypothesis that is true.
        crowd: Who follows the protocol.
        way: How devices report, where that is not to be chosen.
        simulations: How the null distribution is simulated.
        progress: Called with the number of reports made and the number of all.

    Returns:
        A :class:`shoal.testing.TableTest`, which prints its verdict.

    Raises:
        InvalidArgumentError: A column or group that is not there, a number out of its
            range.
        UnreachableTargetError: No way to run the test notices the distance.

    References:
        :doc:`/theory/testing`.

    Example:
        >>> import shoal
        >>> from shoal import testing
        >>> rows = {"color": ["red", "blue"] * 2_000, "town": ["A", "B"] * 2_000}
        >>> colors = shoal.Choice("color").by("town")
        >>> testing.compare(rows, colors, epsilon=1.0, distance=0.2).verdict.rejected
        True
    """
    asked = _choice(question)
    _check(epsilon, distance, level, simulations)
    if asked.groups is None:
        people = _two_tables(data, second, asked)
    else:
        expected = "either a second table or groups, not both"
        checks.refuse(second is not None, expected, by=asked.groups.column)
        people = _two_groups(data, asked, asked.groups)
    alike = {"closeness": True, "overlapping": overlapping}
    return _tested(
        people,
        Hypothesis(**people.answers.terms, distance=distance, level=level, **alike),
        simulations,
        progress,
        epsilon=epsilon,
        delta=delta,
        crowd=crowd,
        way=way,
    )


def _check(epsilon: float, distance: float, level: float, simulations: Simulations) -> None:
    """What no table could mend, before one is read."""
    checks.positive(epsilon=epsilon)
    checks.open_probability(distance=distance)
    _ = simulations.of(level)


def _choice(question: Choice | str) -> Choice:
    """The question, if it is one that a hypothesis may be about."""
    asked = Choice(question) if isinstance(question, str) else question
    kind = getattr(asked, "kind", type(asked).__name__)
    checks.refuse(kind != Choice.kind, "a Choice, or the name of a column", question=kind)
    counted = isinstance(asked.labels, int)
    checks.refuse(counted, "a list of answers (a number is for plans)", labels=asked.labels)
    expected = "no other: a hypothesis has no probability for answers that are not in the list"
    checks.refuse(asked.other, expected, other=asked.other)
    expected = "no choice of a mechanism (Way(randomizer=...) has it)"
    checks.refuse(asked.choose is not None, expected, choose=asked.choose)
    return asked


def _tested(
    people: People,
    hypothesis: Hypothesis,
    simulations: Simulations,
    progress: Progress | None,
    *,
    way: Way,
    **terms: Any,  # noqa: ANN401 - of the setting
) -> TableTest:
    """Everybody's answers randomized, counted, and judged."""
    n, drawn = min(people.sizes), with_coins(way)
    plan = designed(Setting(hypothesis=hypothesis, n=n, way=drawn, **terms))
    tester = plan.tester()
    counts = _collected(tester, people, progress)
    seed = simulations.seed
    seed = int(simulator().integers(_SEEDS)) if seed is None else seed
    verdict = verdict_on(tester, counts, replace(simulations, seed=seed))
    stated, public = verdict.guarantee, people.public
    assumptions = (people.assumed.get(text, text) for text in stated.assumptions)
    guarantee = replace(stated, assumptions=(*assumptions, *public))
    correlated = [CORRELATED] * hypothesis.overlapping
    return TableTest(
        column=people.question.name,
        answers=people.answers,
        names=people.names,
        design=plan,
        verdict=replace(verdict, guarantee=guarantee),
        notes=(*public, *people.answers.notes, *correlated, INDEPENDENT, RUN_HERE, ORDERLESS),
        seed=seed,
    )


def _collected(tester: Tester, people: People, progress: Progress | None) -> list[Counts]:
    """What the analyzer gets of each group: randomized, and counted a piece at a time."""
    counts: list[Counts] = []
    coding = Lookup(people.question.name, people.answers.labels)
    counting = Counting(coding, (Report(tester.device),))
    for rows, size in zip(people.tables, people.sizes, strict=True):
        done, every = sum(each.n for each in counts), sum(people.sizes)
        part = counting.total(rows, size, source(None), progress=progress, done=done, people=every)
        counts += part.counts
    return counts


# ------------------------------------------------------------------------------------- the people


@dataclass(frozen=True, eq=False)
class People:
    """Who answers what: one group, or two that are compared, each with rows of its own."""

    question: Choice
    answers: AnswerList
    tables: tuple[Engine, ...]
    names: tuple[str, ...]

    @cached_property
    def sizes(self) -> tuple[int, ...]:
        """How many answer in each group: nobody is without an answer who is not left out."""
        return tuple(map(self._size, self.tables, self.names))

    def _size(self, table: Engine, group: str) -> int:
        name = self.question.name
        rows, missing = table.size(Lookup(name, self.answers.labels))
        lacking = f"the {missing:,} of {rows:,} rows of {group} without one"
        expected = f"an answer in every row (missing='drop' / --drop-nulls leaves out {lacking})"
        checks.refuse(missing and not self._dropped, expected, column=name)
        expected = f"at least one row of {group} with an answer"
        checks.refuse(missing == rows, expected, column=name)
        return rows - missing

    @property
    def _dropped(self) -> bool:
        return self.question.missing == "drop"

    @property
    def public(self) -> list[str]:
        """What is treated as public."""
        listed = [PUBLIC_LIST] * self.answers.taken
        groups = [GROUPS_PUBLIC] * (len(self.tables) > 1)
        return [*listed, *groups, *[PUBLIC_NULLS] * self._dropped]

    @property
    def assumed(self) -> dict[str, str]:
        """What is assumed of them, in the words for rows or tables."""
        return _TABLES if self.question.groups is None else _ROWS


def _name(table: Table, name: str) -> str:
    return table.name if isinstance(table, Files) else name


def _two_tables(data: Table, second: Table | None, asked: Choice) -> People:
    """The people of one table and those of another."""
    expected = "a second table, or groups: Choice(...).by(column)"
    checks.refuse(second is None, expected, second=second)
    given = [Files.of(each) or each for each in (data, second)]
    _require_apart(*given)
    tables = [reading.table(each, [asked.name]) for each in given]
    answers = _answers(tables, asked)
    for each in tables:
        _require_listed(each, asked.name, answers.labels)
    names = map(_name, given, ("data", "second"))
    return People(asked, answers, tuple(tables), tuple(names))


def _require_apart(data: Table, second: Table) -> None:
    """Not the same files, maybe under another name."""
    if isinstance(data, Files) and isinstance(second, Files):
        one, two = (
            {(stat.st_dev, stat.st_ino) for stat in map(Path.stat, each.paths)}
            for each in (data, second)
        )
        expected = "another file than the first: everybody would be in both groups"
        checks.refuse(one & two, expected, second=second.name)


def _two_groups(data: Table, asked: Choice, told: Groups) -> People:
    """The people of one table, in two groups."""
    by = told.column
    table = reading.table(Files.of(data) or data, [asked.name, by])
    answers = _answers([table], asked)
    _require_listed(table, asked.name, answers.labels)
    groups = _groups(table, by, told.labels)
    names = (f"{by} = {label}" for label in groups)
    return People(asked, answers, tuple(table.where(by, each) for each in groups), tuple(names))


def _groups(table: Engine, by: str, listed: object) -> tuple[str, ...]:
    """The two groups of rows, in the order of their list if there is one."""
    groups = table.answers(by)
    expected = f"a group in every row ({groups.nulls:,} rows have none)"
    checks.refuse(groups.nulls, expected, by=by)
    there = groups.distinct
    checks.refuse(len(there) != 2, f"two groups, not {len(there):,} different values", by=by)
    if listed is None:
        return there
    known = listed if isinstance(listed, tuple) else ()
    expected = f"no list, or that of the groups in the column: {', '.join(there)}"
    checks.refuse(sorted(known) != sorted(there), expected, groups=", ".join(known) or listed)
    return known


# ------------------------------------------------------------------------------------ the answers


def _answers(
    tables: Sequence[Engine], asked: Choice, reference: Reference | None = None
) -> AnswerList:
    """The public list of answers: that of the reference, of the question, or of the data."""
    if reference is not None:
        return _referred(reference, asked)
    if asked.known is not None:
        require_list("labels", ",".join(asked.known), asked.known)
        return AnswerList(asked.known)
    # One list for both tables: what one of them lacks, the other may have.
    name = asked.name
    given = sum((table.answers(name) for table in tables[1:]), tables[0].answers(name))
    given.require_few(name)
    labels = given.distinct
    given.require_public(name, "column", GIVE_LIST, insisted=asked.public)
    checks.refuse(len(labels) < 2, "at least two different answers", column=name)
    return AnswerList(labels, taken=True)


def _referred(reference: Reference, asked: Choice) -> AnswerList:
    """The answers of a reference, which are those of the question if it has a list."""
    if isinstance(reference, Mapping):
        labels = tuple(map(label_of, reference))
        require_list("reference", ",".join(labels), labels)
        answers = AnswerList(labels, tuple(reference.values()))
    else:
        answers = read_reference(reference)
    known = asked.known
    apart = known is not None and set(known) != set(answers.labels)
    checks.refuse(apart, "the answers of the reference, or no list", labels=known)
    return answers


def _require_listed(table: Engine, name: str, labels: tuple[str, ...]) -> None:
    known = set(labels)
    unknown = [label for label in table.answers(name).distinct if label not in known]
    if unknown:
        more = f" (and {len(unknown) - 1:,} more)" if len(unknown) > 1 else ""
        expected = f"every answer in the list of {len(labels):,}, which has no {unknown[0]!r}{more}"
        raise InvalidArgumentError("column", name, expected)
