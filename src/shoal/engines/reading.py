"""Columns of tables and files, a chunk at a time: memory does not grow with the file.

A table is a Polars frame, eager or lazy, anything that speaks the Arrow C stream interface (pandas
data frames, Arrow tables and readers, DuckDB relations and many others do), or the path of a CSV,
Parquet or Arrow file.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from shoal.errors import InvalidArgumentError, MissingExtraError

if TYPE_CHECKING:
    import polars as pl

Codes = npt.NDArray[np.int64]
Numbers = npt.NDArray[np.float64]

MOST_ANSWERS = 1_000_000
CHUNK = 1 << 18
_VALUE = "value"
_LISTED_COLUMNS = 20
_EXACT_WHOLE = 2.0**53
SUFFIXES = (".csv", ".parquet", ".arrow", ".ipc", ".feather")


@dataclass(frozen=True)
class Answers:
    """The different answers of a column, sorted, and how many rows have none.

    ``single`` of the answers are given by one row each.
    """

    rows: int
    nulls: int
    distinct: tuple[str, ...]
    single: int


@dataclass(frozen=True, eq=False)
class Column:
    """One column, read anew by every question that is asked of it."""

    name: str
    frame: pl.LazyFrame

    def size(self) -> tuple[int, int]:
        """How many rows there are, and how many of them have no answer."""
        import polars as pl

        asked = self._labelled().select(pl.len().alias("rows"), pl.col(_VALUE).null_count())
        with _reading(self.name):
            rows, nulls = asked.collect(engine="streaming").row(0)
        return int(rows), int(nulls)

    def answers(self) -> Answers:
        """The different answers; too many of them end the reading early."""
        import polars as pl

        found = pl.DataFrame(schema={_VALUE: pl.String, "count": pl.UInt64})
        rows = nulls = 0
        with _reading(self.name):
            for chunk in _chunks(self._labelled()):
                rows, nulls = rows + chunk.len(), nulls + chunk.null_count()
                part = chunk.drop_nulls().value_counts().cast({"count": pl.UInt64})
                found = pl.concat([found, part]).group_by(_VALUE).agg(pl.col("count").sum())
                if found.height > MOST_ANSWERS:
                    expected = f"at most {MOST_ANSWERS:,} different answers (is it an identifier?)"
                    raise InvalidArgumentError("column", self.name, expected)
        single = int((found["count"] == 1).sum())
        return Answers(rows, nulls, tuple(found[_VALUE].sort().to_list()), single)

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
        with _reading(self.name):
            for chunk in _chunks(frame.select(code.cast(pl.Int64).alias(_VALUE))):
                yield chunk.to_numpy()

    def numeric_size(self) -> tuple[int, int]:
        """How many rows there are, and how many of them have no number (but text, perhaps)."""
        import polars as pl

        number = numeric(self.frame, _VALUE, shown=self.name)
        asked = self.frame.select(pl.len().alias("rows"), number.null_count().alias("nulls"))
        with _reading(self.name):
            rows, nulls = asked.collect(engine="streaming").row(0)
        return int(rows), int(nulls)

    def numbers(self) -> Iterator[Numbers]:
        """The numbers; rows without one are left out."""
        frame = self.frame.select(numeric(self.frame, _VALUE, shown=self.name)).drop_nulls()
        with _reading(self.name):
            for chunk in _chunks(frame):
                yield chunk.to_numpy()

    def _labelled(self) -> pl.LazyFrame:
        """The column as text: whole numbers without a decimal point, nothing for not-a-number."""
        import polars as pl

        value, kind = pl.col(_VALUE), _kind(self.frame, _VALUE, shown=self.name)
        if kind.is_float():
            number = value.fill_nan(None)
            whole = (number == number.floor()) & (number.abs() < _EXACT_WHOLE)
            text = number.cast(pl.Int64, strict=False).cast(pl.String)
            return self.frame.select(pl.when(whole).then(text).otherwise(number.cast(pl.String)))
        if kind.is_nested() or kind in {pl.Binary, pl.Object}:
            expected = f"a column of text, numbers or dates ({self.name} holds {kind})"
            raise InvalidArgumentError("column", self.name, expected)
        return self.frame.select(value.cast(pl.String))


@dataclass(frozen=True, eq=False)
class Rows:
    """Several columns of numbers, read together: one row of them per person."""

    names: tuple[str, ...]
    frame: pl.LazyFrame

    def size(self) -> tuple[int, tuple[int, ...], int]:
        """How many rows there are, how many lack a number in each column, and in any."""
        import polars as pl

        numbers = self._numbers()
        asked = self.frame.select(
            pl.len().alias("rows"),
            *(number.null_count().alias(f"{i}") for i, number in enumerate(numbers)),
            pl.any_horizontal(number.is_null() for number in numbers).sum().alias("any"),
        )
        with _reading(self.names[0]):
            rows, *nulls, lacking = asked.collect(engine="streaming").row(0)
        return int(rows), tuple(map(int, nulls)), int(lacking)

    def vectors(self) -> Iterator[Numbers]:
        """Rows of numbers; those that lack one are left out."""
        frame = self.frame.select(self._numbers()).drop_nulls()
        with _reading(self.names[0]):
            for batch in _batches(frame, max(1, CHUNK // len(self.names))):
                yield batch.to_numpy()

    def _numbers(self) -> list[pl.Expr]:
        return [numeric(self.frame, name, shown=name) for name in self.names]


def column(data: object, name: str) -> Column:
    """A column of a table or file, or an error that lists the columns there are."""
    import polars as pl

    return Column(name, table(data, [name]).select(pl.col(name).alias(_VALUE)))


def rows(data: object, names: Sequence[str]) -> Rows:
    """Columns of a table or file, or an error that lists the columns there are."""
    return Rows(tuple(names), table(data, names))


def numeric(frame: pl.LazyFrame, name: str, *, shown: str) -> pl.Expr:
    """The column called ``shown`` as floating-point numbers, nothing for not-a-number."""
    import polars as pl

    value, kind = pl.col(name), _kind(frame, name, shown=shown)
    if kind == pl.String:
        value = value.str.strip_chars()
    elif not kind.is_numeric():
        raise InvalidArgumentError("column", shown, f"a column of numbers (not of {kind})")
    return value.cast(pl.Float64, strict=False).fill_nan(None)


def _kind(frame: pl.LazyFrame, name: str, *, shown: str) -> Any:  # noqa: ANN401 — a Polars data type, instance or class
    with _reading(shown):
        return frame.collect_schema()[name]


def table(data: object, names: Sequence[str]) -> pl.LazyFrame:
    """These columns of a table or file, or an error that lists the columns there are.

    What is no file is read here, once: a stream has no second time, and the rows of a query may
    come out otherwise when it is asked again.
    """
    import polars as pl

    if isinstance(data, pl.DataFrame | pl.LazyFrame):
        frame = data.lazy()
    elif isinstance(data, str | os.PathLike):
        frame = _scanned(Path(data))
    elif hasattr(data, "__arrow_c_stream__") or hasattr(data, "__dataframe__"):
        frame = _imported(data, names)
    else:
        expected = (
            "a Polars, pandas or Arrow table, anything else with an Arrow C stream (relations of "
            "DuckDB have one from 1.1 on; of older ones relation.pl()), or the path of a file"
        )
        raise InvalidArgumentError("data", type(data).__name__, expected)
    with _reading(names[0]):
        found = frame.collect_schema().names()
    _require_columns(names, found)
    return frame.select(names)


def label_of(value: object) -> str:
    """A public answer as the text that the same value has in a column."""
    if isinstance(value, bool | np.bool_):
        return "true" if value else "false"
    if isinstance(value, float | np.floating) and float(value).is_integer():
        return str(int(value) if abs(float(value)) < _EXACT_WHOLE else value)
    return str(value)


def _scanned(path: Path) -> pl.LazyFrame:
    import polars as pl

    suffix = path.suffix.lower()
    if suffix not in SUFFIXES:
        expected = f"a file whose name ends in {', '.join(SUFFIXES)}"
        raise InvalidArgumentError("data", str(path), expected)
    if not path.is_file():
        raise InvalidArgumentError("data", str(path), "an existing file")
    if not path.stat().st_size:
        raise InvalidArgumentError("data", str(path), "a file with at least one row")
    if suffix == ".csv":
        # Everything as text: what an answer looks like must not depend on the rows before it.
        return pl.scan_csv(path, infer_schema=False, glob=False)
    if suffix == ".parquet":
        return pl.scan_parquet(path, glob=False)
    return pl.scan_ipc(path, glob=False)


def _imported(data: Any, names: Sequence[str]) -> pl.LazyFrame:  # noqa: ANN401 — pandas, Arrow …
    import polars as pl

    data = _narrowed(data, names)
    try:
        speaks = hasattr(data, "__arrow_c_stream__")
        frame = pl.DataFrame(data) if speaks else pl.from_dataframe(data)
    except ImportError as error:
        raise MissingExtraError("reading this table", "pandas") from error
    except (ValueError, TypeError) as error:
        expected = f"one kind of value in a column ({_first_line(error)})"
        raise InvalidArgumentError("column", ", ".join(names), expected) from error
    except Exception as error:  # whatever another library raises is about its own data
        expected = f"a table that can be read ({_first_line(error)})"
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
        _require_columns(names, columns)
        return data.iloc[:, [columns.index(name) for name in names]]
    if library == "pyarrow" and hasattr(data, "select"):
        _require_columns(names, data.column_names)
        return data.select(list(names))
    if library == "duckdb" and hasattr(data, "project"):
        _require_columns(names, data.columns)
        return data.project(", ".join('"' + name.replace('"', '""') + '"' for name in names))
    return data


def _require_columns(wanted: Sequence[str], names: Sequence[str]) -> None:
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


def _chunks(frame: pl.LazyFrame) -> Iterator[pl.Series]:
    for batch in _batches(frame):
        yield batch.to_series()


def _batches(frame: pl.LazyFrame, size: int = CHUNK) -> Iterator[pl.DataFrame]:
    # In order, so that a simulation's seed gives the same reports again.
    yield from frame.collect_batches(chunk_size=size, maintain_order=True, lazy=True)


@contextmanager
def _reading(name: str) -> Iterator[None]:
    """What goes wrong in the file is about the data, not about Polars."""
    import polars as pl

    try:
        yield
    except (pl.exceptions.PolarsError, OSError) as error:
        expected = f"readable data in it ({_first_line(error)})"
        raise InvalidArgumentError("column", name, expected) from error


def _first_line(error: Exception) -> str:
    return str(error).partition("\n")[0]
