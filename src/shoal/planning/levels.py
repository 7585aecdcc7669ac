"""Flat bins or a tree of them: whichever has the smaller predicted error for what is asked.

Totals of bins, and so quantiles, add up the noise of all bins in them; a tree needs a report for
each level, all of one budget, and few nodes for each total (:mod:`shoal.estimate.tree`). It pays
from some sixty bins on. It is for near-central histograms, whose errors are independent.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from shoal import checks
from shoal.estimate.tree import LARGEST, Tree, group_sizes, totals
from shoal.planning.joint import Part, plan_together
from shoal.planning.planner import Ranking
from shoal.planning.schemes import Levels
from shoal.questions.settled import Settled

if TYPE_CHECKING:
    from shoal.intervals.laws import Difference
    from shoal.mechanisms.estimators import AnswerEstimator

_DEPTHS = (2, 3, 4)
_FEWEST_BINS = 4


@dataclass(frozen=True)
class Grown:
    """A tree with the option that each level runs, and what it is predicted to be good for."""

    scheme: Levels
    rankings: tuple[Ranking, ...]
    note: str


def best_levels(flat: Settled, made: Ranking) -> Grown | None:
    """A tree, if it is predicted to be better than flat bins as they were ``made``, or wanted.

    Which depth is taken follows from errors that grow with the number of levels, as epsilon is
    shared; whether it is better, from its plans.
    """
    setting, wanted = made.setting, cast("Any", flat.question).tree
    law, bins = _law(made), len(flat.edges or ())
    fits = law is not None and _FEWEST_BINS <= bins <= LARGEST
    expected = (
        f"near-central histograms of {_FEWEST_BINS} to {LARGEST:,} bins for a tree (messages / "
        "--messages-cap above 1, or choose='near-central-lean')"
    )
    checks.refuse(wanted and not fits, expected, tree=wanted)
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
    if wanted is None and rough[sizes] >= now:
        return None
    scheme = Levels(len(flat.labels), bins, sizes)
    level = replace(setting, chosen=made.recommended.name, limits=_limits(made))
    parts = [Part(replace(level, domain=domain, scheme=scheme)) for domain in scheme.domains]
    rankings = plan_together(parts, epsilon=setting.epsilon, delta=setting.delta).rankings
    messages = math.fsum(each.randomizer.messages for each in rankings)
    laws = [_law(each) for each in rankings]
    joined = _tree(flat, sizes, [each.variance for each in laws if each is not None])
    error, cell = _error(flat, joined), math.sqrt(float(np.diag(joined.inverse).mean()))
    over = messages > setting.messages
    expected = f"messages / --messages-cap >= {messages:.4g}, which the levels of the tree take"
    checks.refuse(wanted and over, f"{expected} together", messages=setting.messages)
    if wanted is None and (error >= now or over):
        return None
    *most_bins, fewest = (f"{nodes:,}" for nodes in scheme.nodes)
    nodes = f"{', '.join(most_bins)} and {fewest}"
    note = (
        f"a tree of {nodes} bins, a report of everybody for each level ({messages:.3g} messages in "
        f"all): totals and quantiles are predicted to be off by {error:.3g} people, with flat bins "
        f"by {now:.3g}; a single bin by {cell:.3g}, with flat bins by {math.sqrt(one):.3g}"
    )
    return Grown(scheme, rankings, note)


def _limits(made: Ranking) -> Any:  # noqa: ANN401 - those of the plan, with as many messages
    return replace(made.setting.limits, messages=made.setting.messages)


def _tree(flat: Settled, sizes: Sequence[int], variances: Sequence[float]) -> Tree:
    return Tree.of(len(flat.edges or ()), len(flat.labels), sizes, variances)


def _law(made: Ranking) -> Difference | None:
    """The law of the independent errors of all bins, if it is known."""
    return cast("AnswerEstimator", made.randomizer.estimator).error(made.setting.n)


def _error(flat: Settled, tree: Tree) -> float:
    """Predicted root mean square error, in people, of the totals that are asked for.

    A quantile may be anywhere: it counts as all totals from the first bin on.
    """
    k, bins, asked = len(flat.labels), len(flat.edges or ()), cast("Any", flat.question)
    stops = np.arange(1, bins)
    weights = [totals(k, np.zeros(stops.size, dtype=np.int64), stops)] if asked.quantiles else []
    if flat.ranges or not weights:
        firsts, lasts = np.array(flat.ranges or [(0, bins // 2)]).T
        weights.append(totals(k, firsts, lasts + 1))
    return math.sqrt(float(np.mean(tree.variance(np.concatenate(weights)))))
