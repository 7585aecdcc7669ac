"""Very large and very small numbers: a right answer or one clear line, never a traceback.

What is answered is finite and not negative, an epsilon that was asked for is kept, and nothing
warns on the way.
"""

from __future__ import annotations

import math
from dataclasses import asdict
from functools import partial

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import shoal
from command_kit import shoal as command
from shoal import BlanketLaw, checks, learning, testing
from shoal.accounting import gaussian, repeated
from shoal.learning.accountant import epsilon_of
from shoal.learning.run import Run
from shoal.learning.steps import StepLaw, composed_epsilon
from shoal.mechanisms.registry import by_name, calibration
from shoal.mechanisms.vectors import PrivUnit
from shoal.network import overlays
from shoal.planning import errors

pytestmark = pytest.mark.filterwarnings("error::RuntimeWarning")

EXTREME = [10**400, math.inf, math.nan, 1e300, 800.0, 710.0, 301.0, 1e-300, 1e-301, 5e-324, 0, -1.0]
SIZES = [1, 2, 10**15, 10**18, 10**400, 0, -3, 1.5, math.nan, math.inf]
GRR, KNOWN = testing.Way(randomizer="grr"), testing.Way(randomizer="grr", coins=1)
DELTAS = [1 - 2**-53, 0.999999, 1e-16, 1e-300, 5e-324, 0.0, 1.0, math.nan, 10**400]


def settled(question):
    """The numbers of an answer, or None if it was refused in one line."""
    try:
        answer = question()
    except shoal.ShoalError as error:
        refusal, answer = str(error), None
    if answer is None:
        assert "\n" not in refusal
        return None
    numbers = {}
    for each in answer if isinstance(answer, list | tuple) else [answer]:
        if isinstance(each, int | float):
            numbers["answer"] = each
        for name in ("epsilon", "delta", "lower", "noise_multiplier"):
            if isinstance(value := getattr(each, name, None), int | float):
                numbers[name] = value
    assert all(math.isfinite(value) and value >= 0 for value in numbers.values()), numbers
    return numbers


QUESTIONS = {
    "amplify": lambda at: shoal.amplify(local_epsilon=at, n=100),
    "amplify for delta": lambda at: shoal.amplify(local_epsilon=1.0, n=100, epsilon=at),
    "amplify grr": lambda at: shoal.amplify(by_name("grr")(k=3, epsilon=at), n=100),
    "amplify laplace": lambda at: shoal.amplify(
        by_name("laplace")(low=0.0, high=1.0, epsilon=at, levels=4), n=100
    ),
    "amplify privunit": lambda at: shoal.amplify(PrivUnit(dimension=3, epsilon=at), n=100),
    "required_n": lambda at: shoal.required_n(epsilon=at, local_epsilon=1.0),
    "required_n of": lambda at: shoal.required_n(epsilon=1.0, local_epsilon=at),
    "compare": lambda at: shoal.compare(local_epsilon=at, n=100),
    "account": lambda at: learning.account(noise_multiplier=at, n=10, sampling="fixed"),
    "noise_for": lambda at: learning.noise_for(epsilon=at, n=10, sampling="fixed"),
    "plan": lambda at: shoal.plan(shoal.Choice("c", 3), epsilon=at, n=100).guarantee,
    "duchi": lambda at: shoal.Duchi(low=0.0, high=at, epsilon=1.0).variance(n=100),
    "design": lambda at: (
        testing.design(testing.Hypothesis(k=3, distance=0.2), n=100, epsilon=at, way=KNOWN)
        .tester()
        .guarantee
    ),
    "distance": lambda at: (
        testing.design(
            testing.Hypothesis(k=3, distance=at), n=100, epsilon=1.0, way=KNOWN
        ).recommended.power
    ),
    "rates": lambda at: testing.rates.local_private(k=3, distance=0.1, epsilon=at),
    "rates by distance": lambda at: testing.rates.non_private(k=3, distance=at),
    "coins": lambda at: calibration("coins")(n=10**6, epsilon=at, delta=1e-6).messages,
    "dummies": lambda at: calibration("dummies")(k=3, n=1000, epsilon=at, delta=1e-6).messages,
    "split-and-mix": lambda at: (
        calibration("split-and-mix")(low=0.0, high=1.0, n=1000, epsilon=at, delta=1e-6).messages
    ),
}


@pytest.mark.parametrize("question", QUESTIONS)
@pytest.mark.parametrize("at", EXTREME, ids=lambda at: f"{at!r}"[:8])
def test_extreme_epsilons_noises_and_distances(question, at):
    settled(partial(QUESTIONS[question], at))


