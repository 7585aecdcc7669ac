"""Spark data frames, classic and Connect: the rows stay on the cluster, and only counts come back.

Sizes and answers are Spark SQL; what an answer is called is decided here, by the code that labels
the columns of files. Everybody's reports are made and counted in tasks: each runs
:class:`~shoal.engines.columns.Counting` on the rows of a partition, in pieces of a chunk, with
randomness of the operating system, and returns one vector of counts, which the driver adds up. That
is one result stage and nothing behind it: Spark takes the result of one attempt of each task and
drops those of all others, and a result that fits into the task's own message is never written.

Of a column of answers, how many people give each is enough, and Spark counts that several times
faster than it hands rows to Python. Each task then makes the reports of its share of the people.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from shoal import checks
from shoal.engines import columns
from shoal.engines.columns import (
    Answers,
    Column,
    Counting,
    Expression,
    Part,
    Rows,
    Source,
    Spend,
    Table,
    Tallied,
)
from shoal.engines.files import require_columns
from shoal.errors import EngineError, InvalidArgumentError, ShoalError
from shoal.questions.kinds import MOST_LABELS, OTHER
from shoal.questions.settled import Lookup
from shoal.randomness import Randomness, SecureRandomness, secure
from shoal.values import Counts

if TYPE_CHECKING:
    import polars as pl
    import pyarrow as pa

DIRECT, RESULTS = "spark.task.maxDirectResultSize", "spark.driver.maxResultSize"
MESSAGE = "spark.rpc.message.maxSize"
_VALUE, _GROUP, _COUNT = "value", "group", "count"
_COUNTED = "people binary, sizes binary, cells binary, totals binary, error string"
_NEEDED = ("shoal", "polars", "numpy", "cryptography")
_PROBES = 8  # tasks that look whether executors have what they need
_OVERHEAD = 16 << 10  # bytes of a task's result beside its counts: metrics, most of all
_TASK_BYTES = 1 << 24  # of the messages that a task makes, of people whose answers are counted
_MOST_TASKS = 10_000
_MOST_LISTED = 1000  # answers of a list that Spark looks up
_RESERVE = 4  # of what the driver may receive, all counts together take a part of this size
_UNITS = {"": 1, "b": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30, "t": 1 << 40, "p": 1 << 50}
_RAISED = re.compile(r"^(?:[\w.]+\.)?(\w*(?:Error|Exception|Exit|Interrupt)): (.*)$", re.MULTILINE)
_MODULE = re.compile(r"No module named '([\w]+)")
Local = Callable[["pl.DataFrame"], Column | Rows]
Given = dict[tuple[str, ...] | None, Answers]  # of all answers, or of those in a list and others
Sources = Callable[[Iterator["pa.RecordBatch"]], Iterator[Source]]
_checked: set[str] = set()  # sessions whose executors have what they need


# ------------------------------------------------------------------------- a table and its columns


@dataclass(frozen=True, eq=False)
class SparkTable(Table):
    """Columns of a Spark data frame."""

    frame: Any
    schema: pl.DataFrame  # the same columns as Polars has them, without rows
    given: dict[str, Given] = field(default_factory=dict, init=False)  # of each column

    @property
    def names(self) -> list[str]:
        """Of the columns."""
        return self.schema.columns

    @classmethod
    def of(cls, frame: Any, names: Sequence[str]) -> SparkTable:  # noqa: ANN401 - of either kind
        """These columns, if nothing that can be known before the first row stands against it."""
        from pyspark.sql import functions as sql

        with translated():
            checks.refuse(frame.isStreaming, "a frame that has an end", data="a stream")
            require_columns(names, frame.columns)
            narrow = frame.select(*(sql.col(_quoted(name)).alias(name) for name in names))
            _require_repeatable(narrow)
            require_executors(narrow.sparkSession)
            return cls(narrow, _polars(narrow.limit(0).toArrow()))

    def column(self, name: str, by: str | None = None) -> SparkColumn:
        """One of the columns; with ``by``, another that tells groups of its rows apart."""
        names = {name: _VALUE} | ({by: _GROUP} if by else {})
        # What settles a question has counted its answers: they are not read again.
        return SparkColumn(name, **self._renamed(names), given=self.given.setdefault(name, {}))

    def rows(self, names: Sequence[str]) -> SparkRows:
        """Columns of numbers that are read together."""
        return SparkRows(tuple(names), **self._renamed({name: name for name in names}))

    def per_person(self, person: str, reports: int, bits: Randomness) -> SparkTable:
        """As many rows of everybody, as on one machine.

        A person's rows are put in order, and their places in that order drawn by a keyed hash:
        rows that are alike may swap places, and nothing else can differ when Spark reads again. So
        every pass, and every attempt of a task, has the same rows. One exchange brings those of a
        person together.
        """
        import polars as pl
        from pyspark.sql import Window
        from pyspark.sql import functions as sql

        kinds = self.schema.schema
        key = int(bits.words(1).view(np.int64)[0])
        with translated():
            # Text with a collation of its own is told apart by its characters, as elsewhere.
            values = {name: sql.col(_quoted(name)) for name in kinds}
            texts = {
                name: values[name].cast("string")
                for name, kind in kinds.items()
                if kind == pl.String
            }
            owner, lacking = values.pop(person), _lacking(_quoted(person), kinds[person])
            own = Window.partitionBy("person")
            (row,) = self.frame.agg(sql.count(sql.when(lacking, 1))).collect()
            columns.require_owners(person, row[0])
            exact = [texts.get(name, value).alias(name) for name, value in values.items()]
            rows = self.frame.select(
                texts.get(person, owner).alias("person"), sql.struct(*exact).alias("row")
            )
            placed = rows.select(
                "*",
                sql.row_number().over(own.orderBy("row")).alias("place"),
                sql.count(sql.lit(1)).over(own).alias("rows"),
            )
            drawn = sql.xxhash64(sql.lit(key), "person", "place")
            turn = sql.row_number().over(own.orderBy(drawn, "place"))
            chosen = placed.select("row", "rows", turn.alias("turn")).filter(f"turn <= {reports}")
            empty = sql.lit(None).cast(rows.schema["row"].dataType)
            missing = sql.expr(f"if(turn = 1, greatest(0, {reports} - rows), 0)").cast("int")
            padded = sql.concat(sql.array("row"), sql.array_repeat(empty, missing))
            frame = chosen.select(sql.explode(padded).alias("row")).select("row.*")
        return SparkTable(frame, self.schema.drop(person))

    def _renamed(self, names: dict[str, str]) -> dict[str, Any]:
        from pyspark.sql import functions as sql

        with translated():
            chosen = [sql.col(_quoted(name)).alias(new) for name, new in names.items()]
            frame = self.frame.select(*chosen)
        return {"frame": frame, "schema": self.schema.select(*names).rename(names)}


@dataclass(frozen=True, eq=False)
class SparkColumn(Column):
    """One column of a Spark data frame, or of the rows in one group."""

    frame: Any
    schema: pl.DataFrame = field(kw_only=True)
    only: str | None = None
    given: Given = field(default_factory=dict, kw_only=True)  # once they are counted

    @property
    def local(self) -> Local:
        """Makes the same of some of its rows, where these are."""
        return partial(_column, self.name, self.only)

    def counted(self, counting: Counting, n: int, bits: Randomness, spend: Spend) -> Iterator[Part]:
        """The counts, task by task."""
        with spend("collect"):
            coding = counting.inputs.coding
            known = None
            if isinstance(coding, Lookup):  # others read more than the answer, or another thing
                known = self.given.get(coding.labels, self.given.get(None))
            if known is None:
                return _of_rows(self, counting, n, bits)
            answers = Tallied(self.name, known, chunk=columns.CHUNK)
            return _of_answers(self.frame.sparkSession, answers, counting, n, bits)

    def groups(self, by: str) -> Answers:
        """The groups that the rows are in, as answers of the column that they are by."""
        frame, schema = self.frame.select(_GROUP), self.schema.select(_GROUP)
        names = {_GROUP: _VALUE}
        return SparkColumn(
            by, frame.withColumnsRenamed(names), schema=schema.rename(names)
        ).answers()

    def group(self, label: str) -> SparkColumn:
        """The rows of one group."""
        return replace(self, only=label, given={})

    def kind(self) -> pl.DataType:
        """What the column holds."""
        return self.schema.schema[_VALUE]

    def size(self, listed: Sequence[str] = ()) -> tuple[int, int]:
        """How many rows there are, and how many of them have no answer.

        Of text, those that give each of the answers in a list are counted in the same pass.
        """
        import polars as pl

        columns.as_text(pl.col(_VALUE), self.kind(), self.name)  # refuses what has none
        if self._is_text(_VALUE) and 0 < len(listed) <= _MOST_LISTED:
            answers = self._answers(listed=listed)
            return answers.rows, answers.nulls
        keys = [] if self.only is None else [_GROUP]
        lacking = _lacking(_VALUE, self.kind())
        counts = self._of_group(self._counts(keys, nulls=lacking))
        rows, nulls = counts.select(pl.col(_COUNT).sum(), pl.col("nulls").sum()).row(0)
        return int(rows), int(nulls)

    def valued(self, coding: Expression) -> tuple[int, int]:
        """How many rows there are, and for how many of them the expression is null."""
        coding(_VALUE, self.kind())  # refuses columns that are none of its kind
        task = partial(_values_of_partition, self.local, coding)
        with translated(self.name):
            parts = self.frame.mapInArrow(task, "sizes binary").collect()
        sizes = sum((np.frombuffer(part.sizes, dtype=np.int64) for part in parts), np.zeros(2))
        return int(sizes[0]), int(sizes[1])

    def answers(self, *, few: bool = True) -> Answers:
        """The different answers, grouped by Spark and labelled here."""
        if few and None in self.given:
            return self.given[None]
        most = MOST_LABELS + 2  # one more tells that there are more; and nothing at all
        return self._answers(most=most if few else None)

    def _answers(self, *, most: int | None = None, listed: Sequence[str] = ()) -> Answers:
        """How many give each answer; of a list, those that are not in it count as one."""
        import polars as pl

        text = columns.as_text(pl.col(_VALUE), self.kind(), self.name)
        keys = [_VALUE] if self.only is None else [_VALUE, _GROUP]
        counts = self._counts(keys, most=most and most * len(keys), listed=listed)
        counts = self._of_group(counts).with_columns(text)
        answers = Answers.of(counts[_VALUE], counts[_COUNT])
        if most is not None:
            answers.require_few(self.name)
        if most is not None or listed:
            self.given[tuple(listed) or None] = answers
        return answers

    @property
    def _numeric(self) -> SparkRows:
        names = {_VALUE: self.name}
        frame = self.frame.select(_VALUE).withColumnsRenamed(names)
        return SparkRows((self.name,), frame, schema=self.schema.select(_VALUE).rename(names))

    def _counts(
        self,
        keys: Sequence[str],
        *,
        most: int | None = None,
        listed: Sequence[str] = (),
        **flags: object,
    ) -> pl.DataFrame:
        """How many rows have each value of the keys, and how many of them each flag."""
        from pyspark.sql import functions as sql

        flagged = (sql.count(sql.when(flag, 1)).alias(name) for name, flag in flags.items())
        with translated(self.name):
            # A value of text with a collation of its own is more than one answer.
            texts = {key: sql.col(key).cast("string") for key in keys if self._is_text(key)}
            if listed:
                value, unlisted = texts[_VALUE], max(listed, key=len) + OTHER  # longer than all
                known = value.isNull() | value.isin(list(listed))
                texts[_VALUE] = sql.when(known, value).otherwise(unlisted)
            values = [texts[key].alias(key) if key in texts else key for key in keys]
            counts = self.frame.groupBy(*values).agg(sql.count(sql.lit(1)).alias(_COUNT), *flagged)
            counts = counts if most is None else counts.limit(most)
            return _polars(counts.toArrow())

    def _is_text(self, key: str) -> bool:
        import polars as pl

        return self.schema.schema[key] == pl.String

    def _of_group(self, counts: pl.DataFrame) -> pl.DataFrame:
        if self.only is None:
            return counts
        import polars as pl

        group = columns.as_text(pl.col(_GROUP), counts.schema[_GROUP], self.name)
        return counts.filter(group == self.only)


@dataclass(frozen=True, eq=False)
class SparkRows(Rows):
    """Columns of numbers of a Spark data frame, read together."""

    frame: Any
    schema: pl.DataFrame = field(kw_only=True)

    @property
    def local(self) -> Local:
        """Makes the same of some of the rows, where these are."""
        return partial(_rows, self.names)

    def counted(self, counting: Counting, n: int, bits: Randomness, spend: Spend) -> Iterator[Part]:
        """The counts, partition by partition."""
        with spend("collect"):
            return _of_rows(self, counting, n, bits)

    def size(self) -> tuple[int, list[int], int]:
        """How many rows there are, how many lack a number in each column, and in any."""
        import polars as pl
        from pyspark.sql import functions as sql

        _rows(self.names, self.schema).expressions()  # refuses columns that are none of numbers
        if pl.String in self.schema.dtypes:
            return self._text_size()
        lacking = [_lacking(_quoted(name), kind) for name, kind in self.schema.schema.items()]
        any_lacking = lacking[0]
        for each in lacking[1:]:
            any_lacking |= each
        counts = [sql.count(sql.when(each, 1)) for each in (*lacking, any_lacking)]
        with translated(self.name):
            (row,) = self.frame.agg(sql.count(sql.lit(1)), *counts).collect()
        rows, *nulls, without = row
        return rows, nulls, without

    def _text_size(self) -> tuple[int, list[int], int]:
        """What text is a number is what Polars says, not Spark's own rules."""
        task = partial(_sizes_of_partition, self.names)
        with translated(self.name):
            rows = self.frame.mapInArrow(task, "sizes binary").collect()
        sizes = np.zeros(len(self.names) + 2, dtype=np.int64)
        for row in rows:
            sizes += np.frombuffer(row.sizes, dtype=np.int64)
        total, *nulls, without = sizes.tolist()
        return total, nulls, without


