"""Laws of continuous noise: against integrals of the shuffled densities, tables and each other."""

from __future__ import annotations

import itertools
import math
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

import shoal
from shoal.accounting import gaussian
from shoal.accounting.gaussian import Normal
from shoal.accounting.profile import PrivacyProfile
from shoal.accounting.search import Side, gaussian_guess
from shoal.errors import InvalidArgumentError, InvalidTypeError, UnreachableTargetError

UNIT = shoal.BlanketLaw.from_density(Normal(1.0), low=0, high=1)


def shuffled_divergence(noise, people, others, epsilon, *, points):
    """D of the shuffled densities of two neighbouring data sets, by a sum over a fine grid."""
    n = 1 + len(others)
    edges = np.linspace(-6.5, 7.5, points + 1)
    y, h = (edges[1:] + edges[:-1]) / 2, edges[1] - edges[0]
    total = 0.0
    rest = [np.exp(noise.logpdf(y - x)) for x in others]
    first, second = (np.exp(noise.logpdf(y - x)) for x in people)
    own = first - math.exp(epsilon) * second
    for order in itertools.permutations([own, *rest]):
        part = order[0]
        for factor in order[1:]:
            part = np.multiply.outer(part, factor)
        total = total + part
    count = math.factorial(n)
    return float(np.maximum(total / count, 0.0).sum() * h**n)


@pytest.mark.parametrize(("n", "epsilon"), [(10**4, 0.0601), (10**5, 0.0173)])
def test_unit_noise_on_the_unit_range_is_as_private_as_computed_by_hand(n, epsilon):
    profile = PrivacyProfile(UNIT, n)
    assert profile.epsilon(1e-6) == pytest.approx(epsilon, rel=0.01)
    assert 0.7 * epsilon < profile.lower_epsilon(1e-6) < profile.epsilon(1e-6)


@pytest.mark.parametrize(
    ("others", "points"),
    [
        *(((0.0,), 280), ((1.0,), 280), ((0.4,), 280)),
        *(((0.0, 0.0), 70), ((0.0, 1.0), 70)),
        *(((0.0, 0.0, 0.0), 30), ((1.0, 0.0, 0.5), 30)),
    ],
)
def test_no_data_set_of_few_people_gives_away_more(others, points):
    profile = PrivacyProfile(UNIT, 1 + len(others)).within(0.1)  # an upper bound, sooner
    for epsilon in (0.3, 1.0):
        for people in ((0.0, 1.0), (1.0, 0.0), (0.2, 0.9)):
            truth = shuffled_divergence(Normal(1.0), people, others, epsilon, points=points)
            assert truth <= profile.delta(epsilon) * (1 + 1e-3)


def test_the_lower_bound_is_what_a_data_set_gives_away():
    for n, points in ((2, 280), (3, 60)):
        profile = PrivacyProfile(UNIT, n)
        for epsilon in (0.1, 0.8):
            truth = max(
                shuffled_divergence(Normal(1.0), people, (x,) * (n - 1), epsilon, points=points)
                for x in (0.0, 0.5, 1.0)
                for people in ((0.0, 1.0), (1.0, 0.0))
            )
            assert 0.95 * truth <= profile.lower_delta(epsilon) <= truth * (1 + 1e-3)


def test_one_person_has_the_gaussian_mechanism():
    for sigma in (0.5, 1.0, 3.0):
        # SciPy's own noise is not known to be Gaussian: the cells alone give the bound.
        law = shoal.BlanketLaw.from_density(stats.norm(scale=sigma), low=0, high=1)
        alone = PrivacyProfile(law, 1)
        for epsilon in (0.1, 1.0, 2.0):
            exact = gaussian.delta(1 / sigma, epsilon, side=Side.LOWER)
            assert exact <= alone.delta(epsilon) <= 1.05 * exact + 1e-9


@pytest.mark.parametrize(
    ("sigma", "n"),
    [(0.05, 10_000), pytest.param(0.1, 10_000, marks=pytest.mark.slow), (0.2, 100), (3.0, 2)],
)
def test_shuffling_never_costs_what_each_gaussian_report_has_by_itself(sigma, n):
    profile = PrivacyProfile(shoal.BlanketLaw.from_density(Normal(sigma), low=0, high=1), n)
    for delta in (1e-3, 1e-6, 1e-22):
        alone = gaussian.epsilon(1 / sigma, delta)
        assert profile.epsilon(delta) <= alone
        assert profile.delta(alone) <= delta
        assert profile.within(delta).quick_delta(alone) <= delta
    assert profile.smallest_delta == 0


