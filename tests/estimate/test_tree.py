"""Bins on several levels: least squares, their errors, and when a tree is chosen."""

from __future__ import annotations

import math

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binom

import shoal
from outcomes import holding
from shoal.accounting.noise.near_central_histogram import CountLaw
from shoal.engines.tables import table
from shoal.errors import InvalidArgumentError
from shoal.estimate.distribution import Distribution
from shoal.estimate.tree import Tree, TreeEstimate, group_sizes, totals
from shoal.intervals.laws import Difference
from shoal.planning.levels import best_levels
from shoal.planning.planner import Setting, choose, rank
from shoal.questions.edges import Edges
from shoal.questions.settled import settle

N = 3000
VALUES = np.clip(np.random.default_rng(1).normal(50, 20, N), 0, 99).astype(np.int64)


@given(st.integers(2, 12), st.sampled_from([2, 3]), st.booleans(), st.integers(0, 10**6))
def test_a_tree_solves_least_squares_among_counts_of_all_people(bins, depth, none, seed):
    generator, k = np.random.default_rng(seed), bins + none
    sizes = group_sizes(bins, depth)
    variances = generator.uniform(0.5, 4, depth)
    tree = Tree.of(bins, k, sizes, variances)
    matrices = [np.eye(of.max() + 1)[:, of] for of in tree.nodes]
    assert all(matrix.sum() == k for matrix in matrices)
    counts = [generator.normal(10, 5, len(matrix)) for matrix in matrices]
    n = int(generator.integers(1, 100))
    rows = np.concatenate([m / math.sqrt(v) for m, v in zip(matrices, variances, strict=True)])
    seen = np.concatenate([c / math.sqrt(v) for c, v in zip(counts, variances, strict=True)])
    # With the last count expressed by the others, which sum to n.
    free = np.vstack([np.eye(k - 1), -np.ones(k - 1)])
    fixed = np.append(np.zeros(k - 1), n)
    solved, *_ = np.linalg.lstsq(rows @ free, seen - rows @ fixed, rcond=None)
    assert tree.solve(counts, n) == pytest.approx(free @ solved + fixed, abs=1e-8)
    starts = np.zeros(bins, dtype=np.int64)
    weights = totals(k, starts, np.arange(1, bins + 1), last=0.3)
    covariance = free @ np.linalg.inv(free.T @ rows.T @ rows @ free) @ free.T
    expected = np.einsum("ij,jk,ik->i", weights, covariance, weights)
    assert tree.variance(weights) == pytest.approx(expected, abs=1e-8)


@pytest.mark.parametrize(
    ("repetitions", "bins", "depth", "rate"),
    [
        (150, 12, 2, 0.5),
        *(
            pytest.param(4000, *each, marks=pytest.mark.slow)
            for each in ((4, 2, 1.5), (12, 2, 0.5), (30, 3, 0.2))
        ),
    ],
)
def test_limits_of_a_tree_hold_as_often_as_they_say(repetitions, bins, depth, rate):
    """Those of a bin, and of what is made of several."""
    generator, k = np.random.default_rng(3), bins + 1
    law = Difference(CountLaw.geometric(rate))
    tree = Tree.of(bins, k, group_sizes(bins, depth), [law.variance] * depth)
    line, held = Edges.of(bins, (0, bins - 1), n=1), np.zeros(5)
    estimator = shoal.RandomizedResponse(k=k, epsilon=1).estimator
    for _ in range(repetitions):
        values = generator.choice(k, 500, p=generator.dirichlet(np.full(k, 0.5)))
        values[0] = 0
        true = np.bincount(values, minlength=k)
        counts = []
        for of in tree.nodes:
            noise = generator.geometric(-math.expm1(-rate), (2, of.max() + 1))
            counts.append(np.bincount(of, weights=true) + noise[0] - noise[1])
        estimate = TreeEstimate.from_levels(tree, counts, [law] * depth, n=500)
        (low, high), at = estimate.interval(), generator.integers(bins)
        found = Distribution(line, estimate, estimator=estimator)
        own = low[at] <= true[at] / 500 <= high[at]
        held += np.append(own, holding(found, values, bins, generator))
    assert (held >= binom.ppf(1e-8, repetitions, 0.95)).all()


SIZE = 1 << 14


