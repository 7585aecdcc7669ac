"""Estimates with their standard errors and confidence limits: every interval there is.

Limits follow from what is known of the errors: their law (:mod:`shoal.intervals.laws`), or a
variance that depends on what is estimated. The data are given: limits count the noise alone.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from statistics import NormalDist
from typing import TYPE_CHECKING, Self

import numpy as np
import numpy.typing as npt

from shoal import checks
from shoal.accounting import search
from shoal.values import Array, Flags, Span

if TYPE_CHECKING:
    from shoal.intervals.laws import Difference, ErrorLaw, Withheld

Whole = npt.NDArray[np.int64]
Ends = tuple[Array, Array]  # all lower limits, all upper ones

LEVEL = 0.95
_TIE = 1e-12  # fractions so close are the same
_TIED = 1e-9  # people
_FAR = 3.0  # standard deviations
_HALVINGS = 24  # of the bracket of a limit, whose outer end is taken: seven digits
_FINE = 1e-4  # of a limit
_SPARE = 0.05  # of what an interval may miss: for the limit of the variance
_STEEPEST = 1024.0  # slope of a line, in ranges of the variance over the range of the weights
_LINE_HALVINGS = 60
_EDGE = 1e-9  # of the range of the weights
_STRAIGHT = 1e-9  # of a variance
_STEPS = 20  # of a search for a limit, the outer end of which is taken


# ----------------------------------------------------------------------------------- of fractions


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

    def interval(self, level: float = 0.95, *, simultaneous: bool = False) -> Ends:
        """Confidence limits of each fraction; ``simultaneous`` makes all of them hold together."""
        checks.open_probability(level=level)
        return self.limits(self._each(1 - level) if simultaneous else 1 - level)

    def _each(self, outside: float) -> float:
        """What each interval may miss, so that all of them hold together.

        Bonferroni over the answers, half of the allowance being for counts that are not normal so
        far out in their tails.
        """
        return outside / (2 * self.frequencies.size)

    def limits(self, outside: float) -> Ends:
        """What each fraction is outside of with this probability, as its estimate says."""
        z = NormalDist().inv_cdf(1 - outside / 2)
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


def units(weights: Array) -> tuple[Array, Array, Array]:
    """The least weight of each row, their range, and the weights as parts of it from there."""
    low = weights.min(axis=1)
    span = weights.max(axis=1) - low
    scaled = (weights - low[:, None]) / np.where(span > 0, span, 1.0)[:, None]
    return low, span, scaled


@dataclass(frozen=True, eq=False, kw_only=True)
class LinearTotals(Estimate):
    """Weighted sums Σ w_j f_j by a bound on their n-fold variance Σ f_j V_j that is linear in them.

    It is the tangent of the least concave function of the weight that is nowhere below V_j: of
    all lines above every (w_j, V_j) the lowest at the estimate. Whatever people answer, the mean of
    V_j is at most such a line at the mean of w_j. ``units`` are the sums with the weights of each
    row scaled to ``spans`` of 1 from ``lows`` of 0; ``straight`` says where V_j are on the line, so
    that it is exact.
    """

    units: Estimate
    lows: Array
    spans: Array
    straight: Flags

    @classmethod
    def of(cls, values: Array, weights: Array, spread: Array, seen: Estimate) -> LinearTotals:
        """With V_j = ``spread``, from the estimates that were ``seen`` of single fractions."""
        low, span, scaled = units(weights)
        known = np.where(span > 0, span, 1.0)
        at, spread = (values - low) / known, spread / known[:, None] ** 2
        first, slope = _lowest_line(scaled, spread, np.clip(at, _EDGE, 1 - _EDGE))
        # It goes on beyond the weights, as limits take it to; at half of its least height at least.
        least = np.maximum(np.minimum(first, first + slope) / 2, 0.0)
        errors = np.sqrt(np.maximum(first + slope * at, least) / seen.n)
        above = (first[:, None] + slope[:, None] * scaled - spread).max(axis=1)
        steps = {"step": seen.step, "granularity": seen.granularity}
        return cls(
            values,
            span * errors,
            seen.n,
            **steps,
            units=Estimate(at, errors, seen.n, variance_slope=slope / seen.n, **steps),
            lows=low,
            spans=span,
            straight=above <= _STRAIGHT * spread.max(axis=1),
        )

    def limits(self, outside: float) -> Ends:
        """Score limits."""
        low, high = self.units.limits(outside)
        return self.lows + self.spans * low, self.lows + self.spans * high


@dataclass(frozen=True, eq=False, kw_only=True)
class WeightedTotals(Estimate):
    """Weighted sums Σ w_j f_j by two bounds on their n-fold variance Σ f_j V_j.

    The first, ``line``, holds whatever the data are. The other is an upper limit of Σ f_j V_j, a
    weighted sum as well, whose estimates are ``spreads``; the ``largest`` V_j are more than enough.
    The interval is what limits by both have in common, with 95 % of what it may miss for the sum
    and 5 % for its variance. Where the line is exact, it is all that is needed.
    """

    line: LinearTotals
    spreads: LinearTotals
    largest: Array

    def limits(self, outside: float) -> Ends:
        """Score limits by the line, and normal ones by the limit of the variance."""
        spare = _SPARE * outside
        low, high = self.line.limits(outside - spare)
        _, most = self.spreads.limits(2 * spare)
        z = NormalDist().inv_cdf(1 - (outside - spare) / 2)
        reach = z * np.sqrt(np.clip(most, 0.0, self.largest) / self.n)
        reach += self.line.spans * self._uneven(z)
        low = np.maximum(low, self.frequencies - reach)
        high = np.minimum(high, self.frequencies + reach)
        exact, (least, largest) = self.line.straight, self.line.limits(outside)
        return np.where(exact, least, low), np.where(exact, largest, high)


def _lowest_line(weights: Array, spread: Array, at: Array) -> tuple[Array, Array]:
    """Heights at the weight 0, and slopes, of lines above all points (rows), lowest at one place.

    A line of any slope can be put above them, so that halving may end anywhere.
    """
    steepest, rows = _STEEPEST * np.ptp(spread, axis=1), np.arange(at.size)
    low, high = -steepest, steepest
    for _ in range(_LINE_HALVINGS):
        slope = (low + high) / 2
        touching = np.argmax(spread - slope[:, None] * weights, axis=1)
        lower = weights[rows, touching] < at  # then the line is lower there with a lesser slope
        low, high = np.where(lower, low, slope), np.where(lower, slope, high)
    slope = (low + high) / 2
    return (spread - slope[:, None] * weights).max(axis=1), slope


@dataclass(frozen=True, eq=False, kw_only=True)
class KnownErrors(Estimate):
    """Fractions whose errors in people are of known laws: of each fraction, or one for all.

    ``people`` are the fractions in people, with what is expected of their errors: whole numbers if
    errors are.
    """

    people: Array | Whole
    errors: tuple[ErrorLaw, ...]

    @classmethod
    def of(cls, fractions: Array, errors: Sequence[ErrorLaw], *, n: int) -> Self:
        """Of n people."""
        deviations = np.sqrt([error.variance for error in errors]) / n
        return cls(fractions, deviations, n, people=fractions * n, errors=tuple(errors))

    @classmethod
    def counted(cls, people: Whole, error: ErrorLaw, *, n: int) -> Self:
        """Of n people, counted with whole errors of one law."""
        variance = error.variance
        deviation = math.sqrt(variance) / n
        return cls(
            (people - error.mean) / n,
            np.full(people.shape, deviation),
            n,
            step=1 / n,
            granularity=1 / n / (1 + variance / 3),
            empty_error=deviation,
            people=people,
            errors=(error,),
        )

    def _each(self, outside: float) -> float:
        """Bonferroni."""
        return outside / self.frequencies.size

    def limits(self, outside: float) -> Ends:
        """From the laws of the errors, at any level."""
        return self._limits(outside, np.arange(self.frequencies.size))

    def _limits(self, outside: float, some: Whole) -> Ends:
        """Those of some of the fractions."""
        one = len(self.errors) == 1
        errors = self.errors if one else [self.errors[place] for place in some.tolist()]
        ends = np.array([error.limits(outside) for error in errors]).reshape(-1, 2).T
        people = self.people[some]
        if people.dtype.kind != "i":  # an error at the limit itself must not be lost to rounding
            ends += _TIED * np.sign(ends)
        return (people - ends[1]) / self.n, (people - ends[0]) / self.n

    def sides(self, value: float, level: float) -> tuple[Flags, Flags]:
        """Which fractions may be at least the value, and which below it, by their limits.

        Limits are solved for where Chebyshev's inequality leaves it open.
        """
        above = self.frequencies >= value
        reach = self.standard_errors / math.sqrt(1 - level) * (1 + 2 * _FINE)
        near = np.flatnonzero(np.abs(self.frequencies - value) <= reach)
        low, high = self._limits(1 - level, near)
        up, down = above.copy(), ~above
        up[near], down[near] = high >= value - _TIE, low < value + _TIE
        return up, down

    def noise_floor(self, level: float = LEVEL) -> Array:
        """What an answer must reach so that, with probability ``level``, no mere noise does."""
        checks.open_probability(level=level)
        tail = self._each(1 - level)
        reached = np.array([error.reach(tail) for error in self.errors])
        return np.broadcast_to(reached / self.n, self.frequencies.shape).copy()


@dataclass(frozen=True, eq=False, kw_only=True)
class IndependentErrors(KnownErrors):
    """The same, with independent errors."""

    def _each(self, outside: float) -> float:
        """So that all hold together by the product of their probabilities."""
        return -math.expm1(math.log1p(-outside) / self.frequencies.size)


@dataclass(frozen=True, eq=False, kw_only=True)
class OneError(KnownErrors):
    """Two answers of one error: there is no noise in one that is not in the other."""

    def _each(self, outside: float) -> float:
        """Both limits hold where one does; and one of the answers has people."""
        return outside


@dataclass(frozen=True, eq=False, kw_only=True)
class ZeroRuleEstimate(Estimate):
    """Fractions that are exactly 0 unless more copies of the answer arrived than people sent.

    The rule biases the fractions of rare answers, often to 0: what reaches few more than nγ people
    cannot be told from nothing. The limits are made from the copies themselves (``excess`` is how
    many more than people arrived), so that they cover the truth at least as often as they say; for
    an answer reported as 0 they begin at 0. Its standard error is √(nγ(1−γ) + u²), where u is the
    estimate without the rule: how far that is from the truth, and from what is reported.

    With one excess, that of the answer 1, the answer 0 has the rest.
    """

    excess: Whole
    gamma: float
    withheld: Withheld

    @property
    def unbiased(self) -> Array:
        """Copies less those expected, whatever they are."""
        shown = self.excess / self.n + self.gamma
        return np.append(1 - shown, shown) if shown.size < self.frequencies.size else shown

    def _each(self, outside: float) -> float:
        """Bonferroni over the answers that there are copies of."""
        return outside / self.excess.size

    def limits(self, outside: float) -> Ends:
        """Exact, at any level."""
        fewest, most = (self.excess + end for end in self.withheld.limits(outside))
        fewest, most = np.where(self.excess > 0, fewest, 0), np.clip(most, 0, self.n)
        if self.excess.size == 1:
            fewest, most = np.append(self.n - most, fewest), np.append(self.n - fewest, most)
        return fewest / self.n, most / self.n

    def beyond(
        self, rare: float, *, bounds: Span = (0.0, 1.0), reach: Span | None = None
    ) -> tuple[Flags, Flags]:
        """Which answers have fewer, and which have more copies than honest people send.

        From the copies themselves: those that are missing show nowhere else, as the rule makes 0
        of them.
        """
        checks.refuse(reach is not None, "no reach: its limits are exact", reach=reach)
        low, high = (self.n * bound for bound in bounds)
        least, largest = self.withheld.limits(rare / self.excess.size)
        fewer, more = self.excess < low - largest, self.excess > high - least
        if self.excess.size == 1:
            fewer, more = np.append(more, fewer), np.append(fewer, more)
        return fewer, more


@dataclass(frozen=True, eq=False)
class Piece:
    """Some cells of an estimate, each ``times`` its fraction."""

    estimate: Estimate
    cells: tuple[int, ...]
    times: int = 1

    def of(self, values: object) -> Array:
        """These cells of one number for each cell of the estimate, or one for all of them."""
        every = np.broadcast_to(
            np.asarray(values, dtype=np.float64), self.estimate.frequencies.shape
        )
        return self.times * every[list(self.cells)]


@dataclass(frozen=True, eq=False, kw_only=True)
class Joined(Estimate):
    """Fractions that are cells of several estimates; their limits are those of their pieces.

    A piece that counts several reports of everybody has the fraction of reports: ``times`` that is
    the fraction of people.
    """

    pieces: tuple[Piece, ...]

    @classmethod
    def of(cls, pieces: Sequence[Piece], *, n: int) -> Joined:
        """Of n people."""
        fractions = [each.of(each.estimate.frequencies) for each in pieces]
        deviations = [each.of(each.estimate.standard_errors) for each in pieces]
        empty = [
            each.of(
                each.estimate.standard_errors
                if each.estimate.empty_error is None
                else each.estimate.empty_error
            )
            for each in pieces
        ]
        return cls(
            np.concatenate(fractions),
            np.concatenate(deviations),
            n,
            empty_error=np.concatenate(empty),
            pieces=tuple(pieces),
        )

    def limits(self, outside: float) -> Ends:
        """Those of the pieces."""
        lows, highs = zip(*(piece.estimate.limits(outside) for piece in self.pieces), strict=True)
        return self._together(lows), self._together(highs)

    def noise_floor(self, level: float = 0.95) -> Array:
        """What a label must reach so that, with probability ``level``, no mere noise does."""
        checks.open_probability(level=level)
        each = 1 - (1 - level) / len(self.pieces)
        return self._together([piece.estimate.noise_floor(each) for piece in self.pieces])

    def _together(self, values: Sequence[Array]) -> Array:
        parts = zip(self.pieces, values, strict=True)
        return np.concatenate([piece.of(each) for piece, each in parts])


# --------------------------------------------------------------------------- of ratios of fractions


def parts(part: Estimate, rest: Estimate, level: float) -> Ends:
    """Limits of c/(c + r), of a part of a group and the rest of it, both of them noisy.

    They are Fieller's ("Some problems in interval estimation", 1954): those p at which
    (1 - p) c - p r is as far from 0 as its error explains. The standard deviation of that is at
    most (1 - p) times that of c and p times that of r, whatever the two have to do with each other.
    With this the limits are c⁻/(c⁻ + r⁺) and c⁺/(c⁺ + r⁻), of the limits of c and of r, which are
    those of 0 where the estimate is below it: they hold at the level of those limits, or a higher
    one.
    """
    (low, high), (least, most) = possible(part, level), possible(rest, level)
    with np.errstate(divide="ignore", invalid="ignore"):
        lows = np.where(low > 0, low / (low + most), 0.0)
        return lows, np.where(least > 0, high / (high + least), 1.0)


def widened(sums: Estimate, variance: Array, level: float) -> Ends:
    """Limits of sums that have a normal error of their own beside that of the noise."""
    (low, high), middle = sums.interval(level), sums.frequencies
    reach = NormalDist().inv_cdf((1 + level) / 2) * np.sqrt(variance)
    low = middle - np.hypot(np.maximum(middle - low, 0.0), reach)
    return low, middle + np.hypot(np.maximum(high - middle, 0.0), reach)


def ratio_limits(outside: Callable[[Array], Array], start: Array, known: Flags) -> Ends:
    """All lower limits and all upper ones, from 0 to 1, of ratios that are estimated at ``start``.

    ``outside`` says by how much trial ratios, lower ends first, are beyond their limits, or less
    than 0. Of ratios that are ``known`` it is the same distance for all trials. The search keeps a
    trial that is beyond and one that is not, and ends with the former.
    """
    two, out = start.size, np.repeat([-1.0, 1.0], start.size)
    start, known = np.tile(start, 2), np.tile(known, 2)
    near, far = start, np.maximum(out, 0.0)
    first, last = outside(near), outside(far)
    solved = np.where(known, np.clip(near - out * first, 0.0, 1.0), far)
    done = known | (last <= 0)
    # Secants through the last two trials, and a little further: then the next one is beyond.
    before, after = (near, first), (far, last)
    for _ in range(_STEPS):
        with np.errstate(divide="ignore", invalid="ignore"):
            root = after[0] - after[1] * (after[0] - before[0]) / (after[1] - before[1])
        further = _FINE * np.abs(root - start)
        if (done | (np.abs(far - root) <= 3 * further)).all():
            break
        trial = root + out * further
        within = (out * (trial - near) > 0) & (out * (far - trial) > 0)
        trial = np.where(within, trial, (near + far) / 2)
        value = outside(trial)
        near, far = np.where(value <= 0, trial, near), np.where(value <= 0, far, trial)
        before, after = after, (trial, value)
    limits = np.where(done, solved, far)
    return limits[:two], limits[two:]


def possible(estimate: Estimate, level: float) -> tuple[Array, Array]:
    """Limits of fractions, not below 0: an estimate below it has the upper limit of 0."""
    low, high = estimate.interval(level)
    above = high + np.maximum(-estimate.frequencies, 0.0)
    return np.clip(low, 0.0, 1.0), np.clip(above, 0.0, 1.0)


# ---------------------------------------------------------------------------------------- of means


class Noise(ABC):
    """What randomizing adds to means: all that their confidence limits depend on."""

    @abstractmethod
    def limits(self, means: Array, *, n: int, outside: float) -> Ends:
        """What each mean of n people is outside of with this probability."""


class BoundedNoise(Noise):
    """Of each report, with a deviation that may depend on the data, and a third moment."""

    @property
    @abstractmethod
    def jump(self) -> float:
        """How far off a lie typically is: about the third moment of the error over its variance."""

    @abstractmethod
    def deviation(self, means: Array) -> Array:
        """Largest standard deviation of one report, if everybody's values have this mean."""

    def limits(self, means: Array, *, n: int, outside: float) -> Ends:
        """The means from which n noisy reports stray as far as the estimates so rarely.

        The furthest means μ on either side with, σ being the deviation of a report at μ and J the
        jump,

            |estimate - μ| <= z σ/sqrt(n) + max(3, z^2) sqrt(J^2 + 4 σ^2)/(6 n).

        The data are given and only the randomizers are random: σ is known, or bounded, where the
        spread of a few reports says little. The second term is that of Bernstein's inequality, with
        the normal z for the level, and half a step at least: reports of two values with the
        variance σ^2 and the third moment J σ^2 are sqrt(J^2 + 4 σ^2) apart, and their mean moves in
        steps of an n-th of that. A Poisson number of lies, however rare, is within such limits as
        often as they say.
        """
        z, jump = NormalDist().inv_cdf(1 - outside / 2), self.jump

        def reach(means: Array) -> Array:
            deviations = self.deviation(means)
            steps = np.hypot(jump, 2 * deviations) / n
            return np.asarray(z * deviations / np.sqrt(n) + max(3.0, z**2) / 6 * steps)

        side = np.array([[-1.0], [1.0]])  # (sides, estimates)
        near, far = np.zeros((2, means.size)), np.tile(reach(means), (2, 1))
        while (inside := far < reach(means + side * far)).any():
            far = np.where(inside, 2 * far, far)
        for _ in range(_HALVINGS):
            middle = (near + far) / 2
            inside = middle < reach(means + side * middle)
            near, far = np.where(inside, middle, near), np.where(inside, far, middle)
        low, high = means + side * far
        return low, high


