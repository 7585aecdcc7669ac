"""Directions: a cap of likelier outputs around a unit vector, and the mean of what comes back.

*Outputs.* A reference law of vectors u that no rotation changes is split by the fraction c of them
with the largest <u, v>, the *cap* of v. The report falls into the cap with probability p, and
follows the reference law inside and outside. So its density is p/c in the cap and (1 - p)/(1 - c)
elsewhere, and p is a whole number over 2^62 with ``p (1 - c) <= e^epsilon c (1 - p)`` in exact
arithmetic, for the very float c that the sampler uses.

*What is exact.* The choice between cap and rest is made with whole numbers. Where in the cap is
computed in 64-bit floats, then rounded to a grid of 2^-24 per coordinate: messages are whole
numbers, so neither low-order digits nor the uneven spacing of floats is sent. In real arithmetic
rounding is post-processing and costs nothing; the 64-bit error before it, some 2^-52 in size, can
matter only where it carries a coordinate over a grid line, with a probability of about 2^-27 per
coordinate. It is not part of epsilon.

*Law.* Every vector raises a fraction c of the outputs by e^epsilon; opposite vectors have disjoint
caps, as c <= 1/2: the two-level law.

*Estimation.* E[u | v] = m v, hence the mean of u/m. With D = p/c - (1 - p)/(1 - c) and I(c) the
integral of <u, v> over the cap, m = D I(c), and the squared error of one report is
``E|u|^2/m^2 - 1``; the best c is found numerically.

*Other lengths.* Randomizers of directions take vectors of length 1. A vector v with |v| <= R
becomes one of them with a coordinate more, (v/R, √(1 − |v|²/R²)); the estimated mean comes back
without that coordinate, times R. It is exact and unbiased, and as private: the law of a randomizer
of directions covers every pair of them.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, replace
from decimal import Decimal, localcontext
from functools import cached_property, partial
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
import scipy

from shoal import checks
from shoal.errors import InvalidArgumentError
from shoal.intervals.estimates import BoundedNoise, VectorEstimate
from shoal.mechanisms.base import (
    EXACT,
    LARGEST_EPSILON,
    ByLaw,
    Candidate,
    Device,
    Integers,
    Mechanism,
    Parts,
    Wanted,
)
from shoal.mechanisms.codec import Codec, Rows, Whole, checked_rows
from shoal.mechanisms.estimators import Means
from shoal.mechanisms.grid import two_level_law
from shoal.questions.domains import Ball, Domain, Sphere
from shoal.randomness import Randomness
from shoal.values import Array, Counts, Flags, Messages, Span, vector_rows

_UNIT = 2.0**24  # grid points per 1
_CHOICE_BITS = 62
# The probability of a cap exceeds c by at least c (1 - c) epsilon/(1 + epsilon) where epsilon is
# small and c above e^-5: far more than rounding it down to 62 bits takes away.
_SMALLEST_EPSILON = 1e-12
_BLOCK = 1 << 20  # coordinates worked on at once
_LONGEST = 16.0  # normals made of 52 bits are below 8.3, and the height along v is below 12
_LARGEST = np.finfo(np.float64).max


@dataclass(frozen=True, kw_only=True)
class CapNoise(BoundedNoise):
    """The noise of one coordinate of vectors of length ``norm``, as multiples of it."""

    randomizer: CapRandomizer
    norm: float = 1.0

    @property
    def jump(self) -> float:
        """(d + 3)/(d + 1): what the sphere has along the vector, and the normal law has less.

        The best cap has its rim at the height m, and then E<u, v>^2 = m^2 + (1 - m^2)/d and
        E<u, v>^3 = m (1 - (1 - m^2) (d - 1)/(d + 1)).
        """
        d = self.randomizer.dimension
        return self.norm * (d + 3) / (d + 1)

    def deviation(self, means: Array) -> Array:
        """Of a vector whose coordinate is c, the root of across + (along - across) c^2.

        The mean of c^2 is between the square of the mean and 1.
        """
        squares = np.minimum(np.square(means / self.norm), 1.0)
        along, across = self.randomizer.spread
        variances = np.maximum(along, across + (along - across) * squares)
        return np.asarray(self.norm * np.sqrt(variances))


class Coordinates(Codec):
    """Reports that are vectors of whole numbers, 32 bits a coordinate.

    A device can have sent those whose ``size`` is within the ``span``, as ``expected`` says.
    """

    def __init__(
        self, dimension: int, size: Callable[[Messages], Array], span: Span, expected: str
    ) -> None:
        self.dimension, self._size, self._span, self._expected = dimension, size, span, expected
        self.message_bits, self.message_bytes = 32.0 * dimension, 4 * dimension

    def cells(self, messages: Messages) -> Whole:
        """Sums of the coordinates, as whole numbers."""
        return np.asarray(self._checked(messages).sum(axis=0, dtype=np.int64))

    def encode(self, messages: Messages) -> Rows:
        """Coordinates as big-endian signed 32-bit numbers."""
        wide = np.ascontiguousarray(self._checked(messages).astype(">i4"))
        return wide.view(np.uint8).reshape(len(wide), self.message_bytes)

    def decode(self, rows: Rows) -> Messages:
        """The whole-number coordinates."""
        whole = np.ascontiguousarray(checked_rows(rows, self.message_bytes))
        return self._checked(whole.view(">i4").astype(np.int32))

    def admissible(self, rows: Rows) -> Flags:
        """Coordinates that a report can have."""
        whole = np.ascontiguousarray(checked_rows(rows, self.message_bytes))
        return self._possible(self._size(whole.view(">i4")))

    def _possible(self, sizes: Array) -> Flags:
        return np.asarray((sizes >= self._span[0]) & (sizes <= self._span[1]))

    def _checked(self, messages: Messages) -> Messages:
        reports = np.asarray(messages)
        wide = reports.ndim == 2 and reports.shape[1] == self.dimension
        if not wide or reports.dtype.kind not in "iu":
            kind = f"{reports.dtype} of shape {reports.shape}"
            raise InvalidArgumentError("messages", kind, f"rows of {self.dimension} whole numbers")
        sizes = self._size(reports)
        checks.every(self._possible(sizes), self._expected, message=sizes)
        return reports

    def direction(self, first: Any, second: Any) -> Array:  # noqa: ANN401
        """From one vector to the other: messages lie in the same space."""
        return np.asarray(np.subtract(first, second, dtype=np.float64))


@dataclass(frozen=True, kw_only=True)
class CapRandomizer(Mechanism[VectorEstimate]):
    """A randomizer of one unit vector, by a cap around it."""

    dimension: int
    epsilon: float

    @classmethod
    def candidates(cls, wanted: Wanted) -> list[Candidate]:
        """Of vectors of length 1; of others, lifted by a coordinate."""
        return [Candidate(cls.name, partial(cls.fitting, wanted.domain))]

    @classmethod
    def fitting(cls, domain: Domain, *, epsilon: float) -> Device:
        """This randomizer for the vectors of a domain."""
        d = domain.coordinates
        own = d if domain == Sphere(max(d, 2)) else d + 1
        return cls(dimension=own, epsilon=epsilon).fitted(domain)

    def fitted(self, domain: Domain) -> Device:
        """Lifted, for vectors of a coordinate less that may be shorter than the norm."""
        d, norm = domain.coordinates, domain.longest
        lift = self.dimension == d + 1 and domain == Ball(d, norm)
        return Lifted(inner=self, norm=norm) if lift else self

    @cached_property
    def parts(self) -> Parts[VectorEstimate]:
        """The law is that of caps around opposite vectors, which covers every pair."""
        shortest, longest = self._lengths
        expected = f"reports of length {shortest:.6g} to {longest:.6g}"
        return Parts(
            domain=Sphere(self.dimension),
            # The epsilon asked for: 62-bit odds keep it, from below.
            privacy=ByLaw(
                self.epsilon, lambda: two_level_law(fraction=self.cap, epsilon=self.epsilon)
            ),
            codec=Coordinates(self.dimension, _long, self._lengths, expected),
            estimator=Means(self._mean, lambda n: self.squared_error / n),
        )

    def __post_init__(self) -> None:
        checks.counts(self, dimension=2)
        checks.at_most(checks.LARGEST_DIMENSION, dimension=self.dimension)
        checks.positive(epsilon=self.epsilon)
        expected = f"{_SMALLEST_EPSILON:g} <= epsilon <= {LARGEST_EPSILON:g}"
        possible = _SMALLEST_EPSILON <= self.epsilon <= LARGEST_EPSILON
        checks.refuse(not possible, expected, epsilon=self.epsilon)

    @abstractmethod
    def _reach(self, fractions: Array) -> Array:
        """I(c): the integral of <u, v> over the cap, under the reference law."""

    @abstractmethod
    def _square(self, fractions: Array, contrasts: Array) -> Array:
        """E|u|^2 for caps of these fractions and contrasts D."""

    @abstractmethod
    def _along(self, fraction: float, contrast: float) -> float:
        """E<u, v>^2 for a cap of this fraction and contrast D."""

    @abstractmethod
    def _heights(self, ranks: Array) -> Array:
        """<u, v> of which a fraction ``ranks`` of the reference law is below."""

    @abstractmethod
    def _assembled(self, heights: Array, across: Array) -> Array:
        """Factors of the normal vectors across v, given <u, v>."""

    @property
    def cap(self) -> float:
        """The fraction c of the reference law in a cap."""
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
        fractions = np.minimum(np.exp(logs), 0.5)
        shrinkages, errors = self._performance(fractions)
        i = int(errors.argmin())
        return float(fractions[i]), float(shrinkages[i]), float(errors[i])

    def _performance(self, fractions: Array) -> tuple[Array, Array]:
        """Shrinkage and squared error; p/c - (1 - p)/(1 - c) = (e - 1)/(1 + (e - 1) c)."""
        excess = math.expm1(self.epsilon)
        contrasts = excess / (1 + excess * fractions)
        shrinkages = contrasts * self._reach(fractions)
        return shrinkages, self._square(fractions, contrasts) / shrinkages**2 - 1

    @cached_property
    def _choice(self) -> int:
        """p 2^62, rounded down."""
        with localcontext(EXACT):
            odds = Decimal(self.epsilon).exp() * Decimal(self.cap) / (1 - Decimal(self.cap))
            return int((1 << _CHOICE_BITS) * odds / (1 + odds))

    @property
    def integers(self) -> Integers:
        """The probability of the cap, of 2^62, and its fraction of the reference law."""
        cap = [str(part) for part in self.cap.as_integer_ratio()]
        return {"choice": str(self._choice), "bits": _CHOICE_BITS, "cap": cap}

    def draw(self, data: Array, bits: Randomness) -> Messages:
        """One row of whole numbers per unit vector: its report in units of 2^-24."""
        reports = np.empty(data.shape, dtype=np.int32)
        rows = max(1, _BLOCK // self.dimension)
        for start in range(0, len(data), rows):
            block = data[start : start + rows]
            reports[start : start + rows] = np.rint(self._reported(block, bits) * _UNIT)
        return reports

    def _reported(self, vectors: Array, randomness: Randomness) -> Array:
        n, d = vectors.shape
        inside = randomness.below(1 << _CHOICE_BITS, n) < np.uint64(self._choice)
        uniform = _uniforms(randomness, n)
        # Ranks are counted from the top in the cap, where they may be tiny, by symmetry.
        ranks = uniform * np.where(inside, self.cap, 1 - self.cap)
        heights = np.where(inside, -1.0, 1.0) * self._heights(ranks)
        across: Array = scipy.special.ndtri(_uniforms(randomness, n * d)).reshape(n, d)
        across -= np.einsum("ij,ij->i", across, vectors)[:, None] * vectors
        factors = self._assembled(heights, across)
        return np.asarray(heights[:, None] * vectors + factors[:, None] * across)

    @property
    def _lengths(self) -> Span:
        """Lengths that a report can have."""
        return 0.0, _LONGEST

    @property
    def squared_error(self) -> float:
        """Expected squared length of the error of one report: the same for all data."""
        return self._best[2]

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

    def _mean(self, counts: Counts) -> VectorEstimate:
        """From the sum of what points along directions on average; the errors are known."""
        means = counts.cells / (counts.n * _UNIT * self.shrinkage)
        noise = CapNoise(randomizer=self)
        errors = noise.deviation(means) / math.sqrt(counts.n)
        return VectorEstimate(means, errors, counts.n, noise)


def _long(reports: Messages) -> Array:
    """Lengths of reports in units of 2^-24."""
    return np.asarray(np.sqrt((reports.astype(np.float64) ** 2).sum(axis=1)) / _UNIT)


def _uniforms(randomness: Randomness, size: int) -> Array:
    """Midpoints of 2^52 equal slices of (0, 1), each of them a float."""
    return ((randomness.words(size) >> np.uint64(12)).astype(np.float64) + 0.5) * 2.0**-52


@dataclass(frozen=True, kw_only=True)
class PrivUnit(CapRandomizer):
    """A random unit vector, likelier from a cap around the true one by e^epsilon.

    On the sphere, (1 + <u, v>)/2 has the law Beta(a, a) with a = (d - 1)/2. A cap of fraction c
    reaches I(c) = (1 - g^2)^a/((d - 1) B(1/2, a)), g the height of its rim. Reports have length 1.

    Runtime: d + 2 draws and one inverse beta function per report; O(n d) to estimate.

    Utility: squared error 1/m^2 - 1 per report, the same for every vector.

    Args:
        dimension: Number of coordinates, at least 2; vectors have length 1.
        epsilon: Local ε of one report, in (0, 30]; the sampler keeps at most this.

    Raises:
        InvalidArgumentError: A parameter is out of its range.

    References:
        Bhowmick, Duchi, Freudiger, Kapoor, Rogers, "Protection Against Reconstruction and Its
        Applications in Private Federated Learning" (arXiv 1812.00984), with the exact odds and
        the best cap of Asi, Feldman, Talwar, "Optimal Algorithms for Mean Estimation under
        Local Differential Privacy", ICML 2022 (arXiv 2205.02466), where it is shown to be
        optimal; :doc:`/theory/envelope`.

    Example:
        >>> randomizer = PrivUnit(dimension=100, epsilon=8.0)
        >>> round(randomizer.variance(n=1), 1)
        12.7
    """

    name: ClassVar[str] = "privunit"

    @property
    def _half(self) -> float:
        return (self.dimension - 1) / 2

    def _reach(self, fractions: Array) -> Array:
        a = self._half
        rim = scipy.special.betaincinv(a, a, fractions)
        logs = a * np.log(4 * rim * (1 - rim)) - np.log(2 * a) - scipy.special.betaln(0.5, a)
        return np.asarray(np.exp(logs), dtype=np.float64)

    def _square(self, fractions: Array, contrasts: Array) -> Array:  # noqa: ARG002
        return np.ones_like(fractions)

    def _along(self, fraction: float, contrast: float) -> float:
        """Under the reference law E<u, v>^2 = 1/d, of which ((d - 1) g I(c) + c)/d in the cap."""
        a, d = self._half, self.dimension
        height = 1 - 2 * float(scipy.special.betaincinv(a, a, fraction))
        reach = float(self._reach(np.asarray(fraction)))
        inside = ((d - 1) * height * reach + fraction) / d
        # The density is 1 - contrast c outside the cap, and larger by the contrast within.
        return (1 - contrast * fraction) / d + contrast * inside

    def _heights(self, ranks: Array) -> Array:
        return np.asarray(2 * scipy.special.betaincinv(self._half, self._half, ranks) - 1)

    def _assembled(self, heights: Array, across: Array) -> Array:
        lengths = np.sqrt(np.einsum("ij,ij->i", across, across))
        return np.asarray(np.sqrt((1 - heights) * (1 + heights)) / lengths)

    @property
    def _lengths(self) -> Span:
        """One, but for the rounding of every coordinate by up to 2^-25."""
        slack = 1e-9 + 2.0**-25 * self.dimension**0.5
        return 1 - slack, 1 + slack


@dataclass(frozen=True, kw_only=True)
class PrivUnitG(CapRandomizer):
    """A normal vector of variance 1/d per coordinate, likelier from a half-space by e^epsilon.

    The cap of fraction c is the half-space ``<u, v> >= z/sqrt(d)``, z the normal quantile of 1 - c,
    and reaches I(c) = phi(z)/sqrt(d). With D as in the module's text,
    ``E|u|^2 = 1 + z phi(z) D/d``: a truncated normal coordinate, and d - 1 free ones.

    Runtime: d + 2 draws and d + 1 inverse normal functions per report; O(n d) to estimate.

    Utility: squared error E|u|^2/m^2 - 1 per report, the same for every vector.

    Args:
        dimension: Number of coordinates, at least 2; vectors have length 1.
        epsilon: Local ε of one report, in (0, 30]; the sampler keeps at most this.

    Raises:
        InvalidArgumentError: A parameter is out of its range.

    References:
        Asi, Feldman, Talwar, "Optimal Algorithms for Mean Estimation under Local Differential
        Privacy", ICML 2022 (arXiv 2205.02466): within 1 + o(1) of the optimum as d grows, and
        simpler to sample; :doc:`/theory/envelope`.

    Example:
        >>> randomizer = PrivUnitG(dimension=100, epsilon=8.0)
        >>> round(randomizer.variance(n=1), 1)
        13.3
    """

    name: ClassVar[str] = "privunitg"

    def _reach(self, fractions: Array) -> Array:
        return _density(scipy.special.ndtri(fractions)) / math.sqrt(self.dimension)

    def _square(self, fractions: Array, contrasts: Array) -> Array:
        z = -np.asarray(scipy.special.ndtri(fractions))
        return 1 + z * _density(z) * contrasts / self.dimension

    def _along(self, fraction: float, contrast: float) -> float:
        z = -float(scipy.special.ndtri(fraction))
        return (1 + z * float(_density(np.asarray(z))) * contrast) / self.dimension

    def _heights(self, ranks: Array) -> Array:
        return np.asarray(scipy.special.ndtri(ranks) / math.sqrt(self.dimension))

    def _assembled(self, heights: Array, across: Array) -> Array:  # noqa: ARG002
        return np.full_like(heights, 1 / math.sqrt(self.dimension))


def _density(z: Array) -> Array:
    return np.asarray(np.exp(-(z**2) / 2) / math.sqrt(2 * math.pi))


@dataclass(frozen=True, kw_only=True)
class Lifted(Mechanism[VectorEstimate]):
    """A randomizer of directions, for vectors that are at most ``norm`` long.

    It is ``inner`` that a device runs, with a coordinate more, and that names it.

    Args:
        inner: The randomizer of directions, of a coordinate more than the vectors have.
        norm: The longest vector that may be reported, > 0.

    Raises:
        InvalidArgumentError: A parameter is out of its range.

    References:
        :doc:`/theory/envelope`.

    Example:
        >>> lifted = Lifted(inner=PrivUnit(dimension=3, epsilon=1.0), norm=5.0)
        >>> lifted.lift([[3.0, 0.0]]).tolist()
        [[0.6, 0.0, 0.8]]
    """

    inner: CapRandomizer
    norm: float

    def __post_init__(self) -> None:
        _ = self.parts

    @property
    def name(self) -> str:  # type: ignore[override]  # that of the inner one
        """What a device runs."""
        return self.inner.name

    @cached_property
    def parts(self) -> Parts[VectorEstimate]:
        """Those of the inner randomizer, but for the data and the estimate."""
        domain = Ball(self.inner.dimension - 1, self.norm)
        return replace(self.inner.parts, domain=domain, estimator=Means(self._mean, self._largest))

    def described(self) -> dict[str, object]:
        """What a device runs."""
        return self.inner.described()

    @property
    def integers(self) -> Integers:
        """Those of the inner randomizer."""
        return self.inner.integers

    def lift(self, vectors: npt.ArrayLike) -> Array:
        """The vectors, with the coordinate that makes them 1 long."""
        parts = vector_rows(vectors, self.inner.dimension - 1) / self.norm
        rest = np.sqrt(np.maximum(0.0, 1 - np.einsum("ij,ij->i", parts, parts)))
        return np.column_stack([parts, rest])

    def draw(self, data: Array, bits: Randomness) -> Messages:
        """One row of whole numbers per vector: its report in units of 2^-24."""
        return self.inner.draw(self.inner.domain.read(self.lift(data)), bits)

    def _mean(self, counts: Counts) -> VectorEstimate:
        """The inner mean without its last coordinate, times the norm."""
        inner, first = self.inner.estimator.estimate(counts), slice(self.inner.dimension - 1)
        return VectorEstimate(
            self.norm * inner.mean[first],
            self.norm * inner.standard_errors[first],
            inner.n,
            CapNoise(randomizer=self.inner, norm=self.norm),
        )

    def _largest(self, n: int) -> float:
        """Largest expected squared length of the error of the mean of n people.

        A lifted vector's error is (along, across) it; the coordinate left out takes the smaller of
        the two with it at least.
        """
        left_out = min(self.inner.spread) / n
        return self.norm**2 * (self.inner.squared_error / n - left_out)


def shortened(values: npt.ArrayLike, ball: Ball) -> Array:
    """The vectors, those longer than the ball's norm scaled down to it.

    An infinite coordinate counts as the largest number there is.

    >>> shortened([[3.0, 0.0], [30.0, 40.0]], Ball(dimension=2, norm=5.0)).tolist()
    [[3.0, 0.0], [3.0, 4.0]]
    """
    vectors = vector_rows(values, ball.dimension)
    checks.refuse(np.isnan(vectors).any(), "numbers in all coordinates", values="not a number")
    vectors = np.clip(vectors, -_LARGEST, _LARGEST)
    # Squares of the coordinates themselves might overflow; those of their fractions do not.
    largest = np.abs(vectors).max(axis=1)
    fractions = vectors / np.where(largest > 0, largest, 1.0)[:, None]
    roots = np.sqrt(np.einsum("ij,ij->i", fractions, fractions))
    with np.errstate(over="ignore"):
        longer = largest * roots > ball.norm
    vectors[longer] = fractions[longer] * (ball.norm / roots[longer])[:, None]
    return vectors
