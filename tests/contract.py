"""What every randomizer of categories must do; each one's tests inherit it."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

import shoal
from shoal import randomness
from shoal.accounting.law import BlanketLaw
from shoal.values import Batch
from tables import check_same_curve

EPSILONS = (0.1, 0.5, 1.0, 2.0, 4.0, 8.0)
RARE = 1e-7  # a correct build fails a test at this level once in ten million


class CategoryContract:
    """Inherit, and define ``make(k, epsilon)``; ``small`` are sizes whose table can be listed."""

    small = (2, 3, 5)

    def make(self, k, epsilon):
        raise NotImplementedError

    def column_of(self, randomizer, messages):
        """The table's column of each message; messages that are numbers are their own column."""
        del randomizer
        return messages

    @pytest.mark.parametrize("epsilon", EPSILONS)
    def test_the_table_keeps_epsilon_exactly(self, epsilon):
        for k in self.small:
            randomizer = self.make(k, epsilon)
            table = randomizer.table()
            assert table.shape[0] == k
            assert np.allclose(table.sum(axis=1), 1.0, atol=1e-12)
            assert (table > 0).all()
            assert randomizer.local_epsilon <= epsilon
            ratio = math.log((table.max(axis=0) / table.min(axis=0)).max())
            assert ratio <= epsilon * (1 + 1e-12)
            assert ratio == pytest.approx(randomizer.local_epsilon, rel=1e-6)

    @pytest.mark.parametrize("epsilon", EPSILONS)
    def test_the_law_is_the_law_of_the_table(self, epsilon):
        for k in self.small:
            randomizer = self.make(k, epsilon)
            from_table = BlanketLaw.from_table(randomizer.table())
            for n in (3, 50, 10**4):
                check_same_curve(randomizer.law(), from_table, n)

    @pytest.mark.parametrize("epsilon", [0.5, 2.0])
    def test_the_sampler_follows_the_table(self, epsilon):
        for k in self.small:
            randomizer = self.make(k, epsilon)
            table = randomizer.table()
            n = 40_000
            for answer in range(k):
                source = randomness.simulated(1000 * k + answer)
                messages = randomizer.randomize(np.full(n, answer), randomness=source)
                columns = self.column_of(randomizer, messages)
                seen = np.bincount(columns, minlength=table.shape[1])
                assert stats.chisquare(seen, n * table[answer]).pvalue > RARE

    @pytest.mark.parametrize("epsilon", EPSILONS)
    def test_everybody_on_one_answer_is_estimated_as_one(self, epsilon):
        k, n = 10, 40_000
        randomizer = self.make(k, epsilon)
        source = randomness.simulated(77)
        for answer in (0, 7):
            messages = randomizer.randomize(np.full(n, answer), randomness=source)
            estimate = randomizer.estimate(Batch(messages))
            truth = np.zeros(k)
            truth[answer] = 1.0
            errors = np.sqrt(randomizer.variance(truth, n=n))
            assert (np.abs(estimate.frequencies - truth) <= 6.5 * errors + 1e-9).all()

    @pytest.mark.parametrize("epsilon", [1.0, 4.0])
    @pytest.mark.parametrize("k", [10, 100, 1000])
    def test_the_error_is_as_predicted(self, k, epsilon):
        self.check_error(k, epsilon)

    def check_error(self, k, epsilon):
        """The sum of k squares over r runs has deviation sqrt(2/(k r)): 5 of them are 10 %.

        Five reports of each answer, at least, make its estimate normal enough for that.
        """
        n, runs = max(400, 5 * k), math.ceil(2 * (5.2 / 0.1) ** 2 / k)
        randomizer = self.make(k, epsilon)
        weights = 1 / np.arange(1, k + 1)
        truth_counts = np.floor(n * weights / weights.sum()).astype(int)
        truth_counts[0] += n - truth_counts.sum()
        values, truth = np.arange(k).repeat(truth_counts), truth_counts / n
        source = randomness.simulated(k)
        squares = claimed = 0.0
        for _ in range(runs):
            messages = randomizer.randomize(values, randomness=source)
            estimate = randomizer.estimate(Batch(messages))
            squares += float(((estimate.frequencies - truth) ** 2).sum())
            claimed += float((estimate.standard_errors**2).sum())
        predicted = float(randomizer.variance(truth, n=n).sum())
        assert squares / runs == pytest.approx(predicted, rel=0.1)
        assert claimed / runs == pytest.approx(predicted, rel=0.1)

    @pytest.mark.parametrize("epsilon", [0.0, -1.0, math.nan, math.inf])
    def test_what_is_no_epsilon_is_refused(self, epsilon):
        with pytest.raises(shoal.InvalidArgumentError):
            self.make(10, epsilon)

    @pytest.mark.parametrize("k", [0, 1, -2, 2.5])
    def test_what_is_no_number_of_answers_is_refused(self, k):
        with pytest.raises(shoal.InvalidArgumentError):
            self.make(k, 1.0)
