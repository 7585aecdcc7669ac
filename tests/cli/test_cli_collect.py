"""``shoal collect``: from a shuffler's batches to a chart, a table, a page, and every refusal."""

from __future__ import annotations

import json
import logging
import shutil
import time
from types import SimpleNamespace

import numpy as np
import pytest
import typer
from typer.testing import CliRunner

from analyzer_kit import Analyzer, make_survey
from http_kit import serving
from repository import environment
from shoal.cli.collect import collect
from shoal.cli.group import OneLineErrors
from shoal.service.analyzer.source import DirectSource
from shoal.service.analyzer.store import AnalyzerStore
from shoal.service.clock import system_clock
from shoal.service.keyring import Keyring, Protection
from shoal.service.opening import Pool
from shoal.service.shuffler.app import shuffler_app
from shoal.service.shuffler.worker import ShufflerWorker
from shoal.service.store import Arrival, Database, ShufflerStore
from shoal.service.survey import Party
from shoal.service.wire import Wire

app = typer.Typer(cls=OneLineErrors, add_completion=False, pretty_exceptions_enable=False)
app.command()(collect)


@app.command()
def nothing():
    """So that there is a group."""


def run(*words):
    given = [str(word) for word in words]
    finished = CliRunner(env=environment()).invoke(app, ["collect", *given])
    if finished.exception is not None and not isinstance(finished.exception, SystemExit):
        raise finished.exception
    return SimpleNamespace(
        status=finished.exit_code, stdout=finished.stdout, stderr=finished.stderr
    )


def refusal(*words):
    done = run(*words)
    assert done.status == 2, done.stdout
    (line,) = done.stderr.splitlines()
    return line.removeprefix("error: ")


@pytest.fixture(scope="module")
def parties(tmp_path_factory):
    """A shuffler that runs, with a hundred reports in a closed batch, and an analyzer's place."""
    place = tmp_path_factory.mktemp("parties")
    now = int(time.time())
    keyring = Keyring.create(place / "keys", role="shuffler", protection=Protection.none())
    database = Database(f"sqlite:///{place / 'shuffler.sqlite'}")
    database.migrate("shuffler")
    store = ShufflerStore(database, place / "shuffler", system_clock, node="test")
    with serving(shuffler_app(store, keyring)) as url:
        analyzer = Analyzer(place / "analyzer", now=now)
        survey = make_survey(
            analyzer.keyring,
            not_before=now - 10,
            not_after=now + 3600,
            shuffler=Party(url=url, fingerprint=keyring.fingerprint),
        )
        analyzer.store.add_survey(survey)
        store.add_survey(survey)
        analyzer.close()
        token = place / "analyzer" / "token"
        token.write_text(store.add_token("analyzer", survey.id, 3600))
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
            store.receive([Arrival(survey.id, 0, b"".join(reports))])
            worker = ShufflerWorker(store, keyring, Pool(0), system_clock)
            while worker.step():
                pass

        send(500)
        yield SimpleNamespace(
            directory=place / "analyzer", survey=survey, send=send, store=store, keyring=keyring
        )
    database.close()


def test_one_pass_publishes_and_shows(parties, tmp_path):
    page, table = tmp_path / "page.html", tmp_path / "table.csv"
    before = refusal(parties.directory, "--offline", "--report", page)
    assert "nothing to report yet" in before
    assert not page.exists()
    done = run(parties.directory, "--report", page, "--csv", table)
    assert done.status == 0, done.stderr
    shown = " ".join(done.stdout.split())
    assert "new: batch" in shown
    assert "500 of 500 reports valid" in shown
    assert "Which colour? Estimated from 500 reports" in shown
    assert "red" in shown
    assert "proved upper bound" in shown
    assert "assumed, not enforced" in shown
    assert f"wrote {page}" in done.stdout
    assert "Which colour?" in page.read_text()
    assert table.read_text().startswith("batch,status,answer,share,low,high,")
    assert len(table.read_text().splitlines()) == 7
    again = run(parties.directory)
    assert "new:" not in again.stdout


def test_as_json(parties):
    run(parties.directory)
    done = run(parties.directory, "--json", "--survey", str(parties.survey.id)[:8])
    (found,) = json.loads(done.stdout)["surveys"]
    assert found["survey"] == str(parties.survey.id)
    assert found["combined"]["valid"] % 500 == 0
    assert found["pass"] == {"published": [], "refused": [], "problems": []}
    offline = json.loads(run(parties.directory, "--json", "--offline").stdout)["surveys"]
    assert offline == [found]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--watch", "--offline"], "exclude each other"),
        (["--watch", "--json"], "--watch never ends"),
        (["--watch", "--csv", "x.csv"], "--watch never ends"),
        (["--survey", "ffff"], "no survey"),
        (["--again", "ffff", "--offline"], "exclude each other"),
        (["--again", "ffff"], "the first digits of one refused batch (none)"),
        (["--token-file", "/nowhere"], "cannot use the tokens in /nowhere"),
        (["--every", "0"], "every"),
        (["--store", "mysql://x"], "expected sqlite:///path"),
    ],
)
def test_refusals(parties, words, said):
    assert said in refusal(parties.directory, *words)


def test_a_directory_without_an_analyzer(tmp_path):
    assert "there is no such directory" in refusal(tmp_path / "nowhere")
    assert "there is no survey" in refusal(tmp_path, "--offline")


def test_a_token_that_others_may_read(parties, tmp_path):
    token = tmp_path / "token"
    token.write_text("secret")
    token.chmod(0o644)
    said = refusal(parties.directory, "--token-file", token)
    assert "others may read it" in said
    assert "secret" not in said


def test_watching_tells_every_batch_once(parties, monkeypatch):
    run(parties.directory)
    parties.send(500)
    waits = []

    def sleep(seconds):
        waits.append(seconds)
        if len(waits) == 2:
            raise KeyboardInterrupt

    monkeypatch.setattr("shoal.cli.collect_answer.time.sleep", sleep)
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
    assert line.startswith("error: no batches from http://127.0.0.1")
    assert "the token is refused" in line
    assert "not_this_one" not in done.stderr + done.stdout
    assert "Which colour?" in done.stdout, "what was found before is shown all the same"


def test_a_refused_batch_is_asked_for_again(parties):
    run(parties.directory)
    parties.send(500)
    database = Database(f"sqlite:///{parties.directory / 'store.sqlite'}")
    store = AnalyzerStore(database, parties.directory, system_clock)
    known = {each.batch for each in store.collections(parties.survey.id)}
    offers = DirectSource(parties.store, parties.survey.id).offers()
    (offer,) = [each for each in offers if each.batch not in known]
    held = store.claim(store.request(parties.survey.id, offer), "somebody")
    store.release(store.refused(held, "as if its key were \x1b[2Jgone"))
    shown = run(parties.directory)
    assert f"batch {offer.batch[:8]} refused: as if its key were" in shown.stdout
    assert "\x1b" not in shown.stdout
    assert offer.batch[:8] in refusal(parties.directory, "--again", "no")
    again = run(parties.directory, "--again", offer.batch[:8])
    assert again.status == 0, again.stderr
    assert f"new: batch {offer.batch[:8]} published" in again.stdout
    database.close()


def test_keys_that_the_survey_does_not_name_collect_nothing(parties, tmp_path):
    place = tmp_path / "copied"
    shutil.copytree(parties.directory, place)
    shutil.rmtree(place / "keys")
    Keyring.create(place / "keys", role="analyzer", protection=Protection.none())
    said = refusal(place)
    assert f"names the analyzer with fingerprint {parties.survey.analyzer.fingerprint}" in said
