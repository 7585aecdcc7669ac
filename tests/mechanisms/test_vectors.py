from __future__ import annotations

import math
from decimal import Decimal, localcontext

import numpy as np
import pytest
from scipy import stats

from shoal import randomness
from shoal.accounting.law import BlanketLaw
from shoal.accounting.profile import PrivacyProfile
from shoal.errors import InvalidArgumentError
from shoal.mechanisms.vectors import CapNoise, PrivUnit, PrivUnitG
from shoal.values import Batch

RARE = 1e-7


def unit_vectors(n, d):
    source = randomness.simulated(d)
    raw = source.below(2001, n * d).reshape(n, d).astype(float) - 1000.5
    return raw / np.linalg.norm(raw, axis=1)[:, None]


@pytest.mark.parametrize("kind", [PrivUnit, PrivUnitG])
class TestVectors:
    @pytest.mark.parametrize("epsilon", [0.1, 1.0, 8.0, 30.0])
    @pytest.mark.parametrize("d", [2, 5, 100, 10_000])
    def test_the_odds_keep_epsilon_exactly(self, kind, d, epsilon):
        randomizer = kind(dimension=d, epsilon=epsilon)
        with localcontext(prec=80):
            c = Decimal(randomizer.cap)
            p = Decimal(randomizer._choice) / 2**62
            ratio = p * (1 - c) / (c * (1 - p))
            assert ratio <= Decimal(epsilon).exp()
            assert float(ratio.ln()) == pytest.approx(epsilon, rel=1e-6)
        assert randomizer.local_epsilon <= epsilon
        assert 0 < randomizer.cap <= 0.5

    @pytest.mark.parametrize(("d", "epsilon"), [(5, 1.0), (5, 6.0), (100, 1.0), (100, 8.0)])
    def test_the_error_is_as_predicted(self, kind, d, epsilon):
        randomizer = kind(dimension=d, epsilon=epsilon)
        n = 20_000
        vectors = unit_vectors(n, d)
        messages = randomizer.randomize(vectors, randomness=randomness.simulated(1))
        reports = messages / 2.0**24 / randomizer.shrinkage
        mean_square = ((reports - vectors) ** 2).sum(axis=1).mean()
        assert mean_square == pytest.approx(randomizer.variance(n=1), rel=0.03)
        estimate = randomizer.estimate(Batch(messages))
        error = ((estimate.mean - vectors.mean(axis=0)) ** 2).sum()
        claimed = (estimate.standard_errors**2).sum()
        assert error < claimed * stats.chi2.isf(RARE, d) / d
        assert claimed >= 0.95 * randomizer.variance(n=n)

    @pytest.mark.parametrize("d", [2, 5, 60])
    def test_reports_are_unbiased_along_their_vector(self, kind, d):
        randomizer = kind(dimension=d, epsilon=3.0)
        n = 40_000
        vector = unit_vectors(1, d)
        messages = randomizer.randomize(
            vector.repeat(n, axis=0), randomness=randomness.simulated(6)
        )
        estimate = randomizer.estimate(Batch(messages))
        gaps = (estimate.mean - vector[0]) / estimate.standard_errors
        assert np.abs(gaps).max() < 6
        assert estimate.sum == pytest.approx(estimate.mean * n)

    @pytest.mark.parametrize("d", [3, 40])
    def test_reports_follow_the_reference_law_in_and_out_of_the_cap(self, kind, d):
        randomizer = kind(dimension=d, epsilon=2.0)
        n = 20_000
        vector = unit_vectors(1, d)
        messages = randomizer.randomize(
            vector.repeat(n, axis=0), randomness=randomness.simulated(7)
        )
        heights = messages / 2.0**24 @ vector[0]
        a = (d - 1) / 2
        by_kind = {
            PrivUnit: stats.beta(a, a, loc=-1, scale=2),
            PrivUnitG: stats.norm(scale=1 / math.sqrt(d)),
        }
        ranks = by_kind[kind].sf(heights)
        inside = ranks < randomizer.cap
        p = randomizer._choice / 2**62
        assert stats.binomtest(int(inside.sum()), n, p).pvalue > RARE
        assert stats.kstest(ranks[inside] / randomizer.cap, "uniform").pvalue > RARE
        beyond = (ranks[~inside] - randomizer.cap) / (1 - randomizer.cap)
        assert stats.kstest(beyond, "uniform").pvalue > RARE

    @pytest.mark.parametrize(("d", "epsilon"), [(2, 1.0), (3, 8.0), (20, 4.0)])
    def test_limits_know_the_moments_along_the_vector(self, kind, d, epsilon):
        """The law of <u, v>, in 10,000 slices of equal mass, of the cap and of the rest."""
        randomizer = kind(dimension=d, epsilon=epsilon)
        slices, cap = (np.arange(10_000) + 0.5) / 10_000, randomizer.cap
        inside = -randomizer._heights(slices * cap)
        outside = randomizer._heights(slices * (1 - cap))
        p, m = randomizer._choice / 2**62, randomizer.shrinkage
        moments = [
            p * np.mean((inside / m - 1) ** power) + (1 - p) * np.mean((outside / m - 1) ** power)
            for power in (1, 2, 3)
        ]
        noise = CapNoise(randomizer=randomizer)
        assert moments[0] == pytest.approx(0, abs=1e-3)
        assert moments[1] == pytest.approx(randomizer.spread[0], rel=1e-2)
        assert noise.deviation(np.ones(1)) == pytest.approx(math.sqrt(randomizer.spread[0]))
        ratio = -moments[2] / moments[1]
        assert 0 < ratio <= noise.jump * 1.01
        if kind is PrivUnit:
            assert ratio == pytest.approx(noise.jump, rel=1e-2)
            assert randomizer.spread[0] == pytest.approx(randomizer.spread[1], rel=1e-4)

    def test_the_cap_is_the_best_one(self, kind):
        randomizer = kind(dimension=20, epsilon=4.0)
        shares = np.geomspace(1e-4, 0.5, 500)
        _, errors = randomizer._performance(shares)
        assert randomizer.variance(n=1) <= errors.min() * (1 + 1e-12)

    def test_the_law_is_between_the_others_alike_and_any_randomizer(self, kind):
        randomizer = kind(dimension=50, epsilon=4.0)
        profile = PrivacyProfile(randomizer.law(), 10**4)
        generic = PrivacyProfile(BlanketLaw.generic(4.0), 10**4)
        assert 0 < profile.lower_epsilon(1e-6) <= profile.epsilon(1e-6) < generic.epsilon(1e-6)

    def test_opposite_caps_are_the_worst_pair_of_a_discrete_circle(self, kind):
        randomizer = kind(dimension=2, epsilon=2.0)
        cap = randomizer.cap
        points = min(range(20, 30), key=lambda p: abs(p * cap - round(p * cap)) / p)
        width = round(points * cap)
        offsets = (np.arange(points) - np.arange(points)[:, None]) % points
        weights = np.where(offsets < width, math.exp(2.0), 1.0)
        table = weights / weights.sum(axis=1, keepdims=True)
        by_table = PrivacyProfile(BlanketLaw.from_table(table), 100).epsilon(1e-4)
        mine = PrivacyProfile(randomizer.law(), 100).epsilon(1e-4)
        assert mine == pytest.approx(by_table, rel=0.02)

    def test_blocks_do_not_change_the_law_of_reports(self, kind, monkeypatch):
        monkeypatch.setattr("shoal.mechanisms.vectors._BLOCK", 64)
        randomizer = kind(dimension=10, epsilon=8.0)
        vectors = unit_vectors(2000, 10)
        messages = randomizer.randomize(vectors, randomness=randomness.simulated(2))
        reports = messages / 2.0**24 / randomizer.shrinkage
        squares = ((reports - vectors) ** 2).sum(axis=1)
        assert squares.mean() == pytest.approx(randomizer.variance(n=1), rel=0.2)

    @pytest.mark.parametrize("epsilon", [0.0, -1.0, math.nan, math.inf, 31.0])
    def test_what_is_no_epsilon_is_refused(self, kind, epsilon):
        with pytest.raises(InvalidArgumentError):
            kind(dimension=3, epsilon=epsilon)

    @pytest.mark.parametrize("dimension", [1, 0, 2.5, 10**9])
    def test_what_is_no_dimension_is_refused(self, kind, dimension):
        with pytest.raises(InvalidArgumentError):
            kind(dimension=dimension, epsilon=1.0)


def test_the_normal_variant_is_nearly_as_good_and_more_so_in_high_dimension():
    for d, epsilon, sphere, normal in ((100, 1.0, 629, 633), (100, 8.0, 12.7, 13.3)):
        mine = PrivUnit(dimension=d, epsilon=epsilon).variance(n=1)
        assert mine == pytest.approx(sphere, rel=5e-3)
        mine = PrivUnitG(dimension=d, epsilon=epsilon).variance(n=1)
        assert mine == pytest.approx(normal, rel=5e-3)
    ratio = PrivUnitG(dimension=1000, epsilon=8.0).variance(n=1)
    ratio /= PrivUnit(dimension=1000, epsilon=8.0).variance(n=1)
    assert 1 < ratio < 1.005


def test_reports_of_the_sphere_have_length_one():
    randomizer = PrivUnit(dimension=30, epsilon=2.0)
    messages = randomizer.randomize(unit_vectors(100, 30), randomness=randomness.simulated(5))
    assert np.linalg.norm(messages / 2.0**24, axis=1) == pytest.approx(1.0, abs=1e-6)
    with pytest.raises(InvalidArgumentError, match="length"):
        randomizer.tally(np.asarray(messages) // 2)
