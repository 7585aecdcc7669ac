"""The service to test with: both parties with real stores, keys and reports, and their clock.

A :class:`Site` has both, in one process; :func:`live` has them listen, and whoever sends or asks
does so over HTTP. Each half can stand alone: a :class:`Shuffler` with a survey, an
:class:`Analyzer` with a source of batches that may lie.
"""

from __future__ import annotations

import json
import shutil
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from hashlib import sha256
from pathlib import Path
from threading import Barrier
from types import SimpleNamespace

import httpx
import numpy as np
import pytest
import sqlalchemy as sa

from factories import DAY, example, party
from http_kit import BYTES, ask
from shoal.mechanisms.response import RandomizedResponse
from shoal.randomness import simulated
from shoal.sealing import KeyPair
from shoal.service.analyzer import tables
from shoal.service.analyzer.app import AnalyzerPages, analyzer_app, no_pages
from shoal.service.analyzer.collect import AnalyzerWorker, Collector
from shoal.service.analyzer.collection import Offer
from shoal.service.analyzer.source import READY, HttpSource
from shoal.service.analyzer.store import AnalyzerStore
from shoal.service.batch_file import BatchFile, BatchHeader
from shoal.service.client import Client, Keys, Policy, Settings, seal_many
from shoal.service.clock import ManualClock, system_clock
from shoal.service.db import Database, migrations
from shoal.service.errors import already_collected
from shoal.service.http.limits import Limits
from shoal.service.http.server import address, background, listen
from shoal.service.keyring import KeyList, Keyring, Protection
from shoal.service.opening import Pool
from shoal.service.ops.backup import back_up
from shoal.service.ops.home import Home
from shoal.service.ops.restore import restore
from shoal.service.shuffler.app import shuffler_app
from shoal.service.shuffler.intake import sorted_upload
from shoal.service.shuffler.reports import Arrival
from shoal.service.shuffler.store import ShufflerStore
from shoal.service.shuffler.worker import KeyListFetcher, Pace, ShufflerWorker
from shoal.service.survey import Batches, Party
from shoal.service.wire import Wire

START = 1_800_000_000
HOUR = 3600
ROLES = ("shuffler", "analyzer")
NOWHERE = {"shuffler": "http://localhost:1", "analyzer": "http://localhost:2"}
COLOURS = {
    "name": "colours",
    "question": "Which colour?",
    "answers": ("red", "green", "blue"),
    "device": RandomizedResponse(k=3, epsilon=1.0),
    "epsilon": 1.0,
}
LIBERAL = Policy(
    local_epsilon=float("inf"),
    epsilon=float("inf"),
    delta=1.0,
    minimum=2,
    total_epsilon=float("inf"),
)
CROWD = 20  # of a batch, unless told otherwise
NOISE = 30.0  # a message is the answer itself, but for a chance of k e^-30
EAGER = Settings(tries=60, wait=0.005, longest_wait=0.02)


# ---------------------------------------------------------------------------------------- halves


class Half:
    """One party in a directory: its keys, its database, its store, new or as they are there.

    Its tables are those that are there if it is not to ``migrate``.
    """

    role: str

    def __init__(self, directory, clock=None, *, url=None, schedule=None, migrate=True):
        self.directory = Path(directory)
        self.directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        self.clock = ManualClock(START) if clock is None else clock
        given = {"protection": Protection.none(), "clock": self.clock}
        keys = self.directory / "keys"
        self.keyring = (
            Keyring.open(keys, **given)
            if keys.exists()
            else Keyring.create(keys, role=self.role, schedule=schedule, **given)
        )
        self.database = Database(url or f"sqlite:///{self.directory / 'store.sqlite'}", timeout=60)
        if migrate:
            self.database.migrate(self.role)
        self.store = self.store_of()

    def key(self, survey):
        """What is sealed for it now."""
        return self.keyring.list().current(survey.suite, self.clock())

    def close(self):
        self.database.close()


