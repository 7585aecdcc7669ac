"""Randomizers that are not pure, deletion privacy and participation, against brute force."""

import itertools
import math

import numpy as np
import pytest

import shoal
from shoal.accounting import exact
from shoal.accounting.approximate import clones_distance, optimal_distance


def local_delta_of(table, epsilon):
    x = math.exp(epsilon)
    return max(float(np.maximum(a - x * b, 0).sum()) for a in table for b in table)


def rough_table(rng):
    """Three inputs whose ratios are mostly moderate, with some outputs nearly private to one."""
    table = np.exp(rng.uniform(-0.6, 0.6, size=(3, 4)))
    table[rng.integers(3), rng.integers(4)] *= rng.uniform(2, 40)
    table[rng.integers(3), rng.integers(4)] *= rng.uniform(0, 0.05)
    return table / table.sum(axis=1, keepdims=True)


@pytest.mark.parametrize("bound", [None, "clones"])
def test_no_impure_table_beats_its_bound(bound):
    rng = np.random.default_rng(99)
    informative = 0
    for _ in range(120):
        table = rough_table(rng)
        local = float(rng.uniform(0.3, 2.0))
        impurity = local_delta_of(table, local)
        if impurity == 0:
            continue
        n, epsilon = int(rng.integers(1, 6)), float(rng.uniform(0, 1))
        truth = exact.worst_shuffle(table, n=n, epsilon=epsilon)
        profile = shoal.profile(local_epsilon=local, local_delta=impurity, n=n, bound=bound)
        claimed = profile.delta(epsilon)
        assert truth <= claimed * (1 + 1e-9)
        informative += claimed < 1
    assert informative > 40


def test_the_sharper_count_is_used_and_never_exceeds_the_published_one():
    for local in (0.1, 1.0, 4.0):
        for n in (1, 10, 10**6):
            arguments = {"local_epsilon": local, "local_delta": 1e-9, "n": n}
            published = n * (1 + math.exp(-local) / 2) * 1e-9
            assert clones_distance(**arguments) <= published
            assert clones_distance(**arguments) <= optimal_distance(**arguments)


def test_impurity_costs_continuously_and_reaches_the_pure_answer():
    pure = shoal.amplify(local_epsilon=1, n=10**4).epsilon
    costs = [
        shoal.amplify(local_epsilon=1, local_delta=impurity, n=10**4).epsilon
        for impurity in (1e-18, 1e-14, 1e-12, 1e-11)
    ]
    assert costs == sorted(costs)
    assert pure * (1 - 1e-6) <= costs[0] <= pure * (1 + 1e-4)


@pytest.mark.parametrize(
    ("devices", "delta", "people"),
    [
        ({"local_epsilon": 0.05, "local_delta": 2e-10}, 1e-6, (1060, 2120, 10**7)),
        ({"local_epsilon": 4.0, "local_delta": 1e-9}, 1e-6, (10**4, 10**5)),
        ({"deletion_epsilon": 1.0, "local_delta": 1e-9}, 1e-6, (300, 10**4)),
    ],
)
def test_more_people_never_hurt_though_each_is_exchanged(devices, delta, people):
    epsilons = [shoal.amplify(**devices, n=n, delta=delta).epsilon for n in people]
    assert all(more <= few * (1 + 1e-5) for few, more in itertools.pairwise(epsilons))
    assert shoal.profile(**devices, n=people[-1]).delta(epsilons[0]) <= delta * (1 + 1e-3)
    # What is proved for the best crowd is what the largest has.
    assert epsilons[-1] == pytest.approx(min(epsilons), rel=1e-5)


def test_a_crowd_is_large_enough_if_a_smaller_one_is():
    target = {"epsilon": 0.22, "delta": 1e-6, "local_epsilon": 1.0, "local_delta": 1e-9}
    n = shoal.required_n(**target)
    assert 500 < n < 1000
    for many in (n, 1000 * n):
        made = shoal.profile(local_epsilon=1.0, local_delta=1e-9, n=many)
        assert made.delta(0.22) <= 1e-6 * (1 + 1e-6)
        assert made.epsilon(1e-6) <= 0.22 * (1 + 1e-6)
    assert shoal.profile(local_epsilon=1.0, local_delta=1e-9, n=n - 1).delta(0.22) > 1e-6


