"""The command line, run inside the test's own process."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cache

import pytest
import typer.testing

from repository import environment
from shoal.cli import app

# Typer makes the command anew for every run of it, which is most of what a refusal costs.
typer.testing._get_command = cache(typer.main.get_command)


@dataclass(frozen=True)
class Finished:
    status: int
    stdout: str
    stderr: str
    output: str = ""  # both of them, as they came

    def json(self):
        """The output as strict JSON: NaN and Infinity are not in it."""
        return json.loads(self.success(), parse_constant=lambda name: pytest.fail(f"{name} in it"))

    def success(self):
        """What a command printed that had nothing to complain about."""
        assert self.status == 0, self.stderr
        assert self.stderr == ""
        return self.stdout

    def refusal(self):
        """The one line in which a command says what it refuses, without its first word."""
        assert self.status == 2, self.stdout
        assert self.stdout == ""
        (line,) = self.stderr.splitlines()
        assert line.startswith("error: ")
        return line.removeprefix("error: ")


def shoal(*words, answer=None, command=app, **variables):
    """Run ``shoal`` with these words here: what is not refused and fails is raised."""
    runner = typer.testing.CliRunner(env=environment() | variables)
    result = runner.invoke(command, [str(word) for word in words], input=answer)
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return Finished(result.exit_code, result.stdout, result.stderr, result.output)
