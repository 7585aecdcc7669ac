"""What every test run shares: quiet plots, files in memory, the same chance, no silent skips."""

from __future__ import annotations

import os
import shutil
import tempfile
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


@pytest.fixture(scope="session", autouse=True)
def integrals_once():
    """The same integral (of a law, a crowd and an epsilon) is solved once: searches meet it often.

    It is a pure function of what the key is made of.
    """
    from shoal.accounting import integral

    known, solve = {}, integral.enclose

    def enclose(pair, *, n, epsilon, tolerance=None):
        arrays = (pair.mass, pair.rho0, pair.rho1, pair.lost0, pair.lost1)
        content = blake2b(digest_size=16)
        for array in arrays:
            content.update(array.tobytes() + b"|")
        limits = (pair.local_epsilon, pair.reversed_epsilon, pair.error, pair.dropped)
        key = (content.digest(), *limits, n, epsilon, tolerance)
        if key not in known:
            known[key] = solve(pair, n=n, epsilon=epsilon, tolerance=tolerance)
        return known[key]

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(integral, "enclose", enclose)
        yield


@pytest.fixture(scope="session")
def calibrated_once():
    """Where plans are made again and again: the same randomizer for the same target is found once.

    A search is a pure function of what it is asked, and nearly all that a plan costs.
    """
    from shoal.accounting import amplification
    from shoal.planning import planner
    from shoal.testing import designing

    known, search = {}, amplification.local_epsilon

    def local_epsilon(family, **asked):
        made = (family.func, family.args, *sorted(family.keywords.items()))
        key = (*made, *sorted(asked.items()))
        if key not in known:
            known[key] = search(family, **asked)
        return known[key]

    with pytest.MonkeyPatch.context() as patched:
        for module in (planner, designing):
            patched.setattr(module, "local_epsilon", local_epsilon)
        yield
