"""A Spark session of our own, for the command: Java found, the session made quiet, files read."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
import threading
import warnings
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import IO, Any

from shoal.engines.files import Files
from shoal.engines.spark import DIRECT, translated
from shoal.errors import EngineError, MissingExtraError

CONNECT = "sc://"
OLDEST_JAVA = 17
_GET_JAVA = (
    "install one (Debian, Ubuntu: apt-get install openjdk-17-jre-headless; macOS: brew install "
    "openjdk@17; or adoptium.net) and let JAVA_HOME or the PATH lead to it"
)
_SETTINGS = {
    "spark.app.name": "shoal",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.log.level": "OFF",  # stack traces, most of it; what went wrong is said in a line
    DIRECT: "100m",  # counts of a million cells reach the driver without being stored
    "spark.sql.execution.arrow.maxRecordsPerBatch": "65536",
}
# As Polars reads them: text stays text, quotes are doubled, a heading must be that of the others.
_CSV = {
    "header": True,
    "inferSchema": False,
    "enforceSchema": False,
    "quote": '"',
    "escape": '"',
    "multiLine": True,
    "mode": "FAILFAST",
}
FORMATS: dict[str, tuple[str, dict[str, Any]]] = {
    "parquet": ("parquet", {}),
    "csv": ("csv", _CSV),
    "tsv": ("csv", _CSV | {"sep": "\t"}),
    "jsonl": ("json", {"mode": "FAILFAST"}),
}
_SECONDS = 0.3  # between two looks at how far Spark is
_LAST_LINES = 3  # of what Java said before it ended

Progress = Callable[..., None]


@contextmanager
def session(master: str | None, progress: Progress | None = None) -> Iterator[Any]:
    """A session on this machine's cores, on a cluster, or on a Connect server (``sc://…``).

    It ends afterwards. ``progress`` is called with how many tasks of a stage are done, how many
    there are, and the stage.
    """
    try:
        import pyspark  # noqa: F401 - only looked for
        from pyspark.sql import SparkSession
    except ImportError as error:
        raise MissingExtraError("running on Spark", "spark") from error
    warnings.filterwarnings("ignore", category=FutureWarning, module=r"pyspark\.")
    master = master or "local[*]"
    with ExitStack() as stack:
        if master.startswith(CONNECT):
            with translated():
                spark = SparkSession.builder.remote(master).getOrCreate()
        else:
            require_java()
            spark = _classic(master, stack.enter_context(tempfile.TemporaryFile("w+")))
        stack.callback(spark.stop)
        if progress is not None:
            stack.enter_context(_watched(spark, progress))
        yield spark


def require_java() -> None:
    """Java is there, and new enough for Spark."""
    home = os.environ.get("JAVA_HOME")
    path = shutil.which(str(Path(home) / "bin" / "java")) if home else shutil.which("java")
    if path is None:
        where = f"in JAVA_HOME, which is {home}" if home else "on the PATH"
        reason = f"it needs Java {OLDEST_JAVA} or newer, and there is none {where}"
        raise EngineError("Spark", reason, _GET_JAVA)
    try:
        output = subprocess.run(  # noqa: S603 - the Java that Spark would start
            [path, "-version"], capture_output=True, text=True, timeout=60, check=False
        ).stderr
    except (OSError, subprocess.TimeoutExpired):
        output = ""
    version = re.search(r'version "(?:1\.)?(\d+)', output)
    if version is None or int(version[1]) < OLDEST_JAVA:
        java = f"version {version[1]}" if version else "of an unknown version"
        reason = f"it needs Java {OLDEST_JAVA} or newer, and {path} is {java}"
        raise EngineError("Spark", reason, _GET_JAVA)


def _classic(master: str, log: IO[str]) -> Any:  # noqa: ANN401 - Spark's own
    """A session with a driver here, whose Java writes into a file and not between our lines."""
    from pyspark import SparkConf, SparkContext
    from pyspark.java_gateway import launch_gateway
    from pyspark.sql import SparkSession

    if master.startswith("local"):  # processes of this machine: the Python that runs this
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    settings = SparkConf(loadDefaults=False).setMaster(master).setAll(list(_SETTINGS.items()))
    builder = SparkSession.builder
    try:
        with translated():
            if SparkContext._gateway is None:  # noqa: SLF001 - Spark starts one Java in a process
                gateway = launch_gateway(settings, {"stdout": log, "stderr": log})
                SparkContext._ensure_initialized(gateway=gateway)  # noqa: SLF001 - the same
            else:
                builder = builder.config(conf=settings)
            return builder.getOrCreate()
    except EngineError as error:
        log.seek(0)
        lines = [line.strip() for line in log if line.strip() and not line.startswith("\tat ")]
        reason = "; ".join([error.reason, *lines[-_LAST_LINES:]])
        advice = f"check that {master} is the master and that it runs (--master)"
        raise EngineError("Spark", f"its session did not start ({reason})", advice) from None


def frame(spark: Any, files: Files) -> Any:  # noqa: ANN401 - Spark's own
    """All files as one frame; what is in CSV is text."""
    # A place that was found here is one of this machine, whatever Spark's own file system is.
    places = [
        place if "://" in place else f"file://{Path(place).resolve()}" for place in files.places
    ]
    form, options = FORMATS[files.format]
    with translated():
        return spark.read.options(**options).format(form).load(places)


@contextmanager
def _watched(spark: Any, progress: Progress) -> Iterator[None]:  # noqa: ANN401 - Spark's own
    """Tell how far the stages are while something else waits for them."""
    if getattr(spark, "_sc", None) is None:

        def handle(stages: Any, *_: object) -> None:  # noqa: ANN401 - of Connect
            for stage in stages or ():
                if not stage.done:
                    progress(stage.num_completed_tasks, stage.num_tasks, f"stage {stage.stage_id}")

        spark.registerProgressHandler(handle)
        yield
        return
    ended, tracker = threading.Event(), spark.sparkContext.statusTracker()

    def watch() -> None:
        while not ended.wait(_SECONDS):
            for stage in tracker.getActiveStageIds():
                info = tracker.getStageInfo(stage)
                if info is not None:
                    progress(info.numCompletedTasks, info.numTasks, f"stage {stage}")

    thread = threading.Thread(target=watch, daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()