def test_it_grows_neither_with_people_nor_with_noise_nor_with_delta():
    sizes = [PrivacyProfile(UNIT, n).epsilon(1e-6) for n in (2000, 20_000, 200_000)]
    assert sizes == sorted(sizes, reverse=True)
    laws = [
        shoal.BlanketLaw.from_density(Normal(sigma), low=0, high=1)
        for sigma in (0.8, 1.0, 1.5, 40.0, 400.0)
    ]
    noises = [PrivacyProfile(law, 10_000).epsilon(1e-6) for law in laws]
    assert noises == sorted(noises, reverse=True)
    indices = [law.shuffle_index for law in laws]
    assert indices == sorted(indices)
    deltas = [PrivacyProfile(UNIT, 10_000).epsilon(delta) for delta in (1e-12, 1e-9, 1e-6, 1e-3)]
    assert deltas == sorted(deltas, reverse=True)


def table_of(noise, inputs, cells=400):
    """Probabilities of cells of outputs: coarser than the outputs themselves, so more private."""
    with np.errstate(over="ignore"):
        edges = np.linspace(-30 * noise.std(), 1 + 30 * noise.std(), cells + 1)[1:-1]
        places = edges - np.array(inputs)[:, None]
        below, above = noise.cdf(places), noise.sf(places)
    ends = np.zeros((len(inputs), 1)), np.ones((len(inputs), 1))
    rows = np.diff(np.hstack([ends[0], below, ends[1]]), axis=1)
    other = -np.diff(np.hstack([ends[1], above, ends[0]]), axis=1)
    rows = np.where(np.hstack([below, ends[1]]) < 0.5, rows, other)
    return np.maximum(rows, 0.0) / rows.sum(axis=1, keepdims=True)


SHAPES = {
    "normal": stats.norm,
    "logistic": stats.logistic,
    "laplace": stats.laplace,
    "secant": stats.hypsecant,
    "flat-topped": lambda scale: stats.gennorm(3.0, scale=scale),
    "pointed": lambda scale: stats.gennorm(1.3, scale=scale),
    "skewed": lambda scale: stats.genlogistic(3.0, scale=scale),
    "skewed to the left": lambda scale: stats.genlogistic(0.4, scale=scale),
}


def stop_loss(pair, epsilon, above):
    """E (Z - above)_+ of one draw, outputs that are lost included."""
    gain = pair.mass @ np.maximum(pair.values(epsilon) - above, 0.0)
    return gain + pair.rest * max(-above, 0.0) + pair.lost0.sum()


@given(
    shape=st.sampled_from(sorted(SHAPES)),
    scale=st.floats(0.3, 30.0),
    inputs=st.lists(st.floats(0.0, 1.0), min_size=0, max_size=3),
    epsilon=st.floats(0.0, 3.0),
    place=st.floats(-3.0, 8.0),
)
@settings(max_examples=60, deadline=None)
def test_it_covers_every_pair_of_inputs_in_convex_order(shape, scale, inputs, epsilon, place):
    """Cells of outputs are a function of the output, whose own law is computed from its table."""
    noise = SHAPES[shape](scale=scale)
    (mine,) = shoal.BlanketLaw.from_density(noise, low=0, high=1).pairs
    table = table_of(noise, sorted({0.0, 1.0, *inputs}))
    for pair in shoal.BlanketLaw.from_table(table).pairs:
        above = place * pair.spread(1)
        assert stop_loss(pair, epsilon, above) <= stop_loss(mine, epsilon, above) * (1 + 1e-9)
    if shape not in {"skewed", "skewed to the left"} and scale > 1:
        least = max(pair.spread(1) for pair in shoal.BlanketLaw.from_table(table).pairs)
        assert mine.spread(1) <= 1.02 * least


def test_laplace_noise_is_that_of_a_fine_grid():
    grid = shoal.Laplace(low=0, high=1, epsilon=1.0, levels=256)
    for claim in (None, 1.0):
        law = shoal.BlanketLaw.from_density(stats.laplace(), low=0, high=1, local_epsilon=claim)
        assert law.local_epsilon == (claim or math.inf)
        here, there = PrivacyProfile(law, 10_000), PrivacyProfile(grid.law(), 10_000)
        assert here.epsilon(1e-6) == pytest.approx(there.epsilon(1e-6), rel=5e-3)