class Shuffler(Half):
    """A shuffler; ``analyzer`` is the key that its reports are for, if it stands alone."""

    role = "shuffler"

    @classmethod
    def alone(cls, directory, *, url=None, **survey):
        """With one survey that is open and whose promise is loose, so that batches may be small."""
        made = cls(directory, url=url)
        fields = {"name": "colours", "minimum": 20, "target": 40, "max_age": HOUR, "epsilon": 1.01}
        fields |= {"shuffler": made.keyring.fingerprint, "opens": START - DAY, "days": 31}
        return made.asking(example(**fields | survey))

    def store_of(self):
        self.observed, self.analyzer = [], KeyPair.generate(number=3)
        # No patience: it is measured with a clock that nobody sets.
        return ShufflerStore(self.database, self.directory, self.clock, grace=0)

    def asking(self, survey):
        """Collect for a survey, and be asked about this one."""
        self.store.surveys.add(survey)
        self.survey = survey
        return self

    def close(self):
        self.store.close()
        super().close()

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

    def ask(self, body=b"", *, app=None, **given):
        """The answer to an upload, over no network."""
        body = body if isinstance(body, bytes) else b"".join(body)
        given = {"content": body, "headers": BYTES} | given
        return ask(app or self.app(), f"{self.path}/reports", method="POST", **given)

    def post(self, client, body, **given):
        """The answer to an upload, over a network."""
        body = body if isinstance(body, bytes) else b"".join(body)
        return client.post(f"{self.path}/reports", content=body, headers=BYTES, **given)

    def worker(
        self,
        pool=None,
        *,
        keyring=None,
        fetcher=None,
        steady=lambda: True,
        monotonic=time.monotonic,
        **pace,
    ):
        """One that opens at once, and looks after files at every step, unless told otherwise."""
        return ShufflerWorker(
            self.store,
            keyring or self.keyring,
            pool or Pool(0),
            self.clock,
            pace=Pace(**{"upkeep": 0, "gather": 0} | pace),
            fetcher=fetcher,
            steady=steady,
            monotonic=monotonic,
        )

    def work(self, **pace):
        """Whatever there is to do."""
        until_idle(self.worker(**pace))

    def receive(self, reports):
        """How many reports that nobody looked at, all under one key, are new to the store."""
        body = reports if isinstance(reports, bytes) else b"".join(reports)
        return self.store.reports.receive([Arrival(self.survey.id, body[1], body)]).new

    def released(self):
        """The reports of every batch that can be collected, sorted."""
        return sorted(info.reports for info in self.store.batches.listed(self.survey.id))

    def batch(self, request="a" * 32):
        """The one batch that there is: its line, and its file as it is released."""
        (info,) = self.store.batches.listed(self.survey.id)
        return info, BatchFile.read(self.store.batches.release(self.survey.id, info.id, request))

    def tallies(self):
        return self.store.reports.tallies(self.survey.id)

    def reports(self, count, *, analyzer=None, shuffler=None):
        """Really sealed, one answer after the other, as an honest crowd can have sent them."""
        key = shuffler or self.key(self.survey)
        section = self.wire.sections[0]
        rows = np.zeros((count, section.slots, section.message_bytes), dtype=np.uint8)
        rows[:, 0, -1] = np.arange(count) % len(self.survey.answers)
        public = (analyzer or self.analyzer).public
        return [self.wire.seal(row, analyzer=public, shuffler=key) for row in rows]

    def forged(self, count, key=0, seed=1):
        """Right in length, version and key number; nothing in them opens."""
        noise = np.random.default_rng(seed).integers(0, 256, (count, self.wire.report_bytes))
        noise[:, 0], noise[:, 1] = 1, key
        return noise.astype(np.uint8).tobytes()

    def token(self, survey=None, lifetime=DAY):
        chosen = self.survey.id if survey is None else survey
        return {"Authorization": f"Bearer {self.store.tokens.add('test', chosen, lifetime)}"}


