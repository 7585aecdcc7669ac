"""Columns of tables and files as devices take them: answers, numbers within bounds, vectors, texts.

A table is a Polars frame, eager or lazy, anything that speaks the Arrow PyCapsule interface (pandas
data frames, Arrow tables and readers, DuckDB relations and many others do), a mapping from names to
columns, a series, or the places of files (:mod:`shoal.engines.files`). It is read a chunk at a
time: memory does not grow with the file. A Spark data frame stays where it is
(:mod:`shoal.engines.spark`).

An engine is a table that answers for its columns: how many rows, which answers, and the counts of
everybody's reports. Making and counting reports is the same code everywhere (:class:`Counting`), on
one machine chunk by chunk and on a cluster partition by partition: counts add up. How a column is
read is said by a coding (:mod:`shoal.questions.settled`), which is turned into an expression here.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar, cast

import numpy as np
import numpy.typing as npt

from shoal import checks
from shoal.engines.files import Files, first_line, reading, require_columns
from shoal.errors import InvalidArgumentError, MissingExtraError
from shoal.mechanisms.base import Device
from shoal.questions.domains import Ball
from shoal.questions.kinds import MOST_LABELS, label_of, spelled
from shoal.questions.settled import (
    Coding,
    Cut,
    Kind,
    Lookup,
    Members,
    Placed,
    Product,
    Settled,
)
from shoal.randomness import Randomness
from shoal.values import Array, Counts

if TYPE_CHECKING:
    import polars as pl

CHUNK = 1 << 18
_VALUE, GROUP = "value", "group"
_ARROW = ("__arrow_c_stream__", "__arrow_c_array__")
_INTERFACES = (*_ARROW, "__dataframe__", "to_frame")  # of tables and series
_EXACT_WHOLE = 2.0**53
UNKNOWN = -1  # the code of a value that must not be
_MANY = 100
MOST_PUBLIC = 200  # answers of a list that is taken from the data
_MOST_BITS = 1 << 25  # of messages made at once: long messages come in smaller pieces
_PIECE = 1 << 17  # texts at once
_ORDER_BITS = 62  # of a random order: two of 60 are the same once in 10^15

Codes = npt.NDArray[np.int64]
Numbers = npt.NDArray[np.float64]
Values = Codes | Numbers
Progress = Callable[[int, int], None]
Spend = Callable[[str], AbstractContextManager[None]]  # whose stage the time inside is
Expression = Callable[[str, "pl.DataType"], "pl.Expr"]  # of a column's name and kind: the code
T = TypeVar("T")


# ------------------------------------------------------------ everybody's reports, and their counts


def _unmeasured(stage: str) -> AbstractContextManager[None]:  # noqa: ARG001
    return nullcontext()


@dataclass(frozen=True, eq=False, kw_only=True)
class Inputs:
    """What people have, as it is read. It can be sent to where a part of the rows is.

    ``cells`` is how many different codes there are, and ``group_kind`` what a column of groups
    holds.
    """

    source: Any  # a column, or columns that are read together, of an engine
    coding: Coding
    cells: int = 0
    group_kind: pl.DataType | None = None

    @property
    def nobody(self) -> Any:  # noqa: ANN401 - numbers or texts, as the chunks are
        """What nobody has: no values, of the kind that the chunks are."""
        empty: dict[str, Any] = {
            "codes": np.empty(0, dtype=np.int64),
            "placed": np.empty((0, 2)),
            "numbers": np.empty(0),
            "vectors": np.empty((0, self.cells)),
            "texts": [],
        }
        return empty[self.coding.reads]

    def chunks(self) -> Iterator[Any]:
        """What everybody has, of a source on this machine, as devices take it."""
        source, coding = self.source, self.coding
        if coding.reads == "codes":
            rows = source.codes(partial(expression, coding, group_kind=self.group_kind))
        elif coding.reads == "placed":
            rows = source.placed(coding, self.group_kind)
        elif coding.reads == "texts":
            rows = source.texts(_PIECE)
        else:
            rows = source.numbers() if coding.reads == "numbers" else source.vectors()
        coded = coding.reads in {"codes", "placed"}
        for values in rows:
            if coded and len(values) and values.min(axis=0).flat[0] < 0:
                expected = "no value that is not in the list, in data that does not change while it"
                raise InvalidArgumentError("column", source.name, f"{expected} is read")
            yield values

    def inputs(self, values: Any, bits: Randomness) -> Any:  # noqa: ANN401
        """The same within the bounds, no longer than the norm, or of so many labels at most."""
        bounded: Any = self.coding
        if bounded.several:
            return drawn(values, len(bounded.labels), bounded.most, bits)
        if bounded.reads == "numbers":
            return np.clip(values, bounded.low, bounded.high).astype(np.float64, copy=False)
        if bounded.reads == "vectors":
            from shoal.mechanisms.vectors import shortened

            return shortened(values, Ball(len(bounded.columns), bounded.norm))
        return values

    def totals(self, values: Any) -> Array:  # noqa: ANN401
        """True totals of a chunk: a person's answer, or number, adds to them.

        Of numbers and vectors as they are: what cutting them costs has to show. Infinite numbers,
        which have no sum, count as the nearest bound.
        """
        reads = self.coding.reads
        if reads == "numbers":
            bounded = np.clip(values, self.coding.low, self.coding.high)  # type: ignore[union-attr]
            return np.array([math.fsum(np.where(np.isinf(values), bounded, values))])
        if reads == "vectors":
            return np.asarray(values.sum(axis=0))
        if reads == "placed":
            numbers, groups = values[:, 1], values[:, 0].astype(np.int64)
            there = ~np.isnan(numbers)
            counts = np.bincount(groups[there], minlength=self.cells)
            sums = np.bincount(groups[there], weights=numbers[there], minlength=self.cells)
            return np.concatenate([counts, sums])
        if self.coding.several:
            bits = values[:, None] >> np.arange(self.cells) & 1
            return np.asarray(bits.sum(axis=0), dtype=np.float64)
        return np.bincount(values, minlength=self.cells).astype(np.float64)

    def size(self) -> tuple[int, int]:
        """How many rows the source has, and how many of them lack what is read."""
        rows, lacking = self.source.size_of(self.coding)
        return rows, lacking


def drawn(values: Codes, k: int, most: int, bits: Randomness) -> Codes:
    """Sets of k labels: of those with more than so many a uniform choice of as many."""
    if most >= k:
        return values
    places = np.arange(k)
    members = values[:, None] >> places & 1 > 0
    many = np.flatnonzero(members.sum(axis=1) > most)
    if not many.size:
        return values
    order = bits.below(1 << _ORDER_BITS, many.size * k).reshape(-1, k).astype(np.int64)
    order[~members[many]] = 1 << _ORDER_BITS  # behind those that are selected
    chosen = np.argsort(order, axis=1, kind="stable")[:, :most]
    values = values.copy()
    values[many] = (1 << chosen).sum(axis=1)
    return values


@dataclass(frozen=True, eq=False)
class Report:
    """What a device runs on what was read of a person.

    Or on what is ``given`` of that: it takes values and randomness, and makes so many ``times``
    as many of them.
    """

    device: Device
    given: Any = None
    times: int = 1


@dataclass(frozen=True, eq=False)
class Part:
    """The counts of some people's reports, and their true totals where these are compared."""

    counts: tuple[Counts, ...]
    totals: Array | None = None

    def __add__(self, other: Part) -> Part:
        totals = self.totals if other.totals is None else other.totals
        if self.totals is not None and other.totals is not None:
            totals = self.totals + other.totals
        return Part(tuple(map(_added, self.counts, other.counts)), totals)


