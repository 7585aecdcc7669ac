"""Secure streams that are the same on every run of a test.

A statistical test that draws anew each time fails now and then, for nobody's fault. So the keys of
secure streams are made from the name of the test (or of the fixture that tests share), and from how
many it has had: all else about the streams is real. Other processes, forked or started, have keys
of the operating system as ever, and so has what is drawn between tests. A script that is to be a
process of its own and draw the same every time: ``python tests/repeatable.py script.py``.
"""

from __future__ import annotations

import hashlib
import os
import runpy
import sys
import threading
from collections import Counter
from contextlib import contextmanager
from pathlib import Path

import pytest

from shoal import randomness


class RepeatableKeys:
    """Names whose turn it is, the innermost last, and how many keys each has had."""

    def __init__(self):
        self._names = []
        self._had = Counter()
        self._lock = threading.Lock()
        self._process = os.getpid()

    def entropy(self, length):
        """What takes the place of the operating system's bytes."""
        names = [*self._names]  # a server's thread may draw while a test ends
        if not names or os.getpid() != self._process:
            return os.urandom(length)
        with self._lock:
            self._had[names[-1]] += 1
            number = self._had[names[-1]]
        return hashlib.shake_128(f"{number} of {names[-1]}".encode()).digest(length)

    @contextmanager
    def turn(self, name):
        """Keys are for this name."""
        self._names.append(name)
        try:
            yield
        finally:
            self._names.pop()

    def pytest_configure(self):
        """From here on it is in use."""
        randomness._entropy = self.entropy

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item):
        with self.turn(item.nodeid):
            return (yield)

    @pytest.hookimpl(wrapper=True)
    def pytest_fixture_setup(self, fixturedef, request):
        """What several tests share must not depend on which of them came first."""
        if fixturedef.scope == "function":
            return (yield)
        place = f"{request.node.nodeid}::{fixturedef.argname}{getattr(request, 'param_index', '')}"
        with self.turn(place):
            return (yield)


def main(script):
    """Run a script as if it had been started itself."""
    keys = RepeatableKeys()
    keys.pytest_configure()
    sys.argv = [script]
    sys.path[0] = str(Path(script).parent)
    with keys.turn(Path(script).name):
        runpy.run_path(script, run_name="__main__")


if __name__ == "__main__":
    main(sys.argv[1])
