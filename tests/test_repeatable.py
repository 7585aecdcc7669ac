"""Chance in tests: the same on every run, another in every test, and nowhere else."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from repeatable import RepeatableKeys
from repository import ROOT, environment
from shoal import randomness

DRAW = "from shoal import randomness; print(*randomness.secure().words(2))"


@pytest.fixture(scope="module")
def shared():
    return randomness.secure().words(1).tolist()


def test_a_test_draws_the_same_on_every_run(shared):
    """Written down once: if it changes, tests are not what they were the run before."""
    assert shared == [15238342045359799693]
    assert randomness.secure().words(1).tolist() == [11493480940121350858]


def test_names_have_streams_of_their_own_and_none_comes_twice():
    keys, others = RepeatableKeys(), RepeatableKeys()
    seen = []
    for name in ("one", "two", "one"):
        with keys.turn(name), others.turn(name):
            seen += [keys.entropy(16) for _ in range(2)]
            assert seen[-2:] == [others.entropy(16) for _ in range(2)]
    assert len(set(seen)) == 6


def test_between_tests_and_in_other_processes_keys_are_the_systems():
    keys, others = RepeatableKeys(), RepeatableKeys()
    assert keys.entropy(16) != others.entropy(16)
    reading, writing = os.pipe()
    with keys.turn("one"), others.turn("one"):
        child = os.fork()
        if child == 0:
            os.write(writing, keys.entropy(16))
            os._exit(0)
        os.waitpid(child, 0)
        assert os.read(reading, 16) != others.entropy(16)
    os.close(reading)
    os.close(writing)


def test_a_script_draws_the_same_only_if_asked(tmp_path):
    script = tmp_path / "script.py"
    script.write_text(DRAW)

    def said(*words):
        run = [sys.executable, *words, str(script)]
        return subprocess.run(run, env=environment(), check=True, capture_output=True).stdout

    repeated = str(ROOT / "tests" / "repeatable.py")
    assert said(repeated) == said(repeated)
    assert said() != said()
