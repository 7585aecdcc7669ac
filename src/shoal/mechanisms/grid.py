"""Numbers between public bounds, rounded at random to a public grid before anything else.

A number x between neighbouring grid points a < b becomes b with probability (x - a)/(b - a), else
a: right on average, and a mixture of two levels. A randomizer of *levels* then sends one of
finitely many outputs with whole-number weights, so no digit of a float ever leaves the device.

*Privacy.* A report of x is a mixture of the reports of two levels, and the divergence between
shuffled data sets is jointly convex: a law that covers all pairs of levels covers all numbers.

*Estimation.* Scores g with E[g(Y) | level l] = l for every level are right on average for every x.
With step h, second moments m_l = E[g(Y)^2 | l] and x = (l + f) h, 0 <= f <= 1, the variance of one
report is ``h^2 [(1 - f) m_l + f m_{l+1} - (l + f)^2]``: the noise of its level, which scores q with
E[q(Y) | l] = l^2 give without bias as the mean of g^2 - q, and the rounding, h^2 f (1 - f).

*Laws that cover every pair of inputs at once.* Let b be the blanket of a randomizer and gamma its
mass. For every input x let ``top_x(s)`` be the largest, and ``bottom_x(s)`` the smallest,
probability that R_x gives to a test A (a function of the output with values in [0, 1]) of blanket
mass b(A) = s. For inputs 0, 1, ``Z = (R_0 - t R_1)/b`` and every real u,

    E_b (Z - u)_+ = max_A [R_0(A) - t R_1(A) - u b(A)] <= max_s [top(s) - t bottom(s) - u s]

as soon as ``top`` is above every top_x and ``bottom`` below every bottom_x. If moreover ``top`` is
concave and ``bottom`` convex, ``Z* = top'(s) - t bottom'(s)`` falls in s, and the right side is the
integral of (Z* - u)_+ over s in [0, gamma]. Both Z and Z* have the integral 1 - t, so Z* is above Z
in the convex order; the bound of a blanket law is the mean of a convex function of each of its
independent terms; hence the atoms ``(ds, top', bottom')`` cover every pair of inputs, for every n.

The least concave majorant of all top_x and the greatest convex minorant of all bottom_x are the
best such choice. It loses nothing where one pair of inputs attains both, as here: two inputs with
disjoint windows, or the two ends of the range.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from decimal import ROUND_CEILING, ROUND_FLOOR, Decimal, localcontext
from fractions import Fraction
from functools import cached_property, partial
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from shoal import checks
from shoal.accounting.atoms import AtomLike
from shoal.accounting.law import BlanketLaw, Claim
from shoal.accounting.profile import hull
from shoal.accounting.table import witness_pairs
from shoal.errors import InvalidArgumentError
from shoal.intervals.estimates import BoundedNoise, MeanEstimate
from shoal.mechanisms import words as texts
from shoal.mechanisms.base import (
    EXACT,
    LARGEST_EPSILON,
    ByLaw,
    Candidate,
    Codes,
    Integers,
    Mechanism,
    Odds,
    Parts,
    Wanted,
    check_table,
)
from shoal.mechanisms.codec import Numbered
from shoal.mechanisms.estimators import MeanEstimator
from shoal.questions.domains import Interval
from shoal.randomness import Randomness
from shoal.values import Array, Counts, Messages

_ROUNDING_BITS = 53
_TOTAL = 1 << 52
_ENOUGH = 512  # points that are not worth thinning out
_THINNED = 16
_ROUNDING = 2.0**-40
_LEVELS = (1, 2, 3, 4, 6, 8, 11, 16, 23, 32, 45, 64, 91, 128, 256, 512)  # steps a planner tries
_LARGEST_SEARCHED = 8.0  # beyond, the law of Laplace noise has too many atoms that matter

Point = tuple[int, int]
Corners = tuple[Codes, Codes]  # places and heights


def rounded(numbers: Array, low: float, high: float, steps: int, randomness: Randomness) -> Codes:
    """Numbers between bounds that are so many equal steps apart, rounded at random to one of them.

    Right on average to the 53 bits of a float.
    """
    places = (numbers - low) / (high - low) * steps
    below = np.minimum(np.floor(places), steps - 1)
    upper = np.floor((places - below) * 2.0**_ROUNDING_BITS).astype(np.uint64)
    upwards = randomness.below(1 << _ROUNDING_BITS, places.size) < upper
    return below.astype(np.int64) + upwards


@dataclass(frozen=True)
class LevelNoise(BoundedNoise):
    """The noise of the scores of ``grid``, as estimated from them, in levels.

    ``noise`` is the variance given the levels, ``spread`` that of all scores about their ``mean``.
    """

    grid: OnGrid
    mean: float
    noise: float
    spread: float

    @property
    def jump(self) -> float:
        """A lie has the mean square noise/lies; of two values, half of the lies are true."""
        grid = self.grid
        return grid.step * min(grid.levels - 1, math.sqrt(2 * self.noise / grid.lies))

    def deviation(self, means: Array) -> Array:
        """Of noise and rounding, which is bounded twice.

        Rounding adds f (1 - f) to a number between levels. Averaged over numbers with the mean μ,
        that is 1/4 at most, and e (1 - e) at a distance e < 1/2 from an end; below zero if μ is
        outside, where no data are. And it adds no more than the levels differ: than is seen of
        their spread, and what it grows by from the estimate to μ, which is less than the distance.
        """
        grid = self.grid
        places = (means - grid.low) / grid.step
        ends = np.minimum(np.minimum(places, grid.levels - 1 - places), 0.5)
        rounding = ends * (1 - np.maximum(ends, 0.0))
        seen = max(self.spread, self.noise) + np.abs(places - self.mean)
        variances = np.minimum(np.minimum(self.noise + rounding, grid.variances[1]), seen)
        return np.asarray(grid.step * np.sqrt(np.maximum(variances, 0.0)))


class OnGrid(MeanEstimator[MeanEstimate]):
    """The mean of numbers from scores of messages: g with E[g(Y) | l] = l, q with E[q(Y) | l] = l².

    ``moments`` are E[g(Y)² | l] for every level l, and ``lies`` the fraction of reports that are
    not the level's own output, or only at random.
    """

    def __init__(
        self,
        *,
        low: float,
        step: float,
        scores: Array,
        square_scores: Array,
        moments: Array,
        lies: float,
    ) -> None:
        self.low, self.step, self.lies = low, step, lies
        self.levels = moments.size
        self.scores, self.square_scores, self.moments = scores, square_scores, moments
        # The least and the largest score.
        ends = scores.min(), scores.max()
        least, largest = (low + step * float(score) for score in ends)
        self.reach = least, largest

    def estimate(self, counts: Counts) -> MeanEstimate:
        """Unbiased estimate of the mean; its standard error counts noise and rounding.

        Two estimates of the variance of one report are right or too large: the spread of the
        scores, which counts the spread of the data too; and the noise alone plus h^2/4 for the
        rounding. The smaller one is taken, within the possible variances and not below the noise.
        """
        n, fractions = counts.n, counts.cells / counts.n
        mean = float(fractions @ self.scores)
        spread = float(fractions @ (self.scores - mean) ** 2) * n / max(n - 1, 1)
        least, most = self.variances
        noise = float(fractions @ (self.scores**2 - self.square_scores))
        noise = min(max(noise, least), most)
        variance = min(max(spread, noise), noise + 0.25, most)
        law = LevelNoise(self, mean, noise, spread)
        error = self.step * math.sqrt(variance / n)
        return MeanEstimate(self.low + self.step * mean, error, n, noise=law)

    def variance(self, frequencies: npt.ArrayLike | None = None, *, n: int) -> float:  # noqa: ARG002
        """Largest variance of the estimated mean of n people, over their data."""
        return self.step**2 * self.variances[1] / checks.count(n=n)

    @cached_property
    def variances(self) -> tuple[float, float]:
        """Least and largest variance of one report's score, over all numbers."""
        moments = self.moments
        levels = np.arange(self.levels, dtype=np.float64)
        # Concave between levels: smallest at a level, largest where the derivative vanishes.
        slopes = np.diff(moments)
        places = np.clip(slopes / 2, levels[:-1], levels[1:])
        between = moments[:-1] + slopes * (places - levels[:-1]) - places**2
        return float((moments - levels**2).min()), float(between.max())


