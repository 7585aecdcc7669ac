"""Whole tests, from answers to the verdict: of arrays, and of a column of a table."""

from __future__ import annotations

import csv
import math
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Unpack

import numpy as np
import numpy.typing as npt

from shoal import checks
from shoal.engines import columns as reading
from shoal.engines.columns import Answering, Column, Counting, label_of
from shoal.engines.files import Files
from shoal.engines.shuffling import ORDERLESS, RUN_HERE, shuffle
from shoal.errors import InvalidArgumentError
from shoal.explain.document import Document
from shoal.mechanisms.base import source
from shoal.randomness import Randomness, simulator
from shoal.testing import ranks
from shoal.testing.designing import Design, design, fresh_coins
from shoal.testing.question import RunOptions, Wishes, hypothesis
from shoal.testing.tester import APART, TWICE, Tester
from shoal.testing.verdict import Verdict
from shoal.values import Array, Batch, Counts, category_codes

if TYPE_CHECKING:
    import polars as pl

Progress = Callable[[int, int], None]
Table = object  # whatever shoal.run reads: a frame, an Arrow table, the paths of files

GROUPS_PUBLIC = "who is in which group is treated as public, and so are the sizes of the groups"
ONLY_GIVEN = (
    "uniform here means among the answers that somebody gave: the list has no others "
    "(categories lists all of them)"
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
_SLACK = 1e-6  # of a sum of rounded probabilities
_SEEDS = 1 << 48  # that a seed may be given again as an option


def uniformity(
    values: npt.ArrayLike, *, k: int, epsilon: float, distance: float, **options: Unpack[RunOptions]
) -> Verdict:
    """Test whether answers 0, ..., k − 1 are equally likely, on their shuffled messages.

    Args:
        values: Everybody's answer.
        k: How many answers there are.
        epsilon: ε > 0 of each person.
        distance: Total variation in (0, 1) that is to be noticed.
        **options: Those of :func:`shoal.testing.design` (delta, level, coin,
            messages_cap, randomizer, partitions, symbols, honest_fraction); simulations
            of the null distribution (1,999, or some 100/level where that is more), seed
            of these alone, and randomness of the messages and public coins (secure
            unless given).

    Returns:
        A :class:`shoal.testing.Verdict`.

    Raises:
        InvalidArgumentError: A number is out of its range, or an answer is not below k.
        UnreachableTargetError: No way to run the test notices the distance.

    References:
        :doc:`/theory/testing`.

    Example:
        >>> import numpy as np
        >>> from shoal import testing
        >>> answers = np.arange(5_000) % 10
        >>> testing.uniformity(answers, k=20, epsilon=1.0, distance=0.4).rejected
        True
    """
    return _tested({"values": values}, hypothesis(k, None), epsilon, distance, **options)


def identity(
    values: npt.ArrayLike,
    *,
    reference: npt.ArrayLike,
    epsilon: float,
    distance: float,
    **options: Unpack[RunOptions],
) -> Verdict:
    """Test whether answers 0, ..., k − 1 have the probabilities of the reference.

    Args:
        values: Everybody's answer.
        reference: A probability for each answer; they sum to 1.
        epsilon: ε > 0 of each person.
        distance: Total variation in (0, 1) that is to be noticed.
        **options: Those of :func:`shoal.testing.uniformity`.

    Returns:
        A :class:`shoal.testing.Verdict`.

    Raises:
        InvalidArgumentError: A number is out of its range, or an answer has no
            probability.
        UnreachableTargetError: No way to run the test notices the distance.

    References:
        :doc:`/theory/testing`.

    Example:
        >>> from shoal import testing
        >>> answers = [0] * 4_000 + [1] * 1_000
        >>> fair = [0.5, 0.5]
        >>> testing.identity(answers, reference=fair, epsilon=1, distance=0.2).rejected
        True
    """
    return _tested({"values": values}, hypothesis(None, reference), epsilon, distance, **options)


def closeness(
    first: npt.ArrayLike,
    second: npt.ArrayLike,
    *,
    k: int,
    epsilon: float,
    distance: float,
    overlapping: bool = False,
    **options: Unpack[RunOptions],
) -> Verdict:
    """Test whether two groups of people answer alike, each shuffled by itself.

    The noise is made for the smaller group, and so is the guarantee. Nobody may be in
    both, unless they are overlapping.

    Args:
        first: The answers of one group.
        second: The answers of the other.
        k: How many answers there are.
        epsilon: ε > 0 of each person.
        distance: Total variation in (0, 1) that is to be noticed.
        overlapping: Whether people may be in both groups: epsilon is then what two
            reports of one person, one in each batch, cost together.
        **options: Those of :func:`shoal.testing.uniformity`.

    Returns:
        A :class:`shoal.testing.Verdict`.

    Raises:
        InvalidArgumentError: A number is out of its range, or an answer is not below k.
        UnreachableTargetError: No way to run the test notices the distance.

    References:
        :doc:`/theory/testing`.

    Example:
        >>> from shoal import testing
        >>> men, women = [0] * 4_000 + [1] * 1_000, [0, 1] * 2_500
        >>> testing.closeness(men, women, k=2, epsilon=1.0, distance=0.2).rejected
        True
    """
    groups, alike = {"first": first, "second": second}, hypothesis(k, None)
    return _tested(groups, alike, epsilon, distance, overlapping=overlapping, **options)


def _tested(
    groups: dict[str, npt.ArrayLike],
    reference: Array,
    epsilon: float,
    distance: float,
    *,
    simulations: int | None = None,
    seed: int | None = None,
    randomness: Randomness | None = None,
    **options: Any,  # noqa: ANN401 - of the design
) -> Verdict:
    """The verdict on one or two groups; the public coins are drawn before anything else."""
    codes = []
    for name, values in groups.items():
        shape = np.shape(values)
        shown = f"shape {shape}" if shape else type(values).__name__
        expected = "a one-dimensional list of at least two answers (of a table, one column)"
        checks.refuse(len(shape) != 1 or shape[0] < 2, expected, **{name: shown})
        codes.append(category_codes(values, reference.size))
    plan = design(
        n=min(each.size for each in codes),
        epsilon=epsilon,
        distance=distance,
        reference=reference,
        coins=fresh_coins(randomness),
        closeness=len(codes) > 1,
        **options,
    )
    tester = plan.tester()
    reports = (tester.randomize(each, randomness=randomness) for each in codes)
    batches = [shuffle(each, randomness=randomness) for each in reports]
    return _decided(tester, batches, simulations=simulations, seed=seed)


def _decided(
    tester: Tester, groups: Sequence[Batch] | Sequence[Counts], **options: int | None
) -> Verdict:
    decide: Callable[..., Verdict] = tester.compare if len(groups) > 1 else tester.decide
    return decide(*groups, **options)


# ------------------------------------------------------------------------------ a column of a table


@dataclass(frozen=True)
class AnswerList:
    """The public list of answers, and how probable each should be (None: equally)."""

    labels: tuple[str, ...]
    probabilities: tuple[float, ...] | None = None
    notes: tuple[str, ...] = ()


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
    *,
    column: str,
    epsilon: float,
    distance: float,
    categories: Iterable[object] | None = None,
    reference: Mapping[str, float] | str | os.PathLike[str] | None = None,
    second: Table | None = None,
    by: str | None = None,
    overlapping: bool = False,
    public_list: bool = False,
    drop_nulls: bool = False,
    simulations: int | None = None,
    seed: int | None = None,
    progress: Progress | None = None,
    **wishes: Unpack[Wishes],
) -> TableTest:
    """Test a column of answers, randomized here on behalf of the devices.

    Whether the answers are uniform, as probable as a reference says, or alike in two
    groups of people: those of a second table, or those that another column tells apart.

    Args:
        data: A table or file, as for :func:`shoal.run`; one person per row.
        column: The column of answers.
        epsilon: ε > 0 of each person.
        distance: Total variation in (0, 1) that is to be noticed.
        categories: The public list of answers; that of the data unless given.
        reference: Answers and their probabilities, or a file of them
            (:func:`shoal.testing.read_reference`).
        second: A table of the other group.
        by: The column that tells two groups apart.
        overlapping: Whether people may be in both groups.
        public_list: Allow a list from the data of more than 200 answers, or of numbers
            that are not whole.
        drop_nulls: Leave out rows without an answer.
        simulations: Of the null distribution; 1,999, or some 100/level where that is
            more.
        seed: That of the simulations alone.
        progress: Called with the number of reports made and the number of all.
        **wishes: delta, level, coin, messages_cap, randomizer, partitions, symbols and
            honest_fraction, as for :func:`shoal.testing.design`.

    Returns:
        A :class:`shoal.testing.TableTest`, which prints its verdict.

    Raises:
        InvalidArgumentError: A column or group that is not there, a number out of its
            range.
        UnreachableTargetError: No way to run the test notices the distance.

    References:
        :doc:`/theory/testing`.

    Example:
        >>> import polars as pl
        >>> from shoal import testing
        >>> people = pl.DataFrame({"color": ["red", "green", "blue", "red"] * 5_000})
        >>> print(testing.run(people, column="color", epsilon=1.0, distance=0.1))
        The answers are not uniform: p ≤ 0.0005 (1,999 simulations), at level 0.05.
    """
    checks.positive(epsilon=epsilon)
    checks.open_probability(distance=distance)
    if seed is not None:
        checks.count(0, seed=seed)
    simulations = ranks.number(wishes.get("level", 0.05), simulations)
    data, second = (Files.of(each) or each for each in (data, second))
    _check_groups(data, column, reference=reference, second=second, by=by)
    closeness = second is not None or by is not None
    columns = [
        reading.table(table, [column, *([] if by is None else [by])]).column(column, by)
        for table in (data, second)
        if table is not None
    ]
    answers = _answers(columns, categories, reference, closeness=closeness, public_list=public_list)
    names = [
        each.name if isinstance(each, Files) else name
        for each, name in ((data, "data"), (second, "second"))
        if each is not None
    ]
    for each in columns:
        _require_listed(each, answers.labels)
    if by is not None:
        groups = _groups(columns[0], by)
        columns = [columns[0].group(label) for label in groups]
        names = [f"{by} = {label}" for label in groups]
    sizes = [
        _people(each, f"column {column} of {name}", drop_nulls=drop_nulls)
        for each, name in zip(columns, names, strict=True)
    ]
    public = [reading.PUBLIC_LIST] * (reading.PUBLIC_LIST in answers.notes)
    public += [GROUPS_PUBLIC] * closeness + [reading.PUBLIC_NULLS] * drop_nulls
    plan = design(
        n=min(sizes),
        epsilon=epsilon,
        distance=distance,
        k=None if answers.probabilities else len(answers.labels),
        reference=answers.probabilities,
        closeness=closeness,
        overlapping=overlapping,
        **wishes,
    )
    tester = plan.tester()
    counts = _collected(tester, columns, sizes, answers.labels, progress)
    seed = int(simulator().integers(_SEEDS)) if seed is None else seed
    verdict = _decided(tester, counts, simulations=simulations, seed=seed)
    people = _TABLES if by is None else _ROWS
    assumptions = (people.get(text, text) for text in verdict.guarantee.assumptions)
    guarantee = replace(verdict.guarantee, assumptions=(*assumptions, *public))
    notes = (*answers.notes, *(text for text in public if text not in answers.notes))
    return TableTest(
        column=column,
        answers=answers,
        names=tuple(names),
        design=plan,
        verdict=replace(verdict, guarantee=guarantee),
        notes=(*notes, *[CORRELATED] * overlapping, INDEPENDENT, RUN_HERE, ORDERLESS),
        seed=seed,
    )


