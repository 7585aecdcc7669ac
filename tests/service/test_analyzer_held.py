"""A batch that no honest crowd can have sent: counted, debited, held, and released once."""

from __future__ import annotations

import logging
import signal

import numpy as np
import pytest

from service_site import START, Analyzer, Instead, at_once, documents_of, forged
from shoal.errors import InvalidArgumentError
from shoal.mechanisms.registry import by_name, calibration
from shoal.service.analyzer import collect
from shoal.service.analyzer import tables as schema
from shoal.service.analyzer.ledger import signs_of_forgery
from shoal.service.clock import ManualClock
from shoal.service.db.leases import LEASE
from shoal.service.errors import NotReadyError, UnknownError
from shoal.service.ops import administration
from shoal.service.ops.facts import _analyzer_waits, ledger_figures
from shoal.values import Counts

FORGED, HONEST = "11" * 16, "22" * 16
VALUES = [0] * 60 + [1] * 30 + [2] * 10
DESPITE = "released by the operator despite: "


def state(analyzer, survey, batch=FORGED):
    return analyzer.store.collections.find(survey.id, batch).state


def test_a_thousand_made_up_reports_around_one_person_are_held(analyzer):
    survey = analyzer.asking(minimum=1000)
    analyzer.flood(survey, 1000)
    done = analyzer.collect(survey)
    assert (done.held, done.published) == ((FORGED,), ())
    (held,) = analyzer.store.results.survey(survey.id).to_dict()["held"]
    assert held["batch"] == FORGED
    assert "no honest crowd gives that" in held["reason"]
    assert held["reason"].startswith("3 of 3 estimated fractions are below 0 or above 1")
    assert documents_of(analyzer.store, survey) == []


def test_all_but_publication_happens_as_to_any_batch(analyzer, caplog):
    survey = analyzer.asking()
    honest = analyzer.flood(survey)
    analyzer.send(survey, VALUES, batch=HONEST)
    done = analyzer.collect(survey)
    assert (done.held, done.published, done.problems) == ((FORGED,), (HONEST,), {})
    assert done.to_dict()["held"] == [FORGED]
    assert [each.getMessage() for each in caplog.records] == ["batch_held"]
    assert [row.released for row in analyzer.rows(schema.ledger)] == [0, 1]
    assert analyzer.shuffler.acknowledged(FORGED)
    assert not list(analyzer.store.incoming.iterdir())
    with pytest.raises(UnknownError):
        analyzer.store.results.get(survey.id, FORGED)
    results = analyzer.store.results.survey(survey.id)
    assert results.combined()["valid"] == len(VALUES)
    assert results.life["batches"] == 1
    assert results.life["opened"] == 2
    # Its records are spent, and it is nobody's work any more.
    analyzer.shuffler.put(survey, honest, batch="33" * 16)
    analyzer.collect(survey)
    assert analyzer.document(survey, "33" * 16)["rejected"]["replayed"] == 1
    assert not analyzer.collect(survey)
    assert len(analyzer.rows(schema.ledger)) == 3


def test_a_released_batch_says_so_wherever_it_is_shown(analyzer, caplog):
    survey = analyzer.asking()
    analyzer.flood(survey)
    analyzer.collect(survey)
    before = analyzer.store.results.version(survey.id)
    caplog.clear()
    assert administration.release(analyzer.store, [survey], FORGED[:4]) == FORGED
    assert [(each.getMessage(), each.levelno) for each in caplog.records] == [
        ("batch_released", logging.WARNING)
    ]
    assert analyzer.store.results.version(survey.id) != before
    document = analyzer.document(survey, FORGED)
    warning = document["warning"]
    assert warning.startswith(DESPITE + "3 of 3 estimated fractions")
    assert document["status"] == "published"
    assert document["life"]["batches"] == 1
    for documents in (True, False):
        results = analyzer.store.results.survey(survey.id, documents=documents)
        assert results.held == ()
        assert results.batches[0].warning == warning
        assert warning in results.combined()["warning"]
        assert results.life["epsilon"] == document["epsilon"]
    results = analyzer.store.results.survey(survey.id)
    lines = results.to_csv().splitlines()
    assert lines[0].endswith(",warning")
    assert all(DESPITE in line for line in lines[1:])
    assert warning in results.sentences()[FORGED]
    assert warning in results.result.to_html()
    assert any(warning in text for text in results.result.to_dict()["warnings"])
    assert [row.released for row in analyzer.rows(schema.ledger)] == [1]


def test_several_released_batches_are_one_sentence(analyzer):
    survey = analyzer.asking()
    for place, batch in enumerate([FORGED, HONEST]):
        made_up = [forged(survey, analyzer.keyring, b"\0") for _ in range(60 + place)]
        analyzer.shuffler.put(survey, made_up, batch=batch)
    analyzer.collect(survey)
    for batch in (FORGED, HONEST):
        collect.release(analyzer.store, survey, batch)
    warning = analyzer.store.results.survey(survey.id).warning
    assert warning == (
        "2 batches were released by the operator despite signs of forgery: 11111111, 22222222"
    )


