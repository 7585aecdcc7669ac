"""One round of a walk as a matrix, its entries exact up to a few roundings.

Every entry is a sum of positive terms: no difference of nearly equal numbers, so that the relative
error of a law after t rounds is at most t times that of one.
"""

from __future__ import annotations

import numpy as np
from scipy.sparse import csr_array, diags_array

from shoal.network.graph import Graph
from shoal.values import Array

UNIT = 2.0**-53  # the relative error of one rounding

ENTRY_ROUNDINGS = 8  # of an entry that is not a sum


def simple(graph: Graph) -> csr_array:
    """P(u, v) = 1/d_u."""
    return graph.weighted(1.0 / graph.degrees[graph.rows])


def simple_symmetric(graph: Graph) -> csr_array:
    """√π P(u, v)/√π = 1/√(d_u d_v)."""
    degrees = graph.degrees.astype(np.float64)
    return graph.weighted(1.0 / np.sqrt(degrees[graph.rows] * degrees[graph.neighbours]))


def metropolis(graph: Graph) -> csr_array:
    """P(u, v) = 1/max(d_u, d_v), and what a refused step leaves at u: symmetric.

    A step to v is refused with probability (1 - d_u/d_v)_+, so that u keeps the sum of
    (d_v - d_u)_+/(d_u d_v).
    """
    degrees = graph.degrees.astype(np.float64)
    own, theirs = degrees[graph.rows], degrees[graph.neighbours]
    moves = graph.weighted(1.0 / np.maximum(own, theirs))
    refused = np.maximum(theirs - own, 0.0) / (own * theirs)
    kept = np.bincount(graph.rows, weights=refused, minlength=graph.n)
    return csr_array(moves + diags_array(kept, format="csr"))


def slowed(kernel: csr_array, *, moving: float, staying: float) -> csr_array:
    """moving P + staying I, in a matrix of its own."""
    if staying == 0.0:
        return kernel.copy()
    size = kernel.shape[0]
    return csr_array(moving * kernel + diags_array(np.full(size, staying), format="csr"))


def longest_row(kernel: csr_array) -> int:
    """The largest number of terms in a sum."""
    return int(np.diff(kernel.indptr).max())


def growth(roundings: float) -> float:
    """(1 + u)^k - 1 for k roundings, rounded up."""
    return float(np.expm1(roundings * UNIT * (1 + 1e-9)) * (1 + 1e-9))


def without_diagonal(kernel: csr_array) -> tuple[csr_array, Array]:
    """The steps that lead elsewhere, and the probabilities of staying."""
    stays = kernel.diagonal()
    rows = np.repeat(np.arange(kernel.shape[0]), np.diff(kernel.indptr))
    moves = kernel.copy()
    moves.data[kernel.indices == rows] = 0.0
    moves.eliminate_zeros()
    return moves, stays
