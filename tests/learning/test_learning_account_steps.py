"""Many steps composed at once: against closed forms, against dp_accounting, from the safe side."""

from __future__ import annotations

import math

import numpy as np
import pytest
from dp_accounting.pld import privacy_loss_distribution as losses
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import special

from shoal.accounting import gaussian
from shoal.accounting.blanket import Blanket
from shoal.accounting.gaussian import Cells
from shoal.accounting.law import BlanketLaw
from shoal.accounting.profile import PrivacyProfile
from shoal.accounting.search import Side
from shoal.errors import UnreachableTargetError
from shoal.learning.steps import (
    StepLaw,
    certificate,
    composed_epsilon,
    poisson_laws,
    poisson_replaced_laws,
    published_epsilon,
    replacement_laws,
    saddle,
    sampled_epsilon,
)


def gaussian_law(mu):
    return StepLaw.sampled(lambda eps: gaussian.delta(mu, eps), spread=mu, end=1e-14)


def composed_delta(law, steps, epsilon):
    """The smallest delta proved at this epsilon for so many steps."""
    theta = saddle(law, steps, epsilon)
    guess = math.exp(max(-700.0, min(0.0, steps * law.log_moment(theta) - theta * epsilon)))
    log_upper = certificate(law, steps, theta, guess)
    return min(1.0, math.exp(min(0.0, log_upper(epsilon))) + steps * law.infinite)


def step_divergence(law, epsilon):
    atoms = np.maximum(law.masses * -np.expm1(epsilon - law.losses), 0.0)
    return float(atoms.sum()) + law.infinite


@pytest.mark.parametrize("mu", [1e-3, 0.1, 1.0])
@pytest.mark.parametrize("steps", [1, 2, 30, 1000])
@pytest.mark.parametrize("delta", [1e-3, 1e-9])
def test_gaussian_steps_compose_to_a_gaussian(mu, steps, delta):
    truth = gaussian.epsilon(mu * math.sqrt(steps), delta)
    if 1e-3 < truth < 100:
        found = composed_epsilon(gaussian_law(mu), steps, delta)
        assert truth <= found <= 1.01 * truth
        assert composed_delta(gaussian_law(mu), steps, found) <= delta * 1.05


@pytest.mark.parametrize("rounds", [1, 5, 40])
def test_shuffled_rounds_agree_with_composition_by_fft(rounds):
    profile = PrivacyProfile(BlanketLaw.generic(1.0), 2_000)
    law = StepLaw.sampled(profile.quick_delta, spread=profile.spread, end=1e-11)
    by_fft = (profile * rounds).epsilon(1e-6) if rounds > 1 else profile.epsilon(1e-6)
    assert composed_epsilon(law, rounds, 1e-6) == pytest.approx(by_fft, rel=5e-3)


@pytest.mark.parametrize(
    ("noise", "rate", "steps"), [(1.0, 0.01, 200), (4.0, 0.1, 50), (0.7, 0.02, 30), (2.0, 0.5, 3)]
)
def test_poisson_steps_agree_with_dp_accounting(noise, rate, steps):
    """Its distribution is pessimistic, too, so both are above the truth and close to it."""
    grid = {"value_discretization_interval": 1e-3}
    theirs = losses.from_gaussian_mechanism(noise, sampling_prob=rate, **grid).self_compose(steps)
    ours = sampled_epsilon(poisson_laws, 1, noise, rate, steps, 1e-6)
    assert ours == pytest.approx(theirs.get_epsilon_for_delta(1e-6), rel=3e-3)


@pytest.mark.parametrize("steps", [10**3, 10**6, 10**9])
def test_the_number_of_steps_is_no_obstacle(steps):
    """With steps this small the whole is nearly a Gaussian with this mu."""
    rate, noise = 1e-3 / math.sqrt(steps), 2.0
    (law,) = replacement_laws(noise=noise, rate=rate, beyond=1e-12)
    second = steps * float(law.masses @ law.losses**2)
    found = composed_epsilon(law, steps, 1e-5)
    assert found == pytest.approx(gaussian.epsilon(math.sqrt(second), 1e-5), rel=0.15)


@settings(deadline=None, derandomize=True, max_examples=60)
@given(
    noise=st.floats(0.4, 20.0),
    rate=st.floats(1e-5, 0.9),
    epsilon=st.floats(1e-6, 4.0),
)
def test_the_atoms_of_one_step_are_above_its_curve(noise, rate, epsilon):
    """One step exactly: D at 1 + q (y - 1) is q times the Gaussian's at y, and less for Poisson."""
    x = math.expm1(epsilon)
    for mu, laws in (
        (2 / noise, replacement_laws(noise=noise, rate=rate, beyond=1e-13)),
        (1 / noise, [poisson_laws(noise=noise, rate=rate, beyond=1e-13)[0]]),
    ):
        truth = rate * gaussian.delta(mu, math.log1p(x / rate), side=Side.LOWER)
        for law in laws:
            found = step_divergence(law, epsilon)
            assert found >= truth * (1 - 1e-7) - 1e-15
            assert found <= truth * 1.01 + 1e-4 * rate


