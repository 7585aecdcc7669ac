"""The questions people ask, through the public names."""

import json
import math
from functools import partial

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import shoal
from shoal.accounting import catalog

HALF = shoal.Crowd(honest_fraction=0.5)

often = settings(deadline=None, derandomize=True, max_examples=12)


def test_a_guarantee_says_everything_in_one_block():
    guarantee = shoal.amplify(local_epsilon=4, n=100_000, delta=1e-6)
    assert "lower" not in vars(guarantee), "it is computed only when asked for"
    assert 0.11702 <= guarantee.lower <= guarantee.epsilon
    text = str(guarantee)
    for part in (
        "ε = 0.11816 at δ = 1e-6",
        "100,000",
        "optimal clones",
        "replacement",
        "shuffler",
        "local ε0 = 4 for each report",
    ):
        assert part in text
    assert json.loads(json.dumps(guarantee.to_dict()))["lower"] == guarantee.lower
    assert guarantee.neighbouring == "replacement"


def test_asking_for_delta_inverts_asking_for_epsilon():
    epsilon = shoal.amplify(local_epsilon=2, n=1000, delta=1e-5).epsilon
    back = shoal.amplify(local_epsilon=2, n=1000, epsilon=epsilon)
    assert back.delta == pytest.approx(1e-5, rel=1e-3)
    assert back.delta <= 1e-5
    assert back.epsilon == epsilon
    assert shoal.amplify(local_epsilon=2, n=1000, epsilon=2).delta == 0.0


@often
@given(epsilon=st.floats(0.05, 3.0), log_n=st.floats(0.0, 20.0))
def test_the_largest_local_epsilon_keeps_the_target_and_a_little_more_breaks_it(epsilon, log_n):
    n = max(1, int(math.exp(log_n)))
    local = shoal.local_epsilon(epsilon=epsilon, delta=1e-6, n=n)
    assert local >= epsilon
    assert shoal.amplify(local_epsilon=local, n=n, delta=1e-6).epsilon <= epsilon * (1 + 1e-9)
    if local < 49:
        worse = shoal.amplify(local_epsilon=local * (1 + 1e-3), n=n, delta=1e-6).epsilon
        assert worse > epsilon


def test_the_inverse_problem_for_a_family_uses_its_own_law():
    family = partial(shoal.RandomizedResponse, k=100)
    own = shoal.local_epsilon(family, epsilon=0.1, delta=1e-6, n=10**5)
    generic = shoal.local_epsilon(epsilon=0.1, delta=1e-6, n=10**5)
    assert own > generic
    kept = shoal.amplify(shoal.RandomizedResponse(k=100, epsilon=own), n=10**5, delta=1e-6)
    assert kept.epsilon <= 0.1 * (1 + 1e-9)


@often
@given(local=st.floats(0.3, 6.0), epsilon=st.floats(0.05, 2.0))
def test_the_smallest_crowd_keeps_the_target_and_one_person_less_does_not(local, epsilon):
    n = shoal.required_n(epsilon=epsilon, local_epsilon=local, delta=1e-6)
    profile = partial(shoal.profile, local_epsilon=local)
    assert profile(n=n).delta(epsilon) <= 1e-6
    if n > 1:
        assert profile(n=n - 1).delta(epsilon) > 1e-6 * (1 - 1e-9)


def test_dishonest_people_are_not_counted():
    everybody = shoal.amplify(local_epsilon=1, n=10_000)
    honest_half = shoal.amplify(local_epsilon=1, n=10_000, crowd=HALF)
    assert honest_half.n == 5000
    assert honest_half.epsilon == shoal.amplify(local_epsilon=1, n=5000).epsilon
    assert honest_half.epsilon == shoal.amplify(local_epsilon=1, n=10_000, honest_n=5000).epsilon
    assert honest_half.epsilon > everybody.epsilon
    needed = shoal.required_n(epsilon=0.1, local_epsilon=1)
    assert shoal.required_n(epsilon=0.1, local_epsilon=1, crowd=HALF) == 2 * needed
    assert "5,000 of 10,000 people" in str(honest_half)