def test_noise_may_be_anywhere_and_in_any_unit():
    here = shoal.BlanketLaw.from_density(stats.norm(loc=700, scale=20), low=-10, high=10)
    assert PrivacyProfile(here, 10_000).epsilon(1e-6) == pytest.approx(
        PrivacyProfile(UNIT, 10_000).epsilon(1e-6), rel=1e-4
    )


NARROW, WIDE = Normal(1.0), Normal(2.0)


@pytest.mark.parametrize(
    ("noise", "asked", "why"),
    [
        (stats.t(5), {}, "log-concave"),
        (stats.cauchy(), {}, "light"),
        (1.0, {}, "logpdf"),
        (SimpleNamespace(logpdf=NARROW.logpdf, cdf=WIDE.cdf, sf=WIDE.sf), {}, "same noise"),
        (SimpleNamespace(logpdf=WIDE.logpdf, cdf=NARROW.cdf, sf=NARROW.sf), {}, "same noise"),
        (stats.norm(), {"low": 2}, "low"),
        (stats.laplace(), {"local_epsilon": 0.9}, "local_epsilon"),
        (stats.laplace(), {"local_epsilon": 0}, "local_epsilon"),
    ],
)
def test_what_is_no_log_concave_density_and_claims_that_are_none_are_refused(noise, asked, why):
    with pytest.raises(InvalidArgumentError, match=why) as refused:
        shoal.BlanketLaw.from_density(noise, **{"low": 0, "high": 1} | asked)
    assert isinstance(refused.value, InvalidTypeError) == (noise == 1.0)


def test_noise_too_small_for_the_range_reaches_no_delta():
    law = shoal.BlanketLaw.from_density(stats.norm(scale=0.04), low=0, high=1)
    with pytest.raises(UnreachableTargetError, match="one input only"):
        PrivacyProfile(law, 10**6).epsilon(1e-6)


def test_losing_rare_outputs_is_an_upper_bound():
    pair = UNIT.pairs[0]
    fewer = pair.without_rare(1e-3)
    assert fewer.mass.size < pair.mass.size
    whole = shoal.BlanketLaw([fewer])
    for n in (1, 3000):
        for epsilon in (0.01, 0.2):
            most = PrivacyProfile(whole, n).delta(epsilon)
            least = PrivacyProfile(UNIT, n).delta(epsilon)
            assert least * (1 - 3e-3) <= most <= 1.02 * least + 2.1e-3
    assert pair.without_rare(1e-30) is pair


@pytest.mark.parametrize(
    "law",
    [
        UNIT,
        shoal.BlanketLaw.generic(1.0),
        shoal.BlanketLaw.randomized_response(k=10, epsilon=2.0),
        shoal.Laplace(low=0, high=1, epsilon=1.0).law(),
        shoal.BlanketLaw.from_density(stats.logistic(scale=2.0), low=-1, high=1),
    ],
)
def test_a_large_crowd_depends_on_the_shuffle_index_alone(law):
    n = 10**9
    scale = 1 / (law.shuffle_index * math.sqrt(n))
    for delta in (1e-6, 1e-8):
        asymptotic = gaussian_limit(scale, delta)
        assert PrivacyProfile(law, n).epsilon(delta) == pytest.approx(asymptotic, rel=5e-3)
    assert gaussian_guess(scale, math.log(1e-6)) > 0


def gaussian_limit(scale, delta):
    """Where scale (phi(t) - t Phi(-t)) at t = epsilon/scale is delta."""
    low, high = 0.0, 40.0
    for _ in range(100):
        t = (low + high) / 2
        value = scale * (stats.norm.pdf(t) - t * stats.norm.sf(t))
        low, high = (t, high) if value > delta else (low, t)
    return scale * high


def two_shuffled_losses(sigma, *, width):
    """Pr[loss = j width] of two shuffled reports of (1, 0) against (0, 0), losses rounded down."""
    edges = np.linspace(-8 * sigma, 1 + 8 * sigma, 701)
    y = (edges[1:] + edges[:-1]) / 2
    at_0, at_1 = (np.exp(Normal(sigma).logpdf(y - x)) * (y[1] - y[0]) for x in (0.0, 1.0))
    second = np.multiply.outer(at_0, at_0)
    first = (np.multiply.outer(at_1, at_0) + np.multiply.outer(at_0, at_1)) / 2
    places = np.floor(np.log(first / second) / width).astype(int)
    return int(places.min()), np.bincount((places - places.min()).ravel(), first.ravel())


