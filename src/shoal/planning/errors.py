"""Predicted errors of charts and sums, in people."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, cast

import numpy as np

from shoal.mechanisms.base import Device
from shoal.mechanisms.estimators import Errors, expected_largest, largest_laplace

if TYPE_CHECKING:
    from shoal.mechanisms.estimators import AnswerEstimator
    from shoal.planning.planner import Question

_SAMPLED_CELLS = 100_000


def predicted(device: Device, question: Question) -> Errors:
    """Errors for all n people of the question when only some of them report.

    Counts of those who report are scaled by n/reporting, and who reports is chance: that adds
    n^2 (1/reporting - 1/n) times the spread of one person's answer to the squared error.
    """
    n = question.n
    reporting = max(1, math.floor(n * question.participation))
    own = device.estimator.errors(reporting)
    if reporting >= n:
        return own
    scale = n / reporting
    sampling = n**2 * (1 / reporting - 1 / n) * question.domain.spread
    l2 = math.hypot(scale * own.l2, math.sqrt(sampling))
    return Errors(l2, scale * own.linf * l2 / (scale * own.l2), scale * own.cell)


def of_total(device: Device, question: Question, fraction: float) -> float:
    """Of the count of neighbouring answers, this part of all, which as many people give.

    A quantile of numbers in bins is read from such a count. Who reports is chance, as above.
    """
    n, estimator = question.n, cast("AnswerEstimator", device.estimator)
    reporting = max(1, math.floor(n * question.participation))
    noise = estimator.total_variance(fraction * estimator.k, fraction, n=reporting)
    return n * math.sqrt(noise + (1 / reporting - 1 / n) * fraction * (1 - fraction))


def central(k: int, epsilon: float) -> Errors:
    """A trusted curator's discrete Laplace noise: replacing one answer changes two counts by 1.

    Of two answers one count is enough, because the number of people is public.
    """
    one_is_enough = k == 2
    rate = epsilon if one_is_enough else epsilon / 2
    cell = math.sqrt(0.5) * _inverse_sinh(rate / 2)  # sqrt(2 a)/(1 - a) for a = e^-rate
    noises = 1 if one_is_enough else k
    return Errors(cell * math.sqrt(k), cell * largest_laplace(noises), cell)


def local(k: int, epsilon: float, n: int) -> Errors:
    """The best that is known without a shuffler: 4 e/(e - 1)^2 n per answer, e = e^epsilon."""
    cell = math.sqrt(n) * _inverse_sinh(epsilon / 2)
    return Errors(
        cell * math.sqrt(k), expected_largest(np.full(min(k, _SAMPLED_CELLS), cell)), cell
    )


def _inverse_sinh(x: float) -> float:
    """1/sinh(x) for x > 0, which no x overflows."""
    return 2 * math.exp(-x) / -math.expm1(-2 * x)
