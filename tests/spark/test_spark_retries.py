"""Tasks, Python workers and an executor die at random: every report is counted once, nowhere twice.

Everybody has an answer of their own and a randomizer that never lies, so that every cell of the sum
is 1: whatever is counted twice, or not at all, shows.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
from pyspark import cloudpickle

from shoal.engines import spark
from shoal.engines.counting import Counting, Report
from shoal.engines.tables import table as opened
from shoal.mechanisms.response import RandomizedResponse
from shoal.questions.kinds import Choice
from shoal.questions.settled import settle
from shoal.randomness import secure
from spark_kit import spark_session

PEOPLE, PARTITIONS, PIECE = 1200, 6, 50
FATES = ("failed", "exited", "killed", "slow", "executor")
STORED = ("taskresult_", "rdd_", "shuffle_", "temp_shuffle", "temp_local", "temp_result")


@dataclass
class Mortal:
    """A randomizer in whose hands tasks fail, workers exit or hang, and once an executor dies."""

    device: RandomizedResponse
    place: str
    pieces: int = 0  # that this attempt has counted

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return getattr(self.device, name)

    def randomize(self, values, *, randomness=None):
        if len(values):
            self._live_or_die()
        return self.device.randomize(values, randomness=randomness)

    def tally(self, messages):
        return self.device.tally(messages)

    def _live_or_die(self):
        """Each death happens once, and often at random, mostly after some pieces were counted."""
        self.pieces += 1
        fate = next((fate for fate in FATES if self.pieces > 1 and self._first(fate)), "lived")
        if fate == "lived" and os.urandom(1)[0] < 32:
            fate = FATES[os.urandom(1)[0] % 4]
        (Path(self.place) / f"{fate}-{os.urandom(8).hex()}").touch()
        if fate == "failed":
            raise RuntimeError(fate)
        if fate == "exited":
            os._exit(1)
        if fate == "killed":
            os.kill(os.getpid(), 9)
        if fate == "slow":
            time.sleep(2)
        if fate == "executor":
            daemon = os.getppid()  # which Java started
            os.kill(int(Path(f"/proc/{daemon}/stat").read_text().rpartition(")")[2].split()[1]), 9)

    def _first(self, name):
        try:
            (Path(self.place) / f"once-{name}").touch(exist_ok=False)
        except FileExistsError:
            return False
        return True


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    return tmp_path_factory.mktemp("local")


@pytest.fixture(scope="module")
def session(place):
    settings = {
        "spark.task.maxFailures": "1000",
        "spark.speculation": "true",
        "spark.speculation.interval": "100ms",
        "spark.speculation.multiplier": "1.1",
        "spark.speculation.quantile": "0.2",
        "spark.speculation.minTaskRuntime": "0ms",
        "spark.sql.execution.arrow.maxRecordsPerBatch": "20",
        "spark.sql.shuffle.partitions": str(PARTITIONS),
        "spark.sql.adaptive.coalescePartitions.enabled": "false",
    }
    with spark_session(place, **settings) as made:
        yield made


@pytest.mark.parametrize("how", ["rows", "answers", "persons"])
def test_nothing_is_counted_twice_or_written(how, session, place, tmp_path, monkeypatch):
    """Of the rows of every partition, of every task's share of the answers, of one of two rows."""
    monkeypatch.setattr(spark, "CHUNK", PIECE)  # several pieces in a task: half of them may die
    if how == "answers":
        monkeypatch.setattr(spark, "_TASK_BYTES", 2 * PEOPLE // PARTITIONS)  # two bytes a message
        monkeypatch.setattr(spark, "_MOST_LISTED", PEOPLE)
    cloudpickle.register_pickle_by_value(sys.modules[__name__])
    rows = 2 if how == "persons" else 1
    people = session.range(0, rows * PEOPLE, 1, PARTITIONS)
    people = people.selectExpr("concat('p', id) as who", f"id % {PEOPLE} as owner")
    if how == "persons":
        people = opened(people, ["who", "owner"]).sample("owner", 1, secure())
    listed = [f"p{number}" for number in range(rows * PEOPLE)]
    table = opened(people, ["who"])
    settled = settle(Choice("who", listed, missing="drop"), table)
    fates = tmp_path / "fates"
    fates.mkdir()
    honest = RandomizedResponse(k=len(settled.labels), epsilon=30.0)
    counting = Counting(settled.coding, (Report(Mortal(honest, str(fates))),))
    assert bool(table.given) == (how == "answers")
    names: set[str] = set()
    ended = threading.Event()

    def watch():
        while not ended.wait(0.02):
            names.update(name for _, _, files in os.walk(place) for name in files)

    watching = threading.Thread(target=watch)
    watching.start()
    try:
        (counts,) = counting.total(table, PEOPLE, secure()).counts
    finally:
        ended.set()
        watching.join()
    assert counts.n == PEOPLE
    each = counts.cells[: rows * PEOPLE].reshape(rows, PEOPLE).sum(axis=0)
    assert np.array_equal(each, np.ones(PEOPLE))
    assert counts.cells.sum() == PEOPLE
    met = [path.name.partition("-")[0] for path in fates.iterdir()]
    assert set(met) >= {*FATES, "lived"}
    # More pieces were counted than there are: attempts that died had counts, which are gone.
    assert met.count("lived") + met.count("slow") > PEOPLE // PIECE
    stored = sorted(name for name in names if name.startswith(STORED))
    assert not [name for name in stored if not name.startswith(("shuffle_", "temp_shuffle"))]
    assert not any("taskresult" in name for name in names)
