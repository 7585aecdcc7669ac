"""``shoal serve`` as real processes: what is acknowledged stays, who sent it leaves no trace."""

from __future__ import annotations

import os
import resource
import signal
import threading
from contextlib import closing
from pathlib import Path

import httpx
import pytest
import sqlalchemy as sa

import http_kit
from running_kit import Service, opened, quick, reports, wait_for
from shoal.service.clock import system_clock
from shoal.service.db.leases import Leases
from shoal.service.keyring import Protection
from shoal.service.opening import Pool
from shoal.service.ops.administration import add_survey
from shoal.service.ops.home import home_of
from shoal.service.ops.processes import Settings, run_worker
from shoal.service.ops.up import Embedded
from shoal.service.shuffler.reports import Arrival
from shoal.service.shuffler.store import ShufflerStore
from shoal.service.shuffler.tables import extents
from shoal.service.shuffler.worker import Pace

MARK = "zebra7391"
MARKED = {
    "User-Agent": f"agent-{MARK}",
    "Cookie": f"id={MARK}",
    "X-Forwarded-For": f"{MARK}.example, 203.0.113.77",
    "Forwarded": "for=203.0.113.77",
    "Referer": f"http://{MARK}.example/",
    "Authorization": f"Bearer {MARK}",
    "Content-Type": "application/octet-stream",
}
TRACES = [MARK.encode(), b"203.0.113.77", b"127.0.0.2"]


@pytest.fixture
def embedded(tmp_path):
    made = Embedded(directory=tmp_path / "both")
    made.make(quick(question="?", answers=("a", "b"), people=300), {"shuffler": 1, "analyzer": 2})
    return made


def shuffler(embedded, tmp_path, *words, **variables):
    home = str(embedded.home("shuffler").directory)
    words = ("serve", "shuffler", home, "--port", "0", "--metrics-port", "0", *words)
    return Service(*words, log=tmp_path / "shuffler.log", **variables)


def uploads(service, embedded):
    return f"{service.address()}/v1/surveys/{embedded.survey().id}/reports"


def everything(directory):
    return {path: path.read_bytes() for path in directory.rglob("*") if path.is_file()}


def test_stopped_under_load_nothing_acknowledged_is_lost_and_nobody_leaves_a_trace(
    embedded, tmp_path
):
    sent = reports(embedded, 400)
    acknowledged = []
    with shuffler(embedded, tmp_path) as service:
        url = uploads(service, embedded)
        metrics = service.address("metrics_listening")

        def load(part):
            # Another address of this machine, to look for afterwards.
            transport = httpx.HTTPTransport(local_address="127.0.0.2")
            with httpx.Client(transport=transport, headers=MARKED, timeout=60) as client:
                for report in part:
                    try:
                        answer = client.post(f"{url}?from={MARK}", content=report)
                    except httpx.HTTPError:
                        return
                    if answer.status_code != 202:
                        return
                    acknowledged.append(report)

        threads = [threading.Thread(target=load, args=(sent[i::4],)) for i in range(4)]
        for thread in threads:
            thread.start()
        refused = http_kit.post(url, content=sent[0][:-1], headers=MARKED)
        assert refused.status_code == 400
        assert http_kit.get(f"{url}/{MARK}", headers=MARKED).status_code == 404
        wait_for(lambda: len(acknowledged) > 40)
        told = [http_kit.get(f"{metrics}/{path}", headers=MARKED) for path in ("metrics", "readyz")]
        assert [answer.status_code for answer in told] == [200, 200]
        assert service.stop() == 0
        for thread in threads:
            thread.join()
        output = service.process.communicate()
    assert 40 < len(acknowledged) < len(sent)
    assert output == ("", "")
    assert [line["event"] for line in service.events()][-2:] == ["stopping", "stopped"]
    kept = everything(tmp_path) | {"told": b"".join(answer.content for answer in told)}
    found = [
        (str(place), trace) for place, data in kept.items() for trace in TRACES if trace in data
    ]
    assert not found
    # A request that was cut off by the end may have been kept without an acknowledgement.
    tallies = opened(embedded)
    assert len(set(acknowledged)) <= tallies["opened"] <= len(acknowledged) + 4
    assert tallies.get("rejected", 0) == 0
    assert not [p for p in embedded.directory.rglob("*") if p.stat().st_mode & 0o077]


