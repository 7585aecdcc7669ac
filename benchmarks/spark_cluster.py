"""``shoal.run`` on Spark, beside the local engine on the same cores: two workers, then one.

Rows are in Parquet files with a column of a hundred answers. Each size and number of workers is a
new process with a new session. What a worker costs once is not measured: its start, and a first run
on a quarter of the rows for each worker, in which Java compiles itself. Memory is the largest that
any process of its kind ever had.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Self

import polars as pl
from result import Result

from shoal.randomness import simulator

SIZES = (10**7, 10**8)
ANSWERS, FILES = 100, 16
WARMING = 4  # files that every worker reads before it counts
LEAST_SHARE = 50.0  # per cent of the local engine's rows a second
LARGEST = 1.0  # gigabytes of one process
MOST_RECEIVED = 1.0  # megabytes by the driver, for a hundred partitions
MOST_GROWTH = 10.0  # per cent of processor time a row, from one worker to two
KINDS = {
    "SparkSubmit": "driver",
    "CoarseGrainedExecutorBackend": "executor",
    "pyspark.daemon": "Python worker",
    "pyspark/daemon": "Python worker",
}


def everything(*, large: bool) -> Iterator[Result]:
    """Speed, memory and traffic at ten million rows, and at a hundred million if ``large``."""
    with tempfile.TemporaryDirectory() as directory:
        for rows in SIZES if large else SIZES[:1]:
            lake = Path(directory) / "lake"
            _write(lake, rows)
            yield from _measured(lake, rows)
            shutil.rmtree(lake)


def _write(lake: Path, rows: int) -> None:
    lake.mkdir()
    drawn = simulator(1)
    labels = pl.Series([f"answer {i:03d}" for i in range(ANSWERS)])
    for part in range(FILES):
        codes = drawn.integers(ANSWERS, size=rows // FILES)
        pl.DataFrame({"answer": labels.gather(codes)}).write_parquet(lake / f"{part:02d}.parquet")


def _measured(lake: Path, rows: int) -> Iterator[Result]:
    heading = f"shoal.run on Spark: {rows:,} rows of Parquet, {ANSWERS} answers, epsilon = 1"
    local = _finished("local", lake)
    runs = {workers: _finished(str(workers), lake) for workers in (1, 2)}
    two = runs[2]
    # Java compiles itself for some seconds, in every worker: ten million rows are over before.
    limited = rows > SIZES[0]
    yield Result(
        heading=heading, what="local engine", value=rows / local["seconds"] / 1e6, unit="M rows/s"
    )
    for workers, run in runs.items():
        what = f"Spark, {workers} worker{'s' * (workers > 1)}"
        speed = rows / run["seconds"] / 1e6
        yield Result(heading=heading, what=what, value=speed, unit="M rows/s")
    yield Result(
        heading=heading,
        what="of the local engine's speed, 2 workers",
        value=100 * local["seconds"] / two["seconds"],
        unit="%",
        at_least=LEAST_SHARE if limited else None,
    )
    growth = two["processor"] / runs[1]["processor"] - 1
    yield Result(
        heading=heading,
        what="more processor time a row, 2 workers",
        value=100 * growth,
        unit="%",
        at_most=MOST_GROWTH if limited else None,
        note=f"{1e9 * two['processor'] / rows:,.0f} s for 1e9 rows",
    )
    for kind, memory in sorted(two["memory"].items()):
        yield Result(
            heading=heading, what=f"memory: {kind}", value=memory, unit="GB", at_most=LARGEST
        )
    yield Result(
        heading=heading,
        what="received by the driver, 100 partitions",
        value=two["received"],
        unit="MB",
        at_most=MOST_RECEIVED,
        note=f"{two['tasks']} partitions",
    )


def _finished(how: str, lake: Path) -> dict[str, float]:
    done = subprocess.run(  # noqa: S603 - this file
        [sys.executable, __file__, how, str(lake)], stdout=subprocess.PIPE, text=True, check=True
    )
    found: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return found


# ------------------------------------------------------------------------- in a process of its own


def _local(lake: Path) -> dict[str, float]:
    import shoal

    table = pl.scan_parquet(lake / "*.parquet")
    shoal.run(table.head(1000), "answer", epsilon=1.0)
    began, before = time.perf_counter(), time.process_time()
    shoal.run(table, "answer", epsilon=1.0)
    seconds, processor = time.perf_counter() - began, time.process_time() - before
    return {"seconds": seconds, "processor": processor}


def _spark(workers: int, lake: Path) -> dict[str, object]:
    from pyspark.sql import SparkSession

    import shoal

    os.environ["PYSPARK_PYTHON"] = sys.executable
    with tempfile.TemporaryDirectory() as events:
        settings = {
            "spark.ui.enabled": "false",
            "spark.ui.showConsoleProgress": "false",
            "spark.log.level": "OFF",
            "spark.eventLog.enabled": "true",
            "spark.eventLog.rolling.enabled": "false",
            "spark.eventLog.compress": "false",
            "spark.eventLog.dir": f"file://{events}",
            "spark.executorEnv.PYTHONPATH": os.environ.get("PYTHONPATH", ""),
            "spark.executorEnv.POLARS_MAX_THREADS": "1",
            # A worker of one core, as a container of one has it: no more threads for Java either.
            "spark.executor.extraJavaOptions": "-XX:ActiveProcessorCount=1",
            "spark.sql.execution.arrow.maxRecordsPerBatch": "65536",
            "spark.sql.shuffle.partitions": "4",
        }
        builder = SparkSession.builder.master(f"local-cluster[{workers},1,1024]")
        for name, value in settings.items():
            builder = builder.config(name, value)
        spark = builder.getOrCreate()
        frame = spark.read.parquet(str(lake))
        some = [str(path) for path in sorted(lake.iterdir())[: WARMING * workers]]
        shoal.run(spark.read.parquet(*some), "answer", epsilon=1.0)
        with _Watch() as watch:
            began, before = time.perf_counter(), _processor()
            shoal.run(frame, "answer", epsilon=1.0)
            seconds, processor = time.perf_counter() - began, _processor() - before
        spark.stop()
        (log,) = Path(events).iterdir()
        tasks, received = _received(log)
    memory = {kind: size / 1e6 for kind, size in watch.largest.items()}
    return {
        "seconds": seconds,
        "processor": processor,
        "memory": memory,
        "tasks": tasks,
        "received": 100 * received / tasks / 1e6,
    }


def _received(log: Path) -> tuple[int, int]:
    """How many tasks the last stage had, and how many bytes they returned."""
    tasks: Counter[int] = Counter()
    sizes: Counter[int] = Counter()
    for line in log.read_text(encoding="utf-8").splitlines():
        event = json.loads(line)
        if event["Event"] == "SparkListenerTaskEnd":
            stage = event["Stage ID"]
            tasks[stage] += 1
            sizes[stage] += event["Task Metrics"]["Result Size"]
    last = max(tasks)
    return tasks[last], sizes[last]


def _family() -> dict[int, list[str]]:
    """The processes below this one, and this one, with the fields of their status."""
    stats = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            stats[int(path.parent.name)] = path.read_text().rpartition(")")[2].split()
        except (FileNotFoundError, ProcessLookupError):
            continue
    family = {os.getpid()}
    while more := {pid for pid, stat in stats.items() if int(stat[1]) in family} - family:
        family |= more
    return {pid: stats[pid] for pid in family if pid in stats}


def _processor() -> float:
    """Seconds that this process, those below it, and those that ended have used."""
    ticks = os.sysconf("SC_CLK_TCK")
    return sum(sum(map(int, stat[11:15])) for stat in _family().values()) / ticks


class _Watch:
    """The largest memory of each kind of process, in kilobytes."""

    def __init__(self) -> None:
        self.largest: dict[str, int] = {}
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._ended.wait(0.5):
            for pid in _family():
                self._look(pid)

    def _look(self, pid: int) -> None:
        try:
            command = Path(f"/proc/{pid}/cmdline").read_text(errors="replace")
            status = Path(f"/proc/{pid}/status").read_text()
        except (FileNotFoundError, ProcessLookupError):
            return
        kind = next((kind for name, kind in KINDS.items() if name in command), None)
        kind = "driver's Python" if pid == os.getpid() else kind
        peak = next((line for line in status.splitlines() if line.startswith("VmHWM")), None)
        if kind and peak:
            self.largest[kind] = max(self.largest.get(kind, 0), int(peak.split()[1]))


if __name__ == "__main__":
    how, place = sys.argv[1], Path(sys.argv[2])
    measured = _local(place) if how == "local" else _spark(int(how), place)
    print(json.dumps(measured))
