"""What may be a table, and the engine that has its rows: on this machine Polars, by chunks.

A table is a Polars frame, eager or lazy, anything that speaks the Arrow PyCapsule interface (pandas
data frames, Arrow tables and readers, DuckDB relations and many others do), a mapping from names to
columns, a series, the places of files (:mod:`shoal.engines.files`), a Spark data frame, which stays
where it is (:mod:`shoal.engines.spark`), or an engine itself.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from shoal.engines import expressions
from shoal.engines.engine import Engine, Spend, require_owners, unmeasured
from shoal.engines.files import Files, first_line, reading, require_columns
from shoal.errors import InvalidArgumentError, MissingExtraError
from shoal.questions.settled import Answers, Coding, Kind, Spelled

if TYPE_CHECKING:
    import polars as pl

    from shoal.engines.counting import Counting, Part
    from shoal.randomness import Randomness

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
        return expressions.kind_of(self.frame.collect_schema()[column])

    def size(self, coding: Coding) -> tuple[int, int]:
        """How many rows there are, and how many of them lack what is read."""
        sizes = expressions.sizes(coding, self.frame)
        with reading(coding.column, self.files):
            rows, lacking = sizes.collect(engine="streaming").row(0)
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
        kinds = self.frame.collect_schema()
        group = expressions.label(column, kinds) == label
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
            yield expressions.values(coding, batch)

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
        frame = expressions.read(coding, self.frame)
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
