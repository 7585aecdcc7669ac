"""What a process depends on around it: room on the disk, and a clock that is right."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable
from pathlib import Path

from shoal.service.clock import Clock, system_clock
from shoal.service.running.findings import Finding, State, fail, ok, warn

LITTLE_DISK = 1 << 30
LARGEST_JUMP = 300  # seconds
_NOT_BEFORE = 1_767_225_600  # 2026-01-01: no clock that is right says less


def disk(directory: Path) -> Finding:
    """Whether there is room for more."""
    # Here, so that the clock can be looked at where there are no databases.
    from shoal.service.db.files import LEAST_FREE

    free = shutil.disk_usage(directory).free
    told = f"{free / (1 << 30):.1f} GiB free"
    if free < LEAST_FREE:
        return fail("disk", told, "make room: reports are refused until there is")
    if free < LITTLE_DISK:
        return warn("disk", told, "make room before it is full")
    return ok("disk", told)


def _steady() -> float:
    """Seconds that nobody sets, and that go on while the machine sleeps, where there are any."""
    source = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)
    return time.clock_gettime(source)


class Steadiness:
    """A clock against one that nobody sets, from the moment this is made."""

    def __init__(
        self, clock: Clock = system_clock, steady: Callable[[], float] | None = None
    ) -> None:
        self._clock = clock
        self._steady = steady or _steady
        self._offset = clock() - self._steady()

    def is_steady(self) -> bool:
        """Whether ages that hang on it may be believed."""
        return self.check().state is not State.FAIL

    def check(self) -> Finding:
        """Whether it says a possible time, and was not set since."""
        now = self._clock()
        jumped = round(now - self._steady() - self._offset)
        advice = "set the clock (NTP), then start this process again"
        if now < _NOT_BEFORE:
            return fail("clock", "the time lies before this program was written", advice)
        if abs(jumped) > LARGEST_JUMP:
            return fail("clock", f"set by {jumped:+d} s since the start", advice)
        return ok("clock", "steady since the start")
