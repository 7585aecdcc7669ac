from __future__ import annotations

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import binom

import brute
from shoal.accounting import exact
from shoal.accounting.exact import (
    enumerate_law,
    enumerate_shuffle,
    two_atom_delta,
    worst_shuffle,
)
from shoal.accounting.published import (
    clone_divergence,
    clones_interval,
    conditional_divergence,
)
from shoal.accounting.search import Side, largest, least
from shoal.errors import InvalidArgumentError

repeatable = settings(deadline=None, derandomize=True)
local_epsilons = st.floats(0.05, 5.0)
fractions_of_local = st.floats(0.0, 0.99)
seeds = st.integers(0, 2**32 - 1)


def clones(local_epsilon):
    return math.exp(-local_epsilon)


def optimal_clones(local_epsilon):
    return 2 / (math.exp(local_epsilon) + 1)


def two_atom_law(local_epsilon, clone_probability):
    truth = math.exp(local_epsilon) / (math.exp(local_epsilon) + 1)
    high, low = 2 * truth / clone_probability, 2 * (1 - truth) / clone_probability
    return {"mass": [clone_probability / 2] * 2, "rho0": [high, low], "rho1": [low, high]}


# ------------------------------------------------------------------------------- published values

# n, local epsilon, delta; epsilon of binary response (a lower bound), optimal clones, clones.
REFERENCE = [
    (1e3, 0.5, 1e-6, 0.056854, 0.062687, 0.070523),
    (1e3, 1, 1e-6, 0.126614, 0.148671, 0.182412),
    (1e3, 2, 1e-6, 0.323279, 0.397087, 0.545498),
    (1e4, 0.5, 1e-6, 0.016181, 0.018117, 0.020401),
    (1e4, 1, 1e-6, 0.035659, 0.043206, 0.053005),
    (1e4, 2, 1e-6, 0.087016, 0.114400, 0.155045),
    (1e4, 4, 1e-6, 0.314643, 0.410812, 0.600909),
    (1e5, 1, 1e-6, 0.010142, 0.012430, 0.015282),
    (1e5, 4, 1e-6, 0.084714, 0.118153, 0.169770),
    (1e6, 4, 1e-6, 0.024014, 0.034280, 0.049307),
    (1e6, 6, 1e-6, 0.072971, 0.103051, 0.149291),
    (1e6, 8, 1e-6, 0.224993, 0.303694, 0.444469),
    (1e6, 1, 1e-8, 0.0041054, 0.0050116, 0.0061255),
    (1e3, 1, 1e-5, 0.105373, 0.125040, 0.154047),
]


@pytest.mark.parametrize(("n", "local", "delta", "binary", "optimal", "fmt21"), REFERENCE)
def test_epsilon_reproduces_the_reference_table(n, local, delta, binary, optimal, fmt21):
    def passes(delta_of, epsilon):
        """Whether the curve passes delta within the last digit of the reference."""
        return delta_of(epsilon + 6e-7) <= delta < delta_of(epsilon - 6e-7)

    assert passes(lambda epsilon: brute.binary_response_delta(n, epsilon, local), binary)
    for probability, expected in ((optimal_clones(local), optimal), (clones(local), fmt21)):
        pair = {"n": n, "local_epsilon": local, "clone_probability": probability}
        assert passes(lambda epsilon, pair=pair: two_atom_delta(epsilon=epsilon, **pair), expected)


# ---------------------------------------------------------------------------------- two-atom pair


@repeatable
@given(n=st.integers(1, 7), local=local_epsilons, part=fractions_of_local, kind=st.booleans())
def test_evaluators_of_the_clone_pair_agree(n, local, part, kind):
    p = (clones if kind else optimal_clones)(local)
    epsilon = part * local
    found = two_atom_delta(n=n, epsilon=epsilon, local_epsilon=local, clone_probability=p)
    assert found >= brute.hockey_stick(*brute.clone_pair(n, local, p), epsilon) - 1e-16
    law = two_atom_law(local, p)
    assert found == pytest.approx(enumerate_law(**law, n=n, epsilon=epsilon), rel=1e-8, abs=1e-14)


