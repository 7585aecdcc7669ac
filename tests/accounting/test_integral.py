"""What every enclosure must be; test_certificate.py asks whether it holds the truth."""

import math

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from shoal.accounting import integral
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
