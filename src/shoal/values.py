"""The values everybody speaks: a shuffled batch, its counts, an estimate with its error."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field
from statistics import NormalDist
from typing import Any

import numpy as np
import numpy.typing as npt

from shoal import checks

Array = npt.NDArray[np.float64]
Flags = npt.NDArray[np.bool_]
Span = tuple[float, float]  # from the least to the largest
Messages = npt.NDArray[np.integer]
Record = dict[str, object]

_TIE = 1e-12  # fractions so close are the same
_FAR = 3.0  # standard deviations
_HALVINGS = 24  # of the bracket of a limit, whose outer end is taken: seven digits


@dataclass(frozen=True, eq=False)
class Batch:
    """A multiset of messages, in an order that means nothing.

    Made by :func:`shoal.shuffle`; ``tally`` and ``estimate`` of the mechanism take it.

    Args:
        messages: Whole numbers for randomizers whose message is one of few, rows of bytes or
            of numbers for the others.
        people: How many people sent them, if not one message each.

    Example:
        >>> Batch(np.array([2, 0, 1])).n
        3
    """

    messages: Messages
    people: int | None = None

    @property
    def n(self) -> int:
        """How many people sent them."""
        return len(self.messages) if self.people is None else self.people

    def __len__(self) -> int:
        return len(self.messages)

    def __repr__(self) -> str:
        sent = "" if self.people is None else f" of {self.people} people"
        return f"Batch({len(self)} messages{sent})"


@dataclass(frozen=True, eq=False)
class Envelopes:
    """Several messages of each person, before anybody has mixed them: one envelope a person.

    ``randomize`` of a protocol makes them; :func:`shoal.shuffle` takes them apart.

    Args:
        messages: Everybody's messages, person after person.
        sizes: How many messages each person sent.
        filling: What a shuffler adds to so many messages of so many people, where their
            number would tell something.

    Raises:
        InvalidArgumentError: The sizes do not add up to the number of messages.

    Example:
        >>> two = Envelopes(np.array([3, 1, 4]), np.array([1, 2]))
        >>> len(two)
        2
    """

    messages: Messages
    sizes: npt.NDArray[np.int64]
    filling: Callable[[int, int], Messages] | None = None

    def __post_init__(self) -> None:
        total, sent = int(self.sizes.sum()), len(self.messages)
        checks.refuse(total != sent, f"{total} messages, as many as the sizes say", messages=sent)

    def __len__(self) -> int:
        return len(self.sizes)

    @property
    def filled(self) -> Messages:
        """The messages, and those that a shuffler adds."""
        if self.filling is None:
            return self.messages
        return np.concatenate([self.messages, self.filling(len(self.messages), len(self))])

    def __repr__(self) -> str:
        return f"Envelopes({len(self.messages)} messages of {len(self)} people)"


@dataclass(frozen=True, eq=False)
class Counts:
    """What an analyzer needs of a batch: a sum over its messages, and how many people sent them.

    Adding the counts of two batches gives the counts of both together.

    Args:
        cells: The sums, such as how often each message was sent.
        n: How many people sent them.

    Example:
        >>> both = Counts(np.array([1, 2]), n=3) + Counts(np.array([0, 1]), n=1)
        >>> both.cells.tolist(), both.n
        ([1, 3], 4)
    """

    cells: npt.NDArray[np.int64]
    n: int

    def __add__(self, other: Counts) -> Counts:
        return Counts(self.cells + other.cells, self.n + other.n)


@dataclass(frozen=True, eq=False)
class Estimate:
    """Unbiased estimates of the fraction of each answer, with their standard errors.

    The estimates are as they come: they may be negative and need not sum to one.
    Post-processing is a step of its own (:func:`shoal.estimate.on_simplex`).

    Args:
        frequencies: The estimated fraction of each answer.
        standard_errors: Of each of them, given the data: they count the noise alone.
        n: How many people reported.
        variance_slope: By how much the variance grows with the fraction.
        step: By how much one message moves a fraction.
        granularity: The step, where so few messages tell that it shows.
        empty_error: Standard error of an answer that nobody gave, if it is another.

    Example:
        >>> estimate = Estimate(np.array([0.7, 0.3]), np.array([0.1, 0.1]), n=1000)
        >>> estimate.counts.round().tolist()
        [700.0, 300.0]
        >>> low, high = estimate.interval(0.95)
        >>> bool(low[0] < 0.7 < high[0])
        True
    """

    frequencies: Array
    standard_errors: Array
    n: int
    variance_slope: float | Array = 0.0  # a larger fraction makes its estimate noisier
    step: float = 0.0  # by how much one message moves a fraction
    granularity: float = 0.0  # the step, where so few messages tell that it shows
    empty_error: float | Array | None = None  # standard error of an answer that nobody gave

    @property
    def counts(self) -> Array:
        """Estimated numbers of people."""
        return self.frequencies * self.n

    @property
    def unbiased(self) -> Array:
        """The estimated fractions without any rule that biases them."""
        return self.frequencies

    def interval(self, level: float = 0.95, *, simultaneous: bool = False) -> tuple[Array, Array]:
        """Confidence limits of each fraction; ``simultaneous`` makes all of them hold together."""
        checks.open_probability(level=level)
        # Together: Bonferroni over the answers, half of the allowance being for counts that are not
        # normal so far out in their tails.
        each = (1 - level) / (2 * self.frequencies.size) if simultaneous else 1 - level
        z = NormalDist().inv_cdf(1 - each / 2)
        # Score limits: fractions f with (estimate - f)^2 = z^2 (variance at f), which is linear.
        # A variance that falls counts as constant beyond: other answers may be its cause there.
        below = z**2 * np.asarray(self.variance_slope) / 2
        above, uneven = np.maximum(below, 0.0), self._uneven(z)
        reach = z * self.standard_errors
        low = self.frequencies + below - np.hypot(below, reach) - uneven
        return low, self.frequencies + above + np.hypot(above, reach) + uneven

    def _uneven(self, z: float) -> float:
        """How much further out limits are, as counts are not normal.

        Counts come in whole steps, and are skewed where few messages tell (Cornish-Fisher); more
        than three deviations out they are in any crowd.
        """
        skewed = self.granularity + (self.step - self.granularity) * min(1.0, max(0.0, z - _FAR))
        return self.step / 2 + skewed * abs(z**2 - 1) / 6

    def sides(self, value: float, level: float) -> tuple[Flags, Flags]:
        """Which fractions may be at least the value, and which below it, by their limits."""
        low, high = self.interval(level)
        return high >= value - _TIE, low < value + _TIE

    def noise_floor(self, level: float = 0.95) -> Array:
        """What an answer must reach so that, with probability ``level``, no mere noise does.

        Args:
            level: The probability, for all answers together.

        Returns:
            A fraction for each answer.

        Raises:
            InvalidArgumentError: ``level`` is not in (0, 1).

        Example:
            >>> estimate = Estimate(np.array([0.9, 0.01]), np.full(2, 0.05), n=100)
            >>> (estimate.frequencies >= estimate.noise_floor()).tolist()
            [True, False]
        """
        checks.open_probability(level=level)
        each = -math.expm1(math.log(level) / self.frequencies.size)
        empty = self.standard_errors if self.empty_error is None else self.empty_error
        z = NormalDist().inv_cdf(1 - each)
        reach: Array = np.broadcast_to(z * np.asarray(empty), self.frequencies.shape)
        # Counts of noise are skewed to the right: the first term of the Cornish-Fisher expansion.
        return reach + self.step * (z**2 + 2) / 6

    def beyond(
        self, rare: float, *, bounds: Span = (0.0, 1.0), reach: Span | None = None
    ) -> tuple[Flags, Flags]:
        """Which fractions are below and above all that honest people's reports give.

        Whatever they answer, any of it happens with probability ``rare`` at most, however few they
        are. ``reach`` is that of the mechanism (see :func:`unlikely`); without one the estimate's
        own limits hold exactly.
        """
        if reach is not None:
            each = rare / (2 * self.frequencies.size)
            return unlikely(self.frequencies, bounds, n=self.n, reach=reach, rare=each)
        low, high = self.interval(1 - rare, simultaneous=True)
        return high < bounds[0], low > bounds[1]


def unlikely(
    estimates: Array, bounds: Span, *, n: int, reach: Span, rare: float
) -> tuple[Flags, Flags]:
    """Which means of n reports are below, and which above, the bounds by more than noise explains.

    A report adds between ``reach[0]`` and ``reach[1]``, independently of the others, and on average
    something within the bounds. On the scale from 0 to 1 of the reach, the mean of n reports whose
    expectation is p at most reaches q > p with probability exp(-n KL(q || p)) at most: Hoeffding,
    "Probability Inequalities for Sums of Bounded Random Variables", 1963, Theorem 1. This holds for
    every n and every law, and a mean that no reports have is infinitely unlikely. What is marked
    has probability ``rare`` at most for each estimate and side; in large crowds of reports that are
    one of two values, it is sqrt(2 log(1/rare)) standard errors beyond: 5.3 for one in a million.
    """
    least, largest = reach
    place = np.clip((estimates - least) / (largest - least), 0.0, 1.0)
    sides = []
    for bound, sign in zip(bounds, (-1, 1), strict=True):
        end = min(max((bound - least) / (largest - least), 0.0), 1.0)
        exponent = n * (_divergence(place, end) + _divergence(1 - place, 1 - end))
        sides.append((sign * (place - end) > 0) & (exponent > -math.log(rare)))
    below, above = sides
    return below, above


def _divergence(q: Array, p: float) -> Array:
    """q log(q/p), which is 0 at q = 0 and infinite at p = 0."""
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(q > 0, q * np.log(q / p), 0.0)


class Noise(ABC):
    """What randomizing adds to one report: all that confidence limits of a mean depend on."""

    @property
    @abstractmethod
    def jump(self) -> float:
        """How far off a lie typically is: about the third moment of the error over its variance."""

    @abstractmethod
    def deviation(self, means: Array) -> Array:
        """Largest standard deviation of one report, if everybody's values have this mean."""


