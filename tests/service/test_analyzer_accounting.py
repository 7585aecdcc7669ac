"""What is published about a batch: the guarantee of who is really in it, or nothing."""

from __future__ import annotations

import json

import numpy as np
import pytest

from service_site import START, forged, make_survey, sealed
from shoal.accounting.devices import People
from shoal.mechanisms.response import RandomizedResponse
from shoal.questions.terms import Crowd
from shoal.service.analyzer import tables as schema
from shoal.service.analyzer.ledger import release_decision
from shoal.values import Counts

FIRST, SECOND, THIRD = "11" * 16, "22" * 16, "33" * 16
VALUES = np.repeat([0, 1, 2], [300, 150, 50])


def spoilt(records, share, survey, keyring):
    """So many of the records replaced, in turn by noise, an impossible message, a changed bit."""
    kinds = [
        bytes(len(records[0])),
        forged(survey, keyring, b"\xff" * survey.device.message_bytes),
        records[0][:-1] + bytes([records[0][-1] ^ 1]),
    ]
    count = round(share * len(records))
    return [kinds[place % 3] for place in range(count)] + records[count:]


@pytest.mark.parametrize("share", [0.0, 0.1, 0.5, 0.9])
def test_epsilon_is_that_of_the_valid_reports(analyzer, share):
    survey = analyzer.asking(dishonest=0.1, minimum=40)
    records = spoilt(sealed(survey, analyzer.keyring, VALUES), share, survey, analyzer.keyring)
    analyzer.shuffler.put(survey, records)
    analyzer.collect(survey)
    found = analyzer.document(survey)
    valid = len(VALUES) - round(share * len(VALUES))
    assert found["reports"] == len(VALUES)
    assert found["valid"] == valid == found["reports"] - sum(found["rejected"].values())
    assert found["honest"] == People(valid, Crowd(honest_fraction=0.9)).honest
    assert found["epsilon"] == pytest.approx(survey.guarantee(valid).epsilon, rel=0, abs=1e-12)
    assert share == 0 or found["epsilon"] > survey.guarantee(len(VALUES)).epsilon + 1e-6
    (entry,) = analyzer.store.ledger.entries(survey.id)
    assert entry["epsilon"] == found["epsilon"] == analyzer.store.ledger.spent(survey.id)["epsilon"]
    assert found["status"] == "published"


def test_records_are_left_out_by_their_reason(analyzer):
    survey = analyzer.asking()
    keyring = analyzer.keyring
    records = sealed(survey, keyring, VALUES)
    garbage = [bytes(len(records[0]))] * 7
    impossible = [forged(survey, keyring, b"\x03") for _ in range(5)]
    too_short = [forged(survey, keyring, b"") for _ in range(2)]
    analyzer.shuffler.put(survey, records + garbage + impossible + too_short + records[:4])
    analyzer.collect(survey)
    rejected = analyzer.document(survey)["rejected"]
    assert rejected == {"unopened": 9, "inadmissible": 5, "repeated": 4, "replayed": 0}


def test_a_batch_below_the_minimum_is_withheld(analyzer):
    survey = analyzer.asking(minimum=50, dishonest=0.02)
    records = sealed(survey, analyzer.keyring, [0] * 60)
    garbage = [bytes(len(records[0]))] * 11
    analyzer.shuffler.put(survey, records[:49] + garbage)
    analyzer.collect(survey)
    found = analyzer.document(survey)
    assert found["status"] == "withheld"
    assert found["valid"] == 49
    assert found["epsilon"] == survey.guarantee(49).epsilon
    assert found["estimates"] is found["mean"] is found["bias_bound"] is None
    assert "1 fewer than the survey's minimum 50" in found["withheld"]
    nothing = {"epsilon": None, "batches": 0, "smallest": None}
    towards_analyzer = {"analyzer_epsilon": found["epsilon"], "opened": 1}
    assert found["life"] == nothing | towards_analyzer, "the analyzer has opened it all the same"
    (entry,) = analyzer.store.ledger.entries(survey.id)
    assert entry["released"] is False
    kept = analyzer.store.collections.find(survey.id, FIRST).cells
    assert kept is None, "counts of a withheld batch are kept by nobody"
    assert analyzer.shuffler.acknowledged(FIRST)
    assert analyzer.store.results.survey(survey.id).result is None


@pytest.mark.parametrize("valid", [0, 1])
def test_nearly_nobody_is_withheld_too(analyzer, valid):
    survey = analyzer.asking(dishonest=0.5)
    records = sealed(survey, analyzer.keyring, [0])
    analyzer.shuffler.put(survey, records[:valid] + [bytes(len(records[0]))] * 60)
    analyzer.collect(survey)
    found = analyzer.document(survey)
    assert (found["valid"], found["honest"], found["epsilon"]) == (valid, 0, None)
    assert found["status"] == "withheld"
    assert found["local_epsilon"] == survey.device.local_epsilon


