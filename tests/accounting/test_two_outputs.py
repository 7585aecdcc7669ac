"""Two outputs: against sums over everything that others may hold, and against what is published."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from scipy import stats

import shoal
from shoal import BlanketLaw
from shoal.accounting.profile import PrivacyProfile
from shoal.accounting.two_outputs import TwoOutputsProfile, cover, enclose

SEED = 20_261_119


def binary(epsilon: float) -> BlanketLaw:
    return BlanketLaw.randomized_response(k=2, epsilon=epsilon)


def exactly(law: BlanketLaw, n: int) -> TwoOutputsProfile:
    return TwoOutputsProfile(law, n)


def table(least: float, most: float) -> BlanketLaw:
    return BlanketLaw.from_table([[1 - least, least], [1 - most, most]])


def divergence(least: float, most: float, others: tuple[int, int], x: float) -> float:
    """Summed over every number of ones, of so many at the most and at the least."""
    ones = np.convolve(
        stats.binom.pmf(np.arange(others[0] + 1), others[0], most),
        stats.binom.pmf(np.arange(others[1] + 1), others[1], least),
    )
    first = np.convolve(ones, [1 - most, most])
    second = np.convolve(ones, [1 - least, least])
    return max(
        math.fsum(np.maximum(first - x * second, 0)), math.fsum(np.maximum(second - x * first, 0))
    )


def worst(least: float, most: float, n: int, epsilon: float) -> float:
    x = math.exp(epsilon)
    return max(divergence(least, most, (m, n - 1 - m), x) for m in range(n))


def drawn(many: int):
    """Tables with probabilities of every size, crowds, and epsilons within the local one."""
    random = np.random.default_rng(SEED)
    for i in range(many):
        least, most = np.sort(1 / (1 + np.exp(random.normal(0, 3, 2))))
        if i % 2:
            least, most = min(least, 1 - least), max(least, 1 - least)
        local = max(math.log(most / least), math.log((1 - least) / (1 - most)))
        yield least, most, int(random.integers(1, 40)), local * random.random() ** 3 * 0.999


def test_it_is_the_worst_of_all_that_others_may_hold():
    for least, most, n, epsilon in drawn(300):
        profile = exactly(table(least, most), n)
        true = worst(least, most, n, epsilon)
        assert profile.lower_delta(epsilon) <= true * (1 + 1e-9) + 1e-16
        assert true * (1 - 1e-9) - 1e-16 <= profile.delta(epsilon)
        if true > 1e-12:
            assert profile.delta(epsilon) <= 1.0011 * profile.lower_delta(epsilon)


@pytest.mark.parametrize("delta", [1e-2, 1e-6, 1e-11])
def test_epsilon_is_that_of_the_worst_data(delta):
    for least, most, n, _ in drawn(60):
        profile = exactly(table(least, most), n)
        upper, lower = profile.epsilon(delta), profile.lower_epsilon(delta)
        assert lower <= upper
        assert worst(least, most, n, upper) <= delta * (1 + 1e-9) + 1e-16
        assert lower == 0 or worst(least, most, n, lower) >= delta * (1 - 1e-9)
        assert upper <= lower * 1.0011 + 1e-4


@pytest.mark.parametrize(
    ("local_epsilon", "n", "exact"),
    [
        (1, 1_000, 0.126614),
        (3, 2_000, 0.439311),
        (1, 100_000, 0.0101425),
        (4, 100_000, 0.084716),
        (6, 1_000_000, 0.072972),
    ],
)
def test_values_that_were_summed_elsewhere(local_epsilon, n, exact):
    profile = exactly(binary(local_epsilon), n)
    assert profile.epsilon(1e-6) == pytest.approx(exact, rel=1.2e-4)
    assert profile.lower_epsilon(1e-6) == pytest.approx(exact, rel=1e-5)


def test_others_who_all_hold_the_same_are_not_always_the_worst():
    ends, epsilon = binary(4).claim.ends, np.array([0.0847])
    found = cover(ends, 100_000, epsilon, width=1e-3, most=10_000)
    alike = enclose(ends, np.array([1e5]), np.array([1e5 - 1]), epsilon)[1]
    assert found.at[0] < 99_999
    assert found.lower > alike[0]


@pytest.mark.parametrize("local_epsilon", [0.01, 0.5, 2, 6, 12, 40])
@pytest.mark.parametrize("n", [1, 2, 30, 3_000, 10**6, 10**9, 10**13, 10**15])
def test_it_is_between_a_data_set_and_the_blanket(local_epsilon, n):
    law = binary(local_epsilon)
    exact, blanket = TwoOutputsProfile(law, n), PrivacyProfile(law, n)
    for delta in (1e-4, 1e-9):
        upper = exact.epsilon(delta)
        assert (
            exact.lower_epsilon(delta) <= upper <= min(local_epsilon, 1.01 * blanket.epsilon(delta))
        )
        assert exact.delta(upper) <= delta * 1.002
        assert upper <= max(1.0101 * exact.lower_epsilon(delta), 2e-3 * exact.spread) + 1e-4 * (
            n == 1
        )


def test_more_people_never_hurt_and_a_larger_local_epsilon_never_helps():
    crowds = [10, 100, 1_000, 10_000]
    locals_ = [0.5, 1.0, 2.0, 4.0]
    epsilons = np.array([[exactly(binary(e), n).epsilon(1e-6) for n in crowds] for e in locals_])
    assert (np.diff(epsilons, axis=1) <= 2e-4).all()
    assert (np.diff(epsilons, axis=0) >= -2e-4).all()


def test_outputs_have_no_names():
    for least, most, n, epsilon in drawn(20):
        one = exactly(table(least, most), n)
        other = exactly(table(1 - most, 1 - least), n)
        assert one.delta(epsilon) == pytest.approx(other.delta(epsilon), rel=2e-3, abs=1e-16)


def test_the_curve_falls_and_is_convex():
    profile = exactly(binary(2), 500)
    x = np.linspace(1, math.exp(1.0), 200)
    deltas = profile.delta(np.log(x))
    assert (np.diff(deltas) <= 0).all()
    assert (np.diff(deltas, 2) >= -3e-3 * deltas[1:-1]).all()


def test_rounds_compose_what_one_round_has():
    once = exactly(binary(1), 1_000)
    blanket = PrivacyProfile(binary(1), 1_000)
    for rounds in (1, 10):
        assert (once * rounds).epsilon(1e-6) <= (blanket * rounds).epsilon(1e-6) * 0.9
    assert (once * 10).epsilon(1e-6) >= once.lower_epsilon(1e-6)


def test_silence_is_a_third_output():
    assert binary(1).participating(0.5).claim.ends is None
    with pytest.raises(shoal.InvalidArgumentError, match="one of two outputs"):
        exactly(binary(1).participating(0.5), 10).epsilon(1e-6)


def test_it_is_compared_with_the_blanket():
    rows = {row.name: row for row in shoal.compare(binary(4), n=100_000)}
    assert next(iter(rows)) == "two-outputs"
    assert rows["two-outputs"].epsilon == pytest.approx(0.084716, rel=1e-4)
    assert rows["two-outputs"].lower == pytest.approx(0.084716, rel=1e-4)
    assert rows["blanket"].epsilon == pytest.approx(0.118154, rel=1e-4)


def test_a_zero_or_a_third_output_is_left_to_the_blanket():
    for rows in ([[1.0, 0.0], [0.5, 0.5]], [[0.5, 0.5], [0.5, 0.5]], np.full((2, 3), 1 / 3)):
        assert BlanketLaw.from_table(rows).claim.ends is None


def test_inputs_between_the_ends_cost_nothing():
    two = exactly(table(0.2, 0.7), 50)
    rows = [[1 - p, p] for p in (0.7, 0.31, 0.2, 0.55)]
    assert exactly(BlanketLaw.from_table(rows), 50).epsilon(1e-5) == pytest.approx(
        two.epsilon(1e-5), rel=1e-12
    )


@pytest.mark.parametrize(("m", "n"), list(itertools.product([0, 3, 9], [10, 30])))
def test_one_number_of_others_is_enclosed_to_many_digits(m, n):
    ends = table(0.2, 0.9).claim.ends
    for epsilon in (0.0, 1e-9, 0.3, 1.4):
        low, high = enclose(ends, np.array([float(n)]), np.array([float(m)]), np.array([epsilon]))
        ones = np.convolve(
            stats.binom.pmf(np.arange(m + 1), m, 0.9),
            stats.binom.pmf(np.arange(n - m), n - 1 - m, 0.2),
        )
        first, second = np.convolve(ones, [0.1, 0.9]), np.convolve(ones, [0.8, 0.2])
        true = math.fsum(np.maximum(first - math.exp(epsilon) * second, 0))
        assert math.exp(low[0]) <= true * (1 + 1e-11)
        assert true * (1 - 1e-11) <= math.exp(high[0])
        assert high[0] - low[0] < 1e-9


@pytest.mark.parametrize("rounds", [2, 3])
def test_what_rounds_give_away_is_no_more_than_they_do(rounds):
    """Against the products themselves, all others at one end."""
    for least, most, n in ((0.2, 0.8, 6), (0.1, 0.4, 9), (0.3, 0.5, 1), (0.4, 0.6, 20)):
        law = table(least, most)
        found = exactly(law, n).lower_epsilon(1e-3, rounds=rounds)
        true = max(
            repeated_divergence(*pair, n, rounds, math.exp(found))
            for pair in ((least, most), (1 - most, 1 - least))
        )
        assert true >= 1e-3 * (1 - 1e-9)
        assert found >= exactly(law, n).lower_epsilon(1e-3)
        assert found <= (exactly(law, n) * rounds).epsilon(1e-3)


def repeated_divergence(least, most, n, rounds, x):
    ones = stats.binom.pmf(np.arange(n), n - 1, most)
    first, second = np.convolve(ones, [1 - most, most]), np.convolve(ones, [1 - least, least])
    p, q = first, second
    for _ in range(rounds - 1):
        p, q = np.outer(p, first).ravel(), np.outer(q, second).ravel()
    return max(np.maximum(p - x * q, 0).sum(), np.maximum(q - x * p, 0).sum())


@pytest.mark.parametrize(("k", "n"), [(3, 10_000), (4, 10_000), (16, 3_000)])
def test_rounds_of_a_known_randomizer_are_bounded_from_below_by_rounds(k, n):
    law = BlanketLaw.randomized_response(k=k, epsilon=2)
    one, ten = (shoal.amplify(law, n=n, rounds=rounds, delta=1e-6) for rounds in (1, 10))
    assert ten.lower > 2.5 * one.lower
    assert ten.lower <= ten.epsilon <= 1.1 * ten.lower


@pytest.mark.parametrize("k", [2, 3, 8])
@pytest.mark.parametrize("participation", [0.05, 0.5, 1.0])
@pytest.mark.parametrize("rounds", [1, 4, 20])
def test_lower_bounds_are_below_whoever_takes_part(k, participation, rounds):
    law = BlanketLaw.randomized_response(k=k, epsilon=2)
    crowd = shoal.Crowd(participation=participation)
    answer = shoal.amplify(law, n=5_000, rounds=rounds, delta=1e-6, crowd=crowd)
    assert answer.lower <= answer.epsilon


def test_probabilities_that_hardly_differ_are_compared():
    law = BlanketLaw.from_table([[1.0, 1.88e-18], [1.0, 2.78e-17]])
    (best, *_) = shoal.compare(law, n=24, delta=1e-12)
    assert best.lower <= best.epsilon
