"""Spark data frames, classic and Connect: the rows stay on the cluster, and only counts come back.

Sizes and answers are Spark SQL; what an answer is called is decided here, by the code that labels
the columns of files. Everybody's reports are made and counted in tasks: each runs
:class:`~shoal.engines.counting.Counting` on the rows of a partition, in pieces of a chunk, with
randomness of the operating system, and returns one vector of counts, which the driver adds up. That
is one result stage and nothing behind it: Spark takes the result of one attempt of each task and
drops those of all others, and a result that fits into the task's own message is never written.

Of a column of answers, how many people give each is enough, and Spark counts that several times
faster than it hands rows to Python. Each task then makes the reports of its share of the people.

All work in tasks is handed out by :func:`in_tasks`, the analyzer's on ranges of records, too.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial, reduce
from operator import itemgetter, or_
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from shoal import checks
from shoal.engines import tables
from shoal.engines.counting import Counting, Part, totals
from shoal.engines.engine import Engine, Spend, changed, require_owners, unmeasured
from shoal.engines.files import require_columns
from shoal.engines.tables import CHUNK, Codes, Local
from shoal.errors import EngineError, InvalidArgumentError, ShoalError
from shoal.questions.kinds import MOST_LABELS, OTHER
from shoal.questions.settled import Answers, Coding, Kind, Lookup
from shoal.randomness import Randomness, SecureRandomness, secure
from shoal.values import Counts

if TYPE_CHECKING:
    import polars as pl
    import pyarrow as pa

DIRECT, RESULTS = "spark.task.maxDirectResultSize", "spark.driver.maxResultSize"
MESSAGE = "spark.rpc.message.maxSize"
_VALUE, _GROUP, _COUNT = "value", "group", "count"
_RETURNED = "data array<binary>, error string"  # of a task
_NOTHING = "nothing was released"
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
Data = tuple[bytes, ...]  # what a task returns
Batches = Iterator["pa.RecordBatch"]
Group = tuple[str, str]  # a column, and the label of its values
_checked: set[str] = set()  # sessions whose executors have what they need


@dataclass(frozen=True, eq=False)
class Spark(Engine):
    """Columns of a Spark data frame, or the rows of one group in it."""

    frame: Any
    schema: pl.DataFrame  # the same columns as Polars has them, without rows
    only: Group | None = None
    # Answers of columns once they are counted: all of them, or those in a list and others.
    given: dict[tuple[str, tuple[str, ...]], Answers] = field(default_factory=dict, init=False)

    @classmethod
    def of(cls, frame: Any, names: Sequence[str]) -> Spark:  # noqa: ANN401 - of either kind
        """These columns, if nothing that can be known before the first row stands against it."""
        with translated():
            checks.refuse(frame.isStreaming, "a frame that has an end", data="a stream")
            require_columns(names, frame.columns)
            narrow = frame.select(*(_column(name).alias(name) for name in names))
            _require_repeatable(narrow)
            require_executors(narrow.sparkSession)
            return cls(narrow, _polars(narrow.limit(0).toArrow()))

    @property
    def names(self) -> list[str]:
        """Of the columns."""
        return self.schema.columns

    def kind(self, column: str) -> Kind:
        """What a column holds."""
        return tables.kind_of(self.schema.schema[column])

    def where(self, column: str, label: str) -> Spark:
        """The rows of one group."""
        return replace(self, only=(column, label))

    def size(self, coding: Coding) -> tuple[int, int]:
        """How many rows there are, and how many of them lack what is read.

        Of text, those that give each of the answers in a list are counted in the same pass. What
        text is a number, a date or a list is what Polars says, not Spark's own rules.
        """
        from pyspark.sql import functions as sql

        tables.sizes(coding, self.schema.lazy())  # refuses columns of something else
        names = coding.sources if coding.lacks == "vector" else (coding.column,)
        text = "text" in map(self.kind, names)
        if isinstance(coding, Lookup) and text and 0 < len(coding.labels) <= _MOST_LISTED:
            answers = self._answers(coding.column, listed=coding.labels)
            return answers.rows, answers.nulls
        read = text and coding.lacks != "text"
        if read or coding.lacks in {"list", "place"} or self.only is not None:
            work = partial(_sizes_of_rows, coding, self.only, CHUNK)
            parts = in_tasks(self._narrow(coding), work, coding.column)
            sizes = sum((np.frombuffer(data, dtype=np.int64) for (data,) in parts), np.zeros(2))
            return int(sizes[0]), int(sizes[1])
        lacking = reduce(or_, (_lacking(name, self.schema.schema[name]) for name in names))
        counted = sql.count(sql.lit(1)), sql.count(sql.when(lacking, 1))
        with translated(coding.column):
            ((rows, without),) = self.frame.agg(*counted).collect()
        return rows, without

    def answers(self, column: str, *, few: bool = True) -> Answers:
        """The different answers, grouped by Spark and labelled here."""
        known = self.given.get((column, ())) if few else None
        # One more than there may be tells that there are more; and nothing at all is none of them.
        return known or self._answers(column, most=MOST_LABELS + 2 if few else None)

    def counts(
        self, counting: Counting, n: int, bits: Randomness, spend: Spend = unmeasured
    ) -> Iterator[Part]:
        """The counts, task by task."""
        coding = counting.coding
        known = None
        if isinstance(coding, Lookup):  # others read more than the answer, or another thing
            every = self.given.get((coding.column, ()))
            known = self.given.get((coding.column, coding.labels), every)
        with spend("collect"):
            most = self._most_tasks(counting, bits)
            if known is None:
                returned = self._of_rows(counting, n, most)
            else:
                returned = self._of_answers(counting, n, most, known)
        return (_part(data, truth=counting.truth) for data in returned)

    def _of_rows(self, counting: Counting, n: int, most: int) -> list[Data]:
        """The counts of every partition's rows."""
        coding = counting.coding
        rows, lacking = self.size(coding)
        if n not in {rows, rows - lacking}:
            raise changed(coding.column)
        # Fewer partitions where their counts would be too much together: no exchange.
        frame = self._narrow(coding).coalesce(most)
        return in_tasks(frame, partial(_counts_of_rows, counting, self.only, CHUNK), coding.column)

    def _of_answers(self, counting: Counting, n: int, most: int, answers: Answers) -> list[Data]:
        """The counts of every share of the people."""
        devices = [each.device for each in counting.reports]
        largest = max(each.message_bytes * math.ceil(each.messages) for each in devices)
        people = max(CHUNK, _TASK_BYTES // largest)
        tasks = min(most, _MOST_TASKS, -(-n // people))
        work = partial(_counts_of_share, counting, answers, n, tasks, CHUNK)
        return over_ranges(self.frame.sparkSession, range(tasks), work, counting.coding.column)

    def sample(self, person: str, reports: int, bits: Randomness) -> Spark:
        """As many rows of everybody, as on one machine.

        A person's rows are put in order, and their places in that order drawn by a keyed hash:
        rows that are alike may swap places, and nothing else can differ when Spark reads again. So
        every pass, and every attempt of a task, has the same rows. One exchange brings those of a
        person together.
        """
        checks.refuse(self.only is not None, "a sample, and then a group of it", person=person)
        from pyspark.sql import Window
        from pyspark.sql import functions as sql

        kinds = self.schema.schema
        key = int(bits.words(1).view(np.int64)[0])
        with translated():
            lacking = _lacking(person, kinds[person])
            own = Window.partitionBy("person")
            (row,) = self.frame.agg(sql.count(sql.when(lacking, 1))).collect()
            require_owners(person, row[0])
            exact = {name: _column(name, kind).alias(name) for name, kind in kinds.items()}
            owner = exact.pop(person).alias("person")
            rows = self.frame.select(owner, sql.struct(*exact.values()).alias("row"))
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
        return Spark(frame, self.schema.drop(person))

    def _narrow(self, coding: Coding) -> Any:  # noqa: ANN401 - a frame
        """The columns that are read."""
        by = () if self.only is None else self.only[:1]
        return self.frame.select(*map(_column, dict.fromkeys((*coding.sources, *by))))

    def _answers(
        self, column: str, *, most: int | None = None, listed: Sequence[str] = ()
    ) -> Answers:
        """How many give each answer; of a list, those that are not in it count as one."""
        from pyspark.sql import functions as sql

        kinds = self.schema.schema
        tables.label(column, kinds)  # refuses what has none
        keys = {_VALUE: column} | ({} if self.only is None else {_GROUP: self.only[0]})
        with translated(column):
            raw = {key: _column(name, kinds[name]) for key, name in keys.items()}
            if listed:
                value, unlisted = raw[_VALUE], max(listed, key=len) + OTHER  # longer than all
                known = value.isNull() | value.isin(list(listed))
                raw[_VALUE] = sql.when(known, value).otherwise(unlisted)
            named = (value.alias(key) for key, value in raw.items())
            counted = self.frame.groupBy(*named).agg(sql.count(sql.lit(1)).alias(_COUNT))
            counted = counted if most is None else counted.limit(most * len(keys))
            counts = _polars(counted.toArrow())
        if self.only is not None:
            counts = counts.filter(tables.label(_GROUP, counts.schema) == self.only[1])
        labels = counts.select(tables.label(_VALUE, counts.schema)).to_series()
        answers = Answers.of(labels, counts[_COUNT])
        if most is not None:
            answers.require_few(column)
        if most is not None or listed:
            self.given[column, tuple(listed)] = answers
        return answers

    def _most_tasks(self, counting: Counting, bits: Randomness) -> int:
        """How many vectors of counts the driver may receive; an error if one is too large."""
        expected = (
            "no randomness for a Spark frame: tasks draw their own, and again if they are repeated"
        )
        seeded = not isinstance(bits, SecureRandomness)
        checks.refuse(seeded, expected, randomness=type(bits).__name__)
        coding, session = counting.coding, self.frame.sparkSession
        nobody = tables.values(coding, tables.read(coding, self.schema.lazy()).collect())
        cells = sum(len(each.cells) for each in counting.part(nobody, bits).counts)
        true = len(totals(coding, nobody)) if counting.truth else 0
        size = 8 * (cells + true) + _OVERHEAD
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


def _column(name: str, kind: pl.DataType | None = None) -> Any:  # noqa: ANN401 - of Spark
    """One of a frame's; text with a collation of its own is told apart by its characters."""
    import polars as pl
    from pyspark.sql import functions as sql

    value = sql.col(f"`{name.replace('`', '``')}`")
    return value.cast("string") if kind == pl.String else value


def _lacking(name: str, kind: pl.DataType) -> Any:  # noqa: ANN401 - a column of Spark
    """Where there is no value; not-a-number is none."""
    from pyspark.sql import functions as sql

    value = _column(name)
    return value.isNull() | sql.isnan(value) if kind.is_float() else value.isNull()


def _polars(table: pa.Table) -> pl.DataFrame:
    """Rows as Polars has them."""
    import polars as pl

    return tables.in_utc(pl.DataFrame(table))


def _setting(session: Any, name: str, default: str, unit: str = "") -> int:  # noqa: ANN401
    """A size in bytes, as Spark writes it: 1048576, 1024k, 1m, 1mb."""
    text = str(session.conf.get(name, default)).strip().lower()
    number, letter = re.fullmatch(r"(\d+)\s*([bkmgtp]?)b?", text).groups()  # type: ignore[union-attr]
    return int(number) * _UNITS[letter or unit]


# --------------------------------------------------------------------------------- work in tasks


def in_tasks(
    frame: Any,  # noqa: ANN401 - of either kind
    work: Callable[[Batches], Iterator[Data]],
    column: str | None = None,
    *,
    advice: str | None = None,
) -> list[Data]:
    """One job, one stage: what ``work`` makes of the rows of each partition.

    What it refuses is about the data or, with ``advice``, about what executors need.
    """
    with translated(column):
        rows = frame.mapInArrow(partial(_task, work), _RETURNED).collect()
    for error in (json.loads(row.error) for row in rows if row.error is not None):
        if error["argument"] is not None and advice is None:
            raise InvalidArgumentError(*error["argument"])
        raise EngineError("Spark", f"an executor failed: {error['reason']}", advice or _NOTHING)
    return [tuple(row.data) for row in rows]


def over_ranges(
    session: Any,  # noqa: ANN401 - of either kind
    numbers: range,
    work: Callable[[int], Iterator[Data]],
    column: str | None = None,
    *,
    advice: str | None = None,
) -> list[Data]:
    """What ``work`` makes of each number, a task for each, in their order."""
    frame = session.range(numbers.start, numbers.stop, 1, len(numbers))
    returned = in_tasks(frame, partial(_each, work), column, advice=advice)
    return [data[1:] for data in sorted(returned, key=itemgetter(0))]


def _task(work: Callable[[Batches], Iterator[Data]], batches: Batches) -> Batches:
    """In a task: what it returns. An error is told, not raised: Spark would only try again."""
    import pyarrow as pa

    def row(data: Data, error: dict[str, Any] | None) -> pa.RecordBatch:
        told = None if error is None else json.dumps(error)
        arrays = [pa.array([data], pa.list_(pa.binary())), pa.array([told], pa.string())]
        return pa.RecordBatch.from_arrays(arrays, names=["data", "error"])

    try:
        for data in work(batches):
            yield row(data, None)
    except InvalidArgumentError as refused:
        argument = [refused.name, str(refused.value), refused.expected]
        yield row((), {"reason": str(refused), "argument": argument})
    except (ShoalError, OSError) as problem:
        yield row((), {"reason": str(problem), "argument": None})


def _each(work: Callable[[int], Iterator[Data]], batches: Batches) -> Iterator[Data]:
    """In a task: what it makes of its numbers, with the number."""
    for batch in batches:
        for number in batch.column(0).to_pylist():
            for data in work(number):
                yield number.to_bytes(8, "big"), *data


def _pieces(batches: Batches, only: Group | None, size: int) -> Iterator[Local]:
    """In a task: its rows, a chunk at a time; Spark's own batches are small."""
    import pyarrow as pa

    rows, collected = 0, list[Any]()

    def piece() -> Local:
        local = Local(_polars(pa.Table.from_batches(collected)).lazy())
        return local if only is None else local.where(*only)

    for batch in batches:
        rows += batch.num_rows
        collected.append(batch)
        if rows * batch.num_columns >= size:
            yield piece()
            rows, collected = 0, []
    if rows:
        yield piece()


def _sizes_of_rows(
    coding: Coding, only: Group | None, size: int, batches: Batches
) -> Iterator[Data]:
    """In a task: how many rows it has, and how many of them lack what is read."""
    sizes = np.zeros(2, dtype=np.int64)
    for rows in _pieces(batches, only, size):
        sizes += np.array(rows.size(coding))
    yield (sizes.tobytes(),)


def _counts_of_rows(
    counting: Counting, only: Group | None, size: int, batches: Batches
) -> Iterator[Data]:
    """In a task: the counts of its rows."""
    pieces = _pieces(batches, only, size)
    return _counted(
        counting, (values for each in pieces for values in each.chunks(counting.coding))
    )


def _counts_of_share(
    counting: Counting, answers: Answers, n: int, tasks: int, size: int, task: int
) -> Iterator[Data]:
    """In a task: the counts of its share of n people, of whom is known who answers what."""
    first, last = n * task // tasks, n * (task + 1) // tasks
    return _counted(counting, share(cast("Lookup", counting.coding), answers, first, last, size))


def share(coding: Lookup, answers: Answers, first: int, last: int, size: int) -> Iterator[Codes]:
    """The codes of some people of a column, the same ones side by side, so many at a time.

    The output of a shuffler is a multiset: the order of people is nobody's business, and reports
    made from their answers have the law of those made row by row.
    """
    import polars as pl

    name, labels = coding.column, answers.tally[_VALUE]
    given = pl.DataFrame({name: pl.concat([labels, pl.Series([None], dtype=labels.dtype)])})
    codes = given.select(tables.code(coding, given.schema)).to_series()
    times = np.append(answers.tally[_COUNT].to_numpy(), answers.nulls).astype(np.int64)
    ends = np.cumsum(times[codes.is_not_null().to_numpy()])
    numbers = codes.drop_nulls().to_numpy()
    for start in range(first, last, size):
        stop = min(start + size, last)
        yield np.repeat(numbers, np.diff(np.clip(ends, start, stop), prepend=start))


def _counted(counting: Counting, chunks: Iterator[Any]) -> Iterator[Data]:
    """In a task: the counts of all that it has; nothing if it has nobody."""
    total: Part | None = None
    for part in counting.parts(chunks, secure()):
        total = part if total is None else total + part
    if total is not None:
        counts = total.counts
        people = np.array([each.n for each in counts], dtype=np.int64)
        sizes = np.array([each.cells.size for each in counts], dtype=np.int64)
        cells = np.concatenate([each.cells for each in counts]).astype(np.int64)
        true = np.zeros(0) if total.totals is None else total.totals
        yield people.tobytes(), sizes.tobytes(), cells.tobytes(), true.tobytes()


def _part(data: Data, *, truth: bool) -> Part:
    """What a task counted: of each report, one behind the other."""
    people, sizes, cells = (np.frombuffer(each, dtype=np.int64) for each in data[:3])
    split = np.split(cells, np.cumsum(sizes)[:-1])
    return Part(
        tuple(map(Counts, split, people.tolist())), np.frombuffer(data[3]) if truth else None
    )


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
        raise EngineError("Spark", line, _NOTHING) from None


def first_line(error: BaseException) -> str:
    """What Spark says went wrong: the Python error in an executor, or the first line of its own."""
    text = str(error)
    raised = _RAISED.findall(text) if "Traceback" in text else []
    if raised:
        return ": ".join(raised[-1])
    line = next((each.strip() for each in text.splitlines() if each.strip()), "no reason given")
    return re.sub(r"^\[[\w.]+\]\s*|\s*SQLSTATE: \w+$", "", line)