def _check_groups(
    data: Table, column: str, *, reference: object, second: Table | None, by: str | None
) -> None:
    """One thing to compare the answers with, and it is another one."""
    others = {"reference": reference, "second": second, "by": by}
    several = [name for name, value in others.items() if value is not None]
    if len(several) > 1:
        expected = f"one thing to compare the answers with, not {' and '.join(several)}"
        raise InvalidArgumentError(several[-1], others[several[-1]], expected)
    checks.refuse(by == column, "another column than the column that is tested", by=by)
    if isinstance(data, Files) and isinstance(second, Files):
        one, two = (  # maybe under another name
            {(stat.st_dev, stat.st_ino) for stat in map(Path.stat, each.paths)}
            for each in (data, second)
        )
        expected = "another file than the first: everybody would be in both groups"
        checks.refuse(one & two, expected, second=second.name)


# ------------------------------------------------------------------------------------ the answers


def read_reference(path: str | os.PathLike[str]) -> AnswerList:
    r"""The distribution in a CSV file of answers and probabilities below a heading.

    Whole numbers that do not add up to 1 are counts: they are divided by their sum.

    Args:
        path: The file.

    Returns:
        ``labels``, ``probabilities`` and ``notes``.

    Raises:
        InvalidArgumentError: The file cannot be read, or a line is no answer and
            number.

    Example:
        >>> import pathlib, tempfile
        >>> with tempfile.TemporaryDirectory() as place:
        ...     path = pathlib.Path(place, "reference.csv")
        ...     _ = path.write_text("answer,count\nred,3\nblue,1\n")
        ...     read_reference(path).probabilities
        (0.75, 0.25)
    """
    name = os.fspath(path)

    def need(holds: object, expected: str) -> None:
        checks.refuse(not holds, expected, reference=name)

    try:
        with Path(path).open(encoding="utf-8-sig", newline="") as file:
            reader = csv.reader(file, strict=True)
            rows = [(reader.line_num, row) for row in reader if row]
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        expected = f"a file that can be read ({getattr(error, 'strerror', None) or error})"
        raise InvalidArgumentError("reference", name, expected) from error
    for line, row in rows:
        cells = f"on line {line}, not {len(row)} cells"
        need(len(row) == 2, f"an answer and its probability or count {cells}")
    need(len(rows) > 1, "a heading, and answers with their probabilities below it")
    first = f"a heading (answer,probability) on the first line: {','.join(rows[0][1])}"
    need(_number(rows[0][1][1]) is None, first)
    lines: dict[str, int] = {}
    weights = []
    for line, (label, text) in rows[1:]:
        need(label, f"an answer on line {line}")
        once = f"({label!r} is on lines {lines.get(label)} and {line})"
        need(label not in lines, f"every answer once {once}")
        lines[label] = line
        number = _number(text)
        weights.append(math.nan if number is None else number)
        usable = f"a probability or a count, 0 or more, on line {line}: {text!r}"
        need(0 <= weights[-1] < math.inf, usable)
    labels, total = tuple(lines), math.fsum(weights)
    _require_list("reference", path, labels)
    near = abs(total - 1) <= _SLACK
    counts = total > 0 and all(weight.is_integer() for weight in weights)
    sums = f"(they add up to {total:.6g})"
    need(near or counts, f"probabilities that add up to 1, or counts {sums}")
    note = f"{path} has counts: they were divided by their sum, {total:,.0f}"
    probabilities = tuple(weight / total for weight in weights)
    return AnswerList(labels, probabilities, () if near else (note,))


