"""Negative binomial laws: noise that many people can draw in independent shares.

Pr[F = m] is proportional to Γ(r + m)/m! q^m for a shape r > 0 and a ratio 0 < q < 1. The sum of
independent counts of one ratio has that ratio, and the sum of the shapes.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import scipy

from shoal.accounting.noise.windows import Array
from shoal.errors import InvalidArgumentError

STEP_ERROR = 1e-15  # relative error of each step from one probability to the next, at most
_TAIL = 75.0
_LEAST_LOG = -600.0
_MOST_COUNTS = 5_000_000


@dataclass(frozen=True, kw_only=True)
class NegativeBinomial:
    """The law with Pr[F = m + 1] / Pr[F = m] = q (shape + m)/(m + 1), by the log of q/(1 − q)."""

    shape: float
    log_odds: float

    @classmethod
    def geometric(cls, rate: float) -> NegativeBinomial:
        """Shape 1 and ratio q = e^−rate."""
        return cls(shape=1.0, log_odds=-math.log(math.expm1(rate)))

    @classmethod
    def of_mean(cls, mean: float, *, shape: float) -> NegativeBinomial:
        """The law of this mean and shape."""
        return cls(shape=shape, log_odds=math.log(mean / shape))

    def times(self, factor: float) -> NegativeBinomial:
        """The same ratio, with a multiple of the shape and of the mean."""
        return NegativeBinomial(shape=self.shape * factor, log_odds=self.log_odds)

    @property
    def mean(self) -> float:
        """Shape times q/(1 − q)."""
        return self.shape * math.exp(self.log_odds)

    @property
    def ratio(self) -> float:
        """q itself."""
        return float(scipy.special.expit(self.log_odds))

    @property
    def none(self) -> float:
        """Log of Pr[F = 0] = (1 − q)^shape."""
        return -self.shape * float(np.logaddexp(0.0, self.log_odds))

    def probabilities(self) -> tuple[Array, float]:
        """Pr[F = 0], Pr[F = 1], ..., and a bound on the mass of all counts beyond them."""
        spread = math.sqrt(self.mean / (1 - self.ratio))
        reach = self.mean + 16 * spread + 60 + _TAIL / float(np.logaddexp(0.0, -self.log_odds))
        if reach > _MOST_COUNTS or self.none < _LEAST_LOG:
            expected = f"noise of at most {_MOST_COUNTS} likely counts, 0 among them"
            raise InvalidArgumentError("noise", self.mean, expected)
        counts = np.arange(math.ceil(reach), dtype=np.float64)
        steps = self.ratio * (self.shape + counts) / (counts + 1)
        pmf = math.exp(self.none) * np.concatenate([[1.0], np.cumprod(steps)])
        factor = self.ratio * max(1.0, (reach + self.shape) / (reach + 1))
        beyond = float(pmf[-1]) * factor / (1 - factor) if factor < 1 else 1.0
        return pmf, beyond

    def likely(self, *, left_out: float) -> tuple[Array, float]:
        """The same, without the largest counts that have at most this mass together."""
        pmf, beyond = self.probabilities()
        above = np.cumsum(pmf[::-1])[::-1] + beyond  # Pr[F >= m]
        kept = max(2, int(np.searchsorted(-above, -left_out)))
        return pmf[:kept], float(above[kept]) if kept < above.size else beyond
