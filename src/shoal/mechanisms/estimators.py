"""What messages say about everybody: estimates from their counts, and the errors of these."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, TypeVar, cast

import numpy as np
import numpy.typing as npt

from shoal import checks
from shoal.intervals.estimates import (
    AnyEstimate,
    Estimate,
    KnownErrors,
    LinearTotals,
    WeightedTotals,
    units,
)
from shoal.values import Array, Counts, Flags, Span

if TYPE_CHECKING:
    from shoal.intervals.laws import Difference, ErrorLaw

E_co = TypeVar("E_co", bound=AnyEstimate, covariant=True)
Codes = npt.NDArray[np.int64]
Gap = Callable[[Counts], float]

MOST_PAIRED = 256  # answers, all pairs of which are looked at one by one
_NODES = 512  # of a quadrature whose error is far below any digit that is shown
_EDGE = 3.2
_ROUNDING = 1e-9
_erf = np.vectorize(math.erf, otypes=[float])  # of few values: loading SciPy's takes longer


@dataclass(frozen=True)
class Errors:
    """Expected errors of estimated counts (of the estimated sum, for numbers and vectors)."""

    l2: float  # root mean square of the Euclidean error over all answers
    linf: float  # expected largest error of any answer
    cell: float  # standard deviation of an answer that nobody gave


class Estimator(ABC, Generic[E_co]):
    """Estimates from counts; ``reach`` is the least and the most that one person adds to them.

    There is no reach if the limits of the estimates are exact at every level.
    """

    reach: Span | None = None

    @abstractmethod
    def estimate(self, counts: Counts) -> E_co:
        """Unbiased estimates of what everybody has."""

    @abstractmethod
    def variance(self, frequencies: npt.ArrayLike | None = None, *, n: int) -> Any:  # noqa: ANN401
        """Of each estimated fraction, given the true ones; of a mean: the largest over all data."""

    @abstractmethod
    def errors(self, n: int) -> Errors:
        """What to expect of n people, in people; of numbers, in the worst case of the data."""

    @abstractmethod
    def gap(self, first: Any, second: Any) -> Gap | None:  # noqa: ANN401
        """How the estimates tell two inputs apart, as one number, for an auditor."""


# ------------------------------------------------------------------------------------- of answers


class AnswerEstimator(Estimator[Estimate]):
    """Of the fraction of each of k answers.

    ``laplace`` says that errors are independent and of a Laplace law, where others are nearly
    normal; ``one_error`` that both of two answers have one error, as their estimates sum to 1;
    ``signed`` that :meth:`spread` takes weights of both signs at once.
    """

    k: int
    laplace: bool = False
    one_error: bool = False
    signed: bool = False

    def error(self, n: int) -> Difference | None:  # noqa: ARG002
        """The law of the error of each count of n people, if those of all are independent."""
        return None

    def total_spread(self, own: Array, total: Array, squares: Array) -> Array:  # noqa: ARG002
        """At most the variance of one person's part in a weighted sum of estimated fractions.

        The weights, none negative, sum to ``total`` and their squares to ``squares``; that of the
        person's own answer is ``own``. Whatever the errors of different answers have to do with
        each other, standard deviations add up at most (mechanisms know better).
        """
        everybody, spread = np.eye(1, self.k)[0], np.full(self.k, 1 / self.k)
        largest = max(float(self.variance(f, n=1).max()) for f in (everybody, spread))
        return np.broadcast_to(total**2 * largest, np.broadcast_shapes(own.shape, total.shape))

    def total_variance(self, size: float, fraction: float, *, n: int) -> float:
        """At most the variance of the estimated fraction of n people with one of ``size`` answers.

        Which this fraction of them has; by these answers or by the others, as :meth:`totals` does.
        """
        own, sizes = np.array([0.0, 1.0]), np.array([size, self.k - size])
        direct, other = (self.total_spread(own, each, each) for each in sizes)
        spread = direct if direct.max() <= other.max() else other[::-1]
        return float((1 - fraction) * spread[0] + fraction * spread[1]) / n

    def totals(
        self, estimate: Estimate, starts: Codes, stops: Codes, *, last: float = 0.0
    ) -> Estimate:
        """Fractions of people with an answer from a start up to a stop, with their errors.

        ``last`` is the weight of the last answer in totals that stop before it. What is estimated
        is the total or, as everybody has one answer, what is left of 1 by the rest: whichever has
        the smaller error, which is known before the data is. The variance is that of one report's
        part, given each answer, and at most linear in the fraction (see :meth:`total_spread`).
        """
        sums, before = np.append(0.0, np.cumsum(estimate.unbiased)), stops < self.k
        values = sums[stops] - sums[starts] + np.where(before, last, 0.0) * (sums[-1] - sums[-2])
        return self.sums(estimate, values, stops - starts, before=before, last=last)

    def sums(
        self,
        estimate: Estimate,
        values: Array,
        sizes: Codes,
        *,
        before: Flags | bool = False,
        last: float = 0.0,
    ) -> Estimate:
        """Fractions of people with one of so many answers, whose unbiased estimates sum to values.

        As of :meth:`totals`, whichever answers these are; ``last`` is added ``before`` the last.
        """
        beside, size = np.where(before, last, 0.0), sizes.astype(np.float64)

        def spread(own: Sequence[float], size: Array, beside: Array) -> Array:
            """Of people outside, inside and with the last answer (rows)."""
            total = size + beside
            return self.total_spread(np.minimum.outer(own, total), total, size + beside**2)

        direct = spread([0.0, 1.0, last], size, beside)
        other = spread([1.0, 0.0, 1 - last], self.k - before - size, before - beside)
        nearer = direct.max(axis=0) <= other.max(axis=0)
        nobody, everybody, some = np.where(nearer, direct, other)
        slope = everybody - nobody
        nobody = nobody + np.maximum(0.0, some - nobody - last * slope)
        values = np.where(nearer, values, values + 1 - estimate.unbiased.sum())
        # Linear beyond 0 and 1 too, as limits take it to be; at least half of the least there is.
        least = np.minimum(nobody, everybody) / 2
        return Estimate(
            values,
            np.sqrt(np.maximum(nobody + slope * values, least) / estimate.n),
            estimate.n,
            variance_slope=slope / estimate.n,
            step=estimate.step,
            granularity=estimate.granularity,
        )

    def spread(self, weights: Array) -> Array:
        """The variance of one person's part in Σ w_j f̂_j (rows), given the own answer (columns).

        At most, by :meth:`total_spread`, and for rows of one sign; if ``signed`` it is exact, and
        for any weights.
        """
        own = weights if self.signed else np.abs(weights)
        total, squares = (part.sum(axis=1, keepdims=True) for part in (own, own**2))
        return np.asarray(self.total_spread(own, total, squares))

    def balanced(self, weights: Array) -> tuple[Array, Array]:
        """Numbers c and weights v with Σ w_j f_j = c + Σ v_j f_j (rows), and a small error of that.

        Everybody has one answer, so that any number may be taken off all weights. It is their mean,
        which is best if the errors of all answers are alike. Of weights of two values it is one of
        both, so that sums of some answers are those of :meth:`sums`; and so it is if variances are
        known for weights of one sign only. It depends on the weights alone, not on the data.
        """
        low, span, scaled = units(weights)
        two = ((scaled == 0) | (scaled == 1)).all(axis=1)
        off = np.where(two, self._off_two(scaled.sum(axis=1)), scaled.mean(axis=1))
        if not self.signed:
            direct, other = (self.spread(each).max(axis=1) for each in (scaled, 1 - scaled))
            off = np.where(two, off, direct > other)
        return low + span * off, span[:, None] * (scaled - off[:, None])

    def _off_two(self, sizes: Array) -> Array:
        """0 if so many answers are estimated by themselves, 1 if by the others."""
        ends, others = np.array([[0.0], [1.0]]), self.k - sizes
        direct = self.total_spread(np.minimum(ends, sizes), sizes, sizes)
        other = self.total_spread(np.minimum(1 - ends, others), others, others)
        return np.where(direct.max(axis=0) <= other.max(axis=0), 0.0, 1.0)

    def weighted(self, estimate: Estimate, weights: Array) -> Estimate:
        """Unbiased estimates of Σ w_j f_j, a row of weights from 0 to 1 for each of them.

        The errors are those of Σ v_j f̂_j (see :meth:`balanced`), whose variance given the data is
        the mean of :meth:`spread` over all people. Its standard errors are estimates of that, its
        limits use bounds (:class:`~shoal.intervals.estimates.WeightedTotals`). Mechanisms whose
        errors have a known law use that.
        """
        offsets, parts = self.balanced(weights)
        spread = self.spread(parts)
        values = offsets + parts @ estimate.unbiased
        line = LinearTotals.of(values, weights, spread, estimate)
        offsets, parts = self.balanced(spread)
        means = offsets + parts @ estimate.unbiased
        errors = np.sqrt(np.maximum(means, spread.min(axis=1) / 2) / estimate.n)
        return WeightedTotals(
            values,
            np.where(line.straight, line.standard_errors, errors),
            estimate.n,
            step=estimate.step,
            granularity=estimate.granularity,
            line=line,
            spreads=LinearTotals.of(means, spread, self.spread(parts), estimate),
            largest=spread.max(axis=1),
        )

    def weighted_variance(self, weights: Array, frequencies: Array, *, n: int) -> Array:
        """The variance of :meth:`weighted`, given the true fractions, for weights of any size.

        Exact, or an upper bound where :meth:`spread` is one.
        """
        return np.asarray(self.spread(self.balanced(weights)[1]) @ frequencies / n)

    def covariance(self, estimate: Estimate) -> Array | None:  # noqa: ARG002
        """The covariance matrix of the estimated fractions, where there is a formula for it."""
        return None

    def errors(self, n: int) -> Errors:
        """Errors when everybody's answers are spread evenly.

        The total is the same for any data with most mechanisms; an empty answer's error is
        separate.
        """
        k = self.k
        even = n * np.sqrt(self.variance(np.full(k, 1 / k), n=n))
        empty = np.zeros(k)
        empty[0] = 1.0
        cell = n * math.sqrt(float(self.variance(empty, n=n)[-1]))
        errors = 1 if k == 2 and self.one_error else k
        largest = expected_largest(even[:errors])
        if self.laplace:
            largest = cell * largest_laplace(errors)
        return Errors(l2=float(np.linalg.norm(even)), linf=largest, cell=cell)

    def gap(self, first: int, second: int) -> Gap | None:
        """The estimated fraction of one answer, less that of the other."""

        def gap(counts: Counts) -> float:
            fractions = self.estimate(counts).frequencies
            return float(fractions[first] - fractions[second])

        return gap


class DataFree(AnswerEstimator):
    """Of the fraction of each of k answers, with errors whose law does not depend on the data."""

    signed = True

    @abstractmethod
    def sum_error(self, weights: Array, n: int) -> ErrorLaw:
        """Of a sum of so many counts with these weights."""

    def weighted(self, estimate: Estimate, weights: Array) -> Estimate:
        """From the law of the errors."""
        offsets, parts = self.balanced(weights)
        errors = [self.sum_error(row, estimate.n) for row in parts]
        return KnownErrors.of(offsets + parts @ estimate.unbiased, errors, n=estimate.n)

    def weighted_variance(self, weights: Array, frequencies: Array, *, n: int) -> Array:  # noqa: ARG002
        """Exact, and the same for all data."""
        parts = self.balanced(weights)[1]
        return np.array([self.sum_error(row, n).variance / n**2 for row in parts])

    def variance(self, frequencies: npt.ArrayLike | None = None, *, n: int) -> Array:
        """The same for every answer, whatever its fraction."""
        shape = np.shape(frequencies)  # type: ignore[arg-type]  # of answers there are some
        return np.full(shape, self.sum_error(np.ones(1), n).variance / n**2)


@dataclass(frozen=True)
class Support:
    """Estimation from supports: a message supports its own answer more often than any other.

    If a message supports the true answer with probability P and each other answer with probability
    Q < P, then ``(C/n - Q)/(P - Q)`` is an unbiased estimate of an answer's fraction, C being the
    number of messages that support it, with variance

        [f P (1 - P) + (1 - f) Q (1 - Q)] / (n (P - Q)^2)

    given the data (Wang, Blocki, Li, Jha, "Locally Differentially Private Protocols for Frequency
    Estimation", USENIX Security 2017).
    """

    true: float
    other: float

    def variance(self, frequencies: npt.ArrayLike, *, n: int) -> Array:
        f = np.asarray(frequencies, dtype=np.float64)
        each = f * self.true * (1 - self.true) + (1 - f) * self.other * (1 - self.other)
        return each / (n * (self.true - self.other) ** 2)


@dataclass(frozen=True)
class Supported(AnswerEstimator):
    """From how many messages support each answer, each as often as any other.

    ``joint`` is at most how often a message supports two other answers, and the true one and
    another; ``independent`` says that it supports each by a coin of its own.
    """

    k: int
    support: Support
    joint: Span
    independent: bool = False

    def estimate(self, counts: Counts) -> Estimate:
        """Unbiased estimates of the fraction of each answer, from the messages that support it."""
        true, other = self.support.true, self.support.other
        fractions = (counts.cells / counts.n - other) / (true - other)
        # The variance is linear in the fraction, so unbiased fractions give it without bias; an
        # answer nobody gave still has at least its noise.
        least = min(true * (1 - true), other * (1 - other)) / 2
        floor = least / (counts.n * (true - other) ** 2)
        variances = np.maximum(self.support.variance(fractions, n=counts.n), floor)
        nobody, everybody = self.support.variance([0.0, 1.0], n=counts.n).tolist()
        step = 1 / (counts.n * (true - other))
        # With few messages that lie, counts are far from normal and move in whole steps.
        lies = counts.n * other * (1 - other)
        return Estimate(
            fractions,
            np.sqrt(variances),
            counts.n,
            variance_slope=everybody - nobody,
            step=step,
            granularity=step / (1 + lies / 3),
            empty_error=math.sqrt(nobody),
        )

    def variance(self, frequencies: npt.ArrayLike | None = None, *, n: int) -> Array:
        """Variance of each estimated fraction, given the true ones."""
        return self.support.variance([] if frequencies is None else frequencies, n=n)

    signed = True  # if ``joint`` is exact

    def total_spread(self, own: Array, total: Array, squares: Array) -> Array:
        """Of the weights of the answers that a message supports, over P - Q."""
        variance = self._variance(own, total, squares)
        return np.asarray(np.maximum(variance, 0.0) / (self.support.true - self.support.other) ** 2)

    def _variance(self, own: Array, total: Array, squares: Array) -> Array:
        """Of the weights of the answers that a message supports."""
        true, other = self.support.true, self.support.other
        two, with_truth = self.joint
        rest, rest_squares = total - own, squares - own**2
        second = own**2 * true + rest_squares * other
        second = second + 2 * own * rest * with_truth + (rest**2 - rest_squares) * two
        mean = own * true + rest * other
        return second - mean**2

    def spread(self, weights: Array) -> Array:
        """Of the weights of the answers that a message supports, over P - Q."""
        if not self.signed:
            return super().spread(weights)
        total, squares = (part.sum(axis=1, keepdims=True) for part in (weights, weights**2))
        variance = self._variance(weights, total, squares) + self.pairs(weights)
        return np.asarray(np.maximum(variance, 0.0) / (self.support.true - self.support.other) ** 2)

    def pairs(self, weights: Array) -> Array | float:  # noqa: ARG002
        """What answers add that are supported together more often, or less, than ``joint`` says."""
        return 0.0

    @property
    def one_error(self) -> bool:  # type: ignore[override]  # computed
        """If every message supports one of two answers."""
        both = np.array([2.0])
        return float(self.total_spread(both / 2, both, both)[0]) < _ROUNDING

    @property
    def reach(self) -> Span:  # type: ignore[override]  # computed
        """Without and with a message that supports the answer."""
        true, other = self.support.true, self.support.other
        return -other / (true - other), (1 - other) / (true - other)

    def covariance(self, estimate: Estimate) -> Array | None:
        """Of independent coins, which have no covariance."""
        if not self.independent:
            return None
        return np.diag(self.variance(estimate.frequencies, n=estimate.n))


def over_pairs(weights: Array, together: Callable[[int], Array]) -> Array:
    """Σ_j Σ_l w_j w_l t_jl for rows of weights; each own answer (columns) has a matrix t."""
    answers = range(weights.shape[1])
    return np.stack([((weights @ together(x)) * weights).sum(axis=1) for x in answers], axis=1)


# ------------------------------------------------------------------------------ of numbers, vectors


class MeanEstimator(Estimator[E_co]):
    """Of the mean of numbers, or of vectors."""

    def errors(self, n: int) -> Errors:
        """Root mean square of the error of the estimated sum, or its length, in the worst case."""
        deviation = n * math.sqrt(self.variance(n=n))
        return Errors(deviation, deviation, deviation)

    def gap(self, first: Any, second: Any) -> Gap | None:  # noqa: ANN401
        """The estimated mean, along the direction from one number or vector to the other."""
        apart, estimate = np.subtract(first, second, dtype=np.float64), cast("Any", self.estimate)
        return lambda counts: float(np.dot(estimate(counts).mean, apart))


@dataclass(frozen=True, eq=False)
class Means(MeanEstimator[E_co]):
    """By the ``mean`` of counts that a mechanism computes.

    ``largest`` is the largest variance (expected squared length of the error) of the mean of so
    many people, over all data.
    """

    mean: Callable[[Counts], E_co]
    largest: Callable[[int], float]
    reach: Span | None = None

    def estimate(self, counts: Counts) -> E_co:
        """Unbiased estimate of the mean, with its error."""
        return self.mean(counts)

    def variance(self, frequencies: npt.ArrayLike | None = None, *, n: int) -> float:  # noqa: ARG002
        """Largest variance of the mean of n people, over their data."""
        return self.largest(checks.count(n=n))


# ----------------------------------------------------------------------------- the largest of many


def largest_laplace(k: int) -> float:
    """E max of k Laplace variables, in standard deviations: the k-th harmonic number / sqrt 2."""
    return float(np.sum(1 / np.arange(1, k + 1))) / math.sqrt(2)


def expected_largest(deviations: Array) -> float:
    """E max |N_i| for independent normals: int_0^inf (1 - prod Pr[|N_i| <= t]) dt."""
    values, counts = np.unique(deviations.round(9), return_counts=True)
    top = float(values[-1])
    if top == 0:
        return 0.0
    reach = top * (2 + math.sqrt(2 * math.log(2 * deviations.size)))
    # Tanh-sinh quadrature: a smooth integrand costs no more than a few hundred values of it.
    places = np.linspace(-_EDGE, _EDGE, _NODES)
    steep = math.pi / 2 * np.sinh(places)
    times = reach * (1 + np.tanh(steep)) / 2
    weights = math.pi / 4 * np.cosh(places) / np.cosh(steep) ** 2 * (places[1] - places[0])
    with np.errstate(divide="ignore"):  # log Pr[all |N_i| <= t]
        inside = np.log(_erf(times[:, None] / (math.sqrt(2) * values))) @ counts
    return float(-np.expm1(inside) @ weights * reach)
