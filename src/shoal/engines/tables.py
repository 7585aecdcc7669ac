"""What may be a table, and the engine that has its rows: on this machine Polars, by chunks.

A table is a Polars frame, eager or lazy, anything that speaks the Arrow PyCapsule interface (pandas
data frames, Arrow tables and readers, DuckDB relations and many others do), a mapping from names to
columns, a series, the places of files (:mod:`shoal.engines.files`), a Spark data frame, which stays
where it is (:mod:`shoal.engines.spark`), or an engine itself.
"""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import numpy.typing as npt

from shoal import checks
from shoal.engines.engine import Engine, Spend, require_owners, unmeasured
from shoal.engines.files import Files, first_line, reading, require_columns
from shoal.errors import InvalidArgumentError, MissingExtraError
from shoal.questions.kinds import label_of
from shoal.questions.settled import Answers, Coding, Cut, Kind, Lookup, Members, Product, Spelled

if TYPE_CHECKING:
    import polars as pl

    from shoal.engines.counting import Counting, Part
    from shoal.randomness import Randomness

    Kinds = Mapping[str, pl.DataType]  # of the columns

Codes = npt.NDArray[np.int64]
Numbers = npt.NDArray[np.float64]

UNKNOWN = -1  # the code of a value that must not be
_VALUE, _GROUP = "value", "group"
_EXACT_WHOLE = 2.0**53
CHUNK = 1 << 18  # rows
_PIECE = 1 << 17  # texts at once
_ARROW = ("__arrow_c_stream__", "__arrow_c_array__")
_INTERFACES = (*_ARROW, "__dataframe__", "to_frame")  # of tables and series


@dataclass(frozen=True, eq=False)
class Local(Engine):
    """Columns of a frame, perhaps of files: memory does not grow with what is read."""

    frame: pl.LazyFrame
    files: Files | None = field(default=None, kw_only=True)

    @property
    def names(self) -> list[str]:
        """Of the columns."""
        return self.frame.collect_schema().names()

    def kind(self, column: str) -> Kind:
        """What a column holds."""
        return kind_of(self.frame.collect_schema()[column])

    def size(self, coding: Coding) -> tuple[int, int]:
        """How many rows there are, and how many of them lack what is read."""
        sums = sizes(coding, self.frame)
        with reading(coding.column, self.files):
            rows, lacking = sums.collect(engine="streaming").row(0)
        return int(rows), int(lacking)

    def answers(self, column: str, *, few: bool = True) -> Answers:
        """The different answers; too many of them end the reading early, unless not ``few``."""
        import polars as pl

        nobody = pl.Series("value", [], dtype=pl.String), pl.Series([], dtype=pl.UInt64)
        answers = Answers.of(*nobody)
        for batch in self._batches(Spelled(column), CHUNK):
            chunk = batch.to_series().alias("value").value_counts()
            answers += Answers.of(chunk["value"], chunk["count"])
            if few:
                answers.require_few(column)
        return answers

    def where(self, column: str, label: str) -> Local:
        """The rows of one group."""
        import polars as pl

        kinds = self.frame.collect_schema()
        group = as_text(pl.col(column), kinds[column], column) == label
        return Local(self.frame.filter(group), files=self.files)

    def sample(self, person: str, reports: int, bits: Randomness) -> Local:
        """As many rows of everybody, in memory from here on.

        In a random order of all rows those of one person are in a random order, whatever the rows
        of others are.
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
        return Local(pl.concat([sample, sample.clear(missing)]).lazy())

    def chunks(self, coding: Coding) -> Iterator[Any]:
        """What everybody has, as devices take it."""
        size = _PIECE if coding.reads == "texts" else CHUNK
        width = len(coding.sources) if coding.reads == "vectors" else 1
        for batch in self._batches(coding, max(1, size // width)):
            yield values(coding, batch)

    def counts(
        self,
        counting: Counting,
        n: int,  # noqa: ARG002 - engines that read again compare it
        bits: Randomness,
        spend: Spend = unmeasured,
    ) -> Iterator[Part]:
        """The counts, chunk by chunk."""
        return counting.parts(self.chunks(counting.coding), bits, spend)

    def _batches(self, coding: Coding, size: int) -> Iterator[pl.DataFrame]:
        """The rows, in order: a simulation's seed gives the same reports again."""
        frame = read(coding, self.frame)
        with reading(coding.column, self.files):
            yield from frame.collect_batches(chunk_size=size, maintain_order=True, lazy=True)


