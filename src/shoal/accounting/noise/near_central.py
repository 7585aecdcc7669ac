"""A sum of small whole numbers with almost the error of the central model.

Ghazi, Kumar, Manurangsi, Pagh, Sinha, "Differentially Private Aggregation in the Shuffle Model:
Almost Central Accuracy in Almost a Single Message", ICML 2021, arXiv:2109.13158. A person with a
number from 0 to Δ sends as many messages +1; all honest people together add Z+ messages +1 and Z−
messages −1, both geometric with ratio a = e^(−ε*/Δ), and F pairs {+1, −1} that do not change the
sum and hide Z−. Each person's part is negative binomial, 1/n of the shape. The shuffler shows
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

**Incomplete noise.** If a fraction θ of those who share the noise is honest and present, Z+, Z−
and F are negative binomial of shapes θ, θ and θr. The law of what the shuffler shows has no closed
form then, but it is a sum over the pairs,

    K(u, v) = Σ_m Pr[F=m] Pr[Z=u−m] Pr[Z=v−m],

one convolution for each difference d = u − v; and the divergence between sums that differ by j
compares the differences d − j and d at the same v.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cache, lru_cache

import numpy as np

from shoal import checks
from shoal.accounting.atoms import Array
from shoal.accounting.noise.near_central_histogram import flooded
from shoal.accounting.noise.profile import checked_epsilon, least_mean

MOST_COPIES = 64
_UNIT = float(np.finfo(np.float64).eps)
STEP_ERROR = 1e-15  # relative error of each step from one probability to the next, at most
_TAIL = 75.0  # counts left out have probability about e^-75
_MOST_PAIRS = 20_000_000
_MOST_COUNTS = 5_000_000
_LEAST_LOG = -600.0
_MOST_CELLS = 12_000_000
_NEGLIGIBLE = 1e-17  # mass that may be left out of each law, and is counted
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
        flooding = _Flooding.of(self)
        return min(1.0, max(flooding.delta(checked_epsilon(epsilon), j) for j in shifts))


class _Flooding:
    """``both`` is G up to a little beyond where F, whose law is ``pmf``, was cut off.

    ``error`` bounds the relative error of its entries; ``tail`` is the mass of F that is left out.
    """

    def __init__(self, noise: NearCentralNoise) -> None:
        r, mean, self.rate = noise.shape, noise.pairs, noise.rate
        log_stop, log_more = -math.log1p(mean / r), -math.log1p(r / mean)
        spread = math.sqrt(mean * (1 + mean / r))
        reach = math.ceil(mean + 16 * spread + 60 + _TAIL / min(-log_more, self.rate))
        expected = f"noise of at most {_MOST_PAIRS} likely counts"
        checks.refuse(reach > _MOST_PAIRS, expected, pairs=mean)
        counts = np.arange(1, reach + 1, dtype=np.float64)
        steps = np.log((counts + (r - 1)) / counts) + log_more
        logs = np.concatenate([[0.0], np.cumsum(steps)]) + r * log_stop
        depth = float(np.abs(logs).max()) - r * log_stop
        largest = math.log(reach + r + 1) - log_more - math.log(min(r, 1.0))
        self.error = _UNIT * reach * (4 * largest + depth + 8)
        self.pmf = np.concatenate([np.exp(logs), np.zeros(MOST_COPIES)])
        # Beyond the last count the pmf falls at least by this factor per step.
        ratio = mean / (r + mean) * max(1.0, (reach + r) / (reach + 1))
        tail = float(self.pmf[reach]) * ratio / (1 - ratio) if ratio < 1 else 1.0
        self.tail = tail + float(np.finfo(np.float64).tiny) * reach
        self.both = flooded(self.pmf, self.rate)

    @classmethod
    @lru_cache(maxsize=4)
    def of(cls, noise: NearCentralNoise) -> _Flooding:
        """The same for all epsilons of a curve."""
        return cls(noise)

    def delta(self, epsilon: float, shift: int) -> float:
        """The larger of both orders, for sums that differ by ``shift``."""
        falling = self._falling(epsilon, shift)
        rising = self._rising(epsilon, shift) if epsilon < shift * self.rate else 0.0
        return (max(falling, rising) + self.tail) * (1 + 4 * self.error)

    def _falling(self, epsilon: float, shift: int) -> float:
        """D_x(J(u, v) || J(u−j, v)): where G grows quickly."""
        rate, stop, before = self.rate, -math.expm1(-self.rate), self._before(shift)
        if shift == 1:
            # G(u) = Pr[F=u] + a² G(u−1), so that nothing cancels.
            factor = math.exp(epsilon - rate) - math.exp(-2 * rate)
            at_least_u = self._gain(self.pmf, before, factor)
        else:
            at_least_u = self._gain(self.both, before, math.exp(epsilon - shift * rate))
        between = 0.0
        for i in range(1, shift):
            factor = math.exp(epsilon - (shift - 2 * i) * rate)
            between += math.exp(-i * rate) * self._gain(self._before(i), before, factor)
        return stop * at_least_u + stop**2 * between

    def _rising(self, epsilon: float, shift: int) -> float:
        """D_x(J(u−j, v) || J(u, v)): where G falls quickly, and all v <= u − j.

        Beyond the arrays G falls by a² per step, and all that is gained there is below ``ends``.
        """
        rate, stop, before = self.rate, -math.expm1(-self.rate), self._before(shift)
        ends = float(self.both[-1 - MOST_COPIES])
        certain = -math.expm1(epsilon - shift * rate) / (1 + math.exp(-rate))
        at_least_u = self._gain(before, self.both, math.exp(epsilon + shift * rate))
        between = 0.0
        for i in range(1, shift):
            factor = math.exp(epsilon + (shift - 2 * i) * rate)
            between += math.exp(-(shift - i) * rate) * self._gain(before, self._before(i), factor)
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
    checks.target(epsilon=epsilon, delta=delta)
    checks.above_one(inflation=inflation)
    high = checked_high(high)
    central = 2 * high * math.asinh(math.sinh(epsilon / high / 2) / math.sqrt(inflation))
    if high > _LIKE_MORE:
        alike = near_central_calibration(
            epsilon=epsilon, delta=delta, inflation=inflation, high=_LIKE_MORE
        )
        return _fewest_pairs(central, alike.shape, high, epsilon, delta)

    @cache
    def calibrated(shape: float) -> NearCentralNoise:
        return _fewest_pairs(central, shape, high, epsilon, delta)

    def pairs(shape: int) -> float:
        return calibrated(shape).pairs

    low, top = 1, math.ceil(-8 * math.log(delta)) + 16
    while top - low > 2:
        left = low + (top - low) // 3
        right = top - (top - low) // 3
        low, top = (low, right) if pairs(left) <= pairs(right) else (left, top)
    return calibrated(min(range(low, top + 1), key=pairs))


def checked_high(high: float) -> int:
    """The largest number that a person may hold, few enough to be sent as copies."""
    copies = checks.count(high=high)
    expected = f"high <= {MOST_COPIES} (split-and-mix sums larger numbers)"
    checks.refuse(copies > MOST_COPIES, expected, high=high)
    return copies


def _fewest_pairs(
    central: float, shape: float, high: int, epsilon: float, delta: float
) -> NearCentralNoise:
    def noise(pairs: float) -> NearCentralNoise:
        return NearCentralNoise(central_epsilon=central, shape=shape, pairs=pairs, high=high)

    return noise(least_mean(lambda mean: noise(mean).delta(epsilon), delta=delta))


# ------------------------------------------------------------ noise of which some parts are missing


def incomplete_delta(
    *,
    central_epsilon: float,
    shape: float,
    pairs: float,
    high: int,
    present: float,
    epsilon: float,
) -> float:
    """Upper bound, tight up to rounding, with a fraction ``present`` of the noise described.

    >>> noise = dict(central_epsilon=0.9, shape=17, pairs=300, high=1, epsilon=1.0)
    >>> [f"{incomplete_delta(**noise, present=part):.1e}" for part in (1.0, 0.9, 0.5)]
    ['9.8e-07', '2.2e-03', '2.9e-01']
    """
    noise = NearCentralNoise(central_epsilon=central_epsilon, shape=shape, pairs=pairs, high=high)
    checks.fraction(present=present)
    x = math.exp(checked_epsilon(epsilon))
    cells, error, omitted = _view(noise, present)

    def divergence(first: Array, second: Array) -> float:
        gains = first * (1 + error) - second * (x * (1 - error))
        return float(np.maximum(gains, 0.0).sum())

    worst = 0.0
    for shift in range(1, high + 1):
        edge = np.zeros((shift, cells.shape[1]))
        later, sooner = np.vstack([edge, cells]), np.vstack([cells, edge])  # K(u−j, v), K(u, v)
        worst = max(worst, divergence(later, sooner), divergence(sooner, later))
    return min(1.0, worst * (1 + error) + omitted)


@lru_cache(maxsize=4)
def _view(noise: NearCentralNoise, present: float) -> tuple[Array, float, float]:
    """K(v + d, v), a row per difference d from −reach to reach, a column per v.

    With a bound on the relative error of its entries, and on the mass left out.
    """
    geometric = NegativeBinomial.geometric(noise.rate)
    flooding = NegativeBinomial.of_mean(noise.pairs, shape=noise.shape)
    single, lost = geometric.times(present).likely(left_out=_NEGLIGIBLE)
    paired, unpaired = flooding.times(present).likely(left_out=_NEGLIGIBLE)
    reach = single.size - 1
    size = paired.size + reach
    expected = (
        "all people who share the noise: for fewer, so many messages are too much to compute "
        "(calibrate for fewer people)"
    )
    checks.refuse((2 * reach + 1) * size > _MOST_CELLS, expected, present=present)
    cells = np.zeros((2 * reach + 1, size))
    for d in range(reach + 1):
        sums = np.convolve(paired, single[: single.size - d] * single[d:])
        cells[reach + d, : sums.size] = sums
        cells[reach - d, d : d + sums.size] = sums
    error = 8 * STEP_ERROR * (size + 1000)
    return cells, error, 2 * lost + unpaired


@dataclass(frozen=True, kw_only=True)
class NegativeBinomial:
    """Noise that many people can draw in independent parts: a law by the log of q/(1 − q).

    Pr[F = m] is proportional to Γ(shape + m)/m! q^m for a ratio 0 < q < 1, so that
    Pr[F = m + 1] / Pr[F = m] = q (shape + m)/(m + 1). The sum of independent counts of one ratio
    has that ratio, and the sum of the shapes.
    """

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
        odds = math.exp(-abs(self.log_odds))
        return (1 if self.log_odds >= 0 else odds) / (1 + odds)

    @property
    def none(self) -> float:
        """Log of Pr[F = 0] = (1 − q)^shape."""
        return -self.shape * float(np.logaddexp(0.0, self.log_odds))

    def probabilities(self) -> tuple[Array, float]:
        """Pr[F = 0], Pr[F = 1], ..., and a bound on the mass of all counts beyond them."""
        spread = math.sqrt(self.mean / (1 - self.ratio))
        reach = self.mean + 16 * spread + 60 + _TAIL / float(np.logaddexp(0.0, -self.log_odds))
        expected = f"noise of at most {_MOST_COUNTS} likely counts, 0 among them"
        checks.refuse(reach > _MOST_COUNTS or self.none < _LEAST_LOG, expected, noise=self.mean)
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
        size = max(2, int(np.searchsorted(-above, -left_out)))
        return pmf[:size], float(above[size]) if size < above.size else beyond
