"""Services run as real processes."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time

import numpy as np

from factories import example
from repository import environment
from shoal.mechanisms.response import RandomizedResponse
from shoal.service.client import Keys, seal_many
from shoal.service.clock import system_clock
from shoal.service.keyring import Keyring, Protection
from shoal.service.opening import Pool
from shoal.service.shuffler.store import ShufflerStore
from shoal.service.shuffler.worker import Pace, ShufflerWorker


class Process:
    """``python -m shoal …`` as a process; killed at the end if it still runs."""

    def __init__(self, *words, **variables):
        self.process = subprocess.Popen(
            [sys.executable, "-m", "shoal", *map(str, words)],
            env=environment() | variables,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            encoding="utf-8",
        )

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.process.kill()
        self.process.communicate()


class Service(Process):
    """One with its log in a file."""

    def __init__(self, *words, log, **variables):
        self.log = log
        super().__init__(*words, "--log", log, **variables)

    def events(self):
        if not self.log.exists():
            return []
        lines = self.log.read_text().splitlines()
        return [json.loads(line) for line in lines if line.endswith("}")]

    def address(self, event="listening"):
        """Where it listens, once it does."""

        def found():
            assert self.process.poll() is None, self.process.communicate()
            return next((line for line in self.events() if line["event"] == event), None)

        return wait_for(found)["address"]

    def stop(self, number=signal.SIGTERM):
        """Ask it to stop; its status."""
        self.process.send_signal(number)
        return self.process.wait(60)


def wait_for(found, patience=60.0):
    """What ``found`` finds, as soon as it finds something."""
    deadline = time.monotonic() + patience
    while time.monotonic() < deadline:
        value = found()
        if value:
            return value
        time.sleep(0.05)
    message = f"waited {patience} s in vain"
    raise AssertionError(message)


def quick(question, answers, people):
    """A survey as of ``shoal up``, with a mechanism that need not be searched for."""

    def survey(shuffler, analyzer, now):
        return example(
            RandomizedResponse(k=len(answers), epsilon=1.0),
            name="quick",
            question=question,
            answers=answers,
            minimum=int(0.8 * people),
            target=people,
            epsilon=1.0,
            opens=now - 60,
            shuffler=shuffler,
            analyzer=analyzer,
        )

    return survey


def reports(embedded, people, answer=0):
    """Sealed reports of so many people for the survey in a directory."""
    survey = embedded.survey()
    now = system_clock()
    public = {
        role: Keyring.open(embedded.home(role).keys, protection=None)
        .list()
        .current(survey.suite, now)
        for role in ("shuffler", "analyzer")
    }
    values = np.full(people, answer, dtype=np.int64)
    return seal_many(survey, values, Keys(public["analyzer"], public["shuffler"]))


def opened(embedded):
    """Valid reports in a shuffler's store, after a worker has opened everything."""
    home = embedded.home("shuffler")
    database = home.database()
    store = ShufflerStore(database, home.directory, system_clock)
    try:
        worker = ShufflerWorker(
            store, home.keyring(Protection.none()), Pool(0), pace=Pace(gather=0)
        )
        while worker.step():
            pass
        return store.reports.tallies(embedded.survey().id)
    finally:
        store.close()
        database.close()
