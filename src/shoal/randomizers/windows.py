"""Level l sends the w outputs l, ..., l + w - 1 with odds e^epsilon : 1 against each other output.

There are K = m + w outputs for levels 0, ..., m. With whole odds ``high : low``, excess
``d = high - low`` and total ``T = w d + K low``,

    E[Y   | l] = (low sum_y y   + d sum_j (l + j)  )/T,    j = 0, ..., w - 1,
    E[Y^2 | l] = (low sum_y y^2 + d sum_j (l + j)^2)/T,

are polynomials in l, so that scores linear and quadratic in the output are right on average.
"""

from __future__ import annotations

from abc import abstractmethod
from functools import cached_property

import numpy as np

from shoal.accounting.law import BlanketLaw
from shoal.errors import InvalidArgumentError
from shoal.randomizers.base import LARGEST_TABLE, Integers
from shoal.randomizers.grid import GridRandomizer, Levels
from shoal.randomizers.laws import two_level_law
from shoal.randomizers.weights import Odds
from shoal.randomness import Randomness
from shoal.values import Array


class WindowRandomizer(GridRandomizer):
    """A window of likelier outputs that moves with the level, at most ``levels - 1`` wide."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self._excess == 0:
            expected = "an epsilon that 52-bit odds can tell from 0"
            raise InvalidArgumentError("epsilon", self.epsilon, expected)

    @property
    @abstractmethod
    def width(self) -> int:
        """Outputs in the window of one level."""

    @property
    def outputs(self) -> int:
        """As many as the windows of all levels cover."""
        return self.levels - 1 + self.width

    @cached_property
    def _odds(self) -> Odds:
        return Odds.of(self.epsilon, highs=self.width, lows=self.outputs - self.width)

    @property
    def _excess(self) -> int:
        return self._odds.high - self._odds.low

    @property
    def _total(self) -> int:
        return self.width * self._excess + self.outputs * self._odds.low

    @property
    def integers(self) -> Integers:
        """The window, the odds, and what the draws are below."""
        sizes = {"width": self.width, "outputs": self.outputs}
        return {**sizes, **self._odds.integers, "total": self._total}

    @property
    def local_epsilon(self) -> float:
        """The epsilon of the sampler as implemented."""
        return min(self._odds.epsilon, self.epsilon)

    def law(self) -> BlanketLaw:
        """The first and the last level have disjoint windows: no pair tells more.

        It is the law of randomized response among ``outputs / width`` answers.
        """
        if self.width == 1:
            return BlanketLaw.randomized_response(k=self.outputs, epsilon=self.local_epsilon)
        return two_level_law(
            share=self.width / self.outputs,
            epsilon=self.local_epsilon,
            disjoint=1 + (self.levels - 1) // self.width,
        )

    def table(self) -> Array:
        """Pr[message y | level l], one row per level."""
        if self.levels * self.outputs > LARGEST_TABLE:
            expected = f"levels x outputs <= {LARGEST_TABLE} for a table"
            raise InvalidArgumentError("levels", self.levels, expected)
        offsets = np.arange(self.outputs) - np.arange(self.levels)[:, None]
        inside = (offsets >= 0) & (offsets < self.width)
        weights = np.where(inside, float(self._odds.high), float(self._odds.low))
        return weights / self._total

    def _perturb(self, levels: Levels, randomness: Randomness) -> Levels:
        """A draw is w slices of the excess, for the window, then K slices of low for any output."""
        favour = self.width * self._excess
        drawn = randomness.below(self._total, levels.size).view(np.int64)
        anywhere = (drawn - favour) // self._odds.low
        return np.where(drawn < favour, levels + drawn // self._excess, anywhere)

    @property
    def _gain(self) -> float:
        """T/(w d): one over the probability that the window is favoured."""
        return self._total / (self.width * self._excess)

    @property
    def _lies(self) -> float:
        """K low/T: the report is any output, all alike."""
        return self.outputs * self._odds.low / self._total

    @property
    def _numbers(self) -> Array:
        return np.arange(self.outputs, dtype=np.float64)

    def _moments(self, power: int) -> tuple[float, float]:
        """The constant part of E[Y^power | l], and the mean of j^power over a window."""
        outputs = self._numbers**power
        constant = self._odds.low / self._total * float(outputs.sum())
        return constant, float(outputs[: self.width].mean())

    @cached_property
    def _scores(self) -> Array:
        constant, offset = self._moments(1)
        return self._gain * (self._numbers - constant) - offset

    @cached_property
    def _square_scores(self) -> Array:
        constant, offset = self._moments(2)
        linear = 2 * self._moments(1)[1] * self._scores
        return self._gain * (self._numbers**2 - constant) - offset - linear

    @cached_property
    def _second_moments(self) -> Array:
        sums = np.zeros(self.outputs + 1)
        np.cumsum(self._scores**2, out=sums[1:])
        windows: Array = sums[self.width :] - sums[: self.levels]
        everywhere = self._odds.low * float(sums[-1])
        return (everywhere + self._excess * windows) / self._total
