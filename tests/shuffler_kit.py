"""What the tests of the shuffler share: a survey, reports that are really sealed, a real server."""

from __future__ import annotations

from dataclasses import dataclass, field

import httpx
import numpy as np

from factories import DAY, Half, example
from http_kit import BYTES
from shoal.sealing import KeyPair
from shoal.service.clock import ManualClock
from shoal.service.db import Database
from shoal.service.http.limits import Limits
from shoal.service.keyring import Keyring
from shoal.service.opening import Pool
from shoal.service.shuffler.app import shuffler_app
from shoal.service.shuffler.reports import Arrival
from shoal.service.shuffler.store import ShufflerStore
from shoal.service.shuffler.worker import Pace, ShufflerWorker
from shoal.service.survey import Survey
from shoal.service.wire import Wire

NOW = 1_800_000_000


def survey_of(shuffler: str, **changes):
    """A survey that is open at NOW; its promise is loose, so that batches may be small."""
    given = {"name": "colours", "minimum": 20, "target": 40, "max_age": 3600, "epsilon": 1.01}
    return example(shuffler=shuffler, opens=NOW - DAY, days=31, **given | changes)


@dataclass
class Shuffler:
    """A whole shuffler in a directory, its clock in our hands."""

    store: ShufflerStore
    keyring: Keyring
    clock: ManualClock
    survey: Survey
    analyzer: KeyPair
    database: Database
    observed: list = field(default_factory=list)

    def close(self):
        self.store.close()
        self.database.close()

    @property
    def wire(self):
        return Wire.of(self.survey)

    @property
    def path(self):
        return f"/v1/surveys/{self.survey.id}"

    def app(self, **limits):
        def observe(*seen):
            self.observed.append(seen)

        return shuffler_app(
            self.store, self.keyring, limits=Limits(**limits), clock=self.clock, observe=observe
        )

    def worker(self, pool=None, *, keyring=None, fetcher=None, steady=lambda: True, **pace):
        """One that opens at once, and looks after files at every step, unless told otherwise."""
        return ShufflerWorker(
            self.store,
            keyring or self.keyring,
            pool or Pool(0),
            self.clock,
            pace=Pace(**{"upkeep": 0, "gather": 0} | pace),
            fetcher=fetcher,
            steady=steady,
        )

    def work(self):
        worker = self.worker()
        while worker.step():
            pass

    def receive(self, reports):
        """How many reports that nobody looked at, all under one key, are new to the store."""
        body = reports if isinstance(reports, bytes) else b"".join(reports)
        return self.store.reports.receive([Arrival(self.survey.id, body[1], body)]).new

    def released(self):
        """The reports of every batch that can be collected, sorted."""
        return sorted(info.reports for info in self.store.batches.listed(self.survey.id))

    def tallies(self):
        return self.store.reports.tallies(self.survey.id)

    def reports(self, count, *, analyzer=None, shuffler=None):
        """Really sealed, one answer after the other, as an honest crowd can have sent them."""
        key = shuffler or self.keyring.list().current(self.survey.suite, self.clock())
        rows = np.zeros(
            (count, self.wire.sections[0].slots, self.wire.sections[0].message_bytes),
            dtype=np.uint8,
        )
        rows[:, 0, -1] = np.arange(count) % len(self.survey.answers)
        public = (analyzer or self.analyzer).public
        return [self.wire.seal(row, analyzer=public, shuffler=key) for row in rows]

    def forged(self, count, key=0):
        """Right in length, version and key number; nothing in them opens."""
        noise = np.random.default_rng(1).integers(0, 256, (count, self.wire.report_bytes))
        noise[:, 0], noise[:, 1] = 1, key
        return noise.astype(np.uint8).tobytes()

    def token(self, survey=None, lifetime=DAY):
        chosen = self.survey.id if survey is None else survey
        return {"Authorization": f"Bearer {self.store.tokens.add('test', chosen, lifetime)}"}


def made(directory, *, url=None, **survey):
    """A new shuffler with one survey and one key."""
    clock = ManualClock(NOW)
    half = Half("shuffler", directory, clock, url=url)
    found = survey_of(half.keyring.fingerprint, **survey)
    half.store.surveys.add(found)
    analyzer = KeyPair.generate(number=3)
    return Shuffler(half.store, half.keyring, clock, found, analyzer, half.database)


def post(client, shuffler, reports, **settings):
    body = reports if isinstance(reports, bytes) else b"".join(reports)
    return client.post(f"{shuffler.path}/reports", content=body, headers=BYTES, **settings)


def client_of(url):
    return httpx.Client(base_url=url, timeout=60)
