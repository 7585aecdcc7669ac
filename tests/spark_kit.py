"""Sessions of real Spark for tests: two workers on this machine, and their files in one place."""

from __future__ import annotations

import os
import shutil
import sys
import warnings
from contextlib import contextmanager
from pathlib import Path

CLUSTER = "local-cluster[2,1,1024]"  # two workers, each of one core: partitions cross processes
_SETTINGS = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.log.level": "OFF",
    "spark.sql.shuffle.partitions": "2",
    "spark.driver.host": "localhost",
    "spark.driver.bindAddress": "127.0.0.1",
}


@contextmanager
def spark_session(place: Path, master: str = CLUSTER, **settings: str):
    """A session whose executors have what this process has, and write below ``place`` only."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from pyspark.sql import SparkSession

        os.environ["PYSPARK_PYTHON"] = sys.executable
        builder = SparkSession.builder.master(master)
        paths = os.pathsep.join(path for path in sys.path if path)
        own = {"spark.executorEnv.PYTHONPATH": paths, "spark.local.dir": str(place)}
        for name, value in (_SETTINGS | own | settings).items():
            builder = builder.config(name, value)
        session = builder.getOrCreate()
    application = session.sparkContext.applicationId
    try:
        yield session
    finally:
        session.stop()
        shutil.rmtree(work() / application, ignore_errors=True)
        if work().is_dir() and not any(work().iterdir()):
            work().rmdir()


def work() -> Path:
    """Where executors of this machine write what they say."""
    return Path(os.environ.get("SPARK_HOME", sys.modules["pyspark"].__path__[0])) / "work"
