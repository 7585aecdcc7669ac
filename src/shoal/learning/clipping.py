"""Clipping the gradient of each example by itself, where it is a number times the example.

The loss of a linear model is a function of the score x.theta, so the gradient of an example is s x,
s the slope of the loss in the score, and its norm is |s| |x|. Scaling it down to norm C is cutting
s off at ±C/|x|: nothing of the size of a gradient is ever computed for one example.

The slope of a convex loss increases with the score, and cut off it still does: clipped gradients
are the gradients of another convex loss, linear where the slope was cut and C-Lipschitz. Descent
with clipping minimizes that one (Song, Steinke, Thakkar, Thakurta, "Evading the Curse of
Dimensionality in Unconstrained Private GLMs", AISTATS 2021, arXiv 2006.06783).
"""

from __future__ import annotations

import numpy as np

from shoal.values import Array


def steepest(examples: Array, *, clip: float) -> Array:
    """C/|x| per example: the steepest slope that is not cut off; infinite for x = 0.

    >>> steepest(np.array([[3.0, 4.0], [0.0, 0.0]]), clip=1.0).tolist()
    [0.2, inf]
    """
    # Relative to the largest entry: the square of a tiny one is zero, its gradient need not be.
    largest = np.abs(examples).max(axis=1, initial=0.0)
    scaled = examples / np.where(largest > 0, largest, 1.0)[:, None]
    norms = largest * np.sqrt(np.einsum("ij,ij->i", scaled, scaled))
    allowed = np.full(len(examples), np.inf)
    np.divide(clip, norms, out=allowed, where=norms > 0)
    return allowed


def clipped_sum(examples: Array, slopes: Array, allowed: Array) -> Array:
    """Sum over a batch of s x, each s cut off at what its example allows."""
    return np.asarray(np.clip(slopes, -allowed, allowed) @ examples, dtype=np.float64)
