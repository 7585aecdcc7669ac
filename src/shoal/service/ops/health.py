"""Facts that a party depends on: looked at once, told in three places.

A :class:`Fact` is a name, who looks, and what to do if that cannot even look. ``shoal doctor``
prints all that was found. ``/readyz`` has a line for each fact that the work hangs on, and the
metrics a number: 0 in order, 1 in order but for something, 2 not in order. Where a fact has figures
of its own, the metrics have those too.

What a process depends on around it is looked at here, before anything of the server is imported
(it may not be installed): packages, randomness, room on the disk, the right time. What a party
depends on is in :mod:`shoal.service.ops.facts`.

A failure that *stops* the service makes ``/readyz`` answer 503, so that a load balancer sends
nobody here. Others (a key to come that is lost, say) are warnings there: what devices send is still
taken.
"""

from __future__ import annotations

import os
import platform
import shutil
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from functools import partial
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from threading import Lock
from typing import NamedTuple, TypeAlias

import numpy as np

from shoal.errors import MissingExtraError, ShoalError, install_command
from shoal.randomness import secure
from shoal.service.clock import Clock, system_clock

MACHINE = "this machine"
SERVER = ("alembic", "httpx", "prometheus_client", "sqlalchemy", "starlette", "uvicorn")
POSTGRES = ("psycopg",)
LITTLE_DISK = 1 << 30
LARGEST_JUMP = 300  # seconds
# Seconds that nobody sets, and that go on while the machine sleeps, where there are any.
_STEADY = partial(time.clock_gettime, getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC))
_FRESH = 1.0
_NOT_BEFORE = 1_767_225_600  # 2026-01-01: no clock that is right says less
_WORDS = 1 << 14
_DEVIATIONS = 7.0  # a fair source is further off once in 10^11 times


class Figure(NamedTuple):
    """A number for monitoring, by a name that the metrics explain."""

    name: str
    value: float
    labels: Mapping[str, str]


def figure(name: str, value: float, **labels: str) -> Figure:
    """A number under its name, with labels that tell it from others of that name."""
    return Figure(name, value, labels)


Figures: TypeAlias = Callable[[], Iterable[Figure]]  # read when they are asked for


class State(StrEnum):
    """In order; in order but for something; not in order."""

    OK = "ok"
    WARN = "warn"
    FAIL = "fail"


SEVERITY = {state: severity for severity, state in enumerate(State)}


@dataclass(frozen=True)
class Finding:
    """What was found, and what to do about it; ``stops``: nobody should be sent here."""

    state: State
    check: str
    detail: str
    advice: str = ""
    stops: bool = False

    def to_dict(self) -> dict[str, str]:
        """Plain values."""
        names = ("check", "state", "detail", "advice")
        return {name: str(getattr(self, name)) for name in names}


ok = partial(Finding, State.OK)
warn = partial(Finding, State.WARN)
fail = partial(Finding, State.FAIL)


@dataclass(frozen=True)
class Fact:
    """Something a party depends on: its name, who looks, and what to do if that cannot look.

    ``ready``: the work hangs on it, so that ``/readyz`` and the metrics have it, too. ``figures``
    are more numbers for the metrics.
    """

    name: str
    probe: Callable[[], Iterable[Finding]]
    advice: str = "see the log of this process, and run shoal doctor"
    ready: bool = True
    figures: Figures | None = None

    def findings(self) -> list[Finding]:
        """What is found; if nobody can look, that is what was found."""
        try:
            return list(self.probe())
        except ShoalError as error:
            advice = getattr(error, "advice", self.advice)
            return [fail(self.name, str(error), advice, stops=True)]
        except OSError as error:
            why = error.strerror or type(error).__name__
            return [fail(self.name, why, self.advice, stops=True)]

    def summary(self) -> Finding:
        """The worst of it, in one line under the fact's name."""
        findings = self.findings()
        if not findings:
            return ok(self.name, "nothing to check")
        bad = max(findings, key=lambda each: (each.stops, SEVERITY[each.state]))
        detail = bad.detail if bad.check == self.name else f"{bad.check}: {bad.detail}"
        state = State.WARN if bad.state is State.FAIL and not bad.stops else bad.state
        return replace(bad, check=self.name, state=state, detail=detail)


