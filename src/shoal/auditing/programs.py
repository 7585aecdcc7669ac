"""A device that is a program: one value a line in, one message a line out."""

from __future__ import annotations

import shlex
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from shoal import checks
from shoal.auditing.data import DataSet
from shoal.auditing.errors import AuditedCodeError
from shoal.auditing.messages import Raw, as_messages
from shoal.auditing.subjects import Subject, Transcripts, shuffled
from shoal.errors import InvalidArgumentError
from shoal.randomness import Randomness

_LONGEST_NAME = 60


@dataclass(frozen=True, eq=False)
class Program(Subject):
    """A program as a device, shuffled by Shoal.

    It is started for many lines at once, never by a shell, and has to answer within ``timeout``
    seconds. Runs are independent only if every line's randomness is.
    """

    words: Sequence[str]
    timeout: float = 600.0

    def __post_init__(self) -> None:
        checks.positive(timeout=self.timeout)
        object.__setattr__(self, "words", _parted(self.words))

    @property
    def name(self) -> str:
        """What is started."""
        return shlex.join(self.words)[:_LONGEST_NAME]

    def run(
        self, data: DataSet, runs: int, randomness: Randomness, *, in_order: bool
    ) -> Transcripts:
        """One process for all runs, then Shoal's shuffle."""
        lines = self._answers("".join(f"{value}\n" for value in data.values) * runs)
        if len(lines) != runs * len(data):
            reason = f"it wrote {len(lines):,} lines for {runs * len(data):,} values"
            raise AuditedCodeError(self.name, reason)
        found = Transcripts(lines, np.full(runs, len(data), dtype=np.int64))
        return shuffled(found, randomness) if in_order else found

    def _answers(self, values: str) -> Raw:
        try:
            done = subprocess.run(  # noqa: S603 - running what the user names is the point
                self.words,
                input=values,
                capture_output=True,
                encoding="utf-8",
                errors="replace",
                timeout=self.timeout,
                check=False,
            )
        except OSError as error:
            raise AuditedCodeError(self.name, error.strerror or str(error)) from error
        except ValueError as error:  # what no program can be given: a null character, say
            raise AuditedCodeError(self.name, str(error)) from error
        except subprocess.TimeoutExpired as error:
            reason = f"it did not answer within {self.timeout:g} seconds"
            raise AuditedCodeError(self.name, reason) from error
        if done.returncode:
            said = done.stderr.strip().splitlines()[-1:] or ["it said nothing"]
            raise AuditedCodeError(self.name, f"exit status {done.returncode}: {said[0]}")
        return as_messages(done.stdout.splitlines())


def _parted(words: str | Sequence[str]) -> tuple[str, ...]:
    """The program and its arguments, as a shell would take the line apart."""
    try:
        found = shlex.split(words) if isinstance(words, str) else list(words)
    except ValueError as error:
        expected = f"a program and its arguments ({str(error).lower()})"
        raise InvalidArgumentError("command", words, expected) from error
    if not found or not all(isinstance(word, str) for word in found):
        raise InvalidArgumentError("command", words, "a program and its arguments")
    return tuple(found)
