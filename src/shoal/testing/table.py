"""A test of a column of a table: which answers there are, whose they are, and the verdict."""

from __future__ import annotations

import csv
import math
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Unpack, cast

import numpy as np

from shoal import checks
from shoal.engines import columns as reading
from shoal.engines.columns import (
    MOST_ANSWERS,
    PUBLIC_LIST,
    PUBLIC_NULLS,
    Choices,
    Codes,
    Column,
    label_of,
)
from shoal.engines.shuffling import ORDERLESS, RUN_HERE
from shoal.errors import InvalidArgumentError
from shoal.explain.document import Document
from shoal.randomness import simulator
from shoal.testing import ranks
from shoal.testing.designing import Design, design
from shoal.testing.overlap import TWICE
from shoal.testing.question import Wishes
from shoal.testing.tester import APART, Tester
from shoal.testing.verdict import Verdict
from shoal.values import Counts

Progress = Callable[[int, int], None]
Table = object  # whatever shoal.run reads: a frame, an Arrow table, the path of a file

GROUPS_PUBLIC = "who is in which group is treated as public, and so are the sizes of the groups"
ONLY_GIVEN = (
    "uniform here means among the answers that somebody gave: an answer of nobody is not in the "
    "list (categories lists all of them)"
)
CORRELATED = (
    "the p-value takes the two answers of one person as independent; where they tend to be the "
    "same, false alarms are rarer than the level says"
)
INDEPENDENT = "p-value and power take people's answers as independent draws; the guarantee does not"
# What is assumed of the people in two groups, where these are rows or tables.
_ROWS = {
    APART: "each row is one person, so that nobody is in both groups",
    TWICE: "nobody has more than one row in each group",
}
_TABLES = {
    APART: "nobody is in both tables: each person makes one report",
    TWICE: "each row of a table is one person: nobody is in one table twice",
}
_UNLISTED, _NULL = -1, -2  # codes
_SLACK = 1e-6  # of a sum of rounded probabilities
_PEOPLE = 1 << 16  # randomized at once
_MESSAGES = 1 << 20
_SEEDS = 1 << 48  # that a seed may be given again as an option


