"""A new mechanism of any kind is a class and a line of the registry: plans, runs, surveys and
audits use it.
"""

from __future__ import annotations

import math
import runpy

import numpy as np
import polars as pl
import pytest

import shoal
from command_kit import shoal as command
from factories import example
from new_mechanisms import KINDS, made, register
from shoal.errors import InvalidArgumentError
from shoal.mechanisms import registry
from shoal.randomness import simulated
from shoal.service.survey import Batches, Open, Survey, browser, items
from shoal.service.survey import mechanisms as lists
from shoal.service.survey.design import Design
from shoal.service.survey.words import sentences

N = 20_000
SURE = 6.0  # standard errors: beyond with probability below 1e-8, for every estimate of a run
LOCAL = [name for name, (_, line) in KINDS.items() if line.local]
ASKED = [name for name, (_, line) in KINDS.items() if line.where == "clients"]  # in surveys
DRAWN = np.random.default_rng(3)
TABLE = pl.DataFrame(
    {
        "color": DRAWN.choice(["red", "blue", "green"], N, p=[0.6, 0.3, 0.1]),
        "hours": DRAWN.uniform(0, 7, N),
        **dict(zip("xyz", DRAWN.uniform(0, 0.5, (3, N)), strict=True)),
    }
)


@pytest.fixture(autouse=True)
def registered(monkeypatch, calibrated_once):  # noqa: ARG001
    """The lists of mechanisms of surveys follow from the registry when they are first imported."""
    register(monkeypatch)
    listed = runpy.run_path(lists.__file__)
    for module, name in ((items, "SURVEYS"), (items, "PYTHON"), (browser, "BROWSERS")):
        assert getattr(module, name) == getattr(lists, name)
        monkeypatch.setattr(module, name, listed[name])


def asked(name, **more):
    """A question of the kind that the mechanism is for."""
    kinds = {
        "answers": shoal.Choice("color", ["red", "blue", "green"], other=False, **more),
        "numbers": shoal.Number("hours", 0, 10, **more),
        "vectors": shoal.Vector("place", ["x", "y", "z"], 1.0, **more),
    }
    return kinds[registry.line(name).takes]


def truth(name):
    """What a run estimates."""
    if registry.line(name).takes == "answers":
        return [(TABLE["color"] == each).mean() for each in ("red", "blue", "green")] + [0.0]
    columns = ["hours"] if registry.line(name).takes == "numbers" else ["x", "y", "z"]
    return [TABLE[each].mean() for each in columns]


def estimated(result):
    """The estimates and their standard errors."""
    (found,) = result.columns
    means = getattr(found.estimate, "mean", None)
    if means is None:
        return found.estimate.frequencies, found.estimate.standard_errors
    errors = found.estimate
    spread = getattr(errors, "standard_errors", None)
    return np.atleast_1d(means), errors.standard_error if spread is None else spread


@pytest.mark.parametrize("name", KINDS)
def test_a_plan_lists_it(name):
    several = registry.line(name).several
    limits = shoal.Limits(messages=math.inf) if several else shoal.Limits()
    plan = shoal.plan(asked(name), n=N, epsilon=0.5, delta=1e-6, limits=limits)
    (option,) = (each for each in plan.options if each.name == name)
    assert isinstance(option.randomizer, KINDS[name][0])
    assert 0 < option.errors.l2 < math.inf
    assert name in str(plan)
    known = shoal.amplify(option.randomizer, n=N, delta=1e-6)
    assert known.epsilon == pytest.approx(0.5, rel=0.03)
    if several:
        alone = shoal.plan(asked(name), n=N, epsilon=0.5, delta=1e-6)
        assert name not in {each.name for each in alone.options}
        few = shoal.Limits(messages=1)
        with pytest.raises(InvalidArgumentError, match=f"excludes {name}"):
            shoal.plan(asked(name, choose=name), n=N, epsilon=0.5, limits=few)