def test_a_worker_that_is_stopped_while_it_works_gives_its_claim_back(embedded, monkeypatch):
    """What it has begun it finishes; what is left is anybody's at once, not when a lease ends."""
    home, survey, sent = embedded.home("shuffler"), embedded.survey(), reports(embedded, 30)
    open_reports = Pool.open_reports

    def claims():
        leases = Leases(database, extents, system_clock)
        with database.read() as connection:
            return [
                connection.scalar(sa.select(sa.func.count()).select_from(extents).where(these))
                for these in (leases.worked_on(), leases.free())
            ]

    def stopped(pool, *work, **options):
        """The signal comes when the reports of the first batch are claimed, and not yet open."""
        store.reports.receive([Arrival(survey.id, 0, b"".join(sent[20:]))])  # after the claim
        during.append(claims())
        os.kill(os.getpid(), signal.SIGTERM)
        return open_reports(pool, *work, **options)

    during = []
    monkeypatch.setattr(Pool, "open_reports", stopped)
    with (
        closing(home.database()) as database,
        closing(ShufflerStore(database, home.directory, system_clock)) as store,
    ):
        store.reports.receive([Arrival(survey.id, 0, b"".join(sent[:20]))])
        run_worker(Settings(home=home, protection=Protection.none(), pace=Pace(gather=0)))
        assert during == [[1, 1]]
        assert claims() == [0, 1]
        assert store.reports.tallies(survey.id)["opened"] == 20
    monkeypatch.undo()
    assert opened(embedded)["opened"] == len(sent)


def test_a_full_disk_refuses_and_loses_nothing(embedded, tmp_path):
    sent = reports(embedded, 30)
    with shuffler(embedded, tmp_path) as service:
        url = uploads(service, embedded)
        whole = {"Content-Type": "application/octet-stream"}
        assert http_kit.post(url, content=sent[0], headers=whole).status_code == 202
        pid = service.process.pid
        unlimited = resource.prlimit(pid, resource.RLIMIT_FSIZE)
        resource.prlimit(pid, resource.RLIMIT_FSIZE, (1, unlimited[1]))
        refused = http_kit.post(url, content=b"".join(sent), headers=whole)
        assert refused.status_code == 503
        assert refused.headers["content-type"] == "application/problem+json"
        assert int(refused.headers["retry-after"]) > 0
        resource.prlimit(pid, resource.RLIMIT_FSIZE, unlimited)
        again = http_kit.post(url, content=b"".join(sent), headers=whole)
        assert (again.status_code, again.json()["refused"]) == (202, [])
        assert service.stop() == 0
    assert opened(embedded)["opened"] == len(sent)


def test_a_database_that_is_gone_is_not_ready_and_nothing_is_acknowledged(
    embedded, tmp_path, postgres_url, postgres_admin
):
    elsewhere = home_of(embedded.home("shuffler").directory, postgres_url)
    (elsewhere.directory / "store-id").unlink()  # of the database it was made with
    assert add_survey(embedded.survey(), elsewhere)
    report = reports(embedded, 1)[0]
    with shuffler(embedded, tmp_path, SHOAL_STORE=postgres_url) as service:
        url, public = uploads(service, embedded), service.address()
        metrics = service.address("metrics_listening")
        whole = {"Content-Type": "application/octet-stream"}
        assert http_kit.post(url, content=report, headers=whole).status_code == 202
        assert http_kit.get(f"{public}/readyz").status_code == 200
        with postgres_admin.connect() as connection:
            name = sa.make_url(postgres_url).database
            connection.execute(sa.text(f"DROP DATABASE {name} WITH (FORCE)"))
            refused = http_kit.post(url, content=report, headers=whole)
            assert refused.status_code == 503
            ready = wait_for(lambda: _not_ready(f"{public}/readyz"))
            assert "PostgreSQL" not in ready.text
            assert "checks" not in ready.json()
            detailed = http_kit.get(f"{metrics}/readyz").json()
            assert detailed["detail"].startswith("store: ")
            assert http_kit.get(f"{public}/healthz").json() == {"status": "alive"}
            shown = http_kit.get(f"{metrics}/metrics").text
            assert "shoal_unreadable_figures 2.0" in shown
            connection.execute(sa.text(f"CREATE DATABASE {name}"))  # for the fixture to drop
        assert service.stop() == 0


def _not_ready(url):
    answer = http_kit.get(url)
    return answer if answer.status_code == 503 else None


@pytest.mark.slow
def test_several_processes_share_a_port_and_one_that_dies_comes_back(embedded, tmp_path):
    sent = reports(embedded, 200)
    with shuffler(embedded, tmp_path, "--workers", "2") as service:
        url = uploads(service, embedded)
        whole = {"Content-Type": "application/octet-stream"}
        children = wait_for(lambda: _children_of(service.process.pid))
        wait_for(lambda: sum(line["event"] == "listening" for line in service.events()) >= 3)
        for report in sent[:100]:
            assert http_kit.post(url, content=report, headers=whole).status_code == 202
        os.kill(children[0], 9)
        for report in sent[100:]:
            assert http_kit.post(url, content=report, headers=whole).status_code == 202
        wait_for(lambda: any(line["event"] == "child_died" for line in service.events()))
        assert service.stop() == 0
        assert not _children_of(service.process.pid)
    assert opened(embedded)["opened"] == len(sent)


def _children_of(pid):
    found = []
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            state, parent = path.read_text().rpartition(")")[2].split()[:2]
        except OSError:
            continue
        if int(parent) == pid and state != "Z":
            found.append(int(path.parent.name))
    return found
