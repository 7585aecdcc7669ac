"""Both parties with real stores, keys and reports, that can be lost and brought back."""

from __future__ import annotations

import shutil
from hashlib import sha256

import numpy as np

from analyzer_kit import DirectSource
from factories import Half
from service.live import START, survey_of
from shoal.service.analyzer.collect import AnalyzerWorker
from shoal.service.batch_file import BatchFile
from shoal.service.client import Keys, seal_many
from shoal.service.clock import ManualClock
from shoal.service.keyring import Protection
from shoal.service.opening import Pool
from shoal.service.ops.backup import back_up
from shoal.service.ops.home import Home
from shoal.service.ops.restore import restore
from shoal.service.shuffler.intake import sorted_upload
from shoal.service.shuffler.worker import Pace, ShufflerWorker
from shoal.service.survey import Party

CROWD = 20
DAY = 86_400


class Watched(DirectSource):
    """A shuffler whose releases are written down: what went out, in which batch."""

    def __init__(self, store, survey, released):
        super().__init__(store, survey.id)
        self._paths = (store, survey.id)
        self._released = released

    def fetch(self, batch, request):
        store, survey = self._paths
        self._released.append(store.batches.release(survey, batch, request).read_bytes())
        return super().fetch(batch, request)


class Service:
    """A shuffler and an analyzer in a directory, with a clock in our hands."""

    def __init__(self, directory, *, schedule=None, **survey):
        self.directory, self.clock = directory, ManualClock(START)
        self.released = []  # every batch file that ever went out, in order
        self.shuffler = Half("shuffler", directory / "shuffler", self.clock, schedule=schedule)
        self.analyzer = Half("analyzer", directory / "analyzer", self.clock, schedule=schedule)
        self.survey = survey_of(
            Party(url="http://localhost:1", fingerprint=self.shuffler.keyring.fingerprint),
            Party(url="http://localhost:2", fingerprint=self.analyzer.keyring.fingerprint),
            now=START,
            **({"minimum": CROWD, "target": CROWD} | survey),
        )
        for half in (self.shuffler, self.analyzer):
            half.store.surveys.add(self.survey)

    def close(self):
        self.shuffler.close()
        self.analyzer.close()

    # People

    def reports(self, people):
        """Sealed with the keys of this moment."""
        public = [
            half.keyring.list().current(self.survey.suite, self.clock())
            for half in (self.analyzer, self.shuffler)
        ]
        return seal_many(self.survey, np.zeros(people, dtype=np.int64), Keys(*public))

    def send(self, reports):
        """How many were new; those with a key that nobody has are refused."""
        upload = sorted_upload(
            b"".join(reports),
            wire=self.shuffler.store.surveys.row(self.survey.id).wire,
            accepts=self.shuffler.keyring.accepts,
            most=10_000,
        )
        refused = sum(map(len, upload.refused.values()))
        return self.shuffler.store.reports.receive(upload.arrivals).new, refused

    # Work

    def open(self, upkeep=10**9):
        """Whatever the worker has to do."""
        worker = ShufflerWorker(
            self.shuffler.store,
            self.shuffler.keyring,
            Pool(0),
            self.clock,
            pace=Pace(gather=0, upkeep=upkeep),
        )
        while worker.step():
            pass

    def collect(self):
        """One pass of the analyzer."""
        with self.analyzer_worker() as worker:
            return worker.collect()[str(self.survey.id)]

    def analyzer_worker(self):
        def source(survey):
            return Watched(self.shuffler.store, survey, self.released)

        half = self.analyzer
        return AnalyzerWorker(half.store, half.keyring, source, Pool(0), clock=self.clock)

    def results(self):
        documents = self.analyzer.store.results.survey(self.survey.id).documents
        return {document["batch"]: document for document in documents}

    def batches(self):
        return {found.id: found for found in self.shuffler.store.batches.listed(self.survey.id)}

    # Loss

    def back_up(self, role, *, store=None, **options):
        home = Home(directory=self.directory / role, role=role, store=store)
        given = {"clock": self.clock, "waiting": True} | options
        made = back_up(home, self.directory / f"{role}.tar", **given)
        return made.path

    def lose(self, role):
        """Process and disk."""
        getattr(self, role).close()
        shutil.rmtree(self.directory / role)

    def bring_back(self, role, **options):
        """From the last backup."""
        done = restore(**self.restoring(role, **options), clock=self.clock)
        setattr(self, role, Half(role, self.directory / role, self.clock))
        return done

    def restoring(self, role, **options):
        given = {
            "backup": self.directory / f"{role}.tar",
            "directory": self.directory / role,
            "unlock": lambda _: Protection.none(),
        }
        return given | options


def records(batch):
    """The sealed records of a batch file, as a set."""
    found = BatchFile.read(batch)
    size = found.header.sections[0][1]
    body = bytes(found.body)
    return frozenset(body[start : start + size] for start in range(0, len(body), size))


def digest(path):
    return sha256(path.read_bytes()).hexdigest()
