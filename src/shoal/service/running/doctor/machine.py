"""This machine: what is installed, its randomness, its clock."""

from __future__ import annotations

import os
import platform
from collections.abc import Iterator
from importlib.metadata import version

import numpy as np

from shoal import randomness
from shoal.service.clock import Clock, system_clock
from shoal.service.running.extras import POSTGRES, SERVER, missing
from shoal.service.running.findings import Finding, fail, ok, warn
from shoal.service.running.surroundings import Steadiness

MACHINE = "this machine"
_WORDS = 1 << 14
_DEVIATIONS = 7.0  # a fair source is further off once in 10^11 times


def machine_findings(clock: Clock = system_clock) -> Iterator[Finding]:
    """All that does not depend on a directory."""
    yield installed()
    yield from _extras()
    yield random_source()
    now = Steadiness(clock).check()
    yield ok("clock", "says a possible time") if not now.advice else now


def installed() -> Finding:
    """What runs here."""
    parts = ", ".join(f"{name} {version(name)}" for name in ("cryptography", "numpy"))
    told = f"shoal {version('shoal')}, Python {platform.python_version()}, {parts}"
    return ok("installed", told)


def _extras() -> Iterator[Finding]:
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
