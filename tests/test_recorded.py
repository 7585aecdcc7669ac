"""Numbers and messages are as they were written down: tests/recording.py."""

from __future__ import annotations

import pytest

import recording

PARTS = 6  # so that workers share them


def same(now, then):
    """Equal, but for the last places, which processors and libraries round in their own ways."""
    if isinstance(then, dict):
        return set(now) == set(then) and all(same(now[name], then[name]) for name in then)
    if isinstance(then, float) and isinstance(now, float):
        return now == pytest.approx(then, rel=1e-7, abs=1e-300)
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
