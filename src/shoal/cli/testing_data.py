"""The answers that ``shoal test`` tests: as numbers, with the public list they are numbers of."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from shoal.cli import testing_reference
from shoal.cli.files import read_list
from shoal.cli.options import RefusedError
from shoal.cli.testing_asked import AskedTest
from shoal.engines import reading
from shoal.engines.coding import PUBLIC_LIST, PUBLIC_NULLS, Choices
from shoal.engines.reading import Codes, Column

GROUPS_PUBLIC = "who is in which group is treated as public, and so are the sizes of the groups"
ONLY_GIVEN = (
    "uniform here means among the answers that somebody gave: an answer of nobody is not in the "
    "list (--categories lists all of them)"
)
_MISSING = -1
_NULL = -2


@dataclass(frozen=True)
class AnswerList:
    """The public list of answers, and how probable each should be (None: equally)."""

    labels: tuple[str, ...]
    probabilities: tuple[float, ...] | None = None
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, eq=False)
class Groups:
    """Everybody's answers, in one group or in two, by name."""

    answers: AnswerList
    codes: tuple[Codes, ...]
    names: tuple[str, ...]
    notes: tuple[str, ...]

    @property
    def n(self) -> int:
        """How many people there are, in the smaller group if there are two."""
        return min(codes.size for codes in self.codes)


def read(asked: AskedTest) -> Groups:
    """Read what is to be tested; whatever is not in order is refused."""
    assert asked.data is not None  # noqa: S101 - checked before
    assert asked.column is not None  # noqa: S101 - checked before
    columns = [reading.column(asked.data, asked.column)]
    if asked.second is not None:
        columns.append(reading.column(asked.second, asked.column))
    answers = _answers(asked, columns)
    codes = tuple(_codes(column, answers) for column in columns)
    names: tuple[str, ...] = (str(asked.data),)
    if asked.second is not None:
        names = (str(asked.data), str(asked.second))
    notes = list(answers.notes)
    if asked.by is not None:
        marks, names = _marks(reading.column(asked.data, asked.by))
        if marks.size != codes[0].size:
            raise RefusedError(f"{asked.data} changed while it was read")
        codes = (codes[0][marks == 0], codes[0][marks == 1])
    if asked.closeness:
        notes.append(GROUPS_PUBLIC)
    kept = tuple(_without_nulls(asked, each, name) for each, name in zip(codes, names, strict=True))
    if asked.drop_nulls:
        notes.append(PUBLIC_NULLS)
    return Groups(answers, kept, names, tuple(notes))


def public_list(asked: AskedTest) -> AnswerList | None:
    """The list that was given, by --against or --categories."""
    if asked.against is not None:
        found = testing_reference.read(asked.against)
        return AnswerList(found.labels, found.probabilities, found.notes)
    if asked.categories is None:
        return None
    labels = tuple(read_list(asked.categories))
    if len(labels) < 2:
        raise RefusedError(
            f"--categories lists {len(labels)} answer{'s' * (len(labels) != 1)}: there is nothing "
            "to test with fewer than two"
        )
    if len(set(labels)) < len(labels):
        twice = next(label for label in labels if labels.count(label) > 1)
        raise RefusedError(f"--categories lists {twice!r} twice")
    return AnswerList(labels)


def _answers(asked: AskedTest, columns: list[Column]) -> AnswerList:
    given = public_list(asked)
    if given is not None:
        return given
    import polars as pl

    # One list for both files: what one of them lacks, the other may have.
    frames = [column.frame for column in columns]
    together = Column(columns[0].name, frames[0] if len(frames) == 1 else pl.concat(frames))
    labels = Choices.found(together, drop_nulls=True).labels
    return AnswerList(labels, notes=(PUBLIC_LIST, *(() if asked.closeness else (ONLY_GIVEN,))))


def _codes(column: Column, answers: AnswerList) -> Codes:
    """The number of everybody's answer, one of the list or none at all."""
    chunks: Iterator[Codes] = column.codes(answers.labels, none=_NULL, other=_MISSING)
    codes = np.concatenate([np.empty(0, dtype=np.int64), *chunks])
    if (codes == _MISSING).any():
        known = set(answers.labels)
        unknown = [label for label in column.answers().distinct if label not in known]
        more = f" (and {len(unknown) - 1:,} more)" if len(unknown) > 1 else ""
        raise RefusedError(
            f"the list of {len(known):,} answers has no {unknown[0]!r}{more}, which is in column "
            f"{column.name}: list every answer that people can give"
        )
    return codes


def _marks(column: Column) -> tuple[Codes, tuple[str, ...]]:
    """Which of two groups each row is in, and what the groups are called."""
    found = column.answers()
    if found.nulls:
        raise RefusedError(f"--by {column.name}: {found.nulls:,} rows are in no group")
    if len(found.distinct) != 2:
        raise RefusedError(
            f"--by {column.name}: expected two groups, got {len(found.distinct):,} different values"
        )
    marks = np.concatenate(list(column.codes(found.distinct, none=_NULL, other=_MISSING)))
    return marks, tuple(f"{column.name} = {label}" for label in found.distinct)


def _without_nulls(asked: AskedTest, codes: Codes, name: str) -> Codes:
    missing = int((codes == _NULL).sum())
    if missing and not asked.drop_nulls:
        raise RefusedError(
            f"{missing:,} of {codes.size:,} rows of {name} have no answer in {asked.column}: "
            "--drop-nulls leaves them out"
        )
    kept = codes[codes >= 0]
    if not kept.size:
        raise RefusedError(f"{name} has no row with an answer in {asked.column}")
    return kept
