"""Exact calibrations of multi-message noise, against enumeration of what the shuffler shows."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from fractions import Fraction

import numpy as np
import pytest
import scipy
from hypothesis import given, settings
from hypothesis import strategies as st

from shoal.accounting.noise import binary, dummies, near_central, zero_sum
from shoal.errors import InvalidArgumentError, OutOfRegimeError, UnreachableTargetError

EPSILONS = (0.0, 0.3, 1.0, 2.5)
TIGHT = 1e-8
TARGET = {"epsilon": 1.0, "delta": 1e-6}
laws = settings(deadline=None, derandomize=True, max_examples=40)
Law = dict[tuple[int, ...], Fraction]


def divergence(first: Law, second: Law, epsilon: float) -> float:
    x = Fraction(math.exp(epsilon))
    outputs = first.keys() | second.keys()
    return float(sum(max(first.get(o, 0) - x * second.get(o, 0), Fraction(0)) for o in outputs))


def shuffled(people: list[Law]) -> Law:
    """The law of the histogram of messages of independent people, each with its own law of it."""
    total: Law = {(0,) * len(next(iter(people[0]))): Fraction(1)}
    for person in people:
        summed: Counter[tuple[int, ...]] = Counter()
        for (seen, p), (sent, q) in itertools.product(total.items(), person.items()):
            summed[tuple(map(sum, zip(seen, sent, strict=True)))] += p * q
        total = dict(summed)
    return total


def worst(person, others, values) -> dict[float, float]:
    """The largest divergence over the data of the others and over ordered pairs of the victim."""
    found = dict.fromkeys(EPSILONS, 0.0)
    for data in itertools.combinations_with_replacement(values, others):
        crowd = [person(value) for value in data]
        views = {value: shuffled([*crowd, person(value)]) for value in values}
        for one, other in itertools.permutations(values, 2):
            for epsilon in EPSILONS:
                shown = divergence(views[one], views[other], epsilon)
                found[epsilon] = max(found[epsilon], shown)
    return found


def binomial(n: int, share: Fraction) -> list[Fraction]:
    return [math.comb(n, z) * share**z * (1 - share) ** (n - z) for z in range(n + 1)]


def is_tight(bound: float, truth: float) -> bool:
    return truth <= bound <= truth * (1 + TIGHT) + 1e-14


# ---------------------------------------------------------------------------- reference values


@pytest.mark.parametrize(
    ("epsilon", "delta", "one", "two"),
    [
        (0.5, 1e-6, 90.2, 136.3),
        (1.0, 1e-6, 34.1, 42.7),
        (1.0, 1e-8, 49.5, 62.2),
        (2.0, 1e-6, 17.4, 18.1),
        (4.0, 1e-6, 13.9, 13.9),
    ],
)
def test_calibrations_reach_the_known_means(epsilon, delta, one, two):
    n, k = 100_000, 50
    target = {"epsilon": epsilon, "delta": delta}
    means = (
        n * zero_sum.one_bin_gamma(n=n, **target),
        n * zero_sum.two_bin_gamma(n=n, **target),
        n * dummies.dummies_rho(n=n, k=k, **target) / k,
    )
    for mean, known in zip(means, (one, two, two), strict=True):
        assert known - 0.3 <= mean <= known
    assert means[0] <= means[2] * (1 + 1e-9) <= means[1] * (1 + 2e-9)


def test_fair_coins_stay_below_the_blanket_reference():
    assert 68 <= binary.binary_lambda(n=100_000, epsilon=1.0, delta=1e-6) <= 86


def test_near_central_error_and_pairs():
    found = near_central.near_central_calibration(epsilon=1.0, delta=1e-6)
    assert found.mean_squared_error <= 2.4
    assert found.pairs <= 320
    assert found.messages == pytest.approx(2 * found.pairs + 2 / math.expm1(found.central_epsilon))
    a = math.exp(-found.central_epsilon)
    assert found.mean_squared_error == pytest.approx(2 * a / (1 - a) ** 2)
    assert found.delta(1.0) <= 1e-6


@pytest.mark.parametrize(("shape", "delta"), [(10, 1.5e-6), (100, 1.9e-5), (1e6, 8.6e-4)])
def test_the_shape_of_the_flooding_matters(shape, delta):
    flooded = near_central.near_central_delta(
        central_epsilon=0.9, shape=shape, pairs=300, epsilon=1.0
    )
    assert flooded == pytest.approx(delta, rel=0.05)


# ---------------------------------------------------------------- the truth, by enumeration


@pytest.mark.parametrize("n", [1, 2, 5, 8])
@pytest.mark.parametrize("share", [Fraction(1, 8), Fraction(1, 2), Fraction(7, 8)])
def test_one_bin_is_what_the_shuffler_shows(n, share):
    def person(x: int) -> Law:
        return {(x,): 1 - share, (x + 1,): share}

    for epsilon, truth in worst(person, n - 1, (0, 1)).items():
        assert is_tight(zero_sum.one_bin_delta(n=n, gamma=float(share), epsilon=epsilon), truth)


@pytest.mark.parametrize(
    ("n", "share"), [(1, Fraction(1, 4)), (3, Fraction(1, 4)), (4, Fraction(1, 2))]
)
def test_two_bins_are_what_the_shuffler_shows(n, share):
    def person(x: int) -> Law:
        law: Law = {}
        for extra in itertools.product((0, 1), repeat=3):
            counts = tuple(bit + (x == j) for j, bit in enumerate(extra))
            law[counts] = math.prod(share if bit else 1 - share for bit in extra)
        return law

    for epsilon, truth in worst(person, n - 1, (0, 1, 2)).items():
        assert is_tight(zero_sum.two_bin_delta(n=n, gamma=float(share), epsilon=epsilon), truth)


@pytest.mark.parametrize("k", [2, 3])
@pytest.mark.parametrize("rho", [Fraction(1, 4), Fraction(1), Fraction(5, 4), Fraction(2)])
@pytest.mark.parametrize("n", [1, 3])
def test_dummies_are_what_the_shuffler_shows(n, k, rho):
    unit = [tuple(int(i == j) for i in range(k)) for j in range(k)]
    dummy: Law = {u: Fraction(1, k) for u in unit}
    whole = math.floor(rho)
    extra: Law = dict.fromkeys(unit, (rho - whole) / k)
    extra[(0,) * k] = 1 - (rho - whole)

    def person(x: int) -> Law:
        return shuffled([{unit[x]: Fraction(1)}, extra, *[dummy] * whole])

    for epsilon, truth in worst(person, n - 1, range(k)).items():
        assert is_tight(dummies.dummies_delta(n=n, k=k, rho=float(rho), epsilon=epsilon), truth)


@pytest.mark.parametrize("n", [1, 4, 8])
@pytest.mark.parametrize("coins", [Fraction(1, 4), Fraction(1, 2), Fraction(1)])
def test_bits_are_what_the_shuffler_shows(n, coins):
    lie = coins / 2

    def person(x: int) -> Law:
        return {(x,): 1 - lie, (1 - x,): lie}

    for epsilon, truth in worst(person, n - 1, (0, 1)).items():
        bound = binary.binary_delta(n=n, lam=float(coins * n), epsilon=epsilon)
        assert is_tight(bound, truth)


def test_bits_of_many_people_are_covered_on_every_data_set():
    n, lam, epsilon = 150, 30.0, 0.8
    lie, x = lam / n / 2, math.exp(epsilon)
    truth = 0.0
    for ones in range(n):
        others = np.convolve(
            scipy.stats.binom.pmf(np.arange(ones + 1), ones, 1 - lie),
            scipy.stats.binom.pmf(np.arange(n - ones), n - 1 - ones, lie),
        )
        views = [np.convolve(others, [1 - q, q]) for q in (lie, 1 - lie)]
        for first, second in itertools.permutations(views):
            truth = max(truth, float(np.maximum(first - x * second, 0).sum()))
    assert truth <= binary.binary_delta(n=n, lam=lam, epsilon=epsilon) <= 5 * truth


@pytest.mark.parametrize("epsilon", [0.2, 1.0, 1.5, 3.0])
@pytest.mark.parametrize(("shape", "pairs"), [(0.5, 1.0), (3.0, 5.0), (20.0, 9.0)])
def test_near_central_is_what_the_shuffler_shows(shape, pairs, epsilon):
    central, size = 1.0, 160
    counts = np.arange(size)
    geometric = (1 - math.exp(-central)) * np.exp(-central * counts)
    flood = scipy.stats.nbinom.pmf(counts, shape, shape / (shape + pairs))
    view = np.zeros((size, size))
    for f in range(size):
        view[f:, f:] += flood[f] * np.outer(geometric[: size - f], geometric[: size - f])
    more = np.vstack([np.zeros((1, size)), view[:-1]])
    x = math.exp(epsilon)
    truth = max(
        np.maximum(view - x * more, 0).sum(), np.maximum(more - x * view, 0)[: size - 1].sum()
    )
    bound = near_central.near_central_delta(
        central_epsilon=central, shape=shape, pairs=pairs, epsilon=epsilon
    )
    assert bound == pytest.approx(truth, rel=1e-7, abs=1e-13)


@pytest.mark.parametrize(("n", "share"), [(400, Fraction(1, 2)), (900, Fraction(1, 8))])
def test_tiny_deltas_keep_their_digits(n, share):
    pmf = binomial(n, share)
    x = Fraction(math.exp(1.0))
    shifted = [Fraction(0), *pmf]
    padded = [*pmf, Fraction(0)]
    one = max(
        float(sum(max(p - x * q, Fraction(0)) for p, q in zip(*pair, strict=True)))
        for pair in ((shifted, padded), (padded, shifted))
    )
    bound = zero_sum.one_bin_delta(n=n, gamma=float(share), epsilon=1.0)
    assert one < 1e-12
    assert one <= bound <= one * (1 + TIGHT)


def test_two_bins_of_many_people_match_the_double_sum():
    n, gamma, epsilon = 3000, 0.02, 0.7
    pmf = scipy.stats.binom.pmf(np.arange(n + 1), n, gamma)[:250]
    up, down = np.append(0, pmf), np.append(pmf, 0)
    first, second = np.outer(up, down), np.outer(down, up)
    truth = float(np.maximum(first - math.exp(epsilon) * second, 0).sum())
    bound = zero_sum.two_bin_delta(n=n, gamma=gamma, epsilon=epsilon)
    assert bound == pytest.approx(truth, rel=1e-6)


# ------------------------------------------------------------------------- calibrations


CALIBRATIONS = {
    "one bin": (zero_sum.one_bin_gamma, zero_sum.one_bin_delta, "gamma", {}),
    "two bins": (zero_sum.two_bin_gamma, zero_sum.two_bin_delta, "gamma", {}),
    "dummies": (dummies.dummies_rho, dummies.dummies_delta, "rho", {"k": 7}),
    "bits": (binary.binary_lambda, binary.binary_delta, "lam", {}),
}


@pytest.mark.parametrize("protocol", CALIBRATIONS)
@settings(laws, max_examples=15)
@given(
    n=st.sampled_from([2000, 10**5, 10**7]),
    epsilon=st.floats(0.6, 5.0),
    exponent=st.floats(-10, -3),
)
def test_calibrations_keep_the_target_and_waste_nothing(protocol, n, epsilon, exponent):
    calibrate, delta_of, name, fixed = CALIBRATIONS[protocol]
    delta = 10**exponent
    found = calibrate(n=n, epsilon=epsilon, delta=delta, **fixed)
    assert delta_of(n=n, epsilon=epsilon, **{name: found}, **fixed) <= delta
    # The bound on bits drops to 0 at once where each bit alone is private enough.
    assert delta_of(n=n, epsilon=epsilon, **{name: found * (1 - 1e-5)}, **fixed) > delta


@pytest.mark.parametrize("protocol", CALIBRATIONS)
@laws
@given(
    n=st.integers(2, 5000),
    part=st.floats(0.005, 0.45),
    factor=st.floats(1.01, 1.1),
    epsilon=st.floats(0.0, 4.0),
)
def test_more_noise_people_and_epsilon_never_hurt(protocol, n, part, factor, epsilon):
    _, delta_of, name, fixed = CALIBRATIONS[protocol]
    scale = n if name == "lam" else 1

    def delta(n: int, part: float, epsilon: float) -> float:
        return delta_of(n=n, epsilon=epsilon, **{name: part * scale}, **fixed)

    start = delta(n, part, epsilon) * (1 + 1e-8) + 1e-14
    assert delta(n, part * factor, epsilon) <= start
    assert delta(n, part, epsilon + 0.1) <= start
    if name != "lam":
        assert delta(n + 1, part, epsilon) <= start


@laws
@given(n=st.integers(1, 3000), gamma=st.floats(0.01, 0.5), epsilon=st.floats(0, 3))
def test_noise_and_its_mirror_image_are_equally_private(n, gamma, epsilon):
    for delta_of in (zero_sum.one_bin_delta, zero_sum.two_bin_delta):
        mirrored = delta_of(n=n, gamma=1 - gamma, epsilon=epsilon)
        assert delta_of(n=n, gamma=gamma, epsilon=epsilon) == pytest.approx(mirrored, rel=1e-7)


@pytest.mark.parametrize("protocol", ["one bin", "two bins"])
def test_too_few_people_are_told_how_many_it_takes(protocol):
    calibrate, delta_of, *_ = CALIBRATIONS[protocol]
    with pytest.raises(UnreachableTargetError, match=r"n >= \d+ honest") as caught:
        calibrate(n=20, epsilon=1.0, delta=1e-6)
    needed = int(caught.value.advice.split("n >= ")[1].split()[0])
    assert calibrate(n=needed, epsilon=1.0, delta=1e-6) <= 0.5
    assert delta_of(n=needed - 1, gamma=0.5, epsilon=1.0) > 1e-6


def test_few_people_send_many_dummies():
    rho = dummies.dummies_rho(n=3, k=100, epsilon=1.0, delta=1e-6)
    assert rho > 1000
    assert dummies.dummies_delta(n=3, k=100, rho=rho, epsilon=1.0) <= 1e-6


@pytest.mark.parametrize("epsilon", [0.05, 0.5, 3.0])
@pytest.mark.parametrize("delta", [1e-4, 1e-12])
def test_near_central_calibration_is_kept_and_optimal(epsilon, delta):
    found = near_central.near_central_calibration(epsilon=epsilon, delta=delta, inflation=1.5)
    central = 0.5 / math.sinh(epsilon / 2) ** 2
    assert found.delta(epsilon) <= delta
    assert found.mean_squared_error == pytest.approx(1.5 * central)
    for shape in (found.shape - 1, found.shape + 1):
        neighbour = near_central.near_central_delta(
            central_epsilon=found.central_epsilon,
            shape=shape,
            pairs=found.pairs * 0.999,
            epsilon=epsilon,
        )
        assert neighbour > delta


# -------------------------------------------------------------------------- smoothness


@laws
@given(
    weights=st.lists(st.floats(0.01, 1), min_size=1, max_size=8),
    epsilon=st.floats(0.05, 2),
)
def test_smooth_noise_makes_a_count_private(weights, epsilon):
    pmf = np.array(weights) / sum(weights)
    up, stay = np.append(0, pmf), np.append(pmf, 0)
    x = math.exp(epsilon)
    exact = max(np.maximum(up - x * stay, 0).sum(), np.maximum(stay - x * up, 0).sum())
    assert exact <= zero_sum.smoothness_delta(pmf, epsilon=epsilon) + 1e-12


def test_smoothness_by_its_definition():
    pmf = [float(p) for p in binomial(9, Fraction(1, 3))]
    for epsilon, k in itertools.product((0.2, 0.7), (1, 3, 12)):
        by_hand = 0.0
        for shift in (*range(-k, 0), *range(1, k + 1)):
            law = dict(enumerate(pmf))
            bad = [
                p
                for y, p in law.items()
                if p >= math.exp(abs(shift) * epsilon) * law.get(y + shift, 0.0)
            ]
            by_hand = max(by_hand, math.fsum(bad))
        assert zero_sum.smoothness_delta(pmf, epsilon=epsilon, k=k) == pytest.approx(by_hand)
        exact = zero_sum.binomial_smoothness_delta(n=9, gamma=1 / 3, epsilon=epsilon, k=k)
        assert exact == pytest.approx(by_hand)


@laws
@given(
    n=st.integers(100, 20_000),
    gamma=st.floats(0.02, 0.5),
    alpha=st.floats(0.05, 0.95),
    k=st.integers(1, 4),
)
def test_the_binomial_lemma_holds_where_it_claims_to(n, gamma, alpha, k):
    if k > alpha * gamma * n / 2:
        with pytest.raises(OutOfRegimeError):
            zero_sum.binomial_lemma(n=n, gamma=gamma, alpha=alpha, k=k)
        return
    claimed = zero_sum.binomial_lemma(n=n, gamma=gamma, alpha=alpha, k=k)
    exact = zero_sum.binomial_smoothness_delta(n=n, gamma=gamma, epsilon=claimed.epsilon, k=k)
    assert exact <= claimed.delta + 1e-30


def test_lemma_smoothness_and_exact_divergence_are_ordered():
    found = zero_sum.binomial_comparison(n=10_000, gamma=0.0725, epsilon=1.0)
    assert found.exact < found.smooth < found.lemma <= 1e-6


def test_which_square_root_bounds_alpha():
    for epsilon in np.linspace(0.01, 1, 50):
        alpha = zero_sum.alpha_of(epsilon)
        assert epsilon / math.sqrt(5) <= alpha < epsilon / math.sqrt(4)
        assert epsilon / math.sqrt(zero_sum.alpha_divisor(epsilon)) == pytest.approx(alpha)
        assert 2 * math.atanh(alpha) == pytest.approx(epsilon)


@pytest.mark.parametrize("epsilon", [0.25, 1.0])
def test_published_constants_are_sound_and_far_from_tight(epsilon):
    n, target = 10**6, {"epsilon": epsilon, "delta": 1e-6}
    two = n * zero_sum.two_bin_gamma(n=n, **target)
    assert zero_sum.zero_sum_mean(**target) > 15 * n * zero_sum.one_bin_gamma(n=n, **target)
    assert zero_sum.zero_sum_histogram_mean(**target) > 25 * two
    assert dummies.dummies_mean(**target) > 10 * two
    assert binary.coins_mean(**target) > 10 * binary.binary_lambda(n=n, **target)
    assert zero_sum.fake_users_variance(**target) > 10 * two
    assert zero_sum.zero_sum_mean(epsilon=1.0, delta=1e-6) == pytest.approx(725.4, abs=0.1)


# ----------------------------------------------------------------------------- refusals


@pytest.mark.parametrize(
    ("evaluate", "asked", "says"),
    [
        (zero_sum.one_bin_delta, {"n": 0, "gamma": 0.1, "epsilon": 1}, "n=0"),
        (zero_sum.one_bin_delta, {"n": 10.5, "gamma": 0.1, "epsilon": 1}, "n=10.5"),
        (zero_sum.one_bin_delta, {"n": 10, "gamma": 1.0, "epsilon": 1}, "gamma"),
        (zero_sum.two_bin_delta, {"n": 10, "gamma": 0.1, "epsilon": -1}, "epsilon"),
        (zero_sum.two_bin_gamma, {"n": 10, "epsilon": 0.0, "delta": 0.1}, "epsilon"),
        (dummies.dummies_delta, {"n": 10, "k": 1, "rho": 1, "epsilon": 1}, "k=1"),
        (dummies.dummies_rho, {"n": 10, "k": 2, "epsilon": 1, "delta": 0}, "delta"),
        (binary.binary_delta, {"n": 10, "lam": 11, "epsilon": 1}, "lam"),
        (near_central.near_central_calibration, TARGET | {"inflation": 1.0}, "inflation"),
        (zero_sum.smoothness_delta, {"pmf": [0.5, 0.4], "epsilon": 1}, "sum to 1"),
        (zero_sum.smoothness_delta, {"pmf": [1.5, -0.5], "epsilon": 1}, "a list of probabilities"),
        (zero_sum.zero_sum_mean, TARGET | {"epsilon": 2.0}, "epsilon <= 1"),
    ],
)
def test_nonsense_and_what_is_beyond_a_regime_is_refused(evaluate, asked, says):
    with pytest.raises((InvalidArgumentError, OutOfRegimeError), match=says):
        evaluate(**asked)


@pytest.mark.parametrize(("n", "rho"), [(10**7, 0.5), (10**5, 50.5)])
def test_blocks_of_many_dummies_stay_above_the_exact_sum_and_close(n, rho, monkeypatch):
    case = {"n": n, "k": 1000, "rho": rho, "epsilon": 0.05}
    blocked = dummies.dummies_delta(**case)
    monkeypatch.setattr("shoal.accounting.noise.dummies._MOST_BLOCKS", 10**9)
    exact = dummies.dummies_delta(**case)
    assert exact <= blocked * (1 + 1e-12)
    assert blocked <= 1.01 * exact