def score_limits(estimates: Array, *, n: int, noise: Noise, outside: float) -> tuple[Array, Array]:
    """The means from which n noisy reports stray as far as the estimates, with this probability.

    The furthest means μ on either side with, σ being the deviation of a report at μ and J the jump,

        |estimate - μ| <= z σ/sqrt(n) + max(3, z^2) sqrt(J^2 + 4 σ^2)/(6 n).

    The data are given and only the randomizers are random: σ is known, or bounded, where the spread
    of a few reports says little. The second term is that of Bernstein's inequality, with the normal
    z for the level, and half a step at least: reports of two values with the variance σ^2 and the
    third moment J σ^2 are sqrt(J^2 + 4 σ^2) apart, and their mean moves in steps of an n-th of
    that. A Poisson number of lies, however rare, is within such limits as often as they say.
    """
    z, jump = NormalDist().inv_cdf(1 - outside / 2), noise.jump

    def reach(means: Array) -> Array:
        deviations = noise.deviation(means)
        steps = np.hypot(jump, 2 * deviations) / n
        return np.asarray(z * deviations / np.sqrt(n) + max(3.0, z**2) / 6 * steps)

    side = np.array([[-1.0], [1.0]])  # (sides, estimates)
    near, far = np.zeros((2, estimates.size)), np.tile(reach(estimates), (2, 1))
    while (inside := far < reach(estimates + side * far)).any():
        far = np.where(inside, 2 * far, far)
    for _ in range(_HALVINGS):
        middle = (near + far) / 2
        inside = middle < reach(estimates + side * middle)
        near, far = np.where(inside, middle, near), np.where(inside, far, middle)
    low, high = estimates + side * far
    return low, high


