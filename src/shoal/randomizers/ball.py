"""Vectors of any length up to a public norm, for mechanisms that take fewer or other ones.

*The lift.* Randomizers of directions take vectors of length 1. A vector v with |v| <= R becomes one
of them with a coordinate more, (v/R, √(1 − |v|²/R²)); the estimated mean comes back without that
coordinate, times R. It is exact and unbiased, and as private: the law of a randomizer of directions
covers every pair of them.

*The other way.* Protocols that add up coordinates take vectors with |v_1| + ... + |v_d| at most a
bound, and √d R is the least that holds for all vectors of length R.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from shoal import checks
from shoal.checks import LARGEST_RANGE, SMALLEST_RANGE
from shoal.errors import InvalidArgumentError
from shoal.randomizers.base import VectorMechanism
from shoal.randomizers.vectors import CapRandomizer
from shoal.values import Array, VectorEstimate

_LARGEST = np.finfo(np.float64).max
_SLACK = 1e-9


@dataclass(frozen=True, kw_only=True)
class Ball:
    """All vectors of so many coordinates that are at most ``norm`` long.

    >>> ball = Ball(dimension=2, norm=5.0)
    >>> ball.shortened([[3.0, 0.0], [30.0, 40.0]]).tolist()
    [[3.0, 0.0], [3.0, 4.0]]
    >>> from shoal.randomizers.privunit import PrivUnit
    >>> ball.given([[3.0, 0.0]], PrivUnit(dimension=3, epsilon=1.0)).tolist()
    [[0.6, 0.0, 0.8]]
    """

    dimension: int
    norm: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "dimension", checks.count(1, dimension=self.dimension))
        checks.positive(norm=self.norm)
        if not SMALLEST_RANGE <= self.norm <= LARGEST_RANGE:
            expected = f"a norm from {SMALLEST_RANGE:g} to {LARGEST_RANGE:g} (take other units)"
            raise InvalidArgumentError("norm", self.norm, expected)

    @property
    def bound(self) -> float:
        """The most that the absolute values of the coordinates add up to."""
        return math.sqrt(self.dimension) * self.norm

    def shortened(self, values: npt.ArrayLike) -> Array:
        """The vectors, those longer than the norm scaled down to it.

        An infinite coordinate counts as the largest number there is.
        """
        vectors = np.asarray(values, dtype=np.float64)
        if vectors.ndim != 2 or vectors.shape[1] != self.dimension:
            expected = f"one row of {self.dimension} numbers per person"
            raise InvalidArgumentError("values", f"shape {vectors.shape}", expected)
        if np.isnan(vectors).any():
            raise InvalidArgumentError("values", "not a number", "numbers in all coordinates")
        vectors = np.clip(vectors, -_LARGEST, _LARGEST)
        # Squares of the coordinates themselves might overflow; those of their shares do not.
        largest = np.abs(vectors).max(axis=1)
        shares = vectors / np.where(largest > 0, largest, 1.0)[:, None]
        roots = np.sqrt(np.einsum("ij,ij->i", shares, shares))
        with np.errstate(over="ignore"):
            longer = largest * roots > self.norm
        vectors[longer] = shares[longer] * (self.norm / roots[longer])[:, None]
        return vectors

    def given(self, values: npt.ArrayLike, device: VectorMechanism) -> Array:
        """The vectors, shortened, as the device takes them."""
        vectors = self.shortened(values)
        if not isinstance(device, CapRandomizer):
            return vectors
        parts = vectors / self.norm
        rest = np.sqrt(np.maximum(0.0, 1 - np.einsum("ij,ij->i", parts, parts)))
        return np.column_stack([parts, rest])

    def estimated(self, found: VectorEstimate, device: VectorMechanism) -> VectorEstimate:
        """The mean of the vectors themselves, from what the device's estimator says."""
        if not isinstance(device, CapRandomizer):
            return found
        first = slice(self.dimension)
        return VectorEstimate(
            self.norm * found.mean[first],
            self.norm * found.standard_errors[first],
            found.n,
            device.noise(self.norm),
        )

    def variance(self, device: VectorMechanism, *, n: int) -> float:
        """Largest expected squared length of the error of the mean of n people.

        A lifted vector's error is (along, across) it; the coordinate left out takes the smaller of
        the two with it at least.
        """
        if not isinstance(device, CapRandomizer):
            return device.variance(n=n)
        left_out = min(device.spread) / checks.count(n=n)
        return self.norm**2 * (device.variance(n=n) - left_out)

    def suits(self, device: object) -> bool:
        """Whether the device takes these vectors."""
        if isinstance(device, CapRandomizer):
            return device.dimension == self.dimension + 1
        room = getattr(device, "bound", None)
        return (
            isinstance(device, VectorMechanism)
            and device.dimension == self.dimension
            and room is not None
            and room >= self.bound * (1 - _SLACK)
        )
