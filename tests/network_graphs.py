"""Graphs that the tests of this directory share."""

from __future__ import annotations

import numpy as np
from hypothesis import strategies as st

from shoal.network.account import WalkAccountant
from shoal.network.generators import random_regular
from shoal.network.graph import Graph


def windmill(blades):
    """Triangles that share one node: the hub is node 0."""
    tips = np.arange(1, 2 * blades + 1)
    hub = np.column_stack([np.zeros(2 * blades, dtype=int), tips])
    return Graph.from_edges(np.concatenate([hub, tips.reshape(-1, 2)]))


def complete_edges(nodes):
    first, second = np.triu_indices(len(nodes), k=1)
    return np.column_stack([np.asarray(nodes)[first], np.asarray(nodes)[second]])


def pendant_clique(n, size, *, degree=16, seed=0):
    """An expander with a clique hanging on its node 0: one eigenvalue near 1 that hides."""
    expander = random_regular(n, degree, seed=seed)
    inside = np.column_stack([expander.rows, expander.neighbours])
    clique = complete_edges(np.arange(n, n + size))
    return Graph.from_edges(np.concatenate([inside[inside[:, 0] < inside[:, 1]], clique, [[0, n]]]))


def pendant(n):
    """A complete graph with one more node on a single edge; the pendant is the last node."""
    return Graph.from_edges(np.concatenate([complete_edges(np.arange(n - 1)), [[0, n - 1]]]))


def guarantee_after(walk, rounds, *, delta=None, epsilon=None, quantile=1.0, user=None, **setting):
    """The (ε, δ) of reports passed on for some rounds, in one call."""
    people = {"quantile": quantile, "user": user}
    accountant = WalkAccountant(walk, **setting)
    return accountant.guarantee(rounds, delta=delta, epsilon=epsilon, **people)


@st.composite
def connected_graphs(draw, smallest=3, largest=12, *, loops=True):
    """A random tree and random further edges, some of them loops."""
    n = draw(st.integers(smallest, largest))
    tree = [(draw(st.integers(0, node - 1)), node) for node in range(1, n)]
    ends = st.integers(0, n - 1)
    more = draw(st.lists(st.tuples(ends, ends), max_size=2 * n))
    return Graph.from_edges(tree + more, n=n, keep_loops=loops)


def dense_truth(walk):
    """max(|λ_2|, |λ_n|), from all eigenvalues."""
    root = np.sqrt(walk.stationary)
    kernel = walk.transitions.toarray() * root[:, None] / root[None, :]
    values = np.linalg.eigvalsh((kernel + kernel.T) / 2)
    return max(abs(values[0]), abs(values[-2]))
