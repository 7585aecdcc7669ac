"""Processes that may die anywhere, each forked from one that has imported everything.

They are there at once, and share nothing with the test but what they are asked and answer. What
they do is a function of a module here. If that has a ``rehearse``, it is called once in the process
that they are forked from: what it has imported and compiled, nobody does again.
"""

from __future__ import annotations

import gc
import json
import os
import signal
import subprocess
import sys
import tempfile
import traceback
from functools import cache
from importlib import import_module
from pathlib import Path

import computed_once
from repository import ROOT, environment
from shoal.service import failpoints


class Forks:
    """The process that the others are forked from."""

    def __init__(self):
        variables = environment()
        variables["PYTHONPATH"] += f":{ROOT / 'tests'}"
        self._process = subprocess.Popen(
            [sys.executable, "-m", "forking"],
            env=variables,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def run(self, do, *asked):
        """How each of these, all at once, ended, and what it answered unless it died before.

        ``do`` is ``module.function``, which gets what is asked by name. One that has a ``point`` is
        killed there.
        """
        self._process.stdin.write(json.dumps([do, asked]) + "\n")
        self._process.stdin.flush()
        return [tuple(each) for each in json.loads(self._process.stdout.readline())]

    def close(self):
        self._process.stdin.close()
        self._process.wait(timeout=600)
        self._process.stdout.close()


def serve():
    """Fork for everything that is asked, and answer with what the function returns there."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    computed_once.install()
    for line in sys.stdin:
        do, asked = json.loads(line)
        name, _, function = do.rpartition(".")
        module = _rehearsed(name)
        children = [_forked(getattr(module, function), each) for each in asked]
        sys.stdout.write(json.dumps([_ended(*child) for child in children]) + "\n")
        sys.stdout.flush()


@cache
def _rehearsed(name):
    module = import_module(name)
    if hasattr(module, "rehearse"):
        with tempfile.TemporaryDirectory() as directory:
            module.rehearse(Path(directory))
    gc.freeze()  # nobody looks for garbage in what is here
    return module


def _forked(do, asked):
    reading, writing = os.pipe()
    child = os.fork()
    if child:
        os.close(writing)
        return child, reading
    status = 1
    try:
        if point := asked.pop("point", None):
            failpoints._target, failpoints._left = failpoints._parsed(point)
        os.write(writing, json.dumps(do(**asked)).encode())
        status = 0
    except BaseException:  # noqa: BLE001 - the parent is told by the status
        traceback.print_exc()
    finally:
        os._exit(status)


def _ended(child, reading):
    with os.fdopen(reading) as answered:
        answer = answered.read()
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    return status, json.loads(answer) if answer else None


if __name__ == "__main__":
    serve()
