"""Predicted errors of charts and sums, in people."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

import numpy as np

from shoal.mechanisms.base import AnswerMechanism, Mechanism, NumberMechanism, VectorMechanism
from shoal.values import Array

if TYPE_CHECKING:
    from shoal.planning.planner import Question

_SAMPLED_CELLS = 100_000
_NODES = 512  # of a quadrature whose error is far below any digit that is shown
_EDGE = 3.2
_erf = np.vectorize(math.erf, otypes=[float])  # of few values: loading SciPy's takes longer


@dataclass(frozen=True)
class Errors:
    """Expected errors of estimated counts (of the estimated sum, for numbers and vectors)."""

    l2: float  # root mean square of the Euclidean error over all answers
    linf: float  # expected largest error of any answer
    cell: float  # standard deviation of an answer that nobody gave


def predicted(randomizer: Mechanism, question: Question) -> Errors:
    """Errors for all n people of the question when only some of them report.

    Counts of those who report are scaled by n/reporting, and who reports is chance: that adds
    n^2 (1/reporting - 1/n) times the spread of one person's answer to the squared error.
    """
    n = question.n
    reporting = max(1, math.floor(n * question.participation))
    if isinstance(randomizer, AnswerMechanism):
        own = of_categories(randomizer, reporting)
        spread = 1 - 1 / randomizer.k  # of one person's answer, over all answers together
    elif isinstance(randomizer, NumberMechanism):
        own = of_numbers(randomizer, reporting)
        spread = ((randomizer.high - randomizer.low) / 2) ** 2
    else:
        # Root of the mean squared length of the error of the estimated sum, in the worst case.
        vectors, ball = cast("VectorMechanism", randomizer), question.ball
        variance = ball.variance(vectors, n=reporting) if ball else vectors.variance(n=reporting)
        length = reporting * math.sqrt(variance)
        own, spread = Errors(length, length, length), (question.norm or 1.0) ** 2
    if reporting >= n:
        return own
    scale = n / reporting
    sampling = n**2 * (1 / reporting - 1 / n) * spread
    l2 = math.hypot(scale * own.l2, math.sqrt(sampling))
    return Errors(l2, scale * own.linf * l2 / (scale * own.l2), scale * own.cell)


def of_total(randomizer: AnswerMechanism, question: Question, fraction: float) -> float:
    """Of the count of neighbouring answers, this part of all, which as many people give.

    A quantile of numbers in bins is read from such a count. Who reports is chance, as above.
    """
    n = question.n
    reporting = max(1, math.floor(n * question.participation))
    noise = randomizer.total_variance(fraction * randomizer.k, fraction, n=reporting)
    return n * math.sqrt(noise + (1 / reporting - 1 / n) * fraction * (1 - fraction))


def of_categories(randomizer: AnswerMechanism, n: int) -> Errors:
    """Errors when everybody's answers are spread evenly.

    The total is the same for any data with most randomizers; an empty answer's error is separate.
    """
    k = randomizer.k
    even = n * np.sqrt(randomizer.variance(np.full(k, 1 / k), n=n))
    empty = np.zeros(k)
    empty[0] = 1.0
    cell = n * math.sqrt(float(randomizer.variance(empty, n=n)[-1]))
    errors = 1 if k == 2 and randomizer.one_error else k
    largest = (
        cell * _largest_laplace(errors) if randomizer.laplace else expected_largest(even[:errors])
    )
    return Errors(l2=float(np.linalg.norm(even)), linf=largest, cell=cell)


def of_numbers(randomizer: NumberMechanism, n: int) -> Errors:
    """Standard deviation of the estimated sum in the worst case of the data."""
    deviation = n * math.sqrt(randomizer.variance(n=n))
    return Errors(deviation, deviation, deviation)


def central(k: int, epsilon: float) -> Errors:
    """A trusted curator's discrete Laplace noise: replacing one answer changes two counts by 1.

    Of two answers one count is enough, because the number of people is public.
    """
    one_is_enough = k == 2
    rate = epsilon if one_is_enough else epsilon / 2
    cell = math.sqrt(0.5) * _inverse_sinh(rate / 2)  # sqrt(2 a)/(1 - a) for a = e^-rate
    noises = 1 if one_is_enough else k
    return Errors(cell * math.sqrt(k), cell * _largest_laplace(noises), cell)


def local(k: int, epsilon: float, n: int) -> Errors:
    """The best that is known without a shuffler: 4 e/(e - 1)^2 n per answer, e = e^epsilon."""
    cell = math.sqrt(n) * _inverse_sinh(epsilon / 2)
    return Errors(
        cell * math.sqrt(k), expected_largest(np.full(min(k, _SAMPLED_CELLS), cell)), cell
    )


def _largest_laplace(k: int) -> float:
    """E max of k Laplace variables, in standard deviations: the k-th harmonic number / sqrt 2."""
    return float(np.sum(1 / np.arange(1, k + 1))) / math.sqrt(2)


def _inverse_sinh(x: float) -> float:
    """1/sinh(x) for x > 0, which no x overflows."""
    return 2 * math.exp(-x) / -math.expm1(-2 * x)


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
