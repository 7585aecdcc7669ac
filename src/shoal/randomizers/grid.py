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
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from shoal import checks
from shoal.errors import InvalidArgumentError
from shoal.randomizers.base import (
    NumberedMessages,
    NumberRandomizer,
    source,
)
from shoal.randomness import Randomness
from shoal.values import (
    Array,
    Batch,
    Counts,
    MeanEstimate,
    Messages,
    Noise,
    bounded_numbers,
)

MOST_LEVELS = 1 << 20
_ROUNDING_BITS = 53

Levels = npt.NDArray[np.int64]


def rounded(shares: Array, steps: int, randomness: Randomness) -> Levels:
    """Shares of 1 as whole numbers of ``steps``, right on average to the 53 bits of a float."""
    places = shares * steps
    below = np.minimum(np.floor(places), steps - 1)
    chances = np.floor((places - below) * 2.0**_ROUNDING_BITS).astype(np.uint64)
    upwards = randomness.below(1 << _ROUNDING_BITS, places.size) < chances
    return below.astype(np.int64) + upwards


@dataclass(frozen=True)
class LevelNoise(Noise):
    """The noise of scores, as estimated from them: all but the bounds and the step in levels.

    ``noise`` is the variance given the levels, ``spread`` that of all scores about their ``mean``,
    ``most`` the largest possible one. ``lies`` is the share of reports that make the noise.
    """

    low: float
    step: float
    last: int
    mean: float
    noise: float
    spread: float
    most: float
    lies: float

    @property
    def jump(self) -> float:
        """A lie has the mean square noise/lies; of two values, half of the lies are true."""
        return self.step * min(self.last, math.sqrt(2 * self.noise / self.lies))

    def deviation(self, means: Array) -> Array:
        """Of noise and rounding, which is bounded twice.

        Rounding adds f (1 - f) to a number between levels. Averaged over numbers with the mean μ,
        that is 1/4 at most, and e (1 - e) at a distance e < 1/2 from an end; below zero if μ is
        outside, where no data are. And it adds no more than the levels differ: than is seen of
        their spread, and what it grows by from the estimate to μ, which is less than the distance.
        """
        places = (means - self.low) / self.step
        ends = np.minimum(np.minimum(places, self.last - places), 0.5)
        rounding = ends * (1 - np.maximum(ends, 0.0))
        seen = max(self.spread, self.noise) + np.abs(places - self.mean)
        variances = np.minimum(np.minimum(self.noise + rounding, self.most), seen)
        return np.asarray(self.step * np.sqrt(np.maximum(variances, 0.0)))


class GridRandomizer(NumberedMessages, NumberRandomizer):
    """A randomizer of one of finitely many levels, ``low`` and ``high`` the first and the last."""

    epsilon: float
    levels: int

    def __post_init__(self) -> None:
        checks.bounds(self.low, self.high)
        checks.positive(epsilon=self.epsilon)
        object.__setattr__(self, "levels", checks.count(2, levels=self.levels))
        if self.levels > MOST_LEVELS:
            raise InvalidArgumentError("levels", self.levels, f"levels <= {MOST_LEVELS}")

    @property
    @abstractmethod
    def outputs(self) -> int:
        """How many different messages there are: 0, ..., outputs - 1."""

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
    def _perturb(self, levels: Levels, randomness: Randomness) -> Levels:
        """One message per level."""

    @property
    @abstractmethod
    def _scores(self) -> Array:
        """g with E[g(Y) | l] = l."""

    @property
    @abstractmethod
    def _square_scores(self) -> Array:
        """q with E[q(Y) | l] = l^2."""

    @property
    @abstractmethod
    def _second_moments(self) -> Array:
        """E[g(Y)^2 | l] for every level l."""

    @property
    @abstractmethod
    def _lies(self) -> float:
        """The share of reports that are not the level's own output, or only by chance."""

    @property
    def _step(self) -> float:
        return (self.high - self.low) / (self.levels - 1)

    def randomize(self, values: npt.ArrayLike, *, randomness: Randomness | None = None) -> Messages:
        """One message's number per value."""
        drawn = source(randomness)
        return self._perturb(self._rounded(values, drawn), drawn)

    def _rounded(self, values: npt.ArrayLike, randomness: Randomness) -> Levels:
        numbers = bounded_numbers(values, self.low, self.high)
        shares = (numbers - self.low) / (self.high - self.low)
        return rounded(shares, self.levels - 1, randomness)

    def estimate(self, batch: Batch | Counts) -> MeanEstimate:
        """Unbiased estimate of the mean; its standard error counts noise and rounding.

        Two estimates of the variance of one report are right or too large: the spread of the
        scores, which counts the spread of the data too; and the noise alone plus h^2/4 for the
        rounding. The smaller one is taken, within the possible variances and not below the noise.
        """
        counts = self.counted(batch)
        n, shares = counts.n, counts.cells / counts.n
        mean = float(shares @ self._scores)
        spread = float(shares @ (self._scores - mean) ** 2) * n / max(n - 1, 1)
        least, most = self._variances
        noise = float(shares @ (self._scores**2 - self._square_scores))
        noise = min(max(noise, least), most)
        variance = min(max(spread, noise), noise + 0.25, most)
        law = LevelNoise(
            low=self.low,
            step=self._step,
            last=self.levels - 1,
            mean=mean,
            noise=noise,
            spread=spread,
            most=most,
            lies=self._lies,
        )
        error = self._step * math.sqrt(variance / n)
        return MeanEstimate(self.low + self._step * mean, error, n, noise=law)

    def variance(self, *, n: int) -> float:
        """Largest variance of the estimated mean of n people, over their data."""
        return self._step**2 * self._variances[1] / checks.count(n=n)

    @cached_property
    def _variances(self) -> tuple[float, float]:
        """Least and largest variance of one report's score, over all numbers."""
        moments = self._second_moments
        levels = np.arange(self.levels, dtype=np.float64)
        # Concave between levels: smallest at a level, largest where the derivative vanishes.
        slopes = np.diff(moments)
        places = np.clip(slopes / 2, levels[:-1], levels[1:])
        between = moments[:-1] + slopes * (places - levels[:-1]) - places**2
        return float((moments - levels**2).min()), float(between.max())
