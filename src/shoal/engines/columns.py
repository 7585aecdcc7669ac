"""Which columns of a table are asked for, and what is public about them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

from shoal.engines import reading
from shoal.engines.coding import Amounts, Choices, Coded
from shoal.engines.vectors import Vectors, spelled
from shoal.errors import InvalidArgumentError

Lists = Sequence[object] | Mapping[str, Sequence[object]]
Bounds = tuple[float, float] | Mapping[str, tuple[float, float]]
T = TypeVar("T")


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

    def coded(self, data: object, *, drop_nulls: bool) -> list[Coded]:
        """The vectors ready for the devices."""
        rows = reading.rows(data, self.names)
        return [Vectors.bounded(rows, self.norm, drop_nulls=drop_nulls)]


def chosen(given: T | Mapping[str, T] | None, name: str) -> T | None:
    """The column's own value of a mapping, or the value that is for all columns."""
    return given.get(name) if isinstance(given, Mapping) else given


def _coded(
    column: reading.Column,
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