@dataclass(frozen=True)
class MeanEstimate:
    """An unbiased estimate of the mean of everybody's number.

    Args:
        mean: The estimate, in the units of the data.
        standard_error: Of the estimate, given the data: it counts the noise alone.
        n: How many people reported.
        noise: What randomizing adds to one report, from which confidence limits follow; None
            takes a normal law.

    Example:
        >>> MeanEstimate(36.6, 0.1, n=1000).sum
        36600.0
    """

    mean: float
    standard_error: float
    n: int
    noise: Noise | None = field(default=None, repr=False)

    @property
    def sum(self) -> float:
        """The estimated sum over everybody."""
        return self.mean * self.n

    def interval(self, level: float = 0.95) -> tuple[float, float]:
        """Confidence limits of the mean: they count the noise alone, as the data are given."""
        mean, error = np.array([self.mean]), np.array([self.standard_error])
        low, high = VectorEstimate(mean, error, self.n, self.noise).interval(level)
        return float(low[0]), float(high[0])

    def beyond(
        self, rare: float, *, bounds: Span, reach: Span | None = None
    ) -> tuple[Flags, Flags]:
        """Whether the mean is below or above all that honest people's reports give.

        As of :meth:`Estimate.beyond`.
        """
        if reach is not None:
            return unlikely(np.array([self.mean]), bounds, n=self.n, reach=reach, rare=rare / 2)
        low, high = self.interval(1 - rare)
        return np.array([high < bounds[0]]), np.array([low > bounds[1]])


