"""The integral against sums that share no code with it."""

import math

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from scipy.special import gammaln, logsumexp

from shoal.accounting import enumeration, exact, integral
from shoal.accounting.law import BlanketLaw
from tables import randomizer_tables

often = settings(deadline=None, derandomize=True, max_examples=60)
LAWS = [
    BlanketLaw.generic(1.0),
    BlanketLaw.generic(0.05),
    BlanketLaw.clones(4.0),
    BlanketLaw.randomized_response(k=5, epsilon=2.0),
    BlanketLaw.deletion(1.0),
]


@pytest.fixture
def forced(monkeypatch):
    """Evaluate by the contour integral even where enumeration would do."""
    monkeypatch.setattr(integral.enumeration, "draws", lambda _pair, _n: None)


@pytest.mark.parametrize("local", [0.1, 1.0, 2.0, 4.0, 8.0])
@pytest.mark.parametrize("n", [1, 2, 30, 1000, 10**5, 10**6])
@pytest.mark.parametrize("kind", ["generic", "clones"])
def test_it_encloses_the_exact_double_sum(local, n, kind):
    law = getattr(BlanketLaw, kind)(local)
    clones = 2 / (math.exp(local) + 1) if kind == "generic" else math.exp(-local)
    spread = math.sqrt(law.pairs[0].mass @ law.pairs[0].values(0.0) ** 2 / n)
    for depth in (0.0, 1.0, 3.0, 5.0):
        epsilon = min(depth * spread, 0.999 * local)
        truth = exact.two_atom_delta(
            n=n, epsilon=epsilon, local_epsilon=local, clone_probability=clones
        )
        found = integral.enclose(law.pairs[0], n=n, epsilon=epsilon)
        assert found.lower <= truth * (1 + 1e-9)
        assert found.upper >= truth * (1 - 1e-9)
        assert found.upper <= truth * (1 + 5e-4) + 1e-300


@often
@given(
    table=randomizer_tables(outputs=(2, 4), spread=4.0, zeros=True),
    n=st.integers(1, 40),
    share=st.floats(0.0, 1.0),
)
def test_forced_through_the_contour_it_still_encloses_the_enumeration(table, n, share):
    law = BlanketLaw.from_table(table)
    pair = law.pairs[0]
    epsilon = share**2 * min(pair.local_epsilon, 6.0)
    truth = pair.lost_divergence(epsilon)
    if pair.mass.size:
        truth += exact.enumerate_law(
            mass=pair.mass, rho0=pair.rho0, rho1=pair.rho1, n=min(n, 12), epsilon=epsilon
        )
    for draws in (enumeration.draws, lambda _pair, _n: None):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(integral.enumeration, "draws", draws)
            found = integral.enclose(pair, n=min(n, 12), epsilon=epsilon)
        assert found.lower <= truth * (1 + 1e-9)
        assert found.upper >= truth * (1 - 1e-9) - 1e-300


@pytest.mark.parametrize("law", LAWS)
@pytest.mark.parametrize("n", [20, 60])
@pytest.mark.usefixtures("forced")
def test_the_contour_agrees_with_the_sum_far_into_the_tail(law, n):
    pair = law.pairs[0]
    for share in np.linspace(0, 0.98, 15):
        epsilon = float(share) * pair.local_epsilon
        truth = exact.enumerate_law(
            mass=pair.mass, rho0=pair.rho0, rho1=pair.rho1, n=n, epsilon=epsilon
        )
        found = integral.enclose(pair, n=n, epsilon=epsilon)
        assert found.lower <= truth * (1 + 1e-9)
        assert found.upper >= truth * (1 - 1e-9)


@pytest.mark.parametrize("epsilon", [0.2, 0.5, 0.7, 0.9])
def test_relative_accuracy_survives_delta_1e_100(epsilon):
    law, n = BlanketLaw.generic(1.0), 2000
    truth = _log_two_atom_sum(1.0, n, epsilon)
    found = integral.enclose(law.pairs[0], n=n, epsilon=epsilon)
    assert truth < -20
    assert found.log_lower <= truth + 1e-7
    assert truth - 1e-7 <= found.log_upper <= truth + 2e-3


def _log_two_atom_sum(local, n, epsilon):
    """log of (1/n) E[(S)_+] for the optimal clones, every (number of draws, split) summed."""
    e, x = math.exp(local), math.exp(epsilon)
    total = np.arange(n + 1)[:, None]
    first = np.arange(n + 1)[None, :]
    inside = first <= total
    value = first * (e - x) + (total - first) * (1 - e * x)

    log_chance = (
        gammaln(n + 1)
        - gammaln(n - total + 1)
        - gammaln(first + 1)
        - gammaln(np.maximum(total - first, 0) + 1)
        - total * math.log(e + 1)
        + (n - total) * math.log((e - 1) / (e + 1))
    )
    kept = inside & (value > 0)
    return float(logsumexp(log_chance[kept], b=value[kept])) - math.log(n)


@pytest.mark.parametrize("law", LAWS)
def test_delta_is_zero_from_the_local_epsilon_on_and_only_there(law):
    (pair, *_) = law.pairs
    beyond = integral.enclose(pair, n=1000, epsilon=pair.local_epsilon * 1.001)
    assert beyond.upper == 0.0
    before = integral.enclose(pair, n=1000, epsilon=pair.local_epsilon * 0.999)
    assert before.upper > 0.0


@often
@given(
    local=st.floats(0.001, 15.0),
    log_n=st.floats(0.0, 27.6),
    share=st.floats(0.0, 0.999),
)
def test_the_enclosure_is_an_interval_of_probabilities_for_any_crowd(local, log_n, share):
    n = int(math.exp(log_n))
    for law in (BlanketLaw.generic(local), BlanketLaw.randomized_response(k=7, epsilon=local)):
        found = integral.enclose(law.pairs[0], n=n, epsilon=share * local)
        assert 0.0 <= found.lower <= found.upper <= 1.0
        assert found.log_lower <= found.log_upper


@often
@given(
    table=randomizer_tables(outputs=(3, 4)),
    n=st.integers(2, 10**9),
    share=st.floats(0.0, 0.9),
)
def test_more_people_never_hurt(table, n, share):
    pair = BlanketLaw.from_table(table).pairs[0]
    assume(pair.local_epsilon > 1e-3)
    epsilon = share * pair.local_epsilon
    few = integral.enclose(pair, n=n // 2, epsilon=epsilon)
    many = integral.enclose(pair, n=n, epsilon=epsilon)
    assert many.log_lower <= few.log_upper


@pytest.mark.parametrize("n", [10**3, 10**6, 10**9, 10**12])
def test_the_width_asked_for_is_kept(n):
    for local in (0.1, 1.0, 4.0, 10.0):
        pair = BlanketLaw.generic(local).pairs[0]
        spread = math.sqrt(pair.mass @ pair.values(0.0) ** 2 / n)
        found = integral.enclose(pair, n=n, epsilon=min(4 * spread, 0.9 * local))
        assert found.gap <= integral.TOLERANCE