def _number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None


def _require_list(argument: str, value: object, labels: Sequence[str]) -> None:
    """A list of two answers or more, each of them once."""
    expected = f"from 2 to {reading.MOST_ANSWERS:,} answers, not {len(labels):,}"
    checks.refuse(not 2 <= len(labels) <= reading.MOST_ANSWERS, expected, **{argument: str(value)})
    if len(set(labels)) < len(labels):
        twice = next(label for label in labels if labels.count(label) > 1)
        raise InvalidArgumentError(argument, str(value), f"every answer once, not {twice!r} twice")


def _answers(
    columns: Sequence[Column],
    categories: Iterable[object] | None,
    reference: Mapping[str, float] | str | os.PathLike[str] | None,
    *,
    closeness: bool,
    public_list: bool,
) -> AnswerList:
    """The public list of answers: the one named, or that of the data."""
    if isinstance(reference, Mapping):
        labels = tuple(map(label_of, reference))
        _require_list("reference", ",".join(labels), labels)
        return AnswerList(labels, tuple(reference.values()))
    if reference is not None:
        return read_reference(reference)
    if categories is not None:
        labels = tuple(map(label_of, categories))
        _require_list("categories", ",".join(labels), labels)
        return AnswerList(labels)
    # One list for both tables: what one of them lacks, the other may have.
    given = sum((column.answers() for column in columns[1:]), columns[0].answers())
    given.require_few(columns[0].name)
    labels = reading.Choices.of(
        columns[0],
        answers=given,
        drop_nulls=True,
        public_list=public_list,
        instead=reading.GIVE_LIST,
    ).labels
    return AnswerList(labels, notes=(reading.PUBLIC_LIST, *(() if closeness else (ONLY_GIVEN,))))