class Analyzer(Half):
    """An analyzer; ``shuffler`` has batches for it, whether they are right or not."""

    role = "analyzer"

    def store_of(self):
        place = self.directory.parent / f"{self.directory.name}-shuffler"
        self.shuffler = BatchFiles(place)
        return AnalyzerStore(self.database, self.directory, self.clock)

    def asking(self, **changes):
        """A survey that this analyzer collects for."""
        survey = make_survey(self.keyring, **changes)
        self.store.surveys.add(survey)
        return survey

    def send(self, survey, values, *, batch="11" * 16, seed=1):
        """A batch of honest people's reports."""
        return self.shuffler.put(
            survey, sealed(survey, self.keyring, values, seed=seed), batch=batch
        )

    def flood(self, survey, people=100, *, batch="11" * 16):
        """Made-up reports, all of them the first answer, and one of an honest person: their own."""
        made_up = [forged(survey, self.keyring, b"\0") for _ in range(people - 1)]
        honest = sealed(survey, self.keyring, [1])
        self.shuffler.put(survey, [*made_up, *honest], batch=batch)
        return honest

    def worker(self, source=None, *, keyring=None, **options):
        """One for all surveys, whose batches are where ``source`` says for each."""
        source = source or (lambda _survey: self.shuffler)
        options = {"clock": self.clock} | options
        return AnalyzerWorker(self.store, keyring or self.keyring, source, Pool(0), **options)

    def collector(self, survey, source=None, **options):
        return Collector(
            self.store, self.keyring, survey, source or self.shuffler, Pool(0), **options
        )

    def collect(self, survey, source=None):
        """One pass."""
        return self.collector(survey, source).step()

    def document(self, survey, batch="11" * 16):
        return json.loads(self.store.results.get(survey.id, batch))

    def rows(self, table):
        with self.database.read() as connection:
            return connection.execute(table.select().order_by(*table.primary_key.columns)).all()


def until_idle(worker):
    while worker.step():
        pass


def at_once(work, number):
    """What ``work(i)`` gives in so many threads that begin together; what it raises, as well."""
    barrier = Barrier(number)

    def one(i):
        barrier.wait()
        try:
            return work(i)
        except Exception as error:  # noqa: BLE001 - told by the test
            return error

    with ThreadPoolExecutor(number) as pool:
        return list(pool.map(one, range(number)))


# -------------------------------------------------------------------------- an analyzer's batches


def make_survey(keyring, *, device=None, minimum=50, **changes):
    """Three colours of at least fifty people, unless told otherwise."""
    fields = COLOURS | {
        "batches": Batches(minimum=minimum, target=10 * minimum, max_age=HOUR),
        "shuffler": Party(url=NOWHERE["shuffler"], fingerprint="ab" * 32),
        "analyzer": Party(url=NOWHERE["analyzer"], fingerprint=keyring.fingerprint),
    }
    fields |= {"device": device} if device else {}
    return example(opens=START, **fields | changes)


def sealed_apart(survey, keyring, columns, *, seed=1):
    """The sealed records of everybody's reports to several questions, a list for each."""
    public = keyring.list().current(survey.suite, START)
    made = []
    for device, section, values in zip(
        survey.devices, Wire.of(survey).sections, columns, strict=True
    ):
        reports = device.randomize(np.asarray(values), randomness=simulated(seed))
        rows = np.ascontiguousarray(device.encode(reports)).reshape(-1, 1, section.message_bytes)
        assert len(rows) == len(values) * section.slots
        one = replace(section, slots=1)
        made.append([one.seal(row, public) for row in rows])
    return made


def sealed(survey, keyring, values, *, seed=1):
    """The sealed records of everybody's report, in order, a list of bytes."""
    (records,) = sealed_apart(survey, keyring, [values], seed=seed)
    return records


def forged(survey, keyring, message):
    """A record that opens to any message at all."""
    wire = Wire.of(survey)
    return wire.sections[0].inner.seal(message, keyring.list().current(survey.suite, START))


def documents_of(store, survey):
    """The documents of all batches that have one, whatever else there is of them."""
    table, mine = tables.results, tables.results.c.survey == store.surveys.row(survey.id).number
    with store.results.database.read() as connection:
        documents = connection.execute(sa.select(table.c.document).where(mine)).scalars().all()
    return [json.loads(bytes(document)) for document in documents]


def counts_of(store, survey):
    """What every batch adds up to whose estimates are published."""
    found = {
        each.batch: store.collections.find(survey.id, each.batch).counts
        for each in store.collections.of(survey.id)
        if each.state == tables.PUBLISHED
    }
    return {batch: counts[0] for batch, counts in found.items() if counts}


