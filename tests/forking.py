"""Processes that may die anywhere, each forked from one that has imported everything.

They are there at once, and share nothing with the test but what they are asked and answer. A module
that can be run this way ends with ``if __name__ == "__main__": serve(do, rehearse)``: what the
rehearsal has imported and compiled, nobody does again.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import traceback
from pathlib import Path

import computed_once
from repository import ROOT, environment
from shoal.service import failpoints


class Forking:
    """The process that the others are forked from; it runs this module."""

    def __init__(self, module):
        variables = environment()
        variables["PYTHONPATH"] += f":{ROOT / 'tests'}"
        self._process = subprocess.Popen(
            [sys.executable, "-m", module],
            env=variables,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def run(self, *asked):
        """How each of these, all at once, ended, and what it answered unless it died before.

        One that has a ``point`` is killed there.
        """
        self._process.stdin.write(json.dumps(asked) + "\n")
        self._process.stdin.flush()
        return [tuple(each) for each in json.loads(self._process.stdout.readline())]

    def close(self):
        self._process.stdin.close()
        self._process.wait(timeout=600)
        self._process.stdout.close()


def serve(do, rehearse):
    """Fork for everything that is asked, and answer with what ``do`` returns there."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    computed_once.install()
    with tempfile.TemporaryDirectory() as directory:
        rehearse(Path(directory))
    for line in sys.stdin:
        children = [_forked(do, asked) for asked in json.loads(line)]
        sys.stdout.write(json.dumps([_ended(*child) for child in children]) + "\n")
        sys.stdout.flush()


def _forked(do, asked):
    reading, writing = os.pipe()
    child = os.fork()
    if child:
        os.close(writing)
        return child, reading
    status = 1
    try:
        if asked.get("point"):
            failpoints._target, failpoints._left = failpoints._parsed(asked["point"])
        os.write(writing, json.dumps(do(asked)).encode())
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
