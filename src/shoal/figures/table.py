"""The numbers behind a figure: named columns, one row per point."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from shoal.errors import InvalidArgumentError

Value = float | None


@dataclass(frozen=True)
class Table:
    """Rows of numbers under column names; None where a bound has no answer.

    >>> table = Table.of([{"n": 10, "epsilon": 0.5}, {"n": 20, "epsilon": None}])
    >>> table.curve("n", "epsilon")
    ([10], [0.5])
    """

    names: tuple[str, ...]
    rows: tuple[tuple[Value, ...], ...]

    @classmethod
    def of(cls, rows: Iterable[Mapping[str, Value]]) -> Table:
        """A table of rows that all have the same columns in the same order."""
        listed = list(rows)
        names = tuple(listed[0]) if listed else ()
        return cls(names, tuple(tuple(row[name] for name in names) for row in listed))

    def column(self, name: str) -> tuple[Value, ...]:
        """One column, with its gaps."""
        index = self._index(name)
        return tuple(row[index] for row in self.rows)

    def curve(self, x: str, y: str) -> tuple[list[float], list[float]]:
        """The points of column ``y`` against column ``x``, where both have a value."""
        both = zip(self.column(x), self.column(y), strict=True)
        points = [(a, b) for a, b in both if a is not None and b is not None]
        return [a for a, _ in points], [b for _, b in points]

    def where(self, name: str, value: float) -> Table:
        """The rows with this value in that column."""
        index = self._index(name)
        return Table(self.names, tuple(row for row in self.rows if row[index] == value))

    def csv(self) -> str:
        """Comma-separated text with a header; a gap is an empty field."""
        lines = [",".join(self.names)]
        lines += [",".join(_shown(value) for value in row) for row in self.rows]
        return "\n".join(lines) + "\n"

    def _index(self, name: str) -> int:
        if name not in self.names:
            raise InvalidArgumentError("column", name, f"one of {', '.join(self.names)}")
        return self.names.index(name)


def _shown(value: Value) -> str:
    return "" if value is None else f"{value:.10g}"
