"""Near-central noise of which some shares are missing.

The noise of :mod:`shoal.accounting.noise.near_central` is shared among so many people; if only a
share θ of them is honest and present, Z+, Z− and F are negative binomial of shapes θ, θ and θr. The
law of what the shuffler shows has no closed form then, but it is a sum over the pairs,

    K(u, v) = Σ_m Pr[F=m] Pr[Z=u−m] Pr[Z=v−m],

one convolution for each difference d = u − v; and the divergence between sums that differ by j
compares the differences d − j and d at the same v.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from shoal import checks
from shoal.accounting.noise.near_central import NearCentralNoise
from shoal.accounting.noise.negative_binomial import STEP_ERROR, NegativeBinomial
from shoal.accounting.noise.windows import Array, checked_epsilon
from shoal.errors import InvalidArgumentError

_NEGLIGIBLE = 1e-17  # mass that may be left out of each law, and is counted
_MOST_CELLS = 12_000_000


def incomplete_delta(
    *,
    central_epsilon: float,
    shape: float,
    pairs: float,
    high: int,
    present: float,
    epsilon: float,
) -> float:
    """Upper bound, tight up to rounding, with a share ``present`` of the noise described.

    >>> noise = dict(central_epsilon=0.9, shape=17, pairs=300, high=1, epsilon=1.0)
    >>> [f"{incomplete_delta(**noise, present=share):.1e}" for share in (1.0, 0.9, 0.5)]
    ['9.8e-07', '2.2e-03', '2.9e-01']
    """
    noise = NearCentralNoise(central_epsilon=central_epsilon, shape=shape, pairs=pairs, high=high)
    checks.share(present=present)
    x = math.exp(checked_epsilon(epsilon))
    view = _view(noise, present)
    found = max(view.divergence(x, j, order) for j in range(1, high + 1) for order in (1, -1))
    return min(1.0, found * (1 + view.error) + view.omitted)


@dataclass(frozen=True, eq=False)
class _View:
    """K(v + d, v), a row per difference d from −reach to reach, a column per v."""

    cells: Array
    error: float
    omitted: float

    def divergence(self, x: float, shift: int, order: int) -> float:
        """Σ (K(u−j, v) − x K(u, v))_+, or with both exchanged for order −1."""
        edge = np.zeros((shift, self.cells.shape[1]))
        more, less = np.vstack([edge, self.cells]), np.vstack([self.cells, edge])
        first, second = (more, less) if order == 1 else (less, more)
        gains = first * (1 + self.error) - second * (x * (1 - self.error))
        return float(np.maximum(gains, 0.0).sum())


@lru_cache(maxsize=4)
def _view(noise: NearCentralNoise, present: float) -> _View:
    geometric = NegativeBinomial.geometric(noise.rate)
    flooding = NegativeBinomial.of_mean(noise.pairs, shape=noise.shape)
    single, lost = geometric.times(present).likely(left_out=_NEGLIGIBLE)
    paired, unpaired = flooding.times(present).likely(left_out=_NEGLIGIBLE)
    reach = single.size - 1
    size = paired.size + reach
    if (2 * reach + 1) * size > _MOST_CELLS:
        expected = "all of those who share noise of so many messages (calibrate it for fewer)"
        raise InvalidArgumentError("present", present, expected)
    cells = np.zeros((2 * reach + 1, size))
    for d in range(reach + 1):
        sums = np.convolve(paired, single[: single.size - d] * single[d:])
        cells[reach + d, : sums.size] = sums
        cells[reach - d, d : d + sums.size] = sums
    error = 8 * STEP_ERROR * (size + 1000)
    return _View(cells, error, 2 * lost + unpaired)
