"""A bound on eigenvalues from random starts, which fails with a stated probability.

Let T = S without its first eigenvector, λ its eigenvalue of largest size with unit eigenvector q,
x uniform in the cube [-1/2, 1/2]^n, and T_k Chebyshev's polynomial. For any θ > 0

    ‖T_k(T/θ) x‖ >= |x·q| T_k(|λ|/θ),        so that, if |x·q| >= τ and |λ| >= θ,

    |λ| <= θ cosh(arcosh(‖T_k(T/θ) x‖/τ)/k).

The density of x·q is at most √2 (Ball 1986, Cube slicing in R^n, Proc. AMS 97): |x·q| < τ has
probability at most 2√2 τ, and it happens to all of m independent starts with (2√2 τ)^m at most.
That is the only event in which the bound fails; θ and k may be chosen after seeing x. This is the
argument of Kuczyński and Woźniakowski (1992, Estimating the largest eigenvalue by the power and
Lanczos algorithms with a random start, SIAM J. Matrix Anal. Appl. 13) with a polynomial chosen
beforehand instead of the one that Lanczos finds, because rounding can then be followed:

The components a_j of the computed vectors along q obey a_(j+1) = 2 (λ/θ) a_j - a_(j-1) + e_j with
|e_j| <= e = u (2/θ) (2 r + 2 s + 64) max_j ‖w_j‖, r the longest row and s
the roundings of an entry, so that a_k differs from T_k a_0 by
at most e Σ_(i<k) U_i(λ/θ) <= e T_k(λ/θ) k (k + 1)/2, as U_i <= (i + 1) T_i where they are >= 1. It
suffices to take τ - e k (k + 1)/2 in the place of τ. Where more eigenvectors are taken out than the
first, what leaks back from them adds to e.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from shoal.network import kernels
from shoal.network.certificates.operator import Operator, cube_points
from shoal.randomness import Randomness
from shoal.values import Array

_FEW = 1e-3  # the failure probability of one start, or somewhat less
_MOST_STEPS = 20_000
_ATTEMPTS = 8
_LEAST = 1e-3  # an interval narrower than this would gain nothing
_ROOM = 0.25  # of τ, for rounding errors
_GROWN = 1e4  # θ was so small that vectors grow: choose another
_SLACK = 1e-12  # relative error of cosh and arcosh, with plenty to spare


@dataclass(frozen=True)
class Chances:
    """How many starts, and how small their parts along an eigenvector may be."""

    starts: int
    smallest: float

    @classmethod
    def of(cls, failure: float, n: int) -> Chances:
        """So that all starts fall short with probability at most ``failure``."""
        starts = max(1, math.ceil(math.log(failure) / math.log(_FEW)))
        each = failure ** (1 / starts) * (1 - _SLACK)
        coarse = 2.0**-53 * math.sqrt(n)  # between a point drawn and a uniform one
        return cls(starts, each / (2 * math.sqrt(2)) - coarse)


def certified(
    operator: Operator, *, failure: float, precision: float, randomness: Randomness
) -> float:
    """An upper bound on every eigenvalue's size but the first's, with this failure probability."""
    chances = Chances.of(failure, operator.n)
    starts = operator.deflated(cube_points(operator.n, chances.starts, randomness))
    suggested = operator.estimate(starts[:, 0], precision=precision)
    best = 1.0
    for _ in range(_ATTEMPTS):
        interval = max(suggested + precision / 4 * (1 - suggested), _LEAST)
        recurrence = _Recurrence(operator, interval, chances)
        best = min(best, recurrence.proved(starts, precision))
        if not recurrence.outgrown:
            break
        suggested = recurrence.seen  # more than the estimate showed
    return best


class _Recurrence:
    """T_k(T/θ) x for k = 1, 2, ..., its size, and what that proves."""

    def __init__(self, operator: Operator, interval: float, chances: Chances) -> None:
        self._operator, self._interval, self._chances = operator, interval, chances
        roundings = 2 * kernels.longest_row(operator.matrix) + 2 * operator.roundings + 64
        self._error = 2 / interval * (kernels.UNIT * roundings + operator.leak)
        self.outgrown = False
        self.seen = interval  # of the largest eigenvalue, at least

    def proved(self, starts: Array, precision: float) -> float:
        """The best bound of all steps; each is a bound unless every start fell short."""
        first = largest = _norm(starts)
        before, now = starts, self._image(starts, 1 / self._interval)
        best = 1.0
        for step in range(1, self._steps(first, precision) + 1):
            size = _norm(now)
            largest = max(largest, size)
            noise = self._error * largest * (step * (step + 1) / 2 + 1)
            if noise > _ROOM * self._chances.smallest:
                break
            best = min(best, self._bound(size, self._chances.smallest - noise, step))
            self.outgrown = size > _GROWN * first
            if self.outgrown:
                # ‖T_k(T/θ) x‖ <= T_k(|λ|/θ) ‖x‖: not proved to the last digit, but a good hint.
                self.seen = self._interval * math.cosh(math.acosh(size / first) / step)
                break
            after = self._image(now, 2 / self._interval)
            after -= before
            before, now = now, self._operator.deflated(after)
        return best

    def _image(self, vectors: Array, scale: float) -> Array:
        image = np.asarray(self._operator.matrix @ vectors)
        image *= scale
        return image

    def _steps(self, first: float, precision: float) -> int:
        """As many as take the bound to within ``precision`` of the gap."""
        rate = math.acosh(1 + precision * (1 - self._interval) / self._interval + _SLACK)
        return min(_MOST_STEPS, math.ceil(math.acosh(first / self._chances.smallest) / rate))

    def _bound(self, size: float, smallest: float, step: int) -> float:
        angle = math.acosh(max(size / smallest, 1.0)) / step
        if angle > 1:  # nothing below 1 comes of that, and cosh might overflow
            return 1.0
        return self._interval * math.cosh(angle) * (1 + _SLACK)


def _norm(vectors: Array) -> float:
    return float(np.sqrt(np.einsum("ij,ij->j", vectors, vectors).max())) * (1 + _SLACK)
