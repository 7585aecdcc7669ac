"""Predicted errors of charts and sums, in people."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, cast

import numpy as np

from shoal.mechanisms.base import Device
from shoal.mechanisms.estimators import Errors, expected_largest, largest_laplace

if TYPE_CHECKING:
    from shoal.mechanisms.estimators import AnswerEstimator
    from shoal.planning.planner import Setting

_SAMPLED_CELLS = 100_000


def of_total(device: Device, setting: Setting, fraction: float) -> float:
    """Of the count of neighbouring answers, this part of all, which as many people give.

    A quantile of numbers in bins is read from such a count. Who reports is chance, as above.
    """
    n, reporting = setting.n, setting.reporting
    estimator = cast("AnswerEstimator", device.estimator)
    noise = estimator.total_variance(fraction * estimator.k, fraction, n=reporting)
    return n * math.sqrt(noise + (1 / reporting - 1 / n) * fraction * (1 - fraction))


def central(k: int, changed: int, epsilon: float) -> Errors:
    """A trusted curator's discrete Laplace noise on k counts, so many ``changed`` by one person.

    Of two answers one count is enough, because the number of people is public.
    """
    rate = epsilon / changed
    cell = math.sqrt(0.5) * _inverse_sinh(rate / 2)  # sqrt(2 a)/(1 - a) for a = e^-rate
    noises = 1 if (k, changed) == (2, 1) else k
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
