"""Batches opened by executors: the results, states and debits of the local engine, and no secrets.

Executors see the analyzer's directory at another place, with its keys under a passphrase that is in
their environment.
"""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pytest
from pyspark import cloudpickle

from factories import several
from service_site import START, Analyzer, BatchFiles, counts_of, forged, sealed, sealed_apart
from shoal.errors import EngineError
from shoal.mechanisms.dummies import UniformDummies
from shoal.mechanisms.response import RandomizedResponse
from shoal.sealing import KeyPair
from shoal.service.admission import Open
from shoal.service.analyzer.cluster import RECORDS, Cluster, Mount, Opener
from shoal.service.analyzer.collect import Collector
from shoal.service.clock import ManualClock
from shoal.service.keyring import Keyring, Protection
from shoal.service.keyring.secrets import LOWEST_COST, VARIABLE
from shoal.service.opening import Pool
from spark_kit import spark_session, work

PASSPHRASE = "vividly-unlikely-words"  # noqa: S105 - for nothing but this
SECOND = "22" * 16
OF_TASK = 500


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    return tmp_path_factory.mktemp("local")


@pytest.fixture(scope="module")
def session(place):
    (place / "events").mkdir()
    settings = {
        "spark.eventLog.enabled": "true",
        "spark.eventLog.rolling.enabled": "false",
        "spark.eventLog.compress": "false",
        "spark.eventLog.dir": f"file://{place / 'events'}",
        "spark.task.maxFailures": "20",
    }
    patched = pytest.MonkeyPatch()
    with patched.context() as environment:
        environment.setenv(VARIABLE, PASSPHRASE)
        with spark_session(place, **settings) as made:
            yield made


class Secured(Analyzer):
    """An analyzer whose keys are under a passphrase, at the place where executors see them."""

    def __init__(self, directory):
        super().__init__(directory)
        self.seen = self.directory.parent / f"{self.directory.name}-seen"
        self.seen.mkdir(mode=0o700)
        (self.seen / "incoming").symlink_to(self.store.incoming)
        self.keyring = Keyring.create(
            self.seen / "keys",
            role="analyzer",
            protection=Protection.passphrase(PASSPHRASE, cost=LOWEST_COST),
            clock=ManualClock(START),
        )

    def collector_on(self, session, survey, *, marker=None, mount=None, of_task=OF_TASK):
        cluster = Cluster(session, self.directory, mount or Mount(self.seen), of_task)
        if marker is not None:
            cluster = Mined(cluster, marker)
        return Collector(self.store, self.keyring, survey, self.shuffler, Pool(0), cluster=cluster)


@dataclass(frozen=True, kw_only=True)
class Deadly(Opener):
    """In whose hands an executor dies, once, after it has counted and before it tells."""

    marker: str

    def opened(self, *words):
        found = super().opened(*words)
        try:
            Path(self.marker).touch(exist_ok=False)
        except FileExistsError:
            return found
        daemon = os.getppid()  # which the executor's Java started
        java = Path(f"/proc/{daemon}/stat").read_text().rpartition(")")[2].split()[1]
        os.kill(int(java), 9)
        os._exit(1)


@dataclass
class Mined:
    """A cluster in which an executor dies."""

    cluster: Cluster
    marker: str

    def records(self, survey, number, header, path):
        found = self.cluster.records(survey, number, header, path)
        return replace(found, opener=Deadly(**vars(found.opener), marker=self.marker))


@pytest.fixture
def analyzer(tmp_path):
    made = Secured(tmp_path / "analyzer")
    yield made
    made.close()


def everything(analyzer, survey, values):
    """Honest records, some of them twice, forged ones, and what opens for nobody; mixed."""
    honest = sealed(survey, analyzer.keyring, values)
    stranger = KeyPair.generate(number=0, suite=survey.suite)
    wrong = forged(survey, analyzer.keyring, b"\xff" * survey.device.message_bytes)
    foreign = sealed_for(survey, stranger)
    records = [*honest, *honest[:40], wrong, wrong, foreign, foreign, foreign]
    records += [bytes(len(wrong))] * (-len(records) % survey.device.slots)
    order = np.random.default_rng(3).permutation(len(records))
    return [records[i] for i in order], honest


def sealed_for(survey, pair):
    from shoal.service.wire import Wire

    wire = Wire.of(survey)
    return wire.sections[0].inner.seal(bytes(wire.sections[0].message_bytes), pair.public)


def outcome(analyzer, survey):
    """All that a collection leaves behind, but for the names of its requests."""
    found = [
        (each.batch, each.state, each.valid, each.rejected, each.reason, each.acknowledged)
        for each in analyzer.store.collections.of(survey.id)
    ]
    counts = {
        batch: (of.cells.tolist(), of.n) for batch, of in counts_of(analyzer.store, survey).items()
    }
    return found, counts, analyzer.store.ledger.entries(survey.id)


