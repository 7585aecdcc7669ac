"""The page about big data does what it shows, and the example of a lake tells its story."""

from __future__ import annotations

import os
import re
import subprocess
import sys

from repository import ROOT, environment

PAGE = """
import warnings
warnings.simplefilter("ignore")
from pathlib import Path
import test_docs
having = frozenset({"spark", "duckdb"})
test_docs.work_through(Path("docs/analyse/big-data.md"), test_docs.Desk(), having)
"""
ENVIRONMENT = environment() | {
    "PYTHONPATH": os.pathsep.join(path for path in sys.path if path),
    "PYSPARK_PYTHON": sys.executable,
    "SPARK_LOCAL_IP": "127.0.0.1",
}


def finished(*words, cwd):
    done = subprocess.run(
        [sys.executable, *words],
        cwd=cwd,
        env=ENVIRONMENT,
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-3000:]
    return done.stdout


def test_the_page_does_what_it_shows(tmp_path):
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    finished("-c", PAGE, cwd=tmp_path)


def test_the_example_tells_its_story(tmp_path):
    told = finished(str(ROOT / "examples" / "spark" / "lake.py"), cwd=tmp_path)
    assert re.search(r"^car +4[3-6]\.\d\d %$", told, re.MULTILINE)
    assert "200,000 people: epsilon = 0.500 at delta = 5e-07" in told
    assert not list(tmp_path.iterdir())
