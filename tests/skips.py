"""No silent skips, as a plugin of pytest.

A skipped test is a claim nobody checked. The run's last lines name every one, and where ``CI=true``
a skip fails the run: a component missing there is a broken setup. Slow tests left out by
``-m "not slow"`` are deselected, not skipped, and do not count.
"""

from __future__ import annotations

import os

import pytest


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