@pytest.mark.parametrize("n", SIZES, ids=lambda n: f"{n!r}"[:8])
def test_extreme_crowds(n):
    settled(lambda: shoal.amplify(local_epsilon=1.0, n=n))
    settled(lambda: shoal.amplify(local_epsilon=1.0, n=100, rounds=n, composition="advanced"))
    settled(lambda: shoal.plan(shoal.Choice("c", 3), epsilon=1.0, n=n).guarantee)
    settled(lambda: learning.account(noise_multiplier=5.0, n=n, sampling="fixed"))
    tested = testing.Hypothesis(k=3, distance=0.2)
    settled(lambda: testing.design(tested, n=n, epsilon=1.0, way=GRR).reason)


@pytest.mark.parametrize("k", [10**9, *SIZES], ids=lambda k: f"{k!r}"[:8])
def test_extreme_numbers_of_answers(k):
    settled(lambda: shoal.plan(shoal.Choice("c", k), epsilon=1.0, n=100).guarantee)
    settled(lambda: shoal.plan(shoal.Vector("v", k), epsilon=1.0, n=100).guarantee)
    settled(lambda: shoal.amplify(by_name("grr")(k=k, epsilon=1.0), n=100))
    settled(
        lambda: (
            testing.design(
                testing.Hypothesis(k=k, distance=0.2), n=100, epsilon=1.0, way=GRR
            ).reason
        )
    )


@pytest.mark.parametrize("delta", DELTAS, ids=lambda delta: f"{delta!r}"[:8])
def test_extreme_deltas(delta):
    settled(lambda: shoal.amplify(local_epsilon=1.0, n=100, delta=delta))
    settled(lambda: shoal.amplify(local_epsilon=1.0, n=100, local_delta=delta))
    for composition in ("advanced", "renyi"):
        asked = {"rounds": 3, "composition": composition, "delta": delta}
        settled(lambda asked=asked: shoal.amplify(local_epsilon=1.0, n=100, **asked))
    family = partial(shoal.RandomizedResponse, k=3)
    settled(lambda: shoal.local_epsilon(family, epsilon=1.0, n=100, delta=delta))
    settled(lambda: learning.account(noise_multiplier=5.0, n=10, delta=delta, sampling="fixed"))
    settled(lambda: learning.noise_for(epsilon=1.0, n=10, delta=delta, sampling="fixed"))
    settled(lambda: calibration("near-central")(n=1000, epsilon=4.0, delta=delta).messages)


magnitudes = st.floats(-320, 320).map(lambda power: float(f"1e{power:.0f}"))


@given(epsilon=magnitudes, local=magnitudes, delta=magnitudes, n=st.integers(1, 10**16))
@settings(deadline=None, derandomize=True, max_examples=40)
def test_numbers_of_any_size_are_answered_or_refused(epsilon, local, delta, n):
    settled(lambda: shoal.amplify(local_epsilon=local, n=n, delta=delta))
    settled(lambda: shoal.amplify(local_epsilon=local, n=n, epsilon=epsilon))
    settled(lambda: learning.account(noise_multiplier=local, n=n, delta=delta, sampling="fixed"))
    noise = settled(lambda: learning.noise_for(epsilon=epsilon, n=n, delta=delta, sampling="fixed"))
    if noise is not None:
        kept = learning.account(
            noise_multiplier=noise["answer"], n=n, delta=delta, sampling="fixed"
        )
        assert kept.epsilon <= epsilon


COMMANDS = [
    "plan --epsilon 710 --n 1000 --categories 3",
    "plan --epsilon 1e-300 --n 1000 --categories 3",
    "plan --epsilon 1 --n 1000 --categories 1e9",
    "plan --epsilon 1 --n 1000 --categories 1e15",
    "plan --epsilon 1 --n 1e18 --categories 3",
    "plan --epsilon 1 --n 1000 --bounds 0,1e300",
    "plan --epsilon 1 --n 1000 --bounds 0,1e-300",
    "plan --epsilon 1e-320 --n 1000 --dimension 3 --messages-cap 1e9",
    "amplify --local-epsilon 1e-300 --n 1000 --randomizer laplace --bounds 0,1",
    "amplify --local-epsilon 25 --n 1000 --rounds 10 --composition advanced",
    "amplify --local-epsilon 50 --n 1000 --rounds 10 --composition advanced",
    "amplify --local-epsilon 1 --n 1000 --delta 1e-320",
    "sgd --n 10 --noise 1e-300",
    "sgd --n 1000 --noise 1e300 --sampling fixed",
    "overlay --n 1e12 --local-epsilon 1",
    "overlay --n 1000 --local-epsilon 1e-300",
    "test --power --categories 10 --distance 1e-300 --epsilon 1",
    "test --power --categories 10 --distance 1e-8 --epsilon 1",
    "test --power --categories 10 --distance 0.3 --n 1000 --epsilon 1e-320",
]


