"""Estimation from supports: a message supports its own answer more often than any other.

If a message supports the true answer with probability P and each other answer with probability
Q < P, then ``(C/n - Q)/(P - Q)`` is an unbiased estimate of an answer's share, C being the number
of messages that support it, with variance

    [f P (1 - P) + (1 - f) Q (1 - Q)] / (n (P - Q)^2)

given the data (Wang, Blocki, Li, Jha, "Locally Differentially Private Protocols for Frequency
Estimation", USENIX Security 2017).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from shoal.values import Array, Counts, Estimate


@dataclass(frozen=True)
class Support:
    """Pr[a message supports the true answer], and Pr[it supports another given answer]."""

    true: float
    other: float

    def estimate(self, counts: Counts) -> Estimate:
        """Shares from the numbers of supporting messages, errors from the estimated shares."""
        shares = (counts.cells / counts.n - self.other) / (self.true - self.other)
        # The variance is linear in the share, so the unbiased shares give it without bias; an
        # answer nobody gave still has at least its noise.
        least = min(self.true * (1 - self.true), self.other * (1 - self.other)) / 2
        floor = least / (counts.n * (self.true - self.other) ** 2)
        variances = np.maximum(self.variance(shares, n=counts.n), floor)
        nobody, everybody = self.variance([0.0, 1.0], n=counts.n).tolist()
        step = 1 / (counts.n * (self.true - self.other))
        # With few messages that lie, counts are far from normal and move in whole steps.
        lies = counts.n * self.other * (1 - self.other)
        return Estimate(
            shares,
            np.sqrt(variances),
            counts.n,
            variance_slope=everybody - nobody,
            step=step,
            granularity=step / (1 + lies / 3),
            empty_error=math.sqrt(nobody),
        )

    def variance(self, frequencies: npt.ArrayLike, *, n: int) -> Array:
        """Variance of each estimated share, given the true ones."""
        f = np.asarray(frequencies, dtype=np.float64)
        each = f * self.true * (1 - self.true) + (1 - f) * self.other * (1 - self.other)
        return each / (n * (self.true - self.other) ** 2)
