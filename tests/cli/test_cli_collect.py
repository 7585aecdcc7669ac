"""``shoal collect``: from a shuffler's batches to a chart, a table, a page, and every refusal."""

from __future__ import annotations

import json
import logging
import shutil
from dataclasses import replace
from functools import partial

import pytest

from command_kit import shoal
from service_site import Analyzer, DirectSource, collection
from shoal.service.analyzer.store import AnalyzerStore
from shoal.service.analyzer.tables import REFUSED
from shoal.service.clock import system_clock
from shoal.service.db import Database
from shoal.service.keyring import Keyring, Protection
from shoal.service.ops.doctor import examine
from shoal.service.ops.health import State
from shoal.service.ops.logs import JsonLines

run = partial(shoal, "collect")


@pytest.fixture(scope="module")
def parties(tmp_path_factory):
    with collection(tmp_path_factory.mktemp("parties")) as made:
        yield made


def test_one_pass_publishes_and_shows(parties, tmp_path):
    page, table = tmp_path / "page.html", tmp_path / "table.csv"
    before = run(parties.directory, "--offline", "--report", page)
    assert "nothing to report yet" in before.refusal()
    assert not page.exists()
    assert "no estimates yet: a batch needs" in run(parties.directory, "--offline").success()
    told = run(parties.directory, "--report", page, "--csv", table).success()
    shown = " ".join(told.split())
    assert "new: batch" in shown
    assert "500 of 500 reports valid" in shown
    assert "Which colour? Estimated from 500 reports" in shown
    assert "red" in shown
    assert "proved upper bound" in shown
    assert "crowd assumed, not checked" in shown
    assert f"wrote {page}" in told
    assert "Which colour?" in page.read_text()
    assert table.read_text().startswith("batch,status,answer,fraction,low,high,")
    assert len(table.read_text().splitlines()) == 7
    assert "new:" not in run(parties.directory).success()


def test_as_json(parties):
    run(parties.directory)
    asked = ("--json", "--survey", str(parties.survey.id)[:8])
    (found,) = run(parties.directory, *asked).json()["surveys"]
    assert found["survey"] == str(parties.survey.id)
    assert found["combined"]["valid"] % 500 == 0
    assert found["pass"] == {"published": [], "refused": [], "held": [], "problems": []}
    assert run(parties.directory, "--json", "--offline").json()["surveys"] == [found]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--watch", "--offline"], "--offline contacts nobody: leave out --watch"),
        (["--watch", "--json"], "--watch never ends"),
        (["--watch", "--csv", "x.csv"], "--watch never ends"),
        (["--survey", "ffff"], "the first digits of one name here"),
        (["--again", "ffff", "--offline"], "--offline contacts nobody: leave out --again"),
        (["--again", "ffff"], "the first digits of one refused batch (none)"),
        (["--token-file", "/nowhere"], "cannot use the tokens in /nowhere"),
        (["--every", "0"], "every"),
        (["--store", "mysql://x"], "expected sqlite:///path"),
    ],
)
def test_refusals(parties, words, said):
    assert said in run(parties.directory, *words).refusal()


def test_a_directory_without_an_analyzer(tmp_path):
    assert "there is no such directory" in run(tmp_path / "nowhere").refusal()
    assert "there is no survey" in run(tmp_path, "--offline").refusal()


def test_a_token_that_others_may_read(parties, tmp_path):
    token = tmp_path / "token"
    token.write_text("secret")
    token.chmod(0o644)
    said = run(parties.directory, "--token-file", token).refusal()
    assert "other users may read it" in said
    assert "secret" not in said


def test_watching_tells_every_batch_once(parties, monkeypatch):
    run(parties.directory)
    parties.send(500)
    waits = []

    def sleep(seconds):
        waits.append(seconds)
        if len(waits) == 2:
            raise KeyboardInterrupt

    monkeypatch.setattr("time.sleep", sleep)
    done = run(parties.directory, "--watch", "--every", "7")
    assert done.status == 130
    (line,) = done.stdout.splitlines()
    assert line.startswith("colours: batch ")
    assert "published: 500 of 500 reports valid" in line
    assert waits == [7.0, 7.0]


def test_what_goes_wrong_is_said_in_words_and_not_logged(parties, tmp_path, monkeypatch):
    token = tmp_path / "token"
    token.write_text("not_this_one")
    token.chmod(0o600)
    monkeypatch.setattr(logging.getLogger(), "handlers", [])  # as in a process without tests
    done = run(parties.directory, "--token-file", token)
    assert done.status == 2
    (line,) = done.stderr.splitlines()
    assert line.startswith("error: no answer from http://127.0.0.1")
    assert "the shuffler refused the token" in line
    assert "not_this_one" not in done.stderr + done.stdout
    assert "Which colour?" in done.stdout, "what was found before is shown all the same"


