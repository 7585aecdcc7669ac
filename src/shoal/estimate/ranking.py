"""Which answers stand out, and which only seem to."""

from __future__ import annotations

import math
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np

from shoal import checks
from shoal.values import Array, Estimate


@dataclass(frozen=True)
class Ranked:
    """One of the top answers."""

    index: int
    frequency: float
    standard_error: float
    significant: bool  # stands out from answers that nobody gave
    separated: bool  # its simultaneous interval lies above that of the next answer


def noise_floor(estimate: Estimate, level: float = 0.95) -> Array:
    """What an answer must reach so that, with probability ``level``, no mere noise does."""
    checks.open_probability(level=level)
    each = -math.expm1(math.log(level) / estimate.frequencies.size)
    empty = estimate.standard_errors if estimate.empty_error is None else estimate.empty_error
    z = NormalDist().inv_cdf(1 - each)
    reach: Array = np.broadcast_to(z * np.asarray(empty), estimate.frequencies.shape)
    # Counts of noise are skewed to the right: the first term of the Cornish-Fisher expansion.
    return reach + estimate.step * (z**2 + 2) / 6


def top(estimate: Estimate, size: int, level: float = 0.95) -> list[Ranked]:
    """The answers with the largest estimates, marked for what can be said about them."""
    size = min(checks.count(size=size), estimate.frequencies.size)
    order = np.argsort(-estimate.frequencies, kind="stable")
    floor = noise_floor(estimate, level)
    low, high = estimate.interval(level, simultaneous=True)
    ranked = []
    for place, index in enumerate(order[:size].tolist()):
        following = order[place + 1 :]
        separated = bool(following.size == 0 or low[index] > high[following].max())
        ranked.append(
            Ranked(
                index=index,
                frequency=float(estimate.frequencies[index]),
                standard_error=float(estimate.standard_errors[index]),
                significant=bool(estimate.frequencies[index] >= floor[index]),
                separated=separated,
            )
        )
    return ranked