def test_delta_never_rises_with_epsilon_though_the_exchange_costs_more():
    profile = shoal.profile(local_epsilon=2, local_delta=1e-9, n=10**4)
    deltas = [profile.delta(eps) for eps in np.linspace(0, 3, 25)]
    assert deltas == sorted(deltas, reverse=True)
    assert profile.delta(2.0) <= 1e-9


def test_the_local_guarantee_caps_the_answer_only_where_it_applies():
    profile = shoal.profile(local_epsilon=1, local_delta=1e-5, n=100)
    assert profile.epsilon(2e-5) == 1.0
    with pytest.raises(shoal.UnreachableTargetError, match="costs at least"):
        profile.epsilon(1e-6)


def test_no_deletion_private_table_beats_the_deletion_law():
    rng = np.random.default_rng(5)
    tightest = 0.0
    for _ in range(150):
        local = float(rng.uniform(0.2, 1.5))
        reference = rng.dirichlet(np.ones(4))
        rows = [deletion_private_row(rng, reference, math.exp(local)) for _ in range(3)]
        table = np.array(rows)
        n, epsilon = int(rng.integers(1, 6)), float(rng.uniform(0, local))
        truth = exact.worst_shuffle(table, n=n, epsilon=epsilon)
        bound = shoal.profile(deletion_epsilon=local, n=n).delta(epsilon)
        assert truth <= bound * (1 + 1e-9)
        tightest = max(tightest, truth / bound)
    assert tightest > 0.5


def deletion_private_row(rng, reference, a):
    """A random law within a factor a of the reference, often at the ends of what is allowed."""
    wish = np.where(rng.random(4) < 0.5, a, 1 / a)
    low, high = reference / a, reference * a
    row = np.clip(reference * wish, low, high)
    for _ in range(200):
        row = np.clip(row * (1 / row.sum()), low, high)
        if abs(row.sum() - 1) < 1e-12:
            break
    return row / row.sum() if abs(row.sum() - 1) < 1e-9 else reference


@pytest.mark.parametrize("share", [0.2, 0.7])
def test_participation_is_sound_and_amplifies(share):
    rng = np.random.default_rng(8)
    for _ in range(25):
        table = np.exp(rng.uniform(-1, 1, size=(3, 3)))
        table /= table.sum(axis=1, keepdims=True)
        silent = np.hstack([share * table, np.full((3, 1), 1 - share)])
        n, epsilon = int(rng.integers(1, 6)), float(rng.uniform(0, 0.5))
        truth = exact.worst_shuffle(silent, n=n, epsilon=epsilon)
        law = shoal.BlanketLaw.from_table(table)
        own = shoal.profile(law, n=n, crowd=shoal.Crowd(participation=share)).delta(epsilon)
        generic = shoal.profile(
            local_epsilon=law.local_epsilon, n=n, crowd=shoal.Crowd(participation=share)
        ).delta(epsilon)
        assert truth <= own * (1 + 1e-9)
        assert own <= generic * (1 + 1e-9)
        assert own <= shoal.profile(law, n=n).delta(epsilon) * (1 + 1e-9)


@pytest.mark.parametrize(("local", "n", "q"), [(1.0, 10**4, 0.1), (2.0, 10**5, 0.5)])
def test_participation_beats_subsampling_a_full_batch_of_participants(local, n, q):
    """Lemma 2.3 on q n expected participants: log(1 + q (e^eps - 1)) at q delta is not better."""
    ours = shoal.amplify(
        local_epsilon=local, n=n, crowd=shoal.Crowd(participation=q), delta=1e-7
    ).epsilon
    full = shoal.amplify(local_epsilon=local, n=round(q * n), delta=1e-7 / q).epsilon
    subsampled = math.log1p(q * math.expm1(full))
    assert ours == pytest.approx(subsampled, rel=0.2)
    assert ours < full
