"""Both parties as real processes on this machine, under load that is made here."""

from __future__ import annotations

import asyncio
import multiprocessing
import os
import sys
import threading
import time
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median

from repository import benchmark
from running_kit import quick
from shoal.service.clock import system_clock
from shoal.service.ops.up import Embedded, Local, running
from shoal.service.shuffler.store import ShufflerStore

loadtest = benchmark("loadtest")
IDLE = 0.7  # load average below which nothing else runs
_PAGE = os.sysconf("SC_PAGE_SIZE")


def megabytes(pid):
    """Memory of a process."""
    pages = int(Path(f"/proc/{pid}/statm").read_text(encoding="ascii").split()[1])
    return pages * _PAGE / 1e6


class Machine:
    """How busy this machine was before: rates are the service's own on an idle one only."""

    def __init__(self):
        self.load = os.getloadavg()[0]

    @property
    def idle(self):
        return self.load < IDLE

    def tell(self, capsys, line):
        """A line for whoever runs the test, whether or not it passes."""
        if not self.idle:
            line += f"; limits of speed NOT ENFORCED: the load was {self.load:.2f} at the beginning"
        with capsys.disabled():
            sys.stdout.write(f"\n{line}\n")


def processor_seconds(pid):
    """What a process has used so far, all of its threads together."""
    return time.clock_gettime((~pid << 3) | 2)  # as clock_getcpuclockid(3) has it


@dataclass
class Deployed:
    """A shuffler, its worker and an analyzer, ready for people."""

    local: Local
    embedded: Embedded

    @property
    def survey(self):
        return self.local.survey

    @property
    def pids(self):
        return {child.name: child.process.pid for child in self.local.children._children}

    def memory(self):
        return {name: megabytes(pid) for name, pid in self.pids.items()}

    @property
    def wal_bytes(self):
        path = self.embedded.home("shuffler").directory / "store.sqlite-wal"
        return path.stat().st_size if path.exists() else 0

    def tallies(self):
        """What the worker has made of the reports so far."""
        home = self.embedded.home("shuffler")
        database = home.database()
        try:
            store = ShufflerStore(database, home.directory, system_clock)
            return store.reports.tallies(self.survey.id)
        finally:
            database.close()

    def reports(self, bulk=1):
        url = self.survey.shuffler.url
        return loadtest.Reports(self.survey, loadtest.fetched_keys(self.survey, url), bulk)

    def target(self, reports):
        url = f"{self.survey.shuffler.url}/v1/surveys/{self.survey.id}/reports"
        return loadtest.Target.of(url, reports.body_bytes)


@contextmanager
def deployed(directory, people):
    """A survey whose batches close at so many people."""
    design = quick(question="?", answers=("a", "b", "c", "d"), people=people)
    with running(directory, design) as local:
        local.wait_until_ready()
        yield Deployed(local, Embedded(directory=directory))


@dataclass(frozen=True)
class Stream:
    """Requests of one kind of body, at a rate."""

    mix: loadtest.Mix
    load: loadtest.Load
    reports: loadtest.Reports
    fresh: list


def stream(site, *, requests, rate, bulk=1, connections=32, **shares):
    """A stream with its reports sealed, by two processes if they are many."""
    mix = loadtest.Mix(requests=requests, **shares)
    reports = site.reports(bulk)
    if mix.fresh * bulk < 1000:
        fresh = reports.fresh(mix.fresh)
    else:
        context = multiprocessing.get_context("spawn")
        with ProcessPoolExecutor(2, mp_context=context) as pool:
            fresh = reports.fresh(mix.fresh, pool=pool)
    return Stream(mix, loadtest.Load(rate=rate, connections=connections), reports, fresh)


def sent(site, *streams):
    """Send streams at the same time; what was measured of each."""

    async def one(each):
        requests = each.mix.drawn(each.fresh, each.reports.forger())
        return await loadtest.run(site.target(each.reports), requests, each.load)

    async def everything():
        return await asyncio.gather(*(one(each) for each in streams))

    with asyncio.Runner(loop_factory=loadtest.quick_loop()) as runner:
        return runner.run(everything())


@dataclass
class Samples:
    """What processes were like, moment after moment."""

    when: list = field(default_factory=list)
    memory: list = field(default_factory=list)
    wal: list = field(default_factory=list)

    def growth(self, name, warm):
        """By what share of itself a process grew, from when it was warm to the end."""
        kept = [
            (when, row[name])
            for when, row in zip(self.when, self.memory, strict=True)
            if when - self.when[0] >= warm
        ]
        part = max(1, len(kept) // 5)
        before = median(value for _, value in kept[:part])
        after = median(value for _, value in kept[-part:])
        return after / before - 1


@contextmanager
def sampled(site, every):
    """Look at the processes again and again, as long as this lasts."""
    found, stop = Samples(), threading.Event()

    def look():
        while True:
            found.when.append(time.monotonic())
            found.memory.append(site.memory())
            found.wal.append(site.wal_bytes)
            if stop.wait(every):
                return

    thread = threading.Thread(target=look, daemon=True)
    thread.start()
    try:
        yield found
    finally:
        stop.set()
        thread.join()