@pytest.mark.parametrize("name", KINDS)
def test_a_plan_with_it_by_name_survives_the_disk(name, tmp_path):
    plan = shoal.plan(asked(name, choose=name), n=N, epsilon=0.5, delta=1e-6)
    assert plan.recommended.name == name
    assert plan.guarantee.epsilon <= 0.5
    plan.save(tmp_path / "plan.json")
    assert shoal.Plan.load(tmp_path / "plan.json").randomizer == plan.randomizer


@pytest.mark.parametrize("name", KINDS)
def test_a_run_with_it(name):
    question = asked(name, choose=name)
    result = shoal.run(TABLE, question, epsilon=1, delta=1e-6, randomness=simulated(1))
    assert result.columns[0].randomizer.name == name
    assert result.guarantee.epsilon <= 1
    assert name in result.to_html()
    found, errors = estimated(result)
    assert np.all(np.abs(found - truth(name)) <= SURE * errors)
    assert np.all(errors < 0.2)


@pytest.mark.parametrize("name", LOCAL)
def test_a_run_with_it_by_its_local_epsilon(name):
    named = shoal.Named(name, epsilon=2.0)
    result = shoal.run(TABLE, asked(name), mechanism=named, randomness=simulated(2))
    device = result.columns[0].randomizer
    assert (device.name, device.epsilon) == (name, 2.0)
    found, errors = estimated(result)
    assert np.all(np.abs(found - truth(name)) <= SURE * errors)


@pytest.mark.parametrize("name", ASKED)
def test_a_survey_with_it_says_what_it_does(name):
    device = made(name)
    survey = Survey.from_bytes(example(device=device, epsilon=2.5).to_bytes())
    assert survey.devices == (device,)
    said = sentences(survey)
    assert (
        said.leaves
        == {
            "mirrored": "An answer in a mirror leaves your device.",
            "backwards": "A step counted from above leaves your device.",
            "chaff": "Several numbers leave your device.",
        }[name]
    )
    assert (
        said.steps[0]
        == {
            "mirrored": "It may be any of 3.",
            "backwards": "It may be any of three.",
            "chaff": "One of them is an answer in a mirror.",
        }[name]
    )
    (reason,) = browser.refusals(survey, allowed=10.0)
    assert reason.startswith(f"browsers do not run {name}: ")


@pytest.mark.parametrize("name", ASKED)
def test_a_survey_is_designed_with_it(name):
    design = Design(
        epsilon=1.0,
        delta=1e-6,
        batches=Batches(minimum=1000, target=2000, max_age=3600),
        admission=Open(dishonest=0),
        questions=(asked(name, text="?", choose=name),),
    )
    assert design.device.name == name


def test_a_survey_has_no_mechanism_that_is_for_tables():
    with pytest.raises(InvalidArgumentError, match="a mechanism for answers or for numbers"):
        example(device=made("axis"), answers=())


@pytest.mark.parametrize("name", KINDS)
def test_an_audit_of_it(name):
    shown = {"n": 20, "delta": 0.01, "runs": 4_000, "randomness": simulated(2)}
    device = made(name)
    honest = {"epsilon": 6.0} if name == "chaff" else {}
    assert shoal.audit(device, **shown, **honest).verdict == "consistent"


def test_an_audit_finds_that_less_is_kept_than_is_said():
    liar = made("mirrored")
    shown = {"n": 20, "delta": 0.01, "runs": 4_000, "randomness": simulated(2)}
    assert shoal.audit(liar, local_epsilon=0.3, **shown).verdict == "violated"


@pytest.mark.parametrize(
    ("name", "shape"),
    [
        ("mirrored", "--k 3 --local-epsilon 1"),
        ("backwards", "--bounds 0,10 --local-epsilon 1"),
        ("axis", "--k 3 --local-epsilon 1"),
        ("chaff", "--k 3 --epsilon 2"),
    ],
)
def test_an_audit_by_name(name, shape):
    words = f"audit --randomizer {name} {shape} --n 50 --delta 0.01 --runs 2000 --seed 1 --json"
    found = command(*words.split()).json()
    assert found["verdict"] == "consistent"
    assert found["name"] == name