def test_a_token_for_another_survey_is_told_by_everybody_who_meets_it(parties, tmp_path, caplog):
    place = tmp_path / "copied"
    shutil.copytree(parties.directory, place)
    other = replace(parties.survey, name="another survey")
    parties.store.surveys.add(other)
    (place / "token").write_text(parties.store.tokens.add("theirs", other.id, 3600))
    digits = str(parties.survey.id)[:16]
    advice = f"a token for this survey (shoal keys token DIR --survey {digits})"
    done = run(place)
    assert done.status == 2
    (line,) = done.stderr.splitlines()
    assert "the shuffler refused the token (the token 'theirs' is for another survey)" in line
    assert advice in line
    assert "later" not in line
    (record,) = [each for each in caplog.records if each.msg == "no_list"]
    logged = json.loads(JsonLines().format(record))
    assert logged["reason"] == "token_for_another_survey"
    assert logged["error"] == "NoAnswerError"
    told = shoal("doctor", place, "--json")
    assert told.status == 1
    (found,) = [
        each
        for each in json.loads(told.stdout)["checks"]
        if each["check"] == f"token for survey {digits[:12]}"
    ]
    assert found["state"] == "fail"
    assert "is for another survey): nothing is collected for it" in found["detail"]
    assert advice in found["advice"]


def test_a_token_that_counts_is_tried_and_one_that_is_not_there_is_missed(parties, tmp_path):
    def tried(place):
        found = examine([str(place)]).parts[f"analyzer in {place}"]
        return next(each for each in found if each.check.startswith("token for survey"))

    assert tried(parties.directory).state is State.OK
    place = tmp_path / "copied"
    shutil.copytree(parties.directory, place)
    (place / "token").write_text("0000 none")
    missed = tried(place)
    assert (missed.state, "there is no token for this survey" in missed.detail) == (
        State.FAIL,
        True,
    )
    assert "ask the shuffler's operator" in missed.advice


def test_a_refused_batch_is_asked_for_again(parties):
    run(parties.directory)
    parties.send(500)
    database = Database(f"sqlite:///{parties.directory / 'store.sqlite'}")
    store = AnalyzerStore(database, parties.directory, system_clock)
    known = {each.batch for each in store.collections.of(parties.survey.id)}
    offers = DirectSource(parties.store, parties.survey.id).offers()
    (offer,) = [each for each in offers if each.batch not in known]
    held = store.collections.claim(store.collections.request(parties.survey.id, offer))
    reason = "as if its key were \x1b[2Jgone"
    store.collections.move(held, REFUSED, reason=reason)
    shown = run(parties.directory)
    assert f"batch {offer.batch[:8]} refused: as if its key were" in shown.stdout
    assert "\x1b" not in shown.stdout
    assert offer.batch[:8] in run(parties.directory, "--again", "no").refusal()
    again = run(parties.directory, "--again", offer.batch[:8]).success()
    assert f"new: batch {offer.batch[:8]} published" in again
    database.close()


def test_keys_that_the_survey_does_not_name_collect_nothing(parties, tmp_path):
    place = tmp_path / "copied"
    shutil.copytree(parties.directory, place)
    shutil.rmtree(place / "keys")
    Keyring.create(place / "keys", role="analyzer", protection=Protection.none())
    said = run(place).refusal()
    assert f"names the analyzer with fingerprint {parties.survey.analyzer.fingerprint}" in said


def test_a_held_batch_is_shown_without_estimates_and_released(tmp_path):
    analyzer = Analyzer(tmp_path / "analyzer")
    survey = analyzer.asking()
    analyzer.flood(survey)
    analyzer.collect(survey)
    analyzer.close()
    offline = partial(run, tmp_path / "analyzer", "--offline")
    shown = " ".join(offline().success().split())
    assert "batch 11111111 held: 3 of 3 estimated fractions are below 0 or above 1" in shown
    assert "shoal collect DIR --release 11111111" in shown
    assert "red" not in shown
    (found,) = json.loads(offline("--json").success())["surveys"]
    assert [each["batch"] for each in found["held"]] == ["11" * 16]
    assert (found["batches"], found["combined"]) == ([], None)
    assert "held batch (11111111)" in offline("--release", "22").refusal()
    assert "--again" in offline("--release", "11", "--again", "22").refusal()
    page, table = tmp_path / "page.html", tmp_path / "table.csv"
    done = offline("--release", "1111", "--report", page, "--csv", table)
    assert done.status == 0
    assert "released batch 11111111" in done.stderr
    for text in (" ".join(done.stdout.split()), page.read_text(), table.read_text()):
        assert "released by the operator despite: 3 of 3 estimated fractions" in text
    refusal = offline("--release", "1111").refusal()
    assert "first digits of one held batch (none); this one is published" in refusal
