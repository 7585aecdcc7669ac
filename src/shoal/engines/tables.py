"""What may be a table, and the engine that has its rows.

A table is a Polars frame, eager or lazy, anything that speaks the Arrow PyCapsule interface (pandas
data frames, Arrow tables and readers, DuckDB relations and many others do), a mapping from names to
columns, a series, the places of files (:mod:`shoal.engines.files`), a Spark data frame, which stays
where it is (:mod:`shoal.engines.spark`), or an engine itself.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from shoal.engines.engine import Engine
from shoal.engines.files import Files, first_line, reading, require_columns
from shoal.engines.local import Local
from shoal.errors import InvalidArgumentError, MissingExtraError

if TYPE_CHECKING:
    import polars as pl

_ARROW = ("__arrow_c_stream__", "__arrow_c_array__")
_INTERFACES = (*_ARROW, "__dataframe__", "to_frame")  # of tables and series


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
