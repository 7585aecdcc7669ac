"""What every randomizer of numbers must do; each one's tests inherit it."""

from __future__ import annotations

import math
from decimal import Decimal

import numpy as np
import pytest
from scipy import stats

from shoal import randomness
from shoal.accounting.law import BlanketLaw
from shoal.accounting.profile import PrivacyProfile
from shoal.errors import InvalidArgumentError
from shoal.values import Batch, Counts
from tables import check_same_curve

EPSILONS = (0.1, 1.0, 4.0, 8.0)
RARE = 1e-7


class NumberContract:
    """Inherit, and define ``make(epsilon, **bounds)`` and ``coarse(epsilon)``, of few levels."""

    def make(self, epsilon, low=-2.0, high=3.0):
        raise NotImplementedError

    def coarse(self, epsilon):
        raise NotImplementedError

    def weights(self, randomizer):
        """The table in whole numbers, from the randomizer's total."""
        exact = randomizer.table() * randomizer._odds.total
        weights = np.rint(exact)
        assert np.abs(exact - weights).max() < 1.0
        return weights.astype(np.int64)

    @pytest.mark.parametrize("epsilon", EPSILONS)
    def test_the_table_keeps_epsilon_exactly(self, epsilon):
        for randomizer in (self.coarse(epsilon), self.make(epsilon)):
            weights = self.weights(randomizer)
            assert (weights.sum(axis=1) == randomizer._odds.total).all()
            assert (weights > 0).all()
            allowed = Decimal(epsilon).exp()
            for y in range(weights.shape[1]):
                high, low = int(weights[:, y].max()), int(weights[:, y].min())
                assert Decimal(high) <= allowed * Decimal(low)
            assert randomizer.local_epsilon <= epsilon
            ratio = math.log((weights.max(axis=0) / weights.min(axis=0)).max())
            assert ratio == pytest.approx(randomizer.local_epsilon, rel=1e-9)

    @pytest.mark.parametrize("epsilon", EPSILONS)
    def test_the_law_is_that_of_the_worst_pair_of_the_table(self, epsilon):
        randomizer = self.coarse(epsilon)
        from_table = BlanketLaw.from_table(randomizer.table())
        for n in (3, 50, 10**4):
            check_same_curve(randomizer.law(), from_table, n)

    def test_the_law_promises_no_more_than_any_pair_of_levels_of_a_fine_table_keeps(self):
        randomizer = self.make(2.0)
        table = randomizer.table()
        blanket = table.min(axis=0)
        last = len(table) - 1
        mine = PrivacyProfile(randomizer.law(), 1000)
        epsilon = 4.5 * mine.spread
        for a, b in ((0, last), (0, last // 2), (last // 3, last), (last // 2, last)):
            pairs = zip(blanket, table[a] / blanket, table[b] / blanket, strict=True)
            pair = BlanketLaw([tuple(map(float, atom)) for atom in pairs])
            kept = PrivacyProfile(pair, 1000).delta(epsilon)
            assert kept <= mine.delta(epsilon) * (1 + 1e-6)

    def test_the_witnesses_stay_below_the_law(self):
        randomizer = self.make(2.0)
        profile = PrivacyProfile(randomizer.law(), 1000)
        epsilon = 4.5 * profile.spread
        assert 0 < profile.lower_delta(epsilon) <= profile.delta(epsilon)

    @pytest.mark.parametrize("epsilon", [0.5, 4.0])
    def test_the_sampler_follows_the_table(self, epsilon):
        randomizer = self.coarse(epsilon)
        table = randomizer.table()
        n = 40_000
        grid = np.linspace(randomizer.low, randomizer.high, randomizer.levels)
        for level, value in enumerate(grid):
            source = randomness.simulated(level)
            messages = randomizer.randomize(np.full(n, value), randomness=source)
            seen = np.bincount(messages, minlength=randomizer.outputs)
            assert stats.chisquare(seen, n * table[level]).pvalue > RARE

    def test_numbers_between_levels_are_mixtures_of_two(self):
        randomizer = self.coarse(1.0)
        n = 40_000
        step = (randomizer.high - randomizer.low) / (randomizer.levels - 1)
        value = randomizer.high - 0.3 * step
        messages = randomizer.randomize(np.full(n, value), randomness=randomness.simulated(4))
        seen = np.bincount(messages, minlength=randomizer.outputs)
        mixture = 0.3 * randomizer.table()[-2] + 0.7 * randomizer.table()[-1]
        assert stats.chisquare(seen, n * mixture).pvalue > RARE

    @pytest.mark.parametrize("epsilon", EPSILONS)
    def test_the_scores_are_unbiased_at_every_level(self, epsilon):
        for randomizer in (self.coarse(epsilon), self.make(epsilon)):
            table, levels = randomizer.table(), np.arange(randomizer.levels)
            assert (
                np.abs(table @ randomizer.estimator.scores - levels).max()
                < 1e-9 * randomizer.levels
            )
            squares = table @ randomizer.estimator.square_scores
            assert np.abs(squares - levels**2).max() < 1e-8 * randomizer.levels**2
            moments = table @ randomizer.estimator.scores**2
            assert moments == pytest.approx(randomizer.estimator.moments, rel=1e-9)

    @pytest.mark.parametrize("epsilon", EPSILONS)
    def test_the_largest_variance_is_attained_and_never_exceeded(self, epsilon):
        randomizer = self.coarse(epsilon)
        places = np.linspace(0, randomizer.levels - 1, 20_001)
        moments = np.interp(places, np.arange(randomizer.levels), randomizer.estimator.moments)
        step = (randomizer.high - randomizer.low) / (randomizer.levels - 1)
        largest = step**2 * (moments - places**2).max()
        assert randomizer.variance(n=7) * 7 == pytest.approx(largest, rel=1e-6)
        assert largest <= randomizer.variance(n=1) * (1 + 1e-12)

    @pytest.mark.parametrize("epsilon", EPSILONS)
    def test_a_lie_is_about_as_far_off_as_limits_count_on(self, epsilon):
        """The third moment of the error of a level is the jump times its variance, at most."""
        randomizer = self.coarse(epsilon)
        for level, row in enumerate(randomizer.table()):
            errors = randomizer.step * (randomizer.estimator.scores - level)
            expected = Counts(np.rint(row * 10**9).astype(np.int64), 10**9)
            jump = randomizer.estimate(expected).noise.jump
            assert abs(row @ errors**3) <= 1.1 * jump * (row @ errors**2)

    @pytest.mark.parametrize("epsilon", [1.0, 6.0])
    @pytest.mark.parametrize("value", [-2.0, 0.123, 3.0])
    def test_everybody_on_one_number_is_estimated_as_it(self, epsilon, value):
        randomizer = self.make(epsilon)
        n = 50_000
        messages = randomizer.randomize(np.full(n, value), randomness=randomness.simulated(9))
        estimate = randomizer.estimate(Batch(messages))
        assert estimate.n == n
        assert abs(estimate.mean - value) <= 6 * math.sqrt(randomizer.variance(n=n))
        assert estimate.standard_error <= math.sqrt(randomizer.variance(n=n)) * (1 + 1e-12)

    @pytest.mark.parametrize("epsilon", [1.0, 6.0])
    def test_the_standard_error_is_the_error(self, epsilon):
        randomizer = self.make(epsilon)
        n, runs = 2000, 400
        values = np.full(n, 0.777)
        source = randomness.simulated(11)
        found = [
            randomizer.estimate(Batch(randomizer.randomize(values, randomness=source)))
            for _ in range(runs)
        ]
        mean_square = np.mean([(e.mean - 0.777) ** 2 for e in found])
        claimed = np.mean([e.standard_error**2 for e in found])
        assert claimed == pytest.approx(mean_square, rel=0.3)

    def test_bounds_only_move_and_stretch_the_answer(self):
        unit, wide = self.make(1.0, low=0.0, high=1.0), self.make(1.0, low=-10.0, high=30.0)
        values = np.linspace(0, 1, 1001)
        first = unit.randomize(values, randomness=randomness.simulated(2))
        counts = unit.tally(first)
        assert wide.estimate(counts).mean == pytest.approx(unit.estimate(counts).mean * 40 - 10)
        assert wide.variance(n=3) == pytest.approx(1600 * unit.variance(n=3))

    @pytest.mark.parametrize("epsilon", [0.0, -1.0, math.nan, math.inf, 31.0, 1e-18])
    def test_what_is_no_epsilon_is_refused(self, epsilon):
        with pytest.raises(InvalidArgumentError):
            self.make(epsilon)

    @pytest.mark.parametrize("bounds", [(1.0, 1.0), (2.0, 1.0), (0.0, math.inf), (-1e308, 1.7e308)])
    def test_what_are_no_bounds_is_refused(self, bounds):
        with pytest.raises(InvalidArgumentError):
            self.make(1.0, low=bounds[0], high=bounds[1])