@pytest.mark.parametrize(
    "device",
    [RandomizedResponse(k=3, epsilon=1.0), UniformDummies(k=3, dummies=1.5)],
    ids=["one message", "several"],
)
def test_executors_count_what_this_machine_counts(session, analyzer, device, tmp_path):
    cloudpickle.register_pickle_by_value(sys.modules[__name__])
    survey = analyzer.asking(device=device, minimum=200)
    first, honest = everything(analyzer, survey, np.arange(2000) % 3)
    slots = device.slots
    again = honest[: 100 * slots] + sealed(survey, analyzer.keyring, [1] * 900, seed=2)
    here = Analyzer(tmp_path / "local")
    here.keyring = analyzer.keyring
    here.store.surveys.add(survey)
    marker = str(tmp_path / "died")
    for batch, records, mine in (("11" * 16, first, marker), (SECOND, again, None)):
        for each in (analyzer, here):
            each.shuffler.put(survey, records, batch=batch)
        there = analyzer.collector_on(session, survey, marker=mine)
        assert there.step().published == (batch,)
        assert here.collect(survey).published == (batch,)
        assert not any(analyzer.store.incoming.iterdir())
    assert (tmp_path / "died").exists()
    batches, counts, debits = outcome(analyzer, survey)
    assert (batches, counts, debits) == outcome(here, survey)
    here.close()
    assert len(debits) == len(batches) == len(counts) == 2
    rejected = batches[0][3]
    assert rejected["repeated"] == 40
    assert rejected["unopened"] >= 3
    assert rejected["inadmissible"] == 2
    assert batches[1][3]["replayed"] == 100 * slots


def test_executors_count_each_question_apart(session, analyzer, tmp_path):
    devices = (RandomizedResponse(k=3, epsilon=1.0), RandomizedResponse(k=4, epsilon=1.0))
    questions = several(devices).questions
    survey = analyzer.asking(
        questions=questions, admission=Open(dishonest=0), minimum=200, epsilon=4.0
    )
    here = Analyzer(tmp_path / "local")
    here.keyring = analyzer.keyring
    here.store.surveys.add(survey)
    columns = [np.arange(500) % 3, np.arange(500) % 4]
    sections = sealed_apart(survey, analyzer.keyring, columns)
    sections[1][:7] = sections[0][:7]
    for each in (analyzer, here):
        each.shuffler.put(survey, sections)
    assert analyzer.collector_on(session, survey).step().published == ("11" * 16,)
    assert here.collect(survey).published == ("11" * 16,)
    found, there = (each.document(survey) for each in (analyzer, here))
    assert found["questions"] == there["questions"]
    assert [each["valid"] for each in found["questions"]] == [500, 493]
    here.close()


def test_no_secret_is_in_plans_logs_or_files_of_spark(session, analyzer, place):
    survey = analyzer.asking(minimum=200)
    analyzer.send(survey, [0] * 1200)
    assert analyzer.collector_on(session, survey).step().published
    secret = analyzer.keyring.pair(0).raw
    marks = [PASSPHRASE.encode(), secret, secret.hex().encode()]
    said = work() / session.sparkContext.applicationId
    files = [path for top in (place, said) for path in top.rglob("*") if path.is_file()]
    assert {"stdout", "stderr"} <= {path.name for path in files}
    assert any(path.parent.name == "events" and path.stat().st_size for path in files)
    for path in files:
        content = path.read_bytes()
        assert not any(mark in content for mark in marks), path


def test_what_executors_lack_is_one_line_and_the_batch_waits(session, analyzer, tmp_path):
    survey = analyzer.asking(minimum=200)
    analyzer.send(survey, [0] * 1000)
    empty = tmp_path / "empty"
    empty.mkdir()
    other = Secured(tmp_path / "other")
    (other.seen / "incoming").unlink()
    (other.seen / "incoming").symlink_to(analyzer.store.incoming)
    file = tmp_path / "passphrase"
    file.write_text("wrong\n")
    file.chmod(0o600)
    for mount, line in (
        (Mount(empty), "No such file or directory"),
        (Mount(other.seen), "not of the analyzer"),
        (Mount(analyzer.seen, passphrase_file=file), "not its passphrase"),
    ):
        done = analyzer.collector_on(session, survey, mount=mount).step()
        (problem,) = done.problems.values()
        assert line in problem
        assert "\n" not in problem
        assert "--executor-dir" in problem
        assert not done.published
    other.close()
    assert analyzer.store.ledger.entries(survey.id) == []
    assert analyzer.collector_on(session, survey).step().published


def test_a_passphrase_in_the_settings_is_refused(analyzer):
    class Session:
        class conf:  # noqa: N801 - as Spark's
            @staticmethod
            def get(name, default):
                return "words" if name == f"spark.executorEnv.{VARIABLE}" else default

    with pytest.raises(EngineError, match="Spark logs them"):
        Cluster(Session(), analyzer.directory, Mount(analyzer.seen))


@pytest.mark.slow
def test_a_million_records(session, analyzer, tmp_path):
    """At full size, a task of the usual size, and an executor that dies."""
    cloudpickle.register_pickle_by_value(sys.modules[__name__])
    survey = analyzer.asking(minimum=200)
    analyzer.send(survey, np.arange(1_000_000) % 3)
    here = Analyzer(tmp_path / "local")
    here.keyring, here.shuffler = analyzer.keyring, BatchFiles(tmp_path / "copy")
    here.store.surveys.add(survey)
    (batch,) = (path for path in analyzer.shuffler.directory.glob("*.batch"))
    here.shuffler.path(batch.stem).hardlink_to(batch)
    collector = analyzer.collector_on(
        session, survey, marker=str(tmp_path / "died"), of_task=RECORDS
    )
    assert len(collector.step().published) == 1
    assert (tmp_path / "died").exists()
    assert len(here.collect(survey).published) == 1
    assert outcome(analyzer, survey) == outcome(here, survey)
    assert len(analyzer.store.ledger.entries(survey.id)) == 1
    here.close()
