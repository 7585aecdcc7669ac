"""Distributions at a given distance from the hypothesis, as hard to notice as can be.

Paninski's alternatives (IEEE Trans. Inf. Theory 54, 2008): answers are paired at random and each
pair moves some mass, which of its two answers gains being a coin. For a uniform hypothesis every
pair moves 2α/k. In general answers of similar probability are paired, and a pair with weight w
moves min(t/w, what its rarer answer has), with the t that makes the distance α: among such
alternatives the one with the least Σ_j w_j (p_j − q_j)².
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from shoal import checks
from shoal.errors import InvalidArgumentError
from shoal.values import Array

Codes = npt.NDArray[np.int64]

_MOST_STEPS = 100
_SUM_ERROR = 1e-12


def paired(
    reference: Array, distance: float, *, weights: Array, size: int, generator: np.random.Generator
) -> Array:
    """So many random alternatives at exactly this total variation from the reference, as rows."""
    checks.open_probability(distance=distance)
    rows = np.tile(reference, (size, 1))
    order = _orders(reference, size, generator)
    first, second = order[:, 0::2], order[:, 1::2]
    limit = furthest(reference)
    if distance > limit * (1 + 1e-9):
        expected = f"a distance of at most {limit:.4g}, what pairs of similar answers can move"
        raise InvalidArgumentError("distance", distance, expected)
    caps = np.minimum(reference[first], reference[second])
    moved = _filled(caps, 2 / (weights[first] + weights[second]), distance)
    signs = generator.integers(2, size=moved.shape) * 2 - 1
    number = np.arange(size)[:, None]
    rows[number, first] += signs * moved
    rows[number, second] -= signs * moved
    return np.maximum(rows, 0.0)


def furthest(reference: Array) -> float:
    """The largest distance that pairs of similar answers can move."""
    ordered = np.sort(reference)[reference.size % 2 :]
    return float(ordered[0::2].sum())


def _orders(reference: Array, size: int, generator: np.random.Generator) -> Codes:
    """Rows of answers, similar ones beside each other, ties in random order; an even number.

    Of an odd number of answers the rarest is left out.
    """
    order = generator.permuted(np.tile(np.arange(reference.size), (size, 1)), axis=1)
    if np.ptp(reference) > 0:
        ranks = np.argsort(reference[order], axis=1, kind="stable")
        order = np.take_along_axis(order, ranks, axis=1)
    return order[:, reference.size % 2 :]


def _filled(caps: Array, shapes: Array, distance: float) -> Array:
    """min(cap, t shape) in each row, with the t that makes the row sum to the distance."""
    reach = distance / shapes.sum(axis=1)
    filled = np.minimum(caps, reach[:, None] * shapes)
    # The sum is concave in t, so Newton's steps come from below and stop at a corner.
    for _ in range(_MOST_STEPS):
        missing = distance - filled.sum(axis=1)
        if np.all(missing <= _SUM_ERROR * distance):
            break
        growing = np.where(reach[:, None] * shapes < caps, shapes, 0.0).sum(axis=1)
        reach = reach + np.where(growing > 0, missing / np.maximum(growing, 1e-300), 0.0)
        filled = np.minimum(caps, reach[:, None] * shapes)
    exact: Array = filled * (distance / filled.sum(axis=1))[:, None]
    return exact
