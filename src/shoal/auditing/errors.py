"""What goes wrong in somebody else's code while it is audited."""

from __future__ import annotations

import traceback
from collections.abc import Iterator
from contextlib import contextmanager

from shoal.errors import ShoalError

_LONGEST = 300


class AuditedCodeError(ShoalError):
    """The audited code failed, so there is no verdict at all."""

    def __init__(self, subject: str, reason: str) -> None:
        self.subject = subject
        self.reason = reason
        super().__init__(f"{subject} failed: {reason}; nothing was concluded")


@contextmanager
def running(subject: str) -> Iterator[None]:
    """Anything that the audited code raises becomes one line: its type, its words, its place."""
    try:
        yield
    except ShoalError:
        raise
    except (Exception, SystemExit) as error:  # leaving is failing: the status is the auditor's
        raise AuditedCodeError(subject, _told(error)) from error


def _told(error: BaseException) -> str:
    words = " ".join(str(error).split())[:_LONGEST]
    frames = traceback.extract_tb(error.__traceback__)
    where = f" ({frames[-1].filename}, line {frames[-1].lineno})" if frames else ""
    return f"{type(error).__name__}{': ' if words else ''}{words}{where}"