def test_crowds_are_looked_for_up_to_the_largest_that_is_accounted_for():
    most = 10**15
    epsilon = shoal.amplify(local_epsilon=12, n=most, delta=1e-6).epsilon
    n = shoal.required_n(epsilon=1.01 * epsilon, local_epsilon=12, delta=1e-6)
    assert 0.9 * most < n <= most
    with pytest.raises(shoal.UnreachableTargetError, match=r"not even 1e\+15 people"):
        shoal.required_n(epsilon=0.9 * epsilon, local_epsilon=12, delta=1e-6)
    with pytest.raises(shoal.UnreachableTargetError, match="not even"):
        shoal.required_n(epsilon=0.01, local_epsilon=40, delta=1e-6)


def test_rounds_and_their_targets():
    ten = shoal.amplify(local_epsilon=2, n=50, rounds=10)
    assert ten.rounds == 10
    assert ten.local_epsilon == 20
    assert "privacy loss distributions" in ten.theorem
    assert ten.lower <= ten.epsilon
    local = shoal.local_epsilon(epsilon=ten.epsilon, n=50, rounds=10)
    assert local == pytest.approx(2.0, rel=2e-3)


def test_a_family_has_the_noise_that_many_rounds_afford():
    response = partial(shoal.RandomizedResponse, k=5)
    month = {"n": 20_000, "delta": 1e-6}
    local = shoal.local_epsilon(response, epsilon=1, rounds=4, **month)
    kept = shoal.amplify(response(epsilon=local), rounds=4, **month).epsilon
    assert 0.99 < kept <= 1


@pytest.mark.parametrize(
    "name", [name for name, entry in catalog.ENTRIES.items() if entry.certified]
)
def test_every_proved_bound_answers_by_name_and_stays_above_the_lower_bound(name):
    randomizer = shoal.RandomizedResponse(k=10, epsilon=0.4)
    guarantee = shoal.amplify(randomizer, n=10**6, delta=1e-6, bound=name)
    assert guarantee.lower <= guarantee.epsilon <= 0.4
    assert guarantee.local_epsilon == pytest.approx(0.4, rel=1e-12)


@pytest.mark.parametrize("name", ["bkmtt20", "csuzz19", "blog-small", "efmrtt19-general"])
def test_unverified_bounds_are_never_an_answer(name):
    with pytest.raises(shoal.InvalidArgumentError, match="for comparisons only"):
        shoal.amplify(local_epsilon=0.4, n=10**6, bound=name)


def test_a_bound_out_of_its_regime_says_so_and_what_to_use():
    with pytest.raises(shoal.OutOfRegimeError) as caught:
        shoal.amplify(local_epsilon=8, n=1000, bound="fmt21-closed")
    assert caught.value.bound == "fmt21-closed"
    assert caught.value.given["n"] == 1000
    assert "optimal-clones" in str(caught.value)


def test_the_comparison_is_sorted_and_includes_the_randomizers_own_law():
    rows = shoal.compare(shoal.RandomizedResponse(k=10, epsilon=1), n=10_000)
    answered = [row.epsilon for row in rows if row.epsilon is not None]
    assert answered == sorted(answered)
    assert rows[0].name == "blanket"
    assert all(row.remark for row in rows if row.epsilon is None)
    names = {row.name for row in rows}
    assert {"optimal-clones", "clones", "fmt21-closed", "krr-closed", "gddsk21"} <= names
    assert all(row.epsilon >= row.lower for row in rows if row.certified)
    assert all(json.dumps(row.to_dict()) for row in rows)


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ({"n": 10}, "exactly one of"),
        ({"n": 10, "local_epsilon": 1, "deletion_epsilon": 1}, "exactly one of"),
        ({"n": 10, "local_epsilon": 1, "epsilon": 1, "delta": 1e-6}, "not both"),
        ({"n": 10, "local_epsilon": 1, "local_delta": 1.0}, "local_delta"),
        ({"n": 10, "local_epsilon": 1, "crowd": 0.5}, "a Crowd, such as"),
        ({"n": 1, "local_epsilon": 1, "crowd": HALF}, "at least one honest"),
        ({"n": 10, "local_epsilon": 1, "honest_n": 11}, "honest_n"),
        ({"n": 10, "local_epsilon": 1, "honest_n": 5, "crowd": HALF}, "not both"),
        ({"n": 10, "local_epsilon": 1, "rounds": 0}, "rounds"),
        ({"n": 10, "local_epsilon": 1, "bound": "optimal-clone"}, "did you mean optimal-clones"),
        ({"n": 10, "local_epsilon": 1, "bound": "fmt21-closed", "rounds": 2}, "no rounds with"),
        ({"n": 10, "local_epsilon": 1, "bound": "fmt21-closed", "epsilon": 1}, "a delta"),
        ({"n": 10, "local_epsilon": -1}, "local_epsilon"),
        ({"n": 10, "local_epsilon": math.nan}, "local_epsilon"),
        ({"n": 10, "randomizer": "grr"}, "a randomizer with a law"),
    ],
)
def test_questions_that_make_no_sense_are_refused_with_the_reason(arguments, says):
    with pytest.raises(shoal.InvalidArgumentError, match=says):
        shoal.amplify(**arguments)