@dataclass
class Readiness:
    """The facts of a process: those it depends on, looked at no more than once in a second."""

    facts: Sequence[Fact]
    _lock: Lock = field(default_factory=Lock, init=False)
    _until: float = field(default=-1.0, init=False)
    _findings: list[Finding] = field(default_factory=list, init=False)

    def findings(self) -> list[Finding]:
        """What was found a moment ago.

        Whoever asks while somebody else looks gets what was found before: a database that takes
        its time to be gone must not hold up everybody who asks.
        """
        if self._findings and time.monotonic() < self._until:
            return self._findings
        if self._lock.acquire(blocking=not self._findings):
            try:
                self._findings = [fact.summary() for fact in self.facts if fact.ready]
                self._until = time.monotonic() + _FRESH
            finally:
                self._lock.release()
        return self._findings


@dataclass(frozen=True)
class Examination:
    """What was found, under the name of what was looked at."""

    parts: dict[str, list[Finding]]

    @property
    def state(self) -> State:
        """The worst of it."""
        states = {finding.state for findings in self.parts.values() for finding in findings}
        return max(states, key=SEVERITY.__getitem__, default=State.OK)

    def to_dict(self) -> dict[str, object]:
        """Plain values."""
        return {
            "state": self.state.value,
            "checks": [
                {"of": name, **finding.to_dict()}
                for name, findings in self.parts.items()
                for finding in findings
            ],
        }


# This machine


def missing(modules: tuple[str, ...]) -> list[str]:
    """Those of the modules that cannot be imported here."""
    return [name for name in modules if find_spec(name) is None]


def need_server(feature: str, url: str | None = None) -> None:
    """Refuse in one line where the server's packages are not installed.

    Nor may the driver of PostgreSQL be missing, if the address of the database is one of its.
    """
    if missing(SERVER):
        raise MissingExtraError(feature, "server")
    if url is not None and url.startswith("postgresql") and missing(POSTGRES):
        raise MissingExtraError(f"{feature} with PostgreSQL", "postgres")


def machine_findings(clock: Clock = system_clock) -> Iterator[Finding]:
    """All that does not depend on a directory."""
    parts = ", ".join(f"{name} {version(name)}" for name in ("cryptography", "numpy"))
    yield ok("installed", f"shoal {version('shoal')}, Python {platform.python_version()}, {parts}")
    lacking = missing(SERVER)
    if lacking:
        advice = f"to run services here: {install_command('server')}"
        yield warn("server", f"not installed: {', '.join(lacking)}", advice)
    else:
        shown = ", ".join(f"{name} {version(name)}" for name in ("starlette", "uvicorn"))
        yield ok("server", shown)
    if missing(POSTGRES):
        advice = f"to store in PostgreSQL: {install_command('postgres')}"
        yield warn("postgres", "not installed", advice)
    else:
        yield ok("postgres", f"psycopg {version('psycopg')}")
    yield random_source()
    now = Steadiness(clock).check()
    yield ok("clock", "plausible") if not now.advice else now


def random_source() -> Finding:
    """Whether the system's randomness is ready, and what is made of it is balanced."""
    advice = "collect nothing with this machine"
    if hasattr(os, "getrandom"):
        try:
            os.getrandom(32, os.GRND_NONBLOCK)
        except BlockingIOError:
            return fail("randomness", "the system's source is not ready yet", "wait, and try again")
    words = secure().words(_WORDS)
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
        return fail("disk", left, "free some space: reports are refused until then", stops=True)
    if free < LITTLE_DISK:
        return warn("disk", left, "free some space before the disk is full")
    return ok("disk", left)


class Steadiness:
    """A clock against one that nobody sets, from the moment this is made."""

    def __init__(self, clock: Clock = system_clock, steady: Callable[[], float] = _STEADY) -> None:
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
        advice = "correct the clock (NTP), then restart this process"
        if now < _NOT_BEFORE:
            why = "the time is before this program was written"
            return fail("clock", why, advice, stops=True)
        if abs(jumped) > LARGEST_JUMP:
            return fail("clock", f"set by {jumped:+d} s since the start", advice, stops=True)
        return ok("clock", "steady since the start")
