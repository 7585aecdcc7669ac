"""The truth about tiny systems of people who pass reports on, by listing everything."""

from __future__ import annotations

import itertools
import math
from collections import defaultdict
from functools import partial, reduce

import numpy as np

from shoal.network.graph import Graph
from shoal.network.walk import Walk


def tiny_walk(source, nodes):
    """A random walk on a random connected graph with at least one loop."""
    edges = {(int(source.integers(0, node)), node) for node in range(1, nodes)}
    for pair in itertools.combinations_with_replacement(range(nodes), 2):
        if source.random() < 0.4:
            edges.add(pair)
    edges.add((0, 0))
    return Walk(Graph.from_edges(sorted(edges), n=nodes, keep_loops=True))


def joined(laws):
    """Law of the multiset of independent messages: of the sum of their numbers."""
    return reduce(_with, laws, {0: 1.0})


def message_law(holders, outputs, *, people):
    """Of (holder, report), independent: numbers whose sum says how often each of them occurs."""
    chances = np.outer(holders, outputs).ravel().tolist()
    return {(people + 1) ** place: chance for place, chance in enumerate(chances) if chance > 0}


def divergence(one, other, epsilon):
    """Σ (P - e^ε Q)_+ of two dictionaries."""
    growth = math.exp(epsilon)
    return sum(max(p - growth * other.get(key, 0.0), 0.0) for key, p in one.items())


def worst_delta(positions, table, *, target, epsilons):
    """The largest δ(ε) over everybody else's data and the target's two, exactly."""
    people, inputs = len(positions), len(table)
    worst = np.zeros(len(epsilons))
    others = [person for person in range(people) if person != target]
    labels = partial(message_law, people=people)
    own = [labels(positions[target], row) for row in table]
    for data in itertools.product(range(inputs), repeat=len(others)):
        laws = [labels(positions[person], table[x]) for person, x in zip(others, data, strict=True)]
        rest = joined(laws)
        views = [_with(rest, law) for law in own]
        shown = set().union(*views)
        chances = np.array([[view[key] for key in shown] for view in views])
        for one, other in itertools.permutations(chances, 2):
            gains = one - np.exp(epsilons)[:, None] * other
            worst = np.maximum(worst, np.maximum(gains, 0.0).sum(axis=1))
    return worst


def _with(rest, law):
    after = defaultdict(float)
    for seen, probability in rest.items():
        for message, chance in law.items():
            after[seen + message] += probability * chance
    return after
