"""How the command line fails: one line that says what is wrong, and exit code 2."""

from __future__ import annotations

import contextlib
import io
import sys
from typing import Any

import typer
from typer.core import TyperGroup

from shoal.errors import ShoalError

REFUSED = 2
INTERRUPTED = 130


class RefusedError(ShoalError):
    """Options that make no sense together, or a file that cannot be used."""


# Typer exports one of its usage errors; the base of that one is the base of all of them.
_UsageError: type[Exception] = typer.BadParameter.__bases__[0]


class OneLineErrors(TyperGroup):
    """A group of commands that reports what was refused in one line on standard error.

    Anything unexpected is not caught: a traceback there is a bug report.
    """

    def main(self, *args: Any, **kwargs: Any) -> Any:  # noqa: ANN401 - what Typer passes on
        """Run, and exit with the status: 0, 2 if something was refused, 130 after Ctrl-C."""
        _never_fail_to_print()
        kwargs["standalone_mode"] = False
        begins = kwargs.pop("begins", None)
        try:
            if begins is not None:
                begins()
            status = super().main(*args, **kwargs)
        except ShoalError as error:
            _refuse(str(error))
        except _UsageError as error:
            _refuse(error.format_message())  # type: ignore[attr-defined] # every usage error has it
        except (typer.Abort, KeyboardInterrupt):
            sys.exit(INTERRUPTED)
        sys.exit(status if isinstance(status, int) else 0)


def _refuse(message: str) -> None:
    sys.stderr.write(f"error: {printable(' '.join(message.split()))}\n")
    sys.exit(REFUSED)


def printable(text: str) -> str:
    """Text from a file, without what would command the terminal."""
    return "".join(
        letter if letter.isprintable() else "\N{REPLACEMENT CHARACTER}" for letter in text
    )


def _never_fail_to_print() -> None:
    """Where the terminal has no Greek letters, question marks are better than a traceback."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            with contextlib.suppress(io.UnsupportedOperation):
                stream.reconfigure(errors="replace")