def test_several_reports_per_person_are_said_to_be_assumed(analyzer):
    survey = analyzer.asking(reports_per_person=3, epsilon=3.0, minimum=90)
    analyzer.send(survey, VALUES)
    analyzer.collect(survey)
    found = analyzer.document(survey)
    assert found["reports_per_person"] == 3
    assert found["reports_per_person_is"] == "assumed, not enforced"
    assert any("at most 3 reports" in text for text in found["assumptions"])
    assert found["epsilon"] == survey.guarantee(500).epsilon
    assert found["epsilon"] > make_survey(analyzer.keyring).guarantee(500).epsilon
    assert found["local_epsilon"] == pytest.approx(3 * survey.device.local_epsilon)
    page = analyzer.store.results.survey(survey.id).result.to_html()
    assert "ε0 of one person&#39;s 3 reports together" in page
    assert "reports, about" in page
    assert "people, about" not in page


def test_batches_add_up_and_cost_what_the_smallest_costs(analyzer):
    survey = analyzer.asking()
    keyring = analyzer.keyring
    analyzer.send(survey, VALUES, batch=FIRST)
    analyzer.send(survey, VALUES[:100], batch=SECOND, seed=2)
    analyzer.shuffler.put(survey, sealed(survey, keyring, [1] * 20, seed=3), batch=THIRD)
    analyzer.collect(survey)
    found = analyzer.store.results.survey(survey.id)
    combined = found.combined()
    assert combined["valid"] == 600
    assert combined["batches"] == 2
    assert combined["epsilon"] == survey.guarantee(100).epsilon
    both = [analyzer.document(survey, batch) for batch in (FIRST, SECOND)]
    mixed = [
        (5 * first["share"] + second["share"]) / 6
        for first, second in zip(both[0]["estimates"], both[1]["estimates"], strict=True)
    ]
    assert [each["share"] for each in combined["estimates"]] == pytest.approx(mixed)
    each = max(estimate["standard_error"] for estimate in both[0]["estimates"])
    assert max(estimate["standard_error"] for estimate in combined["estimates"]) < each
    assert analyzer.document(survey, THIRD)["status"] == "withheld"
    readers = {"epsilon": combined["epsilon"], "batches": 2, "smallest": 100}
    worst = survey.guarantee(20).epsilon
    assert worst > combined["epsilon"]
    assert found.life == readers | {"analyzer_epsilon": worst, "opened": 3}
    assert analyzer.store.ledger.spent(survey.id) == found.life


def test_the_bias_of_the_dishonest_stays_below_the_printed_bound(analyzer):
    survey = analyzer.asking(dishonest=0.05, minimum=400)
    liars = round(0.05 * 2000)
    values = np.zeros(2000 - liars, dtype=int)
    lies = [forged(survey, analyzer.keyring, b"\x02") for _ in range(liars)]
    analyzer.shuffler.put(survey, sealed(survey, analyzer.keyring, values) + lies)
    analyzer.collect(survey)
    found = analyzer.document(survey)
    blue = found["estimates"][2]
    assert blue["share"] - 5 * blue["standard_error"] < found["bias_bound"]
    assert blue["share"] > 0.05, "the lies are worth more than their number"
    # One report moves a share by 1/(p - q), and what an honest one would have been worth.
    p, q = RandomizedResponse(k=3, epsilon=1.0).table()[0, :2]
    assert found["bias_bound"] == pytest.approx(0.05 * (1 / (p - q) + 1))


def test_documents_do_not_change_afterwards(analyzer):
    survey = analyzer.asking()
    analyzer.send(survey, VALUES)
    analyzer.collect(survey)
    before = analyzer.store.results.get(survey.id, FIRST)
    analyzer.clock.advance(10_000)
    analyzer.send(survey, VALUES[:60], batch=SECOND, seed=5)
    for _ in range(3):
        analyzer.collect(survey)
    assert analyzer.store.results.get(survey.id, FIRST) == before
    assert json.loads(before)["published"] == START - START % 3600
    assert analyzer.document(survey, SECOND)["life"]["smallest"] == 60


def test_nothing_raw_stays_behind(analyzer):
    survey = analyzer.asking()
    records = sealed(survey, analyzer.keyring, VALUES)
    analyzer.shuffler.put(survey, records)
    analyzer.collect(survey)
    assert not list(analyzer.store.incoming.iterdir())
    kept = b"".join(path.read_bytes() for path in analyzer.directory.glob("store.sqlite*"))
    assert not any(record in kept for record in records)
    collection = analyzer.store.collections.find(survey.id, FIRST)
    assert collection.state == schema.PUBLISHED
    assert collection.counts[0].n == 500
    assert collection.counts[0].cells.sum() == 500


def test_what_costs_more_than_promised_is_withheld(analyzer):
    survey = analyzer.asking()
    counts = Counts(np.array([60, 20, 20]), 100)
    assert release_decision(survey, 100, (counts,), reports=100).withheld is None
    # No survey can be made that promises what its minimum does not keep: so break one.
    object.__setattr__(survey, "epsilon", 0.9 * survey.guarantee(100).epsilon)
    assert (
        "where the survey promises"
        in release_decision(survey, 100, (counts,), reports=100).withheld
    )