def _added(one: Counts, other: Counts) -> Counts:
    return one + other


@dataclass(frozen=True, eq=False)
class Counting:
    """Everybody's reports, made and counted. Engines differ in where they do it, not in how."""

    inputs: Inputs
    reports: tuple[Report, ...]
    truth: bool = False

    def parts(self, source: Source, bits: Randomness, spend: Spend = _unmeasured) -> Iterator[Part]:
        """The counts of a source on this machine, a chunk at a time, or pieces of long messages."""
        inputs = replace(self.inputs, source=source)
        chunks, wide = inputs.chunks(), 64 * inputs.cells * inputs.coding.several
        sizes = [
            8 * each.device.message_bytes * math.ceil(each.device.messages) * each.times
            for each in self.reports
        ]
        most = max(1, _MOST_BITS // max(*sizes, wide))
        while True:
            with spend("read"):
                values = next(chunks, None)
            if values is None:
                return
            total: Part | None = None
            for start in range(0, len(values), most):
                piece = values[start : start + most]
                if inputs.coding.bounded:
                    piece = inputs.inputs(piece, bits)
                counts = []
                for report in self.reports:
                    with spend("randomize"):
                        given = piece if report.given is None else report.given(piece, bits)
                        sent = report.device.randomize(given, randomness=bits)
                    with spend("count"):
                        counts.append(report.device.tally(sent))
                part = Part(tuple(counts))
                total = part if total is None else total + part
            if total is not None:
                yield replace(total, totals=inputs.totals(values) if self.truth else None)

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
        first = self.reports[0].times
        for part in self.inputs.source.counted(self, n, bits, spend):
            total = part if total is None else total + part
            if progress is not None:
                progress(done + total.counts[0].n // first, n if people is None else people)
        wanted = [n * each.times for each in self.reports]
        if total is None or [each.n for each in total.counts] != wanted:
            raise changed(self.inputs.source.name)
        return total


def changed(name: str) -> InvalidArgumentError:
    """The second reading found what the first did not."""
    return InvalidArgumentError("column", name, "data that does not change while it is read")


# --------------------------------------------------------------------------- codings as expressions


def expression(
    coding: Coding, name: str, kind: pl.DataType, group_kind: pl.DataType | None = None
) -> pl.Expr:
    """The code of a value: null where the row is left out, negative where it must not be."""
    match coding:
        case Lookup(labels=labels, none=none, other=other):
            unknown = UNKNOWN if other is None else other
            return position(name, kind, labels, none=none, other=unknown)
        case Cut():
            return _bin(coding, name, kind)
        case Members():
            return _members(coding, name, kind)
        case Product(groups=groups, inner=inner, answers=answers):
            import polars as pl

            group = expression(groups, GROUP, cast("pl.DataType", group_kind))
            answer = expression(inner, name, kind).cast(pl.Int64)
            inside = group * answers + answer
            return pl.when((group < 0) | (answer < 0)).then(UNKNOWN).otherwise(inside)
        case _:
            raise InvalidArgumentError("coding", coding.reads, "codes")


def place(coding: Cut, name: str, kind: pl.DataType) -> pl.Expr:
    """What a column in bins holds, as places; null where there is none."""
    import polars as pl

    read = as_day if coding.edges.dates else as_number
    return read(name, kind, coding.column).cast(pl.Float64)


def _bin(coding: Cut, name: str, kind: pl.DataType) -> pl.Expr:
    """The number of a value's bin."""
    import polars as pl

    inner, none = np.array(coding.edges.edges[1:-1]), len(coding.edges)

    def numbers(values: pl.Series) -> pl.Series:
        places = values.to_numpy()  # not-a-number where there is none
        codes = np.searchsorted(inner, places, side="right")
        codes[np.isnan(places)] = none
        return pl.Series(codes)

    value = place(coding, name, kind)
    codes = value.map_batches(numbers, return_dtype=pl.Int64, is_elementwise=True)
    return pl.when(codes < none).then(codes) if coding.none is None else codes


def _members(coding: Members, name: str, kind: pl.DataType) -> pl.Expr:
    """The sum of 2^i over the labels that are selected."""
    import polars as pl

    values = _listed(coding, name, kind)
    total = pl.lit(0, dtype=pl.Int64)
    for i, label in enumerate(coding.labels):
        total = total + values.list.contains(label).fill_null(value=False).cast(pl.Int64) * (1 << i)
    return pl.when(values.is_not_null()).then(total) if coding.drop else total


def _listed(coding: Members, name: str, kind: pl.DataType) -> pl.Expr:
    """The list of what is selected; null for no value."""
    if kind_of(kind) == "text":
        apart, mark = coding.labels, coding.separator
        wrong = [each for each in apart if mark in each or each != each.strip()]
        expected = f"answers without {mark!r} and blanks around them, as the column is text"
        checks.refuse(wrong, expected, labels=next(iter(wrong), None))
    return as_list(name, kind, coding.column, coding.separator)


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

    def require_public(self, name: str, argument: str, instead: str, *, insisted: bool) -> None:
        """Such as a public list may have: neither many, nor numbers of which some are not whole.

        What the answers are decides, and not the type of the column: in a text file all values are
        text. Who insists may have these, but not identifiers: a list that is public has no names.
        """
        import polars as pl

        many, taken = self.tally.height, "in a list taken from the data"
        if many > _MANY and 2 * self.single > many:
            single = "most are in one row only, as identifiers are"
            expected = f"answers that people share {taken} ({single}: {instead})"
            raise InvalidArgumentError(argument, name, expected)
        wanted = f"at most {MOST_PUBLIC} different answers, not {many:,}"
        wrong = not insisted and many > MOST_PUBLIC
        if not wrong and not insisted:
            numbers = self.tally[_VALUE].str.strip_chars().cast(pl.Float64, strict=False)
            if not numbers.has_nulls() and bool((numbers != numbers.floor()).any()):
                wanted, wrong = "no numbers that are not whole", True
        insist = "public=True / --public-list takes it anyway"
        checks.refuse(wrong, f"{wanted} {taken} ({instead}; {insist})", **{argument: name})

    def require_few(self, name: str) -> None:
        """Few enough for a list of answers."""
        expected = f"at most {MOST_LABELS:,} different answers (is it an identifier?)"
        checks.refuse(self.tally.height > MOST_LABELS, expected, column=name)


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
    """Columns on this machine, perhaps of files."""

    frame: pl.LazyFrame
    files: Files | None = field(default=None, kw_only=True)

    @property
    def names(self) -> list[str]:
        """Of the columns."""
        return self.frame.collect_schema().names()

    def inputs(self, settled: Settled) -> Inputs:
        """What people have of a question."""
        coding: Any = settled.coding
        if coding.reads == "vectors":
            return Inputs(
                source=self.rows(coding.columns), coding=coding, cells=len(coding.columns)
            )
        groups, cells = settled.groups, len(settled.labels)
        if groups is None:
            return Inputs(source=self.column(coding.column), coding=coding, cells=max(1, cells))
        source = self.column(coding.column, groups.name)
        kind = self.column(groups.name).kind()
        cells = cells or len(groups.labels)
        return Inputs(source=source, coding=coding, cells=cells, group_kind=kind)

    def kind(self, column: str) -> Kind:
        """What a column holds."""
        return kind_of(self.column(column).kind())

    def size(self, coding: Coding) -> tuple[int, int]:
        """How many rows there are, and how many of them lack what is read."""
        read: Any = coding
        if coding.reads == "vectors":
            return self.rows(read.columns).size_of(coding)
        return self.column(read.column).size_of(coding)

    def lacking(self, coding: Coding) -> str:
        """The column in which a row lacks what is read: of several the first one."""
        read: Any = coding
        if coding.reads != "vectors":
            return str(read.column)
        _, nulls, _ = self.rows(read.columns).size()
        pairs = zip(read.columns, nulls, strict=True)
        return str(next(name for name, lacks in pairs if lacks))

    def answers(self, column: str) -> Answers:
        """The different answers of a column."""
        return self.column(column).answers()

    def column(self, name: str, by: str | None = None) -> Column:
        """One of the columns; with ``by``, another that tells groups of its rows apart."""
        import polars as pl

        group = [] if by is None else [pl.col(by).alias(GROUP)]
        frame = self.frame.select(pl.col(name).alias(_VALUE), *group)
        return Column(name, frame, files=self.files)

    def rows(self, names: Sequence[str]) -> Rows:
        """Columns of numbers that are read together."""
        return Rows(tuple(names), self.frame, files=self.files)

    def per_person(self, person: str, reports: int, bits: Randomness) -> Table:
        """As many rows of everybody: of more a uniform choice, and empty rows for missing ones.

        ``person`` is the column that tells whose row it is; the others are kept. In a random order
        of all rows those of one person are in a random order, whatever the rows of others are. The
        table is in memory from here on.
        """
        import polars as pl

        with reading(person, self.files):
            rows = self.frame.collect(engine="streaming")
        ids = rows[person]
        unknown = ids.null_count() + (int(ids.is_nan().sum()) if ids.dtype.is_float() else 0)
        require_owners(person, unknown)
        shuffled = rows[bits.permutation(rows.height)]
        sample = shuffled.filter(pl.int_range(pl.len()).over(person) < reports).drop(person)
        missing = ids.n_unique() * reports - sample.height
        return Table(pl.concat([sample, sample.clear(missing)]).lazy())


def require_owners(person: str, unknown: int) -> None:
    """No row is nobody's."""
    expected = f"a person in every row of the column ({unknown:,} rows have none)"
    checks.refuse(unknown, expected, person=person)


@dataclass(frozen=True, eq=False)
class Column(Source):
    """One column, read anew by every question that is asked of it."""

    name: str
    frame: pl.LazyFrame
    files: Files | None = field(default=None, kw_only=True)

    def groups(self, by: str) -> Answers:
        """The groups that the rows are in, as answers of the column that they are by."""
        import polars as pl

        groups = self.frame.select(pl.col(GROUP).alias(_VALUE))
        return Column(by, groups, files=self.files).answers()

    def group(self, label: str) -> Column:
        """The rows of one group."""
        import polars as pl

        group = as_text(pl.col(GROUP), self.frame.collect_schema()[GROUP], self.name)
        return replace(self, frame=self.frame.filter(group == label).select(_VALUE))

    def kind(self) -> pl.DataType:
        """What the column holds."""
        return self.frame.collect_schema()[_VALUE]

    def size(self, listed: Sequence[str] = ()) -> tuple[int, int]:  # noqa: ARG002
        """How many rows there are, and how many of them have no answer.

        An engine may keep how many have each of the answers that are ``listed``.
        """
        import polars as pl

        rows, nulls = _row(self._labelled().select(pl.len(), pl.first().null_count()), self)
        return rows, nulls

    def answers(self, *, few: bool = True) -> Answers:
        """The different answers; too many of them end the reading early, unless not ``few``."""
        import polars as pl

        answers: Answers | None = None
        for batch in _batches(self._labelled(), self):
            chunk = batch.to_series().alias(_VALUE).value_counts()
            own = Answers.of(chunk[_VALUE], chunk["count"])
            answers = own if answers is None else answers + own
            if few:
                answers.require_few(self.name)
        nobody = pl.Series(_VALUE, [], dtype=pl.String), pl.Series([], dtype=pl.UInt64)
        return Answers.of(*nobody) if answers is None else answers

    def texts(self, size: int) -> Iterator[list[str]]:
        """Everybody's text, so many at a time; nothing for rows without one."""
        for batch in _batches(self._labelled(), self, size):
            yield batch.to_series().fill_null("").to_list()

    def codes(self, coding: Expression) -> Iterator[Codes]:
        """Everybody's code; rows for which it is null are left out."""
        import polars as pl

        kind = self.frame.collect_schema()[_VALUE]
        code = coding(_VALUE, kind).cast(pl.Int64).alias(_VALUE)
        for batch in _batches(self.frame.select(code).drop_nulls(), self):
            yield batch.to_series().to_numpy()

    def size_of(self, coding: Coding) -> tuple[int, int]:
        """How many rows there are, and how many of them lack what is read."""
        lacks, kind, read = coding.lacks, self.kind(), cast("Any", coding)
        if lacks == "number":
            return self.numeric_size()
        if lacks == "list":
            return self.valued(partial(_listed, read))
        if lacks == "place":
            return self.valued(partial(place, getattr(read, "inner", read)))
        if coding.reads == "codes":
            expression(coding, _VALUE, kind, kind)  # refuses columns of something else
        return self.size(getattr(coding, "labels", ()))

    def placed(self, coding: Placed, group_kind: pl.DataType | None) -> Iterator[Numbers]:
        """Everybody's group and number, which may be none."""
        import polars as pl

        group = pl.lit(0)
        if coding.groups is not None:
            group = expression(coding.groups, GROUP, cast("pl.DataType", group_kind))
        number = as_number(_VALUE, self.kind(), self.name)
        rows = self.frame.select(group.cast(pl.Float64).alias(GROUP), number.alias(_VALUE))
        rows = rows.drop_nulls(_VALUE) if coding.drop else rows
        for batch in _batches(rows, self):
            yield batch.with_columns(pl.col(_VALUE).fill_null(math.nan)).to_numpy()

    def valued(self, coding: Expression) -> tuple[int, int]:
        """How many rows there are, and for how many of them the expression is null."""
        import polars as pl

        value = coding(_VALUE, self.kind())
        rows, nulls = _row(self.frame.select(pl.len(), value.null_count()), self)
        return rows, nulls

    def numeric_size(self) -> tuple[int, int]:
        """How many rows there are, and how many of them have no number (but text, perhaps)."""
        rows, _, nulls = self._numeric.size()
        return rows, nulls

    def numbers(self) -> Iterator[Numbers]:
        """The numbers; rows without one are left out."""
        return (vectors[:, 0] for vectors in self._numeric.vectors())

    @property
    def _numeric(self) -> Rows:
        return Rows((self.name,), self.frame.rename({_VALUE: self.name}), files=self.files)

    def _labelled(self) -> pl.LazyFrame:
        import polars as pl

        kind = self.frame.collect_schema()[_VALUE]
        return self.frame.select(as_text(pl.col(_VALUE), kind, self.name))


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

    def codes(self, coding: Expression) -> Iterator[Codes]:
        """As those of a column, the same ones side by side."""
        import polars as pl

        tally = self.answers.tally
        without = pl.DataFrame({_VALUE: [None], "count": [self.answers.nulls]}, schema=tally.schema)
        code = coding(_VALUE, tally.schema[_VALUE]).cast(pl.Int64).alias(_VALUE)
        coded = pl.concat([tally, without]).select(code, pl.col("count").cast(pl.Int64))
        codes, times = coded.drop_nulls(_VALUE).to_numpy().T
        ends = np.cumsum(times)
        last = int(ends[-1]) if self.last is None else self.last
        for start in range(self.first, last, self.chunk):
            stop = min(start + self.chunk, last)
            yield np.repeat(codes, np.diff(np.clip(ends, start, stop), prepend=start))


def position(
    name: str, kind: pl.DataType, labels: Sequence[str], *, none: int | None, other: int
) -> pl.Expr:
    """The position of a value's text in ``labels``; ``other`` if it is not there."""
    import polars as pl

    value = as_text(pl.col(name), kind, name)
    known = value.cast(pl.Enum(list(labels)), strict=False).to_physical().cast(pl.Int64)
    return pl.when(value.is_null()).then(none).otherwise(known.fill_null(other))


def as_text(value: pl.Expr, kind: pl.DataType, column: str) -> pl.Expr:
    """Values as text: whole numbers without a decimal point, nothing for not-a-number."""
    import polars as pl

    if kind.is_float():
        number = value.fill_nan(None)
        whole = (number == number.floor()) & (number.abs() < _EXACT_WHOLE)
        text = number.cast(pl.Int64, strict=False).cast(pl.String)
        return pl.when(whole).then(text).otherwise(number.cast(pl.String))
    expected = f"a column of text, numbers or dates ({column} holds {kind})"
    opaque = kind.is_nested() or kind in {pl.Binary, pl.Object}
    checks.refuse(opaque, expected, column=column)
    return value.cast(pl.String)


def as_day(name: str, kind: pl.DataType, column: str) -> pl.Expr:
    """Dates, moments or text that begins with a date as days since 1970; null for other text."""
    import polars as pl

    value = pl.col(name)
    if kind == pl.String:
        value = value.str.strip_chars().str.slice(0, 10).str.to_date("%Y-%m-%d", strict=False)
    elif kind == pl.Datetime:
        value = value.dt.date()
    elif kind != pl.Date:
        raise InvalidArgumentError("column", column, f"a column of dates (not of {kind})")
    return value.cast(pl.Int32)


def as_list(name: str, kind: pl.DataType, column: str, separator: str) -> pl.Expr:
    """Lists, or text of JSON or with separators, as lists of text; null for no value."""
    import polars as pl

    value = pl.col(name)
    if kind == pl.List or kind == pl.Array:  # noqa: PLR1714 - of any inner type: no hash is equal
        inner = kind.inner  # type: ignore[attr-defined]  # of lists
        value = value if kind == pl.List else value.arr.to_list()
        return value.list.eval(as_text(pl.element(), inner, column))
    expected = f"a column of lists, or of text with {separator!r} between answers (not of {kind})"
    checks.refuse(kind_of(kind) != "text", expected, column=column)
    text = value.cast(pl.String)
    parts = text.str.split(separator).list.eval(pl.element().str.strip_chars())
    found = text.map_batches(_json_lists, return_dtype=pl.List(pl.String), is_elementwise=True)
    return pl.coalesce(found, parts)


def _json_lists(texts: pl.Series) -> pl.Series:
    """The lists that texts are in JSON, and nothing for other texts: lines of JSON come as text."""
    import polars as pl

    lists: list[list[str | None] | None] = [None] * len(texts)
    for row in np.flatnonzero(texts.str.starts_with("[").fill_null(value=False).to_numpy()):
        try:
            inside = json.loads(texts[int(row)])
        except (ValueError, RecursionError):
            continue
        lists[row] = [None if each is None else label_of(each) for each in inside]
    return pl.Series(texts.name, lists, dtype=pl.List(pl.String))


def kind_of(kind: pl.DataType) -> Kind:
    """What a column of this type holds."""
    import polars as pl

    if kind == pl.String or kind == pl.Categorical or kind == pl.Enum:  # noqa: PLR1714 - as above
        return "text"
    if kind.is_numeric():
        return "whole" if kind.is_integer() else "real"
    return "date" if kind in {pl.Date, pl.Datetime} else "other"


def as_number(name: str, kind: pl.DataType, column: str) -> pl.Expr:
    """Values as floating-point numbers, nothing for not-a-number and other text."""
    import polars as pl

    value = pl.col(name)
    if kind == pl.String:
        value = value.str.strip_chars()
    elif not kind.is_numeric():
        raise InvalidArgumentError("column", column, f"a column of numbers (not of {kind})")
    return value.cast(pl.Float64, strict=False).fill_nan(None)


@dataclass(frozen=True, eq=False)
class Rows(Source):
    """Columns of numbers, read together: one row of them per person."""

    names: tuple[str, ...]
    frame: pl.LazyFrame
    files: Files | None = field(default=None, kw_only=True)

    @property
    def name(self) -> str:  # type: ignore[override] # a field of columns
        """What the rows are called."""
        return spelled(self.names)

    def size_of(self, coding: Coding) -> tuple[int, int]:  # noqa: ARG002
        """How many rows there are, and how many of them lack a number."""
        rows, _, lacking = self.size()
        return rows, lacking

    def size(self) -> tuple[int, list[int], int]:
        """How many rows there are, how many lack a number in each column, and in any."""
        import polars as pl

        numbers = self.expressions()
        counts = self.frame.select(
            pl.len().alias("rows"),
            *(number.null_count().alias(f"{i}") for i, number in enumerate(numbers)),
            pl.any_horizontal(number.is_null() for number in numbers).sum().alias("any"),
        )
        rows, *nulls, lacking = _row(counts, self)
        return rows, nulls, lacking

    def vectors(self) -> Iterator[Numbers]:
        """Rows of numbers; those that lack one are left out."""
        frame = self.frame.select(self.expressions()).drop_nulls()
        for batch in _batches(frame, self, max(1, CHUNK // len(self.names))):
            yield batch.to_numpy()

    def expressions(self) -> list[pl.Expr]:
        """The columns as floating-point numbers."""
        kinds = self.frame.collect_schema()
        return [as_number(name, kinds[name], name) for name in self.names]


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

        return spark.SparkTable.of(data, names)
    if isinstance(data, Table):
        require_columns(names, data.names)
        return data
    files = Files.of(data)
    if isinstance(data, pl.DataFrame | pl.LazyFrame):
        frame = data.lazy()
    elif files is not None:
        frame = files.frame(names)
    elif isinstance(data, Mapping) or any(hasattr(data, each) for each in _INTERFACES):
        frame = _imported(data, names)
    else:
        expected = (
            "a Polars, pandas or Arrow table, anything else with an Arrow C stream (relations of "
            "DuckDB have one from 1.1 on; of older ones relation.pl()), a mapping from names to "
            "columns, a series, or the paths of files"
        )
        raise InvalidArgumentError("data", type(data).__name__, expected)
    with reading(names[0], files):
        columns = frame.collect_schema().names()
    require_columns(names, columns)
    return Table(frame.select(names), files=files)


def only_column(data: Any) -> str | None:  # noqa: ANN401 - any table
    """The name of the column where there is only one: that of a series, or of a mapping's."""
    if isinstance(data, Mapping) and len(data) == 1:
        return str(next(iter(data)))
    if not _is_series(data):
        return None
    return _VALUE if data.name in {None, ""} else str(data.name)


def listed(data: object) -> bool:
    """Whether it is a list of values, or an array or a series of them, and no table."""
    table = isinstance(data, str | bytes | Mapping | Table) or hasattr(data, "columns")
    return hasattr(data, "__iter__") and not table


def _is_series(data: object) -> bool:
    """One column: of Polars, of pandas, or of those that follow them."""
    return hasattr(data, "to_frame") and hasattr(data, "name") and not hasattr(data, "columns")


def _imported(data: Any, names: Sequence[str]) -> pl.LazyFrame:  # noqa: ANN401 — pandas, Arrow …
    import polars as pl

    data = _narrowed(data, names)
    try:
        speaks = isinstance(data, dict) or any(hasattr(data, each) for each in _ARROW)
        try:
            frame = pl.DataFrame(data) if speaks else pl.from_dataframe(data)
        except pl.exceptions.SchemaError:  # an array is one column
            require_columns(names, names[:1])
            frame = pl.Series(data).to_frame(names[0])
        except ImportError:  # Polars takes text of pandas through pyarrow, or as Python's
            if not hasattr(data, "iloc"):
                raise
            frame = pl.DataFrame([_in_python(name, column) for name, column in data.items()])
    except ImportError as error:
        raise MissingExtraError("reading this table", "pandas") from error
    except (ValueError, TypeError):  # what they say may name somebody's value
        expected = "one kind of value in a column"
        raise InvalidArgumentError("column", ", ".join(names), expected) from None
    except Exception as error:  # whatever another library raises is about its own data
        expected = f"a table that can be read ({first_line(error)})"
        raise InvalidArgumentError("data", type(data).__name__, expected) from error
    return frame.lazy()


def _in_python(name: object, column: Any) -> pl.Series:  # noqa: ANN401 — of pandas
    import polars as pl

    return pl.Series(str(name), column.astype(object).where(column.notna(), None).tolist())


def _narrowed(data: Any, names: Sequence[str]) -> Any:  # noqa: ANN401 — pandas, Arrow …
    """These columns are enough, and others may hold what Arrow cannot.

    What ``select`` and square brackets mean differs from library to library (to DuckDB a list is a
    literal), so that tables of libraries not known here are read whole.
    """
    library = type(data).__module__.partition(".")[0].lstrip("_")
    if isinstance(data, Mapping):
        require_columns(names, list(map(str, data)))
        return {name: data[name] for name in names}
    if _is_series(data):
        name = names[0] if data.name in {None, ""} else str(data.name)
        require_columns(names, [name])
        return data.to_frame(name)
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


def _batches(frame: pl.LazyFrame, of: Column | Rows, size: int = CHUNK) -> Iterator[pl.DataFrame]:
    """The rows, a chunk at a time, in order: a simulation's seed gives the same reports again."""
    with reading(of.name, of.files):
        yield from frame.collect_batches(chunk_size=size, maintain_order=True, lazy=True)


def _row(frame: pl.LazyFrame, of: Column | Rows) -> list[int]:
    """The one row of counts."""
    with reading(of.name, of.files):
        return list(map(int, frame.collect(engine="streaming").row(0)))
