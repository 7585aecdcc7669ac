"""From columns to what devices are given: an answer's number, a number within bounds, a vector.

Which answers there are is fixed before anybody reports. A public list is taken as it is, with an
answer for "no answer" and one for "not in the list", whether or not the data has any: the data does
not decide. Without a list the answers found in the data are used, and said to be public.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar, cast

import numpy as np

from shoal.engines import reading
from shoal.engines.reading import MOST_ANSWERS, Answers, Codes, Column, Numbers, Rows, label_of
from shoal.errors import InvalidArgumentError
from shoal.randomizers import registry
from shoal.randomizers.base import (
    AnswerMechanism,
    Mechanism,
    NumberMechanism,
    Randomizer,
    VectorMechanism,
)
from shoal.randomizers.vectors import Ball
from shoal.values import Array, Estimate, MeanEstimate, VectorEstimate

NONE = "(none)"
OTHER = "(other)"
PUBLIC_LIST = "the list of answers is treated as public: it was taken from the data"
PUBLIC_NULLS = "who answered is treated as public: rows without an answer are left out"
PUBLIC = frozenset({PUBLIC_LIST, PUBLIC_NULLS})  # notes that a guarantee assumes
CLAMPED = "numbers outside the bounds count as the nearest bound"
SHORTENED = "vectors longer than the norm count as scaled down to it"
_UNKNOWN = -1
_MANY = 100
_NAMED = 6

Values = Codes | Numbers
Found = Estimate | MeanEstimate | VectorEstimate
Lists = Sequence[object] | Mapping[str, Sequence[object]]
Bounds = tuple[float, float] | Mapping[str, tuple[float, float]]
Family = Callable[..., Randomizer]
T = TypeVar("T")


class Coded(Protocol):
    """A column, or columns that make a vector, ready for the devices."""

    @property
    def name(self) -> str:
        """The column's name."""

    @property
    def n(self) -> int:
        """How many people report."""

    @property
    def labels(self) -> tuple[str, ...]:
        """The answers by their number, or the coordinates; none for numbers."""

    @property
    def notes(self) -> tuple[str, ...]:
        """What to know; those in ``PUBLIC`` are assumptions of the guarantee."""

    @property
    def question(self) -> dict[str, Any]:
        """What a plan has to know of it."""

    def chunks(self) -> Iterator[Values]:
        """What everybody has."""

    def given(self, values: Values, device: Mechanism) -> Values:
        """The same as the device takes it."""

    def estimated(self, found: Found, device: Mechanism) -> Found:
        """What the device's estimate says about what everybody has."""

    def totals(self, values: Values) -> Array:
        """True totals of a chunk: a person's answer, or number, adds to them."""

    def family(self, name: str) -> Family:
        """The randomizers of that name for these values."""

    def require(self, randomizer: Mechanism, *, planned: bool = False) -> None:
        """The randomizer, of a plan or not, takes these values."""


class _AsItIs:
    """Devices estimate what everybody has."""

    def estimated(self, found: T, _device: Mechanism) -> T:
        """What the device's estimate says about what everybody has."""
        return found


