"""What every test run shares: quiet plots, files in memory, the same chance, no silent skips."""

from __future__ import annotations

import fcntl
import gc
import os
import shutil
import sys
import tempfile
from functools import lru_cache, partial
from hashlib import blake2b
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

import computed_once
import skips
from computed_once import every_migration  # noqa: F401 - a fixture
from repeatable import RepeatableKeys

os.environ.setdefault("MPLBACKEND", "Agg")

# Nobody pulls the plug of a test, whose files are all gone afterwards: they are in memory if there
# is room, also those of the processes that it starts. What a killed process wrote is there, too.
_MEMORY = Path("/dev/shm")  # noqa: S108 - every file there has a directory of its own
if _MEMORY.is_dir() and shutil.disk_usage(_MEMORY).free > 2 << 30:
    os.environ.setdefault("TMPDIR", str(_MEMORY))
    tempfile.tempdir = None

# Neither an example nor drawing it is timed: the machine may be busy.
settings.register_profile(
    "shoal",
    deadline=None,
    derandomize=True,
    max_examples=50,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("shoal")


def pytest_configure(config: pytest.Config) -> None:
    config.pluginmanager.register(RepeatableKeys())
    config.pluginmanager.register(skips)
    computed_once.install()


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_collection(session: pytest.Session):
    """In a new clone one worker compiles what there is, and the others read what it has written."""
    run = getattr(session.config, "workerinput", {}).get("testrunuid")
    compiled = sys.dont_write_bytecode or (Path(__file__).parent / "web" / "__pycache__").exists()
    if run is None or compiled:
        return (yield)
    turn = Path(tempfile.gettempdir()) / f"shoal-{run}"
    with turn.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        collected = yield
        turn.unlink(missing_ok=True)
    return collected


@pytest.hookimpl(trylast=True)
def pytest_collection_finish() -> None:
    """Nobody looks for garbage among thousands of tests and all that was imported for them."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(20_000, 10, 10)


def pytest_unconfigure() -> None:
    """At the end it is garbage like any other: libraries complain about what is left of them."""
    gc.unfreeze()


@pytest.fixture(scope="session", autouse=True)
def integrals_once():
    """The same integral (of a law, a crowd and an epsilon) is solved once: searches meet it often.

    It is a pure function of what the key is made of. So are lists of counts, of which a program
    that asks about a few laws needs a few.
    """
    from shoal.accounting import integral

    known, solve = {}, integral.enclose
    counts = lru_cache(maxsize=128)(integral._counts_up_to.__wrapped__)

    def content(pair):
        arrays = (pair.mass, pair.rho0, pair.rho1, pair.lost0, pair.lost1)
        digest = blake2b(b"|".join(array.tobytes() for array in arrays), digest_size=16).digest()
        limits = (pair.local_epsilon, pair.reversed_epsilon, pair.error, pair.dropped)
        return digest, *limits, pair.tolerance

    def enclose(pair, *, n, epsilon, tolerance=None):
        if "_content" not in vars(pair):  # nothing of it ever changes
            vars(pair)["_content"] = content(pair)
        key = (vars(pair)["_content"], n, epsilon, tolerance)
        if key not in known:
            known[key] = solve(pair, n=n, epsilon=epsilon, tolerance=tolerance)
        return known[key]

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(integral, "enclose", enclose)
        patched.setattr(integral, "_counts_up_to", counts)
        yield


@pytest.fixture(scope="session")
def calibrated_once():
    """Where plans are made again and again: the same randomizer for the same target is found once.

    A search is a pure function of what it is asked, and nearly all that a plan costs.
    """
    import shoal
    from shoal.accounting import amplification
    from shoal.testing import designing

    known, search = {}, shoal.local_epsilon  # loaded now, the public name stays what it is

    def local_epsilon(family=None, **asked):
        if not isinstance(family, partial):  # what a lambda makes, nobody can tell
            return search(family, **asked)
        made = (family.func, family.args, *sorted(family.keywords.items()))
        key = (*made, *sorted(asked.items()))
        if key not in known:
            known[key] = search(family, **asked)
        return known[key]

    with pytest.MonkeyPatch.context() as patched:
        for module in (amplification, designing):
            patched.setattr(module, "local_epsilon", local_epsilon)
        yield
