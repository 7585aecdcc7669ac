"""Flat bins or a tree of them: whichever has the smaller predicted error for what is asked.

Totals of bins, and so quantiles, add up the noise of all bins in them; a tree needs a report for
each level, all of one budget, and few nodes for each total (:mod:`shoal.estimate.tree`). It pays
from some sixty bins on. It is for near-central histograms, whose errors are independent.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

import numpy as np

from shoal import checks
from shoal.engines.bins import Binned
from shoal.estimate.tree import LARGEST, Tree, TreeEstimate, group_sizes, totals
from shoal.mechanisms.estimators import AnswerEstimator
from shoal.mechanisms.histograms import HistogramEstimate
from shoal.mechanisms.shares import Difference
from shoal.planning.joint import Part, plan_together
from shoal.planning.planner import Plan

_DEPTHS = (2, 3, 4)
_FEWEST_BINS = 4


@dataclass(frozen=True, eq=False)
class Levels:
    """A column on every level of a tree, bins first, and the plan of each: one report each."""

    columns: tuple[Binned, ...]
    sizes: tuple[int, ...]  # bins in a node of each level
    plans: tuple[Plan, ...]
    note: str

    def estimate(self, estimates: Sequence[HistogramEstimate]) -> TreeEstimate:
        """One estimate of the bins from those of all levels."""
        errors = [each.error for each in estimates]
        tree = _tree(self.columns[0], self.sizes, [error.variance for error in errors])
        counts = [each.people.astype(np.float64) for each in estimates]
        return TreeEstimate.of(tree, counts, errors, n=estimates[0].n)


def _tree(flat: Binned, sizes: Sequence[int], variances: Sequence[float]) -> Tree:
    return Tree.of(len(flat.bins), len(flat.labels), sizes, variances)


def best_levels(
    flat: Binned,
    plan: Plan,
    question: Mapping[str, Any],
    *,
    epsilon: float,
    delta: float,
    tree: bool | None = None,
) -> Levels | None:
    """A tree, if it is predicted to be better than the ``plan`` for flat bins, or asked for.

    ``question`` is the plan's, without epsilon and delta. Which depth is taken follows from errors
    that grow with the number of levels, as epsilon is shared; whether it is better, from its plans.
    """
    law, bins = _law(plan, flat.n), len(flat.bins)
    fits = law is not None and _FEWEST_BINS <= bins <= LARGEST
    expected = (
        f"near-central histograms of {_FEWEST_BINS} to {LARGEST:,} bins for a tree (messages_cap "
        "above 1 or choose='near-central-lean')"
    )
    checks.refuse(tree and not fits, expected, tree=tree)
    if law is None or not fits:
        return None
    one = law.variance
    shapes = [group_sizes(bins, depth) for depth in _DEPTHS]
    rough = {
        sizes: _error(flat, _tree(flat, sizes, [one * len(sizes) ** 2] * len(sizes)))
        for sizes in shapes
        if sizes[-1] < bins
    }
    sizes, now = min(rough, key=lambda each: rough[each]), _error(flat, _tree(flat, [1], [one]))
    if tree is None and rough[sizes] >= now:
        return None
    columns = [flat.grouped(size) for size in sizes]
    parts = [Part({**question, **each.question}, choose=plan.recommended.name) for each in columns]
    plans = plan_together(parts, epsilon=epsilon, delta=delta).plans
    devices = [each.randomizer for each in plans]
    messages, most = math.fsum(each.messages for each in devices), question.get("messages_cap")
    laws = [_law(each, flat.n) for each in plans]
    joined = _tree(flat, sizes, [each.variance for each in laws if each is not None])
    error, cell = _error(flat, joined), math.sqrt(float(np.diag(joined.inverse).mean()))
    over = most is not None and messages > most
    expected = f"messages_cap >= {messages:.4g}, which the levels of the tree take together"
    checks.refuse(tree and over, expected, messages_cap=most)
    if tree is None and (error >= now or over):
        return None
    *most_bins, fewest = (f"{len(each.bins):,}" for each in columns)
    nodes = f"{', '.join(most_bins)} and {fewest}"
    note = (
        f"a tree of {nodes} bins, a report of everybody for each level ({messages:.3g} messages in "
        f"all): totals and quantiles are predicted to be off by {error:.3g} people, with flat bins "
        f"by {now:.3g}; a single bin by {cell:.3g}, with flat bins by {math.sqrt(one):.3g}"
    )
    return Levels(tuple(columns), sizes, plans, note)


def _law(plan: Plan, n: int) -> Difference | None:
    """The law of the independent errors of all bins, if it is known."""
    return cast("AnswerEstimator", plan.randomizer.estimator).error(n)


def _error(flat: Binned, tree: Tree) -> float:
    """Predicted root mean square error, in people, of the totals that are asked for.

    A quantile may be anywhere: it counts as all totals from the first bin on.
    """
    k, bins = len(flat.labels), len(flat.bins)
    stops = np.arange(1, bins)
    weights = [totals(k, np.zeros(stops.size, dtype=np.int64), stops)] if flat.quantiles else []
    if flat.ranges or not weights:
        firsts, lasts = np.array(flat.ranges or [(0, bins // 2)]).T
        weights.append(totals(k, firsts, lasts + 1))
    return math.sqrt(float(np.mean(tree.variance(np.concatenate(weights)))))