@dataclass(frozen=True, eq=False)
class Choices(_AsItIs):
    """A column of answers, each one of ``labels``."""

    column: Column
    labels: tuple[str, ...]
    n: int
    none: int | None
    other: int | None
    notes: tuple[str, ...]

    @classmethod
    def listed(cls, column: Column, categories: Sequence[object], *, drop_nulls: bool) -> Choices:
        """A public list, and an answer for what is not in it."""
        values = _public(categories)
        rows, nulls = column.size()
        added = (OTHER,) if drop_nulls else (NONE, OTHER)
        labels = (*values, *added)
        _require_distinct(values, added)
        return cls(
            column=column,
            labels=labels,
            n=people(column.name, rows, nulls, drop_nulls=drop_nulls),
            none=None if drop_nulls else len(values),
            other=len(labels) - 1,
            notes=(PUBLIC_NULLS,) if drop_nulls else (),
        )

    @classmethod
    def found(cls, column: Column, *, drop_nulls: bool) -> Choices:
        """The answers that the data has."""
        answers = column.answers()
        n = people(column.name, answers.rows, answers.nulls, drop_nulls=drop_nulls)
        added = (NONE,) if answers.nulls and not drop_nulls else ()
        _require_distinct(answers.distinct, added)
        _require_shared(column, answers)
        labels = (*answers.distinct, *added)
        if len(labels) < 2:
            expected = f"at least two different answers (all {n:,} rows have the same one)"
            raise InvalidArgumentError("column", column.name, expected)
        dropped = (PUBLIC_NULLS,) if drop_nulls else ()
        return cls(
            column=column,
            labels=labels,
            n=n,
            none=len(answers.distinct) if added else None,
            other=None,
            notes=(PUBLIC_LIST, *dropped),
        )

    @property
    def name(self) -> str:
        """The column's name."""
        return self.column.name

    @property
    def question(self) -> dict[str, Any]:
        """How many answers there are."""
        return {"categories": len(self.labels)}

    def chunks(self) -> Iterator[Values]:
        """The number of everybody's answer."""
        other = _UNKNOWN if self.other is None else self.other
        for codes in self.column.codes(self.labels[: self._known], none=self.none, other=other):
            if codes.size and int(codes.min()) < 0:
                raise changed(self.name)
            yield codes

    def given(self, values: Values, _device: Mechanism) -> Values:
        """The answers themselves."""
        return values

    def totals(self, values: Values) -> Array:
        """How many really gave each answer."""
        return np.bincount(values, minlength=len(self.labels)).astype(np.float64)

    def family(self, name: str) -> Family:
        """The randomizers of that name for as many answers."""
        return registry.family(name, k=len(self.labels))

    def require(self, randomizer: Mechanism, *, planned: bool = False) -> None:
        """The randomizer takes as many answers."""
        k = len(self.labels)
        if not isinstance(randomizer, AnswerMechanism):
            expected = f"a randomizer of answers for {self.name} (bounds are for numbers)"
            raise InvalidArgumentError("randomizer", randomizer, expected)
        if randomizer.k != k:
            added = [label for label in (NONE, OTHER) if label in self.labels[self._known :]]
            counted = " and ".join([f"the list of {self._known}", *added])
            advice = f"plan with --categories {k}: " if planned else ""
            expected = f"a randomizer of k={k} answers for {self.name} ({advice}{counted})"
            raise InvalidArgumentError("k", randomizer.k, expected)

    @property
    def _known(self) -> int:
        return len(self.labels) - (self.none is not None) - (self.other is not None)


@dataclass(frozen=True, eq=False)
class Amounts(_AsItIs):
    """A column of numbers within public bounds."""

    column: Column
    bounds: tuple[float, float]
    n: int
    notes: tuple[str, ...]
    labels: tuple[str, ...] = ()

    @classmethod
    def bounded(cls, column: Column, bounds: tuple[float, float], *, drop_nulls: bool) -> Amounts:
        """Numbers, those outside the bounds moved to them; text is no number."""
        limits = _bounds(bounds)
        rows, nulls = column.numeric_size()
        n = people(column.name, rows, nulls, drop_nulls=drop_nulls)
        if nulls and not drop_nulls:
            raise lacking(column.name)
        return cls(column, limits, n, (CLAMPED, PUBLIC_NULLS) if drop_nulls else (CLAMPED,))

    @property
    def name(self) -> str:
        """The column's name."""
        return self.column.name

    @property
    def question(self) -> dict[str, Any]:
        """The bounds."""
        return {"bounds": self.bounds}

    def chunks(self) -> Iterator[Values]:
        """Everybody's number, as it is."""
        yield from self.column.numbers()

    def given(self, values: Values, _device: Mechanism) -> Values:
        """Numbers within the bounds."""
        return np.clip(values, *self.bounds).astype(np.float64, copy=False)

    def totals(self, values: Values) -> Array:
        """The true sum, of the numbers as they are: what cutting them costs has to show."""
        return np.array([math.fsum(values)])

    def family(self, name: str) -> Family:
        """The randomizers of that name for the same bounds."""
        return registry.family(name, bounds=self.bounds)

    def require(self, randomizer: Mechanism, *, planned: bool = False) -> None:  # noqa: ARG002
        """The randomizer has the same bounds."""
        if not isinstance(randomizer, NumberMechanism):
            expected = f"a randomizer of numbers for {self.name} (it has bounds)"
            raise InvalidArgumentError("randomizer", randomizer, expected)
        if (randomizer.low, randomizer.high) != self.bounds:
            expected = f"a randomizer with the bounds {self.bounds} of {self.name}"
            raise InvalidArgumentError("bounds", (randomizer.low, randomizer.high), expected)


