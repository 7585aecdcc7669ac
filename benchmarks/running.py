"""A file of ten million rows, from reading to estimates, in a new process."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from result import Result

from shoal.randomness import simulated

ROWS = 10**7
ANSWERS = 50
SLOWEST = 30.0
LARGEST = 2.0  # gigabytes

_SCRIPT = """
import json, resource, sys, time
start = time.perf_counter()
import shoal
found = shoal.run(sys.argv[1], column="answer", epsilon=1.0, delta=1e-8)
seconds = time.perf_counter() - start
memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e9
print(json.dumps({"seconds": seconds, "memory": memory, "stages": found.stages,
                  "randomizer": found.columns[0].randomizer.name, "n": found.columns[0].n}))
"""


def everything() -> Iterator[Result]:
    """Time, memory, and which stage takes how much of the time."""
    heading = f"shoal.run on a CSV file of {ROWS:,} rows, {ANSWERS} answers, epsilon = 1"
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory) / "answers.csv"
        _write(path)
        finished = subprocess.run(  # noqa: S603 - a fixed command of our own
            [sys.executable, "-c", _SCRIPT, str(path)], capture_output=True, text=True, check=True
        )
    found = json.loads(finished.stdout)
    note = f"{found['n']:,} people, {found['randomizer']}"
    yield Result(
        heading=heading, what="time", value=found["seconds"], unit="s", at_most=SLOWEST, note=note
    )
    yield Result(
        heading=heading, what="largest memory", value=found["memory"], unit="GB", at_most=LARGEST
    )
    stages: dict[str, float] = found["stages"]
    shares = {**stages, "the rest": found["seconds"] - sum(stages.values())}
    for stage, seconds in shares.items():
        yield Result(
            heading=heading, what=f"  {stage}", value=100 * seconds / found["seconds"], unit="%"
        )


def _write(path: Path) -> None:
    """Rows of one answer, all equally long so that numpy writes them at once."""
    lines = np.array([f"answer {i:03d}\n".encode() for i in range(ANSWERS)])
    randomness = simulated(1)
    with path.open("wb") as file:
        file.write(b"answer\n")
        for _ in range(10):
            file.write(lines[randomness.below(ANSWERS, ROWS // 10)].tobytes())
