"""The command line, run inside the test's own process or as a real one."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from command_kit import Finished, shoal
from repository import environment


@pytest.fixture(autouse=True)
def plans(calibrated_once):
    """Many commands plan, and few of them something else."""


@pytest.fixture(autouse=True)
def same_mask():
    """What runs in this process must not leave its mask of permissions to other tests."""
    mask = os.umask(0o022)
    os.umask(mask)
    yield
    os.umask(mask)


@pytest.fixture
def run():
    """Run ``shoal`` with these words, which are split where there are spaces, here."""
    return lambda *words: shoal(*" ".join(words).split())


@pytest.fixture
def run_process(tmp_path):
    """Run ``python -m shoal`` with these words in an empty directory."""

    def invoke(*words, **variables):
        finished = subprocess.run(
            [sys.executable, "-m", "shoal", *" ".join(words).split()],
            cwd=tmp_path,
            env=environment() | variables,
            capture_output=True,
            encoding="utf-8",
            check=False,
        )
        return Finished(finished.returncode, finished.stdout, finished.stderr)

    return invoke