def test_tiny_rates_are_not_rounded_away():
    """Few steps add up; at the same delta over rate they are in proportion to the rate."""
    common, rare = (published_epsilon(100.0, rate, 10, 1e-5 * rate) for rate in (1e-9, 1e-15))
    assert rare == pytest.approx(1e-6 * common, rel=1e-4)
    assert published_epsilon(1e3, 1 / 9, 9, 0.5) == 0
    for noise, rate in ((0.05, 0.3), (0.05, 1.0), (0.2, 1e-6)):  # one step, then no composition
        found = published_epsilon(noise, rate, 1, 1e-6)
        assert found <= gaussian.epsilon(2 / noise, 1e-6 * (1 - 1e-9)) * 1.01


@pytest.mark.parametrize("noise", [1e12, 1e20, 1e200])
def test_noise_beyond_what_floats_can_tell_apart(noise):
    kinds = (replacement_laws, poisson_laws, poisson_replaced_laws)
    for law in (law for laws in kinds for law in laws(noise=noise, rate=0.1, beyond=1e-12)):
        assert np.isfinite(law.masses).all()
        assert 0 <= composed_epsilon(law, 100, 1e-6) < 1e-9


def test_infinite_moments_are_no_obstacle():
    steps = (0.2, 0.05, 20, 1e-6)
    removed = sampled_epsilon(poisson_laws, 1, *steps)
    assert 90 < removed < sampled_epsilon(poisson_replaced_laws, 2, *steps) < 96


def mixture_divergence(rate, first, second, epsilon):
    """D of (1-q)N(0)+qN(first) and (1-q)N(0)+qN(second) in the plane, by brute force."""
    side = np.linspace(-9, 9, 241)
    plane = np.stack(np.meshgrid(side, side), axis=-1)
    weight = np.exp(-(plane**2).sum(-1) / 2) / (2 * math.pi) * (side[1] - side[0]) ** 2
    one, two = (1 + rate * np.expm1(plane @ g - g @ g / 2) for g in (first, second))
    return float((np.maximum(one - math.exp(epsilon) * two, 0) * weight).sum())


@settings(deadline=None, derandomize=True, max_examples=40)
@given(
    noise=st.floats(0.5, 10.0),
    rate=st.floats(0.01, 0.95),
    lengths=st.tuples(st.floats(0.0, 1.0), st.floats(0.0, 1.0)),
    angle=st.floats(0.0, math.pi),
    share=st.floats(0.0, 2.0),
)
def test_replacing_by_the_opposite_is_the_worst_of_poisson_sampling(
    noise, rate, lengths, angle, share
):
    """Any two gradients in the ball, of any lengths and at any angle, in both orders."""
    (law,) = poisson_replaced_laws(noise=noise, rate=rate, beyond=1e-13)
    first = np.array([lengths[0], 0.0]) / noise
    second = np.array([math.cos(angle), math.sin(angle)]) * lengths[1] / noise
    epsilon = share * rate / noise
    promised = step_divergence(law, epsilon)
    for pair in ((first, second), (second, first)):
        assert mixture_divergence(rate, *pair, epsilon) <= promised * (1 + 1e-3) + 1e-7
    worst = mixture_divergence(rate, np.array([1 / noise, 0]), np.array([-1 / noise, 0]), epsilon)
    assert worst * (1 - 1e-3) - 1e-7 <= promised <= worst * 1.01 + 1e-5 * rate


@pytest.mark.parametrize(("noise", "rate", "steps"), [(1.0, 0.02, 60), (4.0, 0.1, 50), (2, 0.5, 3)])
def test_replacing_under_poisson_sampling_agrees_with_sums_on_a_grid(noise, rate, steps):
    """The loss on a fine grid, rounded to the nearest, composed by brute-force convolution."""
    u = np.linspace(-12, 12, 200_001)
    density = np.exp(-(u**2) / 2) / math.sqrt(2 * math.pi) * (u[1] - u[0])
    first, second = (1 + rate * np.expm1(s * u / noise - noise**-2 / 2) for s in (1, -1))
    width = 1e-3
    loss = np.rint(np.log(first / second) / width).astype(int)
    law = np.bincount(loss - loss.min(), weights=first * density)
    size = 1 << (steps * law.size).bit_length()
    total = np.fft.irfft(np.fft.rfft(law, size) ** steps, size)
    losses_ = (np.arange(size) + steps * loss.min()) * width
    found = sampled_epsilon(poisson_replaced_laws, 2, noise, rate, steps, 1e-6)
    for epsilon, compared in ((found * 0.99, 1), (found * 1.001, -1)):
        delta = float(np.maximum(total * -np.expm1(np.minimum(epsilon - losses_, 0)), 0).sum())
        assert (delta - 1e-6) * compared > 0