def _column(name: str, only: str | None, rows: pl.DataFrame) -> Column:
    column = Column(name, rows.lazy())
    return column if only is None else column.group(only)


def _rows(names: tuple[str, ...], rows: pl.DataFrame) -> Rows:
    return Rows(names, rows.lazy())


def _lacking(name: str, kind: pl.DataType) -> Any:  # noqa: ANN401 - a column of Spark
    """Where there is no value; not-a-number is none."""
    from pyspark.sql import functions as sql

    value = sql.col(name)
    return value.isNull() | sql.isnan(value) if kind.is_float() else value.isNull()


def _quoted(name: str) -> str:
    return f"`{name.replace('`', '``')}`"


def _polars(table: pa.Table) -> pl.DataFrame:
    """Rows as Polars has them. An instant has no time zone: that of the session is left out."""
    import polars as pl

    frame = pl.DataFrame(table)
    kinds = {name: _unzoned(kind) for name, kind in frame.schema.items()}
    return frame.cast({name: kind for name, kind in kinds.items() if kind != frame.schema[name]})


def _unzoned(kind: pl.DataType) -> pl.DataType:
    """The same, also within lists, with instants in UTC."""
    import polars as pl

    if isinstance(kind, pl.Datetime) and kind.time_zone is not None:
        return pl.Datetime(kind.time_unit, "UTC")
    return pl.List(_unzoned(cast("pl.DataType", kind.inner))) if isinstance(kind, pl.List) else kind


