"""What time it is: the only place of the service that asks, so that tests may decide."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeAlias

# Whole seconds since 1970.
Clock: TypeAlias = Callable[[], int]


def system_clock() -> int:
    """The machine's clock."""
    return int(time.time())


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