# What may be a table


def table(data: object, names: Sequence[str]) -> Engine:
    """The engine of these columns, or an error that lists the columns there are."""
    names = list(dict.fromkeys(names))
    if isinstance(data, Engine):
        require_columns(names, data.names)
        return data
    sql = sys.modules.get("pyspark.sql")  # who has a frame of Spark has it loaded
    if sql is not None and isinstance(data, sql.DataFrame):
        from shoal.engines.spark import Spark

        return Spark.of(data, names)
    return local(data, names)


def local(data: object, names: Sequence[str]) -> Local:
    """The same of what is read on this machine.

    What is no file is read here, once: a stream has no second time, and the rows of a query may
    come out otherwise when it is asked again.
    """
    import polars as pl

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
    return Local(frame.select(names), files=files)


def only_column(data: Any) -> str | None:  # noqa: ANN401 - any table
    """The name of the column where there is only one: that of a series, or of a mapping's."""
    if isinstance(data, Mapping) and len(data) == 1:
        return str(next(iter(data)))
    if not _is_series(data):
        return None
    return "value" if data.name in {None, ""} else str(data.name)


def listed(data: object) -> bool:
    """Whether it is a list of values, or an array or a series of them, and no table."""
    table = isinstance(data, str | bytes | Mapping | Engine) or hasattr(data, "columns")
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


# Codings as expressions: a label, a number or a bin is the same on one machine, in the tasks of a
# cluster and in another library's batches.


# --------------------------------------------------------------------------------- what is read


def read(coding: Coding, rows: pl.LazyFrame) -> pl.LazyFrame:
    """What is read of the rows, without those that are left out."""
    import polars as pl

    kinds, groups = rows.collect_schema(), getattr(coding, "groups", None)
    if coding.reads == "codes":
        return rows.select(code(coding, kinds).cast(pl.Int64).alias(_VALUE)).drop_nulls()
    if coding.reads == "placed":
        group = pl.lit(0) if groups is None else code(groups, kinds)
        number = as_number(coding.column, kinds).alias(_VALUE)
        placed = rows.select(group.cast(pl.Float64).alias(_GROUP), number)
        return placed.drop_nulls(_VALUE) if getattr(coding, "drop", False) else placed
    if coding.reads == "texts":
        return rows.select(label(coding.column, kinds))
    return rows.select(as_number(name, kinds) for name in coding.sources).drop_nulls()


def values(coding: Coding, batch: pl.DataFrame) -> Any:  # noqa: ANN401 - numbers or texts
    """What is read, as devices take it."""
    if coding.reads == "texts":
        return batch.to_series().fill_null("").to_list()
    if coding.reads == "vectors":
        return batch.to_numpy()
    if coding.reads == "placed":
        return batch.fill_null(math.nan).to_numpy()
    return batch.to_series().to_numpy()


def sizes(coding: Coding, rows: pl.LazyFrame) -> pl.LazyFrame:
    """How many rows there are, and how many of them lack what is read."""
    import polars as pl

    kinds = rows.collect_schema()
    if coding.reads == "codes":
        code(coding, kinds)  # refuses columns of something else
    lacks = pl.any_horizontal(each.is_null() for each in _needed(coding, kinds))
    return rows.select(pl.len().alias("rows"), lacks.sum().alias("lacking"))


def _needed(coding: Coding, kinds: Kinds) -> list[pl.Expr]:
    """What a row has to have; null where it lacks that."""
    if coding.lacks == "vector":
        return [as_number(name, kinds) for name in coding.sources]
    if coding.lacks == "number":
        return [as_number(coding.column, kinds)]
    if coding.lacks == "list":
        return [_listed(cast("Members", coding), kinds)]
    if coding.lacks == "place":
        return [_place(cast("Cut", getattr(coding, "inner", coding)), kinds)]
    return [label(coding.column, kinds)]


# --------------------------------------------------------------------------------------- codes


def code(coding: Coding, kinds: Kinds) -> pl.Expr:
    """The code of a value: null where the row is left out, negative where it must not be."""
    import polars as pl

    match coding:
        case Lookup(column=column, labels=labels, none=none, other=other):
            value = label(column, kinds)
            known = value.cast(pl.Enum(list(labels)), strict=False).to_physical().cast(pl.Int64)
            known = known.fill_null(UNKNOWN if other is None else other)
            return pl.when(value.is_null()).then(none).otherwise(known)
        case Cut():
            return _bin(coding, kinds)
        case Members():
            return _members(coding, kinds)
        case Product(groups=groups, inner=inner, answers=answers):
            group, answer = code(groups, kinds), code(inner, kinds).cast(pl.Int64)
            inside = group * answers + answer
            return pl.when((group < 0) | (answer < 0)).then(UNKNOWN).otherwise(inside)
        case _:
            raise InvalidArgumentError("coding", coding.reads, "codes")