@dataclass(frozen=True, eq=False)
class Vectors:
    """Columns of numbers, a coordinate each, and the norm that no vector is longer than."""

    rows: Rows
    ball: Ball
    n: int
    notes: tuple[str, ...]

    @classmethod
    def bounded(cls, rows: Rows, norm: float, *, drop_nulls: bool) -> Vectors:
        """Vectors, those longer than the norm shortened; a row without a number is none."""
        ball = Ball(dimension=len(rows.names), norm=norm)
        total, nulls, without = rows.size()
        n = people(spelled(rows.names), total, without, drop_nulls=drop_nulls)
        if without and not drop_nulls:
            raise lacking(next(name for name, each in zip(rows.names, nulls, strict=True) if each))
        return cls(rows, ball, n, (SHORTENED, PUBLIC_NULLS) if drop_nulls else (SHORTENED,))

    @property
    def name(self) -> str:
        """The columns' names."""
        return spelled(self.rows.names)

    @property
    def labels(self) -> tuple[str, ...]:
        """The coordinates."""
        return self.rows.names

    @property
    def question(self) -> dict[str, Any]:
        """How many coordinates, and how long."""
        return {"dimension": self.ball.dimension, "norm": self.ball.norm}

    def chunks(self) -> Iterator[Values]:
        """Everybody's vector, as it is."""
        yield from self.rows.vectors()

    def given(self, values: Values, device: Mechanism) -> Values:
        """Vectors no longer than the norm, of length 1 for devices that want them so."""
        return self.ball.given(self.ball.shortened(values), cast("VectorMechanism", device))

    def estimated(self, found: Found, device: Mechanism) -> VectorEstimate:
        """The mean of the vectors themselves."""
        mean, taken = cast("VectorEstimate", found), cast("VectorMechanism", device)
        return self.ball.estimated(mean, taken)

    def totals(self, values: Values) -> Array:
        """The true sum, of the vectors as they are: what shortening costs has to show."""
        total: Array = values.sum(axis=0)
        return total

    def family(self, name: str) -> Family:
        """The randomizers of that name for vectors, of length 1 with a coordinate more."""
        return registry.family(name, k=self.ball.dimension + 1)

    def require(self, randomizer: Mechanism, *, planned: bool = False) -> None:
        """The randomizer takes vectors of this many coordinates and this length."""
        if self.ball.suits(randomizer):
            return
        d, norm = self.ball.dimension, self.ball.norm
        if planned:
            expected = f"a plan with dimension={d}, norm={norm:g} (--dimension {d} --norm {norm:g})"
        else:
            expected = (
                f"a randomizer of vectors of {d} coordinates: privunit of dimension {d + 1}, or "
                f"split-and-mix-vectors of dimension {d} and bound {self.ball.bound:g}"
            )
        raise InvalidArgumentError("randomizer", randomizer, expected)


def _require_kind(randomizer: object, kind: Mapping[str, object], what: str) -> None:
    """A randomizer given by its name is one of what there is to collect."""
    if isinstance(randomizer, str):
        registry.by_name(randomizer)
        if randomizer not in kind:
            kinds = "bounds are for numbers, columns and norm for vectors, neither for answers"
            expected = f"a randomizer of {what}, one of {', '.join(kind)} ({kinds})"
            raise InvalidArgumentError("randomizer", randomizer, expected)


