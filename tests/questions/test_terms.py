"""Terms: they survive the disk, and refuse numbers out of their range."""

from __future__ import annotations

import json
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

import shoal
from shoal import testing
from shoal.errors import InvalidArgumentError
from shoal.questions.terms import EVERYBODY, NO_LIMITS, Crowd, Limits, Named, Person

FRACTIONS = st.floats(0, 1, exclude_min=True)
CROWDS = st.builds(Crowd, honest_fraction=FRACTIONS, participation=FRACTIONS)
LIMITS = st.builds(
    Limits,
    local_epsilon=st.one_of(st.none(), st.floats(1e-9, 1e3)),
    messages=st.one_of(st.none(), st.floats(1, 1e6), st.just(math.inf)),
    each=st.booleans(),
    weaker=st.booleans(),
)


@given(terms=st.one_of(CROWDS, LIMITS))
def test_terms_are_what_they_were_written_as(terms):
    stored = json.loads(json.dumps(terms.to_dict(), allow_nan=False))
    assert type(terms).from_dict(stored) == terms
    assert all(getattr(type(terms)(), name) != getattr(terms, name) for name in stored)


def test_what_is_as_usual_is_not_written():
    assert EVERYBODY.to_dict() == NO_LIMITS.to_dict() == {}
    assert Limits(messages=math.inf, each=True).to_dict() == {"messages": "any", "each": True}
    assert (Crowd.from_dict({}), Limits.from_dict({})) == (EVERYBODY, NO_LIMITS)


@pytest.mark.parametrize(
    ("limits", "chosen", "most"),
    [
        (Limits(), False, 1),
        (Limits(), True, math.inf),
        (Limits(messages=1), True, 1),
        (Limits(messages=2.5), False, 2.5),
        (Limits(messages=2.5), True, 2.5),
        (Limits(messages=math.inf), False, math.inf),
    ],
)
def test_who_chooses_a_mechanism_allows_its_messages_unless_a_number_is_given(limits, chosen, most):
    assert limits.most(chosen=chosen) == most


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda: Crowd(honest_fraction=0), "0 < honest_fraction <= 1, got honest_fraction=0"),
        (lambda: Crowd(honest_fraction=1.1), "0 < honest_fraction <= 1"),
        (lambda: Crowd(participation=0), "0 < participation <= 1, got participation=0"),
        (lambda: Crowd(participation=math.nan), "0 < participation <= 1"),
        (lambda: Limits(local_epsilon=0), "local_epsilon > 0 and finite, got local_epsilon=0"),
        (lambda: Limits(local_epsilon=math.inf), "local_epsilon > 0 and finite"),
        (lambda: Limits(messages=0.5), "messages >= 1: everybody sends at least one message"),
        (lambda: Limits(messages=math.nan), "messages >= 1"),
        (lambda: Person("id", 0), "a whole number from 1 to 1,000, got reports=0"),
        (lambda: Person("id", -1), "a whole number from 1 to 1,000"),
        (lambda: Person("id", 1001), "a whole number from 1 to 1,000"),
        (lambda: Person("id", 1.5), "a whole number from 1 to 1,000"),
        (lambda: Person("id", True), "a whole number from 1 to 1,000"),  # noqa: FBT003
        (lambda: Named("grr", epsilon=0), "epsilon > 0 and finite, got epsilon=0"),
    ],
)
def test_numbers_out_of_range_are_refused(make, says):
    with pytest.raises(InvalidArgumentError, match=says):
        make()


TABLE = {"c": ["a", "b"] * 500}


@pytest.mark.parametrize(
    ("terms", "says"),
    [
        ({"crowd": 0.9}, "expected a Crowd, such as Crowd"),
        ({"limits": {"messages": 3}}, "expected Limits, such as Limits"),
        ({"limits": None}, "expected Limits, such as Limits"),
    ],
)
def test_terms_of_another_type_are_refused(terms, says):
    hypothesis = testing.Hypothesis(k=4, distance=0.5)
    target = {"epsilon": 1, **terms}
    for ask in (
        lambda: shoal.run(TABLE, "c", **target),
        lambda: shoal.plan(shoal.Choice("c", 3), n=1000, **target),
        lambda: shoal.heavy_hitters(TABLE, "c", **target),
        lambda: testing.design(hypothesis, n=1000, **target),
    ):
        with pytest.raises(InvalidArgumentError, match=says):
            ask()


def test_a_person_of_another_type_is_refused():
    with pytest.raises(InvalidArgumentError, match="expected a column of ids, or Person"):
        shoal.run(TABLE, "c", epsilon=1, person=3)
