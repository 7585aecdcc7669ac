"""Columns of tables and files as devices take them: answers, numbers within bounds, vectors.

A table is a Polars frame, eager or lazy, anything that speaks the Arrow C stream interface (pandas
data frames, Arrow tables and readers, DuckDB relations and many others do), or the path of a CSV,
Parquet or Arrow file. It is read a chunk at a time: memory does not grow with the file. A Spark
data frame stays where it is (:mod:`shoal.engines.spark`).

An engine is a table that answers for its columns: how many rows, which answers, and the counts of
everybody's reports. Making and counting reports is the same code everywhere (:class:`Counting`), on
one machine chunk by chunk and on a cluster partition by partition: counts add up.

Which answers there are is fixed before anybody reports. A public list is taken as it is, with an
answer for "no answer" and one for "not in the list", whether or not the data has any: the data does
not decide. Without a list the answers in the data are used, and a note calls them public.
"""

from __future__ import annotations

import math
import os
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, replace
from difflib import get_close_matches
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, cast

import numpy as np
import numpy.typing as npt

from shoal import checks
from shoal.errors import InvalidArgumentError, MissingExtraError
from shoal.randomizers import registry
from shoal.randomizers.base import (
    AnswerMechanism,
    Mechanism,
    NumberMechanism,
    Randomizer,
    VectorMechanism,
)
from shoal.randomizers.vectors import Ball
from shoal.randomness import Randomness
from shoal.values import AnyEstimate, Array, Counts

if TYPE_CHECKING:
    import polars as pl

NONE = "(none)"
OTHER = "(other)"
PUBLIC_LIST = "the list of answers is treated as public: it was taken from the data"
PUBLIC_NULLS = "who answered is treated as public: rows without an answer are left out"
PUBLIC = frozenset({PUBLIC_LIST, PUBLIC_NULLS})  # notes that a guarantee assumes
CLAMPED = "numbers outside the bounds count as the nearest bound"
SHORTENED = "vectors longer than the norm count as scaled down to it"
MOST_ANSWERS = 1_000_000
_SCANS: dict[str, tuple[str, dict[str, bool]]] = {
    ".csv": ("scan_csv", {"infer_schema": False}),
    ".parquet": ("scan_parquet", {}),
    **dict.fromkeys((".arrow", ".ipc", ".feather"), ("scan_ipc", {})),
}
SUFFIXES = tuple(_SCANS)
CHUNK = 1 << 18
_VALUE, _GROUP = "value", "group"
_LISTED_COLUMNS = 20
_EXACT_WHOLE = 2.0**53
_UNKNOWN = -1
_MANY = 100
_NAMED = 6
_MOST_BITS = 1 << 25  # of messages made at once: long messages come in smaller pieces

Codes = npt.NDArray[np.int64]
Numbers = npt.NDArray[np.float64]
Values = Codes | Numbers
Lists = Sequence[object] | Mapping[str, Sequence[object]]
Bounds = tuple[float, float] | Mapping[str, tuple[float, float]]
Progress = Callable[[int, int], None]
Spend = Callable[[str], AbstractContextManager[None]]  # whose stage the time inside is
T = TypeVar("T")


# ------------------------------------------------------------ everybody's reports, and their counts


def _unmeasured(stage: str) -> AbstractContextManager[None]:  # noqa: ARG001
    return nullcontext()


@dataclass(frozen=True, eq=False, kw_only=True)
class Inputs(ABC):
    """What people have, as devices take it. It can be sent to where a part of the rows is."""

    source: Source

    @property
    @abstractmethod
    def nobody(self) -> Any:  # noqa: ANN401 - numbers or texts, as the chunks are
        """What nobody has: no values, of the kind that the chunks are."""

    @abstractmethod
    def chunks(self) -> Iterator[Any]:
        """What everybody has, of a source on this machine."""

    def inputs(self, values: Any, device: Mechanism) -> Any:  # noqa: ANN401, ARG002
        """The same as the device takes it."""
        return values

    def totals(self, values: Any) -> Array:  # noqa: ANN401, ARG002
        """True totals of a chunk: a person's answer, or number, adds to them. None, unless said."""
        return np.empty(0)

    @abstractmethod
    def size(self) -> tuple[int, int]:
        """How many rows the source has, and how many of them lack what is collected."""


@dataclass(frozen=True, eq=False, kw_only=True)
class Answering(Inputs):
    """People of whom each has an answer: how many give each one is all that is needed of them."""

    source: Column

    @property
    def nobody(self) -> Codes:
        """No answers."""
        return np.empty(0, dtype=np.int64)

    def size(self) -> tuple[int, int]:
        """All rows, and those without an answer."""
        return self.source.size()


