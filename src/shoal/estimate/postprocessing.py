"""Making estimates look like shares."""

from __future__ import annotations

import numpy as np

from shoal.estimate.ranking import noise_floor
from shoal.values import Array, Estimate


def on_simplex(estimate: Estimate) -> Array:
    """The shares nearest to the estimates: none negative, all summing to one.

    The Euclidean projection onto the simplex (Duchi, Shalev-Shwartz, Singer, Chandra, ICML 2008),
    called Norm-Sub in the frequency-estimation literature. No longer unbiased.
    """
    ordered = np.sort(estimate.frequencies)[::-1]
    excess = (np.cumsum(ordered) - 1) / np.arange(1, ordered.size + 1)
    kept = int(np.flatnonzero(ordered > excess)[-1])
    projected: Array = np.maximum(estimate.frequencies - excess[kept], 0.0)
    return projected


def above_noise(estimate: Estimate, level: float = 0.95) -> Array:
    """The estimates, with those that could be noise set to zero.

    With probability ``level`` no answer that nobody gave is left over.
    """
    return np.where(estimate.frequencies >= noise_floor(estimate, level), estimate.frequencies, 0.0)
