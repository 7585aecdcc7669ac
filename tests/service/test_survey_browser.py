"""What browsers make of a survey, said before it is written: their bound, and what they run."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

import shoal
from factories import example, item
from repository import ROOT
from shoal.errors import InvalidArgumentError
from shoal.mechanisms import registry
from shoal.sealing import SUITES
from shoal.service.admission import Open
from shoal.service.survey import Batches, Survey
from shoal.service.survey.browser import counted_epsilon, proved_epsilon, refusals
from shoal.service.survey.design import Design, epsilon_in_browsers
from shoal.service.survey.mechanisms import BROWSERS, PYTHON, SURVEYS

VECTORS = ROOT / "tests" / "service" / "vectors" / "compositions_v1.json"
COMPOSED = json.loads(VECTORS.read_text(encoding="utf-8"))["surveys"]
LIMIT = 2.0


def read(case):
    """The survey of a recorded case, without working out its promise."""
    return shoal.service.survey.Stated.from_bytes(case["survey"].encode())


@pytest.mark.parametrize("case", COMPOSED[:5], ids=range(5))
def test_the_bound_of_several_questions_is_as_recorded(case):
    survey = read(case)
    here = proved_epsilon(survey.devices, survey.terms, survey.batches.minimum)
    assert here == pytest.approx(case["proved"], rel=1e-9)


@pytest.mark.slow
@pytest.mark.parametrize("case", COMPOSED, ids=range(len(COMPOSED)))
def test_what_is_recorded_of_several_questions_is_so(case):
    survey = Survey.from_bytes(case["survey"].encode())
    least = survey.batches.minimum
    assert survey.guarantee(least).epsilon == pytest.approx(case["epsilon"], rel=1e-6)
    assert proved_epsilon(survey.devices, survey.terms, least) == pytest.approx(
        case["proved"], rel=1e-9
    )


def test_four_questions_at_the_limit_are_not_refused():
    survey = read(COMPOSED[0])
    assert (len(survey.questions), survey.epsilon, survey.batches.minimum) == (4, 2, 100)
    counted = counted_epsilon(survey.devices, survey.terms, 100, promise=survey.epsilon)
    assert counted <= LIMIT


def rows_of_bits(epsilon):
    """A design whose promise browsers cannot prove: they count those who suit both coarsely."""
    return Design(
        epsilon=epsilon,
        delta=1e-6,
        batches=Batches(minimum=150, target=300, max_age=3600),
        admission=Open(dishonest=0),
        questions=(shoal.Choice("q", list("abcdefgh"), text="?", choose="unary"),),
    )


def test_an_epsilon_that_pages_allow_is_offered():
    design = rows_of_bits(LIMIT)
    survey = example(design.device, epsilon=LIMIT, minimum=150)
    offered = []

    def instead():
        offered.append(epsilon_in_browsers(design, allowed=LIMIT))
        return offered[0]

    (reason,) = refusals(survey, allowed=LIMIT, instead=instead)
    assert "the survey page refuses it: browsers can prove ε = " in reason
    assert reason.endswith(f"--epsilon {offered[0]:g} would do")
    assert 1.8 < offered[0] < LIMIT
    better = example(rows_of_bits(offered[0]).device, epsilon=offered[0], minimum=150)
    assert refusals(better, allowed=LIMIT) == ()
    least = survey.batches.minimum
    assert proved_epsilon(better.devices, better.terms, least) <= LIMIT
    assert proved_epsilon(survey.devices, survey.terms, least) > LIMIT


def test_what_is_given_has_no_other_epsilon():
    given = replace(rows_of_bits(LIMIT), given=shoal.UnaryEncoding(k=8, epsilon=2.0))
    assert epsilon_in_browsers(given, allowed=LIMIT) is None


# One list of mechanisms.


def test_every_mechanism_for_answers_or_numbers_is_in_one_of_two_lists():
    by_sigma = set(registry.names(local=False, several=False))
    wanted = set(registry.names("answers", "bits", "numbers")) - by_sigma
    assert sorted(SURVEYS) == sorted(wanted)
    assert not set(BROWSERS) & set(PYTHON)
    assert not set(SURVEYS) & by_sigma


@pytest.mark.parametrize(
    "device",
    [
        shoal.Laplace(low=0.0, high=1.0, epsilon=1.0),
        shoal.HashedDummies(k=4, buckets=50, dummies=2.0),
        shoal.SplitAndMixSum.calibrated(low=0.0, high=1.0, n=1000, epsilon=1.0, delta=1e-6),
        shoal.SparseHistogram(k=1000, gamma=0.5),
    ],
    ids=lambda device: device.name,
)
def test_what_browsers_do_not_run_is_taken_and_said(device):
    epsilon = shoal.amplify(device, n=1000, delta=0.3).epsilon + 0.01
    (reason,) = refusals(example(device, epsilon=epsilon, delta=0.3), allowed=1e9)
    assert reason.startswith(f"browsers do not run {device.name}")
    assert "only shoal submit" in reason


def test_so_is_another_suite():
    (reason,) = refusals(example(suite=SUITES[1], epsilon=1.5), allowed=LIMIT)
    assert reason.startswith(f"browsers do not seal by {SUITES[1]}")
    assert refusals(example(epsilon=1.5), allowed=LIMIT) == ()


def test_what_is_for_tables_is_refused_and_not_for_the_sake_of_browsers():
    device = shoal.Gaussian(low=0.0, high=1.0, sigma=1.0)
    with pytest.raises(InvalidArgumentError, match=r"is for tables: shoal run\): one of grr, .*la"):
        item(device, text="How many?")