@pytest.mark.parametrize("words", COMMANDS)
@pytest.mark.parametrize("form", ["", "--json"])
def test_commands_answer_or_refuse_in_one_line(words, form):
    finished = command(*words.split(), *form.split())
    if finished.status == 2:
        assert finished.stdout == ""
        (line,) = finished.stderr.splitlines()
        assert line.startswith("error: ")
        assert len(line) < 1000
    elif form:
        finished.json()
    else:
        text = finished.success().replace("│", " ").split()
        assert not {"inf", "-inf", "nan"} & {word.strip(",;:()") for word in text}


def test_the_references_of_a_plan_are_those_of_the_formulas():
    for epsilon in (1e-3, 0.3, 1.0, 8.0):
        a, e = math.exp(-epsilon / 2), math.exp(epsilon)
        assert errors.central(5, 2, epsilon).cell == pytest.approx(math.sqrt(2 * a) / (1 - a))
        assert errors.central(2, 1, epsilon).cell == pytest.approx(math.sqrt(2 / e) / (1 - 1 / e))
        assert errors.local(5, epsilon, 100).cell == pytest.approx(20 * math.sqrt(e) / (e - 1))
    for epsilon in (checks.SMALLEST_EPSILON, 1e5):
        for found in (errors.central(5, 2, epsilon), errors.local(5, epsilon, 100)):
            assert all(0 <= value < math.inf for value in asdict(found).values())


@pytest.mark.parametrize(("mu", "rounds"), [(1e-12, 10**14), (3e-13, 2 * 10**14), (1e-10, 10**12)])
def test_steps_too_small_for_floats_are_still_bounded(mu, rounds):
    """Gaussian steps compose to a Gaussian mechanism: nothing below its epsilon is proved."""
    law = StepLaw.sampled(partial(gaussian.delta, mu), spread=mu, end=1e-30)
    assert np.isfinite(law.masses).all()
    exact = gaussian.epsilon(mu * math.sqrt(rounds), 1e-6)
    assert composed_epsilon(law, rounds, 1e-6) >= exact > 0


@pytest.mark.parametrize("local_epsilon", [25.0, 50.0, 300.0])
def test_a_lower_bound_with_rare_losses_is_one(local_epsilon):
    lower = repeated.epsilon(BlanketLaw.generic(local_epsilon), n=1000, rounds=10, delta=1e-6)
    assert 0 <= lower <= 10 * local_epsilon


def test_a_cap_whose_chance_cannot_be_told_from_its_share_is_refused():
    """Rounded down to 62 bits its odds would be below even: more than epsilon, the other way."""
    with pytest.raises(shoal.InvalidArgumentError, match="1e-12 <= epsilon"):
        PrivUnit(dimension=3, epsilon=1e-13)
    device = PrivUnit(dimension=3, epsilon=1e-12)
    assert device._choice > device.cap * 2**62


def test_overlays_of_many_people_are_refused_and_long_ones_not_made():
    with pytest.raises(shoal.InvalidArgumentError, match="do not fit into memory"):
        overlays.compare(10**9)
    candidates = overlays._candidates(10**15, 16, 0)
    assert [each.relaxation > 1e6 for each in candidates[-2:]] == [True, True]
    near = overlays._candidates(10**4, 16, 0)[-1].relaxation
    assert near == pytest.approx(2 / (1 - math.cos(2 * math.pi / 10**4)), rel=1e-6)


def test_checks_take_numbers_beyond_all_floats():
    for check in (checks.positive, checks.non_negative, checks.open_probability, checks.fraction):
        with pytest.raises(shoal.InvalidArgumentError, match="value"):
            check(value=10**400)
    with pytest.raises(shoal.InvalidArgumentError, match="value"):
        checks.count(value=10**400)


def test_noise_too_small_to_hide_among_very_many_steps():
    """The search for an epsilon goes beyond what has an exponential, and ends there."""
    run = Run.of(0.25, 10**15, delta=1e-6)
    assert epsilon_of(run) == gaussian.epsilon(8.0, 1e-6)  # that of a single step
