"""How much of the code one command passes through: what a reader of it has to follow.

A file counts when a line inside one of its functions ran. A budget is there to be kept by merging
what is read together and by removing steps; a new capability that needs more raises it openly.
"""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from repository import PACKAGE

AMPLIFY = ["amplify", "--local-epsilon", "4", "--n", "1e5"]
COLORS = {"red": 9_000, "green": 6_000, "blue": 3_500, "teal": 1_500}
RUN = ["run", "data.csv", "--column", "color", "--epsilon", "1", "--report", "report.html"]


def functions_run(folder: Path, arguments: list[str]) -> dict[str, list[str]]:
    """The functions in which a line ran, by file."""
    coverage = [sys.executable, "-m", "coverage"]
    measured = [*coverage, "run", f"--include={PACKAGE}/*", "-m", "shoal", *arguments]
    for command in (measured, [*coverage, "json", "-o", "ran.json"]):
        subprocess.run(command, cwd=folder, check=True, capture_output=True, timeout=300)
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
    ("arguments", "files", "functions"), [(AMPLIFY, 18, 95), (RUN, 38, 260)], ids=["amplify", "run"]
)
def test_a_journey_keeps_its_budget(arguments, files, functions, tmp_path):
    rows = [color for color, people in COLORS.items() for _ in range(people)]
    (tmp_path / "data.csv").write_text("\n".join(["color", *rows, ""]))
    ran = functions_run(tmp_path, arguments)
    listed = "\n".join(f"{name}: {', '.join(names)}" for name, names in sorted(ran.items()))
    assert len(ran) <= files, listed
    assert sum(map(len, ran.values())) <= functions, listed
    assert "accounting/integral.py" in ran, "the journey computes an epsilon"
