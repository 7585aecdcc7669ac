import math
from operator import attrgetter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import shoal
from shoal.accounting.atoms import PairLaw
from shoal.accounting.law import BlanketLaw
from tables import randomizer_tables

exact = settings(deadline=None, derandomize=True, max_examples=40)


def alike(one, other):
    """Whether two pairs have the same atoms, up to float noise."""
    parts = attrgetter("mass", "rho0", "rho1", "lost0", "lost1")
    return all(
        a.shape == b.shape and np.allclose(a, b, rtol=1e-11, atol=0)
        for a, b in zip(parts(one), parts(other), strict=True)
    )


def same(one, other):
    """Whether two laws have the same pairs, up to float noise."""
    return all(
        any(alike(pair, candidate) for candidate in theirs.pairs)
        for mine, theirs in ((one, other), (other, one))
        for pair in mine.pairs
    )


@exact
@given(k=st.integers(2, 12), epsilon=st.floats(0.05, 8.0))
def test_the_table_of_randomized_response_has_the_law_of_its_formula(k, epsilon):
    table = shoal.RandomizedResponse(k=k, epsilon=epsilon).table()
    from_table = BlanketLaw.from_table(table, local_epsilon=epsilon)
    formula = BlanketLaw.randomized_response(k=k, epsilon=epsilon)
    assert same(from_table, formula)


@exact
@given(table=randomizer_tables(zeros=True))
def test_every_pair_of_a_table_is_normalised_and_both_orders_are_covered(table):
    law = BlanketLaw.from_table(table)
    for pair in law.pairs:
        for ratio, lost in ((pair.rho0, pair.lost0), (pair.rho1, pair.lost1)):
            assert math.isclose(pair.mass @ ratio + lost.sum(), 1.0, abs_tol=1e-12)
        assert any(alike(pair.reversed(), other) for other in law.pairs)
        assert pair.reversed().reversed() == pair


@exact
@given(table=randomizer_tables(inputs=4))
def test_permuting_inputs_and_outputs_does_not_change_the_law(table):
    shuffled = table[[2, 0, 3, 1]][:, ::-1]
    mine, theirs = BlanketLaw.from_table(table), BlanketLaw.from_table(shuffled)
    assert same(mine, theirs)


@exact
@given(table=randomizer_tables(), share=st.floats(0.01, 0.99))
def test_participation_is_the_table_with_one_more_output(table, share):
    silent = np.hstack([share * table, np.full((len(table), 1), 1 - share)])
    taking_part = BlanketLaw.from_table(table).participating(share)
    assert same(taking_part, BlanketLaw.from_table(silent))


@pytest.mark.parametrize("epsilon", [0.01, 0.5, 1.0, 4.0, 15.0])
def test_generic_laws_are_normalised_and_state_their_local_epsilon(epsilon):
    for law in (BlanketLaw.generic(epsilon), BlanketLaw.clones(epsilon)):
        assert law.local_epsilon == epsilon
        (pair,) = law.pairs
        assert math.isclose(pair.mass @ pair.rho0, 1.0, rel_tol=1e-12)
    assert BlanketLaw.deletion(epsilon).local_epsilon == 2 * epsilon


@pytest.mark.parametrize("epsilon", [0.05, 0.3, math.log(2), 1.0, 3.0])
def test_the_deletion_witness_is_a_deletion_private_randomizer(epsilon):
    a = math.exp(epsilon)
    law = BlanketLaw.deletion(epsilon)
    (witness,) = law.witnesses
    others = witness.mass
    first, second = others * witness.rho0, others * witness.rho1
    # The reference of the extremal randomizer, recovered from R_0 and R_1.
    reference = np.where(
        np.isclose(first, second), first * a, np.where(first > second, first / a, second / a)
    )
    assert math.isclose(reference.sum(), 1.0, rel_tol=1e-9)
    for row in (first, second, others):
        assert math.isclose(row.sum(), 1.0, rel_tol=1e-9)
        ratios = row / reference
        assert ratios.max() <= a * (1 + 1e-9)
        assert ratios.min() >= (1 - 1e-9) / a


def test_one_list_of_atoms_or_several_are_accepted():
    e = math.e
    atoms = [(1 / (e + 1), e, 1.0), (1 / (e + 1), 1.0, e)]
    assert BlanketLaw(atoms).pairs == BlanketLaw([atoms]).pairs == BlanketLaw.generic(1.0).pairs
    assert BlanketLaw([PairLaw.of(atoms)]) == BlanketLaw(atoms)
    assert hash(BlanketLaw(atoms)) == hash(BlanketLaw([atoms]))


def test_a_lopsided_list_gets_its_mirror_image():
    law = BlanketLaw([(0.2, 3.0, 1.0), (0.4, 1.0, 2.0)])
    assert len(law.pairs) == 2
    assert law.pairs[0].reversed() == law.pairs[1]


@pytest.mark.parametrize(
    ("atoms", "says"),
    [
        ([(0.5, 1.0, 1.0)], "mass"),
        ([(1.5, 1.0, 1.0)], "mass"),
        ([(-0.5, 1.0, 1.0), (1.5, 1.0, 1.0)], "non-negative"),
        ([(math.nan, 1.0, 1.0)], "finite"),
        ([], "at least one"),
        ([(0.9, 1.0, 1 / 9), (0.1, 1.0, 9.0)], "rho1 >= 1"),
    ],
)
def test_what_is_not_a_law_is_refused(atoms, says):
    with pytest.raises(shoal.InvalidArgumentError, match=says):
        BlanketLaw(atoms)


@pytest.mark.parametrize(
    ("table", "says"),
    [
        ([[0.5, 0.6], [0.5, 0.5]], "sum to 1"),
        ([[0.5, 0.5]], "at least 2 inputs"),
        ([0.5, 0.5], "2-D"),
        ([[1.2, -0.2], [0.5, 0.5]], "probabilities >= 0"),
        ([[math.nan, 1.0], [0.5, 0.5]], "probabilities >= 0"),
        ([["a", "b"], ["c", "d"]], "table of numbers"),
        ([[0.5, 0.5], [1.0]], "table of numbers"),
    ],
)
def test_what_is_not_a_table_is_refused(table, says):
    with pytest.raises(shoal.InvalidArgumentError, match=says):
        BlanketLaw.from_table(table)


def test_an_entry_that_breaks_the_claim_is_named():
    table = [[0.8, 0.2], [0.2, 0.8]]
    assert BlanketLaw.from_table(table, local_epsilon=math.log(4)).local_epsilon == math.log(4)
    with pytest.raises(shoal.InvalidArgumentError, match=r"local_epsilon=1, got table\[0, 0\]"):
        BlanketLaw.from_table(table, local_epsilon=1.0)
    with pytest.raises(shoal.InvalidArgumentError, match="e\\^inf"):
        BlanketLaw.from_table([[1.0, 0.0], [0.5, 0.5]], local_epsilon=10.0)


@pytest.mark.parametrize("epsilon", [-1.0, math.nan, math.inf, 301.0])
def test_impossible_local_epsilons_are_refused(epsilon):
    with pytest.raises(shoal.InvalidArgumentError, match="local_epsilon"):
        BlanketLaw.generic(epsilon)
