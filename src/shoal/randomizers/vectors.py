"""Directions: a cap of likelier outputs around a unit vector, and the mean of what comes back.

*Outputs.* A reference law of vectors u that no rotation changes is split by the share c of vectors
with the largest <u, v>, the *cap* of v. The report falls into the cap with probability p, and
follows the reference law inside and outside. So its density is p/c in the cap and (1 - p)/(1 - c)
elsewhere, and p is a whole number over 2^62 with ``p (1 - c) <= e^epsilon c (1 - p)`` in exact
arithmetic, for the very float c that the sampler uses.

*What is exact.* The choice between cap and rest is made with whole numbers. Where in the cap is
computed in 64-bit floats, then rounded to a grid of 2^-24 per coordinate: messages are whole
numbers, so neither low-order digits nor the uneven spacing of floats is sent. In real arithmetic
rounding is post-processing and costs nothing; the 64-bit error before it, some 2^-52 in size, can
matter only where it carries a coordinate over a grid line, with a chance of about 2^-27 per
coordinate. It is not part of epsilon.

*Law.* Every vector raises a share c of the outputs by e^epsilon, and opposite vectors have disjoint
caps, as c <= 1/2: the two-level law.

*Estimation.* E[u | v] = m v, hence the mean of u/m. With D = p/c - (1 - p)/(1 - c) and I(c) the
integral of <u, v> over the cap, m = D I(c), and the squared error of one report is
``E|u|^2/m^2 - 1``; the best c is found numerically.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from dataclasses import dataclass
from decimal import Context, Decimal, localcontext
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import special

from shoal import checks
from shoal.accounting.law import BlanketLaw
from shoal.errors import InvalidArgumentError
from shoal.randomizers.base import (
    Integers,
    Randomizer,
    Rows,
    VectorMechanism,
    checked_rows,
    source,
)
from shoal.randomizers.laws import two_level_law
from shoal.randomizers.weights import LARGEST_EPSILON
from shoal.randomness import Randomness
from shoal.values import Array, Batch, Counts, Messages, Noise, VectorEstimate

LARGEST_DIMENSION = 1 << 20
NORM_TOLERANCE = 1e-6
_UNIT = 2.0**24  # grid points per 1
_CHOICE_BITS = 62
# The chance of a cap exceeds its share c by at least c (1 - c) epsilon/(1 + epsilon) where epsilon
# is small and c above e^-5: far more than rounding the chance down to 62 bits takes away.
_SMALLEST_EPSILON = 1e-12
_BLOCK = 1 << 20  # coordinates worked on at once
_LONGEST = 16.0  # normals made of 52 bits are below 8.3, and the height along v is below 12
_EXACT = Context(prec=60)


@dataclass(frozen=True, kw_only=True)
class CapNoise(Noise):
    """The noise of one coordinate of vectors of length ``norm``, as multiples of it.

    ``along`` and ``across`` are the variances of :attr:`CapRandomizer.spread`.
    """

    dimension: int
    along: float
    across: float
    norm: float = 1.0

    @property
    def jump(self) -> float:
        """(d + 3)/(d + 1): what the sphere has along the vector, and the normal law has less.

        The best cap has its rim at the height m, and then E<u, v>^2 = m^2 + (1 - m^2)/d and
        E<u, v>^3 = m (1 - (1 - m^2) (d - 1)/(d + 1)).
        """
        return self.norm * (self.dimension + 3) / (self.dimension + 1)

    def deviation(self, means: Array) -> Array:
        """Of a vector whose coordinate is c, the root of across + (along - across) c^2.

        The mean of c^2 is between the square of the mean and 1.
        """
        squares = np.minimum(np.square(means / self.norm), 1.0)
        variances = np.maximum(self.along, self.across + (self.along - self.across) * squares)
        return np.asarray(self.norm * np.sqrt(variances))


class CapRandomizer(Randomizer, VectorMechanism):
    """A randomizer of one unit vector, by a cap around it."""

    dimension: int
    epsilon: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "dimension", checks.count(2, dimension=self.dimension))
        if self.dimension > LARGEST_DIMENSION:
            expected = f"dimension <= {LARGEST_DIMENSION}"
            raise InvalidArgumentError("dimension", self.dimension, expected)
        checks.positive(epsilon=self.epsilon)
        if not _SMALLEST_EPSILON <= self.epsilon <= LARGEST_EPSILON:
            expected = f"{_SMALLEST_EPSILON:g} <= epsilon <= {LARGEST_EPSILON:g}"
            raise InvalidArgumentError("epsilon", self.epsilon, expected)

    @abstractmethod
    def _reach(self, shares: Array) -> Array:
        """I(c): the integral of <u, v> over the cap, under the reference law."""

    @abstractmethod
    def _square(self, shares: Array, contrasts: Array) -> Array:
        """E|u|^2 for caps of these shares and contrasts D."""

    @abstractmethod
    def _along(self, share: float, contrast: float) -> float:
        """E<u, v>^2 for a cap of this share and contrast D."""

    @abstractmethod
    def _heights(self, ranks: Array) -> Array:
        """<u, v> of which a share ``ranks`` of the reference law is below."""

    @abstractmethod
    def _assembled(self, heights: Array, across: Array) -> Array:
        """Factors of the normal vectors across v, given <u, v>."""

    @property
    def local_epsilon(self) -> float:
        """The epsilon asked for: 62-bit odds keep it, from below."""
        return self.epsilon

    @property
    def message_bits(self) -> float:
        """32 bits per coordinate."""
        return 32.0 * self.dimension

    @property
    def message_bytes(self) -> int:
        """Four bytes per coordinate."""
        return 4 * self.dimension

    def law(self) -> BlanketLaw:
        """The law of caps around opposite vectors, which covers every pair."""
        return two_level_law(share=self.cap, epsilon=self.local_epsilon)

    @property
    def cap(self) -> float:
        """The share c of the reference law in a cap."""
        return self._best[0]

    @property
    def shrinkage(self) -> float:
        """m: a report points along its vector with this length on average."""
        return self._best[1]

    @cached_property
    def _best(self) -> tuple[float, float, float]:
        """Cap, shrinkage and squared error of one report, at the best cap."""
        # Caps far below e^-epsilon are hardly ever hit; those above 1/2 would overlap.
        logs = np.linspace(-self.epsilon - 4, math.log(0.5), 2001)
        for _ in range(2):
            _, errors = self._performance(np.exp(logs))
            i = int(errors.argmin())
            logs = np.linspace(logs[max(i - 1, 0)], logs[min(i + 1, logs.size - 1)], 2001)
        shares = np.minimum(np.exp(logs), 0.5)
        shrinkages, errors = self._performance(shares)
        i = int(errors.argmin())
        return float(shares[i]), float(shrinkages[i]), float(errors[i])

    def _performance(self, shares: Array) -> tuple[Array, Array]:
        """Shrinkage and squared error; p/c - (1 - p)/(1 - c) = (e - 1)/(1 + (e - 1) c)."""
        excess = math.expm1(self.epsilon)
        contrasts = excess / (1 + excess * shares)
        shrinkages = contrasts * self._reach(shares)
        return shrinkages, self._square(shares, contrasts) / shrinkages**2 - 1

    @cached_property
    def _choice(self) -> int:
        """p 2^62, rounded down."""
        with localcontext(_EXACT):
            odds = Decimal(self.epsilon).exp() * Decimal(self.cap) / (1 - Decimal(self.cap))
            return int((1 << _CHOICE_BITS) * odds / (1 + odds))

    @property
    def integers(self) -> Integers:
        """The chance of the cap, of 2^62, and the share of the cap as a fraction."""
        cap = [str(part) for part in self.cap.as_integer_ratio()]
        return {"choice": str(self._choice), "bits": _CHOICE_BITS, "cap": cap}

    def randomize(self, values: npt.ArrayLike, *, randomness: Randomness | None = None) -> Messages:
        """One row of whole numbers per unit vector: its report in units of 2^-24."""
        vectors = self._unit_vectors(values)
        drawn = source(randomness)
        reports = np.empty(vectors.shape, dtype=np.int32)
        rows = max(1, _BLOCK // self.dimension)
        for start in range(0, len(vectors), rows):
            block = vectors[start : start + rows]
            reports[start : start + rows] = np.rint(self._reported(block, drawn) * _UNIT)
        return reports

    def _unit_vectors(self, values: npt.ArrayLike) -> Array:
        vectors = np.asarray(values, dtype=np.float64)
        if vectors.ndim != 2 or vectors.shape[1] != self.dimension:
            expected = f"one row of {self.dimension} numbers per person"
            raise InvalidArgumentError("values", f"shape {vectors.shape}", expected)
        norms = np.sqrt(np.einsum("ij,ij->i", vectors, vectors))
        wrong = ~(np.abs(norms - 1) <= NORM_TOLERANCE)
        if wrong.any():
            raise InvalidArgumentError("norm", float(norms[wrong][0]), "vectors of length 1")
        scaled: Array = vectors / norms[:, None]
        return scaled

    def _reported(self, vectors: Array, randomness: Randomness) -> Array:
        n, d = vectors.shape
        inside = randomness.below(1 << _CHOICE_BITS, n) < np.uint64(self._choice)
        uniform = _uniforms(randomness, n)
        # Ranks are counted from the top in the cap, where they may be tiny, by symmetry.
        ranks = uniform * np.where(inside, self.cap, 1 - self.cap)
        heights = np.where(inside, -1.0, 1.0) * self._heights(ranks)
        across: Array = special.ndtri(_uniforms(randomness, n * d)).reshape(n, d)
        across -= np.einsum("ij,ij->i", across, vectors)[:, None] * vectors
        factors = self._assembled(heights, across)
        reports: Array = heights[:, None] * vectors + factors[:, None] * across
        return reports

    def tally(self, messages: Messages) -> Counts:
        """Sums of the coordinates, in units of 2^-24."""
        reports = self._checked(messages)
        return Counts(reports.sum(axis=0, dtype=np.int64), len(reports))

    def encode(self, messages: Messages) -> npt.NDArray[np.uint8]:
        """Coordinates as big-endian signed 32-bit numbers."""
        wide = np.ascontiguousarray(self._checked(messages).astype(">i4"))
        return wide.view(np.uint8).reshape(len(wide), self.message_bytes)

    def decode(self, rows: npt.NDArray[np.uint8]) -> Messages:
        """The whole-number coordinates."""
        rows = np.ascontiguousarray(rows, dtype=np.uint8)
        if rows.ndim != 2 or rows.shape[1] != self.message_bytes:
            raise InvalidArgumentError("rows", rows.shape, f"rows of {self.message_bytes} bytes")
        return self._checked(rows.view(">i4").astype(np.int32))

    def _checked(self, messages: Messages) -> Messages:
        reports = np.asarray(messages)
        if (
            reports.ndim != 2
            or reports.shape[1] != self.dimension
            or reports.dtype.kind not in "iu"
        ):
            expected = f"rows of {self.dimension} whole numbers"
            raise InvalidArgumentError(
                "messages", f"{reports.dtype} of shape {reports.shape}", expected
            )
        wrong = ~self._possible(reports)
        if wrong.any():
            shortest, longest = self._lengths
            expected = f"reports of length {shortest:.6g} to {longest:.6g}"
            raise InvalidArgumentError("message", float(_long(reports[wrong][:1])[0]), expected)
        return reports

    def admissible(self, rows: Rows) -> npt.NDArray[np.bool_]:
        """Coordinates of a length that a report can have."""
        found = np.ascontiguousarray(checked_rows(rows, self.message_bytes))
        return self._possible(found.view(">i4"))

    def _possible(self, reports: Messages) -> npt.NDArray[np.bool_]:
        lengths = _long(reports)
        shortest, longest = self._lengths
        possible: npt.NDArray[np.bool_] = (lengths >= shortest) & (lengths <= longest)
        return possible

    @property
    def _lengths(self) -> tuple[float, float]:
        """Lengths that a report can have."""
        return 0.0, _LONGEST

    def direction(self, first: Any, second: Any) -> Array:  # noqa: ANN401
        """From one vector to the other: messages lie in the same space."""
        return np.asarray(np.subtract(first, second, dtype=np.float64))

    def estimate(self, batch: Batch | Counts) -> VectorEstimate:
        """Unbiased estimate of the mean vector; errors are those of the noise, which is known."""
        counts = self.counted(batch)
        means = counts.cells / (counts.n * _UNIT * self.shrinkage)
        noise = self.noise()
        errors = noise.deviation(means) / math.sqrt(counts.n)
        return VectorEstimate(means, errors, counts.n, noise)

    def noise(self, norm: float = 1.0) -> CapNoise:
        """The noise of one coordinate, of reports that stand for vectors of this length."""
        along, across = self.spread
        return CapNoise(dimension=self.dimension, along=along, across=across, norm=norm)

    def variance(self, *, n: int) -> float:
        """Expected squared length of the error of the estimated mean of n people.

        The same for all data.
        """
        return self._best[2] / checks.count(n=n)

    @cached_property
    def spread(self) -> tuple[float, float]:
        """Variance of one report's estimate along its vector, and in a direction across it.

        With the shrinkage m: E<u, v>^2/m^2 - 1, and the rest of the squared error, which is the
        same in all other d - 1 directions.
        """
        excess = math.expm1(self.epsilon)
        contrast = excess / (1 + excess * self.cap)
        along = self._along(self.cap, contrast) / self.shrinkage**2 - 1
        return along, (self._best[2] - along) / (self.dimension - 1)


def _long(reports: Messages) -> Array:
    """Lengths of reports in units of 2^-24."""
    lengths: Array = np.sqrt((reports.astype(np.float64) ** 2).sum(axis=1)) / _UNIT
    return lengths


def _uniforms(randomness: Randomness, size: int) -> Array:
    """Midpoints of 2^52 equal slices of (0, 1), each of them a float."""
    return ((randomness.words(size) >> np.uint64(12)).astype(np.float64) + 0.5) * 2.0**-52
