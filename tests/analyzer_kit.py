"""What the tests of the analyzer share: a survey, an analyzer, and a shuffler that may lie."""

from __future__ import annotations

import json
from contextlib import contextmanager
from dataclasses import replace
from hashlib import sha256
from pathlib import Path

import numpy as np
import sqlalchemy as sa

from factories import DAY, Half, example  # noqa: F401 - a day of this kit
from shoal.mechanisms.response import RandomizedResponse
from shoal.randomness import simulated
from shoal.service.analyzer import tables
from shoal.service.analyzer.collect import Collector
from shoal.service.analyzer.collection import Offer
from shoal.service.analyzer.source import READY
from shoal.service.batch_file import BatchHeader
from shoal.service.clock import ManualClock
from shoal.service.errors import already_collected
from shoal.service.opening import Pool
from shoal.service.survey import Batches, Party
from shoal.service.wire import Wire

START = 1_700_000_000
HOUR = 3600
LABELS = ("red", "green", "blue")


def make_survey(keyring, *, device=None, answers=LABELS, minimum=50, **changes):
    """Three colours of at least fifty people, unless told otherwise."""
    fields = {
        "name": "colours",
        "question": "Which colour?",
        "answers": answers,
        "batches": Batches(minimum=minimum, target=10 * minimum, max_age=HOUR),
        "epsilon": 1.0,
        "shuffler": Party(url="http://localhost:1", fingerprint="ab" * 32),
        "analyzer": Party(url="http://localhost:2", fingerprint=keyring.fingerprint),
    }
    device = device or RandomizedResponse(k=3, epsilon=1.0)
    return example(device, opens=START, **fields | changes)


def sealed(survey, keyring, values, *, seed=1):
    """The sealed records of everybody's report, in order, a list of bytes."""
    wire, device = Wire.of(survey), survey.device
    reports = device.randomize(np.asarray(values), randomness=simulated(seed))
    rows = np.ascontiguousarray(device.encode(reports)).reshape(-1, wire.sections[0].message_bytes)
    assert len(rows) == len(values) * wire.sections[0].slots
    public = keyring.list().current(survey.suite, START)
    return [wire.sections[0].inner.seal(row.tobytes(), public) for row in rows]


def sealed_apart(survey, keyring, columns, *, seed=1):
    """The sealed records of everybody's reports to several questions, a list for each."""
    public = keyring.list().current(survey.suite, START)
    made = []
    for device, section, values in zip(
        survey.devices, Wire.of(survey).sections, columns, strict=True
    ):
        reports = device.randomize(np.asarray(values), randomness=simulated(seed))
        rows = np.ascontiguousarray(device.encode(reports)).reshape(-1, 1, section.message_bytes)
        one = replace(section, slots=1)
        made.append([one.seal(row, public) for row in rows])
    return made


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


class Shuffler:
    """A source of batches that survives its process: a directory of batch files.

    It hands out whatever it is given, whether that is right or not.
    """

    def __init__(self, directory):
        self.directory = Path(directory)
        self.directory.mkdir(parents=True, exist_ok=True)

    def put(self, survey, records, *, batch="11" * 16, lies=None):
        """A batch of these records, or of a list for each question.

        ``lies`` replace what its header would truly say.
        """
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
            if path.with_suffix(".ack").exists():
                continue
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


class DirectSource:
    """A shuffler's store in this process, where nobody is deceived."""

    def __init__(self, store, survey):
        self._store = store
        self._survey = survey

    def offers(self):
        return [
            Offer(batch=info.id, digest=info.digest, size=info.bytes, key=info.key)
            for info in self._store.batches.listed(self._survey)
            if info.state in READY and info.digest and info.bytes
        ]

    @contextmanager
    def fetch(self, batch, request):
        with self._store.batches.release(self._survey, batch, request).open("rb") as file:
            yield iter(lambda: file.read(1 << 20), b"")

    def acknowledge(self, batch, request, digest):
        self._store.batches.acknowledge(self._survey, batch, request, digest)

    def keys(self):
        """None: nobody compares."""

    def close(self):
        """There is nothing to close."""


class Analyzer:
    """An analyzer's directory, its keys, its store; ``url`` is that of another database."""

    def __init__(self, directory, *, url=None, now=START):
        self.directory = Path(directory)
        self.clock = ManualClock(now)
        half = Half("analyzer", directory, self.clock, url=url)
        self.keyring, self.database, self.store = half.keyring, half.database, half.store
        self.shuffler = Shuffler(self.directory.parent / f"{self.directory.name}-shuffler")

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

    def collector(self, survey, source=None):
        return Collector(self.store, self.keyring, survey, source or self.shuffler, Pool(0))

    def collect(self, survey, source=None):
        """One pass."""
        return self.collector(survey, source).step()

    def document(self, survey, batch="11" * 16):
        return json.loads(self.store.results.get(survey.id, batch))

    def close(self):
        self.database.close()


# In another process


def collect(directory, url):
    """One pass over all surveys; the batches that were published."""
    analyzer = Analyzer(directory, url=url)
    passes = [analyzer.collect(survey) for survey in analyzer.store.surveys.all()]
    analyzer.close()
    return [batch for each in passes for batch in each.published]


def rehearse(directory):
    """Everything once."""
    analyzer = Analyzer(directory / "analyzer")
    survey = analyzer.asking()
    analyzer.send(survey, [0] * 50)
    analyzer.collect(survey)
    analyzer.close()
