"""One budget for several questions: spent, never overspent, and shared as the weights say."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import shoal
from brute import hockey_stick, shuffled_law
from shoal.accounting.compose import ComposedProfile
from shoal.planning import Setting
from shoal.planning.joint import Part, plan_together
from shoal.questions.domains import Cells, Interval

N, DELTA = 1_000, 1e-6


def asked(domain, n=N, **terms):
    """A setting; its target is that of all parts together, whatever is said here."""
    return Setting(domain=domain, n=n, **{"epsilon": 1.0, "delta": DELTA, **terms})


def answers(k, n=N, **terms):
    return asked(Cells(k), n, **terms)


def cost(joint, parts, delta):
    """What the plans cost together, composed anew."""
    curves = (shoal.profile(made.randomizer, **made.setting.people) for made in joint.rankings)
    return ComposedProfile.of(zip(curves, (part.rounds for part in parts), strict=True)).tightest(
        delta
    )[0]


def test_three_equal_questions_spend_it_all_and_err_less_than_a_split():
    parts = [Part(answers(4))] * 3
    joint = plan_together(parts, epsilon=1.0, delta=DELTA)
    assert 0.99 <= joint.epsilon <= 1.0
    assert joint.epsilon == cost(joint, parts, DELTA)
    split = shoal.plan(shoal.Choice("c", 4), n=N, epsilon=1 / 3, delta=DELTA / 3)
    for made in joint.rankings:
        assert made.recommended.errors.l2 < 0.65 * split.recommended.errors.l2
        assert made.guarantee.epsilon <= made.setting.epsilon * (1 + 1e-6)


@pytest.mark.parametrize(
    "parts",
    [
        pytest.param([Part(answers(10), rounds=10)], id="ten reports of each person"),
        pytest.param([Part(answers(2**level)) for level in range(1, 4)], id="levels of a tree"),
        pytest.param(
            [Part(answers(5)), Part(asked(Interval(0.0, 1.0), 700))], id="answers and numbers"
        ),
        pytest.param(
            [Part(answers(k, limits=shoal.Limits(messages=4))) for k in (2, 30)],
            id="several messages each",
        ),
        pytest.param([Part(answers(3, chosen="sparse")), Part(answers(3))], id="a choice"),
        pytest.param([Part(answers(3, n=25)), Part(answers(4, n=20))], id="few people"),
        pytest.param([Part(answers(3)), Part(answers(9), 0.1)], id="a question of little weight"),
        pytest.param(
            [
                Part(answers(3, crowd=shoal.Crowd(participation=0.5, honest_fraction=0.9))),
                Part(answers(3)),
            ],
            id="half of the people",
        ),
    ],
)
def test_whatever_the_parts_the_budget_is_spent_and_never_exceeded(parts):
    joint = plan_together(parts, epsilon=1.0, delta=DELTA)
    assert 0.99 <= joint.epsilon <= 1.0
    assert cost(joint, parts, DELTA) == joint.epsilon
    for part, made in zip(parts, joint.rankings, strict=True):
        assert part.setting.chosen in {None, made.recommended.name}
        assert made.setting.n == part.setting.n


def test_the_first_guess_may_choose_another_mechanism():
    """Its cost says nothing about that of the one which is run."""
    part = Part(answers(5, 30_000, limits=shoal.Limits(messages=3)), rounds=3)
    assert 0.099 <= plan_together([part], epsilon=0.1, delta=1e-8).epsilon <= 0.1


def test_a_cap_that_binds_everywhere_leaves_some_of_it():
    parts = [Part(answers(k, limits=shoal.Limits(local_epsilon=1.0))) for k in (3, 4)]
    joint = plan_together(parts, epsilon=1.0, delta=DELTA)
    assert joint.epsilon < 0.2
    assert all(made.randomizer.local_epsilon <= 1 for made in joint.rankings)
    capped = [Part(answers(3, limits=shoal.Limits(local_epsilon=1.0))), Part(answers(4))]
    other = plan_together(capped, epsilon=1.0, delta=DELTA)
    assert 0.99 <= other.epsilon <= 1.0  # the other question has what the first may not use


def test_more_weight_is_a_smaller_error_and_only_ratios_matter():
    equal, twice, ratio = (
        plan_together([Part(answers(4), w), Part(answers(6), v)], epsilon=0.8, delta=DELTA).rankings
        for w, v in ((1.0, 1.0), (2.0, 1.0), (2e3, 1e3))
    )
    assert twice[0].recommended.errors.l2 < equal[0].recommended.errors.l2
    assert twice[1].recommended.errors.l2 > equal[1].recommended.errors.l2
    assert twice[0].setting.epsilon == pytest.approx(2 * twice[1].setting.epsilon)
    for one, other in zip(twice, ratio, strict=True):
        assert one.randomizer.local_epsilon == pytest.approx(other.randomizer.local_epsilon)


SOME = given(
    ks=st.lists(st.integers(2, 40), min_size=2, max_size=3),
    weights=st.lists(st.floats(0.2, 5.0), min_size=3, max_size=3),
    rounds=st.lists(st.integers(1, 3), min_size=3, max_size=3),
    log_n=st.floats(3.0, 13.0),
    epsilon=st.floats(0.1, 3.0),
    log_delta=st.floats(-20.0, -8.0),
    order=st.randoms(use_true_random=False),
)


@settings(max_examples=2)
@SOME
def test_laws(ks, weights, rounds, log_n, epsilon, log_delta, order):
    """A few times."""
    check_laws(ks, weights, rounds, log_n, epsilon, log_delta, order)


@pytest.mark.slow
@settings(max_examples=60)
@SOME
def test_laws_often(ks, weights, rounds, log_n, epsilon, log_delta, order):
    """Many times."""
    check_laws(ks, weights, rounds, log_n, epsilon, log_delta, order)


def check_laws(ks, weights, rounds, log_n, epsilon, log_delta, order):
    """Never above the target, nearly all of it, the same in every order, more for more epsilon."""
    n, delta = math.ceil(math.exp(log_n)), math.exp(log_delta)
    parts = [Part(answers(k, n), w, r) for k, w, r in zip(ks, weights, rounds, strict=False)]
    joint = plan_together(parts, epsilon=epsilon, delta=delta)
    assert 0.99 * epsilon <= joint.epsilon <= epsilon
    places = list(range(len(parts)))
    order.shuffle(places)
    again = plan_together([parts[i] for i in places], epsilon=epsilon, delta=delta)
    assert again.epsilon == joint.epsilon
    assert [made.randomizer for made in again.rankings] == [
        joint.rankings[i].randomizer for i in places
    ]
    more = plan_together(parts, epsilon=1.2 * epsilon, delta=delta)
    for small, large in zip(joint.rankings, more.rankings, strict=True):
        assert large.recommended.errors.l2 <= small.recommended.errors.l2 * 1.0001


def test_what_is_claimed_holds_for_every_pair_of_rows():
    """Every pair of one person's rows, every data of the others, every outcome of both columns."""
    n, epsilon, delta = 4, 1.0, 0.02
    parts = [Part(answers(2, n)), Part(answers(3, n), 2.0)]
    joint = plan_together(parts, epsilon=epsilon, delta=delta)
    tables = [made.randomizer.table() for made in joint.rankings]
    worst = 0.0
    laws = []
    for table in tables:
        k = len(table)
        outcomes = list(itertools.combinations_with_replacement(range(k), n))
        laws.append(
            [
                [np.array([law[z] for z in outcomes]) for law in (first, second)]
                for others in itertools.combinations_with_replacement(range(k), n - 1)
                for first, second in itertools.permutations(
                    [shuffled_law(table, (x, *others)) for x in range(k)], 2
                )
            ]
        )
    for (p, q), (r, s) in itertools.product(*laws):
        worst = max(worst, hockey_stick(np.outer(p, r), np.outer(q, s), joint.epsilon))
    assert 0.2 * delta < worst <= delta


def test_refusals():
    for wrong in ({"weight": 0.0}, {"weight": math.nan}, {"rounds": 0}):
        with pytest.raises(shoal.InvalidArgumentError):
            Part(answers(3), **wrong)
    with pytest.raises(shoal.InvalidArgumentError, match="at least one part"):
        plan_together([], epsilon=1.0, delta=DELTA)
    few = Part(answers(3, n=30, chosen="sparse"))
    with pytest.raises(shoal.UnreachableTargetError):
        plan_together([few, few], epsilon=0.1, delta=DELTA)