@pytest.mark.parametrize("clone_probability", [Fraction(1, 3), Fraction(1, 2)])
@pytest.mark.parametrize("growth", [Fraction(1), Fraction(11, 10), Fraction(3, 2), Fraction(14, 5)])
@pytest.mark.parametrize("n", [1, 2, 30, 150])
def test_two_atom_delta_is_exact_in_relative_terms_far_into_the_tail(n, growth, clone_probability):
    exactly = brute.exact_clone_divergence(n, growth, Fraction(3), clone_probability)  # to 1e-15
    found = two_atom_delta(
        n=n,
        epsilon=math.log(growth),
        local_epsilon=math.log(3),
        clone_probability=float(clone_probability),
    )
    assert 1 <= Fraction(found) / exactly < 1 + Fraction(1, 10**7)


def test_two_atom_delta_keeps_what_it_does_not_sum(monkeypatch):
    # Few clones: a window of nine standard deviations leaves out more than the answer.
    local, epsilon, n = 3.0, 2.5, 20_000
    p = clones(local)
    found = two_atom_delta(n=n, epsilon=epsilon, local_epsilon=local, clone_probability=p)
    values, _ = exact._conditional(np.arange(n, dtype=float), epsilon, local)
    total = float(binom.pmf(np.arange(n), n - 1, p) @ values) * (1 - 1e-9)
    around = {"epsilon": epsilon, "local_epsilon": local}
    inside, outside, widest = exact._near_mean(n - 1, p, 9.0, **around)
    assert not widest
    assert exact._near_mean(n - 1, p, 1000.0, **around)[1:] == (0.0, True)
    assert outside > 10 * total
    assert inside + outside >= total
    assert total <= found <= total * (1 + 1e-6)
    # Not allowed to look further, it is loose and still a bound.
    monkeypatch.setattr(exact, "_MOST_COUNTS", 1)
    loose = two_atom_delta(n=n, epsilon=epsilon, local_epsilon=local, clone_probability=p)
    assert loose == pytest.approx(inside + outside, rel=1e-12)


@repeatable
@given(n=st.integers(2, 3000), local=local_epsilons, part=fractions_of_local)
def test_two_atom_delta_shrinks_with_epsilon_and_with_the_crowd(n, local, part):
    given_ = {"local_epsilon": local, "clone_probability": optimal_clones(local)}
    here = two_atom_delta(n=n, epsilon=part * local, **given_)
    slack = 1 + 1e-7
    assert two_atom_delta(n=n + 1, epsilon=part * local, **given_) <= here * slack
    assert two_atom_delta(n=n, epsilon=(part + 0.01) * local, **given_) <= here * slack
    assert two_atom_delta(n=n, epsilon=local, **given_) == 0.0


# ------------------------------------------------------------------------- the published algorithms


def test_algorithms_reproduce_the_interval_of_the_authors_program():
    # Its search starts at a closed form, 0.537804, and halves ten times; it reports upper ends.
    def search(side):
        def exceeds(epsilon):
            given_ = {"n": 10**5, "epsilon": epsilon, "local_epsilon": 4.0, "step": 100}
            return clone_divergence(**given_, side=side, limit=1e-6) > 1e-6

        lower = largest(exceeds, 0.0, 0.537804, steps=10)
        upper = least(lambda epsilon: not exceeds(epsilon), 0.0, 0.537804, steps=10)
        return lower, upper

    (lower, reported), (_, upper) = search(Side.LOWER), search(Side.UPPER)
    assert reported == pytest.approx(0.16754, abs=5e-6)
    assert upper == pytest.approx(0.17279, abs=5e-6)
    assert lower < 0.169770 < upper