def tails(error, rate):
    """Of an error: Pr[error >= t] for any t, a little too small, from the law of each node's.

    Nodes with the same weight are added up as whole numbers, whose multiples are then rounded.
    """
    step, transform = 0.005 / rate, 1.0
    _, shares, numbers = zip(*error.weights, strict=True)
    counts = np.fft.fftfreq(SIZE, 1 / SIZE)
    single = np.fft.rfft(math.tanh(rate / 2) * np.exp(-rate * np.abs(counts)))
    for share, number in zip(shares, numbers, strict=True):
        whole = np.maximum(np.fft.irfft(single**number, SIZE), 0.0)
        places = np.rint(share * counts / step).astype(np.int64) % SIZE
        transform = transform * np.fft.rfft(np.bincount(places, weights=whole, minlength=SIZE))
    law = np.roll(np.fft.irfft(transform, SIZE), SIZE // 2)
    places = (np.arange(SIZE) - SIZE // 2) * step - len(shares) * step / 2
    return lambda t: float(law[places >= t].sum())


def tree_estimate(bins, depth, rate):
    law, k = Difference(CountLaw.geometric(rate)), bins + 1
    tree = Tree.of(bins, k, group_sizes(bins, depth), [law.variance] * depth)
    counts = [np.zeros(of.max() + 1) for of in tree.nodes]
    return TreeEstimate.from_levels(tree, counts, [law] * depth, n=1)


@pytest.mark.parametrize(
    ("bins", "depth", "rate"), [(99, 2, 0.25), (60, 3, 0.5), (10, 2, 3.0), (4, 2, 1.5)]
)
def test_limits_of_a_tree_are_those_of_its_law_at_every_level(bins, depth, rate):
    cells = tree_estimate(bins, depth, rate)
    starts, stops = np.array([0, 0, 1, bins // 3]), np.array([1, bins // 2, bins, bins // 2 + 1])
    for estimate in (cells, cells.totals(starts, stops)):
        beyond = [tails(estimate.errors[i], rate) for i in (0, 2, -1)]
        for level in (0.5, 0.8, 0.9, 0.95, 0.999, 0.999999):
            low, high = estimate.interval(level)
            reach = (high - low) / 2
            assert (reach < 12 * estimate.standard_errors).all()
            for i, tail in zip((0, 2, -1), beyond, strict=True):
                assert 2 * tail(reach[i]) <= 1 - level


@pytest.mark.parametrize(("bins", "rate"), [(20, 0.25), (99, 0.25), (99, 1.0), (99, 3.0)])
def test_bins_of_a_tree_that_nobody_is_in_are_hardly_ever_marked(bins, rate):
    estimate = tree_estimate(bins, 2, rate)
    floor, some = estimate.noise_floor(), range(0, bins + 1, 4)
    marked = [tails(estimate.errors[i], rate)(floor[i]) for i in some]
    assert (bins + 1) * np.mean(marked) <= 0.05
    assert rate > 1 or (bins + 1) * np.mean(marked) > 0.04  # and no higher than need be


def chosen(bins, cap=math.inf, name="near-central-lean", **asked):
    people = table(pl.DataFrame({"v": VALUES}), ["v"])
    flat = settle(shoal.Bins("v", 0, 999, bins=bins, missing="drop", **asked), people)
    terms = {"n": N, "epsilon": 1, "delta": 1e-6, "limits": shoal.Limits(messages=cap)}
    return best_levels(flat, choose(rank(Setting(domain=flat.domain, **terms)), name))


def test_a_tree_is_chosen_where_it_is_better():
    assert chosen(20, quantiles=0.5) is None
    assert chosen(200, quantiles=0.5, cap=100) is None  # the tree takes more messages
    assert chosen(200, ranges=[(0, 4)]) is None  # one bin
    levels = chosen(200, quantiles=0.5)
    assert levels.scheme.nodes == (200, 14)
    assert "with flat bins by" in levels.note
    assert "200 and 14 bins" in levels.note
    fine = np.arange(200)
    one, other = levels.scheme.reports([each.randomizer for each in levels.rankings])
    assert (one.given(fine, None) == fine).all()
    assert (other.given(fine, None) == fine // 15).all()
    with pytest.raises(InvalidArgumentError, match="messages"):
        chosen(200, quantiles=0.5, cap=100, tree=True)
    with pytest.raises(InvalidArgumentError, match="near-central histograms of 4"):
        chosen(20, name="grr", tree=True)


def test_a_run_with_a_tree_keeps_epsilon_and_says_so():
    frame = pl.DataFrame({"v": VALUES})
    asked = {"bins": 20, "quantiles": 0.5, "choose": "near-central-lean"}
    found = shoal.run(frame, shoal.Bins("v", 0, 99, **asked, tree=True), epsilon=1)
    assert isinstance(found.estimate, TreeEstimate)
    assert 0.98 < found.guarantee.epsilon <= 1
    assert "2 levels of a tree" in found.guarantee.theorem
    assert any(note.startswith("a tree of 20 and 4 bins") for note in found.notes)
    low, high = found.estimate.interval(0.999999)
    true = np.bincount(VALUES // 5, minlength=21) / N
    assert ((low <= true) & (true <= high)).all()
    assert found.to_html().count("<polygon") == 2
    (level,) = found.to_dict()["columns"][0]["levels"]
    assert (level["name"], level["k"]) == ("near-central-lean", 5)
    flat = shoal.run(frame, shoal.Bins("v", 0, 99, **asked, tree=False), epsilon=1)
    assert not isinstance(flat.estimate, TreeEstimate)


def test_a_tree_is_for_one_question_in_bins_and_a_plan():
    frame = pl.DataFrame({"v": VALUES})
    asked = shoal.Bins("v", 0, 99, bins=20, tree=True)
    several = shoal.Limits(messages=100)
    grr = shoal.RandomizedResponse(k=21, epsilon=1)
    for wrong in (
        {"questions": asked, "mechanism": grr},
        {"questions": [asked, shoal.Choice("w")], "epsilon": 1, "limits": several},
        {"questions": asked, "epsilon": 1, "limits": several, "person": shoal.Person("w", 2)},
    ):
        with pytest.raises(InvalidArgumentError, match="tree"):
            shoal.run(frame.with_columns(w=pl.col("v") % 7), **wrong)
    with pytest.raises(InvalidArgumentError, match="no tree with groups"):
        asked.by("w")
