"""Binomial probabilities over a run of counts, to full relative accuracy for large n."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt
from scipy.special import logsumexp

_DEVIATIONS = 12.0
_SLACK = 60.0


def window(*, n: int, share: float) -> npt.NDArray[np.float64]:
    """Return the counts within 12 standard deviations of n·share, and 60 more on each side."""
    mean = n * share
    reach = _DEVIATIONS * math.sqrt(mean * (1 - share)) + _SLACK
    low = max(0, math.floor(mean - reach))
    high = min(n, math.ceil(mean + reach))
    return np.arange(low, high + 1, dtype=np.float64)


def log_pmf(counts: npt.NDArray[np.float64], *, n: int, share: float) -> npt.NDArray[np.float64]:
    """Return log Pr[Bin(n, share) = c] for consecutive counts that hold all but nothing of it.

    Successive ratios are summed outwards from the mode and normalised: log-gamma would lose
    1e-16·n log n.
    """
    ratios = np.log((n - counts[:-1]) / (counts[1:])) + math.log(share) - math.log1p(-share)
    mode = int(np.clip(math.floor((n + 1) * share) - int(counts[0]), 0, counts.size - 1))
    above = np.cumsum(ratios[mode:])
    below = -np.cumsum(ratios[:mode][::-1])[::-1]
    relative = np.concatenate([below, [0.0], above])
    normalised: npt.NDArray[np.float64] = relative - logsumexp(relative)
    return normalised
