"""Devices with errors of a few people, what their messages can be, and which limits hold."""

from __future__ import annotations

import functools
import itertools
import math

import numpy as np

import shoal
from shoal.mechanisms import registry
from shoal.mechanisms.carriers import CarrierHistogram
from shoal.mechanisms.dummies import HashedDummies, UniformDummies
from shoal.mechanisms.histograms import LeanHistogram, RobustHistogram
from shoal.mechanisms.zero_sum import SparseHistogram, ZeroSumHistogram
from shoal.randomness import simulated

LOCAL = ("grr", "hadamard", "projective", "subset", "unary", "hashing")
NAMES = (*LOCAL, "dummies", "sparse", "near-central-lean", "near-central-robust")
EVERY = (*NAMES, "hashed-dummies", "zero-sum", "near-central-carriers")


def made(name, *, k, n, epsilon=3.0):
    """A mechanism with errors of a few people, or a local epsilon."""
    noise = 20 / epsilon**2
    if name in LOCAL:
        return registry.family(name, k=k)(epsilon=epsilon)
    return {
        "dummies": lambda: UniformDummies(k=k, dummies=min(20.0, noise * k / n)),
        "hashed-dummies": lambda: HashedDummies(k=k, dummies=1.3, buckets=16),
        "sparse": lambda: SparseHistogram(k=k, gamma=min(0.5, noise / n)),
        "zero-sum": lambda: ZeroSumHistogram(k=k, gamma=min(0.5, noise / n)),
        "near-central-lean": lambda: LeanHistogram(
            k=k, people=n, rate=epsilon / 3, pairs=10.0, shape=0.5
        ),
        "near-central-robust": lambda: RobustHistogram(k=k, people=n, rate=epsilon / 3, pairs=10.0),
        "near-central-carriers": lambda: CarrierHistogram.calibrated(
            k=k, n=n, epsilon=2.0, delta=1e-4
        ),
    }[name]()


def estimated(device, values, seed):
    """What is estimated of everybody's values."""
    reports = device.randomize(values, randomness=simulated(seed))
    return device.estimate(device.tally(reports))


def messages(device):
    """What each message counts, and how likely it is given every answer."""
    if isinstance(device, shoal.UnaryEncoding):
        cells = np.array(list(itertools.product([0, 1], repeat=device.k)))
    elif isinstance(device, shoal.SubsetSelection):
        sets = itertools.combinations(range(device.k), device.integers["size"])
        cells = np.array([[int(i in chosen) for i in range(device.k)] for chosen in sets])
    else:
        cells = np.eye(device.outputs, dtype=np.int64)
    return cells, device.table()


def power(law, number):
    """The law of a sum of so many."""
    return functools.reduce(np.convolve, [law] * number, np.ones(1))


def holding(found, values, bins, generator):
    """Which limits hold: of a point of the curve, all of it, a quantile, and a range."""
    true = np.cumsum(np.bincount(values, minlength=bins)[:bins]) / values.size
    point, curve = found.cumulative(), found.cumulative(simultaneous=True)
    at, q = generator.integers(bins - 1), generator.choice([0.1, 0.25, 0.5, 0.9])
    own, quantile = np.sort(values[values < bins]), found.quantile(q)
    if quantile.value is not None:
        assert quantile.low <= quantile.value <= quantile.high
    else:  # nobody may have a value
        assert found.range(0, bins - 1).low <= 0
    first, last = np.sort(generator.integers(0, bins, 2)).tolist()
    count, inside = found.range(first, last), np.mean((values >= first) & (values <= last))
    return np.array(
        [
            point.low[at] <= true[at] + 1e-12 <= point.high[at] + 2e-12,
            (curve.low <= true + 1e-12).all() and (true <= curve.high + 1e-12).all(),
            quantile.low <= own[math.ceil(q * own.size - 1e-9) - 1] <= quantile.high,
            count.low - 1e-12 <= inside <= count.high + 1e-12,
        ]
    )
