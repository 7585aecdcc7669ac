"""Gaussian noise on a public grid: numbers between bounds, vectors within a norm.

A number is rounded at random to a grid, as in :mod:`shoal.mechanisms.grid`, and N(0, sigma^2)
rounded to the same grid is added: what is sent is a whole number, and no digit of a float leaves
the device. The report is a function of the grid point plus *continuous* noise and of nothing else,
so the guarantee of that noise holds for it, shuffled or not.

Coordinates of vectors are rounded in the same way, which takes a vector out of its ball by the
grid's step times the root of the dimension at most: the noise hides that much more.

*What is exact.* Noise j has the probability of N(0, sigma^2) between (j - 1/2) h and (j + 1/2) h
for the grid's step h. A draw of 62 bits is compared with these probabilities, added up and rounded
down to 62 bits; where that does not decide, which happens once in 10^15 draws, 310 bits are drawn
and compared with a hundred digits. So the sampler is within 1e-80 of the law that is accounted.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from decimal import Context, Decimal, getcontext, localcontext
from functools import cache, cached_property, partial
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from shoal import checks
from shoal.accounting import gaussian, search
from shoal.accounting.blanket import BallProfile
from shoal.accounting.gaussian import Normal
from shoal.accounting.law import BlanketLaw
from shoal.accounting.profile import PrivacyProfile
from shoal.errors import InvalidArgumentError, UnreachableTargetError
from shoal.intervals.estimates import BoundedNoise, MeanEstimate, VectorEstimate
from shoal.mechanisms.base import ByLaw, ByProfile, Candidate, Codes, Mechanism, Parts, Wanted
from shoal.mechanisms.codec import Numbered
from shoal.mechanisms.estimators import Means
from shoal.mechanisms.grid import rounded
from shoal.mechanisms.vectors import Coordinates
from shoal.questions.domains import Ball, Interval
from shoal.randomness import Randomness
from shoal.values import Array, Counts, Messages, Span

THEOREM = "privacy blanket of Gaussian noise"
SMALLEST_SIGMA, LARGEST_SIGMA = 2.0**-16, 2.0**10  # of the range
_STEPS = 16  # of the grid in one sigma: rounding adds 0.1 % to the variance at most
_REACH = 9  # deviations of noise that a message has room for: beyond, there are 2e-19
_BITS = 62
_MORE = 4  # words, if 62 bits do not decide
_PI = Decimal(
    "3.14159265358979323846264338327950288419716939937510582097494459230781640628620899862803"
    "482534211706798214808651"
)
_PRECISE, _FINE = Context(prec=45), Context(prec=105)
_FINE_STEPS, _MOST_STEPS = 64, 2048  # of the grids of vectors
_TOLERANCE = 3e-4  # of sigma
# delta is enclosed to a hundredth, and falls faster than the tenth power of sigma: with so much
# more of it, epsilon comes out below its target, however it is solved for.
_MORE_SIGMA = 3e-3
_LITTLE_MORE = 2e-4  # what is tried first, and checked
_NOTHING = 1e-300


@dataclass(frozen=True)
class RoundedNormal:
    """N(0, deviation^2), rounded to whole numbers: drawn with whole numbers only."""

    deviation: float

    @cached_property
    def _reach(self) -> int:
        return math.ceil(_REACH * self.deviation) + 1

    @cached_property
    def heads(self) -> npt.NDArray[np.uint64]:
        """2^62 Pr[noise <= j], rounded down, for j = -reach, ..., reach - 1."""
        with localcontext(_PRECISE):
            above = [self._above(j, _BITS) for j in range(self._reach)]
        one = 1 << _BITS
        # Pr[noise <= -j - 1] = Pr[noise > j]: rounded down on this side, up on the other.
        return np.array([*reversed(above), *(one - each - 1 for each in above)], dtype=np.uint64)

    def _above(self, j: int, bits: int) -> int:
        """2^bits Pr[noise > j], rounded down, for j >= 0.

        Phi(z) = 1/2 + e^(-z^2/2)/sqrt(2 pi) (z + z^3/3 + z^5/(3 5) + ...).
        """
        z = (2 * j + 1) / (2 * Decimal(self.deviation))
        square = z * z
        term = total = z
        k = 1
        while term > total.scaleb(-getcontext().prec):
            k += 2
            term = term * square / k
            total += term
        inside = total * (-square / 2).exp() / (2 * _PI).sqrt()
        return max(0, int((Decimal("0.5") - inside) * (1 << bits)))

    def draw(self, size: int, randomness: Randomness) -> Codes:
        """Independent noise."""
        first = randomness.below(1 << _BITS, size)
        noise = np.searchsorted(self.heads, first, side="right").astype(np.int64) - self._reach
        for i in np.flatnonzero(np.isin(first, self.heads)).tolist():
            noise[i] = self.decided(int(first[i]), randomness)
        return noise

    def decided(self, first: int, randomness: Randomness) -> int:
        """The noise of a draw whose first bits are shared by two or more."""
        drawn, bits = first, _BITS * (1 + _MORE)
        for word in randomness.below(1 << _BITS, _MORE).tolist():
            drawn = drawn << _BITS | word
        # Beyond, there is less than 2^-310.
        reach = math.ceil(math.sqrt(2 * math.log(2) * bits) * self.deviation) + 1
        with localcontext(_FINE):

            def below(j: int) -> int:
                """2^bits Pr[noise <= j], rounded."""
                return (1 << bits) - self._above(j, bits) if j >= 0 else self._above(-j - 1, bits)

            return bisect_right(range(-reach, reach), drawn, key=below) - reach


@dataclass(frozen=True)
class NormalNoise(BoundedNoise):
    """Normal noise of one deviation, whatever the data."""

    step: float
    own: float

    @property
    def jump(self) -> float:
        """That of the rounding: normal noise has none."""
        return self.step

    def deviation(self, means: Array) -> Array:
        return np.full_like(means, self.own)


@dataclass(frozen=True, kw_only=True)
class Gaussian(Mechanism[MeanEstimate]):
    """Add Gaussian noise of standard deviation ``sigma``, in the units of the bounds.

    A report has no finite local epsilon: a number far out may have come from one end only. What it
    has by itself is the (epsilon, delta) of the Gaussian mechanism, and shuffled reports have that
    of their blanket, by :meth:`BlanketLaw.from_density`.

    Runtime: two draws and one binary search per report; O(n + sigma) to estimate.

    Utility: n Var is sigma^2, and at most 0.13 % more for rounding.

    Args:
        low: The least number that may be reported, public.
        high: The largest one, above ``low``.
        sigma: Standard deviation of the noise: 2^−16 to 2^10 times the range.

    Raises:
        InvalidArgumentError: A parameter is out of its range.
        UnreachableTargetError: From ``calibrated``, if no amount of noise keeps the target.

    References:
        Dwork, Kenthapadi, McSherry, Mironov, Naor, EUROCRYPT 2006, for Gaussian noise; Takagi,
        Liew, "Analysis of Shuffling Beyond Pure Local Differential Privacy" (arXiv 2601.19154),
        for shuffling it; :doc:`/theory/beyond-pure`.

    Example:
        >>> noise = Gaussian(low=0, high=1, sigma=1.0)
        >>> round(PrivacyProfile(noise.law(), n=10_000).epsilon(1e-6), 3)
        0.06
    """

    name: ClassVar[str] = "gaussian"

    low: float
    high: float
    sigma: float

    def __post_init__(self) -> None:
        checks.bounds(self.low, self.high)
        checks.positive(sigma=self.sigma)
        least, most = (part * (self.high - self.low) for part in (SMALLEST_SIGMA, LARGEST_SIGMA))
        expected = f"sigma from {least:g} to {most:g} (2^-16 to 2^10 times the range)"
        checks.refuse(not least <= self.sigma <= most, expected, sigma=self.sigma)

    @cached_property
    def parts(self) -> Parts[MeanEstimate]:
        """The law is that of the continuous noise, of which a report is a function."""
        return Parts(
            domain=Interval(self.low, self.high),
            # Infinite: see the class. By itself a report has the Gaussian mechanism's epsilon.
            privacy=ByLaw(math.inf, lambda: self._law, alone=self.alone),
            codec=Numbered(self.levels + 2 * self._beyond),
            # To the first and the last point that a message can say.
            estimator=Means(
                self._mean,
                lambda n: self.step**2 * self._variances[1] / n,
                reach=(self.low - self._beyond * self.step, self.high + self._beyond * self.step),
            ),
        )

    @classmethod
    def calibrated(
        cls, *, n: int, epsilon: float, delta: float, low: float = 0.0, high: float = 1.0
    ) -> Gaussian:
        """With the least noise that keeps (epsilon, delta) among n honest people.

        >>> made = Gaussian.calibrated(n=10_000, epsilon=0.0602, delta=1e-6)
        >>> round(made.sigma, 2)
        1.0
        """
        checks.target(epsilon=epsilon, delta=delta)
        checks.bounds(low, high)

        def excess(log_sigma: float) -> float:
            law = cls(low=0.0, high=1.0, sigma=math.exp(log_sigma)).law()
            reached = PrivacyProfile(law, n).within(delta).delta(epsilon)
            return math.log(max(reached, _NOTHING) / delta)

        # A deviation of the loss is about 1/(sigma sqrt(n)); below 0.4 there is hardly a blanket.
        about = math.sqrt(-2 * math.log(delta) / n) / epsilon
        at = _least_log_sigma(excess, 0.4 + about**0.65, n=n, epsilon=epsilon, delta=delta)
        made = cls(low=low, high=high, sigma=math.exp(at + _LITTLE_MORE) * (high - low))
        if PrivacyProfile(made.law(), n).epsilon(delta) <= epsilon:
            return made
        return cls(low=low, high=high, sigma=math.exp(at + _MORE_SIGMA) * (high - low))

    @classmethod
    def suffices(
        cls, error: float, *, n: int, epsilon: float, delta: float, low: float, high: float
    ) -> bool:
        """Whether reports with this deviation can keep (epsilon, delta) among n honest people."""
        try:
            made = cls(low=low, high=high, sigma=error)
        except InvalidArgumentError:  # next to none, or more than enough
            return error > high - low
        return PrivacyProfile(made.law(), n).within(delta).delta(epsilon) <= delta

    def alone(self, delta: float) -> float:
        """The epsilon that a report has by itself at this delta: the Gaussian mechanism's."""
        return gaussian.epsilon((self.high - self.low) / self.sigma, delta)

    @property
    def levels(self) -> int:
        """Points of the grid within the bounds, the bounds included."""
        return 1 + math.ceil(_STEPS * (self.high - self.low) / self.sigma)

    @property
    def step(self) -> float:
        """How far apart they are: a sixteenth of sigma, or all of a smaller range."""
        return (self.high - self.low) / (self.levels - 1)

    @cached_property
    def _noise(self) -> RoundedNormal:
        return RoundedNormal(self.sigma / self.step)

    @property
    def _beyond(self) -> int:
        """Points of the grid beyond either bound that a message can say."""
        return math.ceil(_REACH * self.sigma / self.step)

    @cached_property
    def _law(self) -> BlanketLaw:
        noise, step = Normal(self.sigma / (self.high - self.low)), 1 / (self.levels - 1)
        return BlanketLaw.from_density(noise, low=0.0, high=1.0, step=step, theorem=THEOREM)

    def draw(self, data: Array, bits: Randomness) -> Messages:
        """One message's number per value: a point of the grid, the farthest ones for all beyond."""
        levels = rounded(data, self.low, self.high, self.levels - 1, bits)
        points = levels + self._noise.draw(levels.size, bits) + self._beyond
        return np.asarray(np.clip(points, 0, self.levels + 2 * self._beyond - 1))

    def probabilities(self, inputs: Sequence[Any]) -> Array | None:
        """Mixtures of the rows of the two levels that a number is rounded to."""
        places = (np.array(inputs, dtype=np.float64) - self.low) / self.step
        below = np.minimum(np.floor(places), self.levels - 2)
        edges = np.arange(1, self.levels + 2 * self._beyond) - self._beyond - 0.5
        normal = Normal(self.sigma / self.step)
        rows = []
        for level in (below, below + 1):
            inner = normal.cdf(edges - level[:, None])
            ends = np.zeros((len(inner), 1)), np.ones((len(inner), 1))
            rows.append(np.diff(np.hstack([ends[0], inner, ends[1]]), axis=1))
        upwards = (places - below)[:, None]
        return np.asarray((1 - upwards) * rows[0] + upwards * rows[1])

    @property
    def _variances(self) -> Span:
        """Least and largest variance of one report, in steps: rounded twice, once at random."""
        least = (self.sigma / self.step) ** 2 + 1 / 12
        return least, least + 1 / 4

    def _mean(self, counts: Counts) -> MeanEstimate:
        """From the points of the grid that were sent; its error counts noise and rounding."""
        points = np.arange(counts.cells.size) - self._beyond
        mean, (least, most) = float(counts.cells @ points / counts.n), self._variances
        spread = float(counts.cells @ (points - mean) ** 2) / max(counts.n - 1, 1)
        error = self.step * math.sqrt(min(max(spread, least), most) / counts.n)
        noise = NormalNoise(self.step, self.step * math.sqrt(most))
        return MeanEstimate(self.low + self.step * mean, error, counts.n, noise=noise)


