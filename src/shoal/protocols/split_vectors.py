"""The sum of vectors with the error of a trusted curator: noisy coordinates in random shares."""

from __future__ import annotations

import math
from collections.abc import Hashable
from dataclasses import dataclass
from functools import partial
from typing import ClassVar, Self

import numpy as np
import numpy.typing as npt

from shoal import checks
from shoal.accounting.noise import Divergence
from shoal.accounting.noise.split import pure_delta
from shoal.errors import InvalidArgumentError
from shoal.protocols.base import VectorProtocol
from shoal.protocols.laplace_mean import LaplaceMean
from shoal.protocols.splitting import SplitProtocol, Whole, default_levels, fitted
from shoal.randomizers.base import source
from shoal.randomizers.vectors import LARGEST_DIMENSION
from shoal.randomness import Randomness
from shoal.values import Array, Batch, Counts, Envelopes, VectorEstimate

_FRACTION_BITS = 30
_TOLERANCE = 1e-9  # of the bound, for sums of floats; rounding never lengthens a vector


@dataclass(frozen=True, eq=False, kw_only=True)
class LaplaceVector(VectorEstimate):
    """A mean vector whose coordinates are all off by Laplace noise, of the law of ``error``."""

    error: LaplaceMean

    def _limits(self, outside: float) -> tuple[Array, Array]:
        low, high = self.error.interval(1 - outside)
        return self.mean + low, self.mean + high


@dataclass(frozen=True, kw_only=True)
class SplitAndMixVectors(SplitProtocol, VectorProtocol):
    """Vectors with |v_1| + ... + |v_d| <= ``bound``, every coordinate a split-and-mix sum.

    *Rounding that never lengthens.* In units of bound/levels, S_j is the sum of the first j
    absolute values, and one uniform offset u per person makes coordinate j the whole number
    ⌊S_j + u⌋ − ⌊S_{j−1} + u⌋: right on average, and all of them together at most ``levels``. So one
    person changes the sums by at most 2 levels in total, and noise of e^(−epsilon |z| / (2 levels))
    per coordinate makes them epsilon-DP.

    Citations: as for one sum, Balle, Bell, Gascón, Nissim, arXiv:2002.00817; per coordinate.
    Runtime: one draw per share and two per coordinate; O(messages) to estimate.
    Utility: each coordinate of the sum has variance bound² (n/(4 levels²) + 8/ε²) at most.

    >>> protocol = SplitAndMixVectors.calibrated(
    ...     dimension=10, bound=1.0, n=10**5, epsilon=1.0, delta=1e-6
    ... )
    >>> protocol.slots, protocol.message_bytes
    (80, 7)
    """

    name: ClassVar[str] = "split-and-mix-vectors"

    dimension: int
    bound: float
    levels: int
    shares: int
    modulus_bits: int
    people: int
    epsilon: float | None

    def __post_init__(self) -> None:
        object.__setattr__(self, "dimension", checks.count(1, dimension=self.dimension))
        if self.dimension > LARGEST_DIMENSION:
            expected = f"dimension <= {LARGEST_DIMENSION}"
            raise InvalidArgumentError("dimension", self.dimension, expected)
        checks.positive(bound=self.bound)
        self._check()

    @classmethod
    def calibrated(
        cls,
        *,
        dimension: int,
        bound: float,
        n: int,
        epsilon: float,
        delta: float,
        levels: int | None = None,
    ) -> Self:
        """Noise of epsilon from n honest people together, and the fewest shares that keep delta."""
        checks.target(epsilon=epsilon, delta=delta)
        finest = default_levels(n=n, epsilon=epsilon, delta=delta, sensitivity=2)
        chosen = finest if levels is None else levels
        make = partial(
            cls, dimension=dimension, bound=bound, levels=chosen, people=n, epsilon=epsilon
        )
        return fitted(make, n=n, epsilon=epsilon, delta=delta)

    @property
    def coordinates(self) -> int:
        """One sum per coordinate."""
        return self.dimension

    @property
    def sensitivity(self) -> int:
        """All levels go, and all come back elsewhere."""
        return 2 * self.levels

    @property
    def step(self) -> float:
        """What one level is worth."""
        return self.bound / self.levels

    @property
    def influence(self) -> float:
        """In each coordinate anything that leaves the sum plausible.

        For as many people as share the noise.
        """
        low, high = self.plausible(self.people)
        return self.step * (high - low)

    def _extremes(self, n: int) -> tuple[int, int]:
        return -n * self.levels, n * self.levels

    def _divergence(self) -> Divergence:
        return Divergence.of(pure_delta, central_epsilon=self.epsilon or math.inf)

    def randomize(
        self, values: npt.ArrayLike, *, randomness: Randomness | None = None
    ) -> Envelopes:
        """Everybody's shares of all coordinates; ``values`` has one row per person."""
        drawn = source(randomness)
        return self._sent(self._rounded(self._short(values), drawn), drawn)

    def _short(self, values: npt.ArrayLike) -> Array:
        vectors = np.asarray(values, dtype=np.float64)
        if vectors.ndim != 2 or vectors.shape[1] != self.dimension:
            expected = f"one row of {self.dimension} numbers per person"
            raise InvalidArgumentError("values", f"shape {vectors.shape}", expected)
        lengths = np.abs(vectors).sum(axis=1)
        wrong = ~(lengths <= self.bound * (1 + _TOLERANCE))
        if wrong.any():
            row = int(np.flatnonzero(wrong)[0])
            expected = f"absolute values that add up to at most {self.bound:g} in row {row}"
            raise InvalidArgumentError("length", float(lengths[row]), expected)
        return vectors

    def _rounded(self, vectors: Array, randomness: Randomness) -> Whole:
        """Whole coordinates, right on average to 2^-30 of a level, at most ``levels`` together."""
        unit = 2.0**_FRACTION_BITS
        parts = np.floor(np.abs(vectors) / self.bound * self.levels * unit).astype(np.int64)
        # What float sums let slip over the bound is cut off: privacy rests on the whole numbers.
        lengths = np.minimum(np.cumsum(parts, axis=1), self.levels << _FRACTION_BITS)
        offsets = randomness.below(1 << _FRACTION_BITS, len(vectors)).astype(np.int64)
        floors = (lengths + offsets[:, None]) >> np.int64(_FRACTION_BITS)
        whole = np.diff(floors, axis=1, prepend=0)
        return np.where(vectors < 0, -whole, whole)

    def trial_inputs(self) -> tuple[Hashable, ...]:
        """Opposite ends, and zero."""
        end = (self.bound, *[0.0] * (self.dimension - 1))
        return (end, tuple(-x for x in end), tuple(0.0 for _ in end))

    def estimate(self, batch: Batch | Counts) -> LaplaceVector:
        """The sums as a mean vector; worst-case rounding in its errors.

        Messages that are too few, too many or do not fit together are an error.
        """
        counts = self.counted(batch)
        sums = np.array(self.sums(counts), dtype=np.float64)
        unit = self.step / counts.n
        error = LaplaceMean.noisy(0.0, n=counts.n, unit=unit, rate=self.rate, people=self.people)
        errors = np.full(sums.shape, error.standard_error)
        return LaplaceVector(unit * sums, errors, counts.n, error=error)

    def variance(self, *, n: int) -> float:
        """Largest expected squared length of the error of the estimated mean of n people."""
        people = checks.count(n=n)
        rounding = people * min(self.dimension / 4, self.levels)
        noise = self.dimension * self.noise_variance(people)
        return (self.step / people) ** 2 * (rounding + noise)
