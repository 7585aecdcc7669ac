"""Hours of load, and the day when something is missing: memory, disk, database, or the right time.

``SHOAL_SOAK_SECONDS`` (1800) and ``SHOAL_SOAK_RATE`` (2000 requests a second) say how long and how
much. One command, whose last line sums it up::

    python -m pytest -m slow tests/service/test_system_soak.py
"""

from __future__ import annotations

import os
import resource

import pytest
import sqlalchemy as sa

import http_kit
import load_kit
from factories import DAY
from http_kit import BYTES
from running_kit import Service, opened, quick, reports, wait_for
from shoal.service.clock import system_clock
from shoal.service.db import Database
from shoal.service.ops.up import Embedded
from shoal.service.shuffler import tables as schema
from shoal.service.shuffler.store import ShufflerStore

SECONDS = int(os.environ.get("SHOAL_SOAK_SECONDS", "1800"))
RATE = float(os.environ.get("SHOAL_SOAK_RATE", "2000"))
FORGED, REPLAYED = 0.5, 0.49  # what is left is sealed before
WARM = max(15.0, 0.1 * SECONDS)
GROWTH = 0.05
LARGEST_WAL = 100 << 20
BATCH = 600  # people
THROW_OUT = sa.text(
    "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE datname = :name"
)


@pytest.mark.slow
def test_memory_and_journal_stay_as_they_are(tmp_path, capsys):
    machine = load_kit.Machine()
    with load_kit.deployed(tmp_path / "both", people=BATCH) as site:
        wanted = load_kit.stream(
            site,
            requests=int(RATE * SECONDS),
            rate=RATE,
            connections=128,
            forged=FORGED,
            replayed=REPLAYED,
        )
        with load_kit.sampled(site, max(0.5, SECONDS / 600)) as samples:
            (found,) = load_kit.sent(site, wanted)
        published = site.local.published()
        embedded = site.embedded
    kinds = {kind: len(seconds) for kind, seconds in found.seconds.items()}
    grown = {name: samples.growth(name, WARM) for name in samples.memory[0]}
    figures = found.milliseconds()
    memory = ", ".join(
        f"{name} {samples.memory[-1][name]:.0f} MB ({share:+.1%})" for name, share in grown.items()
    )
    machine.tell(
        capsys,
        f"soak: {SECONDS} s at {found.rate:,.0f} of {RATE:,.0f} requests a second; "
        f"p50 {figures['p50']:.0f} ms, p99 {figures['p99']:.0f} ms, max {figures['max']:.0f} ms; "
        f"{memory}; journal at most {max(samples.wal) / 1e6:.0f} MB; {published} batches; "
        f"answers {dict(found.statuses)}",
    )
    assert set(found.statuses) <= {"202"} | (set() if machine.idle else {"unanswered"})
    if machine.idle:
        assert found.rate > 0.95 * RATE
    assert max(samples.wal) < LARGEST_WAL
    assert max(grown.values()) < GROWTH
    # Each report once, whatever was sent how often; and nothing that was forged.
    counted = opened(embedded)
    if "unanswered" not in found.statuses:
        assert counted == {"opened": kinds["fresh"], "rejected": kinds["forged"]}
    assert counted["opened"] <= kinds["fresh"]


@pytest.fixture
def embedded(tmp_path):
    found = Embedded(directory=tmp_path / "both")
    found.make(quick(question="?", answers=("a", "b"), people=300), {"shuffler": 1, "analyzer": 2})
    return found


class Shuffler:
    """``shoal serve shuffler`` as a process, and one report after the other for it."""

    def __init__(self, service, embedded, sent):
        self.service = service
        self.url = f"{service.address()}/v1/surveys/{embedded.survey().id}/reports"
        self.sent = sent
        self.acknowledged = []

    def post(self):
        """The status for the next report; one that is not kept stays the next."""
        answer = http_kit.post(self.url, content=self.sent[0], headers=BYTES)
        if answer.status_code == 202:
            self.acknowledged.append(self.sent.pop(0))
        else:
            assert answer.headers["retry-after"]
        return answer.status_code