@dataclass(frozen=True, kw_only=True)
class GridRandomizer(Mechanism[MeanEstimate]):
    """A randomizer of one of finitely many levels, ``low`` and ``high`` the first and the last."""

    most_levels: ClassVar[int] = 1 << 20

    low: float
    high: float
    epsilon: float
    levels: int

    def __post_init__(self) -> None:
        checks.bounds(self.low, self.high)
        checks.positive(epsilon=self.epsilon)
        checks.counts(self, levels=2)
        checks.at_most(self.most_levels, levels=self.levels)
        _ = self._odds

    @cached_property
    def parts(self) -> Parts[MeanEstimate]:
        """The scores depend on the odds; the law is that of the levels."""
        return Parts(
            domain=Interval(self.low, self.high),
            privacy=ByLaw(self._odds.epsilon, self._law),
            codec=Numbered(self._outputs),
            estimator=self._estimator(),
            odds=self._odds,
        )

    @property
    @abstractmethod
    def _odds(self) -> Odds: ...

    @property
    @abstractmethod
    def _outputs(self) -> int: ...

    @abstractmethod
    def _estimator(self) -> OnGrid: ...

    @abstractmethod
    def _law(self) -> BlanketLaw:
        """That of the levels, which covers all numbers."""

    @abstractmethod
    def table(self) -> Array:
        """Pr[message y | level l], one row per level."""

    def probabilities(self, inputs: Sequence[Any]) -> Array | None:
        """Mixtures of the rows of the two levels that a number is rounded to."""
        try:
            table = self.table()
        except InvalidArgumentError:  # too long to be listed
            return None
        places = (np.array(inputs, dtype=np.float64) - self.low) / (self.high - self.low)
        places = places * (len(table) - 1)
        below = np.minimum(np.floor(places), len(table) - 2).astype(np.intp)
        upwards = (places - below)[:, None]
        return np.asarray((1 - upwards) * table[below] + upwards * table[below + 1])

    @abstractmethod
    def _perturb(self, levels: Codes, randomness: Randomness) -> Codes:
        """One message per level."""

    @property
    def step(self) -> float:
        """How far apart two levels are."""
        return (self.high - self.low) / (self.levels - 1)

    def draw(self, data: Array, bits: Randomness) -> Messages:
        """One message's number per value."""
        return self._perturb(rounded(data, self.low, self.high, self.levels - 1, bits), bits)


