"""A sum of bits with almost the error of the central model.

Ghazi, Kumar, Manurangsi, Pagh, Sinha, "Differentially Private Aggregation in the Shuffle Model:
Almost Central Accuracy in Almost a Single Message", ICML 2021, arXiv:2109.13158, for bits. A person
sends +1 if its bit is 1; all honest people together add Z+ messages +1 and Z− messages −1, both
geometric with ratio a = e^−ε*, and F pairs {+1, −1} that do not change the sum and hide Z−. Each
person's share is negative binomial, 1/n of the shape. The shuffler shows (s + Z+ + F, Z− + F); with

    J(u, v) = (1−a)² a^|u−v| G(min(u, v)),    G(m) = Pr[F=m] + a² G(m−1)

its law at s = 0, the divergence between s and s + 1 is a sum over one number in either order:

    D_x(J(u−1, v) || J(u, v)) = (1−xa)_+/(1+a) + (1−a) Σ_u (a G(u−1) − x G(u))_+,
    D_x(J(u, v) || J(u−1, v)) = (1−a) Σ_u (Pr[F=u] − a (x−a) G(u−1))_+      for x >= 1,

by summing over v: for v < u the likelihood ratio is 1/a, for v >= u it does not depend on v.
The error of the estimate u − v is that of the discrete Laplace law alone.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import scipy

from shoal import checks
from shoal.accounting.noise.targets import least_mean
from shoal.accounting.noise.windows import Array, checked_epsilon, checked_target
from shoal.errors import InvalidArgumentError

_UNIT = float(np.finfo(np.float64).eps)
_TAIL = 75.0  # the pairs left out have probability about e^-75
_MOST_COUNTS = 20_000_000


@dataclass(frozen=True, kw_only=True)
class NearCentralNoise:
    """What all honest people add together.

    ``central_epsilon`` is ε* of the discrete Laplace noise; ``shape`` and ``pairs`` are the shape
    and the mean of the negative binomial number of pairs.
    """

    central_epsilon: float
    shape: float
    pairs: float

    def __post_init__(self) -> None:
        checks.positive(central_epsilon=self.central_epsilon, shape=self.shape, pairs=self.pairs)
        checked_epsilon(self.central_epsilon)

    @property
    def mean_squared_error(self) -> float:
        """2a/(1−a)², the variance of the discrete Laplace law."""
        return 0.5 / math.sinh(self.central_epsilon / 2) ** 2

    @property
    def messages(self) -> float:
        """Expected messages of noise, from everybody together: 2a/(1−a) + 2 E[F]."""
        return 2 / math.expm1(self.central_epsilon) + 2 * self.pairs

    def delta(self, epsilon: float) -> float:
        """Upper bound, tight up to rounding, on the divergence between neighbouring sums."""
        x = math.exp(checked_epsilon(epsilon))
        a = math.exp(-self.central_epsilon)
        pmf, error, tail = self._flooding()
        both = np.asarray(scipy.signal.lfilter([1.0], [1.0, -a * a], pmf))
        before = np.concatenate([[0.0], both[:-1]])
        largest = (1 - a) * _positive(pmf, a * (x - a) * before, error) + tail
        if epsilon < self.central_epsilon:
            # Otherwise xa >= 1, and G(u) >= a² G(u-1) leaves no gain in this order.
            certain = -math.expm1(epsilon - self.central_epsilon) / (1 + a)
            rising = (1 - a) * _positive(a * before, x * both, error)
            largest = max(largest, certain + rising + tail + float(both[-1]))
        return min(1.0, largest * (1 + 4 * error))

    def _flooding(self) -> tuple[Array, float, float]:
        """Pr[F = 0], Pr[F = 1], ...; their relative error; the mass beyond them."""
        r, mean = self.shape, self.pairs
        more = mean / (r + mean)
        log_stop, log_more = -math.log1p(mean / r), -math.log1p(r / mean)
        spread = math.sqrt(mean * (1 + mean / r))
        reach = math.ceil(mean + 16 * spread + 60 + _TAIL / min(-log_more, self.central_epsilon))
        if reach > _MOST_COUNTS:
            expected = f"noise of at most {_MOST_COUNTS} likely counts"
            raise InvalidArgumentError("pairs", mean, expected)
        counts = np.arange(1, reach + 1, dtype=np.float64)
        steps = np.log((counts + (r - 1)) / counts) + log_more
        logs = np.concatenate([[0.0], np.cumsum(steps)]) + r * log_stop
        depth = float(np.abs(logs).max()) - r * log_stop
        largest = math.log(reach + r + 1) - log_more - math.log(min(r, 1.0))
        error = _UNIT * reach * (4 * largest + depth + 8)
        pmf = np.exp(logs)
        # Beyond the last count the pmf falls at least by this factor per step.
        ratio = more * max(1.0, (reach + r) / (reach + 1))
        tail = float(pmf[-1]) * ratio / (1 - ratio) if ratio < 1 else 1.0
        return pmf, error, tail + float(np.finfo(np.float64).tiny) * reach


def near_central_delta(
    *, central_epsilon: float, shape: float, pairs: float, epsilon: float
) -> float:
    """Upper bound, tight up to rounding, on the divergence of the noise described.

    >>> f"{near_central_delta(central_epsilon=0.9, shape=17, pairs=300, epsilon=1.0):.1e}"
    '9.8e-07'
    """
    noise = NearCentralNoise(central_epsilon=central_epsilon, shape=shape, pairs=pairs)
    return noise.delta(epsilon)


@lru_cache(maxsize=64)
def near_central_calibration(
    *, epsilon: float, delta: float, inflation: float = 1.3
) -> NearCentralNoise:
    """The fewest pairs that keep (epsilon, delta), over all whole shapes of their law.

    ``inflation`` is the mean squared error paid, as a multiple of the central model's
    1/(2 sinh²(ε/2)); it fixes ε*. The aggregate does not depend on how many honest people share it.

    >>> noise = near_central_calibration(epsilon=1.0, delta=1e-6)
    >>> noise.mean_squared_error < 2.4, noise.pairs < 320
    (True, True)
    """
    checked_target(epsilon=epsilon, delta=delta)
    checks.above_one(inflation=inflation)
    central = 2 * math.asinh(math.sinh(epsilon / 2) / math.sqrt(inflation))
    found: dict[int, NearCentralNoise] = {}

    def best(shape: int) -> float:
        if shape not in found:
            found[shape] = _fewest_pairs(central, shape, epsilon, delta)
        return found[shape].pairs

    low, high = 1, math.ceil(8 * math.log(1 / delta)) + 16
    while high - low > 2:
        left = low + (high - low) // 3
        right = high - (high - low) // 3
        low, high = (low, right) if best(left) <= best(right) else (left, high)
    return found[min(range(low, high + 1), key=best)]


def _fewest_pairs(central: float, shape: int, epsilon: float, delta: float) -> NearCentralNoise:
    def noise(pairs: float) -> NearCentralNoise:
        return NearCentralNoise(central_epsilon=central, shape=shape, pairs=pairs)

    return noise(least_mean(lambda mean: noise(mean).delta(epsilon), delta=delta))


def _positive(first: Array, second: Array, error: float) -> float:
    """Σ (first − second)_+ with the rounding of both counted as gain."""
    return float(np.maximum(first - second + 2 * error * (first + second), 0.0).sum())