# ------------------------------------------------------------------------------------- the people


@dataclass(frozen=True, eq=False, kw_only=True)
class Listed(Answering):
    """Answers by their number in a list that has all of them; rows without one are left out."""

    def code(self, name: str, kind: pl.DataType) -> pl.Expr:
        """The number of an answer."""
        return reading.position(name, kind, self.labels, none=None, other=reading.UNKNOWN)


def _require_listed(column: Column, labels: tuple[str, ...]) -> None:
    known = set(labels)
    unknown = [label for label in column.answers().distinct if label not in known]
    if unknown:
        more = f" (and {len(unknown) - 1:,} more)" if len(unknown) > 1 else ""
        expected = f"every answer in the list of {len(labels):,}, which has no {unknown[0]!r}{more}"
        raise InvalidArgumentError("column", column.name, expected)


def _groups(column: Column, by: str) -> tuple[str, ...]:
    """The two groups of rows."""
    groups = column.groups(by)
    expected = f"a group in every row ({groups.nulls:,} rows have none)"
    checks.refuse(groups.nulls, expected, by=by)
    expected = f"two groups, not {len(groups.distinct):,} different values"
    checks.refuse(len(groups.distinct) != 2, expected, by=by)
    return groups.distinct


def _people(column: Column, where: str, *, drop_nulls: bool) -> int:
    """How many have an answer; nobody may be without one unless such rows are left out."""
    rows, missing = column.size()
    lacking = f"the {missing:,} of {rows:,} rows that have none in {where}"
    expected = f"an answer in every row (drop_nulls=True leaves out {lacking})"
    checks.refuse(not drop_nulls and missing, expected, drop_nulls=drop_nulls)
    expected = f"at least one row with an answer in {where}"
    checks.refuse(missing == rows, expected, rows=0)
    return rows - missing


def _collected(
    tester: Tester,
    columns: Sequence[Column],
    sizes: Sequence[int],
    labels: tuple[str, ...],
    progress: Progress | None,
) -> list[Counts]:
    """What the analyzer gets of each group: randomized, and counted a piece at a time."""
    counts: list[Counts] = []
    for column, size in zip(columns, sizes, strict=True):
        counting = Counting(Listed(source=column, labels=labels), tester.device)
        done, people = sum(each.n for each in counts), sum(sizes)
        part = counting.total(size, source(None), progress=progress, done=done, people=people)
        counts.append(part.counts)
    return counts
