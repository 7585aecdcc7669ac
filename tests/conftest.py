"""What every test run shares: quiet plots, files in memory, the same chance, no silent skips.

A skipped test is a claim nobody checked. The run's last lines name every one, and where ``CI=true``
a skip fails the run: a component missing there is a broken setup. Slow tests left out by
``-m "not slow"`` are deselected, not skipped, and do not count.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from hashlib import blake2b
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

import computed_once
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


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    if _skips(session.config) and _in_ci() and session.exitstatus == pytest.ExitCode.OK:
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


@pytest.hookimpl(trylast=True)
def pytest_terminal_summary(
    terminalreporter: pytest.TerminalReporter, config: pytest.Config
) -> None:
    skips = _skips(config)
    if not skips:
        return
    verdict = "a failure, because CI=true" if _in_ci() else "a failure where CI=true"
    terminalreporter.section(f"NOT CHECKED: {len(skips)} skipped ({verdict})", red=True)
    for line in skips:
        terminalreporter.write_line(line)


def _skips(config: pytest.Config) -> list[str]:
    """One line per skipped test; empty in a worker process, whose reports the main one collects."""
    reporter = config.pluginmanager.get_plugin("terminalreporter")
    if reporter is None or hasattr(config, "workerinput"):
        return []
    return [f"{report.nodeid}: {_reason(report)}" for report in reporter.stats.get("skipped", [])]


def _reason(report: pytest.TestReport | pytest.CollectReport) -> str:
    if isinstance(report.longrepr, tuple):
        return report.longrepr[2].removeprefix("Skipped: ")
    return str(report.longrepr)


def _in_ci() -> bool:
    return os.environ.get("CI") == "true"