@dataclass(frozen=True)
class WholeNoise(Noise):
    """The error of the sum of whole numbers, of a known law."""

    error: Difference

    def limits(self, means: Array, *, n: int, outside: float) -> Ends:
        """As far on either side."""
        reach, totals = self.error.quantile(outside / 2), np.rint(means * n)
        return (totals - reach) / n, (totals + reach) / n


@dataclass(frozen=True)
class LaplaceNoise(Noise):
    """Laplace noise of this ``scale`` in the mean, and ``spread`` that is nearly normal.

    Both have a ``deviation`` together; ``granularity`` is half a step of the noise, which comes in
    whole steps.
    """

    deviation: float
    spread: float
    scale: float = 0.0
    granularity: float = 0.0

    @classmethod
    def of(cls, *, n: int, unit: float, rate: float | None, people: int) -> LaplaceNoise:
        """Of n people, rounded to levels worth ``unit`` each; rounding counts at its worst.

        ``people`` of them together add noise of Pr[Z = z] ∝ e^(−rate |z|), in levels.
        """
        rounding = unit * math.sqrt(n / 4)
        if rate is None:
            return cls(rounding, rounding)
        parts = n / people
        noise = unit * math.sqrt(parts / 2) / math.sinh(rate / 2)
        scale = unit * math.sqrt(max(1.0, parts)) / rate
        return cls(math.hypot(rounding, noise), rounding, scale, granularity=unit / 2)

    def limits(self, means: Array, *, n: int, outside: float) -> Ends:  # noqa: ARG002
        """Laplace noise has more in its tails than normal noise."""
        normal = NormalDist().inv_cdf(1 - outside / 2) * self.deviation
        reach = max(normal, self._quantile(outside) + self.granularity)
        return means - reach, means + reach

    def _quantile(self, outside: float) -> float:
        """Where |Laplace + normal| is beyond with this probability, from above."""
        most = 40 * (self.scale + self.spread) * (1 - math.log(outside))
        return search.least(lambda t: self._beyond(t) <= outside, 0.0, most, tolerance=1e-9)

    def _beyond(self, reach: float) -> float:
        """Pr[|L + N| > t] = Pr[|N| > t] + e^(κ²/2) (e^(−t/b) Φ(t/s−κ) − e^(t/b) Φ(−t/s−κ)), κ=s/b.

        Where the spread s is too small to matter, the Laplace tail alone; the normal one alone
        where it is too large.
        """
        if not self.scale and not self.spread:
            return 0.0
        ratio = self.spread / self.scale if self.scale else math.inf
        if ratio <= 1e-6:
            return math.exp(-reach / self.scale)
        at = reach / self.spread
        normal = math.erfc(at / math.sqrt(2))
        if ratio >= 30:
            return normal
        decay = reach / self.scale
        near = math.exp(ratio**2 / 2 - decay) * _normal(at - ratio)
        # The second product is a huge number times a tiny one; far out it is nothing.
        far = math.exp(ratio**2 / 2 + decay) * _normal(-at - ratio) if at + ratio < 36 else 0.0
        return normal + near - far


def _normal(x: float) -> float:
    return math.erfc(-x / math.sqrt(2)) / 2


@dataclass(frozen=True)
class MeanEstimate:
    """An unbiased estimate of the mean of everybody's number.

    Args:
        mean: The estimate, in the units of the data.
        standard_error: Of the estimate, given the data: it counts the noise alone.
        n: How many people reported.
        noise: What randomizing adds, from which confidence limits follow; None takes a normal law.

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
        noise: What randomizing adds, from which confidence limits follow; None takes a normal law.

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

    def interval(self, level: float = 0.95, *, simultaneous: bool = False) -> Ends:
        """Confidence limits of each coordinate; ``simultaneous`` makes all of them hold together.

        Together: Bonferroni over the coordinates.
        """
        checks.open_probability(level=level)
        outside = (1 - level) / (self.mean.size if simultaneous else 1)
        if self.noise is not None:
            return self.noise.limits(self.mean, n=self.n, outside=outside)
        reach = NormalDist().inv_cdf(1 - outside / 2) * self.standard_errors
        return self.mean - reach, self.mean + reach


AnyEstimate = Estimate | MeanEstimate | VectorEstimate


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
