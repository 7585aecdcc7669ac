"""No upper bound below a divergence that brute force finds."""

import math

import numpy as np
import pytest

from shoal.accounting import exact, integral
from shoal.accounting.atoms import PairLaw
from shoal.accounting.catalog import variation_ratio
from shoal.accounting.law import BlanketLaw
from shoal.accounting.profile import PrivacyProfile
from tables import random_table

TABLES = 400


@pytest.mark.parametrize("block", range(8))
def test_no_random_table_beats_its_bound(block):
    rng = np.random.default_rng(20_000 + block)
    for index in range(TABLES // 8):
        table = random_table(rng, zeros=index % 3 == 0)
        n = int(rng.integers(1, 7))
        epsilon = float(rng.uniform(0.0, 1.5))
        truth = exact.worst_shuffle(table, n=n, epsilon=epsilon)
        law = BlanketLaw.from_table(table)
        profile = PrivacyProfile(law, n)
        assert truth <= profile.delta(epsilon) * (1 + 1e-9) + 1e-15
        assert profile.lower_delta(epsilon) <= truth * (1 + 1e-9) + 1e-15
        if math.isfinite(law.local_epsilon):
            generic = PrivacyProfile(BlanketLaw.generic(law.local_epsilon), n)
            assert truth <= generic.delta(epsilon) * (1 + 1e-9) + 1e-15


def test_every_witness_of_a_table_is_a_divergence_of_that_table():
    rng = np.random.default_rng(7)
    for _ in range(20):
        table = random_table(rng)
        n, epsilon = 4, 0.3
        truth = exact.worst_shuffle(table, n=n, epsilon=epsilon)
        for witness in BlanketLaw.from_table(table).witnesses:
            assert integral.enclose(witness, n=n, epsilon=epsilon).lower <= truth * (1 + 1e-9)


def test_the_counterexample_to_variation_ratio_exceeds_its_claim_but_not_our_bound():
    e, alpha, n, epsilon = math.e, 0.05, 100, 0.3
    # R_2 = (a, a, w/e, u e) sums to one: w/e + u e = 1 - 2a with w + u = 1 - (e + 1) a.
    w = ((1 - (e + 1) * alpha) * e - (1 - 2 * alpha)) / (e - 1 / e)
    u = 1 - (e + 1) * alpha - w
    table = np.array(
        [
            [e * alpha, alpha, w, u],
            [alpha, e * alpha, w, u],
            [alpha, alpha, w / e, u * e],
        ]
    )
    law = BlanketLaw.from_table(table, local_epsilon=1.0)
    others = table[2]
    witness = PairLaw.of(zip(others, table[0] / others, table[1] / others, strict=True))
    truth = integral.enclose(witness, n=n, epsilon=epsilon)
    claimed = variation_ratio.claimed_delta(
        local_epsilon=1.0, total_variation=(e - 1) * alpha, n=n, epsilon=epsilon
    )
    assert truth.lower == pytest.approx(1.933e-9, rel=1e-3)
    assert claimed == pytest.approx(8.26e-11, rel=1e-2)
    assert truth.lower > 20 * claimed
    assert PrivacyProfile(law, n).delta(epsilon) >= truth.lower