@pytest.mark.parametrize("digits", ["", "zz", HONEST[:8], FORGED[:8]])
def test_only_a_batch_that_is_held_is_released(analyzer, digits):
    survey = analyzer.asking()
    analyzer.send(survey, VALUES, batch=HONEST)
    analyzer.collect(survey)
    with pytest.raises(InvalidArgumentError, match="first digits of one held batch") as caught:
        administration.release(analyzer.store, [survey], digits)
    assert ("this one is published" in str(caught.value)) == (digits == HONEST[:8])
    with pytest.raises(InvalidArgumentError, match="a held batch; this one is PUBLISHED"):
        collect.release(analyzer.store, survey, HONEST)
    assert analyzer.store.collections.find(survey.id, HONEST).owner is None


def test_whoever_is_at_work_on_it_is_waited_for(analyzer):
    survey = analyzer.asking()
    analyzer.flood(survey)
    analyzer.collect(survey)
    held = analyzer.store.collections.find(survey.id, FORGED)
    assert analyzer.store.collections.claim(held) is not None
    with pytest.raises(NotReadyError, match="another process is working on it"):
        collect.release(analyzer.store, survey, FORGED)
    analyzer.clock.advance(LEASE)
    assert collect.release(analyzer.store, survey, FORGED).state == schema.PUBLISHED


def test_racing_releases_publish_once(tmp_path, url):
    """Several operators release the same batch."""
    analyzer = Analyzer(tmp_path / "analyzer", url=url)
    survey = analyzer.asking()
    analyzer.flood(survey)
    analyzer.collect(survey)
    ended = at_once(lambda _: collect.release(analyzer.store, survey, FORGED), 4)
    refused = [each for each in ended if isinstance(each, InvalidArgumentError | NotReadyError)]
    assert len(refused) == 3
    assert len(analyzer.rows(schema.results)) == len(analyzer.rows(schema.ledger)) == 1
    analyzer.close()


@pytest.mark.parametrize("point", ["analysis.debited", "analysis.held", "analysis.acknowledged"])
def test_a_killed_process_leaves_it_held_once(analyzer, forks, point):
    survey = analyzer.asking()
    analyzer.flood(survey)
    place = {"directory": str(analyzer.directory), "url": None}
    ended = forks.run("service_site.collect", {"point": point, **place})
    assert ended == [(-signal.SIGKILL, None)]
    analyzer.clock.advance(LEASE)
    analyzer.collect(survey)
    assert state(analyzer, survey) == schema.HELD
    assert analyzer.shuffler.acknowledged(FORGED)
    assert len(analyzer.rows(schema.ledger)) == 1
    assert analyzer.rows(schema.results) == []
    collect.release(analyzer.store, survey, FORGED)
    assert len(analyzer.rows(schema.results)) == 1


def test_it_stays_held_for_whoever_comes_after(analyzer):
    survey = analyzer.asking()
    analyzer.flood(survey)
    analyzer.collect(survey)
    restarted = Analyzer(analyzer.directory, ManualClock(START + 100))
    restarted.shuffler = analyzer.shuffler
    restarted.shuffler.path(FORGED).with_suffix(".ack").unlink()  # restored from a backup
    assert not restarted.collect(survey)
    assert analyzer.shuffler.acknowledged(FORGED), "once more"
    assert state(restarted, survey) == schema.HELD
    assert len(restarted.rows(schema.ledger)) == 1
    restarted.close()


def test_a_release_before_the_shuffler_knows_is_acknowledged_later(analyzer):
    survey = analyzer.asking()
    analyzer.flood(survey)

    def silent(batch, *_):
        raise NotReadyError(batch, "no answer", retry_after=1)

    source = Instead(analyzer.shuffler, acknowledge=silent)
    assert analyzer.collect(survey, source).held == (FORGED,)
    assert state(analyzer, survey) == schema.HELD
    analyzer.clock.advance(LEASE)
    collect.release(analyzer.store, survey, FORGED)
    analyzer.collect(survey)
    assert analyzer.shuffler.acknowledged(FORGED)
    assert analyzer.store.collections.find(survey.id, FORGED).finished


def test_the_operator_is_told(analyzer):
    survey = analyzer.asking()
    analyzer.flood(survey)
    analyzer.collect(survey)
    (finding, rest) = _analyzer_waits(analyzer.database)
    assert finding.detail.startswith("held: 3 of 3 estimated fractions")
    assert "--release 11111111" in finding.advice
    assert rest.check == "collecting"
    (states,) = (each for each in ledger_figures(analyzer.store) if each.name == "collections")
    assert (states.labels["state"], states.value) == ("HELD", 1)


def test_a_mean_beyond_its_bounds_is_a_sign(analyzer):
    device = by_name("duchi")(low=0.0, high=5.0, epsilon=1.0)
    survey = analyzer.asking(device=device, answers=(), minimum=100)
    assert signs_of_forgery(survey.only, Counts(np.array([27, 73]), 100)) is None
    sign = signs_of_forgery(survey.only, Counts(np.array([0, 100]), 100))
    assert sign == (
        "the estimated mean is below 0 or above 5 by more than noise explains: no honest crowd "
        "gives that"
    )


def test_what_is_left_of_spoiled_reports_is_no_sign(analyzer):
    """Lost records of honest people: what else they sent counts, and they do not."""
    device = calibration("dummies")(k=3, n=100, epsilon=1.0, delta=1e-6)
    survey = analyzer.asking(device=device, minimum=100)
    noise = round(100 * device.dummies / 3)
    counts = Counts(np.array([130 + noise, noise, noise]), 100)
    assert signs_of_forgery(survey.only, counts, spoiled=30) is None
    assert signs_of_forgery(survey.only, counts).startswith(
        "1 of 3 estimated fractions are below 0 or"
    )
