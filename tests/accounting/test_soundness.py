"""No upper bound below a divergence that brute force finds."""

import math

import numpy as np
import pytest

from shoal.accounting import exact, integral
from shoal.accounting.law import BlanketLaw
from shoal.accounting.profile import PrivacyProfile
from tables import random_table

TABLES = 50
BLOCKS = [*range(8), *(pytest.param(block, marks=pytest.mark.slow) for block in range(8, 208))]


@pytest.mark.parametrize("block", BLOCKS)
def test_no_random_table_beats_its_bound(block):
    rng = np.random.default_rng(20_000 + block)
    for index in range(TABLES):
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
