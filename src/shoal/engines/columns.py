"""Columns of tables and files as devices take them: answers, numbers within bounds, vectors.

A table is a Polars frame, eager or lazy, anything that speaks the Arrow PyCapsule interface (pandas
data frames, Arrow tables and readers, DuckDB relations and many others do), a mapping from names to
columns, a series, or the places of files (:mod:`shoal.engines.files`). It is read a chunk at a
time: memory does not grow with the file. A Spark data frame stays where it is
(:mod:`shoal.engines.spark`).

An engine is a table that answers for its columns: how many rows, which answers, and the counts of
everybody's reports. Making and counting reports is the same code everywhere (:class:`Counting`), on
one machine chunk by chunk and on a cluster partition by partition: counts add up.

Which answers there are is fixed before anybody reports. A public list is taken as it is, with an
answer for "no answer" and one for "not in the list", whether or not the data has any: the data does
not decide. Without a list the answers in the data are used, and a note calls them public.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections import Counter
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
from shoal.mechanisms import registry
from shoal.mechanisms.base import Device
from shoal.questions.domains import Ball, Cells, Domain, Interval
from shoal.randomness import Randomness
from shoal.values import Array, Counts

if TYPE_CHECKING:
    import polars as pl

    from shoal.engines.bins import Binning, Bins, Quantiles, Ranges

NONE = "(none)"
OTHER = "(other)"
PUBLIC_LIST = "the list of answers is treated as public: it was taken from the data"
PUBLIC_NULLS = "who answered is treated as public: rows without an answer are left out"
PUBLIC_GROUPS = "the list of groups is treated as public: it was taken from the data"
PUBLIC_TYPE = "whether numbers are whole is treated as public: it is the type of the column"
# Notes that a guarantee assumes.
PUBLIC = frozenset({PUBLIC_LIST, PUBLIC_GROUPS, PUBLIC_NULLS, PUBLIC_TYPE})
PADDED = "a row that a person lacks has no number: use bins"
CLAMPED = "numbers outside the bounds count as the nearest bound"
SHORTENED = "vectors longer than the norm count as scaled down to it"
MOST_ANSWERS = 1_000_000
GIVE_LIST = "categories / --categories FILE gives a list"
_INSTEAD = f"{GIVE_LIST}, bins / --bins is for numbers, heavy_hitters / --open for text"
CHUNK = 1 << 18
_VALUE, GROUP = "value", "group"
_ARROW = ("__arrow_c_stream__", "__arrow_c_array__")
_INTERFACES = (*_ARROW, "__dataframe__", "to_frame")  # of tables and series
_EXACT_WHOLE = 2.0**53
UNKNOWN = -1  # the code of a value that must not be
_MANY = 100
MOST_PUBLIC = 200  # answers of a list that is taken from the data
_NAMED = 6
_MOST_BITS = 1 << 25  # of messages made at once: long messages come in smaller pieces

Codes = npt.NDArray[np.int64]
Numbers = npt.NDArray[np.float64]
Values = Codes | Numbers
Lists = Sequence[object] | Mapping[str, Sequence[object]]
Bounds = tuple[float, float] | Mapping[str, tuple[float, float]]
Progress = Callable[[int, int], None]
Spend = Callable[[str], AbstractContextManager[None]]  # whose stage the time inside is
Coding = Callable[[str, "pl.DataType"], "pl.Expr"]  # of a column's name and kind: the code
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

    def inputs(self, values: Any) -> Any:  # noqa: ANN401
        """The same as devices take it."""
        return values

    def totals(self, values: Any) -> Array:  # noqa: ANN401, ARG002
        """True totals of a chunk: a person's answer, or number, adds to them. None, unless said."""
        return np.empty(0)

    @abstractmethod
    def size(self) -> tuple[int, int]:
        """How many rows the source has, and how many of them lack what is collected."""