@dataclass(frozen=True)
class AnswerList:
    """The public list of answers, and how probable each should be (None: equally)."""

    labels: tuple[str, ...]
    probabilities: tuple[float, ...] | None = None
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, eq=False)
class TableTest:
    """The verdict on a column, the design it was found with, and what to know of both.

    ``names`` are those of the groups of people: one, or two that are compared.
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
    drop_nulls: bool = False,
    simulations: int | None = None,
    seed: int | None = None,
    progress: Progress | None = None,
    **wishes: Unpack[Wishes],
) -> TableTest:
    """Test a column of answers: randomized, counted and decided here, on behalf of the devices.

    Whether the answers are uniform among ``categories`` (or among the answers that the column has),
    as probable as a ``reference`` says (a mapping, or a file as :func:`read_reference` reads), or
    alike in two groups of people: those of a ``second`` table, or those that another column tells
    apart (``by``). ``wishes`` are those of :func:`~shoal.testing.design`.

    >>> import polars as pl
    >>> people = pl.DataFrame({"color": ["red", "green", "blue", "red"] * 5_000})
    >>> print(run(people, column="color", epsilon=1.0, distance=0.1))
    The answers are not uniform: p ≤ 0.0005 (1,999 simulations), at level 0.05.
    """
    checks.positive(epsilon=epsilon)
    checks.open_probability(distance=distance)
    if seed is not None:
        checks.count(0, seed=seed)
    simulations = ranks.number(wishes.get("level", 0.05), simulations)
    _check_groups(data, column, reference=reference, second=second, by=by)
    closeness = second is not None or by is not None
    columns = [reading.column(table, column) for table in (data, second) if table is not None]
    answers = _answers(columns, categories, reference, closeness=closeness)
    names = [_name(table, place) for place, table in enumerate((data, second)) if table is not None]
    codes = [_codes(each, answers.labels) for each in columns]
    if by is not None:
        groups, names = _groups(reading.column(data, by))
        if groups.size != codes[0].size:
            raise InvalidArgumentError("data", names[0], "a table that does not change while read")
        codes = [codes[0][groups == 0], codes[0][groups == 1]]
    codes = [
        _without_nulls(each, f"column {column} of {name}", drop_nulls=drop_nulls)
        for each, name in zip(codes, names, strict=True)
    ]
    public = [PUBLIC_LIST] * (PUBLIC_LIST in answers.notes)
    public += [GROUPS_PUBLIC] * closeness + [PUBLIC_NULLS] * drop_nulls
    plan = design(
        n=min(each.size for each in codes),
        epsilon=epsilon,
        distance=distance,
        k=None if answers.probabilities else len(answers.labels),
        reference=answers.probabilities,
        closeness=closeness,
        overlapping=overlapping,
        **wishes,
    )
    tester = plan.tester()
    counts = _collected(tester, codes, progress)
    seed = int(simulator().integers(_SEEDS)) if seed is None else seed
    if closeness:
        verdict = tester.compare(counts[0], counts[1], simulations=simulations, seed=seed)
    else:
        verdict = tester.decide(counts[0], simulations=simulations, seed=seed)
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
    if by == column:
        raise InvalidArgumentError("by", by, "another column than the column that is tested")
    if isinstance(data, str | os.PathLike) and isinstance(second, str | os.PathLike):
        one, two = Path(data), Path(second)
        if one.resolve() == two.resolve() or (
            one.exists() and two.exists() and one.samefile(two)  # under another name
        ):
            expected = "another file than the first: everybody would be in both groups"
            raise InvalidArgumentError("second", str(second), expected)


def _name(table: Table, place: int) -> str:
    return str(table) if isinstance(table, str | os.PathLike) else ("data", "second")[place]


# ------------------------------------------------------------------------------------ the answers


def read_reference(path: str | os.PathLike[str]) -> AnswerList:
    """The distribution in a CSV file of answers and probabilities below a heading.

    Whole numbers that do not add up to 1 are counts: they are divided by their sum.
    """
    rows = _reference_rows(path)
    lines: dict[str, int] = {}
    weights = []
    for line, label, text in rows:
        if not label:
            raise _unusable(path, f"an answer on line {line}")
        if label in lines:
            raise _unusable(
                path, f"every answer once ({label!r} is on lines {lines[label]} and {line})"
            )
        lines[label] = line
        try:
            weights.append(float(text))
        except ValueError:
            weights.append(math.nan)
        if not 0 <= weights[-1] < math.inf:
            raise _unusable(path, f"a probability or a count, 0 or more, on line {line}: {text!r}")
    labels = tuple(lines)
    _require_list("reference", path, labels)
    total = math.fsum(weights)
    if abs(total - 1) <= _SLACK:
        return AnswerList(labels, tuple(weight / total for weight in weights))
    if total > 0 and all(weight.is_integer() for weight in weights):
        note = f"{path} has counts: they were divided by their sum, {total:,.0f}"
        return AnswerList(labels, tuple(weight / total for weight in weights), (note,))
    raise _unusable(path, f"probabilities that add up to 1, or counts (they add up to {total:.6g})")


def _reference_rows(path: str | os.PathLike[str]) -> list[tuple[int, str, str]]:
    """Line number, answer and number of each line below the heading."""
    try:
        with Path(path).open(encoding="utf-8-sig", newline="") as file:
            reader = csv.reader(file, strict=True)
            lines = [(reader.line_num, row) for row in reader if row]
    except OSError as error:
        raise _unusable(path, f"a file that can be read ({error.strerror or error})") from error
    except (UnicodeDecodeError, csv.Error) as error:
        raise _unusable(path, f"a file that can be read ({error})") from error
    for line, row in lines:
        if len(row) != 2:
            raise _unusable(
                path, f"an answer and its probability or count on line {line}, not {len(row)} cells"
            )
    if len(lines) < 2:
        raise _unusable(path, "a heading, and answers with their probabilities below it")
    heading = lines[0][1]
    try:
        float(heading[1])
    except ValueError:
        return [(line, label, text) for line, (label, text) in lines[1:]]
    raise _unusable(path, f"a heading (answer,probability) on the first line: {','.join(heading)}")


def _unusable(path: str | os.PathLike[str], expected: str) -> InvalidArgumentError:
    return InvalidArgumentError("reference", os.fspath(path), expected)


def _require_list(argument: str, value: object, labels: Sequence[str]) -> None:
    """A list of two answers or more, each of them once."""
    if not 2 <= len(labels) <= MOST_ANSWERS:
        expected = f"from 2 to {MOST_ANSWERS:,} answers, not {len(labels):,}"
        raise InvalidArgumentError(argument, str(value), expected)
    if len(set(labels)) < len(labels):
        twice = next(label for label in labels if labels.count(label) > 1)
        raise InvalidArgumentError(argument, str(value), f"every answer once, not {twice!r} twice")


def _answers(
    columns: Sequence[Column],
    categories: Iterable[object] | None,
    reference: Mapping[str, float] | str | os.PathLike[str] | None,
    *,
    closeness: bool,
) -> AnswerList:
    """The public list of answers: the one that is given, or that of the data."""
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
    import polars as pl

    # One list for both tables: what one of them lacks, the other may have.
    frames = [column.frame for column in columns]
    together = Column(columns[0].name, frames[0] if len(frames) == 1 else pl.concat(frames))
    labels = Choices.found(together, drop_nulls=True).labels
    return AnswerList(labels, notes=(PUBLIC_LIST, *(() if closeness else (ONLY_GIVEN,))))


# ------------------------------------------------------------------------------------- the people


def _codes(column: Column, labels: tuple[str, ...]) -> Codes:
    """The number of everybody's answer, one of the list or none at all."""
    chunks = column.codes(labels, none=_NULL, other=_UNLISTED)
    codes = np.concatenate([np.empty(0, dtype=np.int64), *chunks])
    if (codes == _UNLISTED).any():
        unknown = [label for label in column.answers().distinct if label not in set(labels)]
        more = f" (and {len(unknown) - 1:,} more)" if len(unknown) > 1 else ""
        expected = f"every answer in the list of {len(labels):,}, which has no {unknown[0]!r}{more}"
        raise InvalidArgumentError("column", column.name, expected)
    return codes


