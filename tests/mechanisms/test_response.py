import numpy as np
import pytest

import shoal
from contract import CategoryContract


class TestRandomizedResponse(CategoryContract):
    small = (2, 3, 5, 8)

    def make(self, k, epsilon):
        return shoal.RandomizedResponse(k=k, epsilon=epsilon)

    def test_a_law_by_formula(self):
        randomizer = shoal.RandomizedResponse(k=6, epsilon=1.5)
        by_table = shoal.BlanketLaw.from_table(randomizer.table())
        assert randomizer.law().local_epsilon == randomizer.local_epsilon
        mass = sorted(by_table.pairs[0].mass)
        assert mass == pytest.approx(sorted(randomizer.law().pairs[0].mass), rel=1e-12)

    @pytest.mark.parametrize("epsilon", [1.0, 4.0])
    def test_the_error_is_as_predicted_for_many_answers(self, epsilon):
        self.check_error(10_000, epsilon)

    def test_the_odds_are_whole_numbers_within_epsilon(self):
        from decimal import Decimal

        for epsilon in np.linspace(0.01, 12, 200).tolist():
            odds = shoal.RandomizedResponse(k=50, epsilon=epsilon).odds
            assert Decimal(odds.high) / Decimal(odds.low) <= Decimal(epsilon).exp()
