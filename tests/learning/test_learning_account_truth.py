"""The accountant against runs small enough to compute: what they really give away is below.

Every output is cut into cells and the law of the cells is listed in full. Cutting is
post-processing, so the divergences found here are lower bounds of the true ones, without any
statistical error.
"""

from __future__ import annotations

import itertools
import math
from functools import partial

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import special

from shoal.accounting.blanket import Blanket
from shoal.learning import account
from shoal.learning.permuted import blanket_epsilon, distances, lower_epsilon
from shoal.learning.run import Run

NOISES = (0.7, 1.5, 4.0)
EPSILONS = (0.05, 0.3, 1.0)
CHANGED = 0  # the example whose gradient differs between the two data sets


def cell_masses(mean, *, cells, depth=5.0):
    """What N(mean, 1) weighs in equal cells and in the two ends, along one more axis."""
    edges = np.linspace(-depth, depth, cells - 1)
    below = special.ndtr(edges - np.asarray(mean)[..., None])
    ends = np.concatenate([np.zeros_like(below[..., :1]), below, np.ones_like(below[..., :1])], -1)
    return np.diff(ends, axis=-1)


def permuted_law(gradients, noise, *, n, cells):
    """The law of the cells of n steps; ``gradients(who, past)`` is a scalar in [-1, 1].

    ``past`` is the list of earlier cells, broadcast over all outcomes.
    """
    total = 0.0
    for order in itertools.permutations(range(n)):
        law = np.ones(())
        for step, who in enumerate(order):
            shape = np.indices((cells,) * step) if step else []
            mean = np.broadcast_to(gradients(who, list(shape)), (cells,) * step) / noise
            law = law[..., None] * cell_masses(mean, cells=cells)
        total = total + law
    return total / math.factorial(n)


def promised(noise, **run):
    """The smallest epsilon of any route."""
    routes = account(noise_multiplier=noise, **run).routes
    return min(route.epsilon for route in routes if route.epsilon is not None)


def divergence(first, second, epsilon):
    return float(np.maximum(first - math.exp(epsilon) * second, 0.0).sum())


def truths(laws):
    """Epsilons, and the delta of the worse order at each that is more than rounding."""
    both = [
        (each, max(divergence(*laws, each), divergence(*laws[::-1], each))) for each in EPSILONS
    ]
    return [(epsilon, truth) for epsilon, truth in both if truth > 1e-9]


def blankets_cover(noise, n, epsilon, truth):
    levels = (0.2, 1.0)
    made = [Blanket(1 / noise, 1 / noise, n, level, 1e-9) for level in levels]
    return all(blanket.quick_delta(epsilon) >= truth for blanket in made)


def steady(own, others):
    return lambda who, _past: own if who == CHANGED else others