@dataclass(frozen=True, eq=False)
class Part:
    """The counts of some people's reports, and their true totals where these are compared."""

    counts: Counts
    totals: Array | None = None

    def __add__(self, other: Part) -> Part:
        totals = self.totals if other.totals is None else other.totals
        if self.totals is not None and other.totals is not None:
            totals = self.totals + other.totals
        return Part(self.counts + other.counts, totals)


@dataclass(frozen=True, eq=False)
class Counting:
    """Everybody's reports, made and counted. Engines differ in where they do it, not in how."""

    inputs: Inputs
    device: Any
    truth: bool = False

    def parts(self, source: Source, bits: Randomness, spend: Spend = _unmeasured) -> Iterator[Part]:
        """The counts of a source on this machine, a chunk at a time."""
        chunks = replace(self.inputs, source=source).chunks()
        device = self.device
        most = max(1, _MOST_BITS // (8 * device.message_bytes * math.ceil(device.messages)))
        while True:
            with spend("read"):
                values = next(chunks, None)
            if values is None:
                return
            counts: Counts | None = None
            for start in range(0, len(values), most):
                with spend("randomize"):
                    piece = self.inputs.inputs(values[start : start + most], device)
                    reports = device.randomize(piece, randomness=bits)
                with spend("count"):
                    part = device.tally(reports)
                    counts = part if counts is None else counts + part
            if counts is not None:
                yield Part(counts, self.inputs.totals(values) if self.truth else None)

    def total(
        self,
        n: int,
        bits: Randomness,
        spend: Spend = _unmeasured,
        progress: Progress | None = None,
        *,
        done: int = 0,
        people: int | None = None,
    ) -> Part:
        """The counts of all n people, wherever they are.

        ``progress`` gets how many are counted, those ``done`` before among them, and how many
        ``people`` there are (n, unless it is said).
        """
        total: Part | None = None
        for part in self.inputs.source.counted(self, n, bits, spend):
            total = part if total is None else total + part
            if progress is not None:
                progress(done + total.counts.n, n if people is None else people)
        if total is None or total.counts.n != n:
            raise changed(self.inputs.source.name)
        return total


# ------------------------------------------------------------------- what the devices are given


@dataclass(frozen=True, eq=False, kw_only=True)
class Coded(Inputs):
    """A column, or columns that make a vector, ready for the devices.

    ``labels`` are the answers by their number, or the coordinates; none for numbers. ``notes`` that
    are in ``PUBLIC`` are assumptions of the guarantee. ``question`` is what a plan has to know, and
    ``family`` gives the randomizers of a name for these values.
    """

    name: str
    n: int
    labels: tuple[str, ...] = ()
    notes: tuple[str, ...]
    question: dict[str, Any]
    family: Callable[[str], Callable[..., Randomizer]]

    def estimated(self, estimate: AnyEstimate, device: Mechanism) -> AnyEstimate:  # noqa: ARG002
        """What the device's estimate says about what everybody has."""
        return estimate

    @abstractmethod
    def require(self, randomizer: Mechanism, *, planned: bool = False) -> None:
        """The randomizer, of a plan or not, takes these values."""


@dataclass(frozen=True, eq=False, kw_only=True)
class Choices(Answering, Coded):
    """A column of answers, each one of ``labels``; ``none`` and ``other`` are numbers of theirs."""

    known: int  # labels before those that were added
    none: int | None
    other: int | None

    @classmethod
    def of(
        cls,
        column: Column,
        categories: Sequence[object] | None = None,
        *,
        drop_nulls: bool,
        answers: Answers | None = None,
    ) -> Choices:
        """A public list, and an answer for what is not in it; or the answers that the data has.

        Which these are may be known already.
        """
        listed, single = categories is not None, 0
        if categories is None:
            answers = column.answers() if answers is None else answers
            rows, nulls = answers.rows, answers.nulls
            values, single = answers.distinct, answers.single
        else:
            expected = f"a list of 1 to {MOST_ANSWERS:,} answers"
            checks.refuse(isinstance(categories, str | bytes), expected, categories=categories)
            nulls_added = f"no None in the list ({NONE} is added)"
            checks.refuse(any(value is None for value in categories), nulls_added, categories=None)
            values = tuple(map(label_of, categories))
            fits = 1 <= len(values) <= MOST_ANSWERS
            checks.refuse(not fits, expected, categories=f"{len(values)} answers")
            rows, nulls = column.size(values)
        n = _people(column.name, rows, nulls, drop_nulls=drop_nulls)
        none = not drop_nulls and (listed or nulls > 0)
        added = (*[NONE] * none, *[OTHER] * listed)
        for value in added:
            taken = "that name is taken for rows without a known one"
            checks.refuse(value in values, f"no answer called {value} ({taken})", answer=value)
        twice = [value for value, times in Counter(values).items() if times > 1]
        checks.refuse(twice, "every answer once", categories=next(iter(twice), None))
        # A list of answers that is public cannot be one of names.
        checks.refuse(
            len(values) > _MANY and 2 * single > len(values),
            "answers that people share (most are in one row only, as identifiers are: give a "
            "public list with categories / --categories, or bounds / --bounds for numbers)",
            column=column.name,
        )
        labels = (*values, *added)
        expected = f"at least two different answers (all {n:,} rows have the same one)"
        checks.refuse(len(labels) < 2, expected, column=column.name)
        return cls(
            name=column.name,
            n=n,
            labels=labels,
            notes=(*[PUBLIC_LIST] * (not listed), *[PUBLIC_NULLS] * drop_nulls),
            question={"categories": len(labels)},
            family=partial(registry.family, k=len(labels)),
            source=column,
            known=len(values),
            none=len(values) if none else None,
            other=len(labels) - 1 if listed else None,
        )

    def chunks(self) -> Iterator[Codes]:
        """The number of everybody's answer."""
        other = _UNKNOWN if self.other is None else self.other
        for codes in self.source.codes(self.labels[: self.known], none=self.none, other=other):
            if codes.size and int(codes.min()) < 0:
                raise changed(self.name)
            yield codes

    def totals(self, values: Values) -> Array:
        """How many really gave each answer."""
        return np.bincount(values, minlength=len(self.labels)).astype(np.float64)

    def require(self, randomizer: Mechanism, *, planned: bool = False) -> None:
        """The randomizer takes as many answers."""
        k = len(self.labels)
        if not isinstance(randomizer, AnswerMechanism):
            expected = f"a randomizer of answers for {self.name} (bounds are for numbers)"
            raise InvalidArgumentError("randomizer", randomizer, expected)
        if randomizer.k != k:
            counted = " and ".join([f"the list of {self.known}", *self.labels[self.known :]])
            advice = f"plan with --categories {k}: " if planned else ""
            expected = f"a randomizer of k={k} answers for {self.name} ({advice}{counted})"
            raise InvalidArgumentError("k", randomizer.k, expected)


@dataclass(frozen=True, eq=False, kw_only=True)
class Amounts(Coded):
    """A column of numbers within public bounds."""

    source: Column
    bounds: tuple[float, float]

    @classmethod
    def bounded(cls, column: Column, bounds: tuple[float, float], *, drop_nulls: bool) -> Amounts:
        """Numbers, those outside the bounds moved to them; text is no number."""
        expected = "bounds (low, high), two finite numbers with low < high"
        try:
            low, high = (float(bound) for bound in bounds)
        except (TypeError, ValueError) as error:
            raise InvalidArgumentError("bounds", bounds, expected) from error
        checks.refuse(not -math.inf < low < high < math.inf, expected, bounds=bounds)
        rows, nulls = column.numeric_size()
        n = _people(column.name, rows, nulls, drop_nulls=drop_nulls, lacking=column.name)
        return cls(
            name=column.name,
            n=n,
            notes=(CLAMPED, PUBLIC_NULLS) if drop_nulls else (CLAMPED,),
            question={"bounds": (low, high)},
            family=partial(registry.family, bounds=(low, high)),
            source=column,
            bounds=(low, high),
        )

    @property
    def nobody(self) -> Numbers:
        """No numbers."""
        return np.empty(0)

    def size(self) -> tuple[int, int]:
        """All rows, and those without a number."""
        return self.source.numeric_size()

    def chunks(self) -> Iterator[Numbers]:
        """Everybody's number, as it is."""
        return self.source.numbers()

    def inputs(self, values: Values, device: Mechanism) -> Values:  # noqa: ARG002
        """Numbers within the bounds."""
        return np.clip(values, *self.bounds).astype(np.float64, copy=False)

    def totals(self, values: Values) -> Array:
        """The true sum, of the numbers as they are: what cutting them costs has to show."""
        return np.array([math.fsum(values)])

    def require(self, randomizer: Mechanism, *, planned: bool = False) -> None:  # noqa: ARG002
        """The randomizer has the same bounds."""
        if not isinstance(randomizer, NumberMechanism):
            expected = f"a randomizer of numbers for {self.name} (it has bounds)"
            raise InvalidArgumentError("randomizer", randomizer, expected)
        limits = randomizer.low, randomizer.high
        expected = f"a randomizer with the bounds {self.bounds} of {self.name}"
        checks.refuse(limits != self.bounds, expected, bounds=limits)


@dataclass(frozen=True, eq=False, kw_only=True)
class Vectors(Coded):
    """Columns of numbers, a coordinate each, and the norm that no vector is longer than."""

    source: Rows
    ball: Ball

    @classmethod
    def bounded(cls, rows: Rows, norm: float, *, drop_nulls: bool) -> Vectors:
        """Vectors, those longer than the norm shortened; a row without a number is none."""
        d = len(rows.names)
        ball = Ball(dimension=d, norm=norm)
        total, nulls, without = rows.size()
        name = spelled(rows.names)
        lacking = next((of for of, each in zip(rows.names, nulls, strict=True) if each), name)
        n = _people(name, total, without, drop_nulls=drop_nulls, lacking=lacking)
        return cls(
            name=name,
            n=n,
            labels=rows.names,
            notes=(SHORTENED, PUBLIC_NULLS) if drop_nulls else (SHORTENED,),
            question={"dimension": d, "norm": norm},
            family=partial(registry.family, k=d + 1),  # of length 1, with a coordinate more
            source=rows,
            ball=ball,
        )

    @property
    def nobody(self) -> Numbers:
        """No vectors."""
        return np.empty((0, len(self.labels)))

    def size(self) -> tuple[int, int]:
        """All rows, and those that lack a number."""
        rows, _, lacking = self.source.size()
        return rows, lacking

    def chunks(self) -> Iterator[Numbers]:
        """Everybody's vector, as it is."""
        return self.source.vectors()

    def inputs(self, values: Values, device: Mechanism) -> Values:
        """Vectors no longer than the norm, of length 1 for devices that want them so."""
        return self.ball.given(values, cast("VectorMechanism", device))

    def estimated(self, estimate: AnyEstimate, device: Mechanism) -> AnyEstimate:
        """The mean of the vectors themselves."""
        return self.ball.estimated(cast("Any", estimate), cast("VectorMechanism", device))

    def totals(self, values: Values) -> Array:
        """The true sum, of the vectors as they are: what shortening costs has to show."""
        return np.asarray(values.sum(axis=0))

    def require(self, randomizer: Mechanism, *, planned: bool = False) -> None:
        """The randomizer takes vectors of this many coordinates and this length."""
        if self.ball.suits(randomizer):
            return
        d, norm = self.ball.dimension, self.ball.norm
        expected = f"a plan with dimension={d}, norm={norm:g} (--dimension {d} --norm {norm:g})"
        if not planned:
            expected = (
                f"a randomizer of vectors of {d} coordinates: privunit of dimension {d + 1}, or "
                f"split-and-mix-vectors of dimension {d} and bound {self.ball.bound:g}"
            )
        raise InvalidArgumentError("randomizer", randomizer, expected)


def changed(name: str) -> InvalidArgumentError:
    """The second reading found what the first did not."""
    return InvalidArgumentError("column", name, "data that stays the same while it is read")


def _people(name: str, rows: int, nulls: int, *, drop_nulls: bool, lacking: str = "") -> int:
    """How many report: those without an answer may be left out, but not everybody.

    If an answer is a number, nobody may be without one in the ``lacking`` column.
    """
    n = rows - nulls if drop_nulls else rows
    expected = f"at least one row{' with an answer' if rows else ''} in column {name}"
    checks.refuse(n < 1, expected, rows=n)
    leaves = "drop_nulls (--drop-nulls) leaves out rows without one"
    expected = f"a number in every row of the column ({leaves})"
    checks.refuse(lacking and nulls and not drop_nulls, expected, column=lacking)
    return n


def spelled(names: Sequence[str]) -> str:
    """The names of the coordinates, or of the first and the last if they are many.

    >>> spelled(["x", "y"]), spelled([f"v{i}" for i in range(100)])
    ('x, y', 'v0, ..., v99 (100 columns)')
    """
    if len(names) <= _NAMED:
        return ", ".join(names)
    return f"{names[0]}, ..., {names[-1]} ({len(names)} columns)"


# ----------------------------------------------------------------------- which columns are meant


def separate_names(
    column: str | Sequence[str] | None, *, norm: float | None, **by_column: object
) -> tuple[str, ...]:
    """The names of columns of which each is reported on by itself, each name once.

    ``by_column`` are values for all of them or mappings from name to value: a misspelt name must
    not be ignored. A norm is for columns that are a vector.
    """
    expected = "no norm without columns: it is for the vector that they are"
    checks.refuse(norm is not None, expected, norm=norm)
    names = (column,) if isinstance(column, str) else tuple(column or ())
    distinct = len(set(names)) == len(names) and all(isinstance(name, str) for name in names)
    expected = "the names of one or several columns"
    checks.refuse(not names or not distinct, expected, column=column)
    for what, value in by_column.items():
        unknown = set(value) - set(names) if isinstance(value, Mapping) else set()
        shown = ", ".join(sorted(map(str, unknown)))
        checks.refuse(unknown, f"{what} of the columns {', '.join(names)}", **{what: shown})
    for name in names:
        numbers = chosen(by_column["bounds"], name) is not None
        _require_kind(chosen(by_column["randomizer"], name), "numbers" if numbers else "answers")
    return names


def vector_names(
    columns: Sequence[str],
    *,
    norm: float | None,
    unwanted: Mapping[str, object],
    **single: object,
) -> tuple[str, ...]:
    """The names of two columns or more that are the coordinates of one vector, which has a norm.

    What is ``unwanted`` is for separate columns; what is ``single`` is one value for the vector.
    """
    expected = "the names of two columns or more, each once"
    names = () if isinstance(columns, str) else tuple(columns)
    if len(names) < 2:
        expected += " (for one column of numbers: column and bounds, --column and --bounds)"
    distinct = len(set(names)) == len(names) and all(isinstance(name, str) for name in names)
    checks.refuse(len(names) < 2 or not distinct, expected, columns=columns)
    for name, value in unwanted.items():
        expected = f"no {name} beside columns, which are one vector and have a norm"
        checks.refuse(value is not None, expected, **{name: value})
    expected = "a norm beside columns: the public length that no vector is longer than"
    checks.refuse(norm is None, expected, norm=norm)
    for name, value in single.items():
        if isinstance(value, Mapping):
            expected = f"one {name} for the vector that the columns are"
            raise InvalidArgumentError(name, ", ".join(map(str, value)), expected)
    _require_kind(single["randomizer"], "vectors")
    return names


def _require_kind(randomizer: object, what: str) -> None:
    """A randomizer given by its name is one of what there is to collect."""
    if isinstance(randomizer, str):
        registry.by_name(randomizer)
        kinds = {"answers": registry.CATEGORIES, "numbers": registry.NUMBERS}
        kind = kinds.get(what, registry.VECTORS)
        which = "bounds are for numbers, columns and norm for vectors, neither for answers"
        expected = f"a randomizer of {what}, one of {', '.join(kind)} ({which})"
        checks.refuse(randomizer not in kind, expected, randomizer=randomizer)


def chosen(values: T | Mapping[str, T] | None, name: str) -> T | None:
    """The column's own value of a mapping, or the value that is for all columns."""
    return values.get(name) if isinstance(values, Mapping) else values


def coded(
    data: object,
    names: Sequence[str],
    *,
    norm: float | None,
    categories: Lists | None,
    bounds: Bounds | None,
    drop_nulls: bool,
) -> list[Coded]:
    """Every column ready for the devices; with a norm, the vectors that the columns are."""
    columns = table(data, names)
    if norm is not None:
        return [Vectors.bounded(columns.rows(names), norm, drop_nulls=drop_nulls)]
    made: list[Coded] = []
    for name in names:
        values = columns.column(name)
        listed, limits = chosen(categories, name), chosen(bounds, name)
        if limits is None:
            made.append(Choices.of(values, listed, drop_nulls=drop_nulls))
        elif listed is None:
            made.append(Amounts.bounded(values, limits, drop_nulls=drop_nulls))
        else:
            expected = f"categories or bounds for {name}, not both"
            raise InvalidArgumentError("bounds", limits, expected)
    return made


# --------------------------------------------------------------------------------- tables and files


@dataclass(frozen=True, eq=False)
class Answers:
    """The different answers of a column, each with how many rows have it.

    ``tally`` has the answers and their counts; ``nulls`` of the rows have none.
    """

    rows: int
    nulls: int
    tally: pl.DataFrame

    @classmethod
    def of(cls, labels: pl.Series, counts: pl.Series) -> Answers:
        """Of answers, perhaps some of them repeated, and in how many rows each is."""
        import polars as pl

        tally = pl.DataFrame({_VALUE: labels, "count": counts.cast(pl.UInt64)})
        tally = tally.group_by(_VALUE).agg(pl.col("count").sum())
        nulls = tally.filter(pl.col(_VALUE).is_null())["count"].sum()
        rows = tally["count"].sum()
        return cls(int(rows), int(nulls), tally.drop_nulls())

    @property
    def distinct(self) -> tuple[str, ...]:
        """The different answers, sorted."""
        return tuple(self.tally[_VALUE].sort().to_list())

    @property
    def single(self) -> int:
        """How many answers are given by one row only."""
        return int((self.tally["count"] == 1).sum())

    def __add__(self, other: Answers) -> Answers:
        import polars as pl

        both = pl.concat([self.tally, other.tally])
        union = Answers.of(both[_VALUE], both["count"])
        return Answers(self.rows + other.rows, self.nulls + other.nulls, union.tally)

    def require_few(self, name: str) -> None:
        """Few enough for a list of answers."""
        expected = f"at most {MOST_ANSWERS:,} different answers (is it an identifier?)"
        checks.refuse(self.tally.height > MOST_ANSWERS, expected, column=name)


class Source:
    """A column, or columns that are read together: on this machine, unless an engine says so."""

    name: str

    def counted(
        self,
        counting: Counting,
        n: int,  # noqa: ARG002 - engines that read again compare it
        bits: Randomness,
        spend: Spend,
    ) -> Iterator[Part]:
        """The counts of n people's reports, part by part: every row in one of them."""
        return counting.parts(self, bits, spend)


@dataclass(frozen=True, eq=False)
class Table:
    """Columns on this machine."""

    frame: pl.LazyFrame

    def column(self, name: str, by: str | None = None) -> Column:
        """One of the columns; with ``by``, another that tells groups of its rows apart."""
        import polars as pl

        group = [] if by is None else [pl.col(by).alias(_GROUP)]
        return Column(name, self.frame.select(pl.col(name).alias(_VALUE), *group))

    def rows(self, names: Sequence[str]) -> Rows:
        """Columns of numbers that are read together."""
        return Rows(tuple(names), self.frame)


@dataclass(frozen=True, eq=False)
class Column(Source):
    """One column, read anew by every question that is asked of it."""

    name: str
    frame: pl.LazyFrame

    def groups(self, by: str) -> Answers:
        """The groups that the rows are in, as answers of the column that they are by."""
        import polars as pl

        return Column(by, self.frame.select(pl.col(_GROUP).alias(_VALUE))).answers()

    def group(self, label: str) -> Column:
        """The rows of one group."""
        group = as_text(_GROUP, self.frame.collect_schema()[_GROUP], self.name)
        return Column(self.name, self.frame.filter(group == label).select(_VALUE))

    def kind(self) -> pl.DataType:
        """What the column holds."""
        return self.frame.collect_schema()[_VALUE]

    def size(self, listed: Sequence[str] = ()) -> tuple[int, int]:  # noqa: ARG002
        """How many rows there are, and how many of them have no answer.

        An engine may keep how many have each of the answers that are ``listed``.
        """
        import polars as pl

        rows, nulls = _row(self._labelled().select(pl.len(), pl.first().null_count()), self.name)
        return rows, nulls

    def answers(self, *, few: bool = True) -> Answers:
        """The different answers; too many of them end the reading early, unless not ``few``."""
        import polars as pl

        empty = pl.Series(_VALUE, [], dtype=pl.String)
        answers = Answers.of(empty, pl.Series([], dtype=pl.UInt64))
        for batch in _batches(self._labelled(), self.name):
            chunk = batch.to_series().alias(_VALUE).value_counts()
            answers += Answers.of(chunk[_VALUE], chunk["count"])
            if few:
                answers.require_few(self.name)
        return answers

    def texts(self, size: int) -> Iterator[list[str]]:
        """Everybody's text, so many at a time; nothing for rows without one."""
        for batch in _batches(self._labelled(), self.name, size):
            yield batch.to_series().fill_null("").to_list()

    def codes(self, labels: Sequence[str], *, none: int | None, other: int) -> Iterator[Codes]:
        """Positions in ``labels``; rows without an answer are left out if ``none`` is None.

        Answers that are not in ``labels`` get the code ``other``.
        """
        import polars as pl

        value = pl.col(_VALUE)
        known = value.cast(pl.Enum(list(labels)), strict=False).to_physical().cast(pl.Int64)
        code = pl.when(value.is_null()).then(none).otherwise(known.fill_null(other))
        frame = self._labelled()
        frame = frame.drop_nulls() if none is None else frame
        for batch in _batches(frame.select(code.cast(pl.Int64).alias(_VALUE)), self.name):
            yield batch.to_series().to_numpy()

    def numeric_size(self) -> tuple[int, int]:
        """How many rows there are, and how many of them have no number (but text, perhaps)."""
        rows, _, nulls = self._numeric.size()
        return rows, nulls

    def numbers(self) -> Iterator[Numbers]:
        """The numbers; rows without one are left out."""
        return (vectors[:, 0] for vectors in self._numeric.vectors())

    @property
    def _numeric(self) -> Rows:
        return Rows((self.name,), self.frame.rename({_VALUE: self.name}))

    def _labelled(self) -> pl.LazyFrame:
        kind = self.frame.collect_schema()[_VALUE]
        return self.frame.select(as_text(_VALUE, kind, self.name))


@dataclass(frozen=True, eq=False)
class Tallied(Source):
    """A column of which only is known how many people give each answer.

    The output of a shuffler is a multiset: their order is nobody's business, and reports made from
    this have the law of those made row by row. ``first`` and ``last`` cut a part out of it.
    """

    name: str
    answers: Answers
    first: int = 0
    last: int | None = None
    chunk: int = CHUNK

    def codes(self, labels: Sequence[str], *, none: int | None, other: int) -> Iterator[Codes]:
        """As those of a column, the same ones side by side."""
        import polars as pl

        different = Column(self.name, self.answers.tally.select(_VALUE).lazy())
        codes = np.concatenate(list(different.codes(labels, none=none, other=other)))
        times = self.answers.tally["count"].cast(pl.Int64).to_numpy()
        if none is not None:
            codes, times = np.append(codes, none), np.append(times, self.answers.nulls)
        ends = np.cumsum(times)
        last = int(ends[-1]) if self.last is None else self.last
        for start in range(self.first, last, self.chunk):
            stop = min(start + self.chunk, last)
            yield np.repeat(codes, np.diff(np.clip(ends, start, stop), prepend=start))


def as_text(name: str, kind: pl.DataType, column: str) -> pl.Expr:
    """Values as text: whole numbers without a decimal point, nothing for not-a-number."""
    import polars as pl

    value = pl.col(name)
    if kind.is_float():
        number = value.fill_nan(None)
        whole = (number == number.floor()) & (number.abs() < _EXACT_WHOLE)
        text = number.cast(pl.Int64, strict=False).cast(pl.String)
        return pl.when(whole).then(text).otherwise(number.cast(pl.String)).alias(name)
    expected = f"a column of text, numbers or dates ({column} holds {kind})"
    opaque = kind.is_nested() or kind in {pl.Binary, pl.Object}
    checks.refuse(opaque, expected, column=column)
    return value.cast(pl.String)


@dataclass(frozen=True, eq=False)
class Rows(Source):
    """Columns of numbers, read together: one row of them per person."""

    names: tuple[str, ...]
    frame: pl.LazyFrame

    @property
    def name(self) -> str:  # type: ignore[override] # a field of columns
        """What the rows are called."""
        return spelled(self.names)

    def size(self) -> tuple[int, list[int], int]:
        """How many rows there are, how many lack a number in each column, and in any."""
        import polars as pl

        numbers = self.numbers()
        counts = self.frame.select(
            pl.len().alias("rows"),
            *(number.null_count().alias(f"{i}") for i, number in enumerate(numbers)),
            pl.any_horizontal(number.is_null() for number in numbers).sum().alias("any"),
        )
        rows, *nulls, lacking = _row(counts, self.names[0])
        return rows, nulls, lacking

    def vectors(self) -> Iterator[Numbers]:
        """Rows of numbers; those that lack one are left out."""
        frame = self.frame.select(self.numbers()).drop_nulls()
        for batch in _batches(frame, self.names[0], max(1, CHUNK // len(self.names))):
            yield batch.to_numpy()

    def numbers(self) -> list[pl.Expr]:
        """The columns as floating-point numbers, nothing for not-a-number."""
        import polars as pl

        numbers, kinds = [], self.frame.collect_schema()
        for name in self.names:
            value, kind = pl.col(name), kinds[name]
            if kind == pl.String:
                value = value.str.strip_chars()
            elif not kind.is_numeric():
                raise InvalidArgumentError("column", name, f"a column of numbers (not of {kind})")
            numbers.append(value.cast(pl.Float64, strict=False).fill_nan(None))
        return numbers


def column(data: object, name: str) -> Column:
    """A column of a table or file, or an error that lists the columns there are."""
    return table(data, [name]).column(name)


def table(data: object, names: Sequence[str]) -> Table:
    """These columns of a table or file, or an error that lists the columns there are.

    What is no file is read here, once: a stream has no second time, and the rows of a query may
    come out otherwise when it is asked again. Spark's frames stay where they are.
    """
    import polars as pl

    kinds = ((each.__module__, each.__name__) for each in type(data).__mro__)
    if any(home.startswith("pyspark.sql.") and kind == "DataFrame" for home, kind in kinds):
        from shoal.engines import spark

        return cast("Table", spark.SparkTable.of(data, names))
    if isinstance(data, Table):
        frame = data.frame
    elif isinstance(data, pl.DataFrame | pl.LazyFrame):
        frame = data.lazy()
    elif isinstance(data, str | os.PathLike):
        path = Path(data)
        expected = f"a file whose name ends in {', '.join(SUFFIXES)}"
        checks.refuse(path.suffix.lower() not in _SCANS, expected, data=str(path))
        checks.refuse(not path.is_file(), "an existing file", data=str(path))
        checks.refuse(not path.stat().st_size, "a file with at least one row", data=str(path))
        # Text stays text: what an answer looks like must not depend on the rows before it.
        scan, options = _SCANS[path.suffix.lower()]
        frame = getattr(pl, scan)(path, glob=False, **options)
    elif hasattr(data, "__arrow_c_stream__") or hasattr(data, "__dataframe__"):
        frame = _imported(data, names)
    else:
        expected = (
            "a Polars, pandas or Arrow table, anything else with an Arrow C stream (relations of "
            "DuckDB have one from 1.1 on; of older ones relation.pl()), or the path of a file"
        )
        raise InvalidArgumentError("data", type(data).__name__, expected)
    with _reading(names[0]):
        columns = frame.collect_schema().names()
    require_columns(names, columns)
    return Table(frame.select(names))


def label_of(value: object) -> str:
    """A public answer as the text that the same value has in a column."""
    if isinstance(value, bool | np.bool_):
        return "true" if value else "false"
    if isinstance(value, float | np.floating) and float(value).is_integer():
        return str(int(value) if abs(float(value)) < _EXACT_WHOLE else value)
    return str(value)


def _imported(data: Any, names: Sequence[str]) -> pl.LazyFrame:  # noqa: ANN401 — pandas, Arrow …
    import polars as pl

    data = _narrowed(data, names)
    try:
        speaks = hasattr(data, "__arrow_c_stream__")
        frame = pl.DataFrame(data) if speaks else pl.from_dataframe(data)
    except ImportError as error:
        raise MissingExtraError("reading this table", "pandas") from error
    except (ValueError, TypeError) as error:
        expected = f"one kind of value in a column ({first_line(error)})"
        raise InvalidArgumentError("column", ", ".join(names), expected) from error
    except Exception as error:  # whatever another library raises is about its own data
        expected = f"a table that can be read ({first_line(error)})"
        raise InvalidArgumentError("data", type(data).__name__, expected) from error
    return frame.lazy()


def _narrowed(data: Any, names: Sequence[str]) -> Any:  # noqa: ANN401 — pandas, Arrow …
    """These columns are enough, and others may hold what Arrow cannot.

    What ``select`` and square brackets mean differs from library to library (to DuckDB a list is a
    literal), so that tables of libraries not known here are read whole.
    """
    library = type(data).__module__.partition(".")[0].lstrip("_")
    if hasattr(data, "iloc"):  # pandas, whose names need not be text, and those that follow it
        columns = [str(each) for each in data.columns]
        require_columns(names, columns)
        return data.iloc[:, [columns.index(name) for name in names]]
    if library == "pyarrow" and hasattr(data, "select"):
        require_columns(names, data.column_names)
        return data.select(list(names))
    if library == "duckdb" and hasattr(data, "project"):
        require_columns(names, data.columns)
        return data.project(", ".join('"' + name.replace('"', '""') + '"' for name in names))
    return data


def require_columns(wanted: Sequence[str], names: Sequence[str]) -> None:
    missing = [name for name in wanted if name not in names]
    if not missing:
        return
    name = missing[0]
    close = get_close_matches(name, names, n=1) or [
        each for each in names if each.casefold() == name.casefold()
    ]
    listed = ", ".join(names[:_LISTED_COLUMNS]) + ", ..." * (len(names) > _LISTED_COLUMNS)
    meant = f" (did you mean {close[0]}?)" if close else ""
    raise InvalidArgumentError("column", name, f"one of the columns {listed or 'of data'}{meant}")


def _batches(frame: pl.LazyFrame, name: str, size: int = CHUNK) -> Iterator[pl.DataFrame]:
    """The rows, a chunk at a time, in order: a simulation's seed gives the same reports again."""
    with _reading(name):
        yield from frame.collect_batches(chunk_size=size, maintain_order=True, lazy=True)


def _row(frame: pl.LazyFrame, name: str) -> list[int]:
    """The one row of counts."""
    with _reading(name):
        return list(map(int, frame.collect(engine="streaming").row(0)))


@contextmanager
def _reading(name: str) -> Iterator[None]:
    """What goes wrong in the file is about the data, not about Polars."""
    import polars as pl

    try:
        yield
    except (pl.exceptions.PolarsError, OSError) as error:
        expected = f"readable data in it ({first_line(error)})"
        raise InvalidArgumentError("column", name, expected) from error


def first_line(error: Exception) -> str:
    return str(error).partition("\n")[0]
