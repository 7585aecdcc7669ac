"""A sum of small whole numbers with almost the error of the central model.

Ghazi, Kumar, Manurangsi, Pagh, Sinha, "Differentially Private Aggregation in the Shuffle Model:
Almost Central Accuracy in Almost a Single Message", ICML 2021, arXiv:2109.13158. A person with a
number from 0 to Δ sends as many messages +1; all honest people together add Z+ messages +1 and Z−
messages −1, both geometric with ratio a = e^(−ε*/Δ), and F pairs {+1, −1} that do not change the
sum and hide Z−. Each person's share is negative binomial, 1/n of the shape. The shuffler shows
(s + Z+ + F, Z− + F); with

    J(u, v) = (1−a)² a^|u−v| G(min(u, v)),    G(m) = Pr[F=m] + a² G(m−1)

its law at s = 0, the divergence between s and s + j is a sum over one number, with the offsets
i = 1, ..., j−1 of v = u − i one by one (none for bits):

    D_x(J(u−j, v) || J(u, v)) = (1 − x a^j)_+/(1+a) + (1−a) Σ_u (a^j G(u−j) − x G(u))_+
                                + (1−a)² Σ_i Σ_u (a^(j−i) G(u−j) − x a^i G(u−i))_+,
    D_x(J(u, v) || J(u−j, v)) = (1−a) Σ_u (G(u) − x a^j G(u−j))_+
                                + (1−a)² Σ_i Σ_u (a^i G(u−i) − x a^(j−i) G(u−j))_+   for x >= 1.

For v <= u − j the likelihood ratio is a^−j, for v >= u it does not depend on v. The first order
gains nothing once x a^j >= 1, as G(u) >= a² G(u−1). The error of the estimate u − v is that of the
discrete Laplace law alone.
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

MOST_COPIES = 64
_UNIT = float(np.finfo(np.float64).eps)
_TAIL = 75.0  # the pairs left out have probability about e^-75
_MOST_COUNTS = 20_000_000
_LIKE_MORE = 4  # the best shape hardly changes beyond numbers up to this


@dataclass(frozen=True, kw_only=True)
class NearCentralNoise:
    """What all honest people add together.

    ``central_epsilon`` is ε* of the discrete Laplace noise for numbers up to ``high``; ``shape``
    and ``pairs`` are the shape and the mean of the negative binomial number of pairs.
    """

    central_epsilon: float
    shape: float
    pairs: float
    high: int = 1

    def __post_init__(self) -> None:
        checks.positive(central_epsilon=self.central_epsilon, shape=self.shape, pairs=self.pairs)
        checked_epsilon(self.central_epsilon)
        object.__setattr__(self, "high", checked_high(self.high))

    @property
    def rate(self) -> float:
        """ε*/Δ: the geometric laws have ratio a = e^−rate."""
        return self.central_epsilon / self.high

    @property
    def mean_squared_error(self) -> float:
        """2a/(1−a)², the variance of the discrete Laplace law."""
        return 0.5 / math.sinh(self.rate / 2) ** 2

    @property
    def messages(self) -> float:
        """Expected messages of noise, from everybody together: 2a/(1−a) + 2 E[F]."""
        return 2 / math.expm1(self.rate) + 2 * self.pairs

    def delta(self, epsilon: float) -> float:
        """Upper bound, tight up to rounding, on the divergence between neighbouring sums."""
        # With a shape from 1 on, F and so G and J(·, v) are log-concave: the largest shift is the
        # worst, as its likelihood ratios are monotone and it moves every threshold event most.
        first = self.high if self.shape >= 1 else 1
        return self.delta_at(epsilon, shifts=range(first, self.high + 1))

    def delta_at(self, epsilon: float, *, shifts: range) -> float:
        """The same for sums that differ by one of these numbers."""
        flooding = self._flooding()
        return min(1.0, max(flooding.delta(checked_epsilon(epsilon), j) for j in shifts))

    def _flooding(self) -> _Flooding:
        """G(0), G(1), ... from Pr[F = 0], Pr[F = 1], ..., with what is left out."""
        r, mean = self.shape, self.pairs
        more = mean / (r + mean)
        log_stop, log_more = -math.log1p(mean / r), -math.log1p(r / mean)
        spread = math.sqrt(mean * (1 + mean / r))
        reach = math.ceil(mean + 16 * spread + 60 + _TAIL / min(-log_more, self.rate))
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
        return _Flooding.of(self.rate, pmf, error, tail + float(np.finfo(np.float64).tiny) * reach)


@dataclass(frozen=True, eq=False)
class _Flooding:
    """``both`` is G up to a little beyond where F, whose law is ``pmf``, was cut off.

    ``error`` bounds the relative error of its entries; ``tail`` is the mass of F that is left out.
    """

    rate: float
    pmf: Array
    both: Array
    error: float
    tail: float

    @classmethod
    def of(cls, rate: float, pmf: Array, error: float, tail: float) -> _Flooding:
        decay = math.exp(-2 * rate)
        padded = np.concatenate([pmf, np.zeros(MOST_COPIES)])
        both = np.asarray(scipy.signal.lfilter([1.0], [1.0, -decay], padded))
        return cls(rate, padded, both, error, tail)

    def delta(self, epsilon: float, shift: int) -> float:
        """The larger of both orders, for sums that differ by ``shift``."""
        falling = self._falling(epsilon, shift)
        rising = self._rising(epsilon, shift) if epsilon < shift * self.rate else 0.0
        return (max(falling, rising) + self.tail) * (1 + 4 * self.error)

    def _falling(self, epsilon: float, shift: int) -> float:
        """D_x(J(u, v) || J(u−j, v)): where G grows quickly."""
        rate = self.rate
        if shift == 1:
            # G(u) = Pr[F=u] + a² G(u−1), so that nothing cancels.
            factor = math.exp(epsilon - rate) - math.exp(-2 * rate)
            at_least_u = self._gain(self.pmf, self._before(1), factor)
        else:
            at_least_u = self._gain(
                self.both, self._before(shift), math.exp(epsilon - shift * rate)
            )
        stop = -math.expm1(-rate)
        between = 0.0
        for i in range(1, shift):
            factor = math.exp(epsilon - (shift - 2 * i) * rate)
            gain = self._gain(self._before(i), self._before(shift), factor)
            between += math.exp(-i * rate) * gain
        return stop * at_least_u + stop**2 * between

    def _rising(self, epsilon: float, shift: int) -> float:
        """D_x(J(u−j, v) || J(u, v)): where G falls quickly, and all v <= u − j.

        Beyond the arrays G falls by a² per step, and all that is gained there is below ``ends``.
        """
        rate = self.rate
        stop, ends = -math.expm1(-rate), float(self.both[-1 - MOST_COPIES])
        certain = -math.expm1(epsilon - shift * rate) / (1 + math.exp(-rate))
        before = self._before(shift)
        at_least_u = self._gain(before, self.both, math.exp(epsilon + shift * rate))
        between = 0.0
        for i in range(1, shift):
            factor = math.exp(epsilon + (shift - 2 * i) * rate)
            gain = self._gain(before, self._before(i), factor)
            between += math.exp(-(shift - i) * rate) * gain
        return certain + stop * math.exp(-shift * rate) * at_least_u + stop**2 * between + ends

    def _before(self, steps: int) -> Array:
        """G(u − steps) at every u."""
        return np.concatenate([np.zeros(steps), self.both[:-steps]])

    def _gain(self, first: Array, second: Array, factor: float) -> float:
        """Σ (first − factor second)_+ with the rounding of both counted as gain."""
        lost = second * (factor * (1 - 2 * self.error))
        return float(np.maximum(first * (1 + 2 * self.error) - lost, 0.0).sum())


def near_central_delta(
    *, central_epsilon: float, shape: float, pairs: float, epsilon: float, high: int = 1
) -> float:
    """Upper bound, tight up to rounding, on the divergence of the noise described.

    >>> f"{near_central_delta(central_epsilon=0.9, shape=17, pairs=300, epsilon=1.0):.1e}"
    '9.8e-07'
    """
    noise = NearCentralNoise(central_epsilon=central_epsilon, shape=shape, pairs=pairs, high=high)
    return noise.delta(epsilon)


@lru_cache(maxsize=64)
def near_central_calibration(
    *, epsilon: float, delta: float, inflation: float = 1.25, high: int = 1
) -> NearCentralNoise:
    """The fewest pairs that keep (epsilon, delta), over all whole shapes of their law.

    ``inflation`` is the mean squared error paid, as a multiple of the central model's
    1/(2 sinh²(ε/(2Δ))); it fixes ε*. The aggregate does not depend on how many honest people share
    it. For numbers above 4 the shape is the best one for numbers up to 4.

    >>> noise = near_central_calibration(epsilon=1.0, delta=1e-6)
    >>> noise.mean_squared_error < 2.4, noise.pairs < 320
    (True, True)
    """
    checked_target(epsilon=epsilon, delta=delta)
    checks.above_one(inflation=inflation)
    high = checked_high(high)
    central = 2 * high * math.asinh(math.sinh(epsilon / high / 2) / math.sqrt(inflation))
    if high > _LIKE_MORE:
        alike = near_central_calibration(
            epsilon=epsilon, delta=delta, inflation=inflation, high=_LIKE_MORE
        )
        return _fewest_pairs(central, alike.shape, high, epsilon, delta)
    found: dict[int, NearCentralNoise] = {}

    def best(shape: int) -> float:
        if shape not in found:
            found[shape] = _fewest_pairs(central, shape, high, epsilon, delta)
        return found[shape].pairs

    low, top = 1, math.ceil(-8 * math.log(delta)) + 16
    while top - low > 2:
        left = low + (top - low) // 3
        right = top - (top - low) // 3
        low, top = (low, right) if best(left) <= best(right) else (left, top)
    return found[min(range(low, top + 1), key=best)]


def checked_high(high: float) -> int:
    """The largest number that a person may hold, few enough to be sent as copies."""
    copies = checks.count(high=high)
    if copies > MOST_COPIES:
        expected = f"high <= {MOST_COPIES} (split-and-mix sums larger numbers)"
        raise InvalidArgumentError("high", high, expected)
    return copies


def _fewest_pairs(
    central: float, shape: float, high: int, epsilon: float, delta: float
) -> NearCentralNoise:
    def noise(pairs: float) -> NearCentralNoise:
        return NearCentralNoise(central_epsilon=central, shape=shape, pairs=pairs, high=high)

    return noise(least_mean(lambda mean: noise(mean).delta(epsilon), delta=delta))