def test_both_orders_of_poisson_sampling_are_there():
    removed, added = poisson_laws(noise=1.0, rate=0.1, beyond=1e-12)
    for law in (removed, added):
        assert float(law.masses.sum()) + law.infinite == pytest.approx(1.0, abs=1e-12)
    # E_P[e^-l] is the mass of Q where P has some
    assert float(removed.masses @ np.exp(-removed.losses)) == pytest.approx(1.0, abs=1e-9)
    assert composed_epsilon(removed, 50, 1e-6) > composed_epsilon(added, 50, 1e-6)


def test_losses_that_give_everything_away_are_counted():
    law = StepLaw.of(np.array([0.1, -0.1]), np.array([0.52, 0.48]), infinite=1e-7)
    assert composed_delta(law, 5, 3.0) >= 5e-7
    with pytest.raises(UnreachableTargetError, match="probability 1e-06"):
        composed_epsilon(law, 10, 1e-6)


@pytest.mark.parametrize("mu", [1e-6, 0.01, 1.0, 10.0])
@pytest.mark.parametrize("delta", [0.3, 1e-6, 1e-60])
def test_the_gaussian_mechanism_is_enclosed(mu, delta):
    upper = gaussian.epsilon(mu, delta)
    lower = gaussian.epsilon(mu, delta, side=Side.LOWER)
    assert lower <= upper <= lower * (1 + 1e-5) + 1e-12
    if upper > 0:
        assert gaussian.delta(mu, upper) <= delta
        assert gaussian.delta(mu, lower, side=Side.LOWER) >= delta or lower == 0


def test_cells_keep_masses_and_means():
    cells = Cells.between(-6.0, 7.0, 0.3)
    for mean in (0.0, 1.3, -2.0):
        below, above = cells.tails(mean)
        assert cells.masses(mean).sum() + below + above == pytest.approx(1.0, abs=1e-14)
    ends, weight, raised = cells.ratios(0.8), cells.masses(0.0), cells.raised(0.8)
    means = ends[1:] * raised + ends[:-1] * (weight - raised)
    assert means == pytest.approx(cells.masses(0.8), rel=1e-11)
    deep = Cells.between(20.0, 21.0, 0.5)
    assert deep.masses(0.0)[0] == pytest.approx(special.ndtr(-20.0) - special.ndtr(-20.5))


@pytest.mark.parametrize("reach", [0.05, 0.3, 1.0])
def test_the_atoms_of_the_blanket_are_a_spread_of_the_real_thing(reach):
    """E (Z)_+ of one draw, exactly by numerical integration, at several epsilons."""
    level = 2.0
    pair = Blanket(reach, reach, 1, level, 1e-14).pair
    u = np.linspace(-12, 12, 200_001)
    density = np.exp(-(u**2) / 2) / math.sqrt(2 * math.pi) * (u[1] - u[0])
    for epsilon in (0.0, 0.02, 0.3):
        ratios = [np.exp(s * reach * u - reach**2 / 2) for s in (1, -1)]
        truth = float(np.maximum(ratios[0] - math.exp(epsilon) * ratios[1], 0.0) @ density)
        found = float(np.maximum(pair.values(epsilon), 0.0) @ pair.mass)
        assert truth * (1 - 1e-7) <= found <= truth * 1.05
    assert float(pair.mass.sum()) == pytest.approx(math.exp(-level), rel=1e-9)


def test_outputs_beyond_the_last_cell_count_in_full():
    """N(0.1) has more than e^0.8 times what N(-0.1) has above 4 only: beyond the last cell."""
    blanket = Blanket(own=0.1, others=0.1, n=2, level=0.8, lost=3.7e-3)
    assert 0.1 - special.ndtri(3.7e-3) < 4
    told = special.ndtr(0.1 - 4) - math.exp(0.8) * special.ndtr(-0.1 - 4)
    assert blanket.quick_delta(0.8) >= told / 2 > 1e-6


def test_one_round_by_its_samples_is_the_round_itself():
    blanket = Blanket(0.2, 0.2, 5_000, 1.4, 1e-9)
    direct = blanket.epsilon(1e-6)
    end = max(1e-9, 1.5 * blanket.smallest_delta)
    law = StepLaw.sampled(blanket.quick_delta, spread=blanket.spread, end=end)
    assert direct <= composed_epsilon(law, 1, 1e-6) <= 1.01 * direct