def changed(name: str) -> InvalidArgumentError:
    """The second reading found what the first did not."""
    return InvalidArgumentError("column", name, "data that stays the same while it is read")


def _public(categories: Sequence[object]) -> tuple[str, ...]:
    expected = f"a list of 1 to {MOST_ANSWERS:,} answers"
    if isinstance(categories, str | bytes):
        raise InvalidArgumentError("categories", categories, expected)
    if any(value is None for value in categories):
        raise InvalidArgumentError("categories", None, f"no None in the list ({NONE} is added)")
    values = tuple(label_of(value) for value in categories)
    if not 1 <= len(values) <= MOST_ANSWERS:
        raise InvalidArgumentError("categories", f"{len(values)} answers", expected)
    return values


def _require_distinct(values: Sequence[str], added: Sequence[str]) -> None:
    seen: set[str] = set(added)
    for value in values:
        if value in added:
            expected = f"no answer called {value} (that name is taken for rows without a known one)"
            raise InvalidArgumentError("answer", value, expected)
        if value in seen:
            raise InvalidArgumentError("categories", value, "every answer once")
        seen.add(value)


def _require_shared(column: Column, answers: Answers) -> None:
    """A list of answers that is public cannot be one of names: most are one person's own."""
    if len(answers.distinct) > _MANY and 2 * answers.single > len(answers.distinct):
        expected = (
            "answers that people share (most are in one row only, as identifiers are: give a "
            "public list with categories / --categories, or bounds / --bounds for numbers)"
        )
        raise InvalidArgumentError("column", column.name, expected)


def lacking(name: str) -> InvalidArgumentError:
    """Not every row of the column has a number."""
    leaves = "drop_nulls (--drop-nulls) leaves out rows without one"
    return InvalidArgumentError("column", name, f"a number in every row of the column ({leaves})")


def people(name: str, rows: int, nulls: int, *, drop_nulls: bool) -> int:
    """How many report: those without an answer may be left out, but not everybody."""
    n = rows - nulls if drop_nulls else rows
    if n < 1:
        expected = f"at least one row{' with an answer' if rows else ''} in column {name}"
        raise InvalidArgumentError("rows", n, expected)
    return n


def _bounds(bounds: tuple[float, float]) -> tuple[float, float]:
    expected = "bounds (low, high), two finite numbers with low < high"
    try:
        low, high = (float(bound) for bound in bounds)
    except (TypeError, ValueError) as error:
        raise InvalidArgumentError("bounds", bounds, expected) from error
    if not (math.isfinite(low) and math.isfinite(high) and low < high):
        raise InvalidArgumentError("bounds", bounds, expected)
    return low, high


def spelled(names: Sequence[str]) -> str:
    """The names of the coordinates, or of the first and the last if they are many.

    >>> spelled(["x", "y"]), spelled([f"v{i}" for i in range(100)])
    ('x, y', 'v0, ..., v99 (100 columns)')
    """
    if len(names) <= _NAMED:
        return ", ".join(names)
    return f"{names[0]}, ..., {names[-1]} ({len(names)} columns)"