@dataclass(frozen=True, eq=False)
class VectorEstimate:
    """An unbiased estimate of the mean of everybody's vector.

    Args:
        mean: The estimate, a number for each coordinate.
        standard_errors: Of each coordinate, given the data: they count the noise alone.
        n: How many people reported.
        noise: What randomizing adds to one report, from which confidence limits follow; None
            takes a normal law.

    Example:
        >>> VectorEstimate(np.array([0.5, -0.5]), np.array([0.1, 0.1]), n=100).sum.tolist()
        [50.0, -50.0]
    """

    mean: Array
    standard_errors: Array
    n: int
    noise: Noise | None = field(default=None, repr=False)

    @property
    def sum(self) -> Array:
        """The estimated sum over everybody."""
        return self.mean * self.n

    def interval(self, level: float = 0.95, *, simultaneous: bool = False) -> tuple[Array, Array]:
        """Confidence limits of each coordinate; ``simultaneous`` makes all of them hold together.

        Together: Bonferroni over the coordinates.
        """
        checks.open_probability(level=level)
        return self._limits((1 - level) / self.mean.size if simultaneous else 1 - level)

    def _limits(self, outside: float) -> tuple[Array, Array]:
        """What each coordinate is outside of with this probability."""
        if self.noise is not None:
            return score_limits(self.mean, n=self.n, noise=self.noise, outside=outside)
        reach = NormalDist().inv_cdf(1 - outside / 2) * self.standard_errors
        return self.mean - reach, self.mean + reach


AnyEstimate = Estimate | MeanEstimate | VectorEstimate


def category_codes(
    values: npt.ArrayLike, k: int, *, name: str = "value", what: str = "answers"
) -> npt.NDArray[np.int64]:
    """Answers as whole numbers 0, ..., k - 1, or an error naming the row of the first other one."""
    codes = np.asarray(values)
    shape, whole = f"{codes.dtype} of shape {codes.shape}", codes.dtype.kind in "iu"
    expected = "a one-dimensional array of whole numbers"
    checks.refuse(codes.ndim != 1 or not whole, expected, **{f"{name}s": shape})
    if codes.size and not 0 <= int(codes.min()) <= int(codes.max()) < k:
        checks.everybody((codes >= 0) & (codes < k), f"{what} 0, ..., {k - 1}", **{name: codes})
    return codes.astype(np.int64, copy=False)


def bounded_numbers(values: npt.ArrayLike, low: float, high: float) -> Array:
    """Numbers within public bounds, or an error naming the row of the first that is outside."""
    numbers = np.asarray(values, dtype=np.float64)
    shape = f"shape {numbers.shape}"
    checks.refuse(numbers.ndim != 1, "a one-dimensional array", values=shape)
    inside = (numbers >= low) & (numbers <= high)
    checks.everybody(inside, f"numbers from {low:g} to {high:g}", value=numbers)
    return numbers


def attributes(of: object, *names: str) -> dict[str, Any]:
    """The attributes of these names, in their order."""
    return {name: getattr(of, name) for name in names}