def _groups(column: Column) -> tuple[Codes, list[str]]:
    """Which of two groups each row is in, and what the groups are called."""
    groups = column.answers()
    if groups.nulls:
        expected = f"a group in every row ({groups.nulls:,} rows have none)"
        raise InvalidArgumentError("by", column.name, expected)
    if len(groups.distinct) != 2:
        expected = f"two groups, not {len(groups.distinct):,} different values"
        raise InvalidArgumentError("by", column.name, expected)
    codes = np.concatenate(list(column.codes(groups.distinct, none=_NULL, other=_UNLISTED)))
    return codes, [f"{column.name} = {label}" for label in groups.distinct]


def _without_nulls(codes: Codes, where: str, *, drop_nulls: bool) -> Codes:
    missing = int((codes == _NULL).sum())
    if missing and not drop_nulls:
        expected = (
            f"an answer in every row (drop_nulls=True leaves out the {missing:,} of "
            f"{codes.size:,} rows that have none in {where})"
        )
        raise InvalidArgumentError("drop_nulls", drop_nulls, expected)
    if missing == codes.size:
        raise InvalidArgumentError("rows", 0, f"at least one row with an answer in {where}")
    return codes[codes >= 0]


def _collected(tester: Tester, groups: Sequence[Codes], progress: Progress | None) -> list[Counts]:
    """What the analyzer gets of each group: randomized, and counted a piece at a time."""
    device = tester.device
    most = max(1, min(_PEOPLE, _MESSAGES // math.ceil(device.messages)))
    total, done = sum(codes.size for codes in groups), 0
    counts = []
    for codes in groups:
        parts = []
        for start in range(0, codes.size, most):
            piece = codes[start : start + most]
            parts.append(device.tally(cast("Any", tester.randomize(piece))))
            done += piece.size
            if progress is not None:
                progress(done, total)
        counts.append(sum(parts[1:], start=parts[0]))
    return counts
