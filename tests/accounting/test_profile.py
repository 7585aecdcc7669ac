"""Profiles: the reference values, the whole range of parameters, and the laws of the curve."""

import itertools
import math
from functools import cache, partial

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import shoal
from shoal.accounting import exact
from shoal.accounting.law import BlanketLaw
from shoal.accounting.profile import PrivacyProfile
from tables import randomizer_tables

often = settings(deadline=None, derandomize=True, max_examples=25)
E = math.e
FOUR_EQUAL_ATOMS = BlanketLaw([(0.5 / (E + 1), a, b) for a in (E, 1.0) for b in (E, 1.0)])
LOCALS = (1e-3, 0.1, 1.0, 4.0, 8.0, 15.0)
CROWDS = (1, 2, 10, 10**3, 10**6, 10**9, 10**12)
DELTAS = (1e-2, 1e-6, 1e-12, 1e-30)
DEVIATIONS = st.floats(0.0, 6.0)  # of the privacy loss: delta from 1/2 to 1e-10

# (law, n, epsilon at delta = 1e-6, half a unit of its last printed digit); the clone pairs are held
# against their exact value below.
REFERENCES = [
    (BlanketLaw.generic(4.0), 10**5, 0.118153, 5e-7),
    (BlanketLaw.clones(4.0), 10**5, 0.169770, 5e-7),
    (BlanketLaw.randomized_response(k=100, epsilon=4.0), 10**5, 0.068432, 5e-7),
    (BlanketLaw.randomized_response(k=10, epsilon=1.0), 10**4, 0.023254, 5e-7),
    (BlanketLaw.randomized_response(k=8, epsilon=4.0), 10**4, 0.38746, 5e-6),
    (FOUR_EQUAL_ATOMS, 10**4, 0.029742, 5e-7),
]


@pytest.mark.parametrize(("law", "n", "reference", "printed"), REFERENCES)
def test_reference_values(law, n, reference, printed):
    found = PrivacyProfile(law, n).epsilon(1e-6)
    assert reference - printed <= found <= reference * (1 + 1e-4) + printed


@pytest.mark.parametrize("kind", ["generic", "clones"])
@pytest.mark.parametrize(("local", "n"), [(0.5, 7), (1.0, 10**3), (4.0, 10**5), (8.0, 10**6)])
def test_epsilon_is_never_below_the_exact_value_of_its_pair_and_hardly_above(kind, local, n):
    law = getattr(BlanketLaw, kind)(local)
    clones = 2 / (math.exp(local) + 1) if kind == "generic" else math.exp(-local)
    for delta in (1e-2, 1e-6, 1e-9):
        found = PrivacyProfile(law, n).epsilon(delta)
        if found == 0.0:
            continue
        at = partial(exact.two_atom_delta, n=n, local_epsilon=local, clone_probability=clones)
        assert at(epsilon=found) <= delta * (1 + 1e-9)
        assert at(epsilon=found * (1 - 1e-4)) > delta


@pytest.mark.parametrize(
    ("subject", "n", "at_least"),
    [
        (BlanketLaw.generic(4.0), 10**5, 0.11702),
        (BlanketLaw.generic(1.0), 10**3, 0.1305),
        (BlanketLaw.randomized_response(k=10, epsilon=1.0), 10**4, 0.02325),
    ],
)
def test_the_room_left_is_shown(subject, n, at_least):
    profile = PrivacyProfile(subject, n)
    assert at_least <= profile.lower_epsilon(1e-6) <= profile.epsilon(1e-6)


@cache
def answer(local, n, delta):
    guarantee = shoal.amplify(local_epsilon=local, n=n, delta=delta)
    return guarantee.epsilon, guarantee.lower


@pytest.mark.parametrize("local", LOCALS)
def test_every_setting_has_a_finite_answer_between_its_lower_bound_and_the_local_epsilon(local):
    for n, delta in itertools.product(CROWDS, DELTAS):
        epsilon, lower = answer(local, n, delta)
        assert 0.0 <= lower <= epsilon <= local


def test_answers_are_monotone_along_every_axis():
    for axes in (
        [[(local, n, delta) for local in LOCALS] for n in CROWDS for delta in DELTAS],
        [[(local, n, delta) for n in reversed(CROWDS)] for local in LOCALS for delta in DELTAS],
        [[(local, n, delta) for delta in DELTAS] for local in LOCALS for n in CROWDS],
    ):
        for line in axes:
            values = [answer(*point)[0] for point in line]
            for smaller, larger in itertools.pairwise(values):
                assert smaller <= larger * (1 + 1e-4)