class BatchFiles:
    """A source of batches that survives its process: a directory of batch files.

    It hands out whatever it is given, whether that is right or not.
    """

    def __init__(self, directory):
        self.directory = Path(directory)

    def put(self, survey, records, *, batch="11" * 16, lies=None):
        """A batch of these records, or of a list for each question.

        ``lies`` replace what its header would truly say.
        """
        self.directory.mkdir(parents=True, exist_ok=True)
        wire, listed = Wire.of(survey), records if survey.several else [records]
        said = {
            "survey": survey.id,
            "batch": batch,
            "key": 0,
            "reports": len(listed[0]) // wire.sections[0].slots,
            "sections": tuple(
                (len(each), section.record_bytes)
                for each, section in zip(listed, wire.sections, strict=True)
            ),
        }
        body = b"".join(record for each in listed for record in each)
        data = BatchHeader(**{**said, **(lies or {})}).to_bytes() + body
        self.path(batch).write_bytes(data)
        return batch

    def path(self, batch):
        return self.directory / f"{batch}.batch"

    def offers(self):
        found = []
        for path in sorted(self.directory.glob("*.batch")):
            if not path.with_suffix(".ack").exists():
                data = path.read_bytes()
                digest = sha256(data).hexdigest()
                found.append(Offer(batch=path.stem, digest=digest, size=len(data)))
        return found

    @contextmanager
    def fetch(self, batch, request):
        self._tell("fetch", batch, request)
        recorded = self.path(batch).with_suffix(".request")
        if recorded.exists() and recorded.read_text() != request:
            raise already_collected(batch)
        recorded.write_text(request)
        data = self.path(batch).read_bytes()
        yield (data[start : start + 1000] for start in range(0, len(data), 1000))

    def acknowledge(self, batch, request, digest):
        self._tell("acknowledge", batch, request)
        assert self.path(batch).with_suffix(".request").read_text() == request
        assert digest == sha256(self.path(batch).read_bytes()).hexdigest()
        self.path(batch).with_suffix(".ack").write_text(digest)

    def keys(self):
        return None

    def close(self):
        """There is nothing to close."""

    def acknowledged(self, batch):
        return self.path(batch).with_suffix(".ack").exists()

    def told(self, what):
        log = self.directory / "log"
        lines = log.read_text().splitlines() if log.exists() else []
        return [json.loads(line) for line in lines if json.loads(line)[0] == what]

    def _tell(self, *words):
        with (self.directory / "log").open("a") as log:
            log.write(json.dumps(words) + "\n")


class Instead:
    """A source of batches but for what it does otherwise, said by name."""

    def __init__(self, source, **otherwise):
        self._source = source
        vars(self).update(otherwise)

    def __getattr__(self, name):
        return getattr(self._source, name)


class DirectSource:
    """A shuffler's store in this process, where nobody is deceived; what it ``released``."""

    def __init__(self, store, survey, released=None):
        self._store, self._survey = store, survey
        self._released = [] if released is None else released

    def offers(self):
        return [
            Offer(batch=info.id, digest=info.digest, size=info.bytes, key=info.key)
            for info in self._store.batches.listed(self._survey)
            if info.state in READY and info.digest and info.bytes
        ]

    @contextmanager
    def fetch(self, batch, request):
        self._released.append(
            self._store.batches.release(self._survey, batch, request).read_bytes()
        )
        yield iter(self._released[-1:])

    def acknowledge(self, batch, request, digest):
        self._store.batches.acknowledge(self._survey, batch, request, digest)

    def keys(self):
        """None: nobody compares."""

    def close(self):
        """There is nothing to close."""


# ------------------------------------------------------------------------------------ both parties


def survey_of(shuffler, analyzer, *, now, k=4, local_epsilon=3.0, minimum=60, target=60, **changes):
    """A survey with a promise that any crowd keeps, so that batches may be small."""
    given = {
        "name": "live",
        "device": RandomizedResponse(k=k, epsilon=local_epsilon),
        "answers": tuple(f"answer {number}" for number in range(k)),
        "epsilon": local_epsilon * 1.01,
        "minimum": minimum,
        "target": target,
    }
    parties = {"shuffler": shuffler, "analyzer": analyzer}
    return example(opens=now - DAY, days=366, **parties, **given | changes)


def telling(people, **changes):
    """A survey in which everybody has an answer of their own."""
    device = RandomizedResponse(k=people, epsilon=NOISE)
    return {"k": people, "device": device, "local_epsilon": NOISE} | changes


