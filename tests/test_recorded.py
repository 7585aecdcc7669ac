"""Numbers, messages, plans, runs and survey ids are as they were written down: recording.py."""

from __future__ import annotations

import json

import pytest

import recording
from shoal.mechanisms.registry import restored

PARTS = 6  # so that workers share them


def same(now, then, rel=1e-7):
    """Equal, but for the last places, which processors and libraries round in their own ways."""
    if isinstance(then, dict):
        return set(now) == set(then) and all(same(now[name], then[name], rel) for name in then)
    if isinstance(then, list):
        return len(now) == len(then) and all(map(same, now, then, [rel] * len(then)))
    if isinstance(then, float) and isinstance(now, float):
        return now == pytest.approx(then, rel=rel, abs=1e-300)
    return now == then


def moved(rows):
    """The questions that have another answer now, with both."""
    answers = ((row, recording.answer(*row[:3])) for row in rows)
    return [(row, now) for row, now in answers if not same(now, row[3])]


@pytest.fixture(scope="module")
def numbers():
    rows = recording.recorded(recording.NUMBERS)
    assert len(rows) >= 700
    return [[row for row in rows if recording.dear(*row[:3]) is dear] for dear in (False, True)]


@pytest.mark.parametrize("part", range(PARTS))
def test_the_accountant_answers_as_recorded(numbers, part):
    assert len(numbers[0]) >= 600
    assert not moved(numbers[0][part::PARTS])


@pytest.mark.slow
def test_the_accountant_answers_dear_questions_as_recorded(numbers):
    assert not moved(numbers[1])


@pytest.mark.parametrize("part", range(PARTS))
def test_mechanisms_send_what_is_recorded(part):
    rows = recording.recorded(recording.MESSAGES)
    assert sum(len(then) for _, then in rows) >= 1_300
    assert not [of for of, then in rows[part::PARTS] if recording.outputs(of) != then]


def test_the_best_caps_are_those_recorded():
    """But for where the error is flat: there the last digits of a processor choose."""
    rows = recording.recorded(recording.CAPS)
    assert len(rows) >= 10
    for of, (cap, shrinkage, error) in rows:
        own = restored(of)
        assert own.cap == pytest.approx(cap, rel=1e-6)
        assert own.shrinkage == pytest.approx(shrinkage, rel=1e-6)
        assert own.variance(n=1) == pytest.approx(error, rel=1e-9)


def changed(path, now, rows=slice(None)):
    """The recorded questions that ``now`` answers otherwise.

    A search for several local epsilons together ends where last places say: within 5e-6 of another
    processor's.
    """
    recorded = recording.recorded(path)[rows]
    return [question for question, then in recorded if not same(now(question), then, 5e-5)]


@pytest.mark.parametrize(
    "some", [slice(0, None, 7), pytest.param(slice(None), marks=pytest.mark.slow)]
)
def test_plans_are_as_recorded(some):
    assert len(recording.recorded(recording.PLANS)) >= 60
    assert not changed(recording.PLANS, recording.planned, some)


@pytest.mark.parametrize(
    "some", [slice(0, None, 3), pytest.param(slice(None), marks=pytest.mark.slow)]
)
def test_runs_of_a_simulation_are_as_recorded(some):
    assert not changed(recording.RESULTS, recording.ran, some)


def test_documents_of_surveys_keep_their_ids_and_guarantees():
    assert not changed(recording.SURVEYS, recording.promised)
    read = [json.loads(document) for document, _ in recording.recorded(recording.SURVEYS)]
    assert {document["version"] for document in read} == {1, 2, 3}
