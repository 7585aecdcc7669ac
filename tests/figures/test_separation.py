"""Several messages: an error free of the number of answers. One message and no delta: none."""

from __future__ import annotations

import math

import numpy as np
import pytest

from shoal.accounting.profile import PrivacyProfile
from shoal.figures import separation
from shoal.mechanisms.zero_sum import ZeroSumHistogram
from shoal.planning import errors, plan
from shoal.questions.kinds import Choice
from shoal.randomness import simulated


@pytest.fixture(scope="module")
def table(numbers):
    return numbers[separation.separation.name]


@pytest.fixture(scope="module")
def against_answers(table):
    return table.where(panel=0)


@pytest.fixture(scope="module")
def against_people(table):
    return table.where(panel=1)


def growth(rows, name):
    column = rows.column(name)
    return column[-1] / column[0]


def test_each_panel_moves_one_thing(against_answers, against_people):
    for rows, fixed, moves, ends in (
        (against_answers, ("n", separation.FIXED_N), "d", (64, 10**6)),
        (against_people, ("d", separation.FIXED_D), "n", (10**5, 10**8)),
    ):
        assert set(rows.column(fixed[0])) == {fixed[1]}
        assert (rows.column(moves)[0], rows.column(moves)[-1]) == ends


def test_without_a_shuffler_the_error_grows_with_both(against_answers, against_people):
    asymptotic = math.sqrt(math.log(2e6) / math.log(128))
    assert growth(against_answers, "local") == pytest.approx(asymptotic, rel=0.15)
    assert growth(against_people, "local") == pytest.approx(math.sqrt(1000), rel=1e-6)


def test_with_one_message_the_error_grows_with_both(against_answers, against_people):
    assert growth(against_answers, "single") > 3
    assert 3.5 < growth(against_people, "single") < 1.2 * 1000**0.25


def test_with_zero_sum_noise_it_does_not(against_answers, against_people):
    for name in ("zero-sum", "published", "claim"):
        column = against_answers.column(name)
        assert max(column) == pytest.approx(min(column), rel=1e-9), name
    people = against_people.column("zero-sum")
    assert max(people) < 1.1 * min(people)
    # For all data there are more answers to be wrong about: a logarithm of n.
    assert growth(against_people, "claim") < 1.2


def test_how_far_apart_the_models_are(against_answers, against_people):
    assert against_answers.column("zero-sum")[-1] < 0.25 * against_answers.column("single")[-1]
    assert against_people.column("published")[0] > against_people.column("local")[0]
    assert against_people.column("published")[-1] < 0.05 * against_people.column("local")[-1]


def test_simulations_find_what_is_predicted(table):
    pairs = zip(table.column("zero-sum"), table.column("zero-sum-measured"), strict=True)
    both = [(a, b) for a, b in pairs if b is not None]
    assert len(both) >= 4
    # Means of sixteen runs that each deviate by about a fifth: five of their deviations.
    assert all(b == pytest.approx(a, rel=0.25) for a, b in both)


def test_the_largest_error_by_the_zero_rule_is_exact():
    given = np.array([600, 300, 60, 30, 10, 0])
    protocol = ZeroSumHistogram(k=6, gamma=0.04)
    answers, randomness = np.repeat(np.arange(6), given), simulated(3)
    drawn = (protocol.simulate_counts(answers, randomness=randomness) for _ in range(4000))
    runs = np.array([np.abs(protocol.estimate(each).counts - given).max() for each in drawn])
    predicted = separation.by_the_zero_rule(given, protocol.gamma)
    assert abs(runs.mean() - predicted) < 5 * runs.std() / math.sqrt(runs.size)
    assert separation.by_the_zero_rule(np.array([1000, 0, 0]), 0.25) == pytest.approx(
        math.sqrt(2 / math.pi * 187.5), rel=0.01
    )


def test_the_data_are_as_they_are_said_to_be():
    given = separation.people_of(10**6, 200)
    assert given.sum() == 10**6
    assert given[0] == pytest.approx(5e5, rel=1e-3)
    assert given[1] == 10**5
    assert given[given > 0].min() == 1
    assert not given[100:].any()
    assert (given >= 0).all()


def test_no_option_of_the_planner_does_better_with_one_message():
    n, d = 10_000, 500
    shares = separation.people_of(n, d) / n
    made = plan(Choice("c", d), epsilon=1, n=n)
    options = [option.randomizer for option in made.options]
    others = [
        errors.expected_largest(n * np.sqrt(each.variance(shares, n=n)))
        for each in options
        if each is not None
    ]
    assert separation.single_message(n, d) < 1.01 * min(others)


# ----------------------------------------------------------------------------------- without delta


def test_epsilon_climbs_to_the_local_one(numbers):
    table = numbers[separation.pure_privacy.name]
    for k in separation.RESPONSES:
        assert table.column(f"k{k}")[0] < 0.2 * separation.LOCAL_EPSILON
        for end in ("", "-lower"):
            last = table.column(f"k{k}{end}")[-1]
            assert last == pytest.approx(separation.LOCAL_EPSILON, rel=0.01)


@pytest.mark.parametrize("k", [2, 10])
def test_the_limit_is_the_accountants_own(k):
    """The table writes the local epsilon where the proof gives it; the integral agrees."""
    profile = PrivacyProfile(separation.response(k).law(), separation.N)
    just_beyond = separation.truthful_digits(k) + 3
    assert profile.epsilon(10.0**-just_beyond) == pytest.approx(2.0, rel=0.01)
    assert profile.lower_epsilon(10.0**-just_beyond) <= 2.0
    assert separation.witnessed(k, just_beyond) <= profile.epsilon(10.0**-just_beyond)
    assert separation.witnessed(k, separation.truthful_digits(k) - 1) == 0.0


def test_what_everybody_tells_the_truth_witnesses_is_true():
    """At n = 3 the two neighbours can be listed: delta at the witnessed epsilon is as large."""
    from shoal.accounting.exact import enumerate_shuffle

    response = separation.response(3)
    truth = math.exp(2) / (math.exp(2) + 2)
    for delta in (0.3, 0.1, 0.01):
        epsilon = 2 + math.log(1 - delta / truth**3)
        found = enumerate_shuffle(response.table(), others=[0, 0], x0=0, x1=1, epsilon=epsilon)
        assert found >= delta * (1 - 1e-9)
