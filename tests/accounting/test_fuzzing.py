"""The soundness tests again, for as long as patience lasts: run by ``make test-slow``."""

import numpy as np
import pytest

from shoal.accounting import exact
from shoal.accounting.law import BlanketLaw
from shoal.accounting.profile import PrivacyProfile
from tables import random_table

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("block", range(10))
def test_ten_thousand_random_tables_stay_below_their_bounds(block):
    rng = np.random.default_rng(50_000 + block)
    for index in range(1000):
        table = random_table(rng, zeros=index % 3 == 0)
        n = int(rng.integers(1, 7))
        epsilon = float(rng.uniform(0.0, 1.5))
        truth = exact.worst_shuffle(table, n=n, epsilon=epsilon)
        law = BlanketLaw.from_table(table)
        assert truth <= PrivacyProfile(law, n).delta(epsilon) * (1 + 1e-9) + 1e-15
