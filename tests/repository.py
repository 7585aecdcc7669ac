"""The repository as its own tests see it: where it is, what it holds, how to run it."""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
SOURCE = ROOT / "src"
PACKAGE = SOURCE / "shoal"

_NOT_OURS = {"__pycache__", "build", "dist", "node_modules"}


@cache
def text_files() -> dict[Path, str]:
    """Every text file that belongs to the repository, by its path below the root."""
    texts = {}
    for path in _paths():
        try:
            texts[path] = (ROOT / path).read_text(encoding="utf-8")
        except UnicodeDecodeError:
            continue
    return texts


def project() -> dict[str, Any]:
    """The project table of pyproject.toml."""
    return tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]


def environment() -> dict[str, str]:
    """The environment of a subprocess that imports this tree and prints plain, 80 columns wide."""
    forcing = ("FORCE_COLOR", "GITHUB_ACTIONS", "PY_COLORS", "PYTHONWARNINGS", "TERMINAL_WIDTH")
    kept = {name: value for name, value in os.environ.items() if name not in forcing}
    return kept | {
        "COLUMNS": "80",
        "MPLBACKEND": "Agg",
        "NO_COLOR": "1",
        "PYTHONPATH": str(SOURCE),
        "PYTHONIOENCODING": "utf-8",
        "TERM": "dumb",
    }


def benchmark(name: str) -> ModuleType:
    """A script, loaded by its path: on the path, its directory would hide ``tests/service``."""
    if name not in sys.modules:
        spec = importlib.util.spec_from_file_location(name, ROOT / "benchmarks" / f"{name}.py")
        assert spec is not None
        assert spec.loader is not None
        sys.modules[name] = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(sys.modules[name])
    return sys.modules[name]


def run_python(code: str) -> str:
    """What a fresh interpreter prints when it runs this code."""
    finished = subprocess.run(
        [sys.executable, "-c", code],
        env=environment(),
        capture_output=True,
        text=True,
        check=False,
    )
    assert finished.returncode == 0, finished.stderr
    return finished.stdout


def _paths() -> Iterator[Path]:
    """Tracked files and those git would add; without git, all but hidden and generated ones."""
    if (ROOT / ".git").exists() and shutil.which("git"):
        listing = subprocess.run(
            ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
            cwd=ROOT,
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        names = (Path(name) for name in listing.split("\0") if name)
        yield from (name for name in names if (ROOT / name).is_file())
        return
    for directory, below, names in os.walk(ROOT):
        below[:] = [name for name in below if not name.startswith(".") and name not in _NOT_OURS]
        yield from ((Path(directory) / name).relative_to(ROOT) for name in names)
