"""A shuffler that answers a byte now and then keeps nobody waiting but its own surveys."""

from __future__ import annotations

from functools import partial
from math import inf
from threading import Event, Thread

import httpx
import pytest

from http_kit import dripping
from running_kit import Service, quick, wait_for
from service_site import START, Analyzer, Instead
from shoal.sealing import SurveyId
from shoal.service.analyzer import source as sources
from shoal.service.analyzer.source import HttpSource, Timeouts
from shoal.service.analyzer.store import PASSES
from shoal.service.http.outgoing import NoAnswerError
from shoal.service.ops import doctor, facts
from shoal.service.ops.up import Embedded
from shoal.service.survey import Party

HEAD = b"HTTP/1.1 200 OK\r\n"
CHUNKED = HEAD + b"Transfer-Encoding: chunked\r\n\r\n"
PATIENT = Timeouts(head=3600, silence=3600)


@pytest.fixture
def analyzer(tmp_path):
    made = Analyzer(tmp_path)
    yield made
    made.close()


@pytest.mark.parametrize(
    ("first", "words"),
    [
        (b"", "no whole head of an answer within 0.2 seconds"),
        (HEAD + b"X-A: ", "no whole head of an answer within 0.2 seconds"),
        (CHUNKED + b"1;", "fewer than 1,000,000,000 bytes a second"),
        (CHUNKED + b"1\r\nx\r\n0\r\nX-A: ", "fewer than 1,000,000,000 bytes a second"),
    ],
    ids=["a first line", "a head", "the length of a chunk", "lines behind a body"],
)
def test_what_never_ends_is_not_waited_for(first, words):
    timeouts = Timeouts(head=0.2, grace=0.2, rate=1e9)
    with dripping(first) as url:
        source = HttpSource(url, SurveyId(bytes(32)), lambda: "token", timeouts=timeouts)
        with pytest.raises(NoAnswerError, match=words):
            source.offers()


def test_whoever_closes_a_source_waits_for_no_answer():
    with dripping() as url:
        source = HttpSource(url, SurveyId(bytes(32)), lambda: "token", timeouts=PATIENT)
        outcomes = []

        def ask():
            try:
                source.offers()
            except NoAnswerError as error:
                outcomes.append(error.reason)

        thread = Thread(target=ask)
        thread.start()
        wait_for(lambda: source._task is not None)
        source.close()
        thread.join(60)
        ask()
    assert [reason.partition(",")[0] for reason in outcomes] == ["collecting ends here"] * 2


def surveys_of(analyzer, url):
    """One whose shuffler drips, and one with a batch at an honest shuffler; worked on in order."""
    slow = analyzer.asking(name="slow", shuffler=Party(url=url, fingerprint="cd" * 32))
    honest = analyzer.asking(name="honest")
    analyzer.send(honest, [0] * 60)
    assert [each.id for each in analyzer.store.surveys.all()] == [slow.id, honest.id]
    return slow, honest


def worker_of(analyzer, slow, timeouts):
    def source(survey):
        if survey.id != slow.id:
            return analyzer.shuffler
        return HttpSource(survey.shuffler.url, survey.id, lambda: "token", timeouts=timeouts)

    return analyzer.worker(source, interval=0.01)


def test_other_surveys_go_on_and_the_end_does_not_wait(analyzer):
    with dripping() as url:
        slow, honest = surveys_of(analyzer, url)
        worker, stop = worker_of(analyzer, slow, PATIENT), Event()
        thread = Thread(target=worker.run, args=(stop,))
        thread.start()
        try:
            wait_for(lambda: analyzer.store.results.survey(honest.id).batches)
            known = analyzer.store.surveys.all()
            ages = partial(analyzer.store.last_passes.ages, known, START)
            wait_for(lambda: ages()[honest.shuffler.url] == 0)
            assert ages()[slow.shuffler.url] == inf
        finally:
            stop.set()
            thread.join(60)
        assert not thread.is_alive()


def test_one_pass_says_which_shuffler_was_slow(analyzer):
    with dripping() as url:
        slow, honest = surveys_of(analyzer, url)
        with worker_of(analyzer, slow, Timeouts(head=0.2)) as worker:
            passes = worker.collect()
    assert "no whole head" in passes[str(slow.id)].problems[""]
    assert passes[str(honest.id)].published


def test_the_age_of_the_last_pass_is_a_fact(analyzer):
    survey = analyzer.asking()
    url, passes = survey.shuffler.url, analyzer.store.last_passes

    def look(now):
        (found,) = facts.pass_findings(passes.ages([survey], now))
        (figure,) = facts.pass_figures(passes.ages([survey], now))
        assert (figure.name, figure.labels) == ("last_pass_age_seconds", {"shuffler": url})
        return found.state.value, found.detail, figure.value

    assert look(START) == ("warn", f"{url} never", inf)
    collect(analyzer, analyzer.shuffler)
    assert look(START + 30) == ("ok", f"{url} less than a minute ago", 30)
    assert look(START + 3601)[0] == "warn"
    analyzer.clock.advance(3601)
    collect(analyzer, Instead(analyzer.shuffler, offers=silent))
    assert look(START + 3601)[::2] == ("warn", 3601), "a pass without a list is none"
    over = survey.not_after + survey.batches.max_age + 1
    assert passes.ages([survey], over) == {}
    for path in (analyzer.directory / PASSES).iterdir():
        path.write_text("damaged")
    assert look(START)[0] == "warn"


def collect(analyzer, source):
    """One pass over everything at this shuffler."""
    with analyzer.worker(lambda _survey: source) as worker:
        assert worker.collect()


def silent():
    raise NoAnswerError("there", "no answer")


def test_doctor_does_not_wait_either(analyzer, monkeypatch, tmp_path):
    monkeypatch.setattr(doctor, "_TIMEOUT", 0.2)
    monkeypatch.setattr(sources, "_TRIAL", 0.2)
    with dripping() as url:
        survey = analyzer.asking(shuffler=Party(url=url, fingerprint="cd" * 32))
        (finding,) = doctor.Remote(url, START).findings()
        assert (finding.state.value, finding.detail) == ("fail", "does not answer")
        token = tmp_path / "token"
        token.touch(mode=0o600)
        token.write_text("shoal_secret\n")
        with pytest.raises(NoAnswerError, match="no whole head"):
            sources.try_token(sources.TokenFile(token), [survey], survey)


def test_a_process_with_a_slow_shuffler_says_so_and_ends_when_it_is_told(tmp_path):
    with dripping(most=10_000) as url:
        port = int(url.rpartition(":")[2])
        made = Embedded(directory=tmp_path / "both")
        made.make(quick("?", ("a", "b"), people=300), {"shuffler": port, "analyzer": 2})
        home = made.home("analyzer").directory
        words = ("serve", "analyzer", home, "--port", "0", "--metrics-port", "0")
        with Service(*words, log=tmp_path / "log") as service:
            where = service.address("metrics_listening")
            service.address()
            checks = httpx.get(f"{where}/readyz", timeout=60).json()["checks"]
            (found,) = [each for each in checks if each["check"] == "last pass"]
            assert (found["state"], found["detail"]) == ("warn", f"{url} never")
            metrics = httpx.get(f"{where}/metrics", timeout=60).text
            assert f'shoal_last_pass_age_seconds{{shuffler="{url}"}} +Inf' in metrics
            assert service.stop() == 0