@dataclass(frozen=True, kw_only=True)
class GaussianVectors(Mechanism[VectorEstimate]):
    """Add Gaussian noise of standard deviation ``sigma`` to every coordinate.

    Takes vectors that are at most ``norm`` long; sigma is in the same units. Others may be anywhere
    in the ball, so reports are accounted for by the Gaussian blanket around its centre
    (:class:`BallProfile`), which is the same in every dimension. There is no local epsilon, as with
    :class:`Gaussian`.

    Runtime: 2 d draws and d binary searches per report; O(n d) to estimate.

    Utility: the squared error of one report is d sigma^2, and 0.1 % more for rounding.

    Args:
        dimension: Number of coordinates.
        norm: The longest vector that may be reported, > 0.
        sigma: Standard deviation of the noise: 2^−16 to 2^10 times the norm.

    Raises:
        InvalidArgumentError: A parameter is out of its range.
        UnreachableTargetError: From ``calibrated``, if no amount of noise keeps the target.

    References:
        :doc:`/theory/beyond-pure`.

    Example:
        >>> noise = GaussianVectors(dimension=10, norm=1.0, sigma=4.0)
        >>> round(noise.profile(n=100_000).epsilon(1e-6), 4)
        0.0116
    """

    name: ClassVar[str] = "gaussian-vectors"

    dimension: int
    norm: float
    sigma: float

    def __post_init__(self) -> None:
        checks.counts(self, dimension=1)
        checks.at_most(checks.LARGEST_DIMENSION, dimension=self.dimension)
        checks.positive(norm=self.norm, sigma=self.sigma)
        least, most = SMALLEST_SIGMA * self.norm, LARGEST_SIGMA * self.norm
        expected = f"sigma from {least:g} to {most:g} (2^-16 to 2^10 times the norm)"
        checks.refuse(not least <= self.sigma <= most, expected, sigma=self.sigma)

    @classmethod
    def candidates(cls, wanted: Wanted) -> list[Candidate]:
        """For vectors as long as they may be."""
        d, norm = wanted.domain.coordinates, wanted.domain.longest
        return [Candidate(cls.name, calibrated=partial(cls.calibrated, dimension=d, norm=norm))]

    @cached_property
    def parts(self) -> Parts[VectorEstimate]:
        """There is no law: what is common to all vectors of the ball is exchanged for more."""
        return Parts(
            domain=Ball(self.dimension, self.norm),
            privacy=ByProfile(self._profile, alone=self.alone),
            codec=Coordinates(
                self.dimension,
                _farthest,
                (0, self._most),
                f"coordinates from {-self._most} to {self._most}",
            ),
            estimator=Means(self._mean, lambda n: self.dimension * self._variance / n),
        )

    @classmethod
    def calibrated(
        cls, *, n: int, epsilon: float, delta: float, dimension: int, norm: float = 1.0
    ) -> GaussianVectors:
        """With the least noise that keeps (epsilon, delta) among n honest people."""
        checks.target(epsilon=epsilon, delta=delta)

        def excess(log_sigma: float) -> float:
            made = cls(dimension=dimension, norm=norm, sigma=math.exp(log_sigma) * norm)
            return math.log(made.profile(n).epsilon(delta) / epsilon)

        start = 1 + 4 * math.sqrt(-2 * math.log(delta) / n) / epsilon
        at = _least_log_sigma(excess, start, n=n, epsilon=epsilon, delta=delta)
        return cls(dimension=dimension, norm=norm, sigma=math.exp(at) * norm)

    @classmethod
    def suffices(
        cls, error: float, *, n: int, epsilon: float, delta: float, dimension: int, norm: float
    ) -> bool:
        """Whether reports with this deviation can keep (epsilon, delta) among n honest people."""
        sigma = error / math.sqrt(dimension)
        try:
            made = cls(dimension=dimension, norm=norm, sigma=sigma)
        except InvalidArgumentError:  # next to none, or more than enough
            return sigma > norm
        return made.profile(n).epsilon(delta) <= epsilon

    def alone(self, delta: float) -> float:
        """The epsilon that a report has by itself at this delta: the Gaussian mechanism's."""
        return gaussian.epsilon(2 * self._reach, delta)

    @property
    def step(self) -> float:
        """The grid's: a 64th of what makes the ball's radius, over all coordinates.

        At least a 2048th of sigma, so that tables stay short.
        """
        even = self.norm / (_FINE_STEPS * math.sqrt(self.dimension))
        return max(even, self.sigma / _MOST_STEPS)

    @property
    def _reach(self) -> float:
        """The radius over sigma, of the ball that rounded vectors are in."""
        radius = self.norm + self.step * math.sqrt(self.dimension)
        return radius / self.sigma * (1 + 1e-9)  # floats err by far less

    def _profile(self, n: int) -> BallProfile:
        """The curve of n honest people's reports."""
        step = self.step / self.sigma
        attained = math.floor(self.norm / self.step * (1 + 1e-12)) * step
        return BallProfile(self._reach, checks.count(n=n), attained=attained, step=step)

    @cached_property
    def _noise(self) -> RoundedNormal:
        return RoundedNormal(self.sigma / self.step)

    @property
    def _most(self) -> int:
        """The largest coordinate that a message can say, in steps."""
        return math.ceil((self.norm + _REACH * self.sigma) / self.step) + 1

    def draw(self, data: Array, bits: Randomness) -> Messages:
        """One row of whole numbers per vector: its report in steps of the grid."""
        most, edge = self._most, self._most * self.step
        points = rounded(data.ravel(), -edge, edge, 2 * most, bits) - most
        points += self._noise.draw(points.size, bits)
        return np.clip(points, -most, most).reshape(data.shape).astype(np.int32)

    @property
    def _variance(self) -> float:
        """Largest variance of a coordinate: rounded twice, once at random."""
        return self.sigma**2 + self.step**2 / 3

    def _mean(self, counts: Counts) -> VectorEstimate:
        """From sums of points of the grid."""
        means = self.step * counts.cells / counts.n
        deviation = math.sqrt(self._variance)
        errors = np.full_like(means, deviation / math.sqrt(counts.n))
        return VectorEstimate(means, errors, counts.n, NormalNoise(self.step, deviation))


def _farthest(reports: Messages) -> Array:
    """The largest coordinate of each report, either way."""
    return np.asarray(np.abs(reports.astype(np.float64)).max(axis=1))


def _least_log_sigma(
    excess: Callable[[float], float],
    start: float,
    *,
    n: int,
    epsilon: float,
    delta: float,
) -> float:
    """The logarithm of the least sigma, over range or norm, at which ``excess`` is at most 0.

    That is log(delta of the noise/target), a falling function.
    """
    excess = cache(excess)
    low = high = math.log(min(start, LARGEST_SIGMA / 2))
    step = 0.1
    if excess(low) <= 0:
        while excess(low) <= 0:
            low, high, step = max(low - step, math.log(SMALLEST_SIGMA)), low, 2 * step
            if low == high:
                return low
    else:
        while excess(high) > 0:
            low, high, step = high, min(high + step, math.log(LARGEST_SIGMA)), 2 * step
            if low == high:
                raise UnreachableTargetError(
                    f"({epsilon:g}, {delta:g})-DP among {n:,} people",
                    f"not even {LARGEST_SIGMA:g} times the range or norm is noise enough",
                    "collect more reports or weaken the target",
                )
    return search.root_below(excess, low, high, tolerance=_TOLERANCE)
