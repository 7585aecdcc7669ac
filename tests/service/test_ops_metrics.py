"""The figures: nothing that moves with one report of an open batch."""

from __future__ import annotations

import shutil
from types import SimpleNamespace

import pytest
from prometheus_client import generate_latest
from prometheus_client.parser import text_string_to_metric_families

from http_kit import ask
from running_kit import quick, reports
from shoal.service.clock import system_clock
from shoal.service.errors import StoreUnavailableError
from shoal.service.keyring import Keyring, Protection
from shoal.service.opening import Pool
from shoal.service.ops import metrics
from shoal.service.ops.facts import batch_figures, disk_figures, key_figures
from shoal.service.ops.health import Fact, Readiness, fail, figure, ok
from shoal.service.ops.home import opened
from shoal.service.ops.up import Embedded
from shoal.service.shuffler.reports import Arrival
from shoal.service.shuffler.worker import Pace, ShufflerWorker


def registry(sources):
    """As the metrics' own application reads them."""
    return metrics.Reading(tuple(sources))


def values(found):
    text = generate_latest(found).decode()
    return {
        (sample.name, *sorted(sample.labels.values())): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def test_refusals_are_published_when_the_minute_is_over():
    now = [0.0]
    seen = metrics.Observations(steady=lambda: now[0])
    found = registry([seen.figures])
    seen.observe("refused_reports", 3, "unknown_key")
    seen.observe("refused_requests", 1, "wrong_length")
    now[0] = 59.0
    assert ("shoal_refused_reports_total", "unknown_key") not in values(found)
    now[0] = 60.0
    assert values(found)["shoal_refused_reports_total", "unknown_key"] == 3
    assert values(found)["shoal_refused_requests_total", "wrong_length"] == 1
    seen.observe("refused_reports", 2, "unknown_key")
    assert values(found)["shoal_refused_reports_total", "unknown_key"] == 3
    now[0] = 120.0
    assert values(found)["shoal_refused_reports_total", "unknown_key"] == 5


def test_commits_are_not_counted_and_the_queue_has_tenths():
    now = [0.0]
    seen = metrics.Observations(steady=lambda: now[0])
    found = registry([seen.figures])
    for seconds in (0.01, 0.4, *[0.02] * 48):
        seen.observe("commit_seconds", seconds)
    seen.observe("queue", 0.37)
    now[0] = 60.0
    shown = values(found)
    assert shown[("shoal_commit_seconds",)] == 0.5
    assert shown[("shoal_queue_ratio",)] == pytest.approx(0.3)
    assert not any("count" in name or "bucket" in name for name, *_ in shown)
    now[0] = 120.0
    assert values(found)[("shoal_commit_seconds",)] == 0.25


@pytest.mark.parametrize("seconds", [0.0031, 7.0])
def test_a_minute_with_one_commit_looks_like_one_without(seconds):
    now = [0.0]
    seen = metrics.Observations(steady=lambda: now[0])
    found = registry([seen.figures])
    shown = []
    for commits in (0, 1, 0, 49, 1):
        for _ in range(commits):
            seen.observe("commit_seconds", seconds)
        now[0] += 61.0
        shown.append(values(found)[("shoal_commit_seconds",)])
    assert set(shown) == {0.25}


def test_the_largest_part_from_one_network_has_no_label_and_stays_for_its_hour():
    now = [0.0]
    seen = metrics.Observations(steady=lambda: now[0])
    found = registry([seen.figures])
    assert values(found)[("shoal_network_ratio",)] == 0
    seen.observe("network_share", 0.5)
    for now[0] in (1.0, 61.0, 1000.0):
        assert values(found)[("shoal_network_ratio",)] == 0.5
    seen.observe("network_share", 0.0)
    assert values(found)[("shoal_network_ratio",)] == 0


def test_invented_reasons_do_not_fill_the_memory():
    now = [0.0]
    seen = metrics.Observations(steady=lambda: now[0])
    for i in range(1000):
        seen.observe("refused_requests", 1, f"kind_{i}")
    now[0] = 60.0
    shown = values(registry([seen.figures]))
    reasons = [key for key in shown if key[0] == "shoal_refused_requests_total"]
    assert len(reasons) <= 65
    assert sum(shown[key] for key in reasons) == 1000


def test_a_source_that_fails_is_left_out_and_counted():
    def broken():
        raise StoreUnavailableError("reading", "gone")

    shown = values(registry([broken, lambda: [figure("queue_ratio", 1)]]))
    assert shown == {("shoal_queue_ratio",): 1.0, ("shoal_unreadable_figures",): 1.0}


@pytest.mark.parametrize(
    ("check", "status"),
    [
        (lambda: ok("disk", "room"), 200),
        (lambda: fail("disk", "full", "make room", stops=True), 503),
    ],
)
def test_the_port_tells_the_figures_and_what_is_not_in_order(check, status):
    app = metrics.metrics_app([], Readiness([Fact("disk", lambda: [check()])]))
    assert "# HELP shoal_unreadable_figures" in ask(app, "/metrics").text
    assert ask(app, "/healthz").json() == {"status": "alive"}
    answer = ask(app, "/readyz")
    assert answer.status_code == status
    assert answer.json()["checks"] == [check().to_dict()]
    if status == 503:
        assert answer.headers["content-type"] == "application/problem+json"
        assert answer.json()["detail"] == "disk: full; make room"
        assert answer.headers["retry-after"] == "10"
    assert ask(app, "/readyz", "POST").status_code == 404


def test_no_figure_moves_with_one_report_of_an_open_batch(tmp_path, monkeypatch):
    def usage(directory):
        """A disk of this test alone: others may fill the real one."""
        used = sum(path.stat().st_size for path in directory.rglob("*") if path.is_file())
        return SimpleNamespace(free=10**11 + 10**9 - used)

    monkeypatch.setattr(shutil, "disk_usage", usage)
    embedded = Embedded(directory=tmp_path / "both")
    design = quick(question="?", answers=("a", "b"), people=300)
    embedded.make(design, {"shuffler": 1, "analyzer": 2})
    home, survey = embedded.home("shuffler"), embedded.survey()
    sent = reports(embedded, 300)
    ring = home.keyring(Protection.none())
    now = [system_clock() // 600 * 600]
    with opened(home, clock=lambda: now[0]) as store:
        worker = ShufflerWorker(store, ring, Pool(0), lambda: now[0], pace=Pace(gather=0))
        sources = [lambda: batch_figures(store), lambda: disk_figures(home.directory)]
        found = registry(sources)

        def shown_after(some, *, opening=True):
            store.reports.receive([Arrival(survey.id, 0, b"".join(some))])
            while opening and worker.step():
                pass
            return generate_latest(found)

        few = shown_after(sent[:50])
        assert shown_after(sent[50:51], opening=False) == few
        assert shown_after(sent[51:52]) == few
        assert shown_after([bytes([1, 0]) + bytes(len(sent[0]) - 2)]) == few  # does not open
        assert shown_after(sent[52:299]) == few  # but for the look that is due in ten minutes
        now[0] += 600
        open_still = values(found)
        named = str(survey.id)[:12]
        assert open_still["shoal_minimum_reached_ratio", named] == 1.0
        assert not {298.0, 299.0, 300.0} & set(open_still.values())
        assert open_still["shoal_reports_total", named] == 0.0
        assert not [key for key in open_still if key[0] == "shoal_batches"]
        rejected = ("shoal_unopened_reports_total", *sorted(["rejected", named]))
        restarted = values(registry([lambda: batch_figures(store)]))
        assert open_still[rejected] == restarted[rejected] == 0.0, "no batch has closed yet"
        shown_after(sent[299:])
        closed = values(found)
        assert closed["shoal_last_batch_reports", named] == 300.0
        assert closed["shoal_batches", *sorted(["SHUFFLED", named])] == 1.0
        assert closed["shoal_reports_total", named] == 300.0
        assert closed[rejected] == 1.0
        store.reports.receive([Arrival(survey.id, 0, b"\1\0" + b"x" * (len(sent[0]) - 2))])
        while worker.step():
            pass
        restarted = values(registry([lambda: batch_figures(store)]))
        assert restarted[rejected] == values(found)[rejected] == 1.0, "as of the last close"


def test_secrets_that_are_lost_are_counted(tmp_path):
    ring = Keyring.create(tmp_path / "keys", role="shuffler", protection=Protection.none())

    def missing():
        return [each.value for each in key_figures(ring) if each.name == "missing_secrets"]

    assert missing() == [0]
    (ring.directory / "key-000").unlink()
    assert missing() == [1]