@pytest.mark.parametrize(
    ("n", "local", "delta", "step"),
    [
        (1, 1.0, 1e-3, 100),
        (2, 1.0, 1e-3, 100),
        (50, 2.0, 1e-3, 100),  # one block holds everything
        (50, 2.0, 1e-3, 50),
        (50, 2.0, 1e-3, 7),
        (1000, 0.5, 1e-5, 10),
        (10**5, 4.0, 1e-6, 100),
        (10**5, 4.0, 1e-10, 30),
    ],
)
def test_published_interval_encloses_the_exact_epsilon(n, local, delta, step):
    found = clones_interval(n=n, delta=delta, local_epsilon=local, step=step)
    pair = {"n": n, "local_epsilon": local, "clone_probability": clones(local)}
    assert two_atom_delta(epsilon=found.upper, **pair) <= delta
    assert two_atom_delta(epsilon=found.lower, **pair) >= delta
    assert found.upper <= local


def test_published_interval_closes_with_the_step():
    given_ = {"n": 500, "delta": 1e-4, "local_epsilon": 2.0}
    wide, narrow = (clones_interval(**given_, step=step) for step in (100, 1))
    assert wide.lower < narrow.lower < narrow.upper < wide.upper
    assert narrow.upper - narrow.lower < 1e-4


@repeatable
@given(n=st.integers(1, 40), local=local_epsilons, part=fractions_of_local)
def test_algorithm_six_with_single_steps_is_the_double_sum(n, local, part):
    epsilon = part * local
    truth = brute.hockey_stick(*brute.clone_pair(n, local, clones(local)), epsilon)
    given_ = {"n": n, "epsilon": epsilon, "local_epsilon": local, "step": 1, "limit": 1.0}
    upper = clone_divergence(**given_, side=Side.UPPER)
    lower = clone_divergence(**given_, side=Side.LOWER)
    assert lower - 1e-15 <= truth <= upper + 1e-15
    assert upper <= lower * 1.002 + 1e-15


@repeatable
@given(local=local_epsilons, part=fractions_of_local, start=st.integers(0, 400))
def test_conditional_divergence_does_not_grow_with_the_clones(local, part, start):
    # Lemma F.2, for both orders of the pair, and both orders are equal by symmetry.
    truth = math.exp(local) / (math.exp(local) + 1)
    epsilon = part * local
    for first, second in ((truth, 1 - truth), (1 - truth, truth)):
        values = [
            conditional_divergence(clones=c, epsilon=epsilon, first=first, second=second)
            for c in range(start, start + 6)
        ]
        assert all(b <= a * (1 + 1e-11) + 1e-15 for a, b in itertools.pairwise(values))
    vectorised, _ = exact._conditional(np.arange(start, start + 6, dtype=float), epsilon, local)
    assert vectorised == pytest.approx(values, rel=1e-9, abs=1e-14)


@repeatable
@given(n=st.integers(1, 9), local=local_epsilons, part=fractions_of_local)
def test_binary_response_with_everybody_else_on_zero(n, local, part):
    table = brute.response(2, local)
    epsilon = part * local
    truth = max(
        enumerate_shuffle(table, others=[0] * (n - 1), x0=a, x1=1 - a, epsilon=epsilon)
        for a in (0, 1)
    )
    found = brute.binary_response_delta(n, epsilon, local)
    assert found <= truth + 1e-15
    assert found == pytest.approx(truth, rel=1e-6, abs=1e-9)
    assert found <= worst_shuffle(table, n=n, epsilon=epsilon) + 1e-15


# ------------------------------------------------------------------------------------ blanket laws