class Site:
    """A shuffler and an analyzer in a directory, with a clock in our hands.

    ``store`` is the address of the shuffler's database, if it is not there. ``released`` is every
    batch file that ever went out, in order.
    """

    def __init__(self, directory, *, clock=None, schedule=None, store=None, urls=NOWHERE, **survey):
        self.directory = Path(directory)
        self.clock = ManualClock(START) if clock is None else clock
        self.released = []
        given = {"clock": self.clock, "schedule": schedule}
        self.shuffler = Shuffler(self.directory / "shuffler", url=store, **given)
        self.analyzer = Analyzer(self.directory / "analyzer", **given)
        parties = (
            Party(url=urls[half.role], fingerprint=half.keyring.fingerprint) for half in self.halves
        )
        sizes = {"minimum": CROWD, "target": CROWD}
        self.survey = survey_of(*parties, now=self.clock(), **sizes | survey)
        for half in self.halves:
            half.store.surveys.add(self.survey)
        self.shuffler.survey = self.survey

    @property
    def halves(self):
        return self.shuffler, self.analyzer

    @property
    def wire(self):
        return Wire.of(self.survey)

    def close(self):
        for half in self.halves:
            half.close()

    # People

    def keys(self):
        """The keys to seal with."""
        return Keys(*(half.key(self.survey) for half in (self.analyzer, self.shuffler)))

    def reports(self, values, keys=None):
        """Sealed with the keys of this moment; of so many people, if they are only counted."""
        values = np.zeros(values, dtype=np.int64) if isinstance(values, int) else values
        return seal_many(self.survey, np.asarray(values), keys or self.keys())

    def send(self, reports):
        """How many were new; those with a key that nobody has are refused."""
        upload = sorted_upload(
            b"".join(reports),
            wire=self.wire,
            accepts=self.shuffler.keyring.accepts,
            most=10_000,
        )
        refused = sum(map(len, upload.refused.values()))
        return self.shuffler.store.reports.receive(upload.arrivals).new, refused

    def crowd(self, people):
        """So many people report, and the shuffler does all it has to do with it."""
        self.send(self.reports(people))
        self.work()

    # Work

    def shuffler_worker(self, **pace):
        return self.shuffler.worker(**{"upkeep": HOUR} | pace)

    def work(self, **pace):
        """Whatever the shuffler has to do."""
        until_idle(self.shuffler_worker(**pace))

    def source(self, survey):
        """Where the analyzer gets its batches."""
        return DirectSource(self.shuffler.store, survey.id, self.released)

    def analyzer_worker(self):
        return self.analyzer.worker(self.source)

    def collect(self):
        """One pass of the analyzer."""
        with self.analyzer_worker() as worker:
            return worker.collect()[str(self.survey.id)]

    def results(self):
        """The documents of all that is published or withheld."""
        return [*self.analyzer.store.results.survey(self.survey.id).documents]

    def result(self, batch):
        return self.analyzer.document(self.survey, batch)

    def batches(self):
        return {found.id: found for found in self.shuffler.store.batches.listed(self.survey.id)}

    def ledger(self):
        return self.analyzer.store.ledger.entries(self.survey.id)

    def counted(self):
        """How often everybody is counted in what is published."""
        total = np.zeros(self.survey.device.k)
        for document in self.results():
            assert document["status"] == "published"
            total += np.round([row["count"] for row in document["estimates"]])
        return total

    # Loss

    def back_up(self, role, name="", **options):
        half = getattr(self, role)
        home = Home(directory=half.directory, role=role, store=options.pop("store", None))
        given = {"clock": self.clock, "waiting": True} | options
        return back_up(home, self.directory / f"{role}{name}.tar", **given).path

    def lose(self, role):
        """Process and disk."""
        getattr(self, role).close()
        shutil.rmtree(self.directory / role)

    def come_back(self, role, **options):
        """Lost, and brought back in its place."""
        self.lose(role)
        return self.bring_back(role, **options)

    def bring_back(self, role, **options):
        """From the last backup."""
        given = self.restoring(role, **options)
        done = restore(**given, clock=self.clock)
        half = type(getattr(self, role))(given["directory"], self.clock, url=given.get("store"))
        setattr(self, role, half)
        self.shuffler.survey = self.survey
        return done

    def restoring(self, role, **options):
        given = {
            "backup": self.directory / f"{role}.tar",
            "directory": self.directory / role,
            "unlock": lambda _: Protection.none(),
        }
        return given | options


