"""A skip is never silent: it is named in the last lines, and where CI=true it fails the run."""

from __future__ import annotations

import subprocess
import sys

import pytest

import skips
from repository import ROOT, environment

SUITE = """\
import pytest

def test_runs():
    pass

def test_needs_something():
    pytest.skip("nothing here")

@pytest.mark.slow
def test_takes_long():
    raise AssertionError
"""


def run_suite(directory, suite, *options, ci):
    (directory / "pytest.ini").write_text("[pytest]\nmarkers = slow\n")
    (directory / "test_suite.py").write_text(suite)
    variables = {"CI": ci, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "PYTHONPATH": str(ROOT / "tests")}
    return subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "skips", *options],
        cwd=directory,
        env=environment() | variables,
        capture_output=True,
        text=True,
        check=False,
    )


def test_this_run_has_it_too(pytestconfig):
    assert pytestconfig.pluginmanager.is_registered(skips)


@pytest.mark.parametrize(
    "options",
    [
        pytest.param([], id="alone"),
        pytest.param(["-p", "xdist", "-n", "1"], id="distributed", marks=pytest.mark.slow),
    ],
)
@pytest.mark.parametrize(("ci", "status"), [("true", 1), ("", 0)])
def test_a_skip_is_named_and_fails_where_it_matters(tmp_path, options, ci, status):
    finished = run_suite(tmp_path, SUITE, "-m", "not slow", *options, ci=ci)
    assert finished.returncode == status, finished.stdout
    heading, line, *_ = finished.stdout.splitlines()[-3:]
    assert "NOT CHECKED: 1 skipped" in heading
    assert line == "test_suite.py::test_needs_something: nothing here"


def test_a_whole_module_that_cannot_be_imported_counts(tmp_path):
    suite = 'import pytest\npytest.importorskip("no_such_library")\n\ndef test_it(): pass\n'
    finished = run_suite(tmp_path, suite + SUITE, ci="true")
    assert finished.returncode != 0
    assert "no_such_library" in finished.stdout.splitlines()[-2]


def test_leaving_out_slow_tests_is_not_a_skip(tmp_path):
    suite = SUITE.replace('pytest.skip("nothing here")', "pass")
    finished = run_suite(tmp_path, suite, "-m", "not slow", ci="true")
    assert finished.returncode == 0, finished.stdout
    assert "NOT CHECKED" not in finished.stdout