def _place(coding: Cut, kinds: Kinds) -> pl.Expr:
    """What a column in bins holds, as places; null where there is none."""
    import polars as pl

    as_place = as_day if coding.edges.dates else as_number
    return as_place(coding.column, kinds).cast(pl.Float64)


def _bin(coding: Cut, kinds: Kinds) -> pl.Expr:
    """The number of a value's bin."""
    import polars as pl

    inner, none = np.array(coding.edges.edges[1:-1]), len(coding.edges)

    def numbers(column: pl.Series) -> pl.Series:
        places = column.to_numpy()  # not-a-number where there is none
        codes = np.searchsorted(inner, places, side="right")
        codes[np.isnan(places)] = none
        return pl.Series(codes)

    value = _place(coding, kinds)
    codes = value.map_batches(numbers, return_dtype=pl.Int64, is_elementwise=True)
    return pl.when(codes < none).then(codes) if coding.none is None else codes


def _members(coding: Members, kinds: Kinds) -> pl.Expr:
    """The sum of 2^i over the labels that are selected."""
    import polars as pl

    selected = _listed(coding, kinds)
    total = pl.lit(0, dtype=pl.Int64)
    for i, each in enumerate(coding.labels):
        there = selected.list.contains(each).fill_null(value=False)
        total = total + there.cast(pl.Int64) * (1 << i)
    return pl.when(selected.is_not_null()).then(total) if coding.drop else total


def _listed(coding: Members, kinds: Kinds) -> pl.Expr:
    """The list of what is selected; null for no value."""
    if kind_of(kinds[coding.column]) == "text":
        apart, mark = coding.labels, coding.separator
        wrong = [each for each in apart if mark in each or each != each.strip()]
        expected = f"answers without {mark!r} and blanks around them, as the column is text"
        checks.refuse(wrong, expected, labels=next(iter(wrong), None))
    return as_list(coding.column, kinds, coding.separator)


# ----------------------------------------------------------------------------- values of a column


def label(column: str, kinds: Kinds) -> pl.Expr:
    """A column as text: what its values are called."""
    import polars as pl

    return as_text(pl.col(column), kinds[column], column)


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


def as_day(column: str, kinds: Kinds) -> pl.Expr:
    """Dates, moments or text that begins with a date as days since 1970; null for other text."""
    import polars as pl

    value, kind = pl.col(column), kinds[column]
    if kind == pl.String:
        value = value.str.strip_chars().str.slice(0, 10).str.to_date("%Y-%m-%d", strict=False)
    elif kind == pl.Datetime:
        value = value.dt.date()
    elif kind != pl.Date:
        raise InvalidArgumentError("column", column, f"a column of dates (not of {kind})")
    return value.cast(pl.Int32)


def as_list(column: str, kinds: Kinds, separator: str) -> pl.Expr:
    """Lists, or text of JSON or with separators, as lists of text; null for no value."""
    import polars as pl

    value, kind = pl.col(column), kinds[column]
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


def as_number(column: str, kinds: Kinds) -> pl.Expr:
    """Values as floating-point numbers, nothing for not-a-number and other text."""
    import polars as pl

    value, kind = pl.col(column), kinds[column]
    if kind == pl.String:
        value = value.str.strip_chars()
    elif not kind.is_numeric():
        raise InvalidArgumentError("column", column, f"a column of numbers (not of {kind})")
    return value.cast(pl.Float64, strict=False).fill_nan(None)


def in_utc(rows: pl.DataFrame) -> pl.DataFrame:
    """Rows of an engine with a time zone of its own: instants, also within lists, in UTC."""
    kinds = {name: _unzoned(kind) for name, kind in rows.schema.items()}
    return rows.cast({name: kind for name, kind in kinds.items() if kind != rows.schema[name]})


def _unzoned(kind: pl.DataType) -> pl.DataType:
    import polars as pl

    if isinstance(kind, pl.Datetime) and kind.time_zone is not None:
        return pl.Datetime(kind.time_unit, "UTC")
    return pl.List(_unzoned(cast("pl.DataType", kind.inner))) if isinstance(kind, pl.List) else kind
