"""Groups: sizes and the fractions inside them, with limits that hold."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from outcomes import EVERY, estimated, made
from shoal.estimate.groups import split

GROUPS = np.array([[900, 600, 100], [800, 500, 300], [200, 100, 60], [430, 10, 0]])
N, K = int(GROUPS.sum()), GROUPS.size
CODES = np.repeat(np.arange(K), GROUPS.ravel())
LABELS = ("north", "south", "east", "west")
MECHANISMS = {name: made(name, k=K, n=N) for name in EVERY}


@pytest.mark.parametrize("name", MECHANISMS)
def test_sizes_cells_and_fractions_are_covered(name):
    mechanism, runs = MECHANISMS[name], 120
    missed = {"sizes": 0, "cells": 0, "fractions": 0}
    trials = dict.fromkeys(missed, 0)
    for seed in range(runs):
        estimate = estimated(mechanism, CODES, seed)
        low, high = estimate.interval()
        true = GROUPS.ravel() / N
        missed["cells"] += int(((true < low - 1e-9) | (true > high + 1e-9)).sum())
        trials["cells"] += K
        for group, counts in zip(split(mechanism.estimator, estimate, LABELS), GROUPS, strict=True):
            size = counts.sum()
            missed["sizes"] += not group.low - 1e-6 <= size <= group.high + 1e-6
            trials["sizes"] += 1
            inside = counts / size
            wrong = (inside < group.lows - 1e-9) | (inside > group.highs + 1e-9)
            missed["fractions"] += int(wrong.sum())
            trials["fractions"] += len(counts)
            if group.fractions is not None:
                assert ((group.lows <= group.fractions) & (group.fractions <= group.highs)).all()
    for what, number in missed.items():
        # Cells of a run are not independent: as if there were half as many. At 5 %, the false-alarm
        # rate of all three together is below 1e-6.
        effective = trials[what] // 2
        most = stats.binom.isf(2e-7, effective, 0.05) / effective
        assert number / trials[what] <= most, what


@pytest.mark.parametrize("name", ["grr", "unary", "near-central-lean", "dummies"])
def test_a_size_is_as_accurate_as_its_cells_allow(name):
    """Not by adding up the limits of cells, and without bias."""
    mechanism = MECHANISMS[name]
    runs = [
        split(mechanism.estimator, estimated(mechanism, CODES, seed), LABELS) for seed in range(100)
    ]
    counts = np.array([[group.count for group in groups] for groups in runs])
    true = GROUPS.sum(axis=1)
    errors = counts.std(axis=0, ddof=1)
    assert (np.abs(counts.mean(axis=0) - true) < 6 * errors / 10).all()
    widths = np.array([[group.high - group.low for group in groups] for groups in runs])
    assert (widths.mean(axis=0) < 1.5 * 3.92 * errors).all()


def test_an_empty_group_has_no_fractions():
    counts = GROUPS.copy()
    counts[2] = 0
    codes = np.repeat(np.arange(K), counts.ravel())
    for mechanism in MECHANISMS.values():
        group = split(mechanism.estimator, estimated(mechanism, codes, 7), LABELS)[2]
        assert group.fractions is None
        assert group.low == 0
        assert 0 < group.high < N / 2


def test_without_noise_everything_is_exact():
    mechanism = made("grr", k=K, n=N, epsilon=28.0)
    groups = split(mechanism.estimator, estimated(mechanism, CODES, 0), LABELS)
    for group, counts in zip(groups, GROUPS, strict=True):
        assert group.count == pytest.approx(counts.sum(), abs=1e-3)
        np.testing.assert_allclose(group.fractions, counts / counts.sum(), atol=1e-5)
        assert group.high - group.low < 3  # a report more or less


def test_limits_are_those_of_the_answer_and_the_rest():
    """By hand: c⁻/(c⁻ + r⁺) and c⁺/(c⁺ + r⁻), the rest by itself in another layout of answers."""
    mechanism = MECHANISMS["grr"]
    estimate = estimated(mechanism, CODES, 3)
    first = split(mechanism.estimator, estimate, LABELS)[0]
    low, high = (ends[0] for ends in estimate.interval())
    rest = mechanism.estimator.totals(estimate, np.array([1]), np.array([3]))
    least, most = (ends[0] for ends in rest.interval())
    assert first.lows[0] == pytest.approx(low / (low + most))
    assert first.highs[0] == pytest.approx(high / (high + least))
