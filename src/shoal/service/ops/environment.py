"""What a process depends on around it: packages, randomness, room on the disk, the right time.

Asked before anything of the server is imported: it may not be installed.
"""

from __future__ import annotations

import os
import platform
import shutil
import time
from collections.abc import Callable, Iterator
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path

import numpy as np

from shoal import randomness
from shoal.errors import MissingExtraError
from shoal.service.clock import Clock, system_clock
from shoal.service.ops.health import Finding, State, fail, ok, warn

MACHINE = "this machine"
SERVER = ("alembic", "httpx", "prometheus_client", "sqlalchemy", "starlette", "uvicorn")
POSTGRES = ("psycopg",)
LITTLE_DISK = 1 << 30
LARGEST_JUMP = 300  # seconds
_NOT_BEFORE = 1_767_225_600  # 2026-01-01: no clock that is right says less
_WORDS = 1 << 14
_DEVIATIONS = 7.0  # a fair source is further off once in 10^11 times


def missing(modules: tuple[str, ...]) -> list[str]:
    """Those of the modules that cannot be imported here."""
    return [name for name in modules if find_spec(name) is None]


def need_server(feature: str) -> None:
    """Refuse in one line where the server's packages are not installed."""
    if missing(SERVER):
        raise MissingExtraError(feature, "server")


def need_party(feature: str, url: str | None) -> None:
    """The same for what opens a party's database; the driver of PostgreSQL, if that is its."""
    need_server(feature)
    if url is not None and url.startswith("postgresql") and missing(POSTGRES):
        raise MissingExtraError(f"{feature} with PostgreSQL", "postgres")


def machine_findings(clock: Clock = system_clock) -> Iterator[Finding]:
    """All that does not depend on a directory."""
    parts = ", ".join(f"{name} {version(name)}" for name in ("cryptography", "numpy"))
    yield ok("installed", f"shoal {version('shoal')}, Python {platform.python_version()}, {parts}")
    lacking = missing(SERVER)
    if lacking:
        advice = "pip install '.[server]' in a clone, to run services here"
        yield warn("server", f"not installed: {', '.join(lacking)}", advice)
    else:
        shown = ", ".join(f"{name} {version(name)}" for name in ("starlette", "uvicorn"))
        yield ok("server", shown)
    if missing(POSTGRES):
        advice = "pip install '.[postgres]' in a clone, for a store in PostgreSQL"
        yield warn("postgres", "not installed", advice)
    else:
        yield ok("postgres", f"psycopg {version('psycopg')}")
    yield random_source()
    now = Steadiness(clock).check()
    yield ok("clock", "says a possible time") if not now.advice else now


def random_source() -> Finding:
    """Whether the system's randomness is ready, and what is made of it is balanced."""
    advice = "do not collect anything on this machine"
    if hasattr(os, "getrandom"):
        try:
            os.getrandom(32, os.GRND_NONBLOCK)
        except BlockingIOError:
            return fail("randomness", "the system's source is not ready yet", "wait, and try again")
    words = randomness.secure().words(_WORDS)
    ones = int(np.bitwise_count(words).sum())
    bits = 64 * _WORDS
    off = abs(ones - bits / 2) / (np.sqrt(bits) / 2)
    if off > _DEVIATIONS or len(np.unique(words)) < _WORDS:
        return fail("randomness", f"{ones:,} ones in {bits:,} bits", advice)
    return ok("randomness", "the system's source, balanced and without repetition")


def disk(directory: Path) -> Finding:
    """Whether there is room for more."""
    # Here, so that the clock can be looked at where there are no databases.
    from shoal.service.db.files import LEAST_FREE

    free = shutil.disk_usage(directory).free
    left = f"{free / (1 << 30):.1f} GiB free"
    if free < LEAST_FREE:
        return fail("disk", left, "make room: reports are refused until there is", stops=True)
    if free < LITTLE_DISK:
        return warn("disk", left, "make room before it is full")
    return ok("disk", left)


def _steady() -> float:
    """Seconds that nobody sets, and that go on while the machine sleeps, where there are any."""
    source = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)
    return time.clock_gettime(source)


class Steadiness:
    """A clock against one that nobody sets, from the moment this is made."""

    def __init__(self, clock: Clock = system_clock, steady: Callable[[], float] = _steady) -> None:
        self._clock = clock
        self._steady = steady
        self._offset = clock() - steady()

    def is_steady(self) -> bool:
        """Whether ages that hang on it may be believed."""
        return self.check().state is not State.FAIL

    def check(self) -> Finding:
        """Whether it says a possible time, and was not set since."""
        now = self._clock()
        jumped = round(now - self._steady() - self._offset)
        advice = "set the clock (NTP), then start this process again"
        if now < _NOT_BEFORE:
            why = "the time lies before this program was written"
            return fail("clock", why, advice, stops=True)
        if abs(jumped) > LARGEST_JUMP:
            return fail("clock", f"set by {jumped:+d} s since the start", advice, stops=True)
        return ok("clock", "steady since the start")