class Live(Site):
    """Both parties, listening; whoever sends or asks does so over HTTP."""

    def __init__(self, directory, closing, **given):
        super().__init__(directory, **{"minimum": 60, "target": 60} | given)
        self.closing = closing
        self.http = closing.enter_context(httpx.Client(timeout=60, trust_env=False))
        self.token = self.shuffler.store.tokens.add("test", self.survey.id, 400 * DAY)

    @property
    def path(self):
        return f"{self.survey.shuffler.url}/v1/surveys/{self.survey.id}"

    def get(self, path, **given):
        """The analyzer's answer about the survey."""
        url = f"{self.survey.analyzer.url}/v1/surveys/{self.survey.id}/{path}"
        return self.http.get(url, **given)

    def keys(self):
        """As a device fetches and verifies them."""
        found = {}
        for role, url in (
            ("shuffler", f"{self.survey.shuffler.url}/v1/keys"),
            ("analyzer", f"{self.path}/keys/analyzer"),
        ):
            name, now = getattr(self.survey, role).fingerprint, self.clock()
            content = self.http.get(url).content
            listed = KeyList.verified(content, fingerprint=name, now=now, role=role)
            found[role] = listed.current(self.survey.suite, now)
        return Keys(**found)

    def post(self, reports):
        body = reports if isinstance(reports, bytes) else b"".join(reports)
        return self.http.post(f"{self.path}/reports", content=body, headers=BYTES)

    def client(self, name, settings=EAGER, **options):
        """A person's device."""
        given = {"policy": LIBERAL, "settings": settings, "clock": self.clock} | options
        # Nothing to load for what is not used.
        transport = httpx.HTTPTransport(verify=False)
        made = Client(self.directory / "devices" / name, transport=transport, **given)
        return self.closing.enter_context(made)

    def fetcher(self):
        return KeyListFetcher(self.shuffler.store, self.clock, transport=_Unencrypted())

    def shuffler_worker(self, **pace):
        """One that looks after the analyzer's keys in its steps, and not in a thread."""
        worker, fetcher = super().shuffler_worker(**pace), self.fetcher()
        step = worker.step

        def notarized():
            fetcher.step()
            return step()

        worker.step = notarized
        return worker

    def source(self, survey):
        return HttpSource(survey.shuffler.url, survey.id, lambda: self.token)

    def analyzer_worker(self):
        return self.closing.enter_context(super().analyzer_worker())

    def result(self, batch):
        """What everybody may read of a batch."""
        return self.get(f"results/{batch}").raise_for_status().json()

    def results(self):
        """What everybody may read, of all batches."""
        return self.get("results").raise_for_status().json()["batches"]


class _Unencrypted(httpx.AsyncBaseTransport):
    """Plain HTTP, a connection for every request: quick where there is no certificate to check."""

    async def handle_async_request(self, request):
        async with httpx.AsyncHTTPTransport(verify=False) as transport:
            answer = await transport.handle_async_request(request)
            body = await answer.aread()
        return httpx.Response(answer.status_code, headers=answer.headers, content=body)


@contextmanager
def live(
    directory, *, clock=None, front=None, behind=None, schedule=None, pages=no_pages, **survey
):
    """Both parties on ports of their own; ``front`` is put before the shuffler's address.

    ``behind`` is put before the analyzer's. With ``pages``, the analyzer shows them, and results to
    who may read them.
    """
    with ExitStack() as stack:
        sockets = {role: listen("127.0.0.1", 0) for role in ROLES}
        urls = {role: address(listening) for role, listening in sockets.items()}
        for role, between in zip(ROLES, (front, behind), strict=True):
            if between is not None:
                urls[role] = stack.enter_context(between(urls[role]))
        given = {"clock": clock, "schedule": schedule, "urls": urls}
        made = Live(directory, stack, **given, **survey)
        stack.callback(made.close)
        analyzer, public = made.analyzer, pages is no_pages
        parts = {"store": analyzer.store, "keyring": analyzer.keyring}
        shown = pages(AnalyzerPages(**parts, limits=Limits()))
        apps = made.shuffler.app(), analyzer_app(**parts, public_results=public, pages=shown)
        for role, app in zip(ROLES, apps, strict=True):
            stack.enter_context(background(app, sockets[role]))
        assert made.fetcher().step() == 1
        yield made


@contextmanager
def collection(place):
    """A shuffler that runs, with a closed batch of five hundred people, and an analyzer's place."""
    sizes = {"minimum": 50, "target": 500, "max_age": HOUR}
    with live(place, clock=system_clock, **COLOURS | sizes) as site:
        site.analyzer.close()
        directory, store = site.analyzer.directory, site.shuffler.store
        (directory / "token").write_text(site.token)
        (directory / "token").chmod(0o600)

        def send(count):
            site.send(site.reports(np.arange(count) % 2))
            site.work()

        send(500)
        yield SimpleNamespace(directory=directory, survey=site.survey, store=store, send=send)


