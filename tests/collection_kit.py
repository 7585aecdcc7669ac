"""Both parties of a collection: a shuffler that runs, and an analyzer's directory."""

from __future__ import annotations

import time
from contextlib import contextmanager
from types import SimpleNamespace

import numpy as np

from analyzer_kit import Analyzer, make_survey
from http_kit import serving
from shoal.service.clock import system_clock
from shoal.service.db import Database
from shoal.service.keyring import Keyring, Protection
from shoal.service.opening import Pool
from shoal.service.shuffler.app import shuffler_app
from shoal.service.shuffler.reports import Arrival
from shoal.service.shuffler.store import ShufflerStore
from shoal.service.shuffler.worker import Pace, ShufflerWorker
from shoal.service.survey import Party
from shoal.service.wire import Wire


@contextmanager
def collection(place):
    """A shuffler that runs, with five hundred reports in a closed batch, and an analyzer."""
    now = int(time.time())
    keyring = Keyring.create(place / "keys", role="shuffler", protection=Protection.none())
    database = Database(f"sqlite:///{place / 'shuffler.sqlite'}")
    database.migrate("shuffler")
    store = ShufflerStore(database, place / "shuffler", system_clock)
    with serving(shuffler_app(store, keyring)) as url:
        analyzer = Analyzer(place / "analyzer", now=now)
        survey = make_survey(
            analyzer.keyring,
            not_before=now - 10,
            not_after=now + 3600,
            shuffler=Party(url=url, fingerprint=keyring.fingerprint),
        )
        analyzer.store.surveys.add(survey)
        store.surveys.add(survey)
        analyzer.close()
        token = place / "analyzer" / "token"
        token.write_text(store.tokens.add("analyzer", survey.id, 3600))
        token.chmod(0o600)

        def send(count):
            wire, device = Wire.of(survey), survey.device
            rows = device.encode(device.randomize(np.arange(count) % 2))
            reports = [
                wire.seal(
                    row.reshape(1, -1),
                    analyzer=analyzer.keyring.list().current(survey.suite, now),
                    shuffler=keyring.list().current(survey.suite, now),
                )
                for row in rows
            ]
            store.reports.receive([Arrival(survey.id, 0, b"".join(reports))])
            worker = ShufflerWorker(store, keyring, Pool(0), system_clock, pace=Pace(gather=0))
            while worker.step():
                pass

        send(500)
        yield SimpleNamespace(
            directory=place / "analyzer", survey=survey, send=send, store=store, keyring=keyring
        )
    database.close()
