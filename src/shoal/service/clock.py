"""What time it is: the only place of the service that asks, so that tests may decide."""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import UTC, datetime
from typing import TypeAlias

# Whole seconds since 1970.
Clock: TypeAlias = Callable[[], int]


def system_clock() -> int:
    """The machine's clock."""
    return int(time.time())


def moment(when: int) -> str:
    """A time as people read it, in UTC.

    >>> moment(1_578_096_000)
    '2020-01-04 00:00'
    """
    try:
        return datetime.fromtimestamp(when, tz=UTC).strftime("%Y-%m-%d %H:%M")
    except (ValueError, OverflowError, OSError):  # beyond the year 9999
        return f"{when} s"


def seen(when: int) -> str:
    """A time to the second, where two are compared; in UTC.

    >>> seen(1_578_096_001)
    '2020-01-04 00:00:01 UTC'
    """
    told = moment(when)
    return told if told.endswith("s") else f"{told}:{when % 60:02} UTC"


class ManualClock:
    """A clock that stands still until it is set, backwards too."""

    def __init__(self, now: int) -> None:
        self.now = now

    def __call__(self) -> int:
        """The time it was set to."""
        return self.now

    def advance(self, seconds: int) -> None:
        """Let so many seconds pass; a negative number is a clock set back."""
        self.now += seconds
