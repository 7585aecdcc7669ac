"""Gaussian noise on a grid: what is drawn, what it costs, and where it is offered."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import polars as pl
import pytest
from scipy import stats

import shoal
from factories import item
from shoal import randomness
from shoal.accounting.profile import PrivacyProfile
from shoal.errors import InvalidArgumentError
from shoal.mechanisms.gaussian import Gaussian, RoundedNormal
from shoal.mechanisms.registry import family, restored
from shoal.planning import Plan
from shoal.randomness import Randomness
from shoal.values import Batch

RARE = 1e-7
UNIT = Gaussian(low=0, high=1, sigma=1.0)


class Words(Randomness):
    """Words from a list."""

    def __init__(self, *words):
        self.left = list(words)

    def words(self, size):
        drawn, self.left = self.left[:size], self.left[size:]
        return np.array(drawn, dtype=np.uint64)


@pytest.mark.parametrize("deviation", [0.7, 16.0, 17.3, 300.0])
def test_noise_has_the_probabilities_of_a_normal_law(deviation):
    noise = RoundedNormal(deviation)
    places = np.arange(noise.heads.size) - noise.heads.size // 2 + 0.5
    exact = stats.norm.cdf(places / deviation)
    assert np.abs(noise.heads / 2.0**62 - exact).max() < 2e-16
    tail = exact < 1e-6
    assert noise.heads[tail & (exact > 1e-14)] / 2.0**62 == pytest.approx(
        exact[tail & (exact > 1e-14)], rel=1e-4
    )
    assert (noise.heads == (2**62 - 1 - noise.heads[::-1].astype(object))).all()


def test_more_bits_decide_where_the_first_ones_do_not():
    noise = RoundedNormal(16.0)
    reach = noise.heads.size // 2
    last = 2**62 - 1
    for place in (50, reach, reach + 40):
        head = int(noise.heads[place])
        lowest = noise.draw(1, Words(head, 0, 0, 0, 0))
        highest = noise.draw(1, Words(head, last, last, last, last))
        assert (lowest.tolist(), highest.tolist()) == ([place - reach], [place - reach + 1])
        assert noise.draw(1, Words(head + 1)).tolist() == [place - reach + 1]
        assert noise.draw(1, Words(head - 1)).tolist() == [place - reach]
    # Bit by bit: the boundary between them is where the normal law says, to 300 bits.
    head = int(noise.heads[reach])
    half = Fraction(1, 2) - Fraction(stats.norm.cdf(-0.5 / 16)).limit_denominator(10**12)
    assert abs(Fraction(head, 2**62) - Fraction(1, 2) - half) < Fraction(1, 10**11)
    # Far out nothing is cut off: the very first draw is 19 deviations away or more.
    assert noise.draw(1, Words(0, 0, 0, 0, 0))[0] < -19 * 16
    assert noise.draw(1, Words(last, last, last, last, last))[0] > 19 * 16


def test_the_sampler_follows_the_stated_probabilities():
    made = Gaussian(low=-1, high=3, sigma=1.5)
    n = 40_000
    for seed, value in enumerate((-1.0, 0.123, 3.0)):
        row = made.probabilities([value])[0]
        assert row.sum() == pytest.approx(1.0, abs=1e-12)
        messages = made.randomize(np.full(n, value), randomness=randomness.simulated(seed))
        seen = np.bincount(messages, minlength=made.outputs)
        common = n * row > 5
        cells = np.append(seen[common], seen[~common].sum())
        expected = np.append(n * row[common], n * row[~common].sum())
        assert stats.chisquare(cells, expected).pvalue > RARE


def test_a_report_is_a_grid_point_plus_rounded_noise_whatever_the_number():
    made = Gaussian(low=0, high=10, sigma=2.0)
    for value in (0.0, 3.3, 10.0):
        row = made.probabilities([value])[0]
        points = made.low + made.step * (np.arange(made.outputs) - (made.outputs - made.levels) / 2)
        assert row @ points == pytest.approx(value, abs=1e-9)
        variance = row @ (points - value) ** 2
        assert 4.0 <= variance <= made.variance(n=1) * (1 + 1e-12) <= 4.0 * 1.0014


@pytest.mark.parametrize("value", [-2.0, 0.777, 3.0])
def test_the_mean_is_estimated_with_its_error(value):
    made = Gaussian(low=-2, high=3, sigma=4.0)
    n, runs = 2000, 200
    source = randomness.simulated(11)
    estimates = [
        made.estimate(Batch(made.randomize(np.full(n, value), randomness=source)))
        for _ in range(runs)
    ]
    errors = np.array([each.mean - value for each in estimates])
    deviation = math.sqrt(made.variance(n=n))
    assert abs(errors.mean()) <= 6 * deviation / math.sqrt(runs)
    assert (errors**2).mean() == pytest.approx(made.variance(n=n), rel=0.6)
    assert estimates[0].standard_error == pytest.approx(deviation, rel=1e-3)
    low, high = estimates[0].interval(1 - 1e-7)
    assert low < value < high


def test_the_farthest_message_stands_for_all_beyond():
    source = Words(0, 0, 0, 0, 0, 0)  # rounds down, then noise of 19 deviations
    assert UNIT.randomize([0.0], randomness=source).tolist() == [0]


@pytest.mark.parametrize(
    "parameters",
    [
        {"low": 0, "high": 0, "sigma": 1.0},
        {"low": 1, "high": 0, "sigma": 1.0},
        {"low": 0, "high": 1, "sigma": 0.0},
        {"low": 0, "high": 1, "sigma": -1.0},
        {"low": 0, "high": 1, "sigma": math.nan},
        {"low": 0, "high": 1, "sigma": math.inf},
        {"low": 0, "high": 1, "sigma": 1e-6},
        {"low": 0, "high": 1, "sigma": 1e4},
    ],
)
def test_what_is_no_noise_is_refused(parameters):
    with pytest.raises(InvalidArgumentError):
        Gaussian(**parameters)


def test_the_guarantee_says_what_a_report_has_by_itself():
    guarantee = shoal.amplify(UNIT, n=10_000, delta=1e-6)
    assert guarantee.epsilon == pytest.approx(0.0601, rel=0.01)
    assert guarantee.lower < guarantee.epsilon
    # The Gaussian mechanism's own: 4.887 at 1e-6.
    assert guarantee.local_epsilon == pytest.approx(4.887, rel=2e-3)
    assert guarantee.local_delta == 1e-6
    assert "δ0 = 1e-6" in str(guarantee)
    assert math.isinf(UNIT.local_epsilon)
    fewer = shoal.amplify(UNIT, n=10_000, delta=1e-6, crowd=shoal.Crowd(participation=0.5))
    assert fewer.epsilon < shoal.amplify(UNIT, n=5000, delta=1e-6).epsilon
    assert fewer.local_epsilon == guarantee.local_epsilon


def test_the_unit_of_the_bounds_does_not_matter():
    wide = Gaussian(low=-50, high=150, sigma=200.0)
    assert wide.law().pairs == UNIT.law().pairs


@pytest.mark.parametrize(("n", "epsilon"), [(10_000, 0.06), (300, 1.0), (20, 0.3)])
def test_the_least_noise_keeps_its_target(n, epsilon):
    made = Gaussian.calibrated(n=n, epsilon=epsilon, delta=1e-6, low=0, high=10)
    assert 0.99 * epsilon < shoal.amplify(made, n=n, delta=1e-6).epsilon <= epsilon
    with pytest.raises(shoal.UnreachableTargetError):
        Gaussian.calibrated(n=1, epsilon=1e-6, delta=1e-6)


def test_a_plan_offers_it_but_not_unasked():
    asked = shoal.Number("age", 0, 100)
    plan = shoal.plan(asked, epsilon=0.1, n=1000)
    assert plan.recommended.name != "gaussian"
    assert "gaussian" in [option.name for option in plan.options]
    assert "gaussian" in str(plan)
    chosen = plan.choose("gaussian")
    assert chosen.guarantee.epsilon <= 0.1
    assert chosen.recommended.errors.l2 > plan.recommended.errors.l2
    assert "σ = " in str(chosen)
    assert "without that trust each report keeps ε0" in " ".join(str(chosen).split())
    again = Plan.from_dict(chosen.to_dict())
    assert again.randomizer == chosen.randomizer
    capped = shoal.plan(asked, epsilon=0.1, n=1000, limits=shoal.Limits(local_epsilon=1.0))
    with pytest.raises(shoal.UnreachableTargetError, match="no ε0"):
        capped.choose("gaussian")


def test_a_column_is_collected_with_it():
    table = pl.DataFrame({"age": np.linspace(20, 60, 1000)})
    asked = shoal.Number("age", 0, 100, choose="gaussian")
    result = shoal.run(table, asked, epsilon=0.5, randomness=randomness.simulated(3))
    (column,) = result.columns
    assert column.randomizer.name == "gaussian"
    assert result.guarantee.epsilon <= 0.5
    assert abs(column.estimate.mean - 40) < 6 * column.estimate.standard_error
    with pytest.raises(InvalidArgumentError, match="choose"):
        shoal.run(
            table, shoal.Number("age", 0, 100), mechanism=shoal.Named("gaussian", epsilon=1.0)
        )


def test_it_has_a_name_but_no_family_of_local_epsilons():
    assert restored(UNIT.described()) == UNIT
    with pytest.raises(InvalidArgumentError, match="--choose gaussian"):
        family("gaussian")


def test_auditing_finds_no_violation():
    audit = shoal.audit(
        UNIT, n=3, epsilon=1.0, delta=1e-3, runs=2000, randomness=randomness.simulated(1)
    )
    assert audit.verdict != "violated"


def test_a_survey_does_not_take_it():
    with pytest.raises(InvalidArgumentError, match="for tables: shoal run"):
        item(UNIT, text="How old are you?")


@pytest.mark.parametrize("sigma", [0.3, 1.0, 3.0])
def test_the_lower_bound_is_of_what_is_drawn(sigma):
    noise = Gaussian(low=-1, high=4, sigma=5 * sigma)
    first, second = noise.probabilities([-1.0, 4.0])
    for delta in (1e-3, 1e-6):
        lower = PrivacyProfile(noise.law(), 1).lower_epsilon(delta)
        truth = np.maximum(first - math.exp(lower) * second, 0.0).sum()
        assert delta * (1 - 1e-9) <= truth < 2 * delta
