"""From a column to what devices are given: the number of an answer, or a number within bounds.

(Vectors, from several columns at once, are in :mod:`shoal.engines.vectors`.)

Which answers there are is fixed before anybody reports. A public list is taken as it is, with an
answer for "no answer" and one for "not in the list", whether or not the data has any: the data does
not decide. Without a list the answers found in the data are used, and said to be public.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

import numpy as np

from shoal.engines.reading import MOST_ANSWERS, Answers, Codes, Column, Numbers, label_of
from shoal.errors import InvalidArgumentError
from shoal.randomizers.base import AnswerMechanism, Mechanism, NumberMechanism
from shoal.values import Array, Estimate, MeanEstimate, VectorEstimate

NONE = "(none)"
OTHER = "(other)"
PUBLIC_LIST = "the list of answers is treated as public: it was taken from the data"
PUBLIC_NULLS = "who answered is treated as public: rows without an answer are left out"
PUBLIC = frozenset({PUBLIC_LIST, PUBLIC_NULLS})  # notes that a guarantee assumes
CLAMPED = "numbers outside the bounds count as the nearest bound"
_UNKNOWN = -1
_MANY = 100

Values = Codes | Numbers
Found = Estimate | MeanEstimate | VectorEstimate
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

    def require(self, randomizer: Mechanism, *, planned: bool = False) -> None:  # noqa: ARG002
        """The randomizer has the same bounds."""
        if not isinstance(randomizer, NumberMechanism):
            expected = f"a randomizer of numbers for {self.name} (it has bounds)"
            raise InvalidArgumentError("randomizer", randomizer, expected)
        if (randomizer.low, randomizer.high) != self.bounds:
            expected = f"a randomizer with the bounds {self.bounds} of {self.name}"
            raise InvalidArgumentError("bounds", (randomizer.low, randomizer.high), expected)


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