@often
@given(table=randomizer_tables(), n=st.integers(1, 10**6), log_delta=st.floats(-25.0, -1.0))
def test_epsilon_and_delta_are_inverse_and_the_lower_bound_is_below(table, n, log_delta):
    profile = PrivacyProfile(BlanketLaw.from_table(table), n)
    delta = math.exp(log_delta)
    epsilon = profile.epsilon(delta)
    assert 0.0 <= epsilon <= profile.local_epsilon
    assert profile.delta(epsilon) <= delta
    if 1e-6 < epsilon < profile.local_epsilon:
        assert profile.delta(epsilon * (1 - 2e-3)) > delta * (1 - 1e-6)
    assert profile.lower_epsilon(delta) <= epsilon * (1 + 1e-12)
    assert profile.lower_delta(epsilon) <= delta * (1 + 1e-12)


@often
@given(
    local=st.floats(0.05, 6.0),
    n=st.integers(1, 10**7),
    k=st.integers(3, 200),
    deviations=DEVIATIONS,
)
@example(local=1.0, n=1, k=3, deviations=0.0)
@example(local=6.0, n=10**7, k=200, deviations=6.0)
def test_knowing_more_about_the_randomizer_never_costs(local, n, k, deviations):
    laws = (
        BlanketLaw.randomized_response(k=k, epsilon=local),
        BlanketLaw.generic(local),
        BlanketLaw.clones(local),
    )
    epsilon = min(deviations * PrivacyProfile(laws[1], n).spread, 0.9 * local)
    own, any_of_them, clones = (PrivacyProfile(law, n).delta(epsilon) for law in laws)
    assert own <= any_of_them * (1 + 1e-3)
    assert any_of_them <= clones * (1 + 1e-3)


@often
@given(local=st.floats(0.05, 4.0), n=st.integers(1, 10**6), deviations=DEVIATIONS)
@example(local=0.05, n=1, deviations=0.0)
@example(local=4.0, n=10**6, deviations=6.0)
def test_deletion_privacy_is_worth_more_than_the_replacement_privacy_it_implies(
    local, n, deviations
):
    deletion = PrivacyProfile(BlanketLaw.deletion(local), n)
    replacement = PrivacyProfile(BlanketLaw.generic(2 * local), n)
    epsilon = min(deviations * deletion.spread, 0.9 * deletion.local_epsilon)
    delta = deletion.delta(epsilon)
    assert delta <= replacement.delta(epsilon) * (1 + 1e-3)
    assert deletion.lower_delta(epsilon) <= delta


def test_one_person_alone_has_exactly_the_local_divergence():
    table = [[0.7, 0.2, 0.1], [0.1, 0.3, 0.6], [0.3, 0.3, 0.4]]
    profile = PrivacyProfile(BlanketLaw.from_table(table), 1)
    for epsilon in (0.0, 0.5, 1.0, 1.5):
        x = math.exp(epsilon)
        truth = max(
            sum(max(0.0, a - x * b) for a, b in zip(first, second, strict=True))
            for first, second in itertools.permutations(table, 2)
        )
        assert math.isclose(profile.delta(epsilon), truth, rel_tol=3e-9, abs_tol=1e-15)


def test_negative_epsilons_reflect_the_curve():
    profile = PrivacyProfile(BlanketLaw.generic(1.0), 50)
    assert profile.delta(-0.3) == pytest.approx(
        1 - math.exp(-0.3) + math.exp(-0.3) * profile.delta(0.3)
    )
    assert profile.delta(-0.0) == profile.delta(0.0)
    assert profile.delta(1.0) == profile.lower_delta(1.0) == 0.0  # beyond the local epsilon
    composed = profile * 3
    assert composed.delta(-0.3) == pytest.approx(
        1 - math.exp(-0.3) + math.exp(-0.3) * composed.delta(0.3)
    )


def test_outputs_only_one_input_can_send_make_small_deltas_unreachable():
    profile = PrivacyProfile(BlanketLaw.from_table([[0.5, 0.5, 0.0], [0.5, 0.4, 0.1]]), 100)
    assert profile.epsilon(0.2) < math.inf
    with pytest.raises(shoal.UnreachableTargetError, match=r"probability 0\.1"):
        profile.epsilon(0.05)


@pytest.mark.parametrize("delta", [0.0, 1.0, -1e-6, math.nan, 2])
def test_deltas_outside_the_unit_interval_are_refused(delta):
    with pytest.raises(shoal.InvalidArgumentError, match="0 < delta < 1"):
        PrivacyProfile(BlanketLaw.generic(1.0), 10).epsilon(delta)


@pytest.mark.parametrize("n", [0, -3, 1.5, math.nan, math.inf, True, "10", 10**16])
def test_what_is_no_crowd_is_refused(n):
    with pytest.raises(shoal.InvalidArgumentError, match="n="):
        PrivacyProfile(BlanketLaw.generic(1.0), n)