# ------------------------------------------------------------------------ the counts of partitions


def _of_rows(
    source: SparkColumn | SparkRows, counting: Counting, n: int, bits: Randomness
) -> Iterator[Part]:
    """The counts of every partition's rows."""
    most = _most_tasks(source.frame.sparkSession, counting, bits)
    rows, lacking = counting.inputs.size()
    if n not in {rows, rows - lacking}:
        raise columns.changed(source.name)
    local, size = source.local, max(1, columns.CHUNK // len(source.schema.columns))
    # Fewer partitions where their counts would be too much together: no exchange.
    frame = source.frame.coalesce(most)
    return _collected(frame, counting, local(source.schema), partial(_sources, local, size))


def _of_answers(
    session: Any,  # noqa: ANN401 - of either kind
    answers: Tallied,
    counting: Counting,
    n: int,
    bits: Randomness,
) -> Iterator[Part]:
    """The counts of every share of the people."""
    most = _most_tasks(session, counting, bits)
    devices = [each.device for each in counting.reports]
    largest = max(each.message_bytes * math.ceil(each.messages) for each in devices)
    people = max(columns.CHUNK, _TASK_BYTES // largest)
    tasks = min(most, _MOST_TASKS, -(-n // people))
    shares = partial(_shares, answers, n, tasks)
    empty = Tallied(answers.name, answers.answers, last=0)
    return _collected(session.range(0, tasks, 1, tasks), counting, empty, shares)


def _collected(frame: Any, counting: Counting, empty: Source, sources: Sources) -> Iterator[Part]:  # noqa: ANN401
    """One job, one stage: every task's counts. What a task has of people is made in it."""
    name = counting.inputs.source.name
    counting = replace(counting, inputs=replace(counting.inputs, source=empty))
    task = partial(_counts_of_task, counting, sources)
    with translated(name):
        parts = frame.mapInArrow(task, _COUNTED).collect()
    for part in parts:
        if part.error is not None:
            raise InvalidArgumentError(*json.loads(part.error))
    return (
        Part(tuple(_counts(part)), np.frombuffer(part.totals) if counting.truth else None)
        for part in parts
    )


def _counts(part: Any) -> Iterator[Counts]:  # noqa: ANN401 - a row
    """Of each report, which stand one behind the other."""
    people, sizes, cells = (
        np.frombuffer(each, dtype=np.int64) for each in (part.people, part.sizes, part.cells)
    )
    split = np.split(cells, np.cumsum(sizes)[:-1])
    return map(Counts, split, people.tolist())


def _most_tasks(session: Any, counting: Counting, bits: Randomness) -> int:  # noqa: ANN401
    """How many vectors of counts the driver may receive; an error if one is too large by itself."""
    seeded = "no randomness for a Spark frame: tasks draw their own, and again if they are repeated"
    checks.refuse(not isinstance(bits, SecureRandomness), seeded, randomness=type(bits).__name__)
    inputs = counting.inputs
    nobody, cells = inputs.inputs(inputs.nobody, bits), 0
    for report in counting.reports:
        given = nobody if report.given is None else report.given(nobody, bits)
        sent = report.device.randomize(given)
        cells += len(report.device.tally(sent).cells)
    totals = len(inputs.totals(inputs.nobody)) if counting.truth else 0
    size = 8 * (cells + totals) + _OVERHEAD
    direct, results = _setting(session, DIRECT, "1m"), _setting(session, RESULTS, "1g")
    message = _setting(session, MESSAGE, "128", unit="m")
    if size > min(direct, message):
        wanted = -(-size // _UNITS["m"])
        advice = f"{DIRECT}={wanted}m"
        advice += f" and {MESSAGE}={wanted + 1}" if size > message else ""
        expected = (
            f"counts that fit into a task's own result: {cells:,} cells are {size:,} bytes, "
            f"and executors would store more than {min(direct, message):,}, perhaps on disk "
            f"(make the session with {advice}, or ask for fewer answers)"
        )
        raise InvalidArgumentError("cells", cells, expected)
    together = results // _RESERVE if results else _UNITS["g"]
    expected = (
        f"space for one task's counts in the driver (make the session with a larger {RESULTS})"
    )
    checks.refuse(size > together, expected, cells=cells)
    return together // size  # at least one, and far from too many for Spark to count


def _setting(session: Any, name: str, default: str, unit: str = "") -> int:  # noqa: ANN401
    """A size in bytes, as Spark writes it: 1048576, 1024k, 1m, 1mb."""
    text = str(session.conf.get(name, default)).strip().lower()
    number, letter = re.fullmatch(r"(\d+)\s*([bkmgtp]?)b?", text).groups()  # type: ignore[union-attr]
    return int(number) * _UNITS[letter or unit]


def _pieces(batches: Iterator[pa.RecordBatch], size: int) -> Iterator[pl.DataFrame]:
    """A partition's rows, a chunk at a time: Spark's own batches are small."""
    import pyarrow as pa

    rows, collected = 0, list[Any]()
    for batch in batches:
        rows += batch.num_rows
        collected.append(batch)
        if rows >= size:
            yield _polars(pa.Table.from_batches(collected))
            rows, collected = 0, []
    if rows:
        yield _polars(pa.Table.from_batches(collected))


def _sources(local: Local, size: int, batches: Iterator[pa.RecordBatch]) -> Iterator[Source]:
    """In a task: its rows, a chunk at a time."""
    return map(local, _pieces(batches, size))


def _shares(
    answers: Tallied, n: int, tasks: int, batches: Iterator[pa.RecordBatch]
) -> Iterator[Source]:
    """In a task: its share of the people."""
    for batch in batches:
        for task in batch.column(0).to_pylist():
            yield replace(answers, first=n * task // tasks, last=n * (task + 1) // tasks)


def _counts_of_task(
    counting: Counting, sources: Sources, batches: Iterator[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """In a task: the counts of all that it has in one row, nothing if it has nobody."""
    import pyarrow as pa

    total: Part | None = None
    bits, error = secure(), None
    try:
        for source in sources(batches):
            for part in counting.parts(source, bits):
                total = part if total is None else total + part
    except InvalidArgumentError as refused:  # not raised: Spark would only try again
        error = json.dumps([refused.name, str(refused.value), refused.expected])
        total = Part((Counts(np.zeros(0, dtype=np.int64), 0),))
    if total is not None:
        totals = np.zeros(0) if total.totals is None else total.totals
        counts = total.counts
        numbers = {
            "people": np.array([each.n for each in counts]),
            "sizes": np.array([each.cells.size for each in counts]),
            "cells": np.concatenate([each.cells for each in counts]),
        }
        row = {name: [each.astype(np.int64).tobytes()] for name, each in numbers.items()}
        texts = pa.array([error], type=pa.string())
        yield pa.RecordBatch.from_pydict(row | {"totals": [totals.tobytes()], "error": texts})


def _sizes_of_partition(
    names: tuple[str, ...], batches: Iterator[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """In a task: how many rows it has, and how many of them lack a number, in one row."""
    import pyarrow as pa

    sizes = np.zeros(len(names) + 2, dtype=np.int64)
    for rows in _pieces(batches, max(1, columns.CHUNK // len(names))):
        total, nulls, lacking = _rows(names, rows).size()
        sizes += np.array([total, *nulls, lacking])
    yield pa.RecordBatch.from_pydict({"sizes": [sizes.tobytes()]})


def _values_of_partition(
    local: Local, coding: Expression, batches: Iterator[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """In a task: how many rows it has, and how many of them lack a value, in one row."""
    import pyarrow as pa

    sizes = np.zeros(2, dtype=np.int64)
    for column in _sources(local, columns.CHUNK, batches):
        sizes += np.array(cast("Column", column).valued(coding))
    yield pa.RecordBatch.from_pydict({"sizes": [sizes.tobytes()]})


# ---------------------------------------------------------- what must hold before anything is done


def _require_repeatable(frame: Any) -> None:  # noqa: ANN401 - of either kind
    """Every pass has to see the same rows. Connect does not show the plan: sizes are compared."""
    plan = getattr(frame, "_jdf", None)
    repeatable = plan is None or plan.queryExecution().optimizedPlan().deterministic()
    expected = "rows that stay the same when they are read again (write a random sample to a table)"
    checks.refuse(not repeatable, expected, data="a frame that is not deterministic")


def require_executors(session: Any) -> None:  # noqa: ANN401 - of either kind
    """The executors have this version of Shoal, and what it needs: asked once in a session."""
    classic = getattr(session, "_sc", None)
    name = classic.applicationId if classic is not None else session.session_id
    if name in _checked:
        return
    versions = _versions_of(_NEEDED)
    tasks = session.range(_PROBES, numPartitions=_PROBES)
    (here,) = versions(iter(()))
    for row in tasks.mapInArrow(versions, "versions string").collect():
        there, wanted = json.loads(row.versions), json.loads(here["versions"][0].as_py())
        lacking = next((module for module in _NEEDED if there[module] is None), None)
        if lacking is not None:
            raise _not_installed(lacking)
        if there["shoal"] != wanted["shoal"]:
            raise _not_installed(f"shoal {wanted['shoal']} but {there['shoal']}")
    _checked.add(name)


def _not_installed(what: str) -> EngineError:
    return EngineError(
        "Spark",
        f"the Python of its executors has no {what}",
        "install shoal[spark] of the driver's version there, or say which Python they run by "
        "PYSPARK_PYTHON (spark.pyspark.python)",
    )


def _versions_of(modules: Sequence[str]) -> Callable[[Iterator[Any]], Iterator[Any]]:
    """A task that tells versions, and needs nothing of ours to be read by an executor."""

    def versions(batches: Iterator[Any]) -> Iterator[Any]:
        import importlib
        import json

        import pyarrow as pa

        for _ in batches:
            pass
        installed = {}
        for name in modules:
            try:
                installed[name] = importlib.import_module(name).__version__
            except ImportError:
                installed[name] = None
        yield pa.RecordBatch.from_pydict({"versions": [json.dumps(installed)]})

    versions.__module__ = "__main__"  # sent as it is, not by its name in a module of ours
    return versions


@contextmanager
def translated(name: str | None = None) -> Iterator[None]:
    """What goes wrong in Spark, in one line of ours: never its stack traces."""
    try:
        yield
    except ShoalError:
        raise
    except Exception as error:
        if not type(error).__module__.startswith(("pyspark.", "py4j.", "grpc")):
            raise
        from pyspark.errors import AnalysisException

        line = first_line(error)
        missing = _MODULE.search(line)
        if missing:
            raise _not_installed(missing[1]) from None
        if isinstance(error, AnalysisException):
            expected = f"a frame that Spark can read ({line})"
            what = ("data", type(error).__name__) if name is None else ("column", name)
            raise InvalidArgumentError(*what, expected) from None
        raise EngineError("Spark", line, "nothing was released") from None


def first_line(error: BaseException) -> str:
    """What Spark says went wrong: the Python error in an executor, or the first line of its own."""
    text = str(error)
    raised = _RAISED.findall(text) if "Traceback" in text else []
    if raised:
        return ": ".join(raised[-1])
    line = next((each.strip() for each in text.splitlines() if each.strip()), "no reason given")
    return re.sub(r"^\[[\w.]+\]\s*|\s*SQLSTATE: \w+$", "", line)
