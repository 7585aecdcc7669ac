"""A file of ten million rows, from reading to estimates, in a new process."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from result import Result

from shoal.randomness import simulated

ROWS = 10**7
ANSWERS = 50
SLOWEST = 30.0
MOST_PROCESSOR = 6.0  # seconds, of all cores together
MOST_PLANNING = 10.0  # per cent of them
LARGEST = 2.0  # gigabytes

CASES = {
    f"{ANSWERS} answers": {"kind": "choice", "name": "answer"},
    "numbers in 50 bins, three quantiles": {
        "kind": "bins",
        "name": "answer",
        "low": 0,
        "high": 999,
        "bins": 50,
        "quantiles": [0.25, 0.5, 0.75],
    },
}

_SCRIPT = """
import argparse, json, resource, sys, time
start = time.perf_counter()
import shoal
from shoal.questions.kinds import KINDS
from shoal.results import result
result.time = argparse.Namespace(perf_counter=time.process_time)  # stages by processor time
asked = json.loads(sys.argv[2])
question = KINDS[asked["kind"]].from_dict(asked)
found = shoal.run(sys.argv[1], question, epsilon=1.0, delta=1e-8)
found.to_dict()
seconds = time.perf_counter() - start
memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e9
print(json.dumps({"seconds": seconds, "memory": memory, "stages": found.stages,
                  "processor": time.process_time(),
                  "randomizer": found.columns[0].randomizer.name, "n": found.columns[0].n}))
"""


def everything() -> Iterator[Result]:
    """Time, memory, and which stage takes how much of the processor time."""
    for what, asked in CASES.items():
        heading = f"shoal.run on a CSV file of {ROWS:,} rows, {what}, epsilon = 1"
        with tempfile.TemporaryDirectory() as directory:
            path = Path(directory) / "answers.csv"
            _write(path, "{:03d}\n" if asked["kind"] == "bins" else "answer {:03d}\n")
            finished = subprocess.run(  # noqa: S603 - a fixed command of our own
                [sys.executable, "-c", _SCRIPT, str(path), json.dumps(asked)],
                capture_output=True,
                text=True,
                check=True,
            )
        yield from _results(heading, json.loads(finished.stdout))


def _results(heading: str, found: dict[str, Any]) -> Iterator[Result]:
    note = f"{found['n']:,} people, {found['randomizer']}"
    limits = (
        ("time", "seconds", "s", SLOWEST, note),
        ("processor time", "processor", "s", MOST_PROCESSOR, ""),
        ("largest memory", "memory", "GB", LARGEST, ""),
    )
    for what, name, unit, at_most, note in limits:
        yield Result(
            heading=heading, what=what, value=found[name], unit=unit, at_most=at_most, note=note
        )
    stages: dict[str, float] = found["stages"]
    total: float = found["processor"]
    for stage, seconds in {**stages, "the rest": total - sum(stages.values())}.items():
        most = MOST_PLANNING if stage == "plan" else None
        share = 100 * seconds / total
        yield Result(heading=heading, what=f"  {stage}", value=share, unit="%", at_most=most)


def _write(path: Path, line: str) -> None:
    """Rows of one answer, all equally long so that numpy writes them at once."""
    lines = np.array([line.format(i).encode() for i in range(ANSWERS)])
    randomness = simulated(1)
    with path.open("wb") as file:
        file.write(b"answer\n")
        for _ in range(10):
            file.write(lines[randomness.below(ANSWERS, ROWS // 10)].tobytes())
