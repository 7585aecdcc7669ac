"""Estimates that no honest crowd gives: how often an honest one is taken for a forged one."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from scipy.stats import binom

from outcomes import messages
from shoal.intervals.estimates import unlikely
from shoal.mechanisms import registry
from shoal.mechanisms.response import RandomizedResponse
from shoal.randomness import simulated
from shoal.values import Counts

RARE = 1e-6
N, TARGET = 150, {"n": 150, "epsilon": 1.0, "delta": 1e-6}


def devices():
    """One of every name that a survey may have."""
    for name in registry.names("answers", local=True):
        yield registry.by_name(name)(k=4, epsilon=2.0)
    for name in registry.names("numbers", local=True):
        yield registry.by_name(name)(low=-5.0, high=10.0, epsilon=2.0)
    for name in registry.names("answers", several=True, surveys=False):
        yield registry.calibration(name)(k=4, **TARGET)
    for name in registry.names("bits"):
        yield registry.calibration(name)(**TARGET)
    yield registry.calibration("split-and-mix")(low=-5.0, high=10.0, **TARGET)
    yield registry.calibration("near-central-sum")(high=5, **TARGET)
    yield registry.calibration("near-central-sum")(low=-5.0, high=10.0, levels=5, **TARGET)


DEVICES = list(devices())


def bounds_of(device):
    return (device.low, device.high) if device.domain.takes == "numbers" else (0.0, 1.0)


def extremes(device, n=N):
    """Crowds at the ends of what they can say."""
    if device.domain.takes == "numbers":
        return [np.full(n, device.low), np.full(n, device.high)]
    return [np.zeros(n, dtype=int), np.full(n, device.k - 1), np.arange(n) % 2]


def marked(device, counts, rare):
    """Whether anything of the chart is beyond what honest people give."""
    estimate = device.estimate(counts)
    below, above = estimate.beyond(rare, bounds=bounds_of(device), reach=device.reach)
    return bool(below.any() or above.any())


@pytest.mark.parametrize("device", DEVICES, ids=lambda device: device.name)
def test_crowds_at_the_ends_are_honest_ones(device):
    for seed in range(25):
        for values in extremes(device):
            counts = device.tally(device.randomize(values, randomness=simulated(seed)))
            assert not marked(device, counts, RARE)


@pytest.mark.parametrize("device", DEVICES, ids=lambda device: device.name)
def test_no_more_are_marked_than_promised(device):
    """At a level at which some would be, by simulation."""
    rare, runs = 0.1, 150
    for values in extremes(device)[:2]:
        found = sum(
            marked(device, device.tally(device.randomize(values, randomness=simulated(seed))), rare)
            for seed in range(runs)
        )
        assert binom.sf(found - 1, runs, rare) > 1e-5


SMALL = [
    *(registry.by_name(name)(k=3, epsilon=0.5) for name in ("grr", "projective", "hadamard")),
    registry.by_name("unary")(k=2, epsilon=0.5),
    registry.by_name("subset")(k=4, epsilon=0.5, size=2),
    registry.by_name("duchi")(low=0.0, high=1.0, epsilon=0.5),
    registry.by_name("laplace")(low=0.0, high=1.0, epsilon=0.5, levels=3),
    registry.by_name("rounded")(low=0.0, high=1.0, epsilon=0.5, levels=3),
    registry.by_name("piecewise")(low=0.0, high=1.0, epsilon=0.5, levels=3),
]


@pytest.mark.parametrize("device", SMALL, ids=lambda device: device.name)
def test_few_people_by_exact_probabilities(device):
    """Every outcome of every crowd of a few people, with its probability."""
    (cells, table), n = messages(device), 4
    for rare in (0.9, 0.4):
        worst, outcomes = 0.0, {}
        for crowd in itertools.combinations_with_replacement(range(len(table)), n):
            total = 0.0
            for sent in itertools.product(range(table.shape[1]), repeat=n):
                key = tuple(sorted(sent))
                if key not in outcomes:
                    counts = Counts(cells[list(key)].sum(axis=0), n)
                    outcomes[key] = marked(device, counts, rare)
                if outcomes[key]:
                    total += math.prod(table[x, y] for x, y in zip(crowd, sent, strict=True))
            worst = max(worst, total)
        assert worst <= rare
        assert worst > 0 or rare < 0.5, "else nothing is tested"


@pytest.mark.parametrize("n", [1, 7, 40, 1000])
@pytest.mark.parametrize("epsilon", [0.2, 2.0, 6.0])
def test_the_tails_of_randomized_response_are_exact_enough(n, epsilon):
    device = RandomizedResponse(k=2, epsilon=epsilon)
    low, high = device.reach
    counts = np.arange(n + 1)
    estimates = low + (high - low) * counts / n
    below, above = unlikely(estimates, (0.0, 1.0), n=n, reach=device.reach, rare=RARE)
    true = (1 - low) / (high - low)  # what supports an answer that everybody gave
    other = -low / (high - low)
    assert binom.pmf(counts[above], n, true).sum() <= RARE
    assert binom.pmf(counts[below], n, other).sum() <= RARE
    # And what is far less likely than that is marked.
    assert above[binom.sf(counts - 1, n, true) < RARE**2].all()
    assert below[binom.cdf(counts, n, other) < RARE**2].all()


@pytest.mark.parametrize("device", DEVICES, ids=lambda device: device.name)
def test_what_one_person_adds_is_within_reach(device):
    if device.reach is None:
        return
    least, largest = device.reach
    for seed in range(30):
        for values in extremes(device, 1):
            counts = device.tally(device.randomize(values, randomness=simulated(seed)))
            estimate = device.estimate(counts)
            found = estimate.frequencies if hasattr(estimate, "frequencies") else estimate.mean
            found = np.atleast_1d(found)
            assert (found >= least - 1e-9).all()
            assert (found <= largest + 1e-9).all()


def test_copies_that_nobody_sent_are_missed():
    """The rule of zero-sum histograms makes 0 of them: the copies themselves tell."""
    device = registry.calibration("zero-sum")(k=4, **TARGET)
    assert marked(device, Counts(np.array([N, 0, 0, 0]), N), RARE)
    assert marked(device, Counts(np.array([2 * N, N, N, N]), N), RARE), "nobody withheld any"
    count = registry.calibration("zero-sum-count")(**TARGET)
    assert marked(count, Counts(np.array([2 * N]), N), RARE)
    assert marked(count, Counts(np.array([0]), N), RARE)
