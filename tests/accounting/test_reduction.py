"""The reductions behind the clone bounds, executed: every law below is enumerated exactly."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import brute
from shoal.accounting.exact import two_atom_delta

repeatable = settings(deadline=None, derandomize=True)
seeds = st.integers(0, 2**32 - 1)
PAIR = (0, 1)


def mixed(law, post_process):
    return sum(weight * post_process(*counts) for counts, weight in law.items())


def as_law(array):
    return {counts: weight for counts, weight in np.ndenumerate(array) if weight > 0}


@pytest.mark.parametrize(
    ("n", "outputs", "others", "seed"),
    [
        (1, 3, (), 1),
        (2, 3, (2,), 2),
        (3, 3, (2, 0), 3),
        (4, 3, (2, 2, 3), 4),
        (4, 2, (0, 1, 2), 5),
        (5, 2, (1, 2, 2, 3), 6),
        (5, 2, (0, 1, 2, 3), 7),
    ],
)
@pytest.mark.parametrize("local", [0.4, 1.0, 2.5])
def test_clones_theorem(n, outputs, others, seed, local):
    """Theorem 3.2: one f turns P into the transcript with input 0 and Q into that with 1."""
    rng = np.random.default_rng(seed)
    sequence = brute.random_sequence(rng, n=n, inputs=4, outputs=outputs, local_epsilon=local)
    parts = brute.Decomposition.theorem(sequence, PAIR, local)
    assert parts.is_valid()
    # The input of person 0 is unknown to f: any value here must do.
    kernel = {
        (a, b): parts.post_process(a, b, (-1, *others))
        for a in range(n + 1)
        for b in range(n + 1 - a)
        if a + b > 0
    }
    pair = brute.clone_pair(n, local, math.exp(-local))
    for x, counts in zip(PAIR, pair, strict=True):
        made = mixed(as_law(counts), lambda a, b: kernel[a, b])
        truth = brute.transcript_law(sequence, (x, *others))
        assert made == pytest.approx(truth, rel=1e-10, abs=1e-14)


def test_more_clones_than_the_theorem_has_would_need_negative_left_overs():
    # Why optimal clones need another proof: a message that 0 and 1 both like and 2 does not.
    e = math.e
    row = np.array([e, 1.0, e, 1.0]) / (2 * (e + 1))
    sequence = [np.array([row, row[[1, 0, 2, 3]], row[[1, 0, 3, 2]]])]
    parts = brute.Decomposition.theorem(sequence, PAIR, 1.0)
    assert parts.is_valid()
    optimal = brute.Decomposition(sequence, parts.zero, parts.one, 2 / (e + 1))
    assert not optimal.is_valid()


@settings(repeatable, max_examples=60)
@given(
    seed=seeds,
    n=st.integers(2, 4),
    outputs=st.integers(2, 3),
    local=st.floats(0.1, 3.0),
    part=st.floats(0.0, 0.99),
)
def test_optimal_clones_bound_every_adaptive_sequence(seed, n, outputs, local, part):
    rng = np.random.default_rng(seed)
    sequence = brute.random_sequence(rng, n=n, inputs=3, outputs=outputs, local_epsilon=local)
    others = tuple(rng.integers(0, 3, size=n - 1))
    first, second = (brute.transcript_law(sequence, (x, *others)) for x in PAIR)
    epsilon = part * local
    bound = two_atom_delta(
        n=n,
        epsilon=epsilon,
        local_epsilon=local,
        clone_probability=2 / (math.exp(local) + 1),
    )
    assert brute.hockey_stick(first, second, epsilon) <= bound + 1e-14
    assert brute.hockey_stick(second, first, epsilon) <= bound + 1e-14


# ----------------------------------------------------------------------- a transposition instead


def shared_input(n):
    return (2,) * (n - 1)


@pytest.mark.parametrize(("n", "outputs"), [(2, 3), (3, 3), (4, 3), (5, 2)])
@pytest.mark.parametrize("local", [0.5, 2.0])
def test_transposition_among_people_with_equal_inputs(n, outputs, local):
    """Swapping person 0 with a uniform person is enough, if the others hold the same input."""
    rng = np.random.default_rng(10 * n)
    sequence = brute.random_sequence(rng, n=n, inputs=3, outputs=outputs, local_epsilon=local)
    parts = brute.Decomposition.theorem(sequence, PAIR, local)
    data = (-1, *shared_input(n))

    def post_process(a, b):
        return parts.post_process_in_place(a, b, data)

    pair = brute.clone_pair(n, local, math.exp(-local))
    for x, counts in zip(PAIR, pair, strict=True):
        made = mixed(as_law(counts), post_process)
        truth = brute.transcript_law(sequence, (x, *shared_input(n)), brute.transpositions)
        assert made == pytest.approx(truth, rel=1e-10, abs=1e-14)


def signalling_sequence(n, group, local):
    """Inputs 0, 1; 2 within the group; 3 outside it. See ``brute.signalled_transposition``."""
    e = math.exp(local)
    asks = np.array([[1, e, 0]] * 2 + [[e, 1, 0]] + [[1, e, 0]]) / (e + 1)
    answers = np.array([[e, 1, 1], [1, e, 1], [1, 1, e], [1, 1, e]]) / (e + 2)
    sequence = [asks if i == 0 else answers for i in range(n)]
    shaped = [np.broadcast_to(step, (3,) * i + (4, 3)) for i, step in enumerate(sequence)]
    return shaped, (2,) * group + (3,) * (n - 1 - group)


@pytest.mark.parametrize(("n", "group"), [(3, 1), (5, 2), (7, 3)])
@pytest.mark.parametrize("epsilon", [0.0, 0.4])
def test_what_a_transposition_reveals_is_counted_right(n, group, epsilon):
    sequence, others = signalling_sequence(n, group, 2.0)
    first, second = (
        brute.transcript_law(sequence, (x, *others), brute.transpositions) for x in PAIR
    )
    # Keep the answer "yes" and the counts within the group's positions 1 .. group.
    outside = tuple(range(1 + group, n))
    first, second = (law[0].sum(axis=tuple(i - 1 for i in outside)) for law in (first, second))
    tally = {}
    for messages in np.ndindex(first.shape):
        key = tuple(sorted(messages))
        p, q = tally.get(key, (0.0, 0.0))
        tally[key] = (p + first[messages], q + second[messages])
    merged = np.array(list(tally.values()))
    truth = brute.hockey_stick(merged[:, 0], merged[:, 1], epsilon)
    found = brute.signalled_transposition(n=n, epsilon=epsilon, local_epsilon=2.0, group=group)
    assert found == pytest.approx(truth, rel=1e-10, abs=1e-15)


def test_a_transposition_alone_does_not_give_the_clone_pair():
    """With telling inputs the clone pair is no bound, while a permutation keeps it."""
    n, group, local, epsilon = 10**5, 1800, 4.0, 0.3
    told = brute.signalled_transposition(
        n=n, epsilon=epsilon, local_epsilon=local, group=group, most=250
    )
    bound = two_atom_delta(
        n=n, epsilon=epsilon, local_epsilon=local, clone_probability=math.exp(-local)
    )
    assert told > 1e-6
    assert bound < 1e-12


def test_a_transposition_alone_does_not_give_the_closed_form():
    """The closed form stated for a transposition, Theorem 2.1 of the 2020 workshop version."""
    n, local, delta = 10**6, 6.0, 1e-6
    e = math.exp(local)
    assert local <= math.log(n / (16 * math.log(2 / delta)))
    width = 8 * math.sqrt(e * math.log(4 / delta) / n) + 8 * e / n
    claimed = math.log1p((1 - math.exp(-2 * local)) * width)
    assert claimed == pytest.approx(0.48841, abs=1e-5)
    told = brute.signalled_transposition(
        n=n, epsilon=claimed, local_epsilon=local, group=4957, most=150
    )
    assert told > 10 * delta
