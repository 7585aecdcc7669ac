"""Batches of every kind of mechanism, from sealed messages to a published estimate."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from service_site import forged, sealed
from shoal.mechanisms import registry
from shoal.mechanisms.dummies import UniformDummies
from shoal.mechanisms.hashing import LocalHashing
from shoal.mechanisms.split_and_mix import SplitAndMixSum
from shoal.mechanisms.zero_sum import ZeroSumHistogram
from shoal.service.analyzer.decode import packed, unpacked
from shoal.values import Counts

FIRST, SECOND = "11" * 16, "22" * 16
PEOPLE = 120
CODES = np.repeat([0, 1, 2], [72, 36, 12])
NUMBERS = np.linspace(10, 50, PEOPLE)
TARGET = {"n": 100, "epsilon": 1.0, "delta": 1e-6}


def numbers(analyzer, device, **changes):
    return analyzer.asking(device=device, answers=(), minimum=100, **changes)


def collected(analyzer, survey, values, batch=FIRST, seed=1):
    analyzer.send(survey, values, batch=batch, seed=seed)
    analyzer.collect(survey)
    return analyzer.document(survey, batch)


def test_answers_among_dummies(analyzer):
    device = UniformDummies.calibrated(k=3, **TARGET)
    survey = analyzer.asking(device=device, minimum=100)
    assert survey.device.slots > 1
    found = collected(analyzer, survey, CODES)
    assert (found["reports"], found["valid"]) == (PEOPLE, PEOPLE)
    assert found["local_epsilon"] is None
    assert found["epsilon"] == survey.guarantee(PEOPLE).epsilon
    for share, estimate in zip((0.6, 0.3, 0.1), found["estimates"], strict=True):
        assert abs(estimate["share"] - share) < 5.5 * estimate["standard_error"]
    assert found["bias_bound"] == 0


def test_every_slot_left_out_costs_a_report(analyzer):
    device = UniformDummies.calibrated(k=3, **TARGET)
    survey = analyzer.asking(device=device, minimum=100, dishonest=0.01, epsilon=1.1)
    records = sealed(survey, analyzer.keyring, CODES)
    records[3] = bytes(len(records[3]))
    records[4] = forged(survey, analyzer.keyring, b"\x7f")
    records[5] = records[6]
    analyzer.shuffler.put(survey, records)
    analyzer.collect(survey)
    found = analyzer.document(survey)
    assert found["rejected"] == {"unopened": 1, "inadmissible": 1, "repeated": 1, "replayed": 0}
    assert found["valid"] == PEOPLE - 3
    assert found["honest"] == survey.honest(PEOPLE - 3)
    assert found["epsilon"] == survey.guarantee(PEOPLE - 3).epsilon
    # The three, and the one or two in a hundred who may be dishonest.
    liars = PEOPLE - 3 - found["honest"] + 3
    assert found["bias_bound"] == pytest.approx(liars * (device.influence + 1) / (PEOPLE - 3))


def test_more_bad_slots_than_reports_leave_nobody(analyzer):
    survey = analyzer.asking(device=UniformDummies.calibrated(k=3, **TARGET), minimum=100)
    records = sealed(survey, analyzer.keyring, CODES)
    analyzer.shuffler.put(survey, [bytes(len(record)) for record in records])
    analyzer.collect(survey)
    found = analyzer.document(survey)
    assert (found["valid"], found["status"]) == (0, "withheld")


def test_no_answer_that_nobody_gave_is_reported(analyzer):
    device = ZeroSumHistogram.calibrated(k=4, n=100, epsilon=3.0, delta=1e-6)
    answers = ("a", "b", "c", "d")
    survey = analyzer.asking(device=device, answers=answers, minimum=100, epsilon=3.0)
    found = collected(analyzer, survey, CODES)
    assert found["estimates"][3]["share"] == 0
    assert found["estimates"][0]["low"] <= 0.6 <= found["estimates"][0]["high"]


def test_batches_of_several_messages_add_up(analyzer):
    survey = analyzer.asking(device=UniformDummies.calibrated(k=3, **TARGET), minimum=100)
    first = collected(analyzer, survey, CODES)
    second = collected(analyzer, survey, CODES, batch=SECOND, seed=2)
    combined = analyzer.store.results.survey(survey.id).combined()
    assert combined["valid"] == 2 * PEOPLE
    means = [
        (one["share"] + two["share"]) / 2
        for one, two in zip(first["estimates"], second["estimates"], strict=True)
    ]
    assert [each["share"] for each in combined["estimates"]] == pytest.approx(means)


def test_a_mean_by_one_message(analyzer):
    device = registry.by_name("duchi")(low=0.0, high=100.0, epsilon=1.0)
    survey = numbers(analyzer, device)
    found = collected(analyzer, survey, NUMBERS)
    mean = found["mean"]
    assert found["estimates"] is None
    assert abs(mean["mean"] - 30) < 5.5 * mean["standard_error"]
    assert mean["low"] < mean["mean"] < mean["high"]
    assert mean["sum"] == pytest.approx(PEOPLE * mean["mean"])
    assert found["bias_bound"] is None, "this randomizer states no bound"
    table = analyzer.store.results.survey(survey.id).to_csv().splitlines()
    assert table[0].startswith("batch,status,mean,low,high,standard_error,sum,")
    assert table[-1].startswith("all,published,")
    assert "mean" in analyzer.store.results.survey(survey.id).result.to_html()


def test_a_mean_by_several_messages(analyzer):
    device = SplitAndMixSum.calibrated(low=0.0, high=50.0, levels=10, **TARGET)
    survey = numbers(analyzer, device)
    found = collected(analyzer, survey, NUMBERS)
    assert abs(found["mean"]["mean"] - 30) < 6 * found["mean"]["standard_error"]
    collected(analyzer, survey, NUMBERS, batch=SECOND, seed=2)
    combined = analyzer.store.results.survey(survey.id).combined()
    assert combined["valid"] == 2 * PEOPLE
    assert abs(combined["mean"]["mean"] - 30) < 6 * combined["mean"]["standard_error"]


def test_shares_that_do_not_fit_together_are_withheld(analyzer):
    device = SplitAndMixSum.calibrated(low=0.0, high=50.0, levels=10, **TARGET)
    survey = numbers(analyzer, device)
    records = sealed(survey, analyzer.keyring, NUMBERS)
    records[0] = forged(survey, analyzer.keyring, bytes(survey.device.message_bytes))
    analyzer.shuffler.put(survey, records)
    analyzer.collect(survey)
    found = analyzer.document(survey)
    assert found["status"] == "withheld"
    assert found["withheld"].startswith("messages that do not fit together")
    assert found["mean"] is None
    assert found["valid"] == PEOPLE, "every message is one that a device can have sent"


def test_messages_of_many_bytes(analyzer):
    answers = tuple(f"answer {place}" for place in range(50))
    device = LocalHashing(k=50, epsilon=1.0)
    survey = analyzer.asking(device=device, answers=answers, minimum=100)
    found = collected(analyzer, survey, np.zeros(PEOPLE, dtype=int))
    first = found["estimates"][0]
    assert abs(first["share"] - 1) < 6 * first["standard_error"]


@settings(deadline=None, derandomize=True)
@given(st.lists(st.integers(-(2**63), 2**63 - 1), min_size=1, max_size=50), st.integers(1, 10**9))
def test_counts_survive_being_stored(cells, n):
    again = unpacked(packed([Counts(np.array(cells, dtype=np.int64), n)]), n)[0]
    assert again.n == n
    assert again.cells.tolist() == cells