@repeatable
@given(seed=seeds, n=st.integers(1, 5), atoms=st.integers(1, 4))
def test_enumerate_law_matches_all_sequences_in_rational_arithmetic(seed, n, atoms):
    rng = np.random.default_rng(seed)
    mass = [Fraction(int(k), 64) for k in rng.integers(1, 64 // atoms, size=atoms)]
    rho0, rho1 = ([Fraction(int(k), 8) for k in rng.integers(0, 40, atoms)] for _ in range(2))
    growth = Fraction(9, 8)
    drawn = [(m, a - growth * b) for m, a, b in zip(mass, rho0, rho1, strict=True)]
    drawn.append((1 - sum(mass), Fraction(0)))
    by_sequence = Fraction(0)
    for sequence in itertools.product(drawn, repeat=n):
        weight = math.prod((m for m, _ in sequence), start=Fraction(1))
        by_sequence += weight * max(Fraction(0), sum((z for _, z in sequence), Fraction(0)))
    floats = ([float(v) for v in part] for part in (mass, rho0, rho1))
    law = dict(zip(("mass", "rho0", "rho1"), floats, strict=True))
    found = enumerate_law(**law, n=n, epsilon=math.log(growth))
    assert found == pytest.approx(float(by_sequence / n), rel=1e-12, abs=1e-15)


@repeatable
@given(seed=seeds, n=st.integers(1, 5), outputs=st.integers(2, 4), part=fractions_of_local)
def test_a_law_of_what_the_others_really_send_is_the_truth(seed, n, outputs, part):
    table = brute.random_table(np.random.default_rng(seed), 3, outputs, 1.5)
    truth = enumerate_shuffle(table, others=[2] * (n - 1), x0=0, x1=1, epsilon=part * 1.5)
    law = {
        "mass": table[2].tolist(),
        "rho0": (table[0] / table[2]).tolist(),
        "rho1": (table[1] / table[2]).tolist(),
    }
    found = enumerate_law(**law, n=n, epsilon=part * 1.5)
    assert found == pytest.approx(truth, rel=1e-10, abs=1e-14)


# --------------------------------------------------------------------------------- shuffled tables


@repeatable
@given(
    seed=seeds,
    others=st.lists(st.integers(0, 2), max_size=4),
    outputs=st.integers(1, 4),
    part=fractions_of_local,
)
def test_enumerate_shuffle_matches_running_through_every_transcript(seed, others, outputs, part):
    table = brute.tempered_table(np.random.default_rng(seed), 3, outputs, 2.0)
    found = enumerate_shuffle(table, others=others, x0=0, x1=2, epsilon=part * 2)
    truth = brute.shuffled_divergence(table, others, (0, 2), part * 2)
    assert found == pytest.approx(truth, rel=1e-12, abs=1e-15)


@settings(repeatable, max_examples=15)
@given(seed=seeds, n=st.integers(1, 4), part=fractions_of_local)
def test_worst_shuffle_is_the_maximum_over_all_data(seed, n, part):
    table = brute.random_table(np.random.default_rng(seed), 3, 3, 1.0)
    values = [
        enumerate_shuffle(table, others=others, x0=x0, x1=x1, epsilon=part)
        for others in itertools.combinations_with_replacement(range(3), n - 1)
        for x0, x1 in itertools.permutations(range(3), 2)
    ]
    assert worst_shuffle(table, n=n, epsilon=part) == pytest.approx(max(values), rel=1e-13)


@settings(repeatable, max_examples=150)
@given(
    seed=seeds,
    n=st.integers(1, 6),
    outputs=st.integers(3, 5),
    local=st.floats(0.2, 3.0),
    part=fractions_of_local,
)
def test_no_table_beats_its_blanket_and_no_blanket_beats_optimal_clones(
    seed, n, outputs, local, part
):
    table = brute.random_table(np.random.default_rng(seed), 3, outputs, local)
    epsilon = part * local
    truth = worst_shuffle(table, n=n, epsilon=epsilon)
    blanket = max(
        enumerate_law(**brute.blanket_atoms(table, pair), n=n, epsilon=epsilon)
        for pair in itertools.permutations(range(3), 2)
    )
    generic, fmt21 = (
        two_atom_delta(n=n, epsilon=epsilon, local_epsilon=local, clone_probability=p)
        for p in (optimal_clones(local), clones(local))
    )
    slack = 1e-14
    assert truth <= blanket + slack
    assert blanket <= generic + slack
    assert generic <= fmt21 * (1 + 1e-8) + slack


def test_optimal_clones_are_nearly_attained():
    # Ternary response with everybody else on the third symbol: the bound above is not vacuous.
    truth = enumerate_shuffle(brute.response(3, 4.0), others=[2] * 59, x0=0, x1=1, epsilon=1.0)
    p = optimal_clones(4.0)
    bound = two_atom_delta(n=60, epsilon=1.0, local_epsilon=4.0, clone_probability=p)
    assert 0.9 * bound < truth < bound


# ------------------------------------------------------------------------------------- refusals


LAW = {"mass": [0.5], "rho0": [1.0], "rho1": [1.0], "n": 2, "epsilon": 0.0}
PAIR = {"n": 10, "epsilon": 0.1, "local_epsilon": 1.0, "clone_probability": 0.3}
DATA = {"table": brute.response(2, 1.0), "others": [], "x0": 0, "x1": 1, "epsilon": 0.0}
SHUFFLE = {"table": brute.response(9, 1.0), "n": 2, "epsilon": 0.0}


@pytest.mark.parametrize(
    ("evaluate", "good", "change", "says"),
    [
        (enumerate_law, LAW, {"mass": [0.5, 0.1]}, "as many masses"),
        (enumerate_law, LAW, {"mass": [], "rho0": [], "rho1": []}, "as many masses"),
        (enumerate_law, LAW, {"mass": [1.1]}, "sum at most 1"),
        (enumerate_law, LAW, {"mass": [-0.1]}, "numbers >= 0"),
        (enumerate_law, LAW, {"rho0": [math.inf]}, "finite"),
        (enumerate_law, LAW, {"rho1": [math.nan]}, "finite"),
        (enumerate_law, LAW, {"n": 0}, "n="),
        (enumerate_law, LAW, {"n": 10**8}, "multisets of draws"),
        (enumerate_law, LAW, {"epsilon": -0.1}, "epsilon"),
        (two_atom_delta, PAIR, {"n": 10**9}, "use the integral"),
        (two_atom_delta, PAIR, {"n": 0.5}, "n="),
        (two_atom_delta, PAIR, {"epsilon": -1.0}, "epsilon"),
        (two_atom_delta, PAIR, {"clone_probability": 0.0}, "clone_probability"),
        (enumerate_shuffle, DATA, {"x1": 2}, "x1=2"),
        (enumerate_shuffle, DATA, {"others": [-1]}, "others=-1"),
        (worst_shuffle, SHUFFLE, {"table": [0.5, 0.5]}, "one row per input"),
        (worst_shuffle, SHUFFLE, {"table": np.ones((0, 2))}, "one row per input"),
        (worst_shuffle, SHUFFLE, {"table": [[0.5, 0.4]]}, "rows of sum 1"),
        (worst_shuffle, SHUFFLE, {"table": [[1.5, -0.5]]}, "rows of sum 1"),
        (worst_shuffle, SHUFFLE, {"table": [[math.nan, 1.0]]}, "rows of sum 1"),
        (worst_shuffle, SHUFFLE, {"n": 12}, "cells"),
        (worst_shuffle, SHUFFLE, {"n": 50}, "multisets of inputs"),
    ],
)
def test_what_cannot_be_evaluated_is_refused(evaluate, good, change, says):
    with pytest.raises(InvalidArgumentError, match=says):
        evaluate(**good | change)


def test_laws_of_many_atoms_and_data_of_many_people_do_not_exhaust_the_stack():
    mass = [1 / 4000] * 3000
    law = {"mass": mass, "rho0": [2.0] * 3000, "rho1": [1.0] * 3000}
    assert enumerate_law(**law, n=1, epsilon=0.0) == pytest.approx(0.75)
    assert worst_shuffle([[0.5, 0.5]], n=1200, epsilon=0.0) == 0.0