@pytest.mark.parametrize("sigma", [0.7, 1.0, 2.0])
@pytest.mark.parametrize("rounds", [2, 3])
def test_rounds_of_two_shuffled_reports_cost_as_much_as_the_best_attack(sigma, rounds):
    """The blanket and the Gaussian mechanism of one report, the smaller at each epsilon."""
    width = 0.01 / sigma
    least, once = two_shuffled_losses(sigma, width=width)
    pmf = once
    for _ in range(rounds - 1):
        pmf = np.convolve(pmf, once)
    losses = (rounds * least + np.arange(pmf.size)) * width
    composed = shoal.profile(shoal.Gaussian(low=0, high=1, sigma=sigma), n=2) * rounds
    for epsilon in np.array([0.0, 0.5, 1.5, 3.0]) / sigma:
        attack = float(pmf @ np.maximum(-np.expm1(epsilon - losses), 0.0))
        alone = gaussian.delta(math.sqrt(rounds) / sigma, epsilon)
        assert attack < composed.delta(epsilon) < alone * 1.01
    delta = composed.delta(1.5 / sigma)
    assert composed.epsilon(delta) == pytest.approx(1.5 / sigma, rel=1e-3)


@pytest.mark.parametrize("rounds", [2, 5])
def test_rounds_compose_as_the_curve_of_one_round_says(rounds):
    """By a grid of losses made here from the curve: delta(x) is convex in x = e^epsilon."""
    once = shoal.profile(shoal.Gaussian(low=0, high=1, sigma=3.0), n=1000)
    epsilons = np.arange(-120, 121) * 1e-3
    x, delta = np.exp(epsilons), once.delta(epsilons)
    under_second = np.diff(np.concatenate([[-1.0], np.diff(delta) / np.diff(x), [0.0]]))
    pmf = single = under_second * x
    for _ in range(rounds - 1):
        pmf = np.convolve(pmf, single)
    losses = np.arange(-120 * rounds, 120 * rounds + 1) * 1e-3
    composed = once * rounds
    for epsilon in (0.02, 0.06):
        by_hand = float(pmf @ np.maximum(-np.expm1(epsilon - losses), 0.0))
        assert composed.delta(epsilon) == pytest.approx(by_hand, rel=0.02)
    alone = gaussian.delta(math.sqrt(rounds) / 3, 0.06)
    assert composed.delta(0.06) < alone / 10


@pytest.mark.parametrize("rounds", [2, 4])
def test_rounds_of_one_person_are_those_of_the_gaussian_mechanism(rounds):
    composed = PrivacyProfile(UNIT, 1) * rounds
    for delta in (1e-3, 1e-6):
        exact = gaussian.epsilon(math.sqrt(rounds), delta)
        assert exact < composed.epsilon(delta) < exact * 1.003


@given(
    sigma=st.floats(0.3, 5.0),
    n=st.integers(1, 10**6),
    depth=st.floats(1.0, 10.0),
    logistic=st.booleans(),
)
@settings(max_examples=12, deadline=None)
def test_delta_of_the_epsilon_of_a_delta_is_no_larger(sigma, n, depth, logistic):
    noise = stats.logistic(scale=sigma) if logistic else Normal(sigma)
    profile = PrivacyProfile(shoal.BlanketLaw.from_density(noise, low=0, high=1), n)
    assert profile.delta(profile.epsilon(10**-depth)) <= 10**-depth


def test_delta_is_told_where_rare_outputs_spoil_the_enclosure():
    """Of all outputs together nothing below 1e-11 can be told: of the likely ones it can."""
    profile = PrivacyProfile(UNIT, 10_000)
    epsilon = profile.epsilon(2e-12)
    assert 1e-12 < profile.delta(epsilon) <= 2e-12


@pytest.mark.parametrize("sigma", [2.0**-16, 1e-3, 0.0121, 0.02])
def test_next_to_no_noise_is_accounted_for_and_nothing_is_claimed_beyond_floats(sigma):
    """Probabilities of the other end are no floats any more, losses no exponents."""
    profile = PrivacyProfile(shoal.Gaussian(low=0, high=1, sigma=sigma).law(), 1000)
    epsilon = profile.epsilon(1e-6)
    assert epsilon == pytest.approx(gaussian.epsilon(1 / sigma, 1e-6), rel=1e-6)
    assert 100 < profile.lower_epsilon(1e-6) < min(epsilon, 700)
    assert profile.lower_delta(epsilon) <= 1e-6
    composed = profile * 2
    assert composed.delta(100.0) == 1.0
    with pytest.raises(UnreachableTargetError, match="losses above 700 count as infinite"):
        composed.epsilon(1e-6)
    assert composed.tightest(1e-6)[0] == pytest.approx(2 * profile.epsilon(5e-7))
