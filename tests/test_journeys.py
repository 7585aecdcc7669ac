"""How much of the code one command passes through: what a reader of it has to follow.

A file counts when a line inside one of its functions ran. A budget is there to be kept by merging
what is read together and by removing steps; a new capability that needs more raises it openly.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from repository import PACKAGE

AMPLIFY = ["amplify", "--local-epsilon", "4", "--n", "1e5"]
COLORS = {"red": 9_000, "green": 6_000, "blue": 3_500, "teal": 1_500}
UP = ["up", "--simulate", "200", "--once"]
RUN = ["run", "data.csv", "--column", "color", "--epsilon", "1", "--report", "report.html"]


SETTINGS = f"""
[run]
include = {PACKAGE}/*
parallel = true
concurrency = thread, multiprocessing
sigterm = true
"""


def functions_run(folder: Path, arguments: list[str]) -> dict[str, list[str]]:
    """The functions in which a line ran in any process that the command started, by file."""
    (folder / "sitecustomize.py").write_text("import coverage\n\ncoverage.process_startup()\n")
    (folder / ".coveragerc").write_text(SETTINGS)
    path = os.pathsep.join([str(folder), os.environ.get("PYTHONPATH", "")])
    measured = {"PYTHONPATH": path, "COVERAGE_PROCESS_START": str(folder / ".coveragerc")}
    python = [sys.executable, "-m"]
    for words, variables in (
        (["shoal", *arguments], measured),
        (["coverage", "combine"], {}),
        (["coverage", "json", "-o", "ran.json"], {}),
    ):
        subprocess.run(
            [*python, *words],
            cwd=folder,
            env=os.environ | variables,
            check=True,
            capture_output=True,
            timeout=1800,
        )
    files = json.loads((folder / "ran.json").read_text())["files"]
    ran = {
        Path(name).resolve().relative_to(PACKAGE).as_posix(): [
            function
            for function, part in file["functions"].items()
            if function and part["executed_lines"]
        ]
        for name, file in files.items()
    }
    return {name: functions for name, functions in ran.items() if functions}


@pytest.mark.parametrize(
    ("arguments", "files", "functions"),
    [(AMPLIFY, 18, 95), (RUN, 38, 260), (UP, 95, 850)],
    ids=["amplify", "run", "up"],
)
def test_a_journey_keeps_its_budget(arguments, files, functions, tmp_path):
    rows = [color for color, people in COLORS.items() for _ in range(people)]
    (tmp_path / "data.csv").write_text("\n".join(["color", *rows, ""]))
    ran = functions_run(tmp_path, arguments)
    listed = "\n".join(f"{name}: {', '.join(names)}" for name, names in sorted(ran.items()))
    assert len(ran) <= files, listed
    assert sum(map(len, ran.values())) <= functions, listed
    assert "accounting/integral.py" in ran, "the journey computes an epsilon"