@dataclass(frozen=True)
class Separate:
    """Columns of answers, or of numbers with bounds: everybody reports on each of them."""

    names: tuple[str, ...]
    categories: Lists | None = None
    bounds: Bounds | None = None

    @classmethod
    def of(
        cls,
        column: str | Sequence[str] | None,
        categories: Lists | None = None,
        bounds: Bounds | None = None,
        *,
        norm: float | None = None,
    ) -> Separate:
        """One name or several, each once; a norm is for columns that are a vector."""
        if norm is not None:
            expected = "no norm without columns: it is for the vector that they are"
            raise InvalidArgumentError("norm", norm, expected)
        names = (column,) if isinstance(column, str) else tuple(column or ())
        if not names or len(set(names)) < len(names) or not all(isinstance(n, str) for n in names):
            raise InvalidArgumentError("column", column, "the names of one or several columns")
        return cls(names, categories, bounds)

    @property
    def questions(self) -> tuple[str, ...]:
        """What everybody makes a report on, each."""
        return self.names

    def require(self, **given: object) -> None:
        """A mapping speaks of columns that are collected: a misspelt one must not be ignored."""
        kinds = {"categories": self.categories, "bounds": self.bounds}
        for what, value in {**kinds, **given}.items():
            unknown = set(value) - set(self.names) if isinstance(value, Mapping) else set()
            if unknown:
                shown = ", ".join(sorted(map(str, unknown)))
                listed = ", ".join(self.names)
                raise InvalidArgumentError(what, shown, f"{what} of the columns {listed}")
        for name in self.names:
            device: object = chosen(given.get("randomizer"), name)
            if chosen(self.bounds, name) is None:
                _require_kind(device, registry.CATEGORIES, "answers")
            else:
                _require_kind(device, registry.NUMBERS, "numbers")

    def coded(self, data: object, *, drop_nulls: bool) -> list[Coded]:
        """Every column ready for the devices."""
        table = reading.table(data, self.names)
        return [
            _coded(
                reading.column(table, name),
                categories=chosen(self.categories, name),
                bounds=chosen(self.bounds, name),
                drop_nulls=drop_nulls,
            )
            for name in self.names
        ]


@dataclass(frozen=True)
class Together:
    """Columns that are the coordinates of one vector: everybody makes one report."""

    names: tuple[str, ...]
    norm: float

    @classmethod
    def of(cls, columns: Sequence[str], norm: float | None, **unwanted: object) -> Together:
        """Two names or more, each once, and a norm; nothing that is for single columns."""
        expected = "the names of two columns or more, each once"
        names = () if isinstance(columns, str) else tuple(columns)
        if len(names) < 2:
            expected += " (for one column of numbers: column and bounds, --column and --bounds)"
        if len(set(names)) < max(2, len(names)) or not all(isinstance(n, str) for n in names):
            raise InvalidArgumentError("columns", columns, expected)
        for name, value in unwanted.items():
            if value is not None:
                expected = f"no {name} beside columns, which are one vector and have a norm"
                raise InvalidArgumentError(name, value, expected)
        if norm is None:
            expected = "a norm beside columns: the public length that no vector is longer than"
            raise InvalidArgumentError("norm", norm, expected)
        return cls(names, norm)

    @property
    def questions(self) -> tuple[str, ...]:
        """One report."""
        return (spelled(self.names),)

    def require(self, **given: object) -> None:
        """What is for the vector is one value, not one for each column."""
        for name, value in given.items():
            if isinstance(value, Mapping):
                expected = f"one {name} for the vector that the columns are"
                raise InvalidArgumentError(name, ", ".join(map(str, value)), expected)
        _require_kind(given.get("randomizer"), registry.VECTORS, "vectors")

    def coded(self, data: object, *, drop_nulls: bool) -> list[Coded]:
        """The vectors ready for the devices."""
        rows = reading.rows(data, self.names)
        return [Vectors.bounded(rows, self.norm, drop_nulls=drop_nulls)]


def chosen(given: T | Mapping[str, T] | None, name: str) -> T | None:
    """The column's own value of a mapping, or the value that is for all columns."""
    return given.get(name) if isinstance(given, Mapping) else given


def _coded(
    column: Column,
    *,
    categories: Sequence[object] | None,
    bounds: tuple[float, float] | None,
    drop_nulls: bool,
) -> Coded:
    if bounds is not None:
        if categories is not None:
            expected = f"categories or bounds for {column.name}, not both"
            raise InvalidArgumentError("bounds", bounds, expected)
        return Amounts.bounded(column, bounds, drop_nulls=drop_nulls)
    if categories is not None:
        return Choices.listed(column, categories, drop_nulls=drop_nulls)
    return Choices.found(column, drop_nulls=drop_nulls)