def turning(own, others):
    """Everybody's gradient turns with the sign of what was seen last: an adaptive run."""

    def gradients(who, past):
        sign = 1.0 if not past else np.where(past[-1] >= CELLS[len(past) + 1] // 2, 1.0, -1.0)
        return (own if who == CHANGED else others) * sign

    return gradients


CELLS = {2: 90, 3: 34, 4: 18}
RUNS = [
    ("others opposite", steady, -1.0),
    ("others at zero", steady, 0.0),
    ("others alike", steady, 1.0),
    ("turning, others opposite", turning, -1.0),
    ("turning, others half way", turning, 0.5),
]


def pair_of(kind, others, noise, n):
    laws = [permuted_law(kind(own, others), noise, n=n, cells=CELLS[n]) for own in (1.0, -1.0)]
    return laws[0], laws[1]


@pytest.mark.parametrize(("kind", "others"), [run[1:] for run in RUNS], ids=[r[0] for r in RUNS])
@pytest.mark.parametrize("n", [2, 3, 4])
@pytest.mark.parametrize("noise", [1.5, 5.0])
def test_one_epoch_is_never_worse_than_promised(kind, others, n, noise):
    for epsilon, truth in truths(pair_of(kind, others, noise, n)):
        assert promised(noise, n=n, delta=truth * (1 - 1e-6)) >= epsilon
        assert blankets_cover(noise, n, epsilon, truth)


def test_the_blanket_says_something_about_four_people():
    """So that the test above is one: the bound is neither 1 nor that of no amplification."""
    noise = 6.0
    first, second = pair_of(steady, 0.0, noise, 4)
    found = Blanket(1 / noise, 1 / noise, 4, 0.4, 1e-9)
    alone = cell_masses(1 / noise, cells=400), cell_masses(-1 / noise, cells=400)
    truth, bound = divergence(first, second, 0.02), found.quick_delta(0.02)
    assert truth <= bound < 0.75 * divergence(*alone, 0.02)


@pytest.mark.parametrize("noise", [1.5, 6.0])
@pytest.mark.parametrize("others", [(0.0, 1.0), (0.0, -0.5), (0.7, 0.7)])
def test_gradients_in_a_plane_are_covered_too(noise, others):
    """Two examples, two coordinates: the other gradient may point anywhere in the disc."""
    cells = 16
    means = {"own": {0: (1.0, 0.0), 1: (-1.0, 0.0)}, "other": others}
    laws = []
    for own in (0, 1):
        mine = [cell_masses(np.array(m / noise), cells=cells, depth=4) for m in means["own"][own]]
        theirs = [cell_masses(np.array(m / noise), cells=cells, depth=4) for m in means["other"]]
        mine, theirs = np.outer(*mine).ravel(), np.outer(*theirs).ravel()
        laws.append((np.outer(mine, theirs) + np.outer(theirs, mine)) / 2)
    for epsilon, truth in truths(laws):
        assert promised(noise, n=2, delta=truth * 0.999) >= epsilon
        assert blankets_cover(noise, 2, epsilon, truth)


@pytest.mark.parametrize("noise", NOISES)
@pytest.mark.parametrize("others", [-1.0, 0.0, 1.0])
@pytest.mark.parametrize(("n", "epochs", "cells"), [(2, 2, 26), (1, 3, 60), (3, 2, 9)])
def test_several_epochs_are_never_worse_than_promised(noise, others, n, epochs, cells):
    laws = []
    for own in (1.0, -1.0):
        once = permuted_law(steady(own, others), noise, n=n, cells=cells).ravel()
        total = once
        for _ in range(epochs - 1):
            total = np.outer(total, once).ravel()
        laws.append(total)
    for epsilon, truth in truths(laws):
        assert promised(noise, n=n, epochs=epochs, delta=truth * 0.999) >= epsilon


def drawn_steps(noise, own, others):
    """The laws of two steps on two examples, one gradient of which is ``own``."""
    masses = partial(cell_masses, cells=90)
    sums = [mine + theirs for mine in (0.0, own) for theirs in (0.0, others)]
    once = {
        "replacement": sum(masses(np.array(mean / noise)) for mean in (own, others)) / 2,
        "poisson": sum(masses(np.array(total / noise)) for total in sums) / 4,
    }
    return {sampling: np.outer(step, step) for sampling, step in once.items()}


@pytest.mark.parametrize("noise", NOISES)
@pytest.mark.parametrize("sampling", ["replacement", "poisson"])
def test_steps_that_draw_examples_are_never_worse_than_promised(noise, sampling):
    """Two examples, one of them replaced: a step is on one, or each has a chance of 1/2."""
    for others in (-1.0, 0.0, 1.0):
        laws = [drawn_steps(noise, own, others)[sampling] for own in (1.0, -1.0)]
        for epsilon, truth in truths(laws):
            asked = {"noise_multiplier": noise, "n": 2, "delta": truth * 0.999}
            found = account(**asked, sampling=sampling, neighbouring="replace-one")
            assert found.steps == 2
            assert found.epsilon >= epsilon
            if sampling == "poisson" and others == 0:  # the worst there is
                assert found.epsilon <= 1.2 * epsilon + 0.2


@pytest.mark.parametrize("noise", NOISES)
def test_poisson_steps_are_never_worse_than_promised(noise):
    """One example more or less, everybody else's gradients zero, two steps of chance 1/2 each."""
    without, present = (cell_masses(np.array(mean), cells=90) for mean in (0.0, 1 / noise))
    step = (without + present) / 2
    for epsilon, truth in truths((np.outer(without, without), np.outer(step, step))):
        found = account(noise_multiplier=noise, n=2, delta=truth * 0.999, sampling="poisson")
        assert epsilon <= found.epsilon <= 1.2 * epsilon + 0.2  # this pair is the worst one


@settings(deadline=None, derandomize=True, max_examples=12)
@given(
    noise=st.floats(3.0, 30.0),
    n=st.integers(2, 300_000),
    epochs=st.integers(1, 20),
    delta=st.floats(1e-9, 1e-3),
)
def test_promises_are_above_what_crowds_of_one_kind_give_away(noise, n, epochs, delta):
    found = account(noise_multiplier=noise, n=n, epochs=epochs, delta=delta)
    fixed = account(noise_multiplier=noise, n=n, epochs=epochs, delta=delta, sampling="fixed")
    assert found.epsilon <= fixed.epsilon
    lower = found.lower_bound()
    assert all(route.epsilon is None or route.epsilon >= lower for route in found.routes)
    assert found.epsilon == min(route.epsilon or math.inf for route in found.routes)


def test_a_batch_is_hidden_by_batches_not_by_the_noise_on_one_example():
    """200 batches of 200: whose batch it is shows, so counting on 200 blocks with 2C is wrong."""
    careless = account(noise_multiplier=20, n=200).epsilon
    found = account(noise_multiplier=20, n=200 * 200, batch=200)
    assert found.lower > 5 * careless
    assert found.epsilon == account(noise_multiplier=20, n=40_000, sampling="fixed").epsilon
    assert found.lower > 0.9 * found.epsilon


@pytest.mark.parametrize(("batch", "noise"), [(2, 4.0), (3, 12.0)])
def test_batches_are_never_worse_than_promised(batch, noise):
    """Three blocks of a few examples; the other blocks as far away as can be, or in between."""
    cells = 60
    for others in (-batch, 0.0, batch):
        laws = []
        for own in (1.0, -1.0):
            sums = [batch - 1 + own, others, others]
            masses = [cell_masses(np.array(s / noise), cells=cells, depth=9.0) for s in sums]
            orders = itertools.permutations(masses)
            laws.append(sum(np.einsum("i,j,k", *order) for order in orders) / 6)
        for epsilon, truth in truths(laws):
            size = {"n": 3 * batch, "batch": batch, "delta": truth * 0.999}
            assert promised(noise, **size) >= epsilon
            for own, other in distances(Run.of(noise, 3 * batch, batch=batch, delta=truth)):
                for level in (0.5, 1.5):
                    assert Blanket(own, other, 3, level, 1e-9).quick_delta(epsilon) >= truth


def test_large_noise_lets_batches_hide_too():
    """Only one example differs: what has to be hidden is 2C, even where whole blocks hide it."""
    whole = Run.of(100.0, 10_000, batch=10, delta=1e-6)
    examples = Run.of(100.0, 1000, delta=1e-6)
    assert lower_epsilon(whole) <= blanket_epsilon(whole)
    assert blanket_epsilon(whole) < 2 * blanket_epsilon(examples)