class WindowRandomizer(GridRandomizer):
    """A window of likelier outputs that moves with the level, at most ``levels - 1`` wide.

    Level l sends the w outputs l, ..., l + w - 1 with odds e^epsilon : 1 against each other output.

    There are K = m + w outputs for levels 0, ..., m. With whole odds ``high : low``, excess
    ``d = high - low`` and total ``T = w d + K low``,

        E[Y   | l] = (low sum_y y   + d sum_j (l + j)  )/T,    j = 0, ..., w - 1,
        E[Y^2 | l] = (low sum_y y^2 + d sum_j (l + j)^2)/T,

    are polynomials in l, so that scores linear and quadratic in the output are right on average.
    """

    @property
    def width(self) -> int:
        """Outputs in the window of one level: by default the level itself."""
        return 1

    @property
    def _outputs(self) -> int:
        """As many as the windows of all levels cover."""
        return self.levels - 1 + self.width

    @cached_property
    def _odds(self) -> Odds:
        return Odds.of(self.epsilon, highs=self.width, lows=self._outputs - self.width)

    @property
    def _excess(self) -> int:
        return self._odds.high - self._odds.low

    @cached_property
    def parts(self) -> Parts[MeanEstimate]:
        """With the size of the window, and of how many outputs it is a part."""
        return replace(super().parts, sizes={"width": self.width, "outputs": self._outputs})

    def _law(self) -> BlanketLaw:
        """The first and the last level have disjoint windows: no pair tells more.

        It is the law of randomized response among ``outputs / width`` answers.
        """
        if self.width == 1:
            return BlanketLaw.randomized_response(k=self._outputs, epsilon=self._odds.epsilon)
        return two_level_law(
            fraction=self.width / self._outputs,
            epsilon=self._odds.epsilon,
            disjoint=1 + (self.levels - 1) // self.width,
        )

    def table(self) -> Array:
        """Pr[message y | level l], one row per level."""
        check_table(self._outputs, levels=self.levels)
        offsets = np.arange(self._outputs) - np.arange(self.levels)[:, None]
        inside = (offsets >= 0) & (offsets < self.width)
        weights = np.where(inside, float(self._odds.high), float(self._odds.low))
        return weights / self._odds.total

    def _perturb(self, levels: Codes, randomness: Randomness) -> Codes:
        """A draw is w slices of the excess, for the window, then K slices of low for any output."""
        favour = self.width * self._excess
        drawn = randomness.below(self._odds.total, levels.size).view(np.int64)
        anywhere = (drawn - favour) // self._odds.low
        return np.where(drawn < favour, levels + drawn // self._excess, anywhere)

    @property
    def _gain(self) -> float:
        """T/(w d): one over the probability that the window is favoured."""
        return self._odds.total / (self.width * self._excess)

    def _moments(self, power: int) -> tuple[float, float]:
        """The constant part of E[Y^power | l], and the mean of j^power over a window."""
        outputs = np.arange(self._outputs, dtype=np.float64) ** power
        constant = self._odds.low / self._odds.total * float(outputs.sum())
        return constant, float(outputs[: self.width].mean())

    def _estimator(self) -> OnGrid:
        numbers = np.arange(self._outputs, dtype=np.float64)
        (constant, offset), (square, square_offset) = self._moments(1), self._moments(2)
        scores = self._gain * (numbers - constant) - offset
        linear = 2 * offset * scores
        sums = np.zeros(self._outputs + 1)
        np.cumsum(scores**2, out=sums[1:])
        windows: Array = sums[self.width :] - sums[: self.levels]
        everywhere = self._odds.low * float(sums[-1])
        return OnGrid(
            low=self.low,
            step=self.step,
            scores=scores,
            square_scores=self._gain * (numbers**2 - square) - square_offset - linear,
            moments=(everywhere + self._excess * windows) / self._odds.total,
            # K low/T: the report is any output, all alike.
            lies=self._outputs * self._odds.low / self._odds.total,
        )


@dataclass(frozen=True, kw_only=True)
class Duchi(WindowRandomizer):
    """Send "high" with a probability linear in the number, from 1/(e + 1) to e/(e + 1).

    The same as rounding at random to ``low`` or ``high`` and one bit of randomized response, so
    every report is a mixture of those of the two bounds, which are the worst pair of inputs.

    Runtime: two draws and one division per report; O(n) to estimate.

    Utility: with C = (e + 1)/(e - 1) and x scaled to [-1, 1], n Var = C^2 - x^2. Best for
    epsilon below about 1; for a large epsilon the rounding alone costs up to 1.

    Args:
        low: The least number that may be reported, public.
        high: The largest one, above ``low``.
        epsilon: Local ε of one report, in (0, 30]; the sampler keeps at most this.

    Raises:
        InvalidArgumentError: A parameter is out of its range.

    References:
        Duchi, Jordan, Wainwright, "Minimax Optimal Procedures for Locally Private Estimation",
        JASA 2018 (arXiv 1604.02390), in one dimension; :doc:`/theory/envelope`.

    Example:
        >>> Duchi(low=-1, high=1, epsilon=1.0).table().round(3)[0].tolist()
        [0.731, 0.269]
    """

    name: ClassVar[str] = "duchi"
    words = texts.LOW_OR_HIGH

    levels: int = field(default=2, init=False, repr=False)


@dataclass(frozen=True, kw_only=True)
class Piecewise(WindowRandomizer):
    """Send a point of a window around the number with odds e^epsilon : 1 against the rest.

    The piecewise mechanism on a grid: the window has about ``m e^(-epsilon/2)`` of the
    ``m (1 + e^(-epsilon/2))`` outputs, for ``levels = m + 1``. After shuffling it is worth as much
    as randomized response among e^(epsilon/2) + 1 answers.

    Runtime: two draws and two divisions per report; O(n + levels) to estimate.

    Utility: with s = e^(epsilon/2) and x scaled to [-1, 1], n Var is about x^2/(s - 1) + (s
    + 3)/(3 (s - 1)^2): below one bit's for epsilon above about 1.3.

    Args:
        low: The least number that may be reported, public.
        high: The largest one, above ``low``.
        epsilon: Local ε of one report, in (0, 30]; the sampler keeps at most this.
        levels: Points of the grid from ``low`` to ``high``, 2 to 2^20.

    Raises:
        InvalidArgumentError: A parameter is out of its range.

    References:
        Wang, Xiao, Yang, Zhao, Hui, Shin, Shin, Yu, "Collecting and Analyzing Multidimensional
        Data with Local Differential Privacy", ICDE 2019 (arXiv 1907.00782);
        :doc:`/theory/envelope`.

    Example:
        >>> Piecewise(low=-1, high=1, epsilon=2.0).width
        376
    """

    name: ClassVar[str] = "piecewise"
    words = texts.WINDOW

    levels: int = 1024

    @property
    def width(self) -> int:
        """The published fraction of the outputs, rounded, at least one."""
        return max(1, round((self.levels - 1) * math.exp(-self.epsilon / 2)))


@dataclass(frozen=True, kw_only=True)
class RoundedResponse(WindowRandomizer):
    """Round at random to one of ``levels`` values, then randomized response among them.

    Runtime: two draws and one division per report; O(n + levels) to estimate.

    Utility: with g = k/(e + k - 1), k = m + 1 levels and range 1, n Var is at most about
    g/(3 (1 - g)^2) + 1/(4 m^2): more levels round less and lie more. About (n/28)^(1/3)
    levels are best for a shuffled (1, 1e-6).

    Args:
        low: The least number that may be reported, public.
        high: The largest one, above ``low``.
        epsilon: Local ε of one report, in (0, 30]; the sampler keeps at most this.
        levels: Values that a number is rounded to at random, 2 to 2^20.

    Raises:
        InvalidArgumentError: A parameter is out of its range.

    References:
        Balle, Bell, Gascón, Nissim, "The Privacy Blanket of the Shuffle Model", CRYPTO 2019
        (arXiv 1903.02837), whose error is of the best order for one message;
        :doc:`/theory/envelope`.

    Example:
        >>> RoundedResponse(low=0, high=1, epsilon=1.0, levels=3).table().round(3)[0].tolist()
        [0.576, 0.212, 0.212]
    """

    name: ClassVar[str] = "rounded"
    words = texts.STEPS

    levels: int = 16

    @classmethod
    def candidates(cls, wanted: Wanted) -> list[Candidate]:
        """With several numbers of levels."""
        made = partial(cls, **wanted.domain.arguments)
        return [Candidate(cls.name, partial(made, levels=steps + 1)) for steps in _LEVELS]


@dataclass(frozen=True, kw_only=True)
class Laplace(GridRandomizer):
    """Add two-sided geometric noise to the level, and clamp the result to the range.

    Noise j has probability proportional to a^|j|, a = e^(-epsilon/m) for ``levels = m + 1``, so the
    two ends of the range are epsilon apart. Beyond an end the noise forgets where it started: given
    that it left the range, how far it went is the same geometric law for every level. Clamping
    therefore loses nothing: the score of an end is the mean of what it stands for, ``a/(1 - a)``
    levels further out, every other output is its own score, and the estimate is unbiased.

    With whole numbers U_j close to U_0 a^j, noise j or more has weight U_j out of U_0 + U_1 on
    either side: a clamped output has weight U_j, the others U_j - U_(j+1). All ratios are checked
    exactly. The scores of the rounded weights are right to 1e-9 levels or better.

    *Law.* Computed from the whole-number table by :func:`envelope_law`, which covers all pairs. It
    is the law of the two ends (up to the rounding of the weights): the ratio of R_l to the blanket
    falls along the outputs for l <= m/2, climbs for l >= m/2, and R_l is stochastically between
    R_0 and R_m, so no set of outputs with a given blanket mass tells more than an end piece.

    Runtime: two draws and one binary search per report; O(n + levels) to estimate.

    Utility: n Var is at most about 2/epsilon^2 for range 1, less for a small epsilon.

    Args:
        low: The least number that may be reported, public.
        high: The largest one, above ``low``.
        epsilon: Local ε of one report, in (0, 30]; the sampler keeps at most this.
        levels: Points of the grid from ``low`` to ``high``, 2 to 1024.

    Raises:
        InvalidArgumentError: A parameter is out of its range.

    References:
        Dwork, McSherry, Nissim, Smith, TCC 2006; Ghosh, Roughgarden, Sundararajan, "Universally
        Utility-Maximizing Privacy Mechanisms", STOC 2009 (arXiv 0811.2841), for the geometric
        mechanism on a range; :doc:`/theory/envelope`.

    Example:
        >>> Laplace(low=0, high=1, epsilon=1.0, levels=3).table().round(3)[0].tolist()
        [0.622, 0.149, 0.229]
    """

    name: ClassVar[str] = "laplace"
    words = texts.NOISE
    most_levels: ClassVar[int] = 1024

    levels: int = 256

    @property
    def law_levels(self) -> int:
        """All levels: each has atoms of its own."""
        return self.levels

    @classmethod
    def candidates(cls, wanted: Wanted) -> list[Candidate]:
        """At no larger an epsilon than can be searched."""
        (own,) = super().candidates(wanted)
        return [replace(own, largest_epsilon=_LARGEST_SEARCHED)]

    @property
    def _outputs(self) -> int:
        """The levels."""
        return self.levels

    @cached_property
    def _tails(self) -> list[int]:
        """U_0, ..., U_m: whole numbers next to U_0 a^j, the last one not below it."""
        checks.at_most(LARGEST_EPSILON, epsilon=self.epsilon)
        m = self.levels - 1
        with localcontext(EXACT):
            exact = [(-Decimal(self.epsilon) * j / m).exp() for j in range(m + 1)]
            first = int(_TOTAL / (1 + exact[1]))
            inner = [int((first * e).to_integral_value(ROUND_FLOOR)) for e in exact[:m]]
            return [*inner, int((first * exact[m]).to_integral_value(ROUND_CEILING))]

    @property
    def integers(self) -> Integers:
        """The weights of noise 0, 1, ... or more, and what the draws are below."""
        return {"tails": self._tails, "total": self._odds.total}

    @cached_property
    def _weights(self) -> Codes:
        """Whole-number weights, one row per level, each with the same total."""
        m = self.levels - 1
        tails = np.array(self._tails, dtype=np.int64)
        inner = np.append(tails[:-1] - tails[1:], 0)
        distance = np.abs(np.arange(m + 1) - np.arange(m + 1)[:, None])
        weights: Codes = inner[distance]
        weights[:, 0] = tails
        weights[:, m] = tails[::-1]
        return weights

    @cached_property
    def _odds(self) -> Odds:
        """The largest ratio of two weights of one output, checked against epsilon."""
        high, low = self._weights.max(axis=0).tolist(), self._weights.min(axis=0).tolist()
        with localcontext(EXACT):
            allowed = Decimal(self.epsilon).exp()
            broken = any(w == 0 or h > allowed * w for h, w in zip(high, low, strict=True))
        expected = f"few enough levels for 52-bit weights at epsilon={self.epsilon:g}"
        checks.refuse(broken, expected, levels=self.levels)
        over, under = max(zip(high, low, strict=True), key=lambda pair: Fraction(*pair))
        exact = EXACT.ln(EXACT.divide(Decimal(over), Decimal(under)))
        above = min(math.nextafter(float(exact), math.inf), self.epsilon)
        return Odds(over, under, over, self._tails[0] + self._tails[1], above)

    def _law(self) -> BlanketLaw:
        """The covering law of the whole-number table."""
        return self._covering

    @cached_property
    def _covering(self) -> BlanketLaw:
        return envelope_law(self._weights, local_epsilon=self._odds.epsilon)

    def table(self) -> Array:
        """Pr[message y | level l], one row per level."""
        return self._weights / self._odds.total

    def _perturb(self, levels: Codes, randomness: Randomness) -> Codes:
        """Noise by its whole-number distribution function, from -m to m."""
        m = self.levels - 1
        total, tails = self._odds.total, np.array(self._tails, dtype=np.uint64)
        below = np.concatenate([tails[:0:-1], np.uint64(total) - tails[1:]])
        noise = np.searchsorted(below, randomness.below(total, levels.size), side="right") - m
        return np.asarray(np.clip(levels + noise, 0, m))

    def _estimator(self) -> OnGrid:
        """Squares are those of what an output stands for, less the noise 2a/(1 - a)^2."""
        # a/(1 - a): how far beyond an end the noise goes on average, once it is there.
        o = 1 / float(np.expm1(self.epsilon / (self.levels - 1)))
        scores = np.arange(self.levels, dtype=np.float64)
        scores[0] -= o
        scores[-1] += o
        squares = scores**2
        moments = self.table() @ squares
        squares[[0, -1]] += o * (1 + o)
        return OnGrid(
            low=self.low,
            step=self.step,
            scores=scores,
            square_scores=squares - 2 * o * (1 + o),
            moments=moments,
            # 2 U_1/T: the noise is not zero.
            lies=2 * self._tails[1] / self._odds.total,
        )


def two_level_law(*, fraction: float, epsilon: float, disjoint: int = 2) -> BlanketLaw:
    """Each input raises a set of outputs of reference mass ``fraction`` by e^epsilon over the rest.

    The blanket is the reference times ``1/(fraction e^epsilon + 1 - fraction)``. Some
    ``disjoint`` >= 2 inputs raise disjoint sets; two of them attain both extremes: ``top`` climbs
    with slope e^epsilon over ``fraction`` first, ``bottom`` over ``fraction`` last.
    """
    e = math.exp(epsilon)
    unit = 1 / (fraction * e + (1 - fraction))
    own = fraction * unit
    rest = max(1 - 2 * fraction, 0.0) * unit

    def witnesses() -> list[list[AtomLike]]:
        same: list[AtomLike] = [(rest, 1.0, 1.0)]
        # Everybody else holds one of the two inputs, or a third one.
        pairs = [
            [(own * e, 1.0, 1 / e), (own, 1.0, e), *same],
            [(own * e, 1 / e, 1.0), (own, e, 1.0), *same],
        ]
        if disjoint > 2:
            left = max(1 - 3 * fraction, 0.0) * unit
            third = [(own, e, 1.0), (own, 1.0, e), (own * e, 1 / e, 1 / e), (left, 1.0, 1.0)]
            pairs.append(third)
        return pairs

    atoms = [(own, e, 1.0), (own, 1.0, e), (rest, 1.0, 1.0)]
    return BlanketLaw(atoms, witnesses=witnesses, claim=Claim(local_epsilon=epsilon))


def envelope_law(weights: Codes, *, local_epsilon: float) -> BlanketLaw:
    """The covering law of a table of positive whole numbers whose rows have one common sum.

    Partial sums and hulls are in whole numbers; only the order of ratios that agree to 16 digits
    is left to floats.
    """
    total = int(weights[0].sum())
    blanket = weights.min(axis=0)
    rising = np.argsort(weights / blanket, axis=1, kind="stable")
    top = _concave_hull(_corners(blanket, weights, rising[:, ::-1]))
    turned = _concave_hull(_corners(blanket, -weights, rising))
    bottom = [(place, -height) for place, height in turned]
    ends = sorted({0, len(weights) // 2, len(weights) - 1})
    return BlanketLaw(
        list(_slopes(top, bottom, total)),
        witnesses=lambda: witness_pairs(weights[ends] / total),
        claim=Claim(local_epsilon=local_epsilon),
    )


def _corners(blanket: Codes, heights: Codes, order: Codes) -> Corners:
    """Partial sums of the outputs in each input's order, sorted by place, then height."""
    places = np.cumsum(blanket[order], axis=1).ravel()
    sums = np.cumsum(np.take_along_axis(heights, order, axis=1), axis=1).ravel()
    by_place = np.lexsort((sums, places))
    return np.append(0, places[by_place]), np.append(0, sums[by_place])


def _concave_hull(corners: Corners) -> list[Point]:
    """Corners of the least concave function above points sorted by place, then height.

    Few points decide. The hull of every sixteenth of them is below the hull of all, so that what
    lies below it, by more than floats get wrong, is no corner of either.
    """
    places, heights = corners
    if len(places) > _ENOUGH:
        chosen = np.append(np.arange(0, len(places) - 1, _THINNED), len(places) - 1)
        rough = np.array(_concave_hull((places[chosen], heights[chosen])), dtype=np.float64)
        least = np.interp(places, rough[:, 0], rough[:, 1], left=-np.inf, right=-np.inf)
        near = heights >= least - _ROUNDING * max(1.0, float(np.abs(heights).max()))
        places, heights = places[near], heights[near]
    x, y = hull(places.astype(object), -heights.astype(object))  # whole numbers of any size
    return list(zip(x.tolist(), (-y).tolist(), strict=True))


def _slopes(top: list[Point], bottom: list[Point], total: int) -> Iterator[AtomLike]:
    """Atoms between neighbouring corners of either curve."""
    i = j = 1
    here = 0
    while i < len(top) and j < len(bottom):
        there = min(top[i][0], bottom[j][0])
        if there > here:
            yield (there - here) / total, _slope(top, i), _slope(bottom, j)
        here = there
        i += top[i][0] == there
        j += bottom[j][0] == there


def _slope(corners: list[Point], i: int) -> float:
    (x0, y0), (x1, y1) = corners[i - 1], corners[i]
    return (y1 - y0) / (x1 - x0)
