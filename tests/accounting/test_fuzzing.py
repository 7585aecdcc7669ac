"""The soundness tests again, for as long as patience lasts: run by ``make test-slow``."""

import math

import numpy as np
import pytest

from shoal.accounting import enumeration, exact, integral
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


@pytest.mark.parametrize("block", range(10))
def test_the_contour_never_misses_what_enumeration_finds(block):
    rng = np.random.default_rng(60_000 + block)
    for _ in range(300):
        local = float(np.exp(rng.uniform(-4, 2.3)))
        law = (
            BlanketLaw.generic(local)
            if rng.random() < 0.5
            else BlanketLaw.randomized_response(k=int(rng.integers(2, 50)), epsilon=local)
        )
        pair = law.pairs[0]
        n = int(np.exp(rng.uniform(0, 6)))
        epsilon = float(rng.uniform(0, 1) ** 2 * pair.local_epsilon)
        listed = enumeration.draws(pair, n)
        if listed is None:
            continue
        truth = enumeration.enclose(pair, listed, n=n, epsilon=epsilon)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(integral.enumeration, "draws", lambda _pair, _n: None)
            found = integral.enclose(pair, n=n, epsilon=epsilon)
        if truth.log_upper > -400:
            assert found.log_lower <= truth.log_upper + 1e-12
            assert found.log_upper >= truth.log_lower - 1e-12 or truth.log_lower == -math.inf