def serving(embedded, tmp_path, *words):
    home = str(embedded.home("shuffler").directory)
    words = ("serve", "shuffler", home, "--port", "0", *words)
    return Service(*words, log=tmp_path / "shuffler.log")


@pytest.mark.slow
def test_a_disk_that_takes_no_more_acknowledges_nothing(embedded, tmp_path):
    """A limit on the size of files, set while it runs: every write beyond it fails."""
    with serving(embedded, tmp_path) as service:
        shuffler = Shuffler(service, embedded, reports(embedded, 12))
        assert [shuffler.post() for _ in range(3)] == [202] * 3
        _, hard = resource.prlimit(service.process.pid, resource.RLIMIT_FSIZE)
        resource.prlimit(service.process.pid, resource.RLIMIT_FSIZE, (1, hard))
        assert [shuffler.post() for _ in range(4)] == [503] * 4
        resource.prlimit(service.process.pid, resource.RLIMIT_FSIZE, (hard, hard))
        wait_for(lambda: shuffler.post() == 202)
        assert shuffler.post() == 202
        assert service.stop() == 0
    assert opened(embedded) == {"opened": len(shuffler.acknowledged)}


@pytest.mark.slow
def test_a_database_that_is_gone_acknowledges_nothing(
    embedded, tmp_path, postgres_url, postgres_admin
):
    """PostgreSQL throws everybody out and lets nobody in; then it does again."""
    name = sa.make_url(postgres_url).database
    home = embedded.home("shuffler").directory
    (home / "store-id").unlink()
    database = Database(postgres_url)
    database.migrate("shuffler")
    store = ShufflerStore(database, home, system_clock)
    store.surveys.add(embedded.survey())

    def allow(connections):
        with postgres_admin.connect() as connection:
            connection.execute(sa.text(f"ALTER DATABASE {name} ALLOW_CONNECTIONS {connections}"))

    def throw_out():
        with postgres_admin.connect() as connection:
            connection.execute(THROW_OUT, {"name": name})

    with serving(embedded, tmp_path, "--store", postgres_url) as service:
        shuffler = Shuffler(service, embedded, reports(embedded, 12))
        assert [shuffler.post() for _ in range(3)] == [202] * 3
        allow("false")
        throw_out()
        assert [shuffler.post() for _ in range(3)] == [503] * 3
        allow("true")
        wait_for(lambda: shuffler.post() == 202)
        assert service.stop() == 0
    with database.read() as connection:
        kept = connection.execute(sa.select(sa.func.sum(schema.extents.c.count))).scalar()
    assert kept == len(shuffler.acknowledged)
    store.close()
    database.close()


def test_a_clock_that_was_set_back_a_day_loses_and_repeats_nobody(shuffler):
    """What is acknowledged in the wrong day counts once, when the right one is back."""
    app = shuffler.app()
    people = shuffler.reports(40)

    def post(body):
        return shuffler.ask(body, app=app)

    assert post(b"".join(people[:10])).status_code == 202
    shuffler.work()
    shuffler.clock.advance(1 - DAY)
    answers = [post(report) for report in people[5:20]]
    refused = [answer for answer in answers if answer.json().get("refused")]
    assert {answer.status_code for answer in answers} == {202}
    # A key that is not in use yet, as this clock has it, takes nothing: so it is said.
    assert len(refused) in {0, len(answers)}
    shuffler.work()
    shuffler.clock.advance(DAY - 1)
    for report in people:
        assert post(report).json() == {"reports": 1, "refused": []}
    shuffler.work()
    (batch,) = shuffler.store.batches.listed(shuffler.survey.id)
    assert batch.reports == 40
    assert shuffler.tallies() == {"opened": 40}
