"""Scores of Hadamard responses, by fast transforms."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from shoal.randomizers.hadamard import HadamardResponse
from shoal.testing.gram import Spread
from shoal.testing.scores import OneMessage
from shoal.values import Array

_LEAST_VARIANCE = 1e-14  # of a squared score: below, it is rounding


@dataclass(frozen=True, eq=False, kw_only=True)
class HadamardScores(OneMessage):
    """φ_j(m) = ±S for a message in the answer's block, + in its half of it; 0 elsewhere.

    Within a block the product of two such signs is the sign of a third answer, the exclusive or of
    their patterns. So with f(t) = S² Σ_m r_m χ_t(m) the second moments are E φ_i φ_j = f(i ⊕ j)
    inside a block and 0 outside, and sums over pairs of answers are convolutions over patterns.
    """

    device: HadamardResponse

    @property
    def _shape(self) -> tuple[int, int]:
        return self.device.layout.blocks, self.device.layout.width

    @property
    def _homes(self) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
        return self.device.homes

    @property
    def _halves(self) -> float:
        """z = e + 2B − 1: the weight of all half blocks."""
        return math.exp(self.device.local_epsilon) + 2 * self._shape[0] - 1

    @property
    def _step(self) -> float:
        """S."""
        return self._halves / math.expm1(self.device.local_epsilon)

    def _laid_out(self, answers: Array) -> Array:
        """Numbers of the answers at their block and pattern, 0 elsewhere."""
        placed = np.zeros((*answers.shape[:-1], *self._shape))
        placed[..., self._homes[0], self._homes[1]] = answers
        return placed

    def expected(self, probabilities: Array) -> Array:
        """(2/(z b)) [1 + (e − 1)/2 Σ over the block of p_x (1 + χ_x)]."""
        placed = self._laid_out(probabilities)
        placed[..., 0] = placed.sum(axis=-1)
        signs = walsh(placed)
        excess = math.expm1(self.device.local_epsilon) / 2
        law = (1 + excess * signs) * (2 / (self._halves * self._shape[1]))
        return law.reshape(*probabilities.shape[:-1], self.outputs)

    def _moments(self, law: Array) -> Array:
        """f by block and pattern."""
        return self._step**2 * walsh(law.reshape(*law.shape[:-1], *self._shape))

    def _means(self, moments: Array) -> Array:
        """Mean score of each answer."""
        blocks, patterns = self._homes
        means: Array = moments[..., blocks, patterns] / self._step
        return means

    def _variances(self, moments: Array) -> Array:
        """S² times the block's probability, less the squared mean; no block is rarer than 2/z."""
        squares = np.maximum(moments[..., 0], 2 * self._step**2 / self._halves)
        variances: Array = squares[..., self._homes[0]] - self._means(moments) ** 2
        return np.maximum(variances, _LEAST_VARIANCE * self._step**2)

    @cached_property
    def variances(self) -> Array:
        """From the law of the message."""
        return self._variances(self._moments(self.mean))

    def quadratic(self, offsets: Array) -> Array:
        """S² Σ_j w_j (signed sum of the block)²."""
        signs = walsh(offsets.reshape(*offsets.shape[:-1], *self._shape))
        forms: Array = np.einsum("...it,it,...it->...", signs, self._scale, signs)
        return forms

    def times(self, offsets: Array) -> Array:
        """The same transform there and back."""
        signs = walsh(offsets.reshape(*offsets.shape[:-1], *self._shape))
        return walsh(self._scale * signs).reshape(offsets.shape)

    @property
    def _scale(self) -> Array:
        """S² w_j by block and pattern."""
        return self._step**2 * self._laid_out(self.weights)

    @cached_property
    def own(self) -> tuple[Array, Array]:
        """Σ_j w_j (φ_j(m) − E φ_j)²."""
        weights, means = self.weights, self._means(self._moments(self.mean))
        blocks = self._step**2 * self._laid_out(weights).sum(axis=1)
        crossed = 2 * self._step * walsh(self._laid_out(weights * means))
        own = blocks[:, None] - crossed + float(weights @ means**2)
        return own.ravel(), np.zeros(())

    def spread_of(self, probabilities: Array) -> Spread:
        """Σ_ij w_i w_j (E φ_i φ_j − E φ_i E φ_j)², by convolution."""
        weights, moments = self.weights, self._moments(self.expected(probabilities))
        means, variances = self._means(moments), self._variances(moments)
        pairs = _convolved(self._laid_out(weights))
        crossed = _convolved(self._laid_out(weights * means))
        square = (moments * (moments * pairs - 2 * crossed)).sum(axis=(-2, -1))
        square += (means**2 @ weights) ** 2
        # Where one answer is nearly certain the three cancel. The squares of the variances are a
        # part of the sum, and no covariance matrix has more than the square of its trace.
        least = ((weights * variances) ** 2).sum(axis=-1)
        trace = variances @ weights
        return Spread(trace, np.minimum(np.maximum(square, least), trace**2))


def walsh(values: Array) -> Array:
    """Walsh-Hadamard transform over the last axis: Σ_j (−1)^(ones of j & t) values[j].

    >>> walsh(np.array([1.0, 2.0, 3.0, 4.0])).tolist()
    [10.0, -2.0, -4.0, 0.0]
    """
    width = values.shape[-1]
    sums, stride = np.array(values, dtype=np.float64), 1
    while stride < width:
        halves = sums.reshape(*values.shape[:-1], -1, 2, stride)
        first, second = halves[..., 0, :], halves[..., 1, :]
        first += second
        second *= -2
        second += first
        stride *= 2
    return sums


def _convolved(values: Array) -> Array:
    """Σ_i values[i] values[i ⊕ t] for every t, in each block."""
    sums: Array = walsh(walsh(values) ** 2) / values.shape[-1]
    return sums
