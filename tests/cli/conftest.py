"""The command line, run inside the test's own process or as a real one."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import dataclass

import pytest
from typer.testing import CliRunner

from repository import environment
from shoal.cli import app


@dataclass(frozen=True)
class Finished:
    status: int
    stdout: str
    stderr: str

    def json(self):
        """The output as strict JSON: NaN and Infinity are not in it."""
        assert self.status == 0, self.stderr
        assert self.stderr == ""
        return json.loads(self.stdout, parse_constant=lambda name: pytest.fail(f"{name} in JSON"))

    def refusal(self):
        """The one line in which a command says what it refuses, without its first word."""
        assert self.status == 2, self.stdout
        assert self.stdout == ""
        (line,) = self.stderr.splitlines()
        assert line.startswith("error: ")
        return line.removeprefix("error: ")


@pytest.fixture
def run():
    """Run ``shoal`` with these words here: what is not refused and fails is raised."""

    def invoke(*words):
        result = CliRunner(env=environment()).invoke(app, " ".join(words).split())
        if result.exception is not None and not isinstance(result.exception, SystemExit):
            raise result.exception
        return Finished(result.exit_code, result.stdout, result.stderr)

    return invoke


@pytest.fixture
def run_process(tmp_path):
    """Run ``python -m shoal.cli`` with these words in an empty directory."""

    def invoke(*words, **variables):
        finished = subprocess.run(
            [sys.executable, "-m", "shoal.cli", *" ".join(words).split()],
            cwd=tmp_path,
            env=environment() | variables,
            capture_output=True,
            encoding="utf-8",
            check=False,
        )
        return Finished(finished.returncode, finished.stdout, finished.stderr)

    return invoke