@dataclass(frozen=True, eq=False, kw_only=True)
class Answering(Inputs):
    """People of whom each has one of ``labels``: how many have each is all that is needed of them.

    What becomes of a value is one expression, ``code``, whether there is a list of answers, bins of
    numbers or groups beside them.
    """

    source: Column
    labels: tuple[str, ...]

    @property
    def nobody(self) -> Codes:
        """No answers."""
        return np.empty(0, dtype=np.int64)

    @abstractmethod
    def code(self, name: str, kind: pl.DataType) -> pl.Expr:
        """The number of the label of a value, in the column of this name and kind.

        Null where the row is left out, negative where there must not be such a value.
        """

    def chunks(self) -> Iterator[Codes]:
        """The number of everybody's label."""
        for codes in self.source.codes(self.code):
            if codes.size and int(codes.min()) < 0:
                raise changed(self.source.name)
            yield codes

    def totals(self, values: Values) -> Array:
        """How many really have each label."""
        return np.bincount(values, minlength=len(self.labels)).astype(np.float64)

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
                    piece = self.inputs.inputs(values[start : start + most])
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
    ``family`` gives the randomizers of a name for these values. ``bins`` are what numbers or dates
    are counted in, ``quantiles`` and ``ranges`` (their first and last bins) what is asked of them.
    ``by`` is the column of the groups that people are in.
    """

    name: str
    n: int
    labels: tuple[str, ...] = ()
    bins: Bins | None = None
    quantiles: tuple[float, ...] = ()
    ranges: tuple[tuple[int, int], ...] = ()
    by: str = ""
    notes: tuple[str, ...]
    question: dict[str, Any]
    family: Callable[[str], Callable[..., Device]]

    @property
    @abstractmethod
    def domain(self) -> Domain:
        """What devices take."""

    @abstractmethod
    def require(self, randomizer: Device, *, planned: bool = False) -> None:
        """The randomizer, of a plan or not, takes these values."""


@dataclass(frozen=True, eq=False, kw_only=True)
class Categorical(Answering, Coded):
    """A column of which every row has one of ``labels``: a list of answers, or bins of numbers."""

    known: int  # labels before those that were added
    none: int | None  # the label of rows without a value, unless they are left out

    @property
    def _listed(self) -> str:
        """What the labels are, in words."""
        return f"the list of {self.known}" if self.bins is None else f"{self.known} bins"

    @property
    def domain(self) -> Domain:
        """One of the labels."""
        return Cells(len(self.labels))

    def require(self, randomizer: Device, *, planned: bool = False) -> None:
        """The randomizer takes as many answers."""
        k, known, own = len(self.labels), self.known, randomizer.domain
        if own.takes != "answers":
            expected = f"a randomizer of answers for {self.name} (bounds are for numbers)"
            raise InvalidArgumentError("randomizer", randomizer, expected)
        if own != self.domain:
            counted = " and ".join([self._listed, *self.labels[known:]])
            advice = f"plan with --categories {k}: " if planned else ""
            expected = f"a randomizer of k={k} answers for {self.name} ({advice}{counted})"
            raise InvalidArgumentError("k", own.arguments["k"], expected)


@dataclass(frozen=True, eq=False, kw_only=True)
class Choices(Categorical):
    """A column of answers; those that are not in a public list are ``other``, one of the labels."""

    other: int | None

    @classmethod
    def of(
        cls,
        column: Column,
        categories: Sequence[object] | None = None,
        *,
        drop_nulls: bool,
        answers: Answers | None = None,
        public_list: bool = False,
        padded: bool = False,
        instead: str = _INSTEAD,
    ) -> Choices:
        """A public list, and an answer for what is not in it; or the answers that the data has.

        Which these are may be known already. They have to be such as a list that everybody may
        know would have: few, and no measurements, unless ``public_list`` insists that they are.
        Who is refused is told what to do ``instead``. ``padded`` columns have an answer for "no
        answer", whether or not there is a row without.
        """
        listed = categories is not None
        if categories is None:
            answers = column.answers() if answers is None else answers
            rows, nulls = answers.rows, answers.nulls
            values = answers.distinct
        else:
            answers = None
            expected = f"a list of 1 to {MOST_ANSWERS:,} answers"
            checks.refuse(isinstance(categories, str | bytes), expected, categories=categories)
            nulls_added = f"no None in the list ({NONE} is added)"
            checks.refuse(any(value is None for value in categories), nulls_added, categories=None)
            values = tuple(map(label_of, categories))
            fits = 1 <= len(values) <= MOST_ANSWERS
            checks.refuse(not fits, expected, categories=f"{len(values)} answers")
            rows, nulls = column.size(values)
        n = people(column.name, rows, nulls, drop_nulls=drop_nulls)
        none = not drop_nulls and (listed or padded or nulls > 0)
        added = (*[NONE] * none, *[OTHER] * listed)
        for value in added:
            taken = "that name is taken for rows without a known one"
            checks.refuse(value in values, f"no answer called {value} ({taken})", answer=value)
        twice = [value for value, times in Counter(values).items() if times > 1]
        checks.refuse(twice, "every answer once", categories=next(iter(twice), None))
        if answers is not None:
            answers.require_public(column.name, instead=instead, insisted=public_list)
        labels = (*values, *added)
        same = f"all {n:,} rows have the same one" if n > 1 else "there is one row"
        expected = f"at least two different answers ({same})"
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

    def code(self, name: str, kind: pl.DataType) -> pl.Expr:
        """The number of an answer."""
        other = UNKNOWN if self.other is None else self.other
        return position(name, kind, self.labels[: self.known], none=self.none, other=other)


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
        n = people(column.name, rows, nulls, drop_nulls=drop_nulls, lacking=column.name)
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

    @property
    def domain(self) -> Domain:
        """A number between the bounds."""
        return Interval(*self.bounds)

    def inputs(self, values: Values) -> Values:
        """Numbers within the bounds."""
        return np.clip(values, *self.bounds).astype(np.float64, copy=False)

    def totals(self, values: Values) -> Array:
        """The true sum, of the numbers as they are: what cutting them costs has to show.

        Infinite ones, which have no sum, count as the nearest bound.
        """
        finite = np.where(np.isinf(values), np.clip(values, *self.bounds), values)
        return np.array([math.fsum(finite)])

    def require(self, randomizer: Device, *, planned: bool = False) -> None:  # noqa: ARG002
        """The randomizer has the same bounds."""
        own = randomizer.domain
        if own.takes != "numbers":
            expected = f"a randomizer of numbers for {self.name} (it has bounds)"
            raise InvalidArgumentError("randomizer", randomizer, expected)
        expected = f"a randomizer with the bounds {self.bounds} of {self.name}"
        limits = tuple(own.arguments.values())
        checks.refuse(not own.accepts(self.domain), expected, bounds=limits)


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
        n = people(name, total, without, drop_nulls=drop_nulls, lacking=lacking)
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

    @property
    def domain(self) -> Domain:
        """Vectors within the norm."""
        return self.ball

    def inputs(self, values: Values) -> Values:
        """Vectors no longer than the norm."""
        from shoal.mechanisms.vectors import shortened

        return shortened(values, self.ball)

    def totals(self, values: Values) -> Array:
        """The true sum, of the vectors as they are: what shortening costs has to show."""
        return np.asarray(values.sum(axis=0))

    def require(self, randomizer: Device, *, planned: bool = False) -> None:
        """The randomizer takes vectors of this many coordinates and this length."""
        if randomizer.domain.accepts(self.ball):
            return
        d, norm = self.ball.dimension, self.ball.norm
        expected = f"a plan with dimension={d}, norm={norm:g} (--dimension {d} --norm {norm:g})"
        if not planned:
            expected = (
                f"a randomizer of vectors of {d} coordinates: privunit of dimension {d + 1}, or "
                f"split-and-mix-vectors of dimension {d} and bound {self.ball.widest:g}"
            )
        raise InvalidArgumentError("randomizer", randomizer, expected)


def changed(name: str) -> InvalidArgumentError:
    """The second reading found what the first did not."""
    return InvalidArgumentError("column", name, "data that does not change while it is read")


def people(name: str, rows: int, nulls: int, *, drop_nulls: bool, lacking: str = "") -> int:
    """How many report: those without an answer may be left out, but not everybody.

    If an answer is a number, nobody may be without one in the ``lacking`` column.
    """
    n = rows - nulls if drop_nulls else rows
    expected = f"at least one row{' with an answer' if rows else ''} in column {name}"
    checks.refuse(n < 1, expected, column=f"{name} without any")
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
        binned = chosen(by_column["bins"], name) is not None
        numbers = chosen(by_column["bounds"], name) is not None and not binned
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
        expected = f"no {name} with columns, which are one vector and have a norm"
        checks.refuse(value is not None, expected, **{name: value})
    expected = "a norm with columns: the largest length of a vector, which is public"
    checks.refuse(norm is None, expected, norm=norm)
    for name, value in single.items():
        if isinstance(value, Mapping):
            expected = f"one {name} for the vector that the columns are"
            raise InvalidArgumentError(name, ", ".join(map(str, value)), expected)
    _require_kind(single["randomizer"], "vectors")
    return names


def _require_kind(randomizer: object, what: registry.Takes) -> None:
    """A randomizer given by its name is one of what there is to collect."""
    if isinstance(randomizer, str):
        if not registry.line(randomizer).local:
            raise registry.without_epsilon(randomizer)
        kind = registry.names(what, local=True)
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
    bins: Binning | Mapping[str, Binning] | None,
    quantiles: Quantiles | Mapping[str, Quantiles] | None,
    ranges: Ranges | Mapping[str, Ranges] | None,
    drop_nulls: bool,
    epsilon: float | None,
    public_list: bool,
    by: str | None = None,
    groups: Sequence[object] | None = None,
    padded: bool = False,
) -> list[Coded]:
    """Every column ready for the devices; with a norm, the vectors that the columns are.

    How many bins there are, if they are automatic, depends on each column's part of epsilon. With
    ``by``, the answers of a column are those of people in groups. If it is ``padded``, empty rows
    may stand for those that a person does not have.
    """
    columns = table(data, [*names, *([] if by is None else [by])])
    for name in names:
        bounded = chosen(bounds, name) is not None and chosen(bins, name) is None
        number = norm is not None or bounded
        expected = f"no mean of {name} with several reports per person ({PADDED})"
        checks.refuse(padded and number, expected, column=name)
    if norm is not None:
        return [Vectors.bounded(columns.rows(names), norm, drop_nulls=drop_nulls)]
    made: list[Coded] = []
    for name in names:
        values = columns.column(name, by)
        listed, limits = chosen(categories, name), chosen(bounds, name)
        cut = cast("Binning | None", chosen(bins, name))
        statistics: dict[str, Any] = {
            "quantiles": chosen(quantiles, name),
            "ranges": chosen(ranges, name),
        }
        for what, wish in statistics.items():
            several = isinstance(quantiles if what == "quantiles" else ranges, Mapping)
            wrong = wish is not None and cut is None and (several or bins is None)
            checks.refuse(wrong, f"bins with {what} of {name}", **{what: wish})
        if cut is not None:
            from shoal.engines.bins import Binned

            expected = f"categories or bins for {name}, not both"
            checks.refuse(listed is not None, expected, bins=cut)
            each = None if epsilon is None else epsilon / len(names)
            binned = Binned.of(values, cut, limits, drop_nulls=drop_nulls, epsilon=each)
            made.append(binned.with_statistics(**statistics))
        elif limits is None:
            made.append(
                Choices.of(
                    values, listed, drop_nulls=drop_nulls, public_list=public_list, padded=padded
                )
            )
        elif listed is None:
            made.append(Amounts.bounded(values, limits, drop_nulls=drop_nulls))
        else:
            expected = f"categories or bounds for {name}, not both"
            raise InvalidArgumentError("bounds", limits, expected)
    if by is None:
        return made
    from shoal.engines import groups as grouping

    lists = grouping.listed(columns.column(by), groups, public_list=public_list, padded=padded)
    return [grouping.Grouped.of(cast("Categorical", each), lists) for each in made]


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

    @property
    def measured(self) -> bool:
        """Whether all answers are numbers, and some of them are not whole.

        That decides, and not the type of the column: in a text file all values are text.
        """
        import polars as pl

        numbers = self.tally[_VALUE].str.strip_chars().cast(pl.Float64, strict=False)
        return not numbers.has_nulls() and bool((numbers != numbers.floor()).any())

    def require_public(
        self, name: str, argument: str = "column", instead: str = _INSTEAD, *, insisted: bool
    ) -> None:
        """Such as a public list may have: neither many, nor numbers that are measured.

        Who insists may have these, but not identifiers: a list that is public has no names.
        """
        many, taken = self.tally.height, "in a list taken from the data"
        if many > _MANY and 2 * self.single > many:
            single = "most are in one row only, as identifiers are"
            expected = f"answers that people share {taken} ({single}: {instead})"
            raise InvalidArgumentError(argument, name, expected)
        wanted = f"at most {MOST_PUBLIC} different answers, not {many:,}"
        wrong = not insisted and many > MOST_PUBLIC
        if not wrong and not insisted and self.measured:
            wanted, wrong = "no numbers that are not whole", True
        insist = "public_list / --public-list takes it anyway"
        checks.refuse(wrong, f"{wanted} {taken} ({instead}; {insist})", **{argument: name})

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
    """Columns on this machine, perhaps of files."""

    frame: pl.LazyFrame
    files: Files | None = field(default=None, kw_only=True)

    @property
    def names(self) -> list[str]:
        """Of the columns."""
        return self.frame.collect_schema().names()

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
        group = as_text(GROUP, self.frame.collect_schema()[GROUP], self.name)
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

        empty = pl.Series(_VALUE, [], dtype=pl.String)
        answers = Answers.of(empty, pl.Series([], dtype=pl.UInt64))
        for batch in _batches(self._labelled(), self):
            chunk = batch.to_series().alias(_VALUE).value_counts()
            answers += Answers.of(chunk[_VALUE], chunk["count"])
            if few:
                answers.require_few(self.name)
        return answers

    def texts(self, size: int) -> Iterator[list[str]]:
        """Everybody's text, so many at a time; nothing for rows without one."""
        for batch in _batches(self._labelled(), self, size):
            yield batch.to_series().fill_null("").to_list()

    def codes(self, coding: Coding) -> Iterator[Codes]:
        """Everybody's code; rows for which it is null are left out."""
        import polars as pl

        code = coding(_VALUE, self.kind()).cast(pl.Int64).alias(_VALUE)
        for batch in _batches(self.frame.select(code).drop_nulls(), self):
            yield batch.to_series().to_numpy()

    def valued(self, coding: Coding) -> tuple[int, int]:
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

    def codes(self, coding: Coding) -> Iterator[Codes]:
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

    value = as_text(name, kind, name)
    known = value.cast(pl.Enum(list(labels)), strict=False).to_physical().cast(pl.Int64)
    return pl.when(value.is_null()).then(none).otherwise(known.fill_null(other))


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

    def size(self) -> tuple[int, list[int], int]:
        """How many rows there are, how many lack a number in each column, and in any."""
        import polars as pl

        numbers = self.numbers()
        counts = self.frame.select(
            pl.len().alias("rows"),
            *(number.null_count().alias(f"{i}") for i, number in enumerate(numbers)),
            pl.any_horizontal(number.is_null() for number in numbers).sum().alias("any"),
        )
        rows, *nulls, lacking = _row(counts, self)
        return rows, nulls, lacking

    def vectors(self) -> Iterator[Numbers]:
        """Rows of numbers; those that lack one are left out."""
        frame = self.frame.select(self.numbers()).drop_nulls()
        for batch in _batches(frame, self, max(1, CHUNK // len(self.names))):
            yield batch.to_numpy()

    def numbers(self) -> list[pl.Expr]:
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


def _is_series(data: object) -> bool:
    """One column: of Polars, of pandas, or of those that follow them."""
    return hasattr(data, "to_frame") and hasattr(data, "name") and not hasattr(data, "columns")


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