TABLE = [[0.75, 0.25], [0.25, 0.75]]
QUESTIONS = {
    "amplify": lambda randomizer: shoal.amplify(randomizer, n=100),
    "profile": lambda randomizer: shoal.profile(randomizer, n=100),
    "required_n": lambda randomizer: shoal.required_n(randomizer, epsilon=1.0),
    "compare": lambda randomizer: shoal.compare(randomizer, n=100),
    "local_epsilon": lambda family: shoal.local_epsilon(family, epsilon=1.0, n=100),
    "made by a family": lambda made: shoal.local_epsilon(lambda epsilon: made, epsilon=1.0, n=100),  # noqa: ARG005
}
KINDS = {
    "nested lists": (TABLE, "BlanketLaw.from_table"),
    "array": (np.array(TABLE), "BlanketLaw.from_table"),
    "data frame": (pl.DataFrame(TABLE), "BlanketLaw.from_table"),
    "function": (lambda datum: datum, "shoal.audit"),
    "built-in function": (abs, "shoal.audit"),
    "partial function": (partial(max, 0), "shoal.audit"),
    "text": ("grr", "law"),
    "number": (4.0, "law"),
}


@pytest.mark.parametrize("question", QUESTIONS)
@pytest.mark.parametrize("kind", KINDS)
def test_what_is_no_randomizer_is_told_where_it_belongs(question, kind):
    value, advice = KINDS[kind]
    with pytest.raises(shoal.InvalidTypeError) as refused:
        QUESTIONS[question](value)
    assert advice in str(refused.value)
    assert "\n" not in str(refused.value)
    assert isinstance(refused.value, shoal.InvalidArgumentError)
    assert isinstance(refused.value, TypeError)


def test_a_class_is_no_randomizer_and_may_be_no_family():
    for question in ("amplify", "profile", "required_n", "compare", "made by a family"):
        with pytest.raises(shoal.InvalidTypeError, match=r"make one: RandomizedResponse\(\.\.\.\)"):
            QUESTIONS[question](shoal.RandomizedResponse)
    with pytest.raises(shoal.InvalidTypeError, match="partial"):
        shoal.local_epsilon(shoal.RandomizedResponse, epsilon=1.0, n=100)
    made = partial(shoal.RandomizedResponse, k=4)
    assert shoal.local_epsilon(made, epsilon=1.0, n=100) > 0


@pytest.mark.parametrize(
    "family", ["HadamardResponse", "SubsetSelection", "ProjectiveGeometryResponse"]
)
@pytest.mark.parametrize("n", [2000, 2472, 2536, 5000])
def test_other_sets_of_outputs_are_looked_for_beyond_a_first_answer(family, n):
    """Where they begin, delta falls: the largest local epsilon is not where it first fails."""
    made = partial(getattr(shoal, family), k=30)
    largest = shoal.local_epsilon(made, epsilon=0.5, delta=1e-6, n=n)
    assert shoal.profile(made(epsilon=largest), n=n).delta(0.5) <= 1e-6
    for beyond in (0.01, 0.15, 0.3):
        assert shoal.profile(made(epsilon=largest + beyond), n=n).delta(0.5) > 1e-6


@pytest.mark.parametrize("near", [None, 1.0, 2.5, 4.0])
def test_the_largest_local_epsilon_does_not_depend_on_where_the_search_begins(near):
    """Other spaces of messages make delta fall again: at 3.2, not only up to 2.55."""
    family = partial(shoal.ProjectiveGeometryResponse, k=50)
    found = shoal.local_epsilon(family, epsilon=1, delta=1e-6, n=200, near=near)
    assert found == pytest.approx(3.2077827, rel=1e-6)
    assert shoal.amplify(family(epsilon=found), n=200, delta=1e-6).epsilon <= 1
