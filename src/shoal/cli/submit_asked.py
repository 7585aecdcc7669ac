"""What ``shoal submit`` was asked, and whether it makes sense together."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from shoal.cli.options import RefusedError
from shoal.errors import ShoalError

_FROM_INPUT = "-"
_NOTHING_SENT = "nothing was sent"


@contextmanager
def nothing_sent() -> Iterator[None]:
    """Around all that comes before sending: whoever is refused there, or gives up, is told so."""
    try:
        yield
    except ShoalError as error:
        if _NOTHING_SENT in str(error):
            raise
        raise RefusedError(f"{error}; {_NOTHING_SENT}") from error
    except KeyboardInterrupt:
        sys.stderr.write(f"interrupted: {_NOTHING_SENT}\n")
        raise


@dataclass(frozen=True, kw_only=True)
class Limits:
    """Limits of the person; None is the policy's own."""

    local_epsilon: float | None
    epsilon: float | None
    delta: float | None
    minimum: int | None
    total_epsilon: float | None
    total_delta: float | None
    total_local_epsilon: float | None
    hosts: tuple[str, ...] | None

    def given(self) -> dict[str, object]:
        """Those that were named."""
        return {name: value for name, value in vars(self).items() if value is not None}


@dataclass(frozen=True, kw_only=True)
class SubmitAsked:
    """The options; None is an option that was not given."""

    survey: str | None
    answer: str | None
    occasion: int
    file: Path | None
    column: str | None
    job: str | None
    drop_nulls: bool
    processes: int
    outbox: Path | None
    delay: float
    proxy: str | None
    compare_keys: bool
    flush: bool
    spent: bool
    opt_out: bool
    opt_in: bool
    ask: bool
    limits: Limits

    def checked(self) -> SubmitAsked:
        """Refuse what makes no sense together; an answer that is written to the input is read.

        Somebody at a terminal is asked later, when they were told what is promised.
        """
        others = {
            "--flush": self.flush,
            "--spent": self.spent,
            "--opt-out": self.opt_out,
            "--opt-in": self.opt_in,
        }
        given = [name for name, wanted in others.items() if wanted]
        if len(given) > 1 or (given and (self.survey is not None or self.file is not None)):
            raise RefusedError(f"{given[0]} stands alone: no survey, no answer, nothing else")
        if given:
            return self
        if self.survey is None:
            raise RefusedError("SURVEY is missing: a survey's file, or its address")
        self._check_table()
        if self.file is not None or (self.ask and sys.stdin.isatty()):
            return self
        return self.with_answer()

    def confirmed(self) -> SubmitAsked:
        """Ask whoever sits at the terminal: for the answer, or whether to send it."""
        if not (self.ask and sys.stdin.isatty()):
            return self
        if self.file is None and self.answer in (None, _FROM_INPUT):
            return self.with_answer()
        sys.stderr.write("send? [y/N] ")
        sys.stderr.flush()
        if sys.stdin.readline().strip().lower() not in ("y", "yes"):
            raise RefusedError("nothing was sent")
        return self

    def with_answer(self) -> SubmitAsked:
        """With the answer that was given, or that is read now."""
        return replace(self, answer=self._read_answer())

    def _check_table(self) -> None:
        if (self.file is None) != (self.column is None):
            raise RefusedError("--file and --column go together: a table, and which column of it")
        if self.file is not None and self.answer is not None:
            raise RefusedError("give ANSWER or --file, not both")
        if self.file is not None and not self.file.exists():
            raise RefusedError(f"there is no file {self.file}; nothing was sent")
        if self.file is None and (self.job is not None or self.drop_nulls):
            raise RefusedError("--job and --drop-nulls go with --file, a table of many people")

    def _read_answer(self) -> str:
        if self.answer not in (None, _FROM_INPUT):
            return self.answer or ""
        if sys.stdin.isatty():
            sys.stderr.write("answer: ")
            sys.stderr.flush()
        read = sys.stdin.readline()
        if not read:
            raise RefusedError("ANSWER is missing: give it, or write it to the standard input")
        return read.removesuffix("\n").removesuffix("\r")
