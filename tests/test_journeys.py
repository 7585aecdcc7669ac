"""How much of the code one command passes through: what a reader of it has to follow.

A file counts when a line inside one of its functions ran. A budget is there to be kept by merging
what is read together and by removing steps: it is not raised, whatever is added.

Of ``up`` a run passes through a few functions more or less: the worker may have fetched the
analyzer's keys, or not yet, when they are first asked for, and that is refused then.
"""

import ast
import os
import subprocess
import sys
from collections import defaultdict
from functools import cache
from pathlib import Path

import pytest
from coverage import CoverageData

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


def functions_run(folder: Path, arguments: list[str]) -> dict[str, set[str]]:
    """The functions in which a line ran in any process that the command started, by file."""
    (folder / "sitecustomize.py").write_text("import coverage\n\ncoverage.process_startup()\n")
    (folder / ".coveragerc").write_text(SETTINGS)
    path = os.pathsep.join([str(folder), os.environ.get("PYTHONPATH", "")])
    subprocess.run(
        [sys.executable, "-m", "shoal", *arguments],
        cwd=folder,
        env=os.environ
        | {"PYTHONPATH": path, "COVERAGE_PROCESS_START": str(folder / ".coveragerc")},
        check=True,
        capture_output=True,
        timeout=1800,
    )
    lines = defaultdict(set)
    for written in folder.glob(".coverage.*"):
        data = CoverageData(written)
        data.read()
        for name in data.measured_files():
            lines[name].update(data.lines(name))
    ran = {
        Path(name).resolve().relative_to(PACKAGE).as_posix(): {
            function for function, own in functions_of(Path(name)).items() if own & lines[name]
        }
        for name in lines
        if name.endswith(".py")
    }
    return {name: functions for name, functions in ran.items() if functions}


@cache
def functions_of(file: Path) -> dict[str, set[int]]:
    """The lines of every function of a file, without its text and those of functions in it."""
    found = defaultdict(set)

    def visit(node: ast.AST, inside: tuple[str, ...]) -> set[int]:
        """Note the functions in a node; the lines that belong to them."""
        named = isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)
        names = (*inside, node.name) if named else inside
        taken = set().union(*(visit(child, names) for child in ast.iter_child_nodes(node)))
        if not named or isinstance(node, ast.ClassDef):
            return taken
        own = {
            line
            for part in node.body
            if not (isinstance(part, ast.Expr) and isinstance(part.value, ast.Constant))
            for line in range(part.lineno, part.end_lineno + 1)
        }
        found[".".join(names)] |= own - taken
        return taken | own

    visit(ast.parse(file.read_text(encoding="utf-8")), ())
    return found


@pytest.mark.parametrize(
    ("arguments", "files", "functions"),
    [(AMPLIFY, 18, 95), (RUN, 38, 260), (UP, 95, 895)],
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
