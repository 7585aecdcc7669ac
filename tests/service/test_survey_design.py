"""From what is wanted to a survey that keeps it, and not by far."""

from __future__ import annotations

import math
from contextlib import suppress

import pytest

import shoal
from factories import ANALYZER, SHUFFLER, mechanism
from shoal.errors import InvalidArgumentError, UnreachableTargetError
from shoal.mechanisms import registry
from shoal.mechanisms.response import RandomizedResponse
from shoal.mechanisms.vectors import PrivUnit
from shoal.questions.terms import Limits
from shoal.service.admission import Open, OpenFraction
from shoal.service.survey import Batches
from shoal.service.survey.design import Design, expected_error, least_minimum
from shoal.service.survey.promise import Terms, promised

BATCHES = Batches(minimum=600, target=1200, max_age=3600)
NOBODY = Open(dishonest=0)
WANTED = {"epsilon": 1.0, "delta": 1e-6, "batches": BATCHES, "admission": NOBODY}
ABOUT = {
    "name": "travel",
    "purpose": "Planning",
    "not_before": 0,
    "not_after": 10,
    "shuffler": SHUFFLER,
    "analyzer": ANALYZER,
}


def asked(k=4, **about):
    """A question with so many answers."""
    return {"questions": (shoal.Choice("way", list("abcdefgh")[:k], text="How?", **about),)}


FOUR = asked()
DUMMIES = asked(choose="dummies") | {"limits": Limits(messages=math.inf)}
KINDS = [
    FOUR,
    FOUR | {"admission": OpenFraction(dishonest=0.2), "participation": 0.3},
    DUMMIES,
    pytest.param(FOUR | {"reports_per_person": 2}, marks=pytest.mark.slow),
    pytest.param(DUMMIES | {"reports_per_person": 2}, marks=pytest.mark.slow),
]


@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_the_promise_is_kept_and_used_up(kind):
    design = Design(**WANTED | kind)
    survey = design.survey(**ABOUT)
    assert 0.995 < survey.guarantee(600).epsilon <= 1 + 1e-9
    assert kind["questions"][0].choose in {None, survey.device.name}


@pytest.mark.slow
def test_numbers_are_planned_too():
    number = shoal.Number("way", 0, 10, text="How far?", choose="duchi")
    design = Design(**WANTED, questions=(number,))
    survey = design.survey(**ABOUT)
    assert 0.995 < survey.guarantee(600).epsilon <= 1 + 1e-9
    assert (survey.device.low, survey.device.high) == (0.0, 10.0)
    assert expected_error(design.device, 1200) < expected_error(design.device, 600) < 10


def test_errors_are_those_of_a_simulation():
    device = RandomizedResponse(k=4, epsilon=1.5)
    drawn = shoal.randomness.simulated(7)
    values = [0, 1, 2, 3] * 100
    errors = []
    for _ in range(300):
        found = device.estimate(shoal.shuffle(device.randomize(values, randomness=drawn)))
        errors.extend((found.frequencies - 0.25) ** 2)
    measured = (sum(errors) / len(errors)) ** 0.5
    assert expected_error(device, 400) == pytest.approx(measured, rel=0.15)
    with pytest.raises(InvalidArgumentError, match="answers or for numbers"):
        expected_error(PrivUnit(dimension=4, epsilon=1.0), 100)


def test_a_cap_is_kept():
    design = Design(**WANTED | FOUR, limits=Limits(local_epsilon=0.5), reports_per_person=2)
    assert design.device.local_epsilon <= 0.5
    assert design.survey(**ABOUT).guarantee(600).epsilon < 1


@pytest.mark.parametrize("choose", registry.names("answers", several=True, surveys=False))
@pytest.mark.parametrize("cap", [1.5, 60.0])
def test_a_cap_of_messages_is_kept_or_refused_for_every_mechanism(choose, cap):
    design = Design(**WANTED | asked(choose=choose), limits=Limits(messages=cap))
    with suppress(UnreachableTargetError, InvalidArgumentError):  # to be refused is right, too
        assert design.device.messages <= cap


def test_a_cap_that_only_a_survey_breaks_is_named():
    thousand = WANTED | {"batches": Batches(minimum=1000, target=2000, max_age=3600)}
    robust = asked(3, choose="near-central-robust") | {"limits": Limits(messages=1.5)}
    design = Design(**thousand, **robust)
    assert design.ranking.randomizer.messages <= 1.5
    with pytest.raises(UnreachableTargetError, match=r"in a survey a person sends \d+"):
        _ = design.device


@pytest.mark.slow
def test_a_cap_of_messages_is_kept_for_several_reports_too():
    robust = asked(3, choose="near-central-robust") | {"limits": Limits(messages=1.5)}
    several = robust | {"reports_per_person": 2}
    several["batches"] = Batches(minimum=20_000, target=20_000, max_age=3600)
    assert Design(**WANTED | several).device.messages <= 1.5


def test_a_given_mechanism_is_taken_or_refused():
    device = RandomizedResponse(k=4, epsilon=1.0)
    design = Design(**WANTED | FOUR, given=device)
    assert design.survey(**ABOUT).device is device
    weak = Design(**WANTED | FOUR, given=RandomizedResponse(k=4, epsilon=9.0))
    with pytest.raises(UnreachableTargetError, match="minimum=600"):
        weak.survey(**ABOUT)


def test_too_few_people_are_told_so():
    few = Batches(minimum=3, target=3, max_age=1)
    with pytest.raises(UnreachableTargetError, match="nobody can hide 4 reports"):
        Design(**WANTED | FOUR | {"batches": few}, reports_per_person=4)


@pytest.mark.parametrize(
    "terms",
    [
        Terms(delta=1e-6),
        Terms(delta=1e-6, admission=OpenFraction(dishonest=0.3), participation=0.2),
        pytest.param(Terms(delta=1e-6, reports_per_person=2), marks=pytest.mark.slow),
    ],
    ids=str,
)
def test_the_least_minimum_is_the_least(terms):
    device = RandomizedResponse(k=4, epsilon=1.0)
    least = least_minimum(device, epsilon=0.3, terms=terms)
    assert promised((device,), terms, least).epsilon <= 0.3 * (1 + 1e-6)
    fewer = least - max(2, least // 100 * (terms.reports_per_person > 1))
    assert promised((device,), terms, fewer).epsilon > 0.3


def test_noise_that_was_made_for_more_people_needs_them():
    device = mechanism("split-and-mix")
    assert least_minimum(device, epsilon=2.0, terms=Terms(delta=1e-6)) == 1000
