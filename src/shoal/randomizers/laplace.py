"""Discrete Laplace noise, cut off where it has nothing more to say."""

from __future__ import annotations

import math
from dataclasses import dataclass
from decimal import ROUND_CEILING, ROUND_FLOOR, Decimal, localcontext
from fractions import Fraction
from functools import cached_property
from typing import ClassVar

import numpy as np

from shoal.accounting.law import BlanketLaw
from shoal.errors import InvalidArgumentError
from shoal.randomizers.base import Integers
from shoal.randomizers.grid import GridRandomizer, Levels
from shoal.randomizers.laws import Weights, envelope_law
from shoal.randomizers.weights import EXACT, LARGEST_EPSILON, Odds
from shoal.randomness import Randomness
from shoal.values import Array

_TOTAL = 1 << 52


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

    Citations: Dwork, McSherry, Nissim, Smith, TCC 2006; Ghosh, Roughgarden, Sundararajan,
    "Universally Utility-Maximizing Privacy Mechanisms", STOC 2009 (arXiv 0811.2841), for the
    geometric mechanism on a range.
    Runtime: two draws and one binary search per report; O(n + levels) to estimate.
    Utility: n Var is at most about 2/epsilon^2 for range 1, less for a small epsilon.

    >>> Laplace(low=0, high=1, epsilon=1.0, levels=3).table().round(3)[0].tolist()
    [0.622, 0.149, 0.229]
    """

    name: ClassVar[str] = "laplace"
    most_levels: ClassVar[int] = 1024

    levels: int = 256

    @property
    def outputs(self) -> int:
        """The levels."""
        return self.levels

    @cached_property
    def _tails(self) -> list[int]:
        """U_0, ..., U_m: whole numbers next to U_0 a^j, the last one not below it."""
        if self.epsilon > LARGEST_EPSILON:
            raise InvalidArgumentError("epsilon", self.epsilon, f"epsilon <= {LARGEST_EPSILON:g}")
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
    def _weights(self) -> Weights:
        """Whole-number weights, one row per level, each with the same total."""
        m = self.levels - 1
        tails = np.array(self._tails, dtype=np.int64)
        inner = np.append(tails[:-1] - tails[1:], 0)
        distance = np.abs(np.arange(m + 1) - np.arange(m + 1)[:, None])
        weights: Weights = inner[distance]
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
        if broken:
            expected = f"few enough levels for 52-bit weights at epsilon={self.epsilon:g}"
            raise InvalidArgumentError("levels", self.levels, expected)
        over, under = max(zip(high, low, strict=True), key=lambda pair: Fraction(*pair))
        exact = EXACT.ln(EXACT.divide(Decimal(over), Decimal(under)))
        above = min(math.nextafter(float(exact), math.inf), self.epsilon)
        return Odds(over, under, over, self._tails[0] + self._tails[1], above)

    def law(self) -> BlanketLaw:
        """The covering law of the whole-number table."""
        return self._law

    @cached_property
    def _law(self) -> BlanketLaw:
        return envelope_law(self._weights, local_epsilon=self.local_epsilon)

    def table(self) -> Array:
        """Pr[message y | level l], one row per level."""
        return self._weights / self._odds.total

    def _perturb(self, levels: Levels, randomness: Randomness) -> Levels:
        """Noise by its whole-number distribution function, from -m to m."""
        m = self.levels - 1
        total, tails = self._odds.total, np.array(self._tails, dtype=np.uint64)
        below = np.concatenate([tails[:0:-1], np.uint64(total) - tails[1:]])
        noise = np.searchsorted(below, randomness.below(total, levels.size), side="right") - m
        clamped: Levels = np.clip(levels + noise, 0, m)
        return clamped

    @property
    def _overshoot(self) -> float:
        """a/(1 - a): how far beyond an end the noise goes on average, once it is there."""
        return 1 / float(np.expm1(self.epsilon / (self.levels - 1)))

    @property
    def _lies(self) -> float:
        """2 U_1/T: the noise is not zero."""
        return 2 * self._tails[1] / self._odds.total

    @cached_property
    def _scores(self) -> Array:
        scores = np.arange(self.levels, dtype=np.float64)
        scores[0] -= self._overshoot
        scores[-1] += self._overshoot
        return scores

    @cached_property
    def _square_scores(self) -> Array:
        """Mean square of what an output stands for, less the noise 2a/(1 - a)^2."""
        o = self._overshoot
        squares = self._scores**2
        squares[[0, -1]] += o * (1 + o)
        return squares - 2 * o * (1 + o)

    @cached_property
    def _second_moments(self) -> Array:
        return self.table() @ self._scores**2
