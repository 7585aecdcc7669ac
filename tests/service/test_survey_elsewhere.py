"""A survey that was written on another kind of processor: tables differ in their last digits."""

from __future__ import annotations

import json

import pytest

import shoal
from factories import example, mechanism
from shoal.mechanisms.shares import alike
from shoal.sealing import MalformedError, SurveyId, canonical

TOTAL = 1 << 62


def elsewhere(survey, change):
    """The bytes of a survey whose tables another machine has derived."""
    stored = json.loads(survey.to_bytes())
    change(stored["questions"][0]["sampler"])
    return canonical(stored)


def a_hash(sampler):
    name = next(name for name in sampler if name.endswith("_steps"))
    sampler[name] = "sha256:" + "5" * 64


def last_digits(sampler):
    """As much as floats differ in: the tables and the small probability, both digits of it."""
    for name, value in sampler.items():
        if name.endswith("_chance"):
            high, low = map(int, value)
            moved = (high * TOTAL + low) * (10**14 + 3) // 10**14
            sampler[name] = [str(digit) for digit in divmod(moved, TOTAL)]
        elif name.endswith("_steps") and isinstance(value, list):
            sampler[name] = [str(int(step) - 700) for step in value[:-1]] + value[-1:]


@pytest.mark.parametrize("name", ["near-central", "near-central-sum"])
def test_it_is_read_under_its_id_and_written_as_it_was(name):
    survey = example(mechanism(name))
    data = elsewhere(survey, last_digits)
    assert data != survey.to_bytes()
    read = shoal.Survey.from_bytes(data)
    assert read.to_bytes() == data
    assert read.id == SurveyId.of(json.loads(data)) != survey.id
    assert read.device == survey.device
    assert read.guarantee(2000) == survey.guarantee(2000)


def test_a_long_table_is_a_hash_of_which_nothing_can_be_compared():
    survey = example(mechanism("split-and-mix"))
    assert "sha256:" in survey.to_bytes().decode()
    data = elsewhere(survey, a_hash)
    assert shoal.Survey.from_bytes(data).to_bytes() == data


def more(sampler):
    name = next(name for name in sampler if name.endswith("_steps"))
    sampler[name] = [str(int(sampler[name][0]) + (1 << 30)), *sampler[name][1:]]


def fewer(sampler):
    name = next(name for name in sampler if name.endswith("_steps"))
    sampler[name] = sampler[name][1:]


def likelier(sampler):
    name = next(name for name in sampler if name.endswith("_chance"))
    sampler[name] = [str(int(sampler[name][0]) + 1 + (1 << 30)), sampler[name][1]]


def another(sampler):
    sampler["more"] = 1


@pytest.mark.parametrize("change", [more, fewer, likelier, another])
def test_other_tables_are_refused(change):
    survey = example(mechanism("near-central"))
    with pytest.raises(MalformedError):
        shoal.Survey.from_bytes(elsewhere(survey, change))


@pytest.mark.parametrize("name", ["sparse", "near-central-carriers"])
def test_what_browsers_draw_by_is_compared_to_the_last_digit(name):
    """Exact arithmetic derives it: it is the same on every machine."""
    survey = example(mechanism(name))
    stored = json.loads(survey.to_bytes())["questions"][0]["sampler"]
    moved = json.loads(json.dumps(stored))
    table = next(key for key, value in moved.items() if isinstance(value, list))
    moved[table][0] = str(int(moved[table][0]) - 1)
    assert alike(stored, moved)
    with pytest.raises(MalformedError):
        shoal.Survey.from_bytes(elsewhere(survey, lambda sampler: sampler.update(moved)))


@pytest.mark.parametrize(
    "written", [None, 5, [], ["x"], ["1", "2", 3], "sha256:", {"a": 1}, ["1" * 41]]
)
def test_what_is_no_table_is_like_none(written):
    own = {"noise_steps": ["1", "2", str(TOTAL)]}
    assert not alike(own, {"noise_steps": written})
