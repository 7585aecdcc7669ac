"""What time it is: the only place of the service that asks, so that tests may decide.

And how long something must look useless before it is deleted. One look may be wrong: a clock that
is ahead for a moment, a commit that the server has not finished though whoever asked for it is
dead, a database that was restored a minute ago. What is found useless at every look for a while, by
a clock that nobody sets, is.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Hashable, Iterable
from typing import Generic, TypeAlias, TypeVar

from shoal import checks

HOUR = 3600
DAY = 24 * HOUR
Thing = TypeVar("Thing", bound=Hashable)

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


class GracePeriod(Generic[Thing]):
    """Since when things look useless; of one process, forgotten with it."""

    def __init__(self, seconds: float = HOUR, steady: Callable[[], float] = time.monotonic) -> None:
        checks.non_negative(grace=seconds)
        self._seconds = seconds
        self._steady = steady
        self._since: dict[Thing, float] = {}

    def over(self, useless: Iterable[Thing]) -> set[Thing]:
        """Those that looked useless at every look for long enough; ``useless`` do so now."""
        now = self._steady()
        self._since = {thing: self._since.get(thing, now) for thing in useless}
        return {thing for thing, since in self._since.items() if now - since >= self._seconds}