class Batchwise(Shuffler):
    """A shuffler with many small batches on their way at once.

    A batch holds reports for one of the analyzer's keys, and numbers of keys are one byte: up to
    256 crowds are sent, opened, mixed and released together, and never meet.
    """

    def __init__(self, directory, people, **survey):
        super().__init__(directory, system_clock)
        self.people = people
        both = party("shuffler", self.keyring.fingerprint), party("analyzer", "a" * 64)
        sizes = {"minimum": people, "target": people}
        self.asking(survey_of(*both, now=system_clock(), **sizes, **survey))
        self.analyzers = [KeyPair.generate(number=number) for number in range(256)]
        # An analyzer with so many keys, whose list the shuffler has.
        self.store.key_lists.keys = lambda _fingerprint: frozenset(range(256))
        self._keys, self._worker = self.key(self.survey), self.worker(upkeep=HOUR)

    def keys(self, crowd):
        return Keys(self.analyzers[crowd].public, self._keys)

    def receive(self, reports):
        """Reports as they come with a request."""
        accepts = self.keyring.accepts
        upload = sorted_upload(b"".join(reports), wire=self.wire, accepts=accepts, most=10**6)
        assert not upload.refused
        self.store.reports.receive(upload.arrivals)

    def files(self):
        """What there is for an analyzer once the shuffler has done all: the batch files.

        They are read where they are, and are gone then.
        """
        until_idle(self._worker)
        for path in (self.directory / "batches").glob("*.batch"):
            yield BatchFile.read(path.read_bytes())
            path.unlink()

    def batches(self):
        """The messages of every crowd."""
        found = {}
        for batch in self.files():
            crowd, inner = batch.header.key, self.wire.sections[0].inner
            assert crowd not in found
            found[crowd] = inner.open_all(bytes(batch.body), self.analyzers[crowd])
        return found


# --------------------------------------------------------------------------- the next version


BEFORE = {tree: migrations.head(tree) for tree in migrations.TREES}
COLUMN = "next"
SCRIPT = """
import sqlalchemy as sa
from alembic import op

revision, down_revision = {revision!r}, {before!r}
branch_labels = depends_on = None


def upgrade():
    column = sa.Column({column!r}, sa.Integer, nullable=False, server_default="0")
    op.add_column({table!r}, column)
"""


@dataclass(frozen=True)
class NextStep:
    """Of the shuffler's tables: where it begins and ends, and the column it adds to the extents."""

    before: str = BEFORE["shuffler"]
    revision: str = f"{int(BEFORE['shuffler']) + 1:04}"
    column: str = COLUMN


@pytest.fixture
def next_step(tmp_path, monkeypatch):
    """It adds a column to the shuffler's extents, and one to the analyzer's collections."""
    scripts = tmp_path / "scripts"
    shutil.copytree(migrations._SCRIPTS, scripts)
    for tree, table in (("shuffler", "extents"), ("analyzer", "collections")):
        before = BEFORE[tree]
        revision = f"{int(before) + 1:04}"
        script = SCRIPT.format(revision=revision, before=before, column=COLUMN, table=table)
        (scripts / tree / f"r{revision}_next.py").write_text(script, encoding="utf-8")
    monkeypatch.setattr(migrations, "_SCRIPTS", scripts)
    migrations._scripts.cache_clear()
    yield NextStep()
    migrations._scripts.cache_clear()


# -------------------------------------------------------------------------------- other processes


def collect(directory, url):
    """One pass of an analyzer over all surveys; the batches that were published."""
    analyzer = Analyzer(directory, url=url)
    passes = [analyzer.collect(survey) for survey in analyzer.store.surveys.all()]
    analyzer.close()
    return [batch for each in passes for batch in each.published]


def work(directory, url, now):
    """One step of a shuffler's worker."""
    Shuffler(directory, ManualClock(now), url=url).worker().step()


def rehearse(directory):
    """Everything once."""
    analyzer = Analyzer(directory / "analyzer")
    survey = analyzer.asking()
    analyzer.send(survey, [0] * 50)
    analyzer.collect(survey)
    analyzer.close()
